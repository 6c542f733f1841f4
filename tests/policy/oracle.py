"""memory_select in plain Python, written from its description: slow, short, and the judge of the compiled one.

It reads well-formed memories only. Words are cut with unicodedata alone, pairs are compared with every kept memory, and
nothing is skipped, so that a shortcut in the package has something to disagree with.
"""

import datetime
import functools
import itertools
import unicodedata

from memsel.policy.settings import MemorySelectSettings

ENGLISH = """a an the and or but if then than so as of to in on at by for with from into onto about over under between
out up down off is are was were be been being am do does did done doing has have had having will would can could shall
should may might must it its he she they them him her his hers their theirs we us our ours you your yours i me my mine
this that these those there here what which who whom whose where when why how also just only very too"""
FRENCH = """au aux avec ce cet cette ces dans de des du le la les un une et ou où mais donc or ni car si que qui quoi
dont quand comment pourquoi il elle ils elles on nous vous je tu me te se moi toi lui leur leurs eux mon ma mes ton ta
tes son sa ses notre nos votre vos en y par pour sur sous entre chez vers est es suis sommes êtes sont était étaient
être été ai as a avons avez ont avait avoir fait faire plus très aussi"""
STOP_WORDS = set((ENGLISH + " " + FRENCH).split())
NEGATIONS = {"not", "no", "never", "without", "cannot", "ne", "n'", "pas", "jamais", "aucun", "aucune", "sans"}
CJK = [
    (0x1100, 0x11FF),  # Hangul letters
    (0x3005, 0x3007),
    (0x3021, 0x3029),
    (0x3031, 0x303C),
    (0x3041, 0x30FF),  # kana
    (0x3105, 0x31BF),  # Bopomofo, Hangul compatibility letters
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97C),
    (0xAC00, 0xD7FB),  # Hangul syllables
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),
    (0x16FF0, 0x16FF6),
    (0x1AFF0, 0x1B16F),
    (0x20000, 0x3FFFF),
]
BUILT_IN = [[["mysql"], ["postgresql", "postgres"], ["sqlite"]]]


@functools.cache
def kind(character: str) -> str:
    """L letter, N digit, M mark, C Chinese, Japanese or Korean, or nothing."""
    major = unicodedata.category(character)[0]
    if major in "LN" and any(low <= ord(character) <= high for low, high in CJK):
        return "C"
    return major if major in "LNM" else ""


def pairs(characters: list[str]) -> list[str]:
    if len(characters) == 1:
        return characters
    return [first + second for first, second in itertools.pairwise(characters)]


