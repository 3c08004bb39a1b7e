"""The ASGI application: the page, its files, and the WebSocket."""

import asyncio
import contextlib
import dataclasses
import logging
import mimetypes
import pathlib
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from gomoku_jax import __version__
from gomoku_jax.config import MAX_SIDE, MIN_SIDE, RULES
from gomoku_jax.play.choose import RUNS_FOLDER, Choice
from gomoku_jax.play.thinking import DEFAULT_SIMULATIONS
from gomoku_jax.play.web.agents import Agents
from gomoku_jax.play.web.connection import Connection
from gomoku_jax.play.web.guard import Guard
from gomoku_jax.play.web.messages import MAX_PLAYOUTS, MAX_SECONDS, MessageError
from gomoku_jax.play.web.searches import Searches
from gomoku_jax.play.web.workers import Workers

logger = logging.getLogger(__name__)
STATIC_FOLDER = pathlib.Path(__file__).parent / "static"
TRY_AGAIN_LATER = 1013  # WebSocket close code


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the server is told.

    Attributes:
        host: what it listens on; requests must ask for it, or for the machine by a local name.
        allowed_hosts: other names that requests may ask for.
        simulations: a move, by default, on the page.
        max_simulations: of a search.
        max_clients: WebSockets at once.
        runs: the folder of runs whose agents are offered.
    """

    host: str = "127.0.0.1"
    allowed_hosts: Sequence[str] = ()
    simulations: int = DEFAULT_SIMULATIONS
    max_simulations: int = 4096
    max_clients: int = 64
    runs: pathlib.Path = RUNS_FOLDER


def create_app(choice: Choice, settings: Settings = Settings()) -> Starlette:
    """The application. Its `state.searches` and `state.connections` tell what goes on.

    Args:
        choice: the agent and board to begin with.
        settings: the rest.
    """
    mimetypes.add_type("text/javascript", ".js")  # some systems' tables say otherwise, which browsers refuse
    agents = Agents(choice, settings.runs)
    workers = Workers()
    searches = Searches(agents, workers, settings.max_simulations)
    connections: set[Connection] = set()
    welcome = _welcome(choice, agents, settings)
    static = StaticFiles(directory=STATIC_FOLDER)

    async def page(request: Request) -> Response:
        return await static.get_response("index.html", request.scope)

    async def health(request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        if len(connections) >= settings.max_clients:
            full = MessageError("busy", f"{settings.max_clients} tabs are served already: close one, or wait")
            await websocket.send_json(full.reply())
            return await websocket.close(TRY_AGAIN_LATER)
        connection = Connection(websocket, searches)
        connections.add(connection)
        try:
            await connection.serve(welcome)
        finally:
            connections.discard(connection)

    async def warm_up() -> None:
        try:
            await searches.prepare(choice.name, choice.game)
        except Exception:
            logger.exception("the agent could not be made ready")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette):
        warming = asyncio.create_task(warm_up())
        yield
        warming.cancel()
        workers.close()

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/api/health", health),
            WebSocketRoute("/ws", socket),
            Mount("/static", static),
        ],
        middleware=[Middleware(Guard, host=settings.host, names=settings.allowed_hosts)],
        lifespan=lifespan,
    )
    app.state.searches, app.state.connections, app.state.workers = searches, connections, workers
    return app


def _welcome(choice: Choice, agents: Agents, settings: Settings) -> dict[str, Any]:
    return {
        "type": "welcome",
        "version": __version__,
        "agents": [entry.facts() for entry in agents.entries.values()],
        "rules": list(RULES),
        "limits": {
            "min_side": MIN_SIDE,
            "max_side": MAX_SIDE,
            "max_simulations": settings.max_simulations,
            "max_seconds": MAX_SECONDS,
            "max_playouts": MAX_PLAYOUTS,
            "max_moves": MAX_SIDE * MAX_SIDE,
        },
        "defaults": {
            "agent": choice.name,
            "game": choice.game.facts(),
            "simulations": settings.simulations,
        },
        "reason": choice.reason,
    }
