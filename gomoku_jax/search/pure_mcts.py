"""Pure Monte-Carlo tree search: no network, uniform priors, random playouts. The classical opponent.

The tree policy is the one of https://github.com/junxiaosong/AlphaZero_Gomoku, so that results against "pure
MCTS with n playouts" can be laid beside those of the tutorials: PUCT with uniform priors, a leaf is valued
by one random playout, the most visited move is played.

The tree is our own, not mctx's: loops run for the whole batch and carry indices, and the tree is written in
place, so that thousands of playouts cost little more than the playouts themselves.
"""

import jax
import jax.numpy as jnp
from flax import struct

from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import Gomoku, State, playout_winner, random_order
from gomoku_jax.search.types import SearchOutput

_UNVISITED = -1
_NO_PARENT = -1


class _Tree(struct.PyTreeNode):
    """M = playouts + 1 nodes for each of B games; node 0 is the root."""

    states: State  # [B, M, ...]
    legal: jax.Array | None  # bool [B, M, A]; None where all empty points are, which the boards tell
    parent: jax.Array  # int32 [B, M]
    children: jax.Array  # int32 [B, M, A], _UNVISITED where there is none
    visits: jax.Array  # int32 [B, M]
    value_sum: jax.Array  # float32 [B, M], from the view of the side that moved to the node


def pure_mcts(
    game: Gomoku, key: jax.Array, states: State, num_playouts: int, c_puct: float = 5.0
) -> SearchOutput:
    """Searches a batch of games with random playouts. Pure and jittable; consumes `key`.

    Args:
        game: the rules.
        key: typed PRNG key.
        states: B games, [B, ...]; finished ones give finite numbers of no meaning.
        num_playouts: playouts a move, at least 1.
        c_puct: weight of exploration against mean values in [-1, 1].
    """
    if num_playouts < 1:
        raise ValueError(f"num_playouts = {num_playouts}: at least 1")
    batch = states.to_play.shape[0]
    tie_key, playout_key = jax.random.split(key)
    # Settles ties at random; smaller than any difference of scores that matters.
    tie_break = 1e-5 * jax.random.uniform(tie_key, (batch, game.num_actions))
    tree = playout_tree(game, states, num_playouts)

    def simulate(i, tree):
        node, action, is_new = _select(tree, tie_break, c_puct)
        tree, leaf = _expand(game, tree, i + 1, node, action, is_new)
        value = _evaluate(game, jax.random.fold_in(playout_key, i), _at(tree.states, leaf))
        return _backup(tree, leaf, value)

    tree = jax.lax.fori_loop(0, num_playouts, simulate, tree)
    children = tree.children[:, 0]
    visits, value_sum = _of_children(tree, children)
    legal = legal_action_masks(game, states)
    total = visits.sum(-1, keepdims=True)
    return SearchOutput(
        action=jnp.argmax(jnp.where(legal, visits + tie_break, -1.0), axis=-1).astype(jnp.int32),
        action_weights=visits / jnp.maximum(total, 1),
        visit_counts=visits,
        q_values=value_sum / jnp.maximum(visits, 1),
        root_value=value_sum.sum(-1) / jnp.maximum(total[:, 0], 1),
    )


def playout_tree(game: Gomoku, states: State, num_playouts: int) -> _Tree:
    """The trees of B games [B, ...] before the first playout, with room for all."""
    batch, num_nodes = states.to_play.shape[0], num_playouts + 1
    return _Tree(
        states=jax.tree.map(
            lambda x: jnp.zeros((batch, num_nodes, *x.shape[1:]), x.dtype).at[:, 0].set(x), states
        ),
        legal=_legal_of_root(game, states, num_nodes),
        parent=jnp.full((batch, num_nodes), _NO_PARENT, jnp.int32),
        children=jnp.full((batch, num_nodes, game.num_actions), _UNVISITED, jnp.int32),
        visits=jnp.zeros((batch, num_nodes), jnp.int32),
        value_sum=jnp.zeros((batch, num_nodes), jnp.float32),
    )


def _legal_of_root(game: Gomoku, states: State, num_nodes: int) -> jax.Array | None:
    if game.rule != "renju" and game.opening == "free":
        return None
    legal = legal_action_masks(game, states)
    return jnp.zeros((len(legal), num_nodes, game.num_actions), bool).at[:, 0].set(legal)


def _at(tree: State, node: jax.Array) -> State:
    """One node a game, [B, M, ...] → [B, ...]."""
    return jax.tree.map(lambda x: x[jnp.arange(x.shape[0]), node], tree)


