"""MemoryEntry, MemoryType and MemoryPriority: everything that the documentation of zerda's promises."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import zerda.memory
from makers import DAY, entry, ids, select, shown
from worlds import NOW

from memsel import MemoryEntry, MemoryPriority, MemoryType

pytestmark = pytest.mark.usefixtures("clock")

SHORT = MemoryType.SHORT_TERM


# --- ids -------------------------------------------------------------------------------------------------------------


def test_a_missing_id_is_made_of_content_timestamp_and_type() -> None:
    assert MemoryEntry("hello", 1.5, SHORT).id == "5abdfddbb2d485d9"
    assert MemoryEntry("h", 1, SHORT).id == "649fce153c04cb74"
    assert MemoryEntry("h", 1.0, SHORT).id == "79e703b76775e87d"


@pytest.mark.parametrize(
    ("content", "timestamp"),
    [("h", 1), ("h", 1.0), (b"h", 1), ({"a": 1, "b": 2}, 1.0), ({"b": 2, "a": 1}, 1.0), (None, math.nan), ("é", -0.0),
     ("h", np.float64(1.5)), ("", True), (["x"], 1e300), ("\U0001f389", 10**30)],
)  # fmt: skip
@pytest.mark.parametrize("kind", list(MemoryType))
def test_an_id_is_the_one_that_zerda_makes(content: Any, timestamp: Any, kind: MemoryType) -> None:
    theirs = zerda.memory.MemoryEntry(content, timestamp, zerda.memory.MemoryType[kind.name])
    assert MemoryEntry(content, timestamp, kind).id == theirs.id


def test_ids_follow_the_text_of_the_content() -> None:
    assert MemoryEntry(b"h", 1, SHORT).id == MemoryEntry("b'h'", 1, SHORT).id
    assert MemoryEntry({"a": 1, "b": 2}, 1.0, SHORT).id != MemoryEntry({"b": 2, "a": 1}, 1.0, SHORT).id
    assert MemoryEntry("h", np.float64(1.5), SHORT).id == MemoryEntry("h", 1.5, SHORT).id


def test_a_type_given_as_text_matters_only_where_an_id_is_made() -> None:
    with pytest.raises(AttributeError):
        MemoryEntry("c", 1.0, "short_term")  # type: ignore[arg-type]
    assert MemoryEntry("c", 1.0, "short_term", metadata={"id": "x"}).id == "x"  # type: ignore[arg-type]


def test_an_id_that_was_made_stands_in_the_metadata_that_was_given() -> None:
    metadata: dict[str, Any] = {"k": 1}
    one = MemoryEntry("c", 1.0, SHORT, metadata=metadata)
    assert one.metadata is metadata
    assert metadata["id"] == one.id
    assert MemoryEntry("c", 1.0, SHORT).metadata is not MemoryEntry("c", 1.0, SHORT).metadata


def test_an_id_of_none_is_an_id() -> None:
    assert MemoryEntry("c", 1.0, SHORT, metadata={"id": None}).id is None


# --- construction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("importance", [0, 1, True, -0.0, np.float32(1), 0.5])
def test_an_importance_from_0_to_1_is_kept_as_the_object_given(importance: Any) -> None:
    assert entry(importance=importance).importance is importance
    assert entry(importance=importance).original_importance is importance


@pytest.mark.parametrize("importance", [1.0000001, -1e-9, math.nan, math.inf, -math.inf, 8, -1])
def test_an_importance_outside_is_refused_in_zerdas_words(importance: float) -> None:
    with pytest.raises(ValueError) as raised:
        entry(importance=importance)
    assert str(raised.value) == f"importance must be between 0 and 1, got {importance}"


@pytest.mark.parametrize("importance", [None, "0.5", 1j, []])
def test_an_importance_that_does_not_compare_is_a_type_error(importance: Any) -> None:
    with pytest.raises(TypeError):
        entry(importance=importance)


def test_importance_is_not_checked_at_later_assignments() -> None:
    one = entry()
    one.importance = 7
    assert shown(select([one])) == [("a", 0.5, 1.0, 7.0, 2.5500000000000003)]


def test_a_refused_entry_leaves_the_metadata_as_it_was() -> None:
    metadata: dict[str, Any] = {"k": 1}
    with pytest.raises(ValueError, match="importance"):
        MemoryEntry("c", 1.0, SHORT, importance=2.0, metadata=metadata)
    assert metadata == {"k": 1}


def test_an_original_importance_that_is_given_stays() -> None:
    assert entry(importance=0.25, original_importance=0.75).original_importance == 0.75
    assert entry(importance=0.25, original_importance=0).original_importance == 0


# --- time and importance ---------------------------------------------------------------------------------------------


def test_ages_are_read_off_the_clock(clock: Any) -> None:
    one = entry(timestamp=NOW - DAY, last_access=NOW - 60.0)
    assert (one.age_seconds, one.age_days, one.time_since_access_seconds) == (DAY, 1.0, 60.0)
    clock.now = NOW + DAY
    assert (one.age_seconds, one.age_days, one.time_since_access_seconds) == (2 * DAY, 2.0, DAY + 60.0)


@pytest.mark.parametrize(
    ("importance", "after"), [(0, 0.05), (0.5, 0.525), (1.0, 1.0), (1.5, 1.0), (2.0, 1.0), (21.0, 1.0), (-1.0, -0.9)]
)
def test_an_access_is_counted_dated_and_raises_importance(importance: float, after: float) -> None:
    one = entry(last_access=5.0)
    one.importance = importance
    one.access()
    assert (one.importance, one.access_count, one.last_access) == (after, 1, NOW)
    one.access()
    assert one.access_count == 2


def decayed(importance: float, days: float, rate: float = 0.1, times: int = 1) -> tuple[Any, ...]:
    one = entry(importance=importance, last_access=NOW - days * DAY)
    for _ in range(times):
        one.apply_decay(rate)
    return one.importance, one.decay_factor, one.effective_importance, one.original_importance


def test_decay_is_linear_in_days_and_compounds() -> None:
    assert decayed(0.8, 2) == (0.6400000000000001, 0.8, 0.5120000000000001, 0.8)
    assert decayed(0.8, 2, times=2) == (0.5120000000000001, 0.8, 0.40960000000000013, 0.8)
    assert decayed(0.8, 2, times=5) == (0.2621440000000001, 0.8, 0.2097152000000001, 0.8)


def test_decay_raises_what_lies_below_its_floor() -> None:
    assert decayed(0.05, 0) == (0.1, 1.0, 0.1, 0.05)
    assert decayed(0.0, 0) == (0.1, 1.0, 0.1, 0.0)
    assert decayed(0.05, 100) == (0.1, 0.1, 0.010000000000000002, 0.05)


def test_decay_from_a_future_access_goes_beyond_1_and_cannot_be_loaded() -> None:
    one = entry(importance=0.8, last_access=NOW + 5 * DAY)
    one.apply_decay()
    assert (one.importance, one.decay_factor, one.effective_importance) == (
        1.2000000000000002,
        1.5,
        1.8000000000000003,
    )
    with pytest.raises(ValueError, match=r"importance must be between 0 and 1, got 1\.2000000000000002"):
        MemoryEntry.from_dict(one.to_dict())
    assert select([one])[0].importance_score == 1.8000000000000003
    in_milliseconds = entry(last_access=NOW * 1000)
    in_milliseconds.apply_decay()
    assert (in_milliseconds.importance, in_milliseconds.decay_factor) == (982813.0, 1965626.0)


def test_odd_decay_rates_are_what_their_arithmetic_gives() -> None:
    assert decayed(0.8, 5, rate=-0.1) == (1.2000000000000002, 1.5, 1.8000000000000003, 0.8)
    assert decayed(0.8, 5, rate=math.nan) == (0.1, 0.1, 0.010000000000000002, 0.8)


def test_a_decayed_or_accessed_entry_is_selected_by_its_new_importance() -> None:
    one, other = entry("a", importance=0.6, last_access=NOW - 5 * DAY), entry("b")
    assert ids(select([one, other])) == ["a", "b"]
    one.apply_decay()
    assert ids(select([one, other])) == ["b", "a"]
    for _ in range(40):
        one.access()
    one.decay_factor = 1.0
    assert ids(select([one, other])) == ["a", "b"]


# --- tags, metadata, embedding ---------------------------------------------------------------------------------------


def test_tags_are_stored_in_lower_case_once() -> None:
    one = entry()
    for tag in ("Work", " work ", "", "   ", "HOME\t"):
        one.add_tag(tag)
    one.add_tags(["x", "Y", "X"])
    assert one.tags == ["work", "home", "x", "y"]
    assert one.has_tag("WORK")
    assert not one.has_tag(" work ")
    one.tags.append("Raw")
    assert not one.has_tag("Raw")


def test_metadata_is_set_and_merged() -> None:
    one = entry()
    one.update_metadata("k", 1)
    one.merge_metadata({"k": 2, "l": 3})
    assert one.metadata == {"id": "a", "k": 2, "l": 3}


def test_an_embedding_is_there_from_one_number_on() -> None:
    assert not entry().has_embedding
    assert not entry(embedding=[]).has_embedding
    assert entry(embedding=[0.0]).has_embedding
    assert entry(embedding=np.zeros(3)).has_embedding


# --- dicts and JSON --------------------------------------------------------------------------------------------------

KEYS = [
    "id", "content", "timestamp", "memory_type", "importance", "effective_importance", "access_count", "tags",
    "metadata", "last_access", "decay_factor", "age_seconds", "priority",
]  # fmt: skip


def test_to_dict_has_the_documented_keys_in_order() -> None:
    one = entry(importance=0.8, tags=["t"], embedding=[0.1], timestamp=NOW - 5.0, last_access=NOW - 1.0)
    one.decay_factor = 0.5
    assert list(one.to_dict()) == KEYS
    assert one.to_dict() == {
        "id": "a",
        "content": "x" * 40,
        "timestamp": NOW - 5.0,
        "memory_type": "short_term",
        "importance": 0.8,
        "effective_importance": 0.4,
        "access_count": 0,
        "tags": ["t"],
        "metadata": {"id": "a"},
        "last_access": NOW - 1.0,
        "decay_factor": 0.5,
        "age_seconds": 5.0,
        "priority": "LOW",
    }
    assert list(one.to_dict(include_embedding=True)) == [*KEYS, "embedding"]
    assert list(entry(embedding=[]).to_dict(include_embedding=True)) == KEYS


def test_a_round_trip_loses_what_to_dict_leaves_out() -> None:
    one = MemoryEntry("c", NOW, MemoryType.EPISODIC, importance=0.8, embedding=[0.1], last_access=NOW - 2 * DAY)
    one.apply_decay()
    loaded = MemoryEntry.from_dict(one.to_dict())
    assert loaded == one
    assert (one.original_importance, loaded.original_importance) == (0.8, 0.6400000000000001)
    assert loaded.embedding is None
    assert MemoryEntry.from_dict(one.to_dict(include_embedding=True)).embedding == [0.1]
    kept = ("content", "timestamp", "memory_type", "importance", "tags", "metadata", "last_access", "decay_factor")
    for name in kept:
        assert getattr(loaded, name) == getattr(one, name)


def test_from_dict_ignores_an_id_outside_the_metadata() -> None:
    assert MemoryEntry.from_dict({"id": "mine", "content": "c", "timestamp": 1.0}).id == "f93810d5e0f3d98e"


def test_from_dict_has_the_documented_defaults() -> None:
    one = MemoryEntry.from_dict({"content": "c", "timestamp": 1.0})
    assert (one.memory_type, one.importance, one.access_count, one.tags) == (SHORT, 0.5, 0, [])
    assert (one.embedding, one.last_access, one.decay_factor, one.original_importance) == (None, NOW, 1.0, 0.5)
    other = MemoryEntry.from_dict({"content": "c", "timestamp": 1.0})
    assert one.metadata is not other.metadata
    assert one.tags is not other.tags
    data = {"content": "c", "timestamp": 1.0, "original_importance": 0.9}
    assert MemoryEntry.from_dict(data).original_importance == 0.9


def test_from_dict_needs_content_and_timestamp() -> None:
    for incomplete in ({"content": "c"}, {"timestamp": 1.0}, {}):
        with pytest.raises(KeyError):
            MemoryEntry.from_dict(incomplete)


@pytest.mark.parametrize(
    ("word", "kind"),
    [("zzz", SHORT), (" EP ", SHORT), ("LT", MemoryType.LONG_TERM), ("Episode", MemoryType.EPISODIC), ("", SHORT)],
)
def test_from_dict_reads_a_type_by_its_words_and_an_unknown_one_as_short_term(word: str, kind: MemoryType) -> None:
    assert MemoryEntry.from_dict({"content": "c", "timestamp": 1.0, "memory_type": word}).memory_type is kind


def test_from_dict_does_not_read_a_type_or_metadata_that_is_none() -> None:
    for kind in (None, MemoryType.LONG_TERM):
        with pytest.raises(AttributeError):
            MemoryEntry.from_dict({"content": "c", "timestamp": 1.0, "memory_type": kind})
    with pytest.raises(TypeError):
        MemoryEntry.from_dict({"content": "c", "timestamp": 1.0, "metadata": None})


def test_json_goes_there_and_back() -> None:
    one = entry(content={"input": "é", "output": None}, embedding=[0.5], tags=["t"])
    assert json.loads(one.to_json()) == one.to_dict()
    assert MemoryEntry.from_json(one.to_json()).content == one.content
    assert MemoryEntry.from_json(one.to_json(include_embedding=True)).embedding == [0.5]
    with pytest.raises(TypeError):
        entry(content=object()).to_json()


def test_from_dict_of_a_subclass_makes_one_of_it() -> None:
    class Mine(MemoryEntry):
        pass

    assert type(Mine.from_dict({"content": "c", "timestamp": 1.0})) is Mine


# --- text and comparison ---------------------------------------------------------------------------------------------


def test_repr_shows_the_first_fifty_characters() -> None:
    assert (
        repr(entry(content="y" * 51, importance=0.256))
        == f"MemoryEntry(id=a, type=short_term, importance=0.26, access_count=0, content='{'y' * 50}...')"
    )
    assert repr(entry(content="y" * 50)).endswith(f"content='{'y' * 50}')")
    assert repr(entry(content=None)).endswith("content='None')")


class EqualToAll:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_entries_are_equal_by_id_alone() -> None:
    assert entry("a", content="1") == entry("a", content="2")
    assert entry("a") != entry("b")
    assert (entry("a") == "a") is False
    assert entry("a").__eq__("a") is False
    assert (entry("a") == EqualToAll()) is False
    assert hash(entry("a")) == hash("a")
    assert len({entry("a"), entry("a"), entry("b")}) == 2
    with pytest.raises(TypeError):
        hash(entry([1]))


def test_entries_are_ordered_by_effective_importance() -> None:
    low, high = entry("low", importance=0.2), entry("high", importance=0.9)
    assert low < high
    assert high > low
    assert not high < low
    assert low.__lt__(5) is NotImplemented
    with pytest.raises(TypeError):
        low < 5  # noqa: B015
    with pytest.raises(TypeError):
        low <= high  # noqa: B015
    three = [entry("a", importance=0.9, decay_factor=0.1), entry("b", importance=0.5), entry("c", importance=0.05)]
    assert [one.id for one in sorted(three)] == ["c", "a", "b"]


def test_scored_memory_to_dict_cuts_content_and_rounds() -> None:
    from memsel import MemorySelector

    assert MemorySelector().explain("q", [entry(content="x" * 130)], {"a": 0.123456}) == [
        {"id": "a", "content": "x" * 120, "relevance": 0.1235, "recency": 1.0, "importance": 0.5, "composite": 0.4117}
    ]
    assert MemorySelector().explain("q", [entry()], {"a": math.inf})[0]["composite"] == math.inf


# --- the enums -------------------------------------------------------------------------------------------------------


def test_memory_types_are_zerdas_in_every_respect() -> None:
    assert [(kind.name, kind.value) for kind in MemoryType] == [
        (kind.name, kind.value) for kind in zerda.memory.MemoryType
    ]
    for kind in MemoryType:
        theirs = zerda.memory.MemoryType[kind.name]
        assert (str(kind), repr(kind)) == (str(theirs), repr(theirs))
        assert (kind.description, kind.default_capacity) == (theirs.description, theirs.default_capacity)


def test_every_spelling_of_a_memory_type_is_read() -> None:
    words = [kind.value for kind in MemoryType]
    words += ["short", "st", "long", "lt", "work", "wm", "episode", "ep", "sem", "proc"]
    words += ["procedure", "semantics", "unknown", "short-term"]
    for word in words:
        for spelled in (word, word.upper(), word.title(), f" {word}"):
            assert MemoryType.from_string(spelled).name == zerda.memory.MemoryType.from_string(spelled).name
    with pytest.raises(AttributeError):
        MemoryType.from_string(None)  # type: ignore[arg-type]


def test_priorities_have_zerdas_bounds() -> None:
    assert [(level.name, level.value) for level in MemoryPriority] == [
        (level.name, level.value) for level in zerda.memory.MemoryPriority
    ]
    bounds = (0.9, 0.7, 0.5, 0.3)
    values = [v for b in bounds for v in (b, math.nextafter(b, 0), math.nextafter(b, 1))]
    for value in (*values, 0, 1, -1, 2, math.nan, math.inf, -math.inf, True):
        ours, theirs = MemoryPriority.from_importance(value), zerda.memory.MemoryPriority.from_importance(value)
        assert ours.name == theirs.name
        assert (str(ours), repr(ours)) == (str(theirs), repr(theirs))
    assert entry(importance=1.0, decay_factor=0.69).priority is MemoryPriority.MEDIUM
