"""What candidates may come in, and what a selection leaves as it was."""

from __future__ import annotations

import collections
import types
from typing import Any

import numpy as np
import pytest
from makers import entries, entry, ids, select
from worlds import NOW

from memsel import MemorySelector, MemoryType

pytestmark = pytest.mark.usefixtures("clock")


class FalsyList(list):  # type: ignore[type-arg]
    def __bool__(self) -> bool:
        return False


class OwnIteration(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(entries("xy"))


@pytest.mark.parametrize(
    "candidates",
    [
        lambda: (one for one in entries("ab")),
        lambda: tuple(entries("ab")),
        lambda: collections.deque(entries("ab")),
        lambda: {"x": entry("a"), "y": entry("b")}.values(),
        lambda: dict.fromkeys(entries("ab")),
        lambda: np.array(entries("ab"), dtype=object),
        lambda: np.array([*entries("ab"), None], dtype=object)[:2],
        lambda: map(entry, "ab"),
        lambda: OwnIteration([None]),
    ],
)
def test_any_iterable_of_candidates_will_do(candidates: Any) -> None:
    expected = ["x", "y"] if isinstance(candidates(), OwnIteration) else ["a", "b"]
    assert ids(select(candidates())) == expected
    assert ids(MemorySelector().audit("q", candidates())) == expected
    assert [one.id for one in MemorySelector().select_entries("q", candidates())] == expected


@pytest.mark.parametrize(
    "nothing",
    [None, [], (), {}, collections.deque(), np.array([], dtype=object), FalsyList([entry("a")]), 0, False, ""],
)
def test_nothing_gives_nothing(nothing: Any) -> None:
    assert select(nothing) == []
    assert MemorySelector().audit("q", nothing) == []
    assert select(one for one in ()) == []


def test_a_numpy_array_of_one_or_more_entries_works() -> None:
    assert ids(select(np.array([entry("a")], dtype=object))) == ["a"]
    assert ids(select(np.array(entries("abc"), dtype=object))) == ["a", "b", "c"]


def test_what_is_no_entry_is_an_attribute_error() -> None:
    for candidates in ({"a": entry("a")}, [entry("a"), None], ["text"], "text", [object()]):
        with pytest.raises(AttributeError):
            select(candidates)
    with pytest.raises(TypeError):
        select(5)


def test_any_object_with_the_attributes_is_an_entry() -> None:
    duck = types.SimpleNamespace(
        id="duck", timestamp=NOW, last_access=NOW, effective_importance=0.25, content="x" * 40, decay_factor="unused"
    )
    rows = select([entry("a"), duck, entry("b")], {"duck": 0.9})
    assert ids(rows) == ["duck", "a", "b"]
    assert rows[0].entry is duck
    assert rows[0].importance_score == 0.25
    assert [row.entry for row in MemorySelector().audit("q", [duck])] == [duck]


def test_an_instance_attribute_of_a_duck_wins_as_python_says() -> None:
    class Duck:
        timestamp = NOW
        content = "x"
        effective_importance = 0.5

        def __getattr__(self, name: str) -> Any:
            if name == "id":
                return "made up"
            raise AttributeError(name)

    assert select([Duck()], {"made up": 0.75})[0].relevance_score == 0.75


def test_selecting_changes_nothing() -> None:
    one = entry("a", last_access=5.0)
    scores = {"a": 0.3}
    candidates = [one]
    (row,) = select(candidates, scores)
    MemorySelector().audit("q", candidates, scores)
    MemorySelector().explain("q", candidates, scores)
    assert row.entry is one
    assert (one.access_count, one.last_access, one.importance, one.tags) == (0, 5.0, 0.5, [])
    assert scores == {"a": 0.3}
    assert candidates == [one]


@pytest.mark.parametrize("query", [None, 5, "", "q", object()])
def test_the_query_is_not_used(query: Any) -> None:
    assert ids(MemorySelector().select(query=query, candidates=entries("ab"), similarity_scores=None)) == ["a", "b"]


def test_entries_of_mixed_classes_are_ranked_together() -> None:
    import zerda.memory

    class Mine(type(entry("a"))):  # type: ignore[misc]
        pass

    mixed = [
        entry("a"),
        zerda.memory.MemoryEntry("x", NOW, zerda.memory.MemoryType.SEMANTIC, metadata={"id": "b"}),
        Mine("x", NOW, MemoryType.SEMANTIC, metadata={"id": "c"}),
        types.SimpleNamespace(id="d", timestamp=NOW, effective_importance=0.5, content="x"),
    ] * 3
    scores = {"d": 0.9, "c": 0.8, "b": 0.7, "a": 0.6}
    assert ids(select(mixed, scores, top_k=12)) == ["d"] * 3 + ["c"] * 3 + ["b"] * 3 + ["a"] * 3
