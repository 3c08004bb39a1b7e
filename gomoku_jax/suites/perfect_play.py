"""Perfect play on solved boards: how much of what a position is worth does a move keep, and a value see?

The positions come from `experiments/solve.py`, with the exact value of every legal move. In each of them some
move is better than another.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.arena import wilson_interval
from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.encode import legal_action_masks, states_from_positions
from gomoku_jax.game import Gomoku, State
from gomoku_jax.inference import prepare
from gomoku_jax.network import Params
from gomoku_jax.players import Player
from gomoku_jax.search import mask_logits, network_evaluator, search_with

SOLVED_FOLDER = pathlib.Path(__file__).parent / "solved"
ILLEGAL = -2  # in `values`, where no move is possible
CHUNK = 256  # positions searched at once: 1600 simulations on 6x6 take a quarter of a gigabyte


@dataclasses.dataclass(frozen=True, eq=False)
class SolvedPositions:
    """Positions of one game with the value of every move; M of them, NumPy.

    Attributes:
        game: the board and rule.
        board: int8 [M, H, W], nobody has won and not all moves are equal.
        to_play: int8 [M].
        last_action: int32 [M], the last stone of the opponent.
        values: int8 [M, A], what each move is worth to who plays it, with perfect play after it: 1 a win, 0 a
            draw, -1 a loss; -2 where it is illegal.
    """

    game: Gomoku
    board: np.ndarray
    to_play: np.ndarray
    last_action: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.board)

    @property
    def value(self) -> np.ndarray:
        """int8 [M]: what the positions are worth to the side to move."""
        return self.values.max(-1)

    @property
    def keeps(self) -> np.ndarray:
        """bool [M, A]: the moves that keep the position's value."""
        return self.values == self.value[:, None]

    def states(self) -> State:
        """The positions as states [M]."""
        return states_from_positions(
            jnp.asarray(self.board), jnp.asarray(self.to_play), jnp.asarray(self.last_action)
        )

    def take(self, count: int) -> "SolvedPositions":
        """The first `count` positions; they are in random order."""
        return dataclasses.replace(
            self,
            board=self.board[:count],
            to_play=self.to_play[:count],
            last_action=self.last_action[:count],
            values=self.values[:count],
        )

    def after(self) -> tuple["SolvedPositions", np.ndarray]:
        """Positions one move later and their exact values, to see whether losses are known too.

        Of each position the one after the first move that keeps its value and does not end the game, in an
        order that differs from position to position; positions without such a move are left out.

        Returns:
            Positions (whose `values` are not known: all -2), and int8 [M'] their values for the side to move.
        """
        kept, values = [], []
        boards, to_plays, actions = [], [], []
        points = self.game.num_actions
        candidates = np.stack([np.roll(np.arange(points), -7 * i % points) for i in range(len(self))])
        states = self.states()
        wins = jax.vmap(self.game.winning_actions)(states, states.to_play)
        ended = np.asarray(wins | (states.move_count == points - 1)[:, None])
        for i in range(len(self)):
            good = [a for a in candidates[i] if self.keeps[i, a] and not ended[i, a]]
            if not good:
                continue
            board = self.board[i].copy().reshape(-1)
            board[good[0]] = self.to_play[i]
            boards.append(board.reshape(self.game.shape))
            to_plays.append(-self.to_play[i])
            actions.append(good[0])
            values.append(-self.value[i])
            kept.append(np.full(points, ILLEGAL))
        empty = (0, *self.game.shape)
        return (
            SolvedPositions(
                self.game,
                np.asarray(boards, np.int8).reshape(empty if not boards else (-1, *self.game.shape)),
                np.asarray(to_plays, np.int8),
                np.asarray(actions, np.int32),
                np.asarray(kept, np.int8).reshape(-1, points),
            ),
            np.asarray(values, np.int8),
        )


def solved_sets() -> list[str]:
    """The names of the sets inside the package, smallest board first: "3x3x3" to "6x6x4"."""
    names = [path.stem for path in SOLVED_FOLDER.glob("*.npz")]
    return sorted(names, key=lambda name: [int(part) for part in name.split("x")])


def set_name(game: Gomoku) -> str:
    """What the set of a game is called."""
    suffix = "" if game.rule == "freestyle" else f"-{game.rule}"
    return f"{game.height}x{game.width}x{game.k}{suffix}"


@functools.lru_cache(maxsize=16)
def load_solved(game: Gomoku) -> SolvedPositions:
    """The solved positions of a game.

    Raises:
        ValueError: there is no set for it; the message lists those that there are.
    """
    path = SOLVED_FOLDER / f"{set_name(game)}.npz"
    if not path.is_file():
        raise ValueError(f"no solved positions for {game}: there are {', '.join(solved_sets())}, freestyle")
    with np.load(path) as data:
        return SolvedPositions(game, data["board"], data["to_play"], data["last_action"], data["values"])


