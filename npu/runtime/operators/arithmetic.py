"""ADD, SUB, MUL, DIV and the other two-operand arithmetic, with broadcasting and fused activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.scaling import quantize_multiplier
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.elementwise import power_float
from npu.runtime.kernels.integer_functions import divide as quotient
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import (
    activation_bounds,
    compute_in_parts,
    float_bounds,
    multipliers,
    quantized_range,
    requantize,
    require_factors,
    require_no_activation,
    require_quantized,
    scaled,
)
from npu.runtime.types import for_codes

_MAX_EXPONENT = 1 << 16
Binary = Callable[[Array, Array], Array]


def _activation(node: OperatorNode) -> FusedActivation:
    return getattr(node.attributes, "fused_activation_function", FusedActivation.NONE)


def _plain(node: OperatorNode, function: Binary) -> Run:
    """Float and plain integer operands: numpy semantics, clamped by operators that have a fused activation."""
    left, right, output = node.input(0), node.input(1), node.output()
    is_float, activation = output.dtype in (DType.FLOAT32, DType.FLOAT16), _activation(node)
    bounds: tuple[Any, ...] = tuple(int(b) if math.isfinite(b) else None for b in activation_bounds(node, activation))
    if is_float:
        bounds = float_bounds(node, activation, output.array.dtype)
    is_clamped = (is_float and hasattr(node.attributes, "fused_activation_function")) or activation is not FusedActivation.NONE

    def clamped(x: Array, y: Array) -> Array:
        result: Array = np.clip(function(x, y), *bounds)
        return result

    return lambda: compute_in_parts(clamped if is_clamped else function, (left.array, right.array), output.array)


def _is_quantized(node: OperatorNode) -> bool:
    """Whether values stand for reals; words without a scale, all three of them, are plain integers."""
    dtype = node.input(0).dtype
    has_scales = any(tensor.is_quantized for tensor in (node.input(0), node.input(1), node.output()))
    return dtype in (DType.INT8, DType.UINT8) or (dtype is DType.INT16 and has_scales)


def _sum(node: OperatorNode, function: Binary) -> Run:
    if not _is_quantized(node):
        return _plain(node, function)
    left, right, output = node.input(0), node.input(1), node.output()
    require_quantized(node, left, right, output)
    if left.dtype is DType.INT16 and node.attributes.pot_scale_int16 and _has_power_of_two_scales(node):
        return _sum_power_of_two(node, function)
    shift = 15 if left.dtype is DType.INT16 else 20
    twice = 2.0 * max(left.scale, right.scale)
    left_factor, right_factor = quantize_multiplier(left.scale / twice), quantize_multiplier(right.scale / twice)
    scaling = multipliers([twice / ((1 << shift) * output.scale)])
    limits = quantized_range(node, _activation(node), output)

    def total(a: Array, b: Array) -> Array:
        x = scaled((a.astype(np.int64) - left.zero_point) << shift, left_factor)
        y = scaled((b.astype(np.int64) - right.zero_point) << shift, right_factor)
        return requantize(function(x, y), scaling, output.zero_point, limits)

    return lambda: compute_in_parts(total, (left.array, right.array), output.array)


def _has_power_of_two_scales(node: OperatorNode) -> bool:
    tensors = (node.input(0), node.input(1), node.output())
    return all(t.zero_point == 0 and np.frexp(t.scale)[0] == 0.5 for t in tensors)


def _sum_power_of_two(node: OperatorNode, function: Binary) -> Run:
    """int16 with scales that are powers of two: one operand is shifted to the other's scale with rounding."""
    left, right, output = node.input(0), node.input(1), node.output()
    exponents = [int(np.frexp(t.scale)[1]) for t in (left, right, output)]
    shifts = exponents[0] - exponents[2], exponents[1] - exponents[2]
    if max(shifts) > 0 or (shifts[0] != 0 and shifts[1] != 0):
        raise node.fail(f"one operand's power-of-two scale must be the output's and none above it, got exponents {exponents}")
    low, high = quantized_range(node, _activation(node), output)

    def total(a: Array, b: Array) -> Array:
        x = scaled(a, (1 << 30, shifts[0] + 1)) if shifts[0] else a.astype(np.int64)
        y = scaled(b, (1 << 30, shifts[1] + 1)) if shifts[1] else b.astype(np.int64)
        result: Array = np.clip(np.clip(function(x, y), -32768, 32767), low, high)
        return result

    return lambda: compute_in_parts(total, (left.array, right.array), output.array)


