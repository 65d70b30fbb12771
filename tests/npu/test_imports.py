"""Modules of packages are those that Python's own finder finds, and never out of date."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from types import ModuleType

import pytest

from npu import imports

NAME = "package_of_a_test"
FILES = ("__init__.py", "plain.py", "beside.py", f"beside{EXTENSION_SUFFIXES[0]}", "folder.py", "folder/__init__.py")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package on the path, whose modules are found quickly."""
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(tmp_path)
    for name in FILES:
        (tmp_path / NAME / name).parent.mkdir(exist_ok=True)
        (tmp_path / NAME / name).write_text("WHAT = 1\n")
    imports.find_quickly()
    yield tmp_path / NAME
    for name in [name for name in sys.modules if name.startswith(NAME)]:
        del sys.modules[name]


def imported() -> ModuleType:
    """`plain`, loaded anew."""
    sys.modules.pop(f"{NAME}.plain", None)
    return importlib.import_module(f"{NAME}.plain")


def test_a_module_is_that_of_pythons_own_finder(package: Path) -> None:
    module = imported()
    usual = sys.path_hooks[-1](str(package)).find_spec(module.__name__)
    assert usual is not None
    assert module.__spec__ is not None
    assert type(module.__spec__.loader) is imports._BytecodeLoader
    assert module.__spec__.origin == module.__file__ == usual.origin
    assert module.__spec__.has_location
    assert module.__spec__.cached == module.__cached__ == usual.cached


def rewritten(source: Path, bytecode: Path) -> None:
    """The source is another one of the same size, later."""
    source.write_text("WHAT = 2\n")
    os.utime(source, (2**31, 2**31))


def truncated(source: Path, bytecode: Path) -> None:
    """Both are others, and the bytecode is no longer whole."""
    rewritten(source, bytecode)
    bytecode.write_bytes(b"")


def unreadable(source: Path, bytecode: Path) -> None:
    """There is a folder in place of the bytecode."""
    rewritten(source, bytecode)
    bytecode.unlink()
    bytecode.mkdir()


@pytest.mark.parametrize("change", [rewritten, truncated, unreadable])
def test_bytecode_that_is_out_of_date_or_broken_is_not_used(package: Path, change: Callable[[Path, Path], None]) -> None:
    first = imported()
    assert (first.WHAT, imported().WHAT, Path(first.__cached__).exists()) == (1, 1, True)
    change(package / "plain.py", Path(first.__cached__))
    assert imported().WHAT == 2


@pytest.mark.parametrize(("name", "file"), [("beside", FILES[3]), ("folder", FILES[5])])
def test_extensions_and_folders_come_before_sources(package: Path, name: str, file: str) -> None:
    importlib.import_module(NAME)
    spec = PathFinder.find_spec(f"{NAME}.{name}", [str(package)])
    assert spec is not None
    assert spec.origin == str(package / file)


def test_a_module_that_comes_later_is_found(package: Path) -> None:
    importlib.import_module(NAME)
    (package / "later.py").write_text("WHAT = 3\n")
    importlib.invalidate_caches()
    assert importlib.import_module(f"{NAME}.later").WHAT == 3


def test_the_command_line_uses_it_and_a_library_does_not() -> None:
    program = "import sys, npu.api; print([hook.__module__ for hook in sys.path_hooks])"
    assert "npu.imports" not in subprocess.check_output([sys.executable, "-c", program], text=True)
    program = "import sys; sys.argv[1:] = ['--version']; sys.exit = print; import npu.__main__ as one, npu.cli.main as main\n"
    program += "main.end = lambda code: print([hook.__module__ for hook in sys.path_hooks])\none.program()"
    assert "npu.imports" in subprocess.check_output([sys.executable, "-c", program], text=True)
