"""How work that takes long tells how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many of its parts are done, and how many there are."""
Item = TypeVar("Item")


def counted(items: Sequence[Item], what: str, progress: Progress | None) -> Iterable[Item]:
    """The items; before the next one is given out, `progress` hears that one more is done."""
    return items if progress is None else _counted(items, what, progress)


def _counted(items: Sequence[Item], what: str, progress: Progress) -> Iterable[Item]:
    for done, item in enumerate(items, 1):
        yield item
        progress(what, done, len(items))
