"""Batched PUCT and Gumbel search with a network: at once, or in steps that can stop and go on.

    tree = init_tree(game, evaluate, params, key, states, config)
    tree = run_simulations(game, evaluate, params, tree, 50, config)  # any number of times
    summary = summarize(tree, config)

is `search_with`, whatever the steps.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mctx

from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.encode import legal_action_masks, observe
from gomoku_jax.game import Gomoku, State
from gomoku_jax.inference import Prepared, apply_prepared, prepare
from gomoku_jax.network import NetworkOutput, Params
from gomoku_jax.search.noise import add_root_noise, draw_action
from gomoku_jax.search.simulation import gumbel_q_transform, simulate
from gomoku_jax.search.stock import run_policy
from gomoku_jax.search.tactical import forced_at_root, helped
from gomoku_jax.search.tree import (
    ROOT,
    SearchTree,
    children_visits,
    new_tree,
    node_view,
    principal_variations,
    subtree,
)
from gomoku_jax.search.types import MASKED_LOGIT, Evaluator, SearchOutput, SearchSummary, mask_logits

_RootOutput: Any = mctx.RootFnOutput  # chex's dataclasses hide their fields from type checkers


def network_evaluator(game: Gomoku, config: NetworkConfig) -> Evaluator:
    """The evaluator that runs a network on a batch of states.

    Its parameters are those of `init_network`, or better, where it runs many times, what `prepare` made of
    them.
    """

    def evaluate(params: Params | Prepared, states: State) -> NetworkOutput:
        prepared = params if isinstance(params, Prepared) else prepare(config, params)
        return apply_prepared(config, prepared, observe(game, states, config.planes))

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
        params: the network's parameters, or `prepare`d ones.
        key: typed PRNG key.
        states: B games, [B, ...]. Finished games are allowed; they give finite numbers of no meaning.
        search_config: what search, and how much.
    """
    prepared = params if isinstance(params, Prepared) else prepare(net_config, params)
    return search_with(game, network_evaluator(game, net_config), prepared, key, states, search_config)


def search_with(
    game: Gomoku,
    evaluate: Evaluator,
    params: Any,
    key: jax.Array,
    states: State,
    config: SearchConfig,
) -> SearchOutput:
    """`search` with any evaluator `(params, states [B]) -> NetworkOutput`."""
    if config.backend == "mctx":
        return _search_on_mctx(game, evaluate, params, key, states, config)
    tree = init_tree(game, evaluate, params, key, states, config)
    tree = run_simulations(game, evaluate, params, tree, config.num_simulations, config)
    return search_output(tree, config)


def _root(game: Gomoku, evaluate: Evaluator, params, key, states: State, config: SearchConfig):
    """Masked prior logits [B, A] with their noise, values [B], and where these are proved, bool [B]."""
    legal = legal_action_masks(game, states)
    output = evaluate(params, states)
    prior_logits = mask_logits(output.policy_logits, legal)
    value, proved = output.value, jnp.zeros(output.value.shape, bool)
    if config.root_vcf > 0:
        prior_logits, value, proved = forced_at_root(game, states, prior_logits, value, config)
    if config.root_vcf > 0 or config.tree_vcf > 0:
        legal &= prior_logits > MASKED_LOGIT / 2  # noise is for the moves that are left
    if config.algorithm == "puct" and config.dirichlet_fraction > 0:
        prior_logits = add_root_noise(
            key, prior_logits, legal, config.dirichlet_fraction, config.dirichlet_alpha
        )
    return prior_logits, value, proved


def _search_on_mctx(game, evaluate, params, key, states, config) -> SearchOutput:
    evaluate = helped(game, evaluate, config)
    noise_key, search_key, draw_key = jax.random.split(key, 3)
    prior_logits, value, proved = _root(game, evaluate, params, noise_key, states, config)
    policy_output = run_policy(game, evaluate, params, search_key, states, prior_logits, value, config)
    summary = policy_output.search_tree.summary()
    if config.algorithm == "puct":
        action = draw_action(draw_key, summary.visit_counts, config.temperature)
    else:
        action = policy_output.action
    visits = summary.visit_counts.astype(jnp.int32)
    return SearchOutput(
        action=action.astype(jnp.int32),
        action_weights=jnp.where(legal_action_masks(game, states), policy_output.action_weights, 0.0),
        visit_counts=visits,
        q_values=jnp.where(visits > 0, summary.qvalues, 0.0),
        root_value=jnp.where(proved, value, summary.value),
    )


