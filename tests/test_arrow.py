"""Arrow columns: read as their values are, through the C interface alone, and released once whatever happens."""

import datetime
import gc
import math
import struct
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from arrow_exporter import RELEASE_ARRAY, ArrayColumn, Exporter, StreamColumn, capsule
from hypothesis import given
from hypothesis import strategies as st

from memsel.columns import importance_column, relevance_column, relevance_matrix, timestamp_column, tokens_column
from memsel.errors import ColumnError, ColumnTypeError

NUMBERS = {
    "b": "?",
    "c": "i1",
    "C": "u1",
    "s": "i2",
    "S": "u2",
    "i": "i4",
    "I": "u4",
    "l": "i8",
    "L": "u8",
    "e": "f2",
    "f": "f4",
    "g": "f8",
}
INTEGERS = "cCsSiIlL"
TIMES = {
    "tss:": ("i8", Fraction(1)),
    "tsm:": ("i8", Fraction(1, 10**3)),
    "tsu:": ("i8", Fraction(1, 10**6)),
    "tsn:": ("i8", Fraction(1, 10**9)),
    "tsu:UTC": ("i8", Fraction(1, 10**6)),
    "tsn:Europe/Paris": ("i8", Fraction(1, 10**9)),
    "tdD": ("i4", Fraction(86_400)),
    "tdm": ("i8", Fraction(1, 10**3)),
}


def bits(values):
    return [struct.pack("d", value) if value == value else "nan" for value in map(float, values)]


def assert_kernel_layout(column):
    assert type(column) is np.ndarray
    assert column.ndim == 1
    assert column.flags.c_contiguous and column.flags.aligned
    assert column.dtype.isnative


def array_of(format, values, valid=None, **options):
    """An exporter and a column of it with `__arrow_c_array__`."""
    exporter = Exporter()
    return exporter, ArrayColumn(exporter.schema(format), exporter.numbers(values, valid, **options))


@st.composite
def numbers(draw, formats):
    """A format, values of its type and which of them are valid."""
    format = draw(st.sampled_from(formats))
    dtype = np.dtype(NUMBERS.get(format) or TIMES[format][0])
    if dtype.kind == "f":
        element = st.floats(width=8 * dtype.itemsize)
    elif dtype.kind == "b":
        element = st.booleans()
    else:
        element = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    rows = draw(st.lists(st.tuples(element, st.booleans()), max_size=40))
    return format, np.array([value for value, _ in rows], dtype), np.array([valid for _, valid in rows], np.bool_)


def pieces(draw, length):
    """Places to cut a column at, some of them twice so that a piece is empty."""
    cuts = sorted(draw(st.lists(st.integers(0, length), max_size=4)))
    return list(zip([0, *cuts], [*cuts, length], strict=True))


def exported(draw, format, values, valid):
    """The column through one of the ways in which Arrow hands a column over."""
    exporter = Exporter()
    schema = exporter.schema(format)
    way = draw(st.sampled_from(["array", "stream", "struct", "struct stream"]))
    offsets = st.integers(0, 20)
    known = st.booleans()

    def numbers_of(part, present, **options):
        null_count = {} if draw(known) else {"null_count": -1}
        return exporter.numbers(part, present, offset=draw(offsets), **null_count, **options)

    def struct_of(part, present):
        # The struct begins and ends within its field, and a row is null when either says so.
        before, after = draw(offsets), draw(offsets)
        outer = np.array([draw(st.booleans()) for _ in part], np.bool_)
        inner = present | ~outer
        field = numbers_of(
            np.concatenate([np.ones(before, part.dtype), part, np.ones(after, part.dtype)]),
            np.concatenate([np.zeros(before, np.bool_), inner, np.zeros(after, np.bool_)]),
            kind="field",
        )
        outer |= present
        bitmap = np.packbits(np.concatenate([np.zeros(before, np.bool_), outer]), bitorder="little")
        return exporter.array(len(part), [bitmap], offset=before, null_count=-1, children=[field])

    if way == "array":
        return ArrayColumn(schema, numbers_of(values, valid))
    if way == "struct":
        return ArrayColumn(exporter.schema("+s", [schema]), struct_of(values, valid))
    make = numbers_of if way == "stream" else struct_of
    parts = [make(values[start:stop], valid[start:stop]) for start, stop in pieces(draw, len(values))]
    return StreamColumn(exporter.stream(schema if way == "stream" else exporter.schema("+s", [schema]), parts))


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column, null", [(relevance_column, 0.5), (importance_column, math.nan)])
@given(data=st.data(), column_of=numbers(list(NUMBERS)))
def test_scores_of_any_type_and_chunking_are_what_float_makes_of_each_value(column, null, data, column_of):
    format, values, valid = column_of
    got = column(exported(data.draw, format, values, valid))
    assert_kernel_layout(got)
    assert got.dtype == (np.float32 if format == "f" else np.float64)
    assert bits(got) == bits(value if ok else null for value, ok in zip(values.tolist(), valid, strict=True))


