"""Self-play: outcomes by a plain loop, and whole games reconstructed on the host and counted."""

import collections
import dataclasses
from typing import Any

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from gomoku_jax.config import SearchConfig, SelfplayConfig
from gomoku_jax.game import Gomoku, State
from gomoku_jax.network import NetworkOutput
from gomoku_jax.search import SearchOutput
from gomoku_jax.selfplay import (
    Moves,
    SelfplayState,
    finished_positions,
    improved_value,
    init_selfplay,
    run_selfplay,
    surprise_weights,
)

GAME = Gomoku(3, 3, 3)
SLOTS = 6
# Distinct priors; the favourite is point 4, then 2, 0, ...
LOGITS = np.array([0.5, -0.3, 0.9, -1.1, 1.4, 0.1, -0.6, 0.3, -0.9, 0.7, -0.2, 0.2], np.float32)

run = jax.jit(run_selfplay, static_argnums=(0, 1, 2, 3))


def evaluate(params: Any, states: State) -> NetworkOutput:
    """Priors by point, whatever the position; a value that tells positions apart."""
    del params
    batch = states.to_play.shape[0]
    flat = states.board.reshape(batch, -1)
    weights = jnp.asarray(LOGITS[: flat.shape[1]])
    value = 0.5 * jnp.tanh(flat.astype(jnp.float32) @ weights) * states.to_play
    return NetworkOutput(jnp.broadcast_to(weights, flat.shape), value)


def window_of(games: list[list[int]], game: Gomoku) -> tuple[Moves, np.ndarray]:
    """One slot's games in a row as a window, and the mover's result of each move by the oracle."""
    rows, results = [], []
    for actions in games:
        twin = oracle.Game(game.height, game.width, game.k, game.rule)
        sides = []
        for action in actions:
            board, side, last = np.array(twin.board), twin.to_play, twin.last_action
            assert twin.play(action)
            sides.append(side)
            rows.append((board, side, last, twin.terminated, twin.winner))
        assert twin.terminated
        results += [twin.winner * side for side in sides]
    boards, sides, last, terminated, winner = (np.stack(x)[:, None] for x in zip(*rows, strict=True))
    steps = len(rows)
    moves = Moves(
        board=jnp.asarray(boards, jnp.int8),
        to_play=jnp.asarray(sides, jnp.int8),
        last_action=jnp.asarray(last, jnp.int32),
        policy_target=jnp.zeros((steps, 1, game.num_actions)),
        policy_weight=jnp.ones((steps, 1)),
        search_value=jnp.zeros((steps, 1)),
        played=jnp.ones((steps, 1), bool),
        terminated=jnp.asarray(terminated, bool),
        winner=jnp.asarray(winner, jnp.int8),
    )
    return moves, np.array(results)


FIVE = Gomoku(5, 5, 3)


@pytest.mark.parametrize(
    "game, actions, targets",
    [
        (FIVE, [0, 20, 1, 21, 2], [1, -1, 1, -1, 1]),
        (FIVE, [20, 0, 21, 1, 13, 2], [-1, 1, -1, 1, -1, 1]),
        (GAME, [0, 1, 2, 4, 3, 5, 7, 6, 8], [0] * 9),
        (GAME, [1, 0, 2, 4, 3, 6, 5, 7, 8], [1, -1, 1, -1, 1, -1, 1, -1, 1]),  # the last point wins
    ],
    ids=["black wins", "white wins", "draw", "win on a full board"],
)
def test_value_targets_are_the_movers_result(game, actions, targets):
    window, results = window_of([actions], game)
    positions, is_new = finished_positions(window, len(actions))
    assert bool(is_new.all())
    np.testing.assert_array_equal(positions.value_target, targets)
    np.testing.assert_array_equal(positions.value_target, results)
    assert positions.value_target.dtype == jnp.float32 and positions.board.dtype == jnp.int8


