"""An estimate in words: what a start of training prints, and what a dry run does."""

import dataclasses

from gomoku_jax.config import TrainConfig
from gomoku_jax.estimate.budget import gib, memory_rows, refusal
from gomoku_jax.estimate.hardware import DeviceSpec
from gomoku_jax.estimate.memory import Layout, MemoryEstimate, estimate_memory, parameter_count, tree_bytes
from gomoku_jax.estimate.speed import (
    CAUTIOUS,
    HOPEFUL,
    SpeedEstimate,
    estimate_speed,
    evaluations_per_move,
    flops_per_evaluation,
    flops_per_move,
    flops_per_update,
    simulations_per_move,
)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Memory and speed of a run on given devices.

    Attributes:
        config: the run.
        device: what each device can do.
        budget: bytes that each may use.
        memory: what it would use.
        cautious: the speed if the assumptions are at their cautious end.
        hopeful: at their hopeful end.
    """

    config: TrainConfig
    device: DeviceSpec
    budget: int
    memory: MemoryEstimate
    cautious: SpeedEstimate
    hopeful: SpeedEstimate

    @property
    def fits(self) -> bool:
        """Whether the devices' memory is enough."""
        return self.memory.total <= self.budget

    @property
    def refusal(self) -> str:
        """Why it does not fit, and what would."""
        return refusal(self.config, self.memory, self.budget, self.device.platform)


def estimate_run(config: TrainConfig, where: Layout, device: DeviceSpec, budget: int) -> Estimate:
    """All there is to say of a run before it starts.

    Args:
        config: the run.
        where: the devices that share it.
        device: what each of them can do.
        budget: bytes that each may use.
    """
    cautious, hopeful = (estimate_speed(config, where, device, case) for case in (CAUTIOUS, HOPEFUL))
    return Estimate(
        config, device, budget, estimate_memory(config, where, device.platform), cautious, hopeful
    )


def number(value: float) -> str:
    """Three figures and a power of a thousand: 1.06 G."""
    for unit in ("", " k", " M", " G", " T", " P"):
        if abs(value) < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g} E"


def rate(cautious: float, hopeful: float) -> str:
    """A range of whole numbers, or one where both ends are alike."""
    low, high = (f"{value:,.0f}" if value >= 10 else f"{value:.2g}" for value in (cautious, hopeful))
    return low if low == high else f"{low} to {high}"


def estimate_sections(estimate: Estimate) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Titles and rows of (what, how much, of what) for a table."""
    config, memory = estimate.config, estimate.memory
    slow, fast = estimate.cautious, estimate.hopeful
    where = memory.layout
    tree = tree_bytes(config.game, config.search, 1)
    evaluations = evaluations_per_move(config)
    work = [
        ("parameters", f"{parameter_count(config.network, config.game):,}", ""),
        ("FLOPs an evaluation", number(flops_per_evaluation(config)), "of one position by the network"),
        ("FLOPs a position", number(flops_per_move(config)), f"of self-play, {evaluations:.4g} evaluations"),
        ("FLOPs an update", number(flops_per_update(config)), f"batch of {config.learn.batch_size:,}"),
        ("tree a game", gib(tree), f"{gib(tree / (1 + config.search.num_simulations))} a simulation"),
    ]
    sizes = [(name, gib(size), what) for name, size, what in memory_rows(config, memory)]
    sizes.append(("at most at once", gib(memory.total), "of self-play, update and evaluation the largest"))
    verdict = "fits" if estimate.fits else "DOES NOT FIT"
    sizes.append(("may use", gib(estimate.budget), verdict))
    simulations = simulations_per_move(config)
    selfplay = (slow.selfplay_positions_per_second, fast.selfplay_positions_per_second)
    bound = slow.bound if slow.bound == fast.bound else f"{slow.bound} or {fast.bound}"
    speed = [
        ("self-play", rate(*selfplay), "positions/s"),
        ("", rate(*(simulations * value for value in selfplay)), "simulations/s"),
        ("updates", rate(slow.updates_per_second, fast.updates_per_second), "a second"),
        ("whole iterations", rate(slow.positions_per_second, fast.positions_per_second), "positions/s"),
        ("an iteration", rate(slow.iteration_seconds, fast.iteration_seconds), "seconds"),
        ("bound by", bound, shares(fast)),
    ]
    if config.max_minutes == 0:
        hours = [config.iterations * s.iteration_seconds / 3600 for s in (slow, fast)]
        speed.append(("the run", rate(*hours), f"hours for {config.iterations:,} iterations"))
    devices = f"{where.devices} x {estimate.device.name}"
    if where.split:
        devices += f", {where.actors} play and {where.learners} learn"
    return [
        (f"Work: {devices}", work),
        ("Memory of each device", sizes),
        ("Speed, expected, without evaluations and compiling", speed),
    ]


def shares(speed: SpeedEstimate) -> str:
    """What an iteration's time goes to, the largest first."""
    seconds = speed.seconds_by_bound
    total = sum(seconds.values())
    order = sorted(seconds, key=lambda name: -seconds[name])
    return ", ".join(f"{name} {seconds[name] / total:.0%}" for name in order if seconds[name] > 0.005 * total)


def memory_line(config: TrainConfig, memory: MemoryEstimate, budget: int) -> str:
    """One line for the start of a run."""
    each = "" if memory.layout.devices == 1 else " on each device"
    parameters = parameter_count(config.network, config.game)
    return (
        f"{parameters:,} parameters, replay buffer of {config.replay.capacity:,} positions; "
        f"about {gib(memory.total)} of {gib(budget)} of memory{each}"
    )
