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
from .pool import MemoryPool, PoolRow
from .selector import AuditedMemory, MemorySelector, Outcome, ScoredMemory

if _TYPE_CHECKING:
    from .policy import MemorySelection, MemorySelectSettings, memory_select, redact

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

# The second policy has expressions to compile and a checker to load; who does not use it does not wait for it.
_OF_POLICY = ("MemorySelectSettings", "MemorySelection", "memory_select", "redact")


def __getattr__(name: str) -> _Any:
    if name in _OF_POLICY:
        from . import policy

        for each in _OF_POLICY:
            globals()[each] = getattr(policy, each)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
