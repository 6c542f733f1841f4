# ruff: noqa: RUF001 - the dashes and quotation marks of several languages are what the expressions look for
"""Takes secrets out of text before it leaves: a memory may hold a key that no prompt, table or log should repeat.

Five families are looked for, in this order, since a later one would see only half of what an earlier one holds:
private key blocks, Authorization headers, passwords inside URLs and commands, values that a name gives away
(``password: …``, ``"api_key": "…"``, ``le mot de passe est …``), and keys that their own shape gives away.

A shape is known by what its issuer documents: a prefix, an alphabet, a length. A name decides only together with a
value that can be a secret, so that ``the password is wrong`` and ``token: str`` stay as they are.

Every expression here reads a stretch of text at most a bounded number of times, whatever the input: repeats are
possessive or have a limit, look-aheads have one too, and of a value that is turned down 200 characters were read.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple

from ._hints import ADDRESS, BLOCK, COMMAND, CREDENTIAL, LONG_RUN, NAME, hints
from .key_shapes import HAS_DIGIT, HAS_HUMP, HAS_LETTER, mixes_letters_and_digits, without_keys

__all__ = ["redact"]

API_KEY: Final = "[REDACTED_API_KEY]"
BEARER: Final = "[REDACTED_BEARER]"
PASSWORD: Final = "[REDACTED_PASSWORD]"
PRIVATE_KEY: Final = "[REDACTED_PRIVATE_KEY]"
_MARKER_START: Final = "[REDACTED_"

# A replacement may bring a name and a value together that stood apart before. A second round finds those; a third
# only has work on text made to need it.
_ROUNDS: Final = 4


def redact(text: str) -> str:
    """Return the text with every secret in it replaced by a marker that says what stood there.

    Provider keys, JSON web tokens and named tokens become ``[REDACTED_API_KEY]``, Bearer and Basic credentials
    ``[REDACTED_BEARER]``, passwords (also inside URLs, connection strings and prose) ``[REDACTED_PASSWORD]``, and
    PEM or PGP private keys, cut-off ones too, ``[REDACTED_PRIVATE_KEY]``. An unquoted password or secret after a
    colon or an equals sign is written ``name=[REDACTED_PASSWORD]``; quotes stay, so JSON stays JSON. Redacted text
    is left alone: a second call changes nothing. Takes time linear in the length of the text.
    """
    for _ in range(_ROUNDS):
        found = hints(text)
        if not found:
            break
        redacted = _redact_once(text, found)
        if redacted == text:
            break
        text = redacted
    return text


def _redact_once(text: str, found: int) -> str:
    if found & BLOCK:
        text = _without_private_keys(text)
    if found & CREDENTIAL:
        text = _SIGNED_HEADER.sub(r"\1" + BEARER, text)
        text = _HEADER.sub(_redact_header, text)
        text = _SCHEME.sub(_redact_scheme, text)
    if found & ADDRESS:
        text = _AFTER_SCHEME.sub(_redact_url, text)
        text = _DSN.sub(r"\1" + PASSWORD, text)
    if found & COMMAND:
        text = _COMMAND.sub(_redact_argument, text)
    if found & NAME:
        text = _without_named_values(text)
    if found & LONG_RUN:
        text = without_keys(text, API_KEY)
    return text


def _lowered(text: str) -> str:
    """Lower case, position by position: a character whose lower case is longer stays as it is."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


# ---- private key blocks ----------------------------------------------------------------------------------------------

