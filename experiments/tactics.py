"""Which tactical puzzles do players solve, in the centre, on the edge and in the corner? Try:

    python experiments/tactics.py 9x9x5
    python experiments/tactics.py runs/mine tactical mcts:1000 --simulations 0 100 --json rows.jsonl
    python experiments/tactics.py runs/mine --snapshots --simulations 0 --board 6x6x4
    python experiments/tactics.py 9x9x5@400 --board 15x15x5 --show 3
    python experiments/tactics.py runs/mine vcf:9 --forced --rule renju --board 15x15x5

A player is random, tactical, vcf:PLIES, mcts:PLAYOUTS, a run or agent folder, a published .model file or the
name of a shipped agent, with @SIMULATIONS if wanted (@0 is the network without search). The puzzles are
generated for any board: win in one, block, make an open four, stop one, double four, four and three. A
"four" lacks one stone of a line, whatever k is. Intervals count a puzzle once, not its images.

The puzzles know the rules freestyle and exact. With --forced the positions are random stones, under any rule,
in which the side to move is proved to win by continuous fours, and not at once. Told is by the length of the
shortest such win (9 plies are 9 or more) how often a player's move wins at once or makes a four after which,
whatever the answer, such a win is proved again.
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
from gomoku_jax.config import Rule, SearchConfig
from gomoku_jax.game import Gomoku, ascii_board, format_action
from gomoku_jax.metrics import provenance
from gomoku_jax.suites import (
    FoursSuite,
    KeptRate,
    KeptWins,
    SolveRate,
    SolveRates,
    TacticalSuite,
    fours_suite,
    kept_wins,
    solve_rates,
    tactics_suite,
)
from gomoku_jax.suites.fours import LENGTHS
from gomoku_jax.suites.motifs import PLACES
from gomoku_jax.suites.puzzles import KINDS

Result = SolveRates | KeptWins
LENGTH_NAMES = (*(f"{length} plies" for length in LENGTHS[:-1]), f"{LENGTHS[-1]} and more")
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
    forced: bool = False
    """Wins by continuous fours to keep, for any rule, instead of the puzzles."""
    positions: int = 200
    """Of --forced: how many."""
    helpers: tyro.conf.OmitArgPrefixes[matches.Helpers] = matches.Helpers()
    """Of every agent's search."""
    patterns: int = 4
    """Patterns of each kind and place; each makes 16 positions on a square, by colour and symmetry."""
    batch: int | None = None
    """Positions searched at once; by default as many as take some 200 MB, at most 64."""
    show: int = 0
    """Print so many unsolved positions of each player."""
    seed: int = 0
    """Of players that draw random numbers. The positions are always the same."""
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
            if arguments.helpers.options and player.simulations != 0:
                name, player = f"{name} with {arguments.helpers.words}", arguments.helpers.player(player)
            found.append(Entry(name, player.simulations, player))
    if not found:
        raise ValueError("--simulations: give at least one number")
    return found


