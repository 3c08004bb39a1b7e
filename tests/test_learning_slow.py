"""Agents learn, by numbers: the slow tests. Run with `pytest -m slow`."""

import jax
import pytest
from tiny import TINY

import gomoku_jax as gj
from gomoku_jax.checkpoint import init_training_state, playing_params
from gomoku_jax.iteration import run_iteration
from gomoku_jax.programs import make_programs
from gomoku_jax.train import train


@pytest.mark.slow
def test_tictactoe_preset_plays_perfectly_enough(tmp_path):
    """The whole preset: no loss in 200 games against random and 100 against pure MCTS."""
    train(gj.PRESETS["tictactoe"], tmp_path, quiet=True)
    agent = gj.load_agent(tmp_path)
    player = agent.player(num_simulations=64)
    against_random = gj.play_match(player, gj.random_player(agent.game), agent.game, num_games=200, seed=1)
    against_mcts = gj.play_match(player, gj.mcts_player(agent.game, 1000), agent.game, num_games=100, seed=1)
    assert against_random.losses == 0 and against_random.wins > 150
    assert against_mcts.losses == 0


@pytest.mark.slow
def test_learns_tic_tac_toe_to_a_number():
    """From nothing to no loss in 100 games against random, and a value that explains outcomes."""
    config = gj.PRESETS["tictactoe"]
    programs, state = make_programs(config), init_training_state(config)
    game = gj.Gomoku(3, 3, 3)
    metrics = {}
    for _ in range(12):
        state, metrics = run_iteration(config, programs, state)
    assert metrics["learn/explained_variance"] > 0.2
    player = gj.search_player(game, config.network, state.learner.ema_params, config.search.greedy(32))
    match = gj.play_match(player, gj.random_player(game), game, num_games=100, seed=3)
    assert match.losses == 0
    assert match.wins >= 80


@pytest.mark.slow
def test_default_preset_learns_within_twelve_iterations():
    """To well over half of the points against pure MCTS with 200 playouts, from random openings."""
    config = gj.PRESETS["6x6x4"]
    game = gj.Gomoku.from_config(config.game)
    programs = make_programs(config)
    state = programs.place(init_training_state(config))

    def score() -> float:
        params = jax.device_get(playing_params(config, state))
        player = gj.search_player(game, config.network, params, config.search.greedy(64))
        opponent = gj.mcts_player(game, 200)
        return gj.play_match(player, opponent, game, num_games=100, seed=2, opening_stones=2).score

    first, metrics = score(), {}
    for _ in range(12):
        state, metrics = run_iteration(config, programs, state)
    last = score()
    assert last > 0.6
    assert last > first + 0.2
    assert metrics["learn/explained_variance"] > 0.25
    assert metrics["selfplay/distinct_positions"] > 0.8


@pytest.mark.slow
def test_live_arrays_do_not_grow_over_200_iterations():
    programs = make_programs(TINY)
    state = programs.place(init_training_state(TINY))
    counts = []
    for iteration in range(200):
        state, _ = run_iteration(TINY, programs, state)
        if iteration in (4, 199):
            counts.append((len(jax.live_arrays()), sum(array.nbytes for array in jax.live_arrays())))
    assert counts[0] == counts[1]
