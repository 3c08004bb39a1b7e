"""The Gomocup engine as a process: how soon it answers and ends, and whole games against itself."""

import dataclasses
import shlex
import statistics
import subprocess
import sys
import time

from benchmarks.common import Benchmark, show
from gomoku_jax.config import Rule
from gomoku_jax.game import parse_board
from gomoku_jax.play.gomocup.client import EnginePlayer
from gomoku_jax.play.gomocup.protocol import RULES
from gomoku_jax.play.match import play_host_match


@dataclasses.dataclass(frozen=True)
class Gomocup(Benchmark):
    """Cold starts of the Gomocup engine, and games against itself through the protocol."""

    agent: str | None = None
    """A run or agent folder or a shipped agent's name; by default what the engine finds."""
    board: str = "15x15x5"
    """ROWSxCOLUMNSx5."""
    rule: Rule = "freestyle"
    """freestyle or exact."""
    starts: int = 5
    """Cold starts to take the median of; 0 for none."""
    games: int = 10
    """Games against itself; 0 for none."""
    seconds: float = 0.2
    """timeout_turn of those games. An answer that comes later than this is a fault."""
    opening_stones: int = 4
    """Random stones before each pair of games."""
    seed: int = 0
    """Of the openings."""


def run(arguments: Gomocup) -> list[dict]:
    """The rows: one of the cold starts, one of the games."""
    rows = []
    if arguments.starts > 0:
        rows.append(cold_starts(arguments))
    if arguments.games > 0:
        rows.append(own_games(arguments))
    return rows


def engine_command(arguments: Gomocup) -> list[str]:
    """The engine's command line."""
    agent = [] if arguments.agent is None else ["--agent", arguments.agent]
    return [sys.executable, "-m", "gomoku_jax.play.cli", "gomocup", *agent]


def cold_starts(arguments: Gomocup) -> dict:
    """Median seconds from starting the process to the answers, and from END to its exit."""
    game = parse_board(arguments.board, arguments.rule)
    code = next(code for code, name in RULES.items() if name == arguments.rule)
    seconds: dict[str, list[float]] = {}
    answered_by = []
    for _ in range(arguments.starts):
        started = time.perf_counter()
        pipe = subprocess.PIPE
        with subprocess.Popen(
            engine_command(arguments),
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        ) as process:
            assert process.stdin is not None and process.stdout is not None

            def note(what: str, since: float) -> None:
                seconds.setdefault(what, []).append(time.perf_counter() - since)

            print("ABOUT", file=process.stdin)
            process.stdout.readline()
            note("ABOUT", started)
            print(f"INFO rule {code}\nRECTSTART {game.width},{game.height}", file=process.stdin)
            process.stdout.readline()
            note("START", started)
            print(f"TURN {game.width // 2},{game.height // 2}", file=process.stdin)
            searched = False
            while (line := process.stdout.readline()).startswith("MESSAGE"):
                searched |= " pv " in line
            note("first move", started)
            answered_by.append("search" if searched else "fallback")
            assert line, "the engine ended"
            print("TURN 0,0", file=process.stdin)
            time.sleep(0.2)
            ending = time.perf_counter()
            print("END", file=process.stdin)
            process.wait()
            note("END to exit", ending)
    medians = {what: statistics.median(values) for what, values in seconds.items()}
    show(
        f"Gomocup engine on {game}, {arguments.starts} cold starts, first move by {', '.join(answered_by)}",
        ["", "median s", "longest s"],
        [(what, f"{medians[what]:.3f}", f"{max(values):.3f}") for what, values in seconds.items()],
    )
    return {
        "benchmark": "gomocup starts",
        "board": arguments.board,
        "rule": arguments.rule,
        "starts": arguments.starts,
        "first_move_by": answered_by,
        "median_seconds": {what: round(value, 4) for what, value in medians.items()},
        "longest_seconds": {what: round(max(values), 4) for what, values in seconds.items()},
    }


def own_games(arguments: Gomocup) -> dict:
    """Games of two engine processes; an illegal move, an answer out of time or a crash is a fault."""
    game = parse_board(arguments.board, arguments.rule)
    command = shlex.join(engine_command(arguments))
    players = [EnginePlayer(command, game, arguments.seconds, grace=0.0) for _ in range(2)]
    started = time.perf_counter()
    try:
        result = play_host_match(
            *players,
            game=game,
            num_games=arguments.games,
            seed=arguments.seed,
            opening_stones=arguments.opening_stones,
        )
    finally:
        for player in players:
            player.close()
    seconds = time.perf_counter() - started
    moves = sum(
        len(actions) - stones for actions, stones in zip(result.games, result.opening_stones, strict=True)
    )
    show(
        f"{arguments.games} games of the engine against itself on {game}, {arguments.seconds} s a move",
        ["games", "distinct", "moves", "faults", "first-second-draws", "s"],
        [
            (
                str(result.num_games),
                str(result.distinct_games),
                str(moves),
                str(len(result.forfeits)),
                f"{result.wins}-{result.losses}-{result.draws}",
                f"{seconds:.1f}",
            )
        ],
    )
    for forfeit in result.forfeits:
        print(forfeit)
    return {
        "benchmark": "gomocup games",
        "board": arguments.board,
        "rule": arguments.rule,
        "games": result.num_games,
        "distinct_games": result.distinct_games,
        "moves": moves,
        "seconds_per_move": arguments.seconds,
        "faults": [str(forfeit) for forfeit in result.forfeits],
        "seconds": round(seconds, 1),
    }
