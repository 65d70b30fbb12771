"""From steps to jobs: a job is one kernel operation with its block, OFM channels and constants, without addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from npu.compiler.block_config import BlockChoice, BlockChooser, BlockProblem
from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Step, Storage, WindowStep
from npu.compiler.weights import Constants, WeightSlice
from npu.hardware.variant import Variant
from npu.isa.operations import (
    AccumulatorFormat,
    ClipRange,
    ElementwiseMode,
    Kernel,
    Layout,
    Upscale,
)
from npu.isa.shram import POOLS, Work

_LARGEST_SLICE_BYTES = 32 * 1024
"""A weight slice is not made longer than this: its transfer must hide behind one or two kernels."""

_SMALLEST_SLICE_BYTES = 5 * 1024
"""Below this a further cut costs more kernel starts than it saves memory."""

_IN_PLACE_BYTES = 2 * 1024
"""Constants up to this size that are read once are read where they are: copying them first does not pay."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One kernel operation: OFM channels [channel, channel + depth) of `step`.

    `constants` are its weight streams and scale records in the read-only region, `is_staged` says whether they are copied
    ahead of use; `table` is the read-only offset of its look-up table. `cycles` is an estimate.
    """

    step: Step
    choice: BlockChoice
    accumulator: AccumulatorFormat
    channel: int
    depth: int
    constants: WeightSlice | None
    is_staged: bool
    table: int | None
    cycles: float


def describe(step: Step, layouts: Mapping[Storage, Layout], *, has_fast_memory: bool) -> BlockProblem:
    """What the block of a step depends on; with a fast memory of its own, boundary maps lie elsewhere."""
    work, kernel, upscale = Work.ELEMENTWISE, Kernel(), Upscale.NONE
    if isinstance(step, ConvolutionStep):
        work = Work.DEPTHWISE if step.is_depthwise else Work.CONVOLUTION
    elif isinstance(step, PoolingStep):
        work = POOLS[step.mode]
    if isinstance(step, WindowStep):
        kernel, upscale = step.kernel, step.upscale
    is_pooling = work in (Work.MAX_POOL, Work.AVERAGE_POOL)
    is_wide = step.ifm.element.bits == 16 and not is_pooling
    limits = (step.ofm.element.minimum, step.ofm.element.maximum)
    return BlockProblem(
        work=work,
        ofm=step.ofm.shape,
        ifm_depth=step.ifm.shape[2],
        ifm_bits=step.ifm.element.bits,
        ofm_bits=step.ofm.element.bits,
        kernel=kernel,
        upscale=upscale,
        has_lut=step.lut is not None,
        has_clamp=(step.minimum, step.maximum) != limits or step.clip_range is not ClipRange.OFM_PRECISION,
        reads_ifm2=isinstance(step, ElementwiseStep) and step.ifm2 is not None,
        accumulator=AccumulatorFormat.INT40 if is_wide else AccumulatorFormat.INT32,
        output_rank=_output_rank(step) if isinstance(step, ElementwiseStep) else "other",
        ifm_is_bricked=layouts[step.ifm.storage] is Layout.NHCWB16,
        ofm_is_bricked=layouts[step.ofm.storage] is Layout.NHCWB16,
        ifm_in_arena=has_fast_memory and step.ifm.storage.is_boundary,
        ofm_in_arena=has_fast_memory and step.ofm.storage.is_boundary,
    )


def _output_rank(step: ElementwiseStep) -> str:
    if step.ifm.element.bits == 32:
        return "unary_32" if step.mode.is_unary else "binary_32"
    if step.mode is ElementwiseMode.MUL:
        return "mul_32" if step.ofm.element.bits == 32 else "mul"
    return "add" if step.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB) else "other"


def make_jobs(
    steps: Sequence[Step],
    rooms: Sequence[int],
    layouts: Mapping[Storage, Layout],
    chooser: BlockChooser,
    constants: Constants,
) -> list[Job]:
    """The jobs of `steps` in order; `rooms[i]` is how many bytes step i may spend on staged constants."""
    jobs: list[Job] = []
    for given, room in zip(steps, rooms, strict=True):
        step = _with_least_strides(given)
        problem = describe(step, layouts, has_fast_memory=chooser.variant.memory_mode.has_separate_cache)
        table = constants.add(step.lut.tobytes()) if step.lut is not None else None
        if isinstance(step, ConvolutionStep):
            jobs += _convolution_jobs(step, problem, room, chooser, constants, table)
        else:
            choice = chooser.choose(problem)
            jobs.append(Job(step, choice, problem.accumulator, 0, step.ofm.shape[2], None, False, table, choice.cycles))
    return jobs


def _with_least_strides(step: Step) -> Step:
    """The step with stride 1 along an axis on which the OFM has one element: models give any number there."""
    if not isinstance(step, WindowStep):
        return step
    stride_y = 1 if step.ofm.shape[0] == 1 else step.kernel.stride_y
    stride_x = 1 if step.ofm.shape[1] == 1 else step.kernel.stride_x
    if (stride_y, stride_x) == (step.kernel.stride_y, step.kernel.stride_x):
        return step
    return replace(step, kernel=replace(step.kernel, stride_y=stride_y, stride_x=stride_x))


def _convolution_jobs(
    step: ConvolutionStep,
    problem: BlockProblem,
    room: int,
    chooser: BlockChooser,
    constants: Constants,
    table: int | None,
) -> list[Job]:
    variant, total = chooser.variant, step.ofm.shape[2]
    per_channel = 10 + constants.stream_bytes_per_channel(step.weights, is_depthwise=step.is_depthwise)
    stages = variant.memory_mode.stages_weights
    smallest = _SMALLEST_SLICE_BYTES * (2 if problem.ofm[:2] == (1, 1) else 1)
    target = min(max(room // 2, smallest), _LARGEST_SLICE_BYTES)
    limit = max(int(target / per_channel) // 16 * 16, 16) if stages else 0
    choice = chooser.choose(problem, depth_limit=limit)
    is_staged = stages and not (_plane_blocks(problem, choice) == 1 and _reads_in_place(per_channel * total, room, variant))
    depth = total if not is_staged else _slice_depth(total, choice.block.depth, per_channel, target)
    if not is_staged:
        choice = chooser.choose(problem)
    jobs = []
    for channel in range(0, total, depth):
        count = min(depth, total - channel)
        encoded = constants.add_weights(
            step.weights, slice(channel, channel + count), choice, step, is_depthwise=step.is_depthwise
        )
        cycles = choice.cycles * count / total
        jobs.append(Job(step, choice, problem.accumulator, channel, count, encoded, is_staged, table, cycles))
    return jobs


def _reads_in_place(constants: float, room: int, variant: Variant) -> bool:
    """Whether constants that are read once stay where they are: small ones, and those whose copy would enlarge the arena.

    From a slow memory behind the other port (Dedicated_Sram) everything is copied: its latency would be paid in every block.
    """
    has_room = variant.memory_mode.has_separate_cache or room >= 2 * _SMALLEST_SLICE_BYTES
    return constants <= _IN_PLACE_BYTES or not has_room


def _plane_blocks(problem: BlockProblem, choice: BlockChoice) -> int:
    return -(-problem.ofm[0] // choice.block.height) * -(-problem.ofm[1] // choice.block.width)


def _slice_depth(total: int, block_depth: int, per_channel: float, target: int) -> int:
    """Channels of one slice: whole blocks, as many as `target` bytes hold, spread evenly."""
    blocks = -(-total // block_depth)
    per_slice = max(int(target / (per_channel * block_depth)), 1)
    slices = -(-blocks // per_slice)
    return -(-blocks // slices) * block_depth
