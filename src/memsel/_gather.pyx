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

import copyreg
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

cdef extern from "columns.hpp" namespace "memsel":
    cdef cppclass KeptRow:
        int64_t row
        double relevance
        double recency
        double importance
        double composite
    cdef cppclass CountedCall:
        int64_t (*count_tokens)(void* context, int64_t row) noexcept
        void* context
        vector[KeptRow] kept
        void allocate(size_t) except +
        double* relevance()
        double* timestamp()
        double* importance()

cdef extern from "hash_filter.hpp" namespace "memsel" nogil:
    cdef cppclass HashFilter:
        void start(size_t members) except +
        void stop()
        bint is_on()
        void add(uint64_t hash)
        bint certainly_lacks(uint64_t hash)

cdef extern from "prefetch.hpp" namespace "memsel" nogil:
    void prefetch(const void*)

cdef object NUMPY_FLOAT64 = numpy.float64
cdef object NUMPY_INT64 = numpy.int64
cdef object NDARRAY = numpy.ndarray
cdef object NEW_OBJECT = copyreg.__newobj__  # the oldest pickle protocols know no other way to an extension type
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
    HEADERS_AHEAD = 32                 # rows ahead whose headers are fetched
    IDS_AHEAD = 20                     # rows ahead, fewer than that, whose ids are fetched
    PATIENCE = 64                      # rows whose id may be out of order before the looking stops
    CALLING_FLAGS = 0x3FF              # the flags of a code object that say how it runs, less those of its compilation


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


cdef unsigned int NEXT_SERIAL = 1  # stays odd when it wraps


cdef class PackedEntry:
    """Attributes of an entry, as the objects given and as the numbers that a selection reads."""

    # What a gather reads stands first, next to the object's header. There are no cdef methods, so that no table of them
    # stands in between.
    cdef unsigned int known
    cdef unsigned int serial       # tells the entry from another one that later lies at its address; never 0
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

    def __cinit__(self):
        global NEXT_SERIAL
        self.serial = NEXT_SERIAL
        NEXT_SERIAL += 2

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
        pack_importance(self)

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
        pack_importance(self)

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
        cdef PyObject* found
        cdef object metadata = self._metadata if type(self).metadata is OWN_METADATA else self.metadata
        if PyDict_CheckExact(metadata):
            found = PyDict_GetItemWithError(metadata, ID_KEY)
            return NO_ID if found == NULL else <object>found
        return metadata.get(ID_KEY, NO_ID)

    @property
    def effective_importance(self):
        """Importance after decay: ``importance * decay_factor``."""
        return self.importance * self.decay_factor  # by name: a subclass may have replaced either

    def __reduce__(self):
        return NEW_OBJECT, (type(self),), self.__getstate__()

    def __getstate__(self):
        return stored_state(self, STORED)

    def __setstate__(self, state):
        for name, value in state.items():
            setattr(self, name, value)


cdef object OWN_METADATA = PackedEntry.metadata


cdef void pack_importance(PackedEntry self):
    cdef double importance = 0.0, decay_factor = 0.0
    self.known &= ~<unsigned int>HAS_IMPORTANCE
    if as_float64(self._importance, &importance) and as_float64(self._decay_factor, &decay_factor):
        self.effective = importance * decay_factor
        if self.effective == 0.0 and not PyFloat_Check(self._importance) and not PyFloat_Check(self._decay_factor):
            self.effective = 0.0  # integers know no -0.0
        self.known |= HAS_IMPORTANCE


cdef int pack_id(PackedEntry self) except -1:
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


cdef dict stored_state(self, tuple names):
    """The named attributes and whatever else was set on an object, as ``vars`` of a plain dataclass would be."""
    state = {name: getattr(self, name) for name in names}
    added = object.__getstate__(self)  # the instance's dict, or a pair of it and the slots of subclasses
    for part in added if type(added) is tuple else (added,):
        state.update(part or ())
    return state


