from collections.abc import Callable
from typing import Any, final

__test__: dict[str, Any]
ISA: str

class OverflowAt(Exception): ...

@final
class Plan:
    @property
    def from_access(self) -> bool: ...

def plan(
    config: Any,
    now: Any,
    stops_at_overflow: bool,
    from_access: bool = False,
    has_tokens: bool = True,
) -> Plan | None: ...
def select_counted(
    capsule: Any, settings: Plan, count_tokens: Callable[[int], int]
) -> list[tuple[int, float, float, float, float]]: ...
def score_all(capsule: Any, settings: Plan) -> tuple[list[tuple[float, float, float, float]], list[int]]: ...