@given(data=st.data(), column_of=numbers(list(INTEGERS)))
def test_token_counts_of_any_type_and_chunking_keep_their_values(data, column_of):
    format, values, valid = column_of
    if format == "L":
        values = values >> 1
    got = tokens_column(exported(data.draw, format, values, np.ones(len(values), np.bool_)))
    assert_kernel_layout(got)
    assert got.dtype == np.int64
    assert got.tolist() == values.tolist()
    if not valid.all():
        row = valid.tolist().index(False)
        with pytest.raises(ColumnError, match=rf"^tokens\[{row}\] is null; expected an integer$"):
            tokens_column(exported(data.draw, format, values, valid))


@given(data=st.data(), column_of=numbers(list(TIMES)))
def test_times_of_any_unit_zone_and_chunking_are_the_nearest_float64_of_their_seconds(data, column_of):
    format, values, valid = column_of
    got = timestamp_column(exported(data.draw, format, values, valid))
    assert_kernel_layout(got)
    assert got.dtype == np.float64
    exact = (float(value * TIMES[format][1]) for value in values.tolist())
    assert bits(got) == bits(value if ok else math.nan for value, ok in zip(exact, valid, strict=True))


@given(data=st.data(), column_of=numbers([*INTEGERS, "g"]))
def test_numbers_as_times_are_epoch_seconds(data, column_of):
    format, values, valid = column_of
    got = timestamp_column(exported(data.draw, format, values, valid))
    assert bits(got) == bits(value if ok else math.nan for value, ok in zip(values.tolist(), valid, strict=True))


@pytest.mark.parametrize("format", ["tss:", "tsm:", "tsu:", "tsn:"])
def test_the_least_int64_is_a_time_in_arrow_and_not_nat(format):
    _, column = array_of(format, np.array([-(2**63)], np.int64))
    assert timestamp_column(column).tolist() == [float(-(2**63) * TIMES[format][1])]


@pytest.mark.parametrize("rows", [0, 3])
def test_a_column_of_arrow_nulls_is_all_null(rows):
    def column():
        exporter = Exporter()
        return ArrayColumn(exporter.schema("n"), exporter.array(rows, [], null_count=rows))

    assert relevance_column(column()).tolist() == [0.5] * rows
    assert bits(importance_column(column())) == bits([math.nan] * rows)
    assert bits(timestamp_column(column())) == bits([math.nan] * rows)
    if rows:
        with pytest.raises(ColumnError, match=r"^tokens\[0\] is null"):
            tokens_column(column())
    else:
        assert tokens_column(column()).tolist() == []


@pytest.mark.parametrize("column", [relevance_column, importance_column, timestamp_column, tokens_column])
def test_an_empty_stream_is_a_column_without_rows(column):
    for format in ["l", "g"]:
        exporter = Exporter()
        got = column(StreamColumn(exporter.stream(exporter.schema(format), [])))
        assert_kernel_layout(got)
        assert len(got) == 0
        assert exporter.released == {"schema": 1, "stream": 1}


def test_a_row_without_a_buffer_is_no_row():
    exporter = Exporter()
    column = ArrayColumn(exporter.schema("g"), exporter.array(0, [None, None]))
    assert relevance_column(column).tolist() == []


# Dictionaries ---------------------------------------------------------------------------------------------------------


def coded(codes, meanings, *, valid=None, meant=None, format="g", codes_format="c", offset=0):
    exporter = Exporter()
    schema = exporter.schema(codes_format, dictionary=exporter.schema(format, kind="dictionary schema"))
    dictionary = exporter.numbers(meanings, meant, offset=2, kind="dictionary")
    codes = np.array(codes, NUMBERS[codes_format])
    return ArrayColumn(schema, exporter.numbers(codes, valid, offset=offset, dictionary=dictionary))


