"""Documents of any retrieval framework as the columns of one composite selection.

The frameworks agree on a document: a text, perhaps a score, and a mapping in which everything else is the user's own.
Their adapters say where things stand and what a date without a zone means there; what such a value may be, what stands
in for a missing one and how a wrong one is refused is decided here, once for all of them.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..arrays import Selection, select_arrays
from ..config import SelectionConfig, check_words
from ..errors import InputError
from ..policy.faults import shown
from ..tokens import checked_count

__all__ = ["Candidate", "NaiveTimes", "select_candidates"]

NaiveTimes: TypeAlias = Literal["local", "utc"]

_NEUTRAL_RELEVANCE = 0.5
_MEDIUM_IMPORTANCE = 0.5
# The first and the last second of the calendar that dates have; milliseconds of the present lie beyond it.
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799
_SHARE = "a number from 0 to 1"
_TIME = "a datetime, an ISO-8601 text or seconds since the epoch"
# No date is written longer; fromisoformat need not look at what is.
_LONGEST_DATE = 64


class Candidate(NamedTuple):
    """A document: how errors name it, the text that would enter a prompt, its score or None, where that stood."""

    name: str
    text: str
    score: Any
    score_place: str
    metadata: Mapping[str, Any]


def select_candidates(
    candidates: Sequence[Candidate],
    config: SelectionConfig,
    *,
    time_key: str,
    access_key: str,
    importance_key: str,
    naive_times: NaiveTimes,
) -> Selection:
    """The best candidates by the composite policy; indices count from 0 in ``candidates``.

    A missing or null score is 0.5, a missing time now, a missing importance 0.5. Times are datetimes, dates, ISO-8601
    texts or seconds since the epoch; ``naive_times`` says which zone those without one are in. ``access_key`` is read
    instead of ``time_key`` where ``config.recency_from`` is ``"accessed"``. Tokens are counted as the config says.

    Raises:
        InputError: a value is not what it should be; the message names the document and the key.
        OverflowError: a time is so far ahead that its recency is no float64; the message names the document.
        ZeroDivisionError, ValueError, TypeError: as ``memsel.select_arrays``, for what the config holds.
    """
    now = time.time()
    if check_words(config)[1]:
        time_key = access_key
        config = copy.copy(config)
        config.recency_from = "created"  # the column is chosen; what is left of the config is the kernel's
    relevance = np.empty(len(candidates))
    timestamp = np.empty(len(candidates))
    importance = np.empty(len(candidates))
    tokens = np.empty(len(candidates), np.int64)
    counter = getattr(config, "token_counter", None)
    for row, (name, text, score, score_place, metadata) in enumerate(candidates):
        relevance[row] = _NEUTRAL_RELEVANCE if score is None else _number(f"{name}: {score_place}", score)
        moment = metadata.get(time_key)
        timestamp[row] = now if moment is None else _seconds(f"{name}: {time_key}", moment, naive_times)
        share = metadata.get(importance_key)
        importance[row] = _MEDIUM_IMPORTANCE if share is None else _share(f"{name}: {importance_key}", share)
        tokens[row] = max(1, len(text) // 4) if counter is None else checked_count(counter, text, name)
    try:
        return select_arrays(relevance, timestamp, importance, tokens, config=config, now=now)
    except OverflowError:
        worst = candidates[int(np.argmax((timestamp - now) / config.recency_half_life_hours))]
        raise OverflowError(
            f"{worst.name}: {time_key} is {worst.metadata.get(time_key)!r}, too far ahead of the clock for its recency"
            " to be a float; with clamp_future=True it counts as new"
        ) from None


def _number(where: str, value: Any, wanted: str = "a finite number") -> float:
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise _refusal(where, value, wanted)


def _share(where: str, value: Any) -> float:
    number = _number(where, value, _SHARE)
    if not 0 <= number <= 1:
        raise _refusal(where, value, _SHARE)
    return number


def _seconds(where: str, value: Any, naive_times: NaiveTimes) -> float:
    """Seconds since the epoch of a time in any of its forms."""
    if isinstance(value, Real) and not isinstance(value, bool):
        seconds = _number(where, value, "seconds since the epoch")
    else:
        seconds = _seconds_of_date(where, value, naive_times)
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise _refusal(where, value, "seconds since the epoch, within the years 1 to 9999; milliseconds are not")
    return seconds


def _seconds_of_date(where: str, value: Any, naive_times: NaiveTimes) -> float:
    moment = value
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment if len(moment) <= _LONGEST_DATE else "")
        except ValueError:
            raise _refusal(where, value, _TIME) from None
    elif isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise _refusal(where, value, _TIME)
    try:
        if moment.utcoffset() is None and naive_times == "utc":
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except Exception as error:  # a zone is code of others, and local time has an end
        raise InputError(f"{where} is {value!r}, which has no seconds since the epoch: {error}") from error


def _refusal(where: str, value: Any, wanted: str) -> InputError:
    return InputError(f"{where} is {shown(value)}; expected {wanted}")
