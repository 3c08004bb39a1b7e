"""The fast search loop against mctx's, number for number; its steps; trees that go on to the next move."""

import dataclasses
import functools
import itertools
import logging
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import oracle
import pytest
from test_search import (
    EMPTY,
    FINISHED,
    GUMBEL,
    LATE,
    MIDDLE,
    ONE_EMPTY,
    OPEN_FOUR,
    PUCT,
    SQUARE,
    WIDE,
    Node,
    check_output,
    check_tree,
    evaluate,
    filled,
    plain_simulation,
    position,
    random_positions,
    search_tree,
    stack,
    weights,
)
from tiny import tiny

import gomoku_jax as gj
from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.game import State
from gomoku_jax.search import (
    SearchTree,
    advance_tree,
    anytime,
    anytime_search,
    init_tree,
    mask_logits,
    run_simulations,
    simulation,
    summarize,
    to_mctx,
)
from gomoku_jax.search.tree import subtree
from gomoku_jax.selfplay import init_selfplay, run_selfplay


@functools.cache
def random_games(game: gj.Gomoku, batch: int, seed: int) -> State:
    """Random games some plies before their end: at the start, finished, one move from it, and so on."""
    rng = np.random.default_rng(seed)
    rows, make_state = [], cast(Any, State)
    for plies in itertools.islice(itertools.cycle([100, 0, 1, 2, 3, 5, 8]), batch):
        twin = oracle.Game(game.height, game.width, game.k, game.rule)
        for action in rng.permutation(game.num_actions).tolist():
            twin.play(action)
        for _ in range(min(plies, len(twin.moves))):
            twin.undo()
        rows.append(
            make_state(
                board=np.array(twin.board, np.int8),
                to_play=np.int8(twin.to_play),
                last_action=np.int32(twin.last_action),
                move_count=np.int32(len(twin.moves)),
                terminated=np.bool_(twin.terminated),
                winner=np.int8(twin.winner),
            )
        )
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *rows)


# Compiled without LLVM's optimizations, which take longer than they save here.
quick: Any = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


# The same search on both loops.


def on_both(game, params, key, states, config):
    """Outputs and trees, of the fast loop and of mctx's."""
    stock = dataclasses.replace(config, backend="mctx", reuse_tree=False)
    return [jax.device_get(search_tree(game, params, key, states, c)) for c in (config, stock)]


NODE_FIELDS = ("node_visits", "raw_values", "node_values", "children_prior_logits", "action_from_parent")
CHILD_FIELDS = ("children_visits", "children_rewards", "children_discounts", "children_values")


def assert_same_trees(fast: Any, stock: Any, max_depth: int | None) -> tuple[int, int]:
    """Every node of one is the same node of the other, but for those that mctx makes below finished games.

    Returns:
        How many trees had the nodes in the same order, and how many nodes mctx made below finished games.
    """
    num_nodes = stock.parents.shape[1]
    ordered, extra = 0, 0
    np.testing.assert_array_equal(fast.root_invalid_actions, stock.root_invalid_actions)
    chex.assert_trees_all_equal(fast.extra_data, stock.extra_data)
    for row in range(stock.parents.shape[0]):
        ended = stock.embeddings.terminated[row]
        ours, theirs = (jax.tree.map(lambda x, row=row: x[row], tree) for tree in (fast, stock))
        if not ended.any() and max_depth is None:  # mctx leaves gaps where no node is made
            ordered += 1
            assert (ours.parents[num_nodes:] == -1).all(), "room for reuse stays empty"
            first = jax.tree.map(
                lambda x: x[:num_nodes], ours.replace(root_invalid_actions=None, extra_data=None)
            )
            chex.assert_trees_all_equal(first, theirs.replace(root_invalid_actions=None, extra_data=None))
        made = np.flatnonzero(ours.parents >= 0)
        np.testing.assert_array_equal(made, 1 + np.arange(len(made)))
        twin = np.full(len(ours.parents), -1)
        twin[0] = 0
        for node in made:
            twin[node] = theirs.children_index[twin[ours.parents[node]], ours.action_from_parent[node]]
        nodes = np.arange(1 + len(made))
        twin = twin[nodes]
        assert (twin >= 0).all() and len(set(twin.tolist())) == len(twin)
        np.testing.assert_array_equal(theirs.parents[twin[1:]], twin[ours.parents[made]])
        others = np.setdiff1d(np.flatnonzero(theirs.parents >= 0), twin)
        assert ended[theirs.parents[others]].all(), "below running games we have all nodes"
        extra += len(others)
        inner = ours.parents[made][ours.parents[made] > 0]
        assert not ours.embeddings.terminated[inner].any(), "below finished games we have none"
        for name in NODE_FIELDS:
            np.testing.assert_array_equal(getattr(ours, name)[nodes], getattr(theirs, name)[twin], name)
        chex.assert_trees_all_equal(
            jax.tree.map(lambda x, nodes=nodes: x[nodes], ours.embeddings),
            jax.tree.map(lambda x, twin=twin: x[twin], theirs.embeddings),
        )
        running = ~ended[twin]
        for name in CHILD_FIELDS:
            found, due = getattr(ours, name)[nodes[running]], getattr(theirs, name)[twin[running]]
            np.testing.assert_array_equal(found, due, name)
        children = ours.children_index[nodes[running]]
        translated = np.where(children < 0, -1, twin[np.maximum(children, 0)])
        np.testing.assert_array_equal(translated, theirs.children_index[twin[running]])
    return ordered, extra


