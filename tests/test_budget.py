"""Tokens, the budget and top_k: which rows of the order are taken."""

from __future__ import annotations

import decimal
import math
import random
from typing import Any

import numpy as np
import pytest
from makers import TEN_TOKENS, entries, entry, ids, select

from memsel import MemorySelector, MemoryType, SelectionConfig

pytestmark = pytest.mark.usefixtures("clock")


def test_an_entry_that_does_not_fit_is_passed_over() -> None:
    candidates = [entry("big", content="x" * 200), *entries(["s1", "s2", "s3"])]
    assert ids(select(candidates, {"big": 1.0}, token_budget=30)) == ["s1", "s2", "s3"]


def test_overflow_stop_ends_at_the_first_that_does_not_fit() -> None:
    candidates = [entry("first"), entry("big", content="x" * 200), entry("small")]
    scores = {"first": 1.0, "big": 0.9, "small": 0.8}
    assert ids(select(candidates, scores, token_budget=30)) == ["first", "small"]
    assert ids(select(candidates, scores, token_budget=30, overflow="stop")) == ["first"]
    assert ids(select(candidates, scores, token_budget=3000, overflow="stop")) == ["first", "big", "small"]


def test_the_first_entry_obeys_the_budget_too() -> None:
    assert select(entries("ab"), token_budget=9) == []
    assert ids(select(entries("ab"), token_budget=10)) == ["a"]


def test_a_limit_of_zero_means_none() -> None:
    assert select([entry(content="")], token_budget=0) == []
    assert select([entry()], top_k=0) == []


@pytest.mark.parametrize(
    ("top_k", "kept"),
    [
        (0, 0), (-1, 0), (-5, 0), (False, 0), (-math.inf, 0), (True, 1), (np.int64(2), 2), (np.int8(2), 2), (2.0, 2),
        (2.5, 3), (1e-300, 1), (-0.0, 0), (math.nan, 4), (math.inf, 4), (2**70, 4), (-(2**70), 0),
        (decimal.Decimal("2.5"), 3), (np.float32(2.5), 3),
    ],
)  # fmt: skip
def test_top_k_is_compared_as_python_compares(top_k: Any, kept: int) -> None:
    assert len(select(entries("abcd"), top_k=top_k)) == kept


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (0, 0), (-1, 0), (True, 0), (9, 0), (9.999, 0), (10, 1), (10.5, 1), (np.int64(25), 2), (25, 2), (40, 4),
        (math.nan, 4), (math.inf, 4), (-math.inf, 0), (2**200, 4), (-(2**200), 0), (1e300, 4), (2**63, 4), (2**64, 4),
        (decimal.Decimal("20.5"), 2), (-0.0, 0),
    ],
)  # fmt: skip
def test_the_budget_is_compared_as_python_compares(budget: Any, kept: int) -> None:
    assert len(select(entries("abcd"), token_budget=budget)) == kept


@pytest.mark.parametrize("limit", [None, "2", "5"])
def test_a_limit_that_does_not_compare_with_numbers_is_a_type_error(limit: Any) -> None:
    with pytest.raises(TypeError):
        select(entries("abcd"), top_k=limit)
    with pytest.raises(TypeError):
        select(entries("abcd"), token_budget=limit)
    # ... but only where the reference gets as far as comparing.
    assert select(entries("abcd"), top_k=limit, min_composite_score=9.0) == []
    assert select(entries("abcd"), top_k=0, token_budget=limit) == []


@pytest.mark.parametrize(
    ("content", "tokens"), [("", 1), ("a", 1), ("abcd", 1), ("abcdefg", 1), ("abcdefgh", 2), ("x" * 4001, 1000)]
)
def test_tokens_are_a_quarter_of_the_characters_and_at_least_one(content: str, tokens: int) -> None:
    assert counted(content) == tokens


class SpeaksShortly(str):
    def __str__(self) -> str:
        return "short"


class SaysItIsLong(str):
    def __len__(self) -> int:
        return 4000


