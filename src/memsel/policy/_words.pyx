"""The words of a text in any script, cut once a call.

NFKC and case folding, then runs of letters, digits and combining marks. A single letter is no word, a single digit is;
a run of Chinese, Japanese or Korean gives its overlapping pairs, one character alone a word; `c++` and `c#` are words.
Stop words are dropped, negations are words: `n't` stays with what stands before it (`don't`), the French `n'` is alone.
"""
from cpython.unicode cimport (
    PyUnicode_1BYTE_KIND,
    PyUnicode_2BYTE_KIND,
    PyUnicode_DATA,
    PyUnicode_GET_LENGTH,
    PyUnicode_KIND,
)
from libc.string cimport memcmp
from libcpp.algorithm cimport sort
from libcpp.deque cimport deque

import os
import unicodedata

# Eight characters at a time, in one 64-bit word with the first in its lowest byte, on a machine of either byte order.
cdef extern from *:
    """
    #if defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>
    static inline int memsel_lowest_bit(uint64_t bits) {
        unsigned long at;
        _BitScanForward64(&at, bits);
        return (int)at;
    }
    #else
    static inline int memsel_lowest_bit(uint64_t bits) { return __builtin_ctzll(bits); }
    #endif
    static inline uint64_t memsel_load_eight(const uint8_t* p) {
        return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24
            | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
    }
    /* Per byte of eight characters: bit 7 set where `low` (each byte under 128) is at least `first`, at most `last`. */
    static inline uint64_t memsel_between(uint64_t low, uint64_t first, uint64_t last) {
        const uint64_t ones = 0x0101010101010101ull;
        return (low + (128 - first) * ones) & ~(low + (127 - last) * ones);
    }
    /* Bit k: character k of the eight is a letter or digit of Latin-1. `unclear`: for some, only the table can say. */
    static inline uint64_t memsel_latin_words(uint64_t eight, uint64_t* unclear) {
        const uint64_t tops = 0x8080808080808080ull;
        uint64_t high = eight & tops, low = eight & ~tops;
        uint64_t found = memsel_between(low | 0x2020202020202020ull, 'a', 'z') | memsel_between(low, '0', '9');
        *unclear = 0;
        if (high) {
            uint64_t letters = memsel_between(low, 0x40, 0x7f)
                & ~memsel_between(low, 0x57, 0x57) & ~memsel_between(low, 0x77, 0x77);
            *unclear = (memsel_between(low, 0x20, 0x3f) | memsel_between(low, 0x5f, 0x5f)) & high;
            found = (found & ~high) | (letters & high);
        }
        return (((found & tops) >> 7) * 0x0102040810204080ull) >> 56;
    }
    """
    int lowest_bit "memsel_lowest_bit"(uint64_t bits) noexcept nogil
    uint64_t load_eight "memsel_load_eight"(const uint8_t* p) noexcept nogil
    uint64_t latin_words "memsel_latin_words"(uint64_t eight, uint64_t* unclear) noexcept nogil

# Classes of a character. COMPLEX marks a character whose normal or folded form is more than one character, or may join
# with what stands before it: only then must the whole text pass through unicodedata.
cdef enum:
    SEPARATOR = 0
    LETTER = 1
    DIGIT = 2
    MARK = 3
    CJK = 4
    CLASS_BITS = 7
    COMPLEX = 128

cdef enum:
    BLOCKS = 0x1100
    BLOCK = 256

cdef struct Block:
    uint8_t classes[BLOCK]
    uint32_t folded[BLOCK]

# Filled block by block as characters are met: the table of all Unicode would cost a tenth of a second at import.
cdef deque[Block] blocks
cdef Block* block_of[BLOCKS]

