"""The training loop: self-play → replay → learn → evaluate → checkpoint. No maths of its own."""

import contextlib
import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from gomoku_jax import learn
from gomoku_jax.agent import AgentError, load_agent
from gomoku_jax.checkpoint import (
    CheckpointError,
    Progress,
    TrainingState,
    checkpoint_steps,
    holds_run,
    init_training_state,
    restore_checkpoint,
    save_checkpoint,
    total_updates,
    write_config,
)
from gomoku_jax.config import TrainConfig
from gomoku_jax.distributed import (
    Companion,
    LostProcessError,
    any_process,
    is_loss,
    is_main,
    main_first,
    wait_for_all,
)
from gomoku_jax.divergence import naming_the_batch
from gomoku_jax.evaluation import GAMES_FOLDER, run_evaluation
from gomoku_jax.files import check_writable, reason_of
from gomoku_jax.game import Gomoku
from gomoku_jax.iteration import collapse_warnings, run_iteration, share_spent
from gomoku_jax.metrics import METRICS_FILE, ConsoleDisplay, MetricsWriter
from gomoku_jax.profiling import PROFILE_FOLDER, Profiler, phase
from gomoku_jax.programs import Programs, make_meshes, make_programs
from gomoku_jax.replay_rings import num_rings
from gomoku_jax.run_agents import save_run_agent
from gomoku_jax.run_log import run_log
from gomoku_jax.saving import Saver, newest_checkpoint
from gomoku_jax.sharding import local_devices, split_axis
from gomoku_jax.suites import load_solved
from gomoku_jax.system import on_stop_signals

_WARN_EVERY = 20  # iterations: a warning each iteration would bury the rest


class RunExistsError(Exception):
    """The folder holds a run already, and resuming was not asked for."""


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What `train` gives back.

    Attributes:
        workdir: the run folder, which `load_agent` takes.
        state: after the last iteration.
        finished: False when the run was stopped before its last iteration.
        metrics: the last row of metrics.
        evaluation: the last evaluation's row; empty before the first.
    """

    workdir: pathlib.Path
    state: TrainingState
    finished: bool
    metrics: dict[str, Any]
    evaluation: dict[str, Any]


def is_finished(config: TrainConfig, progress: Progress) -> bool:
    """Are all iterations done, or all of the time spent?"""
    return int(progress.iteration) >= config.iterations or share_spent(config, progress) >= 1.0


@contextlib.contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask to stop after the iteration; a second Ctrl-C stops at once."""
    asked = False

    def ask(number, frame):
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    with on_stop_signals(ask):
        yield lambda: asked


def check_workdir(config: TrainConfig, workdir: str | pathlib.Path, resume: bool) -> None:
    """Raises RunExistsError or CheckpointError where a run in this folder may not start or go on.

    And OSError where nothing can be written into it.
    """
    workdir = pathlib.Path(workdir)
    if workdir.exists() and not workdir.is_dir():
        raise RunExistsError(f"{workdir} is a file; a run needs a folder")
    begun = holds_run(workdir)
    if begun and not resume:
        raise RunExistsError(f"{workdir} holds a run already: resume it, or choose another folder")
    if resume and not begun:
        raise CheckpointError(f"nothing to resume: {workdir} holds no run")
    check_writable(workdir)


def begin_from(config: TrainConfig, state: TrainingState) -> TrainingState:
    """The state with the parameters of the agent `config.init_from` in place of fresh ones.

    Raises:
        CheckpointError: there is no such agent, or its network is another.
    """
    assert config.init_from is not None
    try:
        agent = load_agent(config.init_from)
    except AgentError as error:
        raise CheckpointError(f"init_from: {error}") from error
    ours = jax.tree.map(lambda x: x.shape, state.learner.params)
    theirs = jax.tree.map(lambda x: x.shape, agent.params)
    if agent.network.kind != config.network.kind or ours != theirs:
        raise CheckpointError(
            f"init_from: the agent in {config.init_from} has network {agent.network} on {agent.game}, "
            f"this run has {config.network} on {Gomoku.from_config(config.game)}"
        )
    optimizer = learn.make_optimizer(config.learn, total_updates(config))
    learner = learn.init_train_state(jax.tree.map(jnp.array, agent.params), optimizer)
    actor_params = None if state.actor_params is None else jax.tree.map(jnp.array, agent.params)
    return state.replace(learner=learner, actor_params=actor_params)


