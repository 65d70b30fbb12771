"""Cycles of the MAC array."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import ceil_div, kernel_group
from npu.machine.kernels.rows import CONV_PART_KERNEL, DEPTHWISE, ELEMENTWISE, MACHINE_ROW, OPERATION_ROW, POOL
from npu.native import types as ty
from npu.native.kernel import kernel

_I = ty.int64


@kernel(_I(OPERATION_ROW, MACHINE_ROW, *(_I,) * 5), error_model="numpy")
def mac_cycles(op, machine, rows, columns, depth, taps, slice_depth):  # type: ignore[no-untyped-def]
    """MAC-array cycles of one fetch of a block of rows x columns x depth; taps = kernel elements of the sub-kernel.

    Formulas of the block model that Vela 5.2 uses, with the depth split over the cores; and from one set of weights to the
    next a bubble also where a block is larger than one micro-block.
    """
    if op.kind == ELEMENTWISE:
        return np.int64(0)
    planes = ceil_div(ceil_div(depth, machine.ofm_ublock_depth), machine.cores)
    plane = ceil_div(columns, op.ublock_width) * ceil_div(rows, op.ublock_height)
    busy = machine.ublock_mac_cycles
    element_bytes = op.ifm.element_bytes
    if op.kind == POOL:
        return max(busy, taps) * plane * planes * (machine.pooling_16_bit_factor if element_bytes > 1 else 1)
    steps, groups = taps, np.int64(1)
    if op.kind == DEPTHWISE:
        steps = ceil_div(taps, kernel_group(1))
        busy *= element_bytes
    elif op.kind == CONV_PART_KERNEL:
        steps = ceil_div(taps, kernel_group(element_bytes))
        groups = ceil_div(slice_depth, 8)
    cycles = max(machine.weight_block_cycles, busy * plane) * steps * planes * groups
    if plane > 1:
        return cycles + machine.weight_switch_cycles * steps * planes * groups
    bubble = machine.bubble_cycles_40_bit if op.has_40_bit_accumulators else machine.bubble_cycles
    # With more than one micro-block in depth the last step of a micro-block hides the first of the next.
    return cycles + bubble * groups * (steps if planes == 1 else (steps - 1) * planes)
