"""The fast search on the host, in steps: for people who watch it, and for deadlines."""

import functools
import time
from collections.abc import Iterator

import jax

from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.game import Gomoku, State
from gomoku_jax.inference import Prepared, prepare
from gomoku_jax.network import Params
from gomoku_jax.search.tree_search import init_tree, network_evaluator, run_simulations, summarize
from gomoku_jax.search.types import SearchSummary


@functools.lru_cache(maxsize=32)
def _steps(game: Gomoku, net_config: NetworkConfig, config: SearchConfig, line_length: int, num_lines: int):
    """The three steps, compiled."""
    evaluate = network_evaluator(game, net_config)

    def start(params, key, states):
        return init_tree(game, evaluate, params, key, states, config)

    def advance(params, tree, count):
        return run_simulations(game, evaluate, params, tree, count, config)

    def look(tree):
        return summarize(tree, config, line_length, num_lines)

    return jax.jit(start), jax.jit(advance, donate_argnums=1), jax.jit(look)


class ResumableSearch:
    """A search of B games that runs as many simulations as it is asked for, and then some more.

    Any number of simulations runs the same compiled program; what compiles is a new game, network, batch
    size or config, and among the configs' fields `num_simulations`, which sizes the trees.

    Args:
        game: the rules.
        net_config: the network's config.
        params: the network's parameters, or `prepare`d ones.
        key: typed PRNG key; consumed.
        states: B games, [B, ...].
        config: the search; `config.num_simulations` is the most it can run.
        line_length: plies of the principal variations.
        num_lines: how many root actions get such a line.

    Raises:
        ValueError: a number of lines or plies that cannot be.
    """

    def __init__(
        self,
        game: Gomoku,
        net_config: NetworkConfig,
        params: Params | Prepared,
        key: jax.Array,
        states: State,
        config: SearchConfig,
        *,
        line_length: int = 8,
        num_lines: int = 1,
    ):
        if not 1 <= num_lines <= game.num_actions:
            raise ValueError(f"num_lines = {num_lines}: from 1 to the board's {game.num_actions} points")
        if line_length < 1:
            raise ValueError(f"line_length = {line_length}: at least 1")
        start, self._advance, self._look = _steps(game, net_config, config, line_length, num_lines)
        self._params = params if isinstance(params, Prepared) else prepare_params(net_config, params)
        self._tree = start(self._params, key, states)
        self._most = config.num_simulations
        self.num_simulations = 0

    @property
    def num_left(self) -> int:
        """Simulations that the trees have room for."""
        return self._most - self.num_simulations

    def run(self, count: int) -> SearchSummary:
        """Runs `count` more simulations, or as many as there is room for; waits for their result."""
        count = max(0, min(count, self.num_left))
        self._tree = self._advance(self._params, self._tree, count)
        self.num_simulations += count
        return jax.block_until_ready(self._look(self._tree))


@functools.partial(jax.jit, static_argnums=0)
def prepare_params(net_config: NetworkConfig, params: Params) -> Prepared:
    """`prepare`, compiled: for hosts that search many times with the same parameters."""
    return prepare(net_config, params)


def anytime_search(
    game: Gomoku,
    net_config: NetworkConfig,
    params: Params,
    key: jax.Array,
    states: State,
    config: SearchConfig,
    *,
    seconds: float | None = None,
    chunk: int = 16,
    line_length: int = 8,
    num_lines: int = 1,
) -> Iterator[SearchSummary]:
    """Searches in chunks on the host and yields what it has found, for watchers and deadlines.

    The last summary of a search that runs to its end is that of `search`. Stop by not asking for more.

    Args:
        game: the rules, and so on as in `search`; `config.num_simulations` is the most.
        net_config: the network's config.
        params: the network's parameters.
        key: typed PRNG key; consumed.
        states: B games, [B, ...].
        config: the search.
        seconds: stop after the chunk in which this time is over, compilation excluded; None is no limit.
        chunk: simulations between two summaries; any number runs the same compiled program.
        line_length: plies of the principal variations.
        num_lines: how many root actions get such a line.

    Raises:
        ValueError: a chunk, a time or a number of lines that cannot be, before any work.
    """
    if chunk < 1:
        raise ValueError(f"chunk = {chunk}: at least 1")
    if seconds is not None and seconds <= 0:
        raise ValueError(f"seconds = {seconds}: more than 0, or None")
    resumable = ResumableSearch(
        game, net_config, params, key, states, config, line_length=line_length, num_lines=num_lines
    )
    return _chunks(resumable, seconds, chunk)


def _chunks(resumable: ResumableSearch, seconds: float | None, chunk: int) -> Iterator[SearchSummary]:
    resumable.run(0)  # compiles, where it is the first time
    started = time.monotonic()
    while resumable.num_left > 0:
        yield resumable.run(chunk)
        if seconds is not None and time.monotonic() - started >= seconds:
            return
