"""The scripts that measure strength against perfect play, and the research table."""

import dataclasses
import json
import shutil

import chex
import numpy as np
import pytest
from matches import Helpers, player_facts
from rows import read_rows
from scipy import stats
from test_scripts import script, status_and_error

import gomoku_jax as gj
from gomoku_jax.agent import SHIPPED_FOLDER, parse_player, save_agent
from gomoku_jax.config import GameConfig
from gomoku_jax.suites import load_solved


@pytest.mark.slow
def test_solve_tells_values_and_repeats_a_shipped_set(capsys, tmp_path):
    code, text = status_and_error(capsys, "solve", ["4x4x3"])
    assert code == 0 and "the first player wins" in text
    argv = ["4x4x3", "--positions", "25", "--stones", "2", "9", "--output", str(tmp_path)]
    code, text = status_and_error(capsys, "solve", argv)
    assert code == 0 and "25 positions" in text
    # The same seed meets the same positions, and has the same values for them.
    shipped = load_solved(gj.Gomoku(4, 4, 3))
    with np.load(tmp_path / "4x4x3.npz") as made:
        for name in ("board", "to_play", "last_action", "values"):
            np.testing.assert_array_equal(made[name], getattr(shipped, name)[:25])


@pytest.mark.parametrize(
    ("name", "argv", "words"),
    [
        ("solve", ["6x6"], ["6x6", "ROWSxCOLUMNSxK"]),
        ("solve", ["7x7x5"], ["49 points", "at most 36"]),
        ("solve", ["3x3x3", "--positions", "5", "--stones", "7", "12"], ["7 12", "from 0 to 8"]),
        ("evaluate", ["9x9x5", "--solved"], ["9x9", "3x3x3, 4x4x3"]),
        ("evaluate", ["random", "tactical", "--solved"], ["tactical", "one player"]),
        ("evaluate", ["random"], ["two players"]),
        ("evaluate", ["random", "tictactoe", "--tactical-helper"], ["random", "tictactoe", "for an agent"]),
        ("evaluate", ["tactical", "--solved", "--tactical-helper"], ["tactical", "for an agent"]),
        ("evaluate", ["random", "tictactoe", "--root-vcf", "9"], ["--root-vcf 9", "for an agent"]),
        ("evaluate", ["tictactoe@0", "random", "--tree-vcf", "5"], ["--tree-vcf 5", "that searches"]),
        ("evaluate", ["tictactoe", "random", "--tree-vcf", "4"], ["search.tree_vcf = 4", "odd"]),
        ("evaluate", ["gomocup:x", "--solved"], ["gomocup:x", "engines"]),
        ("evaluate", ["random", "--solved", "--board", "3x3x3", "--positions", "900"], ["900", "431"]),
        ("ship", ["tictactoe", "mine", "--training", "x", "--results", "no/such.jsonl"], ["no/such.jsonl"]),
        ("research", ["run", "--rows", "nothing"], ["nothing", "default", "puct"]),
        ("research", ["run", "--preset", "9x9x5"], ["9x9", "solved"]),
        ("research", ["report", "--results", "nowhere.jsonl"], ["nowhere.jsonl", "no rows"]),
    ],
)
def test_refusals(name, argv, words, capsys):
    code, text = status_and_error(capsys, name, argv)
    assert code == 2 and "Traceback" not in text
    assert all(word in text for word in words), text


def test_helpers_change_what_was_asked_for():
    agent = gj.load_agent("tictactoe")
    search = dataclasses.replace(agent.search, algorithm="puct", reuse_tree=True, tactical_helper=True)
    agent = dataclasses.replace(agent, search=search)
    assert Helpers().agent(agent).search == search and Helpers().options == ""
    assert Helpers(tree_vcf=5).agent(agent).search == dataclasses.replace(search, tree_vcf=5)
    # A tree that is kept is not looked at anew; players keep none.
    expected = dataclasses.replace(search, root_vcf=9, reuse_tree=False)
    assert Helpers(root_vcf=9).agent(agent).search == expected
    helpers = Helpers(tactical_helper=True, root_vcf=9, tree_vcf=5)
    assert helpers.options == "--tactical-helper --root-vcf 9 --tree-vcf 5"
    assert helpers.words == "helper, root-vcf 9, tree-vcf 5"
    player = helpers.player(parse_player("tictactoe@8"))
    assert player.agent is not None and player.simulations == 8
    facts = player_facts(player)["search"]
    assert facts["tactical_helper"] and (facts["root_vcf"], facts["tree_vcf"]) == (9, 5)