def build_add(node: OperatorNode) -> Run:
    return _sum(node, np.add)


def build_sub(node: OperatorNode) -> Run:
    return _sum(node, np.subtract)


def _product_factor(node: OperatorNode) -> float:
    """scale1 * scale2 / scale of the output, in float32 as the reference kernel computes it."""
    left, right, output = node.input(0), node.input(1), node.output()
    return float(np.float32(left.scale) * np.float32(right.scale) / np.float32(output.scale))


def _complex_product(x: Array, y: Array) -> Array:
    """Each of the four products rounded by itself, as C++ multiplies; numpy may fuse them."""
    product = np.empty(np.broadcast_shapes(x.shape, y.shape), np.complex64)
    product.real = x.real * y.real - x.imag * y.imag
    product.imag = x.real * y.imag + x.imag * y.real
    return product


def build_mul(node: OperatorNode) -> Run:
    if node.input(0).dtype is DType.COMPLEX64:
        require_no_activation(node)
        return _plain(node, _complex_product)
    if not _is_quantized(node):
        return _plain(node, np.multiply)
    left, right, output = node.input(0), node.input(1), node.output()
    require_factors(node, left, right)
    require_quantized(node, output)
    scaling = multipliers([_product_factor(node)])
    limits = quantized_range(node, _activation(node), output)

    def product(a: Array, b: Array) -> Array:
        x, y = a.astype(np.int64) - left.zero_point, b.astype(np.int64) - right.zero_point
        return requantize(x * y, scaling, output.zero_point, limits)

    return lambda: compute_in_parts(product, (left.array, right.array), output.array)


def build_div(node: OperatorNode) -> Run:
    if _is_quantized(node):
        return _quantized_quotient(node)
    right = node.input(1)
    if right.dtype is not DType.INT32:
        return _plain(node, np.divide)

    def divide(x: Array, y: Array) -> Array:
        if np.any(y == 0):
            raise node.fail("divisor must not be 0")
        wide_x, wide_y = x.astype(np.int64), y.astype(np.int64)
        result: Array = np.sign(wide_x) * np.sign(wide_y) * (np.abs(wide_x) // np.abs(wide_y))
        return result

    return _plain(node, divide)


def _quantized_quotient(node: OperatorNode) -> Run:
    left, right, output = node.input(0), node.input(1), node.output()
    require_quantized(node, left, right, output)
    divisor = np.float32(right.scale) * np.float32(output.scale)
    multiplier, shift = quantize_multiplier(float(np.float32(left.scale) / divisor))
    limits = quantized_range(node, _activation(node), output)

    def divided(a: Array, b: Array) -> Array:
        x, y = np.broadcast_arrays(a.astype(np.int64) - left.zero_point, b.astype(np.int64) - right.zero_point)
        if np.any(y == 0):
            raise node.fail("divisor must not be 0")
        result: Array = np.clip(quotient(x, y, multiplier, shift) + output.zero_point, *limits)
        return result

    return lambda: compute_in_parts(divided, (left.array, right.array), output.array)


def build_squared_difference(node: OperatorNode) -> Run:
    if not _is_quantized(node):
        return _plain(node, lambda x, y: (x - y) * (x - y))
    left, right, output = node.input(0), node.input(1), node.output()
    require_quantized(node, left, right, output)
    shift = 7
    twice = 2.0 * max(left.scale, right.scale)
    left_factor, right_factor = quantize_multiplier(left.scale / twice), quantize_multiplier(right.scale / twice)
    scaling = multipliers([twice * twice / ((1 << shift * 2) * output.scale)])
    limits = quantized_range(node, FusedActivation.NONE, output)

    def square(a: Array, b: Array) -> Array:
        x = scaled((a.astype(np.int64) - left.zero_point) << shift, left_factor)
        y = scaled((b.astype(np.int64) - right.zero_point) << shift, right_factor)
        return requantize((x - y) * (x - y), scaling, output.zero_point, limits)

    return lambda: compute_in_parts(square, (left.array, right.array), output.array)


def _elementwise(function: Binary) -> Callable[[OperatorNode], Run]:
    def build(node: OperatorNode) -> Run:
        return _plain(node, function)

    return build


def build_floor_div(node: OperatorNode) -> Run:

    def divide(x: Array, y: Array) -> Array:
        if np.any(y == 0):
            raise node.fail("divisor must not be 0")
        return np.floor(x / y) if x.dtype.kind == "f" else x // y

    return _plain(node, divide)


def build_floor_mod(node: OperatorNode) -> Run:

    def modulo(x: Array, y: Array) -> Array:
        if x.dtype.kind != "f":
            if np.any(y == 0):
                raise node.fail("divisor must not be 0")
            return np.mod(x, y)
        rest = np.fmod(x, y)
        return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)

    return _plain(node, modulo)


