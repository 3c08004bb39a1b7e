"""Who may talk to the server, and what browsers are told: hosts, origins, headers.

Any page that a user visits can send requests to a local port. So WebSockets from pages of other origins are
refused, and requests for another host's name, which a hostile name server may have pointed here.
"""

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # ask each time: an upgrade shows at once
}


class Guard:
    """Middleware that refuses strangers and adds the headers.

    Args:
        app: the application.
        host: what the server listens on.
        names: other names that it goes by.
    """

    def __init__(self, app: ASGIApp, host: str, names: Iterable[str] = ()):
        self._app = app
        self._names = {name.lower() for name in (*LOCAL_NAMES, host, *names)}
        self._any_address = is_wildcard(host)
        if self._any_address:
            self._names |= {socket.gethostname().lower(), socket.gethostname().lower() + ".local"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        fault = self._fault(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        if fault is None:
            return await self._app(scope, receive, send_with_headers)
        if scope["type"] == "websocket":  # before it is accepted, this is answered with HTTP's 403
            await WebSocketClose(reason=fault)(scope, receive, send)
        else:
            response = PlainTextResponse(f"{fault}\n", status_code=403)
            await response(scope, receive, send_with_headers)

    def _fault(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return "this server does not go by that host name; see --allow-host"
        if scope["type"] == "websocket" and origins and not _same_origin(origins, hosts[0]):
            return "WebSockets from pages of other origins are refused"
        return None

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if name is None:
            return False
        if name in self._names:
            return True
        return self._any_address and _is_address(name)  # an address needs no name server


def is_wildcard(host: str) -> bool:
    """Whether this address to listen on means all of the machine's."""
    return host in ("", "0.0.0.0", "::")


def _name(host: str) -> str | None:
    """The name in a Host header, in lower case, without port and brackets; None where it is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for what is no port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in host:
        return None
    return parts.hostname


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origins: list[str], host: str) -> bool:
    scheme, _, rest = origins[0].partition("://")
    return len(origins) == 1 and scheme in ("http", "https") and rest.lower() == host.lower()
