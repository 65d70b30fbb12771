"""The one record between the timing model and everything that displays time.

`sim.timing.schedule` makes a `Trace`; `sim.pmu`, `sim.perfetto` and the command line read it. Times are NPU core cycles from
the start of the job. One row per operation of the command stream (waits, interrupts and stops included, so that a row number
is the operation's index in the stream); events are kept as arrays because a network has tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum, IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port
from npu.records import dataclass


class TimedUnit(IntEnum):
    """A part of the machine that is busy or idle on its own."""

    PARSER = 0
    DMA = 1
    WEIGHT_DECODER = 2
    IFM_FETCH = 3
    MAC = 4
    OUTPUT = 5
    AXI0 = 6
    AXI1 = 7


class Cause(IntEnum):
    """What an event is about."""

    KERNEL = 1
    IFM = 2
    WEIGHTS = 3
    OFM = 4
    DMA_READ = 5


class Bound(Enum):
    """What an operation spent its time on, in the words of a report."""

    MAC = "MAC"
    OUTPUT = "output"
    WEIGHT_DECODE = "weight decode"
    WEIGHT_READ = "weight read"
    IFM_READ = "IFM read"
    OFM_WRITE = "OFM write"
    DMA = "DMA"
    WAIT = "wait"
    ISSUE = "command issue"
    LATENCY = "latency"
    NONE = "nothing"


class TraceColumn(IntEnum):
    """Columns of `Trace.table`; all values are 64-bit integers, cycles or bytes.

    ISSUED is when the parser handed the operation over, START and END bound its work; a wait starts when the parser meets it
    and ends when it is satisfied. Byte counts by port are what crossed the port; those by purpose are the same bytes again.
    The idle times of a unit are those between its last work and its first for this operation; ELEMENT_BYTES are of the IFM.
    """

    ISSUED = 0
    START = 1
    END = 2
    MACS = 3
    MAC_ACTIVE = 4
    MAC_STALLED_BY_WEIGHTS = 5
    MAC_STALLED_BY_IFM = 6
    MAC_STALLED_BY_ACCUMULATOR = 7
    OUTPUT_ACTIVE = 8
    OUTPUT_STALLED_BY_MEMORY = 9
    OUTPUT_STALLED_BY_INPUT = 10
    DECODER_ACTIVE = 11
    DECODER_STALLED_BY_MEMORY = 12
    DECODER_STALLED_BY_MAC = 13
    IFM_FETCH_ACTIVE = 14
    DMA_ACTIVE = 15
    BLOCKDEP_STALL = 16
    PARSER_WAIT = 17
    BLOCKS = 18
    AXI0_READ_BYTES = 19
    AXI0_WRITE_BYTES = 20
    AXI1_READ_BYTES = 21
    AXI1_WRITE_BYTES = 22
    IFM_BYTES = 23
    OFM_BYTES = 24
    WEIGHT_BYTES = 25
    DMA_BYTES = 26
    COMMAND_BYTES = 27
    MAC_IDLE = 28
    OUTPUT_IDLE = 29
    DECODER_IDLE = 30
    ELEMENT_BYTES = 31


PORT_BYTES: Mapping[Port, tuple[TraceColumn, TraceColumn]] = {
    Port.AXI0: (TraceColumn.AXI0_READ_BYTES, TraceColumn.AXI0_WRITE_BYTES),
    Port.AXI1: (TraceColumn.AXI1_READ_BYTES, TraceColumn.AXI1_WRITE_BYTES),
}
"""The columns of what was read and written through a port."""


@dataclass(frozen=True, slots=True)
class JobTotals:
    """Sums over the job. A beat is one data word of the port."""

    total_cycles: int
    npu_active_cycles: int
    axi0_read_beats: int
    axi0_write_beats: int
    axi1_read_beats: int
    axi1_write_beats: int
    macs: int
    memory_read_bytes: Mapping[str, int]
    """Bytes read per memory name ("sram", "flash", "dram")."""
    memory_write_bytes: Mapping[str, int]


@dataclass(frozen=True)
class Events:
    """Busy intervals, one row each, in the order in which they were scheduled.

    All arrays are one-dimensional int64 of equal length; `end >= start`; `unit` holds `TimedUnit`, `cause` holds `Cause`,
    `operation` the index in the stream.
    """

    operation: NDArray[np.int64]
    unit: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    bytes: NDArray[np.int64]
    cause: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.operation.shape[0])


@dataclass(frozen=True)
class Trace:
    """What happened when, for one command stream on one variant.

    `table` is (operations, len(Column)) int64. `bounds` and the counters are made when a report first asks for them.
    """

    variant: str
    clock_hz: int
    beat_bytes: int
    kinds: tuple[str, ...]
    table: NDArray[np.int64]
    totals: JobTotals
    events: Events | None
    tails: tuple[int, int, int]
    """Cycles that MAC array, output unit and weight decoder are idle after their last work."""
    find_bounds: Callable[[], tuple[Bound, ...]] = field(compare=False, repr=False)
    find_events: Callable[[], Mapping[str, NDArray[np.int64]]] = field(compare=False, repr=False)

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """What bounds each operation."""
        return self.find_bounds()

    @cached_property
    def pmu(self) -> Mapping[str, int]:
        """Counters by the driver's event names, for the whole job."""
        return self.counters(slice(None), self.totals.total_cycles)

    @cached_property
    def operation_events(self) -> Mapping[str, NDArray[np.int64]]:
        """Counters of each operation, shape (operations,) by event name."""
        return self.find_events()

    def counters(self, rows: slice | NDArray[np.int64], cycles: int) -> dict[str, int]:
        """Counters of some operations that take `cycles` together."""
        counters = {"CYCLE": cycles, "NPU_ACTIVE": cycles, "NPU_IDLE": 0}
        counters |= {name: int(values[rows].sum()) for name, values in self.operation_events.items()}
        return counters | dict.fromkeys(("AXI0_ENABLED_CYCLES", "AXI1_ENABLED_CYCLES"), cycles)

    def column(self, column: TraceColumn) -> NDArray[np.int64]:
        """One column of the table, shape (operations,)."""
        values: NDArray[np.int64] = self.table[:, column]
        return values
