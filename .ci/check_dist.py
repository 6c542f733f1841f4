"""Checks what a wheel and an sdist hold: check_dist.py DIRECTORY, with one of each in it."""

from __future__ import annotations

import pathlib
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = (".pyx", ".pxd", ".hpp", ".h", ".cpp", ".c")


def wheel_faults(names: list[str]) -> list[str]:
    """What is wrong with the names of a wheel's files."""
    faults = [f"the wheel holds a source, {name}" for name in names if name.endswith(SOURCES)]
    package = ROOT / "src"
    files = [path for path in package.rglob("*.py*") if path.suffix != ".pyc"]
    wanted = [path.relative_to(package).as_posix() for path in files]
    for name in wanted:
        if name.endswith((".py", ".pyi", ".typed")) and name not in names:
            faults.append(f"the wheel lacks {name}")
        if name.endswith(".pyx"):
            module = name.removesuffix(".pyx")
            if not any(other.startswith(f"{module}.") and other.endswith((".so", ".pyd")) for other in names):
                faults.append(f"the wheel lacks the compiled module {module}")
            if f"{module}.pyi" not in names:
                faults.append(f"the wheel lacks {module}.pyi")
    if not any(name.endswith("licenses/LICENSE") for name in names):
        faults.append("the wheel lacks LICENSE")
    faults += [f"the wheel holds {name}, outside the package" for name in names if not name.startswith("memsel")]
    return faults


def sdist_faults(names: list[str]) -> list[str]:
    """What is wrong with the names of an sdist's files, its top folder taken off."""
    needed = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*") if path.is_file()]
    wanted = [path.relative_to(ROOT).as_posix() for path in needed if path.suffix not in (".pyc", ".so", ".pyd")]
    wanted += ["pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"]
    faults = [f"the sdist lacks {name}" for name in wanted if name not in names]
    faults += [f"the sdist holds {name}, which is built" for name in names if name.endswith((".so", ".pyd", ".pyc"))]
    return faults


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        faults = wheel_faults(archive.namelist())
    with tarfile.open(sdist) as archive:
        faults += sdist_faults([name.partition("/")[2] for name in archive.getnames()])
    for fault in faults:
        print(fault)
    print(f"{wheel.name} and {sdist.name}: {len(faults)} faults")
    return min(len(faults), 1)


sys.exit(main())
