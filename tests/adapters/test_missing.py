"""An adapter whose framework is not installed says which extra to install, and memsel itself needs none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = {
    "langchain": ("langchain", "langchain_classic", "langchain_core"),
    "llama_index": ("llama_index",),
    "haystack": ("haystack",),
}
EXTRAS = {"langchain": "langchain", "llama_index": "llama-index", "haystack": "haystack"}


@pytest.mark.parametrize(("adapter", "package"), [(a, package) for a in FRAMEWORKS for package in FRAMEWORKS[a]])
def test_the_import_error_names_the_extra(adapter: str, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import memsel; import memsel.adapters.{adapter}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: memsel.adapters.{adapter} needs ")
    assert last.endswith(f'pip install "memsel[{EXTRAS[adapter]}]"')
