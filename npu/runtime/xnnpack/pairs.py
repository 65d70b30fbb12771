"""ADD, SUB and MUL of two 8-bit maps of one shape.

ADD and SUB are vector code with the reference kernel's factors. For MUL, and scales that do not fit, every pair of bytes has
one result in a table, which the reference kernel computes once: 65536 bytes, indexed by 256 * first + second, unsigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.graph.dtype import DType
from npu.numerics.scaling import quantize_multiplier
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import quantized_range, require_quantized
from npu.runtime.registry import find_operator
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.convolution import Site
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.sums import LEFT_SHIFT, LOW_BITS
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import CompiledOperation

KINDS = ("ADD", "SUB", "MUL")
_BYTES = (DType.INT8, DType.UINT8)
_LARGEST_LEFT_SHIFT = 2
"""Sums of two operands are below 2**28."""


class Sums(CompiledOperation):
    """ADD or SUB of two computed maps of equal shape and at least 16 elements."""

    def __init__(self, index: int, node: OperatorNode, site: Site, factors: Sequence[tuple[int, int]]) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)
        bias = 128 if node.output().dtype is DType.INT8 else 0
        offsets = [node.input(0).zero_point + bias, node.input(1).zero_point + bias, node.output().zero_point]
        operands = [value for m, e in factors[:2] for value in ((m >> 16) << (16 - LOW_BITS), m & 0xFFFF, -e)]
        m, e = factors[2]
        scaling = [*operands, max(e, 0), m, max(-e, 0)]
        values = np.array([*offsets, *scaling], np.int32)
        self._stage = site.store(np.repeat(values, 16).view(np.uint8))
        self._sign = bias
        self._limits = quantized_range(node, node.attributes.fused_activation_function, node.output())

    def shape(self) -> bool:
        first, second = self.node.input(0), self.node.input(1)
        if first.shape != second.shape or first.elements < 16:
            return False
        self.node.set_shape(first.shape)
        return True

    def bind(self) -> None:
        row, count = np.zeros((), r.JOB), self.node.output().elements
        row["kind"] = r.ADD_BYTES if self.node.kind == "ADD" else r.SUBTRACT_BYTES
        row["rows"], row["width"], row["stage"], row["sign"] = -(-count // 16), count, address(self._stage), self._sign
        row["single"] = 1 if self.node.input(0).scale >= self.node.input(1).scale else 2
        row["input"], row["input2"] = (address(self.node.input(k).array) for k in range(2))
        row["out"], row["low"], row["high"] = address(self.node.output().array), *self._limits
        self.rows = row[None]


def _sum_factors(node: OperatorNode) -> list[tuple[int, int]] | None:
    """Multiplier and exponent of both operands and the result, as the reference kernel has them; None if sums might not fit."""
    left, right, output = node.input(0), node.input(1), node.output()
    require_quantized(node, left, right, output)
    twice = 2.0 * max(left.scale, right.scale)
    real = (left.scale / twice, right.scale / twice, twice / ((1 << LEFT_SHIFT) * output.scale))
    factors = [quantize_multiplier(factor) for factor in real]
    larger = factors[0] if left.scale >= right.scale else factors[1]
    is_plain = larger == (1 << 30, 0) and max(factors[0][1], factors[1][1]) <= 0 and factors[2][1] <= _LARGEST_LEFT_SHIFT
    return factors if is_plain else None


class Pairs(CompiledOperation):
    """An operator on two computed maps of equal shape."""

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)
        self._table = site.store(_table(node))

    def shape(self) -> bool:
        first, second = self.node.input(0), self.node.input(1)
        if first.shape != second.shape or not first.elements:
            return False
        self.node.set_shape(first.shape)
        return True

    def bind(self) -> None:
        row = np.zeros((), r.JOB)
        row["kind"], row["rows"] = r.LOOK_UP_PAIRS, self.node.output().elements
        row["input"], row["input2"] = (address(self.node.input(k).array) for k in range(2))
        row["out"], row["weights"] = address(self.node.output().array), address(self._table)
        self.rows = row[None]


def _table(node: OperatorNode) -> npt.NDArray[np.uint8]:
    """Results for all pairs, from the reference kernel on a map of 256 by 256."""
    bytes_of = np.arange(256, dtype=np.uint8)
    grids = np.repeat(bytes_of, 256), np.tile(bytes_of, 256)
    inputs = [_stand_in(node.input(k), grid) for k, grid in enumerate(grids)]
    output = _stand_in(node.output(), np.zeros(1 << 16, np.uint8))
    trial = replace(node, inputs=tuple(inputs), outputs=(output,), allocate=_no_allocation)
    find_operator(node.kind, node.label).prepare(trial)()
    return output.array.reshape(-1).view(np.uint8)


def _stand_in(tensor: RuntimeTensor, values: npt.NDArray[Any]) -> RuntimeTensor:
    made = RuntimeTensor(tensor.index, tensor.source)
    made.shape, made.is_constant = (256, 256), False
    assert tensor.dtype.numpy is not None
    made.data = values.view(tensor.dtype.numpy).reshape(256, 256)
    return made


def _no_allocation(tensor: RuntimeTensor, shape: tuple[int, ...]) -> None:
    assert tensor.shape == shape


def compile_pairs(index: int, node: OperatorNode, site: Site) -> CompiledOperation | None:
    """A compiled operation for two computed 8-bit maps, None if the reference kernel shall run it."""
    if len(node.inputs) != 2 or any(tensor is None or tensor.dtype not in _BYTES for tensor in node.inputs):
        return None
    first, second = node.input(0), node.input(1)
    if first.is_constant or second.is_constant or first.dtype is not second.dtype or node.output().dtype is not first.dtype:
        return None
    factors = _sum_factors(node) if node.kind != "MUL" else None
    return Pairs(index, node, site) if factors is None else Sums(index, node, site, factors)
