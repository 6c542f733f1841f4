"""The decisions of memory_select in their order: gates, relevance, score and rank, then limits and duplicates.

Memories are read as they stand (plain dicts of plain values at once, everything else through the reader that is handed
in), and nothing is cut, counted or redacted that no decision looks at.
"""
from cpython.datetime cimport (
    PyDateTime_CheckExact,
    datetime_day,
    datetime_hour,
    datetime_microsecond,
    datetime_minute,
    datetime_month,
    datetime_second,
    datetime_tzinfo,
    datetime_year,
    get_utc,
    import_datetime,
)
from cpython.dict cimport PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport (
    PyUnicode_1BYTE_KIND,
    PyUnicode_Compare,
    PyUnicode_DATA,
    PyUnicode_GET_LENGTH,
    PyUnicode_KIND,
)
from libc.math cimport NAN, ceil, fabs, isfinite, pow, rint, trunc
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from libcpp.algorithm cimport nth_element, sort
from libcpp.vector cimport vector

from memsel.errors import InputError

from memsel.policy._words cimport QueryWords, WordSets

import_datetime()

cdef extern from "Python.h":
    bint PyUnicode_CheckExact(object)
    bint PyDict_CheckExact(object)
    bint PyList_CheckExact(object)
    bint PyTuple_CheckExact(object)
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)
    Py_hash_t PyObject_Hash(object) except? -1

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define memsel_prefetch(address) __builtin_prefetch(address)
    #else
    #define memsel_prefetch(address) ((void)(address))
    #endif
    static inline int memsel_ones(uint64_t bits) {
        bits -= (bits >> 1) & 0x5555555555555555ull;
        bits = (bits & 0x3333333333333333ull) + ((bits >> 2) & 0x3333333333333333ull);
        return (int)((((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull) >> 56);
    }
    """
    int count_ones "memsel_ones"(uint64_t bits) noexcept nogil
    void prefetch "memsel_prefetch"(const void* address) noexcept nogil

cdef enum:
    SECONDS_A_DAY = 86400
    MICROS_A_SECOND = 1000000

# The first and the last second of the years 1 to 9999.
cdef int64_t FIRST_SECOND = -62135596800
cdef int64_t LAST_SECOND = 253402300799

# What became of a memory. The gates' drops come first, then those in rank order.
cdef enum:
    RANKED = 0
    OUT_OF_SCOPE = 1
    EXPIRED = 2
    DUPLICATE_INPUT = 3
    LOW_RELEVANCE = 4
    MAX_ITEMS = 5
    BUDGET = 6
    DUPLICATE_OF = 7
    KEPT = 8

# The reason of each fate, in their order.
REASONS = ("", "out_of_scope", "expired", "duplicate_input", "low_relevance", "max_items", "budget", "duplicate_of:")

# Instants are microseconds since 1970 in UTC; the three answers that are none lie far outside the years 1 to 9999.
cdef enum:
    NOT_A_DATE = 0
    NO_ZONE = 1
    UNUSUAL = 2


cdef inline int64_t unread(int why) noexcept nogil:
    return INT64_MIN + why


cdef inline bint is_unread(int64_t instant) noexcept nogil:
    return instant <= INT64_MIN + UNUSUAL


cdef inline int64_t days_from_civil(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Days since 1970-01-01 of a date in the proleptic Gregorian calendar, counted in 400-year eras from March 1st."""
    cdef int64_t y = year - (month <= 2)
    cdef int64_t era = y // 400
    cdef int64_t year_of_era = y - era * 400
    cdef int64_t day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


cdef inline int days_in_month(int64_t year, int64_t month) noexcept nogil:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


cdef inline int64_t digits(const uint8_t* s, int count) noexcept nogil:
    """The number that `count` ASCII digits spell, or -1."""
    cdef int64_t value = 0
    cdef int i
    for i in range(count):
        if s[i] < c'0' or s[i] > c'9':
            return -1
        value = 10 * value + (s[i] - c'0')
    return value


cdef int64_t week_date(int64_t year, int64_t week, int64_t day) noexcept nogil:
    """Days since 1970-01-01 of an ISO week date, or a value under -800000 when the year has no such week or day."""
    # The Monday of week 1 is the one on or before January 4th; 1970-01-01 was a Thursday.
    cdef int64_t fourth = days_from_civil(year, 1, 4)
    cdef int64_t monday = fourth - (fourth + 3) % 7
    cdef int64_t next_fourth = days_from_civil(year + 1, 1, 4)
    cdef int64_t next_monday = next_fourth - (next_fourth + 3) % 7
    if week < 1 or day < 1 or day > 7 or monday + 7 * (week - 1) >= next_monday:
        return -1000000
    return monday + 7 * (week - 1) + day - 1


cdef int64_t clock(const uint8_t* s, Py_ssize_t n, Py_ssize_t* used, bint* fraction) noexcept nogil:
    """Microseconds that a clock reading (hh, hh:mm, hh:mm:ss, hhmm, hhmmss, each second with a fraction) stands for.

    `used` is set to the characters read. -1 when it is none; hours are checked by the caller.
    """
    cdef int64_t hour, minute = 0, second = 0, micros = 0
    cdef Py_ssize_t i = 2
    cdef int places = 0
    cdef bint extended = False
    fraction[0] = False
    if n < 2:
        return -1
    hour = digits(s, 2)
    if hour < 0:
        return -1
    if i < n and s[i] == c':':
        extended = True
        i += 1
    if extended or (i < n and s[i] >= c'0' and s[i] <= c'9'):
        if i + 2 > n:
            return -1
        minute = digits(s + i, 2)
        i += 2
        if minute < 0 or minute > 59:
            return -1
        if i < n and (s[i] == c':' if extended else s[i] >= c'0' and s[i] <= c'9'):
            i += extended
            if i + 2 > n:
                return -1
            second = digits(s + i, 2)
            i += 2
            if second < 0 or second > 59:
                return -1
            if i < n and (s[i] == c'.' or s[i] == c','):
                if not extended:
                    return -1
                i += 1
                while i < n and s[i] >= c'0' and s[i] <= c'9':
                    if places < 6:
                        micros = 10 * micros + (s[i] - c'0')
                    places += 1
                    i += 1
                if places == 0:
                    return -1
                fraction[0] = True
                while places < 6:
                    micros *= 10
                    places += 1
    used[0] = i
    return ((hour * 60 + minute) * 60 + second) * MICROS_A_SECOND + micros


cdef int64_t read_iso(const uint8_t* s, Py_ssize_t n) noexcept nogil:
    """The instant that an ISO-8601 date, time and zone stand for; the same on every Python."""
    cdef int64_t year, month, day, days, time, offset
    cdef Py_ssize_t i, used = 0
    cdef bint fraction = False
    if n < 7:
        return unread(NOT_A_DATE)
    year = digits(s, 4)
    if year < 1:
        return unread(NOT_A_DATE)
    i = 4
    if s[4] == c'-':
        if s[5] == c'W':
            week = digits(s + 6, 2) if n >= 8 else -1
            i, day = 8, 1
            if n > 9 and s[8] == c'-':
                day, i = digits(s + 9, 1), 10
            days = week_date(year, week, day)
        else:
            if n < 10 or s[7] != c'-':
                return unread(NOT_A_DATE)
            month, day, i = digits(s + 5, 2), digits(s + 8, 2), 10
            if month < 1 or month > 12 or day < 1 or day > days_in_month(year, month):
                return unread(NOT_A_DATE)
            days = days_from_civil(year, month, day)
    elif s[4] == c'W':
        i, day = 7, 1
        if n > 7 and s[7] >= c'0' and s[7] <= c'9':
            day, i = digits(s + 7, 1), 8
        days = week_date(year, digits(s + 5, 2), day)
    else:
        if n < 8:
            return unread(NOT_A_DATE)
        month, day, i = digits(s + 4, 2), digits(s + 6, 2), 8
        if month < 1 or month > 12 or day < 1 or day > days_in_month(year, month):
            return unread(NOT_A_DATE)
        days = days_from_civil(year, month, day)
    if days < -800000:
        return unread(NOT_A_DATE)
    if i == n:
        return unread(NO_ZONE)
    if s[i] != c'T' and s[i] != c't' and s[i] != c' ':
        return unread(NOT_A_DATE)
    i += 1
    time = clock(s + i, n - i, &used, &fraction)
    if time < 0 or time >= <int64_t>SECONDS_A_DAY * MICROS_A_SECOND:
        return unread(NOT_A_DATE)
    i += used
    if i == n:
        return unread(NO_ZONE)
    time += days * SECONDS_A_DAY * MICROS_A_SECOND
    if s[i] == c'Z' or s[i] == c'z':
        return time if i + 1 == n else unread(NOT_A_DATE)
    if s[i] != c'+' and s[i] != c'-':
        return unread(NOT_A_DATE)
    offset = clock(s + i + 1, n - i - 1, &used, &fraction)
    if offset < 0 or offset >= <int64_t>SECONDS_A_DAY * MICROS_A_SECOND or i + 1 + used != n:
        return unread(NOT_A_DATE)
    return time - offset if s[i] == c'+' else time + offset


cdef object utc = get_utc()


cdef inline int64_t instant_of(PyObject* value) noexcept:
    """The instant of an ISO-8601 text or of a datetime in UTC; UNUSUAL for every other thing."""
    cdef object o = <object>value
    if PyUnicode_CheckExact(o):
        if PyUnicode_KIND(o) != PyUnicode_1BYTE_KIND:
            return unread(NOT_A_DATE)
        return read_iso(<const uint8_t*>PyUnicode_DATA(o), PyUnicode_GET_LENGTH(o))
    if PyDateTime_CheckExact(o) and datetime_tzinfo(o) is utc:
        return (
            (
                days_from_civil(datetime_year(o), datetime_month(o), datetime_day(o)) * 24 + datetime_hour(o)
            ) * 60 + datetime_minute(o)
        ) * 60 * MICROS_A_SECOND + datetime_second(o) * MICROS_A_SECOND + datetime_microsecond(o)
    return unread(UNUSUAL)


def instant_from_text(str text not None):
    """Microseconds since 1970 of an ISO-8601 text; None when it is no date, False when it names no zone."""
    cdef int64_t instant = instant_of(<PyObject*>text)
    if is_unread(instant):
        return False if instant == unread(NO_ZONE) else None
    return instant


cdef double round_to_micro(double x) except *:
    """`round(x, 6)`, to the last bit: the short way where the product cannot have crossed a half."""
    cdef double scaled = x * 1e6, whole
    if fabs(scaled) < 1e12:
        whole = rint(scaled)
        if fabs(fabs(scaled - whole) - 0.5) > 1e-3:
            return whole / 1e6 + 0.0
    return <double>round(x, 6) + 0.0


# The members of a memory that a decision reads.
cdef enum:
    OTHER = 0
    ID = 1
    TEXT = 2
    CONTENT = 3
    CREATED_AT = 4
    IMPORTANCE = 5
    TAGS = 6
    SCOPE = 7
    EXPIRES_AT = 8
    SIMILARITY = 9
    TIMESTAMP = 10
    MEMBERS = 11

cdef dict member_of = {
    "id": ID,
    "text": TEXT,
    "content": CONTENT,
    "created_at": CREATED_AT,
    "importance": IMPORTANCE,
    "tags": TAGS,
    "scope": SCOPE,
    "expires_at": EXPIRES_AT,
    "similarity": SIMILARITY,
    "timestamp": TIMESTAMP,
}

cdef list member_names = [""] + list(member_of)

cdef enum:
    KEYS = 64
    FITS_CACHE = 2000  # so many memories and their texts stay in a core's cache; beyond, they are called for ahead
    NEAR = 8
    FAR = 16


cdef class _KeyCache:
    """Which member a key object names. The keys of decoded records are few objects met again and again."""

    cdef PyObject* keys[KEYS]
    cdef uint8_t members[KEYS]

    def __dealloc__(self):
        cdef int i
        for i in range(KEYS):
            Py_XDECREF(self.keys[i])

    cdef int member(self, PyObject* key) except -1:
        cdef size_t at = (<size_t>key >> 4 ^ <size_t>key >> 10) % KEYS
        cdef PyObject* old = self.keys[at]
        if old != key:
            if not PyUnicode_CheckExact(<object>key):
                return OTHER
            self.members[at] = <uint8_t>member_of.get(<object>key, OTHER)
            Py_INCREF(<object>key)
            self.keys[at] = key
            Py_XDECREF(old)
        return self.members[at]


cdef struct Row:
    double relevance
    double freshness
    double importance
    double similarity  # NaN when none was given
    int64_t tokens
    int32_t row
    int32_t rival  # row that this one conflicts with or duplicates, or -1


cdef struct Place:
    double score
    int64_t created
    PyObject* id
    int32_t at


cdef bint ranks_before(const Place& a, const Place& b) noexcept:
    """Higher score, then newer, then lower id; ids are distinct, so the order is total."""
    if a.score != b.score:
        return a.score > b.score
    if a.created != b.created:
        return a.created > b.created
    return PyUnicode_Compare(<object>a.id, <object>b.id) < 0


cdef struct Trace:
    uint64_t low
    uint64_t high


cdef struct Spelling:
    int32_t group
    int32_t alternative
    size_t first
    size_t last


cdef class _KeptSets:
    """The word sets of the kept memories, and which of them a newcomer duplicates or contradicts.

    Two sets of which `threshold` is shared have a common word among the newest few words of each (those that could be
    missing from the other, and one more). Only those few are looked up, so the number of kept memories hardly counts;
    and of the sets found so, most are told apart by their traces, each word one bit of 128.
    """

    cdef WordSets sets
    cdef double threshold
    cdef bint guard
    cdef vector[int32_t] ids
    cdef vector[size_t] ends
    cdef vector[int32_t] guard_ids
    cdef vector[size_t] guard_ends
    cdef vector[int32_t] heads
    cdef vector[int32_t] entry_kept
    cdef vector[int32_t] entry_next
    cdef vector[Trace] traces
    cdef Trace trace
    cdef vector[uint32_t] seen
    cdef uint32_t stamp
    cdef vector[Spelling] spellings
    cdef vector[int32_t] spelling_ids
    cdef vector[size_t] group_starts
    cdef vector[int32_t] first_with
    cdef vector[int32_t] carried
    cdef int32_t duplicate
    cdef int32_t conflict

    def __init__(self, double threshold, bint guard, groups):
        cdef size_t i
        cdef Spelling spelling
        self.sets = WordSets()
        self.threshold = threshold
        self.guard = guard
        for g, group in enumerate(groups):
            self.group_starts.push_back(self.first_with.size())
            for alternative in group:
                self.first_with.push_back(-1)
                for text in alternative:
                    self.sets.read(text)
                    spelling.group = g
                    spelling.alternative = <int32_t>self.first_with.size() - 1
                    spelling.first = self.spelling_ids.size()
                    for i in range(self.sets.ids.size()):
                        self.spelling_ids.push_back(self.sets.ids[i])
                    spelling.last = self.spelling_ids.size()
                    self.spellings.push_back(spelling)
        self.group_starts.push_back(self.first_with.size())

    cdef inline Py_ssize_t needed(self, Py_ssize_t size) noexcept:
        """Fewest shared words with which a set of this size can reach the threshold; errs downwards."""
        cdef Py_ssize_t least = <Py_ssize_t>ceil(self.threshold * size - 1e-6)
        return least if least > 1 else 1

    cdef int look(self, str text) except -1:
        """Set `duplicate` and `conflict` to the first kept memory in rank order of which that is true, or to -1."""
        cdef Py_ssize_t k, n
        cdef int32_t entry, other
        self.sets.read(text)
        self.duplicate = -1
        self.conflict = -1
        self.heads.resize(self.sets.table.count, -1)
        n = self.sets.ids.size()
        if self.threshold > 0 and n:
            self.stamp += 1
            self.trace = Trace(0, 0)
            for k in range(n):
                if self.sets.ids[k] & 64:
                    self.trace.high |= <uint64_t>1 << (self.sets.ids[k] & 63)
                else:
                    self.trace.low |= <uint64_t>1 << (self.sets.ids[k] & 63)
            for k in range(self.needed(n) - 1, n):
                entry = self.heads[self.sets.ids[k]]
                while entry >= 0:
                    other = self.entry_kept[entry]
                    if self.seen[other] != self.stamp:
                        self.seen[other] = self.stamp
                        self.compare(other)
                    entry = self.entry_next[entry]
        self.contradict()
        return 0

    cdef void compare(self, int32_t other) noexcept:
        cdef size_t i = 0, j = self.ends[other - 1] if other else 0, shared = 0
        cdef size_t n = self.sets.ids.size(), end = self.ends[other], m = end - j
        cdef const int32_t* a = self.sets.ids.data()
        cdef const int32_t* b = self.ids.data()
        if self.duplicate >= 0 and other > self.duplicate:
            return
        if (n if n < m else m) < <size_t>self.needed(n if n > m else m):
            return
        # Bits that differ are words of one side only, of which the threshold allows a share of both sizes.
        if (
            count_ones(self.trace.low ^ self.traces[other].low) + count_ones(self.trace.high ^ self.traces[other].high)
            > <double>(n + m) * (1 - self.threshold) / (1 + self.threshold) + 1e-6
        ):
            return
        while i < n and j < end:
            if a[i] == b[j]:
                shared += 1
                i += 1
                j += 1
            elif a[i] < b[j]:
                i += 1
            else:
                j += 1
        if <double>shared / <double>(n + m - shared) < self.threshold:
            return
        if self.guard and self.guards_differ(other):
            if self.conflict < 0 or other < self.conflict:
                self.conflict = other
        else:
            self.duplicate = other

    cdef bint guards_differ(self, int32_t other) noexcept:
        cdef size_t first = self.guard_ends[other - 1] if other else 0, i
        if self.sets.guard_ids.size() != self.guard_ends[other] - first:
            return True
        for i in range(self.sets.guard_ids.size()):
            if self.sets.guard_ids[i] != self.guard_ids[first + i]:
                return True
        return False

    cdef bint holds(self, const Spelling& spelling) noexcept:
        cdef size_t i, low, high, middle
        for i in range(spelling.first, spelling.last):
            low = 0
            high = self.sets.ids.size()
            while low < high:
                middle = (low + high) // 2
                if self.sets.ids[middle] < self.spelling_ids[i]:
                    low = middle + 1
                else:
                    high = middle
            if low == self.sets.ids.size() or self.sets.ids[low] != self.spelling_ids[i]:
                return False
        return True

    cdef int contradict(self) except -1:
        """Find the alternatives that the text names, and the first kept memory that names another one of a group."""
        cdef size_t i, other
        cdef int32_t kept
        cdef Spelling spelling
        self.carried.clear()
        for i in range(self.spellings.size()):
            spelling = self.spellings[i]
            if not self.holds(spelling):
                continue
            self.carried.push_back(spelling.alternative)
            for other in range(self.group_starts[spelling.group], self.group_starts[spelling.group + 1]):
                kept = self.first_with[other]
                if <int32_t>other != spelling.alternative and kept >= 0:
                    if self.conflict < 0 or kept < self.conflict:
                        self.conflict = kept
        return 0

    cdef int keep(self) except -1:
        """Keep the text that `look` read last."""
        cdef size_t i
        cdef Py_ssize_t k, n = self.sets.ids.size()
        cdef int32_t kept = <int32_t>self.ends.size(), id
        self.ids.insert(self.ids.end(), self.sets.ids.begin(), self.sets.ids.end())
        self.ends.push_back(self.ids.size())
        self.guard_ids.insert(self.guard_ids.end(), self.sets.guard_ids.begin(), self.sets.guard_ids.end())
        self.guard_ends.push_back(self.guard_ids.size())
        self.seen.push_back(0)
        self.traces.push_back(self.trace)
        if self.threshold > 0:
            for k in range(self.needed(n) - 1, n):
                id = self.sets.ids[k]
                self.entry_kept.push_back(kept)
                self.entry_next.push_back(self.heads[id])
                self.heads[id] = <int32_t>self.entry_kept.size() - 1
        for i in range(self.carried.size()):
            if self.first_with[self.carried[i]] < 0:
                self.first_with[self.carried[i]] = kept
        return 0


cdef class Ranking:
    """Memories read, gated, scored and decided upon; `kept` and `dropped` say what became of them."""

    cdef QueryWords query
    cdef object settings
    cdef str scope
    cdef object reader
    cdef object record
    cdef int64_t now
    cdef double min_relevance
    cdef double recency_days
    cdef double relevance_weight
    cdef double freshness_weight
    cdef double importance_weight
    cdef double similarity_weight
    cdef list ids
    cdef list texts
    cdef vector[uint8_t] fates
    cdef vector[Row] rows
    cdef vector[Place] places
    cdef size_t in_order
    cdef vector[int32_t] kept_places
    cdef vector[int32_t] id_slots
    cdef vector[Py_hash_t] id_hashes
    cdef vector[int32_t] id_rows
    cdef list kept_texts
    cdef readonly int64_t total_tokens

    def __init__(self, str query not None, settings, str scope not None, int64_t now, record, reader):
        self.query = QueryWords(query)
        self.settings = settings
        self.scope = scope
        self.record = record
        self.reader = reader
        self.now = now
        self.min_relevance = settings.min_relevance
        self.recency_days = settings.recency_days
        self.relevance_weight = settings.relevance_weight
        self.freshness_weight = settings.freshness_weight
        self.importance_weight = settings.importance_weight
        self.similarity_weight = settings.similarity_weight
        self.ids = []
        self.texts = []
        self.kept_texts = []
        self.id_slots.resize(64, -1)

    def read(self, list memories not None):
        """Read the memories once, through the gates and to their scores. Called once."""
        cdef Py_ssize_t position
        cdef _KeyCache cache = _KeyCache()
        self.fates.reserve(len(memories))
        # The list may change under foreign code that a memory's own attributes run; its length is asked every time.
        position = 0
        while position < len(memories):
            if len(memories) > FITS_CACHE:
                self.call_ahead(memories, position)
            memory = memories[position]
            if not self.read_plain(memory, cache):
                self.read_other(position, memory)
            position += 1

    cdef int call_ahead(self, list memories, Py_ssize_t position) except -1:
        """Have the memory system fetch what the next memories hold, while this one is read."""
        cdef PyObject* key = NULL
        cdef PyObject* value = NULL
        cdef PyObject* memory
        cdef Py_ssize_t at = 0
        if position + FAR < len(memories):
            prefetch(PyList_GET_ITEM(memories, position + FAR))
        if position + NEAR < len(memories):
            memory = PyList_GET_ITEM(memories, position + NEAR)
            if PyDict_CheckExact(<object>memory):
                while PyDict_Next(<object>memory, &at, &key, &value):
                    prefetch(value)
                    prefetch(<char*>value + 64)
        return 0

    cdef bint read_plain(self, memory, _KeyCache cache) except -1:
        """Read a memory made of plain values; 0, and nothing done, when the reader must judge it."""
        if PyDict_CheckExact(memory):
            return self.read_dict(<dict>memory, cache)
        if type(memory) is self.record:
            return self.read_record(memory)
        return self.read_entry(memory)

    cdef int read_other(self, Py_ssize_t position, memory) except -1:
        id, text, created, importance, tags, scope, expires, similarity = self.reader(position, memory, self.now)
        self.gate(
            id,
            text,
            created,
            importance,
            tags,
            scope,
            INT64_MIN if expires is None else expires,
            NAN if similarity is None else similarity,
        )
        return 0

    cdef bint read_dict(self, dict memory, _KeyCache cache) except -1:
        cdef PyObject* found[MEMBERS]
        cdef PyObject* key = NULL
        cdef PyObject* value = NULL
        cdef Py_ssize_t at = 0
        memset(found, 0, sizeof(found))
        # Nothing that this loop and `read_found` call runs foreign code, so the dict keeps what it holds.
        while PyDict_Next(memory, &at, &key, &value):
            if value != <PyObject*>None:
                found[cache.member(key)] = value
            elif cache.member(key) == IMPORTANCE:
                return False
        return self.read_found(found)

    cdef bint read_record(self, memory) except -1:
        cdef PyObject* found[MEMBERS]
        cdef int member
        cdef list values = []
        memset(found, 0, sizeof(found))
        for member in range(ID, MEMBERS):
            value = getattr(memory, member_names[member])
            values.append(value)
            if value is not None:
                found[member] = <PyObject*>value
        return self.read_found(found)

    cdef bint read_entry(self, memory) except -1:
        """An object with the attributes of a MemoryEntry; additions of this policy stand in its metadata."""
        cdef PyObject* found[MEMBERS]
        cdef double seconds, whole, importance
        cdef int member
        cdef list values = []
        content = getattr(memory, "content", None)
        timestamp = getattr(memory, "timestamp", None)
        effective = getattr(memory, "effective_importance", None)
        if not PyUnicode_CheckExact(content) or not PyFloat_CheckExact(timestamp) or not PyFloat_CheckExact(effective):
            return False
        id = getattr(memory, "id", None)
        metadata = getattr(memory, "metadata", None)
        tags = getattr(memory, "tags", None)
        seconds = PyFloat_AS_DOUBLE(timestamp)
        importance = PyFloat_AS_DOUBLE(effective)
        if not PyUnicode_CheckExact(id) or not PyDict_CheckExact(metadata) or importance != importance:
            return False
        if not PyUnicode_GET_LENGTH(id) or not PyUnicode_GET_LENGTH(content):
            return False
        if not FIRST_SECOND <= seconds <= LAST_SECOND:
            return False
        memset(found, 0, sizeof(found))
        if tags is not None:
            found[TAGS] = <PyObject*>tags
        for member in (SCOPE, EXPIRES_AT, SIMILARITY):
            value = (<dict>metadata).get(member_names[member])
            values.append(value)
            if value is not None:
                found[member] = <PyObject*>value
        whole = trunc(seconds)
        return self.read_common(
            found,
            <str>id,
            <str>content,
            <int64_t>whole * MICROS_A_SECOND + <int64_t>rint((seconds - whole) * 1e6),
            min(1.0, max(0.0, importance)),
        )

    cdef bint read_found(self, PyObject** found) except -1:
        cdef double importance = 0.5
        cdef int64_t created = self.now
        cdef int overflow = 0
        if found[TIMESTAMP] != NULL or found[ID] == NULL or not PyUnicode_CheckExact(<object>found[ID]):
            return False
        if found[TEXT] == NULL:
            found[TEXT] = found[CONTENT]
        if found[TEXT] == NULL or not PyUnicode_CheckExact(<object>found[TEXT]):
            return False
        if not PyUnicode_GET_LENGTH(<object>found[ID]) or not PyUnicode_GET_LENGTH(<object>found[TEXT]):
            return False
        if found[CREATED_AT] != NULL:
            created = instant_of(found[CREATED_AT])
            if is_unread(created):
                return False
        if found[IMPORTANCE] != NULL:
            if PyFloat_CheckExact(<object>found[IMPORTANCE]):
                importance = PyFloat_AS_DOUBLE(<object>found[IMPORTANCE])
            elif PyLong_CheckExact(<object>found[IMPORTANCE]):
                importance = <double>PyLong_AsLongAndOverflow(<object>found[IMPORTANCE], &overflow)
            else:
                return False
            if not 0 <= importance <= 1:
                return False
        return self.read_common(found, <str>found[ID], <str>found[TEXT], created, importance)

    cdef bint read_common(self, PyObject** found, str id, str text, int64_t created, double importance) except -1:
        """Check what memories of every shape have in common, and hand the memory to the gates."""
        cdef int64_t expires = INT64_MIN
        cdef double similarity = NAN
        if found[EXPIRES_AT] != NULL:
            expires = instant_of(found[EXPIRES_AT])
            if is_unread(expires):
                return False
        if found[SIMILARITY] != NULL:
            if not PyFloat_CheckExact(<object>found[SIMILARITY]):
                return False
            similarity = PyFloat_AS_DOUBLE(<object>found[SIMILARITY])
            if not isfinite(similarity):
                return False
        scope = "default"
        if found[SCOPE] != NULL:
            if not PyUnicode_CheckExact(<object>found[SCOPE]) or not PyUnicode_GET_LENGTH(<object>found[SCOPE]):
                return False
            scope = <str>found[SCOPE]
        tags = ()
        if found[TAGS] != NULL:
            tags = <object>found[TAGS]
            if not PyList_CheckExact(tags) and not PyTuple_CheckExact(tags):
                return False
            for tag in tags:
                if not PyUnicode_CheckExact(tag):
                    return False
        self.gate(id, text, created, importance, tags, scope, expires, similarity)
        return True

    cdef int gate(
        self,
        str id,
        str text,
        int64_t created,
        double importance,
        tags,
        str scope,
        int64_t expires,
        double similarity,
    ) except -1:
        """Take one checked memory through the gates in their order; score it when it passes."""
        cdef int32_t row = <int32_t>self.fates.size()
        cdef Row entry
        cdef Place place
        cdef double age_days, score
        cdef bint given = similarity == similarity
        self.ids.append(id)
        self.texts.append(text)
        if scope != self.scope:
            self.fates.push_back(OUT_OF_SCOPE)
            return 0
        if expires != INT64_MIN and expires <= self.now:
            self.fates.push_back(EXPIRED)
            return 0
        if not self.first_of_its_id(id, row):
            self.fates.push_back(DUPLICATE_INPUT)
            return 0
        entry.relevance = 0.0
        if self.query.total:
            self.query.begin()
            self.query.look(text)
            for tag in tags:
                self.query.look(<str>tag)
            entry.relevance = <double>self.query.carried / <double>self.query.total
            if entry.relevance < self.min_relevance and not (given and similarity >= self.min_relevance):
                self.fates.push_back(LOW_RELEVANCE)
                return 0
        age_days = self.seconds(self.now - created if created < self.now else 0) / SECONDS_A_DAY
        entry.freshness = pow(0.5, age_days / self.recency_days)
        entry.importance = importance
        entry.similarity = similarity
        score = (
            self.relevance_weight * entry.relevance
            + self.freshness_weight * entry.freshness
            + self.importance_weight * importance
        )
        if given:
            score += self.similarity_weight * similarity
        if not isfinite(score):
            raise InputError(
                f"memories[{row}] (id {id!r}): the score is {score}; expected weights and a similarity whose products"
                " a float can hold"
            )
        self.fates.push_back(RANKED)
        entry.row = row
        entry.tokens = 0
        entry.rival = -1
        place.score = round_to_micro(score)
        place.created = created
        place.id = <PyObject*>id
        place.at = <int32_t>self.rows.size()
        self.rows.push_back(entry)
        self.places.push_back(place)
        return 0

    cdef double seconds(self, int64_t micros) except *:
        """Microseconds as seconds, rounded once as Python divides integers."""
        if micros < 1 << 53:
            return <double>micros / 1e6
        return <object>micros / 1000000

    cdef bint first_of_its_id(self, str id, int32_t row) except -1:
        cdef Py_hash_t hashed = PyObject_Hash(id)
        cdef size_t mask = self.id_slots.size() - 1, at
        cdef int32_t known
        cdef size_t i
        if 2 * self.id_rows.size() > mask:
            self.id_slots.assign(4 * self.id_slots.size(), -1)
            mask = self.id_slots.size() - 1
            for i in range(self.id_rows.size()):
                at = <size_t>self.id_hashes[i] & mask
                while self.id_slots[at] >= 0:
                    at = (at + 1) & mask
                self.id_slots[at] = <int32_t>i
        at = <size_t>hashed & mask
        while self.id_slots[at] >= 0:
            known = self.id_slots[at]
            if self.id_hashes[known] == hashed and <str>self.ids[self.id_rows[known]] == id:
                return False
            at = (at + 1) & mask
        self.id_slots[at] = <int32_t>self.id_rows.size()
        self.id_hashes.push_back(hashed)
        self.id_rows.push_back(row)
        return True

    cdef void order(self, size_t wanted) noexcept:
        """Put at least the first `wanted` places in rank order; the rest lies behind them as it comes."""
        cdef size_t n = self.places.size(), head
        if wanted > n:
            wanted = n
        if wanted <= self.in_order:
            return
        head = 4 * wanted
        if self.in_order == 0 and head < 64:
            head = 64
        if self.in_order == 0 and 2 * head < n:
            nth_element(self.places.begin(), self.places.begin() + head, self.places.end(), &ranks_before)
            sort(self.places.begin(), self.places.begin() + head, &ranks_before)
            self.in_order = head
        else:
            sort(self.places.begin() + self.in_order, self.places.end(), &ranks_before)
            self.in_order = n

    def decide(self, counter, redact):
        """Walk the ranked memories: max_items, budget, duplicate_of, else kept. Called once, after `read`.

        `counter(ids, texts)` gives the token counts of the texts handed to it, `counter.ahead` says how many it would
        like at a time; None counts four characters a token. `redact(text)` is what leaves, or None.
        """
        cdef int64_t left = self.settings.max_tokens
        cdef int64_t max_results = self.settings.max_results
        cdef int64_t tokens
        cdef _KeptSets sets = _KeptSets(self.settings.dedupe, self.settings.guard, self.settings.conflict_groups)
        cdef size_t place, n = self.places.size(), ahead = 1, counted = 0, wanted
        cdef Row* row
        cdef list waiting = [], counts = []
        if counter is not None:
            ahead = counter.ahead
        place = 0
        while place < n and <int64_t>self.kept_places.size() < max_results and left > 0:
            self.order(place + 1)
            row = &self.rows[self.places[place].at]
            text = <str>self.texts[row.row]
            if counter is None:
                # A redacted text holds a marker, and no marker is shorter than five tokens.
                if left < 5 and (PyUnicode_GET_LENGTH(text) + 3) // 4 > left:
                    self.fates[row.row] = BUDGET
                    place += 1
                    continue
                shown = text if redact is None else redact(text)
                tokens = (PyUnicode_GET_LENGTH(shown) + 3) // 4
            else:
                if place == counted:
                    wanted = min(n - place, ahead)
                    self.order(place + wanted)
                    ahead_rows = [self.rows[self.places[place + i].at].row for i in range(wanted)]
                    waiting = [self.texts[each] for each in ahead_rows]
                    if redact is not None:
                        waiting = [redact(each) for each in waiting]
                    counts = counter([self.ids[each] for each in ahead_rows], waiting)
                    waiting.reverse()
                    counts.reverse()
                    counted = place + wanted
                shown = waiting.pop()
                count = counts.pop()
                tokens = left + 1 if count > left else count
            row = &self.rows[self.places[place].at]
            if tokens > left:
                self.fates[row.row] = BUDGET
                place += 1
                continue
            sets.look(text)
            if sets.duplicate >= 0:
                self.fates[row.row] = DUPLICATE_OF
                row.rival = self.rows[self.places[self.kept_places[sets.duplicate]].at].row
                place += 1
                continue
            if sets.conflict >= 0:
                row.rival = self.rows[self.places[self.kept_places[sets.conflict]].at].row
            sets.keep()
            self.fates[row.row] = KEPT
            row.tokens = tokens
            self.kept_places.push_back(<int32_t>place)
            self.kept_texts.append(shown)
            left -= tokens
            self.total_tokens += tokens
            place += 1
        rest = MAX_ITEMS if <int64_t>self.kept_places.size() >= max_results else BUDGET
        for place in range(place, n):
            self.fates[self.rows[self.places[place].at].row] = rest
        self.texts = []  # the drops may be asked for much later; they need ids only

    def kept(self):
        """Best first: id, text, score, tokens, relevance, freshness, importance, similarity or None, rival id if any."""
        cdef size_t i
        cdef Place place
        cdef Row row
        chosen = []
        for i in range(self.kept_places.size()):
            place = self.places[self.kept_places[i]]
            row = self.rows[place.at]
            chosen.append(
                (
                    self.ids[row.row],
                    self.kept_texts[i],
                    place.score,
                    row.tokens,
                    row.relevance,
                    row.freshness,
                    row.importance,
                    row.similarity if row.similarity == row.similarity else None,
                    None if row.rival < 0 else self.ids[row.rival],
                )
            )
        return chosen

    def dropped(self, make):
        """`make` of each pair of id and reason: the gates' drops in input order, then the others in rank order."""
        cdef size_t i
        cdef uint8_t fate
        cdef Row* row
        gone = []
        for i in range(self.fates.size()):
            fate = self.fates[i]
            if fate != RANKED and fate <= LOW_RELEVANCE:
                gone.append(make((self.ids[i], REASONS[fate])))
        self.order(self.places.size())
        for i in range(self.places.size()):
            row = &self.rows[self.places[i].at]
            fate = self.fates[row.row]
            if fate == DUPLICATE_OF:
                gone.append(make((self.ids[row.row], REASONS[fate] + self.ids[row.rival])))
            elif fate != KEPT:
                gone.append(make((self.ids[row.row], REASONS[fate])))
        return gone
