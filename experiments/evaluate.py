"""Plays a match between any two players and prints its score. Try:

    python experiments/evaluate.py runs/mine mcts:1000 --games 100 --simulations 100
    python experiments/evaluate.py runs/mine@400 runs/other@400 --opening-stones 2
    python experiments/evaluate.py mcts:1000 tactical --board 9x9x5

A player is random, tactical, mcts:PLAYOUTS, or a run or agent folder, with @SIMULATIONS if wanted (@0 is the
network without search).
"""

import dataclasses
import json
import pathlib
import re
import sys
import time

import tyro

from gomoku_jax.agent import AgentError, PlayerSpec, parse_player
from gomoku_jax.arena import MatchResult, play_match
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule, to_dict
from gomoku_jax.game import Gomoku, to_sgf
from gomoku_jax.metrics import provenance


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    a: tyro.conf.Positional[str]
    """The player whose score is told."""
    b: tyro.conf.Positional[str]
    """Its opponent."""
    games: int = 100
    """Games in all; colours are swapped on every opening."""
    simulations: int | None = None
    """Simulations a move of agents without @; by default as in their training."""
    opening_stones: int = 0
    """Random stones on the board before each pair of games; 0 starts from the empty board."""
    board: str | None = None
    """ROWSxCOLUMNSxK, such as 15x15x5; by default the board of the first agent, or 6x6x4."""
    rule: Rule | None = None
    """The rule; by default that of the first agent, or freestyle."""
    seed: int = 0
    """Of the openings and the players."""
    json: pathlib.Path | None = None
    """Append the result to this file as one JSON line, with versions and hardware."""
    sgf: pathlib.Path | None = None
    """Write the games as SGF files into this folder."""


def choose_game(arguments: Arguments, specs: list[PlayerSpec]) -> Gomoku:
    """The board that was asked for, or the first agent's."""
    agents = [spec.agent for spec in specs if spec.agent is not None]
    base = agents[0].game if agents else Gomoku(6, 6, 4)
    rule = arguments.rule or base.rule
    if arguments.board is None:
        return dataclasses.replace(base, rule=rule)
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", arguments.board)
    if match is None:
        raise ValueError(f"--board {arguments.board!r}: write ROWSxCOLUMNSxK, such as 15x15x5")
    return Gomoku(int(match[1]), int(match[2]), int(match[3]), rule)


def write_sgf(folder: pathlib.Path, game: Gomoku, specs: list[PlayerSpec], result: MatchResult) -> None:
    """One SGF file a game."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, actions in enumerate(result.games):
        names = [spec.name for spec in (specs if result.a_is_black[i] else specs[::-1])]
        outcome = {1: "B+", -1: "W+", 0: "0"}[result.winners[i]]
        sgf = to_sgf(game, actions, *names, result=outcome, num_setup=result.opening_stones[i])
        (folder / f"game_{i:04d}.sgf").write_text(sgf)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        use_compilation_cache()
        specs = [parse_player(spec, arguments.simulations) for spec in (arguments.a, arguments.b)]
        game = choose_game(arguments, specs)
        a, b = (spec.make(game) for spec in specs)
        started = time.monotonic()
        result = play_match(a, b, game, arguments.games, arguments.seed, arguments.opening_stones)
        seconds = time.monotonic() - started
        print(f"{specs[0].name} against {specs[1].name} on {game}:")
        print(result)
        print(f"{seconds:.1f} s")
        if arguments.sgf is not None:
            write_sgf(arguments.sgf, game, specs, result)
        if arguments.json is not None:
            row = {
                "a": specs[0].name,
                "b": specs[1].name,
                "game": to_dict(game),
                "games": result.num_games,
                "opening_stones": arguments.opening_stones,
                "seed": arguments.seed,
                "wins": result.wins,
                "draws": result.draws,
                "losses": result.losses,
                "as_black": result.as_black,
                "as_white": result.as_white,
                "score": result.score,
                "interval": result.interval,
                "distinct_games": result.distinct_games,
                "seconds": round(seconds, 1),
                **provenance(),
            }
            with arguments.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
