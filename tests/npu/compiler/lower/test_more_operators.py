"""Operators, and forms of one, beyond the NPU table of version 0.1, on random graphs, against LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Op

from tests.support.builder import ModelBuilder
from tests.support.litert import random_array
from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch, enlarged, random_inputs, resize_bilinear

Maker = Callable[[Sketch], list[int]]


def emit(s: Sketch, kind: str, inputs: list[int], outputs: list[int], options: Attributes | None, version: int) -> list[int]:
    s.ops.append(Op(kind, tuple(inputs), tuple(outputs), options, version))
    return outputs


def nearby_scale(s: Sketch, ifm: int, low: float, high: float) -> float:
    return float(np.float32(s.scale_of(ifm) * 2.0 ** s.rng.uniform(low, high)))


def point(kind: str, version: int, options: Callable[[Sketch], Attributes | None], low: float = -3, high: float = 4) -> Maker:
    """An operator on every value alone, with a random output quantization."""

    def make(s: Sketch) -> list[int]:
        x = s.input(s.any_shape(4000))
        same = s.chance(0.2)
        y = s.tensor(s.shape(x), s.scale_of(x) if same else nearby_scale(s, x, low, high))
        return emit(s, kind, [x], [y], options(s), version)

    return make


def binary(kind: str) -> Maker:
    def make(s: Sketch) -> list[int]:
        shape = s.any_shape(3000)
        a, b = s.input(shape, 0.1, 3), s.input(tuple(1 if s.chance(0.4) else n for n in shape), 0.1, 3)
        return emit(s, kind, s.pick(([a, b], [b, a])), [s.tensor(shape, 0.1, 3)], at.MaximumMinimumOptions(), 2)

    return make


def mean(s: Sketch) -> list[int]:
    """Of rank 4 or 5; axes are counted from the last but for some."""
    shape = (*s.pick(((1,), (1,), (2,), (1, 2), (2, 3))), *s.map_shape(2000)[1:])
    x = s.input(shape)
    axes, keep = s.pick(([-3, -2], [-2, -3], [-2], [1], [-1], [len(shape) - 1])), s.chance(0.5)
    gone = {axis % len(shape) for axis in axes}
    out = tuple(1 if i in gone else n for i, n in enumerate(shape) if keep or i not in gone)
    y = s.tensor(out, nearby_scale(s, x, -3, 1))
    return emit(s, "MEAN", [x, s.numbers(axes)], [y], at.ReducerOptions(keep), 2)


def transpose_conv(s: Sketch) -> list[int]:
    shape = s.map_shape(800)
    x = s.input(shape)
    stride, padding, depth = s.pick((1, 2)), s.pick((Padding.SAME, Padding.VALID)), s.pick((1, 3, 8, 17))
    kernel = (s.pick((1, 2, 3, 4, 5)), s.pick((1, 2, 3, 4, 5)))
    valid = [(n - 1) * stride + max(k, stride) for n, k in zip(shape[1:3], kernel, strict=True)]
    out = (1, *([n * stride for n in shape[1:3]] if padding is Padding.SAME else valid), depth)
    w = s.weights((depth, *kernel, shape[3]), 0, per_channel=s.chance(0.6))
    inputs = [s.numbers(out), w, x] + ([s.bias(x, w, depth, 5000)] if s.chance(0.7) else [])
    reach = 2.0**-6 * s.scale_of(x) * 5500 * (shape[3] * kernel[0] * kernel[1]) ** 0.5 / 60
    options = at.TransposeConvOptions(padding, stride, stride, FusedActivation.NONE)
    return emit(s, "TRANSPOSE_CONV", inputs, [s.tensor(out, float(np.float32(reach)))], options, 3)


def nearest(s: Sketch) -> list[int]:
    shape = s.map_shape(1500)
    x = s.input(shape, 0.1, 3)
    size = s.pick((enlarged(s, *shape[1:3], s.pick((2, 2, 4, 8))), shape[1:3]))
    y = s.tensor((1, *size, shape[3]), 0.1, 3)
    options = at.ResizeNearestNeighborOptions(False, s.chance(0.5))
    return emit(s, "RESIZE_NEAREST_NEIGHBOR", [x, s.numbers(size)], [y], options, 3)


def _axis(s: Sketch) -> tuple[tuple[int, ...], int]:
    shape = s.any_shape(2500)
    return shape, int(s.rng.integers(len(shape)))


def _with(shape: tuple[int, ...], axis: int, *extents: int) -> tuple[int, ...]:
    return (*shape[:axis], *extents, *shape[axis + 1 :])


def split(s: Sketch) -> list[int]:
    shape, axis = _axis(s)
    count = s.pick((1, 2, 3))
    x = s.input(_with(shape, axis, shape[axis] * count), 0.1, 3)
    outputs = [s.tensor(shape, 0.1, 3) for _ in range(count)]
    return emit(s, "SPLIT", [s.numbers(axis), x], outputs, at.SplitOptions(count), 2)


def split_v(s: Sketch) -> list[int]:
    shape, axis = _axis(s)
    sizes = [int(v) for v in s.rng.integers(1, 6, s.pick((1, 2, 3)))]
    x = s.input(_with(shape, axis, sum(sizes)), 0.1, 3)
    outputs = [s.tensor(_with(shape, axis, n), 0.1, 3) for n in sizes]
    return emit(s, "SPLIT_V", [x, s.numbers(sizes), s.numbers(axis)], outputs, at.SplitVOptions(len(sizes)), 2)


def unpack(s: Sketch) -> list[int]:
    shape, axis = _axis(s)
    count = s.pick((1, 2, 3))
    x = s.input(_with(shape, axis, count), 0.1, 3)
    outputs = [s.tensor(_with(shape, axis), 0.1, 3) for _ in range(count)]
    return emit(s, "UNPACK", [x], outputs, at.UnpackOptions(count, s.pick((axis, axis - len(shape)))), 2)


def slice_(s: Sketch) -> list[int]:
    shape = s.any_shape(3000)
    begin = [int(s.rng.integers(n)) for n in shape]
    size = [s.pick((-1, int(s.rng.integers(1, n - b + 1)))) for n, b in zip(shape, begin, strict=True)]
    out = tuple(n - b if z == -1 else z for n, b, z in zip(shape, begin, size, strict=True))
    x = s.input(shape, 0.1, 3)
    return emit(s, "SLICE", [x, s.numbers(begin), s.numbers(size)], [s.tensor(out, 0.1, 3)], at.SliceOptions(), 2)


def strided_slice(s: Sketch) -> list[int]:
    shape = s.any_shape(3000)
    begin = [int(s.rng.integers(n)) for n in shape]
    end = [int(s.rng.integers(b + 1, n + 1)) for n, b in zip(shape, begin, strict=True)]
    masks = [int(s.rng.integers(1 << len(shape))) for _ in range(3)]
    first = [0 if masks[0] >> i & 1 and not masks[2] >> i & 1 else b for i, b in enumerate(begin)]
    last = [n if masks[1] >> i & 1 else e for i, (n, e) in enumerate(zip(shape, end, strict=True))]
    masks[0] &= ~masks[2]
    out = tuple(b - a for i, (a, b) in enumerate(zip(first, last, strict=True)) if not masks[2] >> i & 1)
    negative = [e - n if s.chance(0.3) and e < n else e for e, n in zip(end, shape, strict=True)]
    x = s.input(shape, 0.1, 3)
    inputs = [x, s.numbers(begin), s.numbers(negative), s.numbers([1] * len(shape))]
    options = at.StridedSliceOptions(masks[0], masks[1], 0, 0, masks[2])
    return emit(s, "STRIDED_SLICE", inputs, [s.tensor(out, 0.1, 3)], options, 2)


def indexed(s: Sketch) -> list[int]:
    """A STRIDED_SLICE with strides, removed and new axes and an ellipsis; its output's shape is what numpy makes of it."""
    shape = s.any_shape(3000)
    index: list[slice | int | None] = []
    for extent in shape:
        index += [None] if s.chance(0.2) else []
        first = int(s.rng.integers(extent))
        last = int(s.rng.integers(first + 1, extent + 1))
        index.append(first if s.chance(0.3) else slice(first, last, int(s.rng.integers(1, 4))))
    masks = {name: sum(1 << i for i, entry in enumerate(index) if isinstance(entry, kind)) for name, kind in
             (("new", type(None)), ("removed", int))}  # fmt: skip
    rows = [
        [entry.start, entry.stop, entry.step] if isinstance(entry, slice) else [entry or 0, (entry or 0) + 1, 1]
        for entry in index
    ]
    hidden = s.pick([i for i, entry in enumerate(index) if isinstance(entry, slice)] or [-1]) if s.chance(0.4) else -1
    index = [slice(None) if i == hidden else entry for i, entry in enumerate(index)]
    x, y = s.input(shape, 0.1, 3), s.tensor(np.empty(shape)[tuple(index)].shape, 0.1, 3)
    options = at.StridedSliceOptions(0, 0, 1 << hidden if hidden >= 0 else 0, masks["new"], masks["removed"])
    return emit(s, "STRIDED_SLICE", [x, *(s.numbers(list(column)) for column in zip(*rows, strict=True))], [y], options, 2)


