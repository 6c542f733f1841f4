"""``memsel select``: options in, one selection, a report out. No rule of selection lives here."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import Any, BinaryIO

import click

from .. import __version__
from ..config import SelectionConfig
from ..errors import InputError
from ..files import entry_from, read_memories, read_scores, shown
from ..selector import AuditedMemory, MemorySelector
from .report import Report, Row, json_bytes, print_table, visible

__all__ = ["memsel"]

_CONFIG_FIELDS = {field.name: field.default for field in fields(SelectionConfig)}
_MOST_NAMED = 5


class WrongInput(click.ClickException):
    """Ends the command with status 2 and one line on standard error."""

    exit_code = 2


class Moment(click.ParamType):
    """Seconds since the epoch, or an ISO-8601 time with its zone, as seconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                self.fail(f"{shown(value)} is neither seconds since the epoch nor an ISO-8601 time", param, ctx)
            if moment.tzinfo is None:
                self.fail(f"{shown(value)} names no time zone; end it with Z or with +hh:mm", param, ctx)
            return moment.timestamp()
        if not math.isfinite(seconds):
            self.fail(f"{shown(value)} is no moment", param, ctx)
        return seconds


class Number(click.ParamType):
    """Any float but NaN, which would compare with nothing."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{shown(value)} is no number", param, ctx)
        return number


def _setting(name: str, kind: Any, text: str, **more: Any) -> Callable[[Any], Any]:
    """An option for a field of the config; left out, it is the library's own default."""
    default = _CONFIG_FIELDS[name]
    return click.option(_flag(name), name, type=kind, default=None, help=f"{text}  [default: {default}]", **more)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="memsel", message="%(prog)s %(version)s")
def memsel() -> None:
    """Choose the memories that enter a prompt: score, rank and pack them into a token budget."""


