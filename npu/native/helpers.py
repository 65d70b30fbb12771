"""Threads that help another one with work behind a gate (`npu.native.gate`), ready for the next piece for a while."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from npu.native.gate import ARGUMENTS, OVER, WORDS

SharedWork = NDArray[np.int64]


class Helpers:
    """`count` threads, started on first use, and the work that they share with the caller of `begin`.

    `help_with` is a kernel that takes part in the work until nothing has happened for a while.
    """

    def __init__(self, count: int, help_with: Callable[[SharedWork], None]) -> None:
        self._count, self._help_with = count, help_with
        self.work: SharedWork = np.zeros(WORDS, np.int64)
        self._crew = _Crew()
        self._process = 0

    def begin(self, arguments: SharedWork) -> SharedWork:
        """Say what the work is, and wake those who sleep; the work for the kernel that owns it."""
        self.work[ARGUMENTS : ARGUMENTS + arguments.size] = arguments
        if self._process != os.getpid():  # threads do not live on in a copy of the process
            self._start()
        elif self._crew.asleep:
            self._crew.wake()
        return self.work

    def _start(self) -> None:
        self._process, self._crew, self.work = os.getpid(), _Crew(), self.work.copy()
        self.work[:ARGUMENTS] = 0
        weakref.finalize(self, self._crew.end)
        self._crew.start(self._count, self._help_with, self.work)


class _Crew:
    """The threads, and how many wait to be woken."""

    def __init__(self) -> None:
        self.asleep, self._is_over = 0, False
        self._lock, self._bell = threading.Lock(), threading.Semaphore(0)
        self._process, self._threads = os.getpid(), list[threading.Thread]()
        self._work: SharedWork | None = None

    def start(self, count: int, help_with: Callable[[SharedWork], None], work: SharedWork) -> None:
        self._work = work
        for _ in range(count):
            self._threads.append(threading.Thread(target=_help, args=(help_with, work, self), name="npu", daemon=True))
            self._threads[-1].start()

    def sleep(self) -> bool:
        """Wait for the next work; False if there will be none."""
        with self._lock:
            self.asleep += 1
        if not self._is_over:
            self._bell.acquire()
        return not self._is_over

    def wake(self) -> None:
        with self._lock:
            count, self.asleep = self.asleep, 0
        self._bell.release(count)

    def end(self) -> None:
        """No more work: all threads end, before the code that they execute goes away."""
        if self._process != os.getpid():
            return
        self._is_over = True
        if self._work is not None:
            self._work[0] = OVER
        self._bell.release(len(self._threads))
        for thread in self._threads:
            thread.join()


def _help(help_with: Callable[[SharedWork], None], work: SharedWork, crew: _Crew) -> None:
    help_with(work)
    while crew.sleep():
        help_with(work)


def fastest_chunk(threads: int, extent: int, least: int, most: int) -> tuple[float, int]:
    """(time in that of one thread, size) of at most `most` chunks of multiples of `least`, by which all is done first."""
    strips = [(1.0, extent)]
    for count in range(2, most + 1):
        size = -(-extent // (count * least)) * least
        rounds, rest = divmod(-(-extent // size), threads)
        last = extent - size * (rounds * threads) if rest == 1 else size
        strips.append(((rounds * size + (last if rest else 0)) / extent, size))
    return min(strips)
