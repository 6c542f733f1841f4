"""What the pool's kernel shares with the arrays': scoring, packing, the settings of a call and what is answered."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libcpp.vector cimport vector

cdef extern from "columns.hpp" namespace "memsel":
    cdef cppclass Columns:
        Columns()
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

cdef extern from "scoring.hpp" namespace "memsel" nogil:
    cdef struct Scoring:
        double relevance_weight
        double recency_weight
        double importance_weight
        double minus_lambda
        double now
        bint clamp_future
    bint recency_of(const Scoring&, double timestamp, double& recency)
    double composite_of(const Scoring&, double relevance, double recency, double importance)
    bint score_row(const Scoring&, double relevance, double timestamp, double importance, double& recency,
                   double& composite)

cdef extern from "packing.hpp" namespace "memsel" nogil:
    cdef struct Budget:
        bint unlimited
        bint nothing_fits
        uint64_t left_high
        uint64_t left_low
    cdef struct Settings:
        Scoring scoring
        double min_score
        int64_t top_k
        Budget budget
        bint stops_at_overflow
    cdef struct Admission:
        int64_t capacity
        bint only_behind
        double last_score
        int64_t last_row
        bint only_fitting
        int64_t most_tokens
    cdef struct Walk:
        Admission admission
        Budget budget
        int64_t room
        bint stops_at_overflow
        bint stopped
        double last_score
        int64_t last_row
    Admission everything(int64_t capacity)
    void start_walk(Walk&, const Settings&, int64_t rows)
    bint fits(const Budget&, uint64_t tokens)
    bint takes(Walk&, const Ranked&, uint64_t tokens)
    bint goes_on(Walk&, const vector[Ranked]&, int64_t rows)
    bint only_fitting_from_now(Walk&)

cdef extern from "filter.hpp" namespace "memsel" nogil:
    int kBlockRows
    cdef cppclass FilterQuery:
        double relevance_weight
        double importance_weight
        double recency_weight
        double clock
        double exponent_rate
        bint clamp_future
        double bound
    cdef cppclass FilterLevel:
        const char* name
        int (*f64_f64)(const FilterQuery&, const double*, const double*, const double*, int, uint16_t*)
        int (*f32_f64)(const FilterQuery&, const float*, const double*, const double*, int, uint16_t*)
        int (*f64_f32)(const FilterQuery&, const double*, const double*, const float*, int, uint16_t*)
        int (*f32_f32)(const FilterQuery&, const float*, const double*, const float*, int, uint16_t*)
    int filter_level_count()
    const FilterLevel* filter_level(int index)
    void use_scoring(FilterQuery&, const Scoring&)

cdef extern from "work_queue.hpp" namespace "memsel" nogil:
    cdef cppclass WorkQueue:
        void start(int64_t count)
        int64_t take()
        int64_t take_run(int64_t most, int64_t& end)
        bint is_past(int64_t number)
        void fail(int64_t number)
        void stop()
        int64_t first_failed()

cdef extern from "clock.hpp" namespace "memsel" nogil:
    double monotonic_seconds()


cdef class Plan:
    cdef Settings c
    cdef readonly bint from_access
    cdef bint read_top_k(self, object limit) except -1
    cdef bint read_budget(self, object limit) except -1


cdef class PackedSelection:
    cdef vector[KeptRow] kept
    cdef uint64_t tokens_low
    cdef uint64_t tokens_high
    cdef object _indices
    cdef object _scores
    cdef object _relevance
    cdef object _recency
    cdef object _importance
    cdef readonly object ids
    cdef readonly object outcomes
    cdef object column(self, int which)


cdef const FilterLevel* filter_in_use() noexcept nogil
cdef int64_t pack_columns(const Settings* settings, const Columns* columns, BestRows* best, Walk* walk,
                          vector[KeptRow]* kept, bint checks_tokens=*) except -2 nogil
cdef void write_outcomes(const Settings* settings, const Columns* columns, const Walk* walk,
                         const vector[KeptRow]* kept, uint8_t* outcomes) noexcept nogil
