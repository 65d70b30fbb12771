"""FULLY_CONNECTED and BATCH_MATMUL.

The quantized FULLY_CONNECTED rounds as LiteRT's reference kernel does (accumulator times a double, nearest; 16-bit too) unless
the
interpreter's options ask for the integer roundings of the NPU and of tflite-micro.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu.graph.attributes import WeightsFormat
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.product import dense_in_order, multiply_in_order
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import (
    INTEGER_RANGE,
    activation_bounds,
    bound_again,
    float_bounds,
    multipliers,
    quantized_range,
    requantize,
    require_quantized,
)
from npu.runtime.operators.convolution import filter_scales, products
from npu.runtime.operators.hybrid import dequantize_rows, quantize_rows
from npu.runtime.tensor import RuntimeTensor

_NOTHING = np.empty(0, np.float32)


def build_fully_connected(node: OperatorNode) -> Run:
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    depth, layout = weights.shape[1], node.attributes.weights_format
    if layout is not WeightsFormat.DEFAULT:
        raise node.fail(f"weights format must be DEFAULT, got {layout.name}")
    if ifm.dtype is DType.FLOAT32 and weights.dtype is not DType.FLOAT32:
        return _hybrid(node)
    if ifm.dtype is DType.FLOAT32:
        return _float(node)
    finish = _finish(node, ifm, weights, output)
    constant = _matrix(weights) if weights.is_constant else None

    def run() -> None:
        matrix = constant if constant is not None else _matrix(weights)
        rows = _centred(ifm).reshape(-1, depth)
        acc = (rows @ matrix).astype(np.int64)
        if bias is not None:
            acc = acc + bias.array.reshape(-1)
        output.array[...] = finish(acc).reshape(output.shape)

    return run


def _float(node: OperatorNode) -> Run:
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    units, depth = weights.shape
    low, high = float_bounds(node, node.attributes.fused_activation_function)
    turned = np.empty((depth, units), np.float32)
    if weights.is_constant:
        turned[...] = weights.array.T

    def arguments() -> tuple[Any, ...]:
        rows = ifm.array.reshape(-1, depth)
        given = weights.array[:0] if weights.is_constant else weights.array
        added = _NOTHING if bias is None else bias.array.reshape(-1)
        return rows, given, turned, added, low, high, output.array.reshape(len(rows), units)

    return bound_again(dense_in_order, [ifm, weights, output, *([] if bias is None else [bias])], arguments)


def _centred(tensor: RuntimeTensor) -> Array:
    """float32 values as they are, integers minus zero point as float64."""
    return tensor.array if tensor.dtype is DType.FLOAT32 else tensor.array.astype(np.float64) - tensor.zero_point


def _matrix(weights: RuntimeTensor) -> Array:
    """Weights as (depth, units); the reference kernel leaves out the zero points of weights with a scale for each unit."""
    per_channel = weights.quantization is not None and weights.quantization.is_per_channel
    return np.ascontiguousarray((weights.array.astype(np.float64) if per_channel else _centred(weights)).T)


def float_product(rows: Array, weights: Array) -> Array:
    """rows (n, depth) times float32 weights (units, depth) transposed, summed in order."""
    return _product(np.ascontiguousarray(rows), np.ascontiguousarray(weights.T))


def _product(rows: Array, matrix: Array) -> Array:
    if rows.dtype == np.float32:
        out = np.empty((rows.shape[0], matrix.shape[1]), np.float32)
        multiply_in_order(rows, matrix, out)
        return out
    return (rows @ matrix).astype(np.int64)


def _finish(node: OperatorNode, ifm: RuntimeTensor, weights: RuntimeTensor, output: RuntimeTensor) -> Callable[[Array], Array]:
    activation = node.attributes.fused_activation_function
    require_quantized(node, ifm, output)
    scales = filter_scales(node, weights, weights.shape[0])
    is_double = node.options.fully_connected_rounding == "double"
    # The reference kernel multiplies scales as doubles for every type.
    factors = (ifm.scale * scales if is_double else products(ifm, scales)) / output.scale
    if not np.all(factors < 2.0**31):
        raise node.fail(f"scales must give factors below 2**31, got {float(np.max(factors)):g}")
    limits = quantized_range(node, activation, output)
    bias = node.optional(2)
    wide = ifm.dtype is DType.INT16 and (bias is None or bias.dtype is DType.INT64)
    if is_double:
        held = np.dtype(np.int64 if wide else np.int32)  # what the accumulators of the reference kernel hold
        return lambda acc: _round_double(acc.astype(held) * factors, output.zero_point, limits)
    scaling = multipliers(factors.tolist())
    return lambda acc: requantize(acc, scaling, output.zero_point, limits, wide=wide)


def _round_double(values: Array, zero_point: int, limits: tuple[int, int]) -> Array:
    """Nearest, ties away from zero, then offset and clamp; int64.

    What 32 bits do not hold becomes the smallest integer, as x86 converts it, and the offset wraps.
    """
    rounded = np.copysign(np.floor(np.abs(values) + 0.5), values)
    whole = np.where(np.abs(rounded) < 2.0**31, rounded, -(2.0**31)).astype(np.int32) + np.int32(zero_point)
    return np.clip(whole.astype(np.int64), *limits)


def _hybrid(node: OperatorNode) -> Run:
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    units, depth = weights.shape
    scales = filter_scales(node, weights, units).astype(np.float32)
    bounds = activation_bounds(node, node.attributes.fused_activation_function)
    asymmetric = node.attributes.asymmetric_quantize_inputs

    def run() -> None:
        values, input_scales, zero_points = quantize_rows(ifm.array.reshape(-1, depth), asymmetric=asymmetric)
        matrix = weights.array.astype(np.float64).T
        acc = (values.astype(np.float64) - zero_points[:, None]) @ matrix
        result = dequantize_rows(acc, input_scales[:, None], scales, bias.array if bias is not None else None)
        output.array[...] = np.clip(result, *bounds).reshape(output.shape)

    return run


def build_batch_matmul(node: OperatorNode) -> Run:
    left, right, output = node.input(0), node.input(1), node.output()
    a = node.attributes
    x_shape = (*left.shape[:-2], left.shape[-1], left.shape[-2]) if a.adj_x else left.shape
    y_shape = (*right.shape[:-2], right.shape[-1], right.shape[-2]) if a.adj_y else right.shape
    batch = output.shape[:-2]
    if left.dtype is DType.FLOAT32 and right.dtype is DType.INT8:
        return _hybrid_batch_matmul(node, batch, (x_shape, y_shape))
    scaling = None
    is_raw = output.dtype is DType.INT32
    if left.dtype is not DType.FLOAT32 and not is_raw:
        require_quantized(node, left, right, output)
        scaling = multipliers([_product_factor(left, right, output)])

    def run() -> None:
        # The kernel with int32 results multiplies the stored values, zero points included.
        x, y = (t.array.astype(np.float64) if is_raw else _centred(t) for t in (left, right))
        x, y = x.swapaxes(-1, -2) if a.adj_x else x, y.swapaxes(-1, -2) if a.adj_y else y
        acc = _batched(np.broadcast_to(x, (*batch, *x_shape[-2:])), np.broadcast_to(y, (*batch, *y_shape[-2:])))
        if scaling is not None:
            acc = requantize(acc, scaling, output.zero_point, INTEGER_RANGE[output.dtype], wide=output.dtype is DType.INT16)
        output.array[...] = acc

    return run


def _product_factor(left: RuntimeTensor, right: RuntimeTensor, output: RuntimeTensor) -> float:
    """The factor of sums of products. LiteRT's kernel knows one scale per tensor and takes 0 for one that has several."""
    scales = [tensor.scale if not _is_per_channel(tensor) else 0.0 for tensor in (left, right)]
    return scales[0] * scales[1] / output.scale


