"""The state of one lowering: storages, values of tensors and the steps made so far."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import (
    NO_SCALE,
    ConvolutionStep,
    ElementwiseStep,
    GatherStep,
    PoolingStep,
    ProductStep,
    Program,
    ReverseStep,
    Step,
    StepWeights,
    Storage,
    TransposeStep,
    View,
)
from npu.compiler.layout import choose_layouts, reads, views
from npu.compiler.lower.activation_tables import ELEMENTS, Quantized, as_bytes, joined, result_of
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.fusions import CACHE_SHARE, Fusions
from npu.compiler.lower.geometry import as_shape, crop, fold_shape, laid_out, pitch_as
from npu.compiler.lower.pair_tables import function_values
from npu.compiler.lower.quantize import activation_range, mean_scale
from npu.compiler.lower.relabel import without_relabelings
from npu.compiler.lower.rooms import Rooms
from npu.compiler.lower.scales import with_fitting_scales
from npu.compiler.near_copies import cycles_with_copy, may_be_copied
from npu.compiler.pointwise import shape_forms
from npu.compiler.step_problems import StepEstimates
from npu.errors import CompileError
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.map_types import PLAIN_NUMBERS
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.family import Family
from npu.isa.operations import (
    IDENTITY,
    INT16,
    INT32,
    ElementType,
    ElementwiseMode,
    IfmPadding,
    KernelWindow,
    Layout,
    OfmTranspose,
    PoolingMode,
    Rounding,
    Scale,
    Upscale,
)
from npu.isa.rules import MAX_EXTENT
from npu.layouts import MapShape
from npu.numerics.arrays import Ints
from npu.numerics.lstm_gates import LstmGates
from npu.numerics.rectifiers import RECTIFIERS
from npu.records import dataclass, replace

if TYPE_CHECKING:
    from typing_extensions import Unpack

STEP_CYCLES = 100
"""What one more operation costs, roughly, beyond what every job does."""


@dataclass(frozen=True, slots=True)
class Finish:
    """How an operator's last step ends: the tensor it writes, its clamp and its look-up table.

    `zero_point` belongs to results in real numbers, `offset` to results that are raw values of the operator's own output.
    `element` is what the step writes: the tensor's type, or with a table that of the values that are looked up.
    """

    tensor: int
    zero_point: int
    offset: int
    minimum: int
    maximum: int
    lut: npt.NDArray[np.uint8] | None
    element: ElementType

    def of(self, values: Ints) -> Ints:
        """What it stores for results in real numbers, by a table of 8 bits or none."""
        clamped = np.clip(values + self.zero_point, self.minimum, self.maximum)
        return clamped if self.lut is None else self.lut[clamped - self.element.minimum].astype(np.int64)


class StepWindow(TypedDict, total=False):
    """The window of a step, as far as it is not that of a point: fields of `npu.compiler.ir.WindowStep`."""

    kernel: KernelWindow
    padding: IfmPadding
    upscale: Upscale


class _StepEnds(TypedDict):
    """What a step reads and writes, and what is done with its result: fields of `npu.compiler.ir.Step`."""

    source: int
    ifm: View
    ofm: View
    minimum: int
    maximum: int
    lut: npt.NDArray[np.uint8] | None


class Builder:
    """Collects the steps of a partition. `index` is the operator that is being lowered.

    `saves_memory`: more steps are made where they need less memory at a time. `estimates` price ways to make steps, of
    which with `keeps_maps` none takes more maps in between than the first one; without estimates that is the one.
    """

    def __init__(
        self,
        graph: Graph,
        fusions: Fusions,
        variant: Variant,
        rooms: Rooms,
        lstm_gates: LstmGates = LstmGates.EXACT,
        *,
        saves_memory: bool = False,
        estimates: StepEstimates | None = None,
        keeps_maps: bool = False,
    ) -> None:
        self.graph = graph
        self.rooms = rooms
        self.estimates, self.keeps_maps = estimates, keeps_maps
        self.fusions = fusions
        self.variant, self._arithmetic = variant, family_of(variant.accelerator.product).arithmetic
        self.lstm_gates = lstm_gates
        self.saves_memory = saves_memory
        self.index = -1
        self._steps: list[Step] = []
        self._views: dict[int, View] = {}
        self._numbers: dict[int, View] = {}
        self._near_numbers: dict[tuple[int, ...], tuple[View, ...]] = {}
        for tensor in fusions.inputs:
            self._views[tensor] = View.whole(self._storage(tensor, is_boundary=True))

    # Tensors

    def tensor(self, index: int) -> Tensor:
        return self.graph.tensors[index]

    def scale(self, index: int) -> np.float32:
        """The per-tensor scale of a tensor."""
        return self.quantized(index).scale

    def zero_point(self, index: int) -> int:
        quantization = self.tensor(index).quantization
        return quantization.zero_point if quantization else 0

    def quantized(self, index: int) -> Quantized:
        """How a tensor stands for real numbers."""
        return Quantized.of(index, self.tensor(index))

    @property
    def room(self) -> int:
        """Bytes that maps between the steps of the operator may take: see `Rooms.of`."""
        return self.rooms.of(self.index)

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
        inside = [index]  # the tensor, what it is nested in, what that is nested in ...: chains of joins are as long as models
        while inside[-1] not in self._views and inside[-1] in self.fusions.nest:
            inside.append(self.fusions.nest[inside[-1]].parent)
        for tensor in reversed(inside):
            if tensor not in self._views:
                self._views[tensor] = self._output_view(tensor)
        return replace(self._views[index], zero_point=zero_point)

    @contextmanager
    def output_as(self, index: int, shape: MapShape) -> Iterator[View]:
        """The place of a tensor's value as a map of another shape; where it lies inside a larger map, one beside it."""
        target = self.output(index)
        if target.shape == shape or target.is_dense:
            yield self.reshaped(target, shape)
        else:
            beside = self.temporary("beside", shape, target.element)
            yield beside
            self.copy(self.reshaped(beside, target.shape), target)

    def _output_view(self, index: int) -> View:
        """A place for a tensor, in that of the one that it is nested in if there is one, which has its place."""
        nest = self.fusions.nest.get(index)
        if nest is None:
            return View.whole(self._storage(index, is_boundary=index in self.fusions.outputs))
        parent, shape = self._views[nest.parent], fold_shape(self.tensor(index).shape)
        return self.reshaped(parent, shape) if nest.offset is None else crop(parent, nest.offset, shape)

    def alias(self, index: int, view: View) -> None:
        """Let a tensor be a view of memory that holds its value already; copies if it has a place of its own."""
        if self.has_place(index):
            self.copy(view, self.output(index))
        else:
            self._views[index] = view

    def has_place(self, index: int) -> bool:
        """Whether a tensor's value must lie in a place of its own, or in that of another one."""
        return index in self.fusions.outputs or index in self.fusions.nest

    def _element(self, index: int) -> ElementType:
        dtype = self.tensor(index).dtype
        if dtype is DType.INT64:
            return INT32
        if dtype not in ELEMENTS:
            raise CompileError(
                f"tensor {index} ({self.tensor(index).name}): must be int8, uint8, int16, int32 or bool, got {dtype}"
            )
        return ELEMENTS[dtype]

    def _storage(self, index: int, *, is_boundary: bool) -> Storage:
        tensor = self.tensor(index)
        shape, element = fold_shape(tensor.shape), self._element(index)
        if tensor.dtype is DType.INT64:  # two words each, the low one first
            shape = shape[0], shape[1], 2 * shape[2]
        return Storage(tensor.name, shape, element, index, is_boundary)

    # Storages

    def temporary(self, name: str, shape: MapShape, element: ElementType) -> View:
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

    def near_numbers(self, *values: int) -> tuple[View, ...]:
        """32-bit constants of one element that are read again and again: in the fast memory, if maps have one of their own.

        A read from afar takes longer than a step on single values.
        """
        if not self.variant.memory_mode.has_separate_cache:
            return tuple(map(self.number, values))
        if values not in self._near_numbers:
            numbers = np.array(values, np.int32).reshape(1, -1, 1)
            near = self.temporary("numbers", (1, len(values), 1), INT32)
            self.copy(View.whole(self.constant("numbers", numbers, INT32)), near)
            self._near_numbers[values] = tuple(crop(near, (0, number, 0), (1, 1, 1)) for number in range(len(values)))
        return self._near_numbers[values]

    def dense(self, view: View) -> View:
        """The same elements one behind the other in row order; copies them together if they lie apart."""
        if view.is_dense:
            return view
        packed = self.temporary("packed", view.shape, view.element)
        self.copy(view, packed)
        return replace(packed, zero_point=view.zero_point)

    def reshaped(self, view: View, shape: MapShape) -> View:
        """The same elements in row order as a map of another shape.

        Elements that lie apart are copied together, unless the other map has pitches; and where that may bring them nearer:
        the map that they are a part of may find no room in a cache.
        """
        if view.shape == shape:
            return view
        pitch = None if view.is_dense or not self._is_near(view.storage) else pitch_as(view, shape)
        return laid_out(view, (0, 0), shape, pitch) if pitch else replace(self.dense(view), full=shape, shape=shape)

    def _is_near(self, storage: Storage) -> bool:
        """Whether a map will lie in the memory that is nearest to the NPU."""
        mode = self.variant.memory_mode
        is_small = storage.bytes * CACHE_SHARE <= mode.arena_cache_bytes
        return not mode.has_separate_cache or (is_small and not storage.is_boundary)

    # Steps

    def emit(self, step: Step) -> None:
        """Append a step; one of larger maps than the registers can say (only steps on single positions are) in pieces.

        LoweringError if the registers have no room for its scales.
        """
        fitting = with_fitting_scales(step, self._arithmetic)
        if fitting is None:
            raise self.error(self.graph.ops[self.index], f"scales must have at most {self._arithmetic.scale_bits} bits")
        step = fitting
        for offset in itertools.product(*(range(0, extent, MAX_EXTENT) for extent in step.ofm.shape)):
            self._steps.append(step if max(step.ofm.shape) <= MAX_EXTENT else _piece(step, as_shape(offset)))

    def make_cheapest(self, ways: Sequence[Callable[[], None]]) -> None:
        """Append the steps of the way, of several that compute the same, which takes the fewest cycles by the estimate."""
        if (estimates := self.estimates) is not None and len(ways) > 1:

            def price(steps: Sequence[Step]) -> float:
                layouts = defaultdict(lambda: Layout.NHWC, choose_layouts(steps))  # those of copies at the boundary

                def cycles(step: Step) -> float:
                    return STEP_CYCLES + min(estimates((form,), layouts=layouts) for form in shape_forms(step, layouts))

                return self._price(steps, cycles)

            before, tried = self._steps, list[list[Step]]()
            for make in ways:
                self._steps = []
                make()
                if not (tried and self.keeps_maps and _bytes_between(self._steps) > _bytes_between(tried[0])):
                    tried.append(self._steps)
            self._steps = before + min(tried, key=price)
        else:
            ways[0]()

    def _price(self, steps: Sequence[Step], cycles: Callable[[Step], float]) -> float:
        """Cycles of steps; of those on maps behind the fast memory where it takes less by way of a copy in there, these."""
        price, made = sum(map(cycles, steps)), {step.ofm.storage for step in steps}
        for storage in {view.storage for step in steps for view in views(step)}:
            if may_be_copied(storage, self.variant.memory_mode, is_made=storage in made):
                price = min(price, cycles_with_copy(steps, storage, cycles, is_made=storage in made))
        return price

    def convolve(
        self,
        ifm: View,
        ofm: View,
        weights: StepWeights,
        *,
        finish: Finish | None = None,
        rounding: Rounding = Rounding.DOUBLE,
        is_depthwise: bool = False,
        **window: Unpack[StepWindow],
    ) -> None:
        """One convolution, which ends as `finish` says, or with the limits of what it writes."""
        ends = self._ends(ifm, ofm, finish)
        self.emit(ConvolutionStep(**ends, **window, rounding=rounding, weights=weights, is_depthwise=is_depthwise))

    def pool(
        self,
        ifm: View,
        ofm: View,
        mode: PoolingMode,
        *,
        finish: Finish | None = None,
        scale: Scale | None = IDENTITY,
        rounding: Rounding = Rounding.NATURAL,
        **window: Unpack[StepWindow],
    ) -> None:
        """One pooling, which ends as a convolution does; without a scale an average divides by its own count."""
        self.emit(PoolingStep(**self._ends(ifm, ofm, finish), **window, scale=scale, rounding=rounding, mode=mode))

    def _ends(self, ifm: View, ofm: View, finish: Finish | None) -> _StepEnds:
        limits = finish or _limits(ofm.element)
        lut = None if finish is None else finish.lut
        return {
            "source": self.index,
            "ifm": ifm,
            "ofm": ofm,
            "minimum": limits.minimum,
            "maximum": limits.maximum,
            "lut": lut,
        }

    def mean_scale(self, count: int) -> Scale:
        """The factor 1 / count, which rounds ties away from zero."""
        return mean_scale(count, self._arithmetic.scale_bits)

    def product(self, ifm: View, ifm2: View, ofm: View, finish: Finish, scale: Scale, rounding: Rounding) -> None:
        """One product of matrices, with the columns of the second one in a row."""
        ends = self._ends(ifm, ofm, finish)
        self.emit(ProductStep(**ends, ifm2=ifm2, scale=scale, rounding=rounding))

    def transpose(self, ifm: View, ofm: View, order: OfmTranspose = OfmTranspose.HCW) -> None:
        """A copy of raw values whose columns and channels change places, or other axes do."""
        ends = self._ends(replace(ifm, zero_point=0), replace(ofm, zero_point=0), None)
        self.emit(TransposeStep(**ends, scale=IDENTITY, rounding=Rounding.NATURAL, order=order))

    def reverse(self, ifm: View, ofm: View) -> None:
        """A copy of raw values whose columns are stored from the last one on."""
        ends = self._ends(replace(ifm, zero_point=0), replace(ofm, zero_point=0), None)
        self.emit(ReverseStep(**ends, scale=IDENTITY, rounding=Rounding.NATURAL))

    def gather(self, ifm: View, ifm2: View, ofm: View) -> None:
        """The columns of each row of a map that numbers name."""
        self.emit(GatherStep(**self._ends(ifm, ofm, None), ifm2=ifm2, scale=IDENTITY))

    @property
    def family(self) -> Family:
        """That of the NPU."""
        return family_of(self.variant.accelerator.product)

    def copy(self, source: View, target: View) -> None:
        """Move a box of raw values; pooling has no 32-bit inputs, sums have."""
        if source.element.bits == 32:
            self.elementwise(ElementwiseMode.ADD, source, target, 0)
            return
        self.point(source, replace(target, zero_point=0))

    def widen(self, source: View, target: View) -> None:
        """Move a box of int16 values to one of int32."""
        self.elementwise(ElementwiseMode.ADD, source, target, 0)

    def elementwise(
        self,
        mode: ElementwiseMode,
        ifm: View,
        ofm: View,
        ifm2: View | int | None = None,
        *,
        scale: Scale = IDENTITY,
        rounding: Rounding = Rounding.DOUBLE,
        minimum: int | None = None,
        maximum: int | None = None,
        lut: npt.NDArray[np.uint8] | None = None,
        function: str | None = None,
        is_reversed: bool = False,
        factors: tuple[int, int] = (1, 1),
        positive: Scale | None = None,
    ) -> None:
        """One elementwise step with a map or a number as the other operand; of sums both times `factors` of 16 bits.

        `positive` is the scale of what is not negative, of LRELU on families that have it.
        """
        first, second = reversed(factors) if is_reversed else factors
        self.emit(
            ElementwiseStep(
                source=self.index,
                ifm=ifm,
                ifm2=None if isinstance(ifm2, int) else ifm2,
                scalar=ifm2 if isinstance(ifm2, int) else None,
                ofm=ofm,
                minimum=ofm.element.minimum if minimum is None else minimum,
                maximum=ofm.element.maximum if maximum is None else maximum,
                mode=mode,
                scale=scale,
                rounding=rounding,
                lut=lut,
                function=function,
                is_reversed=is_reversed,
                opa_scale=Scale(first, 0) if mode.scales_operands else NO_SCALE,
                opb_scale=second if mode.scales_operands else 0,
                positive=positive,
            )
        )

    def fill(self, source: View, target: View, value: int) -> None:
        """Set a box to a raw value; `source` is anything of its shape that can be read."""
        if source.element.bits == 32:
            self.elementwise(ElementwiseMode.MUL, source, target, 0)
            if value:
                self.elementwise(ElementwiseMode.ADD, target, target, self.number(value))
            return
        self.point(source, replace(target, zero_point=0), value, value)

    def point(
        self,
        source: View,
        target: View,
        minimum: int | None = None,
        maximum: int | None = None,
        lut: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """Add the target's zero point to every raw value of a box, clamp it, then look it up: a 1x1 average."""
        self._emit_point(replace(source, zero_point=0), target, IDENTITY, Rounding.NATURAL, minimum, maximum, lut)

    def requantize(
        self,
        source: View,
        target: View,
        scale: Scale,
        minimum: int | None = None,
        maximum: int | None = None,
        lut: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """Move a box from the source's zero point to the target's with a factor, rounded twice; clamp it and look it up."""
        self._emit_point(source, target, scale, Rounding.DOUBLE, minimum, maximum, lut)

    def _emit_point(
        self,
        source: View,
        target: View,
        scale: Scale,
        rounding: Rounding,
        minimum: int | None,
        maximum: int | None,
        lut: npt.NDArray[np.uint8] | None,
    ) -> None:
        self.emit(
            PoolingStep(
                source=self.index,
                ifm=source,
                ofm=target,
                minimum=target.element.minimum if minimum is None else minimum,
                maximum=target.element.maximum if maximum is None else maximum,
                mode=PoolingMode.AVERAGE,
                scale=scale,
                rounding=rounding,
                lut=lut,
            )
        )

    def finish(self, op: Op) -> Finish:
        """How the last step of `op` ends, with its fused activation and the functions that are fused into it."""
        if self.tensor(op.outputs[0]).dtype in PLAIN_NUMBERS:
            return self._unclamped(op)
        own = self.quantized(op.outputs[0])
        function = getattr(op.attributes, "fused_activation_function", FusedActivation.NONE)
        name = op.kind if op.kind in RECTIFIERS else function.name
        minimum, maximum = activation_range(name, own.scale, own.zero_point, own.element)
        plain = Finish(op.outputs[0], own.zero_point, 0, minimum, maximum, None, own.element)
        if function is FusedActivation.TANH and own.element.bits != 8:
            raise self.error(op, f"a result with fused TANH must have 8 bits, as its table has, got {own.element.bits}")
        tanh = result_of(Op("TANH", (), ()), own.values, own, own) if function is FusedActivation.TANH else None
        return self._with_fused(plain, tanh)

    def _unclamped(self, op: Op) -> Finish:
        """The same if its results are numbers without scale."""
        element = self._element(op.outputs[0])
        return Finish(op.outputs[0], 0, 0, element.minimum, element.maximum, None, element)

    def tabulated(self, op: Op) -> Finish:
        """How `op`, a function of one 8-bit value, ends, if the values themselves go through its table."""
        element = self._element(op.inputs[0])
        plain = Finish(op.outputs[0], 0, 0, element.minimum, element.maximum, None, element)
        known = {op.inputs[0]: np.arange(element.minimum, element.maximum + 1)}
        return self._with_fused(plain, function_values(self.graph, op, known), known)

    def rescaled(self, op: Op, tensor: int) -> Finish:
        """How a uint8 input of CONCATENATION with another quantization than the output's ends: by a table."""
        source, own = self.quantized(tensor), self.quantized(op.outputs[0])
        finish = self.finish(op)
        values = np.clip(joined(source.values, source, own), finish.minimum, finish.maximum)
        plain = Finish(op.outputs[0], 0, 0, source.element.minimum, source.element.maximum, None, source.element)
        return self._with_fused(plain, values)

    def _with_fused(self, plain: Finish, values: Ints | None, operands: Mapping[int, Ints] | None = None) -> Finish:
        """The same with the functions fused into the operator; `values`: its own results for all that a step computes, and
        what its `operands` were then.
        """
        fused_ops = [self.graph.ops[index] for index in self.fusions.fused_ops.get(self.index, ())]
        if not fused_ops and values is None:
            return plain
        tensor = plain.tensor
        values = self.quantized(tensor).values if values is None else values
        known = {**(operands or {}), tensor: values}
        for fused_op in fused_ops:
            tensor = fused_op.outputs[0]
            known[tensor] = values = function_values(self.graph, fused_op, known)
        plain = replace(plain, tensor=tensor)
        return _clamped(plain, values, self.quantized(tensor)) or replace(plain, lut=as_bytes(values))

    def result(self, finish: Finish, *, is_raw: bool = False) -> View:
        """The map that an operator's last step writes; `is_raw`: what it computes are raw values already."""
        ofm = self.output(finish.tensor, finish.offset if is_raw else finish.zero_point)
        return replace(ofm, element=finish.element)

    # Result

    def program(self, ops: Sequence[int], origins: Mapping[int, int]) -> Program:
        """Everything made so far, for the partition `ops`; `origins` are operators that stand in the place of others."""
        steps = without_relabelings(_needed(self._steps))
        with_steps = {step.source for step in steps}
        carriers = {index: self.fusions.carrier.get(index) for index in ops if index not in with_steps}
        if origins:
            steps = [replace(step, source=origins.get(step.source, step.source)) for step in steps]
        return Program(
            steps=tuple(steps),
            inputs=tuple((t, self._views[t].storage) for t in self.fusions.inputs),
            outputs=tuple((t, self._views[t].storage) for t in self.fusions.outputs),
            absorbed={
                origins.get(index, index): carrier if carrier is None else origins.get(carrier, carrier)
                for index, carrier in carriers.items()
            },
        )


def _clamped(plain: Finish, values: Ints, final: Quantized) -> Finish | None:
    """The same without a table, if the functions only move and clamp what `plain` lets through; None if they do more."""
    before = np.arange(plain.minimum, plain.maximum + 1)
    after = values[plain.minimum - plain.element.minimum :][: len(before)]
    low, high = int(after.min()), int(after.max())
    inside = np.flatnonzero((after > low) & (after < high))
    at = int(inside[0]) if inside.size else int(np.argmax(after == high))
    offset = int(after[at] - before[at]) if low < high else 0
    if not np.array_equal(np.clip(before + offset, low, high), after):
        return None
    least, most = final.element.register_limits
    if not all(least <= value <= most for value in (offset, plain.zero_point + offset)):
        return None
    return replace(plain, zero_point=plain.zero_point + offset, offset=offset, minimum=low, maximum=high, element=final.element)


def _limits(element: ElementType) -> ElementType:
    """The type whose limits a step writes into the registers: values of 32 bits and more are not clamped."""
    return INT16 if element.bits >= 32 else element


def _needed(steps: Sequence[Step]) -> list[Step]:
    """The steps without those that only make maps that nobody reads, as parts of a tensor may be."""
    read, kept = set[Storage](), list[Step]()
    for step in reversed(steps):
        if step.ofm.storage.is_boundary or step.ofm.storage in read:
            read.update(view.storage for view in reads(step))
            kept.append(step)
    return kept[::-1]


def _bytes_between(steps: Sequence[Step]) -> int:
    """Of the maps that steps write and only the partition sees."""
    return sum(storage.bytes for storage in {step.ofm.storage for step in steps} if storage.tensor is None)


def _piece(step: Step, offset: MapShape) -> Step:
    """The part of a step on single positions that begins at `offset`, at most MAX_EXTENT elements along every axis."""

    def part(view: View) -> View:
        start = [0 if whole == 1 else at for whole, at in zip(view.shape, offset, strict=True)]
        return crop(view, as_shape(start), as_shape([min(MAX_EXTENT, e - at) for e, at in zip(view.shape, start, strict=True)]))

    if isinstance(step, ElementwiseStep) and step.ifm2 is not None:
        step = replace(step, ifm2=part(step.ifm2))
    return replace(step, ifm=part(step.ifm), ofm=part(step.ofm))
