"""Race the pool against everything that could hold the same memories: ``python -m benchmarks.pool``.

Against memsel's own kernel over columns with a dense column of scores already made, NumPy that scores everything anew,
and DuckDB and SQLite with the rows resident and the formula in ORDER BY. Queries come from a rotation of many, so that
no contestant meets the same hits twice in a row, and all answers are compared before anything is timed. The result goes
to benchmarks/results/pool.json. ``--soak SECONDS`` runs readers and writers against each other instead, ``--quick``
stops at 100,000 rows and writes nothing.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import memsel

from . import contestants, timing
from .timing import Cell, race, seconds_text
from .work import NOW

_DAY = 86400.0
_QUERIES = 64
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)


@dataclass
class Scenario:
    """Memories and a kind of question."""

    name: str
    half_life_hours: float = 24.0
    days: float = 365.0
    tokens: tuple[int, int] = (10, 121)
    hits: int = 100

    @property
    def config(self) -> memsel.SelectionConfig:
        return memsel.SelectionConfig(recency_half_life_hours=self.half_life_hours)


YEAR = Scenario("a year, half-life 24 h")
SCENARIOS = (
    YEAR,
    Scenario("a year, half-life 30 days", half_life_hours=720.0),
    Scenario("a year, half-life 10 years", half_life_hours=87_600.0),
    Scenario("all within one day", days=1.0),
    Scenario("budget tail", tokens=(20, 6001), hits=1_000),
)


@dataclass
class Memories:
    """Columns in insertion order, the pool that holds them, and queries: row numbers and scores."""

    timestamp: np.ndarray
    importance: np.ndarray
    tokens: np.ndarray
    ids: list[str]
    pool: memsel.MemoryPool
    queries: list[tuple[np.ndarray, np.ndarray]]


def memories(rows: int, scenario: Scenario) -> Memories:
    rng = np.random.default_rng([rows, scenario.hits])
    timestamp = NOW - rng.random(rows) * scenario.days * _DAY
    importance = rng.random(rows)
    tokens = rng.integers(*scenario.tokens, rows)
    ids = [f"memory-{number}" for number in range(rows)]
    pool = memsel.MemoryPool()
    pool.upsert_arrays(ids, timestamp, importance, tokens)
    queries = [
        (rng.choice(rows, scenario.hits, replace=False), rng.random(scenario.hits)) for _ in range(_QUERIES)
    ]
    return Memories(timestamp, importance, tokens, ids, pool, queries)


Ask = Callable[[int], Any]


def in_turn(ask: Ask) -> Callable[[], Any]:
    """A call without arguments that asks the queries one after the other."""
    numbers = itertools.cycle(range(_QUERIES))
    return lambda: ask(next(numbers))


def by_row(held: Memories, config: memsel.SelectionConfig) -> Ask:
    def ask(number: int) -> Any:
        rows, scores = held.queries[number]
        return held.pool.select(scores, rows=rows, config=config, now=NOW)

    return ask


def by_id(held: Memories, config: memsel.SelectionConfig) -> Ask:
    # The ids are other objects than the pool's, as they are when a vector store names them.
    named = [
        dict(zip(["".join(held.ids[row]) for row in rows], scores.tolist(), strict=True))
        for rows, scores in held.queries
    ]
    return lambda number: held.pool.select(named[number], config=config, now=NOW)


def linear(held: Memories, config: memsel.SelectionConfig) -> Ask:
    """The kernel over columns. The scores are written into a column that is ready but for the hits."""
    dense = []
    for rows, scores in held.queries[:4]:
        column = np.full(len(held.timestamp), 0.5)
        column[rows] = scores
        dense.append(column)

    def ask(number: int) -> Any:
        return memsel.select_arrays(
            dense[number % 4], held.timestamp, held.importance, held.tokens, config=config, now=NOW
        )

    return ask


def numpy_anew(held: Memories, config: memsel.SelectionConfig) -> Ask:
    """NumPy scores and partitions everything, from a column of scores filled for the query."""

    def ask(number: int) -> Any:
        rows, scores = held.queries[number]
        relevance = np.full(len(held.timestamp), 0.5)
        relevance[rows] = scores
        work = contestants.Columns(relevance, held.timestamp, held.importance, held.tokens)
        return contestants.numpy_partition(work, config)()

    return ask


def _formula(config: memsel.SelectionConfig) -> str:
    rate = -math.log(2) / config.recency_half_life_hours / 3600.0
    return (
        f"{config.relevance_weight!r} * coalesce(hits.score, 0.5) + {config.recency_weight!r} "
        f"* exp(({NOW!r} - memories.timestamp) * {rate!r}) + {config.importance_weight!r} * memories.importance"
    )


def duckdb_resident(held: Memories, config: memsel.SelectionConfig) -> Ask:
    import duckdb

    connection = duckdb.connect()
    rows = np.arange(len(held.timestamp))
    connection.register(
        "incoming",
        {"row": rows, "timestamp": held.timestamp, "importance": held.importance, "tokens": held.tokens},
    )
    connection.execute("CREATE TABLE memories AS SELECT * FROM incoming")
    question = f"""
        SELECT memories.row, tokens, {_formula(config)} AS composite
        FROM memories LEFT JOIN hits ON memories.row = hits.row
        ORDER BY composite DESC, memories.row LIMIT """

    def ask(number: int) -> list[int]:
        hit_rows, scores = held.queries[number]
        connection.register("hits", {"row": hit_rows, "score": scores})

        def best(count: int) -> list[Any]:
            found = connection.execute(question + str(count)).fetchnumpy()
            return [found["row"].tolist(), found["composite"].tolist(), found["tokens"].tolist()]

        return _packed(best, config, len(held.timestamp))

    return ask


def sqlite_resident(held: Memories, config: memsel.SelectionConfig) -> Ask:
    connection = sqlite3.connect(":memory:")
    connection.create_function("exp", 1, math.exp, deterministic=True)
    connection.execute(
        "CREATE TABLE memories (row INTEGER PRIMARY KEY, timestamp REAL, importance REAL, tokens INTEGER)"
    )
    columns = (range(len(held.timestamp)), held.timestamp.tolist(), held.importance.tolist(), held.tokens.tolist())
    connection.executemany("INSERT INTO memories VALUES (?, ?, ?, ?)", zip(*columns, strict=True))
    connection.execute("CREATE TABLE hits (row INTEGER PRIMARY KEY, score REAL)")
    question = f"""
        SELECT memories.row, tokens, {_formula(config)} AS composite
        FROM memories LEFT JOIN hits ON memories.row = hits.row
        ORDER BY composite DESC, memories.row LIMIT ?"""

    def ask(number: int) -> list[int]:
        hit_rows, scores = held.queries[number]
        connection.execute("DELETE FROM hits")
        connection.executemany("INSERT INTO hits VALUES (?, ?)", zip(hit_rows.tolist(), scores.tolist(), strict=True))

        def best(count: int) -> list[Any]:
            rows, tokens, composites = zip(*connection.execute(question, (count,)).fetchall(), strict=True)
            return [rows, composites, tokens]

        return _packed(best, config, len(held.timestamp))

    return ask


def _packed(best: Callable[[int], list[Any]], config: memsel.SelectionConfig, rows: int) -> list[int]:
    first = 64
    while True:
        kept = contestants._pack(*best(first), config)
        if len(kept) >= config.top_k or first >= rows:
            return kept
        first *= 8


CONTESTANTS: dict[str, Callable[[Memories, memsel.SelectionConfig], Ask]] = {
    "pool, by row": by_row,
    "pool, by id": by_id,
    "linear kernel": linear,
    "numpy": numpy_anew,
    "duckdb": duckdb_resident,
    "sqlite": sqlite_resident,
}


def agree(held: Memories, asks: dict[str, Ask], config: memsel.SelectionConfig) -> None:
    """All contestants give the kernel's answer to the first four queries."""
    for number in range(4):
        expected = contestants.rows_of(asks["linear kernel"](number))
        for name, ask in asks.items():
            if contestants.rows_of(ask(number)) != expected:
                raise AssertionError(f"{len(held.timestamp)} rows: {name} gives another answer to query {number}")