@pytest.mark.parametrize("codes_format", INTEGERS)
def test_dictionary_encoded_numbers_are_the_numbers(codes_format):
    column = coded([2, 0, 2, 1], [0.25, 0.5, 0.75], codes_format=codes_format, offset=3)
    assert relevance_column(column).tolist() == [0.75, 0.25, 0.75, 0.5]


def test_a_null_code_and_a_code_for_null_are_nulls():
    # Under a null, a code may be anything.
    valid = np.array([True, False, True, True])
    column = coded([1, 99, 0, 1], [0.25, 8.0], valid=valid, meant=np.array([True, False]))
    assert bits(importance_column(column)) == bits([math.nan, math.nan, 0.25, math.nan])
    nothing = coded([-1, 7], np.empty(0), valid=np.array([False, False]))
    assert relevance_column(nothing).tolist() == [0.5, 0.5]


def test_dictionary_encoded_times_keep_their_unit():
    column = coded([1, 0], np.array([5, 7_000_500], np.int64), format="tsu:UTC")
    assert timestamp_column(column).tolist() == [7.0005, 5e-06]


@pytest.mark.parametrize("code", [-1, 2, 100])
def test_a_code_outside_its_dictionary_is_an_error(code):
    with pytest.raises(ColumnError, match=rf"^relevance\[1\] has code {code}; expected one of the 2"):
        relevance_column(coded([0, code], [0.25, 0.5]))


# Ownership ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, format", [("f8", "g"), ("f4", "f")])
@pytest.mark.parametrize("way", ["array", "stream", "struct"])
def test_one_chunk_without_nulls_is_not_copied_and_lives_as_long_as_its_view(dtype, format, way):
    values = np.arange(100, dtype=dtype)
    exporter = Exporter()
    schema, array = exporter.schema(format), exporter.array(90, [None, values], offset=10)
    if way == "array":
        column = ArrayColumn(schema, array)
    elif way == "stream":
        column = StreamColumn(exporter.stream(schema, [array]))
    else:
        outer = exporter.array(90, [None], children=[array], kind="struct")
        column = ArrayColumn(exporter.schema("+s", [schema], kind="struct schema"), outer)
    got = relevance_column(column)
    assert np.shares_memory(got, values)
    assert not got.flags.writeable
    assert got.tolist() == values[10:].tolist()
    owner = "struct" if way == "struct" else "array"
    assert exporter.released[owner] == 0
    part = got[5:7]
    del got
    gc.collect()
    assert exporter.released[owner] == 0
    assert part.tolist() == [15.0, 16.0]
    del part
    gc.collect()
    assert exporter.released[owner] == 1
    # What is inside a struct, and the schema of an array, are not the importer's to release.
    assert exporter.released["stream"] == (way == "stream")
    assert exporter.released["schema"] == (way == "stream")


def test_int64_tokens_share_their_memory_too():
    values = np.arange(5)
    exporter = Exporter()
    got = tokens_column(ArrayColumn(exporter.schema("l"), exporter.array(5, [None, values])))
    assert np.shares_memory(got, values)


def test_an_unaligned_buffer_is_copied():
    values = np.frombuffer(b"\0" + np.arange(5.0).tobytes(), np.uint8)[1:]
    exporter = Exporter()
    got = relevance_column(ArrayColumn(exporter.schema("g"), exporter.array(5, [None, values])))
    assert_kernel_layout(got)
    assert got.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_nulls_are_filled_in_a_copy():
    values = np.arange(3.0)
    exporter = Exporter()
    bitmap = np.array([0b101], np.uint8)
    array = exporter.array(3, [bitmap, values], null_count=1)
    assert relevance_column(ArrayColumn(exporter.schema("g"), array)).tolist() == [0.0, 0.5, 2.0]
    assert values.tolist() == [0.0, 1.0, 2.0]
    gc.collect()
    assert exporter.released["array"] == 1


def test_a_bitmap_without_nulls_costs_no_copy():
    values = np.arange(3.0)
    exporter = Exporter()
    array = exporter.array(3, [np.array([0b111], np.uint8), values], null_count=-1)
    assert np.shares_memory(relevance_column(ArrayColumn(exporter.schema("g"), array)), values)