TINY_BOARD = gj.Gomoku(3, 3, 3)
SIX = gj.Gomoku(6, 6, 4)
OBLONG = gj.Gomoku(5, 7, 4)
MIXED = filled([EMPTY, MIDDLE, LATE, position(OPEN_FOUR, 1), position(OPEN_FOUR, -1), ONE_EMPTY, FINISHED])
QUIET: Any = {"dirichlet_fraction": 0.0, "temperature": 0.0}
REUSING = SearchConfig("puct", 50, reuse_tree=True, **QUIET)
CASES = {
    "puct 3x3": (TINY_BOARD, 1, SearchConfig("puct", 60, **QUIET)),
    "puct 3x6": (WIDE, 8, PUCT),
    "puct 6x6 shallow": (SIX, 33, SearchConfig("puct", 10, temperature=0.5)),
    "puct 5x7 max_depth": (OBLONG, 8, SearchConfig("puct", 80, c_puct_base=20.0, max_depth=3, **QUIET)),
    "min_max 4x4 deep": (
        SQUARE,
        33,
        SearchConfig(
            "puct", 300, c_puct=0.2, q_scaling="min_max", ply_discount=0.9, reuse_tree=True, **QUIET
        ),
    ),
    "gumbel 6x6": (SIX, 33, SearchConfig("gumbel", 40)),
    "gumbel 3x6 quiet": (WIDE, 8, GUMBEL),
    "gumbel 4x4 max_depth": (
        SQUARE,
        1,
        SearchConfig(
            "gumbel",
            60,
            max_considered_actions=5,
            max_depth=3,
            ply_discount=0.9,
            rescale_values=False,
        ),
    ),
}


# Compiled for the comparison alone; they add sizes and settings to what the others show.
SLOW_CASES = ("puct 6x6 shallow", "puct 5x7 max_depth", "gumbel 6x6")


