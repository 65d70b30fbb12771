"""One row of the operator table: how a kind of operator is prepared, and for which types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npu.errors import InterpreterError, ModelError
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.types import describe, matches


@dataclass(frozen=True, slots=True)
class Implementation:
    """`build` sets the output shapes and returns what an invoke runs; `types` are patterns of supported type combinations."""

    kind: str
    build: Callable[[OperatorNode], Run]
    types: tuple[str, ...]

    def prepare(self, node: OperatorNode) -> Run:
        """Check the types, then build. InterpreterError names the operator and the types that it cannot have."""
        inputs = [None if tensor is None else tensor.dtype for tensor in node.inputs]
        outputs = [tensor.dtype for tensor in node.outputs]
        if not any(matches(pattern, inputs, outputs) for pattern in self.types):
            supported = ", ".join(self.types)
            raise InterpreterError(f"{node.label}: types must be one of ({supported}), got {describe(inputs, outputs)}")
        try:
            with np.errstate(all="ignore"):  # numbers overflow silently, as they do in the reference kernels
                return np.errstate(all="ignore")(self.build(node))
        except ModelError as error:
            raise node.fail(str(error)) from error
