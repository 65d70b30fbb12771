"""The bytecode of all modules in one file: used while sources are as they were, and never more than a help."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.processes import python

PROGRAM = """
import sys
from npu.native import bytecode
kept = bytecode.use()
sys.path.insert(0, "")
import npu.compiler.pipeline, lately
kinds = [type(module.__spec__.loader).__name__ for module in (npu.compiler.pipeline, lately)]
print(lately.VALUE, *kinds, npu.compiler.pipeline.__file__)
bytecode._WORTH_WRITING = 1
kept.keep()
"""
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "too long": lambda content: content + b"more",
    "foreign": lambda content: b"\x80\x04N." * 1000,
    "no table": lambda content: b"\x02" + content[1:],
}


def run(folder: Path, cache: Path) -> list[str]:
    """What the program prints: the value of a module, who loaded a module of ours and that one, and where ours lies."""
    done = python(PROGRAM, cwd=folder, NPULAB_CACHE_DIR=cache, PYTHONDONTWRITEBYTECODE="")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module and with a cache that the program has written."""
    (tmp_path / "lately.py").write_text("VALUE = 1\n")
    assert run(tmp_path, tmp_path / "cache")[:3] == ["1", "SourceFileLoader", "SourceFileLoader"]
    return tmp_path


def kept_in(cache: Path) -> Path:
    (path,) = cache.glob("*.modules")
    return path


def test_the_second_process_loads_the_same_from_the_file(folder: Path) -> None:
    value, ours, lately, place = run(folder, folder / "cache")
    assert (value, ours, lately) == ("1", "_BytecodeLoader", "_BytecodeLoader")
    assert place.endswith(os.path.join("npu", "compiler", "pipeline.py"))


def test_a_source_that_was_changed_is_read_again(folder: Path) -> None:
    (folder / "lately.py").write_text("VALUE = 22\n")
    assert run(folder, folder / "cache")[:3] == ["22", "_BytecodeLoader", "SourceFileLoader"]
    assert run(folder, folder / "cache")[:3] == ["22", "_BytecodeLoader", "_BytecodeLoader"]


def test_a_source_that_is_gone_is_not_found(folder: Path) -> None:
    (folder / "lately.py").unlink()
    done = python(PROGRAM, cwd=folder, NPULAB_CACHE_DIR=folder / "cache", PYTHONDONTWRITEBYTECODE="")
    assert "No module named 'lately'" in done.stderr


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_written_anew(folder: Path, damage: str) -> None:
    path = kept_in(folder / "cache")
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[damage](whole))
    assert run(folder, folder / "cache")[1] == "SourceFileLoader"
    assert run(folder, folder / "cache")[1] == "_BytecodeLoader"


def test_a_cache_that_cannot_be_written_is_no_fault(folder: Path) -> None:
    (folder / "file").write_text("no folder")
    assert run(folder, folder / "file" / "cache")[1] == "SourceFileLoader"


def test_two_processes_at_once_end_with_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "lately.py").write_text("VALUE = 1\n")
    with ThreadPoolExecutor(2) as pool:
        values = [task.result()[0] for task in [pool.submit(run, tmp_path, tmp_path / "cache") for _ in range(2)]]
    assert values == ["1", "1"]
    assert run(tmp_path, tmp_path / "cache")[1] == "_BytecodeLoader"
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
