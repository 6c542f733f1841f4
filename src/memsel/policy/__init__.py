"""memory_select: which retrieved memories answer the query, and one reason for each kept or dropped."""

from memsel.policy.redaction import redact
from memsel.policy.selection import DroppedMemory, MemorySelection, SelectedMemory, memory_select
from memsel.policy.settings import MemorySelectSettings

__all__ = ["DroppedMemory", "MemorySelectSettings", "MemorySelection", "SelectedMemory", "memory_select", "redact"]
