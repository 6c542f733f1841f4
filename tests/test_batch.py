"""select_batch answers every query as select_arrays does alone, for any number of threads, and stops when it has to."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import MOODS, Query, config, outcome_of, random_config, random_query, shown
from worlds import NOW

from memsel import Selection, SelectionConfig, _core, arrays, select_arrays, select_batch
from memsel.errors import ColumnError, ColumnTypeError

THREADS = (1, 2, 8)


def shared_rows(rng: random.Random, rows: int) -> Query:
    query = random_query(rng, rows, rng.choice(("tame", "ties", "future")))
    query.config = random_config(rng, rows)
    query.config.recency_weight = abs(query.config.recency_weight)
    return query


def end_to_end(queries: list[Query]) -> tuple[tuple[Any, ...], Any]:
    """The columns of all queries, one behind the other, and the offsets."""
    columns = tuple(
        np.concatenate([getattr(query, name) for query in queries] or [np.empty(0, int)])
        for name in ("relevance", "timestamp", "importance", "tokens")
    )
    return columns, np.cumsum([0] + [len(query) for query in queries])


def many_queries(rng: random.Random, sizes: list[int]) -> list[Query]:
    queries = [random_query(rng, rows, rng.choice(("tame", "ties", "future"))) for rows in sizes]
    for query in queries:
        if query.tokens is None:
            query.tokens = np.ones(len(query), int)
        query.config.recency_half_life_hours = 24.0 * 30  # no date ahead is then too far
    return queries


def alone(queries: list[Query], outcomes: bool = True) -> list[Any]:
    return [shown(query.answer(outcomes)) for query in queries]


# --- candidates of their own -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(
    "sizes",
    [[], [0], [0, 0, 0], [1], [0, 1, 16, 17, 1000, 0, 3], [5000, 1, 1, 1, 1], [40] * 60, [513, 0, 511, 512, 2049]],
)
def test_queries_over_their_own_rows_are_answered_as_alone(sizes: list[int], threads: int) -> None:
    queries = many_queries(random.Random(str(sizes)), sizes)
    columns, offsets = end_to_end(queries)
    for outcomes in (False, True):
        answers = select_batch(
            *columns,
            offsets=offsets,
            config=[query.config for query in queries],
            now=[query.now for query in queries],
            outcomes=outcomes,
            threads=threads,
        )
        assert all(type(answer) is Selection for answer in answers)
        assert [shown(answer) for answer in answers] == alone(queries, outcomes)
    common = [replace(query, config=SelectionConfig(top_k=3), now=NOW + 5.0) for query in queries]
    answers = select_batch(*columns, offsets=offsets, config=SelectionConfig(top_k=3), now=NOW + 5.0, threads=threads)
    assert [shown(answer) for answer in answers] == alone(common, outcomes=False)


def test_offsets_may_be_any_integers() -> None:
    queries = many_queries(random.Random(4), [3, 0, 20])
    columns, offsets = end_to_end(queries)
    expected = alone([replace(query, config=None) for query in queries], outcomes=False)
    for given_offsets in (offsets.tolist(), tuple(offsets.tolist()), offsets.astype(np.uint32), offsets.astype(">i2")):
        answers = select_batch(*columns, offsets=given_offsets, now=NOW)
        assert [shown(answer) for answer in answers] == expected


@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32), (np.float32, np.float32)])
def test_float32_columns_are_cut_where_the_offsets_say(kinds: Any) -> None:
    queries = many_queries(random.Random(5), [7, 100, 0, 33])
    for query in queries:
        query.relevance, query.importance = query.relevance.astype(kinds[0]), query.importance.astype(kinds[1])
    columns, offsets = end_to_end(queries)
    answers = select_batch(*columns, offsets=offsets, config=[query.config for query in queries], now=NOW)
    assert [shown(answer) for answer in answers] == alone(queries, outcomes=False)


def test_a_query_of_numbers_that_are_none_keeps_nothing_and_disturbs_no_other() -> None:
    queries = many_queries(random.Random(6), [50, 50, 50])
    queries[1].relevance[:] = np.nan
    columns, offsets = end_to_end(queries)
    for threads in THREADS:
        answers = select_batch(
            *columns,
            offsets=offsets,
            config=[query.config for query in queries],
            now=NOW,
            threads=threads,
            outcomes=True,
        )
        assert [shown(answer) for answer in answers] == alone(queries)
        assert len(answers[1]) == 0


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([], "offsets is empty"),
        ([1, 5], r"offsets\[0\] is 1"),
        ([0, 4], r"offsets\[1\] is 4; expected 5"),
        ([0, 3, 2, 5], r"offsets\[2\] is 2"),
        ([0, 6, 5], r"offsets\[2\] is 5"),
        ([[0, 5]], "offsets"),
    ],
)
def test_offsets_that_do_not_cut_the_rows_are_refused(offsets: Any, message: str) -> None:
    five = np.full(5, 0.5)
    with pytest.raises(ColumnError, match=message):
        select_batch(five, five, five, offsets=offsets, now=NOW)


# --- shared candidates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("count", "rows"), [(0, 5), (1, 0), (3, 0), (1, 1), (7, 17), (20, 600), (3, 3000)])
def test_a_matrix_of_scores_gives_each_query_its_row(count: int, rows: int, kind: Any, threads: int) -> None:
    rng = random.Random(count * 10_000 + rows)
    common = shared_rows(rng, rows)
    matrix = np.random.default_rng(rows).random((count, rows)).astype(kind)
    configs = [random_config(rng, rows) for _ in range(count)]
    clocks = [NOW + rng.choice((0.0, 1.0, 1e5)) for _ in range(count)]
    queries = [
        replace(common, relevance=row, config=one, now=now)
        for row, one, now in zip(matrix, configs, clocks, strict=True)
    ]
    expected = [outcome_of(query.answer) for query in queries]
    answers = select_batch(matrix, *common.columns[1:], config=configs, now=clocks, outcomes=True, threads=threads)
    assert [shown(answer) for answer in answers] == expected


def test_a_matrix_may_be_lists_or_of_any_layout() -> None:
    common = shared_rows(random.Random(8), 12)
    matrix = np.random.default_rng(8).random((3, 12))
    expected = alone([replace(common, relevance=row) for row in matrix], outcomes=False)
    for layout in (
        matrix.tolist(),
        list(matrix),
        np.asfortranarray(matrix),
        np.repeat(matrix, 2, axis=1)[:, ::2],
        matrix.astype(">f8"),
        np.ma.masked_array(matrix),
    ):
        answers = select_batch(layout, *common.columns[1:], config=common.config, now=NOW)
        assert [shown(answer) for answer in answers] == expected


def test_a_matrix_of_another_shape_is_refused() -> None:
    five = np.full(5, 0.5)
    for wrong in (five, np.zeros((2, 4)), np.zeros((2, 5, 1)), [five, five[:4]]):
        with pytest.raises(ColumnError, match="relevance"):
            select_batch(wrong, five, five, now=NOW)
    with pytest.raises(ColumnTypeError, match="relevance is None"):
        select_batch(None, five, five, now=NOW)
    with pytest.raises(ColumnTypeError, match="relevance is None"):
        select_batch(None, five, five, offsets=[0, 5], now=NOW)


# --- sparse scores ---------------------------------------------------------------------------------------------------


def dense(rows: int, places: Any, scores: Any) -> Any:
    row = np.full(rows, 0.5)
    for place, score in zip(places, scores, strict=True):
        row[place] = score
    return row


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("count", "rows"), [(0, 5), (2, 0), (5, 1), (9, 40), (30, 700), (4, 3000)])
def test_sparse_scores_count_as_a_half_elsewhere(count: int, rows: int, threads: int) -> None:
    rng = random.Random(count * 10_000 + rows)
    common = shared_rows(rng, rows)
    sizes = [rng.choice((0, 1, 10, 3 * rows)) if rows else 0 for _ in range(count)]
    indptr = np.cumsum([0, *sizes])
    places = np.array([rng.randrange(rows) for _ in range(indptr[-1])], dtype=np.int64)
    scores = np.array([rng.choice((rng.random(), -1.0, 0.5, np.nan)) for _ in places])
    queries = [
        replace(common, relevance=dense(rows, places[first:last], scores[first:last]))
        for first, last in itertools.pairwise(indptr)
    ]
    expected = [outcome_of(query.answer) for query in queries]
    for kind in (np.float64, np.float32):
        if kind is np.float32:
            scores = scores.astype(np.float32)
            expected = [
                outcome_of(replace(common, relevance=dense(rows, places[first:last], scores[first:last])).answer)
                for first, last in itertools.pairwise(indptr)
            ]
        answers = select_batch(
            (indptr, places, scores),
            *common.columns[1:],
            config=common.config,
            now=NOW,
            outcomes=True,
            threads=threads,
        )
        assert [shown(answer) for answer in answers] == expected


def test_of_a_row_named_twice_the_last_score_counts() -> None:
    rows = np.full(3, 0.5)
    made = config(relevance_weight=1.0, recency_weight=0.0, importance_weight=0.0)
    answers = select_batch(
        ([0, 3, 3, 4], [1, 0, 1, 1], [0.9, 0.8, 0.1, 0.7]),
        rows,
        rows,
        config=made,
        now=NOW,
    )
    assert [answer.scores.tolist() for answer in answers] == [[0.8, 0.5, 0.1], [0.5, 0.5, 0.5], [0.7, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        (([0, 1], [5], [0.5]), r"rows\[0\] is 5; expected 0 to 4"),
        (([0, 1], [-1], [0.5]), r"rows\[0\] is -1"),
        (([0, 2], [1], [0.5]), r"indptr\[1\] is 2"),
        (([1, 1], [1], [0.5]), r"indptr\[0\] is 1"),
        (([], [], []), "indptr is empty"),
        (([0, 1], [1], [0.5, 0.5]), "rows has 1 rows, scores has 2"),
        (([0, 1], [1]), "tuple of 2"),
    ],
)
def test_sparse_scores_that_do_not_fit_are_refused(relevance: Any, message: str) -> None:
    five = np.full(5, 0.5)
    with pytest.raises(ColumnError, match=message):
        select_batch(relevance, five, five, now=NOW)


def test_places_written_to_after_their_check_are_refused_and_not_followed() -> None:
    five = np.full(5, 0.5)
    held = _core.buffers(None, five, five, None)
    plan = _core.plan(SelectionConfig(), NOW, False)
    scores = np.full(2, 0.5)
    for starts, rows in (([0, 2], [0, 5]), ([0, 2], [0, -1]), ([0, 3], [0, 1]), ([-1, 2], [0, 1]), ([0], [0, 1])):
        with pytest.raises(ValueError, match=r"written to|too few"):
            _core.Batch(1, held, [plan], None, None, (np.array(starts), np.array(rows), scores), None)
    held = _core.buffers(five, five, five, None)
    for offsets in ([0, 6], [-1, 5], [3, 2], [2**62, 2**63 - 1]):
        with pytest.raises(ValueError, match="written to"):
            _core.Batch(1, held, [plan], np.array(offsets), None, None, None)


# --- configs and clocks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config", "now"])
def test_a_wrong_number_of_configs_or_clocks_is_refused(name: str) -> None:
    five = np.full(5, 0.5)
    one = SelectionConfig() if name == "config" else NOW
    for count in (0, 1, 2, 4):
        with pytest.raises(ValueError, match=f"{name} has {count} values for 3 queries"):
            select_batch(np.zeros((3, 5)), five, five, **{name: [one] * count})


def test_configs_and_clocks_come_in_any_sequence() -> None:
    common = shared_rows(random.Random(12), 30)
    matrix = np.random.default_rng(12).random((2, 30))
    configs = [SelectionConfig(top_k=2), None]
    expected = [
        shown(replace(common, relevance=matrix[0], config=configs[0], now=NOW).answer(False)),
        shown(replace(common, relevance=matrix[1], config=None, now=NOW + 9.0).answer(False)),
    ]
    for sequence in (list, tuple, deque):
        for clocks in ([NOW, NOW + 9.0], np.array([NOW, NOW + 9.0]), (int(NOW), Fraction(int(NOW) + 9))):
            answers = select_batch(matrix, *common.columns[1:], config=sequence(configs), now=clocks)
            assert [shown(answer) for answer in answers] == expected


def test_one_clock_is_read_for_the_whole_batch(clock: Any) -> None:
    clock.now = NOW + 100.0
    five = np.full(5, 0.5)
    times = NOW - np.arange(5.0)
    for answer in select_batch(np.full((3, 5), 0.5), times, five):
        assert shown(answer) == shown(select_arrays(five, times, five, now=NOW + 100.0))


@pytest.mark.parametrize("threads", [0, -1, -(2**70)])
def test_no_threads_are_too_few(threads: int) -> None:
    five = np.full(5, 0.5)
    with pytest.raises(ValueError, match=rf"threads is {threads}; expected 1 or more"):
        select_batch(np.zeros((2, 5)), five, five, threads=threads)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
def test_the_first_query_that_fails_is_the_one_named(threads: int) -> None:
    queries = many_queries(random.Random(13), [3000, 10, 20, 400, 5, 5, 30] * 3)
    columns, offsets = end_to_end(queries)
    made = config()
    for failing in ([2, 3, 20], [0], [20], [0, 20], [4, 5]):
        times = columns[1].copy()
        times[times > NOW] = NOW
        for query in failing:
            times[offsets[query] + 3] = 1.7e12
            times[offsets[query] + 4] = 1.8e12
        for _ in range(5):
            with pytest.raises(OverflowError, match=rf"^query {failing[0]}: timestamp\[3\] is 1700000000000\.0, "):
                select_batch(columns[0], times, *columns[2:], offsets=offsets, config=made, now=NOW, threads=threads)
    assert threading.active_count() == 1


@pytest.mark.parametrize("threads", THREADS)
def test_a_shared_row_that_overflows_fails_the_first_query_that_sees_it_so(threads: int) -> None:
    five = np.full(5, 0.5)
    times = np.array([NOW, NOW, NOW + 3600.0 * 2000, NOW, NOW])
    configs = [SelectionConfig(clamp_future=True), SelectionConfig(), SelectionConfig(recency_half_life_hours=1.0)]
    with pytest.raises(OverflowError, match=r"^query 2: timestamp\[2\] is"):
        select_batch(np.zeros((3, 5)), times, five, config=configs, now=NOW, threads=threads)
    assert len(select_batch(np.zeros((2, 5)), times, five, config=configs[:2], now=NOW, threads=threads)) == 2


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"recency_half_life_hours": 0}, ZeroDivisionError),
        ({"top_k": None}, TypeError),
        ({"overflow": "never"}, ValueError),
        ({"recency_from": "accessed"}, ValueError),
    ],
)
def test_a_config_that_fails_names_its_query_unless_an_earlier_one_fails(
    wrong: dict[str, Any], error: type[Exception], threads: int
) -> None:
    queries = many_queries(random.Random(14), [4, 0, 6, 7])
    columns, offsets = end_to_end(queries)
    columns = (columns[0], np.minimum(columns[1], NOW), *columns[2:])
    configs = [config(), config(), config(**wrong), config(**wrong)]
    with pytest.raises(error, match=r"^query 2: "):
        select_batch(*columns, offsets=offsets, config=configs, now=NOW, threads=threads)
    columns[1][5] = 1.7e12
    with pytest.raises(error, match=r"^query 2: "):
        select_batch(*columns, offsets=offsets, config=configs, now=NOW, threads=threads)
    columns[1][1] = 1.7e12
    with pytest.raises(OverflowError, match=r"^query 0: timestamp\[1\]"):
        select_batch(*columns, offsets=offsets, config=configs, now=NOW, threads=threads)


def test_a_half_life_of_nothing_is_no_error_for_a_query_without_rows() -> None:
    queries = many_queries(random.Random(15), [4, 0, 6])
    columns, offsets = end_to_end(queries)
    zero = config(recency_half_life_hours=0)
    answers = select_batch(*columns, offsets=offsets, config=[config(), zero, config()], now=NOW)
    assert [len(answer) for answer in answers][1] == 0
    with pytest.raises(ZeroDivisionError):
        select_batch(*columns, offsets=offsets, config=zero, now=NOW)
    none = np.empty(0)
    assert [len(one) for one in select_batch(none, none, none, offsets=[0, 0, 0], config=zero, now=NOW)] == [0, 0]
    assert [len(one) for one in select_batch(np.empty((2, 0)), none, none, config=zero, now=NOW)] == [0, 0]
    assert select_batch(np.empty((0, 10)), *columns[1:3], config=zero, now=NOW) == []


def test_negative_tokens_name_their_row_of_the_column() -> None:
    queries = many_queries(random.Random(16), [4, 6])
    columns, offsets = end_to_end(queries)
    columns[3][7] = -2
    with pytest.raises(ColumnError, match=r"^tokens\[7\] is -2"):
        select_batch(*columns, offsets=offsets, now=NOW)


class FailingBatch:
    """Work of which one thread's share fails, as it does where memory ends."""

    def __init__(self, fails: Any) -> None:
        self.fails = fails
        self.stopped = False

    def run(self, seconds: float = 0.0) -> bool:
        if self.fails(threading.current_thread() is threading.main_thread()):
            raise MemoryError("no more")
        return self.stopped

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("in_main", [True, False])
def test_an_error_in_any_thread_ends_the_batch_and_is_raised(in_main: bool) -> None:
    batch: Any = FailingBatch(lambda main: main is in_main)
    with pytest.raises(MemoryError, match="no more"):
        arrays.run_on_threads(batch, 4)
    assert batch.stopped
    assert threading.active_count() == 1


