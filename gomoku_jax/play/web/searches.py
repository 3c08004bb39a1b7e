"""The searches of the server: at most one a connection, in portions, with fairness over all."""

import asyncio
import collections
import dataclasses
import gc
import logging
import random
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from gomoku_jax.game import Gomoku
from gomoku_jax.openings import SwapOpening
from gomoku_jax.play.opponents import Limit, thinker_opener
from gomoku_jax.play.thinking import Analysis, Thinker
from gomoku_jax.play.web import answers
from gomoku_jax.play.web.agents import Agents
from gomoku_jax.play.web.messages import MAX_SECONDS, MessageError, Opening, Search
from gomoku_jax.play.web.workers import NUM_QUICK, Workers

logger = logging.getLogger(__name__)

INTERVAL = 0.1  # seconds of a portion, and so between two frames, when the server has nothing else to do
LEAST_INTERVAL = 0.02
LEAST_BETWEEN_FRAMES = 0.05  # seconds; the first and the last frame of a search are always sent
TREE_BYTES = 2**30  # of all trees, those that are kept to be resumed included
_BYTES_PER_POINT = 17  # of a node, for each point of the board: edges and the board itself

Key = tuple[str, Gomoku, tuple[int, ...]]  # agent, game, moves
Send = Callable[[int, dict[str, Any]], Awaitable[None]]  # a reply without its id, to the request of this id


class Tree:
    """A search that a connection keeps: it can go on where it stopped.

    Args:
        thinker: the agent on its board.
        key: of the position.
        most: simulations that there is room for.

    Raises:
        MessageError: an illegal move, or a game that has ended.
    """

    def __init__(self, thinker: Thinker, key: Key, most: int):
        self.key = key
        self._state = answers.replay_unfinished(thinker.game, key[2]).state
        self._thinker = thinker
        self._running = thinker.search(self._state, most)
        self._seconds = 0.0
        self.num_bytes = tree_bytes(thinker.game, most)

    def analyses(
        self, simulations: int | None, seconds: float, interval: Callable[[], float]
    ) -> Iterator[Analysis]:
        """Goes on up to a number of simulations in all, or for so many seconds more."""
        before = self._seconds
        for analysis in self._thinker.analyses(
            self._state, simulations, seconds, interval, running=self._running
        ):
            self._seconds = before + analysis.seconds
            yield dataclasses.replace(analysis, seconds=self._seconds)


def tree_bytes(game: Gomoku, most: int) -> int:
    """About how much memory a tree with room for `most` simulations takes."""
    return most * game.num_actions * _BYTES_PER_POINT


class Searches:
    """What the connections' searches share: threads, agents, room for trees, and the count of those that run.

    Args:
        agents: the list.
        workers: the threads.
        max_simulations: of a search; each tree has room for as many, so that a board compiles once.
    """

    def __init__(self, agents: Agents, workers: Workers, max_simulations: int):
        self.agents, self.workers, self.max_simulations = agents, workers, max_simulations
        self.running = 0
        self.random = random.Random()  # an agent does not open all games with the same stones
        self.trees: weakref.WeakSet[Tree] = weakref.WeakSet()
        self._reserved = 0  # bytes of trees that are being made
        self._idle: collections.OrderedDict[SearchSlot, None] = collections.OrderedDict()  # the oldest first

    def interval(self) -> float:
        """Seconds of a portion: shorter, the more searches share the threads."""
        return max(LEAST_INTERVAL, INTERVAL * min(1.0, NUM_QUICK / max(1, self.running)))

    def is_prepared(self, agent: str, game: Gomoku, begun: bool = False) -> bool:
        """Whether `prepare` is done, or at least begun."""
        key = ("search", agent, game)
        return self.workers.is_begun(key) if begun else self.workers.is_done(key)

    async def prepare(self, agent: str, game: Gomoku) -> None:
        """Makes an agent ready to search on a board; slow the first time."""
        await self.workers.once(("search", agent, game), self._warm_up, agent, game)

    def _warm_up(self, agent: str, game: Gomoku) -> None:
        answers.warm_up_rules(game)
        self.agents.thinker(agent, game).warm_up(self.max_simulations)

    async def prepare_values(self, agent: str, game: Gomoku) -> None:
        """Makes an agent ready to give the network's values; slow the first time."""

        def warm_up():
            self.agents.thinker(agent, game).game_values([game.init()])

        await self.workers.once(("values", agent, game), warm_up)

    async def opened(self, request: Opening, opening: SwapOpening) -> dict[str, Any]:
        """What a prepared agent does in an opening. Raises MessageError where there is no room.

        It searches positions one after the other, not in portions: a slow job.
        """
        num_bytes = 0 if request.simulations == 0 else tree_bytes(request.game, self.max_simulations)
        if num_bytes:
            self.make_room(request.game)
        limit = Limit(request.simulations, request.seconds or MAX_SECONDS)
        thinker = self.agents.thinker(request.agent, request.game)
        opener = thinker_opener(thinker, limit, self.random.getrandbits(32), self.max_simulations)
        self._reserved += num_bytes
        self.running += 1
        try:
            return await self.workers.slow(answers.opened, opening, opener)
        finally:
            self.running -= 1
            self._reserved -= num_bytes

    def plant(self, key: Key) -> Tree:
        """A new tree. For a thread. Raises MessageError as `Tree` does."""
        agent, game, _ = key
        return Tree(self.agents.thinker(agent, game), key, self.max_simulations)

    async def planted(self, key: Key) -> Tree:
        """A new tree; its room counts from now on, or trees that are made at once would pass the limit."""
        num_bytes = tree_bytes(key[1], self.max_simulations)
        self._reserved += num_bytes
        try:
            tree = await self.workers.quick(self.plant, key)
            self.trees.add(tree)
            return tree
        finally:
            self._reserved -= num_bytes

    def make_room(self, game: Gomoku) -> None:
        """Frees trees that nobody searches, oldest first. Raises MessageError where that is not enough."""
        wanted = tree_bytes(game, self.max_simulations)
        while self._idle and wanted + self._bytes() > TREE_BYTES:
            next(iter(self._idle)).forget()
        if self.running and wanted + self._bytes() > TREE_BYTES:
            gc.collect()  # what is left of tabs that have closed
        if self.running and wanted + self._bytes() > TREE_BYTES:
            raise MessageError("busy", f"{self.running} searches fill the server's memory: try again later")

    def _bytes(self) -> int:
        return self._reserved + sum(tree.num_bytes for tree in self.trees)

    def idle(self, slot: "SearchSlot") -> None:
        """This slot's tree is kept to be resumed, and may be freed."""
        self._idle[slot] = None

    def not_idle(self, slot: "SearchSlot") -> None:
        """This slot's tree is in use, or gone."""
        self._idle.pop(slot, None)


