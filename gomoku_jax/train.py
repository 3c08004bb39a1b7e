"""The training loop: self-play → replay → learn → evaluate → checkpoint. No maths of its own."""

import contextlib
import dataclasses
import pathlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax import learn, replay
from gomoku_jax.agent import AgentError, load_agent
from gomoku_jax.checkpoint import (
    CHECKPOINT_FOLDER,
    CONFIG_FILE,
    CheckpointError,
    Progress,
    TrainingState,
    checkpoint_steps,
    init_training_state,
    restore_checkpoint,
    save_checkpoint,
    total_updates,
    write_config,
)
from gomoku_jax.config import TrainConfig
from gomoku_jax.evaluation import GAMES_FOLDER, run_evaluation
from gomoku_jax.game import Gomoku
from gomoku_jax.metrics import Clock, ConsoleDisplay, MetricsWriter
from gomoku_jax.programs import Programs, make_programs, playing_params
from gomoku_jax.run_agents import save_run_agent
from gomoku_jax.selfplay import SelfplayStats
from gomoku_jax.suites import load_solved

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


def share_spent(config: TrainConfig, progress: Progress) -> float:
    """How much of the run's time is spent, 0 to 1; 0 for runs without a limit."""
    if config.max_minutes == 0:
        return 0.0
    spent = progress.cpu_seconds if config.clock == "cpu" else progress.seconds
    return min(float(spent) / (60 * config.max_minutes), 1.0)


def is_finished(config: TrainConfig, progress: Progress) -> bool:
    """Are all iterations done, or all of the time spent?"""
    return int(progress.iteration) >= config.iterations or share_spent(config, progress) >= 1.0


def run_iteration(
    config: TrainConfig, programs: Programs, state: TrainingState
) -> tuple[TrainingState, dict[str, float]]:
    """Self-play and learning once. The arrays of the given state are donated: use the returned one."""
    clock = Clock()
    key, selfplay_key, update_key = jax.random.split(state.key, 3)
    games, buffer, stats = programs.selfplay(
        playing_params(config, state), state.selfplay, state.replay, selfplay_key
    )
    # [devices, rules]; all entries are counts but the entropy, a mean over equal shares.
    shares = jax.device_get(stats)
    stats = jax.tree.map(np.sum, shares).replace(target_entropy=shares.target_entropy.mean())
    selfplay_seconds = clock.seconds
    learner, losses = state.learner, {}
    if config.max_minutes > 0 and config.learn.schedule == "warmup_cosine":
        scale = learn.cosine_scale(config.learn, share_spent(config, state.progress))
        learner = learner.replace(learning_rate_scale=jnp.full_like(learner.learning_rate_scale, scale))
    if bool(replay.can_sample(buffer, config.replay.min_size)):
        learner, losses = programs.update(learner, buffer, update_key)
        losses = jax.device_get(losses)
    seconds = clock.seconds
    progress = state.progress.replace(
        cpu_seconds=state.progress.cpu_seconds + clock.cpu_seconds,
        iteration=state.progress.iteration + 1,
        games=state.progress.games + np.int64(stats.games),
        positions=state.progress.positions + np.int64(stats.positions),
        seconds=state.progress.seconds + seconds,
    )
    state = TrainingState(learner=learner, replay=buffer, selfplay=games, key=key, progress=progress)
    metrics = {f"learn/{name}": float(value) for name, value in losses.items()}
    metrics |= {
        "selfplay/games": int(stats.games),
        "selfplay/positions": int(stats.positions),
        "selfplay/target_entropy": float(stats.target_entropy),
        "time/selfplay_seconds": selfplay_seconds,
        "time/learn_seconds": seconds - selfplay_seconds,
        "time/games_per_second": float(stats.games) / seconds,
        "time/moves_per_second": config.selfplay.num_games * config.selfplay.moves_per_iteration / seconds,
    }
    if stats.games > 0:
        metrics |= game_metrics(stats) | {"selfplay/distinct_positions": distinct_share(buffer)}
    if config.other_rules:
        for i, game in enumerate(config.games):
            of_rule = jax.tree.map(lambda x, i=i: x[:, i].sum(), shares)
            metrics[f"selfplay/games_{game.rule}"] = int(of_rule.games)
            metrics |= game_metrics(of_rule, f"_{game.rule}")
    return state, metrics


