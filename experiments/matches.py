"""What the scripts that play matches share: players by name, boards, opening files, joined results."""

import dataclasses
import hashlib
import pathlib
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from gomoku_jax.agent import (
    AGENT_FOLDER,
    PLAYER_SPECS,
    Agent,
    AgentError,
    PlayerSpec,
    parse_player,
    shipped_agents,
)
from gomoku_jax.arena import MatchResult
from gomoku_jax.config import Rule, to_dict
from gomoku_jax.game import Gomoku, parse_board
from gomoku_jax.play.files.gamefile import GameFileError
from gomoku_jax.play.files.openings import OpeningFile, read_openings
from gomoku_jax.play.match import HostMatchResult
from gomoku_jax.play.opponents import ENGINE_PREFIX
from gomoku_jax.rating import SprtState, pair_outcomes, run_sprt
from gomoku_jax.rating.sprt import SprtResult

MIN_DISTINCT = 0.5  # of the games: with fewer different ones, a match says little and claims much


def parse_players(texts: Sequence[str], simulations: int | None) -> list[PlayerSpec | None]:
    """The players that play in batches; None for engines.

    Raises:
        AgentError: no such player.
    """
    specs = []
    for text in texts:
        if text.startswith(ENGINE_PREFIX):
            specs.append(None)
            continue
        try:
            specs.append(parse_player(text, simulations))
        except AgentError as error:
            hint = ", or gomocup:PATH" if PLAYER_SPECS in str(error) else ""
            raise AgentError(f"{error}{hint}") from None
    return specs


@dataclasses.dataclass(frozen=True)
class Helpers:
    """What helps a search, see `gomoku_jax.search.tactical`; what is not asked for stays as trained."""

    tactical_helper: bool = False
    """The search is exact one stone ahead: wins, forced blocks, double threats."""
    root_vcf: int = 0
    """The search plays a win by continuous fours of up to so many plies, odd; 0 leaves it as it is."""
    tree_vcf: int = 0
    """The search knows such wins in every position that it evaluates; 0 leaves it as it is."""

    @property
    def options(self) -> str:
        """As on the command line; empty where nothing was asked for."""
        flags = ["--tactical-helper"] if self.tactical_helper else []
        plies = {"--root-vcf": self.root_vcf, "--tree-vcf": self.tree_vcf}
        return " ".join(flags + [f"{name} {value}" for name, value in plies.items() if value])

    @property
    def words(self) -> str:
        """For names in tables, such as "helper, root-vcf 9"."""
        return self.options.replace("tactical-", "").removeprefix("--").replace(" --", ", ")

    def agent(self, agent: Agent) -> Agent:
        """The agent with these in its search.

        Raises:
            ValueError: a number of plies that cannot be.
        """
        asked = {name: value for name, value in dataclasses.asdict(self).items() if value}
        if self.root_vcf:
            asked["reuse_tree"] = False  # which is for self-play; players search from nothing
        return dataclasses.replace(agent, search=dataclasses.replace(agent.search, **asked))

    def player(self, spec: PlayerSpec) -> PlayerSpec:
        """The player with these in its search.

        Raises:
            ValueError: it is no agent, or a number of plies that cannot be.
        """
        if spec.agent is None:
            raise ValueError(f"{self.options}: for an agent, not {spec.name}")
        agent = self.agent(spec.agent)
        return dataclasses.replace(
            spec,
            agent=agent,
            make=lambda game: agent.player(spec.simulations, game),
            make_values=lambda game: agent.values(spec.simulations, game),
        )


def choose_game(board: str | None, rule: Rule | None, specs: Sequence[PlayerSpec | None]) -> Gomoku:
    """The board that was asked for, or the first agent's; against an engine it has five in a row.

    Args:
        board: ROWSxCOLUMNSxK, or None.
        rule: None is the first agent's, or freestyle.
        specs: the players; None for engines.

    Raises:
        ValueError: no such board.
    """
    agents = [spec.agent for spec in specs if spec is not None and spec.agent is not None]
    base = agents[0].game if agents else Gomoku(6, 6, 4)
    if None in specs and (not agents or base.k != 5):
        base = Gomoku(15, 15, 5, base.rule)
    rule = rule or base.rule
    if board is None:
        return dataclasses.replace(base, rule=rule)
    return parse_board(board, rule)


