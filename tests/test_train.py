"""The loop: resuming equals never having stopped, and nothing compiles late."""

import dataclasses
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import chex
import jax
import numpy as np
import pytest
from tiny import TINY, tiny

import gomoku_jax as gj
from gomoku_jax import checkpoint
from gomoku_jax.agent import AgentError
from gomoku_jax.checkpoint import (
    CheckpointError,
    init_training_state,
    load_checkpoint,
    restore_checkpoint,
    save_checkpoint,
)
from gomoku_jax.config import DevicesConfig, to_dict
from gomoku_jax.evaluation import run_evaluation
from gomoku_jax.iteration import collapse_warnings, run_iteration
from gomoku_jax.metrics import read_metrics
from gomoku_jax.programs import make_programs
from gomoku_jax.train import (
    RunExistsError,
    begin_from,
    is_finished,
    train,
)

ROOT = pathlib.Path(__file__).resolve().parent.parent


def comparable(state):
    """Without wall time, which no resumption can repeat."""
    zero = np.asarray(0.0)
    return state.replace(
        key=jax.random.key_data(state.key), progress=state.progress.replace(seconds=zero, cpu_seconds=zero)
    )


def counted_rows(workdir):
    """The rows of metrics without their timings."""
    return [
        {name: value for name, value in row.items() if not name.startswith("time/")}
        for row in read_metrics(workdir)
    ]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run of four iterations that was never stopped."""
    workdir = tmp_path_factory.mktemp("whole")
    return workdir, train(TINY, workdir, quiet=True)


def test_run_folder(whole_run):
    workdir, result = whole_run
    assert result.finished and int(result.state.progress.iteration) == 4
    assert json.loads((workdir / "config.json").read_text()) == json.loads(json.dumps(to_dict(TINY)))
    rows = read_metrics(workdir)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]
    for name in ("policy_loss", "value_loss", "entropy", "kl", "explained_variance", "grad_norm"):
        assert np.isfinite(rows[-1][f"learn/{name}"])
    shares = [rows[-1][f"selfplay/{name}"] for name in ("black_wins", "white_wins", "draws")]
    assert sum(shares) == pytest.approx(1.0)
    assert 5 <= rows[-1]["selfplay/game_length"] <= 12
    assert list((workdir / "tensorboard").iterdir())
    assert sorted(path.name for path in (workdir / "games").iterdir()) == [
        f"iteration_{iteration:06d}_game_{game}.sgf" for iteration in (2, 4) for game in (0, 1)
    ]
    evaluations = [row for row in rows if "evaluation/score" in row]
    assert [row["iteration"] for row in evaluations] == [2, 4]
    assert all(
        row["evaluation/wins"] + row["evaluation/draws"] + row["evaluation/losses"] == 4
        for row in evaluations
    )
    # The loss itself was computed on at least one batch whose boards had symmetries, and games were counted.
    assert int(result.state.progress.games) == sum(row["selfplay/games"] for row in rows)
    assert int(result.state.progress.positions) == sum(row["selfplay/positions"] for row in rows)


def test_agents_load_and_play(whole_run):
    workdir, result = whole_run
    agent = gj.load_agent(workdir / "agents" / "latest")
    chex.assert_trees_all_equal(agent.params, result.state.learner.ema_params)
    best = gj.load_agent(workdir)
    assert best.game == gj.Gomoku(3, 4, 3)
    assert best.info["iteration"] == int(result.state.progress.best_iteration)
    for simulations in (0, 4, None):
        match = gj.play_match(
            best.player(num_simulations=simulations), gj.random_player(best.game), best.game, num_games=6
        )
        assert match.num_games == 6
    with pytest.raises(AgentError, match="no agent at"):
        gj.load_agent(workdir / "nowhere")
    with pytest.raises(ValueError, match="-1"):
        best.player(num_simulations=-1)


def test_resuming_equals_never_having_stopped(whole_run, tmp_path):
    # Half of the run, by the same configuration: the learning rate's schedule spans the whole.
    (tmp_path / "games").mkdir()
    programs = make_programs(TINY)
    state = programs.place(init_training_state(TINY))
    for _ in range(2):
        state, _ = run_iteration(TINY, programs, state)
    state, _, _ = run_evaluation(TINY, programs, state, tmp_path)
    save_checkpoint(tmp_path, TINY, state)
    result = train(TINY, tmp_path, resume=True, quiet=True)
    chex.assert_trees_all_equal(comparable(result.state), comparable(whole_run[1].state))


@pytest.mark.slow
def test_resume_after_kill_9_is_exact(whole_run, tmp_path):
    workdir = tmp_path / "run"
    program = (
        "import sys\n"
        "from gomoku_jax.train import train\n"
        "from tiny import TINY\n"
        "if __name__ == '__main__':\n"
        "    train(TINY, sys.argv[1], quiet=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(workdir)],
        cwd=ROOT / "tests",
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    deadline = time.monotonic() + 240
    while not (workdir / "checkpoints" / "2" / "state").exists():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert int(load_checkpoint(workdir).progress.iteration) < 4
    result = train(TINY, workdir, resume=True, quiet=True)
    chex.assert_trees_all_equal(comparable(result.state), comparable(whole_run[1].state))
    assert counted_rows(workdir) == counted_rows(whole_run[0])
    chex.assert_trees_all_equal(gj.load_agent(workdir).params, gj.load_agent(whole_run[0]).params)


def test_a_run_is_never_overwritten_and_nothing_is_resumed_from_nothing(whole_run, tmp_path):
    workdir, _ = whole_run
    before = {path: path.stat().st_mtime_ns for path in workdir.rglob("*")}
    with pytest.raises(RunExistsError, match="holds a run already"):
        train(TINY, workdir, quiet=True)
    assert {path: path.stat().st_mtime_ns for path in workdir.rglob("*")} == before
    with pytest.raises(CheckpointError, match="nothing to resume"):
        train(TINY, tmp_path / "none", resume=True, quiet=True)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(RunExistsError, match="is a file"):
        train(TINY, file, quiet=True)


def test_the_third_iteration_compiles_nothing():
    compiled = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        config = tiny(seed=6, selfplay={"full_search_fraction": 0.5, "fast_simulations": 2})
        programs, state = make_programs(config), init_training_state(config)
        state, _ = run_iteration(config, programs, state)
        assert compiled, "the listener hears nothing"
        state, _ = run_iteration(config, programs, state)
        compiled.clear()
        for _ in range(3):
            state, metrics = run_iteration(config, programs, state)
            assert metrics["learn/updates"] == 3
        assert compiled == []
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_donated_state_is_gone():
    programs, state = make_programs(TINY), init_training_state(TINY)
    run_iteration(TINY, programs, state)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(state.replay.items.board)


def test_playouts_grow_after_a_clean_sweep_and_the_best_agent_is_kept(tmp_path):
    (tmp_path / "games").mkdir()
    config = tiny(evaluation={"num_playouts": 1, "playouts_step": 7, "max_playouts": 12, "saved_games": 0})
    programs, state = make_programs(config), init_training_state(config)
    seen = []
    for _ in range(12):
        before = state.progress
        state, metrics, result = run_evaluation(config, programs, state, tmp_path)
        after = state.progress
        assert metrics["evaluation/num_playouts"] == int(before.num_playouts)
        assert bool(metrics["evaluation/is_best"]) == (result.score >= float(before.best_score))
        if result.wins == result.num_games and int(before.num_playouts) < 12:
            assert int(after.num_playouts) == min(int(before.num_playouts) + 7, 12)
            assert float(after.best_score) == -1.0
        else:
            assert int(after.num_playouts) == int(before.num_playouts)
            assert float(after.best_score) == max(float(before.best_score), result.score)
        seen.append(result.wins == result.num_games)
    assert (tmp_path / "agents" / "best" / "agent.json").exists()
    assert not all(seen)


def test_warnings_of_collapse():
    healthy = {
        "learn/explained_variance": 0.5,
        "learn/entropy": 1.0,
        "selfplay/games": 9,
        "selfplay/distinct_positions": 0.9,
    }
    assert collapse_warnings(healthy) == []
    assert collapse_warnings({}) == []
    assert "0.001" in collapse_warnings(healthy | {"learn/explained_variance": 0.001})[0]
    assert "entropy" in collapse_warnings(healthy | {"learn/entropy": 0.001})[0]
    assert "repeat" in collapse_warnings(healthy | {"selfplay/distinct_positions": 0.05})[0]


@pytest.mark.slow
def test_other_schedules_and_networks_train(tmp_path):
    config = tiny(
        network={"kind": "conv", "conv_channels": (8,), "planes": "stones"},
        search={"algorithm": "puct"},
        learn={"schedule": "kl_adaptive", "optimizer": "sgd", "ema_decay": 0.0, "accumulation_steps": 1},
        iterations=2,
    )
    result = train(config, tmp_path, quiet=True)
    assert result.metrics["learn/learning_rate_scale"] != 1.0
    saved, state, _ = restore_checkpoint(tmp_path)
    assert saved == config and int(state.progress.iteration) == 2


@pytest.mark.slow
def test_a_clock_ends_the_run_and_snapshots_are_kept(tmp_path):
    config = tiny(iterations=10_000, max_minutes=1.0, clock="cpu", snapshot_every=2, evaluation={"every": 0})
    programs, state = make_programs(config), init_training_state(config)
    spent = state.progress.replace(cpu_seconds=np.asarray(30.0), seconds=np.asarray(1e6))
    state, _ = run_iteration(config, programs, state.replace(progress=spent))
    share = float(state.progress.cpu_seconds) / 60
    state, metrics = run_iteration(config, programs, state)
    cosine = 0.5 * (1 + math.cos(math.pi * min(share, 1)))
    assert share > 0.5 and metrics["learn/learning_rate_scale"] == pytest.approx(
        0.05 + 0.95 * cosine, abs=1e-4
    )
    state = state.replace(progress=state.progress.replace(cpu_seconds=np.asarray(59.0)))
    assert not is_finished(config, state.progress)
    almost = state.progress.replace(cpu_seconds=np.asarray(59.999), iteration=np.asarray(1))
    save_checkpoint(tmp_path, config, state.replace(progress=almost))
    result = train(config, tmp_path, resume=True, quiet=True)
    assert result.finished and int(result.state.progress.iteration) == 2
    agent = gj.load_agent(tmp_path / "agents" / "iteration_000002")
    assert agent.info["iteration"] == 2 and agent.info["cpu_seconds"] >= 60
    assert not train(config, tmp_path, resume=True, quiet=True).metrics  # nothing is left to do


def test_checkpoints_from_before_cpu_time_was_counted_still_read(tmp_path, monkeypatch):
    config, state = TINY, init_training_state(TINY)
    whole = checkpoint._to_arrays

    def without(state):
        return {name: x for name, x in whole(state).items() if name != "progress/cpu_seconds"}

    monkeypatch.setattr(checkpoint, "_to_arrays", without)
    save_checkpoint(tmp_path, config, state)
    chex.assert_trees_all_equal(comparable(load_checkpoint(tmp_path)), comparable(state))


@pytest.mark.slow
def test_a_run_begins_from_an_agent_of_another_board(whole_run, tmp_path):
    workdir, _ = whole_run
    config = tiny(game={"height": 4}, init_from=str(workdir), evaluation={"every": 0}, iterations=1)
    state = begin_from(config, init_training_state(config))
    agent = gj.load_agent(workdir)
    chex.assert_trees_all_equal(state.learner.params, agent.params)
    chex.assert_trees_all_equal(state.learner.ema_params, agent.params)
    split = dataclasses.replace(config, devices=DevicesConfig(actors=1))
    chex.assert_trees_all_equal(begin_from(split, init_training_state(split)).actor_params, agent.params)
    result = train(config, tmp_path / "new", quiet=True)
    assert result.finished
    info = gj.load_agent(tmp_path / "new").info
    assert info["init_from"] == workdir.name
    assert info["seconds_before"] == agent.info["seconds"] > 0
    wider = tiny(network={"channels": 16}, init_from=str(workdir))
    with pytest.raises(CheckpointError, match=r"channels=8.*channels=16"):
        train(wider, tmp_path / "wider", quiet=True)
    with pytest.raises(CheckpointError, match="init_from: no agent at nowhere"):
        train(tiny(init_from="nowhere"), tmp_path / "nowhere", quiet=True)
    assert not (tmp_path / "wider").exists() and not (tmp_path / "nowhere").exists()


@pytest.mark.slow
def test_perfect_play_is_reported_live(tmp_path, capsys):
    config = tiny(game={"height": 3, "width": 3}, evaluation={"solved_positions": 40}, iterations=2)
    result = train(config, tmp_path / "run")
    row = read_metrics(tmp_path / "run")[-1]
    assert 0 < row["solved/raw_value_kept"] <= 1 and 0 < row["solved/search_value_kept"] <= 1
    assert row["solved/search_value_error"] == result.evaluation["solved/search_value_error"]
    assert "at 4 simulations" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no solved positions for 3x4"):
        train(tiny(evaluation={"solved_positions": 40}), tmp_path / "other", quiet=True)
