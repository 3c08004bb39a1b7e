"""The research table: what each part of the method buys, one change at a time from the default. Try:

    python experiments/research.py run                              # every row, three seeds
    python experiments/research.py run --rows default puct --seeds 0 1 2 3 4
    python experiments/research.py run --minutes 30 --clock wall    # a larger budget, on an accelerator
    python experiments/research.py report --markdown table.md --plot curves.png

A run gets a fixed time, compilation included: by default ten minutes of CPU time, which is five minutes of
two cores, whatever else the machine does. It is scored by perfect play on solved positions, at its end and on
the way. Runs that are in the results already are not repeated, and one that was stopped goes on.
"""

import dataclasses
import math
import pathlib
import subprocess
import sys
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rows import append_row, read_rows

from gomoku_jax.agent import AGENT_FOLDER, load_agent
from gomoku_jax.checkpoint import holds_run, read_config
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import to_dict
from gomoku_jax.game import Gomoku
from gomoku_jax.metrics import provenance
from gomoku_jax.presets import PRESETS
from gomoku_jax.suites import load_solved, measure_perfect_play

RESULTS = pathlib.Path(__file__).parent / "results" / "research.jsonl"

# What a row is called, what it says, and what it changes on train.py's command line.
ROWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "default": ("the default", ()),
    "puct": ("PUCT for Gumbel", ("--search.algorithm", "puct")),
    "simulations-16": ("16 simulations for 32", ("--search.num-simulations", "16")),
    "simulations-64": ("64 simulations for 32", ("--search.num-simulations", "64")),
    "conv": ("the 32-64-128 convolutions for the residual tower", ("--network.kind", "conv")),
    "blocks-4": ("4 residual blocks for 3", ("--network.num-blocks", "4")),
    "no-symmetries": ("no symmetries", ("--replay.no-symmetries",)),
    "playout-cap": ("a playout cap: half of the moves get 8", ("--selfplay.full-search-fraction", "0.5")),
    "no-openings": ("no opening variety: all games from the empty board", ("--selfplay.opening-stones", "0")),
    "outcome-only": ("values from outcomes only", ("--selfplay.search-value-fraction", "0")),
    "improved-value": ("search's value under the improved policy", ("--selfplay.search-value", "improved")),
    "no-ema": ("no averaged parameters", ("--learn.ema-decay", "0")),
    "constant-rate": ("no learning-rate drop at the end", ("--learn.schedule", "constant")),
    "kl-adaptive": ("KL-adaptive learning rate", ("--learn.schedule", "kl_adaptive")),
    "surprise": ("policy-surprise weighting, half", ("--selfplay.surprise-weight", "0.5")),
    "growing-window": ("a replay window that grows as size^0.75", ("--replay.window-exponent", "0.75")),
    "tactical-helper": ("the tactical helper in the search", ("--search.tactical-helper",)),
    "tree-vcf": ("wins by continuous fours of 5 plies in the search", ("--search.tree-vcf", "5")),
}


@dataclasses.dataclass(frozen=True)
class Run:
    """Train and score."""

    rows: tuple[str, ...] = tuple(ROWS)
    """Rows of the table, by name."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One run each."""
    preset: Literal[tuple(PRESETS)] = "6x6x4"  # type: ignore[valid-type]
    """The default that the rows change; its board must be a solved one."""
    minutes: float = 10.0
    """Of a run."""
    clock: Literal["cpu", "wall"] = "cpu"
    """What the minutes count: CPU time over all cores, or the clock on the wall."""
    simulations: tuple[int, ...] = (0, 32, 100, 400)
    """At which the finished agent is scored; 0 is the network alone."""
    snapshots: int = 10
    """Iterations between the points of the curves."""
    workdir: pathlib.Path = pathlib.Path("runs/research")
    """Where the runs go."""
    results: pathlib.Path = RESULTS
    """JSON rows are appended here."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Print the table."""

    results: pathlib.Path = RESULTS
    """The JSON rows."""
    preset: str | None = None
    """Whose rows, where the file has those of several."""
    minutes: float | None = None
    """Of which budget, where the file has several."""
    clock: Literal["cpu", "wall"] | None = None
    """By which clock, where the file has both."""
    markdown: pathlib.Path | None = None
    """Write the table here too."""
    plot: pathlib.Path | None = None
    """Draw the curves here, a PNG."""


