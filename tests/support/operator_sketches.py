"""Small random networks around one operator or block each: every kind in many shapes and types, alone or between convolutions.

`sketch(seed)` takes the operators in turn and draws a type, the shape of a map, what the operator does with it, and where
it stands: alone, behind a convolution, in front of one, between two, or beside another reader of its input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.architectures.layers import NONE, RELU, RELU6, Layers
from tests.support.block_sketches import BLOCKS, DoesNotFit, Maker, Rng, as_map, ends_of, only, pick, rows_of, shuffled

PLACES = ("alone", "after", "before", "between", "beside")
"""Where an operator stands: alone, behind a convolution, in front of one, between two, beside a reader of the same map."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Depths of the maps that are drawn, and the elements that those in front of an operator and behind it have at most."""

    depths: tuple[int, ...]
    most_inputs: dict[DType, int]
    most_outputs: int


SMALL = Sizes(
    (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 96, 128, 160, 192, 256, 320, 512),
    {DType.INT8: 150_000, DType.UINT8: 150_000, DType.INT16: 70_000},
    400_000,
)
LARGE = Sizes(
    (1, 3, 8, 16, 32, 64, 96, 128, 192, 256, 320, 512, 640, 768, 1024, 1280, 2048),
    {DType.INT8: 2_500_000, DType.UINT8: 2_500_000, DType.INT16: 1_200_000},
    6_000_000,
)
_TRIALS = 200


@dataclass(frozen=True, slots=True)
class OperatorSketch:
    """A network, and what it is: seed, operator, type, input, place."""

    name: str
    content: bytes


def sketch(seed: int, sizes: Sizes = SMALL) -> OperatorSketch:
    """The network of a seed, the same every time."""
    rng, operator = np.random.default_rng([seed, 99]), list(OPERATORS)[seed % len(OPERATORS)]
    for _ in range(_TRIALS):
        dtype = pick(rng, (DType.INT8,) * 6 + (DType.UINT8, DType.INT16))
        shape, place = _map_shape(rng, sizes.depths, sizes.most_inputs[dtype]), pick(rng, PLACES)
        try:
            outputs, net = _outputs(seed, dtype, shape, place, OPERATORS[operator], rng)
        except DoesNotFit:
            continue
        if all(min(net.shape(out)) > 0 and math.prod(net.shape(out)) <= sizes.most_outputs for out in outputs):
            size = "x".join(map(str, shape))
            return OperatorSketch(f"{seed} {operator} {dtype} {size} {place}", net.finish(*outputs))
    raise AssertionError(f"seed {seed}: no map of {_TRIALS} suits {operator}")


def _outputs(
    seed: int, dtype: DType, shape: tuple[int, int, int], place: str, make: Maker, rng: Rng
) -> tuple[list[int], Layers]:
    net = Layers(seed, dtype)
    x = net.input(*shape)
    if place in ("after", "between", "beside"):
        x = net.conv(x, shape[2], *pick(rng, ((1,), (1,), (3,))), act=RELU)
    y = make(net, x, rng)
    if place in ("before", "between"):
        y = net.conv(y, pick(rng, (8, 16, 32)), pick(rng, (1, 1, 3)))
    return ([y, net.conv(x, 8, 3)] if place == "beside" else [y]), net


def _map_shape(rng: Rng, depths: tuple[int, ...], most: int) -> tuple[int, int, int]:
    """Square or not, a row now and then, any usual depth."""
    while True:
        height, width = (int(np.exp(rng.uniform(0, math.log(130)))) for _ in range(2))
        shape = rng.random()
        height, width = (width, width) if shape < 0.5 else (1, width) if shape > 0.9 else (height, width)
        depth = int(pick(rng, depths))
        if 64 <= height * width * depth <= most:
            return height, width, depth


def _kernel(rng: Rng) -> tuple[int, int]:
    size = pick(rng, (1, 2, 3, 3, 3, 5, 5, 7, 9))
    return size, size if rng.random() < 0.7 else pick(rng, (1, 3, 5, 7))


def _is_same(net: Layers, x: int, kernel: tuple[int, int], rng: Rng) -> bool:
    """Whether to pad: a map smaller than the kernel must be."""
    _, height, width, _ = net.shape(x)
    return bool(rng.random() < 0.7) or height < kernel[0] or width < kernel[1]