@pytest.mark.parametrize(
    "game, batch, config",
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in SLOW_CASES else ())
        for name, case in CASES.items()
    ],
)
def test_the_fast_loop_is_mctx_number_for_number(game, batch, config):
    """Equal to the last bit, but for one rounding of Gumbel's targets under a discount."""
    visits, ordered, extra = [], 0, 0
    for seed in range(4):
        # Uniform priors tie at every node; a large value of either sign makes all moves alike and bad.
        uniform = weights(game.num_actions, value=[0.0, 2.0][seed // 2])
        # Close to ties mctx's noise of 1e-7 still decides. Only on one board: elsewhere XLA may round the two
        # programs' softmax differently by a last bit, which is enough to decide otherwise now and then.
        if seed == 2 and game is TINY_BOARD:
            uniform["bias"] = np.random.default_rng(0).normal(0, 5e-7, game.num_actions).astype(np.float32)
        params = uniform if seed % 2 == 0 else weights(game.num_actions, seed)
        states = random_games(game, batch, seed // 2)
        (output, tree), (stock_output, stock_tree) = on_both(
            game, params, jax.random.key(seed), states, config
        )
        check_output(game, output, states, config)
        if config.algorithm == "gumbel" and config.ply_discount < 1:
            # There mctx's Q is 0 + discount * value; XLA may add and multiply without rounding in between.
            close = output.action_weights, stock_output.action_weights
            np.testing.assert_allclose(*close, rtol=2e-6, atol=0)
            output, stock_output = (x.replace(action_weights=0) for x in (output, stock_output))
        chex.assert_trees_all_equal(output, stock_output)
        more_ordered, more_extra = assert_same_trees(tree, stock_tree, config.max_depth)
        visits.append(output.visit_counts)
        ordered, extra = ordered + more_ordered, extra + more_extra
    assert ordered > 0 or config.max_depth is not None or game is TINY_BOARD
    assert extra > 0 or config.max_depth is not None, "some rows go on behind the end of a game"
    assert not np.array_equal(visits[0], visits[1])


def test_ties_depend_on_the_key_and_not_on_the_neighbours():
    """Uniform priors and values of 0: equal rows go their own ways."""
    params = weights(18)
    states = filled([EMPTY])
    first, other = (search_tree(WIDE, params, jax.random.key(seed), states, PUCT)[0] for seed in (1, 2))
    assert not np.array_equal(first.visit_counts, other.visit_counts)
    assert len({tuple(row) for row in first.visit_counts.tolist()}) > 4
    changed = jax.tree.map(lambda x, y: x.at[5].set(y), states, FINISHED)
    beside, _ = search_tree(WIDE, params, jax.random.key(1), changed, PUCT)
    keep = np.array([0, 1, 2, 3, 4, 6, 7])
    chex.assert_trees_all_equal(*[jax.tree.map(lambda x: x[keep], output) for output in (first, beside)])


def test_ties_settled_at_once_or_only_where_they_matter(monkeypatch):
    """As on accelerators and as on the CPU: uniform priors, and random ones."""
    results, plain = [], cast(Any, search_tree).__wrapped__
    for lazily in (True, False):
        monkeypatch.setattr(simulation, "settles_ties_lazily", lambda lazily=lazily: lazily)
        search = quick(functools.partial(plain, WIDE, config=REUSING))
        found = [search(weights(18, seed), jax.random.key(1), MIXED) for seed in (None, 1)]
        results.append(jax.device_get(found))
    chex.assert_trees_all_equal(*results)


# In steps.

STEPS = SearchConfig("puct", 40, reuse_tree=True, c_puct=2.0, ply_discount=0.9, temperature=0.0)
PLAIN = dataclasses.replace(STEPS, dirichlet_fraction=0.0)
GUMBEL_STEPS = SearchConfig("gumbel", 24, max_considered_actions=6)
STEPPED = pytest.mark.parametrize("config", [STEPS, GUMBEL_STEPS], ids=["puct", "gumbel"])


@functools.partial(quick, static_argnums=(0, 4))
def start(game, params, key, states, config) -> SearchTree:
    return init_tree(game, evaluate, params, key, states, config)


@functools.partial(quick, static_argnums=(0, 4))
def advance(game, params, tree, count, config) -> SearchTree:
    return run_simulations(game, evaluate, params, tree, count, config)


@functools.partial(quick, static_argnums=(0, 6))
def go_on(game, params, key, tree, actions, states, config) -> SearchTree:
    return advance_tree(game, evaluate, params, key, tree, actions, states, config)


look = quick(summarize, static_argnums=(1, 2, 3))


def search_in_chunks(params, key, states, config, chunks) -> SearchTree:
    tree = start(WIDE, params, key, states, config)
    for count in chunks:
        tree = advance(WIDE, params, tree, count, config)
    return tree


def assert_equal_trees(one: SearchTree, other: SearchTree) -> None:
    """Every field, keys included."""
    chex.assert_trees_all_equal(
        *[
            tree.replace(
                loop_key=jax.random.key_data(tree.loop_key), policy_key=jax.random.key_data(tree.policy_key)
            )
            for tree in (one, other)
        ]
    )


@STEPPED
def test_chunks_do_not_change_the_search(config):
    params, key, most = weights(18, 1), jax.random.key(1), config.num_simulations
    whole = search_in_chunks(params, key, MIXED, config, [most])
    assert int(whole.num_simulations) == most
    compiled = advance._cache_size()
    for chunks in ([1] * most, [7, 0, most - 8, 1], [5, jnp.int32(3), np.int64(most - 8)], [most - 1, 100]):
        assert_equal_trees(search_in_chunks(params, key, MIXED, config, chunks), whole)
    assert advance._cache_size() <= compiled + 2, "a count's value compiles nothing (its type may)"
    # More than the rest is the rest, and less than nothing is nothing.
    for count in (1, 1000, -3):
        assert_equal_trees(advance(WIDE, params, whole, count, config), whole)


@STEPPED
def test_summary(config):
    params, states = weights(18, 2), MIXED
    legal = (np.asarray(states.board).reshape(8, -1) == 0) & ~np.asarray(states.terminated)[:, None]
    logits, raw_values = evaluate(params, states)
    plain_prior = np.where(legal, jax.nn.softmax(mask_logits(logits, jnp.asarray(legal))), 0)
    tree = start(WIDE, params, jax.random.key(3), states, config)
    for done in (0, 1, 9, config.num_simulations):
        tree = advance(WIDE, params, tree, done - int(tree.num_simulations), config)
        summary = jax.device_get(look(tree, config, 6, 4))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(summary))
        assert summary.num_simulations == done
        if done > 0:
            check_output(WIDE, summary.output, states, dataclasses.replace(config, num_simulations=done))
        np.testing.assert_allclose(summary.prior.sum(-1), legal.any(-1), atol=1e-6)
        assert (summary.prior[~legal] == 0).all()
        np.testing.assert_allclose(summary.raw_value, raw_values, rtol=1e-6)  # another program
        difference = np.abs(summary.prior - plain_prior).sum(-1) / 2
        assert difference.max() < (0.25 if config is STEPS else 0) + 1e-5  # the noise
        assert config is not STEPS or difference.max() > 0.01
        assert summary.principal_variations.dtype == np.int32
        np.testing.assert_array_equal(summary.principal_variations, plain_lines(to_mctx(tree), 4, 6))
        np.testing.assert_array_equal(summary.principal_variation, summary.principal_variations[:, 0])
        if done == 0:
            output = summary.output
            assert not output.visit_counts.any() and (summary.principal_variations == -1).all()
            np.testing.assert_array_equal(output.root_value, summary.raw_value)
            running = legal.any(-1)
            assert legal[running, output.action[running]].all()
            if config is STEPS:
                np.testing.assert_array_equal(output.action_weights, summary.prior)
    lines = summary.principal_variation
    assert (lines[6:] == -1).all() and (lines[3, 1:] == -1).all() and lines[3, 0] in (6, 11)
    assert lines[5].tolist() == [10, -1, -1, -1, -1, -1]
    assert (lines[0] >= 0).sum() >= 2


def plain_lines(tree: Any, num_lines: int, length: int) -> np.ndarray:
    """The lines of the most visited actions, below the most visited actions of the roots."""
    tree = jax.device_get(tree)
    lines = np.full((tree.parents.shape[0], num_lines, length), -1)
    for row in range(len(lines)):
        root_visits = tree.children_visits[row, 0]
        for rank, action in enumerate(np.argsort(-root_visits, kind="stable")[:num_lines]):
            node, visits = 0, root_visits
            for depth in range(length):
                if tree.embeddings.terminated[row, node] or not visits[action]:
                    break
                lines[row, rank, depth] = action
                node = tree.children_index[row, node, action]
                visits = tree.children_visits[row, node]
                action = np.argmax(visits)
    return lines


# On the host.

NETWORK = NetworkConfig(channels=8, num_blocks=1, value_hidden=8)
ANYTIME = SearchConfig("puct", 12, **QUIET)


@functools.cache
def network_params():
    shapes = jax.eval_shape(lambda: gj.init_network(NETWORK, TINY_BOARD, jax.random.key(0)))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.3, x.shape), jnp.float32), shapes)