def test_every_game_of_a_window_has_its_own_outcome():
    games = [[0, 20, 1, 21, 2], [20, 0, 21, 1, 13, 2], [24, 0, 23, 1, 5, 2]]
    window, results = window_of(games, FIVE)
    assert results.tolist() == [1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1]
    for num_new in range(1, 18):
        positions, is_new = finished_positions(window, num_new)
        # A game is given out with the call in which it ends, its first moves too.
        ends = [4, 10, 16]
        owner = [0] * 5 + [1] * 6 + [2] * 6
        assert is_new.tolist() == [ends[i] >= 17 - num_new for i in owner]
        taken = np.asarray(is_new)
        np.testing.assert_array_equal(np.asarray(positions.value_target)[taken], results[taken])


@st.composite
def windows(draw):
    """Slots that begin to play at different times, end games anywhere, and may not finish the last."""
    steps, batch = 8, 3
    booleans = st.lists(st.booleans(), min_size=steps * batch, max_size=steps * batch)
    colors = st.lists(st.sampled_from([-1, 1]), min_size=steps * batch, max_size=steps * batch)
    results = st.lists(st.sampled_from([-1, 0, 1]), min_size=steps * batch, max_size=steps * batch)
    start = np.array(draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch)))
    played = np.arange(steps)[:, None] >= start
    terminated = np.array(draw(booleans)).reshape(steps, batch) & played
    to_play = np.array(draw(colors)).reshape(steps, batch)
    winner = np.array(draw(results)).reshape(steps, batch) * terminated
    return played, terminated, to_play, winner, draw(st.integers(0, steps))


finished = jax.jit(finished_positions)


@hypothesis.given(windows(), st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([1.0, 0.9]))
def test_random_windows_against_a_plain_loop(window, fraction, ply_discount):
    played, terminated, to_play, winner, num_new = window
    steps, batch = played.shape
    search_value = np.linspace(-0.9, 0.9, steps * batch, dtype=np.float32).reshape(steps, batch)
    number = np.arange(steps * batch).reshape(steps, batch)
    moves = Moves(
        board=jnp.asarray(np.broadcast_to(number[..., None, None], (steps, batch, 1, 2)), jnp.int8),
        to_play=jnp.asarray(to_play, jnp.int8),
        last_action=jnp.asarray(number, jnp.int32),
        policy_target=jnp.asarray(np.stack([number, -number], -1), jnp.float32),
        policy_weight=jnp.asarray(number / 2, jnp.float32),
        search_value=jnp.asarray(search_value),
        played=jnp.asarray(played),
        terminated=jnp.asarray(terminated),
        winner=jnp.asarray(winner, jnp.int8),
    )
    positions, is_new = finished(moves, num_new, fraction, ply_discount)
    for t in range(steps):
        for b in range(batch):
            i = t * batch + b  # rows are in order of time
            end = next((u for u in range(t, steps) if terminated[u, b]), None)
            expected = bool(played[t, b]) and end is not None and end >= steps - num_new
            assert bool(is_new[i]) == expected
            assert int(positions.board[i, 0, 1]) == int(positions.last_action[i]) == number[t, b]
            assert positions.policy_target[i].tolist() == [i, -i]
            assert float(positions.policy_weight[i]) == i / 2 and int(positions.to_play[i]) == to_play[t, b]
            if expected and end is not None:
                result = ply_discount ** (end - t) * winner[end, b] * to_play[t, b]
                value = (1 - fraction) * result + fraction * search_value[t, b]
                assert float(positions.value_target[i]) == pytest.approx(value, abs=1e-6)


# Whole runs, reconstructed.


