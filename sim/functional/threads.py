"""Runs the rows of a stream on several threads, which take chunks of an operation in turn; who computes one changes no byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from npu.native.chunks import fastest_chunks
from npu.native.cpu import current
from npu.native.helpers import Helpers
from npu.native.steps import joined_steps, make_steps
from npu.numerics import pair_tiles
from sim.functional.kernels import rows as r
from sim.functional.kernels.run import CHUNKS, PADDED_CHUNKS, PADDING, help_shared, run_shared

_HAS_DOT_PRODUCT = current().has_dot_product
_SMALLEST_CHUNK = 1 << (11 if _HAS_DOT_PRODUCT else 10)
"""Work of a chunk in products of 4 inputs and 16 channels, about 0.6 us: less does not pay for taking it. Without an
instruction for them they take four times as long."""
_SMALLEST_STREAM = 16 * _SMALLEST_CHUNK
"""Work of all operations, about 10 us: with less, two threads are no faster than one."""
_CHUNKS_PER_THREAD = 3
_FEW_PIXELS = 64
"""Below, threads share the groups of channels, so that each reads its own weights; with more, what it wrote before."""
_FEW_ROWS = 8
"""The same of a depthwise convolution."""
_READING_ALL = 0.05
"""What it costs if every thread reads all weights, in the time of one."""
_TILES = {1: (12,), 2: (8,), 3: (8,), 4: (8, 6)} if _HAS_DOT_PRODUCT else dict.fromkeys(range(1, 5), (pair_tiles.HEIGHT,))
"""Pixels of a tile by groups of channels: a chunk smaller than the first would compute those of others, not padded."""


class StreamThreads:
    """The caller's thread and `count - 1` others, started on first use."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._helpers = Helpers(count - 1, run_shared, help_shared)

    def prepared(
        self, rows: npt.NDArray[np.void], bases: npt.NDArray[np.int64], *, with_dot_product: bool
    ) -> Callable[[], int] | None:
        """What executes the rows, as often as one likes, and returns their number. None if threads cannot or need not run
        them."""
        if self.count == 1 or bool((rows["kind"] == r.GENERAL).any()):
            return None
        if not bool(rows["is_known"][np.isin(rows["kind"], (r.CONVOLUTION, r.DEPTHWISE))].all()):
            return None
        shares = [self._share(row) for row in rows]
        if sum(work for work, _ in shares) < _SMALLEST_STREAM:
            return None
        steps = make_steps(list(_steps(rows, [count for _, count in shares])))
        kept = rows, bases, steps
        arguments = np.array([steps.ctypes.data, steps.size, bases.ctypes.data, bases.size, with_dot_product], np.int64)

        def again(_kept: tuple[npt.NDArray[np.generic], ...] = kept) -> int:
            self._helpers.run(arguments)
            return rows.size

        return again

    def _share(self, row: np.void) -> tuple[int, int]:
        """The work and the number of chunks of a row, which says how it is shared."""
        kind, pixels, blocks, width = (int(row[name]) for name in ("kind", "pixels", "blocks", "width"))
        inputs = int(row["segments"]) * int(row["dwords"]) + 8
        row["is_by_block"] = row["chunk"] = 0
        if kind not in (r.CONVOLUTION, r.DEPTHWISE, r.ELEMENTWISE) or row["finish"] == r.SUM:
            return 0, 1
        is_product = kind == r.CONVOLUTION
        work = pixels * blocks * (inputs if is_product else 20 * width)
        most = min(self.count * _CHUNKS_PER_THREAD, work // _SMALLEST_CHUNK)
        extent = width if row["is_flat"] else pixels
        chunks = fastest_chunks(self.count, extent, _TILES[min(blocks, 4)] if is_product else (1,), most)
        if (is_product and pixels < _FEW_PIXELS) or (kind == r.DEPTHWISE and pixels < _FEW_ROWS):
            of_blocks = fastest_chunks(self.count, blocks, (1,), most)
            if of_blocks.time <= chunks.time + _READING_ALL:
                row["is_by_block"], chunks = 1, of_blocks
        row["chunk"] = chunks.size
        return work, chunks.number


def _steps(rows: npt.NDArray[np.void], counts: list[int]) -> Iterator[tuple[int, int, int]]:
    """Rows in chunks, each after its padding, and between them as many rows as one thread does alone."""
    start = rows.ctypes.data
    for at, alone, count in joined_steps(start, r.ROW_BYTES, counts):
        row = rows[(at - start) // r.ROW_BYTES]
        if alone > 0:
            yield at, alone, count
        elif row["pad_rows"] > 0 and row["kind"] == r.CONVOLUTION and not (row["is_by_block"] or row["is_overwritten"]):
            yield at, PADDED_CHUNKS, count
        else:
            yield from [(at, PADDING, 1)] * int(row["pad_rows"] > 0)
            yield at, CHUNKS, count
