"""The forward pass of search against `apply_network`, which test_network.py checks against NumPy."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_network import drawn, positions, shapes_of
from tiny import tiny

import gomoku_jax as gj
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.config import NetworkConfig, SearchConfig, from_dict, to_dict
from gomoku_jax.game import Gomoku
from gomoku_jax.inference import Prepared, apply_in_chains, apply_prepared, chains_pay, prepare
from gomoku_jax.network import NetworkOutput, apply_network
from gomoku_jax.programs import make_programs

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCHES = (1, 7, 32, 64)


def resnet(channels: int, num_blocks: int, **kwargs) -> NetworkConfig:
    return NetworkConfig("resnet", channels, num_blocks, value_hidden=16, **kwargs)


def conv(*channels: int, **kwargs) -> NetworkConfig:
    return NetworkConfig("conv", conv_channels=channels, value_hidden=16, **kwargs)


# In each, some of `BATCHES` are as large as one of the channels, or in some the resnet's chains pay.
CASES = {
    "resnet-7x1-3x5": (resnet(7, 1), (3, 5)),
    "resnet-32x2-stones-7x4": (resnet(32, 2, planes="stones"), (7, 4)),
    "resnet-48x3-4x11": (resnet(48, 3), (4, 11)),
    "resnet-64x4-6x6": (resnet(64, 4), (6, 6)),
    "conv-7-stones-8x3": (conv(7, planes="stones"), (8, 3)),
    "conv-64,7-5x6": (conv(64, 7), (5, 6)),
    "conv-32,64,128-6x6": (conv(32, 64, 128), (6, 6)),
}

run = {
    function: jax.jit(function, static_argnums=0)
    for function in (apply_network, apply_prepared, apply_in_chains, prepare)
}


@pytest.fixture(autouse=True)
def _one_device(monkeypatch):
    """However many devices XLA_FLAGS asked for."""
    monkeypatch.setattr(jax, "local_device_count", lambda: 1)


@functools.cache
def example(name: str) -> tuple[NetworkConfig, Any, jax.Array, NetworkOutput]:
    """A case's config, parameters without a zero, 64 positions, and what the plain network says of them."""
    config, board = CASES[name]
    game = Gomoku(*board, 3)
    params = drawn(config, game, seed=2)  # whose values are spread out
    assert all((np.asarray(leaf) != 0).all() for leaf in jax.tree.leaves(params))
    observations = positions(game, max(BATCHES), config.planes)
    output = run[apply_network](config, params, observations)
    assert np.std(output.policy_logits) > 0.1 and np.std(output.value) > 0.02
    return config, params, observations, output


