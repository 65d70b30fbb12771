"""The report for a terminal: one line an operator, its reasons below it, then partitions, what to fix first, and the sums."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from npu.plain import printable
from npu.records import dataclass
from npu.rendering import facts
from npu.rendering.styled import StyledText
from npu.rendering.tables import count, kib
from npu.rendering.terminal import WIDEST_FILLED, WIDEST_TEXT
from npu.reports.check_report import CheckReport, Crossing, OperatorCheck
from npu.tabular import as_ranges

_STYLES = {"npu": "green", "xnnpack": "yellow", "reference": "red"}
_MOST_REMEDIES = 8
_MOST_NUMBERS = 12
_WIDE = 110
"""Columns from which a table shows the names of tensors and whole operator types."""
_LONGEST_TYPE = 18
_LEAST_ELASTIC = 8
_EXPENDABLE = ("output", "MACs", "NPU cycles", "CPU cycles")
"""Columns that narrow terminals do without, in this order."""


def render_text(report: CheckReport, width: int, *, colour: bool = False) -> str:
    """The report laid out for `width` columns; plain text unless `colour`."""
    return "\n".join(line.drawn(colour=colour).rstrip() for line in _lines(report, width)) + "\n"


def _lines(report: CheckReport, width: int) -> Iterable[StyledText]:
    yield from _fitted(f"{report.model} on {report.target}, profile {report.profile}", width, style="bold")
    yield from _fitted(facts.headline(report), width)
    yield StyledText("")
    yield from _operators(report, width)
    yield from _partitions(report, width)
    yield from _remedies(report, width)
    yield from _summary(report, width)


@dataclass(frozen=True, slots=True)
class _ReportColumn:
    title: str
    cells: Sequence[str]
    right: bool = False
    elastic: bool = False

    @property
    def width(self) -> int:
        return max(len(self.title), *(len(cell) for cell in self.cells)) if self.cells else len(self.title)


def _operators(report: CheckReport, width: int) -> Iterable[StyledText]:
    rows = report.operators
    on = [facts.place(row.device) for row in rows]
    columns = [
        _ReportColumn("#", [row.number for row in rows], right=True),
        _ReportColumn("operator", [row.base.type if width >= _WIDE else _beginning(row.base.type) for row in rows]),
        _ReportColumn("name", [row.base.name for row in rows], elastic=True),
        _ReportColumn("output", [facts.shapes(row)[1] for row in rows], elastic=True),
        _ReportColumn("on", on),
        _ReportColumn("MACs", [f"{row.mac_share:.1%}" if row.base.macs else "" for row in rows], right=True),
        _ReportColumn("CPU cycles", [count(row.cpu_cycles) or "0" for row in rows], right=True),
        _ReportColumn("NPU cycles", [facts.npu_cycles(row, lambda cycles: count(cycles) or "0") for row in rows], right=True),
    ]
    if width < _WIDE:
        columns = [column for column in columns if column.title != "name"]
    for title in _EXPENDABLE:
        if _least(columns) <= width:
            break
        columns = [column for column in columns if column.title != title]
    widths = _widths(columns, width)
    yield _row([column.title for column in columns], columns, widths, style="bold")
    yield StyledText("  ".join("─" * min(width, WIDEST_FILLED) for width in widths))
    for position, row in enumerate(rows):
        yield _row([column.cells[position] for column in columns], columns, widths, device=row.device)
        yield from _reasons(row, width, widths[0] + 2)


def _least(columns: Sequence[_ReportColumn]) -> int:
    """Columns of the terminal that a table needs at least."""
    sizes = (min(column.width, _LEAST_ELASTIC) if column.elastic else column.width for column in columns)
    return sum(sizes) + 2 * (len(columns) - 1)


def _beginning(kind: str) -> str:
    return kind if len(kind) <= _LONGEST_TYPE else f"{kind[: _LONGEST_TYPE - 1]}…"


def _widths(columns: Sequence[_ReportColumn], width: int) -> list[int]:
    """Full width for every column, but elastic ones share what is left."""
    fixed = sum(column.width for column in columns if not column.elastic) + 2 * (len(columns) - 1)
    elastic = [column.width for column in columns if column.elastic]
    left = max(width - fixed, _LEAST_ELASTIC * len(elastic))
    if sum(elastic) > left:
        smallest = min(elastic)
        share = left // len(elastic)
        elastic = [min(size, share) if size > share else size for size in elastic]
        spare = left - sum(elastic)
        elastic = [size + spare if column.width > size and size != smallest else size
                   for size, column in zip(elastic, (c for c in columns if c.elastic), strict=True)]  # fmt: skip
    sizes = iter(elastic)
    return [next(sizes) if column.elastic else column.width for column in columns]


def _row(
    cells: Sequence[str], columns: Sequence[_ReportColumn], widths: Sequence[int], *, style: str = "", device: str | None = None
) -> StyledText:
    line = StyledText(style=style)
    for position, (cell, column, size) in enumerate(zip(cells, columns, widths, strict=True)):
        cell = printable(cell)
        shown = cell if len(cell) <= size else "…" + cell[-(size - 1) :]
        filled = min(size, WIDEST_FILLED)
        padded = shown.rjust(filled) if column.right else shown.ljust(filled)
        line.append(padded, style=_STYLES[device] if device and column.title == "on" else "")
        if position < len(columns) - 1:
            line.append("  ")
    return line


def _reasons(row: OperatorCheck, width: int, indent: int) -> Iterable[StyledText]:
    for violation in row.base.violations:
        yield from _wrapped(f"{violation.rule}: {violation.message}", width, indent)
        if violation.fix:
            yield from _wrapped(f"fix: {violation.fix}", width, indent + 2, style="italic")


def _wrapped(text: str, width: int, indent: int, *, style: str = "") -> Iterable[StyledText]:
    first, later = " " * indent, " " * (indent + 2)
    for line in textwrap.wrap(
        printable(text), min(width, WIDEST_TEXT), initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    ):
        yield StyledText(line, style=style)


def _fitted(text: str, width: int, *, style: str = "") -> Iterable[StyledText]:
    """A line as it is laid out if it fits, else folded with single spaces."""
    plain = printable(text)
    if len(plain) <= min(width, WIDEST_TEXT):
        return [StyledText(plain, style=style)]
    indent = len(plain) - len(plain.lstrip())
    return _wrapped(" ".join(plain.split()), width, indent, style=style)


def _partitions(report: CheckReport, width: int) -> Iterable[StyledText]:
    if not report.partitions:
        return
    yield StyledText("")
    yield StyledText("NPU partitions", style="bold")
    handed = facts.crossing_lists(report)
    for part, (number, reads, writes) in zip(report.partitions, handed, strict=True):
        members = as_ranges(part.operators)
        where = f" of subgraph {part.graph}" if part.graph else ""
        word = "operator" if len(part.operators) == 1 else "operators"
        yield from _wrapped(
            f"{number}: {word} {members}{where}, {count(part.macs) or '0'} MACs, {part.npu_cycles:,} cycles", width, 2
        )
        yield from _wrapped(f"takes {_sum(part.reads)}{reads or 'nothing'}", width, 5)
        yield from _wrapped(f"hands over {_sum(part.writes)}{writes or 'nothing'}", width, 5)
    if report.splitting:
        names = _numbers([f"{row.number} {row.base.type}" for row in report.splitting])
        word = "operator" if len(report.splitting) == 1 else "operators"
        yield from _wrapped(f"split by {word} {names}", width, 2)


def _sum(crossings: Sequence[Crossing]) -> str:
    """What comes before the list of several tensors: their bytes."""
    size = sum(crossing.bytes for crossing in crossings)
    return f"{kib(size) if size >= 1024 else f'{size} B'}: " if len(crossings) > 1 else ""


def _numbers(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NUMBERS])
    return shown + (f" and {len(names) - _MOST_NUMBERS} more" if len(names) > _MOST_NUMBERS else "")


def _remedies(report: CheckReport, width: int) -> Iterable[StyledText]:
    remedies = facts.worthwhile(report, _MOST_REMEDIES)
    if not remedies:
        return
    yield StyledText("")
    yield from _fitted("What to change first: total if the NPU took", width, style="bold")
    names = max(len(printable(what)) for what, _, _ in remedies)
    totals = max(len(f"{total:,}") for _, total, _ in remedies)
    for what, total, share in remedies:
        yield from _fitted(f"  {printable(what).ljust(names)}  {total:>{totals},} cycles  {-share:>6.1%}", width)


def _summary(report: CheckReport, width: int) -> Iterable[StyledText]:
    yield StyledText("")
    yield StyledText("Summary", style="bold")
    used = facts.used_devices(report)
    names = max((len(name) for name, _ in used), default=0)
    for name, tensor in used:
        word = "operator " if tensor.operators == 1 else "operators"
        macs = f"{tensor.macs / report.totals.macs:>6.1%} of MACs" if report.totals.macs else "no MACs"
        yield from _fitted(f"  {name.ljust(names)} {tensor.operators:>4} {word} {macs} {tensor.cycles:>12,} cycles", width)
    yield from _fitted(f"  {facts.overhead_name(report)}: {report.overhead_cycles:,} cycles", width)
    yield from _fitted(f"  total {facts.total_line(report)}", width)
    if memory := facts.memory_line(report):
        yield from _wrapped(memory, width, 2)
    for message in facts.failures(report):
        yield from _wrapped(f"failed: {message}", width, 2)
    for note in facts.notes(report):
        yield from _wrapped(note, width, 2)