def test_anytime_search(caplog):
    states, params = random_games(TINY_BOARD, 3, 0), network_params()
    running = ~np.asarray(states.terminated)

    def found(**options) -> list:
        return list(
            anytime_search(TINY_BOARD, NETWORK, params, jax.random.key(5), states, ANYTIME, **options)
        )

    summaries = found(chunk=5, line_length=4)
    assert [int(summary.num_simulations) for summary in summaries] == [5, 10, 12]
    for summary in summaries:
        totals = np.asarray(summary.output.visit_counts).sum(-1)
        assert (totals[running] == int(summary.num_simulations)).all()
        assert summary.principal_variation.shape == (3, 4)
    for before, after in itertools.pairwise(summaries):
        assert (after.output.visit_counts >= before.output.visit_counts).all()
    whole = jax.jit(gj.search, static_argnums=(0, 1, 5))
    output = whole(TINY_BOARD, NETWORK, params, jax.random.key(5), states, ANYTIME)
    chex.assert_trees_all_equal(summaries[-1].output, output)
    steps: Any = anytime._steps(TINY_BOARD, NETWORK, ANYTIME, 4, 1)
    compiled = [step._cache_size() for step in steps]
    assert compiled == [1, 1, 1]
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        again = found(chunk=4, line_length=4)
        assert [int(summary.num_simulations) for summary in again] == [4, 8, 12]
        one_by_one = found(chunk=1, seconds=1e6, line_length=4)
        assert len(one_by_one) == 12
        assert len(found(chunk=1, seconds=1e-9, line_length=4)) == 1, "the deadline is over after a chunk"
    assert [step._cache_size() for step in steps] == compiled
    assert not [record for record in caplog.records if "ompiling" in record.getMessage()]
    for other in (again, one_by_one):
        chex.assert_trees_all_equal(other[-1], summaries[-1])
    assert len(found(chunk=1000, line_length=4)) == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"chunk": 0}, "chunk = 0: at least 1"),
        ({"chunk": -4}, "chunk = -4: at least 1"),
        ({"seconds": 0.0}, "seconds = 0.0: more than 0"),
        ({"seconds": -1}, "seconds = -1: more than 0"),
        ({"num_lines": 0}, "num_lines = 0: from 1 to the board's 9 points"),
        ({"num_lines": 10}, "num_lines = 10: from 1"),
        ({"line_length": 0}, "line_length = 0: at least 1"),
    ],
)
def test_anytime_search_refuses_at_the_call(options, message):
    """Before any work, and before anyone asks for the first summary."""
    states = random_games(TINY_BOARD, 3, 0)
    with pytest.raises(ValueError, match=message):
        anytime_search(TINY_BOARD, NETWORK, network_params(), jax.random.key(0), states, ANYTIME, **options)


