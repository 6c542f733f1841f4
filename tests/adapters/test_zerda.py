"""install() and uninstall(): zerda's modules with memsel's classes, whole and back, whatever was imported when."""

from __future__ import annotations

import copy
import importlib
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import zerda.memory
from test_zerdas_house import contexts
from worlds import NOW

import memsel
from memsel.adapters.zerda import install, uninstall

NAMES = ("MemoryEntry", "MemoryType", "MemoryPriority", "MemorySelector", "SelectionConfig", "ScoredMemory")
THEIRS = {name: getattr(zerda.memory, name) for name in NAMES}
OURS = {name: getattr(memsel, name) for name in NAMES}


@pytest.fixture(autouse=True)
def zerda_is_as_it_came_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = bound()
    yield
    uninstall()
    monkeypatch.undo()
    assert bound() == before


def bound() -> dict[tuple[str, str], int]:
    """What every name in zerda's modules is bound to, and the default arguments and methods of its classes."""
    found = {}
    for module_name, module in sorted(sys.modules.items()):
        if module_name.partition(".")[0] != "zerda":
            continue
        for name, value in vars(module).items():
            found[module_name, name] = id(value)
            if isinstance(value, type) and value.__module__ == module_name:
                for inner, part in vars(value).items():
                    if inspect.isfunction(part):
                        found[module_name, f"{name}.{inner}"] = id(part)
                        found[module_name, f"{name}.{inner} defaults"] = id(part.__defaults__)
    return found


def holders(value: Any) -> set[tuple[str, str]]:
    """The names in zerda's modules that are bound to a value."""
    return {place for place, identity in bound().items() if identity == id(value)}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_class_is_exchanged_and_put_back(name: str) -> None:
    places = holders(THEIRS[name])
    assert len(places) >= 3
    assert not holders(OURS[name])
    install()
    assert holders(OURS[name]) == places
    assert not holders(THEIRS[name])
    uninstall()
    assert holders(THEIRS[name]) == places
    assert not holders(OURS[name])


def test_a_member_of_an_enum_that_is_a_default_argument_is_exchanged_too() -> None:
    def default() -> Any:
        return inspect.signature(zerda.memory.MemoryCompressor.summarise).parameters["target_type"].default

    with install():
        assert default() is memsel.MemoryType.LONG_TERM
    assert default() is THEIRS["MemoryType"].LONG_TERM


def test_again_is_the_same_as_once() -> None:
    before = bound()
    install()
    installed = bound()
    install()
    assert bound() == installed != before
    uninstall()
    assert bound() == before
    uninstall()
    assert bound() == before


def test_blocks_nest_and_the_outermost_ends_it() -> None:
    before = bound()
    with install() as outer:
        with install(), outer:
            assert zerda.memory.MemoryEntry is memsel.MemoryEntry
        assert zerda.memory.MemoryEntry is memsel.MemoryEntry
    assert bound() == before
    with outer:
        assert zerda.memory.MemoryEntry is memsel.MemoryEntry
    assert bound() == before


def test_a_block_leaves_installed_what_was_installed() -> None:
    install()
    with install():
        pass
    assert zerda.memory.MemoryEntry is memsel.MemoryEntry


def test_an_error_in_a_block_ends_it() -> None:
    before = bound()
    with pytest.raises(KeyError), install():
        raise KeyError
    assert bound() == before


def test_uninstall_in_a_block_counts_at_once() -> None:
    before = bound()
    with install():
        uninstall()
        assert bound() == before
    assert bound() == before


def test_overlapping_blocks_of_two_threads_end_with_the_last() -> None:
    entered, may_leave = threading.Event(), threading.Event()

    def first() -> None:
        with install():
            entered.set()
            may_leave.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait(60)
    with install():
        may_leave.set()
        thread.join()
        assert zerda.memory.MemoryEntry is memsel.MemoryEntry
    assert zerda.memory.MemoryEntry is THEIRS["MemoryEntry"]


