"""MemoryPool: contents, queries and their errors, one behaviour at a time. Random changes are in test_pool_machine."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from makers import entry
from oracle import bits
from rows import config
from worlds import NOW

from memsel import ColumnError, ColumnTypeError, MemoryPool, Outcome, SelectionConfig, select_arrays

DAY = 86400.0


def pool_of(*ids: Any, **columns: Any) -> MemoryPool:
    """A pool of rows made at NOW with importance 0.5 and 10 tokens, unless columns say something else."""
    pool = MemoryPool()
    count = len(ids)
    pool.upsert_arrays(
        list(ids),
        columns.pop("timestamp", [NOW] * count),
        columns.pop("importance", [0.5] * count),
        columns.pop("tokens", np.full(count, 10)),
        **columns,
    )
    return pool


def chosen(pool: MemoryPool, similarity: Any = None, **settings: Any) -> list[Any]:
    return pool.select(similarity, config=config(**settings), now=NOW).ids


# --- contents --------------------------------------------------------------------------------------------------------


def test_an_empty_pool_selects_nothing_whatever_the_half_life():
    pool = MemoryPool()
    selection = pool.select(config=config(recency_half_life_hours=0), outcomes=True)
    assert (len(pool), list(pool), selection.ids, selection.tokens_used) == (0, [], [], 0)
    assert selection.indices.dtype == np.int64
    assert selection.outcomes.tolist() == []
    assert pool.select_batch([]) == []


def test_an_entry_brings_its_id_fields_and_counted_tokens():
    pool = MemoryPool()
    given = entry("a", "x" * 43, timestamp=5.0, importance=0.25, decay_factor=0.5, last_access=7.0)
    row = pool.upsert(given, payload=[1])
    found = pool.get("a")
    assert (found.id, found.row, found.timestamp, found.importance) == ("a", row, 5.0, 0.25)
    assert (found.decay_factor, found.last_access, found.tokens, found.payload) == (0.5, 7.0, 10, [1])
    assert pool.select(now=5.0).importance.tolist() == [0.125]


def test_a_token_counter_counts_the_entries_of_its_pool():
    pool = MemoryPool(token_counter=len)
    pool.upsert(entry("a", "four"))
    assert pool.get("a").tokens == 4
    with pytest.raises(ValueError, match=r"gave 0 for the memory 'b'"):
        MemoryPool(token_counter=lambda text: 0).upsert(entry("b"))


def test_an_upsert_of_a_known_id_keeps_its_position_and_one_after_removal_goes_to_the_end():
    pool = pool_of("a", "b", "c")
    pool.upsert(entry("a"))
    assert list(pool) == ["a", "b", "c"]
    assert chosen(pool) == ["a", "b", "c"]
    pool.remove("a")
    assert list(pool) == ["b", "c"]
    assert pool.upsert(entry("a")) == 3
    assert list(pool) == ["b", "c", "a"]
    assert chosen(pool) == ["b", "c", "a"]


def test_a_removed_row_is_never_selected_and_its_number_never_given_again():
    pool = pool_of("a", "b")
    pool.remove("a")
    assert "a" not in pool
    assert pool.get("a", "nothing") == "nothing"
    assert pool.rows_of(["a", "b", "c"]).tolist() == [-1, 1, -1]
    assert chosen(pool, {"a": 1.0}) == ["b"]
    assert pool.select([1.0], rows=[0], now=NOW).ids == ["b"]
    assert pool.upsert(entry("c")) == 2


def test_an_update_sets_the_fields_it_is_given():
    pool = pool_of("a", "b")
    pool.update("b", importance=0.9)
    assert chosen(pool) == ["b", "a"]
    pool.update("b", decay_factor=0.1)
    assert chosen(pool) == ["a", "b"]
    pool.update("a", timestamp=NOW - 365 * DAY, tokens=77, last_access=3.0)
    assert chosen(pool) == ["b", "a"]
    assert pool.get("a").tokens == 77
    assert pool.get("a").last_access == 3.0


def test_a_touch_sets_the_last_access_only():
    pool = pool_of("a", "b", timestamp=[NOW - DAY, NOW - DAY])
    pool.touch("b", now=NOW)
    assert pool.get("b").last_access == NOW
    assert pool.get("b").timestamp == NOW - DAY
    assert chosen(pool) == ["a", "b"]
    assert chosen(pool, recency_from="accessed") == ["b", "a"]


def test_the_clock_is_read_at_the_call(clock):
    pool = pool_of("a")
    clock.now = NOW + DAY
    pool.touch("a")
    assert pool.get("a").last_access == NOW + DAY
    assert pool.select().recency.tolist() == [0.5]


def test_text_and_ints_are_ids_of_their_own_and_a_bool_is_none():
    pool = pool_of(7, "7", 2**70, "", "\ud800")
    assert [one in pool for one in (7, "7", 2**70, "", "\ud800", 8)] == [True] * 5 + [False]
    assert chosen(pool, {"7": 1.0})[0] == "7"
    assert chosen(pool, {7: 1.0})[0] == 7
    for refused in (True, 1.0, None, b"a", ("a",)):
        for call in (
            lambda one=refused: one in pool,
            lambda one=refused: pool.get(one),
            lambda one=refused: pool.remove(one),
            lambda one=refused: pool.update(one, importance=1.0),
            lambda one=refused: pool.rows_of([one]),
            lambda one=refused: pool.upsert(entry(one)),
            lambda one=refused: pool.select({one: 0.5}),
            lambda one=refused: pool.select(([one], [0.5])),
            lambda one=refused: pool.select(candidates=[one]),
            lambda one=refused: pool.upsert_arrays([one], [NOW], [0.5], [1]),
        ):
            with pytest.raises(ColumnTypeError, match="expected text or an int"):
                call()
    assert len(pool) == 5


def test_ids_of_subclasses_and_of_numpy_are_the_plain_ones():
    class Text(str):
        def __hash__(self) -> int:
            raise AssertionError("nobody asks")

    pool = MemoryPool()
    pool.upsert_arrays(np.array([3, 4]), [NOW] * 2, [0.5] * 2, [1, 1])
    pool.upsert_arrays(np.array(["a", "b"]), [NOW] * 2, [0.5] * 2, [1, 1])
    pool.upsert(entry(np.int64(5)))
    pool.upsert(entry(Text("c")))
    assert list(pool) == [3, 4, "a", "b", 5, "c"]
    assert {type(one) for one in pool} == {int, str}
    assert chosen(pool, ([Text("c"), np.int32(3)], [1.0, 0.9]))[:2] == ["c", 3]


@pytest.mark.parametrize("missing", ["x", 3])
def test_what_is_not_there_cannot_be_changed(missing):
    pool = pool_of("a")
    for call in (lambda: pool.remove(missing), lambda: pool.touch(missing), lambda: pool.update(missing, tokens=1)):
        with pytest.raises(KeyError):
            call()


def test_a_batch_with_one_bad_row_changes_nothing():
    pool = pool_of("a")
    before = pool.get("a")
    good = {"ids": ["a", "d", "e"], "timestamp": [1.0] * 3, "importance": [2.0] * 3, "tokens": [1] * 3}
    for wrong, error, message in (
        ({"tokens": [1, 2, -1]}, ColumnError, r"tokens\[2\] is -1; expected 0 or more"),
        ({"tokens": [1, 2.5, 1]}, ColumnTypeError, "tokens"),
        ({"ids": ["a", "d", None]}, ColumnTypeError, r"ids\[2\] is None"),
        ({"ids": ["a", "d"]}, ColumnError, "ids has 2 rows, timestamp has 3"),
        ({"ids": "ade"}, ColumnTypeError, "ids is a str"),
        ({"timestamp": [1.0, "x", 1.0]}, ColumnTypeError, "timestamp"),
        ({"importance": [[1.0]] * 3}, ColumnTypeError, "importance"),
        ({"decay_factor": [1.0]}, ColumnError, "decay_factor has 1"),
        ({"last_access": [1.0]}, ColumnError, "last_access has 1"),
        ({"payloads": [1]}, ColumnError, "payloads has 1"),
    ):
        with pytest.raises(error, match=message):
            pool.upsert_arrays(**{**good, **wrong})
    assert list(pool) == ["a"]
    assert pool.get("a") == before
    pool.upsert_arrays(**good)
    assert list(pool) == ["a", "d", "e"]
    assert pool.rows_of(["a", "d", "e"]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("importance", [2.0, -3, math.nan, math.inf, True])
def test_any_number_is_an_importance(importance):
    pool = pool_of("a", "b", importance=[importance, 0.5])
    pool.update("b", importance=importance)
    expected = select_arrays([0.5, 0.5], [NOW, NOW], [float(importance)] * 2, [10, 10], now=NOW)
    assert pool.select(now=NOW).indices.tolist() == expected.indices.tolist()


def test_single_changes_refuse_what_is_no_number_before_they_change_anything():
    pool = pool_of("a")
    for wrong, error in (
        ({"tokens": -1}, ColumnError),
        ({"tokens": 1.0}, ColumnTypeError),
        ({"tokens": True}, ColumnTypeError),
        ({"tokens": 2**63}, ColumnError),
        ({"importance": "1"}, ColumnTypeError),
        ({"timestamp": [1.0]}, ColumnTypeError),
    ):
        with pytest.raises(error):
            pool.update("a", **{"decay_factor": 0.1, **wrong})
    with pytest.raises(TypeError):
        pool.update("a", colour="red")
    assert pool.get("a").decay_factor == 1.0


def test_arrow_columns_are_read_as_numpy_ones():
    pa = pytest.importorskip("pyarrow")
    pool = MemoryPool()
    pool.upsert_arrays(
        pa.chunked_array([["a", "b"], ["c"]]),
        pa.array([NOW, NOW - DAY, None]),
        pa.array([0.5, 0.25, 0.9]),
        pa.array([1, 2, 3], pa.int32()),
        decay_factor=pa.array([1.0, 0.5, 1.0]),
        payloads=["x", None, "z"],
    )
    assert [pool.get(one).tokens for one in pool] == [1, 2, 3]
    assert pool.get("b").importance * pool.get("b").decay_factor == 0.125
    assert chosen(pool) == ["a", "b"]


def test_of_an_id_twice_in_a_batch_the_last_row_counts_at_the_first_position():
    pool = pool_of("a", "b", "a", "c", importance=[0.1, 0.2, 0.9, 0.3])
    assert list(pool) == ["a", "b", "c"]
    assert pool.get("a").importance == 0.9
    assert chosen(pool, top_k=1) == ["a"]


def test_payloads_travel_with_their_rows_and_go_with_them():
    kept = object()
    pool = pool_of("a", "b", payloads=[kept, None])
    assert pool.get("a").payload is kept
    pool.update("a", tokens=3)
    assert pool.get("a").payload is kept
    pool.upsert_arrays(["a"], [NOW], [0.5], [1])
    assert pool.get("a").payload is None
    pool.upsert(entry("b"), payload=kept)
    pool.remove("b")
    pool.upsert(entry("b"))
    assert pool.get("b").payload is None


# --- queries ---------------------------------------------------------------------------------------------------------


def test_scores_come_as_a_dict_as_ids_beside_scores_or_as_rows_beside_scores():
    pool = pool_of(*"abcde")
    scores = {"b": 0.9, "d": 0.1, "nobody": 1.0}
    expected = pool.select(scores, now=NOW)
    assert expected.ids == ["b", "a", "c", "e", "d"]
    assert expected.relevance.tolist() == [0.9, 0.5, 0.5, 0.5, 0.1]
    for similarity, rows in (
        ((list(scores), list(scores.values())), None),
        ((np.array(list(scores)), np.array(list(scores.values()))), None),
        ([0.9, 0.1, 1.0], [1, 3, 99]),
        (np.array([0.9, 0.1, 1.0, 1.0], np.float32).astype(float).round(1), np.array([1, 3, -1, 2**40], np.int64)),
    ):
        given = pool.select(similarity, rows=rows, now=NOW)
        assert given.ids == expected.ids
        assert bits(given.scores) == bits(expected.scores)


def test_rows_and_scores_of_any_layout_are_read():
    pool = pool_of(*"abcd")
    expected = pool.select([0.9, 0.1, 0.7], rows=[1, 3, 0], now=NOW).ids
    wide = np.array([[0.9, 1, 5], [0.1, 3, 5], [0.7, 0, 5]])
    for scores, rows in (
        (wide[:, 0], wide[:, 1].astype(np.int64)),
        (wide[:, 0].astype(">f8"), wide[:, 1].astype(">i8")),
        (wide[:, 0].copy(), wide[:, 1].astype(np.int16)),
        (wide[:, 0].copy(), wide[:, 1].astype(np.uint64)),
        (wide[::-1, 0], wide[::-1, 1].astype(np.int64)),
        (wide[:, 0].astype(np.longdouble), np.array([1, 3, 0])),
    ):
        assert pool.select(scores, rows=rows, now=NOW).ids == expected
    for scores, rows, error in (
        (wide[:, 0], np.array([1, 3]), ColumnError),
        (wide[:, :1], np.array([1, 3, 0]), ColumnError),
        (wide[:, 0], wide[:, 1], ColumnTypeError),
        (wide[:, 0] + 1j, np.array([1, 3, 0]), ColumnTypeError),
    ):
        with pytest.raises(error):
            pool.select(scores, rows=rows)


def test_of_an_id_scored_twice_the_last_score_counts():
    pool = pool_of("a", "b")
    assert chosen(pool, (["b", "a", "b"], [0.9, 0.6, 0.1])) == ["a", "b"]
    assert pool.select([0.9, 0.6, 0.1], rows=[1, 0, 1], now=NOW).ids == ["a", "b"]
    assert pool.select([0.9, 0.6, 0.1], rows=[1, 0, 1], now=NOW).relevance.tolist() == [0.6, 0.1]


def test_a_score_is_whatever_multiplies_with_a_float():
    pool = pool_of(*"abcd")
    scores = {"a": Fraction(1, 4), "b": np.float32(0.75), "c": True, "d": np.array(0.6), "nobody": "no number"}
    assert pool.select(scores, now=NOW).ids == ["c", "b", "d", "a"]
    assert pool.select(MappingProxyType(scores), now=NOW).ids == ["c", "b", "d", "a"]
    for refused in ("1", None, 1j, [0.5]):
        with pytest.raises(TypeError):
            pool.select({"a": refused})
    with pytest.raises(ColumnTypeError, match="similarity is a float"):
        pool.select(0.5)
    with pytest.raises(ColumnError, match="rows has 1 rows, similarity has 2"):
        pool.select([0.5, 0.5], rows=[0])


def test_candidates_restrict_the_choice_to_ids_that_are_there():
    pool = pool_of(*"abcde")
    pool.remove("e")
    selection = pool.select({"d": 0.9, "a": 1.0}, candidates=["d", "b", "e", "nobody", "d"], now=NOW, outcomes=True)
    assert selection.ids == ["d", "b"]
    assert selection.outcomes.tolist() == [Outcome.KEPT, Outcome.KEPT]
    assert pool.select(candidates=[], config=config(recency_half_life_hours=0)).ids == []


def test_outcomes_name_what_became_of_every_row_in_insertion_order():
    pool = pool_of(*"abcd", tokens=[10, 5000, 10, 10], importance=[0.5, 0.9, 0.4, -9.0])
    pool.remove("c")
    selection = pool.select(config=config(top_k=5), now=NOW, outcomes=True)
    assert selection.ids == ["a"]
    assert selection.outcomes.tolist() == [Outcome.KEPT, Outcome.OVER_BUDGET, Outcome.BELOW_MIN_SCORE]


def test_a_config_is_checked_as_on_the_other_doors():
    pool = pool_of("a")
    with pytest.raises(ZeroDivisionError):
        pool.select(config=config(recency_half_life_hours=0))
    with pytest.raises(ValueError, match="overflow is 'fit'"):
        pool.select(config=config(overflow="fit"))
    with pytest.raises(TypeError, match="top_k"):
        pool.select(config=config(top_k="10"))
    assert chosen(pool, top_k=Fraction(1, 2), token_budget=Fraction(21, 2)) == ["a"]


def test_an_overflow_names_the_id_whichever_row_a_filter_would_drop():
    pool = pool_of("a", "far", timestamp=[NOW, NOW + 1e9], importance=[0.5, math.nan])
    with pytest.raises(OverflowError, match=r"the time of 'far' is 2700000000\.0"):
        pool.select({"a": 0.5}, now=NOW, config=config(recency_half_life_hours=1.0))
    with pytest.raises(OverflowError, match=r"query 1: the time of 'far'"):
        configs = [config(clamp_future=True), *[config(recency_half_life_hours=1.0)] * 2]
        pool.select_batch([{}, {}, {}], now=NOW, threads=2, config=configs)
    pool.remove("far")
    assert pool.select(now=NOW, config=config(recency_half_life_hours=1.0)).ids == ["a"]


def test_a_row_beyond_any_bound_is_scored_like_the_others():
    # Odd rows stand outside the index: infinite times, enormous importances.
    columns = {
        "timestamp": [math.inf, -math.inf, NOW, NOW, 1e300 * -1, math.nan, NOW],
        "importance": [0.5, 0.9, 1e300, -1e300, 0.7, 0.9, math.nan],
    }
    pool = pool_of(*"abcdefg", **columns)
    for settings in ({}, {"clamp_future": True}, {"recency_half_life_hours": math.inf, "clamp_future": True},
                     {"importance_weight": -0.3}, {"min_composite_score": -math.inf}):  # fmt: skip
        expected = select_arrays(
            [0.5] * 7, columns["timestamp"], columns["importance"], [10] * 7, config=config(**settings), now=NOW
        )
        assert pool.select(config=config(**settings), now=NOW).indices.tolist() == expected.indices.tolist(), settings


def test_an_infinite_age_that_clamping_makes_0_counts_as_now_on_the_array_door_too():
    settings = config(clamp_future=True, recency_half_life_hours=math.inf, relevance_weight=0, importance_weight=0,
                      recency_weight=1, top_k=40)  # fmt: skip
    timestamp = [NOW] * 20 + [math.inf] + [NOW] * 20
    expected = list(range(40))
    assert select_arrays([0.5] * 41, timestamp, [0.5] * 41, config=settings, now=NOW).indices.tolist() == expected
    assert pool_of(*range(41), timestamp=timestamp).select(config=settings, now=NOW).indices.tolist() == expected


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_batch_answers_what_its_queries_answer_alone(threads):
    rng = np.random.default_rng(3)
    pool = MemoryPool(_block_rows=16)
    pool.upsert_arrays(
        [f"m{i}" for i in range(500)], NOW - rng.random(500) * 30 * DAY, rng.random(500), rng.integers(0, 900, 500)
    )
    similarities = [{f"m{i}": float(rng.random()) for i in rng.integers(0, 600, size)} for size in (0, 1, 16, 17, 100)]
    limits = ((1, 1), (3, 24), (10, 720), (50, 9), (0, 9))
    configs = [SelectionConfig(top_k=top_k, recency_half_life_hours=hours) for top_k, hours in limits]
    for outcomes in (False, True):
        together = pool.select_batch(similarities, config=configs, now=NOW, threads=threads, outcomes=outcomes)
        for number, selection in enumerate(together):
            alone = pool.select(similarities[number], config=configs[number], now=NOW, outcomes=outcomes)
            assert selection.ids == alone.ids
            assert bits(selection.scores) == bits(alone.scores)
            assert selection.tokens_used == alone.tokens_used
            if outcomes:
                assert selection.outcomes.tolist() == alone.outcomes.tolist()
    rows = [pool.rows_of(list(one)) for one in similarities]
    by_rows = pool.select_batch([list(one.values()) for one in similarities], rows=rows, now=NOW, threads=threads)
    assert [one.ids for one in by_rows] == [one.ids for one in pool.select_batch(similarities, now=NOW)]
    with pytest.raises(ColumnError, match="rows has 1 columns for 5 queries"):
        pool.select_batch(similarities, rows=[[0]])
    with pytest.raises(ValueError, match="threads is 0"):
        pool.select_batch(similarities, threads=0)


def test_a_batch_with_a_score_that_is_no_number_answers_nothing():
    pool = pool_of("a")
    with pytest.raises(TypeError):
        pool.select_batch([{"a": 1.0}, {"a": "1"}])


# --- the index -------------------------------------------------------------------------------------------------------


def answers_as_a_scan(pool: MemoryPool, columns: dict[str, Any], settings: Any, hits: dict[int, float]) -> None:
    relevance = np.full(len(columns["timestamp"]), 0.5)
    for row, score in hits.items():
        relevance[row] = score
    expected = select_arrays(relevance, **columns, config=settings, now=NOW)
    given = pool.select(list(hits.values()), rows=list(hits), config=settings, now=NOW)
    assert given.indices.tolist() == expected.indices.tolist()
    for name in ("scores", "relevance", "recency", "importance"):
        assert bits(getattr(given, name)) == bits(getattr(expected, name))
    assert given.tokens_used == expected.tokens_used


@pytest.mark.parametrize("block_rows", [4, 64, 1024])
@pytest.mark.parametrize("order", ["ties", "rising", "falling", "random", "few times"])
def test_the_index_answers_as_a_scan_does(order, block_rows):
    rng = np.random.default_rng(11)
    count = 5000
    timestamp = NOW - rng.random(count) * 60 * DAY
    timestamp = {
        "ties": np.full(count, NOW - DAY),
        "rising": np.sort(timestamp),
        "falling": np.sort(timestamp)[::-1].copy(),
        "random": timestamp,
        "few times": NOW - rng.integers(0, 5, count) * DAY,
    }[order]
    columns = {
        "timestamp": timestamp,
        "importance": np.full(count, 0.5) if order == "ties" else rng.random(count).round(2),
        "tokens": rng.integers(0, 6000, count),
    }
    pool = MemoryPool(_block_rows=block_rows)
    pool.upsert_arrays(range(count), **columns)
    hits = dict(zip(rng.choice(count, 60, replace=False).tolist(), rng.random(60).tolist(), strict=True))
    for settings in (
        config(),
        config(token_budget=100),
        config(token_budget=0),
        config(token_budget=30000, top_k=40),
        config(overflow="stop"),
        config(top_k=300, token_budget=10**9),
        config(top_k=10**6, token_budget=math.inf),
        config(recency_half_life_hours=24 * 3650),
        config(recency_half_life_hours=-24.0),
        config(recency_half_life_hours=1e-9),
        config(recency_half_life_hours=math.inf),
        config(recency_weight=-0.2),
        config(importance_weight=-0.3, min_composite_score=-math.inf),
        config(relevance_weight=-1.0, min_composite_score=-2),
        config(min_composite_score=0.9),
        config(min_composite_score=math.nan),
        config(recency_weight=math.inf),
        config(importance_weight=5e-324, recency_weight=5e-324),
        config(importance_weight=1e308, recency_weight=-1e308),
    ):
        answers_as_a_scan(pool, columns, settings, hits)


def test_the_index_answers_as_a_scan_does_after_every_kind_of_churn():
    rng = np.random.default_rng(12)
    pool = MemoryPool(_block_rows=8)
    alive: dict[int, tuple[float, float, int]] = {}
    settings = config(token_budget=400)
    for step in range(4000):
        kind = rng.integers(0, 10) if step < 3000 else 9
        if kind < 6 or not alive:
            row = (NOW - float(rng.integers(0, 400)) * 3600, float(rng.random()), int(rng.integers(0, 300)))
            one = pool._packed.next_row
            pool.upsert_arrays([one], [row[0]], [row[1]], [row[2]])
            alive[one] = row
        else:
            one = int(rng.choice(list(alive)))
            if kind < 8:
                alive[one] = (NOW - float(rng.integers(0, 400)) * 3600, float(rng.random()), alive[one][2])
                pool.update(one, timestamp=alive[one][0], importance=alive[one][1])
            else:
                pool.remove(one)
                del alive[one]
        if step % 50 == 0 and alive:
            timestamp, importance, tokens = (list(column) for column in zip(*alive.values(), strict=True))
            expected = select_arrays([0.5] * len(alive), timestamp, importance, tokens, config=settings, now=NOW)
            given = pool.select(config=settings, now=NOW)
            assert given.ids == [list(alive)[row] for row in expected.indices]
            assert bits(given.scores) == bits(expected.scores)
    assert list(pool) == list(alive)


# --- readers and writers ---------------------------------------------------------------------------------------------


def test_readers_see_only_states_that_existed_while_a_writer_works():
    # In every state exactly one row of the pair is better, and which it is says how the scores go with the ids.
    pool = MemoryPool(_block_rows=16)
    filler = 3000
    pool.upsert_arrays(range(filler), np.full(filler, NOW - 300 * DAY), np.full(filler, 0.1), np.full(filler, 10))
    pool.upsert_arrays(["x", "y"], [NOW, NOW], [0.9, 0.9], [10, 10])
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            both = pool.select({"x": 0.9, "y": 0.9, 5: 0.2}, now=NOW, config=config(top_k=2))
            one, other = pool.select_batch([{"x": 0.9}, {"x": 0.9}], now=NOW, config=config(top_k=3))
            # The pair is moved in one batch: never is only one of the two low, and both keep their importance.
            if set(both.ids) != {"x", "y"} or len(set(both.importance.tolist())) != 1:
                wrong.append((both.ids, both.importance.tolist()))
            if one.ids != other.ids or bits(one.scores) != bits(other.scores):
                wrong.append((one.ids, other.ids))
            if len(pool.select(outcomes=True, now=NOW).outcomes) < filler + 2:
                wrong.append("rows were lost")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for step in range(400):
            importance = 0.5 + 0.4 * (step % 2)
            pool.upsert_arrays(["x", "y"], [NOW, NOW], [importance] * 2, [10, 10])
            pool.upsert(entry(f"passing {step}", timestamp=NOW - 200 * DAY, importance=0.1))
            pool.update(step, importance=0.1, timestamp=NOW - 299 * DAY)
            pool.remove(f"passing {step}")
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert len(pool) == filler + 2


def test_a_selection_keeps_the_ids_of_rows_removed_after_its_state():
    pool = pool_of(*(f"id {number}" for number in range(5000)))
    state = pool._packed.state()
    ids = list(pool)
    for one in ids:
        pool.remove(one)
    pool.upsert(entry("new"))
    assert state.ids(np.arange(5000)) == ids
    del state
    for number in range(3):
        pool.upsert(entry(number))
        pool.remove(number)
    assert list(pool) == ["new"]
