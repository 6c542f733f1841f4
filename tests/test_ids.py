"""Ids: what they may be, and that a selection always uses the one that the entry's metadata says now."""

from __future__ import annotations

import collections
import copy
import gc
import math
import pickle
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import zerda.memory
from makers import entries, entry, ids, select
from worlds import NOW, LoudDict

from memsel import MemoryEntry, MemorySelector, MemoryType

pytestmark = pytest.mark.usefixtures("clock")


def relevance(one: Any, scores: Any) -> float:
    (row,) = select([one], scores)
    return row.relevance_score


@pytest.mark.parametrize(
    ("entry_id", "key", "expected"),
    [
        (7, 7, 0.9),
        (7, "7", 0.5),
        ("7", 7, 0.5),
        (True, 1, 0.9),
        (1.0, 1, 0.9),
        (None, None, 0.9),
        ("", "", 0.9),
        (("a", 1), ("a", 1), 0.9),
        (math.nan, math.nan, 0.9),
        (float("nan"), float("nan"), 0.5),
        (b"a", "a", 0.5),
        (-1, -2, 0.5),
        (2**61 - 1, 0, 0.5),
    ],
)
def test_an_id_is_looked_up_as_a_dict_would(entry_id: Any, key: Any, expected: float) -> None:
    assert relevance(entry(entry_id), {key: 0.9}) == expected


def test_an_unhashable_id_is_a_type_error_even_without_scores() -> None:
    for scores in (None, {}, {"a": 0.5}):
        with pytest.raises(TypeError):
            select([entry(["list"])], scores)
        with pytest.raises(TypeError):
            select([entry("a"), entry(["list"])], scores)


def test_an_entry_without_an_id_is_unknown() -> None:
    one = entry("a")
    del one.metadata["id"]
    assert one.id == "unknown"
    assert relevance(one, {"unknown": 0.9, "a": 0.1}) == 0.9


def test_entries_are_not_deduplicated() -> None:
    one = entry("a")
    assert [row.entry for row in select([one, one, one])] == [one, one, one]
    same_id = [entry("a", content="one"), entry("a", content="two")]
    rows = select(same_id, {"a": 0.7})
    assert [(row.entry.content, row.relevance_score) for row in rows] == [("one", 0.7), ("two", 0.7)]


def test_one_metadata_dict_given_to_two_entries_gives_both_one_id() -> None:
    shared: dict[str, Any] = {}
    first = MemoryEntry("a", 1.0, MemoryType.SHORT_TERM, metadata=shared)
    second = MemoryEntry("b", 2.0, MemoryType.SHORT_TERM, metadata=shared)
    assert first.id == second.id == shared["id"]
    assert first == second
    assert list(shared) == ["id"]


class Str(str):
    """A str whose hash and equality are str's own, of another type."""


