"""Measures speed and prints tables. Try:

    python experiments/benchmark.py env
    python experiments/benchmark.py env --board 6x6x4 --batches 1024 --json rows.jsonl
    python experiments/benchmark.py memory --preset tictactoe

`env` plays random moves with restart, thousands of games at once. `memory` trains for 200 iterations and
shows that the process does not grow.
"""

import dataclasses
import functools
import json
import pathlib
import re
import statistics
import sys
import time
from typing import Annotated

import jax
import jax.numpy as jnp
import tyro
from rich.console import Console
from rich.table import Table

from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku, State, random_actions
from gomoku_jax.metrics import provenance
from gomoku_jax.presets import PRESETS
from gomoku_jax.programs import make_programs
from gomoku_jax.train import run_iteration


@dataclasses.dataclass(frozen=True)
class Env:
    """Steps per second of random play with restart."""

    board: str = "15x15x5"
    """ROWSxCOLUMNSxK."""
    rule: Rule = "freestyle"
    batches: tuple[int, ...] = (1, 64, 1024, 4096, 10_000)
    """Games at once, one measurement each."""
    steps: int = 400
    """Moves of each game in one measurement."""
    repeats: int = 5
    """Measurements; the median counts."""
    json: pathlib.Path | None = None
    """Append the results to this file as JSON lines."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """Memory of the process over a training run."""

    preset: str = "tictactoe"
    iterations: int = 200
    json: pathlib.Path | None = None
    """Append the results to this file as JSON lines."""


@functools.partial(jax.jit, static_argnums=(0, 2))
def random_play(game: Gomoku, key: jax.Array, shape: tuple[int, int]) -> tuple[State, jax.Array]:
    """Random moves in `shape` = (games, steps), a fresh game after every end.

    Returns:
        The games as they stand, and how many have ended, int32 [].
    """
    num_games, num_steps = shape
    fresh = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_games, *x.shape)), game.init())

    def step(carry, key):
        states, ended = carry
        actions = random_actions(game, key, states)
        states = jax.vmap(game.step)(states, actions)
        ended += states.terminated.sum(dtype=jnp.int32)
        restart = jax.vmap(lambda done, new, old: jax.tree.map(functools.partial(jnp.where, done), new, old))
        return (restart(states.terminated, fresh, states), ended), None

    (states, ended), _ = jax.lax.scan(step, (fresh, jnp.int32(0)), jax.random.split(key, num_steps))
    return states, ended


def run_env(arguments: Env) -> list[dict]:
    """One row a batch size."""
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", arguments.board)
    if match is None:
        raise ValueError(f"--board {arguments.board!r}: write ROWSxCOLUMNSxK, such as 15x15x5")
    game = Gomoku(int(match[1]), int(match[2]), int(match[3]), arguments.rule)
    table = Table("games at once", "steps/s", "games/s", title=f"Random play with restart, {game}")
    rows = []
    for batch in arguments.batches:
        shape = (batch, arguments.steps)
        ended = int(random_play(game, jax.random.key(0), shape)[1])  # compiles
        seconds = []
        for repeat in range(arguments.repeats):
            started = time.perf_counter()
            jax.block_until_ready(random_play(game, jax.random.key(repeat), shape))
            seconds.append(time.perf_counter() - started)
        median = statistics.median(seconds)
        steps = batch * arguments.steps / median
        rows.append({"benchmark": "env", "game": str(game), "batch": batch, "steps_per_second": steps})
        table.add_row(f"{batch:,}", f"{steps:,.0f}", f"{ended / median:,.0f}")
    Console().print(table)
    return rows


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    status = pathlib.Path("/proc/self/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024


def run_memory(arguments: Memory) -> list[dict]:
    """Resident memory and live arrays at a few iterations."""
    if arguments.preset not in PRESETS:
        raise ValueError(f"--preset {arguments.preset!r}: choose one of {', '.join(PRESETS)}")
    config = dataclasses.replace(PRESETS[arguments.preset], iterations=arguments.iterations)
    programs, state = make_programs(config), init_training_state(config)
    table = Table(
        "iteration", "resident MiB", "live arrays", "their MiB", title=f"Training {arguments.preset}"
    )
    rows = []
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
            cells = row["resident_bytes"] / 2**20, row["live_arrays"], row["live_bytes"] / 2**20
            table.add_row(str(iteration), f"{cells[0]:.1f}", str(cells[1]), f"{cells[2]:.1f}")
    Console().print(table)
    return rows


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(
        Annotated[Env, tyro.conf.subcommand("env")] | Annotated[Memory, tyro.conf.subcommand("memory")],
        args=argv,
        description=__doc__,
    )
    try:
        rows = run_env(arguments) if isinstance(arguments, Env) else run_memory(arguments)
        if arguments.json is not None:
            facts = provenance()
            with arguments.json.open("a") as file:
                file.writelines(json.dumps(row | facts) + "\n" for row in rows)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
