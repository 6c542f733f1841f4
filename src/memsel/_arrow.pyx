"""Columns that come through the Arrow C data interface, as buffers that keep their exporter's memory alive.

The interface hands over C structs in capsules, with addresses and counts but no buffer sizes, and a release callback that
must run exactly once. All of that is dealt with here, so that its users see lengths and buffer-protocol objects alone:
a struct is moved out of its capsule into an owner before anything is read, every count is checked before it becomes an
address, and the owner releases the struct when the last buffer over it goes. An exporter that breaks the rules of the
interface gets a ValueError; addresses and lengths that are plausible but wrong cannot be told from right ones.

Imports nothing of memsel, and neither NumPy nor pyarrow.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int64_t

# The structs of the Arrow C data and stream interfaces. Callbacks may take the GIL themselves, so they are called
# without it: an exporter that waits for a thread of its own, which wants the GIL, would never come back otherwise.
cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data

cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
    int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
    const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
    void (*release)(ArrowArrayStream*) noexcept nogil
    void* private_data

# No row number above this is believed: its address, at 8 bytes a row, would not fit a signed 64-bit integer.
cdef int64_t MOST_ROWS = 2**60 - 1
cdef Py_ssize_t LONGEST_TEXT = 200

cdef dict FIXED_BITS = {
    "n": 0, "b": 1, "c": 8, "C": 8, "s": 16, "S": 16, "i": 32, "I": 32, "l": 64, "L": 64, "e": 16, "f": 32, "g": 64,
    "tdD": 32, "tdm": 64,
}


@cython.final
@cython.internal
cdef class _SchemaOwner:
    cdef ArrowSchema schema

    def __dealloc__(self):
        if self.schema.release != NULL:
            with nogil:
                self.schema.release(&self.schema)


@cython.final
@cython.internal
cdef class _ArrayOwner:
    cdef ArrowArray array

    def __dealloc__(self):
        if self.array.release != NULL:
            with nogil:
                self.array.release(&self.array)


@cython.final
@cython.internal
cdef class _StreamOwner:
    cdef ArrowArrayStream stream

    def __dealloc__(self):
        if self.stream.release != NULL:
            with nogil:
                self.stream.release(&self.stream)


@cython.final
cdef class Buffer:
    """Bytes of an Arrow array, read-only through the buffer protocol; the array lives as long as any of its buffers."""

    cdef _ArrayOwner owner
    cdef const char* start
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*> self.start, self.size, 1, flags)


@cython.final
cdef class Chunk:
    """Consecutive rows of a column. `values` and each of `validity` is (buffer, index of the first bit in it)."""

    cdef readonly Py_ssize_t length
    cdef readonly tuple values
    cdef readonly list validity
    cdef readonly Chunk dictionary


@cython.final
cdef class Column:
    """A column's Arrow type, in the interface's format strings, and its chunks; none when the type is not readable."""

    cdef readonly str format
    cdef readonly str dictionary_format
    cdef readonly Py_ssize_t fields
    cdef readonly bint readable
    cdef readonly list chunks
    cdef bint in_struct
    cdef int bits
    cdef int dictionary_bits

    def __cinit__(self):
        self.fields = 1
        self.chunks = []


def read_array(schema_capsule, array_capsule):
    """Return the Column in the two capsules of `__arrow_c_array__`, taking the array out of its capsule.

    A struct with one field stands for that field. Raises ValueError for what breaks the interface's rules.
    """
    cdef ArrowSchema* schema = <ArrowSchema*> opened(schema_capsule, "arrow_schema")
    cdef ArrowArray* array = <ArrowArray*> opened(array_capsule, "arrow_array")
    cdef Column column = described(schema)
    cdef _ArrayOwner owner = _ArrayOwner()
    if array.release == NULL:
        raise ValueError("its Arrow array is already released")
    owner.array = array[0]
    array.release = NULL
    if column.readable:
        column.chunks.append(top_chunk(column, owner))
    return column


def read_stream(capsule):
    """Return the Column in the capsule of `__arrow_c_stream__`, taking the stream out of its capsule and reading it.

    A struct with one field stands for that field. A stream of a type that is not readable is left unread. Raises
    ValueError for what breaks the interface's rules and with the stream's own message when the stream fails.
    """
    cdef ArrowArrayStream* source = <ArrowArrayStream*> opened(capsule, "arrow_array_stream")
    cdef _StreamOwner reader = _StreamOwner()
    cdef _SchemaOwner described_by = _SchemaOwner()
    cdef _ArrayOwner owner
    cdef ArrowArrayStream* stream = &reader.stream
    cdef ArrowSchema* schema = &described_by.schema
    cdef ArrowArray* array
    cdef Column column
    cdef int code
    if source.release == NULL:
        raise ValueError("its Arrow stream is already released")
    reader.stream = source[0]
    source.release = NULL
    if stream.get_schema == NULL or stream.get_next == NULL:
        raise ValueError("its Arrow stream has no callbacks")
    with nogil:
        code = stream.get_schema(stream, schema)
    if code != 0:
        # Nothing was handed over, whatever the struct says now.
        schema.release = NULL
        raise ValueError(failure(stream, code))
    column = described(schema)
    while column.readable:
        PyErr_CheckSignals()
        owner = _ArrayOwner()
        array = &owner.array
        with nogil:
            code = stream.get_next(stream, array)
        if code != 0:
            array.release = NULL
            raise ValueError(failure(stream, code))
        if array.release == NULL:
            break
        column.chunks.append(top_chunk(column, owner))
    return column


cdef void* opened(object capsule, const char* name) except NULL:
    if not PyCapsule_IsValid(capsule, name):
        raise ValueError(f"it exports a {type(capsule).__name__} where a capsule named {name.decode()} is expected")
    return PyCapsule_GetPointer(capsule, name)


cdef str failure(ArrowArrayStream* stream, int code):
    cdef const char* message = NULL
    if stream.get_last_error != NULL:
        with nogil:
            message = stream.get_last_error(stream)
    return f"its Arrow stream failed: {text(message) if message != NULL else f'error {code}'}"


cdef str text(const char* start):
    """At most LONGEST_TEXT bytes of a C string."""
    cdef Py_ssize_t size = 0
    while size < LONGEST_TEXT and start[size] != 0:
        size += 1
    return start[:size].decode("utf-8", "replace")


# Types ----------------------------------------------------------------------------------------------------------------

cdef int bits_of(str format):
    """Bits a row of a fixed-width type, or -1 for a type that is not read."""
    if format.startswith("ts") and len(format) > 3 and format[2] in "smun" and format[3] == ":":
        return 64
    return FIXED_BITS.get(format, -1)


cdef Column described(ArrowSchema* schema):
    cdef Column column = Column()
    cdef ArrowSchema* field = checked_schema(schema)
    if text(field.format) == "+s":
        column.in_struct = True
        column.fields = field.n_children
        if field.n_children == 1:
            if field.children == NULL:
                raise ValueError("its Arrow schema has no children where it counts one")
            field = checked_schema(field.children[0])
    column.format = text(field.format)
    column.bits = bits_of(column.format)
    column.readable = column.bits >= 0 and column.fields == 1
    if field.dictionary != NULL:
        checked_schema(field.dictionary)
        column.dictionary_format = text(field.dictionary.format)
        column.dictionary_bits = bits_of(column.dictionary_format)
        if column.format not in "cCsSiIlL" or column.dictionary_bits < 0 or field.dictionary.dictionary != NULL:
            column.readable = False
    return column


cdef ArrowSchema* checked_schema(ArrowSchema* schema) except NULL:
    if schema == NULL or schema.format == NULL:
        raise ValueError("its Arrow schema has no format")
    if schema.release == NULL:
        raise ValueError("its Arrow schema is already released")
    return schema


# Values ---------------------------------------------------------------------------------------------------------------

cdef Chunk top_chunk(Column column, _ArrayOwner owner):
    """The rows of an array that is the column, or that is a struct around it: a struct's offset shifts its field."""
    cdef ArrowArray* array = &owner.array
    cdef ArrowArray* field
    cdef Chunk chunk
    cdef list validity
    check_counts(array)
    if not column.in_struct:
        return fixed_chunk(array, 0, array.length, column.bits, column, owner)
    check_buffers(array, 1)
    if array.n_children != 1 or array.children == NULL or array.children[0] == NULL:
        raise ValueError("its Arrow struct has other fields than its schema says")
    field = array.children[0]
    check_counts(field)
    if field.length < array.offset + array.length:
        raise ValueError(f"a field of its Arrow struct has {field.length} rows, the struct {array.offset + array.length}")
    validity = validity_of(array, array.offset, array.length, owner)
    chunk = fixed_chunk(field, array.offset, array.length, column.bits, column, owner)
    chunk.validity.extend(validity)
    return chunk