def queries_suite(largest: int) -> Iterator[Cell]:
    """The scenarios at a million rows, and the first of them at every size."""
    for rows in (size for size in SIZES if size <= largest):
        for scenario in SCENARIOS if rows == min(1_000_000, largest) else (YEAR,):
            held = memories(rows, scenario)
            config = scenario.config
            # The databases take seconds a question at ten million rows, and the tail asks many.
            names = [name for name in CONTESTANTS if name != "sqlite" or rows <= 100_000]
            names = [name for name in names if name != "duckdb" or (rows <= 1_000_000 and scenario is YEAR)]
            asks = {name: CONTESTANTS[name](held, config) for name in names}
            agree(held, asks, config)
            calls = {name: in_turn(ask) for name, ask in asks.items()}
            seconds = 0.6 if rows <= 1_000_000 else 0.3
            yield from race("pool", scenario.name, rows, calls, seconds=seconds)
            del asks, calls, held
            gc.collect()


def growth_suite(largest: int) -> Iterator[Cell]:
    """The same question of one million and of ten million rows, in turns."""
    small = largest // 10
    held = {rows: memories(rows, YEAR) for rows in (small, largest)}
    config = YEAR.config
    for rows in held:
        agree(held[rows], {"linear kernel": linear(held[rows], config), "pool": by_row(held[rows], config)}, config)
    calls = {f"{rows:,} rows": in_turn(by_row(held[rows], config)) for rows in held}
    yield from race("growth", "ten times the rows", largest, calls, seconds=0.5)


