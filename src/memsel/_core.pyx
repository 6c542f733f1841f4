# cython: language_level=3, auto_pickle=False
# distutils: language = c++
"""The kernel: score, filter, order and pack rows of packed columns.

Every score that decides or is reported comes from ``score_row``. The filter pass (src/kernel/filter.hpp) only leaves out
rows that provably cannot matter; the order of rows is ``before`` in src/kernel/order.hpp. No Python object is touched
in the loops over rows, and nothing of memsel is imported.
"""

import math
import os

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport HUGE_VAL, ceil, exp, floor, isfinite, isinf, isnan
from libc.stdint cimport INT64_MAX, int64_t, uint16_t, uint64_t
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
    cdef cppclass Columns:
        const void* relevance
        const double* timestamp
        const void* importance
        const int64_t* tokens
        int64_t rows
        bint relevance_is_float32
        bint importance_is_float32
    cdef cppclass KeptRow:
        int64_t row
        double relevance
        double recency
        double importance
        double composite
    cdef cppclass CountedCall:
        Columns columns
        int64_t (*count_tokens)(void* context, int64_t row) noexcept
        void* context
        vector[KeptRow] kept

cdef extern from "order.hpp" namespace "memsel" nogil:
    cdef cppclass Ranked:
        double score
        int64_t row
    bint before(const Ranked&, const Ranked&)
    cdef cppclass BestRows:
        void start(int64_t capacity, double threshold) except +
        double bound()
        bint admits(double score)
        void offer(double score, int64_t row) except +
        const vector[Ranked]& finish()

cdef extern from "filter.hpp" namespace "memsel" nogil:
    int kBlockRows
    cdef cppclass FilterQuery:
        double relevance_weight
        double importance_weight
        double recency_weight
        double now
        double clock
        double exponent_rate
        double bound
    cdef cppclass FilterLevel:
        const char* name
        int (*f64_f64)(const FilterQuery&, const double*, const double*, const double*, int, uint16_t*)
        int (*f32_f64)(const FilterQuery&, const float*, const double*, const double*, int, uint16_t*)
        int (*f64_f32)(const FilterQuery&, const double*, const double*, const float*, int, uint16_t*)
        int (*f32_f32)(const FilterQuery&, const float*, const double*, const float*, int, uint16_t*)
    int filter_level_count()
    const FilterLevel* filter_level(int index)

ctypedef fused relevance_t:
    double
    float

ctypedef fused importance_t:
    double
    float

cdef object NUMPY_FLOAT64 = numpy.float64
cdef double LN2 = math.log(2)        # as the reference computes it
cdef double LOG2_E = 1.0 / math.log(2)

cdef enum:
    EXACT_INTEGERS = 9007199254740992  # 2**53: integers up to here are float64 values, exactly
    FIRST_BLOCK_ROWS = 16              # blocks grow from here, so that the bound is of use early
    FIRST_CAPACITY = 256               # rows ranked before it is known how many the budget takes
    CAPACITY_GROWTH = 8
    GIL_ROWS = 2048                    # from here on the GIL is let go while rows are ranked


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


# --- one row ---------------------------------------------------------------------------------------------------------

cdef struct Scoring:
    double relevance_weight
    double recency_weight
    double importance_weight
    double minus_lambda      # -(ln 2 / half_life_hours), per hour of age
    double now
    bint clamp_future


cdef inline bint recency_of(const Scoring* scoring, double timestamp, double* recency) noexcept nogil:
    """Recency of a timestamp; False where a finite exponent overflows."""
    cdef double hours = (scoring.now - timestamp) / 3600.0
    cdef double exponent
    if scoring.clamp_future and hours < 0.0:
        hours = 0.0
    exponent = scoring.minus_lambda * hours
    recency[0] = exp(exponent)
    return not (isinf(recency[0]) and isfinite(exponent))


