"""What devices that are in no table can do, measured: about a second of work, and its compilation.

All devices work at once, as in a run: virtual devices of one CPU share its cores and its memory. The peak is
that of the run's own network, cut to two blocks, on as many positions as a device has games: on a CPU that,
not the best matrix product, is what the rest of the arithmetic should start from.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from gomoku_jax.config import TrainConfig
from gomoku_jax.estimate.hardware import DeviceSpec, known_device
from gomoku_jax.game import NUM_PLANES, Gomoku
from gomoku_jax.inference import apply_prepared, prepare
from gomoku_jax.network import flops_per_position, init_network

_SECONDS = 0.25  # of each measurement
_CHAIN = 8  # dependent small products in one round of a loop


def this_device(config: TrainConfig, mesh: Mesh, games: int, memory_bytes: int) -> DeviceSpec:
    """The data sheet of the devices of a mesh, or what `measure_device` finds."""
    known = known_device(mesh.devices.flat[0].device_kind)
    return measure_device(config, mesh, games, memory_bytes) if known is None else known


def measure_device(config: TrainConfig, mesh: Mesh, games: int, memory_bytes: int) -> DeviceSpec:
    """What each device of a mesh does while all of them work.

    Args:
        config: the run whose network is measured.
        mesh: the devices.
        games: that each of them plays.
        memory_bytes: of each; see `device_memory`.
    """
    device = mesh.devices.flat[0]
    flops = network_rate(config, mesh, games)
    board = games * config.game.height * config.game.width
    bandwidth = copy_rate(mesh, 4 * board * config.network.channels)
    loop, kernel = small_work_seconds(mesh)
    return DeviceSpec(
        name=f"{device.device_kind}, measured",
        platform="cpu" if device.platform == "cpu" else "gpu",
        float32_flops=flops,
        bfloat16_flops=flops,
        memory_bytes=memory_bytes,
        memory_bandwidth=bandwidth,
        interconnect_bandwidth=bandwidth,
        # The whole tower does about as well as the measured part of it. Gradients reach 0.55 of its rate on
        # the CPU (docs/performance.md, a training iteration).
        efficiency=(0.85, 1.0),
        update_efficiency=(0.45, 0.7),
        link_seconds=exchange_seconds(mesh) / max(2 * (mesh.size - 1), 1),
        one_exchange=False,
        kernel_seconds=(kernel, kernel),
        loop_seconds=(loop, loop),
    )


def network_rate(config: TrainConfig, mesh: Mesh, batch: int) -> float:
    """FLOP/s of each device in the network as search runs it."""
    network = config.network
    if network.kind == "resnet":
        network = dataclasses.replace(network, num_blocks=min(network.num_blocks, 2), remat=False)
    game = Gomoku.from_config(config.game)
    shapes = jax.eval_shape(lambda: init_network(network, game, jax.random.key(0)))
    params = jax.tree.map(lambda x: jnp.full(x.shape, 0.01, x.dtype), shapes)

    def round_of(params: Any, x: jax.Array) -> jax.Array:
        output = apply_prepared(network, prepare(network, params), x)
        # Needs the whole output, and changes nothing.
        far = (output.value > 2) | (output.policy_logits.max(-1) > 1e30)
        return jnp.where(far[:, None, None, None], 0.0, x)

    observations = jnp.full((batch, *game.shape, NUM_PLANES[network.planes]), 0.5, jnp.float32)
    seconds = _seconds_a_round(mesh, round_of, params, observations)
    return batch * flops_per_position(network, game) / seconds


def copy_rate(mesh: Mesh, size: int) -> float:
    """Bytes/s that each device reads and writes in an array of so many bytes."""
    x = jnp.zeros(max(size // 4, 1024), jnp.float32)
    seconds = _seconds_a_round(mesh, lambda step, x: x + step, jnp.float32(1), x)
    return 2 * x.nbytes / seconds


def small_work_seconds(mesh: Mesh) -> tuple[float, float]:
    """Seconds of one round of a loop that does next to nothing, and of one small kernel within it."""

    def chain(length: int) -> float:
        def round_of(w: jax.Array, x: jax.Array) -> jax.Array:
            for _ in range(length):
                x = x @ w
            return x

        return _seconds_a_round(mesh, round_of, jnp.eye(8), jnp.ones((8, 8)))

    short, long = chain(1), chain(1 + _CHAIN)
    kernel = max((long - short) / _CHAIN, 1e-9)
    return max(short - kernel, 1e-9), kernel


def exchange_seconds(mesh: Mesh) -> float:
    """Seconds of averaging one number over the mesh."""

    def round_of(step: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.pmean(x, mesh.axis_names[0]) + step

    return _seconds_a_round(mesh, round_of, jnp.float32(1), jnp.zeros(1))


def _seconds_a_round(
    mesh: Mesh, round_of: Callable[[Any, jax.Array], jax.Array], constant: Any, x: jax.Array
) -> float:
    """Wall seconds of `x = round_of(constant, x)` on every device at once, in a loop."""
    whole = PartitionSpec()

    @jax.jit
    def program(count: jax.Array, constant: Any, x: jax.Array) -> jax.Array:
        def share(count, constant, x):
            end = jax.lax.fori_loop(0, count, lambda _, x: round_of(constant, x), x)
            return end.ravel()[:1]

        return jax.shard_map(
            share,
            mesh=mesh,
            in_specs=(whole, whole, whole),
            out_specs=PartitionSpec(mesh.axis_names[0]),
            check_vma=False,
        )(count, constant, x)

    def wall(count: int) -> float:
        started = time.perf_counter()
        jax.block_until_ready(program(jnp.int32(count), constant, x))
        return time.perf_counter() - started

    wall(1)  # compiles
    count = 1
    while (seconds := wall(count)) < _SECONDS / 2:
        count *= max(2, min(16, int(_SECONDS / max(seconds, 1e-6))))
    return seconds / count
