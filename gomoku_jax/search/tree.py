"""The tree of the fast search: what a simulation reads and writes, and no more.

mctx keeps six numbers for every action of every node. Values, visits and rewards of the children are kept
here once, with the child; an action has its child, its prior logit, its Q and (for PUCT) its share of the
exploration term, so that a level of selection reads two rows and a step up writes four numbers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import mctx
from flax import struct

from gomoku_jax.game import State
from gomoku_jax.search.types import MASKED_LOGIT

UNVISITED = -1  # in `children`; as in mctx
NO_PARENT = -1
ROOT = 0


class SearchTree(struct.PyTreeNode):
    """Search trees of B games with room for N nodes each. Node 0 is the root, parents come before children.

    Attributes:
        states: State [B, N, ...], the games at the nodes.
        parent: int32 [B, N], `NO_PARENT` at the root and where there is no node.
        action_from_parent: int32 [B, N], likewise.
        visits: int32 [B, N], simulations that came through, the one that made the node included.
        raw_value: float32 [B, N], the network's, from the view of the side to move at the node.
        value: float32 [B, N], mean over the visits, from the same view.
        prior: float32 [B, N], the probability that the parent's prior gave to the node.
        children: int32 [B, N, A], the node below an action, `UNVISITED`, or `finished_child(node)`.
        prior_logits: float32 [B, N, A], masked.
        q_values: float32 [B, N, A], from the view of the side to move at the node; 0 for unvisited
            actions, a finite minimum for illegal ones.
        exploration: float32 [B, N, A], prior / (1 + visits) of the actions; None in a Gumbel search.
        proved: bool [B], where the root's raw value is exact.
        root_gumbel: float32 [B, A], the noise of a Gumbel search; None in PUCT.
        num_nodes: int32 [B], nodes in use; the next one is made there.
        num_simulations: int32 [], simulations run.
        loop_key: typed key of the simulations to come.
        policy_key: typed key that the final choice consumes.
    """

    states: State
    parent: jax.Array
    action_from_parent: jax.Array
    visits: jax.Array
    raw_value: jax.Array
    value: jax.Array
    prior: jax.Array
    children: jax.Array
    prior_logits: jax.Array
    q_values: jax.Array
    exploration: jax.Array | None
    proved: jax.Array
    root_gumbel: jax.Array | None
    num_nodes: jax.Array
    num_simulations: jax.Array
    loop_key: jax.Array
    policy_key: jax.Array

    @property
    def capacity(self) -> int:
        """N, nodes a game has room for."""
        return self.parent.shape[1]

    @property
    def root_legal(self) -> jax.Array:
        """Bool [B, A], the legal actions of the roots; none where the game has ended."""
        return self.prior_logits[:, ROOT] > MASKED_LOGIT / 2


def finished_child(node: jax.Array) -> jax.Array:
    """How `children` writes a node at which the game has ended; its own inverse."""
    return -2 - node


def child_index(children: jax.Array) -> jax.Array:
    """The nodes behind entries of `children`, `UNVISITED` where there is none."""
    return jnp.where(children < UNVISITED, finished_child(children), children)


def illegal_actions(prior_logits: jax.Array) -> jax.Array:
    """Bool [..., A]: which actions masked logits [..., A] leave out. None where the game has ended."""
    illegal = prior_logits <= MASKED_LOGIT / 2
    return illegal & ~illegal.all(-1, keepdims=True)


def initial_q_values(prior_logits: jax.Array) -> jax.Array:
    """Q of a node [..., A] before any visit."""
    return jnp.where(illegal_actions(prior_logits), MASKED_LOGIT, 0.0)


def new_tree(
    states: State,
    prior_logits: jax.Array,
    value: jax.Array,
    proved: jax.Array,
    capacity: int,
    *,
    explores: bool,
    root_gumbel: jax.Array | None,
    loop_key: jax.Array,
    policy_key: jax.Array,
) -> SearchTree:
    """Trees of one node each.

    Args:
        states: B games.
        prior_logits: float32 [B, A], masked.
        value: float32 [B].
        proved: bool [B], where it is exact.
        capacity: N, at least 1.
        explores: whether the search is PUCT.
        root_gumbel: float32 [B, A] of a Gumbel search.
        loop_key: typed key for the simulations.
        policy_key: typed key for the final choice.
    """
    batch, num_actions = prior_logits.shape

    def nodes(root: jax.Array, fill: float = 0) -> jax.Array:
        empty = jnp.full((batch, capacity, *root.shape[1:]), fill, root.dtype)
        return empty.at[:, ROOT].set(root)

    none = jnp.full((batch, capacity), NO_PARENT, jnp.int32)
    return SearchTree(
        states=jax.tree.map(nodes, states),
        parent=none,
        action_from_parent=none,
        visits=nodes(jnp.ones(batch, jnp.int32)),
        raw_value=nodes(value),
        value=nodes(value),
        prior=nodes(jnp.ones(batch, jnp.float32)),
        children=jnp.full((batch, capacity, num_actions), UNVISITED, jnp.int32),
        prior_logits=nodes(prior_logits),
        q_values=nodes(initial_q_values(prior_logits)),
        exploration=nodes(jax.nn.softmax(prior_logits, axis=-1)) if explores else None,
        proved=proved,
        root_gumbel=root_gumbel,
        num_nodes=jnp.ones(batch, jnp.int32),
        num_simulations=jnp.int32(0),
        loop_key=loop_key,
        policy_key=policy_key,
    )


def children_visits(tree: SearchTree, node: jax.Array) -> jax.Array:
    """int32 [B, A]: visits of the actions at `node` int32 [B]."""
    rows = jnp.arange(node.shape[0])
    child = child_index(tree.children[rows, node])
    visits = jnp.take_along_axis(tree.visits, jnp.maximum(child, 0), axis=1)
    return jnp.where(child == UNVISITED, 0, visits)


def node_view(tree: SearchTree, node: jax.Array) -> Any:
    """An `mctx.Tree` that holds one node a game, at index 0, for mctx's action selection and Q transforms.

    Args:
        tree: the trees.
        node: int32 [B].
    """
    rows = jnp.arange(node.shape[0])

    def pick(x: jax.Array) -> jax.Array:
        return x[rows, node][:, None]

    logits, q_values = pick(tree.prior_logits), pick(tree.q_values)
    make: Any = mctx.Tree  # chex's dataclasses hide their fields from type checkers
    return make(
        node_visits=pick(tree.visits),
        raw_values=pick(tree.raw_value),
        node_values=pick(tree.value),
        parents=jnp.full((node.shape[0], 1), NO_PARENT, jnp.int32),
        action_from_parent=jnp.full((node.shape[0], 1), NO_PARENT, jnp.int32),
        children_index=child_index(pick(tree.children)),
        children_prior_logits=logits,
        children_visits=children_visits(tree, node)[:, None],
        # Together they are Q, which is all that mctx makes of them.
        children_rewards=q_values,
        children_discounts=jnp.zeros_like(q_values),
        children_values=jnp.zeros_like(q_values),
        embeddings=None,
        root_invalid_actions=~tree.root_legal,
        extra_data=_extra_data(tree),
    )


def _extra_data(tree: SearchTree) -> Any:
    make: Any = mctx.GumbelMuZeroExtraData
    return None if tree.root_gumbel is None else make(root_gumbel=tree.root_gumbel)


def to_mctx(tree: SearchTree, ply_discount: float = 1.0) -> Any:
    """The whole `mctx.Tree` of a search, for whoever has tools for it. States are its embeddings."""
    batch, capacity, num_actions = tree.children.shape
    child = child_index(tree.children)
    exists = child != UNVISITED
    index = jnp.maximum(child, 0).reshape(batch, -1)

    def of_children(x: jax.Array) -> jax.Array:
        values = jnp.take_along_axis(x, index, axis=1).reshape(batch, capacity, num_actions)
        return jnp.where(exists, values, jnp.zeros((), x.dtype))

    finished = tree.states.terminated
    reward = of_children(tree.states.winner) * tree.states.to_play[..., None]
    make: Any = mctx.Tree
    return make(
        node_visits=tree.visits,
        raw_values=tree.raw_value,
        node_values=tree.value,
        parents=tree.parent,
        action_from_parent=tree.action_from_parent,
        children_index=child,
        children_prior_logits=tree.prior_logits,
        children_visits=of_children(tree.visits),
        children_rewards=jnp.where(finished[..., None], 0, reward).astype(jnp.float32),
        children_discounts=jnp.where(exists & ~of_children(finished), -ply_discount, 0.0),
        children_values=of_children(tree.value),
        embeddings=tree.states,
        root_invalid_actions=~tree.root_legal,
        extra_data=_extra_data(tree),
    )


def principal_variations(tree: SearchTree, num_lines: int, length: int) -> jax.Array:
    """int32 [B, num_lines, length]: the most visited lines below the most visited actions of the roots.

    The best action's line comes first; -1 after a line's end, and where fewer actions were visited. Of
    equally visited actions the lowest comes first.
    """
    batch = tree.parent.shape[0]
    rows = jnp.arange(batch)
    root = jnp.zeros(batch, jnp.int32)
    counts, first = jax.lax.top_k(children_visits(tree, root), num_lines)
    first = first.astype(jnp.int32)
    running = ~tree.states.terminated[:, ROOT]

    def descend(node: jax.Array, active: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The node below an action; a finished game is the end of the line."""
        entry = tree.children[rows, node, action]
        return jnp.where(active, jnp.maximum(child_index(entry), 0), node), active & (entry >= 0)

    def follow(carry, _):
        node, active = carry
        visits = children_visits(tree, node)
        best = jnp.argmax(visits, axis=-1).astype(jnp.int32)
        active = active & (visits[rows, best] > 0)
        return descend(node, active, best), jnp.where(active, best, -1)

    def line(action: jax.Array, visits: jax.Array) -> jax.Array:
        active = running & (visits > 0)
        _, rest = jax.lax.scan(follow, descend(root, active, action), None, length=length - 1)
        return jnp.concatenate([jnp.where(active, action, -1)[None], rest]).T

    return jax.vmap(line, in_axes=1, out_axes=1)(first, counts)


