"""TFLite's quantization formulas: real factors to register scales, activations to clamps. Float32 where TFLite uses float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import CompileError
from npu.isa.operations import ElementType, Scale
from npu.numerics.rectifiers import RECTIFIERS, UNBOUNDED
from npu.numerics.scaling import quantize_multiplier, round_half_away

_FACTOR_END = float(1 << 31)


class FactorError(CompileError):
    """A factor between two quantizations is beyond what the registers can say."""


def register_scale(real: float) -> Scale:
    """The 31-bit scale and shift of a real factor; a factor too small for 63 bits of shift is 0.

    FactorError for one of 2**31 or more, which no shift can say. Source: the multiplier m / 2**31 * 2**e of TFLite's
    QuantizeMultiplier is `m >> (31 - e)`.
    """
    if not 0 <= real < _FACTOR_END:
        raise FactorError(f"the factor between its scales must be in [0, 2**31), got {real:g}")
    multiplier, exponent = quantize_multiplier(real)
    if multiplier == 0 or 31 - exponent > 63:
        return Scale(0, 16)
    if exponent > 31:
        raise FactorError(f"the factor between its scales must be in [0, 2**31), got {real:g}")
    return Scale(multiplier, 31 - exponent)


def mean_scale(count: int, scale_bits: int) -> Scale:
    """The factor 1 / count of so many bits: floor((2**(bits - 1 + k) + 2**k) / count) and shift bits - 1 + k, k = bits of
    count - 1.

    The excess makes an exact tie round away from zero, as the reference kernel's integer division does. Sums below
    2**(bits - 2) are exact.
    """
    extra = (count - 1).bit_length()
    shift = scale_bits - 1 + extra
    return Scale(((1 << shift) + (1 << extra)) // count, shift)


def short_scale(real: float) -> Scale:
    """The same with a multiplier of 15 bits, for sums of 64 bits; TFLite's overload for int64_t."""
    scale = register_scale(real)
    if scale.shift < 16:
        raise FactorError(f"the factor between its scales must be below 2**15, got {real:g}")
    return Scale(min((scale.scale + (1 << 15)) >> 16, (1 << 15) - 1), scale.shift - 16)


def register_scales(factors: Sequence[float], *, are_short: bool) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    """Scales and shifts of many factors, as `register_scale` or `short_scale` gives those of each."""
    real = np.array(factors, np.float64)
    mantissas, exponents = np.frexp(real)
    multipliers = np.floor(mantissas * (1 << 31) + 0.5).astype(np.int64)
    is_plain = (multipliers >= 1 << 30) & (multipliers < 1 << 31) & (exponents > -31) & (exponents <= (15 if are_short else 31))
    if not is_plain.all():  # zeros, the ends of the range, mantissas that are rounded up to 1, and what is refused
        single = [(short_scale if are_short else register_scale)(factor) for factor in factors]
        return np.array([one.scale for one in single], np.uint32), np.array([one.shift for one in single], np.uint8)
    if are_short:
        multipliers, exponents = np.minimum((multipliers + (1 << 15)) >> 16, (1 << 15) - 1), exponents + 16
    return multipliers.astype(np.uint32), (31 - exponents).astype(np.uint8)


def rectifier_steps(real: float, scale: np.float32) -> int:
    """A real bound in quantized steps, at most 2**31 of them."""
    with np.errstate(over="ignore"):
        steps = float(np.float32(real) / scale)
    return round_half_away(min(max(steps, -_FACTOR_END), _FACTOR_END))


def activation_range(kind: str, scale: np.float32, zero_point: int, element: ElementType) -> tuple[int, int]:
    """Clamp of an activation, fused or an operator, in its output's quantization; all values if it does not clamp.

    TFLite's CalculateActivationRangeQuantized and QuantizedReluX.
    """
    low, high = (zero_point + rectifier_steps(bound, scale) for bound in RECTIFIERS.get(kind, UNBOUNDED))
    return max(element.minimum, low), min(element.maximum, high)