# The fast search, in steps.


def tree_capacity(config: SearchConfig) -> int:
    """N, the nodes a game needs room for."""
    return 1 + config.num_simulations * (2 if config.reuse_tree else 1)


def init_tree(
    game: Gomoku, evaluate: Evaluator, params: Any, key: jax.Array, states: State, config: SearchConfig
) -> SearchTree:
    """The trees of a search before its first simulation. Pure and jittable; consumes `key`.

    Arguments as for `search_with`. A tree has room for `config.num_simulations` simulations.
    """
    noise_key, search_key, draw_key = jax.random.split(key, 3)
    evaluate = helped(game, evaluate, config)
    logits, value, proved = _root(game, evaluate, params, noise_key, states, config)
    make = functools.partial(new_tree, states, value=value, proved=proved, capacity=tree_capacity(config))
    if config.algorithm == "puct":
        # To the bit what mctx makes of prior and key, without the noise that it would multiply by 0.
        loop_key = jax.random.split(search_key, 3)[2]
        allowed = logits > MASKED_LOGIT / 2
        prior = jax.nn.softmax(logits, axis=-1)
        logits = jnp.log(jnp.maximum(prior, jnp.finfo(prior.dtype).tiny))
        logits = mask_logits(logits - logits.max(-1, keepdims=True), allowed)
        return make(
            prior_logits=logits, explores=True, root_gumbel=None, loop_key=loop_key, policy_key=draw_key
        )
    loop_key, root = _gumbel_policy(config, search_key, logits, value, None)[1]
    return make(
        prior_logits=root.children_prior_logits[:, ROOT],
        explores=False,
        root_gumbel=root.extra_data.root_gumbel,
        loop_key=loop_key,
        policy_key=search_key,
    )


def run_simulations(
    game: Gomoku,
    evaluate: Evaluator,
    params: Any,
    tree: SearchTree,
    count: jax.typing.ArrayLike,
    config: SearchConfig,
) -> SearchTree:
    """Goes on searching. Pure and jittable; under jit, donate the tree.

    Args:
        game: the rules, as in `init_tree`, like the next two and `config`.
        evaluate: priors and values of a batch of states.
        params: what `evaluate` takes.
        tree: from `init_tree`, or as this function left it.
        count: int [], simulations to run; may be traced. At most what is left of `config.num_simulations`.
        config: the search.
    """
    left = config.num_simulations - tree.num_simulations
    count = jnp.clip(jnp.asarray(count, jnp.int32), 0, jnp.maximum(left, 0))
    return simulate(game, helped(game, evaluate, config), params, tree, count, config)


def _gumbel_policy(config: SearchConfig, key, logits, value, tree: SearchTree | None):
    """mctx's policy around a search done elsewhere: its output, and the state its loop begins with."""
    began: list[Any] = []

    def loop(lower, upper, body, state):
        del lower, upper, body
        began.append(state)
        return state if tree is None else (state[0], node_view(tree, jnp.zeros(value.shape, jnp.int32)))

    output = mctx.gumbel_muzero_policy(
        params=(),
        rng_key=key,
        root=_RootOutput(prior_logits=logits, value=value, embedding=jnp.zeros(value.shape)),
        recurrent_fn=lambda *_: None,  # pyright: ignore[reportArgumentType]  # never called
        num_simulations=config.num_simulations,
        invalid_actions=logits <= MASKED_LOGIT / 2,
        loop_fn=loop,
        qtransform=gumbel_q_transform(config),
        max_num_considered_actions=min(config.max_considered_actions, logits.shape[-1]),
        gumbel_scale=config.gumbel_scale,
    )
    return output, began[0]