_KEY_LINE = re.compile(r"-{4,5} ?(BEGIN|END) (?:[A-Z0-9]++ ){0,4}?PRIVATE KEY(?: BLOCK)? ?-{4,5}", re.IGNORECASE)
_GAP = r"(?:[\s\"'`+,;>|#*]|\\+[nrt])*+"
_HEADER_LINE = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID) *+:[^\n\\]*+"
_CHUNK_END = r"(?=[\s\"'`\\,;<>)}\]|#*]|\.?(?:\s|\Z))"
_LOOKS_LIKE_BASE64 = r"(?=[A-Za-z+/]{0,64}[0-9=]|[A-Za-z]{0,64}[+/]|[A-Z]{0,64}[a-z]{1,64}[A-Z])"
_KEY_BODY = re.compile(
    # lines of a key whose end is missing: its headers, then its base64
    rf"(?:{_GAP}(?:{_HEADER_LINE}|[A-Za-z0-9+/=]{{24,}}+{_CHUNK_END}))*+"
    # its last line, shorter than the others: base64 that is no word, or all that is left of the text
    rf"(?:{_GAP}(?:{_LOOKS_LIKE_BASE64}[A-Za-z0-9+/=]{{1,76}}+{_CHUNK_END}|[A-Za-z0-9+/=]{{1,76}}+(?=\s*+\Z)))?+"
)
_GAP_REVERSED = r"(?:[\s\"'`+,;>|#*]|[nrt]\\+)*+"
_KEY_BODY_REVERSED = re.compile(
    rf"(?:{_GAP_REVERSED}[A-Za-z0-9+/=]{{1,24}}+(?![^\s\"'`\\]))?+(?:{_GAP_REVERSED}[A-Za-z0-9+/=]{{24,}}+(?![\w.~-]))++"
)
_PUTTY_KEY = re.compile(r"Private-Lines: *+\d++\s++(?:[A-Za-z0-9+/=]{4,}+\s*+)++(?:Private-MAC: *+[0-9a-f]*+)?+")


def _without_private_keys(text: str) -> str:
    pieces: list[str] = []
    done = 0
    lines = list(_KEY_LINE.finditer(text))
    for number, line in enumerate(lines):
        if line.start() < done:
            continue
        if line[1].upper() == "BEGIN":
            following = lines[number + 1] if number + 1 < len(lines) else None
            if following is not None and following[1].upper() == "END":
                start, end = line.start(), following.end()
            else:
                body = _KEY_BODY.match(text, line.end())
                start, end = line.start(), body.end() if body else line.end()
        else:  # the beginning is cut off
            body = _KEY_BODY_REVERSED.match(text[done : line.start()][::-1])
            start, end = line.start() - (len(body[0]) if body else 0), line.end()
        pieces += text[done:start], PRIVATE_KEY
        done = end
    pieces.append(text[done:])
    return _PUTTY_KEY.sub(PRIVATE_KEY, "".join(pieces))


# ---- what a secret looks like ----------------------------------------------------------------------------------------

_HAS_SYMBOL = re.compile(r"[@#$%^&*!+=?~|§€£]")

_SENTENCE_GOES_ON = re.compile(r" [a-zà-ÿ]")

_PLACEHOLDER = re.compile(
    r"""(?: <[^<>\n]{0,80}> | \$\{[^{}\n]{0,80}\} | \$\([^()\n]{0,80}\)? | \$[A-Z_][A-Z0-9_]*
          | \{\{?[\w\s.$-]{0,80}\}?\} | \{\w[\w.]{0,80}![rsa]\}? | %\(\w{0,80}\)s | %[sdr] | %\w{1,80}%
          | your[-_ ][\w -]{0,30} | [*]{2,} | [.]{2,} | …+ | [xX]{3,} | [-_?]+ | \[[\w\s-]{0,80}\] )
        (?=[\s,;&"'`)}\]] | \Z)""",
    re.VERBOSE,
)

# Words with digits that prose and configuration put where a password could stand.
_TECHNICAL = re.compile(
    r"""(?: (?: aes|argon|base|bcrypt|ecdsa|es|hmac|hs|http|ipv|iso|md|mysql|node|oauth|pbkdf|php|pkcs|ps|python
              | rfc|rsa|rs|scrypt|sha|ssl|tls|totp|utf|u2f|v|version|wep|win|windows|wpa|x )
            [-_]? \d{1,5} (?: [.-] [a-z0-9]{1,12} ){0,3}
          | \d+ (?: st|nd|rd|th|e|er|ère|eme|ème|k|kb|mb|gb|ms|s|m|h|d|x|% )
          | \d+ [-–]? (?: char|bit|byte|day|digit|factor|fa|hour|jour|letter|minute|month
              | step|time|way|week|word|year ) [-\w]*
          | [#][0-9a-f]{3,8}
          | \d++ (?: [-./:,T]\d++ )*+ Z? )""",
    re.VERBOSE | re.IGNORECASE,
)