# Chinese, Japanese and Korean letters and numerals as (first, last); NFKC has already folded half-width forms.
_CJK_RANGES = (
    (0x1100, 0x11FF),
    (0x3005, 0x3007),
    (0x3021, 0x3029),
    (0x3031, 0x303C),
    (0x3041, 0x30FF),
    (0x3105, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97C),
    (0xAC00, 0xD7FB),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),
    (0x16FF0, 0x16FF6),
    (0x1AFF0, 0x1B16F),
    (0x20000, 0x3FFFF),
)

STOP_WORDS = frozenset(
    # English
    "a an the and or but if then than so as of to in on at by for with from into onto about over under between out up"
    " down off is are was were be been being am do does did done doing has have had having will would can could shall"
    " should may might must it its he she they them him her his hers their theirs we us our ours you your yours i me my"
    " mine this that these those there here what which who whom whose where when why how also just only very too"
    # French
    " au aux avec ce cet cette ces dans de des du le la les un une et ou où mais donc or ni car si que qui quoi dont"
    " quand comment pourquoi il elle ils elles on nous vous je tu me te se moi toi lui leur leurs eux mon ma mes ton ta"
    " tes son sa ses notre nos votre vos en y par pour sur sous entre chez vers est es suis sommes êtes sont était"
    " étaient être été ai as a avons avez ont avait avoir fait faire plus très aussi".split()
)
NEGATIONS = frozenset("not no never without cannot ne n' pas jamais aucun aucune sans".split())

# A seed of this process keeps a hostile text from choosing words that collide.
cdef uint64_t hash_seed = int.from_bytes(os.urandom(8), "little")


cdef inline uint64_t hash_word(const uint32_t* word, Py_ssize_t length) noexcept nogil:
    cdef uint64_t h = hash_seed
    cdef Py_ssize_t i
    for i in range(length):
        h = (h ^ <uint64_t>word[i]) * <uint64_t>0x9E3779B97F4A7C15U
        h ^= h >> 29
    return h


def _class_of(str character):
    """The class of one character that is already normal and folded."""
    major = unicodedata.category(character)[0]
    if major == "M":
        return MARK
    if major not in "LN":
        return SEPARATOR
    code = ord(character)
    for first, last in _CJK_RANGES:
        if first <= code <= last:
            return CJK
    return LETTER if major == "L" else DIGIT


cdef int load_block(int number) except -1:
    """Fill the table for one block of 256 characters."""
    cdef Block block
    cdef int i, code
    for i in range(BLOCK):
        code = number * BLOCK + i
        character = chr(code)
        normal = unicodedata.normalize("NFKC", character)
        folded = normal.casefold()
        block.folded[i] = code
        block.classes[i] = _class_of(character)
        if block.classes[i] == MARK or 0x1161 <= code <= 0x11FF:
            block.classes[i] |= COMPLEX
        elif len(folded) == 1:
            block.folded[i] = ord(folded)
            if folded != character:
                # Class bits of a character that is folded are those of its folded form; a mark may still join.
                block.classes[i] = _class_of(folded)
                if block.classes[i] == MARK or (number == 0 and ord(folded) > 255):
                    block.classes[i] |= COMPLEX  # of Latin-1 the micro sign alone folds to a letter outside it
        else:
            for part in folded:
                if _class_of(part) != SEPARATOR or part in "+#'\u2019":
                    block.classes[i] |= COMPLEX
    if number == 0x20:
        block.folded[0x19] = 0x27  # the curly apostrophe reads as the straight one
    blocks.push_back(block)
    block_of[number] = &blocks.back()
    return 0


load_block(0)


cdef inline const Block* block_with(uint32_t c) except NULL:
    if block_of[c >> 8] == NULL:
        load_block(c >> 8)
    return block_of[c >> 8]


cdef inline int tail(
    Py_ssize_t length,
    uint32_t first,
    uint32_t last,
    uint32_t next,
    uint32_t second,
    uint8_t second_class,
    uint8_t third_class,
) noexcept nogil:
    """How many of the characters behind a run of letters and digits still belong to its word: n't, n', c++ and c#."""
    if last == c'n' and next == c"'" and second == c't' and third_class == SEPARATOR:
        return 2
    if length == 1:
        if first == c'c':
            if next == c'+' and second == c'+':
                return 2
            return next == c'#'
        return first == c'n' and next == c"'" and second_class == LETTER
    return 0


