"""The filters of PNG rows; the only place that undoes them. A photo has millions of bytes, each of which needs its left one."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel


@kernel(ty.void(ty.constant(ty.uint8, 2), ty.int64, ty.uint8[:, ::1]))
def undo_filters(rows, channels, out):  # type: ignore[no-untyped-def]
    """Rows (height, 1 + bytes) uint8, each with its filter type 0-4 first, into rows 1.. of `out` (height + 1, bytes).

    Row 0 of `out` must be zero. Filters of PNG section 9: none, left, above, average, Paeth.
    """
    for y in range(rows.shape[0]):
        kind = rows[y, 0]
        for i in range(out.shape[1]):
            left = np.int64(out[y + 1, i - channels]) if i >= channels else np.int64(0)
            above = np.int64(out[y, i])
            guess = np.int64(0)
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = above
            elif kind == 3:
                guess = (left + above) // 2
            elif kind == 4:
                corner = np.int64(out[y, i - channels]) if i >= channels else np.int64(0)
                guess = _paeth(left, above, corner)
            out[y + 1, i] = np.uint8((np.int64(rows[y, i + 1]) + guess) & 255)


@kernel(ty.int64(ty.int64, ty.int64, ty.int64))
def _paeth(left, above, corner):  # type: ignore[no-untyped-def]
    """The neighbour nearest to left + above - corner; in a tie left, then above."""
    base = left + above - corner
    to_left, to_above, to_corner = abs(base - left), abs(base - above), abs(base - corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner
