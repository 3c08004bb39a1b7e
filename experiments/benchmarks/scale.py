"""One device, two, four, to all: what is measured laid beside what the estimate predicts.

On a CPU whose cores show as devices, a mesh of one of them is one core: with several devices there, the
network's convolutions run on one core each (docs/performance.md).
"""

import dataclasses
import functools
import statistics
import time

import jax
import jax.numpy as jnp

from benchmarks.common import Benchmark, chosen_preset, describe, medians, show
from benchmarks.memory import resident_bytes
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import TrainConfig
from gomoku_jax.estimate import Estimate, device_memory, estimate_run, gib, layout, this_device
from gomoku_jax.iteration import can_learn, run_iteration
from gomoku_jax.programs import make_programs
from gomoku_jax.sharding import data_mesh, split_axis, split_spec, use_cpu_devices


@dataclasses.dataclass(frozen=True)
class Scale(Benchmark):
    """Self-play, learning, collectives and memory on 1, 2, 4, ... devices, beside the prediction."""

    preset: str | None = None
    """By default 6x6x4, on accelerators 15x15x5."""
    devices: int | None = None
    """At most; on a CPU so many virtual ones, by default one a core."""
    iterations: int = 5
    """Measured on each number of devices, after those that fill the buffer; the median counts."""
    cache: bool = True
    """Use the persistent compilation cache, as train.py does."""


def counts(available: int) -> list[int]:
    """Powers of two up to all devices, and all."""
    return sorted({2**i for i in range(available.bit_length()) if 2**i <= available} | {available})


def used_bytes(devices: list) -> int | None:
    """The most that one of the devices held at once so far, where they tell."""
    peaks = [(device.memory_stats() or {}).get("peak_bytes_in_use") for device in devices]
    known = [peak for peak in peaks if peak]
    return max(known) if len(known) == len(devices) else None


def planned_bytes(programs, state) -> int:
    """What the first device holds at most by XLA's plans for its programs, where the device does not tell."""
    device = programs.mesh.devices.flat[0]
    shards = [
        shard.data.nbytes
        for leaf in jax.tree.leaves((state.learner, state.replay, state.selfplay))
        for shard in leaf.addressable_shards
        if shard.device == device
    ]
    plans = [
        programs.selfplay.lower(state.learner.params, state.selfplay, state.replay, state.key),
        programs.update.lower(state.learner, state.replay, state.key),
    ]
    sizes = [plan.compile().memory_analysis() for plan in plans]
    return sum(shards) + max(
        s.temp_size_in_bytes + s.output_size_in_bytes - s.alias_size_in_bytes for s in sizes
    )


def collective_seconds(params, mesh, times: int, repeats: int) -> float:
    """Wall seconds of averaging as many gradients as an iteration does, and nothing else; 0 on one device."""
    if mesh.size == 1:
        return 0.0
    whole = jax.sharding.PartitionSpec()

    def share(params):
        # Every round needs the last one's result.
        average = lambda _, x: jax.tree.map(lambda leaf: jax.lax.pmean(leaf, mesh.axis_names[0]), x)  # noqa: E731
        params = jax.tree.map(lambda x: x + jax.lax.axis_index(mesh.axis_names[0]), params)
        params = jax.lax.fori_loop(0, times, average, params)
        return jnp.stack([leaf.sum() for leaf in jax.tree.leaves(params)]).sum()[None]

    program = jax.jit(
        jax.shard_map(share, mesh=mesh, in_specs=whole, out_specs=split_spec(), check_vma=False)
    )
    return medians({"collectives": functools.partial(program, params)}, repeats)["collectives"]


def measure(config: TrainConfig, mesh, iterations: int) -> dict:
    """Rates and memory on the devices of a mesh."""
    before = resident_bytes()
    programs = make_programs(config, mesh)
    state = programs.place(init_training_state(config, mesh.size, split_axis(mesh)))
    devices = list(mesh.devices.flat)
    planned = planned_bytes(programs, state) if used_bytes(devices) is None else 0
    learned = 0
    while learned < 2:  # compiles, fills the buffer, compiles learning
        state, metrics = run_iteration(config, programs, state)
        learned += "learn/loss" in metrics
    walls, selfplay, learning, cpu = [], [], [], []
    for _ in range(iterations):
        began, cpu_began = time.perf_counter(), time.process_time()
        state, metrics = run_iteration(config, programs, state)
        walls.append(time.perf_counter() - began)
        cpu.append((time.process_time() - cpu_began) / walls[-1])
        selfplay.append(metrics["time/selfplay_seconds"])
        learning.append(metrics["time/learn_seconds"])
    wall, play, learn = (statistics.median(values) for values in (walls, selfplay, learning))
    moves = config.selfplay.num_games * config.selfplay.moves_per_iteration
    updates = config.learn.updates_per_iteration
    used, grown = used_bytes(devices), resident_bytes() - before
    assert can_learn(config, jax.device_get(state.replay.size))
    return {
        "selfplay_positions_per_second": moves / play,
        "updates_per_second": updates / learn,
        "positions_per_second": moves / wall,
        "iteration_seconds": wall,
        "collective_seconds": collective_seconds(state.learner.params, mesh, updates, iterations),
        "cores_used": statistics.median(cpu),
        "bytes_used": used if used is not None else planned,
        "bytes_told_by": "the device" if used is not None else "XLA's plan",
        "process_grown_by_bytes": grown,
    }