@pytest.mark.parametrize("refused", ["one", "all"])
def test_a_module_that_refuses_leaves_everything_as_it_was(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(ModuleType):
        def __setattr__(self, name: str, value: Any) -> None:
            if refused == "all" or value is memsel.ScoredMemory:
                raise AttributeError("no")
            super().__setattr__(name, value)

    module = Stubborn("zerda.stubborn")
    vars(module).update(Entry=THEIRS["MemoryEntry"], Scored=THEIRS["ScoredMemory"])
    monkeypatch.setitem(sys.modules, "zerda.stubborn", module)
    before = bound()
    with pytest.raises(AttributeError, match="no"):
        install()
    assert bound() == before
    monkeypatch.delitem(sys.modules, "zerda.stubborn")
    install()
    assert zerda.memory.ScoredMemory is memsel.ScoredMemory


def test_a_module_imported_meanwhile_has_memsels_classes_and_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "zerda.memory.intelligent.short_term_memory"
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(zerda.memory.intelligent, "short_term_memory", None)  # importing binds it anew
    with install():
        late = importlib.import_module(name)
        assert late.MemoryEntry is memsel.MemoryEntry
        assert type(late.ShortTermMemory().add("a note")) is memsel.MemoryEntry
    assert late.MemoryEntry is THEIRS["MemoryEntry"]
    assert late.MemoryType is THEIRS["MemoryType"]


@pytest.mark.parametrize("first", ["memsel.adapters.zerda", "zerda.memory.intelligent.memory_selector"])
def test_the_order_of_imports_does_not_matter(first: str) -> None:
    code = f"import {first}; from memsel.adapters.zerda import install; install(); import memsel; "
    code += "from zerda.memory.storage.long_term_memory import MemoryEntry; "
    code += "from zerda.memory.intelligent.memory_selector import MemorySelector, SelectionConfig; "
    code += "assert (MemoryEntry, MemorySelector) == (memsel.MemoryEntry, memsel.MemorySelector)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_somebody_else_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from zerda.memory.intelligent import memory_manager, working_memory

    class Own(memsel.MemorySelector):
        pass

    monkeypatch.setattr(working_memory, "MemoryEntry", memsel.MemoryEntry)
    with install():
        monkeypatch.setattr(memory_manager, "MemorySelector", Own)
    assert memory_manager.MemorySelector is Own
    assert working_memory.MemoryEntry is memsel.MemoryEntry
    monkeypatch.undo()
    memory_manager.MemorySelector = THEIRS["MemorySelector"]


def test_entries_made_before_go_on_as_they_are() -> None:
    types = THEIRS["MemoryType"]
    old = [THEIRS["MemoryEntry"](f"note {n}", NOW - n, types.SEMANTIC, importance=n / 10) for n in range(6)]
    twin = copy.deepcopy(old[3])
    old_selector = THEIRS["MemorySelector"]()
    as_before = [(s.entry.id, s.composite_score) for s in old_selector.select("q", old)]
    with install():
        assert old[3] == twin
        assert hash(old[3]) == hash(twin)
        assert old.index(twin) == 3
        assert sorted([*old[3:], *old[:3]]) == old
        assert old[0] < old[1]
        with pytest.raises(TypeError):
            _ = old[0] < 3
        new = zerda.memory.MemoryEntry.from_dict(old[3].to_dict())
        assert type(new) is memsel.MemoryEntry
        assert new.id == old[3].id
        assert old[3] != new  # as without install: each equals its own kind
        for selector in (old_selector, zerda.memory.MemorySelector()):
            chosen = selector.select("q", [*old, new])
            assert {type(scored) for scored in chosen} == {memsel.ScoredMemory}
            assert [s.entry.id for s in chosen if s.entry is not new] == [entry_id for entry_id, _ in as_before]
    assert old[3] == twin
    assert new == memsel.MemoryEntry.from_dict(new.to_dict())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_memory_manager_builds_the_same_contexts_while_installed(
    tmp_path: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is = contexts(tmp_path / "theirs", clock, None, None, monkeypatch)
    with install():
        manager = zerda.memory.AIMemoryManager(max_workers=1)
        assert type(manager._selector) is memsel.MemorySelector
        assert type(manager._selector.config) is memsel.SelectionConfig
        manager._executor.shutdown()
        # zerda keeps nothing of the entries' class on disk, so each half starts from an empty folder of its own.
        installed = contexts(tmp_path / "installed", clock, None, None, monkeypatch)
    assert installed == as_it_is


def test_without_zerda_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['zerda'] = None; import memsel.adapters.zerda as z; z.uninstall(); z.install()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("needs zerda; install it with: pip install zerda")


def test_the_example_prints_three_entries_of_memsels() -> None:
    example = Path(__file__).parents[2] / "examples" / "with_zerda.py"
    done = subprocess.run([sys.executable, "-W", "error", example], capture_output=True, text=True, check=True)
    *kept, outside = done.stdout.splitlines()
    assert [line.split(" | ")[:2] for line in kept] == [
        ["memsel.entry", "b-db-decision"],
        ["memsel.entry", "b-sqlalchemy-superseded"],
        ["memsel.entry", "b-mongo-raw-driver"],
    ]
    assert outside == "after the block: zerda.memory.intelligent.memory_selector"
    assert len(example.read_text("utf-8").splitlines()) < 40
