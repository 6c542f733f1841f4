"""Random populations of entries and random calls on them, hostile values among them, for parity tests.

Everything random is drawn as plain data from a seeded generator and then done to each library alike, so that memsel's
entries and zerda's stay in step through edits, copies and reuse.
"""

from __future__ import annotations

import collections
import copy
import math
import pickle
import random
import types
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

NOW = 1_700_000_000.0
_INF = math.inf
_NAN = math.nan
MOODS = ("tame", "ties", "wild")


@contextmanager
def clock_at(now: float) -> Any:
    """``time.time`` stands at ``now``."""
    with mock.patch("time.time", lambda: now):
        yield


def random_size(rng: random.Random, largest: int) -> int:
    """Log-uniform from 0 to ``largest``."""
    return int(math.exp(rng.uniform(0.0, math.log(largest + 1.0)))) - (rng.random() < 0.1)


def random_timestamp(rng: random.Random, mood: str) -> Any:
    if mood == "ties":
        return NOW - rng.choice((0.0, 3600.0, 86400.0))
    if mood == "wild":
        return rng.choice(
            (
                _NAN, _INF, -_INF, 0, 0.0, -1e300, 1e-300, True, int(NOW), NOW + rng.uniform(0.0, 86400.0 * 30),
                NOW - rng.uniform(0.0, 1e10), NOW - rng.uniform(0.0, 1e6), -5e-324, 2**53, NOW,
            )
        )  # fmt: skip
    if rng.random() < 0.02:
        return NOW + rng.uniform(0.0, 86400.0 * 3)
    timestamp = NOW - rng.expovariate(1 / (86400.0 * 7))
    return int(timestamp) if rng.random() < 0.3 else timestamp


def random_importance(rng: random.Random, mood: str) -> tuple[Any, Any]:
    """Importance and decay factor."""
    if mood == "ties":
        return rng.choice((0.25, 0.5, 0.75)), 1.0
    if mood == "wild":
        importances = (0, 1, True, 0.0, -0.0, 1.0, 5e-324, _NAN, _INF, -_INF, 7, -3, 1e308, -1e308)
        return (
            rng.choice((*importances, rng.random(), rng.random())),
            rng.choice((1.0, 1, 0.1, _NAN, _INF, -1.0, 0, rng.random(), rng.random())),
        )
    return rng.random(), rng.choice((1.0, 1.0, rng.uniform(0.1, 1.0)))


def random_content(rng: random.Random) -> Any:
    length = int(math.exp(rng.uniform(0.0, 7.0))) - 1
    if rng.random() < 0.1:
        return rng.choice((None, {"input": "x" * length}, ["a"] * (length % 50), length, b"abc" * (length % 40)))
    return "x" * length


def random_id(rng: random.Random, mood: str) -> Any:
    if mood == "wild" and rng.random() < 0.1:
        return rng.choice((7, "7", 1, True, 1.0, None, "", ("a", 1), b"id", -1, 2**64))
    return f"id{rng.randrange(10**6)}"


def random_score(rng: random.Random, mood: str) -> Any:
    if mood == "ties":
        return rng.choice((0.2, 0.5, 0.9))
    if mood == "wild":
        return rng.choice((_NAN, _INF, -_INF, 0, 1, True, -0.0, 0.0, 1e308, -1e308, 5e-324, rng.uniform(-2.0, 2.0), 3))
    return rng.random()


def random_config(rng: random.Random, rows: int, mood: str) -> dict[str, Any]:
    a, b = sorted((rng.random(), rng.random()))
    config: dict[str, Any] = {
        "relevance_weight": a,
        "recency_weight": b - a,
        "importance_weight": 1.0 - b,
        "recency_half_life_hours": rng.choice((24.0, 1.0, 720, 24 * 3650.0, 0.3)),
        "min_composite_score": rng.choice((0.1, 0.0, 0.3, 0.5)),
        "top_k": rng.choice((10, 1, 3, rows, rows + 5, rng.randint(0, rows + 1), 0)),
        "token_budget": rng.choice((3000, 0, 1, 25, 100, 500, 20000, rows * 3, 10**9)),
    }
    if rng.random() < 0.2:
        config.update(relevance_weight=1.5, recency_weight=-0.8, importance_weight=0.3)
    if rng.random() < 0.1:
        config.update(relevance_weight=0, recency_weight=1, importance_weight=0)
    if mood == "wild":
        config["recency_half_life_hours"] = rng.choice((24.0, 24.0, -24.0, _INF, 5e-324, _NAN, 1e-3, 1e300, 1e12, 0))
        config["min_composite_score"] = rng.choice((0.1, 0, -_INF, _INF, _NAN, -1.0, -1e308, 1))
        config["top_k"] = rng.choice((10, 2.5, _NAN, _INF, -1, True, False, rows, 2**70, -_INF))
        config["token_budget"] = rng.choice((3000, 10.5, _NAN, _INF, -1, True, 2**70, 0, -_INF, 1e300))
    return config


