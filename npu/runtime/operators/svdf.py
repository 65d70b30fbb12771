"""SVDF: a rank-decomposed filter over the last inputs, float32, hybrid and integer.

Facts of the TFLite reference kernel of SVDF: the state (batch, filters * memory) of every filter moves one place and gets the
product of the input with the filter's feature weights; its product with the time weights, summed over the `rank` filters
of a unit, plus bias, gives the unit. Hybrid time weights are dequantized. The integer kernel rescales to the int16 state
without zero point, leaves out the fused activation, and sums in int32.
"""

from __future__ import annotations

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.cell_products import add_product, cell_activation, operand, require_shape, require_state, signed
from npu.runtime.operators.common import multipliers, requantize, require_quantized
from npu.runtime.tensor import RuntimeTensor

_INT16 = (-32768, 32767)


def build_svdf(node: OperatorNode) -> Run:
    """Input (batch, features), feature weights (filters, features), time weights (filters, memory), bias (units), state."""
    ifm, feature, time, bias, state = (node.input(0), node.input(1), node.input(2), node.optional(3), node.input(4))
    rank = node.attributes.rank
    if any(len(tensor.shape) != 2 for tensor in (ifm, feature, time)):
        raise node.fail(f"input and weights must have rank 2, got {list(ifm.shape)}, {list(feature.shape)}, {list(time.shape)}")
    filters = feature.shape[0]
    if rank < 1 or filters % rank:
        raise node.fail(f"filters must be a multiple of the rank, got {filters} and {rank}")
    batches, units, memory = ifm.shape[0], filters // rank, time.shape[1]
    require_shape(node, "feature weights", feature, filters, ifm.shape[1])
    require_shape(node, "time weights", time, filters, memory)
    require_shape(node, "bias", bias, units)
    require_shape(node, "state", state, batches, filters * memory)
    require_state(node, state, batches, filters * memory)
    if memory < 1:
        raise node.fail("time weights must have a column, got none")
    return _float_svdf(node) if ifm.dtype is DType.FLOAT32 else _integer_svdf(node)


def _history(state: RuntimeTensor, time: RuntimeTensor) -> Array:
    """The state as (batch, filters, memory), moved by one; the last place is to be written."""
    history = state.array.reshape(-1, *time.shape)
    history[:, :, :-1] = history[:, :, 1:].copy()
    return history


def _float_svdf(node: OperatorNode) -> Run:
    ifm, feature, time, bias, state = (node.input(0), node.input(1), node.input(2), node.optional(3), node.input(4))
    output, a = node.output(), node.attributes
    squash, hybrid = cell_activation(node, a.fused_activation_function), feature.dtype is not DType.FLOAT32

    def time_weights() -> Array:
        return np.float32(time.scale) * signed(time).astype(np.float32) if hybrid else time.array

    def run() -> None:
        weights, history = time_weights(), _history(state, time)
        start = np.zeros((ifm.shape[0], feature.shape[0]), np.float32)
        x = operand(ifm.array, hybrid=hybrid, asymmetric=a.asymmetric_quantize_inputs)
        history[:, :, -1] = add_product(start, x, feature)
        total = np.zeros(history.shape[:2], np.float32)
        for i in range(time.shape[1]):
            total += history[:, :, i] * weights[:, i]
        result = _rank_sums(total, a.rank)
        output.array[...] = squash(result if bias is None else result + bias.array)

    return run


def _rank_sums(values: Array, rank: int) -> Array:
    """Sums of `rank` neighbours, in order."""
    grouped = values.reshape(values.shape[0], -1, rank)
    total = np.zeros(grouped.shape[:2], values.dtype)
    for i in range(rank):
        total += grouped[:, :, i]
    return total


def _integer_svdf(node: OperatorNode) -> Run:
    """int8 input and feature weights; the state and the time weights are int16 (or int8, as tflite-micro allows)."""
    ifm, feature, time, bias, state = (node.input(0), node.input(1), node.input(2), node.optional(3), node.input(4))
    output, rank = node.output(), node.attributes.rank
    require_quantized(node, ifm, feature, time, state, output)
    narrow = state.dtype is DType.INT8
    limits, state_zero = ((-128, 127), state.zero_point) if narrow else (_INT16, 0)
    read, weighed, kept, timed, made = (np.float32(tensor.first_scale) for tensor in (ifm, feature, state, time, output))
    state_scaling, output_scaling = (multipliers([float(factor)]) for factor in (read * weighed / kept, kept * timed / made))

    def run() -> None:
        history = _history(state, time)
        x = ifm.array.astype(np.int64) - ifm.zero_point
        history[:, :, -1] = requantize(x @ feature.array.astype(np.int64).T, state_scaling, state_zero, limits)
        wide = history.astype(np.int64) - state_zero
        sums = _rank_sums((wide * time.array.astype(np.int64)).sum(axis=2), rank)
        if bias is not None:
            sums = sums + bias.array
        output.array[...] = requantize(sums.astype(np.int32), output_scaling, output.zero_point, (-128, 127))

    return run


OPERATORS = (
    Implementation(
        "SVDF",
        build_svdf,
        (
            "f32 f32 f32 f32? f32 -> f32",
            "f32 i8|u8 i8|u8 f32? f32 -> f32",
            "i8 i8 i16 i32? i16 -> i8",
            "i8 i8 i8 i32? i8 -> i8",
        ),
    ),
)
