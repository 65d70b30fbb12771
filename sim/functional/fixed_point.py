"""ADD and SUB of 8-bit maps in fixed point, where that gives the bytes of the operation; the only place that finds out.

An operation rounds its inputs and their sum, which takes products of 64 bits. The bytes are nearly always those of a sum of
products with 30 bits after the point. Nothing has to be proven: there are but 65,536 pairs of inputs, which take some 80 us.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.functional.kernels import rows as r
from sim.functional.kernels.output import ADD, SUB
from sim.functional.kernels.run import run
from sim.functional.kernels.values import zeroed
from sim.functional.packing import PackedRow

_FACTOR_BITS = 15
"""Of the parts of a factor, besides the sign."""
_PAIRS = 1 << 16
_NUDGES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
"""What is tried for the few results that the operation's roundings bring to the other side of a half: parts of 2**-24 that are
added to the scale of all, and parts of 2**-17 that are added to the result."""


def use_fixed_point(row: PackedRow) -> None:
    """Let the kernels compute a row of the kind ELEMENTWISE in fixed point, if every pair of inputs has the same output."""
    operands: Any = row.planned.arrays["operands"][0]
    if operands["mode"] not in (ADD, SUB) or row.planned.limits is None:
        return
    expected = _outputs(row)
    factors, zero_points = _real_numbers(operands, row.planned.arrays["stage"][0])
    for of_scale, of_result in _NUDGES:
        nudged = [factor * (1 + of_scale * 2.0**-24) for factor in factors]
        addend = float(row.planned.limits["zero_point"][0][0]) + 0.5 + of_result * 2.0**-17
        operands["fixed_point"] = _fixed_point(nudged, addend - nudged[0] * zero_points[0] - nudged[1] * zero_points[1])
        operands["fixed_point"]["is_exact"] = 1
        if np.array_equal(_outputs(row), expected):
            return
    operands["fixed_point"]["is_exact"] = 0


def _real_numbers(operands: Any, stage: Any) -> tuple[list[float], list[int]]:
    """By how much each input counts in the output, and what is its zero."""
    scale = float(stage["multiplier"][0]) * 2.0 ** (int(stage["left_shift"][0]) - 32 - int(stage["right_shift"][0]))
    sides = operands["first"], operands["second"]
    factors = [scale * side["multiplier"] * 2.0 ** -int(side["shift"] + side["right_shift"]) for side in sides]
    factors[1] *= 1 if operands["mode"] == ADD else -1
    return factors, [int(side["zero_point"]) for side in sides]


def _fixed_point(factors: list[float], addend: float) -> npt.NDArray[np.void]:
    """`FIXED_POINT` for the sum of both inputs times their factors, and an addend."""
    shift = 31 - int(abs(addend) + 255 * sum(map(abs, factors)) + 1).bit_length()
    high_shift = max(1, int(max(map(abs, factors)) * 2**shift).bit_length() - _FACTOR_BITS)
    low_shift = _FACTOR_BITS + 1 - high_shift
    result = zeroed(r.FIXED_POINT)
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


def _outputs(row: PackedRow) -> npt.NDArray[np.uint8]:
    """What the row's operation gives for every pair of inputs."""
    inputs, outputs, none = _inputs(), np.empty(_PAIRS, np.uint8), np.zeros(1, np.int64)
    table = np.frombuffer(bytearray(row.numbers.tobytes()), r.ROW)
    for name in ("in_table", "in2_table", "out_table"):
        table[name] = none.ctypes.data
    for name in ("in_shift", "in2_shift", "out_shift"):
        table[name] = 0
    for name, number in (("in_region", 0), ("in2_region", 1), ("out_region", 2), ("is_flat", 1), ("pixels", 1), ("blocks", 1)):
        table[name] = number
    for name, number in (("width", _PAIRS // 16), ("tail", 16), ("in_pixel", 16), ("in2_pixel", 16), ("out_pixel", 16)):
        table[name] = number
    run(table, np.array([array.ctypes.data for array in (*inputs, outputs)], np.int64), 0, False, True)
    return outputs


@functools.cache
def _inputs() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Every pair of bytes."""
    pairs = np.arange(_PAIRS)
    return (pairs >> 8).astype(np.uint8), pairs.astype(np.uint8)