def predicted(estimate: Estimate) -> dict[str, tuple[float, float]]:
    """What `measure` measures, from the cautious to the hopeful end."""
    slow, fast = estimate.cautious, estimate.hopeful
    return {
        "selfplay_positions_per_second": (
            slow.selfplay_positions_per_second,
            fast.selfplay_positions_per_second,
        ),
        "updates_per_second": (slow.updates_per_second, fast.updates_per_second),
        "positions_per_second": (slow.positions_per_second, fast.positions_per_second),
        "iteration_seconds": (slow.iteration_seconds, fast.iteration_seconds),
        "collective_seconds": (slow.collectives.seconds, fast.collectives.seconds),
    }


def ratio(measured: float, between: tuple[float, float]) -> float:
    """Measured over the geometric middle of what was predicted."""
    return measured / (between[0] * between[1]) ** 0.5


_NAMES = {
    "selfplay_positions_per_second": "self-play, positions/s",
    "updates_per_second": "updates/s",
    "positions_per_second": "iterations, positions/s",
    "iteration_seconds": "an iteration, s",
    "collective_seconds": "collectives of an iteration, s",
}


def run(arguments: Scale) -> list[dict]:
    """One row a number of devices."""
    if arguments.devices is not None:
        if arguments.devices < 1:
            raise ValueError(f"--devices {arguments.devices}: at least 1")
        use_cpu_devices(arguments.devices)
    name, config = chosen_preset(arguments.preset)
    if arguments.cache:
        use_compilation_cache()
    available = jax.devices()[: arguments.devices]
    rows, cells = [], []
    for count in counts(len(available)):
        mesh = data_mesh(config.selfplay.num_games, config.learn.batch_size, devices=available[:count])
        if mesh.size != count:
            print(f"{count} devices cannot share the games and batches of {name}: left out")
            continue
        budget, where = device_memory(), layout(config, count)
        device = this_device(config, mesh, config.selfplay.num_games // count, budget)
        estimate = estimate_run(config, where, device, budget)
        row = measure(config, mesh, arguments.iterations)
        between = predicted(estimate)
        for key, (slow, fast) in between.items():
            low, high = f"{slow:,.4g}", f"{fast:,.4g}"
            relative = f"{ratio(row[key], (slow, fast)):.2f}" if slow * fast > 0 else ""
            cells.append((str(count), _NAMES[key], f"{row[key]:,.4g}", f"{low} to {high}", relative))
        total = max(estimate.memory.total, 1)
        cells.append(
            (
                str(count),
                f"memory of a device, by {row['bytes_told_by']}",
                gib(row["bytes_used"]),
                f"{gib(total)} at most",
                f"{row['bytes_used'] / total:.2f}",
            )
        )
        share = row["collective_seconds"] / row["iteration_seconds"]
        cells.append((str(count), "cores of the host in use", f"{row['cores_used']:.2f}", "", ""))
        cells.append((str(count), "bound by", "", estimate.hopeful.bound, ""))
        rows.append(
            {
                "benchmark": "scale",
                "preset": name,
                "network": describe(config.network),
                "devices_used": count,
                "device": dataclasses.asdict(device),
                "collective_share": share,
                "speedup": row["positions_per_second"] / (rows[0] if rows else row)["positions_per_second"],
                "predicted": between | {"bytes": total, "bound": estimate.hopeful.bound},
            }
            | row
        )
    columns = "devices", "what", "measured", "predicted", "ratio"
    show(f"Preset {name}; the ratio is measured over the middle of what was predicted", columns, cells)
    for row in rows[1:]:
        print(
            f"{row['devices_used']} devices: {row['speedup']:.2f} times one device's positions/s; "
            f"collectives {row['collective_share']:.2%} of the time"
        )
    return rows
