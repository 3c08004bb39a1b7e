"""One mesh with one axis, `data`, over all devices of all processes; one device takes the same path.

Self-play and matches run in `shard_map`, each device on its own games, without a word to the others. The
replay buffer is a ring a device (`replay_rings`). The update is a global-view `jit` whose batch is split, so
that XLA averages the gradients; parameters are whole on every device.

On a CPU, XLA runs the small convolutions of these networks on one core whatever their batch, so one virtual
device a core is what uses them all: `use_cpu_cores`.
"""

import contextlib
import functools
import math
import os
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from gomoku_jax.system import num_cores

DATA = "data"
_LEAST_GAMES = 64  # a device: below, its fixed costs eat what it adds


def use_cpu_cores(num_games: int) -> None:
    """Makes the CPU show one device a core, as many as can share `num_games`. For scripts, before JAX starts.

    Does nothing afterwards, or where JAX's configuration or XLA_FLAGS already say how many devices the CPU
    has; accelerators are not touched.
    """
    said = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if said or jax.config.jax_num_cpu_devices > 0:  # pyright: ignore[reportAttributeAccessIssue]
        return
    use_cpu_devices(max(1, min(num_cores(), num_games // _LEAST_GAMES)))


def use_cpu_devices(count: int) -> None:
    """Makes the CPU show `count` devices. For scripts, before JAX starts; does nothing afterwards."""
    with contextlib.suppress(RuntimeError):  # JAX has started: its devices stay as they are
        jax.config.update("jax_num_cpu_devices", count)


def num_devices(available: int, *sizes: int) -> int:
    """The most devices, of those available, that divide all the sizes."""
    divisor = math.gcd(*sizes)
    return max(n for n in range(1, available + 1) if divisor % n == 0)


def local_devices(devices: list | None = None, most: int | None = None) -> list[list]:
    """The devices of each process, equally many: those of the first `most`, or as many as each has.

    Raises:
        ValueError: `most` is below 1, or more than some process has.
    """
    devices = jax.devices() if devices is None else devices
    by_process: dict[int, list] = {}
    for device in devices:
        by_process.setdefault(device.process_index, []).append(device)
    each = min(len(own) for own in by_process.values())
    if most is not None and not 1 <= most <= each:
        raise ValueError(f"devices = {most}: from 1 to {each}, which is what each process has")
    return [own[: most or each] for _, own in sorted(by_process.items())]


def data_mesh(*sizes: int, devices: list | None = None) -> Mesh:
    """A mesh of as many devices as divide all the sizes (games, batches); all devices if they do.

    Args:
        sizes: what is split over the devices.
        devices: to choose from; all by default. Every process gives equally many.

    Raises:
        ValueError: the processes cannot share one of the sizes evenly.
    """
    own = local_devices(devices)
    for size in sizes:
        if size % len(own) != 0:
            raise ValueError(f"{len(own)} processes cannot share {size} games or positions evenly")
    count = num_devices(len(own[0]), *(size // len(own) for size in sizes))
    return mesh_of([device for part in own for device in part[:count]])


def mesh_of(devices: list) -> Mesh:
    """A mesh of just these devices."""
    # Auto axes: mctx fails under the Explicit ones that are the default.
    return Mesh(np.asarray(devices), (DATA,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def split_axis(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """One axis of the array split over the devices."""
    return NamedSharding(mesh, split_spec(axis))


def split_spec(axis: int = 0) -> PartitionSpec:
    """The partition of `split_axis`, for `shard_map`."""
    return PartitionSpec(*[None] * axis, DATA)


def put(tree: Any, sharding: Any) -> Any:
    """Arrays placed where the sharding wants them; copies, so that they may be donated.

    Args:
        tree: arrays that every process has whole (NumPy's, a local device's), or that lie as they should.
        sharding: one for all, or a prefix tree of them.
    """

    def place(x: Any, where: NamedSharding) -> jax.Array:
        if isinstance(x, jax.Array) and (x.sharding == where or not x.is_fully_addressable):
            return x if x.sharding == where else jax.device_put(x, where)
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(place(jax.random.key_data(x), where))
        if jax.process_count() == 1 and isinstance(x, jax.Array):
            return jax.device_put(x, where)
        whole = np.asarray(x)
        return jax.make_array_from_callback(whole.shape, where, lambda index: np.array(whole[index]))

    return jax.tree.map(lambda where, part: jax.tree.map(lambda x: place(x, where), part), sharding, tree)


def fetch(tree: Any, mesh: Mesh) -> Any:
    """NumPy copies of arrays whose parts lie on the mesh, also on other processes' devices.

    With several processes all must call it: it is a collective.
    """
    if jax.process_count() > 1:
        tree = _copier(replicated(mesh))(tree)
    return jax.device_get(tree)


@functools.cache
def _copier(sharding: NamedSharding) -> Any:
    """One program a mesh: `jax.jit` of a fresh lambda would compile at every call."""
    return jax.jit(lambda tree: tree, out_shardings=sharding)


def all_processes(values: Any) -> np.ndarray:
    """[P, ...]: what each process has for `values`, an array or number; the same on all. A collective."""
    values = np.asarray(values)
    return values[None] if jax.process_count() == 1 else multihost_utils.process_allgather(values)
