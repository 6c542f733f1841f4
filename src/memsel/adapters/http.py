"""memsel over HTTP: the routes, what each reads and answers, and the document that says so.

Everything that concerns the connection stands in ``serving``, everything that concerns the JSON in ``wire``.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from .. import __version__
from ..errors import InputError
from . import arrow_stream, metrics, wire
from .pools import PoolRemoval, Pools, PoolSelection, PoolSelectRequest, PoolState, PoolUpsert, RemoveRequest
from .serving import App, Gate, Limits, Message, Receive, Send, check_binding, error_body, run
from .wire import Fault, RankAnswer, RankRequest, RankSettings, SelectAnswer, SelectRequest

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise ImportError(f"memsel's server needs {error.name}; install it with: pip install 'memsel[serve]'") from error

__all__ = ["http_app", "openapi", "serve"]

_Result = TypeVar("_Result")

_JSON = "application/json"
_SELECT, _RANK, _HEALTH, _METRICS, _OPENAPI = "/v1/select", "/v1/rank", "/healthz", "/metrics", "/openapi.json"
_PATHS = frozenset((_SELECT, _RANK, _HEALTH, _METRICS, _OPENAPI))
_POOL = "/v1/pools/{name}"
# What can be done with a pool: the type asked with, if any, the type answered with, and a sentence.
_ACTIONS: dict[str, tuple[type[msgspec.Struct] | None, type[msgspec.Struct], str]] = {
    "upsert": (PoolUpsert, PoolState, "Put memories into a pool: all of them, or none where one is wrong."),
    "remove": (RemoveRequest, PoolRemoval, "Take memories out of a pool."),
    "select": (PoolSelectRequest, PoolSelection, "Select from a pool."),
    "save": (None, PoolState, "Write a pool to the data folder."),
    "load": (None, PoolState, "Take a pool from the data folder, in place of the one of its name."),
}
# Below this many bytes a selection is shorter than the way to a thread and back.
_LARGE = 64 * 1024
_NO_STORE = {"cache-control": "no-store"}


class _Workers:
    """Threads for large questions, with an end to how many may wait for one and for how long."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="memsel")
        self._lock = threading.Lock()
        self._held = 0

    async def do(self, work: Callable[[], _Result]) -> _Result:
        """The result of ``work``; Fault 503 where too many wait already, or where it takes too long."""
        with self._lock:
            if self._held >= self._limits.threads + self._limits.waiting:
                raise Fault(503, "busy", "too many requests are waiting; try again later")
            self._held += 1
        future = self._pool.submit(work)
        # A place is free when the work has ended, not when its client has stopped waiting.
        future.add_done_callback(self._let_go)
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise Fault(503, "timeout", f"no answer within {self._limits.seconds:g} seconds") from None

    def _let_go(self, _future: Future[Any]) -> None:
        with self._lock:
            self._held -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Measured:
    """ASGI: counts every answer of the app behind it, by path and status."""

    def __init__(self, app: App, counts: metrics.Metrics) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._counts.in_flight += 1
        try:
            await self._app(scope, receive, noted)
        finally:
            self._counts.in_flight -= 1
            path = _label(scope["path"])
            # 499: the client hung up before there was an answer.
            self._counts.answered(path, status or 499, perf_counter() - started)


def _label(path: str) -> str:
    """A path as metrics name it, without what the client chose."""
    if path in _PATHS:
        return path
    if path.startswith("/v1/pools/"):
        action = path.rpartition("/")[2]
        return f"{_POOL}/{action}" if action in _ACTIONS else _POOL
    return "other"


