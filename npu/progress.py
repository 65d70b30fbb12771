"""How work that takes long tells how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many of its parts are done, and how many there are."""
T = TypeVar("T")


def counted(items: Sequence[T], what: str, progress: Progress | None) -> Iterable[T]:
    """The items; before the next one is given out, `progress` hears that one more is done."""
    return items if progress is None else _counted(items, what, progress)


def _counted(items: Sequence[T], what: str, progress: Progress) -> Iterable[T]:
    for done, element in enumerate(items, 1):
        yield element
        progress(what, done, len(items))
