# cython: language_level=3, auto_pickle=False
# distutils: language = c++
"""The kernel: score, filter, order and pack rows of packed columns.

Every score that decides or is reported comes from src/kernel/scoring.hpp. The filter pass (src/kernel/filter.hpp) only
leaves out rows that provably cannot matter; the order of rows is ``before`` in src/kernel/order.hpp, and packing.hpp
says which of them fit. No Python object is touched in the loops over rows, and nothing of memsel is imported.
"""

import math
import os

cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport HUGE_VAL, NAN, ceil, floor, isnan
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint16_t, uint64_t
from libcpp.vector cimport vector

import numpy

cdef extern from "Python.h":
    bint PyFloat_CheckExact(object)
    double PyFloat_AS_DOUBLE(object)
    bint PyLong_CheckExact(object)
    bint PyBool_Check(object)
    bint PyIndex_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef extern from "columns.hpp" namespace "memsel":
    cdef cppclass CountedCall:
        Columns columns
        int64_t (*count_tokens)(void* context, int64_t row) noexcept
        void* context
        vector[KeptRow] kept

cdef extern from "compiler.hpp" namespace "memsel" nogil:
    const char* kCompiler

ctypedef fused relevance_t:
    double
    float

ctypedef fused importance_t:
    double
    float

cdef object NUMPY_FLOAT64 = numpy.float64
cdef object NDARRAY = numpy.ndarray
cdef object EMPTY = numpy.empty
cdef object INT64 = numpy.dtype(numpy.int64)
cdef object FLOAT64 = numpy.dtype(numpy.float64)
cdef double LN2 = math.log(2)        # as the reference computes it

cdef enum:
    EXACT_INTEGERS = 9007199254740992  # 2**53: integers up to here are float64 values, exactly
    FIRST_BLOCK_ROWS = 16              # blocks grow from here, so that the bound is of use early
    SAMPLE_ROWS = 1024                 # at least so many rows give the first bound over large columns
    NEGATIVE_TOKENS = -3               # in place of a row
    GIL_ROWS = 2048                    # from here on the GIL is let go while rows are ranked
    TOKEN_BLOCK_ROWS = 1024
    RUN_ROWS = 8192                    # about so many rows a thread takes at once


cdef const FilterLevel* chosen_level() except NULL:
    cdef list names = [filter_level(i).name.decode() for i in range(filter_level_count())]
    cdef str forced = os.environ.get("MEMSEL_ISA", "")
    if not forced:
        return filter_level(len(names) - 1)
    if forced not in names:
        raise ImportError(f"MEMSEL_ISA is {forced!r}; this build on this processor runs {', '.join(names)}")
    return filter_level(names.index(forced))


cdef const FilterLevel* LEVEL = chosen_level()
ISA = LEVEL.name.decode()
COMPILER = kCompiler.decode()


cdef const FilterLevel* filter_in_use() noexcept nogil:
    return LEVEL


# --- the settings of a call ------------------------------------------------------------------------------------------

cdef inline bint plain_number(object value, double* out) except -1:
    """Read a number whose Python arithmetic with floats is float64 arithmetic; False for every other object."""
    cdef int overflow = 0
    cdef long long integer
    if PyFloat_CheckExact(value) or type(value) is NUMPY_FLOAT64:
        out[0] = PyFloat_AS_DOUBLE(value)
        return True
    if PyLong_CheckExact(value) or PyBool_Check(value):
        integer = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow and -EXACT_INTEGERS <= integer <= EXACT_INTEGERS:
            out[0] = <double>integer
            return True
    return False