cdef inline bint in_word(uint8_t cls) noexcept nogil:
    return cls == LETTER or cls == DIGIT or cls == MARK


cdef class Cutter:
    """Cuts one text at a time: `slices` are its words, in order and repeated, as parts of `folded`."""

    cdef int cut(self, str text) except -1:
        if not self.fold(text, False):
            general = unicodedata.normalize("NFKC", text).casefold()
            if "i\u0307" in general:
                general = general.replace("i\u0307", "i")  # a dotted capital I folds to these two; readers write i
            self.fold(general, True)
        return self.slice_runs(self.folded.size() - 3)

    cdef int fold(self, str text, bint normalised) except -1:
        """Fill `folded` and `classes`; 0 when the text must be normalised as a whole first."""
        cdef Py_ssize_t n = PyUnicode_GET_LENGTH(text), i
        cdef int kind = PyUnicode_KIND(text)
        cdef void* data = PyUnicode_DATA(text)
        cdef uint32_t c
        cdef uint8_t cls
        cdef const Block* block
        # Three separators past the end let the cutter look ahead without asking where the text ends.
        self.folded.resize(n + 3)
        self.classes.resize(n + 3)
        for i in range(n, n + 3):
            self.folded[i] = 0
            self.classes[i] = SEPARATOR
        for i in range(n):
            if kind == PyUnicode_1BYTE_KIND:
                c = (<const uint8_t*>data)[i]
            elif kind == PyUnicode_2BYTE_KIND:
                c = (<const uint16_t*>data)[i]
            else:
                c = (<const uint32_t*>data)[i]
            block = block_with(c)
            cls = block.classes[c & 255]
            if cls & COMPLEX and not normalised:
                return 0
            self.classes[i] = cls & CLASS_BITS
            self.folded[i] = c if normalised and c != 0x2019 else block.folded[c & 255]
        return 1

    cdef int slice_runs(self, Py_ssize_t n) except -1:
        cdef const uint32_t* s = self.folded.data()
        cdef const uint8_t* cls = self.classes.data()
        cdef Py_ssize_t i = 0, j, previous, clusters
        cdef uint8_t met
        cdef int extra
        self.slices.clear()
        while i < n:
            if cls[i] == SEPARATOR:
                i += 1
                continue
            if cls[i] == CJK:
                previous = i
                clusters = 0
                while cls[i] == CJK:
                    j = i + 1
                    while cls[j] == MARK:
                        j += 1
                    if clusters:
                        self.slices.push_back(Slice(previous, j - previous))
                    previous = i
                    clusters += 1
                    i = j
                if clusters == 1:
                    self.slices.push_back(Slice(previous, i - previous))
                continue
            j = i
            met = 0
            while in_word(cls[j]):
                if cls[j] != MARK:
                    met = 1
                j += 1
            extra = tail(j - i, s[i], s[j - 1], s[j], s[j + 1], cls[j + 1], cls[j + 2])
            if extra or cls[i] == DIGIT or (j - i > 1 and met):
                self.slices.push_back(Slice(i, j + extra - i))
            j += extra
            i = j
        return 0


