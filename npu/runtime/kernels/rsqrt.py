"""Fixed-point 1 / sqrt of quantised values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu.numerics.rounding import multiply_by_quantised_multiplier
from npu.numerics.rounding import saturating_rounding_doubling_high_mul as high_mul

Array = npt.NDArray[Any]
_F3_THREE_HALVES = (1 << 28) + (1 << 27)


def _one(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as a Q0.31 multiplier and a left shift; five Newton steps in Q3.28 (TFLite's
    GetInvSqrtQuantizedMultiplierExp)."""
    if value <= 1:
        return (1 << 31) - 1, 0
    shift = 11
    while value >= 1 << 29:
        value //= 4
        shift += 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    shift -= pairs
    value <<= 2 * pairs
    half = (value + 1) // 2
    x = 1 << 28
    for _ in range(5):
        cube = _rescale_q3(high_mul(high_mul(x, x), x), 6)
        x = _rescale_q3(high_mul(_F3_THREE_HALVES, x) - high_mul(half, cube), 3)
    return int(_saturate(high_mul(x, 1518500250))), -shift


def _rescale_q3(value: int, bits: int) -> int:
    return int(_saturate(int(value) << bits))


def _saturate(value: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, int(value)))


def inverse_square_root(values: Array, multiplier: int, exponent: int, zero_point: int) -> Array:
    """Outputs for non-negative int8 or int16 values (n), int64; 0 gives the largest value."""
    kinds: dict[int, int] = {}
    for value in np.unique(values).tolist():
        if value == 0:
            kinds[value] = (1 << 31) - 1
            continue
        inverse, shift = _one(value)
        data = int(multiply_by_quantised_multiplier(1, inverse, shift + 20))
        kinds[value] = int(multiply_by_quantised_multiplier(data, multiplier, exponent - 20)) + zero_point
    return np.array([kinds[value] for value in values.tolist()], np.int64)
