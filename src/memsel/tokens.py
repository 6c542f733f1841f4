"""Token counters: what may count the tokens of a text, the check of what it says, and the two that come with memsel.

Without a counter memsel takes four characters for a token, which needs no vocabulary and is right for English prose.
``ScriptTokenEstimator`` knows other scripts as well; ``TiktokenCounter`` counts exactly what the models count.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, Protocol, TypeAlias

from ._scripts import estimate

__all__ = ["ScriptTokenEstimator", "TiktokenCounter", "TokenCounter", "checked_count", "count_all", "counting_function"]


class Counts(Protocol):
    """An object that counts the tokens of one text."""

    def count(self, text: str, /) -> int: ...


class CountsBatch(Protocol):
    """An object that counts the tokens of many texts at once."""

    def count_batch(self, texts: Sequence[str], /) -> Iterable[int]: ...


TokenCounter: TypeAlias = Callable[[str], int] | Counts | CountsBatch


def counting_function(counter: TokenCounter) -> Callable[[str], int]:
    """Return a function that counts one text with the counter and checks the result.

    A counter is an object with ``count(text)``, an object with ``count_batch(texts)`` or a callable; the first of them
    that it is decides. Strings and other sequences are none, whatever their own ``count`` does.

    Raises:
        TypeError: the counter is none of these. The returned function raises a ValueError when the counter's result
            is not an integer of 1 or more (NumPy integers are; bools and floats are not).
    """
    count, batch = _methods(counter)
    if count is None:
        return lambda text: _checked(_only(batch([text])))  # type: ignore[misc]
    return lambda text: _checked(count(text))


def count_all(counter: TokenCounter, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text, counted in one call of ``count_batch`` where the counter has it.

    Raises:
        TypeError: as ``counting_function``.
        ValueError: a result is not an integer of 1 or more, or there are not as many results as texts; the message
            names the position of the text.
    """
    count, batch = _methods(counter)
    results = list(batch(texts)) if batch is not None else [count(text) for text in texts]  # type: ignore[misc]
    if len(results) != len(texts):
        raise ValueError(f"the token counter gave {len(results)} counts for {len(texts)} texts")
    return [_checked(result, f" for text {position}") for position, result in enumerate(results)]


def checked_count(counter: TokenCounter, text: str, whose: str) -> int:
    """Return the tokens of one text; the ValueError for a result that is no count names whose text it was."""
    count, batch = _methods(counter)
    result = count(text) if count is not None else _only(batch([text]))  # type: ignore[misc]
    return _checked(result, f" for {whose}")


def _methods(counter: Any) -> tuple[Callable[[str], Any] | None, Callable[[Sequence[str]], Iterable[Any]] | None]:
    """The counter's ways to count one text and many; at least one of them is there."""
    if not isinstance(counter, str | bytes | Sequence):
        count, batch = getattr(counter, "count", None), getattr(counter, "count_batch", None)
        if not callable(count):
            count = counter if callable(counter) and not callable(batch) else None
        if count is not None or callable(batch):
            return count, batch if callable(batch) else None
    raise TypeError(
        f"the token counter is of type {type(counter).__name__};"
        " expected a callable from text to a count, or an object with count or count_batch"
    )


def _only(results: Iterable[Any]) -> Any:
    counts = list(results)
    if len(counts) != 1:
        raise ValueError(f"the token counter gave {len(counts)} counts for 1 text")
    return counts[0]


def _checked(result: Any, whose: str = "") -> int:
    try:
        tokens = 0 if isinstance(result, bool) else index(result)
    except TypeError:
        tokens = 0
    if tokens < 1:
        raise ValueError(f"the token counter gave {result!r}{whose}; expected an integer of 1 or more")
    return tokens


class ScriptTokenEstimator:
    """Estimates the tokens of the o200k_base vocabulary from the scripts of a text, without the vocabulary.

    Counts are 1 or more. Over some thousand characters of English, JSON, code, Chinese, Japanese, Korean, Arabic or
    chat full of emoji the total is within 15 % of the true one (benchmarks/results/tokens_estimator.json holds the
    measured errors); a single short text may be further off, and random letters cost more than any estimate by
    script can know. All estimators are equal.
    """

    __slots__ = ()

    def count(self, text: str) -> int:
        """Return the estimate for one text; it takes time linear in its length."""
        return estimate(text)

    def count_batch(self, texts: Iterable[str]) -> list[int]:
        """Return the estimate for each text."""
        return [estimate(text) for text in texts]

    __call__ = count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScriptTokenEstimator) or NotImplemented

    def __hash__(self) -> int:
        return hash(ScriptTokenEstimator)

    def __repr__(self) -> str:
        return "ScriptTokenEstimator()"


# tiktoken reads the folder of its cache from the environment, which all threads share.
_ENVIRONMENT = threading.Lock()
_CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"


class TiktokenCounter:
    """Counts tokens with tiktoken; special tokens such as ``<|endoftext|>`` count as the text they are written as.

    Args:
        encoding: the name of an encoding that tiktoken knows.
        cache_dir: the folder that holds, or is to hold, the vocabulary. With the vocabulary in it nothing is
            downloaded. None leaves the place to tiktoken (its variable TIKTOKEN_CACHE_DIR, or a temporary folder).

    Counts are 1 or more: the empty text counts 1. Two counters are equal when their encodings are.

    Raises:
        ImportError: tiktoken is not installed; the message names the extra.
        ValueError: tiktoken knows no encoding of this name.
    """

    __slots__ = ("_encode", "_encode_batch", "cache_dir", "encoding")

    def __init__(self, encoding: str = "o200k_base", cache_dir: str | os.PathLike[str] | None = None) -> None:
        try:
            import tiktoken
        except ImportError as error:
            raise ImportError("TiktokenCounter needs tiktoken: pip install 'memsel[tiktoken]'") from error
        self.encoding = encoding
        self.cache_dir = None if cache_dir is None else os.fspath(cache_dir)
        with _ENVIRONMENT:
            before = os.environ.get(_CACHE_VARIABLE)
            if self.cache_dir is not None:
                os.environ[_CACHE_VARIABLE] = self.cache_dir
            try:
                loaded = tiktoken.get_encoding(encoding)
            finally:
                if before is not None:
                    os.environ[_CACHE_VARIABLE] = before
                elif self.cache_dir is not None:
                    del os.environ[_CACHE_VARIABLE]
        self._encode = loaded.encode
        self._encode_batch = loaded.encode_batch

    def count(self, text: str) -> int:
        """Return the number of tokens of one text."""
        return len(self._encode(text, disallowed_special=())) or 1

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text; tiktoken encodes them on several threads."""
        return [len(tokens) or 1 for tokens in self._encode_batch(list(texts), disallowed_special=())]

    __call__ = count

    def __eq__(self, other: object) -> bool:
        return self.encoding == other.encoding if isinstance(other, TiktokenCounter) else NotImplemented

    def __hash__(self) -> int:
        return hash((TiktokenCounter, self.encoding))

    def __reduce__(self) -> tuple[type[TiktokenCounter], tuple[str, str | None]]:
        return TiktokenCounter, (self.encoding, self.cache_dir)

    def __repr__(self) -> str:
        place = "" if self.cache_dir is None else f", cache_dir={self.cache_dir!r}"
        return f"TiktokenCounter({self.encoding!r}{place})"
