"""Aggregates over seeds and tasks: against closed forms, every possible resample, and plain Python."""

import itertools
import random
import statistics

import numpy as np
import pytest
from aggregate import coverage, interquartile_mean, iqm, probability_of_improvement
from scipy import stats


def plain_iqm(values) -> float:
    """Without a quarter of the values at each end, rounded down."""
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7.0], 7.0), ([1, 5], 3.0), ([0, 1, 5], 2.0), ([100, 2, 1, 3], 2.5), ([0, 1, 2, 3, 4, 90], 2.5)],
)
def test_the_interquartile_mean_of_known_numbers(values, expected):
    assert iqm(np.asarray(values, float)) == pytest.approx(expected)


def test_the_interquartile_mean_drops_a_quarter_rounded_down():
    rng = np.random.default_rng(0)
    for n in range(1, 18):
        values = rng.normal(size=(n, 3))
        expected = [plain_iqm(column) for column in values.T]
        np.testing.assert_allclose(iqm(values), expected, rtol=1e-12)
        # Tasks are pooled.
        tasks = np.split(values, [n // 3]) if n >= 3 else [values]
        np.testing.assert_allclose(interquartile_mean(tasks, 100).value, expected, rtol=1e-12)


def test_an_interval_is_of_all_resamples_within_the_tasks():
    tasks = [np.array([0.11, 0.93]), np.array([0.27, 0.58, 0.71])]
    possible = sorted(
        plain_iqm([tasks[0][i] for i in a] + [tasks[1][i] for i in b])
        for a in itertools.product(range(2), repeat=2)
        for b in itertools.product(range(3), repeat=3)
    )
    assert len(possible) == 108
    for tail in (5.5, 20.5):  # in the middle of a step, where a few draws more or less change nothing
        found = interquartile_mean(tasks, 20_000, confidence=1 - 2 * tail / 108)
        assert found.value == pytest.approx(plain_iqm([0.11, 0.93, 0.27, 0.58, 0.71]))
        assert found.low == pytest.approx(possible[int(tail)], abs=1e-9)
        assert found.high == pytest.approx(possible[107 - int(tail)], abs=1e-9)


def test_an_interval_is_that_of_a_plain_bootstrap():
    rng = random.Random(1)
    tasks = [[rng.gauss(task, 1 + task) for _ in range(6 + task)] for task in range(3)]
    drawn = sorted(
        plain_iqm([x for task in tasks for x in rng.choices(task, k=len(task))]) for _ in range(40_000)
    )
    found = interquartile_mean([np.asarray(task) for task in tasks], 40_000)
    assert found.low == pytest.approx(drawn[1000], abs=0.03)
    assert found.high == pytest.approx(drawn[39_000], abs=0.03)
    assert found.high - found.low > 0.5


def test_a_run_is_drawn_with_its_whole_curve():
    first = np.random.default_rng(2).random(7)
    found = interquartile_mean([np.stack([first, 1 - first, first + 2], axis=1)], 2000)
    np.testing.assert_allclose(found.low[1], 1 - found.high[0], rtol=1e-12)
    np.testing.assert_allclose(found.high[1], 1 - found.low[0], rtol=1e-12)
    np.testing.assert_allclose(found.low[2], found.low[0] + 2, rtol=1e-12)
    again = interquartile_mean([first], 2000)
    assert again == interquartile_mean([first], 2000)  # the same seed, the same numbers
    assert again.high != interquartile_mean([first], 2000, seed=1).high


def test_three_runs_have_their_range_as_interval():
    # All three draws are the lowest run in 1 of 27 cases, which is more than 2.5 %.
    found = interquartile_mean([np.array([0.2, 0.9, 0.4])])
    assert (found.low, found.high) == pytest.approx((0.2, 0.9))


def test_improvement_is_mann_and_whitneys_statistic_over_the_pairs():
    rng = np.random.default_rng(3)
    x = [rng.integers(0, 6, n).astype(float) for n in (4, 7, 3)]
    y = [rng.integers(0, 6, n).astype(float) for n in (5, 3, 3)]
    shares = [stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)) for a, b in zip(x, y, strict=True)]
    found, back = probability_of_improvement(x, y), probability_of_improvement(y, x)
    assert found.value == pytest.approx(np.mean(shares))
    assert back.value == pytest.approx(1 - np.mean(shares))
    drawn = []
    for _ in range(2000):
        means = []
        for a, b in zip(x, y, strict=True):
            a, b = rng.choice(a, len(a)), rng.choice(b, len(b))
            means.append(np.mean([(p > q) + (p == q) / 2 for p in a for q in b]))
        drawn.append(np.mean(means))
    assert found.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.02)
    assert found.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.02)
    better = probability_of_improvement([np.array([2.0, 3.0])], [np.array([0.0, 1.0, 1.5])])
    assert (better.value, better.low, better.high) == (1.0, 1.0, 1.0)
    same = probability_of_improvement([np.ones(4)], [np.ones(3)])
    assert (same.value, same.low, same.high) == (0.5, 0.5, 0.5)


def test_one_run_has_no_interval():
    for found in (
        interquartile_mean([np.array([0.5]), np.array([1.0])]),
        probability_of_improvement([np.array([0.5])], [np.array([0.25])]),
    ):
        assert np.isfinite(found.value) and np.isnan(found.low) and np.isnan(found.high)
    assert coverage((1, 1)) == 0.0


@pytest.mark.parametrize("runs", [2, 3, 4])
def test_coverage_of_few_runs_is_that_of_their_range(runs):
    # Up to four runs the interval is their range, which misses the median when all are on one side of it.
    expected = 1 - 2 ** (1 - runs)
    error = (expected * (1 - expected) / 4000) ** 0.5
    assert coverage((runs,)) == pytest.approx(expected, abs=3 * error)


def test_refusals():
    with pytest.raises(ValueError, match="at least one"):
        interquartile_mean([np.ones(2), np.ones(0)])
    with pytest.raises(ValueError, match="score nan"):
        interquartile_mean([np.array([1.0, np.nan])])
    with pytest.raises(ValueError, match="2 tasks against 1"):
        probability_of_improvement([np.ones(2)] * 2, [np.ones(2)])