cdef inline bint score_row(const Scoring* scoring, double relevance, double timestamp, double importance,
                           double* recency, double* composite) noexcept nogil:
    """Recency and composite of a row; False where a finite exponent overflows."""
    if not recency_of(scoring, timestamp, recency):
        return False
    composite[0] = (
        scoring.relevance_weight * relevance + scoring.recency_weight * recency[0]
    ) + scoring.importance_weight * importance
    return True


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

    cdef Scoring scoring
    cdef double min_score
    cdef int64_t top_k            # how many rows reach the limit; INT64_MAX = none does
    cdef bint nothing_fits        # a negative budget
    cdef bint unlimited
    cdef uint64_t budget_high     # the budget in whole tokens, in two halves, since sums of int64 may pass 2**63
    cdef uint64_t budget_low
    cdef bint stops_at_overflow
    cdef readonly bint from_access

    cdef bint read_top_k(self, object limit) except -1:
        """The least count that is >= limit, as Python compares; False for what is not a plain number."""
        cdef int overflow = 0
        cdef double number
        cdef long long integer
        if PyFloat_CheckExact(limit) or type(limit) is NUMPY_FLOAT64:
            number = PyFloat_AS_DOUBLE(limit)
            if isnan(number) or number >= 9.2e18:
                self.top_k = INT64_MAX
            else:
                self.top_k = <int64_t>ceil(number) if number > 0.0 else 0
            return True
        if not PyIndex_Check(limit):
            return False
        if not PyLong_CheckExact(limit):
            limit = limit.__index__()
        integer = PyLong_AsLongLongAndOverflow(limit, &overflow)
        self.top_k = INT64_MAX if overflow > 0 else 0 if overflow < 0 or integer < 0 else integer
        return True

    cdef bint read_budget(self, object limit) except -1:
        """The greatest whole number of tokens that is not > limit; False for what is not a plain number."""
        cdef int overflow = 0
        cdef double number
        cdef long long integer
        self.unlimited = False
        self.nothing_fits = False
        if PyFloat_CheckExact(limit) or type(limit) is NUMPY_FLOAT64:
            number = PyFloat_AS_DOUBLE(limit)
            if isnan(number) or number == HUGE_VAL:
                self.unlimited = True
                return True
            if number < 0.0:
                self.nothing_fits = True
                return True
            limit = int(floor(number))
        elif not PyIndex_Check(limit):
            return False
        elif not PyLong_CheckExact(limit):
            limit = limit.__index__()
        integer = PyLong_AsLongLongAndOverflow(limit, &overflow)
        if overflow < 0 or (overflow == 0 and integer < 0):
            self.nothing_fits = True
        elif overflow == 0:
            self.budget_high = 0
            self.budget_low = <uint64_t>integer
        elif limit >> 126:
            self.unlimited = True
        else:
            self.budget_high = limit >> 64
            self.budget_low = limit & 0xFFFFFFFFFFFFFFFF
        return True


def plan(config, now, bint has_tokens=True):
    """A config and a clock as C numbers, or None where they are not plain enough for that.

    ``config``: an object with the attributes of SelectionConfig; the ones that only memsel has may be missing. A
    half-life of 0 and words that are none of the allowed ones give None too: the caller knows when they are errors.
    """
    cdef Plan made = Plan.__new__(Plan)
    cdef double half_life
    cdef object overflow = getattr(config, "overflow", "skip")
    cdef object recency_from = getattr(config, "recency_from", "created")
    if not (
        plain_number(config.relevance_weight, &made.scoring.relevance_weight)
        and plain_number(config.recency_weight, &made.scoring.recency_weight)
        and plain_number(config.importance_weight, &made.scoring.importance_weight)
        and plain_number(config.recency_half_life_hours, &half_life)
        and plain_number(config.min_composite_score, &made.min_score)
        and plain_number(now, &made.scoring.now)
        and made.read_top_k(config.top_k)
        and half_life != 0.0
    ):
        return None
    if has_tokens:
        if not made.read_budget(config.token_budget):
            return None
    else:
        made.unlimited = True
    made.stops_at_overflow = overflow == "stop"
    made.from_access = recency_from == "accessed"
    if not (made.stops_at_overflow or overflow == "skip") or not (made.from_access or recency_from == "created"):
        return None
    made.scoring.minus_lambda = -(LN2 / half_life)
    made.scoring.clamp_future = getattr(config, "clamp_future", False)
    return made


