"""The filter pass never loses a row that matters: its proof checked in exact arithmetic, and a hunt for a miss.

A miss would show as a selection other than the reference's, which looks at every row. Where the bound is the score of
the best row so far (top_k 1), the rows to fear are those whose score is the bound or a step above it.
"""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rows import Query, config

HOUR = 3600.0
ROWS_THAT_SET_THE_BOUND = 40


def best_of(relevance: Any, timestamp: Any, importance: Any, now: float = 0.0, **fields: Any) -> Query:
    """A query for the best row; the fields not given make the composite the plain sum of the three parts."""
    weights = {"relevance_weight": 1.0, "recency_weight": 1.0, "importance_weight": 1.0}
    made = config(**{**weights, "recency_half_life_hours": 1.0, "top_k": 1, "min_composite_score": -1e308, **fields})
    arrays = (np.array(column, dtype=np.float64) for column in (relevance, timestamp, importance))
    return Query(*arrays, None, made, now)


def then(last: float, first: float, times: int = ROWS_THAT_SET_THE_BOUND) -> list[float]:
    """A column of rows that set the bound and a last one that may pass it."""
    return [first] * times + [last]


# --- the proof, in exact arithmetic ----------------------------------------------------------------------------------


def chord_above_power(y: float) -> float:
    """The filter's upper bound of 2**y, computed as src/kernel/filter_level.cpp does."""
    fixed_point = 6442450944.0 + y
    fixed_point = max(fixed_point, 6442450944.0 - 1021.0)
    fixed_point = min(fixed_point, 6442450944.0 + 1024.0)
    (bits,) = struct.unpack("<Q", struct.pack("<d", fixed_point))
    bits = ((bits << 32) + (1023 << 52)) % 2**64
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def highest_weight(weight: float) -> float:
    return (weight * (1.0 + 2.0**-18) if weight > 0.0 else 0.0) + 1e-300


def exponents() -> list[float]:
    """Exponents of 2 at whole numbers and a little beside them, at the edges of the fixed point, and random ones."""
    rng = random.Random(11)
    whole = [float(k) for k in (*range(-1080, 1024, 13), -1022, -1021, -1020, -2, -1, 0, 1, 2, 1022, 1023)]
    beside = [
        one + step * sign
        for one in whole
        for step in (2.0**-20, 2.0**-21, 2.0**-22, 2.0**-21 * 0.999, 1e-9, 1e-13, 0.5)
        for sign in (1, -1)
    ]
    return [y for y in (*whole, *beside, *(rng.uniform(-1075.0, 1024.0) for _ in range(3000))) if y < 1024.0]


def test_the_chord_is_no_less_than_recency_but_for_the_stated_share() -> None:
    share = 1 - Fraction(1, 2**20)
    for y in exponents():
        recency = math.exp(y * math.log(2.0)) if y < 1023.9 else math.exp(709.7)
        bound = chord_above_power(y)
        assert bound == math.inf or Fraction(bound) >= Fraction(recency) * share, y


def test_the_chord_is_at_most_seven_percent_above_recency() -> None:
    for y in exponents():
        if -1020.0 < y < 1023.0:
            assert chord_above_power(y) <= math.exp(y * math.log(2.0)) * 1.07, y


@pytest.mark.parametrize("half_life", [24.0, 1.0, 0.3, 1e-9, 1e300, 1.7e308, 4.5e-309, 1e-305, -24.0, -1e-300])
def test_the_weighted_chord_is_no_less_than_weighted_recency(half_life: float) -> None:
    rng = random.Random(12)
    minus_lambda = -(math.log(2) / half_life)
    rate = minus_lambda / 3600.0 * (1.0 / math.log(2))
    assert math.isfinite(rate)
    checked = 0
    for _ in range(3000):
        now = rng.choice((0.0, 1.7e9, -1e-300))
        half_lives = rng.choice(
            (
                rng.uniform(-1020.0, 1020.0),
                float(rng.randint(-1020, 1020)),
                rng.uniform(-3.0, 3.0),
                rng.uniform(-1e-5, 1e-5),
            )
        )
        age = half_lives * half_life * 3600.0 * (1.0 + rng.uniform(-1e-6, 1e-6))
        timestamp = now - age
        exponent = minus_lambda * ((now - timestamp) / 3600.0)
        if not math.isfinite(timestamp) or not exponent < 709.0:
            continue
        recency = math.exp(exponent)
        bound = chord_above_power(rate * (now - timestamp))
        for weight in (0.2, 1.0, 1e300, 1e-300, 5e-324, 12345 * 5e-324, 2.0**-1022):
            checked += 1
            highest = highest_weight(weight) * bound
            assert highest >= weight * recency, (now, timestamp, weight)
            if bound < math.inf and highest < math.inf:
                exact = Fraction(highest_weight(weight)) * Fraction(bound)
                assert exact >= Fraction(weight) * Fraction(recency), (now, timestamp, weight)
    assert checked > 1000


