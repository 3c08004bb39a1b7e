"""Does a run fit into the memory that its devices have? And the replay buffer that just fits."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from gomoku_jax.config import TrainConfig
from gomoku_jax.estimate.hardware import Platform
from gomoku_jax.estimate.memory import Layout, MemoryEstimate, estimate_memory, position_bytes

MOST_POSITIONS = 10_000_000  # of a buffer whose size nobody gave


class MemoryBudgetError(ValueError):
    """A run does not fit; the message says what takes how much, and what to lower to which value."""


def gib(num_bytes: float) -> str:
    """Bytes for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:,.2f} GiB"


def memory_rows(config: TrainConfig, estimate: MemoryEstimate) -> list[tuple[str, int, str]]:
    """(what, bytes on a device, how many of what) for every part of an estimate."""
    where, play, learn = estimate.layout, config.selfplay, config.learn
    games, batch = play.num_games // where.actors, learn.batch_size // where.learners
    capacity = config.replay.capacity // where.learners
    row = position_bytes(config.game, len(config.games) > 1)
    accumulated = ", accumulated gradients" if learn.accumulation_steps > 1 else ""
    again = ", blocks computed again" if config.network.remat else ""
    rows = [
        ("learner", estimate.learner, f"parameters, their average, {learn.optimizer}'s moments{accumulated}"),
        ("replay buffer", estimate.replay, f"{capacity:,} positions of {row:,} bytes"),
        ("games", estimate.games, f"{games:,} games and their moves"),
        ("search trees", estimate.tree, f"{games:,} games, {config.search.num_simulations} simulations"),
        ("self-play, moves", estimate.window, f"{play.moves_per_iteration} new ones a game, and all before"),
        ("self-play, network", estimate.forward, "weights for search, activations"),
        ("update, gradients", estimate.gradients, "and the optimizer's step"),
        ("update, activations", estimate.backward, f"{batch:,} positions of a batch{again}"),
        (
            "evaluation, trees",
            estimate.evaluation,
            f"pure MCTS with {config.evaluation.max_playouts} playouts",
        ),
    ]
    if where.split:
        rows.insert(2, ("actors' parameters", estimate.playing_params, "on devices that only play"))
    return rows


def check_memory(config: TrainConfig, where: Layout, budget: int, platform: Platform) -> MemoryEstimate:
    """The estimate of a run that fits.

    Args:
        config: the run.
        where: the devices that share it.
        budget: bytes of each device.
        platform: "cpu", "gpu" or "tpu".

    Raises:
        MemoryBudgetError: it does not fit.
    """
    estimate = estimate_memory(config, where, platform)
    if estimate.total > budget:
        raise MemoryBudgetError(refusal(config, estimate, budget, platform))
    return estimate


def size_replay(config: TrainConfig, where: Layout, budget: int, platform: Platform) -> TrainConfig:
    """The config with as large a replay buffer as fits, where `replay.capacity` is 0; else as it is.

    No larger than what the run can ever produce, where its iterations say so and not a clock, nor than
    `MOST_POSITIONS`.

    Args:
        config: the run.
        where: the devices that share it.
        budget: bytes of each device.
        platform: "cpu", "gpu" or "tpu".

    Raises:
        MemoryBudgetError: what fits holds less than `replay.min_size` positions.
    """
    if config.replay.capacity != 0:
        return config
    row = position_bytes(config.game, len(config.games) > 1)
    least, most = config.replay.min_size, MOST_POSITIONS
    if config.max_minutes == 0:
        play = config.selfplay
        most = min(most, config.iterations * play.num_games * play.moves_per_iteration)
    estimate = estimate_memory(config, where, platform)
    room = (budget - estimate.learning) // row * where.learners
    # The devices share it evenly.
    capacity = min(room, max(most, least)) // where.learners * where.learners
    sized = _with(config, "replay.capacity", max(capacity, least))
    if capacity < least or estimate.playing * where.split > budget:
        estimate = estimate_memory(sized, where, platform)
        raise MemoryBudgetError(refusal(sized, estimate, budget, platform))
    return sized


