"""Whatever a caller brings, as the columns that the kernel reads.

The one place that says what is wrong with a column. Everything here either returns a plain NumPy array, C-contiguous,
aligned and of native byte order, or raises ColumnError or ColumnTypeError naming the column, what was found and what is
wanted. A column that already has the kernel's layout comes back as itself or as a view of the same memory; anything
else is copied. Nothing is ever written to what came in, and a result may be read-only.

Two steps: `_read` takes the values out of whatever holds them, without a copy where that can be; the functions named
after columns then convert what it found. Lists have no such first step and are converted value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from memsel import _arrow
from memsel.errors import ColumnError, ColumnTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

    _Floats: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.float32]

__all__ = [
    "check_lengths",
    "importance_column",
    "negative_tokens_error",
    "offsets_column",
    "relevance_column",
    "relevance_matrix",
    "sparse_scores",
    "timestamp_column",
    "tokens_column",
]

_FLOAT64 = np.dtype(np.float64)
_FLOAT32 = np.dtype(np.float32)
_INT64 = np.dtype(np.int64)
_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
# C_CONTIGUOUS and ALIGNED in ndarray.flags.num: one attribute read instead of two.
_PLAIN = 0x001 | 0x100
# Rows converted at a time where a conversion takes several passes, so that its temporaries stay in the cache.
_BLOCK = 1 << 14

_NULL_RELEVANCE = 0.5

# The step between neighbouring values of the narrow types at 1.7e9, the present in epoch seconds.
_NARROW_TIMES = {2: "ends at 65504", 4: "has a step of 128 s at the present date"}

# Seconds a unit of datetime64 lasts, as a fraction. Years and months have no fixed length and become days first.
_UNIT_SECONDS = {
    "W": (604_800, 1),
    "D": (86_400, 1),
    "h": (3_600, 1),
    "m": (60, 1),
    "s": (1, 1),
    "ms": (1, 10**3),
    "us": (1, 10**6),
    "ns": (1, 10**9),
    "ps": (1, 10**12),
    "fs": (1, 10**15),
    "as": (1, 10**18),
}


class _Raw(NamedTuple):
    """Values as they came: an array of any dtype and layout, and True where null.

    With a `unit`, which Arrow has beside its integers, they are times counted in it. `foreign_type` names the type in
    the words of whoever the values came from, where that is not NumPy.
    """

    values: npt.NDArray[Any]
    nulls: npt.NDArray[np.bool_] | None = None
    foreign_type: str | None = None
    unit: str | None = None

    @property
    def type_name(self) -> str:
        return self.foreign_type or f"of dtype {self.values.dtype}"


def relevance_column(values: Any, name: str = "relevance") -> _Floats:
    """Return scores as float64, or as float32 where they come as float32; a null is 0.5, as a score never given.

    Each value is what `float()` makes of it. Integers, booleans and float16 become float64. Raises ColumnTypeError for
    anything that is not made of real numbers, ColumnError for a shape other than one dimension.
    """
    if (
        type(values) is np.ndarray
        and (values.dtype is _FLOAT64 or values.dtype is _FLOAT32)
        and values.ndim == 1
        and values.flags.num & _PLAIN == _PLAIN
    ):
        return values
    return _score_column(values, name, _NULL_RELEVANCE)


def importance_column(values: Any, name: str = "importance") -> _Floats:
    """Return effective importances as float64, or as float32 where they come as float32; a null is NaN.

    Reads and refuses what `relevance_column` does. A row whose importance is NaN is never kept.
    """
    if (
        type(values) is np.ndarray
        and (values.dtype is _FLOAT64 or values.dtype is _FLOAT32)
        and values.ndim == 1
        and values.flags.num & _PLAIN == _PLAIN
    ):
        return values
    return _score_column(values, name, np.nan)


def timestamp_column(values: Any, name: str = "timestamp") -> npt.NDArray[np.float64]:
    """Return times as float64 seconds since 1970-01-01T00:00Z; NaT and null are NaN.

    Numbers are epoch seconds. datetime64 and Arrow timestamps and dates of any unit and zone become the float64 nearest
    to value / units per second, ties to even; those without a zone are UTC. Raises ColumnTypeError for float32 and
    float16, which cannot hold a present date, and for what is neither a real number nor a time; ColumnError for a shape
    other than one dimension.
    """
    if (
        type(values) is np.ndarray
        and values.dtype is _FLOAT64
        and values.ndim == 1
        and values.flags.num & _PLAIN == _PLAIN
    ):
        return values
    if isinstance(values, _LISTS):
        return _numbers_of_list(values, name, np.nan, times=True)
    raw = _read(values, name)
    _check_vector(raw.values, name)
    kind = raw.values.dtype.kind
    if raw.unit is not None:
        seconds = _seconds(_plain(raw.values, _INT64), *_UNIT_SECONDS[raw.unit])
    elif kind == "M":
        seconds = _seconds_of_dates(raw.values, name)
    elif kind == "f" and raw.values.dtype.itemsize < 8:
        _fail_narrow_time(name, raw.type_name, raw.values.dtype.itemsize)
    elif kind in "fiub":
        seconds = _plain(raw.values, _FLOAT64)
    else:
        raise ColumnTypeError(f"{name} is {raw.type_name}; expected epoch seconds (float64 or integers) or datetime64")
    return _filled(seconds, raw.nulls, np.nan)


def tokens_column(values: Any, name: str = "tokens") -> npt.NDArray[np.int64]:
    """Return token counts as int64. Any integer type is read; the sign is left for the kernel to check.

    A column without rows may be of floats, since NumPy makes `[]` a float64. Raises ColumnTypeError for floats,
    booleans and whatever else is no integer; ColumnError, naming the row, for a null and for a value beyond int64.
    """
    if (
        type(values) is np.ndarray
        and values.dtype is _INT64
        and values.ndim == 1
        and values.flags.num & _PLAIN == _PLAIN
    ):
        return values
    return _integer_column(values, name)


def negative_tokens_error(row: int, value: int, name: str = "tokens") -> ColumnError:
    """Return the error that says that `row` counts fewer than no tokens."""
    return ColumnError(f"{name}[{row}] is {value}; expected 0 or more")


def check_lengths(**columns: npt.NDArray[Any] | None) -> int:
    """Return the number of rows that all columns given share; None stands for a column that is not there.

    Raises ColumnError naming the first column and the one that differs from it.
    """
    first, rows = "", -1
    for name, column in columns.items():
        if column is None:
            continue
        if rows < 0:
            first, rows = name, len(column)
        elif len(column) != rows:
            raise ColumnError(f"{first} has {rows} rows, {name} has {len(column)}")
    return max(rows, 0)


def relevance_matrix(values: Any, rows: int, name: str = "relevance") -> _Floats:
    """Return a score for each query (first axis) and row (second): C-contiguous, float64 or float32, a null is 0.5.

    Reads a matrix from whatever `relevance_column` reads a column from, Arrow excepted, or from a list of such columns,
    one a query. Raises ColumnError when it is not (queries, `rows`), ColumnTypeError as `relevance_column`.
    """
    if isinstance(values, _LISTS):
        queries = [relevance_column(column, f"{name}[{query}]") for query, column in enumerate(values)]
        for query, column in enumerate(queries):
            if len(column) != rows:
                raise ColumnError(f"{name}[{query}] has {len(column)} scores; expected {rows}, one a row")
        if not queries:
            return np.empty((0, rows))
        dtype: np.dtype[Any] = _FLOAT32 if all(column.dtype == _FLOAT32 for column in queries) else _FLOAT64
        return np.array(queries, dtype=dtype)
    raw = _read(values, name)
    if raw.values.ndim != 2:
        raise ColumnError(f"{name} has shape {raw.values.shape}; expected (queries, {rows})")
    if raw.values.shape[1] != rows:
        raise ColumnError(f"{name} has {raw.values.shape[1]} scores a query; expected {rows}, one a row")
    return _scores(raw, name, _NULL_RELEVANCE)


def offsets_column(values: Any, rows: int, name: str = "offsets") -> npt.NDArray[np.int64]:
    """Return where each query's rows begin, and last where they end, as int64: from 0, never falling, to `rows`.

    Raises ColumnError naming the first position that breaks this, ColumnTypeError for what is not made of integers.
    """
    offsets = tokens_column(values, name)
    if not len(offsets):
        raise ColumnError(f"{name} is empty; expected one value more than there are queries")
    if offsets[0] != 0:
        raise ColumnError(f"{name}[0] is {offsets[0]}; expected 0")
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        at = int(falls.argmax()) + 1
        raise ColumnError(f"{name}[{at}] is {offsets[at]}; expected {offsets[at - 1]} or more, as {name}[{at - 1}]")
    if offsets[-1] != rows:
        raise ColumnError(f"{name}[{len(offsets) - 1}] is {offsets[-1]}; expected {rows}, the number of rows")
    return offsets


def sparse_scores(
    indptr: Any, rows: Any, scores: Any, n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return scores given for some rows only: query q scores `rows[indptr[q]:indptr[q + 1]]`, each in 0 to n - 1.

    int64, int64 and float64 columns; a null score is 0.5. Raises ColumnError naming the position of what does not fit.
    """
    at = tokens_column(rows, "rows")
    given = relevance_column(scores, "scores")
    check_lengths(rows=at, scores=given)
    bounds = offsets_column(indptr, len(at), "indptr")
    outside = (at < 0) | (at >= n)
    if outside.any():
        first = int(outside.argmax())
        wanted = f"0 to {n - 1}" if n else "none, since there are no rows"
        raise ColumnError(f"rows[{first}] is {at[first]}; expected {wanted}")
    return bounds, at, _plain(given, _FLOAT64)


