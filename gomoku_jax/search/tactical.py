"""A helper for search: exact where a look one stone ahead decides, the network elsewhere.

Off by default. With it an agent knows wins in one, forced blocks and lost double threats without having
learned them: an ablation in training, a help at play.
"""

from typing import Any

import jax
import jax.numpy as jnp

from gomoku_jax.config import SearchConfig
from gomoku_jax.game import Gomoku, State
from gomoku_jax.network import NetworkOutput
from gomoku_jax.search.types import Evaluator, mask_logits


def helped(game: Gomoku, evaluate: Evaluator, config: SearchConfig) -> Evaluator:
    """What a search of this config evaluates with: `tactical_evaluator` where the helper is on."""
    return tactical_evaluator(game, evaluate, config.ply_discount) if config.tactical_helper else evaluate


def tactical_evaluator(game: Gomoku, evaluate: Evaluator, ply_discount: float = 1.0) -> Evaluator:
    """An evaluator that sees wins of both sides in one move.

    Where the side to move can win, its value is 1 and the winning moves are the only ones with a prior; else,
    where the other side would win at two points or more, the value is -1, and at one point, that point is the
    only move with a prior. The loss is one ply further away than the win, and discounted for it.
    """

    def evaluate_with_tactics(params: Any, states: State) -> NetworkOutput:
        output = evaluate(params, states)
        own = jax.vmap(game.winning_actions)(states, states.to_play)
        other = jax.vmap(game.winning_actions)(states, -states.to_play)
        wins, threats = own.any(-1), other.sum(-1, dtype=jnp.int32)
        forced = jnp.where(wins[:, None], own, jnp.where(threats[:, None] > 0, other, True))
        value = jnp.where(threats > 1, -ply_discount, output.value)
        value = jnp.where(wins, 1.0, value)
        return NetworkOutput(mask_logits(output.policy_logits, forced), value)

    return evaluate_with_tactics
