"""Subclasses and patched instances: every method that zerda calls on itself may be overridden, and then counts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import zerda.memory
from makers import entries, entry, ids
from worlds import NOW

from memsel import MemoryEntry, MemorySelector, MemoryType, Outcome, ScoredMemory, SelectionConfig

pytestmark = pytest.mark.usefixtures("clock")


def both(make: Any) -> tuple[Any, Any]:
    """What a subclass made of zerda's selector answers, and the same of memsel's."""
    return make(zerda.memory.MemorySelector, zerda.memory), make(MemorySelector, None)


def test_overridden_scoring_methods_are_called_as_the_reference_calls_them() -> None:
    def run(base: Any, library: Any) -> Any:
        log: list[Any] = []

        class Sub(base):  # type: ignore[misc]
            def _recency_score(self, one: Any, now: float) -> float:
                log.append(("recency", one.id, now))
                return 0.0

            def _token_estimate(self, one: Any) -> int:
                log.append(("tokens", one.id))
                return 1000

        rows = Sub().select("q", entries("abcd"))
        return ids(rows), log

    theirs, ours = both(run)
    assert ours == theirs
    assert ours[0] == ["a", "b", "c"]
    assert ours[1][0] == ("recency", "a", NOW)


def test_an_overridden_packing_gets_the_whole_order() -> None:
    def run(base: Any, library: Any) -> Any:
        class Backwards(base):  # type: ignore[misc]
            def _apply_token_budget(self, scored: Any) -> Any:
                assert [type(row.composite_score) for row in scored] == [float] * len(scored)
                return scored[::-1]

        config = SelectionConfig(top_k=1)
        scores = {"a": 0.1, "b": 0.9, "c": -9.0}
        return ids(Backwards(config).select("q", entries("abc"), scores))

    theirs, ours = both(run)
    assert ours == theirs == ["a", "b"]


def test_select_entries_and_explain_go_through_an_overridden_select() -> None:
    class Empty(MemorySelector):
        def select(self, q: Any, c: Any, s: Any = None) -> Any:  # type: ignore[override]
            return []

    assert Empty().explain("q", entries("a")) == []
    assert Empty().select_entries("q", entries("a")) == []
    with pytest.raises(TypeError):
        Empty().explain("q", entries("a"), now=NOW)

    class Knows(MemorySelector):
        def select(self, *arguments: Any, **named: Any) -> Any:
            self.seen = (arguments, named)
            return super().select(*arguments, **named)

    selector = Knows()
    candidates = entries("a")
    selector.select_entries("q", candidates, {"a": 1.0}, now=NOW + 1)
    assert selector.seen == (("q", candidates, {"a": 1.0}), {"now": NOW + 1})
    selector.explain("q", candidates)
    assert selector.seen == (("q", candidates, None), {})


@pytest.mark.parametrize("name", ["_recency_score", "_token_estimate", "_apply_token_budget"])
def test_a_method_patched_on_the_instance_counts(name: str) -> None:
    replacements: dict[str, Any] = {
        "_recency_score": lambda one, now: 4.0 if one.id == "b" else 0.0,
        "_token_estimate": lambda one: 99999 if one.id == "a" else 1,
        "_apply_token_budget": lambda scored: scored[1:],
    }

    def run(base: Any, library: Any) -> Any:
        selector = base()
        setattr(selector, name, replacements[name])
        return ids(selector.select("q", entries("abc")))

    theirs, ours = both(run)
    assert ours == theirs
    assert ours[0] == "b"


@pytest.mark.parametrize("name", ["_recency_score", "_token_estimate", "_apply_token_budget"])
def test_a_method_patched_on_the_class_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replacements: dict[str, Any] = {
        "_recency_score": lambda self, one, now: 4.0 if one.id == "b" else 0.0,
        "_token_estimate": lambda self, one: 99999 if one.id == "a" else 1,
        "_apply_token_budget": lambda self, scored: scored[1:],
    }
    monkeypatch.setattr(MemorySelector, name, replacements[name])
    assert ids(MemorySelector().select("q", entries("abc")))[0] == "b"


def test_an_attribute_of_another_name_changes_nothing() -> None:
    selector = MemorySelector()
    selector.note = "mine"  # type: ignore[attr-defined]
    assert ids(selector.select("q", entries("ab"))) == ["a", "b"]


def test_an_override_that_calls_super_gets_the_documented_value() -> None:
    class Doubled(MemorySelector):
        def _recency_score(self, one: MemoryEntry, now: float) -> float:
            return 2 * super()._recency_score(one, now)

        def _token_estimate(self, one: MemoryEntry) -> int:
            return 2 * super()._token_estimate(one)

    rows = Doubled(SelectionConfig(token_budget=20)).select("q", entries("ab"))
    assert [(row.entry.id, row.recency_score) for row in rows] == [("a", 2.0)]


def test_an_override_may_answer_an_infinity_or_nan() -> None:
    class Forever(MemorySelector):
        def _recency_score(self, one: MemoryEntry, now: float) -> float:
            return {"a": math.nan, "b": math.inf}.get(one.id, 0.0)

    assert ids(Forever().select("q", entries("abc"))) == ["b", "c"]


def test_audit_honours_overridden_scoring_and_counting() -> None:
    class Sub(MemorySelector):
        def _recency_score(self, one: MemoryEntry, now: float) -> float:
            return {"a": 0.0, "b": 1.0, "c": -9.0}[one.id]

        def _token_estimate(self, one: MemoryEntry) -> int:
            return {"a": 5, "b": 7}[one.id]

    selector = Sub(SelectionConfig(token_budget=7))
    audited = selector.audit("q", entries("abc"))
    assert [(row.outcome, row.recency_score, row.tokens, row.rank) for row in audited] == [
        (Outcome.OVER_BUDGET, 0.0, 5, None),
        (Outcome.KEPT, 1.0, 7, 0),
        (Outcome.BELOW_MIN_SCORE, -9.0, None, None),
    ]
    assert ids(selector.select("q", entries("abc"))) == ["b"]


def test_audit_refuses_an_overridden_packing_and_says_why() -> None:
    class Backwards(MemorySelector):
        def _apply_token_budget(self, scored: list[ScoredMemory]) -> list[ScoredMemory]:
            return scored[::-1]

    patched = MemorySelector()
    patched._apply_token_budget = lambda scored: scored  # type: ignore[method-assign]
    for selector in (Backwards(), patched):
        for candidates in (entries("ab"), []):
            with pytest.raises(TypeError, match="_apply_token_budget is overridden"):
                selector.audit("q", candidates)


ENTRY_OVERRIDES: dict[str, Any] = {
    "id": property(lambda self: "b" if self.content == "second" else "a"),
    "effective_importance": property(lambda self: 0.9 if self.content == "second" else 0.1),
    "timestamp": property(lambda self: NOW if self.content == "second" else NOW - 1e6, lambda self, value: None),
    "metadata": property(
        lambda self: {"id": "b" if self.content == "second" else "z"}, lambda self, value: None
    ),
    "importance": property(lambda self: 0.9 if self.content == "second" else 0.1, lambda self, value: None),
    "decay_factor": property(lambda self: 0.9 if self.content == "second" else 0.1, lambda self, value: None),
    "content": property(lambda self: self._text, lambda self, value: setattr(self, "_text", value)),
    "__getattribute__": lambda self, name: (
        NOW - 1e6 if name == "timestamp" and self.content == "first" else object.__getattribute__(self, name)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENTRY_OVERRIDES)
def test_an_entry_property_overridden_in_a_subclass_counts(name: str) -> None:
    def run(base: Any, library: Any) -> Any:
        entry_base = MemoryEntry if library is None else library.MemoryEntry
        kind = MemoryType.SHORT_TERM if library is None else library.MemoryType.SHORT_TERM
        cls = type("Mine", (entry_base,), {name: ENTRY_OVERRIDES[name]})
        candidates = [
            cls("first", NOW, kind, metadata={"id": "x"}),
            cls("second", NOW, kind, metadata={"id": "y"}),
        ]
        for _ in range(2):
            rows = base().select("q", candidates, {"a": 0.2, "b": 0.9})
        return [
            (row.entry.content, row.relevance_score, row.recency_score, row.importance_score, row.composite_score)
            for row in rows
        ]

    theirs, ours = both(run)
    assert ours == theirs


@pytest.mark.parametrize("name", ["id", "effective_importance"])
def test_an_entry_property_patched_on_the_class_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(MemoryEntry):
        pass

    candidates = [Mine("first", NOW, MemoryType.SHORT_TERM), Mine("second", NOW, MemoryType.SHORT_TERM)]
    MemorySelector().select("q", candidates)
    monkeypatch.setattr(Mine, name, ENTRY_OVERRIDES[name], raising=False)
    rows = MemorySelector().select("q", candidates, {"a": 0.2, "b": 0.9} if name == "id" else None)
    assert [row.entry.content for row in rows] == ["second", "first"]


def test_a_zerda_entry_with_overridden_formulas_is_asked() -> None:
    class Mine(zerda.memory.MemoryEntry):
        @property
        def id(self) -> str:
            return self.metadata.get("name", "unknown")

        @property
        def effective_importance(self) -> float:
            return self.importance * self.decay_factor * 0.5

    one = Mine("x", NOW, zerda.memory.MemoryType.SEMANTIC, metadata={"id": "x", "name": "n"})
    (row,) = MemorySelector().select("q", [one], {"n": 0.75, "x": 0.1})
    assert (row.relevance_score, row.importance_score) == (0.75, 0.25)


def test_an_entry_class_patched_between_calls_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    one = zerda.memory.MemoryEntry("x", NOW, zerda.memory.MemoryType.SEMANTIC, metadata={"id": "x"})
    assert MemorySelector().select("q", [one])[0].importance_score == 0.5
    monkeypatch.setattr(zerda.memory.MemoryEntry, "effective_importance", property(lambda self: 0.25))
    monkeypatch.setattr(zerda.memory.MemoryEntry, "id", property(lambda self: "patched"))
    (row,) = MemorySelector().select("q", [one], {"patched": 0.75})
    assert (row.relevance_score, row.importance_score) == (0.75, 0.25)


def test_a_selection_made_again_because_the_list_changed_passes_an_override_once() -> None:
    """A list that is edited while tokens are counted is selected from anew, inside the same call."""

    class Counting(MemorySelector):
        calls = 0

        def select(self, *arguments: Any, **named: Any) -> list[ScoredMemory]:
            self.calls += 1
            return super().select(*arguments, **named)[:1]

    class Editing:
        edited = False

        def __call__(self, text: str) -> int:
            if not self.edited:
                self.edited = True
                candidates.insert(0, entry("inserted", timestamp=NOW - 1e6))
            return 1

    candidates = entries("abc")
    selector = Counting(SelectionConfig(token_counter=Editing()))
    assert ids(selector.select("q", candidates)) == ["a"]
    assert selector.calls == 1
