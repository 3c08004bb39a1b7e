"""Memory of the process over a training run."""

import dataclasses
import pathlib
import re

import jax

from benchmarks.common import Benchmark, show
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.iteration import run_iteration
from gomoku_jax.presets import PRESETS
from gomoku_jax.programs import make_programs


@dataclasses.dataclass(frozen=True)
class Memory(Benchmark):
    """Memory of the process over a training run."""

    preset: str = "tictactoe"
    iterations: int = 200


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    status = pathlib.Path("/proc/self/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024


def run(arguments: Memory) -> list[dict]:
    """Resident memory and live arrays at a few iterations."""
    if arguments.preset not in PRESETS:
        raise ValueError(f"--preset {arguments.preset!r}: choose one of {', '.join(PRESETS)}")
    config = dataclasses.replace(PRESETS[arguments.preset], iterations=arguments.iterations)
    programs, state = make_programs(config), init_training_state(config)
    rows, cells = [], []
    for iteration in range(1, config.iterations + 1):
        state, _ = run_iteration(config, programs, state)
        if iteration in (3, 10, 25) or iteration % 50 == 0:
            arrays = jax.live_arrays()
            row = {
                "benchmark": "memory",
                "preset": arguments.preset,
                "iteration": iteration,
                "resident_bytes": resident_bytes(),
                "live_arrays": len(arrays),
                "live_bytes": sum(array.nbytes for array in arrays),
            }
            rows.append(row)
            resident, live = row["resident_bytes"] / 2**20, row["live_bytes"] / 2**20
            cells.append((str(iteration), f"{resident:.1f}", str(row["live_arrays"]), f"{live:.1f}"))
    show(f"Training {arguments.preset}", ("iteration", "resident MiB", "live arrays", "their MiB"), cells)
    return rows