cdef class WordTable:
    """Words numbered in the order in which they were first met."""

    def __cinit__(self):
        self.count = 0
        self.slots.resize(64)
        cdef size_t i
        for i in range(self.slots.size()):
            self.slots[i].id = -1

    cdef int32_t find(self, const uint32_t* word, Py_ssize_t length, uint64_t hash) noexcept:
        """The number of a word, or -1."""
        cdef size_t mask = self.slots.size() - 1
        cdef size_t at = (hash >> 20) & mask
        cdef Slot* slot
        while True:
            slot = &self.slots[at]
            if slot.id < 0:
                return -1
            if (
                slot.hash == hash
                and slot.length == length
                and memcmp(self.letters.data() + slot.start, word, length * sizeof(uint32_t)) == 0
            ):
                return slot.id
            at = (at + 1) & mask

    cdef int32_t add(self, const uint32_t* word, Py_ssize_t length, uint64_t hash) except -1:
        """Give a word that is not there yet its number."""
        cdef size_t at, mask
        cdef Slot slot
        if 2 * <size_t>self.count >= self.slots.size():
            self.grow()
        slot.hash = hash
        slot.start = self.letters.size()
        slot.length = length
        slot.id = self.count
        self.letters.insert(self.letters.end(), word, word + length)
        mask = self.slots.size() - 1
        at = (hash >> 20) & mask
        while self.slots[at].id >= 0:
            at = (at + 1) & mask
        self.slots[at] = slot
        self.count += 1
        return slot.id

    cdef int grow(self) except -1:
        cdef vector[Slot] wider
        cdef size_t i, at, mask = 2 * self.slots.size() - 1
        wider.resize(mask + 1)
        for i in range(mask + 1):
            wider[i].id = -1
        for i in range(self.slots.size()):
            if self.slots[i].id >= 0:
                at = (self.slots[i].hash >> 20) & mask
                while wider[at].id >= 0:
                    at = (at + 1) & mask
                wider[at] = self.slots[i]
        self.slots.swap(wider)
        return 0


cdef WordTable table_of(words):
    cdef WordTable table = WordTable()
    cdef Cutter cutter = Cutter()
    for word in words:
        cutter.fold(word, False)
        table.add(cutter.folded.data(), len(word), hash_word(cutter.folded.data(), len(word)))
    return table


cdef WordTable stop_words = table_of(sorted(STOP_WORDS))
cdef WordTable negations = table_of(sorted(NEGATIONS))


cdef inline bint is_stop_word(const uint32_t* word, Py_ssize_t length, uint64_t hash) noexcept:
    return stop_words.find(word, length, hash) >= 0


cdef bint is_guarded(const uint32_t* word, const uint8_t* classes, Py_ssize_t length) noexcept:
    """Whether a word is a negation or made wholly of digits."""
    cdef Py_ssize_t i
    if length > 2 and word[length - 3] == c'n' and word[length - 2] == c"'":
        return True
    for i in range(length):
        if classes[i] != DIGIT:
            return negations.find(word, length, hash_word(word, length)) >= 0
    return True


