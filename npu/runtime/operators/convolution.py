"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV: shapes, scales and fused activations around the sums of the kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.shapes.common import window_extent
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.convolution import (
    Window,
    convolve,
    convolve_depthwise,
    convolve_transposed,
    convolve_transposed_scaled,
    transposed_in_order,
)
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import (
    float_bounds,
    multipliers,
    pad_before,
    quantized_range,
    requantize,
    require_quantized,
)
from npu.runtime.operators.hybrid import dequantize_rows, quantize_rows
from npu.runtime.tensor import RuntimeTensor


def _window(node: OperatorNode, ifm: RuntimeTensor, kernel: tuple[int, int]) -> Window:
    a = node.attributes
    stride, dilation, sizes = (a.stride_h, a.stride_w), (a.dilation_h_factor, a.dilation_w_factor), ifm.shape[1:3]
    out = node.output().shape[1:3]
    if a.padding is Padding.VALID:
        before = (0, 0)
    else:
        top, left = (pad_before(s, o, k, t, d)[0] for s, o, k, t, d in zip(sizes, out, kernel, stride, dilation, strict=True))
        before = (top, left)
    return Window(kernel, stride, dilation, before, (out[0], out[1]))


def filter_scales(node: OperatorNode, weights: RuntimeTensor, channels: int) -> Array:
    """One double per output channel."""
    require_quantized(node, weights)
    assert weights.quantization is not None
    scales = weights.quantization.scales.astype(np.float64)
    if scales.size not in (1, channels):
        raise node.fail(f"filter must have 1 or {channels} scales, got {scales.size}")
    return np.broadcast_to(scales, channels)


def products(ifm: RuntimeTensor, scales: Array) -> Array:
    """Input scale times filter scales, as doubles; the reference kernels of uint8 multiply in float32."""
    if ifm.dtype is DType.UINT8:
        return (np.float32(ifm.scale) * scales.astype(np.float32)).astype(np.float64)
    return ifm.scale * scales


def _finish(
    node: OperatorNode, ifm: RuntimeTensor, weights: RuntimeTensor, bias: RuntimeTensor | None, channels: int
) -> _OutputScaling:
    output = node.output()
    activation: FusedActivation = node.attributes.fused_activation_function
    if ifm.dtype is DType.FLOAT32:
        return _OutputScaling(bias, None, 0, (0, 0), float_bounds(node, activation), wide=False)
    require_quantized(node, ifm, output)
    factors = products(ifm, filter_scales(node, weights, channels)) / output.scale
    limits = quantized_range(node, activation, output)
    wide = ifm.dtype is DType.INT16 and (bias is None or bias.dtype is DType.INT64)
    return _OutputScaling(bias, multipliers(factors.tolist()), output.zero_point, limits, (None, None), wide=wide)


@dataclass(frozen=True, slots=True)
class _OutputScaling:
    """Sums to outputs: bias, scaling, activation."""

    bias: RuntimeTensor | None
    scaling: tuple[Array, Array] | None
    zero_point: int
    limits: tuple[int, int]
    bounds: tuple[Any, Any]
    wide: bool

    def __call__(self, acc: Array) -> Array:
        if self.bias is not None:
            acc = acc + self.bias.array.reshape(-1)
        if self.scaling is None:
            return np.clip(acc, *self.bounds)
        return requantize(acc, self.scaling, self.zero_point, self.limits, wide=self.wide)


def _centred(tensor: RuntimeTensor, dtype: type[np.generic]) -> Array:
    """Values minus the zero point; floats as they are."""
    if tensor.dtype is DType.FLOAT32:
        return tensor.array
    result: Array = tensor.array.astype(dtype) - np.asarray(tensor.zero_point, dtype)
    return result


def _filter(weights: RuntimeTensor, dtype: type[np.generic]) -> Array:
    """Values of a filter whose reference kernel (depthwise, transposed, hybrid) uses the zero point of uint8 filters only."""
    return _centred(weights, dtype) if weights.dtype in (DType.UINT8, DType.FLOAT32) else weights.array.astype(dtype)


def _is_hybrid(ifm: RuntimeTensor, weights: RuntimeTensor) -> bool:
    return ifm.dtype is DType.FLOAT32 and weights.dtype in (DType.INT8, DType.INT4, DType.UINT8)


def build_conv_2d(node: OperatorNode) -> Run:
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    channels, kh, kw, depth = weights.shape
    window = _window(node, ifm, (kh, kw))
    if _is_hybrid(ifm, weights):
        return _hybrid_conv(node, window)
    finish = _finish(node, ifm, weights, bias, channels)
    matrix = _matrix_of(weights, _centred)

    def run() -> None:
        output.array[...] = finish(_grouped_sums(_centred(ifm, np.float64), matrix(), window, depth)).reshape(output.shape)

    return run