_ORDINARY = """
any bool boolean bytes char int integer nil none null number object optional secretstr str string text true false
undefined unknown varchar void array list dict map self field input prompt value variable constant default required
mandatory forbidden option options flag argument parameter a an and are as at be but by can for from has have he her
here his how i if in is it its let may must my never no not of on only or our please see she should so that the
their then there these they this those to too was we were what when where which who why will with without you your
au aucun aucune aux avec ce ces cette dans de des doit du elle en est et il ils je la le les leur ma mes mon ne non
notre nous on ou où par pas pour que qui sa sans ses si son sont sur ta tes ton tu un une vide voir vos votre vous à
changed compromised correct different disabled empty enabled encrypted expired expires forgotten generated good
hashed hidden incorrect invalid known leaked locked lost missing new old policy redacted rejected removed reset
resets rotated same saved secure shared stored strong temporary unchanged unset updated valid weak wrong yes bon
changé correcte expiré faible faux identique inconnu invalide manquant mauvais modifié obligatoire oublié perdu
requis réinitialisé valide
"""
# What may follow "password:" in a schema, a form or a sentence without being one.
_NOT_A_PASSWORD: Final = frozenset(_ORDINARY.split())


def _is_placeholder(value: str) -> bool:
    return value.startswith(_MARKER_START) or _PLACEHOLDER.fullmatch(value) is not None


def _looks_random(value: str) -> bool:
    """Whether a word of a sentence can only be a secret: no word, number, date or technical term is written so."""
    if len(value) < 4 or _TECHNICAL.fullmatch(value):
        return False
    if mixes_letters_and_digits(value):
        return len(value) >= 6 or _HAS_SYMBOL.search(value[:-1]) is not None
    return _HAS_SYMBOL.search(value[:-1]) is not None and HAS_LETTER.search(value) is not None and "://" not in value


def _looks_like_token(value: str) -> bool:
    """Whether a value beside a name such as api_key can be one: it has digits, or is a long run of letters."""
    if len(value) < 6:
        return False
    if HAS_DIGIT.search(value):
        return _TECHNICAL.fullmatch(value) is None or (value.isdigit() and len(value) >= 8)
    if len(value) < 16 or not value.isalpha():
        return False
    # ApiGatewayApiKey is a name: one hump a word. What a random generator writes has one every four letters.
    return len(HAS_HUMP.findall(value)) * 4 >= len(value) or (len(value) >= 20 and (value.islower() or value.isupper()))


# ---- Authorization headers, Bearer and Basic -------------------------------------------------------------------------

_CREDENTIAL = r"[^\s\"'`<>{}()\[\],;\\]"
_HEADER = re.compile(
    r"(?P<head>(?<![a-z])authorization\\*+[\"'`]?\]?\s*+(?:=>|[:=,]|%3A)\s*+[bfru]?\\*+[\"'`]?\s*+)"
    r"(?:(?P<scheme>[a-z][a-z0-9-]{1,24}+)(?P<space>(?:\s|%20|\+)++))?+"
    rf"(?P<value>{_CREDENTIAL}++)",
    re.IGNORECASE,
)
_FIELD = r"[\w.-]{1,40}=(?:\\*+\"[^\"\n]{0,512}\"|[^\s,\"'\\]++)"
_SIGNED_HEADER = re.compile(
    r"((?<![a-z])authorization\\*+[\"'`]?\]?\s*+(?:=>|[:=,])\s*+\\*+[\"'`]?\s*+)"
    rf"(?:aws4-hmac-sha256|digest|hawk|oauth|signature)\s++{_FIELD}(?:\s*+,?\s*+{_FIELD})*+",
    re.IGNORECASE,
)
_SCHEME = re.compile(rf"\b(?P<scheme>bearer|basic)(?:\s|%20)++(?P<value>{_CREDENTIAL}++)", re.IGNORECASE)
_ABOUT_SCHEMES: Final = (
    *("auth", "authentication", "authorization", "credential", "credentials"),
    *("header", "headers", "of", "scheme", "token", "tokens"),
)
_SCHEMES: Final = (
    *("apikey", "api-key", "basic", "bearer", "bot", "hmac"),
    *("jwt", "key", "negotiate", "ntlm", "oauth2", "sso-key", "token"),
)


def _trimmed(value: str) -> str:
    """The value without the punctuation of the sentence around it."""
    return value.rstrip(".,;:?")


