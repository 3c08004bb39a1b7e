"""Which board and which agent, from what a person asked for, and a sentence that says so."""

import dataclasses
import pathlib
from typing import Any

from gomoku_jax.agent import SHIPPED_FOLDER, Agent, AgentError, load_agent, read_card, shipped_agents
from gomoku_jax.game import Gomoku

RUNS_FOLDER = pathlib.Path("runs")  # where experiments/train.py puts its runs


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """An agent on a board, and why.

    Attributes:
        agent: who plays.
        game: on what.
        name: of the agent, for tables, files and menus.
        reason: one sentence for the person who did not choose.
    """

    agent: Agent
    game: Gomoku
    name: str
    reason: str


def found_runs(folder: pathlib.Path = RUNS_FOLDER) -> list[pathlib.Path]:
    """The runs in a folder that hold an agent, newest first."""
    if not folder.is_dir():
        return []
    found = []
    for run in folder.iterdir():
        try:
            found.append((pathlib.Path(read_card(run)["path"]).stat().st_mtime, run))
        except (AgentError, OSError):
            continue
    return [run for _, run in sorted(found, reverse=True)]


def describe(agent: Agent) -> str:
    """Where an agent comes from and what it was trained on, in a few words."""
    others = [rule for rule in agent.info.get("rules", ()) if rule != agent.game.rule]
    facts = [f"trained on {agent.game}" + (f", and under {' and '.join(others)}" if others else "")]
    if "iteration" in agent.info:
        facts.append(f"iteration {agent.info['iteration']}")
    facts.append(f"{agent.network.kind} network")
    return ", ".join(facts)


def trained_on(own: Gomoku, info: dict[str, Any], game: Gomoku) -> bool:
    """Is `game` an agent's own, or its board under another of the rules that it learned?

    Args:
        own: the agent's game.
        info: the agent's facts, whose `rules`, if there are any, are those it learned.
        game: what it is to play; its opening binds two stones only, and does not matter.
    """
    own, game = (dataclasses.replace(g, opening="free") for g in (own, game))
    if game.rule == own.rule or game.rule not in info.get("rules", ()):
        return game == own
    return game == Gomoku(own.height, own.width, own.k, game.rule)


def choose(
    agent: str | None = None,
    game: Gomoku | None = None,
    runs: pathlib.Path = RUNS_FOLDER,
) -> Choice:
    """The agent and the board to play with.

    Args:
        agent: a path or a shipped agent's name; None chooses: the newest run in `runs` that was trained on
            the board (on any, where no board is asked for), else the shipped agent that fits best: the same
            board, else as many stones in a row on the board nearest in size.
        game: the board; None is the agent's own.
        runs: the folder of runs.

    Raises:
        AgentError: no such agent, or none can play this board.
    """
    if agent is not None:
        loaded = load_agent(agent)
        played = _board(loaded, game)
        name = agent if agent in shipped_agents() and str(SHIPPED_FOLDER) in loaded.path else str(agent)
        return Choice(loaded, played, name, f"agent {name}: {describe(loaded)}{_elsewhere(loaded, played)}")
    for run in found_runs(runs):
        card = read_card(run)
        if game is None or trained_on(Gomoku.from_config(card["game"]), card["info"], game):
            loaded = load_agent(run)
            note = "the newest run here; choose another with --agent"
            return Choice(loaded, game or loaded.game, str(run), f"agent {run} ({note}): {describe(loaded)}")
    name = best_shipped(game)
    loaded = load_agent(SHIPPED_FOLDER / name)
    played = game or loaded.game
    reason = f"agent {name} (shipped): {describe(loaded)}{_elsewhere(loaded, played)}"
    return Choice(loaded, played, name, reason)


def best_shipped(game: Gomoku | None) -> str:
    """The shipped agent that fits a board best; the default preset's where none is asked for."""
    names = shipped_agents()
    if not names:
        raise AgentError("this installation has no shipped agents: give --agent a run or agent folder")
    if game is None:
        return "6x6x4" if "6x6x4" in names else names[0]

    def distance(name: str) -> tuple:
        card = read_card(SHIPPED_FOLDER / name)
        own = card["game"]
        other_size = (own.height, own.width) != game.shape
        return (
            other_size and card["network"].kind == "conv",
            abs(own.k - game.k),
            own.rule != game.rule,
            abs(own.height * own.width - game.num_actions),
        )

    return min(names, key=distance)


def _board(agent: Agent, game: Gomoku | None) -> Gomoku:
    if game is None or game.shape == agent.game.shape or agent.network.kind != "conv":
        return game or agent.game
    raise AgentError(f"the agent's conv network plays {agent.game} only, not {game}")


def _elsewhere(agent: Agent, game: Gomoku) -> str:
    """What to say where an agent plays a board that it was not trained on."""
    if trained_on(agent.game, agent.info, game):
        return ""
    if agent.game.k != game.k:
        return f"; it never saw {game} and knows {agent.game.k} in a row only, so expect weak play"
    return f"; it plays {game} without having been trained on it"
