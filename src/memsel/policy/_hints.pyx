"""Decides in one pass whether a text can hold a secret at all, so that text without one costs almost nothing.

The expressions of redaction.py are exact and slow; most memories hold no secret. What every one of those expressions
needs is one of a few words, or a run of characters as long as a key.
"""

from libc.stdint cimport uint64_t

# Each secret that is not itself a long run has one of these beside it, in lower case, eight characters at most.
cdef tuple NEEDLES = (
    "pass", "pwd", "mdp", "pw", "secr", "token", "jeton", "key", "credent", "creds",  # names
    "cl\xe9", "cle api", "cle-api", "cle_api", "cleapi", "cle d'a", "cle dapi", "cle d a", "cle priv",
    "_auth", "\"auth", "'auth", "uthoriza", "bearer", "basic", "sig=", "gnature=",
    "://", "@", "thin:", " -p", " -a", " -u", "-user",  # addresses and commands
)
cdef int RUN_LENGTH = 14  # the shortest key that its shape alone gives away

cdef int NEEDLE_LIMIT = 64
cdef uint64_t[64] needle_text
cdef uint64_t[64] needle_mask
cdef unsigned char[257] needle_start  # the needles that end in character c are needle_start[c] to needle_start[c + 1]
cdef unsigned char[256] lower  # lower case of Latin-1
cdef unsigned char[256] in_run  # whether a key can hold the character


cdef int prepare() except -1:
    cdef int code, filled = 0
    cdef uint64_t packed
    for code in range(256):
        low = chr(code).lower()
        lower[code] = ord(low)
        in_run[code] = code < 128 and (chr(code).isalnum() or chr(code) in "_-./+=:~$%")
    for code in range(256):
        needle_start[code] = filled
        for needle in NEEDLES:
            if ord(needle[-1]) == code:
                if filled == NEEDLE_LIMIT or len(needle) > 8:
                    raise ValueError(f"needle {needle!r} does not fit")
                packed = 0
                for character in needle:
                    packed = packed << 8 | <uint64_t>ord(character)
                needle_text[filled] = packed
                needle_mask[filled] = ~<uint64_t>0 >> (64 - 8 * len(needle))
                filled += 1
    needle_start[256] = filled
    return 0


prepare()


def may_hold_secret(str text not None) -> bool:
    """Return False only where no expression of the redaction could find anything in the text."""
    cdef Py_UCS4 character
    cdef unsigned char low
    cdef uint64_t recent = 0
    cdef int run = 0, place
    for character in text:
        if character < 256:
            low = lower[character]
        elif character == 0x212A:  # the Kelvin sign, whose lower case is k
            low = c"k"
        else:
            low = 0
        recent = recent << 8 | low
        run = run + 1 if in_run[low] else 0
        if run >= RUN_LENGTH:
            return True
        for place in range(needle_start[low], needle_start[low + 1]):
            if recent & needle_mask[place] == needle_text[place]:
                return True
    return False
