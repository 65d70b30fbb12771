"""Activation functions as operators of their own, and SOFTMAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npu.graph.dtype import DType
from npu.graph.map_types import SOFTMAX_SCALES, is_softmax_scale
from npu.numerics.arrays import Array
from npu.numerics.rectifiers import RECTIFIERS
from npu.numerics.sampled import SOFTMAX_RANGE, softmax_exponentials, softmax_reciprocals
from npu.numerics.scaling import quantize_multiplier, table_factor
from npu.runtime.implementation import Implementation
from npu.runtime.kernels import elementwise as ew
from npu.runtime.kernels.integer_functions import hard_swish as hard_swish_8bit
from npu.runtime.kernels.integer_functions import softmax_table, to_16bit
from npu.runtime.kernels.softmax import sigmoid_16bit, softmax_8bit, softmax_16bit, softmax_float, tanh_16bit
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import (
    INTEGER_RANGE,
    bound_again,
    clipped,
    compute_in_parts,
    quantized_bounds,
    require_quantized,
    run_in_parts,
    run_rows_in_parts,
    scaled,
)
from npu.runtime.operators.lut import is_8bit, run_8bit, run_16bit
from npu.runtime.types import for_codes

FLOATS = (DType.FLOAT32, DType.FLOAT16)
"""Half precision is computed in float32 and rounded once."""


def through(kernel: Callable[[Array, Array], None], values: Array) -> Array:
    """Apply a vector kernel to an array of any shape."""
    flat = np.ascontiguousarray(values, np.float32).ravel()
    out = np.empty_like(flat)
    kernel(flat, out)
    return out.reshape(values.shape)


def logistic(x: Array) -> Array:
    return (np.float32(1) / (np.float32(1) + through(ew.exponential, -x))).astype(np.float32)


def float_logistic(x: Array) -> Array:
    """The float reference kernel's: e**x below -9, 1 above 16.6."""
    result = np.where(x > np.float32(16.619047164916992188), np.float32(1), logistic(x))
    return np.where(x < np.float32(-9), through(ew.exponential, x), result)


def hyperbolic_tangent(x: Array) -> Array:
    return through(ew.hyperbolic_tangent, x)


def _smooth(
    real: Callable[[Array], Array], tabulated: Callable[[Array], Array], wide: Callable[[Array, int, int], Array]
) -> Callable[[OperatorNode], Run]:
    """A float function, that of the 8-bit tables, and the 16-bit kernel."""

    def build(node: OperatorNode) -> Run:
        dtype = node.input(0).dtype
        if dtype in FLOATS:
            return run_in_parts(node, real)
        return run_8bit(node, tabulated) if is_8bit(dtype) else _run_16bit(node, wide)

    return build


def _run_16bit(node: OperatorNode, kernel: Callable[[Array, int, int], Array]) -> Run:
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)
    multiplier, shift = table_factor(ifm.scale)
    return run_in_parts(node, lambda x: kernel(x, multiplier, shift))


def _build_relu(kind: str) -> Callable[[OperatorNode], Run]:
    lower, upper = RECTIFIERS[kind]

    def build(node: OperatorNode) -> Run:
        ifm, output = node.input(0), node.output()
        if ifm.dtype is DType.FLOAT32:
            low, high = np.float32(lower), np.float32(upper)
            return run_in_parts(node, lambda x: np.minimum(np.maximum(x, low), high))
        require_quantized(node, ifm, output)
        factor = quantize_multiplier(float(np.float32(ifm.scale) / np.float32(output.scale)))
        low_q, high_q = quantized_bounds(node, (lower, upper), output)

        def rescaled(x: Array) -> Array:
            return clipped(scaled(x.astype(np.int64) - ifm.zero_point, factor) + output.zero_point, low_q, high_q)

        return run_in_parts(node, rescaled)

    return build


