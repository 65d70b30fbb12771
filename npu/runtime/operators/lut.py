"""Operators that are functions of one quantized value, as tables. Formulas of TFLite's LUTPopulate; no hardware look-up
here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.scaling import round_away
from npu.runtime.kernels.softmax import look_up
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import INTEGER_RANGE, require_quantized, rounded, run_in_parts

Real = Callable[[Array], Array]
"""A float32 function of a contiguous float32 vector."""


def table_8bit(node: OperatorNode, function: Real) -> Array:
    """Output values (int64) for the 256 input values in ascending order, computed in float32."""
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)
    low, high = INTEGER_RANGE[ifm.dtype]
    values = (np.arange(low, high + 1) - ifm.zero_point).astype(np.float32)
    inverse = np.float32(1) / np.float32(output.scale)
    rescaled = round_away(function(np.float32(ifm.scale) * values) * inverse)
    return np.clip(rescaled.astype(np.float64) + output.zero_point, *INTEGER_RANGE[output.dtype]).astype(np.int64)


def run_8bit(node: OperatorNode, function: Real) -> Run:
    """Prepare an 8-bit operator as one table look-up per element."""
    table = table_8bit(node, function)
    low = INTEGER_RANGE[node.input(0).dtype][0]
    return run_in_parts(node, lambda x: table[x.astype(np.int64) - low])


def table_16bit(
    function: Callable[[float], float], input_scale: float, input_zero: int, output_scale: float, output_zero: int
) -> Array:
    """513 int16 samples (as int64) of a function over the int16 range, each corrected by half the midpoint's interpolation
    error."""
    low, high = (-32768 - input_zero) * input_scale, (32767 - input_zero) * input_scale
    out_low, out_high = (-32768 - output_zero) * output_scale, (32767 - output_zero) * output_scale
    step, inverse = (high - low) / 512, 65536 / (out_high - out_low)
    table = np.empty(513, np.int64)
    for i in range(512):
        sample = rounded(function(low + i * step) * inverse)
        following = function(low + (i + 1) * step) * inverse
        middle = rounded(function(low + i * step + step / 2) * inverse)
        error = rounded((following + sample) / 2) - middle
        table[i] = min(max(sample - rounded(error / 2), -32768), 32767)
    table[512] = min(max(rounded(function(high) * inverse), -32768), 32767)
    return table


def run_16bit(node: OperatorNode, function: Real) -> Run:
    """Prepare a 16-bit operator as an interpolated look-up per element."""
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)
    table = _samples(node, function)
    return run_in_parts(node, lambda x: look_up(x.astype(np.int64), table))


def _samples(node: OperatorNode, function: Real) -> Array:
    """The table of `table_16bit` with everything in float32, as LUTPopulate makes it for operators other than SOFTMAX."""
    ifm, output, f32 = node.input(0), node.output(), np.float32
    scale, low_out = f32(ifm.scale), f32(output.scale) * f32(-32768 - output.zero_point)
    low, high = scale * f32(-32768 - ifm.zero_point), scale * f32(32767 - ifm.zero_point)
    step = (high - low) / f32(512)
    inverse = f32(65536) / (f32(output.scale) * f32(32767 - output.zero_point) - low_out)
    starts = np.arange(513, dtype=f32)
    at, middle = function(low + starts * step), function(low + starts * step + step / f32(2))
    at[512] = function(np.array([low + f32(512) * step], f32))[0]
    rounded = round_away(at * inverse)
    between = round_away((at[1:] * inverse + rounded[:-1]) / f32(2))
    bias = round_away((between - round_away(middle[:-1] * inverse)) / f32(2))
    last = round_away(function(np.array([high], f32)) * inverse)
    samples = np.concatenate([rounded[:-1] - bias, last])
    table: Array = np.nan_to_num(np.clip(samples, -32768, 32767), nan=0.0).astype(np.int64)
    return table


def is_8bit(dtype: DType) -> bool:
    """Whether a type is one of the quantized 8-bit types."""
    return dtype in (DType.INT8, DType.UINT8)
