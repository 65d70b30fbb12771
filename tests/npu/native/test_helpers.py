"""Threads that help: they are woken, take part in later work, and end with their owner."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from npu.native.gate import ARGUMENTS
from npu.native.helpers import Helpers, SharedWork
from sim.functional.kernels.run import help_shared, run_shared

from tests.support.processes import ROOT

SECONDS = 60.0


def until(condition: object) -> None:
    end = time.monotonic() + SECONDS
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.001)


class Doing:
    """In place of the kernel that does the work: notes what it was."""

    def __init__(self, done: list[int]) -> None:
        self.done = done

    def bind(self, work: SharedWork) -> Callable[[], object]:
        return lambda: self.done.append(int(work[ARGUMENTS]))


def crew_of(seen: list[int], done: list[int] | None = None) -> Helpers:
    return Helpers(2, Doing([] if done is None else done), lambda work: seen.append(int(work[ARGUMENTS])))


def test_every_thread_helps_with_every_piece_of_work() -> None:
    seen: list[int] = []
    done: list[int] = []
    helpers = crew_of(seen, done)
    for number in range(1, 6):
        helpers.run(np.array([number]))
        until(lambda number=number: seen.count(number) == 2 and helpers._crew.asleep == 2)
    assert sorted(seen) == [number for number in range(1, 6) for _ in range(2)]
    assert done == [1, 2, 3, 4, 5]


def test_threads_end_with_their_owner() -> None:
    before = threading.active_count()
    helpers = crew_of([])
    helpers.run(np.array([1]))
    assert threading.active_count() == before + 2
    del helpers
    gc.collect()
    assert threading.active_count() == before


def test_a_copy_of_the_process_starts_threads_of_its_own() -> None:
    seen: list[int] = []
    done: list[int] = []
    helpers = crew_of(seen, done)
    helpers.run(np.array([1]))
    until(lambda: helpers._crew.asleep == 2)
    child = os.fork()
    if child == 0:
        helpers.run(np.array([2]))
        until(lambda: seen.count(2) == 2)
        os._exit(0 if done == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0


def of_nothing() -> tuple[Helpers, SharedWork]:
    """Helpers of the simulator, and work without steps."""
    return Helpers(2, run_shared, help_shared), np.zeros(5, np.int64)


def test_threads_that_still_wait_for_work_leave_at_once() -> None:
    code = """
from tests.npu.native.test_helpers import of_nothing
helpers, nothing = of_nothing()
for _ in range(3):
    helpers.run(nothing)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=600, check=False)
    assert done.returncode == 0


def test_threads_without_work_use_no_processor() -> None:
    helpers, nothing = of_nothing()
    helpers.run(nothing)
    until(lambda: helpers._crew.asleep == 2)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.05
