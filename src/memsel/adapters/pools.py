"""Pools behind names: memories that stay on the server, changed and selected from by id, kept in a folder if wanted."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from ..files import entry_from, without_embedding
from ..pool import MemoryPool
from .serving import Limits
from .wire import Fault, RankMemories, RankSettings, Scores, moment, path_of, redacted, selection_config

__all__ = ["PoolRemoval", "PoolSelectRequest", "PoolSelection", "PoolState", "PoolUpsert", "Pools", "RemoveRequest"]

# Also the names of files, on any system.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)


class PoolUpsert(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Memories to put into a pool; one whose id is there already takes its place."""

    memories: RankMemories


class RemoveRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Ids to take out of a pool; those that are not there are no error."""

    ids: list[str | int]


class PoolSelectRequest(RankSettings, kw_only=True, forbid_unknown_fields=True):
    """A selection from a pool, with every setting."""

    scores: Scores = None


class PoolState(msgspec.Struct):
    """A pool by its name and its number of memories."""

    name: str
    rows: int


class PoolRemoval(msgspec.Struct):
    """How many of the ids were there."""

    removed: int


class PoolHit(msgspec.Struct):
    """A memory that was kept, with its scores; a score that is no finite number is null."""

    id: str | int
    rank: int
    score: float | None
    relevance: float | None
    recency: float | None
    importance: float | None
    content: Any


class PoolSelection(msgspec.Struct):
    """The kept, best first."""

    selected: list[PoolHit]
    total_tokens: int


class Pools:
    """The pools of one server. Every method raises Fault; any number of threads may call them."""

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._pools: dict[str, MemoryPool] = {}
        self._lock = threading.Lock()

    def create(self, name: str) -> tuple[bool, PoolState]:
        """Whether the pool is new, and its state; one that is there stays as it is."""
        if not _NAME.fullmatch(name):
            raise Fault(400, "invalid_name", "a pool's name is 1 to 64 of a-z, 0-9, _ and -, first a letter or digit")
        with self._lock:
            new = name not in self._pools
            if new:
                self._make_room()
                self._pools[name] = MemoryPool()
            return new, PoolState(name, len(self._pools[name]))

    def state(self, name: str) -> PoolState:
        return PoolState(name, len(self._pool(name)))

    def drop(self, name: str) -> PoolState:
        """Forget a pool; its file, if it has one, stays."""
        with self._lock:
            pool = self._pools.pop(name, None)
        if pool is None:
            raise _unknown()
        return PoolState(name, len(pool))

    def upsert(self, name: str, asked: PoolUpsert) -> PoolState:
        """All of the memories, or none where one of them is wrong."""
        pool = self._pool(name)
        if len(asked.memories) > self._limits.memories:
            count = len(asked.memories)
            raise Fault(
                413, "too_many_memories", f"memories has {count} rows; at most {self._limits.memories}", "$.memories"
            )
        now = time.time()
        try:
            places = [without_embedding(f"memories[{i}]", memory) for i, memory in enumerate(asked.memories)]
            entries = [entry_from(memory, place, now) for place, memory in places]
            ids = [entry.id for entry in entries]
            if len(pool) + len(set(ids)) - sum(pool.rows_of(list(set(ids))) >= 0) > self._limits.rows:
                raise Fault(413, "pool_full", f"a pool holds at most {self._limits.rows} memories", "$.memories")
            pool.upsert_arrays(
                ids,
                [float(entry.timestamp) for entry in entries],
                [float(entry.importance) for entry in entries],
                [max(1, len(str(entry.content)) // 4) for entry in entries],
                decay_factor=[float(entry.decay_factor) for entry in entries],
                last_access=[float(entry.last_access) for entry in entries],
                payloads=[entry.content for entry in entries],
            )
        except ValueError as error:
            raise Fault(400, "invalid_request", str(error), path_of(str(error))) from None
        return PoolState(name, len(pool))

    def remove(self, name: str, asked: RemoveRequest) -> PoolRemoval:
        pool = self._pool(name)
        removed = 0
        for id in asked.ids:
            try:
                pool.remove(id)
                removed += 1
            except KeyError:
                continue
        return PoolRemoval(removed)

    def select(self, name: str, asked: PoolSelectRequest) -> PoolSelection:
        pool = self._pool(name)
        by_id: dict[str | int, float] = {}
        for key, score in (asked.scores or {}).items():
            by_id[key] = score
            # The keys of a JSON object are text, so the id 7 of a memory finds its score under "7".
            if _INTEGER.fullmatch(key):
                by_id[int(key)] = score
        try:
            chosen: Any = pool.select(by_id, config=selection_config(asked), now=moment(asked.now))
        except ArithmeticError as error:
            raise Fault(400, "invalid_request", str(error), "$") from None
        except ValueError as error:
            raise Fault(400, "invalid_request", str(error), path_of(str(error))) from None
        hits = []
        numbers = zip(
            chosen.ids,
            chosen.scores.tolist(),
            chosen.relevance.tolist(),
            chosen.recency.tolist(),
            chosen.importance.tolist(),
            strict=True,
        )
        for rank, (id, score, relevance, recency, importance) in enumerate(numbers, 1):
            row = pool.get(id)
            # Who was removed since the selection has no content any more.
            content = None if row is None else redacted(row.payload)
            hits.append(PoolHit(id, rank, score, relevance, recency, importance, content))
        return PoolSelection(hits, chosen.tokens_used)

    def save(self, name: str) -> PoolState:
        """Write the pool to the folder, in place of what was saved under its name before."""
        pool = self._pool(name)
        try:
            pool.save(self._file(name))
        except OSError as error:
            raise Fault(500, "not_saved", f"the pool could not be written: {error.strerror}") from None
        return PoolState(name, len(pool))

    def load(self, name: str) -> PoolState:
        """Take the pool from the folder, in place of the one of its name."""
        if not _NAME.fullmatch(name):
            raise _unknown()
        file = self._file(name)
        try:
            pool = MemoryPool.load(file)
        except FileNotFoundError:
            raise Fault(404, "not_saved", "no pool was saved under this name") from None
        except InputError as error:
            # What is wrong, but not where on this machine.
            raise Fault(409, "damaged", str(error).replace(str(file), file.name)) from None
        except OSError as error:
            raise Fault(500, "not_loaded", f"the pool could not be read: {error.strerror}") from None
        with self._lock:
            if name not in self._pools:
                self._make_room()
            self._pools[name] = pool
        return PoolState(name, len(pool))

    def _pool(self, name: str) -> MemoryPool:
        pool = self._pools.get(name)
        if pool is None:
            raise _unknown()
        return pool

    def _make_room(self) -> None:
        if len(self._pools) >= self._limits.pools:
            raise Fault(409, "too_many_pools", f"this server holds at most {self._limits.pools} pools")

    def _file(self, name: str) -> Path:
        if self._folder is None:
            raise Fault(409, "no_folder", "this server was started without a data folder")
        return self._folder / f"{name}.npz"


def _unknown() -> Fault:
    return Fault(404, "no_such_pool", "there is no pool of this name")