def _grouped_sums(x: Array, matrix: Array, window: Window, depth: int) -> Array:
    """Sums (pixels, out channels) of a map; each group of `depth` input channels has an equal share of the others."""
    groups = x.shape[3] // depth
    acc = [
        convolve(x[..., g * depth : (g + 1) * depth], window, np.ascontiguousarray(part))
        for g, part in enumerate(np.split(matrix, groups, axis=1))
    ]
    return acc[0] if groups == 1 else np.concatenate(acc, axis=1)


def _matrix_of(weights: RuntimeTensor, values: Callable[[RuntimeTensor, type[np.generic]], Array]) -> Callable[[], Array]:
    """What gives a filter's values (out, kh, kw, in) as a contiguous (kh * kw * in, out) matrix, of a constant always one."""

    def make() -> Array:
        return np.ascontiguousarray(values(weights, np.float64).reshape(weights.shape[0], -1).T)

    if not weights.is_constant:
        return make
    made = make()
    return lambda: made


def _hybrid_conv(node: OperatorNode, window: Window) -> Run:
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    channels = weights.shape[0]
    scales = filter_scales(node, weights, channels).astype(np.float32)
    bounds = float_bounds(node, node.attributes.fused_activation_function)
    matrix = _matrix_of(weights, _filter)
    # The reference kernel quantizes inputs symmetrically unless there are groups, or several scales, not all of them the same.
    asymmetric = weights.shape[3] < ifm.shape[3] or len(set(scales.tolist())) > 1

    def run() -> None:
        batches = ifm.shape[0]
        rows = ifm.array.reshape(batches, math.prod(ifm.shape[1:]))
        values, input_scales, zero_points = quantize_rows(rows, asymmetric=asymmetric)
        x = values.reshape(ifm.shape).astype(np.float64) - zero_points.astype(np.float64).reshape(-1, 1, 1, 1)
        sums = _grouped_sums(x, matrix(), window, weights.shape[3])
        acc = sums.reshape(batches, math.prod(output.shape[1:3]), channels)
        offsets = bias.array if bias is not None else None
        result = dequantize_rows(acc, input_scales[:, None, None], scales, offsets, per_channel=asymmetric)
        output.array[...] = np.clip(result, *bounds).reshape(output.shape)

    return run


