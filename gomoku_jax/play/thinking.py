"""What an agent thinks of a position, on the host: searches that can be watched, priors, values, rollouts."""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.agent import Agent
from gomoku_jax.config import SearchConfig
from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import Gomoku, State, playout_winner, random_order
from gomoku_jax.search import ResumableSearch, mask_logits, network_evaluator, prepare_params

MAX_SIMULATIONS = 32768
DEFAULT_SIMULATIONS = 200
_FIRST_CHUNK = 8
_LINE_LENGTH = 10
_NUM_LINES = 8
_VALUES_AT_ONCE = 32  # positions of a game; one size compiles


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A move that a search looked at.

    Attributes:
        action: the move.
        visits: simulations that went through it.
        prior: the network's probability of it.
        q: its mean value in [-1, 1], from the view of the side to move at the root.
        line: the most visited moves from it on, itself included.
    """

    action: int
    visits: int
    prior: float
    q: float
    line: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis:
    """A search of one position so far; all values are from the view of the side to move, in [-1, 1].

    Attributes:
        to_play: +1 black, -1 white: whose view it is.
        num_simulations: run so far.
        seconds: since the search began, compilation included.
        action: the move it would play: the first candidate, or the prior's before any simulation.
        value: the search's mean value of the position.
        raw_value: the network's value of the position.
        visits: int32 [A].
        prior: float32 [A], probabilities; 0 on illegal moves.
        q: float32 [A], mean values of the moves; 0 where unvisited.
        candidates: the most visited moves, best first; of equally visited ones the better.
    """

    to_play: int
    num_simulations: int
    seconds: float
    action: int
    value: float
    raw_value: float
    visits: np.ndarray
    prior: np.ndarray
    q: np.ndarray
    candidates: tuple[Candidate, ...]


def watching_config(search: SearchConfig, most: int) -> SearchConfig:
    """The search for people and clocks: PUCT without noise, with room for at least `most` simulations.

    A Gumbel search plans its visits for a fixed number of simulations; PUCT can stop at any. The room is a
    power of two, since each size is compiled once.
    """
    room = 64
    while room < most:
        room *= 2
    puct = dataclasses.replace(search, algorithm="puct", backend="fast", reuse_tree=False)
    return puct.greedy(room)


class Thinker:
    """An agent on a board, ready to search single positions.

    Args:
        agent: who thinks.
        game: on what board; None is the agent's own. A `resnet` plays on any.

    Raises:
        ValueError: the agent's network is tied to another board.
    """

    def __init__(self, agent: Agent, game: Gomoku | None = None):
        game = game or agent.game
        if game.shape != agent.game.shape and agent.network.kind == "conv":
            raise ValueError(f"the agent's conv network plays {agent.game} only, not {game}")
        self.agent, self.game = agent, game
        self._params = prepare_params(agent.network, agent.params)
        self._warm: set[int] = set()  # rooms of searches that are compiled

    def search(self, state: State, most: int = MAX_SIMULATIONS, seed: int = 0) -> ResumableSearch:
        """A search of one position that has room for `most` simulations."""
        if not 1 <= most <= MAX_SIMULATIONS:
            raise ValueError(f"simulations = {most}: from 1 to {MAX_SIMULATIONS}")
        batch = jax.tree.map(lambda x: jnp.asarray(x)[None], state)
        return ResumableSearch(
            self.game,
            self.agent.network,
            self._params,
            jax.random.key(seed),
            batch,
            watching_config(self.agent.search, most),
            line_length=_LINE_LENGTH,
            num_lines=min(_NUM_LINES, self.game.num_actions),
        )

    def analyses(
        self,
        state: State,
        simulations: int | None = None,
        seconds: float | None = None,
        interval: float | Callable[[], float] = 0.1,
        room: int | None = None,
        running: ResumableSearch | None = None,
    ) -> Iterator[Analysis]:
        """Searches one position and tells what it has found about every `interval` seconds.

        The first analysis comes before any simulation, with the network's prior and value; or, where a
        search is resumed, with what it knew.

        Args:
            state: one game that goes on.
            simulations: stop after these; None is no limit but the room.
            seconds: stop when they are over: never started is what would not end in time by the speed so
                far. None is no limit.
            interval: seconds between two analyses, or a function that is asked before each.
            room: simulations that the tree has room for; by default `simulations`, or all that can be.
            running: a search of this position to go on with, from `search`; its simulations so far count.
        """
        started = time.monotonic()
        running = running or self.search(state, room or simulations or MAX_SIMULATIONS)
        room = running.num_simulations + running.num_left
        most = room if simulations is None else min(simulations, room)
        to_play = int(state.to_play)
        chunk = 0
        while True:
            before = time.monotonic()
            summary = running.run(chunk)
            took = time.monotonic() - before
            yield _analysis(to_play, jax.device_get(summary), time.monotonic() - started)
            left = most - running.num_simulations
            # The first chunks may hold compilation: growth is bounded.
            pace = chunk / max(took, 1e-6)
            wanted = interval() if callable(interval) else interval
            chunk = min(left, max(1, min(int(pace * wanted), 4 * chunk)) if chunk else _FIRST_CHUNK)
            if seconds is not None:
                remaining = seconds - (time.monotonic() - started)
                chunk = min(chunk, int(pace * remaining * 0.8)) if pace else chunk
                if remaining <= 0:
                    return
            if chunk <= 0:
                return

    def best_action(
        self, state: State, simulations: int | None = DEFAULT_SIMULATIONS, seconds: float | None = None
    ) -> int:
        """The move after a search of so many simulations or seconds; 0 simulations is the raw policy."""
        if simulations == 0:
            return int(np.argmax(self.network_view(state).prior))
        *_, last = self.analyses(state, simulations, seconds)
        return last.action

    def warm_up(self, simulations: int = DEFAULT_SIMULATIONS) -> None:
        """Compiles what a search of so many simulations needs, the first time."""
        room = watching_config(self.agent.search, simulations).num_simulations
        if room not in self._warm:
            self.search(self.game.init(), simulations).run(1)
            self._warm.add(room)

    def network_view(self, state: State) -> "NetworkView":
        """What the network says without search."""
        prior, value, move_values = _network_view(self.game, self.agent.network, self._params, state)
        return NetworkView(int(state.to_play), float(value), np.asarray(prior), np.asarray(move_values))

    def game_values(self, states: Sequence[State]) -> np.ndarray:
        """float32 [n]: the network's value of each position, from black's view; the result where it ended."""
        values = []
        for first in range(0, len(states), _VALUES_AT_ONCE):
            some = list(states[first : first + _VALUES_AT_ONCE])
            padded = some + [some[-1]] * (_VALUES_AT_ONCE - len(some))
            batch = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
            found = _black_values(self.game, self.agent.network, self._params, batch)
            values.append(np.asarray(found)[: len(some)])
        return np.concatenate(values) if values else np.zeros(0, np.float32)


def _analysis(to_play: int, summary, seconds: float) -> Analysis:
    output = summary.output
    visits, prior, q = output.visit_counts[0], summary.prior[0], output.q_values[0]
    candidates = []
    for row in summary.principal_variations[0]:
        line = tuple(int(action) for action in row if action >= 0)
        if line:
            first = line[0]
            candidates.append(
                Candidate(first, int(visits[first]), float(prior[first]), float(q[first]), line)
            )
    candidates.sort(key=lambda candidate: (-candidate.visits, -candidate.q))
    return Analysis(
        to_play=to_play,
        num_simulations=int(summary.num_simulations),
        seconds=seconds,
        action=candidates[0].action if candidates else int(output.action[0]),
        value=float(output.root_value[0]),
        raw_value=float(summary.raw_value[0]),
        visits=np.asarray(visits),
        prior=np.asarray(prior),
        q=np.asarray(q),
        candidates=tuple(candidates),
    )


# One position without search: the network beside random playouts.


@dataclasses.dataclass(frozen=True, eq=False)
class NetworkView:
    """The network's opinion of one position, from the view of the side to move.

    Attributes:
        to_play: +1 black, -1 white.
        value: of the position.
        prior: float32 [A], probabilities; 0 on illegal moves.
        move_values: float32 [A], its value of the position after each move (exact where that ends the
            game); NaN on illegal moves.
    """

    to_play: int
    value: float
    prior: np.ndarray
    move_values: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class RolloutView:
    """What random playouts from one position say, from the view of the side to move.

    Attributes:
        to_play: +1 black, -1 white.
        value: mean over all playouts.
        playouts: how many after each move.
        move_values: float32 [A], mean result after each move; NaN on illegal moves.
    """

    to_play: int
    value: float
    playouts: int
    move_values: np.ndarray


def _children(game: Gomoku, state: State) -> tuple[State, jax.Array]:
    """The states [A] after every action, and which are legal."""
    actions = jnp.arange(game.num_actions, dtype=jnp.int32)
    return jax.vmap(lambda action: game.step(state, action))(actions), game.legal_action_mask(state)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _network_view(game: Gomoku, network, params, state: State):
    evaluate = network_evaluator(game, network)
    batch = jax.tree.map(lambda x: jnp.asarray(x)[None], state)
    output = evaluate(params, batch)
    logits = mask_logits(output.policy_logits, legal_action_masks(game, batch))[0]
    children, legal = _children(game, state)
    result = (children.winner * state.to_play).astype(jnp.float32)
    values = jnp.where(children.terminated, result, -evaluate(params, children).value)
    prior = jnp.where(legal, jax.nn.softmax(logits), 0.0)
    return prior, output.value[0], jnp.where(legal, values, jnp.nan)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _black_values(game: Gomoku, network, params, states: State) -> jax.Array:
    values = network_evaluator(game, network)(params, states).value * states.to_play
    return jnp.where(states.terminated, states.winner.astype(jnp.float32), values)


def rollout_view(game: Gomoku, state: State, playouts: int = 100, seed: int = 0) -> RolloutView:
    """Plays `playouts` random games after every legal move of a position.

    Raises:
        ValueError: fewer than one playout.
    """
    if playouts < 1:
        raise ValueError(f"playouts = {playouts}: at least 1")
    values = np.asarray(_rollouts(game, state, jax.random.key(seed), np.int32(playouts)))
    value = float(np.nanmean(values)) if np.isfinite(values).any() else 0.0
    return RolloutView(int(state.to_play), value, playouts, values)


@functools.partial(jax.jit, static_argnums=0)
def _rollouts(game: Gomoku, state: State, key: jax.Array, playouts: jax.Array) -> jax.Array:
    children, legal = _children(game, state)

    def one(i, total):
        keys = jax.random.split(jax.random.fold_in(key, i), game.num_actions)
        turns = jax.vmap(random_order)(keys, children)
        winners = jax.vmap(lambda child, turn: playout_winner(game, child, turn))(children, turns)
        return total + (winners * state.to_play).astype(jnp.float32)

    total = jax.lax.fori_loop(0, playouts, one, jnp.zeros(game.num_actions, jnp.float32))
    return jnp.where(legal, total / playouts, jnp.nan)
