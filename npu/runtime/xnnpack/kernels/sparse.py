"""Products with sparse matrices, one output channel over all pixels at a time."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

_WORDS = ty.constant(ty.int64, 1)
_FLOATS = ty.constant(ty.float32, 1)
_MAP = ty.constant(ty.float32, 2)


@kernel(ty.void(_MAP, _WORDS, _WORDS, _FLOATS, _FLOATS, ty.float32, ty.float32, ty.float32[:, ::1]))
def multiply_sparse(ifm, starts, columns, values, bias, low, high, out):  # type: ignore[no-untyped-def]
    """out[n, m] = clamp(bias[n] + sum over stored k of ifm[columns[k], m] * values[k]); maps are (channels, pixels)."""
    pixels = ifm.shape[1]
    for n in range(out.shape[0]):
        for m in range(pixels):
            out[n, m] = bias[n]
        for k in range(starts[n], starts[n + 1]):
            column, value = columns[k], values[k]
            for m in range(pixels):
                out[n, m] += ifm[column, m] * value
        for m in range(pixels):
            out[n, m] = np.float32(min(max(out[n, m], low), high))
