"""The array door: selections over columns, one query or many, without an object a candidate.

Columns come in as NumPy arrays or anything that ``columns`` can read; the kernel ranks and packs them. The numbers are
to the bit those that the object door gives for the same rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core, columns
from .config import SelectionConfig, check_words, plain_config
from .errors import ColumnError

__all__ = ["Selection", "select_arrays", "select_batch"]

# How long the thread that called select_batch works before it looks whether it was interrupted.
_SECONDS_BETWEEN_SIGNALS = 0.02


class Selection(_core.PackedSelection):
    """The rows chosen for one query.

    Attributes:
        indices: rows of the columns, best first; int64.
        scores: their composite scores; float64, as are the three parts.
        relevance, recency, importance: the parts, unweighted.
        tokens_used: their tokens, summed; 0 without a column of tokens.
        ids: the ids of the rows, where a pool was selected from; otherwise None.
        outcomes: one ``Outcome`` code a candidate (uint8), or None where they were not asked for.

    The arrays are made when they are first asked for, belong to the caller and share no memory with the columns.
    """

    def __repr__(self) -> str:
        return (
            f"Selection(indices={self.indices.tolist()}, scores={self.scores.tolist()}, tokens_used={self.tokens_used})"
        )


def select_arrays(
    relevance: Any,
    timestamp: Any,
    importance: Any,
    tokens: Any = None,
    *,
    config: SelectionConfig | None = None,
    now: float | None = None,
    outcomes: bool = False,
) -> Selection:
    """The best rows by relevance, recency and importance that fit a token budget.

    Args:
        relevance: similarity to the query, shape (n,); float64 and float32 are read in place, other numbers converted.
            A null is 0.5.
        timestamp: seconds since the epoch, float64 or integers, or datetimes of any unit, shape (n,). A null or NaT
            leaves the row out.
        importance: the effective importance, decay applied, shape (n,). A null leaves the row out.
        tokens: tokens of each row, integers of 0 or more, shape (n,); None for no token budget.
        config: weights and limits; ``SelectionConfig()`` when None.
        now: seconds since the epoch; the clock (``time.time``) when None.
        outcomes: also say of every row what became of it.

    Columns are NumPy arrays or anything with ``__array__``, a buffer, DLPack or the Arrow C interface; contiguous
    native ones are read without a copy. They should not be written to while the call runs: each row is then ranked by
    some value that it had.

    Raises:
        ColumnError: a column has another length, shape or value than it may; ColumnTypeError for another type.
        OverflowError: a timestamp so far ahead that its recency is no float64; the message names the row.
        ZeroDivisionError: the half-life is 0 and there are rows.
        ValueError: the config counts recency from the last access. Pass that column as ``timestamp`` instead.
    """
    if now is None:
        now = time.time()
    held = _held(relevance, timestamp, importance, tokens)
    settings = _settings(config, now, held.has_tokens, held.rows)
    codes = np.empty(held.rows, np.uint8) if outcomes else None
    try:
        return _core.select_columns(held, settings, Selection, codes)
    except _core.NegativeTokensAt as negative:
        row = negative.args[0]
        raise columns.negative_tokens_error(row, held.tokens_at(row)) from None
    except _core.OverflowAt as overflow:
        row = overflow.args[0]
        raise OverflowError(_overflow_message(held.timestamp_at(row), row)) from None


def select_batch(
    relevance: Any,
    timestamp: Any,
    importance: Any,
    tokens: Any = None,
    *,
    offsets: Any = None,
    config: SelectionConfig | Sequence[SelectionConfig] | None = None,
    now: float | Sequence[float] | None = None,
    outcomes: bool = False,
    threads: int = 1,
) -> list[Selection]:
    """One selection a query, for many queries in one call; each is what ``select_arrays`` gives for its rows.

    Args:
        relevance: with ``offsets``, the similarities of all queries' candidates, shape (n,). Otherwise every query
            chooses among all rows: shape (q, n), or ``(indptr, rows, scores)`` with the scores of query i at
            ``indptr[i]:indptr[i+1]`` and 0.5 for rows not named (of a row named twice the last score counts).
        timestamp, importance, tokens: shape (n,), as in ``select_arrays``.
        offsets: integers, shape (q + 1,): the candidates of query i are the rows ``offsets[i]:offsets[i+1]``, and its
            indices count from 0 there.
        config, now: one for all queries, or a sequence of one a query.
        outcomes: also say of every candidate of every query what became of it.
        threads: how many threads share the queries; the answers do not depend on it.

    Raises:
        as ``select_arrays``; the message also names the query. The first query that fails is the one named, and nothing
        is returned of the others.
    """
    if threads < 1:
        raise ValueError(f"threads is {threads}; expected 1 or more")
    if now is None:
        now = time.time()
    sparse = matrix = starts = None
    if offsets is not None:
        held = _held(relevance, timestamp, importance, tokens)
        starts = columns.offsets_column(offsets, held.rows)
        queries = len(starts) - 1
    else:
        held = _held(None, timestamp, importance, tokens, relevance_apart=True)
        if isinstance(relevance, tuple):
            if len(relevance) != 3:
                raise ColumnError(f"relevance is a tuple of {len(relevance)}; expected (indptr, rows, scores)")
            sparse = columns.sparse_scores(*relevance, held.rows)
            queries = len(sparse[0]) - 1
        else:
            scores = columns.relevance_matrix(relevance, held.rows)
            queries = len(scores)
            matrix = _core.score_matrix(scores.reshape(-1))
    if starts is None:
        _refuse_negative_tokens(held)
    configs = one_or_each(config, queries, "config", (SelectionConfig, type(None)))
    clocks = one_or_each(now, queries, "now", (int, float))
    shared = len(configs) == len(clocks) == 1
    settings = []
    refused: Exception | None = None
    if shared:
        settings.append(_settings(configs[0], clocks[0], held.has_tokens, held.rows and queries))
    else:
        for query in range(queries):
            rows = held.rows if starts is None else int(starts[query + 1] - starts[query])
            try:
                settings.append(
                    _settings(configs[query % len(configs)], clocks[query % len(clocks)], held.has_tokens, rows)
                )
            except (ArithmeticError, TypeError, ValueError) as error:
                # A query before this one may fail for its rows, and is then the one to name.
                refused = type(error)(f"query {query}: {error}")
                break
    able = queries if shared else len(settings)
    codes = np.empty(held.rows * (queries if starts is None else 1), np.uint8) if outcomes else None
    batch = _core.Batch(able, held, settings, starts, matrix, sparse, codes)
    run_on_threads(batch, min(threads, able))
    failure = batch.failure()
    if failure is not None:
        query, row, has_negative_tokens = failure
        first = 0 if starts is None else int(starts[query])
        if has_negative_tokens:
            raise columns.negative_tokens_error(first + row, held.tokens_at(first + row))
        raise OverflowError(f"query {query}: {_overflow_message(held.timestamp_at(first + row), row)}")
    if refused is not None:
        raise refused
    parts: list[Any] | None = None
    if codes is not None and starts is not None:
        parts = np.split(codes, starts[1:-1])[:queries]
    elif codes is not None:
        parts = list(codes.reshape(queries, held.rows))
    return batch.selections(Selection, parts)


def run_on_threads(batch: Any, threads: int) -> None:
    """Do a batch's queries with this thread and others, which have all ended when this returns or raises."""
    errors: list[BaseException] = []

    def help_out() -> None:
        try:
            batch.run()
        except BaseException as error:
            errors.append(error)
            batch.stop()

    others: list[threading.Thread] = []
    try:
        for _ in range(threads - 1):
            other = threading.Thread(target=help_out, daemon=True)
            try:
                other.start()
            except RuntimeError:
                break  # the system gives no more threads; those there are do the work
            others.append(other)
        while not batch.run(_SECONDS_BETWEEN_SIGNALS):
            pass
    except BaseException:
        batch.stop()
        raise
    finally:
        for other in others:
            other.join()
    if errors:
        raise errors[0]