cdef Chunk fixed_chunk(
    ArrowArray* array, int64_t start, int64_t length, int bits, Column column, _ArrayOwner owner
):
    """`length` rows of a checked array of `bits` a row, from `start` after its offset; coded ones if column is given."""
    cdef Chunk chunk = Chunk()
    cdef int64_t first = array.offset + start
    cdef bint coded = column is not None and column.dictionary_format is not None
    chunk.length = length
    chunk.validity = []
    if coded != (array.dictionary != NULL):
        raise ValueError("its Arrow array and schema disagree about a dictionary")
    if coded:
        check_counts(array.dictionary)
        chunk.dictionary = fixed_chunk(array.dictionary, 0, array.dictionary.length, column.dictionary_bits, None, owner)
    if bits == 0:
        return chunk
    check_buffers(array, 2)
    chunk.validity = validity_of(array, first, length, owner)
    if length > 0:
        if array.buffers[1] == NULL:
            raise ValueError(f"its Arrow array has {length} rows and no values")
        if bits == 1:
            chunk.values = bit_buffer(array.buffers[1], first, length, owner)
        else:
            chunk.values = (
                buffer(<const char*> array.buffers[1] + first * (bits // 8), length * (bits // 8), owner), 0
            )
    return chunk


cdef int check_counts(ArrowArray* array) except -1:
    if array.release == NULL:
        raise ValueError("its Arrow array is already released")
    if array.length < 0 or array.offset < 0 or array.length > MOST_ROWS or array.offset > MOST_ROWS - array.length:
        raise ValueError(f"its Arrow array has {array.length} rows from row {array.offset} on")
    if array.null_count < -1 or array.null_count > array.length:
        raise ValueError(f"its Arrow array has {array.null_count} nulls in {array.length} rows")
    return 0


cdef int check_buffers(ArrowArray* array, int64_t wanted) except -1:
    if array.n_buffers != wanted:
        raise ValueError(f"its Arrow array has {array.n_buffers} buffers; expected {wanted}")
    if array.buffers == NULL:
        raise ValueError("its Arrow array has no buffers where it counts some")
    return 0


cdef list validity_of(ArrowArray* array, int64_t first, int64_t length, _ArrayOwner owner):
    """Bits from row `first` on, set where a row is valid; none when all are. A null count of -1 is one not known."""
    if array.null_count == 0:
        return []
    if array.buffers[0] == NULL:
        if array.null_count > 0:
            raise ValueError(f"its Arrow array has {array.null_count} nulls and no bitmap of them")
        return []
    if length == 0:
        return []
    return [bit_buffer(array.buffers[0], first, length, owner)]


cdef tuple bit_buffer(const void* start, int64_t first, int64_t length, _ArrayOwner owner):
    cdef int64_t shift = first % 8
    return buffer(<const char*> start + first // 8, (shift + length + 7) // 8, owner), shift


cdef Buffer buffer(const char* start, Py_ssize_t size, _ArrayOwner owner):
    cdef Buffer held = Buffer()
    held.owner = owner
    held.start = start
    held.size = size
    return held
