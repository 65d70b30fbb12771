"""Look-up tables of int8 functions: 256 bytes indexed by value + 128, each entry what the reference kernel gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Affine = tuple[np.float32, int]
"""Scale and zero point of a tensor."""
INPUTS = np.arange(-128, 128, dtype=np.int64)
"""Every int8 value, in table order."""


def _rounded(function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> Callable[[Floats], Floats]:
    """A float32 function with at most half a unit of error, as C's library gives it nearly everywhere."""
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


_EXP = _rounded(np.exp)


def _logistic(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + _EXP(-x))


ACTIVATIONS: Mapping[str, Callable[[Floats], Floats]] = {"LOGISTIC": _logistic, "TANH": _rounded(np.tanh)}
"""Functions by the kind of their operator."""


def as_bytes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Table entries, saturated to int8."""
    return np.clip(values, -128, 127).astype(np.int8).view(np.uint8)


def table_bytes(kind: str, source: Affine, target: Affine) -> npt.NDArray[np.uint8]:
    """The table of an activation from the quantisation `source` to `target`; TFLite's PopulateLookupTable (float32)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # infinite beyond float32; no number is 0, as in C
        reals = source[0] * (INPUTS - source[1]).astype(np.float32)
        scaled = ACTIVATIONS[kind](reals.astype(np.float32)) * (np.float32(1) / target[0])
    rounded = np.copysign(np.floor(np.abs(scaled.astype(np.float64)) + 0.5), scaled) + target[1]
    return as_bytes(np.where(np.isnan(rounded), 0, np.clip(rounded, -128, 127)).astype(np.int64))
