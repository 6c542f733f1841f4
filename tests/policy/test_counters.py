"""Token counters of a caller's own: what they may be, when they are asked, and how a fault of theirs is named."""

import datetime

import numpy as np
import pytest

from memsel.errors import InputError
from memsel.policy import memory_select

NOW = datetime.datetime(2026, 1, 15, 12, tzinfo=datetime.UTC)


def memories(count):
    return [{"id": f"m{i:03}", "text": f"word{i} thing{i}", "importance": 1 - i / 1000} for i in range(count)]


def select(count, counter, **settings):
    settings = {"redact": False, **settings}
    return memory_select("", memories(count), settings=settings, now=NOW, token_counter=counter)


class Single:
    def __init__(self):
        self.asked = []

    def count(self, text):
        self.asked.append(text)
        return 3


class Batch(Single):
    def __init__(self):
        super().__init__()
        self.batches = []

    def count_batch(self, texts):
        assert type(texts) is list
        self.batches.append(len(texts))
        return [self.count(text) for text in texts]


def test_a_callable_and_an_object_with_count_or_count_batch_count_alike():
    expected = select(20, lambda text: 3, max_tokens=31).to_dict()
    assert [one["tokens"] for one in expected["selected"]] == [3] * 10
    assert select(20, Single(), max_tokens=31).to_dict() == expected
    assert select(20, Batch(), max_tokens=31).to_dict() == expected
    assert select(20, Batch().count, max_tokens=31).to_dict() == expected


def test_nothing_is_counted_that_no_decision_looks_at():
    counter = Single()
    select(50, counter, max_results=4)
    assert len(counter.asked) == 4
    counter = Single()
    select(50, counter, max_tokens=9)
    assert len(counter.asked) == 3


def test_a_batch_is_asked_in_few_calls():
    counter = Batch()
    select(500, counter, max_results=100, max_tokens=10**6)
    assert sum(counter.batches) < 200
    assert len(counter.batches) < 10


def test_the_default_is_four_characters_a_token_rounded_up():
    texts = ["a" * n for n in range(1, 10)]
    answer = memory_select("", [{"id": t, "text": t} for t in texts], settings={"redact": False}, now=NOW)
    assert {one.id: one.tokens for one in answer.selected} == {t: -(-len(t) // 4) for t in texts}
    assert (
        memory_select("", [{"id": "a", "text": "请用中文回答"}], now=NOW, settings={"redact": False}).total_tokens == 2
    )


@pytest.mark.parametrize("count", [np.int64(3), 3, np.uint8(3)])
def test_an_integral_count_of_one_or_more_is_taken(count):
    assert select(1, lambda text: count).selected[0].tokens == 3
    assert type(select(1, lambda text: count).selected[0].tokens) is int


@pytest.mark.parametrize("count", [True, np.True_, 2.0, np.float64(2), 0, -1, None, "3", [3]])
def test_any_other_count_is_refused_by_memory(count):
    with pytest.raises(
        InputError, match=r"^memory 'm000': token_counter: .* gave .*; expected an integer of 1 or more"
    ):
        select(1, lambda text: count)


def test_a_count_beyond_any_budget_does_not_fit():
    assert select(1, lambda text: 10**30).dropped == [("m000", "budget")]


class PanicException(BaseException):
    """As a tokenizer in Rust raises it."""


@pytest.mark.parametrize("error", [ValueError("disallowed special token"), RuntimeError(), PanicException("panic")])
@pytest.mark.parametrize("batched", [False, True])
def test_a_counter_that_raises_surfaces_the_memory(error, batched):
    class Failing(Single):
        def count(self, text):
            if text.startswith("word2 "):
                raise error
            return super().count(text)

    counter = Failing()
    if batched:
        counter.count_batch = lambda texts: [counter.count(text) for text in texts]
    with pytest.raises(InputError, match=rf"^memory 'm002': token_counter: {type(error).__name__}: ") as caught:
        select(5, counter)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through_a_counter(error):
    def interrupted(text):
        raise error

    with pytest.raises(error):
        select(1, interrupted)


def test_a_batch_of_the_wrong_length_is_refused():
    class Short(Single):
        def count_batch(self, texts):
            return [1]

    with pytest.raises(InputError, match=r"^token_counter: .* gave 1 counts for 5 texts"):
        select(5, Short())


@pytest.mark.parametrize("counter", [5, "o200k", b"o200k", [1], object()])
def test_a_thing_that_cannot_count_is_refused(counter):
    with pytest.raises(InputError, match=r"^token_counter: .* is of type .*; expected a callable from text to a count"):
        select(1, counter)


def test_the_counters_that_come_with_memsel_are_taken():
    from memsel.tokens import ScriptTokenEstimator

    memory = {"id": "a", "text": "请用中文回答"}
    estimator = ScriptTokenEstimator()
    answer = memory_select("", [memory], token_counter=estimator, now=NOW)
    assert answer.total_tokens == estimator.count(memory["text"]) > 2