# Lists ----------------------------------------------------------------------------------------------------------------

_LISTS = (list, tuple, range)


def _numbers_of_list(values: Sequence[Any], name: str, null: float, *, times: bool = False) -> npt.NDArray[np.float64]:
    """What float() makes of each value of a list, None being null. Types are looked at once each, not once a row."""
    values = _without_0d_arrays(values)
    types = set(map(type, values))
    narrow = {found for found in types if times and issubclass(found, (np.float16, np.float32))}
    wrong = {found for found in types - _FLOAT_TYPES if not _has_float(found)} | narrow
    if wrong:
        row, value = _first_of(values, wrong)
        if type(value) in narrow:
            _fail_narrow_time(f"{name}[{row}]", f"{_a(value)}", value.itemsize)
        raise ColumnTypeError(f"{name}[{row}] is {_a(value)}; expected {'epoch seconds' if times else 'a number'}")
    try:
        # NumPy reads None as NaN here, and every number by its __float__; a long double beyond float64 is infinite.
        with np.errstate(all="ignore"):
            column = np.array(values, dtype=_FLOAT64)
    except (ArithmeticError, TypeError, ValueError):
        column = np.array([np.nan if value is None else _float_of(value, name, at) for at, value in enumerate(values)])
    if type(None) in types and null == null:
        column[np.fromiter((value is None for value in values), np.bool_, len(values))] = null
    return column


