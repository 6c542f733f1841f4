"""memsel as a Model Context Protocol server: two tools, over stdio or streamable HTTP.

The tools are described here in the words a model reads; what they read, answer and refuse is that of ``wire``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, BinaryIO, NamedTuple

import msgspec

from .. import __version__
from . import wire
from .wire import Fault, RankAnswer, RankQuestion, SelectAnswer, SelectQuestion

try:
    import anyio
    import anyio.to_thread
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.exceptions import MCPError
except ModuleNotFoundError as error:
    raise ImportError(f"memsel's MCP server needs {error.name}; install it with: pip install 'memsel[mcp]'") from error

from .serving import App, Gate, Limits, check_binding, log_to_stderr, run

__all__ = ["http_app", "mcp_server", "serve_http", "serve_stdio"]

_PATH = "/mcp"
_INSTRUCTIONS = (
    "Use memory_select with the user's message and the memories at hand before answering, and put only the selected "
    "texts into the prompt. rank_memories orders memories by similarity scores, recency and importance instead."
)
_SELECT = (
    "Pick the memories that are worth putting into the prompt for a query. Keeps those that share words with the "
    "query, best first, within max_results and max_tokens; leaves out memories of other scopes, expired ones, "
    "repetitions and what has nothing to do with the query. Each kept memory comes with its text (passwords and keys "
    "masked), score, token count and reasons; each dropped one with the one reason (memories of other scopes are only "
    "counted). It reads words, not meanings: give similarity on each memory if you have it from an embedding search."
)
_RANK = (
    "Rank memories by similarity, recency and importance, and keep the best within top_k and token_budget. Give "
    "similarity scores by memory id in scores (0.5 is assumed where there is none). Every memory needs content and "
    "timestamp (seconds since 1970). Returns the kept memories, best first, with their composite score and its three "
    "parts, and why each other one was dropped. It does not look at scopes: give it only memories the reader may see."
)


class _Tool(NamedTuple):
    title: str
    description: str
    question: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    ask: Callable[[Any, int], Any]


_TOOLS = {
    "memory_select": _Tool("Select memories", _SELECT, SelectQuestion, SelectAnswer, wire.select),
    "rank_memories": _Tool("Rank memories", _RANK, RankQuestion, RankAnswer, wire.rank),
}


def _schema(kind: type) -> dict[str, Any]:
    """The JSON Schema of a struct with the struct itself at the root, as MCP wants it."""
    _, parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root = parts.pop(kind.__name__)
    del root["title"], root["description"]
    return {**root, "$defs": parts} if parts else root


def mcp_server(limits: Limits | None = None) -> Server[Any]:
    """The server with both tools, on no transport yet."""
    limits = limits or Limits()
    threads = anyio.CapacityLimiter(limits.threads)
    tools = [
        types.Tool(
            name=name,
            title=tool.title,
            description=tool.description,
            input_schema=_schema(tool.question),
            output_schema=_schema(tool.answer),
            annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        )
        for name, tool in _TOOLS.items()
    ]

    async def list_tools(_context: Any, _page: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_context: Any, call: types.CallToolRequestParams) -> types.CallToolResult:
        tool = _TOOLS.get(call.name)
        if tool is None:
            named = wire.clean(call.name[:80])
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {named!r}; the tools are {', '.join(_TOOLS)}")
        return await anyio.to_thread.run_sync(_answer, tool, call.arguments or {}, limits.memories, limiter=threads)

    return Server(
        "memsel",
        version=__version__,
        title="memsel",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _answer(tool: _Tool, arguments: dict[str, Any], most_memories: int) -> types.CallToolResult:
    try:
        question = wire.decode(tool.question, _as_json(arguments))
        text = _without_halves(wire.encode(tool.ask(question, most_memories)).decode())
    except Fault as fault:
        # The model is told what to change, so this is a result and no protocol error.
        where = "" if fault.path in (None, "$") else f" (at {fault.path})"
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=_without_halves(fault.message + where))], is_error=True
        )
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=json.loads(text)
    )


def _as_json(arguments: dict[str, Any]) -> bytes:
    """The arguments as the JSON they came as, for the reader that all faces share; the SDK lets NaN pass."""
    try:
        return json.dumps(arguments, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Fault(400, "invalid_json", "the arguments hold NaN, Infinity or a number too large for JSON") from None


# An escape in JSON text: a pair of surrogates, half a pair, or any other, which hides what follows its backslash.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_HALF = re.compile("[\ud800-\udfff]")


def _without_halves(text: str) -> str:
    """JSON text with U+FFFD for half a surrogate pair, which no strict reader of the protocol takes."""
    text = _HALF.sub("\ufffd", text)
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], text)


# --- stdio -----------------------------------------------------------------------------------------------------------


class _Lines:
    """The lines of a binary stream as UTF-8 text, whatever the locale; one too long is empty, thus malformed."""

    def __init__(self, stream: BinaryIO, most_bytes: int) -> None:
        self._stream = stream
        self._most = most_bytes

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await anyio.to_thread.run_sync(self._line, abandon_on_cancel=True):
            yield line

    def _line(self) -> str:
        data = self._stream.readline(self._most + 1)
        if len(data) <= self._most:
            return _without_halves(data.decode("utf-8-sig", "replace"))
        while data and not data.endswith(b"\n"):
            data = self._stream.readline(self._most)
        return "\n"


def serve_stdio(limits: Limits | None = None) -> None:
    """Speak MCP on standard input and output until the input ends; logs go to standard error."""
    limits = limits or Limits()
    log_to_stderr()
    # The wire gets a descriptor of its own, so that nothing else in the process can read from it.
    own = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    anyio.run(_speak, mcp_server(limits), _Lines(own, limits.body_bytes))


async def _speak(server: Server[Any], lines: Any) -> None:
    async with stdio_server(stdin=lines) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


# --- streamable HTTP -------------------------------------------------------------------------------------------------


def http_app(*, host: str = "127.0.0.1", token: str | None = None, limits: Limits | None = None) -> App:
    """An ASGI app that speaks streamable HTTP under /mcp, each request for itself.

    Raises:
        InputError: the host is no loopback address and there is no token.
    """
    limits = limits or Limits()
    check_binding(host, token)
    # The gate has looked at the host and at the size already.
    app = mcp_server(limits).streamable_http_app(
        streamable_http_path=_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Gate(app, limits=limits, token=token)


def serve_http(
    *, host: str = "127.0.0.1", port: int = 8766, token: str | None = None, limits: Limits | None = None
) -> None:
    """Serve MCP over streamable HTTP until SIGINT or SIGTERM.

    Raises:
        InputError: the address cannot be had, or is no loopback address and there is no token.
    """
    limits = limits or Limits()
    app = http_app(host=host, token=token, limits=limits)
    run(app, host=host, port=port, limits=limits, name="memsel mcp", path=_PATH)