def _first_state(
    config: TrainConfig, workdir: pathlib.Path, resume: bool, mesh: Mesh
) -> tuple[TrainingState, list[str]]:
    """What the run begins or goes on with, not yet placed, and what there is to say of it."""
    if resume and checkpoint_steps(workdir):
        saved, state, messages = restore_checkpoint(workdir, config)
        if saved.selfplay.num_games != config.selfplay.num_games:
            ours, theirs = config.selfplay.num_games, saved.selfplay.num_games
            raise CheckpointError(f"selfplay.num_games is {theirs} in the run and cannot change to {ours}")
        messages.append(f"resumed at iteration {int(state.progress.iteration)}")
        before = num_rings(state.replay)
        if before != mesh.size:
            messages.append(f"replay buffer and running games re-laid from {before} devices to {mesh.size}")
        if config.devices.actors == 0:
            state = state.replace(actor_params=None)
        return state, messages
    messages = []
    state = init_training_state(config, mesh.size, split_axis(mesh))
    if config.init_from is not None:
        state = begin_from(config, state)
        messages.append(f"begins with the parameters of {config.init_from}")
    if resume:
        messages.append("the run was stopped before its first checkpoint: it begins anew")
    return state, messages


def describe_devices(config: TrainConfig, programs: Programs) -> str:
    """How games and batches are shared, and the batch that an optimizer step learns from."""
    played, learned = programs.actors.size, programs.mesh.size
    games, batch = config.selfplay.num_games, config.learn.batch_size
    text = f"{jax.process_count()} processes, " if jax.process_count() > 1 else ""
    if programs.split:
        text += f"{played} devices play and {learned} learn"
        text += f", parameters handed over after {config.devices.refresh_every} updates at least"
    else:
        text += f"{learned} device{'s' if learned > 1 else ''}"
    text += f": {games // played} games and {batch // learned} of a batch on each; effective batch "
    steps = config.learn.accumulation_steps
    return f"{text}{batch * steps}, learning rate {config.learn.learning_rate:g}"


def train(
    config: TrainConfig,
    workdir: str | pathlib.Path,
    resume: bool = False,
    quiet: bool = False,
    num_devices: int | None = None,
    profile_iterations: tuple[int, int] | None = None,
) -> TrainResult:
    """Trains an agent, or goes on training it.

    With several processes (see `distributed.start`) all call this with the same arguments, and a folder that
    all see.

    Args:
        config: the whole run; `config.iterations` is its total, also of a resumed run.
        workdir: the run folder: `config.json`, `metrics.jsonl`, `tensorboard/`, `checkpoints/`, `agents/`,
            `games/`. Nothing in it is ever deleted but the oldest checkpoints.
        resume: go on from the newest checkpoint that reads; on any number of devices and processes.
        quiet: print nothing.
        num_devices: of each process, at most; all that divide games and batches by default.
        profile_iterations: the first and the last to trace into `profile/`, counted from 1 in this process;
            in the first two the programs compile. None traces nothing.

    Raises:
        RunExistsError: the folder holds a run and `resume` is False.
        CheckpointError: nothing to resume, or a run of another board, rules or network.
        ValueError: devices cannot share the games or batches.
        LostProcessError: another process of the run is gone.
        DivergedError: learning gave numbers that are not finite; the message names the batch, and the last
            good checkpoint is as it was.
        SaveError: the run is over, and not all of it could be written.
        OSError: the folder cannot be written, found before anything is compiled.
    """
    workdir = pathlib.Path(workdir)
    main_first(lambda: check_workdir(config, workdir, resume))
    if config.evaluation.solved_positions > 0:
        load_solved(Gomoku.from_config(config.game))  # refuses a board without any
    devices = [device for own in local_devices(most=num_devices) for device in own]
    programs = make_programs(config, *make_meshes(config, devices))
    with _stop_signals() as stop_asked, Companion(workdir) as companion:
        try:
            return _train(config, workdir, resume, quiet, programs, companion, stop_asked, profile_iterations)
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            if not is_loss(error):
                raise
            raise _lost(workdir, error) from error


def _lost(workdir: pathlib.Path, error: Exception) -> LostProcessError:
    """What to say when a collective has failed."""
    return LostProcessError(
        f"process {jax.process_index()} cannot work with the others, one of them is lost "
        f"({reason_of(error)}). {newest_checkpoint(workdir)}. Start all processes again"
    )


