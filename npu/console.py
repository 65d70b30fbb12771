"""How results look in a terminal: tables, summaries and progress bars. Reads reports, computes nothing.

Colour and live progress only appear on a real terminal; a pipe gets plain text.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
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
from npu.report import OperatorReport, Report, Totals
from sim.verify.verifier import Finding

if TYPE_CHECKING:
    from npu.toolchain.diff import DiffResult

PIPE_WIDTH = 120


def width_for(output: Path | None) -> int:
    """Columns to lay text out for: the terminal's, or a readable fixed width for files and pipes."""
    if output is None and sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns


def is_coloured() -> bool:
    """Whether standard output shows colours: a terminal whose user has not said NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_compiled(report: Report, path: Path, size: int) -> None:
    """What was written and what it needs on the board."""
    on_npu = sum(row.placement == "npu" for row in report.operators)
    totals = report.totals
    sys.stdout.write(
        f"{path}: {size:,} bytes for {report.target} ({report.memory_mode}); "
        f"{on_npu} of {len(report.operators)} operators on the NPU; "
        f"{_memory(totals)}\n"
    )


def print_run(report: Report) -> None:
    """The per-operator table and the totals of one inference."""
    sys.stdout.write(run_text(report, width_for(None)))


def run_text(report: Report, width: int) -> str:
    """The per-operator table and the totals for a terminal of `width` columns; narrow ones leave out what matters least."""
    total = report.totals.total_cycles or 1
    names = ["#", "operator", "output", "on", "cycles", "share", "MACs", "MAC use", "bound by", "read", "written"]
    rows = [_run_row(row, total) for row in report.operators]
    names, rows = _fitted(names, rows, width, flexible="output", expendable=("written", "read", "MACs", "output"))
    table = _table(names, rows, width, flexible="output", right={"#", "cycles", "share", "MACs", "MAC use", "read", "written"})
    return _render(width, f"{report.model} on {report.target}", table, _totals(report))


def _run_row(row: OperatorReport, total: int) -> list[Text]:
    cycles = row.cycles or 0
    use = f"{row.mac_utilisation:.0%}" if row.mac_utilisation else ""
    read, written = (sum(getattr(each, name) for each in row.bytes.values()) for name in ("read", "write"))
    bound = f"in {row.absorbed_into}" if row.absorbed_into is not None else row.bound_by or "no work"
    cells = (row.index, row.type, short(row.name), None, f"{cycles:,}", f"{cycles / total:.1%}", count(row.macs), use)
    texts = [Text(str(each)) if each is not None else _device(row) for each in cells]
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


def _table(names: list[str], rows: list[list[Text]], width: int, *, flexible: str, right: set[str]) -> Table:
    """A table for `width` columns whose columns keep their full width, but for one that shrinks."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    room = max(len(flexible), width - _fixed_width(names, rows, flexible=flexible) + len(flexible))
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
    sys.stdout.write(f"prediction: {label} (score {scores[best]:.3f})\n")


def print_findings(name: str, findings: list[tuple[int, Finding]]) -> None:
    """What is wrong with a compiled file, one row a finding."""
    if not findings:
        sys.stdout.write(f"{name}: no findings\n")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, justify in (("operator", "right"), ("command", "right"), ("kind", "left"), ("rule", "left"), ("where", "left")):
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("what", ratio=1)
    for index, each in findings:
        where = "" if each.address is None else f"region {each.region} {each.address:#x}"
        table.add_row(str(index), str(each.command_index), each.operation, each.rule, where, each.message)
    sys.stdout.write(_render(width_for(None), name, table, f"{len(findings)} findings"))


def print_assembled(path: Path, base: Path, content: bytes) -> None:
    """What was written, and whether it is the base file again."""
    is_same = base.read_bytes() == content
    sys.stdout.write(f"{path}: {len(content):,} bytes, {'identical to' if is_same else 'changed from'} {base}\n")


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
    sys.stdout.write("\n".join(lines) + "\n")


def print_variants(variants: list[Variant]) -> None:
    """The shipped variants as a table."""
    records = [variant_row(variant) for variant in variants]
    names = [name.replace("_", " ") for name in records[0]]
    right = {name.replace("_", " ") for name, value in records[0].items() if isinstance(value, int)}
    rows = [[Text(str(value)) for value in record.values()] for record in records]
    width = width_for(None)
    names, rows = _fitted(names, rows, width, flexible="system", expendable=("cores", "SHRAM KiB", "cpu"))
    hint = "Describe your own with --config FILE.yaml (extends: NAME)."
    table = _table(names, rows, width, flexible="system", right=right)
    sys.stdout.write(_render(width, "Shipped targets", table, hint))


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
    """The telling end of a long tensor name."""
    return name if len(name) <= limit else "…" + name[-(limit - 1) :]


def _totals(report: Report) -> str:
    totals = report.totals
    clock = report.clock_hz / 1e6
    return "\n".join(
        (
            f"total   {totals.total_cycles:,} cycles at {clock:g} MHz = {totals.time_ms:.3f} ms"
            f"  (NPU {totals.npu_cycles:,}, CPU {totals.cpu_cycles:,})",
            f"memory  {_memory(totals)}  ({report.system}, {report.memory_mode})",
            f"beats   AXI0 {totals.axi0_read_beats:,} read, {totals.axi0_write_beats:,} written; "
            f"AXI1 {totals.axi1_read_beats:,} read",
        )
    )


def _memory(totals: Totals) -> str:
    parts = (("SRAM", totals.sram_bytes), ("DRAM", totals.dram_bytes), ("constants", totals.flash_bytes))
    return ", ".join(f"{name} {kib(size)}" for name, size in parts if size)


def _device(row: OperatorReport) -> Text:
    return Text(row.placement, style="green" if row.placement == "npu" else "yellow")


def _render(width: int, title: str, table: Table, summary: str) -> str:
    buffer = io.StringIO()
    colour = is_coloured()
    console = Console(file=buffer, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    console.print(title, style="bold", markup=False)
    console.print(table)
    console.print(summary, markup=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