# Trees that go on to the next position.


def check_links(tree: SearchTree) -> None:
    """Parents and children are each other's inverse; visits and means are those of the children."""
    tree = jax.device_get(tree.replace(loop_key=None, policy_key=None))
    for row in range(tree.parent.shape[0]):
        used = int(tree.num_nodes[row])
        assert (tree.parent[row, used:] == -1).all() and not tree.visits[row, used:].any()
        assert (tree.parent[row, 1:used] >= 0).all() and (tree.parent[row, 1:used] < np.arange(1, used)).all()
        assert (tree.children[row] != -1).sum() == used - 1
        ended = tree.states.terminated[row]
        for node in range(1, used):
            entry = tree.children[row, tree.parent[row, node], tree.action_from_parent[row, node]]
            assert entry == (-2 - node if ended[node] else node)
        for node in range(used):
            below = np.flatnonzero(tree.parent[row] == node)
            if ended[node]:
                assert node == 0 or len(below) == 0
                continue
            visits, q_values = tree.visits[row, below], tree.q_values[row, node]
            assert tree.visits[row, node] == 1 + visits.sum()
            total = tree.raw_value[row, node] + (visits * q_values[tree.action_from_parent[row, below]]).sum()
            assert tree.value[row, node] == pytest.approx(total / (1 + visits.sum()), abs=1e-5)


NODE_ARRAYS = ["parent", "action_from_parent", "visits", "raw_value", "value", "prior", "children"]
NODE_ARRAYS += ["prior_logits", "q_values", "exploration"]


def plain_subtree(tree: SearchTree, row: int, action: int) -> dict[str, np.ndarray] | None:
    """What was searched below an action, nodes in their order; None where there is nothing to keep."""
    new_root = int(tree.children[row, 0, action])
    if new_root < 0:
        return None
    kept = [new_root]
    for node in range(new_root + 1, tree.capacity):
        if tree.parent[row, node] in kept:
            kept.append(node)
    number = {old: new for new, old in enumerate(kept)} | {-1: -1}
    number |= {-2 - old: -2 - new for new, old in enumerate(kept)}
    fields = {}
    for name in NODE_ARRAYS:
        old = getattr(tree, name)[row]
        empty = -1 if name in ("parent", "action_from_parent", "children") else 0
        fields[name] = np.full_like(old, empty)
        fields[name][: len(kept)] = old[kept]
    fields["parent"][: len(kept)] = [-1] + [number[int(tree.parent[row, node])] for node in kept[1:]]
    fields["children"][: len(kept)] = np.vectorize(lambda old: number[int(old)])(tree.children[row, kept])
    fields["action_from_parent"][0], fields["prior"][0] = -1, 1.0
    fields["num_nodes"] = np.asarray(len(kept))
    return fields


def assert_fields(tree: SearchTree, row: int, fields: dict[str, np.ndarray], but: tuple = ()) -> None:
    for name, value in fields.items():
        if name not in but:
            np.testing.assert_array_equal(getattr(tree, name)[row], value, f"{name} of row {row}")


def host(tree: SearchTree) -> Any:
    """On the host, without keys."""
    return jax.device_get(tree.replace(loop_key=None, policy_key=None))


step = quick(jax.vmap(WIDE.step))
keep_below = quick(subtree, static_argnums=2)


