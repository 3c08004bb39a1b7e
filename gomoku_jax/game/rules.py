"""The rules of k-in-a-row on a rectangle, as pure functions of one game."""

import dataclasses

import jax
import jax.numpy as jnp

from gomoku_jax.config import (
    OPENING_DISTANCE,
    RULES,
    Forbidden,
    GameConfig,
    Opening,
    Planes,
    Rule,
    validate_game,
)
from gomoku_jax.game import renju
from gomoku_jax.game.state import BLACK, NO_ACTION, WHITE, State
from gomoku_jax.game.tables import ray_table

NUM_PLANES = {"all": 4, "stones": 2, "rules": 4 + len(RULES)}


@dataclasses.dataclass(frozen=True)
class Gomoku:
    """A game: board size, stones in a row, rule. Frozen and hashable by value, so static under jit.

    All methods take and give one game; `jax.vmap` makes batches.

    Args:
        height: rows, 3 to 26.
        width: columns, 3 to 26.
        k: stones in a row that win, from 3 to the longer side.
        rule: what wins.
            "freestyle": k or more in a row.
            "exact": exactly k; longer lines are nothing. Known as standard gomoku.
            "caro": exactly k, unless opponent's stones stand at both ends; the board's edge does not block.
            "caro_overline": as "caro", and more than k win, too, whatever stands at their ends.
            "renju": exactly five for Black, five or more for White. Black may not make six or more, two
            fours or two threes with one move that makes no five; see `gomoku_jax.game.renju`. If Black is to
            move and every empty point is forbidden, Black has lost.
        forbidden: under renju, "illegal" masks the forbidden points; "loses" lets Black play them, and lose
            the game by it, as tournaments do.
        opening: "pro" and "long_pro" bind Black's first two stones, and are against its advantage: the first
            is in the centre (on an even side, on one of the two middle lines), the second at least 3 or 4
            points away from it along the row or the column, that is outside the 5x5 or 7x7 square around it
            (https://en.wikipedia.org/wiki/Gomoku#Opening_rules). "free" binds nothing. Swap and swap2 are
            between two players: `gomoku_jax.openings`.

    Raises:
        ValueError: no such game; the message names the value.

    >>> game = Gomoku(height=15, width=15, k=5)
    >>> state = game.step(game.init(), 112)
    >>> int(state.to_play), int(state.board[7, 7]), int(game.legal_action_mask(state).sum())
    (-1, 1, 224)
    """

    height: int = 15
    width: int = 15
    k: int = 5
    rule: Rule = "freestyle"
    forbidden: Forbidden = "illegal"
    opening: Opening = "free"

    def __post_init__(self):
        validate_game(self.height, self.width, self.k, self.rule, self.forbidden, self.opening)

    @classmethod
    def from_config(cls, config: GameConfig) -> "Gomoku":
        """The game that a `GameConfig` describes."""
        return cls(config.height, config.width, config.k, config.rule, config.forbidden, config.opening)

    def __str__(self) -> str:
        rule = self.rule if self.forbidden == "illegal" else f"{self.rule}, a forbidden move loses"
        if self.opening != "free":
            rule += f", {self.opening.replace('_', ' ')} opening"
        return f"{self.height}x{self.width}, {self.k} in a row, {rule}"

    def facts(self) -> dict[str, int | str]:
        """What results tell of a game: height, width, k, rule; `forbidden` and `opening` where set."""
        facts: dict[str, int | str] = {"height": self.height, "width": self.width}
        facts |= {"k": self.k, "rule": self.rule}
        if self.forbidden != "illegal":
            facts["forbidden"] = self.forbidden
        if self.opening != "free":
            facts["opening"] = self.opening
        return facts

    @property
    def num_actions(self) -> int:
        """A, the number of points."""
        return self.height * self.width

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        return self.height, self.width

    def init(self) -> State:
        """The empty board, black to move."""
        return State(
            board=jnp.zeros(self.shape, jnp.int8),
            to_play=jnp.int8(BLACK),
            last_action=jnp.int32(NO_ACTION),
            move_count=jnp.int32(0),
            terminated=jnp.bool_(False),
            winner=jnp.int8(0),
        )

    def legal_action_mask(self, state: State) -> jax.Array:
        """Bool [A], True = legal. All False once the game has ended."""
        empty = (state.board.reshape(-1) == 0) & ~state.terminated
        if self.opening != "free":
            empty &= self.opening_mask(state)
        return empty & ~self.forbidden_mask(state) if self._masks_forbidden else empty

    def forbidden_mask(self, state: State, where: jax.typing.ArrayLike = True) -> jax.Array:
        """Bool [A]: the empty points that are illegal for the side to move; all False but under renju.

        All False, too, where `where` (bool []) is False, which costs less.
        """
        if not self._masks_forbidden:
            return jnp.zeros(self.num_actions, bool)
        empty = (state.board.reshape(-1) == 0) & ~state.terminated
        return renju.forbidden_points(state.board, empty & (state.to_play == BLACK) & where)

    def is_legal(self, state: State, action: jax.typing.ArrayLike) -> jax.Array:
        """Bool []: may the side to move play this int action? Any int32 may be asked."""
        action = jnp.asarray(action, jnp.int32)
        legal = self._is_empty(state, action) & self._opens(state, action)
        if self._masks_forbidden:
            legal &= ~self._is_forbidden(state, action)
        return legal

    def opening_mask(self, state: State) -> jax.Array:
        """bool [A]: the points that `opening` has for the next stone, taken ones among them."""
        if self.opening == "free":
            return jnp.ones(self.num_actions, bool)
        actions = jnp.arange(self.num_actions)
        rows, cols = actions // self.width, actions % self.width
        # Twice the distance from the middle is 0 or, on an even side, 1.
        central = (jnp.abs(2 * rows - (self.height - 1)) < 2) & (jnp.abs(2 * cols - (self.width - 1)) < 2)
        first = jnp.argmax(state.board.reshape(-1) == BLACK)  # of the stones so far, Black's only one
        away = jnp.maximum(jnp.abs(rows - first // self.width), jnp.abs(cols - first % self.width))
        far = away >= OPENING_DISTANCE[self.opening]
        bound = jnp.where(state.move_count == 0, central, far)
        return bound | ((state.move_count != 0) & (state.move_count != 2))

    def step(self, state: State, action: jax.typing.ArrayLike) -> State:
        """Plays one action, int [] in 0..A-1.

        An illegal action, and any action once the game has ended, returns the state unchanged: nothing
        can raise under jit, so the mask is the contract. `replay_moves` raises on the host.
        """
        action = jnp.asarray(action, jnp.int32)
        legal = self._is_empty(state, action) & self._opens(state, action)
        foul = self._is_forbidden(state, action) if self.rule == "renju" else jnp.bool_(False)
        if self._masks_forbidden:
            legal &= ~foul
        # Off the board when illegal, where a scatter in "drop" mode writes nothing.
        target = jnp.where(legal, action, self.num_actions)
        flat = jnp.asarray(state.board).reshape(-1)
        board = flat.at[target].set(state.to_play, mode="drop").reshape(self.shape)
        placed = jnp.clip(action, 0, self.num_actions - 1)
        won = legal & self._lines_through(board, placed, self._reach)[0].any()
        move_count = state.move_count + legal
        full = move_count == self.num_actions
        winner = jnp.where(won, state.to_play, state.winner)
        lost = jnp.bool_(False)
        if self.forbidden == "loses":
            lost = legal & foul
        elif self.rule == "renju":
            asked = legal & (state.to_play != BLACK) & ~won & ~full
            lost = asked & ~renju.any_legal_point(board, asked)
        return State(
            board=board,
            to_play=jnp.where(legal, -state.to_play, state.to_play),
            last_action=jnp.where(legal, action, state.last_action),
            move_count=move_count,
            # A full board with a winning line is a win, not a draw.
            terminated=state.terminated | won | full | lost,
            winner=jnp.where(lost, jnp.int8(WHITE), winner),
        )

    def observe(self, state: State, planes: Planes = "all") -> jax.Array:
        """float32 [H, W, 4]: own stones, opponent's stones, last move, all-ones if black is to move.

        `planes="stones"` gives the first two only; `planes="rules"` adds one for each of `config.RULES`, in
        their order, which is all-ones for the game's own rule: [H, W, 9].
        """
        own = state.board == state.to_play
        opponent = state.board == -state.to_play
        if planes == "stones":
            return jnp.stack([own, opponent], axis=-1).astype(jnp.float32)
        last = (jnp.arange(self.num_actions) == state.last_action).reshape(self.shape)
        black = jnp.broadcast_to(state.to_play == BLACK, self.shape)
        rules = [jnp.full(self.shape, rule == self.rule) for rule in RULES] if planes == "rules" else []
        return jnp.stack([own, opponent, last, black, *rules], axis=-1).astype(jnp.float32)

    def winning_line(self, state: State) -> jax.Array:
        """Bool [H, W]: the stones that won, through the last move. All False without a winner.

        And all False where renju was lost by a forbidden move, or for want of a legal one.
        """
        last = jnp.clip(state.last_action, 0, self.num_actions - 1)
        reach = max(self.shape) - 1
        wins, runs = self._lines_through(state.board, last, reach)
        cells = jnp.asarray(ray_table(self.height, self.width, reach))[last]  # [4, 2, reach]
        cells = jnp.where(wins[:, None, None] & runs, cells, self.num_actions)
        line = jnp.zeros(self.num_actions, bool).at[cells].set(True, mode="drop").at[last].set(wins.any())
        return (line & (state.winner != 0)).reshape(self.shape)

    def winning_actions(self, state: State, color: jax.typing.ArrayLike) -> jax.Array:
        """bool [A]: the empty points where a stone of `color` (+1 or -1, int []) would win at once."""
        return self._winning_lines(state, jnp.asarray(color, jnp.int8))[0].any(-1)

    def blocking_actions(self, state: State, color: jax.typing.ArrayLike) -> jax.Array:
        """bool [A]: the empty points where a stone of the other colour stops every win in one of `color`.

        All False where `color` (+1 or -1, int []) has no win in one, and where no single stone stops them
        all. Under the rules of caro a five is also stopped at one of its ends, where the other is closed.
        """
        color = jnp.asarray(color, jnp.int8)
        wins, runs, around = self._winning_lines(state, color)
        stops = wins.sum(-1, dtype=jnp.int32)  # of the lines that win, those that a stone on each point stops
        total = stops.sum()
        if self.rule in ("caro", "caro_overline"):
            first = _behind(runs)
            closed = (first & (around == -color)).any(-1)  # [A, 4, 2], by the side of the line
            exact = wins & (1 + runs.sum((-2, -1), dtype=jnp.int32) == self.k)
            cells = jnp.asarray(ray_table(self.height, self.width, self._reach))
            ends = jnp.where(first, cells, self.num_actions).min(-1)  # [A, 4, 2], A where off the board
            stops = jnp.append(stops, 0).at[ends].add(exact[..., None] & closed[..., ::-1])[:-1]
        empty = state.board.reshape(-1) == 0
        return empty & (total > 0) & (stops == total)

    def nth_legal_action(self, state: State, n: jax.typing.ArrayLike) -> jax.Array:
        """int32 []: the legal action with `n` (int []) legal ones before it; 0 where there is no such."""
        legal = self.legal_action_mask(state).reshape(self.shape)
        return self._nth(legal, legal.sum(-1, dtype=jnp.int32), jnp.asarray(n, jnp.int32))

    def random_action(self, key: jax.Array, state: State) -> jax.Array:
        """int32 []: a uniformly random legal action; 0 when there is none. Consumes `key`.

        For a batch, `random_actions` draws all from one key.
        """
        return self.action_from_bits(state, jax.random.bits(key, (), jnp.uint32))

    def action_from_bits(self, state: State, bits: jax.Array) -> jax.Array:
        """int32 []: the legal action that 32 random bits, uint32 [], pick; uniform to A in 2**32."""
        legal = self.legal_action_mask(state).reshape(self.shape)
        in_row = legal.sum(-1, dtype=jnp.int32)
        count = in_row.sum().astype(jnp.uint32)
        # floor(bits * count / 2**32), in halves that do not overflow.
        low = ((bits & 0xFFFF) * count) >> 16
        n = ((bits >> 16) * count + low) >> 16
        return self._nth(legal, in_row, n.astype(jnp.int32))

    def _nth(self, legal: jax.Array, in_row: jax.Array, n: jax.Array) -> jax.Array:
        """The n-th True of bool [H, W], by rows first: H + W numbers to add up, not A."""
        up_to_row = _running_sum(in_row)
        row = jnp.minimum((up_to_row <= n).sum(dtype=jnp.int32), self.height - 1)
        rest = n - (up_to_row[row] - in_row[row])
        col = (_running_sum(legal[row]) <= rest).sum(dtype=jnp.int32)
        return jnp.where((n >= 0) & (n < up_to_row[-1]), row * self.width + col, 0)

    @property
    def _masks_forbidden(self) -> bool:
        return self.rule == "renju" and self.forbidden == "illegal"

    @property
    def _reach(self) -> int:
        """Cells to look at to either side of a stone, to know whether it wins."""
        return (
            self.k - 1 if self.rule == "freestyle" else self.k
        )  # a stone too many, or what stands at the ends

    def _is_empty(self, state: State, action: jax.Array) -> jax.Array:
        """Bool []: is this an empty point of a running game? Any int32 may be asked."""
        inside = (action >= 0) & (action < self.num_actions)
        there = state.board.reshape(-1)[jnp.clip(action, 0, self.num_actions - 1)]
        return inside & (there == 0) & ~state.terminated

    def _opens(self, state: State, action: jax.Array) -> jax.Array:
        """Bool []: does `opening` have this point for the next stone? Any int32 may be asked."""
        if self.opening == "free":
            return jnp.bool_(True)
        return self.opening_mask(state)[jnp.clip(action, 0, self.num_actions - 1)]

    def _is_forbidden(self, state: State, action: jax.Array) -> jax.Array:
        """Bool []: would the side to move make an overline, a double-four or a double-three?"""
        asked = (state.to_play == BLACK) & self._is_empty(state, action)
        return renju.foul(state.board, jnp.clip(action, 0, self.num_actions - 1), asked) != 0

    def _wins(self, runs: jax.Array, opponent: jax.Array, color: jax.Array) -> jax.Array:
        """Bool [...]: do the lines through a stone win?

        Args:
            runs: bool [..., 2, reach], the stones of its colour that are joined to it on either side.
            opponent: bool [..., 2, reach], the cells that hold a stone of the other colour.
            color: int8 [], of the stone.
        """
        length = 1 + runs.sum((-2, -1), dtype=jnp.int32)
        if self.rule == "freestyle":
            return length >= self.k
        if self.rule == "exact":
            return length == self.k
        if self.rule == "renju":
            return (length == self.k) | ((length > self.k) & (color == WHITE))
        blocked = (_behind(runs) & opponent).any(-1).all(-1)
        wins = (length == self.k) & ~blocked
        return wins | (length > self.k) if self.rule == "caro_overline" else wins

    def _winning_lines(self, state: State, color: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Would a stone of `color`, int8 [], on each point win along each line? bool [A, 4].

        And the stones of that colour it would join, bool [A, 4, 2, reach], and what stands around the point,
        int8 [A, 4, 2, reach].
        """
        flat = jnp.append(state.board.reshape(-1), jnp.int8(0))
        around = flat[jnp.asarray(ray_table(self.height, self.width, self._reach))]
        runs = unbroken(around == color)
        empty = (state.board.reshape(-1) == 0) & ~state.terminated
        return self._wins(runs, around == -color, color) & empty[:, None], runs, around

    def _lines_through(self, board: jax.Array, action: jax.Array, reach: int) -> tuple[jax.Array, jax.Array]:
        """Does the stone at `action` stand in a winning line, per direction? bool [4].

        And the stones joined to it, bool [4, 2, reach]: per direction and side, one unbroken run.
        """
        flat = board.reshape(-1)
        color = flat[action]
        cells = jnp.asarray(ray_table(self.height, self.width, reach))[action]
        around = jnp.where(cells < self.num_actions, flat[jnp.minimum(cells, self.num_actions - 1)], 0)
        runs = unbroken(around == color)
        return self._wins(runs, around == -color, color) & (color != 0), runs


def _running_sum(x: jax.Array) -> jax.Array:
    """int32 [n]: as `cumsum` of small numbers, as a product, which batches better."""
    ones = jnp.tri(x.shape[0], dtype=jnp.float32)
    return jnp.dot(ones, x.astype(jnp.float32), precision="highest").astype(jnp.int32)


def _behind(runs: jax.Array) -> jax.Array:
    """Bool [..., n]: the first cell behind an unbroken run, bool [..., n]; none behind one of n."""
    return jnp.concatenate([jnp.ones_like(runs[..., :1]), runs[..., :-1]], -1) & ~runs


def unbroken(same: jax.Array) -> jax.Array:
    """Bool [..., n]: True up to the first False."""
    steps = [same[..., 0]]
    for i in range(1, same.shape[-1]):
        steps.append(steps[-1] & same[..., i])
    return jnp.stack(steps, axis=-1)
