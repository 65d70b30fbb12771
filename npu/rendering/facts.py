"""Sentences and figures that several forms of the report share, so that they all say the same."""

from __future__ import annotations

from collections.abc import Callable

from constraints.profiles import profile_named, profile_names
from npu.graph.placement import Violation
from npu.rendering.totals import counted_elsewhere, error_text, memory_text
from npu.reports.check_report import NPU, CheckReport, DeviceSum, OperatorCheck

DEVICE_NAMES = {"npu": "NPU", "xnnpack": "CPU, XNNPACK-like delegate", "reference": "CPU, reference kernels"}
ESTIMATED = "NPU cycles are estimated from shapes, one operator at a time: nothing was compiled."
MEASURED = "NPU cycles of operators on the NPU are those of the compiled model; all others are estimates."
SUPPORT_NOTE = "A CPU operator's NPU cycles, and the totals with it supported, are estimates."


def place(device: str) -> str:
    """Where an operator runs: npu, or cpu and the kind of its kernels."""
    return device if device == NPU else f"cpu {device}"


def headline(report: CheckReport) -> str:
    """Operators and multiply-accumulates on the NPU."""
    on_npu, total = report.devices["npu"], report.totals.macs
    share = f", {on_npu.macs / total:.1%} of {total:,} MACs" if total else ""
    return f"{on_npu.operators} of {len(report.operators)} operators on the NPU{share}"


def notes(report: CheckReport) -> list[str]:
    """Where the cycles come from and how far they are off, and what else is to be said of the model."""
    if report.cycles_from != "compilation":
        return [ESTIMATED, *report.notes]
    error = [f"Error {error_text(report.timing_error, report.target)}."] if report.totals.npu_cycles else []
    return [MEASURED, *error, *report.notes]


def failures(report: CheckReport) -> list[str]:
    """Every condition and budget that the model does not meet, with the reason."""
    return [f"{gate.condition}: {gate.failure}" for gate in report.failed_gates]


def overhead_name(report: CheckReport) -> str:
    """What the CPU does beside operators."""
    if not report.job_starts:
        return "CPU, copies of inputs and outputs"
    return f"CPU, around {report.job_starts} NPU job{'' if report.job_starts == 1 else 's'} (copies, caches, starts)"


def total_line(report: CheckReport) -> str:
    """Cycles and time of one inference."""
    clock = report.clock_hz / 1e6
    return f"{report.totals.total_cycles:,} cycles at {clock:g} MHz = {report.totals.time_ms:.3f} ms"


def memory_line(report: CheckReport) -> str:
    """What the compiled model needs of each memory; empty where nothing was compiled."""
    text = memory_text(report.totals, report.memories)
    return f"Memory: {text} ({report.system}, {report.memory_mode})" if text else ""


def memory_bytes(report: CheckReport) -> dict[str, int]:
    """The same in bytes, by the names of the totals; empty where nothing was compiled."""
    totals = report.totals
    sizes = {"sram_bytes": totals.sram_bytes, "dram_bytes": totals.dram_bytes, "flash_bytes": totals.flash_bytes}
    return {name: size for name, size in sizes.items() if size is not None}


def used_devices(report: CheckReport) -> list[tuple[str, DeviceSum]]:
    """Name and sums of every device that runs something."""
    return [(DEVICE_NAMES[name], device) for name, device in report.devices.items() if device.operators]


def advice(violation: Violation) -> str:
    """The violation with its fix, as one sentence after another."""
    return violation.message + (f". Fix: {violation.fix}" if violation.fix else "")


def broken_rules(report: CheckReport) -> dict[str, tuple[str, str | None]]:
    """What each broken rule demands, and its fix, by rule id in order of first appearance."""
    profile = profile_named(report.profile) if report.profile in profile_names() else None
    demands = {rule.id: rule.sentence() for rule in profile.rules} if profile else {}
    broken: dict[str, tuple[str, str | None]] = {}
    for row in report.operators:
        for violation in row.base.violations:
            broken.setdefault(violation.rule, (demands.get(violation.rule, violation.limit), violation.fix))
    return broken


def worthwhile(report: CheckReport, most: int) -> list[tuple[str, int, float]]:
    """What to support first, at most `most` of it: (what, total cycles then, share of the total that this saves)."""
    saving = [change for change in report.ranking if change.saved_cycles > 0][:most]
    return [
        (change.what, change.total_cycles, change.saved_cycles / (change.total_cycles + change.saved_cycles))
        for change in saving
    ]


def shapes(row: OperatorCheck) -> tuple[str, str]:
    """Types and shapes of what is read and written."""
    return ", ".join(map(str, row.inputs)), ", ".join(map(str, row.outputs))


def npu_cycles(row: OperatorCheck, number: Callable[[int], str]) -> str:
    """What the operator adds to the total on the NPU, or would; and for which other operator its work counts."""
    elsewhere = counted_elsewhere(row.base) if row.device == NPU else ""
    return number(row.npu_cycles) + (f" {elsewhere}" if elsewhere else "")


def crossing_lists(report: CheckReport) -> list[tuple[str, str, str]]:
    """(partition, what it takes over, what it hands over) with bytes."""
    rows = []
    for part in report.partitions:
        reads, writes = (
            ", ".join(f"{crossing.bytes:,} B {word} {_peer(crossing.peer)}" for crossing in crossings)
            for word, crossings in (("from", part.reads), ("to", part.writes))
        )
        rows.append((str(part.number), reads, writes))
    return rows


def _peer(peer: str) -> str:
    return "the model's caller" if peer == "model" else f"operator {peer}"