class Recorder:
    """Follows every slot from its boards alone, through the oracle, and knows which positions are due."""

    def __init__(self, game: Gomoku, config: SelfplayConfig, selfplay: SelfplayState, ply_discount: float):
        self.game, self.config, self.ply_discount = game, config, ply_discount
        self.twins: list[oracle.Game] = []
        self.moves: list[list[tuple]] = []  # of the running game of each slot
        self.openings: list[int] = []
        self.ended: list[oracle.Game] = []
        self.drawn: list[tuple[np.ndarray, np.ndarray, int]] = []  # board, policy target, action
        for slot in range(config.num_games):
            board = np.asarray(selfplay.states.board[slot])
            self.twins.append(self._begin(board))
            self.moves.append([])

    def _begin(self, board: np.ndarray) -> oracle.Game:
        """A new game from the stones it begins with, which alternate and end nothing."""
        twin = oracle.Game(self.game.height, self.game.width, self.game.k, self.game.rule)
        black, white = np.flatnonzero(board == 1).tolist(), np.flatnonzero(board == -1).tolist()
        assert len(black) - len(white) in (0, 1)
        assert len(black) + len(white) <= self.config.opening_stones
        twin.moves = [0] * (len(black) + len(white))
        twin.board = board.tolist()
        assert not oracle.winners(twin.board, self.game.k, self.game.rule)
        self.openings.append(len(twin.moves))
        return twin

    def follow(self, after: SelfplayState, num_moves: int) -> list[tuple]:
        """Follows the last moves, at most A; the positions of the games that ended."""
        pending = jax.device_get(after.pending)
        due: list[tuple] = []
        states = jax.device_get(after.states)
        new = range(self.game.num_actions - num_moves, self.game.num_actions)
        for slot in range(self.config.num_games):
            for t in new:
                twin = self.twins[slot]
                board = pending.board[t, slot]
                np.testing.assert_array_equal(board, twin.board)
                assert bool(pending.played[t, slot]) and pending.to_play[t, slot] == twin.to_play
                is_last = t == new[-1]
                then = states.board[slot] if is_last else pending.board[t + 1, slot]
                ended = bool(pending.terminated[t, slot])
                self.moves[slot].append(
                    (
                        board.tobytes(),
                        twin.to_play,
                        int(pending.last_action[t, slot]),
                        pending.policy_target[t, slot].tobytes(),
                        float(pending.policy_weight[t, slot]),
                        float(pending.search_value[t, slot]),
                    )
                )
                action = self._play(twin, then, ended, pending.winner[t, slot])
                if action is not None:
                    self.drawn.append((board, pending.policy_target[t, slot], action))
                assert twin.terminated == ended
                assert not ended or pending.winner[t, slot] == twin.winner
                if ended:
                    due += self._positions(twin, slot)
                    self.ended.append(twin)
                    self.moves[slot], self.twins[slot] = [], self._begin(then)
        return due

    def _play(self, twin: oracle.Game, then: np.ndarray, ended: bool, winner: int) -> int | None:
        """Plays the move that was made: seen on the next board, or at a game's end told by the outcome."""
        if not ended:
            (action,) = np.flatnonzero(then != np.array(twin.board))
            assert twin.play(int(action)), "an illegal move"
            assert np.array_equal(twin.board, then)
            return int(action)
        for action in np.flatnonzero(np.array(twin.board).ravel() == 0).tolist():
            twin.play(action)
            if twin.terminated and twin.winner == winner:
                return None
            twin.undo()
        raise AssertionError("no move ends the game so")

    def _positions(self, twin: oracle.Game, slot: int) -> list[tuple]:
        fraction = self.config.search_value_fraction
        positions = []
        for plies, (board, side, last, target, weight, value) in enumerate(reversed(self.moves[slot])):
            result = self.ply_discount**plies * twin.winner * side
            value = (1 - fraction) * result + fraction * value
            positions.append((board, side, last, target, weight, value))
        return positions


def given_out(positions, is_new) -> list[tuple]:
    positions, is_new = jax.device_get((positions, is_new))
    return [
        (
            positions.board[i].tobytes(),
            int(positions.to_play[i]),
            int(positions.last_action[i]),
            positions.policy_target[i].tobytes(),
            float(positions.policy_weight[i]),
            float(positions.value_target[i]),
        )
        for i in np.flatnonzero(is_new)
    ]


def assert_same_positions(found: list[tuple], due: list[tuple]) -> None:
    """The same positions the same number of times, in any order; values to float32's precision."""
    assert collections.Counter(row[:-1] for row in found) == collections.Counter(row[:-1] for row in due)
    values = [[row[-1] for row in sorted(rows)] for rows in (found, due)]
    np.testing.assert_allclose(values[0], values[1], atol=1e-5)


GUMBEL = SearchConfig(
    "gumbel", num_simulations=2, max_considered_actions=2, gumbel_scale=0.5, ply_discount=0.9
)


