"""Plays a match between any two players and prints its score. Try:

    python experiments/evaluate.py runs/mine mcts:1000 --games 100 --simulations 100
    python experiments/evaluate.py runs/mine@400 runs/other@400 --opening-stones 2
    python experiments/evaluate.py mcts:1000 tactical --board 9x9x5
    python experiments/evaluate.py runs/mine gomocup:engines/pbrain --board 15x15x5 --opening-stones 4
    python experiments/evaluate.py runs/mine@400 runs/other@400 --openings balanced.txt
    python experiments/evaluate.py runs/mine@400 runs/other@400 --opening-rule swap2
    python experiments/evaluate.py runs/mine --solved
    python experiments/evaluate.py runs/mine --solved --snapshots --solved-simulations 0 100
    python experiments/evaluate.py mcts:1000 --solved --board 6x6x4
    python experiments/evaluate.py runs/new@100 runs/old@100 --opening-stones 2 --sprt --elo0 0 --elo1 50
    python experiments/evaluate.py runs/mine@100 runs/mine@100 --opening-stones 4 --root-vcf 9 --tree-vcf 5

A player is random, tactical, vcf:PLIES, mcts:PLAYOUTS, or a run or agent folder, with @SIMULATIONS if wanted
(@0 is the network without search), or gomocup:PATH for an engine that speaks the Gomocup protocol: an
executable, or a command line in quotes. Against an engine the games are played one after another, and a
crash, a time-out or an illegal move loses. --tactical-helper, --root-vcf and --tree-vcf change the first
player's search. With --sprt the match stops when it is clear whether the first player is stronger.
"""

import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

import matches
import perfect_play
import tyro
from rows import append_row, command_line

from gomoku_jax.agent import AgentError, PlayerSpec
from gomoku_jax.arena import MatchResult, play_match
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku
from gomoku_jax.metrics import provenance
from gomoku_jax.openings import SWAPS, OpeningRule
from gomoku_jax.play.match import Forfeit, HostMatchResult, play_host_match
from gomoku_jax.play.opponents import HostPlayer, Limit, make_opponent
from gomoku_jax.play.record import GameRecord
from gomoku_jax.rating import SprtResult
from gomoku_jax.swap_arena import play_swap_match, spec_opener


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    a: tyro.conf.Positional[str]
    """The player whose score is told."""
    b: tyro.conf.Positional[str | None] = None
    """Its opponent; none with --solved."""
    solved: bool = False
    """Compare the first player's moves and values with perfect play, on the solved positions of its board."""
    solved_simulations: tuple[int, ...] = perfect_play.SIMULATIONS
    """Of --solved: simulations a move of an agent, 0 for the network alone."""
    snapshots: bool = False
    """Of --solved: score every agent that the run kept under agents/iteration_*, oldest first."""
    positions: int | None = None
    """Of --solved: how many positions; by default all."""
    games: int | None = None
    """Games in all; colours are swapped on every opening. By default 100; with --openings, every opening from
    both sides; with --sprt, at most 2000."""
    simulations: int | None = None
    """Simulations a move of agents without @; by default as in their training."""
    helpers: tyro.conf.OmitArgPrefixes[matches.Helpers] = matches.Helpers()
    """Of the first player's search."""
    seconds: float | None = None
    """Seconds a move, of engines (by default 5), and of agents against them (by default as many simulations
    as in their training)."""
    opening_stones: int = 0
    """Random stones on the board before each pair of games; 0 starts from the empty board."""
    openings: pathlib.Path | None = None
    """A file of openings to play instead, one a line, as offsets from the centre: Gomocup's format, and what
    experiments/balance.py writes."""
    opening_rule: OpeningRule | None = None
    """By default that of the first agent's game, or free. pro, long_pro: they bind Black's first two stones.
    swap, swap2: the players place the first stones and take colours by what they think of the position
    (random, tactical and vcf by lot), each beginning in one half of the games."""
    sprt: bool = False
    """Stop as soon as a sequential test tells whether the first player is stronger."""
    elo0: float = 0.0
    """Of --sprt: the first player is at most this much stronger, in Elo of the score."""
    elo1: float = 50.0
    """Of --sprt: the first player is at least this much stronger."""
    alpha: float = 0.05
    """Of --sprt: how often "stronger" may be wrong."""
    beta: float = 0.05
    """Of --sprt: how often "not stronger" may be wrong."""
    batch: int = 40
    """Of --sprt: games between two looks at the test."""
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


