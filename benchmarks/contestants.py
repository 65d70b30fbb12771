"""What is done before each measurement where two programs with threads of their own take turns in one process."""

from __future__ import annotations

import time
from collections.abc import Callable


def prepare(run: Callable[[], object], pause_seconds: float, ready_seconds: float) -> None:
    """Wait until the threads of the others, which look for work for a while, are asleep; then run until all is ready."""
    time.sleep(pause_seconds)
    end = time.perf_counter() + ready_seconds
    run()
    while time.perf_counter() < end:
        run()