def check_equal(output: NetworkOutput, expected: NetworkOutput, batch: int) -> None:
    for mine, theirs in zip(output, expected, strict=True):
        assert mine.shape == (batch, *theirs.shape[1:]) and mine.dtype == jnp.float32
        np.testing.assert_allclose(mine, theirs[:batch], rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", CASES)
def test_prepared_and_in_chains_equal_the_plain_network(name, batch):
    config, params, observations, expected = example(name)
    prepared = prepare(config, params)
    check_equal(run[apply_in_chains](config, prepared, observations[:batch]), expected, batch)
    check_equal(run[apply_prepared](config, prepared, observations[:batch]), expected, batch)


def test_parameters_of_one_board_fit_another():
    config, params, *_ = example("resnet-32x2-stones-7x4")
    observations = positions(Gomoku(3, 9, 3), 7, "stones")
    expected = run[apply_network](config, params, observations)
    check_equal(run[apply_in_chains](config, prepare(config, params), observations), expected, 7)


def lowered(config: NetworkConfig, batch: int, platform: str, function=apply_prepared) -> str:
    """The program for a platform, which need not be here."""
    game = Gomoku(6, 6, 4)
    prepared = jax.eval_shape(functools.partial(prepare, config), shapes_of(config, game))
    planes = 4 if config.planes == "all" else 2
    observations = jax.ShapeDtypeStruct((batch, 6, 6, planes), jnp.float32)
    traced = jax.jit(function, static_argnums=0).trace(config, prepared, observations)
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(
    "config, batch, chains",
    [
        (resnet(64, 4), 64, 7),  # before each block, inside each second one, and at the end
        (resnet(64, 4), 1, 0),
        (conv(32, 64), 1, 1),
    ],
)
def test_chains_are_for_the_cpu_where_they_pay(config, batch, chains):
    assert lowered(config, batch, "cpu").count("optimization_barrier") == chains
    assert "optimization_barrier" not in lowered(config, batch, "cuda")


@pytest.mark.parametrize("config", [resnet(8, 1), conv(5, 8)], ids=["resnet", "conv"])
@pytest.mark.parametrize("batch, padded", [(8, 9), (7, 7), (9, 9)])
def test_a_row_is_padded_where_the_batch_is_a_channel_count(config, batch, padded):
    text = lowered(config, batch, "cpu", apply_in_chains)
    rows = re.findall(r"stablehlo\.convolution.*\(tensor<(\d+)x6x6x\d+xf32>, tensor<3x3x", text)
    assert set(rows) == {str(padded)}


def pays(config: NetworkConfig, batch: int, height: int, width: int) -> bool:
    return chains_pay(config, (batch, height, width, 4))


def test_chains_pay_by_size():
    # A layer of 32 channels on 6x6 is 18 * 32**2 * 36 = 663552 operations a row, 61 of which make 4e7.
    assert not pays(resnet(32, 3), 60, 6, 6) and pays(resnet(32, 3), 61, 6, 6)
    assert not pays(resnet(32, 3), 60, 4, 9) and pays(resnet(32, 3), 61, 4, 9)
    # Of 64 on 9x9, 5971968: 7 rows.
    assert not pays(resnet(64, 1), 6, 9, 9) and pays(resnet(64, 1), 7, 9, 9)
    # Few rows need many channels, whatever the work.
    assert not pays(resnet(47, 3), 31, 26, 26) and pays(resnet(47, 3), 32, 26, 26)
    assert pays(resnet(48, 3), 31, 26, 26)
    # And very many channels are spread anyway.
    assert pays(resnet(95, 3), 256, 15, 15) and not pays(resnet(96, 3), 256, 15, 15)
    assert pays(conv(1), 1, 3, 3) and pays(conv(128), 512, 26, 26)


def test_chains_do_not_pay_on_several_devices(monkeypatch):
    monkeypatch.setattr(jax, "local_device_count", lambda: 2)
    assert not pays(resnet(64, 3), 64, 9, 9) and not pays(conv(32, 64), 64, 9, 9)


TWO_DEVICES = """
import json, sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
sys.path.insert(0, "tests")
import jax.numpy as jnp
from gomoku_jax.config import NetworkConfig
from gomoku_jax.inference import apply_prepared, chains_pay, prepare
from gomoku_jax.network import apply_network
from gomoku_jax.game import Gomoku
from test_network import drawn
assert jax.local_device_count() == 2
config, game = NetworkConfig("conv", conv_channels=(4,), value_hidden=4), Gomoku(3, 4, 3)
params, observations = drawn(config, game), jnp.ones((3, 3, 4, 4))
prepared = prepare(config, params)
program = jax.jit(apply_prepared, static_argnums=0).lower(config, prepared, observations)
output = program.compile()(prepared, observations)
expected = jax.jit(apply_network, static_argnums=0)(config, params, observations)
print(json.dumps({
    "pay": chains_pay(config, observations.shape),
    "barriers": program.as_text().count("optimization_barrier"),
    "error": max(float(jnp.abs(a - b).max()) for a, b in zip(output, expected)),
}))
"""


def test_two_real_devices_take_the_plain_path():
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", TWO_DEVICES]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout)
    assert not report["pay"] and report["barriers"] == 0 and report["error"] < 1e-6


# The type of the computation.


@pytest.mark.parametrize("batch", [7, 64])  # on a CPU, the resnets' plain path and their chains
@pytest.mark.parametrize(
    "name", ["resnet-64x4-6x6", "resnet-48x3-4x11", "conv-64,7-5x6", "conv-32,64,128-6x6"]
)
def test_bfloat16_is_close_to_float32(name, batch):
    config, params, observations, exact = example(name)
    assert chains_pay(config, observations[:batch].shape) == (batch == 64 or config.kind == "conv")
    half = dataclasses.replace(config, inference_dtype="bfloat16")
    prepared = prepare(half, params)
    assert {leaf.dtype for leaf in jax.tree.leaves(prepared)} == {jnp.dtype("bfloat16")}
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    rounded = run[apply_prepared](half, prepared, observations[:batch])
    assert rounded.policy_logits.dtype == rounded.value.dtype == jnp.float32
    assert rounded.value.shape == (batch,)
    legal = (np.asarray(observations[..., :2]).sum(-1) == 0).reshape(64, -1)[:batch]

    def policy(logits: jax.Array) -> np.ndarray:
        return np.asarray(jax.nn.softmax(jnp.where(legal, logits, -1e30)), np.float64)

    difference = policy(exact.policy_logits[:batch]) - policy(rounded.policy_logits)
    variation = np.abs(difference).sum(-1).max() / 2
    error = np.abs(np.asarray(exact.value[:batch] - rounded.value)).max()
    # Four times the most that was measured over these networks, 0.0029 and 0.0061.
    assert 0 < variation < 0.012 and 0 < error < 0.025


@pytest.mark.parametrize(
    "dtype, inference_dtype, expected",
    [
        ("float32", None, "float32"),
        ("float32", "bfloat16", "bfloat16"),
        ("bfloat16", None, "bfloat16"),
        ("bfloat16", "float32", "float32"),
    ],
)
@pytest.mark.parametrize("kind", ["resnet", "conv"])
def test_inference_computes_in_its_own_type(kind, dtype, inference_dtype, expected):
    config = NetworkConfig(
        kind, 64, 1, conv_channels=(4,), value_hidden=8, dtype=dtype, inference_dtype=inference_dtype
    )
    prepared = jax.eval_shape(functools.partial(prepare, config), shapes_of(config, Gomoku(6, 6, 4)))
    assert {leaf.dtype for leaf in jax.tree.leaves(prepared)} == {jnp.dtype(expected)}
    short = {"float32": "xf32>", "bfloat16": "xbf16>"}[expected]
    for platform, batch in (("cpu", 64), ("cpu", 1), ("cuda", 64)):
        text = lowered(config, batch, platform)
        convolutions = [line for line in text.splitlines() if "stablehlo.convolution" in line]
        assert len(convolutions) == (3 if kind == "resnet" else 1)
        assert all(line.rsplit("->")[-1].strip().endswith(short) for line in convolutions)


def test_bfloat16_of_training_does_not_reach_float32_inference():
    """Equal to the network in float32, number for number: nothing was rounded on the way."""
    config, params, observations, _ = example("resnet-64x4-6x6")
    trained_in_half = dataclasses.replace(config, dtype="bfloat16", inference_dtype="float32")
    chex.assert_trees_all_equal(
        run[apply_prepared](trained_in_half, prepare(trained_in_half, params), observations),
        run[apply_prepared](config, prepare(config, params), observations),
    )


@pytest.mark.parametrize("value", ["float16", "", "int8", 32])
def test_a_wrong_inference_type_is_named(value: Any):
    with pytest.raises(ValueError, match=rf"network\.inference_dtype = {value!r}: .*float32, bfloat16"):
        NetworkConfig(inference_dtype=value)


def test_inference_type_is_stored_and_old_files_lack_it():
    config = NetworkConfig(inference_dtype="bfloat16")
    values = to_dict(config)
    assert from_dict(NetworkConfig, values) == config and values["inference_dtype"] == "bfloat16"
    del values["inference_dtype"]
    assert from_dict(NetworkConfig, values) == NetworkConfig() and NetworkConfig().inference_dtype is None


# What is prepared, and when.


def test_prepared_parameters_are_the_parameters():
    config, params, *_ = example("conv-64,7-5x6")
    prepared = prepare(config, params)
    chex.assert_trees_all_equal(prepared.params, params)
    assert prepared.ones.tolist() == [1.0, 1.0] and prepared.ones.dtype == jnp.float32
    half = prepare(dataclasses.replace(config, inference_dtype="bfloat16"), params)
    expected = jax.tree.map(lambda x: np.asarray(x).astype(jnp.bfloat16), params)
    chex.assert_trees_all_equal(half.params, expected)


def test_new_parameters_compile_nothing():
    compiled = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    game, observations = Gomoku(3, 4, 3), np.ones((5, 3, 4, 4), np.float32)
    configs = [resnet(5, 2, inference_dtype="bfloat16") for _ in range(2)]  # equal, but not the same
    updates = [jax.device_get(drawn(configs[0], game, seed=seed)) for seed in range(3)]
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        first = run[prepare](configs[0], updates[0])
        assert len(compiled) == 1
        outputs = [run[apply_prepared](configs[0], first, observations)]
        assert len(compiled) == 2
        for params in updates[1:]:
            outputs.append(run[apply_prepared](configs[1], run[prepare](configs[1], params), observations))
        assert len(compiled) == 2
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len({float(output.value[0]) for output in outputs}) == 3


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(resnet(48, 1), id="48", marks=pytest.mark.slow),
        pytest.param(conv(8, inference_dtype="bfloat16"), id="conv"),
    ],
)
def test_search_prepares_what_is_not_prepared(config):
    game = Gomoku(6, 6, 4)
    assert pays(config, 32, 6, 6)
    params = drawn(config, game)
    search_config = SearchConfig("gumbel", num_simulations=6, max_considered_actions=4)
    states = jax.vmap(lambda action: game.step(game.init(), action))(jnp.arange(32))

    @jax.jit
    def search(params):
        return gj.search(game, config, params, jax.random.key(3), states, search_config)

    chex.assert_trees_all_equal(search(run[prepare](config, params)), search(params))


def test_selfplay_infers_in_its_type_and_updates_do_not():
    config = tiny(network={"inference_dtype": "bfloat16"})
    programs = make_programs(config)
    state = jax.eval_shape(lambda: init_training_state(config))
    assert {leaf.dtype for leaf in jax.tree.leaves(state.learner.params)} == {jnp.dtype("float32")}
    selfplay = programs.selfplay.lower(state.learner.params, state.selfplay, state.replay, state.key)
    update = programs.update.lower(state.learner, state.replay, state.key)
    found = {
        name: {
            line.rsplit("->")[-1].strip().split("x")[-1]
            for line in program.as_text().splitlines()
            if "stablehlo.convolution" in line
        }
        for name, program in (("selfplay", selfplay), ("update", update))
    }
    assert found == {"selfplay": {"bf16>"}, "update": {"f32>"}}
    learner, _ = jax.eval_shape(programs.update, state.learner, state.replay, state.key)
    assert {leaf.dtype for leaf in jax.tree.leaves(learner.params)} == {jnp.dtype("float32")}
    assert isinstance(jax.eval_shape(functools.partial(prepare, config.network), learner.params), Prepared)
