"""Lists the agents that can be played here: those shipped with the package, and the runs in ./runs.

Try:
  gomoku-jax agents                list them
  gomoku-jax agents 6x6x4          the model card of a shipped agent
  gomoku-jax agents runs/mine      what an agent of your own is
"""

import dataclasses
import pathlib
import re
import sys
from typing import Annotated, Any

import rich.console
import rich.markdown
import tyro

from gomoku_jax.agent import SHIPPED_FOLDER, AgentError, load_agent, read_card, shipped_agents
from gomoku_jax.config import to_dict
from gomoku_jax.play.choose import RUNS_FOLDER, found_runs

CARD_FILE = "CARD.md"
_HEADINGS = ("agent", "board", "rule", "iteration", "simulations", "score against")
# A row of a card's table of strength: opponent, opening stones, result, score with its interval.
_STRENGTH_ROW = re.compile(r"\|\s*mcts:(\d+)\s*\|\s*0\s*\|[^|]*\|\s*([^|]+?)\s*\|")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")] = None
    """A shipped agent's name, or the folder of a run or an agent, to show; without it, all are listed."""


def strength(card: dict[str, Any]) -> str:
    """An agent's score against pure MCTS, from its model card or its last evaluation; else a dash."""
    path = pathlib.Path(card["path"]) / CARD_FILE
    rows = _STRENGTH_ROW.findall(path.read_text(encoding="utf-8")) if path.is_file() else []
    if rows:
        playouts, score = max(rows, key=lambda row: int(row[0]))
        return f"mcts:{playouts} {score}"
    found = card["info"].get("evaluation") or {}
    if "score" in found and "num_playouts" in found:
        interval = ""
        if "score_low" in found and "score_high" in found:
            interval = f" [{found['score_low']:.3f}, {found['score_high']:.3f}]"
        return f"mcts:{found['num_playouts']} {found['score']:.3f}{interval}"
    return "-"


def list_agents(runs: pathlib.Path = RUNS_FOLDER) -> str:
    """A table of the agents, and what it means."""
    found = [(name, SHIPPED_FOLDER / name) for name in shipped_agents()]
    found += [(str(run), run) for run in found_runs(runs)]
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for name, path in found:
        card = read_card(path)
        game, search = card["game"], card["search"]
        iteration = str(card["info"].get("iteration", "-"))
        board = f"{game.height}x{game.width}x{game.k}"
        rows.append((name, board, game.rule, iteration, str(search.num_simulations), strength(card)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(
        [
            *(line.rstrip() for line in lines),
            "",
            "board is ROWSxCOLUMNSxK; simulations are a move's in self-play; a draw counts as half; the",
            "brackets are the score's 95 % interval. gomoku-jax agents NAME tells more.",
        ]
    )


def show_agent(name: str) -> str:
    """An agent's model card in Markdown, or the facts of its file where it has none.

    Raises:
        AgentError: there is no such agent.
    """
    if name.endswith(".model"):
        agent = load_agent(name)
        card = {"game": agent.game, "network": agent.network, "search": agent.search, "info": agent.info}
        card["path"] = agent.path
    else:
        card = read_card(name)
    path = pathlib.Path(card["path"]) / CARD_FILE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    facts = [("folder", card["path"])]
    for part in ("game", "network", "search", "info"):
        values = card[part] if isinstance(card[part], dict) else to_dict(card[part])
        facts += [(f"{part}.{key}", str(value)) for key, value in _flat(values)]
    lines = [
        f"# {name}",
        "",
        "It has no model card; this is what its file says.",
        "",
        "| what | |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| {key} | {value} |" for key, value in facts)]) + "\n"


def _flat(values: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    rows = []
    for key, value in values.items():
        rows += _flat(value, f"{before}{key}.") if isinstance(value, dict) else [(before + key, value)]
    return rows


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__, prog="gomoku-jax agents")
    try:
        if arguments.name is None:
            print(list_agents())
        else:
            text = show_agent(arguments.name)
            console = rich.console.Console()
            if console.is_terminal:
                console.print(rich.markdown.Markdown(text))
            else:
                print(text, end="")
    except BrokenPipeError:
        raise
    except (AgentError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
