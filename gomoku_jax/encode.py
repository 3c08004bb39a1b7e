"""Stored positions → states, network input and legal moves."""

import jax
import jax.numpy as jnp

from gomoku_jax.config import Planes
from gomoku_jax.game import Gomoku, State


def states_from_positions(board: jax.Array, to_play: jax.Array, last_action: jax.Array) -> State:
    """Running games from what the replay buffer keeps of them.

    Args:
        board: int8 [B, H, W].
        to_play: int8 [B].
        last_action: int32 [B].
    """
    batch = to_play.shape
    return State(
        board=board,
        to_play=to_play,
        last_action=last_action,
        move_count=(board != 0).sum((-2, -1), dtype=jnp.int32),
        terminated=jnp.zeros(batch, bool),
        winner=jnp.zeros(batch, jnp.int8),
    )


def observe(game: Gomoku, states: State, planes: Planes = "all") -> jax.Array:
    """float32 [B, H, W, C], the planes of a batch of states; C = 4, or 2 for `planes="stones"`."""
    return jax.vmap(lambda state: game.observe(state, planes))(states)


def legal_action_masks(game: Gomoku, states: State) -> jax.Array:
    """Bool [B, A], True = legal."""
    return jax.vmap(game.legal_action_mask)(states)
