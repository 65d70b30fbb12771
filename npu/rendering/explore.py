"""What the commands for many models and much hardware print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npu.explore.point import PointRow
from npu.explore.sweep import Swept
from npu.plain import printable
from npu.rendering.styled import StyledText
from npu.rendering.tables import fitted, framed, kib, make_table, short

MOST_ROWS = 40
"""Points that the terminal shows; a table in a file has all."""


def sweep_text(swept: Swept, over: Sequence[str], tables: Sequence[Path], width: int) -> str:
    """The first points as a table, unless they are in files, and what was done."""
    failures = sum(row["error"] is not None for row in swept.rows)
    points = f"{len(swept.rows):,} point{'' if len(swept.rows) == 1 else 's'}"
    summary = f"{points}, {swept.measured:,} of them measured now, {failures:,} without a result"
    if tables:
        return printable(f"{', '.join(map(str, tables))}: {summary}") + "\n"
    shown = swept.rows[:MOST_ROWS]
    names = ["model", "target", *over, "ms", "cycles", "NPU", "CPU", "SRAM", "CPU ops"]
    cells = [[StyledText(cell) for cell in _cells(row, over)] for row in shown]
    names, cells = fitted(names, cells, width, flexible="model", expendable=("NPU", "CPU", "CPU ops"))
    table = make_table(names, cells, width, flexible="model", right={*over, "ms", "cycles", "NPU", "CPU", "SRAM", "CPU ops"})
    more = f"; the first {MOST_ROWS} are shown, -o writes all" if len(swept.rows) > MOST_ROWS else ""
    return framed(width, "Sweep", table, summary + more)


def _cells(row: PointRow, over: Sequence[str]) -> list[str]:
    head = [short(row["model"]), row["target"], *(value_text(row[field]) for field in over)]
    if row["error"] is not None:
        return [*head, "error", "", "", "", "", ""]
    counts = (f"{row[name]:,}" for name in ("total_cycles", "npu_cycles", "cpu_cycles"))
    return [*head, f"{row['time_ms']:.3f}", *counts, kib(row["sram_bytes"]), str(row["cpu_operators"])]


def value_text(value: Any) -> str:
    """A value of a swept field."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def series_of(row: PointRow, over: Sequence[str]) -> str:
    """What a line of a picture is called: everything that does not vary along it."""
    return ", ".join([row["model"], row["target"], *(f"{field.rpartition('.')[2]} {value_text(row[field])}" for field in over)])
