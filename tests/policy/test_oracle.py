# ruff: noqa: RUF001 - look-alike characters are among the inputs
"""The compiled decisions against the plain-Python oracle, on random selections in every script."""

import random
import types

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsel.policy import MemorySelectSettings, memory_select
from memsel.policy._words import words
from policy import cases, oracle


def plain(answer):
    return [tuple(kept) for kept in answer.selected], [tuple(gone) for gone in answer.dropped], answer.total_tokens


@pytest.mark.parametrize("seed", range(400))
def test_random_selections_agree_with_the_oracle(seed):
    rng = random.Random(seed)
    memories = cases.memories(rng, rng.choice((0, 1, 2, 5, 20, 60, 200)))
    query = cases.query(rng, memories)
    settings = MemorySelectSettings(**cases.settings(rng))
    expected = oracle.select(query, memories, settings=settings, now=cases.NOW)
    assert plain(memory_select(query, memories, settings=settings, now=cases.NOW)) == expected


@pytest.mark.parametrize("seed", range(60))
def test_input_order_changes_nothing_but_the_order_of_the_gates_drops(seed):
    rng = random.Random(1000 + seed)
    memories = cases.memories(rng, 80, distinct=True)
    query = cases.query(rng, memories)
    settings = cases.settings(rng)
    first = memory_select(query, memories, settings=settings, now=cases.NOW)
    gates = ("out_of_scope", "expired", "low_relevance")
    for _ in range(3):
        rng.shuffle(memories)
        again = memory_select(query, memories, settings=settings, now=cases.NOW)
        assert again.selected == first.selected
        assert [gone for gone in again.dropped if gone.reason not in gates] == [
            gone for gone in first.dropped if gone.reason not in gates
        ]
        assert sorted(again.dropped) == sorted(first.dropped)


def test_a_large_selection_with_every_memory_kept_agrees_with_the_oracle():
    rng = random.Random(7)
    memories = cases.memories(rng, 700, distinct=True)
    settings = MemorySelectSettings(max_results=10**6, max_tokens=10**9, redact=False, min_relevance=0)
    expected = oracle.select("server", memories, settings=settings, now=cases.NOW)
    assert plain(memory_select("server", memories, settings=settings, now=cases.NOW)) == expected


def test_more_memories_than_a_cache_holds_agree_with_the_oracle():
    rng = random.Random(11)
    memories = cases.memories(rng, 3000)
    expected = oracle.select("server 7 café", memories, now=cases.NOW, settings=MemorySelectSettings(redact=False))
    given = [types.MappingProxyType(memory) if i % 100 == 0 else memory for i, memory in enumerate(memories)]
    assert plain(memory_select("server 7 café", given, settings={"redact": False}, now=cases.NOW)) == expected


alphabet = (
    "aAbcnCNtT'’+#-_ .7²½éÉßœİıﬁ\u0301\u0308\u0345\u200d\ufe0f٣कि्ไท中文かガ゙ーｶﾞ한글\u1100\u1161\u11a8👍\ud83d\u00a0µ〇"
)


@hypothesis_settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(st.text(alphabet=alphabet, max_size=30))
def test_words_of_adverse_texts_agree_with_the_oracle(text):
    assert words(text) == oracle.cut(text)


@hypothesis_settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.text(max_size=40))
def test_words_of_any_text_agree_with_the_oracle(text):
    assert words(text) == oracle.cut(text)


@hypothesis_settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    st.text(alphabet=alphabet, max_size=20), st.lists(st.text(alphabet=alphabet, min_size=1, max_size=90), max_size=4)
)
def test_relevance_of_adverse_texts_agrees_with_the_oracle(query, texts):
    memories = [{"id": i, "text": text, "tags": [text[::-1]]} for i, text in enumerate(texts)]
    settings = MemorySelectSettings(redact=False, min_relevance=0)
    expected = oracle.select(query, memories, settings=settings, now=cases.NOW)
    assert plain(memory_select(query, memories, settings=settings, now=cases.NOW)) == expected


def test_every_character_is_cut_as_the_oracle_cuts_it():
    for code in range(0x110000):
        text = f"ab{chr(code)}cd"
        if code < 0x3200 or code % 37 == 0:
            assert words(text) == oracle.cut(text), hex(code)
