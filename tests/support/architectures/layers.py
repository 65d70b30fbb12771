"""Networks layer by layer, as a training framework converts them: seeded weights, scales per channel, NHWC maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

NONE, RELU, RELU6 = FusedActivation.NONE, FusedActivation.RELU, FusedActivation.RELU6
Pair = int | tuple[int, int]
_ZEROS = {DType.INT8: -128, DType.UINT8: 0, DType.INT16: 0}
"""The zero point of a map that is never negative."""
_TABLES = {DType.INT8: (1 / 256, -128), DType.UINT8: (1 / 256, 0), DType.INT16: (1 / 32768, 0)}
"""Scale and zero point that LiteRT wants of LOGISTIC and SOFTMAX."""


class Layers:
    """A network under construction. Every method takes and returns tensors by index; shapes follow from the operators.

    >>> net = Layers(seed=1)
    >>> x = net.input(32, 32, 3)
    >>> net.finish(net.dense(net.gap(net.conv(x, 16, stride=2, act=RELU6)), 10))
    """

    def __init__(self, seed: int, dtype: DType = DType.INT8) -> None:
        self.rng, self.b, self.dtype = np.random.default_rng([seed, 4711]), ModelBuilder(), dtype

    def input(self, *shape: int, dtype: DType | None = None) -> int:
        """An input of one image, sequence or vector."""
        return self.b.input((1, *shape), dtype or self.dtype, scale=0.02, zero_point=0 if self.dtype is DType.INT16 else 2)

    def finish(self, *outputs: int) -> bytes:
        self.b.output(*outputs)
        return self.b.build()

    def shape(self, x: int) -> tuple[int, ...]:
        return self.b.tensors[x].shape

    def scale(self, x: int) -> float:
        return self.steps(x)["scale"]

    def steps(self, x: int) -> dict[str, Any]:
        """Scale and zero point of a tensor."""
        found = self.b.tensors[x].quantization
        assert found is not None
        return {"scale": float(found.scales[0]), "zero_point": int(found.zero_points[0])}

    def make(self, kind: str, inputs: Sequence[int], shape: Sequence[int], options: Any = None, **quantization: Any) -> int:
        """An operator; its output has the scale of a map that is never negative, or that which is given."""
        given = {"scale": 0.024, "zero_point": _ZEROS[self.dtype]} | quantization
        return self.b.op(kind, list(inputs), shape, self.dtype, attributes=options, **given)

    def like(self, kind: str, x: int, shape: Sequence[int] | None = None, options: Any = None, more: Sequence[int] = ()) -> int:
        """An operator whose output has the scale of its input."""
        return self.make(kind, [x, *more], shape or self.shape(x), options, **self.steps(x))

    def signed(self, act: FusedActivation) -> dict[str, Any]:
        """Scale and zero point of a map after an activation."""
        zero = _ZEROS[self.dtype] if act in (RELU, RELU6) else {DType.UINT8: 121, DType.INT16: 0}.get(self.dtype, -7)
        return {"scale": 6 / 255 if act is RELU6 else 0.031, "zero_point": zero}

    def ints(self, *values: int) -> int:
        return self.b.constant(np.array(values, np.int32))

    def weights(self, x: int, shape: tuple[int, ...], axis: int) -> list[int]:
        """Weights and biases of a map, which keep its spread; one scale per channel, uint8 one for all."""
        count, spread = shape[axis], float(self.rng.choice((12.0, 22.0, 34.0)))
        values = np.clip(np.round(self.rng.normal(0, spread, shape)), -127, 127)
        gain = 1.5 / (spread * math.sqrt(values.size / count))
        scales = gain * self.rng.uniform(0.8, 1.2, 1 if self.dtype is DType.UINT8 else count).astype(np.float32)
        bias_type = np.int64 if self.dtype is DType.INT16 else np.int32
        bias = self.rng.normal(0, 0.2, count) / (scales * self.scale(x))
        stored = (values + 128).astype(np.uint8) if self.dtype is DType.UINT8 else values.astype(np.int8)
        zero = 128 if self.dtype is DType.UINT8 else 0
        zeros = [0] * len(scales)
        return [
            self.b.constant(stored, scale=scales.tolist(), zero_point=[zero] * len(scales), axis=axis),
            self.b.constant(bias.astype(bias_type), scale=(scales * np.float32(self.scale(x))).tolist(), zero_point=zeros),
        ]

    # -- operators with weights

    def conv(
        self,
        x: int,
        depth: int,
        k: Pair = 3,
        *,
        stride: Pair = 1,
        dilation: Pair = 1,
        act: FusedActivation = NONE,
        same: bool = True,
    ) -> int:
        kernel, strides, dilations = _pair(k), _pair(stride), _pair(dilation)
        options = at.Conv2DOptions(_padding(same), strides[1], strides[0], act, dilations[1], dilations[0])
        constants = self.weights(x, (depth, *kernel, self.shape(x)[3]), 0)
        shape = (*self._window(x, kernel, strides, dilations, same), depth)
        return self.make("CONV_2D", [x, *constants], shape, options, **self.signed(act))

    def dw(
        self,
        x: int,
        k: Pair = 3,
        *,
        stride: Pair = 1,
        dilation: Pair = 1,
        act: FusedActivation = NONE,
        same: bool = True,
        times: int = 1,
    ) -> int:
        kernel, strides, dilations = _pair(k), _pair(stride), _pair(dilation)
        options = at.DepthwiseConv2DOptions(_padding(same), strides[1], strides[0], times, act, dilations[1], dilations[0])
        depth = self.shape(x)[3] * times
        constants = self.weights(x, (1, *kernel, depth), 3)
        shape = (*self._window(x, kernel, strides, dilations, same), depth)
        return self.make("DEPTHWISE_CONV_2D", [x, *constants], shape, options, **self.signed(act))

    def tconv(self, x: int, depth: int, k: Pair = 3, stride: Pair = 2, *, same: bool = True) -> int:
        kernel, strides = _pair(k), _pair(stride)
        _, height, width, inputs = self.shape(x)
        grown = [
            size * step if same else (size - 1) * step + extent
            for size, step, extent in zip((height, width), strides, kernel, strict=True)
        ]
        shape = (1, *grown, depth)
        weights, bias = self.weights(x, (depth, *kernel, inputs), 0)
        options = at.TransposeConvOptions(_padding(same), strides[1], strides[0])
        return self.make("TRANSPOSE_CONV", [self.ints(*shape), weights, x, bias], shape, options, **self.signed(NONE))

    def dense(self, x: int, depth: int, act: FusedActivation = NONE) -> int:
        """FULLY_CONNECTED over the last dimension."""
        shape = self.shape(x)
        options = at.FullyConnectedOptions(act, keep_num_dims=len(shape) > 2)
        return self.make(
            "FULLY_CONNECTED", [x, *self.weights(x, (depth, shape[-1]), 0)], (*shape[:-1], depth), options, **self.signed(act)
        )

    def block(self, x: int, depth: int, k: Pair = 3, *, stride: Pair = 1, act: FusedActivation = RELU6) -> int:
        """Depthwise and pointwise."""
        return self.conv(self.dw(x, k, stride=stride, act=act), depth, 1, act=act)

    def matrix(self, rows: int, columns: int) -> int:
        """Weights with one scale, as operators with a state have them."""
        values = np.clip(np.round(self.rng.normal(0, 34, (rows, columns))), -127, 127)
        return self.b.constant(values.astype(np.int8), scale=1 / (34 * math.sqrt(columns)), zero_point=0)

    def lstm(self, x: int, units: int, *, time_major: bool = False) -> int:
        """UNIDIRECTIONAL_SEQUENCE_LSTM with state in int8 and cells in int16."""
        features = self.shape(x)[2]
        gates = [self.matrix(units, size) for size in (features,) * 4 + (units,) * 4]
        biases: list[int | None] = []
        for gate, weights in enumerate(gates[:4]):
            found = self.scale(x) * self.scale(weights)
            values = self.rng.normal(gate == 1, 0.2, units) / found  # the forget gate starts open
            biases.append(self.b.constant(values.astype(np.int32), scale=found, zero_point=0))
        state = self.b.variable((1, units), DType.INT8, scale=1 / 128)
        cell = self.b.variable((1, units), DType.INT16, scale=2.0**-11)
        made = self.b.tensor((*self.shape(x)[:2], units), DType.INT8, scale=1 / 128)
        between = [self.b.tensor((1,), DType.INT16, scale=2.0**-12) for _ in range(4)]
        between.append(self.b.tensor((1,), DType.INT8, scale=1 / 128))
        options = at.UnidirectionalSequenceLSTMOptions(FusedActivation.TANH, 10.0, 0.0, time_major)
        inputs = [x, *gates, None, None, None, *biases, None, None, state, cell, None, None, None, None]
        self.b.multi_op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [made], attributes=options, intermediates=between)
        return made

    # -- maps

    def pool(self, x: int, kind: str = "MAX", k: Pair = 2, stride: Pair | None = None, *, same: bool = False) -> int:
        kernel, strides = _pair(k), _pair(stride or k)
        options = at.Pool2DOptions(_padding(same), strides[1], strides[0], kernel[1], kernel[0], NONE)
        shape = (*self._window(x, kernel, strides, (1, 1), same), self.shape(x)[3])
        return self.like(f"{kind}_POOL_2D", x, shape, options)

    def gap(self, x: int, *, keep: bool = False) -> int:
        """MEAN over height and width."""
        return self.mean(x, (1, 2), keep=keep)

    def mean(self, x: int, axes: Sequence[int], *, keep: bool = True, scale: float | None = None) -> int:
        """MEAN with the scale of its input, or one that is given; it has a sign where its input has one."""
        shape = self.shape(x)
        kept = [1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes]
        steps = self.steps(x) | ({"scale": scale} if scale else {})
        return self.make("MEAN", [x, self.ints(*axes)], kept, at.ReducerOptions(keep_dims=keep), **steps)

    def resize(self, x: int, height: int, width: int, *, nearest: bool = False, half: bool = False, align: bool = False) -> int:
        if nearest:
            kind, options = "RESIZE_NEAREST_NEIGHBOR", at.ResizeNearestNeighborOptions(align, half)
        else:
            kind, options = "RESIZE_BILINEAR", at.ResizeBilinearOptions(align, half)
        return self.like(kind, x, (1, height, width, self.shape(x)[3]), options, [self.ints(height, width)])

    def up(self, x: int, times: int = 2, *, nearest: bool = False, half: bool = False) -> int:
        _, height, width, _ = self.shape(x)
        return self.resize(x, height * times, width * times, nearest=nearest, half=half)

    def pad(self, x: int, *amounts: tuple[int, int], mirror: bool = False) -> int:
        table = self.b.constant(np.array(amounts, np.int32))
        shape = [size + sum(amount) for size, amount in zip(self.shape(x), amounts, strict=True)]
        kind, options = ("MIRROR_PAD", at.MirrorPadOptions(at.MirrorPadMode.REFLECT)) if mirror else ("PAD", at.PadOptions())
        return self.like(kind, x, shape, options, [table])

    def cat(self, *inputs: int, axis: int = 3) -> int:
        """Joined maps; those of other scales than the first one are requantized, as converters do."""
        shape, steps = list(self.shape(inputs[0])), self.steps(inputs[0])
        shape[axis] = sum(self.shape(x)[axis] for x in inputs)
        same = [x if self.steps(x) == steps else self.make("QUANTIZE", [x], self.shape(x), **steps) for x in inputs]
        return self.make("CONCATENATION", same, shape, at.ConcatenationOptions(axis), **steps)

    def split(self, x: int, parts: int, axis: int = 3) -> list[int]:
        shape = list(self.shape(x))
        shape[axis] //= parts
        made = [self.b.tensor(shape, self.dtype, **self.steps(x)) for _ in range(parts)]
        self.b.multi_op("SPLIT", [self.ints(axis), x], made, attributes=at.SplitOptions(parts))
        return made

    def slice(self, x: int, begin: Sequence[int], end: Sequence[int], steps: Sequence[int] | None = None) -> int:
        steps = steps or [1] * len(begin)
        shape = [-(-(stop - start) // step) for start, stop, step in zip(begin, end, steps, strict=True)]
        constants = [self.ints(*begin), self.ints(*end), self.ints(*steps)]
        return self.like("STRIDED_SLICE", x, shape, at.StridedSliceOptions(), constants)

    def reshape(self, x: int, *shape: int) -> int:
        return self.like("RESHAPE", x, shape, at.ReshapeOptions(shape), [self.ints(*shape)])

    def transpose(self, x: int, *order: int) -> int:
        shape = [self.shape(x)[axis] for axis in order]
        return self.like("TRANSPOSE", x, shape, at.TransposeOptions(), [self.ints(*order)])

    def depth_to_space(self, x: int, size: int) -> int:
        _, height, width, depth = self.shape(x)
        return self.like("DEPTH_TO_SPACE", x, (1, height * size, width * size, depth // size**2), at.DepthToSpaceOptions(size))

    def space_to_depth(self, x: int, size: int) -> int:
        _, height, width, depth = self.shape(x)
        return self.like("SPACE_TO_DEPTH", x, (1, height // size, width // size, depth * size**2), at.SpaceToDepthOptions(size))

    # -- elementwise

    def add(self, x: int, y: int, act: FusedActivation = NONE) -> int:
        return self._binary("ADD", x, y, at.AddOptions(act), act)

    def sub(self, x: int, y: int) -> int:
        return self._binary("SUB", x, y, at.SubOptions(NONE), NONE)

    def mul(self, x: int, y: int) -> int:
        return self._binary("MUL", x, y, at.MulOptions(NONE), NONE)

    def maximum(self, x: int, y: int) -> int:
        return self.like("MAXIMUM", x, None, at.MaximumMinimumOptions(), [y])

    def const(self, *shape: int) -> int:
        """A constant map, as the weights of a norm are."""
        values = self.rng.integers(0 if self.dtype is DType.UINT8 else -100, 100, shape)
        return self.b.constant(values.astype(self.dtype.numpy), scale=0.01, zero_point=0)

    def table(self, kind: str, x: int) -> int:
        """LOGISTIC, TANH, HARD_SWISH, RSQRT, GELU, LEAKY_RELU: an operator that is a table."""
        options = {
            "HARD_SWISH": at.HardSwishOptions,
            "GELU": at.GeluOptions,
            "LEAKY_RELU": lambda: at.LeakyReluOptions(0.1),
        }.get(kind)
        fixed: dict[str, Any] = self.signed(NONE)
        if kind == "LOGISTIC":
            fixed = dict(zip(("scale", "zero_point"), _TABLES[self.dtype], strict=True))
        elif kind == "TANH":
            fixed = {
                DType.UINT8: {"scale": 1 / 128, "zero_point": 128},
                DType.INT16: {"scale": 1 / 32768, "zero_point": 0},
            }.get(self.dtype, {"scale": 1 / 128, "zero_point": 0})
        return self.make(kind, [x], self.shape(x), options() if options else None, **fixed)

    def softmax(self, x: int) -> int:
        scale, zero = _TABLES[self.dtype]
        return self.make("SOFTMAX", [x], self.shape(x), at.SoftmaxOptions(1.0), scale=scale, zero_point=zero)

    def prelu(self, x: int) -> int:
        alpha = self.b.constant(self.rng.integers(0, 60, (1, 1, self.shape(x)[3])).astype(np.int8), scale=0.005, zero_point=0)
        return self.make("PRELU", [x, alpha], self.shape(x), **self.signed(NONE))

    def matmul(self, x: int, y: int, *, transposed: bool = False) -> int:
        rows, columns = self.shape(x)[-2], self.shape(y)[-2 if transposed else -1]
        shape = (*self.shape(x)[:-2], rows, columns)
        return self.make("BATCH_MATMUL", [x, y], shape, at.BatchMatMulOptions(False, transposed), **self.signed(NONE))

    # -- blocks that many architectures have

    def excite(self, x: int, part: int = 4, *, hard: bool = False) -> int:
        """Squeeze and excite."""
        depth = self.shape(x)[3]
        gate = self.conv(
            self.conv(self.gap(x, keep=True), max(depth // part, 8), 1, act=RELU), depth, 1, act=RELU6 if hard else NONE
        )
        return self.mul(x, gate if hard else self.table("LOGISTIC", gate))

    def norm(self, x: int) -> int:
        """A layer norm as a converter writes it."""
        last = len(self.shape(x)) - 1
        centred = self.sub(x, self.mean(x, (last,)))
        square = self.make("SQUARED_DIFFERENCE", [x, self.mean(x, (last,))], self.shape(x), at.SquaredDifferenceOptions())
        inverse = self.make("RSQRT", [self.mean(square, (last,))], (*self.shape(x)[:-1], 1), None)
        return self.add(self.mul(self.mul(centred, inverse), self.const(self.shape(x)[-1])), self.const(self.shape(x)[-1]))

    def attention(self, x: int, heads: int) -> int:
        """Self attention over (batches, positions, depth)."""
        batches, positions, depth = self.shape(x)
        size = depth // heads
        query, key, value = (
            self.transpose(self.reshape(self.dense(x, depth), batches, positions, heads, size), 0, 2, 1, 3) for _ in range(3)
        )
        mixed = self.matmul(self.softmax(self.matmul(query, key, transposed=True)), value)
        return self.dense(self.reshape(self.transpose(mixed, 0, 2, 1, 3), batches, positions, depth), depth)

    def _binary(self, kind: str, x: int, y: int, options: Any, act: FusedActivation) -> int:
        return self.make(kind, [x, y], np.broadcast_shapes(self.shape(x), self.shape(y)), options, **self.signed(act))

    def _window(
        self, x: int, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], same: bool
    ) -> tuple[int, ...]:
        sizes = self.shape(x)[1:3]
        lost = [0 if same else (extent - 1) * far for extent, far in zip(kernel, dilations, strict=True)]
        windows = (-(-(size - less) // step) for size, less, step in zip(sizes, lost, strides, strict=True))
        return self.shape(x)[0], *windows


def _pair(value: Pair) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _padding(same: bool) -> Padding:
    return Padding.SAME if same else Padding.VALID
