"""Many composite rankings in one Arrow IPC stream: columns in, the kept rows out.

A stream comes from strangers, so everything that could make a small body large is refused before it is read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import select_batch
from ..errors import InputError
from .wire import Fault, RankSettings, moment, path_of, selection_config

if TYPE_CHECKING:
    import pyarrow

__all__ = ["MEDIA_TYPE", "rank_stream"]

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
_NEEDED = ("query", "relevance", "timestamp", "importance")
_OPTIONAL = ("tokens",)


def rank_stream(body: bytes, settings: RankSettings, most_rows: int) -> bytes:
    """The rows kept for each query of a stream, as a stream.

    In: ``query`` (integers that never fall: rows with one number are one query's candidates), ``relevance``,
    ``timestamp``, ``importance`` (decay applied) and perhaps ``tokens``, as ``select_arrays`` takes them. Out, best
    first within each query: ``query``, ``row`` (counted over the whole stream), ``rank`` from 1, ``score``,
    ``relevance``, ``recency``, ``importance``.

    Raises:
        Fault: 415 where pyarrow is not installed, 413 for too many rows, 400 for whatever else is wrong.
    """
    try:
        import pyarrow
    except ModuleNotFoundError:
        hint = "Arrow streams need pyarrow here; install it with: pip install 'memsel[arrow]'"
        raise Fault(415, "unsupported_media_type", hint) from None
    columns = _columns(pyarrow, body, most_rows)
    query = columns.pop("query").to_numpy(zero_copy_only=False)
    if np.any(query[1:] < query[:-1]):
        raise Fault(400, "invalid_request", "query falls; expected the rows of one query side by side", "$.query")
    first = np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1]))) if len(query) else np.empty(0, np.int64)
    offsets = np.append(first, len(query))
    try:
        config = selection_config(settings)
        selections = select_batch(**columns, offsets=offsets, config=config, now=moment(settings.now))
    except (InputError, ArithmeticError, TypeError, ValueError) as error:
        raise Fault(400, "invalid_request", str(error), path_of(str(error))) from None
    counts = [len(selection.indices) for selection in selections]

    def joined(part: str, kind: Any = np.float64) -> Any:
        return np.concatenate([np.empty(0, kind), *(getattr(selection, part) for selection in selections)])

    answer = pyarrow.record_batch(
        {
            "query": np.repeat(query[first], counts),
            "row": joined("indices", np.int64) + np.repeat(first, counts),
            "rank": np.concatenate([np.empty(0, np.int64), *(np.arange(1, count + 1) for count in counts)]),
            "score": joined("scores"),
            "relevance": joined("relevance"),
            "recency": joined("recency"),
            "importance": joined("importance"),
        }
    )
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, answer.schema) as writer:
        writer.write_batch(answer)
    return sink.getvalue().to_pybytes()


def _columns(pa: Any, body: bytes, most_rows: int) -> dict[str, pyarrow.Array]:
    try:
        _refuse_what_unpacks(pa, body)
        with pa.ipc.open_stream(body) as reader:
            _check_schema(pa, reader.schema)
            batches = []
            rows = 0
            for batch in reader:
                batch.validate(full=True)
                rows += batch.num_rows
                if rows > most_rows:
                    raise Fault(413, "too_many_memories", f"the stream has more than {most_rows} rows", "$")
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise Fault(400, "invalid_arrow", f"the body is no Arrow IPC stream: {error}") from None
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        columns[name] = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if columns["query"].null_count:
        raise Fault(400, "invalid_request", "query holds a null; expected an integer in each row", "$.query")
    return columns


def _check_schema(pa: Any, schema: Any) -> None:
    types = pa.types
    for name in _NEEDED:
        if name not in schema.names:
            raise Fault(400, "invalid_request", f"the column {name} is missing", f"$.{name}")
    for field in schema:
        where = f"$.{field.name}"
        if field.name not in _NEEDED + _OPTIONAL:
            raise Fault(400, "invalid_request", f"{field.name} is no column of this request", where)
        if schema.names.count(field.name) > 1:
            raise Fault(400, "invalid_request", f"the column {field.name} stands there twice", where)
        whole = types.is_integer(field.type)
        number = whole or types.is_floating(field.type)
        if field.name in ("query", "tokens"):
            number = whole
        elif field.name == "timestamp":
            number = number or types.is_timestamp(field.type)
        if not number:
            raise Fault(400, "invalid_request", f"{field.name} is of type {field.type}; expected numbers", where)


def _refuse_what_unpacks(pa: Any, body: bytes) -> None:
    """Compressed buffers and dictionaries, whose size in memory the size of the body says nothing about."""
    reader = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type == "dictionary":
            raise Fault(400, "invalid_arrow", "the stream holds a dictionary; expected plain columns")
        if message.type == "record batch" and _is_compressed(memoryview(message.metadata)):
            raise Fault(400, "invalid_arrow", "the stream is compressed; expected plain buffers")


def _is_compressed(metadata: memoryview) -> bool:
    # A flatbuffer: Message.header is the third field of its root, RecordBatch.compression the fourth of that.
    root = struct.unpack_from("<I", metadata, 0)[0]
    header = _member(metadata, root, 2)
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _member(metadata, batch, 3) != 0


def _member(data: memoryview, table: int, number: int) -> int:
    """Where a table's field stands, or 0 where it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + slot)[0]
    return table + offset if offset else 0