@pytest.mark.slow
def test_evaluate_against_perfect_play(capsys, tmp_path):
    rows, agent = tmp_path / "rows.jsonl", tmp_path / "mine"
    shutil.copytree(SHIPPED_FOLDER / "tictactoe", agent)
    argv = [
        str(agent),
        "--tactical-helper",
        "--solved",
        "--solved-simulations",
        "0",
        "4",
        "--positions",
        "60",
        "--json",
        str(rows),
    ]
    code, text = status_and_error(capsys, "evaluate", argv)
    assert code == 0 and "value-keeping moves" in text
    row = json.loads(rows.read_text())
    assert [score["simulations"] for score in row["solved"]] == [0, 4]
    assert all(score["kept"]["total"] == 60 for score in row["solved"])
    assert row["agent"]["search"]["tactical_helper"] and row["agent"]["simulations"] == 16
    assert row["player"] == "mine" and str(tmp_path) not in rows.read_text()
    code, text = status_and_error(capsys, "evaluate", ["tactical", "--solved", "--board", "3x3x3"])
    assert code == 0 and "tactical on 431 solved positions" in text


@pytest.mark.slow
def test_snapshots_against_perfect_play_make_curves(capsys, tmp_path):
    agent, rows, picture = gj.load_agent("tictactoe"), tmp_path / "rows.jsonl", tmp_path / "solved.png"
    for iteration, seconds in ((10, 30.0), (20, 60.0)):
        folder = tmp_path / "mine" / "agents" / f"iteration_{iteration:06d}"
        info = {"iteration": iteration, "seconds": seconds}
        save_agent(folder, GameConfig(3, 3, 3), agent.network, agent.search, agent.params, info)
    argv = [str(tmp_path / "mine"), "--solved", "--snapshots", "--solved-simulations", "0", "4"]
    code, _ = status_and_error(capsys, "evaluate", [*argv, "--positions", "60", "--json", str(rows)])
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert code == 0 and [row["player"] for row in found] == [
        "mine/iteration_000010",
        "mine/iteration_000020",
    ]
    by_time, by_simulations = script("plot_strength").solved_curves(found)
    assert [point[0] for point in by_time["mine, 4 simulations"]] == [0.5, 1.0]
    for (_, lost, low, high), score in zip(by_simulations["mine"], found[1]["solved"], strict=True):
        count, total = score["kept"]["count"], score["kept"]["total"]
        assert lost == pytest.approx(1 - count / total) and low - 1e-9 <= lost <= high + 1e-9
    code, _ = status_and_error(capsys, "plot_strength", [str(rows), "--output", str(picture)])
    assert code == 0 and picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    code, text = status_and_error(capsys, "evaluate", [str(tmp_path / "mine"), "tactical", "--snapshots"])
    assert code == 2 and "--solved" in text


@pytest.mark.slow
def test_a_research_run_is_trained_scored_and_not_repeated(capsys, tmp_path, monkeypatch):
    research = script("research")
    results = tmp_path / "rows.jsonl"
    arguments = research.Run(
        rows=("puct",),
        seeds=(3,),
        preset="tictactoe",
        minutes=0.02,
        simulations=(0, 8),
        snapshots=1,
        workdir=tmp_path / "runs",
        results=results,
    )
    commands = []

    def train(command):  # in this process, and much smaller
        commands.append(command)
        small = ["--selfplay.num-games", "8", "--search.num-simulations", "4", "--learn.batch-size", "8"]
        small += ["--replay.min-size", "16", "--learn.updates-per-iteration", "2"]
        code, _ = status_and_error(capsys, "train", [*command[1:], *small])
        return code

    monkeypatch.setattr(research, "train_in_process", train)
    research.run(arguments)
    research.run(arguments)
    assert len(commands) == 1 and "puct" in commands[0]
    (puct,) = read_rows(results)
    assert puct["config"]["search"]["algorithm"] == "puct" and puct["seed"] == 3
    assert [score["simulations"] for score in puct["scores"]] == [0, 8]
    assert puct["curve"][-1]["iteration"] == puct["info"]["iteration"]
    assert puct["info"]["cpu_seconds"] >= 1.2
    picture = tmp_path / "curves.png"
    argv = ["report", "--results", str(results), "--plot", str(picture)]
    code, text = status_and_error(capsys, "research", argv)
    assert code == 0 and "PUCT for Gumbel" in text
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_table_has_students_interval_and_differences_paired_by_seed():
    research = script("research")

    def row(name: str, seed: int, kept: float):
        scores = [{"simulations": 100, "kept": kept, "value_error": 0.5}]
        curve = [{"cpu_seconds": 120.0 * n, "kept_0": kept * n / 5} for n in range(1, 6)]
        facts = {"info": {"iteration": 10, "games": 2000}, "curve": curve, "clock": "cpu"}
        return {"row": name, "seed": seed, "scores": scores, **facts}

    kept = {"default": (0.90, 0.92, 0.97), "puct": (0.80, 0.83, 0.86)}
    rows = [row(name, seed, value) for name, values in kept.items() for seed, value in enumerate(values)]
    text = research.table(rows)
    line = next(line for line in text.splitlines() if "PUCT" in line)
    half = stats.sem(kept["puct"]) * stats.t.ppf(0.975, 2)
    assert f"0.830 ± {half:.3f}" in line
    differences = np.subtract(kept["puct"], kept["default"])
    low, high = stats.t.interval(0.95, 2, differences.mean(), stats.sem(differences))
    assert f"-0.100 [{low:+.3f}, {high:+.3f}]" in line
    # The default is on its straight line where the change ends: ten minutes times the ratio of the shares.
    minutes = sorted(10 * a / b for a, b in zip(kept["puct"], kept["default"], strict=True))
    assert line.endswith(f"| {minutes[1]:.1f} min |")
    assert research.minutes_to(rows[0], 0.1) == 2.0 and research.minutes_to(rows[0], 0.95) == float("inf")
    assert research.minutes_to(rows[0], 0.45) == pytest.approx(5.0)


