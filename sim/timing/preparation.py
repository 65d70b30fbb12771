"""A plan on given ports and a given machine, ready for the event engine: all that does not depend on when things happen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port, Variant
from sim.timing.kernels import expand as k
from sim.timing.kernels import work as w
from sim.timing.plan import Plan, Work
from sim.timing.ports import port_scalars
from sim.trace import Column

_PORT_COLUMNS = (Column.AXI0_READ_BYTES, Column.AXI0_WRITE_BYTES, Column.AXI1_READ_BYTES, Column.AXI1_WRITE_BYTES)


def prepare(plan: Plan, ports: NDArray[np.float64], scalars: NDArray[np.float64]) -> Work:
    """The work of `plan` on ports (2, PORT_SCALARS) and a machine (ENGINE_SCALARS,)."""
    total = len(plan.loads)
    blocks = int(plan.loads[:, k.L_FIRST].sum())
    links = np.empty((total, w.LINK_COLUMNS), np.int64)
    ends = np.empty((blocks + 1, 2), np.int64)
    costs = np.empty((total, w.COST_COLUMNS), np.float64)
    moved = np.zeros((len(plan.operations), 4), np.int64)
    w.link_loads(plan.operations, plan.loads, scalars, links, ends)
    w.cost_loads(plan.operations, plan.loads, ports, scalars, costs)
    costs[:, w.C_MAC] = plan.mac_cycles
    costs[:, w.C_OUTPUT] = plan.output_cycles
    w.count_beats(plan.operations, plan.loads, scalars, moved)
    known = _known_columns(plan, moved, scalars)
    return Work(links, ends, costs, known, tuple(known.sum(axis=0).tolist()), ports, scalars)


def _known_columns(plan: Plan, moved: NDArray[np.int64], scalars: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n, len(Column)) bytes, blocks and products; `moved` (n, 4) beats by port, without weights and commands."""
    beat = int(scalars[w.E_BEAT])
    operations = plan.operations
    table = np.zeros((len(operations), len(Column)), np.int64)
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


def prepare_for(plan: Plan, variant: Variant) -> Work:
    """The work of `plan` on `variant`; the plan remembers it."""
    for known, work in plan.prepared:
        if known is variant or known == variant:
            return work
    plan.prepared[:] = [(variant, prepare(plan, port_scalars(variant), engine_scalars(variant)))]
    return plan.prepared[0][1]


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
    return scalars


def command_port(variant: Variant) -> int:
    """The command stream is fetched through the port of the constants (the driver's QCONFIG)."""
    return 0 if variant.memory_mode.constants is Port.AXI0 else 1
