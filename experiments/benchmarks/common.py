"""Timing side by side, boards by name, tables."""

import dataclasses
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from gomoku_jax.config import NetworkConfig, TrainConfig
from gomoku_jax.game import Gomoku, State, random_opening
from gomoku_jax.network import NetworkOutput
from gomoku_jax.presets import DEFAULT_PRESET, PRESETS
from gomoku_jax.sharding import use_cpu_cores


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """What every measurement takes."""

    json: pathlib.Path | None = None
    """Append the rows to this file as JSON lines, with versions, commit and hardware."""


def on_accelerator() -> bool:
    """Whether JAX computes on something else than the CPU."""
    return jax.default_backend() != "cpu"


def chosen_preset(name: str | None) -> tuple[str, TrainConfig]:
    """A preset by name, by default the one for the platform, with the CPU's cores as devices for it.

    Raises ValueError with the choices; call before JAX starts.
    """
    if name is not None and name not in PRESETS:
        raise ValueError(f"--preset {name!r}: choose one of {', '.join(PRESETS)}")
    use_cpu_cores(PRESETS[name or DEFAULT_PRESET].selfplay.num_games)
    name = name or ("15x15x5" if on_accelerator() else DEFAULT_PRESET)
    return name, PRESETS[name]


def seconds_of(run: Callable[[], Any]) -> float:
    """Wall time until the result is there."""
    started = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - started


def medians(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each, in turns, so that all meet the same machine. The first runs do not count."""
    for run in runs.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds[name].append(seconds_of(run))
    return {name: statistics.median(values) for name, values in seconds.items()}


def openings(game: Gomoku, batch: int, stones: int = 4) -> State:
    """B games after some random stones, the same every time."""
    keys = jax.random.split(jax.random.key(0), batch)
    stones = min(stones, game.num_actions // 3)
    return jax.jit(jax.vmap(lambda key: random_opening(game, key, jnp.int32(stones), stones)))(keys)


def keep_going(output: NetworkOutput, x: jax.Array) -> jax.Array:
    """x, in a way that needs the whole output: for loops that time a network and nothing else."""
    impossible = (output.value > 2) | (output.policy_logits.max(-1) > 1e30)
    return jnp.where(impossible.reshape(-1, *(1,) * (x.ndim - 1)), jnp.zeros_like(x), x)


def describe(config: NetworkConfig) -> str:
    """A network in a few words."""
    if config.kind == "conv":
        return f"conv {'-'.join(map(str, config.conv_channels))}"
    return f"resnet {config.channels}x{config.num_blocks}"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    console = Console()
    (console if console.is_terminal else Console(width=150)).print(table)