cdef class Plan:
    """The settings of one call as C numbers."""

    cdef bint read_top_k(self, object limit) except -1:
        """The least count that is >= limit, as Python compares; False for what is not a plain number."""
        cdef int overflow = 0
        cdef double number
        cdef long long integer
        if PyFloat_CheckExact(limit) or type(limit) is NUMPY_FLOAT64:
            number = PyFloat_AS_DOUBLE(limit)
            if isnan(number) or number >= 9.2e18:
                self.c.top_k = INT64_MAX
            else:
                self.c.top_k = <int64_t>ceil(number) if number > 0.0 else 0
            return True
        if not PyIndex_Check(limit):
            return False
        if not PyLong_CheckExact(limit):
            try:
                limit = limit.__index__()
            except TypeError:
                return False  # an array of no dimensions has the method, and refuses where it holds no integer
        integer = PyLong_AsLongLongAndOverflow(limit, &overflow)
        self.c.top_k = INT64_MAX if overflow > 0 else 0 if overflow < 0 or integer < 0 else integer
        return True

    cdef bint read_budget(self, object limit) except -1:
        """The greatest whole number of tokens that is not > limit; False for what is not a plain number."""
        cdef int overflow = 0
        cdef double number
        cdef long long integer
        self.c.budget.unlimited = False
        self.c.budget.nothing_fits = False
        if PyFloat_CheckExact(limit) or type(limit) is NUMPY_FLOAT64:
            number = PyFloat_AS_DOUBLE(limit)
            if isnan(number) or number == HUGE_VAL:
                self.c.budget.unlimited = True
                return True
            if number < 0.0:
                self.c.budget.nothing_fits = True
                return True
            limit = int(floor(number))
        elif not PyIndex_Check(limit):
            return False
        elif not PyLong_CheckExact(limit):
            try:
                limit = limit.__index__()
            except TypeError:
                return False
        integer = PyLong_AsLongLongAndOverflow(limit, &overflow)
        if overflow < 0 or (overflow == 0 and integer < 0):
            self.c.budget.nothing_fits = True
        elif overflow == 0:
            self.c.budget.left_high = 0
            self.c.budget.left_low = <uint64_t>integer
        elif limit >> 126:
            self.c.budget.unlimited = True
        else:
            self.c.budget.left_high = limit >> 64
            self.c.budget.left_low = limit & 0xFFFFFFFFFFFFFFFF
        return True


def plan(config, now, bint has_tokens=True):
    """A config and a clock as C numbers, or None where they are not plain enough for that.

    ``config``: an object with the attributes of SelectionConfig; the ones that only memsel has may be missing. A
    half-life of 0 and words that are none of the allowed ones give None too: the caller knows when they are errors.
    """
    cdef Plan made = Plan.__new__(Plan)
    cdef double half_life = 0.0
    cdef object overflow = getattr(config, "overflow", "skip")
    cdef object recency_from = getattr(config, "recency_from", "created")
    if not (
        plain_number(config.relevance_weight, &made.c.scoring.relevance_weight)
        and plain_number(config.recency_weight, &made.c.scoring.recency_weight)
        and plain_number(config.importance_weight, &made.c.scoring.importance_weight)
        and plain_number(config.recency_half_life_hours, &half_life)
        and plain_number(config.min_composite_score, &made.c.min_score)
        and plain_number(now, &made.c.scoring.now)
        and made.read_top_k(config.top_k)
        and half_life != 0.0
    ):
        return None
    if has_tokens:
        if not made.read_budget(config.token_budget):
            return None
    else:
        made.c.budget.unlimited = True
    made.c.stops_at_overflow = overflow == "stop"
    made.from_access = recency_from == "accessed"
    if not (made.c.stops_at_overflow or overflow == "skip") or not (made.from_access or recency_from == "created"):
        return None
    made.c.scoring.minus_lambda = -(LN2 / half_life)
    made.c.scoring.clamp_future = getattr(config, "clamp_future", False)
    return made


# --- the best rows of a pass -----------------------------------------------------------------------------------------

