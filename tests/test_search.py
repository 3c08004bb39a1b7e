"""PUCT, Gumbel and pure MCTS: exact small positions, and the same searches once more in plain Python."""

import dataclasses
import functools
import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import gomoku_jax as gj
from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.game import State
from gomoku_jax.network import NetworkOutput
from gomoku_jax.search import (
    SearchOutput,
    add_root_noise,
    dirichlet_over_legal,
    draw_action,
    init_tree,
    mask_logits,
    pure_mcts,
    run_simulations,
    search_output,
    search_with,
    temper,
    to_mctx,
)
from gomoku_jax.search.stock import run_policy

WIDE = gj.Gomoku(3, 6, 5)  # only its three rows hold lines
SQUARE = gj.Gomoku(4, 4, 3)
ROWS = 8  # games in every batch, so that one compiled program serves many tests

PUCT = SearchConfig("puct", num_simulations=200, dirichlet_fraction=0.0, temperature=0.0)
GUMBEL = SearchConfig("gumbel", num_simulations=200, max_considered_actions=18, gumbel_scale=0.0)
NOISY_PUCT = SearchConfig("puct", num_simulations=1, dirichlet_alpha=0.05, dirichlet_fraction=1.0)
NOISY_GUMBEL = SearchConfig("gumbel", num_simulations=1, max_considered_actions=18)
ALL = pytest.mark.parametrize(
    "config", [PUCT, GUMBEL, NOISY_PUCT, NOISY_GUMBEL], ids=["puct", "gumbel", "noisy puct", "noisy gumbel"]
)
BOTH = pytest.mark.parametrize("config", [PUCT, GUMBEL], ids=["puct", "gumbel"])
ON_MCTX = [dataclasses.replace(config, backend="mctx") for config in (PUCT, GUMBEL)]
BACKENDS = pytest.mark.parametrize(
    "config", [PUCT, GUMBEL, *ON_MCTX], ids=["puct", "gumbel", "puct on mctx", "gumbel on mctx"]
)


# An evaluator whose answers are chosen by its parameters, so that all of them share the compiled programs.


def weights(points: int, seed: int | None = None, on_stones: float = 0.0, value: float = 0.0):
    """Parameters of `evaluate`: without a seed uniform priors, with one a prior and value by the stones."""
    rng = np.random.default_rng(seed)
    size = 0.0 if seed is None else 1.0
    return {
        "bias": (size * rng.normal(size=points)).astype(np.float32),
        "own": (size * rng.normal(size=(points, points)) / 2).astype(np.float32),
        "opponent": (size * rng.normal(size=(points, points)) / 2).astype(np.float32),
        "value": (size * rng.normal(size=(2, points)) / 3).astype(np.float32),
        "on_stones": np.float32(on_stones),  # added to the logits of occupied points
        "constant": np.float32(value),  # added to the value before the tanh
    }


def evaluate(params: Any, states: State) -> NetworkOutput:
    flat = states.board.reshape(states.to_play.shape[0], -1)
    own = (flat == states.to_play[:, None]).astype(jnp.float32)
    opponent = (flat == -states.to_play[:, None]).astype(jnp.float32)
    logits = own @ params["own"] + opponent @ params["opponent"] + params["bias"][None]
    value = own @ params["value"][0] + opponent @ params["value"][1] + params["constant"]
    return NetworkOutput(logits + params["on_stones"] * (own + opponent), jnp.tanh(value))


def numpy_evaluate(params, board: np.ndarray, to_play: int) -> tuple[np.ndarray, float]:
    """The same for one position: logits and value."""
    own, opponent = (np.float64(board.ravel() == side) for side in (to_play, -to_play))
    logits = own @ params["own"] + opponent @ params["opponent"] + params["bias"]
    logits = logits + params["on_stones"] * (own + opponent)
    return logits, math.tanh(own @ params["value"][0] + opponent @ params["value"][1] + params["constant"])


@functools.partial(jax.jit, static_argnums=(0, 4))
def search_tree(game, params, key, states, config):
    """The search's output, and its tree in mctx's form."""
    if config.backend == "fast":
        tree = init_tree(game, evaluate, params, key, states, config)
        tree = run_simulations(game, evaluate, params, tree, config.num_simulations, config)
        return search_output(tree, config), to_mctx(tree, config.ply_discount)
    output = search_with(game, evaluate, params, key, states, config)
    noise_key, search_key, _ = jax.random.split(key, 3)
    legal = jax.vmap(game.legal_action_mask)(states)
    root = evaluate(params, states)
    logits = mask_logits(root.policy_logits, legal)
    if config.algorithm == "puct" and config.dirichlet_fraction > 0:
        noise = config.dirichlet_fraction, config.dirichlet_alpha
        logits = add_root_noise(noise_key, root.policy_logits, legal, *noise)
    policy = run_policy(game, evaluate, params, search_key, states, logits, root.value, config)
    return output, policy.search_tree


def run(game, params, seed: int, states: State, config: SearchConfig) -> SearchOutput:
    """Searches, and checks what holds of every search."""
    output, tree = jax.device_get(search_tree(game, params, jax.random.key(seed), states, config))
    check_tree(tree)
    check_output(game, output, states, config)
    return output