def test_threads_that_the_system_does_not_give_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    queries = many_queries(random.Random(17), [40] * 10)
    columns, offsets = end_to_end(queries)
    monkeypatch.setattr(threading.Thread, "start", no_more)
    answers = select_batch(
        *columns, offsets=offsets, config=[query.config for query in queries], now=NOW, threads=10**6, outcomes=True
    )
    assert [shown(answer) for answer in answers] == alone(queries)


# --- threads, signals, processes -------------------------------------------------------------------------------------


def run(script: str) -> str:
    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


INTERRUPTED = """
import os, signal, threading, traceback
import numpy as np
from memsel import SelectionConfig, select_batch
rows, queries = 100_000, 200_000
rng = np.random.default_rng(0)
columns = 1.7e9 - rng.random(rows) * 1e6, rng.random(rows)
sparse = np.arange(queries + 1), np.zeros(queries, np.int64), rng.random(queries)
before = threading.active_count()
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    select_batch(sparse, *columns, config=SelectionConfig(top_k=20_000), now=1.7e9, threads=THREADS)
except KeyboardInterrupt as error:
    inside = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    print("run_on_threads" in inside, threading.active_count() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signal can be sent to this process alone")
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_an_interrupt_ends_a_batch_of_minutes_and_all_its_threads(threads: int) -> None:
    assert run(INTERRUPTED.replace("THREADS", str(threads))) == "True 0"


FORKED = """
import os
import numpy as np
from memsel import select_batch
rows, queries = 3000, 50
rng = np.random.default_rng(0)
columns = rng.random((queries, rows)), 1.7e9 - rng.random(rows) * 1e6, rng.random(rows), rng.integers(1, 99, rows)
def answers(threads):
    return [answer.scores.tobytes() for answer in select_batch(*columns, now=1.7e9, threads=threads)]