# In the order of the dataclass's fields, which is the order of a pickled state.
cdef tuple STORED = (
    "content", "timestamp", "memory_type", "importance", "access_count", "tags", "metadata", "embedding",
    "last_access", "decay_factor", "original_importance",
)
# What a gather takes from C instead of asking for it; a class that replaces one of these is asked.
cdef tuple MIRRORED = (
    "content", "id", "timestamp", "effective_importance", "metadata", "importance", "decay_factor", "last_access",
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
        try:
            if not isinstance(value, numbers.Real):
                1.0 * value
            value = float(value)
        except TypeError:
            raise TypeError(f"the score of {entry_id!r} is a {type(value).__name__}; expected a number") from None
        except OverflowError:
            raise OverflowError(f"the score of {entry_id!r} is too large for a float") from None
    return value


class EntriesChanged(Exception):
    """The list of entries was edited while it was being selected from."""


cdef class PackedScores:
    """An entry and its four scores, made into Python floats when they are first asked for."""

    cdef KeptRow packed
    cdef object _entry
    cdef object _relevance
    cdef object _recency
    cdef object _importance
    cdef object _composite

    @property
    def entry(self):
        """The entry that was scored."""
        return self._entry

    @entry.setter
    def entry(self, value):
        self._entry = value

    @property
    def relevance_score(self):
        """The similarity that the caller gave, or 0.5."""
        if self._relevance is NOT_MADE:
            self._relevance = self.packed.relevance
        return self._relevance

    @relevance_score.setter
    def relevance_score(self, value):
        self._relevance = value

    @property
    def recency_score(self):
        """``exp(-(ln 2 / half_life) * age)``."""
        if self._recency is NOT_MADE:
            self._recency = self.packed.recency
        return self._recency

    @recency_score.setter
    def recency_score(self, value):
        self._recency = value

    @property
    def importance_score(self):
        """The entry's importance after decay."""
        if self._importance is NOT_MADE:
            self._importance = self.packed.importance
        return self._importance

    @importance_score.setter
    def importance_score(self, value):
        self._importance = value

    @property
    def composite_score(self):
        """The weighted sum of the three."""
        if self._composite is NOT_MADE:
            self._composite = self.packed.composite
        return self._composite

    @composite_score.setter
    def composite_score(self, value):
        self._composite = value

    def __reduce__(self):
        return NEW_OBJECT, (type(self),), self.__getstate__()

    def __getstate__(self):
        return stored_state(self, STORED_SCORES)

    def __setstate__(self, state):
        for name, value in state.items():
            setattr(self, name, value)


cdef tuple STORED_SCORES = ("entry", "relevance_score", "recency_score", "importance_score", "composite_score")
cdef object NOT_MADE = object()


cdef class Gathered:
    """One call's entries as columns; ``call`` is the capsule that the kernel reads and writes."""

    cdef CountedCall state
    cdef list entries              # the caller's list, or a copy that only this object knows
    cdef object counter
    cdef vector[unsigned int] serials # of the entries that were read; 0 in a copy, where nothing can change
    cdef PyTypeObject* packed_type # the class whose entries were last read from C
    cdef object error              # what counting a row's tokens raised

    @property
    def call(self):
        """A capsule named memsel.CountedCall, valid while this object lives."""
        return PyCapsule_New(&self.state, b"memsel.CountedCall", NULL)

    def entry(self, Py_ssize_t row):
        """The entry that was read into a row.

        Raises:
            EntriesChanged: another one stands there by now.
        """
        return self.entry_at(row)

    cdef object entry_at(self, Py_ssize_t row):
        cdef object entry
        if row < PyList_GET_SIZE(self.entries):
            entry = <object>PyList_GET_ITEM(self.entries, row)
            if self.serials[row] == 0:
                return entry
            if isinstance(entry, PackedEntry) and (<PackedEntry>entry).serial == self.serials[row]:
                return entry
        raise EntriesChanged

    cdef int64_t tokens(self, Py_ssize_t row) except -1:
        cdef object entry = self.entry_at(row)
        cdef object content
        if self.counter is not None:
            return min(self.counter(entry), MOST_TOKENS)
        content = (<PackedEntry>entry)._content if Py_TYPE(entry) == self.packed_type else entry.content
        if not PyUnicode_CheckExact(content):
            content = str(content)
            if not PyUnicode_CheckExact(content):
                return max(1, len(content) // 4)
        return max(<Py_ssize_t>1, PyUnicode_GET_LENGTH(content) // 4)

    def kept(self, type make not None):
        """The kept rows as instances of ``make``, a class on PackedScores whose constructor is passed over."""
        cdef list made = []
        cdef PackedScores scores
        cdef size_t i
        for i in range(self.state.kept.size()):
            scores = make.__new__(make)
            scores._entry = self.entry_at(self.state.kept[i].row)
            scores.packed = self.state.kept[i]
            scores._relevance = scores._recency = scores._importance = scores._composite = NOT_MADE
            made.append(scores)
        return made

    def reraise(self):
        """Raise what counting tokens raised, if it did."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error


cdef object MOST_TOKENS = (1 << 63) - 1


cdef int64_t count_tokens(void* context, int64_t row) noexcept:
    cdef Gathered gathered = <Gathered>context
    try:
        return gathered.tokens(row)
    except BaseException as error:
        gathered.error = error
        return -1


cdef class ScoreReader:
    """Looks up the scores of one call: among the next items of the mapping first, then by key.

    Callers often build the mapping in the order of the candidates, so the next few items wait in a ring, read before
    they are needed. With few scores for many candidates a bit filter over the keys' hashes spares most look-ups.
    """

    cdef object scores
    cdef object get                # of a mapping that is no plain dict
    cdef HashFilter filter
    cdef bint filters
    cdef int patience              # > 0 while the ring is of use
    cdef Py_ssize_t position       # of PyDict_Next, behind the ring
    cdef unsigned int head
    cdef PyObject* ring_keys[8]    # compared by identity and never followed; NULL where there is nothing
    cdef double ring_scores[8]

    @staticmethod
    cdef ScoreReader over(scores, Py_ssize_t candidates):
        cdef ScoreReader reader = ScoreReader.__new__(ScoreReader)
        cdef unsigned int slot
        reader.scores = scores
        if not PyDict_CheckExact(scores):
            reader.get = scores.get
        elif PyDict_Size(scores) * 8 < candidates:
            reader.build_filter()
        else:
            reader.patience = PATIENCE
            for slot in range(8):
                reader.refill(slot)
        return reader

    cdef int build_filter(self) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* key = NULL
        cdef PyObject* value = NULL
        self.filter.start(PyDict_Size(self.scores))
        while PyDict_Next(self.scores, &position, &key, &value):
            if not PyUnicode_CheckExact(<object>key):
                return 0
            self.filter.add(<uint64_t>PyObject_Hash(<object>key))
        self.filters = True
        return 0

    cdef inline void refill(self, unsigned int slot):
        cdef PyObject* key = NULL
        cdef PyObject* value = NULL
        self.ring_keys[slot] = NULL
        if PyDict_Next(self.scores, &self.position, &key, &value) and PyFloat_CheckExact(<object>value):
            self.ring_keys[slot] = key
            self.ring_scores[slot] = PyFloat_AS_DOUBLE(<object>value)

    cdef inline int read(self, PyObject* entry_id, double* out) except -1:
        """The score of an id, 0.5 where it has none."""
        cdef unsigned int slot = self.head & 7
        if self.patience > 0:
            if self.ring_keys[slot] == entry_id:
                out[0] = self.ring_scores[slot]
                self.refill(slot)
                self.head += 1
                return 0
            if self.found_ahead(entry_id, out):
                return 0
        return self.look_up(<object>entry_id, out)

    cdef bint found_ahead(self, PyObject* entry_id, double* out):
        """Whether an id is in the ring behind its head; the items before it are then done with."""
        cdef unsigned int ahead, slot
        for ahead in range(1, 8):
            slot = (self.head + ahead) & 7
            if self.ring_keys[slot] == entry_id:
                out[0] = self.ring_scores[slot]
                for slot in range(self.head, self.head + ahead + 1):
                    self.refill(slot & 7)
                self.head += ahead + 1
                self.patience = PATIENCE
                return True
        self.patience -= 1
        return False

    cdef int look_up(self, object entry_id, double* out) except -1:
        cdef PyObject* found
        if self.get is not None:
            return as_score(self.get(entry_id, 0.5), entry_id, out)
        found = PyDict_GetItemWithError(self.scores, entry_id)
        if found == NULL:
            out[0] = 0.5
            return 0
        if as_float64(<object>found, out):
            return 0
        # What multiplies like a float may run Python code, which may edit the mapping: the ring is not to be trusted.
        self.patience = 0
        return as_score(<object>found, entry_id, out)


cdef int as_score(object value, object entry_id, double* out) except -1:
    if not as_float64(value, out):
        out[0] = score_as_float(value, entry_id)
    return 0


cdef class ForeignReader:
    """Reads entries of one class that is not on PackedEntry, by its public attributes.

    Where the class's ``id`` and ``effective_importance`` are properties of the documented formulas, to the letter of
    their bytecode, the attributes in the formulas are read instead, which spares two Python calls an entry.
    """

    cdef PyTypeObject* cls
    cdef bint formulas

    cdef int read(self, object entry, bint from_access, ScoreReader reader,
                  double* relevance, double* timestamp, double* importance) except -1:
        """0 where the entry was read, 1 where its numbers are not plain float64."""
        cdef object entry_id, metadata, value, decay_factor
        cdef PyObject* found
        if self.cls != Py_TYPE(entry):
            self.cls = Py_TYPE(entry)
            self.formulas = uses_formulas(<object>self.cls)
        metadata = entry.metadata if self.formulas else None
        if metadata is not None and PyDict_CheckExact(metadata):
            found = PyDict_GetItemWithError(metadata, ID_KEY)
            entry_id = NO_ID if found == NULL else <object>found
        else:
            entry_id = entry.id
        if reader is not None:
            if not self.formulas:
                # Python code ran and may have edited the mapping, so what waits in the ring is not to be trusted.
                reader.patience = 0
            reader.read(<PyObject*>entry_id, relevance)
        else:
            # The reference looks the id up all the same, so that an unhashable one is an error.
            if not PyUnicode_CheckExact(entry_id):
                PyObject_Hash(entry_id)
            relevance[0] = 0.5
        if not as_float64(entry.last_access if from_access else entry.timestamp, timestamp):
            return 1
        if self.formulas:
            value = entry.importance
            decay_factor = entry.decay_factor
            if PyFloat_CheckExact(value) and PyFloat_CheckExact(decay_factor):
                importance[0] = PyFloat_AS_DOUBLE(value) * PyFloat_AS_DOUBLE(decay_factor)
                return 0
        value = entry.effective_importance
        if reader is not None:
            reader.patience = 0
        return as_score(value, entry_id, importance)


cdef tuple meaning(function):
    """What the bytecode of a function depends on, less its docstring."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_consts:
        return ()
    return (code.co_code, code.co_names, code.co_varnames, code.co_consts[1:], code.co_freevars, code.co_argcount,
            code.co_flags & CALLING_FLAGS)


cdef tuple FORMULAS = ()


def formulas_are(id_getter, importance_getter):
    """Tell the gather the two documented formulas, as functions that the interpreter compiled, with docstrings."""
    global FORMULAS
    FORMULAS = (meaning(id_getter), meaning(importance_getter))


cdef tuple KNOWN_CODES = (None, None)  # of the getters that were last found to be the formulas


cdef bint uses_formulas(type cls):
    """Whether a class's ``id`` and ``effective_importance`` are the documented formulas over plain attributes.

    Reading these attributes then runs no Python code.
    """
    global KNOWN_CODES
    cdef object id_property = getattr(cls, "id", None)
    cdef object importance_property = getattr(cls, "effective_importance", None)
    cdef object id_getter, importance_getter, id_code, importance_code
    if type(id_property) is not property or type(importance_property) is not property:
        return False
    if cls.__getattribute__ is not OBJECT_GETATTRIBUTE:
        return False
    for name in ("metadata", "importance", "decay_factor", "timestamp", "last_access"):
        if hasattr(type(getattr(cls, name, None)), "__get__"):
            return False
    id_getter = id_property.fget
    importance_getter = importance_property.fget
    id_code = getattr(id_getter, "__code__", None)
    importance_code = getattr(importance_getter, "__code__", None)
    if id_code is None or importance_code is None:
        return False
    if id_code is not KNOWN_CODES[0] or importance_code is not KNOWN_CODES[1]:
        if (meaning(id_getter), meaning(importance_getter)) != FORMULAS:
            return False
        KNOWN_CODES = (id_code, importance_code)
    return True


cdef object OBJECT_GETATTRIBUTE = object.__getattribute__


def gather(list entries not None, scores, bint from_access, counter=None):
    """The columns of a list of entries, or None where the reference's arithmetic is not plain float64.

    ``entries``: any objects with ``id``, ``timestamp`` (or ``last_access``, with ``from_access``) and
    ``effective_importance``. ``scores``: a mapping of ids to similarities, or None. ``counter``: entry -> tokens, 1 or
    more; None for a quarter of the characters of its content.

    Raises whatever reading an entry or a score raises.
    """
    cdef Py_ssize_t rows = PyList_GET_SIZE(entries)
    cdef Gathered gathered = Gathered.__new__(Gathered)
    cdef ScoreReader reader = ScoreReader.over(scores, rows) if scores else None
    cdef ForeignReader foreign = None
    cdef bint any_scores = reader is not None
    cdef bint filters = any_scores and reader.filters
    cdef bint probes = any_scores and not filters
    cdef double* relevance
    cdef double* timestamp
    cdef double* importance
    cdef PyTypeObject* packed_type = NULL
    cdef PyTypeObject* other_type = NULL
    cdef unsigned int wanted = HAS_IMPORTANCE | HAS_ID | (HAS_ACCESSED if from_access else HAS_CREATED)
    cdef PyObject* item
    cdef PyObject* ahead
    cdef Py_ssize_t row

    gathered.entries = entries
    gathered.counter = counter
    gathered.state.allocate(rows)
    gathered.state.count_tokens = count_tokens
    gathered.state.context = <void*>gathered
    gathered.serials.resize(rows)
    relevance = gathered.state.relevance()
    timestamp = gathered.state.timestamp()
    importance = gathered.state.importance()

    for row in range(rows):
        # A score of an odd type runs Python code, which may edit the list.
        if PyList_GET_SIZE(entries) != rows:
            return None
        if row + HEADERS_AHEAD < rows:
            # From the type to the hash of the id, what is read mostly lies in one cache line; the id itself in the next.
            ahead = PyList_GET_ITEM(entries, row + HEADERS_AHEAD)
            prefetch(<char*>ahead + 24)
            if probes:
                prefetch(<char*>ahead + 48)
                # Looking a score up reads the hash in the id itself.
                ahead = PyList_GET_ITEM(entries, row + IDS_AHEAD)
                if Py_TYPE(<object>ahead) == packed_type:
                    prefetch(<char*>(<PyObject*>(<PackedEntry>ahead).id_text) + 24)
        item = PyList_GET_ITEM(entries, row)
        if Py_TYPE(<object>item) != packed_type and Py_TYPE(<object>item) != other_type:
            if reads_from_c(<type>Py_TYPE(<object>item)):
                packed_type = Py_TYPE(<object>item)
            else:
                other_type = Py_TYPE(<object>item)
        if Py_TYPE(<object>item) == packed_type:
            if (<PackedEntry>item).known & EXPOSED:
                pack_id(<PackedEntry>item)
            if (<PackedEntry>item).known & wanted == wanted:
                gathered.serials[row] = (<PackedEntry>item).serial
                timestamp[row] = (<PackedEntry>item).accessed_s if from_access else (<PackedEntry>item).created_s
                importance[row] = (<PackedEntry>item).effective
                if not any_scores or (filters and reader.filter.certainly_lacks(<uint64_t>(<PackedEntry>item).id_hash)):
                    relevance[row] = 0.5
                else:
                    reader.read(<PyObject*>(<PackedEntry>item).id_text, &relevance[row])
                continue
        if foreign is None:
            foreign = ForeignReader.__new__(ForeignReader)
            # Reading a foreign entry runs Python code, which may edit the list and free what was in it.
            entries = list(entries)
            gathered.entries = entries
            item = PyList_GET_ITEM(entries, row)
        if foreign.read(<object>item, from_access, reader, &relevance[row], &timestamp[row], &importance[row]):
            return None
    gathered.packed_type = packed_type
    return gathered