def train_command(arguments: Run, name: str, seed: int, workdir: pathlib.Path) -> list[str]:
    """The command line of one run, after the interpreter."""
    script = str(pathlib.Path(__file__).parent / "train.py")
    if holds_run(workdir):
        return [script, "--workdir", str(workdir), "--resume", "--quiet"]
    return [
        *(script, "--preset", arguments.preset, "--workdir", str(workdir), "--quiet"),
        *("--seed", str(seed), "--max-minutes", str(arguments.minutes), "--clock", arguments.clock),
        *("--iterations", "1000000", "--evaluation.every", "0", "--checkpoint-every", "20"),
        *("--snapshot-every", str(arguments.snapshots), "--no-compilation-cache"),
        *ROWS[name][1],
    ]


def train_in_process(command: list[str]) -> int:
    """Trains in a process of its own, whose CPU time is the run's; its exit status."""
    return subprocess.run([sys.executable, *command], check=False).returncode


def is_done(arguments: Run, name: str, seed: int) -> bool:
    """Is this run in the results?"""
    wanted = {"row": name, "seed": seed, "preset": arguments.preset} | _budget(arguments)
    return any(wanted.items() <= row.items() for row in read_rows(arguments.results))


def _budget(arguments: Run) -> dict[str, Any]:
    return {"minutes": arguments.minutes, "clock": arguments.clock}