class SearchSlot:
    """A connection's search: one at most, the newest that was asked for.

    Args:
        searches: what all share.
        send: sends a reply.
    """

    def __init__(self, searches: Searches, send: Send):
        self._searches, self._send = searches, send
        self._task: asyncio.Task | None = None
        self._stop = asyncio.Event()
        self._wanted: Search | None = None
        self._preparing: asyncio.Future | None = None
        self._tree: Tree | None = None

    @property
    def is_searching(self) -> bool:
        """A search runs or waits."""
        return self._task is not None and not self._task.done()

    async def start(self, request: Search) -> None:
        """Stops the search that there is, and starts another."""
        replaced, self._wanted = self._wanted, request
        self._stop.set()
        if not self.is_searching:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)
        if replaced is not None:
            await self._send(replaced.id, _never_began().reply())

    async def stop(self) -> None:
        """Stops the search; its last frame has been sent when this returns."""
        replaced, self._wanted = self._wanted, None
        self._stop.set()
        if replaced is not None:
            await self._send(replaced.id, _never_began().reply())
        if self._task is not None and self.is_searching:
            await asyncio.wait([self._task])

    def close(self) -> None:
        """For a connection that is gone: frees the tree, as soon as no thread works on it."""
        self._wanted = None
        if self._task is not None:
            self._task.cancel()
        self.forget()

    def _ended(self, task: asyncio.Task) -> None:
        """Lets go of the task: a cancelled one holds its frames, these hold the tree and this slot."""
        if self._task is task:
            self._task = None

    def forget(self) -> None:
        """Lets go of the tree."""
        self._tree = None
        self._searches.not_idle(self)

    async def _run(self) -> None:
        """Runs what is wanted until nothing is."""
        while self._wanted is not None:
            request, self._wanted = self._wanted, None
            self._stop.clear()
            try:
                await self._search(request)
            except MessageError as error:
                await self._send(request.id, error.reply())
            except Exception:
                logger.exception("a search failed")
                self.forget()
                await self._send(request.id, MessageError("internal", "the search failed").reply())

    async def _search(self, request: Search) -> None:
        shared = self._searches
        shared.agents.check(request.agent, request.game)
        if not await self._prepare(request.agent, request.game):
            raise _never_began()
        shared.not_idle(self)
        key = (request.agent, request.game, request.moves)
        if self._tree is None or self._tree.key != key:
            self._tree = None  # its memory goes first
            shared.make_room(request.game)
        shared.running += 1
        try:
            if self._tree is None:
                self._tree = await shared.planted(key)
            await self._watch(request, self._tree)
        finally:
            shared.running -= 1
            if self._tree is not None:
                shared.idle(self)

    async def _watch(self, request: Search, tree: Tree) -> None:
        """Runs portions and sends frames until the search is over or to be stopped."""
        shared = self._searches
        seconds = MAX_SECONDS if request.seconds is None else request.seconds
        analyses = tree.analyses(request.simulations, seconds, shared.interval)
        frame: dict[str, Any] = {}
        sent = None
        while not (frame and self._stop.is_set()):
            analysis = await shared.workers.quick(_following, analyses)
            if analysis is None:
                break
            frame = answers.analysis_frame(analysis)
            now = time.monotonic()
            if sent is None or now - sent >= LEAST_BETWEEN_FRAMES:
                sent = now
                await self._send(request.id, frame)
        reason = "stopped" if self._stop.is_set() else "finished"
        await self._send(request.id, frame | {"done": True, "reason": reason})

    async def _prepare(self, agent: str, game: Gomoku) -> bool:
        """Loads and compiles, where it is the first time; False where the search is stopped before that ends.

        A connection begins to compile one thing at a time: what it has abandoned ends first.
        """
        shared = self._searches
        if shared.is_prepared(agent, game):
            return not self._stop.is_set()
        abandoned = self._preparing is not None and not self._preparing.done()
        if self._preparing is not None and abandoned and not shared.is_prepared(agent, game, begun=True):
            await self._or_stop(self._preparing)
            if self._stop.is_set():
                return False
        self._preparing = asyncio.ensure_future(shared.prepare(agent, game))
        await self._or_stop(self._preparing)
        if self._preparing.done():
            self._preparing.result()
        return not self._stop.is_set()

    async def _or_stop(self, future: asyncio.Future) -> None:
        """Waits for a future, or until the search is to be stopped."""
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({future, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()


def _following(analyses: Iterator[Analysis]) -> Analysis | None:
    """The next; None after the last."""
    return next(analyses, None)


def _never_began() -> MessageError:
    return MessageError("stopped", "the search was stopped before it began")
