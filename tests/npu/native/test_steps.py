"""Steps that threads share: every chunk is done once, whoever takes it, and who waits for long sleeps."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from npu.native.steps import joined_steps
from npu.runtime.xnnpack import threads as threads_module
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.threads import Threads

ELEMENTS = 1 << 21


@pytest.fixture
def shares_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "_SMALLEST_SHARED", 1)


def hyperbolic_tangents(rows: int, source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """A job of so many rows."""
    job = np.zeros(1, r.JOB)
    width = source.size // rows
    job["kind"], job["rows"], job["width"] = r.FLOAT_TANH, rows, width
    job["input"], job["out"], job["input_step"], job["out_step"] = address(source), address(out), 4 * width, 4 * width
    job["low"], job["high"] = (int(np.float32(bound).view(np.int32)) for bound in (-np.inf, np.inf))
    return job


def test_jobs_that_one_thread_does_alone_are_one_step() -> None:
    assert joined_steps(100, 8, [1, 1, 3, 1, 2, 2, 1]) == [
        (100, 2, 1), (116, 0, 3), (124, 1, 1), (132, 0, 2), (140, 0, 2), (148, 1, 1),
    ]  # fmt: skip
    assert joined_steps(0, 8, []) == []


@pytest.mark.usefixtures("shares_everything")
@pytest.mark.parametrize("count", [2, 5])
def test_steps_are_done_one_after_another(count: int) -> None:
    maps = [np.random.default_rng(3).normal(size=3000).astype(np.float32), *(np.zeros(3000, np.float32) for _ in range(4))]
    rows = (1, 30, 7, 500)
    jobs = [hyperbolic_tangents(n, before, after) for n, before, after in zip(rows, maps, maps[1:], strict=False)]
    threads = Threads(count)
    run = threads.prepared(np.concatenate(jobs))
    for _ in range(20):
        maps[-1][:] = 0
        run()
        expected = maps[0]
        for _ in jobs:
            expected = np.tanh(expected)
        size = maps[-1].size // 7 * 7
        np.testing.assert_allclose(maps[-1][:size], expected[:size], rtol=1e-5)
    threads.close()


@pytest.mark.usefixtures("shares_everything")
def test_a_thread_with_nothing_to_do_sleeps_until_the_next_step() -> None:
    source, out = np.ones(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    threads = Threads(2)
    run = threads.prepared(np.concatenate([hyperbolic_tangents(1, source, out)] * 10))
    run()
    start, used = time.perf_counter(), time.process_time()
    run()
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - used
    assert processor_seconds < (1.5 if sys.platform == "linux" else 2.5) * seconds
    threads.close()