def score(
    agent_path: pathlib.Path, simulations: tuple[int, ...], later: bool = True
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Perfect-play scores of an agent, a dict for each number of simulations, and its info."""
    agent = load_agent(agent_path)
    solved = load_solved(agent.game)
    results = measure_perfect_play(
        solved, agent.network, agent.params, agent.search, simulations, later=later
    )
    rows = [
        {
            "simulations": result.num_simulations,
            "positions": result.kept.total,
            "kept": result.kept.share,
            "sign_errors": result.sign_errors.share,
            "value_error": result.value_error,
        }
        for result in results
    ]
    return rows, agent.info


def run(arguments: Run) -> None:
    """Trains and scores what is missing.

    Raises:
        ValueError: no such row, or a board without solved positions.
        RuntimeError: a training failed; its own message has been printed.
    """
    for name in arguments.rows:
        if name not in ROWS:
            raise ValueError(f"row {name!r}: choose from {', '.join(ROWS)}")
    load_solved(Gomoku.from_config(PRESETS[arguments.preset].game))  # refuses a board without any
    use_compilation_cache()
    for seed in arguments.seeds:  # all rows of a seed first, so that a part of the table is a table
        for name in arguments.rows:
            if is_done(arguments, name, seed):
                print(f"{name}, seed {seed}: in the results already", flush=True)
                continue
            workdir = (
                arguments.workdir / f"{arguments.preset}-{arguments.minutes:g}{arguments.clock}-{name}-{seed}"
            )
            command = train_command(arguments, name, seed, workdir)
            status = train_in_process(command)
            config = read_config(workdir) if (workdir / "config.json").exists() else None
            if status != 0 or config is None:
                raise RuntimeError(f"{name}, seed {seed}: training ended with status {status}")
            agents = sorted((workdir / AGENT_FOLDER).glob("iteration_*"))
            curve = []
            for path in agents:
                rows, info = score(path, (0, 100), later=False)
                curve.append(
                    {
                        "iteration": info["iteration"],
                        "seconds": info["seconds"],
                        "cpu_seconds": info["cpu_seconds"],
                        "games": info["games"],
                        **{f"kept_{row['simulations']}": row["kept"] for row in rows},
                    }
                )
            scores, info = score(workdir / AGENT_FOLDER / "latest", arguments.simulations)
            row = {
                "row": name,
                "seed": seed,
                "preset": arguments.preset,
                **_budget(arguments),
                "scores": scores,
                "curve": curve,
                "info": info,
                "config": to_dict(config) | {"seed": seed},
                **provenance(),
                "command": f"research.py run --rows {name} --seeds {seed} --preset {arguments.preset} "
                f"--minutes {arguments.minutes:g} --clock {arguments.clock}",
            }
            arguments.results.parent.mkdir(parents=True, exist_ok=True)
            append_row(arguments.results, row)
            shown = ", ".join(f"{s['kept']:.3f} at {s['simulations']}" for s in scores)
            print(f"{name}, seed {seed}: {info['iteration']} iterations, kept {shown}", flush=True)


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean of runs, and Student's t interval at 95 % over them (infinite for one run)."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -math.inf, math.inf
    from scipy import stats  # a part of JAX's own requirements

    half = float(stats.t.ppf(0.975, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def minutes_at(row: dict[str, Any]) -> list[float]:
    """When the points of a run's curve were, by the clock of its budget."""
    seconds = "seconds" if row["clock"] == "wall" else "cpu_seconds"
    return [point[seconds] / 60 for point in row["curve"]]


def minutes_to(row: dict[str, Any], kept: float) -> float:
    """In how many minutes a run without search first gets to a share of value-keeping moves.

    Between points it is a line; infinity where it never gets there; the first point's time where that is
    there already.
    """
    before: tuple[float, float] | None = None
    for minutes, point in zip(minutes_at(row), row["curve"], strict=True):
        share = point["kept_0"]
        if share >= kept:
            if before is None:
                return minutes
            return before[0] + (minutes - before[0]) * (kept - before[1]) / (share - before[1])
        before = minutes, share
    return math.inf


def default_minutes(seeds: dict[int, dict[str, Any]], default: dict[int, dict[str, Any]]) -> str:
    """In how many minutes the default is where these runs end, without search; the median of the seeds."""
    common = sorted(set(seeds) & set(default))
    found = sorted(minutes_to(default[seed], seeds[seed]["curve"][-1]["kept_0"]) for seed in common)
    median = found[len(found) // 2]
    if math.isinf(median):
        return f"> {max(minutes_at(default[seed])[-1] for seed in common):.1f}"
    first = max(minutes_at(default[seed])[0] for seed in common)
    return f"< {median:.1f}" if median <= first else f"{median:.1f}"


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a line for each row, mean and interval over seeds, and the difference from the default.

    The difference is paired by seed. The last column is what a change costs in time.
    """
    by_name: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["row"], {})[row["seed"]] = row
    simulations = [score["simulations"] for score in rows[0]["scores"]]

    def kept(row: dict[str, Any], number: int) -> float:
        return next(score["kept"] for score in row["scores"] if score["simulations"] == number)

    def error(row: dict[str, Any]) -> float:
        return row["scores"][0]["value_error"]

    heads = ["no search" if number == 0 else f"{number}" for number in simulations]
    lines = [
        f"| change | seeds | iterations | games | {' | '.join(heads)} | value error | "
        "against the default at 100 | the default is there in |",
        "|---|---|---|---|" + "---|" * len(heads) + "---|---|---|",
    ]
    default = by_name.get("default", {})
    for name in [name for name in ROWS if name in by_name]:
        seeds = by_name[name]
        cells = [ROWS[name][0], str(len(seeds))]
        cells.append(f"{np.mean([row['info']['iteration'] for row in seeds.values()]):.0f}")
        cells.append(f"{np.mean([row['info']['games'] for row in seeds.values()]):,.0f}")
        for number in simulations:
            mean, low, high = interval([kept(row, number) for row in seeds.values()])
            cells.append(f"{mean:.3f}" + (f" ± {(high - low) / 2:.3f}" if math.isfinite(low) else ""))
        cells.append(f"{np.mean([error(row) for row in seeds.values()]):.3f}")
        common = sorted(set(seeds) & set(default))
        at = 100 if 100 in simulations else simulations[-1]
        differences = [kept(seeds[seed], at) - kept(default[seed], at) for seed in common]
        if name == "default" or not differences:
            cells += ["", ""]
        else:
            mean, low, high = interval(differences)
            cells.append(f"{mean:+.3f}" + (f" [{low:+.3f}, {high:+.3f}]" if math.isfinite(low) else ""))
            cells.append(f"{default_minutes(seeds, default)} min")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Moves that lose value over minutes, every run of a row beside those of the default."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    names = [name for name in ROWS if any(row["row"] == name for row in rows)]
    names = [name for name in names if name != "default"] or names
    columns = min(4, len(names))
    height = math.ceil(len(names) / columns)
    figure, axes = plt.subplots(
        height,
        columns,
        figsize=(1.5 + 3 * columns, 0.6 + 2.7 * height),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    floor = 0.5 / rows[0]["scores"][0]["positions"]  # a share of 0 has no logarithm

    def lines(name: str) -> list[tuple[list[float], list[float], list[float]]]:
        found = []
        for row in rows:
            if row["row"] == name:
                lost = [[max(1 - point[f"kept_{n}"], floor) for point in row["curve"]] for n in (0, 100)]
                found.append((minutes_at(row), *lost))
        return found

    for axis, name in zip(axes.flat, names, strict=False):
        for which, color in (("default", "0.6"), (name, "C0")):
            for minutes, raw, searched in lines(which):
                axis.plot(minutes, searched, color=color, linewidth=1.3)
                axis.plot(minutes, raw, color=color, linewidth=1.0, linestyle=":")
        axis.set_title(ROWS[name][0], fontsize=8)
        axis.grid(alpha=0.3, which="both")
        axis.set_xscale("log")
        axis.set_yscale("log")
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_locator(LogLocator(subs=(1, 2, 5)))
            side.set_major_formatter("{x:g}")
            side.set_minor_formatter("")
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("minutes" if rows[0]["clock"] == "wall" else "CPU minutes", fontsize=8)
    for axis in axes[:, 0]:
        axis.set_ylabel("moves that lose value, share", fontsize=8)
    figure.suptitle(
        "Blue: with the change, grey: the default; lines 100 simulations, dots no search", fontsize=9
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def report(arguments: Report) -> None:
    """Prints the table, and writes it and its curves where asked.

    Raises:
        ValueError: no results.
    """
    rows = read_rows(arguments.results)
    if not rows:
        raise ValueError(f"{arguments.results} holds no rows: run the table first")
    for key in ("preset", "minutes", "clock"):
        there = sorted({row[key] for row in rows})
        wanted = getattr(arguments, key)
        if wanted is None and len(there) > 1:
            raise ValueError(f"--{key}: say which; the file has {', '.join(map(str, there))}")
        if wanted is not None and wanted not in there:
            raise ValueError(f"--{key} {wanted}: the file has {', '.join(map(str, there))}")
        rows = [row for row in rows if wanted is None or row[key] == wanted]
    text = table(rows)
    print(text)
    if arguments.markdown is not None:
        arguments.markdown.write_text(text)
    if arguments.plot is not None:
        draw(rows, arguments.plot)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(
        Annotated[Run, tyro.conf.subcommand("run")] | Annotated[Report, tyro.conf.subcommand("report")],  # type: ignore[arg-type]
        args=argv,
        description=__doc__,
    )
    try:
        run(arguments) if isinstance(arguments, Run) else report(arguments)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
