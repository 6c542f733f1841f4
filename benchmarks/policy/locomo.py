"""How much of the evidence memory_select finds in the LoCoMo conversations, beside BM25 with greedy packing.

For each question, over all turns of its conversation, 500 tokens at four characters each: the share of the turns that
answer it which are selected. The conversations (CC BY-NC 4.0, for evaluation only) are read from beside the project;
where they are absent nothing is measured.

Run from the project's root: python benchmarks/policy/locomo.py [FILE]
"""

import collections
import datetime
import json
import math
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bench_speed import ROOT, machine

from memsel.policy import MemorySelectSettings, memory_select
from memsel.policy._words import words

DATA = ROOT.parent / "shared" / "data" / "locomo" / "locomo10.json"
BUDGET = 500
UNBOUNDED = 10**6

SETTINGS = {
    "defaults": MemorySelectSettings(max_tokens=BUDGET),
    "no limit of results": MemorySelectSettings(max_tokens=BUDGET, max_results=UNBOUNDED),
    "no limit of results, half-life of a year": MemorySelectSettings(
        max_tokens=BUDGET, max_results=UNBOUNDED, recency_days=365
    ),
    "no limit of results, relevance alone": MemorySelectSettings(
        max_tokens=BUDGET, max_results=UNBOUNDED, freshness_weight=0, importance_weight=0
    ),
}

LIMITS = (
    "Freshness halves in 14 days while a conversation lasts months, so by default newer turns outrank better ones:"
    " the half-life alone makes most of the difference. Every word of a question weighs the same, where BM25 gives rare"
    " words more weight. Words match whole: 'paint' does not find 'painted'. Nothing links a question to an answer in"
    " other words."
)


def session_time(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=datetime.UTC)


def turns_of(conversation: dict[str, Any]) -> tuple[list[dict[str, Any]], datetime.datetime]:
    """The turns as memories, and the time of the last session."""
    memories = []
    latest = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    for name, turns in conversation.items():
        if not re.fullmatch(r"session_\d+", name):
            continue
        time = session_time(conversation[f"{name}_date_time"])
        latest = max(latest, time)
        for turn in turns:
            text = f"{turn['speaker']}: {turn['text']}"
            if "blip_caption" in turn:
                text += f" [shares {turn['blip_caption']}]"
            memories.append({"id": turn["dia_id"], "text": text, "created_at": time})
    return memories, latest


def questions() -> Iterator[tuple[str, set[str], int]]:
    """Each question with the turns that answer it, and the number of its conversation."""
    for number, sample in enumerate(json.loads(DATA.read_text(encoding="utf-8"))):
        known = {memory["id"] for memory in turns_of(sample["conversation"])[0]}
        for qa in sample["qa"]:
            evidence = {id for text in qa["evidence"] for id in re.findall(r"D\d+:\d+", text)} & known
            if evidence:
                yield qa["question"], evidence, number


def bm25(memories: list[dict[str, Any]]) -> Callable[[str], set[str]]:
    """Okapi BM25 (k1 1.5, b 0.75) over the same words, packed greedily into the same budget."""
    counts = [collections.Counter(words(memory["text"])) for memory in memories]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths)
    holders = collections.Counter(word for count in counts for word in count)

    def select(question: str) -> set[str]:
        scored = []
        for memory, count, length in zip(memories, counts, lengths, strict=True):
            score = 0.0
            for word in set(words(question)):
                if frequency := count[word]:
                    rarity = math.log(1 + (len(memories) - holders[word] + 0.5) / (holders[word] + 0.5))
                    score += rarity * frequency * 2.5 / (frequency + 1.5 * (0.25 + 0.75 * length / mean))
            if score > 0:
                scored.append((-score, len(scored), memory))
        left, chosen = BUDGET, set()
        for _, _, memory in sorted(scored, key=lambda row: row[:2]):
            tokens = -(-len(memory["text"]) // 4)
            if tokens <= left:
                left -= tokens
                chosen.add(memory["id"])
        return chosen

    return select


def main() -> None:
    if not DATA.exists():
        print(f"{DATA} is absent: nothing measured")
        return
    samples = [turns_of(sample["conversation"]) for sample in json.loads(DATA.read_text(encoding="utf-8"))]
    selectors: dict[str, Callable[[str, int], set[str]]] = {}
    for name, settings in SETTINGS.items():

        def select(question: str, number: int, settings: MemorySelectSettings = settings) -> set[str]:
            memories, latest = samples[number]
            return {kept.id for kept in memory_select(question, memories, settings=settings, now=latest).selected}

        selectors[name] = select
    indexes = [bm25(memories) for memories, _ in samples]
    selectors["BM25, greedy packing"] = lambda question, number: indexes[number](question)
    asked = list(questions())
    results = {}
    for name, selector in selectors.items():
        shares = [(len(selector(question, number) & evidence), len(evidence)) for question, evidence, number in asked]
        results[name] = {
            "mean_share_of_a_questions_evidence": round(sum(found / all for found, all in shares) / len(shares), 4),
            "share_of_all_evidence": round(sum(found for found, _ in shares) / sum(all for _, all in shares), 4),
        }
    report = {
        "machine": machine(),
        "budget_tokens": BUDGET,
        "questions": len(asked),
        "turns": sum(len(memories) for memories, _ in samples),
        "results": results,
        "what_limits_it": LIMITS,
    }
    path = pathlib.Path(sys.argv[1]) if sys.argv[1:] else ROOT / "benchmarks" / "results" / "policy_locomo.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
