"""What an operation's buffers take of SHRAM: the only place for these formulas, which the compiler and the verifier share.

They reproduce the registers that Vela writes for the same block (tested against its streams).
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from npu.hardware.variant import Variant
from npu.isa.operations import (
    AccumulatorFormat,
    Block,
    Convolution,
    DepthwiseConvolution,
    Elementwise,
    KernelOperation,
    KernelWindow,
    Pooling,
    PoolingMode,
    ShramLayout,
    Traversal,
    Upscale,
    WindowOperation,
)
from npu.machine.rules import SUB_KERNEL, ceil_div, ifm_block_depth, round_up
from npu.numerics.arrays import Ints
from npu.records import dataclass

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

    __hash__ = object.__hash__  # every member is one object; that of Enum is Python code

    @property
    def shares_depth(self) -> bool:
        """Whether an OFM channel reads the IFM channel of the same number only."""
        return self not in (Work.CONVOLUTION, Work.REDUCE_SUM)


_UNIT = KernelWindow()
POOLS = {PoolingMode.MAX: Work.MAX_POOL, PoolingMode.AVERAGE: Work.AVERAGE_POOL, PoolingMode.REDUCE_SUM: Work.REDUCE_SUM}


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferProblem:
    """Everything about an operation that its buffers depend on. Shapes are height, width, depth.

    `reads_ifm2` says whether a second operand comes from memory.
    """

    work: Work
    ofm: tuple[int, int, int]
    ifm_depth: int
    ifm_bits: int
    kernel: KernelWindow = _UNIT
    upscale: Upscale = Upscale.NONE
    has_lut: bool = False
    reads_ifm2: bool = False
    accumulator: AccumulatorFormat = AccumulatorFormat.INT32
    traversal: Traversal = Traversal.DEPTH_FIRST


def buffers_of(operation: KernelOperation) -> BufferProblem:
    """What the buffers of an operation depend on."""
    if isinstance(operation, Convolution):
        work = Work.CONVOLUTION
    elif isinstance(operation, DepthwiseConvolution):
        work = Work.DEPTHWISE
    else:
        work = POOLS[operation.mode] if isinstance(operation, Pooling) else Work.ELEMENTWISE
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
        accumulator=operation.accumulator,
        traversal=operation.traversal if isinstance(operation, Convolution) else Traversal.DEPTH_FIRST,
    )


def shram_layout(problem: BufferProblem, block: Block, variant: Variant) -> ShramLayout | None:
    """Buffer boundaries in banks for `block`, None if they do not fit SHRAM."""
    ifm, accumulator = buffer_banks(
        problem, np.asarray(block.height), np.asarray(block.width), np.asarray(block.depth), variant
    )
    start = variant.shram.reserved_output_banks
    end = lut_start(problem, variant)
    ifm_end = start + int(ifm)
    if problem.work is Work.ELEMENTWISE:
        if ifm_end + (int(ifm) if problem.reads_ifm2 else 0) > end:
            return None
        return ShramLayout(ifm_end=end, accumulator_start=end, ifm2_start=ifm_end)
    accumulator_start = end - int(accumulator)
    return ShramLayout(ifm_end, accumulator_start) if ifm_end <= accumulator_start else None


def _ifm_depth(problem: BufferProblem, depth: Ints) -> Ints:
    if problem.work.shares_depth:
        return depth
    is_part_kernel = problem.traversal is Traversal.PART_KERNEL_FIRST
    return np.full_like(depth, ifm_block_depth(problem.ifm_depth, problem.ifm_bits // 8, is_part_kernel))


def _ifm_plane(problem: BufferProblem, height: Ints, width: Ints, variant: Variant) -> tuple[Ints, Ints]:
    kernel, ublock = problem.kernel, variant.accelerator.ofm_ublock
    factor = 1 if problem.upscale is Upscale.NONE else 2
    nearest = 1 if problem.upscale is Upscale.NEAREST else 0
    if problem.work is Work.ELEMENTWISE:
        kernel = KernelWindow()
    rows = (height - 1) * kernel.stride_y + min(kernel.dilated_height, SUB_KERNEL) + nearest
    columns = (width - 1) * kernel.stride_x + min(kernel.dilated_width, SUB_KERNEL) + nearest
    return round_up(ceil_div(rows, factor), ublock.height), round_up(ceil_div(columns, factor), ublock.width)


def buffer_banks(problem: BufferProblem, height: Ints, width: Ints, depth: Ints, variant: Variant) -> tuple[Ints, Ints]:
    """Banks of the IFM double buffer and of the accumulator double buffer."""
    granules, bank = variant.shram.granules, variant.shram.bank_bytes
    rows, columns = _ifm_plane(problem, height, width, variant)
    ifm_bytes = rows * columns * round_up(_ifm_depth(problem, depth) * problem.ifm_bits // 8, 8)
    is_elementwise = problem.work is Work.ELEMENTWISE
    granule = {
        (8, False): granules.ifm_8_bit,
        (8, True): granules.ifm_8_bit_elementwise,
        (16, False): granules.ifm_16_bit,
        (16, True): granules.ifm_16_bit_elementwise,
    }.get((problem.ifm_bits, is_elementwise), granules.ifm_32_bit)
    ifm = round_up(2 * ceil_div(ifm_bytes, bank), granule)
    is_wide = problem.accumulator is AccumulatorFormat.INT40
    flat = problem.ofm[0] == 1 and problem.kernel.height == 1 and variant.accelerator.ofm_ublock.height == 2
    lines = np.minimum(height, 1) if flat else height
    accumulator_bytes = lines * width * round_up(depth, 8) * (40 if is_wide else 32) // 8
    granule = granules.accumulator_40_bit if is_wide else granules.accumulator_32_bit
    return ifm, round_up(2 * ceil_div(accumulator_bytes, bank), granule)


def fits(problem: BufferProblem, height: Ints, width: Ints, depth: Ints, variant: Variant) -> npt.NDArray[np.bool_]:
    """Whether the buffers of blocks of these heights, widths and depths fit SHRAM."""
    ifm, accumulator = buffer_banks(problem, height, width, depth, variant)
    room = lut_start(problem, variant) - variant.shram.reserved_output_banks
    second = (ifm if problem.reads_ifm2 else 0) if problem.work is Work.ELEMENTWISE else accumulator
    result: npt.NDArray[np.bool_] = ifm + second <= room
    return result


def lut_start(problem: BufferProblem, variant: Variant) -> int:
    """First bank of the look-up tables: kept free on variants that reserve it, and when the operation uses one."""
    shram = variant.shram
    used = shram.lut_bytes // shram.bank_bytes if problem.has_lut else 0
    return shram.banks - max(used, shram.reserved_lut_banks)


def table_bytes(operation: KernelOperation) -> int:
    """Bytes of the table that an operation looks its values up in."""
    return 2048 if operation.ifm.element.bits == 16 else 256 * operation.ofm.element.bytes