def load_openings(path: pathlib.Path, game: Gomoku) -> OpeningFile:
    """The openings of a file; those that are in it twice are told on stderr.

    Raises:
        ValueError: an opening that does not fit; names file, line and reason. Or no openings.
        OSError: no such file.
    """
    try:
        file = read_openings(path.read_bytes(), game)
    except GameFileError as error:
        raise ValueError(f"{path}, {error} ({game})") from None
    if not file.openings:
        raise ValueError(f"{path}: no openings in it; one a line, as offsets dx,dy, dx,dy from the centre")
    for warning in file.warnings:
        print(f"warning: {path}, {warning}", file=sys.stderr)
    return file


def check_outputs(*paths: pathlib.Path | None) -> None:
    """Raises ValueError where a file could not be written later, after hours of games."""
    for path in paths:
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise ValueError(f"{path}: not a file in a folder that exists")


def openings_facts(path: pathlib.Path, openings: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What a row says of its openings: the file's name, and a digest of what is in it."""
    digest = hashlib.sha256(repr([[int(move) for move in opening] for opening in openings]).encode())
    return {"file": path.name, "openings": len(openings), "digest": digest.hexdigest()[:12]}


def play_quietly(play: Callable[[], MatchResult]) -> MatchResult:
    """Plays a match; its warnings are lines on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = play()
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    return result


def few_distinct_games(result: MatchResult) -> bool:
    """Whether so many games were the same that a score or a rating from them means little."""
    return result.distinct_games < MIN_DISTINCT * result.num_games


def join_results(results: Sequence[MatchResult]) -> MatchResult:
    """Several matches of the same players as one."""
    games = [moves for result in results for moves in result.games]
    total: dict[str, Any] = {
        name: sum(getattr(result, name) for result in results) for name in ("wins", "draws", "losses")
    }
    for name in ("as_black", "as_white"):
        total[name] = tuple(sum(parts) for parts in zip(*(getattr(r, name) for r in results), strict=True))
    for name in ("opening_stones", "a_is_black", "winners"):
        total[name] = [value for result in results for value in getattr(result, name)]
    total |= {"games": games, "distinct_games": len({tuple(moves) for moves in games})}
    if not any(isinstance(result, HostMatchResult) for result in results):
        return MatchResult(**total)
    forfeits, before = [], 0
    for result in results:
        for forfeit in result.forfeits if isinstance(result, HostMatchResult) else ():
            forfeits.append(dataclasses.replace(forfeit, game=forfeit.game + before))
        before += result.num_games
    return HostMatchResult(**total, forfeits=tuple(forfeits))


def outcomes_in_pairs(result: MatchResult, swap: str | None) -> list[str]:
    """The outcomes of a match two games at a time: of `a` with black, then with white.

    In a match by swap the colours are taken, not given: there the first is the game in which `a` placed the
    stones, the second that in which its opponent did.
    """
    if swap is None:
        return pair_outcomes(result.winners, result.a_is_black)
    scores = [w if black else -w for w, black in zip(result.winners, result.a_is_black, strict=True)]
    letters = "".join("DWL"[score] for score in scores)
    return [letters[i : i + 2].ljust(2, "-") for i in range(0, len(letters), 2)]


def play_sprt(
    play: Callable[[int, int], MatchResult],
    elo0: float,
    elo1: float,
    alpha: float,
    beta: float,
    max_games: int,
    batch_games: int,
    swap: str | None = None,
) -> tuple[SprtResult, MatchResult]:
    """A match that stops when it is clear whether `a` is stronger, or when its games repeat themselves.

    Args:
        play: `(number of the batch, games) -> result`.
        elo0: see `gomoku_jax.rating.sprt`; so are the next three.
        elo1: see there.
        alpha: see there.
        beta: see there.
        max_games: at most; an odd game is left out.
        batch_games: played at once.
        swap: see `outcomes_in_pairs`.
    """
    results: list[MatchResult] = []

    def batch(number: int, pairs: int) -> list[str]:
        result = play(number, 2 * pairs)
        results.append(result)
        return outcomes_in_pairs(result, swap)

    def report(pairs: int, state: SprtState) -> bool:
        joined = join_results(results)
        print(
            f"{2 * pairs} games, {joined.wins}-{joined.draws}-{joined.losses}: "
            f"log-likelihood ratio {state.llr:.2f} in ({state.lower:.2f}, {state.upper:.2f})",
            flush=True,
        )
        return few_distinct_games(joined)

    test = run_sprt(batch, elo0, elo1, alpha, beta, max_games // 2, batch_games // 2, report)
    return test, join_results(results)


# Names and identities of players in rows that others read.


def split_simulations(text: str) -> tuple[str, int | None]:
    """`runs/mine@400` → the path and 400, None where it does not say."""
    path, at, count = text.rpartition("@")
    return (path, int(count)) if at and count.isdecimal() else (text, None)


def snapshots(text: str) -> list[str]:
    """The agents that a run kept, oldest first, with the simulations that were asked for.

    Raises:
        AgentError: the folder kept none.
    """
    path, count = split_simulations(text)
    root = pathlib.Path(path)
    if path in shipped_agents() or not root.is_dir():
        return [text]
    found = sorted((root / AGENT_FOLDER).glob("iteration_*"))
    if not found:
        raise AgentError(
            f"--snapshots: {text} has no {AGENT_FOLDER}/iteration_* (training's --snapshot-every)"
        )
    return [f"{folder}@{count}" if count is not None else str(folder) for folder in found]


def short_name(text: str, spec: PlayerSpec | None, seconds: float) -> str:
    """A player's name without the folders of this machine: a run's folder, `run/iteration_000050`, a file.

    Args:
        text: as on the command line.
        spec: what it was parsed to; None for engines.
        seconds: a move, of engines, whose name has it.
    """
    if spec is None:
        command = text.removeprefix(ENGINE_PREFIX)
        words = [command] if pathlib.Path(command).is_file() else shlex.split(command)
        return f"{ENGINE_PREFIX}{' '.join(pathlib.PurePath(word).name for word in words)}@{seconds:g}s"
    if spec.agent is None:
        return spec.name
    path, simulations = split_simulations(spec.name)
    folder = pathlib.Path(path)
    if folder.exists():
        folder = folder.absolute()  # for "."
        folder = folder.parent if folder.name == "agent.json" else folder
        inside = folder.parent.name == AGENT_FOLDER and folder.parent.parent.name
        path = f"{inside}/{folder.name}" if inside else folder.name
    return f"{path}@{simulations}"


def match_facts(result: MatchResult, swap: str | None = None) -> dict[str, Any]:
    """What a row says of a match's result."""
    return {
        "games": result.num_games,
        "wins": result.wins,
        "draws": result.draws,
        "losses": result.losses,
        "as_black": result.as_black,
        "as_white": result.as_white,
        "score": result.score,
        "interval": result.interval,
        "distinct_games": result.distinct_games,
        "pairs": outcomes_in_pairs(result, swap),
    }


def agent_facts(agent: Agent, simulations: int) -> dict[str, Any]:
    """What a row says of an agent: its network and search, training time, and a digest of its parameters."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(agent.params):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    info = agent.info
    return {
        "simulations": simulations,
        "digest": digest.hexdigest()[:12],
        **{name: info[name] for name in ("iteration", "seconds", "commit", "seed") if name in info},
        "network": to_dict(agent.network),
        "search": to_dict(agent.search),
    }


def player_facts(spec: PlayerSpec | None) -> dict[str, Any]:
    """The same of a player; empty for one without an agent."""
    if spec is None or spec.agent is None or spec.simulations is None:
        return {}
    return agent_facts(spec.agent, spec.simulations)


def sprt_facts(test: SprtResult) -> dict[str, Any]:
    """What a row says of a sequential test."""
    facts = {name: getattr(test, name) for name in ("elo0", "elo1", "alpha", "beta")}
    return facts | {"llr": test.state.llr, "decision": test.state.decision, "pairs": test.num_pairs}
