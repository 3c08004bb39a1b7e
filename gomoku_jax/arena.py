"""Matches between players, as one batch of games, from varied openings, colours swapped on each of them."""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gomoku_jax.game import Gomoku, State, random_opening, to_sgf

Player = Callable[[jax.Array, State], jax.Array]  # (key, states [B]) -> actions int32 [B]


class MatchGames(struct.PyTreeNode):
    """Finished games of a match, in two rows of G: in row 0 a moves first after the opening, in row 1 b.

    Attributes:
        winner: int8 [2, G], +1 black, -1 white, 0 draw.
        a_color: int8 [2, G], the colour of player a.
        actions: int32 [2, G, A], the moves with the opening's, -1 after the end.
        opening_stones: int32 [2, G].
    """

    winner: jax.Array
    a_color: jax.Array
    actions: jax.Array
    opening_stones: jax.Array


def play_games(
    a: Player,
    b: Player,
    game: Gomoku,
    key: jax.Array,
    num_pairs: int,
    opening_stones: int,
    openings: jax.Array | None = None,
) -> MatchGames:
    """Plays 2G games to their end; an illegal move loses. Pure and jittable; consumes `key`.

    In half of the games `a` moves first, in the others `b`, so at every move each player has exactly one
    half to answer and neither works in vain.

    Args:
        a: a player.
        b: a player.
        game: the rules.
        key: typed PRNG key.
        num_pairs: G, static.
        opening_stones: random stones on the board before each pair, static.
        openings: instead of them, int32 [G, L], the moves before each pair, or [2, G, L], those before each
            game; -1 after the last.
    """
    opening_key, play_key = jax.random.split(key)
    if openings is None:
        draw = jax.vmap(lambda k: recorded_opening(game, k, opening_stones))
        start, actions = jax.tree.map(_twice, draw(jax.random.split(opening_key, num_pairs)))
    else:
        openings = openings if openings.ndim == 3 else _twice(openings)
        start, actions = jax.vmap(jax.vmap(lambda moves: replayed_opening(game, moves)))(openings)

    def play(carry):
        states, actions, number = carry
        keys = jax.random.split(jax.random.fold_in(play_key, number), 2)
        # Row 0 is a's to move at even numbers, b's at odd ones; the other way round in row 1.
        a_row = number % 2
        a_states = jax.tree.map(lambda x: x[a_row], states)
        b_states = jax.tree.map(lambda x: x[1 - a_row], states)
        a_moves, b_moves = a(keys[0], a_states), b(keys[1], b_states)
        moves = jnp.where(a_row == 0, jnp.stack([a_moves, b_moves]), jnp.stack([b_moves, a_moves]))
        after = jax.vmap(jax.vmap(game.step))(states, moves)
        played = after.move_count > states.move_count
        # An illegal move changes nothing: who makes one forfeits the game.
        forfeit = ~played & ~states.terminated
        after = after.replace(
            terminated=after.terminated | forfeit,
            winner=jnp.where(forfeit, -states.to_play, after.winner),
        )
        place = jnp.where(
            played, states.move_count, game.num_actions
        )  # past the end, where nothing is written
        record = jax.vmap(jax.vmap(lambda row, i, move: row.at[i].set(move, mode="drop")))
        return after, record(actions, place, moves), number + 1

    carry = start, actions, jnp.int32(0)
    states, actions, _ = jax.lax.while_loop(lambda carry: ~carry[0].terminated.all(), play, carry)
    a_color = jnp.stack([start.to_play[0], -start.to_play[1]])
    return MatchGames(states.winner, a_color, actions, opening_stones=start.move_count)


def _twice(x: jax.Array) -> jax.Array:
    return jnp.stack([x, x])


def recorded_opening(game: Gomoku, key: jax.Array, num_stones: int) -> tuple[State, jax.Array]:
    """A random opening and its moves, int32 [A], -1 after the last."""
    actions = jnp.full(game.num_actions, -1, jnp.int32)
    if num_stones == 0:
        return game.init(), actions
    # The moves in the order they were made: under "exact" another order could win on the way to the same
    # stones. With the same key, an opening of fewer stones is the beginning of a longer one.
    counts = jnp.arange(1, num_stones + 1, dtype=jnp.int32)
    openings = jax.vmap(lambda count: random_opening(game, key, count, num_stones))(counts)
    place = jnp.where(openings.move_count == counts, counts - 1, game.num_actions)
    actions = actions.at[place].set(openings.last_action, mode="drop")
    return jax.tree.map(lambda x: x[-1], openings), actions


