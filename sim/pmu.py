"""The performance-counter events: names, numbers, and their values in a trace.

`EVENTS` is the only place with the numbers: the driver's id is the position in its enumeration of Ethos-U55 and Ethos-U65, the
hardware code is what the event registers take (Ethos-U driver header). Ethos-U85 calls the ports by their memories, with the
same codes (published readings of both counters of a port and of their sum); its driver's ids are other ones, and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Product
from npu.numerics.arrays import distinct
from npu.records import dataclass
from sim.timeline import TimedJob, cycles_of_job, owners_of
from sim.trace import Trace, TraceColumn

_CODES: tuple[tuple[str, int], ...] = (
    ("NO_EVENT", 0x00),
    ("CYCLE", 0x11),
    ("NPU_IDLE", 0x20),
    ("CC_STALLED_ON_BLOCKDEP", 0x21),
    ("CC_STALLED_ON_SHRAM_RECONFIG", 0x22),
    ("NPU_ACTIVE", 0x23),
    ("MAC_ACTIVE", 0x30),
    ("MAC_ACTIVE_8BIT", 0x31),
    ("MAC_ACTIVE_16BIT", 0x32),
    ("MAC_DPU_ACTIVE", 0x33),
    ("MAC_STALLED_BY_WD_ACC", 0x34),
    ("MAC_STALLED_BY_WD", 0x35),
    ("MAC_STALLED_BY_ACC", 0x36),
    ("MAC_STALLED_BY_IB", 0x37),
    ("MAC_ACTIVE_32BIT", 0x38),
    ("MAC_STALLED_BY_INT_W", 0x39),
    ("MAC_STALLED_BY_INT_ACC", 0x3A),
    ("AO_ACTIVE", 0x40),
    ("AO_ACTIVE_8BIT", 0x41),
    ("AO_ACTIVE_16BIT", 0x42),
    ("AO_STALLED_BY_OFMP_OB", 0x43),
    ("AO_STALLED_BY_OFMP", 0x44),
    ("AO_STALLED_BY_OB", 0x45),
    ("AO_STALLED_BY_ACC_IB", 0x46),
    ("AO_STALLED_BY_ACC", 0x47),
    ("AO_STALLED_BY_IB", 0x48),
    ("WD_ACTIVE", 0x50),
    ("WD_STALLED", 0x51),
    ("WD_STALLED_BY_WS", 0x52),
    ("WD_STALLED_BY_WD_BUF", 0x53),
    ("WD_PARSE_ACTIVE", 0x54),
    ("WD_PARSE_STALLED", 0x55),
    ("WD_PARSE_STALLED_IN", 0x56),
    ("WD_PARSE_STALLED_OUT", 0x57),
    ("WD_TRANS_WS", 0x58),
    ("WD_TRANS_WB", 0x59),
    ("WD_TRANS_DW0", 0x5A),
    ("WD_TRANS_DW1", 0x5B),
    ("AXI0_RD_TRANS_ACCEPTED", 0x80),
    ("AXI0_RD_TRANS_COMPLETED", 0x81),
    ("AXI0_RD_DATA_BEAT_RECEIVED", 0x82),
    ("AXI0_RD_TRAN_REQ_STALLED", 0x83),
    ("AXI0_WR_TRANS_ACCEPTED", 0x84),
    ("AXI0_WR_TRANS_COMPLETED_M", 0x85),
    ("AXI0_WR_TRANS_COMPLETED_S", 0x86),
    ("AXI0_WR_DATA_BEAT_WRITTEN", 0x87),
    ("AXI0_WR_TRAN_REQ_STALLED", 0x88),
    ("AXI0_WR_DATA_BEAT_STALLED", 0x89),
    ("AXI0_ENABLED_CYCLES", 0x8C),
    ("AXI0_RD_STALL_LIMIT", 0x8E),
    ("AXI0_WR_STALL_LIMIT", 0x8F),
    ("AXI_LATENCY_ANY", 0xA0),
    ("AXI_LATENCY_32", 0xA1),
    ("AXI_LATENCY_64", 0xA2),
    ("AXI_LATENCY_128", 0xA3),
    ("AXI_LATENCY_256", 0xA4),
    ("AXI_LATENCY_512", 0xA5),
    ("AXI_LATENCY_1024", 0xA6),
    ("ECC_DMA", 0xB0),
    ("ECC_SB0", 0xB1),
    ("AXI1_RD_TRANS_ACCEPTED", 0x180),
    ("AXI1_RD_TRANS_COMPLETED", 0x181),
    ("AXI1_RD_DATA_BEAT_RECEIVED", 0x182),
    ("AXI1_RD_TRAN_REQ_STALLED", 0x183),
    ("AXI1_WR_TRANS_ACCEPTED", 0x184),
    ("AXI1_WR_TRANS_COMPLETED_M", 0x185),
    ("AXI1_WR_TRANS_COMPLETED_S", 0x186),
    ("AXI1_WR_DATA_BEAT_WRITTEN", 0x187),
    ("AXI1_WR_TRAN_REQ_STALLED", 0x188),
    ("AXI1_WR_DATA_BEAT_STALLED", 0x189),
    ("AXI1_ENABLED_CYCLES", 0x18C),
    ("AXI1_RD_STALL_LIMIT", 0x18E),
    ("AXI1_WR_STALL_LIMIT", 0x18F),
    ("ECC_SB1", 0x1B1),
)


@dataclass(frozen=True, slots=True)
class PmuEvent:
    """An event: the driver's name and id, and the hardware's code."""

    name: str
    driver_id: int
    code: int


EVENTS: tuple[PmuEvent, ...] = tuple(PmuEvent(name, index, code) for index, (name, code) in enumerate(_CODES))
"""All events in the driver's order."""


_REASONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("counts nothing", ("NO_EVENT",)),
    ("the time is part of operation_overhead_cycles and cannot be told apart", ("CC_STALLED_ON_SHRAM_RECONFIG",)),
    ("no public source says what it counts beyond the events beside it", (
        "MAC_DPU_ACTIVE", "MAC_STALLED_BY_WD_ACC", "MAC_STALLED_BY_INT_W", "MAC_STALLED_BY_INT_ACC",
        "AO_STALLED_BY_OFMP_OB", "AO_STALLED_BY_OB", "AO_STALLED_BY_ACC_IB",
    )),
    ("the decoder is one unit here, without its parser and its inner transfers", (
        "WD_PARSE_ACTIVE", "WD_PARSE_STALLED", "WD_PARSE_STALLED_IN", "WD_PARSE_STALLED_OUT",
        "WD_TRANS_WS", "WD_TRANS_WB", "WD_TRANS_DW0", "WD_TRANS_DW1",
    )),
    ("waiting for the port is part of the transfer's time and not counted on its own", tuple(
        f"{port}_{name}"
        for port in ("AXI0", "AXI1")
        for name in ("RD_TRAN_REQ_STALLED", "WR_TRAN_REQ_STALLED", "WR_DATA_BEAT_STALLED", "RD_STALL_LIMIT", "WR_STALL_LIMIT")
    )),
    ("writes are not told apart by who completes them", ("AXI0_WR_TRANS_COMPLETED_S", "AXI1_WR_TRANS_COMPLETED_S")),
    ("transactions are not followed one by one", tuple(
        f"AXI_LATENCY_{least}" for least in ("ANY", "32", "64", "128", "256", "512", "1024")
    )),
    ("memories have no errors here", ("ECC_DMA", "ECC_SB0", "ECC_SB1")),
)  # fmt: skip

NOT_MODELLED: Mapping[str, str] = {name: reason for reason, names in _REASONS for name in names}
"""Events that have no value here, and why."""

NOTES: Mapping[str, str] = {
    f"{port}_{way}": "as many as full bursts of max_burst_bytes take; bursts that end early make more"
    for port in ("AXI0", "AXI1")
    for way in ("RD_TRANS_ACCEPTED", "RD_TRANS_COMPLETED", "WR_TRANS_ACCEPTED", "WR_TRANS_COMPLETED_M")
}
"""What to know of a value that is not a count of what the model did."""


_PORTS_OF_ETHOS_U85 = {"AXI0_": "SRAM_", "AXI1_": "EXT_"}
"""What Ethos-U85 calls the events of a port by."""

_ROUNDING = 4
"""Cycles by which the rounded parts of a unit's time may miss the total."""


@dataclass(frozen=True, slots=True)
class UnitTime:
    """How a unit spent a job: active + stalled + idle = elapsed, cycles."""

    unit: str
    active: int
    stalled: int
    idle: int

    @property
    def elapsed(self) -> int:
        return self.active + self.stalled + self.idle


_UNITS = {
    "MAC array": (
        TraceColumn.MAC_ACTIVE,
        (TraceColumn.MAC_STALLED_BY_WEIGHTS, TraceColumn.MAC_STALLED_BY_ACCUMULATOR, TraceColumn.MAC_STALLED_BY_IFM),
        TraceColumn.MAC_IDLE,
    ),
    "output unit": (
        TraceColumn.OUTPUT_ACTIVE,
        (TraceColumn.OUTPUT_STALLED_BY_MEMORY, TraceColumn.OUTPUT_STALLED_BY_INPUT),
        TraceColumn.OUTPUT_IDLE,
    ),
    "weight decoder": (
        TraceColumn.DECODER_ACTIVE,
        (TraceColumn.DECODER_STALLED_BY_MEMORY, TraceColumn.DECODER_STALLED_BY_MAC),
        TraceColumn.DECODER_IDLE,
    ),
}


