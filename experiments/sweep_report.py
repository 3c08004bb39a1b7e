"""The curves of a sweep's runs as tables, pictures and rows: interquartile means, intervals, improvement."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from aggregate import (
    CONFIDENCE,
    Estimate,
    coverage,
    interquartile_mean,
    probability_of_improvement,
)
from sweep_plan import PlannedRun
from sweep_runs import metrics_of

from gomoku_jax.agent import AgentError, read_card
from gomoku_jax.config import to_dict
from gomoku_jax.rating.tables import format_table

Axis = Literal["iteration", "games", "positions", "seconds", "cpu_seconds"]
PLAYOUTS = "evaluation/num_playouts"
_POINTS = 50  # of curves whose runs have no points in common
_ORIGIN = ("commit", "processor", "cores", "devices")


@dataclasses.dataclass(frozen=True)
class Curve:
    """A run's metric.

    Attributes:
        run: whose.
        x: float64 [P], growing.
        y: float64 [P].
        playouts: pure MCTS's at each point of an evaluation's metric; elsewhere None.
    """

    run: PlannedRun
    x: np.ndarray
    y: np.ndarray
    playouts: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class VariantResult:
    """A variant's scores where all runs are compared.

    Attributes:
        name: of the variant.
        scores: float64 [R] for each task.
        seeds: of these, for each task.
        total: interquartile mean over the runs of all tasks.
        improvement: probability of being better than the base; None for the base.
        x: float64 [P], for each task where curves are.
        curves: [P] likewise.
        runs: float64 [R, P] likewise.
    """

    name: str
    scores: dict[str, np.ndarray]
    seeds: dict[str, list[int]]
    total: Estimate
    improvement: Estimate | None
    x: dict[str, np.ndarray]
    curves: dict[str, Estimate]
    runs: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """All that a report tells.

    Attributes:
        metric: what is compared.
        axis: along what.
        tasks: names.
        at: where on the axis each task's runs are compared, the last point that all have.
        variants: the base first.
        overall: curves over all tasks, as those of a variant, where there are several and they share points.
        notes: what a reader must know beside the table.
        replicates: of the bootstrap.
        lower: whether lower is better.
    """

    metric: str
    axis: str
    tasks: tuple[str, ...]
    at: dict[str, float]
    variants: tuple[VariantResult, ...]
    overall: dict[str, tuple[np.ndarray, Estimate]]
    notes: tuple[str, ...]
    replicates: int
    lower: bool


def read_curve(run: PlannedRun, rows: Sequence[dict[str, Any]], metric: str, axis: Axis) -> Curve | None:
    """A run's metric along an axis; None where its rows have none. Points that are null are left out."""
    x = []
    for row in rows:
        if axis in ("games", "positions"):
            x.append((x[-1] if x else 0) + row.get(f"selfplay/{axis}", 0))
        else:
            x.append(row["iteration"] if axis == "iteration" else row.get(f"time/{axis}"))
    values = [(at, row.get(metric), row.get(PLAYOUTS)) for at, row in zip(x, rows, strict=True)]
    points = [point for point in values if point[0] is not None and isinstance(point[1], int | float)]
    if not points:
        return None
    return Curve(
        run,
        np.asarray([point[0] for point in points], np.float64),
        np.asarray([point[1] for point in points], np.float64),
        tuple(point[2] if metric.startswith("evaluation/") else None for point in points),
    )


def align(curves: Sequence[Curve], exact: bool) -> tuple[np.ndarray, np.ndarray]:
    """Curves at the same points.

    Args:
        curves: R of them.
        exact: at the points that all have; else at 50 points over the range that all have, on straight lines
            between the points of each.

    Returns:
        float64 [P], and float64 [R, P].

    Raises:
        ValueError: nothing is common to all.
    """
    if exact:
        x = functools.reduce(np.intersect1d, [curve.x for curve in curves])
        if len(x) == 0:
            raise ValueError("no iteration at which all runs have it")
        return x, np.stack([curve.y[np.searchsorted(curve.x, x)] for curve in curves])
    late, early = max(curves, key=lambda curve: curve.x[0]), min(curves, key=lambda curve: curve.x[-1])
    low, high = late.x[0], early.x[-1]
    if low > high:
        raise ValueError(
            f"{early.run.place} ends at {high:,.0f}, before {late.run.place} has its first point, "
            f"at {low:,.0f}"
        )
    x = np.linspace(low, high, _POINTS if high > low else 1)
    return x, np.stack([np.interp(x, curve.x, curve.y) for curve in curves])


