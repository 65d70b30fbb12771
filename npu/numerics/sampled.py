"""The samples through which a function of int16 values is interpolated: TFLite's LUTPopulate."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.numerics.arrays import Ints
from npu.numerics.scaling import round_away

_LINES = 512
"""Straight lines between samples, each for 128 values."""
_LEAST, _MOST = -(1 << 15), (1 << 15) - 1
SOFTMAX_RANGE = 10.0
"""Distances to the maximum from which SOFTMAX of int16 takes exp() for the smallest number."""


def samples_16bit(
    function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
    source: tuple[float | np.floating[Any], int],
    target: tuple[float | np.floating[Any], int],
    real: type[np.floating[Any]] = np.float32,
) -> Ints:
    """513 stored results (int64) of a function over all int16 values, computed in the type `real`.

    Each but the last is moved by half of what the line behind it would be wrong in its middle. What is no number is 0. `source`
    and `target` are scale and zero point of operand and result; `function` takes and gives vectors of the type.
    """
    (low, high), (out_low, out_high) = (
        [real(scale) * real(end - zero_point) for end in (_LEAST, _MOST)] for scale, zero_point in (source, target)
    )
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        step, inverse = (high - low) / real(_LINES), real(1 << 16) / (out_high - out_low)
        starts = low + np.arange(_LINES + 1, dtype=real) * step
        at, middle = function(starts), function(starts + step / real(2))
        rounded = round_away(at * inverse)
        between = round_away((at[1:] * inverse + rounded[:-1]) / real(2))
        bias = round_away((between - round_away(middle[:-1] * inverse)) / real(2))
        samples = np.concatenate([rounded[:-1] - bias, round_away(function(np.array([high])) * inverse)])
    result: Ints = np.nan_to_num(np.clip(samples, _LEAST, _MOST), nan=0.0).astype(np.int64)
    return result


@cache
def softmax_exponentials() -> Ints:
    """The samples of exp(x) for x from -10 to 0, with 15 fraction bits: SOFTMAX of int16 computes them in double."""
    source = SOFTMAX_RANGE / 65535, _MOST
    return samples_16bit(lambda x: np.array([math.exp(value) for value in x]), source, (2 / 65535, 0), np.float64)


@cache
def softmax_reciprocals() -> Ints:
    """The same of 1 / (1 + x) for x from 0 to 1."""
    return samples_16bit(lambda x: 1 / (1 + x), (1 / 65535, _LEAST), (2 / 65535, 0), np.float64)
