r"""Sweeps: configurations x seeds, run one after another or as array jobs, and compared with intervals. Try:

    python experiments/sweep.py run --folder runs/rates --preset tictactoe --seeds 0 1 2 \
        --vary learn.learning-rate 2e-3 4e-3 --set evaluation.playouts-step 0
    python experiments/sweep.py list --folder runs/rates
    python experiments/sweep.py run --folder runs/rates --seeds 0 1 2 3 4       # two more seeds
    python experiments/sweep.py report --folder runs/rates --plot curves.png
    python experiments/sweep.py script --folder runs/big --file big.toml --time 4:00:00 --gpus 1 | sbatch

A sweep is defined by such options or by a TOML file, see experiments/sweep_plan.py, and its folder keeps the
definition. Runs that are finished are not repeated, and those that were stopped go on.
"""

import dataclasses
import json
import os
import pathlib
import shlex
import sys
from typing import Annotated, Any, Literal, get_args

import jax
import sweep_report
import tyro
from aggregate import REPLICATES
from rows import append_row, command_line
from sweep_plan import DEFINITION_FILE, PlannedRun, parse_value, plan, read_definition
from sweep_runs import BusyError, check_folders, replace_process, run_all, run_state

from gomoku_jax.checkpoint import CheckpointError
from gomoku_jax.metrics import provenance
from gomoku_jax.presets import PRESETS

_TASK_VARIABLE = "SLURM_ARRAY_TASK_ID"


@dataclasses.dataclass(frozen=True)
class Definition:
    """Which sweep: what the folder holds, or what a file or the other options say."""

    folder: pathlib.Path
    """Of the sweep; a run's is VARIANT/seed_N below, VARIANT/TASK/seed_N where there are several tasks."""
    file: pathlib.Path | None = None
    """A TOML file that defines the sweep."""
    preset: tuple[Literal[tuple(PRESETS)], ...] = ()  # type: ignore[valid-type]
    """The configuration to start from; several make a run of each, and scores over all of them."""
    seeds: tuple[int, ...] = ()
    """One run each; in place of those of the file or the folder."""
    set: tyro.conf.UseAppendAction[tuple[tuple[str, str], ...]] = ()
    """A field of all runs and its value, as `--set learn.batch-size 512`."""
    vary: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """A field and the values to try, as `--vary search.num-simulations 16 32`; several are crossed."""


@dataclasses.dataclass(frozen=True)
class Run(Definition):
    """Train the runs that are missing, and go on with those that were stopped."""

    jobs: int = 1
    """Runs at a time. On a CPU a run uses all cores; with more at a time, give each --num-devices 1."""
    num_devices: int | None = None
    """Devices of each run, all by default; other numbers give other games."""
    gpus: tuple[str, ...] = ()
    """One run at a time on each of these, by CUDA_VISIBLE_DEVICES, in place of --jobs."""
    index: int | None = None
    """Only this run, by its number in `list`, in this process, with its output here."""
    array: bool = False
    """The same, with the number that SLURM gives the task of an array job."""


@dataclasses.dataclass(frozen=True)
class List(Definition):
    """Print the runs with their numbers and how far they are; nothing is written."""


@dataclasses.dataclass(frozen=True)
class Script(Definition):
    """Print a script for sbatch: an array job of the runs that are not finished."""

    time: str | None = None
    """Limit of a task, as 4:00:00. Two minutes before it the run saves and ends; a new script goes on."""
    gpus: int = 0
    """Of a task."""
    cpus: int = 0
    """Of a task; 0 does not ask."""
    memory: str | None = None
    """Of a task, as 16G."""
    at_once: int = 0
    """Tasks at a time, at most; 0 is no limit."""
    sbatch: tuple[str, ...] = ()
    """More of sbatch's options without their dashes, as `partition=gpu account=mine`."""
    setup: tuple[str, ...] = ()
    """Lines of shell before the run, as `"module load cuda"`."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Compare the variants: tables, and where asked a picture and JSON rows."""

    folder: pathlib.Path
    """Of the sweep."""
    metric: str = "evaluation/score"
    """What is compared, a key of metrics.jsonl."""
    axis: Literal[get_args(sweep_report.Axis)] = "iteration"  # type: ignore[valid-type]
    """Where runs are compared: at the last point that all have. But for iterations, lines join the points."""
    base: str | None = None
    """The variant that others are compared with; by default the first."""
    lower_is_better: bool = False
    """Of the metric, as for losses."""
    finished: bool = False
    """Leave out the runs that are not finished."""
    replicates: int = REPLICATES
    """Of the bootstrap."""
    markdown: pathlib.Path | None = None
    """Write the tables here too."""
    plot: pathlib.Path | None = None
    """Draw the curves here, a PNG."""
    json: pathlib.Path | None = None
    """Append a JSON row for each variant here."""


