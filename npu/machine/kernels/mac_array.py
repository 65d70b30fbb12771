"""Cycles of the MAC array."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import ceil_div, inlined, kernel_group
from npu.machine.kernels.rows import CONV_PART_KERNEL, DEPTHWISE, ELEMENTWISE, MACHINE_ROW, OPERATION_ROW, POOL
from npu.machine.rules import ARRAY_CHANNELS, LEAST_TAPS, SET_DEPTH, TAP_GROUP
from npu.native import types as ty
from npu.native.kernel import kernel

_I = ty.int64


@inlined
def deep_set_cycles(op, machine, plane, taps, slice_depth):  # type: ignore[no-untyped-def]
    """Cycles of one micro-block in depth where sets of weights are of `set_depth` channels (Ethos-U85).

    Part kernel first a set has the taps of a sub-kernel by fives: the array takes them one by one, but never one alone, and the
    decoder brings all five. By the choice between both orders and the weight streams of Vela 5.2. By the published measurements
    sparse weights take as long as dense ones.
    """
    group = TAP_GROUP if op.kind == CONV_PART_KERNEL else np.int64(1)
    rest = taps % group
    worked = taps - rest + (max(rest, LEAST_TAPS) if rest > 0 else 0)
    busy = worked * ceil_div(min(slice_depth, op.set_depth), ARRAY_CHANNELS) * op.ifm.element_bytes * plane
    return max(busy, ceil_div(taps, group) * group * op.set_depth * op.ublock_depth // machine.weights_per_cycle)


@kernel(_I(OPERATION_ROW, MACHINE_ROW, *(_I,) * 5), error_model="numpy")
def mac_cycles(op, machine, rows, columns, depth, taps, slice_depth):  # type: ignore[no-untyped-def]
    """MAC-array cycles of one fetch of a block of rows x columns x depth; taps = kernel elements of the sub-kernel.

    Formulas of the block model that Vela 5.2 uses, with the depth split over the cores; and from one set of weights to the
    next a bubble also where a block is larger than one micro-block.
    """
    if op.kind == ELEMENTWISE:
        return np.int64(0)
    planes = ceil_div(ceil_div(depth, op.ublock_depth), machine.cores)
    plane = ceil_div(columns, op.ublock_width) * ceil_div(rows, op.ublock_height)
    busy = machine.ublock_mac_cycles
    element_bytes = op.ifm.element_bytes
    if op.kind == POOL:
        return max(busy, taps) * plane * planes * (machine.pooling_16_bit_factor if element_bytes > 1 else 1)
    if op.set_depth > 0:
        return deep_set_cycles(op, machine, plane, taps, slice_depth) * planes
    steps, groups = taps, np.int64(1)
    if op.kind == DEPTHWISE:
        steps = ceil_div(taps, kernel_group(1))
        busy *= element_bytes
    elif op.kind == CONV_PART_KERNEL:
        steps = ceil_div(taps, kernel_group(element_bytes))
        groups = ceil_div(slice_depth, ARRAY_CHANNELS)
    cycles = max(SET_DEPTH * op.ublock_depth // machine.weights_per_cycle, busy * plane) * steps * planes * groups
    if plane > 1:
        return cycles + machine.weight_switch_cycles * steps * planes * groups
    bubble = machine.bubble_cycles_40_bit if op.has_40_bit_accumulators else machine.bubble_cycles
    # With more than one micro-block in depth the last step of a micro-block hides the first of the next.
    return cycles + bubble * groups * (steps if planes == 1 else (steps - 1) * planes)
