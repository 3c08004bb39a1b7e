"""Sweeps: what a definition means, what is run again and what not, and what a report says."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping

import numpy as np
import pytest
import sweep_runs
from aggregate import interquartile_mean
from scipy import stats
from sweep_plan import parse_value, plan
from sweep_report import aggregate_sweep, align, read_curve
from sweep_runs import RunState, is_locked, lock, run_state, train_command
from test_scripts import EXPERIMENTS, SMALL, script, status_and_error

from gomoku_jax.checkpoint import CHECKPOINT_FOLDER, read_config, write_config
from gomoku_jax.metrics import METRICS_FILE, read_metrics
from gomoku_jax.presets import PRESETS

DEFINITION = """
preset = "tictactoe"
seeds = [3, 4]

[common]
iterations = 20
network.conv_channels = [8, 8]

[variants.default]
[variants.slow]
learn.learning_rate = 1
"learn.max-grad-norm" = 0.5

[grid]
search.num_simulations = [4, 8]
replay.symmetries = [false]
"""


def definition(**changes):
    """The simplest sweep, with more in it."""
    return {"preset": "tictactoe", "seeds": [0], **changes}


def fake_run(folder: pathlib.Path, config, rows: list[dict], saved: int) -> None:
    """What a run leaves: its configuration, metrics, and a checkpoint."""
    (folder / CHECKPOINT_FOLDER / str(saved)).mkdir(parents=True)
    write_config(folder, config)
    (folder / METRICS_FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))


def score_rows(scores: Mapping[int, float | None], last: int = 0) -> list[dict]:
    """Metrics of a run: 10 games and 2 seconds an iteration, scores at some."""
    return [
        {"iteration": i, "selfplay/games": 10, "time/seconds": 2.0 * i, "learn/loss": 1.0 / i}
        | ({"evaluation/score": scores[i], "evaluation/num_playouts": 50} if i in scores else {})
        for i in range(1, max([*scores, last]) + 1)
    ]


def test_a_definition_is_tasks_times_variants_times_seeds():
    runs = plan(tomllib.loads(DEFINITION))
    names = [f"{a},num_simulations={n},symmetries=False" for a in ("default", "slow") for n in (4, 8)]
    assert [str(run.place) for run in runs] == [f"{name}/seed_{s}" for s in (3, 4) for name in names]
    slow = runs[-1]
    assert slow.config.seed == 4 and slow.config.iterations == 20
    assert slow.config.network.conv_channels == (8, 8)
    assert (slow.config.learn.learning_rate, slow.config.learn.max_grad_norm) == (1.0, 0.5)
    assert slow.config.search.num_simulations == 8 and not slow.config.replay.symmetries
    assert slow.config.selfplay == PRESETS["tictactoe"].selfplay
    assert set(slow.varied) == set(slow.fields) - {"iterations", "network.conv_channels"}
    assert runs[0].config.learn == PRESETS["tictactoe"].learn
    # Seeds that are added come last, so that the numbers of the others stay.
    more = plan(tomllib.loads(DEFINITION) | {"seeds": [3, 4, 5]})
    assert more[: len(runs)] == runs


def test_several_tasks_have_folders_and_fields_of_their_own():
    runs = plan({"presets": ["tictactoe", "6x6x4"]})
    assert [str(run.place) for run in runs] == ["default/tictactoe/seed_0", "default/6x6x4/seed_0"]
    assert [run.config for run in runs] == [PRESETS["tictactoe"], PRESETS["6x6x4"]]
    tables = {
        "wide": {"preset": "tictactoe", "game": {"width": 4}, "iterations": 5},
        "6x6x4": {"preset": "6x6x4"},
    }
    wide, other = plan({"tasks": tables, "common": {"iterations": 9}})
    assert wide.config.game.width == 4 and (wide.config.iterations, other.config.iterations) == (5, 9)


def test_fields_of_two_ends_alike_have_their_whole_names():
    grid = {"network.kind": ["conv"], "search.temperature": [0.5], "selfplay.temperature": [1]}
    (run,) = plan(definition(grid=grid))
    assert run.variant == "kind=conv,search.temperature=0.5,selfplay.temperature=1.0"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16", 16),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("[8, 16]", [8, 16]),
        ("puct", "puct"),
        ("runs/mine", "runs/mine"),
        ("1\nb=2", "1\nb=2"),
    ],
)
def test_values_of_a_command_line(text, value):
    found = parse_value(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": [1]}, ["seed", "preset, presets, tasks, seeds, common"]),
        ({"seeds": []}, ["seeds = []", "[0, 1, 2]"]),
        ({"seeds": [1, 1]}, ["seeds = [1, 1]", "different"]),
        ({"seeds": [True]}, ["seeds = [True]"]),
        ({"seeds": [-1]}, ["seed = -1", "variant default"]),
        ({"preset": "7x7x7"}, ["7x7x7", "tictactoe", "15x15x5"]),
        ({"presets": ["tictactoe"]}, ["preset and presets", "choose one"]),
        ({"preset": ["tictactoe"]}, ["['tictactoe']", "choose one of"]),
        ({"common": 3}, ["common = 3", "a table"]),
        ({"common": {"seed": 3}}, ["common: seed", "seeds = [0, 1, 2]"]),
        ({"common": {"learn.learning_rat": 1}}, ["'learn.learning_rat'", "did you mean learn.learning_rate"]),
        ({"common": {"learning_rate": 1}}, ["'learning_rate'", "learn.learning_rate"]),
        ({"common": {"learn": 1}}, ["no field 'learn'"]),
        ({"common": {"iterations": 1.5}}, ["iterations = 1.5", "a whole number"]),
        ({"common": {"iterations": True}}, ["iterations = True", "a whole number"]),
        ({"common": {"replay": {"symmetries": 1}}}, ["replay.symmetries = 1", "true or false"]),
        ({"common": {"learn.l2": "x"}}, ["learn.l2 = 'x'", "a number"]),
        ({"common": {"learn.l2": [1e-4]}}, ["learn.l2 = [0.0001]", "a number"]),
        ({"common": {"learn.l2": 1, "learn": {"l2": 2}}}, ["learn.l2", "twice"]),
        ({"common": {"learn.l2": 1, "learn.l-2": 1}}, ["'learn.l-2'"]),
        ({"common": {"network.conv_channels": 8}}, ["network.conv_channels = 8", "a list"]),
        ({"common": {"network.conv_channels": ["a"]}}, ["network.conv_channels = 'a'", "a whole number"]),
        ({"variants": {"a/b": {}}}, ["variant 'a/b'", "folder"]),
        ({"variants": {"..": {}}}, ["variant '..'", "folder"]),
        ({"variants": {"seed_1": {}}}, ["variant 'seed_1'"]),
        ({"variants": {"a": 3}}, ["variants.a = 3", "table"]),
        ({"variants": {"a": {"search.algorithm": "max"}}}, ["variant a: search.algorithm = 'max'", "puct"]),
        ({"variants": {"a": {"game.k": 4}}}, ["variant a: k = 4", "longer side"]),
        ({"grid": {"iterations": 3}}, ["grid: iterations = 3", "a list"]),
        ({"grid": {"iterations": []}}, ["grid: iterations = []", "at least one"]),
        ({"grid": {"iterations": [3, 3]}}, ["iterations has 3 twice"]),
        ({"grid": {"iterations": [3, 0]}}, ["variant iterations=0: iterations = 0"]),
        ({"grid": {"learn.l2": [0], "learn": {"l2": [0]}}}, ["learn.l2"]),
        ({"grid": {"init_from": ["a/b", "a-b"]}}, ["init_from=a-b", "named variants"]),
        ({"variants": {"a": {"iterations": 2}}, "grid": {"iterations": [1]}}, ["iterations", "variant a"]),
        ({"preset": None, "tasks": {"a": {"iterations": 2}}}, ["preset and tasks"]),
    ],
)  # fmt: skip
def test_a_wrong_definition_is_refused_by_name_and_value(changes, words):
    with pytest.raises(ValueError) as caught:
        plan(definition(**changes))
    assert all(word in str(caught.value) for word in words), caught.value


def test_tables_of_tasks_need_a_preset():
    with pytest.raises(ValueError, match=r"tasks\.a: a table with a preset"):
        plan({"tasks": {"a": {"iterations": 2}}})
    with pytest.raises(ValueError, match="variant default, task b: k = 9"):
        plan({"tasks": {"a": {"preset": "tictactoe"}, "b": {"preset": "tictactoe", "game.k": 9}}})


def test_the_command_of_a_run_gives_train_the_planned_configuration(tmp_path):
    fields = {
        "network": {
            "kind": "conv",
            "conv_channels": [8, 4],
            "planes": "rules",
            "inference_dtype": "bfloat16",
        },
        "other_rules": ["exact", "caro"],
        "selfplay.num_games": 6,
        "search": {"tactical_helper": True, "max_depth": 7, "algorithm": "puct", "q_scaling": "none"},
        "replay.symmetries": False,
        "learn": {"learning_rate": 1e-7, "l2": 0},
        "init_from": "runs/with space/agents/best",
        "max_minutes": 2.5,
        "clock": "cpu",
    }
    train = script("train")
    for common in (fields, {"search.max_depth": "none", "init_from": "None", "other_rules": []}):
        (run,) = plan(definition(seeds=[7], common=common))
        arguments = train.parse(train_command(run, tmp_path / "run")[2:])
        assert arguments.config == run.config and arguments.workdir == tmp_path / "run"
        assert not arguments.resume
    write_config(tmp_path, run.config)
    assert train_command(run, tmp_path)[2:] == ["--workdir", str(tmp_path), "--resume"]


def test_how_far_a_run_is(tmp_path):
    (run,) = plan(definition(common={"iterations": 9}))
    config, rows = run.config, score_rows({}, last=9)
    assert run_state(tmp_path / "none", config) == RunState("missing")
    write_config(tmp_path, config)
    assert run_state(tmp_path, config) == RunState("half done")
    # Metrics may be ahead of the newest checkpoint, from which the run goes on.
    fake_run(tmp_path / "half", config, rows, saved=5)
    state = run_state(tmp_path / "half", config)
    assert (state.kind, state.iteration) == ("half done", 5)
    assert state.describe(config) == "half done, at iteration 5 of 9"
    fake_run(tmp_path / "done", config, rows, saved=9)
    assert run_state(tmp_path / "done", config).kind == "finished"
    # A clock ends a run at any iteration.
    for minutes, kind in ((0.2, "finished"), (0.21, "half done")):
        (timed,) = plan(definition(common={"iterations": 1000, "max_minutes": minutes}))
        fake_run(tmp_path / str(minutes), timed.config, score_rows({}, last=6), saved=6)
        state = run_state(tmp_path / str(minutes), timed.config)
        assert state.kind == kind
    assert state.describe(timed.config) == "half done, at iteration 6, 0.2 of 0.21 minutes"


@pytest.mark.skipif(os.name != "posix", reason="folders are not locked on Windows")
def test_a_folder_is_one_process_own(tmp_path):
    (run,) = plan(definition())
    place = tmp_path / "default" / "seed_0"
    file = lock(place)
    assert is_locked(place) and run_state(place, run.config).kind == "running"
    with pytest.raises(sweep_runs.BusyError, match="another process"):
        lock(place)
    file.close()
    assert not is_locked(place) and run_state(place, run.config).kind == "missing"


FAKE_TRAINING = """
import json, pathlib, sys
place, config, kind = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
print("it says why")
if kind == "fails":
    sys.exit(3)
