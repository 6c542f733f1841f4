"""What a user could write instead of memsel's array door, each as strong as we can make it.

A contestant is made for columns and a config and answers a call with the rows it keeps, best first. All of them rank
with the whole formula and pack greedily; where only the first few are sorted, they ask for eight times as many when the
budget needs more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import memsel

from .work import NOW, Columns

Contestant = Callable[[Columns, memsel.SelectionConfig], Callable[[], Any]]
_FIRST = 64


def memsel_arrays(work: Columns, config: memsel.SelectionConfig) -> Callable[[], Any]:
    relevance, timestamp, importance, tokens = work
    return lambda: memsel.select_arrays(relevance, timestamp, importance, tokens, config=config, now=NOW)


def rows_of(result: Any) -> list[int]:
    """The rows of any contestant's result."""
    return result.indices.tolist() if hasattr(result, "indices") else list(result)


def _pack(order: list[int], scores: Any, tokens: Any, config: memsel.SelectionConfig) -> list[int]:
    kept: list[int] = []
    used = 0
    for row, score, cost in zip(order, scores, tokens, strict=True):
        if len(kept) >= config.top_k or not score >= config.min_composite_score:
            break
        if used + cost <= config.token_budget:
            kept.append(row)
            used += cost
    return kept


def _numpy_scores(work: Columns, config: memsel.SelectionConfig) -> np.ndarray:
    scores = (NOW - work.timestamp) * (-math.log(2) / config.recency_half_life_hours / 3600.0)
    np.exp(scores, out=scores)
    scores *= config.recency_weight
    scores += config.relevance_weight * work.relevance
    scores += config.importance_weight * work.importance
    return scores


def numpy_argsort(work: Columns, config: memsel.SelectionConfig) -> Callable[[], Any]:
    def select() -> list[int]:
        scores = _numpy_scores(work, config)
        order = np.argsort(-scores, kind="stable")
        return _pack(order.tolist(), scores[order].tolist(), work.tokens[order].tolist(), config)

    return select


def numpy_partition(work: Columns, config: memsel.SelectionConfig) -> Callable[[], Any]:
    def select() -> list[int]:
        scores = _numpy_scores(work, config)
        rows = len(scores)
        first = _FIRST
        while True:
            if first >= rows:
                best = np.argsort(-scores, kind="stable")
            else:
                best = np.flatnonzero(scores >= np.partition(scores, rows - first)[rows - first])
                best = best[np.argsort(-scores[best], kind="stable")]
            kept = _pack(best.tolist(), scores[best].tolist(), work.tokens[best].tolist(), config)
            if len(kept) >= config.top_k or first >= rows:
                return kept
            first *= 8

    return select


def polars_frame(work: Columns, config: memsel.SelectionConfig) -> Callable[[], Any]:
    import polars as pl

    frame = pl.DataFrame(
        {
            "relevance": work.relevance,
            "timestamp": work.timestamp,
            "importance": work.importance,
            "tokens": work.tokens,
            "row": -np.arange(len(work)),
        }
    ).lazy()
    rate = -math.log(2) / config.recency_half_life_hours / 3600.0
    ranked = frame.select(
        (
            config.relevance_weight * pl.col("relevance")
            + config.recency_weight * ((NOW - pl.col("timestamp")) * rate).exp()
            + config.importance_weight * pl.col("importance")
        ).alias("score"),
        "tokens",
        "row",
    ).filter(pl.col("score") >= config.min_composite_score)

    def select() -> list[int]:
        first = _FIRST
        while True:
            best = ranked.top_k(first, by=["score", "row"]).sort(["score", "row"], descending=True).collect()
            order = (-best["row"]).to_list()
            kept = _pack(order, best["score"].to_list(), best["tokens"].to_list(), config)
            if len(kept) >= config.top_k or len(best) < first:
                return kept
            first *= 8

    return select


