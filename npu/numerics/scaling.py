"""Real factors as integer multiplier and shift: the only place that turns a float scale into register values."""

from __future__ import annotations

import math

from npu.errors import ModelError


def quantise_multiplier(real: float) -> tuple[int, int]:
    """Return (multiplier, exponent) with real ~ multiplier / 2**31 * 2**exponent, multiplier in [2**30, 2**31).

    0.0 gives (0, 0). Formula: frexp in double, mantissa rounded half away from zero, as TFLite's QuantizeMultiplier.
    ModelError for what is no finite number, as the scales and attributes of a broken file may multiply to.
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
    return multiplier, exponent
