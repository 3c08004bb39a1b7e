"""Positions in which the side to move wins by continuous fours, for all boards and rules, and who keeps it.

Made by rule and chance with fixed seeds: random stones around a random centre, kept where `solve_vcf` proves
a win that is not a win in one. No game and no agent has a part in them, so they are the same for all.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.arena import wilson_interval
from gomoku_jax.encode import states_from_positions
from gomoku_jax.game import Gomoku, State
from gomoku_jax.game.tables import line_table
from gomoku_jax.players import Player
from gomoku_jax.suites.tactics import ask_moves
from gomoku_jax.symmetry import canonical_board
from gomoku_jax.tactics import NONE, WON, Vcf, solve_vcf

# Plies of the shortest such win; the last stands for itself and all above.
LENGTHS: tuple[int, ...] = (3, 5, 7, 9)
MAX_DEPTH = 15  # plies looked at
_MAKING_NODES = 1000  # fours tried in a random position
_KEEPING_NODES = 20_000  # and after a player's move
_CHUNK = 1024  # positions solved at once
_MAX_ROUNDS = 60  # chunks of random positions, before groups that are rare on a board stay small
_MAX_IDLE = 10  # and chunks in a row with nothing new in them
_MAX_FILLED = 0.3  # most of the board's points that are taken
_MAX_SPREAD = 0.3  # standard deviation of the stones around the centre, of the board's longer side


@dataclasses.dataclass(frozen=True, eq=False)
class FoursSuite:
    """M positions of one game in which the side to move wins by continuous fours; NumPy.

    Attributes:
        game: the board and rule.
        board: int8 [M, H, W], +1 black, -1 white; no line of k stones or more is on it. Black to move has as
            many stones as white, white one less.
        to_play: int8 [M].
        last_action: int32 [M], a stone of the side that is not to move.
        length: int8 [M], plies of the shortest such win up to its five, one of `LENGTHS`: 9 is 9 or more.
        line: int32 [M, 15], a win of that length, as in `Vcf`.
    """

    game: Gomoku
    board: np.ndarray
    to_play: np.ndarray
    last_action: np.ndarray
    length: np.ndarray
    line: np.ndarray

    def __len__(self) -> int:
        return len(self.board)

    def states(self) -> State:
        """The positions as states [M]."""
        return states_from_positions(
            jnp.asarray(self.board), jnp.asarray(self.to_play), jnp.asarray(self.last_action)
        )

    def take(self, rows: np.ndarray) -> "FoursSuite":
        """Some of the positions: bool [M] or indices."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "game"]
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in names})