def _redact_header(found: re.Match[str]) -> str:
    value = _trimmed(found["value"])
    scheme = (found["scheme"] or "").lower()
    rest = found["value"][len(value) :]
    if not value or _is_placeholder(value):
        return found[0]
    if scheme in _SCHEMES:
        # "Authorization: Bearer token required" is a sentence, "Authorization: Bearer letmein" a header.
        plain = value.isalpha() and value.islower() and len(value) < 16
        if value.lower() in _ABOUT_SCHEMES or (plain and _SENTENCE_GOES_ON.match(found.string, found.end())):
            return found[0]
        return found["head"] + BEARER + rest
    if len(value) >= 8 and _looks_random(value):
        return found["head"] + (found["scheme"] or "") + (found["space"] or "") + BEARER + rest
    return found[0]


def _redact_scheme(found: re.Match[str]) -> str:
    value = _trimmed(found["value"])
    if _is_placeholder(value):
        return found[0]
    if found["scheme"].lower() == "basic":
        secret = _is_user_and_password(value)
    else:
        secret = (
            (len(value) >= 8 and _looks_random(value))
            or value.count(".") >= 2
            or (len(value) >= 20 and (value.isalnum() or HAS_HUMP.search(value) is not None))
        )
    return BEARER + found["value"][len(value) :] if secret else found[0]


def _is_user_and_password(value: str) -> bool:
    """Whether the value is base64 of ``user:password``, whole or cut off."""
    body = value.rstrip("=")
    if len(body) % 4 == 1:  # cut off inside a group, whose one character says nothing
        body = body[:-1]
    try:
        decoded = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and min(decoded) >= 32


# ---- passwords inside URLs and commands ------------------------------------------------------------------------------

_AFTER_SCHEME = re.compile(r"://[^\s\"'`<>]++")
_PORT = re.compile(r"\d{1,5}(?=[/,;)]|\Z)")
_WEB_PORT = re.compile(r"\d{1,5}(?=[/?#,;)]|\Z)")
_WEB = ("http", "https", "ws", "wss", "ftp", "ftps")
_SCHEME_NAME = re.compile(r"[a-z0-9+.-]*\Z", re.IGNORECASE)
_USER_END = re.compile(r"[:/?#@]")
_QUERY = re.compile(r"\?[\w.-]{1,64}=")
_AUTHORITY_END = re.compile(r"[/?#]")
# user:password@tcp(host) as Go's drivers write it, thin:user/password@host as Oracle's do
_DSN = re.compile(
    r"((?<![^\s\"'`=(\[,;])[\w.-]{1,64}+:(?=[^\s\"'`]{1,128}@(?:tcp|udp|unix)\()|thin:[\w$#]{1,64}+/)"
    r"(?!\[REDACTED_)[^\s\"'`]{1,128}?(?=@(?:tcp|udp|unix)\(|@//|@[\w.-]{1,128}:)"
)


def _redact_url(found: re.Match[str]) -> str:
    """Redact the credentials of every URL in one run of characters; several may follow each other without a space."""
    pieces = found[0].split("://")
    before = found.string[max(0, found.start() - 20) : found.start()]
    for number in range(1, len(pieces)):
        name = _SCHEME_NAME.search(pieces[number - 1][-20:] if number > 1 else before)
        pieces[number] = _redact_user_info(pieces[number], name[0].lower() if name else "")
    return "://".join(pieces)


def _redact_user_info(piece: str, scheme: str) -> str:
    stop = _USER_END.search(piece)
    if stop is None:
        return piece
    user = piece[: stop.start()]
    if stop[0] == "@":  # a token in place of a user
        return PASSWORD + piece[stop.start() :] if _is_opaque(user) else piece
    if stop[0] != ":":
        return piece
    start = stop.end()
    end = _password_end(piece, start, scheme)
    if end < start:
        return piece
    password = piece[start:end]
    kept = password if not password or _is_placeholder(password) else PASSWORD
    return f"{PASSWORD if _is_opaque(user) else user}:{kept}{piece[end:]}"


