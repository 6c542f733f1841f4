# ruff: noqa: RUF001 - look-alike characters are among the inputs
"""Memories in all their shapes, the dates they carry, and the errors that name what is wrong with one."""

import collections
import dataclasses
import datetime
import fractions
import itertools
import json
import types
from typing import Any

import numpy as np
import pytest

from memsel.errors import InputError
from memsel.policy import memory_select
from memsel.policy.memories import Memory, decode_memories, read_instant

NOW = datetime.datetime(2026, 1, 15, 12, tzinfo=datetime.UTC)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def select(memories, query="", **settings):
    return memory_select(query, memories, settings={"min_relevance": 0, "redact": False, **settings}, now=NOW)


def instant(text):
    return EPOCH + datetime.timedelta(microseconds=read_instant("created_at", text))


@dataclasses.dataclass
class Entry:
    """An entry by shape alone."""

    content: Any
    timestamp: Any = NOW.timestamp() - 86400
    effective_importance: Any = 0.5
    tags: Any = ()
    metadata: Any = None
    id: Any = "e"


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-01-15T12:00:00Z", 0),
        ("2026-01-15t12:00:00z", 0),
        ("2026-01-15 12:00:00Z", 0),
        ("2026-01-15T12:00:00.1Z", 100000),
        ("2026-01-15T12:00:00.12Z", 120000),
        ("2026-01-15T12:00:00.1234567Z", 123456),
        ("2026-01-15T12:00:00,5Z", 500000),
        ("20260115T120000Z", 0),
        ("20260115T1200Z", 0),
        ("2026-01-15T120000Z", 0),
        ("2026-W03-4T12:00:00Z", 0),
        ("2026W034T12Z", 0),
        ("2026-01-15T12:00:00+00:00", 0),
        ("2026-01-15T12:00:00-00:00", 0),
        ("2026-01-15T17:30:00+05:30", 0),
        ("2026-01-15T17:30:00+0530", 0),
        ("2026-01-15T17:00:00+05", 0),
        ("2026-01-15T07:00:00-05:00", 0),
        ("2026-01-15T12:00:01+00:00:01", 0),
        ("2026-01-15T12:00:01+00:00:01.5", -500000),
        ("2026-01-15T12:00Z", 0),
    ],
)
def test_an_iso_text_names_its_instant(text, micros):
    assert instant(text) == NOW + datetime.timedelta(microseconds=micros)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-15T23:59:60Z",
        "2026-01-15T24:00:00Z",
        "2026-01-15T12:00:00 Z",
        "2026-01-15T12:00:00.Z",
        "2026-01-15T12345678Z",
        "2026-01-15T120000.5Z",
        "2026-01-15T12:00:00Z\n",
        "2026-01-15T12:00:00Z\0",
        " 2026-01-15T12:00:00Z",
        "2026-01-15T12:00:00+00:00Z",
        "2026-01-15T12:00:00ZZ",
        "2026-01-15X12:00:00Z",
        "2026-01-15T12:0:00Z",
        "2026-01-15T12:0000Z",
        "2026-01-15T1200:00Z",
        "2026-01-15T12:00:00+5:00",
        "2026-01-15T12:00:00+24:00",
        "2026-01-15T12:00:00+05:60",
        "2026-01-15T12:60:00Z",
        "2026-01-15Z",
        "2026-015T12:00:00Z",
        "2026-0115T12:00:00Z",
        "2026-1-15T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2026-W54-1T12:00:00Z",
        "2025-W53-1T12:00:00Z",
        "2026-W00-1T12:00:00Z",
        "2026-W03-8T12:00:00Z",
        "10000-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "-001-01-01T00:00:00Z",
        "２０２６-01-15T12:00:00Z",
        "1768478400",
        "",
        "Z",
        "yesterday",
    ],
)
def test_a_text_that_is_no_iso_date_is_refused_by_field(text):
    for field in ("created_at", "expires_at"):
        with pytest.raises(InputError, match=rf"memories\[0\] \(id 'a'\): {field} is .*; expected ISO-8601, such as"):
            select([{"id": "a", "text": "x", field: text}])
    with pytest.raises(InputError, match=r"^now is "):
        memory_select("q", [], now=text)


