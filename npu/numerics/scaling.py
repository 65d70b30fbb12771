"""Real factors as integer multiplier and shift: the only place that turns a float scale into register values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import ModelError
from npu.numerics.arrays import Ints

_MOST_SHIFT = 31
_MOST_TABLE_FACTOR = 1 << 20
"""Every input but 0 is beyond the tables by then, and the product with one of 16 bits fits the output unit."""


def round_half_away(value: float) -> int:
    """C's round(): nearest, ties away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Return (multiplier, exponent) with real ~ multiplier / 2**31 * 2**exponent, multiplier in [2**30, 2**31).

    0.0 gives (0, 0). Formula: frexp in double, mantissa rounded half away from zero, as TFLite's QuantizeMultiplier.
    ModelError for what is no finite number, or shifts an accumulator away, where the reference kernels are undefined: what the
    scales and attributes of a broken file may multiply to.
    """
    if not math.isfinite(real):
        raise ModelError(f"scales: their product must be a finite number, got {real}")
    if real == 0.0:
        return 0, 0
    mantissa, exponent = math.frexp(real)
    multiplier = math.floor(abs(mantissa) * (1 << 31) + 0.5)
    multiplier = int(math.copysign(multiplier, mantissa))
    if abs(multiplier) == 1 << 31:
        multiplier //= 2
        exponent += 1
    if exponent < -31:
        return 0, 0
    if exponent > _MOST_SHIFT:
        raise ModelError(f"scales: their ratio must be below 2**{_MOST_SHIFT}, got {real:.3g}")
    return multiplier, exponent


def round_away(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Nearest whole numbers as floats of the same type, ties away from zero: std::round (0.49999997 of float32 becomes 0)."""
    whole = np.trunc(values)
    result: npt.NDArray[Any] = whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0).astype(values.dtype)
    return result


def table_factor(scale: float) -> tuple[int, int]:
    """(multiplier, right shift) that bring int16 values of a scale to the unit of the LOGISTIC and TANH tables, 1 / (3 * 4096).

    As TFLite's prepare function of both; factors that would leave 32 bits there stay so large that the table saturates.
    """
    exponent = math.log2(scale) + 12
    if exponent in (0, 1):
        return 3 << int(exponent), 0
    factor, shift = scale * 4096 * 3, 0
    while factor <= 32767 / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return int(min(factor, _MOST_TABLE_FACTOR)), shift


def divide_away(values: Ints, bits: int) -> Ints:
    """values / 2**bits to nearest, ties away from zero."""
    mask = (1 << bits) - 1
    return (values >> bits) + ((values & mask) > (mask >> 1) + (values < 0))


def rule_a(values: Ints, factor: float) -> Ints:
    """values * factor with double rounding: TFLite's MultiplyByQuantizedMultiplier over an array."""
    return multiply(values, *quantize_multiplier(factor))


def multiply(values: Ints, multiplier: int, exponent: int) -> Ints:
    """values * multiplier / 2**31 * 2**exponent with double rounding.

    The first rounding takes ties up, with a negative multiplier down (measured on LEAKY_RELU of LiteRT 2.3).
    """
    product = (values << max(exponent, 0)) * multiplier
    high = (product + (1 << 30) - (multiplier < 0)) >> 31
    return divide_away(high, max(-exponent, 0))