def aggregate_sweep(
    folder: pathlib.Path,
    runs: Sequence[PlannedRun],
    metric: str,
    axis: Axis = "iteration",
    base: str | None = None,
    lower: bool = False,
    replicates: int = 10_000,
    seed: int = 0,
) -> SweepResult:
    """Reads the runs of a sweep and compares its variants.

    Args:
        folder: the sweep's.
        runs: those to read.
        metric: a key of the runs' metrics.
        axis: what the curves are drawn over, and what is equal where variants are compared.
        base: the variant that the others are compared with; None is the first.
        lower: whether lower is better.
        replicates: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        ValueError: no run has the metric, or no such variant, or the runs have no point in common.
    """
    curves, notes = _read(folder, runs, metric, axis)
    tasks = tuple(dict.fromkeys(curve.run.task for curve in curves))
    of, names = _groups(curves, tasks, base, notes)
    exact = axis == "iteration"
    xs: dict[str, np.ndarray] = {}
    values: dict[tuple[str, str], np.ndarray] = {}  # of a variant on a task, [R, P]
    for task in tasks:
        group = [curve for name in names for curve in of[name, task]]
        try:
            xs[task], found = align(group, exact)
        except ValueError as error:
            raise ValueError(f"task {task}, {metric}: {error}") from None
        parts = _split(found, [len(of[name, task]) for name in names])
        values |= {(name, task): part for name, part in zip(names, parts, strict=True)}
        notes += _cut_short(group, xs[task][-1], task if len(tasks) > 1 else "") if exact else []
        notes += _moving_opponent(group, xs[task][-1], metric)
    estimate = functools.partial(interquartile_mean, replicates=replicates, seed=seed)
    variants = []
    for name in names:
        scores = {task: values[name, task][:, -1] for task in tasks}
        improvement = None
        if name != names[0]:
            sign = -1 if lower else 1
            improvement = probability_of_improvement(
                [sign * scores[task] for task in tasks],
                [sign * values[names[0], task][:, -1] for task in tasks],
                replicates,
                seed=seed,
            )
        variants.append(
            VariantResult(
                name=name,
                scores=scores,
                seeds={task: [curve.run.seed for curve in of[name, task]] for task in tasks},
                total=estimate(list(scores.values())),
                improvement=improvement,
                x=xs,
                curves={task: estimate([values[name, task]]) for task in tasks},
                runs={task: values[name, task] for task in tasks},
            )
        )
    overall: dict[str, tuple[np.ndarray, Estimate]] = {}
    if len(tasks) > 1:
        pairs = [(name, task) for name in names for task in tasks]
        try:
            x, found = align([curve for pair in pairs for curve in of[pair]], exact)
        except ValueError:
            notes.append(f"The tasks have no {axis} in common, so there is no curve over all of them.")
        else:
            strata = dict(zip(pairs, _split(found, [len(of[pair]) for pair in pairs]), strict=True))
            overall = {name: (x, estimate([strata[name, task] for task in tasks])) for name in names}
    notes += _worth(variants, tasks)
    at = {task: float(xs[task][-1]) for task in tasks}
    return SweepResult(metric, axis, tasks, at, tuple(variants), overall, tuple(notes), replicates, lower)


