"""Short ways to make entries and to read answers, for tests of one behaviour at a time."""

from __future__ import annotations

from typing import Any

from worlds import NOW

from memsel import MemoryEntry, MemorySelector, MemoryType, SelectionConfig

HOUR = 3600.0
DAY = 86400.0
TEN_TOKENS = "x" * 40


def entry(entry_id: Any = "a", content: Any = TEN_TOKENS, timestamp: Any = NOW, **fields: Any) -> MemoryEntry:
    """An entry of ten tokens made at NOW, with importance 0.5."""
    return MemoryEntry(content, timestamp, MemoryType.SHORT_TERM, metadata={"id": entry_id}, **fields)


def entries(entry_ids: Any) -> list[MemoryEntry]:
    return [entry(one) for one in entry_ids]


def select(candidates: Any, scores: Any = None, **config: Any) -> Any:
    return MemorySelector(SelectionConfig(**config)).select("query", candidates, scores)


def only_relevance(**config: Any) -> dict[str, Any]:
    """Config fields under which the composite is the relevance."""
    return {"relevance_weight": 1, "recency_weight": 0, "importance_weight": 0, **config}


def ids(rows: Any) -> list[Any]:
    return [row.entry.id for row in rows]


def shown(rows: Any) -> list[tuple[Any, ...]]:
    """Id and the four scores of every chosen entry."""
    return [
        (row.entry.id, row.relevance_score, row.recency_score, row.importance_score, row.composite_score)
        for row in rows
    ]
