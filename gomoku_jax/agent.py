"""Trained agents: a config and parameters, a few hundred kilobytes, and the players made of them.

Some are shipped inside the package, in `shipped/`.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import flax.serialization
import jax
import jax.numpy as jnp

from gomoku_jax.config import GameConfig, NetworkConfig, SearchConfig, from_dict, to_dict
from gomoku_jax.files import write_atomically
from gomoku_jax.game import Gomoku
from gomoku_jax.network import Params, init_network
from gomoku_jax.players import (
    Player,
    Values,
    mcts_player,
    mcts_values,
    network_values,
    policy_player,
    random_player,
    search_player,
    search_values,
    tactical_player,
    vcf_player,
)

AGENT_FOLDER = "agents"  # of a run; holds "best" and "latest"
SHIPPED_FOLDER = pathlib.Path(__file__).parent / "shipped"  # one agent folder each, with its model card
_CARD_FILE = "agent.json"
_PARAMS_FILE = "params.msgpack"
_STAGED_PREFIX = "params-"  # of parameters whose card is not there yet


class AgentError(Exception):
    """No agent at a path, or one that does not read."""


@dataclasses.dataclass(frozen=True, eq=False)
class Agent:
    """What plays.

    Attributes:
        game: the board and rule it was trained on.
        network: its network's config.
        params: its parameters.
        search: the search it was trained with, without the noise.
        info: facts about its training, such as the iteration.
        path: where it was read from.
    """

    game: Gomoku
    network: NetworkConfig
    params: Params
    search: SearchConfig
    info: dict[str, Any]
    path: str = ""

    def player(self, num_simulations: int | None = None, game: Gomoku | None = None) -> Player:
        """A player `(key, states [B]) -> actions [B]`.

        Args:
            num_simulations: of the search, a move; 0 is the raw policy; None is as in training.
            game: another board to play on, for a `resnet`; None is the agent's own.
        """
        game = game or self.game
        if game.shape != self.game.shape and self.network.kind == "conv":
            raise ValueError(f"the agent's conv network plays {self.game} only, not {game}")
        if num_simulations is not None and num_simulations < 0:
            raise ValueError(f"num_simulations = {num_simulations}: 0 for the raw policy, or more")
        if num_simulations == 0:
            return policy_player(game, self.network, self.params)
        return search_player(game, self.network, self.params, self.search.greedy(num_simulations))

    def values(self, num_simulations: int | None = None, game: Gomoku | None = None) -> Values:
        """What it thinks of positions, `(key, states [B]) -> float32 [B]`; arguments as of `player`."""
        game = game or self.game
        if num_simulations == 0:
            return network_values(game, self.network, self.params)
        return search_values(game, self.network, self.params, self.search.greedy(num_simulations))


def save_agent(
    folder: str | pathlib.Path,
    game: GameConfig,
    network: NetworkConfig,
    search: SearchConfig,
    params: Params,
    info: dict[str, Any] | None = None,
) -> None:
    """Writes an agent folder, replacing the agent that was there.

    Whenever it is cut short, the folder holds the old agent or the new one: the card names its parameters by
    their hash, which `_read_params` looks for first, and it is the card that is replaced at one stroke.

    Raises:
        OSError: it could not be written; the agent that was there still is.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = flax.serialization.to_bytes(jax.device_get(params))
    staged = f"{_STAGED_PREFIX}{hashlib.sha256(data).hexdigest()[:16]}.msgpack"
    card = {"game": to_dict(game), "network": to_dict(network), "search": to_dict(search), "info": info or {}}
    write_atomically(folder / staged, data)
    write_atomically(folder / _CARD_FILE, json.dumps(card | {"params": staged}, indent=2) + "\n")
    os.replace(folder / staged, folder / _PARAMS_FILE)
    for left in folder.glob(f"{_STAGED_PREFIX}*"):  # by attempts that were cut short
        left.unlink(missing_ok=True)


def _read_params(folder: pathlib.Path) -> bytes:
    """The parameters that belong to a folder's card."""
    staged = json.loads((folder / _CARD_FILE).read_text()).get("params")
    if staged is not None:  # and not yet under its usual name?
        with contextlib.suppress(FileNotFoundError):
            return (folder / pathlib.Path(staged).name).read_bytes()
    return (folder / _PARAMS_FILE).read_bytes()


def shipped_agents() -> list[str]:
    """The names of the agents inside the package, which `load_agent` takes; smallest board first."""
    cards = [json.loads(path.read_text()) for path in SHIPPED_FOLDER.glob(f"*/{_CARD_FILE}")]
    names = [path.parent.name for path in SHIPPED_FOLDER.glob(f"*/{_CARD_FILE}")]
    points = [card["game"]["height"] * card["game"]["width"] for card in cards]
    return [name for _, name in sorted(zip(points, names, strict=True))]


def agent_folder(path: str | pathlib.Path) -> pathlib.Path | None:
    """The folder of the agent that a path or a shipped agent's name means; None where there is none."""
    root = pathlib.Path(path)
    if root.name == _CARD_FILE:
        root = root.parent
    candidates = [root, root / AGENT_FOLDER / "best", root / AGENT_FOLDER / "latest"]
    if str(path) in shipped_agents():
        candidates.append(SHIPPED_FOLDER / str(path))
    return next((candidate for candidate in candidates if (candidate / _CARD_FILE).is_file()), None)


