"""memory_select as a fast plain-Python program would do it: the contestant that the compiled one is measured against.

One regular expression cuts words, sets compare them, each text is cut once a call and the sort is one call. It reads
well-formed dicts with ISO-8601 dates, and knows the scripts that need no pairs: enough for the benchmark's own data, on
which the answers are compared before anything is timed.
"""

import datetime
import re
from typing import Any

from memsel.policy._words import NEGATIONS, STOP_WORDS

_find_words = re.compile(r"[^\W_]+").findall
_DATABASES = ({"mysql"}, {"postgresql", "postgres"}, {"sqlite"})


def _words(text: str) -> set[str]:
    return {word for word in _find_words(text.casefold()) if len(word) > 1 or word.isdigit()} - STOP_WORDS


def _databases(words: set[str]) -> set[int]:
    return {i for i, spellings in enumerate(_DATABASES) if words & spellings}


def select(query: str, memories: list[dict[str, Any]], settings: Any, now: str, redact: Any = None) -> Any:
    """(selected, dropped, total tokens), as the oracle of the tests gives them."""
    read_date = datetime.datetime.fromisoformat
    instant = read_date(now)
    wanted = _words(query)
    dropped = []
    ranked = []
    seen = set()
    for memory in memories:
        id = memory["id"]
        if memory.get("scope", "default") != "default":
            dropped.append((id, "out_of_scope"))
            continue
        expires = memory.get("expires_at")
        if expires is not None and read_date(expires) <= instant:
            dropped.append((id, "expired"))
            continue
        if id in seen:
            dropped.append((id, "duplicate_input"))
            continue
        seen.add(id)
        words = _words(memory["text"])
        tags = memory.get("tags")
        carried = words.union(*map(_words, tags)) if tags else words
        relevance = len(wanted & carried) / len(wanted) if wanted else 0.0
        similarity = memory.get("similarity")
        if (
            wanted
            and relevance < settings.min_relevance
            and (similarity is None or similarity < settings.min_relevance)
        ):
            dropped.append((id, "low_relevance"))
            continue
        created = read_date(memory["created_at"])
        age = (instant - created).total_seconds()
        freshness = 0.5 ** ((age if age > 0 else 0.0) / 86400 / settings.recency_days)
        importance = memory["importance"]
        score = (
            settings.relevance_weight * relevance
            + settings.freshness_weight * freshness
            + settings.importance_weight * importance
        )
        if similarity is not None:
            score += settings.similarity_weight * similarity
        ranked.append((-round(score, 6), -created.timestamp(), id, memory["text"], words, relevance, freshness, memory))
    ranked.sort(key=lambda row: row[:3])
    selected: list[Any] = []
    kept: list[Any] = []
    left = settings.max_tokens
    for score, _, id, text, words, relevance, freshness, memory in ranked:
        if len(selected) >= settings.max_results:
            dropped.append((id, "max_items"))
            continue
        shown = redact(text) if redact else text
        tokens = -(-len(shown) // 4)
        if tokens > left:
            dropped.append((id, "budget"))
            continue
        duplicate = rival = None
        named = _databases(words)
        for other, others, others_named in kept:
            shared = len(words & others)
            if shared and shared / (len(words) + len(others) - shared) >= settings.dedupe:
                if any(word in NEGATIONS or word.isdigit() for word in words ^ others):
                    rival = rival or other
                else:
                    duplicate = duplicate or other
            if named and others_named and (named != others_named or len(named) > 1):
                rival = rival or other
        if duplicate:
            dropped.append((id, f"duplicate_of:{duplicate}"))
            continue
        reasons = [f"relevance={relevance:.2f}", f"recency={freshness:.2f}", f"importance={memory['importance']:.2f}"]
        if "similarity" in memory:
            reasons.append(f"similarity={memory['similarity']:.2f}")
        if rival:
            reasons.append(f"possible_conflict:{rival}")
        kept.append((id, words, named))
        left -= tokens
        selected.append((id, shown, -score, tokens, reasons))
    return selected, dropped, settings.max_tokens - left
