"""Signatures as callables; the only place that maps argument names to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from npu.graph.graph import Signature
from npu.numerics.arrays import Array
from npu.runtime.details import tensor_details
from npu.runtime.misuse import InterpreterValueError, litert_errors
from npu.runtime.subgraph import Subgraph


class _SignatureState(Protocol):
    def subgraph(self, index: int) -> Subgraph: ...

    def run_subgraph(self, index: int, arguments: Sequence[Array]) -> list[Array]: ...


class SignatureRunner:
    """`runner(name=array, ...)` runs the signature's subgraph and returns its outputs by name."""

    def __init__(self, state: _SignatureState, signature: Signature) -> None:
        self._state = state
        self._signature = signature
        defect = signature.defect(state.subgraph(signature.graph).graph)
        if defect is not None:
            raise InterpreterValueError(
                f"signature '{signature.key}' cannot be called: {defect}; set_tensor, invoke and get_tensor run the model"
            )

    def __call__(self, **arguments: Any) -> dict[str, Array]:
        signature = self._signature
        if set(arguments) != set(signature.inputs):
            raise InterpreterValueError(
                f"signature '{signature.key}': arguments must be {sorted(signature.inputs)}, got {sorted(arguments)}"
            )
        graph = self._state.subgraph(signature.graph)
        by_tensor = {index: np.asarray(arguments[name]) for name, index in signature.inputs.items()}
        for name, index in signature.inputs.items():
            expected = graph.tensors[index].dtype.numpy
            if expected is not None and by_tensor[index].dtype != expected:
                raise InterpreterValueError(
                    f"signature '{signature.key}': argument '{name}' must have type {graph.tensors[index].dtype},"
                    f" got {by_tensor[index].dtype}"
                )
        with litert_errors():
            results = self._state.run_subgraph(signature.graph, [by_tensor[index] for index in graph.inputs])
        by_output = dict(zip(graph.outputs, results, strict=True))
        return {name: by_output[index] for name, index in sorted(signature.outputs.items())}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """The tensor details of every argument, by name."""
        return self._details(dict(self._signature.inputs))

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """The tensor details of every result, by name."""
        return self._details(dict(self._signature.outputs))

    def _details(self, names: dict[str, int]) -> dict[str, dict[str, Any]]:
        tensors = self._state.subgraph(self._signature.graph).tensors
        return {name: tensor_details(tensors[index]) for name, index in sorted(names.items())}
