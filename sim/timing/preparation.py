"""A plan on given ports and a given machine, ready for the event engine: all that does not depend on when things happen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port, Variant
from sim.timing.kernels import expand as k
from sim.timing.kernels import rows as r
from sim.timing.kernels import work as w
from sim.timing.kernels.rounding import round_durations
from sim.timing.plan import Plan, Work
from sim.timing.ports import port_scalars
from sim.trace import PORT_BYTES, Column, Totals

_PORT_COLUMNS = tuple(column for port in PORT_BYTES.values() for column in port)
_BUSY_COLUMNS = np.array([Column.MAC_ACTIVE, Column.OUTPUT_ACTIVE, Column.DECODER_ACTIVE], np.int64)


def prepare(plan: Plan, ports: NDArray[np.float64], scalars: NDArray[np.float64]) -> Work:
    """The work of `plan` on ports (2, PORT_SCALARS) and a machine (ENGINE_SCALARS,)."""
    count, total = len(plan.operations), len(plan.loads)
    blocks = int(plan.loads[:, k.L_FIRST].sum())
    at_ports = r.HEAD_WORDS
    at_operations = at_ports + 2 * r.PORT_WORDS
    at_loads = at_operations + count * r.OPERATION_WORDS
    at_blocks = at_loads + total * r.LOAD_WORDS
    words = np.zeros(at_blocks + (blocks + 1) * r.BLOCK_WORDS, np.int64)
    operations = words[at_operations:at_loads].reshape(count, r.OPERATION_WORDS)
    loads = words[at_loads:at_blocks].reshape(total, r.LOAD_WORDS)
    words[: r.H_COMMAND_PORT] = count, total, blocks, at_operations, at_loads, at_blocks
    words[r.H_COMMAND_PORT] = scalars[w.E_COMMAND_PORT]
    words[r.H_FIRST_TRANSFER] = w.link_operations(plan.operations, scalars, operations)
    floats = words.view(np.float64)
    floats[[r.H_START_CYCLES, r.H_DMA_SETUP, r.H_BEAT]] = scalars[[w.E_START_CYCLES, w.E_DMA_SETUP, w.E_BEAT]]
    floats[at_ports:at_operations].reshape(2, r.PORT_WORDS)[:, : r.PORT_SCALARS] = ports
    w.cost_commands(plan.operations, ports, scalars, operations.view(np.float64))
    w.link_loads(plan.operations, plan.loads, scalars, loads, words[at_blocks:].reshape(blocks + 1, r.BLOCK_WORDS))
    costs = loads.view(np.float64)
    w.cost_loads(plan.operations, plan.loads, ports, scalars, costs)
    costs[:, r.C_MAC] = plan.mac_cycles
    costs[:, r.C_OUTPUT] = plan.output_cycles
    return Work(words, _known_columns(plan, costs, scalars))


def _known_columns(plan: Plan, costs: NDArray[np.float64], scalars: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n, len(Column)) bytes, blocks, products and busy cycles, from the costs (m, LOAD_WORDS) of the loads."""
    beat = int(scalars[w.E_BEAT])
    operations = plan.operations
    table = np.zeros((len(operations), len(Column)), np.int64)
    busy = np.zeros((len(operations), len(_BUSY_COLUMNS)), np.float64)
    w.count_work(plan.loads, costs, busy)
    round_durations(busy, _BUSY_COLUMNS, table)
    # Beats by port, without weights and commands.
    moved = np.zeros((len(operations), len(_PORT_COLUMNS)), np.int64)
    w.count_beats(operations, plan.loads, scalars, moved)
    table[:, _PORT_COLUMNS] = moved * beat
    _add_purposes(plan, table, beat)
    weight_port = operations[:, k.WEIGHT_PORT]
    for number, column in ((0, Column.AXI0_READ_BYTES), (1, Column.AXI1_READ_BYTES)):
        table[:, column] += np.where(weight_port == number, table[:, Column.WEIGHT_BYTES], 0)
    table[:, Column.COMMAND_BYTES] = operations[:, k.WORDS] * 4
    table[:, _PORT_COLUMNS[2 * int(scalars[w.E_COMMAND_PORT])]] += table[:, Column.COMMAND_BYTES]
    table[:, Column.DMA_BYTES] = operations[:, k.DMA_BYTES]
    table[:, Column.ELEMENT_BYTES] = operations[:, k.IFM_BYTES]
    return table


