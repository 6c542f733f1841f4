"""Servers for tests: on 127.0.0.1 and a free port, in a thread, gone when the test is."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from memsel.adapters.serving import Limits, listener, server


@contextlib.contextmanager
def listening(app: Any, limits: Limits | None = None) -> Iterator[int]:
    """The port on which ``app`` answers."""
    with listener("127.0.0.1", 0) as taken:
        running = server(app, limits or Limits())
        thread = threading.Thread(target=running.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield taken.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def post(port: int, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Status and JSON of an answer; ``body`` is sent as JSON unless it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, data, {"content-type": "application/json"} | named)
        answer = connection.getresponse()
        return answer.status, strict(answer.read())
    finally:
        connection.close()


def get(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def raw(port: int, data: bytes, *, seconds: float = 20.0, end: bool = False) -> bytes:
    """Whatever the server sends for ``data`` until it hangs up; ``end`` closes the sending half."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        received = bytearray()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                break
            if not part:
                break
            received += part
        return bytes(received)


def strict(data: bytes) -> Any:
    """JSON as RFC 8259 has it, which knows no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in {data[:200]!r}")

    return json.loads(data, parse_constant=refuse)
