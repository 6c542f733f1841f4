"""The order of a selection: composite descending, then input position; and the minimum."""

from __future__ import annotations

import math
import random

import pytest
from makers import entries, entry, ids, only_relevance, select, shown

pytestmark = pytest.mark.usefixtures("clock")


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 100, 255, 256, 257, 511, 513, 1000, 5000])
def test_equal_scores_keep_input_order(count: int) -> None:
    assert ids(select(entries(range(count)), top_k=count, token_budget=10**9)) == list(range(count))
    assert ids(select(entries("zyxabc"))) == list("zyxabc")


def test_ties_at_the_cut_are_broken_by_input_position() -> None:
    candidates = entries(range(50))
    scores = {n: 0.9 if n % 2 == 0 else 0.2 for n in range(50)}
    seven = ids(select(candidates, scores, top_k=7))
    assert seven == [0, 2, 4, 6, 8, 10, 12]
    assert ids(select(candidates, scores, top_k=30))[:7] == seven


def test_every_top_k_is_a_prefix_of_the_next() -> None:
    rng = random.Random("prefixes")
    candidates = entries(range(700))
    scores = {n: rng.choice((0.1, 0.2, 0.3, rng.random())) for n in range(700)}
    whole = ids(select(candidates, scores, top_k=700, token_budget=10**9))
    assert whole == sorted(range(700), key=lambda n: (-scores[n], n))
    for top_k in (1, 2, 9, 10, 11, 255, 256, 257, 300, 511, 512, 699):
        assert ids(select(candidates, scores, top_k=top_k, token_budget=10**9)) == whole[:top_k]


def test_the_two_zeros_tie() -> None:
    rows = select(entries("abc"), {"a": -0.0, "b": 0.0, "c": -0.0}, **only_relevance(min_composite_score=-1.0))
    assert ids(rows) == ["a", "b", "c"]
    assert [math.copysign(1.0, row.relevance_score) for row in rows] == [-1.0, 1.0, -1.0]


def test_a_difference_in_the_last_bit_orders() -> None:
    scores = {"low": 0.5, "high": math.nextafter(0.5, 1.0)}
    assert ids(select(entries(["low", "high"]), scores, **only_relevance())) == ["high", "low"]
    tiny = {"low": 0.0, "high": 5e-324}
    assert ids(select(entries(["low", "high"]), tiny, **only_relevance(min_composite_score=0.0))) == ["high", "low"]


def test_a_score_on_the_minimum_stays() -> None:
    scores = {"a": 0.3, "b": 0.1 + 0.2}
    assert ids(select(entries("ab"), scores, **only_relevance(min_composite_score=0.3))) == ["b", "a"]
    assert ids(select(entries("ab"), scores, **only_relevance(min_composite_score=0.1 + 0.2))) == ["b"]
    assert shown(select(entries("a"), min_composite_score=0.6)) == [("a", 0.5, 1.0, 0.5, 0.6)]
    assert select(entries("a"), min_composite_score=math.nextafter(0.6, 1.0)) == []


def test_infinities_stand_at_the_ends_and_tie_among_themselves() -> None:
    scores = {"a": -math.inf, "b": math.inf, "c": 0.5, "d": math.inf, "e": -math.inf}
    rows = select(entries("abcde"), scores, min_composite_score=-math.inf)
    assert ids(rows) == ["b", "d", "c", "a", "e"]


def test_no_candidates_give_no_rows() -> None:
    assert select([]) == []


def test_a_late_better_row_is_found_behind_many() -> None:
    candidates = [entry(n) for n in range(20_000)]
    scores = dict.fromkeys(range(20_000), 0.5) | {19_999: 0.6, 12_345: 0.7}
    assert ids(select(candidates, scores, top_k=3)) == [12_345, 19_999, 0]