cdef int64_t rank_columns(const Scoring* scoring, double min_score, const Admission* admission,
                          const relevance_t* relevance, const double* timestamp, const importance_t* importance,
                          const int64_t* tokens, int64_t rows, bint checks_tokens, BestRows* best) except -2 nogil:
    """Offer every row that may be among the best; the first row whose exponent overflows, or -1.

    Rows are taken in input order, so that of equal scores the earlier one is met first. With ``checks_tokens`` the
    answer is NEGATIVE_TOKENS where some row has a negative number of them: looked at here, while the filter computes,
    a column costs less than in a pass of its own.
    """
    cdef FilterQuery query
    cdef uint16_t offsets[512]
    cdef int64_t first = 0, row
    cdef int block = FIRST_BLOCK_ROWS
    cdef int count, found, i
    cdef double score = 0.0, recency = 0.0, start_bound = min_score
    cdef double last_timestamp = NAN, last_recency = NAN
    cdef int64_t sample_rows = max(<int64_t>SAMPLE_ROWS, 8 * admission.capacity)
    cdef int64_t together = 0  # the tokens of all rows or-ed: its sign shows whether one of them is negative
    cdef Ranked last, this

    use_scoring(query, scoring[0])
    last.score = admission.last_score
    last.row = admission.last_row

    if not admission.only_behind and sample_rows <= rows // 64:
        # As many rows as are wanted, from all over the columns, give a bound that holds for all. It spares most of the
        # exact scores where the columns are sorted so that every row is better than those before it.
        best.start(admission.capacity, min_score)
        for i in range(sample_rows):
            row = i * (rows // sample_rows)
            if score_row(scoring[0], relevance[row], timestamp[row], importance[row], recency, score):
                if best.admits(score):
                    best.offer(score, row)
        start_bound = best.bound()

    best.start(admission.capacity, start_bound)
    while first < rows:
        count = <int>min(<int64_t>block, rows - first)
        if checks_tokens:
            for i in range(count):
                together |= tokens[first + i]
        if best.bound() > -HUGE_VAL:
            query.bound = best.bound()
            if relevance_t is double and importance_t is double:
                found = LEVEL.f64_f64(query, relevance + first, timestamp + first, importance + first, count, offsets)
            elif relevance_t is float and importance_t is double:
                found = LEVEL.f32_f64(query, relevance + first, timestamp + first, importance + first, count, offsets)
            elif relevance_t is double and importance_t is float:
                found = LEVEL.f64_f32(query, relevance + first, timestamp + first, importance + first, count, offsets)
            else:
                found = LEVEL.f32_f32(query, relevance + first, timestamp + first, importance + first, count, offsets)
        else:
            found = count
            for i in range(count):
                offsets[i] = <uint16_t>i
        for i in range(found):
            row = first + offsets[i]
            if admission.only_fitting and tokens[row] > admission.most_tokens:
                continue
            if timestamp[row] != last_timestamp:
                # Equal times stand together where rows are ties; their exponential is then taken once.
                if not recency_of(scoring[0], timestamp[row], last_recency):
                    return row
                last_timestamp = timestamp[row]
            score = composite_of(scoring[0], relevance[row], last_recency, importance[row])
            if best.admits(score):
                if admission.only_behind:
                    this.score = score
                    this.row = row
                    if not before(last, this):
                        continue
                best.offer(score, row)
        first += count
        if block < kBlockRows:
            block *= 2
    return NEGATIVE_TOKENS if together < 0 else -1


cdef int64_t rank(const Scoring* scoring, double min_score, const Admission* admission, const Columns* columns,
                  bint checks_tokens, BestRows* best) except -2 nogil:
    """``rank_columns`` for columns of whatever types they have."""
    cdef const double* timestamp = columns.timestamp
    cdef const int64_t* tokens = columns.tokens
    cdef int64_t rows = columns.rows
    if columns.relevance_is_float32:
        if columns.importance_is_float32:
            return rank_columns[float, float](
                scoring, min_score, admission, <const float*>columns.relevance, timestamp,
                <const float*>columns.importance, tokens, rows, checks_tokens, best)
        return rank_columns[float, double](
            scoring, min_score, admission, <const float*>columns.relevance, timestamp,
            <const double*>columns.importance, tokens, rows, checks_tokens, best)
    if columns.importance_is_float32:
        return rank_columns[double, float](
            scoring, min_score, admission, <const double*>columns.relevance, timestamp,
            <const float*>columns.importance, tokens, rows, checks_tokens, best)
    return rank_columns[double, double](
        scoring, min_score, admission, <const double*>columns.relevance, timestamp,
        <const double*>columns.importance, tokens, rows, checks_tokens, best)


cdef inline double relevance_at(const Columns* columns, int64_t row) noexcept nogil:
    if columns.relevance_is_float32:
        return (<const float*>columns.relevance)[row]
    return (<const double*>columns.relevance)[row]


cdef inline double importance_at(const Columns* columns, int64_t row) noexcept nogil:
    if columns.importance_is_float32:
        return (<const float*>columns.importance)[row]
    return (<const double*>columns.importance)[row]


# --- packing ---------------------------------------------------------------------------------------------------------

cdef KeptRow kept_row(const Scoring* scoring, const Columns* columns, const Ranked& ranked) noexcept nogil:
    """A ranked row with all its scores."""
    cdef KeptRow kept
    kept.row = ranked.row
    kept.relevance = relevance_at(columns, ranked.row)
    kept.importance = importance_at(columns, ranked.row)
    kept.composite = ranked.score
    recency_of(scoring[0], columns.timestamp[ranked.row], kept.recency)
    return kept


cdef int64_t pack_columns(const Settings* settings, const Columns* columns, BestRows* best, Walk* walk,
                          vector[KeptRow]* kept, bint checks_tokens=False) except -2 nogil:
    """Rank and pack rows with a column of tokens, or with none; answers as ``rank_columns``.

    A row that does not fit what is left never will, since what is left only shrinks. So each pass after the first admits
    only rows that fit, and keeps at least the first it finds: there are at most top_k + 1 of them.
    """
    cdef const vector[Ranked]* ranked
    cdef int64_t overflowed
    cdef uint64_t tokens
    cdef size_t i
    start_walk(walk[0], settings[0], columns.rows)
    kept.reserve(<size_t>min(walk.admission.capacity, <int64_t>64))
    while True:
        overflowed = rank(&settings.scoring, settings.min_score, &walk.admission, columns,
                          checks_tokens and not walk.admission.only_behind, best)
        if overflowed != -1:
            return overflowed
        ranked = &best.finish()
        for i in range(ranked.size()):
            if walk.room <= 0 or walk.stopped:
                return -1
            tokens = <uint64_t>columns.tokens[ranked[0][i].row] if columns.tokens != NULL else 0
            if takes(walk[0], ranked[0][i], tokens):
                kept.push_back(kept_row(&settings.scoring, columns, ranked[0][i]))
        if not goes_on(walk[0], ranked[0], columns.rows):
            return -1
        if columns.tokens != NULL and not only_fitting_from_now(walk[0]):
            return -1


cdef enum:
    # memsel.Outcome; tests hold the two together.
    KEPT = 0
    BELOW_MIN_SCORE = 1
    OVER_BUDGET = 2
    PAST_TOP_K = 3


cdef void write_outcomes(const Settings* settings, const Columns* columns, const Walk* walk,
                         const vector[KeptRow]* kept, uint8_t* outcomes) noexcept nogil:
    """One code a row, after a walk without overflow."""
    cdef double recency = 0.0, composite = 0.0
    cdef Ranked last, this
    cdef int64_t row
    cdef size_t i
    last.score = walk.last_score
    last.row = walk.last_row
    for row in range(columns.rows):
        score_row(settings.scoring, relevance_at(columns, row), columns.timestamp[row], importance_at(columns, row),
                  recency, composite)
        this.score = composite
        this.row = row
        if not composite >= settings.min_score:
            outcomes[row] = BELOW_MIN_SCORE
        elif walk.room <= 0 and before(last, this):
            outcomes[row] = PAST_TOP_K
        else:
            outcomes[row] = OVER_BUDGET
    for i in range(kept.size()):
        outcomes[kept[0][i].row] = KEPT


class OverflowAt(Exception):
    """A finite exponent has an infinite exponential; ``args[0]`` is the row."""


class NegativeTokensAt(Exception):
    """A row has a negative number of tokens; ``args[0]`` is the first one that has."""


def select_counted(capsule, Plan settings not None):
    """Rank and pack rows whose tokens are counted when they are reached; what is kept goes into the call, best first.

    ``capsule``: the call, named memsel.CountedCall, kept alive by the caller. False where counting a row failed.

    Raises:
        OverflowAt: see there.
    """
    cdef CountedCall* call = <CountedCall*>PyCapsule_GetPointer(capsule, b"memsel.CountedCall")
    cdef const Columns* columns = &call.columns
    cdef BestRows best
    cdef Walk walk
    cdef const vector[Ranked]* ranked
    cdef int64_t overflowed, tokens
    cdef size_t i

    start_walk(walk, settings.c, columns.rows)
    call.kept.clear()
    call.kept.reserve(<size_t>min(walk.admission.capacity, <int64_t>64))
    while True:
        if columns.rows >= GIL_ROWS:
            with nogil:
                overflowed = rank(&settings.c.scoring, settings.c.min_score, &walk.admission, columns, False,
                                  &best)
        else:
            overflowed = rank(&settings.c.scoring, settings.c.min_score, &walk.admission, columns, False,
                                  &best)
        if overflowed >= 0:
            raise OverflowAt(overflowed)
        ranked = &best.finish()
        for i in range(ranked.size()):
            # Every row costs at least one token.
            if walk.room <= 0 or walk.stopped or not fits(walk.budget, 1):
                return True
            tokens = call.count_tokens(call.context, ranked[0][i].row)
            if tokens < 0:
                return False
            if takes(walk, ranked[0][i], <uint64_t>tokens):
                call.kept.push_back(kept_row(&settings.c.scoring, columns, ranked[0][i]))
        if not goes_on(walk, ranked[0], columns.rows):
            return True


def score_all(capsule, Plan settings not None):
    """The scores of every row, and the rows that reach the minimum, in order.

    Returns (scores, ranked): a list of (relevance, recency, importance, composite), one a row, and a list of rows,
    best first.

    Raises:
        OverflowAt: see there.
    """
    cdef CountedCall* call = <CountedCall*>PyCapsule_GetPointer(capsule, b"memsel.CountedCall")
    cdef const Columns* columns = &call.columns
    cdef BestRows best
    cdef Admission admission = everything(columns.rows)
    cdef const vector[Ranked]* ranked
    cdef int64_t row, overflowed
    cdef double recency = 0.0, composite = 0.0
    with nogil:
        overflowed = rank(&settings.c.scoring, settings.c.min_score, &admission, columns, False, &best)
    if overflowed >= 0:
        raise OverflowAt(overflowed)
    scores = []
    for row in range(columns.rows):
        score_row(settings.c.scoring, relevance_at(columns, row), columns.timestamp[row],
                  importance_at(columns, row), recency, composite)
        scores.append((relevance_at(columns, row), recency, importance_at(columns, row), composite))
    ranked = &best.finish()
    return scores, [ranked[0][i].row for i in range(ranked.size())]


# --- columns from buffers --------------------------------------------------------------------------------------------

cdef class Buffers:
    """Columns over the buffers of up to four objects, which it keeps alive and locked against resizing."""

    cdef Columns columns
    cdef Py_buffer views[4]
    cdef int held

    @property
    def rows(self):
        return self.columns.rows

    @property
    def has_tokens(self):
        return self.columns.tokens != NULL

    def timestamp_at(self, int64_t row):
        """The timestamp of a row that there is."""
        return self.columns.timestamp[row]

    def tokens_at(self, int64_t row):
        """The tokens of a row that there is, where there are tokens."""
        return self.columns.tokens[row]

    def __dealloc__(self):
        while self.held > 0:
            self.held -= 1
            PyBuffer_Release(&self.views[self.held])

    cdef char hold(self, object column, int64_t* rows) except? 0:
        """Hold a one-dimensional contiguous buffer; the letter of its native type, or 0 where it is something else."""
        cdef Py_buffer* view = &self.views[self.held]
        cdef char letter
        if not PyObject_CheckBuffer(column):
            return 0
        if type(column) is not NDARRAY and isinstance(column, NDARRAY):
            return 0  # a subclass may mean more than its buffer says: a masked array's nulls are not in it
        try:
            PyObject_GetBuffer(column, view, PyBUF_FORMAT | PyBUF_ND | PyBUF_STRIDES)
        except (BufferError, ValueError):
            return 0
        self.held += 1
        if view.ndim != 1 or view.format == NULL or view.format[0] == 0 or view.format[1] != 0:
            return 0
        if view.shape[0] > 1 and view.strides[0] != view.itemsize:
            return 0
        if <size_t>view.buf % <size_t>view.itemsize != 0:
            return 0
        rows[0] = view.shape[0]
        letter = view.format[0]
        return b"q" if letter == b"l" and view.itemsize == 8 else letter


def buffers(relevance, timestamp, importance, tokens):
    """The columns over four buffers, or None where one is not laid out as the kernel reads it.

    The kernel reads one-dimensional contiguous native columns of one length: float64 or float32 ``relevance`` and
    ``importance``, float64 ``timestamp``, int64 ``tokens``. ``tokens`` may be None, and so may ``relevance``, for queries
    that bring their own.
    """
    cdef Buffers made = Buffers.__new__(Buffers)
    cdef int64_t rows = 0, others = 0
    cdef char letter
    if made.hold(timestamp, &rows) != b"d":
        return None
    made.columns.timestamp = <const double*>made.views[0].buf
    made.columns.rows = rows
    letter = made.hold(importance, &others)
    if letter != b"d" and letter != b"f" or others != rows:
        return None
    made.columns.importance = made.views[1].buf
    made.columns.importance_is_float32 = letter == b"f"
    if relevance is not None:
        letter = made.hold(relevance, &others)
        if letter != b"d" and letter != b"f" or others != rows:
            return None
        made.columns.relevance = made.views[2].buf
        made.columns.relevance_is_float32 = letter == b"f"
    if tokens is not None:
        if made.hold(tokens, &others) != b"q" or others != rows:
            return None
        made.columns.tokens = <const int64_t*>made.views[made.held - 1].buf
    return made


def score_matrix(flat):
    """A contiguous float64 or float32 buffer of q * n scores, for a Batch."""
    cdef Buffers made = Buffers.__new__(Buffers)
    cdef char letter = made.hold(flat, &made.columns.rows)
    if letter != b"d" and letter != b"f":
        raise TypeError("expected contiguous float64 or float32 scores")
    made.columns.relevance = made.views[0].buf
    made.columns.relevance_is_float32 = letter == b"f"
    return made


def negative_tokens(Buffers columns not None):
    """The first row with a negative number of tokens, or -1."""
    cdef const int64_t* tokens = columns.columns.tokens
    cdef int64_t rows = columns.columns.rows
    cdef int64_t row = -1
    if tokens == NULL:
        return -1
    if rows >= GIL_ROWS:
        with nogil:
            row = first_negative(tokens, rows)
    else:
        row = first_negative(tokens, rows)
    return row


cdef int64_t first_negative(const int64_t* tokens, int64_t rows) noexcept nogil:
    cdef int64_t first = 0, row, together
    while first < rows:
        # The sign of what is or-ed together is negative where one of them is.
        together = 0
        for row in range(first, min(first + TOKEN_BLOCK_ROWS, rows)):
            together |= tokens[row]
        if together < 0:
            for row in range(first, rows):
                if tokens[row] < 0:
                    return row
        first += TOKEN_BLOCK_ROWS
    return -1


cdef int check_place(int64_t place, int64_t least, int64_t most) except -1:
    """Refuse a place that a caller's array did not have when it was checked."""
    if place < least or place > most:
        raise ValueError("offsets or rows were written to while they were read")
    return 0


cdef class Batch:
    """Queries over columns, their settings and what they keep.

    Any number of threads may be inside ``run`` at once; each query is done by one of them.
    """

    cdef list kept_alive
    cdef vector[Columns] queries
    cdef vector[Settings] settings       # one, or one a query
    cdef vector[vector[KeptRow]] kept
    cdef vector[int64_t] outcome_of_walk # what pack_columns answered
    cdef vector[uint64_t] tokens_low     # the tokens of what was kept, in two halves
    cdef vector[uint64_t] tokens_high
    cdef bint checks_tokens              # that none is negative; the caller has looked where columns are shared
    cdef int64_t run_length              # how many neighbouring queries a thread takes at once
    # Where scores are sparse: where each query's begin (else empty) and their rows, in copies that were checked, since a
    # caller's arrays may be written to meanwhile; and the scores, where they lie.
    cdef vector[int64_t] sparse_starts
    cdef vector[int64_t] sparse_rows
    cdef const double* sparse_scores
    cdef vector[vector[double]] idle     # columns of 0.5 that no thread is using
    cdef uint8_t* outcomes               # or NULL; a query's begin at outcome_starts[query]
    cdef vector[int64_t] outcome_starts
    cdef WorkQueue queue

    def __init__(self, int64_t queries, Buffers columns not None, list plans not None, const int64_t[::1] offsets=None,
                 Buffers relevance=None, sparse=None, outcomes=None):
        """``queries`` queries over ``columns``, checked by the caller.

        ``plans``: one, or one a query. With ``offsets`` (q + 1) a query's rows lie one behind the other. Otherwise every
        query reads all rows, with the scores of its own row of ``relevance`` (q * n values), or of ``sparse``: starts
        (q + 1), rows and scores, int64, int64 and float64, and 0.5 for the rows not named. ``outcomes``: a writable uint8
        array, a code for each row of each query, or None.
        """
        cdef Columns part
        cdef int64_t query, first, last, rows = columns.columns.rows
        cdef const int64_t[::1] starts, sparse_rows
        cdef const double[::1] sparse_scores
        cdef uint8_t[::1] codes
        self.kept_alive = [columns, relevance, sparse, outcomes]
        if sparse is not None:
            starts, sparse_rows, sparse_scores = sparse
            if starts.shape[0] <= queries or sparse_rows.shape[0] > sparse_scores.shape[0]:
                raise ValueError("sparse scores are too few")
            for first in sparse_rows:
                check_place(first, 0, rows - 1)
                self.sparse_rows.push_back(first)
            for query in range(queries + 1):
                first = starts[query]
                check_place(first, self.sparse_starts.back() if query > 0 else 0, sparse_rows.shape[0])
                self.sparse_starts.push_back(first)
            if sparse_rows.shape[0] > 0:
                self.sparse_scores = &sparse_scores[0]
        if outcomes is not None and outcomes.size > 0:
            codes = outcomes
            self.outcomes = &codes[0]
        for query in range(queries):
            part = columns.columns
            first = 0
            if offsets is not None:
                first = offsets[query]
                last = offsets[query + 1]
                check_place(first, 0, last)
                check_place(last, first, rows)
                part.rows = last - first
                part.relevance = <const char*>part.relevance + first * (4 if part.relevance_is_float32 else 8)
                part.timestamp = part.timestamp + first
                part.importance = <const char*>part.importance + first * (4 if part.importance_is_float32 else 8)
                if part.tokens != NULL:
                    part.tokens = part.tokens + first
                self.outcome_starts.push_back(first)
            else:
                self.outcome_starts.push_back(query * rows)
                if sparse is None:
                    part.relevance_is_float32 = relevance.columns.relevance_is_float32
                    part.relevance = (
                        <const char*>relevance.columns.relevance
                        + query * rows * (4 if part.relevance_is_float32 else 8)
                    )
                else:
                    part.relevance_is_float32 = False
            self.queries.push_back(part)
        for settings in plans:
            self.settings.push_back((<Plan?>settings).c)
        self.kept.resize(queries)
        self.tokens_low.resize(queries)
        self.tokens_high.resize(queries)
        self.outcome_of_walk.assign(queries, -1)
        self.checks_tokens = offsets is not None and columns.columns.tokens != NULL
        self.run_length = 1
        if offsets is not None and queries > 0:
            self.run_length = max(1, min(64, RUN_ROWS * queries // max(1, rows)))
        self.queue.start(queries)

    def run(self, double seconds=HUGE_VAL):
        """Do queries until none is left, or for about so many seconds; True when none is left."""
        cdef vector[double] relevance
        cdef bint finished
        if self.idle.size() > 0:
            relevance.swap(self.idle.back())
            self.idle.pop_back()
        with nogil:
            finished = self.work(seconds, &relevance)
        if relevance.size() > 0:
            self.idle.resize(self.idle.size() + 1)
            self.idle.back().swap(relevance)
        return finished

    def stop(self):
        """Let no further query begin."""
        self.queue.stop()

    cdef bint work(self, double seconds, vector[double]* relevance) except -1 nogil:
        cdef BestRows best
        cdef Walk walk
        cdef int64_t query, end = 0
        cdef double started = monotonic_seconds()
        while monotonic_seconds() - started < seconds:
            query = self.queue.take_run(self.run_length, end)
            if query < 0:
                return True
            while query < end and not self.queue.is_past(query):
                self.do_query(query, relevance, &best, &walk)
                query += 1
        return False

    cdef int do_query(self, int64_t query, vector[double]* relevance, BestRows* best, Walk* walk) except -1 nogil:
        cdef Columns columns = self.queries[query]
        cdef const Settings* settings = &self.settings[query if self.settings.size() > 1 else 0]
        cdef int64_t answer, i
        if self.sparse_starts.size() > 0:
            if relevance.size() == 0:
                relevance.assign(<size_t>columns.rows + 1, 0.5)
            for i in range(self.sparse_starts[query], self.sparse_starts[query + 1]):
                relevance[0][self.sparse_rows[i]] = self.sparse_scores[i]
            columns.relevance = relevance.data()
        answer = pack_columns(settings, &columns, best, walk, &self.kept[query], self.checks_tokens)
        self.outcome_of_walk[query] = answer
        if answer != -1:
            self.queue.fail(query)
        else:
            add_tokens(&columns, &self.kept[query], &self.tokens_low[query], &self.tokens_high[query])
            if self.outcomes != NULL:
                write_outcomes(settings, &columns, walk, &self.kept[query],
                               self.outcomes + self.outcome_starts[query])
        if self.sparse_starts.size() > 0:
            for i in range(self.sparse_starts[query], self.sparse_starts[query + 1]):
                relevance[0][self.sparse_rows[i]] = 0.5
        return 0

    def failure(self):
        """(query, row, negative tokens) of the first query that failed, or None, when no thread is inside ``run``.

        The row is the first with negative tokens where there is one, and else the one whose exponent overflows.
        """
        cdef int64_t query = self.queue.first_failed()
        cdef int64_t negative = -1
        if query < 0:
            return None
        if self.checks_tokens:
            negative = first_negative(self.queries[query].tokens, self.queries[query].rows)
        if negative >= 0:
            return query, negative, True
        return query, self.outcome_of_walk[query], False

    def selections(self, type make not None, list outcomes):
        """What the queries kept, as instances of ``make``, a class on PackedSelection; each query's once.

        ``outcomes``: an array a query, or None.
        """
        cdef list made = []
        cdef size_t query
        for query in range(self.kept.size()):
            made.append(selection(make, &self.kept[query], self.tokens_low[query], self.tokens_high[query],
                                  None if outcomes is None else outcomes[query]))
        return made


# --- what the array doors answer with --------------------------------------------------------------------------------

cdef class PackedSelection:
    """The rows of one selection and their scores, made into arrays when they are first asked for."""

    def __len__(self):
        return self.kept.size()

    @property
    def indices(self):
        """The rows, best first: int64."""
        cdef int64_t* values
        cdef Py_buffer view
        cdef size_t i
        if self._indices is None:
            made = EMPTY(self.kept.size(), INT64)
            PyObject_GetBuffer(made, &view, PyBUF_WRITABLE)
            values = <int64_t*>view.buf
            for i in range(self.kept.size()):
                values[i] = self.kept[i].row
            PyBuffer_Release(&view)
            self._indices = made
        return self._indices

    @property
    def scores(self):
        """The composite scores of the rows in ``indices``: float64."""
        if self._scores is None:
            self._scores = self.column(COMPOSITE)
        return self._scores

    @property
    def relevance(self):
        """The relevance of the rows in ``indices``: float64."""
        if self._relevance is None:
            self._relevance = self.column(RELEVANCE)
        return self._relevance

    @property
    def recency(self):
        """The recency of the rows in ``indices``: float64."""
        if self._recency is None:
            self._recency = self.column(RECENCY)
        return self._recency

    @property
    def importance(self):
        """The importance of the rows in ``indices``: float64."""
        if self._importance is None:
            self._importance = self.column(IMPORTANCE)
        return self._importance

    @property
    def tokens_used(self):
        """The tokens of the rows in ``indices``, summed; 0 where there is no column of tokens."""
        return (<object>self.tokens_high << 64) + self.tokens_low if self.tokens_high else self.tokens_low

    def __getstate__(self):
        return (self.indices, self.relevance, self.recency, self.importance, self.scores, self.tokens_used,
                self.outcomes, self.ids)

    def __setstate__(self, state):
        cdef KeptRow kept
        indices, relevance, recency, importance, scores, tokens_used, self.outcomes, self.ids = state
        self.tokens_low = tokens_used & 0xFFFFFFFFFFFFFFFF
        self.tokens_high = tokens_used >> 64
        for kept.row, kept.relevance, kept.recency, kept.importance, kept.composite in zip(
            indices, relevance, recency, importance, scores
        ):
            self.kept.push_back(kept)

    cdef object column(self, int which):
        cdef double* values
        cdef Py_buffer view
        cdef size_t i
        made = EMPTY(self.kept.size(), FLOAT64)
        PyObject_GetBuffer(made, &view, PyBUF_WRITABLE)
        values = <double*>view.buf
        for i in range(self.kept.size()):
            if which == RELEVANCE:
                values[i] = self.kept[i].relevance
            elif which == RECENCY:
                values[i] = self.kept[i].recency
            elif which == IMPORTANCE:
                values[i] = self.kept[i].importance
            else:
                values[i] = self.kept[i].composite
        PyBuffer_Release(&view)
        return made


cdef enum:
    RELEVANCE
    RECENCY
    IMPORTANCE
    COMPOSITE


cdef void add_tokens(const Columns* columns, const vector[KeptRow]* kept, uint64_t* low, uint64_t* high) noexcept nogil:
    """Add the tokens of kept rows, where there is a column of them, to a sum in two halves."""
    cdef uint64_t tokens
    cdef size_t i
    if columns.tokens == NULL:
        return
    for i in range(kept.size()):
        tokens = <uint64_t>columns.tokens[kept[0][i].row]
        low[0] += tokens
        high[0] += low[0] < tokens


cdef PackedSelection selection(type make, vector[KeptRow]* kept, uint64_t tokens_low, uint64_t tokens_high, outcomes):
    """A selection of the class ``make`` that takes the kept rows over."""
    cdef PackedSelection made = make.__new__(make)
    made.kept.swap(kept[0])
    made.tokens_low = tokens_low
    made.tokens_high = tokens_high
    made.outcomes = outcomes
    return made


def select_columns(Buffers columns not None, Plan settings not None, type make not None, outcomes=None):
    """One query over columns, as an instance of ``make``, a class on PackedSelection.

    ``outcomes``: a writable contiguous uint8 array to write one code a row into, or None.

    Raises:
        NegativeTokensAt, OverflowAt: see there; the former where both are due.
    """
    cdef BestRows best
    cdef Walk walk
    cdef vector[KeptRow] kept
    cdef int64_t overflowed
    cdef uint64_t low = 0, high = 0
    cdef bint has_tokens = columns.columns.tokens != NULL
    cdef uint8_t* codes = NULL
    cdef Py_buffer view
    if columns.columns.relevance == NULL and columns.columns.rows > 0:
        raise ValueError("columns without relevance")
    if columns.columns.rows >= GIL_ROWS:
        with nogil:
            overflowed = pack_columns(&settings.c, &columns.columns, &best, &walk, &kept, has_tokens)
    else:
        overflowed = pack_columns(&settings.c, &columns.columns, &best, &walk, &kept, has_tokens)
    if overflowed != -1 and negative_tokens(columns) >= 0:
        raise NegativeTokensAt(negative_tokens(columns))
    if overflowed >= 0:
        raise OverflowAt(overflowed)
    if outcomes is not None:
        PyObject_GetBuffer(outcomes, &view, PyBUF_WRITABLE)
        codes = <uint8_t*>view.buf
        with nogil:
            write_outcomes(&settings.c, &columns.columns, &walk, &kept, codes)
        PyBuffer_Release(&view)
    add_tokens(&columns.columns, &kept, &low, &high)
    return selection(make, &kept, low, high, outcomes)