# --- the best rows of a pass -----------------------------------------------------------------------------------------

cdef struct Admission:
    int64_t capacity       # how many rows the pass keeps
    bint only_behind       # only rows behind `last` in the order
    double last_score
    int64_t last_row
    bint only_fitting      # only rows of at most `most_tokens`
    int64_t most_tokens


cdef Admission everything(int64_t capacity) noexcept nogil:
    """Admission of any row, for a pass that keeps up to ``capacity`` of them, and at least one."""
    cdef Admission admission
    admission.capacity = max(<int64_t>1, capacity)
    admission.only_behind = False
    admission.last_score = 0.0
    admission.last_row = -1
    admission.only_fitting = False
    admission.most_tokens = 0
    return admission


cdef int64_t rank_columns(const Scoring* scoring, double min_score, const Admission* admission,
                          const relevance_t* relevance, const double* timestamp, const importance_t* importance,
                          const int64_t* tokens, int64_t rows, BestRows* best) except -2 nogil:
    """Offer every row that may be among the best; the first row whose exponent overflows, or -1.

    Rows are taken in input order. The filter is used where its proof holds: recency that falls with age.
    """
    cdef FilterQuery query
    cdef uint16_t offsets[512]
    cdef bint filters = scoring.minus_lambda <= 0.0
    cdef int64_t first = 0, row
    cdef int block = FIRST_BLOCK_ROWS
    cdef int count, found, i
    cdef double recency, score
    cdef Ranked last, this

    query.relevance_weight = scoring.relevance_weight
    query.importance_weight = scoring.importance_weight
    query.recency_weight = scoring.recency_weight
    query.now = HUGE_VAL if scoring.clamp_future else scoring.now
    query.clock = scoring.now
    query.exponent_rate = scoring.minus_lambda * LOG2_E / 3600.0
    last.score = admission.last_score
    last.row = admission.last_row

    best.start(admission.capacity, min_score)
    while first < rows:
        count = <int>min(<int64_t>block, rows - first)
        if filters and best.bound() > -HUGE_VAL:
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
            if not score_row(scoring, relevance[row], timestamp[row], importance[row], &recency, &score):
                return row
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
    return -1


cdef int64_t rank(const Scoring* scoring, double min_score, const Admission* admission, const Columns* columns,
                  BestRows* best) except -2 nogil:
    """``rank_columns`` for columns of whatever types they have."""
    cdef const double* timestamp = columns.timestamp
    cdef const int64_t* tokens = columns.tokens
    cdef int64_t rows = columns.rows
    if columns.relevance_is_float32:
        if columns.importance_is_float32:
            return rank_columns[float, float](
                scoring, min_score, admission, <const float*>columns.relevance, timestamp,
                <const float*>columns.importance, tokens, rows, best)
        return rank_columns[float, double](
            scoring, min_score, admission, <const float*>columns.relevance, timestamp,
            <const double*>columns.importance, tokens, rows, best)
    if columns.importance_is_float32:
        return rank_columns[double, float](
            scoring, min_score, admission, <const double*>columns.relevance, timestamp,
            <const float*>columns.importance, tokens, rows, best)
    return rank_columns[double, double](
        scoring, min_score, admission, <const double*>columns.relevance, timestamp,
        <const double*>columns.importance, tokens, rows, best)


cdef inline double relevance_at(const Columns* columns, int64_t row) noexcept nogil:
    if columns.relevance_is_float32:
        return (<const float*>columns.relevance)[row]
    return (<const double*>columns.relevance)[row]


cdef inline double importance_at(const Columns* columns, int64_t row) noexcept nogil:
    if columns.importance_is_float32:
        return (<const float*>columns.importance)[row]
    return (<const double*>columns.importance)[row]


# --- packing ---------------------------------------------------------------------------------------------------------

cdef struct Budget:
    bint unlimited
    bint nothing_fits
    uint64_t left_high
    uint64_t left_low


