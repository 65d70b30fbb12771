"""What a program says about making libraries before anything heavy is imported: who hears of it, and what will be needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

MAKING = "compiling the kernels for this CPU, once"


def _warn(message: str) -> None:
    if message != MAKING:
        warnings.warn(message, RuntimeWarning, stacklevel=2)


tell: Callable[[str], object] = _warn
"""Called with MAKING when libraries are made, and with what keeps them from being kept."""
progress: Callable[[int, int], object] = lambda done, total: None  # noqa: E731 - replaced by the command line
"""Called again and again while libraries are made: how many kernels and libraries of how many are done."""
expected: list[str] = []
"""Groups that this process will use: those that are missing are made side by side, when the first one is needed."""


def expect(groups: Iterable[str]) -> None:
    """Add groups to those that will be used."""
    expected.extend(group for group in groups if group not in expected)
