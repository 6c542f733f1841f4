"""Makes memories.jsonl and scores.json out of precisionMemBench's beliefs: python make.py beliefs.seed.embedded.json

README.md beside this file says where the beliefs come from and what becomes of each of their fields.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCORED_AGAINST = "b-db-decision"
MEMORY_TYPES = {"decision": "episodic", "open_question": "working"}


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def scope(belief: dict[str, Any]) -> str:
    """The one scope of a belief; what belongs to the benchmark's second user has a scope of its own."""
    (name,) = belief["scope"]
    return name if belief["user_id"] == "test-user" else belief["user_id"]


def expiry(belief: dict[str, Any], beliefs: dict[str, dict[str, Any]]) -> str | None:
    """When a belief stopped holding: its question was resolved, or the belief that replaced it was made."""
    successor = belief["superseded_by"]
    return beliefs[successor]["created_at"] if successor else belief["resolved_at"]


def memory(belief: dict[str, Any], beliefs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    metadata = {"id": belief["_id"], "scope": scope(belief), "kind": belief["type"]}
    expires_at = expiry(belief, beliefs)
    if expires_at is not None:
        metadata["expires_at"] = expires_at
    return {
        "id": belief["_id"],
        "content": belief["content"],
        "timestamp": seconds(belief["created_at"]),
        "memory_type": MEMORY_TYPES.get(belief["type"], "semantic"),
        "importance": 1.0 if belief["pinned"] else belief["confidence"],
        "access_count": belief["reinforcement_count"],
        "tags": list(dict.fromkeys(alias.lower() for alias in belief["aliases"])),
        "metadata": metadata,
        "last_access": seconds(belief["last_reinforced_at"]),
    }


def cosine(one: list[float], other: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


def main(source: str, target: Path = HERE) -> None:
    beliefs = {belief["_id"]: belief for belief in json.loads(Path(source).read_text("utf-8"))}
    lines = [json.dumps(memory(belief, beliefs), ensure_ascii=False) for belief in beliefs.values()]
    (target / "memories.jsonl").write_text("\n".join(lines) + "\n", "utf-8", newline="\n")
    anchor = beliefs[SCORED_AGAINST]["embedding"]
    scores = {name: round(cosine(anchor, belief["embedding"]), 4) for name, belief in beliefs.items()}
    (target / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", "utf-8", newline="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