cdef inline bint fits(const Budget* budget, uint64_t tokens) noexcept nogil:
    if budget.unlimited:
        return True
    return not budget.nothing_fits and (budget.left_high > 0 or tokens <= budget.left_low)


cdef inline void spend(Budget* budget, uint64_t tokens) noexcept nogil:
    """Take tokens that fit off what is left."""
    if budget.unlimited:
        return
    if tokens > budget.left_low:
        budget.left_high -= 1
    budget.left_low -= tokens


class OverflowAt(Exception):
    """A finite exponent has an infinite exponential; ``args[0]`` is the row."""


cdef KeptRow kept_row(const Scoring* scoring, const Columns* columns, const Ranked& ranked) noexcept nogil:
    """A ranked row with all its scores."""
    cdef KeptRow kept
    kept.row = ranked.row
    kept.relevance = relevance_at(columns, ranked.row)
    kept.importance = importance_at(columns, ranked.row)
    kept.composite = ranked.score
    recency_of(scoring, columns.timestamp[ranked.row], &kept.recency)
    return kept


def select_counted(capsule, Plan settings not None):
    """Rank and pack rows whose tokens are counted when they are reached; what is kept goes into the call, best first.

    ``capsule``: the call, named memsel.CountedCall, kept alive by the caller. False where counting a row failed.

    Raises:
        OverflowAt: see there.
    """
    cdef CountedCall* call = <CountedCall*>PyCapsule_GetPointer(capsule, b"memsel.CountedCall")
    cdef const Columns* columns = &call.columns
    cdef BestRows best
    cdef Admission admission = everything(min(settings.top_k, columns.rows))
    cdef Budget budget
    cdef const vector[Ranked]* ranked
    cdef int64_t overflowed, tokens
    cdef size_t i

    call.kept.clear()
    call.kept.reserve(<size_t>min(admission.capacity, <int64_t>64))
    budget.unlimited = settings.unlimited
    budget.nothing_fits = settings.nothing_fits
    budget.left_high = settings.budget_high
    budget.left_low = settings.budget_low
    if not budget.unlimited:
        admission.capacity = min(admission.capacity, <int64_t>FIRST_CAPACITY)
    while True:
        if columns.rows >= GIL_ROWS:
            with nogil:
                overflowed = rank(&settings.scoring, settings.min_score, &admission, columns, &best)
        else:
            overflowed = rank(&settings.scoring, settings.min_score, &admission, columns, &best)
        if overflowed >= 0:
            raise OverflowAt(overflowed)
        ranked = &best.finish()
        for i in range(ranked.size()):
            # Every row costs at least one token.
            if <int64_t>call.kept.size() >= settings.top_k or not fits(&budget, 1):
                return True
            tokens = call.count_tokens(call.context, ranked[0][i].row)
            if tokens < 0:
                return False
            if fits(&budget, <uint64_t>tokens):
                spend(&budget, <uint64_t>tokens)
                call.kept.push_back(kept_row(&settings.scoring, columns, ranked[0][i]))
            elif settings.stops_at_overflow:
                return True
        if <int64_t>ranked.size() < admission.capacity or <int64_t>call.kept.size() >= settings.top_k:
            return True
        admission.only_behind = True
        admission.last_score = ranked.back().score
        admission.last_row = ranked.back().row
        admission.capacity = min(admission.capacity * CAPACITY_GROWTH, columns.rows)


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
    cdef double recency, composite
    cdef size_t i
    with nogil:
        overflowed = rank(&settings.scoring, settings.min_score, &admission, columns, &best)
    if overflowed >= 0:
        raise OverflowAt(overflowed)
    scores = []
    for row in range(columns.rows):
        score_row(&settings.scoring, relevance_at(columns, row), columns.timestamp[row], importance_at(columns, row),
                  &recency, &composite)
        scores.append((relevance_at(columns, row), recency, importance_at(columns, row), composite))
    ranked = &best.finish()
    return scores, [ranked[0][i].row for i in range(ranked.size())]