def _train(
    config: TrainConfig,
    workdir: pathlib.Path,
    resume: bool,
    quiet: bool,
    programs: Programs,
    companion: Companion,
    stop_asked: Callable[[], bool],
    profile_iterations: tuple[int, int] | None,
) -> TrainResult:
    state, messages = _first_state(config, workdir, resume, programs.mesh)
    messages.append(describe_devices(config, programs))
    done = int(state.progress.iteration)
    profiler = Profiler(None)
    if profile_iterations is not None:
        folder = workdir / PROFILE_FOLDER if is_main() else None
        profiler = Profiler(folder, *profile_iterations, left=config.iterations - done)

    def make_folder() -> None:
        for folder in (workdir, workdir / GAMES_FOLDER):
            folder.mkdir(parents=True, exist_ok=True)
        write_config(workdir, config)

    main_first(make_folder)
    state = programs.place(state)
    row: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    started, started_at = time.monotonic(), state.progress
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(run_log(workdir if is_main() else None))
        display = ConsoleDisplay(config.iterations, done, quiet=quiet or not is_main(), log=log)
        stack.enter_context(display)
        stack.enter_context(naming_the_batch(workdir))
        save = functools.partial(save_checkpoint, workdir, config)
        saver = Saver(workdir, save, display.message, done if done else -1)
        profiler.tell = display.message
        stack.enter_context(contextlib.closing(profiler))
        writer = None
        if is_main():
            writer = stack.enter_context(contextlib.closing(MetricsWriter(workdir, resume_at=done)))
        for message in messages:
            display.message(message)
        stop = any_process(stop_asked())
        while not is_finished(config, state.progress) and not stop:
            profiler.begin(int(state.progress.iteration) + 1)
            state, row = run_iteration(config, programs, state)
            iteration = int(state.progress.iteration)
            every = config.evaluation.every
            if every > 0 and (iteration % every == 0 or is_finished(config, state.progress)):
                with phase("evaluate"):
                    state, evaluation, result = run_evaluation(config, programs, state, workdir, saver.keep)
                playouts = evaluation["evaluation/num_playouts"]
                display.message(f"iteration {iteration}: against pure MCTS {playouts}: {result}")
                if "solved/raw_value_kept" in evaluation:
                    display.message(_describe_solved(config, evaluation))
                row |= evaluation
            last = is_finished(config, state.progress)
            row["time/seconds"] = float(state.progress.seconds)
            row["time/cpu_seconds"] = float(state.progress.cpu_seconds)
            if writer is not None:
                writer.add(iteration, row)
                saver.keep(METRICS_FILE, writer.flush)
            left = _seconds_left(config, state.progress, time.monotonic() - started, started_at)
            display.update(iteration, _describe(row, state, left))
            for warning in collapse_warnings(row) if iteration % _WARN_EVERY == 0 else ():
                display.message(f"warning: {warning}")
            snapshot = config.snapshot_every > 0 and (iteration % config.snapshot_every == 0 or last)
            if snapshot and is_main():
                save_run_agent(config, state, workdir, f"iteration_{iteration:06d}", saver.keep)
            saver.retry()
            stop = any_process(stop_asked())
            if iteration % config.checkpoint_every == 0 or last or stop or saver.is_behind:
                with phase("checkpoint"):
                    _save(config, workdir, state, companion, saver)
            profiler.end()
        profiler.close()
        iteration = int(state.progress.iteration)
        if saver.saved_at != iteration:
            _save(config, workdir, state, companion, saver)
        saver.finish(state)
        finished = is_finished(config, state.progress)
        if not finished:
            display.message(
                f"stopped at iteration {iteration}; checkpoint saved, --resume goes on from there"
            )
    wait_for_all("the run's end")
    return TrainResult(workdir, state, finished, row, evaluation)


def _save(
    config: TrainConfig, workdir: pathlib.Path, state: TrainingState, companion: Companion, saver: Saver
) -> None:
    if saver.checkpoint(state):
        companion.checkpoint(int(state.progress.iteration))
    if is_main():
        save_run_agent(config, state, workdir, "latest", saver.keep)


def _seconds_left(config: TrainConfig, progress: Progress, seconds: float, begin: Progress) -> float:
    """How long the run still takes, when it has taken `seconds` since `begin`."""
    done = int(progress.iteration - begin.iteration)
    left = seconds / done * (config.iterations - int(progress.iteration))
    if config.max_minutes > 0:
        spent = share_spent(config, progress) - share_spent(config, begin)
        left = min(left, seconds / max(spent, 1e-9) * (1 - share_spent(config, progress)))
    return left


def _describe_solved(config: TrainConfig, row: dict[str, Any]) -> str:
    text = f"value-keeping moves on solved positions: {row['solved/raw_value_kept']:.3f} without search"
    if "solved/search_value_kept" in row:
        simulations = config.evaluation.num_simulations
        text += f", {row['solved/search_value_kept']:.3f} at {simulations} simulations"
    return text


def _describe(row: dict[str, Any], state: TrainingState, seconds_left: float) -> str:
    parts = [f"{row['time/games_per_second']:.0f} games/s", f"{row['time/moves_per_second']:.0f} positions/s"]
    if "learn/loss" in row:
        parts.append(f"policy {row['learn/policy_loss']:.3f} value {row['learn/value_loss']:.3f}")
        parts.append(f"explained {row['learn/explained_variance']:.2f}")
    if "selfplay/game_length" in row:
        parts.append(f"length {row['selfplay/game_length']:.1f}")
    minutes, seconds = divmod(round(seconds_left), 60)
    parts.append(f"{int(state.progress.games)} games, {minutes}:{seconds:02d} left")
    return ", ".join(parts)
