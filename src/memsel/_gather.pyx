# cython: language_level=3, auto_pickle=False
# distutils: language = c++
"""Entries and what a selection reads of them.

PackedEntry is the base type under MemoryEntry: it keeps the attributes as the objects that were given and, beside them,
the same facts as C numbers. ``gather`` turns a list of entries and a mapping of scores into the kernel's columns:
from the C numbers where an entry has them, from its public attributes where it does not.

Nothing here scores, orders or packs, and nothing of memsel is imported.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.list cimport PyList_GET_SIZE, PyList_GET_ITEM
from cpython.object cimport PyObject, PyTypeObject, Py_TYPE, PyObject_Hash
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libcpp.vector cimport vector

import numbers
import numpy

cdef extern from "Python.h":
    bint PyFloat_Check(object)
    bint PyFloat_CheckExact(object)
    double PyFloat_AS_DOUBLE(object)
    bint PyLong_CheckExact(object)
    bint PyUnicode_CheckExact(object)
    bint PyDict_CheckExact(object)
    bint PyBool_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    Py_ssize_t Py_REFCNT(PyObject*)
    Py_ssize_t PyDict_Size(object) except -1

cdef extern from "columns.hpp" namespace "memsel" nogil:
    cdef cppclass Columns:
        int64_t rows
    cdef cppclass GatheredColumns:
        void allocate(size_t) except +
        double* relevance()
        double* timestamp()
        double* importance()
        Columns columns()

cdef extern from "prefetch.hpp" namespace "memsel" nogil:
    void prefetch(const void*)

cdef object NUMPY_FLOAT64 = numpy.float64
cdef object NUMPY_INT64 = numpy.int64
cdef object NDARRAY = numpy.ndarray
cdef object NO_ID = "unknown"
cdef object ID_KEY = "id"

# What a PackedEntry knows in C.
cdef enum:
    HAS_CREATED = 1      # created_s mirrors timestamp
    HAS_IMPORTANCE = 2   # effective mirrors importance * decay_factor
    HAS_ID = 4           # id_text and id_hash mirror metadata.get("id", "unknown"), an exact str
    HAS_ACCESSED = 8     # accessed_s mirrors last_access
    EXPOSED = 16         # somebody else may hold the metadata dict and edit it

cdef enum:
    EXACT_INTEGERS = 9007199254740992  # 2**53: integers up to here are float64 values, exactly
    PREFETCH_ROWS = 12                 # rows ahead whose headers are fetched


cdef inline bint as_float64(object value, double* out):
    """Read a number whose Python arithmetic with floats is float64 arithmetic; False for every other object."""
    cdef int overflow = 0
    cdef long long integer
    if PyFloat_CheckExact(value):
        out[0] = PyFloat_AS_DOUBLE(value)
        return True
    if PyLong_CheckExact(value) or PyBool_Check(value):
        integer = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow or not -EXACT_INTEGERS <= integer <= EXACT_INTEGERS:
            return False
        out[0] = <double>integer
        return True
    if <PyObject*>Py_TYPE(value) == <PyObject*>NUMPY_FLOAT64:
        out[0] = PyFloat_AS_DOUBLE(value)
        return True
    if <PyObject*>Py_TYPE(value) == <PyObject*>NUMPY_INT64:
        # Products of two of these must not wrap, as numpy's would.
        if not -(1 << 31) <= value <= (1 << 31):
            return False
        out[0] = <double>value
        return True
    return False


cdef class PackedEntry:
    """Attributes of an entry, as the objects given and as the numbers that a selection reads."""

    # What a gather reads stands first, next to the object's header, so that it shares its cache line.
    cdef unsigned int known
    cdef double created_s
    cdef double effective
    cdef Py_hash_t id_hash
    cdef object id_text
    cdef double accessed_s
    cdef object _content
    cdef object _metadata
    cdef object _timestamp
    cdef object _importance
    cdef object _decay_factor
    cdef object _last_access
    cdef object _memory_type
    cdef object _access_count
    cdef object _tags
    cdef object _embedding
    cdef object _original_importance

    cdef void pack_importance(self):
        cdef double importance, decay_factor
        self.known &= ~<unsigned int>HAS_IMPORTANCE
        if as_float64(self._importance, &importance) and as_float64(self._decay_factor, &decay_factor):
            self.effective = importance * decay_factor
            if self.effective == 0.0 and not PyFloat_Check(self._importance) and not PyFloat_Check(self._decay_factor):
                self.effective = 0.0  # integers know no -0.0
            self.known |= HAS_IMPORTANCE

    cdef int pack_id(self) except -1:
        """Read the id from the metadata dict; forget that it was exposed if nobody else holds the dict."""
        cdef PyObject* found
        cdef object text
        self.known &= ~<unsigned int>HAS_ID
        if not PyDict_CheckExact(self._metadata):
            return 0
        found = PyDict_GetItemWithError(self._metadata, ID_KEY)
        text = NO_ID if found == NULL else <object>found
        if not PyUnicode_CheckExact(text):
            return 0
        if self.id_text is not text:
            self.id_text = text
            self.id_hash = PyObject_Hash(text)
        self.known |= HAS_ID
        if Py_REFCNT(<PyObject*>self._metadata) == 1:
            self.known &= ~<unsigned int>EXPOSED
        return 0

    @property
    def content(self):
        """What is remembered."""
        return self._content

    @content.setter
    def content(self, value):
        self._content = value

    @property
    def timestamp(self):
        """Creation, in seconds since the epoch."""
        return self._timestamp

    @timestamp.setter
    def timestamp(self, value):
        self._timestamp = value
        if as_float64(value, &self.created_s):
            self.known |= HAS_CREATED
        else:
            self.known &= ~<unsigned int>HAS_CREATED

    @property
    def memory_type(self):
        """The tier the memory belongs to."""
        return self._memory_type

    @memory_type.setter
    def memory_type(self, value):
        self._memory_type = value

    @property
    def importance(self):
        """Importance before decay."""
        return self._importance

    @importance.setter
    def importance(self, value):
        self._importance = value
        self.pack_importance()

    @property
    def access_count(self):
        """Number of recorded accesses."""
        return self._access_count

    @access_count.setter
    def access_count(self, value):
        self._access_count = value

    @property
    def tags(self):
        """Free words."""
        return self._tags

    @tags.setter
    def tags(self, value):
        self._tags = value

    @property
    def metadata(self):
        """Anything else that is known of the memory; holds its id."""
        self.known |= EXPOSED
        return self._metadata

    @metadata.setter
    def metadata(self, value):
        self._metadata = value
        self.known = (self.known | EXPOSED) & ~<unsigned int>HAS_ID

    @property
    def embedding(self):
        """A vector, or None."""
        return self._embedding

    @embedding.setter
    def embedding(self, value):
        self._embedding = value

    @property
    def last_access(self):
        """Seconds since the epoch at the last access."""
        return self._last_access

    @last_access.setter
    def last_access(self, value):
        self._last_access = value
        if as_float64(value, &self.accessed_s):
            self.known |= HAS_ACCESSED
        else:
            self.known &= ~<unsigned int>HAS_ACCESSED

    @property
    def decay_factor(self):
        """What importance is multiplied with."""
        return self._decay_factor

    @decay_factor.setter
    def decay_factor(self, value):
        self._decay_factor = value
        self.pack_importance()

    @property
    def original_importance(self):
        """The importance at creation."""
        return self._original_importance

    @original_importance.setter
    def original_importance(self, value):
        self._original_importance = value

    @property
    def id(self):
        """The entry's id: ``metadata.get("id", "unknown")``."""
        if PyDict_CheckExact(self._metadata):
            found = PyDict_GetItemWithError(self._metadata, ID_KEY)
            return NO_ID if found == NULL else <object>found
        return self._metadata.get(ID_KEY, NO_ID)

    @property
    def effective_importance(self):
        """Importance after decay: ``importance * decay_factor``."""
        return self._importance * self._decay_factor

    def __getstate__(self):
        state = {name: getattr(self, name) for name in STORED}
        state.update(getattr(self, "__dict__", ()))
        return state

    def __setstate__(self, state):
        for name, value in state.items():
            setattr(self, name, value)


