"""Races: contestants take turns on the same work in one process, and medians are compared.

A shared machine slows down and speeds up by itself; turns in one run meet the same weather, so ratios hold where
seconds do not.
"""

from __future__ import annotations

import gc
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from memsel import _core

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("memsel", "numpy", "zerda", "polars", "duckdb", "numba", "langchain-classic", "llama-index-core")


@dataclass
class Cell:
    """One contestant on one piece of work: the median seconds of a call."""

    suite: str
    work: str
    rows: int
    contestant: str
    seconds: float
    rounds: int
    calls_a_round: int


def race(
    suite: str,
    work: str,
    rows: int,
    contestants: dict[str, Callable[[], Any]],
    *,
    answer: Callable[[Any], Any] | None = None,
    seconds: float = 1.0,
    round_seconds: float = 0.004,
    most_rounds: int = 200,
) -> list[Cell]:
    """Race contestants on one piece of work.

    With ``answer``, which makes results comparable, all have to give the first one's answer before anything is timed.
    Each round gives every contestant a turn of about ``round_seconds``, at least one call; the order rotates. Rounds go
    on for about ``seconds`` a contestant, at least three.
    """
    once: dict[str, float] = {}
    expected = None
    for name, call in contestants.items():
        result = call()
        if answer is not None:
            given = answer(result)
            if expected is None:
                expected = given
            if given != expected:
                raise AssertionError(f"{suite}, {work}, {rows} rows: {name} gives another answer")
        del result
        started = time.perf_counter()
        call()
        once[name] = time.perf_counter() - started
    calls = {name: max(1, min(2000, int(round_seconds / seconds_once))) for name, seconds_once in once.items()}
    a_round = sum(calls[name] * once[name] for name in contestants)
    rounds = max(3, min(most_rounds, int(seconds * len(contestants) / a_round)))
    times: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                call = contestants[name]
                repeats = range(calls[name])
                started = time.perf_counter()
                for _ in repeats:
                    call()
                times[name].append((time.perf_counter() - started) / calls[name])
    finally:
        gc.enable()
    return [Cell(suite, work, rows, name, median(times[name]), rounds, calls[name]) for name in names]


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, commit, compiler, versions."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        facts = dict(
            (part.strip() for part in line.split(":", 1)) for line in info.read_text().splitlines() if ":" in line
        )
        processor = f"{facts.get('model name', processor)}, family {facts.get('cpu family')} model {facts.get('model')}"
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=False,
    ).stdout.strip()
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": processor,
        "isa": _core.ISA,
        "compiler": _core.COMPILER,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "versions": versions,
    }


def write(name: str, cells: Iterable[Cell], **more: Any) -> Path:
    """Write a result file; returns its path."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    document = {"machine": machine(), **more, "cells": [asdict(cell) for cell in cells]}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def seconds_text(seconds: float) -> str:
    """Seconds in the unit that leaves one to three digits before the point."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
