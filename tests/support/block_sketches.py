"""Blocks of real networks and rarer operators for random sketches: each puts a few operators behind a map of rank 4.

`tests.support.operator_sketches` draws the map and where the block stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType

from tests.support.architectures.layers import NONE, RELU, RELU6, Layers

Rng = np.random.Generator
Maker = Callable[[Layers, int, Rng], int]
"""Puts an operator or a block behind a map of rank 4 and returns what it makes, also of rank 4."""


class DoesNotFit(Exception):
    """An operator has no form for this map."""


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    """One of the values."""
    return values[int(rng.integers(len(values)))]


def only(net: Layers, *dtypes: DType) -> None:
    """The network's maps must be of one of the types."""
    if net.dtype not in dtypes:
        raise DoesNotFit


def rows_of(net: Layers, x: int) -> int:
    """Positions and channels."""
    _, height, width, depth = net.shape(x)
    return net.reshape(x, 1, height * width, depth)


def as_map(net: Layers, x: int) -> int:
    """A tensor of rank 2 or 3 as a map."""
    return net.reshape(x, *(1,) * (4 - len(net.shape(x))), *net.shape(x))


def shuffled(net: Layers, x: int) -> int:
    """The channels of two halves by turns."""
    *plane, depth = net.shape(x)
    _must(depth % 2 == 0)
    groups = net.reshape(x, *plane, 2, depth // 2)
    return net.reshape(net.transpose(groups, 0, 1, 2, 4, 3), *plane, depth)


def ends_of(net: Layers, x: int, rng: Rng) -> tuple[list[int], list[int]]:
    """Where a box within a map begins and ends."""
    sizes = net.shape(x)[1:]
    begin = [int(rng.integers(0, max(1, size // 3))) for size in sizes]
    end = [max(first + 1, size - int(rng.integers(0, max(1, size // 3)))) for first, size in zip(begin, sizes, strict=True)]
    return [0, *begin], [1, *end]


def _must(holds: bool) -> None:
    if not holds:
        raise DoesNotFit


# -- convolutions that are rarer


def _grouped(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    groups, depth = pick(rng, (2, 4, 8)), pick(rng, (16, 32, 64))
    _must(net.shape(x)[3] % groups == 0 and net.shape(x)[3] > groups)
    constants = net.weights(x, (depth, 3, 3, net.shape(x)[3] // groups), 0)
    return net.make(
        "CONV_2D", [x, *constants], (*net.shape(x)[:3], depth), at.Conv2DOptions(Padding.SAME, 1, 1, RELU), **net.signed(RELU)
    )


def _batched(net: Layers, x: int, rng: Rng) -> int:
    """Rows of a map as pictures of their own: the same convolution for each."""
    _, height, width, depth = net.shape(x)
    count = pick(rng, (2, 3, 4))
    _must(height % count == 0)
    parts = net.reshape(x, count, height // count, width, depth)
    way = int(rng.integers(0, 4))
    if way == 0:
        parts = net.conv(parts, pick(rng, (8, 16, 32)), 3, act=RELU)
    elif way == 1:
        parts = net.dw(parts, 3, act=RELU6)
    elif way == 2:
        parts = net.pool(parts, pick(rng, ("MAX", "AVERAGE")), 2, 1, same=True)
    else:
        parts = net.conv(parts, depth, 1)
        parts = net.add(parts, net.dw(parts, 3))
    shape = net.shape(parts)
    return net.reshape(parts, 1, shape[0] * shape[1], *shape[2:])


def _in_time(net: Layers, x: int, rng: Rng) -> int:
    """A residual layer of a sequence: causal, dilated."""
    _, height, width, depth = net.shape(x)
    dilation, kernel = pick(rng, (1, 1, 2, 4, 8)), pick(rng, (3, 5, 9))
    y = net.reshape(x, 1, 1, height * width, depth)
    if rng.random() < 0.5:
        padded = net.pad(y, (0, 0), (0, 0), ((kernel - 1) * dilation, 0), (0, 0))
        return net.add(y, net.conv(padded, depth, (1, kernel), dilation=(1, dilation), act=RELU, same=False))
    return net.add(y, net.conv(net.dw(y, (1, kernel), dilation=(1, dilation)), depth, 1, act=RELU))


def _one_axis(net: Layers, x: int, rng: Rng) -> int:
    length, depth = pick(rng, (3, 5, 7)), pick(rng, (8, 16, 32))
    return net.conv(net.conv(x, depth, (1, length), act=RELU), depth, (length, 1), act=RELU)


def _stem(net: Layers, x: int, rng: Rng) -> int:
    y = net.conv(x, pick(rng, (8, 16, 24, 32)), pick(rng, (3, 5, 7)), stride=2, act=RELU)
    return net.pool(y, "MAX", 3, 2, same=True)


# -- moves that are rarer


def _packed(net: Layers, x: int, rng: Rng) -> int:
    """Two maps one behind the other along a new axis, which is merged into one of theirs."""
    _, height, width, depth = net.shape(x)
    y, axis = net.like("RELU", x), pick(rng, (1, 2, 3))
    shape = [1, height, width, depth]
    shape.insert(axis, 2)
    packed = net.like("PACK", x, shape, at.PackOptions(2, axis), [y])
    merged = {1: (1, 2 * height, width, depth), 2: (1, height, 2 * width, depth), 3: (1, height, width, 2 * depth)}
    return net.reshape(packed, *merged[axis])


def _unpacked(net: Layers, x: int, rng: Rng) -> int:
    axis = pick(rng, (1, 2))
    shape = list(net.shape(x))
    count = shape.pop(axis)
    _must(2 <= count <= 16)
    made = [net.b.tensor(shape, net.dtype, **net.steps(x)) for _ in range(count)]
    net.b.multi_op("UNPACK", [x], made, attributes=at.UnpackOptions(count, axis))
    total = made[0]
    for other in made[1:4]:
        total = net.add(total, other)
    return as_map(net, total)


def _split_unevenly(net: Layers, x: int, rng: Rng) -> int:
    axis = pick(rng, (1, 2, 3, 3))
    size = net.shape(x)[axis]
    _must(size >= 3)
    first = int(rng.integers(1, size))
    shapes = [[*net.shape(x)[:axis], part, *net.shape(x)[axis + 1 :]] for part in (first, size - first)]
    made = [net.b.tensor(shape, net.dtype, **net.steps(x)) for shape in shapes]
    constants = [net.ints(first, size - first), net.ints(axis)]
    net.b.multi_op("SPLIT_V", [x, *constants], made, attributes=at.SplitVOptions(2))
    way = int(rng.integers(0, 2))
    return net.cat(net.conv(made[0], shapes[0][3], 3), made[1], axis=axis) if way else net.cat(made[1], made[0], axis=axis)


def _sliced(net: Layers, x: int, rng: Rng) -> int:
    begin, end = ends_of(net, x, rng)
    shape = [stop - first for first, stop in zip(begin, end, strict=True)]
    return net.like("SLICE", x, shape, at.SliceOptions(), [net.ints(*begin), net.ints(*shape)])


def _focus(net: Layers, x: int, rng: Rng) -> int:
    """Every other position of a map as channels, then a convolution."""
    _, height, width, depth = net.shape(x)
    _must(height % 2 == 0 and width % 2 == 0)
    end = (1, height, width, depth)
    parts = [net.slice(x, [0, row, column, 0], end, [1, 2, 2, 1]) for column in (0, 1) for row in (0, 1)]
    return net.conv(net.cat(*parts), pick(rng, (8, 16, 32)), pick(rng, (1, 3)), act=RELU)


def _tiled(net: Layers, x: int, rng: Rng) -> int:
    times = [1, 1, 1]
    times[int(rng.integers(0, 3))] = pick(rng, (2, 3))
    shape = [size * count for size, count in zip(net.shape(x), (1, *times), strict=True)]
    return net.like("TILE", x, shape, at.TileOptions(), [net.ints(1, *times)])


def _gathered(net: Layers, x: int, rng: Rng) -> int:
    axis = pick(rng, (1, 2, 3))
    size = net.shape(x)[axis]
    rows = [int(row) for row in rng.integers(0, size, int(rng.integers(1, min(size, 40) + 1)))]
    shape = list(net.shape(x))
    shape[axis] = len(rows)
    return net.like("GATHER", x, shape, at.GatherOptions(axis), [net.ints(*rows)])


# -- arithmetic


def _sum(net: Layers, x: int, rng: Rng) -> int:
    axes, shape = pick(rng, ((1,), (2,), (3,), (1, 2))), list(net.shape(x))
    for axis in axes:
        shape[axis] = 1
    steps = net.signed(NONE) | {"scale": float(rng.uniform(0.05, 0.4))}
    return net.make("SUM", [x, net.ints(*axes)], shape, at.ReducerOptions(keep_dims=True), **steps)


def _clipped(net: Layers, x: int, rng: Rng) -> int:
    bounds = [net.b.constant(np.full((), value, net.dtype.numpy), **net.steps(x)) for value in (20, 90)]
    return net.like("MINIMUM", net.maximum(x, bounds[0]), None, at.MaximumMinimumOptions(), [bounds[1]])


def _affine(net: Layers, x: int, rng: Rng) -> int:
    depth = net.shape(x)[3]
    return net.add(net.mul(x, net.const(1, 1, 1, depth)), net.const(depth), pick(rng, (NONE, RELU)))


def _swish(net: Layers, x: int, rng: Rng) -> int:
    y = net.conv(x, pick(rng, (8, 16, 32)), pick(rng, (1, 3)))
    return net.mul(y, net.table("LOGISTIC", y))


def _gated(net: Layers, x: int, rng: Rng) -> int:
    """One half of the channels opens and shuts the other."""
    value, gate = net.split(net.conv(x, pick(rng, (16, 32, 64)), pick(rng, (1, 3))), 2)
    return net.mul(net.table("TANH", value) if rng.random() < 0.4 else value, net.table("LOGISTIC", gate))


def _hard_gate(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    three = net.b.constant(np.full((), 100, np.int8), scale=0.03, zero_point=0)
    sixth = net.b.constant(np.full((), 127, np.int8), scale=1 / 6 / 127, zero_point=0)
    y = net.conv(x, pick(rng, (8, 16, 32)), 3)
    return net.mul(y, net.mul(net.add(y, three, RELU6), sixth))


def _statistics(net: Layers, x: int, rng: Rng) -> int:
    """Mean and mean square of every channel."""
    squares = net.mul(x, x)
    return net.cat(net.gap(x, keep=True), net.gap(squares, keep=True))


def _second_input(net: Layers, x: int, rng: Rng) -> int:
    """A map, a row of channels or one number from outside is combined with the map."""
    shape = net.shape(x)
    other = net.input(*pick(rng, (shape[1:], shape[1:], (1, 1, shape[3]), (shape[1], shape[2], 1), (1, 1, 1))))
    return {0: net.add, 1: net.sub, 2: net.mul}[int(rng.integers(0, 3))](x, other)


def _arg_max(net: Layers, x: int, rng: Rng) -> int:
    """The class of every position; the result has another type, so that a map of the same size stands for the block."""
    only(net, DType.INT8)
    y = net.conv(x, pick(rng, (4, 10, 21, 32)), 1)
    dtype = pick(rng, (DType.INT32, DType.INT64))
    net.b.output(net.b.op("ARG_MAX", [y, net.ints(3)], net.shape(y)[:3], dtype, attributes=at.ArgMaxOptions(dtype.value)))
    return y


# -- blocks of detectors, segmentation, classification


def _pyramid(net: Layers, x: int, rng: Rng) -> int:
    sizes = pick(rng, ((5, 9, 13), (3, 5), (5, 5, 5)))
    pools, y = [], x
    for size in sizes:
        y = net.pool(y if sizes[0] == sizes[-1] else x, "MAX", size, 1, same=True)
        pools.append(y)
    return net.conv(net.cat(x, *pools), pick(rng, (16, 32)), 1, act=RELU)


def _lateral(net: Layers, x: int, rng: Rng) -> int:
    _, height, width, depth = net.shape(x)
    _must(height % 2 == 0 and width % 2 == 0)
    low = net.conv(x, depth, 3, stride=2, act=RELU)
    merged = net.add(net.conv(x, depth, 1), net.up(low, nearest=bool(rng.random() < 0.6)))
    return net.conv(merged, depth, 3, act=RELU)


def _hourglass(net: Layers, x: int, rng: Rng) -> int:
    _, height, width, depth = net.shape(x)
    _must(height % 2 == 0 and width % 2 == 0)
    low = net.conv(net.pool(x, "MAX", 2), min(2 * depth, 64), 3, act=RELU)
    up = net.tconv(low, depth, pick(rng, (2, 3)), 2) if rng.random() < 0.5 else net.up(low, nearest=True)
    return net.conv(net.cat(x, up), depth, 3, act=RELU)


def _dilated_branches(net: Layers, x: int, rng: Rng) -> int:
    _, height, width, _ = net.shape(x)
    depth = pick(rng, (8, 16, 32))
    branches = [net.conv(x, depth, 1, act=RELU)]
    branches += [net.conv(x, depth, 3, dilation=far, act=RELU) for far in pick(rng, ((2, 4), (3, 6), (6, 12, 18)))]
    if rng.random() < 0.5 and net.dtype is DType.INT8:  # LiteRT's kernel of int16 reads behind a map of one position
        branches.append(net.resize(net.conv(net.gap(x, keep=True), depth, 1, act=RELU), height, width))
    return net.conv(net.cat(*branches), depth, 1, act=RELU)


def _looked_at(net: Layers, x: int, rng: Rng) -> int:
    """Weights for channels, then for positions from the mean and the largest of all channels."""
    only(net, DType.INT8)
    x = net.excite(x)
    largest = net.like("REDUCE_MAX", x, (*net.shape(x)[:3], 1), at.ReducerOptions(keep_dims=True), [net.ints(3)])
    return net.mul(x, net.table("LOGISTIC", net.conv(net.cat(net.mean(x, (3,)), largest), 1, pick(rng, (3, 7)))))


def _inception(net: Layers, x: int, rng: Rng) -> int:
    narrow = pick(rng, (8, 12, 16))
    branches = [net.conv(x, narrow, 1, act=RELU)]
    branches.append(net.conv(net.conv(x, narrow, 1, act=RELU), 2 * narrow, 3, act=RELU))
    branches.append(net.conv(net.conv(x, 8, 1, act=RELU), narrow, 5, act=RELU))
    branches.append(net.conv(net.pool(x, pick(rng, ("MAX", "AVERAGE")), 3, 1, same=True), narrow, 1, act=RELU))
    return net.cat(*branches)


def _ghost(net: Layers, x: int, rng: Rng) -> int:
    few = net.conv(x, pick(rng, (8, 12, 16, 20)), 1, act=RELU)
    return net.cat(few, net.dw(few, 3, act=RELU))


def _partial(net: Layers, x: int, rng: Rng) -> int:
    """A part of the channels goes through bottlenecks, the rest past them."""
    narrow = pick(rng, (8, 16, 24))
    first, second = net.split(net.conv(x, 2 * narrow, 1, act=RELU), 2)
    parts = [first, second]
    for _ in range(pick(rng, (1, 2))):
        parts.append(net.add(parts[-1], net.conv(net.conv(parts[-1], narrow, 3, act=RELU), narrow, 3, act=RELU)))
    return net.conv(net.cat(*parts), 2 * narrow, 1, act=RELU)


def _shuffle_unit(net: Layers, x: int, rng: Rng) -> int:
    depth = net.shape(x)[3]
    _must(depth % 4 == 0)
    kept, y = net.split(x, 2)
    y = net.conv(net.dw(net.conv(y, depth // 2, 1, act=RELU), 3), depth // 2, 1, act=RELU)
    return shuffled(net, net.cat(kept, y))


def _wide_window(net: Layers, x: int, rng: Rng) -> int:
    """A depthwise kernel of many positions, a norm's factors, a wide layer and a narrow one."""
    depth, y = net.shape(x)[3], net.dw(x, pick(rng, (5, 7, 9)))
    y = _affine(net, y, rng) if rng.random() < 0.5 else y
    y = net.conv(y, min(4 * depth, 256), 1)
    return net.add(x, net.conv(net.table("GELU", y) if net.dtype is DType.INT8 else y, depth, 1))


def _mixer(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    rows = rows_of(net, x)
    _, positions, depth = net.shape(rows)
    _must(positions <= 256)
    y = net.transpose(net.dense(net.dense(net.transpose(rows, 0, 2, 1), 32, RELU), positions), 0, 2, 1)
    y = net.add(rows, y)
    return net.reshape(net.add(y, net.dense(net.dense(y, 2 * depth, RELU), depth)), *net.shape(x))


def _windows(net: Layers, x: int, rng: Rng) -> int:
    """Attention within windows of 4x4 or rows."""
    only(net, DType.INT8)
    _, height, width, depth = net.shape(x)
    _must(height % 4 == 0 and width % 4 == 0 and depth % 8 == 0 and height * width <= 1024)
    y = net.transpose(net.reshape(x, height // 4, 4, width // 4, 4 * depth), 0, 2, 1, 3)
    y = net.attention(net.reshape(y, height * width // 16, 16, depth), pick(rng, (1, 2)))
    y = net.transpose(net.reshape(y, height // 4, width // 4, 4, 4 * depth), 0, 2, 1, 3)
    return net.add(x, net.reshape(y, *net.shape(x)))


def _boxes(net: Layers, x: int, rng: Rng) -> int:
    """Boxes and classes of two levels, joined."""
    low, classes = net.block(x, net.shape(x)[3], stride=2), pick(rng, (1, 3, 10, 80))
    boxes, scores = [], []
    for level in (x, low):
        _, height, width, _ = net.shape(level)
        boxes.append(net.reshape(net.conv(level, 8, 3), 1, height * width * 2, 4))
        scores.append(net.reshape(net.conv(level, 2 * classes, 1), 1, height * width * 2, classes))
    joined = net.cat(*scores, axis=1)
    score = net.softmax(joined) if rng.random() < 0.3 and classes > 1 else net.table("LOGISTIC", joined)
    net.b.output(net.cat(*boxes, axis=1))
    return as_map(net, score)


def _classes(net: Layers, x: int, rng: Rng) -> int:
    count = pick(rng, (2, 10, 35, 100))
    elements = math.prod(net.shape(x))
    flat = net.reshape(x, 1, elements) if rng.random() < 0.5 and elements < 6000 else net.gap(x)
    return as_map(net, net.softmax(net.dense(flat, count)))


# -- sequences


def _recurrent(net: Layers, x: int, rng: Rng) -> int:
    """Steps of a gated unit, unrolled; its weights are the same in every step."""
    only(net, DType.INT8)
    _, height, width, depth = net.shape(x)
    _must(2 <= height <= 12 and width * depth <= 2000)
    units = pick(rng, (16, 32, 64))
    wide, state = net.dense(net.reshape(x, height, width * depth), 2 * units), net.input(units)
    constants, kept = net.weights(state, (2 * units, units), 0), net.steps(state)
    for step in net.split(wide, height, axis=0):
        own = net.make("FULLY_CONNECTED", [state, *constants], (1, 2 * units), at.FullyConnectedOptions(), **net.signed(NONE))
        gate, fresh = net.split(net.add(step, own), 2, axis=1)
        gate, fresh = net.table("LOGISTIC", gate), net.table("TANH", fresh)
        terms = [net.mul(gate, fresh), net.mul(gate, state)]
        state = net.make("ADD", terms, net.shape(state), at.AddOptions(), **kept)
    return as_map(net, state)


def _lstm(net: Layers, x: int, rng: Rng) -> int:
    only(net, DType.INT8)
    _, height, width, depth = net.shape(x)
    _must(2 <= height <= 16 and width * depth <= 1000)
    return as_map(net, net.lstm(net.reshape(x, 1, height, width * depth), pick(rng, (8, 16, 32, 64))))


def _streamed(net: Layers, x: int, rng: Rng) -> int:
    """Rows that were seen before stand in front of the new ones; the newest rows are kept for the next step."""
    _, height, width, depth = net.shape(x)
    rows = pick(rng, (2, 4, 8))
    before = net.b.input((1, rows, width, depth), net.dtype, **net.steps(x))
    all_rows = net.cat(before, x, axis=1)
    net.b.output(net.slice(all_rows, [0, height, 0, 0], [1, height + rows, width, depth]))
    return net.conv(all_rows, pick(rng, (8, 16, 32)), (min(rows + 1, 5), 1), act=RELU, same=False)


BLOCKS: dict[str, Maker] = {
    "grouped CONV_2D": _grouped, "batches": _batched, "sequence": _in_time, "kernels of one axis": _one_axis, "stem": _stem,
    "PACK": _packed, "UNPACK": _unpacked, "SPLIT_V": _split_unevenly, "SLICE": _sliced, "focus": _focus, "TILE": _tiled,
    "GATHER": _gathered, "SUM": _sum, "MAXIMUM and MINIMUM": _clipped, "MUL and ADD": _affine, "swish": _swish,
    "gated halves": _gated, "hard gate": _hard_gate, "statistics": _statistics, "second input": _second_input,
    "ARG_MAX": _arg_max, "pyramid of pools": _pyramid, "lateral": _lateral, "hourglass": _hourglass,
    "dilated branches": _dilated_branches, "channels and positions": _looked_at, "inception": _inception, "ghost": _ghost,
    "cross stage partial": _partial, "shuffle unit": _shuffle_unit, "wide window": _wide_window, "mixer": _mixer,
    "window attention": _windows, "boxes": _boxes, "classes": _classes, "recurrent": _recurrent, "LSTM": _lstm,
    "streamed": _streamed,
}  # fmt: skip
