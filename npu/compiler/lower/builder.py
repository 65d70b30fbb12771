"""The state of one lowering: storages, values of tensors and the steps made so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import ElementwiseStep, PoolingStep, Program, Shape, Step, Storage, View
from npu.compiler.lower.activation_tables import ACTIVATIONS, table_bytes
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.geometry import crop, fold_shape
from npu.compiler.lower.plan import Plan
from npu.compiler.lower.quantise import activation_range, rectifier_bounds
from npu.errors import CompileError
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.hardware.variant import Variant
from npu.isa.operations import INT8, INT16, INT32, UINT8, ElementType, PoolingMode, Rounding, Scale
from npu.isa.rules import MAX_EXTENT

_ELEMENTS = {DType.INT8: INT8, DType.UINT8: UINT8, DType.INT16: INT16, DType.INT32: INT32}
IDENTITY = Scale(1, 0)
"""A scale that changes nothing."""


@dataclass(frozen=True, slots=True)
class Finish:
    """How an operator's last step ends: the tensor it writes, its zero point there, its clamp and its look-up table."""

    tensor: int
    zero_point: int
    minimum: int
    maximum: int
    lut: npt.NDArray[np.uint8] | None


class Builder:
    """Collects the steps of a partition. `index` is the operator that is being lowered."""

    def __init__(self, graph: Graph, plan: Plan, variant: Variant) -> None:
        self.graph = graph
        self.plan = plan
        self.variant = variant
        self.index = -1
        self._steps: list[Step] = []
        self._views: dict[int, View] = {}
        self._numbers: dict[int, View] = {}
        for tensor in plan.inputs:
            self._views[tensor] = View.whole(self._storage(tensor, is_boundary=True))

    # Tensors

    def tensor(self, index: int) -> Tensor:
        return self.graph.tensors[index]

    def scale(self, index: int) -> np.float32:
        """The per-tensor scale of a tensor."""
        quantization = self.tensor(index).quantization
        if quantization is None or not quantization.scales.size:
            raise CompileError(f"tensor {index} ({self.tensor(index).name}): must have a quantisation scale, got none")
        return np.float32(quantization.scales[0])

    def zero_point(self, index: int) -> int:
        quantization = self.tensor(index).quantization
        return quantization.zero_point if quantization else 0

    def affine(self, index: int) -> tuple[np.float32, int]:
        """Scale and zero point of a tensor."""
        return self.scale(index), self.zero_point(index)

    def constant_data(self, index: int) -> npt.NDArray[np.generic]:
        """The contents of a tensor that the operator's form demands to be constant."""
        data = self.tensor(index).data
        assert data is not None
        return data

    def error(self, op: Op, must: str) -> LoweringError:
        """An error about the operator that is being lowered."""
        return LoweringError(self.index, op, must)

    def input(self, index: int, zero_point: int = 0) -> View:
        """The folded map that holds a tensor's value."""
        view = self._views.get(index)
        if view is None:
            data = self.tensor(index).data
            if data is None:
                raise CompileError(f"tensor {index} ({self.tensor(index).name}): must be computed before it is read")
            values = data.reshape(fold_shape(data.shape))
            view = View.whole(self.constant(self.tensor(index).name, values, self._element(index)))
            self._views[index] = view
        return replace(view, zero_point=zero_point)

    def output(self, index: int, zero_point: int = 0) -> View:
        """The folded map that a tensor's value is to be written to."""
        view = self._views.get(index)
        if view is None:
            nest = self.plan.nest.get(index)
            if nest is None:
                view = View.whole(self._storage(index, is_boundary=index in self.plan.outputs))
            elif nest.offset is None:
                view = self.reshaped(self.output(nest.parent), fold_shape(self.tensor(index).shape))
            else:
                view = crop(self.output(nest.parent), nest.offset, fold_shape(self.tensor(index).shape))
            self._views[index] = view
        return replace(view, zero_point=zero_point)

    def alias(self, index: int, view: View) -> None:
        """Let a tensor be a view of memory that holds its value already; copies if it has a place of its own."""
        if index in self.plan.outputs or index in self.plan.nest:
            self.copy(view, self.output(index))
        else:
            self._views[index] = view

    def _element(self, index: int) -> ElementType:
        dtype = self.tensor(index).dtype
        if dtype not in _ELEMENTS:
            raise CompileError(f"tensor {index} ({self.tensor(index).name}): must be int8, uint8, int16 or int32, got {dtype}")
        return _ELEMENTS[dtype]

    def _storage(self, index: int, *, is_boundary: bool) -> Storage:
        tensor = self.tensor(index)
        return Storage(tensor.name, fold_shape(tensor.shape), self._element(index), index, is_boundary)

    # Storages

    def temporary(self, name: str, shape: Shape, element: ElementType) -> View:
        """A new map that lives inside the partition."""
        return View.whole(Storage(f"{self.graph.ops[self.index].kind} {self.index}: {name}", shape, element))

    def constant(self, name: str, values: npt.NDArray[np.generic], element: ElementType) -> Storage:
        """A map in the read-only region; `values` (H, W, D)."""
        height, width, depth = values.shape
        return Storage(name, (height, width, depth), element, data=values)

    def number(self, value: int) -> View:
        """A 32-bit constant of one element, one per value."""
        view = self._numbers.get(value)
        if view is None:
            view = View.whole(self.constant(f"constant {value}", np.full((1, 1, 1), value, np.int32), INT32))
            self._numbers[value] = view
        return view

    def reshaped(self, view: View, shape: Shape) -> View:
        """The same elements in row order as a map of another shape; copies them together if they lie apart."""
        if view.shape == shape:
            return view
        if view.shape == view.full:
            return replace(view, full=shape, shape=shape)
        packed = self.temporary("packed", view.shape, view.element)
        self.copy(view, packed)
        return replace(packed, full=shape, shape=shape, zero_point=view.zero_point)

    # Steps

    def emit(self, step: Step) -> None:
        """Append a step; one that is higher than the registers can say (only steps on single positions are) in pieces."""
        for start in range(0, step.ofm.shape[0], MAX_EXTENT):
            self._steps.append(step if step.ofm.shape[0] <= MAX_EXTENT else _rows(step, start))

    def copy(self, source: View, target: View) -> None:
        """Move a box of raw values."""
        self.point(source, target, target.element.minimum, target.element.maximum)

    def fill(self, source: View, target: View, value: int) -> None:
        """Set a box to a raw value; `source` is anything of its shape that can be read."""
        self.point(source, target, value, value)

    def look_up(self, source: View, target: View, table: npt.NDArray[np.uint8]) -> None:
        """Replace every int8 value by its entry of a 256-byte table."""
        self.point(source, target, -128, 127, table)

    def point(self, source: View, target: View, minimum: int, maximum: int, lut: npt.NDArray[np.uint8] | None = None) -> None:
        """Clamp every raw value of a box, then look it up: a 1x1 average."""
        self.emit(
            PoolingStep(
                source=self.index,
                ifm=replace(source, zero_point=0),
                ofm=replace(target, zero_point=0),
                minimum=minimum,
                maximum=maximum,
                mode=PoolingMode.AVERAGE,
                scale=IDENTITY,
                rounding=Rounding.NATURAL,
                lut=lut,
            )
        )

    def requantise(
        self,
        source: View,
        target: View,
        scale: Scale,
        minimum: int = -128,
        maximum: int = 127,
        lut: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """Move a box from the source's zero point to the target's with a factor, rounded twice; clamp it and look it up."""
        self.emit(
            PoolingStep(
                source=self.index,
                ifm=source,
                ofm=target,
                minimum=minimum,
                maximum=maximum,
                mode=PoolingMode.AVERAGE,
                scale=scale,
                lut=lut,
            )
        )

    def finish(self, op: Op) -> Finish:
        """How the last step of `op` ends, with its fused activation and the activation operator that it carries."""
        own = op.outputs[0]
        function = getattr(op.attributes, "fused_activation_function", FusedActivation.NONE)
        minimum, maximum = activation_range(function, self.scale(own), self.zero_point(own))
        lut = table_bytes("TANH", self.affine(own), self.affine(own)) if function is FusedActivation.TANH else None
        carried = self.plan.activation.get(self.index)
        if carried is None:
            return Finish(own, self.zero_point(own), minimum, maximum, lut)
        rider = self.graph.ops[carried]
        final = rider.outputs[0]
        if rider.kind in ACTIVATIONS:
            lut = table_bytes(rider.kind, self.affine(own), self.affine(final))
        else:
            low, high = rectifier_bounds(rider.kind, self.scale(final), self.zero_point(final))
            minimum, maximum = (min(max(bound, low), high) for bound in (minimum, maximum))
        return Finish(final, self.zero_point(own), minimum, maximum, lut)

    # Result

    def program(self, ops: Sequence[int]) -> Program:
        """Everything made so far, for the partition `ops`."""
        with_steps = {step.source for step in self._steps}
        return Program(
            steps=tuple(self._steps),
            inputs=tuple((t, self._views[t].storage) for t in self.plan.inputs),
            outputs=tuple((t, self._views[t].storage) for t in self.plan.outputs),
            absorbed={i: self.plan.carrier.get(i) for i in ops if i not in with_steps},
        )


def _rows(step: Step, start: int) -> Step:
    """The part of a step on single positions from row `start`, at most MAX_EXTENT rows."""

    def part(view: View) -> View:
        rows = min(MAX_EXTENT, view.shape[0] - start)
        return crop(view, (start, 0, 0), (rows, *view.shape[1:])) if view.shape[0] > 1 else view

    if isinstance(step, ElementwiseStep) and step.ifm2 is not None:
        step = replace(step, ifm2=part(step.ifm2))
    return replace(step, ifm=part(step.ifm), ofm=part(step.ofm))
