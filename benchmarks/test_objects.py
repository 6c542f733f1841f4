"""``pytest benchmarks/``: the object door, and the drop-in figure against zerda in interleaved turns."""

import pytest
import zerda.memory

import memsel

from . import compare, work


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr("time.time", lambda: work.NOW)


@pytest.mark.parametrize("rows", [8, 100, 1_000, 10_000, 100_000])
def test_select(benchmark, rows):
    entries = work.entries(memsel, rows, shuffled=rows >= 100_000)
    scores = work.scores([entry.id for entry in entries])
    selector = memsel.MemorySelector()
    kept = benchmark(selector.select, "", entries, scores)
    theirs = [zerda.memory.MemoryEntry(e.content, e.timestamp, e.memory_type, e.importance, metadata={"id": e.id})
              for e in entries]  # fmt: skip
    assert [one.entry.id for one in kept] == [
        one.entry.id for one in zerda.memory.MemorySelector().select("", theirs, scores)
    ]


def test_against_zerda_at_a_thousand(benchmark):
    cells = benchmark.pedantic(lambda: list(compare.objects_suite(1_000)), rounds=1)
    seconds = {cell.contestant: cell.seconds for cell in cells if cell.rows == 1_000 and cell.work == "scores for all"}
    for contestant in ("memsel", "memsel on zerda's entries"):
        benchmark.extra_info[contestant] = f"x{seconds['zerda'] / seconds[contestant]:.1f} over zerda"
    assert seconds["zerda"] / seconds["memsel"] >= 25
    assert seconds["zerda"] / seconds["memsel on zerda's entries"] >= 8
