"""Modules of this project are found where they lie; what is not plain is left to Python's own finder."""

from __future__ import annotations

import importlib
import os
import py_compile
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import cache_from_source, module_from_spec
from pathlib import Path

import pytest

from npu.finder import Finder, find_quickly


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a module `one` that is compiled."""
    folder = tmp_path / "some_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "one.py").write_text("def answer():\n    return 1\n")
    py_compile.compile(str(folder / "one.py"))
    return folder


def test_a_module_is_found_with_its_code(package: Path) -> None:
    spec = Finder(("some_package",)).find_spec("some_package.one", [str(package)])
    assert spec is not None
    assert (spec.origin, spec.cached) == (str(package / "one.py"), cache_from_source(str(package / "one.py")))
    assert spec.has_location
    assert spec.submodule_search_locations is None
    module = module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    assert module.answer() == 1
    assert module.__file__ == str(package / "one.py")
    assert spec.loader.get_source("some_package.one") == "def answer():\n    return 1\n"  # type: ignore[attr-defined]


def _changed(package: Path) -> None:
    (package / "one.py").write_text("def answer():\n    return 22\n")


def _touched(package: Path) -> None:
    os.utime(package / "one.py", (1, 1))


def _by_hash(package: Path) -> None:
    py_compile.compile(str(package / "one.py"), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def _moved(package: Path) -> None:
    py_compile.compile(str(package / "one.py"), dfile="elsewhere.py")


LEFT = {
    "of another size": _changed,
    "of another time": _touched,
    "that knows its source by a hash": _by_hash,
    "of another place": _moved,
    "cut short": lambda package: os.truncate(cache_from_source(str(package / "one.py")), 7),
    "that is not there": lambda package: os.remove(cache_from_source(str(package / "one.py"))),
    "without source": lambda package: os.remove(package / "one.py"),
}


@pytest.mark.parametrize("change", LEFT.values(), ids=LEFT)
def test_compiled_code_that_may_not_hold_is_left_to_python(package: Path, change: Callable[[Path], None]) -> None:
    change(package)
    assert Finder(("some_package",)).find_spec("some_package.one", [str(package)]) is None


def test_packages_and_what_others_have_are_left_to_python(package: Path) -> None:
    finder = Finder(("some_package",))
    assert finder.find_spec("some_package") is None
    assert finder.find_spec("some_package", [str(package.parent)]) is None
    assert finder.find_spec("another.one", [str(package)]) is None


def test_imports_use_it(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    monkeypatch.syspath_prepend(str(package.parent))
    others = [*sys.meta_path]
    find_quickly(("some_package",))
    assert [one for one in sys.meta_path if not isinstance(one, Finder)] == others
    assert isinstance(sys.meta_path[others.index(PathFinder)], Finder)
    module = importlib.import_module("some_package.one")
    assert type(module.__loader__).__module__ == "npu.finder"
    assert module.answer() == 1


def test_a_process_that_searches_no_paths_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    find_quickly(("some_package",))
    assert sys.meta_path == []
