"""Packages of other projects with the names of ours are told at once, not when something in them is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import ROOT, python


@pytest.mark.parametrize("name", ["sim", "constraints"])
@pytest.mark.parametrize("kind", ["package", "module"])
@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_foreign_package_of_the_same_name_is_named(name: str, kind: str, is_loaded: bool, tmp_path: Path) -> None:
    foreign = tmp_path / name / "__init__.py" if kind == "package" else tmp_path / f"{name}.py"
    foreign.parent.mkdir(exist_ok=True)
    foreign.touch()
    begin = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; " + (f"import {name}; " if is_loaded else "")
    done = python(f"{begin}import npu")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: import npu: package '{name}' must be npulab's, in {ROOT}, got {foreign}; ")


def test_a_folder_without_python_files_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    done = python(f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import npu, sim, constraints; print(sim.__file__)")
    assert done.stdout.strip() == str(ROOT / "sim" / "__init__.py")


def test_ours_behind_foreign_ones_of_other_names_are_taken(tmp_path: Path) -> None:
    (tmp_path / "simulator.py").touch()
    assert python(f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import npu").returncode == 0
