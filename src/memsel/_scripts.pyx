"""Estimates how many tokens a text has for the o200k_base vocabulary, from the scripts it is written in.

Four characters a token holds for English prose and for little else. The vocabulary was built so that what is common in
its training text is short: an English word is one token, a Chinese character four fifths of one, an emoji two. This
module cuts a text the way the vocabulary's own pattern does (words with the space before them, digits by threes, runs
of punctuation) and adds up what such pieces cost on average. The costs are a least-squares fit to the texts in
benchmarks/tokens/texts and to sources and JSON of this project, rounded by hand; those of emoji are the vocabulary's.
"""

cdef enum:  # the classes of characters
    OTHER, LOWER, UPPER, ACCENTED, ACCENTED_RARE, VIETNAMESE, MARK
    CYRILLIC, GREEK, HEBREW, ARABIC, INDIC, THAI, HANGUL, KANA, HAN
    DIGIT, SPACE, NEWLINE, PUNCTUATION, WIDE, TYPOGRAPHIC, SYMBOL, SYMBOL_COMMON, EMOJI, EMOJI_COMMON, EMOJI_RARE
    SELECTOR, JOINER, TONE, FLAG, KEYCAP
    CLASSES

# First and last code point of a range and its class; a later row overrules an earlier one.
cdef tuple RANGES = (
    (0x21, 0x7E, PUNCTUATION), (0x30, 0x39, DIGIT), (0x41, 0x5A, UPPER), (0x61, 0x7A, LOWER),
    (0x00, 0x20, SPACE), (0x0A, 0x0A, NEWLINE), (0x0D, 0x0D, NEWLINE), (0x7F, 0xBF, TYPOGRAPHIC),
    (0xA0, 0xA0, SPACE), (0xC0, 0xFF, ACCENTED), (0x100, 0x24F, ACCENTED_RARE), (0x250, 0x2FF, OTHER),
    (0x300, 0x36F, MARK), (0x370, 0x3FF, GREEK), (0x400, 0x52F, CYRILLIC), (0x591, 0x5F4, HEBREW),
    (0x600, 0x6FF, ARABIC), (0x750, 0x77F, ARABIC), (0x60C, 0x60C, TYPOGRAPHIC), (0x61B, 0x61F, TYPOGRAPHIC),
    (0x660, 0x669, DIGIT), (0x6D4, 0x6D4, TYPOGRAPHIC), (0x6F0, 0x6F9, DIGIT), (0x900, 0xDFF, INDIC),
    (0xE00, 0xEFF, THAI), (0x1000, 0x109F, THAI), (0x1100, 0x11FF, HANGUL), (0x1780, 0x17FF, THAI),
    (0x1E00, 0x1EFF, VIETNAMESE), (0x1F00, 0x1FFF, GREEK), (0x2000, 0x200B, SPACE),
    (0x200C, 0x2069, TYPOGRAPHIC), (0x200D, 0x200D, JOINER), (0x20A0, 0x20CF, TYPOGRAPHIC),
    (0x20D0, 0x20FF, MARK), (0x20E3, 0x20E3, KEYCAP), (0x2100, 0x2BFF, SYMBOL), (0x2E80, 0x2FFF, HAN),
    (0x3000, 0x303F, WIDE), (0x3005, 0x3007, HAN), (0x3041, 0x30FF, KANA), (0x3105, 0x312F, KANA),
    (0x3131, 0x318E, HANGUL), (0x3190, 0x33FF, WIDE), (0x31F0, 0x31FF, KANA), (0x3400, 0x9FFF, HAN),
    (0xAC00, 0xD7FF, HANGUL), (0xD800, 0xDFFF, SYMBOL), (0xF900, 0xFAFF, HAN), (0xFB50, 0xFDFF, ARABIC),
    (0x2103, 0x2103, SYMBOL_COMMON), (0x2122, 0x2122, SYMBOL_COMMON), (0x2190, 0x2193, SYMBOL_COMMON),
    (0x2212, 0x221E, SYMBOL_COMMON), (0x2248, 0x226B, SYMBOL_COMMON), (0x2500, 0x25CF, SYMBOL_COMMON),
    (0x2605, 0x2606, SYMBOL_COMMON), (0x263A, 0x266B, SYMBOL_COMMON), (0x2705, 0x2728, SYMBOL_COMMON),
    (0x2764, 0x2764, SYMBOL_COMMON), (0x27A1, 0x27A1, SYMBOL_COMMON), (0x2B50, 0x2B55, SYMBOL_COMMON),
    (0xFE00, 0xFE0F, SELECTOR), (0xFE10, 0xFE6F, WIDE), (0xFE70, 0xFEFF, ARABIC), (0xFF00, 0xFFEF, WIDE),
    (0xFF66, 0xFF9D, KANA),
)

# Emoji that are one token each.
cdef str COMMON_EMOJI = (
    "\U0001f447\U0001f449\U0001f44c\U0001f44d\U0001f44f\U0001f495\U0001f525\U0001f600\U0001f601\U0001f602"
    "\U0001f609\U0001f60a\U0001f60d\U0001f618\U0001f62d\U0001f642\U0001f64f\U0001f923"
)

# What a piece costs, in thousandths of a token.
cdef int WORD = 940  # letters at the start of a line, after a digit or after several signs, or after a space
cdef int WORD_AFTER_SIGN = 1600  # letters with one sign before them that is no space
cdef int LONG_LETTER = 110  # every letter of a word past the sixth
cdef int VERY_LONG_LETTER = 250  # every letter past the fourteenth, on top: no word of a language
cdef int CAPITALS = 150  # a word in capitals, on top
cdef int CAPITAL_LETTER = 390  # every letter of such a word past the third
cdef int DIGITS = 1060  # three digits or fewer
cdef int SPACE_ALONE = 1100  # a space that no word takes in, as before a digit
cdef int INDENT = 540
cdef int LINES = 460  # a run of line ends
cdef int SIGNS = 1060  # a run of signs
cdef int LONG_SIGN = 110  # every sign of a run past the second
cdef int SPACE_EMOJI = 450  # a space before an emoji

