"""The command line. This module only finds the packages that the command needs, or says which extra holds them."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]


def main() -> None:
    """Run ``memsel`` with the arguments of the process; ends by SystemExit, with 2 where the input is wrong."""
    try:
        import rich  # noqa: F401 - only tables need it, but who lacks it should learn so before any work is done

        from . import servers  # noqa: F401 - adds its commands
        from .command import memsel
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        hint = f"memsel: the command line needs {error.name}; install it with: pip install 'memsel[cli]'"
        print(hint, file=sys.stderr)
        sys.exit(2)
    # What a selection reads lives until the process ends, so looking for cycles in it would only cost time.
    gc.disable()
    memsel(prog_name="memsel")
