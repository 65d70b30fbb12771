"""Runs job rows on several threads, which take chunks of a job in turn; who computes a chunk changes no result."""

from __future__ import annotations

import numpy as np

from npu.native.helpers import Helpers, fastest_chunk
from npu.numerics.arrays import Array
from npu.runtime.operator import Run
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.run import COUNTER_BYTES, help_shared, run_alone, run_shared
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import Rows, Words

_SMALLEST_CHUNK = 5_000
_SMALLEST_SHARED = 100_000
_CHUNKS_PER_THREAD = 3
"""Work is counted in vector operations of 16 lanes, roughly 0.3 ns each: chunks below 1.5 us, and lists of jobs below 30 us, do
not pay for a hand-over."""
_WHOLE_TILES = 12
"""Pixels of most tall tiles: a chunk that ends within one computes some again. Maps of few tiles are cut anywhere."""
_FEW_TILES = 8
_WIDE = 6
"""Blocks of channels of the smallest share of a product."""
_TOLERANCE = 0.02
"""Shares that differ by less in time are as good as each other."""


class Threads:
    """The caller's thread and `count - 1` others, started on first use."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._helpers = Helpers(count - 1, help_shared)

    def prepared(self, rows: Rows) -> Run:
        """What runs all jobs in order, for one caller at a time: on every thread, in chunks chosen here, if sharing pays."""
        work, total = _work_per_row(rows), rows["rows"]
        if self.count == 1 or int((work * total).sum()) < _SMALLEST_SHARED:
            return run_alone.bind(rows.view(np.int64))
        planned, counters = rows.copy(), np.zeros((len(rows), COUNTER_BYTES), np.uint8)
        for row, by_row in zip(planned, work.tolist(), strict=True):
            most = min(self.count * _CHUNKS_PER_THREAD, by_row * int(row["rows"]) // max(_SMALLEST_CHUNK, 1))
            row["by_blocks"], row["chunk"] = shares(row, self.count, most)
        arguments = np.array([address(planned), len(planned), address(counters)], np.int64)

        def run(_kept: tuple[Array, ...] = (planned, counters)) -> None:
            run_shared(self._helpers.begin(arguments))

        return run

    def close(self) -> None:
        """Stop the threads."""
        self._helpers = Helpers(self.count - 1, help_shared)


def shares(row: Rows, threads: int, most: int) -> tuple[bool, int]:
    """Whether threads share the blocks of channels of a job, and the extent of at most `most` chunks."""
    extent, blocks = int(row["rows"]), int(row["groups"])
    if row["kind"] > r.GEMM_REAL:
        return False, max(fastest_chunk(threads, extent, 1, most)[1], 1)
    if extent >= _FEW_TILES * _WHOLE_TILES:
        time, size = fastest_chunk(threads, extent, _WHOLE_TILES, most)
    else:
        time, size = fastest_chunk(threads, extent, 1, min(most, extent // (2 * _WHOLE_TILES)))
    time_of_blocks, size_of_blocks = fastest_chunk(threads, blocks, 1, min(most, blocks // _WIDE))
    # The larger of the two operands should be read by one thread.
    advantage = _TOLERANCE if 16 * blocks > extent else -_TOLERANCE
    by_blocks = time_of_blocks < time + advantage
    return by_blocks, max(size_of_blocks if by_blocks else size, 1)


def _work_per_row(rows: Rows) -> Words:
    """Vector operations per row of each job, at least 1."""
    kinds, blocks = rows["kind"], rows["segments"] * rows["groups"]
    product = np.isin(kinds, (r.GEMM_FLOAT, r.GEMM_BYTE, r.GEMM_REAL))
    depthwise = np.isin(kinds, (r.DEPTHWISE_FLOAT, r.DEPTHWISE_BYTE))
    other = np.maximum(rows["length"] // 2, rows["row_bytes"] // 32)
    elementwise = np.isin(kinds, (*range(r.FLOAT_ADD, r.FLOAT_TANH + 1), r.SOFTMAX_ROWS, r.MOVE))
    other = np.where(elementwise, rows["width"] // 4, other)
    maxima = np.isin(kinds, range(r.MAX_FLOAT, r.MAX_UNSIGNED + 1))
    other = np.where(maxima, rows["segments"] * (1 + rows["width"] // 8), other)
    work: Words = np.where(product, blocks * rows["length"], np.where(depthwise, 2 * blocks * rows["width"], other))
    return np.maximum(work, 1)