cdef int[CLASSES] each  # of every character of the class
cdef int[CLASSES] run_start  # of every run of such characters, on top
cdef unsigned char[0x10000] class_of
cdef unsigned char[0x1000] emoji_class_of  # from U+1F000 on


cdef void prepare():
    cdef int first, last, kind, code
    for first, last, kind in RANGES:
        for code in range(first, last + 1):
            class_of[code] = kind
    for code in range(0x1F000, 0x20000):
        kind = EMOJI_RARE
        if code < 0x1F550 or 0x1F600 <= code < 0x1F6A0 or 0x1F900 <= code < 0x1F980:
            kind = EMOJI
        if 0x1F1E6 <= code <= 0x1F1FF:
            kind = FLAG
        if 0x1F3FB <= code <= 0x1F3FF:
            kind = TONE
        emoji_class_of[code - 0x1F000] = kind
    for emoji in COMMON_EMOJI:
        emoji_class_of[ord(emoji) - 0x1F000] = EMOJI_COMMON
    for kind in range(CLASSES):
        each[kind] = run_start[kind] = 0
    each[OTHER], each[MARK] = 900, 1000
    each[ACCENTED], each[ACCENTED_RARE], each[VIETNAMESE] = 500, 1300, 150
    each[CYRILLIC], run_start[CYRILLIC] = 210, 510
    each[GREEK], run_start[GREEK] = 310, 510
    each[HEBREW], run_start[HEBREW] = 310, 510
    each[ARABIC], run_start[ARABIC] = 280, 290
    each[INDIC], run_start[INDIC] = 260, 410
    each[THAI], run_start[THAI] = 390, 400
    each[HANGUL], each[KANA], each[HAN] = 800, 800, 780
    each[WIDE], each[TYPOGRAPHIC], each[SYMBOL], each[SYMBOL_COMMON] = 980, 1100, 2100, 1200
    each[EMOJI], each[EMOJI_COMMON], each[EMOJI_RARE] = 2000, 1000, 2950
    each[FLAG], each[TONE] = 1050, 2000
    each[SELECTOR], each[JOINER], each[KEYCAP] = 500, 1000, 700


prepare()


cdef inline int class_at(Py_UCS4 character) noexcept nogil:
    if character < 0x10000:
        return class_of[character]
    if character < 0x1F000:
        return OTHER
    if character < 0x20000:
        return emoji_class_of[<int>character - 0x1F000]
    if character < 0x40000:
        return HAN
    return SYMBOL


cdef inline bint is_letter(int kind) noexcept nogil:
    return kind <= HAN


cdef inline bint is_latin(int kind) noexcept nogil:
    return LOWER <= kind <= MARK


cpdef long long estimate(str text) except -1:
    """Return the estimated number of o200k_base tokens of the text, 1 or more; takes time linear in its length."""
    if text is None:
        raise TypeError("text is None; expected a str")
    cdef Py_ssize_t at = 0, size = len(text), start, length
    cdef long long total = 0
    cdef int kind, before = NEWLINE, capitals, small
    while at < size:
        kind = class_at(text[at])
        if is_latin(kind):
            total += WORD_AFTER_SIGN if before == PUNCTUATION else WORD
            capitals = small = 0
            start = at
            while kind == UPPER:
                capitals += 1
                at += 1
                kind = class_at(text[at]) if at < size else NEWLINE
            while is_latin(kind) and kind != UPPER:
                small += 1
                total += each[kind]
                at += 1
                kind = class_at(text[at]) if at < size else NEWLINE
            length = at - start
            if small == 0:
                total += CAPITALS + (CAPITAL_LETTER * (length - 3) if length > 3 else 0)
            elif length > 6:
                total += LONG_LETTER * (length - 6) + (VERY_LONG_LETTER * (length - 14) if length > 14 else 0)
            before = LOWER
        elif is_letter(kind):
            total += run_start[kind]
            start = at
            while at < size and class_at(text[at]) == kind:
                at += 1
            total += each[kind] * (at - start)
            before = kind
        elif kind == DIGIT:
            start = at
            while at < size and class_at(text[at]) == DIGIT:
                at += 1
            total += DIGITS * ((at - start + 2) // 3)
            if before == SPACE:
                total += SPACE_ALONE
            before = DIGIT
        elif kind == NEWLINE:
            while at < size and class_at(text[at]) == NEWLINE:
                at += 1
            total += LINES
            before = NEWLINE
        elif kind == SPACE:
            start = at
            while at < size and class_at(text[at]) == SPACE:
                at += 1
            if at - start > 1:
                total += INDENT
            before = SPACE
        elif kind == PUNCTUATION:
            start = at
            while at < size and class_at(text[at]) == PUNCTUATION:
                at += 1
            length = at - start
            # one sign before letters is part of the word
            if length == 1 and before != SPACE and at < size and is_latin(class_at(text[at])):
                before = PUNCTUATION
            else:
                total += SIGNS + (LONG_SIGN * (length - 2) if length > 2 else 0)
                before = SYMBOL
        else:
            if before == SPACE and kind >= EMOJI:
                total += SPACE_EMOJI
            total += each[kind]
            at += 1
            before = SYMBOL
    total = (total + 500) // 1000
    return total if total > 1 else 1
