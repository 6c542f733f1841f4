"""Writes selections.jsonl: random selections with the oracle's answers, so that a change of both shows in the diff.

Run from the project's root: python -m tests.policy.record
"""

import json
import pathlib
import random
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from memsel.policy import MemorySelectSettings
from policy import cases, oracle

PATH = pathlib.Path(__file__).with_name("selections.jsonl")
COUNT = 60


def recorded(seed: int) -> dict[str, Any]:
    rng = random.Random(50_000 + seed)
    memories = cases.memories(rng, rng.choice((1, 4, 8, 16)))
    for memory in memories:
        if "created_at" in memory and not isinstance(memory["created_at"], str):
            memory["created_at"] = memory["created_at"].isoformat()
    query = cases.query(rng, memories)
    settings = cases.settings(rng)
    selected, dropped, total = oracle.select(
        query, memories, settings=MemorySelectSettings(**settings), now=cases.NOW.isoformat()
    )
    names = ("id", "text", "score", "tokens", "reasons")
    return {
        "query": query,
        "now": cases.NOW.isoformat(),
        "settings": settings,
        "memories": memories,
        "selected": [dict(zip(names, kept, strict=True)) for kept in selected],
        "dropped": [{"id": id, "reason": reason} for id, reason in dropped],
        "total_tokens": total,
    }


if __name__ == "__main__":
    PATH.write_text("".join(json.dumps(recorded(seed)) + "\n" for seed in range(COUNT)), encoding="ascii")
