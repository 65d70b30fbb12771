"""Types of arrays that the signatures of all packages say."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of whichever numbers."""
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


def starts(sizes: Ints) -> Ints:
    """Where each of several things begins that lie one after the other."""
    return np.cumsum(sizes) - sizes