def check_tree(tree) -> None:
    """Every node below a running game is one legal move further."""
    nodes = tree.embeddings
    for row in range(tree.parents.shape[0]):
        for node in range(1, tree.parents.shape[1]):
            parent, action = tree.parents[row, node], tree.action_from_parent[row, node]
            if parent >= 0 and not nodes.terminated[row, parent]:
                before, after = nodes.board[row, parent].ravel(), nodes.board[row, node].ravel()
                assert before[action] == 0 and after[action] == nodes.to_play[row, parent]
                assert nodes.move_count[row, node] == nodes.move_count[row, parent] + 1
    assert np.isfinite(tree.node_values).all() and np.isfinite(tree.children_values).all()
    assert np.isfinite(tree.children_prior_logits).all()


def check_output(game, output: SearchOutput, states: State, config: SearchConfig) -> None:
    legal = (np.asarray(states.board).reshape(len(output.action), -1) == 0) & ~np.asarray(states.terminated)[
        :, None
    ]
    running = legal.any(-1)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(output))
    assert output.action.dtype == output.visit_counts.dtype == np.int32
    assert output.action_weights.dtype == output.q_values.dtype == output.root_value.dtype == np.float32
    assert (output.visit_counts.sum(-1) == config.num_simulations).all()
    assert (output.visit_counts[running][~legal[running]] == 0).all()
    assert (output.action_weights[~legal] == 0).all()
    np.testing.assert_allclose(output.action_weights[running].sum(-1), 1, atol=1e-5)
    assert (output.q_values[output.visit_counts == 0] == 0).all()
    assert (np.abs(output.q_values) <= 1 + 1e-6).all() and (np.abs(output.root_value) <= 1 + 1e-6).all()
    assert legal[running, output.action[running]].all()
    if config.algorithm == "puct":
        np.testing.assert_allclose(
            output.action_weights[running], output.visit_counts[running] / config.num_simulations, atol=1e-6
        )


# Positions.


def position(rows: list[str], to_play: int, finished: bool = False) -> State:
    """From a drawing, its first line the top row: x is black, o white."""
    board = np.array([[{"x": 1, "o": -1, ".": 0}[c] for c in row] for row in reversed(rows)], np.int8)
    return State(
        board=jnp.asarray(board),
        to_play=jnp.int8(to_play),
        last_action=jnp.int32(np.flatnonzero(board.ravel())[-1] if board.any() else -1),
        move_count=jnp.int32((board != 0).sum()),
        terminated=jnp.bool_(finished),
        winner=jnp.int8(-to_play if finished else 0),
    )


def stack(states: list[State]) -> State:
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


def filled(states: list[State]) -> State:
    """A batch of ROWS games, the last repeated."""
    return stack(states + states[-1:] * (ROWS - len(states)))


def swapped(states: State) -> State:
    return states.replace(board=-states.board, to_play=-states.to_play, winner=-states.winner)


OPEN_FOUR = ["oxoxo.", ".xxxx.", ".oxoxo"]  # black stones between two empty points, 6 and 11
ONE_EMPTY = position(["oxoxox", "xoxo.x", "oxoxox"], -1)
FINISHED = position(["oxoo.o", "xxxxx.", "o.o..."], -1, finished=True)
EMPTY = WIDE.init()
LATE = position(["oxoxox", "xo.ox.", "ox.xo."], 1)
MIDDLE = position(["..o...", "x.ox..", "....x."], -1)


def random_positions(game: gj.Gomoku, empty: list[int], seed: int) -> list[State]:
    """Running games with these numbers of empty points, by the oracle."""
    rng = np.random.default_rng(seed)
    states = []
    for number in empty:
        while True:
            twin = oracle.Game(game.height, game.width, game.k, game.rule)
            for action in rng.permutation(game.num_actions)[: game.num_actions - number].tolist():
                twin.play(action)
            if not twin.terminated:
                break
        board = np.array(twin.board)
        rows = ["".join(".xo"[cell] for cell in row) for row in board[::-1]]
        states.append(position(rows, twin.to_play))
    return states


# Values and signs.


@BACKENDS
def test_an_open_four_wins_or_loses_and_colours_do_not_matter(config):
    states = filled([position(OPEN_FOUR, 1), position(OPEN_FOUR, -1)])
    output = run(WIDE, weights(18), 0, states, config)
    assert output.action[0] in (6, 11)
    np.testing.assert_array_equal(output.q_values[0, [6, 11]], 1.0)
    assert (output.q_values[1, output.visit_counts[1] > 0] < 0).all()
    assert output.action_weights[0, [6, 11]].sum() > 0.9
    if config.algorithm == "puct":
        assert output.root_value[0] > 0.9 and output.root_value[1] < -0.8
    else:  # sequential halving also visits the other moves, by plan
        assert output.root_value[0] > 0.5 and output.root_value[1] < -0.7
    other = run(WIDE, weights(18), 0, swapped(states), config)
    chex.assert_trees_all_equal(other, output)


@pytest.mark.parametrize("seed", [1, 2])
@BOTH
def test_colours_do_not_matter_with_any_priors(config, seed):
    params, states = weights(18, seed), filled([MIDDLE, LATE, position(OPEN_FOUR, -1)])
    chex.assert_trees_all_equal(
        run(WIDE, params, seed, swapped(states), config), run(WIDE, params, seed, states, config)
    )


