"""Slow, obvious twin of every operation of the machine: Python integers, one element at a time.

`run_operation` works on a memory; the functions below it take and return int64 arrays (height, width, depth).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from npu.isa.operations import (
    ActivationFunction,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaStride,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    Layout,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Rounding,
    Upscale,
    WindowOperation,
)
from sim.memory import NpuMemory

from tests.naive.operations_weights import decode_constants
from tests.naive.sigmoid_values import VALUES


def run_operation(operation: Operation, memory: NpuMemory) -> None:
    """Execute one operation on memory."""
    if isinstance(operation, Dma):
        _copy(operation, memory)
    elif isinstance(operation, KernelOperation):
        write(operation.ofm, compute(operation, memory), memory)


def compute(operation: KernelOperation, memory: NpuMemory) -> np.ndarray:
    """The OFM of a kernel operation."""
    ifm = read(operation.ifm, memory) - _zero_point(operation.ifm)
    if isinstance(operation, Convolution | DepthwiseConvolution):
        values = _convolve(operation, ifm, memory)
    elif isinstance(operation, Pooling):
        values = _pool(operation, ifm)
    else:
        assert isinstance(operation, Elementwise)
        values = _combine(operation, ifm, memory)
    table = bytes(memory.shram[0, memory.variant.shram.lut_address :])
    return _each(values, lambda v: finish(operation, v, table))


def address(fm: FeatureMap, y: int, x: int, c: int) -> int:
    """Byte offset of an element in its region."""
    if x >= fm.tile_width_0:
        x -= fm.tile_width_0
        tile = 3 if y >= fm.tile_height_1 else 1
        y -= fm.tile_height_1 if tile == 3 else 0
    else:
        tile = 2 if y >= fm.tile_height_0 else 0
        y -= fm.tile_height_0 if tile == 2 else 0
    size = fm.element.bytes
    if fm.layout is Layout.NHWC:
        return fm.addresses[tile] + y * fm.stride_y + x * fm.stride_x + c * size
    return fm.addresses[tile] + y * fm.stride_y + c // 16 * fm.stride_c + x * 16 * size + c % 16 * size


def read(fm: FeatureMap, memory: NpuMemory) -> np.ndarray:
    """A feature map from memory."""
    shape, data = (fm.height, fm.width, fm.depth), memory.regions[fm.region].tobytes()
    size, is_signed = fm.element.bytes, fm.element.is_signed
    starts = [address(fm, y, x, c) for y, x, c in product(*map(range, shape))]
    values = [int.from_bytes(data[start : start + size], "little", signed=is_signed) for start in starts]
    return np.array(values, np.int64).reshape(shape)


def write(fm: FeatureMap, values: np.ndarray, memory: NpuMemory) -> None:
    """A feature map to memory, low bits of each value."""
    size, region = fm.element.bytes, memory.regions[fm.region].data
    for (y, x, c), value in zip(product(*map(range, values.shape)), values.ravel().tolist(), strict=True):
        start = address(fm, y, x, c)
        region[start : start + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def rounding_shift(product: int, shift: int, rounding: Rounding, first: int = 31) -> int:
    """product / 2**shift; DOUBLE rounds at bit `first`, then the rest with ties away from zero."""
    if shift == 0:
        return product
    if rounding is Rounding.TRUNCATE:
        return product >> shift if product >= 0 else -(-product >> shift)
    if rounding is Rounding.NATURAL or shift <= first:
        return (product + (1 << shift - 1)) >> shift
    return _divide_away((product + (1 << first - 1)) >> first, shift - first)


def _divide_away(value: int, shift: int) -> int:
    if shift == 0:
        return value
    magnitude = (abs(value) + (1 << shift - 1)) >> shift
    return magnitude if value >= 0 else -magnitude


def finish(operation: KernelOperation, v: int, table: bytes) -> int:
    """The output stage after scaling; `table` is the look-up-table area."""
    activation, ofm = operation.activation, operation.ofm
    clip = activation.clip_range
    if ofm.element.bits == 32 and clip is ClipRange.OFM_PRECISION:
        return v
    if activation.function is ActivationFunction.TANH:
        v = tanh(v)
    elif activation.function is ActivationFunction.SIGMOID:
        v = sigmoid(v)
    v += ofm.zero_point
    limits = {ClipRange.FORCE_UINT8: (0, 255), ClipRange.FORCE_INT8: (-128, 127), ClipRange.FORCE_INT16: (-32768, 32767)}
    if clip in limits:
        v = min(max(v, limits[clip][0]), limits[clip][1])
    v = min(max(v, activation.minimum), activation.maximum)
    if activation.function.lut_index is None:
        return v
    table = table[256 * activation.function.lut_index :]
    if ofm.element.bits == 16 and clip not in (ClipRange.FORCE_INT8, ClipRange.FORCE_UINT8):
        index, fraction = divmod(v + 32768, 128)
        base = int.from_bytes(table[4 * index : 4 * index + 2], "little", signed=True)
        slope = int.from_bytes(table[4 * index + 2 : 4 * index + 4], "little", signed=True)
        return base + ((slope * fraction + 64) >> 7)
    is_signed = ofm.element.is_signed if ofm.element.bits == 8 else clip is ClipRange.FORCE_INT8
    index, size = v + (128 if is_signed else 0), ofm.element.bytes
    return int.from_bytes(table[index * size : index * size + size], "little", signed=True)


def sigmoid(v: int) -> int:
    table, a = VALUES, abs(v)
    h = a >> 9
    r = 0x7FFF << 10 if h >= 255 else (table[h] << 9) + (a & 511) * (table[h + 1] - table[h])
    return (r + 512 if v >= 0 else (1 << 25) - r + 511) >> 10


def tanh(v: int) -> int:
    table, a = VALUES, abs(v)
    h = a >> 8
    r = 0xFFFF << 8 if h >= 255 else (table[h] << 8) + (a & 255) * (table[h + 1] - table[h])
    return (r - (1 << 23) + 128 if v >= 0 else -r + (1 << 23) + 127) >> 8


def upscaled(ifm: np.ndarray, mode: Upscale) -> np.ndarray:
    """Twice the rows and columns, by repetition or with zeros between."""
    if mode is Upscale.NONE:
        return ifm
    if mode is Upscale.NEAREST:
        return ifm.repeat(2, axis=0).repeat(2, axis=1)
    out = np.zeros((2 * ifm.shape[0], 2 * ifm.shape[1], ifm.shape[2]), ifm.dtype)
    out[::2, ::2] = ifm
    return out


def _windows(operation: WindowOperation, ifm: np.ndarray) -> Callable[[int, int], list[tuple[int, int, np.ndarray]]]:
    """For an output position: (ky, kx, values over the depth) of every kernel element that is not padding."""
    kernel, padding, ofm = operation.kernel, operation.padding, operation.ofm
    ifm = upscaled(ifm, operation.upscale)
    rows = (ofm.height - 1) * kernel.stride_y + kernel.dilated_height - padding.top - padding.bottom
    columns = (ofm.width - 1) * kernel.stride_x + kernel.dilated_width - padding.left - padding.right

    def elements(y: int, x: int) -> list[tuple[int, int, np.ndarray]]:
        found = []
        for ky in range(kernel.height):
            for kx in range(kernel.width):
                iy = y * kernel.stride_y + ky * kernel.dilation_y - padding.top
                ix = x * kernel.stride_x + kx * kernel.dilation_x - padding.left
                if 0 <= iy < rows and 0 <= ix < columns:
                    found.append((ky, kx, ifm[iy, ix]))
        return found

    return elements


def _convolve(operation: Convolution | DepthwiseConvolution, ifm: np.ndarray, memory: NpuMemory) -> np.ndarray:
    weights, biases, scales, shifts = decode_constants(operation, memory)
    ofm, elements = operation.ofm, _windows(operation, ifm)
    if operation.scale is not None:
        scales, shifts = [operation.scale.scale] * ofm.depth, [operation.scale.shift] * ofm.depth
    out = np.zeros((ofm.height, ofm.width, ofm.depth), object)
    for y, x in np.ndindex(ofm.height, ofm.width):
        total = np.array(biases, np.int64)
        for ky, kx, values in elements(y, x):
            if isinstance(operation, DepthwiseConvolution):
                total += weights[:, ky, kx, 0] * values
            else:
                total += weights[:, ky, kx, :] @ values
        for c in range(ofm.depth):
            out[y, x, c] = rounding_shift(int(total[c]) * scales[c], shifts[c], operation.rounding)
    return out


def _pool(operation: Pooling, ifm: np.ndarray) -> np.ndarray:
    ofm, elements = operation.ofm, _windows(operation, ifm)
    out = np.zeros((ofm.height, ofm.width, ofm.depth), object)
    for y, x in np.ndindex(ofm.height, ofm.width):
        values = np.array([depth for _, _, depth in elements(y, x)], object).reshape(-1, ifm.shape[2])
        for c in range(ofm.depth):
            if operation.mode is PoolingMode.MAX:
                out[y, x, c] = max(values[:, c], default=0)
            elif operation.mode is PoolingMode.REDUCE_SUM:
                out[y, x, c] = _scaled(operation, int(values.sum()), len(values))
            else:
                out[y, x, c] = _scaled(operation, int(values[:, c].sum()), len(values))
    return out


def _scaled(operation: Pooling, total: int, count: int) -> int:
    divides = operation.mode is PoolingMode.AVERAGE and (operation.scale is None or operation.padding != IfmPadding())
    if divides:
        bits = (max(count, 1) - 1).bit_length()
        scale = ((1 << 31 + bits) + (1 << bits)) // max(count, 1)
        return rounding_shift(total * scale, 31 + bits, operation.rounding)
    if operation.scale is None:
        return total
    return rounding_shift(total * operation.scale.scale, operation.scale.shift, operation.rounding)


def _combine(operation: Elementwise, ifm: np.ndarray, memory: NpuMemory) -> np.ndarray:
    if operation.ifm2 is not None:
        second = read(operation.ifm2, memory) - _zero_point(operation.ifm2)
    else:
        zero_point = 0 if operation.ifm.element.bits == 32 else operation.scalar_zero_point
        second = np.full((1, 1, 1), (operation.scalar or 0) - zero_point)
    second = np.broadcast_to(second, ifm.shape)
    if operation.is_reversed and not operation.mode.is_unary:
        ifm, second = second, ifm
    values = [combine_pair(operation, a, b) for a, b in zip(ifm.ravel().tolist(), second.ravel().tolist(), strict=True)]
    return np.array(values, object).reshape(ifm.shape)


def combine_pair(operation: Elementwise, a: int, b: int) -> int:
    """One elementwise result before the output stage; a and b in the order of the operation."""
    mode = operation.mode
    if mode is ElementwiseMode.MIN:
        return min(a, b)
    if mode is ElementwiseMode.MAX:
        return max(a, b)
    if mode is ElementwiseMode.CLZ:
        return 32 - (a & 0xFFFFFFFF).bit_length()
    if mode is ElementwiseMode.SHL:
        value = (a << b) & 0xFFFFFFFF if 0 <= b <= 31 else 0
        return value - (1 << 32) if value >> 31 else value
    if mode is ElementwiseMode.SHR:
        amount = min(max(b, 0), 62)
        return (
            _divide_away(a, amount) if operation.rounding is Rounding.DOUBLE else rounding_shift(a, amount, operation.rounding)
        )
    scale, shift = (1, 0) if operation.scale is None else (operation.scale.scale, operation.scale.shift)
    if operation.ifm.element.bits == 32:
        scale = 1

    def out(value: int) -> int:
        return rounding_shift(value * scale, shift, operation.rounding)

    if mode is ElementwiseMode.MUL:
        return min(max(out(a * b), -(1 << 31)), (1 << 31) - 1)
    if mode is ElementwiseMode.ABS:
        return out(abs(a))
    if mode is ElementwiseMode.LRELU:
        positive = operation.ifm_scale
        if a >= 0 and positive is not None:
            return rounding_shift(a * positive.scale, positive.shift, positive.rounding)
        return a if a >= 0 else out(a)
    a, b = _scale_operands(operation, a, b)
    return out(a + b if mode is ElementwiseMode.ADD else a - b)


def _scale_operands(operation: Elementwise, a: int, b: int) -> tuple[int, int]:
    if operation.ifm.element.bits == 32:
        return a, b
    opa = operation.opa_scale
    if operation.operand_scaling is OperandScaling.BOTH_16:
        return a * (opa.scale & 0xFFFF), b * (operation.opb_scale & 0xFFFF)
    left = 20 if operation.ifm.element.bits == 8 else 15

    def scaled(value: int) -> int:
        return rounding_shift(value * opa.scale, opa.shift, operation.operand_rounding, 31 - left)

    if operation.operand_scaling is OperandScaling.A_32:
        return scaled(a), b << left - 1
    return a << left - 1, scaled(b)


def _zero_point(fm: FeatureMap) -> int:
    return 0 if fm.element.bits == 32 else fm.zero_point


def _each(values: np.ndarray, function: Callable[[int], int]) -> np.ndarray:
    return np.array([function(value) for value in values.ravel().tolist()], object).reshape(values.shape)


def _copy(operation: Dma, memory: NpuMemory) -> None:
    source, target = operation.source, operation.destination
    source_at, target_at = source.address, target.address
    for _ in range(operation.planes):
        for _ in range(operation.rows):
            length = operation.length_bytes
            bank = memory.shram[0] if source.region is None else memory.regions[source.region]
            data = bytes(bank[source_at : source_at + length])
            cores = [k for k in range(len(memory.shram)) if target.core_mask >> k & 1] or [0]
            banks = [memory.shram[k] for k in cores] if target.region is None else [memory.regions[target.region]]
            for bank in banks:
                bank[target_at : target_at + length] = np.frombuffer(data, np.uint8)
            source_at += length + (operation.row_skip_bytes if source.stride >= DmaStride.ROWS else 0)
            target_at += length + (operation.row_skip_bytes if target.stride >= DmaStride.ROWS else 0)
        source_at += operation.plane_skip_bytes if source.stride >= DmaStride.PLANES else 0
        target_at += operation.plane_skip_bytes if target.stride >= DmaStride.PLANES else 0
