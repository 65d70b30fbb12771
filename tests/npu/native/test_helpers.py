"""Threads that help: they are woken, take part in later work, and end with their owner."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np

from npu.native.gate import ARGUMENTS
from npu.native.helpers import Helpers, SharedWork

from tests.support.processes import ROOT

SECONDS = 60.0


def until(condition: object) -> None:
    end = time.monotonic() + SECONDS
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.001)


def crew_of(seen: list[int]) -> Helpers:
    return Helpers(2, lambda work: seen.append(int(work[ARGUMENTS])))


def test_every_thread_helps_with_every_piece_of_work() -> None:
    seen: list[int] = []
    helpers = crew_of(seen)
    for number in range(1, 6):
        helpers.begin(np.array([number]))
        until(lambda number=number: seen.count(number) == 2 and helpers._crew.asleep == 2)
    assert sorted(seen) == [number for number in range(1, 6) for _ in range(2)]


def test_threads_end_with_their_owner() -> None:
    before = threading.active_count()
    helpers = crew_of([])
    helpers.begin(np.array([1]))
    assert threading.active_count() == before + 2
    del helpers
    gc.collect()
    assert threading.active_count() == before


def test_a_copy_of_the_process_starts_threads_of_its_own() -> None:
    seen: list[int] = []
    helpers = crew_of(seen)
    helpers.begin(np.array([1]))
    until(lambda: helpers._crew.asleep == 2)
    child = os.fork()
    if child == 0:
        work: SharedWork = helpers.begin(np.array([2]))
        until(lambda: seen.count(2) == 2)
        os._exit(0 if work[ARGUMENTS] == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_that_still_wait_for_work_leave_at_once() -> None:
    code = """
import numpy as np
from npu.native.helpers import Helpers
from sim.functional.kernels.run import help_shared
helpers = Helpers(2, help_shared)
for _ in range(3):
    helpers.begin(np.array([0]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=600, check=False)
    assert done.returncode == 0
