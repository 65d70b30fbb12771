"""The slow, obvious twin of compiler and machine together: executes a Program on numpy arrays.

Written from the description of the machine's arithmetic alone. A storage is a flat array; a view is a box of it. Memory that no
step has written holds noise, so that a step that reads too early gives a wrong result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Program, Step, Storage, View, WindowStep
from npu.isa.operations import ClipRange, ElementwiseMode, OperandScaling, PoolingMode, Rounding, Upscale

from tests.naive.operations import sigmoid, tanh

_NUMPY = {(8, True): np.int8, (8, False): np.uint8, (16, True): np.int16, (32, True): np.int32}


def execute(program: Program, inputs: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Outputs (H, W, D) of a program by tensor index."""
    memory: dict[Storage, np.ndarray] = {}
    for tensor, storage in program.inputs:
        memory[storage] = np.array(inputs[tensor]).reshape(-1).copy()
    for step in program.steps:
        run_step(step, memory)
    return {tensor: _cells(memory, storage).reshape(storage.shape) for tensor, storage in program.outputs}


def run_step(step: Step, memory: dict[Storage, np.ndarray]) -> None:
    """Execute one step on the storages' flat arrays."""
    if isinstance(step, ConvolutionStep):
        values = _convolve(step, memory)
    elif isinstance(step, PoolingStep):
        values = _pool(step, memory)
    elif isinstance(step, ElementwiseStep):
        values = _elementwise(step, memory)
    else:
        raise TypeError(type(step))
    assert values.shape == step.ofm.shape, (step, values.shape)
    made = _output_stage(step, values)
    if step.ofm.storage.is_rolling:
        _cells(memory, step.ofm.storage)[_rolling(step.ofm)] = made
    else:
        _box(memory, step.ofm)[...] = made


def _cells(memory: dict[Storage, np.ndarray], storage: Storage) -> np.ndarray:
    if storage not in memory:
        dtype = _NUMPY[storage.element.bits, storage.element.is_signed]
        if storage.data is not None:
            memory[storage] = np.array(storage.data).reshape(-1).astype(dtype)
        else:
            size = storage.shape[0] * storage.shape[1] * storage.shape[2]
            memory[storage] = np.random.default_rng(7).integers(0, 256, size * storage.element.bytes, np.uint8).view(dtype)
    return memory[storage]


def _box(memory: dict[Storage, np.ndarray], view: View) -> np.ndarray:
    """The numpy window of a view; writing to it writes to memory."""
    cells = _cells(memory, view.storage)
    if view.pitch is not None:
        first = sum(at * pitch for at, pitch in zip(view.offset, (*view.pitch, 1), strict=True))
        last = first + sum((extent - 1) * pitch for extent, pitch in zip(view.shape, (*view.pitch, 1), strict=True))
        assert 0 <= first <= last < cells.size, view
        strides = [pitch * cells.itemsize for pitch in (*view.pitch, 1)]
        return np.lib.stride_tricks.as_strided(cells[first:], view.shape, strides)
    whole = cells.reshape(view.full)
    assert all(o >= 0 and o + s <= f for o, s, f in zip(view.offset, view.shape, view.full, strict=True)), view
    return whole[tuple(slice(o, o + s) for o, s in zip(view.offset, view.shape, strict=True))]


def _read(memory: dict[Storage, np.ndarray], view: View) -> np.ndarray:
    """Values minus zero point; 32-bit maps have none."""
    zero_point = 0 if view.element.bits == 32 else view.zero_point
    box = _cells(memory, view.storage)[_rolling(view)] if view.storage.is_rolling else _box(memory, view)
    return box.astype(np.int64) - zero_point


def _rolling(view: View) -> np.ndarray:
    """Which cells of a rolling buffer a view's elements are: behind the last row follows the first; no cell is met twice."""
    height, width, depth = view.storage.shape
    pitches = (*(view.pitch or (width * depth, depth)), 1)
    at = [(start + np.arange(extent)) * pitch for start, extent, pitch in zip(view.offset, view.shape, pitches, strict=True)]
    cells = (at[0][:, None, None] + at[1][:, None] + at[2]) % (height * width * depth)
    assert np.unique(cells).size == cells.size, view
    return cells


def rounding_shift(product: np.ndarray, shift: np.ndarray | int, mode: Rounding) -> np.ndarray:
    """product / 2**shift as the output unit rounds it."""
    product = np.asarray(product, np.int64)
    shift = np.broadcast_to(np.asarray(shift, np.int64), product.shape)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    once = (product + half) >> shift
    if mode is Rounding.NATURAL:
        return once
    assert mode is Rounding.DOUBLE
    return np.where(shift <= 31, once, _divide((product + (1 << 30)) >> 31, np.maximum(shift - 31, 0)))


