"""What the blocks of steps depend on, and what steps cost by the estimate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from npu.compiler.block_config import BlockChooser
from npu.compiler.block_estimate import BlockProblem, SecondInput
from npu.compiler.ir import (
    ConvolutionStep,
    ElementwiseStep,
    GatherStep,
    PoolingStep,
    ProductStep,
    ResizeStep,
    ReverseStep,
    Step,
    Storage,
    TransposeStep,
    WindowStep,
)
from npu.compiler.layout import choose_layouts, reads, views
from npu.compiler.pace import JOB_CYCLES
from npu.compiler.pointwise import shapes_to_try, with_shape
from npu.compiler.slicing import Forms, plane_blocks
from npu.compiler.weights import Constants, ExpectedConstants
from npu.hardware.variant import MemoryMode
from npu.isa.operations import (
    AccumulatorFormat,
    ClipRange,
    ElementwiseMode,
    IfmPadding,
    KernelWindow,
    Layout,
    OfmTranspose,
    OperandScaling,
    PoolingMode,
    Upscale,
)
from npu.isa.shram import POOLS, Work
from npu.layouts import MapShape
from npu.machine.output_unit import elementwise_rank, window_rank
from npu.machine.port_rates import port_rate
from npu.records import replace

_UNIT, _NO_PADDING = KernelWindow(), IfmPadding()


Facts: TypeAlias = tuple[Any, ...]
"""Values of the fields `_FACTS` of a BlockProblem: stripes of one step are alike, and a tuple takes less time than a record."""
_FACTS = (
    "work", "ofm", "ifm_depth", "ifm_bits", "ofm_bits", "kernel", "upscale", "ifm_map_depth", "ofm_map_depth", "padding",
    "has_lut", "has_clamp", "reads_ifm2", "accumulator", "output_rank", "ifm_is_bricked", "ofm_is_bricked", "ifm_in_arena",
    "ofm_in_arena", "weight_bytes", "ifm2", "column_step", "ifm_plane", "ofm_order", "repeats_both_operands",
)  # fmt: skip


def describe(
    step: Step,
    layouts: Mapping[Storage, Layout],
    mode: MemoryMode,
    weight_bytes: float = BlockProblem.weight_bytes,
    far: Collection[Storage] = (),
) -> BlockProblem:
    """What the block of a step depends on; boundary maps, those in `far` and larger than a fast memory are in the arena."""
    return _problem(_facts(step, layouts, mode, weight_bytes, far))


def _problem(facts: Facts) -> BlockProblem:
    return BlockProblem(**dict(zip(_FACTS, facts, strict=True)))


def _facts(
    step: Step, layouts: Mapping[Storage, Layout], mode: MemoryMode, weight_bytes: float, far: Collection[Storage]
) -> Facts:
    ifm, ofm = step.ifm, step.ofm

    def is_far(storage: Storage) -> bool:
        return mode.has_separate_cache and (storage.is_boundary or storage.bytes > mode.arena_cache_bytes or storage in far)

    work, kernel, upscale, padding, is_average_or_max = Work.ELEMENTWISE, _UNIT, Upscale.NONE, _NO_PADDING, False
    if isinstance(step, WindowStep):
        kernel, upscale, padding = step.kernel, step.upscale, step.padding
        if isinstance(step, ConvolutionStep):
            work = Work.DEPTHWISE if step.is_depthwise else Work.CONVOLUTION
        elif isinstance(step, PoolingStep):
            work = POOLS[step.mode]
            is_average_or_max = work is not Work.REDUCE_SUM
    elif isinstance(step, ProductStep):
        work = Work.PRODUCT
    elif isinstance(step, TransposeStep | ReverseStep):
        work, is_average_or_max = Work.TRANSPOSE if isinstance(step, TransposeStep) else POOLS[PoolingMode.SUM], True
    column_step, ifm_plane = (1, 1), None
    if isinstance(step, ResizeStep):
        work, column_step, ifm_plane = Work.RESIZE, (step.x.step, step.x.scale), ifm.shape[:2]
    element = ofm.element
    finds_places = isinstance(step, PoolingStep) and step.mode is PoolingMode.ARGMAX_X
    is_wide = finds_places or (ifm.element.bits == 16 and not is_average_or_max)
    accumulator = AccumulatorFormat.INT40 if is_wide else AccumulatorFormat.INT32
    other, ifm2 = None if isinstance(step, GatherStep) else step.ifm2, None
    if other is not None:
        memory = "constants" if other.storage.data is not None else "arena" if is_far(other.storage) else "cache"
        ifm2 = SecondInput(other.shape, memory, layouts[other.storage] is Layout.NHCWB16)
    limits = (element.minimum, element.maximum)
    made = ifm.shape if work is Work.TRANSPOSE else ofm.shape
    return (
        work, made, ifm.shape[2], ifm.element.bits, element.bits, kernel, upscale, ifm.pitches[1], ofm.pitches[1], padding,
        step.lut is not None, (step.minimum, step.maximum) != limits or step.clip_range is not ClipRange.OFM_PRECISION,
        other is not None, accumulator, _output_rank(step, accumulator),
        layouts[ifm.storage] is Layout.NHCWB16, layouts[ofm.storage] is Layout.NHCWB16, is_far(ifm.storage),
        is_far(ofm.storage), weight_bytes, ifm2, column_step, ifm_plane,
        step.order if isinstance(step, TransposeStep) else OfmTranspose.HWC,
        isinstance(step, ElementwiseStep) and all(view.shape != ofm.shape for view in reads(step)),
    )  # fmt: skip


def _output_rank(step: Step, accumulator: AccumulatorFormat) -> str:
    if isinstance(step, ElementwiseStep):
        return elementwise_rank(
            step.ifm.element.bits,
            step.ofm.element.bits,
            is_unary=step.mode.is_unary,
            is_multiplication=step.mode is ElementwiseMode.MUL,
            scales_operands=step.mode.scales_operands,
            scales_both_alike=step.operand_scaling is OperandScaling.BOTH_16,
        )
    return window_rank(
        is_pooling=isinstance(step, PoolingStep),
        is_max_pooling=isinstance(step, PoolingStep) and step.mode is PoolingMode.MAX,
        has_40_bit_accumulators=accumulator is AccumulatorFormat.INT40,
    )


class ShapeCycles:
    """Cycles of steps in every shape that their maps could have; steps that are alike are looked at once."""

    def __init__(self, layouts: Mapping[Storage, Layout], chooser: BlockChooser, far: Collection[Storage] = ()) -> None:
        self._layouts, self._chooser, self._far = layouts, chooser, far
        self._known: dict[tuple[Facts, MapShape, int], float] = {}

    def of(self, step: Step, depth_limit: int = 0) -> dict[MapShape, float]:
        """Those in the step's own shape, which comes first, and in the others; blocks of at most that depth if one is given."""
        facts = _facts(step, self._layouts, self._chooser.variant.memory_mode, BlockProblem.weight_bytes, self._far)
        own = step.ofm.shape
        return {shape: self._in(shape, step, facts, depth_limit) for shape in (own, *shapes_to_try(step, self._layouts))}

    def _in(self, shape: MapShape, step: Step, facts: Facts, depth_limit: int) -> float:
        key = facts, shape, depth_limit
        if key not in self._known:
            form = step if shape == step.ofm.shape else with_shape(step, shape)
            problem = describe(form, self._layouts, self._chooser.variant.memory_mode, far=self._far)
            self._known[key] = self._chooser.choose(problem, depth_limit=depth_limit).cycles
        return self._known[key]


