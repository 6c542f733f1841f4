"""One question, one answer: the library, the command, HTTP and MCP asked the same fifty questions."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Clock
from listening import listening, post
from mcp import Client
from worlds import NOW

from memsel import MemorySelector, SelectionConfig, memory_select
from memsel.adapters.http import http_app
from memsel.adapters.mcp import mcp_server
from memsel.adapters.wire import RankedRow
from memsel.cli.command import memsel as command
from memsel.files import entry_from

WORDS = [
    "deploy", "database", "postgresql", "mysql", "tea", "coffee", "budget", "review", "friday", "server", "token",
    "bücher", "café", "東京", "データ", "release", "no", "not", "never", "port", "8080", "5432", "alpha", "beta",
]  # fmt: skip
# Put together here, so that no scanner takes this file for a leak.
SECRET = "password=" + "hunter2hunter2"
SCOPES = (None, None, None, "default", "team:a")
COUNTS = {"max_results": (1, 3, 50), "max_tokens": (5, 30, 500), "min_relevance": (0.0, 0.3, 1.0)}
RANK_COUNTS = {
    "top_k": (0, 1, 4, 99),
    "token_budget": (0, 7, 60, 999),
    "min_composite_score": (0.0, 0.4, -1.0),
    "recency_half_life_hours": (1.0, 300.0),
}


def text(chance: random.Random) -> str:
    words = chance.choices(WORDS, k=chance.randint(1, 14))
    return " ".join([*words, SECRET] if chance.random() < 0.15 else words)


def select_question(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    memories = []
    for number in range(chance.choice([0, 1, 5, 40])):
        created = datetime.fromtimestamp(NOW - chance.randrange(40 * 86400), UTC).isoformat()
        memory: dict[str, Any] = {"id": f"m{number}", "text": text(chance), "created_at": created}
        optional = {
            "importance": chance.random(),
            "tags": chance.choices(WORDS, k=2),
            "scope": chance.choice(["default", "team:a", "team:b"]),
            "expires_at": datetime.fromtimestamp(NOW + chance.randint(-9, 9) * 86400, UTC).isoformat(),
            "similarity": chance.random(),
        }
        memories.append(memory | {name: value for name, value in optional.items() if chance.random() < 0.4})
    if len(memories) > 4 and chance.random() < 0.5:
        memories.append(memories[2])
    question = {"query": " ".join(chance.choices(WORDS, k=chance.randint(0, 4))), "memories": memories}
    given = {name: chance.choice(values) for name, values in COUNTS.items() if chance.random() < 0.4}
    scope = chance.choice(SCOPES)
    return question | given | ({} if scope is None else {"scope": scope})


def rank_question(seed: int) -> dict[str, Any]:
    chance = random.Random(1000 + seed)
    memories = [
        {
            "content": chance.choice([text(chance), {"note": text(chance), "n": [number]}]),
            "timestamp": NOW - chance.randrange(-3600, 40 * 86400),
            "importance": chance.random(),
            "metadata": {"id": chance.choice([f"m{number}", number])},
        }
        for number in range(chance.choice([0, 1, 5, 40]))
    ]
    question: dict[str, Any] = {"memories": memories}
    if chance.random() < 0.7:
        question["scores"] = {str(memory["metadata"]["id"]): chance.random() for memory in memories[::2]}
    return question | {name: chance.choice(values) for name, values in RANK_COUNTS.items() if chance.random() < 0.4}


class Faces:
    """The network faces, up, and the command."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder

    def http(self, path: str, question: dict[str, Any]) -> Any:
        status, answer = post(self._port, path, question)
        assert status == 200, answer
        return answer

    def mcp(self, tool: str, question: dict[str, Any]) -> Any:
        async def talk() -> Any:
            async with Client(mcp_server()) as client:
                return await client.call_tool(tool, question)

        answer = asyncio.run(talk())
        assert not answer.is_error, answer
        return answer.structured_content

    def command(self, policy: str, question: dict[str, Any]) -> Any:
        settings = dict(question)
        file = self._folder / "memories.json"
        file.write_text(json.dumps(settings.pop("memories")), encoding="utf-8")
        arguments = ["select", str(file), "--policy", policy, "--format", "json", "--audit", "--query"]
        arguments.append(settings.pop("query", ""))
        if "scores" in settings:
            scores = self._folder / "scores.json"
            scores.write_text(json.dumps(settings.pop("scores")), encoding="utf-8")
            arguments += ["--scores", str(scores)]
        for name, value in settings.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        done = CliRunner().invoke(command, arguments, prog_name="memsel")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def faces(clock: Clock, tmp_path: Path) -> Iterator[Faces]:
    with listening(http_app()) as port:
        yield Faces(port, tmp_path)


def test_fifty_questions_have_one_answer_on_every_face(faces: Faces) -> None:
    kept = scoped = 0
    for seed in range(50):
        question = select_question(seed)
        settings = {name: question[name] for name in COUNTS if name in question}
        library = memory_select(
            question["query"], question["memories"], settings=settings, scope=question.get("scope")
        ).to_dict()
        assert faces.command("memory-select", question) == {"policy": "memory-select", **library}, seed
        shown = [row for row in library["dropped"] if row["reason"] != "out_of_scope"]
        expected = library | {"dropped": shown, "out_of_scope": len(library["dropped"]) - len(shown)}
        assert faces.http("/v1/select", question) == expected, seed
        assert faces.mcp("memory_select", question) == expected, seed
        assert SECRET not in json.dumps(expected)
        kept += len(library["selected"])
        scoped += expected["out_of_scope"]
    assert kept > 50
    assert scoped > 50


def test_fifty_rankings_have_one_answer_on_every_face(faces: Faces) -> None:
    kept = 0
    for seed in range(50):
        question = rank_question(seed)
        config = SelectionConfig(**{name: question[name] for name in RANK_COUNTS if name in question})
        entries = [entry_from(memory, "m", NOW) for memory in question["memories"]]
        scores = question.get("scores", {})
        by_id = {entry.id: scores[str(entry.id)] for entry in entries if str(entry.id) in scores}
        library = [
            (row.entry.id, row.composite_score, row.relevance_score, row.recency_score)
            for row in MemorySelector(config).select("", entries, by_id, now=NOW)
        ]
        http = faces.http("/v1/rank", question)
        rows = http["selected"]
        assert [(row["id"], row["score"], row["relevance"], row["recency"]) for row in rows] == library, seed
        assert faces.mcp("rank_memories", question) == http, seed
        said = faces.command("composite", question)
        assert [{name: row[name] for name in RankedRow.__struct_fields__} for row in said["selected"]] == rows, seed
        assert [{"id": row["id"], "reason": row["outcome"]} for row in said["dropped"]] == http["dropped"], seed
        assert said["total_tokens"] == http["total_tokens"], seed
        assert SECRET not in json.dumps(http)
        kept += len(rows)
    assert kept > 100
