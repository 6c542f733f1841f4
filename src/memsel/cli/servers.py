"""``memsel serve`` and ``memsel mcp``: options in, a server up. The servers are adapters, loaded when asked for."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError
from .command import WrongInput, memsel
from .report import visible

if TYPE_CHECKING:
    from ..adapters.serving import Limits

__all__ = ["mcp", "serve"]

_TOKEN = "MEMSEL_TOKEN"
_MIB = 1024 * 1024


def _listening(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of a server that listens; their defaults are those of ``Limits``."""
    options = [
        click.option("--host", default="127.0.0.1", show_default=True, help="Any other than loopback needs a token."),
        click.option(
            "--port", type=click.IntRange(0, 65535), default=port, show_default=True, help="0 takes a free one."
        ),
        click.option(
            "--token-file", metavar="FILE",
            help=f"Clients must send the one word in FILE as bearer token.  [default: the variable {_TOKEN}, if set]",
        ),
        click.option(
            "--max-body", type=click.IntRange(1), metavar="MIB", default=8, show_default=True,
            help="Largest request body.",
        ),
        click.option(
            "--max-memories", type=click.IntRange(1), default=10_000, show_default=True, help="Most memories a request."
        ),
        click.option(
            "--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", default=10.0, show_default=True,
            help="For a request to arrive, and again for its answer.",
        ),
        click.option(
            "--threads", type=click.IntRange(1), default=2, show_default=True, help="Large requests answered at once."
        ),
    ]  # fmt: skip

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


@memsel.command()
@_listening(8765)
@click.option("--data-folder", metavar="FOLDER", help="Where pools are saved; without it they are not.")
def serve(data_folder: str | None, **options: Any) -> None:
    """Answer over HTTP: POST /v1/select, POST /v1/rank, pools under /v1/pools; /openapi.json says the rest."""
    with _one_line_errors():
        from ..adapters import http

        http.serve(**_settings(options), data_folder=data_folder)


@memsel.command()
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True)
@_listening(8766)
def mcp(transport: str, **options: Any) -> None:
    """Be an MCP server with the tools memory_select and rank_memories, on standard input and output or over HTTP."""
    with _one_line_errors():
        from ..adapters import mcp as face

        settings = _settings(options)
        if transport == "stdio":
            face.serve_stdio(settings["limits"])
        else:
            face.serve_http(**settings)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    # One command frees nothing before it ends, and a server never ends.
    gc.enable()
    try:
        yield
    except (InputError, ImportError) as error:
        raise WrongInput(visible(str(error))) from None
    except KeyboardInterrupt:
        pass


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    return {
        "host": options["host"],
        "port": options["port"],
        "token": _token(options["token_file"]),
        "limits": _limits(options),
    }


def _limits(options: dict[str, Any]) -> Limits:
    from ..adapters.serving import Limits

    return Limits(
        body_bytes=options["max_body"] * _MIB,
        memories=options["max_memories"],
        read_seconds=options["timeout"],
        seconds=options["timeout"],
        threads=options["threads"],
    )


def _token(path: str | None) -> str | None:
    # Never an option by itself: every user of the machine can read the arguments of a process.
    if path is None:
        return os.environ.get(_TOKEN)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
