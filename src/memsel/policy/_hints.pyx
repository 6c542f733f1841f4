"""Finds out in one pass which kinds of secret a text may hold, so that text without one costs almost nothing.

The expressions of redaction.py are exact and slow, and most memories hold no secret. What each of those expressions
needs is one of a few words, or a run of characters as long as a key.
"""

from libc.stdint cimport uint64_t

NAME = 1
CREDENTIAL = 2
ADDRESS = 4
COMMAND = 8
BLOCK = 16
LONG_RUN = 32

# In lower case, eight characters at most: a secret of the kind has one of them beside it.
cdef dict NEEDLES = {
    NAME: (
        "pass", "pwd", "pswd", "mdp", "pw", "secret", "token", "jeton", "key", "credent", "creds",
        "cl\xe9", "cle api", "cle-api", "cle_api", "cleapi", "cle d'a", "cle dapi", "cle d a", "cle d' a",
        "cle secr", "cle priv",
        "_auth", "\"auth", "'auth", "sig=", "gnature=",
    ),
    CREDENTIAL: ("uthoriza", "bearer", "basic"),
    ADDRESS: ("://", "@"),
    COMMAND: (" -p", " -a", " -u", "-user"),
    BLOCK: ("----", "private-"),
}
cdef int RUN_LENGTH = 12  # the shortest key that its shape alone gives away

cdef int NEEDLE_LIMIT = 64
cdef uint64_t[64] needle_text
cdef uint64_t[64] needle_mask
cdef unsigned char[64] needle_kind
cdef unsigned char[257] needle_start  # the needles that end in character c are needle_start[c] to needle_start[c + 1]
cdef unsigned char[256] lower  # lower case of Latin-1
cdef unsigned char[256] in_run  # whether a key can hold the character


cdef int prepare() except -1:
    cdef int code, filled = 0
    cdef uint64_t packed
    for code in range(256):
        lower[code] = ord(chr(code).lower())
        in_run[code] = code < 128 and (chr(code).isalnum() or chr(code) in "_-./+=:~$%|")
    for code in range(256):
        needle_start[code] = filled
        for kind, needles in NEEDLES.items():
            for needle in needles:
                if needle.endswith(chr(code)):
                    if filled == NEEDLE_LIMIT or len(needle) > 8:
                        raise ValueError(f"needle {needle!r} does not fit")
                    packed = 0
                    for character in needle:
                        packed = packed << 8 | <uint64_t>ord(character)
                    needle_text[filled] = packed
                    needle_mask[filled] = ~<uint64_t>0 >> (64 - 8 * len(needle))
                    needle_kind[filled] = kind
                    filled += 1
    needle_start[256] = filled
    return 0


prepare()


def hints(str text not None) -> int:
    """Return the kinds of secret that the text may hold, or-ed together; it holds none of any other kind."""
    cdef Py_UCS4 character
    cdef unsigned char low
    cdef uint64_t recent = 0
    cdef int run = 0, longest = 0, place, found = 0
    for character in text:
        if character < 256:
            low = lower[character]
        elif character == 0x212A:  # the Kelvin sign, whose lower case is k
            low = c"k"
        else:
            low = 0
        recent = recent << 8 | low
        run = run + 1 if in_run[low] else 0
        longest = max(longest, run)
        for place in range(needle_start[low], needle_start[low + 1]):
            if recent & needle_mask[place] == needle_text[place]:
                found |= needle_kind[place]
    if longest >= RUN_LENGTH:
        found |= LONG_RUN
    return found
