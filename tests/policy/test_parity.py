"""Recorded selections, held exactly: the project's own, and those beside the project, skipped where absent."""

import json
import pathlib

import pytest

from memsel.policy import memory_select
from memsel.policy.memories import decode_memories

OWN = pathlib.Path(__file__).with_name("selections.jsonl")
BESIDE = pathlib.Path(__file__).parents[3] / "shared" / "cases" / "memory_select_parity.jsonl"


def check(line, *, with_text):
    case = json.loads(line)
    for memories in (case["memories"], decode_memories(json.dumps(case["memories"]))):
        answer = memory_select(case["query"], memories, settings=case["settings"], now=case["now"]).to_dict()
        if not with_text:
            for kept in answer["selected"]:
                del kept["text"]
        assert answer == {name: case[name] for name in ("selected", "dropped", "total_tokens")}


def test_every_selection_recorded_in_the_project_is_given_exactly():
    lines = OWN.read_text(encoding="ascii").splitlines()
    assert len(lines) == 60
    for line in lines:
        check(line, with_text=True)


@pytest.mark.skipif(not BESIDE.exists(), reason="the recorded selections are not beside this tree")
def test_every_selection_recorded_beside_the_project_is_given_exactly():
    lines = BESIDE.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 300
    for line in lines:
        check(line, with_text=False)
