# cython: language_level=3, auto_pickle=False, cdivision=True
# distutils: language = c++
"""The pool's kernel: ids in front, the tree of rows and its queries behind (src/kernel/pool_*.hpp).

Two rules keep readers and writers out of each other's way. Ids are looked up and a state is taken in one go, without a
Python object being made or asked in between, so that no other thread gets its turn: a query's ids and its rows belong
to one state. And what a removed row was called is kept until every reader that may still ask for it has left. Writers
come one at a time, which pool.py sees to.
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.object cimport Py_EQ, PyObject, PyObject_Hash, PyObject_RichCompareBool
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport HUGE_VAL
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from libcpp.vector cimport vector

from memsel._core cimport (
    BestRows, Columns, FilterLevel, KeptRow, PackedSelection, Plan, Settings, Walk, WorkQueue, filter_in_use,
    monotonic_seconds, pack_columns, write_outcomes,
)

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)
    bint PyUnicode_CheckExact(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    int PyUnicode_KIND(object)
    void* PyUnicode_DATA(object)
    bint PyLong_CheckExact(object)
    bint PyFloat_CheckExact(object)
    double PyFloat_AS_DOUBLE(object)
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char* errors)

cdef extern from "pool_tree.hpp" namespace "memsel" nogil:
    cdef cppclass Record:
        double timestamp
        double importance
        double decay_factor
        double last_access
        int64_t tokens
        bint lives()
    cdef cppclass Root:
        int64_t living
        int64_t next_row
        const Record& record(int64_t row)

cdef extern from "pool_store.hpp" namespace "memsel" nogil:
    cdef cppclass RecordColumns:
        RecordColumns()
        const double* timestamp
        const double* importance
        const double* decay_factor
        const double* last_access
        const int64_t* tokens
        int64_t count
    cdef cppclass Snapshot:
        Snapshot()
        const Root* get()
        void reset()
    cdef cppclass PoolStore:
        PoolStore(size_t block_rows) except +
        Snapshot snapshot()
        const Record& record(int64_t row)
        int64_t living()
        int64_t next_row()
        void put(int64_t row, const Record&) except +
        void remove(int64_t row) except +
        void put_all(const int64_t* rows, const RecordColumns& records) except +
        void load(const int64_t* rows, const RecordColumns& records, int64_t next_row) except +
        void give_up_to(int64_t next_row) except +

cdef extern from "pool_ids.hpp" namespace "memsel" nogil:
    cdef cppclass RowTable:
        cppclass Cursor:
            pass
        RowTable() except +
        @staticmethod
        uint64_t mixed(uint64_t hash)
        void fetch(uint64_t mixed_hash)
        Cursor find(uint64_t mixed_hash)
        int64_t next(Cursor&)
        void insert(uint64_t mixed_hash, int64_t row) except +
        void reserve(size_t more) except +
        void erase(uint64_t mixed_hash, int64_t row)
        size_t bytes()

cdef extern from "pool_query.hpp" namespace "memsel" nogil:
    cdef cppclass Hits:
        const int64_t* rows
        const double* scores
        int64_t count
    cdef cppclass PoolAnswer:
        PoolAnswer()
        vector[KeptRow] kept
        uint64_t tokens_low
        uint64_t tokens_high
        void count(uint64_t tokens)
    cdef cppclass PoolQuery:
        bint run(const Root&, const Settings&, const FilterLevel&, const Hits&, PoolAnswer&) except +
    PoolQuery& query_of_thread() except +
    cdef cppclass PoolTask:
        PoolTask()
        Snapshot snapshot
        vector[int64_t] rows
        vector[double] scores
        bint restricted
        vector[int64_t] candidates
        PoolAnswer answer
        int64_t overflowed
        double overflowed_timestamp
        const Root& root()
        int64_t living()
        Hits hits()
        void restrict_to_living() except +
    cdef cppclass PoolColumns:
        vector[int64_t] rows
        void gather(const Root&, const vector[int64_t]* candidates, bint from_access, const Hits&) except +
        Columns columns()

cdef extern from "prefetch.hpp" namespace "memsel" nogil:
    void prefetch(const void*)

cdef enum:
    ID_CHUNK_ROWS = 1024
    IDS_TOGETHER = 64        # ids whose look-ups overlap, so that their cache misses do
    GIL_ROWS = 2048          # from here on the GIL is let go while rows are ranked
    ROWS_BETWEEN_TURNS = 16384


cdef struct IdChunk:
    int64_t living
    PyObject* ids[ID_CHUNK_ROWS]


class UnreadableId(Exception):
    """An id that is neither exactly str nor exactly int; ``args[0]`` is its position."""


class UnreadableScore(Exception):
    """A score that is neither exactly float nor a small int; ``args[0]`` is its position."""


cdef inline bint is_column(const Py_buffer* view, char letter, char other) noexcept:
    """Whether a buffer is one contiguous native column of eight bytes a value, of a type with one of two letters."""
    return (
        view.ndim == 1 and view.itemsize == 8 and (view.shape[0] < 2 or view.strides[0] == 8)
        and (view.format[0] == letter or view.format[0] == other) and view.format[1] == 0
        and <size_t>view.buf % 8 == 0
    )


cdef inline bint is_id(object value) noexcept:
    return PyUnicode_CheckExact(value) or PyLong_CheckExact(value)


cdef inline void prefetch_object(PyObject* one) noexcept:
    """Ask for an object's head and for the text behind it, which may lie in the next line."""
    prefetch(one)
    prefetch(<char*>one + 56)


