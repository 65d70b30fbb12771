"""The report of a run as text: a table of the operators and what the whole inference takes."""

from __future__ import annotations

from npu.plain import printable
from npu.rendering.styled import StyledText
from npu.rendering.tables import count, fitted, framed, kib, make_table, room_of, short, wrapped
from npu.rendering.totals import counted_elsewhere, error_text, memory_text
from npu.reports.report import OperatorReport, Report

_LESS_TELLING = ("written", "read", "MACs", "at work", "output", "MAC use", "share", "bound by", "on")
"""Columns of a run's table that narrow terminals do without, in this order."""


def run_text(report: Report, width: int) -> str:
    """The per-operator table and the totals for a terminal of `width` columns; narrow ones leave out what matters least."""
    total = report.totals.total_cycles or 1
    names = ["#", "operator", "output", "on", "cycles", "share", "at work", "MACs", "MAC use", "bound by", "read", "written"]
    rows = [_run_row(row, total) for row in report.operators]
    names, rows = fitted(names, rows, width, flexible="output", expendable=_LESS_TELLING)
    if "output" in names:
        position, room = names.index("output"), room_of(names, rows, width, flexible="output")
        for row in rows:
            row[position] = StyledText(short(row[position].plain, room))
    table = make_table(
        names, rows, width, flexible="output", right={"#", "cycles", "share", "at work", "MACs", "MAC use", "read", "written"}
    )
    return framed(width, f"{report.model} on {report.target}", table, _totals(report, width))


def _run_row(row: OperatorReport, total: int) -> list[StyledText]:
    cycles = row.cycles or 0
    use = f"{row.mac_utilisation:.0%}" if row.mac_utilisation else ""
    read, written = (sum(getattr(byte, name) for byte in row.bytes.values()) for name in ("read", "write"))
    own = f"{row.span_cycles:,}" if row.span_cycles else ""
    cells = (row.index, row.type, row.name, None, f"{cycles:,}", f"{cycles / total:.1%}", own, count(row.macs), use)
    texts = [StyledText(printable(str(cell))) if cell is not None else _device(row) for cell in cells]
    return [*texts, StyledText(_bound(row)), StyledText(kib(read)), StyledText(kib(written))]


def _bound(row: OperatorReport) -> str:
    return counted_elsewhere(row) or row.bound_by or "no work"


def _device(row: OperatorReport) -> StyledText:
    return StyledText(row.placement, style="green" if row.placement == "npu" else "yellow")


def _totals(report: Report, width: int) -> str:
    totals = report.totals
    clock = report.clock_hz / 1e6
    facts = [
        f"total   {totals.total_cycles:,} cycles at {clock:g} MHz = {totals.time_ms:.3f} ms"
        f"  (NPU {totals.npu_cycles:,}, CPU {totals.cpu_cycles:,})"
    ]
    if totals.npu_cycles:
        facts.append(f"error   {error_text(report.timing_error, report.target)}")
    if report.overheads:
        facts.append(f"around  {_overheads(report)}")
    facts.append(f"memory  {memory_text(report.totals, report.memories)}  ({report.system}, {report.memory_mode})")
    if totals.npu_cycles:
        facts.append(
            f"beats   AXI0 {totals.axi0_read_beats:,} read, {totals.axi0_write_beats:,} written; "
            f"AXI1 {totals.axi1_read_beats:,} read"
        )
    facts += [f"note    {printable(note)}" for note in report.notes or ()]
    if report.profile != "compiled" and any(row.violations for row in report.operators):
        facts.append("note    npu check says why operators are on the CPU")
    return "\n".join(line for fact in facts for line in wrapped(fact, width, "", " " * 8))


def _overheads(report: Report) -> str:
    """Sums by kind: what the CPU does around operators."""
    sums: dict[str, list[int]] = {}
    for overhead in report.overheads or ():
        sums.setdefault(overhead.what, []).append(overhead.cycles)
    parts = (f"{what} {sum(cycles):,}" + (f" ({len(cycles)}x)" if len(cycles) > 1 else "") for what, cycles in sums.items())
    error = max(overhead.relative_error for overhead in report.overheads or ())
    return f"{', '.join(parts)}  (CPU cycles are estimates, ±{error:.0%})"