def unit_times(trace: Trace, owners: NDArray[np.int64]) -> dict[int, tuple[UnitTime, ...]]:
    """MAC array, output unit and weight decoder, for each operator; `owners` (n,) is the operator of each operation.

    A unit's time runs from its last work before to its last work for that operator. All three parts are measured by the
    engine; idle is what is neither work nor a stall (before, after, other work). What is left of the job after the last
    work, and the rounding of the parts, is idle time of the last operator.
    """
    times: dict[int, list[UnitTime]] = {int(owner): [] for owner in distinct(owners)}
    for (unit, (active_column, stall_columns, idle_column)), tail in zip(_UNITS.items(), trace.tails, strict=True):
        parts = np.stack(
            [trace.table[:, active_column], trace.table[:, list(stall_columns)].sum(axis=1), trace.table[:, idle_column]]
        )
        rounding = trace.totals.npu_active_cycles - tail - int(parts.sum())
        if abs(rounding) > _ROUNDING:
            raise AssertionError(f"{unit}: active, stalled and idle must add up to the job, but {rounding} cycles are missing")
        if parts.size:
            parts[2, -1] += tail + rounding
        for owner, column in times.items():
            column.append(UnitTime(unit, *(int(value) for value in parts[:, owners == owner].sum(axis=1))))
    return {owner: tuple(column) for owner, column in times.items()}


def pmu_report(jobs: Sequence[TimedJob], product: Product = Product.ETHOS_U55) -> dict[str, Any]:
    """Counters of all jobs and of every operator that they work for, by event name, and how the units spent the jobs.

    `events` gives the numbers of the names, `not_modelled` the events without a value and why, `notes` what to know of a
    value. CYCLE and NPU_ACTIVE of an operator are its cycles on the timeline; the counters of all operators add up to the
    total. `operator_units` gives how the units spent their time for each operator (see `unit_times`).
    """
    operators: dict[str, dict[str, int]] = {}
    total: dict[str, int] = {}
    units: dict[str, UnitTime] = {}
    operator_units: dict[str, dict[str, UnitTime]] = {}
    for job in jobs:
        _add(total, job.trace.pmu)
        owners = owners_of(job)
        cycles = cycles_of_job(job)
        for operator, times in unit_times(job.trace, owners).items():
            _add_times(units, times)
            _add_times(operator_units.setdefault(str(operator), {}), times)
            counters = job.trace.counters(np.flatnonzero(owners == operator), cycles.get(operator, 0))
            _add(operators.setdefault(str(operator), {}), counters)
    report = {
        "events": {event.name: {"driver_id": event.driver_id, "code": event.code} for event in EVENTS if event.name in total},
        "total": total,
        "operators": operators,
        "units": _unit_rows(units),
        "operator_units": {operator: _unit_rows(times) for operator, times in operator_units.items()},
        "notes": {name: text for name, text in NOTES.items() if name in total},
        "not_modelled": dict(NOT_MODELLED),
    }
    return _of_ethos_u85(report) if product is Product.ETHOS_U85 else report


def _of_ethos_u85(report: dict[str, Any]) -> dict[str, Any]:
    """The report with the names of Ethos-U85, and without ids of a driver."""
    events = {name: numbers | {"driver_id": None} for name, numbers in report["events"].items()}
    operators = {operator: _by_memory(counters) for operator, counters in report["operators"].items()}
    named = {part: _by_memory(report[part]) for part in ("total", "notes", "not_modelled")}
    return report | named | {"events": _by_memory(events), "operators": operators}


def _by_memory(by_event: Mapping[str, Any]) -> dict[str, Any]:
    return {_PORTS_OF_ETHOS_U85.get(name[:5], name[:5]) + name[5:]: value for name, value in by_event.items()}


def _add_times(sums: dict[str, UnitTime], times: Sequence[UnitTime]) -> None:
    for time in times:
        before = sums.get(time.unit, UnitTime(time.unit, 0, 0, 0))
        parts = (before.active + time.active, before.stalled + time.stalled, before.idle + time.idle)
        sums[time.unit] = UnitTime(time.unit, *parts)


def _unit_rows(times: Mapping[str, UnitTime]) -> list[dict[str, Any]]:
    return [asdict(unit) | {"elapsed": unit.elapsed} for unit in times.values()]


def _add(total: dict[str, int], counters: Mapping[str, int]) -> None:
    for name, value in counters.items():
        total[name] = total.get(name, 0) + value
