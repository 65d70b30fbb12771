"""Seeded random int8 graphs: single operators of every kind that the NPU table names, and chains with branches.

`cases(op, count, seed)` gives graphs whose geometry and quantization cover what the constraints admit: odd sizes, one-pixel
maps, depth 1 to 300, every stride, dilation, padding and fused activation, per-tensor and per-channel scales, extreme zero
points. `chains(count, seed)` gives graphs of several operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Quantization, Tensor

HEIGHTS = (1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 19)
DEPTHS = (1, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 65, 100, 129, 300)
FUSED = (FusedActivation.NONE, FusedActivation.NONE, FusedActivation.RELU, FusedActivation.RELU6, FusedActivation.RELU_N1_TO_1)
MAX_ELEMENTS = 12_000
MAX_MACS = 600_000


@dataclass(frozen=True)
class Case:
    """One graph with a name that tells its seed; `ops` are all its operators."""

    name: str
    graph: Graph

    @property
    def model(self) -> Model:
        return Model((self.graph,))

    @property
    def ops(self) -> range:
        return range(len(self.graph.ops))


def random_inputs(graph: Graph, seed: int) -> list[np.ndarray]:
    """Full-range random data for every graph input, in order."""
    rng = np.random.default_rng([seed, 77])
    return [rng.integers(-128, 128, graph.tensors[t].shape, np.int8) for t in graph.inputs]


@dataclass
class Sketch:
    """A graph under construction with its source of randomness."""

    rng: np.random.Generator
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def zero_point(self) -> int:
        """Uniform, every third an extreme or 0."""
        return self.pick((-128, 0, 127)) if self.chance(1 / 3) else int(self.rng.integers(-128, 128))

    def scale(self) -> float:
        """Log-uniform from 2**-12 to 2**2; now and then a power of two."""
        exponent = self.rng.uniform(-12, 2)
        return float(np.float32(2.0 ** (round(exponent) if self.chance(0.2) else exponent)))

    def tensor(self, shape: tuple[int, ...], scale: float | None = None, zero_point: int | None = None) -> int:
        """A computed int8 tensor."""
        zero_point = self.zero_point() if zero_point is None else zero_point
        return self.add(shape, self.scale() if scale is None else scale, zero_point)

    def add(self, shape: tuple[int, ...], scale: float, zero_point: int, data: np.ndarray | None = None) -> int:
        quantization = Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))
        self.tensors.append(Tensor(f"t{len(self.tensors)}", tuple(map(int, shape)), DType.INT8, quantization, data))
        return len(self.tensors) - 1

    def input(self, shape: tuple[int, ...], scale: float | None = None, zero_point: int | None = None) -> int:
        index = self.tensor(shape, scale, zero_point)
        self.inputs.append(index)
        return index

    def numbers(self, values: Any) -> int:
        """A constant int32 tensor without quantization."""
        data = np.array(values, np.int32)
        self.tensors.append(Tensor(f"t{len(self.tensors)}", data.shape, DType.INT32, None, data))
        return len(self.tensors) - 1

    def weights(self, shape: tuple[int, ...], axis: int, *, per_channel: bool) -> int:
        """Constant int8 weights; a channel of zeros, or of extremes, now and then."""
        data = self.rng.integers(-127, 128, shape, np.int8)
        if self.chance(0.2):
            data = np.where(self.rng.random(shape) < 0.7, 0, data).astype(np.int8)
        if self.chance(0.1):
            data[...] = self.pick((-127, 127, 0, 1))
        count = shape[axis] if per_channel else 1
        scales = (2.0 ** self.rng.uniform(-9, -3, count)).astype(np.float32)
        quantization = Quantization(scales, np.zeros(count, np.int64), axis)
        self.tensors.append(Tensor(f"t{len(self.tensors)}", shape, DType.INT8, quantization, data))
        return len(self.tensors) - 1

    def bias(self, ifm: int, weights: int, count: int, reach: int) -> int:
        """Constant int32 bias in the accumulator's scale, of the size of the accumulator."""
        quantization = self.tensors[weights].quantization
        assert quantization is not None
        scales = np.float32(self.scale_of(ifm)) * quantization.scales
        data = self.rng.integers(-reach, reach + 1, count, np.int32)
        q = Quantization(scales.astype(np.float32), np.zeros(scales.size, np.int64), 0)
        self.tensors.append(Tensor(f"t{len(self.tensors)}", (count,), DType.INT32, q, data))
        return len(self.tensors) - 1

    def scale_of(self, index: int) -> float:
        quantization = self.tensors[index].quantization
        assert quantization is not None
        return quantization.scale

    def zero_point_of(self, index: int) -> int:
        quantization = self.tensors[index].quantization
        assert quantization is not None
        return quantization.zero_point

    def shape(self, index: int) -> tuple[int, ...]:
        return self.tensors[index].shape

    def op(self, kind: str, inputs: list[int], outputs: list[int], attributes: Attributes | None = None) -> int:
        self.ops.append(Op(kind, tuple(inputs), tuple(outputs), attributes, _VERSIONS.get(kind, 1)))
        return outputs[0]

    def graph(self, outputs: list[int]) -> Graph:
        return Graph("main", tuple(self.tensors), tuple(self.ops), tuple(self.inputs), tuple(outputs))

    def map_shape(self, maximum: int = MAX_ELEMENTS) -> tuple[int, int, int, int]:
        """A random NHWC shape of one image."""
        while True:
            shape = (1, self.pick(HEIGHTS), self.pick(HEIGHTS), self.pick(DEPTHS))
            if shape[1] * shape[2] * shape[3] <= maximum:
                return shape

    def any_shape(self, maximum: int = MAX_ELEMENTS) -> tuple[int, ...]:
        """A random shape of rank 1 to 4, batches included."""
        _, height, width, depth = self.map_shape(maximum)
        batch = self.pick((1, 1, 1, 2, 3)) if height * width * depth * 3 <= maximum else 1
        return (batch, height, width, depth)[-self.pick((1, 2, 3, 4, 4, 4)) :]


