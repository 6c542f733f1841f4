"""Race memsel against everything a user could pick instead: ``python -m benchmarks.compare``.

Every suite checks that all contestants give the same rows in the same order, then times them in turns. The result goes
to benchmarks/results/compare.json, the scaling plot to docs/scaling.svg, and the tables to the terminal. ``--quick``
stops at 10,000 rows and writes nothing; ``--only SUITE`` repeats one suite and leaves the rest of the file as it was.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import memsel

from . import contestants, frameworks, timing, work
from .timing import Cell, race, seconds_text
from .work import NOW

GRID = (8, 32, 100, 316, 1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
OBJECT_SIZES = (8, 100, 1_000, 10_000, 100_000, 1_000_000)
QUICK_ROWS = 10_000
_FLOOR = "streaming read"
_TIMES = "\N{MULTIPLICATION SIGN}"


def arrays_suite(largest: int) -> Iterator[Cell]:
    """select_arrays over float64 and float32 scores, the contestants and the streaming read, over a log grid."""
    config = memsel.SelectionConfig()
    for scores, kind in ((np.float64, "float64"), (np.float32, "float32")):
        for rows in (size for size in GRID if size <= largest):
            data = work.columns(rows, scores=scores)
            calls = {name: make(data, config) for name, make in contestants.CONTESTANTS.items()}
            if kind == "float32":
                calls = {name: calls[name] for name in ("memsel", "numpy partition")}
            yield from race("arrays", kind, rows, calls, answer=contestants.rows_of, seconds=1.0)
            # The two that share the memory's speed are raced once more without the others in between.
            floor = {"memsel": calls["memsel"], _FLOOR: contestants.streaming_read(data)}
            yield from race("read", kind, rows, floor, seconds=1.0)


def worst_suite(largest: int) -> Iterator[Cell]:
    """Inputs that are hard for a filter, at a million rows, against the stable argsort."""
    rows = min(largest, 1_000_000)
    data = work.columns(rows)
    rng = np.random.default_rng(7)
    heavy = np.where(rng.random(rows) < 0.001, 20, rng.integers(3_001, 9_000, rows))
    plain = memsel.SelectionConfig()
    cases: dict[str, tuple[work.Columns, memsel.SelectionConfig]] = {
        "all ties": (
            work.Columns(np.full(rows, 0.5), np.full(rows, NOW - 3600.0), np.full(rows, 0.5), data.tokens),
            plain,
        ),
        "ascending scores": (
            work.Columns(np.sort(data.relevance), np.sort(data.timestamp), np.sort(data.importance), data.tokens),
            plain,
        ),
        "tokens that mostly do not fit": (
            work.Columns(data.relevance, data.timestamp, data.importance, heavy),
            plain,
        ),
        "top_k = n/10": (data, memsel.SelectionConfig(top_k=rows // 10, token_budget=10**12)),
    }
    for name, (columns, config) in cases.items():
        calls = {who: contestants.CONTESTANTS[who](columns, config) for who in ("memsel", "numpy argsort")}
        yield from race("worst", name, rows, calls, answer=contestants.rows_of, seconds=2.0)


def batch_suite(largest: int) -> Iterator[Cell]:
    """A thousand queries of a thousand candidates, in one call, on one thread and on two; seconds are of one query."""
    queries, rows = (1_000, 1_000) if largest > QUICK_ROWS else (100, 1_000)
    data = work.columns(queries * rows)
    relevance, timestamp, importance, tokens = data
    offsets = np.arange(0, queries * rows + 1, rows)
    config = memsel.SelectionConfig()

    def one_by_one() -> list[Any]:
        return [
            memsel.select_arrays(
                relevance[first : first + rows],
                timestamp[first : first + rows],
                importance[first : first + rows],
                tokens[first : first + rows],
                config=config,
                now=NOW,
            )
            for first in range(0, queries * rows, rows)
        ]

    def batch(threads: int) -> Callable[[], list[Any]]:
        return lambda: memsel.select_batch(
            relevance, timestamp, importance, tokens, offsets=offsets, config=config, now=NOW, threads=threads
        )

    def rows_of(results: list[Any]) -> list[list[int]]:
        return [contestants.rows_of(result) for result in results]

    calls = {"one by one": one_by_one, "batch, 1 thread": batch(1), "batch, 2 threads": batch(2)}
    for cell in race("batch", f"{queries} queries", rows, calls, answer=rows_of, seconds=2.0):
        cell.seconds /= queries
        yield cell


def objects_suite(largest: int) -> Iterator[Cell]:
    """MemorySelector against zerda 0.1.0 on zerda's own entries; 100,000 entries lie shuffled in memory."""
    import zerda.memory

    def ids(result: list[Any]) -> list[str]:
        return [scored.entry.id for scored in result]

    clock = time.time
    time.time = lambda: NOW
    try:
        for rows in (size for size in OBJECT_SIZES if size <= largest):
            # A million lie in memory as they were made; a hundred thousand as they do after a while of use.
            shuffled = rows == 100_000
            ours = work.entries(memsel, rows, shuffled=shuffled)
            theirs = work.entries(zerda.memory, rows, shuffled=shuffled)
            selector, reference = memsel.MemorySelector(), zerda.memory.MemorySelector()
            every = work.scores([entry.id for entry in ours])
            their_scores = dict(zip((entry.id for entry in theirs), every.values(), strict=True))
            for kind, count in (("scores for all", rows), ("100 scores", 100)):
                if kind == "100 scores" and rows < 1_000:
                    continue
                step = max(1, rows // count)
                our_part = dict(list(every.items())[::step][:count])
                their_part = dict(list(their_scores.items())[::step][:count])
                calls = {
                    "memsel": _selecting(selector, ours, our_part),
                    "zerda": _selecting(reference, theirs, their_part),
                    "memsel on zerda's entries": _selecting(selector, theirs, their_part),
                }
                yield from race("objects", kind, rows, calls, answer=ids, seconds=2.0)
            del ours, theirs, every, their_scores
            gc.collect()
    finally:
        time.time = clock


def _selecting(selector: Any, entries: list[Any], scores: dict[str, float]) -> Callable[[], Any]:
    return lambda: selector.select("", entries, scores)


def frameworks_suite(largest: int) -> Iterator[Cell]:
    """The time-weighted rankings of two frameworks, where they are installed."""
    for rows in (100, 1_000):
        for make in (frameworks.langchain_race, frameworks.llama_index_race):
            try:
                calls = make(rows)
            except ImportError as missing:
                print(f"{make.__name__} left out: {missing}", file=sys.stderr)
                continue
            yield from race("frameworks", make.__name__.removesuffix("_race"), rows, calls, answer=list, seconds=1.0)


SUITES: dict[str, Callable[[int], Iterator[Cell]]] = {
    "arrays": arrays_suite,
    "worst": worst_suite,
    "batch": batch_suite,
    "objects": objects_suite,
    "frameworks": frameworks_suite,
}


def extra_memory_mib(rows: int = 10_000_000) -> float:
    """MiB that a selection of 10 of so many rows takes above its inputs, measured in a process of its own."""
    program = f"""
import resource
from benchmarks import work
import memsel
data = work.columns({rows})
small = work.columns(1000)
memsel.select_arrays(*small, now=work.NOW)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
now = int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0])
memsel.select_arrays(*data, now=work.NOW)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(max(0, after - max(before, now)) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)


def table(cells: list[Cell]) -> str:
    """One line a piece of work: memsel's time and how many times as long the others take."""
    lines = []
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.suite, cell.work, cell.rows), []).append(cell)
    for (suite, kind, rows), group in groups.items():
        base = group[0]
        others = "  ".join(f"{cell.contestant} x{cell.seconds / base.seconds:.3g}" for cell in group[1:])
        lines.append(f"{suite:10} {kind:30} {rows:>10,}  {base.contestant} {seconds_text(base.seconds):>8}  {others}")
    return "\n".join(lines)


