"""The table of requirements and the tests that carry their ids: `python -m tests.support.coverage_table docs/coverage.md`.

Rows are those of `requirements.yaml`; tests are found by their `seed` markers. In a marker, a single letter belongs to the id
before it: `seed("X-F-ADD", "a", "b")`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
FAMILIES = {
    "V": "Limits of the constraint list 0.1",
    "X": "XNNPACK-like delegate",
    "T": "Operation guide",
    "D": "Delegates and tools",
}
ABOUT = (
    "Each row is a demand of a public document: the first list of constraints for Ethos-U (V), the documentation of LiteRT's",
    "XNNPACK delegate (X), its guide to operator compatibility (T), or its guides to delegates and their tools (D). Rows",
    "about code other than Python, or about packaging, are met in the form that this project has.",
)
_MOST_TESTS = 4

Found = dict[str, dict[str, set[str]]]
"""Requirement id to letter ("" without one) to the tests that carry it."""


@dataclass(frozen=True)
class Requirement:
    """One row: what is asked for, and the letters of which each needs a test."""

    id: str
    what: str
    letters: Mapping[str, str]
    documentation_only: bool


def requirements() -> list[Requirement]:
    """All rows in their order."""
    content = yaml.safe_load(Path(__file__).with_name("requirements.yaml").read_text(encoding="utf-8"))
    return [
        Requirement(name, row["what"], row.get("letters", {}), row.get("documentation_only", False))
        for name, row in content.items()
    ]


def markers(items: Iterable[pytest.Item]) -> Found:
    """The ids that collected tests carry."""
    found: Found = {}
    for item in items:
        test = re.sub(r"\[.*", "", item.nodeid, flags=re.DOTALL)
        for marker in item.iter_markers("seed"):
            current = ""
            for argument in marker.args:
                letter = argument if re.fullmatch("[a-z]", argument) else ""
                current = current if letter else argument
                found.setdefault(current, {}).setdefault(letter, set()).add(test)
    return found


def page(found: Found) -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Found) -> Iterator[str]:
    rows = requirements()
    yield "# Requirements and their tests"
    yield ""
    yield "Which requirements of public documents are met, and by which tests."
    yield "Generated from the `seed` markers of the tests by `make docs`; do not edit."
    yield ""
    yield from ABOUT
    yield ""
    yield "| Family | Rows | Covered | In part | Documentation | Missing |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for family, title in FAMILIES.items():
        states = [_status(row, found).split(":")[0] for row in rows if row.id.startswith(f"{family}-")]
        counts = [states.count(name) for name in ("covered", "in part", "documentation", "missing")]
        yield f"| {title} | {len(states)} | " + " | ".join(map(str, counts)) + " |"
    for family, title in FAMILIES.items():
        yield from ("", f"## {title}", "", "| Id | Requirement | Status | Tests |", "| --- | --- | --- | --- |")
        for row in rows:
            if row.id.startswith(f"{family}-"):
                yield f"| {row.id} | {_cell(_what(row))} | {_status(row, found)} | {_tests(found.get(row.id, {}))} |"


def _what(row: Requirement) -> str:
    letters = "; ".join(f"({letter}) {text}" for letter, text in row.letters.items())
    return f"{row.what}: {letters}" if letters else row.what


def _status(row: Requirement, found: Found) -> str:
    tests = found.get(row.id, {})
    absent = [letter for letter in row.letters if letter not in tests]
    if not tests:
        return "documentation" if row.documentation_only else "missing"
    return f"in part: no test of {', '.join(absent)}" if absent else "covered"


def _tests(tests: Mapping[str, set[str]]) -> str:
    names = sorted({name for test in tests.values() for name in test})
    shown = "<br>".join(f"`{name.removeprefix('tests/')}`" for name in names[:_MOST_TESTS])
    return shown + (f"<br>and {len(names) - _MOST_TESTS} more" if len(names) > _MOST_TESTS else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


class Collector:
    """A pytest plugin that keeps what was collected, before anything is deselected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = list(items)


def main(arguments: list[str]) -> int:
    """Writes the page to the file that is named; 1 if the tests cannot be collected."""
    collector = Collector()
    options: list[Any] = ["--collect-only", "-qqq", "-p", "no:cacheprovider", str(ROOT / "tests")]
    if pytest.main(options, plugins=[collector]) != 0:
        return 1
    Path(arguments[0]).write_text(page(markers(collector.items)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [str(PAGE)]))
