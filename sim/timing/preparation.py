"""A stream on given ports and a given machine, ready for the event engine: all that does not depend on when things happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.machine.kernels.rows import PORT
from npu.machine.parameters import PORT_NUMBERS, machine_rows, port_rows
from sim.timing.kernels import prepare as k
from sim.timing.kernels import rows as r
from sim.timing.kernels.rounding import round_durations
from sim.timing.stream_rows import Prepared, StreamRows
from sim.trace import PORT_BYTES, JobTotals, TraceColumn

_TRAFFIC_COLUMNS = [TraceColumn[name.upper()] for name in k.TRAFFIC.names or ()]
_BUSY_COLUMNS = np.array([TraceColumn.MAC_ACTIVE, TraceColumn.OUTPUT_ACTIVE, TraceColumn.DECODER_ACTIVE], np.int64)


def prepare(stream: StreamRows, ports: NDArray[Any], engines: NDArray[Any]) -> Prepared:
    """`stream` on two PORT rows and the one ENGINE row."""
    count, total = len(stream.operations), len(stream.fetches)
    blocks = int(stream.fetches["is_first"].sum())
    memory, places = _lay_out(
        (r.HEAD, 1), (PORT, len(ports)), (r.TIMED_OPERATION, count), (r.TIMED_FETCH, total), (r.TIMED_BLOCK, blocks + 1)
    )
    (_, heads), (ports_at, own_ports), (operations_at, operations), (fetches_at, fetches), (blocks_at, ends) = places
    own_ports[:] = ports
    links = np.zeros(count, k.LINK)
    head = heads[0]
    head["operations"], head["fetches"], head["blocks"] = count, total, blocks
    head["ports_at"], head["operations_at"], head["fetches_at"], head["blocks_at"] = (
        ports_at,
        operations_at,
        fetches_at,
        blocks_at,
    )
    head["engine"] = engines[0]
    head["first_transfer"] = k.link_operations(stream.operations, engines, links, operations)
    k.cost_commands(stream.operations, ports, engines, operations)
    k.link_fetches(stream.operations, stream.fetches, engines, links, fetches, ends)
    k.cost_fetches(stream.operations, stream.fetches, ports, engines, fetches)
    return Prepared(memory, _known_columns(stream, fetches, engines))


def _lay_out(*tables: tuple[np.dtype[Any], int]) -> tuple[NDArray[np.uint8], list[tuple[int, NDArray[Any]]]]:
    """Zeros for so many rows of each dtype behind one another; where each table begins, in bytes, and the table."""
    ends = np.cumsum([0, *(dtype.itemsize * count for dtype, count in tables)]).tolist()
    memory = np.zeros(ends[-1], np.uint8)
    return memory, [
        (start, memory[start:end].view(dtype)) for (dtype, _), start, end in zip(tables, ends, ends[1:], strict=False)
    ]


def _known_columns(stream: StreamRows, fetches: NDArray[Any], engines: NDArray[Any]) -> NDArray[np.int64]:
    """(n, len(Column)) bytes, blocks, products and busy cycles, from the TIMED_FETCH rows."""
    count = len(stream.operations)
    table = np.zeros((count, len(TraceColumn)), np.int64)
    busy = np.zeros((count, len(_BUSY_COLUMNS)), np.float64)
    k.count_work(fetches, busy)
    round_durations(busy, _BUSY_COLUMNS, table)
    traffic = np.zeros(count, k.TRAFFIC)
    k.count_traffic(stream.operations, stream.fetches, engines, traffic)
    table[:, _TRAFFIC_COLUMNS] = traffic.view(np.int64).reshape(count, len(_TRAFFIC_COLUMNS))
    return table


def prepare_for(stream: StreamRows, variant: Variant) -> tuple[Prepared, JobTotals]:
    """`stream` prepared for `variant`, and its totals without cycles; the stream remembers them."""
    for known, prepared, totals in stream.prepared:
        if known is variant or known == variant:
            return prepared, totals
    prepared = prepare(stream, port_rows(variant), engine_rows(variant))
    totals = _known_totals(prepared.known.sum(axis=0).tolist(), variant)
    stream.prepared[:] = [(variant, prepared, totals)]
    return prepared, totals


def _known_totals(sums: Sequence[int], variant: Variant) -> JobTotals:
    """The totals from the sums of the table's columns."""
    beat = variant.accelerator.axi_data_bytes
    memories = variant.system.memories
    reads: dict[str, int] = {}
    writes: dict[str, int] = {}
    for port, (read, write) in PORT_BYTES.items():
        if port in memories:
            name = memories[port].name
            reads[name] = reads.get(name, 0) + sums[read]
            writes[name] = writes.get(name, 0) + sums[write]
    return JobTotals(
        total_cycles=0,
        npu_active_cycles=0,
        axi0_read_beats=-(-sums[TraceColumn.AXI0_READ_BYTES] // beat),
        axi0_write_beats=-(-sums[TraceColumn.AXI0_WRITE_BYTES] // beat),
        axi1_read_beats=-(-sums[TraceColumn.AXI1_READ_BYTES] // beat),
        axi1_write_beats=-(-sums[TraceColumn.AXI1_WRITE_BYTES] // beat),
        macs=sums[TraceColumn.MACS],
        memory_read_bytes=reads,
        memory_write_bytes=writes,
    )


def engine_rows(variant: Variant) -> NDArray[Any]:
    """One ENGINE row."""
    accelerator, timing = variant.accelerator, variant.timing
    rows = np.zeros(1, r.ENGINE)
    engine = rows[0]
    engine["machine"] = machine_rows(variant)[0]
    engine["kernel_queue"] = accelerator.max_outstanding_kernels
    engine["dma_queue"] = accelerator.max_outstanding_dma
    # The command stream is fetched through the port of the constants (the driver's QCONFIG).
    engine["command_port"] = PORT_NUMBERS[variant.memory_mode.constants]
    engine["always_drains"] = accelerator.cores > 1
    engine["command_cycles_per_word"] = timing.command_cycles_per_word
    engine["start_cycles"] = timing.operation_overhead_cycles
    engine["dma_setup_cycles"] = timing.dma_setup_cycles
    engine["dma_window_bytes"] = timing.dma_window_bytes
    return rows
