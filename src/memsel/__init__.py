"""memsel: the ranking step between memory retrieval and an LLM prompt."""

__version__ = "0.1.0"

try:
    from . import _core, _gather  # noqa: F401 - imported first, so that an unbuilt tree explains itself
except ModuleNotFoundError as _not_built:
    raise ImportError(
        "memsel's compiled modules are not built for this interpreter; run `pip install .` in the source tree"
    ) from _not_built

from .arrays import Selection, select_arrays, select_batch
from .config import SelectionConfig
from .entry import MemoryEntry, MemoryPriority, MemoryType
from .errors import ColumnError, ColumnTypeError, InputError
from .selector import AuditedMemory, MemorySelector, Outcome, ScoredMemory

__all__ = [
    "AuditedMemory",
    "ColumnError",
    "ColumnTypeError",
    "InputError",
    "MemoryEntry",
    "MemoryPriority",
    "MemorySelector",
    "MemoryType",
    "Outcome",
    "ScoredMemory",
    "Selection",
    "SelectionConfig",
    "__version__",
    "select_arrays",
    "select_batch",
]
