"""The constants of CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED as the compiled kernels take them.

uint8 weights are moved by 128 into int8. With w = weight - zero point, sums of (x - zero point of x) * w are sums of
x * weight, less the weights' zero point times the sum of x, plus what is folded into the bias.
"""

from __future__ import annotations

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import float_bounds, multipliers, quantized_range, require_quantized
from npu.runtime.operators.convolution import filter_scales, products
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.packing import folded_bias

_COVERED = ((DType.FLOAT32,) * 3, (DType.INT8,) * 3, (DType.UINT8,) * 3)


@dataclass(frozen=True, slots=True)
class ConstantOperand:
    """Constant weights (out, kernel height, kernel width, in), or (taps, out) for depthwise, with bias and clamp."""

    weights: Array
    bias: Array
    factors: tuple[Array, Array] | None
    """Multipliers and exponents of scaled results."""
    scales: Array | None
    """Real factors, for results that are scaled in double precision."""
    low: int
    high: int
    zero_point: int
    """Of the input; 128 less if it is uint8."""
    output_zero_point: int
    weight_zero_point: int = 0
    """Of weights that were uint8, after they are moved by 128."""
    is_unsigned: bool = False

    @property
    def padding(self) -> int:
        """What stands around a map: the zero point of the input as it is stored."""
        return self.zero_point + (128 if self.is_unsigned else 0)

    @property
    def centred(self) -> Array:
        """Weights without their zero point."""
        return self.weights.astype(np.int64) - self.weight_zero_point if self.weight_zero_point else self.weights

    def folded(self) -> Array:
        """The bias, for 8-bit inputs that are read as unsigned bytes; weights have the channels first."""
        if self.factors is None:
            return self.bias
        return folded_bias(self.centred, self.bias, self.zero_point)


def _clamp(node: OperatorNode) -> tuple[int, int]:
    activation = node.attributes.fused_activation_function
    if node.output().dtype is not DType.FLOAT32:
        return quantized_range(node, activation, node.output())
    low, high = (int(bound.view(np.int32)) for bound in float_bounds(node, activation))
    return low, high


def operand(node: OperatorNode, channel_axis: int) -> ConstantOperand | None:
    """The constants of an operator whose types the compiled kernels cover, None for others."""
    ifm, weights, bias, output = node.input(0), node.input(1), node.optional(2), node.output()
    types = (ifm.dtype, weights.dtype, output.dtype)
    if types not in _COVERED or weights.data is None or not weights.elements:
        return None
    channels = weights.shape[channel_axis]
    if bias is not None and (bias.data is None or bias.elements != channels):
        return None
    low, high = _clamp(node)
    if ifm.dtype is DType.FLOAT32:
        values = np.zeros(channels, np.float32) if bias is None else bias.array.reshape(-1).astype(np.float32)
        return ConstantOperand(weights.array, values, None, None, low, high, 0, 0)
    if bias is not None and bias.dtype is not DType.INT32:
        return None
    scaling = weights.quantization
    if scaling is None or scaling.scales.size not in (1, channels) or not _has_plain_zero_points(weights):
        return None
    require_quantized(node, ifm, weights, output)
    by_channel = filter_scales(node, weights, channels)
    # FULLY_CONNECTED rounds doubles, and multiplies its scales as such for every type.
    scales = (ifm.scale * by_channel if node.kind == "FULLY_CONNECTED" else products(ifm, by_channel)) / output.scale
    factors = multipliers(scales.tolist())
    values = np.zeros(channels, np.int32) if bias is None else bias.array.reshape(-1).astype(np.int32)
    if ifm.dtype is DType.INT8:
        return ConstantOperand(weights.array, values, factors, scales, low, high, ifm.zero_point, output.zero_point)
    moved, zero_point = _moved(weights.array, weights.zero_point)
    offsets = ifm.zero_point - 128, output.zero_point, zero_point
    return ConstantOperand(moved, values, factors, scales, low, high, *offsets, is_unsigned=True)


def _has_plain_zero_points(weights: RuntimeTensor) -> bool:
    """Whether weights are symmetric, or uint8 with one zero point that is a byte."""
    assert weights.quantization is not None
    points = weights.quantization.zero_points
    if weights.dtype is DType.UINT8:
        return points.size <= 1 and 0 <= weights.zero_point <= 255
    return not np.any(points != 0)


def _moved(weights: Array, zero_point: int) -> tuple[Array, int]:
    """uint8 weights as int8, and their zero point: 0 if the differences fit."""
    centred = weights.astype(np.int16) - zero_point
    if centred.min() >= -128 and centred.max() <= 127:
        return centred.astype(np.int8), 0
    return (weights ^ np.uint8(128)).view(np.int8), zero_point - 128
