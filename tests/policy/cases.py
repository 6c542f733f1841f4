# ruff: noqa: RUF001 - look-alike characters are among the inputs
"""Random selections: memories in many scripts, with repeats, negations, numbers, expiry, scopes and equal scores."""

import datetime
import random
from typing import Any

NOW = datetime.datetime(2026, 9, 17, 12, tzinfo=datetime.UTC)

WORDS = {
    script: words.split(" ")
    for script, words in {
        "english": "deploy server never not without cannot don't isn’t cache friday the of backup a C++ c# C 7 v2",
        "french": "déployer ne pas jamais n'aime n’importe sans été où l'équipe CŒUR œuvre à Genève vendredi",
        "decomposed": "re\u0301union gene\u0300ve cafe\u0301 q\u0303 \u0301 e\u0301 n\u0303andu\u0301",
        "folded": "Straße STRASSE İstanbul istanbul ﬁne ＡＢＣ ½ ² № ™ ß ª µ µm ΌΣΟΣ όσος ŉ ǰ Ｃ＋＋",
        "cyrillic": "сервер Москва кошка не ЁЖ ёж й́ я",
        "greek": "διακομιστής ΔΙΑΚΟΜΙΣΤΉΣ λόγος ᾳ α",
        "arabic": "الخادم مُحَمَّد ٢٠٢٤ قط لا ﷺ",
        "hebrew": "שרת שָׁלוֹם חתול א",
        "devanagari": "सर्वर कि बिल्ली हिन्दी २०२४ क",
        "thai": "เซิร์ฟเวอร์ น้ำ แมว ๗ ก",
        "chinese": "服务器 数据库 东京2020大会 猫 〇 葛\U000e0100城 使用c++开发 b型",
        "japanese": "サーバー ｶﾞﾗｽ 東京都 が か\u3099 あ\u3099い データベース々 猫",
        "korean": "서버 데이터베이스 \u1112\u1161\u11ab\u1100\u1173\u11af 한글 ㅋㅋ 고",
        "emoji": "👍 ❤️ 👩\u200d👧 1️⃣ 🇫🇷 … — ‘ ’ n' 'n' n't \u00a0",
        "broken": "\ud83d a\udc00b \x00 \t\n + # ' c+ c++++ C## x'y don'ts n'T ain'T",
        "databases": "MySQL postgres PostgreSQL sqlite sqlite3 mysql tabs spaces emacs",
    }.items()
}
SCRIPTS = list(WORDS)
GROUPS = [["tabs", ["spaces", "blanks"]], [["visual studio", "vs"], "emacs", "東京都"]]


def text(rng: random.Random, least: int = 1, most: int = 14) -> str:
    pool = [word for script in rng.sample(SCRIPTS, rng.randint(1, 3)) for word in WORDS[script]]
    return rng.choice((" ", " ", "", "-", "_")).join(rng.choice(pool) for _ in range(rng.randint(least, most))) or "x"


def variant(rng: random.Random, of: str) -> str:
    """A text close to another: a word more, a word less, a negation, another number, or the same."""
    parts = of.split(" ")
    change = rng.randrange(5)
    at = rng.randrange(len(parts))
    if change == 0:
        parts.insert(at, rng.choice(("not", "never", "ne", "n'a", "can't", "7", "12")))
    elif change == 1:
        parts.insert(at, rng.choice(WORDS["english"]))
    elif change == 2 and len(parts) > 1:
        del parts[at]
    elif change == 3:
        parts = [str(rng.randrange(3)) if part.isdigit() else part for part in parts]
    return " ".join(parts) or "x"


def memories(rng: random.Random, count: int, *, distinct: bool = False) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for i in range(count):
        memory: dict[str, Any] = {"id": f"m{rng.randrange(10**6):06d}"}
        if distinct:
            memory["id"] = f"m{(i * 7919) % 1000003:07d}"
        elif made and rng.random() < 0.05:
            memory["id"] = rng.choice(made)["id"]
        elif rng.random() < 0.2:
            memory["id"] = rng.randrange(30)
        memory["text"] = variant(rng, rng.choice(made)["text"]) if made and rng.random() < 0.4 else text(rng)
        if rng.random() < 0.9:
            created = NOW - datetime.timedelta(hours=rng.choice((-5, 0, 1, 24, 24, 24 * 14, rng.randrange(10**5))))
            memory["created_at"] = rng.choice(
                (created, created.isoformat(), created.isoformat().replace("+00:00", "Z"))
            )
        if rng.random() < 0.8:
            memory["importance"] = rng.choice((0, 0.5, 0.5, 1, rng.random()))
        if rng.random() < 0.3:
            memory["tags"] = [text(rng, 1, 2) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.1:
            memory["scope"] = rng.choice(("default", "other"))
        if rng.random() < 0.1:
            memory["expires_at"] = (NOW + datetime.timedelta(microseconds=rng.choice((-10, 0, 1, 10**9)))).isoformat()
        if rng.random() < 0.3:
            memory["similarity"] = rng.choice((0.0, 0.15, -0.5, rng.random(), 3.0))
        made.append(memory)
    return made


def settings(rng: random.Random) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "max_results": rng.choice((1, 3, 10, 10, 1000)),
        "max_tokens": rng.choice((1, 10, 40, 120, 4000, 10**6)),
        "min_relevance": rng.choice((0, 0.15, 0.15, 0.5, 1)),
        "recency_days": rng.choice((0.001, 1, 14, 90, 1e9)),
        "dedupe": rng.choice((0, 1e-9, 0.3, 0.5, 2 / 3, 0.7, 0.8, 0.8, 1)),
        "guard": rng.random() < 0.5,
        "redact": False,
    }
    if rng.random() < 0.3:
        chosen["conflicts"] = GROUPS
    if rng.random() < 0.3:
        for part in ("relevance", "freshness", "importance", "similarity"):
            chosen[f"{part}_weight"] = rng.choice((0, -0.25, 0.1, 1, 1e6, rng.random()))
    return chosen


def query(rng: random.Random, from_memories: list[dict[str, Any]]) -> str:
    if not from_memories or rng.random() < 0.2:
        return rng.choice(("", "the and of", "été", text(rng)))
    words = " ".join(memory["text"] for memory in rng.sample(from_memories, min(3, len(from_memories)))).split(" ")
    return " ".join(rng.sample(words, min(rng.randint(1, 5), len(words))))
