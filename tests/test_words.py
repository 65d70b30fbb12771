"""The words of the glossary's last table are not names in the code."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = [path for package in ("npu", "sim", "constraints") for path in sorted((ROOT / package).rglob("*.py"))]
REFUSED = re.compile(r"(?<![a-z])(tens|nng|sg|arch|claim|claims|claimed)(?![a-z])")


def refused_names(text: str) -> set[str]:
    """The names of a module that are, or hold as a part, a word that the glossary refuses."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME and REFUSED.search(token.string.lower())}


def test_no_name_in_the_code_is_a_word_that_the_glossary_refuses() -> None:
    names = {str(path.relative_to(ROOT)): refused_names(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: refused for name, refused in names.items() if refused} == {}


def test_a_refused_word_is_found_as_a_part_of_a_name() -> None:
    assert refused_names("sg_count = 1\nmessage = arch\n") == {"sg_count", "arch"}
