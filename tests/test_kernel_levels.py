"""Every level of the filter pass that this processor runs gives the same bytes, and MEMSEL_ISA chooses among them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsel import _core

LEVELS = ("baseline", "avx2", "avx512")

ANSWERS = """
import hashlib, random, sys
sys.path.insert(0, TESTS)
import numpy as np
from memsel import _core, select_batch
from rows import MOODS, outcome_of, random_query
rng = random.Random(20)
digest, kept = hashlib.sha256(), 0
for mood in MOODS:
    for rows in (0, 1, 17, 63, 64, 65, 100, 300, 511, 512, 513, 1000, 3000, 70000):
        for _ in range(2 if rows > 1000 else 10):
            query = random_query(rng, rows, mood)
            if rng.random() < 0.3:
                query.relevance = query.relevance.astype(np.float32)
            if rng.random() < 0.3:
                query.importance = query.importance.astype(np.float32)
            with np.errstate(all="ignore"):
                answer = outcome_of(query.answer)
            kept += len(answer[0]) if len(answer) == 7 else 0
            digest.update(repr(answer).encode())
scores = np.random.default_rng(1).random((40, 2000))
times, importance = 1.7e9 - np.arange(2000.0) ** 2, np.linspace(1.0, 0.0, 2000)
for answer in select_batch(scores, times, importance, now=1.7e9, threads=2, outcomes=True):
    digest.update(answer.scores.tobytes() + answer.recency.tobytes() + answer.outcomes.tobytes())
print(_core.ISA, kept, digest.hexdigest())
""".replace("TESTS", repr(str(Path(__file__).parent)))


def run(script: str, level: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MEMSEL_ISA"}
    if level is not None:
        environment["MEMSEL_ISA"] = level
    return subprocess.run(
        [sys.executable, "-W", "ignore:overflow encountered", "-c", script],
        capture_output=True,
        text=True,
        env=environment,
    )


def answers(level: str | None) -> list[str]:
    ran = run(ANSWERS, level)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def runnable() -> list[str]:
    """The levels of this build and processor, as the error about an unknown one lists them."""
    ran = run("import memsel", "none such")
    assert ran.returncode == 1
    return ran.stderr.strip().splitlines()[-1].partition(" runs ")[2].split(", ")


def test_an_unknown_level_is_an_import_error_that_names_the_levels() -> None:
    ran = run("import memsel", "avx1024")
    assert ran.returncode == 1
    assert "ImportError: MEMSEL_ISA is 'avx1024'; this build on this processor runs baseline" in ran.stderr
    assert runnable() == list(LEVELS[: len(runnable())])


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_asked_for_is_the_one_that_runs_or_is_refused(level: str) -> None:
    ran = run("import memsel._core as core; print(core.ISA)", level)
    if level in runnable():
        assert ran.stdout.strip() == level
    else:
        assert f"ImportError: MEMSEL_ISA is '{level}'" in ran.stderr


@pytest.mark.parametrize("given", [None, ""])
def test_the_last_level_runs_where_none_is_asked_for(given: str | None) -> None:
    assert run("import memsel._core as core; print(core.ISA)", given).stdout.strip() == runnable()[-1]
    assert os.environ.get("MEMSEL_ISA") or runnable()[-1] == _core.ISA


def test_all_levels_give_the_same_bytes() -> None:
    first, *others = [answers(level) for level in runnable()]
    assert int(first[1]) > 1000
    assert first[0] == "baseline"
    for other in others:
        assert other[1:] == first[1:], other[0]
