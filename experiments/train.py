"""Trains an agent by self-play. Try:

python experiments/train.py
python experiments/train.py --preset tictactoe --workdir runs/ttt
python experiments/train.py --preset 6x6x4 --search.num-simulations 64 --seed 1
python experiments/train.py --preset tictactoe --game.width 4 --other-rules exact --network.planes rules
python experiments/train.py --workdir runs/ttt --resume --iterations 100
python experiments/train.py --preset 15x15x5 --dry-run-on h200x8

On a cluster start the same command on every host (SLURM: with srun) with --distributed; elsewhere give every
process --coordinator HOST:PORT --processes N --process I. All must see the run's folder.
"""

import argparse
import dataclasses
import datetime
import operator
import pathlib
import sys
import traceback
from typing import Annotated, Literal

import jax
import tyro
from estimates import estimate_here, estimate_on, fitted, show_estimate

from gomoku_jax.checkpoint import CheckpointError, read_config
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import TrainConfig, same_network
from gomoku_jax.distributed import LOST_STATUS, LostProcessError, RefusedError, end, is_main, start
from gomoku_jax.divergence import DivergedError
from gomoku_jax.estimate import MemoryBudgetError, memory_line
from gomoku_jax.presets import DEFAULT_PRESET, PRESETS
from gomoku_jax.saving import SaveError
from gomoku_jax.sharding import use_cpu_cores, use_cpu_devices
from gomoku_jax.train import RunExistsError, train

REFUSALS = (RunExistsError, CheckpointError, RefusedError, DivergedError, SaveError)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What the command line takes; every field of the configuration can be overridden by name."""

    preset: Literal[tuple(PRESETS)] = DEFAULT_PRESET  # type: ignore[valid-type]
    """The configuration to start from."""
    workdir: pathlib.Path | None = None
    """The run's folder; by default a new dated one under runs/. One that holds a run is never overwritten."""
    resume: bool = False
    """Go on with the run in --workdir, up to --iterations in total, with the configuration it has."""
    quiet: bool = False
    """Print nothing while training."""
    num_devices: int | None = None
    """Devices of each process, all by default; on a CPU virtual ones, one a core. Any number can resume."""
    distributed: bool = False
    """Join the other processes of the run as the cluster's environment says: SLURM, GKE, Open MPI or TPU."""
    coordinator: str | None = None
    """HOST:PORT of process 0, where no cluster's environment tells it."""
    processes: int | None = None
    """How many processes the run has, with --coordinator."""
    process: int | None = None
    """Which of them this is, from 0, with --coordinator."""
    heartbeat_seconds: int = 60
    """How long a process may be silent until the others give it up."""
    dry_run: bool = False
    """Start nothing: print what the run takes of memory, how fast it should be, and whether it fits."""
    dry_run_on: str | None = None
    """The same for devices by name and number: h100, h200, a100, v5e or v4, such as h200x8 or v5ex16."""
    memory_gb: float | None = None
    """GB (10^9 bytes) that each device may use; by default what it has. --replay.capacity 0 fills them."""
    profile: bool = False
    """Trace some iterations into the run's profile/, for Perfetto and TensorBoard."""
    profile_iterations: tuple[int, int] = (3, 4)
    """The first and the last of them, counted from 1 in this process; in the first two, programs compile."""
    compilation_cache: bool = True
    """Keep compiled programs on disk for the next run; without it all runs pay for their compilation."""
    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = PRESETS[DEFAULT_PRESET]


