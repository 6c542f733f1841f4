"""Random selections for parity tests: entries, scores, configs and clocks, hostile values among them.

A *world* is plain data, so that the same one can be built from memsel's classes and from zerda's.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

NOW = 1_700_000_000.0
_INF = math.inf
_NAN = math.nan


@dataclass
class World:
    """The input of one selection: field tuples of entries, scores by id, config fields."""

    entries: list[tuple[Any, ...]]  # id, content, timestamp, importance, decay_factor
    scores: dict[str, Any] | None
    config: dict[str, Any]


def random_size(rng: random.Random, largest: int) -> int:
    """Log-uniform from 0 to ``largest``."""
    return int(math.exp(rng.uniform(0.0, math.log(largest + 1.0)))) - (rng.random() < 0.1)


def random_entry(rng: random.Random, number: int, mood: str) -> tuple[Any, ...]:
    """The fields of one entry; ``mood`` says how wild its values are."""
    timestamp: Any
    importance: Any = rng.random()
    decay: Any = rng.choice((1.0, 1.0, rng.uniform(0.1, 1.0)))
    if mood == "ties":
        timestamp = NOW - rng.choice((0.0, 3600.0, 86400.0))
        importance = rng.choice((0.25, 0.5, 0.75))
        decay = 1.0
    elif mood == "wild":
        timestamp = rng.choice(
            (
                _NAN, _INF, -_INF, 0, 0.0, -1e300, 1e-300, True, int(NOW), NOW + rng.uniform(0.0, 86400.0 * 30),
                NOW - rng.uniform(0.0, 1e10), -5e-324, 2**53, NOW + 1e7,
            )
        )  # fmt: skip
        importance = rng.choice(
            (0, 1, True, 0.0, -0.0, 1.0, 5e-324, rng.random(), _NAN, _INF, -_INF, 7, -3, 1e308, -1e308, 10**9)
        )
        decay = rng.choice((1.0, 1, 0.1, _NAN, _INF, -1.0, 0, rng.random()))
    else:
        timestamp = NOW - rng.expovariate(1 / (86400.0 * 7))
        if rng.random() < 0.3:
            timestamp = int(timestamp)
        if rng.random() < 0.02:
            timestamp = NOW + rng.uniform(0.0, 86400.0 * 3)
    length = int(math.exp(rng.uniform(0.0, 7.0))) - 1
    content: Any = "x" * length
    if rng.random() < 0.1:
        content = rng.choice((None, {"input": "x" * length}, ["a"] * (length % 50), length, b"abc" * (length % 40)))
    return (f"id{number % 997 if rng.random() < 0.1 else number}", content, timestamp, importance, decay)


def random_score(rng: random.Random, mood: str) -> Any:
    if mood == "ties":
        return rng.choice((0.2, 0.5, 0.9))
    if mood == "wild":
        return rng.choice((_NAN, _INF, -_INF, 0, 1, True, -0.0, 0.0, 1e308, -1e308, 5e-324, rng.uniform(-2.0, 2.0), 3))
    return rng.random()


def random_config(rng: random.Random, rows: int, mood: str) -> dict[str, Any]:
    a, b = sorted((rng.random(), rng.random()))
    config: dict[str, Any] = {
        "relevance_weight": a,
        "recency_weight": b - a,
        "importance_weight": 1.0 - b,
        "recency_half_life_hours": rng.choice((24.0, 1.0, 720, 24 * 3650.0, 0.01)),
        "min_composite_score": rng.choice((0.1, 0.0, 0.3, 0.5)),
        "top_k": rng.choice((10, 1, 3, rows, rows + 5, rng.randint(0, rows + 1), 0)),
        "token_budget": rng.choice((3000, 0, 1, 25, 100, 500, 20000, rows * 3, 10**9)),
    }
    if rng.random() < 0.2:
        config.update(relevance_weight=1.5, recency_weight=-0.8, importance_weight=0.3)
    if rng.random() < 0.1:
        config.update(relevance_weight=0, recency_weight=1, importance_weight=0)
    if mood == "wild":
        config["recency_half_life_hours"] = rng.choice((24.0, -24.0, _INF, 5e-324, _NAN, 1e-3, 1e300, 1e12))
        config["min_composite_score"] = rng.choice((0.1, 0, -_INF, _INF, _NAN, -1.0, -1e308, 1))
        config["top_k"] = rng.choice((10, 2.5, _NAN, _INF, -1, True, False, rows, 2**70, -_INF))
        config["token_budget"] = rng.choice((3000, 10.5, _NAN, _INF, -1, True, 2**70, 0, -_INF, 1e300))
    return config


def random_world(rng: random.Random, largest: int) -> World:
    """One selection; sizes are log-uniform, and about a third each of the worlds are tame, tied and wild."""
    rows = max(0, random_size(rng, largest))
    mood = rng.choice(("tame", "ties", "wild"))
    entries = [random_entry(rng, number, mood) for number in range(rows)]
    share = rng.choice((0.0, 0.05, 0.5, 1.0, 1.0))
    scores: dict[str, Any] | None = {
        fields[0]: random_score(rng, mood) for fields in entries if rng.random() < share
    }
    if share == 0.0 and rng.random() < 0.5:
        scores = None
    if scores and rng.random() < 0.3:
        shuffled = list(scores.items())
        rng.shuffle(shuffled)
        scores = dict(shuffled)
    return World(entries, scores, random_config(rng, rows, mood))


def build(world: World, library: Any) -> tuple[list[Any], Any]:
    """The world's entries and selector from a library's classes (memsel itself, or ``zerda.memory``)."""
    entries = []
    for entry_id, content, timestamp, importance, decay in world.entries:
        entry = library.MemoryEntry(
            content, timestamp, library.MemoryType.SHORT_TERM, metadata={"id": entry_id}, last_access=NOW
        )
        entry.importance = importance
        entry.decay_factor = decay
        entries.append(entry)
    return entries, library.MemorySelector(config_of(world, library))


def config_of(world: World, library: Any) -> Any:
    config = library.SelectionConfig()
    for name, value in world.config.items():
        setattr(config, name, value)
    return config


def answer(select: Any) -> Any:
    """What a selection gives, so that two can be compared to the last bit; an exception as its type."""
    try:
        rows = select()
    except Exception as error:
        return type(error).__name__
    return [
        (row.entry.id, *(float(score).hex() for score in (
            row.relevance_score, row.recency_score, row.importance_score, row.composite_score
        )))
        for row in rows
    ]  # fmt: skip