def asked_swap(arguments: Arguments) -> str | None:
    """Swap or swap2, where the match begins so."""
    return arguments.opening_rule if arguments.opening_rule in SWAPS else None


PlayPart = Callable[[int, int, Sequence[Sequence[int]] | None], MatchResult]  # (games, seed, openings)


def player_in_batches(
    game: Gomoku, specs: list[PlayerSpec], stones: int, swap: str | None, seed: int
) -> PlayPart:
    """Plays on the device, all games at once."""
    a, b = (spec.make(game) for spec in specs)
    if swap is not None:
        a_opener, b_opener = (spec_opener(spec, game, 2 * seed + i) for i, spec in enumerate(specs))
        return lambda games, seed, openings: play_swap_match(
            a, b, game, swap, a_opener, b_opener, games, seed
        )
    return lambda games, seed, openings: play_match(a, b, game, games, seed, stones, openings)


def host_players(arguments: Arguments, game: Gomoku, specs: list[PlayerSpec | None]) -> list[HostPlayer]:
    """The two players of a match on the host."""
    players: list[HostPlayer] = []
    try:
        for text, spec in zip((arguments.a, arguments.b or ""), specs, strict=True):
            trained = (
                spec.agent.search.num_simulations if spec is not None and spec.agent is not None else 200
            )
            simulations = trained if arguments.simulations is None else arguments.simulations
            if arguments.seconds is not None and arguments.simulations is None:
                simulations = None
            limit = Limit(simulations, arguments.seconds)
            players.append(make_opponent(text, game, limit, arguments.seed))
    except BaseException:
        for player in players:
            player.close()
        raise
    return players


def player_on_host(game: Gomoku, players: list[HostPlayer], stones: int, swap: str | None) -> PlayPart:
    """Plays one game after another and prints each."""

    def tell(number: int, record: GameRecord, forfeit: Forfeit | None) -> None:
        lost = f" -- {forfeit.player} forfeits: {forfeit.reason}" if forfeit else ""
        print(f"game {number}: {record}{lost}", flush=True)

    def play(games: int, seed: int, openings: Sequence[Sequence[int]] | None) -> HostMatchResult:
        a, b = players
        return play_host_match(a, b, game, games, seed, stones, tell, openings, swap)

    return play