@memsel.command()
@click.argument("file")
@click.option("--query", metavar="TEXT", help="What the next turn is about; else the query of the file.")
@click.option("--scores", "scores_file", metavar="FILE", help="JSON object, id to similarity.")
@click.option("--now", type=Moment(), help="Seconds since the epoch or ISO-8601 with a zone.  [default: the clock]")
@click.option(
    "--format", "output", type=click.Choice(["table", "json", "jsonl"]), default="table", show_default=True,
    help="A table to read, one JSON document, or one JSON object a line.",
)  # fmt: skip
@click.option("--audit", is_flag=True, help="Show every dropped memory, not only how many went for which reason.")
@_setting("relevance_weight", Number(), "Weight of the similarity.")
@_setting("recency_weight", Number(), "Weight of the recency.")
@_setting("importance_weight", Number(), "Weight of the importance.")
@_setting("recency_half_life_hours", Number(), "Age at which recency is one half.")
@_setting("min_composite_score", Number(), "Lowest score that is kept.")
@_setting("top_k", click.INT, "Most memories kept.")
@_setting("token_budget", click.INT, "Most tokens spent.")
@_setting("overflow", click.Choice(["skip", "stop"]), "At a memory that does not fit: go on, or end there.")
@_setting("clamp_future", bool, "Count a timestamp ahead of the clock as age 0.", is_flag=True, flag_value=True)
@_setting("recency_from", click.Choice(["created", "accessed"]), "The time that recency counts from.")
def select(
    file: str,
    query: str | None,
    scores_file: str | None,
    now: float | None,
    output: str,
    audit: bool,
    **settings: Any,
) -> None:
    """Select from the memories in FILE (- is standard input).

    FILE is UTF-8: JSON Lines, a JSON array, or one object with "memories" and perhaps "query". A memory has the form
    that MemoryEntry.to_dict writes: content, timestamp, and if you like memory_type, importance, tags, metadata,
    last_access, decay_factor. Its id is metadata.id, else id, else a hash of what it says.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    with _one_line_errors():
        with _opened(file) as stream:
            found = read_memories(stream, _name_of(file))
        scores = None
        if scores_file is not None:
            with _opened(scores_file) as stream:
                scores = read_scores(stream, _name_of(scores_file))
        moment = time.time() if now is None else now
        config = _config(given)
        audited = _audited(found.memories, query or found.query or "", scores, config, moment)
    if not audited:
        _note(f"{visible(_name_of(file))} holds no memory")
    elif scores is None:
        _note("no scores given: relevance is neutral (0.5 for every memory), and the query has no effect")
    else:
        _note_mismatch(scores, [memory.entry.id for memory in audited])
    _write_composite(audited, config, output, audit)


# --- reading ------------------------------------------------------------------------------------------------------


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (InputError, OverflowError) as error:
        raise WrongInput(visible(str(error))) from None


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(path, "rb") as stream:
            yield stream
    except OSError as error:
        raise WrongInput(f"cannot read {visible(path)}: {error.strerror or error}") from None


def _name_of(path: str) -> str:
    return "standard input" if path == "-" else path


# --- the composite policy -----------------------------------------------------------------------------------------


def _config(given: dict[str, Any]) -> SelectionConfig:
    try:
        return SelectionConfig(**given)
    except ValueError as error:
        names = [name for name in _CONFIG_FIELDS if name.endswith("_weight")]
        weights = ", ".join(f"{_flag(name)} {given.get(name, _CONFIG_FIELDS[name])}" for name in names)
        raise InputError(f"{error} ({weights})") from None


def _audited(
    memories: list[tuple[str, dict[str, Any]]],
    query: str,
    scores: Mapping[str, float] | None,
    config: SelectionConfig,
    now: float,
) -> list[AuditedMemory]:
    entries = [entry_from(memory, place, now) for place, memory in memories]
    if scores is not None:
        # The keys of a JSON object are text, so the id 7 of a memory finds its score under "7".
        scores = {entry.id: scores[str(entry.id)] for entry in entries if str(entry.id) in scores}
    try:
        return MemorySelector(config).audit(query, entries, scores, now=now)
    except ZeroDivisionError:
        raise InputError("--recency-half-life-hours is 0; expected another number of hours") from None


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _note_mismatch(scores: Mapping[str, float], ids: list[Any]) -> None:
    known = {str(entry_id) for entry_id in ids}
    strangers = [key for key in scores if key not in known]
    if strangers:
        named = ", ".join(shown(key) for key in strangers[:_MOST_NAMED]) + (", ..." if strangers[_MOST_NAMED:] else "")
        _note(f"{len(strangers)} of {len(scores)} scores belong to no memory of the file: {named}")
    without = sum(str(entry_id) not in scores for entry_id in ids)
    if without:
        _note(f"{without} of {len(ids)} memories have no score; their relevance is the neutral 0.5")


def _write_composite(audited: list[AuditedMemory], config: SelectionConfig, output: str, audit: bool) -> None:
    kept = sorted((memory for memory in audited if memory.rank is not None), key=lambda memory: memory.rank or 0)
    dropped = sorted((memory for memory in audited if memory.rank is None), key=_best_first)
    used = sum(memory.tokens or 0 for memory in kept)
    if output == "table":
        summary = f"kept {len(kept)} of {len(audited)}, {used} of {config.token_budget} tokens"
        drops = [(_outcome(memory), _row(memory)) for memory in dropped]
        print_table(Report([_row(memory) for memory in kept], drops, summary), every_drop=audit)
        return
    records = [_record(memory) for memory in kept]
    dropped_records = [_record(memory) for memory in dropped] if audit else []
    if output == "jsonl":
        click.echo(b"".join(json_bytes(record) for record in records + dropped_records), nl=False)
        return
    document: dict[str, Any] = {
        "policy": "composite",
        "selected": records,
        "total_tokens": used,
        "dropped_counts": dict(Counter(map(_outcome, dropped))),
    }
    if audit:
        document["dropped"] = dropped_records
    click.echo(json_bytes(document, indent=2), nl=False)


def _outcome(memory: AuditedMemory) -> str:
    return memory.outcome.name.lower()


def _best_first(memory: AuditedMemory) -> tuple[bool, float]:
    score = memory.composite_score
    return (math.isnan(score), -score)


def _scores_of(memory: AuditedMemory) -> dict[str, float]:
    return {
        "score": memory.composite_score,
        "relevance": memory.relevance_score,
        "recency": memory.recency_score,
        "importance": memory.importance_score,
    }


def _row(memory: AuditedMemory) -> Row:
    return Row(memory.entry.id, str(memory.entry.content), _scores_of(memory), memory.tokens)


def _record(memory: AuditedMemory) -> dict[str, Any]:
    return {
        "id": memory.entry.id,
        "rank": None if memory.rank is None else memory.rank + 1,
        "outcome": _outcome(memory),
        **_scores_of(memory),
        "tokens": memory.tokens,
        "content": memory.entry.content,
    }