def cut(text: str) -> list[str]:
    """The words of a text in order, stop words dropped."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i").replace("\u2019", "'")
    kinds = [kind(character) for character in text] + ["", "", ""]
    text += "\0\0\0"
    words: list[str] = []
    i = 0
    while i < len(text):
        if kinds[i] == "":
            i += 1
        elif kinds[i] == "C":
            characters: list[str] = []
            while kinds[i] == "C" or (kinds[i] == "M" and characters):
                if kinds[i] == "C":
                    characters.append(text[i])
                else:
                    characters[-1] += text[i]
                i += 1
            words += pairs(characters)
        else:
            start = i
            while kinds[i] in ("L", "N", "M"):
                i += 1
            word = text[start:i]
            if word[-1] == "n" and text[i : i + 2] == "'t" and kinds[i + 2] == "":
                words.append(word + "'t")
                i += 2
            elif word == "n" and text[i] == "'" and kinds[i + 1] == "L":
                words.append("n'")
                i += 1
            elif word == "c" and text[i : i + 2] == "++":
                words.append("c++")
                i += 2
            elif word == "c" and text[i] == "#":
                words.append("c#")
                i += 1
            elif (len(word) > 1 or kinds[start] == "N") and set(kinds[start:i]) != {"M"}:
                words.append(word)
    return [word for word in words if word not in STOP_WORDS]


def is_guarded(word: str) -> bool:
    return word in NEGATIONS or word.endswith("n't") or all(kind(character) == "N" for character in word)


def is_rival(words: set[str], others: set[str], groups: list[list[list[str]]]) -> bool:
    """Whether the two name different alternatives of a group."""
    for group in groups:
        named = [
            {i for i, spellings in enumerate(group) if any(set(cut(spelling)) <= side for spelling in spellings)}
            for side in (words, others)
        ]
        if any(mine != other for mine in named[0] for other in named[1]):
            return True
    return False


def instant(value: datetime.datetime | str) -> datetime.datetime:
    return value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(value)


def select(query, memories, *, settings=None, scope="default", now, count=None, redact=None):
    """(selected, dropped, total tokens): lists of (id, text, score, tokens, reasons) and of (id, reason)."""
    settings = settings or MemorySelectSettings()
    now = instant(now)
    count = count or (lambda text: -(-len(text) // 4))
    redact = redact or (lambda text: text)
    groups = BUILT_IN + [[list(spellings) for spellings in group] for group in settings.conflicts]
    wanted = set(cut(query))
    dropped: list[tuple[str, str]] = []
    ranked = []
    seen: set[str] = set()
    for memory in memories:
        id = str(memory["id"])
        created = instant(memory.get("created_at") or now)
        if (memory.get("scope") or "default") != scope:
            dropped.append((id, "out_of_scope"))
            continue
        if memory.get("expires_at") and instant(memory["expires_at"]) <= now:
            dropped.append((id, "expired"))
            continue
        if id in seen:
            dropped.append((id, "duplicate_input"))
            continue
        seen.add(id)
        words = set(cut(memory["text"]))
        similarity = memory.get("similarity")
        relevance = 0.0
        if wanted:
            carried = words.union(*(cut(tag) for tag in memory.get("tags") or ()))
            relevance = len(wanted & carried) / len(wanted)
            if relevance < settings.min_relevance and (similarity is None or similarity < settings.min_relevance):
                dropped.append((id, "low_relevance"))
                continue
        age_days = max(0.0, (now - created).total_seconds()) / 86400
        freshness = 0.5 ** (age_days / settings.recency_days)
        importance = memory.get("importance", 0.5)
        score = (
            settings.relevance_weight * relevance
            + settings.freshness_weight * freshness
            + settings.importance_weight * importance
        )
        reasons = [f"relevance={relevance:.2f}", f"recency={freshness:.2f}", f"importance={importance:.2f}"]
        if similarity is not None:
            score += settings.similarity_weight * similarity
            reasons.append(f"similarity={similarity:.2f}")
        ranked.append((round(score, 6) + 0.0, created, id, memory["text"], words, reasons))
    ranked.sort(key=lambda row: row[2])
    ranked.sort(key=lambda row: row[1], reverse=True)
    ranked.sort(key=lambda row: row[0], reverse=True)
    selected: list[tuple[str, str, float, int, list[str]]] = []
    kept: list[tuple[str, set[str]]] = []
    left = settings.max_tokens
    for score, _, id, text, words, reasons in ranked:
        if len(kept) >= settings.max_results:
            dropped.append((id, "max_items"))
            continue
        shown = redact(text)
        if left < 1 or (tokens := count(shown)) > left:
            dropped.append((id, "budget"))
            continue
        duplicate = rival = None
        for other_id, others in kept:
            either = words | others
            same = bool(settings.dedupe and either) and len(words & others) / len(either) >= settings.dedupe
            if same and settings.guard and any(map(is_guarded, words ^ others)):
                rival = rival or other_id
            elif same:
                duplicate = duplicate or other_id
            if is_rival(words, others, groups):
                rival = rival or other_id
        if duplicate is not None:
            dropped.append((id, f"duplicate_of:{duplicate}"))
            continue
        if rival is not None:
            reasons = [*reasons, f"possible_conflict:{rival}"]
        kept.append((id, words))
        left -= tokens
        selected.append((id, shown, score, tokens, reasons))
    return selected, dropped, settings.max_tokens - left