def test_chunks_are_joined_and_released():
    exporter = Exporter()
    chunks = [exporter.numbers(np.arange(3.0)), exporter.numbers(np.empty(0)), exporter.numbers(np.arange(2.0))]
    got = relevance_column(StreamColumn(exporter.stream(exporter.schema("g"), chunks)))
    assert got.tolist() == [0.0, 1.0, 2.0, 0.0, 1.0]
    gc.collect()
    assert exporter.released == {"array": 3, "schema": 1, "stream": 1}


def test_an_array_is_moved_out_of_its_capsule():
    exporter, column = array_of("g", np.arange(3.0))
    got = relevance_column(column)
    assert not column.structs[1].release
    with pytest.raises(ColumnTypeError, match=r"its Arrow array is already released$"):
        relevance_column(column)
    assert got.tolist() == [0.0, 1.0, 2.0]
    del got
    gc.collect()
    assert exporter.released["array"] == 1


def test_a_stream_is_moved_out_of_its_capsule():
    exporter = Exporter()
    column = StreamColumn(exporter.stream(exporter.schema("g"), []))
    relevance_column(column)
    assert not column.struct.release
    with pytest.raises(ColumnTypeError, match=r"its Arrow stream is already released$"):
        relevance_column(column)
    assert exporter.released["stream"] == 1


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "format, named",
    [
        ("u", "string"),
        ("U", "large_string"),
        ("vu", "string_view"),
        ("z", "binary"),
        ("d:5,1", "decimal(5,1)"),
        ("w:16", "fixed_size_binary(16)"),
        ("tts", "time[s]"),
        ("tDn", "duration[ns]"),
        ("tiM", "interval(M)"),
        ("+l", "list"),
        ("+w:3", "fixed_size_list(3)"),
        ("+m", "map"),
        ("+r", "run_end_encoded"),
        ("+ud:0,1", "union(d:0,1)"),
        ("tsx:", "timestamp(x:)"),
        ("tss", "timestamp[s]"),
        ("?", "with the format '?'"),
        ("", "with the format ''"),
    ],
)
def test_a_type_that_is_no_number_is_named_and_left_unread(format, named):
    for column in [relevance_column, importance_column, timestamp_column, tokens_column]:
        exporter = Exporter()
        stream = exporter.stream(exporter.schema(format), [exporter.array(1, [None, None])])
        with pytest.raises(ColumnTypeError) as caught:
            column(StreamColumn(stream), "mine")
        assert str(caught.value) == f"mine is of Arrow type {named}; expected numbers"
        assert exporter.made["pulled"] == 0
        assert exporter.released == {"schema": 1, "stream": 1}


def test_strings_behind_a_dictionary_are_refused_by_the_type_they_stand_for():
    exporter = Exporter()
    schema = exporter.schema("i", dictionary=exporter.schema("u", kind="dictionary schema"))
    with pytest.raises(
        ColumnTypeError, match=r"^relevance is of Arrow type string, dictionary-encoded; expected numbers"
    ):
        relevance_column(StreamColumn(exporter.stream(schema, [])))


@pytest.mark.parametrize("column", [relevance_column, importance_column, tokens_column])
def test_times_are_refused_where_numbers_are_meant(column):
    for rows in (0, 1):
        with pytest.raises(ColumnTypeError, match=r" is of Arrow type timestamp\[us, UTC\]; expected"):
            column(array_of("tsu:UTC", np.zeros(rows, np.int64))[1])


@pytest.mark.parametrize("format", ["b", "e", "f", "g"])
def test_floats_and_booleans_are_no_token_counts(format):
    name = np.dtype(NUMBERS[format]).name
    with pytest.raises(ColumnTypeError, match=rf"^tokens is of Arrow type {name}; expected integers$"):
        tokens_column(array_of(format, np.ones(1, NUMBERS[format]))[1])


def test_float32_times_are_refused():
    with pytest.raises(ColumnTypeError, match=r"^timestamp is of Arrow type float32, which has a step of 128 s"):
        timestamp_column(array_of("f", np.ones(1, np.float32))[1])


def test_an_unsigned_token_count_beyond_int64_is_named_with_its_row():
    _, column = array_of("L", np.array([1, 2**63], np.uint64))
    with pytest.raises(ColumnError, match=rf"^tokens\[1\] is {2**63}; expected at most"):
        tokens_column(column)


