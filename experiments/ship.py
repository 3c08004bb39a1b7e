"""Puts a trained agent among those shipped in the package, with a model card. Try:

python experiments/ship.py runs/mine 6x6x4
python experiments/ship.py runs/mine 9x9x5 --simulations 400 --playouts 1000 5000
python experiments/ship.py runs/mine 15x15x5 --simulations 200 --opponents tactical mcts:10000
"""

import dataclasses
import pathlib
import sys
from typing import Any

import jax
import matches
import tyro
from rows import append_row, command_line

from gomoku_jax.agent import SHIPPED_FOLDER, Agent, AgentError, load_agent, save_agent
from gomoku_jax.arena import MatchResult, play_match
from gomoku_jax.checkpoint import CheckpointError, read_config
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import GameConfig, from_dict, to_dict
from gomoku_jax.metrics import provenance
from gomoku_jax.suites import load_solved, measure_perfect_play


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    run: tyro.conf.Positional[pathlib.Path]
    """The run or agent folder."""
    name: tyro.conf.Positional[str]
    """What the agent is called: the folder's name in the package, and what `load_agent` takes."""
    simulations: int = 100
    """Of the agent, a move, in the matches."""
    playouts: tuple[int, ...] = (1000,)
    """Of pure MCTS, a move; one pair of matches each."""
    tactical_helper: bool = False
    """Ship it with a search that is exact one stone ahead: wins, forced blocks, double threats."""
    opponents: tuple[str, ...] = ()
    """Further ones, as evaluate.py names them, such as tactical or best_policy_8_8_5.model@400."""
    games: int = 100
    """A match."""
    seed: int = 1
    """Of the matches."""
    training: str | None = None
    """The command of the training, for the card."""
    commit: str | None = None
    """Of the training, where the run does not tell."""
    processor: str | None = None
    """Of the training, where the run does not tell."""
    cores: int | None = None
    """Of the training, where the run does not tell."""
    results: pathlib.Path = pathlib.Path(__file__).parent / "results" / "shipped.jsonl"
    """Where the rows of the matches are appended."""
    to: pathlib.Path = SHIPPED_FOLDER
    """The folder of the shipped agents."""


@dataclasses.dataclass(frozen=True)
class Played:
    """A match for the card.

    Attributes:
        opponent: without folders.
        facts: of the opponent, where it is an agent.
        stones: random ones on the board before each pair of games.
        result: of the agent that is shipped.
    """

    opponent: str
    facts: dict[str, Any]
    stones: int
    result: MatchResult


def play_matches(arguments: Arguments, agent: Agent) -> list[Played]:
    """All matches of the card."""
    player = agent.player(arguments.simulations)
    texts = ["random", *(f"mcts:{count}" for count in arguments.playouts), *arguments.opponents]
    played = []
    for text, spec in zip(texts, matches.parse_players(texts, None), strict=True):
        if spec is None:
            raise ValueError(f"--opponents {text}: engines are for evaluate.py")
        name, opponent = matches.short_name(text, spec, 0.0), spec.make(agent.game)
        for stones in (0,) if text == "random" else (0, 2) if spec.agent is None else (2,):
            result = play_match(player, opponent, agent.game, arguments.games, arguments.seed, stones)
            print(f"against {name}, {stones} opening stones: {result}", flush=True)
            played.append(Played(name, matches.player_facts(spec), stones, result))
    return played


def training_time(seconds: float) -> str:
    """Hours, and minutes where they say more."""
    return f"{seconds / 3600:.2f} hours" + (f" ({seconds / 60:.1f} minutes)" if seconds < 7200 else "")


def began_from(info: dict[str, Any]) -> str:
    """Which agent's parameters a run began with, and how long those were trained."""
    before = info.get("seconds_before")
    return f"`{info['init_from']}`" + (f", trained for {training_time(before)}" if before else "")


