"""Reading memories and scores: three shapes of file, and errors that name file, line, field, value and rule."""

from __future__ import annotations

import io
import json

import pytest

from memsel import InputError, MemoryEntry, MemoryType
from memsel.files import entry_from, read_memories, read_scores, shown

A = {"id": "a", "content": "one", "timestamp": 1.5}
B = {"id": "b", "content": "two", "timestamp": 2}
NOW = 1_700_000_000.0


def memories_of(data: bytes | str, name: str = "f.json"):
    raw = data.encode() if isinstance(data, str) else data
    return read_memories(io.BytesIO(raw), name)


def error_of(data: bytes | str) -> str:
    with pytest.raises(InputError) as caught:
        memories_of(data)
    return str(caught.value)


def entry_error(**fields: object) -> str:
    with pytest.raises(InputError) as caught:
        entry_from(dict(fields), "f.json, line 3", NOW)
    return str(caught.value)


# --- shapes


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(A) + "\n" + json.dumps(B) + "\n",
        json.dumps(A) + "\r\n\r\n" + json.dumps(B),
        "\n  \n" + json.dumps(A) + "\n" + json.dumps(B),
        json.dumps([A, B]),
        json.dumps([A, B], indent=2),
        "\n\n" + json.dumps([A, B], indent=2),
        json.dumps({"memories": [A, B]}),
        json.dumps({"memories": [A, B]}, indent=2),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_every_shape_gives_the_same_memories_with_or_without_byte_order_mark(text, mark):
    found = memories_of(mark + text.encode())
    assert [memory for _, memory in found.memories] == [A, B]
    assert found.query is None


def test_the_query_of_an_object_is_read():
    assert memories_of(json.dumps({"memories": [], "query": "q"})).query == "q"


@pytest.mark.parametrize("text", ["", "\n \n", "[]", '{"memories": []}', "\ufeff"])
def test_a_file_may_hold_no_memory(text):
    assert memories_of(text).memories == []


@pytest.mark.parametrize("indent", [None, 2])
def test_one_object_with_content_or_text_is_one_memory(indent):
    for memory in (A, {"id": "a", "text": "one"}):
        assert [found for _, found in memories_of(json.dumps(memory, indent=indent)).memories] == [memory]


def test_places_name_the_line_or_the_position():
    assert [place for place, _ in memories_of(f"\n{json.dumps(A)}\n\n{json.dumps(B)}").memories] == [
        "f.json, line 2",
        "f.json, line 4",
    ]
    assert [place for place, _ in memories_of(json.dumps([A, B])).memories] == ["f.json, [0]", "f.json, [1]"]
    (place, _), *_ = memories_of(json.dumps({"memories": [A]})).memories
    assert place == "f.json, memories[0]"


def test_embeddings_are_not_kept_in_memory():
    (_, memory), *_ = memories_of(json.dumps({**A, "embedding": [0.5] * 8})).memories
    assert memory == A


# --- text that is not such a file


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"query": "q"}', "f.json, line 1: memories is missing; expected an array of memories under that name"),
        ('{\n "query": "q"\n}', "f.json: memories is missing; expected an array of memories under that name"),
        ('{"memories": {"a": 1}}', "f.json, line 1: memories is an object; expected an array"),
        ('{"memories": [], "query": 5}', "f.json, line 1: query is 5; expected text"),
        ('[{"id": "a"}, "b"]', "f.json, [1]: the memory is 'b'; expected an object"),
        (json.dumps(A) + "\n[1]", "f.json, line 2: the memory is an array; expected an object"),
        ("id,content\n", "f.json, line 1: expected JSON Lines, a JSON array or a JSON object of memories"),
        (json.dumps(A) + "\n" + '{"id" 5}', "f.json, line 2, column 7: expected ':'"),
        ('{"id" 5}\n' + json.dumps(A), "f.json, line 1, column 7: expected ':'"),
        ('[\n {"id": "é" 5}\n]', "f.json, line 2, column 13: expected ',' or '}'"),
        ('[{"id": "a"}', "f.json, line 1: the JSON text ends too early"),
        (json.dumps(A) + '\n{"id": NaN}', "f.json, line 2, column 8: NaN and Infinity are no JSON numbers"),
        (json.dumps(A) + '\n{"id": 1e999}', "f.json, line 2: a number is too large"),
        (json.dumps(A) + '\n{"id": ' + "9" * 9000 + "}", "f.json, line 2: a number is too large"),
        (json.dumps(A) + "\n" + '{"id": ' * 200_000, "f.json, line 2: nested too deeply"),
        ("[" * 200_000, "f.json, line 1: nested too deeply"),
        (b'{"id": "\xff"}', "f.json, line 1: not UTF-8 text"),
        (json.dumps([A]).encode("utf-16"), "f.json is UTF-16 text; expected UTF-8"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_line_and_column(data, message):
    assert error_of(data) == message


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ('"x": NaN', "f.json, line 1: NaN and Infinity are no JSON numbers"),
        ('"x": 1e999', "f.json, line 1: a number is too large"),
        ('"x": ' + "9" * 9000, "f.json, line 1: a number is too large"),
        ('"x" 5', "f.json, line 1, column 30: expecting ':' delimiter"),
        ('"x": ' + "[" * 200_000, "f.json, line 1: nested too deeply"),
    ],
)
def test_the_same_is_refused_beside_half_a_surrogate_pair(tail, message):
    assert error_of('{"é": 1, "id": "\\ud83d", ' + tail + "}") == message


