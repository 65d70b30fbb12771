"""Threads that help another one with work behind a gate (`npu.native.gate`), ready for the next piece for a while."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from npu.native.affinity import Affinity
from npu.native.gate import ARGUMENTS, OVER, WORDS

SharedWork = NDArray[np.int64]


class Helpers:
    """`count` threads, started on first use, that help with work while the caller of `run` does it.

    Two kernels: `do` does the work, `help_with` takes part until nothing has happened for a while.
    """

    def __init__(self, count: int, do: Bindable, help_with: Callable[[SharedWork], object]) -> None:
        self._count, self._do, self._help_with = count, do, help_with
        self._work: SharedWork = np.zeros(WORDS, np.int64)
        self._arguments: SharedWork | None = None
        self._crew = _Crew()
        self._process = 0

    def run(self, arguments: SharedWork) -> None:
        """Wake those who sleep, and do the work that these words describe, which are the same whenever they are given."""
        if self._arguments is not arguments:
            self._work[ARGUMENTS : ARGUMENTS + arguments.size] = self._arguments = arguments
        if self._process != os.getpid():  # threads do not live on in a copy of the process
            self._start()
        elif self._crew.asleep:
            self._crew.wake()
        self._run()

    def _start(self) -> None:
        self._process, self._crew, self._work = os.getpid(), _Crew(), self._work.copy()
        self._work[:ARGUMENTS] = 0
        self._run = self._do.bind(self._work)
        weakref.finalize(self, self._crew.end)
        self._crew.start(self._count, self._help_with, self._work)


class Bindable(Protocol):
    """A kernel of one argument."""

    def bind(self, work: SharedWork, /) -> Callable[[], object]:
        """A call of it with this argument."""


class _Crew:
    """The threads, and how many wait to be woken."""

    def __init__(self) -> None:
        self.asleep, self._is_over = 0, False
        self._lock, self._bell = threading.Lock(), threading.Semaphore(0)
        self._process, self._threads, self._affinity = os.getpid(), list[threading.Thread](), Affinity()
        self._work: SharedWork | None = None

    def start(self, count: int, help_with: Callable[[SharedWork], object], work: SharedWork) -> None:
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
        self._affinity.keep_away(self._threads)
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


def _help(help_with: Callable[[SharedWork], object], work: SharedWork, crew: _Crew) -> None:
    help_with(work)
    while crew.sleep():
        help_with(work)
