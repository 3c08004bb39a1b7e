"""Self-play: simulations a second and games a minute, the tutorials' own code beside ours."""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import jax

from benchmarks.common import Benchmark, chosen_preset, describe, on_accelerator, show
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.config import (
    GameConfig,
    NetworkConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)
from gomoku_jax.game import parse_board
from gomoku_jax.programs import make_programs

_TUTORIAL_FILES = "game.py", "mcts_alphaZero.py", "policy_value_net_pytorch.py"


@dataclasses.dataclass(frozen=True)
class Selfplay(Benchmark):
    """Self-play at the tutorials' own setting, and at a preset's."""

    board: str = "6x6x4"
    """ROWSxCOLUMNSxK, of the tutorials' setting."""
    playouts: int = 400
    """A move, of the tutorials' setting."""
    games: int = 0
    """At once, of the tutorials' setting; by default 256, on accelerators 1024."""
    preset: str | None = None
    """The other setting; by default 6x6x4, on accelerators 15x15x5."""
    tutorial: pathlib.Path | None = None
    """A clone of github.com/junxiaosong/AlphaZero_Gomoku to measure beside (needs PyTorch)."""
    processes: int = 0
    """Of the tutorial's code, at once; by default one a core."""
    seconds: float = 60.0
    """Of each measurement of the tutorial's code."""
    repeats: int = 5
    """Measurements of ours; the median counts."""


def tutorial_config(arguments: Selfplay) -> TrainConfig:
    """Their network, PUCT with c = 5, noise and playouts, on our loop."""
    game = parse_board(arguments.board)
    games = arguments.games or (1024 if on_accelerator() else 256)
    return TrainConfig(
        game=GameConfig(game.height, game.width, game.k),
        network=NetworkConfig("conv"),
        search=SearchConfig(
            "puct", num_simulations=arguments.playouts, c_puct=5.0, c_puct_base=1e12, dirichlet_alpha=0.3
        ),
        selfplay=SelfplayConfig(
            num_games=games,
            moves_per_iteration=4,
            draw="visits",
            temperature_moves=game.num_actions,
            opening_stones=0,
        ),
        replay=ReplayConfig(capacity=20_000, min_size=1),
    )


def measure_ours(config: TrainConfig, repeats: int) -> dict:
    """Moves a second (median) and the mean length of finished games, over at least one game of each slot."""
    programs = make_programs(config)
    state = programs.place(init_training_state(config))
    games, buffer, params = state.selfplay, state.replay, state.learner.params
    moves = config.selfplay.num_games * config.selfplay.moves_per_iteration
    seconds, finished, length = [], 0, 0
    iterations = max(
        repeats + 1, -(-config.game.height * config.game.width // config.selfplay.moves_per_iteration)
    )
    for i in range(iterations):
        started = time.perf_counter()
        games, buffer, stats = programs.selfplay(params, games, buffer, jax.random.key(i))
        jax.block_until_ready(games)
        seconds.append(time.perf_counter() - started)
        finished, length = finished + int(stats.games.sum()), length + int(stats.game_length.sum())
    rate = moves / statistics.median(seconds[1:])
    return {
        "moves_per_second": rate,
        "simulations_per_second": rate * config.search.num_simulations,
        "mean_game_length": length / max(finished, 1),
        "games_per_minute": 60 * rate * finished / max(length, 1),
    }


def measure_tutorial(arguments: Selfplay) -> dict:
    """Several of their processes side by side, added up."""
    assert arguments.tutorial is not None
    for name in _TUTORIAL_FILES:
        if not (arguments.tutorial / name).is_file():
            raise ValueError(
                f"--tutorial {arguments.tutorial}: no {name} there; give a clone of the repository"
            )
    game = parse_board(arguments.board)
    count = arguments.processes or len(os.sched_getaffinity(0))
    script = pathlib.Path(__file__).with_name("tutorial.py")
    numbers = game.height, game.width, game.k, arguments.playouts, arguments.seconds
    command = [sys.executable, str(script), str(arguments.tutorial.resolve()), *map(str, numbers)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(count)
    ]
    results = []
    for process in running:
        out, err = process.communicate()
        if process.returncode != 0:
            raise ValueError(
                f"the tutorial's code failed: {err.strip().splitlines()[-1] if err else 'no output'}"
            )
        results.append(json.loads(out))
    moves = sum(result["moves"] / result["seconds"] for result in results)
    games = sum(result["games"] / result["seconds"] for result in results)
    return {
        "processes": count,
        "torch": results[0]["torch"],
        "moves_per_second": moves,
        "simulations_per_second": moves * arguments.playouts,
        "games_per_minute": 60 * games,
    }


def run(arguments: Selfplay) -> list[dict]:
    """One row a program and setting."""
    parse_board(arguments.board)
    preset_name, preset = chosen_preset(arguments.preset)
    theirs = measure_tutorial(arguments) if arguments.tutorial is not None else None
    config = tutorial_config(arguments)
    rows = []
    for name, chosen in (("tutorials' setting", config), (f"preset {preset_name}", preset)):
        rows.append(
            {
                "benchmark": "selfplay",
                "program": "gomoku_jax",
                "setting": name,
                "network": describe(chosen.network),
                "simulations": chosen.search.num_simulations,
                "games_at_once": chosen.selfplay.num_games,
                "devices": len(jax.devices()),
                **measure_ours(chosen, arguments.repeats),
            }
        )
    if theirs is not None:
        rows.insert(
            0,
            {
                "benchmark": "selfplay",
                "program": "junxiaosong/AlphaZero_Gomoku",
                "setting": "tutorials' setting",
                "simulations": arguments.playouts,
                **theirs,
            },
        )
    cells = [
        (
            row["program"] + (f", {row['processes']} processes" if "processes" in row else ""),
            f"{row['setting']}, {row['simulations']} simulations",
            f"{row['simulations_per_second']:,.0f}",
            f"{row['moves_per_second']:,.1f}",
            f"{row['games_per_minute']:,.1f}",
        )
        for row in rows
    ]
    show(
        f"Self-play, {arguments.board}",
        ("program", "setting", "simulations/s", "moves/s", "games/min"),
        cells,
    )
    if theirs is not None:
        faster = rows[1]["simulations_per_second"] / rows[0]["simulations_per_second"]
        more = rows[2]["games_per_minute"] / max(rows[0]["games_per_minute"], 1e-9)
        print(f"At the same setting {faster:.1f} times the simulations; preset: {more:.0f} times the games.")
    return rows
