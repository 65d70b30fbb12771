"""Operators that are functions of one quantized value, as tables. Formulas of TFLite's LUTPopulate; no hardware look-up
here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.sampled import samples_16bit
from npu.numerics.scaling import round_away
from npu.runtime.kernels.softmax import look_up
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import INTEGER_RANGE, require_quantized, run_in_parts

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


def run_16bit(node: OperatorNode, function: Real) -> Run:
    """Prepare a 16-bit operator as an interpolated look-up per element."""
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)
    table = samples_16bit(function, (ifm.scale, ifm.zero_point), (output.scale, output.zero_point))
    return run_in_parts(node, lambda x: look_up(x.astype(np.int64), table))


def is_8bit(dtype: DType) -> bool:
    """Whether a type is one of the quantized 8-bit types."""
    return dtype in (DType.INT8, DType.UINT8)
