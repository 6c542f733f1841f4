"""Where memsel departs from zerda 0.1.0 on purpose: one test a row of the README's table, with zerda's answer beside.

Whatever is not here is the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from typing import Any

import numpy as np
import pytest
import zerda.memory
from makers import entries, entry, ids, only_relevance, select
from worlds import NOW

from memsel import MemoryEntry, MemorySelector, MemoryType

pytestmark = pytest.mark.usefixtures("clock")


def zerda_entry(entry_id: str = "a", content: Any = "x" * 40, timestamp: Any = NOW) -> Any:
    return zerda.memory.MemoryEntry(
        content, timestamp, zerda.memory.MemoryType.SHORT_TERM, metadata={"id": entry_id}
    )


def test_a_score_is_read_as_its_float64_value() -> None:
    """zerda computes with float32 where it is given float32, so it ties and keeps what float64 tells apart."""
    seven_tenths = np.float32(0.7)
    assert select([entry()], {"a": seven_tenths}, **only_relevance(min_composite_score=0.7)) == []
    theirs = zerda.memory.MemorySelector(zerda.memory.SelectionConfig(1, 0, 0, min_composite_score=0.7))
    assert len(theirs.select("q", [zerda_entry()], {"a": seven_tenths})) == 1

    low = np.float32(0.3)
    scores = {"low": low, "high": np.nextafter(low, np.float32(1))}
    assert ids(select(entries(["low", "high"]), scores)) == ["high", "low"]
    tied = zerda.memory.MemorySelector().select("q", [zerda_entry("low"), zerda_entry("high")], scores)
    assert [row.entry.id for row in tied] == ["low", "high"]


def test_a_score_is_reported_as_a_python_float() -> None:
    scores = {"a": np.float32(0.25)}
    (row,) = select([entry()], scores)
    assert type(row.relevance_score) is type(row.composite_score) is float
    assert json.loads(json.dumps(MemorySelector().explain("q", [entry()], scores)))[0]["relevance"] == 0.25
    with pytest.raises(TypeError, match="JSON"):
        json.dumps(zerda.memory.MemorySelector().explain("q", [zerda_entry()], scores))


@pytest.mark.parametrize("shape", [(1,), (2,), (0,), (1, 1)])
def test_a_score_that_is_an_array_with_dimensions_is_a_type_error_that_names_the_id(shape: tuple[int, ...]) -> None:
    for call in (MemorySelector().select, MemorySelector().audit):
        with pytest.raises(TypeError, match="'a'"):
            call("q", [entry()], {"a": np.full(shape, 0.9)})
    assert select([entry()], {"a": np.array(0.9)})[0].composite_score == 0.8
    (theirs,) = zerda.memory.MemorySelector().select("q", [zerda_entry()], {"a": np.array([0.9])})
    assert type(theirs.composite_score) is np.ndarray


def test_an_id_is_made_where_md5_is_forbidden_for_security(monkeypatch: pytest.MonkeyPatch) -> None:
    real = hashlib.md5

    def forbidden(data: bytes = b"", *, usedforsecurity: bool = True) -> Any:
        if usedforsecurity:
            raise ValueError("disabled")
        return real(data, usedforsecurity=False)

    monkeypatch.setattr(hashlib, "md5", forbidden)
    assert MemoryEntry("hello", 1.5, MemoryType.SHORT_TERM).id == "5abdfddbb2d485d9"
    with pytest.raises(ValueError, match="disabled"):
        zerda.memory.MemoryEntry("hello", 1.5, zerda.memory.MemoryType.SHORT_TERM)


def test_an_id_is_made_of_content_with_a_lone_surrogate() -> None:
    half = "half \ud83d emoji"
    expected = hashlib.md5(f"{half}_1.0_short_term".encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    assert MemoryEntry(half, 1.0, MemoryType.SHORT_TERM).id == expected[:16]
    with pytest.raises(UnicodeEncodeError):
        zerda.memory.MemoryEntry(half, 1.0, zerda.memory.MemoryType.SHORT_TERM)
    assert ids(select([entry("x", content=half)])) == ["x"]


def test_from_dict_copies_tags_and_metadata() -> None:
    def run(cls: Any) -> tuple[list[str], list[str], Any]:
        data = {"content": "c", "timestamp": NOW, "tags": ["x"], "metadata": {"k": [1]}}
        one = cls.from_dict(data)
        one.add_tag("Y")
        return data["tags"], list(data["metadata"]), one.metadata["k"] is data["metadata"]["k"]  # type: ignore[index]

    assert run(MemoryEntry) == (["x"], ["k"], True)
    assert run(zerda.memory.MemoryEntry) == (["x", "y"], ["k", "id"], True)


def test_to_dict_copies_tags_and_metadata() -> None:
    def run(one: Any) -> tuple[str, list[str]]:
        as_dict = one.to_dict()
        as_dict["metadata"]["id"] = "hijacked"
        as_dict["tags"].append("more")
        return one.id, one.tags

    assert run(entry()) == ("a", [])
    assert run(zerda_entry()) == ("hijacked", ["more"])


def test_from_dict_and_to_dict_leave_other_containers_as_they_are() -> None:
    class Tags(list):  # type: ignore[type-arg]
        pass

    tags = Tags(["x"])
    one = MemoryEntry.from_dict({"content": "c", "timestamp": 1.0, "tags": tags})
    assert one.tags is tags
    assert one.to_dict()["tags"] is tags


def test_the_constructor_keeps_the_objects_it_is_given() -> None:
    tags, metadata = ["x"], {"id": "a"}
    one = MemoryEntry("c", 1.0, MemoryType.SHORT_TERM, tags=tags, metadata=metadata)
    assert one.tags is tags
    assert one.metadata is metadata


def test_last_access_defaults_through_the_clock_in_force() -> None:
    assert entry().last_access == NOW
    assert zerda_entry().last_access > NOW
    assert MemoryEntry.__dataclass_fields__["last_access"].default_factory is not time.time


def test_any_iterable_of_candidates_is_taken() -> None:
    array = np.array([entry("a"), entry("b")], dtype=object)
    assert ids(select(array)) == ["a", "b"]
    with pytest.raises(ValueError, match="truth value"):
        zerda.memory.MemorySelector().select("q", array)


def test_an_overflow_error_names_the_entry() -> None:
    with pytest.raises(OverflowError, match=r"entry 'bad' has timestamp 1700000000000\.0.*milliseconds"):
        select([entry("good"), entry("bad", timestamp=NOW * 1000)])
    with pytest.raises(OverflowError, match="math range error"):
        zerda.memory.MemorySelector().select("q", [zerda_entry("bad", timestamp=NOW * 1000)])


def test_the_added_config_fields_are_keyword_only_and_quiet() -> None:
    added = [one.name for one in dataclasses.fields(type(MemorySelector().config))][7:]
    assert added == ["overflow", "clamp_future", "recency_from", "token_counter"]
    assert not any(name in repr(MemorySelector().config) for name in added)


# --- what the extension type under the entry changes -----------------------------------------------------------------


def test_vars_of_an_entry_holds_only_what_was_added() -> None:
    one = entry()
    assert vars(one) == {}
    one.extra = 5  # type: ignore[attr-defined]
    assert vars(one) == {"extra": 5}
    assert set(vars(zerda_entry())) == {field.name for field in dataclasses.fields(MemoryEntry)}


def test_the_class_shows_its_attributes_and_not_its_defaults() -> None:
    assert zerda.memory.MemoryEntry.importance == 0.5
    assert MemoryEntry.importance != 0.5
    assert not hasattr(zerda.memory.MemoryEntry, "content")
    assert hasattr(MemoryEntry, "content")
    assert MemoryEntry.__dataclass_fields__["importance"].default == 0.5


def test_a_field_cannot_be_deleted() -> None:
    one = entry()
    with pytest.raises(NotImplementedError):
        del one.content
    assert one.content == "x" * 40
    theirs = zerda_entry()
    del theirs.content
    assert not hasattr(theirs, "content")


def test_a_field_that_was_never_set_is_none() -> None:
    assert MemoryEntry.__new__(MemoryEntry).content is None
    assert not hasattr(zerda.memory.MemoryEntry.__new__(zerda.memory.MemoryEntry), "content")
