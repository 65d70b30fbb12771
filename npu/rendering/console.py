"""How results look in a terminal: tables, summaries and progress bars. Reads reports, computes nothing.

Colour and live progress only appear on a real terminal; a pipe gets plain text.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from npu.graph.graph import Quantization
from npu.hardware.variant import Variant
from npu.plain import printable
from npu.rendering.terminal import is_coloured, say, width_for
from npu.reports.report import OperatorReport, Report, Totals

if TYPE_CHECKING:
    from npu.toolchain.diff import DiffResult
    from npu.toolchain.explain import ExplainedModel, ExplainedOperator
    from npu.toolchain.fix import Fixed
    from sim.verify.verifier import Finding


def print_compiled(report: Report, path: Path, size: int) -> None:
    """What was written and what it needs on the board."""
    on_npu = sum(row.placement == "npu" for row in report.operators)
    totals = report.totals
    _say_line(
        f"{path}: {size:,} bytes for {report.target} ({report.memory_mode}); "
        f"{on_npu} of {len(report.operators)} operators on the NPU; "
        f"{_memory(totals)}"
    )


def print_fixed(fixed: Fixed, path: Path) -> None:
    """What was changed in a model, and what it gained."""
    for change in fixed.changes:
        _say_line(f"{change.operator}: {change.what}")
    if not fixed.changes:
        _say_line(f"nothing to fix; {path} is {fixed.before.model} as it was")
        return
    rows = []
    for report in (fixed.before, fixed.after):
        rows.append((report.devices["npu"].operators, len(report.operators), report.totals.total_cycles or 0))
    (npu, every, cycles), (npu_now, every_now, cycles_now) = rows
    share = f" ({cycles_now / cycles - 1:+.1%})" if cycles else ""
    count_of_changes = f"{len(fixed.changes)} change{'s' if len(fixed.changes) > 1 else ''}"
    _say_line(
        f"{path}: {count_of_changes}; on the NPU {npu} of {every} operators before, {npu_now} of {every_now} now; "
        f"{cycles:,} cycles before, {cycles_now:,} now{share}"
    )


def _say_line(text: str) -> None:
    say(printable(text) + "\n")


_LESS_TELLING = ("written", "read", "MACs", "output", "MAC use", "share")
"""Columns of a run's table that narrow terminals do without, in this order."""


def print_run(report: Report) -> None:
    """The per-operator table and the totals of one inference."""
    say(run_text(report, width_for(None)))


def run_text(report: Report, width: int) -> str:
    """The per-operator table and the totals for a terminal of `width` columns; narrow ones leave out what matters least."""
    total = report.totals.total_cycles or 1
    names = ["#", "operator", "output", "on", "cycles", "share", "MACs", "MAC use", "bound by", "read", "written"]
    rows = [_run_row(row, total) for row in report.operators]
    names, rows = _fitted(names, rows, width, flexible="output", expendable=_LESS_TELLING)
    if "output" in names:
        position, room = names.index("output"), _room(names, rows, width, flexible="output")
        for row in rows:
            row[position] = Text(short(row[position].plain, room))
    table = _table(names, rows, width, flexible="output", right={"#", "cycles", "share", "MACs", "MAC use", "read", "written"})
    return _render(width, f"{report.model} on {report.target}", table, _totals(report, width))


def _run_row(row: OperatorReport, total: int) -> list[Text]:
    cycles = row.cycles or 0
    use = f"{row.mac_utilisation:.0%}" if row.mac_utilisation else ""
    read, written = (sum(getattr(each, name) for each in row.bytes.values()) for name in ("read", "write"))
    bound = f"in {row.absorbed_into}" if row.absorbed_into is not None else row.bound_by or "no work"
    cells = (row.index, row.type, row.name, None, f"{cycles:,}", f"{cycles / total:.1%}", count(row.macs), use)
    texts = [Text(printable(str(each))) if each is not None else _device(row) for each in cells]
    return [*texts, Text(bound), Text(kib(read)), Text(kib(written))]