def _divide(value: np.ndarray, bits: np.ndarray | int) -> np.ndarray:
    """value / 2**bits, ties away from zero."""
    mask = (np.int64(1) << np.asarray(bits, np.int64)) - 1
    return (value >> bits) + ((value & mask) > (mask >> 1) + (value < 0))


def _output_stage(step: Step, values: np.ndarray) -> np.ndarray:
    element = step.ofm.element
    dtype = _NUMPY[element.bits, element.is_signed]
    if element.bits == 32 and step.clip_range is ClipRange.OFM_PRECISION:
        assert step.lut is None
        return values.astype(np.uint64).astype(np.uint32).view(np.int32)
    if step.function is not None:
        values = np.vectorize({"tanh": tanh, "sigmoid": sigmoid}[step.function], otypes=[np.int64])(values)
    values = values + step.ofm.zero_point
    if step.clip_range is ClipRange.FORCE_INT8:
        values = np.clip(values, -128, 127)
    values = np.clip(values, max(step.minimum, -(1 << 15)), min(step.maximum, (1 << 15) - 1))
    if step.lut is not None:
        if element.bits == 16:
            return _on_lines(step.lut, values).astype(dtype)
        return step.lut.view(dtype)[values + 128 if element.is_signed else values]
    assert element.minimum <= values.min() <= values.max() <= element.maximum, step
    return values.astype(dtype)


