"""Stored positions → states, network input and legal moves."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from gomoku_jax.config import RULES, Planes
from gomoku_jax.game import Gomoku, State


@jax.named_scope("encode")
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


@jax.named_scope("encode")
def observe(game: Gomoku, states: State, planes: Planes = "all") -> jax.Array:
    """float32 [B, H, W, C], the planes of a batch of states; C = `NUM_PLANES[planes]`, 4 for "all"."""
    return jax.vmap(lambda state: game.observe(state, planes))(states)


@jax.named_scope("encode")
def legal_action_masks(game: Gomoku, states: State) -> jax.Array:
    """Bool [B, A], True = legal."""
    return jax.vmap(game.legal_action_mask)(states)


@jax.named_scope("encode")
def observe_rules(game: Gomoku, states: State, rule: jax.Array) -> jax.Array:
    """float32 [B, H, W, C]: `observe` with the planes "rules", where each state has a rule of its own.

    Args:
        game: the board.
        states: B games, [B, ...].
        rule: int8 [B], their rules' places in `config.RULES`.
    """
    planes = observe(game, states, "all")
    one_hot = jax.nn.one_hot(rule, len(RULES), dtype=planes.dtype)[:, None, None]
    return jnp.concatenate([planes, jnp.broadcast_to(one_hot, (*planes.shape[:3], len(RULES)))], axis=-1)


@jax.named_scope("encode")
def legal_action_masks_of_rules(games: Sequence[Gomoku], states: State, rule: jax.Array) -> jax.Array:
    """Bool [B, A]: `legal_action_masks` where each state has a rule of its own.

    Args:
        games: the games that occur, on one board and with one opening; one of each rule.
        states: B games, [B, ...].
        rule: int8 [B], their rules' places in `config.RULES`.
    """
    legal = (states.board.reshape(*rule.shape, -1) == 0) & ~states.terminated[:, None]
    legal &= jax.vmap(games[0].opening_mask)(states)  # which the rules of a board share
    for game in games:
        legal &= ~jax.vmap(game.forbidden_mask)(states, rule == RULES.index(game.rule))
    return legal
