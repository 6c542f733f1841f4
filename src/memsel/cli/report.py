"""What a selection looks like: a table for people, JSON for machines.

Text of a memory is foreign text. In the table its line breaks are flattened and its control characters escaped, so that
it cannot move the cursor, recolour the terminal or reorder the line; in JSON the same characters are JSON's escapes.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["Report", "Row", "json_bytes", "print_table", "visible"]

# DEL and C1 controls, lone surrogates, and what is invisible or turns the line around; the joiners that emoji and many
# scripts are written with (U+200C, U+200D) stay.
_UNSAFE = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_UNSAFE_IN_TEXT = re.compile(f"[\x00-\x1f{_UNSAFE}]")
# The controls below U+0020 are escaped by the JSON writer itself, and what it writes between values has line breaks.
_UNSAFE_IN_JSON = re.compile(f"[{_UNSAFE}]")
_BLANKS = re.compile(r"\s+")
_SHORT_NAMES = {"relevance": "rel", "recency": "rec", "importance": "imp", "tokens": "tok"}
_PREVIEW_LINES = 2
_NAMED_IDS = 8


@dataclass
class Row:
    """One memory of a report: its id and text, its numbers by column name, why it was kept or dropped."""

    id: Any
    text: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    tokens: int | None = None
    reasons: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What became of the memories: the kept ones in order, the dropped ones in order, one line that sums it up."""

    kept: list[Row]
    dropped: list[tuple[str, Row]]
    summary: str


def visible(text: str) -> str:
    """Text on one line, in which every character that a terminal might obey is written as an escape."""
    return _UNSAFE_IN_TEXT.sub(lambda found: ascii(found[0])[1:-1], _BLANKS.sub(" ", text).strip())


