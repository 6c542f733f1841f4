"""Keys that their own shape gives away: what each issuer puts in front, from which alphabet, and how long.

The shapes are facts that the issuers document and that secret scanners look for. Nothing here looks at the words around
a key; redaction.py does.
"""

from __future__ import annotations

import re
from typing import Final

HAS_DIGIT = re.compile(r"[0-9]")
HAS_LETTER = re.compile(r"[^\W\d_]")
HAS_HUMP = re.compile(r"[a-z][A-Z]")


def mixes_letters_and_digits(value: str) -> bool:
    return HAS_DIGIT.search(value) is not None and HAS_LETTER.search(value) is not None


# Prefix, alphabet and least length of what each issuer hands out; the length is less than that of a whole key, since
# a text may be cut off in the middle of one.
_CERTAIN_SHAPES: Final = (
    # clouds
    r"A3T[A-Z0-9]{17}",
    r"ABSK[A-Za-z0-9+/]{60,}+=*+",
    r"amzn\.mws\.[0-9a-f-]{20,}+",
    r"(?:IQoJb3JpZ2lu|FwoGZXIvYXdz)[\w+/=%]{16,}+",
    r"AIza[\w-]{20,}+",
    r"ya29\.[\w.-]{16,}+",
    r"1//0[\w-]{24,}+",
    r"GOCSPX-[\w-]{12,}+",
    r"[\w~.-]{3}[0-9]Q~[\w~.-]{20,}+",
    r"[A-Za-z0-9]{72,80}AZDO[A-Za-z0-9]{4}",
    r"LTAI[A-Za-z0-9]{12,}+",
    r"AKID[A-Za-z0-9]{28,}+",
    r"AQVN[\w-]{32,}+",
    r"t1\.[\w-]{4,64}={0,2}\.[\w-]{40,}+={0,2}",
    r"do[opr]_v1_[0-9a-f]{12,}+",
    r"v1\.0-[0-9a-f]{24}-[0-9a-f]{20,}+",
    r"HRKU-[\w-]{24,}+",
    r"(?:fo1_|fm[12][ar]?_)[\w+/=,-]{40,}+",
    r"sb_(?:secret|publishable)_[\w-]{20,}+",
    r"pscale_(?:tkn|pw|oauth)_[\w=.-]{16,}+",
    r"tskey-[a-z]{2,12}-[\w-]{12,}+",
    r"sha256~[\w-]{40,}+",
    r"dapi[0-9a-f]{32}(?:-[0-9])?",
    # forges and packages
    r"gh[oprsu]_[A-Za-z0-9_]{20,}+",
    r"github_pat_[A-Za-z0-9_]{10,}+",
    r"gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct|wt)-[\w.-]{16,}+",
    r"GR1348941[\w-]{12,}+",
    r"(?:ATBB|ATCTT3|ATATT3)[\w=.-]{16,}+",
    r"BBDC-[\w+/@-]{16,}+",
    r"npm_[A-Za-z0-9]{30,}+",
    r"pypi-AgE[\w-]{12,}+",
    r"rubygems_[0-9a-f]{20,}+",
    r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])",
    r"CLOJARS_[a-z0-9]{20,}+",
    r"oy2[a-z0-9]{43}(?![a-z0-9])",
    r"dckr_(?:pat|oat)_[\w-]{12,}+",
    r"(?:AKCp|cmVmdGtu)[A-Za-z0-9]{40,}+",
    r"sq[apu]_[0-9a-f]{32,}+",
    r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{32,}+",
    r"(?:CCIPAT|CCIPRJ)_\w{30,}+",
    r"bkua_[0-9a-f]{32,}+",
    # chat and mail
    r"xox[a-z](?:\.xox[a-z])?-[\w-]{8,}+",
    r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/+-]{12,}+",
    r"(?<=/api/webhooks/)[0-9]{15,22}/[\w-]{12,}+",
    r"(?<=webhook\.office\.com/)webhookb2/[\w@/-]{30,}+",
    r"(?<=hooks\.zapier\.com/)hooks/catch/[\w/]{8,}+",
    r"mfa\.[\w-]{60,}+",
    r"[0-9]{8,10}:A[\w-]{34,}+",
    r"(?:SK|AC)[0-9a-f]{32}(?![0-9a-f])",
    r"(?:pub)?key-[0-9a-f]{32}",
    r"[0-9a-f]{32}-(?:us[0-9]{1,2}|[0-9a-f]{8}-[0-9a-f]{8})(?![0-9a-f-])",
    r"(?:xkeysib|xsmtpsib)-[\w-]{24,}+",
    # payment and shops
    r"(?:[rs]k|pk)_(?:live|test|prod)_[A-Za-z0-9]{8,}+",
    r"sk_[0-9a-f]{40,}+",
    r"whsec_[A-Za-z0-9+/=]{16,}+",
    r"sq0[a-z]{3}-[\w-]{16,}+",
    r"access_token\$(?:production|sandbox)\$[0-9a-z]{8,}+(?:\$[0-9a-f]*+)?+",
    r"access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{8,}+",
    r"FLW(?:SECK|PUBK)(?:_TEST)?-[\w-]{12,}+",
    r"rzp_(?:live|test)_[A-Za-z0-9]{14}",
    r"(?:shippo|duffel)_(?:live|test)_[\w-]{24,}+",
    r"EZ[AT]K[A-Za-z0-9]{40,}+",
    r"shp(?:at|ca|pa|ss|tka|ua)_[0-9a-fA-F]{12,}+",
    # models
    r"sk-(?:proj|ant|svcacct|service|admin|None|or|lf|helicone)-[\w-]{12,}+",
    r"pk-lf-[\w-]{12,}+",
    r"gsk_[A-Za-z0-9]{20,}+",
    r"pcsk_[\w-]{24,}+",
    r"hf_[A-Za-z0-9]{30,}+",
    r"api_org_[A-Za-z0-9]{24,}+",
    r"tgp_v1_[\w-]{20,}+",
    r"lsv2_(?:pt|sk)_\w{16,}+",
    r"fc-[0-9a-f]{32}",
    r"e2b_[0-9a-f]{32,}+",
    r"apify_api_[A-Za-z0-9]{20,}+",
    # operations
    r"hv[bsr]\.[\w-]{16,}+",
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{20,}+",
    r"pul-[0-9a-f]{32,}+",
    r"(?:NRAK|NRII|NRIQ|NRJS|NRRA|NRAA)-[\w-]{16,}+",
    r"dt0[a-z][0-9]{2}\.[A-Z0-9]{16,}+(?:\.[A-Z0-9]*+)?+",
    r"sntry[asu]_[\w+/=.-]{20,}+",
    r"ph[cx]_[A-Za-z0-9]{30,}+",
    r"gl(?:c|sa)_[\w+/=]{20,}+",
    r"PMAK-[0-9a-f]{20,}+(?:-[0-9a-f]*+)?+",
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{16,}+",
    r"ops_eyJ[\w+/=]{16,}+",
    r"A3-[A-Z0-9]{6}-[A-Z0-9]{5,11}-[A-Z0-9-]{11,}+",
    r"dnkey-[\w=-]{24,}+",
    # work tools
    r"lin_(?:api|oauth)_[A-Za-z0-9]{20,}+",
    r"(?:ntn|secret)_[A-Za-z0-9]{40,}+",
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{16,}+",
    r"fig[du]_[\w-]{24,}+",
    r"pk_[0-9]{6,10}_[A-Z0-9]{24,}+",
    r"pat-[a-z]{2}[0-9]-[0-9a-f-]{24,}+",
    r"CFPAT-[\w-]{24,}+",
    r"(?:rdme|slk)_[a-z0-9]{60,}+",
    r"fio-u-[\w-]{40,}+",
    r"(?:pat|sat)\.[\w-]{22}\.[0-9a-f]{24}\.\w{16,}+",
    r"(?:sc|ext|scauth|authress)_\w{5,30}\.\w{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{16,}+",
    r"s-s4t2(?:ud|af)-[0-9a-f]{40,}+",
    r"p8e-[0-9a-f]{32}",
    r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",
    r"ATTA[0-9a-f]{40,}+",
    r"dbt[cu]_[\w=-]{24,}+",
    r"(?:sl\.|IGQ)[\w.-]{60,}+",
    r"EAA[A-Za-z0-9_-]{56,}+",
    r"A{20,}[\w%]{30,}+",
    r"[0-9]{15,16}(?:\||%7C)[\w-]{24,40}",
    # private keys of one line
    r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)[\w+/=]{12,}+",  # base64 of -----BEGIN, but of no certificate and no public key
    r"AGE-SECRET-KEY-1[A-Z0-9]{16,}+",
    r"nsec1[a-z0-9]{40,}+",
    r"[xyz]prv[A-Za-z0-9]{90,}+",
    # JSON web tokens: base64 of a text that begins {", then further parts
    r"eyJ[\w+/=-]{10,}+(?:\.[\w+/=-]*+)*+",
)
# Prefixes that identifiers have too: what follows must mix letters with digits.
_MIXED_SHAPES: Final = (
    r"gh[oprsu]_[A-Za-z0-9]{8,}+",
    r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{8,}+",
    r"(?:sbp|napi|nfp|rnd|lip)_[A-Za-z0-9]{20,}+(?!_)",
    r"(?:xapp|xwfp)-[\w-]{10,}+",
    r"[MNO][A-Za-z0-9]{22,27}\.[\w-]{6}\.[\w-]{20,}+",
    r"SG\.[\w-]{16,}+(?:\.[\w-]*+)?+",
    r"(?:pplx|xai|nvapi|csk|ico)-[\w-]{16,}+",
    r"tk-us-[\w-]{40,}+",
    r"sm_(?:aat|pat|sat)_[A-Za-z0-9]{16,}+",
    r"tfp_\w{30,}+",
    r"AKC[A-Za-z0-9]{16,}+",
    r"(?:npm|hf|r8|fw|gsk)_[A-Za-z0-9]{10,}+",
    r"(?:AIza|hvs\.|dop_v1_|shpat_|jev_)[\w-]{8,}+",
    r"(?:live|test)_[A-Za-z0-9]{28,}+",
    r"(?:jina|wandb_v1|vc[aciprk]|rpa)_[A-Za-z0-9_-]{24,}+",
    r"(?:tvly|pypi|m0|pa)-[\w-]{24,}+",
    r"AQ\.[\w-]{30,}+",
    r"re_[A-Za-z0-9]{6,10}_[A-Za-z0-9]{12,}+",
    r"s\.[A-Za-z0-9]{24}(?!\w|\.\w)",
    r"pn[bu]_[A-Za-z0-9]{30,}+",
    r"API-[A-Z0-9]{24,}+",
    r"sk-(?:proj|ant|svcacct|admin)-[\w-]{6,}+",
)
_KEY = re.compile(
    # not in the middle of a word, unless an escape sequence is what touches it
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))(?:"
    r"(?P<aws>(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AIPA|ANPA|ANVA|APKA|AROA|ASCA)[A-Z0-9]{12,}+)"
    rf"|(?P<certain>{'|'.join(_CERTAIN_SHAPES)})|(?P<mixed>{'|'.join(_MIXED_SHAPES)})|(?P<sk>sk-(?!learn)[\w-]{{16,}}+))",
    re.ASCII,
)


