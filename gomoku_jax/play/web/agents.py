"""The agents that the page may choose from: named ones only, loaded when first used."""

import collections
import dataclasses
import pathlib
import threading
from typing import Any

from gomoku_jax.agent import SHIPPED_FOLDER, Agent, AgentError, load_agent, read_card, shipped_agents
from gomoku_jax.game import Gomoku
from gomoku_jax.play.choose import RUNS_FOLDER, Choice, describe, found_runs
from gomoku_jax.play.thinking import Thinker
from gomoku_jax.play.web.messages import MessageError

_CARD_NAME = "CARD.md"
_MAX_CARD = 64 * 1024
_MAX_THINKERS = 16


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """An agent on the list.

    Attributes:
        name: what clients call it.
        path: what `load_agent` takes; never told.
        agent: as its card describes it, without parameters where it is not loaded.
        source: "shipped" or "run".
    """

    name: str
    path: str
    agent: Agent
    source: str

    def facts(self) -> dict[str, Any]:
        """What the page is told."""
        return {
            "name": self.name,
            "game": self.agent.game.facts(),
            "any_board": self.agent.network.kind != "conv",
            "description": describe(self.agent),
            "card": _model_card(self.agent.path),
            "source": self.source,
        }


class Agents:
    """The list, and the agents on boards that were used last. Safe in threads."""

    def __init__(self, choice: Choice, runs: pathlib.Path = RUNS_FOLDER):
        shipped = {name: SHIPPED_FOLDER / name for name in shipped_agents()}
        chosen_folder = choice.agent.path
        source = "shipped" if str(SHIPPED_FOLDER) in chosen_folder else "run"
        self.entries = {choice.name: Entry(choice.name, chosen_folder, choice.agent, source)}
        for name, path in shipped.items():
            self._add(name, path, "shipped")
        for run in found_runs(runs):
            self._add(str(run), run, "run")
        self._loaded: dict[str, Agent] = {choice.name: choice.agent}
        self._thinkers: collections.OrderedDict[tuple[str, Gomoku], Thinker] = collections.OrderedDict()
        self._lock = threading.Lock()

    def _add(self, name: str, path: pathlib.Path, source: str) -> None:
        card = read_card(path)
        agent = Agent(
            Gomoku.from_config(card["game"]), card["network"], {}, card["search"], card["info"], card["path"]
        )
        self.entries.setdefault(name, Entry(name, str(path), agent, source))

    def check(self, name: str, game: Gomoku) -> None:
        """Whether an agent is on the list and plays a board. Raises MessageError."""
        if name not in self.entries:
            raise MessageError("unknown_agent", f"agent {name!r}: choose one of {', '.join(self.entries)}")
        agent = self.entries[name].agent
        if agent.network.kind == "conv" and agent.game.shape != game.shape:
            raise MessageError("bad_game", f"agent {name}'s network plays {agent.game} only, not {game}")

    def thinker(self, name: str, game: Gomoku) -> Thinker:
        """An agent on a board; slow the first time."""
        self.check(name, game)
        with self._lock:
            found = self._thinkers.get((name, game))
            if found is not None:
                self._thinkers.move_to_end((name, game))
                return found
            if name not in self._loaded:
                try:
                    self._loaded[name] = load_agent(self.entries[name].path)
                except AgentError as error:  # it was there at the start
                    raise MessageError("unknown_agent", f"agent {name}: {error}") from None
            thinker = self._thinkers[name, game] = Thinker(self._loaded[name], game)
            while len(self._thinkers) > _MAX_THINKERS:
                self._thinkers.popitem(last=False)
            return thinker


def _model_card(folder: str) -> str:
    try:
        return (pathlib.Path(folder) / _CARD_NAME).read_text(encoding="utf-8")[:_MAX_CARD]
    except (OSError, ValueError):
        return ""