def least_cycles(
    steps: Sequence[Step], layouts: Mapping[Storage, Layout], chooser: BlockChooser, far: Collection[Storage] = ()
) -> float:
    """Cycles of steps, each in the shape in which it takes least."""
    shapes = ShapeCycles(layouts, chooser, far)
    return sum(min(shapes.of(step).values()) for step in steps)


class StepProblems:
    """What the blocks of steps depend on, worked out once for each step: jobs are drafted before they are made.

    Maps in `far` find no room in a separate fast memory.
    """

    def __init__(self, layouts: Mapping[Storage, Layout], far: Collection[Storage], chooser: BlockChooser) -> None:
        self.chooser = chooser
        self.port = port_rate(chooser.variant, chooser.variant.memory_mode.constants)
        self._layouts, self._far = layouts, far
        self._known: dict[int, tuple[Step, Step, Forms]] = {}
        self._described: dict[Facts, Forms] = {}

    def of(self, given: Step, constants: ExpectedConstants) -> tuple[Step, Forms]:
        """The step with the least strides, and the forms of its problem."""
        known = self._known.get(id(given))
        if known is None:
            step = _with_least_strides(given)
            mode, density = self.chooser.variant.memory_mode, BlockProblem.weight_bytes
            if isinstance(step, ConvolutionStep):
                density = constants.bytes_per_weight(step.weights)
            facts = _facts(step, self._layouts, mode, density, self._far)
            forms = self._described.get(facts)
            if forms is None:
                forms = self._described[facts] = self.forms(_problem(facts))
            known = self._known[id(given)] = given, step, forms
        return known[1], known[2]

    def forms(self, problem: BlockProblem) -> Forms:
        """The forms of a problem, the same ones for equal problems."""
        return self.chooser.forms.get(problem, lambda: Forms(self.chooser.known(problem), self.chooser, self.port))


