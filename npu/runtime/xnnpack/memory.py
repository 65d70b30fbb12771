"""Buffers of the delegate: aligned, with a guard behind them so that vector loads may read past the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.numerics.arrays import Array

ALIGNMENT = 64
GUARD_BYTES = 128


def guarded(shape: Sequence[int], dtype: np.dtype[Any], fill: float = 0) -> Array:
    """A C-contiguous array with GUARD_BYTES of readable memory behind it."""
    wanted = math.prod(shape) * dtype.itemsize
    raw = np.zeros(wanted + ALIGNMENT + GUARD_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    array = raw[start : start + wanted].view(dtype).reshape(tuple(shape))
    if fill:
        array.fill(fill)
    return array


def address(array: Array) -> int:
    """Where a C-contiguous array lies."""
    return array.ctypes.data


class Workspace:
    """Scratch memory that the operations of a delegate share, one after another: as large as the largest request."""

    def __init__(self) -> None:
        self._words = np.zeros(0, np.int64)

    def words(self, count: int) -> npt.NDArray[np.int64]:
        """`count` int64 values with whatever they hold."""
        if self._words.size < count:
            self._words = np.zeros(count, np.int64)
        return self._words[:count]

    @property
    def bytes(self) -> int:
        return self._words.nbytes


class TensorMemory:
    """What the tensors inside the partitions of a delegate, which run one after another, have in common: as large as the
    largest request.

    Every partition has a place at its start, so that it finds in the caches what the one before it has used.
    """

    def __init__(self) -> None:
        self._array = guarded((0,), np.dtype(np.uint8))
        self._needed = 0

    def reserve(self, size: int) -> None:
        """Say how many bytes will be asked for; before the first is."""
        self._needed = max(self._needed, size)

    def bytes_for(self, size: int) -> npt.NDArray[np.uint8]:
        """The first `size` bytes, with whatever they hold."""
        if self._array.size < self._needed:
            self._array = guarded((self._needed,), np.dtype(np.uint8))
        return self._array[:size]

    @property
    def bytes(self) -> int:
        return self._array.nbytes
