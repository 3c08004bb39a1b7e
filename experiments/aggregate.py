"""Runs of several seeds, and of several tasks, as one number with an interval.

The interquartile mean, the stratified bootstrap and the probability of improvement are those of Agarwal et
al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021,
https://arxiv.org/abs/2108.13264, as their library rliable has them. A stratum is a task: runs are drawn again
within it, never across.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats  # a part of JAX's own requirements

REPLICATES = 10_000
CONFIDENCE = 0.95
_CHUNK = 2_000_000  # numbers of the resamples held at once


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number and the ends of its interval, or curves of them, float64 [...].

    Attributes:
        value: of the runs themselves.
        low: lower end; NaN where no task has two runs, so that nothing can be drawn again.
        high: upper end, likewise.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def iqm(scores: np.ndarray, axis: int = 0) -> np.ndarray:
    """The mean without the lowest quarter of the runs and the highest; a quarter of a number is rounded down.

    So three runs are all used, and four lose two.

    Args:
        scores: float [R, ...].
        axis: that of the runs.
    """
    return np.asarray(stats.trim_mean(scores, 0.25, axis=axis))


def interquartile_mean(
    tasks: Sequence[np.ndarray],
    replicates: int = REPLICATES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Estimate:
    """The interquartile mean over all runs of all tasks, with a percentile bootstrap interval.

    A run keeps together: all points of its curve are drawn at once.

    Args:
        tasks: float [R, ...] for each task, the scores of its runs; R may differ, the rest not.
        replicates: of the bootstrap.
        confidence: that the interval is made for.
        seed: of the bootstrap.

    Raises:
        ValueError: a task without runs, or a score that is not finite.
    """
    tasks = _checked(tasks)
    value = iqm(np.concatenate(tasks))
    if all(len(task) == 1 for task in tasks):
        return _without_interval(value)
    rng = np.random.default_rng(seed)
    size = sum(task.size for task in tasks)
    samples = []
    for count in _chunks(replicates, size):
        drawn = [task[rng.integers(len(task), size=(count, len(task)))] for task in tasks]
        samples.append(iqm(np.concatenate(drawn, axis=1), axis=1))
    return Estimate(value, *_percentiles(np.concatenate(samples), confidence))


def probability_of_improvement(
    tasks: Sequence[np.ndarray],
    base: Sequence[np.ndarray],
    replicates: int = REPLICATES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Estimate:
    """How likely a run scores higher than one of the base, ties counted half; the mean over tasks.

    For a task it is Mann and Whitney's U over the number of pairs. Both sides are drawn again independently.

    Args:
        tasks: float [R] for each task, the scores of its runs.
        base: float [S] for each task, of what it is compared with.
        replicates: of the bootstrap.
        confidence: that the interval is made for.
        seed: of the bootstrap.

    Raises:
        ValueError: a task without runs, a score that is not finite, or different numbers of tasks.
    """
    tasks, base = _checked(tasks), _checked(base)
    if len(tasks) != len(base):
        raise ValueError(f"{len(tasks)} tasks against {len(base)}: improvement is over the same tasks")
    wins = [(np.sign(x[:, None] - y[None, :]) + 1) / 2 for x, y in zip(tasks, base, strict=True)]
    value = np.asarray(np.mean([table.mean() for table in wins]))
    if all(table.size == 1 for table in wins):
        return _without_interval(value)
    rng = np.random.default_rng(seed)
    size = sum(table.size for table in wins)
    samples = []
    for count in _chunks(replicates, size):
        means = []
        for table in wins:
            rows, columns = (rng.integers(n, size=(count, n)) for n in table.shape)
            means.append(table[rows[:, :, None], columns[:, None, :]].mean((1, 2)))
        samples.append(np.mean(means, axis=0))
    return Estimate(value, *_percentiles(np.concatenate(samples), confidence))


@functools.cache
def coverage(runs: tuple[int, ...], confidence: float = CONFIDENCE, trials: int = 4000) -> float:
    """How often the interval of `interquartile_mean` holds the true value, if runs are normally distributed.

    By simulation, to a percent. It tells what an interval from few runs is worth: a bootstrap knows no
    more of their spread than they show, so that the intervals of few are too short.

    Args:
        runs: of each task.
        confidence: that the interval is made for.
        trials: sweeps simulated.
    """
    if max(runs) == 1:
        return 0.0
    rng = np.random.default_rng(0)
    # All trials are resampled by the same indices; their runs are independent.
    found = interquartile_mean([rng.standard_normal((n, trials)) for n in runs], 1000, confidence)
    return float(np.mean((found.low <= 0) & (found.high >= 0)))


def _checked(tasks: Sequence[np.ndarray]) -> list[np.ndarray]:
    arrays = [np.asarray(task, np.float64) for task in tasks]
    if not arrays or any(len(task) == 0 for task in arrays):
        raise ValueError("a task without runs: each needs at least one")
    for task in arrays:
        if not np.isfinite(task).all():
            raise ValueError(f"score {task[~np.isfinite(task)][0]}: scores must be finite")
    return arrays


def _without_interval(value: np.ndarray) -> Estimate:
    nothing = np.full(value.shape, np.nan)
    return Estimate(value, nothing, nothing)


def _chunks(replicates: int, size: int) -> Iterator[int]:
    """Numbers of replicates whose resamples, of `size` numbers each, fit into memory."""
    most = max(1, _CHUNK // size)
    while replicates > 0:
        yield min(replicates, most)
        replicates -= most


def _percentiles(samples: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Both ends, over the first axis."""
    low, high = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return np.asarray(low), np.asarray(high)
