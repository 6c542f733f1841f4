"""``memsel select``: options in, one selection, a report out. No rule of selection lives here."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

import click

from .. import __version__
from ..adapters.wire import redacted
from ..config import SelectionConfig
from ..errors import InputError
from ..files import entry_from, read_memories, read_scores, shown
from ..policy import MemorySelection, MemorySelectSettings, memory_select, redact
from ..policy.memories import read_instant
from ..selector import AuditedMemory, MemorySelector
from ..tokens import ScriptTokenEstimator, TiktokenCounter, TokenCounter
from .report import Report, Row, json_bytes, print_table, visible

__all__ = ["memsel"]

Memories = list[tuple[str, dict[str, Any]]]

COMPOSITE, MEMORY_SELECT = "composite", "memory-select"
_MEMBERS = {
    COMPOSITE: {field.name: field.default for field in dataclasses.fields(SelectionConfig)},
    MEMORY_SELECT: {field.name: field.default for field in dataclasses.fields(MemorySelectSettings) if field.init},
}
# Members of one policy's settings that the command has for both: the other takes its counter beside its settings, and
# whatever the policy, no secret is printed unless that is asked for.
_SHARED = ("token_counter", "redact")
_MOST_NAMED = 5
_POSITION = re.compile(r"memories\[(\d+)\]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
                return read_instant("the time", value) / 1e6
            except InputError as error:
                self.fail(f"{error}, or seconds since the epoch", param, ctx)
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


class CounterName(click.ParamType):
    """The name of a way to count tokens, as what the library takes for ``token_counter``."""

    name = "counter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TokenCounter | None:
        kind, _, encoding = value.partition(":")
        if value == "quarter":
            return None
        if value == "scripts":
            return ScriptTokenEstimator()
        if kind != "tiktoken":
            self.fail(f"{shown(value)} is not quarter, scripts, tiktoken or tiktoken:ENCODING", param, ctx)
        try:
            return TiktokenCounter(encoding) if encoding else TiktokenCounter()
        except Exception as error:
            # It is not installed, knows no such encoding, or could not fetch its vocabulary: each in its own exception.
            self.fail(f"{shown(value)} cannot be used: {visible(str(error))}", param, ctx)


# --- options ---------------------------------------------------------------------------------------------------------


class SectionedCommand(click.Command):
    """A command whose help lists what belongs to one policy under that policy's name."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                policy = _policy_of(parameter.name or "")
                sections.setdefault(f"With --policy {policy}" if policy else "Options", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _policy_of(option: str) -> str | None:
    """The one policy that an option belongs to; None where it belongs to both."""
    if option in ("scope", "settings"):
        return MEMORY_SELECT
    policies = [policy for policy, members in _MEMBERS.items() if option in members and option not in _SHARED]
    return policies[0] if len(policies) == 1 else None


def _setting(name: str, kind: Any, text: str) -> Callable[[Any], Any]:
    """An option for a member of the policies' settings; left out, it is the library's own default."""
    flag = _flag(name)
    defaults = {policy: members[name] for policy, members in _MEMBERS.items() if name in members}
    values = dict.fromkeys(defaults.values())
    if len(values) == 1:
        default = _shown_default(*values)
    else:
        default = ", ".join(f"{_shown_default(value)} with {policy}" for policy, value in defaults.items())
    declared = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    return click.option(declared, name, type=kind, default=None, help=f"{text}  [default: {default}]")


def _shown_default(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="memsel", message="%(prog)s %(version)s")
def memsel() -> None:
    """Choose the memories that enter a prompt: score, rank and pack them into a token budget."""


@memsel.command(cls=SectionedCommand)
@click.argument("file")
@click.option("--query", metavar="TEXT", help="What the next turn is about; else the query of the file.")
@click.option(
    "--policy", type=click.Choice([MEMORY_SELECT, COMPOSITE]),
    help="memory-select asks for words of the query, scope and expiry; composite for scores, recency and importance.  "
    "[default: composite with --scores, else memory-select]",
)  # fmt: skip
@click.option("--scores", "scores_file", metavar="FILE", help="JSON object, id to similarity.")
@click.option("--now", type=Moment(), help="Seconds since the epoch or ISO-8601 with a zone.  [default: the clock]")
@click.option(
    "--format", "output", type=click.Choice(["table", "json", "jsonl"]), default="table", show_default=True,
    help="A table to read, one JSON document, or one JSON object a line.",
)  # fmt: skip
@click.option("--audit", is_flag=True, help="Show every dropped memory, not only how many went for which reason.")
@_setting("redact", bool, "Print markers in place of keys and passwords.")
@click.option(
    "--token-counter", type=CounterName(), metavar="COUNTER",
    help="quarter of the characters, scripts (an estimate that knows scripts), tiktoken or tiktoken:ENCODING.  "
    "[default: quarter]",
)  # fmt: skip
@_setting("relevance_weight", Number(), "Weight of the relevance.")
@_setting("importance_weight", Number(), "Weight of the importance.")
@click.option("--scope", metavar="TEXT", help="The scope whose memories are wanted.  [default: default]")
@_setting("max_results", click.INT, "Most memories kept.")
@_setting("max_tokens", click.INT, "Most tokens spent.")
@_setting("min_relevance", Number(), "Share of the query's words that a memory must carry.")
@_setting("recency_days", Number(), "Age at which freshness is one half.")
@_setting("dedupe", Number(), "Share of words from which on two memories are one; 0 is never.")
@_setting("guard", bool, "Keep both where only a number or a negation differs.")
@_setting("freshness_weight", Number(), "Weight of the freshness.")
@_setting("similarity_weight", Number(), "Weight of the similarity.")
@click.option("--settings", metavar="FILE", help="TOML file; its table [memory-select] holds any of these settings.")
@_setting("recency_weight", Number(), "Weight of the recency.")
@_setting("recency_half_life_hours", Number(), "Age at which recency is one half.")
@_setting("min_composite_score", Number(), "Lowest score that is kept.")
@_setting("top_k", click.INT, "Most memories kept.")
@_setting("token_budget", click.INT, "Most tokens spent.")
@_setting("overflow", click.Choice(["skip", "stop"]), "At a memory that does not fit: go on, or end there.")
@_setting("clamp_future", bool, "Count a timestamp ahead of the clock as age 0.")
@_setting("recency_from", click.Choice(["created", "accessed"]), "The time that recency counts from.")
def select(
    file: str,
    query: str | None,
    policy: str | None,
    scores_file: str | None,
    now: float | None,
    output: str,
    audit: bool,
    **options: Any,
) -> None:
    """Select from the memories in FILE (- is standard input).

    FILE is UTF-8: JSON Lines, a JSON array, or one object with "memories" and perhaps "query".

    A memory has the form that MemoryEntry.to_dict writes: content, timestamp, and perhaps importance, tags, metadata,
    memory_type, last_access, decay_factor. Its id is metadata.id, else id, else a hash of what it says. The
    memory-select policy reads scope and expires_at in the metadata, and also takes memories with id, text, created_at
    (ISO-8601), importance, tags, scope, expires_at and similarity.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if policy is None:
        policy = MEMORY_SELECT if scores_file is None else COMPOSITE
    _check_policy(policy, given)
    moment = time.time() if now is None else now
    with _one_line_errors():
        with _opened(file) as stream:
            found = read_memories(stream, _name_of(file))
        scores = None
        if scores_file is not None:
            with _opened(scores_file) as stream:
                scores = read_scores(stream, _name_of(scores_file))
        query = found.query if query is None else query
        if not found.memories:
            _note(f"{_name_of(file)} holds no memory")
        if policy == COMPOSITE:
            _composite(found.memories, query, scores, moment, given, output, audit)
        else:
            _memory_select(found.memories, query, scores, moment, given, output, audit)


def _check_policy(policy: str, given: dict[str, Any]) -> None:
    for name in given:
        owner = _policy_of(name)
        if owner is not None and owner != policy:
            raise click.UsageError(f"{_flag(name)} belongs to --policy {owner}; this selection uses {policy}")


# --- reading and notes -----------------------------------------------------------------------------------------------


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
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> InputError:
    return InputError(f"cannot read {path}: {error.strerror or error}")


def _name_of(path: str) -> str:
    return "standard input" if path == "-" else path


def _note(text: str) -> None:
    click.echo(f"note: {visible(text)}", err=True)


def _note_mismatch(scores: Mapping[str, float], ids: list[Any]) -> None:
    known = {str(memory_id) for memory_id in ids}
    strangers = [key for key in scores if key not in known]
    if strangers:
        named = ", ".join(shown(key) for key in strangers[:_MOST_NAMED]) + (", ..." if strangers[_MOST_NAMED:] else "")
        _note(f"{len(strangers)} of {len(scores)} scores belong to no memory of the file: {named}")


def _print(output: str, document: dict[str, Any], records: list[dict[str, Any]]) -> None:
    if output == "json":
        click.echo(json_bytes(document, indent=2), nl=False)
    else:
        click.echo(b"".join(map(json_bytes, records)), nl=False)


# --- the memory-select policy ----------------------------------------------------------------------------------------


def _memory_select(
    memories: Memories,
    query: str | None,
    scores: Mapping[str, float] | None,
    now: float,
    given: dict[str, Any],
    output: str,
    audit: bool,
) -> None:
    if query is None:
        raise click.UsageError("--query is missing, and FILE has none; only --policy composite does without")
    scope = given.pop("scope", None)
    counter = given.pop("token_counter", None)
    settings = _settings(given)
    mappings = [memory for _, memory in memories]
    if scores is not None:
        for memory in mappings:
            similarity = scores.get(str(_id_of(memory)))
            if similarity is not None:
                memory["similarity"] = similarity
        _note_mismatch(scores, list(map(_id_of, mappings)))
    try:
        moment = _EPOCH + timedelta(seconds=now)
    except OverflowError:
        raise InputError(f"--now is {now!r}; expected a time within the years 1 to 9999") from None
    try:
        selection = memory_select(query, mappings, settings=settings, scope=scope, now=moment, token_counter=counter)
    except InputError as error:
        raise InputError(_placed(str(error), memories)) from None
    if output == "table":
        print_table(_selection_report(selection, mappings, settings, audit), every_drop=audit)
    else:
        document = selection.to_dict()
        records = document["selected"] + (document["dropped"] if audit else [])
        _print(output, {"policy": MEMORY_SELECT, **document}, records)
    _note_scopes(selection, mappings, scope)


def _settings(given: dict[str, Any]) -> MemorySelectSettings:
    path = given.pop("settings", None)
    if path is None:
        return MemorySelectSettings(**given)
    try:
        return dataclasses.replace(MemorySelectSettings.from_toml(path), **given)
    except OSError as error:
        raise _unreadable(path, error) from None


def _placed(message: str, memories: Memories) -> str:
    """The policy's message with the memory's place in the file where it names its position in the list."""
    found = _POSITION.match(message)
    if found is None:
        return message
    return memories[int(found[1])][0] + message[found.end() :]


def _id_of(memory: dict[str, Any]) -> Any:
    metadata = memory.get("metadata")
    inner = metadata.get("id") if isinstance(metadata, dict) else None
    return memory.get("id") if memory.get("id") is not None else inner


def _selection_report(
    selection: MemorySelection, mappings: list[dict[str, Any]], settings: MemorySelectSettings, audit: bool
) -> Report:
    kept = [Row(row.id, row.text, {"score": row.score}, row.tokens, row.reasons) for row in selection.selected]
    texts: dict[str, str | None] = {}
    if audit:
        for memory in mappings:
            # A repeated id says nothing about which of its memories went, so no text is shown for it.
            name = str(_id_of(memory))
            texts[name] = None if name in texts else str(memory.get("text") or memory.get("content"))
    hidden = redact if settings.redact else str
    dropped = [(row.reason, Row(row.id, hidden(texts.get(row.id) or ""))) for row in selection.dropped]
    summary = f"kept {len(kept)} of {len(mappings)}, {selection.total_tokens} of {settings.max_tokens} tokens"
    return Report(kept, dropped, summary)


def _note_scopes(selection: MemorySelection, mappings: list[dict[str, Any]], scope: str | None) -> None:
    """Whoever meets nothing but memories of other scopes has most likely not named the scope."""
    if not mappings or any(row.reason != "out_of_scope" for row in selection.dropped) or selection.selected:
        return
    scopes: Counter[str] = Counter()
    for memory in mappings:
        metadata = memory.get("metadata")
        inner = metadata.get("scope") if isinstance(metadata, dict) else None
        scopes[str(memory.get("scope") or inner or "default")] += 1
    named = ", ".join(f"{shown(name)} ({count})" for name, count in scopes.most_common(_MOST_NAMED))
    more = ", ..." if len(scopes) > _MOST_NAMED else ""
    _note(f"no memory has the scope {shown(scope or 'default')}; choose one of these with --scope: {named}{more}")


# --- the composite policy --------------------------------------------------------------------------------------------


def _composite(
    memories: Memories,
    query: str | None,
    scores: Mapping[str, float] | None,
    now: float,
    given: dict[str, Any],
    output: str,
    audit: bool,
) -> None:
    hides = given.pop("redact", _MEMBERS[MEMORY_SELECT]["redact"])
    config = _config(given)
    entries = [entry_from(memory, place, now) for place, memory in memories]
    by_id = None
    if scores is not None:
        # The keys of a JSON object are text, so the id 7 of a memory finds its score under "7".
        by_id = {entry.id: scores[str(entry.id)] for entry in entries if str(entry.id) in scores}
    try:
        audited = MemorySelector(config).audit(query or "", entries, by_id, now=now)
    except ZeroDivisionError:
        raise InputError("--recency-half-life-hours is 0; expected another number of hours") from None
    if scores is not None:
        _note_mismatch(scores, [entry.id for entry in entries])
        without = sum(str(entry.id) not in scores for entry in entries)
        if without:
            _note(f"{without} of {len(entries)} memories have no score; their relevance is the neutral 0.5")
    elif entries:
        _note("no scores given: relevance is neutral (0.5 for every memory), and the query has no effect")
    _write_composite(audited, config, hides, output, audit)


def _config(given: dict[str, Any]) -> SelectionConfig:
    try:
        return SelectionConfig(**given)
    except ValueError as error:
        defaults = _MEMBERS[COMPOSITE]
        names = [name for name in defaults if name.endswith("_weight")]
        weights = ", ".join(f"{_flag(name)} {given.get(name, defaults[name])}" for name in names)
        raise InputError(f"{error} ({weights})") from None


def _write_composite(
    audited: list[AuditedMemory], config: SelectionConfig, hides: bool, output: str, audit: bool
) -> None:
    kept = sorted((memory for memory in audited if memory.rank is not None), key=lambda memory: memory.rank or 0)
    dropped = sorted((memory for memory in audited if memory.rank is None), key=_best_first)
    used = sum(memory.tokens or 0 for memory in kept)
    if output == "table":
        summary = f"kept {len(kept)} of {len(audited)}, {used} of {config.token_budget} tokens"
        drops = [(_outcome(memory), _row(memory, hides) if audit else Row(memory.entry.id)) for memory in dropped]
        print_table(Report([_row(memory, hides) for memory in kept], drops, summary), every_drop=audit)
        return
    records = [_record(memory, hides) for memory in kept]
    dropped_records = [_record(memory, hides) for memory in dropped] if audit else []
    document: dict[str, Any] = {
        "policy": COMPOSITE,
        "selected": records,
        "total_tokens": used,
        "dropped_counts": dict(Counter(map(_outcome, dropped))),
    }
    if audit:
        document["dropped"] = dropped_records
    _print(output, document, records + dropped_records)


def _best_first(memory: AuditedMemory) -> tuple[bool, float]:
    score = memory.composite_score
    return (math.isnan(score), -score)


def _outcome(memory: AuditedMemory) -> str:
    return memory.outcome.name.lower()


def _scores_of(memory: AuditedMemory) -> dict[str, float]:
    return {
        "score": memory.composite_score,
        "relevance": memory.relevance_score,
        "recency": memory.recency_score,
        "importance": memory.importance_score,
    }


def _row(memory: AuditedMemory, hides: bool) -> Row:
    text = str(memory.entry.content)
    return Row(memory.entry.id, redact(text) if hides else text, _scores_of(memory), memory.tokens)


def _record(memory: AuditedMemory, hides: bool) -> dict[str, Any]:
    return {
        "id": memory.entry.id,
        "rank": None if memory.rank is None else memory.rank + 1,
        "outcome": _outcome(memory),
        **_scores_of(memory),
        "tokens": memory.tokens,
        "content": redacted(memory.entry.content) if hides else memory.entry.content,
    }
