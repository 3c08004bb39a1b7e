"""Several devices give what one gives, without talking during self-play."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

from gomoku_jax.sharding import data_mesh, num_devices, use_cpu_cores

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | {"JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = str(ROOT)
    result = subprocess.run(
        [sys.executable, "eight_devices.py", str(tmp_path_factory.mktemp("run"))],
        cwd=ROOT / "tests",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["puct", "gumbel"])
def test_search_on_eight_devices_equals_one(report, algorithm):
    found = report["search"][algorithm]
    assert found["devices"] == 8
    assert found["visits_equal"] and found["most_visited"]
    assert found["value_difference"] < 1e-5
    assert found["collectives"] == 0


@pytest.mark.slow
def test_updates_on_eight_devices_equal_those_of_one(report):
    assert report["update"]["moved"] > 1e-3
    assert report["update"]["difference"] < 1e-5


@pytest.mark.slow
def test_parameters_are_equal_on_all_devices_after_many_updates(report):
    assert report["long"]["devices"] == 8 and report["long"]["parts"] == [8, 8]
    assert report["long"]["updates"] >= 20
    assert report["long"]["equal"]


@pytest.mark.slow
def test_no_collective_in_self_play_and_matches(report):
    assert report["selfplay"]["collectives"] == 0
    assert report["selfplay"]["collectives_in_matches"] == 0
    assert report["selfplay"]["update_collectives"] > 0  # the count sees them where they are


@pytest.mark.slow
def test_devices_play_different_games_and_lose_none(report):
    found = report["selfplay"]
    assert found["shares_differ"] == 8
    # Without openings every finished game has exactly one position with an empty board.
    assert found["first_positions"] == found["games"] > 0


@pytest.mark.slow
def test_self_play_on_eight_devices_follows_the_law_of_one(report):
    one, eight = report["law"]["1"], report["law"]["8"]
    for found in (one, eight):
        assert found["games"] > 1000
    for name in ("black_wins", "openings"):
        table = np.asarray([one[name], eight[name]])
        if table.ndim == 1:
            table = np.stack([table, [one["games"], eight["games"]] - table], axis=1)
        table = table[:, table.sum(0) > 10]
        result: Any = stats.chi2_contingency(table)
        assert result.pvalue > 1e-3, (name, table)


@pytest.mark.slow
def test_actors_play_while_learners_learn(report):
    found = report["split"]
    assert found["devices"] == [5, 3] and found["shared"] == 0
    assert found["updates"][0] == 0 and found["updates"][-1] >= 12  # learning is an iteration behind
    # With four updates an iteration, the actors get parameters whenever another six are full.
    steps = [0, *found["updates"]]
    assert found["handed_over"] == [b // 6 > a // 6 for a, b in itertools.pairwise(steps)]
    assert found["difference_when_handed_over"] == 0
    assert found["first_positions"] == found["games"] > 0
    for sizes in found["ring_sizes"]:
        assert max(sizes) - min(sizes) <= len(found["ring_sizes"])  # each iteration deals out evenly
    assert found["copies_equal"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_run_of_four_devices_goes_on_with_others(report, count):
    found = report["checkpoint"][str(count)]
    assert found["replay_equal"] and found["games_equal"] and found["learner_equal"] and found["key_equal"]
    assert len(found["ring_sizes"]) == count
    assert max(found["ring_sizes"]) - min(found["ring_sizes"]) <= (1 if count != 4 else 100)
    assert found["goes_on"] == 5


def test_mesh_takes_the_devices_that_divide_the_sizes():
    device = jax.devices()[0]
    for count, sizes, expected in (
        (8, (256, 64), 8),
        (8, (12, 18), 6),
        (8, (7,), 7),
        (8, (5, 9), 1),
        (1, (4,), 1),
    ):
        assert num_devices(count, *sizes) == expected
    mesh = data_mesh(5, 9, devices=[device])
    assert mesh.shape == {"data": 1} and mesh.devices.tolist() == [device]


def test_cpu_cores_only_where_nothing_is_said(monkeypatch):
    said = []
    monkeypatch.setattr(jax.config, "update", lambda name, value: said.append((name, value)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=3")
    use_cpu_cores(1024)
    assert said == []
    monkeypatch.setenv("XLA_FLAGS", "")
    use_cpu_cores(1024)
    use_cpu_cores(130)
    use_cpu_cores(8)
    assert said == [("jax_num_cpu_devices", 6), ("jax_num_cpu_devices", 2), ("jax_num_cpu_devices", 1)]