def replayed_opening(game: Gomoku, moves: jax.Array) -> tuple[State, jax.Array]:
    """The position after moves, int32 [L], -1 after the last; and the moves as int32 [A]."""
    state, _ = jax.lax.scan(lambda state, move: (game.step(state, move), None), game.init(), moves)
    return state, jnp.full(game.num_actions, -1, jnp.int32).at[: moves.shape[0]].set(moves)


@dataclasses.dataclass(frozen=True)
class MatchResult:
    """The score of player `a` against `b`.

    Attributes:
        wins, draws, losses: of `a`.
        as_black: (wins, draws, losses) of `a` in the games where it had the black stones.
        as_white: the same with the white stones.
        distinct_games: different move sequences among the games.
        games: actions of each game, opening included.
        opening_stones: how many of each game's first moves were the opening.
        a_is_black: per game.
        winners: per game, +1 black, -1 white, 0 draw.
    """

    wins: int
    draws: int
    losses: int
    as_black: tuple[int, int, int]
    as_white: tuple[int, int, int]
    distinct_games: int
    games: list[list[int]]
    opening_stones: list[int]
    a_is_black: list[bool]
    winners: list[int]

    @property
    def num_games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Points of `a` per game: a win 1, a draw 1/2."""
        return (self.wins + 0.5 * self.draws) / self.num_games

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson interval of the score at 95 %; see `wilson_interval`."""
        return wilson_interval(self.score, self.num_games)

    def outcome(self, index: int) -> str:
        """Of one game, as SGF's RE says it: B+, W+ or 0."""
        return {1: "B+", -1: "W+", 0: "0"}[self.winners[index]]

    def sgf(self, index: int, game: Gomoku, a: str, b: str) -> str:
        """One game as an SGF file, the opening as stones set up; `a` and `b` are the players' names."""
        black, white = (a, b) if self.a_is_black[index] else (b, a)
        setup = self.opening_stones[index]
        return to_sgf(game, self.games[index], black, white, result=self.outcome(index), num_setup=setup)

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.wins} wins, {self.draws} draws, {self.losses} losses in {self.num_games} games "
            f"({self.distinct_games} distinct): score {self.score:.3f}, 95 % interval "
            f"[{low:.3f}, {high:.3f}]; as black {'-'.join(map(str, self.as_black))}, "
            f"as white {'-'.join(map(str, self.as_white))}"
        )