@pytest.mark.parametrize(
    "value",
    ["2026-01-15", "2026-01-15T12:00:00", "20260115", "2026-W03", "2026-W03-4", datetime.datetime(2026, 1, 15)],
)
def test_a_date_without_a_zone_is_refused_by_field(value):
    for field in ("created_at", "expires_at"):
        with pytest.raises(InputError, match=rf"memories\[0\] \(id 'a'\): {field} is .*without a time zone; expected"):
            select([{"id": "a", "text": "x", field: value}])
    with pytest.raises(InputError, match=r"^now is .*without a time zone"):
        memory_select("q", [], now=value)


@pytest.mark.parametrize("value", [1768478400, 1768478400.0, np.int64(1768478400), fractions.Fraction(1)])
def test_a_number_is_no_date(value):
    for field in ("created_at", "expires_at"):
        with pytest.raises(InputError, match=rf"{field} is .* a number, which may be seconds or milliseconds"):
            select([{"id": "a", "text": "x", field: value}])
    with pytest.raises(InputError, match=r"^now is .* may be seconds or milliseconds"):
        memory_select("q", [], now=value)


@pytest.mark.parametrize("value", [True, b"2026", datetime.date(2026, 1, 15), [], {}])
def test_other_things_are_no_dates(value):
    with pytest.raises(InputError, match=r"created_at is .*; expected an ISO-8601 text or a datetime"):
        select([{"id": "a", "text": "x", "created_at": value}])


def test_days_and_weeks_of_the_whole_calendar_agree_with_datetime():
    for day in itertools.chain(range(1, 4000), range(1, 3652059, 307), range(3651000, 3652060)):
        date = datetime.date.fromordinal(day)
        expected = datetime.datetime(date.year, date.month, date.day, tzinfo=datetime.UTC)
        assert instant(f"{date.isoformat()}T00:00:00Z") == expected
        year, week, weekday = date.isocalendar()
        if 1 <= year <= 9999:
            assert instant(f"{year:04}-W{week:02}-{weekday}T00:00:00Z") == expected


def test_two_spellings_of_one_instant_score_alike():
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    spellings = [
        "2026-01-14T17:30:00+05:30",
        "2026-01-14T12:00:00Z",
        datetime.datetime(2026, 1, 14, 17, 30, tzinfo=zone),
    ]
    memories = [{"id": str(i), "text": f"text {i}", "created_at": spelling} for i, spelling in enumerate(spellings)]
    answer = select(memories)
    assert [one.id for one in answer.selected] == ["0", "1", "2"]
    assert {one.score for one in answer.selected} == {0.385509}


class Subclass(datetime.datetime):
    pass


def test_datetimes_of_other_classes_and_zones_are_read():
    for created in (Subclass(2026, 1, 14, 12, tzinfo=datetime.UTC), Subclass(2026, 1, 14, 13, tzinfo=Zone())):
        assert select([{"id": "a", "text": "x", "created_at": created}]).selected[0].score == 0.385509


class Zone(datetime.tzinfo):
    def utcoffset(self, when):
        return datetime.timedelta(hours=1)


class BrokenZone(datetime.tzinfo):
    def utcoffset(self, when):
        raise RuntimeError("no offset")


