# What the ranking may use of the word cutter; see _words.pyx.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libcpp.vector cimport vector


cdef struct Slice:
    Py_ssize_t start
    Py_ssize_t length


cdef struct Slot:
    uint64_t hash
    Py_ssize_t start
    Py_ssize_t length
    int32_t id


ctypedef fused Wide:
    uint16_t
    uint32_t


cdef class Cutter:
    cdef vector[uint32_t] folded
    cdef vector[uint8_t] classes
    cdef vector[Slice] slices
    cdef int cut(self, str text) except -1
    cdef int fold(self, str text, bint normalised) except -1
    cdef int slice_runs(self, Py_ssize_t n) except -1


cdef class WordTable:
    cdef vector[Slot] slots
    cdef vector[uint32_t] letters
    cdef readonly int32_t count
    cdef int32_t find(self, const uint32_t* word, Py_ssize_t length, uint64_t hash) noexcept
    cdef int32_t add(self, const uint32_t* word, Py_ssize_t length, uint64_t hash) except -1
    cdef int grow(self) except -1


cdef class QueryWords:
    cdef Cutter cutter
    cdef WordTable table
    cdef vector[uint64_t] openings
    cdef vector[uint32_t] stamps
    cdef vector[uint32_t] word
    cdef uint64_t first_letters[4]
    cdef uint32_t stamp
    cdef readonly int32_t total
    cdef readonly int32_t carried
    cdef void open_with(self, uint32_t first, uint32_t second) noexcept
    cdef void begin(self) noexcept
    cdef int look(self, str text) except -1
    cdef bint may_open(self, uint32_t first) noexcept
    cdef int look_wide(self, const Wide* text, Py_ssize_t n) except -1
    cdef int look_latin(self, const uint8_t* text, Py_ssize_t n) except -1
    cdef void mark(self, const uint32_t* word, Py_ssize_t length) noexcept


cdef class WordSets:
    cdef Cutter cutter
    cdef WordTable table
    cdef vector[uint8_t] guarded
    cdef vector[int32_t] ids
    cdef vector[int32_t] guard_ids
    cdef int read(self, str text) except -1
