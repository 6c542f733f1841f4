"""The scalar reference over columns: what every door has to answer, bit for bit.

Written from the documented contract in plain Python floats, one row at a time, with ``math.exp``. It is slow and
obvious; nothing of memsel is used here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

KEPT, BELOW_MIN_SCORE, OVER_BUDGET, PAST_TOP_K = range(4)


@dataclass
class Rows:
    """The kept rows, best first, with their scores; and the outcome of every row in input order."""

    indices: list[int]
    scores: list[float]
    relevance: list[float]
    recency: list[float]
    importance: list[float]
    tokens_used: int
    outcomes: list[int]


def recency_of(timestamp: float, config: Any, now: float) -> float:
    """``exp(-(ln 2 / half_life_hours) * age_hours)``; OverflowError where a finite exponent is too large."""
    age_hours = (float(now) - float(timestamp)) / 3600.0
    if getattr(config, "clamp_future", False) and age_hours < 0.0:
        age_hours = 0.0
    return math.exp(-(math.log(2) / config.recency_half_life_hours) * age_hours)


def score_rows(
    relevance: Sequence[float],
    timestamp: Sequence[float],
    importance: Sequence[float],
    config: Any,
    now: float,
) -> list[tuple[float, float, float, float]]:
    """Relevance, recency, importance and composite of every row, in input order.

    Raises:
        OverflowError: naming the first row whose recency is no float64.
        ZeroDivisionError: the half-life is 0, unless there are no rows.
    """
    scored = []
    for row, (one_relevance, one_timestamp, one_importance) in enumerate(
        zip(relevance, timestamp, importance, strict=True)
    ):
        try:
            recency = recency_of(one_timestamp, config, now)
        except OverflowError:
            raise OverflowError(f"row {row}") from None
        rel, imp = float(one_relevance), float(one_importance)
        composite = config.relevance_weight * rel + config.recency_weight * recency + config.importance_weight * imp
        scored.append((rel, recency, imp, float(composite)))
    return scored


def select_rows(
    relevance: Sequence[float],
    timestamp: Sequence[float],
    importance: Sequence[float],
    tokens: Sequence[int] | None,
    config: Any,
    now: float,
) -> Rows:
    """The selection of a set of rows.

    Args:
        relevance, timestamp, importance: one number a row; importance is the effective one.
        tokens: whole tokens of each row, or None: then no row costs anything and the budget does not bind.
        config: an object with the fields of SelectionConfig, added ones included or not.
        now: seconds since the epoch.
    """
    scored = score_rows(relevance, timestamp, importance, config, now)
    stops = getattr(config, "overflow", "skip") == "stop"
    outcomes = [BELOW_MIN_SCORE] * len(scored)
    order = [row for row, scores in enumerate(scored) if scores[3] >= config.min_composite_score]
    order.sort(key=lambda row: scored[row][3], reverse=True)  # stable: equal scores keep input order

    kept: list[int] = []
    used = 0
    stopped = False
    for row in order:
        if len(kept) >= config.top_k:
            outcomes[row] = PAST_TOP_K
        elif stopped or (tokens is not None and used + int(tokens[row]) > config.token_budget):
            outcomes[row] = OVER_BUDGET
            stopped = stops
        else:
            outcomes[row] = KEPT
            kept.append(row)
            used += 0 if tokens is None else int(tokens[row])
    return Rows(
        indices=kept,
        scores=[scored[row][3] for row in kept],
        relevance=[scored[row][0] for row in kept],
        recency=[scored[row][1] for row in kept],
        importance=[scored[row][2] for row in kept],
        tokens_used=used,
        outcomes=outcomes,
    )


def bits(values: Sequence[float]) -> list[str]:
    """Floats so that two lists are equal only if every bit but those of a NaN's payload is: -0.0 is not 0.0."""
    return [float(value).hex() for value in values]
