"""select_arrays answers as the scalar reference does, bit for bit, whatever columns and limits it is given."""

from __future__ import annotations

import array
import copy
import math
import mmap
import pickle
import random
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import bits
from rows import LARGEST_INT64, MOODS, Query, config, outcome_of, random_query, shown
from worlds import NOW

from memsel import (
    MemoryEntry,
    MemorySelector,
    MemoryType,
    Outcome,
    Selection,
    SelectionConfig,
    select_arrays,
)
from memsel.errors import ColumnError, ColumnTypeError

SIZES = (0, 1, 2, 3, 15, 16, 17, 64, 100, 255, 256, 257, 511, 512, 513, 1000, 3000)


def five_rows() -> Query:
    """Five everyday rows; the default config keeps 0, 3, 1 and 2 of them within 80 tokens."""
    return Query(
        np.array([0.9, 0.1, 0.5, 0.7, 0.5]),
        np.array([NOW, NOW - 3600, NOW - 86400, NOW - 2 * 86400, NOW - 86400]),
        np.array([0.2, 0.9, 0.5, 0.8, 0.5]),
        np.array([10, 10, 40, 20, 40]),
        SelectionConfig(token_budget=80),
    )


FIVE_ROWS_KEPT = [(0, 0.71), (3, 0.6399999999999999), (1, 0.5143063882307213), (2, 0.5)]


def rows_and_scores(selection: Selection) -> list[tuple[int, float]]:
    return list(zip(selection.indices.tolist(), selection.scores.tolist(), strict=True))


# --- as the reference ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize("rows", SIZES)
def test_any_columns_are_selected_from_as_the_reference_does(mood: str, rows: int) -> None:
    rng = random.Random(f"{mood}{rows}")
    for _ in range(3 if rows > 500 else 12):
        random_query(rng, rows, mood).check()