# In the order of the dataclass's fields, which is the order of a pickled state.
STORED = (
    "content", "timestamp", "memory_type", "importance", "access_count", "tags", "metadata", "embedding",
    "last_access", "decay_factor", "original_importance",
)
# What a gather takes from C instead of asking for it; a class that replaces one of these is asked.
cdef tuple MIRRORED = (
    "id", "timestamp", "effective_importance", "metadata", "importance", "decay_factor", "last_access",
    "__getattribute__",
)
cdef tuple MIRRORS = tuple(getattr(PackedEntry, name) for name in MIRRORED)


cdef bint reads_from_c(type cls):
    """Whether entries of a class have their mirrored attributes from PackedEntry itself."""
    cdef Py_ssize_t i
    if not issubclass(cls, PackedEntry):
        return False
    for i in range(len(MIRRORED)):
        if getattr(cls, MIRRORED[i]) is not MIRRORS[i]:
            return False
    return True


def score_as_float(value, entry_id):
    """A similarity score or an importance as a Python float.

    A score is anything that multiplies with a float and has a float value: float, int, bool, Fraction, a NumPy scalar,
    a 0-d array. An array of one or more dimensions, text, Decimal, None and complex are a TypeError.
    """
    if isinstance(value, NDARRAY) and value.ndim:
        raise TypeError(f"the score of {entry_id!r} is an array of shape {value.shape}; expected one number")
    if type(value) is not float:
        if not isinstance(value, numbers.Real):
            1.0 * value
        value = float(value)
    return value