def follow_run(
    game: Gomoku, config: SelfplayConfig, search_config: SearchConfig, lengths: list[int], seed: int = 0
) -> Recorder:
    """Runs iterations of these numbers of moves and checks every position that they give out."""
    init_key, *keys = jax.random.split(jax.random.key(seed), len(lengths) + 1)
    selfplay = init_selfplay(game, config, init_key)
    recorder = Recorder(game, config, selfplay, search_config.ply_discount)
    for num_moves, key in zip(lengths, keys, strict=True):
        ended_before = len(recorder.ended)
        config = dataclasses.replace(config, moves_per_iteration=num_moves)
        before = selfplay.states
        selfplay, positions, is_new, stats = run(game, evaluate, config, search_config, None, selfplay, key)
        assert is_new.shape == ((game.num_actions + num_moves) * config.num_games,)
        due = recorder.follow(selfplay, num_moves)
        assert_same_positions(given_out(positions, is_new), due)
        ended = recorder.ended[ended_before:]
        winners = [twin.winner for twin in ended]
        assert int(stats.games) == len(ended) and int(stats.positions) == len(due)
        assert int(stats.black_wins) == winners.count(1) and int(stats.white_wins) == winners.count(-1)
        assert int(stats.draws) == winners.count(0)
        assert int(stats.game_length) == sum(len(twin.moves) for twin in ended)
        assert float(stats.target_entropy) == pytest.approx(entropy_of(selfplay, num_moves), abs=1e-5)
        chex.assert_trees_all_equal_shapes_and_dtypes(selfplay.states, before)
    return recorder


def entropy_of(selfplay: SelfplayState, num_moves: int) -> float:
    """Mean entropy of the new policy targets, from the record."""
    target = np.float64(selfplay.pending.policy_target[-num_moves:])
    weight = np.asarray(selfplay.pending.policy_weight[-num_moves:])
    terms = np.where(target > 0, target * np.log(np.where(target > 0, target, 1)), 0).sum(-1)
    return -float((terms * weight).sum() / max(weight.sum(), 1))


def test_every_position_of_every_finished_game_is_given_out_once():
    """Iterations shorter and longer than a game, with openings, draws, and wins of either side."""
    config = SelfplayConfig(
        num_games=SLOTS,
        opening_stones=3,
        temperature_moves=20,
        temperature=2.0,
        search_value_fraction=0.25,
    )
    recorder = follow_run(GAME, config, GUMBEL, [3, 3, 3, 3, 9, 3, 9, 9, 3, 3, 9])
    lengths_of_games = [len(twin.moves) for twin in recorder.ended]
    assert len(recorder.ended) > 40 and min(lengths_of_games) <= 6 and max(lengths_of_games) == 9
    assert {twin.winner for twin in recorder.ended} == {-1, 0, 1}
    assert set(recorder.openings) == {0, 1, 2, 3}


def test_long_iterations_compile_once_and_follow_from_their_key():
    """Iterations longer than several games, one after the other on donated games."""
    config = SelfplayConfig(num_games=2, moves_per_iteration=30, opening_stones=1, temperature_moves=20)
    traces = []

    def counted(params, selfplay, key):
        traces.append(key)
        return run_selfplay(GAME, evaluate, config, GUMBEL, params, selfplay, key)

    program = jax.jit(counted, donate_argnums=1)

    def begin() -> SelfplayState:
        return init_selfplay(GAME, config, jax.random.key(0))

    first = program(None, begin(), jax.random.key(5))
    chex.assert_trees_all_equal(first, program(None, begin(), jax.random.key(5)))
    other = program(None, begin(), jax.random.key(6))
    assert not np.array_equal(first[1].board, other[1].board)
    chex.assert_trees_all_equal_shapes_and_dtypes(first[0], begin())
    assert all(not leaf.weak_type for leaf in jax.tree.leaves(first[0]))
    selfplay, _, is_new, stats = first
    total = int(is_new.sum())
    for i in range(2):
        selfplay, _, is_new, stats = program(None, selfplay, jax.random.key(i))
        total += int(is_new.sum())
        assert int(stats.games) >= 2 * 30 // 9 - 2 and int(stats.positions) == int(is_new.sum())
    assert len(traces) == 1
    # Two slots played 90 moves each; all are given out but those of the running games.
    running = int(selfplay.states.move_count.sum())
    assert 180 - running <= total <= 180


