"""MemoryPool: the resident door, for many queries over memories that stay.

What users see of ``_pool``: ids, fields and payloads are checked here before anything changes, and writers take turns.
The numbers are to the bit those of ``select_arrays`` over the same rows in insertion order.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core, _pool, columns, poolfile
from ._gather import score_as_float
from .arrays import Selection, clock_seconds, one_or_each, run_on_threads
from .config import SelectionConfig, check_words, plain_config
from .errors import ColumnError, ColumnTypeError, InputError
from .tokens import checked_count

__all__ = ["MemoryPool", "PoolRow"]

_LARGEST_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PoolRow:
    """What a pool knows of one id.

    Attributes:
        id: text or int.
        row: the number of the row, given at insertion and never given again.
        timestamp, last_access: seconds since the epoch.
        importance, decay_factor: their product is the importance that scores.
        tokens: what the row costs of a budget.
        payload: the object that was given with the row, or None.
    """

    id: str | int
    row: int
    timestamp: float
    importance: float
    decay_factor: float
    last_access: float
    tokens: int
    payload: Any = None


class MemoryPool:
    """A million memories in memory, changed one at a time and selected from in microseconds.

    A pool holds, for each id (text or int; 7 and ``"7"`` are two), a timestamp, importance and decay factor, a last
    access and a number of tokens, and any object as payload. A selection is to the bit what ``select_arrays`` answers
    for the same rows in insertion order, with relevance 0.5 where no score is given. Tenants are pools of their own.

    Any number of threads may select while others change the pool: a selection sees one state of it, and no state is
    ever half a change. Changes take turns among themselves.

    Args:
        token_counter: counts the tokens of the entries that ``upsert`` is given: a callable ``str -> int`` or an object
            with ``count``. None stands for a quarter of the characters, at least one.
    """

    def __init__(self, *, token_counter: Any = None, _block_rows: int = 1024) -> None:
        self._packed = _pool.PackedPool(_block_rows)
        self._token_counter = token_counter
        self._writing = threading.Lock()

    # --- changes ------------------------------------------------------------------------------------------------------

    def upsert(self, entry: Any, *, payload: Any = None) -> int:
        """Insert a memory, or replace the one of the same id, which keeps its row and its position; the row number.

        ``entry``: a MemoryEntry or an object with its attributes ``id``, ``content``, ``timestamp``, ``importance``,
        ``decay_factor`` and ``last_access``. Its content is only counted; keep the entry as ``payload`` to have it
        back.

        Raises:
            ColumnTypeError: the id is neither text nor an int, or a field is no number; ColumnError for tokens below 0.
        """
        entry_id = _plain_id(entry.id, "id")
        timestamp = _number(entry.timestamp, "timestamp")
        importance = _number(entry.importance, "importance")
        decay_factor = _number(entry.decay_factor, "decay_factor")
        last_access = _number(entry.last_access, "last_access")
        text = str(entry.content)
        if self._token_counter is None:
            tokens = max(1, len(text) // 4)
        else:
            tokens = checked_count(self._token_counter, text, f"the memory {entry_id!r}")
        with self._writing:
            row = self._packed.put(entry_id, timestamp, importance, decay_factor, last_access, tokens)
            self._keep_payload(row, payload)
        return row

    def upsert_arrays(
        self,
        ids: Any,
        timestamp: Any,
        importance: Any,
        tokens: Any,
        *,
        decay_factor: Any = None,
        last_access: Any = None,
        payloads: Iterable[Any] | None = None,
    ) -> None:
        """Insert or replace many memories at once: all of them, or none where one of them is wrong.

        Args:
            ids: text or ints, a sequence, a NumPy array or an Arrow column, shape (n,). Of an id that occurs twice the
                last row counts, at the position of the first.
            timestamp, importance, tokens: as in ``select_arrays``, but importance without decay; shape (n,).
            decay_factor: 1 for all where None.
            last_access: the timestamp where None.
            payloads: one object a row, or None for none.

        Raises:
            ColumnError: a column has another length, shape or value than it may; ColumnTypeError for another type.
        """
        checked: dict[str, Any] = {
            "ids": _id_list(ids, "ids"),
            "timestamp": columns.timestamp_column(timestamp),
            "importance": _float64(columns.importance_column(importance)),
            "tokens": _tokens_column(tokens),
        }
        if decay_factor is not None:
            checked["decay_factor"] = _float64(columns.importance_column(decay_factor, "decay_factor"))
        if last_access is not None:
            checked["last_access"] = columns.timestamp_column(last_access, "last_access")
        kept = None if payloads is None else list(payloads)
        columns.check_lengths(**checked, payloads=kept)  # type: ignore[arg-type]
        numbers = np.empty(len(checked["ids"]), np.int64)
        with self._writing:
            self._packed.put_all(
                checked["ids"],
                checked["timestamp"],
                checked["importance"],
                checked.get("decay_factor"),
                checked.get("last_access"),
                checked["tokens"],
                numbers,
            )
            if kept is not None or self._packed.payloads:
                for row, payload in zip(numbers.tolist(), kept or [None] * len(numbers), strict=True):
                    self._keep_payload(row, payload)

    def update(
        self,
        id: str | int,
        *,
        importance: Any = None,
        decay_factor: Any = None,
        timestamp: Any = None,
        last_access: Any = None,
        tokens: Any = None,
    ) -> None:
        """Set fields of a memory; those that are None stay as they are.

        Raises:
            KeyError: there is no memory of this id.
            ColumnTypeError: a value is of another type than it may be; ColumnError for tokens below 0.
        """
        values = (
            timestamp if timestamp is None else _number(timestamp, "timestamp"),
            importance if importance is None else _number(importance, "importance"),
            decay_factor if decay_factor is None else _number(decay_factor, "decay_factor"),
            last_access if last_access is None else _number(last_access, "last_access"),
            tokens if tokens is None else _tokens(tokens),
        )
        entry_id = _plain_id(id, "id")
        with self._writing:
            if not self._packed.change(entry_id, *values):
                raise KeyError(id)

    def touch(self, id: str | int, *, now: float | None = None) -> None:
        """Set the last access of a memory to now, and nothing else.

        Raises:
            KeyError: there is no memory of this id.
        """
        self.update(id, last_access=time.time() if now is None else now)

    def remove(self, id: str | int) -> None:
        """Remove a memory. Its row number is not given again, and its id, once it is back, stands at the end.

        Raises:
            KeyError: there is no memory of this id.
        """
        entry_id = _plain_id(id, "id")
        with self._writing:
            if not self._packed.remove(entry_id):
                raise KeyError(id)

    # --- contents -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, id: object) -> bool:
        return self._packed.row(_plain_id(id, "id")) >= 0

    def __iter__(self) -> Iterator[str | int]:
        """The ids in insertion order, as they are when the iteration begins."""
        state = self._packed.state()
        return iter(state.ids(_row_numbers(state)))

    def get(self, id: str | int, default: Any = None) -> Any:
        """The ``PoolRow`` of an id, or ``default``."""
        entry_id = _plain_id(id, "id")
        record = self._packed.record(entry_id)
        return default if record is None else PoolRow(entry_id, *record, self._packed.payloads.get(record[0]))

    def rows_of(self, ids: Any) -> npt.NDArray[np.int64]:
        """The row number of each id, or -1 where there is none: int64, shape (n,)."""
        checked = _id_list(ids, "ids")
        rows = np.empty(len(checked), np.int64)
        self._packed.rows(checked, rows)
        return rows

    def __repr__(self) -> str:
        return f"<MemoryPool of {len(self)} memories>"

    # --- queries ------------------------------------------------------------------------------------------------------

    def select(
        self,
        similarity: Any = None,
        *,
        rows: Any = None,
        candidates: Any = None,
        config: SelectionConfig | None = None,
        now: float | None = None,
        outcomes: bool = False,
    ) -> Selection:
        """The best memories by relevance, recency and importance that fit a token budget.

        Args:
            similarity: ``{id: score}``, ``(ids, scores)`` or, with ``rows``, scores; memories without one have
                relevance 0.5. Ids and rows that are not there are ignored; of one that occurs twice the last score
                counts.
            rows: the row numbers that the scores belong to, integers, shape (n,).
            candidates: ids; only these may be chosen. None for all.
            config: weights and limits; ``SelectionConfig()`` when None. ``recency_from="accessed"`` counts from the
                last access and reads every row, as do ``outcomes`` and ``candidates`` every candidate.
            now: seconds since the epoch; the clock (``time.time``) when None.
            outcomes: also say of every memory, or every candidate, what became of it, in insertion order.

        Returns:
            a Selection whose ``indices`` are row numbers and whose ``ids`` are their ids.

        Raises:
            ColumnError: a score, id or row is not what it may be; ColumnTypeError for another type.
            OverflowError: a timestamp so far ahead that its recency is no float64; the message names the id.
            ZeroDivisionError: the half-life is 0 and there are memories.
        """
        if now is None:
            now = time.time()
        (query,) = self._queries([similarity], None if rows is None else [rows], candidates)
        settings = _settings(SelectionConfig() if config is None else config, now, query.living)
        codes = np.empty(query.living, np.uint8) if outcomes else None
        selection = query.select(settings, Selection, codes)
        if selection is None:
            raise OverflowError(_overflow_message(query.overflow))
        return selection

    def select_batch(
        self,
        similarities: Sequence[Any],
        *,
        rows: Sequence[Any] | None = None,
        candidates: Any = None,
        config: SelectionConfig | Sequence[SelectionConfig] | None = None,
        now: float | Sequence[float] | None = None,
        outcomes: bool = False,
        threads: int = 1,
    ) -> list[Selection]:
        """One selection a query, all from one state of the pool; each is what ``select`` gives for it alone.

        Args:
            similarities: one a query, each as in ``select``.
            rows: with scores only, the row numbers of each query.
            candidates: ids, the same for all queries.
            config, now: one for all queries, or a sequence of one a query.
            outcomes: as in ``select``.
            threads: how many threads share the queries; the answers do not depend on it.

        Raises:
            as ``select``; an OverflowError also names the query, the first that fails, and nothing is returned.
        """
        if threads < 1:
            raise ValueError(f"threads is {threads}; expected 1 or more")
        if now is None:
            now = time.time()
        given = list(similarities)
        if rows is not None and len(rows) != len(given):
            raise ColumnError(f"rows has {len(rows)} columns for {len(given)} queries; expected one a query")
        queries = self._queries(given, None if rows is None else list(rows), candidates)
        if not queries:
            return []
        configs = one_or_each(config, len(queries), "config", (SelectionConfig, type(None)))
        clocks = one_or_each(now, len(queries), "now", (int, float))
        living = queries[0].living
        settings = [
            _settings(
                SelectionConfig() if configs[i % len(configs)] is None else configs[i % len(configs)],
                clocks[i % len(clocks)],
                living,
            )
            for i in range(max(len(configs), len(clocks)))
        ]
        codes = np.empty((len(queries), living), np.uint8) if outcomes else None
        batch = _pool.Batch(queries, settings, None if codes is None else codes.reshape(-1))
        run_on_threads(batch, min(threads, len(queries)))
        failed = batch.failure()
        if failed is not None:
            raise OverflowError(f"query {failed}: {_overflow_message(queries[failed].overflow)}")
        return batch.selections(Selection, codes)

    def _queries(self, similarities: list[Any], rows: list[Any] | None, candidates: Any) -> list[_pool.Query]:
        given = [_similarity(one, None if rows is None else rows[number]) for number, one in enumerate(similarities)]
        restricted = None if candidates is None else _id_list(candidates, "candidates")
        try:
            return _pool.queries(self._packed, given, restricted)
        except (_pool.UnreadableId, _pool.UnreadableScore):
            return _pool.queries(self._packed, [self._readable(one) for one in given], restricted)

    def _readable(self, similarity: Any) -> Any:
        """A dict whose ids and scores are not all plain, made plain; scores of unknown ids are not looked at."""
        if type(similarity) is tuple and type(similarity[0]) is not list:
            return _scored_rows(*similarity)
        if type(similarity) is not dict:
            return similarity
        plain = {}
        for given_id, score in similarity.items():
            entry_id = _plain_id(given_id, "similarity")
            if self._packed.row(entry_id) >= 0:
                plain[entry_id] = score_as_float(score, entry_id)
        return plain

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write one state of the pool to a file, or leave the file as it was; how many payloads were not JSON.

        The file is an uncompressed ``.npz``, which NumPy reads by itself; docs/pool_format.md describes it. It is
        written beside its place, forced to the disk and then renamed. Payloads that JSON gives back as they were are
        saved, others are left out.

        Raises:
            OSError: the file cannot be written.
        """
        with self._writing:
            # Nobody changes a payload between the state and its payloads.
            state = self._packed.state()
            payloads = self._packed.payloads.copy()
        rows = _row_numbers(state)
        timestamp, importance, decay_factor, last_access = np.empty((4, len(rows)))
        tokens = np.empty(len(rows), np.int64)
        state.values(rows, timestamp, importance, decay_factor, last_access, tokens)
        content = poolfile.Content(
            ids=state.ids(rows),
            rows=rows,
            timestamp=timestamp,
            importance=importance,
            decay_factor=decay_factor,
            last_access=last_access,
            tokens=tokens,
            next_row=state.next_row,
            payloads=payloads,
        )
        return poolfile.write(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, token_counter: Any = None) -> MemoryPool:
        """The pool that a file holds; row numbers and positions are those it was saved with.

        Raises:
            InputError: the file is damaged, of a newer version, or no saved pool; the message names what was found.
            OSError: the file cannot be read.
        """
        content = poolfile.read(path)
        pool = cls(token_counter=token_counter)
        whole = pool._packed.load(
            content.ids,
            content.rows,
            content.timestamp,
            content.importance,
            content.decay_factor,
            content.last_access,
            content.tokens,
            content.next_row,
        )
        if not whole:
            raise InputError(f"{os.fspath(path)} holds an id twice; it is no saved pool")
        pool._packed.payloads.update(content.payloads)
        return pool

    def _keep_payload(self, row: int, payload: Any) -> None:
        if payload is not None:
            self._packed.payloads[row] = payload
        elif self._packed.payloads:
            self._packed.payloads.pop(row, None)