def _password_end(piece: str, start: int, scheme: str) -> int:
    """Where the @ stands that ends the password, or -1 when what follows the colon is a port."""
    stop = _AUTHORITY_END.search(piece, start)
    end = piece.rfind("@", start, stop.start() if stop else len(piece))
    web = scheme in _WEB
    if end >= 0 and web:
        return end
    if end < 0 and (_WEB_PORT if web else _PORT).match(piece, start):
        return -1
    # Outside the web, people leave / ? and # in a password as they are.
    query = _QUERY.search(piece, max(start, piece.find("@", start)))
    return piece.rfind("@", start, query.start() if query else len(piece))


def _is_opaque(user: str) -> bool:
    return len(user) >= 16 and user.isascii() and "." not in user and mixes_letters_and_digits(user)


_COMMAND = re.compile(
    r"(?P<head>\bcurl\b[^\n|]{0,160}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"']{1,64}+:"
    r"|\b(?:redis-cli\b[^\n|]{0,120}?\s-a\s|sshpass\s-p\s?|(?:mysql|mariadb)[a-z]{0,8}\b[^\n|]{0,120}?\s-p(?=\S)"
    r"|(?:docker|az|oc|podman|helm)\s(?:[a-z]{1,16}\s)?login\b[^\n|]{0,160}?\s-p\s)[\"']?)"
    r"(?P<value>[^\s\"'`]++)"
)


def _redact_argument(found: re.Match[str]) -> str:
    value = found["value"]
    return found[0] if _is_placeholder(value) or value.isdigit() else found["head"] + PASSWORD


# ---- values that a name gives away -----------------------------------------------------------------------------------

# The word that decides, its kind, what must end before it and begin after it, all in the lower-case text. Whatever else
# is written before it belongs to the name (DB_PASSWORD, dbPassword, openai.api_key). Of the rows of one word the first
# that holds counts.
_NAME_ROWS: Final = (
    *((word, "password", r"", r"") for word in ("password", "passwd", "passwrd", "passwort", "pswd", "pwd")),
    *((word, "password", r"", r"") for word in ("passphrase", "passcode", "motdepasse")),
    ("passe", "password", r"mots?[ _-]de[ _-]", r""),
    ("mdp", "password", r"(?<![a-z])", r""),
    ("pw", "password", r"(?<![a-z0-9])", r"(?=[\"'`]?[ ]?[:=])"),
    ("pass", "password", r"(?<![a-z])", r"(?=[ ]?=)"),
    ("pass", "password", r"[_.-]", r"(?=[\"'`\]]{0,2}[ ]?[:=])"),
    ("pass", "password", r"[\"']", r"(?=[\"'])"),
    ("pass", "loose", r"(?<![a-z])", r"(?=[ ]?:)"),
    ("secret", "password", r"", r"(?![ _-]?(?:access|key|token|id\b))"),
    ("credential", "login", r"", r"s?"),
    ("creds", "login", r"(?<![a-z])", r""),
    (
        "key",
        "key",
        r"(?:access|account|api|app|application|auth|client|consumer|deploy|encryption|functions?|hmac|instrumentation"
        r"|integration|licen[cs]e|master|private|secret|service|shared|signing|storage|subscription|webhook)[ _.-]?",
        r"",
    ),
    ("key", "key", r"[?&]", r"(?==)"),
    ("key", "other", r"[_-]", r""),
    ("key", "bare", r"", r"(?=\\{0,2}[\"'`]?\s?[:=])"),
    ("token", "token", r"", r""),
    ("jeton", "token", r"", r""),
    ("auth", "key", r"(?<![a-z])_", r"(?=[ ]?=)"),
    ("auth", "token", r"[\"']", r"(?=[\"'])"),
    ("sig", "key", r"[?&]", r"(?==)"),
    ("signature", "key", r"(?:[?&]|x-amz-)", r"(?==)"),
    *((word, "key", r"", r"[ _-]?(?:d['’ ]?[ ]?)?(?:api|secr[eè]te|priv[ée]e)") for word in ("clé", "cle")),
)
_NAME_END: Final = (
    r"(?:s(?=\\{0,2}[\"'`]?\s?[:=]\s?[^\s\d]))?+(?:[_-]?(?:confirm(?:ation)?|again|repeat|value|plain|base))?+"
    r"(?:_?\d{1,2})?+(?![\w-])"
)
_NAMES: Final = {
    word: tuple(
        (kind, re.compile(rf"{before}\Z") if before else None, re.compile(after + _NAME_END))
        for row, kind, before, after in _NAME_ROWS
        if row == word
    )
    for word, *_ in _NAME_ROWS
}
_WORD = re.compile("|".join(sorted(_NAMES, key=len, reverse=True)))
# What a marker of an earlier pass looks like in the lower-case text before one of the words.
_INSIDE_MARKER = re.compile(r"\[redacted_(?:api_|private_)?\Z")
_HARMLESS_KEYS = re.compile(
    r"(?:public|primary|foreign|cache|sort|partition|hash|range|idempotency|object|row|record|item|map|dict|lookup|group|dedup"
    r"|dedupe|unique|candidate|natural|surrogate|composite|index|merge|join|order|state|store|route|i18n|translation|ssh)[_-]?\Z"
)