def test_a_zone_that_fails_is_named():
    with pytest.raises(InputError, match="created_at has a time zone that cannot be asked"):
        select([{"id": "a", "text": "x", "created_at": NOW.replace(tzinfo=BrokenZone())}])


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("foo", "'foo'; expected a mapping with id and text, or a MemoryEntry"),
        (None, "None; expected a mapping"),
        (5, "5; expected a mapping"),
        ([], "of type list; expected a mapping"),
        ({}, "id is missing; expected a text that is not empty, or an integer"),
        ({"id": "", "text": "x"}, "id is ''; expected"),
        ({"id": False, "text": "x"}, "id is False; expected"),
        ({"id": 1.0, "text": "x"}, "id is 1.0; expected"),
        ({"id": None, "text": "x"}, "id is missing; expected"),
        ({"id": "a"}, "text is missing; expected a text that is not empty"),
        ({"id": "a", "text": ""}, "text is ''; expected a text that is not empty"),
        ({"id": "a", "content": ""}, "content is ''; expected a text that is not empty"),
        ({"id": "a", "text": 5}, "text is 5; expected"),
        ({"id": "a", "text": b"x"}, "text is of type bytes; expected"),
        ({"id": "a", "text": "x", "importance": None}, "importance is None; expected a number from 0 to 1"),
        ({"id": "a", "text": "x", "importance": float("nan")}, "importance is nan; expected a number from 0 to 1"),
        ({"id": "a", "text": "x", "importance": float("inf")}, "importance is inf; expected"),
        ({"id": "a", "text": "x", "importance": 1.1}, "importance is 1.1; expected"),
        ({"id": "a", "text": "x", "importance": 2}, "importance is 2; expected"),
        ({"id": "a", "text": "x", "importance": -(10**400)}, "importance is of type int; expected"),
        ({"id": "a", "text": "x", "importance": True}, "importance is True; expected"),
        ({"id": "a", "text": "x", "importance": "0.5"}, "importance is '0.5'; expected"),
        ({"id": "a", "text": "x", "tags": 5}, "tags is 5; expected a list of texts"),
        ({"id": "a", "text": "x", "tags": {"k": 1}}, "tags is of type dict; expected a list of texts"),
        ({"id": "a", "text": "x", "tags": [None]}, "tags holds None; expected texts"),
        ({"id": "a", "text": "x", "similarity": float("nan")}, "similarity is nan; expected a finite number"),
        ({"id": "a", "text": "x", "similarity": "high"}, "similarity is 'high'; expected a finite number"),
        ({"id": "a", "text": "x" * 201, "scope": "s" * 0}, "scope is ''; expected"),
        (
            {"id": "a", "content": "x", "timestamp": "2026-01-15T12:00:00Z"},
            "timestamp is '2026.*; expected seconds since 1970",
        ),
        ({"id": "a", "content": "x", "timestamp": float("nan")}, "timestamp is nan; expected seconds"),
        ({"id": "a", "content": "x", "timestamp": 1768478400000}, "within the years 1 to 9999"),
        ({"id": "a", "content": "", "timestamp": 1.0}, "content is ''; expected a content whose text is not empty"),
        ({"content": "x", "timestamp": 1.0}, "id is missing; expected"),
        ({"id": "a", "content": "x", "timestamp": 1.0, "metadata": 5}, "metadata is 5; expected a mapping"),
        ({"id": "a", "content": "x", "timestamp": 1.0, "metadata": {"scope": ""}}, "scope is ''; expected"),
        ({"id": "a", "content": "x", "timestamp": 1.0, "metadata": {"expires_at": 5}}, "expires_at is 5, a number"),
    ],
)
def test_a_malformed_memory_is_named_by_place_id_and_field(memory, message):
    id = memory.get("id") if isinstance(memory, dict) else None
    place = r"memories\[1\] \(id 'a'\): " if id == "a" else r"memories\[1\]:? "
    with pytest.raises(InputError, match=rf"^{place}.*{message}"):
        select([{"id": "fine", "text": "x"}, memory])
    assert issubclass(InputError, ValueError)


def test_integer_ids_are_taken_as_their_text():
    answer = select(
        [{"id": 0, "text": "zero"}, {"id": 7, "text": "x"}, {"id": "7", "text": "y"}, {"id": np.int64(8), "text": "z"}]
    )
    assert [one.id for one in answer.selected] == ["0", "7", "8"]
    assert answer.dropped == [("7", "duplicate_input")]


def test_tags_may_be_one_text_or_a_collection_of_texts():
    for tags, share in [
        ("a,b", "0.00"),
        ("paris", "1.00"),
        (["Paris", 3], "1.00"),
        ({"paris"}, "1.00"),
        (None, "0.00"),
    ]:
        answer = select([{"id": "a", "text": "x y", "tags": tags}], "paris")
        assert answer.selected[0].reasons[0] == f"relevance={share}"
    assert select([{"id": "a", "text": "x y", "tags": [3]}], "3").selected[0].reasons[0] == "relevance=1.00"


def test_defaults_and_unknown_members():
    answer = select([{"id": "a", "content": "some text", "colour": "red", 5: object(), "metadata": 5}])
    assert answer.selected[0].reasons == ["relevance=0.00", "recency=1.00", "importance=0.50"]
    assert answer.selected[0].text == "some text"
    both = select(
        [{"id": "a", "text": "the text", "content": "the content"}, {"id": "b", "text": None, "content": "c1"}]
    )
    assert [one.text for one in both.selected] == ["the text", "c1"]