def _integers_of_list(values: Sequence[Any], name: str) -> npt.NDArray[np.int64]:
    """A list of integers as int64; a null, a fraction or a value beyond int64 is named with its row."""
    values = _without_0d_arrays(values)
    others = set(map(type, values)) - {int}
    wrong = {found for found in others if not issubclass(found, Integral) or issubclass(found, bool)}
    if wrong:
        row, value = _first_of(values, wrong)
        if value is None:
            _fail_null(name, row)
        raise ColumnTypeError(f"{name}[{row}] is {_a(value)}; expected an integer")
    try:
        # NumPy would let an unsigned scalar of its own wrap around; int() does not.
        return np.array([int(value) for value in values] if others else values, dtype=_INT64)
    except OverflowError:
        row = next(row for row, value in enumerate(values) if not _INT64_MIN <= int(value) <= _INT64_MAX)
        raise ColumnError(f"{name}[{row}] is beyond int64; expected {_INT64_MIN} to {_INT64_MAX}") from None


_FLOAT_TYPES = {float, int, bool, type(None)}


def _has_float(found: type) -> bool:
    """Whether values of the type are real numbers that multiply with a float, which Decimal is not."""
    return issubclass(found, (Real, np.bool_))


def _without_0d_arrays(values: Sequence[Any]) -> Sequence[Any]:
    """The list with every array of no dimensions replaced by its NumPy scalar; the very list where there is none."""
    if not any(issubclass(found, np.ndarray) for found in set(map(type, values))):
        return values
    return [value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value for value in values]