def test_a_tree_goes_on_with_what_was_searched_below_the_move():
    params = weights(18, 3)
    params["bias"] *= 3  # some moves are not tried
    params["bias"][6] = 3  # the winning one is
    states = stack([EMPTY, MIDDLE, EMPTY, position(OPEN_FOUR, 1), MIDDLE, LATE, FINISHED, EMPTY])
    tree = search_in_chunks(params, jax.random.key(1), states, STEPS, [40])
    check_links(tree)
    before = host(tree)
    visits = np.asarray(look(tree, STEPS).output.visit_counts)
    least = np.where(visits > 0, visits, 1000).argmin(-1)
    unvisited = (np.where(np.asarray(states.board).reshape(8, -1) == 0, visits, 1000)).argmin(-1)
    assert visits[2, unvisited[2]] == 0
    actions = visits.argmax(-1).astype(np.int32)
    actions[1], actions[2], actions[3] = least[1], unvisited[2], 6
    assert visits[3, 6] > 0
    after = step(states, jnp.asarray(actions))
    after = jax.tree.map(lambda x, y: x.at[4].set(y), after, EMPTY)  # a new game
    assert np.asarray(after.terminated).tolist() == [False] * 3 + [True] + [False] * 2 + [True, False]
    keeps = np.array([True, True, False, False, False, True, False, True])

    # The cut itself, for every action of every row.
    for action in range(18):
        moved, kept = jax.device_get(
            keep_below(tree.replace(loop_key=None, policy_key=None), jnp.full(8, action), 41)
        )
        for row in range(8):
            due = plain_subtree(before, row, action)
            assert kept[row] == (due is not None)
            if due is not None:
                assert_fields(moved, row, due)

    key = jax.random.key(2)
    fresh = start(WIDE, params, key, after, STEPS)
    moved = go_on(WIDE, params, key, tree, jnp.asarray(actions), after, STEPS)
    np.testing.assert_array_equal(jax.random.key_data(moved.loop_key), jax.random.key_data(fresh.loop_key))
    np.testing.assert_array_equal(
        jax.random.key_data(moved.policy_key), jax.random.key_data(fresh.policy_key)
    )
    assert int(moved.num_simulations) == 0
    check_links(moved)
    check_tree(jax.device_get(to_mctx(moved, 0.9)))
    ours, anew = host(moved), host(fresh)
    first = jax.device_get(look(moved, STEPS)).output.visit_counts
    for row in range(8):
        if not keeps[row]:
            chex.assert_trees_all_equal(
                *[jax.tree.map(lambda x, r=row: x[r], t.replace(num_simulations=None)) for t in (ours, anew)]
            )
            assert not first[row].any()
            continue
        due = plain_subtree(before, row, actions[row])
        assert due is not None
        child = before.children[row, 0, actions[row]]
        entries = before.children[row, child]
        entries = np.where(entries < -1, -2 - entries, entries)
        below = np.where(entries >= 0, before.visits[row, entries], 0)
        np.testing.assert_array_equal(first[row], below)
        np.testing.assert_array_equal(ours.states.board[row, 0], after.board[row])
        # The root's prior is new, and so is what hangs on it.
        logits = anew.prior_logits[row, 0]
        assert not np.array_equal(logits, due["prior_logits"][0]), "there is noise"
        prior = np.asarray(jax.nn.softmax(logits))
        due["prior_logits"][0] = logits
        due["exploration"][0] = prior / (below + 1)
        children = np.flatnonzero(due["parent"] == 0)
        due["prior"][children] = prior[due["action_from_parent"][children]]
        assert_fields(ours, row, due, but=("exploration", "prior"))
        np.testing.assert_allclose(ours.exploration[row], due["exploration"], rtol=1e-6)
        np.testing.assert_allclose(ours.prior[row], due["prior"], rtol=1e-6)

    # `n` more simulations are n more visits, up to the whole number.
    running = ~np.asarray(after.terminated)
    for count, total in ((0, 0), (1, 1), (15, 16), (100, 40)):
        moved = advance(WIDE, params, moved, count, STEPS)
        now = np.asarray(look(moved, STEPS).output.visit_counts)
        assert (now >= first).all()
        np.testing.assert_array_equal((now - first).sum(-1)[running], total)
    check_links(moved)
    check_tree(jax.device_get(to_mctx(moved, 0.9)))


