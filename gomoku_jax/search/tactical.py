"""Helpers for search: exact where a short proof decides, the network elsewhere.

Off by default. The tactical helper looks one stone ahead: with it an agent knows wins in one, forced blocks
and lost double threats without having learned them. `root_vcf` and `tree_vcf` look for wins by continuous
fours, at the root and in every evaluated position. Ablations in training, a help at play.
"""

from typing import Any

import jax
import jax.numpy as jnp

from gomoku_jax.config import SearchConfig
from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import Gomoku, State
from gomoku_jax.network import NetworkOutput
from gomoku_jax.search.types import Evaluator, mask_logits
from gomoku_jax.tactics import WON, Vcf, solve_vcf

_ROOT_NODES = 500  # fours tried at the root of one game
# And in each evaluated position: of 1,024 from games on 15x15 it left 6 undecided at 5 plies.
_TREE_NODES = 32


def forced_at_root(
    game: Gomoku, states: State, logits: jax.Array, value: jax.Array, config: SearchConfig
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Root priors with nothing but what is proved, where something is.

    Where the side to move wins by continuous fours of up to `config.root_vcf` plies, the first of them is the
    only move with a prior, and the value is 1, discounted for the plies before its last; else, where the
    other side threatens to win at once, the moves that stop it are the only ones.

    Args:
        game: the rules.
        states: B games.
        logits: masked prior logits [B, A].
        value: [B].
        config: the search.

    Returns:
        Logits, values, and bool [B], where a win is proved.
    """
    found = solve_vcf(game, states, config.root_vcf, _ROOT_NODES)
    won = found.result == WON
    winning = jnp.arange(game.num_actions)[None] == found.action[:, None]
    blocks = jax.vmap(game.blocking_actions)(states, -states.to_play) & legal_action_masks(game, states)
    forced = jnp.where(won[:, None], winning, jnp.where(blocks.any(-1)[:, None], blocks, True))
    return mask_logits(logits, forced), jnp.where(won, _value_of(found, config.ply_discount), value), won


def _value_of(found: Vcf, ply_discount: float) -> jax.Array:
    """float32 [B], what the wins found are worth; of no meaning where there is none."""
    return (ply_discount ** (found.plies - 1)).astype(jnp.float32)


def helped(game: Gomoku, evaluate: Evaluator, config: SearchConfig) -> Evaluator:
    """What a search of this config evaluates with, its helpers around the evaluator."""
    if config.tactical_helper:
        evaluate = tactical_evaluator(game, evaluate, config.ply_discount)
    if config.tree_vcf > 0:
        evaluate = vcf_evaluator(game, evaluate, config.tree_vcf, config.ply_discount)
    return evaluate


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


def vcf_evaluator(game: Gomoku, evaluate: Evaluator, max_depth: int, ply_discount: float = 1.0) -> Evaluator:
    """An evaluator that sees wins of the side to move by continuous fours.

    Where one of up to `max_depth` plies is proved, its first move is the only one with a prior, and the value
    is 1, discounted for the plies before its last.

    Args:
        game: the rules.
        evaluate: what is asked elsewhere.
        max_depth: plies, an odd number; as in `solve_vcf`.
        ply_discount: of the value, a ply.
    """

    def evaluate_with_fours(params: Any, states: State) -> NetworkOutput:
        output = evaluate(params, states)
        found = solve_vcf(game, states, max_depth, _TREE_NODES)
        won = found.result == WON
        winning = jnp.arange(game.num_actions)[None] == found.action[:, None]
        return NetworkOutput(
            mask_logits(output.policy_logits, winning | ~won[:, None]),
            jnp.where(won, _value_of(found, ply_discount), output.value),
        )

    return evaluate_with_fours