def http_app(
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    limits: Limits | None = None,
    data_folder: str | os.PathLike[str] | None = None,
) -> App:
    """The ASGI app. Without a data folder its pools can be neither saved nor loaded.

    Raises:
        InputError: the host is no loopback address and there is no token, or the data folder is none.
    """
    limits = limits or Limits()
    check_binding(host, token)
    folder = None if data_folder is None else Path(data_folder)
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder} is no folder")
    pools = Pools(folder, limits)
    counts = metrics.Metrics()
    workers = _Workers(limits)
    document = wire.encode(openapi(token=token is not None))

    async def answered(size: int, work: Callable[[], _Result]) -> _Result:
        return await workers.do(work) if size > _LARGE else work()

    async def select(request: Request) -> Response:
        body = await _json_body(request)

        def work() -> tuple[int, int, bytes]:
            question = wire.decode(SelectRequest, body)
            answer = wire.select(question, limits.memories)
            return len(question.memories), len(answer.selected), wire.encode(answer)

        candidates, kept, text = await answered(len(body), work)
        counts.selected(_SELECT, candidates, kept)
        return Response(text, media_type=_JSON, headers=_NO_STORE)

    async def rank(request: Request) -> Response:
        if _media_type(request) == arrow_stream.MEDIA_TYPE:
            settings = _settings(request.url.query)
            columns = await request.body()
            stream = await workers.do(lambda: arrow_stream.rank_stream(columns, settings, limits.rows))
            return Response(stream, media_type=arrow_stream.MEDIA_TYPE, headers=_NO_STORE)
        body = await _json_body(request, arrow_stream.MEDIA_TYPE)

        def work() -> tuple[int, int, bytes]:
            question = wire.decode(RankRequest, body)
            answer = wire.rank(question, limits.memories)
            return len(question.memories), len(answer.selected), wire.encode(answer)

        candidates, kept, text = await answered(len(body), work)
        counts.selected(_RANK, candidates, kept)
        return Response(text, media_type=_JSON, headers=_NO_STORE)

    async def pool(request: Request) -> Response:
        name = request.path_params["name"]
        if request.method == "PUT":
            new, state = pools.create(name)
            return Response(wire.encode(state), 201 if new else 200, _NO_STORE, _JSON)
        state = pools.drop(name) if request.method == "DELETE" else pools.state(name)
        return Response(wire.encode(state), 200, _NO_STORE, _JSON)

    def pool_action(action: str) -> Callable[[Request], Awaitable[Response]]:
        kind = _ACTIONS[action][0]
        act: Callable[..., Any] = getattr(pools, action)

        async def answer(request: Request) -> Response:
            name = request.path_params["name"]
            if kind is None:
                # Files are slow, whatever their size.
                return Response(wire.encode(await workers.do(lambda: act(name))), 200, _NO_STORE, _JSON)
            body = await _json_body(request)

            def work() -> bytes:
                return wire.encode(act(name, wire.decode(kind, body)))

            return Response(await answered(len(body), work), 200, _NO_STORE, _JSON)

        return answer

    async def health(_request: Request) -> Response:
        return Response(wire.encode({"status": "ok", "version": __version__}), media_type=_JSON)

    async def measures(_request: Request) -> Response:
        return Response(counts.text(), headers={"content-type": metrics.MEDIA_TYPE})

    async def described(_request: Request) -> Response:
        return Response(document, media_type=_JSON)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        workers.close()

    app = Starlette(
        routes=[
            Route(_SELECT, select, methods=["POST"]),
            Route(_RANK, rank, methods=["POST"]),
            Route(_POOL, pool, methods=["GET", "PUT", "DELETE"]),
            *(Route(f"{_POOL}/{action}", pool_action(action), methods=["POST"]) for action in _ACTIONS),
            Route(_HEALTH, health),
            Route(_METRICS, measures),
            Route(_OPENAPI, described),
        ],
        exception_handlers={Fault: _fault, HTTPException: _http_fault, Exception: _unforeseen},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return _Measured(Gate(app, limits=limits, token=token, open_paths=frozenset((_HEALTH,))), counts)


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    limits: Limits | None = None,
    data_folder: str | os.PathLike[str] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        InputError: the address cannot be had, or is no loopback address and there is no token, or the data folder is
            none.
    """
    limits = limits or Limits()
    app = http_app(host=host, token=token, limits=limits, data_folder=data_folder)
    run(app, host=host, port=port, limits=limits, name="memsel serve")


# --- requests --------------------------------------------------------------------------------------------------------


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _json_body(request: Request, *others: str) -> bytes:
    kind = _media_type(request)
    if kind != _JSON:
        wanted = " or ".join((_JSON, *others))
        raise Fault(415, "unsupported_media_type", f"content-type is {kind or 'missing'}; expected {wanted}")
    coding = request.headers.get("content-encoding", "identity").lower()
    if coding != "identity":
        raise Fault(415, "unsupported_media_type", f"content-encoding is {coding}; expected none")
    if request.url.query:
        raise Fault(400, "invalid_request", "the URL has a query string; expected every member in the body")
    return await request.body()


def _settings(query: str) -> RankSettings:
    """The settings beside Arrow columns, which have no place for them: members of the URL's query string."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=64)
    except ValueError:
        raise Fault(400, "invalid_request", "the URL's query string is none") from None
    given: dict[str, Any] = dict(pairs)
    if len(given) < len(pairs):
        raise Fault(400, "invalid_request", "a setting stands twice in the URL")
    try:
        settings = msgspec.convert(given, RankSettings, strict=False)
    except msgspec.ValidationError as error:
        raise wire.misshapen(error) from None
    if isinstance(settings.now, str):
        with suppress(ValueError):
            settings.now = float(settings.now)
    for name in RankSettings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise Fault(400, "invalid_request", f"{name} is {value}; expected a finite number", f"$.{name}")
    return settings


# --- errors ----------------------------------------------------------------------------------------------------------


def _fault(_request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Fault)
    headers = {"retry-after": "1"} if fault.status == 503 else None
    return Response(error_body(fault), fault.status, headers, _JSON)


def _http_fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, message = {
        404: ("not_found", "there is nothing under this path"),
        405: ("method_not_allowed", f"{request.method} is not allowed here"),
    }.get(error.status_code, ("http_error", "the request cannot be answered"))
    fault = Fault(error.status_code, code, message)
    return Response(error_body(fault), fault.status, error.headers, _JSON)


def _unforeseen(_request: Request, _error: Exception) -> Response:
    # The log has the traceback; a stranger learns nothing from it.
    return Response(error_body(Fault(500, "internal", "an error of the server's own")), 500, None, _JSON)


# --- the document ----------------------------------------------------------------------------------------------------


class ErrorDetail(msgspec.Struct):
    """What is wrong: a word for programs, a sentence for people, and the JSON path of what it is about."""

    code: str
    message: str
    path: str | None


class ErrorAnswer(msgspec.Struct):
    """The one shape of every error."""

    error: ErrorDetail


class Health(msgspec.Struct):
    """The server is up."""

    status: str
    version: str


_ERRORS = {
    400: "The request is wrong; path says where.",
    401: "The bearer token is missing or wrong.",
    408: "The request did not arrive in time.",
    413: "The body is too large, or holds too many memories.",
    404: "There is no such pool.",
    409: "There is no data folder, no room for the pool, or its file is damaged.",
    415: "The body is of a type that is not read here.",
    421: "The Host is none of this machine's names.",
    503: "Too many requests are waiting, or this one took too long.",
}


def openapi(*, token: bool = False) -> dict[str, Any]:
    """The OpenAPI 3.1 document, its schemas made from the types that the server reads and writes."""
    kinds: list[type] = [SelectRequest, SelectAnswer, RankRequest, RankAnswer, RankSettings, ErrorAnswer, Health]
    kinds += dict.fromkeys(kind for action in _ACTIONS.values() for kind in action[:2] if kind is not None)
    _, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    settings = parts.pop("RankSettings")["properties"]
    stream = {arrow_stream.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    parameters = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": "With Arrow columns only."}
        for name, schema in settings.items()
    ]
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "memsel",
            "version": __version__,
            "description": "Chooses the memories that enter a prompt: score, rank and pack them into a token budget.",
        },
        "paths": {
            _SELECT: {"post": _operation("memory_select", SelectRequest, SelectAnswer)},
            _RANK: {"post": _operation("rank", RankRequest, RankAnswer, stream) | {"parameters": parameters}},
            _POOL: {
                "parameters": _POOL_PARAMETERS,
                "put": _on_pool("create_pool", "Make a pool, or leave the one of its name as it is.", PoolState, 201),
                "get": _on_pool("pool", "How many memories a pool holds.", PoolState),
                "delete": _on_pool("drop_pool", "Forget a pool; its file stays.", PoolState),
            },
            **{
                f"{_POOL}/{action}": {
                    "parameters": _POOL_PARAMETERS,
                    "post": _on_pool(f"{action}_pool", summary, answer) | _asking(question),
                }
                for action, (question, answer, summary) in _ACTIONS.items()
            },
            _HEALTH: {"get": _reading("health", _JSON, _reference(Health)) | {"security": []}},
            _METRICS: {"get": _reading("metrics", "text/plain", {"type": "string"})},
            _OPENAPI: {"get": _reading("openapi", _JSON, {"type": "object"})},
        },
        "components": {"schemas": parts},
    }
    if token:
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"bearer": []}]
    return document