@pytest.mark.parametrize("fields", [0, 2])
def test_a_table_of_other_than_one_column_is_refused(fields):
    exporter = Exporter()
    schema = exporter.schema("+s", [exporter.schema("g", kind="field") for _ in range(fields)])
    with pytest.raises(ColumnError, match=rf"^relevance is {fields} Arrow columns; expected one$"):
        relevance_column(StreamColumn(exporter.stream(schema, [])))
    assert exporter.released == {"schema": 1, "stream": 1}


def test_an_arrow_column_is_no_matrix():
    with pytest.raises(ColumnError, match=r"^relevance has shape \(2,\); expected \(queries, 2\)$"):
        relevance_matrix(array_of("g", np.ones(2))[1], 2)
    queries = [array_of("g", np.ones(2))[1], [0.25, None]]
    assert relevance_matrix(queries, 2).tolist() == [[1.0, 1.0], [0.25, 0.5]]


# Exporters that break the rules ---------------------------------------------------------------------------------------


def broken(change, format="g", in_struct=False):
    """A column of three rows whose array, or the struct around it, was changed after it was made."""
    exporter = Exporter()
    schema, array = exporter.schema(format), exporter.numbers(np.arange(3.0))
    if in_struct:
        schema = exporter.schema("+s", [schema], kind="struct schema")
        array = exporter.array(3, [None], children=[array], kind="struct")
    change(array)
    return exporter, schema, array


def set_fields(**fields):
    def change(array):
        for field, value in fields.items():
            setattr(array, field, value)

    return change


def without_buffers(array):
    array.buffers = None


def without_values(array):
    array.buffers[1] = None


def without_children(array):
    array.children = None


def without_first_child(array):
    array.children[0] = None


def with_short_child(array):
    array.children[0].contents.length = 2


def with_released_child(array):
    array.children[0].contents.release = RELEASE_ARRAY()


def with_negative_child(array):
    array.children[0].contents.offset = -8


@pytest.mark.parametrize(
    "change, in_struct, message",
    [
        (set_fields(length=-1), False, "its Arrow array has -1 rows from row 0 on"),
        (set_fields(offset=-1), False, "its Arrow array has 3 rows from row -1 on"),
        (set_fields(length=2**63 - 1), False, f"its Arrow array has {2**63 - 1} rows from row 0 on"),
        (set_fields(offset=2**63 - 1), False, f"its Arrow array has 3 rows from row {2**63 - 1} on"),
        (set_fields(null_count=-2), False, "its Arrow array has -2 nulls in 3 rows"),
        (set_fields(null_count=4), False, "its Arrow array has 4 nulls in 3 rows"),
        (set_fields(null_count=1), False, "its Arrow array has 1 nulls and no bitmap of them"),
        (set_fields(n_buffers=0), False, "its Arrow array has 0 buffers; expected 2"),
        (set_fields(n_buffers=1), False, "its Arrow array has 1 buffers; expected 2"),
        (set_fields(n_buffers=-1), False, "its Arrow array has -1 buffers; expected 2"),
        (set_fields(n_buffers=3), False, "its Arrow array has 3 buffers; expected 2"),
        (without_buffers, False, "its Arrow array has no buffers where it counts some"),
        (without_values, False, "its Arrow array has 3 rows and no values"),
        (set_fields(n_buffers=2), True, "its Arrow array has 2 buffers; expected 1"),
        (set_fields(n_children=2), True, "its Arrow struct has other fields than its schema says"),
        (without_children, True, "its Arrow struct has other fields than its schema says"),
        (without_first_child, True, "its Arrow struct has other fields than its schema says"),
        (with_short_child, True, "a field of its Arrow struct has 2 rows, the struct 3"),
        (with_released_child, True, "its Arrow array is already released"),
        (with_negative_child, True, "its Arrow array has 3 rows from row -8 on"),
    ],
)
@pytest.mark.parametrize("way", ["array", "stream"])
def test_an_array_that_breaks_the_rules_is_refused_and_released(change, in_struct, message, way):
    exporter, schema, array = broken(change, in_struct=in_struct)
    column = ArrayColumn(schema, array)
    if way == "stream":
        column = StreamColumn(exporter.stream(schema, [array]))
    with pytest.raises(ColumnTypeError) as caught:
        relevance_column(column)
    assert str(caught.value).endswith(f"Column, could not be read: {message}")
    del caught
    gc.collect()
    assert exporter.released["struct" if in_struct else "array"] == 1