def _of_children(tree: _Tree, children: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Visits and value sums of children [B, A], 0 for those that do not exist."""
    exists = children != _UNVISITED
    index = jnp.maximum(children, 0)
    visits = jnp.where(exists, jnp.take_along_axis(tree.visits, index, axis=1), 0)
    value_sum = jnp.where(exists, jnp.take_along_axis(tree.value_sum, index, axis=1), 0.0)
    return visits, value_sum


def _select(tree: _Tree, tie_break: jax.Array, c_puct: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Walks down until an action without a node, or an ended game.

    Returns:
        node int32 [B], action int32 [B], is_new bool [B]: whether (node, action) is a node to make.
    """
    batch = tree.parent.shape[0]
    rows = jnp.arange(batch)

    def descend(carry):
        node, action, is_new, active = carry
        empty = tree.states.board[rows, node].reshape(batch, -1) == 0
        legal = empty if tree.legal is None else tree.legal[rows, node]
        children = tree.children[rows, node]
        visits, value_sum = _of_children(tree, children)
        prior = 1.0 / jnp.maximum(legal.sum(-1), 1)
        explore = c_puct * prior * jnp.sqrt(tree.visits[rows, node].astype(jnp.float32))
        score = value_sum / jnp.maximum(visits, 1) + explore[:, None] / (1 + visits) + tie_break
        best = jnp.argmax(jnp.where(legal, score, -jnp.inf), axis=-1).astype(jnp.int32)
        child = children[rows, best]
        missing = child == _UNVISITED
        action = jnp.where(active, best, action)
        is_new = jnp.where(active, missing, is_new)
        node = jnp.where(active & ~missing, child, node)
        active = active & ~missing & ~tree.states.terminated[rows, node]
        return node, action, is_new, active

    root = jnp.zeros(batch, jnp.int32)
    start = root, root, jnp.zeros(batch, bool), ~tree.states.terminated[:, 0]
    node, action, is_new, _ = jax.lax.while_loop(lambda carry: carry[3].any(), descend, start)
    return node, action, is_new


def _expand(
    game: Gomoku, tree: _Tree, new_node: jax.Array, node: jax.Array, action: jax.Array, is_new: jax.Array
) -> tuple[_Tree, jax.Array]:
    """Makes the node `new_node` below `node` where `is_new`; gives the leaf to value, int32 [B]."""
    rows = jnp.arange(node.shape[0])
    after = jax.vmap(game.step)(_at(tree.states, node), action)
    # Written in every row: where it is not new, nothing points to it.
    states = jax.tree.map(lambda x, new: x.at[:, new_node].set(new), tree.states, after)
    num_nodes = tree.parent.shape[1]
    if tree.legal is not None:
        tree = tree.replace(legal=tree.legal.at[:, new_node].set(legal_action_masks(game, after)))
    tree = tree.replace(
        states=states,
        parent=tree.parent.at[:, new_node].set(node),
        children=tree.children.at[rows, jnp.where(is_new, node, num_nodes), action].set(
            jnp.full_like(node, new_node), mode="drop"
        ),
    )
    return tree, jnp.where(is_new, new_node, node)


def _evaluate(game: Gomoku, key: jax.Array, states: State) -> jax.Array:
    """float32 [B]: a playout's result from the view of the side that has just moved."""
    keys = jax.random.split(key, states.to_play.shape[0])
    turns = jax.vmap(random_order)(keys, states)
    winners = jax.vmap(lambda state, turn: playout_winner(game, state, turn))(states, turns)
    return (-states.to_play * winners).astype(jnp.float32)


def _backup(tree: _Tree, leaf: jax.Array, value: jax.Array) -> _Tree:
    """Adds a value to every node from the leaf to the root, its sign changing with the side."""
    rows = jnp.arange(leaf.shape[0])
    num_nodes = tree.parent.shape[1]

    def climb(carry):
        node, value, visits, value_sum = carry
        target = jnp.where(node == _NO_PARENT, num_nodes, node)
        visits = visits.at[rows, target].add(1, mode="drop")
        value_sum = value_sum.at[rows, target].add(value, mode="drop")
        parent = tree.parent[rows, jnp.maximum(node, 0)]
        return jnp.where(node == _NO_PARENT, node, parent), -value, visits, value_sum

    _, _, visits, value_sum = jax.lax.while_loop(
        lambda carry: (carry[0] != _NO_PARENT).any(), climb, (leaf, value, tree.visits, tree.value_sum)
    )
    return tree.replace(visits=visits, value_sum=value_sum)