# --- JSON ---------------------------------------------------------------------------------------------------------


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """JSON text in UTF-8 and a line break. NaN and infinities become null; what a terminal might obey is escaped."""
    text = json.dumps(_without_nan(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return _UNSAFE_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text).encode() + b"\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return value


# --- the table ----------------------------------------------------------------------------------------------------


def print_table(report: Report, every_drop: bool = False) -> None:
    """Print a report to standard output, fitted to the terminal; in a pipe nothing is coloured or cut.

    ``every_drop`` shows each dropped memory as a row of its own, not only how many went for which reason.
    """
    from rich.console import Console

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # A character that the terminal's encoding lacks must not end the output.
        reconfigure(errors="replace")
    width = _width()
    console = Console(file=sys.stdout, width=width or 1_000_000, highlight=False)
    coloured = console.color_system is not None
    for line in _lines(report, every_drop, console, width):
        if coloured:
            console.print(line, soft_wrap=True)
        else:
            sys.stdout.write(line.plain + "\n")
    # A reader that has gone is noticed here, where the command still handles it, and not at the interpreter's end.
    sys.stdout.flush()


def _width() -> int | None:
    """Columns to fit into, or None where nothing has to fit: COLUMNS when set, else those of the terminal."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdigit() and int(asked[:6]) > 0:
        return int(asked[:6])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError, AttributeError):
        return None


def _lines(report: Report, every_drop: bool, console: Console, width: int | None) -> Iterator[Text]:
    from rich.text import Text

    if report.kept:
        yield from _grid([(row, "") for row in report.kept], True, console, width)
        yield Text()
    yield Text(report.summary, style="bold")
    if not report.dropped:
        return
    yield from _drops_by_reason(report.dropped, width)
    if every_drop:
        yield Text()
        yield from _grid([(row, reason) for reason, row in report.dropped], False, console, width)


def _drops_by_reason(dropped: list[tuple[str, Row]], width: int | None) -> Iterator[Text]:
    from rich.cells import cell_len
    from rich.text import Text

    counts: Counter[str] = Counter()
    named: dict[str, list[str]] = {}
    for reason, row in dropped:
        kind, _, other = reason.partition(":")
        counts[kind] += 1
        names = named.setdefault(kind, [])
        if len(names) < _NAMED_IDS:
            names.append(visible(f"{row.id} of {other}" if other else str(row.id)))
    kind_width = max(map(cell_len, counts))
    count_width = len(str(max(counts.values())))
    for kind, count in counts.most_common():
        head = f"  {_padded(kind, kind_width)}  {count:>{count_width}}  "
        room = None if width is None else width - cell_len(head)
        yield Text.assemble((head, "yellow"), (_fitting(named[kind], count, room), "dim"))


def _fitting(names: list[str], total: int, room: int | None) -> str:
    """As many of the names as there is room for, and how many more there are."""
    from rich.cells import cell_len

    for shown in range(len(names), 0, -1):
        more = total - shown
        text = ", ".join(names[:shown]) + (f" and {more} more" if more else "")
        if room is None or cell_len(text) <= room:
            return text
    return ""


def _grid(rows: list[tuple[Row, str]], ranked: bool, console: Console, width: int | None) -> Iterator[Text]:
    """Rows of numbers under one header; below each its reason, its text and, dimmed, what else is to say of it."""
    from rich.cells import cell_len
    from rich.text import Text

    names = list(rows[0][0].scores)
    cells = [
        [str(rank) if ranked else "", visible(str(row.id)), *(_number(row.scores[name]) for name in names)]
        for rank, (row, _) in enumerate(rows, 1)
    ]
    header = ["#" if ranked else "", "id", *names]
    if any(row.tokens is not None for row, _ in rows):
        header.append("tokens")
        for (row, _), line in zip(rows, cells, strict=True):
            line.append("-" if row.tokens is None else str(row.tokens))
    widths = _widths(header, cells)
    if width is not None and _total(widths) > width:
        header = [_SHORT_NAMES.get(name, name) for name in header]
        widths = _widths(header, cells)
    id_apart = width is not None and _total(widths) > width
    if id_apart:
        # An id is never cut, since it is what a person copies: too long for its column, it gets a line of its own.
        header[1], widths[1] = "", 0
    indent = " " * (widths[0] + 2)
    yield Text(_row(header, widths), style="bold")
    for (row, reason), line in zip(rows, cells, strict=True):
        row_id = line[1]
        if id_apart:
            line[1] = ""
        text = Text(_row(line, widths))
        text.stylize("bold", 0, widths[0])
        text.stylize("cyan", widths[0] + 2, widths[0] + 2 + len(line[1]))
        yield text
        if id_apart:
            yield Text.assemble(indent, (row_id, "cyan"))
        body = Text.assemble((f"{visible(reason)}  ", "yellow") if reason else "", _start(row.text, width))
        for part in _preview(body, None if width is None else max(width - cell_len(indent), 20), console):
            yield Text.assemble(indent, part)
        if row.reasons:
            yield Text.assemble(indent, ("  ".join(visible(said) for said in row.reasons), "dim"))


def _widths(header: list[str], cells: list[list[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max(map(cell_len, column)) for column in zip(header, *cells, strict=True)]


def _total(widths: list[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _row(cells: Iterable[str], widths: list[int]) -> str:
    rank, row_id, *numbers = cells
    parts = [rank.rjust(widths[0]), _padded(row_id, widths[1])]
    parts += [number.rjust(size) for number, size in zip(numbers, widths[2:], strict=True)]
    return "  ".join(parts).rstrip()


def _padded(text: str, width: int) -> str:
    from rich.cells import cell_len

    return text + " " * (width - cell_len(text))


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def _start(text: str, width: int | None) -> str:
    # Of a text that is cut to a few lines, only so much has to be looked at.
    return visible(text if width is None else text[: 8 * width * _PREVIEW_LINES])


def _preview(text: Text, width: int | None, console: Console) -> list[Text]:
    """The text in at most a few lines; uncut where there is no width."""
    from rich.cells import cell_len

    if width is None:
        return [text]
    lines = list(text.wrap(console, width, overflow="fold"))
    if len(lines) > _PREVIEW_LINES:
        lines = lines[:_PREVIEW_LINES]
        ellipsis = "…" if console.encoding.startswith("utf") else "..."
        lines[-1].rstrip()
        lines[-1].truncate(width - cell_len(ellipsis), overflow="fold")
        lines[-1].append(ellipsis)
    for line in lines:
        line.rstrip()
    return lines
