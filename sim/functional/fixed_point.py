"""ADD and SUB of 8-bit maps in fixed point (`npu.numerics.byte_sums`), where that gives the bytes of the operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu.numerics.byte_sums import PAIRS_OF_BYTES, every_pair_of_bytes, exact_fixed_point
from sim.functional.kernels import rows as r
from sim.functional.kernels.output import ADD, SUB
from sim.functional.kernels.run import run
from sim.functional.packing import PackedRow


def use_fixed_point(row: PackedRow) -> None:
    """Let the kernels compute a row of the kind ELEMENTWISE in fixed point, if every pair of inputs has the same output."""
    operands: Any = row.planned.arrays["operands"][0]
    if operands["mode"] not in (ADD, SUB) or row.planned.limits is None:
        return
    expected = _outputs(row)

    def is_exact(tried: npt.NDArray[np.void]) -> bool:
        operands["fixed_point"] = tried[0]
        return np.array_equal(_outputs(row), expected)

    factors, zero_points = _real_numbers(operands, row.planned.arrays["stage"][0])
    if exact_fixed_point(factors, zero_points, float(row.planned.limits["zero_point"][0][0]), is_exact) is None:
        operands["fixed_point"]["is_exact"] = 0


def _real_numbers(operands: Any, stage: Any) -> tuple[list[float], list[int]]:
    """By how much each input counts in the output, and what is its zero."""
    scale = float(stage["multiplier"][0]) * 2.0 ** (int(stage["left_shift"][0]) - 32 - int(stage["right_shift"][0]))
    sides = operands["first"], operands["second"]
    factors = [scale * side["multiplier"] * 2.0 ** -int(side["shift"] + side["right_shift"]) for side in sides]
    factors[1] *= 1 if operands["mode"] == ADD else -1
    return factors, [int(side["zero_point"]) for side in sides]


def _outputs(row: PackedRow) -> npt.NDArray[np.uint8]:
    """What the row's operation gives for every pair of inputs."""
    inputs, outputs, none = every_pair_of_bytes(), np.empty(PAIRS_OF_BYTES, np.uint8), np.zeros(1, np.int64)
    table = np.frombuffer(bytearray(row.numbers.tobytes()), r.ROW)
    for name in ("in_table", "in2_table", "out_table"):
        table[name] = none.ctypes.data
    for name in ("in_start", "in2_start", "out_start"):
        table[name] = 0
    for name, number in (("in_region", 0), ("in2_region", 1), ("out_region", 2), ("is_flat", 1), ("pixels", 1), ("blocks", 1)):
        table[name] = number
    for name, number in (("width", PAIRS_OF_BYTES // 16), ("tail", 16), ("in_pixel", 16), ("in2_pixel", 16), ("out_pixel", 16)):
        table[name] = number
    run(table, np.array([array.ctypes.data for array in (*inputs, outputs)], np.int64), 0, False, True)
    return outputs
