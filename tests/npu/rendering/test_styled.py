"""Tables fit the terminal, cells keep to their sides, and colours are there only where they are shown."""

from __future__ import annotations

import pytest

from npu.rendering.styled import ColumnStyle, StyledText, TextTable, columns_of

ROWS = (("conv", "1,234", "a"), ("a longer operator", "5", "what was found, in a sentence that is folded between its words"))


def _lines(width: int, *, colour: bool = False, folds: bool = True) -> list[str]:
    table = TextTable([ColumnStyle("operator"), ColumnStyle("cycles", "right"), ColumnStyle("what", folds=folds)])
    for row in ROWS:
        table.add_row(StyledText(row[0], "green"), *row[1:])
    return table.lines(width, colour=colour)


def test_a_folded_column_has_the_room_of_the_others() -> None:
    assert _lines(60) == [
        "",
        " operator            cycles   what",
        " " + "─" * 58,
        " conv                 1,234   a",
        " a longer operator        5   what was found, in a sentence",
        "                              that is folded between its",
        "                              words",
        "",
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 79])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(columns_of, _lines(width, folds=False))) <= width


def test_what_is_cut_ends_in_a_sign() -> None:
    assert _lines(40, folds=False)[4] == " a longer ope…        5   what was fou…"


def test_colours_do_not_move_columns() -> None:
    plain, coloured = _lines(60)[3], _lines(60, colour=True)[3]
    assert coloured == plain.replace("conv", "\x1b[32mconv\x1b[0m")


WIDTHS = {"ascii": ("conv", 4), "east_asian": ("畳み込み", 8), "accent": ("e\u0301", 1), "signs_of_ours": ("…─±", 3)}


@pytest.mark.parametrize("case", WIDTHS)
def test_columns_of_text(case: str) -> None:
    text, columns = WIDTHS[case]
    assert columns_of(text) == columns


def test_a_table_is_no_wider_than_its_cells() -> None:
    assert {len(line) for line in _lines(10_000)} == {len(line) for line in _lines(10_000, folds=False)}
    assert max(map(len, _lines(10_000))) < 100
