"""Estimates of memory and speed for the scripts: of the devices that are here, or of others by name."""

import jax
from rich.console import Console
from rich.table import Table

from gomoku_jax.config import TrainConfig
from gomoku_jax.estimate import (
    Estimate,
    Layout,
    MemoryEstimate,
    Platform,
    check_memory,
    device_memory,
    estimate_run,
    estimate_sections,
    layout,
    parse_devices,
    size_replay,
    this_device,
)
from gomoku_jax.programs import make_meshes
from gomoku_jax.sharding import all_processes, local_devices, mesh_of


def budget_here(memory_gb: float | None) -> int:
    """Bytes that each device of all processes may use: so many 10^9, or what the one with the least has."""
    if memory_gb is None:
        # In 1,024ths of a MiB, which float32 holds: numbers that travel between processes have 32 bits.
        return int(all_processes(device_memory() / 2**20).min() * 2**20)
    if not memory_gb > 0:
        raise ValueError(f"--memory-gb {memory_gb}: more than 0")
    return int(memory_gb * 1e9)


def platform_here() -> Platform:
    """What JAX computes on: "cpu", "tpu", or "gpu" for all else."""
    name = jax.default_backend()
    return "cpu" if name == "cpu" else "tpu" if name == "tpu" else "gpu"


def layout_here(config: TrainConfig, most: int | None = None) -> Layout:
    """How the devices share a run, as `train` will; `most` of each process."""
    mesh, actors = make_meshes(config, [device for own in local_devices(most=most) for device in own])
    return Layout(actors.size, mesh.size, actors is not mesh)


def fitted(
    config: TrainConfig, memory_gb: float | None, most: int | None = None
) -> tuple[TrainConfig, MemoryEstimate, int]:
    """A config with a buffer that fits, where it leaves that open; what it takes, and the budget, a device.

    Raises:
        MemoryBudgetError: it does not fit.
    """
    where, budget, platform = layout_here(config, most), budget_here(memory_gb), platform_here()
    config = size_replay(config, where, budget, platform)
    return config, check_memory(config, where, budget, platform), budget


def estimate_here(config: TrainConfig, memory_gb: float | None, most: int | None = None) -> Estimate:
    """Of a run on the devices that are here; measures those that are in no table, which takes seconds."""
    where, budget = layout_here(config, most), budget_here(memory_gb)
    config = size_replay(config, where, budget, platform_here())
    mesh = mesh_of([device for own in local_devices(most=most) for device in own][: where.devices])
    games = config.selfplay.num_games // where.actors
    return estimate_run(config, where, this_device(config, mesh, games, budget), budget)


def estimate_on(config: TrainConfig, devices: str, memory_gb: float | None) -> Estimate:
    """Of a run on devices by name, such as "h200x8"."""
    spec, count = parse_devices(devices)
    where = layout(config, count)
    budget = spec.usable_memory if memory_gb is None else int(memory_gb * 1e9)
    return estimate_run(size_replay(config, where, budget, spec.platform), where, spec, budget)


def show_estimate(estimate: Estimate) -> None:
    """Prints it."""
    console = Console()
    console = console if console.is_terminal else Console(width=110)
    for title, rows in estimate_sections(estimate):
        table = Table(title=title, show_header=False, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
