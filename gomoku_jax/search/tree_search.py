"""Batched PUCT and Gumbel search with a network, on mctx."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mctx

from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.encode import legal_action_masks, observe
from gomoku_jax.game import Gomoku, State
from gomoku_jax.network import NetworkOutput, Params, apply_network
from gomoku_jax.search.noise import add_root_noise, draw_action
from gomoku_jax.search.types import MASKED_LOGIT, Evaluator, SearchOutput, mask_logits

# Chex's dataclasses hide their fields from type checkers.
_RootOutput: Any = mctx.RootFnOutput
_StepOutput: Any = mctx.RecurrentFnOutput


def network_evaluator(game: Gomoku, config: NetworkConfig) -> Evaluator:
    """The evaluator that runs a network on a batch of states."""

    def evaluate(params: Params, states: State) -> NetworkOutput:
        return apply_network(config, params, observe(game, states, config.planes))

    return evaluate


def search(
    game: Gomoku,
    net_config: NetworkConfig,
    params: Params,
    key: jax.Array,
    states: State,
    search_config: SearchConfig,
) -> SearchOutput:
    """Searches a batch of games with a network. Pure and jittable; consumes `key`.

    Args:
        game: the rules.
        net_config: the network's config.
        params: the network's parameters.
        key: typed PRNG key.
        states: B games, [B, ...]. Finished games are allowed; they give finite numbers of no meaning.
        search_config: what search, and how much.
    """
    return search_with(game, network_evaluator(game, net_config), params, key, states, search_config)


def search_with(
    game: Gomoku,
    evaluate: Evaluator,
    params: Any,
    key: jax.Array,
    states: State,
    config: SearchConfig,
) -> SearchOutput:
    """`search` with any evaluator `(params, states [B]) -> NetworkOutput`."""
    legal = legal_action_masks(game, states)
    noise_key, search_key, draw_key = jax.random.split(key, 3)
    output = evaluate(params, states)
    prior_logits = mask_logits(output.policy_logits, legal)
    if config.algorithm == "puct" and config.dirichlet_fraction > 0:
        prior_logits = add_root_noise(
            noise_key, prior_logits, legal, config.dirichlet_fraction, config.dirichlet_alpha
        )
    run = _run_puct if config.algorithm == "puct" else _run_gumbel
    policy_output: Any = run(
        config,
        params=params,
        rng_key=search_key,
        root=_RootOutput(prior_logits=prior_logits, value=output.value, embedding=states),
        recurrent_fn=_recurrent_fn(game, evaluate, config.ply_discount),
        num_simulations=config.num_simulations,
        invalid_actions=~legal,
        max_depth=config.max_depth,
    )
    summary = policy_output.search_tree.summary()
    weights = jnp.where(legal, policy_output.action_weights, 0.0)
    if config.algorithm == "puct":
        action = draw_action(draw_key, summary.visit_counts, config.temperature)
    else:
        action = policy_output.action
    visits = summary.visit_counts.astype(jnp.int32)
    return SearchOutput(
        action=action.astype(jnp.int32),
        action_weights=weights,
        visit_counts=visits,
        q_values=jnp.where(visits > 0, summary.qvalues, 0.0),
        root_value=summary.value,
    )


def _recurrent_fn(game: Gomoku, evaluate: Evaluator, ply_discount: float):
    """A step of the games in mctx's terms: the reward is the mover's, the value the next side's."""

    def recurrent_fn(params, key, actions, states):
        del key
        after = jax.vmap(game.step)(states, actions)
        output = evaluate(params, after)
        reward = jnp.where(states.terminated, 0, after.winner * states.to_play).astype(jnp.float32)
        discount = jnp.where(after.terminated, 0.0, -ply_discount).astype(jnp.float32)
        logits = mask_logits(output.policy_logits, legal_action_masks(game, after))
        value = jnp.where(after.terminated, 0.0, output.value)
        return _StepOutput(reward=reward, discount=discount, prior_logits=logits, value=value), after

    return recurrent_fn


def _unscaled_q(tree: Any, node_index: Any) -> jax.Array:
    """AlphaZero's Q of one node's actions, [A]: in [-1, 1], 0 for unvisited.

    Illegal actions get a finite minimum: mctx masks them at the root only, and inside the tree a prior
    of 0 is no protection when all legal actions have a Q below 0. A finished game has no legal action; there
    all are alike, so that visits to it spread out instead of growing a chain of nodes.
    """
    q_values = jnp.where(tree.children_visits[node_index] > 0, tree.qvalues(node_index), 0.0)
    illegal = tree.children_prior_logits[node_index] <= MASKED_LOGIT / 2
    return jnp.where(illegal & ~illegal.all(), MASKED_LOGIT, q_values)


def _run_puct(config: SearchConfig, **kwargs) -> mctx.PolicyOutput:
    return mctx.muzero_policy(
        **kwargs,
        qtransform=_unscaled_q,
        dirichlet_fraction=0.0,  # ours is drawn over legal moves
        pb_c_init=config.c_puct,
        pb_c_base=config.c_puct_base,
    )


def _run_gumbel(config: SearchConfig, **kwargs) -> mctx.PolicyOutput:
    num_actions = kwargs["invalid_actions"].shape[-1]
    qtransform = functools.partial(
        mctx.qtransform_completed_by_mix_value,
        value_scale=config.value_scale,
        maxvisit_init=config.visit_offset,
        rescale_values=config.rescale_values,
    )
    return mctx.gumbel_muzero_policy(
        **kwargs,
        qtransform=qtransform,
        max_num_considered_actions=min(config.max_considered_actions, num_actions),
        gumbel_scale=config.gumbel_scale,
    )