def _first_of(values: Sequence[Any], types: set[type]) -> tuple[int, Any]:
    return next((row, value) for row, value in enumerate(values) if type(value) in types)


def _float_of(value: Any, name: str, row: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ColumnError(f"{name}[{row}] is beyond the range of float64") from None
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ColumnTypeError(f"{name}[{row}], {_a(value)}, has no float: {error}") from error


# From whatever holds them to an array ---------------------------------------------------------------------------------


def _read(values: Any, name: str) -> _Raw:
    """Take the values out of whatever holds them; `values` is no list."""
    if isinstance(values, np.ndarray):
        return _read_ndarray(values)
    try:
        return _read_foreign(values, name)
    except (ColumnError, MemoryError):
        raise
    except Exception as error:
        raise ColumnTypeError(f"{name}, {_a(values)}, could not be read: {error}") from error


def _read_foreign(values: Any, name: str) -> _Raw:
    """Another library's column: pandas', or through Arrow, the buffer protocol, the array protocols or DLPack."""
    if isinstance(values, (str, bytes, bytearray)):
        raise ColumnTypeError(f"{name} is {_a(values)}; expected a column of numbers")
    dtype = getattr(values, "dtype", None)
    # What says that its dtype is one of NumPy's has no nulls but NumPy's. Arrow would make nulls of a pandas
    # column's NaNs, and could do so only where pyarrow is installed.
    if not isinstance(dtype, np.dtype):
        if hasattr(values, "isna"):
            if dtype is not None:
                return _read_pandas(values, dtype)
        elif hasattr(values, "__arrow_c_array__"):
            return _read_arrow(_arrow.read_array(*values.__arrow_c_array__()), name)
        elif hasattr(values, "__arrow_c_stream__"):
            return _read_arrow(_arrow.read_stream(values.__arrow_c_stream__()), name)
    if any(hasattr(values, how) for how in _ARRAY_PROTOCOLS) or _has_buffer(values):
        return _read_ndarray(np.asarray(values))
    if hasattr(values, "__dlpack__"):
        _check_device(values, name)
        return _read_ndarray(np.from_dlpack(values))
    raise ColumnTypeError(f"{name} is {_a(values)}; expected an array, an Arrow column or a list of numbers")


_ARRAY_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__")


def _read_ndarray(array: npt.NDArray[Any]) -> _Raw:
    if type(array) is np.ndarray or not isinstance(array, np.ma.MaskedArray):
        return _Raw(np.asarray(array))
    mask = np.ma.getmaskarray(array)
    return _Raw(np.asarray(array), mask if mask.dtype == np.bool_ and mask.any() else None)


def _read_pandas(series: Any, dtype: Any) -> _Raw:
    """A pandas column whose type is pandas' own, recognised without importing pandas: its nulls are in `isna`.

    Its `__array__` gives objects, among which a null is not the same in every version and a zone not worth reading.
    """
    kind = getattr(dtype, "kind", "O")
    type_name = f"of pandas dtype {dtype}"
    if kind == "M":
        # A datetime64 asked for by name is in UTC whatever the zone, and NaT where null.
        unit = getattr(dtype, "unit", None) or np.datetime_data(dtype.numpy_dtype)[0]
        return _Raw(np.asarray(series.to_numpy(dtype=f"M8[{unit}]")), None, type_name)
    if kind in "biuf" and hasattr(dtype, "numpy_dtype"):
        nulls = np.asarray(series.isna(), dtype=np.bool_)
        plain = np.asarray(series.to_numpy(dtype=dtype.numpy_dtype, na_value=0))
        return _Raw(plain, nulls if nulls.any() else None, type_name)
    return _Raw(np.asarray(series), None, type_name)


def _has_buffer(values: Any) -> bool:
    try:
        memoryview(values).release()
    except TypeError:
        return False
    return True


# DLPack's numbers for memory that the CPU reads: its own, pinned for CUDA, pinned for ROCm, and managed by CUDA.
_CPU_DEVICES = {1, 3, 11, 13}


def _check_device(values: Any, name: str) -> None:
    device = getattr(values, "__dlpack_device__", None)
    if device is None:
        return
    kind, number = device()
    if int(kind) not in _CPU_DEVICES:
        raise ColumnTypeError(
            f"{name}, {_a(values)}, is on DLPack device ({int(kind)}, {int(number)}); expected CPU memory"
        )


# From Arrow's buffers to an array ------------------------------------------------------------------------------------

_ARROW_NUMBERS: dict[str, np.dtype[Any]] = {
    "b": np.dtype(np.bool_),
    "c": np.dtype(np.int8),
    "C": np.dtype(np.uint8),
    "s": np.dtype(np.int16),
    "S": np.dtype(np.uint16),
    "i": np.dtype(np.int32),
    "I": np.dtype(np.uint32),
    "l": np.dtype(np.int64),
    "L": np.dtype(np.uint64),
    "e": np.dtype(np.float16),
    "f": np.dtype(np.float32),
    "g": np.dtype(np.float64),
}
_ARROW_TIMES: dict[str, tuple[np.dtype[Any], str]] = {
    "tdD": (np.dtype(np.int32), "D"),
    "tdm": (np.dtype(np.int64), "ms"),
    "tss": (np.dtype(np.int64), "s"),
    "tsm": (np.dtype(np.int64), "ms"),
    "tsu": (np.dtype(np.int64), "us"),
    "tsn": (np.dtype(np.int64), "ns"),
}
# Arrow's format strings for types of one name each, and how those start that go on with parameters.
_ARROW_NAMES = {
    "n": "null",
    "u": "string",
    "U": "large_string",
    "vu": "string_view",
    "z": "binary",
    "Z": "large_binary",
    "vz": "binary_view",
    "tdD": "date32",
    "tdm": "date64",
    "+s": "struct",
    "+l": "list",
    "+L": "large_list",
    "+vl": "list_view",
    "+vL": "large_list_view",
    "+m": "map",
    "+r": "run_end_encoded",
}
_ARROW_PREFIXES = {
    "ts": "timestamp",
    "tt": "time",
    "tD": "duration",
    "ti": "interval",
    "d:": "decimal",
    "w:": "fixed_size_binary",
    "+w": "fixed_size_list",
    "+u": "union",
}
_ARROW_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}