def game_metrics(stats: SelfplayStats, suffix: str = "") -> dict[str, float]:
    """How the finished games of self-play went, by `selfplay/NAME` and the suffix; empty without games."""
    names = ("game_length", "black_wins", "white_wins", "draws") if stats.games > 0 else ()
    return {f"selfplay/{name}{suffix}": float(getattr(stats, name) / stats.games) for name in names}


@jax.jit
def _distinct_share(boards: jax.Array, size: jax.Array) -> jax.Array:
    """Share of different boards among the first `size` of [M, H, W], by a 32-bit hash."""
    flat = boards.reshape(len(boards), -1)
    weights = jax.random.bits(jax.random.key(0), flat.shape[1:], jnp.uint32)
    hashes = (flat.astype(jnp.uint32) * weights[None]).sum(-1, dtype=jnp.uint32)
    hashes = jnp.sort(jnp.where(jnp.arange(len(flat)) < size, hashes, jnp.uint32(0xFFFFFFFF)))
    changes = (hashes[1:] != hashes[:-1]) & (jnp.arange(1, len(flat)) < size)
    return (1 + changes.sum()) / jnp.maximum(size, 1)


def distinct_share(buffer: replay.ReplayState) -> float:
    """How many of a sample of the buffer's positions are different boards: low when games repeat."""
    rows = min(4096, buffer.items.board.shape[0])
    return float(_distinct_share(buffer.items.board[:rows], jnp.minimum(buffer.size, rows)))