def _split(values: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    return np.split(values, np.cumsum(lengths)[:-1])


def _read(
    folder: pathlib.Path, runs: Sequence[PlannedRun], metric: str, axis: Axis
) -> tuple[list[Curve], list[str]]:
    """The curves there are, and a note of the runs without."""
    curves, seen = [], set()
    for run in runs:
        rows = metrics_of(folder / run.place)
        seen |= {key for row in rows for key in row}
        curve = read_curve(run, rows, metric, axis)
        curves += [curve] if curve is not None else []
    if not curves:
        found = sorted(key for key in seen if "/" in key)
        has = f"they have {', '.join(found)}" if found else "none has any metrics yet"
        raise ValueError(f"--metric {metric}: no run has it; {has}")
    return curves, _missing(runs, curves, metric)


def _groups(
    curves: Sequence[Curve], tasks: Sequence[str], base: str | None, notes: list[str]
) -> tuple[dict[tuple[str, str], list[Curve]], list[str]]:
    """The curves by variant and task, and the variants that have some of every task, the base first."""
    names = list(dict.fromkeys(curve.run.variant for curve in curves))
    if base is not None and base not in names:
        raise ValueError(f"--base {base}: no run of it; there are {', '.join(names)}")
    of: dict[tuple[str, str], list[Curve]] = {(name, task): [] for name in names for task in tasks}
    for curve in curves:
        of[curve.run.variant, curve.run.task].append(curve)
    for name in tuple(names):
        without = [task for task in tasks if not of[name, task]]
        if without:
            notes.append(f"{name} is left out: it has no run of {', '.join(without)}.")
            names.remove(name)
    if not names or (base is not None and base not in names):
        raise ValueError(f"{base or 'no variant'}: no run of some of the tasks {', '.join(tasks)}")
    return of, sorted(names, key=lambda name: name != (base or names[0]))


def _missing(runs: Sequence[PlannedRun], curves: Sequence[Curve], metric: str) -> list[str]:
    there = {curve.run.place for curve in curves}
    without = [str(run.place) for run in runs if run.place not in there]
    if not without:
        return []
    listed = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
    return [f"{len(without)} of {len(runs)} runs have no {metric} yet and are left out: {listed}."]


def _cut_short(curves: Sequence[Curve], at: float, task: str) -> list[str]:
    """What the comparison leaves away, and which run is the cause."""
    longest = max(curve.x[-1] for curve in curves)
    if longest <= at:
        return []
    shortest = min(curves, key=lambda curve: curve.x[-1])
    where = f"{task}: " if task else ""
    return [
        f"{where}Runs are compared at iteration {at:g}, the last that all have; the longest goes to "
        f"{longest:g}, the shortest, {shortest.run.place}, to {shortest.x[-1]:g}."
    ]


def _moving_opponent(curves: Sequence[Curve], at: float, metric: str) -> list[str]:
    """A warning where scores are against different opponents."""
    found = {
        curve.playouts[int(np.searchsorted(curve.x, at, side="right")) - 1]
        for curve in curves
        if curve.playouts[0] is not None
    }
    if len(found) < 2:
        return []
    numbers = sorted(number for number in found if number is not None)
    return [
        f"Warning: {metric} is against pure MCTS of {numbers[0]} playouts in some runs and {numbers[-1]} in "
        "others, since it grows when an agent wins all games: set evaluation.playouts_step = 0 to compare."
    ]


def _worth(variants: Sequence[VariantResult], tasks: Sequence[str]) -> list[str]:
    """What the intervals are worth, by the variant with the fewest runs."""
    fewest = min((tuple(len(v.scores[task]) for task in tasks) for v in variants), key=sum)
    notes = []
    if len({tuple(len(v.scores[task]) for task in tasks) for v in variants}) > 1 or len(set(fewest)) > 1:
        notes.append("The numbers of seeds differ, so that the variants are not equally well known.")
    each = f"{min(fewest)} seed{'s' if min(fewest) > 1 else ''}" + (" a task" if len(tasks) > 1 else "")
    if max(fewest) == 1:
        return [*notes, f"{each}: there is no interval, and differences may be chance alone. Run more seeds."]
    held = coverage(fewest)
    text = (
        f"{each}: an interval like these holds the true value in about {100 * held:.0f} of 100 sweeps, not "
        f"in {100 * CONFIDENCE:.0f} (simulated for normally distributed runs)"
    )
    if held < CONFIDENCE - 0.03:
        text += ": few runs show too little of how they spread. Run more seeds"
    return [*notes, text + "."]


def number(value: float) -> str:
    """Three decimals, fewer for large numbers and more for small ones."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if size >= 0.01 or size == 0 else f"{value:.3g}"


def shown(estimate: Estimate) -> str:
    """`0.912 [0.880, 0.941]`, without the interval where there is none."""
    text = number(float(estimate.value))
    if np.isnan(estimate.low):
        return text
    return f"{text} [{number(float(estimate.low))}, {number(float(estimate.high))}]"


def table(result: SweepResult) -> str:
    """Markdown: a line for each variant, one more table of the tasks where there are several, the notes."""
    base = result.variants[0].name
    heads = ["variant", "seeds", "interquartile mean", "lowest to highest", f"better than {base}"]
    lines = []
    for variant in result.variants:
        counts = [len(scores) for scores in variant.scores.values()]
        every = np.concatenate(list(variant.scores.values()))
        lines.append(
            [
                variant.name,
                str(counts[0]) if len(set(counts)) == 1 else " + ".join(map(str, counts)),
                shown(variant.total),
                f"{number(every.min())} to {number(every.max())}",
                shown(variant.improvement) if variant.improvement is not None else "",
            ]
        )
    where = {f"{result.axis} {number(at) if at % 1 else f'{at:,.0f}'}" for at in result.at.values()}
    if len(where) == 1:
        place = where.pop()
    else:
        place = ", ".join(f"{task} {at:,.0f}" for task, at in result.at.items()) + f" ({result.axis})"
    several = f", over the tasks {', '.join(result.tasks)}" if len(result.tasks) > 1 else ""
    if len(result.variants) == 1:
        heads, lines = heads[:-1], [line[:-1] for line in lines]
    text = f"**{result.metric}** at {place}{several}\n\n" + format_table(heads, lines, markdown=True)
    if len(result.tasks) > 1:
        cells = [[v.name, *(shown(_last(v.curves[task])) for task in result.tasks)] for v in result.variants]
        text += "\n" + format_table(["variant", *result.tasks], cells, markdown=True)
    better = "lower" if result.lower else "higher"
    notes = [
        f"Brackets are {100 * CONFIDENCE:.0f} % intervals: percentiles over {result.replicates:,} draws of "
        + ("the seeds within each task." if len(result.tasks) > 1 else "the seeds."),
    ]
    if len(result.variants) > 1:
        notes.append(
            f'"Better than {base}" is how often a run ends {better} than one of {base}, ties counted half; '
            "0.5 is no difference."
        )
    return text + "\n" + "".join(f"* {note}\n" for note in [*notes, *result.notes])


def _last(curve: Estimate) -> Estimate:
    return Estimate(curve.value[-1], curve.low[-1], curve.high[-1])


def rows(
    result: SweepResult, folder: pathlib.Path, runs: Sequence[PlannedRun], facts: dict[str, Any]
) -> list[dict[str, Any]]:
    """A JSON row for each variant.

    Args:
        result: of these runs.
        folder: the sweep's.
        runs: that were read.
        facts: for every row: provenance of the report, and the command.
    """
    found = []
    for variant in result.variants:
        mine = [run for run in runs if run.variant == variant.name]
        first = {run.task: run for run in reversed(mine)}
        row = {
            "sweep": folder.resolve().name,
            "variant": variant.name,
            "fields": mine[0].varied,
            "metric": result.metric,
            "axis": result.axis,
            "at": result.at,
            "seeds": variant.seeds,
            "scores": {task: scores.tolist() for task, scores in variant.scores.items()},
            "iqm": _plain(variant.total),
            "replicates": result.replicates,
            "notes": list(result.notes),
            "curves": {
                task: {"x": variant.x[task].tolist(), **_plain(curve)}
                for task, curve in variant.curves.items()
            },
            "configs": {task: to_dict(run.config) | {"seed": None} for task, run in first.items()},
            "trained_on": _origins([folder / run.place for run in mine]),
        }
        if variant.improvement is not None:
            row["improvement"] = {"over": result.variants[0].name, **_plain(variant.improvement)}
        found.append(row | facts)
    return found


def _plain(estimate: Estimate) -> dict[str, Any]:
    """For JSON, which has no NaN."""

    def part(values: np.ndarray) -> Any:
        plain = values.astype(object)
        plain[np.isnan(values)] = None
        return plain.tolist()

    return {"value": part(estimate.value), "low": part(estimate.low), "high": part(estimate.high)}


def _origins(places: Sequence[pathlib.Path]) -> list[dict[str, Any]]:
    """Commit and hardware of the runs, each once."""
    found: list[dict[str, Any]] = []
    for place in places:
        try:
            info = read_card(place)["info"]
        except AgentError:
            continue
        origin = {key: info[key] for key in _ORIGIN if key in info}
        if origin not in found:
            found.append(origin)
    return found


def draw(result: SweepResult, path: pathlib.Path) -> None:
    """A PNG: a panel for each task, and one over all where there are several; thin lines are runs."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    import matplotlib.pyplot as plt

    panels = [*result.tasks, *(["all tasks"] if result.overall else [])]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(1.5 + 4.5 * len(panels), 4), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes.flat, panels, strict=True):
        for i, variant in enumerate(result.variants):
            if panel in result.tasks:
                x, curve = variant.x[panel], variant.curves[panel]
                for y in variant.runs[panel]:
                    axis.plot(x, y, color=f"C{i}", linewidth=0.5, alpha=0.5)
            else:
                x, curve = result.overall[variant.name]
            marker = "o" if len(x) < 20 else None
            axis.plot(
                x, curve.value, color=f"C{i}", linewidth=1.6, marker=marker, markersize=3, label=variant.name
            )
            if not np.isnan(curve.low).any():
                axis.fill_between(x, curve.low, curve.high, color=f"C{i}", alpha=0.15, linewidth=0)
        axis.set_title(panel if len(panels) > 1 else "", fontsize=9)
        axis.set_xlabel(result.axis.replace("_", " "), fontsize=8)
        axis.grid(alpha=0.3)
    axes.flat[0].set_ylabel(f"{result.metric}, interquartile mean", fontsize=8)
    axes.flat[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
