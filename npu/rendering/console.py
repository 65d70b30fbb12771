"""What the commands print when they are done, and their progress bars. Reads reports, computes nothing.

Colour and live progress only appear on a real terminal; a pipe gets plain text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npu.graph.graph import Quantization
from npu.hardware.variant import Variant
from npu.plain import printable
from npu.rendering.styled import StyledText
from npu.rendering.tables import fitted, framed, make_table, short, titled, wrapped
from npu.rendering.terminal import WIDEST_TEXT, say, width_for

_WIDE_FINDINGS = 120
"""Columns from which findings are a table."""

if TYPE_CHECKING:
    from npu.reports.report import Report
    from npu.toolchain.diff import DiffResult
    from npu.toolchain.export import Exported
    from npu.toolchain.fix import Fixed
    from sim.verify.verifier import Finding


def print_compiled(report: Report, path: Path, size: int) -> None:
    """What was written and what it needs on the board."""
    from npu.rendering.totals import memory_text

    on_npu = sum(row.placement == "npu" for row in report.operators)
    others = " (npu check says why not all)" if on_npu < len(report.operators) else ""
    facts = [
        f"{path}: {size:,} bytes for {report.target} ({report.memory_mode})",
        f"{on_npu} of {len(report.operators)} operators on the NPU{others}",
        memory_text(report.totals, report.memories),
    ]
    _say_line("; ".join(filter(None, facts)))
    for note in report.notes or ():
        _say_line(f"note: {note}")


def print_exported(exported: Exported, folder: Path) -> None:
    """What was written for an application, and what it must register and reserve."""
    names = ", ".join(printable(row.name) for row in exported.operators)
    arena = exported.arena
    _say_line(
        f"{folder}: {', '.join(exported.files)}; operators to register: {names}; "
        f"arena {arena.total:,} bytes ({arena.head:,} of the model, at most {arena.tail:,} of TensorFlow Lite Micro)"
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


def run_report(report: Report, output: Path | None) -> str:
    """The per-operator table, the totals of one inference, and its counters if there are any."""
    from npu.rendering.run import run_text

    width = width_for(output)
    return run_text(report, width) + ("" if report.pmu is None else pmu_text(report.pmu, width))


def print_prediction(output: npt.NDArray[Any], quantization: Quantization | None, labels: list[str]) -> None:
    """The likeliest class of a classifier's output."""
    scores = output.astype(np.float64).reshape(-1)
    if quantization is not None:
        scores = (scores - quantization.zero_point) * quantization.scale
    best = int(np.argmax(scores))
    label = labels[best] if best < len(labels) else f"class {best}"
    mismatch = "" if len(labels) == scores.size else f"; {len(labels)} labels for {scores.size} classes"
    _say_line(f"prediction: {label} (score {scores[best]:.3f}{mismatch})")


def pmu_text(pmu: Mapping[str, Any], width: int) -> str:
    """The performance counters, in the driver's order, and how the units spent the NPU's time."""
    table = titled({"id": "right", "code": "right", "event": "left", "value": "right"})
    for name, numbers in pmu["events"].items():
        driver_id = "" if numbers["driver_id"] is None else str(numbers["driver_id"])
        table.add_row(driver_id, f"{numbers['code']:#x}", name, f"{pmu['total'][name]:,}")
    units = [
        f"{unit['unit']:<15} {unit['active']:>12,} active + {unit['stalled']:>12,} stalled + {unit['idle']:>12,} idle "
        f"= {unit['elapsed']:>12,}"
        for unit in pmu["units"]
    ]
    import textwrap  # most commands fold nothing

    reasons: dict[str, list[str]] = {}
    for name, reason in pmu["not_modelled"].items():
        reasons.setdefault(reason, []).append(name)
    lines = ["", "not modelled:"]
    for reason, names in reasons.items():
        lines += textwrap.wrap(
            f"{', '.join(names)}: {reason}", min(width, WIDEST_TEXT), initial_indent="  ", subsequent_indent="    "
        )
    return framed(width, "Performance counters of all NPU jobs", table, "\n".join([*units, *lines]))