def build_depthwise(node: OperatorNode) -> Run:
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    _, kh, kw, channels = weights.shape
    depth = ifm.shape[3]
    window = _window(node, ifm, (kh, kw))
    if _is_hybrid(ifm, weights):
        return _hybrid_depthwise(node, window)
    finish = _finish(node, ifm, weights, bias, channels)

    def run() -> None:
        # Sums of 8-bit products fit 32 bits; 16-bit activations need 64.
        dtype = np.int64 if ifm.dtype is DType.INT16 else np.int32
        w = _filter(weights, dtype).reshape(kh, kw, depth, channels // depth)
        acc = convolve_depthwise(_centred(ifm, dtype), window, w)
        output.array[...] = finish(acc).reshape(output.shape)

    return run


def _hybrid_depthwise(node: OperatorNode, window: Window) -> Run:
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    kh, kw, channels = weights.shape[1:]
    scales = filter_scales(node, weights, channels).astype(np.float32)
    bounds = float_bounds(node, node.attributes.fused_activation_function)

    def run() -> None:
        batches, depth = ifm.shape[0], ifm.shape[3]
        rows = ifm.array.reshape(batches, math.prod(ifm.shape[1:]))
        values, input_scales, zero_points = quantize_rows(rows, asymmetric=True)
        x = values.reshape(ifm.shape).astype(np.int32) - zero_points.reshape(-1, 1, 1, 1)
        w = weights.array.astype(np.int32).reshape(kh, kw, depth, channels // depth)
        acc = convolve_depthwise(x.astype(np.int32), window, w)
        acc = acc.reshape(batches, math.prod(output.shape[1:3]), channels)
        offsets = bias.array if bias is not None else None
        result = dequantize_rows(acc, input_scales[:, None, None], scales, offsets)
        output.array[...] = np.clip(result, *bounds).reshape(output.shape)

    return run


def build_transpose_conv(node: OperatorNode) -> Run:
    weights, ifm, bias, output = node.input(1), node.input(2), node.optional(3), node.output()
    channels, kh, kw, _ = weights.shape
    a = node.attributes
    is_hybrid = _is_hybrid(ifm, weights)
    finish = None if is_hybrid else _finish(node, ifm, weights, bias, channels)

    def run() -> None:
        pads = [_transposed_pad(a, o, k, s) for o, k, s in zip(
            output.shape[1:3], (kh, kw), (a.stride_h, a.stride_w), strict=True)]  # fmt: skip
        if finish is None:
            output.array[...] = _hybrid_transposed(node, (pads[0], pads[1]))
        else:
            acc = _transposed_sums(node, (pads[0], pads[1]))
            output.array[...] = finish(acc.reshape(-1, channels)).reshape(output.shape)

    return run


def _hybrid_transposed(node: OperatorNode, pads: tuple[int, int]) -> Array:
    """float32 maps, each quantized while running, with an int8 filter."""
    weights, ifm, bias, output = node.input(1), node.input(2), node.optional(3), node.output()
    scales = filter_scales(node, weights, weights.shape[0]).astype(np.float32)
    rows = ifm.array.reshape(ifm.shape[0], math.prod(ifm.shape[1:]))
    values, input_scales, zero_points = quantize_rows(rows, asymmetric=True)
    x = values.reshape(ifm.shape).astype(np.float32) - zero_points.astype(np.float32).reshape(-1, 1, 1, 1)
    sums = np.zeros(output.shape, np.float32)
    taps = _filter(weights, np.float32).transpose(1, 2, 3, 0)
    window = Window((taps.shape[0], taps.shape[1]), _stride(node), (1, 1), pads, (x.shape[1], x.shape[2]))
    convolve_transposed_scaled(x, window, taps, (input_scales.astype(np.float32), scales), sums)
    if bias is not None:
        sums += bias.array.reshape(-1)
    return np.clip(sums, *float_bounds(node, node.attributes.fused_activation_function))


def _transposed_sums(node: OperatorNode, pads: tuple[int, int]) -> Array:
    weights, ifm, output = node.input(1), node.input(2), node.output()
    if ifm.dtype is DType.FLOAT32:
        total = np.zeros(output.shape, np.float32)
        taps = np.ascontiguousarray(weights.array.transpose(1, 2, 3, 0))
        transposed_in_order(np.ascontiguousarray(ifm.array), taps, *_stride(node), *pads, total)
        return total
    return _scattered(_centred(ifm, np.float64), weights, _stride(node), pads, output.shape)


def _scattered(x: Array, weights: RuntimeTensor, stride: tuple[int, int], pads: tuple[int, int], out: tuple[int, ...]) -> Array:
    """Integer sums of a transposed convolution over a map without zero point."""
    taps = np.ascontiguousarray(_filter(weights, np.float64).transpose(1, 2, 3, 0))
    sums = np.zeros(out)
    window = Window((taps.shape[0], taps.shape[1]), stride, (1, 1), pads, (x.shape[1], x.shape[2]))
    convolve_transposed(x, window, taps, sums)
    return sums.astype(np.int64)


def _stride(node: OperatorNode) -> tuple[int, int]:
    return node.attributes.stride_h, node.attributes.stride_w


def _transposed_pad(attributes: object, out: int, kernel: int, stride: int) -> int:
    """Padding before, computed from the output's size as the forward convolution would have it."""
    padding: Padding = attributes.padding  # type: ignore[attr-defined]
    if padding is Padding.VALID:
        return 0
    forward = window_extent(out, kernel, stride, 1, padding)
    return pad_before(out, forward, kernel, stride, 1)[0]


_TYPES = (
    "f32 f32 f32? -> f32",
    "i8 i8|i4 i32? -> i8",
    "u8 u8 i32? -> u8",
    "i16 i8 i64? -> i16",
)
_CONVOLUTION = (*_TYPES, "f32 i8|i4 f32? -> f32", "i16 i8 i32 -> i16", "i16 i4 i32|i64? -> i16")
_TRANSPOSED = (
    "i32 f32 f32 f32? -> f32",
    "i32 i8 f32 f32? -> f32",
    "i32 i8 i8 i32? -> i8",
    "i32 u8 u8 i32? -> u8",
    "i32 i8 i16 i32|i64? -> i16",
)

OPERATORS = (
    Implementation("CONV_2D", build_conv_2d, _CONVOLUTION),
    Implementation("DEPTHWISE_CONV_2D", build_depthwise, (*_TYPES, "f32 i8 f32 -> f32")),
    Implementation("TRANSPOSE_CONV", build_transpose_conv, _TRANSPOSED),
)