def test_openings_have_every_number_of_stones_equally_often():
    many = 3000
    config = SelfplayConfig(num_games=many, opening_stones=3)  # three stones on 3x3 end no game
    states = init_selfplay(GAME, config, jax.random.key(0)).states
    counts = np.bincount((np.asarray(states.board) != 0).sum((1, 2)), minlength=4)
    assert len(counts) == 4 and (np.abs(counts - many / 4) < 5 * np.sqrt(many * 3 / 16)).all()
    np.testing.assert_array_equal(states.move_count, (np.asarray(states.board) != 0).sum((1, 2)))
    # The first stone stands on each point equally often.
    singles = np.asarray(states.board)[np.asarray(states.move_count) == 1].reshape(-1, 9).sum(0)
    assert (np.abs(singles - singles.sum() / 9) < 5 * np.sqrt(singles.sum() / 9)).all()
    none = dataclasses.replace(config, opening_stones=0)
    assert not bool(init_selfplay(GAME, none, jax.random.key(0)).states.board.any())


# What is played.


def legal_prior(board: np.ndarray, temperature: float) -> np.ndarray:
    empty = board.ravel() == 0
    powers = np.where(empty, np.exp(LOGITS[: board.size] / temperature), 0.0)
    return powers / powers.sum()


def test_moves_are_drawn_at_their_temperature_and_then_the_best_is_played():
    many = 2000
    config = SelfplayConfig(
        num_games=many, draw="prior", temperature=0.7, temperature_moves=2, opening_stones=0
    )
    moves = follow_run(GAME, config, SearchConfig("gumbel", num_simulations=1), [3]).drawn
    first = np.bincount([action for board, _, action in moves if not board.any()], minlength=9)
    expected = legal_prior(np.zeros((3, 3)), 0.7)
    error = np.sqrt(many * expected * (1 - expected))
    assert first.sum() == many and (np.abs(first - many * expected) < 5 * error).all()
    second = np.bincount([a for board, _, a in moves if (board != 0).sum() == 1 and board[1, 1]], minlength=9)
    board = np.zeros((3, 3))
    board[1, 1] = 1
    expected = legal_prior(board, 0.7)
    assert second[4] == 0
    assert (np.abs(second - second.sum() * expected) <= 5 * np.sqrt(second.sum() * expected)).all()
    later = [(board, action) for board, _, action in moves if (board != 0).sum() >= 2]
    assert len(later) == many
    assert all(action == legal_prior(board, 1.0).argmax() for board, action in later)


@pytest.mark.parametrize(
    "draw", ["weights", *(pytest.param(draw, marks=pytest.mark.slow) for draw in ("visits", "search"))]
)
def test_what_moves_are_drawn_from(draw):
    """With two actions considered and no noise, visits are of the two likeliest points; the target has a
    little of every legal point.
    """
    config = SelfplayConfig(num_games=64, draw=draw, temperature=3.0, temperature_moves=3, opening_stones=0)
    search_config = SearchConfig("gumbel", num_simulations=2, max_considered_actions=2, gumbel_scale=0.0)
    recorder = follow_run(GAME, config, search_config, [9])
    assert len(recorder.ended) >= 64
    ranks, choices = [], collections.defaultdict(set)
    for board, target, action in recorder.drawn:
        prior = legal_prior(board, 1.0)
        rank = int((prior > prior[action]).sum())
        if (board != 0).sum() < 3:
            ranks.append(rank)
            choices[board.tobytes()].add(action)
        elif draw == "weights":
            assert target[action] == target.max(), "the best is played later on"
        else:
            assert rank <= 1
        assert (target[board.ravel() != 0] == 0).all() and target.sum() == pytest.approx(1, abs=1e-5)
    assert (max(ranks) <= 1) == (draw != "weights")
    # Without noise the search's own choice is always the same; the others are drawn.
    assert (max(len(actions) for actions in choices.values()) == 1) == (draw == "search")
    if draw == "visits":
        assert set(ranks) == {0, 1}  # one visit each: drawn alike