def refusal(config: TrainConfig, estimate: MemoryEstimate, budget: int, platform: Platform) -> str:
    """What to say of a run that does not fit: what takes how much, and changes with which it would."""
    count = estimate.layout.devices
    lines = [
        f"the run does not fit: it takes about {gib(estimate.total)} on "
        f"{'the device' if count == 1 else f'each of {count} devices'}, which may use {gib(budget)}"
    ]
    lines += [f"  {name:<20} {gib(size):>12}  {what}" for name, size, what in memory_rows(config, estimate)]
    lines.append("  (of self-play, update and evaluation, only the largest counts)")
    first, ways = _ways(config, estimate.layout, budget, platform)
    if ways:
        also = "".join(f"{name} = {value} and " for name, value in first)
        lines += [f"it would fit with {also}one of these:", *(f"  {name} = {value}" for name, value in ways)]
    else:
        lines.append("no two fields make it fit; use more devices, a smaller network or fewer games")
    return "\n".join(lines)


def _ways(
    config: TrainConfig, where: Layout, budget: int, platform: Platform
) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """Fields to change, and others of which one is to be changed as well; what harms training least first."""
    batch, games = config.learn.batch_size // 4, config.selfplay.num_games // 4
    starts: list[list[tuple[str, Any]]] = [
        [],
        [("network.remat", True)],
        [("replay.capacity", config.replay.min_size)],
        [("learn.batch_size", batch // where.learners * where.learners)],
        [
            (
                "selfplay.num_games",
                games // (where.actors * len(config.games)) * where.actors * len(config.games),
            )
        ],
    ]
    for start in starts:
        try:
            changed = functools.reduce(lambda old, change: _with(old, *change), start, config)
        except ValueError:
            continue
        ways = changes_that_fit(changed, where, budget, platform)
        if ways:
            return start, [way for way in ways if way[0] not in dict(start)]
    return [], []


def _with(config: TrainConfig, name: str, value: Any) -> TrainConfig:
    """The config with one field of a part replaced, "part.field"."""
    part, field = name.split(".")
    return dataclasses.replace(config, **{part: dataclasses.replace(getattr(config, part), **{field: value})})


def changes_that_fit(
    config: TrainConfig, where: Layout, budget: int, platform: Platform
) -> list[tuple[str, Any]]:
    """(field, value): changes of a single field of a run with which it fits, as small as can be."""

    def fits(name: str, value: Any) -> bool:
        try:
            changed = _with(config, name, value)
        except ValueError:  # such as fewer simulations than a fast search has
            return False
        return estimate_memory(changed, where, platform).total <= budget

    rules, evaluation = len(config.games), config.evaluation
    games = where.actors * rules
    # What values a field can be lowered to: multiples of a step.
    steps = {
        "replay.capacity": where.learners,
        "selfplay.num_games": games,
        "selfplay.moves_per_iteration": 1,
        "search.num_simulations": 1,
        "learn.batch_size": where.learners,
        "evaluation.num_games": 2,
        "evaluation.max_playouts": 1,
    }
    least = {"replay.capacity": config.replay.min_size, "evaluation.max_playouts": evaluation.num_playouts}
    found: list[tuple[str, Any]] = []
    for name, step in steps.items():
        part, field = name.split(".")
        now = getattr(getattr(config, part), field)
        value = _largest(
            functools.partial(fits, name), -(-least.get(name, 1) // step), (now - 1) // step, step
        )
        if value is not None:
            found.append((name, value))
    if config.network.kind == "resnet" and not config.network.remat and fits("network.remat", True):
        found.append(("network.remat", True))
    return found


def _largest(fits: Callable[[int], bool], low: int, high: int, step: int) -> int | None:
    """The largest multiple of a step, of those from `low` to `high` steps, that fits."""
    if low > high or not fits(low * step):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle - 1)
    return low * step