@pytest.mark.parametrize("seed", range(40))
def test_random_queries_of_random_sizes_are_answered_as_the_reference_answers(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(8):
        random_query(rng, int(math.exp(rng.uniform(0.0, 6.5))) - 1).check()


FLOATS = st.one_of(
    st.floats(),
    st.sampled_from((0.0, -0.0, 1.0, 0.5, math.inf, -math.inf, math.nan, 5e-324, 1e300, -1e300, 1.7e308)),
)
TIMES = st.one_of(FLOATS, st.floats(NOW - 1e7, NOW + 1e6), st.sampled_from((NOW, NOW - 86400.0)))
LIMITS = st.one_of(st.integers(-2, 40), st.sampled_from((2.5, math.nan, math.inf, -math.inf, True, 2**63, 2**70, 10.5)))


@settings(max_examples=400)
@given(
    rows=st.lists(st.tuples(FLOATS, TIMES, FLOATS, st.one_of(st.integers(0, 50), st.integers(0, LARGEST_INT64)))),
    weights=st.one_of(st.just((0.5, 0.2, 0.3)), st.tuples(FLOATS, FLOATS, FLOATS)),
    half_life=st.one_of(st.sampled_from((24.0, 1.0, -24.0, 0.0, math.inf, 5e-324)), FLOATS),
    least=FLOATS,
    top_k=LIMITS,
    budget=st.one_of(LIMITS, st.integers(0, 2**65)),
    stops=st.booleans(),
    clamps=st.booleans(),
    now=st.one_of(st.just(NOW), FLOATS),
)
def test_every_float_gives_what_the_reference_gives(
    rows: list[tuple[float, float, float, int]],
    weights: tuple[float, float, float],
    half_life: float,
    least: float,
    top_k: Any,
    budget: Any,
    stops: bool,
    clamps: bool,
    now: float,
) -> None:
    columns = [np.array([row[part] for row in rows], dtype=np.float64) for part in range(3)]
    tokens = np.array([row[3] for row in rows], dtype=np.int64)
    made = config(
        relevance_weight=weights[0],
        recency_weight=weights[1],
        importance_weight=weights[2],
        recency_half_life_hours=half_life,
        min_composite_score=least,
        top_k=top_k,
        token_budget=budget,
        overflow="stop" if stops else "skip",
        clamp_future=clamps,
    )
    Query(*columns, tokens, made, now).check()


@pytest.mark.parametrize("relevance_type", [np.float64, np.float32])
@pytest.mark.parametrize("importance_type", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(6))
def test_float32_scores_count_as_the_float64_of_the_same_value(
    relevance_type: Any, importance_type: Any, seed: int
) -> None:
    rng = random.Random(seed)
    for rows in (1, 16, 17, 300, 2500):
        query = random_query(rng, rows, rng.choice(("tame", "ties", "future")))
        query.relevance = query.relevance.astype(relevance_type)
        query.importance = query.importance.astype(importance_type)
        query.check()


@pytest.mark.parametrize("rows", [65535, 65536, 70001, 131071, 131072, 140000])
@pytest.mark.parametrize("seed", range(3))
def test_large_columns_are_answered_as_the_reference_answers(rows: int, seed: int) -> None:
    """From 65536 rows on a sample gives the first bound, or from 131072 on where 256 rows are ranked."""
    rng = random.Random(rows * 10 + seed)
    query = random_query(rng, rows, ("tame", "ties", "wild")[seed])
    query.config = config(
        top_k=rng.choice((1, 10, 300)),
        token_budget=rng.choice((3000, 10**9)),
        clamp_future=True,
        relevance_weight=rng.choice((0.5, -0.5)),
    )
    query.check()


@pytest.mark.parametrize("rows", [70000, 140000])
@pytest.mark.parametrize("order", ["equal", "ascending", "descending", "best last", "best first", "ties at the bound"])
def test_large_sorted_and_tied_columns_keep_input_order(rows: int, order: str) -> None:
    relevance = np.linspace(0.0, 1.0, rows)
    if order == "equal":
        relevance[:] = 0.5
    elif order == "descending":
        relevance = relevance[::-1].copy()
    elif order == "best last":
        relevance[:] = 0.5
        relevance[-3:] = 0.75
    elif order == "best first":
        relevance[:] = 0.5
        relevance[:3] = 0.75
    elif order == "ties at the bound":
        # Only every 64th row can be in the sample; the bound it gives is shared by rows before, between and behind.
        relevance[:] = 0.25
        relevance[1::7] = 0.5
        relevance[::64] = 0.5
        relevance[rows // 2] = 0.75
    for top_k in (1, 10, 257):
        for tokens in (None, np.full(rows, 7)):
            made = config(top_k=top_k, token_budget=7 * 300)
            Query(relevance, np.full(rows, NOW), np.full(rows, 0.5), tokens, made).check()


@pytest.mark.parametrize("rows", [300, 5000])
def test_when_most_rows_do_not_fit_the_rest_of_the_order_is_still_walked(rows: int) -> None:
    rng = np.random.default_rng(rows)
    tokens = rng.integers(1000, 2000, rows)
    tokens[rng.random(rows) < 0.01] = 3
    tokens[rng.random(rows) < 0.01] = 0
    for budget in (0, 2, 3, 999, 1000, 2500, 10**4):
        for top_k in (1, 10, 10**6):
            for overflow in ("skip", "stop"):
                made = config(top_k=top_k, token_budget=budget, overflow=overflow)
                Query(rng.random(rows), NOW - rng.random(rows) * 1e6, rng.random(rows), tokens, made).check()


def test_sums_of_tokens_pass_the_end_of_int64() -> None:
    tokens = np.array([LARGEST_INT64, LARGEST_INT64, 1, 0, LARGEST_INT64, 2, LARGEST_INT64])
    zeros = np.zeros(len(tokens))
    for budget in (0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, 2**64, 2**65, 2**66, 2**70, 2**200, 1e19, 1.9e19):
        for overflow in ("skip", "stop"):
            Query(zeros + 1.0, zeros + NOW, zeros, tokens, config(token_budget=budget, overflow=overflow)).check()
    answer = Query(zeros + 1.0, zeros + NOW, zeros, tokens, config(token_budget=2**70)).answer()
    assert answer.tokens_used == 4 * LARGEST_INT64 + 3


def test_rows_without_tokens_fit_a_budget_of_nothing() -> None:
    query = Query(np.ones(3), np.full(3, NOW), np.ones(3), np.array([0, 1, 0]), config(token_budget=0))
    query.check()
    assert query.answer().indices.tolist() == [0, 2]
    query.config = config(token_budget=-1)
    query.check()
    assert len(query.answer()) == 0


def test_without_a_column_of_tokens_there_is_no_budget() -> None:
    answer = select_arrays(np.ones(20), np.full(20, NOW), np.ones(20), config=config(token_budget=0), now=NOW)
    assert (len(answer), answer.tokens_used) == (10, 0)


def test_opposite_infinite_magnitudes_cancel_as_in_the_reference() -> None:
    query = Query(
        np.array([1e300, 1.0, 1e300, math.inf]),
        np.full(4, NOW),
        np.array([-1e300, 1.0, -1.00001e300, -math.inf]),
        None,
        config(relevance_weight=1.0, importance_weight=1.0, min_composite_score=-math.inf),
    )
    query.check()
    assert query.answer().indices.tolist() == [1, 0, 2]


def test_a_row_that_is_not_a_number_leaves_and_moves_no_other() -> None:
    for part in ("relevance", "timestamp", "importance"):
        for rows in (4, 100, 1000):
            query = Query(
                np.tile([0.3, 0.9, 0.2, 0.1], rows // 4), np.full(rows, NOW), np.full(rows, 0.5), None, config(top_k=6)
            )
            getattr(query, part)[::2] = math.nan
            query.check()
            kept = query.answer().indices
            assert len(kept) and (kept % 2 == 1).all()
            getattr(query, part)[:] = math.nan
            query.check()
            assert len(query.answer()) == 0
    query = Query(np.array([math.nan, 0.9, math.nan, 0.1] * 25), np.full(100, NOW), np.full(100, 0.5), None, config())
    query.config.token_budget, query.tokens, query.config.top_k = 60, np.full(100, 10), 10
    assert query.answer().indices.tolist() == [1, 5, 9, 13, 17, 21]


# --- as the object door ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_objects_with_the_same_numbers_are_selected_alike(seed: int) -> None:
    rng = random.Random(seed)
    query = random_query(rng, rng.choice((1, 5, 17, 100, 700)), rng.choice(("tame", "ties", "future")))
    query.tokens = np.maximum(1, np.asarray(query.timestamp if query.tokens is None else query.tokens) % 90).astype(int)
    entries = []
    for row in range(len(query)):
        entry = MemoryEntry(
            "x" * (4 * int(query.tokens[row])),
            float(query.timestamp[row]),
            MemoryType.SHORT_TERM,
            metadata={"id": f"id{row}"},
        )
        entry.importance = float(query.importance[row])
        entries.append(entry)
    scores = {f"id{row}": score for row, score in enumerate(query.relevance.tolist())}
    selector = MemorySelector(query.config)
    try:
        chosen = selector.select("query", entries, scores, now=query.now)
    except OverflowError as error:
        assert f"entry 'id{outcome_of(query.answer)[1]}'" in str(error)
        return
    answer = query.answer()
    assert [int(scored.entry.id[2:]) for scored in chosen] == answer.indices.tolist()
    for name, column in (
        ("composite_score", answer.scores),
        ("relevance_score", answer.relevance),
        ("recency_score", answer.recency),
        ("importance_score", answer.importance),
    ):
        assert bits([getattr(scored, name) for scored in chosen]) == bits(column.tolist())
    audited = selector.audit("query", entries, scores, now=query.now)
    assert [row.outcome for row in audited] == answer.outcomes.tolist()


def test_outcome_codes_are_those_of_the_object_door() -> None:
    answer = Query(
        np.array([0.9, 0.0, 0.8, 0.7, 0.6]),
        np.full(5, NOW),
        np.zeros(5),
        np.array([5, 1, 50, 5, 5]),
        config(min_composite_score=0.3, top_k=2, token_budget=20),
    ).answer()
    assert [Outcome(code) for code in answer.outcomes.tolist()] == [
        Outcome.KEPT,
        Outcome.BELOW_MIN_SCORE,
        Outcome.OVER_BUDGET,
        Outcome.KEPT,
        Outcome.PAST_TOP_K,
    ]


# --- limits ----------------------------------------------------------------------------------------------------------

ODD_NUMBERS = (
    0, -1, -5, 1, 2, 2.5, 2.0, -0.5, -0.0, 9, 10, 10.5, 25, 1e300, 5e-324, math.nan, math.inf, -math.inf, True, False,
    2**63, 2**63 - 1, -(2**63), 2**70, -(2**70), 10**400, np.int64(2), np.int8(3), np.uint64(2**64 - 1),
    np.float64(2.5), np.float32(2.5), np.float16(2.5), np.float32(math.nan), np.array(2), np.array(2.5),
    Fraction(5, 2), Fraction(-1, 3), Decimal("2.5"), Decimal("Infinity"), Decimal("-Infinity"),
)  # fmt: skip


@pytest.mark.parametrize("limit", ODD_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", ["top_k", "token_budget", "min_composite_score"])
def test_limits_compare_as_python_numbers_do(name: str, limit: Any) -> None:
    query = five_rows()
    query.config = config(**{"token_budget": 80, name: limit})
    query.check()
    query.relevance = query.relevance * 5.0
    query.check()


@pytest.mark.parametrize("limit", [None, "2", b"2", 1j, [2], object()], ids=repr)
@pytest.mark.parametrize("name", ["top_k", "token_budget", "min_composite_score", "recency_weight"])
def test_a_limit_that_is_no_number_is_a_type_error(name: str, limit: Any) -> None:
    query = five_rows()
    query.config = config(**{name: limit})
    with pytest.raises(TypeError, match=name):
        query.answer()


def test_a_minimum_between_two_floats_keeps_the_upper_one_only() -> None:
    below, above = 0.5, math.nextafter(0.5, 1.0)
    between = (Fraction(below) + Fraction(above)) / 2
    zeros = np.zeros(2)
    made = config(relevance_weight=1.0, min_composite_score=between)
    query = Query(np.array([below, above]), zeros - math.inf, zeros, None, made)
    query.check()
    assert query.answer().indices.tolist() == [1]


@pytest.mark.parametrize("top_k", [10**6, 2**63, -1, 3, 4])
def test_more_than_all_rows_is_all_rows(top_k: int) -> None:
    query = Query(np.array([0.3, 0.2, 0.1]), np.full(3, NOW), np.full(3, 0.5), None, config(top_k=top_k))
    query.check()
    expected = [] if top_k < 0 else [(0, 0.5), (1, 0.45000000000000007), (2, 0.4)]
    assert rows_and_scores(query.answer()) == expected


def test_numbers_of_other_types_weigh_as_their_float64_values() -> None:
    plain = five_rows().answer()
    fields = {"relevance_weight": Fraction(1, 2), "recency_weight": np.float64(0.2), "importance_weight": 0.3}
    odd = five_rows()
    odd.config = config(**fields, token_budget=np.int32(80), recency_half_life_hours=np.int64(24), top_k=np.uint8(10))
    odd.now = np.int64(NOW)
    assert shown(odd.answer()) == shown(plain)
    odd.now = np.array(NOW)
    assert shown(odd.answer()) == shown(plain)


@pytest.mark.parametrize("now", ["1700000000", b"1", 1j, [NOW], Decimal(1)], ids=repr)
def test_a_clock_that_is_no_number_is_a_type_error(now: Any) -> None:
    with pytest.raises(TypeError, match="now is"):
        select_arrays(*five_rows().columns, now=now)


def test_now_is_read_from_the_clock_when_not_given(clock: Any) -> None:
    clock.now = NOW + 7200.0
    columns = five_rows().columns
    assert shown(select_arrays(*columns)) == shown(select_arrays(*columns, now=NOW + 7200.0))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 17, 600, 70000])
def test_the_first_overflow_in_input_order_is_named_even_where_a_filter_would_drop_it(rows: int) -> None:
    for first in {1, rows // 2, rows - 1}:
        query = Query(np.ones(rows), np.full(rows, NOW), np.ones(rows), np.ones(rows, int), config())
        query.timestamp[first:] = 1.7e12
        query.relevance[first:] = -1e6
        with pytest.raises(OverflowError, match=rf"^timestamp\[{first}\] is 1700000000000\.0, .*milliseconds"):
            query.answer()
        for fields in ({"top_k": 0}, {"token_budget": -1}, {"min_composite_score": math.inf}, {"recency_weight": 0.0}):
            query.config = config(**fields)
            query.check()
            assert outcome_of(query.answer) == ("OverflowError", first)


def test_clamped_future_dates_overflow_nowhere() -> None:
    query = Query(np.ones(3), np.full(3, 1.7e12), np.ones(3), None, config(clamp_future=True))
    query.check()
    assert query.answer().recency.tolist() == [1.0, 1.0, 1.0]


def test_a_half_life_of_nothing_is_an_error_unless_there_are_no_rows() -> None:
    query = five_rows()
    for half_life in (0, 0.0, -0.0, False, Fraction(0)):
        query.config = config(recency_half_life_hours=half_life)
        with pytest.raises(ZeroDivisionError):
            query.answer()
        assert len(query.rows(0, 0).answer()) == 0


@pytest.mark.parametrize("rows", [0, 5])
def test_columns_have_no_time_of_last_access(rows: int) -> None:
    made = five_rows().rows(0, rows)
    with pytest.raises(ValueError, match="last access as the timestamp"):
        select_arrays(*made.columns, config=SelectionConfig(recency_from="accessed"))


@pytest.mark.parametrize("field", ["overflow", "recency_from"])
def test_an_unknown_word_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 'sometimes'"):
        select_arrays(*five_rows().columns, config=config(**{field: "sometimes"}))


@pytest.mark.parametrize("rows", [3, 1023, 1024, 1025, 5000])
def test_a_negative_number_of_tokens_names_its_row(rows: int) -> None:
    for at in {0, rows // 2, rows - 1}:
        for kind in (np.int64, np.int32):
            tokens = np.full(rows, 10, kind)
            tokens[at:] = -5
            with pytest.raises(ColumnError, match=rf"^tokens\[{at}\] is -5; expected 0 or more$"):
                select_arrays(np.ones(rows), np.full(rows, NOW), np.ones(rows), tokens, config=config(token_budget=12))


@pytest.mark.parametrize("name", ["relevance", "timestamp", "importance", "tokens"])
def test_a_column_of_another_length_or_shape_is_named(name: str) -> None:
    query = five_rows()
    column = getattr(query, name)
    for wrong, message in (
        (column[:4], "5 rows, .* has 4|4 rows, .* has 5"),
        (column.reshape(-1, 1), f"{name} has shape"),
        (column[0], f"{name} is a single value"),
        (np.stack([column, column]), f"{name} has shape"),
    ):
        setattr(query, name, wrong)
        with pytest.raises(ColumnError, match=message):
            query.answer()


@pytest.mark.parametrize("name", ["relevance", "timestamp", "importance", "tokens"])
@pytest.mark.parametrize(
    "wrong",
    [np.array([1j] * 5), np.array([object()] * 5), ["a"] * 5, "abcde", b"abcde", 5, object(), [{}] * 5],
)
def test_a_column_that_is_not_made_of_numbers_is_a_type_error(name: str, wrong: Any) -> None:
    query = five_rows()
    setattr(query, name, wrong)
    with pytest.raises(ColumnTypeError, match=name):
        query.answer()


def test_none_is_no_column_but_that_of_tokens() -> None:
    for name in ("relevance", "timestamp", "importance"):
        query = five_rows()
        setattr(query, name, None)
        with pytest.raises(ColumnTypeError, match=f"{name} is None"):
            query.answer()


# --- what columns may be ---------------------------------------------------------------------------------------------


def test_no_rows_give_an_empty_selection() -> None:
    empty = np.empty(0)
    for columns in ((empty,) * 4, (empty, empty, empty, empty.astype(int)), ([], [], [], []), (empty,) * 3):
        for half_life in (24.0, 0.0):
            answer = select_arrays(*columns, config=config(recency_half_life_hours=half_life), outcomes=True)
            assert (len(answer), answer.tokens_used, answer.outcomes.tolist()) == (0, 0, [])
            assert answer.indices.dtype == np.int64
            assert {answer.scores.dtype, answer.relevance.dtype, answer.recency.dtype} == {np.dtype(np.float64)}


def read_only(column: Any) -> Any:
    column = column.copy()
    column.setflags(write=False)
    return column


def shared_pages(column: Any) -> Any:
    pages = mmap.mmap(-1, column.nbytes)
    pages.write(column.tobytes())
    return np.frombuffer(pages, column.dtype)


def unaligned(column: Any) -> Any:
    return np.frombuffer(b"\0" + column.tobytes(), np.uint8)[1:].view(column.dtype)


class SimpleArray:
    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


LAYOUTS = {
    "read-only": read_only,
    "bytes": lambda column: np.frombuffer(column.tobytes(), column.dtype),
    "shared pages": shared_pages,
    "subclass": lambda column: column.view(np.recarray),
    "memoryview": memoryview,
    "array.array": lambda column: array.array("d" if column.dtype.kind == "f" else "q", column.tolist()),
    "list": lambda column: column.tolist(),
    "tuple": lambda column: tuple(column.tolist()),
    "byte-swapped": lambda column: column.astype(column.dtype.newbyteorder()),
    "every second": lambda column: np.repeat(column, 2)[::2],
    "reversed twice": lambda column: column[::-1].copy()[::-1],
    "column of a matrix": lambda column: np.stack([column, column, column], axis=1)[:, 1],
    "unaligned": unaligned,
    "masked, without a mask": np.ma.masked_array,
    "longdouble or int32": lambda column: column.astype(np.longdouble if column.dtype.kind == "f" else np.int32),
    "object with __array__": SimpleArray,
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("only", [None, "relevance", "timestamp", "importance", "tokens"])
def test_any_layout_gives_the_same_selection(layout: str, only: str | None) -> None:
    plain, query = five_rows(), five_rows()
    for name in [only] if only else ("relevance", "timestamp", "importance", "tokens"):
        setattr(query, name, LAYOUTS[layout](getattr(plain, name)))
    assert shown(query.answer()) == shown(plain.answer())
    assert rows_and_scores(query.answer()) == FIVE_ROWS_KEPT


def test_a_broadcast_value_counts_for_every_row() -> None:
    query = five_rows()
    query.importance = np.broadcast_to(0.5, 5)
    assert rows_and_scores(query.answer()) == [
        (0, 0.8),
        (3, 0.5499999999999999),
        (2, 0.5),
        (1, 0.39430638823072117),
    ]


def test_memory_mapped_files_are_read_where_they_are(tmp_path: Any) -> None:
    query = five_rows()
    for name in ("relevance", "timestamp", "importance", "tokens"):
        getattr(query, name).tofile(tmp_path / name)
        kind = np.int64 if name == "tokens" else np.float64
        setattr(query, name, np.memmap(tmp_path / name, kind, mode="r"))
    assert rows_and_scores(query.answer()) == FIVE_ROWS_KEPT
    del query


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_a_masked_score_is_a_score_never_given_and_a_masked_time_leaves_the_row_out(kind: Any) -> None:
    mask = [True, False, False, False, False]
    query = five_rows()
    query.relevance = np.ma.masked_array((query.relevance * 10).astype(kind), mask)
    plain = five_rows()
    plain.relevance = np.array([0.5, *(plain.relevance * 10).astype(kind)[1:]])
    assert shown(query.answer()) == shown(plain.answer())
    for name in ("timestamp", "importance"):
        query = five_rows()
        setattr(query, name, np.ma.masked_array(getattr(query, name), mask))
        assert 0 not in query.answer().indices.tolist()
    query = five_rows()
    query.tokens = np.ma.masked_array(query.tokens, mask)
    with pytest.raises(ColumnError, match=r"tokens\[0\] is null"):
        query.answer()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_datetimes_of_every_unit_give_the_recency_of_epoch_seconds(unit: str) -> None:
    query = five_rows()
    query.timestamp = query.timestamp.astype("M8[s]").astype(f"M8[{unit}]")
    assert shown(query.answer()) == shown(five_rows().answer())
    query.timestamp[0] = "NaT"
    assert query.answer().indices.tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (np.float16, [(1, 0.70009765625), (0, 0.5000244140625), (2, 0.39998779296875)]),
        (np.float32, [(1, 0.6999999940395355), (0, 0.5000000059604645), (2, 0.40000000074505804)]),
    ],
)
def test_narrow_scores_are_widened_before_they_are_weighed(kind: Any, expected: list[tuple[int, float]]) -> None:
    query = Query(np.array([0.3, 0.7, 0.1], kind), np.full(3, NOW), np.full(3, 0.5), None, config())
    query.check()
    assert rows_and_scores(query.answer()) == expected


def test_whole_and_boolean_scores_are_numbers() -> None:
    for column in (np.array([0, 1, 1]), np.array([False, True, True]), [0, True, 1]):
        answer = select_arrays(column, np.full(3, NOW), np.full(3, 0.5), now=NOW)
        assert answer.indices.tolist() == [1, 2, 0]
        assert answer.relevance.tolist() == [1.0, 1.0, 0.0]


# --- what stays untouched --------------------------------------------------------------------------------------------


def test_nothing_that_came_in_is_changed() -> None:
    rng = random.Random(3)
    for mood in MOODS:
        query = random_query(rng, 700, mood)
        before = copy.deepcopy(query)
        outcome_of(query.answer)
        for now, then in zip(query.columns, before.columns, strict=True):
            assert (now is None and then is None) or now.tobytes() == then.tobytes()
        assert query.config.__dict__.keys() == before.config.__dict__.keys()


def test_a_selection_owns_its_arrays() -> None:
    query = five_rows()
    answer = query.answer()
    arrays = [answer.indices, answer.scores, answer.relevance, answer.recency, answer.importance, answer.outcomes]
    for made in arrays:
        assert made.flags.writeable
        assert not any(np.shares_memory(made, column) for column in query.columns)
    assert not np.shares_memory(answer.scores, answer.relevance)
    query.relevance[:] = 0.0
    assert rows_and_scores(answer) == FIVE_ROWS_KEPT
    answer.scores[0] = 7.0
    assert answer.scores[0] == 7.0


def test_arrays_are_made_once_and_only_when_asked_for() -> None:
    query = five_rows()
    answer = query.answer()
    query.relevance[:], query.importance[:], query.timestamp[:], query.tokens[:] = -1.0, -1.0, 0.0, 0
    assert rows_and_scores(answer) == FIVE_ROWS_KEPT
    assert (answer.tokens_used, len(answer)) == (80, 4)
    for name in ("indices", "scores", "relevance", "recency", "importance"):
        assert getattr(answer, name) is getattr(answer, name)
        assert len(getattr(answer, name)) == 4
        with pytest.raises(AttributeError):
            setattr(answer, name, None)


def test_a_selection_shows_what_it_holds() -> None:
    answer = five_rows().answer(outcomes=False)
    assert repr(answer) == (
        "Selection(indices=[0, 3, 1, 2], scores=[0.71, 0.6399999999999999, 0.5143063882307213, 0.5], tokens_used=80)"
    )
    assert answer.outcomes is None
    assert answer.indices.dtype == np.int64
    for name in ("scores", "relevance", "recency", "importance"):
        assert getattr(answer, name).dtype == np.float64
    assert five_rows().answer().outcomes.dtype == np.uint8


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, *(lambda one, p=p: pickle.loads(pickle.dumps(one, p)) for p in range(2, 6))],
)
def test_a_selection_can_be_copied_and_pickled(duplicate: Any) -> None:
    tokens = np.array([LARGEST_INT64, LARGEST_INT64, 5, 0, LARGEST_INT64])
    for answer in (
        five_rows().answer(),
        five_rows().answer(outcomes=False),
        five_rows().rows(0, 0).answer(),
        Query(*five_rows().columns[:3], tokens, config(token_budget=2**70)).answer(),
    ):
        again = duplicate(answer)
        assert type(again) is Selection
        assert shown(again) == shown(answer)
        assert again.scores is not answer.scores


# --- other threads ---------------------------------------------------------------------------------------------------


def test_columns_that_another_thread_writes_into_give_some_valid_selection() -> None:
    rng = np.random.default_rng(9)
    rows = 20000
    query = Query(rng.random(rows), NOW - rng.random(rows) * 1e6, rng.random(rows), rng.integers(0, 99, rows), config())
    done = threading.Event()

    def write() -> None:
        draw = np.random.default_rng(10)
        while not done.is_set():
            at = draw.integers(0, rows, 500)
            query.relevance[at] = draw.choice((draw.random(), math.nan, math.inf, -1e300), 500)
            query.timestamp[at] = NOW - draw.random() * 1e7
            query.importance[at] = draw.random()
            query.tokens[at] = draw.integers(0, 3000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for top_k in (1, 10, 400, rows) * 15:
            query.config = config(top_k=top_k, token_budget=10**5)
            answer = query.answer()
            kept = answer.indices.tolist()
            assert len(set(kept)) == len(kept) <= top_k
            assert all(0 <= row < rows for row in kept)
            assert sorted(answer.scores.tolist(), reverse=True) == answer.scores.tolist()
            assert answer.outcomes.max() <= 3
    finally:
        done.set()
        writer.join()


def test_many_threads_share_columns_and_config() -> None:
    query = random_query(random.Random(2), 5000, "tame")
    expected = shown(query.answer())
    wrong: list[Any] = []

    def select() -> None:
        for _ in range(40):
            if shown(query.answer()) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=select) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_gil_is_released_over_large_columns() -> None:
    rows = 400_000
    query = Query(np.arange(rows) / rows, np.full(rows, NOW), np.zeros(rows), None, config(top_k=rows // 4))
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # a thread that does not let the GIL go keeps it
    counter = threading.Thread(target=count)
    try:
        counter.start()
        before = counted
        for _ in range(3):
            query.answer(outcomes=False)
        during = counted - before
    finally:
        done.set()
        sys.setswitchinterval(interval)
        counter.join()
    assert during > 0


@pytest.mark.parametrize("kind", ["bytearray", "array.array"])
def test_a_buffer_cannot_be_resized_while_it_is_selected_from(kind: str) -> None:
    """The clock's number is read while the buffers are held, so a clock that resizes meets the lock."""
    rows = 5
    held: Any = bytearray(np.full(rows, 0.5).tobytes()) if kind == "bytearray" else array.array("d", [0.5] * rows)
    column = memoryview(held).cast("d") if kind == "bytearray" else held
    refused = []

    class Resizing:
        overflow = "skip"

        def __getattr__(self, name: str) -> Any:
            with pytest.raises(BufferError):
                held.extend(held[:8])
            refused.append(name)
            return getattr(SelectionConfig(), name)

    answer = select_arrays(column, np.full(rows, NOW), np.full(rows, 0.5), config=Resizing(), now=NOW)
    assert len(answer) == rows
    assert "top_k" in refused
    if kind == "bytearray":
        column.release()
    held.extend(held[:8])


# --- memory ----------------------------------------------------------------------------------------------------------

MEMORY = """
import resource, sys, tracemalloc
import numpy as np
from memsel import select_arrays
rows = 2_000_000
rng = np.random.default_rng(1)
kind = sys.argv[1]
columns = (rng.random(rows, kind), 1.7e9 - rng.random(rows) * 1e7, rng.random(rows, kind), rng.integers(10, 121, rows))
select_arrays(*(column[:1000] for column in columns), now=1.7e9)
for column in columns:
    column.sum()
tracemalloc.start()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
answer = select_arrays(*columns, now=1.7e9)
print(tracemalloc.get_traced_memory()[1], (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
assert len(answer) == 10
"""


@pytest.mark.skipif(sys.platform != "linux", reason="maxrss is counted in kilobytes on Linux only")
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_two_million_rows_take_less_than_four_mebibytes_above_the_columns(kind: str) -> None:
    ran = subprocess.run([sys.executable, "-c", MEMORY, kind], capture_output=True, text=True, check=True, timeout=300)
    allocated, resident = map(int, ran.stdout.split())
    assert allocated < 4 * 2**20
    assert resident < 4 * 2**20
