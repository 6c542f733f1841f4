"""Columns: whatever comes in leaves as the kernel's layout with the values that Python would read, or is refused."""

import array
import ctypes
import math
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from memsel.columns import (
    check_lengths,
    importance_column,
    negative_tokens_error,
    offsets_column,
    relevance_column,
    relevance_matrix,
    sparse_scores,
    timestamp_column,
    tokens_column,
)
from memsel.errors import ColumnError, ColumnTypeError

SCORE_COLUMNS = [relevance_column, importance_column]
FLOAT_COLUMNS = [*SCORE_COLUMNS, timestamp_column]
COLUMNS = [*FLOAT_COLUMNS, tokens_column]


def bits(values):
    """The bit patterns of floats, all NaNs alike."""
    return [struct.pack("d", value) if value == value else "nan" for value in map(float, values)]


def assert_kernel_layout(column, ndim=1):
    assert type(column) is np.ndarray
    assert column.ndim == ndim
    assert column.flags.c_contiguous and column.flags.aligned
    assert column.dtype.isnative


def native(column):
    return np.arange(5, dtype=np.int64 if column is tokens_column else np.float64)


# Layouts --------------------------------------------------------------------------------------------------------------


@st.composite
def laid_out(draw, dtypes):
    """A one-dimensional array of a drawn type, byte order, stride, offset and writability, and the values in it."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    dtype = dtype.newbyteorder(draw(st.sampled_from("<>")))
    # Nothing warns here on the way in either: Hypothesis narrows its own floats.
    values = draw(hnp.arrays(dtype, st.integers(0, 20)))
    layout = draw(st.sampled_from(["plain", "every third", "reversed", "matrix column", "unaligned", "broadcast"]))
    if layout == "every third":
        holder = np.zeros(3 * len(values), dtype)
        out = holder[::3]
        out[:] = values
    elif layout == "reversed":
        out = values[::-1].copy()[::-1]
    elif layout == "matrix column":
        holder = np.zeros((len(values), 4), dtype)
        holder[:, 2] = values
        out = holder[:, 2]
    elif layout == "unaligned":
        out = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:].view(dtype) if len(values) else values
    elif layout == "broadcast":
        out = np.broadcast_to(values[0], 7) if len(values) else values
        values = np.array(out)
    else:
        out = values
    if draw(st.booleans()) and out.flags.owndata:
        out.setflags(write=False)
    return out, [value.item() for value in values]


INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("column", SCORE_COLUMNS)
@given(data=laid_out([*INTEGERS, "f2", "f4", "f8", "?"]))
def test_scores_of_any_layout_are_what_float_makes_of_each_value(column, data):
    values, expected = data
    before = values.tobytes()
    got = column(values)
    assert_kernel_layout(got)
    assert got.dtype == (np.float32 if values.dtype.newbyteorder("=") == np.float32 else np.float64)
    assert bits(got) == bits(expected)
    assert values.tobytes() == before


@given(data=laid_out([*INTEGERS, "f8", "?"]))
def test_times_in_numbers_of_any_layout_are_what_float_makes_of_each_value(data):
    values, expected = data
    got = timestamp_column(values)
    assert_kernel_layout(got)
    assert got.dtype == np.float64
    assert bits(got) == bits(expected)


@given(data=laid_out(INTEGERS))
def test_token_counts_of_any_layout_keep_their_values(data):
    values, expected = data
    if max(expected, default=0) > 2**63 - 1:
        row = next(row for row, value in enumerate(expected) if value > 2**63 - 1)
        with pytest.raises(ColumnError, match=rf"^tokens\[{row}\] is {expected[row]}; expected at most"):
            tokens_column(values)
        return
    got = tokens_column(values)
    assert_kernel_layout(got)
    assert got.dtype == np.int64
    assert got.tolist() == expected


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_in_the_kernels_layout_comes_back_itself(column):
    values = native(column)
    assert column(values) is values
    values.setflags(write=False)
    assert column(values) is values


@pytest.mark.parametrize("column", SCORE_COLUMNS)
def test_float32_scores_come_back_itself(column):
    values = np.arange(5, dtype=np.float32)
    assert column(values) is values


@pytest.mark.parametrize("column", COLUMNS)
def test_views_buffers_and_other_protocols_share_their_memory(column, tmp_path):
    values = native(column)
    values.tofile(tmp_path / "column")
    mapped = np.memmap(tmp_path / "column", dtype=values.dtype, mode="r")
    packed = array.array("q" if column is tokens_column else "d", values.tolist())
    c_values = ((ctypes.c_int64 if column is tokens_column else ctypes.c_double) * 5)(*values.tolist())

    class Subclass(np.ndarray):
        def __array_finalize__(self, obj):
            pass

    class Exported:
        def __array__(self, dtype=None, copy=None):
            return values

    class OnDlpack:
        def __dlpack__(self, **options):
            return values.__dlpack__(**options)

        def __dlpack_device__(self):
            return values.__dlpack_device__()

    class OnInterface:
        __array_interface__ = values.__array_interface__

    matrix = np.stack([values, values])
    for given_column, owner in [
        (matrix[1], matrix),
        (mapped, mapped),
        (packed, np.asarray(packed)),
        (memoryview(values), values),
        (c_values, np.asarray(c_values)),
        (values.view(Subclass), values),
        (np.frombuffer(values.tobytes(), values.dtype), None),
        (Exported(), values),
        (OnDlpack(), values),
        (OnInterface(), values),
        (np.ma.array(values, copy=False), values),
    ]:
        got = column(given_column)
        assert_kernel_layout(got)
        if owner is not None:
            assert np.shares_memory(got, owner)
        assert got.tolist() == values.tolist()
    part = column(values[1:4])
    assert np.shares_memory(part, values)
    assert part.tolist() == [1, 2, 3]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_without_rows_is_a_column(column):
    for values in [[], (), range(0), np.empty(0), np.empty(0, np.int64), np.empty((0, 3))[:, 1], array.array("q")]:
        got = column(values)
        assert_kernel_layout(got)
        assert len(got) == 0


# Times ----------------------------------------------------------------------------------------------------------------

SECONDS = {
    "W": Fraction(604_800),
    "D": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
    "fs": Fraction(1, 10**15),
    "as": Fraction(1, 10**18),
}
NAT = -(2**63)


def edges(rng):
    """Values of int64 where a quotient is likeliest to round the wrong way: around powers of two, and at the ends."""
    near_powers = [sign * (2**power + step) for power in range(63) for sign in (1, -1) for step in range(-3, 4)]
    present = rng.integers(1_500_000_000, 2_000_000_000, 300)
    tens = [present * 10**k + rng.integers(0, 10**k, 300) for k in (3, 6, 9)]
    anywhere = rng.integers(NAT + 1, 2**63 - 1, 600)
    scaled = anywhere >> rng.integers(0, 62, 600)
    ends = [NAT + 1, 2**63 - 1, 0]
    return np.array([*near_powers, *np.concatenate([*tens, anywhere, scaled]).tolist(), *ends], dtype=np.int64)


@pytest.mark.parametrize("unit", SECONDS)
@pytest.mark.parametrize("count", [1, 7, 25])
def test_datetime64_becomes_the_nearest_float64_of_its_seconds(unit, count):
    values = edges(np.random.default_rng(20261130))
    got = timestamp_column(values.view(f"M8[{count}{unit}]"))
    assert_kernel_layout(got)
    # float() of a Fraction divides two Python integers, which rounds once, to nearest and ties to even.
    assert got.tolist() == [float(value * count * SECONDS[unit]) for value in values.tolist()]


@given(values=st.lists(st.integers(NAT + 1, 2**63 - 1)), unit=st.sampled_from(list(SECONDS)))
def test_any_datetime64_becomes_the_nearest_float64_of_its_seconds(values, unit):
    got = timestamp_column(np.array(values, np.int64).view(f"M8[{unit}]"))
    assert got.tolist() == [float(value * SECONDS[unit]) for value in values]


@pytest.mark.parametrize("unit, digits", [("ms", 3), ("us", 6), ("ns", 9), ("ps", 12), ("fs", 15)])
def test_datetime64_as_close_to_a_midpoint_of_two_floats_as_can_be_rounds_the_right_way(unit, digits):
    rng = np.random.default_rng(20261130)
    scale = 10**digits
    values = []
    for exponent in range(-10, 53):
        # A value v lies c / (scale * 2^p) away from a multiple of 2^-p, where v * 2^p = c modulo scale and 2^-p is half
        # the step between floats from 2^exponent on. The least c but 0 that can be is the factor that both share. A
        # value taken for the midpoint beside it happens to round well at once that factor, and badly at 3 times it.
        p = 53 - exponent
        shared = math.gcd(2**p, scale)
        least, most = math.ceil(2.0**exponent * scale), min(math.floor(2.0 ** (exponent + 1) * scale), 2**63) - 1
        period = scale // shared
        if most - least < 2 * period:
            continue
        inverse = pow(2**p // shared, -1, period)
        for c in range(-4, 5):
            first = least + (c * inverse - least) % period
            values += [first + int(step) * period for step in rng.integers(0, (most - first) // period, 12)]
    assert len(values) > 1000
    values += [-value for value in values]
    got = timestamp_column(np.array(values, np.int64).view(f"M8[{unit}]"))
    assert got.tolist() == [float(value * SECONDS[unit]) for value in values]


def test_a_nanosecond_time_is_divided_once_and_not_rounded_twice():
    values = np.random.default_rng(7).integers(1_600_000_000 * 10**9, 1_800_000_000 * 10**9, 100_000)
    got = timestamp_column(values.view("M8[ns]"))
    exact = np.array([value / 10**9 for value in values.tolist()])
    assert (got == exact).all()
    # The point of the care: the obvious division differs somewhere.
    assert (values / 1e9 != exact).any()


@pytest.mark.parametrize("unit", ["Y", "M"])
@pytest.mark.parametrize("count", [1, 5])
def test_years_and_months_follow_the_calendar_for_every_int64(unit, count):
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.integers(-5000, 5000, 500), edges(rng)])
    got = timestamp_column(values.view(f"M8[{count}{unit}]"))
    months = [value * count * (12 if unit == "Y" else 1) for value in values.tolist()]

    def days_before(month):
        """Days from 1970-01-01 to the month, by counting leap years as integers."""
        year, month = divmod(month, 12)
        year += 1970
        earlier = year - 1
        leaps = earlier // 4 - earlier // 100 + earlier // 400
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        lengths = [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        return 365 * earlier + leaps - 719_162 + sum(lengths[:month])

    assert got.tolist() == [float(days_before(month) * 86_400) for month in months]


@pytest.mark.parametrize("unit", [*SECONDS, "Y", "M"])
def test_nat_is_nan_and_leaves_its_neighbours_alone(unit):
    values = np.array([NAT, 3, NAT, 40], np.int64)
    got = timestamp_column(values.view(f"M8[{unit}]"))
    rest = timestamp_column(values[[1, 3]].view(f"M8[{unit}]"))
    assert bits(got) == bits([math.nan, rest[0], math.nan, rest[1]])


def test_all_units_of_one_moment_give_the_same_seconds():
    moment = np.array([1_700_000_000], "M8[s]")
    for unit in ["s", "ms", "us", "ns"]:
        assert timestamp_column(moment.astype(f"M8[{unit}]")).tolist() == [1.7e9]


def test_datetime64_of_any_layout_is_read():
    moments = np.array(["2026-01-01", "NaT", "1969-07-20T20:17:40.5"], "M8[us]")
    expected = bits(timestamp_column(moments))
    holder = np.zeros((3, 2), "M8[us]")
    holder[:, 1] = moments
    for values in [moments.astype(">M8[us]"), holder[:, 1], moments[::-1].copy()[::-1]]:
        assert bits(timestamp_column(values)) == expected
    read_only = moments.copy()
    read_only.setflags(write=False)
    assert bits(timestamp_column(read_only)) == expected
    assert timestamp_column(np.array([], "M8[ns]")).tolist() == []


def test_datetime64_without_a_unit_holds_nat_alone():
    no_time = np.array([np.iinfo(np.int64).min]).view("M8")  # newer NumPy warns where text becomes such a value
    assert np.isnat(no_time).all()
    assert bits(timestamp_column(no_time)) == ["nan"]
    with pytest.raises(ColumnTypeError, match=r"^timestamp is of dtype datetime64 without a unit"):
        timestamp_column(np.array([5], np.int64).view("M8"))


def test_integer_times_are_rounded_once():
    edge = [2**53 + 1, 2**62 + 2**9 + 1, 2**63 - 1, NAT]
    assert timestamp_column(np.array(edge, np.int64)).tolist() == [float(value) for value in edge]
    wide = [2**64 - 1, 2**63 + 2**10 + 1]
    assert timestamp_column(np.array(wide, np.uint64)).tolist() == [float(value) for value in wide]


@pytest.mark.parametrize("rows", [0, 2])
def test_narrow_floats_are_refused_as_times(rows):
    with pytest.raises(ColumnTypeError, match=r"^created is of dtype float32, which has a step of 128 s"):
        timestamp_column(np.zeros(rows, np.float32), "created")
    with pytest.raises(ColumnTypeError, match=r"^created is of dtype float16"):
        timestamp_column(np.zeros(rows, np.float16), "created")


def test_narrow_floats_in_a_list_of_times_are_refused_with_their_row():
    with pytest.raises(ColumnTypeError, match=r"^timestamp\[1\] is a float32, which has a step of 128 s"):
        timestamp_column([1.0, np.float32(1.7e9)])


# Nulls ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column, null", [(relevance_column, 0.5), (importance_column, math.nan)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "?", ">f8"])
def test_a_masked_score_is_a_null(column, null, dtype):
    values = np.ma.array(np.ones(3, dtype), mask=[False, True, False])
    got = column(values)
    assert_kernel_layout(got)
    assert bits(got) == bits([1.0, null, 1.0])
    assert values.data.tolist() == [1, 1, 1]


def test_a_masked_time_is_nan_and_a_masked_token_count_an_error():
    assert bits(timestamp_column(np.ma.array([1.0, 2.0], mask=[True, False]))) == bits([math.nan, 2.0])
    dates = np.ma.array(np.array(["2026", "2027"], "M8[s]"), mask=[True, False])
    assert bits(timestamp_column(dates)) == bits([math.nan, 1798761600.0])
    with pytest.raises(ColumnError, match=r"^tokens\[1\] is null"):
        tokens_column(np.ma.array([1, 2], mask=[False, True]))
    assert tokens_column(np.ma.array([1, 2], mask=False)).tolist() == [1, 2]


def test_none_in_a_list_is_a_null():
    assert relevance_column([None, 1, 0.25]).tolist() == [0.5, 1.0, 0.25]
    assert bits(importance_column((None, 1, 0.25))) == bits([math.nan, 1.0, 0.25])
    assert bits(timestamp_column([None, 1, 0.25])) == bits([math.nan, 1.0, 0.25])
    with pytest.raises(ColumnError, match=r"^tokens\[2\] is null; expected an integer$"):
        tokens_column([1, 2, None])


@pytest.mark.parametrize("column", SCORE_COLUMNS)
def test_nan_infinities_and_signed_zeros_pass_unchanged(column):
    values = [math.nan, math.inf, -math.inf, -0.0, 5e-324]
    for dtype in [np.float64, ">f8", np.longdouble]:
        assert bits(column(np.array(values, dtype))) == bits(values)
    assert bits(column(values)) == bits(values)


# Lists ----------------------------------------------------------------------------------------------------------------


class Seven(int):
    pass


@pytest.mark.parametrize("column", FLOAT_COLUMNS)
@given(
    values=st.lists(
        st.floats() | st.integers(-(2**1023), 2**1023) | st.booleans() | st.fractions() | st.integers().map(Seven)
    )
)
def test_a_list_of_numbers_is_what_float_makes_of_each(column, values):
    got = column(values)
    assert_kernel_layout(got)
    assert got.dtype == np.float64
    assert bits(got) == bits(values)
    assert bits(column(tuple(values))) == bits(values)


@pytest.mark.parametrize("column", SCORE_COLUMNS)
def test_numpy_scalars_and_arrays_without_dimensions_count_as_numbers_in_a_list(column):
    values = [np.float32(0.1), np.float16(0.1), np.float64(0.1), np.int8(3), np.uint64(2**64 - 1), np.bool_(True)]
    assert bits(column(values)) == bits(values)
    assert bits(column([np.array(0.25), 1])) == bits([0.25, 1.0])
    with np.errstate(over="ignore"):
        beyond = np.ldexp(np.longdouble(1), 1024)
    assert column([beyond, 1]).tolist() == column(np.array([beyond, 1])).tolist() == [math.inf, 1.0]
    assert column(range(3)).tolist() == [0.0, 1.0, 2.0]


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_a_list_of_integers_keeps_its_values(values):
    got = tokens_column(values)
    assert_kernel_layout(got)
    assert got.dtype == np.int64
    assert got.tolist() == values
    assert tokens_column([np.int64(value) for value in values]).tolist() == values


@pytest.mark.parametrize(
    "wrong", ["1", b"1", 1j, Decimal(1), [1.0], np.array([1.0]), object(), np.datetime64("2026"), np.complex64(1)]
)
@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_no_number_is_named_with_its_row(column, wrong):
    with pytest.raises(ColumnTypeError, match=rf"^{column.__name__[:-7]}\[1\] is an? {type(wrong).__name__}; expected"):
        column([1, wrong, "later"])


@pytest.mark.parametrize("column", FLOAT_COLUMNS)
def test_a_number_beyond_float64_in_a_list_is_named_with_its_row(column):
    with pytest.raises(ColumnError, match=r"\[2\] is beyond the range of float64$"):
        column([None, 1, 10**400])


@pytest.mark.parametrize("wrong", [1.0, True, Fraction(1, 2), np.float64(1), np.bool_(True)])
def test_fractions_and_booleans_in_a_list_are_no_token_counts(wrong):
    with pytest.raises(ColumnTypeError, match=r"^tokens\[1\] is an? .*; expected an integer$"):
        tokens_column([1, wrong])


@pytest.mark.parametrize("wrong", [2**63, -(2**63) - 1, 10**400, np.uint64(2**63)])
def test_a_token_count_beyond_int64_in_a_list_is_named_with_its_row(wrong):
    with pytest.raises(ColumnError, match=r"^tokens\[1\] is beyond int64"):
        tokens_column([1, wrong])


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "c16", "c8", "m8[s]", "V4", [("a", "f8")]])
@pytest.mark.parametrize("column", COLUMNS)
def test_other_dtypes_are_refused_by_name(column, dtype):
    values = np.zeros(3, dtype)
    with pytest.raises(ColumnTypeError) as caught:
        column(values, "mine")
    assert str(caught.value).startswith(f"mine is of dtype {values.dtype}; expected ")


@pytest.mark.parametrize("column", [*SCORE_COLUMNS, tokens_column])
def test_dates_are_refused_where_numbers_are_meant(column):
    with pytest.raises(ColumnTypeError, match=r"is of dtype datetime64\[s\]; expected"):
        column(np.zeros(2, "M8[s]"))


@pytest.mark.parametrize("dtype", ["f4", "f8", "?"])
def test_floats_and_booleans_are_no_token_counts(dtype):
    with pytest.raises(ColumnTypeError, match=r"^tokens is of dtype \w+; expected integers$"):
        tokens_column(np.ones(2, dtype))


@pytest.mark.parametrize(
    "values", [None, 5, 0.5, "abc", b"abc", bytearray(3), {}, {1: 2}, {1.0}, iter([1.0]), object(), (x for x in [1.0])]
)
@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_no_column_is_refused_by_its_type(column, values):
    kind = "None" if values is None else type(values).__name__
    with pytest.raises(ColumnTypeError, match=rf"^\w+ is (an? )?{kind}; expected"):
        column(values)


@pytest.mark.parametrize("column", COLUMNS)
def test_other_shapes_than_one_dimension_are_refused(column):
    dtype = native(column).dtype
    for values in [dtype.type(1), np.array(1, dtype)]:
        with pytest.raises(ColumnError, match=r"is a single value; expected one dimension"):
            column(values)
    with pytest.raises(ColumnError, match=r"has shape \(5, 1\); expected one dimension, \(5,\)$"):
        column(np.zeros((5, 1), dtype))
    with pytest.raises(ColumnError, match=r"has shape \(1, 5\)"):
        column(np.zeros((1, 5), dtype))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_foreign_array_that_fails_is_reported_as_a_column_error(column):
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("detach it first")

    class BrokenDlpack:
        def __dlpack__(self, **options):
            raise BufferError("no layout")

        def __dlpack_device__(self):
            return (1, 0)

    class Objects:
        def __array__(self, dtype=None, copy=None):
            return np.array([1, None], dtype=object)

    with pytest.raises(ColumnTypeError, match=r"^\w+, a Broken, could not be read: detach it first$"):
        column(Broken())
    with pytest.raises(ColumnTypeError, match=r"a BrokenDlpack, could not be read: no layout$"):
        column(BrokenDlpack())
    with pytest.raises(ColumnTypeError, match=r"is of dtype object"):
        column(Objects())


@pytest.mark.parametrize("column", COLUMNS)
def test_dlpack_memory_of_another_device_is_refused_before_it_is_asked_for(column):
    class OnGpu:
        def __dlpack__(self, **options):
            pytest.fail("asked for memory that the CPU cannot read")

        def __dlpack_device__(self):
            return (2, 1)

    with pytest.raises(ColumnTypeError, match=r"^\w+, an OnGpu, is on DLPack device \(2, 1\); expected CPU memory$"):
        column(OnGpu())


def test_errors_name_the_column_as_the_caller_does():
    with pytest.raises(ColumnTypeError, match=r"^my scores is of dtype object"):
        relevance_column(np.zeros(1, object), "my scores")


def test_column_type_errors_are_type_errors_and_value_errors():
    with pytest.raises(TypeError):
        relevance_column(np.zeros(1, object))
    with pytest.raises(ValueError):
        relevance_column(np.zeros(1, object))


# Between columns ------------------------------------------------------------------------------------------------------


def test_lengths_that_differ_are_both_named():
    assert check_lengths(relevance=np.zeros(3), timestamp=np.zeros(3), tokens=None) == 3
    assert check_lengths(relevance=np.zeros(0), tokens=None) == 0
    with pytest.raises(ColumnError, match=r"^relevance has 99 rows, timestamp has 100$"):
        check_lengths(relevance=np.zeros(99), timestamp=np.zeros(100), importance=np.zeros(5))
    with pytest.raises(ColumnError, match=r"^relevance has 99 rows, tokens has 0$"):
        check_lengths(relevance=np.zeros(99), timestamp=np.zeros(99), tokens=np.zeros(0))


def test_a_negative_token_count_is_worded_with_its_row():
    error = negative_tokens_error(17, -3)
    assert type(error) is ColumnError
    assert str(error) == "tokens[17] is -3; expected 0 or more"


# Batches --------------------------------------------------------------------------------------------------------------


@given(data=st.data(), queries=st.integers(0, 4), rows=st.integers(0, 5))
def test_a_matrix_of_scores_of_any_layout_is_what_float_makes_of_each_value(data, queries, rows):
    dtype = np.dtype(data.draw(st.sampled_from(["f8", "f4", "f2", "i4", "?", ">f8", ">f4"])))
    values = data.draw(hnp.arrays(dtype, (queries, rows)))
    expected = [bits(query) for query in values.tolist()]
    for laid in [values, np.asfortranarray(values), values[::-1].copy()[::-1], np.repeat(values, 2, axis=1)[:, ::2]]:
        got = relevance_matrix(laid, rows)
        assert_kernel_layout(got, ndim=2)
        assert got.shape == (queries, rows)
        assert got.dtype == (np.float32 if dtype.newbyteorder("=") == np.float32 else np.float64)
        assert [bits(query) for query in got] == expected
    assert [bits(query) for query in relevance_matrix(list(values), rows)] == expected
    assert [bits(query) for query in relevance_matrix(values.tolist(), rows)] == expected


def test_a_plain_matrix_shares_its_memory():
    for dtype in [np.float64, np.float32]:
        values = np.zeros((3, 4), dtype)
        assert np.shares_memory(relevance_matrix(values, 4), values)


def test_a_null_in_a_matrix_is_a_half():
    masked = np.ma.array(np.ones((2, 2)), mask=[[0, 1], [0, 0]])
    assert relevance_matrix(masked, 2).tolist() == [[1.0, 0.5], [1.0, 1.0]]
    assert relevance_matrix([[1, None], np.array([1, 1])], 2).tolist() == [[1.0, 0.5], [1.0, 1.0]]


def test_a_list_of_float32_queries_stays_float32_unless_one_is_wider():
    narrow = np.ones(2, np.float32)
    assert relevance_matrix([narrow, narrow], 2).dtype == np.float32
    assert relevance_matrix([narrow, [1.0, 1.0]], 2).dtype == np.float64


def test_a_matrix_that_does_not_fit_is_refused():
    with pytest.raises(ColumnError, match=r"^relevance has shape \(5,\); expected \(queries, 5\)$"):
        relevance_matrix(np.zeros(5), 5)
    with pytest.raises(ColumnError, match=r"^relevance has 4 scores a query; expected 5, one a row$"):
        relevance_matrix(np.zeros((2, 4)), 5)
    with pytest.raises(ColumnError, match=r"^relevance\[1\] has 1 scores; expected 2, one a row$"):
        relevance_matrix([[1, 2], [3]], 2)
    with pytest.raises(ColumnTypeError, match=r"^relevance\[1\] is a float"):
        relevance_matrix([[1, 2], 3.0], 2)
    with pytest.raises(ColumnTypeError, match=r"^relevance\[1\]\[0\] is a str; expected a number$"):
        relevance_matrix([[1, 2], ["a", 2]], 2)
    with pytest.raises(ColumnTypeError, match=r"^relevance is of dtype object; expected real numbers$"):
        relevance_matrix(np.zeros((2, 2), object), 2)


def test_offsets_run_from_nothing_to_all_rows():
    for offsets in [[0, 2, 2, 5], np.array([0, 2, 2, 5], np.uint32), np.array([0, 2, 2, 5], ">i4")]:
        got = offsets_column(offsets, 5)
        assert_kernel_layout(got)
        assert got.dtype == np.int64
        assert got.tolist() == [0, 2, 2, 5]
    assert offsets_column([0], 0).tolist() == [0]


@pytest.mark.parametrize(
    "offsets, message",
    [
        ([], "offsets is empty; expected one value more than there are queries"),
        ([1, 5], "offsets[0] is 1; expected 0"),
        ([-1, 5], "offsets[0] is -1; expected 0"),
        ([0, 3, 2, 5], "offsets[2] is 2; expected 3 or more, as offsets[1]"),
        ([0, 2**63 - 1, -(2**63), 5], f"offsets[2] is {-(2**63)}; expected {2**63 - 1} or more, as offsets[1]"),
        ([0, 6], "offsets[1] is 6; expected 5, the number of rows"),
        ([0, 4], "offsets[1] is 4; expected 5, the number of rows"),
        ([0], "offsets[0] is 0; expected 5, the number of rows"),
        ([0, None], "offsets[1] is null; expected an integer"),
    ],
)
def test_a_fault_in_offsets_is_named_with_its_position(offsets, message):
    with pytest.raises(ColumnError) as caught:
        offsets_column(offsets, 5)
    assert str(caught.value) == message


def test_offsets_of_floats_are_refused():
    with pytest.raises(ColumnTypeError, match=r"^offsets is of dtype float64; expected integers$"):
        offsets_column(np.array([0.0, 5.0]), 5)


def test_sparse_scores_become_three_columns():
    indptr, rows, scores = sparse_scores([0, 2, 2, 3], np.array([4, 0, 4], np.int32), np.array([1, 2, 3], "f4"), 5)
    assert indptr.tolist() == [0, 2, 2, 3]
    assert rows.tolist() == [4, 0, 4]
    assert scores.tolist() == [1.0, 2.0, 3.0]
    assert (indptr.dtype, rows.dtype, scores.dtype) == (np.int64, np.int64, np.float64)
    for column in (indptr, rows, scores):
        assert_kernel_layout(column)
    assert [column.tolist() for column in sparse_scores([0, 1], [0], [None], 1)] == [[0, 1], [0], [0.5]]
    assert [column.tolist() for column in sparse_scores([0, 0], [], [], 0)] == [[0, 0], [], []]


@pytest.mark.parametrize(
    "sparse, message",
    [
        (([0, 2], [0, 5], [1, 1], 5), "rows[1] is 5; expected 0 to 4"),
        (([0, 2], [0, -1], [1, 1], 5), "rows[1] is -1; expected 0 to 4"),
        (([0, 1], [0], [1], 0), "rows[0] is 0; expected none, since there are no rows"),
        (([0, 2], [0, 1], [1], 5), "rows has 2 rows, scores has 1"),
        (([0, 1], [0, 1], [1, 1], 5), "indptr[1] is 1; expected 2, the number of rows"),
    ],
)
def test_a_fault_in_sparse_scores_is_named_with_its_position(sparse, message):
    with pytest.raises(ColumnError) as caught:
        sparse_scores(*sparse)
    assert str(caught.value) == message
