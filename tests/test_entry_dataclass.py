"""What a dataclass promises its users, MemoryEntry keeps: it only looks different from within C."""

from __future__ import annotations

import pytest

from memsel import MemoryEntry, MemoryType


def test_content_timestamp_and_memory_type_are_required() -> None:
    for arguments in ((), ("c",), ("c", 1.0)):
        with pytest.raises(TypeError, match=r"missing .* required positional argument"):
            MemoryEntry(*arguments)  # type: ignore[call-arg]
    assert MemoryEntry("c", 1.0, MemoryType.EPISODIC).memory_type is MemoryType.EPISODIC


def test_a_scored_memory_needs_its_entry() -> None:
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'entry'"):
        memsel.ScoredMemory()  # type: ignore[call-arg]
