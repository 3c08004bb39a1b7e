"""Serves the web board on this machine. Try:

    gomoku-jax web
    gomoku-jax web --agent runs/mine --board 15x15x5 --open
    gomoku-jax web --port 0 --simulations 800
    gomoku-jax web --host 0.0.0.0 --allow-host board.example.org

Then open the address that it prints. Ctrl-C ends it.
"""

import contextlib
import dataclasses
import ipaddress
import os
import socket
import sys
import threading
import webbrowser

import tyro
import uvicorn

from gomoku_jax.agent import AgentError
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule
from gomoku_jax.game import parse_board
from gomoku_jax.play.choose import Choice, choose
from gomoku_jax.play.thinking import DEFAULT_SIMULATIONS, MAX_SIMULATIONS
from gomoku_jax.play.web.guard import is_wildcard
from gomoku_jax.play.web.messages import MAX_FRAME
from gomoku_jax.play.web.server import Settings, create_app

_LARGEST_FRAME = (
    16 * MAX_FRAME
)  # between the two, a frame is refused with a reply; above, the connection ends
_SECONDS_TO_CLOSE = 1.0


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    agent: str | None = None
    """A run folder, an agent folder, a published .model file or a shipped agent; by default what is found."""
    board: str | None = None
    """ROWSxCOLUMNSxK, such as 15x15x5; by default the agent's. The page can change it."""
    rule: Rule | None = None
    """The rule; by default that of the agent."""
    host: str = "127.0.0.1"
    """The address to listen on. 0.0.0.0 lets everybody in who can reach this machine."""
    port: int = 8000
    """The port; 0 takes any free one."""
    allow_host: tuple[str, ...] = ()
    """Other names that this machine goes by in the addresses people type."""
    simulations: int = DEFAULT_SIMULATIONS
    """A move, until the page is told otherwise."""
    max_simulations: int = 4096
    """The most that a search may run."""
    max_clients: int = 64
    """The most tabs at once."""
    open: bool = False
    """Opens the page in a browser."""


def _choose(arguments: Arguments) -> Choice:
    """The agent and the board; ValueError and AgentError say what cannot be."""
    for name, value, least, most in (
        ("--port", arguments.port, 0, 65535),
        ("--max-simulations", arguments.max_simulations, 1, MAX_SIMULATIONS),
        ("--simulations", arguments.simulations, 0, arguments.max_simulations),
        ("--max-clients", arguments.max_clients, 1, 1000),
    ):
        if not least <= value <= most:
            raise ValueError(f"{name} {value}: from {least} to {most}")
    game = None
    if arguments.board is not None:
        game = parse_board(arguments.board, arguments.rule or "freestyle")
    choice = choose(arguments.agent, game)
    if arguments.board is None and arguments.rule is not None:
        choice = choose(arguments.agent, dataclasses.replace(choice.game, rule=arguments.rule))
    return choice


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. OSError tells why not."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(f"cannot listen on --host {host} --port {port}: {reason}; --port 0 takes any") from None


def _is_loopback(listening: socket.socket) -> bool:
    return ipaddress.ip_address(listening.getsockname()[0].split("%")[0]).is_loopback


def _address(listening: socket.socket, host: str) -> str:
    shown = "127.0.0.1" if is_wildcard(host) else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}"


class _Server(uvicorn.Server):
    """Says where it is once it can be reached."""

    def __init__(self, config: uvicorn.Config, address: str, open_page: bool):
        super().__init__(config)
        self._address, self._open_page = address, open_page

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"Open {self._address} in a browser. Ctrl-C ends the server.", flush=True)
        if self._open_page:
            threading.Thread(target=webbrowser.open, args=(self._address,), daemon=True).start()


def make_config(app, **changes) -> uvicorn.Config:
    """How uvicorn serves the application."""
    options = {
        "ws": "websockets-sansio",
        "ws_max_size": _LARGEST_FRAME,
        "ws_per_message_deflate": False,
        "log_level": "warning",
        "timeout_graceful_shutdown": 1,
        "server_header": False,
    }
    return uvicorn.Config(app, **(options | changes))


def main(argv: list[str]) -> int:
    """Serves until it is told to end; returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, prog="gomoku-jax web", description=__doc__)
    try:
        use_compilation_cache()
        choice = _choose(arguments)
        listening = _listen(arguments.host, arguments.port)
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{choice.reason[0].upper()}{choice.reason[1:]}.\nThe board is {choice.game}.", flush=True)
    if not _is_loopback(listening):
        print(f"Everybody who can reach {arguments.host} can use this server.", flush=True)
    settings = Settings(
        arguments.host,
        arguments.allow_host,
        arguments.simulations,
        arguments.max_simulations,
        arguments.max_clients,
    )
    app = create_app(choice, settings)
    server = _Server(make_config(app), _address(listening, arguments.host), arguments.open)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    if app.state.workers.busy(_SECONDS_TO_CLOSE):  # compiling cannot be interrupted, and is not waited for
        sys.stdout.flush()
        os._exit(0)
    return 0
