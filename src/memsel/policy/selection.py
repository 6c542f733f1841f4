"""The face of the policy: `memory_select` checks its arguments, lets the ranking decide, and words the reasons."""

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from memsel.errors import InputError
from memsel.policy._rank import Ranking
from memsel.policy.memories import Memory, read_instant, read_memory, read_scope
from memsel.policy.redaction import redact
from memsel.policy.settings import MemorySelectSettings
from memsel.tokens import TokenCounter, count_all, counting_function

_DEFAULT_SETTINGS = MemorySelectSettings()


class SelectedMemory(NamedTuple):
    """A memory that was kept: its text as it may leave, its score rounded to 6, its tokens, and why it was kept."""

    id: str
    text: str
    score: float
    tokens: int
    reasons: list[str]


class DroppedMemory(NamedTuple):
    """A memory that was left behind, and the one reason."""

    id: str
    reason: str


# `DroppedMemory._make` without its Python frame: there may be very many of these.
_dropped_memory: Callable[[tuple[str, str]], DroppedMemory] = functools.partial(tuple.__new__, DroppedMemory)


class MemorySelection:
    """What `memory_select` answers.

    selected: SelectedMemory, best first. dropped: DroppedMemory, the gates' drops in input order, then the others in
    rank order; the list is made when it is first asked for. total_tokens: what the selected cost together.
    """

    __slots__ = ("_dropped", "selected", "total_tokens")

    def __init__(
        self, selected: list[SelectedMemory], dropped: Iterable[tuple[str, str]] | Ranking, total_tokens: int
    ) -> None:
        self.selected = selected
        self.total_tokens = total_tokens
        self._dropped: list[DroppedMemory] | Ranking
        if isinstance(dropped, Ranking):
            self._dropped = dropped
        else:
            self._dropped = [DroppedMemory(*pair) for pair in dropped]

    @property
    def dropped(self) -> list[DroppedMemory]:
        if isinstance(self._dropped, Ranking):
            self._dropped = self._dropped.dropped(_dropped_memory)
        return self._dropped

    def to_dict(self) -> dict[str, Any]:
        """The selection as plain lists, dicts, texts and numbers."""
        return {
            "selected": [{**kept._asdict(), "reasons": list(kept.reasons)} for kept in self.selected],
            "dropped": [{"id": id, "reason": reason} for id, reason in self.dropped],
            "total_tokens": self.total_tokens,
        }

    def to_json(self) -> str:
        """`to_dict` as JSON (RFC 8259); half a surrogate pair is written as its escape."""
        answer = self.to_dict()
        try:
            return msgspec.json.encode(answer).decode()
        except UnicodeEncodeError:
            return json.dumps(answer, allow_nan=False, separators=(",", ":"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemorySelection):
            return NotImplemented
        return (self.selected, self.dropped, self.total_tokens) == (other.selected, other.dropped, other.total_tokens)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return MemorySelection, (self.selected, self.dropped, self.total_tokens)

    def __repr__(self) -> str:
        return (
            f"MemorySelection(selected={self.selected!r}, dropped={self.dropped!r}, total_tokens={self.total_tokens!r})"
        )


def memory_select(
    query: str,
    memories: Iterable[Any],
    *,
    settings: MemorySelectSettings | Mapping[str, Any] | None = None,
    scope: str | None = None,
    now: Any = None,
    token_counter: TokenCounter | None = None,
) -> MemorySelection:
    """Keep the memories that answer the query within the limits, and give one reason for each kept or dropped.

    memories: mappings with `id` and `text` or `content`, and as wanted `created_at` and `expires_at` (ISO-8601 with a
    zone, or an aware datetime), `importance` (0 to 1), `tags`, `scope` and `similarity`; or MemoryEntry objects and
    mappings with `timestamp` (seconds since 1970), whose scope, expires_at and similarity stand in their metadata.
    scope: the one whose memories may be seen, `default` when None. now: a date like created_at; the clock when None.
    token_counter: a callable from text to a count of 1 or more, or an object with `count` or `count_batch`; None counts
    four characters a token, rounded up.

    The order of decisions: out_of_scope, expired, duplicate_input, low_relevance; then by score
    (relevance_weight * relevance + freshness_weight * freshness + importance_weight * importance + similarity_weight *
    similarity, rounded to 6; ties to the newer, then the lower id) max_items, budget, duplicate_of:ID.
    Words, duplicates and conflicts look at the text as given; `text` and `tokens` are those of the redacted text.
    Raises InputError that names the memory, the setting or the argument.
    """
    if not isinstance(query, str):
        raise InputError(f"query is of type {type(query).__name__}; expected a text")
    if settings is None:
        settings = _DEFAULT_SETTINGS
    elif not isinstance(settings, MemorySelectSettings):
        settings = MemorySelectSettings.from_mapping(settings)
    if type(memories) is not list:
        if isinstance(memories, str | bytes | Mapping) or not isinstance(memories, Iterable):
            raise InputError(f"memories is of type {type(memories).__name__}; expected a list of memories")
        memories = list(memories)
    instant = _micros(time.time()) if now is None else read_instant("now", now)
    ranking = Ranking(
        str(query),
        settings,
        "default" if scope is None else read_scope("scope", scope),
        instant,
        Memory,
        read_memory,
    )
    ranking.read(memories)
    ranking.decide(None if token_counter is None else _Counter(token_counter), redact if settings.redact else None)
    selected = []
    for id, text, score, tokens, relevance, freshness, importance, similarity, rival in ranking.kept():
        reasons = [f"relevance={relevance:.2f}", f"recency={freshness:.2f}", f"importance={importance:.2f}"]
        if similarity is not None:
            reasons.append(f"similarity={similarity:.2f}")
        if rival is not None:
            reasons.append(f"possible_conflict:{rival}")
        selected.append(SelectedMemory(id, text, score, tokens, reasons))
    return MemorySelection(selected, ranking, ranking.total_tokens)


def _micros(seconds: float) -> int:
    """Seconds since 1970 as whole microseconds, rounded as datetime.fromtimestamp rounds."""
    whole = int(seconds // 1)
    return whole * 1_000_000 + round((seconds - whole) * 1e6)


class _Counter:
    """A caller's token counter, of any of the shapes allowed; a fault of it names the memory."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        try:
            self._count = counting_function(counter)
        except TypeError as error:
            raise InputError(f"token_counter: {error}") from None
        # One text at a time, so that none is counted that no decision looks at; a batch is worth a few of those.
        self.ahead = 32 if callable(getattr(counter, "count_batch", None)) else 1

    def __call__(self, ids: list[str], texts: list[str]) -> list[int]:
        if self.ahead == 1:
            return [self._one(id, text) for id, text in zip(ids, texts, strict=True)]
        try:
            return count_all(self._counter, texts)
        except BaseException as error:
            if not _is_fault(error):
                raise
            for id, text in zip(ids, texts, strict=True):
                self._one(id, text)
            raise InputError(f"token_counter: {_told(error)}") from error  # it fails on no text alone

    def _one(self, id: str, text: str) -> int:
        try:
            return self._count(text)
        except BaseException as error:
            if not _is_fault(error):
                raise
            raise InputError(f"memory {id!r}: token_counter: {_told(error)}") from error


def _is_fault(error: BaseException) -> bool:
    # A panic inside a Rust tokenizer is no Exception, though it says no more than that this text failed.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _told(error: BaseException) -> str:
    """What an error says, without a secret of the text that it may quote."""
    return f"{type(error).__name__}: {redact(str(error))[:200]}"
