"""The constants of CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED as the compiled kernels take them.

uint8 weights are moved by 128 into int8. With w = weight - zero point, sums of (x - zero point of x) * w are sums of
x * weight, less the weights' zero point times the sum of x, plus what is folded into the bias.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import float_bounds, multipliers, quantized_range, requantize, require_quantized
from npu.runtime.operators.convolution import filter_scales, products
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.packing import SCALED_SUM_LIMIT, OutputLimits, bounds_of, folded_bias

_CONSTANT_PLACES = 10
"""How far the bias of a constant channel is shifted, for a factor that needs a rounding shift as those of others do."""
_LARGEST_CONSTANT = 1 << 18
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
    limits: OutputLimits
    """Of floats, their bits."""
    zero_point: int
    """Of the input; 128 less if it is uint8."""
    weight_zero_point: int = 0
    """Of weights that were uint8, after they are moved by 128."""

    @property
    def is_unsigned(self) -> bool:
        return self.limits.is_unsigned

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

    def with_constants_as_biases(self) -> ConstantOperand:
        """Channels whose large bias leaves one result for all inputs have no weights and a small bias of the same result."""
        assert self.factors is not None
        multiplier, exponent = self.factors
        reach = bounds_of(self.centred, 0 * self.bias)
        bias = self.bias.astype(np.int64)
        ends = requantize(np.stack([bias - reach, bias + reach]), self.factors, 0, (-_LARGEST_CONSTANT, _LARGEST_CONSTANT))
        is_constant = (ends[0] == ends[1]) & (abs(ends[0]) < _LARGEST_CONSTANT) & (exponent <= 0)
        is_constant &= (abs(bias) + reach < 1 << 31) & (abs(bias) + reach >= SCALED_SUM_LIMIT)
        if not is_constant.any():
            return self
        keep = ~is_constant.reshape(-1, *[1] * (self.weights.ndim - 1))
        return replace(
            self,
            weights=np.where(keep, self.weights, np.int8(self.weight_zero_point)),
            bias=np.where(is_constant, ends[0] << _CONSTANT_PLACES, bias).astype(np.int32),
            factors=(np.where(is_constant, 1 << 30, multiplier), np.where(is_constant, 1 - _CONSTANT_PLACES, exponent)),
        )


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
        return ConstantOperand(weights.array, values, None, None, OutputLimits(0, low, high, is_unsigned=False), 0)
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
    limits = OutputLimits(output.zero_point, low, high, is_unsigned=ifm.dtype is DType.UINT8)
    if ifm.dtype is DType.INT8:
        return ConstantOperand(weights.array, values, factors, scales, limits, ifm.zero_point)
    moved, zero_point = _moved(weights.array, weights.zero_point)
    return ConstantOperand(moved, values, factors, scales, limits, ifm.zero_point - 128, zero_point)


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
