"""Renju's forbidden points of many positions in one call, beside freestyle's step and a referee in Python."""

import dataclasses
import importlib.util
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.common import Benchmark, describe, medians, on_accelerator, openings, show
from gomoku_jax.agent import load_agent
from gomoku_jax.checkpoint import init_training_state
from gomoku_jax.config import GameConfig, ReplayConfig, SelfplayConfig, TrainConfig
from gomoku_jax.game import WHITE, Gomoku, parse_board, renju
from gomoku_jax.programs import make_programs
from gomoku_jax.sharding import use_cpu_cores


@dataclasses.dataclass(frozen=True)
class Rules(Benchmark):
    """Positions per second whose forbidden points are told."""

    board: str = "15x15x5"
    """ROWSxCOLUMNSx5."""
    batch: int = 0
    """Positions in one call; by default 4,096, on accelerators 65,536."""
    stones: tuple[int, ...] = (8, 30, 60)
    """Random stones on the board, one measurement each."""
    repeats: int = 9
    """Measurements; the median counts."""
    referee: int = 20
    """Positions for the `renju` package, where it is installed (extra `test`); 0 is none."""
    agent: str = "15x15x5"
    """Whose network and search play, in self-play under both rules."""
    selfplay_games: int = 0
    """Games at once of self-play; by default 32, on accelerators 1,024."""
    selfplay_moves: int = 2
    """Moves of each game in one measurement of self-play; 0 leaves it out."""


def run(arguments: Rules) -> list[dict]:
    """One row for each number of stones."""
    use_cpu_cores(arguments.selfplay_games or 32)
    game = parse_board(arguments.board, "renju")
    freestyle = Gomoku(game.height, game.width, game.k)
    batch = arguments.batch or (65_536 if on_accelerator() else 4096)
    points, mask = jax.jit(jax.vmap(renju.forbidden_points)), jax.jit(jax.vmap(game.legal_action_mask))
    step, renju_step = jax.jit(jax.vmap(freestyle.step)), jax.jit(jax.vmap(game.step))
    rows, cells = [], []
    for stones in arguments.stones:
        states = openings(freestyle, batch, stones)
        states = states.replace(to_play=jnp.ones_like(states.to_play))
        actions = jnp.argmax(jax.vmap(freestyle.legal_action_mask)(states), -1)
        seconds = medians(
            {
                "points": lambda s=states: points(s.board),
                "mask": lambda s=states: mask(s),
                "step": lambda s=states, a=actions: step(s, a),
                "renju_step": lambda s=states, a=actions: renju_step(s, a),
            },
            arguments.repeats,
        )
        rates = {name: batch / value for name, value in seconds.items()}
        theirs = referee_rate(np.asarray(states.board)[: arguments.referee]) if arguments.referee else None
        rows.append(
            {
                "benchmark": "rules",
                "game": str(game),
                "batch": batch,
                "stones": stones,
                "positions_per_second": rates["points"],
                "masks_per_second": rates["mask"],
                "freestyle_steps_per_second": rates["step"],
                "renju_steps_per_second": rates["renju_step"],
                "referee_positions_per_second": theirs,
            }
        )
        cells.append(
            (
                str(stones),
                f"{rates['points']:,.0f}",
                f"{rates['points'] / rates['step']:.3f}",
                f"{rates['renju_step']:,.0f}",
                "-" if theirs is None else f"{theirs:,.1f}",
                "-" if theirs is None else f"{rates['points'] / theirs:,.0f}",
            )
        )
    show(
        f"{game}: {batch:,} positions in one call",
        (
            "stones",
            "positions/s",
            "of freestyle's steps/s",
            "renju's steps/s",
            "referee/s",
            "times the referee",
        ),
        cells,
    )
    if arguments.selfplay_moves > 0:
        row = selfplay_row(arguments, game)
        rows.append(row)
        rates = row["moves_per_second"]
        show(
            f"Self-play, {row['network']}, {row['simulations']} simulations, {row['games_at_once']} games",
            ("rule", "moves/s"),
            [(rule, f"{rate:,.1f}") for rule, rate in rates.items()],
        )
        print(f"Renju plays {rates['renju'] / rates['freestyle']:.2f} times as many moves as freestyle.")
    return rows


def selfplay_row(arguments: Rules, game: Gomoku) -> dict:
    """Moves per second of self-play under either rule, measured in turns."""
    agent = load_agent(arguments.agent)
    num_games = arguments.selfplay_games or (1024 if on_accelerator() else 32)
    runs = {}
    for rule in ("freestyle", "renju"):
        config = TrainConfig(
            game=GameConfig(game.height, game.width, game.k, rule),
            network=agent.network,
            search=agent.search,
            selfplay=SelfplayConfig(num_games=num_games, moves_per_iteration=arguments.selfplay_moves),
            replay=ReplayConfig(capacity=20_000, min_size=1),
        )
        runs[rule] = _SelfplayRun(config)
    seconds = medians(runs, arguments.repeats)
    moves = num_games * arguments.selfplay_moves
    return {
        "benchmark": "rules",
        "game": str(game),
        "network": describe(agent.network),
        "simulations": agent.search.num_simulations,
        "games_at_once": num_games,
        "devices": len(jax.devices()),
        "moves_per_second": {rule: moves / value for rule, value in seconds.items()},
    }


class _SelfplayRun:
    """Plays on from where the last call ended."""

    def __init__(self, config: TrainConfig):
        self._programs = make_programs(config)
        state = self._programs.place(init_training_state(config))
        self._games, self._buffer, self._params = state.selfplay, state.replay, state.learner.params
        self._calls = 0

    def __call__(self) -> jax.Array:
        self._calls += 1
        self._games, self._buffer, stats = self._programs.selfplay(
            self._params, self._games, self._buffer, jax.random.key(self._calls)
        )
        return stats.games


def referee_rate(boards: np.ndarray) -> float | None:
    """Positions per second of the `renju` package; None where it is not installed."""
    if importlib.util.find_spec("renju") is None:
        return None
    from renju.check_forbid import get_foul_type

    height, width = boards.shape[1:]
    side = max(height, width)  # the package knows squares: white stones are as good as an edge
    squares = np.full((len(boards), side, side), WHITE)
    squares[:, :height, :width] = boards
    started = time.perf_counter()
    for board, square in zip(boards, squares, strict=True):
        grid = np.where(square == WHITE, 2, square).tolist()
        for action in np.flatnonzero(board.reshape(-1) == 0):
            get_foul_type(grid, *divmod(int(action), board.shape[1]))
    return len(boards) / (time.perf_counter() - started)