def ids_suite(largest: int) -> Iterator[Cell]:
    """Hits by row number, and by text id; seconds are of one hit."""
    for scenario in (Scenario("100 hits"), Scenario("1,000 hits", hits=1_000)):
        held = memories(min(largest, 1_000_000), scenario)
        calls = {"by row": in_turn(by_row(held, scenario.config)), "by id": in_turn(by_id(held, scenario.config))}
        for cell in race("ids", scenario.name, len(held.ids), calls, seconds=0.8):
            cell.seconds /= scenario.hits
            yield cell


def batch_suite(largest: int) -> Iterator[Cell]:
    """Five hundred questions in one call, on one thread and on two; seconds are of one question."""
    held = memories(min(largest, 1_000_000), YEAR)
    many = [held.queries[number % _QUERIES] for number in range(500)]
    rows, scores = [one[0] for one in many], [one[1] for one in many]

    def batch(threads: int) -> Callable[[], Any]:
        return lambda: held.pool.select_batch(scores, rows=rows, config=YEAR.config, now=NOW, threads=threads)

    def kept(results: list[Any]) -> list[Any]:
        return [result.ids for result in results]

    calls = {"1 thread": batch(1), "2 threads": batch(2)}
    for cell in race("batch", "500 questions", len(held.ids), calls, answer=kept, seconds=1.5):
        cell.seconds /= len(many)
        yield cell


