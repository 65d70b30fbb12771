"""A trace as rows of text and as a dictionary for JSON. Pure functions: nothing here prints or formats for a terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sim.reports.pmu import pmu_rows
from sim.trace import Bound, OperationTiming, Trace

HEADER: tuple[str, ...] = (
    "#",
    "operation",
    "start",
    "cycles",
    "MAC busy",
    "output busy",
    "MAC use",
    "bound by",
    "read",
    "written",
)
"""Titles of the columns of `operation_rows`."""

_KERNELS = ("conv", "depthwise", "pool", "elementwise")


def operation_rows(trace: Trace, *, macs_per_cycle: int, with_waits: bool = False) -> list[tuple[str, ...]]:
    """One row of text per operation of the stream, columns as in HEADER; waits and controls only if asked for."""
    return [
        _row(operation, macs_per_cycle)
        for operation in trace.operations
        if with_waits or operation.kind in _KERNELS or operation.kind == "dma"
    ]


def _row(operation: OperationTiming, macs_per_cycle: int) -> tuple[str, ...]:
    read = operation.axi0_read_bytes + operation.axi1_read_bytes - operation.command_bytes
    return (
        str(operation.index),
        operation.kind,
        f"{operation.start:,}",
        f"{operation.cycles:,}",
        _percent(operation.mac_active, operation.cycles),
        _percent(operation.output_active, operation.cycles),
        _percent(operation.macs, operation.cycles * macs_per_cycle) if operation.macs else "",
        "" if operation.bound_by is Bound.NONE else operation.bound_by.value,
        f"{read:,}",
        f"{operation.axi0_write_bytes + operation.axi1_write_bytes:,}",
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if part and whole else ""


def trace_dict(trace: Trace) -> dict[str, Any]:
    """The trace as JSON-ready data: totals, operations and counters; integers stay integers."""
    totals = asdict(trace.totals)
    return {
        "variant": trace.variant,
        "clock_hz": trace.clock_hz,
        "totals": totals | {"time_ms": trace.totals.total_cycles / trace.clock_hz * 1e3},
        "operations": [asdict(operation) | {"bound_by": operation.bound_by.value} for operation in trace.operations],
        "pmu": {row.event.name: row.value for row in pmu_rows(trace)},
    }