def _fitted(
    names: list[str], rows: list[list[Text]], width: int, *, flexible: str, expendable: tuple[str, ...]
) -> tuple[list[str], list[list[Text]]]:
    """The table without as many of its expendable columns, in that order, as it takes to fit `width`."""
    for dropped in expendable:
        if _fixed_width(names, rows, flexible=flexible) <= width:
            break
        position = names.index(dropped)
        names = names[:position] + names[position + 1 :]
        rows = [row[:position] + row[position + 1 :] for row in rows]
    return names, rows


def _fixed_width(names: list[str], rows: list[list[Text]], *, flexible: str) -> int:
    """Columns that the table needs when its flexible column is as narrow as its name."""
    widths = [
        max(len(name), *(each.cell_len for each in cells)) if name != flexible else len(name)
        for name, cells in zip(names, zip(*rows, strict=True), strict=False)
    ]
    return sum(widths) + 3 * (len(names) - 1) + 2


def _room(names: list[str], rows: list[list[Text]], width: int, *, flexible: str) -> int:
    """Columns that are left for the flexible column."""
    return max(len(flexible), width - _fixed_width(names, rows, flexible=flexible) + len(flexible))


def _table(names: list[str], rows: list[list[Text]], width: int, *, flexible: str, right: set[str]) -> Table:
    """A table for `width` columns whose columns keep their full width, but for one that shrinks."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    room = _room(names, rows, width, flexible=flexible)
    for name in names:
        justify: Literal["right", "left"] = "right" if name in right else "left"
        limit = room if name == flexible else None
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", max_width=limit)
    for row in rows:
        table.add_row(*row)
    return table


def print_prediction(output: npt.NDArray[Any], quantization: Quantization | None, labels: list[str]) -> None:
    """The likeliest class of a classifier's output."""
    scores = output.astype(np.float64).reshape(-1)
    if quantization is not None:
        scores = (scores - quantization.zero_point) * quantization.scale
    best = int(np.argmax(scores))
    label = labels[best] if best < len(labels) else f"class {best}"
    _say_line(f"prediction: {label} (score {scores[best]:.3f})")


def print_pmu(pmu: Mapping[str, Any]) -> None:
    """The performance counters, in the driver's order, and how the units spent the NPU's time."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, justify in (("id", "right"), ("code", "right"), ("event", "left"), ("value", "right")):
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name, numbers in pmu["events"].items():
        table.add_row(str(numbers["driver_id"]), f"{numbers['code']:#x}", name, f"{pmu['total'][name]:,}")
    units = [
        f"{unit['unit']:<15} {unit['active']:>12,} active + {unit['stalled']:>12,} stalled + {unit['idle']:>12,} idle "
        f"= {unit['elapsed']:>12,}"
        for unit in pmu["units"]
    ]
    width = width_for(None)
    reasons: dict[str, list[str]] = {}
    for name, reason in pmu["not_modelled"].items():
        reasons.setdefault(reason, []).append(name)
    lines = ["", "not modelled:"]
    for reason, names in reasons.items():
        lines += textwrap.wrap(f"{', '.join(names)}: {reason}", width, initial_indent="  ", subsequent_indent="    ")
    say(_render(width, "Performance counters of all NPU jobs", table, "\n".join([*units, *lines])))


def explain_text(explained: ExplainedModel, width: int) -> str:
    """One line an operator with its bound; below it where its other cycles go, largest first, and what shapes would be free."""
    rows = [row for row in explained.operators if row.cycles]
    table = [("#", "operator", "cycles", "ideal", "use", "bound by")]
    for row in rows:
        use = f"{row.ideal_cycles / row.busy_cycles:.0%}" if row.ideal_cycles else ""
        name = printable(row.type)
        name = name if len(name) <= _TYPE_WIDTH else f"{name[: _TYPE_WIDTH - 1]}…"
        table.append((str(row.index), name, f"{row.cycles:,}", f"{row.ideal_cycles:,}", use, row.bound_by or ""))
    sizes = [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
    sides = [str.ljust if title in ("operator", "bound by") else str.rjust for title in table[0]]
    heads = [
        "  ".join(side(*cell) for side, cell in zip(sides, zip(cells, sizes, strict=True), strict=True)) for cells in table
    ]
    lines = [
        printable(f"{explained.model} on {explained.target}"),
        "",
        heads[0].rstrip(),
        "─" * min(width, sum(sizes) + 2 * len(sizes) - 2),
    ]
    for row, head in zip(rows, heads[1:], strict=True):
        lines.append(head.rstrip())
        for text in (_lost(row), *(f"- {hint.text}" for hint in row.hints)):
            lines += _wrapped(text, width, " " * (sizes[0] + 2), " " * (sizes[0] + 4))
    lines += ["", *_wrapped(_explain_summary(explained), width, "", " " * 8)]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int, first: str, following: str) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=following, break_on_hyphens=False)


_TYPE_WIDTH = 30
"""Longest name of an operator type in a table of `explain`."""


def _lost(row: ExplainedOperator) -> str:
    """Where the cycles above the ideal go, as shares of the operator's cycles and those that it shares with its neighbours."""
    losses = [
        f"{name} {cycles / row.busy_cycles:.0%}" for name, cycles in row.largest_losses() if cycles * 200 >= row.busy_cycles
    ]
    said = f"lost to {', '.join(losses)}" if losses else ""
    if row.overlapped_cycles * 200 < row.busy_cycles:
        return said
    overlapped = f"{row.overlapped_cycles:,} of {row.busy_cycles:,} cycles overlap with neighbours"
    return f"{said}; {overlapped}" if said else overlapped


