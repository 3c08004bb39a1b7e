"""Trains an agent by self-play. Try:

python experiments/train.py
python experiments/train.py --preset tictactoe --workdir runs/ttt
python experiments/train.py --preset 6x6x4 --search.num-simulations 64 --seed 1
python experiments/train.py --preset tictactoe --game.width 4 --other-rules exact --network.planes rules
python experiments/train.py --workdir runs/ttt --resume --iterations 100
"""

import argparse
import dataclasses
import datetime
import pathlib
import sys
from typing import Annotated, Literal

import tyro

from gomoku_jax.checkpoint import CheckpointError, read_config
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import TrainConfig
from gomoku_jax.presets import DEFAULT_PRESET, PRESETS
from gomoku_jax.sharding import use_cpu_cores
from gomoku_jax.train import RunExistsError, check_workdir, train


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
            for name in ("game", "network"):
                ours, theirs = getattr(config, name), getattr(saved, name)
                if ours != theirs:
                    raise CheckpointError(
                        f"the run in {early.workdir} has {name} {theirs}, preset {early.preset} has {ours}"
                    )
        config = saved
    preset = early.preset if early.preset in PRESETS else DEFAULT_PRESET  # tyro refuses any other
    default = Arguments(preset=preset, config=config)
    return tyro.cli(Arguments, args=argv, default=default, description=__doc__)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    try:
        arguments = parse(argv)
        workdir = arguments.workdir
        if workdir is None:
            if arguments.resume:
                raise CheckpointError("--resume needs --workdir: which run?")
            stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
            workdir = pathlib.Path("runs") / f"{stamp}-{arguments.preset}"
        if arguments.compilation_cache:
            use_compilation_cache()
        use_cpu_cores(arguments.config.selfplay.num_games)
        check_workdir(arguments.config, workdir, arguments.resume)
        result = train(arguments.config, workdir, resume=arguments.resume, quiet=arguments.quiet)
    except (RunExistsError, CheckpointError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped at once; --resume goes on from the last checkpoint", file=sys.stderr)
        return 130
    seconds = float(result.state.progress.seconds)
    done = "Trained" if result.finished else "Stopped"
    iteration, games = int(result.state.progress.iteration), int(result.state.progress.games)
    print(f"{done} after {iteration} iterations, {games} games, {seconds / 60:.1f} minutes.")
    print(f"Run folder:  {workdir} (config.json, metrics.jsonl, tensorboard/, checkpoints/, agents/, games/)")
    print(f"Evaluate:    python experiments/evaluate.py {workdir} mcts:1000 --games 100 --simulations 100")
    print(f"Plot:        python experiments/plot.py {workdir}")
    if not result.finished:
        print(f"Go on:       python experiments/train.py --workdir {workdir} --resume")
    return 0


if __name__ == "__main__":
    sys.exit(main())