_ASSIGNED = re.compile(
    # what closes the name, what joins it to its value, the space before that
    r"""\\{0,8}["'`]?\]?[*_]{0,2}
        (?P<join> \s{0,40}+ (?: ===? | != | := | => | [:=] | ： | %3d ) [*_]{0,2} (?: [ ]?[|>][+-]?(?=[ ]*+\n) )?+
                | (?P<tag>>)
                | ,?\s{1,40}+ ["']?value["']?\s?[:=] )
        (?P<space>\s*+)""",
    re.VERBOSE,
)
_PROSE = re.compile(
    # what stands between a name and its value in a sentence or a table
    r"""(?: \s?\([\w ,.@/-]{1,40}\)
          | \s(?:for|of|on|at|in|du|de|des|pour|sur|au|aux|à|d['’])\s?[\w.@'’/-]{1,40}(?:\s[\w.@'’/-]{1,40}){0,3}?
          | \s(?:wi-?fi|admin|root|prod|ssh|vpn|provisoire|temporaire|actuel) )??
        (?: \s{1,4}(?:is|was|are|est|était|sera|being|to|equals|as|c['’]est|will\ be|set\ to)
            (?:\s(?:now|still|currently|maintenant|toujours|literally|exactly|simply|just))?+ \s?:?
          | \s{0,4}: | \s{0,4}(?:[|→–—-]|->) )
        \s{1,4}""",
    re.VERBOSE,
)
_OPENING = re.compile(r"[bfruBFRU]{0,2}(?P<quote>\"\"\"|'''|\\{1,8}[\"']|[\"'`“”„«‘’])")
_BARE = re.compile(
    # an unquoted value: a separator belongs to it unless the next pair, a closing quote or the end follows
    r"""(?: [^\s"'`<>&;,(){}\[\]|\\«»“”’]
          | & (?! (?:amp;)? [\w.-]{1,40} = )
          | [;,] (?! \s | \Z | ["'`] | [\w .-]{1,40} [=:] )
          | ["'`’] (?! [\s,;:)\]}>&"'`.] | \Z )
          | [(){}\[\]|<>] (?! [\s,;:)\]}>"'`/.] | \Z )
          | \\ (?! [nrt"'\\] )
        )++""",
    re.VERBOSE,
)
_CLOSED_BY: Final = {"“": "”", "”": "”", "„": "“”", "«": "»", "‘": "’", "’": "’"}
_BRACED = re.compile(r"\{(?P<inside>[^{}\n\"':]{1,128})\}")
_LIST = re.compile(r"\[\s{0,8}(?P<inside>[\"'][^\[\]\n]{1,2000}|\[REDACTED_[A-Z_]{1,16}\])\s{0,8}\]")
_FLAG = re.compile(r"(?<!\S)--[\w-]{0,30}\Z")
_LEAD_IN = re.compile(r"\b(?:with|using|and|use|avec|et)\s(?:(?:the|an?|le|un)\s)?\Z")
# How much the place of a value says: written as name=value, after --name, in a sentence about the name, or next to it.
_CERTAIN: Final = 3
_FLAGGED: Final = 2
_LIKELY: Final = 1
_POSSIBLE: Final = 0
_UNIT = re.compile(
    r" (?:b[iy]t|char|caract|chiffre|day|digit|jour|letter|lettre|minute|mois|month|second|time|token|use|word|year)"
)
_CALL = re.compile(r"(?:[A-Za-z_.]+|[A-Za-z_]\w*[_.][\w.]*)[(\[]")
_ATTRIBUTE = re.compile(
    r"(?:args|cfg|conf|config|ctx|data|env|environ|event|form|input|kwargs|local|module|options|opts|os|params|process|props|req"
    r"|request|response|secrets|self|session|settings|state|this|user|values|var|vars)\??\.[A-Za-z_][\w.?]*"
)
_VARIABLE = re.compile(r"(?:[a-z]+_)*(?:pass|passphrase|passwd|password|pwd|secret)(?:_[a-z]+)*")
_USER_AND_PASSWORD = re.compile(r"[\w.@+-]+:(?!//)\S")
_KEY_ALPHABET = re.compile(r"[\w+/=.~!@#$%^&*-]+")
_PAIR = re.compile(r"[:=]")
_LOOKED_AT: Final = 200  # what decides about a value is in its first characters; a key in use is shorter


