"""Estimates of memory and speed: numbers counted by hand, arrays as they are made, and what XLA plans."""

import dataclasses
import functools
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import train as train_script
from tiny import TINY, tiny

from gomoku_jax import learn
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.config import NetworkConfig, SearchConfig, TrainConfig
from gomoku_jax.estimate import (
    CAUTIOUS,
    DEVICES,
    HOPEFUL,
    DeviceSpec,
    Layout,
    MemoryBudgetError,
    available_memory,
    changes_that_fit,
    check_memory,
    device_memory,
    estimate_memory,
    estimate_speed,
    known_device,
    layout,
    measure_device,
    parse_devices,
    size_replay,
    speed,
)
from gomoku_jax.estimate import memory as counting
from gomoku_jax.game import Gomoku
from gomoku_jax.network import apply_network, init_network
from gomoku_jax.presets import PRESETS
from gomoku_jax.programs import make_meshes, make_programs
from gomoku_jax.replay_rings import init_rings
from gomoku_jax.search import init_tree, network_evaluator, playout_tree
from gomoku_jax.selfplay import Positions, init_selfplay
from gomoku_jax.sharding import data_mesh

ONE = Layout(1, 1)
GAME = Gomoku.from_config(TINY.game)
BIG = PRESETS["15x15x5"]