def _duckdb(threads: int | None) -> Contestant:
    def make(work: Columns, config: memsel.SelectionConfig) -> Callable[[], Any]:
        import duckdb

        connection = duckdb.connect(config={} if threads is None else {"threads": threads})
        table = {
            "relevance": work.relevance,
            "timestamp": work.timestamp,
            "importance": work.importance,
            "tokens": work.tokens,
            "number": np.arange(len(work)),
        }
        connection.register("incoming", table)
        connection.execute("CREATE TABLE memories AS SELECT * FROM incoming")
        rate = -math.log(2) / config.recency_half_life_hours / 3600.0
        question = f"""
            SELECT number, tokens, score FROM (
                SELECT number, tokens, {config.relevance_weight!r}::DOUBLE * relevance
                    + {config.recency_weight!r}::DOUBLE * exp(({NOW!r}::DOUBLE - "timestamp") * {rate!r}::DOUBLE)
                    + {config.importance_weight!r}::DOUBLE * importance AS score
                FROM memories
            ) WHERE score >= {config.min_composite_score!r}::DOUBLE ORDER BY score DESC, number LIMIT """

        def select() -> list[int]:
            first = _FIRST
            while True:
                found = connection.execute(question + str(first)).fetchnumpy()
                kept = _pack(found["number"].tolist(), found["score"].tolist(), found["tokens"].tolist(), config)
                if len(kept) >= config.top_k or len(found["number"]) < first:
                    return kept
                first *= 8

        return select

    return make


duckdb_one_thread = _duckdb(1)
duckdb_default_threads = _duckdb(None)


def numba_pass(work: Columns, config: memsel.SelectionConfig) -> Callable[[], Any]:
    """One compiled pass that scores every row and keeps the best few in a small sorted buffer."""
    best_of = _numba_best()
    rate = -math.log(2) / config.recency_half_life_hours / 3600.0

    def select() -> list[int]:
        first = _FIRST
        while True:
            found, scores = best_of(
                work.relevance, work.timestamp, work.importance, NOW, rate, config.relevance_weight,
                config.recency_weight, config.importance_weight, config.min_composite_score, min(first, len(work)),
            )  # fmt: skip
            kept = _pack(found.tolist(), scores.tolist(), work.tokens[found].tolist(), config)
            if len(kept) >= config.top_k or len(found) < first:
                return kept
            first *= 8

    return select


_compiled: dict[str, Any] = {}


def _numba_best() -> Any:
    if "best" not in _compiled:
        import numba

        @numba.njit(nogil=True)
        def best_of(relevance, timestamp, importance, now, rate, w_rel, w_rec, w_imp, least, count):  # type: ignore[no-untyped-def]
            rows = np.empty(count, np.int64)
            scores = np.empty(count, np.float64)
            held = 0
            for row in range(len(relevance)):
                recency = math.exp((now - timestamp[row]) * rate)
                score = w_rel * relevance[row] + w_rec * recency + w_imp * importance[row]
                if score < least or (held == count and score <= scores[count - 1]):
                    continue
                at = held if held < count else count - 1
                held = min(held + 1, count)
                while at > 0 and scores[at - 1] < score:
                    scores[at] = scores[at - 1]
                    rows[at] = rows[at - 1]
                    at -= 1
                scores[at] = score
                rows[at] = row
            return rows[:held], scores[:held]

        _compiled["best"] = best_of
    return _compiled["best"]


def streaming_read(work: Columns) -> Callable[[], Any]:
    """The floor: a compiled loop that does nothing but sum relevance, timestamp and importance."""
    if "sum" not in _compiled:
        import numba

        @numba.njit(nogil=True, fastmath=True)
        def sums(relevance, timestamp, importance):  # type: ignore[no-untyped-def]
            a = b = c = 0.0
            for row in range(len(relevance)):
                a += relevance[row]
                b += timestamp[row]
                c += importance[row]
            return a, b, c

        _compiled["sum"] = sums
    sums = _compiled["sum"]
    return lambda: sums(work.relevance, work.timestamp, work.importance)


CONTESTANTS: dict[str, Contestant] = {
    "memsel": memsel_arrays,
    "numpy argsort": numpy_argsort,
    "numpy partition": numpy_partition,
    "polars": polars_frame,
    "duckdb, 1 thread": duckdb_one_thread,
    "duckdb, default threads": duckdb_default_threads,
    "numba": numba_pass,
}
