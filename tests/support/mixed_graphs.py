"""Seeded random graphs of 3 to 12 operators of int8, uint8 and int16 maps: branches, joins, splits, slices, changes of type.

`mixed_graph(seed, dtype)` gives a model file. Left out is only what `docs/exactness.md` lists as Vela's own arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes, Padding
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.random_graphs import FUSED, out_extent

I8, U8, I16, I32, I64 = DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64
_ELEMENTS = 6000
FIXED = {
    "LOGISTIC": {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)},
    "TANH": {I8: (1 / 128, 0), U8: (1 / 128, 128), I16: (1 / 32768, 0)},
    "SOFTMAX": {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)},
}


class Sketch:
    """A graph under construction; `values` are its maps of rank 4 and one image that operators may take."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.b = ModelBuilder()
        self.values: list[int] = []
        self.count = 0

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def shape(self, index: int) -> tuple[int, ...]:
        return self.b.tensors[index].shape

    def dtype(self, index: int) -> DType:
        return self.b.tensors[index].dtype

    def scale(self, index: int) -> float:
        quantization = self.b.tensors[index].quantization
        assert quantization is not None
        return float(quantization.scales[0])

    def zero(self, index: int) -> int:
        quantization = self.b.tensors[index].quantization
        assert quantization is not None
        return int(quantization.zero_points[0])

    def random_zero(self, dtype: DType) -> int:
        if dtype is I16:
            return 0
        low = -128 if dtype is I8 else 0
        return low + (self.pick((0, 128, 255)) if self.chance(0.3) else int(self.rng.integers(0, 256)))

    def random_scale(self, dtype: DType) -> float:
        exponent = self.rng.uniform(-8, 0)
        exponent = round(exponent) if self.chance(0.2) else exponent
        return float(np.float32(2.0 ** (exponent - 7 * (dtype is I16))))

    def quantized(self, shape: tuple[int, ...], dtype: DType, scale: float | None = None, zero: int | None = None) -> int:
        """A computed map."""
        scale = self.random_scale(dtype) if scale is None else bounded(scale)
        zero = self.random_zero(dtype) if zero is None else zero
        return self.b.tensor(shape, dtype, scale=scale, zero_point=zero)

    def like(self, index: int, shape: tuple[int, ...]) -> int:
        """A computed map with the type and quantization of another."""
        return self.quantized(shape, self.dtype(index), self.scale(index), self.zero(index))

    def numbers(self, values: Any) -> int:
        return self.b.constant(np.array(values, np.int32))

    def op(self, kind: str, inputs: list[int | None], outputs: list[int], attributes: Attributes | None = None) -> int:
        self.b.multi_op(kind, inputs, outputs, attributes=attributes)
        self.values += [output for output in outputs if len(self.shape(output)) == 4]
        self.count += 1
        return outputs[0]


def bounded(scale: float) -> float:
    return float(np.float32(min(max(scale, 2.0**-24), 2.0**6)))


def _weights(s: Sketch, shape: tuple[int, ...], axis: int, dtype: DType) -> int:
    if dtype is U8:
        data = s.rng.integers(0, 256, shape).astype(np.uint8)
        return s.b.constant(data, scale=float(2.0 ** s.rng.uniform(-9, -3)), zero_point=int(s.rng.integers(0, 256)))
    data = s.rng.integers(-127, 128, shape).astype(np.int8)
    if s.chance(0.2):
        data = np.where(s.rng.random(shape) < 0.7, 0, data).astype(np.int8)
    count = shape[axis] if s.chance(0.6) else 1
    scales = (2.0 ** s.rng.uniform(-9, -3, count)).astype(np.float32)
    return s.b.constant(data, scale=[float(item) for item in scales], axis=axis if count > 1 else 0)


def _bias(s: Sketch, ifm: int, weights: int, count: int, reach: float) -> int:
    quantization = s.b.tensors[weights].quantization
    assert quantization is not None
    wide = s.dtype(ifm) is I16
    data = (s.rng.uniform(-1, 1, count) * reach * (256 if wide else 1)).astype(np.int64 if wide else np.int32)
    return s.b.constant(data, scale=[float(np.float32(s.scale(ifm)) * item) for item in quantization.scales])