def search_output(tree: SearchTree, config: SearchConfig) -> SearchOutput:
    """What the search says so far; without a simulation, what the prior says."""
    root = jnp.zeros(tree.num_nodes.shape, jnp.int32)
    visits = children_visits(tree, root)
    logits = tree.prior_logits[:, ROOT]
    if config.algorithm == "puct":
        total = visits.sum(-1, keepdims=True)
        counts = visits.astype(jnp.float32)
        weights = jnp.where(total > 0, counts / jnp.maximum(total, 1), jax.nn.softmax(logits, axis=-1))
        action = draw_action(tree.policy_key, jnp.where(total > 0, counts, weights), config.temperature)
    else:
        output = _gumbel_policy(config, tree.policy_key, logits, tree.raw_value[:, ROOT], tree)[0]
        action, weights = jnp.asarray(output.action), jnp.asarray(output.action_weights)
    return SearchOutput(
        action=action.astype(jnp.int32),
        action_weights=jnp.where(tree.root_legal, weights, 0.0),
        visit_counts=visits,
        q_values=jnp.where(visits > 0, tree.q_values[:, ROOT], 0.0),
        root_value=jnp.where(tree.proved, tree.raw_value[:, ROOT], tree.value[:, ROOT]),
    )


def summarize(
    tree: SearchTree, config: SearchConfig, line_length: int = 8, num_lines: int = 1
) -> SearchSummary:
    """The search so far, for those who watch it. Pure and jittable.

    Args:
        tree: the trees.
        config: the search.
        line_length: static; plies of the principal variations, at least 1.
        num_lines: static; how many root actions get a line, from 1 to A.
    """
    logits = tree.prior_logits[:, ROOT]
    return SearchSummary(
        output=search_output(tree, config),
        prior=jnp.where(tree.root_legal, jax.nn.softmax(logits, axis=-1), 0.0),
        raw_value=tree.raw_value[:, ROOT],
        principal_variations=principal_variations(tree, num_lines, line_length),
        num_simulations=tree.num_simulations,
    )


def advance_tree(
    game: Gomoku,
    evaluate: Evaluator,
    params: Any,
    key: jax.Array,
    tree: SearchTree,
    actions: jax.Array,
    states: State,
    config: SearchConfig,
) -> SearchTree:
    """The trees for the positions after a move, with what was searched below it. Consumes `key`.

    The root's prior is made anew, with noise of its own; visits and values of a kept subtree stay as they
    are, and `config.num_simulations` more fit in. A game starts afresh where nothing was searched below its
    move, where the subtree would leave no room, and where `states` is not the position after the move
    (a new game).

    Args:
        game: the rules, and so on as in `init_tree`; `config.reuse_tree` must be set.
        evaluate: priors and values of a batch of states.
        params: what `evaluate` takes.
        key: typed PRNG key.
        tree: the trees before the move.
        actions: int32 [B], the moves.
        states: B games after the moves.
        config: the search.
    """
    if not config.reuse_tree:
        raise ValueError("search.reuse_tree = False: trees have no room for a subtree and a search")
    fresh = init_tree(game, evaluate, params, key, states, config)
    moved, keep = subtree(tree, actions, tree.capacity - config.num_simulations)
    keep &= (moved.states.board[:, ROOT] == states.board).all((-2, -1))
    keep &= moved.states.to_play[:, ROOT] == states.to_play

    def choose(old: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(keep.reshape(-1, *(1,) * (old.ndim - 1)), old, new)

    shared = {name: getattr(fresh, name) for name in ("loop_key", "policy_key", "num_simulations")}
    tree = jax.tree.map(
        choose, moved.replace(**dict.fromkeys(shared)), fresh.replace(**dict.fromkeys(shared))
    ).replace(**shared)
    # The root's new prior, for its children too.
    logits = fresh.prior_logits[:, ROOT]
    prior = jax.nn.softmax(logits, axis=-1)
    below = jnp.take_along_axis(prior, jnp.maximum(tree.action_from_parent, 0), axis=1)
    visits = children_visits(tree, jnp.zeros(actions.shape, jnp.int32))
    assert tree.exploration is not None  # reuse is of PUCT only
    return tree.replace(
        prior_logits=tree.prior_logits.at[:, ROOT].set(logits),
        exploration=tree.exploration.at[:, ROOT].set(prior / (visits + 1)),
        prior=jnp.where(tree.parent == ROOT, below, tree.prior),
    )
