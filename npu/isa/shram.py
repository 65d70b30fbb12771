"""What an operation's buffers take of SHRAM: the only place that says so, by the formulas of `npu.machine.buffers`.

The compiler and the verifier share it. The results reproduce the registers that Vela writes for the same block (tested against
its streams).
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from npu.hardware.variant import Variant
from npu.isa.operations import (
    AccumulatorFormat,
    Block,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Elementwise,
    KernelOperation,
    KernelWindow,
    OfmTranspose,
    Pooling,
    PoolingMode,
    Resizing,
    ShramLayout,
    Traversal,
    Upscale,
    WindowOperation,
)
from npu.machine.buffers import BufferRule, accumulator_banks, ifm_banks
from npu.machine.rules import ARRAY_CHANNELS, BUFFER_HALVES, SUB_KERNEL, ifm_block_depth
from npu.records import dataclass

_CLIPS_OF_8_BITS = (ClipRange.FORCE_INT8, ClipRange.FORCE_UINT8)

LUT_SLOT_BYTES = 256
"""Look-up table n begins so many bytes times n into their area."""


class Work(Enum):
    """What decides the shape of the buffers and the rate of the MAC array."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    MAX_POOL = "max_pool"
    AVERAGE_POOL = "average_pool"
    REDUCE_SUM = "reduce_sum"
    ELEMENTWISE = "elementwise"
    RESIZE = "resize"
    PRODUCT = "product"
    TRANSPOSE = "transpose"

    __hash__ = object.__hash__  # every member is one object; that of Enum is Python code

    @property
    def shares_depth(self) -> bool:
        """Whether an OFM channel reads the IFM channel of the same number only."""
        return self not in (Work.CONVOLUTION, Work.REDUCE_SUM, Work.PRODUCT)