_RUN = re.compile(r"[A-Za-z0-9_.+/=:~$%|-]{12,}+")


# A further part of the same key, should another prefix have stood where it begins.
_MORE = re.compile(r"[.|$][\w-]{12,}+", re.ASCII)


def without_keys(text: str, marker: str) -> str:
    """Return the text with the marker in place of every key; runs too short for a key are not looked at."""
    pieces: list[str] = []
    done = 0
    for run in _RUN.finditer(text):
        for key in _KEY.finditer(text, run.start(), run.end()):
            if key.start() >= done and _is_key(key):
                pieces += text[done : key.start()], marker
                done = key.end()
                while (more := _MORE.match(text, done)) and mixes_letters_and_digits(more[0]):
                    done = more.end()
    if not pieces:
        return text
    pieces.append(text[done:])
    return "".join(pieces)


def _is_key(found: re.Match[str]) -> bool:
    key, shape = found[0], found.lastgroup
    if shape == "mixed":
        return mixes_letters_and_digits(key[3:])
    if shape == "aws":
        return len(key) == 20 or HAS_DIGIT.search(key) is not None
    if shape == "sk":  # a css class is words and hyphens, a key is not
        plain = HAS_DIGIT.search(key) is None and HAS_HUMP.search(key) is None
        return not plain or (len(key) >= 23 and key[3:].isalnum())
    return True
