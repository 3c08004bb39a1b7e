"""The search on mctx's own simulation loop, `SearchConfig(backend="mctx")`: the yardstick of the fast one."""

from typing import Any

import jax
import mctx

from gomoku_jax.config import SearchConfig
from gomoku_jax.game import Gomoku, State
from gomoku_jax.search.simulation import Q_TRANSFORMS, gumbel_q_transform, step_and_evaluate
from gomoku_jax.search.types import MASKED_LOGIT, Evaluator

# Chex's dataclasses hide their fields from type checkers.
_RootOutput: Any = mctx.RootFnOutput
_StepOutput: Any = mctx.RecurrentFnOutput


def run_policy(
    game: Gomoku,
    evaluate: Evaluator,
    params: Any,
    key: jax.Array,
    states: State,
    prior_logits: jax.Array,
    value: jax.Array,
    config: SearchConfig,
) -> Any:
    """mctx's policy and its tree for B games, as an `mctx.PolicyOutput`. Consumes `key`.

    Args:
        game: the rules.
        evaluate: priors and values of a batch of states.
        params: what `evaluate` takes.
        key: typed PRNG key.
        states: B games.
        prior_logits: float32 [B, A] of the roots, masked, noise included.
        value: float32 [B] of the roots.
        config: the search.
    """
    arguments: Any = {
        "params": params,
        "rng_key": key,
        "root": _RootOutput(prior_logits=prior_logits, value=value, embedding=states),
        "recurrent_fn": _recurrent_fn(game, evaluate, config.ply_discount),
        "num_simulations": config.num_simulations,
        "invalid_actions": prior_logits <= MASKED_LOGIT / 2,  # illegal ones, and what the root leaves out
        "max_depth": config.max_depth,
    }
    if config.algorithm == "puct":
        return mctx.muzero_policy(
            **arguments,
            qtransform=Q_TRANSFORMS[config.q_scaling],
            dirichlet_fraction=0.0,  # ours is drawn over legal moves
            pb_c_init=config.c_puct,
            pb_c_base=config.c_puct_base,
        )
    return mctx.gumbel_muzero_policy(
        **arguments,
        qtransform=gumbel_q_transform(config),
        max_num_considered_actions=min(config.max_considered_actions, game.num_actions),
        gumbel_scale=config.gumbel_scale,
    )


def _recurrent_fn(game: Gomoku, evaluate: Evaluator, ply_discount: float):
    """`step_and_evaluate` as mctx calls it."""

    @jax.named_scope("expand")
    def recurrent_fn(params, key, actions, states):
        del key
        after, logits, value, reward, discount = step_and_evaluate(
            game, evaluate, params, states, actions, ply_discount
        )
        return _StepOutput(reward=reward, discount=discount, prior_logits=logits, value=value), after

    return recurrent_fn
