"""The settings of memory_select, checked once, where they are made: from members, a mapping or a TOML table."""

import dataclasses
import decimal
import math
import numbers
import operator
import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Self

from memsel.errors import InputError
from memsel.policy._words import words
from memsel.policy.faults import shown

TABLE = "memory-select"

# Alternatives of which a memory about one project names one; each is a tuple of its spellings.
_BUILT_IN_CONFLICTS = ((("mysql",), ("postgresql", "postgres"), ("sqlite",)),)

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_LARGEST_COUNT = 2**62


class _UnknownSettingError(InputError, TypeError):
    """A member that settings do not have; a TypeError too, as an unknown argument is."""


def _unknown(name: object) -> InputError:
    return _UnknownSettingError(f"settings has an unknown member {shown(name)}; expected one of {', '.join(_MEMBERS)}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MemorySelectSettings:
    """What `memory_select` keeps; immutable, and checked when it is made.

    max_results, max_tokens: counts of 1 or more. min_relevance, dedupe: 0 to 1; a dedupe of 0 looks for no duplicates.
    recency_days: the half-life of freshness in days, above 0. The four weights: finite numbers that need not add up to
    anything. All these decimals may be text, and a text that is no number reads as the default. redact, guard: bool.
    conflicts: groups beside the built-in one (MySQL, PostgreSQL, SQLite); a group lists alternatives, an alternative is
    a word or a list of its spellings. Raises InputError that names the member.
    """

    max_results: int = 10
    max_tokens: int = 4000
    min_relevance: float = 0.15
    recency_days: float = 14.0
    dedupe: float = 0.8
    redact: bool = True
    relevance_weight: float = 0.5
    freshness_weight: float = 0.3
    importance_weight: float = 0.2
    similarity_weight: float = 0.0
    guard: bool = True
    conflicts: Any = ()
    conflict_groups: tuple[tuple[tuple[str, ...], ...], ...] = dataclasses.field(init=False, repr=False, compare=False)

    def __new__(cls, *args: object, **members: object) -> Self:
        # Before the generated initialiser, whose error for an unknown name would not be an InputError.
        for name in members:
            if name not in _MEMBERS:
                raise _unknown(name)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "max_results": _count("max_results", self.max_results),
            "max_tokens": _count("max_tokens", self.max_tokens),
            "redact": _flag("redact", self.redact),
            "guard": _flag("guard", self.guard),
            "conflicts": _groups(self.conflicts),
        }
        for name in ("relevance_weight", "freshness_weight", "importance_weight", "similarity_weight"):
            checked[name] = _decimal(name, getattr(self, name), "a finite number")
        for name in ("min_relevance", "dedupe"):
            share = checked[name] = _decimal(name, getattr(self, name), "a number from 0 to 1")
            if not 0 <= share <= 1:
                raise InputError(f"{name} is {shown(getattr(self, name))}; expected a number from 0 to 1")
        checked["recency_days"] = _decimal("recency_days", self.recency_days, "a finite number above 0")
        if not checked["recency_days"] > 0:
            raise InputError(f"recency_days is {shown(self.recency_days)}; expected a finite number above 0")
        checked["conflict_groups"] = _BUILT_IN_CONFLICTS + checked["conflicts"]
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_mapping(cls, members: Mapping[str, Any]) -> Self:
        """The settings that a mapping names; the others keep their defaults. An unknown name is an InputError."""
        if not isinstance(members, Mapping):
            raise InputError(f"settings is {shown(members)}; expected a MemorySelectSettings or a mapping")
        for name in members:
            if not isinstance(name, str):
                raise _unknown(name)
        return cls(**members)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """The settings in the table [memory-select] of a TOML file; a file that lacks the table is an InputError."""
        with open(path, "rb") as file:
            data = file.read()
        try:
            document = tomllib.loads(data.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise InputError(f"{os.fspath(path)}: not UTF-8 at byte {error.start}; expected a TOML file") from error
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"{os.fspath(path)}: {error}; expected a TOML file") from error
        if TABLE not in document:
            raise InputError(f"{os.fspath(path)}: there is no table [{TABLE}]")
        try:
            return cls.from_mapping(document[TABLE])
        except InputError as error:
            raise InputError(f"{os.fspath(path)}: [{TABLE}]: {error}") from None


_MEMBERS = tuple(field.name for field in dataclasses.fields(MemorySelectSettings) if field.init)
_DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in dataclasses.fields(MemorySelectSettings) if field.init
}


def _count(name: str, value: object) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} is {shown(value)}; expected an integer of 1 or more") from None
    if not 1 <= count <= _LARGEST_COUNT:
        raise InputError(f"{name} is {shown(value)}; expected an integer from 1 to 2**62")
    return count


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; expected true or false")
    return value


def _decimal(name: str, value: object, wanted: str) -> float:
    if isinstance(value, str):
        text = value.strip()
        if _DECIMAL.fullmatch(text):
            number = float(text)
        elif _NOT_FINITE.fullmatch(text):
            number = math.nan
        else:
            return float(_DEFAULTS[name])
    elif isinstance(value, numbers.Real | decimal.Decimal) and not isinstance(value, bool):
        try:
            number = float(value)
        except (OverflowError, ValueError):  # an integer beyond a float; a signalling NaN
            number = math.nan
    else:
        raise InputError(f"{name} is {shown(value)}; expected {wanted}, as a number or as text")
    if not math.isfinite(number):
        raise InputError(f"{name} is {shown(value)}; expected {wanted}")
    return number


def _groups(value: object) -> tuple[tuple[tuple[str, ...], ...], ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"conflicts is {shown(value)}; expected a list of groups")
    return tuple(_group(f"conflicts[{i}]", group) for i, group in enumerate(value))


def _group(where: str, value: object) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list | tuple) or len(value) < 2:
        raise InputError(f"{where} is {shown(value)}; expected a list of two or more alternatives")
    return tuple(_alternative(f"{where}[{i}]", alternative) for i, alternative in enumerate(value))


def _alternative(where: str, value: object) -> tuple[str, ...]:
    spellings = [value] if isinstance(value, str) else value
    if not isinstance(spellings, list | tuple) or not spellings:
        raise InputError(f"{where} is {shown(value)}; expected a word or a list of its spellings")
    for spelling in spellings:
        if not isinstance(spelling, str) or not words(spelling):
            raise InputError(f"{where} holds {shown(spelling)}; expected a text with a word that is no stop word")
    return tuple(map(str, spellings))