def wilson_interval(score: float, num_games: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a mean in [0, 1] over independent games (Wilson 1927).

    With draws counted as half it is too wide rather than too narrow, since they lower the variance.

    >>> low, high = wilson_interval(0.5, 100)
    >>> round(low, 3), round(high, 3)
    (0.404, 0.596)
    """
    if num_games < 1:
        return 0.0, 1.0
    denominator = 1 + z * z / num_games
    centre = (score + z * z / (2 * num_games)) / denominator
    spread = z * math.sqrt(score * (1 - score) / num_games + z * z / (4 * num_games**2)) / denominator
    return max(0.0, centre - spread), min(1.0, centre + spread)


def match_result(games: MatchGames, num_games: int | None = None) -> MatchResult:
    """Counts the first `num_games` games (all by default), pair after pair, on the host."""
    winner, a_color, actions, stones = (
        np.moveaxis(np.asarray(x), 0, 1).reshape(-1, *x.shape[2:])[:num_games]
        for x in (games.winner, games.a_color, games.actions, games.opening_stones)
    )
    return count_games(winner, a_color, actions, stones)


def count_games(
    winner: np.ndarray, a_color: np.ndarray, actions: np.ndarray, opening_stones: np.ndarray
) -> MatchResult:
    """Counts n games: winner and a's colour [n], moves [n, A] with -1 after the last, opening stones [n]."""
    score = winner * a_color

    def count(rows: np.ndarray) -> tuple[int, int, int]:
        return int((rows > 0).sum()), int((rows == 0).sum()), int((rows < 0).sum())

    wins, draws, losses = count(score)
    return MatchResult(
        wins=wins,
        draws=draws,
        losses=losses,
        as_black=count(score[a_color > 0]),
        as_white=count(score[a_color < 0]),
        distinct_games=len(np.unique(actions, axis=0)),
        games=[row[row >= 0].tolist() for row in actions],
        opening_stones=opening_stones.tolist(),
        a_is_black=(a_color > 0).tolist(),
        winners=winner.tolist(),
    )


play_games_jit = functools.partial(
    jax.jit, static_argnames=("a", "b", "game", "num_pairs", "opening_stones")
)(play_games)


def check_match(
    game: Gomoku, num_games: int, opening_stones: int, openings: Sequence[Sequence[int]] | None = None
) -> None:
    """Checks what a match is asked to be.

    Raises:
        ValueError: num_games below 1; opening_stones not below the number of points; or openings that are
            none, that come with opening_stones, or of which one is not played by the rules or ends the game.
    """
    if num_games < 1:
        raise ValueError(f"num_games = {num_games}: at least 1")
    if not 0 <= opening_stones < game.num_actions:
        raise ValueError(f"opening_stones = {opening_stones}: from 0 to {game.num_actions - 1}")
    if openings is None:
        return
    if opening_stones:
        raise ValueError(f"opening_stones = {opening_stones}: not together with openings")
    if not len(openings):
        raise ValueError("openings: at least one")
    for number, opening in enumerate(openings):
        if len(set(opening)) < len(opening) or not all(0 <= move < game.num_actions for move in opening):
            raise ValueError(
                f"openings[{number}] = {list(opening)}: different actions from 0 to {game.num_actions - 1}"
            )
    states = jax.device_get(_replay_jit(game, padded_openings(openings))[0])
    played = states.move_count == [len(opening) for opening in openings]
    for bad, why in ((states.terminated, "ends the game"), (~played, "is not played by the rules")):
        if bad.any():
            number = int(np.argmax(bad))
            raise ValueError(f"openings[{number}] = {list(openings[number])}: {why}")


@functools.partial(jax.jit, static_argnums=0)
def _replay_jit(game: Gomoku, openings: jax.Array) -> tuple[State, jax.Array]:
    return jax.vmap(lambda moves: replayed_opening(game, moves))(openings)


def padded_openings(openings: Sequence[Sequence[int]], length: int | None = None) -> jax.Array:
    """int32 [G, L], -1 after the last move of each; L is `length`, or as long as the longest."""
    rows = np.full((len(openings), length or max(map(len, openings))), -1, np.int32)
    for row, opening in zip(rows, openings, strict=True):
        row[: len(opening)] = opening
    return jnp.asarray(rows)


def warn_of_repeats(result: MatchResult, openings: Sequence[Sequence[int]]) -> None:
    """Warns (UserWarning) where openings were used more than once and games came out the same."""
    if result.num_games > 2 * len(openings) and result.distinct_games < result.num_games:
        warnings.warn(
            f"{result.num_games} games on {len(openings)} openings: only {result.distinct_games} of them are "
            f"different, and a game played again tells nothing. Take at most {2 * len(openings)} games, more "
            "openings, or players that draw lots",
            stacklevel=3,
        )


def play_match(
    a: Player,
    b: Player,
    game: Gomoku,
    num_games: int = 100,
    seed: int = 0,
    opening_stones: int = 0,
    openings: Sequence[Sequence[int]] | None = None,
) -> MatchResult:
    """A match of two players in one jitted batch, colours swapped on each opening.

    Args:
        a: a player, `(key, states [B]) -> actions [B]`.
        b: a player.
        game: the rules.
        num_games: an odd number plays the last opening once.
        seed: of openings and players.
        opening_stones: random stones on the board before each pair of games; 0 starts from the empty board.
            Two players without randomness need some, or all games are the same two.
        openings: the actions before each pair of games, instead of random stones: pair i has opening i, and
            after the last one they begin again. That is worth it for players that draw lots (random,
            tactical, pure MCTS); where it only repeated games, a UserWarning says how many are different.

    Raises:
        ValueError: see `check_match`.
    """
    check_match(game, num_games, opening_stones, openings)
    num_pairs = -(-num_games // 2)
    moves = (
        None if openings is None else padded_openings([openings[i % len(openings)] for i in range(num_pairs)])
    )
    games = play_games_jit(a, b, game, jax.random.key(seed), num_pairs, opening_stones, moves)
    result = match_result(jax.device_get(games), num_games)
    if openings is not None:
        warn_of_repeats(result, openings)
    return result