DISCOUNTED_PUCT = SearchConfig(
    "puct", num_simulations=160, dirichlet_fraction=0.0, temperature=0.0, c_puct=2.0, ply_discount=0.9
)
DISCOUNTED_GUMBEL = SearchConfig(
    "gumbel", num_simulations=160, max_considered_actions=16, gumbel_scale=0.0, ply_discount=0.9
)
DISCOUNTED = pytest.mark.parametrize("config", [DISCOUNTED_PUCT, DISCOUNTED_GUMBEL], ids=["puct", "gumbel"])


@functools.cache
def solver(game: gj.Gomoku) -> oracle.Solver:
    return oracle.Solver(game.height, game.width, game.k, game.rule)


@functools.cache
def exact_values(game: gj.Gomoku, own: int, other: int, discount: float) -> dict[int, float]:
    """Value of each move (as a bit) for the side to move, a win losing `discount` with every ply."""
    judge, values = solver(game), {}
    for point in range(game.num_actions):
        move = 1 << point
        if move & (own | other):
            continue
        if judge.won(own | move):
            values[point] = 1.0
        elif own | other | move == judge.full:
            values[point] = 0.0
        else:
            values[point] = -discount * max(exact_values(game, other, own | move, discount).values())
    return values


def exact(game: gj.Gomoku, state: State, discount: float) -> dict[int, float]:
    flat = np.asarray(state.board).ravel() * int(state.to_play)
    own, other = (sum(1 << int(i) for i in np.flatnonzero(flat == side)) for side in (1, -1))
    return exact_values(game, own, other, discount)


# On the square board: a win at once beside a slower one, and positions in which all moves lose, some later.
WON = [
    position([".xox", "x..x", "..o.", "o.ox"], -1),
    position(["oxox", ".x.o", ".ox.", ".ox."], 1),
    position([".x..", "xo.o", "x...", "oxox"], -1),
    position([".xoo", ".o..", "x.x.", "oxxo"], 1),
]
LOST = [
    position(["xo..", "o..x", "xx..", "o.xo"], -1),
    position(["x..x", "o..x", "o..o", "x.xo"], -1),
    position(["oo.x", "x..o", "x...", "oxox"], 1),
    position(["xoxo", "o...", ".xox", "o.x."], 1),
]


@DISCOUNTED
def test_shorter_wins_and_longer_losses_come_first(config):
    output = run(SQUARE, weights(16), 0, stack(WON + LOST), config)
    for row, state in enumerate(WON + LOST):
        values = exact(SQUARE, state, 0.9)
        best, found = max(values.values()), output.q_values[row, output.action[row]]
        assert values[int(output.action[row])] == pytest.approx(best)
        if row < 4:
            assert best == 1.0 == found and any(0 < value < 1 for value in values.values())
        else:
            assert min(values.values()) < best < 0 and -1 < found < 0
        # Without the discount they would be alike.
        undiscounted = exact(SQUARE, state, 1.0)
        assert all(undiscounted[move] == np.sign(value) for move, value in values.items())


@DISCOUNTED
def test_the_best_move_of_late_positions_is_found(config):
    states = random_positions(SQUARE, [2, 3, 3, 4, 4, 5, 5, 5], 3)
    output = run(SQUARE, weights(16), 1, stack(states), config)
    for row, state in enumerate(states):
        values = exact(SQUARE, state, 0.9)
        assert values[int(output.action[row])] == pytest.approx(max(values.values())), np.asarray(state.board)


# Robustness.


@ALL
@pytest.mark.parametrize("params", [weights(18), weights(18, 3), weights(18, 4, on_stones=50.0)])
def test_one_empty_point_is_played(config, params):
    states = filled([ONE_EMPTY, FINISHED, MIDDLE])
    output = run(WIDE, params, 0, states, config)
    assert output.action[0] == 10 and output.action_weights[0, 10] == 1.0
    assert output.root_value[0] == pytest.approx(
        (numpy_evaluate(params, np.asarray(ONE_EMPTY.board), -1)[1]) / (config.num_simulations + 1), abs=1e-5
    ), "every simulation below the root ends in the draw"


@BACKENDS
def test_priors_on_stones_only(config):
    """All prior mass on illegal points, at the root and in the tree, changes nothing: over legal moves the
    prior is the same as without.
    """
    states = filled([MIDDLE, LATE, position(OPEN_FOUR, -1), ONE_EMPTY, FINISHED])
    plain = run(WIDE, weights(18), 0, states, config)
    for on_stones in (50.0, 1e4):
        output = run(WIDE, weights(18, on_stones=on_stones), 0, states, config)
        chex.assert_trees_all_equal(output, plain)


@pytest.mark.parametrize("value", [3.0, -3.0])
@BACKENDS
def test_no_illegal_move_in_the_tree_when_all_moves_look_bad(config, value):
    """With a value near +1 for whoever is to move, every visited move has a Q near -1; an illegal move that
    kept the Q of the unvisited, 0, would be better than all of them. `run` looks at every node.
    """
    states = filled([LATE, position(OPEN_FOUR, -1), position(OPEN_FOUR, 1), ONE_EMPTY, MIDDLE, EMPTY])
    for params in (weights(18, value=value), weights(18, 1, value=value, on_stones=20.0)):
        output = run(WIDE, params, 0, states, config)
        assert (output.visit_counts[0] > 0).sum() == 4, "all legal moves were tried"