def build_leaky_relu(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    alpha = np.float32(node.attributes.alpha)
    if ifm.dtype is DType.FLOAT32:
        return run_in_parts(node, lambda x: np.where(x > 0, x, x * alpha))
    require_quantized(node, ifm, output)
    f32 = np.float32
    identity = quantize_multiplier(float(f32(ifm.scale) / f32(output.scale)))
    negative = quantize_multiplier(float(f32(ifm.scale) * alpha / f32(output.scale)))
    limits = INTEGER_RANGE[output.dtype]

    def leaky(values: Array) -> Array:
        x = values.astype(np.int64) - ifm.zero_point
        return clipped(np.where(x >= 0, scaled(x, identity), scaled(x, negative)) + output.zero_point, *limits)

    return run_in_parts(node, leaky)


def build_prelu(node: OperatorNode) -> Run:
    ifm, slope, output = node.input(0), node.input(1), node.output()
    if ifm.dtype is DType.FLOAT32:

        def real(x: Array, slopes: Array) -> Array:
            return np.where(x >= 0, x, x * slopes)

        return lambda: compute_in_parts(real, (ifm.array, slope.array), output.array)
    require_quantized(node, ifm, slope, output)
    f32 = np.float32
    identity = quantize_multiplier(float(f32(ifm.scale) / f32(output.scale)))
    negative = quantize_multiplier(float(f32(ifm.scale) * f32(slope.scale) / f32(output.scale)))

    def quantized(values: Array, slopes: Array) -> Array:
        x = values.astype(np.int64) - ifm.zero_point
        products = scaled(x * (slopes.astype(np.int64) - slope.zero_point), negative)
        return clipped(np.where(x >= 0, scaled(x, identity), products) + output.zero_point, *INTEGER_RANGE[output.dtype])

    return lambda: compute_in_parts(quantized, (ifm.array, slope.array), output.array)


def elu(x: Array) -> Array:
    return through(ew.exponential_minus_one, x)


def build_elu(node: OperatorNode) -> Run:
    return run_in_parts(node, elu) if node.input(0).dtype is DType.FLOAT32 else run_8bit(node, elu)


def hard_swish(x: Array) -> Array:
    return x * np.minimum(np.maximum(x + np.float32(3), np.float32(0)), np.float32(6)) / np.float32(6)


def build_hard_swish(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if ifm.dtype is DType.FLOAT32:
        return run_in_parts(node, hard_swish)
    require_quantized(node, ifm, output)
    fine = np.float32(1 / 128) * np.float32(ifm.scale)
    factors = [quantize_multiplier(float(fine / np.float32(scale))) for scale in (output.scale, 3.0 / 32768.0)]
    to_output, gate = ((to_16bit(multiplier), exponent) for multiplier, exponent in factors)
    if to_output[1] > 0:
        raise node.fail(f"the output's scale must be at least 1/128 of the input's {ifm.scale}, got {output.scale}")

    def quantized(x: Array) -> Array:
        values = hard_swish_8bit(x.astype(np.int64) - ifm.zero_point, to_output, gate)
        return clipped(values + output.zero_point, *INTEGER_RANGE[output.dtype])

    return run_in_parts(node, quantized)


def gelu(x: Array) -> Array:
    """x / 2 * erfc(-x / sqrt(2)), rounded to the type of x after each step."""
    real = x.dtype.type
    result: Array = real(0.5) * x * through(ew.complementary_error_function, -x * real(math.sqrt(0.5))).astype(x.dtype)
    return result


def gelu_approximate_half(x: Array) -> Array:
    """Rounded to half precision after each step."""
    f16 = np.float16
    inner = f16(0.7978845608028654) * (x + f16(0.044715) * (x * (x * x)))
    return f16(0.5) * x * (f16(1) + hyperbolic_tangent(inner).astype(f16))


def gelu_approximate(x: Array) -> Array:
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    return (x * np.float32(0.5) * (np.float32(1) + hyperbolic_tangent(inner))).astype(np.float32)


def build_gelu(node: OperatorNode) -> Run:
    function = gelu_approximate if node.attributes.approximate else gelu
    if node.input(0).dtype is DType.FLOAT16 and node.attributes.approximate:
        function = gelu_approximate_half
    if node.input(0).dtype in FLOATS:
        return run_in_parts(node, function)
    return run_8bit(node, function) if is_8bit(node.input(0).dtype) else run_16bit(node, function)


def build_softmax(node: OperatorNode) -> Run:
    ifm = node.input(0)
    if not ifm.shape:
        raise node.fail("input must have rank 1 or more, got a scalar")
    if ifm.dtype not in FLOATS:
        _require_softmax_scale(node)
    if is_8bit(ifm.dtype):
        return _softmax_of_bytes(node)
    return run_rows_in_parts(node, _softmax_rows(node))


def _softmax_rows(node: OperatorNode) -> Callable[[Array], Array]:
    """What computes the stored results of rows (n, depth) of stored inputs, no bytes."""
    ifm, beta = node.input(0), float(node.attributes.beta)
    if ifm.dtype in FLOATS:
        softmax = softmax_float if ifm.dtype is DType.FLOAT32 else _softmax_half
        return lambda rows: softmax(np.ascontiguousarray(rows, np.float32), np.float32(beta))
    factor = quantize_multiplier(ifm.scale * beta / (SOFTMAX_RANGE / 65535))

    def wide(rows: Array) -> Array:
        values = rows.astype(np.int64)
        distances = scaled(values - values.max(axis=1, keepdims=True), factor)
        return softmax_16bit(distances, softmax_exponentials(), softmax_reciprocals())

    return wide


def _require_softmax_scale(node: OperatorNode) -> None:
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)
    scale, zero_point = SOFTMAX_SCALES[ifm.dtype, output.dtype]
    if output.zero_point != zero_point or not is_softmax_scale(output.scale, scale):
        raise node.fail(
            f"output must have the scale {scale:g} and zero point {zero_point}, got {output.scale:g} and {output.zero_point}"
        )


def _softmax_of_bytes(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    factor = min(float(node.attributes.beta) * ifm.scale * (1 << 26), (1 << 31) - 1.0)
    bits, flip = output.dtype.bits, 128 if ifm.dtype is DType.INT8 else 0
    numbers = softmax_table(*quantize_multiplier(factor)), flip, bits, output.zero_point

    def arguments() -> tuple[Any, ...]:
        width = ifm.shape[-1] or 1
        rows, results = (tensor.array.reshape(-1, width).view(np.uint8) for tensor in (ifm, output))
        return rows, *numbers, results

    return bound_again(softmax_8bit, (ifm, output), arguments)


def _softmax_half(rows: Array, beta: np.float32) -> Array:
    """Softmax of float16 rows given as float32: exponentials are stored as float16, but summed, in order, as they are."""
    exponentials = through(ew.exponential, (rows - rows.max(axis=1, keepdims=True)) * beta)
    total = np.add.accumulate(exponentials, axis=1, dtype=np.float32)[:, -1:]
    return exponentials.astype(np.float16).astype(np.float32) / total


def build_log_softmax(node: OperatorNode) -> Run:
    if not node.input(0).shape:
        raise node.fail("input must have rank 1 or more, got a scalar")

    def shares(rows: Array) -> Array:
        shifted = rows - rows.max(axis=1, keepdims=True)
        total = np.add.accumulate(through(ew.exponential, shifted), axis=1)[:, -1:]
        result: Array = shifted - through(ew.logarithm, total)
        return result

    return run_rows_in_parts(node, shares)


_SMOOTH = for_codes("T -> T", "f32 f16 i8 u8 i16")
_RELU = for_codes("T -> T", "f32 i8 u8 i16")

OPERATORS = (
    Implementation("LOGISTIC", _smooth(float_logistic, logistic, sigmoid_16bit), _SMOOTH),
    Implementation("TANH", _smooth(hyperbolic_tangent, hyperbolic_tangent, tanh_16bit), _SMOOTH),
    *(Implementation(kind, _build_relu(kind), _RELU) for kind in ("RELU", "RELU6")),
    *(Implementation(kind, _build_relu(kind), for_codes("T -> T", "f32 i8 u8")) for kind in ("RELU_N1_TO_1", "RELU_0_TO_1")),
    Implementation("LEAKY_RELU", build_leaky_relu, _RELU),
    Implementation("PRELU", build_prelu, (*for_codes("T T -> T", "f32 i8 u8"), "i16 i8 -> i16")),
    Implementation("ELU", build_elu, for_codes("T -> T", "f32 i8")),
    Implementation("HARD_SWISH", build_hard_swish, for_codes("T -> T", "f32 i8 u8")),
    Implementation("GELU", build_gelu, for_codes("T -> T", "f32 f16 i8 u8 i16")),
    Implementation(
        "SOFTMAX", build_softmax, ("f32 -> f32", "f16 -> f16", "i8 -> i8", "i8 -> i16", "u8 -> u8", "u8 -> i16", "i16 -> i16")
    ),
    Implementation("LOG_SOFTMAX", build_log_softmax, ("f32 -> f32",)),
)
