from collections.abc import Callable
from typing import Any, TypeVar

from memsel.policy.settings import MemorySelectSettings

T = TypeVar("T")

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
    def dropped(self, make: Callable[[tuple[str, str]], T]) -> list[T]: ...

def instant_from_text(text: str) -> int | bool | None: ...
