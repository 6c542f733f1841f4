"""What imports what: the arrows of the house, optional packages, and a tree that was not built."""

from __future__ import annotations

import ast
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import memsel

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "src" / "memsel"

# The room that a module lies in, by its name relative to the package.
ROOMS = {
    "__init__": "package",
    "__main__": "cli",
    "cli": "cli",
    "adapters": "adapters",
    "policy": "policy",
    "pool": "pool",
    "selector": "selector",
    "entry": "entry",
    "arrays": "arrays",
    "columns": "columns",
    "files": "files",
    "tokens": "tokens",
    "poolfile": "pool",
    "_pool": "_pool",
    "_core": "_core",
    "_arrow": "_arrow",
    "_scripts": "_scripts",
    "_gather": "_gather",
    "config": "config",
    "errors": "errors",
}
LEAVES = {"config", "errors"}
# What a room may import besides itself and the leaves.
ARROWS: dict[str, set[str]] = {
    "cli": {"adapters", "files", "policy", "pool", "selector", "arrays", "entry", "columns", "tokens", "package"},
    "files": {"policy", "entry"},
    "adapters": {"files", "package", "policy", "pool", "selector", "arrays", "entry", "columns", "tokens"},
    "policy": {"tokens"},
    "pool": {"entry", "arrays", "columns", "tokens", "_core", "_gather", "_pool"},
    "selector": {"entry", "tokens", "_core", "_gather"},
    "arrays": {"columns", "_core"},
    "entry": {"_gather"},
    "columns": {"_core", "_arrow"},
    "tokens": {"_scripts"},
    "config": set(),
    "errors": set(),
    "_core": set(),
    "_pool": {"_core"},
    "_gather": set(),
    "_scripts": set(),
    "_arrow": set(),
    "package": set(ROOMS.values()) - {"cli", "adapters"},
}
COMPILED = sorted(SOURCE.rglob("*.pyx"))
OPTIONAL = (
    "click", "rich", "starlette", "uvicorn", "mcp", "langchain_core", "langchain", "llama_index", "haystack", "pyarrow",
    "tiktoken", "pytest", "zerda", "polars", "pandas", "sqlite3", "asyncio",
)  # fmt: skip


def imported_names(path: pathlib.Path) -> set[str]:
    """The modules of memsel that a module imports, wherever in it the import stands, relative to the package."""
    package = ["memsel", *path.relative_to(SOURCE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            # A name imported from the package itself may be a module or a public name of __init__.
            dotted = [f"{origin}.{alias.name}" for alias in node.names] if origin == "memsel" else [origin]
        else:
            continue
        for name in dotted:
            parts = name.split(".")
            if parts[0] == "memsel":
                found.add(parts[1] if len(parts) > 1 and parts[1] in ROOMS else "__init__")
    return found


def modules() -> list[pathlib.Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_imports_only_along_the_arrows(path: pathlib.Path) -> None:
    top = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert top in ROOMS, f"{path.name} lies in no room of the house"
    room = ROOMS[top]
    wrong = {ROOMS[name] for name in imported_names(path)} - ARROWS[room] - LEAVES - {room}
    assert not wrong, f"{path.relative_to(SOURCE)} imports {sorted(wrong)}"


def test_the_leaves_import_nothing_of_memsel() -> None:
    for leaf in LEAVES:
        assert imported_names(SOURCE / f"{leaf}.py") == set()


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.stem)
def test_a_compiled_module_imports_nothing_of_memsel_outside_its_folder(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    imports = re.findall(r"^\s*(?:from\s+(\S+)\s+c?import|c?import\s+(\S+))", text, flags=re.MULTILINE)
    beside = {other.stem for other in path.parent.glob("*.pyx")} | LEAVES
    if path.parent == SOURCE:
        # The pool's kernel scores and packs as the columns' kernel does, through its declarations.
        beside = ARROWS[path.stem]
    for pair in imports:
        module = pair[0] or pair[1]
        assert not module.startswith((".", "memsel")) or module.split(".")[-1] in beside, module


def test_the_kernel_headers_know_no_python() -> None:
    headers = sorted((SOURCE.parent / "kernel").iterdir())
    assert headers
    for path in headers:
        assert "Python.h" not in path.read_text(encoding="utf-8")


def test_import_memsel_imports_no_optional_package() -> None:
    code = "import sys; before = set(sys.modules); import memsel; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "memsel" in loaded
    assert loaded.isdisjoint(OPTIONAL)
    rooms = {name.split(".")[1] for name in done.stdout.split() if name.startswith("memsel.")}
    assert rooms.isdisjoint({"cli", "adapters"})


def test_a_tree_that_was_not_built_says_what_to_run(tmp_path: pathlib.Path) -> None:
    unbuilt = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(SOURCE, tmp_path / "memsel", ignore=unbuilt)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.meta_path[:] = [f for f in sys.meta_path if "
    code += "'editable' not in type(f).__module__ and 'Editable' not in type(f).__name__]; import memsel"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "pip install" in done.stderr.splitlines()[-1]


def test_a_built_module_that_fails_says_so_itself() -> None:
    code = "import os; os.environ['MEMSEL_ISA'] = 'abacus'; import memsel"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "MEMSEL_ISA is 'abacus'; this build on this processor runs baseline" in done.stderr.splitlines()[-1]


def test_every_public_name_is_there_and_documented() -> None:
    for name in memsel.__all__:
        assert hasattr(memsel, name)
        assert name == "__version__" or getattr(memsel, name).__doc__
    assert sorted(memsel.__all__) == memsel.__all__
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", memsel.__version__)
