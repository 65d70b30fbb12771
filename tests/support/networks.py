"""Seeded convolutional networks whose maps and weights are so large that memory decides: stripes, copies, slices, places."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu.graph.attributes import (
    AddOptions,
    ConcatenationOptions,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    FullyConnectedOptions,
    FusedActivation,
    Padding,
    Pool2DOptions,
)
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

I8 = DType.INT8
_KERNELS = ((1, 1), (1, 1), (3, 3), (3, 3), (1, 5), (5, 3))
_RELU6 = FusedActivation.RELU6


class _Network:
    """A network under construction, whose newest map is `x`."""

    def __init__(self, seed: int, *, scarce: bool) -> None:
        self.rng, self.b = np.random.default_rng([seed, 77]), ModelBuilder()
        extents, depths = ((7, 12, 20), (64, 96, 160)) if scarce else ((24, 33, 48), (3, 8, 16))
        self.depths = (128, 200, 256) if scarce else (8, 16, 24, 40)
        self.x = self.b.input((1, self.pick(extents), self.pick(extents), self.pick(depths)), I8, scale=0.05, zero_point=-3)

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.b.tensors[self.x].shape

    def made(self, kind: str, inputs: list[int], shape: tuple[int, ...], attributes: Any) -> int:
        return self.b.op(kind, inputs, shape, I8, 0.05, -3, attributes=attributes)

    def constants(self, shape: tuple[int, ...], count: int, axis: int) -> list[int]:
        """Weights with about as many zeros as trained ones have, and biases."""
        weights = np.clip(np.round(self.rng.normal(0, self.pick((4, 20, 45)), shape)), -127, 127).astype(np.int8)
        scales = [0.004 + 0.001 * (i % 3) for i in range(count)]
        bias = self.rng.integers(-900, 900, count).astype(np.int32)
        return [
            self.b.constant(weights, scale=scales, zero_point=[0] * count, axis=axis),
            self.b.constant(bias, scale=[scale * 0.05 for scale in scales], zero_point=[0] * count),
        ]

    def windowed(self, kernel: tuple[int, int], stride: int, padding: Padding, depth: int) -> tuple[int, ...]:
        lost = (0, 0) if padding is Padding.SAME else (kernel[0] - 1, kernel[1] - 1)
        return 1, *(-(-(self.shape[1 + axis] - lost[axis]) // stride) for axis in range(2)), depth

    def window(self) -> tuple[tuple[int, int], int, Padding]:
        """Kernel, stride and padding that the newest map has room for."""
        kernel, stride, padding = self.pick(_KERNELS), self.pick((1, 1, 2)), self.pick((Padding.SAME, Padding.VALID))
        return (kernel, stride, padding) if min(self.shape[1:3]) > 8 else ((1, 1), 1, Padding.SAME)

    def convolution(self) -> None:
        kernel, stride, padding = self.window()
        depth = self.pick(self.depths)
        options = Conv2DOptions(padding, stride, stride, self.pick((FusedActivation.NONE, _RELU6)))
        inputs = [self.x, *self.constants((depth, *kernel, self.shape[3]), depth, 0)]
        self.x = self.made("CONV_2D", inputs, self.windowed(kernel, stride, padding, depth), options)

    def depthwise(self) -> None:
        kernel, stride, padding = self.window()
        depth = self.shape[3]
        options = DepthwiseConv2DOptions(padding, stride, stride, 1, _RELU6)
        inputs = [self.x, *self.constants((1, *kernel, depth), depth, 3)]
        self.x = self.made("DEPTHWISE_CONV_2D", inputs, self.windowed(kernel, stride, padding, depth), options)

    def pool(self) -> None:
        kernel, stride, padding = self.window()
        kind = self.pick(("MAX_POOL_2D", "AVERAGE_POOL_2D"))
        options = Pool2DOptions(padding, stride, stride, kernel[1], kernel[0])
        self.x = self.made(kind, [self.x], self.windowed(kernel, stride, padding, self.shape[3]), options)

    def residual(self) -> None:
        """The map, expanded and projected again, and itself: a map that stays for long."""
        first, shape = self.x, self.shape
        for depth in (shape[3] * 3, shape[3]):
            inputs = [self.x, *self.constants((depth, 1, 1, self.shape[3]), depth, 0)]
            options = Conv2DOptions(Padding.SAME, 1, 1, _RELU6 if depth > shape[3] else FusedActivation.NONE)
            self.x = self.made("CONV_2D", inputs, (*shape[:3], depth), options)
        self.x = self.made("ADD", [first, self.x], shape, AddOptions())

    def branches(self) -> None:
        """Two convolutions of one map, side by side."""
        first, ends = self.x, []
        for depth in (8, 16):
            inputs = [first, *self.constants((depth, 3, 3, self.b.tensors[first].shape[3]), depth, 0)]
            ends.append(self.made("CONV_2D", inputs, (*self.shape[:3], depth), Conv2DOptions(Padding.SAME, 1, 1, _RELU6)))
        self.x = self.made("CONCATENATION", ends, (*self.shape[:3], 24), ConcatenationOptions(3))

    def dense(self) -> None:
        if self.shape[1] * self.shape[2] * self.shape[3] > 4000:
            shape = (1, 1, 1, self.shape[3])
            options = Pool2DOptions(Padding.VALID, 1, 1, self.shape[2], self.shape[1])
            self.x = self.made("AVERAGE_POOL_2D", [self.x], shape, options)
        inputs = int(np.prod(self.shape))
        given = [self.x, *self.constants((30, inputs), 30, 0)]
        self.x = self.made("FULLY_CONNECTED", given, (1, 30), FullyConnectedOptions())


def network(seed: int, *, scarce: bool) -> bytes:
    """Three to seven layers: large maps of few channels, or `scarce`, small maps of many, whose weights are what is large."""
    made = _Network(seed, scarce=scarce)
    layers = (made.convolution, made.convolution, made.depthwise, made.pool, made.residual, made.branches)
    for _ in range(int(made.rng.integers(3, 8 if not scarce else 5))):
        made.pick(layers)()
        if made.rng.random() < 0.1:
            made.b.output(made.x)
    if made.rng.random() < 0.5:
        made.dense()
    made.b.output(*[made.x] if made.x not in made.b.outputs else [])
    return made.b.build()