# --- populations -----------------------------------------------------------------------------------------------------

# What is done to an entry: a function of the entry and of another one of the same population.
Edit = Callable[[Any, Any], Any]


def _set(name: str, value: Any) -> Edit:
    return lambda entry, other: setattr(entry, name, value)


def _set_id_in_place(value: Any) -> Edit:
    return lambda entry, other: entry.metadata.__setitem__("id", value)


def _share_metadata(entry: Any, other: Any) -> None:
    entry.metadata = other.metadata


def _copied(entry: Any, other: Any) -> Any:
    return copy.copy(entry)


def _deeply_copied(entry: Any, other: Any) -> Any:
    return copy.deepcopy(entry)


def _pickled(entry: Any, other: Any) -> Any:
    return pickle.loads(pickle.dumps(entry))


class IdOf(Mapping):  # type: ignore[type-arg]
    """Metadata that is no dict and answers with an id of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getitem__(self, key: str) -> Any:
        return {"id": self.value}[key]

    def __iter__(self) -> Any:
        return iter(("id",))

    def __len__(self) -> int:
        return 1


class LoudDict(dict):  # type: ignore[type-arg]
    """A dict whose ``get`` answers otherwise than its items say."""

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        return found if found is default or not isinstance(found, str) else found + "!"


def random_edit(rng: random.Random, mood: str) -> Edit:
    """One edit; some replace the entry by what they return."""
    new_id = random_id(rng, mood)
    importance, decay = random_importance(rng, mood)
    return rng.choice(
        (
            _set("timestamp", random_timestamp(rng, mood)),
            _set("importance", importance),
            _set("decay_factor", decay),
            _set("content", random_content(rng)),
            _set_id_in_place(new_id),
            _set_id_in_place(new_id),
            lambda entry, other: entry.metadata.pop("id", None),
            _set("metadata", {"id": new_id, "also": 1}),
            lambda entry, other: setattr(entry, "metadata", {}),
            lambda entry, other: setattr(entry, "metadata", LoudDict(id=new_id)),
            lambda entry, other: setattr(entry, "metadata", collections.OrderedDict(id=new_id)),
            lambda entry, other: setattr(entry, "metadata", IdOf(new_id)),
            lambda entry, other: entry.update_metadata("id", new_id),
            lambda entry, other: entry.merge_metadata({"id": new_id}),
            lambda entry, other: entry.access(),
            _share_metadata,
            _share_metadata,
            _copied,
            _deeply_copied,
            _pickled,
        )
    )


@dataclass
class Population:
    """The same entries in several libraries; ``held`` are metadata dicts that somebody else keeps, at equal places."""

    mood: str
    entries: dict[str, list[Any]]
    held: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def random(cls, rng: random.Random, libraries: Mapping[str, Any], rows: int) -> Population:
        mood = rng.choice(MOODS)
        population = cls(mood, {name: [] for name in libraries}, {name: [] for name in libraries})
        for _ in range(rows):
            content = random_content(rng)
            timestamp = random_timestamp(rng, mood)
            importance, decay = random_importance(rng, mood)
            entry_id = random_id(rng, mood)
            named = rng.random() < 0.9
            for name, library in libraries.items():
                entry = library.MemoryEntry(
                    content,
                    timestamp,
                    library.MemoryType.SHORT_TERM,
                    metadata={"id": entry_id} if named else {},
                    last_access=NOW,
                )
                entry.importance = importance
                entry.decay_factor = decay
                population.entries[name].append(entry)
        return population

    def __len__(self) -> int:
        return len(next(iter(self.entries.values())))

    def edit(self, rng: random.Random, times: int) -> None:
        """Edit entries, hold and edit metadata dicts, and let go of them, in every library alike."""
        rows = len(self)
        if rows == 0:
            return
        for _ in range(times):
            row, other = rng.randrange(rows), rng.randrange(rows)
            act = rng.random()
            if act < 0.7:
                edit = random_edit(rng, self.mood)
                for entries in self.entries.values():
                    try:
                        replaced = edit(entries[row], entries[other])
                    except (TypeError, AttributeError, OverflowError):
                        continue  # such metadata cannot be edited in any of the libraries
                    if type(replaced) is type(entries[row]):
                        entries[row] = replaced
            elif act < 0.85:
                for name, entries in self.entries.items():
                    self.held[name].append(entries[row].metadata)
            elif act < 0.95:
                new_id = random_id(rng, self.mood)
                place = rng.randrange(10**6)
                for held in self.held.values():
                    if held and isinstance(held[place % len(held)], dict):
                        held[place % len(held)]["id"] = new_id
            else:
                for held in self.held.values():
                    held.clear()


# --- calls -----------------------------------------------------------------------------------------------------------


@dataclass
class Call:
    """The arguments of one selection: which rows of a population, the scores, the config's fields, the clock."""

    rows: list[int]
    scores: Any
    config: dict[str, Any]
    now: float
    container: Callable[[list[Any]], Any]

    def select(self, library: Any, entries: list[Any], method: str = "select") -> Any:
        """What a library's selector answers about the rows of ``entries``."""
        selector = library.MemorySelector(config_of(self.config, library))
        candidates = self.container([entries[row] for row in self.rows])
        return getattr(selector, method)("query", candidates, self.scores)


