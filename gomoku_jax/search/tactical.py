"""A helper for search: exact where a look one stone ahead decides, the network elsewhere.

Off by default. With it an agent knows wins in one, forced blocks and lost double threats without having
learned them: an ablation in training, a help at play.
"""

from typing import Any

import jax
import jax.numpy as jnp

from gomoku_jax.config import SearchConfig
from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import Gomoku, State
from gomoku_jax.network import NetworkOutput
from gomoku_jax.search.types import Evaluator, mask_logits
from gomoku_jax.tactics import WON, solve_vcf

_ROOT_NODES = 500  # fours tried at the root of one game


def forced_at_root(
    game: Gomoku, states: State, logits: jax.Array, value: jax.Array, config: SearchConfig
) -> tuple[jax.Array, jax.Array]:
    """Root priors with nothing but what is proved, where something is.

    Where the side to move wins by continuous fours of up to `config.root_vcf` plies, the first of them is the
    only move with a prior, and the value is 1, discounted for the plies of its line; else, where the other
    side threatens to win at once, the moves that stop it are the only ones.

    Args:
        game: the rules.
        states: B games.
        logits: masked prior logits [B, A].
        value: [B].
        config: the search.
    """
    found = solve_vcf(game, states, config.root_vcf, _ROOT_NODES)
    won = found.result == WON
    winning = jnp.arange(game.num_actions)[None] == found.action[:, None]
    blocks = jax.vmap(game.blocking_actions)(states, -states.to_play) & legal_action_masks(game, states)
    forced = jnp.where(won[:, None], winning, jnp.where(blocks.any(-1)[:, None], blocks, True))
    plies = (found.line >= 0).sum(-1, dtype=jnp.int32)
    return mask_logits(logits, forced), jnp.where(won, config.ply_discount ** (plies - 1), value)


def helped(game: Gomoku, evaluate: Evaluator, config: SearchConfig) -> Evaluator:
    """What a search of this config evaluates with: `tactical_evaluator` where the helper is on."""
    return tactical_evaluator(game, evaluate, config.ply_discount) if config.tactical_helper else evaluate


def tactical_evaluator(game: Gomoku, evaluate: Evaluator, ply_discount: float = 1.0) -> Evaluator:
    """An evaluator that sees wins of both sides in one move.

    Where the side to move can win, its value is 1 and the winning moves are the only ones with a prior; else,
    where the other side could win, the moves that stop it are the only ones with a prior, and where there are
    none, the value is -1. The loss is one ply further away than the win, and discounted for it.
    """

    def evaluate_with_tactics(params: Any, states: State) -> NetworkOutput:
        output = evaluate(params, states)
        own = jax.vmap(game.winning_actions)(states, states.to_play)
        other = jax.vmap(game.winning_actions)(states, -states.to_play)
        blocks = jax.vmap(game.blocking_actions)(states, -states.to_play) & legal_action_masks(game, states)
        wins, threats = own.any(-1), other.any(-1)
        stopping = jnp.where(blocks.any(-1)[:, None], blocks, other)
        forced = jnp.where(wins[:, None], own, jnp.where(threats[:, None], stopping, True))
        value = jnp.where(threats & ~blocks.any(-1), -ply_discount, output.value)
        value = jnp.where(wins, 1.0, value)
        return NetworkOutput(mask_logits(output.policy_logits, forced), value)

    return evaluate_with_tactics
