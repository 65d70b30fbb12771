"""The page of `npu compare`."""

from __future__ import annotations

from npu.rendering.comparison import blocks, place, reason_text, side_name, totals
from npu.rendering.pages.page import Cell, Column, document, number, paragraphs, section, table, tiles
from npu.rendering.tables import kib
from npu.reports.comparison import ComparedOperator, Comparison


def comparison_page(comparison: Comparison) -> str:
    """Both runs side by side; tables only, so that it needs no library for pictures."""
    a, b = comparison.a, comparison.b
    share = f" ({comparison.more_cycles / a.totals.total_cycles:+.1%})" if a.totals.total_cycles else ""
    head = [
        paragraphs([f"A: {side_name(a)}", f"B: {side_name(b)}"]),
        tiles([("B takes", f"{comparison.more_cycles:+,} cycles{share}")]),
        table([Column(""), Column("A", True), Column("B", True)], totals(comparison)),
        paragraphs([*(f"A: {note}" for note in a.notes), *(f"B: {note}" for note in b.notes)], "quiet"),
    ]
    reasons = paragraphs(reason_text(reason) for reason in comparison.reasons())
    sections = [section("What explains the difference", reasons), section("Operators", _rows(comparison))]
    return document("Comparison", f"{a.name} and {b.name}", [*head, *sections])


def _rows(comparison: Comparison) -> str:
    columns = [Column("#", True), Column("operator"), Column("output", is_wide=True), Column("on")]
    columns += [
        Column("A", True),
        Column("B", True),
        Column("B - A", True),
        Column("traffic A", True),
        Column("traffic B", True),
    ]
    columns += [Column("block A"), Column("block B"), Column("arena A", True), Column("arena B", True), Column("found by")]
    a, b = comparison.a, comparison.b
    sums: list[Cell | str] = ["", "sum", "", "", number(a.totals.total_cycles), number(b.totals.total_cycles)]
    sums += [Cell(f"{comparison.more_cycles:+,}"), Cell(kib(a.traffic)), Cell(kib(b.traffic)), "", "", "", "", ""]
    return table(columns, [_cells(row) for row in comparison.rows], sums)


def _cells(row: ComparedOperator) -> list[Cell | str]:
    sides = row.a, row.b
    cells: list[Cell | str] = [number(row.index), row.type, row.name, " | ".join(dict.fromkeys(place(side) for side in sides))]
    cells += [number(side.cycles) if side else Cell("-", -1) for side in sides]
    cells += [Cell(f"{row.more_cycles:+,}" if row.more_cycles else "0", row.more_cycles)]
    cells += [number(side.traffic, kib(side.traffic)) if side else Cell("") for side in sides]
    cells += [blocks(side) for side in sides]
    cells += [number(side.arena_bytes, kib(side.arena_bytes)) if side else Cell("") for side in sides]
    return [*cells, row.match]
