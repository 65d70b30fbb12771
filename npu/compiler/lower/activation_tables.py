"""Look-up tables of operators of one 8-bit operand: 256 entries in the order of the operand's values.

`VALUES` is the one table of these operators: what the reference kernel makes of every value of the operand, less its zero
point, before the zero point of the result is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from npu.compiler.lower.inverse_root import inverse_root
from npu.compiler.lower.quantize import rectifier_steps
from npu.errors import CompileError
from npu.graph.attributes import GeluOptions, LeakyReluOptions
from npu.graph.dtype import DType
from npu.graph.graph import Op, Tensor
from npu.isa.operations import INT8, INT16, INT32, UINT8, ElementType
from npu.numerics.arrays import Ints
from npu.numerics.rectifiers import RECTIFIERS
from npu.numerics.scaling import divide_away, multiply, quantize_multiplier, round_away, rule_a
from npu.records import dataclass

ELEMENTS = {DType.INT8: INT8, DType.UINT8: UINT8, DType.INT16: INT16, DType.INT32: INT32, DType.BOOL: INT8}
"""Element types of feature maps."""
Reals = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Quantized:
    """How a tensor stands for real numbers: (value - zero point) * scale."""

    scale: np.float32
    zero_point: int
    element: ElementType

    @classmethod
    def of(cls, index: int, tensor: Tensor) -> Quantized:
        """How `tensor`, number `index` of its graph, does; CompileError without a scale."""
        quantization = tensor.quantization
        if quantization is None or not quantization.scales.size:
            raise CompileError(f"tensor {index} ({tensor.name}): must have a quantization scale, got none")
        return cls(np.float32(quantization.scales[0]), quantization.zero_point, ELEMENTS[tensor.dtype])

    @property
    def values(self) -> Ints:
        """Every value of the type, ascending."""
        return np.arange(self.element.minimum, self.element.maximum + 1, dtype=np.int64)

    def saturated(self, values: Ints) -> Ints:
        return np.clip(values, self.element.minimum, self.element.maximum)


TableFunction = Callable[[Op, Ints, Quantized, Quantized], Ints]


def result_of(op: Op, values: Ints, source: Quantized, target: Quantized) -> Ints:
    """The stored results of `op` for stored values of its operand."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        made = VALUES[op.kind](op, values - source.zero_point, source, target)
    return target.saturated(made + target.zero_point)


def joined(values: Ints, source: Quantized, target: Quantized) -> Ints:
    """Stored values of a uint8 input of CONCATENATION in its output: one float32 factor, rounded once, ties away from zero.

    Not the two roundings of QUANTIZE: TFLite's ConcatenationWithScaling.
    """
    scale = source.scale * (np.float32(1) / target.scale)
    real = values.astype(np.float32) * scale + np.float32(-source.zero_point) * scale
    return target.saturated(round_away(real).astype(np.int64) + target.zero_point)


def as_bytes(values: Ints) -> npt.NDArray[np.uint8]:
    """Table entries of 8 bits, signed or not."""
    return values.astype(np.uint8)


# Functions of real numbers, in float32