cdef class QueryWords:
    """The distinct words of a query; `look` marks those that a text carries, `carried` counts them since `begin`."""

    def __init__(self, str query not None):
        cdef size_t i
        cdef Slice part
        cdef const uint32_t* word
        cdef uint64_t hash
        cdef Py_ssize_t c
        cdef const Block* latin = block_of[0]
        self.cutter = Cutter()
        self.table = WordTable()
        self.openings.resize(1024)
        self.cutter.cut(query)
        for i in range(self.cutter.slices.size()):
            part = self.cutter.slices[i]
            word = self.cutter.folded.data() + part.start
            hash = hash_word(word, part.length)
            if self.table.find(word, part.length, hash) >= 0 or is_stop_word(word, part.length, hash):
                continue
            self.table.add(word, part.length, hash)
            self.first_letters[(word[0] >> 6) & 3] |= <uint64_t>1 << (word[0] & 63)
            if part.length > 1:
                if word[0] < 256 and word[1] < 256:
                    self.open_with(word[0], word[1])
            elif word[0] < 256:
                for c in range(256):
                    if latin.classes[c] == SEPARATOR:
                        self.open_with(word[0], <uint32_t>c)
        self.total = self.table.count
        self.stamps.resize(self.total)
        self.stamp = 0
        self.carried = 0

    cdef void open_with(self, uint32_t first, uint32_t second) noexcept:
        """Note the first two characters with which a word of the query stands in a Latin-1 text."""
        cdef uint32_t key = first | second << 8
        self.openings[key >> 6] |= <uint64_t>1 << (key & 63)

    cdef inline bint may_open(self, uint32_t first) noexcept:
        """Whether a word of the query may begin with this character."""
        return self.first_letters[(first >> 6) & 3] >> (first & 63) & 1

    cdef void begin(self) noexcept:
        cdef size_t i
        self.carried = 0
        self.stamp += 1
        if self.stamp == 0:
            for i in range(self.stamps.size()):
                self.stamps[i] = 0
            self.stamp = 1

    cdef void mark(self, const uint32_t* word, Py_ssize_t length) noexcept:
        cdef int32_t id = self.table.find(word, length, hash_word(word, length))
        if id >= 0 and self.stamps[id] != self.stamp:
            self.stamps[id] = self.stamp
            self.carried += 1

    cdef int look(self, str text) except -1:
        cdef size_t i
        cdef Slice part
        cdef const uint32_t* word
        cdef int kind
        cdef bint done
        if self.carried == self.total:
            return 0
        kind = PyUnicode_KIND(text)
        if kind == PyUnicode_1BYTE_KIND:
            done = self.look_latin(<const uint8_t*>PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
        elif kind == PyUnicode_2BYTE_KIND:
            done = self.look_wide(<const uint16_t*>PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
        else:
            done = self.look_wide(<const uint32_t*>PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
        if done:
            return 0
        self.cutter.cut(text)
        for i in range(self.cutter.slices.size()):
            part = self.cutter.slices[i]
            word = self.cutter.folded.data() + part.start
            if self.may_open(word[0]):
                self.mark(word, part.length)
        return 0

    cdef int look_latin(self, const uint8_t* text, Py_ssize_t n) except -1:
        """`look` without cutting every word: only runs that open like a word of the query are read.

        0 when the text needs the general cutter. A string's own closing NUL is the separator after its last character.
        """
        cdef const Block* latin = block_of[0]
        cdef const uint8_t* classes = &latin.classes[0]
        cdef const uint64_t* openings = self.openings.data()
        cdef Py_ssize_t i, j, base = 0
        cdef uint32_t key
        cdef uint8_t next, second, third
        cdef int extra
        cdef uint64_t starts, inside, before = 0, bits, unclear = 0, eight
        while base < n and self.carried < self.total:
            inside = 0
            for i in range(base, min(base + 64, n), 8):
                if i + 8 <= n:
                    eight = load_eight(text + i)
                else:
                    eight = 0
                    for j in range(i, n):
                        eight |= <uint64_t>text[j] << 8 * (j - i)
                bits = latin_words(eight, &unclear)
                if unclear:
                    bits = 0
                    for j in range(i, min(i + 8, n)):
                        if classes[text[j]] & COMPLEX:
                            return 0
                        bits |= <uint64_t>(classes[text[j]] != SEPARATOR) << (j - i)
                inside |= bits << (i - base)
            starts = inside & ~(inside << 1 | before)
            before = inside >> 63
            while starts:
                i = base + lowest_bit(starts)
                starts &= starts - 1
                key = latin.folded[text[i]] | latin.folded[text[i + 1]] << 8
                if not openings[key >> 6] >> (key & 63) & 1:
                    continue
                self.word.clear()
                j = i
                while classes[text[j]] != SEPARATOR:
                    self.word.push_back(latin.folded[text[j]])
                    j += 1
                # What is read here lies at or before the string's closing NUL: a separator there ends the look ahead.
                next = text[j]
                if next == c"'" or next == c'+' or next == c'#':
                    second = text[j + 1]
                    third = text[j + 2] if second else 0
                    if (classes[second] | classes[third]) & COMPLEX:
                        return 0
                    extra = tail(
                        j - i,
                        self.word[0],
                        self.word.back(),
                        next,
                        latin.folded[second],
                        classes[second],
                        classes[third],
                    )
                    if extra:
                        self.word.push_back(next)
                    if extra == 2:
                        self.word.push_back(latin.folded[second])
                self.mark(self.word.data(), self.word.size())
                if self.carried == self.total:
                    break
            base += 64
        return 1

    cdef int look_wide(self, const Wide* text, Py_ssize_t n) except -1:
        """`look` at a text with characters beyond Latin-1; 0 when it needs the general cutter."""
        cdef const Block* block
        cdef Py_ssize_t i = 0, j
        cdef uint32_t c, next, second, third
        cdef uint8_t cls, third_class
        cdef int extra
        cdef bint opens
        while i < n:
            c = text[i]
            block = block_with(c)
            cls = block.classes[c & 255]
            if cls == SEPARATOR:
                i += 1
                continue
            if cls & COMPLEX or cls == CJK:
                return 0
            opens = self.may_open(block.folded[c & 255])
            self.word.clear()
            j = i
            while True:
                if opens:
                    self.word.push_back(block.folded[c & 255])
                j += 1
                if j == n:
                    break
                c = text[j]
                block = block_with(c)
                cls = block.classes[c & 255]
                if cls == SEPARATOR:
                    break
                if cls & COMPLEX or cls == CJK:
                    return 0
            if opens:
                next = block.folded[c & 255] if j < n else 0
                second = text[j + 1] if j + 1 < n else 0
                third = text[j + 2] if j + 2 < n else 0
                block = block_with(second)
                cls = block.classes[second & 255]
                second = block.folded[second & 255]
                third_class = block_with(third).classes[third & 255]
                if (cls | third_class) & COMPLEX:
                    return 0
                extra = tail(j - i, self.word[0], self.word.back(), next, second, cls, third_class)
                if extra:
                    self.word.push_back(next)
                if extra == 2:
                    self.word.push_back(second)
                self.mark(self.word.data(), self.word.size())
                if self.carried == self.total:
                    break
            i = j
        return 1


cdef class WordSets:
    """Texts as sorted sets of word numbers over one vocabulary; `ids` and `guard_ids` hold the text read last."""

    def __cinit__(self):
        self.cutter = Cutter()
        self.table = WordTable()

    cdef int read(self, str text) except -1:
        """Read the words of a text into `ids`, and those that are negations or numbers into `guard_ids`."""
        cdef size_t i, kept = 0
        cdef Slice part
        cdef const uint32_t* word
        cdef uint64_t hash
        cdef int32_t id
        self.cutter.cut(text)
        self.ids.clear()
        self.guard_ids.clear()
        for i in range(self.cutter.slices.size()):
            part = self.cutter.slices[i]
            word = self.cutter.folded.data() + part.start
            hash = hash_word(word, part.length)
            id = self.table.find(word, part.length, hash)
            if id < 0:
                if is_stop_word(word, part.length, hash):
                    continue
                id = self.table.add(word, part.length, hash)
                self.guarded.push_back(is_guarded(word, self.cutter.classes.data() + part.start, part.length))
            self.ids.push_back(id)
        sort(self.ids.begin(), self.ids.end())
        for i in range(self.ids.size()):
            if i and self.ids[i] == self.ids[i - 1]:
                continue
            self.ids[kept] = self.ids[i]
            kept += 1
            if self.guarded[self.ids[i]]:
                self.guard_ids.push_back(self.ids[i])
        self.ids.resize(kept)
        return 0


def words(str text not None):
    """The words of a text in order, stop words dropped, repeats kept."""
    cdef Cutter cutter = Cutter()
    cdef size_t i
    cdef Py_ssize_t at
    cdef Slice part
    cdef const uint32_t* word
    cutter.cut(text)
    found = []
    for i in range(cutter.slices.size()):
        part = cutter.slices[i]
        word = cutter.folded.data() + part.start
        if is_stop_word(word, part.length, hash_word(word, part.length)):
            continue
        letters = []
        for at in range(part.start, part.start + part.length):
            letters.append(chr(cutter.folded[at]))
        found.append("".join(letters))
    return found