def _read_arrow(column: _arrow.Column, name: str) -> _Raw:
    """The values of an imported Arrow column, over its own memory when it has one chunk of a fixed-width type."""
    if column.fields != 1:
        raise ColumnError(f"{name} is {column.fields} Arrow columns; expected one")
    coded = column.dictionary_format is not None
    held = column.format if column.dictionary_format is None else column.dictionary_format
    type_name = f"of Arrow type {_arrow_type_name(held)}{', dictionary-encoded' if coded else ''}"
    if not column.readable:
        raise ColumnTypeError(f"{name} is {type_name}; expected numbers")
    if held == "n":
        rows = sum(chunk.length for chunk in column.chunks)
        return _Raw(np.zeros(rows, np.int64), np.ones(rows, np.bool_) if rows else None, type_name)
    dtype, unit = _ARROW_TIMES[held[:3]] if held[:3] in _ARROW_TIMES else (_ARROW_NUMBERS[held], None)
    if coded:
        codes_dtype = _ARROW_NUMBERS[column.format]
        parts = [_decoded_chunk(chunk, codes_dtype, dtype, name) for chunk in column.chunks]
    else:
        parts = [_chunk_values(chunk, dtype) for chunk in column.chunks]
    if len(parts) == 1:
        return _Raw(*parts[0], type_name, unit)
    values = np.concatenate([np.empty(0, dtype), *(part for part, _ in parts)])
    nulls = None
    if any(mask is not None for _, mask in parts):
        masks = (np.zeros(len(part), np.bool_) if mask is None else mask for part, mask in parts)
        nulls = np.concatenate(list(masks))
    return _Raw(values, nulls, type_name, unit)


