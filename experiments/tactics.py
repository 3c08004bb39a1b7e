"""Which tactical puzzles do players solve, in the centre, on the edge and in the corner? Try:

    python experiments/tactics.py 9x9x5
    python experiments/tactics.py runs/mine tactical mcts:1000 --simulations 0 100 --json rows.jsonl
    python experiments/tactics.py runs/mine --snapshots --simulations 0 --board 6x6x4
    python experiments/tactics.py 9x9x5@400 --board 15x15x5 --show 3

A player is random, tactical, vcf:PLIES, mcts:PLAYOUTS, a run or agent folder, a published .model file or the
name of a shipped agent, with @SIMULATIONS if wanted (@0 is the network without search). The puzzles are
generated for any board: win in one, block, make an open four, stop one, double four, four and three. A
"four" lacks one stone of a line, whatever k is. Intervals count a puzzle once, not its images.
"""

import dataclasses
import pathlib
import sys
import time
from typing import Any

import jax
import matches
import numpy as np
import tyro
from rich.console import Console
from rich.table import Column, Table
from rows import append_row, command_line

from gomoku_jax.agent import PLAYER_SPECS, AgentError, PlayerSpec, parse_player
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku, ascii_board, format_action
from gomoku_jax.metrics import provenance
from gomoku_jax.suites import SolveRate, SolveRates, TacticalSuite, solve_rates, tactics_suite
from gomoku_jax.suites.motifs import PLACES
from gomoku_jax.suites.puzzles import KINDS

_TREE_ENTRIES = 6_000_000  # simulations times points that are searched at once: some 200 MB


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    players: tyro.conf.Positional[tuple[str, ...]]
    """Whose moves are asked for."""
    board: str | None = None
    """ROWSxCOLUMNSxK, such as 15x15x5; by default the board of the first agent, or 6x6x4."""
    rule: Rule | None = None
    """The rule; by default that of the first agent, or freestyle."""
    simulations: tuple[int, ...] = (0, 32, 100, 400)
    """Simulations a move of agents without @, one after another; 0 is the network without search."""
    snapshots: bool = False
    """Of run folders ask every agent kept under agents/iteration_*, oldest first, instead of the best."""
    tactical_helper: bool = False
    """Every agent's search is exact one stone ahead: wins, forced blocks, double threats."""
    patterns: int = 4
    """Patterns of each kind and place; each makes 16 positions on a square, by colour and symmetry."""
    batch: int | None = None
    """Positions searched at once; by default as many as take some 200 MB, at most 64."""
    show: int = 0
    """Print so many unsolved positions of each player."""
    seed: int = 0
    """Of players that draw random numbers. The puzzles are always the same."""
    json: pathlib.Path | None = None
    """Append the results to this file, one JSON line a player, with versions and hardware."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A player in the table."""

    name: str  # without the folders above it
    simulations: int | None
    spec: PlayerSpec


def entries_of(arguments: Arguments) -> list[Entry]:
    """The players of the table, agents once for each number of simulations.

    Raises:
        AgentError: no such player.
        ValueError: no player, or simulations below 0.
    """
    if not arguments.players:
        raise ValueError(f"no player: give one or more of {PLAYER_SPECS}")
    for count in arguments.simulations:
        if count < 0:
            raise ValueError(f"--simulations {count}: 0 for the network without search, or more")
    texts = [
        t for text in arguments.players for t in (matches.snapshots(text) if arguments.snapshots else [text])
    ]
    found = []
    for text in texts:
        _, said = matches.split_simulations(text)
        spec = parse_player(text)
        if spec.agent is None:
            playouts = int(text.partition(":")[2]) if text.startswith("mcts:") else None
            found.append(Entry(matches.short_name(text, spec, 0.0), playouts, spec))
            continue
        counts = dict.fromkeys(arguments.simulations)
        for player in [spec] if said is not None else [parse_player(text, count) for count in counts]:
            name = matches.short_name(text, player, 0.0)
            if arguments.tactical_helper and player.simulations != 0:
                name, player = f"{name} with helper", matches.helped_player(player)
            found.append(Entry(name, player.simulations, player))
    if not found:
        raise ValueError("--simulations: give at least one number")
    return found