class _Name(NamedTuple):
    kind: str
    word: str
    start: int
    end: int


def _name_of(word: re.Match[str]) -> _Name | None:
    """The name that the word ends, if it does end one."""
    lowered, start = word.string, word.start()
    for kind, before, after in _NAMES[word[0]]:
        if before is None or before.search(lowered, max(0, start - 18), start):
            rest = after.match(lowered, word.end())
            if rest is not None:
                return _Name(kind, word[0], start, rest.end())
    return None


def _without_named_values(text: str) -> str:
    lowered = _lowered(text)
    pieces: list[str] = []
    done = 0
    for word in _WORD.finditer(lowered):
        if word.start() < done or _INSIDE_MARKER.search(lowered, max(0, word.start() - 18), word.start()):
            continue
        name = _name_of(word)
        found = _named_value(text, lowered, name) if name is not None else None
        if found is not None:
            start, end, replacement = found
            pieces += text[done:start], replacement
            done = end
    if not pieces:
        return text
    pieces.append(text[done:])
    return "".join(pieces)


def _named_value(text: str, lowered: str, name: _Name) -> tuple[int, int, str] | None:
    """Where the value of a name stands and what to write there, or None where there is none or it is no secret."""
    kind = name.kind
    marker = PASSWORD if kind in ("password", "loose", "login") else API_KEY
    before = lowered[max(0, name.start - 40) : name.start]
    if kind in ("other", "bare") and _HARMLESS_KEYS.search(before):
        return None
    assigned = _ASSIGNED.match(lowered, name.end)
    if assigned is not None and (assigned["tag"] is None or "<" in before):
        position = assigned.end()
        certainty = _LIKELY if "\n" in assigned["space"] else _CERTAIN
    elif (prose := _PROSE.match(lowered, name.end)) is not None:
        position, certainty = prose.end(), _LIKELY
    elif lowered[name.end : name.end + 1].isspace():
        position = name.end + 1
        certainty = _FLAGGED if _FLAG.search(before) else _LIKELY if _LEAD_IN.search(before) else _POSSIBLE
    else:
        return None

    opening = _OPENING.match(text, position)
    if opening is not None:
        start = opening.end()
        end = _quoted_end(text, start, opening["quote"], min(len(text), start + _LOOKED_AT))
        if not _is_quoted_secret(text[start:end], kind, certainty):
            return None
        if text[start] in " \t,;:)]}" and text[end : end + 1] in ("", "\n"):
            return None  # not an opening quote: it closes what holds the name
        return start, _quoted_end(text, start, opening["quote"], len(text)), marker

    listed = _LIST.match(text, position) if assigned is not None and kind == "password" else None
    if listed is not None:
        return None if listed["inside"].startswith(_MARKER_START) else (*listed.span("inside"), marker)
    braced = _BRACED.match(text, position) if assigned is not None and kind == "password" else None
    if braced is not None:
        if _is_placeholder(braced[0]) and not HAS_DIGIT.search(braced[0]):
            return None
        return (*braced.span("inside"), marker)

    word = _WORD.match(lowered, position)
    nested = _name_of(word) if word is not None else None
    if nested is not None and _ASSIGNED.match(lowered, nested.end):
        return None  # the value is a name with a value of its own
    limit = min(len(text), position + _LOOKED_AT)
    bare = _BARE.match(text, position, limit)
    if bare is None or _PLACEHOLDER.match(text, position):
        return None
    value = _trimmed(bare[0])
    end = position + len(value)
    if (
        assigned is not None
        and "\n" in assigned["space"]
        and ("=" in assigned["join"] or _PAIR.search(text, position, end + 1))
    ):
        return None  # nothing follows the name; the next line is another matter
    if assigned is not None and assigned["tag"] and not "</".startswith(text[end : end + 2]):
        return None
    equals = assigned is not None and "=" in assigned["join"]
    if not _is_bare_secret(value, text[end : end + 12], kind, name.word, certainty, equals):
        return None
    if bare.end() == limit and (whole := _BARE.match(text, position)) is not None:
        end = position + len(_trimmed(whole[0]))
    if assigned is not None and marker is PASSWORD and assigned["join"].strip() in (":", "="):
        return name.end, end, "=" + marker
    return position, end, marker