_VERSIONS = {
    "ADD": 2, "SUB": 2, "MUL": 2, "AVERAGE_POOL_2D": 2, "MAX_POOL_2D": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4, "CONCATENATION": 2, "PAD": 2, "SOFTMAX": 2, "LOGISTIC": 2, "TANH": 2, "RELU": 2, "RELU6": 2,
    "RESIZE_BILINEAR": 2, "PACK": 2,
}  # fmt: skip


def convolved(s: Sketch, x: int, kernel: int, depth: int, stride: int = 1) -> int:
    """A CONV_2D of SAME padding with RELU, to `depth` channels."""
    _, height, width, channels = s.shape(x)
    weights = s.weights((depth, kernel, kernel, channels), 0, per_channel=True)
    options = at.Conv2DOptions(Padding.SAME, stride, stride, FusedActivation.RELU, 1, 1)
    made = s.tensor(
        (1, out_extent(height, kernel, stride, Padding.SAME), out_extent(width, kernel, stride, Padding.SAME), depth), 0.25, 5
    )
    return s.op("CONV_2D", [x, weights, s.bias(x, weights, depth, 1000)], [made], options)


def out_extent(extent: int, kernel: int, stride: int, padding: Padding) -> int:
    """Output extent of a window; `kernel` is dilated."""
    return -(-extent // stride) if padding is Padding.SAME else (extent - kernel) // stride + 1


def _window(s: Sketch, extent: int, kernels: tuple[int, ...], dilations: tuple[int, ...], padding: Padding) -> tuple[int, int]:
    """A kernel extent and a dilation that fit."""
    while True:
        kernel, dilation = s.pick(kernels), s.pick(dilations)
        if padding is Padding.SAME or (kernel - 1) * dilation + 1 <= extent:
            return kernel, dilation


def _output_scale(s: Sketch, ifm: int, weights: int, reduction: int) -> float:
    """A scale at which the sums of products spread over a good part of int8, sometimes far too little or too much."""
    quantization = s.tensors[weights].quantization
    assert quantization is not None
    spread = float(np.exp(np.log(quantization.scales).mean())) * s.scale_of(ifm) * 5500.0 * reduction**0.5
    return _bounded(spread / s.pick((20.0, 40.0, 60.0, 60.0, 100.0, 2.0, 500.0)))


def _bounded(scale: float) -> float:
    """A float32 scale that keeps the scales of long chains within reason."""
    return float(np.float32(min(max(scale, 2.0**-16), 2.0**5)))


def _convolve(s: Sketch, ifm: int | None = None, *, is_depthwise: bool) -> int:
    padding = s.pick((Padding.SAME, Padding.VALID))
    kernels = (1, 1, 2, 3, 3, 3, 4, 5, 7, 9)
    while True:
        _, height, width, depth = s.map_shape() if ifm is None else s.shape(ifm)
        kh, dy = _window(s, height, kernels, (1, 1, 2), padding)
        kw, dx = _window(s, width, kernels, (1, 1, 2), padding)
        sy, sx = s.pick((1, 1, 2, 3)), s.pick((1, 1, 2, 3))
        oh = out_extent(height, (kh - 1) * dy + 1, sy, padding)
        ow = out_extent(width, (kw - 1) * dx + 1, sx, padding)
        od = s.pick((depth, depth, s.pick(DEPTHS))) if not is_depthwise else depth if depth > 1 else s.pick((1, 2, 3, 8, 17))
        if oh * ow * od * kh * kw * (1 if is_depthwise else depth) <= MAX_MACS:
            break
    ifm = s.input((1, height, width, depth)) if ifm is None else ifm
    per_channel = s.chance(0.6)
    if is_depthwise:
        weights = s.weights((1, kh, kw, od), 3, per_channel=per_channel)
    else:
        weights = s.weights((od, kh, kw, depth), 0, per_channel=per_channel)
    reduction = kh * kw * (1 if is_depthwise else depth)
    inputs = [ifm, weights, s.bias(ifm, weights, od, int(8000 * reduction**0.5))]  # LiteRT refuses convolutions without bias
    ofm = s.tensor((1, oh, ow, od), _output_scale(s, ifm, weights, reduction))
    fused = s.pick(FUSED)
    if is_depthwise:
        options: Attributes = at.DepthwiseConv2DOptions(padding, sx, sy, od // depth, fused, dx, dy)
        return s.op("DEPTHWISE_CONV_2D", inputs, [ofm], options)
    return s.op("CONV_2D", inputs, [ofm], at.Conv2DOptions(padding, sx, sy, fused, dx, dy))


def _fully_connected(s: Sketch) -> int:
    units, features = s.pick(DEPTHS), s.pick((*DEPTHS, 640, 1024))
    lead = s.pick(((1,), (1,), (2,), (5,), (16,), (1, 3), (2, 1, 2)))
    weights_first = s.input((*lead, features))
    weights = s.weights((units, features), 0, per_channel=s.chance(0.2))
    inputs = [weights_first, weights]
    if s.chance(0.8):
        inputs.append(s.bias(weights_first, weights, units, int(8000 * features**0.5)))
    keep = len(lead) > 1 and s.chance(0.5)
    shape = (*lead, units) if keep else (int(np.prod(lead)), units)
    ofm = s.tensor(shape, _output_scale(s, weights_first, weights, features))
    return s.op("FULLY_CONNECTED", inputs, [ofm], at.FullyConnectedOptions(s.pick(FUSED), keep_num_dims=keep))


def _pool(s: Sketch, kind: str, ifm: int | None = None) -> int:
    padding = s.pick((Padding.SAME, Padding.VALID))
    is_average = kind == "AVERAGE_POOL_2D"
    kernels = (1, 2, 2, 3, 3, 4, 5, 7, 8)
    if padding is Padding.VALID or not is_average:
        kernels += (9, 11, 13, 19)
    shape = s.map_shape(6000) if ifm is None else s.shape(ifm)
    ifm = s.input(shape) if ifm is None else ifm
    kh, _ = _window(s, shape[1], kernels, (1,), padding)
    kw, _ = _window(s, shape[2], kernels, (1,), padding)
    if s.chance(0.2) and (padding is Padding.VALID or max(shape[1:3]) <= 8):
        kh, kw = shape[1:3]
    sy, sx = s.pick((1, 2, 3)), s.pick((1, 2, 3))
    out = (1, out_extent(shape[1], kh, sy, padding), out_extent(shape[2], kw, sx, padding), shape[3])
    ofm = s.tensor(out, s.scale_of(ifm), s.zero_point_of(ifm))
    return s.op(kind, [ifm], [ofm], at.Pool2DOptions(padding, sx, sy, kw, kh, s.pick(FUSED)))


def _binary(s: Sketch, kind: str, first: int | None = None, second: int | None = None) -> int:
    """ADD, SUB or MUL with operands of one shape, broadcast operands, constants, scalars or the same tensor twice."""
    shape = s.any_shape(6000) if first is None else s.shape(first)
    form = s.pick(("same", "same", "twice", "first", "second", "both", "constant", "scalar")) if second is None else "same"
    a = s.input(_shrunk(s, shape) if form in ("first", "both") else shape) if first is None else first
    if form == "twice":
        b = a
    elif form in ("constant", "scalar"):
        data_shape = s.pick(((), (1,), (1,) * len(shape))) if form == "scalar" else _shrunk(s, shape)
        data = s.rng.integers(-128, 128, data_shape, np.int8)
        b = s.add(data_shape, s.scale(), s.zero_point(), data)
    elif second is not None:
        b = second
    else:
        same_scale = s.chance(0.3)
        b_shape = _shrunk(s, shape) if form in ("second", "both") else shape
        scale = s.scale_of(a) if same_scale else s.scale_of(a) * 2.0 ** s.rng.uniform(-8, 8)
        b = s.input(b_shape, float(np.float32(scale)))
    order = [b, a] if s.chance(0.3) else [a, b]
    shape = np.broadcast_shapes(s.shape(a), s.shape(b))
    reach = s.scale_of(a) * s.scale_of(b) * 120 if kind == "MUL" else max(s.scale_of(a), s.scale_of(b))
    scale = _bounded(reach * 2.0 ** s.pick((0.0, 1.0, s.rng.uniform(-1, 3), s.rng.uniform(-8, 8))))
    options = {"ADD": at.AddOptions, "SUB": at.SubOptions, "MUL": at.MulOptions}[kind]
    return s.op(kind, order, [s.tensor(shape, scale)], options(s.pick(FUSED)))


def _shrunk(s: Sketch, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`."""
    shrunk = tuple(1 if s.chance(0.5) else extent for extent in shape)
    return shrunk[int(s.rng.integers(len(shape))) :] if s.chance(0.3) else shrunk


def _join(s: Sketch, kind: str) -> int:
    count = s.pick((1, 2, 2, 3, 4, 5)) if kind == "CONCATENATION" else s.pick((2, 2, 3, 5))
    shape = s.any_shape(3000)
    scale, zero_point = s.scale(), s.zero_point()
    if kind == "PACK":
        shape = shape[-3:]
        axis = int(s.rng.integers(len(shape) + 1))
        inputs = [s.input(shape, scale, zero_point) for _ in range(count)]
        ofm = s.tensor((*shape[:axis], count, *shape[axis:]), scale, zero_point)
        return s.op("PACK", inputs, [ofm], at.PackOptions(count, axis))
    axis = int(s.rng.integers(len(shape)))
    sizes = [s.pick((1, 2, 3, 8, 16, 17, shape[axis])) for _ in range(count)]
    inputs = [s.input((*shape[:axis], n, *shape[axis + 1 :]), scale, zero_point) for n in sizes]
    ofm = s.tensor((*shape[:axis], sum(sizes), *shape[axis + 1 :]), scale, zero_point)
    return s.op(kind, inputs, [ofm], at.ConcatenationOptions(s.pick((axis, axis - len(shape)))))


def _pad(s: Sketch, ifm: int | None = None) -> int:
    shape: tuple[int, ...] = s.map_shape(4000) if ifm is None else s.shape(ifm)
    if ifm is None and s.chance(0.3):
        shape = shape[1:]
    ifm = s.input(shape) if ifm is None else ifm
    amounts = [[s.pick((0, 0, 1, 1, 2, 3, 9)) for _ in range(2)] for _ in range(2)]
    table = [[0, 0]] * (len(shape) - 3) + amounts + [[0, 0]]
    out = tuple(n + sum(pair) for n, pair in zip(shape, table, strict=True))
    ofm = s.tensor(out, s.scale_of(ifm), s.zero_point_of(ifm))
    return s.op("PAD", [ifm, s.numbers(table)], [ofm], at.PadOptions())


def _reshape(s: Sketch) -> int:
    shape = s.any_shape()
    ifm = s.input(shape)
    size = int(np.prod(shape))
    first = s.pick([n for n in range(1, size + 1) if size % n == 0])
    second = s.pick([n for n in range(1, size // first + 1) if size // first % n == 0])
    out = s.pick(((size,), (first, size // first), (1, first, second, size // first // second), (first, 1, size // first)))
    ofm = s.tensor(out, s.scale_of(ifm), s.zero_point_of(ifm))
    return s.op("RESHAPE", [ifm, s.numbers(out)], [ofm], at.ReshapeOptions(out))


def _rectifier(s: Sketch, kind: str, ifm: int | None = None) -> int:
    ifm = s.input(s.any_shape()) if ifm is None else ifm
    same = s.chance(0.4)
    scale = s.scale_of(ifm) if same else _bounded(s.scale_of(ifm) * 2.0 ** s.rng.uniform(-5, 5))
    ofm = s.tensor(s.shape(ifm), scale, s.zero_point_of(ifm) if same else None)
    return s.op(kind, [ifm], [ofm])


def _table(s: Sketch, kind: str, ifm: int | None = None) -> int:
    ifm = s.input(s.any_shape()) if ifm is None else ifm
    scale, zero_point = (1 / 256, -128) if kind == "LOGISTIC" else (1 / 128, 0)
    return s.op(kind, [ifm], [s.tensor(s.shape(ifm), scale, zero_point)])


def _softmax(s: Sketch, ifm: int | None = None) -> int:
    ifm = s.input(s.any_shape(3000)) if ifm is None else ifm
    ofm = s.tensor(s.shape(ifm), 1 / 256, -128)
    return s.op("SOFTMAX", [ifm], [ofm], at.SoftmaxOptions(float(np.float32(s.pick((1.0, 1.0, 0.5, 0.1, 2.7, 10.0))))))


def _resize(s: Sketch) -> int:
    form = s.pick(("one", "same", "aligned", "double", "double"))
    shape = (1, 1, 1, s.pick(DEPTHS)) if form == "one" else s.map_shape(3000)
    _, height, width, depth = shape
    size = {
        "one": (s.pick(HEIGHTS), s.pick(HEIGHTS)),
        "same": (height, width),
        "aligned": (2 * height - 1, 2 * width - 1),
        "double": (2 * height, 2 * width),
    }[form]
    ifm = s.input(shape)
    ofm = s.tensor((1, *size, depth), s.scale_of(ifm), s.zero_point_of(ifm))
    aligned = form == "aligned" or (form in ("one", "same") and s.chance(0.5))
    return s.op("RESIZE_BILINEAR", [ifm, s.numbers(size)], [ofm], at.ResizeBilinearOptions(aligned, False))


def resize_bilinear(s: Sketch, ifm: int | None = None) -> int:
    """By 2, 4 or 8, also with aligned corners or half pixel centres, of which version 0.1 leaves most out."""
    corners, half = s.pick(((False, False), (True, False), (False, True), (False, True)))
    ifm = s.input((s.pick((1, 1, 2)), *s.map_shape(1200)[1:])) if ifm is None else ifm
    batch, height, width, depth = s.shape(ifm)
    size = enlarged(s, height, width, s.pick((2, 2, 4, 8) if s.tensors[ifm].elements < 400 else (2, 2, 4)), aligned=corners)
    ofm = s.tensor((batch, *size, depth), s.scale_of(ifm), s.zero_point_of(ifm))
    return s.op("RESIZE_BILINEAR", [ifm, s.numbers(size)], [ofm], at.ResizeBilinearOptions(corners, half))


def enlarged(s: Sketch, height: int, width: int, factor: int, *, aligned: bool = False) -> tuple[int, int]:
    """Height and width by a factor, counted between corners if `aligned`; an axis of one element stays one now and then."""
    less = int(aligned)
    rows, columns = (1 if n == 1 and s.chance(0.3) else factor * (n - less) + less for n in (height, width))
    return rows, columns


_SINGLE: dict[str, Callable[[Sketch], int]] = {
    "ADD": lambda s: _binary(s, "ADD"),
    "AVERAGE_POOL_2D": lambda s: _pool(s, "AVERAGE_POOL_2D"),
    "CONCATENATION": lambda s: _join(s, "CONCATENATION"),
    "CONV_2D": lambda s: _convolve(s, is_depthwise=False),
    "DEPTHWISE_CONV_2D": lambda s: _convolve(s, is_depthwise=True),
    "FULLY_CONNECTED": _fully_connected,
    "LOGISTIC": lambda s: _table(s, "LOGISTIC"),
    "MAX_POOL_2D": lambda s: _pool(s, "MAX_POOL_2D"),
    "MUL": lambda s: _binary(s, "MUL"),
    "PACK": lambda s: _join(s, "PACK"),
    "PAD": _pad,
    "RELU": lambda s: _rectifier(s, "RELU"),
    "RELU6": lambda s: _rectifier(s, "RELU6"),
    "RELU_N1_TO_1": lambda s: _rectifier(s, "RELU_N1_TO_1"),
    "RESHAPE": _reshape,
    "RESIZE_BILINEAR": _resize,
    "SOFTMAX": _softmax,
    "SUB": lambda s: _binary(s, "SUB"),
    "TANH": lambda s: _table(s, "TANH"),
}

OPERATORS = tuple(_SINGLE)
"""The 19 operators of the NPU table."""


def cases(op: str, count: int, seed: int = 0) -> list[Case]:
    """`count` graphs of the single operator `op`; case i depends on (op, seed, i) alone."""
    found = []
    for i in range(count):
        sketch = Sketch(np.random.default_rng([seed, i, OPERATORS.index(op)]))
        output = _SINGLE[op](sketch)
        found.append(Case(f"{op}-{seed}-{i}", sketch.graph([output])))
    return found


def _projected(s: Sketch, ifm: int, depth: int, scale: float, zero_point: int) -> int:
    """A 1x1 convolution with a wanted output quantization."""
    channels = s.shape(ifm)[3]
    weights = s.weights((depth, 1, 1, channels), 0, per_channel=s.chance(0.5))
    ofm = s.tensor((*s.shape(ifm)[:3], depth), scale, zero_point)
    bias = s.bias(ifm, weights, depth, 8000)
    options = at.Conv2DOptions(Padding.SAME, 1, 1, s.pick(FUSED), 1, 1)
    return s.op("CONV_2D", [ifm, weights, bias], [ofm], options)


def _branch(s: Sketch, ifm: int) -> int:
    """Two paths from one tensor that meet again in a sum, a product or a concatenation."""
    depth = s.pick((1, 5, 16, 32))
    scale, zero_point = _bounded(s.scale_of(ifm) * 30.0), s.zero_point()
    left = _projected(s, ifm, depth, scale, zero_point)
    meeting = s.pick(("ADD", "SUB", "MUL", "CONCATENATION", "CONCATENATION"))
    right = _projected(s, s.pick((ifm, left)), depth, scale, zero_point)
    if meeting != "CONCATENATION":
        return _binary(s, meeting, left, right)
    parts = [left, right, s.pick((left, right))] if s.chance(0.4) else [left, right]
    ofm = s.tensor((*s.shape(ifm)[:3], depth * len(parts)), scale, zero_point)
    return s.op("CONCATENATION", parts, [ofm], at.ConcatenationOptions(3))


def _joined(s: Sketch, ifm: int) -> int:
    """A map and what a convolution makes of it, side by side."""
    axis, shape = s.pick((1, 2, 3)), list(s.shape(ifm))
    other = _projected(s, ifm, shape[3], s.scale_of(ifm), s.zero_point_of(ifm))
    shape[axis] *= 2
    ofm = s.tensor(tuple(shape), s.scale_of(ifm), s.zero_point_of(ifm))
    return s.op("CONCATENATION", s.pick(([ifm, other], [other, ifm])), [ofm], at.ConcatenationOptions(axis))


def _padded_convolution(s: Sketch, ifm: int) -> int:
    """PAD and the VALID convolution that may carry it."""
    padded = _pad(s, ifm)
    _, height, width, depth = s.shape(padded)
    kernel = (min(3, height), min(3, width))
    stride = s.pick((1, 2))
    weights = s.weights((1, *kernel, depth), 3, per_channel=s.chance(0.5))
    out = (1, (height - kernel[0]) // stride + 1, (width - kernel[1]) // stride + 1, depth)
    ofm = s.tensor(out, _output_scale(s, padded, weights, 9))
    options = at.DepthwiseConv2DOptions(Padding.VALID, stride, stride, 1, s.pick(FUSED), 1, 1)
    return s.op("DEPTHWISE_CONV_2D", [padded, weights, s.bias(padded, weights, depth, 20000)], [ofm], options)


def _flattened(s: Sketch, ifm: int) -> int:
    """RESHAPE to a vector and a FULLY_CONNECTED."""
    size = s.tensors[ifm].elements
    flat = s.tensor((1, size), s.scale_of(ifm), s.zero_point_of(ifm))
    s.op("RESHAPE", [ifm, s.numbers((1, size))], [flat], at.ReshapeOptions((1, size)))
    units = s.pick((2, 10, 33))
    weights = s.weights((units, size), 0, per_channel=False)
    ofm = s.tensor((1, units), _output_scale(s, flat, weights, size))
    bias = s.bias(flat, weights, units, 20000)
    return s.op("FULLY_CONNECTED", [flat, weights, bias], [ofm], at.FullyConnectedOptions(s.pick(FUSED)))


_LINKS: tuple[Callable[[Sketch, int], int], ...] = (
    lambda s, x: _convolve(s, x, is_depthwise=False),
    lambda s, x: _convolve(s, x, is_depthwise=True),
    lambda s, x: _pool(s, "AVERAGE_POOL_2D", x),
    lambda s, x: _pool(s, "MAX_POOL_2D", x),
    lambda s, x: _rectifier(s, s.pick(("RELU", "RELU6", "RELU_N1_TO_1")), x),
    lambda s, x: _table(s, s.pick(("LOGISTIC", "TANH")), x),
    lambda s, x: _binary(s, s.pick(("ADD", "SUB", "MUL")), x),
    _pad,
    _padded_convolution,
    _branch,
    _branch,
)


def permuted(s: Sketch, ifm: int) -> int:
    """TRANSPOSE of a map whose first dimension stays."""
    order = (0, *(int(axis) + 1 for axis in s.rng.permutation(len(s.shape(ifm)) - 1)))
    ofm = s.tensor(tuple(s.shape(ifm)[axis] for axis in order), s.scale_of(ifm), s.zero_point_of(ifm))
    return s.op("TRANSPOSE", [ifm, s.numbers(order)], [ofm], at.TransposeOptions())


LINKS_AND_PERMUTATIONS = (*_LINKS, *(permuted,) * len(_LINKS))


def chains(count: int, seed: int = 0, links: Sequence[Callable[[Sketch, int], int]] = _LINKS) -> list[Case]:
    """`count` graphs of several operators with branches; a second output comes from the middle now and then."""
    found = []
    for i in range(count):
        s = Sketch(np.random.default_rng([seed, i, 1000]))
        value = s.input((1, s.pick((1, 4, 7, 9, 12)), s.pick((1, 3, 8, 11)), s.pick((1, 2, 3, 8, 16, 17))))
        outputs = []
        for _ in range(int(s.rng.integers(2, 7))):
            value = s.pick(links)(s, value)
            if s.chance(0.15):
                outputs.append(value)
        if s.chance(0.4) and s.tensors[value].elements <= 4000:
            value = _flattened(s, value)
        if s.chance(0.3):
            value = _softmax(s, value)
        found.append(Case(f"chain-{seed}-{i}", s.graph(list(dict.fromkeys([*outputs, value])))))
    return found


def resizing_chains(count: int, seed: int = 0) -> list[Case]:
    """`count` graphs with a bilinear resize behind a convolution and before one to three operators that read it."""
    found = []
    for i in range(count):
        s = Sketch(np.random.default_rng([seed, i, 1001]))
        value = s.input((1, s.pick((1, 3, 4, 6)), s.pick((1, 2, 5, 7)), s.pick((1, 3, 8, 17))))
        depth = s.pick((1, 5, 16, 32))
        value = _projected(s, value, depth, _bounded(s.scale_of(value) * 30.0), s.zero_point())
        value = resize_bilinear(s, value)
        outputs = [value] if s.chance(0.2) else []
        for _ in range(int(s.rng.integers(1, 4))):
            outputs.append(s.pick(_READERS)(s, value))
        found.append(Case(f"resizing-{seed}-{i}", s.graph(outputs)))
    return found


_READERS: tuple[Callable[[Sketch, int], int], ...] = (
    lambda s, x: _convolve(s, x, is_depthwise=True),
    lambda s, x: _pool(s, "AVERAGE_POOL_2D", x),
    lambda s, x: _binary(s, "ADD", x),
    lambda s, x: _rectifier(s, "RELU6", x),
    lambda s, x: _projected(s, x, s.pick((1, 7, 16)), _bounded(s.scale_of(x) * 30.0), s.zero_point()),
    _joined,
)
