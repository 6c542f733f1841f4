"""What became of every candidate: audit against the scalar oracle, and against what select keeps."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import zerda.memory
from makers import TEN_TOKENS, entries, entry, select
from oracle import bits, recency_of, score_rows, select_rows
from worlds import MOODS, NOW, Population, clock_at, config_of, random_call, random_size

import memsel
from memsel import AuditedMemory, MemorySelector, Outcome, SelectionConfig

pytestmark = pytest.mark.usefixtures("clock")


def outcomes(audited: list[AuditedMemory]) -> list[str]:
    return [memory.outcome.name for memory in audited]


def test_outcomes_are_the_documented_integers() -> None:
    assert {outcome.name: int(outcome) for outcome in Outcome} == {
        "KEPT": 0,
        "BELOW_MIN_SCORE": 1,
        "OVER_BUDGET": 2,
        "PAST_TOP_K": 3,
    }
    assert Outcome.KEPT == 0


def test_every_candidate_has_an_outcome_in_input_order() -> None:
    candidates = [entry("low", importance=0.0), entry("big", content="x" * 400), *entries("abc")]
    scores = {"low": -1.0, "big": 1.0, "a": 0.3, "b": 0.9, "c": 0.6}
    selector = MemorySelector(SelectionConfig(token_budget=50, top_k=2))
    audited = selector.audit("q", candidates, scores)
    assert [memory.entry for memory in audited] == candidates
    assert outcomes(audited) == ["BELOW_MIN_SCORE", "OVER_BUDGET", "PAST_TOP_K", "KEPT", "KEPT"]
    assert [memory.tokens for memory in audited] == [None, 100, None, 10, 10]
    assert [memory.rank for memory in audited] == [None, None, None, 0, 1]
    assert audited[0].composite_score == 0.5 * -1.0 + 0.2 * 1.0 + 0.3 * 0.0


def test_overflow_stop_leaves_all_after_the_first_over_budget_uncounted() -> None:
    candidates = [entry("first"), entry("big", content="x" * 200), entry("small"), entry("low")]
    scores = {"first": 1.0, "big": 0.9, "small": 0.8, "low": -9.0}
    config = SelectionConfig(token_budget=30, overflow="stop")
    audited = MemorySelector(config).audit("q", candidates, scores)
    assert outcomes(audited) == ["KEPT", "OVER_BUDGET", "OVER_BUDGET", "BELOW_MIN_SCORE"]
    assert [memory.tokens for memory in audited] == [10, 50, None, None]


def test_a_top_k_of_zero_is_past_from_the_start() -> None:
    audited = MemorySelector(SelectionConfig(top_k=0, token_budget=0)).audit("q", entries("ab"))
    assert outcomes(audited) == ["PAST_TOP_K"] * 2
    assert [memory.tokens for memory in audited] == [None, None]


def test_an_entry_that_stands_twice_is_audited_twice() -> None:
    one = entry("a")
    audited = MemorySelector(SelectionConfig(top_k=1)).audit("q", [one, one])
    assert outcomes(audited) == ["KEPT", "PAST_TOP_K"]


def test_tokens_in_an_audit_are_the_counters() -> None:
    config = SelectionConfig(token_counter=lambda text: len(text), token_budget=len(TEN_TOKENS))
    audited = MemorySelector(config).audit("q", entries("ab"))
    assert [memory.tokens for memory in audited] == [40, 40]
    assert outcomes(audited) == ["KEPT", "OVER_BUDGET"]


def columns_of(candidates: list[Any], scores: Any, from_access: bool = False) -> tuple[list[float], ...]:
    relevance = [float((scores or {}).get(one.id, 0.5)) for one in candidates]
    times = [one.last_access if from_access else one.timestamp for one in candidates]
    return relevance, times, [float(one.effective_importance) for one in candidates]


@pytest.mark.parametrize("seed", range(8))
def test_audit_and_select_answer_what_the_oracle_answers(seed: int) -> None:
    """The four added settings included, which zerda does not have."""
    rng = random.Random(f"audit {seed}")
    done = 0
    while done < 60:
        population = Population.random(rng, {"memsel": memsel}, random_size(rng, 1500))
        candidates_of = population.entries["memsel"]
        if rng.random() < 0.5:
            population.edit(rng, 5)
        call = random_call(rng, population, [one.id for one in candidates_of])
        call.config |= {
            "overflow": rng.choice(("skip", "stop")),
            "clamp_future": rng.choice((True, False)),
            "recency_from": rng.choice(("created", "accessed")),
            "token_counter": rng.choice((None, lambda text: len(text) + 1)),
        }
        config = config_of(call.config, memsel)
        candidates = [candidates_of[row] for row in call.rows]
        counter = config.token_counter or (lambda text: max(1, len(text) // 4))
        tokens = [counter(str(one.content)) for one in candidates]
        selector = MemorySelector(config)
        columns = columns_of(candidates, call.scores, config.recency_from == "accessed")
        try:
            scored = score_rows(*columns, config, call.now)
            expected = select_rows(*columns, tokens, config, call.now)
        except (OverflowError, ZeroDivisionError) as error:
            with clock_at(call.now):
                for method in (selector.select, selector.audit):
                    with pytest.raises(type(error)):
                        method("q", candidates, call.scores)
            continue
        with clock_at(call.now):
            kept = selector.select("q", candidates, call.scores)
            audited = selector.audit("q", candidates, call.scores)
        assert [memory.entry for memory in audited] == candidates
        assert [int(memory.outcome) for memory in audited] == expected.outcomes
        for memory, scores in zip(audited, scored, strict=True):
            four = (memory.relevance_score, memory.recency_score, memory.importance_score, memory.composite_score)
            assert bits(four) == bits(scores)
        ranked = sorted((memory.rank, row) for row, memory in enumerate(audited) if memory.rank is not None)
        assert [row for _, row in ranked] == expected.indices
        assert [rank for rank, _ in ranked] == list(range(len(ranked)))
        assert sum(audited[row].tokens or 0 for row in expected.indices) == expected.tokens_used
        assert [row.entry for row in kept] == [candidates[row] for row in expected.indices]
        assert bits([row.composite_score for row in kept]) == bits(expected.scores)
        assert bits([row.recency_score for row in kept]) == bits(expected.recency)
        for memory, outcome in zip(audited, expected.outcomes, strict=True):
            if outcome in (Outcome.BELOW_MIN_SCORE, Outcome.PAST_TOP_K):
                assert memory.tokens is None
        done += 1


def test_the_oracle_itself_answers_what_zerda_answers() -> None:
    rng = random.Random("oracle")
    for _ in range(100):
        population = Population.random(rng, {"zerda": zerda.memory}, random_size(rng, 300))
        theirs = population.entries["zerda"]
        call = random_call(rng, population, [one.id for one in theirs])
        candidates = [theirs[row] for row in call.rows]
        config = config_of(call.config, zerda.memory)
        tokens = [max(1, len(str(one.content)) // 4) for one in candidates]
        with clock_at(call.now):
            try:
                rows = zerda.memory.MemorySelector(config).select("q", candidates, call.scores)
            except (OverflowError, ZeroDivisionError) as error:
                with pytest.raises(type(error)):
                    select_rows(*columns_of(candidates, call.scores), tokens, config, call.now)
                continue
        expected = select_rows(*columns_of(candidates, call.scores), tokens, config, call.now)
        assert [id(row.entry) for row in rows] == [id(candidates[row]) for row in expected.indices]
        assert bits([row.composite_score for row in rows]) == bits(expected.scores)
        assert bits([row.recency_score for row in rows]) == bits(expected.recency)


def test_the_oracle_is_right_about_a_selection_done_by_hand() -> None:
    config = SelectionConfig(0.5, 0.25, 0.25, 1.0, 0.2, 2, 10)
    rows = select_rows(
        [1.0, 0.5, 0.0, 1.0, 0.5], [NOW, NOW - 3600, NOW - 7200, NOW, NOW], [0.5, 0.5, 0.0, 1.0, 0.5],
        [4, 3, 1, 11, 7], config, NOW,
    )  # fmt: skip
    # Composites: 0.875, 0.5, 0.0625, 1.0, 0.625; the fourth row is too large, the third too low.
    assert rows.outcomes == [0, 0, 1, 2, 2]
    assert (rows.indices, rows.scores, rows.tokens_used) == ([0, 1], [0.875, 0.5], 7)
    assert (rows.relevance, rows.recency, rows.importance) == ([1.0, 0.5], [1.0, 0.5], [0.5, 0.5])
    config.overflow = "stop"
    assert select_rows([1.0, 0.5], [NOW] * 2, [1.0] * 2, [11, 1], config, NOW).outcomes == [2, 2]
    assert recency_of(NOW + 3600, config, NOW) == 2.0
    config.clamp_future = True
    assert recency_of(NOW + 3600, config, NOW) == 1.0
    assert select_rows([], [], [], None, config, NOW).outcomes == []
    assert select_rows([0.5], [NOW], [0.5], None, SelectionConfig(token_budget=0), NOW).indices == [0]
    assert MOODS == ("tame", "ties", "wild")
    assert math.isnan(score_rows([math.nan], [NOW], [0.5], config, NOW)[0][3])


def test_a_bad_score_in_an_audit_names_the_id_and_changes_nothing() -> None:
    one = entry("a")
    before = one.to_dict()
    scores = {"a": "0.5"}
    with pytest.raises(TypeError):
        MemorySelector().audit("q", [one], scores)
    assert one.to_dict() == before
    assert scores == {"a": "0.5"}
    assert select([one])[0].entry is one
