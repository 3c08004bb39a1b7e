"""One tab: its WebSocket, its requests in order, its one search."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from gomoku_jax.play.web import answers, messages
from gomoku_jax.play.web.messages import MessageError
from gomoku_jax.play.web.searches import Searches, SearchSlot

logger = logging.getLogger(__name__)
MAX_WAITING = 32  # requests of one kind that may wait in a connection


class Connection:
    """Serves one WebSocket until it closes.

    Searches and stops are heeded at once. Other requests wait in lanes, one for each kind of work, and are
    answered one after the other in each.

    Args:
        socket: accepted already.
        searches: what all connections share.
    """

    def __init__(self, socket: WebSocket, searches: Searches):
        self._socket, self._searches = socket, searches
        self._slot = SearchSlot(searches, self._reply)
        self._lanes: dict[Callable, asyncio.Queue] = {}
        self._tasks: list[asyncio.Task] = []

    async def serve(self, welcome: dict[str, Any]) -> None:
        """Greets, and answers until the other side is gone."""
        try:
            await self._send(welcome)
            while True:
                frame = await self._socket.receive()
                if frame["type"] == "websocket.disconnect":
                    return
                try:
                    await self._receive(frame.get("text"))
                except MessageError as error:
                    await self._send(error.reply())
                await asyncio.sleep(0)  # a flood in one connection leaves the others their turns
        except WebSocketDisconnect:
            return
        finally:
            self._slot.close()
            for task in self._tasks:
                task.cancel()

    async def _receive(self, text: str | None) -> None:
        if text is None:
            raise MessageError("bad_message", "a binary frame: requests are JSON in text frames")
        request = messages.decode(text, self._searches.max_simulations)
        if isinstance(request, messages.Search):
            return await self._slot.start(request)
        if isinstance(request, messages.Stop):
            lane = self._answer_stop
        elif isinstance(request, messages.Compare):
            lane = self._answer_compare
        elif isinstance(request, messages.Values):
            lane = self._answer_values
        elif isinstance(request, messages.Opening):
            lane = self._answer_opening
        else:
            lane = self._answer_rules
        self._enqueue(lane, request)

    def _enqueue(self, lane: Callable[[Any], Awaitable[dict[str, Any]]], request: messages.Request) -> None:
        if lane not in self._lanes:
            self._lanes[lane] = asyncio.Queue(MAX_WAITING)
            self._tasks.append(asyncio.create_task(self._work(lane, self._lanes[lane])))
        try:
            self._lanes[lane].put_nowait(request)
        except asyncio.QueueFull:
            raise MessageError(
                "busy", f"{MAX_WAITING} requests of this kind wait already: wait for answers", request.id
            ) from None

    async def _work(self, lane: Callable[[Any], Awaitable[dict[str, Any]]], queue: asyncio.Queue) -> None:
        while True:
            request = await queue.get()
            try:
                answer = await lane(request)
            except MessageError as error:
                answer = error.reply()
            except Exception:
                logger.exception("a request failed: %s", type(request).__name__)
                answer = MessageError("internal", "the request failed").reply()
            await self._reply(request.id, answer)

    async def _answer_stop(self, request: messages.Stop) -> dict[str, Any]:
        await self._slot.stop()
        return {"type": "stopped"}

    async def _answer_rules(
        self, request: messages.Position | messages.Parse | messages.Export
    ) -> dict[str, Any]:
        quick = self._searches.workers.quick
        if isinstance(request, messages.Parse):
            return await quick(answers.parsed, request)
        await self._prepare_rules(request.game)
        if isinstance(request, messages.Export):
            return await quick(answers.exported, request)
        return await quick(answers.position, request.game, request.moves)

    async def _prepare_rules(self, game) -> None:
        await self._searches.workers.once(("rules", game), answers.warm_up_rules, game)

    async def _answer_values(self, request: messages.Values) -> dict[str, Any]:
        workers, agents = self._searches.workers, self._searches.agents
        agents.check(request.agent, request.game)
        await self._prepare_rules(request.game)
        record = await workers.quick(answers.replay, request.game, request.moves)
        await self._searches.prepare_values(request.agent, request.game)
        thinker = agents.thinker(request.agent, request.game)
        return await workers.quick(answers.values, thinker, record)

    async def _answer_opening(self, request: messages.Opening) -> dict[str, Any]:
        searches = self._searches
        searches.agents.check(request.agent, request.game)
        await self._prepare_rules(request.game)
        opening = await searches.workers.quick(answers.begun_opening, request)
        await searches.prepare_values(request.agent, request.game)
        if request.simulations != 0:
            await searches.prepare(request.agent, request.game)
        return await searches.opened(request, opening)

    async def _answer_compare(self, request: messages.Compare) -> dict[str, Any]:
        workers, agents = self._searches.workers, self._searches.agents
        game = request.game
        agents.check(request.agent, game)
        await self._prepare_rules(game)
        record = await workers.quick(answers.replay_unfinished, game, request.moves)
        rollouts = answers.Rollouts(game, record.state, request.playouts, self._searches.interval)
        await workers.once(("rollouts", game), answers.warm_up_rollouts, game)
        network = await workers.slow(lambda: agents.thinker(request.agent, game).network_view(record.state))
        while not rollouts.finished:
            await workers.quick(rollouts.step)
        return answers.comparison(network, rollouts.view())

    async def _reply(self, id: int, answer: dict[str, Any]) -> None:
        await self._send(answer | {"id": id})

    async def _send(self, message: dict[str, Any]) -> None:
        """Waits while the other side does not read."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # gone: the reader ends this connection
            await self._socket.send_text(json.dumps(message, allow_nan=False, separators=(",", ":")))
