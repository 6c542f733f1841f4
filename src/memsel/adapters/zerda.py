"""memsel inside zerda: while installed, zerda.memory works with memsel's classes in place of its own.

zerda's modules import the classes from each other by name, so each of them holds names of its own. All of them are
exchanged together, found by what they are bound to and not by a list of places. A module imported later takes the names
from those that were exchanged, and is put back with them.

Objects made before stay what they are: an entry of zerda's goes on comparing with entries of zerda's, and both
selectors rank entries of either kind. Names that other code imported from zerda before are its own and not touched.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from ..config import SelectionConfig
from ..entry import MemoryEntry, MemoryPriority, MemoryType
from ..selector import MemorySelector, ScoredMemory

__all__ = ["Installation", "install", "uninstall"]

_OURS = (MemoryEntry, MemoryType, MemoryPriority, MemorySelector, SelectionConfig, ScoredMemory)

# An attribute with what it was bound to and what it is bound to now.
_Change = tuple[Any, str, Any, Any]

_lock = threading.RLock()
_changes: list[_Change] | None = None  # None while zerda is as it came
_pairs: list[tuple[Any, Any]] = []
_bound_before: set[tuple[int, str]] = set()  # names that somebody else had bound to memsel's classes
_open_blocks = 0
_ends_with_blocks = False


class Installation:
    """What ``install`` returns: nothing to keep, or the subject of a ``with`` block.

    After the outermost of all open blocks zerda is as it was before them: still with memsel's classes if ``install``
    had been called before, with its own again if not.
    """

    def __init__(self, fresh: bool) -> None:
        self._fresh = fresh

    def __enter__(self) -> Installation:
        global _open_blocks, _ends_with_blocks
        with _lock:
            if _exchange() or self._fresh:
                _ends_with_blocks = True
            self._fresh = False
            _open_blocks += 1
        return self

    def __exit__(self, *raised: object) -> None:
        global _open_blocks
        with _lock:
            _open_blocks -= 1
            if _open_blocks == 0 and _ends_with_blocks:
                uninstall()


def install() -> Installation:
    """Put memsel's six classes in place of zerda's wherever zerda's modules bound them; again is the same as once.

    The classes: MemoryEntry, MemoryType, MemoryPriority, MemorySelector, SelectionConfig and ScoredMemory; members of
    the enums are exchanged too where they are defaults of zerda's functions. Either all is exchanged or nothing.

    Raises:
        ImportError: zerda is not installed.
    """
    with _lock:
        return Installation(_exchange())


def uninstall() -> None:
    """Put zerda's own classes back, also in modules of zerda imported meanwhile; without ``install``, do nothing."""
    global _changes, _ends_with_blocks
    with _lock:
        if _changes is None:
            return
        back = [
            (holder, name, new, old) for holder, name, old, new in _changes if holder.__dict__.get(name, new) is new
        ]
        known = {(id(holder), name) for holder, name, _, _ in back} | _bound_before
        since = _found([(ours, theirs) for theirs, ours in _pairs])
        _apply(back + [change for change in since if (id(change[0]), change[1]) not in known])
        _changes = None
        _ends_with_blocks = False


def _exchange() -> bool:
    """Whether this call put memsel's classes in place; False if they were there."""
    global _changes, _pairs, _bound_before
    if _changes is not None:
        return False
    try:
        home = importlib.import_module("zerda.memory")
    except ModuleNotFoundError as error:
        if error.name not in ("zerda", "zerda.memory"):
            raise
        raise ImportError("memsel.adapters.zerda needs zerda; install it with: pip install zerda") from error
    pairs: list[tuple[Any, Any]] = [(getattr(home, ours.__name__), ours) for ours in _OURS]
    entries = pairs[0][0]
    for theirs, ours in pairs[1:3]:
        pairs += [(member, ours[member.name]) for member in theirs]
    pairs = [(theirs, ours) for theirs, ours in pairs if theirs is not ours]
    bound_before = {(id(holder), name) for holder, name, _, _ in _found([(ours, theirs) for theirs, ours in pairs])}
    changes = _found(pairs) + (_comparisons(entries) if entries is not MemoryEntry else [])
    _apply(changes)
    _changes, _pairs, _bound_before = changes, pairs, bound_before
    return True


def _apply(changes: list[_Change]) -> None:
    done: list[_Change] = []
    try:
        for change in changes:
            holder, name, _, new = change
            done.append(change)
            setattr(holder, name, new)
    except BaseException:
        for holder, name, old, _ in reversed(done):
            if getattr(holder, name) is not old:  # the one that refused may refuse this too
                setattr(holder, name, old)
        raise


def _found(pairs: list[tuple[Any, Any]]) -> list[_Change]:
    """The changes that put the second of each pair wherever zerda's modules bound the first."""
    # By identity: what else a module holds need not be hashable or comparable.
    new_of = {id(old): new for old, new in pairs}
    changes: list[_Change] = []
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] != "zerda" or not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in new_of:
                changes.append((module, name, value, new_of[id(value)]))
        for function in _functions(module):
            old = function.__defaults__ or ()
            new = tuple(new_of.get(id(value), value) for value in old)
            if any(value is not before for value, before in zip(new, old, strict=True)):
                changes.append((function, "__defaults__", old, new))
    return changes


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions that a module defines, at its top level or as plain methods there."""
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for inner in (value, *(vars(value).values() if isinstance(value, type) else ())):
            if isinstance(inner, FunctionType):
                yield inner


def _comparisons(theirs: type) -> list[_Change]:
    """Comparisons of zerda's entries that do not look up the name MemoryEntry, which no longer means their class."""
    equals, is_less = theirs.__dict__["__eq__"], theirs.__dict__["__lt__"]

    def __eq__(self: Any, other: object) -> bool:
        return isinstance(other, theirs) and self.id == other.id  # type: ignore[attr-defined]

    def __lt__(self: Any, other: object) -> bool:
        if not isinstance(other, theirs):
            return NotImplemented
        return self.effective_importance < other.effective_importance  # type: ignore[attr-defined]

    return [(theirs, "__eq__", equals, __eq__), (theirs, "__lt__", is_less, __lt__)]