@ALL
def test_finished_games_do_not_touch_their_neighbours(config):
    """Row 1 holds a running game, a won one, and a drawn one; the other rows do not change by a bit."""
    params = weights(18, 5)
    drawn = position(["oxoxox", "xoxoxo", "oxoxox"], -1)
    drawn = drawn.replace(terminated=jnp.bool_(True))
    outputs = []
    for middle in (MIDDLE, FINISHED, drawn):
        states = stack([LATE, middle, EMPTY, ONE_EMPTY, FINISHED, MIDDLE, LATE, MIDDLE])
        outputs.append(run(WIDE, params, 3, states, config))
    others = np.array([0, 2, 3, 4, 5, 6, 7])
    first, *rest = [jax.tree.map(lambda x: x[others], output) for output in outputs]
    for output in rest:
        chex.assert_trees_all_equal(output, first)
    for output in outputs[1:]:
        assert not output.action_weights[1].any()
    assert not np.array_equal(outputs[0].visit_counts[1], outputs[1].visit_counts[1])


@ALL
def test_same_key_same_search(config):
    states = filled([EMPTY, MIDDLE, LATE])
    params = weights(18, 6)
    first, again = (run(WIDE, params, 7, states, config) for _ in range(2))
    chex.assert_trees_all_equal(first, again)
    others = [run(WIDE, params, seed, states, config) for seed in range(8)]
    differ = any(not np.array_equal(first.visit_counts, other.visit_counts) for other in others)
    assert differ == (config in (NOISY_PUCT, NOISY_GUMBEL)), "only noise depends on the key"


# PUCT in plain Python.


class Node:
    def __init__(self, params, board: np.ndarray, to_play: int):
        logits, self.value = numpy_evaluate(params, board, to_play)
        self.legal = np.flatnonzero(board.ravel() == 0)
        powers = np.exp(logits[self.legal] - logits[self.legal].max())
        self.prior = powers / powers.sum()
        self.visits, self.total = np.zeros(len(self.legal)), np.zeros(len(self.legal))
        self.children: dict[int, Node | float] = {}
        self.board, self.to_play = board, to_play


def plain_simulation(game: gj.Gomoku, params, config: SearchConfig, node: Node) -> float:
    """One simulation of AlphaZero's from a node; its result for the side to move there."""
    count = 1 + node.visits.sum()
    c_puct = config.c_puct + math.log((count + config.c_puct_base + 1) / config.c_puct_base)
    q = np.divide(node.total, node.visits, out=np.zeros_like(node.total), where=node.visits > 0)
    best = int(np.argmax(q + c_puct * node.prior * math.sqrt(count) / (1 + node.visits)))
    child = node.children.get(best)
    if child is None:
        board = node.board.copy()
        board.ravel()[node.legal[best]] = node.to_play
        if node.to_play in oracle.winners(board.tolist(), game.k, game.rule):
            child = result = 1.0
        elif (board != 0).all():
            child = result = 0.0
        else:
            child = Node(params, board, -node.to_play)
            result = -config.ply_discount * child.value
        node.children[best] = child
    elif isinstance(child, Node):
        result = -config.ply_discount * plain_simulation(game, params, config, child)
    else:
        result = child
    node.visits[best] += 1
    node.total[best] += result
    return result


def plain_puct(game: gj.Gomoku, params, state: State, config: SearchConfig) -> tuple[np.ndarray, float]:
    """AlphaZero's search of one position: visits, and the root's mean value."""
    root = Node(params, np.asarray(state.board), int(state.to_play))
    results = [plain_simulation(game, params, config, root) for _ in range(config.num_simulations)]
    visits = np.zeros(game.num_actions)
    visits[root.legal] = root.visits
    return visits, float(np.mean([root.value, *results]))


@pytest.mark.parametrize(
    "game, config", [(WIDE, PUCT), (SQUARE, DISCOUNTED_PUCT)], ids=["3x6", "4x4 discounted"]
)
@pytest.mark.parametrize("seed", [10, 11])
def test_puct_is_alphazeros(game, config, seed):
    points = game.num_actions
    states = random_positions(game, [points, points - 1, points - 3, 9, 8, 6, 4, 2], seed)
    params = weights(points, seed)
    output = run(game, params, seed, stack(states), config)
    for row, state in enumerate(states):
        visits, value = plain_puct(game, params, state, config)
        np.testing.assert_array_equal(output.visit_counts[row], visits)
        assert output.root_value[row] == pytest.approx(value, abs=1e-4)
        assert visits[output.action[row]] == visits.max()


# Gumbel in closed form.


