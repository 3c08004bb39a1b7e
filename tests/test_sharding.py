"""Several devices give what one gives, without talking during self-play."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import pytest

from gomoku_jax.sharding import data_mesh, num_devices, use_cpu_cores

ROOT = pathlib.Path(__file__).resolve().parent.parent

PROGRAM = """
import json, re
import jax
import numpy as np
jax.config.update("jax_num_cpu_devices", 2)
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.sharding import data_mesh
from gomoku_jax.programs import make_programs
from gomoku_jax.iteration import run_iteration
from gomoku_jax.replay_rings import newest_first
from tiny import TINY, tiny

one = data_mesh(8, 16, devices=jax.devices()[:1])
two = data_mesh(8, 16)
assert (one.size, two.size) == (1, 2)
report = {}

# The same update from the same state: equal but for the order of sums.
programs = {mesh.size: make_programs(TINY, mesh) for mesh in (one, two)}
state = programs[1].place(init_training_state(TINY))
for _ in range(2):
    state, _ = run_iteration(TINY, programs[1], state)
host = jax.device_get(state.replace(key=jax.random.key_data(state.key)))
learned = {}
for size, program in programs.items():
    placed = program.place(host.replace(key=jax.random.wrap_key_data(host.key)))
    learner, _ = program.update(placed.learner, placed.replay, placed.key)
    learned[size] = jax.device_get(learner)
    assert all(
        len(leaf.sharding.device_set) == size and leaf.sharding.is_fully_replicated
        for leaf in jax.tree.leaves(learner.params)
    )
report["difference"] = max(
    float(np.abs(a - b).max())
    for a, b in zip(*(jax.tree.leaves(learned[size].params) for size in (1, 2)), strict=True)
)

# Self-play talks only when its positions are given out: the compiled loop has no collective.
state = programs[2].place(init_training_state(TINY))
lowered = programs[2].selfplay.lower(state.learner.params, state.selfplay, state.replay, state.key)
text = lowered.compile().as_text()
names = set(re.findall(r"body=%?([\\w.-]+)", text))
bodies = [part for part in text.split("\\n\\n") if part.split("(")[0].strip().lstrip("%").strip() in names]
words = ("all-reduce", "all-gather", "all-to-all", "collective-permute")
report["collectives_in_loops"] = sum(word in body for body in bodies for word in words)
report["loops"] = len(bodies)

# Games differ between the devices, and every position of every finished game arrives.
config = tiny(selfplay={"opening_stones": 0})
programs = make_programs(config, two)
state = programs.place(init_training_state(config))
games = 0
for _ in range(3):
    state, metrics = run_iteration(config, programs, state)
    games += metrics["selfplay/games"]
boards = np.asarray(state.replay.items.board)[newest_first(jax.device_get(state.replay))]
report["first_positions"] = int((np.abs(boards).sum((1, 2)) == 0).sum())
report["games"] = games
shares = np.split(np.asarray(state.selfplay.states.board), 2)
report["shares_equal"] = bool((shares[0] == shares[1]).all())
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def report():
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | {"JAX_PLATFORMS": "cpu"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT / "tests",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.slow
def test_an_update_on_two_devices_equals_one(report):
    assert report["difference"] < 1e-5


@pytest.mark.slow
def test_no_collective_inside_the_selfplay_loops(report):
    assert report["loops"] > 0
    assert report["collectives_in_loops"] == 0


@pytest.mark.slow
def test_devices_play_different_games_and_lose_none(report):
    assert not report["shares_equal"]
    assert report["games"] > 0
    # Without openings every finished game has exactly one position with an empty board.
    assert report["first_positions"] == report["games"]


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
