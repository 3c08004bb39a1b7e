"""Who sits at the board: the same few methods for agents, pure MCTS, random and engines outside."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.agent import PLAYER_SPECS, AgentError, parse_player
from gomoku_jax.game import Gomoku, replay_moves
from gomoku_jax.openings import Opener, OpeningPlayer
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.thinking import DEFAULT_SIMULATIONS, MAX_SIMULATIONS, Thinker
from gomoku_jax.players import Player
from gomoku_jax.swap_arena import spec_opener

ENGINE_PREFIX = "gomocup:"


class ForfeitError(Exception):
    """A player that crashed, ran out of time or played an illegal move: it has lost the game."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """How long a player may think about a move.

    Attributes:
        simulations: of an agent's search; 0 is the network alone; None is no limit but the time.
        seconds: a move; None is no limit but the simulations.
    """

    simulations: int | None = DEFAULT_SIMULATIONS
    seconds: float | None = None

    def __post_init__(self):
        if self.simulations is None and self.seconds is None:
            raise ValueError("a limit needs simulations or seconds")
        if self.simulations is not None and not 0 <= self.simulations <= MAX_SIMULATIONS:
            raise ValueError(f"simulations = {self.simulations}: from 0 to {MAX_SIMULATIONS}")
        if self.seconds is not None and not 0 < self.seconds <= 86400:
            raise ValueError(f"seconds = {self.seconds}: more than 0, and at most a day")


class HostPlayer(Protocol):
    """Chooses moves one game at a time, on the host."""

    name: str

    @property
    def opener(self) -> OpeningPlayer | None:
        """Its part in swap and swap2; None takes none."""

    def new_game(self) -> None:
        """Called before each game."""

    def choose(self, record: GameRecord) -> int:
        """The action in a game that goes on. Raises ForfeitError where it has none to offer."""
        ...

    def close(self) -> None:
        """Called after the last game; ends what runs outside."""


def thinker_opener(
    thinker: Thinker, limit: Limit, seed: int | None = None, room: int | None = None
) -> Opener:
    """Places and chooses by an agent's values: the network's to choose stones, the search's to take a colour.

    Args:
        thinker: the agent on its board.
        limit: of the search of one position.
        seed: of the openings that are looked at; None draws one.
        room: simulations that the search's tree has room for, which it compiles for; by default the limit's.
    """
    game = thinker.game

    def network(openings: Sequence[Sequence[int]]) -> np.ndarray:
        return -thinker.game_values([replay_moves(game, opening) for opening in openings])  # White's view

    def search(openings: Sequence[Sequence[int]]) -> np.ndarray:
        values = []
        if limit.seconds is not None:  # which are for searching, not for compiling
            thinker.warm_up(room or limit.simulations or MAX_SIMULATIONS)
        # Several positions take as long as one move, or little more.
        seconds = None if limit.seconds is None else limit.seconds / len(openings)
        for opening in openings:
            *_, last = thinker.analyses(replay_moves(game, opening), limit.simulations, seconds, room=room)
            values.append(last.value)
        return np.asarray(values)

    return Opener(game, network if limit.simulations == 0 else search, seed, network)


class AgentPlayer:
    """An agent with a search."""

    def __init__(self, thinker: Thinker, limit: Limit, name: str = "agent", seed: int | None = None):
        self.thinker, self.limit, self.name = thinker, limit, name
        self.opener: OpeningPlayer | None = thinker_opener(thinker, limit, seed)

    def new_game(self) -> None:
        """Nothing is kept between games."""

    def choose(self, record: GameRecord) -> int:
        """The search's move."""
        return self.thinker.best_action(record.state, self.limit.simulations, self.limit.seconds)

    def close(self) -> None:
        """Nothing runs outside."""


class FunctionPlayer:
    """A pure player `(key, states [B]) -> actions [B]`, one game at a time."""

    def __init__(self, player: Player, name: str, seed: int = 0, opener: OpeningPlayer | None = None):
        self.name = name
        self.opener = opener
        self._play: Callable = jax.jit(player)
        self._key = jax.random.key(seed)

    def new_game(self) -> None:
        """Nothing is kept between games."""

    def choose(self, record: GameRecord) -> int:
        """The player's move."""
        self._key, key = jax.random.split(self._key)
        batch = jax.tree.map(lambda x: jnp.asarray(x)[None], record.state)
        return int(self._play(key, batch)[0])

    def close(self) -> None:
        """Nothing runs outside."""


def make_opponent(spec: str, game: Gomoku, limit: Limit, seed: int | None = 0) -> HostPlayer:
    """A player on the host from its name.

    Args:
        spec: `random`, `tactical`, `vcf:9`, `mcts:1000`, an agent's path or name with `@400` if wanted, or
            `gomocup:PATH` for an engine that speaks the Gomocup protocol.
        game: the board.
        limit: of agents whose spec has no `@`, and of engines, which take the seconds.
        seed: of those that draw. None is 0, but of an agent's openings, which are others each time then.

    Raises:
        AgentError: no such player.
        ValueError: it does not play this board.
    """
    if spec.startswith(ENGINE_PREFIX):
        from gomoku_jax.play.gomocup.client import EnginePlayer

        return EnginePlayer(spec.removeprefix(ENGINE_PREFIX), game, limit.seconds or 5.0)
    try:
        parsed = parse_player(spec, limit.simulations)
    except AgentError as error:
        hint = ", or gomocup:PATH" if PLAYER_SPECS in str(error) else ""
        raise AgentError(f"{error}{hint}") from None
    if parsed.agent is None:
        seed = seed or 0
        return FunctionPlayer(parsed.make(game), parsed.name, seed, spec_opener(parsed, game, seed))
    _, at, simulations = spec.rpartition("@")
    if at:
        limit = Limit(int(simulations), limit.seconds)
    try:
        return AgentPlayer(Thinker(parsed.agent, game), limit, parsed.name, seed)
    except ValueError as error:
        raise AgentError(f"player {spec!r}: {error}") from None
