"""One search of a standard name finds its declaration: the table of CONTRIBUTING.md is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| [^|`]+ \| `([^`]+)` \| `([\w/.-]+)` \|$", re.MULTILINE)
TRIES = ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where things are")[2])
SOURCES = [
    path
    for folder in ("npu", "sim", "constraints", "configs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".yaml")
]


def test_ten_searches_are_written_down() -> None:
    assert len(TRIES) == 10


@pytest.mark.parametrize(("text", "place"), TRIES, ids=[text for text, _ in TRIES])
def test_a_search_leads_to_the_declaration(text: str, place: str) -> None:
    hits = [str(path.relative_to(ROOT)) for path in SOURCES if text in path.read_text(encoding="utf-8")]
    assert place in hits
    assert len(hits) <= 3, hits
