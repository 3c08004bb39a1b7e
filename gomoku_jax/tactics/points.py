"""Points that decide: what a stone would make there, and where the other side must play. All of one game."""

import jax
import jax.numpy as jnp

from gomoku_jax.game import Gomoku, State
from gomoku_jax.tactics import bits


def fives(game: Gomoku, state: State, color: jax.typing.ArrayLike) -> jax.Array:
    """bool [A]: the empty points where a stone of `color` (+1 or -1, int []) wins at once."""
    return game.winning_actions(state, color)


def fours(game: Gomoku, state: State, color: jax.typing.ArrayLike) -> jax.Array:
    """bool [A]: the empty points where a stone of `color` makes a four, which one more turns into a five.

    Renju's forbidden points are among them: what may be played is for `game.legal_action_mask`.
    """
    color = jnp.asarray(color, jnp.int8)
    once, _ = bits.four_points(game, *bits.stones_of(state.board, color), color)
    return _mask(game, state, once)


def open_fours(game: Gomoku, state: State, color: jax.typing.ArrayLike) -> jax.Array:
    """bool [A]: the empty points where a stone of `color` makes a four that becomes a five at either end.

    Under the rules of caro one stone may stop even that: see `blocks`. Forbidden points as for `fours`.
    """
    color = jnp.asarray(color, jnp.int8)
    points = bits.open_four_points(game, *bits.stones_of(state.board, color), color)
    return _mask(game, state, points)


def blocks(game: Gomoku, state: State) -> jax.Array:
    """bool [A]: the legal moves that stop the other side from winning at once; none where it cannot."""
    return game.blocking_actions(state, -state.to_play) & game.legal_action_mask(state)


def _mask(game: Gomoku, state: State, points: jax.Array) -> jax.Array:
    return bits.from_bits(points, game.width).reshape(-1) & ~state.terminated
