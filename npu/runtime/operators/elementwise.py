"""One-operand arithmetic: ABS, NEG, EXP, SQRT and the like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.scaling import quantise_multiplier
from npu.runtime.implementation import Implementation
from npu.runtime.kernels import elementwise as ew
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.activation import run_float, through
from npu.runtime.operators.common import INTEGER_RANGE, require_quantized, scaled
from npu.runtime.operators.lut import is_8bit, run_8bit
from npu.runtime.tensor import Array
from npu.runtime.types import each

Unary = Callable[[Array], Array]


def _plain(function: Unary) -> Callable[[OperatorNode], Run]:
    def build(node: OperatorNode) -> Run:
        def apply(x: Array) -> Array:
            with np.errstate(all="ignore"):
                return function(x)

        return run_float(node, apply)

    return build


def build_abs(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if not (is_8bit(ifm.dtype) or (ifm.dtype is DType.INT16 and ifm.is_quantized)):
        return run_float(node, np.abs)
    require_quantized(node, ifm, output)
    node.set_shape(ifm.shape)
    is_same = ifm.scale == output.scale
    factor = quantise_multiplier(float(np.float32(ifm.scale) / np.float32(output.scale)))

    def run() -> None:
        magnitude = np.abs(ifm.array.astype(np.int64) - ifm.zero_point)
        values = magnitude if is_same else scaled(magnitude, factor)
        output.array[...] = np.clip(values + output.zero_point, *INTEGER_RANGE[output.dtype])

    return run


def build_exp(node: OperatorNode) -> Run:
    ifm = node.input(0)

    def exponential(x: Array) -> Array:
        return through(ew.exponential, x)

    if ifm.dtype is DType.FLOAT32:
        return run_float(node, exponential)
    return run_8bit(node, exponential)


def _round_half_even(x: Array) -> Array:
    return np.rint(x)


def build_logical_not(node: OperatorNode) -> Run:
    return run_float(node, np.logical_not)


_FLOAT = ("f32 -> f32",)

OPERATORS = (
    Implementation("ABS", build_abs, each("T -> T", "f32 i8 i16 i32")),
    Implementation("NEG", _plain(np.negative), each("T -> T", "f32 i32 i64")),
    Implementation("SQUARE", _plain(lambda x: x * x), _FLOAT),
    Implementation("SQRT", _plain(np.sqrt), _FLOAT),
    Implementation("RSQRT", _plain(lambda x: np.float32(1) / np.sqrt(x)), _FLOAT),
    Implementation("EXP", build_exp, each("T -> T", "f32 i8")),
    Implementation("LOG", _plain(lambda x: through(ew.logarithm, x)), _FLOAT),
    Implementation("SIN", _plain(lambda x: through(ew.sine, x)), _FLOAT),
    Implementation("COS", _plain(lambda x: through(ew.cosine, x)), _FLOAT),
    Implementation("CEIL", _plain(np.ceil), _FLOAT),
    Implementation("FLOOR", _plain(np.floor), _FLOAT),
    Implementation("ROUND", _plain(_round_half_even), _FLOAT),
    Implementation("SIGN", _plain(np.sign), each("T -> T", "f32 i32")),
    Implementation("LOGICAL_NOT", build_logical_not, ("bool -> bool",)),
)
