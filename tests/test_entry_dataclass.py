"""What a dataclass promises its users, MemoryEntry and ScoredMemory keep, although extension types lie under them."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import pickle
import weakref
from dataclasses import MISSING, dataclass, field
from typing import Any

import pytest
import zerda.memory
from makers import DAY, entry, ids, select, shown
from worlds import NOW

from memsel import MemoryEntry, MemorySelector, MemoryType, ScoredMemory

pytestmark = pytest.mark.usefixtures("clock")

SHORT = MemoryType.SHORT_TERM
FIELDS = [
    "content", "timestamp", "memory_type", "importance", "access_count", "tags", "metadata", "embedding", "last_access",
    "decay_factor", "original_importance",
]  # fmt: skip
VALUES: dict[str, Any] = {
    "content": "c", "timestamp": 1, "memory_type": MemoryType.EPISODIC, "importance": True, "access_count": 7,
    "tags": ["t"], "metadata": {"id": "a", "k": 1}, "embedding": [0.5], "last_access": 2, "decay_factor": 1,
    "original_importance": 0.25,
}  # fmt: skip


class Plain(MemoryEntry):
    """A subclass that only adds a method."""

    def shout(self) -> str:
        return str(self.content).upper()


@dataclass(eq=False)
class Extended(MemoryEntry):
    """A dataclass on top with fields of its own and another default."""

    source: str = "unknown"
    importance: float = 0.9
    seen: list[str] = field(default_factory=list)


class Slotted(MemoryEntry):
    __slots__ = ("extra_slot",)


class Named:
    """A mixin with slots of its own has none here, so that it combines with an extension type."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return f"<{self.id}>"  # type: ignore[attr-defined]


class Mixed(Named, MemoryEntry):
    pass


CLASSES = [MemoryEntry, Plain, Extended, Slotted, Mixed]


def test_content_timestamp_and_memory_type_are_required() -> None:
    for arguments in ((), ("c",), ("c", 1.0)):
        with pytest.raises(TypeError, match=r"missing .* required positional argument"):
            MemoryEntry(*arguments)  # type: ignore[call-arg]
    assert MemoryEntry("c", 1.0, MemoryType.EPISODIC).memory_type is MemoryType.EPISODIC


def test_the_fields_are_zerdas_with_their_defaults() -> None:
    def described(cls: Any) -> list[Any]:
        return [
            (one.name, one.default, one.default_factory is MISSING, one.init, one.repr, one.compare, one.kw_only)
            for one in dataclasses.fields(cls)
        ]

    assert [one.name for one in dataclasses.fields(MemoryEntry)] == FIELDS
    assert described(MemoryEntry) == described(zerda.memory.MemoryEntry)
    assert dataclasses.is_dataclass(MemoryEntry)
    assert MemoryEntry.__match_args__ == tuple(FIELDS)
    assert MemoryEntry.__dataclass_params__.eq == zerda.memory.MemoryEntry.__dataclass_params__.eq  # type: ignore[attr-defined]


