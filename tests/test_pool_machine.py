"""Random lives of a pool against a plain dict and select_arrays: whatever happened before, the answers are the same."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from oracle import bits
from rows import config
from worlds import NOW

from memsel import MemoryPool, select_arrays

_INF, _NAN = math.inf, math.nan
IDS = [*range(12), *(f"id {number}" for number in range(12)), "7", "\ud800", 2**64]
# Few values, so that ties are many; and those that break bounds.
TIMES = [
    NOW, NOW - 3600.0, NOW - 86400.0, NOW - 86400.0 * 365, NOW + 60.0, NOW + 1e7, 0.0, -0.0, -1e300, _NAN, _INF, -_INF,
]  # fmt: skip
NUMBERS = [0.5, 0.25, 1.0, 0.0, -0.0, 5e-324, -3.0, 1e29, 1e31, -1e308, _NAN, _INF]

ids = st.sampled_from(IDS)
times = st.one_of(st.sampled_from(TIMES[:5]), st.sampled_from(TIMES), st.floats(NOW - 1e7, NOW))
numbers = st.one_of(st.sampled_from(NUMBERS[:3]), st.sampled_from(NUMBERS), st.floats(0, 1))
tokens = st.one_of(st.integers(0, 60), st.integers(0, 7000), st.sampled_from([0, 2047, 2048, 2**31, 2**63 - 1]))
# timestamp, importance, decay factor, last access, tokens
fields = st.tuples(times, numbers, st.one_of(st.just(1.0), numbers), times, tokens)
weights = st.sampled_from(
    [
        (0.5, 0.2, 0.3), (0.5, 0.2, 0.3), (0.5, -0.2, 0.3), (0.0, 1.0, 0.0), (-0.5, 0.2, -0.3), (1.0, 0.0, 0.0),
        (0.1, 1e308, -1e308), (_INF, 1, 1),
    ]
)  # fmt: skip
configs = st.builds(
    lambda weight, **rest: config(
        relevance_weight=weight[0], recency_weight=weight[1], importance_weight=weight[2], **rest
    ),
    weights,
    recency_half_life_hours=st.sampled_from([24.0, 24.0, 87600.0, 1e-3, -24.0, _INF, 0, 5e-324, _NAN]),
    min_composite_score=st.sampled_from([0.1, 0.1, 0.4, -_INF, _NAN, -1.0]),
    top_k=st.sampled_from([10, 3, 1, 0, 10**9, 2.5]),
    token_budget=st.sampled_from([3000, 100, 30, 0, -1, 10**9, _INF, _NAN, 2**64]),
    overflow=st.sampled_from(["skip", "skip", "stop"]),
    clamp_future=st.booleans(),
    recency_from=st.sampled_from(["created", "created", "created", "accessed"]),
)


def answer_of(call: Any, named: Any) -> Any:
    """Everything a selection says, its rows by name; or the kind of its error."""
    try:
        given = call()
    except (OverflowError, ZeroDivisionError) as error:
        return type(error)
    parts = [bits(part) for part in (given.scores, given.relevance, given.recency, given.importance)]
    outcomes = None if given.outcomes is None else given.outcomes.tolist()
    return named(given), parts, given.tokens_used, outcomes


class Life(RuleBasedStateMachine):
    """A pool beside a dict from id to (row, fields), in insertion order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.rows: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        self.next_row = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(block_rows=st.sampled_from([1, 2, 3, 8, 1024]))
    def begin(self, block_rows: int) -> None:
        self.pool = MemoryPool(_block_rows=block_rows)

    def know(self, one: Any, values: tuple[Any, ...]) -> None:
        if one not in self.rows:
            self.rows[one] = (self.next_row, values)
            self.next_row += 1
        else:
            self.rows[one] = (self.rows[one][0], values)

    @rule(one=ids, values=fields)
    def upsert(self, one: Any, values: tuple[Any, ...]) -> None:
        self.pool._packed.put(one, *values)
        self.know(one, values)

    @rule(batch=st.lists(st.tuples(ids, fields), max_size=90), payload=st.booleans())
    def upsert_arrays(self, batch: list[Any], payload: bool) -> None:
        timestamp, importance, decay_factor, last_access, cost = (
            [values[number] for _, values in batch] for number in range(5)
        )
        named = [one for one, _ in batch]
        self.pool.upsert_arrays(
            named, timestamp, importance, cost, decay_factor=decay_factor, last_access=last_access,
            payloads=[{"of": str(number)} for number in range(len(batch))] if payload else None,
        )  # fmt: skip
        for one, values in batch:
            self.know(one, values)

    @rule(one=ids)
    def remove(self, one: Any) -> None:
        if one in self.rows:
            self.pool.remove(one)
            del self.rows[one]

    @rule(one=ids, values=fields, which=st.integers(0, 4))
    def update(self, one: Any, values: tuple[Any, ...], which: int) -> None:
        if one in self.rows:
            name = ("timestamp", "importance", "decay_factor", "last_access", "tokens")[which]
            self.pool.update(one, **{name: values[which]})
            row, before = self.rows[one]
            self.rows[one] = (row, (*before[:which], values[which], *before[which + 1 :]))

    @rule(one=ids, now=times)
    def touch(self, one: Any, now: float) -> None:
        if one in self.rows:
            self.pool.touch(one, now=now)
            row, before = self.rows[one]
            self.rows[one] = (row, (*before[:3], now, before[4]))

    @rule()
    def save_and_load(self) -> None:
        path = Path(self.folder.name) / "pool.npz"
        self.pool.save(path)
        loaded = MemoryPool.load(path)
        assert repr(list(map(loaded.get, loaded))) == repr(list(map(self.pool.get, self.pool)))
        self.pool = loaded

    @rule(
        scores=st.dictionaries(st.one_of(ids, st.just("nobody")), numbers, max_size=20),
        candidates=st.one_of(st.none(), st.none(), st.none(), st.lists(ids, max_size=12)),
        settings=configs,
        outcomes=st.sampled_from([False, False, True]),
        by=st.sampled_from(["dict", "ids", "rows", "batch"]),
    )
    def select(self, scores: dict[Any, float], candidates: Any, settings: Any, outcomes: bool, by: str) -> None:
        options: dict[str, Any] = {
            "candidates": candidates, "config": settings, "now": NOW, "outcomes": outcomes,
        }  # fmt: skip
        similarity: Any = scores
        if by == "ids":
            similarity = (list(scores), list(scores.values()))
        if by == "rows":
            similarity = list(scores.values())
            options["rows"] = self.pool.rows_of(list(scores))

        def pool_answers() -> Any:
            if by == "batch":
                return self.pool.select_batch([{}, similarity], threads=2, **options)[1]
            return self.pool.select(similarity, **options)

        there = [one for one in self.rows if candidates is None or one in candidates]
        columns = [np.array([self.rows[one][1][number] for one in there], float) for number in range(4)]
        cost = np.array([self.rows[one][1][4] for one in there], np.int64)
        time = columns[3] if settings.recency_from == "accessed" else columns[0]
        relevance = np.array([scores.get(one, 0.5) for one in there], float)
        plain = config(**{**vars(settings), "recency_from": "created"})
        with np.errstate(all="ignore"):
            importance = columns[1] * columns[2]
        expected = answer_of(
            lambda: select_arrays(relevance, time, importance, cost, config=plain, now=NOW, outcomes=outcomes),
            lambda given: [(there[row], self.rows[there[row]][0]) for row in given.indices],
        )
        named = answer_of(pool_answers, lambda given: list(zip(given.ids, given.indices.tolist(), strict=True)))
        assert named == expected

    @invariant()
    def contents_are_the_same(self) -> None:
        assert list(self.pool) == list(self.rows)
        assert len(self.pool) == len(self.rows)
        assert self.pool.rows_of(IDS).tolist() == [self.rows.get(one, (-1,))[0] for one in IDS]


TestLife = Life.TestCase
TestLife.settings = hypothesis_settings(max_examples=150, stateful_step_count=40)