def test_a_dictionary_that_array_and_schema_disagree_about_is_refused():
    exporter = Exporter()
    dictionary = exporter.numbers(np.arange(3.0), kind="dictionary")
    codes = np.zeros(2, np.int8)
    coded_schema = exporter.schema("c", dictionary=exporter.schema("g", kind="dictionary schema"))
    for schema, array in [
        (coded_schema, exporter.numbers(codes)),
        (exporter.schema("c"), exporter.numbers(codes, dictionary=dictionary)),
    ]:
        with pytest.raises(ColumnTypeError, match=r"its Arrow array and schema disagree about a dictionary$"):
            relevance_column(ArrayColumn(schema, array))


def test_a_schema_that_breaks_the_rules_is_refused():
    exporter = Exporter()
    released = exporter.schema("g")
    released.release = type(released.release)()
    nameless = exporter.schema("g")
    nameless.format = None
    childless = exporter.schema("+s", [exporter.schema("g")])
    childless.children = None
    missing_child = exporter.schema("+s", [exporter.schema("g")])
    missing_child.children[0] = None
    for schema, message in [
        (released, "its Arrow schema is already released"),
        (nameless, "its Arrow schema has no format"),
        (childless, "its Arrow schema has no children where it counts one"),
        (missing_child, "its Arrow schema has no format"),
    ]:
        with pytest.raises(ColumnTypeError, match=rf"could not be read: {message}$"):
            relevance_column(ArrayColumn(schema, exporter.numbers(np.arange(3.0))))


def test_an_endless_format_is_cut_short():
    exporter = Exporter()
    with pytest.raises(ColumnTypeError) as caught:
        relevance_column(StreamColumn(exporter.stream(exporter.schema("x" * 100_000), [])))
    assert len(str(caught.value)) < 400


def test_a_stream_that_fails_says_why_and_is_released_with_what_it_gave():
    exporter = Exporter()
    stream = exporter.stream(exporter.schema("g"), [exporter.numbers(np.arange(3.0))], fails_with="disk is gone")
    with pytest.raises(
        ColumnTypeError, match=r"^relevance, a StreamColumn, could not be read: .* failed: disk is gone$"
    ):
        relevance_column(StreamColumn(stream))
    gc.collect()
    assert exporter.released == {"array": 1, "schema": 1, "stream": 1}


def test_a_stream_without_a_schema_says_why_and_is_released():
    exporter = Exporter()
    stream = exporter.stream(exporter.schema("g"), [], schema_fails_with="no such table")
    with pytest.raises(ColumnTypeError, match=r"its Arrow stream failed: no such table$"):
        relevance_column(StreamColumn(stream))
    assert exporter.released == {"stream": 1}


def test_a_stream_that_fails_without_a_message_gives_its_code():
    exporter = Exporter()
    stream = exporter.stream(exporter.schema("g"), [], fails_with="")
    stream.get_last_error = type(stream.get_last_error)()
    with pytest.raises(ColumnTypeError, match=r"its Arrow stream failed: error 5$"):
        relevance_column(StreamColumn(stream))


def test_a_stream_without_callbacks_is_refused():
    exporter = Exporter()
    for callback in ["get_schema", "get_next"]:
        stream = exporter.stream(exporter.schema("g"), [])
        setattr(stream, callback, type(getattr(stream, callback))())
        with pytest.raises(ColumnTypeError, match=r"its Arrow stream has no callbacks$"):
            relevance_column(StreamColumn(stream))
    assert exporter.released == {"stream": 2}


def test_what_is_no_capsule_is_refused():
    exporter = Exporter()
    schema, array = capsule(exporter.schema("g")), capsule(exporter.numbers(np.arange(3.0)))

    class Pair:
        def __init__(self, *parts):
            self.parts = parts

        def __arrow_c_array__(self, requested_schema=None):
            return self.parts

    class Single:
        def __arrow_c_stream__(self, requested_schema=None):
            return schema

    for pair in [(schema, 5), (None, array), (array, schema)]:
        with pytest.raises(ColumnTypeError, match=r"where a capsule named arrow_(schema|array) is expected$"):
            relevance_column(Pair(*pair))
    for pair in [(), (schema,), (schema, array, array)]:
        with pytest.raises(ColumnTypeError, match=r"^relevance, a Pair, could not be read: "):
            relevance_column(Pair(*pair))
    with pytest.raises(ColumnTypeError, match=r"where a capsule named arrow_array_stream is expected$"):
        relevance_column(Single())


