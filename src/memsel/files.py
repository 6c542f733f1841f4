"""Memories and scores out of JSON files, with errors that say where in the file something is wrong.

Three shapes are read: JSON Lines (one memory a line), a JSON array of memories, and one object with ``memories`` and
perhaps ``query``. Lines are decoded as they come, so a long file never lies in memory as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import msgspec

from .entry import MemoryEntry
from .errors import InputError
from .policy import redact

__all__ = ["MemoryFile", "entry_from", "read_memories", "read_scores", "shown", "without_embedding"]

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_OFFSET = re.compile(r" \(byte (\d+)\)$")
_NO_CONSTANT = "NaN and Infinity are no JSON numbers"
_TOO_LARGE = "a number is too large"
# The bound keeps every later walk over a content (str, JSON output) far from Python's own limit.
_MAX_DEPTH = 64


@dataclass
class MemoryFile:
    """What a file holds: each memory with the place it stands at, and the query beside them, if any."""

    memories: list[tuple[str, dict[str, Any]]]
    query: str | None = None


def shown(value: Any) -> str:
    """A JSON value as an error message shows it: one short line, control characters escaped, secrets taken out."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        if len(value) > 200:
            return f"a text of {len(value)} characters"
        value = redact(value)
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- JSON ---------------------------------------------------------------------------------------------------------


