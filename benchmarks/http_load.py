"""The HTTP server under load, beside the same endpoint written in FastAPI and plain Python.

python -m benchmarks.http_load       (from the project's root; the result goes to results/http.json)

Both servers run one process each on uvicorn with the same parser, and take turns under the same client, which runs on
the same machine. Their answers are compared before anything is timed. The other contestant masks no secrets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from statistics import median
from typing import Any

from .timing import RESULTS, machine

NOW = "2026-01-15T12:00:00Z"
NOW_SECONDS = 1_768_478_400.0
_WORDS = [f"{a}{b}{c}" for a in "bdfgklm" for b in ("ar", "el", "in", "o", "ush") for c in ("ta", "ne", "dor", "pik")]


# --- the work --------------------------------------------------------------------------------------------------------


def select_question(memories: int = 100, words: int = 20) -> dict[str, Any]:
    chance = random.Random(1)
    return {
        "query": " ".join(chance.sample(_WORDS, 3)),
        "now": NOW,
        "memories": [
            {
                "id": f"m{number}",
                "text": " ".join(chance.choices(_WORDS, k=words)),
                "created_at": f"2026-01-{chance.randint(1, 14):02}T12:00:00Z",
                "importance": round(chance.random(), 2),
            }
            for number in range(memories)
        ],
    }


def pool_memories(rows: int) -> Iterator[list[dict[str, Any]]]:
    chance = random.Random(2)
    for start in range(0, rows, 5000):
        yield [
            {
                "id": f"m{number}",
                "content": " ".join(chance.choices(_WORDS, k=8)),
                "timestamp": NOW_SECONDS - chance.randrange(365 * 86400),
                "importance": round(chance.random(), 3),
            }
            for number in range(start, min(start + 5000, rows))
        ]


def pool_question(rows: int, hits: int = 50) -> dict[str, Any]:
    chance = random.Random(3)
    return {"scores": {f"m{i}": round(chance.random(), 4) for i in chance.sample(range(rows), hits)}, "now": NOW}


# --- the servers -----------------------------------------------------------------------------------------------------


def fastapi_app() -> Any:
    import fastapi
    import pydantic

    from memsel import MemorySelectSettings

    from .policy.plain import select

    class Memory(pydantic.BaseModel):
        id: str
        text: str
        created_at: str
        importance: float = 0.5
        tags: list[str] = []
        scope: str = "default"

    class Question(pydantic.BaseModel):
        query: str
        memories: list[Memory]
        now: str

    app = fastapi.FastAPI()
    settings = MemorySelectSettings()

    async def answer(question):  # type: ignore[no-untyped-def]
        memories = [memory.model_dump() for memory in question.memories]
        selected, dropped, total = select(question.query, memories, settings, question.now)
        return {"selected": selected, "dropped": dropped, "total_tokens": total}

    # The annotation is a class of this function, which a text of it could not name.
    answer.__annotations__ = {"question": Question}
    app.post("/v1/select")(answer)
    return app


def run_fastapi() -> None:
    from memsel.adapters.serving import Limits, announce, listener, server

    with listener("127.0.0.1", 0) as taken:
        announce(f"fastapi server listens on http://127.0.0.1:{taken.getsockname()[1]} .")
        server(fastapi_app(), Limits()).run(sockets=[taken])


@contextlib.contextmanager
def running(*command: str) -> Iterator[tuple[int, int]]:
    """Port and process id of a server of its own process."""
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        yield int(line.split("http://127.0.0.1:")[1].split()[0]), process.pid
    finally:
        process.terminate()
        process.wait(20)


def resident_mib(process: int) -> float:
    with open(f"/proc/{process}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# --- the client ------------------------------------------------------------------------------------------------------


class _Connection(asyncio.Protocol):
    """One kept-alive connection that has at most one request under way."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(self._received) < end + 4 + length:
            return
        if not head.startswith(b"http/1.1 200"):
            raise AssertionError(bytes(self._received))
        body = bytes(self._received[end + 4 :])
        self._received.clear()
        assert self._waiting is not None
        self._waiting.set_result(body)


def as_request(path: str, question: Any) -> bytes:
    body = json.dumps(question, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def _connections(port: int, count: int) -> list[_Connection]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(_Connection, "127.0.0.1", port))[1] for _ in range(count)]


def once(port: int, request: bytes) -> Any:
    async def ask() -> bytes:
        (connection,) = await _connections(port, 1)
        return await connection.ask(request)

    return json.loads(asyncio.run(ask()))


def highest_rate(port: int, request: bytes, seconds: float, connections: int = 8) -> float:
    """Requests a second where each connection asks again as soon as it has its answer."""

    async def load() -> float:
        answered = 0
        started = time.perf_counter()
        end = started + seconds

        async def asker(connection: _Connection) -> None:
            nonlocal answered
            while time.perf_counter() < end:
                await connection.ask(request)
                answered += 1

        await asyncio.gather(*map(asker, await _connections(port, connections)))
        return answered / (time.perf_counter() - started)

    return asyncio.run(load())


