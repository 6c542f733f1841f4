"""The MCP server, asked by the SDK's own client over both transports, and by hand where that client is too polite."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from listening import listening, post
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from memsel import InputError, MemorySelectSettings, memory_select
from memsel.adapters.mcp import http_app, mcp_server
from memsel.adapters.serving import Limits

COMMAND = [sys.executable, "-m", "memsel", "mcp"]
# Written in two halves, so that no scanner takes this file for a leak.
KEY = "sk-" + "abcdefghijklmnopqrstuvwx"
MEMORIES: list[dict[str, Any]] = [
    {"id": "db", "text": "The deploy database is PostgreSQL", "importance": 0.9},
    {"id": "tea", "text": "Prefers green tea"},
    {"id": "payroll-2026", "text": "deploy of the payroll", "scope": "hr"},
]


def over_stdio(ask: Callable[[Client], Awaitable[Any]], **env: str) -> Any:
    async def talk() -> Any:
        server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=env)
        async with Client(server, read_timeout_seconds=30) as client:
            return await ask(client)

    return asyncio.run(talk())


def over_http(ask: Callable[[Client], Awaitable[Any]]) -> Any:
    async def talk(port: int) -> Any:
        async with Client(f"http://127.0.0.1:{port}/mcp", read_timeout_seconds=30) as client:
            return await ask(client)

    with listening(http_app()) as port:
        return asyncio.run(talk(port))


def inside(ask: Callable[[Client], Awaitable[Any]], limits: Limits | None = None) -> Any:
    async def talk() -> Any:
        async with Client(mcp_server(limits)) as client:
            return await ask(client)

    return asyncio.run(talk())


def calling(tool: str, arguments: dict[str, Any]) -> Callable[[Client], Awaitable[Any]]:
    return lambda client: client.call_tool(tool, arguments)


TRANSPORTS = pytest.mark.parametrize("transport", [over_stdio, over_http], ids=["stdio", "http"])


@TRANSPORTS
def test_both_transports_list_call_and_refuse(transport: Callable[..., Any]) -> None:
    async def ask(client: Client) -> tuple[Any, ...]:
        return (
            await client.list_tools(),
            await client.call_tool("memory_select", {"query": "deploy database", "memories": MEMORIES}),
            await client.call_tool("memory_select", {"query": "q", "memories": [], "max_tokens": 0}),
            await client.call_tool(
                "rank_memories",
                {"memories": [{"id": "a", "content": "x", "timestamp": 0}], "scores": {"a": 0.9}},
            ),
        )

    listed, selected, refused, ranked = transport(ask)
    assert [tool.name for tool in listed.tools] == ["memory_select", "rank_memories"]
    assert not selected.is_error
    answer = selected.structured_content
    assert [kept["id"] for kept in answer["selected"]] == ["db"]
    assert answer["dropped"] == [{"id": "tea", "reason": "low_relevance"}]
    assert answer["out_of_scope"] == 1
    assert json.loads(selected.content[0].text) == answer
    assert refused.is_error
    assert "max_tokens" in refused.content[0].text
    row = ranked.structured_content["selected"][0]
    assert (row["id"], row["relevance"], row["rank"]) == ("a", 0.9, 1)


def test_a_tool_answers_what_the_library_answers_with_its_defaults() -> None:
    answer = inside(calling("memory_select", {"query": "deploy database", "memories": MEMORIES})).structured_content
    expected = memory_select("deploy database", MEMORIES)
    assert answer["selected"] == [kept._asdict() for kept in expected.selected]
    assert answer["total_tokens"] == expected.total_tokens


def test_the_schemas_stand_alone_and_name_the_defaults() -> None:
    tools = {tool.name: tool for tool in inside(lambda client: client.list_tools()).tools}
    select = tools["memory_select"].input_schema
    assert select["type"] == "object"
    assert select["additionalProperties"] is False
    assert sorted(select["properties"]) == [
        "max_results", "max_tokens", "memories", "min_relevance", "query", "scope",
    ]  # fmt: skip
    assert select["required"] == ["query", "memories"]
    defaults = MemorySelectSettings()
    for name in ("max_results", "max_tokens", "min_relevance"):
        assert f"{getattr(defaults, name)} where absent" in select["properties"][name]["description"]
    for tool in tools.values():
        assert tool.description
        assert tool.annotations.read_only_hint
        for schema in (tool.input_schema, tool.output_schema):
            parts = set(schema.get("$defs", {}))
            text = json.dumps(schema)
            assert all(f'"#/$defs/{name}"' in text for name in parts)
            assert text.count('"$ref"') == sum(text.count(f'"#/$defs/{name}"') for name in parts)


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("memory_select", {}, "query"),
        ("memory_select", {"query": "q"}, "memories"),
        ("memory_select", {"query": 5, "memories": []}, "query"),
        ("memory_select", {"query": "q", "memories": ["foo"]}, "memories[0]"),
        ("memory_select", {"query": "q", "memories": [{"id": "a", "text": "x", "importance": 3}]}, "importance"),
        ("memory_select", {"query": "q", "memories": [{"id": "a", "text": "x", "importance": None}]}, "importance"),
        ("memory_select", {"query": "q", "memories": [{"id": "a", "text": "x", "tags": 5}]}, "tags"),
        ("memory_select", {"query": "q", "memories": [], "max_results": 2.9}, "max_results"),
        ("memory_select", {"query": "q", "memories": [], "max_tokens": True}, "max_tokens"),
        ("memory_select", {"query": "q", "memories": [], "max_tokens": "12"}, "max_tokens"),
        ("memory_select", {"query": "q", "memories": [], "scope": ""}, "scope"),
        ("memory_select", {"query": "q", "memories": [], "budget": 9}, "budget"),
        ("rank_memories", {"memories": [{"content": "x"}]}, "timestamp"),
        ("rank_memories", {"memories": [{"content": "x", "timestamp": 1e300}]}, "timestamp"),
        ("rank_memories", {"memories": [], "recency_half_life_hours": 0}, "recency_half_life_hours"),
        ("rank_memories", {"memories": [], "scores": {"a": "0.5"}}, "scores"),
    ],
)
def test_bad_input_is_a_tool_error_that_names_the_field(tool: str, arguments: dict[str, Any], named: str) -> None:
    answer = inside(calling(tool, arguments))
    assert answer.is_error
    assert answer.structured_content is None
    assert named in answer.content[0].text


def test_an_unknown_tool_is_a_protocol_error() -> None:
    async def ask(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("forget", {})
        return caught.value.message

    assert inside(ask) == "there is no tool 'forget'; the tools are memory_select, rank_memories"


def test_more_memories_than_allowed_are_refused() -> None:
    answer = inside(calling("memory_select", {"query": "q", "memories": MEMORIES}), Limits(memories=2))
    assert answer.is_error
    assert "memories has 3 rows; at most 2" in answer.content[0].text


def test_no_text_that_leaves_holds_a_secret_and_no_query_is_echoed() -> None:
    memories = [{"id": "a", "text": f"the deploy token is {KEY}", "tags": [f"password={KEY}"]}]
    answer = inside(calling("memory_select", {"query": f"deploy token {KEY}", "memories": memories}))
    assert [kept["id"] for kept in answer.structured_content["selected"]] == ["a"]
    assert KEY not in answer.model_dump_json()
    ranked = inside(calling("rank_memories", {"memories": [{"content": {"api_key": KEY}, "timestamp": 0}]}))
    assert len(ranked.structured_content["selected"]) == 1
    assert KEY not in ranked.model_dump_json()
    for wrong in ({"id": "a", "text": "x", "created_at": KEY}, {"id": KEY, "text": 5}):
        refused = inside(calling("memory_select", {"query": "q", "memories": [wrong]}))
        assert refused.is_error
        assert KEY not in refused.model_dump_json()


# --- stdio by hand ---------------------------------------------------------------------------------------------------

HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def call_line(number: int, tool: str, arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def by_hand(lines: list[bytes], **env: str) -> tuple[dict[Any, Any], bytes]:
    """The replies by id, each of which has to be one line of JSON, and what stands on standard error."""
    hello = [json.dumps(HELLO).encode(), b'{"jsonrpc":"2.0","method":"notifications/initialized"}']
    wanted = {"hello"} | {json.loads(line)["id"] for line in lines if line.startswith(b'{"jsonrpc') and b'"id"' in line}
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | env
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join([*hello, *lines]) + b"\n")
        process.stdin.flush()
        replies = {}
        while set(replies) < wanted:
            line = process.stdout.readline()
            assert line.endswith(b"\n"), line
            reply = json.loads(line)
            replies[reply.get("id")] = reply
        rest, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert rest == b""
        return replies, errors
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_malformed_lines_do_not_end_the_server() -> None:
    long = b'{"jsonrpc":"2.0","padding":"' + b"x" * (9 * 1024 * 1024)
    malformed = [
        b"", b"garbage", b"\xff\xfe\x00", b"{", b"[]", b"[" * 100_000, b"5", b'{"id":1}', long,
        b"Content-Length: 2\r", b"\xef\xbb\xbf", b'{"method":"notifications/unheard_of","jsonrpc":"2.0"}',
    ]  # fmt: skip
    lines = [*malformed, b'{"jsonrpc":"2.0","id":0,"method":"ping"}', call_line(7, "memory_select", None)]
    replies, _ = by_hand(lines)
    assert replies[0]["result"] == {}
    assert replies[7]["result"]["isError"]
    assert "query is missing" in replies[7]["result"]["content"][0]["text"]


def test_numbers_that_json_does_not_have_are_refused() -> None:
    nan, infinity = float("nan"), float("inf")
    asked = [
        call_line(1, "memory_select", {"query": "q", "memories": [{"id": "a", "text": "q", "similarity": nan}]}),
        call_line(2, "rank_memories", {"memories": [{"content": "x", "timestamp": infinity}]}),
        call_line(3, "rank_memories", {"memories": [], "min_composite_score": -infinity}),
    ]
    replies, _ = by_hand(asked)
    for number in (1, 2, 3):
        reply = replies[number]
        assert "error" in reply or "NaN" in reply["result"]["content"][0]["text"], reply


@pytest.mark.parametrize("encoding", ["cp1252", "gbk", "ascii"])
def test_the_locale_has_no_say_and_half_a_surrogate_pair_is_replaced(encoding: str) -> None:
    memory = {"id": "a", "text": "bad \ud83d half \u00a0 \u4e2d\u6587 \\ud83d \U0001f600"}
    line = call_line(1, "memory_select", {"query": "bad half", "memories": [memory]})
    replies, errors = by_hand([line], PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    (kept,) = replies[1]["result"]["structuredContent"]["selected"]
    assert kept["text"] == "bad \ufffd half \u00a0 \u4e2d\u6587 \\ud83d \U0001f600"
    assert errors == b""


def test_no_log_holds_a_secret() -> None:
    broken = b'{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"token":"' + KEY.encode() + b'"}}'
    lines = [broken[2:], b'{"jsonrpc":"2.0","method":"x","params":["' + KEY.encode() + b'"]}']
    _, errors = by_hand([*lines, call_line(1, KEY, {"memories": KEY})])
    assert KEY.encode() not in errors


# --- streamable HTTP by hand -----------------------------------------------------------------------------------------


def test_beyond_loopback_a_token_is_asked_for() -> None:
    with pytest.raises(InputError, match="others can reach"):
        http_app(host="0.0.0.0")
    ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
    accept = "application/json, text/event-stream"
    with listening(http_app(host="0.0.0.0", token="correct-horse")) as port:
        assert post(port, "/mcp", ping, accept=accept)[0] == 401
        assert post(port, "/mcp", ping, accept=accept, authorization="Bearer wrong")[0] == 401
        status, reply = post(port, "/mcp", ping, accept=accept, authorization="Bearer correct-horse")
        assert (status, reply["id"], reply["result"]) == (200, 0, {})


def test_an_http_body_that_is_broken_or_too_large_is_refused_and_the_next_is_answered() -> None:
    accept = "application/json, text/event-stream"
    limits = Limits(body_bytes=2000)
    with listening(http_app(limits=limits), limits) as port:
        assert post(port, "/mcp", b"{", accept=accept)[0] == 400
        status, reply = post(port, "/mcp", b"x" * 5000, accept=accept)
        assert (status, reply["error"]["code"]) == (413, "too_large")
        assert post(port, "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "ping"}, accept=accept)[1]["result"] == {}


@pytest.mark.parametrize(("module", "missing", "extra"), [("mcp", "mcp", "mcp"), ("http", "uvicorn", "serve")])
def test_without_its_package_a_server_names_the_extra(module: str, missing: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import memsel.adapters.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'memsel[{extra}]'" in done.stderr.splitlines()[-1]


def test_the_command_starts_no_server_that_strangers_can_reach_without_a_token() -> None:
    env = {name: value for name, value in os.environ.items() if name != "MEMSEL_TOKEN"}
    done = subprocess.run(
        [*COMMAND, "--transport", "http", "--host", "0.0.0.0"], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 2
    assert "bearer token" in done.stderr
    assert len(done.stderr.splitlines()) == 1