def _rounded(function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> Callable[[Reals], Reals]:
    """A float32 function with at most half a unit of error, as C's library gives it nearly everywhere."""
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


_EXP, _TANH = _rounded(np.exp), _rounded(np.tanh)
_ERFC = _rounded(lambda x: np.array([math.erfc(value) for value in x]))


def _logistic(x: Reals) -> Reals:
    return np.float32(1) / (np.float32(1) + _EXP(-x))


def _gelu(x: Reals) -> Reals:
    return np.float32(0.5) * x * _ERFC(-x * np.float32(math.sqrt(0.5)))


def _gelu_by_tanh(x: Reals) -> Reals:
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    return x * np.float32(0.5) * (np.float32(1) + _TANH(inner))


def _elu(x: Reals) -> Reals:
    return np.where(x < 0, _rounded(np.expm1)(x), x)


def real_function(op: Op, target: Quantized) -> Callable[[Reals], Reals] | None:
    """The float32 function that the reference kernel samples for `op`, None if it computes in integers."""
    if op.kind == "GELU":
        assert isinstance(op.attributes, GeluOptions)
        return _gelu_by_tanh if op.attributes.approximate else _gelu
    if op.kind == "LOG":  # the smallest number for what has no logarithm
        lowest = target.scale * np.float32(target.element.minimum - target.zero_point)
        return lambda x: np.where(x > 0, _rounded(np.log)(x), lowest)
    if op.kind == "RSQRT":  # the largest for what has no root
        highest = target.scale * np.float32(target.element.maximum - target.zero_point)
        return lambda x: np.where(x > 0, np.float32(1) / np.sqrt(x), highest)
    return {"ELU": _elu, "EXP": _EXP, "LOGISTIC": _logistic, "TANH": _TANH}.get(op.kind)


def _sampled(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    """TFLite's LUTPopulate in float32; what is no number is 0, as in C."""
    function = real_function(op, target)
    assert function is not None
    scaled = function(source.scale * x.astype(np.float32)) * (np.float32(1) / target.scale)
    rounded = np.copysign(np.floor(np.abs(scaled.astype(np.float64)) + 0.5), scaled)
    limit = float(1 << 31)
    values = np.clip(np.nan_to_num(rounded, nan=0.0, posinf=limit, neginf=-limit), -limit, limit).astype(np.int64)
    return np.where(np.isnan(rounded), -target.zero_point, values)


# Functions of integers


def _quantize(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    return rule_a(x, float(source.scale) / float(target.scale))


def _rectify(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    low, high = (rectifier_steps(bound, target.scale) for bound in RECTIFIERS[op.kind])
    return np.clip(rule_a(x, float(source.scale / target.scale)), low, high)


def _leaky_relu(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    options = op.attributes
    assert isinstance(options, LeakyReluOptions)
    slope = float(source.scale * np.float32(options.alpha) / target.scale)
    return np.where(x >= 0, rule_a(x, float(source.scale / target.scale)), rule_a(x, slope))


def _abs(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    size = abs(x)
    return size if source.scale == target.scale else rule_a(size, float(source.scale / target.scale))


def _negate(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    """The stored values, whatever they stand for; the smallest is its own negative."""
    return (-(x + source.zero_point)).astype(np.int8).astype(np.int64) - target.zero_point


def _rsqrt(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    """int8 in fixed point, int16 in float32; the largest number where there is no root."""
    if source.element.bits > 8:
        return _sampled(op, x, source, target)
    factor = 1 / (math.sqrt(float(source.scale)) * float(target.scale))
    return np.array([_scaled_root(int(value), factor) if value > 0 else 1 << 16 for value in x], np.int64)


def _scaled_root(value: int, factor: float) -> int:
    """factor / sqrt(value), through 20 fraction bits."""
    multiplier, exponent = inverse_root(value)
    root = multiply(np.ones(1, np.int64), multiplier, exponent + 20)  # shifted left first, and rounded once, as TFLite has it
    multiplier, exponent = quantize_multiplier(factor)
    return int(multiply(root, multiplier, exponent - 20)[0])


def _hard_swish(op: Op, x: Ints, source: Quantized, target: Quantized) -> Ints:
    """x * relu6(x + 3) / 6 in 16-bit fixed point; TFLite's reference HardSwish."""
    fine = np.float32(1 / 128) * source.scale
    out_multiplier, out_exponent = _short_multiplier(float(fine / target.scale))
    gate_multiplier, gate_exponent = _short_multiplier(float(fine / np.float32(3 / 32768)))
    scaled = _high_mul_16(x << 7, out_multiplier)
    gate = x << 7
    if gate_exponent > 0:
        gate = _saturate_16(gate << (gate_exponent - 1))
    gate = _high_mul_16(gate, gate_multiplier)
    gate = _saturate_16(gate << 1) if gate_exponent > 0 else divide_away(gate, -gate_exponent)
    gate = (gate + (1 << 15)) >> 1
    product = gate * scaled
    product = np.where(product >= 0, product >> 15, -(-product >> 15))
    return divide_away(product, max(-out_exponent, 0))


def _short_multiplier(real: float) -> tuple[int, int]:
    """A 16-bit multiplier and its exponent; TFLite's DownScaleInt32ToInt16Multiplier."""
    multiplier, exponent = quantize_multiplier(real)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), exponent


def _saturate_16(values: Ints) -> Ints:
    return np.clip(values, -(1 << 15), (1 << 15) - 1)


def _high_mul_16(values: Ints, multiplier: int) -> Ints:
    """values * multiplier / 2**15 to nearest, ties toward plus infinity."""
    return _saturate_16((values * multiplier + (1 << 14)) >> 15)


VALUES: Mapping[str, TableFunction] = {
    "ABS": _abs,
    "ELU": _sampled,
    "EXP": _sampled,
    "GELU": _sampled,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "LOG": _sampled,
    "LOGISTIC": _sampled,
    "NEG": _negate,
    "QUANTIZE": _quantize,
    **dict.fromkeys(RECTIFIERS, _rectify),
    "RSQRT": _rsqrt,
    "TANH": _sampled,
}
