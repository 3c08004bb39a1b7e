"""The scripts as their users meet them: what they print, where they write, how they refuse."""

import importlib.util
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import gomoku_jax as gj
from gomoku_jax.config import GameConfig, to_dict
from gomoku_jax.metrics import ConsoleDisplay, MetricsWriter, provenance, read_metrics

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent / "experiments"
SMALL = [
    "--preset",
    "tictactoe",
    "--selfplay.num-games",
    "8",
    "--search.num-simulations",
    "4",
    "--replay.min-size",
    "16",
    "--learn.updates-per-iteration",
    "2",
    "--learn.batch-size",
    "8",
    "--evaluation.num-games",
    "2",
    "--evaluation.num-playouts",
    "8",
    "--evaluation.num-simulations",
    "4",
]


def script(name: str):
    """Imports a script as a module, so that its `main` runs in this process."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", EXPERIMENTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder made by the training script."""
    workdir = tmp_path_factory.mktemp("scripts") / "run"
    assert script("train").main([*SMALL, "--workdir", str(workdir), "--iterations", "2"]) == 0
    return workdir


def status_and_error(capsys, name: str, argv: list[str]) -> tuple[object, str]:
    try:
        code = script(name).main(argv)
    except SystemExit as stop:  # how tyro and argparse refuse
        code = stop.code
    captured = capsys.readouterr()
    return code, re.sub(r"[\s│]+", " ", captured.out + captured.err)  # tyro wraps and frames its errors


def test_train_overrides_resumes_and_says_where_things_are(run, capsys):
    config = json.loads((run / "config.json").read_text())
    assert config["game"] == to_dict(GameConfig(3, 3, 3))
    assert config["selfplay"]["num_games"] == 8 and config["iterations"] == 2
    code, out = status_and_error(capsys, "train", ["--workdir", str(run), "--resume", "--iterations", "3"])
    assert code == 0
    assert "resumed at iteration 2" in out and "iteration 3/3" in out
    assert f"experiments/evaluate.py {run}" in out and f"experiments/plot.py {run}" in out
    # The resumed run kept its own configuration.
    assert json.loads((run / "config.json").read_text()) == config | {"iterations": 3}
    assert [row["iteration"] for row in read_metrics(run)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--preset", "7x7x7"], ["7x7x7", "tictactoe", "6x6x4", "15x15x5"]),
        (["--search.algorithm", "minimax"], ["minimax", "puct", "gumbel"]),
        (["--search.num-simulation", "3"], ["--search.num-simulation", "--search.num-simulations"]),
        (["--search.num-simulations", "0"], ["num_simulations", "0", "at least 1"]),
        (["--search.num-simulations", "many"], ["many", "int"]),
        (["--game.k", "9"], ["k", "9", "longer side"]),
        (["--iterations", "0"], ["iterations", "0", "at least 1"]),
        (["--resume"], ["--workdir"]),
        (["--resume", "--workdir", "no/such/run"], ["no/such/run"]),
    ],
)
def test_train_refuses_with_a_clear_error(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = status_and_error(capsys, "train", argv)
    assert code == 2
    assert all(word in text for word in words), text
    assert "Traceback" not in text
    assert list(tmp_path.iterdir()) == []


def test_train_refuses_a_folder_that_holds_a_run(run, capsys):
    before = (run / "config.json").read_text()
    code, text = status_and_error(capsys, "train", [*SMALL, "--workdir", str(run)])
    assert code == 2 and "holds a run already" in text
    assert (run / "config.json").read_text() == before


def test_train_refuses_to_resume_as_another_board_naming_both(run, capsys):
    code, text = status_and_error(capsys, "train", ["--workdir", str(run), "--resume", "--preset", "8x8x5"])
    assert code == 2 and "height=3" in text and "height=8" in text
    code, text = status_and_error(
        capsys, "train", ["--workdir", str(run), "--resume", "--network.channels", "24"]
    )
    assert code == 2 and "channels=16" in text and "channels=24" in text


def test_default_workdir_is_new_and_dated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _ = status_and_error(capsys, "train", [*SMALL, "--iterations", "1", "--quiet"])
    assert code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-tictactoe") and folder.name[:8].isdecimal()


def test_evaluate_players_json_and_sgf(run, capsys, tmp_path):
    rows = tmp_path / "rows.jsonl"
    argv = [
        str(run),
        "mcts:8",
        "--games",
        "6",
        "--simulations",
        "4",
        "--json",
        str(rows),
        "--sgf",
        str(tmp_path / "sgf"),
    ]
    code, out = status_and_error(capsys, "evaluate", argv)
    assert code == 0 and "in 6 games" in out and "3x3, 3 in a row" in out
    code, out = status_and_error(
        capsys, "evaluate", [f"{run}@0", "tactical", "--games", "2", "--json", str(rows)]
    )
    assert code == 0
    first, second = (json.loads(line) for line in rows.read_text().splitlines())
    assert first["wins"] + first["draws"] + first["losses"] == 6
    assert first["interval"][0] <= first["score"] <= first["interval"][1]
    assert first["versions"]["jax"] and first["a"].endswith("@4") and second["a"].endswith("@0")
    games = sorted((tmp_path / "sgf").iterdir())
    assert len(games) == 6 and games[0].read_text().startswith("(;FF[4]GM[4]")


def test_evaluate_between_fixed_players_on_any_board(capsys):
    argv = ["tactical", "random", "--board", "5x7x4", "--rule", "exact", "--games", "10"]
    code, out = status_and_error(capsys, "evaluate", argv)
    assert code == 0 and "5x7, 4 in a row, exact" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nobody", "random"], ["nobody", "mcts:PLAYOUTS", "tactical"]),
        (["mcts:", "random"], ["mcts:", "mcts:1000"]),
        (["mcts:0", "random"], ["mcts:0"]),
        (["random", "random", "--board", "6x6"], ["6x6", "ROWSxCOLUMNSxK"]),
        (["random", "random", "--board", "2x6x4"], ["height", "2"]),
        (["random", "random", "--games", "0"], ["num_games", "0"]),
        (["random", "random", "--opening-stones", "99"], ["opening_stones", "99"]),
    ],
)
def test_evaluate_refuses_with_a_clear_error(argv, words, capsys):
    code, text = status_and_error(capsys, "evaluate", argv)
    assert code == 2
    assert all(word in text for word in words), text
    assert "Traceback" not in text