(place / "config.json").write_text(config)
(place / "checkpoints" / kind).mkdir(parents=True, exist_ok=True)
(place / "metrics.jsonl").write_text(json.dumps({"iteration": int(kind)}) + chr(10))
"""


def test_a_failing_run_stops_no_other_and_finished_ones_are_skipped(tmp_path, monkeypatch, capsys):
    argv = ["run", "--folder", str(tmp_path), "--preset", "tictactoe", "--set", "iterations", "9"]
    argv += ["--vary", "search.num-simulations", "4", "8", "16", "--jobs", "2"]
    kinds = {4: "9", 8: "fails", 16: "5"}  # one finishes, one fails, one ends too early
    commands = []

    def fake_command(run, place, options):
        commands.append(run.variant)
        config = json.dumps({"seed": 0, "iterations": 9})
        kind = kinds[run.config.search.num_simulations]
        return [sys.executable, "-c", FAKE_TRAINING, str(place), config, kind]

    monkeypatch.setattr(sweep_runs, "train_command", fake_command)
    monkeypatch.setattr("sweep_runs.differences", lambda ours, theirs: [])
    code, text = status_and_error(capsys, "sweep", argv)
    assert code == 1 and "3 runs, 0 of them finished" in text
    assert "num_simulations=8/seed_0: failed with status 3; the end of its output: it says why" in text
    assert "num_simulations=4/seed_0: finished" in text
    assert "num_simulations=16/seed_0: stopped, half done, at iteration 5 of 9" in text
    assert "error: 2 of 3 runs did not finish: num_simulations=8/seed_0" in text
    assert sorted(commands) == ["num_simulations=16", "num_simulations=4", "num_simulations=8"]
    code, text = status_and_error(capsys, "sweep", ["list", "--folder", str(tmp_path)])
    assert code == 0 and "3 runs: 1 finished, 1 missing, 1 half done" in text
    # The same command does what is left; the folder knows its definition.
    commands.clear()
    kinds |= {8: "9", 16: "9"}
    code, text = status_and_error(capsys, "sweep", ["run", "--folder", str(tmp_path)])
    assert code == 0 and "3 runs, 1 of them finished" in text and "All finished" in text
    assert commands == ["num_simulations=8", "num_simulations=16"]
    code, text = status_and_error(capsys, "sweep", ["run", "--folder", str(tmp_path), "--index", "2"])
    assert code == 0 and "num_simulations=16/seed_0: finished" in text
    code, text = status_and_error(capsys, "sweep", ["script", "--folder", str(tmp_path)])
    assert code == 2 and "all 3 runs" in text


def test_each_gpu_has_one_run_at_a_time(tmp_path, monkeypatch):
    runs = plan(definition(seeds=[0, 1, 2, 3]))
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    monkeypatch.setattr(sweep_runs, "train_command", lambda *_: [sys.executable, "-c", show])
    slots = [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in ("0", "GPU-5e")]
    outcome = sweep_runs.run_all(tmp_path, runs, range(4), slots)
    assert len(outcome.failed) == 4  # nothing was trained
    shown = [(tmp_path / run.place / sweep_runs.LOG_FILE).read_text().strip() for run in runs]
    assert shown[:2] == ["0", "GPU-5e"] and set(shown) == {"0", "GPU-5e"}


def test_an_array_task_becomes_its_run(tmp_path, monkeypatch, capsys):
    argv = ["run", "--folder", str(tmp_path), "--preset", "tictactoe", "--seeds", "5", "6"]
    sweep, became = script("sweep"), []

    def become(path, command):
        became.append((path, command))
        raise SystemExit  # it does not return

    monkeypatch.setattr(sweep_runs.os, "execv", become)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    with pytest.raises(SystemExit):
        sweep.main([*argv, "--array", "--num-devices", "2"])
    ((path, command),) = became
    place = str(tmp_path / "default" / "seed_6")
    assert path == sys.executable and command[1] == str(EXPERIMENTS / "train.py")
    assert command[2:] == ["--workdir", place, "--num-devices", "2", "--preset", "tictactoe", "--seed", "6"]
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID")
    for more, words in (
        (["--array"], ["SLURM_ARRAY_TASK_ID is ''", "--index"]),
        (["--index", "2"], ["--index 2", "0 to 1"]),
        (["--jobs", "0"], ["--jobs 0", "at least 1"]),
        (["--num-devices", "0"], ["--num-devices 0", "at least 1"]),
        (["--gpus", "0", "0"], ["--gpus 0 0", "once"]),
    ):
        code, text = status_and_error(capsys, "sweep", [*argv, *more])
        assert code == 2 and all(word in text for word in words), text


def test_the_array_job_asks_for_what_is_left(tmp_path, capsys):
    sweep = script("sweep")
    folder = tmp_path / "a sweep"
    for run in plan(definition(seeds=[0, 1, 2, 3, 4, 5]))[2:4]:
        fake_run(folder / run.place, run.config, score_rows({}, last=30), saved=30)
    argv = ["script", "--folder", str(folder), "--preset", "tictactoe", "--seeds", *"012345"]
    argv += ["--time", "4:00:00", "--gpus", "1", "--at-once", "3", "--sbatch", "partition=gpu"]
    assert sweep.main([*argv, "--setup", "module load cuda"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("#!/bin/bash\n#SBATCH --job-name=") and "#SBATCH --array=0-1,4-5%3\n" in text
    assert f'#SBATCH --output="{folder}/slurm-%A_%a.out"\n' in text and "#SBATCH --gpus=1\n" in text
    assert "--partition=gpu" in text and "--mem" not in text
    # bash reads it, and what it runs is this script, which finds the saved definition.
    (tmp_path / "job.sh").write_text(
        text.replace("exec ", "printf '%s\\n' ").replace("module load cuda", ":")
    )
    words = subprocess.run(["bash", tmp_path / "job.sh"], capture_output=True, text=True, check=True)
    expected = [sys.executable, str(EXPERIMENTS / "sweep.py"), "run", "--folder", str(folder), "--array"]
    assert words.stdout.splitlines() == expected
    assert len(sweep.planned(sweep.List(folder), save=False)) == 6


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["list"], ["holds no sweep yet", "--file"]),
        (["report"], ["holds no sweep", "sweep.json"]),
        (["list", "--file", "none.toml"], ["none.toml"]),
        (["list", "--file", "bad.toml"], ["bad.toml: Unclosed array"]),
        (["run", "--vary", "learn.l2"], ["--vary learn.l2", "its values"]),
        (["run", "--vary", "learn.l2", "0", "--vary", "learn.l2", "1"], ["learn.l2: given twice"]),
        (["run", "--set", "iterations", "many"], ["iterations = 'many'", "a whole number"]),
        (["run", "--preset", "7x7x7"], ["7x7x7", "tictactoe"]),
        (["run", "--vary", "game.k", "3", "9"], ["variant k=9: k = 9"]),
        (["script", "--preset", "tictactoe", "--cpus", "-1"], ["--cpus -1"]),
    ],
)
def test_the_command_line_refuses_before_anything_is_written(argv, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("bad.toml").write_text("seeds = [0,\n1")
    code, text = status_and_error(capsys, "sweep", [*argv, "--folder", "mine"])
    assert code == 2 and "Traceback" not in text and all(word in text for word in words), text
    assert not pathlib.Path("mine").exists()


def test_a_folder_keeps_its_definition_and_refuses_another(tmp_path, capsys):
    sweep, folder = script("sweep"), tmp_path / "mine"
    (tmp_path / "mine.toml").write_text(DEFINITION)
    runs = sweep.planned(sweep.Run(folder, file=tmp_path / "mine.toml"), save=True)
    assert runs == plan(tomllib.loads(DEFINITION)) == sweep.planned(sweep.Report(folder), save=False)
    more = sweep.planned(sweep.Run(folder, seeds=(3, 4, 8)), save=True)
    assert more[: len(runs)] == runs and len(more) == 12
    assert sweep.planned(sweep.List(folder), save=False) == more
    # Options beside a file add to it.
    both = sweep.Run(folder, file=tmp_path / "mine.toml", set=(("learn.l2", "0"),), preset=("6x6x4",))
    assert {run.config.learn.l2 for run in sweep.planned(both, save=False)} == {0.0}
    fake_run(folder / runs[0].place, runs[0].config, [], saved=1)
    argv = ["list", "--file", str(tmp_path / "mine.toml"), "--set", "learn.l2", "0", "--folder", str(folder)]
    code, text = status_and_error(capsys, "sweep", argv)
    assert code == 2 and "is another: it has learn.l2 = 0.0001, not 0.0" in text


def test_curves_along_games_and_seconds_meet_on_straight_lines():
    (run,) = plan(definition())
    rows = score_rows({2: 0.0, 4: 1.0, 5: None})
    games = read_curve(run, rows, "evaluation/score", "games")
    assert games is not None and games.x.tolist() == [20, 40] and games.y.tolist() == [0, 1]
    other = read_curve(run, score_rows({3: 0.5, 6: 0.75}), "evaluation/score", "games")
    assert other is not None
    x, y = align([games, other], exact=False)
    assert (x[0], x[-1]) == (30, 40)
    np.testing.assert_allclose(y[0], (x - 20) / 20)
    np.testing.assert_allclose(y[1], 0.5 + 0.25 * (x - 30) / 30)
    with pytest.raises(ValueError, match="no iteration"):
        align([games, other], exact=True)
    with pytest.raises(ValueError, match=r"default/seed_0 ends at 40, before .* at 70"):
        align([games, read_curve(run, score_rows({7: 1.0}), "evaluation/score", "games")], exact=False)  # type: ignore[list-item]
    seconds = read_curve(run, rows, "learn/loss", "seconds")
    assert seconds is not None and seconds.x.tolist() == [2, 4, 6, 8, 10]
    assert read_curve(run, rows, "learn/nothing", "iteration") is None


SCORES = {"default": (0.1, 0.3, 0.2, 0.4), "puct": (0.5, 0.2, 0.6)}


@pytest.fixture
def swept(tmp_path):
    """A sweep of two variants; puct's last seed has not begun, and one run is behind the others."""
    runs = plan(
        definition(seeds=[0, 1, 2, 3], variants={"default": {}, "puct": {"search.algorithm": "puct"}})
    )
    for run in runs:
        if run.seed < len(SCORES[run.variant]):
            final = SCORES[run.variant][run.seed]
            scores = {10: final - 0.1, 20: final, 30: 1.0}
            if (run.variant, run.seed) == ("puct", 1):
                del scores[30]
            fake_run(tmp_path / run.place, run.config, score_rows(scores), saved=max(scores))
    table = {"preset": "tictactoe", "seeds": [0, 1, 2, 3]}
    table["variants"] = {"default": {}, "puct": {"search.algorithm": "puct"}}
    (tmp_path / "sweep.json").write_text(json.dumps(table))
    return tmp_path, runs