def test_mappings_of_every_class_are_read_alike():
    members = {
        "id": "a",
        "text": "alpha beta",
        "created_at": "2026-01-14T12:00:00Z",
        "importance": 1,
        "tags": ["gamma"],
    }
    expected = select([members], "gamma").to_dict()
    for other in (
        types.MappingProxyType(members),
        collections.OrderedDict(members),
        collections.ChainMap({}, members),
        collections.UserDict(members),
        Memory(**members),
    ):
        assert select([other], "gamma").to_dict() == expected
    assert select(iter([members]), "gamma").to_dict() == expected
    assert select((members,), "gamma").to_dict() == expected


def test_values_of_str_and_float_subclasses_are_read_alike():
    class Text(str):
        __slots__ = ()

    members = {"id": Text("a"), "text": Text("alpha"), "importance": np.float64(0.5), "scope": Text("default")}
    answer = select(
        [{**members, "similarity": 1, "tags": [Text("beta")], "created_at": Text("2026-01-14T12:00:00Z")}], "beta"
    )
    assert answer.selected[0].reasons == ["relevance=1.00", "recency=0.95", "importance=0.50", "similarity=1.00"]
    assert type(answer.selected[0].id) is str
    assert type(answer.selected[0].text) is str


@pytest.mark.parametrize("memories", ["text", b"bytes", {"id": "a", "text": "x"}, None, 5])
def test_memories_are_an_iterable_of_memories(memories):
    with pytest.raises(InputError, match=r"^memories is of type .*; expected a list of memories"):
        memory_select("q", memories)


@pytest.mark.parametrize("query", [None, 5, b"q", ["q"]])
def test_a_query_is_a_text(query):
    with pytest.raises(InputError, match=r"^query is of type .*; expected a text"):
        memory_select(query, [])


ENTRIES = [
    (Entry("alpha beta"), "0.50", None),
    (Entry("alpha beta", effective_importance=1.5), "1.00", None),
    (Entry("alpha beta", effective_importance=-3), "0.00", None),
    (Entry("alpha beta", tags=["x1"], metadata={"similarity": 0.25}), "0.50", "similarity=0.25"),
    (Entry("alpha beta", timestamp=int(NOW.timestamp()) - 86400), "0.50", None),
    ({"id": "e", "content": "alpha beta", "timestamp": NOW.timestamp() - 86400, "metadata": {}}, "0.50", None),
    (
        {
            "id": "e",
            "content": "alpha beta",
            "timestamp": NOW.timestamp() - 86400,
            "importance": 0.8,
            "decay_factor": 0.5,
        },
        "0.40",
        None,
    ),
    (
        {
            "content": "alpha beta",
            "timestamp": NOW.timestamp() - 86400,
            "effective_importance": 0.25,
            "metadata": {"id": "e"},
        },
        "0.25",
        None,
    ),
    (
        {"id": "e", "content": "alpha beta", "timestamp": NOW.timestamp() - 86400, "similarity": 0.5, "metadata": None},
        "0.50",
        "similarity=0.50",
    ),
    (Memory(id="e", content="alpha beta", timestamp=NOW.timestamp() - 86400, importance=0.25), "0.25", None),
]


@pytest.mark.parametrize(("entry", "importance", "similarity"), ENTRIES)
def test_an_entry_reads_by_its_attributes_and_metadata(entry, importance, similarity):
    (one,) = select([entry]).selected
    expected = ["relevance=0.00", "recency=0.95", f"importance={importance}"] + ([similarity] if similarity else [])
    assert (one.id, one.text, one.reasons) == ("e", "alpha beta", expected)


def test_the_metadata_of_an_entry_holds_its_scope_and_expiry():
    entry = Entry("alpha", metadata={"scope": "team", "expires_at": NOW})
    assert select([entry]).dropped == [("e", "out_of_scope")]
    assert memory_select("", [entry], scope="team", now=NOW).dropped == [("e", "expired")]
    mapping = {"id": "e", "content": "x", "timestamp": 1.0, "scope": "team"}
    assert select([mapping]).dropped == [("e", "out_of_scope")]


