"""The HTTP server: what it answers, what it refuses, and that nothing a client does takes it away from the next one."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from listening import get, listening, post, raw, strict
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from memsel import InputError, MemoryEntry, MemorySelector, SelectionConfig, memory_select
from memsel.adapters import wire
from memsel.adapters.http import http_app, openapi
from memsel.adapters.serving import Limits, listener

NOW = "2026-01-15T12:00:00Z"
# Written in two halves, so that no scanner takes this file for a leak.
KEY = "sk-" + "abcdefghijklmnopqrstuvwx"
MEMORIES: list[dict[str, Any]] = [
    {"id": "db", "text": "The deploy database is PostgreSQL", "importance": 0.9, "created_at": "2026-01-14T12:00:00Z"},
    {"id": "tea", "text": "Prefers green tea"},
    {"id": "payroll-2026", "text": "deploy of the payroll", "scope": "hr"},
]
QUESTION = {"query": "deploy database", "memories": MEMORIES, "now": NOW}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening(http_app()) as taken:
        yield taken


def refusal(answer: tuple[int, Any]) -> tuple[int, str, str | None]:
    """Status, code and path of an error, which has to have the one shape."""
    status, body = answer
    assert status >= 400, answer
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message", "path"]
    assert body["error"]["message"]
    return status, body["error"]["code"], body["error"]["path"]


# --- answers ---------------------------------------------------------------------------------------------------------


def test_select_answers_what_the_library_answers(port: int) -> None:
    status, answer = post(port, "/v1/select", QUESTION)
    expected = memory_select("deploy database", MEMORIES, now=NOW)
    assert status == 200
    assert answer == {
        "selected": [kept._asdict() for kept in expected.selected],
        "dropped": [{"id": "tea", "reason": "low_relevance"}],
        "out_of_scope": 1,
        "total_tokens": expected.total_tokens,
    }
    assert [kept["id"] for kept in answer["selected"]] == ["db"]


def test_rank_answers_what_the_library_answers(port: int) -> None:
    now = 1_800_000_000.0
    memories = [{"id": f"m{i}", "content": f"text {i}", "timestamp": now - 7200 * i} for i in range(30)]
    scores = {f"m{i}": i / 30 for i in range(0, 30, 2)}
    status, answer = post(
        port, "/v1/rank", {"memories": memories, "scores": scores, "now": now, "top_k": 4, "overflow": "stop"}
    )
    entries = [MemoryEntry.from_dict({**memory, "metadata": {"id": memory["id"]}}) for memory in memories]
    expected = MemorySelector(SelectionConfig(top_k=4, overflow="stop")).select("", entries, scores, now=now)
    assert status == 200
    assert [(row["id"], row["score"], row["recency"]) for row in answer["selected"]] == [
        (kept.entry.id, kept.composite_score, kept.recency_score) for kept in expected
    ]
    assert [row["rank"] for row in answer["selected"]] == [1, 2, 3, 4]
    assert {row["reason"] for row in answer["dropped"]} == {"past_top_k"}
    assert len(answer["dropped"]) == 26


def test_a_score_beyond_all_numbers_is_null(port: int) -> None:
    question = {"memories": [{"id": "a", "content": "x", "timestamp": 0}], "now": 0, "scores": {"a": 1.7e308}}
    weights = {"relevance_weight": 2.0, "recency_weight": -1.5, "importance_weight": 0.5}
    status, answer = post(port, "/v1/rank", {**question, **weights})
    assert (status, answer["selected"][0]["score"], answer["selected"][0]["relevance"]) == (200, None, 1.7e308)


def test_half_a_surrogate_pair_comes_back_as_its_escape(port: int) -> None:
    body = b'{"query":"bad half","memories":[{"id":"a","text":"bad \\ud83d half"}]}'
    status, answer = post(port, "/v1/select", body)
    assert (status, answer["selected"][0]["text"]) == (200, "bad \ud83d half")


def test_unknown_members_of_a_memory_are_ignored_and_of_a_request_refused(port: int) -> None:
    odd = {**QUESTION, "memories": [{**MEMORIES[0], "colour": "red"}]}
    assert post(port, "/v1/select", odd)[0] == 200
    assert refusal(post(port, "/v1/select", {**QUESTION, "budget": 5})) == (400, "invalid_request", "$.budget")
    assert refusal(post(port, "/v1/select?max_tokens=5", QUESTION))[0] == 400


def test_null_stands_for_an_absent_member(port: int) -> None:
    nulls = dict.fromkeys(("max_results", "max_tokens", "min_relevance", "scope", "dedupe", "conflicts"))
    assert post(port, "/v1/select", {**QUESTION, **nulls}) == post(port, "/v1/select", QUESTION)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"query":"q","memories":["foo"]}', "$.memories[0]"),
        ('{"query":"q","memories":[{"id":"a","text":"x","importance":null}]}', "$.memories[0].importance"),
        ('{"query":"q","memories":[{"id":"a","text":"x"},{"id":"a: b","text":"x","tags":5}]}', "$.memories[1].tags"),
        ('{"query":"q","memories":[],"max_tokens":[1]}', "$.max_tokens"),
        ('{"query":"q","memories":[],"max_tokens":1e400}', "$"),
        ('{"query":"q","memories":[],"max_tokens":0}', "$.max_tokens"),
        ('{"query":"q","memories":[],"max_tokens":-1}', "$.max_tokens"),
        ('{"query":"q","memories":[],"max_tokens":2.9}', "$.max_tokens"),
        ('{"query":"q","memories":[],"max_tokens":true}', "$.max_tokens"),
        ('{"query":"q","memories":[],"max_tokens":"12"}', "$.max_tokens"),
        ('{"query":"q","memories":[],"max_tokens":' + "9" * 30 + "}", "$.max_tokens"),
        ('{"query":"q","memories":[],"max_tokens":' + "9" * 5000 + "}", "$"),
        ('{"query":"q","memories":[{"id":"a","text":"x","importance":NaN}]}', "$"),
        ('{"query":"q","memories":[{"id":"a","text":"x","similarity":-Infinity}]}', "$"),
        ('{"query":"q","memories":[],"min_relevance":1.5}', "$.min_relevance"),
        ('{"query":"q","memories":[],"now":"yesterday"}', "$.now"),
        ('{"query":"q","memories":[],"now":1e300}', "$.now"),
        ('{"query":"q","memories":[],"scope":""}', "$.scope"),
        ('{"query":"q","memories":[],"conflicts":[["a"]]}', "$.conflicts[0]"),
        ('{"query":"q"}', "$.memories"),
        ('{"memories":[]}', "$.query"),
        ("[]", "$"),
        ("", "$"),
        ("\ufeff{}", "$"),
        ("[" * 100_000, "$"),
        ('{"query":"q","memories":[{"id":"a","metadata":' + "[" * 100_000, "$"),
    ],
)
def test_a_wrong_request_is_a_400_that_says_where(port: int, body: str, path: str) -> None:
    status, _, where = refusal(post(port, "/v1/select", body.encode()))
    assert (status, where) == (400, path)
    assert post(port, "/v1/select", QUESTION)[0] == 200


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"memories": [{"content": "x"}]}, "$.memories[0].timestamp"),
        ({"memories": [{"content": "x", "timestamp": "1"}]}, "$.memories[0].timestamp"),
        ({"memories": [{"content": "x", "timestamp": 1e300}]}, "$"),
        ({"recency_half_life_hours": 0}, "$.recency_half_life_hours"),
        ({"relevance_weight": 5}, "$.relevance_weight"),
        ({"overflow": "spill"}, "$.overflow"),
        ({"top_k": -1}, "$.top_k"),
        ({"scores": {"a": True}}, "$.scores[...]"),
    ],
)
def test_a_wrong_ranking_is_a_400_that_says_where(port: int, changes: dict[str, Any], path: str) -> None:
    status, _, where = refusal(post(port, "/v1/rank", {"memories": [], **changes}))
    assert (status, where) == (400, path)


def test_a_budget_of_zero_is_no_default_of_the_ranking(port: int) -> None:
    question = {"memories": [{"content": "x", "timestamp": 0}]}
    for zero in ({"top_k": 0}, {"token_budget": 0}):
        status, answer = post(port, "/v1/rank", {**question, **zero})
        assert (status, answer["selected"]) == (200, [])


def test_every_other_error_has_the_same_shape(port: int) -> None:
    assert refusal(post(port, "/v2/select", {})) == (404, "not_found", None)
    assert refusal(post(port, "/v1/select/", {})) == (404, "not_found", None)
    assert refusal(post(port, "/healthz", {})) == (405, "method_not_allowed", None)
    status, body = get(port, "/v1/select")
    assert refusal((status, strict(body)))[0] == 405
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert refusal(post(port, "/v1/select", b"{}", content_type=kind))[:2] == (415, "unsupported_media_type")
    assert refusal(post(port, "/v1/select", b"{}", content_encoding="gzip"))[0] == 415


@pytest.mark.parametrize("length", ["abc", "-1", "-5", "12.5", "0x10", "1_0", "+2", "9" * 400])
def test_an_odd_content_length_is_a_400_at_once(port: int, length: str) -> None:
    head = f"POST /v1/select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}"
    answer = raw(port, head.encode() + b"\r\n\r\n{}", seconds=8)
    assert int(answer.split()[1]) == 400
    assert list(strict(answer.partition(b"\r\n\r\n")[2])["error"]) == ["code", "message", "path"]
    assert post(port, "/v1/select", QUESTION)[0] == 200


def test_a_thousand_malformed_bodies_lose_nothing(port: int) -> None:
    whole = json.dumps(QUESTION).encode()
    chance = random.Random(6)
    statuses = set()
    for _ in range(1000):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(body))
            what = chance.randrange(3)
            if what == 0:
                body[place] = chance.randrange(256)
            elif what == 1:
                del body[place : place + chance.randint(1, 40)]
            else:
                body[place:place] = chance.choice([b"NaN", b"{", b"]", b"1e999", b"\xff", b'"', b"\\ud800", b"null"])
            if not body:
                break
        status, answer = post(port, chance.choice(["/v1/select", "/v1/rank"]), bytes(body))
        statuses.add(status)
        assert status in (200, 400)
        assert status == 200 or answer["error"]["message"]
    assert 400 in statuses
    assert post(port, "/v1/select", QUESTION)[0] == 200


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_no_answer_holds_a_secret_or_the_query(port: int) -> None:
    memories = [{"id": "a", "text": f"the deploy key is {KEY}", "tags": [f"password={KEY}"], "metadata": {"k": KEY}}]
    status, answer = post(port, "/v1/select", {"query": f"deploy key {KEY} plutonium", "memories": memories})
    assert (status, [kept["id"] for kept in answer["selected"]]) == (200, ["a"])
    assert KEY not in json.dumps(answer)
    assert "plutonium" not in json.dumps(answer)
    ranked = {"memories": [{"content": {"api_key": KEY, "n": [1]}, "timestamp": 0}]}
    status, answer = post(port, "/v1/rank", ranked)
    assert (status, len(answer["selected"])) == (200, 1)
    assert KEY not in json.dumps(answer)
    for wrong in (
        {"query": "q", "memories": [{"id": "a", "text": "x", "created_at": KEY}]},
        {"query": "q", "memories": [{"id": KEY, "text": 5}]},
        {"query": "q", "memories": [], KEY: 1},
        {"query": "q", "memories": [], "now": KEY},
    ):
        status, answer = post(port, "/v1/select", wrong)
        assert status == 400
        assert KEY not in json.dumps(answer)


# --- who may ask -----------------------------------------------------------------------------------------------------


def test_beyond_loopback_there_is_no_server_without_a_token() -> None:
    for host in ("0.0.0.0", "192.168.1.5", "::", "memory.example.org"):
        with pytest.raises(InputError, match="others can reach"):
            http_app(host=host)
    for token in ("", "two words", "pässwort"):
        with pytest.raises(InputError, match="the token"):
            http_app(host="0.0.0.0", token=token)


def test_with_a_token_only_health_is_open() -> None:
    with listening(http_app(host="0.0.0.0", token="correct-horse")) as port:
        right = {"authorization": "Bearer correct-horse"}
        assert post(port, "/v1/select", QUESTION, **right)[0] == 200
        assert post(port, "/v1/select", QUESTION, authorization="bearer correct-horse", host="memory.example")[0] == 200
        for wrong in ("Bearer correct-hors", "Bearer correct-horse2", "Basic correct-horse", "Bearer", "Bearer \xe9"):
            assert refusal(post(port, "/v1/select", QUESTION, authorization=wrong))[:2] == (401, "unauthorized")
        assert refusal(post(port, "/v1/select", QUESTION))[0] == 401
        assert get(port, "/healthz")[0] == 200
        for path in ("/metrics", "/openapi.json", "/nowhere"):
            assert get(port, path)[0] == 401
        assert get(port, "/openapi.json", **right)[0] == 200


def test_a_foreign_host_name_is_refused_on_loopback(port: int) -> None:
    for name in ("evil.example", "127.0.0.1.evil.example:80", "[::2]:80", "localhost.evil"):
        assert refusal(post(port, "/v1/select", QUESTION, host=name))[:2] == (421, "wrong_host")
    for name in ("localhost", "localhost:8765", "127.0.0.1:1", "[::1]:8765"):
        assert post(port, "/v1/select", QUESTION, host=name)[0] == 200


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_a_413_however_it_is_sent() -> None:
    limits = Limits(body_bytes=1000)
    with listening(http_app(limits=limits), limits) as port:
        big = b'{"query":"' + b"x" * 300_000 + b'","memories":[]}'
        assert refusal(post(port, "/v1/select", big))[:2] == (413, "too_large")
        head = b"POST /v1/select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
        chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 2
        assert raw(port, chunked + b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
        assert post(port, "/v1/select", {"query": "q", "memories": []})[0] == 200


def test_more_memories_than_allowed_are_a_413() -> None:
    with listening(http_app(limits=Limits(memories=2))) as port:
        assert refusal(post(port, "/v1/select", QUESTION)) == (413, "too_many_memories", "$.memories")
        assert post(port, "/v1/select", {**QUESTION, "memories": MEMORIES[:2]})[0] == 200


HEAD = b"POST /v1/select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"


def test_slow_silent_and_half_open_clients_are_let_go() -> None:
    limits = Limits(read_seconds=0.4)
    with listening(http_app(limits=limits), limits) as port:
        started = time.monotonic()
        for silent in (b"", b"POST /v1/sel", HEAD):
            assert raw(port, silent) == b"", silent
        assert raw(port, HEAD + b'\r\n{"query"').startswith(b"HTTP/1.1 408 ")
        # A second request of the same connection gets no more time than the first.
        kept_alive = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea"
        assert raw(port, kept_alive).startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - started < 15
        raw(port, HEAD + b"\r\n{", end=True)
        assert post(port, "/v1/select", QUESTION)[0] == 200


def test_a_client_that_drips_bytes_gets_no_more_time_than_one_that_is_silent() -> None:
    limits = Limits(read_seconds=0.5)
    with listening(http_app(limits=limits), limits) as port:
        for head in (b"", HEAD + b"\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                started = time.monotonic()
                connection.sendall(head)
                try:
                    for _ in range(400):
                        connection.sendall(b"G")
                        time.sleep(0.05)
                except OSError:
                    pass
                assert time.monotonic() - started < 15
        assert post(port, "/v1/select", QUESTION)[0] == 200


def test_a_kill_in_mid_request_loses_nothing(port: int) -> None:
    whole = HEAD.replace(b"100", b"2000") + b"\r\n" + b" " * 2000
    for length in (1, 40, len(HEAD) + 1, len(whole) - 1, len(whole)):
        connection = socket.create_connection(("127.0.0.1", port))
        # Hang up with a reset, as the system does for a process that was killed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.sendall(whole[:length])
        connection.close()
        assert post(port, "/v1/select", QUESTION)[0] == 200


def test_large_questions_leave_the_loop_free_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()
    entered = threading.Semaphore(0)

    def slow(*args: Any, **settings: Any) -> Any:
        if len(args[1]) > 1:
            entered.release()
            assert going_on.wait(20)
        return memory_select(*args, **settings)

    monkeypatch.setattr(wire, "memory_select", slow)
    large = {"query": "q", "memories": [{"id": i, "text": "x" * 2000} for i in range(50)]}
    small = {"query": "q", "memories": []}
    answers: list[tuple[int, Any]] = []
    with listening(http_app(limits=Limits(threads=1, waiting=1))) as port:
        askers = [threading.Thread(target=lambda: answers.append(post(port, "/v1/select", large))) for _ in range(2)]
        for asker in askers:
            asker.start()
        assert entered.acquire(timeout=20)
        deadline = time.monotonic() + 20
        while get(port, "/metrics")[1].count(b"memsel_requests_in_flight 3\n") == 0:
            assert time.monotonic() < deadline
        assert post(port, "/v1/select", small)[0] == 200
        assert refusal(post(port, "/v1/select", large))[:2] == (503, "busy")
        going_on.set()
        for asker in askers:
            asker.join(20)
        assert [status for status, _ in answers] == [200, 200]
        assert post(port, "/v1/select", large)[0] == 200


def test_an_answer_that_takes_too_long_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()
    monkeypatch.setattr(wire, "memory_select", lambda *args, **settings: going_on.wait(20))
    large = {"query": "q", "memories": [{"id": i, "text": "x" * 2000} for i in range(50)]}
    with listening(http_app(limits=Limits(seconds=0.2))) as port:
        assert refusal(post(port, "/v1/select", large))[:2] == (503, "timeout")
        going_on.set()


def test_a_fault_of_the_servers_own_is_a_500_that_tells_nothing(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def broken(*args: Any, **settings: Any) -> None:
        raise KeyError("inner workings")

    monkeypatch.setattr(wire, "memory_select", broken)
    with listening(http_app()) as port:
        status, answer = post(port, "/v1/select", QUESTION)
        assert refusal((status, answer)) == (500, "internal", None)
        assert "inner" not in json.dumps(answer)
        monkeypatch.undo()
        assert post(port, "/v1/select", QUESTION)[0] == 200


# --- the rest --------------------------------------------------------------------------------------------------------


def test_metrics_count_answers_and_memories() -> None:
    with listening(http_app()) as port:
        for _ in range(3):
            post(port, "/v1/select", QUESTION)
        post(port, "/v1/select", b"{")
        post(port, f"/{KEY}", {})
        text = get(port, "/metrics")[1].decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['memsel_requests_total{path="/v1/select",status="200"}'] == "3"
    assert lines['memsel_requests_total{path="/v1/select",status="400"}'] == "1"
    assert lines['memsel_requests_total{path="other",status="404"}'] == "1"
    assert lines['memsel_memories_total{path="/v1/select",what="read"}'] == "9"
    assert lines['memsel_memories_total{path="/v1/select",what="kept"}'] == "3"
    assert lines['memsel_request_seconds_count{path="/v1/select"}'] == "4"
    assert lines['memsel_request_seconds_bucket{path="/v1/select",le="+Inf"}'] == "4"
    assert KEY not in text
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? [0-9.e+-]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in text.splitlines())


def test_the_document_describes_every_route_and_every_reference_leads_somewhere(port: int) -> None:
    document = strict(get(port, "/openapi.json")[1])
    assert document == openapi()
    assert sorted(document["paths"]) == [
        "/healthz",
        "/metrics",
        "/openapi.json",
        "/v1/pools/{name}",
        *(f"/v1/pools/{{name}}/{action}" for action in ("load", "remove", "save", "select", "upsert")),
        "/v1/rank",
        "/v1/select",
    ]
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(document)):
        assert reference.rpartition("/")[2] in document["components"]["schemas"]
    assert document["components"]["schemas"]["SelectRequest"]["additionalProperties"] is False
    assert openapi(token=True)["security"] == [{"bearer": []}]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
def test_whatever_fits_the_document_or_does_not_gets_an_answer_that_fits_it(port: int, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
    checks = [
        not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance
    ]  # fmt: skip
    asked = 0
    for found in document.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and operation.method == "get":
            continue

        @settings(max_examples=20, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            nonlocal asked
            case.validate_response(case.call(timeout=20), checks=checks)
            asked += 1

        ask()
    assert asked > 40
    assert post(port, "/v1/select", QUESTION)[0] == 200


def test_answers_are_not_held_back_for_more_of_them() -> None:
    with listener("127.0.0.1", 0) as taken, socket.create_connection(taken.getsockname()):
        accepted, _ = taken.accept()
        # What asyncio asks before it switches the delay off.
        assert accepted.proto == socket.IPPROTO_TCP
        accepted.close()


# --- the command -----------------------------------------------------------------------------------------------------


def serving(*options: str) -> tuple[subprocess.Popen[bytes], int]:
    env = {name: value for name, value in os.environ.items() if name != "MEMSEL_TOKEN"}
    process = subprocess.Popen(
        [sys.executable, "-m", "memsel", "serve", "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
    )  # fmt: skip
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    found = re.match(r"memsel serve listens on http://127\.0\.0\.1:(\d+) ", line)
    assert found, line
    return process, int(found[1])


def test_the_command_ends_gracefully_and_logs_no_secret(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{KEY}\n")
    process, port = serving("--token-file", str(token))
    try:
        right = {"authorization": f"Bearer {KEY}"}
        assert post(port, "/v1/select", QUESTION, **right)[0] == 200
        secret_head = f"Authorization: Bearer {KEY}\r\n\r\n"
        raw(port, f"GET /{KEY} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{secret_head}".encode())
        raw(port, f"GET {KEY} \x01 {KEY}\r\n{secret_head}".encode())
        post(port, f"/v1/select?token={KEY}", {"query": KEY}, authorization=f"Bearer {KEY}x")
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            body = json.dumps(QUESTION).encode()
            head = HEAD.replace(b"100", str(len(body)).encode()) + f"Authorization: Bearer {KEY}\r\n\r\n".encode()
            connection.sendall(head + body[:50])
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            connection.sendall(body[50:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        output, errors = process.communicate(timeout=20)
        assert process.returncode in (0, -signal.SIGTERM)
        assert output == b""
        assert KEY.encode() not in errors
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    "options",
    [["--host", "0.0.0.0"], ["--token-file", "/nowhere/at/all"], ["--host", "300.1.1.1", "--token-file", __file__]],
)
def test_the_command_says_in_one_line_why_it_does_not_start(options: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "MEMSEL_TOKEN"}
    done = subprocess.run(
        [sys.executable, "-m", "memsel", "serve", "--port", "0", *options],
        capture_output=True, text=True, env=env, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("Error: ")