@contextlib.contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask to stop after the iteration; a second Ctrl-C stops at once."""
    asked = False

    def ask(number, frame):
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, where no handler can be set
        old = {}
    try:
        yield lambda: asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def check_workdir(config: TrainConfig, workdir: str | pathlib.Path, resume: bool) -> None:
    """Raises RunExistsError or CheckpointError where a run in this folder may not start or go on."""
    workdir = pathlib.Path(workdir)
    if workdir.exists() and not workdir.is_dir():
        raise RunExistsError(f"{workdir} is a file; a run needs a folder")
    holds_run = (workdir / CONFIG_FILE).exists() or (workdir / CHECKPOINT_FOLDER).exists()
    if holds_run and not resume:
        raise RunExistsError(f"{workdir} holds a run already: resume it, or choose another folder")
    if resume and not holds_run:
        raise CheckpointError(f"nothing to resume: {workdir} holds no run")


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
    return state.replace(learner=learn.init_train_state(jax.tree.map(jnp.array, agent.params), optimizer))


def train(
    config: TrainConfig, workdir: str | pathlib.Path, resume: bool = False, quiet: bool = False
) -> TrainResult:
    """Trains an agent, or goes on training it.

    Args:
        config: the whole run; `config.iterations` is its total, also of a resumed run.
        workdir: the run folder: `config.json`, `metrics.jsonl`, `tensorboard/`, `checkpoints/`, `agents/`,
            `games/`. Nothing in it is ever deleted but the oldest checkpoints.
        resume: go on from the newest checkpoint that reads.
        quiet: print nothing.

    Raises:
        RunExistsError: the folder holds a run and `resume` is False.
        CheckpointError: nothing to resume, or a run of another board, rules or network.
    """
    workdir = pathlib.Path(workdir)
    check_workdir(config, workdir, resume)
    if config.evaluation.solved_positions > 0:
        load_solved(Gomoku.from_config(config.game))  # refuses a board without any
    messages: list[str] = []
    if resume and checkpoint_steps(workdir):
        saved, state, messages = restore_checkpoint(workdir, config)
        if saved.selfplay.num_games != config.selfplay.num_games:
            ours, theirs = config.selfplay.num_games, saved.selfplay.num_games
            raise CheckpointError(f"selfplay.num_games is {theirs} in the run and cannot change to {ours}")
        messages.append(f"resumed at iteration {int(state.progress.iteration)}")
    else:
        state = init_training_state(config)
        if config.init_from is not None:
            state = begin_from(config, state)
            messages.append(f"begins with the parameters of {config.init_from}")
        if resume:
            messages.append("the run was stopped before its first checkpoint: it begins anew")
    for folder in (workdir, workdir / GAMES_FOLDER):
        folder.mkdir(parents=True, exist_ok=True)
    write_config(workdir, config)
    programs = make_programs(config)
    state = programs.place(state)
    row: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    done = int(state.progress.iteration)
    writer = MetricsWriter(workdir, resume_at=done)
    display = ConsoleDisplay(config.iterations, done, quiet=quiet)
    saved_at = done if done else -1
    started, started_at = time.monotonic(), state.progress
    with _stop_signals() as stop_asked, display, contextlib.closing(writer):
        for message in messages:
            display.message(message)
        while not is_finished(config, state.progress) and not stop_asked():
            state, row = run_iteration(config, programs, state)
            iteration = int(state.progress.iteration)
            last = is_finished(config, state.progress)
            every = config.evaluation.every
            if every > 0 and (iteration % every == 0 or last):
                state, evaluation, result = run_evaluation(config, programs, state, workdir)
                playouts = evaluation["evaluation/num_playouts"]
                display.message(f"iteration {iteration}: against pure MCTS {playouts}: {result}")
                if "solved/raw_value_kept" in evaluation:
                    display.message(_describe_solved(config, evaluation))
                row |= evaluation
            row["time/seconds"] = float(state.progress.seconds)
            writer.write(iteration, row)
            left = _seconds_left(config, state.progress, time.monotonic() - started, started_at)
            display.update(iteration, _describe(row, state, left))
            for warning in collapse_warnings(row) if iteration % _WARN_EVERY == 0 else ():
                display.message(f"warning: {warning}")
            if config.snapshot_every > 0 and (iteration % config.snapshot_every == 0 or last):
                save_run_agent(config, state, workdir, f"iteration_{iteration:06d}")
            if iteration % config.checkpoint_every == 0 or last or stop_asked():
                _save(config, workdir, state)
                saved_at = iteration
        iteration = int(state.progress.iteration)
        if saved_at != iteration:
            _save(config, workdir, state)
        finished = is_finished(config, state.progress)
        if not finished:
            display.message(
                f"stopped at iteration {iteration}; checkpoint saved, --resume goes on from there"
            )
    return TrainResult(workdir, state, finished, row, evaluation)


def _save(config: TrainConfig, workdir: pathlib.Path, state: TrainingState) -> None:
    save_checkpoint(workdir, config, state)
    save_run_agent(config, state, workdir, "latest")


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


def collapse_warnings(row: dict[str, Any]) -> list[str]:
    """Signs of collapse in one row of metrics, which a loss curve does not show."""
    warnings = []
    if row.get("learn/explained_variance", 1.0) < 0.01 and row.get("selfplay/games", 0) > 0:
        warnings.append(
            f"the value explains nothing: explained variance {row['learn/explained_variance']:.3f}"
        )
    if row.get("learn/entropy", 1.0) < 0.02:
        warnings.append(f"the policy has collapsed to one move: entropy {row['learn/entropy']:.3f} nats")
    if row.get("selfplay/distinct_positions", 1.0) < 0.2:
        share = row["selfplay/distinct_positions"]
        warnings.append(f"games repeat: only {share:.0%} of the positions in the buffer are different")
    return warnings