def test_a_report_compares_where_all_runs_are(swept, capsys):
    folder, runs = swept
    result = aggregate_sweep(folder, runs, "evaluation/score", replicates=2000)
    default, puct = result.variants
    assert result.at == {"tictactoe": 20.0}
    assert sorted(default.scores["tictactoe"]) == [0.1, 0.2, 0.3, 0.4] and default.total.value == 0.25
    assert puct.total.value == pytest.approx(np.mean(SCORES["puct"])) and puct.seeds == {
        "tictactoe": [0, 1, 2]
    }
    direct = interquartile_mean([np.array(SCORES["default"])], 2000)
    assert (default.total.low, default.total.high) == (direct.low, direct.high)
    assert default.improvement is None and puct.improvement is not None
    share = stats.mannwhitneyu(SCORES["puct"], SCORES["default"]).statistic / 12
    assert puct.improvement.value == pytest.approx(share)
    np.testing.assert_allclose(default.x["tictactoe"], [10, 20])
    np.testing.assert_allclose(default.curves["tictactoe"].value, [0.15, 0.25])
    notes = " ".join(result.notes)
    assert "1 of 8 runs have no evaluation/score yet and are left out: puct/seed_3" in notes
    assert (
        "compared at iteration 20" in notes
        and "the longest goes to 30" in notes
        and "puct/seed_1, to 20" in notes
    )
    assert "3 seeds" in notes and "in about 7" in notes and "numbers of seeds differ" in notes
    # Turned round, and for a metric of which less is better.
    turned = aggregate_sweep(folder, runs, "evaluation/score", base="puct", replicates=500)
    assert [variant.name for variant in turned.variants] == ["puct", "default"]
    assert turned.variants[1].improvement.value == pytest.approx(1 - share)  # type: ignore[union-attr]
    lower = aggregate_sweep(folder, runs, "evaluation/score", lower=True, replicates=500)
    assert lower.variants[1].improvement.value == pytest.approx(1 - share)  # type: ignore[union-attr]


