"""Several threads at once: one selector in all of them, and lists that change while they are selected from."""

from __future__ import annotations

import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from makers import entry, ids, shown
from worlds import NOW

from memsel import MemoryEntry, MemorySelector, MemoryType, SelectionConfig


def numbered(number: int) -> MemoryEntry:
    """An entry all of whose facts follow from its number, so that a mixture with another one shows."""
    importance, metadata = number % 1000 / 1000, {"id": f"id{number}"}
    return MemoryEntry(number, NOW - 10.0 * number, MemoryType.EPISODIC, importance=importance, metadata=metadata)


def assert_own_scores(rows: Any, scores: dict[str, float]) -> None:
    for row in rows:
        number = row.entry.content
        assert row.importance_score == number % 1000 / 1000
        assert row.relevance_score == scores.get(f"id{number}", 0.5)


def test_one_selector_used_from_eight_threads_gives_what_one_gives() -> None:
    rng = random.Random("threads")
    candidates = [numbered(n) for n in range(20_000)]
    jobs = []
    for size in (0, 1, 3, 100, 1000, 5000, 20_000) * 8:
        some = rng.sample(candidates, size)
        jobs.append((some, {one.id: rng.random() for one in some if rng.random() < 0.7}))
    selector = MemorySelector(SelectionConfig(top_k=50))

    def answer(job: Any) -> Any:
        return shown(selector.select("q", *job, now=NOW))

    alone = [answer(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        for together in (list(pool.map(answer, jobs)), list(pool.map(answer, jobs))):
            assert together == alone


def test_another_thread_makes_progress_while_a_large_selection_runs() -> None:
    """With a switch interval of hours no thread gets the lock unless another one lets go of it of its own accord."""
    candidates = [numbered(1)] * 400_000
    selector = MemorySelector(SelectionConfig(top_k=5))
    steps = 0
    done = threading.Event()

    def count() -> None:
        nonlocal steps
        while not done.is_set():
            steps += 1
            time.sleep(0)  # lets go of the lock

    interval = sys.getswitchinterval()
    counter = threading.Thread(target=count)
    sys.setswitchinterval(10_000.0)
    try:
        counter.start()
        time.sleep(0.05)  # the counter waits for the lock from here on
        before = steps
        for _ in range(500):  # on a busy machine the counter may miss its chance for a while
            selector.select("q", candidates, now=NOW)
            during = steps - before
            if during:
                break
    finally:
        done.set()
        sys.setswitchinterval(interval)
        counter.join()
    assert before > 0
    assert during > 0


def test_a_list_edited_by_another_thread_never_mixes_entries_up() -> None:
    size = 3000  # enough rows for the ranking to let other threads run
    candidates = [numbered(n) for n in range(size)]
    scores = {f"id{n}": n % 97 / 97 for n in range(0, 10 * size, 2)}
    selector = MemorySelector(SelectionConfig(top_k=200, token_budget=10**9, min_composite_score=-1.0))
    done = threading.Event()

    def edit() -> None:
        rng = random.Random("editor")
        number = size
        while not done.is_set():
            act = rng.random()
            if act < 0.4 and len(candidates) > size // 2:
                del candidates[rng.randrange(len(candidates))]
            elif act < 0.8:
                candidates.insert(rng.randrange(len(candidates) + 1), numbered(number % (10 * size)))
                number += 1
            elif act < 0.9:
                candidates[rng.randrange(len(candidates))] = numbered(number % (10 * size))
                number += 1
            else:
                candidates.reverse()

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        for _ in range(60):
            assert_own_scores(selector.select("q", candidates, scores, now=NOW), scores)
            assert_own_scores(selector.audit("q", candidates, scores, now=NOW), scores)
    finally:
        done.set()
        editor.join()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("kind", ["memsel", "duck"])
def test_an_entry_that_took_a_freed_ones_place_is_not_taken_for_it(kind: str) -> None:
    """Tokens are counted in the middle of a selection; here that replaces an entry by one that may get its address."""

    class Duck:
        def __init__(self, number: int) -> None:
            self.content = number
            self.id = f"id{number}"
            self.timestamp = NOW
            self.effective_importance = number % 1000 / 1000

    make: Any = numbered if kind == "memsel" else Duck
    candidates = [make(n) for n in range(10)]
    scores = {"id9": 1.0, "id3": 0.9}

    def counter(text: str) -> int:
        if text == "9":
            for place, number in ((3, 703), (5, 705), (7, 707)):
                del candidates[place]
                candidates.insert(place, make(number))
        return 1

    selector = MemorySelector(SelectionConfig(token_counter=counter))
    for _ in range(5):
        assert_own_scores(selector.select("q", candidates, scores), scores)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "edit", [lambda some: some.clear(), lambda some: some.pop(), lambda some: some.reverse(), lambda some: some.sort()]
)
def test_a_list_edited_while_tokens_are_counted_is_selected_from_as_it_then_is(edit: Any) -> None:
    candidates = [numbered(n) for n in range(6)]

    def counter(text: str) -> int:
        if not edited:
            edited.append(True)
            edit(candidates)
        return 1

    edited: list[bool] = []
    rows = MemorySelector(SelectionConfig(token_counter=counter)).select("q", candidates)
    assert_own_scores(rows, {})
    assert {row.entry.content for row in rows} <= set(range(6))


@pytest.mark.usefixtures("clock")
def test_a_list_edited_by_an_entry_that_is_being_read_does_no_harm() -> None:
    class Shrinking:
        timestamp = NOW
        content = "x"
        effective_importance = 0.5

        @property
        def id(self) -> str:
            candidates.clear()
            return "shrinking"

    candidates: list[Any] = [entry("a"), Shrinking(), *(entry(n) for n in range(50))]
    rows = MemorySelector(SelectionConfig(top_k=3)).select("q", candidates, {"shrinking": 0.9})
    assert ids(rows) == ["shrinking", "a", 0]
    assert candidates == []