@pytest.mark.parametrize("seed", [20, 21])
def test_gumbel_target_by_formula(seed):
    """softmax(logits + (50 + most visits) / 10 * completed Q) of Danihelka et al. 2022, Q stretched to
    [0, 1], with the mixed value of their appendix D for unvisited moves.
    """
    states = random_positions(WIDE, [18, 17, 15, 9, 8, 6, 4, 2], seed)
    params = weights(18, seed)
    output = run(WIDE, params, seed, stack(states), GUMBEL)
    for row, state in enumerate(states):
        logits, raw = numpy_evaluate(params, np.asarray(state.board), int(state.to_play))
        legal = np.asarray(state.board).ravel() == 0
        prior = np.where(legal, np.exp(logits - logits[legal].max()), 0.0)
        prior /= prior.sum()
        visits, q = output.visit_counts[row], np.asarray(output.q_values[row], np.float64)
        seen = visits > 0
        mean = (prior[seen] * q[seen]).sum() / prior[seen].sum()
        mixed = (raw + visits.sum() * mean) / (1 + visits.sum())
        completed = np.where(seen, q, mixed)
        completed = (completed - completed.min()) / (completed.max() - completed.min())
        scores = logits + (50 + visits.max()) * 0.1 * completed
        expected = np.where(legal, np.exp(scores - scores[legal].max()), 0.0)
        np.testing.assert_allclose(output.action_weights[row], expected / expected.sum(), atol=1e-4)
        most = visits == visits.max()
        assert output.action[row] == np.flatnonzero(most)[np.argmax(scores[most])]


def many_searches(state: State, params, config: SearchConfig, number: int) -> np.ndarray:
    """Actions visited by searches of one simulation, over keys and rows."""
    states = filled([state])
    keys = jax.random.split(jax.random.key(1), number)
    outputs = [search_tree(WIDE, params, key, states, config)[0] for key in keys]
    visits = np.concatenate([np.asarray(output.visit_counts) for output in outputs])
    assert (visits.sum(-1) == 1).all()
    return visits.argmax(-1)


def test_gumbel_noise_is_drawn_for_every_search_and_row():
    """With one simulation and all values 0 the move is argmax(logits + Gumbel): a draw from the prior."""
    params = weights(18) | {"bias": np.linspace(-1, 1, 18, dtype=np.float32)}
    actions = many_searches(LATE, params, NOISY_GUMBEL, 120)
    legal = np.flatnonzero(np.asarray(LATE.board).ravel() == 0)
    counts = np.array([(actions == action).sum() for action in legal])
    prior = np.exp(params["bias"][legal])
    expected = len(actions) * prior / prior.sum()
    assert counts.sum() == len(actions) == 960
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    # Neither the same for all rows of a search nor for all searches.
    table = actions.reshape(-1, ROWS)
    assert (table != table[:, :1]).any() and (table != table[:1]).any()


# Root noise.


def test_root_noise_is_over_legal_moves_only():
    """5 of 225 points legal: over all points noise would hardly move the prior, by less than 0.01."""
    rng = np.random.default_rng(0)
    legal = np.zeros((64, 225), bool)
    for row in legal:
        row[rng.choice(225, 5, replace=False)] = True
    noise = jax.jit(add_root_noise)
    logits = jnp.asarray(rng.normal(size=(64, 225)), jnp.float32)
    noisy = noise(jax.random.key(0), logits, jnp.asarray(legal), 0.25, 0.05)
    assert bool(jnp.isfinite(noisy).all())
    mixed = np.asarray(jax.nn.softmax(noisy))
    prior = np.where(legal, np.exp(np.asarray(logits)), 0)
    prior /= prior.sum(-1, keepdims=True)
    np.testing.assert_allclose(mixed.sum(-1), 1, atol=1e-5)
    assert (mixed[~legal] == 0).all()
    variation = np.abs(mixed - prior).sum(-1) / 2
    assert variation.mean() > 0.1 and variation.max() <= 0.25 + 1e-5
    assert (mixed[legal] >= 0.75 * prior[legal] - 1e-6).all()
    none = noise(jax.random.key(0), logits, jnp.asarray(legal), 0.0, 0.05)
    np.testing.assert_allclose(jax.nn.softmax(none), prior, atol=1e-6)
    # A finished game among them has no legal move, and nothing that is not a number.
    legal[3] = False
    noisy = noise(jax.random.key(0), logits, jnp.asarray(legal), 0.25, 0.05)
    assert bool(jnp.isfinite(noisy).all())
    np.testing.assert_array_equal(np.delete(jax.nn.softmax(noisy), 3, 0), np.delete(mixed, 3, 0))


dirichlet = jax.jit(dirichlet_over_legal)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 2.0])
def test_noise_is_dirichlets(alpha):
    """Mean 1/n and variance (n - 1) / (n^2 (n alpha + 1)) of each of n legal actions, and the distribution
    of NumPy's draws.
    """
    n, draws = 5, 20_000
    legal = jnp.zeros((draws, 9), bool).at[1:, jnp.array([0, 2, 3, 7, 8])].set(True)
    noise = np.asarray(dirichlet(jax.random.key(2), legal, alpha))
    assert (noise[:, [1, 4, 5, 6]] == 0).all() and (noise >= 0).all()
    assert not noise[0].any()  # a finished game
    noise = noise[1:, [0, 2, 3, 7, 8]]
    np.testing.assert_allclose(noise.sum(-1), 1, atol=1e-5)
    variance = (n - 1) / (n * n * (n * alpha + 1))
    assert np.abs(noise.mean(0) - 1 / n).max() < 5 * math.sqrt(variance / draws)
    np.testing.assert_allclose(noise.var(0), variance, rtol=0.05)
    reference = np.random.default_rng(0).dirichlet(np.full(n, alpha), draws)
    levels = np.linspace(0.05, 0.95, 10)
    for level in levels:
        shares = [np.mean(x[:, 0] > level) for x in (noise, reference)]
        assert abs(shares[0] - shares[1]) < 5 * math.sqrt(0.5 / draws)


