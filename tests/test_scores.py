"""Similarity scores and importances: what counts as a number, and what the composite becomes of it."""

from __future__ import annotations

import collections
import decimal
import fractions
import json
import math
import types
from typing import Any

import numpy as np
import pytest
from makers import entries, entry, ids, only_relevance, select, shown
from worlds import NOW

from memsel import MemorySelector

pytestmark = pytest.mark.usefixtures("clock")


def composite(score: Any) -> float:
    (row,) = select([entry()], {"a": score}, min_composite_score=-math.inf)
    return row.composite_score


def test_the_composite_is_summed_in_order_without_fused_multiplication() -> None:
    # A fused multiply-add would round the first to 0.34 and keep it.
    assert select([entry(importance=0.4)], {"a": 0.04}, min_composite_score=0.34) == []
    rows = select([entry(importance=0.6)], {"a": 0.04}, min_composite_score=0.4)
    assert shown(rows) == [("a", 0.04, 1.0, 0.6, 0.4)]


def test_a_nan_score_drops_its_row_whatever_the_minimum() -> None:
    scores = {"a": math.nan, "b": 0.9, "c": math.nan, "d": 0.1}
    for minimum in (0.1, -math.inf):
        assert ids(select(entries("abcde"), scores, min_composite_score=minimum)) == ["b", "e", "d"]
    assert select(entries("abcde"), scores, min_composite_score=math.nan) == []


def test_an_infinite_score_is_first_or_dropped() -> None:
    unscored = ("b", 0.5, 1.0, 0.5, 0.6)
    assert shown(select(entries("ab"), {"a": math.inf})) == [("a", math.inf, 1.0, 0.5, math.inf), unscored]
    assert shown(select(entries("ab"), {"a": -math.inf})) == [unscored]


def test_an_infinite_score_under_a_weight_of_zero_drops_its_row() -> None:
    assert select([entry()], {"a": math.inf}, relevance_weight=0, recency_weight=0.5, importance_weight=0.5) == []


def test_minus_infinity_reaches_a_minimum_of_minus_infinity() -> None:
    rows = select(entries("ab"), {"a": -math.inf}, min_composite_score=-math.inf)
    assert [(row.entry.id, row.composite_score) for row in rows] == [("b", 0.6), ("a", -math.inf)]


def test_scores_outside_0_to_1_are_used_as_they_are() -> None:
    assert shown(select([entry()], {"a": 1.8})) == [("a", 1.8, 1.0, 0.5, 1.25)]
    assert shown(select(entries("ab"), {"a": -172.597})) == [("b", 0.5, 1.0, 0.5, 0.6)]
    assert composite(1.0000001192092896) == 0.8500000596046448


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (0.0, 0.35),
        (-0.0, 0.35),
        (False, 0.35),
        (True, 0.85),
        (1, 0.85),
        (fractions.Fraction(9, 10), 0.8),
        (np.float64(0.9), 0.8),
        (np.int64(1), 0.85),
        (np.float32(0.5), 0.6),
        (np.array(0.9), 0.8),
        (2**60, 0.5 * 2**60 + 0.2 * 1.0 + 0.3 * 0.5),
    ],
)
def test_a_score_is_anything_that_multiplies_with_a_float(score: Any, expected: float) -> None:
    assert composite(score) == expected


@pytest.mark.parametrize("score", [None, "0.9", decimal.Decimal("0.9"), 1j, [0.9], object()])
def test_what_does_not_multiply_with_a_float_is_no_score(score: Any) -> None:
    kind = type(score).__name__
    with pytest.raises(TypeError, match=f"the score of 'a' is a {kind}; expected a number"):
        composite(score)
    with pytest.raises(TypeError, match="'a'"):
        MemorySelector().audit("q", [entry("b"), entry()], {"a": score})


def test_a_score_too_large_for_a_float_is_an_overflow() -> None:
    with pytest.raises(OverflowError, match="the score of 'a' is too large"):
        composite(10**400)


def test_an_unscored_entry_has_relevance_one_half_and_passes_a_low_score() -> None:
    rows = select(entries(["scored", "unscored"]), {"scored": 0.3})
    assert shown(rows) == [("unscored", 0.5, 1.0, 0.5, 0.6), ("scored", 0.3, 1.0, 0.5, 0.5)]