def _quoted_end(text: str, start: int, quote: str, limit: int) -> int:
    """Where the closing quote stands; without one, the end of the line (of the text, for three quotes)."""
    if quote in ('"""', "'''"):
        place = text.find(quote, start, limit)
        return limit if place < 0 else place
    found = _INSIDE[quote if len(quote) == 1 else "\\" + quote[-1]].match(text, start, limit)
    return found.end() if found else start


def _insides() -> dict[str, re.Pattern[str]]:
    """What may stand between a kind of quotes: a quote inside a word does not close, nor does an escaped one."""
    insides = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\[^\n]|{quote}(?=\w))*+") for quote in "\"'`"}
    insides |= {rf"\{quote}": re.compile(rf"(?:[^\\\n]|\\(?!\\*+{quote}))*+") for quote in "\"'"}
    return insides | {opening: re.compile(rf"[^{closing}\n]*+") for opening, closing in _CLOSED_BY.items()}


_INSIDE: Final = _insides()


def _is_quoted_secret(inside: str, kind: str, certainty: int) -> bool:
    value = inside.strip()
    if not value or _is_placeholder(value):
        return False
    if kind == "password":
        return value.lower() not in _NOT_A_PASSWORD if certainty >= _LIKELY else _looks_random(value)
    if kind == "loose":
        return " " not in value and _looks_random(value)
    if kind == "login":
        return _USER_AND_PASSWORD.match(value) is not None or (" " not in value and _looks_random(value))
    if kind in ("other", "bare"):
        return _is_long_secret(value, kind)
    if " " in value:
        return any(len(word) >= 8 and _looks_random(word) for word in value.split())
    return _looks_like_token(value) or (kind == "key" and len(value) >= 6 and not value.isupper() and "/" not in value)


def _is_long_secret(value: str, kind: str) -> bool:
    """Whether a value under a name that ends in key is long and mixed enough; for a bare key, a hash is not."""
    if len(value) < 20 or not _KEY_ALPHABET.fullmatch(value) or not mixes_letters_and_digits(value):
        return False
    return kind == "other" or (value.lower() != value and value.upper() != value)


def _is_bare_secret(value: str, following: str, kind: str, name: str, certainty: int, equals: bool) -> bool:
    if not value or _is_placeholder(value) or _CALL.match(value + following[:1]) or _ATTRIBUTE.fullmatch(value):
        return False
    if kind in ("other", "bare"):
        return certainty == _CERTAIN and _is_long_secret(value, kind)
    if kind == "loose":  # "tests pass: 12" is no password
        return _looks_random(value)
    if certainty < _FLAGGED:
        if _UNIT.match(following):
            return False
        if kind == "password":
            return _looks_random(value) or (certainty == _LIKELY and value.isdigit() and len(value) >= 4)
        return len(value) >= (8 if certainty == _LIKELY else 12) and _looks_random(value)
    if kind == "password":
        if value[0] in "([{":
            return value[0] != "{" and _looks_random(value)
        if certainty == _FLAGGED and (value[0] == "-" or (value.isalpha() and _SENTENCE_GOES_ON.match(following))):
            return False
        if name == "pwd" and value[0] in "/~.":  # the shell's working directory
            return False
        if equals and _VARIABLE.fullmatch(value):  # self.password = user_password
            return False
        return value.lower() not in _NOT_A_PASSWORD
    if kind == "login":
        return _USER_AND_PASSWORD.match(value) is not None or _looks_random(value)
    # a path names the file that holds the token
    return _looks_like_token(value) and not (value[0] in "/.~" and len(value) < 38)
