"""The fast simulation loop: select, expand, backup for the whole batch, in place.

mctx writes a simulation for one game and vmaps it, so that each step up a tree is a round of a `while_loop`
under `vmap` whose carry is the tree, and selects over all of it. Here the loops run over the batch and carry
indices; the tree is read by gathers and written by scatters that drop the rows that are done.

With the same key the tree is mctx's, node for node and number for number, but for rounding (which may decide
between scores closer than the 1e-7 of mctx's own noise) and for what grows below finished games: a simulation
that reaches one ends there, where mctx goes on to make nodes worth nothing. mctx settles ties of PUCT at
random, with A random numbers a game and level; on the CPU they are drawn (the same numbers) only where a
game's best two scores are so close that they could matter.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mctx

from gomoku_jax.config import SearchConfig
from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import Gomoku, State
from gomoku_jax.search.tree import (
    ROOT,
    UNVISITED,
    SearchTree,
    child_index,
    finished_child,
    illegal_actions,
    initial_q_values,
    node_view,
)
from gomoku_jax.search.types import MASKED_LOGIT, Evaluator, mask_logits

QTransform = Callable[..., Any]  # (mctx.Tree of one game, node) -> [A]
# Scores this close, relative to their size, may be ordered otherwise by mctx's noise of 1e-7 or by rounding.
_CLOSE = 1e-6


def unscaled_q(tree: Any, node_index: Any) -> jax.Array:
    """AlphaZero's Q of one node's actions, [A]: in [-1, 1], 0 for unvisited; a Q transform for mctx.

    Illegal actions get a finite minimum: mctx masks them at the root only, and inside the tree a prior
    of 0 is no protection when all legal actions have a Q below 0. A finished game has no legal action; there
    all are alike.
    """
    q_values = jnp.where(tree.children_visits[node_index] > 0, tree.qvalues(node_index), 0.0)
    return jnp.where(illegal_actions(tree.children_prior_logits[node_index]), MASKED_LOGIT, q_values)


def min_max_q(tree: Any, node_index: Any) -> jax.Array:
    """MuZero's Q of one node's actions, [A]: stretched to [0, 1] between the least and the most of its own
    value and its children's (Schrittwieser et al. 2020, https://doi.org/10.1038/s41586-020-03051-4).
    """
    q_values: Any = mctx.qtransform_by_parent_and_siblings(tree, node_index)
    return jnp.where(illegal_actions(tree.children_prior_logits[node_index]), MASKED_LOGIT, q_values)


Q_TRANSFORMS: dict[str, QTransform] = {"none": unscaled_q, "min_max": min_max_q}


@dataclasses.dataclass(frozen=True)
class _Path:
    """One way down in each game: at depth d, `nodes[d]` and the action taken there; int32 [N, B]."""

    nodes: jax.Array
    actions: jax.Array
    length: jax.Array  # int32 [B], actions taken
    prior: jax.Array  # float32 [B], of the last action if it is new (PUCT only)


def settles_ties_lazily() -> bool:
    """Whether ties are looked for first: a branch is cheap on the CPU, random numbers are on accelerators."""
    return jax.default_backend() == "cpu"


# (tree, node [B], active bool [B], depth, level_keys: () -> keys [B]) -> action int32 [B]
_Select = Callable[[SearchTree, jax.Array, jax.Array, jax.Array, Callable[[], jax.Array]], jax.Array]


def simulate(
    game: Gomoku,
    evaluate: Evaluator,
    params: Any,
    tree: SearchTree,
    count: jax.typing.ArrayLike,
    config: SearchConfig,
) -> SearchTree:
    """Runs `count` (int []) simulations in every tree; the caller sees to it that there is room."""
    if tree.exploration is not None:
        select = root_select = _puct_selection(tree.capacity, config)
    else:
        root_select, select = _gumbel_selection(config)
    max_depth = config.max_depth or tree.capacity

    def body(_, tree):
        # Split as mctx does, for the same random numbers.
        loop_key, simulate_key, _ = jax.random.split(tree.loop_key, 3)
        path = _descend(tree, simulate_key, root_select, select, max_depth)
        tree, leaf, edge_value = _expand(game, evaluate, params, tree, path, config.ply_discount)
        tree = _backup(tree, path, leaf, edge_value, config.ply_discount)
        return tree.replace(loop_key=loop_key, num_simulations=tree.num_simulations + 1)

    return jax.lax.fori_loop(0, count, body, tree)


def _puct_selection(capacity: int, config: SearchConfig) -> Any:
    """The action with the highest Q + exploration (Silver et al. 2018), as `mctx.muzero_action_selection`."""
    transform = Q_TRANSFORMS[config.q_scaling]
    exact = jax.vmap(
        functools.partial(
            mctx.muzero_action_selection,
            pb_c_init=config.c_puct,
            pb_c_base=config.c_puct_base,
            qtransform=transform,
        ),
        in_axes=(0, 0, None, None),
    )

    def weight_of(visits: jax.Array) -> jax.Array:
        """sqrt(n) * c(n) by visits n of the node, float32."""
        growth = jnp.log((visits + config.c_puct_base + 1.0) / config.c_puct_base)
        return jnp.sqrt(visits) * (config.c_puct + growth)

    def select_exactly(tree, node, active, depth, level_keys):
        del active
        return exact(level_keys(), node_view(tree, node), 0, depth)

    def select(tree, node, active, depth, level_keys):
        rows = jnp.arange(node.shape[0])
        num_actions = tree.children.shape[-1]
        visits = tree.visits[rows, node]
        if config.reuse_tree:  # visits may outgrow the nodes: those of finished games make none
            weight = jax.lax.optimization_barrier(weight_of(visits.astype(jnp.float32)))
        else:
            weight = weight_of(jnp.arange(capacity + 1, dtype=jnp.float32))[visits]
        if config.q_scaling == "none":
            q_values = tree.q_values[rows, node]
        else:
            q_values = jax.vmap(transform, in_axes=(0, None))(_light_view(tree, node), 0)
        score = q_values + weight[:, None] * tree.exploration[rows, node]
        score = jax.lax.optimization_barrier(score)  # or XLA gathers again for every use
        top = score.max(-1)
        near = score >= (top - _CLOSE * jnp.maximum(jnp.abs(top), 1.0))[:, None]
        # One sum tells whether one action stands alone, and which.
        index = jnp.arange(num_actions, dtype=jnp.int32)[None]
        packed = jnp.where(near, index + num_actions, 0).sum(-1, dtype=jnp.int32)
        alone = packed < 2 * num_actions
        # mctx takes action 0 in the root of a finished game, whose actions are all invalid.
        over = tree.states.terminated[rows, node] & (depth == 0)
        best = jnp.where(over, 0, packed - num_actions)
        settled = alone | over | ~active
        return jax.lax.cond(
            settled.all(),
            lambda: best,
            lambda: select_exactly(tree, node, active, depth, level_keys),
        )

    return select if settles_ties_lazily() else select_exactly


def _light_view(tree: SearchTree, node: jax.Array) -> Any:
    """`node_view` for Q transforms that ask of a visit count only whether it is 0."""
    rows = jnp.arange(node.shape[0])
    q_values = tree.q_values[rows, node][:, None]
    visited = (tree.children[rows, node] != UNVISITED).astype(jnp.int32)[:, None]
    make: Any = mctx.Tree
    return make(
        node_visits=None,
        raw_values=None,
        node_values=tree.value[rows, node][:, None],
        parents=None,
        action_from_parent=None,
        children_index=None,
        # Unvisited illegal actions have the finite minimum for a Q; nothing else is asked of a logit.
        children_prior_logits=q_values,
        children_visits=visited,
        children_rewards=q_values,
        children_discounts=jnp.zeros_like(q_values),
        children_values=jnp.zeros_like(q_values),
        embeddings=None,
        root_invalid_actions=None,
        extra_data=None,
    )


def _gumbel_selection(config: SearchConfig) -> tuple[Any, Any]:
    """Sequential halving at the root, the deterministic choice of Danihelka et al. 2022 below."""
    transform = gumbel_q_transform(config)

    def at_root(tree, node, active, depth, level_keys):
        del active, depth, level_keys
        function: Any = functools.partial(
            mctx.gumbel_muzero_root_action_selection,
            num_simulations=config.num_simulations,
            max_num_considered_actions=min(config.max_considered_actions, tree.children.shape[-1]),
            qtransform=transform,
        )
        return jax.vmap(function, in_axes=(None, 0, None))(None, node_view(tree, node), 0)

    def inside(tree, node, active, depth, level_keys):
        del active, level_keys
        function: Any = functools.partial(mctx.gumbel_muzero_interior_action_selection, qtransform=transform)
        return jax.vmap(function, in_axes=(None, 0, None, None))(None, node_view(tree, node), 0, depth)

    return at_root, inside


def gumbel_q_transform(config: SearchConfig) -> QTransform:
    """Completed Q by mixed value."""
    return functools.partial(
        mctx.qtransform_completed_by_mix_value,
        value_scale=config.value_scale,
        maxvisit_init=config.visit_offset,
        rescale_values=config.rescale_values,
    )


@jax.named_scope("select")
def _descend(
    tree: SearchTree, key: jax.Array, root_select: _Select, select: _Select, max_depth: int
) -> _Path:
    """From the roots to actions without a node, finished games, or `max_depth`."""
    batch, capacity = tree.parent.shape
    rows = jnp.arange(batch)
    split = jax.vmap(jax.random.split)

    def level(carry, choose):
        nodes, actions, node, active, length, prior, keys, depth = carry
        # As in mctx, every row splits its key once a level; lazily, all at once where the keys are needed.
        now = None if keys is None else split(keys)

        def level_keys() -> jax.Array:
            if now is not None:
                return now[:, 1]
            before = jax.random.split(key, batch)
            before = jax.lax.fori_loop(0, depth, lambda _, keys: split(keys)[:, 0], before)
            return split(before)[:, 1]

        action = choose(tree, node, active, depth, level_keys)
        nodes, actions = nodes.at[depth].set(node), actions.at[depth].set(action)
        depth = depth + 1
        length = jnp.where(active, depth, length)
        if tree.exploration is not None:
            # An unvisited action's share of the exploration term is its prior. It is read here, not where the
            # array is written: there XLA would write to a copy.
            prior = jnp.where(active, tree.exploration[rows, node, action], prior)
        child = tree.children[rows, node, action]
        active = active & (child >= 0) & (depth < max_depth)
        keys = None if now is None else now[:, 0]
        return nodes, actions, jnp.where(active, child, node), active, length, prior, keys, depth

    start = (
        jnp.zeros((capacity, batch), jnp.int32),
        jnp.zeros((capacity, batch), jnp.int32),
        jnp.full(batch, ROOT, jnp.int32),
        jnp.ones(batch, bool),
        jnp.zeros(batch, jnp.int32),
        jnp.zeros(batch, jnp.float32),
        None if settles_ties_lazily() else jax.random.split(key, batch),
        jnp.int32(0),
    )
    if root_select is not select:
        start = level(start, root_select)
    end = jax.lax.while_loop(lambda carry: carry[3].any(), functools.partial(level, choose=select), start)
    return _Path(nodes=end[0], actions=end[1], length=end[4], prior=end[5])


def step_and_evaluate(
    game: Gomoku, evaluate: Evaluator, params: Any, states: State, actions: jax.Array, ply_discount: float
) -> tuple[State, jax.Array, jax.Array, jax.Array, jax.Array]:
    """A step of B games in the search's terms: the reward is the mover's, the value the next side's.

    Returns:
        The games after `actions`; their masked prior logits, float32 [B, A]; value, reward and discount,
        float32 [B].
    """
    after = jax.vmap(game.step)(states, actions)
    output = evaluate(params, after)
    logits = mask_logits(output.policy_logits, legal_action_masks(game, after))
    value = jnp.where(after.terminated, 0.0, output.value)
    reward = jnp.where(states.terminated, 0, after.winner * states.to_play).astype(jnp.float32)
    discount = jnp.where(after.terminated, 0.0, -ply_discount).astype(jnp.float32)
    return after, logits, value, reward, discount


@jax.named_scope("expand")
def _expand(
    game: Gomoku, evaluate: Evaluator, params: Any, tree: SearchTree, path: _Path, ply_discount: float
) -> tuple[SearchTree, jax.Array, jax.Array]:
    """Evaluates the position at each path's end, in a new node or again in the one that is there.

    Returns:
        The tree; the node, int32 [B]; its value as its parent sees it, with the reward, float32 [B].
    """
    rows = jnp.arange(path.length.shape[0])
    parent = path.nodes[path.length - 1, rows]
    action = path.actions[path.length - 1, rows]
    before: State = jax.tree.map(lambda x: x[rows, parent], tree.states)
    after, logits, value, reward, discount = step_and_evaluate(
        game, evaluate, params, before, action, ply_discount
    )
    existing = child_index(tree.children[rows, parent, action])
    is_new = existing == UNVISITED
    node = jnp.where(is_new, tree.num_nodes, existing)
    prior, exploration = tree.prior, tree.exploration
    if exploration is not None:
        prior = prior.at[rows, jnp.where(is_new, node, tree.capacity)].set(path.prior, mode="drop")
        exploration = exploration.at[rows, node].set(jax.nn.softmax(logits, axis=-1))
    tree = tree.replace(
        states=jax.tree.map(lambda x, new: x.at[rows, node].set(new), tree.states, after),
        parent=tree.parent.at[rows, node].set(parent),
        action_from_parent=tree.action_from_parent.at[rows, node].set(action),
        visits=tree.visits.at[rows, node].add(1),
        raw_value=tree.raw_value.at[rows, node].set(value),
        value=tree.value.at[rows, node].set(value),
        prior=prior,
        children=tree.children.at[rows, parent, action].set(
            jnp.where(after.terminated, finished_child(node), node)
        ),
        prior_logits=tree.prior_logits.at[rows, node].set(logits),
        q_values=tree.q_values.at[rows, node].set(initial_q_values(logits)),
        exploration=exploration,
        num_nodes=tree.num_nodes + is_new,
    )
    return tree, node, reward + discount * value


@jax.named_scope("backup")
def _backup(
    tree: SearchTree, path: _Path, leaf: jax.Array, edge_value: jax.Array, ply_discount: float
) -> SearchTree:
    """Adds the leaf's value to every node above it.

    A game gives its reward as it ends, so every step up but the first turns the sign and no more.
    """
    rows = jnp.arange(leaf.shape[0])
    nowhere = tree.capacity  # past the end, where "drop" writes nothing
    explores = tree.exploration is not None

    def climb(carry):
        depth, child, result, edge, child_visits, visits, value, q_values, exploration = carry
        depth = depth - 1
        active = depth < path.length
        node, action = path.nodes[depth], path.actions[depth]
        target = jnp.where(active, node, nowhere)
        count = visits[rows, node]
        mean = (value[rows, node] * count + result) / (count + 1.0)
        value = value.at[rows, target].set(mean, mode="drop")
        visits = visits.at[rows, target].set(count + 1, mode="drop")
        q_values = q_values.at[rows, target, action].set(edge, mode="drop")
        if explores:
            share = tree.prior[rows, child] / (child_visits + 1)
            exploration = exploration.at[rows, target, action].set(share, mode="drop")
        return (
            depth,
            jnp.where(active, node, child),
            jnp.where(active, -ply_discount * result, result),
            jnp.where(active, -ply_discount * mean, edge),
            jnp.where(active, count + 1, child_visits),
            visits,
            value,
            q_values,
            exploration,
        )

    start = (
        path.length.max(),
        leaf,
        edge_value,
        edge_value,
        tree.visits[rows, leaf],
        tree.visits,
        tree.value,
        tree.q_values,
        tree.exploration,
    )
    end = jax.lax.while_loop(lambda carry: carry[0] > 0, climb, start)
    return tree.replace(visits=end[5], value=end[6], q_values=end[7], exploration=end[8])