def test_a_subtree_too_large_for_the_room_starts_afresh():
    """Priors that lead to one reply, and nowhere after it: most nodes lie below two moves."""
    params = weights(18)
    params["bias"][7] = 10.0
    params["opponent"][7, 8] = 20.0
    states = filled([EMPTY, LATE])
    tree = search_in_chunks(params, jax.random.key(1), states, STEPS, [40])
    sizes = []
    for action in (7, 8):
        actions = jnp.asarray([action, *look(tree, STEPS).output.action[1:].tolist()], jnp.int32)
        states = step(states, actions)
        due = plain_subtree(host(tree), 0, action)
        assert due is not None
        sizes.append(int(due["num_nodes"]))
        tree = go_on(WIDE, params, jax.random.key(2), tree, actions, states, STEPS)
        assert int(tree.num_nodes[0]) == (sizes[-1] if sizes[-1] <= 41 else 1)
        if sizes[-1] > 41:
            fresh = host(start(WIDE, params, jax.random.key(2), states, STEPS))
            chex.assert_trees_all_equal(
                *[jax.tree.map(lambda x: x[0], t.replace(num_simulations=None)) for t in (host(tree), fresh)]
            )
        tree = advance(WIDE, params, tree, 40, STEPS)
        check_links(tree)
    assert sizes[0] <= 41 < sizes[1]


def plain_size(node: Node | float) -> int:
    return 1 + sum(plain_size(child) for child in node.children.values()) if isinstance(node, Node) else 1


def test_reused_trees_are_alphazeros():
    """Whole games on one tree each, beside the same in plain Python. Near the end, where few nodes are left
    to make, visits outgrow the nodes.
    """
    game, config = gj.Gomoku(4, 4, 4), PLAIN
    params = weights(16, 5)
    states = stack(random_positions(game, [16, 12, 10, 9, 8, 7, 6, 5], 7))
    roots: list[Node | None] = [
        Node(params, np.asarray(b), int(t)) for b, t in zip(states.board, states.to_play, strict=True)
    ]
    tree = start(game, params, jax.random.key(0), states, config)
    reused, most = 0, 0
    for move in range(7):
        tree = advance(game, params, tree, 40, config)
        output = jax.device_get(look(tree, config).output)
        for row, root in enumerate(roots):
            if root is None:
                continue
            for _ in range(40):
                plain_simulation(game, params, config, root)
            np.testing.assert_array_equal(
                output.visit_counts[row, root.legal], root.visits, f"row {row}, move {move}"
            )
            most = max(most, int(root.visits.sum()))
        states = jax.vmap(game.step)(states, output.action)
        tree = go_on(game, params, jax.random.key(move), tree, output.action, states, config)
        for row, root in enumerate(roots):
            if root is None or states.terminated[row]:
                roots[row] = None
                continue
            child = root.children[int(np.flatnonzero(root.legal == output.action[row])[0])]
            assert isinstance(child, Node)
            if plain_size(child) > 41:
                child = Node(params, child.board, child.to_play)
            reused += child.visits.sum() > 0
            roots[row] = child
    assert reused > 20 and most > tree.capacity + 1


def test_advance_tree_needs_room():
    config = dataclasses.replace(STEPS, reuse_tree=False)
    states = MIXED
    tree = jax.eval_shape(lambda: init_tree(WIDE, evaluate, weights(18), jax.random.key(0), states, config))
    with pytest.raises(ValueError, match=r"search.reuse_tree = False: trees have no room"):
        advance_tree(
            WIDE, evaluate, weights(18), jax.random.key(0), tree, jnp.zeros(8, jnp.int32), states, config
        )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"q_scaling": "max"}, r"search.q_scaling = 'max': choose one of none, min_max"),
        ({"backend": "slow"}, r"search.backend = 'slow': choose one of fast, mctx"),
        ({"algorithm": "gumbel", "q_scaling": "min_max"}, r"search.q_scaling = 'min_max': of puct only"),
        ({"algorithm": "gumbel", "reuse_tree": True}, r"search.reuse_tree = True: needs algorithm puct"),
        ({"backend": "mctx", "reuse_tree": True}, r"search.reuse_tree = True: needs .* and backend fast"),
    ],
)
def test_configs_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        SearchConfig(**options)


# Self-play on one tree a game.

play = quick(run_selfplay, static_argnums=(0, 1, 2, 3))


