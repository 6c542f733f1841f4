"""How a network face listens: who may ask, how long, how much, and what its log may say; nothing of what is asked.

Both servers stand behind the same gate. It reads the whole body before the face sees the request, so a client that is
slow, silent or too big holds a connection for a bounded time and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..policy import redact
from .wire import Fault, encode

try:
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ModuleNotFoundError as error:
    raise ImportError(f"serving needs {error.name}; install it with: pip install 'memsel[serve]'") from error

__all__ = ["Gate", "Limits", "announce", "check_binding", "error_body", "listener", "log_to_stderr", "run", "server"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# A client of the last connection of a full table is told so; beyond it the system's own queue makes clients wait.
_MOST_CONNECTIONS = 512


@dataclass(frozen=True)
class Limits:
    """What one client may take.

    body_bytes: largest request body. memories: most candidates of a question in JSON; rows: of one in Arrow columns,
    and most memories of a pool. pools: how many of those there may be.
    read_seconds: for a request to arrive whole; seconds: for its answer. threads: how many large questions are answered
    at once; waiting: how many more may wait for that.
    """

    body_bytes: int = 8 * 1024 * 1024
    memories: int = 10_000
    rows: int = 1_000_000
    pools: int = 64
    read_seconds: float = 10.0
    seconds: float = 10.0
    threads: int = 2
    waiting: int = 32


def check_binding(host: str, token: str | None) -> None:
    """Refuse an address that others can reach where no token keeps them out.

    Raises:
        InputError: the address is no loopback address and there is no token, or the token is no token.
    """
    if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
        raise InputError("the token is empty or holds blanks or characters beyond ASCII; expected one word")
    if token is None and not _is_loopback(host):
        raise InputError(f"host is {host!r}, which others can reach; expected a bearer token beside it, or 127.0.0.1")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# --- the gate --------------------------------------------------------------------------------------------------------


def error_body(fault: Fault) -> bytes:
    """The one shape of every error."""
    return encode({"error": {"code": fault.code, "message": fault.message, "path": fault.path}})


async def _refuse(send: Send, fault: Fault) -> None:
    body = error_body(fault)
    # What is left of the request is not read, so nothing can follow it on this connection.
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if fault.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _ClientGone(Exception):
    """The client hung up before its request had arrived."""


class Gate:
    """ASGI: lets a request through to ``app`` once it may ask, with a body that has arrived whole.

    Without a token only the names of this machine are accepted as the Host, so that no web page can lead a browser here
    under a name of its own. ``open_paths`` need no token.
    """

    def __init__(
        self, app: App, *, limits: Limits, token: str | None = None, open_paths: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._limits = limits
        self._expected = None if token is None else b"bearer " + token.encode("ascii")
        self._open_paths = open_paths

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            self._admit(scope["path"], headers)
            body = await self._body(receive)
        except Fault as fault:
            await _refuse(send, fault)
            return
        except _ClientGone:
            return
        arrived: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return arrived.pop() if arrived else await receive()

        await self._app(scope, replay, send)

    def _admit(self, path: str, headers: dict[bytes, bytes]) -> None:
        if self._expected is None:
            host = headers.get(b"host", b"").decode("latin-1")
            name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
            if host and not _is_loopback(name):
                raise Fault(421, "wrong_host", "this server answers under the names of its own machine only")
        elif path not in self._open_paths:
            kind, _, word = headers.get(b"authorization", b"").partition(b" ")
            if not hmac.compare_digest(kind.lower() + b" " + word.strip(), self._expected):
                raise Fault(401, "unauthorized", "a bearer token is missing or is not the right one")

    async def _body(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        size = 0
        too_large = False
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > self._limits.body_bytes:
                        # Read on without keeping it: who is cut off while sending never sees the answer.
                        too_large = True
                        parts.clear()
                    else:
                        parts.append(part)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            if not too_large:
                raise Fault(408, "timeout", "the request did not arrive whole in time") from None
        if too_large:
            raise Fault(413, "too_large", f"the body is larger than {self._limits.body_bytes} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)


# --- the server ------------------------------------------------------------------------------------------------------


_Connection: Any = AutoHTTPProtocol


class _Guarded(_Connection):
    """uvicorn's connection, which waits for ever for the head of a request, with an end to that wait."""

    head_seconds = 10.0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._head_timer is None and not self.transport.is_closing():
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        body = error_body(Fault(400, "invalid_http", msg))
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode("ascii") + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


def listener(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. InputError: the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host} port {port}: {error}") from None
    # asyncio switches Nagle's delay off only where a socket names its protocol; with it each answer takes 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())


def server(app: App, limits: Limits) -> uvicorn.Server:
    """The server that ``run`` runs, for callers that run it in a thread or a loop of their own."""
    protocol = type("Guarded", (_Guarded,), {"head_seconds": limits.read_seconds})
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=min(5, max(1, round(limits.read_seconds))),
            timeout_graceful_shutdown=max(1, round(limits.seconds)),
        )
    )


def announce(line: str) -> None:
    """A line for people, on standard error: standard output belongs to a protocol."""
    print(line, file=sys.stderr, flush=True)


class _CleanLines(logging.Formatter):
    """Log lines without secrets, even where another library quotes what it was sent."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def log_to_stderr() -> None:
    """Send warnings and errors of every library to standard error, redacted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_CleanLines("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def run(app: App, *, host: str, port: int, limits: Limits, name: str, path: str = "") -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered first.

    Raises:
        InputError: the address cannot be had.
    """
    log_to_stderr()
    with listener(host, port) as taken:
        where = f"[{host}]" if ":" in host else host
        announce(f"{name} listens on http://{where}:{taken.getsockname()[1]}{path} (process {os.getpid()})")
        server(app, limits).run(sockets=[taken])
