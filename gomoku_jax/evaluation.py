"""The evaluation in a training run: a match against pure MCTS, and perfect play where a board is solved."""

import functools
import pathlib
from typing import Any

import jax
import numpy as np

from gomoku_jax.arena import MatchResult, match_result
from gomoku_jax.checkpoint import TrainingState, playing_params
from gomoku_jax.config import TrainConfig
from gomoku_jax.distributed import is_main, shared_time
from gomoku_jax.files import Keep, keep_now, write_atomically
from gomoku_jax.game import Gomoku
from gomoku_jax.metrics import Clock
from gomoku_jax.programs import Programs
from gomoku_jax.run_agents import save_run_agent
from gomoku_jax.sharding import fetch
from gomoku_jax.suites import load_solved, measure_perfect_play

GAMES_FOLDER = "games"


def run_evaluation(
    config: TrainConfig,
    programs: Programs,
    state: TrainingState,
    workdir: pathlib.Path,
    keep: Keep = keep_now,
) -> tuple[TrainingState, dict[str, Any], MatchResult]:
    """A match against pure MCTS; keeps the best agent, raises the playouts after a clean sweep.

    With several processes all call this; the first of them writes, by `keep`, and measures perfect play.
    """
    clock = Clock()
    key, match_key = jax.random.split(state.key)
    progress = state.progress
    num_playouts = int(progress.num_playouts)
    params = playing_params(config, state)
    games = fetch(programs.evaluate(num_playouts)(params, match_key), programs.mesh)
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
        numbers = {name.split("/")[1]: value for name, value in metrics.items()}
        if is_main():
            save_run_agent(config, state, workdir, "best", keep, evaluation=numbers)
        progress = progress.replace(
            best_score=np.asarray(result.score), best_iteration=np.asarray(iteration, np.int64)
        )
    if result.wins == result.num_games and num_playouts < config.evaluation.max_playouts:
        playouts = min(num_playouts + config.evaluation.playouts_step, config.evaluation.max_playouts)
        progress = progress.replace(
            num_playouts=np.asarray(playouts, np.int64), best_score=np.asarray(-1.0, np.float64)
        )
    if is_main():
        _save_games(config, workdir, iteration, num_playouts, result, keep)
        if config.evaluation.solved_positions > 0:
            metrics |= solved_metrics(config, params)
    seconds, cpu_seconds = shared_time(clock)
    metrics["time/evaluation_seconds"] = seconds
    progress = progress.replace(
        seconds=progress.seconds + seconds, cpu_seconds=progress.cpu_seconds + cpu_seconds
    )
    return state.replace(key=key, progress=progress), metrics, result


def solved_metrics(config: TrainConfig, params: Any) -> dict[str, float]:
    """Moves and values against perfect play, of the network alone and at the evaluation's simulations.

    Raises:
        ValueError: no solved positions for this game.
    """
    solved = load_solved(Gomoku.from_config(config.game)).take(config.evaluation.solved_positions)
    numbers = sorted({0, config.evaluation.num_simulations})
    results = measure_perfect_play(solved, config.network, jax.device_get(params), config.search, numbers)
    metrics = {}
    for result in results:
        name = "raw" if result.num_simulations == 0 else "search"
        metrics |= {
            f"solved/{name}_value_kept": result.kept.share,
            f"solved/{name}_value_error": result.value_error,
            f"solved/{name}_sign_errors": result.sign_errors.share,
        }
    return metrics


def _save_games(
    config: TrainConfig,
    workdir: pathlib.Path,
    iteration: int,
    num_playouts: int,
    result: MatchResult,
    keep: Keep,
) -> None:
    game = Gomoku.from_config(config.game)
    names = f"iteration {iteration}", f"pure MCTS {num_playouts}"
    for i in range(min(config.evaluation.saved_games, result.num_games)):
        sgf = result.sgf(i, game, *names)
        name = f"{GAMES_FOLDER}/iteration_{iteration:06d}_game_{i}.sgf"
        keep(name, functools.partial(write_atomically, workdir / name, sgf))