def subtree(tree: SearchTree, actions: jax.Array, most_nodes: int) -> tuple[SearchTree, jax.Array]:
    """Keeps what was searched below one action of each root.

    Args:
        tree: the trees.
        actions: int32 [B], the moves played.
        most_nodes: static; a larger subtree is not kept.

    Returns:
        Trees whose root is the node below the action, nodes in the order they were made, everything else
        cleared; and bool [B], where there is such a node. Elsewhere the tree has no meaning.
    """
    batch, capacity, _ = tree.children.shape
    rows = jnp.arange(batch)
    nodes = jnp.arange(capacity, dtype=jnp.int32)
    entry = tree.children[rows, ROOT, actions]
    root = child_index(entry)
    # Who descends from the new root: ask the ancestor twice as far away each time.
    inside = nodes[None] == root[:, None]
    ancestor = jnp.where(inside | (tree.parent == NO_PARENT), nodes[None], tree.parent)
    for _ in range(max(capacity - 1, 1).bit_length()):
        inside = inside | jnp.take_along_axis(inside, ancestor, axis=1)
        ancestor = jnp.take_along_axis(ancestor, ancestor, axis=1)
    count = inside.sum(-1, dtype=jnp.int32)
    keep = (entry >= 0) & (count <= most_nodes)
    new_index = jnp.where(inside, jnp.cumsum(inside, axis=-1, dtype=jnp.int32) - 1, -1)
    source = jnp.argsort(~inside, axis=-1, stable=True)  # old nodes in the order of the new
    used = nodes[None] < count[:, None]

    def move(x: jax.Array, empty: Any = 0) -> jax.Array:
        tail = (1,) * (x.ndim - 2)
        moved = jnp.take_along_axis(x, source.reshape(batch, capacity, *tail), axis=1)
        return jnp.where(used.reshape(batch, capacity, *tail), moved, jnp.asarray(empty, x.dtype))

    def renumber(index: jax.Array) -> jax.Array:
        """New numbers of old nodes [B, N, ...], which are all inside or negative."""
        flat = jnp.maximum(index, 0).reshape(batch, -1)
        new = jnp.take_along_axis(new_index, flat, axis=1).reshape(index.shape)
        return jnp.where(index < 0, index, new)

    children = move(tree.children, UNVISITED)
    renumbered = renumber(child_index(children))
    is_root = (nodes == ROOT)[None]
    moved = tree.replace(
        states=jax.tree.map(move, tree.states),
        parent=jnp.where(is_root, NO_PARENT, renumber(move(tree.parent, NO_PARENT))),
        action_from_parent=jnp.where(is_root, NO_PARENT, move(tree.action_from_parent, NO_PARENT)),
        visits=move(tree.visits),
        raw_value=move(tree.raw_value),
        value=move(tree.value),
        prior=jnp.where(is_root, 1.0, move(tree.prior)),
        children=jnp.where(children < UNVISITED, finished_child(renumbered), renumbered),
        prior_logits=move(tree.prior_logits),
        q_values=move(tree.q_values),
        exploration=None if tree.exploration is None else move(tree.exploration),
        proved=jnp.zeros(batch, bool),
        num_nodes=count,
    )
    return moved, keep
