"""Questions and answers as they travel: the JSON that the network faces (HTTP, MCP) share, and nothing of a protocol.

One reading, one set of defaults (the library's own) and one redaction for both faces. What may not travel is decided
here: secrets in any text that leaves, the ids of memories of other scopes, numbers that JSON does not have.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from ..config import SelectionConfig
from ..errors import InputError
from ..files import decoded, entry_from, without_embedding
from ..policy import MemorySelectSettings, memory_select, redact
from ..policy.memories import read_instant
from ..selector import AuditedMemory, MemorySelector

__all__ = [
    "DroppedRow",
    "Fault",
    "RankAnswer",
    "RankMemories",
    "RankQuestion",
    "RankRequest",
    "RankSettings",
    "RankedRow",
    "Scores",
    "SelectAnswer",
    "SelectQuestion",
    "SelectRequest",
    "SelectedRow",
    "clean",
    "decode",
    "encode",
    "misshapen",
    "moment",
    "path_of",
    "rank",
    "redacted",
    "select",
    "selection_config",
]

_Request = TypeVar("_Request", bound=msgspec.Struct)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The answers' texts come from memories; an error is about one value, and a client has no use for more.
_LONGEST_MESSAGE = 600
_SETTINGS = MemorySelectSettings()
_CONFIG = SelectionConfig()

_VALIDATION_PATH = re.compile(r" - at `(\$[^`]*)`$")
# `memories[3] (id 'a'): importance is ...`, `memories[3]: content is ...`, `conflicts[0] is ...`; an id is a Python
# literal, so its closing quote is the first that no backslash precedes.
_MEMORY_PATH = re.compile(
    r"""(memories\[\d+\])(?: \(id (?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\))?(?:: ([a-z_]+)\b| (?:is|holds)\b)"""
)
_MEMBER_PATH = re.compile(r"([a-z_]+(?:\[\d+\])*)(?: |,|:)")


class Fault(Exception):
    """A question that is not answered: an HTTP status, a word for programs, a sentence, and where in the question.

    The sentence is redacted and cut; ``path`` is a JSON path such as ``$.memories[3].importance``, or None.
    """

    def __init__(self, status: int, code: str, message: str, path: str | None = None) -> None:
        message = clean(message)
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.path = None if path is None else clean(path)


def clean(text: str) -> str:
    """An error's text as it may leave: without secrets, and of bounded length."""
    text = redact(text[: 4 * _LONGEST_MESSAGE])
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


# --- questions -------------------------------------------------------------------------------------------------------


_Count = Annotated[int, Meta(ge=1)]
_Amount = Annotated[int, Meta(ge=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Name = Annotated[str, Meta(min_length=1)]


class _SelectMemory(msgspec.Struct, kw_only=True):
    """A memory for memory_select. Only its schema is used: the policy itself reads memories and says what is wrong."""

    id: Annotated[str | int, Meta(description="Names the memory in the answer.")]
    text: Annotated[str, Meta(min_length=1, description="What the memory says.")]
    content: Annotated[Any, Meta(description="Instead of text; beside timestamp any JSON value, else text.")]
    created_at: Annotated[
        str | None, Meta(description="ISO-8601 with a zone, such as 2026-01-15T12:00:00Z; now where absent.")
    ] = None
    timestamp: Annotated[
        float | None,
        Meta(description="Instead of created_at: seconds since 1970. Id, scope and the like may stand in metadata."),
    ] = None
    importance: _Share = 0.5
    decay_factor: Annotated[float | None, Meta(description="Multiplies importance, beside timestamp.")] = None
    tags: list[str | int] | str | None = None
    scope: Annotated[_Name | None, Meta(description="default where absent.")] = None
    expires_at: Annotated[str | None, Meta(description="ISO-8601 with a zone; never where absent.")] = None
    similarity: Annotated[float | None, Meta(description="Similarity to the query, where one is known.")] = None
    metadata: dict[str, Any] | None = None


class _RankMemory(msgspec.Struct, kw_only=True):
    """A memory for the composite ranking, as MemoryEntry.to_dict writes it. Only its schema is used."""

    content: Annotated[Any, Meta(description="What the memory says: text, or any other JSON value.")]
    timestamp: Annotated[float, Meta(description="When it was made: seconds since 1970.")]
    id: Annotated[str | int | None, Meta(description="Its id where metadata has none; else a hash of both.")] = None
    importance: Annotated[_Share | None, Meta(description="0.5 where absent.")] = None
    decay_factor: Annotated[float | None, Meta(description="Multiplies importance.")] = None
    last_access: Annotated[float | None, Meta(description="Seconds since 1970; now where absent.")] = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    memory_type: str | None = None
    access_count: int | None = None
    original_importance: float | None = None


def _schema(kind: type, **more: Any) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([kind])
    schema = parts[kind.__name__]
    del schema["title"]
    return {**schema, **more}


# Any of these makes a memory; the policy says which one a wrong memory comes closest to.
_FORMS = [{"required": names} for names in (["id", "text"], ["id", "content"], ["content", "timestamp"])]
_OTHERS = "Members that are not listed are ignored."
_SELECT_SCHEMA = _schema(_SelectMemory, required=[], anyOf=_FORMS, description=_OTHERS)
_RANK_SCHEMA = _schema(_RankMemory, description=_OTHERS)


def _setting(text: str, name: str, holder: Any = _SETTINGS) -> str:
    return f"{text} {json.dumps(getattr(holder, name))} where absent."


_Moment = Annotated[
    str | float | None, Meta(description="The time that counts as now: ISO-8601 with a zone, or seconds since 1970.")
]
_Weight = float | None


class SelectQuestion(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What memory_select is asked; null stands for an absent member."""

    query: Annotated[str, Meta(description="What the next turn is about: the user's message or the task at hand.")]
    memories: Annotated[
        list[Annotated[dict[str, Any], Meta(extra_json_schema=_SELECT_SCHEMA)]],
        Meta(description="The candidates, in any order."),
    ]
    max_results: Annotated[
        _Count | None, Meta(description=_setting("Most memories kept.", "max_results"))
    ] = None
    max_tokens: Annotated[
        _Count | None, Meta(description=_setting("Most tokens that the kept memories cost.", "max_tokens"))
    ] = None
    min_relevance: Annotated[
        _Share | None,
        Meta(description=_setting("Share of the query's words that a memory must carry, 0 to 1.", "min_relevance")),
    ] = None
    scope: Annotated[
        _Name | None,
        Meta(description="The one scope whose memories may be seen, such as a user or a tenant. default where absent."),
    ] = None


class SelectRequest(SelectQuestion, kw_only=True, forbid_unknown_fields=True):
    """A memory_select question with every setting of the policy but redaction, which a client cannot turn off."""

    now: _Moment = None
    recency_days: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description=_setting("Age in days at which freshness is one half.", "recency_days")),
    ] = None
    dedupe: Annotated[
        _Share | None,
        Meta(description=_setting("Share of words from which on two memories are one; 0 is never.", "dedupe")),
    ] = None
    guard: Annotated[
        bool | None,
        Meta(description=_setting("Keep both where only a number or a negation differs.", "guard")),
    ] = None
    relevance_weight: Annotated[_Weight, Meta(description=_setting("", "relevance_weight").strip())] = None
    freshness_weight: Annotated[_Weight, Meta(description=_setting("", "freshness_weight").strip())] = None
    importance_weight: Annotated[_Weight, Meta(description=_setting("", "importance_weight").strip())] = None
    similarity_weight: Annotated[_Weight, Meta(description=_setting("", "similarity_weight").strip())] = None
    conflicts: Annotated[
        list[list[str | list[str]]] | None,
        Meta(description="Groups of words of which a memory about one thing names one; each a list of two or more."),
    ] = None


RankMemories = Annotated[
    list[Annotated[dict[str, Any], Meta(extra_json_schema=_RANK_SCHEMA)]],
    Meta(description="The candidates; of equal scores the earlier is the better."),
]
Scores = Annotated[
    dict[str, float] | None,
    Meta(description="Similarity to the query by id (the id 7 is the key 7 as text). 0.5 for an id without one."),
]


class _Ranking(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    top_k: Annotated[_Amount | None, Meta(description=_setting("Most memories kept.", "top_k", _CONFIG))] = None
    token_budget: Annotated[
        _Amount | None,
        Meta(description=_setting("Most tokens that the kept memories cost.", "token_budget", _CONFIG)),
    ] = None
    min_composite_score: Annotated[
        float | None, Meta(description=_setting("Lowest score that is kept.", "min_composite_score", _CONFIG))
    ] = None
    recency_half_life_hours: Annotated[
        float | None,
        Meta(description=_setting("Age at which recency is one half.", "recency_half_life_hours", _CONFIG)),
    ] = None


class RankQuestion(_Ranking, kw_only=True, forbid_unknown_fields=True):
    """What the composite ranking is asked; null stands for an absent member."""

    memories: RankMemories
    scores: Scores = None


class RankSettings(_Ranking, kw_only=True, forbid_unknown_fields=True):
    """The settings of the composite ranking."""

    relevance_weight: Annotated[_Weight, Meta(description=_setting("", "relevance_weight", _CONFIG).strip())] = None
    recency_weight: Annotated[_Weight, Meta(description=_setting("", "recency_weight", _CONFIG).strip())] = None
    importance_weight: Annotated[_Weight, Meta(description=_setting("", "importance_weight", _CONFIG).strip())] = None
    overflow: Annotated[
        Literal["skip", "stop"] | None,
        Meta(description=_setting("At a memory that does not fit: go on, or end there.", "overflow", _CONFIG)),
    ] = None
    clamp_future: Annotated[
        bool | None,
        Meta(description=_setting("Count a timestamp ahead of now as age 0.", "clamp_future", _CONFIG)),
    ] = None
    recency_from: Annotated[
        Literal["created", "accessed"] | None,
        Meta(description=_setting("The time that recency counts from.", "recency_from", _CONFIG)),
    ] = None
    now: _Moment = None


class RankRequest(RankSettings, kw_only=True, forbid_unknown_fields=True):
    """A composite ranking with every setting. The query is not read: relevance comes from the scores alone."""

    memories: RankMemories
    scores: Scores = None
    query: str | None = None


# --- answers ---------------------------------------------------------------------------------------------------------


class SelectedRow(msgspec.Struct):
    """A memory that was kept: its text without secrets, its score, what it costs, and why it was kept."""

    id: str
    text: str
    score: float
    tokens: int
    reasons: list[str]


class DroppedRow(msgspec.Struct):
    """A memory that was left behind, and the one reason."""

    id: str | int
    reason: str


class SelectAnswer(msgspec.Struct):
    """The kept, best first; the dropped but for those of other scopes, of which only the number is told."""

    selected: list[SelectedRow]
    dropped: list[DroppedRow]
    out_of_scope: int
    total_tokens: int


class RankedRow(msgspec.Struct):
    """A memory that was kept, with its scores; a score that is no finite number is null."""

    id: str | int
    rank: int
    score: float | None
    relevance: float | None
    recency: float | None
    importance: float | None
    tokens: int
    content: Any


class RankAnswer(msgspec.Struct):
    """The kept, best first; the dropped, best first, with below_min_score, over_budget or past_top_k as the reason."""

    selected: list[RankedRow]
    dropped: list[DroppedRow]
    total_tokens: int


# --- reading and writing ---------------------------------------------------------------------------------------------

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(kind: type[_Request], data: bytes) -> _Request:
    """A question of that kind out of JSON text.

    Raises:
        Fault: 400; it is no JSON, or has another shape, an unknown member or a value of another type.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    # Once more, slowly: half a surrogate pair is read, and whatever is wrong gets a sentence.
    try:
        value = decoded(data, lambda offset: "the body" if offset is None else f"the body, byte {offset}")
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise misshapen(error) from None
    except InputError as error:
        raise Fault(400, "invalid_json", str(error), "$") from None
    except RecursionError:
        raise Fault(400, "invalid_json", "the body: nested too deeply", "$") from None


def misshapen(error: msgspec.ValidationError) -> Fault:
    """What msgspec found wrong with a request, as the fault that is answered."""
    message = str(error)
    found = _VALIDATION_PATH.search(message)
    path = found[1] if found else "$"
    said = message[: found.start()] if found else message
    unknown = re.match(r"Object contains unknown field `(.*)`$", said, re.DOTALL)
    if unknown:
        path, said = f"{path}.{unknown[1]}", f"{unknown[1]} is no member of this request"
        return Fault(400, "invalid_request", said, path)
    missing = re.match(r"Object missing required field `(\w+)`$", said)
    if missing:
        return Fault(400, "invalid_request", f"{missing[1]} is missing", f"{path}.{missing[1]}")
    return Fault(400, "invalid_request", f"{path[2:] or 'the request'}: {said[:1].lower()}{said[1:]}", path)


def encode(answer: Any) -> bytes:
    """An answer as JSON (RFC 8259): numbers that are not finite are null, half a surrogate pair is its escape."""
    try:
        return msgspec.json.encode(answer)
    except (UnicodeEncodeError, OverflowError):
        # The second: an integer of more than 64 bits, which contents and ids may hold.
        return json.dumps(_finite(msgspec.to_builtins(answer)), allow_nan=False, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# --- answering -------------------------------------------------------------------------------------------------------


def moment(now: str | float | None) -> float:
    """Seconds since 1970 of a request's ``now``; the clock's where it is None."""
    if now is None:
        return time.time()
    if isinstance(now, str):
        return read_instant("now", now) / 1e6
    return float(now)


def select(question: SelectQuestion, most_memories: int | None = None) -> SelectAnswer:
    """The answer of memory_select. Raises Fault."""
    return _answered(_select, question, most_memories)


def rank(question: RankQuestion | RankRequest, most_memories: int | None = None) -> RankAnswer:
    """The answer of the composite selector. Raises Fault."""
    return _answered(_rank, question, most_memories)


def _answered(answer: Callable[[Any], Any], question: Any, most_memories: int | None) -> Any:
    count = len(question.memories)
    if most_memories is not None and count > most_memories:
        raise Fault(413, "too_many_memories", f"memories has {count} rows; at most {most_memories}", "$.memories")
    try:
        return answer(question)
    except InputError as error:
        raise Fault(400, "invalid_request", str(error), path_of(str(error))) from None
    except (OverflowError, ZeroDivisionError) as error:
        raise Fault(400, "invalid_request", str(error), "$") from None
    except RecursionError:
        raise Fault(400, "invalid_request", "a memory is nested too deeply", "$.memories") from None


def path_of(message: str) -> str:
    """The JSON path of what one of the library's messages begins with; ``$`` where it names no member."""
    found = _MEMORY_PATH.match(message)
    if found:
        return f"$.{found[1]}" + (f".{found[2]}" if found[2] else "")
    found = _MEMBER_PATH.match(message)
    return f"$.{found[1]}" if found else "$"


_SELECT_MEMBERS = tuple(name for name in SelectRequest.__struct_fields__ if hasattr(_SETTINGS, name))
_CONFIG_MEMBERS = tuple(field.name for field in fields(SelectionConfig) if field.name != "token_counter")


def _given(question: Any, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(question, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _select(question: SelectQuestion) -> SelectAnswer:
    given = _given(question, _SELECT_MEMBERS)
    now: Any = getattr(question, "now", None)
    if isinstance(now, (int, float)):
        try:
            now = _EPOCH + timedelta(seconds=now)
        except OverflowError:
            raise InputError(f"now is {now!r}; expected a time within the years 1 to 9999") from None
    selection = memory_select(
        question.query,
        question.memories,
        settings=MemorySelectSettings(**given) if given else _SETTINGS,
        scope=question.scope,
        now=now,
    )
    dropped = [DroppedRow(id, reason) for id, reason in selection.dropped if reason != "out_of_scope"]
    return SelectAnswer(
        [SelectedRow(*kept) for kept in selection.selected],
        dropped,
        len(selection.dropped) - len(dropped),
        selection.total_tokens,
    )


def selection_config(settings: Any) -> SelectionConfig:
    """The config that a request's members ask for. Raises InputError."""
    given = _given(settings, _CONFIG_MEMBERS)
    if given.get("recency_half_life_hours") == 0:
        raise InputError("recency_half_life_hours is 0; expected another number of hours")
    try:
        return SelectionConfig(**given)
    except ValueError as error:
        raise InputError(f"relevance_weight, recency_weight and importance_weight: {error}") from None


def _rank(question: RankQuestion | RankRequest) -> RankAnswer:
    config = selection_config(question)
    now = moment(getattr(question, "now", None))
    places = [without_embedding(f"memories[{i}]", memory) for i, memory in enumerate(question.memories)]
    entries = [entry_from(memory, place, now) for place, memory in places]
    scores = question.scores
    by_id = None
    if scores is not None:
        # The keys of a JSON object are text, so the id 7 of a memory finds its score under "7".
        by_id = {entry.id: scores[str(entry.id)] for entry in entries if str(entry.id) in scores}
    audited = MemorySelector(config).audit("", entries, by_id, now=now)
    kept = sorted((memory for memory in audited if memory.rank is not None), key=lambda memory: memory.rank or 0)
    dropped = sorted((memory for memory in audited if memory.rank is None), key=_best_first)
    return RankAnswer(
        [
            RankedRow(
                memory.entry.id,
                number,
                memory.composite_score,
                memory.relevance_score,
                memory.recency_score,
                memory.importance_score,
                memory.tokens or 0,
                redacted(memory.entry.content),
            )
            for number, memory in enumerate(kept, 1)
        ],
        [DroppedRow(memory.entry.id, memory.outcome.name.lower()) for memory in dropped],
        sum(memory.tokens or 0 for memory in kept),
    )


def _best_first(memory: AuditedMemory) -> tuple[bool, float]:
    return (math.isnan(memory.composite_score), -memory.composite_score)


def redacted(content: Any) -> Any:
    """Content without its secrets; of a structure the JSON text is redacted, since a key may say what its value is."""
    if isinstance(content, str):
        return redact(content)
    text = json.dumps(content, ensure_ascii=False)
    hidden = redact(text)
    if hidden == text:
        return content
    try:
        return json.loads(hidden)
    except ValueError:
        return hidden