def definition_of(arguments: Definition | Report) -> dict[str, Any]:
    """The sweep's table, of the options, the file, or the folder.

    Raises:
        ValueError: none of them says any.
    """
    stored = arguments.folder / DEFINITION_FILE
    if isinstance(arguments, Report):
        if not stored.exists():
            raise ValueError(f"{arguments.folder} holds no sweep: there is no {DEFINITION_FILE}")
        return read_definition(stored)
    if arguments.file is not None:
        definition = read_definition(arguments.file)
    elif arguments.preset or arguments.set or arguments.vary:
        definition = {}
    elif stored.exists():
        definition = read_definition(stored)
    else:
        raise ValueError(
            f"{arguments.folder} holds no sweep yet: define it by --file, or by --preset, --vary and --set"
        )
    if arguments.preset:
        definition = {key: value for key, value in definition.items() if key not in ("preset", "tasks")}
        definition["presets"] = list(arguments.preset)
    if arguments.seeds:
        definition["seeds"] = list(arguments.seeds)
    for key, given in (("common", arguments.set), ("grid", arguments.vary)):
        table = dict(definition.get(key, {}))
        for item in given:
            if len(item) < 2:
                shown = " ".join(item)
                raise ValueError(f"--vary {shown}: a field and its values, as learn.learning-rate 1e-3 2e-3")
            name, *values = item
            if name in table:
                raise ValueError(f"{name}: given twice")
            found = [parse_value(value) for value in values]
            table[name] = found[0] if key == "common" else found
        if table:
            definition[key] = table
    return definition


def planned(arguments: Definition | Report, save: bool) -> tuple[PlannedRun, ...]:
    """The checked runs of a sweep, whose definition is saved in its folder where asked.

    Raises:
        ValueError: the definition is wrong, or the folder holds runs of another.
    """
    definition = definition_of(arguments)
    runs = plan(definition)
    check_folders(arguments.folder, runs)
    stored = arguments.folder / DEFINITION_FILE
    if save and (not stored.exists() or read_definition(stored) != definition):
        arguments.folder.mkdir(parents=True, exist_ok=True)
        new = stored.with_suffix(f".{os.getpid()}")  # whole or not at all: tasks may read it just now
        new.write_text(json.dumps(definition, indent=2) + "\n")
        new.replace(stored)
    return runs


def run(arguments: Run) -> int:
    """Trains what is missing; the exit status."""
    if arguments.jobs < 1:
        raise ValueError(f"--jobs {arguments.jobs}: at least 1")
    if len(set(arguments.gpus)) != len(arguments.gpus):
        raise ValueError(f"--gpus {' '.join(arguments.gpus)}: each once")
    devices = arguments.num_devices
    if devices is not None and devices < 1:
        raise ValueError(f"--num-devices {devices}: at least 1")
    options = () if devices is None else ("--num-devices", str(devices))
    index = arguments.index
    if arguments.array:
        text = os.environ.get(_TASK_VARIABLE, "")
        if index is not None or not text.isdecimal():
            raise ValueError(
                f"--array: {_TASK_VARIABLE} is {text!r}; it is set in an array job, elsewhere use --index"
            )
        index = int(text)
    runs = planned(arguments, save=True)
    if index is not None:
        if not 0 <= index < len(runs):
            raise ValueError(f"--index {index}: the sweep's runs are 0 to {len(runs) - 1}")
        return run_one(arguments.folder, runs[index], options)
    states = [run_state(arguments.folder / run.place, run.config) for run in runs]
    numbers = [number for number, state in enumerate(states) if state.kind != "finished"]
    print(f"{len(runs)} runs, {len(runs) - len(numbers)} of them finished", flush=True)
    slots = [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in arguments.gpus] or [{}] * arguments.jobs
    outcome = run_all(arguments.folder, [runs[number] for number in numbers], numbers, slots, options)
    if outcome.stopped:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    if outcome.failed:
        listed = ", ".join(str(run.place) for run in outcome.failed)
        print(f"error: {len(outcome.failed)} of {len(runs)} runs did not finish: {listed}", file=sys.stderr)
        return 1
    print(f"All finished. Compare: python experiments/sweep.py report --folder {arguments.folder}")
    return 0


def run_one(folder: pathlib.Path, run: PlannedRun, options: tuple[str, ...]) -> int:
    """Becomes a run's training, unless it is finished; the exit status."""
    place = folder / run.place
    state = run_state(place, run.config)
    print(f"{run.place}: {state.describe(run.config)}", flush=True)
    return 0 if state.kind == "finished" else replace_process(run, place, options)