def findings_text(name: str, findings: list[tuple[int, Finding]], width: int) -> str:
    """What is wrong with a compiled file, one row a finding."""
    from npu.isa.decoded import address_text

    if not findings:
        return printable(f"{name}: no findings") + "\n"
    total = f"{len(findings)} finding{'' if len(findings) == 1 else 's'}"
    rows = [
        (
            str(index),
            str(finding.command_index),
            address_text(finding.word_index),
            finding.operation,
            finding.rule,
            _place(finding),
            printable(finding.message + _named(finding)),
        )
        for index, finding in findings
    ]
    if width < _WIDE_FINDINGS:
        return (
            "\n".join([printable(name), "", *(line for row in rows for line in _finding_lines(row, width)), "", total]) + "\n"
        )
    table = titled(
        {"operator": "right", "command": "right", "at": "right", "kind": "left", "rule": "left", "where": "left"}, folded="what"
    )
    for row in rows:
        table.add_row(*row)
    return framed(width, name, table, total)


def _finding_lines(row: Sequence[str], width: int) -> list[str]:
    """A finding below each other, for terminals that have no room for a column of sentences."""
    operator, command, address, kind, rule, where, what = row
    head = f"operator {operator}, command {command} at {address} ({kind}): {rule}{', ' if where else ''}{where}"
    return [*wrapped(head, width, "", "    "), *wrapped(what, width, "  ", "    ")]


def _place(finding: Finding) -> str:
    return "" if finding.address is None else f"{_region(finding.region)} {finding.address:#x}"


def _named(finding: Finding) -> str:
    """The source operator of a finding, else the tensors that it is about."""
    if finding.source:
        return f" ({finding.source})"
    return f" ({', '.join(map(short, finding.tensors))})" if finding.tensors else ""


def _region(region: int | None) -> str:
    return "SHRAM" if region == -1 else f"region {region}"


def print_assembled(path: Path, base: Path, size: int, *, is_same: bool) -> None:
    """What was written, and whether it is the base file again."""
    _say_line(f"{path}: {size:,} bytes, {'identical to' if is_same else 'changed from'} {base}")


def difference_text(reference: str, compiled: str, difference: DiffResult) -> str:
    """The first operator that differs, with position and values, or how many operators are equal."""
    from npu.isa.decoded import command_place

    answer = difference.first
    lines = []
    if answer is None:
        lines.append(f"{compiled} equals {reference} in all {len(difference.compared)} tensors compared")
    else:
        lines.append(f"{compiled} first differs from {reference} in operator {answer.operator} {answer.type} '{answer.tensor}'")
        place = ", ".join(str(axis) for axis in answer.position)
        lines.append(f"  at [{place}]: expected {answer.expected:g}, got {answer.actual:g}")
        where = ""
        if answer.command_index is not None and answer.word_index is not None:
            where = f"; its last NPU operation is {command_place(answer.command_index, answer.word_index)}"
        lines.append(f"  {answer.differing:,} of {answer.values:,} values differ{where}")
        lines.append(f"  {len(difference.compared)} tensors compared")
    if difference.skipped:
        lines.append(f"  not compared, never whole in memory: {', '.join(difference.skipped)}")
    if difference.uncertain:
        lines.append(f"  not compared, not surely found in {compiled}: {', '.join(difference.uncertain)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def variants_text(variants: list[Variant], others: Mapping[str, Sequence[str]], width: int) -> str:
    """The shipped variants as a table, and what else has a name: kind of description to names."""
    records = [variant_row(variant) for variant in variants]
    names = [name.replace("_", " ") for name in records[0]]
    right = {name.replace("_", " ") for name, value in records[0].items() if isinstance(value, int)}
    rows = [[StyledText("" if value is None else str(value)) for value in record.values()] for record in records]
    names, rows = fitted(names, rows, width, flexible="system", expendable=("cores", "SHRAM KiB", "cpu"))
    lines = [line for kind, held in others.items() for line in wrapped(f"{kind}: {', '.join(held)}", width, "", "  ")]
    lines.append("Your own hardware: --config FILE.yaml, in which extends: NAME starts from one of these")
    table = make_table(names, rows, width, flexible="system", right=right)
    return framed(width, "Shipped targets", table, "\n".join(lines))


def variant_row(variant: Variant) -> dict[str, Any]:
    """The facts that people choose a target by."""
    return {
        "target": variant.name,
        "MACs": variant.accelerator.macs_per_cycle,
        "cores": variant.accelerator.cores,
        "SHRAM_KiB": None if variant.shram.granules is None else variant.shram.total_bytes // 1024,
        "MHz": variant.system.clock_hz // 1_000_000,
        "system": variant.system.name,
        "memory_mode": variant.memory_mode.name,
        "cpu": variant.cpu.name,
    }
