from typing import Any, Self, TypeVar, final

import numpy as np
import numpy.typing as npt

from ._core import PackedSelection, Plan

_Selection = TypeVar("_Selection", bound=PackedSelection)
_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

__test__: dict[str, Any]

class UnreadableId(Exception): ...
class UnreadableScore(Exception): ...

@final
class PackedPool:
    def __new__(cls, block_rows: int = 1024) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def payloads(self) -> dict[int, Any]: ...
    @property
    def next_row(self) -> int: ...
    @property
    def table_bytes(self) -> int: ...
    def row(self, entry_id: Any) -> int: ...
    def rows(self, ids: list[Any], rows: _Integers) -> None: ...
    def record(self, entry_id: Any) -> tuple[int, float, float, float, float, int] | None: ...
    def put(
        self,
        entry_id: Any,
        timestamp: float,
        importance: float,
        decay_factor: float,
        last_access: float,
        tokens: int,
    ) -> int: ...
    def change(
        self,
        entry_id: Any,
        timestamp: float | None,
        importance: float | None,
        decay_factor: float | None,
        last_access: float | None,
        tokens: int | None,
    ) -> bool: ...
    def remove(self, entry_id: Any) -> bool: ...
    def put_all(
        self,
        ids: list[Any],
        timestamp: _Floats,
        importance: _Floats,
        decay_factor: _Floats | None,
        last_access: _Floats | None,
        tokens: _Integers,
        numbers: _Integers | None = None,
    ) -> None: ...
    def load(
        self,
        ids: list[Any],
        rows: _Integers,
        timestamp: _Floats,
        importance: _Floats,
        decay_factor: _Floats,
        last_access: _Floats,
        tokens: _Integers,
        next_row: int,
    ) -> bool: ...
    def state(self) -> Query: ...

@final
class Query:
    def __new__(cls, pool: PackedPool) -> Self: ...
    @property
    def living(self) -> int: ...
    @property
    def next_row(self) -> int: ...
    @property
    def overflow(self) -> tuple[Any, float] | None: ...
    def select(
        self, settings: Plan, make: type[_Selection], outcomes: _Bytes | None = None, scans: bool = False
    ) -> _Selection | None: ...
    def row_numbers(self, rows: _Integers) -> None: ...
    def values(
        self,
        rows: _Integers,
        timestamp: _Floats,
        importance: _Floats,
        decay_factor: _Floats,
        last_access: _Floats,
        tokens: _Integers,
    ) -> None: ...
    def ids(self, rows: _Integers) -> list[Any]: ...

@final
class Batch:
    def __init__(self, queries: list[Query], plans: list[Plan], outcomes: _Bytes | None = None) -> None: ...
    def run(self, seconds: float = ...) -> bool: ...
    def stop(self) -> None: ...
    def selections(self, make: type[_Selection], outcomes: _Bytes | None) -> list[_Selection]: ...
    def failure(self) -> int | None: ...

def queries(pool: PackedPool, given: list[Any], candidates: list[Any] | None) -> list[Query]: ...
def text_ids(text: _Bytes, ends: _Integers, kinds: _Bytes) -> list[Any]: ...