def test_plot_draws_several_runs(run, capsys, tmp_path):
    output = tmp_path / "curves.png"
    code, _ = status_and_error(capsys, "plot", [str(run), str(run), "--output", str(output)])
    assert code == 0
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and output.stat().st_size > 20_000
    code, text = status_and_error(capsys, "plot", [str(tmp_path / "none")])
    assert code == 2 and "no such file" in text


def test_presets_are_the_promised_ones():
    boards = {name: (c.game.height, c.game.width, c.game.k) for name, c in gj.PRESETS.items()}
    assert boards == {
        "tictactoe": (3, 3, 3),
        "6x6x4": (6, 6, 4),
        "8x8x5": (8, 8, 5),
        "9x9x5": (9, 9, 5),
        "15x15x5": (15, 15, 5),
    }
    assert all(isinstance(json.dumps(to_dict(config)), str) for config in gj.PRESETS.values())


def test_metrics_survive_a_line_cut_short_and_drop_later_rows(tmp_path):
    writer = MetricsWriter(tmp_path)
    for iteration in range(1, 5):
        writer.write(iteration, {"loss": float("nan") if iteration == 2 else 1.0 / iteration, "name": "x"})
    writer.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 5, "lo')
    assert [row["iteration"] for row in read_metrics(tmp_path)] == [1, 2, 3, 4]
    assert read_metrics(tmp_path)[1]["loss"] is None
    MetricsWriter(tmp_path, resume_at=3).close()
    assert [row["iteration"] for row in read_metrics(tmp_path)] == [1, 2, 3]


def test_display_prints_plain_lines_when_not_a_terminal(capsys):
    with ConsoleDisplay(total=2, every_seconds=0.0) as display:
        display.update(1, "first")
        display.message("note")
        display.update(2, "second")
    assert capsys.readouterr().out == "iteration 1/2  first\nnote\niteration 2/2  second\n"


def test_provenance_names_versions_and_hardware():
    facts = provenance()
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["cores"] >= 1 and facts["devices"]


def test_a_state_pictures_itself_in_a_notebook():
    state = gj.replay_moves(gj.Gomoku(6, 6, 4), "c3d4")
    assert (
        len(list(ElementTree.fromstring(state._repr_svg_()).iter("{http://www.w3.org/2000/svg}circle"))) == 3
    )
