"""What runs should take on devices that are not here, by their data sheets: predictions, not measurements.

The tables are Markdown, as in docs/scaling.md.
"""

import dataclasses
from collections.abc import Callable

from benchmarks.common import Benchmark, describe
from gomoku_jax.config import TrainConfig
from gomoku_jax.estimate import Estimate, estimate_run, gib, layout, parse_devices
from gomoku_jax.estimate.memory import tree_bytes
from gomoku_jax.estimate.report import number, rate, shares
from gomoku_jax.estimate.speed import flops_per_evaluation, flops_per_move, flops_per_update
from gomoku_jax.presets import PRESETS


@dataclasses.dataclass(frozen=True)
class Predict(Benchmark):
    """Predictions for devices by name: memory, arithmetic and speed of a preset and of a larger run."""

    devices: tuple[str, ...] = ("h100", "h200", "h200x8", "v5ex16")
    """h100, h200, a100, v5e (a chip) or v4, with x and how many."""
    preset: str = "15x15x5"
    channels: int = 256
    """Of the larger run's network."""
    blocks: int = 20
    """Of the larger run's network."""
    simulations: int = 400
    """Of the larger run, a move."""


def larger(arguments: Predict, config: TrainConfig) -> TrainConfig:
    """The preset with a larger network and more simulations."""
    network = dataclasses.replace(
        config.network, channels=arguments.channels, num_blocks=arguments.blocks, value_hidden=256
    )
    search = dataclasses.replace(config.search, num_simulations=arguments.simulations)
    return dataclasses.replace(config, network=network, search=search)


def as_many_each(config: TrainConfig, devices: int) -> TrainConfig:
    """A run with the preset's games and batch on each device, instead of shared by all."""
    return dataclasses.replace(
        config,
        selfplay=dataclasses.replace(config.selfplay, num_games=devices * config.selfplay.num_games),
        learn=dataclasses.replace(config.learn, batch_size=devices * config.learn.batch_size),
    )


def table(title: str, estimates: list[tuple[str, Estimate]]) -> str:
    """Devices side by side, in Markdown."""
    rows: list[tuple[str, Callable[[Estimate], str]]] = [
        ("games, batch", lambda e: f"{e.config.selfplay.num_games:,}, {e.config.learn.batch_size:,}"),
        ("FLOPs an evaluation", lambda e: number(flops_per_evaluation(e.config))),
        ("FLOPs a position of self-play", lambda e: number(flops_per_move(e.config))),
        ("FLOPs an update", lambda e: number(flops_per_update(e.config))),
        ("tree, a game", lambda e: gib(tree_bytes(e.config.game, e.config.search, 1))),
        ("trees, each device", lambda e: gib(e.memory.tree)),
        ("replay buffer, each device", lambda e: gib(e.memory.replay)),
        ("games, each device", lambda e: gib(e.memory.games)),
        ("memory at most, of what it may use", lambda e: f"{gib(e.memory.total)} of {gib(e.budget)}"),
        ("self-play, positions/s", lambda e: _between(e, "selfplay_positions_per_second")),
        ("updates/s", lambda e: _between(e, "updates_per_second")),
        ("collectives of an update, µs", lambda e: _microseconds(e)),
        ("**iterations, positions/s**", lambda e: f"**{_between(e, 'positions_per_second')}**"),
        ("an iteration, s", lambda e: _between(e, "iteration_seconds")),
        ("time goes to, cautious", lambda e: shares(e.cautious)),
        ("time goes to, hopeful", lambda e: shares(e.hopeful)),
    ]
    lines = [f"**{title}**", "", "| | " + " | ".join(name for name, _ in estimates) + " |"]
    lines.append("|---" * (1 + len(estimates)) + "|")
    for what, cell in rows:
        lines.append(f"| {what} | " + " | ".join(cell(estimate) for _, estimate in estimates) + " |")
    return "\n".join(lines)


def _between(estimate: Estimate, name: str) -> str:
    return rate(getattr(estimate.cautious, name), getattr(estimate.hopeful, name))


def _microseconds(estimate: Estimate) -> str:
    seconds = estimate.hopeful.collectives.seconds / estimate.hopeful.updates
    return f"{1e6 * seconds:.0f}"


def run(arguments: Predict) -> list[dict]:
    """One row a setting and devices."""
    if arguments.preset not in PRESETS:
        raise ValueError(f"--preset {arguments.preset!r}: choose one of {', '.join(PRESETS)}")
    config = PRESETS[arguments.preset]
    rows = []
    for base in (config, larger(arguments, config)):
        search = f"{base.search.num_simulations} simulations ({base.search.algorithm})"
        title = f"{arguments.preset}, {describe(base.network)}, {base.network.dtype}, {search}"
        estimates = []
        for text in arguments.devices:
            spec, count = parse_devices(text)
            for each in (False, True) if count > 1 else (False,):
                chosen = as_many_each(base, count) if each else base
                estimate = estimate_run(chosen, layout(chosen, count), spec, spec.usable_memory)
                estimates.append((text + (", as many each" if each else ""), estimate))
                rows.append(
                    {
                        "benchmark": "predict",
                        "setting": title,
                        "devices": text,
                        "games": chosen.selfplay.num_games,
                        "batch_size": chosen.learn.batch_size,
                        "bytes_each": dataclasses.asdict(estimate.memory) | {"total": estimate.memory.total},
                        "positions_per_second": [
                            estimate.cautious.positions_per_second,
                            estimate.hopeful.positions_per_second,
                        ],
                        "bound": [estimate.cautious.bound, estimate.hopeful.bound],
                    }
                )
        print(table(title, estimates), end="\n\n")
    return rows