class EntriesChanged(Exception):
    """The list of entries was edited while it was being selected from."""


cdef class Gathered:
    """The columns of one call, in the order of the entries; ``columns`` is the capsule that the kernel reads."""

    cdef GatheredColumns store
    cdef Columns view
    cdef list entries
    cdef vector[PyObject*] items   # the entries that were read, to compare with and never to use

    @property
    def columns(self):
        """A capsule named memsel.Columns, valid while this object lives."""
        return PyCapsule_New(&self.view, b"memsel.Columns", NULL)

    cpdef entry(self, Py_ssize_t row):
        """The entry that was read into a row.

        Raises:
            EntriesChanged: another one stands there by now.
        """
        if row >= PyList_GET_SIZE(self.entries) or PyList_GET_ITEM(self.entries, row) != self.items[row]:
            raise EntriesChanged
        return <object>PyList_GET_ITEM(self.entries, row)

    def tokens(self, Py_ssize_t row):
        """A quarter of the characters of an entry's content as text, at least one."""
        cdef object content = self.entry(row).content
        if not PyUnicode_CheckExact(content):
            content = str(content)
        return max(1, PyUnicode_GET_LENGTH(content) // 4)

    def scored(self, make, list kept):
        """``make(entry, relevance, recency, importance, composite)`` for each kept (row, four scores)."""
        return [make(self.entry(row), relevance, recency, importance, composite)
                for row, relevance, recency, importance, composite in kept]


cdef class ScoreReader:
    """Looks up the scores of one call: first in the order of the mapping, then by key.

    Callers often build the mapping in the order of the candidates, so the next unread item is looked at before the
    mapping is probed. With few scores for many candidates a bit filter over the keys' hashes spares most probes.
    """

    cdef object scores
    cdef object get
    cdef Py_ssize_t position
    cdef PyObject* next_key
    cdef PyObject* next_value
    cdef int patience
    cdef vector[uint64_t] filter
    cdef uint64_t filter_mask

    def __cinit__(self, scores, Py_ssize_t candidates):
        self.scores = scores
        self.get = None
        self.next_key = NULL
        self.patience = 0
        self.filter_mask = 0
        if not scores:
            self.scores = None
        elif not PyDict_CheckExact(scores):
            self.get = scores.get
        elif PyDict_Size(scores) * 8 < candidates:
            self.build_filter(candidates)
        else:
            self.position = 0
            self.patience = 64
            self.advance()

    cdef inline void advance(self):
        if not PyDict_Next(self.scores, &self.position, &self.next_key, &self.next_value):
            self.next_key = NULL
            self.patience = 0

    cdef int build_filter(self, Py_ssize_t candidates) except -1:
        cdef uint64_t bits = 1024
        cdef uint64_t hashed
        cdef Py_ssize_t position = 0
        cdef PyObject* key
        cdef PyObject* value
        while bits < 16 * <uint64_t>PyDict_Size(self.scores):
            bits *= 2
        self.filter.assign(bits // 64, 0)
        self.filter_mask = bits - 1
        while PyDict_Next(self.scores, &position, &key, &value):
            if not PyUnicode_CheckExact(<object>key):
                self.filter_mask = 0
                return 0
            hashed = <uint64_t>PyObject_Hash(<object>key)
            self.filter[(hashed & self.filter_mask) >> 6] |= (<uint64_t>1) << (hashed & 63)
        return 0

    cdef inline bint cannot_hold(self, Py_hash_t id_hash):
        cdef uint64_t hashed = <uint64_t>id_hash
        return self.filter_mask != 0 and not (
            self.filter[(hashed & self.filter_mask) >> 6] >> (hashed & 63)
        ) & 1

    cdef int read(self, object entry_id, double* out) except -1:
        """The score of an id, 0.5 where it has none."""
        cdef PyObject* found = NULL
        cdef object value
        cdef int tries
        if self.scores is None:
            # The reference looks the id up all the same, so that an unhashable one is an error.
            if not PyUnicode_CheckExact(entry_id):
                PyObject_Hash(entry_id)
            out[0] = 0.5
            return 0
        if self.patience > 0 and PyUnicode_CheckExact(entry_id):
            for tries in range(3):
                if self.next_key == <PyObject*>entry_id:
                    found = self.next_value
                    self.patience = 64
                    self.advance()
                    break
                if tries == 2 or self.next_key == NULL:
                    self.patience -= 1
                    break
                self.advance()
        if found == NULL:
            if self.get is not None:
                value = self.get(entry_id, 0.5)
                if not as_float64(value, out):
                    out[0] = score_as_float(value, entry_id)
                return 0
            found = PyDict_GetItemWithError(self.scores, entry_id)
            if found == NULL:
                out[0] = 0.5
                return 0
        if PyFloat_CheckExact(<object>found):
            out[0] = PyFloat_AS_DOUBLE(<object>found)
            return 0
        value = <object>found
        if not as_float64(value, out):
            out[0] = score_as_float(value, entry_id)
        return 0


def gather(list entries not None, scores, bint from_access):
    """The columns of a list of entries, or None where the reference's arithmetic is not plain float64.

    ``entries``: any objects with ``id``, ``timestamp`` (or ``last_access``, with ``from_access``) and
    ``effective_importance``. ``scores``: a mapping of ids to similarities, or None.

    Raises whatever reading an entry or a score raises.
    """
    cdef Py_ssize_t rows = PyList_GET_SIZE(entries)
    cdef Gathered gathered = Gathered.__new__(Gathered)
    cdef ScoreReader reader = ScoreReader(scores, rows)
    cdef bint any_scores = reader.scores is not None
    cdef double* relevance
    cdef double* timestamp
    cdef double* importance
    cdef PyTypeObject* packed_type = NULL
    cdef PyTypeObject* other_type = NULL
    cdef unsigned int wanted = HAS_IMPORTANCE | HAS_ID | (HAS_ACCESSED if from_access else HAS_CREATED)
    cdef PackedEntry packed
    cdef object entry, value
    cdef PyObject* item
    cdef Py_ssize_t row

    gathered.entries = entries
    gathered.store.allocate(rows)
    gathered.items.resize(rows)
    relevance = gathered.store.relevance()
    timestamp = gathered.store.timestamp()
    importance = gathered.store.importance()

    for row in range(rows):
        if PyList_GET_SIZE(entries) != rows:
            return None
        if row + PREFETCH_ROWS < rows:
            prefetch(<char*>PyList_GET_ITEM(entries, row + PREFETCH_ROWS) + 32)
        item = PyList_GET_ITEM(entries, row)
        gathered.items[row] = item
        if Py_TYPE(<object>item) != packed_type:
            if Py_TYPE(<object>item) != other_type:
                if reads_from_c(<type>Py_TYPE(<object>item)):
                    packed_type = Py_TYPE(<object>item)
                else:
                    other_type = Py_TYPE(<object>item)
        if Py_TYPE(<object>item) == packed_type:
            packed = <PackedEntry>item
            if packed.known & EXPOSED:
                packed.pack_id()
            if packed.known & wanted == wanted:
                timestamp[row] = packed.accessed_s if from_access else packed.created_s
                importance[row] = packed.effective
                if not any_scores or reader.cannot_hold(packed.id_hash):
                    relevance[row] = 0.5
                else:
                    reader.read(packed.id_text, &relevance[row])
                continue
        entry = <object>item
        value = entry.id
        reader.read(value, &relevance[row])
        value = entry.last_access if from_access else entry.timestamp
        if not as_float64(value, &timestamp[row]):
            return None
        value = entry.effective_importance
        if not as_float64(value, &importance[row]):
            importance[row] = score_as_float(value, getattr(entry, "id", None))
    gathered.view = gathered.store.columns()
    return gathered