def test_the_content_of_an_entry_is_read_as_its_text():
    for content, text in [({"a": 1}, "{'a': 1}"), (None, "None"), (5, "5"), ("x", "x")]:
        assert select([Entry(content)]).selected[0].text == text

    class Mute:
        def __str__(self):
            raise RuntimeError("no text")

    with pytest.raises(InputError, match=r"memories\[0\] \(id 'e'\): content cannot be turned into text: RuntimeError"):
        select([Entry(Mute())])


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (Entry("x", timestamp="now"), "timestamp"),
        (Entry("x", timestamp=float("inf")), "timestamp"),
        (Entry("x", effective_importance=float("nan")), "effective_importance"),
        (Entry("x", tags=5), "tags"),
        (Entry("x", metadata=5), "metadata"),
        (Entry("x", metadata={"similarity": float("nan")}), "similarity"),
        (Entry("x", metadata={"expires_at": "soon"}), "expires_at"),
        (Entry("", metadata={}), "content"),
    ],
)
def test_a_malformed_entry_is_named(entry, field):
    with pytest.raises(InputError, match=rf"memories\[0\] \(id 'e'\): {field} "):
        select([entry])


def test_an_entry_of_the_reference_is_read():
    from zerda.memory import MemoryEntry, MemoryType

    entry = MemoryEntry(
        "alpha beta", NOW.timestamp() - 86400, MemoryType.SHORT_TERM, tags=["gamma"], metadata={"id": "z"}
    )
    (one,) = select([entry], "gamma").selected
    assert (one.id, one.score) == ("z", 0.885509)
    (again,) = select([entry.to_dict()], "gamma").selected
    assert again == one


def test_json_gives_memories_ready_to_select():
    members = [
        {
            "id": "a",
            "text": "alpha",
            "created_at": "2026-01-14T12:00:00Z",
            "importance": 1,
            "tags": ["x1", 3],
            "more": {},
        },
        {"id": 7, "content": "beta", "scope": None, "similarity": 0.5},
        {"id": "e", "content": {"said": "gamma"}, "timestamp": 1.5, "metadata": {"scope": "team"}},
        {"id": "one tag", "text": "delta", "tags": "paris"},
    ]
    text = json.dumps(members)
    expected = select(members, "alpha 3 paris").to_dict()
    for data in (text, text.encode(), b"\xef\xbb\xbf" + text.encode()):
        assert select(decode_memories(data), "alpha 3 paris").to_dict() == expected
    assert all(type(memory) is Memory for memory in decode_memories(text))
    assert decode_memories("[]") == []


def test_json_with_half_a_surrogate_pair_is_read():
    (memory,) = decode_memories('[{"id": "a", "text": "bad \\ud83d half"}]')
    assert select([memory]).selected[0].text == "bad \ud83d half"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "the memories are no JSON: "),
        ("[", "the memories are no JSON: "),
        (b"\xff", "the memories are no JSON: "),
        ("{}", "the memories are of type dict; expected a JSON array"),
        ('["foo"]', r"memories\[0\] is 'foo'; expected a mapping"),
        ('[{"id": "a", "text": "x", "importance": NaN}]', "NaN is no JSON number"),
        ('[{"id": "a", "text": "x", "importance": null}]', r"memories\[0\] \(id 'a'\): importance is None"),
        ('[{"id": "a", "text": "x", "importance": 1e400}]', r"memories\[0\] \(id 'a'\): importance is inf"),
        ('[{"id": "a", "text": "x", "tags": 5}]', r"memories\[0\] \(id 'a'\): tags is 5"),
        ('[{"id": "a", "text": "x", "created_at": 5}]', r"memories\[0\] \(id 'a'\): created_at is 5, a number"),
        ('[{"id": 1.5, "text": "x"}]', r"memories\[0\]: id is 1.5"),
        ("[" * 100000, "the memories are no JSON: "),
        ('[{"id": ' + "9" * 5000 + "}]", "the memories are no JSON: "),
    ],
)
def test_json_that_holds_no_memories_is_named(data, message):
    with pytest.raises(InputError, match=message):
        decode_memories(data)


def test_a_memory_that_empties_the_list_while_it_is_read_does_no_harm():
    memories = []

    class Emptying:
        content = "x"
        timestamp = 1.0
        effective_importance = 0.5
        tags = ()
        metadata = None

        @property
        def id(self):
            memories.clear()
            return "e"

    memories.extend([Emptying(), {"id": "a", "text": "y"}])
    assert [one.id for one in select(memories).selected] == ["e"]