class StepEstimates:
    """Cycles of steps before their weights are encoded: every one reads its weights anew.

    `in_place`: for every block of the plane, where memory is too dear for copies. `exposed`: the part that counts of the time
    in which a step waits for its weights, as copies of them are made behind other steps. Plans that are compared have most of
    their steps in common, which are looked at once.
    """

    def __init__(self, chooser: BlockChooser, constants: Constants, *, in_place: bool = False, exposed: float = 1.0) -> None:
        self.chooser, self._in_place, self._exposed = chooser, in_place, exposed
        self._bytes_per_weight = constants.bytes_per_weight
        self._read = port_rate(chooser.variant, chooser.variant.memory_mode.constants).read
        self._known: dict[tuple[Step, tuple[tuple[bool, bool], ...]], float] = {}
        self._described: dict[Facts, tuple[float, int]] = {}

    def __call__(
        self, steps: Sequence[Step], far: Collection[Storage] = (), layouts: Mapping[Storage, Layout] | None = None
    ) -> float:
        """Those of all steps, in the usual `layouts` if none are given. Maps in `far` are behind a cache."""
        layouts, total = choose_layouts(steps) if layouts is None else layouts, 0.0
        bricked = {storage for storage, layout in layouts.items() if layout is Layout.NHCWB16}
        for step in steps:
            key = step, tuple([(view.storage in bricked, view.storage in far) for view in views(step)])
            cycles = self._known.get(key)
            if cycles is None:
                cycles = self._known[key] = self._estimated(step, layouts, far)
            total += cycles
        return total

    def _estimated(self, given: Step, layouts: Mapping[Storage, Layout], far: Collection[Storage]) -> float:
        step = _with_least_strides(given)
        density = self._bytes_per_weight(step.weights) if isinstance(step, ConvolutionStep) else BlockProblem.weight_bytes
        facts = _facts(step, layouts, self.chooser.variant.memory_mode, density, far)
        known = self._described.get(facts)
        if known is None:
            known = self._described[facts] = self._cycles_and_reads(_problem(facts))
        cycles, reads = known
        read = reads * density * step.weights.values.size / self._read if isinstance(step, ConvolutionStep) else 0.0
        return cycles + max(read - cycles, 0.0) * self._exposed + JOB_CYCLES

    def _cycles_and_reads(self, problem: BlockProblem) -> tuple[float, int]:
        """Cycles of the best block, and how many times it reads the weights."""
        if not self._in_place:
            return self.chooser.choose(problem).cycles, 1
        choice = self.chooser.choose(problem.part(problem.ofm[2], in_place=True))
        return choice.cycles, plane_blocks(problem.ofm, choice)


def _with_least_strides(step: Step) -> Step:
    """The step with stride 1 along an axis on which the OFM has one element: models give any number there."""
    if not isinstance(step, WindowStep):
        return step
    stride_y = 1 if step.ofm.shape[0] == 1 else step.kernel.stride_y
    stride_x = 1 if step.ofm.shape[1] == 1 else step.kernel.stride_x
    if (stride_y, stride_x) == (step.kernel.stride_y, step.kernel.stride_x):
        return step
    return replace(step, kernel=replace(step.kernel, stride_y=stride_y, stride_x=stride_x))
