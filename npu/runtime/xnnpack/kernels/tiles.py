"""How products are cut into tiles of pixels by blocks of 16 channels; a kernel computes one in registers."""

from __future__ import annotations

import numpy as np

from npu.native.kernel import Inlined

HEIGHTS = (14, 12, 8, 6)
"""Pixels of a tall tile of one to four blocks."""


@Inlined
def tile_width(left):  # type: ignore[no-untyped-def]
    """How many blocks of channels to take at once, so that the last tile is not narrow."""
    if left <= 4:
        return np.int64(left)
    if (left % 4 != 0 and left % 3 == 0) or left == 5:
        return np.int64(3)
    return np.int64(4)