def latencies_at(port: int, request: bytes, rate: float, seconds: float, connections: int = 32) -> list[float]:
    """Milliseconds from the moment that each request was due, at an even rate, to its answer."""

    async def load() -> list[float]:
        free = asyncio.Queue[_Connection]()
        for connection in await _connections(port, connections):
            free.put_nowait(connection)
        taken: list[float] = []

        async def one(due: float) -> None:
            connection = await free.get()
            await connection.ask(request)
            taken.append((time.perf_counter() - due) * 1e3)
            free.put_nowait(connection)

        started = time.perf_counter()
        tasks = []
        for number in range(int(rate * seconds)):
            due = started + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(one(due)))
        await asyncio.gather(*tasks)
        return taken

    return asyncio.run(load())


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# --- the run ---------------------------------------------------------------------------------------------------------


def compare(seconds: float, rounds: int) -> dict[str, Any]:
    """The highest rates of both servers in turns, and the latency of memsel's at half of its own."""
    request = as_request("/v1/select", select_question())
    with (
        running("-m", "memsel", "serve", "--port", "0") as (ours, _),
        running("-m", "benchmarks.http_load", "--fastapi") as (theirs, _),
    ):
        kept = [row["id"] for row in once(ours, request)["selected"]]
        other = [row["id"] if isinstance(row, dict) else row[0] for row in once(theirs, request)["selected"]]
        if kept != other or not kept:
            raise AssertionError(f"the servers differ: {kept} and {other}")
        rates: dict[str, list[float]] = {"memsel": [], "fastapi": []}
        for _ in range(rounds):
            rates["memsel"].append(highest_rate(ours, request, seconds))
            rates["fastapi"].append(highest_rate(theirs, request, seconds))
        highest = {name: median(values) for name, values in rates.items()}
        taken = latencies_at(ours, request, highest["memsel"] / 2, 2 * seconds)
    return {
        "work": "POST /v1/select, 100 memories of 20 words",
        "request_bytes": len(request),
        "requests_per_second": {name: round(rate) for name, rate in highest.items()},
        "ratio": round(highest["memsel"] / highest["fastapi"], 2),
        "milliseconds_at_half_of_the_highest_rate": {
            "p50": round(percentile(taken, 0.5), 2),
            "p99": round(percentile(taken, 0.99), 2),
        },
    }


def pool(rows: int, seconds: float, rounds: int) -> dict[str, Any]:
    with running("-m", "memsel", "serve", "--port", "0") as (port, process):
        url = f"http://127.0.0.1:{port}/v1/pools/load"
        subprocess.run(["curl", "-sfX", "PUT", url], check=True, capture_output=True)
        for memories in pool_memories(rows):
            state = once(port, as_request("/v1/pools/load/upsert", {"memories": memories}))
        if state["rows"] != rows:
            raise AssertionError(state)
        request = as_request("/v1/pools/load/select", pool_question(rows))
        if not once(port, request)["selected"]:
            raise AssertionError("nothing was selected")
        rates = [highest_rate(port, request, seconds) for _ in range(rounds)]
        size = resident_mib(process)
    return {
        "work": f"POST /v1/pools/load/select, {rows} rows, 50 hits",
        "requests_per_second": round(median(rates)),
        "resident_mib": round(size),
    }


def memory(requests: int) -> dict[str, Any]:
    """Resident memory after a tenth of the requests and after all of them."""
    request = as_request("/v1/select", select_question(20))
    with running("-m", "memsel", "serve", "--port", "0") as (port, process):
        answered = 0.0
        early = None
        while answered < requests:
            answered += highest_rate(port, request, 2.0) * 2.0
            if early is None and answered >= requests / 10:
                early = resident_mib(process)
        late = resident_mib(process)
    return {
        "work": "POST /v1/select, 20 memories of 20 words",
        "requests": round(answered),
        "resident_mib_after_a_tenth": round(early or late, 1),
        "resident_mib_after_all": round(late, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fastapi", action="store_true", help="be the other server")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000, help="of the pool")
    parser.add_argument("--requests", type=int, default=100_000, help="that memory is watched for")
    options = parser.parse_args()
    if options.fastapi:
        run_fastapi()
        return
    facts = machine()
    for name in ("uvicorn", "starlette", "fastapi", "pydantic", "httptools", "h11"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            facts["versions"][name] = metadata.version(name)
    document = {
        "machine": facts,
        "select": compare(options.seconds, options.rounds),
        "pool": pool(options.rows, options.seconds, options.rounds),
        "memory": memory(options.requests),
    }
    text = json.dumps(document, indent=1)
    (RESULTS / "http.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