class Odd(str):
    """Equal to any text that ends alike."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(other)[-1:] == str(self)[-1:]

    def __hash__(self) -> int:
        return hash("score of x")


def _replace_by(make: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: make(one)


def _hold_and_edit(one: Any, other: Any) -> None:
    one.held = one.metadata
    select([one], {"x": 0.25})
    one.held["id"] = "new"


def _let_go_then_edit(one: Any, other: Any) -> None:
    held = one.metadata
    select([one], {"x": 0.25})
    del held
    select([one], {"x": 0.25})
    one.metadata["id"] = "new"


def _edit_through_view(one: Any, other: Any) -> None:
    values = one.metadata.setdefault
    select([one], {"x": 0.25})
    one.metadata.pop("id")
    values("id", "new")


def _share(one: Any, other: Any) -> None:
    one.metadata = other.metadata
    select([one, other], {"x": 0.25})
    other.metadata["id"] = "new"


def _subclass_override(one: Any, other: Any) -> None:
    one.metadata = LoudDict(id="new")


EDITS: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda one, other: None,
    "edited in place": lambda one, other: one.metadata.__setitem__("id", "new"),
    "replaced": lambda one, other: setattr(one, "metadata", {"id": "new"}),
    "replaced by an empty dict": lambda one, other: setattr(one, "metadata", {}),
    "cleared": lambda one, other: one.metadata.clear(),
    "deleted id": lambda one, other: one.metadata.__delitem__("id"),
    "updated": lambda one, other: one.metadata.update(id="new"),
    "update_metadata": lambda one, other: one.update_metadata("id", "new"),
    "merge_metadata": lambda one, other: one.merge_metadata({"id": "new"}),
    "held elsewhere": _hold_and_edit,
    "held, let go, edited": _let_go_then_edit,
    "through a bound method": _edit_through_view,
    "shared with another entry": _share,
    "a dict subclass with its own get": _subclass_override,
    "an ordered dict": lambda one, other: setattr(one, "metadata", collections.OrderedDict(id="new")),
    "a read-only view": lambda one, other: setattr(one, "metadata", types.MappingProxyType({"id": "new"})),
    "a chain": lambda one, other: setattr(one, "metadata", collections.ChainMap({}, {"id": "new"})),
    "an int id": lambda one, other: one.metadata.__setitem__("id", 7),
    "a bool id": lambda one, other: one.metadata.__setitem__("id", True),
    "a tuple id": lambda one, other: one.metadata.__setitem__("id", ("t",)),
    "no id but None": lambda one, other: one.metadata.__setitem__("id", None),
    "a str subclass": lambda one, other: one.metadata.__setitem__("id", Str("new")),
    "a str subclass with its own equality": lambda one, other: one.metadata.__setitem__("id", Odd("new")),
    "an equal text": lambda one, other: one.metadata.__setitem__("id", "".join(["n", "ew"])),
    "pickled": _replace_by(lambda one: pickle.loads(pickle.dumps(one))),
    "copied": _replace_by(copy.copy),
    "deeply copied": _replace_by(copy.deepcopy),
}
SCORES = {"x": 0.25, "new": 0.75, "unknown": 0.1, 7: 0.2, 1: 0.3, ("t",): 0.4, None: 0.6, "new!": 0.9}


@pytest.mark.parametrize("seen_before", [False, True])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_after_an_edit_the_id_in_force_is_used(edit: Callable[[Any, Any], Any], seen_before: bool) -> None:
    answers = []
    for library in (zerda.memory, None):
        cls = MemoryEntry if library is None else library.MemoryEntry
        kind = MemoryType.SHORT_TERM if library is None else library.MemoryType.SHORT_TERM
        selector = MemorySelector() if library is None else library.MemorySelector()
        one = cls("one", NOW, kind, metadata={"id": "x"})
        other = cls("other", NOW, kind, metadata={"id": "other"})
        if seen_before:
            selector.select("q", [one, other], SCORES)
        one = edit(one, other) or one
        for _ in range(3):  # a mirror may go stale only after it was refreshed
            answers.append(
                sorted(
                    (row.entry.content, repr(row.entry.id), row.relevance_score)
                    for row in selector.select("q", [one, other], dict(SCORES))
                )
            )
    assert len({repr(answer) for answer in answers}) == 1, answers


def test_copies_take_their_id_from_their_own_metadata() -> None:
    one = entry("x")
    deep, pickled, shallow = copy.deepcopy(one), pickle.loads(pickle.dumps(one)), copy.copy(one)
    select([one, deep, pickled, shallow], {"x": 0.25})
    one.metadata["id"] = "new"
    scores = {"x": 0.25, "new": 0.75}
    assert [relevance(each, scores) for each in (one, deep, pickled, shallow)] == [0.75, 0.25, 0.25, 0.75]


def test_an_id_is_never_kept_from_a_dict_that_left() -> None:
    candidates = entries(f"id{n}" for n in range(500))
    scores = {f"id{n}": n / 500 for n in range(500)}
    for turn in range(3):
        select(candidates, scores)
        for n, one in enumerate(candidates):
            one.metadata = {"id": f"id{(n + turn + 1) % 500}"}
    assert ids(select(candidates, scores, top_k=1)) == ["id499"]


def test_selecting_holds_on_to_nothing() -> None:
    content = "".join(["some ", "content of its own"])
    entry_id = "".join(["an id", " of its own"])
    metadata = {"id": entry_id}
    candidates = [MemoryEntry(content, NOW, MemoryType.SHORT_TERM, metadata=metadata) for _ in range(50)]
    scores = {entry_id: 0.5}
    watched = [content, entry_id, metadata, scores, candidates, candidates[0], candidates[49], MemoryEntry, *scores]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(one) for one in watched]

    def use() -> None:
        for _ in range(100):
            select(candidates, scores)
            select(candidates, None)
            select(candidates, {"zzz": 1.0, **scores})
            select(candidates, collections.UserDict(scores))
            MemorySelector().audit("q", candidates, scores)
            with pytest.raises(OverflowError):
                MemorySelector().select("q", candidates, scores, now=NOW - 1e9)
            candidates[3].content = content
            candidates[3].timestamp = NOW - 1.0
            candidates[3].importance = 0.5
            candidates[3].metadata = metadata

    use()
    before = counts()
    use()
    assert counts() == before


def test_entries_and_answers_are_freed_when_nobody_holds_them() -> None:
    candidates = entries("abc")
    selector = MemorySelector()
    rows = selector.select("q", candidates, {"a": 0.9})
    audited = selector.audit("q", candidates, {"a": 0.9})
    references = [weakref.ref(one) for one in (*candidates, *rows, *audited)]
    assert all(reference() is not None for reference in references)
    del candidates, rows, audited
    assert [reference() for reference in references] == [None] * len(references)


def test_a_cycle_through_an_entry_is_collected() -> None:
    def make() -> weakref.ref[MemoryEntry]:
        one = entry("cycle")
        one.metadata["self"] = one
        one.content = [one]
        (row,) = select([one], {"cycle": 0.5})
        one.row = row  # type: ignore[attr-defined]
        return weakref.ref(one)

    reference = make()
    gc.collect()
    assert reference() is None


def test_scores_edited_by_an_entry_that_is_being_read_are_read_as_they_stand() -> None:
    """An id property that edits the mapping of scores sees what the reference would have seen."""

    class Sneaky:
        timestamp = NOW
        effective_importance = 0.5
        content = "x"

        def __init__(self, entry_id: str) -> None:
            self.entry_id = entry_id

        @property
        def id(self) -> str:
            if self.entry_id == "id3":
                scores.clear()
                scores.update({f"other{n}": float(n) for n in range(100)})
            return self.entry_id

    answers = []
    for selector in (zerda.memory.MemorySelector(), MemorySelector()):
        scores = {f"id{n}": 0.5 + n / 1000 for n in range(10)}
        candidates = [Sneaky(entry_id) for entry_id in scores]
        answers.append([(row.entry.entry_id, row.relevance_score) for row in selector.select("q", candidates, scores)])
    assert answers[0] == answers[1]


def test_a_score_that_deletes_itself_while_it_is_read_is_read_all_the_same() -> None:
    class Vanishing:
        def __init__(self, value: float) -> None:
            self.value = value

        def __rmul__(self, other: float) -> float:
            scores.clear()
            return other * self.value

        def __float__(self) -> float:
            return self.value

    scores: dict[str, Any] = {"a": Vanishing(0.75)}
    assert [row.relevance_score for row in select([entry("a")], scores)] == [0.75]
    assert scores == {}
