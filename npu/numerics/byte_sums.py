"""Sums of two bytes, scaled, in fixed point: the numbers of it, and every pair of bytes with which to see whether it is exact.

An operation rounds its inputs and their sum, which takes products of 64 bits. The bytes are nearly always those of a sum of
products with 30 bits after the point. Nothing has to be proven: there are but 65,536 pairs of inputs, which take some 80 us.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npu.numerics.arrays import Array

FIXED_POINT = np.dtype(
    [
        (name, np.int64)
        for name in (
            "is_exact",  # whether it gives the bytes of the operation for all inputs
            *("high_factors", "low_factors"),  # two 16-bit numbers each, of the first and the second input
            *("high_addend", "low_addend"),
            *("high_shift", "low_shift"),  # left of the sum of high products, right of the low ones
            "shift",  # of both, which leaves the output
        )
    ]
)
"""ADD and SUB in fixed point: products of the inputs, made unsigned, with factors of 32 bits in two parts."""
PAIRS_OF_BYTES = 1 << 16
_FACTOR_BITS = 15
"""Of the parts of a factor, besides the sign."""
_NUDGES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
"""What is tried for the few results that the operation's roundings bring to the other side of a half: parts of 2**-24 that are
added to the scale of all, and parts of 2**-17 that are added to the result."""


def exact_fixed_point(
    factors: list[float], zero_points: list[int], zero_point: float, is_exact: Callable[[npt.NDArray[np.void]], bool]
) -> npt.NDArray[np.void] | None:
    """FIXED_POINT of an operation, of which `is_exact` says whether it gives its bytes; None if nothing that is tried does.

    The output is its zero point plus the sum of both inputs, less their zero points, times their factors.
    """
    for of_scale, of_result in _NUDGES:
        nudged = [factor * (1 + of_scale * 2.0**-24) for factor in factors]
        addend = zero_point + 0.5 + of_result * 2.0**-17
        tried = _fixed_point(nudged, addend - nudged[0] * zero_points[0] - nudged[1] * zero_points[1])
        if is_exact(tried):
            return tried
    return None


def _fixed_point(factors: list[float], addend: float) -> npt.NDArray[np.void]:
    """`FIXED_POINT` for the sum of both inputs times their factors, and an addend."""
    shift = 31 - int(abs(addend) + 255 * sum(map(abs, factors)) + 1).bit_length()
    high_shift = max(1, int(max(map(abs, factors)) * 2**shift).bit_length() - _FACTOR_BITS)
    low_shift = _FACTOR_BITS + 1 - high_shift
    result = np.frombuffer(bytearray(FIXED_POINT.itemsize), FIXED_POINT)
    result["is_exact"] = 1
    if shift < 0 or low_shift < 0:
        return result
    high = [min(round(factor * 2.0 ** (shift - high_shift)), (1 << _FACTOR_BITS) - 1) for factor in factors]
    low = [round((factor * 2**shift - h * 2**high_shift) * 2**low_shift) for factor, h in zip(factors, high, strict=True)]
    result["high_factors"], result["low_factors"] = _pair(high), _pair(low)
    result["high_addend"] = whole = int(addend * 2**shift) >> high_shift
    result["low_addend"] = round((addend * 2**shift - whole * 2**high_shift) * 2**low_shift)
    result["high_shift"], result["low_shift"], result["shift"] = high_shift, low_shift, shift
    return result


def _pair(factors: list[int]) -> int:
    """Two 16-bit numbers as one of 32 bits."""
    limit = 1 << _FACTOR_BITS
    first, second = (min(max(factor, -limit), limit - 1) & 0xFFFF for factor in factors)
    return second << 16 | first


@functools.cache
def every_pair_of_bytes() -> tuple[Array, Array]:
    """All first and all second bytes."""
    pairs = np.arange(PAIRS_OF_BYTES)
    return (pairs >> 8).astype(np.uint8), pairs.astype(np.uint8)
