"""The training loop: self-play → replay → learn → evaluate → checkpoint. No maths of its own."""

import contextlib
import dataclasses
import functools
import pathlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax import replay
from gomoku_jax.agent import AGENT_FOLDER, save_agent
from gomoku_jax.arena import MatchResult, match_result
from gomoku_jax.checkpoint import (
    CHECKPOINT_FOLDER,
    CONFIG_FILE,
    CheckpointError,
    TrainingState,
    checkpoint_steps,
    init_training_state,
    restore_checkpoint,
    save_checkpoint,
    write_config,
)
from gomoku_jax.config import TrainConfig
from gomoku_jax.game import Gomoku, to_sgf
from gomoku_jax.metrics import ConsoleDisplay, MetricsWriter, provenance
from gomoku_jax.programs import Programs, make_programs, playing_params

GAMES_FOLDER = "games"
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


def run_iteration(
    config: TrainConfig, programs: Programs, state: TrainingState
) -> tuple[TrainingState, dict[str, float]]:
    """Self-play and learning once. The arrays of the given state are donated: use the returned one."""
    started = time.monotonic()
    key, selfplay_key, update_key = jax.random.split(state.key, 3)
    games, buffer, stats = programs.selfplay(
        playing_params(config, state), state.selfplay, state.replay, selfplay_key
    )
    # One row a device; all entries are counts but the entropy, a mean over equal shares.
    stats = jax.device_get(stats)
    stats = jax.tree.map(np.sum, stats).replace(target_entropy=stats.target_entropy.mean())
    selfplay_seconds = time.monotonic() - started
    learner, losses = state.learner, {}
    if bool(replay.can_sample(buffer, config.replay.min_size)):
        learner, losses = programs.update(learner, buffer, update_key)
        losses = jax.device_get(losses)
    seconds = time.monotonic() - started
    progress = state.progress.replace(
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
        metrics |= {
            "selfplay/game_length": float(stats.game_length / stats.games),
            "selfplay/black_wins": float(stats.black_wins / stats.games),
            "selfplay/white_wins": float(stats.white_wins / stats.games),
            "selfplay/draws": float(stats.draws / stats.games),
            "selfplay/distinct_positions": distinct_share(buffer),
        }
    return state, metrics


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


def run_evaluation(
    config: TrainConfig, programs: Programs, state: TrainingState, workdir: pathlib.Path
) -> tuple[TrainingState, dict[str, Any], MatchResult]:
    """A match against pure MCTS; keeps the best agent, raises the playouts after a clean sweep."""
    started = time.monotonic()
    key, match_key = jax.random.split(state.key)
    progress = state.progress
    num_playouts = int(progress.num_playouts)
    params = playing_params(config, state)
    games = jax.device_get(programs.evaluate(num_playouts)(params, match_key))
    result = match_result(games, config.evaluation.num_games)
    iteration = int(progress.iteration)
    # At equal scores the later agent is the better guess.
    is_best = result.score >= float(progress.best_score)
    low, high = result.interval
    metrics: dict[str, Any] = {
        "evaluation/num_playouts": num_playouts,
        "evaluation/wins": result.wins,
        "evaluation/draws": result.draws,
        "evaluation/losses": result.losses,
        "evaluation/score": result.score,
        "evaluation/score_low": low,
        "evaluation/score_high": high,
        "evaluation/wins_as_black": result.as_black[0],
        "evaluation/wins_as_white": result.as_white[0],
        "evaluation/distinct_games": result.distinct_games,
        "evaluation/is_best": int(is_best),
    }
    if is_best:
        info = {"iteration": iteration, "games": int(progress.games), "positions": int(progress.positions)}
        info |= {"evaluation": {name.split("/")[1]: value for name, value in metrics.items()}}
        info |= {"seconds": round(float(progress.seconds)), "seed": config.seed} | _origin()
        save_agent(workdir / AGENT_FOLDER / "best", config.game, config.network, config.search, params, info)
        progress = progress.replace(
            best_score=np.asarray(result.score), best_iteration=np.asarray(iteration, np.int64)
        )
    if result.wins == result.num_games and num_playouts < config.evaluation.max_playouts:
        playouts = min(num_playouts + config.evaluation.playouts_step, config.evaluation.max_playouts)
        progress = progress.replace(
            num_playouts=np.asarray(playouts, np.int64), best_score=np.asarray(-1.0, np.float64)
        )
    _save_games(config, workdir, iteration, num_playouts, result)
    seconds = time.monotonic() - started
    progress = progress.replace(seconds=progress.seconds + seconds)
    metrics["time/evaluation_seconds"] = seconds
    return state.replace(key=key, progress=progress), metrics, result


def _save_games(
    config: TrainConfig, workdir: pathlib.Path, iteration: int, num_playouts: int, result: MatchResult
) -> None:
    game = Gomoku.from_config(config.game)
    names = f"iteration {iteration}", f"pure MCTS {num_playouts}"
    for i in range(min(config.evaluation.saved_games, result.num_games)):
        black, white = names if result.a_is_black[i] else names[::-1]
        sgf = to_sgf(
            game,
            result.games[i],
            black=black,
            white=white,
            result={1: "B+", -1: "W+", 0: "0"}[result.winners[i]],
            num_setup=result.opening_stones[i],
        )
        (workdir / GAMES_FOLDER / f"iteration_{iteration:06d}_game_{i}.sgf").write_text(sgf)


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
        CheckpointError: nothing to resume, or a run of another board, rule or network.
    """
    workdir = pathlib.Path(workdir)
    check_workdir(config, workdir, resume)
    messages: list[str] = []
    if resume and checkpoint_steps(workdir):
        saved, state, messages = restore_checkpoint(workdir, config)
        if saved.selfplay.num_games != config.selfplay.num_games:
            ours, theirs = config.selfplay.num_games, saved.selfplay.num_games
            raise CheckpointError(f"selfplay.num_games is {theirs} in the run and cannot change to {ours}")
        messages.append(f"resumed at iteration {int(state.progress.iteration)}")
    else:
        state = init_training_state(config)
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
    started, started_at = time.monotonic(), done
    with _stop_signals() as stop_asked, display, contextlib.closing(writer):
        for message in messages:
            display.message(message)
        while int(state.progress.iteration) < config.iterations and not stop_asked():
            state, row = run_iteration(config, programs, state)
            iteration = int(state.progress.iteration)
            last = iteration == config.iterations
            every = config.evaluation.every
            if every > 0 and (iteration % every == 0 or last):
                state, evaluation, result = run_evaluation(config, programs, state, workdir)
                playouts = evaluation["evaluation/num_playouts"]
                display.message(f"iteration {iteration}: against pure MCTS {playouts}: {result}")
                row |= evaluation
            row["time/seconds"] = float(state.progress.seconds)
            writer.write(iteration, row)
            left = (time.monotonic() - started) / (iteration - started_at) * (config.iterations - iteration)
            display.update(iteration, _describe(row, state, left))
            for warning in collapse_warnings(row) if iteration % _WARN_EVERY == 0 else ():
                display.message(f"warning: {warning}")
            if iteration % config.checkpoint_every == 0 or last or stop_asked():
                _save(config, workdir, state)
                saved_at = iteration
        iteration = int(state.progress.iteration)
        if saved_at != iteration:
            _save(config, workdir, state)
        finished = iteration >= config.iterations
        if not finished:
            display.message(
                f"stopped at iteration {iteration}; checkpoint saved, --resume goes on from there"
            )
    return TrainResult(workdir, state, finished, row, evaluation)


@functools.cache
def _origin() -> dict[str, Any]:
    """What an agent tells of the code and the machine that made it."""
    facts = provenance()
    return {name: facts[name] for name in ("commit", "processor", "cores", "devices")}


def _save(config: TrainConfig, workdir: pathlib.Path, state: TrainingState) -> None:
    save_checkpoint(workdir, config, state)
    info = {"iteration": int(state.progress.iteration), "seed": config.seed} | _origin()
    params = playing_params(config, state)
    save_agent(workdir / AGENT_FOLDER / "latest", config.game, config.network, config.search, params, info)


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
