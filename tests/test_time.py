"""Timestamps and half-lives: what recency becomes of them."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
from typing import Any

import numpy as np
import pytest
from makers import DAY, HOUR, entry, ids, select, shown
from worlds import NOW

from memsel import MemorySelector, SelectionConfig

pytestmark = pytest.mark.usefixtures("clock")


def recency(timestamp: Any, **config: Any) -> float:
    (row,) = select([entry(timestamp=timestamp)], **config)
    return row.recency_score


def test_a_timestamp_in_milliseconds_fails_the_call_and_names_the_entry() -> None:
    good, bad = entry("good"), entry("in ms", timestamp=NOW * 1000)
    with pytest.raises(OverflowError, match=r"entry 'in ms' has timestamp 1700000000000\.0.*looks like milliseconds"):
        select([good, bad])
    with pytest.raises(OverflowError, match="'in ms'"):
        MemorySelector().audit("q", [good, bad])
    assert good.timestamp == NOW
    assert bad.timestamp == NOW * 1000


def test_a_row_that_could_never_be_chosen_still_overflows() -> None:
    with pytest.raises(OverflowError, match="'late'"):
        select([entry("good"), entry("late", timestamp=NOW + 1e9)], {"good": 1.0, "late": -1e9}, top_k=1)
    many = [entry(n) for n in range(5000)]
    many[4321] = entry("late", timestamp=NOW + 1e9, importance=0.0)
    with pytest.raises(OverflowError, match="'late'"):
        select(many, dict.fromkeys(range(4000), 1.0), top_k=1)


def test_the_first_row_that_overflows_is_the_one_named() -> None:
    late = [entry(n, timestamp=NOW + 1e9 if n in (7, 9) else NOW) for n in range(12)]
    with pytest.raises(OverflowError, match="entry 7 "):
        select(late)


def test_an_overflow_not_in_milliseconds_says_nothing_of_them() -> None:
    with pytest.raises(OverflowError) as raised:
        select([entry(timestamp=NOW + 1e9)])
    assert "milliseconds" not in str(raised.value)


def test_an_integer_timestamp_beyond_float64_is_an_overflow() -> None:
    for timestamp in (-(10**400), 10**400, -(10**5000)):
        with pytest.raises(OverflowError, match="entry 'a'"):
            select([entry(timestamp=timestamp)])


def test_a_negative_half_life_overflows_for_an_old_entry() -> None:
    with pytest.raises(OverflowError, match="entry 'a'") as raised:
        select([entry(timestamp=0.0)], recency_half_life_hours=-24)
    assert "ahead" not in str(raised.value)


def test_recency_runs_up_to_the_largest_float64() -> None:
    last_hours = math.log(1.7e308) / math.log(2) * 24.0
    assert recency(NOW + (last_hours - 1.0) * HOUR) > 1e307
    with pytest.raises(OverflowError):
        recency(NOW + (last_hours + 2.0) * HOUR)


def test_a_future_entry_outranks_by_default() -> None:
    future, relevant = entry("future", timestamp=NOW + 10 * DAY), entry("relevant")
    assert shown(select([future, relevant], {"future": 0.0, "relevant": 1.0})) == [
        ("future", 0.0, 1023.9999999999991, 0.5, 204.94999999999985),
        ("relevant", 1.0, 1.0, 0.5, 0.85),
    ]


def test_clamp_future_counts_a_future_entry_as_new() -> None:
    future, relevant = entry("future", timestamp=NOW + 10 * DAY), entry("relevant")
    rows = select([future, relevant], {"future": 0.0, "relevant": 1.0}, clamp_future=True)
    assert shown(rows) == [("relevant", 1.0, 1.0, 0.5, 0.85), ("future", 0.0, 1.0, 0.5, 0.35)]
    assert recency(NOW * 1000, clamp_future=True) == 1.0
    assert recency(math.inf, clamp_future=True) == 1.0
    assert recency(NOW - 24 * HOUR, clamp_future=True) == recency(NOW - 24 * HOUR)


def test_clamp_future_holds_for_overridden_methods_too() -> None:
    class Plain(MemorySelector):
        def _token_estimate(self, one: Any) -> int:
            return 1

    config = SelectionConfig(clamp_future=True)
    assert shown(Plain(config).select("q", [entry(timestamp=NOW * 1000)])) == [("a", 0.5, 1.0, 0.5, 0.6)]


def test_a_nan_timestamp_drops_its_row_and_no_other() -> None:
    assert ids(select([entry("bad", timestamp=math.nan), entry("ok")])) == ["ok"]


def test_an_infinite_timestamp_is_infinitely_new_or_old() -> None:
    ok = ("ok", 0.5, 1.0, 0.5, 0.6)
    assert shown(select([entry("i", timestamp=math.inf), entry("ok")])) == [("i", 0.5, math.inf, 0.5, math.inf), ok]
    assert shown(select([entry("i", timestamp=-math.inf), entry("ok")])) == [ok, ("i", 0.5, 0.0, 0.5, 0.4)]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (int(NOW) - 3600, 0.9715319411536059),
        (True, 0.0),
        (fractions.Fraction(int(NOW)), 1.0),
        (np.float64(NOW - 3600), 0.9715319411536059),
        (np.float32(NOW - 3600), 0.9716566553724089),
        (np.int64(int(NOW) - 3600), 0.9715319411536059),
    ],
)
def test_a_timestamp_is_any_real_number(timestamp: Any, expected: float) -> None:
    assert recency(timestamp) == expected


@pytest.mark.parametrize(
    "timestamp",
    [
        "1700000000",
        None,
        datetime.datetime(2023, 11, 14),
        decimal.Decimal(1700000000),
        np.datetime64(1700000000, "s"),
    ],
)
def test_a_timestamp_that_is_no_real_number_is_a_type_error(timestamp: Any) -> None:
    with pytest.raises(TypeError) as raised:
        recency(timestamp)
    if type(raised.value) is TypeError:  # NumPy's arithmetic raises one of its own
        assert str(raised.value) == f"entry 'a' has timestamp {timestamp!r}; expected seconds since the epoch"
    with pytest.raises(TypeError):
        select([entry(last_access=timestamp)], recency_from="accessed")


def test_a_half_life_of_zero_divides_by_zero_unless_there_is_nothing_to_score() -> None:
    for half_life in (0, 0.0, -0.0, False):
        config = SelectionConfig(0.5, 0, 0.5, recency_half_life_hours=half_life)
        with pytest.raises(ZeroDivisionError):
            MemorySelector(config).select("q", [entry()])
        with pytest.raises(ZeroDivisionError):
            MemorySelector(config).audit("q", [entry()])
        assert MemorySelector(config).select("q", []) == []
        assert MemorySelector(config).audit("q", []) == []


@pytest.mark.parametrize(
    ("half_life", "hours", "expected"),
    [
        (-24, 720, [("a", 0.5, 1073741823.999999, 0.5, 214748365.19999984)]),
        (math.inf, 1e6, [("a", 0.5, 1.0, 0.5, 0.6)]),
        (math.nan, 1, []),
        (5e-324, 1, [("a", 0.5, 0.0, 0.5, 0.4)]),
        (5e-324, 0, []),
    ],
)
def test_a_degenerate_half_life_is_what_its_arithmetic_gives(half_life: float, hours: float, expected: Any) -> None:
    assert shown(select([entry(timestamp=NOW - HOUR * hours)], recency_half_life_hours=half_life)) == expected


def test_recency_is_the_c_librarys_exp_of_the_documented_exponent() -> None:
    rate = math.log(2) / 24.0
    aged = [entry(n, timestamp=NOW - HOUR * n) for n in range(2000)]
    rows = select(aged, top_k=2000, token_budget=10**9, min_composite_score=-1.0)
    assert len(rows) == 2000
    for row in rows:
        hours = (NOW - row.entry.timestamp) / 3600.0
        assert row.recency_score == math.exp(-rate * hours)


def test_recency_counts_from_creation_unless_the_config_says_from_access() -> None:
    old_but_used = entry("used", timestamp=NOW - 240 * HOUR, last_access=NOW)
    new_but_idle = entry("idle", timestamp=NOW, last_access=NOW - 240 * HOUR)
    assert ids(select([old_but_used, new_but_idle])) == ["idle", "used"]
    assert ids(select([old_but_used, new_but_idle], recency_from="accessed")) == ["used", "idle"]
    assert select([new_but_idle], recency_from="accessed")[0].recency_score == recency(NOW - 240 * HOUR)
    with pytest.raises(OverflowError, match="entry 'a' has last_access"):
        select([entry(last_access=NOW * 1000)], recency_from="accessed")


def test_now_may_be_given_to_every_method(clock: Any) -> None:
    later = NOW + 24 * HOUR
    one = entry()
    selector = MemorySelector()
    expected = 0.5 * 0.5 + 0.2 * math.exp(-(math.log(2) / 24.0) * 24.0) + 0.3 * 0.5
    assert selector.select("q", [one], now=later)[0].composite_score == expected
    assert selector.audit("q", [one], now=later)[0].composite_score == expected
    assert selector.explain("q", [one], now=later) == [selector.select("q", [one], now=later)[0].to_dict()]
    assert selector.select_entries("q", [one], now=later) == [one]
    clock.now = later
    assert selector.select("q", [one])[0].composite_score == expected


def test_the_clock_is_read_once_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def clock() -> float:
        reads.append(NOW)
        return NOW + 1000.0 * len(reads)

    candidates = [entry("a"), entry("b")]
    monkeypatch.setattr("time.time", clock)
    first, second = select(candidates)
    assert len(reads) == 1
    assert first.recency_score == second.recency_score
