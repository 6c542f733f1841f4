"""The object door: MemorySelector over entries, and the records it answers with.

A call takes one of two ways to the same answer. Where every method is the class's own and the numbers are plain, the
entries are gathered into columns and the kernel ranks them. Everything else — an overridden method, exotic number
types, an input that raises — is evaluated one entry at a time by the methods that subclasses may override.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import IntEnum
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from . import _core, _gather
from .config import SelectionConfig, check_words
from .entry import MemoryEntry
from .tokens import checked_count

__all__ = ["AuditedMemory", "MemorySelector", "Outcome", "ScoredMemory"]

_NEUTRAL_RELEVANCE = 0.5
# Seconds since the epoch of the year 5138; what is later was probably given in milliseconds.
_IMPLAUSIBLE_SECONDS = 1e11


class Outcome(IntEnum):
    """What became of one candidate."""

    KEPT = 0
    BELOW_MIN_SCORE = 1
    OVER_BUDGET = 2
    PAST_TOP_K = 3


@dataclass
class ScoredMemory(_gather.PackedScores):
    """A chosen entry and its scores, as Python floats."""

    entry: MemoryEntry = field()
    relevance_score: float = 0.0
    recency_score: float = 0.0
    importance_score: float = 0.0
    composite_score: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """For reading and logs: the id, the first 120 characters of the content, the scores to 4 decimals."""
        return {
            "id": self.entry.id,
            "content": str(self.entry.content)[:120],
            "relevance": round(self.relevance_score, 4),
            "recency": round(self.recency_score, 4),
            "importance": round(self.importance_score, 4),
            "composite": round(self.composite_score, 4),
        }


for _name in ("relevance_score", "recency_score", "importance_score", "composite_score"):
    delattr(ScoredMemory, _name)  # the dataclass left its defaults there, and they would hide the packed attributes
del _name


@dataclass
class AuditedMemory:
    """A candidate, chosen or not, with its scores and the reason.

    ``tokens`` is None where the selection never counted them, ``rank`` (0 = best kept) where the entry was not kept.
    """

    entry: MemoryEntry
    outcome: Outcome
    relevance_score: float
    recency_score: float
    importance_score: float
    composite_score: float
    tokens: int | None = None
    rank: int | None = None


class MemorySelector:
    """Chooses the entries that enter a prompt: the best by relevance, recency and importance that fit a budget.

    The composite score of an entry is ``relevance_weight * relevance + recency_weight * recency + importance_weight *
    importance``: relevance from the caller (0.5 where none is given), recency ``exp(-(ln 2 / half_life) * age_hours)``,
    importance the entry's own after decay. Entries are taken in descending composite order, equal ones in input order;
    one that does not fit what is left of the budget is passed over.

    The selector keeps nothing but ``config``, so one may be used from many threads at once.
    """

    def __init__(self, config: SelectionConfig | None = None) -> None:
        self.config = config or SelectionConfig()

    def select(
        self,
        query: str,
        candidates: Iterable[MemoryEntry],
        similarity_scores: Mapping[Any, float] | None = None,
        *,
        now: float | None = None,
    ) -> list[ScoredMemory]:
        """The chosen entries, best first.

        Args:
            query: not used for scoring; relevance comes from ``similarity_scores`` alone.
            candidates: entries, in any iterable. Entries with one id are all considered.
            similarity_scores: entry id to similarity. An id without one has relevance 0.5.
            now: seconds since the epoch; the clock (``time.time``) when None.

        Raises:
            OverflowError: a timestamp so far ahead that its recency is no float64; the message names the entry.
            ZeroDivisionError: the half-life is 0.
            TypeError: a score is not a number; the message names the id.
        """
        entries = candidates if type(candidates) is list else _listed(candidates)
        if not entries:
            return []
        now = time.time() if now is None else now
        while (packed := self._packed(entries, similarity_scores, now)) is not None:
            settings, gathered = packed
            try:
                try:
                    if _core.select_counted(gathered.call, settings):
                        return gathered.kept(ScoredMemory)
                    gathered.reraise()
                except _core.OverflowAt as overflow:
                    raise _overflow_error(gathered.entry(overflow.args[0]), settings.from_access) from None
            except _gather.EntriesChanged:
                # Another thread edited the list meanwhile; a copy of our own cannot change.
                entries = list(entries)
        return self._apply_token_budget(self._scored(entries, similarity_scores, now))

    def select_entries(
        self,
        query: str,
        candidates: Iterable[MemoryEntry],
        similarity_scores: Mapping[Any, float] | None = None,
        *,
        now: float | None = None,
    ) -> list[MemoryEntry]:
        """The chosen entries without their scores; arguments and errors as in ``select``."""
        return [scored.entry for scored in self._selected(query, candidates, similarity_scores, now)]

    def explain(
        self,
        query: str,
        candidates: Iterable[MemoryEntry],
        similarity_scores: Mapping[Any, float] | None = None,
        *,
        now: float | None = None,
    ) -> list[dict[str, Any]]:
        """The chosen entries as ``ScoredMemory.to_dict`` shows them; arguments and errors as in ``select``."""
        return [scored.to_dict() for scored in self._selected(query, candidates, similarity_scores, now)]

    def audit(
        self,
        query: str,
        candidates: Iterable[MemoryEntry],
        similarity_scores: Mapping[Any, float] | None = None,
        *,
        now: float | None = None,
    ) -> list[AuditedMemory]:
        """What became of every candidate, in input order: what ``select`` keeps is KEPT here, with its rank.

        Arguments and errors as in ``select``.

        Raises:
            TypeError: ``_apply_token_budget`` is overridden, so only the override knows why an entry was left out.
        """
        if not self._packs_itself():
            raise TypeError(
                f"audit cannot explain {type(self).__name__}: its _apply_token_budget is overridden, "
                "and only that method knows why it leaves an entry out"
            )
        entries = candidates if type(candidates) is list else _listed(candidates)
        if not entries:
            return []
        now = time.time() if now is None else now
        entries = list(entries)
        audited, ranked = self._audit_scores(entries, similarity_scores, now)
        self._audit_packing(audited, ranked)
        return audited

    # --- what subclasses may override, as in zerda ---------------------------------------------------------------

    def _recency_score(self, entry: MemoryEntry, now: float) -> float:
        config = self.config
        from_access = check_words(config)[1]
        try:
            hours_old = (now - _time_of(entry, from_access)) / 3600.0
            if getattr(config, "clamp_future", False) and hours_old < 0.0:
                hours_old = 0.0
            return math.exp(-(math.log(2) / config.recency_half_life_hours) * hours_old)
        except OverflowError:
            raise _overflow_error(entry, from_access) from None

    def _token_estimate(self, entry: MemoryEntry) -> int:
        counter = getattr(self.config, "token_counter", None)
        if counter is None:
            return max(1, len(str(entry.content)) // 4)
        return _counted(counter, entry)

    def _apply_token_budget(self, scored: list[ScoredMemory]) -> list[ScoredMemory]:
        selected: list[ScoredMemory] = []
        used = 0
        for memory in scored:
            if len(selected) >= self.config.top_k:
                break
            tokens = self._token_estimate(memory.entry)
            if used + tokens > self.config.token_budget:
                if check_words(self.config)[0]:
                    break
                continue
            selected.append(memory)
            used += tokens
        return selected

    # --- the two ways ----------------------------------------------------------------------------------------------

    def _selected(self, query: str, candidates: Any, scores: Any, now: float | None) -> list[ScoredMemory]:
        # An overridden select may have zerda's signature, so the clock is handed on only when it was given.
        if now is None:
            return self.select(query, candidates, scores)
        return self.select(query, candidates, scores, now=now)

    def _packs_itself(self) -> bool:
        return type(self)._apply_token_budget is _OWN[2] and "_apply_token_budget" not in self.__dict__

    def _packed(
        self, entries: list[Any], scores: Any, now: float
    ) -> tuple[_core.Plan, _gather.Gathered] | None:
        """The call as C numbers, or None where the methods have to answer, or to raise what the reference raises."""
        cls = type(self)
        if not (
            cls._recency_score is _OWN[0]
            and cls._token_estimate is _OWN[1]
            and cls._apply_token_budget is _OWN[2]
            and _OVERRIDABLE.isdisjoint(self.__dict__)
        ):
            return None
        config = self.config
        settings = _core.plan(config, now)
        if settings is None:
            return None
        counter = getattr(config, "token_counter", None)
        if counter is not None:
            counter = partial(_counted, counter)
        try:
            gathered = _gather.gather(entries, scores, settings.from_access, counter)
        except Exception:
            # Which entry raises first, and what, is the reference's to say: it scores as it goes.
            return None
        return None if gathered is None else (settings, gathered)

    def _rows(self, entries: Iterable[MemoryEntry], scores: Any, now: float) -> Iterator[ScoredMemory]:
        """Every entry with its scores, in input order, by the methods."""
        scores = scores or {}
        for entry in entries:
            relevance = scores.get(entry.id, _NEUTRAL_RELEVANCE)
            recency = self._recency_score(entry, now)
            importance = entry.effective_importance
            relevance, recency, importance = (
                _gather.score_as_float(score, entry.id) for score in (relevance, recency, importance)
            )
            composite = (
                self.config.relevance_weight * relevance
                + self.config.recency_weight * recency
                + self.config.importance_weight * importance
            )
            yield ScoredMemory(entry, relevance, recency, importance, float(composite))

    def _scored(self, entries: Iterable[MemoryEntry], scores: Any, now: float) -> list[ScoredMemory]:
        """The entries that reach the minimum, in order, by the methods."""
        rows = self._rows(entries, scores, now)
        kept = [row for row in rows if row.composite_score >= self.config.min_composite_score]
        kept.sort(key=_composite, reverse=True)
        return kept

    def _audit_scores(
        self, entries: list[MemoryEntry], scores: Any, now: float
    ) -> tuple[list[AuditedMemory], list[AuditedMemory]]:
        """Every entry with its scores in input order, as BELOW_MIN_SCORE; and those that reach the minimum, ranked."""
        packed = self._packed(entries, scores, now)
        if packed is not None:
            settings, gathered = packed
            try:
                columns, order = _core.score_all(gathered.call, settings)
            except _core.OverflowAt as overflow:
                raise _overflow_error(entries[overflow.args[0]], settings.from_access) from None
            audited = [
                AuditedMemory(entry, Outcome.BELOW_MIN_SCORE, *row)
                for entry, row in zip(entries, columns, strict=True)
            ]
            return audited, [audited[row] for row in order]
        audited = [
            AuditedMemory(
                row.entry,
                Outcome.BELOW_MIN_SCORE,
                row.relevance_score,
                row.recency_score,
                row.importance_score,
                row.composite_score,
            )
            for row in self._rows(entries, scores, now)
        ]
        ranked = [row for row in audited if row.composite_score >= self.config.min_composite_score]
        ranked.sort(key=_composite, reverse=True)
        return audited, ranked

    def _audit_packing(self, audited: list[AuditedMemory], ranked: list[AuditedMemory]) -> None:
        kept = used = 0
        stopped = False
        for memory in ranked:
            if kept >= self.config.top_k:
                memory.outcome = Outcome.PAST_TOP_K
                continue
            memory.outcome = Outcome.OVER_BUDGET
            if stopped:
                continue
            memory.tokens = self._token_estimate(memory.entry)
            if used + memory.tokens > self.config.token_budget:
                stopped = check_words(self.config)[0]
                continue
            memory.outcome = Outcome.KEPT
            memory.rank = kept
            kept += 1
            used += memory.tokens


_OWN = (MemorySelector._recency_score, MemorySelector._token_estimate, MemorySelector._apply_token_budget)
_OVERRIDABLE = frozenset(method.__name__ for method in _OWN)
_composite = attrgetter("composite_score")


def _listed(candidates: Any) -> list[Any]:
    """Any iterable of candidates as a list; None and whatever says that it is empty is an empty one."""
    if candidates is None:
        return []
    if not isinstance(candidates, np.ndarray) and not candidates:
        return []
    return list(candidates)


def _counted(counter: Any, entry: MemoryEntry) -> int:
    text = str(entry.content)
    return checked_count(counter, text, f"entry {entry.id!r}")


def _time_of(entry: MemoryEntry, from_access: bool) -> float:
    """The time that recency counts from; a TypeError that names the entry for what was plainly meant to be one."""
    value: Any = entry.last_access if from_access else entry.timestamp
    if value is None or isinstance(value, str | date | Decimal):
        name = "last_access" if from_access else "timestamp"
        raise TypeError(f"entry {entry.id!r} has {name} {value!r}; expected seconds since the epoch")
    return value


def _overflow_error(entry: MemoryEntry, from_access: bool) -> OverflowError:
    name = "last_access" if from_access else "timestamp"
    value = entry.last_access if from_access else entry.timestamp
    try:
        shown = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        shown = "of thousands of digits"
    message = f"entry {entry.id!r} has {name} {shown}, too far from the clock for its recency to be a float"
    try:
        in_milliseconds = abs(value) > _IMPLAUSIBLE_SECONDS
    except TypeError:
        in_milliseconds = False
    if in_milliseconds:
        message += "; it looks like milliseconds, expected seconds since the epoch"
    return OverflowError(message)