def gather(s: Sketch) -> list[int]:
    """Indices in any order, evenly spaced ones, halves by turns, one; to another scale, too, as LiteRT only copies."""
    shape, axis = _axis(s)
    extent = shape[axis]
    indices = s.pick((
        s.rng.integers(extent, size=s.pick(((), (1,), (5,), (2, 3)))),
        np.arange(int(s.rng.integers(extent)), extent, int(s.rng.integers(1, 4))),
        np.arange(extent // 2 * 2).reshape(2, -1).T.reshape(-1) if extent > 1 else np.zeros(3, np.int32),
    ))  # fmt: skip
    x = s.input(shape, 0.1, 3)
    y = s.tensor(_with(shape, axis, *indices.shape), s.pick((0.1, 0.2)), 3)
    options = at.GatherOptions(s.pick((axis, axis - len(shape))))
    return emit(s, "GATHER", [x, s.numbers(indices)], [y], options, 1)


def squeeze(s: Sketch) -> list[int]:
    shape = (1, *s.any_shape(3000)[-3:])
    x = s.input(shape, 0.1, 3)
    return emit(s, "SQUEEZE", [x], [s.tensor(shape[1:], 0.1, 3)], at.SqueezeOptions((0,)), 1)


def expand(s: Sketch) -> list[int]:
    shape, axis = _axis(s)
    shape = shape[-3:]
    axis = min(axis, len(shape))
    x = s.input(shape, 0.1, 3)
    out = (*shape[:axis], 1, *shape[axis:])
    return emit(s, "EXPAND_DIMS", [x, s.numbers([axis])], [s.tensor(out, 0.1, 3)], at.ExpandDimsOptions(), 1)


def pad_v2(s: Sketch) -> list[int]:
    shape = (*s.pick(((), (), (1,), (3,))), *s.map_shape(1000))
    amounts = [[0, 0], *([s.pick((0, 1, 3)) for _ in range(2)] for _ in shape[1:])]
    x = s.input(shape, 0.1, 3)
    value = s.add((1,), 0.1, 3, random_array((1,), s.tensors[x].dtype, s.rng))
    out = tuple(n + sum(pair) for n, pair in zip(shape, amounts, strict=True))
    return emit(s, "PADV2", [x, s.numbers(amounts), value], [s.tensor(out, 0.1, 3)], at.PadV2Options(), 2)


def mirror_pad(s: Sketch) -> list[int]:
    """Along every axis of more than two elements, of any rank up to 5."""
    shape = tuple(int(n) for n in s.rng.integers(1, 6, s.pick((1, 2, 3, 4, 5))))
    amounts = [[s.pick((0, 1, 2)), s.pick((0, 1, 2))] if n > 2 else [0, 0] for n in shape]
    x = s.input(shape, 0.1, 3)
    y = s.tensor(tuple(n + sum(pair) for n, pair in zip(shape, amounts, strict=True)), 0.1, 3)
    return emit(s, "MIRROR_PAD", [x, s.numbers(amounts)], [y], at.MirrorPadOptions(s.pick(tuple(at.MirrorPadMode))), 2)


def transpose(s: Sketch) -> list[int]:
    shape = s.any_shape(3000) if s.chance(0.5) else tuple(int(n) for n in s.rng.integers(1, 6, s.pick((5, 6))))
    order = [int(axis) for axis in s.rng.permutation(len(shape))]
    x = s.input(shape, 0.1, 3)
    y = s.tensor(tuple(shape[axis] for axis in order), 0.1, 3)
    return emit(s, "TRANSPOSE", [x, s.numbers(order)], [y], at.TransposeOptions(), 4)


MAKERS: dict[str, Maker] = {
    "ABS": point("ABS", 2, lambda s: at.AbsOptions()),
    "EXPAND_DIMS": expand,
    "GATHER": gather,
    "HARD_SWISH": point("HARD_SWISH", 1, lambda s: at.HardSwishOptions(), low=-2),
    "LEAKY_RELU": point("LEAKY_RELU", 2, lambda s: at.LeakyReluOptions(float(np.float32(s.pick((0.1, 0.01, -0.5, 1.5)))))),
    "MAXIMUM": binary("MAXIMUM"),
    "MEAN": mean,
    "MINIMUM": binary("MINIMUM"),
    "MIRROR_PAD": mirror_pad,
    "PADV2": pad_v2,
    "QUANTIZE": point("QUANTIZE", 2, lambda s: at.QuantizeOptions()),
    "RESIZE_BILINEAR": lambda s: [resize_bilinear(s)],
    "RESIZE_NEAREST_NEIGHBOR": nearest,
    "SLICE": slice_,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SQUEEZE": squeeze,
    "STRIDED_SLICE": strided_slice,
    "STRIDED_SLICE of all kinds": indexed,
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV": transpose_conv,
    "UNPACK": unpack,
}


def check(kind: str, count: int, seed: int) -> None:
    for i in range(count):
        s = Sketch(np.random.default_rng([seed, i]))
        graph = s.graph(MAKERS[kind](s))
        assert_exact(graph, random_inputs(graph, i), f"{kind}-{seed}-{i}")


@pytest.mark.parametrize("kind", MAKERS)
def test_operators_beyond_the_table_equal_the_reference(kind: str) -> None:
    check(kind, 20, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_many_operators_beyond_the_table_equal_the_reference(kind: str) -> None:
    check(kind, 200, 1)


@pytest.mark.parametrize("follower", [None, "RELU", "ABS"])
def test_every_int16_number_is_negated_as_the_reference_does(follower: str | None) -> None:
    """The smallest is its own negative; what follows may be fused."""
    b, shape = ModelBuilder(), (1, 64, 64, 16)
    x = b.op("NEG", [b.input(shape, DType.INT16, scale=0.001)], shape, DType.INT16, 0.001)
    if follower is not None:
        x = b.op(follower, [x], shape, DType.INT16, 0.001)
    b.output(x)
    assert_exact(b.graph(), [np.arange(-32768, 32768).astype(np.int16).reshape(shape)])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("follower", [None, "LOGISTIC"])
def test_branches_of_prelu_are_added_in_the_type_of_the_result(dtype: DType, seed: int, follower: str | None) -> None:
    rng = np.random.default_rng(seed)
    lowest, highest = (-128, 127) if dtype is DType.INT8 else (0, 255)
    b = ModelBuilder()
    shape = (1, 3, 4, int(rng.integers(2, 20)))
    quantization = [(float(10 ** rng.uniform(-3, 0)), int(rng.integers(lowest, highest + 1))) for _ in range(3)]
    x = b.input(shape, dtype, scale=quantization[0][0], zero_point=quantization[0][1])
    values = rng.integers(lowest, highest + 1, (1, 1, shape[3])).astype(dtype.numpy)
    values[..., :2] = lowest, highest  # slopes of both signs or wide apart: no larger or smaller branch is the result
    slopes = b.constant(values, dtype, scale=quantization[1][0], zero_point=quantization[1][1])
    y = b.op("PRELU", [x, slopes], shape, dtype, *quantization[2])
    b.output(y if follower is None else b.op(follower, [y], shape, dtype, 1 / 256, lowest))
    graph = b.graph()
    assert_exact(graph, [random_array(shape, dtype, rng)])
    if follower is None:
        assert {step.ofm.element.bits for step in lowered(graph).steps} == {8}