def _add_purposes(plan: Plan, table: NDArray[np.int64], beat: int) -> None:
    """Fills the columns that are sums over the loads of an operation; loads are in the order of operations."""
    loads = plan.loads
    if not len(loads):
        return
    first = np.flatnonzero(np.diff(loads[:, k.L_OPERATION], prepend=-1))
    sums = np.add.reduceat(loads, first, axis=0)
    rows = loads[first, k.L_OPERATION]
    table[rows, Column.MACS] = sums[:, k.L_MACS]
    table[rows, Column.BLOCKS] = sums[:, k.L_LAST]
    table[rows, Column.IFM_BYTES] = (sums[:, k.L_IFM_BEATS] + sums[:, k.L_IFM2_BEATS]) * beat
    table[rows, Column.OFM_BYTES] = sums[:, k.L_OFM_BEATS] * beat
    table[rows, Column.WEIGHT_BYTES] = sums[:, k.L_STREAM_BYTES]


def prepare_for(plan: Plan, variant: Variant) -> tuple[Work, Totals]:
    """The work of `plan` on `variant`, and its totals without cycles; the plan remembers them."""
    for known, work, totals in plan.prepared:
        if known is variant or known == variant:
            return work, totals
    work = prepare(plan, port_scalars(variant), engine_scalars(variant))
    totals = _known_totals(work.known.sum(axis=0).tolist(), variant)
    plan.prepared[:] = [(variant, work, totals)]
    return work, totals


def _known_totals(sums: Sequence[int], variant: Variant) -> Totals:
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
    return Totals(
        total_cycles=0,
        npu_active_cycles=0,
        axi0_read_beats=-(-sums[Column.AXI0_READ_BYTES] // beat),
        axi0_write_beats=-(-sums[Column.AXI0_WRITE_BYTES] // beat),
        axi1_read_beats=-(-sums[Column.AXI1_READ_BYTES] // beat),
        axi1_write_beats=-(-sums[Column.AXI1_WRITE_BYTES] // beat),
        macs=sums[Column.MACS],
        memory_read_bytes=reads,
        memory_write_bytes=writes,
    )


def engine_scalars(variant: Variant) -> NDArray[np.float64]:
    """(ENGINE_SCALARS,) float64."""
    accelerator, timing = variant.accelerator, variant.timing
    scalars = np.zeros(w.ENGINE_SCALARS, np.float64)
    scalars[w.E_COMMAND_CYCLES] = timing.command_cycles_per_word
    scalars[w.E_START_CYCLES] = timing.operation_overhead_cycles
    scalars[w.E_KERNEL_QUEUE] = accelerator.max_outstanding_kernels
    scalars[w.E_DMA_QUEUE] = accelerator.max_outstanding_dma
    scalars[w.E_DMA_SETUP] = timing.dma_setup_cycles
    scalars[w.E_BEAT] = accelerator.axi_data_bytes
    scalars[w.E_DECODE_BYTES] = timing.weight_decode_bits_per_cycle / 8 * accelerator.cores
    scalars[w.E_WEIGHT_WINDOW] = timing.weight_window_bytes * accelerator.cores
    scalars[w.E_COMMAND_PORT] = command_port(variant)
    taken = timing.core_input_bytes_per_cycle * accelerator.cores
    scalars[w.E_TAKE_CYCLES] = accelerator.axi_data_bytes / taken if taken else 0.0
    return scalars


def command_port(variant: Variant) -> int:
    """The command stream is fetched through the port of the constants (the driver's QCONFIG)."""
    return 0 if variant.memory_mode.constants is Port.AXI0 else 1