def allocated(tree) -> int:
    """Bytes of arrays, by their own account."""
    leaves = jax.tree.leaves(tree)
    keys = [jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    return sum(
        (jax.random.key_data(leaf) if key else leaf).nbytes for leaf, key in zip(leaves, keys, strict=True)
    )


# Memory


def test_the_arrays_of_a_run_take_what_was_estimated():
    shapes = jax.eval_shape(lambda: init_network(TINY.network, GAME, jax.random.key(0)))
    params = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    learner = learn.init_train_state(params, learn.make_optimizer(TINY.learn, 12))
    without_openings = dataclasses.replace(TINY.selfplay, opening_stones=0)
    games = jax.jit(lambda: init_selfplay(GAME, without_openings, jax.random.key(0)))()
    example = jax.tree.map(lambda x: x[0, 0], games.pending)
    positions = Positions(
        example.board,
        example.to_play,
        example.last_action,
        example.policy_target,
        example.policy_weight,
        example.search_value,
    )
    estimate = estimate_memory(TINY, ONE, "cpu")
    assert counting.parameter_bytes(TINY.network, TINY.game) == allocated(params)
    assert estimate.learner == allocated(learner)
    assert estimate.replay == allocated(init_rings(TINY.replay.capacity, positions).items)
    assert estimate.games == allocated(games)


@pytest.mark.parametrize(
    "config",
    [
        TINY,
        tiny(learn={"optimizer": "sgd", "accumulation_steps": 2, "updates_per_iteration": 4}),
        tiny(learn={"optimizer": "adamw"}, network={"kind": "conv", "conv_channels": (4, 8)}),
        tiny(other_rules=("exact",), network={"planes": "rules"}, game={"height": 5}),
    ],
    ids=["plain", "accumulation", "conv", "rules"],
)
def test_other_runs_are_made_of_what_was_estimated(config):
    state = jax.eval_shape(lambda: init_training_state(config).replace(progress=None))
    estimate = estimate_memory(config, ONE, "cpu")
    assert estimate.learner == counting.nbytes(state.learner)
    assert estimate.replay == counting.nbytes(state.replay.items)
    assert estimate.games == counting.nbytes(state.selfplay)


@pytest.mark.parametrize(
    "search",
    [
        SearchConfig("gumbel", num_simulations=4, tactical_helper=True),
        SearchConfig("puct", num_simulations=3, reuse_tree=True),
    ],
    ids=["gumbel", "kept trees"],
)
def test_trees_take_what_was_estimated(search):
    evaluate = network_evaluator(GAME, TINY.network)
    params = jax.eval_shape(lambda: init_network(TINY.network, GAME, jax.random.key(0)))
    params = jax.tree.map(lambda x: jnp.zeros(x.shape), params)
    states = jax.vmap(lambda _: GAME.init())(jnp.arange(6))
    make = jax.jit(lambda p, s: init_tree(GAME, evaluate, p, jax.random.key(0), s, search))
    assert counting.tree_bytes(TINY.game, search, 6) == allocated(make(params, states))


def test_trees_of_pure_mcts_take_what_was_estimated():
    states = jax.vmap(lambda _: GAME.init())(jnp.arange(3))
    assert counting.playout_tree_bytes(TINY.game, 7, 3) == allocated(playout_tree(GAME, states, 7))


def test_bytes_counted_by_hand():
    estimate = estimate_memory(TINY, Layout(2, 2), "cpu")
    # Stem, two convolutions, policy (1x1, pooled, out), value (hidden, out), with biases.
    parameters = 36 * 8 + 8 + 2 * (72 * 8 + 8) + (8 * 8 + 8) + (16 * 8 + 8) + 8 + (16 * 8 + 8) + (8 + 1)
    assert counting.parameter_count(TINY.network, TINY.game) == parameters == 1825
    # Adam: two moments, two counters; the average; step and learning rate scale.
    assert estimate.learner == 4 * (4 * parameters + 2 + 2)
    # Board, side to move, last action, target, weight, value.
    position = 12 + 1 + 4 + 48 + 4 + 4
    assert counting.position_bytes(TINY.game) == position
    assert estimate.replay == 128 * position
    # A state: board and five scalars. A move: what a position has, played, terminated, winner.
    state, move = 12 + 1 + 4 + 4 + 1 + 1, position + 3
    assert estimate.games == 4 * (state + 12 * move)
    # A node: state, six numbers, three rows of A. A game: proved, Gumbel noise, nodes in use.
    tree = 5 * (state + 6 * 4 + 3 * 48) + 1 + 48 + 4
    assert estimate.tree == 4 * tree + 4 + 2 * 8  # and one counter and two keys for all
    assert estimate.window == 4 * (6 * move + 18 * (move + position))
    assert estimate.gradients == 2 * 4 * parameters
    # Two games of each device are the agent's to move, two the opponent's; a pair each.
    greedy = 5 * (state + 6 * 4 + 3 * 48) + 1 + 48 + 4
    playouts = 9 * (state + 4 + 48 + 4 + 4)
    assert estimate.evaluation == greedy + 4 + 2 * 8 + playouts
    assert estimate.total == estimate.learner + estimate.replay + estimate.games + max(
        estimate.tree + estimate.window + estimate.forward, estimate.gradients + estimate.backward
    )


def test_actors_and_learners_hold_different_things():
    apart = estimate_memory(TINY, Layout(1, 2, split=True), "cpu")
    both = estimate_memory(TINY, Layout(1, 1), "cpu")
    assert apart.playing == 4 * 1825 + both.games + both.selfplay
    assert apart.learning == both.learner + both.replay // 2 + max(apart.update, apart.evaluation)
    assert apart.total == max(apart.playing, apart.learning)
    assert apart.layout.devices == 3 and both.layout.devices == 1


def test_memory_grows_with_what_is_asked_for():
    base = estimate_memory(TINY, ONE, "cpu")
    for config, part in (
        (tiny(selfplay={"num_games": 16}), "games"),
        (tiny(search={"num_simulations": 8}), "tree"),
        (tiny(search={"algorithm": "puct"}), "tree"),
        (tiny(learn={"batch_size": 32}), "backward"),
        (tiny(network={"num_blocks": 2}), "backward"),
        (tiny(evaluation={"max_playouts": 16}), "evaluation"),
    ):
        assert getattr(estimate_memory(config, ONE, "cpu"), part) > getattr(base, part)
    deep = tiny(network={"num_blocks": 20})
    again = tiny(network={"num_blocks": 20, "remat": True})
    assert estimate_memory(again, ONE, "cpu").backward < 0.5 * estimate_memory(deep, ONE, "cpu").backward
    half = tiny(network={"dtype": "bfloat16"})
    assert estimate_memory(half, ONE, "gpu").backward < estimate_memory(TINY, ONE, "gpu").backward
    assert estimate_memory(half, ONE, "cpu").backward == base.backward  # computed in float32 there
    assert estimate_memory(tiny(evaluation={"every": 0}), ONE, "cpu").evaluation == 0


@pytest.mark.parametrize("remat", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_update_takes_about_the_memory_that_xla_plans(remat):
    network = NetworkConfig(channels=16, num_blocks=6, value_hidden=16, remat=remat)
    config = tiny(
        network=dataclasses.asdict(network), game={"height": 6, "width": 6}, learn={"batch_size": 64}
    )
    game, optimizer = Gomoku.from_config(config.game), learn.make_optimizer(config.learn, None)

    def state():
        return learn.init_train_state(init_network(network, game, jax.random.key(0)), optimizer)

    shapes = [((64, 6, 6, 4), jnp.float32), ((64, 36), bool), ((64, 36), jnp.float32)]
    shapes += [((64,), jnp.float32)] * 2
    batch = learn.Batch(*(jax.ShapeDtypeStruct(*shape) for shape in shapes))  # type: ignore[arg-type]
    step = functools.partial(
        learn.train_step,
        apply_fn=functools.partial(apply_network, network),
        optimizer=optimizer,
        config=config.learn,
    )
    compiled = (
        jax.jit(step, donate_argnums=0).lower(jax.eval_shape(state), batch, jax.random.key(0)).compile()
    )
    analysis = compiled.memory_analysis()
    assert analysis is not None
    estimate = estimate_memory(config, ONE, "cpu")
    assert 0.95 < estimate.update / analysis.temp_size_in_bytes < 1.3


@pytest.mark.slow
@pytest.mark.parametrize(
    "search",
    [{}, {"algorithm": "puct", "num_simulations": 64, "reuse_tree": True}],
    ids=["gumbel", "kept trees"],
)
def test_selfplay_takes_about_the_memory_that_xla_plans(search):
    config = dataclasses.replace(PRESETS["6x6x4"], search=dataclasses.replace(TINY.search, **search))
    mesh = data_mesh(1, devices=jax.devices()[:1])
    state = jax.eval_shape(lambda: init_training_state(config).replace(progress=None))
    programs = make_programs(config, mesh)
    lowered = programs.selfplay.lower(state.learner.params, state.selfplay, state.replay, state.key)
    planned = lowered.compile().memory_analysis().temp_size_in_bytes
    assert 0.95 < estimate_memory(config, ONE, "cpu").selfplay / planned < 1.6


# Work and speed


def test_work_counted_by_hand():
    # Two FLOPs a weight and point; pooled features and the value head are once a board.
    flops = 2 * 12 * (36 * 8 + 2 * 72 * 8 + 8 * 8 + 8) + 2 * (16 * 8 + 16 * 8 + 8)
    assert speed.flops_per_evaluation(TINY) == flops
    assert speed.flops_per_move(TINY) == (4 + 1) * flops
    assert speed.flops_per_update(TINY) == 3 * 16 * flops
    assert speed.flops_per_update(tiny(network={"remat": True})) == 4 * 16 * flops


def test_evaluations_of_a_move():
    capped = tiny(selfplay={"full_search_fraction": 0.25, "fast_simulations": 2})
    assert speed.simulations_per_move(capped) == 0.25 * 4 + 0.75 * 2
    assert speed.evaluations_per_move(capped) == 2.5 + 1
    more = tiny(selfplay={"draw": "prior", "surprise_weight": 0.5})
    assert speed.evaluations_per_move(more) == 4 + 1 + 2


@pytest.mark.parametrize(
    "network",
    [NetworkConfig(channels=32, num_blocks=2), NetworkConfig("conv", conv_channels=(16, 32))],
    ids=["resnet", "conv"],
)
def test_flops_are_those_of_the_compiled_network(network):
    height, width, batch = 9, 7, 4
    game = Gomoku(height, width, 5)
    config = dataclasses.replace(
        TINY, network=network, game=dataclasses.replace(TINY.game, height=9, width=7)
    )
    params = jax.eval_shape(lambda: init_network(network, game, jax.random.key(0)))
    observations = jax.ShapeDtypeStruct((batch, height, width, 4), jnp.float32)
    compiled = jax.jit(functools.partial(apply_network, network)).lower(params, observations).compile()
    counted = compiled.cost_analysis()["flops"]  # pyright: ignore[reportOptionalSubscript]
    # XLA leaves out the taps of a 3x3 kernel that lie outside the board.
    inside = (3 * height - 2) * (3 * width - 2) / (9 * height * width)
    convolutions = sum(
        2 * height * width * math.prod(layer["kernel"].shape)
        for layer in params.values()
        if layer["kernel"].ndim == 4
    )
    expected = speed.flops_per_evaluation(config) - (1 - inside) * convolutions
    assert 0.97 < batch * expected / counted < 1.0  # elementwise work and pooling are not counted here


# Round numbers: 1 FLOP/s, 1 byte/s, and no time for launches.
PLAIN = DeviceSpec(
    name="plain",
    platform="gpu",
    float32_flops=4.0,
    bfloat16_flops=8.0,
    memory_bytes=1000,
    memory_bandwidth=math.inf,
    interconnect_bandwidth=2.0,
    efficiency=(0.25, 0.5),
    update_efficiency=(0.5, 1.0),
    channel_tile=8,
)


def test_arithmetic_alone():
    flops = speed.flops_per_evaluation(TINY)
    for case, rate in ((CAUTIOUS, 1.0), (HOPEFUL, 2.0)):
        estimate = estimate_speed(TINY, ONE, PLAIN, case)
        assert estimate.selfplay_seconds == pytest.approx(6 * 8 * 5 * flops / rate)
        step = 3 * 16 * flops / (rate * PLAIN.update_efficiency[case])
        assert estimate.learn_seconds == pytest.approx(3 * step)
        assert estimate.updates_per_second == pytest.approx(1 / step)
        assert estimate.moves == 48 and estimate.bound == "compute"
        seconds = estimate.selfplay_seconds + estimate.learn_seconds
        assert estimate.positions_per_second == pytest.approx(48 / seconds)
    two = estimate_speed(TINY, Layout(2, 2), PLAIN, HOPEFUL)
    assert two.selfplay_seconds == pytest.approx(6 * 4 * 5 * flops / 2)
    # Ring of two: half of the gradient passes each way, twice.
    assert two.collectives.seconds == pytest.approx(3 * 2 * (4 * 1825 / 2 / 2.0))


def test_averaging_gradients():
    # Of 12 bytes a third passes a link in each of four steps, at 2 bytes a second.
    assert speed.collective_seconds(12, 5, 3, PLAIN) == 4 * (4 / 2)
    slow = dataclasses.replace(PLAIN, link_seconds=1.5)
    assert speed.collective_seconds(12, 5, 3, slow) == 4 * (4 / 2 + 1.5)
    each = dataclasses.replace(slow, one_exchange=False)
    assert speed.collective_seconds(12, 5, 3, each) == 4 * (4 / 2 + 5 * 1.5)
    assert speed.collective_seconds(12, 5, 1, each) == 0
    assert counting.parameter_arrays(TINY.network, TINY.game) == 2 * 7 + 1  # the policy's end has no bias


def test_half_filled_tiles_and_half_precision():
    rate = functools.partial(speed.reached_flops, spec=PLAIN, case=HOPEFUL)
    assert rate(NetworkConfig(channels=8), "float32") == 2.0
    assert rate(NetworkConfig(channels=12), "float32") == 2.0 * 12 / 16
    assert rate(NetworkConfig(channels=8), "bfloat16") == 4.0
    assert rate(NetworkConfig("conv", conv_channels=(4, 32)), "float32") == 2.0


def test_memory_traffic_alone():
    spec = dataclasses.replace(PLAIN, float32_flops=math.inf, memory_bandwidth=2.0)
    estimate = estimate_speed(TINY, ONE, spec, HOPEFUL)
    # Planes once, 9 boards a block and 8 for stem and heads, float32; the weights once for all games.
    evaluation = 4 * 1825 + 8 * (4 * 12 * 4 + 4 * 12 * 8 * (9 + 8))
    assert estimate.network.seconds == pytest.approx(6 * 5 * evaluation / 2)
    # Gumbel with 4 simulations goes one level down, 40 kernels beside 95; a row in, a row out.
    assert estimate.search.seconds == pytest.approx(6 * 4 * 8 * (95 + 40) * 2 * 48 / 2)
    assert estimate.bound == "memory"


def test_launches_alone():
    spec = dataclasses.replace(
        PLAIN, float32_flops=math.inf, kernel_seconds=(3.0, 1.0), loop_seconds=(20.0, 10.0)
    )
    estimate = estimate_speed(TINY, ONE, spec, HOPEFUL)
    assert estimate.network.seconds == 6 * 5 * (12 + 8)
    assert estimate.search.seconds == 6 * 4 * (95 + 40 + 18 + 2 * 10)
    assert estimate.bound == "latency"
    slow = estimate_speed(TINY, ONE, spec, CAUTIOUS)
    assert slow.search.seconds == 6 * 4 * (3 * (95 + 40 + 18) + 2 * 20)
    rules = tiny(other_rules=("exact",), network={"planes": "rules"})
    assert estimate_speed(rules, ONE, spec, HOPEFUL).search.seconds == 2 * estimate.search.seconds


def test_actors_and_learners_work_side_by_side():
    together = estimate_speed(TINY, Layout(1, 1), PLAIN, HOPEFUL)
    apart = estimate_speed(TINY, Layout(1, 1, split=True), PLAIN, HOPEFUL)
    longest = max(together.selfplay_seconds, together.learn_seconds)
    assert apart.iteration_seconds == pytest.approx(apart.host + longest)
    assert sum(apart.seconds_by_bound.values()) == pytest.approx(apart.iteration_seconds)
    assert sum(together.seconds_by_bound.values()) == pytest.approx(together.iteration_seconds)


def test_depth_of_a_search():
    assert speed.search_depth(SearchConfig("puct", num_simulations=512)) == 8
    assert speed.search_depth(SearchConfig("gumbel", num_simulations=512)) == 4
    assert speed.search_depth(SearchConfig("puct", num_simulations=512, max_depth=3)) == 3
    assert speed.search_depth(SearchConfig("gumbel", num_simulations=1)) == 1


# Devices and budgets


def test_devices_by_name():
    assert parse_devices("h200x8") == (DEVICES["h200"], 8)
    assert parse_devices("v5ex16") == (DEVICES["v5e"], 16)
    assert parse_devices("a100")[1] == 1
    for text in ("h300", "h200x0", "h200x", "8xh200", ""):
        with pytest.raises(ValueError, match="h100, h200, a100, v5e, v4"):
            parse_devices(text)
    assert known_device("NVIDIA H200") is DEVICES["h200"]
    assert known_device("cpu") is None
    for spec in DEVICES.values():
        assert 0 < spec.usable_memory <= spec.memory_bytes
        assert spec.float32_flops <= spec.bfloat16_flops == spec.peak_flops("bfloat16")
        assert spec.efficiency[CAUTIOUS] < spec.efficiency[HOPEFUL]
        assert spec.kernel_seconds[CAUTIOUS] > spec.kernel_seconds[HOPEFUL]


def test_memory_of_devices():
    def device(stats):
        return types.SimpleNamespace(memory_stats=lambda: stats)

    assert device_memory([device({"bytes_limit": 70}), device({"bytes_limit": 50})]) == 50
    free = device_memory([device(None)])
    assert free > 2**20
    assert 0.3 * free < device_memory([device(None), device({})]) < 0.7 * free  # they share it


def test_memory_of_a_container(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    1000 kB\n")
    assert available_memory(tmp_path) == 1000 * 1024
    write("sys/fs/cgroup/memory.max", "max\n")
    write("sys/fs/cgroup/memory.current", "5000\n")
    assert available_memory(tmp_path) == 1000 * 1024
    write("sys/fs/cgroup/memory.max", "700000\n")
    assert available_memory(tmp_path) == 695000
    write("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 2000\n")
    assert available_memory(tmp_path) == 697000
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "10000\n")
    assert available_memory(tmp_path) == 0
    assert available_memory(tmp_path / "elsewhere") > 2**20  # all there is, where nothing is told


def test_layouts_are_those_of_the_programs():
    mesh, actors = make_meshes(TINY, jax.devices()[:1])
    assert layout(TINY, 1) == Layout(actors.size, mesh.size, actors is not mesh) == ONE
    assert layout(TINY, 8) == Layout(8, 8)
    assert layout(TINY, 6) == Layout(4, 4)  # of 8 games and batches of 16
    assert layout(tiny(devices={"actors": 2}), 8) == Layout(2, 4, split=True)
    rules = tiny(other_rules=("exact",), network={"planes": "rules"})
    assert layout(rules, 8) == Layout(4, 4)
    with pytest.raises(ValueError, match=r"devices\.actors = 3: they cannot share 8 games"):
        layout(tiny(devices={"actors": 3}), 8)
    with pytest.raises(ValueError, match=r"devices\.actors = 2: fewer than the 2"):
        layout(tiny(devices={"actors": 2}), 2)


def unsized(**changes) -> TrainConfig:
    return tiny(replay={"capacity": 0, "min_size": 8}, **changes)


def test_the_buffer_fills_the_budget():
    where = Layout(2, 2)
    needed = estimate_memory(unsized(), where, "cpu").total
    config = size_replay(unsized(), where, needed + 73 * 50 + 72, "cpu")
    assert config.replay.capacity == 2 * 50  # two rings of 50 positions, 73 bytes each
    assert dataclasses.replace(config, replay=unsized().replay) == unsized()
    # No more than the run makes: 4 iterations of 8 games and 6 moves; with a clock, nobody knows.
    assert size_replay(unsized(), where, 2**40, "cpu").replay.capacity == 4 * 8 * 6
    assert size_replay(unsized(max_minutes=1.0), where, 2**40, "cpu").replay.capacity == 10_000_000
    assert size_replay(TINY, where, 1, "cpu") is TINY
    with pytest.raises(MemoryBudgetError, match="4 positions of 73 bytes") as error:
        size_replay(unsized(), where, needed, "cpu")
    assert "replay buffer" in str(error.value)


def test_a_run_that_does_not_fit_is_told_what_would():
    budget = int(3e9)
    where = layout(BIG, 1)
    assert check_memory(BIG, where, 2**40, "gpu") == estimate_memory(BIG, where, "gpu")
    with pytest.raises(MemoryBudgetError) as error:
        check_memory(BIG, where, budget, "gpu")
    message = str(error.value)
    assert "3.78 GiB on the device, which may use 2.79 GiB" in message
    assert "1,000,000 positions of 1,138 bytes" in message
    ways = dict(changes_that_fit(BIG, where, budget, "gpu"))
    assert {"replay.capacity", "learn.batch_size", "network.remat"} <= set(ways)
    for name, value in ways.items():
        assert f"{name} = {value}" in message
        part, field = name.split(".")

        def total(value, part=part, field=field):
            changed = dataclasses.replace(getattr(BIG, part), **{field: value})
            return estimate_memory(dataclasses.replace(BIG, **{part: changed}), where, "gpu").total

        assert total(value) <= budget
        if value is not True:
            assert total(value + 1) > budget


def test_two_changes_where_one_is_not_enough():
    with pytest.raises(
        MemoryBudgetError, match=r"fit with [\w.]+ = \w+ and one of these:\n  \w+\.\w+ = "
    ) as error:
        check_memory(BIG, ONE, int(1.9e9), "gpu")
    assert "on the device" in str(error.value)
    with pytest.raises(MemoryBudgetError, match="no two fields make it fit"):
        check_memory(BIG, Layout(2, 2), 1000, "gpu")


def test_measured_devices_have_plausible_numbers():
    mesh = data_mesh(1, devices=jax.devices()[:1])
    spec = measure_device(TINY, mesh, games=8, memory_bytes=123)
    assert spec.memory_bytes == 123 and spec.platform == "cpu" and "measured" in spec.name
    assert 1e7 < spec.float32_flops < 1e13
    assert 1e7 < spec.memory_bandwidth < 1e13
    assert 1e-9 <= spec.loop_seconds[0] < 1e-3 and 1e-9 <= spec.kernel_seconds[0] < 1e-3
    assert np.isfinite(estimate_speed(TINY, ONE, spec, CAUTIOUS).positions_per_second)


# The script


def test_a_dry_run_prints_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert train_script.main(["--preset", "15x15x5", "--dry-run-on", "h200x8"]) == 0
    shown = capsys.readouterr().out
    for part in ("8 x h200", "2,580,225", "FLOPs a position", "125,000 positions", "positions/s", "fits"):
        assert part in shown
    assert train_script.main(["--preset", "15x15x5", "--dry-run-on", "v5e", "--memory-gb", "1"]) == 2
    captured = capsys.readouterr()
    assert "DOES NOT FIT" in captured.out and captured.err.startswith("error: the run does not fit")
    assert train_script.main(["--dry-run-on", "abacus"]) == 2
    assert "'abacus'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_does_not_fit_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    argv = ["--preset", "tictactoe", "--workdir", "run", "--no-compilation-cache"]
    assert train_script.main([*argv, "--memory-gb", "0.001"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the run does not fit") and "--memory-gb" in error
    assert train_script.main([*argv, "--memory-gb", "-1"]) == 2
    assert "--memory-gb -1.0: more than 0" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