def batch_size(game: Gomoku, simulations: int | None) -> int:
    """A power of two up to 64 whose search trees stay small."""
    fitting = max(1, _TREE_ENTRIES // (game.num_actions * ((simulations or 0) + 1)))
    return min(64, 1 << (fitting.bit_length() - 1))


def format_rate(rate: SolveRate | KeptRate | None) -> str:
    """`0.938 [0.811, 0.981]`; a dash where there is no position."""
    if rate is None:
        return "-"
    low, high = rate.interval
    return f"{rate.rate:.3f} [{low:.3f}, {high:.3f}]"


def print_table(title: str, columns: tuple[str, ...], rows: list[list[str]]) -> None:
    """A row for each kind, length or player."""
    table = Table(Column(columns[0], overflow="fold"), *columns[1:], title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(width=120, highlight=False)).print(table)


def cells(result: Result) -> list[str]:
    """A player's row in the table of all players: by place, or by length, and all."""
    if isinstance(result, KeptWins):
        rates = [result.rate(length) for length in LENGTHS]
        return [f"{rate.rate:.3f}" if rate else "-" for rate in rates] + [format_rate(result.rate())]
    return [format_rate(result.rate(place=place)) for place in (*PLACES, None)]


def print_rates(name: str, result: Result) -> None:
    """One player's table."""
    if isinstance(result, KeptWins):
        names = dict(zip(LENGTHS, LENGTH_NAMES, strict=True))
        rows = [
            [names[rate.length] if rate.length else "all", str(rate.positions), format_rate(rate)]
            for rate in result.rates()
        ]
        title = f"{name}: share of wins by continuous fours kept, with 95 % intervals"
        print_table(title, ("shortest win", "positions", "kept"), rows)
        return
    rows = [
        [kind or "all", *(format_rate(result.rate(kind, place)) for place in (*PLACES, None))]
        for kind in (*KINDS, None)
        if result.rate(kind) is not None
    ]
    title = f"{name}: share of puzzles solved, with 95 % intervals"
    print_table(title, ("kind", *PLACES, "all"), rows)


def print_unsolved(result: Result, count: int) -> None:
    """Boards with the move that was played and those that solve, or a line that wins."""
    suite = result.suite
    game, states = suite.game, suite.states()
    for i in np.flatnonzero(~(result.kept if isinstance(result, KeptWins) else result.solved))[:count]:
        if isinstance(suite, FoursSuite):
            what, right = f"a win in {LENGTH_NAMES[LENGTHS.index(suite.length[i])]}", suite.line[i]
        else:
            what = f"{suite.kind[i]}, {suite.place[i]}, {suite.form[i]}"
            right = np.flatnonzero(suite.solutions[i])
        print(f"{what}; {'black' if suite.to_play[i] > 0 else 'white'} to move")
        print(ascii_board(jax.tree.map(lambda x, i=i: x[i], states)))
        moves = ", ".join(format_action(game, int(a)) for a in right if a >= 0)
        print(f"played {format_action(game, int(result.actions[i]))}; right: {moves}\n")


def json_row(
    arguments: Arguments, argv: list[str], entry: Entry, result: Result, seconds: float
) -> dict[str, Any]:
    """What was measured, with what it takes to measure it again."""
    agent = entry.spec.agent
    info = agent.info if agent else {}
    suite = result.suite
    search = agent.search if agent and entry.simulations else SearchConfig()
    forced = isinstance(suite, FoursSuite)
    return {
        "measured": "forced wins" if forced else "tactics",
        "player": entry.name,
        "simulations": entry.simulations,
        **({"agent": {k: v for k, v in info.items() if isinstance(v, int | float)}} if info else {}),
        **{name: getattr(search, name) for name in ("tactical_helper", "root_vcf", "tree_vcf")},
        "game": suite.game.facts(),
        "seed": arguments.seed,
        "positions": len(suite),
        **(
            {}
            if forced
            else {"patterns_per_group": arguments.patterns, "puzzles": len(np.unique(suite.puzzle))}
        ),
        "rates": [
            {**dataclasses.asdict(rate), "rate": rate.rate, "interval": rate.interval}
            for rate in result.rates()
        ],
        "seconds": round(seconds, 1),
        **provenance(),
        "command": command_line("tactics.py", argv),
    }


def make_suite(arguments: Arguments, game: Gomoku) -> TacticalSuite | FoursSuite:
    """The positions, and a line that says how many there are.

    Raises:
        ValueError: there are none on this board, or the puzzles do not know its rule.
    """
    if arguments.forced:
        suite = fours_suite(game, arguments.positions)
        if not len(suite):
            raise ValueError(f"no win by continuous fours was found on {game}")
        print(f"{game}: {len(suite)} positions with a win by continuous fours")
        return suite
    if game.rule not in ("freestyle", "exact"):
        raise ValueError(
            f"rule = {game.rule!r}: the puzzles know freestyle and exact; --forced knows all rules"
        )
    suite = tactics_suite(game, arguments.patterns)
    if not len(suite):
        raise ValueError(f"no puzzle fits {game}")
    print(f"{game}: {len(np.unique(suite.puzzle))} puzzles, {len(suite)} positions with their symmetries")
    return suite


def measure(arguments: Arguments, suite: TacticalSuite | FoursSuite, entry: Entry) -> Result:
    """One player's moves on all positions."""
    size = arguments.batch or batch_size(suite.game, entry.simulations)
    player, key = entry.spec.make(suite.game), jax.random.key(arguments.seed)
    if isinstance(suite, FoursSuite):
        return kept_wins(player, suite, key, size)
    return solve_rates(player, suite, key, size)


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
        suite = make_suite(arguments, game)
        summary = []
        for entry in entries:
            started = time.monotonic()
            result = measure(arguments, suite, entry)
            seconds = time.monotonic() - started
            print_rates(entry.name, result)
            print(f"{seconds:.1f} s\n", flush=True)
            print_unsolved(result, arguments.show)
            summary.append([entry.name, *cells(result)])
            if arguments.json is not None:
                append_row(arguments.json, json_row(arguments, argv, entry, result, seconds))
        if len(entries) > 1:
            title = f"Wins kept, {game}" if arguments.forced else f"All kinds, {game}"
            columns = LENGTH_NAMES if arguments.forced else PLACES
            print_table(title, ("player", *columns, "all"), summary)
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
