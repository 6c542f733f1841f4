"""The shared collection of hard cases, where it lies beside the project."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "shared" / "cases" / "run.py"


@pytest.mark.skipif(not RUNNER.exists(), reason="the shared cases are not beside the project")
def test_every_shared_case_is_answered_as_it_is_ruled() -> None:
    done = subprocess.run([sys.executable, str(RUNNER)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("run, 0 wrong")
    assert not done.stdout.splitlines()[-1].startswith("0 run")
