"""The performance-counter events of Ethos-U55 and -U65: names, numbers, and a table of their values in a trace.

`EVENTS` is the only place with the numbers: the driver's id is the position in its enumeration, the hardware code is what
the event registers take (Ethos-U driver header).
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.trace import Trace

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


@dataclass(frozen=True, slots=True)
class PmuRow:
    """One modelled counter."""

    event: PmuEvent
    value: int


def pmu_rows(trace: Trace) -> tuple[PmuRow, ...]:
    """The counters that the timing model has a value for, in the driver's order."""
    return tuple(PmuRow(event, trace.pmu[event.name]) for event in EVENTS if event.name in trace.pmu)


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


def unit_times(trace: Trace) -> tuple[UnitTime, ...]:
    """MAC array, output unit and weight decoder; idle is what is neither work nor a stall (before, after, other work)."""
    parts = {
        "MAC": ("MAC_ACTIVE", ("MAC_STALLED_BY_WD", "MAC_STALLED_BY_ACC", "MAC_STALLED_BY_IB")),
        "output": ("AO_ACTIVE", ("AO_STALLED_BY_OFMP", "AO_STALLED_BY_ACC", "AO_STALLED_BY_IB")),
        "weight decoder": ("WD_ACTIVE", ("WD_STALLED",)),
    }
    total = trace.totals.npu_active_cycles
    times = []
    for unit, (active_name, stall_names) in parts.items():
        active, stalled = trace.pmu[active_name], sum(trace.pmu[name] for name in stall_names)
        times.append(UnitTime(unit, active, stalled, total - active - stalled))
    return tuple(times)