def _on_lines(table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """int16 values through 512 straight lines of 128 numbers each."""
    first, rise = (table.view(np.int16).reshape(-1, 2)[:, part].astype(np.int64) for part in (0, 1))
    line, at = (values + (1 << 15)) >> 7, (values + (1 << 15)) & 127
    return first[line] + ((rise[line] * at + 64) >> 7)


def _window(step: WindowStep, memory: dict[Storage, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The padded, upscaled IFM and which of its positions are no padding, both of the extent that the OFM asks for."""
    x = _read(memory, step.ifm)
    if step.upscale is Upscale.NEAREST:
        x = x.repeat(2, axis=0).repeat(2, axis=1)
    elif step.upscale is Upscale.ZEROS:
        zeros = np.zeros((x.shape[0] * 2, x.shape[1] * 2, x.shape[2]), np.int64)
        zeros[::2, ::2] = x
        x = zeros
    k, p = step.kernel, step.padding
    height = (step.ofm.shape[0] - 1) * k.stride_y + k.dilated_height - p.top - p.bottom
    width = (step.ofm.shape[1] - 1) * k.stride_x + k.dilated_width - p.left - p.right
    assert 0 < height <= x.shape[0], (step.source, height, x.shape)
    assert 0 < width <= x.shape[1], (step.source, width, x.shape)
    assert max(p.top, p.left) <= 127
    assert max(p.bottom, p.right) <= 128
    pads = ((p.top, p.bottom), (p.left, p.right))
    valid = np.pad(np.ones((height, width), bool), pads)
    return np.pad(x[:height, :width], (*pads, (0, 0))), valid


def _taps(step: WindowStep, padded: np.ndarray) -> np.ndarray:
    """(KH, KW, OH, OW, ...) view of what each kernel position sees."""
    k = step.kernel
    oh, ow, _ = step.ofm.shape
    rows = np.arange(k.height)[:, None] * k.dilation_y + np.arange(oh)[None, :] * k.stride_y
    columns = np.arange(k.width)[:, None] * k.dilation_x + np.arange(ow)[None, :] * k.stride_x
    return padded[rows[:, None, :, None], columns[None, :, None, :]]


def _convolve(step: ConvolutionStep, memory: dict[Storage, np.ndarray]) -> np.ndarray:
    padded, _ = _window(step, memory)
    w = step.weights
    o, kh, kw, i = w.values.shape
    assert (kh, kw) == (step.kernel.height, step.kernel.width)
    total = np.zeros(step.ofm.shape, np.int64) + w.biases
    values = w.values.astype(np.float64)
    for ky in range(kh):
        for kx in range(kw):
            top, left = ky * step.kernel.dilation_y, kx * step.kernel.dilation_x
            rows = slice(top, top + (step.ofm.shape[0] - 1) * step.kernel.stride_y + 1, step.kernel.stride_y)
            columns = slice(left, left + (step.ofm.shape[1] - 1) * step.kernel.stride_x + 1, step.kernel.stride_x)
            x = padded[rows, columns].astype(np.float64)
            if step.is_depthwise:
                assert (o, i) == (step.ifm.shape[2], 1)
                total += (x * values[:, ky, kx, 0]).astype(np.int64)
            else:
                assert i == step.ifm.shape[2]
                total += (x @ values[:, ky, kx, :].T).astype(np.int64)
    return rounding_shift(total * w.scales.astype(np.int64), w.shifts, step.rounding)


def _pool(step: PoolingStep, memory: dict[Storage, np.ndarray]) -> np.ndarray:
    padded, valid = _window(step, memory)
    if step.mode is PoolingMode.REDUCE_SUM:
        assert step.scale is not None
        total = padded.sum(axis=2, keepdims=True)
        return rounding_shift(total * step.scale.scale, step.scale.shift, step.rounding)
    assert step.ifm.shape[2] == step.ofm.shape[2]
    if step.mode is PoolingMode.MAX:
        padded = np.where(valid[..., None], padded, -(1 << 40))
        return _taps(step, padded).max(axis=(0, 1))
    if padded.shape[:2] == step.ofm.shape[:2] and step.kernel.height == step.kernel.width == 1:
        total = padded
    else:
        total = _taps(step, padded).sum(axis=(0, 1))
    if step.scale is not None:
        assert valid.all()
        return rounding_shift(total * step.scale.scale, step.scale.shift, step.rounding)
    count = _taps(step, valid).sum(axis=(0, 1))[..., None]
    extra = np.ceil(np.log2(count)).astype(np.int64)
    scale = ((np.int64(1) << (31 + extra)) + (np.int64(1) << extra)) // count
    return rounding_shift(total * scale, 31 + extra, step.rounding)


def _operands(step: ElementwiseStep, memory: dict[Storage, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    x = _read(memory, step.ifm)
    assert x.shape == step.ofm.shape
    if step.ifm2 is not None:
        assert step.scalar is None
        assert all(a in (1, b) for a, b in zip(step.ifm2.shape, x.shape, strict=True))
        y = np.broadcast_to(_read(memory, step.ifm2), x.shape)
    else:
        assert step.scalar is not None
        assert -(1 << 15) <= step.scalar < 1 << 15
        y = np.full(x.shape, step.scalar - step.scalar_zero_point, np.int64)
    return (y, x) if step.is_reversed else (x, y)


def _elementwise(step: ElementwiseStep, memory: dict[Storage, np.ndarray]) -> np.ndarray:
    scale = step.scale
    assert scale is not None
    factor = 1 if step.ifm.element.bits == 32 else scale.scale
    if step.mode is ElementwiseMode.ABS:
        return rounding_shift(abs(_read(memory, step.ifm)) * factor, scale.shift, step.rounding)
    if step.mode is ElementwiseMode.CLZ:
        x = _read(memory, step.ifm).astype(np.uint64).astype(np.uint32)
        return np.array([32 - int(v).bit_length() for v in x.reshape(-1)], np.int64).reshape(x.shape)
    a, b = _operands(step, memory)
    match step.mode:
        case ElementwiseMode.MUL:
            return np.clip(rounding_shift(a * b * factor, scale.shift, step.rounding), -(1 << 31), (1 << 31) - 1)
        case ElementwiseMode.MIN:
            return np.minimum(a, b)
        case ElementwiseMode.MAX:
            return np.maximum(a, b)
        case ElementwiseMode.SHR:
            return rounding_shift(a, b, step.rounding)
        case ElementwiseMode.SHL:
            return a << b
    if step.ifm.element.bits != 32:
        a, b = _scaled_operands(step, a, b)
    total = a + b if step.mode is ElementwiseMode.ADD else a - b
    return rounding_shift(total * factor, scale.shift, step.rounding)


def _scaled_operands(step: ElementwiseStep, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Operands of an 8-bit ADD or SUB; one of them may have a 32-bit scale with 20 fraction bits."""
    if step.operand_scaling is OperandScaling.BOTH_16:
        assert max(step.opa_scale.scale, step.opb_scale) < 1 << 16
        return a * step.opa_scale.scale, b * step.opb_scale
    assert step.operand_rounding is Rounding.DOUBLE
    if step.operand_scaling is OperandScaling.A_32:
        return _scaled_operand(step, a), b << 19
    return a << 19, _scaled_operand(step, b)


def _scaled_operand(step: ElementwiseStep, x: np.ndarray) -> np.ndarray:
    product, shift = x * step.opa_scale.scale, step.opa_scale.shift
    if shift <= 11:
        return rounding_shift(product, shift, Rounding.NATURAL)
    return _divide((product + (1 << 10)) >> 11, shift - 11)
