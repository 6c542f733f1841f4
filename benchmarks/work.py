"""The seeded work of the benchmarks: columns, and entries of any library's classes with the same numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

NOW = 1_700_000_000.0
_DAY = 86400.0


@dataclass
class Columns:
    """Columns of one selection."""

    relevance: np.ndarray
    timestamp: np.ndarray
    importance: np.ndarray
    tokens: np.ndarray

    def __iter__(self) -> Any:
        return iter((self.relevance, self.timestamp, self.importance, self.tokens))

    def __len__(self) -> int:
        return len(self.relevance)


def columns(rows: int, *, scores: Any = np.float64, seed: int = 0) -> Columns:
    """Uniform scores, times over a year, 10 to 120 tokens; ``scores`` is the type of relevance and importance."""
    rng = np.random.default_rng([seed, rows])
    return Columns(
        rng.random(rows).astype(scores),
        NOW - rng.random(rows) * 365.0 * _DAY,
        rng.random(rows).astype(scores),
        rng.integers(10, 121, rows),
    )


def entries(library: Any, rows: int, *, shuffled: bool, seed: int = 0) -> list[Any]:
    """Entries with text of 40 to 480 characters, over a month, with ids of their own; shuffled: not in memory order."""
    rng = random.Random(seed * 1_000_003 + rows)
    made = [
        library.MemoryEntry(
            "x" * rng.randint(40, 480),
            NOW - rng.random() * 30.0 * _DAY,
            library.MemoryType.SHORT_TERM,
            importance=rng.random(),
            metadata={"id": f"memory-{number}"},
            last_access=NOW,
        )
        for number in range(rows)
    ]
    if shuffled:
        rng.shuffle(made)
    return made


def scores(ids: list[str], seed: int = 0) -> dict[str, float]:
    """A score for every id, in the order of the ids."""
    rng = random.Random(seed + len(ids))
    return {entry_id: rng.random() for entry_id in ids}
