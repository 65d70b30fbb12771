"""Operators in half precision. Values are float32 arrays that hold fp16 numbers exactly.

Convolutions and fully connected layers round after every multiplication and addition, one output at a time in the order filter
row, filter column, channel. Every other operator computes in float32 from fp16 operands and rounds its result.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.graph.dtype import DType
from npu.runtime.kernels.convolution import pad_map, windows
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import activation_bounds
from npu.runtime.registry import find_operator
from npu.runtime.tensor import Array, RuntimeTensor
from npu.runtime.xnnpack.convolution import window_of
from npu.runtime.xnnpack.kernels.half import depthwise_half, product_half
from npu.runtime.xnnpack.operation import Operation

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


class ToHalf(Operation):
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


class HalfOperation(Operation):
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
        result = np.empty((output.elements // max(channels, 1), channels), np.float32)
        if self.node.kind == "FULLY_CONNECTED":
            rows = np.ascontiguousarray(ifm.array).reshape(-1, weights.shape[1])
            product_half(rows, np.ascontiguousarray(weights.array.T), start, self._native, result)
        elif self.node.kind == "CONV_2D":
            self._convolve(ifm.array, start, result)
        else:
            patches = self._patches(ifm.array, (weights.shape[1], weights.shape[2]))
            taps = patches.reshape(result.shape[0], -1, ifm.shape[3])
            depthwise_half(taps, np.ascontiguousarray(weights.array.reshape(-1, channels)), start, self._native, result)
        bounds = activation_bounds(self.node, self.node.attributes.fused_activation_function)
        output.array[...] = (result if bounds == (None, None) else np.clip(result, *bounds)).reshape(output.shape)

    def _convolve(self, ifm: Array, start: Array, result: Array) -> None:
        weights = self.node.input(1).array
        channels, height, width, depth = weights.shape
        groups = ifm.shape[3] // depth
        each = channels // groups
        for g in range(groups):
            patches = self._patches(ifm[..., g * depth : (g + 1) * depth], (height, width))
            matrix = np.ascontiguousarray(weights[g * each : (g + 1) * each].reshape(each, -1).T)
            part = np.empty((result.shape[0], each), np.float32)
            begin = np.ascontiguousarray(start[g * each : (g + 1) * each])
            product_half(patches.reshape(result.shape[0], -1), matrix, begin, self._native, part)
            result[:, g * each : (g + 1) * each] = part

    def _patches(self, ifm: Array, kernel: tuple[int, int]) -> Array:
        before, after, stride, dilation, out = window_of(self.node, kernel)
        padded = np.ascontiguousarray(pad_map(ifm, before, after))
        return np.ascontiguousarray(windows(padded, kernel, stride, dilation, out))
