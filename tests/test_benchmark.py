"""The benchmark script at its smallest: tables, rows, refusals. Numbers are not judged."""

import json

import benchmark
import pytest

from benchmarks import predict, scale, search, selfplay, train
from gomoku_jax.game import parse_board
from gomoku_jax.presets import PRESETS

SMALL = {
    "env": ["--board", "4x5x3", "--batches", "8", "--steps", "10", "--repeats", "1"],
    "net": ["--boards", "4x5x3", "--batches", "4", "--kinds", "resnet", "--channels", "4", "--repeats", "1"],
    "rules": ["--board", "5x6x5", "--batch", "8", "--stones", "6", "--selfplay-moves", "0", "--referee", "2"],
    "search": ["--board", "3x3x3", "--network", "resnet", "--simulations", "6", "--games", "4"],
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.slow] * (what == "search")) for what in SMALL]
)
def test_a_table_and_rows(what, tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    assert benchmark.main([what, *SMALL[what], "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    (row,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert row["benchmark"] == what and row["versions"]["jax"] and row["processor"] and row["cores"]
    rates = [value for name, value in row.items() if name.endswith("_per_second")]
    assert len(rates) >= 3 and all(rate > 0 for rate in rates)
    assert any(board in shown for board in ("4x5", "5x6", "3x3"))
    if what == "search":
        assert row["rows_that_differ"] == 0
        assert row["bytes_per_game"] == 7 * row["bytes_per_node"] < 7 * row["mctx_bytes_per_node"]


@pytest.mark.slow
def test_the_parts_of_an_iteration_add_up(monkeypatch, capsys):
    import dataclasses

    from tiny import tiny

    monkeypatch.setitem(PRESETS, "tiny", tiny(replay={"capacity": 512, "min_size": 8}))
    (row,) = train.run(dataclasses.replace(train.Train(), preset="tiny", iterations=2, cache=False))
    assert sum(row["parts"].values()) == pytest.approx(row["iteration_seconds"])
    assert "100.0%" in capsys.readouterr().out


@pytest.mark.slow
def test_renju_in_self_play_is_measured_beside_freestyle(capsys):
    argv = ["rules", "--board", "5x6x5", "--batch", "8", "--stones", "6", "--agent", "6x6x4"]
    argv += ["--selfplay-games", "2", "--selfplay-moves", "1", "--repeats", "1", "--referee", "0"]
    assert benchmark.main(argv) == 0
    assert "times as many moves as freestyle" in capsys.readouterr().out


@pytest.mark.slow
def test_selfplay_rows(monkeypatch, capsys):
    from tiny import tiny

    monkeypatch.setitem(PRESETS, "tiny", tiny())
    arguments = selfplay.Selfplay(board="3x3x3", playouts=4, games=8, preset="tiny", repeats=1)
    ours, preset = selfplay.run(arguments)
    assert ours["simulations_per_second"] == pytest.approx(4 * ours["moves_per_second"])
    assert 5 <= ours["mean_game_length"] <= 9 and preset["games_per_minute"] > 0
    assert "3x3x3" in capsys.readouterr().out


@pytest.mark.slow
def test_measurements_beside_the_prediction(monkeypatch, tmp_path, capsys):
    from tiny import tiny

    monkeypatch.setitem(PRESETS, "tiny", tiny())
    file = tmp_path / "rows.jsonl"
    argv = ["--scale", "--preset", "tiny", "--iterations", "2", "--no-cache", "--json", str(file)]
    assert benchmark.main(argv) == 0
    (row,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert row["benchmark"] == "scale" and row["devices_used"] == 1 and row["speedup"] == 1
    assert 0.5 < row["bytes_used"] / row["predicted"]["bytes"] < 1.5
    assert row["collective_seconds"] == 0
    shown = capsys.readouterr().out
    assert "self-play, positions/s" in shown and "XLA's plan" in shown


def test_numbers_of_devices_and_ratios():
    assert scale.counts(1) == [1] and scale.counts(8) == [1, 2, 4, 8] and scale.counts(6) == [1, 2, 4, 6]
    assert scale.ratio(6.0, (2.0, 8.0)) == 1.5


def test_predictions_are_tables(capsys):
    rows = predict.run(predict.Predict(devices=("h100", "v5ex4"), channels=192, blocks=3, simulations=100))
    shown = capsys.readouterr().out
    assert "resnet 192x3" in shown and "| | h100 | v5ex4 | v5ex4, as many each |" in shown
    assert len(rows) == 2 * 3
    small, large = rows[0], rows[3]
    assert small["positions_per_second"][0] > large["positions_per_second"][0]
    apart, each = rows[1], rows[2]
    assert each["games"] == 4 * apart["games"] and each["batch_size"] == 4 * apart["batch_size"]
    assert each["bytes_each"]["games"] == 4 * apart["bytes_each"]["games"]


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["env", "--board", "15"], "ROWSxCOLUMNSxK"),
        (["env", "--board", "2x2x2"], "height = 2"),
        (["train", "--preset", "nope"], "'nope': choose one of"),
        (["memory", "--preset", "nope"], "'nope': choose one of"),
        (["--scale", "--preset", "nope"], "'nope': choose one of"),
        (["scale", "--devices", "0"], "--devices 0: at least 1"),
        (["predict", "--preset", "nope"], "'nope': choose one of"),
        (["predict", "--devices", "h300"], "'h300': write one of"),
        (["selfplay", "--tutorial", "nowhere"], "no game.py there"),
        (["search", "--agent", "nowhere"], "no agent at nowhere"),
        (["env", "--json", "nowhere/rows.jsonl"], "no such folder"),
    ],
)
def test_mistakes_are_refused_at_once(arguments, reason, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert benchmark.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and reason in error


def test_depth_of_nodes():
    import numpy as np

    parent = np.array([[-1, 0, 0, 1, 3, -1], [-1, 0, 1, 2, 3, 4]])
    np.testing.assert_array_equal(search.depths(parent), [[0, 1, 1, 2, 3, 0], [0, 1, 2, 3, 4, 5]])


def test_boards_by_name():
    game = parse_board("8x9x5")
    assert (game.height, game.width, game.k) == (8, 9, 5)