expected = answers(4)
child = os.fork()
if child == 0:
    os._exit(0 if answers(4) == answers(1) == expected else 1)
assert answers(2) == expected
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(sys, "getswitchinterval") or sys.platform == "win32", reason="needs fork")
def test_a_fork_after_a_batch_of_threads_can_run_batches() -> None:
    assert run(FORKED) == "0"


def test_the_gil_is_released_while_queries_are_done() -> None:
    rows = 50_000
    common = (np.full(rows, NOW), np.zeros(rows))
    sparse = (np.arange(41), np.zeros(40, int), np.ones(40))
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
        select_batch(sparse, *common, config=config(top_k=rows // 4), now=NOW)
        during = counted - before
    finally:
        done.set()
        sys.setswitchinterval(interval)
        counter.join()
    assert during > 0


def test_batches_run_in_many_threads_at_once() -> None:
    queries = many_queries(random.Random(18), [300, 0, 17, 2500] * 4)
    columns, offsets = end_to_end(queries)
    configs = [query.config for query in queries]
    expected = alone(queries, outcomes=False)
    wrong: list[Any] = []

    def select() -> None:
        for _ in range(10):
            answers = select_batch(*columns, offsets=offsets, config=configs, now=NOW, threads=3)
            if [shown(answer) for answer in answers] != expected:
                wrong.append(1)

    threads = [threading.Thread(target=select) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_columns_written_to_during_a_batch_do_no_harm() -> None:
    rows, count = 3000, 200
    rng = np.random.default_rng(19)
    times, importance, tokens = NOW - rng.random(rows) * 1e6, rng.random(rows), rng.integers(0, 99, rows)
    indptr, places, scores = np.arange(count + 1) * 5, rng.integers(0, rows, count * 5), rng.random(count * 5)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            scores[:] = np.roll(scores, 1)
            times[:] = np.roll(times, 1)
            # Rows that are never there, for a moment: a batch sees it and refuses, or reads the rows before or after.
            places[7] = 2**62
            places[7] = 3

    writer = threading.Thread(target=write)
    writer.start()
    finished = 0
    try:
        for _ in range(40):
            try:
                answers = select_batch(
                    (indptr, places, scores), times, importance, tokens, now=NOW, threads=2, outcomes=True
                )
            except ValueError:
                continue
            finished += 1
            for answer in answers:
                assert len(set(answer.indices.tolist())) == len(answer) <= 10
                assert answer.indices.size == 0 or 0 <= answer.indices.min() <= answer.indices.max() < rows
    finally:
        done.set()
        writer.join()
    assert finished > 0


# --- hunt ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.one_of(st.integers(0, 20), st.integers(0, 700)), max_size=8),
    mood=st.sampled_from(MOODS),
    threads=st.integers(1, 9),
    outcomes=st.booleans(),
)
def test_any_batch_is_its_queries_one_by_one(
    seed: int, sizes: list[int], mood: str, threads: int, outcomes: bool
) -> None:
    rng = random.Random(seed)
    queries = [random_query(rng, rows, mood) for rows in sizes]
    for query in queries:
        query.tokens = np.ones(len(query), int) if query.tokens is None else query.tokens
    columns, offsets = end_to_end(queries)
    expected = [outcome_of(lambda query=query: query.answer(outcomes)) for query in queries]
    failed = [place for place, one in enumerate(expected) if len(one) == 2 or one == "ZeroDivisionError"]

    def select() -> list[Selection]:
        return select_batch(
            *columns,
            offsets=offsets,
            config=[query.config for query in queries],
            now=[query.now for query in queries],
            outcomes=outcomes,
            threads=threads,
        )

    if failed:
        error = ZeroDivisionError if expected[failed[0]] == "ZeroDivisionError" else OverflowError
        with pytest.raises(error, match=f"^query {failed[0]}: "):
            select()
    else:
        assert [shown(answer) for answer in select()] == expected
