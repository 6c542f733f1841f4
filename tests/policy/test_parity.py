"""The recorded selections beside the project, held exactly; skipped where they are absent."""

import json
import pathlib

import pytest

from memsel.policy import memory_select

CASES = pathlib.Path(__file__).parents[3] / "shared" / "cases" / "memory_select_parity.jsonl"


@pytest.mark.skipif(not CASES.exists(), reason="the recorded selections are not beside this tree")
def test_every_recorded_selection_is_given_exactly():
    ran = 0
    for line in CASES.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        answer = memory_select(case["query"], case["memories"], settings=case["settings"], now=case["now"]).to_dict()
        for kept in answer["selected"]:
            del kept["text"]
        assert answer == {name: case[name] for name in ("selected", "dropped", "total_tokens")}
        ran += 1
    assert ran == 300