def _chunk_values(chunk: _arrow.Chunk, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """A chunk's values and, if there are any, where its nulls are."""
    if chunk.values is None:
        return np.empty(0, dtype), None
    buffer, first = chunk.values
    # What the buffer covers stays alive as long as the array over it.
    of_bits = dtype == np.bool_
    values = _bits(buffer, first, chunk.length) if of_bits else np.frombuffer(memoryview(buffer), dtype)
    nulls = None
    for bitmap, first in chunk.validity:
        missing = ~_bits(bitmap, first, chunk.length)
        nulls = missing if nulls is None else nulls | missing
    return values, nulls if nulls is not None and nulls.any() else None


def _bits(buffer: _arrow.Buffer, first: int, count: int) -> npt.NDArray[np.bool_]:
    """`count` bits from the bit `first` on, of bytes whose lowest bit comes first."""
    bits = np.unpackbits(np.frombuffer(memoryview(buffer), np.uint8), count=first + count, bitorder="little")
    return bits[first:].view(np.bool_)


def _decoded_chunk(
    chunk: _arrow.Chunk, codes_dtype: np.dtype[Any], dtype: np.dtype[Any], name: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """What `_chunk_values` gives for the values that a chunk's codes stand for. The code of a null may be anything."""
    assert chunk.dictionary is not None
    codes, nulls = _chunk_values(chunk, codes_dtype)
    meanings, meaningless = _chunk_values(chunk.dictionary, dtype)
    outside = (codes < 0) | (codes >= len(meanings))
    if nulls is not None:
        outside &= ~nulls
    if outside.any():
        row = int(outside.argmax())
        raise ColumnError(f"{name}[{row}] has code {codes[row]}; expected one of the {len(meanings)} of its dictionary")
    if nulls is not None:
        codes = np.where(nulls, 0, codes)
        if not len(meanings):
            return np.zeros(len(codes), dtype), nulls
    values = meanings[codes]
    if meaningless is not None:
        nulls = meaningless[codes] if nulls is None else nulls | meaningless[codes]
    return values, nulls


def _arrow_type_name(format: str) -> str:
    """The name that Arrow's documentation gives the type of a format string."""
    if format in _ARROW_NUMBERS:
        return _ARROW_NUMBERS[format].name
    if format in _ARROW_NAMES:
        return _ARROW_NAMES[format]
    if format[:2] not in _ARROW_PREFIXES:
        return f"with the format {format!r}"
    kind, parameters = _ARROW_PREFIXES[format[:2]], format[2:]
    if kind in ("timestamp", "time", "duration") and parameters[:1] in _ARROW_UNITS:
        unit, zone = _ARROW_UNITS[parameters[0]], parameters[2:]
        return f"{kind}[{unit}, {zone}]" if zone else f"{kind}[{unit}]"
    return f"{kind}({parameters.lstrip(':')})"


# From an array to a column --------------------------------------------------------------------------------------------


def _score_column(values: Any, name: str, null: float) -> _Floats:
    if isinstance(values, _LISTS):
        return _numbers_of_list(values, name, null)
    raw = _read(values, name)
    _check_vector(raw.values, name)
    return _scores(raw, name, null)


def _scores(raw: _Raw, name: str, null: float) -> _Floats:
    dtype = raw.values.dtype
    if dtype.kind not in "fiub" or raw.unit is not None:
        raise ColumnTypeError(f"{name} is {raw.type_name}; expected real numbers")
    narrow = dtype.kind == "f" and dtype.itemsize == 4
    return _filled(_plain(raw.values, _FLOAT32 if narrow else _FLOAT64), raw.nulls, null)


def _integer_column(values: Any, name: str) -> npt.NDArray[np.int64]:
    if isinstance(values, _LISTS):
        return _integers_of_list(values, name)
    raw = _read(values, name)
    _check_vector(raw.values, name)
    array = raw.values
    if raw.unit is not None or (array.dtype.kind not in "iu" and (array.size or array.dtype.kind != "f")):
        raise ColumnTypeError(f"{name} is {raw.type_name}; expected integers")
    if raw.nulls is not None:
        _fail_null(name, int(raw.nulls.argmax()))
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        beyond = array > np.uint64(_INT64_MAX)
        if beyond.any():
            row = int(beyond.argmax())
            raise ColumnError(f"{name}[{row}] is {array[row]}; expected at most {_INT64_MAX}, the end of int64")
    return _plain(array, _INT64)


def _check_vector(array: npt.NDArray[Any], name: str) -> None:
    if array.ndim == 0:
        raise ColumnError(f"{name} is a single value; expected one dimension, a value a row")
    if array.ndim != 1:
        raise ColumnError(f"{name} has shape {array.shape}; expected one dimension, ({array.shape[0]},)")


def _plain(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The array with this dtype, C-contiguous and aligned: itself if it is, else a copy."""
    if array.dtype != dtype:
        # A signalling NaN and a long double beyond float64 convert as C converts them; neither is worth a warning.
        with np.errstate(all="ignore"):
            return array.astype(dtype, order="C")
    return array if array.flags.num & _PLAIN == _PLAIN else array.copy(order="C")


def _filled(column: npt.NDArray[Any], nulls: npt.NDArray[np.bool_] | None, null: float) -> npt.NDArray[Any]:
    """The column with its nulls replaced, in a copy: it may still be the caller's memory."""
    if nulls is None:
        return column
    column = column.copy()
    column[nulls] = null
    return column


# Times ----------------------------------------------------------------------------------------------------------------


def _seconds_of_dates(dates: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """Epoch seconds of a datetime64 array of any unit, multiple, byte order and layout; NaT is NaN."""
    unit, count = np.datetime_data(dates.dtype)
    missing = np.isnat(dates)
    some_missing = bool(missing.any())
    ticks = _plain(dates, dates.dtype.newbyteorder("=")).view(_INT64)
    if some_missing:
        # NaT is the least int64, which would send its neighbours the slow way.
        ticks = np.where(missing, 0, ticks)
    if unit == "generic":
        if not missing.all():
            raise ColumnTypeError(f"{name} is of dtype datetime64 without a unit; expected one such as datetime64[us]")
        return np.full(len(dates), np.nan)
    if unit in ("Y", "M"):
        seconds = _seconds_of_months(ticks, count * (12 if unit == "Y" else 1))
    else:
        numerator, denominator = _UNIT_SECONDS[unit]
        seconds = _seconds(ticks, numerator * count, denominator)
    if some_missing:
        seconds[missing] = np.nan
    return seconds


def _seconds_of_months(ticks: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.float64]:
    """Epoch seconds at the start of the month `ticks * count` months after January 1970."""
    # The calendar repeats every 400 years: the month within the cycle goes through NumPy, which cannot overflow there,
    # and Python's integers, which cannot overflow at all, count the cycles.
    months = [int(tick) * count for tick in ticks]
    within = np.array([month % 4_800 for month in months], dtype="M8[M]").astype("M8[D]").view(_INT64)
    days = (month // 4_800 * 146_097 + int(day) for month, day in zip(months, within, strict=True))
    return np.fromiter((float(day * 86_400) for day in days), _FLOAT64, len(months))


def _seconds(ticks: npt.NDArray[np.int64], numerator: int, denominator: int) -> npt.NDArray[np.float64]:
    """The float64 nearest to ticks * numerator / denominator, ties to even, for every int64.

    `denominator` is a power of ten up to 1e18; one factor is 1 or the other a whole multiple of datetime64.
    """
    seconds = np.empty(len(ticks))
    for start in range(0, len(ticks), _BLOCK):
        block = slice(start, start + _BLOCK)
        _divide_block(ticks[block], numerator, denominator, seconds[block])
    return seconds


# Up to here an int64 is a float64 too.
_EXACT = 2**53


def _divide_block(
    ticks: npt.NDArray[np.int64], numerator: int, denominator: int, seconds: npt.NDArray[np.float64]
) -> None:
    """Fill `seconds` with correctly rounded ticks * numerator / denominator.

    Let v = ticks * numerator, within int64, d = denominator = 10^k, x = v / d. Each of four ways rounds x once:

    1. d = 1: the conversion of an int64 to float64 is correctly rounded.
    2. |v| <= 2^53: v is exact in float64, and so is d, since 10^18 = 2^18 * 5^18 and 5^18 < 2^53. One IEEE division
       of two exact operands is correctly rounded.
    3. |v| > 2^53, k is 3, 6 or 9, and |x| <= 2^53: with v = q*d + r, 0 <= r < d, it is fl(q + t) where t = fl(r / d),
       and q is exact. If r = 0 then q + t = x. Otherwise q + t may differ from x, and their roundings agree if no
       midpoint of two neighbouring float64 lies between them or is one of them.
       Let 2^e <= |x| < 2^(e+1). |x| > 2^53 / 10^9 > 1, so 2^e is an integer, and so are q and q + 1, with x strictly
       between them: x and q + t lie in one closed binade, whose floats and midpoints are the multiples of 2^-p with
       p = 53 - e.
       If x is such a multiple, then so is r / d, which is below 1. As p <= 30 (shown last), it is exact in float64:
       t = r / d and q + t = x.
       If not, then x is far from all of them: |x - m * 2^-p| = |v * 2^p - m * d| / (d * 2^p), and the numerator, which
       is not 0, is a multiple of g = 2^min(p, k), since that divides 2^p and d = 2^k * 5^k. But |t - r / d| <= 2^-54,
       half a unit in the last place of a number below 1. So no midpoint lies between if d * 2^p / g < 2^54.
       As 2^53 / d < |x| < 2^(e+1), 2^p = 2^(53-e) < 2 * d. For k = 3 and k = 6, p <= 20 and d * 2^p < 2 * d^2 <= 2e12.
       For k = 9, p <= 30, and p >= 20 since |x| < 2^34; so g = 2^9, and d * 2^p / g < 2^30 * 2^30 / 2^9 = 2^51.
    4. Whatever is left (ps and finer beyond 2^53, products beyond int64, the outermost ms) Python divides, whose
       quotient of two integers of any size is correctly rounded.
    """
    low, high = int(ticks.min()) * numerator, int(ticks.max()) * numerator
    if low >= _INT64_MIN and high <= _INT64_MAX:
        product = ticks * numerator if numerator != 1 else ticks
        if denominator == 1:
            seconds[:] = product
            return
        if low >= -_EXACT and high <= _EXACT:
            np.divide(product, float(denominator), out=seconds)
            return
        if denominator in (10**3, 10**6, 10**9) and low >= -_EXACT * denominator and high < _EXACT * denominator:
            whole = product // denominator
            np.divide(product - whole * denominator, float(denominator), out=seconds)
            seconds += whole
            exact = (product >= -_EXACT) & (product <= _EXACT)
            if exact.any():
                seconds[exact] = product[exact] / float(denominator)
            return
    for row, tick in enumerate(ticks.tolist()):
        seconds[row] = tick * numerator / denominator


# What does not fit ----------------------------------------------------------------------------------------------------


def _a(values: Any) -> str:
    if values is None:
        return "None"
    name = type(values).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _fail_null(name: str, row: int) -> NoReturn:
    raise ColumnError(f"{name}[{row}] is null; expected an integer")


def _fail_narrow_time(name: str, type_name: str, size: int) -> NoReturn:
    raise ColumnTypeError(f"{name} is {type_name}, which {_NARROW_TIMES[size]}; expected float64, integers or dates")