def test_the_signature_is_zerdas() -> None:
    def parameters(cls: Any) -> list[Any]:
        plain = (int, float, type(None))
        return [
            (one.name, one.kind, one.default if isinstance(one.default, plain) else type(one.default))
            for one in inspect.signature(cls).parameters.values()
        ]

    assert parameters(MemoryEntry) == parameters(zerda.memory.MemoryEntry)
    with pytest.raises(TypeError):
        MemoryEntry("c", 1.0, SHORT, no_such_field=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("cls", CLASSES)
def test_fields_go_by_position_and_by_name_and_come_back_as_the_objects_given(cls: Any) -> None:
    for one in (cls(*VALUES.values()), cls(**VALUES)):
        for name, value in VALUES.items():
            assert getattr(one, name) is value
        assert dataclasses.asdict(one) | VALUES == dataclasses.asdict(one)
        assert dataclasses.astuple(one)[: len(FIELDS)] == tuple(VALUES.values())


def test_asdict_copies_as_deep_as_ever() -> None:
    one = MemoryEntry(**VALUES)
    as_dict = dataclasses.asdict(one)
    assert list(as_dict) == FIELDS
    as_dict["metadata"]["id"] = "other"
    as_dict["tags"].append("u")
    assert one.id == "a"
    assert one.tags == ["t"]


@pytest.mark.parametrize("cls", CLASSES)
def test_replace_makes_an_entry_that_shares_what_was_not_replaced(cls: Any) -> None:
    one = cls("old", 1.0, SHORT)
    other = dataclasses.replace(one, content="new", timestamp=2.0)
    assert type(other) is cls
    assert (other.content, other.timestamp, one.content) == ("new", 2.0, "old")
    assert other.metadata is one.metadata
    assert other.id == one.id
    with pytest.raises(ValueError, match="importance must be between 0 and 1"):
        dataclasses.replace(one, importance=2.0)


def same(one: Any, other: Any) -> bool:
    """Whether two entries agree in every field and every further attribute."""
    return (
        type(one) is type(other)
        and dataclasses.asdict(one) == dataclasses.asdict(other)
        and getattr(one, "__dict__", None) == getattr(other, "__dict__", None)
    )


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_entry_is_pickled_whole(cls: Any, protocol: int) -> None:
    one = cls(**copy.deepcopy(VALUES))
    one.note = {"also": "this"}
    loaded = pickle.loads(pickle.dumps(one, protocol))
    assert same(loaded, one)
    assert loaded.metadata is not one.metadata
    assert shown(select([loaded], {"a": 0.25})) == shown(select([one], {"a": 0.25}))
    one.metadata["self"] = one
    cyclic = pickle.loads(pickle.dumps(one, protocol))
    assert cyclic.metadata["self"] is cyclic


@pytest.mark.parametrize("cls", CLASSES)
def test_an_entry_is_copied_shallow_and_deep(cls: Any) -> None:
    one = cls(**copy.deepcopy(VALUES))
    one.note = ["also"]
    shallow, deep = copy.copy(one), copy.deepcopy(one)
    assert same(shallow, one)
    assert same(deep, one)
    assert shallow.metadata is one.metadata
    assert shallow.note is one.note
    assert deep.metadata is not one.metadata
    assert deep.note is not one.note
    shallow.timestamp = NOW
    assert one.timestamp == 1
    assert shown(select([deep], {"a": 0.25})) == shown(select([one], {"a": 0.25}))


def test_an_invalid_importance_survives_pickling_and_copying() -> None:
    one = entry()
    one.importance = 7
    for other in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert other.importance == 7
        assert select([other])[0].importance_score == 7.0


def test_a_chosen_memory_is_pickled_copied_and_compared() -> None:
    rows = select([entry("a"), entry("b")], {"a": 0.25})
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(rows, protocol)) == rows
    assert copy.deepcopy(rows) == rows
    assert copy.copy(rows[0]) == rows[0]
    assert dataclasses.replace(rows[0], composite_score=0.0).composite_score == 0.0
    assert list(dataclasses.asdict(rows[0])) == [
        "entry", "relevance_score", "recency_score", "importance_score", "composite_score",
    ]  # fmt: skip


def test_scored_memories_are_equal_by_entry_id_and_scores_and_not_ordered() -> None:
    one, other = select([entry(content="1" * 40)]), select([entry(content="2" * 40)])
    assert one == other
    assert one != select([entry(content="1" * 40)], {"a": 0.25})
    with pytest.raises(TypeError):
        hash(one[0])
    with pytest.raises(TypeError):
        sorted([*one, *other])


def test_a_scored_memory_is_a_dataclass_like_zerdas() -> None:
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'entry'"):
        ScoredMemory()  # type: ignore[call-arg]
    one = entry()
    assert dataclasses.astuple(ScoredMemory(one))[1:] == (0.0, 0.0, 0.0, 0.0)
    assert ScoredMemory(one, 1, 2, 3, 4).composite_score == 4
    row = ScoredMemory(one, 0.1, 0.2, 0.3, 0.4)
    row.composite_score = 9.0
    row.note = "mine"  # type: ignore[attr-defined]
    scores = "relevance_score=0.1, recency_score=0.2, importance_score=0.3, composite_score=9.0"
    assert repr(row) == f"ScoredMemory(entry={one!r}, {scores})"
    assert [f.name for f in dataclasses.fields(ScoredMemory)] == list(inspect.signature(ScoredMemory).parameters)
    assert weakref.ref(row)() is row
    match row:
        case ScoredMemory(found, composite_score=composite):
            assert found is one
            assert composite == 9.0


def test_entries_can_be_referred_to_weakly() -> None:
    one = entry()
    reference = weakref.ref(one)
    assert reference() is one
    assert weakref.WeakSet([one])
    del one
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("cls", CLASSES)
def test_new_attributes_can_be_set_read_and_deleted(cls: Any) -> None:
    one = cls("c", NOW, SHORT)
    one.extra = 5
    assert one.extra == 5
    assert vars(one)["extra"] == 5
    del one.extra
    with pytest.raises(AttributeError):
        one.extra  # noqa: B018
    assert len(select([one])) == 1


