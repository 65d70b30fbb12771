"""Operations that choose micro-block, accumulators and order of the OFM, as those of Ethos-U85 do: what they change in memory.

All values are 64-bit integers (height, width, depth). What such operations do as those of Ethos-U55 and Ethos-U65 is done by
the same kernels. The arithmetic is that with which Vela's streams give the results of LiteRT's reference kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.errors import SimulationError
from npu.isa.operations import (
    AccumulatorSource,
    Convolution,
    DepthwiseConvolution,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelOperation,
    MapStorage,
    OperandScale,
    Pooling,
    PoolingMode,
    ResizeAxis,
    ResizeMode,
    Resizing,
    WindowOperation,
)
from npu.numerics.resize_axis import SUM_BITS
from sim.functional.feature_maps import Cube, finish, padded, read, write
from sim.functional.kernels import compute, output
from sim.functional.weights import DecodedConstants, decode_constants
from sim.memory import NpuMemory

_UNIT = OperandScale()
_FIRST_BIT = 31
"""At which DOUBLE rounds first, without a double shift."""


def execute_chosen(operation: KernelOperation, memory: NpuMemory, decoded: DecodedConstants | None = None) -> None:
    """Execute an operation that has been checked, with its constants if they are decoded already.

    Raises SimulationError if what it takes on is not there, or constants cannot be decoded.
    """
    assert operation.options is not None
    if isinstance(operation, Convolution | DepthwiseConvolution):
        values = _convolution(operation, memory, decoded)
    elif isinstance(operation, Pooling):
        values = _pooling(operation, memory)
    elif isinstance(operation, Elementwise):
        values = _elementwise(operation, memory)
    else:
        assert isinstance(operation, Resizing)
        values = _resize(operation, memory)
    if values is None:
        return
    finish(operation, values, memory)
    _store(operation, values, memory)


def _input(fm: FeatureMap, memory: NpuMemory) -> Cube:
    """The values of a map less its zero point."""
    if fm.storage is not MapStorage.CHAINED:
        return read(fm, memory, fm.zero_point)
    held, extent = memory.chained.get(fm.region), (fm.height, fm.width, fm.depth)
    if held is None or held.shape != extent:
        got = "nothing" if held is None else f"one of {held.shape}"
        raise SimulationError(f"chaining buffer {fm.region}: must hold a map of {extent} that an operation has made, got {got}")
    return held - fm.zero_point


def _store(operation: KernelOperation, values: Cube, memory: NpuMemory) -> None:
    """Put the OFM where it belongs, its axes in the order and direction that the operation says."""
    options, ofm = operation.options, operation.ofm
    assert options is not None
    if ofm.storage is MapStorage.CHAINED:
        # What is chained has the type of the OFM.
        wrapped = (values - ofm.element.minimum) & ((1 << ofm.element.bits) - 1)
        memory.chained = {**memory.chained, ofm.region: wrapped + ofm.element.minimum}
        return
    stored = operation.stored_ofm
    assert stored is not None
    placed = values.transpose(options.transpose.axes)
    if options.reverse:
        placed = np.flip(placed, options.reverse - 1)
    write(stored, np.ascontiguousarray(placed), memory)


def _scale_row(scale: OperandScale) -> np.void:
    return _row((scale.scale, scale.shift, int(scale.rounding), _FIRST_BIT - scale.double_shift), output.OPERAND_SCALE)


def _row(numbers: tuple[int, ...], dtype: np.dtype[np.void]) -> np.void:
    row: np.void = np.array([numbers], dtype)[0]
    return row


def _ofm_scale(operation: KernelOperation) -> OperandScale:
    assert operation.options is not None
    scale = operation.scale
    number, shift = (1, 0) if scale is None else (scale.scale, scale.shift)
    return OperandScale(number, shift, operation.rounding, operation.options.double_shift)


def _scaled(values: Cube, operation: KernelOperation) -> Cube:
    """By the scale of the OFM, in place."""
    scale = _ofm_scale(operation)
    output.rescale(values.reshape(-1), scale.scale, scale.shift, int(scale.rounding), _FIRST_BIT - scale.double_shift)
    return values


def _convolution(
    operation: Convolution | DepthwiseConvolution, memory: NpuMemory, decoded: DecodedConstants | None
) -> Cube | None:
    """Scaled sums; None if they stay in the accumulators."""
    options, kernel, ofm = operation.options, operation.kernel, operation.ofm
    assert options is not None
    ifm, others = padded(operation, _input(operation.ifm, memory)), list[NDArray[np.int16]]()
    if operation.weights:
        decoded = decoded or decode_constants(operation, memory)
        weights, biases, scales, shifts = decoded.weights, decoded.biases, decoded.scales, decoded.shifts
    else:
        assert isinstance(operation, Convolution)
        assert operation.ifm2 is not None
        weights, *others = _in_16_bits(_input(operation.ifm2, memory)[0][:, None, None, :])
        biases = scales = shifts = np.zeros(ofm.depth, np.int64)
    before = _accumulators(operation, memory)
    if before is not None:
        biases = np.zeros(ofm.depth, np.int64)
    window = np.array((kernel.stride_y, kernel.stride_x, kernel.dilation_y, kernel.dilation_x), compute.WINDOW)
    sums = np.empty((ofm.height, ofm.width, ofm.depth), np.int64)
    convolve = compute.convolve_depthwise if isinstance(operation, DepthwiseConvolution) else compute.convolve
    convolve(ifm, weights, biases, window, sums)
    for more in others:
        part = np.empty_like(sums)
        convolve(ifm, more, np.zeros_like(biases), window, part)
        sums += part
    if before is not None:
        sums += before
    if options.keeps_accumulators:
        memory.accumulators = sums
        return None
    if operation.scale is not None:
        return _scaled(sums, operation)
    first = np.int64(_FIRST_BIT - options.double_shift)
    output.scale_channels(sums, scales, shifts, np.int64(operation.rounding), first)
    return sums


def _in_16_bits(values: Cube) -> list[NDArray[np.int16]]:
    """Numbers whose sums these are: one of each, but for values of 16 bits that their zero point makes larger."""
    limits, parts = np.iinfo(np.int16), list[NDArray[np.int16]]()
    while not parts or values.any():
        parts.append(np.ascontiguousarray(values.clip(limits.min, limits.max)).astype(np.int16))
        values = values - parts[-1]
    return parts


def _accumulators(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> Cube | None:
    """What the sums begin with instead of the biases."""
    assert operation.options is not None
    source, extent = operation.options.accumulator_source, (operation.ofm.height, operation.ofm.width, operation.ofm.depth)
    if source is AccumulatorSource.KEEP:
        if memory.accumulators is None or memory.accumulators.shape != extent:
            got = "nothing" if memory.accumulators is None else f"those of {memory.accumulators.shape}"
            raise SimulationError(f"accumulators: must hold the sums of an OFM of {extent}, got {got}")
        return memory.accumulators
    if source is AccumulatorSource.IFM2:
        assert isinstance(operation, Convolution)
        assert operation.ifm2 is not None
        return _input(operation.ifm2, memory)
    return None


def _pooling(operation: Pooling, memory: NpuMemory) -> Cube:
    mode, ofm = operation.mode, operation.ofm
    if mode is PoolingMode.NONE:
        assert operation.ifm2 is not None
        return _scaled(_input(operation.ifm2, memory), operation)
    values = padded(operation, _input(operation.ifm, memory))
    if mode in (PoolingMode.ARGMAX_X, PoolingMode.ARGMAX_Y):
        return _largest(operation, values)
    if mode is PoolingMode.MIN:
        values = -values
    out = np.empty((ofm.height, ofm.width, ofm.depth), np.int64)
    compute.pool(values, out, _window(operation))
    if mode is PoolingMode.MIN:
        out = -out
    return out if mode is PoolingMode.AVERAGE else _scaled(out, operation)


_POOLS = {
    PoolingMode.MAX: compute.MAX,
    PoolingMode.MIN: compute.MAX,
    PoolingMode.AVERAGE: compute.AVERAGE,
    PoolingMode.SUM: compute.AVERAGE,
    PoolingMode.REDUCE_SUM: compute.REDUCE_SUM,
}
"""The mode of the kernel, which makes a sum of what is not divided."""


def _window(operation: Pooling) -> np.void:
    """The `POOL` of the kernel."""
    kernel, padding, (height, width) = operation.kernel, operation.padding, _around(operation)
    return _row(
        (
            *(kernel.stride_y, kernel.stride_x, kernel.height, kernel.width),
            *(padding.top, padding.left, height - padding.top - padding.bottom, width - padding.left - padding.right),
            _POOLS[operation.mode],
            operation.mode is PoolingMode.AVERAGE,
            int(operation.rounding),
        ),
        compute.POOL,
    )


def _around(operation: WindowOperation) -> tuple[int, int]:
    kernel, ofm = operation.kernel, operation.ofm
    return (
        (ofm.height - 1) * kernel.stride_y + kernel.dilated_height,
        (ofm.width - 1) * kernel.stride_x + kernel.dilated_width,
    )


def _largest(operation: Pooling, values: Cube) -> Cube:
    """The place of the first largest value of each window, which has one column or one row.

    Accumulators hold it above 16 bits of the value, which the scale shifts away.
    """
    kernel, ofm = operation.kernel, operation.ofm
    is_along_x = operation.mode is PoolingMode.ARGMAX_X
    size = kernel.width if is_along_x else kernel.height
    best = np.full((ofm.height, ofm.width, ofm.depth), np.iinfo(np.int64).min)
    place = np.zeros_like(best)
    for number in range(size):
        row, column = (0, number) if is_along_x else (number, 0)
        rows = slice(row, row + (ofm.height - 1) * kernel.stride_y + 1, kernel.stride_y)
        columns = slice(column, column + (ofm.width - 1) * kernel.stride_x + 1, kernel.stride_x)
        is_larger = values[rows, columns] > best
        best[is_larger] = values[rows, columns][is_larger]
        place[is_larger] = number
    return place


def _elementwise(operation: Elementwise, memory: NpuMemory) -> Cube:
    mode, ofm = operation.mode, operation.ofm
    extent = ofm.height, ofm.width, ofm.depth
    a, a_scale = _repeated(_input(operation.ifm, memory), extent), operation.ifm_scale or _UNIT
    b, b_scale = a, operation.ifm2_scale or _UNIT
    if operation.ifm2 is not None:
        b = _repeated(_input(operation.ifm2, memory), extent)
    elif operation.scalar is not None:
        b = np.full(extent, operation.scalar - operation.scalar_zero_point, np.int64)
    if operation.is_reversed:
        a, b, a_scale, b_scale = b, a, b_scale, a_scale
    scale = _ofm_scale(operation)
    if mode is ElementwiseMode.MUL and operation.ifm.element.bits == memory.arithmetic.unscaled_bits:
        scale = OperandScale(1, scale.shift, scale.rounding, scale.double_shift)  # products of 64 bits are shifted alone
    output.combine_scaled(a, b, int(mode), *map(_scale_row, (a_scale, b_scale, scale)))
    return a


def _repeated(values: Cube, extent: tuple[int, int, int]) -> Cube:
    """A map of extent 1 along some axes as one of all elements, for the kernel to work on."""
    return np.array(np.broadcast_to(values, extent), order="C")


def _resize(operation: Resizing, memory: NpuMemory) -> Cube:
    ofm, is_nearest = operation.ofm, operation.mode is ResizeMode.NEAREST
    out = np.empty((ofm.height, ofm.width, ofm.depth), np.int64)
    output.resize(_input(operation.ifm, memory), out, _axis(operation.y), _axis(operation.x), is_nearest)
    out <<= SUM_BITS
    return _scaled(out, operation)


def _axis(axis: ResizeAxis) -> np.void:
    return _row((axis.scale, axis.step, axis.offset), output.RESIZE_AXIS)
