"""How rules look at an operator: safe access to its tensors and attributes, whatever a file may lack.

Rules never index a graph themselves; every accessor here answers None, or an empty tuple, where the file has nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.hardware.variant import Variant

DATA_INPUTS: dict[str, tuple[int, ...]] = {
    "BATCH_TO_SPACE_ND": (0,),
    "CONV_2D": (0,),
    "DEPTHWISE_CONV_2D": (0,),
    "EXPAND_DIMS": (0,),
    "FULLY_CONNECTED": (0,),
    "GATHER": (0,),
    "MEAN": (0,),
    "MIRROR_PAD": (0,),
    "PAD": (0,),
    "PADV2": (0,),
    "RESHAPE": (0,),
    "RESIZE_BILINEAR": (0,),
    "RESIZE_NEAREST_NEIGHBOR": (0,),
    "SLICE": (0,),
    "SPACE_TO_BATCH_ND": (0,),
    "SPLIT": (1,),
    "SPLIT_V": (0,),
    "STRIDED_SLICE": (0,),
    "SUM": (0,),
    "TILE": (0,),
    "TRANSPOSE": (0,),
    "TRANSPOSE_CONV": (2,),
}
"""Input positions that are feature maps; operators that are not here have feature maps only."""

WEIGHT_INPUT: dict[str, int] = {"CONV_2D": 1, "DEPTHWISE_CONV_2D": 1, "FULLY_CONNECTED": 1, "TRANSPOSE_CONV": 1, "PRELU": 1}
BIAS_INPUT: dict[str, int] = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}


@dataclass(frozen=True, slots=True)
class OpView:
    """One operator in its graph, and the variant that it shall run on (None: no particular one)."""

    graph: Graph
    op: Op
    variant: Variant | None = None

    def input(self, position: int) -> Tensor | None:
        """The input tensor at a position, None if it is absent."""
        return self._tensor(self.op.inputs, position)

    def output(self, position: int = 0) -> Tensor | None:
        """The output tensor at a position, None if it is absent."""
        return self._tensor(self.op.outputs, position)

    @property
    def ifm(self) -> Tensor | None:
        """The first feature map that the operator reads."""
        return self.input(DATA_INPUTS.get(self.op.kind, (0,))[0])

    @property
    def weights(self) -> Tensor | None:
        position = WEIGHT_INPUT.get(self.op.kind)
        return None if position is None else self.input(position)

    @property
    def bias(self) -> Tensor | None:
        position = BIAS_INPUT.get(self.op.kind)
        return None if position is None else self.input(position)

    @property
    def inputs(self) -> tuple[tuple[str, Tensor], ...]:
        """Feature maps that are read, with what to call them."""
        positions = DATA_INPUTS.get(self.op.kind, range(len(self.op.inputs)))
        found = ((position, self.input(position)) for position in positions)
        return tuple((f"input {position}", tensor) for position, tensor in found if tensor is not None)

    @property
    def outputs(self) -> tuple[tuple[str, Tensor], ...]:
        """Feature maps that are written, with what to call them."""
        found = ((position, self.output(position)) for position in range(len(self.op.outputs)))
        return tuple((f"output {position}", tensor) for position, tensor in found if tensor is not None)

    @property
    def feature_maps(self) -> tuple[tuple[str, Tensor], ...]:
        """All feature maps, with what to call them."""
        return self.inputs + self.outputs

    @property
    def feature_maps_and_weights(self) -> tuple[tuple[str, Tensor], ...]:
        """All feature maps and the weights, without bias, shapes, axes and the like."""
        weights = self.weights
        return self.feature_maps + ((("weights", weights),) if weights is not None else ())

    def attribute(self, name: str) -> Any:
        """An attribute's value; None if the operator has no options table or no such field in it."""
        return getattr(self.op.attributes, name, None)

    @property
    def activation(self) -> str:
        """Name of the fused activation, "NONE" without one."""
        value = self.attribute("fused_activation_function")
        return "NONE" if value is None else str(getattr(value, "name", value))

    def _tensor(self, indices: tuple[int, ...], position: int) -> Tensor | None:
        index = indices[position] if position < len(indices) else ABSENT
        return self.graph.tensors[index] if 0 <= index < len(self.graph.tensors) else None
