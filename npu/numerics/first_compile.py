"""The first time in a process that a kernel must be compiled, because no cache on disk holds it.

Knows nothing of numba, so that a command can say what should happen then before anything heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Callable

_actions: list[Callable[[], object]] = []


def at_first_compile(action: Callable[[], object]) -> None:
    """Call `action` once, just before a kernel is compiled in this process."""
    _actions.append(action)


def compiling() -> None:
    """A kernel is about to be compiled."""
    while _actions:
        _actions.pop()()
