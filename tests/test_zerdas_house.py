"""In zerda's own house: its memory manager builds the same contexts with memsel's parts in place of its own."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
import zerda.memory
from worlds import NOW
from zerda.memory.core.config import MemoryConfig
from zerda.memory.intelligent.memory_manager import AIMemoryManager

import memsel

TENANTS = ("acme", "globex", "initech")
INTERACTIONS = 200
TOPICS = ("decorators", "invoices", "the Lisbon office", "sailing", "a new laptop", "tax", "the garden", "Rust")
VERBS = ("asked about", "complained about", "planned", "forgot", "explained", "wants to read more on")


def zerda_modules_with(name: str) -> list[Any]:
    """zerda's modules in which a name stands for zerda's own class of that name."""
    own = getattr(zerda.memory, name)
    return [
        module
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("zerda") and getattr(module, name, None) is own
    ]


def settle(manager: Any) -> None:
    """Wait for what the manager's one worker still has to store."""
    manager._executor.submit(lambda: None).result()


def contexts(folder: Any, clock: Any, selector: Any, entry_class: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The contexts of a long, seeded history of several tenants, with maintenance now and then."""
    rng = random.Random("house")
    with monkeypatch.context() as patch:
        # The default of last_access is a departure: zerda's would be the real clock. Here both take the stopped one.
        init = zerda.memory.MemoryEntry.__init__
        patch.setattr(
            zerda.memory.MemoryEntry,
            "__init__",
            lambda self, *args, **named: init(self, *args, **{"last_access": clock.now, **named}),
        )
        if entry_class is not None:
            for module in zerda_modules_with("MemoryEntry"):
                patch.setattr(module, "MemoryEntry", entry_class)
        config = MemoryConfig(
            persistence_path=str(folder), window_size=40, retrieval_limit=12, importance_threshold=0.6
        )
        manager = AIMemoryManager(config, max_workers=1)
        if selector is not None:
            theirs = manager._selector.config
            own_config = memsel.SelectionConfig(top_k=theirs.top_k, token_budget=theirs.token_budget)
            manager._selector = selector(own_config)
        built = []
        clock.now = NOW
        for number in range(INTERACTIONS):
            clock.now += rng.expovariate(1 / 5000.0)
            tenant = rng.choice(TENANTS)
            topic = rng.choice(TOPICS)
            saved = manager.save_interaction(
                user_id=f"user{number % 4}",
                tenant_id=tenant,
                user_input=f"{number}: I {rng.choice(VERBS)} {topic}. " + "More on it. " * rng.randrange(20),
                assistant_output=f"Noted, {topic}." + " Indeed." * rng.randrange(60),
                importance=rng.choice((0.2, 0.5, 0.6, rng.random())),
                tags=[topic],
            )
            assert type(saved) is (entry_class or zerda.memory.MemoryEntry)
            settle(manager)
            if number % 10 == 9:
                context = manager.build_context(
                    f"user{number % 4}", tenant, f"What about {rng.choice(TOPICS)}?", top_k_semantic=15, top_k_ltm=20
                )
                built.append((context.full_text, context.sections, context.token_estimate, context.memory_count))
                built.append([memory.id for memory in manager._bundle(tenant).working.get_all()])
            if number % 100 == 99:
                report = manager.run_maintenance(tenant)
                built.append({key: report[key] for key in ("stm_evicted", "ltm_decay_updated", "ltm_deleted")})
                manager._compressor.compress_batch(manager._bundle(tenant).stm.get_all(), merge=True)
        settle(manager)
        manager._executor.shutdown()
    return built


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_memory_manager_builds_the_same_contexts_with_memsels_parts(
    tmp_path: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is = contexts(tmp_path / "theirs", clock, None, None, monkeypatch)
    with_selector = contexts(tmp_path / "selector", clock, memsel.MemorySelector, None, monkeypatch)
    with_both = contexts(tmp_path / "both", clock, memsel.MemorySelector, memsel.MemoryEntry, monkeypatch)
    with_entry = contexts(tmp_path / "entry", clock, None, memsel.MemoryEntry, monkeypatch)
    assert with_selector == as_it_is
    assert with_both == as_it_is
    assert with_entry == as_it_is
    assert len(as_it_is) == 2 * INTERACTIONS // 10 + INTERACTIONS // 100
    assert sum(len(ids) for ids in as_it_is[1::2] if isinstance(ids, list)) > INTERACTIONS // 2


def test_memsels_parts_fit_zerdas_working_memory_and_forgetting(clock: Any) -> None:
    """Entries chosen by memsel go through zerda's other parts, whose type checks and arithmetic they have to pass."""
    from zerda.memory.intelligent.forgetting_mechanism import ForgettingConfig, ForgettingMechanism
    from zerda.memory.intelligent.working_memory import WorkingMemory

    entries = [
        memsel.MemoryEntry(f"note {n}" * (n + 1), NOW - 3600.0 * n, memsel.MemoryType.SEMANTIC, importance=n / 20)
        for n in range(20)
    ]
    chosen = memsel.MemorySelector().select_entries("q", entries)
    working = WorkingMemory(capacity=8, token_budget=100)
    working.load(chosen)
    alive, forgotten = ForgettingMechanism(ForgettingConfig()).apply(working.get_all())
    assert set(alive) | set(forgotten) == set(working.get_all())
    assert set(working.get_all()) <= set(chosen)
    assert len(working.get_all()) > 0