# --- rows that a filter with a fixed or relative margin loses --------------------------------------------------------


@pytest.mark.parametrize("half_lives", [1.2, 1.5, 2.0, 2.5, 3.0, 3.4])
def test_a_denormal_recency_weight_with_a_huge_recency_loses_no_row(half_lives: float) -> None:
    ahead = [1000.0 * HOUR + half_lives * HOUR * 1e-7, 1000.0 * HOUR + (half_lives + 1.0) * HOUR * 1e-7]
    query = best_of(then(0.0, 0.0), then(ahead[1], ahead[0]), then(0.0, 0.0), recency_weight=5e-324)
    query.check()
    assert query.answer().indices.tolist() == [ROWS_THAT_SET_THE_BOUND]


def test_a_denormal_half_life_loses_no_row() -> None:
    query = best_of(
        then(0.0, 0.0),
        then(-1e-305, -9e-305),
        then(0.0, 0.0),
        recency_half_life_hours=4.5e-309,
        min_composite_score=0.1,
    )
    query.check()
    assert query.answer().indices.tolist() == [ROWS_THAT_SET_THE_BOUND]


def test_an_infinite_age_that_clamping_makes_0_is_not_lost_where_the_half_life_is_infinite() -> None:
    relevance = [0.5] * 40 + [0.6, 0.4]
    timestamp = [0.0] * 40 + [math.inf, math.inf]
    best_of(relevance, timestamp, [0.5] * 42, recency_half_life_hours=math.inf, clamp_future=True).check()


def test_a_sum_that_overflows_before_importance_brings_it_back_is_infinite_for_the_filter_too() -> None:
    query = best_of(then(0.85e308, 0.5e308), then(0.0, 0.0), then(-0.85e308, 0.0), recency_weight=1e308)
    query.check()
    assert query.answer().scores.tolist() == [math.inf]


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_cancelling_columns_lose_no_row(scale: float) -> None:
    rng = np.random.default_rng(5)
    relevance = rng.choice((1.0, 1.5, 1.25), 600) * scale
    importance = -relevance * (1.0 + rng.integers(-2, 3, 600) * 2.0**-52)
    best_of(relevance, np.zeros(600), importance, recency_weight=scale * 1e-16).check()
    best_of(relevance, np.zeros(600), importance, recency_weight=-scale * 1e-16).check()


def test_a_row_whose_recency_overflows_is_found_whatever_the_bound_and_the_weight() -> None:
    for weight in (1.0, 0.0, -1.0, 5e-324, 1e308, math.nan, -math.inf):
        for least in (math.inf, 1e308, 1.0, math.nan, -math.inf):
            query = best_of(
                then(-math.inf, 2.0),
                then(1.7e12, -1e9),
                then(-1e308, 1.0),
                recency_weight=weight,
                min_composite_score=least,
            )
            with pytest.raises(OverflowError, match=rf"timestamp\[{ROWS_THAT_SET_THE_BOUND}\]"):
                query.answer()


def test_the_last_exponent_below_the_overflow_and_the_first_above_it_are_told_apart() -> None:
    half_life = math.log(2)  # the exponent is then the negative age in hours
    for step in range(-40, 41):
        ahead = 709.782712893384 * HOUR
        for _ in range(abs(step)):
            ahead = math.nextafter(ahead, math.inf if step > 0 else 0.0)
        best_of(then(0.0, 0.0), then(ahead, 0.0), then(0.0, 0.0), recency_half_life_hours=half_life).check()


# --- the hunt --------------------------------------------------------------------------------------------------------

MAGNITUDES = st.builds(
    lambda sign, mantissa, exponent: sign * mantissa * 10.0**exponent,
    st.sampled_from((1.0, 1.0, 1.0, -1.0)),
    st.floats(1.0, 9.99),
    st.one_of(st.just(0), st.integers(-300, 300), st.integers(-3, 3)),
)
WEIGHTS = st.one_of(
    st.sampled_from((0.0, 1.0, 0.2, 0.5, -0.8, 1.5, -1.0, 5e-324, 1e-310, 1e-300, 1e300, 1e308)), MAGNITUDES
)
# Ages in half-lives: where the chord touches the power and where it is farthest above it.
AGES = st.builds(
    lambda whole, part, nudge: whole + part + nudge,
    st.one_of(st.integers(0, 3), st.integers(-3, 3), st.integers(-900, 1000)),
    st.sampled_from((0.0, 0.0, 0.0, 0.5, 0.4427, 2.0**-20, -(2.0**-21))),
    st.sampled_from((0.0, 1e-7, -1e-7, 3e-7, 1e-12, -1e-12)),
)
HALF_LIVES = st.sampled_from((1.0, 24.0, 0.3, 87600.0, 1e-3, -24.0, 1e100, 1e-100))


