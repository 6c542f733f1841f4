"""The README shows what the program really prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memsel.cli.command import memsel as command

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
CONSOLE = [text for kind, text in BLOCKS if kind == "console"]
PYTHON = [(text, BLOCKS[i + 1]) for i, (kind, text) in enumerate(BLOCKS) if kind == "python"]


def test_there_is_something_to_check():
    assert len(CONSOLE) >= 2
    assert len(PYTHON) >= 2


@pytest.mark.parametrize("block", CONSOLE)
def test_every_console_block_is_what_the_command_prints(block, monkeypatch):
    prompt, printed = block.split("\n", 1)
    assert prompt.startswith("$ memsel ")
    monkeypatch.chdir(ROOT)
    done = CliRunner(env={"COLUMNS": "80"}).invoke(command, shlex.split(prompt)[2:])
    assert done.exit_code == 0, done.output
    assert done.stdout == printed


def test_the_first_command_of_the_readme_keeps_the_same_memories_at_any_time(monkeypatch):
    shell = next(text for kind, text in BLOCKS if kind == "sh")
    arguments = shlex.split(shell.partition(" && memsel ")[2])
    monkeypatch.chdir(ROOT)
    for year in (2026, 2027, 2040):
        done = CliRunner().invoke(command, [*arguments, "--now", f"{year}-12-01T00:00Z"])
        assert done.exit_code == 0, done.output
        assert set(re.findall(r"^\d  (\S+)", done.stdout, re.MULTILINE)) == {"b-auth-depends-redis", "b-redis-code"}


@pytest.mark.parametrize(("code", "following"), PYTHON)
def test_every_python_block_runs_and_prints_what_follows_it(code, following):
    kind, printed = following
    assert kind == "text"
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().replace("\r\n", "\n") == printed


def test_every_line_of_the_speed_tables_is_that_of_the_result_file():
    result = ROOT / "benchmarks" / "results" / "compare.json"
    if not result.exists():
        pytest.skip("the benchmarks are not here")
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks import compare
    finally:
        sys.path.remove(str(ROOT))
    readme = (ROOT / "README.md").read_text("utf-8")
    assert compare.markdown(compare.read_result()) in readme