def _explain_summary(explained: ExplainedModel) -> str:
    if not explained.npu_cycles:
        return "NPU     no work"
    busy = explained.npu_cycles + explained.overlapped_cycles
    sums = ", ".join(f"{name} {cycles / busy:.1%}" for name, cycles in explained.part_sums() if cycles)
    overlap = f" ({explained.overlapped_cycles:,} more overlap)" if explained.overlapped_cycles else ""
    return f"NPU     {explained.npu_cycles:,} cycles{overlap}: {sums}"


def print_findings(name: str, findings: list[tuple[int, Finding]]) -> None:
    """What is wrong with a compiled file, one row a finding."""
    if not findings:
        _say_line(f"{name}: no findings")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, justify in (("operator", "right"), ("command", "right"), ("kind", "left"), ("rule", "left"), ("where", "left")):
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("what", ratio=1)
    for index, each in findings:
        where = "" if each.address is None else f"{_region(each.region)} {each.address:#x}"
        named = f" ({each.source})" if each.source else f" ({', '.join(map(short, each.tensors))})" if each.tensors else ""
        what = Text(printable(each.message + named))
        table.add_row(str(index), str(each.command_index), each.operation, each.rule, where, what)
    say(_render(width_for(None), name, table, f"{len(findings)} findings"))


def _region(region: int | None) -> str:
    return "SHRAM" if region == -1 else f"region {region}"


def print_assembled(path: Path, base: Path, size: int, *, is_same: bool) -> None:
    """What was written, and whether it is the base file again."""
    _say_line(f"{path}: {size:,} bytes, {'identical to' if is_same else 'changed from'} {base}")


def print_difference(reference: str, compiled: str, result: DiffResult) -> None:
    """The first operator that differs, with position and values, or how many operators are equal."""
    found = result.first
    lines = []
    if found is None:
        lines.append(f"{compiled} equals {reference} in all {len(result.compared)} tensors compared")
    else:
        lines.append(f"{compiled} first differs from {reference} in operator {found.operator} {found.type} '{found.tensor}'")
        place = ", ".join(str(axis) for axis in found.position)
        lines.append(f"  at [{place}]: expected {found.expected:g}, got {found.actual:g}")
        where = "" if found.command_index is None else f"; its last NPU operation is at command {found.command_index}"
        lines.append(f"  {found.differing:,} of {found.values:,} values differ{where}")
        lines.append(f"  {len(result.compared)} tensors compared")
    if result.skipped:
        lines.append(f"  not compared, never whole in memory: {', '.join(result.skipped)}")
    for line in lines:
        _say_line(line)