def nudged(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.inf if steps > 0 else -math.inf)
    return value


@settings(max_examples=400)
@given(
    weights=st.tuples(WEIGHTS, WEIGHTS, WEIGHTS),
    half_life=HALF_LIVES,
    now=st.sampled_from((0.0, 1.7e9)),
    rows=st.lists(st.tuples(MAGNITUDES, AGES, MAGNITUDES), min_size=1, max_size=6),
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.integers(-3, 3), st.integers(-3, 3), st.integers(-2, 2)),
        min_size=1,
        max_size=40,
    ),
    top_k=st.integers(1, 4),
    clamp=st.booleans(),
)
@example(
    weights=(0.0, 5e-324, 0.0),
    half_life=1.0,
    now=0.0,
    rows=[(1.0, -1000.0 - 2e-7, 1.0), (1.0, -1000.0 - 3e-7, 1.0)],
    steps=[(0, 0, 0, 0)] * 20 + [(1, 0, 0, 0)],
    top_k=1,
    clamp=False,
)
def test_rows_a_few_steps_around_the_bound_are_never_lost(
    weights: tuple[float, float, float],
    half_life: float,
    now: float,
    rows: list[tuple[float, float, float]],
    steps: list[tuple[int, int, int, int]],
    top_k: int,
    clamp: bool,
) -> None:
    """Rows are a few basic ones, over and over, each part moved by a few steps of its last bit."""
    relevance, timestamp, importance = [], [], []
    for basic, by_relevance, by_importance, by_time in steps * 3:
        one_relevance, age, one_importance = rows[basic % len(rows)]
        relevance.append(nudged(one_relevance, by_relevance))
        timestamp.append(nudged(now - age * half_life * HOUR, by_time))
        importance.append(nudged(one_importance, by_importance))
    best_of(
        relevance,
        timestamp,
        importance,
        now,
        relevance_weight=weights[0],
        recency_weight=weights[1],
        importance_weight=weights[2],
        recency_half_life_hours=half_life,
        clamp_future=clamp,
        top_k=top_k,
    ).check()


@settings(max_examples=200)
@given(
    weights=st.tuples(WEIGHTS, WEIGHTS, WEIGHTS),
    half_life=HALF_LIVES,
    bound=MAGNITUDES,
    rows=st.lists(st.tuples(MAGNITUDES, AGES, st.integers(-4, 4)), min_size=17, max_size=60),
)
def test_rows_whose_sum_lands_on_the_minimum_are_decided_exactly(
    weights: tuple[float, float, float], half_life: float, bound: float, rows: list[tuple[float, float, int]]
) -> None:
    """The importance of each row is solved so that its composite is the minimum, give or take a few steps."""
    relevance, timestamp, importance = [], [], []
    for one_relevance, age, step in rows:
        one_timestamp = -age * half_life * HOUR
        try:
            recency = math.exp(-(math.log(2) / half_life) * (-one_timestamp / HOUR))
        except OverflowError:
            continue
        left = bound - (weights[0] * one_relevance + weights[1] * recency)
        solved = left / weights[2] if weights[2] else 0.0
        relevance.append(one_relevance)
        timestamp.append(one_timestamp)
        importance.append(nudged(solved, step) if math.isfinite(solved) else 0.0)
    best_of(
        relevance,
        timestamp,
        importance,
        relevance_weight=weights[0],
        recency_weight=weights[1],
        importance_weight=weights[2],
        recency_half_life_hours=half_life,
        min_composite_score=bound,
        top_k=1000,
    ).check()


@pytest.mark.parametrize("seed", range(6))
def test_float32_columns_around_the_bound_lose_no_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    relevance = (0.5 + rng.integers(-3, 4, 4000) * 2.0**-24).astype(np.float32)
    importance = (0.5 + rng.integers(-3, 4, 4000) * 2.0**-24).astype(np.float32)
    timestamp = -HOUR * rng.integers(0, 3, 4000).astype(np.float64)
    for columns in (
        (relevance, importance),
        (relevance.astype(float), importance),
        (relevance, importance.astype(float)),
    ):
        made = config(top_k=7, recency_half_life_hours=1.0, recency_weight=2.0**-20)
        Query(columns[0], timestamp, columns[1], None, made, 0.0).check()
