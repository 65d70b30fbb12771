"""Runs job rows on several threads that meet at a barrier after every job; each thread has a fixed, disjoint part of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from npu.runtime.xnnpack.kernels.run import run_jobs
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import Words


class Threads:
    """The caller's thread and `count - 1` others, started on first use."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def run(self, rows: Words) -> None:
        """All jobs in order."""
        if self.count == 1:
            run_jobs(rows, 0, 1, 0)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count - 1, "xnnpack")
        counter = np.zeros(1, np.int64)
        at = address(counter)
        others = [self._pool.submit(run_jobs, rows, thread, self.count, at) for thread in range(1, self.count)]
        run_jobs(rows, 0, self.count, at)
        for other in others:
            other.result()

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
