"""What a second core gives on a CPU, and what processes cost: training in processes of their own.

One device is held to one core by its process's affinity; a device a core is then measured in one process, and
as a process a core that talk over the loopback interface. The sides take turns.
"""

import dataclasses
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.common import Benchmark, show
from gomoku_jax.presets import DEFAULT_PRESET, PRESETS

_EXPERIMENTS = pathlib.Path(__file__).parent.parent  # where `benchmarks` is found


@dataclasses.dataclass(frozen=True)
class Parallel(Benchmark):
    """One device on one core, a device a core, and a process a core."""

    preset: str = DEFAULT_PRESET
    cores: int = 0
    """How many; by default all that this process may use."""
    iterations: int = 3
    """Measured in each process, after those that fill the buffer; the median counts."""
    repeats: int = 3
    """Turns; the median counts."""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def measure(arguments: Parallel, cores: list[int], processes: int, actors: int) -> dict[str, Any]:
    """One side, once: what its first process says.

    Raises:
        RuntimeError: a process failed.
    """
    address = f"127.0.0.1:{_free_port()}"
    each = len(cores) // processes
    running = []
    for process in range(processes):
        task = {
            "preset": arguments.preset,
            "iterations": arguments.iterations,
            "cores": cores[process * each : (process + 1) * each],
            "devices": each,
            "actors": actors,
            "processes": processes,
            "process": process,
            "coordinator": address,
        }
        environment = os.environ | {"JAX_PLATFORMS": "cpu"}
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.parallel_child", json.dumps(task)],
                cwd=_EXPERIMENTS,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
        )
    outputs = [process.communicate() for process in running]
    for process, (_, errors) in zip(running, outputs, strict=True):
        if process.returncode != 0:
            raise RuntimeError(f"a measuring process ended with status {process.returncode}: {errors[-500:]}")
    return json.loads([line for line in outputs[0][0].splitlines() if line.startswith("{")][-1])


def run(arguments: Parallel) -> list[dict]:
    """A row for each side, with the ratio to one device on one core."""
    if arguments.preset not in PRESETS:
        raise ValueError(f"--preset {arguments.preset!r}: choose one of {', '.join(PRESETS)}")
    allowed = sorted(os.sched_getaffinity(0))
    if not 0 <= arguments.cores <= len(allowed):
        raise ValueError(f"--cores {arguments.cores}: at most {len(allowed)}, which is what this process has")
    cores = allowed[: arguments.cores or len(allowed)]
    if len(cores) < 2:
        raise ValueError("one core: nothing to compare")
    sides = {
        "one device on one core": (cores[:1], 1, 0),
        f"{len(cores)} devices on {len(cores)} cores": (cores, 1, 0),
        f"{len(cores)} processes of one device, a core each": (cores, len(cores), 0),
        f"{len(cores) - 1} of {len(cores)} devices play while one learns": (cores, 1, len(cores) - 1),
    }
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for _ in range(arguments.repeats):
        for name, (used, processes, actors) in sides.items():
            measured[name].append(measure(arguments, used, processes, actors))
            rate = measured[name][-1]["positions_per_second"]
            print(f"{name}: {rate:,.0f} positions/s", flush=True)
    rows, cells, first = [], [], None
    for name, results in measured.items():
        row: dict[str, Any] = {
            key: statistics.median(result[key] for result in results) for key in results[0]
        }
        first = first or row["positions_per_second"]
        row |= {
            "benchmark": "parallel",
            "preset": arguments.preset,
            "side": name,
            "ratio": row["positions_per_second"] / first,
            "collectives_share": row["collectives_seconds"] / row["iteration_seconds"],
            "iteration_seconds_all": [round(result["iteration_seconds"], 4) for result in results],
        }
        rows.append(row)
        cells.append(
            (
                name,
                f"{row['positions_per_second']:,.0f}",
                f"{row['ratio']:.2f}",
                f"{row['selfplay_seconds']:.2f}",
                f"{row['learn_seconds']:.2f} ({row['learn_apart_seconds']:.2f})",
                f"{row['collectives_seconds']:.3f} ({row['collectives_share']:.1%})",
            )
        )
    heads = ("", "positions/s", "ratio", "self-play s", "learning s (apart)", "collectives s, share")
    show(f"An iteration of preset {arguments.preset}", heads, cells)
    return rows