def markdown(cells: list[Cell]) -> str:
    """The two tables of the README, from the cells of a result file."""
    seconds = {(cell.suite, cell.work, cell.rows, cell.contestant): cell.seconds for cell in cells}

    def times(suite: str, kind: str, rows: int, contestant: str, base: str) -> str:
        slower = seconds.get((suite, kind, rows, contestant))
        return "" if slower is None else f"{_TIMES}{slower / seconds[suite, kind, rows, base]:.3g}"

    lines = [
        "| candidates | `MemorySelector.select` | zerda takes | both on zerda's entries | both with 100 scores |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for rows in OBJECT_SIZES:
        every, few = ("objects", "scores for all", rows), ("objects", "100 scores", rows)
        lines.append(
            f"| {rows:,} | {seconds_text(seconds[*every, 'memsel'])} | {times(*every, 'zerda', 'memsel')} | "
            f"{times(*every, 'zerda', 'memsel on zerda' + chr(39) + 's entries')} | "
            + (times(*few, "zerda", "memsel") if (*few, "memsel") in seconds else "")
            + " |"
        )
    others = [name for name in contestants.CONTESTANTS if name != "memsel"]
    lines += [
        "",
        "| candidates | `select_arrays` | " + " | ".join(others) + " | share of a streaming read |",
        "| ---: " * (len(others) + 3) + "|",
    ]
    for rows in (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        share = seconds["read", "float64", rows, _FLOOR] / seconds["read", "float64", rows, "memsel"]
        lines.append(
            f"| {rows:,} | {seconds_text(seconds['arrays', 'float64', rows, 'memsel'])} | "
            + " | ".join(times("arrays", "float64", rows, other, "memsel") for other in others)
            + f" | {share:.0%} |"
        )
    return "\n".join(lines)


def read_result() -> list[Cell]:
    """The cells of the committed result file."""
    return [Cell(**cell) for cell in json.loads((timing.RESULTS / "compare.json").read_text())["cells"]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"stop at {QUICK_ROWS:,} rows and write nothing")
    parser.add_argument("--markdown", action="store_true", help="print the README's tables from the result file")
    parser.add_argument("--only", choices=SUITES, action="append", help="run this suite only (may be repeated)")
    options = parser.parse_args()
    if options.markdown:
        print(markdown(read_result()))
        return
    largest = QUICK_ROWS if options.quick else GRID[-1]
    cells: list[Cell] = []
    for name in options.only or SUITES:
        for cell in SUITES[name](largest):
            cells.append(cell)
            if sys.stderr.isatty():
                where = f"{name}: {cell.work}, {cell.rows:,} rows, {cell.contestant}"
                print(f"\r{where:78}", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    print(table(cells))
    if options.quick:
        return
    result = timing.RESULTS / "compare.json"
    done = {cell.suite for cell in cells}
    if result.exists():
        cells = [cell for cell in read_result() if cell.suite not in done] + cells
    memory = extra_memory_mib()
    print(f"memory above the inputs at 10,000,000 rows, top_k 10: {memory:.2f} MiB")
    timing.write("compare", cells, extra_memory_mib=memory)
    from .plot import draw

    draw(cells, Path(__file__).parent.parent / "docs" / "scaling.svg")


if __name__ == "__main__":
    main()