def _spread(s: Sketch, ifm: int, weights: int, reduction: int) -> float:
    """An output scale at which sums of products fill a good part of the range."""
    quantization = s.b.tensors[weights].quantization
    assert quantization is not None
    mean = float(np.exp(np.log(quantization.scales).mean()))
    return mean * s.scale(ifm) * 5500.0 * reduction**0.5 / s.pick((20.0, 40.0, 60.0, 100.0))


def _convolution(s: Sketch, x: int, *, is_depthwise: bool) -> int | None:
    _, h, w, c = s.shape(x)
    padding, dtype = s.pick((Padding.SAME, Padding.VALID)), s.dtype(x)
    kernel = [s.pick((1, 1, 2, 3, 3, 5)) for _ in range(2)]
    dilation = [2 if s.chance(0.15) else 1 for _ in range(2)]
    stride = [s.pick((1, 1, 1, 2, 3))] * 2 if is_depthwise else [s.pick((1, 1, 1, 2, 3)) for _ in range(2)]
    if max(stride) > 1:
        dilation = [1, 1]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if padding is Padding.VALID and (reach[0] > h or reach[1] > w):
        padding = Padding.SAME
    oh, ow = (out_extent(n, k, t, padding) for n, k, t in zip((h, w), reach, stride, strict=True))
    oc = c if is_depthwise else s.pick((1, 3, 8, 16, 17, 24, 40))
    if oh * ow * oc > _ELEMENTS or oh * ow * oc * kernel[0] * kernel[1] * (1 if is_depthwise else c) > 400_000:
        return None
    weights = _weights(s, (1, *kernel, c), 3, dtype) if is_depthwise else _weights(s, (oc, *kernel, c), 0, dtype)
    reduction = kernel[0] * kernel[1] * (1 if is_depthwise else c)
    inputs: list[int | None] = [x, weights, _bias(s, x, weights, oc, 8000 * reduction**0.5)]
    ofm = s.quantized((1, oh, ow, oc), dtype, _spread(s, x, weights, reduction))
    fused = s.pick(FUSED)
    if is_depthwise:
        options: Attributes = at.DepthwiseConv2DOptions(padding, stride[1], stride[0], 1, fused, dilation[1], dilation[0])
        return s.op("DEPTHWISE_CONV_2D", inputs, [ofm], options)
    return s.op("CONV_2D", inputs, [ofm], at.Conv2DOptions(padding, stride[1], stride[0], fused, dilation[1], dilation[0]))


