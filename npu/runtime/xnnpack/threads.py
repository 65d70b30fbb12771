"""Runs job rows on several threads, which take chunks of a job in turn; who computes a chunk changes no result."""

from __future__ import annotations

import numpy as np

from npu.native.chunks import fastest_chunks
from npu.native.cpu import current
from npu.native.helpers import Helpers
from npu.native.steps import joined_steps, make_steps
from npu.numerics.arrays import Array
from npu.runtime.operator import Run
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.run import help_shared, run_alone, run_shared
from npu.runtime.xnnpack.kernels.tiles import tile_heights, tile_width
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import Rows, Words

_CHUNKS_PER_THREAD = 6
_SMALLEST_CHUNK = 1_000 * current().lanes // 16
_SMALLEST_SHARED = 50 * _SMALLEST_CHUNK
"""Work is counted in vector operations of 16 lanes, roughly 0.15 ns each where a register has so many: chunks below 0.15 us,
and lists of jobs below 8 us, do not pay for a hand-over."""
_STORING = 4
"""What 16 results of a product cost beside its multiplications."""
_MORE_WORK = {r.FLOAT_TANH: 12, r.SOFTMAX_ROWS: 20, r.MOVE: 6}
"""How many times as long as a sum an elementwise job takes."""
_SUM_OF_BYTES = {r.ADD_BYTES: 80, r.SUBTRACT_BYTES: 80, r.FIXED_POINT_SUM: 30}
"""What 64 elements cost."""
_FEW_PIXELS = 64
"""Below, threads rather share the blocks of channels, so that each reads its own weights; with more, pixels, so that each reads
what it wrote before."""
_GAIN, _LOSS, _DEPTHWISE_LOSS = 0.02, 0.1, 0.2
"""What that gains and loses, in the time of one thread; a depthwise convolution reads more, and before it rows were shared."""


class Threads:
    """The caller's thread and `count - 1` others, started on first use."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._start()

    def _start(self) -> None:
        self._helpers = Helpers(self.count - 1, run_shared, help_shared)

    def prepared(self, rows: Rows) -> Run:
        """What runs all jobs in order, for one caller at a time: on every thread, in chunks chosen here, if sharing pays."""
        work = work_per_row(rows) * rows["rows"]
        if self.count == 1 or int(work.sum()) < _SMALLEST_SHARED:
            return run_alone.bind(rows.view(np.int64))
        planned = rows.copy()
        most = np.minimum(self.count * _CHUNKS_PER_THREAD, work // _SMALLEST_CHUNK)
        most = np.where(rows["kind"] == r.CASCADE, rows["segments"], most).tolist()
        counts = [share(row, self.count, limit) for row, limit in zip(planned, most, strict=True)]
        steps = make_steps(joined_steps(address(planned), r.JOB_BYTES, counts))
        arguments = np.array([address(steps), len(steps)], np.int64)

        def run(_kept: tuple[Array, ...] = (planned, steps)) -> None:
            self._helpers.run(arguments)

        return run

    def close(self) -> None:
        """Stop the threads."""
        self._start()


def share(row: Rows, threads: int, most: int) -> int:
    """The number of chunks of a job, at most `most`; the row says which."""
    kind, extent, blocks = int(row["kind"]), int(row["rows"]), int(row["groups"])
    is_product, pixels = kind <= r.GEMM_REAL, extent * max(int(row["width"]), 1)
    chunks = fastest_chunks(threads, extent, tile_heights(kind, blocks) if is_product else (1,), most)
    if kind <= r.DEPTHWISE_BYTE:
        of_blocks = fastest_chunks(threads, blocks, (int(tile_width(blocks)),) if is_product else (1,), most)
        gain = -_DEPTHWISE_LOSS if not is_product else _GAIN if pixels < _FEW_PIXELS else -_LOSS
        if of_blocks.number > 1 and of_blocks.time < chunks.time + gain:
            row["by_blocks"], chunks = True, of_blocks
    row["chunk"] = chunks.size
    return chunks.number


def work_per_row(rows: Rows) -> Words:
    """Vector operations per row of each job, at least 1."""
    kinds, blocks = rows["kind"], rows["segments"] * rows["groups"]
    product = np.isin(kinds, (r.GEMM_FLOAT, r.GEMM_BYTE, r.GEMM_REAL))
    depthwise = np.isin(kinds, (r.DEPTHWISE_FLOAT, r.DEPTHWISE_BYTE))
    other = np.maximum(rows["length"] // 2, rows["row_bytes"] // 32)
    elementwise = np.isin(kinds, (*range(r.FLOAT_ADD, r.FLOAT_TANH + 1), r.SOFTMAX_ROWS, r.MOVE))
    other = np.where(elementwise, rows["width"] // 4, other)
    for kind, times in _MORE_WORK.items():
        other = np.where(kinds == kind, times * other, other)
    other = np.where(np.isin(kinds, (r.FLIP_ROWS, r.COPY_ROWS)), rows["row_bytes"] // 8, other)
    for kind, cost in _SUM_OF_BYTES.items():
        other = np.where(kinds == kind, cost, other)
    maxima = np.isin(kinds, range(r.MAX_FLOAT, r.MAX_UNSIGNED + 1))
    other = np.where(maxima, rows["segments"] * (1 + rows["width"] // 8), other)
    other = np.where(kinds == r.CASCADE, rows["length"], other)
    products = blocks * rows["length"] + _STORING * rows["groups"]
    work: Words = np.where(product, products, np.where(depthwise, 2 * blocks * rows["width"], other))
    return np.maximum(work, 1)
