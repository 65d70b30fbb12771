"""On which processors threads that help run: not where the one runs that they help."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread


class Affinity:
    """Which processors threads that start now may use.

    Linux may wake a thread on the processor of the one that wakes it if other processes are busy on the rest, and leave both
    there: they take turns, and work shared by two is done no earlier than by one. Elsewhere nothing is known about processors.
    """

    def __init__(self) -> None:
        self._allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        self._current = _current_processor() if len(self._allowed) > 1 else None
        self._avoided = -1

    def keep_away(self, threads: Sequence[Thread]) -> None:
        """Let these threads, which sleep, use all processors but that of the caller."""
        here = -1 if self._current is None else self._current()
        if here == self._avoided:
            return
        self._avoided = here
        for thread in threads:
            with suppress(OSError):  # the processors of the process were changed meanwhile
                os.sched_setaffinity(thread.native_id or 0, self._allowed - {here})


@functools.cache
def _current_processor() -> Callable[[], int] | None:
    """Gives the number of the processor of the calling thread, -1 if it is unknown; None if the C library does not tell."""
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)
