"""What is remembered of YAML files: used without the parser, and never more than a help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npu.hardware import parsed
from npu.hardware.document import read_document

from tests.support.processes import python

PROGRAM = """
import sys
from npu.hardware.catalogue import load_variant
print(load_variant("ethos-u65-512"))
print("yaml" in sys.modules, file=sys.stderr)
"""


def loaded(folder: Path) -> tuple[str, bool]:
    """A variant as text, and whether the parser was imported for it."""
    done = python(PROGRAM, NPULAB_CACHE_DIR=folder)
    assert done.returncode == 0
    return done.stdout, done.stderr == "True\n"


def test_the_second_process_needs_no_parser_and_loads_the_same(tmp_path: Path) -> None:
    first, second = loaded(tmp_path), loaded(tmp_path)
    assert (first[0], first[1], second[1]) == (second[0], True, False)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "foreign": lambda content: b"\x80\x04N." * 1000,
    "no mapping": lambda content: b"[1, 2]",
    "too deep": lambda content: b"[" * 100_000,
    "of other texts": lambda content: b'{"extends: x": {}}',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_is_damaged_or_foreign_is_made_again(damage: str, tmp_path: Path) -> None:
    whole = loaded(tmp_path)[0]
    (path,) = tmp_path.glob("descriptions-*.json")
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert loaded(tmp_path) == (whole, True)
    assert loaded(tmp_path) == (whole, False)


def test_without_a_place_to_remember_it_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert loaded(tmp_path / "file" / "cache")[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("NPULAB_CACHE_DIR", str(tmp_path / "cache"))
    parsed.parsed.cache_clear()
    parsed._path.cache_clear()
    yield tmp_path
    parsed._path.cache_clear()


def test_a_changed_file_is_read_anew(folder: Path) -> None:
    path = folder / "mine.yaml"
    values = []
    for text in ("depth: 1", "depth: 2", "depth: 1e3"):
        path.write_text(text)
        parsed.parsed.cache_clear()
        values.append((read_document(path)["depth"], read_document(path)["depth"]))
    assert values == [(1, 1), (2, 2), (1000.0, 1000.0)]


def test_what_json_has_not_is_parsed_every_time(folder: Path) -> None:
    path = folder / "mine.yaml"
    path.write_text("day: 2026-01-01")
    kinds = []
    for _ in range(2):
        parsed.parsed.cache_clear()
        kinds.append(type(read_document(path)["day"]).__name__)
    assert kinds == ["date", "date"]


def test_only_so_many_texts_are_remembered(folder: Path) -> None:
    for number in range(parsed.MOST_TEXTS + 3):
        parsed.parsed(f"depth: {number}", "here")
    assert len(parsed._remembered()) <= parsed.MOST_TEXTS