def test_an_exporter_that_raises_is_reported_as_a_column_error():
    class Raises:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("not today")

    with pytest.raises(ColumnTypeError, match=r"^relevance, a Raises, could not be read: not today$"):
        relevance_column(Raises())


# Beside other protocols -----------------------------------------------------------------------------------------------


def test_arrow_goes_before_an_array_protocol_that_loses_nulls():
    _, column = array_of("g", np.arange(3.0), np.array([True, False, True]))

    class Both:
        def __array__(self, dtype=None, copy=None):
            return np.array([0.0, math.nan, 2.0])

        def __arrow_c_array__(self, requested_schema=None):
            return column.__arrow_c_array__()

    assert relevance_column(Both()).tolist() == [0.0, 0.5, 2.0]


def test_what_has_a_numpy_dtype_is_read_as_numpy_reads_it():
    class NumpyBacked:
        dtype = np.dtype(np.float64)

        def __array__(self, dtype=None, copy=None):
            return np.array([0.0, math.nan])

        def __arrow_c_stream__(self, requested_schema=None):
            raise ImportError("pyarrow is not installed")

    assert bits(relevance_column(NumpyBacked())) == bits([0.0, math.nan])


def test_no_arrow_library_is_imported():
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "import numpy as np\n"
        "from test_arrow import array_of, relevance_column\n"
        "assert relevance_column(array_of('g', np.arange(3.0))[1]).tolist() == [0, 1, 2]\n"
        "assert not {'pyarrow', 'polars', 'duckdb', 'pandas', 'nanoarrow'} & set(sys.modules), 'imported'\n"
    )
    here = __file__.rpartition("/")[0]
    subprocess.run([sys.executable, "-c", code, here], check=True)


# The libraries themselves ---------------------------------------------------------------------------------------------

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)


def test_pyarrow_columns():
    pa = pytest.importorskip("pyarrow")
    values = np.random.default_rng(1).random(1000)
    plain = pa.array(values)
    assert np.shares_memory(relevance_column(plain), values)
    assert relevance_column(plain[7:900]).tolist() == values[7:900].tolist()
    assert relevance_column(pa.array([0, 0.9, 0.1])[1:]).tolist() == [0.9, 0.1]
    chunked = pa.chunked_array([[0.9, None], [0.1]])
    assert relevance_column(chunked).tolist() == relevance_column(chunked.combine_chunks()).tolist() == [0.9, 0.5, 0.1]
    assert relevance_column(pa.table({"score": chunked})[1:]).tolist() == [0.5, 0.1]
    assert relevance_column(chunked.dictionary_encode()).tolist() == [0.9, 0.5, 0.1]
    for kind in [pa.timestamp("s"), pa.timestamp("us", "Europe/Paris"), pa.timestamp("ns", "UTC"), pa.timestamp("ms")]:
        moments = (
            pa.array([NOON, None], type=kind) if kind.tz else pa.array([NOON.replace(tzinfo=None), None], type=kind)
        )
        assert bits(timestamp_column(moments)) == bits([NOON.timestamp(), math.nan])
    with pytest.raises(ColumnTypeError, match=r"is of Arrow type string, dictionary-encoded"):
        relevance_column(pa.array(["a", None, "b"]).dictionary_encode())
    with pytest.raises(ColumnTypeError, match=r"is of Arrow type string_view"):
        relevance_column(pa.array(["a"], type=pa.string_view()))


def test_pyarrow_memory_is_freed_with_the_last_view():
    pa = pytest.importorskip("pyarrow")
    gc.collect()
    before = pa.total_allocated_bytes()
    got = relevance_column(pa.array([0.5] * 100_000))
    gc.collect()
    assert pa.total_allocated_bytes() - before >= 800_000
    assert got.sum() == 50_000.0
    del got
    gc.collect()
    assert pa.total_allocated_bytes() <= before


