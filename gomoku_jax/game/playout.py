"""Random play: openings, and playouts to the end in one shot."""

import jax
import jax.numpy as jnp

from gomoku_jax.game.rules import Gomoku
from gomoku_jax.game.state import WHITE, State
from gomoku_jax.game.tables import line_end_table, line_table


def random_actions(game: Gomoku, key: jax.Array, states: State) -> jax.Array:
    """int32 [B]: a uniformly random legal action of each game; 0 where there is none. Consumes `key`."""
    bits = jax.random.bits(key, states.to_play.shape, jnp.uint32)
    return jax.vmap(game.action_from_bits)(states, bits)


def random_order(key: jax.Array, state: State) -> jax.Array:
    """A uniformly random order of the empty points of one game. Consumes `key`.

    Returns:
        int32 [A], the turn (0, 1, ...) at which each empty point is filled; -1 for stones.
    """
    empty = state.board.reshape(-1) == 0
    draw = jnp.where(empty, jax.random.uniform(key, empty.shape), jnp.inf)
    # The rank by comparisons beats a sort at these sizes. Equal draws are settled by position.
    points = jnp.arange(empty.size)
    this, that = draw[:, None], draw[None, :]
    before = (that < this) | ((that == this) & (points[None, :] < points[:, None]))
    return jnp.where(empty, before.sum(-1, dtype=jnp.int32), -1)


def playout_winner(game: Gomoku, state: State, turn: jax.Array) -> jax.Array:
    """Who wins when the empty points are filled in a given order, both sides in turn.

    Playing uniformly random legal moves to the end is filling the empty points in a random order until a
    line is complete, so the winner can be read off the order: a line is complete when the last of its
    stones is placed, and the line that is complete first wins. No loop over moves. Under renju, Black's
    forbidden points are filled like all others, for want of which the order could not be read: an overline of
    Black's is nothing, double-threes and double-fours are not seen.

    Args:
        game: the rules.
        state: one game.
        turn: int32 [A], as from `random_order`.

    Returns:
        int8 []: +1, -1 or 0, as `State.winner`.
    """
    flat = state.board.reshape(-1)
    mine = jnp.where(turn % 2 == 0, state.to_play, -state.to_play)
    color = jnp.where(turn < 0, flat, mine)
    never = jnp.int32(game.num_actions)
    lines = jnp.asarray(line_table(*game.shape, game.k))
    ends = jnp.asarray(line_end_table(*game.shape, game.k))

    def first_line(side: int) -> jax.Array:
        when = jnp.where(color == side, turn, never)
        complete = when[lines].max(-1)
        if game.rule == "freestyle" or (game.rule == "renju" and side == WHITE):
            return complete.min(initial=never)
        # What stands at the ends at that time: a stone of the same line, which is longer then, ...
        longer = jnp.append(when, never)[ends].min(-1) <= complete
        nothing = longer
        if game.rule in ("caro", "caro_overline"):  # ... or the opponent's at both.
            other = jnp.append(jnp.where(color == -side, turn, never), never)[ends].max(-1)
            blocked = other <= complete
            nothing = blocked if game.rule == "caro_overline" else longer | blocked
        return jnp.where(nothing, never, complete).min(initial=never)

    black, white = first_line(1), first_line(-1)
    result = jnp.sign(white - black).astype(jnp.int8)
    return jnp.where(state.terminated, state.winner, result)


def random_opening(game: Gomoku, key: jax.Array, num_stones: jax.Array, most: int) -> State:
    """The empty board with `num_stones` random stones of alternating colours. Consumes `key`.

    A stone that would end the game is not played, and the opening ends before it.

    Args:
        game: the rules.
        key: typed PRNG key.
        num_stones: int32 [], at most `most`.
        most: static bound of the loop.
    """

    def place(i, state):
        after = game.step(state, game.random_action(jax.random.fold_in(key, i), state))
        keep = (i < num_stones) & ~after.terminated & (state.move_count == i)
        return jax.tree.map(lambda new, old: jnp.where(keep, new, old), after, state)

    return jax.lax.fori_loop(0, most, place, game.init())
