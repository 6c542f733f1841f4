"""Columns for tests of the array doors: hostile and tame ones, and the comparison with the scalar reference."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from oracle import Rows, bits, select_rows
from worlds import NOW

from memsel import Selection, select_arrays

_INF, _NAN = math.inf, math.nan
LARGEST_INT64 = 2**63 - 1


def config(**fields: Any) -> Any:
    """An object with the fields of a config, any of them replaced; no check stands in the way."""
    return SimpleNamespace(
        **{
            "relevance_weight": 0.5,
            "recency_weight": 0.2,
            "importance_weight": 0.3,
            "recency_half_life_hours": 24.0,
            "min_composite_score": 0.1,
            "top_k": 10,
            "token_budget": 3000,
            "overflow": "skip",
            "clamp_future": False,
            **fields,
        }
    )


@dataclass
class Query:
    """What one selection is made of."""

    relevance: Any
    timestamp: Any
    importance: Any
    tokens: Any
    config: Any
    now: Any = NOW

    @property
    def columns(self) -> tuple[Any, Any, Any, Any]:
        return self.relevance, self.timestamp, self.importance, self.tokens

    def __len__(self) -> int:
        return len(self.timestamp)

    def answer(self, outcomes: bool = True) -> Selection:
        return select_arrays(*self.columns, config=self.config, now=self.now, outcomes=outcomes)

    def reference(self) -> Rows:
        tokens = None if self.tokens is None else np.asarray(self.tokens).tolist()
        columns = (np.asarray(column).tolist() for column in (self.relevance, self.timestamp, self.importance))
        return select_rows(*columns, tokens, self.config, self.now)

    def check(self) -> None:
        """The answer, or the error, is the reference's to the last bit."""
        assert outcome_of(self.answer) == outcome_of(self.reference), self.config

    def rows(self, first: int, last: int) -> Query:
        """The same query over some of the rows."""
        tokens = None if self.tokens is None else self.tokens[first:last]
        return replace(
            self,
            relevance=self.relevance[first:last],
            timestamp=self.timestamp[first:last],
            importance=self.importance[first:last],
            tokens=tokens,
        )


def shown(answer: Any) -> tuple[Any, ...]:
    """A selection, or the reference's rows, comparable to the last bit."""
    return (
        np.asarray(answer.indices).tolist(),
        bits(np.asarray(answer.scores).tolist()),
        bits(np.asarray(answer.relevance).tolist()),
        bits(np.asarray(answer.recency).tolist()),
        bits(np.asarray(answer.importance).tolist()),
        answer.tokens_used,
        None if answer.outcomes is None else np.asarray(answer.outcomes).tolist(),
    )


def outcome_of(select: Any) -> Any:
    """What a selection gives, or the error that it raises; of an overflow also the row that is named first."""
    try:
        return shown(select())
    except OverflowError as error:
        digits = "".join(sign if sign.isdigit() else " " for sign in str(error)).split()
        return "OverflowError", int(digits[0])
    except ZeroDivisionError:
        return "ZeroDivisionError"


MOODS = ("tame", "ties", "future", "wild", "huge", "tiny")


