"""ADD, SUB and MUL of two 8-bit maps of one shape: every pair of bytes has one result.

The reference kernel computes the table once: 65536 bytes, indexed by 256 * first + second as unsigned bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.graph.dtype import DType
from npu.runtime.operator import OperatorNode
from npu.runtime.registry import find_operator
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.convolution import Site
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import CompiledOperation

KINDS = ("ADD", "SUB", "MUL")
_BYTES = (DType.INT8, DType.UINT8)


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
        row = np.zeros(r.FIELDS, np.int64)
        row[r.KIND], row[r.ROWS] = r.LOOK_UP_PAIRS, self.node.output().elements
        row[r.IN], row[r.IN2] = (address(self.node.input(k).array) for k in range(2))
        row[r.OUT], row[r.WEIGHTS] = address(self.node.output().array), address(self._table)
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
    return Pairs(index, node, site)