def test_scores_may_come_in_any_mapping() -> None:
    class Always(collections.UserDict):  # type: ignore[type-arg]
        def get(self, key: Any, default: Any = None) -> Any:
            return 0.75

    class Loud(dict):  # type: ignore[type-arg]
        def get(self, key: Any, default: Any = None) -> Any:
            return 0.25

    class OnlyGet:
        def get(self, key: Any, default: Any) -> Any:
            assert default == 0.5
            return 0.125

    plain = {"a": 0.9}
    for scores, relevance in (
        (plain, 0.9),
        (types.MappingProxyType(plain), 0.9),
        (collections.ChainMap({}, plain), 0.9),
        (collections.defaultdict(lambda: 0.1, plain), 0.9),
        (collections.defaultdict(lambda: 0.1, {"z": 1.0}), 0.5),
        (collections.OrderedDict(plain), 0.9),
        (Always(z=1), 0.75),
        (Loud(a=0.9), 0.25),
        (OnlyGet(), 0.125),
        (Always(), 0.5),  # empty mappings are never asked
        ({}, 0.5),
        (None, 0.5),
        (0, 0.5),
    ):
        assert select([entry()], scores)[0].relevance_score == relevance


def test_a_mapping_without_get_is_an_error() -> None:
    with pytest.raises(AttributeError):
        select([entry()], [("a", 0.5)])


def test_scores_are_found_in_any_order_of_the_mapping() -> None:
    candidates = entries(range(300))
    scores = {n: (n * 37 % 300) / 300 for n in range(300)}
    expected = ids(select(candidates, scores, top_k=300, token_budget=10**9))
    assert expected == sorted(range(300), key=lambda n: -scores[n])
    for order in (range(299, -1, -1), [n * 7 % 300 for n in range(300)], [*range(150, 300), *range(150)]):
        reordered = {n: scores[n] for n in order}
        with_others = {key: value for n in order for key, value in ((f"o{n}", 9.0), (n, scores[n]))}
        assert ids(select(candidates, reordered, top_k=300, token_budget=10**9)) == expected
        assert ids(select(candidates, with_others, top_k=300, token_budget=10**9)) == expected


def test_few_scores_among_many_candidates_are_all_found() -> None:
    candidates = [entry(f"id{n}", importance=n / 40000) for n in range(4000)]
    scores = {f"id{n}": 0.9 + n / 1e6 for n in range(0, 4000, 401)}
    rows = select(candidates, scores, top_k=len(scores))
    assert {row.entry.id: row.relevance_score for row in rows} == scores
    # Keys that are no text switch the short cut off, they do not hide anything.
    rows = select(candidates, {7: 1.0, **scores, None: 1.0}, top_k=len(scores))
    assert {row.entry.id: row.relevance_score for row in rows} == scores


def test_every_reported_score_is_a_plain_float() -> None:
    strange = entry(importance=True, timestamp=int(NOW))
    for score in (np.float32(0.25), True, 1, fractions.Fraction(1, 4), np.array(0.5), np.float64(0.5)):
        for row in (*select([strange], {"a": score}), *MemorySelector().audit("q", [strange], {"a": score})):
            numbers = (row.relevance_score, row.recency_score, row.importance_score, row.composite_score)
            assert [type(number) for number in numbers] == [float] * 4
        json.dumps(MemorySelector().explain("q", [strange], {"a": score}))


def test_effective_importance_is_any_number_after_construction() -> None:
    one = entry()
    for importance, decay, effective in (
        (7, 1.0, 7.0), (-3, 1, -3.0), (10**9, 10**9, 1e18), (fractions.Fraction(1, 4), 1, 0.25), (1e308, 10, math.inf),
    ):  # fmt: skip
        one.importance, one.decay_factor = importance, decay
        (row,) = select([one], min_composite_score=-math.inf)
        assert row.importance_score == effective
    one.importance = "high"
    with pytest.raises(TypeError):
        select([one])


def test_a_product_of_integers_is_exact_before_it_becomes_a_float() -> None:
    one = entry()
    one.importance, one.decay_factor = 2**53 - 1, 2**53 - 1
    assert select([one])[0].importance_score == float((2**53 - 1) ** 2)
    one.importance, one.decay_factor = 0, -1
    assert math.copysign(1.0, select([one], **only_relevance())[0].importance_score) == 1.0


def test_errors_come_from_the_entry_that_the_reference_reaches_first() -> None:
    class Unreadable:
        id = "u"
        timestamp = NOW

        @property
        def effective_importance(self) -> float:
            raise LookupError("unreadable")

    late, unhashable, textual = entry("late", timestamp=NOW * 1000), entry(["l"]), entry("textual")
    scores = {"textual": "0.5"}
    for order, error in (
        ([late, textual, unhashable], OverflowError),
        ([textual, late, unhashable, Unreadable()], TypeError),
        ([unhashable, late], TypeError),
        ([entry("ok"), Unreadable(), late, textual], LookupError),
        ([entry("ok"), late, Unreadable()], OverflowError),
        ([entry("ok"), None, late], AttributeError),
    ):
        with pytest.raises(error):
            select(order, scores)
        with pytest.raises(error):
            MemorySelector().audit("q", order, scores)
