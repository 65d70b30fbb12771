"""Progress bars on standard error while it is a terminal; nothing, at no cost, while it is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from npu.native import requests
from npu.progress import Progress

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

_DELAY_SECONDS = 0.3
"""Work that is done before needs no bar; importing what draws it would take a good part of that time."""
_PERIOD_SECONDS = 0.05


class Bars:
    """A bar for each kind of work, from when it has taken long until `stop`. Drawn when something is told, at most 20 times a
    second: kernels hold the interpreter's lock, a thread that draws would stand still behind them.
    """

    def __init__(self, *, with_rate: bool = False) -> None:
        self._with_rate = with_rate
        self._due = time.monotonic() + _DELAY_SECONDS
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}

    def update(self, what: str, done: int, total: int) -> None:
        """As `npu.progress.Progress` says."""
        is_end = self._bars is not None and done == total
        if time.monotonic() < self._due and not is_end:
            return
        if self._bars is None:
            self._start()
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done, total=total)
        self._bars.refresh()
        self._due = time.monotonic() + _PERIOD_SECONDS

    def stop(self) -> None:
        """Take the bars away."""
        if self._bars is not None:
            self._bars.stop()
            self._bars, self._tasks = None, {}

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        if self._with_rate:
            columns += [_rate(), TimeRemainingColumn()]
        console = Console(stderr=True)
        self._bars = Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
        self._bars.start()


def _rate() -> ProgressColumn:
    from rich.progress import ProgressColumn, Task

    class Rate(ProgressColumn):
        """Parts per second."""

        def render(self, task: Task) -> str:
            return f"{task.speed:.1f}/s" if task.speed else ""

    return Rate()


@contextmanager
def progress(*, with_rate: bool = False) -> Iterator[Progress | None]:
    """Who is told how far the work inside is, None without a terminal. `with_rate` shows parts per second and the time left."""
    if not sys.stderr.isatty():
        yield None
        return
    bars, alone = Bars(with_rate=with_rate), requests.progress
    requests.progress = lambda done, total: bars.update("kernels for this CPU", done, total)
    try:
        yield bars.update
    finally:
        requests.progress = alone
        bars.stop()
