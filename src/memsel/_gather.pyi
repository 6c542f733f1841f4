from collections.abc import Callable
from typing import Any, TypeVar, final

from typing_extensions import disjoint_base

_Scores = TypeVar("_Scores", bound=PackedScores)

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
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...

@disjoint_base
class PackedScores:
    entry: Any
    relevance_score: Any
    recency_score: Any
    importance_score: Any
    composite_score: Any
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...

class EntriesChanged(Exception): ...

@final
class Gathered:
    @property
    def call(self) -> Any: ...
    def entry(self, row: int) -> Any: ...
    def kept(self, make: type[_Scores]) -> list[_Scores]: ...
    def reraise(self) -> None: ...

@final
class ScoreReader: ...

@final
class ForeignReader: ...

def score_as_float(value: Any, entry_id: Any) -> float: ...
def formulas_are(id_getter: Any, importance_getter: Any) -> None: ...
def gather(
    entries: list[Any], scores: Any, from_access: bool, counter: Callable[[Any], int] | None = None
) -> Gathered | None: ...
