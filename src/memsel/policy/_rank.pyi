from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import disjoint_base

from memsel.policy.settings import MemorySelectSettings

_Made = TypeVar("_Made")

REASONS: tuple[str, ...]

@disjoint_base
class Ranking:
    total_tokens: int
    def __init__(
        self,
        query: str,
        settings: MemorySelectSettings,
        scope: str,
        now: int,
        record: type,
        reader: Callable[[int, Any, int], tuple[Any, ...]],
    ) -> None: ...
    def read(self, memories: list[Any]) -> None: ...
    def decide(self, counter: Any, redact: Callable[[str], str] | None) -> None: ...
    def kept(self) -> list[tuple[str, str, float, int, float, float, float, float | None, str | None]]: ...
    def dropped(self, make: Callable[[tuple[str, str]], _Made]) -> list[_Made]: ...

def instant_from_text(text: str) -> int | bool | None: ...