def _plain_id(given: Any, name: str) -> str | int:
    """The id as exactly str or exactly int."""
    if type(given) is str or type(given) is int:
        return given
    if isinstance(given, str):
        return str.__str__(given)
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return int.__index__(given) if isinstance(given, int) else int(given)
    raise ColumnTypeError(f"{name} is {given!r}, a {type(given).__name__}; expected text or an int")


def _id_list(ids: Any, name: str) -> list[Any]:
    """A list of our own of exact str and int, from any sequence, array or Arrow column."""
    if isinstance(ids, (str, bytes)):
        raise ColumnTypeError(f"{name} is a {type(ids).__name__}; expected a column of ids")
    if hasattr(ids, "to_pylist"):
        listed = ids.to_pylist()
    elif isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            raise ColumnError(f"{name} has shape {ids.shape}; expected one dimension, an id a row")
        listed = ids.tolist()
    else:
        try:
            listed = list(ids)
        except TypeError:
            raise ColumnTypeError(f"{name} is a {type(ids).__name__}; expected a column of ids") from None
    if not set(map(type, listed)) <= {str, int}:
        listed = [_plain_id(given, f"{name}[{row}]") for row, given in enumerate(listed)]
    return listed


def _row_numbers(state: _pool.Query) -> npt.NDArray[np.int64]:
    """The numbers of a state's living rows, rising."""
    rows = np.empty(state.living, np.int64)
    state.row_numbers(rows)
    return rows