def _transposed_convolution(s: Sketch, x: int) -> int | None:
    _, h, w, c = s.shape(x)
    oc, kernel = s.pick((1, 4, 8, 17)), s.pick((2, 3, 4))
    if 4 * h * w * oc > _ELEMENTS:
        return None
    weights = _weights(s, (oc, kernel, kernel, c), 0, s.dtype(x))
    ofm = s.quantized((1, 2 * h, 2 * w, oc), s.dtype(x), _spread(s, x, weights, kernel * kernel * c // 4 + 1))
    inputs: list[int | None] = [s.numbers([1, 2 * h, 2 * w, oc]), weights, x, _bias(s, x, weights, oc, 8000)]
    return s.op("TRANSPOSE_CONV", inputs, [ofm], at.TransposeConvOptions(Padding.SAME, 2, 2))


def _fully_connected(s: Sketch, x: int) -> int | None:
    size, units, dtype = int(np.prod(s.shape(x))), s.pick((4, 10, 33)), s.dtype(x)
    if size > 2000:
        return None
    flat = s.like(x, (1, size))
    s.op("RESHAPE", [x, s.numbers((1, size))], [flat], at.ReshapeOptions((1, size)))
    data = s.rng.integers(-127, 128, (units, size)).astype(np.int8)
    weights = s.b.constant(data, scale=0.01)
    if dtype is U8:
        weights = s.b.constant((data.astype(int) + 128).astype(np.uint8), scale=0.01, zero_point=120)
    ofm = s.quantized((1, units), dtype, _spread(s, flat, weights, size))
    inputs: list[int | None] = [flat, weights, _bias(s, flat, weights, units, 20000)]
    s.op("FULLY_CONNECTED", inputs, [ofm], at.FullyConnectedOptions(s.pick(FUSED)))
    image = s.like(ofm, (1, 1, 1, units))
    return s.op("RESHAPE", [ofm, s.numbers((1, 1, 1, units))], [image], at.ReshapeOptions((1, 1, 1, units)))


def _pool(s: Sketch, x: int) -> int:
    _, h, w, c = s.shape(x)
    padding = s.pick((Padding.SAME, Padding.VALID))
    kernel = [min(n, s.pick((1, 2, 2, 3, 4, 7))) for n in (h, w)]
    stride = [s.pick((1, 1, 2, 3)) for _ in range(2)]
    oh, ow = (out_extent(n, k, t, padding) for n, k, t in zip((h, w), kernel, stride, strict=True))
    options = at.Pool2DOptions(padding, stride[1], stride[0], kernel[1], kernel[0], s.pick(FUSED))
    return s.op(s.pick(("AVERAGE_POOL_2D", "MAX_POOL_2D")), [x], [s.like(x, (1, oh, ow, c))], options)


def _second(s: Sketch, x: int) -> int:
    """Another operand for a map: a map of its shape and type, or a constant that broadcasts to it."""
    fitting = [value for value in s.values if s.shape(value) == s.shape(x) and s.dtype(value) is s.dtype(x)]
    if s.chance(0.7):
        return int(s.pick(fitting))
    shape = () if s.chance(0.3) else tuple(1 if s.chance(0.5) else n for n in s.shape(x))
    limits = np.iinfo(s.dtype(x).numpy)  # type: ignore[arg-type]
    data = s.rng.integers(limits.min, limits.max, shape, endpoint=True).astype(limits.dtype)
    scale, zero = s.random_scale(s.dtype(x)), s.random_zero(s.dtype(x))
    return s.b.constant(data, scale=scale, zero_point=zero)


def _binary(s: Sketch, x: int) -> int:
    kind = s.pick(("ADD", "ADD", "SUB", "MUL"))
    y = _second(s, x)
    top = 120.0 if s.dtype(x) is not I16 else 25_000.0
    reach = s.scale(x) * s.scale(y) * top if kind == "MUL" else max(s.scale(x), s.scale(y))
    ofm = s.quantized(s.shape(x), s.dtype(x), reach * 2.0 ** s.rng.uniform(-0.5, 2))
    fused = s.pick(FUSED)
    options = {"ADD": at.AddOptions(fused, False), "SUB": at.SubOptions(fused, False), "MUL": at.MulOptions(fused)}[kind]
    return s.op(kind, [y, x] if s.chance(0.4) else [x, y], [ofm], options)


def _like_first(s: Sketch, x: int) -> int | None:
    """Another map of the same shape with the quantization of `x`: itself, or one that is quantized again."""
    fitting = [value for value in s.values if s.shape(value) == s.shape(x) and value != x]
    if not fitting:
        return None
    y = s.pick(fitting)
    if (s.scale(y), s.zero(y), s.dtype(y)) == (s.scale(x), s.zero(x), s.dtype(x)):
        return int(y)
    return s.op("QUANTIZE", [y], [s.like(x, s.shape(x))])


def _extremum(s: Sketch, x: int) -> int | None:
    y = _like_first(s, x)
    if y is None:
        return None
    kind = s.pick(("MAXIMUM", "MINIMUM"))
    return s.op(kind, [x, y], [s.like(x, s.shape(x))])


def _unary(s: Sketch, x: int) -> int:
    kind = s.pick(("RELU", "RELU6", "LOGISTIC", "TANH", "LEAKY_RELU", "SOFTMAX", "QUANTIZE", "ABS"))
    dtype = s.dtype(x)
    if kind == "ABS" and dtype is U8:
        kind = "RELU"
    options: Attributes | None = None
    if kind in FIXED:
        scale, zero = FIXED[kind][dtype]
        ofm = s.b.tensor(s.shape(x), dtype, scale=scale, zero_point=zero)
        options = at.SoftmaxOptions(float(s.pick((1.0, 0.5, 2.0)))) if kind == "SOFTMAX" else None
    elif s.chance(0.4) or (kind == "RELU6" and dtype is I16):
        ofm = s.like(x, s.shape(x))
    else:
        ofm = s.quantized(s.shape(x), dtype, s.scale(x) * 2.0 ** s.rng.uniform(-2, 2))
    if kind == "LEAKY_RELU":
        options = at.LeakyReluOptions(float(s.rng.uniform(0.01, 0.9)))
    return s.op(kind, [x], [ofm], options)


def _change_of_type(s: Sketch, x: int) -> int:
    source = s.dtype(x)
    target = s.pick({I8: (I8, I16, U8), U8: (U8, I8), I16: (I16, I8)}[source])
    factor = {(I8, I16): 2.0**-8, (I16, I8): 2.0**8}.get((source, target), 1.0)
    return s.op("QUANTIZE", [x], [s.quantized(s.shape(x), target, s.scale(x) * factor * 2.0 ** s.rng.uniform(-1, 1))])


def _concatenation(s: Sketch, x: int) -> int | None:
    parts = [x]
    for _ in range(int(s.rng.integers(1, 4))):
        y = x if s.chance(0.2) else _like_first(s, x)
        parts.append(x if y is None else y)
    axis = s.pick((1, 2, 3, 3))
    shape = list(s.shape(x))
    shape[axis] *= len(parts)
    if int(np.prod(shape)) > _ELEMENTS:
        return None
    s.rng.shuffle(parts)
    return s.op("CONCATENATION", list(parts), [s.like(x, tuple(shape))], at.ConcatenationOptions(axis))


def _split(s: Sketch, x: int) -> int | None:
    axis = s.pick((1, 2, 3, 3))
    shape = s.shape(x)
    if shape[axis] < 2:
        return None
    counts = [n for n in (2, 3, 4) if shape[axis] % n == 0]
    if counts and s.chance(0.5):
        count = s.pick(counts)
        part = (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])
        outputs = [s.like(x, part) for _ in range(count)]
        return s.op("SPLIT", [s.numbers(axis), x], outputs, at.SplitOptions(count))
    first = int(s.rng.integers(1, shape[axis]))
    sizes = [first, shape[axis] - first]
    outputs = [s.like(x, (*shape[:axis], n, *shape[axis + 1 :])) for n in sizes]
    return s.op("SPLIT_V", [x, s.numbers(sizes), s.numbers(axis)], outputs, at.SplitVOptions(2))


def _pad(s: Sketch, x: int) -> int | None:
    kind = s.pick(("PAD", "PAD", "PADV2", "MIRROR_PAD"))
    shape = s.shape(x)
    top = min(3, min(shape[1:3])) if kind == "MIRROR_PAD" else 4
    pads = [[0, 0], *([int(n) for n in s.rng.integers(0, top, 2)] for _ in range(2)), [0, 0]]
    if kind != "MIRROR_PAD" and s.chance(0.2):
        pads[3] = [int(n) for n in s.rng.integers(0, 3, 2)]
    made = tuple(n + sum(pair) for n, pair in zip(shape, pads, strict=True))
    if int(np.prod(made)) > _ELEMENTS:
        return None
    inputs: list[int | None] = [x, s.numbers(pads)]
    options: Attributes | None = at.PadOptions() if kind == "PAD" else None
    if kind == "PADV2":
        limits = np.iinfo(s.dtype(x).numpy)  # type: ignore[arg-type]
        value = s.rng.integers(limits.min, limits.max, (1,), endpoint=True).astype(limits.dtype)
        inputs.append(s.b.constant(value, scale=s.scale(x), zero_point=s.zero(x)))
    if kind == "MIRROR_PAD":
        reflect = max(max(pair) for pair in pads) < min(shape[1:3])
        options = at.MirrorPadOptions(at.MirrorPadMode(int(not reflect or s.chance(0.5))))
    return s.op(kind, inputs, [s.like(x, made)], options)


def _reshape(s: Sketch, x: int) -> int:
    _, h, w, c = s.shape(x)
    made = s.pick(((1, h * w, 1, c), (1, w, h, c), (1, 1, h, w * c), (1, c, h, w)))
    return s.op("RESHAPE", [x, s.numbers(made)], [s.like(x, made)], at.ReshapeOptions(made))


def _transpose(s: Sketch, x: int) -> int:
    axes = s.pick(((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 1, 2), (0, 2, 3, 1), (0, 3, 2, 1)))
    if s.dtype(x) is U8:  # Vela clamps moved bytes as if they were signed
        axes = (0, 1, 2, 3)
    made = tuple(s.shape(x)[axis] for axis in axes)
    return s.op("TRANSPOSE", [x, s.numbers(axes)], [s.like(x, made)])


def _slice(s: Sketch, x: int) -> int:
    shape = s.shape(x)
    begin = [int(s.rng.integers(0, n)) if s.chance(0.5) else 0 for n in shape]
    size = [int(s.rng.integers(1, n - at_ + 1)) for n, at_ in zip(shape, begin, strict=True)]
    if s.chance(0.5):
        return s.op("SLICE", [x, s.numbers(begin), s.numbers(size)], [s.like(x, tuple(size))])
    steps = [1, s.pick((1, 1, 2)), s.pick((1, 1, 2)), 1]
    made = tuple(-(-n // step) for n, step in zip(size, steps, strict=True))
    end = [first + n for first, n in zip(begin, size, strict=True)]
    inputs: list[int | None] = [x, s.numbers(begin), s.numbers(end), s.numbers(steps)]
    return s.op("STRIDED_SLICE", inputs, [s.like(x, made)], at.StridedSliceOptions())


def _resize(s: Sketch, x: int) -> int | None:
    _, h, w, c = s.shape(x)
    if 4 * h * w * c > _ELEMENTS:
        return None
    kind = s.pick(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
    corners, half = s.pick(((False, False), (True, False), (False, True)))
    size = (2 * h - 1, 2 * w - 1) if corners else (2 * h, 2 * w)
    options = (at.ResizeBilinearOptions if kind == "RESIZE_BILINEAR" else at.ResizeNearestNeighborOptions)(corners, half)
    return s.op(kind, [x, s.numbers(size)], [s.like(x, (1, *size, c))], options)


def _mean(s: Sketch, x: int) -> int:
    axes = s.pick(([1, 2], [1], [2]))
    made = tuple(1 if axis in axes else n for axis, n in enumerate(s.shape(x)))
    ofm = s.like(x, made) if s.chance(0.5) else s.quantized(made, s.dtype(x), s.scale(x) * 2.0 ** s.rng.uniform(-2, 1))
    return s.op("MEAN", [x, s.numbers(axes)], [ofm], at.ReducerOptions(True))


def _stacked(s: Sketch, x: int) -> int | None:
    """PACK and a RESHAPE back to one image, or UNPACK of rows."""
    _, h, w, c = s.shape(x)
    y = _like_first(s, x)
    if y is None or 2 * h * w * c > _ELEMENTS:
        return None
    axis = s.pick((1, 2, 4))
    packed = s.like(x, (*s.shape(x)[:axis], 2, *s.shape(x)[axis:]))
    s.op("PACK", [x, y], [packed], at.PackOptions(2, axis))
    made = (1, 2 * h, w, c) if axis == 1 else (1, h, 2 * w, c) if axis == 2 else (1, h, w, 2 * c)
    return s.op("RESHAPE", [packed, s.numbers(made)], [s.like(x, made)], at.ReshapeOptions(made))


Link = Callable[[Sketch, int], int | None]
LINKS: tuple[tuple[float, Link], ...] = (
    (3, lambda s, x: _convolution(s, x, is_depthwise=False)),
    (2, lambda s, x: _convolution(s, x, is_depthwise=True)),
    (1, _transposed_convolution),
    (1, _fully_connected),
    (2, _pool),
    (4, _binary),
    (1, _extremum),
    (2, _unary),
    (0.5, _change_of_type),
    (2, _concatenation),
    (2, _split),
    (2, _pad),
    (1, _reshape),
    (1.5, _transpose),
    (2, _slice),
    (1.5, _resize),
    (1, _mean),
    (0.7, _stacked),
)


def mixed_graph(seed: int, dtype: DType) -> bytes:
    """A model whose outputs are all maps that no operator reads."""
    rng = np.random.default_rng([seed, 2024, (I8, U8, I16).index(dtype)])
    s = Sketch(rng)
    weights = np.array([weight for weight, _ in LINKS])
    shape = (1, s.pick((3, 4, 7, 9, 12)), s.pick((2, 3, 8, 11)), s.pick((1, 2, 3, 8, 16, 17, 32)))
    for _ in range(s.pick((1, 1, 2))):
        s.values.append(s.b.input(shape, dtype, scale=s.random_scale(dtype), zero_point=s.random_zero(dtype)))
    target = int(rng.integers(3, 11))
    while s.count < target:
        x = s.values[-1] if s.chance(0.6) else s.pick(s.values)
        LINKS[int(rng.choice(len(LINKS), p=weights / weights.sum()))][1](s, x)
    read = {index for op in s.b.ops for index in op.inputs}
    made = [index for op in s.b.ops for index in op.outputs]
    s.b.output(*[index for index in made if index not in read])
    return s.b.build()