def random_query(rng: random.Random, rows: int, mood: str | None = None) -> Query:
    """A query of a mood: everyday numbers, ties, dates ahead of the clock, hostile values, huge or tiny magnitudes."""
    mood = mood or rng.choice(MOODS)
    draw = np.random.default_rng(rng.randrange(2**63))
    made = Query(
        draw.random(rows),
        NOW - draw.exponential(86400.0 * rng.choice((0.1, 7.0, 400.0)), rows),
        draw.random(rows),
        draw.integers(0, 200, rows),
        random_config(rng, rows, mood),
    )
    if mood == "ties":
        kinds = rng.choice((1, 2, 3))
        made.relevance = draw.choice((0.2, 0.5, 0.9)[:kinds], rows)
        made.importance = draw.choice((0.25, 0.5, -0.0)[:kinds], rows)
        made.timestamp = NOW - draw.choice((0.0, 3600.0, 86400.0)[:kinds], rows)
    elif mood == "future":
        made.timestamp = NOW + draw.normal(0.0, 86400.0 * 30, rows)
    elif mood == "wild":
        odd = (0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e308, -1e308, 1e300, -1e300, _NAN, _INF, -_INF, 0.5, 2.2e-308)
        share = rng.choice((0.02, 0.5, 1.0))
        for column in (made.relevance, made.importance):
            at = draw.random(rows) < share
            column[at] = draw.choice(odd, int(at.sum()))
        at = draw.random(rows) < share
        odd_times = (NOW, NOW - 1e6, _NAN, _INF, -_INF, 0.0, -0.0, -1e300, 1e-300, 2.0**53, -1e308, NOW + 1e5)
        made.timestamp[at] = draw.choice(odd_times, int(at.sum()))
        if rng.random() < 0.2 and rows:
            made.timestamp[rng.randrange(rows)] = rng.choice((1.7e12, 1e300, NOW + 1e9))
        if rng.random() < 0.3:
            made.tokens = draw.choice((0, 1, 2**62, LARGEST_INT64, LARGEST_INT64 - 1, 10), rows)
            made.config.token_budget = rng.choice((2**63 - 1, 2**63, 2**64, 2**64 + 5, 2**70, 2**127, 11, 0))
    elif mood == "huge":
        scale = 10.0 ** rng.uniform(0.0, 307.0)
        made.relevance = draw.normal(0.0, scale, rows)
        made.importance = -made.relevance * draw.choice((1.0, 0.999999, 1.0 + 1e-12), rows)
        made.timestamp = NOW + draw.random(rows) * 86400.0 * rng.choice((0.0, 1.0, 1000.0))
    elif mood == "tiny":
        scale = 10.0 ** rng.uniform(-323.0, 0.0)
        made.relevance = draw.normal(0.0, scale, rows)
        made.importance = draw.normal(0.0, scale, rows)
        made.timestamp = NOW - draw.random(rows) * 86400.0 * rng.choice((1.0, 1000.0))
        made.config.min_composite_score = rng.choice((0.0, 5e-324, -1.0))
    if rng.random() < 0.15:
        made.tokens = None
    return made


def random_config(rng: random.Random, rows: int, mood: str = "tame") -> Any:
    made = config(
        recency_half_life_hours=rng.choice((24.0, 24.0, 1.0, 720, 24 * 3650.0, 0.3)),
        min_composite_score=rng.choice((0.1, 0.0, 0.3, 0.5, -_INF)),
        top_k=rng.choice((10, 1, 3, rows, rows + 5, rng.randint(0, rows + 1), 0, 300)),
        token_budget=rng.choice((3000, 0, 1, 25, 500, rows * 3, rows * 99, 10**9)),
        overflow=rng.choice(("skip", "skip", "stop")),
        clamp_future=rng.random() < 0.25,
    )
    act = rng.random()
    if act < 0.15:
        made.relevance_weight, made.recency_weight, made.importance_weight = 1.5, -0.8, 0.3
    elif act < 0.25:
        made.relevance_weight, made.recency_weight, made.importance_weight = 0, 1, 0
    elif act < 0.35:
        made.relevance_weight, made.recency_weight, made.importance_weight = -0.3, 0.3, 1
    elif act < 0.40:
        made.relevance_weight, made.recency_weight, made.importance_weight = 1, 0, 0
    if mood in ("wild", "huge", "tiny") and rng.random() < 0.7:
        made.recency_half_life_hours = rng.choice((24.0, -24.0, _INF, -_INF, 5e-324, 4.5e-309, _NAN, 1e300, 1.7e308, 0))
        made.min_composite_score = rng.choice((0.1, 0, -_INF, _INF, _NAN, -1.0, -1e308, 1, 10**25))
        made.top_k = rng.choice((10, 2.5, _NAN, _INF, -1, True, False, rows, 2**70, -_INF))
        made.token_budget = rng.choice((3000, 10.5, _NAN, _INF, -1, True, 2**70, 0, -_INF, 1e300))
        if rng.random() < 0.3:
            made.recency_weight = rng.choice((5e-324, 1e-310, 1e300, -1e300, _INF, _NAN, 1e-3))
    return made
