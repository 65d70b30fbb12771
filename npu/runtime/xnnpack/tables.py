"""Operators of 8-bit maps as look-ups: a table of the results for all bytes, or pairs of them, from the reference kernel."""

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

BYTES = (DType.INT8, DType.UINT8)
UNARY = ("ELU", "LEAKY_RELU", "LOGISTIC", "QUANTIZE", "TANH")


def table_of(node: OperatorNode, *operands: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Results for the bytes of the operands, one after another."""
    inputs = [_stand_in(tensor, bytes_) for tensor, bytes_ in zip(node.inputs, operands, strict=True) if tensor is not None]
    output = _stand_in(node.output(), np.zeros_like(operands[0]))
    trial = replace(node, inputs=tuple(inputs), outputs=(output,), allocate=_no_allocation)
    find_operator(node.kind, node.label).prepare(trial)()
    return output.array.reshape(-1).view(np.uint8)


def _stand_in(tensor: RuntimeTensor, values: npt.NDArray[Any]) -> RuntimeTensor:
    made = RuntimeTensor(tensor.index, tensor.source)
    made.shape, made.is_constant = values.shape, False
    assert tensor.dtype.numpy is not None
    made.data = values.view(tensor.dtype.numpy)
    return made


def _no_allocation(tensor: RuntimeTensor, shape: tuple[int, ...]) -> None:
    assert tensor.shape == shape


class LookUp(CompiledOperation):
    """An operator that makes one byte of another."""

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)
        self._table = site.store(table_of(node, np.arange(256, dtype=np.uint8)))

    def shape(self) -> bool:
        find_operator(self.node.kind, self.node.label).prepare(self.node)
        return self.node.output().elements > 0

    def bind(self) -> None:
        row = np.zeros((), r.JOB)
        row["kind"], row["rows"], row["weights"] = r.LOOK_UP, self.node.output().elements, address(self._table)
        row["input"], row["out"] = address(self.node.input(0).array), address(self.node.output().array)
        self.rows = row[None]


def make_look_up(index: int, node: OperatorNode, site: Site) -> LookUp | None:
    """A compiled operation, None for types of the reference kernel alone."""
    is_of_bytes = len(node.inputs) == 1 and node.input(0).dtype in BYTES and node.output().dtype in BYTES
    return LookUp(index, node, site) if is_of_bytes else None