def decoded(data: bytes, place: Callable[[int | None], str]) -> Any:
    """The value of one JSON text; ``place`` names a byte of it (None: the text as a whole).

    Lone surrogates in ``\\u`` escapes are read as they are; NaN, Infinity and numbers beyond float64 are refused.

    Raises:
        InputError: the text is not JSON, not UTF-8, nested beyond what the interpreter bears, or holds such a number.
    """
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise InputError(f"{place(None)}: nested too deeply") from None
    except msgspec.DecodeError as error:
        if not _SURROGATE_ESCAPE.search(data):
            _raise_json_error(str(error), data, place)
    # msgspec refuses half a surrogate pair, which real exports hold; the standard library reads it.
    try:
        return json.loads(data, parse_constant=_refuse_constant, parse_float=_finite_float)
    except RecursionError:
        raise InputError(f"{place(None)}: nested too deeply") from None
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        raise InputError(f"{place(offset)}: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except UnicodeDecodeError:
        raise InputError(f"{place(None)}: not UTF-8 text") from None
    except ValueError as error:
        reason = str(error) if error.args[0] in (_NO_CONSTANT, _TOO_LARGE) else _TOO_LARGE
        raise InputError(f"{place(None)}: {reason}") from None


def _refuse_constant(_word: str) -> NoReturn:
    raise ValueError(_NO_CONSTANT)


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(_TOO_LARGE)
    return number


def _raise_json_error(message: str, data: bytes, place: Callable[[int | None], str]) -> NoReturn:
    found = _OFFSET.search(message)
    offset = int(found[1]) if found else None
    reason = _OFFSET.sub("", message).removeprefix("JSON is malformed: ")
    if offset is not None and data[offset : offset + 1] in (b"N", b"I"):
        reason = _NO_CONSTANT
    elif reason == "Input data was truncated":
        reason = "the JSON text ends too early" if data.strip() else "nothing here; expected JSON text"
    elif reason == "Invalid UTF-8 encoded string":
        reason = "not UTF-8 text"
    elif "out of range" in reason:
        reason = _TOO_LARGE
    raise InputError(f"{place(offset)}: {reason}") from None


def _place_in(name: str, data: bytes, first_line: int = 1) -> Callable[[int | None], str]:
    """Names line and column of a byte of ``data``, which starts at ``first_line`` of the file."""

    def place(offset: int | None) -> str:
        if offset is None:
            return f"{name}, line {first_line}" if first_line > 1 or data.count(b"\n") <= 1 else name
        line_start = data.rfind(b"\n", 0, offset) + 1
        column = len(data[line_start:offset].decode("utf-8", "replace")) + 1
        line = first_line + data.count(b"\n", 0, offset)
        return f"{name}, line {line}, column {column}"

    return place


# --- memories -----------------------------------------------------------------------------------------------------


def read_memories(stream: BinaryIO, name: str) -> MemoryFile:
    """The memories of a file, as the mappings they are written as; a byte order mark is skipped.

    ``embedding`` is left out of each memory: no selection reads it, and it is most of a file that has it.

    Raises:
        InputError: the file is none of the three shapes; the message names file and line.
    """
    number, first = 0, b""
    for number, line in enumerate(stream, 1):
        if number == 1:
            if line.startswith(_UTF16_BOMS):
                raise InputError(f"{name} is UTF-16 text; expected UTF-8")
            line = line.removeprefix(_BOM)
        first = line
        if first.strip():
            break
    if not first.strip():
        return MemoryFile([])
    start = first.lstrip()[:1]
    if start == b"[":
        data = first + stream.read()
        return _from_array(decoded(data, _place_in(name, data, number)), name)
    if start != b"{":
        raise InputError(f"{name}, line {number}: expected JSON Lines, a JSON array or a JSON object of memories")
    try:
        document = decoded(first, _place_in(name, first, number))
    except InputError:
        # Either the first line of a document written over several lines, or a broken line of JSON Lines.
        if first.rstrip().endswith(b"}"):
            raise
        data = first + stream.read()
        return _from_object(decoded(data, _place_in(name, data, number)), name, name)
    return _from_lines(document, stream, name, number)


def _from_lines(first: dict[str, Any], stream: BinaryIO, name: str, number: int) -> MemoryFile:
    rest = _memories_of_lines(stream, name, number)
    second = next(rest, None)
    place = f"{name}, line {number}"
    if second is None:
        return _from_object(first, name, place)
    return MemoryFile([without_embedding(place, first), second, *rest])


def _memories_of_lines(stream: BinaryIO, name: str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for line_number, line in enumerate(stream, number + 1):
        if line.strip():
            memory = decoded(line, _place_in(name, line, line_number))
            yield without_embedding(f"{name}, line {line_number}", memory)


def _from_array(memories: list[Any], name: str, member: str = "") -> MemoryFile:
    return MemoryFile([without_embedding(f"{name}, {member}[{i}]", memory) for i, memory in enumerate(memories)])


def _from_object(document: dict[str, Any], name: str, place: str) -> MemoryFile:
    if "memories" not in document:
        if "content" in document or "text" in document:
            return MemoryFile([without_embedding(place, document)])
        raise InputError(f"{place}: memories is missing; expected an array of memories under that name")
    memories = document["memories"]
    if not isinstance(memories, list):
        raise InputError(f"{place}: memories is {shown(memories)}; expected an array")
    query = document.get("query")
    if query is not None and not isinstance(query, str):
        raise InputError(f"{place}: query is {shown(query)}; expected text")
    result = _from_array(memories, name, "memories")
    result.query = query
    return result


def without_embedding(place: str, memory: Any) -> tuple[str, dict[str, Any]]:
    """The memory beside its place, its ``embedding`` taken out. InputError: no object, or its content is too deep."""
    if not isinstance(memory, dict):
        raise InputError(f"{place}: the memory is {shown(memory)}; expected an object")
    memory.pop("embedding", None)
    content = memory.get("content")
    if isinstance(content, (dict, list)) and _deeper_than(content, _MAX_DEPTH):
        raise InputError(f"{place}: content is nested more than {_MAX_DEPTH} levels deep")
    return place, memory


def _deeper_than(value: Any, levels: int) -> bool:
    layer: list[Any] = [value]
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not layer:
            return False
    return True


# --- entries ------------------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_OPTIONAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "memory_type": (_is_text, "text"),
    "importance": (_is_share, "a number from 0 to 1"),
    "access_count": (_is_count, "a whole number"),
    "tags": (_is_texts, "an array of texts"),
    "metadata": (_is_object, "an object"),
    "last_access": (_is_number, "a number of seconds since the epoch"),
    "decay_factor": (_is_number, "a number"),
    "original_importance": (_is_number, "a number"),
}


def entry_from(memory: dict[str, Any], place: str, now: float) -> MemoryEntry:
    """An entry from a mapping in the form of ``MemoryEntry.to_dict``, every field of it checked.

    Beside what ``MemoryEntry.from_dict`` does: a top-level ``id`` is the entry's id where ``metadata`` has none, null
    stands for an absent field, and an absent ``last_access`` is ``now``, in seconds since the epoch.

    Raises:
        InputError: a field is missing or no such value; the message names ``place``, field, value and what is wanted.
    """
    if "content" not in memory:
        raise InputError(f"{place}: content is missing; the composite policy reads content and timestamp")
    fields: dict[str, Any] = {"content": memory["content"], "timestamp": memory.get("timestamp"), "last_access": now}
    if fields["timestamp"] is None:
        raise InputError(f"{place}: timestamp is missing; expected a number of seconds since the epoch")
    if not _is_number(fields["timestamp"]):
        raise InputError(
            f"{place}: timestamp is {shown(fields['timestamp'])}; expected a number of seconds since the epoch"
        )
    for name, (fits, wanted) in _OPTIONAL.items():
        value = memory.get(name)
        if value is None:
            continue
        if not fits(value):
            raise InputError(f"{place}: {name} is {shown(value)}; expected {wanted}")
        fields[name] = value
    metadata = fields.setdefault("metadata", {})
    if metadata.get("id") is None:
        # from_dict takes a null id for an id; here it stands for none.
        metadata.pop("id", None)
        if memory.get("id") is not None:
            metadata["id"] = memory["id"]
    entry_id = metadata.get("id", "")
    if not (_is_text(entry_id) or _is_count(entry_id)):
        raise InputError(f"{place}: id is {shown(entry_id)}; expected text or a whole number")
    return MemoryEntry.from_dict(fields)


# --- scores -------------------------------------------------------------------------------------------------------


def read_scores(stream: BinaryIO, name: str) -> dict[str, float]:
    """Similarity scores out of one JSON object, id to number.

    Raises:
        InputError: the file is no such object; the message names the id whose score is no number.
    """
    data = stream.read()
    if data.startswith(_UTF16_BOMS):
        raise InputError(f"{name} is UTF-16 text; expected UTF-8")
    data = data.removeprefix(_BOM)
    scores = decoded(data, _place_in(name, data))
    if not isinstance(scores, dict):
        raise InputError(f"{name}: the scores are {shown(scores)}; expected an object, id to score")
    for key, score in scores.items():
        if not _is_number(score):
            raise InputError(f"{name}: the score of {shown(key)} is {shown(score)}; expected a number")
    return scores