def parse(argv: list[str] | None) -> Arguments:
    """Parses the command line over the defaults of the preset, or of the run that is resumed."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset")
    first.add_argument("--workdir", type=pathlib.Path)
    first.add_argument("--resume", action="store_true")
    early, _ = first.parse_known_args(argv)
    config = PRESETS.get(early.preset, PRESETS[DEFAULT_PRESET])
    if early.resume and early.workdir is not None:
        saved = read_config(early.workdir)
        if early.preset in PRESETS:
            for name, same in (("game", operator.eq), ("network", same_network)):
                ours, theirs = getattr(config, name), getattr(saved, name)
                if not same(ours, theirs):
                    raise CheckpointError(
                        f"the run in {early.workdir} has {name} {theirs}, preset {early.preset} has {ours}"
                    )
        config = saved
    preset = early.preset if early.preset in PRESETS else DEFAULT_PRESET  # tyro refuses any other
    default = Arguments(preset=preset, config=config)
    return tyro.cli(Arguments, args=argv, default=default, description=__doc__)


def shares_run(arguments: Arguments) -> bool:
    """Whether other processes have a part in the run."""
    return arguments.distributed or arguments.coordinator is not None


def start_devices(arguments: Arguments) -> None:
    """Makes the devices ready that the run is to use, and joins the other processes."""
    if arguments.num_devices is None:
        use_cpu_cores(arguments.config.selfplay.num_games)
    else:
        if arguments.num_devices < 1:
            raise ValueError(f"--num-devices {arguments.num_devices}: at least 1")
        use_cpu_devices(arguments.num_devices)
    addressed = (arguments.coordinator, arguments.processes, arguments.process)
    if arguments.distributed or any(value is not None for value in addressed):
        start(*addressed, heartbeat_seconds=arguments.heartbeat_seconds)


def dry_run(arguments: Arguments) -> int:
    """Prints an estimate; the exit status, 2 where the run does not fit."""
    if shares_run(arguments):
        raise ValueError("--dry-run is of one process; --dry-run-on h200x16 of as many devices as you like")
    if arguments.dry_run_on is None:
        start_devices(arguments)
        estimate = estimate_here(arguments.config, arguments.memory_gb, arguments.num_devices)
    else:
        estimate = estimate_on(arguments.config, arguments.dry_run_on, arguments.memory_gb)
    show_estimate(estimate)
    if not estimate.fits:
        print(f"error: {estimate.refusal}", file=sys.stderr)
    return 0 if estimate.fits else 2


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    try:
        arguments = parse(argv)
        if arguments.dry_run or arguments.dry_run_on is not None:
            return dry_run(arguments)
        workdir = arguments.workdir
        if workdir is None:
            if arguments.resume:
                raise CheckpointError("--resume needs --workdir: which run?")
            if shares_run(arguments):
                raise ValueError("a run of several processes needs --workdir, the same for all")
            stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
            workdir = pathlib.Path("runs") / f"{stamp}-{arguments.preset}"
        if arguments.compilation_cache:
            use_compilation_cache()
        if arguments.profile:  # or programs from the cache might have other names for their operations
            jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
        start_devices(arguments)
        if arguments.resume and arguments.config.replay.capacity == 0:
            raise ValueError("replay.capacity = 0: a run that goes on keeps the size of the buffer it has")
        config, memory, budget = fitted(arguments.config, arguments.memory_gb, arguments.num_devices)
        if is_main() and not arguments.quiet:
            print(memory_line(config, memory, budget))
        result = train(
            config,
            workdir,
            resume=arguments.resume,
            quiet=arguments.quiet,
            num_devices=arguments.num_devices,
            profile_iterations=arguments.profile_iterations if arguments.profile else None,
        )
    except LostProcessError as error:
        print(f"error: {error}", file=sys.stderr)
        return LOST_STATUS
    except MemoryBudgetError as error:
        print(f"error: {error}\n--memory-gb sets another limit than what the devices have", file=sys.stderr)
        return 2
    except (*REFUSALS, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped at once; --resume goes on from the last checkpoint", file=sys.stderr)
        return 130
    if not is_main():
        return 0
    seconds = float(result.state.progress.seconds)
    done = "Trained" if result.finished else "Stopped"
    iteration, games = int(result.state.progress.iteration), int(result.state.progress.games)
    print(f"{done} after {iteration} iterations, {games} games, {seconds / 60:.1f} minutes.")
    print(
        f"Run folder:  {workdir} (config.json, metrics.jsonl, train.log, checkpoints/, agents/, games/, ...)"
    )
    print(f"Evaluate:    python experiments/evaluate.py {workdir} mcts:1000 --games 100 --simulations 100")
    print(f"Plot:        python experiments/plot.py {workdir}")
    if not result.finished:
        print(f"Go on:       python experiments/train.py --workdir {workdir} --resume")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 1
    if status != 0 and jax.distributed.is_initialized():
        end(status)  # the others may wait for this process: it must not wait for them
    sys.exit(status)
