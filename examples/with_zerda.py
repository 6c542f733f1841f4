"""zerda's memory package with memsel's parts inside: run `python with_zerda.py`."""

import json
from pathlib import Path

from memsel.adapters.zerda import install

HERE = Path(__file__).parent

with install():
    from zerda.memory import MemoryEntry, MemorySelector, SelectionConfig, WorkingMemory

    lines = (HERE / "memories.jsonl").read_text("utf-8").splitlines()
    entries = [MemoryEntry.from_dict(json.loads(line)) for line in lines]
    scores = json.loads((HERE / "scores.json").read_text("utf-8"))

    selector = MemorySelector(SelectionConfig(top_k=3, token_budget=200))
    chosen = selector.select("how is the data stored?", entries, scores)

    working = WorkingMemory(capacity=3, token_budget=200)
    working.load([scored.entry for scored in chosen])
    for entry in working.get_all():
        print(type(entry).__module__, entry.id, entry.content, sep=" | ")

from zerda.memory import MemorySelector  # noqa: E402 - after the block the name means zerda's class again

print("after the block:", MemorySelector.__module__)