def counted(content: Any) -> int:
    """The tokens of a content by the method and by what a selection spends, which must agree."""
    one = entry(content=content)
    tokens = MemorySelector()._token_estimate(one)
    assert len(select([one], token_budget=tokens)) == 1
    assert select([one], token_budget=tokens - 1) == []
    (audited,) = MemorySelector().audit("q", [one])
    assert audited.tokens == tokens
    return tokens


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        (None, 1),
        (b"abcd" * 10, 10),
        ({"k": "v" * 30}, 9),
        (["a"] * 10, 12),
        (3.14159, 1),
        (np.zeros(2000), 5),
        (bytearray(b"x" * 16), 7),
        (MemoryType.SHORT_TERM, 2),
        (SpeaksShortly("x" * 400), 1),
        (SaysItIsLong("x" * 40), 10),
    ],
)
def test_content_that_is_no_text_counts_as_its_str(content: Any, tokens: int) -> None:
    assert counted(content) == tokens


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("\u65e5\u672c\u8a9e\u30c6\u30b9\u30c8" * 4, 6),
        ("\U0001f389" * 8, 2),
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", 1),
        ("\u00e9" * 8, 2),
        ("e\u0301" * 8, 4),
        ("\ud800" * 8, 2),
    ],
)
def test_characters_are_code_points(content: str, tokens: int) -> None:
    assert counted(content) == tokens


def test_a_token_counter_counts_instead() -> None:
    class Counts:
        def count(self, text: str) -> int:
            return len(text.split())

    candidates = [entry("three", content="one two three"), entry("one", content="x" * 400)]
    for counter in (Counts(), lambda text: len(text.split())):
        assert ids(select(candidates, token_budget=1, token_counter=counter)) == ["one"]
        assert ids(select(candidates, token_budget=4, token_counter=counter)) == ["three", "one"]
    seen = []
    select([entry(content={"a": 1}), entry(content=None)], token_counter=lambda text: seen.append(text) or 1)
    assert seen == ["{'a': 1}", "None"]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3", None, math.nan])
def test_a_token_counter_that_answers_no_positive_integer_is_an_error_that_names_the_entry(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"token counter gave .* for entry 'a'; expected an integer of 1 or more"):
        select([entry()], token_counter=lambda text: wrong)


def test_what_a_token_counter_raises_reaches_the_caller() -> None:
    class Stop(BaseException):
        pass

    def counter(text: str) -> int:
        raise Stop

    with pytest.raises(Stop):
        select([entry()], token_counter=counter)
    with pytest.raises(Stop):
        MemorySelector(SelectionConfig(token_counter=counter)).audit("q", [entry()])


def test_a_token_counter_may_answer_more_than_an_int64() -> None:
    assert select([entry()], token_counter=lambda text: 2**80) == []
    assert len(select([entry()], token_counter=lambda text: 2**62, token_budget=2**70)) == 1
    assert len(select(entries("abcd"), token_counter=lambda text: 2**62, token_budget=3 * 2**62)) == 3


def test_a_number_of_tokens_that_float_cannot_hold_is_compared_exactly() -> None:
    counter = {"count": lambda text: 2**53 + 1}["count"]
    assert select([entry()], token_counter=counter, token_budget=2**53) == []
    assert len(select([entry()], token_counter=counter, token_budget=2**53 + 1)) == 1


def test_tokens_are_counted_only_as_far_as_packing_looks() -> None:
    counted_contents = []

    def counter(text: str) -> int:
        counted_contents.append(text)
        return 1

    candidates = [entry(n, content=str(n)) for n in range(5000)]
    scores = {n: n / 5000 for n in range(5000)}
    select(candidates, scores, top_k=3, token_counter=counter)
    assert counted_contents == ["4999", "4998", "4997"]


def test_a_tight_budget_reaches_the_small_entries_far_down_the_order() -> None:
    rng = random.Random("tight")
    candidates = [entry(n, content="x" * (4 * rng.choice((1, 2, 5, 300, 800)))) for n in range(6000)]
    scores = {n: rng.random() for n in range(6000)}
    for budget in (1, 2, 3, 7, 50, 301, 1000):
        used, expected = 0, []
        for n in sorted(range(6000), key=lambda n: (-(0.5 * scores[n] + 0.2 + 0.15), n)):
            tokens = len(candidates[n].content) // 4
            if len(expected) < 10 and used + tokens <= budget:
                expected.append(n)
                used += tokens
        assert ids(select(candidates, scores, token_budget=budget)) == expected


def test_ten_tokens_are_ten_tokens() -> None:
    assert counted(TEN_TOKENS) == 10