cdef inline bint is_same_id(PyObject* held, PyObject* given) noexcept:
    """Whether two exact str or int are equal; the first may be NULL, which equals nothing."""
    if held == given:
        return True
    if held == NULL or PyUnicode_CheckExact(<object>held) != PyUnicode_CheckExact(<object>given):
        return False
    if PyUnicode_CheckExact(<object>held):
        # Every str of Python's own has the narrowest kind that its characters allow.
        return (
            PyUnicode_GET_LENGTH(<object>held) == PyUnicode_GET_LENGTH(<object>given)
            and PyUnicode_KIND(<object>held) == PyUnicode_KIND(<object>given)
            and memcmp(PyUnicode_DATA(<object>held), PyUnicode_DATA(<object>given),
                       PyUnicode_GET_LENGTH(<object>held) * PyUnicode_KIND(<object>held)) == 0
        )
    # Two ints compare without an error.
    return PyObject_RichCompareBool(<object>held, <object>given, Py_EQ)


cdef class PackedPool:
    """Rows in memory: ids, records and the index, without the manners of the class that users see."""

    cdef PoolStore* store
    cdef RowTable table
    cdef vector[IdChunk*] chunks
    cdef int64_t named_rows         # rows up to here have had an id
    # Rows removed in this epoch and in the one before, whose ids readers may still ask for; and how many readers began
    # in each. An epoch ends when the readers of the one before have left.
    cdef vector[int64_t] graves[2]
    cdef int64_t readers[2]
    cdef int64_t epoch
    cdef readonly dict payloads     # row number to payload; rows without one are not there

    def __cinit__(self, size_t block_rows=1024):
        self.store = new PoolStore(block_rows)
        self.payloads = {}

    def __dealloc__(self):
        cdef IdChunk* chunk
        cdef int i
        for chunk in self.chunks:
            if chunk != NULL:
                for i in range(ID_CHUNK_ROWS):
                    if chunk.ids[i] != NULL:
                        Py_DECREF(<object>chunk.ids[i])
                free(chunk)
        del self.store

    def __len__(self):
        return self.store.snapshot().get().living

    @property
    def next_row(self):
        """The least row number not given yet."""
        return self.store.snapshot().get().next_row

    @property
    def table_bytes(self):
        """Bytes of the table from ids to row numbers, and of the array from row numbers to ids."""
        return self.table.bytes() + self.chunks.size() * sizeof(IdChunk)

    # --- ids ---------------------------------------------------------------------------------------------------------

    cdef inline PyObject* id_at(self, int64_t row) noexcept:
        cdef IdChunk* chunk = self.chunks[row // ID_CHUNK_ROWS]
        if chunk == NULL:
            return NULL
        return chunk.ids[row % ID_CHUNK_ROWS]

    cdef inline PyObject** id_place(self, int64_t row) noexcept:
        """Where the id of a row hangs, or NULL."""
        cdef IdChunk* chunk = self.chunks[row // ID_CHUNK_ROWS]
        if chunk == NULL:
            return NULL
        return &chunk.ids[row % ID_CHUNK_ROWS]

    cdef inline int64_t find_hashed(self, object entry_id, uint64_t mixed) noexcept:
        """The row given to an id last, alive or not, or -1."""
        cdef RowTable.Cursor cursor = self.table.find(mixed)
        cdef int64_t row = self.table.next(cursor)
        while row >= 0 and not is_same_id(self.id_at(row), <PyObject*>entry_id):
            row = self.table.next(cursor)
        return row

    cdef inline int64_t find(self, object entry_id, const Root* root) except -2:
        """The row of an id that lives in a state, or -1."""
        if not is_id(entry_id):
            raise UnreadableId(0)
        cdef int64_t row = self.find_hashed(entry_id, RowTable.mixed(<uint64_t>PyObject_Hash(entry_id)))
        return row if row >= 0 and root.record(row).lives() else -1

    cdef int name(self, int64_t row, object entry_id, uint64_t mixed) except -1:
        """Give a new row its id."""
        cdef int64_t number = row // ID_CHUNK_ROWS
        cdef IdChunk* chunk
        if number >= <int64_t>self.chunks.size():
            self.chunks.resize(number + 1, NULL)
        chunk = self.chunks[number]
        if chunk == NULL:
            chunk = <IdChunk*>calloc(1, sizeof(IdChunk))
            if chunk == NULL:
                raise MemoryError()
            self.chunks[number] = chunk
        self.table.insert(mixed, row)
        Py_INCREF(entry_id)
        chunk.ids[row % ID_CHUNK_ROWS] = <PyObject*>entry_id
        chunk.living += 1
        self.named_rows = row + 1
        return 0

    cdef void forget(self, int64_t row) noexcept:
        """Let go of a removed row's id."""
        cdef IdChunk* chunk = self.chunks[row // ID_CHUNK_ROWS]
        Py_DECREF(<object>chunk.ids[row % ID_CHUNK_ROWS])
        chunk.ids[row % ID_CHUNK_ROWS] = NULL
        chunk.living -= 1
        # The chunk that rows are being given from stays.
        if chunk.living == 0 and (row // ID_CHUNK_ROWS + 1) * ID_CHUNK_ROWS <= self.named_rows:
            free(chunk)
            self.chunks[row // ID_CHUNK_ROWS] = NULL

    cdef int enter(self) noexcept:
        cdef int side = self.epoch & 1
        self.readers[side] += 1
        return side

    cdef void leave(self, int side) noexcept:
        self.readers[side] -= 1
        self.end_epoch()

    cdef void end_epoch(self) noexcept:
        cdef int before = (self.epoch + 1) & 1
        cdef int64_t row
        if self.readers[before] == 0 and (self.graves[0].size() or self.graves[1].size()):
            # Who began before this epoch has left, so that what was removed before it is in nobody's state.
            for row in self.graves[before]:
                self.forget(row)
            self.graves[before].clear()
            self.epoch += 1

    def row(self, entry_id):
        """The row number of an id, or -1."""
        cdef Snapshot state = self.store.snapshot()
        return self.find(entry_id, state.get())

    def rows(self, list ids not None, int64_t[::1] rows not None):
        """Fill in the row number of each id, or -1 where there is none."""
        cdef Snapshot state = self.store.snapshot()
        cdef Py_ssize_t i
        for i in range(min(len(ids), rows.shape[0])):
            rows[i] = self.find(<object>PyList_GET_ITEM(ids, i), state.get())

    def record(self, entry_id):
        """(row, timestamp, importance, decay_factor, last_access, tokens) of an id, or None."""
        cdef Snapshot state = self.store.snapshot()
        cdef int64_t row = self.find(entry_id, state.get())
        cdef Record record
        if row < 0:
            return None
        record = state.get().record(row)
        return row, record.timestamp, record.importance, record.decay_factor, record.last_access, record.tokens

    # --- changes -----------------------------------------------------------------------------------------------------

    def put(self, entry_id, double timestamp, double importance, double decay_factor, double last_access,
            int64_t tokens):
        """Set the row of an id, which gets one if it has none; the row number. Tokens are 0 or more."""
        cdef uint64_t mixed
        cdef int64_t row, old
        cdef Record record
        if not is_id(entry_id):
            raise UnreadableId(0)
        mixed = RowTable.mixed(<uint64_t>PyObject_Hash(entry_id))
        row = old = self.find_hashed(entry_id, mixed)
        if row < 0 or not self.store.record(row).lives():
            row = self.store.next_row()
            if old >= 0:
                self.table.erase(mixed, old)
            self.name(row, entry_id, mixed)
        record.timestamp = timestamp
        record.importance = importance
        record.decay_factor = decay_factor
        record.last_access = last_access
        record.tokens = tokens
        try:
            self.store.put(row, record)
        except BaseException:
            # The number has been given to this id, and to no other any more.
            self.store.give_up_to(row + 1)
            raise
        return row

    def change(self, entry_id, timestamp, importance, decay_factor, last_access, tokens):
        """Set what is not None of the row of an id, each a float but the tokens; False where there is no such row."""
        cdef Snapshot state = self.store.snapshot()
        cdef int64_t row = self.find(entry_id, state.get())
        cdef Record record
        if row < 0:
            return False
        record = state.get().record(row)
        # The state goes before the change, which otherwise would have to copy what it holds.
        state.reset()
        if timestamp is not None:
            record.timestamp = timestamp
        if importance is not None:
            record.importance = importance
        if decay_factor is not None:
            record.decay_factor = decay_factor
        if last_access is not None:
            record.last_access = last_access
        if tokens is not None:
            record.tokens = tokens
        self.store.put(row, record)
        return True

    def remove(self, entry_id):
        """Remove the row of an id; False where there is none."""
        cdef uint64_t mixed
        cdef Snapshot state = self.store.snapshot()
        cdef int64_t row = self.find(entry_id, state.get())
        state.reset()
        if row < 0:
            return False
        mixed = RowTable.mixed(<uint64_t>PyObject_Hash(entry_id))
        self.graves[self.epoch & 1].push_back(row)
        self.store.remove(row)
        self.table.erase(mixed, row)
        self.end_epoch()
        if self.payloads:
            self.payloads.pop(row, None)
        return True

    def put_all(self, list ids not None, const double[::1] timestamp not None, const double[::1] importance not None,
                const double[::1] decay_factor, const double[::1] last_access, const int64_t[::1] tokens not None,
                int64_t[::1] numbers=None):
        """Set the rows of many ids, all of them or none. ``numbers`` gets the row of each.

        ``ids``: exact str and int, as many as there are values; the list is not changed meanwhile. ``decay_factor`` may
        be None, which stands for 1, and so may ``last_access``, for the timestamp.
        """
        cdef int64_t first = self.store.next_row(), next_row = first, row, count = len(ids)
        cdef vector[int64_t] rows
        cdef vector[uint64_t] mixed
        cdef RecordColumns records
        cdef int64_t start, end, i, old
        cdef object entry_id
        if count == 0:
            return
        records.timestamp = &timestamp[0]
        records.importance = &importance[0]
        if decay_factor is not None:
            records.decay_factor = &decay_factor[0]
        if last_access is not None:
            records.last_access = &last_access[0]
        records.tokens = &tokens[0]
        records.count = count
        rows.resize(count)
        mixed.resize(ROWS_BETWEEN_TURNS)
        try:
            if count >= ROWS_BETWEEN_TURNS:
                self.table.reserve(count)
            # New ids stand in the table before their rows are there, and count as unknown until then.
            for start in range(0, count, ROWS_BETWEEN_TURNS):
                end = min(start + ROWS_BETWEEN_TURNS, count)
                for i in range(start, end):
                    entry_id = <object>PyList_GET_ITEM(ids, i)
                    if not is_id(entry_id):
                        raise UnreadableId(i)
                    mixed[i - start] = RowTable.mixed(<uint64_t>PyObject_Hash(entry_id))
                for i in range(start, end):
                    if i + 16 < end:
                        self.table.fetch(mixed[i + 16 - start])
                    entry_id = <object>PyList_GET_ITEM(ids, i)
                    row = old = self.find_hashed(entry_id, mixed[i - start])
                    if row < first and (row < 0 or not self.store.record(row).lives()):
                        row = next_row
                        next_row += 1
                        if old >= 0:
                            self.table.erase(mixed[i - start], old)
                        self.name(row, entry_id, mixed[i - start])
                    rows[i] = row
                with nogil:
                    pass
            with nogil:
                self.store.put_all(rows.data(), records)
        except BaseException:
            self.store.give_up_to(next_row)
            raise
        if numbers is not None:
            for i in range(count):
                numbers[i] = rows[i]

    def load(self, list ids not None, const int64_t[::1] rows not None, const double[::1] timestamp not None,
             const double[::1] importance not None, const double[::1] decay_factor not None,
             const double[::1] last_access not None, const int64_t[::1] tokens not None, int64_t next_row):
        """Fill an empty pool with rows that rise and are below ``next_row``; False where two of the ids are one.

        ``ids``: exact str and int, as many as there are rows.
        """
        cdef RecordColumns records
        cdef vector[uint64_t] mixed
        cdef int64_t count = rows.shape[0], start, end, i
        cdef object entry_id
        mixed.resize(ROWS_BETWEEN_TURNS)
        self.table.reserve(count)
        for start in range(0, count, ROWS_BETWEEN_TURNS):
            end = min(start + ROWS_BETWEEN_TURNS, count)
            for i in range(start, end):
                mixed[i - start] = RowTable.mixed(<uint64_t>PyObject_Hash(<object>PyList_GET_ITEM(ids, i)))
            for i in range(start, end):
                if i + 16 < end:
                    self.table.fetch(mixed[i + 16 - start])
                entry_id = <object>PyList_GET_ITEM(ids, i)
                if self.find_hashed(entry_id, mixed[i - start]) >= 0:
                    return False
                self.name(rows[i], entry_id, mixed[i - start])
            with nogil:
                pass
        if count > 0:
            records.timestamp = &timestamp[0]
            records.importance = &importance[0]
            records.decay_factor = &decay_factor[0]
            records.last_access = &last_access[0]
            records.tokens = &tokens[0]
            records.count = count
            with nogil:
                self.store.load(&rows[0], records, next_row)
        else:
            self.store.give_up_to(next_row)
        return True

    # --- reading -----------------------------------------------------------------------------------------------------

    def state(self):
        """One state of the pool, to read at leisure: a Query without scores."""
        cdef Query query = Query.__new__(Query, self)
        query.take_state()
        return query


@cython.no_gc_clear
cdef class Query:
    """One query's ids and scores as row numbers, and the state of the pool that they belong to."""

    cdef PackedPool pool
    cdef PoolTask task
    cdef bint registered
    cdef int side
    cdef object given               # a dict of id to score, a list of ids, or None
    cdef const double[::1] scores   # beside a list of ids

    def __cinit__(self, PackedPool pool not None):
        self.pool = pool

    def __dealloc__(self):
        if self.registered:
            self.pool.leave(self.side)

    cdef int give(self, object similarity) except -1:
        """Take over what the hits are to be read from, before a state is taken."""
        cdef Py_buffer rows, scores
        if type(similarity) is not tuple:
            self.given = similarity
            return 0
        if type(similarity[0]) is list:
            self.scores = similarity[1]
            self.given = similarity[0]
            return 0
        PyObject_GetBuffer(similarity[0], &rows, PyBUF_FORMAT | PyBUF_STRIDES)
        try:
            PyObject_GetBuffer(similarity[1], &scores, PyBUF_FORMAT | PyBUF_STRIDES)
            try:
                if not (is_column(&rows, b"l", b"q") and is_column(&scores, b"d", b"d") and rows.len == scores.len):
                    raise UnreadableScore(0)
                self.task.rows.assign(<int64_t*>rows.buf, <int64_t*>rows.buf + rows.len // 8)
                self.task.scores.assign(<double*>scores.buf, <double*>scores.buf + rows.len // 8)
            finally:
                PyBuffer_Release(&scores)
        finally:
            PyBuffer_Release(&rows)
        return 0

    cdef void take_state(self) noexcept:
        self.side = self.pool.enter()
        self.registered = True
        self.task.snapshot = self.pool.store.snapshot()

    cdef void take_state_of(self, Query other) noexcept:
        self.side = other.side
        self.pool.readers[self.side] += 1
        self.registered = True
        self.task.snapshot = other.task.snapshot

    cdef int read(self) except -1:
        """Look the hits up. No object that the garbage collector counts is made, and no code of Python's runs."""
        if self.given is None:
            return 0
        if type(self.given) is dict:
            return self.read_dict(<dict>self.given)
        return self.read_list(<list>self.given)

    cdef int read_ids(self, PyObject** ids, Py_ssize_t count, const double* scores) except -1:
        """Add the rows of ids, with their scores if there are any, to the hits or else to the candidates."""
        cdef uint64_t mixed[IDS_TOGETHER]
        cdef int64_t found[IDS_TOGETHER]
        cdef PyObject* held[IDS_TOGETHER]
        cdef RowTable.Cursor cursors[IDS_TOGETHER]
        cdef Py_ssize_t first, i, end
        cdef int64_t row
        cdef PackedPool pool = self.pool
        for first in range(0, count, IDS_TOGETHER):
            end = min(first + IDS_TOGETHER, count) - first
            # Each step asks for the memory that the next one reads.
            for i in range(end):
                prefetch_object(ids[first + i])
            for i in range(end):
                if not is_id(<object>ids[first + i]):
                    raise UnreadableId(first + i)
                mixed[i] = RowTable.mixed(<uint64_t>PyObject_Hash(<object>ids[first + i]))
                pool.table.fetch(mixed[i])
            for i in range(end):
                cursors[i] = pool.table.find(mixed[i])
                found[i] = pool.table.next(cursors[i])
                if found[i] >= 0:
                    prefetch(pool.id_place(found[i]))
            for i in range(end):
                held[i] = NULL
                if found[i] >= 0:
                    held[i] = pool.id_at(found[i])
                    prefetch_object(held[i])
            for i in range(end):
                row = found[i]
                while row >= 0 and not is_same_id(held[i], ids[first + i]):
                    row = pool.table.next(cursors[i])
                    if row >= 0:
                        held[i] = pool.id_at(row)
                if row < 0:
                    continue
                if scores == NULL:
                    self.task.candidates.push_back(row)
                else:
                    self.task.rows.push_back(row)
                    self.task.scores.push_back(scores[first + i])
        return 0

    cdef int restrict(self, list ids) except -1:
        """Let only rows of these ids be chosen."""
        cdef vector[PyObject*] objects
        cdef Py_ssize_t i
        for i in range(len(ids)):
            objects.push_back(PyList_GET_ITEM(ids, i))
        self.read_ids(objects.data(), len(ids), NULL)
        self.task.restrict_to_living()
        return 0

    cdef int read_dict(self, dict similarity) except -1:
        cdef vector[PyObject*] ids, values
        cdef vector[double] scores
        cdef Py_ssize_t position = 0
        cdef PyObject* key = NULL
        cdef PyObject* value = NULL
        cdef int overflow = 0
        cdef long long integer
        ids.reserve(PyDict_Size(similarity) + 1)
        values.reserve(PyDict_Size(similarity) + 1)
        scores.reserve(PyDict_Size(similarity) + 1)
        while PyDict_Next(similarity, &position, &key, &value):
            prefetch(value)
            values.push_back(value)
            ids.push_back(key)
        for value in values:
            if PyFloat_CheckExact(<object>value):
                scores.push_back(PyFloat_AS_DOUBLE(<object>value))
            elif PyLong_CheckExact(<object>value):
                integer = PyLong_AsLongLongAndOverflow(<object>value, &overflow)
                if overflow:
                    raise UnreadableScore(scores.size())
                scores.push_back(<double>integer)
            else:
                raise UnreadableScore(scores.size())
        return self.read_ids(ids.data(), ids.size(), scores.data())

    cdef int read_list(self, list ids) except -1:
        cdef vector[PyObject*] objects
        cdef Py_ssize_t i
        objects.reserve(len(ids) + 1)
        for i in range(min(len(ids), self.scores.shape[0])):
            objects.push_back(PyList_GET_ITEM(ids, i))
        if objects.size() > 0:
            self.read_ids(objects.data(), objects.size(), &self.scores[0])
        return 0

    @property
    def living(self):
        """How many rows there are to choose from."""
        return self.task.living()

    @property
    def next_row(self):
        """The least row number not given in this state."""
        return self.task.root().next_row

    def select(self, Plan settings not None, type make not None, outcomes=None, bint scans=False):
        """The selection, as an instance of ``make``, a class on PackedSelection; or None where an exponent overflowed.

        ``outcomes``: a uint8 array, a code for each row that there is to choose from, or None. ``scans``: without the
        index.
        """
        cdef uint8_t[::1] codes
        cdef uint8_t* first = NULL
        cdef bint scanned = scans or outcomes is not None
        if outcomes is not None and len(outcomes) > 0:
            codes = outcomes
            first = &codes[0]
        if self.task.root().living >= GIL_ROWS:
            with nogil:
                run_task(&self.task, &settings.c, settings.from_access, scanned, first)
        else:
            run_task(&self.task, &settings.c, settings.from_access, scanned, first)
        return None if self.task.overflowed >= 0 else self.selection(make, outcomes)

    cdef PackedSelection selection(self, type make, object outcomes):
        """What the query kept, once."""
        cdef PackedSelection made = make.__new__(make)
        cdef list ids = []
        cdef KeptRow kept
        made.kept.swap(self.task.answer.kept)
        made.tokens_low = self.task.answer.tokens_low
        made.tokens_high = self.task.answer.tokens_high
        for kept in made.kept:
            prefetch(self.pool.id_place(kept.row))
        for kept in made.kept:
            prefetch(self.pool.id_at(kept.row))
        for kept in made.kept:
            ids.append(<object>self.pool.id_at(kept.row))
        made.ids = ids
        made.outcomes = outcomes
        return made

    @property
    def overflow(self):
        """(id, timestamp) of the row whose exponent overflowed, or None."""
        if self.task.overflowed < 0:
            return None
        return <object>self.pool.id_at(self.task.overflowed), self.task.overflowed_timestamp

    def row_numbers(self, int64_t[::1] rows not None):
        """Fill in the numbers of the living rows, rising: ``living`` of them."""
        cdef PoolColumns gathered
        cdef Hits none
        cdef int64_t i
        none.rows = NULL
        none.scores = NULL
        none.count = 0
        with nogil:
            gathered.gather(self.task.root(), NULL, False, none)
            for i in range(min(rows.shape[0], <int64_t>gathered.rows.size())):
                rows[i] = gathered.rows[i]

    def values(self, const int64_t[::1] rows not None, double[::1] timestamp not None, double[::1] importance not None,
             double[::1] decay_factor not None, double[::1] last_access not None, int64_t[::1] tokens not None):
        """Fill in the values of rows of this state."""
        cdef int64_t i
        cdef Record record
        with nogil:
            for i in range(rows.shape[0]):
                record = self.task.root().record(rows[i])
                timestamp[i] = record.timestamp
                importance[i] = record.importance
                decay_factor[i] = record.decay_factor
                last_access[i] = record.last_access
                tokens[i] = record.tokens

    def ids(self, const int64_t[::1] rows not None):
        """The ids of living rows of this state, in a list."""
        cdef list ids = []
        cdef int64_t i
        for i in range(rows.shape[0]):
            ids.append(<object>self.pool.id_at(rows[i]))
            if i % ROWS_BETWEEN_TURNS == 0:
                with nogil:
                    pass
        return ids


def queries(PackedPool pool not None, list given not None, list candidates):
    """One Query for each of the similarities given, all of one state.

    Each is a dict of id to float, a pair of a list of ids and float64 scores, or a pair of buffers, of int64 rows and
    as many float64 scores; or None. ``candidates``: a list of ids, or None.

    Raises:
        UnreadableId, UnreadableScore: see there; the caller makes it readable, or says what is wrong with it.
    """
    cdef list made = [Query.__new__(Query, pool) for _ in given]
    cdef Query query, first = None
    cdef Py_ssize_t i
    for i in range(len(made)):
        (<Query>made[i]).give(given[i])
    for query in made:
        if first is None:
            first = query
            query.take_state()
        else:
            query.take_state_of(first)
        if candidates is not None:
            query.restrict(candidates)
        query.read()
    return made


cdef int64_t run_task(PoolTask* task, const Settings* settings, bint from_access, bint scans,
                      uint8_t* outcomes) except -2 nogil:
    """Do a query; the row whose exponent overflows, or -1."""
    cdef PoolColumns gathered
    cdef Columns columns
    cdef BestRows best
    cdef Walk walk
    cdef size_t i
    if not (scans or from_access or task.restricted):
        if query_of_thread().run(task.root(), settings[0], filter_in_use()[0], task.hits(), task.answer):
            return -1
    gathered.gather(task.root(), &task.candidates if task.restricted else NULL, from_access, task.hits())
    columns = gathered.columns()
    task.overflowed = pack_columns(settings, &columns, &best, &walk, &task.answer.kept)
    if task.overflowed >= 0:
        task.overflowed_timestamp = columns.timestamp[task.overflowed]
        task.overflowed = gathered.rows[task.overflowed]
        return task.overflowed
    if outcomes != NULL:
        write_outcomes(settings, &columns, &walk, &task.answer.kept, outcomes)
    for i in range(task.answer.kept.size()):
        task.answer.count(<uint64_t>columns.tokens[task.answer.kept[i].row])
        task.answer.kept[i].row = gathered.rows[task.answer.kept[i].row]
    return -1


cdef class Batch:
    """Queries of one state and their settings, for any number of threads that are inside ``run`` at once."""

    cdef list kept_alive
    cdef vector[PoolTask*] tasks
    cdef vector[Settings] settings       # one, or one a query
    cdef vector[bint] from_access
    cdef uint8_t* outcomes
    cdef vector[int64_t] outcome_starts
    cdef bint scans
    cdef WorkQueue queue

    def __init__(self, list queries not None, list plans not None, outcomes=None):
        """``plans``: one, or one a query. ``outcomes``: a uint8 array, a code for each row of each query, or None."""
        cdef Plan plan
        cdef Query query
        cdef uint8_t[::1] codes
        cdef int64_t start = 0
        self.kept_alive = [queries, outcomes]
        self.scans = outcomes is not None
        if outcomes is not None and len(outcomes) > 0:
            codes = outcomes
            self.outcomes = &codes[0]
        for query in queries:
            self.tasks.push_back(&query.task)
            self.outcome_starts.push_back(start)
            start += query.task.living()
        for plan in plans:
            self.settings.push_back(plan.c)
            self.from_access.push_back(plan.from_access)
        self.queue.start(len(queries))

    def run(self, double seconds=HUGE_VAL):
        """Do queries until none is left, or for about so many seconds; True when none is left."""
        cdef bint finished
        with nogil:
            finished = self.work(seconds)
        return finished

    def stop(self):
        """Let no further query begin."""
        self.queue.stop()

    cdef bint work(self, double seconds) except -1 nogil:
        cdef double started = monotonic_seconds()
        cdef int64_t number, which
        while monotonic_seconds() - started < seconds:
            number = self.queue.take()
            if number < 0:
                return True
            which = number if self.settings.size() > 1 else 0
            if run_task(self.tasks[number], &self.settings[which], self.from_access[which], self.scans,
                         self.outcomes + self.outcome_starts[number] if self.outcomes != NULL else NULL) >= 0:
                self.queue.fail(number)
        return False

    def selections(self, type make not None, outcomes):
        """What the queries kept, once; ``outcomes``: an array a query, or None."""
        cdef list made = []
        cdef list queries = self.kept_alive[0]
        cdef Py_ssize_t number
        for number in range(len(queries)):
            made.append((<Query>queries[number]).selection(make, None if outcomes is None else outcomes[number]))
        return made

    def failure(self):
        """The number of the first query that failed, or None; meaningful when no thread is inside ``run``."""
        cdef int64_t number = self.queue.first_failed()
        return None if number < 0 else number


def text_ids(const uint8_t[::1] text not None, const int64_t[::1] ends not None, const uint8_t[::1] kinds not None):
    """Ids from UTF-8, one behind the other: ``ends`` is where each ends, ``kinds`` 0 for text and 1 for an
    int in hexadecimal.

    Everything lies within the bytes. Raises UnicodeDecodeError and ValueError for what is no id.
    """
    cdef int64_t first = 0, i
    cdef const char* bytes_ = <const char*>&text[0] if text.shape[0] else NULL
    cdef list ids = []
    for i in range(ends.shape[0]):
        entry_id = PyUnicode_DecodeUTF8(bytes_ + first, ends[i] - first, b"surrogatepass")
        ids.append(int(entry_id, 16) if kinds[i] else entry_id)
        first = ends[i]
        if i % ROWS_BETWEEN_TURNS == 0:
            with nogil:
                pass
    return ids
