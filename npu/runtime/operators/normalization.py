"""L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.elementwise import power_float
from npu.runtime.kernels.integer_functions import halve, high_product
from npu.runtime.kernels.integer_norm import inverse_square_roots
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import INTEGER_RANGE, clipped, require_quantized, run_rows_in_parts, stored_limits


def _squares(x: Array) -> Array:
    """Sum of squares over the last axis, float32, in order."""
    total = np.zeros((*x.shape[:-1], 1), np.float32)
    for i in range(x.shape[-1]):
        total += x[..., i : i + 1] * x[..., i : i + 1]
    return total


def build_l2_normalization(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if not ifm.shape:
        raise node.fail("input must have rank 1 or more, got a scalar")
    limits = stored_limits(node)
    if ifm.dtype is not DType.FLOAT32:
        require_quantized(node, ifm)

    def real(rows: Array) -> Array:
        divided = rows / np.maximum(np.sqrt(_squares(rows)), np.float32(1e-6))
        return divided if limits is None else clipped(divided, *limits)

    def quantized(rows: Array) -> Array:
        x = rows.astype(np.int64) - ifm.zero_point
        squares = np.ascontiguousarray((x * x).sum(axis=-1, keepdims=True))
        inverse, exponent = np.empty_like(squares), np.empty_like(squares)
        inverse_square_roots(squares.ravel(), inverse.ravel(), exponent.ravel())
        # Seven more bits, of which the kernel of uint8 puts all before the product, that of int8 as few as it can.
        left = 7 if output.dtype is DType.UINT8 else np.maximum(exponent + 7, 0)
        rounded = halve(high_product(x << left, inverse), left - 7 - exponent) + (128 if output.dtype is DType.UINT8 else 0)
        return clipped(rounded, *(INTEGER_RANGE[output.dtype] if limits is None else limits))

    return run_rows_in_parts(node, real if ifm.dtype is DType.FLOAT32 else quantized)


def build_local_response(node: OperatorNode) -> Run:
    ifm, output, a = node.input(0), node.output(), node.attributes
    if len(ifm.shape) != 4:
        raise node.fail(f"input must have rank 4, got {list(ifm.shape)}")
    depth = ifm.shape[3]

    def run() -> None:
        total = np.empty_like(ifm.array)
        for c in range(depth):
            # The reference kernel leaves out the last channel of the window.
            window = ifm.array[..., max(0, c - a.radius) : max(0, min(depth, c + a.radius))]
            total[..., c] = _squares(window)[..., 0]
        base = np.ascontiguousarray(np.float32(a.bias) + np.float32(a.alpha) * total).ravel()
        factor = np.empty_like(base)
        power_float(base, np.full(base.shape, -np.float32(a.beta), np.float32), factor)
        output.array[...] = ifm.array * factor.reshape(output.shape)

    return run


OPERATORS = (
    Implementation("L2_NORMALIZATION", build_l2_normalization, ("f32 -> f32", "i8 -> i8", "u8 -> u8")),
    Implementation("LOCAL_RESPONSE_NORMALIZATION", build_local_response, ("f32 -> f32",)),
)
