"""A heap that keeps equal keys in the order of libstdc++'s, with which LiteRT's wheels sort and queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Heap(Generic[T]):
    """(key, value) entries, the largest key on top: `std::make_heap`, `push_heap` and `pop_heap`, which compare keys only."""

    def __init__(self, entries: Iterable[tuple[Any, T]] = ()) -> None:
        self._entries = list(entries)
        for root in reversed(range(len(self._entries) // 2)):
            self._sift(root, self._entries[root])

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def top_key(self) -> Any:
        return self._entries[0][0]

    def push(self, key: Any, value: T) -> None:
        self._entries.append((key, value))
        self._rise(len(self._entries) - 1, 0, (key, value))

    def pop(self) -> T:
        top, last = self._entries[0], self._entries.pop()
        if self._entries:
            self._sift(0, last)
        return top[1]

    def replace_top(self, key: Any, value: T) -> None:
        self._sift(0, (key, value))

    def _sift(self, hole: int, entry: tuple[Any, T]) -> None:
        """The hole goes down along the larger children to the end, then the entry up from there."""
        entries, top = self._entries, hole
        while 2 * hole + 2 < len(entries):
            child = 2 * hole + 2
            child -= entries[child][0] < entries[child - 1][0]
            entries[hole], hole = entries[child], child
        if 2 * hole + 2 == len(entries):
            entries[hole], hole = entries[2 * hole + 1], 2 * hole + 1
        self._rise(hole, top, entry)

    def _rise(self, hole: int, top: int, entry: tuple[Any, T]) -> None:
        entries = self._entries
        while hole > top and entries[(hole - 1) // 2][0] < entry[0]:
            entries[hole], hole = entries[(hole - 1) // 2], (hole - 1) // 2
        entries[hole] = entry


def largest(values: Iterable[float], count: int) -> list[int]:
    """Positions of the `count` largest values, the largest first, as `std::partial_sort` leaves them."""
    keys = [-float(value) for value in values]
    heap = Heap((key, position) for position, key in enumerate(keys[:count]))
    for position, key in enumerate(keys[count:], count):
        if key < heap.top_key:
            heap.replace_top(key, position)
    return [heap.pop() for _ in range(len(heap))][::-1]