def build_power(node: OperatorNode) -> Run:
    output = node.output()

    def power(x: Array, y: Array) -> Array:
        a, b = np.broadcast_arrays(x, y)
        if output.dtype is DType.INT32:
            # The kernel computes in double; what does not fit becomes the smallest integer, as x86 converts it.
            real = np.power(a.astype(np.float64), b.astype(np.float64))
            return np.where(np.abs(real) < 2.0**31, real, -(2.0**31)).astype(np.int64)
        result = np.empty(a.shape, np.float32)
        power_float(np.ascontiguousarray(a).ravel(), np.ascontiguousarray(b).ravel(), result.ravel())
        return result

    def run() -> None:
        x, y = node.input(0).array, node.input(1).array
        if output.dtype is DType.INT32 and np.any(y < 0):
            raise node.fail("exponents of integers must not be negative")
        exponent = float(y.reshape(-1)[0]) if y.size == 1 and x.shape != y.shape else -1.0
        if 0 <= exponent <= _MAX_EXPONENT and exponent.is_integer():
            _repeated_product(x, int(exponent), output.array.reshape(x.shape))
        else:
            compute_in_parts(power, (x, y), output.array)

    return run


def build_add_n(node: OperatorNode) -> Run:
    output = node.output()

    def total(*operands: Array) -> Array:
        made = np.zeros(operands[0].shape, output.array.dtype)
        for operand in operands:
            made += operand
        return made

    return lambda: compute_in_parts(total, [node.input(position).array for position in range(len(node.inputs))], output.array)


def _right_shift(x: Array, y: Array) -> Array:
    """Arithmetic; by at least no bit, at most all but one."""
    shifted: Array = x >> np.clip(y, 0, 8 * x.itemsize - 1).astype(x.dtype)
    return shifted


def _repeated_product(x: Array, exponent: int, out: Array) -> None:
    """out = x**exponent, as the kernel computes broadcast scalar exponents that are whole numbers: the square of half of it,
    times x if it is odd."""
    if exponent < 2:
        out[...] = x if exponent else 1
    made = x
    for bit in f"{exponent:b}"[1:]:
        made = np.multiply(made, made, out=out)
        if bit == "1":
            np.multiply(x, out, out=out)


_BITS = "i8 u8 i16 u16 i32 u32"
_ATAN2: Any = np.frompyfunc(math.atan2, 2, 1)


def _maximum(x: Array, y: Array) -> Array:
    return np.where(x > y, x, y)


def _minimum(x: Array, y: Array) -> Array:
    return np.where(x < y, x, y)


_EXTREMUM = for_codes("T T -> T", "f32 f16 i8 u8 i16 i32 i64")

OPERATORS = (
    Implementation("ADD", build_add, for_codes("T T -> T", "f32 f16 i8 u8 i16 i32 i64")),
    Implementation("SUB", build_sub, for_codes("T T -> T", "f32 i8 u8 i16 i32 i64")),
    Implementation("MUL", build_mul, for_codes("T T -> T", "f32 f16 i8 u8 i16 i32 u32 i64 c64")),
    Implementation("DIV", build_div, for_codes("T T -> T", "f32 i8 u8 i16 i32")),
    Implementation("SQUARED_DIFFERENCE", build_squared_difference, for_codes("T T -> T", "f32 i8 i32")),
    Implementation("MAXIMUM", _elementwise(_maximum), _EXTREMUM),
    Implementation("MINIMUM", _elementwise(_minimum), _EXTREMUM),
    Implementation("FLOOR_DIV", build_floor_div, for_codes("T T -> T", "f32 i8 i16 i32")),
    Implementation("FLOOR_MOD", build_floor_mod, for_codes("T T -> T", "f32 i8 i16 i32 i64")),
    Implementation("ADD_N", build_add_n, for_codes("T* -> T", "f32 i32")),
    Implementation("ATAN2", _elementwise(_ATAN2), for_codes("T T -> T", "f32 f64")),
    Implementation("BITWISE_XOR", _elementwise(np.bitwise_xor), for_codes("T T -> T", _BITS)),
    Implementation("RIGHT_SHIFT", _elementwise(_right_shift), for_codes("T T -> T", _BITS)),
    Implementation("POW", build_power, for_codes("T T -> T", "f32 i32")),
)