def test_selfplay_that_reuses_trees():
    config = tiny(
        search={"algorithm": "puct", "num_simulations": 8, "reuse_tree": True},
        selfplay={"moves_per_iteration": 12},
    )
    game = gj.Gomoku.from_config(config.game)
    params = weights(game.num_actions, 1)
    state = init_selfplay(game, config.selfplay, jax.random.key(0))

    def run(seed):
        return jax.device_get(
            play(game, evaluate, config.selfplay, config.search, params, state, jax.random.key(seed))
        )

    end, positions, is_new, stats = run(1)
    chex.assert_trees_all_equal(run(1), (end, positions, is_new, stats))
    assert not np.array_equal(run(2)[1].board, positions.board)
    assert stats.games > 8 and is_new.sum() == stats.positions, "some games restart within the run"
    target, board = positions.policy_target[is_new], positions.board[is_new].reshape(stats.positions, -1)
    np.testing.assert_allclose(target.sum(-1), 1, atol=1e-5)
    assert (target[board != 0] == 0).all()
    # Shares of eight visits are eighths: at the first move. Later ones are of more.
    eighths = (np.abs(positions.policy_target * 8 - np.round(positions.policy_target * 8)) < 1e-5).all(-1)
    eighths = eighths.reshape(-1, config.selfplay.num_games)
    assert eighths[game.num_actions].all()
    assert eighths[game.num_actions + 1 :].mean() < 0.8


# What the fast loop assumes of mctx.


def test_mctx_is_as_the_fast_loop_takes_it():
    changed = f"mctx {mctx.__version__} changed %s: see gomoku_jax/search/tree_search.py"
    key, shape, number = jax.random.key(3), (2, 5), 7
    logits = jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)
    make_root: Any = mctx.RootFnOutput
    root = make_root(prior_logits=logits, value=jnp.zeros(2), embedding=jnp.zeros(2))
    calls = []

    def loop(*arguments, **keywords):
        calls.append((arguments, keywords))
        loop_key, tree = arguments[3]
        # Every visit on action 3, as if a search had been run.
        return loop_key, tree.replace(children_visits=tree.children_visits.at[:, 0, 3].set(number))

    def policy(name, **options) -> Any:
        function, invalid = getattr(mctx, name), jnp.zeros(shape, bool).at[:, 4].set(True)
        calls.clear()

        def traced(root):
            output = function((), key, root, lambda *_: None, number, invalid, loop_fn=loop, **options)
            return output, calls[0][0][3]

        output, state = quick(traced)(root)
        assert len(calls) == 1, changed % "how often it calls loop_fn"
        arguments, keywords = calls[0]
        assert len(arguments) == 4 and not keywords, changed % "the arguments of loop_fn"
        assert arguments[:2] == (0, number), changed % "the bounds of loop_fn"
        assert callable(arguments[2]) and len(state) == 2, changed % "the arguments of loop_fn"
        visits = np.asarray(output.search_tree.children_visits[:, 0])
        assert (visits == [0, 0, 0, number, 0]).all(), changed % "where a policy's tree comes from"
        return output, *state

    def same_key(one, other) -> bool:
        return np.array_equal(jax.random.key_data(one), jax.random.key_data(other))

    output, loop_key, tree = policy("gumbel_muzero_policy", gumbel_scale=2.0)
    due_key, gumbel_key = jax.random.split(key)
    assert same_key(loop_key, due_key), changed % "how gumbel_muzero_policy splits its key"
    gumbel = 2.0 * jax.random.gumbel(gumbel_key, shape, jnp.float32)
    assert np.array_equal(tree.extra_data.root_gumbel, gumbel), changed % "the Gumbel noise"
    assert (np.asarray(output.action) == 3).all(), changed % "gumbel_muzero_policy's choice: the most visited"
    tree_class: Any = mctx.Tree
    fields = {field.name for field in dataclasses.fields(tree_class)}
    ours: Any = to_mctx(start(WIDE, weights(18), key, MIXED, GUMBEL_STEPS))
    ours = {field.name for field in dataclasses.fields(ours)}
    expected = {"node_visits", "raw_values", "node_values", "parents", "action_from_parent", "children_index"}
    expected |= {"children_prior_logits", "children_visits", "children_rewards", "children_discounts"}
    expected |= {"children_values", "embeddings", "root_invalid_actions", "extra_data"}
    assert fields == ours == expected, changed % "the fields of its Tree"
    assert (mctx.Tree.ROOT_INDEX, mctx.Tree.NO_PARENT, mctx.Tree.UNVISITED) == (0, -1, -1), (
        changed % "the constants of its Tree"
    )
    _, loop_key, tree = policy("muzero_policy", dirichlet_fraction=0.0)
    assert same_key(loop_key, jax.random.split(key, 3)[2]), changed % "how muzero_policy splits its key"
    # Before any simulation: what `init_tree` makes itself.
    assert tree.parents.shape == (2, number + 1), changed % "the size of its Tree"
    assert np.asarray(tree.node_visits)[:, 0].tolist() == [1, 1], changed % "the visits of a new root"
    invalid = np.asarray(tree.children_prior_logits)[:, 0, 4]
    assert (invalid == np.finfo(np.float32).min).all(), changed % "how it masks logits"