def changes(rows: int) -> dict[str, float]:
    """Changes a second, in bulk and one at a time, and the longest of those, at so many rows."""
    held = memories(rows, YEAR)
    fresh = memsel.MemoryPool()
    bulk = []
    for _ in range(3):
        fresh = memsel.MemoryPool()
        started = time.perf_counter()
        fresh.upsert_arrays(held.ids, held.timestamp, held.importance, held.tokens)
        bulk.append(rows / (time.perf_counter() - started))
    if fresh.select(now=NOW).ids != held.pool.select(now=NOW).ids:
        raise AssertionError("two pools of the same rows answer differently")
    del fresh
    rng = random.Random(1)
    count = min(100_000, rows // 2)
    some = rng.sample(held.ids, count)
    entries = [
        memsel.MemoryEntry("x" * 200, NOW - rng.random() * 365 * _DAY, memsel.MemoryType.EPISODIC, rng.random(),
                           metadata={"id": f"new-{number}"}, last_access=NOW)
        for number in range(count)
    ]  # fmt: skip
    pool = held.pool
    steps: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
        "upsert": (pool.upsert, entries),
        "update": (lambda one: pool.update(one, importance=0.7, timestamp=NOW - 12_345.0), some),
        "touch": (lambda one: pool.touch(one, now=NOW), some),
        "remove": (pool.remove, some),
    }
    found: dict[str, float] = {"bulk upsert, rows a second": sorted(bulk)[1]}
    for name, (change, ones) in steps.items():
        many, few = ones[: len(ones) * 3 // 4], ones[len(ones) * 3 // 4 :]
        gc.collect()
        gc.disable()
        started = time.perf_counter()
        for one in many:
            change(one)
        seconds = time.perf_counter() - started
        # A pause is the change's own if its thread worked meanwhile; otherwise another process had the processor.
        pauses = []
        for one in few:
            started, busy = time.perf_counter(), time.thread_time()
            change(one)
            pauses.append((time.thread_time() - busy, time.perf_counter() - started))
        gc.enable()
        found[f"{name}, a second"] = len(many) / seconds
        found[f"{name}, longest in processor ms"] = max(pauses)[0] * 1e3
        found[f"{name}, longest in ms"] = max(elapsed for _, elapsed in pauses) * 1e3
    if len(pool) != rows or any(one in pool for one in some[:1000]):
        raise AssertionError("the changes did not happen")
    return found


def keeping(rows: int) -> dict[str, float]:
    """Seconds of save and load, and bytes of the file a row."""
    held = memories(rows, YEAR)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool.npz"
        started = time.perf_counter()
        held.pool.save(path)
        saving = time.perf_counter() - started
        loading, processor = [], []
        for _ in range(3):
            started, busy = time.perf_counter(), time.process_time()
            loaded = memsel.MemoryPool.load(path)
            loading.append(time.perf_counter() - started)
            processor.append(time.process_time() - busy)
            if loaded.select(now=NOW).ids != held.pool.select(now=NOW).ids:
                raise AssertionError("the loaded pool answers differently")
            del loaded
        return {
            "save, s": saving,
            "load, s": sorted(loading)[1],
            "load, processor s": sorted(processor)[1],
            "file, bytes a row": path.stat().st_size / rows,
        }


def bytes_a_row(rows: int) -> dict[str, float]:
    """What a pool takes of a row, in a process of its own: the table from ids to rows apart from everything else."""
    program = f"""
from benchmarks.pool import YEAR, NOW, _DAY
import numpy as np, memsel, ctypes, gc, os
rng = np.random.default_rng(0)
rows = {rows}
ids = [f"memory-{{number}}" for number in range(rows)]
columns = NOW - rng.random(rows) * 365 * _DAY, rng.random(rows), rng.integers(10, 121, rows)
held = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda number: None)
gc.collect(); trim(0)
before = held()
pool = memsel.MemoryPool()
pool.upsert_arrays(ids, *columns)
gc.collect(); trim(0)
print(held() - before, pool._packed.table_bytes)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    everything, table = map(int, done.stdout.split())
    return {"rows, bytes a row": (everything - table) / rows, "ids to rows, bytes a row": table / rows}


def soak(seconds: float, readers: int = 2, writers: int = 2) -> dict[str, float]:
    """Readers and writers at once. Nothing may be lost or invented: each writer owns its ids and knows what it did.

    Readers check every selection for ids that belong together, and at the end the pool is compared with the writers'
    own books, and its answers with a scan over them.
    """
    rows = 200_000
    pool = memsel.MemoryPool()
    rng = np.random.default_rng(9)
    pool.upsert_arrays(
        [f"still-{number}" for number in range(rows)],
        NOW - rng.random(rows) * 365 * _DAY,
        rng.random(rows) * 0.5,
        rng.integers(10, 121, rows),
    )
    books: list[dict[str, tuple[float, float, int]]] = [{} for _ in range(writers)]
    counts = {"selections": 0, "changes": 0}
    wrong: list[str] = []
    until = time.monotonic() + seconds

    def write(number: int) -> None:
        chance, book, done = random.Random(number), books[number], 0
        while time.monotonic() < until:
            one = f"{number}-{chance.randrange(20_000)}"
            kind = chance.random()
            if one in book and kind < 0.3:
                pool.remove(one)
                del book[one]
            elif one in book and kind < 0.6:
                book[one] = (NOW - chance.random() * 365 * _DAY, chance.random() * 0.5, book[one][2])
                pool.update(one, timestamp=book[one][0], importance=book[one][1])
            elif kind < 0.99:
                book[one] = (NOW - chance.random() * 365 * _DAY, chance.random() * 0.5, chance.randrange(500))
                pool.upsert_arrays([one], *([value] for value in book[one]))
            else:
                # A pair that is moved together: readers never see it apart.
                best = 0.9 + 0.1 * chance.random()
                pool.upsert_arrays(
                    [f"{number}-left", f"{number}-right"], [NOW, NOW], [best, best], [10, 10]
                )
            done += 1
        counts["changes"] += done

    def read(number: int) -> None:
        chance, done = random.Random(100 + number), 0
        config = memsel.SelectionConfig(top_k=2 * writers)
        while time.monotonic() < until:
            hits = {f"{chance.randrange(writers)}-{chance.randrange(20_000)}": 0.4 for _ in range(50)}
            selection = pool.select(hits, config=config, now=NOW)
            importance = dict(zip(selection.ids, selection.importance.tolist(), strict=True))
            for writer in range(writers):
                if importance.get(f"{writer}-left") != importance.get(f"{writer}-right"):
                    wrong.append(f"{selection.ids} {selection.importance.tolist()}")
            done += 1
        counts["selections"] += done

    for number in range(writers):
        pool.upsert_arrays([f"{number}-left", f"{number}-right"], [NOW, NOW], [0.9, 0.9], [10, 10])
    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    threads += [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise AssertionError(f"{len(wrong)} selections saw half a change, the first: {wrong[0]}")
    for number, book in enumerate(books):
        for key in range(20_000):
            one = f"{number}-{key}"
            row = pool.get(one)
            if (None if row is None else (row.timestamp, row.importance, row.tokens)) != book.get(one):
                raise AssertionError(f"{one} is {row}, and its writer left it as {book.get(one)}")
    held = [pool.get(one) for one in pool]
    if len(held) != rows + 2 * writers + sum(map(len, books)):
        raise AssertionError(f"the pool holds {len(held)} rows")
    columns = [[getattr(row, name) for row in held] for name in ("timestamp", "importance", "tokens")]
    expected = memsel.select_arrays([0.5] * len(held), *columns, now=NOW)
    if pool.select(now=NOW).ids != [held[row].id for row in expected.indices]:
        raise AssertionError("the pool answers otherwise than a scan of its rows")
    return {
        "seconds": seconds,
        "readers": readers,
        "writers": writers,
        "selections a second": counts["selections"] / seconds,
        "changes a second": counts["changes"] / seconds,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "load average": os.getloadavg()[0],
    }


def table(cells: list[Cell]) -> str:
    """One line a piece of work: the first contestant's time, and how many times as long the others take."""
    lines = []
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.suite, cell.work, cell.rows), []).append(cell)
    for (suite, kind, rows), (first, *others) in groups.items():
        ratios = "  ".join(f"{other.contestant} x{other.seconds / first.seconds:.3g}" for other in others)
        lines.append(f"{suite:8} {kind:28} {rows:>10,}  {first.contestant} {seconds_text(first.seconds):>8}  {ratios}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pool", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="stop at 100,000 rows and write nothing")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="readers and writers against each other instead")
    options = parser.parse_args()
    if options.soak:
        for name, value in soak(options.soak).items():
            print(f"{name:24} {value:,.6g}")
        print("nothing was lost or invented")
        return
    largest = 100_000 if options.quick else SIZES[-1]
    cells: list[Cell] = []
    for suite in (queries_suite, growth_suite, ids_suite, batch_suite):
        found = list(suite(largest))
        cells += found
        print(table(found), flush=True)
        gc.collect()
    rows = min(largest, 1_000_000)
    figures = {**changes(rows), **keeping(rows), **bytes_a_row(rows), "load average": os.getloadavg()[0]}
    for name, value in figures.items():
        print(f"{name:34} {value:,.6g}")
    if not options.quick:
        timing.write("pool", cells, rows=rows, figures=figures)


if __name__ == "__main__":
    main()
