"""memsel: the ranking step between memory retrieval and an LLM prompt."""

__version__ = "0.1.0"

try:
    from . import _core, _gather  # noqa: F401 - imported first, so that an unbuilt tree explains itself
except ImportError as _not_built:
    if _not_built.name != __name__:  # a built module says what it lacks
        raise
    raise ImportError(
        "memsel's compiled modules are not built for this interpreter; run `pip install .` in the source tree"
    ) from _not_built

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .arrays import Selection, select_arrays, select_batch
from .config import SelectionConfig
from .entry import MemoryEntry, MemoryPriority, MemoryType
from .errors import ColumnError, ColumnTypeError, InputError
from .selector import AuditedMemory, MemorySelector, Outcome, ScoredMemory

if _TYPE_CHECKING:
    from .policy import MemorySelection, MemorySelectSettings, memory_select, redact
    from .pool import MemoryPool, PoolRow

__all__ = [
    "AuditedMemory",
    "ColumnError",
    "ColumnTypeError",
    "InputError",
    "MemoryEntry",
    "MemoryPool",
    "MemoryPriority",
    "MemorySelectSettings",
    "MemorySelection",
    "MemorySelector",
    "MemoryType",
    "Outcome",
    "PoolRow",
    "ScoredMemory",
    "Selection",
    "SelectionConfig",
    "__version__",
    "memory_select",
    "redact",
    "select_arrays",
    "select_batch",
]

# Rooms of the house that take a while to open: who does not use them does not wait for them.
_WHEN_ASKED = {
    "MemoryPool": "pool",
    "MemorySelectSettings": "policy",
    "MemorySelection": "policy",
    "PoolRow": "pool",
    "memory_select": "policy",
    "redact": "policy",
}


def __getattr__(name: str) -> _Any:
    if name in _WHEN_ASKED:
        from importlib import import_module

        globals()[name] = getattr(import_module(f".{_WHEN_ASKED[name]}", __name__), name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