@functools.lru_cache(maxsize=16)
def fours_suite(game: Gomoku, num_positions: int = 200) -> FoursSuite:
    """Positions of a board with a win by continuous fours; the same at every call.

    As many of each length in `LENGTHS` and each colour to move as can be; where a group is rare on a board,
    the others fill its place. No position is an image of another by the board's symmetries.

    Args:
        game: the board and rule, any of them.
        num_positions: M. Fewer are found where the board has hardly any.

    Raises:
        ValueError: num_positions below 1.
    """
    if num_positions < 1:
        raise ValueError(f"num_positions = {num_positions}: at least 1")
    rng = np.random.default_rng(0)
    quota = -(-num_positions // (2 * len(LENGTHS)))
    groups: dict[tuple[int, int], list[FoursSuite]] = {
        (length, color): [] for length in LENGTHS for color in (1, -1)
    }
    seen: set[bytes] = set()
    idle = 0
    for _ in range(_MAX_ROUNDS):
        before = len(seen)
        found = _won_positions(_random_positions(game, rng, _CHUNK))
        for row in range(len(found)):
            group = groups[int(found.length[row]), int(found.to_play[row])]
            if len(group) == num_positions:
                continue
            key = canonical_board(found.board[row])
            if key not in seen:
                seen.add(key)
                group.append(found.take(np.array([row])))
        idle = idle + 1 if len(seen) == before else 0
        if idle == _MAX_IDLE or all(len(group) >= quota for group in groups.values()):
            break
    # The first of every group, then the second, and so on.
    ranked = [
        (rank, number, one) for number, group in enumerate(groups.values()) for rank, one in enumerate(group)
    ]
    chosen = [one for _, _, one in sorted(ranked, key=lambda item: item[:2])[:num_positions]]
    names = [field.name for field in dataclasses.fields(FoursSuite) if field.name != "game"]
    parts = [_no_positions(game), *chosen]
    suite = FoursSuite(
        game, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )
    for name in names:
        getattr(suite, name).flags.writeable = False  # the next caller gets the same arrays
    return suite


def _no_positions(game: Gomoku) -> FoursSuite:
    return FoursSuite(
        game,
        board=np.zeros((0, *game.shape), np.int8),
        to_play=np.zeros(0, np.int8),
        last_action=np.zeros(0, np.int32),
        length=np.zeros(0, np.int8),
        line=np.zeros((0, MAX_DEPTH), np.int32),
    )


def _random_positions(game: Gomoku, rng: np.random.Generator, count: int) -> FoursSuite:
    """Stones of both colours in turn around a centre; those without a line, up to `count`."""
    (height, width), k = game.shape, game.k
    most = min(max(round(game.num_actions * _MAX_FILLED), 2 * k - 3), game.num_actions - 1)
    centre = rng.uniform((0, 0), (height - 1, width - 1), (count, 1, 2))
    spread = rng.uniform(1.0, max(1.0, max(height, width) * _MAX_SPREAD), (count, 1, 1))
    points = np.rint(centre + spread * rng.standard_normal((count, 2 * most, 2))).astype(np.int64)
    inside = np.logical_and.reduce((points >= 0) & (points < (height, width)), axis=-1)
    actions = points[..., 0] * width + points[..., 1]
    stones = rng.integers(min(2 * k - 4, most), most + 1, count)
    board, length = np.zeros((count, game.num_actions), np.int8), np.zeros(count, np.int64)
    last = np.zeros(count, np.int32)
    for i in range(count):
        cells = list(dict.fromkeys(actions[i, inside[i]].tolist()))[: stones[i]]
        if cells:
            board[i, cells[0::2]], board[i, cells[1::2]] = 1, -1
            length[i], last[i] = len(cells), cells[-1]
    lines = board[:, line_table(height, width, k)].sum(-1, dtype=np.int64)
    free = np.logical_and.reduce((lines < k) & (lines > -k), axis=-1)
    return FoursSuite(
        game,
        board=board.reshape(-1, height, width),
        to_play=(1 - 2 * (length % 2)).astype(np.int8),
        last_action=last,
        length=np.zeros(count, np.int8),
        line=np.full((count, MAX_DEPTH), -1, np.int32),
    ).take((length > 0) & free)


def _won_positions(candidates: FoursSuite) -> FoursSuite:
    """Those that are won by fours, and not at once, with the length of the shortest win."""
    states = candidates.states()
    length, line = candidates.length.copy(), candidates.line.copy()
    undecided = np.ones(len(candidates), bool)
    for shortest, within in zip(LENGTHS, (*LENGTHS[:-1], MAX_DEPTH), strict=True):
        found = _solve(candidates.game, states, _MAKING_NODES, within)
        won = undecided & (found.result == WON) & (found.plies > 1)
        length[won], line[won] = shortest, found.line[won]
        undecided &= found.result == NONE  # of a length that is not known, nothing is said
    return dataclasses.replace(candidates, length=length, line=line).take(length > 0)


def _solve(game: Gomoku, states: State, max_nodes: int, within: int = MAX_DEPTH) -> Vcf:
    """`solve_vcf` on the host, in chunks of one size, for which alone it compiles."""
    count = states.to_play.shape[0]
    parts = []
    for start in range(0, count, _CHUNK):
        rows = np.minimum(np.arange(start, start + _CHUNK), count - 1)
        # Ended games fill the last chunk: there nothing is looked for.
        filled = jnp.arange(start, start + _CHUNK) >= count
        chunk = jax.tree.map(lambda leaf, rows=rows: leaf[rows], states)
        chunk = chunk.replace(terminated=chunk.terminated | filled)
        parts.append(jax.device_get(solve_vcf(game, chunk, MAX_DEPTH, max_nodes, within=within)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)


def keeps_win(game: Gomoku, states: State, actions: np.ndarray) -> np.ndarray:
    """Which moves win by continuous fours, on the host.

    A move does that wins at once; so does one that makes a four and leaves the other side no win of its own,
    where after every answer that stops it, if the rules allow any, a win by continuous fours of up to 15
    plies is proved with at most 20,000 fours tried. Wins in another way, such as by an open three, are not
    looked for.

    Args:
        game: the rules.
        states: M running games.
        actions: int32 [M]; an illegal one wins nothing.

    Returns:
        bool [M].
    """
    after, wins, asks, answers = jax.device_get(_look(game, states, jnp.asarray(actions)))
    kept = wins | asks
    rows, replies = np.nonzero(answers & asks[:, None])
    if len(rows):
        replied = _step(game, jax.tree.map(lambda leaf: leaf[rows], after), jnp.asarray(replies, jnp.int32))
        won = np.asarray(replied.winner) == np.asarray(states.to_play)[rows]  # the answer was a foul
        won |= _solve(game, replied, _KEEPING_NODES).result == WON
        kept[rows[~won]] = False
    return kept


@functools.partial(jax.jit, static_argnums=0)
def _step(game: Gomoku, states: State, actions: jax.Array) -> State:
    return jax.vmap(game.step)(states, actions)


@functools.partial(jax.jit, static_argnums=0)
@functools.partial(jax.vmap, in_axes=(None, 0, 0))
def _look(game: Gomoku, state: State, action: jax.Array) -> tuple[State, jax.Array, jax.Array, jax.Array]:
    """One move: the state after it; does it win, and must the other side answer it? The answers, bool [A]."""
    own, legal = state.to_play, game.is_legal(state, action)
    after = game.step(state, action)
    wins = legal & (after.winner == own)
    four = legal & game.winning_actions(after, own).any() & ~game.winning_actions(after, -own).any()
    return after, wins, four, game.blocking_actions(after, own) & game.legal_action_mask(after)


@dataclasses.dataclass(frozen=True)
class KeptRate:
    """How many wins of a length were kept.

    Attributes:
        length: plies, one of `LENGTHS`; None for all.
        kept: positions whose win was kept.
        positions: positions asked.
    """

    length: int | None
    kept: int
    positions: int

    @property
    def rate(self) -> float:
        return self.kept / self.positions

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's at 95 %."""
        return wilson_interval(self.rate, self.positions)


@dataclasses.dataclass(frozen=True, eq=False)
class KeptWins:
    """What a player did on a suite.

    Attributes:
        suite: the positions.
        actions: int32 [M], the player's moves.
        kept: bool [M], see `keeps_win`.
    """

    suite: FoursSuite
    actions: np.ndarray
    kept: np.ndarray

    def rate(self, length: int | None = None) -> KeptRate | None:
        """The rate of a length, or of all; None where there is no such position."""
        rows = np.ones(len(self.suite), bool) if length is None else self.suite.length == length
        return KeptRate(length, int(self.kept[rows].sum()), int(rows.sum())) if rows.any() else None

    def rates(self) -> list[KeptRate]:
        """Of each length that there is, and of all."""
        groups = [self.rate(length) for length in (*LENGTHS, None)]
        return [group for group in groups if group is not None]


def kept_wins(player: Player, suite: FoursSuite, key: jax.Array, batch_size: int = 64) -> KeptWins:
    """Asks a player for its move in every position.

    Args:
        player: `(key, states [B]) -> actions int32 [B]`; compiled once, for `batch_size` positions.
        suite: the positions.
        key: typed PRNG key of the player. Consumed.
        batch_size: positions at once.

    Raises:
        ValueError: the suite is empty, or batch_size below 1.
    """
    if not len(suite):
        raise ValueError(f"no win by continuous fours was found on {suite.game}")
    actions = ask_moves(player, suite, key, batch_size)
    return KeptWins(suite, actions, keeps_win(suite.game, suite.states(), actions))
