"""Runs the rows of a stream on several threads, which take chunks of an operation in turn; who computes one changes no byte."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npu.native.helpers import Helpers, fastest_chunk
from sim.functional.kernels import rows as r
from sim.functional.kernels.run import COUNTER_BYTES, help_shared, run_shared

_SMALLEST_CHUNK = 1 << 13
"""Work of a chunk in vector instructions of 16 lanes, about 1.3 us: less does not pay for taking it."""
_SMALLEST_STREAM = 1 << 19
"""Work of all operations, about 80 us: with less, two threads are no faster than one."""
_CHUNKS_PER_THREAD = 3
_FEW_PIXELS = 256
"""Up to here threads share the groups of channels, so that each reads its own weights."""
_FEW_ROWS = 32
"""The same of a depthwise convolution."""
_READING_ALL = 0.05
"""What it costs if every thread reads all weights, in the time of one."""
_WHOLE_TILES = 12
"""Pixels of the largest tile, below which a chunk would compute those of others."""


class StreamThreads:
    """The caller's thread and `count - 1` others, started on first use."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._helpers = Helpers(count - 1, help_shared)

    def share(self, rows: npt.NDArray[np.void]) -> bool:
        """Say in the rows how they are shared. False if threads cannot run them, or would not be faster."""
        if self.count == 1 or bool((rows["kind"] == r.GENERAL).any()):
            return False
        if not bool(rows["is_known"][np.isin(rows["kind"], (r.CONVOLUTION, r.DEPTHWISE))].all()):
            return False
        work = sum(self._share(row) for row in rows)
        return work >= _SMALLEST_STREAM

    def _share(self, row: np.void) -> int:
        """Set how a row is shared; its work."""
        kind, pixels, blocks, width = (int(row[name]) for name in ("kind", "pixels", "blocks", "width"))
        inputs = int(row["segments"]) * int(row["dwords"]) + 8
        row["is_by_block"] = row["chunk"] = 0
        if kind not in (r.CONVOLUTION, r.DEPTHWISE, r.ELEMENTWISE) or row["finish"] == r.SUM:
            return 0
        is_product = kind == r.CONVOLUTION
        total = pixels * blocks * (inputs if is_product else 20 * width)
        most = min(self.count * _CHUNKS_PER_THREAD, total // _SMALLEST_CHUNK)
        extent = width if row["is_flat"] else pixels
        duration, chunk = fastest_chunk(self.count, extent, _WHOLE_TILES if is_product else 1, most)
        if (is_product and pixels < _FEW_PIXELS) or (kind == r.DEPTHWISE and pixels < _FEW_ROWS):
            by_block, blocks_each = fastest_chunk(self.count, blocks, 1, most)
            if by_block <= duration + _READING_ALL:
                duration, chunk, row["is_by_block"] = by_block, blocks_each, 1
        row["chunk"] = chunk if duration < 1 else 0
        return total

    def bind(self, rows: npt.NDArray[np.void], bases: npt.NDArray[np.int64], *, with_dot_product: bool) -> Callable[[], int]:
        """What executes shared rows, as often as one likes; it returns their number."""
        counters = np.empty(rows.size * COUNTER_BYTES, np.uint8)
        kept = rows, bases, counters
        addresses = [number for array in kept for number in (array.ctypes.data, array.size)]
        arguments = np.array([*addresses, with_dot_product], np.int64)

        def again(_kept: tuple[npt.NDArray[np.generic], ...] = kept) -> int:
            run_shared(self._helpers.begin(arguments))
            return rows.size

        return again
