"""One process of `benchmark.py parallel`: trains for some iterations and prints how long each part took.

Takes a JSON object and runs as a module, so that cores and processes are set before JAX starts.
"""

import dataclasses
import functools
import json
import os
import statistics
import sys
import time

import jax
from jax.sharding import Mesh, PartitionSpec

from benchmarks.common import medians
from benchmarks.scale import collective_seconds
from gomoku_jax import distributed, learn, replay
from gomoku_jax.checkpoint import TrainingState, init_training_state, total_updates
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import DevicesConfig, TrainConfig
from gomoku_jax.game import Gomoku
from gomoku_jax.iteration import run_iteration
from gomoku_jax.network import apply_network
from gomoku_jax.presets import PRESETS
from gomoku_jax.programs import make_batch, make_meshes, make_programs, transform_positions
from gomoku_jax.replay_rings import ring_of
from gomoku_jax.sharding import DATA, split_axis, split_spec, use_cpu_devices

_WHOLE = PartitionSpec()


def learning_apart_seconds(config: TrainConfig, mesh: Mesh, state: TrainingState, repeats: int) -> float:
    """An iteration's updates where each device learns from its share alone and tells nobody."""
    game = Gomoku.from_config(config.game)
    optimizer = learn.make_optimizer(config.learn, total_updates(config))

    def share(learner, buffer, key):
        ring = ring_of(buffer)

        def draw(key):
            key = jax.random.fold_in(key, jax.lax.axis_index(DATA))
            count = config.learn.batch_size // mesh.size
            return make_batch(game, config, replay.sample(ring, key, count, transform_positions))

        apply_fn = functools.partial(apply_network, config.network)
        return learn.run_updates(
            learner, draw, key, apply_fn=apply_fn, optimizer=optimizer, config=config.learn
        )

    specs = (_WHOLE, split_spec(), _WHOLE)
    program = jax.jit(jax.shard_map(share, mesh=mesh, in_specs=specs, out_specs=_WHOLE, check_vma=False))
    run = functools.partial(program, state.learner, state.replay, state.key)
    return medians({"apart": run}, repeats)["apart"]


def main(task: dict) -> dict:
    """Median seconds of an iteration and its parts."""
    if task["cores"]:
        os.sched_setaffinity(0, task["cores"])
    use_compilation_cache()
    use_cpu_devices(task["devices"])
    if task["processes"] > 1:
        distributed.start(task["coordinator"], task["processes"], task["process"])
    updates = PRESETS[task["preset"]].learn.updates_per_iteration
    devices = DevicesConfig(actors=task["actors"], refresh_every=updates)
    config = dataclasses.replace(PRESETS[task["preset"]], devices=devices)
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
    repeats = task["iterations"]
    wall = statistics.median(walls)
    return {
        "devices_used": programs.mesh.size,
        "iteration_seconds": wall,
        "positions_per_second": config.selfplay.num_games * config.selfplay.moves_per_iteration / wall,
        "selfplay_seconds": selfplay,
        "learn_seconds": learning,
        "learn_apart_seconds": learning_apart_seconds(config, programs.mesh, state, repeats),
        "collectives_seconds": collective_seconds(state.learner.params, programs.mesh, updates, repeats),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
    distributed.wait_for_all("measured")
