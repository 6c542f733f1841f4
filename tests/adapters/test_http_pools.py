"""Pools over HTTP: named, changed, selected from, saved and loaded; and what a name or a file may not do."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from listening import get, listening, post, strict

from memsel import InputError, MemoryPool, SelectionConfig
from memsel.adapters.http import http_app
from memsel.adapters.serving import Limits
from memsel.files import entry_from

NOW = 1_800_000_000.0
# Put together here, so that no scanner takes this file for a leak.
SECRET = "password=" + "hunter2hunter2"
MEMORIES: list[dict[str, Any]] = [
    {"id": "a", "content": "first", "timestamp": NOW - 3600, "importance": 0.2},
    {"id": 7, "content": {"note": SECRET}, "timestamp": NOW - 7200, "importance": 0.9, "decay_factor": 0.5},
    {"id": "c", "content": "third", "timestamp": NOW, "importance": 0.1},
]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with listening(http_app(data_folder=tmp_path, limits=Limits(pools=3, rows=50))) as taken:
        yield taken


def send(port: int, method: str, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    result = answer.status, strict(answer.read())
    connection.close()
    return result


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    status, body = answer
    return status, body["error"]["code"]


def filled(port: int, name: str = "work") -> str:
    assert send(port, "PUT", f"/v1/pools/{name}")[0] == 201
    assert post(port, f"/v1/pools/{name}/upsert", {"memories": MEMORIES}) == (200, {"name": name, "rows": 3})
    return f"/v1/pools/{name}"


def test_a_selection_is_that_of_the_library(port: int) -> None:
    pool = filled(port)
    scores = {"a": 0.9, "7": 0.1, "nobody": 1.0}
    status, answer = post(port, f"{pool}/select", {"scores": scores, "now": NOW, "top_k": 2})
    own = MemoryPool()
    for memory in MEMORIES:
        own.upsert(entry_from(dict(memory), "m", NOW))
    expected = own.select({"a": 0.9, 7: 0.1}, config=SelectionConfig(top_k=2), now=NOW)
    assert status == 200
    assert [(row["id"], row["score"]) for row in answer["selected"]] == list(
        zip(expected.ids, expected.scores.tolist(), strict=True)
    )
    assert [row["rank"] for row in answer["selected"]] == [1, 2]
    assert answer["total_tokens"] == expected.tokens_used


def test_content_comes_back_without_secrets(port: int) -> None:
    status, answer = post(port, f"{filled(port)}/select", {"now": NOW, "min_composite_score": 0})
    contents = {row["id"]: row["content"] for row in answer["selected"]}
    assert status == 200
    assert (contents["a"], contents["c"]) == ("first", "third")
    assert SECRET not in json.dumps(answer)


def test_upserting_replaces_and_removing_removes(port: int) -> None:
    pool = filled(port)
    changed = {**MEMORIES[0], "content": "changed", "importance": 1.0}
    assert post(port, f"{pool}/upsert", {"memories": [changed]}) == (200, {"name": "work", "rows": 3})
    assert post(port, f"{pool}/remove", {"ids": [7, "7", "nobody"]}) == (200, {"removed": 1})
    _, answer = post(port, f"{pool}/select", {"now": NOW})
    assert {row["id"]: row["content"] for row in answer["selected"]} == {"a": "changed", "c": "third"}
    assert send(port, "GET", pool) == (200, {"name": "work", "rows": 2})


def test_of_a_batch_with_a_wrong_memory_none_is_kept(port: int) -> None:
    pool = filled(port)
    new = [{**MEMORIES[0], "id": "new"}, {"id": "broken", "content": "x", "timestamp": "today"}]
    status, answer = post(port, f"{pool}/upsert", {"memories": new})
    assert (status, answer["error"]["path"]) == (400, "$.memories[1].timestamp")
    assert send(port, "GET", pool)[1]["rows"] == 3


def test_making_a_pool_again_keeps_it_and_dropping_it_ends_it(port: int) -> None:
    pool = filled(port)
    assert send(port, "PUT", pool) == (200, {"name": "work", "rows": 3})
    assert send(port, "DELETE", pool)[0] == 200
    for action, body in (("select", {}), ("upsert", {"memories": []}), ("remove", {"ids": []}), ("save", {})):
        assert code(post(port, f"{pool}/{action}", body)) == (404, "no_such_pool")
    assert code(send(port, "DELETE", pool)) == (404, "no_such_pool")


def test_a_saved_pool_comes_back_in_another_server(port: int, tmp_path: Path) -> None:
    pool = filled(port)
    question = {"now": NOW, "scores": {"7": 0.75}}
    before = post(port, f"{pool}/select", question)
    assert post(port, f"{pool}/save", b"") == (200, {"name": "work", "rows": 3})
    assert [file.name for file in tmp_path.iterdir()] == ["work.npz"]
    with listening(http_app(data_folder=tmp_path)) as other:
        assert code(post(other, f"{pool}/select", question)) == (404, "no_such_pool")
        assert post(other, f"{pool}/load", b"") == (200, {"name": "work", "rows": 3})
        assert post(other, f"{pool}/select", question) == before
        assert code(post(other, "/v1/pools/never/load", b"")) == (404, "not_saved")


def test_a_damaged_file_is_named_without_its_folder_and_leaves_the_pool_alone(port: int, tmp_path: Path) -> None:
    pool = filled(port)
    post(port, f"{pool}/save", b"")
    data = (tmp_path / "work.npz").read_bytes()
    for broken in (b"", data[:-30], data[:200] + b"\0" + data[201:]):
        (tmp_path / "work.npz").write_bytes(broken)
        status, answer = post(port, f"{pool}/load", b"")
        assert (status, answer["error"]["code"]) == (409, "damaged")
        assert str(tmp_path) not in json.dumps(answer)
    assert send(port, "GET", pool)[1]["rows"] == 3


def test_without_a_folder_nothing_is_saved_or_loaded(tmp_path: Path) -> None:
    with listening(http_app()) as port:
        pool = filled(port)
        for action in ("save", "load"):
            assert code(post(port, f"{pool}/{action}", b"")) == (409, "no_folder")
    with pytest.raises(InputError, match="is no folder"):
        http_app(data_folder=tmp_path / "absent")


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fwork", "a.b", "A", "-a", "a" * 65, "%00", "caf%C3%A9", "a%0A"])
def test_a_name_that_could_be_more_than_a_name_is_refused(port: int, tmp_path: Path, name: str) -> None:
    assert send(port, "PUT", f"/v1/pools/{name}")[0] in (400, 404)
    assert post(port, f"/v1/pools/{name}/save", b"")[0] == 404
    assert post(port, f"/v1/pools/{name}/load", b"")[0] == 404
    assert list(tmp_path.iterdir()) == []


def test_pools_and_their_memories_are_bounded(port: int) -> None:
    for name in ("one", "two", "three"):
        assert send(port, "PUT", f"/v1/pools/{name}")[0] == 201
    assert code(send(port, "PUT", "/v1/pools/four")) == (409, "too_many_pools")
    many = [{"id": f"m{i}", "content": "x", "timestamp": NOW} for i in range(51)]
    assert code(post(port, "/v1/pools/one/upsert", {"memories": many})) == (413, "pool_full")
    assert post(port, "/v1/pools/one/upsert", {"memories": many[:50]})[0] == 200
    # What is there already takes no more room.
    assert post(port, "/v1/pools/one/upsert", {"memories": many[:50]})[0] == 200


@pytest.mark.parametrize(
    ("action", "body", "path"),
    [
        ("select", {"scores": {"a": "1"}}, "$.scores[...]"),
        ("select", {"top_k": -1}, "$.top_k"),
        ("select", {"recency_half_life_hours": 0}, "$.recency_half_life_hours"),
        ("select", {"colour": 1}, "$.colour"),
        ("select", {"now": -1e300}, "$"),
        ("remove", {"ids": [True]}, "$.ids[0]"),
        ("remove", {"ids": [1.5]}, "$.ids[0]"),
        ("remove", {}, "$.ids"),
        ("upsert", {"memories": [{"content": "x", "timestamp": 0, "importance": 2}]}, "$.memories[0].importance"),
    ],
)
def test_a_wrong_request_is_a_400_that_says_where(port: int, action: str, body: Any, path: str) -> None:
    status, answer = post(port, f"{filled(port)}/{action}", body)
    assert (status, answer["error"]["path"]) == (400, path)


def test_many_clients_change_and_select_at_once(port: int) -> None:
    pool = filled(port)
    statuses: list[int] = []

    def client(number: int) -> None:
        for turn in range(15):
            memory = {"id": f"c{number}", "content": "x", "timestamp": NOW - turn}
            statuses.append(post(port, f"{pool}/upsert", {"memories": [memory]})[0])
            statuses.append(post(port, f"{pool}/select", {"now": NOW})[0])
            statuses.append(post(port, f"{pool}/remove", {"ids": [f"c{number}"]})[0])

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert statuses == [200] * 180
    assert send(port, "GET", pool)[1]["rows"] == 3


def test_metrics_do_not_name_pools(port: int) -> None:
    filled(port, "private-name")
    text = get(port, "/metrics")[1].decode()
    assert "private-name" not in text
    assert 'memsel_requests_total{path="/v1/pools/{name}/upsert",status="200"} 1' in text
