"""A plan on given ports and a given machine, ready for the event engine: all that does not depend on when things happen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port, Variant
from sim.timing.kernels import expand as k
from sim.timing.kernels import work as w
from sim.timing.plan import Plan, Work
from sim.timing.ports import port_scalars


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
    return Work(links, ends, costs, moved, ports, scalars)


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