def play(
    arguments: Arguments, part: PlayPart, openings: Sequence[Sequence[int]] | None
) -> tuple[MatchResult, SprtResult | None]:
    """The match, all at once or until the test decides."""
    if not arguments.sprt:
        games = arguments.games
        if games is None:
            games = 100 if openings is None else 2 * len(openings)
        return matches.play_quietly(lambda: part(games, arguments.seed, openings)), None
    if arguments.batch < 2 or (arguments.games is not None and arguments.games < 2):
        raise ValueError(f"--batch {arguments.batch}, --games {arguments.games}: with --sprt, 2 or more")

    def batch(number: int, games: int) -> MatchResult:
        # Each batch goes on in the list of openings where the last one ended.
        start = number * (arguments.batch // 2)
        mine = openings and [openings[(start + i) % len(openings)] for i in range(games // 2)]
        return part(games, arguments.seed + number, mine)

    test, result = matches.play_sprt(
        batch,
        arguments.elo0,
        arguments.elo1,
        arguments.alpha,
        arguments.beta,
        arguments.games or 2000,
        arguments.batch,
        asked_swap(arguments),
    )
    return result, test


def write_sgf(folder: pathlib.Path, game: Gomoku, names: list[str], result: MatchResult) -> None:
    """One SGF file a game."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(result.num_games):
        (folder / f"game_{i:04d}.sgf").write_text(result.sgf(i, game, *names))


def evaluate_solved(arguments: Arguments, command: str) -> None:
    """Scores the first player on solved positions."""
    if arguments.b is not None:
        raise ValueError(f"{arguments.b!r}: --solved takes one player")
    if arguments.opening_rule is not None:
        raise ValueError(f"--opening-rule {arguments.opening_rule}: for matches, not with --solved")
    texts = matches.snapshots(arguments.a) if arguments.snapshots else [arguments.a]
    for spec in matches.parse_players(texts, arguments.simulations):
        if spec is None:
            raise ValueError(f"{arguments.a!r}: --solved scores players that run here, not engines")
        if arguments.helpers.options:
            spec = arguments.helpers.player(spec)
        game = matches.choose_game(arguments.board, arguments.rule, [spec])
        numbers = arguments.solved_simulations
        perfect_play.report(spec, game, numbers, arguments.positions, arguments.seed, arguments.json, command)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    command = command_line("evaluate.py", sys.argv[1:] if argv is None else argv)
    try:
        matches.check_outputs(arguments.json)
        use_compilation_cache()
        if arguments.snapshots and not arguments.solved:
            raise ValueError("--snapshots is for --solved; rate.py and tactics.py take snapshots too")
        if arguments.solved:
            evaluate_solved(arguments, command)
            return 0
        if arguments.b is None:
            raise ValueError("a match needs two players; --solved scores one against perfect play")
        texts = (arguments.a, arguments.b)
        specs = matches.parse_players(texts, arguments.simulations)
        helpers = arguments.helpers
        if helpers.options:
            if None in specs or specs[0] is None or specs[0].agent is None:
                raise ValueError(
                    f"{helpers.options}: for an agent against players that run here, not {arguments.a} "
                    f"against {arguments.b}"
                )
            if specs[0].simulations == 0:
                raise ValueError(f"{helpers.options}: for an agent that searches, not {specs[0].name}")
            specs[0] = helpers.player(specs[0])
        game = matches.choose_game(arguments.board, arguments.rule, specs)
        swap = asked_swap(arguments)
        if arguments.opening_rule is not None:
            opening = "free" if swap else arguments.opening_rule
            game = dataclasses.replace(game, opening=opening)
        if swap is not None and (arguments.opening_stones or arguments.openings is not None):
            raise ValueError(f"--opening-rule {swap}: not together with --opening-stones or --openings")
        names = [text if spec is None else spec.name for text, spec in zip(texts, specs, strict=True)]
        if helpers.options:
            names[0] += f" with {helpers.words}"
        openings = None
        if arguments.openings is not None:
            openings = matches.load_openings(arguments.openings, game).openings
        if None not in specs and arguments.seconds is not None:
            raise ValueError("--seconds is for matches with gomocup:PATH; agents take --simulations")
        started = time.monotonic()
        players: list[HostPlayer] = []
        try:
            if None in specs:
                players = host_players(arguments, game, specs)
                part = player_on_host(game, players, arguments.opening_stones, swap)
            else:
                batched = [spec for spec in specs if spec is not None]
                part = player_in_batches(game, batched, arguments.opening_stones, swap, arguments.seed)
            result, test = play(arguments, part, openings)
        finally:
            for player in players:
                player.close()
        seconds = time.monotonic() - started
        print(f"{names[0]} against {names[1]} on {game}:")
        print(result)
        if test is not None:
            print(test)
        forfeits = result.forfeits if isinstance(result, HostMatchResult) else ()
        if forfeits:
            lost = sum(forfeit.by_a for forfeit in forfeits)
            print(f"forfeits: {lost} by {names[0]}, {len(forfeits) - lost} by {names[1]}, counted as losses")
        if matches.few_distinct_games(result):
            advice = "; --opening-stones 4 or a file of --openings gives every pair an opening of its own"
            advice = "" if swap else advice
            stop = "the test was stopped: " if test is not None and test.state.decision is None else ""
            print(
                f"warning: {stop}only {result.distinct_games} of {result.num_games} games are different, and "
                "the interval believes in all of them" + advice,
                file=sys.stderr,
            )
        elif None in specs and result.distinct_games < result.num_games and openings is None:
            print("some games are the same; more --opening-stones make more different openings")
        print(f"{seconds:.1f} s")
        if arguments.sgf is not None:
            write_sgf(arguments.sgf, game, names, result)
        if arguments.json is not None:
            seconds_per_move = arguments.seconds or 5.0
            short = [
                matches.short_name(text, spec, seconds_per_move)
                for text, spec in zip(texts, specs, strict=True)
            ]
            row = {
                "a": short[0],
                "b": short[1],
                "agents": [matches.player_facts(spec) for spec in specs],
                "game": game.facts(),
                "opening_stones": arguments.opening_stones,
                **({"swap": swap} if swap is not None else {}),
                **(
                    {"openings": matches.openings_facts(arguments.openings, openings)}
                    if arguments.openings is not None and openings is not None
                    else {}
                ),
                "seed": arguments.seed,
                **matches.match_facts(result, swap),
                **({"sprt": matches.sprt_facts(test)} if test is not None else {}),
                "seconds": round(seconds, 1),
                **({"seconds_per_move": seconds_per_move} if None in specs else {}),
                **({"forfeits": [str(forfeit) for forfeit in forfeits]} if None in specs else {}),
                **provenance(),
                "command": command,
            }
            append_row(arguments.json, row)
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