def print_variants(variants: list[Variant], others: Mapping[str, Sequence[str]]) -> None:
    """The shipped variants as a table, and what else has a name: kind of description to names."""
    records = [variant_row(variant) for variant in variants]
    names = [name.replace("_", " ") for name in records[0]]
    right = {name.replace("_", " ") for name, value in records[0].items() if isinstance(value, int)}
    rows = [[Text(str(value)) for value in record.values()] for record in records]
    width = width_for(None)
    names, rows = _fitted(names, rows, width, flexible="system", expendable=("cores", "SHRAM KiB", "cpu"))
    lines = [line for kind, held in others.items() for line in _wrapped(f"{kind}: {', '.join(held)}", width, "", "  ")]
    lines.append("Your own hardware: --config FILE.yaml, in which extends: NAME starts from one of these")
    table = _table(names, rows, width, flexible="system", right=right)
    say(_render(width, "Shipped targets", table, "\n".join(lines)))


def variant_row(variant: Variant) -> dict[str, Any]:
    """The facts that people choose a target by."""
    return {
        "target": variant.name,
        "MACs": variant.accelerator.macs_per_cycle,
        "cores": variant.accelerator.cores,
        "SHRAM_KiB": variant.shram.total_bytes // 1024,
        "MHz": variant.system.clock_hz // 1_000_000,
        "system": variant.system.name,
        "memory_mode": variant.memory_mode.name,
        "cpu": variant.cpu.name,
    }


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on standard error while it is a terminal: call with what is done, how many parts, of how many."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield update


def count(number: int) -> str:
    """A count with a metric prefix: 1234567 gives 1.23M."""
    for limit, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{suffix}"
    return str(number) if number else ""


def kib(size: int | None) -> str:
    """Bytes as KiB with one decimal."""
    return "" if not size else f"{size / 1024:,.1f} KiB"


def short(name: str, limit: int = 28) -> str:
    """The telling end of a long tensor name; of the names that converters join by semicolons, that of the first."""
    if len(name) > limit:
        name = name.partition(";")[0]
    return name if len(name) <= limit else "…" + name[-(limit - 1) :]


def _totals(report: Report, width: int) -> str:
    totals = report.totals
    clock = report.clock_hz / 1e6
    facts = [
        f"total   {totals.total_cycles:,} cycles at {clock:g} MHz = {totals.time_ms:.3f} ms"
        f"  (NPU {totals.npu_cycles:,}, CPU {totals.cpu_cycles:,})",
        f"error   {_error_band(report)}",
        f"memory  {_memory(totals)}  ({report.system}, {report.memory_mode})",
        f"beats   AXI0 {totals.axi0_read_beats:,} read, {totals.axi0_write_beats:,} written; "
        f"AXI1 {totals.axi1_read_beats:,} read",
    ]
    if report.overheads:
        facts.insert(2, f"around  {_overheads(report)}")
    facts += [f"note    {note}" for note in report.notes or ()]
    return "\n".join(line for fact in facts for line in _wrapped(fact, width, "", " " * 8))


def _error_band(report: Report) -> str:
    band = report.timing_error
    if band is None:
        return f"unknown: no measurements of {report.target} with {report.system}, {report.memory_mode}"
    return (
        f"of NPU cycles: {band.mean_error_percent:g} % on average, {band.worst_error_percent:g} % at worst "
        f"in {band.measurements} measurements (docs/timing-accuracy.md)"
    )


def _overheads(report: Report) -> str:
    """Sums by kind: what the CPU does around operators."""
    sums: dict[str, list[int]] = {}
    for each in report.overheads or ():
        sums.setdefault(each.what, []).append(each.cycles)
    parts = (f"{what} {sum(cycles):,}" + (f" ({len(cycles)}x)" if len(cycles) > 1 else "") for what, cycles in sums.items())
    error = max(each.relative_error for each in report.overheads or ())
    return f"{', '.join(parts)}  (CPU cycles are estimates, ±{error:.0%})"


def _memory(totals: Totals) -> str:
    parts = (("SRAM", totals.sram_bytes), ("DRAM", totals.dram_bytes), ("constants", totals.flash_bytes))
    return ", ".join(f"{name} {kib(size)}" for name, size in parts if size)


def _device(row: OperatorReport) -> Text:
    return Text(row.placement, style="green" if row.placement == "npu" else "yellow")


def _render(width: int, title: str, table: Table, summary: str) -> str:
    buffer = io.StringIO()
    colour = is_coloured()
    console = Console(file=buffer, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    console.print(printable(title), style="bold", markup=False)
    console.print(table)
    console.print(summary, markup=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
