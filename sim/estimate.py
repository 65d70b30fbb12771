"""What an operator would cost on the NPU, from shapes alone: for operators that are not (or not yet) compiled.

cycles = overhead of one operation + the largest of
- MAC array: micro-blocks of the OFM x steps x cycles of a micro-block step; a step is 32 IFM channels of one kernel element,
  or 4 kernel elements of 8 channels, whichever needs fewer; depthwise: 4 kernel elements; pooling: a kernel element a cycle;
  RESIZE_BILINEAR by a factor f is a pooling of f x f or, with half pixel centres, depthwise of (f + 1) x (f + 1);
- weight decoder: weights / weights per cycle (FULLY_CONNECTED, one row at a time);
- output unit: OFM elements x cycles per element;
- arena port: bytes of all feature maps, read or written once / bytes per cycle that the port sustains;
- constant port: bytes of all constants / bytes per cycle that the port sustains.
Everything is spread over the cores. Blocks, halos, pipeline bubbles and overlap with other operators are left out.

UNIDIRECTIONAL_SEQUENCE_LSTM is none of these: at every time its exact gates are a chain of operations on few values. For cells
of 64 and 128 units on all targets that take them the estimate is 0.6 to 1.25 of the cycles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from npu.graph.graph import ABSENT, Graph, Op
from npu.graph.ops import BY_NAME, Cost
from npu.graph.work import input_shape, output_elements
from npu.hardware.variant import OutputCycles, Variant
from npu.machine.port_rates import port_rate
from npu.machine.rules import kernel_group

_SOFTMAX_PASSES = 8
"""Times that a SOFTMAX goes over its data."""
_LSTM_OPERATIONS, _LSTM_GATES, _LSTM_LATENCY = 90, 2.5, 60
"""Operations of a cell for one time, gates whose elements each works on in the mean, and cycles more from one to the next."""


def npu_cycles(graph: Graph, op: Op, variant: Variant) -> int:
    """Estimated cycles of the NPU clock for one operator of `graph`."""
    cost = BY_NAME[op.kind].cost if op.kind in BY_NAME else Cost.OTHER
    if cost is Cost.VIEW:
        return 0
    if cost is Cost.LSTM:
        return _lstm_cycles(graph, op, variant)
    elements = output_elements(graph, op)
    bounds = (
        _mac_cycles(graph, op, cost, variant) / variant.accelerator.cores,
        elements * _output_cycles(cost, variant.timing.output_cycles),
        _bytes(graph, {*op.inputs, *op.outputs}, of_constants=False) / port_rate(variant, variant.memory_mode.cache).read,
        _bytes(graph, {*op.inputs}, of_constants=True) / port_rate(variant, variant.memory_mode.constants).read,
    )
    passes = _SOFTMAX_PASSES if cost is Cost.SOFTMAX else 1
    return passes * (variant.timing.operation_overhead_cycles + round(max(bounds)))


def _lstm_cycles(graph: Graph, op: Op, variant: Variant) -> int:
    shape, timing = graph.tensors[op.outputs[0]].shape, variant.timing
    times = shape[0 if getattr(op.attributes, "time_major", False) else 1] if len(shape) == 3 else 1
    elements = output_elements(graph, op) // max(times, 1) * _LSTM_GATES
    output = elements * _output_cycles(Cost.PRODUCT, timing.output_cycles)
    return round(times * _LSTM_OPERATIONS * (timing.operation_overhead_cycles + _LSTM_LATENCY + output))


def _mac_cycles(graph: Graph, op: Op, cost: Cost, variant: Variant) -> float:
    timing = variant.timing
    ofm = graph.tensors[op.outputs[0]].shape if op.outputs and op.outputs[0] != ABSENT else ()
    weights = input_shape(graph, op, 1)
    blocks = _micro_blocks(ofm, variant) * timing.ublock_mac_cycles
    if cost is Cost.CONVOLUTION and len(weights) == 4:
        kernel, depth = weights[1] * weights[2], weights[3]
        return blocks * min(kernel * _parts(depth, 32), _parts(kernel, kernel_group(1)) * _parts(depth, 8))
    if cost is Cost.DEPTHWISE and len(weights) == 4:
        return blocks * _parts(weights[1] * weights[2], kernel_group(1))
    if cost is Cost.FULLY_CONNECTED and len(weights) == 2:
        rows = _parts(output_elements(graph, op), max(weights[0], 1))
        return max(blocks * _parts(weights[1], 32), rows * weights[0] * weights[1] / timing.weights_per_cycle)
    if cost is Cost.MATMUL:
        left = input_shape(graph, op, 0)
        return blocks * _parts(left[-1] if left else 1, 32)
    if cost in (Cost.AVERAGE_POOL, Cost.MAX_POOL):
        height, width = (getattr(op.attributes, f"filter_{name}", 1) or 1 for name in ("height", "width"))
        return blocks * max(1, height * width / timing.ublock_mac_cycles)
    if cost is Cost.RESIZE_BILINEAR:
        factor = _resize_factor(input_shape(graph, op, 0), ofm)
        if getattr(op.attributes, "half_pixel_centers", False) and factor > 1:
            return blocks * _parts((factor + 1) ** 2, kernel_group(1))
        return blocks * max(1, factor**2 / timing.ublock_mac_cycles)
    return 0.0


def _resize_factor(ifm: tuple[int, ...], ofm: tuple[int, ...]) -> int:
    """How often an element of the IFM is repeated along an axis; 1 for copies and where a single one fills the OFM."""
    if len(ifm) != 4 or len(ofm) != 4 or ifm[1:3] == (1, 1):
        return 1
    return max(1, *(_parts(out, max(size, 1)) for size, out in zip(ifm[1:3], ofm[1:3], strict=True)))


def _micro_blocks(ofm: tuple[int, ...], variant: Variant) -> int:
    height, width, depth = (1, 1, 1, *ofm)[-3:]
    ublock = variant.accelerator.ofm_ublock
    return math.prod(ofm[:-3]) * _parts(height, ublock.height) * _parts(width, ublock.width) * _parts(depth, ublock.depth)


def _parts(extent: int, size: int) -> int:
    return -(-extent // size)


def _output_cycles(cost: Cost, cycles: OutputCycles) -> float:
    if cost is Cost.SUM:
        return cycles.add_sub
    if cost is Cost.PRODUCT:
        return cycles.mul_or_40_bit_accumulator
    if cost is Cost.MAX_POOL:
        return cycles.max_pool
    return max(cycles.other, cycles.activation_lut) if cost is Cost.TABLE else cycles.other


def _bytes(graph: Graph, indices: Iterable[int], *, of_constants: bool) -> int:
    tensors = (graph.tensors[index] for index in indices if index != ABSENT)
    return sum(tensor.bytes for tensor in tensors if tensor.is_constant == of_constants)