def test_the_search_uses_the_noise():
    """A root of noise alone: the one move visited is any of the legal ones, whatever the prior."""
    params = weights(18) | {"bias": np.linspace(-5, 5, 18, dtype=np.float32)}
    actions = many_searches(LATE, params, NOISY_PUCT, 100)
    legal = np.flatnonzero(np.asarray(LATE.board).ravel() == 0)
    counts = np.array([(actions == action).sum() for action in legal])
    assert counts.sum() == len(actions) == 800
    assert (np.abs(counts - 200) < 5 * math.sqrt(200)).all()


# Temperature.


@pytest.mark.parametrize("temperature", [0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 10.0])
def test_temperature_is_stable(temperature):
    visits = jnp.asarray([[400, 1, 0], [3, 3, 0], [0, 0, 7], [1, 2, 4]])
    log_probabilities = np.asarray(temper(visits, temperature))
    assert np.isfinite(log_probabilities).all() and log_probabilities.dtype == np.float32
    probabilities = np.exp(log_probabilities)
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
    assert (probabilities[np.asarray(visits) == 0] == 0).all()
    for row, weight in zip(probabilities, np.asarray(visits, np.float64), strict=True):
        power = np.zeros(3) if temperature == 0 else (weight / weight.max()) ** (1 / temperature)
        if temperature == 0:
            power = np.float64(weight == weight.max())
        np.testing.assert_allclose(row, power / power.sum(), atol=1e-5)
        order = np.argsort(weight)
        assert (np.diff(row[order]) >= 0).all()
    actions = draw_action(jax.random.key(0), jnp.tile(visits, (500, 1)), temperature)
    actions = np.asarray(actions).reshape(-1, 4)
    for row, expected in zip(actions.T, probabilities, strict=True):
        counts = np.bincount(row, minlength=3)
        assert (np.abs(counts - 500 * expected) <= 5 * np.sqrt(500 * expected * (1 - expected)) + 0.5).all()


def test_temperature_can_differ_by_row():
    visits = jnp.asarray([[8, 4, 0], [8, 4, 0]])
    probabilities = np.exp(temper(visits, jnp.asarray([0.0, 1.0])))
    np.testing.assert_allclose(probabilities, [[1, 0, 0], [2 / 3, 1 / 3, 0]], atol=1e-6)
    assert not np.isnan(temper(jnp.zeros((1, 3)), 1.0)).any()  # a finished game


def test_temperature_shapes_the_move_and_not_the_target():
    states = filled([EMPTY, MIDDLE])
    warm_config = SearchConfig("puct", num_simulations=200, dirichlet_fraction=0.0, temperature=1.0)
    params = weights(18, 8)
    greedy, warm = (run(WIDE, params, 4, states, config) for config in (PUCT, warm_config))
    np.testing.assert_array_equal(warm.action_weights, greedy.action_weights)
    np.testing.assert_array_equal(warm.visit_counts, greedy.visit_counts)
    rows = np.arange(ROWS)
    assert (greedy.visit_counts[rows, greedy.action] == greedy.visit_counts.max(-1)).all()
    assert (warm.visit_counts[rows, warm.action] < warm.visit_counts.max(-1)).any()
    assert (warm.visit_counts[rows, warm.action] > 0).all()


# In loops, and with networks.


def test_search_inside_a_scan_is_the_search_outside():
    params = weights(18, 9)
    keys = jax.random.split(jax.random.key(3), 4)

    @jax.jit
    def play(states):
        def move(states, key):
            output = search_with(WIDE, evaluate, params, key, states, NOISY_GUMBEL)
            return jax.vmap(WIDE.step)(states, output.action), output.action

        return jax.lax.scan(move, states, keys)

    states = filled([EMPTY, LATE, MIDDLE, ONE_EMPTY])
    end, actions = play(states)
    for key, expected in zip(keys, actions, strict=True):
        output, _ = search_tree(WIDE, params, key, states, NOISY_GUMBEL)
        running = ~np.asarray(states.terminated)
        np.testing.assert_array_equal(np.asarray(output.action)[running], np.asarray(expected)[running])
        states = jax.vmap(WIDE.step)(states, output.action)
    chex.assert_trees_all_equal(states, end)
    # Equal games of one batch go different ways.
    _, actions = play(filled([EMPTY]))
    assert len(set(map(tuple, np.asarray(actions).T.tolist()))) > 1


def drawn_params(config: NetworkConfig, game: gj.Gomoku):
    shapes = jax.eval_shape(lambda: gj.init_network(config, game, jax.random.key(0)))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.3, x.shape), jnp.float32), shapes)


