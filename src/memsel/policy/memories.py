"""One memory of a caller's, in any of its shapes, read into what the decisions need, or an InputError that names it.

The ranking reads plain dicts by itself and hands over whatever is unusual or wrong, so this reader decides every doubt
and words every complaint. `Memory` is the shape of a memory in JSON, for typed decoding.
"""

import datetime
import json
import math
import numbers
import operator
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from memsel.errors import InputError
from memsel.policy._rank import instant_from_text
from memsel.policy.faults import shown

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
# The first and the last second of the calendar that dates have.
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799

Checked = tuple[str, str, int, float, tuple[str, ...], str, int | None, float | None]


class Memory(msgspec.Struct, kw_only=True):
    """A memory as JSON carries it: a mapping with `id` and `text` or `content`, or an entry with `timestamp`."""

    id: str | int | None = None
    text: str | None = None
    content: Any = None
    created_at: str | None = None
    importance: float = 0.5
    tags: list[str | int] | str | None = None
    scope: str | None = None
    expires_at: str | None = None
    similarity: float | None = None
    timestamp: float | None = None
    effective_importance: float | None = None
    decay_factor: float = 1.0
    metadata: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(list[Memory])


def decode_memories(data: bytes | str) -> list[Any]:
    """The memories in a JSON array, ready for `memory_select`; InputError when it is none or a memory is malformed.

    data: JSON text, or its UTF-8 bytes with or without a byte order mark. Members that are unknown are skipped.
    """
    if isinstance(data, bytes):
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # The plain decoder says where a syntax error stands and reads half surrogate pairs; the reader names the rest.
        try:
            memories = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the memories are no JSON: {error}") from None
    if not isinstance(memories, list):
        raise InputError(f"the memories are {shown(memories)}; expected a JSON array")
    for position, memory in enumerate(memories):
        read_memory(position, memory, 0)
    return memories


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def read_instant(where: str, value: object) -> int:
    """Microseconds since 1970 of an aware datetime or an ISO-8601 text with its zone; InputError otherwise."""
    if isinstance(value, datetime.datetime):
        try:
            offset = value.utcoffset()
        except Exception as error:
            raise InputError(f"{where} has a time zone that cannot be asked for its offset: {error}") from error
        if offset is None:
            raise InputError(f"{where} is {value.isoformat()}, without a time zone; expected an aware datetime")
        return (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND - offset // _MICROSECOND
    if isinstance(value, str):
        instant = instant_from_text(str(value))
        if instant is False:
            raise InputError(f"{where} is {shown(value)}, without a time zone; expected one, such as Z or +02:00")
        if instant is None:
            raise InputError(f"{where} is {shown(value)}; expected ISO-8601, such as 2026-01-15T12:00:00Z")
        return int(instant)
    if isinstance(value, numbers.Number) and not isinstance(value, bool):
        raise InputError(
            f"{where} is {shown(value)}, a number, which may be seconds or milliseconds;"
            " expected an ISO-8601 text or a datetime"
        )
    raise InputError(f"{where} is {shown(value)}; expected an ISO-8601 text or a datetime")


def read_memory(position: int, memory: Any, now: int) -> Checked:
    """Id, text, created, importance, tags, scope, expires and similarity of one memory; instants in microseconds."""
    where = f"memories[{position}]"
    if isinstance(memory, Memory):
        memory = msgspec.structs.asdict(memory)
    if isinstance(memory, Mapping):
        if memory.get("timestamp") is not None:
            return _read_entry(where, memory.get, memory.get)
        return _read_mapping(where, memory.get, now, "importance" in memory)
    if hasattr(memory, "content") and hasattr(memory, "timestamp"):
        return _read_entry(where, lambda name: getattr(memory, name, None), lambda name: None)
    raise InputError(f"{where} is {shown(memory)}; expected a mapping with id and text, or a MemoryEntry")


def _read_mapping(where: str, get: Any, now: int, has_importance: bool) -> Checked:
    id = _read_id(where, get("id"))
    where = f"{where} (id {id!r})"
    field, text = "text", get("text")
    if text is None:
        text = get("content")
        field = "text" if text is None else "content"
    if not isinstance(text, str) or not text:
        raise _refusal(where, field, text, "a text that is not empty")
    created = get("created_at")
    importance = 0.5
    if has_importance:
        importance = _number(where, "importance", get("importance"), "a number from 0 to 1")
        if not 0 <= importance <= 1:
            raise _refusal(where, "importance", get("importance"), "a number from 0 to 1")
    return (
        id,
        str(text),
        now if created is None else read_instant(f"{where}: created_at", created),
        importance,
        _read_tags(where, get("tags")),
        _read_scope(where, get("scope")),
        _read_expiry(where, get("expires_at")),
        _read_similarity(where, get("similarity")),
    )


def _read_entry(where: str, get: Any, get_outer: Any) -> Checked:
    """Read an entry by the names of its attributes; what memory_select adds stands in its metadata.

    A mapping may hold these additions beside the entry's own members too: a scope must not be lost for standing there.
    """
    metadata = get("metadata")
    if metadata is None:
        metadata = {}
    id = get("id")
    if id is None and isinstance(metadata, Mapping):
        id = metadata.get("id")
    id = _read_id(where, id)
    where = f"{where} (id {id!r})"
    if not isinstance(metadata, Mapping):
        raise _refusal(where, "metadata", metadata, "a mapping")

    def added(name: str) -> Any:
        value = get_outer(name)
        return metadata.get(name) if value is None else value

    content = get("content")
    if content is None and isinstance(get_outer("text"), str):
        content = get_outer("text")
    try:
        text = str(content)
    except Exception as error:
        raise InputError(f"{where}: content cannot be turned into text: {type(error).__name__}") from error
    if not text:
        raise _refusal(where, "content", text, "a content whose text is not empty")
    seconds = _number(where, "timestamp", get("timestamp"), "seconds since 1970")
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise _refusal(where, "timestamp", get("timestamp"), "seconds since 1970, within the years 1 to 9999")
    fraction, whole = math.modf(seconds)
    importance = get("effective_importance")
    if importance is None:
        importance = get("importance")
        importance = 0.5 if importance is None else _number(where, "importance", importance, "a number")
        decay = get("decay_factor")
        importance *= 1.0 if decay is None else _number(where, "decay_factor", decay, "a number")
    else:
        importance = _number(where, "effective_importance", importance, "a number")
    return (
        id,
        text,
        int(whole) * 1_000_000 + round(fraction * 1e6),
        min(1.0, max(0.0, importance)),
        _read_tags(where, get("tags")),
        _read_scope(where, added("scope")),
        _read_expiry(where, added("expires_at")),
        _read_similarity(where, added("similarity")),
    )


def _read_id(where: str, value: object) -> str:
    if isinstance(value, str):
        if value:
            return str(value)
    elif value is not None and not isinstance(value, bool):
        try:
            return str(operator.index(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):  # no integer, or one too long to be written
            pass
    raise _refusal(where, "id", value, "a text that is not empty, or an integer")


def _number(where: str, field: str, value: object, wanted: str) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise _refusal(where, field, value, wanted)


def _read_tags(where: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (str(value),)
    if isinstance(value, list | tuple | set | frozenset):
        tags = []
        for tag in value:
            if isinstance(tag, bool) or not isinstance(tag, str | int):
                raise _refusal(where, "tags", tag, "texts", "holds")
            tags.append(str(tag))
        return tuple(tags)
    raise _refusal(where, "tags", value, "a list of texts")


def _read_scope(where: str, value: object) -> str:
    return "default" if value is None else read_scope(f"{where}: scope", value)


def read_scope(where: str, value: object) -> str:
    """A scope that was given; an empty one or another thing than text must not fall back to the one all share."""
    if isinstance(value, str) and value:
        return str(value)
    raise InputError(f"{where} is {shown(value)}; expected a text that is not empty")


def _read_expiry(where: str, value: object) -> int | None:
    return None if value is None else read_instant(f"{where}: expires_at", value)


def _read_similarity(where: str, value: object) -> float | None:
    return None if value is None else _number(where, "similarity", value, "a finite number")


def _refusal(where: str, field: str, value: object, wanted: str, verb: str = "is") -> InputError:
    got = "missing" if value is None and field in ("id", "text") else shown(value)
    return InputError(f"{where}: {field} {verb} {got}; expected {wanted}")
