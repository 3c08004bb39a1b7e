"""One mesh with one axis, `data`, over all devices; one device takes the same path.

Self-play and matches run in `shard_map`, each device on its own games, without a word to the others; the
update is a global-view `jit` whose batch is split, so that XLA averages the gradients.

On a CPU, XLA runs the small convolutions of these networks on one core whatever their batch, so one virtual
device a core is what uses them all: `use_cpu_cores`.
"""

import contextlib
import math
import os

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

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
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(RuntimeError):  # JAX has started: its devices stay as they are
        jax.config.update("jax_num_cpu_devices", max(1, min(cores, num_games // _LEAST_GAMES)))


def num_devices(available: int, *sizes: int) -> int:
    """The most devices, of those available, that divide all the sizes."""
    divisor = math.gcd(*sizes)
    return max(n for n in range(1, available + 1) if divisor % n == 0)


def data_mesh(*sizes: int, devices: list | None = None) -> Mesh:
    """A mesh of as many devices as divide all the sizes (games, batches); all devices if they do.

    Args:
        sizes: what is split over the devices.
        devices: to choose from; all by default.
    """
    devices = jax.devices() if devices is None else devices
    count = num_devices(len(devices), *sizes)
    # Auto axes: mctx fails under the Explicit ones that are the default.
    return Mesh(np.asarray(devices[:count]), (DATA,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def split_axis(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """One axis of the array split over the devices."""
    return NamedSharding(mesh, split_spec(axis))


def split_spec(axis: int = 0) -> PartitionSpec:
    """The partition of `split_axis`, for `shard_map`."""
    return PartitionSpec(*[None] * axis, DATA)