def _held(
    relevance: Any, timestamp: Any, importance: Any, tokens: Any, *, relevance_apart: bool = False
) -> _core.Buffers:
    """The columns where they lie if the kernel can read them there, else converted."""
    if relevance is None and not relevance_apart:
        columns.relevance_column(None)  # raises: the kernel takes None for scores that come another way
    held = _core.buffers(relevance, timestamp, importance, tokens)
    if held is not None:
        return held
    arrays: dict[str, npt.NDArray[Any]] = {}
    if relevance is not None:
        arrays["relevance"] = columns.relevance_column(relevance)
    arrays["timestamp"] = columns.timestamp_column(timestamp)
    arrays["importance"] = columns.importance_column(importance)
    if tokens is not None:
        arrays["tokens"] = columns.tokens_column(tokens)
    columns.check_lengths(**arrays)
    held = _core.buffers(arrays.get("relevance"), arrays["timestamp"], arrays["importance"], arrays.get("tokens"))
    if held is None:
        raise ColumnError("a column changed while it was read")
    return held


def _refuse_negative_tokens(held: _core.Buffers) -> None:
    row = _core.negative_tokens(held)
    if row >= 0:
        raise columns.negative_tokens_error(row, held.tokens_at(row))


def _settings(config: Any, now: Any, has_tokens: bool, rows: int) -> _core.Plan:
    """A config (None: the default one) and a clock as C numbers, checked unless there are no rows."""
    if config is None:
        config = SelectionConfig()
    if check_words(config)[1]:
        raise ValueError(
            "recency_from is 'accessed', but columns have one time a row; pass the last access as the timestamp column"
        )
    settings = _core.plan(config, now, has_tokens)
    if settings is None:
        plain, clock = (SelectionConfig(), 0.0) if rows == 0 else (plain_config(config), clock_seconds(now))
        settings = _core.plan(plain, clock, has_tokens)
        assert settings is not None
    return settings


def clock_seconds(now: Any) -> float:
    """A caller's clock as a float; TypeError for what is no number."""
    if isinstance(now, np.ndarray) and now.ndim == 0:
        now = now[()]
    if not isinstance(now, Real):
        raise TypeError(f"now is {now!r}; expected seconds since the epoch")
    return float(now)


def one_or_each(given: Any, queries: int, name: str, one: tuple[type, ...]) -> list[Any]:
    """A setting of a batch as a list of one for all queries, or of one a query; ``one``: the types of a single one."""
    if isinstance(given, one) or not (isinstance(given, Sequence) or np.ndim(given) > 0) or isinstance(given, str):
        return [given]
    each = given.tolist() if hasattr(given, "tolist") else list(given)
    if len(each) != queries:
        raise ValueError(f"{name} has {len(each)} values for {queries} queries; expected one, or one a query")
    return each or [None]


def _overflow_message(timestamp: float, row: int) -> str:
    message = f"timestamp[{row}] is {timestamp!r}, too far ahead of the clock for its recency to be a float"
    if abs(timestamp) > 1e11:
        message += "; it looks like milliseconds, expected seconds since the epoch"
    return message
