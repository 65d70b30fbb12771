"""Types of arrays that the signatures of all packages say."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of whichever numbers."""
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


def distinct(values: Array) -> Array:
    """What `numpy.unique` says of an array; that one loads `numpy.ma`, which takes as long as a third of the rest of numpy."""
    ordered = np.sort(values, axis=None)
    is_first = np.ones(ordered.size, np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def starts(sizes: Ints) -> Ints:
    """Where each of several things begins that lie one after the other."""
    return np.cumsum(sizes) - sizes
