"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.pooling import MEANS, average_float, maximum
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import bound_again, float_bounds, pad_before, quantized_range
from npu.runtime.types import for_codes

_Pool = Callable[[Array, "Bounds"], Array]
Bounds = tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]


def _bounds(node: OperatorNode) -> Bounds:
    """(kernel, stride, padding before, output size)."""
    ifm, a = node.input(0), node.attributes
    kernel, stride = (a.filter_height, a.filter_width), (a.stride_h, a.stride_w)
    sizes, out = ifm.shape[1:3], node.output().shape[1:3]
    before = tuple(
        0 if a.padding is Padding.VALID else pad_before(s, o, k, t, 1)[0]
        for s, o, k, t in zip(sizes, out, kernel, stride, strict=True)
    )
    return kernel, stride, (before[0], before[1]), (out[0], out[1])


def _run_real(node: OperatorNode, pool: _Pool) -> Run:
    ifm, output, bounds = node.input(0), node.output(), _bounds(node)
    limits = float_bounds(node, node.attributes.fused_activation_function)

    def run() -> None:
        output.array[...] = np.clip(pool(ifm.array, bounds), *limits)

    return run


def build_average_pool(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if ifm.dtype is DType.FLOAT32:
        return _run_real(node, lambda x, bounds: average_float(x, *bounds))
    kernel, stride, before, _ = _bounds(node)
    limits = quantized_range(node, node.attributes.fused_activation_function, output)
    total = np.zeros(ifm.shape[3], np.int64)

    def arguments() -> tuple[Any, ...]:
        return ifm.array, *kernel, *stride, *before, *limits, total, output.array

    return bound_again(MEANS[np.dtype(ifm.dtype.numpy)], (ifm, output), arguments)


def build_max_pool(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if ifm.dtype is DType.FLOAT32:
        return _run_real(node, lambda x, bounds: maximum(x, *bounds))
    bounds, limits = _bounds(node), quantized_range(node, node.attributes.fused_activation_function, output)

    def run() -> None:
        output.array[...] = np.clip(maximum(ifm.array, *bounds), *limits)

    return run


def build_l2_pool(node: OperatorNode) -> Run:
    return _run_real(node, lambda x, bounds: np.sqrt(average_float(x * x, *bounds)))


_TYPES = for_codes("T -> T", "f32 i8 u8 i16")

OPERATORS = (
    Implementation("AVERAGE_POOL_2D", build_average_pool, _TYPES),
    Implementation("MAX_POOL_2D", build_max_pool, _TYPES),
    Implementation("L2_POOL_2D", build_l2_pool, ("f32 -> f32",)),
)
