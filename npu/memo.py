"""What is made when it is first asked for, and kept: an attribute, the items of a sequence, the last few results."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_UNKNOWN: Any = object()

if sys.version_info >= (3, 12) or TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """That of the standard library without its lock, which takes longer than most properties; Python 3.12 has none."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


class LazySequence(Sequence[V]):
    """So many items, each made when it is first looked at, by its index."""

    def __init__(self, count: int, make: Callable[[int], V]) -> None:
        self._items: list[Any] = [_UNKNOWN] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        if self._items[index] is _UNKNOWN:
            self._items[index] = self._make(index)
        return self._items[index]


class LastUsed(Generic[K, V]):
    """The values of the keys that were asked for last. Threads that ask for a new key at once may each make its value."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}
        self._lock = Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made now if it is not known."""
        known = self._values.get(key, _UNKNOWN)
        if known is not _UNKNOWN:
            if len(self._values) * 2 > self._most:  # only then it matters soon which is the oldest; keys are long to hash
                with self._lock:
                    self._values[key] = self._values.pop(key, known)
            return cast(V, known)
        value = make()
        with self._lock:
            value = self._values.setdefault(key, value)
            while len(self._values) > self._most:
                del self._values[next(iter(self._values))]
            return value