def test_an_entry_matches_by_position_and_by_name() -> None:
    match entry("a", content="c", importance=0.25):
        case MemoryEntry("c", timestamp, MemoryType.SHORT_TERM, importance, access_count=0, metadata={"id": found}):
            assert (timestamp, importance, found) == (NOW, 0.25, "a")
        case _:
            pytest.fail("no case matched")


def test_a_plain_subclass_is_selected_like_its_base() -> None:
    one = Plain("c", NOW - DAY, SHORT, metadata={"id": "a"})
    assert one.shout() == "C"
    assert one == entry("a")
    assert shown(select([one], {"a": 0.25})) == shown(select([entry("a", "c", NOW - DAY)], {"a": 0.25}))


def test_a_dataclass_on_top_has_its_own_fields_and_defaults() -> None:
    one = Extended("c", NOW, SHORT, metadata={"id": "a"})
    assert (one.source, one.importance, one.seen, one.original_importance) == ("unknown", 0.9, [], 0.9)
    assert [f.name for f in dataclasses.fields(Extended)] == [*FIELDS, "source", "seen"]
    assert (one.effective_importance, one.priority.name) == (0.9, "CRITICAL")
    assert select([one])[0].importance_score == 0.9
    one.importance = 0.25
    assert select([one])[0].importance_score == 0.25
    one.apply_decay()
    one.access()
    assert one.to_dict()["importance"] == one.importance
    assert ids(select([one, entry("b", importance=0.9)])) == ["b", "a"]


@pytest.mark.parametrize("name", ["content", "timestamp", "memory_type"])
def test_a_required_field_declared_anew_stays_required(name: str) -> None:
    def run(base: Any) -> Any:
        cls = dataclass(type("Narrowed", (base,), {"__annotations__": {name: "object"}, "__module__": __name__}))
        return [(f.name, f.default) for f in dataclasses.fields(cls)], str(inspect.signature(cls)).split(",")[:3]

    theirs, ours = run(zerda.memory.MemoryEntry), run(MemoryEntry)
    assert ours[0] == theirs[0]
    assert [part.split(":")[0] for part in ours[1]] == [part.split(":")[0] for part in theirs[1]]
    assert not any("=" in part for part in ours[1])


@pytest.mark.parametrize("name", ["importance", "access_count", "embedding", "decay_factor", "original_importance"])
def test_an_optional_field_declared_anew_keeps_its_default(name: str) -> None:
    def run(base: Any) -> Any:
        cls = dataclass(type("Narrowed", (base,), {"__annotations__": {name: "object"}, "__module__": __name__}))
        return [(f.name, f.default) for f in dataclasses.fields(cls)]

    assert run(MemoryEntry) == run(zerda.memory.MemoryEntry)


def test_slots_of_a_subclass_hold_values_and_go_along() -> None:
    one = Slotted("c", NOW, SHORT)
    one.extra_slot = 3
    assert select([one])[0].entry is one
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(one, protocol)).extra_slot == 3
    assert copy.copy(one).extra_slot == 3
    assert copy.deepcopy(one).extra_slot == 3


def test_a_mixin_without_slots_of_its_own_combines() -> None:
    one = Mixed("c", NOW, SHORT, metadata={"id": "a"})
    assert one.name == "<a>"
    assert shown(select([one], {"a": 0.25})) == shown(select([entry("a", "c")], {"a": 0.25}))


def test_a_post_init_of_a_subclass_runs_and_may_extend() -> None:
    @dataclass(eq=False)
    class Stamped(MemoryEntry):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.metadata["stamp"] = self.timestamp

    assert Stamped("c", 5.0, SHORT).metadata["stamp"] == 5.0
    assert select([Stamped("c", NOW, SHORT)])[0].entry.metadata["stamp"] == NOW


def test_a_subclass_with_an_init_of_its_own_works() -> None:
    class FromText(MemoryEntry):
        def __init__(self, text: str) -> None:
            super().__init__(text, NOW, SHORT, metadata={"id": text})

    assert ids(select([FromText("a"), FromText("b")], {"b": 0.9})) == ["b", "a"]


def test_garbage_collection_sees_through_an_entry() -> None:
    one = entry(content=["c"])
    assert gc.is_tracked(one)
    assert any(one.content is found for found in gc.get_referents(one))
    selector = MemorySelector()
    selector.select("q", [one])
    assert any(found == {"id": "a"} for found in gc.get_referents(one))
