"""Interpreters with the XNNPACK-like delegate, and small networks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.options import XnnpackOptions, default_options

from tests.support.builder import ModelBuilder

F32, INT8 = DType.FLOAT32, DType.INT8


def options(**changes: Any) -> XnnpackOptions:
    return replace(default_options(), **changes)


def delegated(content: bytes, **changes: Any) -> tuple[CpuInterpreter, XnnpackDelegate]:
    """An interpreter with a new delegate; options differ from the defaults by `changes`."""
    delegate = XnnpackDelegate(options(**changes))
    return CpuInterpreter(model_content=content, experimental_delegates=[delegate]), delegate


def steps_apart(left: Array, right: Array) -> float:
    """Largest distance, in float32 steps at the magnitude of the largest value."""
    largest = np.abs(right).max(initial=np.float32(1e-30))
    return float(np.abs(left.astype(np.float64) - right).max(initial=0) / np.spacing(np.float32(largest)))


class Layers:
    """Adds layers with random constants, float32 or int8, to a model under construction."""

    def __init__(self, dtype: DType, shape: tuple[int, ...], seed: int = 0) -> None:
        self.builder = ModelBuilder()
        self.dtype = dtype
        self.generator = np.random.default_rng(seed)
        self.at = self.builder.input(shape, dtype, **self._quantized())
        self.shape = shape

    def _quantized(self) -> dict[str, Any]:
        return {"scale": 0.05, "zero_point": 3} if self.dtype is INT8 else {}

    def _weights(self, shape: tuple[int, ...], axis: int, share_of_zeros: float = 0.0) -> int:
        if self.dtype is F32:
            values = self.generator.standard_normal(shape) / np.sqrt(np.prod(shape) / shape[axis])
            values[self.generator.random(shape) < share_of_zeros] = 0
            return self.builder.constant(values.astype(np.float32))
        self._scales = self.generator.uniform(0.002, 0.01, shape[axis]).tolist()
        integers = self.generator.integers(-127, 128, shape).astype(np.int8)
        return self.builder.constant(integers, scale=self._scales, zero_point=[0] * shape[axis], axis=axis)

    def _bias(self, channels: int) -> int:
        if self.dtype is F32:
            return self.builder.constant(self.generator.standard_normal(channels).astype(np.float32))
        scales = [0.05 * scale for scale in self._scales]
        return self.builder.constant(
            self.generator.integers(-500, 500, channels).astype(np.int32), scale=scales, zero_point=[0] * channels
        )

    def _add(self, kind: str, inputs: list[int | None], shape: tuple[int, ...], attributes: at.Attributes | None) -> int:
        options = self._quantized()
        self.at = self.builder.op(kind, inputs, shape, self.dtype, attributes=attributes, **options)
        self.shape = shape
        return self.at

    def conv(self, channels: int, kernel: int = 1, stride: int = 1, *, activation: FusedActivation = FusedActivation.RELU6,
             share_of_zeros: float = 0.0) -> int:  # fmt: skip
        weights = self._weights((channels, kernel, kernel, self.shape[3]), 0, share_of_zeros)
        shape = (self.shape[0], -(-self.shape[1] // stride), -(-self.shape[2] // stride), channels)
        made = at.Conv2DOptions(Padding.SAME, stride, stride, activation, 1, 1)
        return self._add("CONV_2D", [self.at, weights, self._bias(channels)], shape, made)

    def depthwise(self, kernel: int = 3, stride: int = 1, dilation: int = 1) -> int:
        channels = self.shape[3]
        weights = self._weights((1, kernel, kernel, channels), 3)
        shape = (self.shape[0], -(-self.shape[1] // stride), -(-self.shape[2] // stride), channels)
        made = at.DepthwiseConv2DOptions(Padding.SAME, stride, stride, 1, FusedActivation.RELU6, dilation, dilation)
        return self._add("DEPTHWISE_CONV_2D", [self.at, weights, self._bias(channels)], shape, made)

    def add(self, other: int) -> int:
        return self._add("ADD", [self.at, other], self.shape, at.AddOptions(FusedActivation.NONE))

    def mean(self) -> int:
        axes = self.builder.constant(np.array([1, 2], np.int32))
        return self._add("MEAN", [self.at, axes], (self.shape[0], 1, 1, self.shape[3]), at.ReducerOptions(True))

    def dense(self, units: int) -> int:
        weights = self._weights((units, self.shape[-1]), 0)
        return self._add(
            "FULLY_CONNECTED", [self.at, weights, self._bias(units)], (self.shape[0], units), at.FullyConnectedOptions()
        )

    def unary(self, kind: str) -> int:
        return self._add(kind, [self.at], self.shape, None)

    def build(self) -> bytes:
        self.builder.output(self.at)
        return self.builder.build()


def mobile_network(dtype: DType = F32, size: int = 24, blocks: int = 3, width: int = 8, seed: int = 0) -> bytes:
    """A small MobileNetV2: expansion, depthwise, projection, residual additions, mean, fully connected layer."""
    net = Layers(dtype, (1, size, size, 3), seed)
    net.conv(width, 3, 2)
    for block in range(blocks):
        start, channels = net.at, net.shape[3]
        stride = 2 if block % 2 else 1
        net.conv(channels * 4)
        net.depthwise(3, stride)
        net.conv(channels if stride == 1 else channels * 2, activation=FusedActivation.NONE)
        if stride == 1:
            net.add(start)
    net.mean()
    net.dense(10)
    return net.build()
