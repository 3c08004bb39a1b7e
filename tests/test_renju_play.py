"""Renju in search, self-play, training and players: nobody ever plays a forbidden point."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import tiny

import gomoku_jax as gj
from gomoku_jax.checkpoint import CheckpointError
from gomoku_jax.config import GameConfig, SearchConfig
from gomoku_jax.encode import states_from_positions
from gomoku_jax.game import BLACK, Gomoku
from gomoku_jax.game import renju as rules
from gomoku_jax.metrics import read_metrics
from gomoku_jax.network import NetworkOutput
from gomoku_jax.players import mcts_player, random_player, tactical_player
from gomoku_jax.search import pure_mcts, search_with
from gomoku_jax.search.tactical import tactical_evaluator
from gomoku_jax.train import train

GAME = Gomoku(9, 9, 5, "renju")
BATCH = 16


def running(boards: np.ndarray, colour: int) -> gj.State:
    count = len(boards)
    return states_from_positions(
        jnp.asarray(boards, jnp.int8), jnp.full(count, colour, jnp.int8), jnp.full(count, -1, jnp.int32)
    )


def temptation(game, params, states):
    """An evaluator that would love to play what is forbidden."""
    del params
    forbidden = jax.vmap(rules.forbidden_points)(states.board)
    return NetworkOutput(jnp.where(forbidden, 9.0, 0.0), jnp.zeros(states.to_play.shape[0]))


@pytest.fixture(scope="module")
def positions():
    """Positions, Black to move, in which something is forbidden."""
    rng = np.random.default_rng(8)
    boards = rng.choice(np.array([0, 1, -1], np.int8), (2000, 9, 9), p=[0.6, 0.25, 0.15])
    states = running(boards, 1)
    forbidden = jax.jit(jax.vmap(rules.forbidden_points))(boards)
    wins = jax.jit(jax.vmap(lambda state: GAME.winning_actions(state, BLACK)))(states)
    chosen = np.flatnonzero((np.asarray(forbidden).sum(-1) > 2) & ~np.asarray(wins).any(-1))[:BATCH]
    assert len(chosen) == BATCH
    return jax.tree.map(lambda leaf: leaf[chosen], states), np.asarray(forbidden)[chosen]


@pytest.mark.parametrize(("algorithm", "backend"), [("gumbel", "fast"), ("puct", "mctx")])
def test_search_never_visits_a_forbidden_point(positions, algorithm, backend):
    states, forbidden = positions
    config = SearchConfig(algorithm, num_simulations=24, backend=backend)
    evaluate = functools.partial(temptation, GAME)
    output = jax.jit(lambda key: search_with(GAME, evaluate, None, key, states, config))(jax.random.key(0))
    assert not forbidden[np.arange(BATCH), np.asarray(output.action)].any()
    assert np.asarray(output.visit_counts)[forbidden].sum() == 0
    assert np.asarray(output.action_weights)[forbidden].sum() == 0
    assert np.isfinite(np.asarray(output.root_value)).all()


@pytest.mark.parametrize("make", [random_player, tactical_player, lambda game: mcts_player(game, 90)])
def test_players_never_play_a_forbidden_point(positions, make):
    states, forbidden = positions
    player = jax.jit(make(GAME))
    for seed in range(5):
        actions = np.asarray(player(jax.random.key(seed), states))
        assert not forbidden[np.arange(BATCH), actions].any()
        assert (np.asarray(states.board).reshape(BATCH, -1)[np.arange(BATCH), actions] == 0).all()


def test_pure_mcts_obeys_the_rules_inside_its_tree():
    """White has one move that leaves Black nothing legal: after enough playouts it is seen as won."""
    game = Gomoku(7, 7, 5, "renju")
    board = np.tile(np.array([[1, -1, -1, 1, 1, -1, -1]], np.int8), (7, 1))
    board[1::2] *= -1
    board[3] = [1, 1, 1, 0, 1, 1, -1]
    board[0, 0] = 0  # a1 and d4 are empty, and d4 would make six of Black's
    states = running(board[None], -1)
    output = pure_mcts(game, jax.random.key(0), states, 60)
    assert int(output.action[0]) == 0 and float(output.q_values[0, 0]) == 1.0


def test_the_helper_knows_a_block_that_is_forbidden():
    """White's four can be stopped on g7 only, a double-three: Black is lost by a single threat."""
    game = Gomoku(15, 15, 5, "renju")

    def flat(params, states):
        return NetworkOutput(jnp.zeros((len(states.to_play), 225)), jnp.full(len(states.to_play), 0.25))

    moves = "h8g6f6g5f7g4h7g3g2a1"
    values = {}
    for each in (game, Gomoku(15, 15, 5, "exact")):
        states = jax.tree.map(lambda leaf: leaf[None], gj.replay_moves(each, moves))
        values[each.rule] = float(jax.jit(tactical_evaluator(each, flat, 0.9))(None, states).value[0])
    assert values == {"renju": pytest.approx(-0.9), "exact": 0.25}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["renju", "caro"])
def test_a_run_trains_and_goes_on(rule, tmp_path):
    config = tiny(game=GameConfig(6, 6, 5, rule), iterations=2)
    train(config, tmp_path / "run", quiet=True)
    train(dataclasses.replace(config, iterations=3), tmp_path / "run", resume=True, quiet=True)
    rows = read_metrics(tmp_path / "run")
    assert [row["iteration"] for row in rows] == [1, 2, 3] and np.isfinite(rows[-1]["learn/loss"])
    assert gj.load_agent(tmp_path / "run").game == Gomoku(6, 6, 5, rule)
    with pytest.raises(CheckpointError, match="game"):
        other = dataclasses.replace(config, game=GameConfig(6, 6, 5, "exact"), iterations=4)
        train(other, tmp_path / "run", resume=True, quiet=True)
