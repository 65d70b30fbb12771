"""How rules look at an operator: safe access to its tensors and attributes, whatever a file may lack.

Rules never index a graph themselves; every accessor here answers None, or an empty tuple, where the file has nothing.
"""

from __future__ import annotations

from typing import Any

from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.graph.operands import Role
from npu.graph.ops import inputs_with, is_matrix_of_weights
from npu.hardware.variant import Variant
from npu.memo import cached_property
from npu.records import dataclass


@dataclass(frozen=True)
class OpView:
    """One operator in its graph, and the variant that it shall run on (None: no particular one).

    Thirty rules look at an operator, so that what they see is looked up once.
    """

    graph: Graph
    op: Op
    variant: Variant | None = None

    def input(self, position: int) -> Tensor | None:
        """The input tensor at a position, None if it is absent."""
        return self._tensor(self.op.inputs, position)

    def output(self, position: int = 0) -> Tensor | None:
        """The output tensor at a position, None if it is absent."""
        return self._tensor(self.op.outputs, position)

    @cached_property
    def ifm(self) -> Tensor | None:
        """The first feature map that the operator reads."""
        return self._first(Role.FEATURE_MAP)

    @cached_property
    def weights(self) -> Tensor | None:
        return self._first(Role.WEIGHTS)

    @cached_property
    def bias(self) -> Tensor | None:
        return self._first(Role.BIAS)

    @cached_property
    def inputs(self) -> tuple[tuple[str, Tensor], ...]:
        """Feature maps that are read, with what to call them."""
        tensors = ((position, self.input(position)) for position in inputs_with(Role.FEATURE_MAP, self.op))
        return tuple(
            (f"input {position}", tensor)
            for position, tensor in tensors
            if tensor is not None and not is_matrix_of_weights(self.op, position, tensor)
        )

    @cached_property
    def outputs(self) -> tuple[tuple[str, Tensor], ...]:
        """Feature maps that are written, with what to call them."""
        tensors = ((position, self.output(position)) for position in range(len(self.op.outputs)))
        return tuple((f"output {position}", tensor) for position, tensor in tensors if tensor is not None)

    @cached_property
    def feature_maps(self) -> tuple[tuple[str, Tensor], ...]:
        """All feature maps, with what to call them."""
        return self.inputs + self.outputs

    @cached_property
    def feature_maps_and_weights(self) -> tuple[tuple[str, Tensor], ...]:
        """All feature maps and the weights, without bias, shapes, axes and the like."""
        weights = self.weights
        return self.feature_maps + ((("weights", weights),) if weights is not None else ())

    def attribute(self, name: str) -> Any:
        """An attribute's value; None if the operator has no options table or no such field in it."""
        return getattr(self.op.attributes, name, None)

    @cached_property
    def activation(self) -> str:
        """Name of the fused activation, "NONE" without one."""
        value = self.attribute("fused_activation_function")
        return "NONE" if value is None else str(getattr(value, "name", value))

    def _first(self, role: Role) -> Tensor | None:
        positions = inputs_with(role, self.op)
        return self.input(positions[0]) if positions else None

    def _tensor(self, indices: tuple[int, ...], position: int) -> Tensor | None:
        index = indices[position] if position < len(indices) else ABSENT
        return self.graph.tensors[index] if 0 <= index < len(self.graph.tensors) else None
