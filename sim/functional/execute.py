"""What each operation does to memory, bit for bit: the general path, for every operand width, layout and mode.

`execute` checks every read and write of an operation before any kernel runs. Waits, interrupts and stop change no
memory. Cycle counts are the business of `sim.timing`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError
from npu.isa.family import FamilyArithmetic
from npu.isa.operations import (
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaSide,
    Elementwise,
    ElementwiseMode,
    KernelOperation,
    Operation,
    Pooling,
    PoolingMode,
    WindowOperation,
)
from sim.functional import weights as constants
from sim.functional.ethos_u85 import execute_chosen
from sim.functional.feature_maps import (
    Cube,
    feature_map_row,
    finish,
    input_zero_point,
    is_placed,
    padded,
    place_row,
    read,
    stage_row,
    write,
)
from sim.functional.kernels import compute, output
from sim.functional.kernels import values as v
from sim.inconsistent import inconsistent
from sim.memory import NpuMemory
from sim.undefined import undefined

_SCALAR = ((0, 0, 0, 0), 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0)
"""The `feature_map.FEATURE_MAP` of a second input that is not in memory."""


def execute(operation: Operation, memory: NpuMemory) -> None:
    """Execute one operation on `memory`. Raises SimulationError, before anything is written, if it leaves its regions."""
    check(operation, memory)
    execute_checked(operation, memory)


def check(operation: Operation, memory: NpuMemory) -> None:
    """Raise SimulationError unless `operation` is consistent and all its reads and writes lie in memory."""
    if isinstance(operation, Dma):
        _check_dma(operation, memory)
    elif isinstance(operation, KernelOperation):
        _check_kernel(operation, memory)


def execute_checked(operation: Operation, memory: NpuMemory, numbers: np.void | None = None) -> None:
    """Execute an operation that `check` has accepted for a memory of this shape; `numbers` as `prepare` makes them."""
    if isinstance(operation, Dma):
        copy(operation, memory)
    elif isinstance(operation, KernelOperation) and operation.options is not None:
        execute_chosen(operation, memory)
    elif isinstance(operation, Convolution | DepthwiseConvolution):
        execute_convolution(operation, constants.decode_constants(operation, memory), memory)
    elif isinstance(operation, Pooling | Elementwise):
        if numbers is None:
            numbers = prepare(operation, memory.arithmetic, v.zeroed(v.NUMBERS)[0])
        v.execute(numbers, memory.bases)


def prepare(operation: Pooling | Elementwise, arithmetic: FamilyArithmetic, n: np.void) -> np.void:
    """Fill `n`, zeros: an operation as the kernel `values.execute` takes it; true for every memory of the family."""
    ifm = operation.ifm
    prepare_output(operation, arithmetic, n)
    n["ifm"], n["ifm_region"] = feature_map_row(ifm, input_zero_point(ifm, arithmetic)), ifm.region
    if isinstance(operation, Pooling):
        _prepare_pooling(operation, arithmetic, n)
    else:
        _prepare_elementwise(operation, arithmetic, n)
    return n


def prepare_output(operation: KernelOperation, arithmetic: FamilyArithmetic, n: np.void) -> np.void:
    """Fill in what the kernel `values.finish_sums` takes, apart from the sums and their scaling."""
    n["ofm"], n["ofm_region"] = feature_map_row(operation.ofm), operation.ofm.region
    n["stage"] = stage_row(operation, arithmetic)
    return n


def _prepare_pooling(operation: Pooling, arithmetic: FamilyArithmetic, n: np.void) -> None:
    kernel, padding, ofm, rounding = operation.kernel, operation.padding, operation.ofm, int(operation.rounding)
    height = (ofm.height - 1) * kernel.stride_y + kernel.dilated_height
    width = (ofm.width - 1) * kernel.stride_x + kernel.dilated_width
    valid = (padding.top, padding.left, height - padding.top - padding.bottom, width - padding.left - padding.right)
    divides = is_self_dividing(operation)
    window = (kernel.stride_y, kernel.stride_x, kernel.height, kernel.width)
    n["pool"] = *window, *valid, operation.mode, divides, rounding
    n["place"], n["padded_height"], n["padded_width"] = place_row(operation), height, width
    is_copy = window == (1, 1, 1, 1) and operation.mode is not PoolingMode.REDUCE_SUM and operation.ifm.element.bits <= 16
    if not is_copy or not operation.padding.is_none:
        n["is_pooled"] = 1
    if is_placed(operation):
        n["is_placed"] = 1
    if operation.scale is not None and not divides and operation.mode is not PoolingMode.MAX:
        n["stage"] = stage_row(operation, arithmetic, (1, operation.scale.scale, operation.scale.shift, rounding))


def _prepare_elementwise(operation: Elementwise, arithmetic: FamilyArithmetic, n: np.void) -> None:
    n["combination"] = tuple(combination(operation, arithmetic).values())
    n["is_combined"] = 1
    ifm, ifm2 = operation.ifm, operation.ifm2
    if ifm2 is not None:
        n["ifm2"], n["ifm2_region"] = feature_map_row(ifm2, input_zero_point(ifm2, arithmetic)), ifm2.region
    else:
        n["ifm2"], n["ifm2_region"] = _SCALAR, -1
        n["scalar"] = (operation.scalar or 0) - (
            0 if ifm.element.bits == arithmetic.unscaled_bits else operation.scalar_zero_point
        )


def _padded_input(operation: WindowOperation, memory: NpuMemory) -> Cube:
    return padded(operation, read(operation.ifm, memory, input_zero_point(operation.ifm, memory.arithmetic)))


def execute_convolution(
    operation: Convolution | DepthwiseConvolution, decoded: constants.DecodedConstants, memory: NpuMemory
) -> None:
    """Execute a convolution whose constants are decoded already."""
    if operation.options is not None:
        execute_chosen(operation, memory, decoded)
        return
    kernel, ofm, ifm = operation.kernel, operation.ofm, _padded_input(operation, memory)
    window = np.array((kernel.stride_y, kernel.stride_x, kernel.dilation_y, kernel.dilation_x), compute.WINDOW)
    out = np.empty((ofm.height, ofm.width, ofm.depth), np.int64)
    convolve = compute.convolve_depthwise if isinstance(operation, DepthwiseConvolution) else compute.convolve
    convolve(ifm, decoded.weights, decoded.biases, window, out)
    scales, shifts = decoded.scales, decoded.shifts
    if operation.scale is not None:
        scales = np.full_like(scales, operation.scale.scale)
        shifts = np.full_like(shifts, operation.scale.shift)
    output.scale_channels(out, scales, shifts, np.int64(operation.rounding), np.int64(31))
    finish(operation, out, memory)
    write(ofm, out, memory)


def is_self_dividing(operation: Pooling) -> bool:
    """Whether an AVERAGE divides by its own count of valid positions instead of multiplying by the OFM scale.

    Without a scale, or with padding: Vela's files then have no scale (older core), 1 (5.2) or that of the whole window (5.0),
    and mean the same by all three.
    """
    if operation.mode is not PoolingMode.AVERAGE:
        return False
    padding = operation.padding
    is_padded = any((padding.top, padding.left, padding.bottom, padding.right))
    return operation.scale is None or is_padded


def _check_kernel(operation: KernelOperation, memory: NpuMemory) -> None:
    for fm in operation.ifms_in_memory:
        memory.check_feature_map(fm)
    if (ofm := operation.stored_ofm) is not None:
        memory.check_feature_map(ofm, writes=True)
    reason = inconsistent(operation, memory.variant.shram.lut_bytes) or undefined(operation)
    if reason is not None:
        raise SimulationError(reason)
    if isinstance(operation, Convolution | DepthwiseConvolution):
        constants.check_constants(operation, memory)


def combination(operation: Elementwise, arithmetic: FamilyArithmetic) -> dict[str, int]:
    """The fields of an `output.COMBINATION`, an elementwise operation as the kernel `combine` takes it.

    MUL saturates at 32 bits and SHL wraps: SOFTMAX of Vela 3 and 4 doubles a number in (1/2, 1] by MUL for that reason.
    """
    bits = operation.ifm.element.bits
    scale, shift = (1, 0) if operation.scale is None else (operation.scale.scale, operation.scale.shift)
    scaling = int(operation.operand_scaling)
    opa, opb = operation.opa_scale, operation.opb_scale
    opa_scale, opa_shift = opa.scale, opa.shift
    if bits == arithmetic.unscaled_bits:
        scale, scaling, opa_scale, opb = 1, 0, 1, 1
    elif scaling == 0:
        opa_scale, opb = opa_scale & 0xFFFF, opb & 0xFFFF
    numbers = (
        operation.mode,
        scale,
        shift,
        operation.rounding,
        scaling,
        opa_scale,
        opa_shift,
        opb,
        arithmetic.operand_shifts[bits],
        operation.operand_rounding,
        operation.is_reversed and operation.mode not in (ElementwiseMode.LRELU, ElementwiseMode.ABS, ElementwiseMode.CLZ),
        operation.ofm.element.bits == 32,
    )
    return dict(zip(output.COMBINATION.names or (), numbers, strict=True))


def _check_dma(operation: Dma, memory: NpuMemory) -> None:
    if min(operation.length_bytes, operation.rows, operation.planes) < 1:
        raise SimulationError(
            f"DMA: length, rows and planes must be positive, got {operation.length_bytes}, {operation.rows}, {operation.planes}"
        )
    for side, writes in ((operation.source, False), (operation.destination, True)):
        low, high = operation.span(side)
        if side.region is None:
            memory.shram_view(0, low, high - low)
        else:
            memory.check(side.region, low, high, writes=writes)
    if operation.indices is not None:
        memory.check(operation.indices.region, *operation.index_span)


def indexed_rows(operation: Dma, plane: int, memory: NpuMemory) -> npt.NDArray[np.int32]:
    """The indices of a plane of a transfer that has some. SimulationError for one out of range."""
    indices = operation.indices
    assert indices is not None
    start, end = operation.indices_of(plane)
    rows = np.frombuffer(memory.view(indices.region, start, end - start).tobytes(), "<i4")
    wrong = (rows < 0) | (rows > indices.maximum)
    if wrong.any():
        raise SimulationError(f"DMA: indices must lie in [0, {indices.maximum}], got {rows[wrong.argmax()]}")
    return rows


def _rows_of(operation: Dma, plane: int, memory: NpuMemory) -> tuple[Sequence[int], Sequence[int]]:
    """The rows of source and destination in the order in which they are copied."""
    in_order, indices = range(operation.rows), operation.indices
    if indices is None:
        return in_order, in_order
    rows: list[int] = indexed_rows(operation, plane, memory).tolist()
    return (in_order, rows) if indices.is_of_destination else (rows, in_order)


def copy(operation: Dma, memory: NpuMemory) -> None:
    """A transfer that `check` has accepted. SHRAM as destination writes the cores of its mask, as source core 0 is read."""
    length = operation.length_bytes
    source_row, source_plane = operation.steps(operation.source)
    target_row, target_plane = operation.steps(operation.destination)
    for plane in range(operation.planes):
        for row, to in zip(*_rows_of(operation, plane, memory), strict=True):
            source_at = operation.source.address + plane * source_plane + row * source_row
            data = _dma_view(operation.source, source_at, length, memory)[0]
            target_at = operation.destination.address + plane * target_plane + to * target_row
            for target in _dma_view(operation.destination, target_at, length, memory):
                target[:] = data


def _dma_view(side: DmaSide, address: int, length: int, memory: NpuMemory) -> list[npt.NDArray[np.uint8]]:
    if side.region is not None:
        return [memory.regions[side.region][address : address + length]]
    cores = [core for core in range(memory.shram.shape[0]) if (side.core_mask >> core) & 1] or [0]
    return [memory.shram_view(core, address, length) for core in cores]