@dataclasses.dataclass(frozen=True)
class Share:
    """How many of how many, with Wilson's interval at 95 %."""

    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        return wilson_interval(self.share, self.total) if self.total else (0.0, 1.0)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.share:.3f} [{low:.3f}, {high:.3f}]"


@dataclasses.dataclass(frozen=True)
class PerfectPlay:
    """How close to perfect an agent is on solved positions.

    Attributes:
        num_simulations: a move; 0 is the network alone.
        kept: moves that keep the position's value.
        sign_errors: won positions whose value is not above 0, and lost ones whose value is not below it.
        value_error: mean distance of the value (under search, of the move that is played) from the exact
            one, over the positions and those one move later, in [0, 2].
        value_error_interval: of that mean, at 95 %, by its standard error.
    """

    num_simulations: int
    kept: Share
    sign_errors: Share
    value_error: float
    value_error_interval: tuple[float, float]


def kept_share(player: Player, solved: SolvedPositions, seed: int = 0) -> Share:
    """The share of value-keeping moves of any player."""
    actions = _in_chunks(jax.jit(player), jax.random.key(seed), solved.states())
    return Share(int(solved.keeps[np.arange(len(solved)), actions].sum()), len(solved))


def measure_perfect_play(
    solved: SolvedPositions,
    network: NetworkConfig,
    params: Params,
    search: SearchConfig,
    num_simulations: Sequence[int] = (0, 32, 100, 400, 1600),
    seed: int = 0,
    later: bool = True,
) -> list[PerfectPlay]:
    """Moves and values of a network, alone and under search, against perfect play.

    Args:
        solved: the positions.
        network: of the parameters.
        params: float32 arrays.
        search: how it searches; noise is switched off.
        num_simulations: one result each; 0 is the network alone.
        seed: of ties in the search.
        later: values are looked at one move later too, which takes as long again; without, nearly all values
            are of won positions and say little.
    """
    after, after_values = solved.after() if later else (solved.take(0), solved.value[:0])
    exact = np.concatenate([solved.value, after_values]).astype(np.float32)
    results = []
    for number in num_simulations:
        choose = _chooser(solved.game, network, search, number)
        key = jax.random.key(seed)
        actions, values = _in_chunks(functools.partial(choose, params), key, solved.states())
        keeps = solved.keeps[np.arange(len(solved)), actions]
        if len(after):
            later = _in_chunks(functools.partial(choose, params), key, after.states())[1]
            values = np.concatenate([values, later])
        errors = np.abs(values - exact)
        decided = exact != 0
        wrong = decided & (values * exact <= 0)
        spread = 1.96 * float(errors.std(ddof=1)) / math.sqrt(len(errors)) if len(errors) > 1 else math.inf
        mean = float(errors.mean())
        results.append(
            PerfectPlay(
                num_simulations=number,
                kept=Share(int(keeps.sum()), len(keeps)),
                sign_errors=Share(int(wrong.sum()), int(decided.sum())),
                value_error=mean,
                value_error_interval=(max(0.0, mean - spread), min(2.0, mean + spread)),
            )
        )
    return results


def choose_and_value(
    game: Gomoku, network: NetworkConfig, search: SearchConfig, num_simulations: int
) -> Callable[[Params, jax.Array, State], tuple[jax.Array, jax.Array]]:
    """`(params, key, states [B]) -> (action int32 [B], value float32 [B])`, jittable, without noise.

    The value is the network's, or the search's of the move it plays: the root's mean counts the visits of bad
    moves too, of which Gumbel makes many.
    """
    evaluate = network_evaluator(game, network)

    def choose(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, jax.Array]:
        prepared = prepare(network, params)
        if num_simulations == 0:
            output = evaluate(prepared, states)
            logits = mask_logits(output.policy_logits, legal_action_masks(game, states))
            return jnp.argmax(logits, axis=-1).astype(jnp.int32), output.value
        found = search_with(game, evaluate, prepared, key, states, search.greedy(num_simulations))
        rows = jnp.arange(found.action.shape[0])
        tried = found.visit_counts[rows, found.action] > 0
        return found.action, jnp.where(tried, found.q_values[rows, found.action], found.root_value)

    return choose


@functools.lru_cache(maxsize=32)
def _chooser(game: Gomoku, network: NetworkConfig, search: SearchConfig, num_simulations: int):
    return jax.jit(choose_and_value(game, network, search, num_simulations))


def _in_chunks(function, key: jax.Array, states: State):
    """`function(key, states)` over chunks of one size, the last one filled up; results as NumPy [M, ...]."""
    total = states.to_play.shape[0]
    size = min(CHUNK, total)
    results = []
    for number, start in enumerate(range(0, total, size)):
        rows = jnp.minimum(jnp.arange(start, start + size), total - 1)
        chunk = jax.tree.map(lambda x, rows=rows: x[rows], states)
        results.append(jax.device_get(function(jax.random.fold_in(key, number), chunk)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:total], *results)