@pytest.mark.slow
def test_fast_searches_give_no_policy_target():
    """Full searches have a root of noise alone here and 4 visits, fast ones have no noise and 1."""
    config = SelfplayConfig(
        num_games=32, moves_per_iteration=40, full_search_fraction=0.4, fast_simulations=1, opening_stones=2
    )
    search_config = SearchConfig("puct", num_simulations=4, dirichlet_fraction=1.0, dirichlet_alpha=1.0)
    game = GAME
    start = init_selfplay(game, config, jax.random.key(0))
    _, positions, is_new, stats = run(game, evaluate, config, search_config, None, start, jax.random.key(2))
    positions, is_new = jax.device_get((positions, is_new))
    weight = positions.policy_weight.reshape(-1, 32)[-40:]
    assert set(np.unique(weight)) == {0.0, 1.0}
    np.testing.assert_array_equal(weight, np.broadcast_to(weight[:, :1], weight.shape))  # one coin a move
    assert 8 <= weight[:, 0].sum() <= 24  # of 40, with probability 0.4
    target = positions.policy_target.reshape(-1, 32, 9)[-40:]
    boards = positions.board.reshape(-1, 32, 3, 3)[-40:]
    favourite = np.array([[legal_prior(board, 1.0).argmax() for board in row] for row in boards])
    full = weight == 1
    np.testing.assert_array_equal(target[~full], np.eye(9)[favourite[~full]])
    np.testing.assert_array_equal(target[full] * 4, np.round(target[full] * 4))
    assert (target[full].max(-1) < 1).mean() > 0.5
    assert (target[full].argmax(-1) != favourite[full]).mean() > 0.5
    # Their positions still teach the value.
    taken = is_new.reshape(-1, 32)[-40:]
    assert (taken & ~full).sum() > 100 and int(stats.positions) == is_new.sum()
    outcome = positions.value_target.reshape(-1, 32)[-40:]
    assert set(np.unique(outcome[taken & ~full])) >= {-1.0, 1.0}


def test_surprise_weights_follow_the_divergence():
    random = np.random.default_rng(2)
    logits = random.normal(size=(6, 9)).astype(np.float32)
    legal = random.random((6, 9)) < 0.7
    legal[:, 0] = True
    target = np.where(legal, random.random((6, 9)), 0.0)
    target[3] = np.eye(9)[0]  # zeros among the legal moves
    target /= target.sum(-1, keepdims=True)
    policy = np.where(legal, np.exp(logits), 0.0)
    policy /= policy.sum(-1, keepdims=True)
    divergence = []
    for i in range(6):
        terms = [target[i, a] * np.log(target[i, a] / policy[i, a]) for a in range(9) if target[i, a] > 0]
        divergence.append(sum(terms))
    expected = 0.25 + 0.75 * np.array(divergence) / np.mean(divergence)
    weights = surprise_weights(
        jnp.asarray(logits), jnp.asarray(legal), jnp.asarray(target, jnp.float32), 0.75
    )
    np.testing.assert_allclose(weights, expected, rtol=1e-4)
    assert float(weights.mean()) == pytest.approx(1.0, abs=1e-5)


def test_the_improved_value_is_the_visited_moves_mean_under_the_target():
    output = SearchOutput(
        action=jnp.zeros(3, jnp.int32),
        action_weights=jnp.asarray([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0], [0.1, 0.9, 0.0]]),
        visit_counts=jnp.asarray([[4, 1, 0], [1, 1, 0], [0, 2, 7]]),
        q_values=jnp.asarray([[0.6, -0.2, 0.9], [0.1, 0.2, 0.9], [0.3, 0.4, -1.0]]),
        root_value=jnp.asarray([0.0, 0.25, 0.0]),
    )
    # (0.5 * 0.6 - 0.3 * 0.2) / 0.8; nothing visited has weight; one move has.
    np.testing.assert_allclose(improved_value(output), [0.3, 0.25, 0.4], rtol=1e-6)
