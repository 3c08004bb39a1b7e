"""A run that is stopped and killed at random moments ends like one that never was. Try:

python experiments/soak.py --minutes 30 --signals 20
python experiments/soak.py --minutes 2 --signals 4 --num-devices 1 --json rows.jsonl

The disturbed run comes first, for as many iterations as it finds the time for; the undisturbed one then does
as many. Their last checkpoints are compared, every array to the last bit, but for the times that they took.
"""

import dataclasses
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import jax
import numpy as np
import tyro
from rows import append_row, command_line

from gomoku_jax.checkpoint import (
    CheckpointError,
    TrainingState,
    checkpoint_steps,
    holds_run,
    load_checkpoint,
)
from gomoku_jax.metrics import provenance, read_metrics

_TRAIN = pathlib.Path(__file__).parent / "train.py"
_SETTINGS = (
    # Without a schedule the length of the run, which nobody knows before, changes nothing.
    *("--learn.schedule", "constant", "--iterations", "1000000", "--keep-checkpoints", "3"),
    *("--evaluation.num-games", "8", "--evaluation.num-simulations", "16", "--evaluation.num-playouts", "50"),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What the command line takes."""

    preset: str = "tictactoe"
    minutes: float = 30.0
    """The disturbed run is disturbed for so long at least."""
    signals: int = 20
    """And so often at least: SIGTERM and SIGKILL, by chance."""
    longest_seconds: float = 120.0
    """The longest time between two signals; the times are uniform."""
    checkpoint_every: int = 3
    """Iterations between checkpoints."""
    evaluate_every: int = 10
    """Iterations between evaluations."""
    num_devices: int = 2
    """Devices of both runs."""
    seed: int = 0
    """Of the moments and the signals."""
    workdir: pathlib.Path | None = None
    """Where the two runs go; by default a temporary folder that is removed."""
    json: pathlib.Path | None = None
    """Append a row with the outcome to this file."""


def train_command(arguments: Arguments, workdir: pathlib.Path, iterations: int | None = None) -> list[str]:
    """The command line that begins a run, or goes on with it."""
    command = [sys.executable, str(_TRAIN), "--workdir", str(workdir)]
    command += ["--num-devices", str(arguments.num_devices)]
    if holds_run(workdir):
        command.append("--resume")
    else:
        command += ["--preset", arguments.preset, *_SETTINGS]
        command += ["--checkpoint-every", str(arguments.checkpoint_every)]
        command += ["--evaluation.every", str(arguments.evaluate_every)]
    return command if iterations is None else [*command, "--iterations", str(iterations)]


def disturb(arguments: Arguments, workdir: pathlib.Path) -> list[dict[str, Any]]:
    """Starts the run again and again, and ends it each time by a signal; what was sent, and what came of it.

    Raises:
        RuntimeError: the run ended by itself, or a SIGTERM did not end it with status 0.
    """
    chance, sent = random.Random(arguments.seed), []
    end = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < end or len(sent) < arguments.signals:
        with (workdir.parent / "disturbed.log").open("a") as log:
            process = subprocess.Popen(
                train_command(arguments, workdir), stdout=log, stderr=subprocess.STDOUT
            )
        which = chance.choice((signal.SIGTERM, signal.SIGKILL))
        try:
            after = chance.uniform(0.5, arguments.longest_seconds)
            try:
                status = process.wait(after)
                raise RuntimeError(f"the run ended by itself with status {status}: see {workdir.parent}")
            except subprocess.TimeoutExpired:
                process.send_signal(which)
            status = process.wait(600)
        finally:
            process.kill()
        # A SIGTERM that comes before training is ready for it ends the process in the system's own way.
        expected = (0, -signal.SIGTERM) if which == signal.SIGTERM else (-signal.SIGKILL,)
        if status not in expected:
            raise RuntimeError(f"{which.name} after {after:.1f} s gave status {status}: see {workdir.parent}")
        iteration = max(checkpoint_steps(workdir), default=0)
        after = round(after, 1)
        sent.append({"signal": which.name, "after_seconds": after, "status": status, "at": iteration})
        print(f"{len(sent)}: {which.name} after {after} s, checkpoint at iteration {iteration}", flush=True)
    return sent


def finish(arguments: Arguments, workdir: pathlib.Path, iterations: int) -> float:
    """Runs until so many iterations are done; in how many seconds. Raises RuntimeError where it fails."""
    started = time.monotonic()
    status = subprocess.run(
        [*train_command(arguments, workdir, iterations), "--quiet"], check=False
    ).returncode
    if status != 0:
        raise RuntimeError(f"the run in {workdir} ended with status {status}")
    return time.monotonic() - started


def differences(a: TrainingState, b: TrainingState) -> list[str]:
    """Names of arrays that are not the same to the last bit; times are left out."""
    zero = np.asarray(0.0)
    pair = [
        state.replace(
            key=jax.random.key_data(state.key),
            progress=state.progress.replace(seconds=zero, cpu_seconds=zero),
        )
        for state in (a, b)
    ]
    leaves = [jax.tree_util.tree_leaves_with_path(state) for state in pair]
    return [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for (path, x), (_, y) in zip(*leaves, strict=True)
        if not np.array_equal(np.asarray(x), np.asarray(y), equal_nan=True)
    ]


def rows_of(workdir: pathlib.Path) -> list[dict[str, Any]]:
    """The run's metrics without times."""
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in read_metrics(workdir)]


def run(arguments: Arguments, folder: pathlib.Path) -> dict[str, Any]:
    """Both runs, and how they compare."""
    disturbed, undisturbed = folder / "disturbed", folder / "undisturbed"
    sent = disturb(arguments, disturbed)
    iterations = max(checkpoint_steps(disturbed), default=0) + 1
    finish(arguments, disturbed, iterations)
    seconds = finish(arguments, undisturbed, iterations)
    different = differences(load_checkpoint(disturbed), load_checkpoint(undisturbed))
    return {
        "soak": arguments.preset,
        "devices_used": arguments.num_devices,
        "signals": {name: sum(s["signal"] == name for s in sent) for name in ("SIGTERM", "SIGKILL")},
        "sent": sent,
        "iterations": iterations,
        "updates": int(load_checkpoint(undisturbed).learner.step),
        "undisturbed_seconds": round(seconds, 1),
        "different": different,
        "metrics_equal": rows_of(disturbed) == rows_of(undisturbed),
    }


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        with tempfile.TemporaryDirectory(prefix="soak_") as temporary:
            folder = arguments.workdir or pathlib.Path(temporary)
            if arguments.workdir is not None and any(
                (folder / n).exists() for n in ("disturbed", "undisturbed")
            ):
                raise ValueError(f"--workdir {folder} holds a soak already: choose another folder")
            folder.mkdir(parents=True, exist_ok=True)
            row = run(arguments, folder)
    except (ValueError, OSError, RuntimeError, CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    same = not row["different"] and row["metrics_equal"]
    print(
        f"{row['signals']['SIGTERM']} SIGTERM and {row['signals']['SIGKILL']} SIGKILL over "
        f"{row['iterations']} iterations and {row['updates']} updates: "
        + ("the same state and metrics as undisturbed" if same else f"DIFFERENT: {row['different']}")
    )
    if arguments.json is not None:
        command = command_line("soak.py", sys.argv[1:] if argv is None else argv)
        append_row(arguments.json, row | provenance() | {"command": command})
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