def _number(given: Any, name: str) -> float:
    if type(given) is float:
        return given
    try:
        return score_as_float(given, name)
    except TypeError:
        raise ColumnTypeError(f"{name} is {given!r}, a {type(given).__name__}; expected a number") from None


def _tokens(given: Any) -> int:
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise ColumnTypeError(f"tokens is {given!r}, a {type(given).__name__}; expected an integer")
    tokens = given.__index__()
    if not 0 <= tokens <= _LARGEST_INT64:
        raise ColumnError(f"tokens is {tokens}; expected 0 to {_LARGEST_INT64}")
    return tokens


def _tokens_column(given: Any) -> npt.NDArray[np.int64]:
    # A copy, which nobody writes to between this check and the change.
    tokens = np.array(columns.tokens_column(given))
    if len(tokens) and tokens.min() < 0:
        row = int((tokens < 0).argmax())
        raise columns.negative_tokens_error(row, int(tokens[row]))
    return tokens


def _float64(column: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return column.astype(np.float64, copy=False)


def _similarity(given: Any, rows: Any) -> Any:
    """Scores as the kernel reads them: a dict, a list of ids or int64 rows beside float64 scores, or None."""
    if rows is not None:
        # Arrays are looked at by the kernel, which reads most of them as they are.
        if type(rows) is np.ndarray and type(given) is np.ndarray and rows.dtype.kind + given.dtype.kind == "if":
            return rows, given
        return _scored_rows(rows, given)
    if given is None or type(given) is dict:
        return given
    if isinstance(given, tuple) and len(given) == 2:
        ids = _id_list(given[0], "similarity ids")
        scores = _float64(columns.relevance_column(given[1], "similarity"))
        columns.check_lengths(ids=ids, similarity=scores)  # type: ignore[arg-type]
        return ids, scores
    if hasattr(given, "keys") and hasattr(given, "__getitem__"):
        return {key: given[key] for key in given.keys()}  # noqa: SIM118 - a mapping need not iterate over its keys
    raise ColumnTypeError(
        f"similarity is a {type(given).__name__}; expected a dict, (ids, scores), or scores beside rows="
    )


def _scored_rows(rows: Any, scores: Any) -> tuple[Any, Any]:
    """Row numbers and scores, converted and checked."""
    numbers = columns.tokens_column(rows, "rows")
    floats = _float64(columns.relevance_column(scores, "similarity"))
    columns.check_lengths(rows=numbers, similarity=floats)
    return numbers, floats


def _settings(config: Any, now: Any, living: int) -> _core.Plan:
    check_words(config)
    settings = _core.plan(config, now)
    if settings is None:
        if living == 0:
            settings = _core.plan(SelectionConfig(), 0.0)
        else:
            settings = _core.plan(plain_config(config), clock_seconds(now))
    assert settings is not None
    return settings


def _overflow_message(overflow: tuple[Any, float] | None) -> str:
    assert overflow is not None
    entry_id, timestamp = overflow
    message = f"the time of {entry_id!r} is {timestamp!r}, too far ahead of the clock for its recency to be a float"
    if abs(timestamp) > 1e11:
        message += "; it looks like milliseconds, expected seconds since the epoch"
    return message