@pytest.mark.parametrize(
    "network, config",
    [
        (
            NetworkConfig("resnet", channels=8, num_blocks=1, value_hidden=8, planes="stones"),
            SearchConfig("gumbel", num_simulations=6, max_considered_actions=4, gumbel_scale=0.0),
        ),
        (
            NetworkConfig("conv", conv_channels=(4,), value_hidden=8, planes="stones"),
            SearchConfig("gumbel", num_simulations=6, max_considered_actions=4, gumbel_scale=0.0),
        ),
    ],
    ids=["resnet", "conv"],
)
def test_search_with_a_network(network, config):
    """The root's prior and value are the network's, on a rectangle; its own planes know no colours."""
    params = drawn_params(network, WIDE)
    states = filled([EMPTY, MIDDLE, LATE, position(OPEN_FOUR, 1), ONE_EMPTY, FINISHED])
    search = jax.jit(
        lambda key, states: gj.search(WIDE, network, params, key, states, config),
        compiler_options={"xla_backend_optimization_level": 0},  # compiles faster
    )
    output = jax.device_get(search(jax.random.key(0), states))
    check_output(WIDE, output, states, config)
    other = jax.device_get(search(jax.random.key(0), swapped(states)))
    chex.assert_trees_all_equal(other, output)
    observation = jax.vmap(lambda state: WIDE.observe(state, "stones"))(states)
    direct = gj.apply_network(network, params, observation)
    legal = np.asarray(states.board).reshape(ROWS, -1) == 0
    favourite = np.where(legal, direct.policy_logits, -np.inf).argmax(-1)
    running = ~np.asarray(states.terminated)
    assert (output.visit_counts[np.arange(ROWS), favourite][running] > 0).all()
    # One empty point: every simulation is a draw, and the root's own value is all that is left.
    assert output.root_value[4] == pytest.approx(float(direct.value[4]) / 7, abs=1e-5)


# Pure MCTS.

pure = jax.jit(pure_mcts, static_argnums=(0, 3))


def check_pure(output: SearchOutput, states: State, num_playouts: int) -> SearchOutput:
    output = jax.device_get(output)
    batch = len(output.action)
    legal = (np.asarray(states.board).reshape(batch, -1) == 0) & ~np.asarray(states.terminated)[:, None]
    running = legal.any(-1)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(output))
    assert (output.visit_counts[running].sum(-1) == num_playouts).all()
    assert (output.visit_counts[~legal] == 0).all() and (output.q_values[output.visit_counts == 0] == 0).all()
    np.testing.assert_allclose(
        output.action_weights[running], output.visit_counts[running] / num_playouts, atol=1e-6
    )
    assert (output.action_weights[~running] == 0).all()
    rows = np.arange(batch)[running]
    assert legal[rows, output.action[running]].all()
    assert (output.visit_counts[rows, output.action[running]] == output.visit_counts[running].max(-1)).all()
    mean = (output.visit_counts * output.q_values).sum(-1) / num_playouts
    np.testing.assert_allclose(output.root_value[running], mean[running], atol=1e-5)
    return output


def surrounded(game: gj.Gomoku, line: list[int], gap: int, color: int, rng) -> np.ndarray:
    """A line but for its gap in a crowd of other stones, eight other points empty: the gap alone wins for
    its colour, the other colour has no win at once, and once it has blocked it is not lost.
    """
    judge = oracle.Solver(game.height, game.width, game.k, game.rule)
    others = np.setdiff1d(np.arange(game.num_actions), line)
    while True:
        board = np.zeros(game.num_actions, np.int8)
        board[line] = color
        board[gap] = 0
        crowd = rng.permutation(others)[: len(others) - 8]
        board[crowd] = rng.permutation(np.resize([color, -color], len(crowd)))
        own, other = (sum(1 << int(i) for i in np.flatnonzero(board == side)) for side in (color, -color))
        empty = [1 << int(i) for i in np.flatnonzero(board == 0)]
        if judge.won(own) or judge.won(other) or any(judge.won(other | move) for move in empty):
            continue
        if [move for move in empty if judge.won(own | move)] != [1 << gap]:
            continue
        if judge.value(own, other | 1 << gap) < 1:
            return board.reshape(game.shape)


def test_pure_mcts_wins_and_blocks_in_centre_edge_and_corner():
    game = gj.Gomoku(5, 5, 4)
    lines = {
        "centre": [11, 12, 13, 14],
        "edge row": [20, 21, 22, 23],
        "edge column": [4, 9, 14, 19],
        "corner": [0, 6, 12, 18],
        "far corner": [20, 16, 12, 8],
    }
    rng = np.random.default_rng(0)
    boards, sides, gaps = [], [], []
    for line in lines.values():
        for gap in (line[0], line[2], line[3]):
            for color in (1, -1):
                for to_play in (1, -1):
                    boards.append(surrounded(game, line, gap, color, rng))
                    sides.append(to_play)
                    gaps.append(gap)
    batch = len(boards)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), game.init())
    states = states.replace(
        board=jnp.asarray(np.stack(boards)),
        to_play=jnp.asarray(np.array(sides, np.int8)),
        move_count=jnp.full(batch, 16, jnp.int32),
    )
    output = check_pure(pure(game, jax.random.key(0), states, 400), states, 400)
    np.testing.assert_array_equal(output.action, gaps)


def test_pure_mcts_at_the_end_of_games():
    """More playouts than positions are left, finished games, and one empty point."""
    states = filled([ONE_EMPTY, FINISHED, LATE, position(OPEN_FOUR, -1), position(OPEN_FOUR, 1)])
    output = check_pure(pure(WIDE, jax.random.key(0), states, 300), states, 300)
    assert output.action[0] == 10 and output.visit_counts[0, 10] == 300 and output.root_value[0] == 0.0
    assert output.root_value[3] < -0.8 and output.root_value[4] > 0.8
    assert output.action[4] in (6, 11) and output.q_values[4, output.action[4]] == 1.0
    assert (output.root_value[1], output.action[1]) == (0.0, 0)
    chex.assert_trees_all_equal(output, jax.device_get(pure(WIDE, jax.random.key(0), swapped(states), 300)))
    replaced = jax.tree.map(lambda x, y: x.at[1].set(y), states, MIDDLE)
    other = check_pure(pure(WIDE, jax.random.key(0), replaced, 300), replaced, 300)
    keep = np.array([0, 2, 3, 4, 5, 6, 7])
    chex.assert_trees_all_equal(*[jax.tree.map(lambda x: x[keep], o) for o in (output, other)])


