"""Rankings over Arrow streams: the answers of select_batch, and nothing that a small body could make large."""

from __future__ import annotations

import http.client
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from listening import listening, strict

from memsel import SelectionConfig, select_batch
from memsel.adapters.http import http_app
from memsel.adapters.serving import Limits

pa = pytest.importorskip("pyarrow")
STREAM = "application/vnd.apache.arrow.stream"
NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening(http_app(limits=Limits(rows=5000))) as taken:
        yield taken


def ask(port: int, body: bytes, query: str = "") -> tuple[int, Any]:
    """Status and answer: a table, or the error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/v1/rank" + query, body, {"content-type": STREAM})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    if answer.status == 200:
        assert answer.getheader("content-type") == STREAM
        return 200, pa.ipc.open_stream(data).read_all()
    error = strict(data)["error"]
    return answer.status, (error["code"], error["path"])


def stream(columns: dict[str, Any], *, batches: int = 1, options: Any = None) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=max(1, -(-table.num_rows // batches)))
    return sink.getvalue().to_pybytes()


def columns(sizes: list[int], seed: int = 0) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    rows = sum(sizes)
    return {
        "query": np.repeat(np.arange(len(sizes)) * 3 + 7, sizes),
        "relevance": chance.random(rows),
        "timestamp": NOW - chance.random(rows) * 1e6,
        "importance": chance.random(rows),
        "tokens": chance.integers(0, 400, rows),
    }


@pytest.mark.parametrize("sizes", [[], [1], [40, 1, 300, 7], [1] * 60])
@pytest.mark.parametrize("batches", [1, 5])
def test_a_stream_is_answered_as_select_batch_answers(port: int, sizes: list[int], batches: int) -> None:
    given = columns(sizes)
    status, table = ask(port, stream(given, batches=batches), f"?top_k=4&token_budget=700&now={NOW}")
    query = given.pop("query")
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    config = SelectionConfig(top_k=4, token_budget=700)
    expected = select_batch(**given, offsets=offsets, config=config, now=NOW)
    assert status == 200
    rows = np.concatenate([np.empty(0, np.int64), *(e.indices + o for e, o in zip(expected, offsets, strict=False))])
    assert table["row"].to_pylist() == rows.tolist()
    assert table["query"].to_pylist() == query[rows].tolist()
    assert table["rank"].to_pylist() == [rank for e in expected for rank in range(1, len(e.indices) + 1)]
    for name, part in (("score", "scores"), ("relevance", "relevance"), ("recency", "recency")):
        assert table[name].to_pylist() == [value for e in expected for value in getattr(e, part).tolist()]


def test_tokens_may_be_absent_and_columns_of_any_width(port: int) -> None:
    given = columns([5, 5])
    del given["tokens"]
    given["relevance"] = given["relevance"].astype(np.float32)
    given["query"] = given["query"].astype(np.uint16)
    status, table = ask(port, stream(given), f"?now={NOW}&top_k=2")
    assert (status, table.num_rows) == (200, 4)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in columns([3]).items() if key != name}


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        (without("query"), "$.query"),
        (without("importance"), "$.importance"),
        ({**columns([3]), "colour": [1, 2, 3]}, "$.colour"),
        ({**columns([3]), "relevance": ["a", "b", "c"]}, "$.relevance"),
        ({**columns([3]), "relevance": pa.nulls(3)}, "$.relevance"),
        ({**columns([3]), "query": [1.0, 2.0, 3.0]}, "$.query"),
        ({**columns([3]), "query": [1, None, 3]}, "$.query"),
        ({**columns([3]), "query": [1, 3, 2]}, "$.query"),
        ({**columns([3]), "relevance": pa.array(["a", "b", "a"]).dictionary_encode()}, None),
        ({**columns([3]), "tokens": [1, -1, 1]}, "$.tokens[1]"),
    ],
)
def test_a_wrong_column_is_a_400_that_names_it(port: int, changed: dict[str, Any], where: str | None) -> None:
    status, (_, path) = ask(port, stream(changed))
    assert (status, path) == (400, where)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_stream_is_refused_unread(port: int, codec: str) -> None:
    body = stream({name: values * 0 for name, values in columns([4000]).items()},
                  options=pa.ipc.IpcWriteOptions(compression=codec))  # fmt: skip
    assert ask(port, body) == (400, ("invalid_arrow", None))


def test_more_rows_than_allowed_are_a_413(port: int) -> None:
    assert ask(port, stream(columns([2501, 2500]), batches=3)) == (413, ("too_many_memories", "$"))


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("?budget=1", "$.budget"),
        ("?top_k=x", "$.top_k"),
        ("?top_k=1&top_k=2", None),
        ("?min_composite_score=nan", "$.min_composite_score"),
        ("?now=inf", "$.now"),
        ("?now=yesterday", "$.now"),
        ("?recency_half_life_hours=0", "$.recency_half_life_hours"),
        ("?recency_from=accessed", "$.recency_from"),
        ("?top_k", None),
    ],
)
def test_a_wrong_setting_in_the_url_is_a_400(port: int, query: str, path: str | None) -> None:
    status, (_, where) = ask(port, stream(columns([3])), query)
    assert (status, where) == (400, path)


def test_broken_streams_are_400s_and_the_next_one_is_answered(port: int) -> None:
    whole = stream(columns([20, 20]), batches=3)
    chance = random.Random(4)
    for _ in range(200):
        body = bytearray(whole)
        if chance.random() < 0.5:
            del body[chance.randrange(len(body)) :]
        for _ in range(chance.randint(0, 6)):
            if body:
                body[chance.randrange(len(body))] = chance.randrange(256)
        assert ask(port, bytes(body))[0] in (200, 400, 413)
    assert ask(port, whole)[0] == 200


def test_without_pyarrow_a_stream_is_a_415_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with listening(http_app()) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", "/v1/rank", b"", {"content-type": STREAM})
        answer = connection.getresponse()
        assert answer.status == 415
        assert "memsel[arrow]" in strict(answer.read())["error"]["message"]
        connection.close()
