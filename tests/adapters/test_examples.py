"""The examples of the servers run as they stand, and choose the memory that the question asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["with_mcp.py", "with_http.py"])
def test_an_example_runs_and_is_short(name: str) -> None:
    file = EXAMPLES / name
    assert len(file.read_text(encoding="utf-8").splitlines()) < 40
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "b-db-decision: Decided on MongoDB" in done.stdout
    assert "dropped, 13 of other scopes" in done.stdout
