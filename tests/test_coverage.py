"""The coverage page is that of the tests, and no marker names a requirement that does not exist."""

from __future__ import annotations

import re

import pytest

from tests.support.coverage_table import FAMILIES, PAGE, markers, page, requirements

NUMBERED = re.compile("[VXTD]-[A-Z0-9]+-[0-9]+")


def test_the_page_is_up_to_date(collected: list[pytest.Item]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(markers(collected)), "run: make docs"


def test_markers_name_requirements_and_letters_that_exist(collected: list[pytest.Item]) -> None:
    known = {row.id: row for row in requirements()}
    for name, letters in markers(collected).items():
        if name in known:
            assert set(letters) - {""} <= set(known[name].letters), f"{name} has no such letters: {letters}"
        elif NUMBERED.fullmatch(name):  # kernel tests carry the kind of every operator, also of those without a row
            assert any(other.startswith(name) for other in known), f"{name} is in no row: {letters}"


def test_every_row_belongs_to_a_family_and_says_something() -> None:
    for row in requirements():
        assert row.id.split("-")[0] in FAMILIES
        assert len(row.what) > 2
