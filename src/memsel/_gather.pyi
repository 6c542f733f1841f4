from collections.abc import Callable
from typing import Any, Self, TypeVar, final

from typing_extensions import disjoint_base

_Made = TypeVar("_Made")

__test__: dict[str, Any]
STORED: tuple[str, ...]

@disjoint_base
class PackedEntry:
    content: Any
    timestamp: Any
    memory_type: Any
    importance: Any
    access_count: Any
    tags: Any
    metadata: Any
    embedding: Any
    last_access: Any
    decay_factor: Any
    original_importance: Any
    @property
    def id(self) -> Any: ...
    @property
    def effective_importance(self) -> Any: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...

class EntriesChanged(Exception): ...

@final
class Gathered:
    @property
    def columns(self) -> Any: ...
    def entry(self, row: int) -> Any: ...
    def tokens(self, row: int) -> int: ...
    def scored(
        self,
        make: Callable[[Any, float, float, float, float], _Made],
        kept: list[tuple[int, float, float, float, float]],
    ) -> list[_Made]: ...

@final
class ScoreReader:
    def __new__(cls, scores: Any, candidates: int) -> Self: ...

def score_as_float(value: Any, entry_id: Any) -> float: ...
def gather(entries: list[Any], scores: Any, from_access: bool) -> Gathered | None: ...