def _is_per_channel(tensor: RuntimeTensor) -> bool:
    return tensor.quantization is not None and tensor.quantization.scales.size > 1


def _hybrid_batch_matmul(node: OperatorNode, batch: tuple[int, ...], shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Run:
    """float32 rows, quantized while running, times an int8 matrix.

    LiteRT's kernel looks scales, zero points and sums of columns up by the sum of the places along the axes of the batch: of
    several such axes it takes those of other matrices. Where one int8 matrix is for all along the last axis, and no rows are
    columns, that axis is one of rows.
    """
    left, right, output, a = node.input(0), node.input(1), node.output(), node.attributes
    x_shape, y_shape = shapes
    scale = filter_scales(node, right, y_shape[-1]).astype(np.float32)
    has_more_rows = not a.adj_x and len(y_shape) > 2 and y_shape[-3] == 1

    def run() -> None:
        x = (left.array.swapaxes(-1, -2) if a.adj_x else left.array).reshape(-1, x_shape[-1])
        y = (right.array.swapaxes(-1, -2) if a.adj_y else right.array).astype(np.float64)
        values, input_scales, zero_points = quantize_rows(x, asymmetric=a.asymmetric_quantize_inputs)
        rows = _looked_up(batch, x_shape[:-2], x_shape[-2], has_more=has_more_rows)
        columns = _looked_up(batch, y_shape[:-2], y_shape[-1])
        sums = y.sum(axis=-2).reshape(-1)[columns][..., None, :] * zero_points[rows][..., None]
        acc = values.reshape(x_shape).astype(np.float64) @ y - sums
        output.array[...] = dequantize_rows(acc, input_scales[rows][..., None], scale, None)

    return run


def _looked_up(batch: tuple[int, ...], own: tuple[int, ...], count: int, *, has_more: bool = False) -> Array:
    """Where the kernel finds `count` numbers of every matrix of a batch (*batch, count); `own` is the operand's part of it.

    `has_more`: the matrices along the last axis are one.
    """
    extents = (1,) * (len(batch) - len(own)) + own
    apart = count * extents[-1] if has_more else count
    steps = [*[apart] * len(batch), count][1:]
    places = [np.arange(size) * (step if extent > 1 else 0) for size, extent, step in zip(batch, extents, steps, strict=True)]
    matrix: Array = sum(np.ix_(*places), np.zeros(batch, np.int64))
    return matrix[..., None] + np.arange(count)


def _batched(x: Array, y: Array) -> Array:
    if x.dtype != np.float32:
        return (x @ y).astype(np.int64)
    out = np.empty((*x.shape[:-1], y.shape[-1]), np.float32)
    for place in np.ndindex(x.shape[:-2]):
        out[place] = _product(np.ascontiguousarray(x[place]), np.ascontiguousarray(y[place]))
    return out


OPERATORS = (
    Implementation(
        "FULLY_CONNECTED",
        build_fully_connected,
        (
            "f32 f32 f32? -> f32",
            "f32 i8|i4 f32? -> f32",
            "i8 i8|i4 i32? -> i8",
            "u8 u8 i32? -> u8|i16",
            "i16 i8|i4 i32|i64? -> i16",
        ),
    ),
    Implementation(
        "BATCH_MATMUL",
        build_batch_matmul,
        ("f32 f32 -> f32", "f32 i8 -> f32", "i8 i8 -> i8|i32", "i16 i16 -> i16", "i16 i8 -> i16"),
    ),
)
