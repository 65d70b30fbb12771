"""How products are cut into tiles of pixels by blocks of 16 channels; a kernel computes one in registers."""

from __future__ import annotations

import numpy as np

from npu.native.cpu import current
from npu.native.kernel import Inlined
from npu.numerics import pair_tiles
from npu.runtime.xnnpack.kernels import row as r

HEIGHTS = {32: (14, 12, 8, 6), 8: (6,), 4: (2,)}[current().wide_registers]
"""Pixels of a tall tile, by its blocks of channels less one: sums that the registers hold beside weights and an input."""
WIDEST = len(HEIGHTS)
NARROW_HEIGHT = 0 if current().lanes == 16 else 8
"""Of floats of the channels of one register, where 16 take several; 0 where they do not."""
LESS_TALL = 3
"""From so many blocks on there are tiles of one pixel less, for maps like 7 by 7 that they cover with fewer tiles' rests."""


@Inlined
def tile_width(left):  # type: ignore[no-untyped-def]
    """How many blocks of channels to take at once, so that the last tile is not narrow."""
    if left <= WIDEST:
        return np.int64(left)
    if WIDEST == 4 and ((left % 4 != 0 and left % 3 == 0) or left == 5):
        return np.int64(3)
    return np.int64(WIDEST)


def tile_heights(kind: int, blocks: int) -> tuple[int, ...]:
    """Pixels of the tiles of a product of this kind with so many blocks of channels."""
    if kind == r.GEMM_REAL:
        return (1,)
    if kind == r.GEMM_BYTE and not current().has_dot_product:
        return (pair_tiles.HEIGHT,)
    width = int(tile_width(blocks))
    height = HEIGHTS[width - 1]
    return (height, height - 1) if width >= LESS_TALL else (height,)
