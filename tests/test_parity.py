"""The same answers as zerda 0.1.0, to the last bit: a seeded sweep, and a property over small hostile worlds.

MEMSEL_SWEEP is the number of selections of the sweep.
"""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pytest
import zerda.memory
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import NOW, Call, Population, answer, clock_at, random_call, random_size

import memsel

LIBRARIES = {"zerda": zerda.memory, "memsel": memsel}
SELECTIONS = int(os.environ.get("MEMSEL_SWEEP", "20000"))
SHARDS = 20
SELECTIONS_PER_POPULATION = 10
LARGEST = 2000


def places(entries: list[Any]) -> dict[int, int]:
    return {id(entry): place for place, entry in enumerate(entries)}


def assert_parity(call: Call, population: Population) -> Any:
    """memsel's selector answers the reference's answer on memsel's entries and on zerda's; returns that answer."""
    theirs, ours = population.entries["zerda"], population.entries["memsel"]
    with clock_at(call.now):
        expected = answer(lambda: call.select(zerda.memory, theirs), places(theirs))
        on_ours = answer(lambda: call.select(memsel, ours), places(ours))
        on_theirs = answer(lambda: call.select(memsel, theirs), places(theirs))
    assert on_ours == expected, f"memsel on its own entries: {call}"
    assert on_theirs == expected, f"memsel on zerda's entries: {call}"
    return expected


def assert_other_methods(call: Call, population: Population) -> None:
    """select_entries and explain answer likewise; both entries serve both selectors."""
    theirs, ours = population.entries["zerda"], population.entries["memsel"]
    where = {**places(theirs), **places(ours)}
    with clock_at(call.now):
        chosen = [
            [where[id(entry)] for entry in call.select(library, entries, "select_entries")]
            for library, entries in ((zerda.memory, theirs), (memsel, ours), (memsel, theirs), (zerda.memory, ours))
        ]
        explained = [
            repr(call.select(library, entries, "explain"))
            for library, entries in ((zerda.memory, theirs), (memsel, ours), (memsel, theirs), (zerda.memory, ours))
        ]
    assert chosen == [chosen[0]] * 4
    assert [_as_floats(text) for text in explained] == [_as_floats(explained[0])] * 4


def _as_floats(explained: str) -> list[Any]:
    # zerda reports an int or bool score as the object given, memsel as its float.
    rows = eval(explained, {"nan": math.nan, "inf": math.inf})
    scores = ("relevance", "recency", "importance", "composite")
    return [(repr(row["id"]), row["content"], [repr(float(row[name])) for name in scores]) for row in rows]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_sweep_of_random_selections_answers_what_zerda_answers(shard: int) -> None:
    rng = random.Random(f"sweep {shard}")
    done = raised = kept = 0
    wanted = math.ceil(SELECTIONS / SHARDS)
    while done < wanted:
        with clock_at(NOW):
            population = Population.random(rng, LIBRARIES, random_size(rng, LARGEST))
        for turn in range(min(SELECTIONS_PER_POPULATION, wanted - done)):
            if turn and rng.random() < 0.7:
                with clock_at(NOW):
                    population.edit(rng, rng.choice((1, 5, 50)))
            call = random_call(rng, population, [entry.id for entry in population.entries["zerda"]])
            expected = assert_parity(call, population)
            done += 1
            if isinstance(expected, str):
                raised += 1
            else:
                kept += len(expected)
                if turn == 0:
                    assert_other_methods(call, population)
    # The sweep compares answers, not only errors and empty lists.
    assert done == wanted
    assert raised < done / 2
    assert kept > 0


def any_float() -> st.SearchStrategy[float]:
    return st.one_of(
        st.floats(),
        st.sampled_from((0.0, -0.0, 1.0, 0.5, 0.1, 5e-324, 1e308, math.nan, math.inf, -math.inf)),
        st.floats(min_value=0.0, max_value=1.0),
    )


def any_number() -> st.SearchStrategy[Any]:
    return st.one_of(any_float(), any_float(), st.integers(), st.booleans(), st.integers(-(2**70), 2**70))


def any_timestamp() -> st.SearchStrategy[Any]:
    return st.one_of(
        any_number(),
        st.floats(min_value=NOW - 1e6, max_value=NOW + 1e5),
        st.integers(min_value=int(NOW) - 10**7, max_value=int(NOW) + 1000),
        st.sampled_from((NOW, NOW - 3600.0)),
    )


def any_id() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.sampled_from(("a", "b", "c", "d")),
        st.text(max_size=3),
        st.sampled_from((1, True, 1.0, "1", None, math.nan, (), 2**61 - 1)),
    )


# The fields of entries, the scores, the config and the clock.
SmallWorld = tuple[list[tuple[Any, ...]], Any, dict[str, Any], Any]


@st.composite
def small_worlds(draw: st.DrawFn) -> SmallWorld:
    fields = draw(
        st.lists(
            st.tuples(
                any_id(),
                st.one_of(st.text(max_size=40), st.none(), st.lists(st.integers(), max_size=9)),
                any_timestamp(),
                st.one_of(any_number(), st.sampled_from((0.25, 0.5))),
                st.one_of(st.just(1.0), any_number()),
            ),
            max_size=12,
        )
    )
    keys = st.sampled_from([row[0] for row in fields]) if fields else any_id()
    scores = draw(st.one_of(st.none(), st.dictionaries(st.one_of(keys, any_id()), any_number(), max_size=15)))
    weights = draw(st.one_of(st.just((0.5, 0.2, 0.3)), st.tuples(any_number(), any_number(), any_number())))
    config = {
        "relevance_weight": weights[0],
        "recency_weight": weights[1],
        "importance_weight": weights[2],
        "recency_half_life_hours": draw(st.one_of(st.sampled_from((24.0, 1, 720)), any_number())),
        "min_composite_score": draw(st.one_of(st.sampled_from((0.1, 0, -math.inf)), any_number())),
        "top_k": draw(st.one_of(st.integers(min_value=0, max_value=13), any_number())),
        "token_budget": draw(st.one_of(st.integers(min_value=0, max_value=60), any_number())),
    }
    now = draw(st.one_of(st.just(NOW), st.just(int(NOW)), st.floats(min_value=0.0, max_value=2e9)))
    return fields, scores, config, now


@settings(max_examples=400)
@given(small_worlds())
def test_small_hostile_worlds_answer_what_zerda_answers(world: SmallWorld) -> None:
    fields, scores, config, now = world
    population = Population("hypothesis", {name: [] for name in LIBRARIES})
    for name, library in LIBRARIES.items():
        for entry_id, content, timestamp, importance, decay in fields:
            entry = library.MemoryEntry(content, timestamp, library.MemoryType.EPISODIC, metadata={"id": entry_id})
            entry.importance = importance
            entry.decay_factor = decay
            population.entries[name].append(entry)
    assert_parity(Call(list(range(len(fields))), scores, config, now, list), population)
