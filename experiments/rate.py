"""Rates a pool of players: plays the matches that are missing and fits Elo, random being 0. Try:

    python experiments/rate.py 6x6x4@100 --board 6x6x4 --results ratings.jsonl --markdown ratings.md
    python experiments/rate.py runs/mine/agents/iteration_*@100 --board 6x6x4 --results ratings.jsonl
    python experiments/rate.py best_policy_6_6_4.model@1 best_policy_6_6_4.model@100 --results ratings.jsonl
    python experiments/rate.py --results ratings.jsonl --board 6x6x4 --pairs none

A player is what experiments/evaluate.py takes. The results file has one JSON line for each match; matches
that it holds are not played again, so a rating can be stopped and gone on with, and the pool can grow. The
last form rates what is there.
"""

import dataclasses
import glob
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import matches
import tyro
from rows import Row, append_row, command_line, read_rows

from gomoku_jax.agent import AgentError, PlayerSpec
from gomoku_jax.arena import MatchResult, check_match, play_match
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku
from gomoku_jax.metrics import provenance
from gomoku_jax.play.match import HostMatchResult, play_host_match
from gomoku_jax.play.opponents import Limit, make_opponent
from gomoku_jax.players import Player
from gomoku_jax.rating import (
    Pairing,
    Ratings,
    crosstable,
    fit_elo,
    merge_pairings,
    pair_table,
    rating_table,
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    pool: tyro.conf.Positional[tuple[str, ...]] = ()
    """Players beside those of --base. A name with `*` is every path that it matches, in order."""
    base: tuple[str, ...] = ("random", "tactical", "mcts:100", "mcts:1000", "mcts:10000")
    """The fixed opponents, weakest first."""
    results: pathlib.Path = pathlib.Path("ratings.jsonl")
    """The file of matches, read first and appended to."""
    pairs: Literal["neighbours", "all", "none"] = "neighbours"
    """Who meets whom: everyone the next in the list, and then those close in the ratings so far; all; or
    nobody, to rate what is there: without other players than those of --base, everyone in the file."""
    reach: int = 2
    """Of `neighbours`: how many ranks away opponents are met."""
    games: int = 100
    """Of a match; colours are swapped on every opening. A match with fewer is topped up."""
    opening_stones: int = 2
    """Random stones on the board before each pair of games."""
    openings: pathlib.Path | None = None
    """A file of openings instead, as for experiments/evaluate.py."""
    simulations: int | None = None
    """Simulations a move of agents without @; by default as in their training."""
    seconds: float = 5.0
    """Seconds a move, of engines."""
    board: str | None = None
    """ROWSxCOLUMNSxK, such as 15x15x5; by default the board of the first agent, or 6x6x4."""
    rule: Rule | None = None
    """The rule; by default that of the first agent, or freestyle."""
    seed: int = 0
    """Of the openings, the players and the bootstrap."""
    anchor: str = "random"
    """Who has 0."""
    prior: float = 0.5
    """Games added for every two who met, half won and half lost, so that who lost everything has a rating."""
    black_advantage: bool = False
    """Estimate one advantage of black for the whole pool."""
    replicates: int = 1000
    """Of the bootstrap."""
    markdown: pathlib.Path | None = None
    """Write the tables to this file."""
    json: pathlib.Path | None = None
    """Append the ratings to this file as one JSON line."""


@dataclasses.dataclass(frozen=True, eq=False)
class Entrant:
    """A player of the pool.

    Attributes:
        text: as on the command line.
        name: in rows and tables.
        spec: None for an engine.
        facts: of an agent, for rows.
    """

    text: str
    name: str
    spec: PlayerSpec | None
    facts: dict[str, Any]


def expand(texts: Sequence[str]) -> list[str]:
    """The players' texts, `*` replaced by what is there, each once."""
    found = []
    for text in texts:
        path, at, simulations = text.partition("@")
        if "*" not in path:
            found.append(text)
            continue
        names = sorted(glob.glob(path), key=lambda name: (len(name), name))
        if not names:
            raise AgentError(f"player {text!r}: nothing matches")
        found += [name + at + simulations for name in names]
    return list(dict.fromkeys(found))


def parse_pool(arguments: Arguments) -> list[Entrant]:
    """The pool, in the order given.

    Raises:
        AgentError: no such player.
        ValueError: two players with one name.
    """
    texts = expand((*arguments.base, *arguments.pool))
    entrants: list[Entrant] = []
    for text, spec in zip(texts, matches.parse_players(texts, arguments.simulations), strict=True):
        name = matches.short_name(text, spec, arguments.seconds)
        for other in entrants:
            if other.name == name:
                raise ValueError(
                    f"{other.text!r} and {text!r} would both be called {name}: rename one of the folders"
                )
        entrants.append(Entrant(text, name, spec, matches.player_facts(spec)))
    return entrants


# The results file.


def matching_rows(rows: Sequence[Row], setting: Row, entrants: Sequence[Entrant] | None) -> list[Row]:
    """The matches of the pool under the same conditions; of everybody where there is no pool.

    Raises:
        ValueError: a row in which a player's name stood for other parameters.
    """
    digests = {entrant.name: entrant.facts.get("digest") for entrant in entrants or ()}
    chosen = []
    for row in rows:
        # By swap the colours are taken, and pairs mean something else.
        if (
            row.get("swap")
            or not isinstance(row.get("pairs"), list)
            or {key: row.get(key) for key in setting} != setting
        ):
            continue
        if entrants is not None and not {row["a"], row["b"]} <= digests.keys():
            continue
        for name in (row["a"], row["b"]):
            digest = row.get("players", {}).get(name, {}).get("digest")
            if digests.setdefault(name, digest) != digest:
                raise ValueError(
                    f"{name} is not the player that the results file calls so (its parameters have changed): "
                    "use another results file, or another folder name"
                )
        chosen.append(row)
    return chosen


def pairings_of(rows: Sequence[Row]) -> list[Pairing]:
    """What the rows say, one pairing for every two players."""
    return merge_pairings(
        Pairing(row["a"], row["b"], tuple(row["pairs"]), row["distinct_games"]) for row in rows
    )


def rateable(pairings: Sequence[Pairing], tell: Callable[[str], None]) -> list[Pairing]:
    """Those with enough different games; the others are told and left out."""
    kept = []
    for pairing in pairings:
        distinct = pairing.distinct_games
        if distinct is not None and distinct < matches.MIN_DISTINCT * pairing.num_games:
            tell(
                f"{pairing.a} against {pairing.b} is left out of the rating: only {distinct} of "
                f"{pairing.num_games} games are different; more --opening-stones or more openings would help"
            )
        else:
            kept.append(pairing)
    return kept


# Who plays whom.


def groups(names: Sequence[str], pairings: Sequence[Pairing]) -> dict[str, int]:
    """A number for each player, the same for all whom matches compare, directly or through others."""
    group = {name: i for i, name in enumerate(names)}
    for pairing in pairings:
        one, other = group[pairing.a], group[pairing.b]
        group = {name: one if number == other else number for name, number in group.items()}
    return group


def next_pair(
    arguments: Arguments, entrants: Sequence[Entrant], games: dict[frozenset[str], int], rows: Sequence[Row]
) -> tuple[Entrant, Entrant] | None:
    """The next two who should meet, in the order of the pool; None when all have."""
    place = {entrant.name: i for i, entrant in enumerate(entrants)}

    def missing(pairs: Iterator[tuple[Entrant, Entrant]]) -> tuple[Entrant, Entrant] | None:
        for one, other in pairs:
            if games.get(frozenset((one.name, other.name)), 0) < arguments.games:
                return (one, other) if place[one.name] < place[other.name] else (other, one)
        return None

    def at(distance: int, order: Sequence[Entrant]) -> Iterator[tuple[Entrant, Entrant]]:
        return zip(order, order[distance:], strict=False)

    if arguments.pairs == "all":
        return missing(p for distance in range(1, len(entrants)) for p in at(distance, entrants))
    if arguments.pairs == "none":
        return None
    chain = missing(at(1, entrants))
    if chain is not None:
        return chain
    pairings = rateable(pairings_of(rows), lambda text: None)
    group = groups([entrant.name for entrant in entrants], pairings)
    if len(set(group.values())) > 1:  # matches that repeated themselves tie nobody to the others
        everyone = (p for distance in range(1, len(entrants)) for p in at(distance, entrants))
        return missing(p for p in everyone if group[p[0].name] != group[p[1].name])
    ratings = fit_elo(pairings, None, prior_games=arguments.prior, replicates=0)
    by_name = {entrant.name: entrant for entrant in entrants}
    ranked = [by_name[player.name] for player in ratings.players]
    return missing(p for distance in range(1, arguments.reach + 1) for p in at(distance, ranked))


class Matches:
    """Plays matches of a pool on one board, each player built once."""

    def __init__(self, arguments: Arguments, game: Gomoku, openings: Sequence[Sequence[int]] | None):
        self._arguments, self._game, self._openings = arguments, game, openings
        self._players: dict[str, Player] = {}

    def play(self, a: Entrant, b: Entrant, games: int, seed: int) -> MatchResult:
        """One match, on the host where an engine takes part."""
        stones = self._arguments.opening_stones if self._openings is None else 0
        if a.spec is not None and b.spec is not None:
            one, other = (self._player(entrant) for entrant in (a, b))
            return play_match(one, other, self._game, games, seed, stones, self._openings)
        players = []
        try:
            for entrant in (a, b):
                limit = Limit(entrant.facts.get("simulations"), self._arguments.seconds)
                if entrant.spec is not None and "simulations" in entrant.facts:
                    limit = Limit(entrant.facts["simulations"])  # the same player as against all others
                players.append(make_opponent(entrant.text, self._game, limit, seed))
            one, other = players
            return play_host_match(one, other, self._game, games, seed, stones, openings=self._openings)
        finally:
            for player in players:
                player.close()

    def _player(self, entrant: Entrant) -> Player:
        assert entrant.spec is not None
        if entrant.name not in self._players:
            self._players[entrant.name] = entrant.spec.make(self._game)
        return self._players[entrant.name]


def play_missing(
    arguments: Arguments,
    entrants: Sequence[Entrant],
    setting: Row,
    rows: list[Row],
    table: Matches,
    command: str,
) -> None:
    """Plays until no match is missing; appends a row each, to the file and to `rows`."""
    done: dict[frozenset[str], int] = {}
    for pairing in pairings_of(rows):
        done[frozenset((pairing.a, pairing.b))] = pairing.num_games
    while (pair := next_pair(arguments, entrants, done, rows)) is not None:
        a, b = pair
        key = frozenset((a.name, b.name))
        before = [row["seed"] for row in rows if {row["a"], row["b"]} == set(key)]
        seed = max([arguments.seed - 1, *before]) + 1
        games = arguments.games - done.get(key, 0)
        started = time.monotonic()
        result = matches.play_quietly(lambda a=a, b=b, games=games, seed=seed: table.play(a, b, games, seed))
        seconds = time.monotonic() - started
        print(f"{a.name} against {b.name}: {result}; {seconds:.1f} s", flush=True)
        row = {
            "a": a.name,
            "b": b.name,
            **setting,
            "seed": seed,
            **matches.match_facts(result),
            "players": {entrant.name: entrant.facts for entrant in pair},
            **(
                {"forfeits": [f"game {f.game}: {a.name if f.by_a else b.name}" for f in result.forfeits]}
                if isinstance(result, HostMatchResult)
                else {}
            ),
            "seconds": round(seconds, 1),
            **provenance(),
            "command": command,
        }
        append_row(arguments.results, row)
        rows.append(row)
        done[key] = done.get(key, 0) + result.num_games


def report(ratings: Ratings, game: Gomoku, markdown: bool) -> str:
    """The tables and what is to be known about them."""
    heading = "## " if markdown else ""
    kind = "after the openings' stones, colours swapped on every opening"
    parts = [
        f"{heading}Ratings on {game}\n",
        rating_table(ratings, markdown),
        f"Maximum-likelihood Elo (Bradley-Terry with Davidson's draws), {ratings.anchor} = 0; a difference "
        f"of 400 is ten wins to a loss. Draws to a win between equals: {ratings.draw_odds:.2f}. "
        + (f"Black's advantage: {ratings.black_elo:.0f}. " if ratings.black_elo else "")
        + f"Intervals: bootstrap over opening pairs, {len(ratings.samples)} replicates.\n",
        f"{heading}Crosstable: score of the row, wins-draws-losses\n",
        crosstable(ratings, markdown),
        f"{heading}Matches: {kind}\n",
        pair_table(ratings, markdown),
    ]
    parts += [f"{'**Note.** ' if markdown else 'note: '}{warning}.\n" for warning in ratings.warnings]
    return "\n".join(parts)


def rating_row(ratings: Ratings, setting: Row) -> Row:
    """The ratings as JSON can hold them; an end without a bound is null."""

    def finite(x: float) -> float | None:
        return round(x, 2) if abs(x) < float("inf") else None

    players = [
        dataclasses.asdict(player) | {"low": finite(player.low), "high": finite(player.high)}
        for player in ratings.players
    ]
    facts = {name: getattr(ratings, name) for name in ("anchor", "draw_odds", "black_elo", "warnings")}
    games = sum(pairing.num_games for pairing in ratings.pairings)
    return {**setting, "games": games, **facts, "ratings": players}


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    command = command_line("rate.py", sys.argv[1:] if argv is None else argv)
    try:
        if arguments.reach < 1:
            raise ValueError(f"--reach {arguments.reach}: at least 1")
        if arguments.replicates < 2:
            raise ValueError(f"--replicates {arguments.replicates}: at least 2")
        matches.check_outputs(arguments.results, arguments.markdown, arguments.json)
        use_compilation_cache()
        entrants = parse_pool(arguments)
        if len(entrants) < 2:
            raise ValueError("a pool needs two players")
        game = matches.choose_game(arguments.board, arguments.rule, [e.spec for e in entrants])
        openings = None
        setting: Row = {"game": game.facts(), "opening_stones": arguments.opening_stones, "openings": None}
        if arguments.openings is not None:
            openings = matches.load_openings(arguments.openings, game).openings
            facts = matches.openings_facts(arguments.openings, openings)
            setting |= {"opening_stones": 0, "openings": facts}
        check_match(game, arguments.games, setting["opening_stones"], openings)
        everyone = arguments.pairs == "none" and not arguments.pool
        rows = matching_rows(read_rows(arguments.results), setting, None if everyone else entrants)
        names = [entrant.name for entrant in entrants]
        if everyone:
            names = list(dict.fromkeys(name for row in rows for name in (row["a"], row["b"])))
            if not names:
                raise ValueError(f"{arguments.results}: no match on {game} from such openings to rate")
        if arguments.anchor not in names:
            raise ValueError(f"--anchor {arguments.anchor}: not in the pool, which is {', '.join(names)}")
        table = Matches(arguments, game, openings)
        play_missing(arguments, entrants, setting, rows, table, command)

        def warn(text: str) -> None:
            print(f"warning: {text}", file=sys.stderr)

        rated = rateable(pairings_of(rows), warn)
        met = {name for pairing in rated for name in (pairing.a, pairing.b)}
        for name in names:
            if name not in met:
                warn(f"{name} has no rating: no match of it that counts")
        ratings = fit_elo(
            rated,
            arguments.anchor,
            prior_games=arguments.prior,
            black_advantage=arguments.black_advantage,
            replicates=arguments.replicates,
            seed=arguments.seed,
        )
        print()
        print(report(ratings, game, markdown=False))
        if arguments.markdown is not None:
            arguments.markdown.write_text(report(ratings, game, markdown=True))
        if arguments.json is not None:
            append_row(arguments.json, rating_row(ratings, setting) | provenance() | {"command": command})
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on from {arguments.results}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