_UNIT = KernelWindow()
_UNIT_BYTES = 8
"""Of a pixel that are stored together."""
POOLS = {
    PoolingMode.MAX: Work.MAX_POOL,
    PoolingMode.MIN: Work.MAX_POOL,
    PoolingMode.ARGMAX_X: Work.MAX_POOL,
    PoolingMode.ARGMAX_Y: Work.MAX_POOL,
    PoolingMode.AVERAGE: Work.AVERAGE_POOL,
    PoolingMode.SUM: Work.AVERAGE_POOL,
    PoolingMode.NONE: Work.AVERAGE_POOL,
    PoolingMode.REDUCE_SUM: Work.REDUCE_SUM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferProblem:
    """Everything about an operation that its buffers depend on. Shapes are height, width, depth.

    `reads_ifm2` says whether a second operand comes from memory, `repeats_both_operands` whether each is one row,
    column or channel that is repeated. `column_step` is how far apart the columns of a resize are in its IFM, as a fraction.
    """

    work: Work
    ofm: tuple[int, int, int]
    ifm_depth: int
    ifm_bits: int
    kernel: KernelWindow = _UNIT
    upscale: Upscale = Upscale.NONE
    has_lut: bool = False
    reads_ifm2: bool = False
    repeats_both_operands: bool = False
    column_step: tuple[int, int] = (1, 1)
    accumulator: AccumulatorFormat = AccumulatorFormat.INT32
    traversal: Traversal = Traversal.DEPTH_FIRST


def buffers_of(operation: KernelOperation) -> BufferProblem:
    """What the buffers of an operation depend on."""
    if isinstance(operation, Convolution):
        work = Work.CONVOLUTION if operation.weights else Work.PRODUCT
    elif isinstance(operation, DepthwiseConvolution):
        work = Work.DEPTHWISE
    elif isinstance(operation, Pooling):
        is_transposed = operation.options is not None and operation.options.transpose is not OfmTranspose.HWC
        work = Work.TRANSPOSE if is_transposed else POOLS[operation.mode]
    else:
        work = Work.RESIZE if isinstance(operation, Resizing) else Work.ELEMENTWISE
    window = operation if isinstance(operation, WindowOperation) else None
    return BufferProblem(
        work=work,
        ofm=(operation.ofm.height, operation.ofm.width, operation.ofm.depth),
        ifm_depth=operation.ifm.depth,
        ifm_bits=operation.ifm.element.bits,
        kernel=window.kernel if window else _UNIT,
        upscale=window.upscale if window else Upscale.NONE,
        has_lut=operation.activation.function.lut_index is not None,
        reads_ifm2=isinstance(operation, Elementwise) and operation.ifm2 is not None,
        repeats_both_operands=isinstance(operation, Elementwise) and operation.repeats_both_operands,
        column_step=(operation.x.step, operation.x.scale) if isinstance(operation, Resizing) else (1, 1),
        accumulator=operation.accumulator,
        traversal=operation.traversal if isinstance(operation, Convolution) else Traversal.DEPTH_FIRST,
    )


def shram_layout(problem: BufferProblem, block: Block, variant: Variant) -> ShramLayout | None:
    """Buffer boundaries in banks for `block`, None if they do not fit SHRAM."""
    ifm, accumulator = buffer_banks(buffer_rule(problem, variant), block.height, block.width, block.depth)
    start = variant.shram.reserved_output_banks
    end = lut_start(problem, variant)
    ifm_end = start + ifm
    if problem.work is Work.ELEMENTWISE:
        if ifm_end + (ifm if problem.reads_ifm2 else 0) > end:
            return None
        return ShramLayout(ifm_end=end, accumulator_start=end, ifm2_start=ifm_end)
    accumulator_start = end - accumulator
    return ShramLayout(ifm_end, accumulator_start) if ifm_end <= accumulator_start else None


def buffer_banks(rule: BufferRule, height: Any, width: Any, depth: Any) -> tuple[Any, Any]:
    """Banks of the IFM double buffer and of the accumulator double buffer, of a block or of arrays of them."""
    return ifm_banks(rule, height, width, depth), accumulator_banks(rule, height, width, depth)


def buffer_rule(problem: BufferProblem, variant: Variant) -> BufferRule:
    """What the buffers of every block of an operation depend on."""
    room = lut_start(problem, variant) - variant.shram.reserved_output_banks
    granules, ublock, kernel = variant.shram.shared_granules, variant.accelerator.ofm_ublock, problem.kernel
    is_elementwise, is_wide = problem.work is Work.ELEMENTWISE, problem.accumulator is AccumulatorFormat.INT40
    if is_elementwise:
        kernel = _UNIT
    nearest = 1 if problem.upscale is Upscale.NEAREST else 0
    ifm_depth = 0
    if not problem.work.shares_depth:
        is_part_kernel = problem.traversal is Traversal.PART_KERNEL_FIRST
        ifm_depth = ifm_block_depth(problem.ifm_depth, problem.ifm_bits // 8, is_part_kernel)
    ifm_granule = granules.ifm_32_bit
    if problem.ifm_bits == 8:
        ifm_granule = granules.ifm_8_bit_elementwise if is_elementwise else granules.ifm_8_bit
    elif problem.ifm_bits == 16:
        ifm_granule = granules.ifm_16_bit_elementwise if is_elementwise else granules.ifm_16_bit
    return BufferRule(
        stride_y=kernel.stride_y,
        stride_x=kernel.stride_x,
        reach_y=min(kernel.dilated_height, SUB_KERNEL) + nearest,
        reach_x=min(kernel.dilated_width, SUB_KERNEL) + nearest,
        upscale=1 if problem.upscale is Upscale.NONE else 2,
        unit_height=ublock.height,
        unit_width=ublock.width,
        unit_bytes=_UNIT_BYTES,
        wide_height=ublock.height,
        wide_width=ublock.width,
        wide_bytes=_UNIT_BYTES,
        widest_height=ublock.height,
        widest_width=ublock.width,
        widest_bytes=_UNIT_BYTES,
        narrow_bytes=_UNIT_BYTES,
        ifm_depth=ifm_depth,
        ifm_bits=problem.ifm_bits,
        ifm_granule=ifm_granule,
        ifm_buffers=2 if is_elementwise and problem.reads_ifm2 else 1,
        has_one_line=problem.ofm[0] == 1 and problem.kernel.height == 1 and ublock.height == 2,
        has_accumulators=not is_elementwise,
        accumulator_bytes=5 if is_wide else 4,
        accumulator_granule=granules.accumulator_40_bit if is_wide else granules.accumulator_32_bit,
        accumulator_unit=ARRAY_CHANNELS,
        halves=BUFFER_HALVES,
        bank_bytes=variant.shram.bank_bytes,
        ifm_room=room,
        accumulator_room=room,
        room=room,
        row_bytes=0,
        row_width=0,
    )


def lut_start(problem: BufferProblem, variant: Variant) -> int:
    """First bank of the look-up tables: kept free on variants that reserve it, and when the operation uses one."""
    shram = variant.shram
    used = shram.lut_bytes // shram.bank_bytes if problem.has_lut else 0
    return shram.banks - max(used, shram.reserved_lut_banks)


def table_bytes(operation: KernelOperation) -> int:
    """Bytes of the table that an operation looks its values up in; 0 if they are of 32 bits, which are no index.

    Values of 8 bits have an entry each, of the size of an element of the OFM; values of 16 bits have 512 lines of 4 bytes.
    """
    element = operation.ofm.element
    if element.bits == 8 or operation.activation.clip_range in _CLIPS_OF_8_BITS:
        return 256 * element.bytes
    return 2048 if element.bits == 16 else 0
