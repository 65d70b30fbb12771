"""Float operators that are one or two passes over memory: straight into the output, without temporaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from npu.graph.dtype import DType
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import activation_bounds
from npu.runtime.registry import find_operator
from npu.runtime.xnnpack.operation import Operation

_ZERO, _ONE, _SIX = np.float32(0), np.float32(1), np.float32(6)
_BINARY: Mapping[str, Callable[..., Any]] = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}
_CLAMPS: Mapping[str, tuple[np.float32 | None, np.float32 | None]] = {
    "RELU": (_ZERO, None),
    "RELU6": (_ZERO, _SIX),
    "RELU_N1_TO_1": (-_ONE, _ONE),
}


class _Direct(Operation):
    """The reference kernel checks types and shapes and sets the output's; numpy does the work."""

    def prepare(self) -> None:
        find_operator(self.node.kind, self.node.label).prepare(self.node)


class Binary(_Direct):
    """ADD, SUB or MUL with a fused activation."""

    def run(self) -> None:
        output = self.node.output().array
        with np.errstate(all="ignore"):
            _BINARY[self.node.kind](self.node.input(0).array, self.node.input(1).array, out=output)
        low, high = activation_bounds(self.node, self.node.attributes.fused_activation_function)
        if low is not None:
            np.maximum(output, np.float32(low), out=output)
        if high is not None:
            np.minimum(output, np.float32(high), out=output)


class Clamp(_Direct):
    """RELU and its relatives."""

    def run(self) -> None:
        source, output = self.node.input(0).array, self.node.output().array
        low, high = _CLAMPS[self.node.kind]
        if low is not None:
            source = np.maximum(source, low, out=output)
        if high is not None:
            np.minimum(source, high, out=output)


def make_elementwise(index: int, node: OperatorNode) -> Operation | None:
    """An operation for float tensors of these kinds, None for others."""
    if node.output().dtype is not DType.FLOAT32:
        return None
    if node.kind in _BINARY:
        return Binary(index, node)
    return Clamp(index, node) if node.kind in _CLAMPS else None