# -- convolutions and products


def _conv(net: Layers, x: int, rng: Rng) -> int:
    kernel, depth = _kernel(rng), pick(rng, (1, 4, 8, 16, 24, 32, 48, 64, 96, 128, 200))
    stride, act = pick(rng, (1, 1, 1, 2, 2, 3, 4)), pick(rng, (NONE, RELU, RELU6))
    return net.conv(x, depth, kernel, stride=stride, act=act, same=_is_same(net, x, kernel, rng))


def _dilated(net: Layers, x: int, rng: Rng) -> int:
    return net.conv(x, pick(rng, (8, 16, 32, 64)), pick(rng, (2, 3, 5)), dilation=pick(rng, (2, 3, 4, 8)))


def _depthwise(net: Layers, x: int, rng: Rng) -> int:
    kernel = _kernel(rng)
    return net.dw(x, kernel, stride=pick(rng, (1, 1, 2, 2, 3)), act=RELU6, same=_is_same(net, x, kernel, rng))


def _dilated_depthwise(net: Layers, x: int, rng: Rng) -> int:
    return net.dw(x, 3, dilation=pick(rng, (2, 4)))


def _multiplied_depthwise(net: Layers, x: int, rng: Rng) -> int:
    return net.dw(x, 3, times=pick(rng, (2, 4, 8)), stride=pick(rng, (1, 2)))


def _transposed_conv(net: Layers, x: int, rng: Rng) -> int:
    depth, kernel, stride = pick(rng, (4, 8, 16, 32, 64)), pick(rng, (2, 3, 4, 5)), pick(rng, (1, 2, 2, 2))
    return net.tconv(x, depth, kernel, stride, same=bool(rng.random() < 0.6))


def _dense(net: Layers, x: int, rng: Rng) -> int:
    elements = math.prod(net.shape(x))
    flat = net.reshape(x, 1, elements) if rng.random() < 0.5 and elements < 6000 else rows_of(net, x)
    return as_map(net, net.dense(flat, pick(rng, (1, 4, 10, 32, 64, 100, 256))))


def _matmul(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8, DType.INT16)
    rows = rows_of(net, x)
    if rng.random() < 0.5:
        if net.shape(rows)[1] > 300:
            raise DoesNotFit
        return as_map(net, net.matmul(rows, rows, transposed=True))
    return as_map(net, net.matmul(net.transpose(rows, 0, 2, 1), rows))