def batch_size(game: Gomoku, simulations: int | None) -> int:
    """A power of two up to 64 whose search trees stay small."""
    fitting = max(1, _TREE_ENTRIES // (game.num_actions * ((simulations or 0) + 1)))
    return min(64, 1 << (fitting.bit_length() - 1))


def format_rate(rate: SolveRate | None) -> str:
    """`0.938 [0.811, 0.981]`; a dash where there is no puzzle."""
    if rate is None:
        return "-"
    low, high = rate.interval
    return f"{rate.rate:.3f} [{low:.3f}, {high:.3f}]"


def print_table(title: str, first: str, rows: list[list[str]]) -> None:
    """Centre, edge and corner side by side."""
    table = Table(Column(first, overflow="fold"), *PLACES, "all", title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(width=120, highlight=False)).print(table)


def print_rates(name: str, result: SolveRates) -> None:
    """One player's table."""
    rows = [
        [kind or "all", *(format_rate(result.rate(kind, place)) for place in (*PLACES, None))]
        for kind in (*KINDS, None)
        if result.rate(kind) is not None
    ]
    print_table(f"{name}: share of puzzles solved, with 95 % intervals", "kind", rows)


def print_unsolved(result: SolveRates, count: int) -> None:
    """Boards with the move that was played and those that solve."""
    suite = result.suite
    game, states = suite.game, suite.states()
    for i in np.flatnonzero(~result.solved)[:count]:
        color = "black" if suite.to_play[i] > 0 else "white"
        right = ", ".join(format_action(game, int(a)) for a in np.flatnonzero(suite.solutions[i]))
        print(f"{suite.kind[i]}, {suite.place[i]}, {suite.form[i]}; {color} to move")
        print(ascii_board(jax.tree.map(lambda x, i=i: x[i], states)))
        print(f"played {format_action(game, int(result.actions[i]))}; right: {right}\n")


def json_row(
    arguments: Arguments, argv: list[str], entry: Entry, result: SolveRates, seconds: float
) -> dict[str, Any]:
    """What was measured, with what it takes to measure it again."""
    agent = entry.spec.agent
    info = agent.info if agent else {}
    suite = result.suite
    return {
        "measured": "tactics",
        "player": entry.name,
        "simulations": entry.simulations,
        **({"agent": {k: v for k, v in info.items() if isinstance(v, int | float)}} if info else {}),
        "tactical_helper": bool(agent and entry.simulations and agent.search.tactical_helper),
        "game": suite.game.facts(),
        "seed": arguments.seed,
        "patterns_per_group": arguments.patterns,
        "positions": len(suite),
        "puzzles": len(np.unique(suite.puzzle)),
        "rates": [
            {**dataclasses.asdict(rate), "rate": rate.rate, "interval": rate.interval}
            for rate in result.rates()
        ],
        "seconds": round(seconds, 1),
        **provenance(),
        "command": command_line("tactics.py", argv),
    }


def measure(arguments: Arguments, game: Gomoku, suite: TacticalSuite, entry: Entry) -> SolveRates:
    """One player's moves on all puzzles."""
    size = arguments.batch or batch_size(game, entry.simulations)
    return solve_rates(entry.spec.make(game), suite, jax.random.key(arguments.seed), size)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        if arguments.batch is not None and arguments.batch < 1:
            raise ValueError(f"--batch {arguments.batch}: at least 1")
        matches.check_outputs(arguments.json)
        use_compilation_cache()
        entries = entries_of(arguments)
        game = matches.choose_game(arguments.board, arguments.rule, [entry.spec for entry in entries])
        for entry in entries:
            entry.spec.make(game)  # refuses a board that it cannot play, before any work
        suite = tactics_suite(game, arguments.patterns)
        if not len(suite):
            raise ValueError(f"no puzzle fits {game}")
        print(f"{game}: {len(np.unique(suite.puzzle))} puzzles, {len(suite)} positions with their symmetries")
        summary = []
        for entry in entries:
            started = time.monotonic()
            result = measure(arguments, game, suite, entry)
            seconds = time.monotonic() - started
            print_rates(entry.name, result)
            print(f"{seconds:.1f} s\n", flush=True)
            print_unsolved(result, arguments.show)
            summary.append(
                [entry.name, *(format_rate(result.rate(place=place)) for place in (*PLACES, None))]
            )
            if arguments.json is not None:
                append_row(arguments.json, json_row(arguments, argv, entry, result, seconds))
        if len(entries) > 1:
            print_table(f"All kinds, {game}", "player", summary)
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
