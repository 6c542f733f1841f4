"""memory_select against plain Python: the answers are compared, then the contestants are timed in turns.

Run from the project's root: python benchmarks/policy/bench_speed.py [FILE]; the figures go to FILE as JSON, by default
benchmarks/results/policy_speed.json.
"""

import datetime
import json
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(pathlib.Path(__file__).resolve().parent)]

import msgspec  # noqa: E402
import plain  # noqa: E402
from policy import oracle  # noqa: E402

from memsel.policy import MemorySelectSettings, memory_select, redact  # noqa: E402
from memsel.policy.memories import decode_memories  # noqa: E402

NOW = "2026-09-17T12:00:00+00:00"
INSTANT = datetime.datetime.fromisoformat(NOW)
LETTERS = {
    "ascii": "abcdefghijklmnopqrstuvwxyz",
    "french": "aabcdeéèêefghiïjklmnoôpqrstuùvwxyzç",
    "cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
}


def made_memories(count: int, script: str = "ascii", seed: int = 1) -> tuple[list[dict[str, Any]], str]:
    """Memories of 6 to 30 words drawn by Zipf's law, one in twenty nearly a repeat of another, and a query of four."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices(LETTERS[script], k=rng.randint(3, 10))) for _ in range(3000)]
    weights = [1 / (rank + 5) for rank in range(len(vocabulary))]
    memories: list[dict[str, Any]] = []
    for i in range(count):
        words = rng.choices(vocabulary, weights, k=rng.randint(6, 30))
        if memories and rng.random() < 0.05:
            words = [*rng.choice(memories)["text"].split(" ")[1:], rng.choice(["not", "7", "more"])]
        memory = {
            "id": f"m{i:06}",
            "text": " ".join(words),
            "created_at": (INSTANT - datetime.timedelta(seconds=rng.randrange(90 * 86400))).isoformat(),
            "importance": round(rng.random(), 3),
        }
        if rng.random() < 0.3:
            memory["tags"] = rng.sample(vocabulary, 2)
        if rng.random() < 0.2:
            memory["similarity"] = round(rng.random(), 3)
        memories.append(memory)
    rng.shuffle(memories)
    return memories, " ".join(vocabulary[rank] for rank in (3, 20, 90, 400))


class Entry:
    """The same memory as an object with the attributes of a MemoryEntry."""

    __slots__ = ("content", "effective_importance", "id", "metadata", "tags", "timestamp")

    def __init__(self, memory: dict[str, Any]) -> None:
        self.id = memory["id"]
        self.content = memory["text"]
        self.timestamp = datetime.datetime.fromisoformat(memory["created_at"]).timestamp()
        self.effective_importance = float(memory["importance"])
        self.tags = memory.get("tags", [])
        self.metadata = {"similarity": memory["similarity"]} if "similarity" in memory else {}


def as_plain(answer: Any) -> Any:
    return [tuple(kept) for kept in answer.selected], [tuple(gone) for gone in answer.dropped], answer.total_tokens


def in_turns(contestants: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The median processor seconds of each contestant. They take turns of one untimed run, then timed ones for 5 ms.

    Processor time, so that another program's share of the machine does not count, as it would for the longer runs only.
    """
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < 3:
        rounds += 1
        for name, run in contestants.items():
            run()
            turn_end = time.perf_counter() + 0.005
            while True:
                start = time.thread_time()
                run()
                taken[name].append(time.thread_time() - start)
                if time.perf_counter() > turn_end:
                    break
    return {name: statistics.median(times) for name, times in taken.items()}


def measured(count: int, script: str, seconds: float) -> dict[str, Any]:
    memories, query = made_memories(count, script)
    bare, full = MemorySelectSettings(redact=False), MemorySelectSettings()
    entries = [Entry(memory) for memory in memories]
    data = msgspec.json.encode(memories)
    expected = plain.select(query, memories, bare, NOW)
    assert as_plain(memory_select(query, memories, settings=bare, now=NOW)) == expected
    assert as_plain(memory_select(query, entries, settings=bare, now=NOW)) == expected
    assert as_plain(memory_select(query, decode_memories(data), settings=bare, now=NOW)) == expected
    assert as_plain(memory_select(query, memories, settings=full, now=NOW)) == plain.select(
        query, memories, full, NOW, redact
    )
    contestants: dict[str, Callable[[], Any]] = {
        "memsel": lambda: memory_select(query, memories, settings=bare, now=NOW),
        "memsel, every drop asked for": lambda: memory_select(query, memories, settings=bare, now=NOW).dropped,
        "memsel, redacting": lambda: memory_select(query, memories, settings=full, now=NOW),
        "memsel, entries": lambda: memory_select(query, entries, settings=bare, now=NOW),
        "reading the memories from JSON": lambda: decode_memories(data),
        "plain Python": lambda: plain.select(query, memories, bare, NOW),
        "plain Python, redacting": lambda: plain.select(query, memories, full, NOW, redact),
    }
    if count <= 1000:
        assert oracle.select(query, memories, settings=bare, now=NOW) == expected
        contestants["oracle"] = lambda: oracle.select(query, memories, settings=bare, now=NOW)
    times = in_turns(contestants, seconds)
    return {
        "memories": count,
        "script": script,
        "selected": len(expected[0]),
        "low_relevance": sum(reason == "low_relevance" for _, reason in expected[1]),
        "microseconds_a_memory": {name: round(1e6 * taken / count, 3) for name, taken in times.items()},
        "plain_python_over_memsel": {
            "selecting": round(times["plain Python"] / times["memsel"], 1),
            "every drop asked for": round(times["plain Python"] / times["memsel, every drop asked for"], 1),
            "redacting": round(times["plain Python, redacting"] / times["memsel, redacting"], 1),
        },
        "oracle_over_memsel": round(times["oracle"] / times["memsel"], 1) if "oracle" in times else None,
    }


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()


def machine() -> dict[str, str]:
    model = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": model[0].partition(":")[2].strip() if model else platform.processor(),
        "system": platform.platform(),
        "compiler": output(sysconfig.get_config_var("CC").split()[0], "--version").splitlines()[0],
        "python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "commit": output("git", "rev-parse", "HEAD"),
    }


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1]) if sys.argv[1:] else ROOT / "benchmarks" / "results" / "policy_speed.json"
    runs = [measured(count, "ascii", seconds) for count, seconds in ((100, 3), (1000, 6), (10_000, 6), (100_000, 12))]
    runs += [measured(1000, script, 3) for script in ("french", "cyrillic")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "runs": runs}, indent=1) + "\n")
    for run in runs:
        print(json.dumps(run, indent=1))
