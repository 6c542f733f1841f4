"""Token counters: what is one, what a count has to be, and how far the estimator is from the real vocabulary."""

from __future__ import annotations

import base64
import copy
import hashlib
import os
import pathlib
import pickle
import random
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import quicktok
from hypothesis import given, settings
from hypothesis import strategies as st

from memsel.tokens import ScriptTokenEstimator, TiktokenCounter, checked_count, count_all, counting_function

TEXTS = pathlib.Path(__file__).parent / "data" / "tokens"
HELD_OUT = ("english", "json", "code", "chinese", "japanese", "korean", "arabic", "chat")


class Both:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def count(self, text: str) -> int:
        self.calls.append("count")
        return len(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        self.calls.append("count_batch")
        return [len(text) for text in texts]


class BatchOnly:
    def count_batch(self, texts: Sequence[str]) -> Iterable[int]:
        return (len(text) for text in texts)


class Answers:
    """A counter that answers the same thing to every text, in each way a counter can be asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def count(self, text: str) -> Any:
        return self.answer

    def count_batch(self, texts: Sequence[str]) -> list[Any]:
        return [self.answer] * len(texts)


@pytest.mark.parametrize("counter", [len, Both(), BatchOnly(), lambda text: np.int64(len(text)), "".__class__.__len__])
def test_a_callable_an_object_with_count_and_one_with_count_batch_are_counters(counter: Any) -> None:
    assert counting_function(counter)("four") == 4
    assert type(counting_function(counter)("four")) is int
    assert count_all(counter, ["a", "bb", "ccc"]) == [1, 2, 3]
    assert count_all(counter, []) == []
    assert checked_count(counter, "four", "memory 'a'") == 4


def test_one_text_goes_to_count_and_many_to_count_batch() -> None:
    counter = Both()
    counting_function(counter)("a")
    assert counter.calls == ["count"]
    count_all(counter, ["a", "b", "c"])
    assert counter.calls == ["count", "count_batch"]


@pytest.mark.parametrize("counter", ["text", b"bytes", [1], (), None, 7, object(), {"count": 1}])
def test_what_is_no_counter_is_refused_by_its_type(counter: Any) -> None:
    for use in (counting_function, lambda c: count_all(c, ["a"]), lambda c: checked_count(c, "a", "x")):
        with pytest.raises(TypeError, match=f"the token counter is of type {type(counter).__name__};"):
            use(counter)


@pytest.mark.parametrize(
    "answer", [0, -1, True, False, 1.0, 2.5, float("nan"), "3", None, np.float64(3), np.bool_(True)]
)
def test_a_count_is_an_integer_of_one_or_more(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"the token counter gave .*; expected an integer of 1 or more"):
        counting_function(Answers(answer))("text")
    with pytest.raises(ValueError, match=r"gave .* for text 0; expected an integer of 1 or more"):
        count_all(Answers(answer), ["text", "more"])
    with pytest.raises(ValueError, match=r"gave .* for memory 'm1'; expected an integer of 1 or more"):
        checked_count(Answers(answer), "text", "memory 'm1'")


def test_a_batch_that_answers_too_few_is_refused() -> None:
    counter = types.SimpleNamespace(count_batch=lambda texts: [1])
    with pytest.raises(ValueError, match="gave 1 counts for 2 texts"):
        count_all(counter, ["a", "b"])
    nothing = types.SimpleNamespace(count_batch=lambda texts: [])
    with pytest.raises(ValueError, match="gave 0 counts for 1 text"):
        counting_function(nothing)("a")


def test_a_refusal_repeats_nothing_of_the_text() -> None:
    with pytest.raises(ValueError) as refused:
        counting_function(lambda text: 0)("a text that stays where it is")
    assert "stays" not in str(refused.value)


def test_what_a_counter_raises_is_what_the_caller_sees() -> None:
    def failing(text: str) -> int:
        raise LookupError("no vocabulary")

    with pytest.raises(LookupError, match="no vocabulary"):
        counting_function(failing)("text")


# ---- the estimator ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def o200k() -> quicktok.Tokenizer:
    return quicktok.get_encoding("o200k_base")


@pytest.mark.parametrize("kind", HELD_OUT)
def test_the_estimate_is_within_15_percent_on_text_it_was_not_fitted_to(kind: str, o200k: quicktok.Tokenizer) -> None:
    text = (TEXTS / f"{kind}.txt").read_text(encoding="utf-8")
    assert len(text) >= 5000
    estimated, real = ScriptTokenEstimator().count(text), o200k.count(text)
    assert abs(estimated / real - 1) <= 0.15, (estimated, real)
    # and when the text comes line by line, as memories do
    lines = [line for line in text.splitlines() if line.strip()]
    estimated, real = sum(ScriptTokenEstimator().count_batch(lines)), sum(o200k.count(line) for line in lines)
    assert abs(estimated / real - 1) <= 0.15, (estimated, real)


@pytest.mark.parametrize("kind", ["json", "chinese", "japanese", "korean", "chat"])
def test_four_characters_a_token_is_further_off_where_words_are_not_english(
    kind: str, o200k: quicktok.Tokenizer
) -> None:
    text = (TEXTS / f"{kind}.txt").read_text(encoding="utf-8")
    real = o200k.count(text)
    assert abs(ScriptTokenEstimator().count(text) - real) < abs(-(-len(text) // 4) - real)


def test_numbers_dates_and_identifiers_are_estimated_within_15_percent(o200k: quicktok.Tokenizer) -> None:
    rng = random.Random(20261130)
    days = [f"2026-0{rng.randint(1, 9)}-{rng.randint(10, 28)}" for _ in range(200)]
    rows = [f"{day} {rng.random():.4f},{rng.getrandbits(64):016x},{rng.getrandbits(20)}" for day in days]
    text = "\n".join(rows)
    assert abs(ScriptTokenEstimator().count(text) / o200k.count(text) - 1) <= 0.15


def test_an_estimate_is_one_or_more_for_any_text() -> None:
    estimator = ScriptTokenEstimator()
    assert [estimator.count(text) for text in ("", " ", "a", "\n", "\0", "é", "密", "😂")] == [1] * 8
    assert estimator.count("\ud800") >= 1


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.text(max_size=80), st.text(max_size=80))
def test_more_text_never_costs_less_and_lines_add_up(one: str, two: str) -> None:
    estimator = ScriptTokenEstimator()
    assert 1 <= estimator.count(one) <= 3 * len(one) + 1
    together = estimator.count(one + "\n" + two)
    assert abs(together - estimator.count(one) - estimator.count(two)) <= 4
    assert counting_function(estimator)(one) == estimator(one) == estimator.count_batch([one])[0]


def test_only_text_is_estimated() -> None:
    for wrong in (None, b"bytes", 3, ["text"]):
        with pytest.raises(TypeError):
            ScriptTokenEstimator().count(wrong)  # type: ignore[arg-type]


def test_estimators_are_equal_and_survive_copies() -> None:
    estimator = ScriptTokenEstimator()
    assert estimator == ScriptTokenEstimator() == copy.deepcopy(estimator) == pickle.loads(pickle.dumps(estimator))
    assert hash(estimator) == hash(ScriptTokenEstimator())
    assert estimator != object()
    assert repr(estimator) == "ScriptTokenEstimator()"


# ---- tiktoken --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: pathlib.Path, o200k: quicktok.Tokenizer) -> pathlib.Path:
    """A folder as tiktoken leaves it behind, filled without a network."""
    openai_public = pytest.importorskip("tiktoken_ext.openai_public")
    urls: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda url, **_: urls.append(url) or {})
        openai_public.o200k_base()
    vocabulary = b"".join(
        base64.b64encode(o200k.decode_single_token_bytes(rank)) + b" %d\n" % rank for rank in range(199_998)
    )
    (tmp_path / hashlib.sha1(urls[0].encode(), usedforsecurity=False).hexdigest()).write_bytes(vocabulary)
    return tmp_path


def test_tiktoken_counts_offline_from_a_folder(
    cache: pathlib.Path, o200k: quicktok.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiktoken = pytest.importorskip("tiktoken")

    def no_network(url: str) -> bytes:
        raise AssertionError(f"asked for {url}")

    monkeypatch.setattr("tiktoken.load.read_file", no_network)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    counter = TiktokenCounter(cache_dir=cache)
    assert "TIKTOKEN_CACHE_DIR" not in os.environ
    for kind in HELD_OUT:
        text = (TEXTS / f"{kind}.txt").read_text(encoding="utf-8")
        assert counter.count(text) == o200k.count(text)
    assert counter.count("<|endoftext|>") > 1
    assert counter.count_batch(["<|endoftext|>", "hello world", ""]) == [counter.count("<|endoftext|>"), 2, 1]
    assert count_all(counter, ["one", "two three"]) == [1, 2]
    assert counter == pickle.loads(pickle.dumps(counter)) == copy.deepcopy(counter)
    assert hash(counter) == hash(TiktokenCounter("o200k_base"))
    with pytest.raises(ValueError, match="Unknown encoding"):
        TiktokenCounter("no such encoding", cache_dir=cache)


class FakeEncoding:
    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, text: str, *, disallowed_special: Iterable[str]) -> list[int]:
        assert tuple(disallowed_special) == ()
        return [0] * len(text.split())

    def encode_batch(self, texts: list[str], *, disallowed_special: Iterable[str]) -> list[list[int]]:
        assert isinstance(texts, list)
        return [self.encode(text, disallowed_special=disallowed_special) for text in texts]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """What a stand-in for tiktoken was asked for: the encoding, and the cache folder in force at that moment."""
    asked: list[tuple[str, str | None]] = []

    def get_encoding(name: str) -> FakeEncoding:
        asked.append((name, os.environ.get("TIKTOKEN_CACHE_DIR")))
        if name == "broken":
            raise OSError("no such file")
        return FakeEncoding(name)

    stand_in = types.ModuleType("tiktoken")
    stand_in.get_encoding = get_encoding  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tiktoken", stand_in)
    return asked


def test_the_cache_folder_is_set_for_the_load_and_put_back(
    seen: list[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    TiktokenCounter()
    TiktokenCounter("cl100k_base", pathlib.Path("folder"))
    assert "TIKTOKEN_CACHE_DIR" not in os.environ
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "before")
    TiktokenCounter(cache_dir="other")
    with pytest.raises(OSError, match="no such file"):
        TiktokenCounter("broken", cache_dir="other")
    TiktokenCounter()
    assert os.environ["TIKTOKEN_CACHE_DIR"] == "before"
    assert seen == [
        ("o200k_base", None),
        ("cl100k_base", "folder"),
        ("o200k_base", "other"),
        ("broken", "other"),
        ("o200k_base", "before"),
    ]


def test_special_tokens_count_as_text_and_nothing_counts_as_one(seen: list[tuple[str, str | None]]) -> None:
    counter = TiktokenCounter()
    assert counter.count("three words here") == counter("three words here") == 3
    assert counter.count_batch(("a b", "")) == [2, 1]
    assert counter.count("") == 1
    assert repr(counter) == "TiktokenCounter('o200k_base')"
    assert repr(TiktokenCounter(cache_dir="x")) == "TiktokenCounter('o200k_base', cache_dir='x')"
    assert counter == TiktokenCounter(cache_dir="x")
    assert counter != TiktokenCounter("cl100k_base")
    assert counter != ScriptTokenEstimator()


def test_without_tiktoken_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ImportError, match=r"memsel\[tiktoken\]"):
        TiktokenCounter()