def random_scores(rng: random.Random, ids: list[Any], mood: str) -> Any:
    """Scores for all, some or none of the ids: a dict in their order or not, with other keys, or another mapping."""
    share = rng.choice((0.0, 0.02, 0.5, 1.0, 1.0))
    if share == 0.0 and rng.random() < 0.5:
        return None
    items = [(one, random_score(rng, mood)) for one in ids if rng.random() < share]
    act = rng.random()
    if act < 0.3:
        rng.shuffle(items)
    elif act < 0.5:
        for _ in range(rng.randint(1, 5)):
            items.insert(rng.randrange(len(items) + 1), (f"other{rng.randrange(1000)}", random_score(rng, mood)))
    elif act < 0.6:
        # Equal keys, but other objects.
        items = [("".join(key) if type(key) is str else key, score) for key, score in items]
    scores: Any = dict(items)
    act = rng.random()
    if act < 0.1:
        kinds = (collections.UserDict, types.MappingProxyType, collections.OrderedDict, collections.ChainMap)
        return rng.choice(kinds)(scores)
    if act < 0.12:
        return collections.defaultdict(lambda: 0.125, scores)
    return scores


def random_call(rng: random.Random, population: Population, ids: list[Any]) -> Call:
    """``ids``: the ids of the population's entries as they stand."""
    every = range(len(population))
    act = rng.random()
    if act < 0.5:
        rows = list(every)
    elif act < 0.8:
        share = rng.random()
        rows = [row for row in every if rng.random() < share]
    else:
        rows = [rng.choice(every) for _ in every]  # the same entry several times
    if rng.random() < 0.3:
        rng.shuffle(rows)
    mood = population.mood if rng.random() < 0.8 else rng.choice(MOODS)
    return Call(
        rows,
        random_scores(rng, [ids[row] for row in rows], mood),
        random_config(rng, len(rows), mood),
        rng.choice((NOW, NOW, NOW + rng.uniform(0.0, 1e5), int(NOW) + 1)),
        rng.choice((list, list, list, tuple, collections.deque)),
    )


def config_of(fields: Mapping[str, Any], library: Any) -> Any:
    """A library's config with fields assigned after it was made, so that no check stands in the way."""
    config = library.SelectionConfig()
    for name, value in fields.items():
        setattr(config, name, value)
    return config


def answer(select: Callable[[], Any], place_of: Mapping[int, int]) -> Any:
    """What a selection gives, comparable to the last bit: the places and ids of the chosen and their four scores.

    ``place_of`` says where an entry (by identity) stands in its population. An exception is its type's name.
    """
    try:
        rows = select()
    except Exception as error:
        return type(error).__name__
    return [
        (
            place_of[id(row.entry)],
            repr(row.entry.id),
            float(row.relevance_score).hex(),
            float(row.recency_score).hex(),
            float(row.importance_score).hex(),
            float(row.composite_score).hex(),
        )
        for row in rows
    ]