def read_card(path: str | pathlib.Path) -> dict[str, Any]:
    """What an agent is, without its parameters: game, network, search, info.

    Raises:
        AgentError: no agent there, or its card does not read.
    """
    folder = agent_folder(path)
    if folder is None:
        raise AgentError(
            f"no agent at {path}: give a run folder, an agent folder (one that holds {_CARD_FILE}), "
            f"a published .model file, or a shipped agent: {', '.join(shipped_agents())}"
        )
    try:
        card = json.loads((folder / _CARD_FILE).read_text())
        return {
            "game": from_dict(GameConfig, card["game"]),
            "network": from_dict(NetworkConfig, card["network"]),
            "search": from_dict(SearchConfig, card["search"]),
            "info": card.get("info", {}),
            "path": str(folder),
        }
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AgentError(f"the agent in {folder} does not read: {error}") from error


def load_agent(path: str | pathlib.Path) -> Agent:
    """Loads an agent.

    Args:
        path: an agent folder; a run folder, for its best agent (the latest before any evaluation); a
            published `.model` file, see `load_published`; or the name of a shipped agent, such as "6x6x4",
            where no file or folder of that name holds an agent.

    Raises:
        AgentError: there is none, or its files do not read.
    """
    if str(path).endswith(".model"):
        from gomoku_jax.published import load_published  # which is made of agents itself

        return load_published(path)
    card = read_card(path)
    folder = pathlib.Path(card["path"])
    try:
        game, network = Gomoku.from_config(card["game"]), card["network"]
        shapes = jax.eval_shape(lambda: init_network(network, game, jax.random.key(0)))
        template = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        params = flax.serialization.from_bytes(template, _read_params(folder))
        if jax.tree.map(lambda x: x.shape, params) != jax.tree.map(lambda x: x.shape, template):
            raise ValueError("the parameters are not of the network that the card describes")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AgentError(f"the agent in {folder} does not read: {error}") from error
    return Agent(game, network, jax.tree.map(jnp.asarray, params), card["search"], card["info"], str(folder))


@dataclasses.dataclass(frozen=True, eq=False)
class PlayerSpec:
    """A player that was asked for by name, before its board is known.

    Attributes:
        name: for tables and files.
        agent: the agent behind it, if there is one.
        make: builds the player for a game.
        simulations: a move, of an agent; None for others.
        make_values: builds what it thinks of positions; None of a player that has no opinion.
    """

    name: str
    agent: Agent | None
    make: Callable[[Gomoku], Player]
    simulations: int | None = None
    make_values: Callable[[Gomoku], Values] | None = None


PLAYER_SPECS = (
    "random, tactical, vcf:PLIES, mcts:PLAYOUTS, or a run folder, an agent folder, a published .model file "
    "or the name of a shipped agent, with @SIMULATIONS if wanted"
)


def parse_player(spec: str, num_simulations: int | None = None) -> PlayerSpec:
    """A player from its name on a command line.

    Args:
        spec: `random`, `tactical`, `vcf:9`, `mcts:1000`, or the path of a run or agent or the name of a
            shipped one, with `@400` behind it for the simulations a move; `@0` is the raw policy.
        num_simulations: of agents whose spec does not say; None is as in training.

    Raises:
        AgentError: no such player; the message lists the choices.
    """
    if spec == "random":
        return PlayerSpec(spec, None, random_player)
    if spec == "tactical":
        return PlayerSpec(spec, None, tactical_player)
    kind, _, count = spec.partition(":")
    if kind == "vcf":
        if not count.isdecimal() or int(count) % 2 == 0:
            raise AgentError(f"player {spec!r}: write vcf:PLIES with an odd number of plies, such as vcf:9")
        return PlayerSpec(spec, None, lambda game: vcf_player(game, int(count)))
    if kind == "mcts":
        if not count.isdecimal() or int(count) < 1:
            raise AgentError(
                f"player {spec!r}: write mcts:PLAYOUTS with a number of at least 1, such as mcts:1000"
            )
        return PlayerSpec(
            spec,
            None,
            lambda game: mcts_player(game, int(count)),
            make_values=lambda game: mcts_values(game, int(count)),
        )
    path, at, simulations = spec.rpartition("@")
    if not at:
        path = spec
    elif simulations.isdecimal():
        num_simulations = int(simulations)
    else:
        raise AgentError(f"player {spec!r}: @ takes a number of simulations, not {simulations!r}")
    if not pathlib.Path(path).exists() and path not in shipped_agents():
        raise AgentError(f"player {spec!r}: no such player or folder; choose {PLAYER_SPECS}")
    agent = load_agent(path)
    shown = agent.search.num_simulations if num_simulations is None else num_simulations
    return PlayerSpec(
        f"{path}@{shown}",
        agent,
        lambda game: agent.player(num_simulations, game),
        shown,
        lambda game: agent.values(num_simulations, game),
    )
