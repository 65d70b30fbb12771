"""Small models of one operator for every plausible combination of types: the cells of the operator x types table.

A cell is "KIND i8 i8c i32 -> i8": one code per input and output in the notation of `npu.runtime.types`, "-" for an absent
input, with a suffix for integers: "p" (plain, without quantization) and "c" (one scale per channel). `make_cell` draws shapes,
options, scales and values from a generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu.graph.dtype import DType
from npu.graph.graph import Tensor

from tests.support.builder import ModelBuilder
from tests.support.cell_templates import POSITIVE, QUANTIZED, TEMPLATES, Rng, Slot, dtype_of

_RANGES = {"i4": (-8, 7), "i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767)}


@dataclass
class _Made:
    code: str
    dtype: DType
    scale: Any = None
    zero_point: Any = 0
    axis: int = 0
    data: Any = None


def make_cell(cell: str, seed: int) -> bytes:
    """The model of a cell."""
    kind, _, types = cell.partition(" ")
    rng = np.random.default_rng([seed, *cell.encode()])
    left, right = (side.split() for side in types.split("->"))
    draw = TEMPLATES[kind].draw(rng, tuple(left) + tuple(right))
    b = ModelBuilder()
    made: list[_Made | None] = []
    indices: list[int | None] = []
    for slot, code in zip(draw.inputs, left, strict=False):
        if code == "-" or slot is None:
            made.append(None)
            indices.append(None)
            continue
        entry = _make(rng, slot, code, made)
        made.append(entry)
        indices.append(_add(b, entry, slot))
    outputs = []
    for i, slot in enumerate(draw.outputs):
        code = right[min(i, len(right) - 1)]
        entry = _make(rng, slot, code, made)
        outputs.append(b.tensor(slot.shape, entry.dtype, scale=entry.scale, zero_point=entry.zero_point))
    while indices and indices[-1] is None:
        indices.pop()
    b.multi_op(kind, indices, outputs, attributes=draw.attributes, version=draw.version)
    b.output(*outputs)
    return b.build()


def _add(b: ModelBuilder, entry: _Made, slot: Slot) -> int:
    options = {"scale": entry.scale, "zero_point": entry.zero_point, "axis": entry.axis}
    if entry.data is None:
        return b.input(slot.shape, entry.dtype, **options)
    return b.tensor(np.shape(entry.data) if entry.dtype is not DType.INT4 else slot.shape, entry.dtype,
                    data=stored(entry.data, entry.dtype), **options)  # fmt: skip


def stored(values: Any, dtype: DType) -> Any:
    """The values as the file holds them: two int4 in a byte, the first in the low half."""
    if dtype is DType.STRING:
        return string_buffer([str(v).encode() for v in np.ravel(values)])
    if dtype is not DType.INT4:
        return np.asarray(values, dtype.numpy)
    flat = np.asarray(values, np.int8).ravel().astype(np.uint8) & 15
    flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
    return (flat[0::2] | flat[1::2] << 4).astype(np.uint8)


def string_buffer(strings: Sequence[bytes]) -> Any:
    """The wire format of a string tensor."""
    offsets = np.cumsum([4 * (len(strings) + 2), *(len(s) for s in strings)])
    return np.frombuffer(np.array([len(strings), *offsets], "<i4").tobytes() + b"".join(strings), np.uint8)


def scale_of(rng: Rng, low: float = 0.002, high: float = 0.2) -> float:
    return float(np.float32(np.exp(rng.uniform(np.log(low), np.log(high)))))


def _make(rng: Rng, slot: Slot, code: str, made: Sequence[_Made | None]) -> _Made:
    dtype = dtype_of(code)
    entry = _Made(code, dtype)
    if slot.bias_of is not None:
        return _bias(rng, slot, entry, made)
    base = code.removesuffix("c")
    if base in QUANTIZED and not slot.plain:
        _quantize(rng, slot, base, entry, made, per_channel=code.endswith("c"))
    elif code in ("i32", "i64") and slot.wide_scale:
        entry.scale, entry.zero_point = scale_of(rng, 1e-4, 1e-2), 0
    if slot.weights:
        entry.data = random_values(rng, tuple(slot.shape), dtype, slot)
    elif slot.data is not None:
        entry.data = slot.data
    return entry


def _quantize(rng: Rng, slot: Slot, base: str, entry: _Made, made: Sequence[_Made | None], *, per_channel: bool) -> None:
    source = made[slot.like] if slot.like is not None else None
    if source is not None and source.dtype is entry.dtype:
        entry.scale, entry.zero_point = source.scale, source.zero_point
        return
    if slot.fixed:
        low = min(_RANGES[base])
        is_unit = slot.fixed == 1
        if base == "i16" and is_unit and made and made[0] is not None and made[0].dtype is not DType.INT16:
            entry.scale, entry.zero_point = 1 / 65536, -32768
            return
        steps = {"i8": 256, "u8": 256, "i16": 32768}[base]
        entry.scale = 1 / steps if is_unit or base == "i16" else 2 / steps
        entry.zero_point = 0 if base == "i16" else low if is_unit else low + 128
        return
    count = slot.shape[slot.axis] if per_channel else 1
    low, high = (2e-5, 2e-3) if base == "i16" else (0.05, 2.0) if slot.wide_scale else (0.002, 0.2)
    if base == "i16" and slot.wide_scale:
        low, high = 1e-3, 1e-1
    scales = [scale_of(rng, low, high) for _ in range(count)]
    entry.scale, entry.axis = (scales, slot.axis) if per_channel else (scales[0], 0)
    if base in ("i8", "u8") and not (slot.weights and base == "i8"):
        entry.zero_point = int(rng.integers(*_RANGES[base], endpoint=True))


def _bias(rng: Rng, slot: Slot, entry: _Made, made: Sequence[_Made | None]) -> _Made:
    ifm, weights = (made[i] for i in slot.bias_of or (0, 1))
    channels = slot.shape[0]
    if entry.dtype.numpy is not None and entry.dtype.numpy.kind == "f":
        entry.data = rng.standard_normal(channels)
        return entry
    entry.data = rng.integers(-2000, 2000, channels) if entry.dtype.numpy is not None else np.zeros(channels)
    if ifm is not None and weights is not None and ifm.scale is not None and weights.scale is not None:
        entry.scale = np.atleast_1d(np.float32(ifm.scale) * np.float32(weights.scale)).tolist()
    return entry


def random_values(rng: Rng, shape: tuple[int, ...], dtype: DType, slot: Slot | None = None) -> Any:
    """Values with the extremes of the type among them."""
    slot = slot or Slot()
    if dtype is DType.INT4:
        return rng.integers(-7, 7, shape, endpoint=True)
    if dtype is DType.STRING:
        return rng.integers(0, 50, shape)
    assert dtype.numpy is not None
    kind = dtype.numpy.kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "fc":
        values = rng.uniform(0.1, 4, shape) if slot.positive else rng.standard_normal(shape) * rng.choice([0.1, 1, 4])
        return values.astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    low, high = (int(limits.min), int(limits.max))
    if slot.weights and dtype is DType.INT8:
        low = -127
    if slot.small:
        low, high = max(low, -20), min(high, 20)
    if slot.positive:
        low, high = 1, min(high, 6)
    low, high = slot.low if slot.low is not None else low, slot.high if slot.high is not None else high
    values = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
    extreme = rng.random(shape)
    values = np.where(extreme < 0.1, low, np.where(extreme > 0.9, high, values))
    return np.asarray(values, dtype.numpy)


def all_cells() -> tuple[str, ...]:
    """Every cell once, by operator."""
    return tuple(dict.fromkeys(cell for kind in sorted(TEMPLATES) for cell in TEMPLATES[kind].cells()))


def cell_inputs(cell: str, seed: int, tensors: Sequence[Tensor]) -> list[Any]:
    """Values of the inputs of a cell's model, extremes among them; inside the domain of functions that have one."""
    kind = cell.split()[0]
    rng = np.random.default_rng([seed, 7])
    result = []
    for tensor in tensors:
        slot = Slot(positive=kind in {*POSITIVE, "POW"})
        if tensor.dtype is DType.STRING:
            drawn = [b"x%d" % v for v in rng.integers(0, 3, int(np.prod(tensor.shape)))]
            values = np.empty(len(drawn), object)
            values[:] = drawn
            result.append(values.reshape(tensor.shape))
            continue
        if kind in POSITIVE and tensor.dtype in (DType.INT8, DType.INT16) and tensor.quantization is not None:
            slot = Slot(low=tensor.quantization.zero_point)
        elif kind == "DIV" and tensor is not tensors[0] and tensor.quantization is not None:
            slot = Slot(low=tensor.quantization.zero_point + 1)
        result.append(random_values(rng, tensor.shape, tensor.dtype, slot))
    return result
