"""SelectionConfig: the weights and limits of one composite selection.

A leaf: it imports nothing of memsel. Selectors read its fields at every call and never keep a copy.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, Literal

__all__ = ["SelectionConfig"]

# Fields that zerda's dataclass of the same name does not have; repr leaves them out while they stand at their default.
_ADDED = ("overflow", "clamp_future", "recency_from", "token_counter")


@dataclass(repr=False)
class SelectionConfig:
    """Weights and limits of a composite selection; mutable, and read anew at every call.

    Attributes:
        relevance_weight: factor of the similarity score. With the two other weights it sums to 1 within 0.1 %
            when the object is made; later assignments are not checked.
        recency_weight: factor of the recency score, ``exp(-(ln 2 / recency_half_life_hours) * age_hours)``.
        importance_weight: factor of the entry's importance after decay.
        recency_half_life_hours: age, in hours, at which recency is one half. 0 raises ZeroDivisionError at selection.
        min_composite_score: rows below this composite score are left out; a row exactly on it stays.
        top_k: most rows kept. Any number; it is compared, never converted (2.5 keeps three, NaN and inf keep all).
        token_budget: most tokens spent, likewise compared.
        overflow: what happens at a row that does not fit the budget: ``"skip"`` goes on to smaller rows behind it,
            ``"stop"`` ends the selection there.
        clamp_future: count a timestamp ahead of the clock as age 0 instead of giving it a recency above 1.
        recency_from: the time that recency counts from: ``"created"`` (timestamp) or ``"accessed"`` (last_access).
        token_counter: counts the tokens of a text: a callable ``str -> int`` or an object with ``count``.
            None stands for a quarter of the characters, at least one.

    Raises:
        ValueError: the weights do not sum to 1, or ``overflow`` or ``recency_from`` is not one of its two words.
    """

    relevance_weight: float = 0.50
    recency_weight: float = 0.20
    importance_weight: float = 0.30
    recency_half_life_hours: float = 24.0
    min_composite_score: float = 0.10
    top_k: int = 10
    token_budget: int = 3000
    overflow: Literal["skip", "stop"] = field(default="skip", kw_only=True)
    clamp_future: bool = field(default=False, kw_only=True)
    recency_from: Literal["created", "accessed"] = field(default="created", kw_only=True)
    token_counter: Callable[[str], int] | Any | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        total = self.relevance_weight + self.recency_weight + self.importance_weight
        if not math.isclose(total, 1.0, rel_tol=1e-3):
            raise ValueError(f"Weights must sum to 1.0, got {total:.3f}")
        check_words(self)

    def __repr__(self) -> str:
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name not in _ADDED or getattr(self, f.name) != f.default
        ]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def check_words(config: Any) -> tuple[bool, bool]:
    """Whether a config stops at an overflow and whether it counts recency from the last access.

    ``config`` may be any object; a missing attribute reads as its default.

    Raises:
        ValueError: one of the two attributes holds another word.
    """
    overflow = getattr(config, "overflow", "skip")
    if overflow not in ("skip", "stop"):
        raise ValueError(f"overflow is {overflow!r}; expected 'skip' or 'stop'")
    recency_from = getattr(config, "recency_from", "created")
    if recency_from not in ("created", "accessed"):
        raise ValueError(f"recency_from is {recency_from!r}; expected 'created' or 'accessed'")
    return overflow == "stop", recency_from == "accessed"


def plain_config(config: Any) -> Any:
    """A config whose numbers are floats and ints that decide as those of ``config`` do where they are compared.

    For the doors that have columns and no methods to fall back on. Weights and half-life are read as their float64
    values; limits may be any number that Python compares with one, Fraction and Decimal included.

    Raises:
        TypeError: a field is not a number; the message names it.
        ZeroDivisionError: the half-life is 0.
    """
    plain = SimpleNamespace(
        overflow=getattr(config, "overflow", "skip"),
        recency_from=getattr(config, "recency_from", "created"),
        clamp_future=getattr(config, "clamp_future", False),
    )
    for name in ("relevance_weight", "recency_weight", "importance_weight", "recency_half_life_hours"):
        value = getattr(config, name)
        if not isinstance(value, numbers.Real):
            raise TypeError(f"{name} is {value!r}; expected a number")
        setattr(plain, name, float(value))
    if plain.recency_half_life_hours == 0.0:
        raise ZeroDivisionError("recency_half_life_hours is 0")
    plain.min_composite_score = _least_float_from(_compared(config, "min_composite_score"))
    plain.top_k = _whole(_compared(config, "top_k"), math.ceil)
    plain.token_budget = _whole(_compared(config, "token_budget"), math.floor)
    return plain


def _compared(config: Any, name: str) -> Any:
    value = getattr(config, name)
    try:
        _ = value >= 0
        float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; expected a number") from None
    except OverflowError:
        pass
    return value


def _least_float_from(limit: Any) -> float:
    """The least float that is >= limit: a float reaches the one where it reaches the other."""
    try:
        nearest = float(limit)
    except OverflowError:
        return math.inf if limit > 0 else -math.nextafter(math.inf, 0.0)
    return math.nextafter(nearest, math.inf) if nearest < limit else nearest


def _whole(limit: Any, rounded: Callable[[Any], int]) -> Any:
    """The limit as a float that is no number or infinite, or else rounded to a whole number."""
    if limit != limit:
        return math.nan
    try:
        return rounded(limit)
    except OverflowError:
        return math.inf if limit > 0 else -math.inf