TIC_TAC = gj.Gomoku(3, 3, 3)
SMALL = position(["xx.", ".o.", "..."], -1)


def random_play_value(board: tuple[int, ...], to_play: int, side: int) -> float:
    """Exact mean result for `side` of uniformly random play."""
    winner = oracle.winners(np.reshape(board, (3, 3)).tolist(), 3, "freestyle")
    empty = [i for i, stone in enumerate(board) if stone == 0]
    if winner or not empty:
        return float(side * next(iter(winner), 0))
    results = [random_play_value((*board[:i], to_play, *board[i + 1 :]), -to_play, side) for i in empty]
    return sum(results) / len(results)


def test_playouts_have_the_value_of_random_play():
    many = 8192
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (many, *x.shape)), SMALL)
    output = check_pure(pure(TIC_TAC, jax.random.key(0), states, 1), states, 1)
    board = tuple(int(x) for x in np.asarray(SMALL.board).ravel())
    exact_by_move = {
        i: random_play_value((*board[:i], -1, *board[i + 1 :]), 1, -1) for i in range(9) if board[i] == 0
    }
    assert len({round(value, 6) for value in exact_by_move.values()}) > 1
    assert abs(output.root_value.mean() - np.mean(list(exact_by_move.values()))) < 5 / math.sqrt(many)
    for move, value in exact_by_move.items():
        chosen = output.action == move
        assert abs(chosen.mean() - 1 / 6) < 5 * math.sqrt(5 / 36 / many)
        error = 5 * math.sqrt(max(1 - value**2, 0.1) / chosen.sum())
        assert abs(output.q_values[chosen, move].mean() - value) < error


def plain_pure_mcts(rng: np.random.Generator, num_playouts: int) -> np.ndarray:
    """Visits of one search of `SMALL`: PUCT with uniform priors and c = 5, a random playout at each leaf."""
    root: dict[str, Any] = {"visits": 0, "total": 0.0, "children": {}}
    for _ in range(num_playouts):
        board, to_play, path = np.asarray(SMALL.board).ravel().copy(), -1, [root]
        while True:
            node = path[-1]
            empty = np.flatnonzero(board == 0)
            won = oracle.winners(board.reshape(3, 3).tolist(), 3, "freestyle")
            if won or not len(empty):
                break
            scores = []
            for action in empty:
                child = node["children"].get(int(action), {"visits": 0, "total": 0.0})
                mean = child["total"] / max(child["visits"], 1)
                scores.append(mean + 5 / len(empty) * math.sqrt(node["visits"]) / (1 + child["visits"]))
            best = rng.choice(np.flatnonzero(np.array(scores) > max(scores) - 1e-9))
            action = int(empty[best])
            board[action], to_play = to_play, -to_play
            is_new = action not in node["children"]
            path.append(node["children"].setdefault(action, {"visits": 0, "total": 0.0, "children": {}}))
            if is_new:
                break
        mover = -to_play
        won = oracle.winners(board.reshape(3, 3).tolist(), 3, "freestyle")
        while not won and (board == 0).any():
            board[rng.choice(np.flatnonzero(board == 0))] = to_play
            to_play = -to_play
            won = oracle.winners(board.reshape(3, 3).tolist(), 3, "freestyle")
        value = float(mover * next(iter(won), 0))
        for node in reversed(path):
            node["visits"] += 1
            node["total"] += value
            value = -value
    visits = np.zeros(9)
    for action, child in root["children"].items():
        visits[action] = child["visits"]
    return visits


def test_pure_mcts_against_plain_python():
    """Mean visits of each move over many searches, within five standard errors."""
    rng = np.random.default_rng(0)
    number, num_playouts = 150, 40
    expected = np.stack([plain_pure_mcts(rng, num_playouts) for _ in range(number)])
    many = 2048
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (many, *x.shape)), SMALL)
    output = check_pure(pure(TIC_TAC, jax.random.key(1), states, num_playouts), states, num_playouts)
    error = np.sqrt(expected.var(0) / number + output.visit_counts.var(0) / many)
    assert (np.abs(output.visit_counts.mean(0) - expected.mean(0)) <= 5 * error).all()
    assert expected.mean(0).max() > 1.3 * num_playouts / 6, "the moves must not all be alike"


def test_pure_mcts_depends_on_its_key_and_needs_playouts():
    states = filled([MIDDLE])
    first, again, other = (pure(WIDE, jax.random.key(seed), states, 300) for seed in (0, 0, 1))
    chex.assert_trees_all_equal(first, again)
    assert not np.array_equal(first.visit_counts, other.visit_counts)
    rows = np.asarray(first.visit_counts)
    assert (rows != rows[0]).any(), "the rows of a batch draw their own playouts"
    with pytest.raises(ValueError, match="num_playouts = 0"):
        pure_mcts(WIDE, jax.random.key(0), states, 0)