def test_half_a_surrogate_pair_is_read_as_it_stands():
    (_, memory), *_ = memories_of(r'{"id": "a", "content": "bad \ud83d half", "timestamp": 1}').memories
    assert memory["content"] == "bad \ud83d half"
    assert entry_from(memory, "", NOW).id == "a"
    del memory["id"]
    assert len(entry_from(memory, "", NOW).id) == 16


# --- entries


def test_an_entry_comes_back_from_its_own_dict():
    entry = MemoryEntry(
        {"input": "x"}, 5.0, MemoryType.SEMANTIC, 0.25, 3, ["t"], {"id": "e", "k": [1]}, None, 7.0, 0.5, 0.75
    )
    written = json.loads(json.dumps({**entry.to_dict(), "original_importance": 0.75}))
    again = entry_from(written, "", NOW)
    assert {**again.to_dict(), "age_seconds": None} == {**entry.to_dict(), "age_seconds": None}
    assert again.original_importance == 0.75


def test_the_id_is_that_of_metadata_then_the_top_level_one_then_a_hash():
    def id_of(**more: object) -> object:
        return entry_from({"content": "x", "timestamp": 1, **more}, "", NOW).id

    assert id_of(id="top", metadata={"id": "inner"}) == "inner"
    assert id_of(id="top", metadata={"other": 1}) == "top"
    assert id_of(id="top") == "top"
    assert id_of(id=7) == 7
    assert id_of() == id_of(id=None) == id_of(metadata={"id": None}) == MemoryEntry("x", 1, MemoryType.SHORT_TERM).id


def test_null_stands_for_an_absent_field():
    memory = dict.fromkeys(
        ("memory_type", "importance", "access_count", "tags", "metadata", "last_access", "decay_factor", "id",
         "original_importance", "embedding")
    )  # fmt: skip
    entry = entry_from({"content": None, "timestamp": 1, **memory}, "", NOW)
    assert (entry.content, entry.memory_type, entry.importance, entry.tags) == (None, MemoryType.SHORT_TERM, 0.5, [])
    assert (entry.access_count, entry.last_access, entry.decay_factor) == (0, NOW, 1.0)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("timestamp", "2026-01-01", "timestamp is '2026-01-01'; expected a number of seconds since the epoch"),
        ("timestamp", True, "timestamp is true; expected a number of seconds since the epoch"),
        ("timestamp", None, "timestamp is missing; expected a number of seconds since the epoch"),
        (
            "timestamp",
            -(10**400),
            "timestamp is -" + "1" + "0" * 55 + "...; expected a number of seconds since the epoch",
        ),
        ("importance", 1.5, "importance is 1.5; expected a number from 0 to 1"),
        ("importance", -1e-9, "importance is -1e-09; expected a number from 0 to 1"),
        ("importance", False, "importance is false; expected a number from 0 to 1"),
        ("memory_type", 3, "memory_type is 3; expected text"),
        ("access_count", 1.0, "access_count is 1.0; expected a whole number"),
        ("tags", "a,b", "tags is 'a,b'; expected an array of texts"),
        ("tags", ["a", 3], "tags is an array; expected an array of texts"),
        ("metadata", [], "metadata is an array; expected an object"),
        ("last_access", "now", "last_access is 'now'; expected a number of seconds since the epoch"),
        ("decay_factor", {}, "decay_factor is an object; expected a number"),
        ("original_importance", "1", "original_importance is '1'; expected a number"),
        ("id", ["a"], "id is an array; expected text or a whole number"),
        ("id", True, "id is true; expected text or a whole number"),
        ("metadata", {"id": 1.5}, "id is 1.5; expected text or a whole number"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_the_rule(field, value, message):
    assert entry_error(**{"content": "x", "timestamp": 1, field: value}) == f"f.json, line 3: {message}"


def test_a_memory_without_content_is_refused():
    assert entry_error(timestamp=1).startswith("f.json, line 3: content is missing")


def test_content_may_be_nested_64_levels_and_no_deeper():
    def nested(levels: int) -> object:
        value: object = "x"
        for level in range(levels):
            value = [value, 1] if level % 2 else {"k": value, "l": 2}
        return value

    (_, found), *_ = memories_of(json.dumps({"content": nested(64)})).memories
    assert found["content"] == nested(64)
    message = error_of(json.dumps([A, {"content": nested(65)}]))
    assert message == "f.json, [1]: content is nested more than 64 levels deep"


def test_a_shown_value_stays_one_short_printable_line():
    for value in ("x" * 10**6, "\x1b[31m\n\u202e", 10**4000, ["x"] * 10**6, {"k": "\n"}, None, 1e300):
        assert shown(value).isprintable()
        assert len(shown(value)) <= 60


# --- scores


def test_scores_are_read_by_id():
    assert read_scores(io.BytesIO(b'\xef\xbb\xbf{"a": 1, "b": 0.25}'), "s.json") == {"a": 1, "b": 0.25}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[1]", "s.json: the scores are an array; expected an object, id to score"),
        (b'{"a": null}', "s.json: the score of 'a' is null; expected a number"),
        (b'{"a": true}', "s.json: the score of 'a' is true; expected a number"),
        (b'{"a": "0.5"}', "s.json: the score of 'a' is '0.5'; expected a number"),
        (b"", "s.json, line 1: nothing here; expected JSON text"),
        (b'{"a": NaN}', "s.json, line 1, column 7: NaN and Infinity are no JSON numbers"),
        (b"\xff\xfe{\x00", "s.json is UTF-16 text; expected UTF-8"),
    ],
)
def test_wrong_scores_are_refused_with_the_id(data, message):
    with pytest.raises(InputError) as caught:
        read_scores(io.BytesIO(data), "s.json")
    assert str(caught.value) == message