def test_the_report_prints_draws_and_writes_rows(swept, capsys):
    folder, _ = swept
    names = (("markdown", "table.md"), ("plot", "curves.png"), ("json", "rows.jsonl"))
    files = {option: folder / name for option, name in names}
    argv = ["report", "--folder", str(folder), "--replicates", "1000"]
    argv += [word for name, path in files.items() for word in (f"--{name}", str(path))]
    code, text = status_and_error(capsys, "sweep", argv)
    assert code == 0 and "| default | 4 | 0.250 [0.100, 0.400] | 0.100 to 0.400 | |" in text
    assert "| puct | 3 | 0.433 [0.200, 0.600] |" in text and "**evaluation/score** at iteration 20" in text
    assert files["markdown"].read_text().startswith("**evaluation/score**")
    assert files["plot"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    default, puct = (json.loads(line) for line in files["json"].read_text().splitlines())
    assert puct["fields"] == {"search.algorithm": "puct"} and puct["improvement"]["over"] == "default"
    assert default["scores"] == {"tictactoe": list(SCORES["default"])}
    assert default["iqm"]["value"] == 0.25 and default["versions"]["jax"]
    assert puct["configs"]["tictactoe"]["search"]["algorithm"] == "puct"
    assert str(folder) not in files["json"].read_text()
    for more, words in (
        (["--metric", "evaluation/scor"], ["evaluation/scor", "evaluation/score", "learn/loss"]),
        (["--base", "nobody"], ["--base nobody", "default, puct"]),
        (["--replicates", "3"], ["--replicates 3", "at least 100"]),
        (["--axis", "cpu_seconds"], ["no run has it"]),
    ):
        code, text = status_and_error(capsys, "sweep", ["report", "--folder", str(folder), *more])
        assert code == 2 and all(word in text for word in words), text
    code, text = status_and_error(capsys, "sweep", [*argv[:5], "--axis", "games", "--finished"])
    assert code == 0 and "at games 300" in text and "| default | 4 | 1.000" in text and "| puct | 2 |" in text


def test_a_report_warns_of_opponents_that_differ_and_of_single_seeds(tmp_path):
    runs = plan(definition(grid={"learn.l2": [0, 1]}))
    for run, playouts in zip(runs, (50, 1000), strict=True):
        rows = score_rows({2: 0.5})
        rows[-1]["evaluation/num_playouts"] = playouts
        fake_run(tmp_path / run.place, run.config, rows, saved=2)
    result = aggregate_sweep(tmp_path, runs, "evaluation/score", replicates=500)
    notes = " ".join(result.notes)
    assert (
        "of 50 playouts in some runs and 1000 in others" in notes and "evaluation.playouts_step = 0" in notes
    )
    assert "1 seed: there is no interval" in notes
    losses = aggregate_sweep(tmp_path, runs, "learn/loss", replicates=500)
    assert "playouts" not in " ".join(losses.notes)
    text = script("sweep_report").table(losses)
    assert "| l2=0.0 | 1 | 0.500 | 0.500 to 0.500 |" in text and "0.500 |\n" in text


def test_tasks_are_strata_compared_each_at_its_own_end(tmp_path):
    table = {
        "presets": ["tictactoe", "6x6x4"],
        "seeds": [0, 1, 2],
        "variants": {"a": {}, "b": {"learn.l2": 0}},
    }
    runs, rng = plan(table), np.random.default_rng(0)
    scores = {(run.variant, run.task, run.seed): float(rng.random()) for run in runs}
    for run in runs:
        ends = {2: 0.0, 4: 0.25} if run.task == "tictactoe" else {4: 0.75, 8: 0.0}
        ends[max(ends)] = scores[run.variant, run.task, run.seed]
        fake_run(tmp_path / run.place, run.config, score_rows(ends), saved=max(ends))
    result = aggregate_sweep(tmp_path, runs, "evaluation/score", replicates=500)
    assert result.at == {"tictactoe": 4.0, "6x6x4": 8.0}
    shares = []
    for task in ("tictactoe", "6x6x4"):
        a, b = ([scores[name, task, seed] for seed in range(3)] for name in "ab")
        shares.append(stats.mannwhitneyu(b, a).statistic / 9)
    first, second = result.variants
    assert first.total.value == pytest.approx(
        stats.trim_mean([x for k, x in scores.items() if k[0] == "a"], 0.25)
    )
    assert second.improvement is not None and second.improvement.value == pytest.approx(np.mean(shares))
    # Iteration 4 is the only one that both tasks have: the end of one, the middle of the other.
    x, curve = result.overall["b"]
    middle = [scores["b", "tictactoe", seed] for seed in range(3)] + [0.75] * 3
    assert x.tolist() == [4] and curve.value[0] == pytest.approx(stats.trim_mean(middle, 0.25))
    text = script("sweep_report").table(result)
    assert "tictactoe 4, 6x6x4 8 (iteration)" in text and "| variant | tictactoe | 6x6x4 |" in text
    script("sweep_report").draw(result, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_a_sweep_is_stopped_goes_on_and_is_reported(tmp_path, capsys):
    folder = tmp_path / "sweep"
    fields = dict(zip(SMALL[2::2], SMALL[3::2], strict=True))
    del fields["--search.num-simulations"]  # it is varied
    fields |= {"iterations": "40", "evaluation.every": "20", "checkpoint-every": "20"}
    fields["evaluation.playouts-step"] = "0"
    argv = ["run", "--folder", str(folder), "--preset", "tictactoe", "--seeds", "0", "1"]
    argv += [word for name, value in fields.items() for word in ("--set", name.removeprefix("--"), value)]
    argv += ["--vary", "search.num-simulations", "2", "4", "--vary", "learn.learning-rate", "1e-3"]
    sweep = subprocess.Popen(
        [sys.executable, EXPERIMENTS / "sweep.py", *argv], text=True, stderr=subprocess.PIPE
    )
    first = folder / "num_simulations=2,learning_rate=0.001" / "seed_0"
    while sweep.poll() is None and not (first / METRICS_FILE).exists():
        time.sleep(0.05)
    sweep.send_signal(signal.SIGINT)
    _, error = sweep.communicate()
    assert sweep.returncode == 130 and "the same command goes on" in error
    code, text = status_and_error(capsys, "sweep", ["list", "--folder", str(folder)])
    assert code == 0 and "3 missing" in text and "running" not in text
    assert read_config(first).iterations == 40
    code, text = status_and_error(capsys, "sweep", argv)
    assert code == 0 and "All finished" in text, text
    runs = script("sweep").planned(script("sweep").List(folder), save=False)
    scores = {}
    for run in runs:
        rows = read_metrics(folder / run.place)
        assert [row["iteration"] for row in rows] == list(range(1, 41))
        assert read_config(folder / run.place) == run.config
        scores.setdefault(run.variant, []).append(rows[-1]["evaluation/score"])
    code, text = status_and_error(capsys, "sweep", argv)
    assert code == 0 and "4 runs, 4 of them finished" in text and "begins" not in text
    rows = tmp_path / "rows.jsonl"
    code, text = status_and_error(capsys, "sweep", ["report", "--folder", str(folder), "--json", str(rows)])
    assert code == 0 and "at iteration 40" in text and "2 seeds" in text
    for line, (variant, found) in zip(rows.read_text().splitlines(), scores.items(), strict=True):
        row = json.loads(line)
        assert row["variant"] == variant and row["iqm"]["value"] == pytest.approx(np.mean(found))
        assert row["trained_on"][0]["cores"] >= 1
