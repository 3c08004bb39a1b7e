"""One process of `benchmark.py parallel`: trains for some iterations and prints how long each part took.

Takes a JSON object and runs as a script, so that cores and processes are set before JAX starts.
"""

import dataclasses
import json
import os
import statistics
import sys
import time

import jax
import jax.numpy as jnp

from gomoku_jax import distributed
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.iteration import run_iteration
from gomoku_jax.presets import PRESETS
from gomoku_jax.programs import make_meshes, make_programs
from gomoku_jax.sharding import DATA, put, replicated, split_axis, use_cpu_devices


def collectives_seconds(mesh, params, updates: int, repeats: int) -> float:
    """Time of what the devices tell each other in an iteration: sums as large as all gradients and losses."""

    def share(tree):
        def update(tree, _):
            return jax.lax.pmean(tree, DATA), None

        return jax.lax.scan(update, tree, None, length=updates)[0]

    whole = jax.sharding.PartitionSpec()
    program = jax.jit(jax.shard_map(share, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False))
    tree = put((params, jnp.zeros(8)), replicated(mesh))
    jax.block_until_ready(program(tree))
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(program(tree))
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main(task: dict) -> dict:
    """Median seconds of an iteration and its parts."""
    if task["cores"]:
        os.sched_setaffinity(0, task["cores"])
    use_cpu_devices(task["devices"])
    if task["processes"] > 1:
        distributed.start(task["coordinator"], task["processes"], task["process"])
    config = dataclasses.replace(PRESETS[task["preset"]], checkpoint_every=10**9)
    programs = make_programs(config, *make_meshes(config))
    state = programs.place(init_training_state(config, programs.mesh.size, split_axis(programs.mesh)))
    while int(state.progress.positions) < config.replay.min_size:
        state, _ = run_iteration(config, programs, state)
    state, _ = run_iteration(config, programs, state)  # compiles the updates, if nothing has
    walls, parts = [], []
    for _ in range(task["iterations"]):
        started = time.perf_counter()
        state, metrics = run_iteration(config, programs, state)
        walls.append(time.perf_counter() - started)
        parts.append((metrics["time/selfplay_seconds"], metrics["time/learn_seconds"]))
    selfplay, learning = (statistics.median(values) for values in zip(*parts, strict=True))
    params = jax.device_get(state.learner.params)
    updates = config.learn.updates_per_iteration
    wall = statistics.median(walls)
    return {
        "devices_used": programs.mesh.size,
        "iteration_seconds": wall,
        "positions_per_second": config.selfplay.num_games * config.selfplay.moves_per_iteration / wall,
        "selfplay_seconds": selfplay,
        "learn_seconds": learning,
        "collectives_seconds": collectives_seconds(programs.mesh, params, updates, task["iterations"]),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
    distributed.wait_for_all("measured")
