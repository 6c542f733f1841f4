"""The answer of memory_select: its shapes, its JSON, and what redaction does to it."""

import datetime
import json
import pickle

import pytest

from memsel.policy import DroppedMemory, MemorySelection, MemorySelectSettings, SelectedMemory, memory_select
from memsel.policy.redaction import redact
from policy import oracle

NOW = datetime.datetime(2026, 1, 15, 12, tzinfo=datetime.UTC)
MEMORIES = [
    {"id": "db", "text": "PostgreSQL, on the build host", "importance": 0.7, "created_at": "2026-01-14T12:00:00Z"},
    {"id": "ui", "text": "The settings page uses a dark theme"},
    {"id": "gone", "text": "the build host moves", "expires_at": "2026-01-01T00:00:00Z"},
]


def select(memories=MEMORIES, query="where is the build host", **settings):
    return memory_select(query, memories, settings=settings, now=NOW)


def test_a_selection_says_what_was_kept_and_why_and_what_was_not():
    answer = select()
    reasons = ["relevance=1.00", "recency=0.95", "importance=0.70"]
    assert answer.selected == [SelectedMemory("db", "PostgreSQL, on the build host", 0.925509, 8, reasons)]
    assert answer.dropped == [DroppedMemory("ui", "low_relevance"), DroppedMemory("gone", "expired")]
    assert answer.total_tokens == 8
    assert answer.to_dict() == {
        "selected": [
            {"id": "db", "text": "PostgreSQL, on the build host", "score": 0.925509, "tokens": 8, "reasons": reasons}
        ],
        "dropped": [{"id": "ui", "reason": "low_relevance"}, {"id": "gone", "reason": "expired"}],
        "total_tokens": 8,
    }


def test_a_selection_survives_json_pickling_and_comparison():
    answer = select()
    assert json.loads(answer.to_json()) == answer.to_dict()
    assert pickle.loads(pickle.dumps(answer)) == answer == select()
    assert answer != select(query="dark theme")
    assert answer != answer.to_dict()
    assert eval(repr(answer)) == answer
    assert type(answer) is MemorySelection
    with pytest.raises(TypeError):
        hash(answer)


def test_half_a_surrogate_pair_is_escaped_in_json():
    answer = memory_select("", [{"id": "a\udc00", "text": "bad \ud83d half"}], now=NOW, settings={"redact": False})
    assert "\\ud83d" in answer.to_json()
    assert json.loads(answer.to_json()) == answer.to_dict()
    answer.to_json().encode()


def test_the_dropped_are_the_same_when_asked_for_again_and_belong_to_the_answer():
    answer = select()
    assert answer.dropped is answer.dropped


def test_the_callers_memories_are_left_as_they_were():
    before = json.dumps(MEMORIES)
    select()
    assert json.dumps(MEMORIES) == before


def test_text_and_tokens_are_those_of_the_redacted_text_and_words_those_of_the_given():
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    memory = {"id": secret, "text": f"the key of the deploy host is {secret}"}
    (one,) = select([memory], query=secret).selected
    assert one.id == secret
    assert secret not in one.text
    assert "[REDACTED_" in one.text
    assert one.tokens == -(-len(one.text) // 4)
    assert one.reasons[0] == "relevance=1.00"
    (one,) = select([memory], query=secret, redact=False).selected
    assert one.text == memory["text"]
    counted = []
    memory_select(secret, [memory], now=NOW, token_counter=lambda text: counted.append(text) or 1)
    assert len(counted) == 1
    assert secret not in counted[0]


@pytest.mark.parametrize("max_tokens", range(1, 40))
def test_a_redacted_text_is_weighed_as_it_leaves_under_every_budget(max_tokens):
    lines = [
        "password=" + "x" * 200,
        "plain words",
        "Authorization: Bearer " + "abcd" * 20,
        "a",
        "more plain words than fit",
    ]
    memories = [{"id": str(i), "text": line, "importance": 1 - i / 10} for i, line in enumerate(lines)]
    settings = MemorySelectSettings(max_tokens=max_tokens)
    selected, dropped, total = oracle.select("", memories, settings=settings, now=NOW, redact=redact)
    answer = memory_select("", memories, settings=settings, now=NOW)
    assert ([tuple(one) for one in answer.selected], answer.dropped, answer.total_tokens) == (selected, dropped, total)


def test_an_error_shows_no_secret():
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    with pytest.raises(ValueError, match="created_at is ") as caught:
        select([{"id": "a", "text": "x", "created_at": secret}])
    assert secret not in str(caught.value)
