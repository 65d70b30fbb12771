"""Operators in half precision. Values are float32 arrays that hold fp16 numbers exactly.

Convolutions and fully connected layers round after every multiplication and addition, one output at a time in the order filter
row, filter column, channel. Every other operator computes in float32 from fp16 operands and rounds its result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.kernels.convolution import Window
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import activation_bounds
from npu.runtime.registry import find_operator
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.convolution import window_of
from npu.runtime.xnnpack.kernels.half import depthwise_half, product_half
from npu.runtime.xnnpack.operation import XnnpackOperation

SUMMED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def to_half(values: Array) -> Array:
    """The nearest fp16 numbers as float32; beyond 65504 infinity."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def rounded_constant(tensor: RuntimeTensor) -> RuntimeTensor:
    """A float32 constant with its values rounded."""
    made = RuntimeTensor(tensor.index, tensor.source)
    made.data = to_half(tensor.array)
    made.data.flags.writeable = False
    return made


class ToHalf(XnnpackOperation):
    """The conversion of a float32 input of the partition."""

    def __init__(self, index: int, node: OperatorNode) -> None:
        super().__init__(index, node)
        self.name = "CONVERT_TO_FP16"

    def prepare(self) -> None:
        self.node.set_shape(self.node.input(0).shape)

    def run(self) -> None:
        self.node.output().array[...] = to_half(self.node.input(0).array)


class FromHalf(ToHalf):
    """The conversion of a float32 output of the partition; fp16 numbers are float32 numbers."""

    def __init__(self, index: int, node: OperatorNode) -> None:
        super().__init__(index, node)
        self.name = "CONVERT_TO_FP32"

    def run(self) -> None:
        self.node.output().array[...] = self.node.input(0).array


class HalfOperation(XnnpackOperation):
    """Any operator. `native`: one rounding per elementary operation; else float32 first, then fp16."""

    def __init__(self, index: int, node: OperatorNode, *, native: bool) -> None:
        inputs = tuple(
            rounded_constant(t) if t is not None and t.is_constant and t.dtype is DType.FLOAT32 else t for t in node.inputs
        )
        super().__init__(index, replace(node, inputs=inputs))
        self._native = native

    def prepare(self) -> None:
        self._run = find_operator(self.node.kind, self.node.label).prepare(self.node)

    def run(self) -> None:
        if self.node.kind in SUMMED:
            self._sum()
            return
        self._run()
        for output in self.node.outputs:
            if output.dtype is DType.FLOAT32:
                output.array[...] = to_half(output.array)

    def _sum(self) -> None:
        ifm, weights, bias, output = self.node.input(0), self.node.input(1), self.node.optional(2), self.node.output()
        channels = output.shape[-1]
        start = np.zeros(channels, np.float32) if bias is None else np.ascontiguousarray(bias.array.reshape(-1))
        sums = np.empty((output.elements // max(channels, 1), channels), np.float32)
        if self.node.kind == "FULLY_CONNECTED":
            rows = np.ascontiguousarray(ifm.array).reshape(-1, weights.shape[1])
            product_half(rows, np.ascontiguousarray(weights.array.T), start, self._native, sums)
        elif self.node.kind == "CONV_2D":
            self._convolve(ifm.array, start, sums)
        else:
            taps = np.ascontiguousarray(weights.array.reshape(-1, channels))
            window = window_of(self.node, (weights.shape[1], weights.shape[2]))

            def multiply(patches: Array, part: Array) -> None:
                depthwise_half(patches.reshape(len(patches), -1, ifm.shape[3]), taps, start, self._native, part)

            _fill(sums, ifm.array, window, multiply)
        bounds = activation_bounds(self.node, self.node.attributes.fused_activation_function)
        output.array[...] = np.clip(sums, *bounds).reshape(output.shape)

    def _convolve(self, ifm: Array, start: Array, result: Array) -> None:
        weights = self.node.input(1).array
        channels, height, width, depth = weights.shape
        groups, window = ifm.shape[3] // depth, window_of(self.node, (height, width))
        group_channels = channels // groups
        for g in range(groups):
            own = slice(g * group_channels, (g + 1) * group_channels)
            matrix = np.ascontiguousarray(weights[own].reshape(group_channels, -1).T)
            begin = np.ascontiguousarray(start[own])

            def multiply(patches: Array, part: Array, matrix: Array = matrix, begin: Array = begin) -> None:
                product_half(patches, matrix, begin, self._native, part)

            _fill(result[:, own], ifm[..., g * depth : (g + 1) * depth], window, multiply)


def _fill(sums: Array, ifm: Array, window: Window, multiply: Callable[[Array, Array], None]) -> None:
    """Results (pixels, channels) from what `multiply` makes of some patches at a time."""
    maps = sums.reshape(ifm.shape[0], *window.out, sums.shape[1])
    for batch, target in zip(ifm, maps, strict=True):
        for rows, columns in window.parts(ifm.shape[3]):
            patches = window.patches(batch, rows, columns)
            part = np.empty((len(patches), sums.shape[1]), np.float32)
            multiply(patches, part)
            target[slice(*rows), slice(*columns)] = part.reshape(rows[1] - rows[0], -1, part.shape[1])
