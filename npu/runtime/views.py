"""Views of tensor buffers that callers hold: the only place that knows whether one is still alive."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from npu.numerics.arrays import Array
from npu.runtime.misuse import InterpreterStateError


class _Lease:
    """What a lent array and its slices keep alive: numpy shortens chains of arrays, but not to other kinds of objects."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return dict(self._array.__array_interface__)


class Views:
    """The views that `Interpreter.tensor` gave away."""

    def __init__(self) -> None:
        self._leases: set[weakref.ref[_Lease]] = set()

    def lend(self, array: Array) -> Array:
        """A view of an array that counts as held until it and its slices are gone; strings are not counted."""
        if array.dtype.hasobject:
            return array
        lease = _Lease(array)
        self._leases.add(weakref.ref(lease, self._leases.discard))
        return np.asarray(lease)

    def require_none(self) -> None:
        """Raise an InterpreterStateError while somebody holds a view."""
        if self._leases:
            raise InterpreterStateError(
                "tensor: arrays that it returned must be gone before the next call, got at least one that is still held;"
                " keep only the function"
            )