def test_a_report_is_of_one_budget(capsys, tmp_path):
    results = tmp_path / "rows.jsonl"
    facts = {"row": "default", "seed": 0, "info": {"iteration": 9, "games": 700}, "clock": "cpu"}
    facts |= {"scores": [{"simulations": 0, "kept": 0.5, "value_error": 0.25, "positions": 10}]}
    facts |= {"curve": [{"cpu_seconds": 60.0, "kept_0": 0.5, "kept_100": 1.0}]}
    for minutes in (1.0, 2.0):
        row = facts | {"preset": "6x6x4", "minutes": minutes}
        results.write_text((results.read_text() if results.exists() else "") + json.dumps(row) + "\n")
    code, text = status_and_error(capsys, "research", ["report", "--results", str(results)])
    assert code == 2 and "--minutes: say which; the file has 1.0, 2.0" in text
    argv = ["report", "--results", str(results), "--minutes", "2"]
    code, text = status_and_error(capsys, "research", argv)
    assert code == 0 and "| the default | 1 | 9 | 700 | 0.500 |" in text
    code, text = status_and_error(capsys, "research", [*argv, "--preset", "9x9x5"])
    assert code == 2 and "--preset 9x9x5: the file has 6x6x4" in text


@pytest.mark.slow
def test_an_agent_is_shipped_with_card_and_rows(capsys, tmp_path):
    agent, rows = gj.load_agent("tictactoe"), tmp_path / "rows.jsonl"
    info = {"iteration": 7, "games": 1234, "seconds": 90.0, "seed": 3}
    save_agent(tmp_path / "run", GameConfig(3, 3, 3), agent.network, agent.search, agent.params, info)
    argv = [str(tmp_path / "run"), "mine", "--simulations", "4", "--games", "4", "--playouts", "9"]
    argv += ["--opponents", "tactical", "--to", str(tmp_path / "to"), "--results", str(rows)]
    code, text = status_and_error(capsys, "ship", argv)
    assert code == 0, text
    shipped = gj.load_agent(tmp_path / "to" / "mine")
    chex.assert_trees_all_equal(shipped.params, agent.params)
    assert shipped.info["games"] == 1234
    card = (tmp_path / "to" / "mine" / "CARD.md").read_text()
    assert "1,234" in card and "1.5 minutes" in card and "solved positions" in card
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    played = [(row["b"], row["opening_stones"]) for row in found]
    assert played == [("random", 0), ("mcts:9", 0), ("mcts:9", 2), ("tactical", 0), ("tactical", 2)]
    for row in found:
        assert row["a"] == "mine@4" and row["agents"][0]["simulations"] == 4
        assert row["score"] == (row["wins"] + row["draws"] / 2) / row["games"] and len(row["pairs"]) == 2
        assert f"{row['wins']}-{row['draws']}-{row['losses']}" in card
    assert str(tmp_path) not in rows.read_text() + card