def test_polars_columns():
    pl = pytest.importorskip("polars")
    values = np.random.default_rng(1).random(1000)
    series = pl.Series(values)
    assert np.shares_memory(relevance_column(series), series.to_numpy())
    assert relevance_column(pl.concat([series, series], rechunk=False)[5:1500]).tolist() == [*values, *values][5:1500]
    assert relevance_column(pl.Series([0.9, None])).tolist() == [0.9, 0.5]
    assert relevance_column(pl.DataFrame({"score": [0.9, None]})).tolist() == [0.9, 0.5]
    assert bits(timestamp_column(pl.Series([NOON, None]))) == bits([NOON.timestamp(), math.nan])
    assert timestamp_column(pl.Series([NOON.date()])).tolist() == [NOON.timestamp() - 43_200]
    assert tokens_column(pl.Series([1, 2], dtype=pl.UInt16)).tolist() == [1, 2]
    with pytest.raises(ColumnError, match=r"^tokens\[1\] is null"):
        tokens_column(pl.Series([1, None]))
    assert relevance_column(pl.Series([])).tolist() == []


def test_duckdb_relations():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        rows = connection.sql("select case when i % 1000 = 7 then null else i / 2 end from range(300000) t(i)")
        expected = [0.5 if i % 1000 == 7 else i / 2 for i in range(300_000)]
        assert relevance_column(rows).tolist() == expected
        assert tokens_column(connection.sql("select i::usmallint from range(5) t(i)")).tolist() == [0, 1, 2, 3, 4]
        moments = connection.sql("select timestamptz '2026-11-30 13:00:00+01' + to_hours(i::int) from range(2) t(i)")
        assert timestamp_column(moments).tolist() == [NOON.timestamp(), NOON.timestamp() + 3600]
        with pytest.raises(ColumnTypeError, match=r"^relevance is of Arrow type decimal\(2,1.*\); expected numbers$"):
            relevance_column(connection.sql("select 0.5"))
        with pytest.raises(ColumnError, match=r"^relevance is 2 Arrow columns; expected one$"):
            relevance_column(connection.sql("select 1, 2"))
        with pytest.raises(ColumnTypeError, match=r"^relevance, .*, could not be read: .*Could not convert string"):
            relevance_column(
                connection.sql("select (case when i = 250000 then 'x' else '1' end)::double from range(300000) t(i)")
            )


def test_pandas_columns():
    pd = pytest.importorskip("pandas")
    assert bits(relevance_column(pd.Series([0.9, math.nan]))) == bits([0.9, math.nan])
    assert relevance_column(pd.Series([0.9, None], dtype="Float64")).tolist() == [0.9, 0.5]
    assert relevance_column(pd.Series([True, None], dtype="boolean")).tolist() == [1.0, 0.5]
    assert relevance_column(pd.Series([1, None], dtype="Int8")).tolist() == [1.0, 0.5]
    assert relevance_column(pd.Series([0.9, 0.1], dtype="category")).tolist() == [0.9, 0.1]
    assert tokens_column(pd.Series([2**62 + 1, 3], dtype="Int64")).tolist() == [2**62 + 1, 3]
    with pytest.raises(ColumnError, match=r"^tokens\[1\] is null"):
        tokens_column(pd.Series([2**62 + 1, None], dtype="Int64"))
    for zone in ["UTC", "Europe/Paris", "America/New_York"]:
        for unit in ["s", "ms", "us", "ns"]:
            moments = pd.Series(pd.to_datetime([NOON, None])).dt.tz_convert(zone).dt.as_unit(unit)
            for column in [moments, moments.array, pd.DatetimeIndex(moments)]:
                assert bits(timestamp_column(column)) == bits([NOON.timestamp(), math.nan])
    assert bits(timestamp_column(moments.dt.tz_convert(None))) == bits([NOON.timestamp(), math.nan])
    with pytest.raises(ColumnTypeError, match=r"^relevance is of dtype object"):
        relevance_column(pd.Series([0.9, None], dtype=object))
    with pytest.raises(ColumnTypeError, match=r"^relevance is of pandas dtype "):
        relevance_column(pd.Series(["a"], dtype="string"))
    with pytest.raises(ColumnError, match=r"^relevance has shape \(1, 1\)"):
        relevance_column(pd.DataFrame({"score": [0.9]}))


def test_pandas_columns_over_arrow():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    assert relevance_column(pd.Series([0.9, None], dtype="double[pyarrow]")).tolist() == [0.9, 0.5]
    assert relevance_column(pd.Series([0.5, None], dtype="float[pyarrow]")).dtype == np.float32
    moments = pd.Series([NOON, None], dtype="timestamp[us, tz=Europe/Paris][pyarrow]")
    assert bits(timestamp_column(moments)) == bits([NOON.timestamp(), math.nan])