def list_runs(arguments: List) -> None:
    """Prints a line for each run, and how many are how far."""
    runs = planned(arguments, save=False)
    width = max(len(str(run.place)) for run in runs)
    count: dict[str, int] = {}
    for number, run in enumerate(runs):
        state = run_state(arguments.folder / run.place, run.config)
        count[state.kind] = count.get(state.kind, 0) + 1
        print(f"{number:>4}  {run.place!s:{width}}  {state.describe(run.config)}")
    print(f"{len(runs)} runs: " + ", ".join(f"{number} {kind}" for kind, number in count.items()))


def script(arguments: Script) -> str:
    """The array job; the definition is saved, for the tasks read it.

    Raises:
        ValueError: nothing is left to run, or a bad number.
    """
    for name, number in (("gpus", arguments.gpus), ("cpus", arguments.cpus), ("at-once", arguments.at_once)):
        if number < 0:
            raise ValueError(f"--{name} {number}: 0 or more")
    runs = planned(arguments, save=True)
    folder = arguments.folder.resolve()
    left = [i for i, run in enumerate(runs) if run_state(folder / run.place, run.config).kind != "finished"]
    if not left:
        raise ValueError(f"all {len(runs)} runs of {arguments.folder} are finished")
    limit = f"%{arguments.at_once}" if arguments.at_once else ""
    options = [f"job-name={folder.name}", f"array={ranges(left)}{limit}"]
    options += [f"output={folder}/slurm-%A_%a.out", "open-mode=append", "signal=B:TERM@120"]
    for name, value in (
        ("time", arguments.time),
        ("gpus", arguments.gpus),
        ("cpus-per-task", arguments.cpus),
        ("mem", arguments.memory),
    ):
        options += [f"{name}={value}"] if value else []
    options += [option.removeprefix("--") for option in arguments.sbatch]
    command = [
        sys.executable,
        str(pathlib.Path(__file__).resolve()),
        "run",
        "--folder",
        str(folder),
        "--array",
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH --{_sbatch_quoted(option)}" for option in options),
            "# Before the time limit the run saves and ends. Submit a new script to go on.",
            "set -euo pipefail",
            f"cd {shlex.quote(str(pathlib.Path.cwd()))}",
            *arguments.setup,
            f"exec {shlex.join(command)}",
            "",
        ]
    )


def _sbatch_quoted(option: str) -> str:
    name, equals, value = option.partition("=")
    return f'{name}="{value}"' if equals and any(c.isspace() for c in value) else option


def ranges(numbers: list[int]) -> str:
    """`0-3,5` for 0, 1, 2, 3 and 5; the numbers grow."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def report(arguments: Report, command: str) -> None:
    """Prints the tables, and writes what was asked for."""
    if arguments.replicates < 100:
        raise ValueError(f"--replicates {arguments.replicates}: at least 100")
    runs = planned(arguments, save=False)
    if arguments.finished:
        runs = tuple(r for r in runs if run_state(arguments.folder / r.place, r.config).kind == "finished")
    result = sweep_report.aggregate_sweep(
        arguments.folder,
        runs,
        arguments.metric,
        arguments.axis,
        arguments.base,
        arguments.lower_is_better,
        arguments.replicates,
    )
    text = sweep_report.table(result)
    print(text)
    if arguments.markdown is not None:
        arguments.markdown.write_text(text)
    if arguments.plot is not None:
        sweep_report.draw(result, arguments.plot)
    if arguments.json is not None:
        jax.config.update("jax_platforms", "cpu")  # an accelerator is for the runs
        facts = provenance() | {"command": command}
        for row in sweep_report.rows(result, arguments.folder, runs, facts):
            append_row(arguments.json, row)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 1 where a run failed, 2 for a mistake, 130 when stopped."""
    arguments = tyro.cli(
        Annotated[Run, tyro.conf.subcommand("run")]  # type: ignore[arg-type]
        | Annotated[List, tyro.conf.subcommand("list")]
        | Annotated[Script, tyro.conf.subcommand("script")]
        | Annotated[Report, tyro.conf.subcommand("report")],
        args=argv,
        description=__doc__,
    )
    try:
        match arguments:
            case Run():
                return run(arguments)
            case List():
                list_runs(arguments)
            case Script():
                print(script(arguments), end="")
            case Report():
                report(arguments, command_line("sweep.py", sys.argv[1:] if argv is None else argv))
    except (ValueError, OSError, CheckpointError, BusyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
