"""One-operand arithmetic: ABS, NEG, EXP, SQRT and the like."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from npu.graph.dtype import DType
from npu.native.kernel import Kernel
from npu.numerics.arrays import Array
from npu.numerics.scaling import quantize_multiplier
from npu.runtime.implementation import Implementation
from npu.runtime.kernels import elementwise as ew
from npu.runtime.kernels.integer_norm import inverse_square_roots
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.activation import through
from npu.runtime.operators.common import (
    INTEGER_RANGE,
    bound_again,
    clipped,
    requantize,
    require_quantized,
    run_in_parts,
    scaled,
)
from npu.runtime.operators.lut import is_8bit, run_8bit, run_16bit
from npu.runtime.types import for_codes

Unary = Callable[[Array], Array]


def _plain(function: Unary) -> Callable[[OperatorNode], Run]:
    return lambda node: run_in_parts(node, function)


def build_abs(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if not (is_8bit(ifm.dtype) or (ifm.dtype is DType.INT16 and ifm.is_quantized)):
        return run_in_parts(node, np.abs)
    require_quantized(node, ifm, output)
    is_same = ifm.first_scale == output.first_scale
    factor = quantize_multiplier(float(np.float32(ifm.first_scale) / np.float32(output.first_scale)))

    def quantized(x: Array) -> Array:
        magnitude = np.abs(x.astype(np.int64) - ifm.zero_point)
        values = magnitude if is_same else scaled(magnitude, factor)
        return clipped(values + output.zero_point, *INTEGER_RANGE[output.dtype])

    return run_in_parts(node, quantized)


def _tabulated(kernel: Kernel, outside: int | None = None) -> Callable[[OperatorNode], Run]:
    """A float function; quantized inputs go through a table of it."""

    def build(node: OperatorNode) -> Run:
        ifm, output = node.input(0), node.output()
        dtype = ifm.dtype
        if dtype is DType.FLOAT32:
            return bound_again(kernel, (ifm, output), lambda: (ifm.array.reshape(-1), output.array.reshape(-1)))

        def table(x: Array) -> Array:
            values = through(kernel, x)
            if outside is None:
                return values
            limit = np.float32(output.scale) * np.float32(INTEGER_RANGE[dtype][outside] - output.zero_point)
            return np.where(x > 0, values, limit).astype(np.float32)

        return run_8bit(node, table) if is_8bit(dtype) else run_16bit(node, table)

    return build


def _only_above_zero(node: OperatorNode, run: Run) -> Run:
    """`run` of a quantized operator that is not defined below zero; such an input is an error of the invocation."""
    ifm = node.input(0)
    if ifm.dtype is DType.FLOAT32:
        return run

    def checked() -> None:
        if ifm.array.size and int(ifm.array.min()) < ifm.zero_point:
            raise node.fail(f"input must not be below 0, got {int(ifm.array.min())} with zero point {ifm.zero_point}")
        run()

    return checked


_build_rsqrt = _tabulated(ew.inverse_square_root, outside=1)
_RSQRT_BITS = 20
"""Fraction bits of an inverse square root before it is scaled."""


def build_rsqrt(node: OperatorNode) -> Run:
    return _only_above_zero(node, _rsqrt_8bit(node) if node.input(0).dtype is DType.INT8 else _build_rsqrt(node))


def _rsqrt_8bit(node: OperatorNode) -> Run:
    """In fixed point, as the reference kernel of RSQRT; the largest number for zero."""
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)
    inverse, exponent = np.empty(256, np.int64), np.empty(256, np.int64)
    inverse_square_roots(np.arange(256), inverse, exponent)
    roots = requantize(np.ones((1, 256), np.int64), (inverse, exponent + _RSQRT_BITS), 0, INTEGER_RANGE[DType.INT32])
    multiplier, shift = quantize_multiplier(1 / (math.sqrt(ifm.scale) * output.scale))
    values = scaled(roots[0], (multiplier, shift - _RSQRT_BITS)) + output.zero_point
    table = np.clip(values, *INTEGER_RANGE[DType.INT8]).astype(np.int8)
    table[0] = INTEGER_RANGE[DType.INT8][1]

    def run() -> None:
        np.take(table, ifm.array.astype(np.int64) - ifm.zero_point, out=output.array, mode="clip")

    return run


def build_sqrt(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if ifm.dtype is DType.FLOAT32:
        return _plain(np.sqrt)(node)
    require_quantized(node, ifm, output)
    scale = np.float32(ifm.scale)

    def quantized(x: Array) -> Array:
        real = np.sqrt((x.astype(np.int64) - ifm.zero_point).astype(np.float32) * scale) / np.float32(output.scale)
        return clipped(np.trunc(real).astype(np.int64) + output.zero_point, *INTEGER_RANGE[output.dtype])

    return _only_above_zero(node, run_in_parts(node, quantized))


def _round_half_even(x: Array) -> Array:
    return np.rint(x)


def build_logical_not(node: OperatorNode) -> Run:
    return run_in_parts(node, np.logical_not)


_FLOAT = ("f32 -> f32",)
_FLOAT_OR_HALF = for_codes("T -> T", "f32 f16")
_TABULATED = for_codes("T -> T", "f32 i8 i16")

OPERATORS = (
    Implementation("ABS", build_abs, for_codes("T -> T", "f32 i8 i16 i32")),
    Implementation("NEG", _plain(np.negative), for_codes("T -> T", "f32 f16 i8 i16 i32 i64")),
    Implementation("SQUARE", _plain(lambda x: x * x), _FLOAT),
    Implementation("SQRT", build_sqrt, _TABULATED),
    Implementation("RSQRT", build_rsqrt, _TABULATED),
    Implementation("EXP", _tabulated(ew.exponential), _TABULATED),
    Implementation("LOG", _tabulated(ew.logarithm, outside=0), _TABULATED),
    Implementation("SIN", _plain(lambda x: through(ew.sine, x)), _FLOAT_OR_HALF),
    Implementation("COS", _plain(lambda x: through(ew.cosine, x)), _FLOAT_OR_HALF),
    Implementation("CEIL", _plain(np.ceil), _FLOAT),
    Implementation("FLOOR", _plain(np.floor), _FLOAT_OR_HALF),
    Implementation("ROUND", _plain(_round_half_even), _FLOAT_OR_HALF),
    Implementation("SIGN", _plain(np.sign), for_codes("T -> T", "f32 f64 i32")),
    Implementation("LOGICAL_NOT", build_logical_not, ("bool -> bool",)),
)
