"""Plays a match between any two players and prints its score. Try:

    python experiments/evaluate.py runs/mine mcts:1000 --games 100 --simulations 100
    python experiments/evaluate.py runs/mine@400 runs/other@400 --opening-stones 2
    python experiments/evaluate.py mcts:1000 tactical --board 9x9x5
    python experiments/evaluate.py runs/mine gomocup:engines/pbrain --board 15x15x5 --opening-stones 4

A player is random, tactical, mcts:PLAYOUTS, or a run or agent folder, with @SIMULATIONS if wanted (@0 is the
network without search), or gomocup:PATH for an engine that speaks the Gomocup protocol: an executable, or a
command line in quotes. Against an engine the games are played one after another, and a crash, a time-out or
an illegal move loses.
"""

import dataclasses
import json
import pathlib
import re
import sys
import time

import tyro

from gomoku_jax.agent import PLAYER_SPECS, AgentError, PlayerSpec, parse_player
from gomoku_jax.arena import MatchResult, play_match
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule, to_dict
from gomoku_jax.game import Gomoku, to_sgf
from gomoku_jax.metrics import provenance
from gomoku_jax.play.match import HostMatchResult, play_host_match
from gomoku_jax.play.opponents import ENGINE_PREFIX, HostPlayer, Limit, make_opponent


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
    seconds: float | None = None
    """Seconds a move, of engines (by default 5), and of agents against them (by default as many simulations
    as in their training)."""
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


def parse_players(arguments: Arguments) -> list[PlayerSpec | None]:
    """The players that play in batches; None for engines.

    Raises:
        AgentError: no such player.
    """
    specs = []
    for spec in (arguments.a, arguments.b):
        if spec.startswith(ENGINE_PREFIX):
            specs.append(None)
            continue
        try:
            specs.append(parse_player(spec, arguments.simulations))
        except AgentError as error:
            hint = ", or gomocup:PATH" if PLAYER_SPECS in str(error) else ""
            raise AgentError(f"{error}{hint}") from None
    return specs


def choose_game(arguments: Arguments, specs: list[PlayerSpec | None]) -> Gomoku:
    """The board that was asked for, or the first agent's; against an engine it has five in a row."""
    agents = [spec.agent for spec in specs if spec is not None and spec.agent is not None]
    base = agents[0].game if agents else Gomoku(6, 6, 4)
    if None in specs and (not agents or base.k != 5):
        base = Gomoku(15, 15, 5, base.rule)
    rule = arguments.rule or base.rule
    if arguments.board is None:
        return dataclasses.replace(base, rule=rule)
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", arguments.board)
    if match is None:
        raise ValueError(f"--board {arguments.board!r}: write ROWSxCOLUMNSxK, such as 15x15x5")
    return Gomoku(int(match[1]), int(match[2]), int(match[3]), rule)


def play_engines(arguments: Arguments, game: Gomoku, specs: list[PlayerSpec | None]) -> HostMatchResult:
    """The match on the host, with its score so far after each game."""
    players: list[HostPlayer] = []
    try:
        for text, spec in zip((arguments.a, arguments.b), specs, strict=True):
            trained = (
                spec.agent.search.num_simulations if spec is not None and spec.agent is not None else 200
            )
            simulations = trained if arguments.simulations is None else arguments.simulations
            if arguments.seconds is not None and arguments.simulations is None:
                simulations = None
            limit = Limit(simulations, arguments.seconds)
            players.append(make_opponent(text, game, limit, arguments.seed))
        a, b = players
        return play_host_match(
            a,
            b,
            game,
            arguments.games,
            arguments.seed,
            arguments.opening_stones,
            on_game=lambda number, record, forfeit: print(
                f"game {number}: {record}"
                + (f" -- {forfeit.player} forfeits: {forfeit.reason}" if forfeit else ""),
                flush=True,
            ),
        )
    finally:
        for player in players:
            player.close()


def write_sgf(folder: pathlib.Path, game: Gomoku, names: list[str], result: MatchResult) -> None:
    """One SGF file a game."""
    folder.mkdir(parents=True, exist_ok=True)
    forfeited = {forfeit.game for forfeit in result.forfeits} if isinstance(result, HostMatchResult) else ()
    for i, actions in enumerate(result.games):
        outcome = {1: "B+", -1: "W+", 0: "0"}[result.winners[i]] + ("F" if i in forfeited else "")
        black_and_white = names if result.a_is_black[i] else names[::-1]
        sgf = to_sgf(game, actions, *black_and_white, result=outcome, num_setup=result.opening_stones[i])
        (folder / f"game_{i:04d}.sgf").write_text(sgf)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        use_compilation_cache()
        specs = parse_players(arguments)
        game = choose_game(arguments, specs)
        texts = (arguments.a, arguments.b)
        names = [text if spec is None else spec.name for text, spec in zip(texts, specs, strict=True)]
        started = time.monotonic()
        if None in specs:
            result = play_engines(arguments, game, specs)
        elif arguments.seconds is not None:
            raise ValueError("--seconds is for matches with gomocup:PATH; agents take --simulations")
        else:
            a, b = (spec.make(game) for spec in specs if spec is not None)
            result = play_match(a, b, game, arguments.games, arguments.seed, arguments.opening_stones)
        seconds = time.monotonic() - started
        print(f"{names[0]} against {names[1]} on {game}:")
        print(result)
        forfeits = result.forfeits if isinstance(result, HostMatchResult) else ()
        if forfeits:
            lost = sum(forfeit.by_a for forfeit in forfeits)
            print(f"forfeits: {lost} by {names[0]}, {len(forfeits) - lost} by {names[1]}, counted as losses")
        if None in specs and result.distinct_games < result.num_games and not arguments.opening_stones:
            print(
                "some games are the same; --opening-stones 4 gives every pair of games an opening of its own"
            )
        print(f"{seconds:.1f} s")
        if arguments.sgf is not None:
            write_sgf(arguments.sgf, game, names, result)
        if arguments.json is not None:
            row = {
                "a": names[0],
                "b": names[1],
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
                **({"seconds_per_move": arguments.seconds or 5.0} if None in specs else {}),
                **({"forfeits": [str(forfeit) for forfeit in forfeits]} if None in specs else {}),
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