def _attention(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    y = net.conv(x, pick(rng, (16, 32, 64)), 3, stride=2)
    if net.shape(y)[1] * net.shape(y)[2] > 220:
        raise DoesNotFit
    return net.reshape(net.attention(rows_of(net, y), pick(rng, (1, 2, 4))), *net.shape(y))


def _norm(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    return net.reshape(net.norm(rows_of(net, x)), *net.shape(x))


# -- windows and means


def _pool(kind: str, extents: tuple[int, ...]) -> Maker:
    def make(net: Layers, x: int, rng: Rng) -> int:
        _, height, width, _ = net.shape(x)
        kernel = min(pick(rng, extents), height, width)
        return net.pool(x, kind, kernel, pick(rng, (1, 2, 2, 3)), same=bool(rng.random() < 0.5))

    return make


def _global_mean(net: Layers, x: int, rng: Rng) -> int:
    return net.gap(x, keep=True)


def _mean(net: Layers, x: int, rng: Rng) -> int:
    return net.mean(x, pick(rng, ((1,), (2,), (3,), (2, 3))), scale=0.01 if rng.random() < 0.5 else None)


def _reduce_max(net: Layers, x: int, rng: Rng) -> int:
    axis, shape = int(rng.integers(1, 4)), list(net.shape(x))
    shape[axis] = 1
    return net.like("REDUCE_MAX", x, shape, at.ReducerOptions(keep_dims=True), [net.ints(axis)])


def _softmax(net: Layers, x: int, rng: Rng) -> int:
    return net.reshape(net.softmax(rows_of(net, x)), *net.shape(x))


# -- two operands


def _operand(net: Layers, x: int, rng: Rng) -> int:
    """A map, a constant or a mean to be combined with a map."""
    shape, kind = net.shape(x), int(rng.integers(0, 7))
    if kind < 3:
        return net.conv(x, shape[3], 1)
    if kind < 5:
        return net.const(1, 1, 1, shape[3]) if kind == 3 else net.const(*shape)
    return net.gap(x, keep=True) if kind == 5 else net.mean(x, (3,))


def _add(net: Layers, x: int, rng: Rng) -> int:
    return net.add(x, _operand(net, x, rng), pick(rng, (NONE, RELU)))


def _sub(net: Layers, x: int, rng: Rng) -> int:
    return net.sub(x, _operand(net, x, rng))


def _mul(net: Layers, x: int, rng: Rng) -> int:
    return net.mul(x, _operand(net, x, rng))


def _maximum(net: Layers, x: int, rng: Rng) -> int:
    return net.maximum(x, net.like("RELU", x))


def _squared_difference(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    y = net.conv(x, net.shape(x)[3], 1)
    return net.make("SQUARED_DIFFERENCE", [x, y], net.shape(x), at.SquaredDifferenceOptions())


# -- one operand


def _table(net: Layers, x: int, rng: Rng) -> int:
    kinds = ("LOGISTIC", "TANH", "LEAKY_RELU") + (("HARD_SWISH", "GELU", "RSQRT") if net.dtype is DType.INT8 else ())
    kind = pick(rng, kinds)
    return net.table(kind, net.make("RELU", [x], net.shape(x)) if kind == "RSQRT" else x)


def _prelu(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    return net.prelu(x)


def _rectifier(net: Layers, x: int, rng: Rng) -> int:
    kinds = ("RELU", "RELU6") if net.dtype is DType.INT16 else ("RELU", "RELU6", "RELU_N1_TO_1")
    return net.make(pick(rng, kinds), [x], net.shape(x))


def _abs(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8, DType.INT16)
    return net.like("ABS", x)


def _quantize(net: Layers, x: int, rng: Rng) -> int:
    return net.make("QUANTIZE", [x], net.shape(x), scale=0.05, zero_point=0)


# -- moves


def _join(net: Layers, x: int, rng: Rng) -> int:
    axis, count = pick(rng, (1, 2, 3, 3, 3)), pick(rng, (2, 3, 4))
    depths = [net.shape(x)[3] if axis < 3 else pick(rng, (4, 5, 8, 16, 17, 32)) for _ in range(count - 1)]
    others = [net.conv(x, depth, 1) for depth in depths]
    return net.cat(x, *others, axis=axis) if rng.random() < 0.7 else net.cat(*others, x, axis=axis)


def _split(net: Layers, x: int, rng: Rng) -> int:
    axis = pick(rng, (1, 2, 3, 3))
    count = next((count for count in (4, 3, 2) if net.shape(x)[axis] % count == 0), 0)
    if not count:
        raise DoesNotFit
    first, *others = (net.conv(part, 8, 1) for part in net.split(x, count, axis))
    for other in others:
        first = net.add(first, other)
    return first


def _strided_slice(net: Layers, x: int, rng: Rng) -> int:
    begin, end = ends_of(net, x, rng)
    return net.slice(x, begin, end, [1, *(pick(rng, (1, 1, 2)) for _ in begin[1:])])


def _pad(net: Layers, x: int, rng: Rng) -> int:
    rows, columns = (tuple(int(n) for n in rng.integers(0, 3, 2)) for _ in range(2))
    depth = (0, 0) if rng.random() < 0.7 else (0, int(rng.integers(1, 5)))
    return net.pad(x, (0, 0), (rows[0], rows[1]), (columns[0], columns[1]), depth)


def _mirror_pad(net: Layers, x: int, rng: Rng) -> int:
    if min(net.shape(x)[1:3]) < 4:
        raise DoesNotFit
    rows, columns = (tuple(int(n) for n in rng.integers(0, 3, 2)) for _ in range(2))
    return net.pad(x, (0, 0), (rows[0], rows[1]), (columns[0], columns[1]), (0, 0), mirror=True)


def _enlarged(net: Layers, x: int, rng: Rng) -> int:
    _, height, width, _ = net.shape(x)
    times, way = pick(rng, (2, 2, 2, 4, 8)), int(rng.integers(0, 4))
    if way == 3:
        corners = (height - 1) * times + 1, (width - 1) * times + 1
        return net.resize(x, *corners, align=True, nearest=bool(rng.random() < 0.4))
    return net.up(x, times, nearest=way == 0, half=way == 2)


def _resized(net: Layers, x: int, rng: Rng) -> int:
    height, width = (max(1, int(size * rng.uniform(0.4, 2.2))) for size in net.shape(x)[1:3])
    return net.resize(x, height, width, nearest=bool(rng.random() < 0.5), half=bool(rng.random() < 0.5))


def _reshaped(net: Layers, x: int, rng: Rng) -> int:
    _, height, width, depth = net.shape(x)
    shapes = [(height * width, 1, depth), (width, height, depth), (1, height * width, depth)]
    shapes += [(height, width * 2, depth // 2)] * (depth % 2 == 0)
    return net.reshape(x, 1, *pick(rng, shapes))


def _transpose(net: Layers, x: int, rng: Rng) -> int:
    return net.transpose(x, *pick(rng, ((0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 2, 1))))


def _shuffle(net: Layers, x: int, rng: Rng) -> int:
    return shuffled(net, x)


def _depth_to_space(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8, DType.UINT8)
    if net.shape(x)[3] % 4:
        raise DoesNotFit
    return net.depth_to_space(x, 2)


def _space_to_depth(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8, DType.UINT8)
    if net.shape(x)[1] % 2 or net.shape(x)[2] % 2:
        raise DoesNotFit
    return net.space_to_depth(x, 2)


# -- blocks


def _inverted_residual(net: Layers, x: int, rng: Rng) -> int:
    depth, stride = net.shape(x)[3], pick(rng, (1, 2))
    wide = net.conv(x, depth * pick(rng, (2, 4, 6)), 1, act=RELU6)
    narrow = net.conv(net.dw(wide, pick(rng, (3, 5)), stride=stride, act=RELU6), depth * stride, 1)
    return net.add(x, narrow) if stride == 1 else narrow


def _residual(net: Layers, x: int, rng: Rng) -> int:
    depth = net.shape(x)[3]
    return net.add(x, net.conv(net.conv(x, depth, 3, act=RELU), depth, 3), RELU)


def _dense_block(net: Layers, x: int, rng: Rng) -> int:
    for _ in range(3):
        x = net.cat(x, net.conv(x, pick(rng, (8, 12, 16)), 3, act=RELU))
    return x


def _squeeze_excite(net: Layers, x: int, rng: Rng) -> int:
    return net.excite(x, hard=bool(rng.random() < 0.5))


OPERATORS: dict[str, Maker] = {
    "CONV_2D": _conv, "dilated CONV_2D": _dilated, "DEPTHWISE_CONV_2D": _depthwise,
    "dilated DEPTHWISE_CONV_2D": _dilated_depthwise, "DEPTHWISE_CONV_2D with a multiplier": _multiplied_depthwise,
    "TRANSPOSE_CONV": _transposed_conv, "FULLY_CONNECTED": _dense, "BATCH_MATMUL": _matmul, "attention": _attention,
    "layer norm": _norm, "AVERAGE_POOL_2D": _pool("AVERAGE", (2, 2, 3, 3, 4, 5, 7, 8)),
    "MAX_POOL_2D": _pool("MAX", (2, 2, 3, 3, 4, 5, 7, 9, 13)), "MEAN of a map": _global_mean, "MEAN": _mean,
    "REDUCE_MAX": _reduce_max, "SOFTMAX": _softmax, "ADD": _add, "SUB": _sub, "MUL": _mul, "MAXIMUM": _maximum,
    "SQUARED_DIFFERENCE": _squared_difference, "table": _table, "PRELU": _prelu, "RELU": _rectifier, "ABS": _abs,
    "QUANTIZE": _quantize, "CONCATENATION": _join, "SPLIT": _split, "STRIDED_SLICE": _strided_slice, "PAD": _pad,
    "MIRROR_PAD": _mirror_pad, "RESIZE by 2, 4 or 8": _enlarged, "RESIZE": _resized, "RESHAPE": _reshaped,
    "TRANSPOSE": _transpose, "channel shuffle": _shuffle, "DEPTH_TO_SPACE": _depth_to_space,
    "SPACE_TO_DEPTH": _space_to_depth, "inverted residual": _inverted_residual, "residual": _residual,
    "dense block": _dense_block, "squeeze and excite": _squeeze_excite, **BLOCKS,
}  # fmt: skip