_POOL_PARAMETERS = [
    {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
    }
]


def _on_pool(name: str, summary: str, answer: type, *also: int) -> dict[str, Any]:
    content = {_JSON: {"schema": _reference(answer)}}
    answers = {str(status): {"description": "The answer.", "content": content} for status in (200, *also)}
    return {"operationId": name, "summary": summary, "responses": answers | _errors()}


def _asking(question: type | None) -> dict[str, Any]:
    if question is None:
        return {}
    return {"requestBody": {"required": True, "content": {_JSON: {"schema": _reference(question)}}}}


def _reference(kind: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _errors(statuses: Any = tuple(_ERRORS)) -> dict[str, Any]:
    content = {_JSON: {"schema": _reference(ErrorAnswer)}}
    return {str(status): {"description": _ERRORS[status], "content": content} for status in statuses}


def _operation(
    name: str, question: type, answer: type, also: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": (question.__doc__ or "").partition("\n")[0],
        "requestBody": {
            "required": True,
            "content": {_JSON: {"schema": _reference(question)}, **(also or {})},
        },
        "responses": {
            "200": {"description": "The answer.", "content": {_JSON: {"schema": _reference(answer)}, **(also or {})}},
            **_errors(),
        },
    }


def _reading(name: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "responses": {
            "200": {"description": "The answer.", "content": {kind: {"schema": schema}}},
            **_errors((401, 408, 413, 421)),
        },
    }
