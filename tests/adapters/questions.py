"""Fifty questions that every face of the composite policy is asked, with the answers of the object door."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from worlds import NOW

import memsel
from memsel.tokens import ScriptTokenEstimator

WORDS = ("decorators", "invoice", "Lisbon", "sailing", "laptop", "tax", "garden", "Rust", "ferry", "Ada")
# How a moment may be written; each face adds its own way without a zone.
SPELLINGS = (
    float,
    lambda seconds: datetime.fromtimestamp(seconds, UTC),
    lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat(),
    lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z"),
)


@dataclass
class Question:
    """Memories as a framework's documents hold them, a config, and what the object door answers."""

    memories: list[dict[str, Any]]
    config: memsel.SelectionConfig
    expected: list[tuple[str, float]]


def questions(naive: Any) -> list[Question]:
    """Questions at the time NOW; ``naive`` writes seconds as a date without a zone."""
    rng = random.Random("faces")
    return [_question(rng, (*SPELLINGS, naive)) for _ in range(50)]


def _question(rng: random.Random, spellings: Any) -> Question:
    config = memsel.SelectionConfig(
        top_k=rng.choice((3, 10, 50)),
        token_budget=rng.choice((20, 100, 3000)),
        recency_half_life_hours=rng.choice((1.0, 24.0, 720.0)),
        min_composite_score=rng.choice((0.1, 0.5)),
        overflow=rng.choice(("skip", "stop")),
        recency_from=rng.choice(("created", "accessed")),
        token_counter=rng.choice((None, ScriptTokenEstimator())),
    )
    if rng.random() < 0.2:
        config = memsel.SelectionConfig()
    memories, entries, scores = [], [], {}
    for number in range(rng.randrange(40)):
        # Whole milliseconds read back as the same double from every spelling.
        created, accessed = (round(NOW - rng.expovariate(2e-5), 3) for _ in range(2))
        memory = {"id": f"m{number}", "text": " ".join(rng.choices(WORDS, k=rng.randrange(30)))}
        entry = memsel.MemoryEntry(
            memory["text"], NOW, memsel.MemoryType.SEMANTIC, metadata={"id": memory["id"]}, last_access=NOW
        )
        if rng.random() < 0.9:
            memory["score"] = scores[memory["id"]] = rng.choice((0, 1, 0.5, rng.random(), -rng.random()))
        if rng.random() < 0.9:
            memory["created"], entry.timestamp = rng.choice(spellings)(created), created
        if rng.random() < 0.9:
            memory["accessed"], entry.last_access = rng.choice(spellings)(accessed), accessed
        if rng.random() < 0.9:
            memory["importance"] = entry.importance = rng.choice((0, 1, 0.25, rng.random()))
        memories.append(memory)
        entries.append(entry)
    chosen = memsel.MemorySelector(config).select("q", entries, scores, now=NOW)
    return Question(memories, config, [(kept.entry.id, kept.composite_score) for kept in chosen])


# What a value may not be, and how the error goes on after the name of its place.
WRONG_TIMES = [
    ("yesterday", "is 'yesterday'; expected a datetime, an ISO-8601 text or seconds since the epoch"),
    ("9" * 500, "is a text of 500 characters; expected a datetime, an ISO-8601 text or seconds since the epoch"),
    (NOW * 1000, "expected seconds since the epoch, within the years 1 to 9999; milliseconds are not"),
    (float("nan"), "is nan; expected seconds since the epoch"),
    (True, "is True; expected a datetime, an ISO-8601 text or seconds since the epoch"),
    ([2026], "is of type list; expected a datetime, an ISO-8601 text or seconds since the epoch"),
]
WRONG_SHARES = [
    (1.5, "is 1.5; expected a number from 0 to 1"),
    ("high", "is 'high'; expected a number from 0 to 1"),
    (True, "is True; expected a number from 0 to 1"),
    (float("inf"), "is inf; expected a number from 0 to 1"),
]
WRONG_SCORES = [
    ("0.9", "is '0.9'; expected a finite number"),
    (float("nan"), "is nan; expected a finite number"),
    (10**400, "is of type int; expected a finite number"),
]


def wrong_values(time_key: str, importance_key: str, score_key: str) -> Any:
    """Parameters ``key, value, message`` for a test of a face's refusals."""
    return pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            (key, value, message)
            for key, wrong in ((time_key, WRONG_TIMES), (importance_key, WRONG_SHARES), (score_key, WRONG_SCORES))
            for value, message in wrong
        ],
    )