def model_card(arguments: Arguments, agent: Agent, played: list[Played]) -> str:
    """The card, in Markdown."""
    info, game, network = agent.info, agent.game, agent.network
    parameters = sum(leaf.size for leaf in jax.tree.leaves(agent.params))
    if network.kind == "resnet":
        tower = f"{network.channels} channels, {network.num_blocks} blocks"
        shape = f"resnet, {tower}; no weight depends on the board"
    else:
        shape = f"convolutions {network.conv_channels}; for this board only"
    search = agent.search
    command = [("trained by", f"`{arguments.training}`")] if arguments.training else []
    rows = [
        ("board", f"{game.height} rows, {game.width} columns, {game.k} in a row"),
        ("rule", game.rule),
        ("network", f"{shape}; {parameters:,} parameters"),
        ("search in training", f"{search.algorithm}, {search.num_simulations} simulations a move"),
        *(
            [("search at play", "with the tactical helper: exact one stone ahead")]
            if search.tactical_helper
            else []
        ),
        (
            "iteration",
            f"{info['iteration']} of {info['iterations']}"
            if info.get("iterations", 0) > 0
            else str(info.get("iteration")),
        ),
        ("self-play games", f"{info['games']:,}" if "games" in info else "unknown"),
        ("training time", training_time(info["seconds"]) if "seconds" in info else "unknown"),
        ("hardware", f"{info.get('processor')}, {info.get('cores')} cores"),
        *([("began from", began_from(info))] if "init_from" in info else []),
        ("seed", str(info.get("seed"))),
        ("commit", f"`{info.get('commit')}`"),
        *command,
    ]
    lines = [f"# {arguments.name}", "", "| what | |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, text in rows]
    lines += [
        "",
        f"## Strength, at {arguments.simulations} simulations a move",
        "",
        f"{arguments.games} games each, colours swapped on each opening. Wins-draws-losses; the score has a",
        "draw as half and its 95 % Wilson interval.",
        "",
        "| opponent | random opening stones | result | score | as black | as white | distinct games |",
        "|---|---|---|---|---|---|---|",
    ]
    for match in played:
        result = match.result
        low, high = result.interval
        black, white = ("-".join(map(str, part)) for part in (result.as_black, result.as_white))
        total = f"{result.wins}-{result.draws}-{result.losses}"
        score = f"{result.score:.3f} [{low:.3f}, {high:.3f}]"
        cells = (match.opponent, match.stones, total, score, black, white, result.distinct_games)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += perfect_play(agent)
    lines += ["", "The rows with command and versions are in `experiments/results/shipped.jsonl`.", ""]
    return "\n".join(lines)


def perfect_play(agent: Agent) -> list[str]:
    """A section of the card, on boards that have solved positions."""
    try:
        solved = load_solved(agent.game)
    except ValueError:
        return []
    lines = [
        "",
        "## Perfect play",
        "",
        f"On {len(solved)} solved positions; the brackets are 95 % intervals.",
        "",
        "| simulations a move | moves that keep the value | distance of the value from the exact one |",
        "|---|---|---|",
    ]
    for result in measure_perfect_play(solved, agent.network, agent.params, agent.search, (0, 32, 100, 400)):
        low, high = result.value_error_interval
        error = f"{result.value_error:.3f} [{low:.3f}, {high:.3f}]"
        lines.append(f"| {result.num_simulations or 'none'} | {result.kept} | {error} |")
    return lines


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        matches.check_outputs(arguments.results)
        use_compilation_cache()
        agent = load_agent(arguments.run)
        given = {name: getattr(arguments, name) for name in ("commit", "processor", "cores")}
        info = agent.info | {name: value for name, value in given.items() if value is not None}
        info.pop("evaluation", None)  # of the training; the card's matches are fresh ones
        config = arguments.run / "config.json"
        if config.is_file():
            trained = read_config(config.parent)
            if trained.max_minutes == 0:
                info["iterations"] = trained.iterations
        agent = dataclasses.replace(agent, info=info)
        if arguments.tactical_helper:
            agent = matches.Helpers(tactical_helper=True).agent(agent)
        played = play_matches(arguments, agent)
        folder = arguments.to / arguments.name
        board = from_dict(GameConfig, to_dict(agent.game))
        save_agent(folder, board, agent.network, agent.search, agent.params, info)
        (folder / "CARD.md").write_text(model_card(arguments, agent, played))
        facts = provenance() | {"command": command_line("ship.py", sys.argv[1:] if argv is None else argv)}
        name = f"{arguments.name}@{arguments.simulations}"
        ours = matches.agent_facts(agent, arguments.simulations)
        for match in played:
            row = {
                "a": name,
                "b": match.opponent,
                "game": agent.game.facts(),
                "agents": [ours, match.facts],
                "opening_stones": match.stones,
                "seed": arguments.seed,
                **matches.match_facts(match.result),
                **facts,
            }
            append_row(arguments.results, row)
    except (AgentError, CheckpointError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"written: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
