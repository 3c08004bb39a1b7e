"""Where the wall time of a training iteration goes; the parts add up to all of it.

Self-play, learning and the host are timed in the iteration; the network's share of self-play and the drawing
of batches are timed alone, and what remains of self-play and learning is the other part of each.
"""

import dataclasses
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.common import Benchmark, chosen_preset, keep_going, medians, show
from gomoku_jax import replay
from gomoku_jax.checkpoint import init_training_state, playing_params
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import TrainConfig
from gomoku_jax.encode import observe
from gomoku_jax.game import Gomoku
from gomoku_jax.inference import apply_prepared, prepare
from gomoku_jax.iteration import run_iteration
from gomoku_jax.programs import make_batch, make_programs, transform_positions
from gomoku_jax.replay_rings import ring_of
from gomoku_jax.sharding import data_mesh, split_axis, split_spec


@dataclasses.dataclass(frozen=True)
class Train(Benchmark):
    """An iteration's time, part by part."""

    preset: str | None = None
    """By default 6x6x4, on accelerators 15x15x5."""
    iterations: int = 5
    """Measured, after those that fill the buffer; the median counts."""
    cache: bool = True
    """Use the persistent compilation cache, as train.py does."""


def network_seconds(config: TrainConfig, params, mesh, repeats: int) -> float:
    """The network's share of self-play: as many evaluations, on as many devices, and nothing else."""
    game = Gomoku.from_config(config.game)
    states = init_training_state(config).selfplay.states
    count = config.selfplay.moves_per_iteration * (config.search.num_simulations + 1)

    def share(params, observations):
        prepared = prepare(config.network, params)
        again = lambda _, x: keep_going(apply_prepared(config.network, prepared, x), x)  # noqa: E731
        return jax.lax.fori_loop(0, count, again, observations)

    program = jax.jit(
        jax.shard_map(
            share,
            mesh=mesh,
            in_specs=(jax.sharding.PartitionSpec(), split_spec()),
            out_specs=split_spec(),
            check_vma=False,
        )
    )
    observations = jax.device_put(observe(game, states, config.network.planes), split_axis(mesh))
    return medians({"network": lambda: program(params, observations)}, repeats)["network"]


def batch_seconds(config: TrainConfig, buffer, mesh, repeats: int) -> float:
    """Drawing an iteration's batches: rows, symmetries, planes."""
    game = Gomoku.from_config(config.game)

    def draw_all(share):
        ring = ring_of(share)

        def draw(total, key):
            transform = transform_positions if config.replay.symmetries else None
            positions = replay.sample(ring, key, config.learn.batch_size // mesh.size, transform)
            batch = make_batch(game, config, positions)
            return total + sum(leaf.astype(float).mean() for leaf in batch), None

        keys = jax.random.split(jax.random.key(0), config.learn.updates_per_iteration + 1)
        return jax.lax.scan(draw, jnp.float32(0), keys)[0][None]

    program = jax.jit(
        jax.shard_map(draw_all, mesh=mesh, in_specs=split_spec(), out_specs=split_spec(), check_vma=False)
    )

    return medians({"batches": lambda: program(buffer)}, repeats)["batches"]


def run(arguments: Train) -> list[dict]:
    """One row with all parts."""
    started = time.perf_counter()
    if arguments.cache:
        use_compilation_cache()
    name, config = chosen_preset(arguments.preset)
    programs = make_programs(config)
    state = programs.place(init_training_state(config))
    # The first self-play compiles its program, as a start of training does.
    state, _ = run_iteration(config, programs, state)
    first = time.perf_counter() - started
    while not int(state.replay.size.sum()) >= config.replay.min_size:
        state, _ = run_iteration(config, programs, state)
    state, _ = run_iteration(config, programs, state)
    walls, rows = [], []
    for _ in range(arguments.iterations):
        began = time.perf_counter()
        state, metrics = run_iteration(config, programs, state)
        walls.append(time.perf_counter() - began)
        rows.append((metrics["time/selfplay_seconds"], metrics["time/learn_seconds"]))
    mesh = data_mesh(config.selfplay.num_games, config.learn.batch_size)
    wall = statistics.median(walls)
    selfplay, learning = (statistics.median(values) for values in zip(*rows, strict=True))
    network = network_seconds(config, playing_params(config, state), mesh, arguments.iterations)
    batches = batch_seconds(config, state.replay, mesh, arguments.iterations)
    parts = {
        "self-play: network": network,
        "self-play: trees, rules, data": selfplay - network,
        "learning: draw batches, symmetries, planes": batches,
        "learning: gradients and optimizer": learning - batches,
        "host: metrics": wall - selfplay - learning,
    }
    show(
        f"An iteration of preset {name} on {mesh.size} devices: {wall:.2f} s",
        ("part", "seconds", "share"),
        [(name, f"{value:.3f}", f"{value / wall:.1%}") for name, value in parts.items()]
        + [("all", f"{sum(parts.values()):.3f}", f"{sum(parts.values()) / wall:.1%}")],
    )
    print(f"From the start of the process's work to the end of the first iteration: {first:.1f} s")
    moves = config.selfplay.num_games * config.selfplay.moves_per_iteration
    return [
        {
            "benchmark": "train",
            "preset": name,
            "devices_used": mesh.size,
            "iteration_seconds": wall,
            "iteration_seconds_all": np.round(walls, 4).tolist(),
            "parts": parts,
            "positions_per_second": moves / wall,
            "first_iteration_done_after_seconds": first,
        }
    ]
