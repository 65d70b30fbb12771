"""The table of a trace in whole cycles, from the engine's result."""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.timing.kernels.tables import floats_at


@nb.njit(inline="always", error_model="numpy")
def round_results(result, first, columns, moments, table):  # type: ignore[no-untyped-def]
    """Fills the given `columns` of `table` (n, any) from as many columns of `result` (n, any) from `first` on.

    The first `moments` are rounded one by one. Durations behind them are rounded in their running sum, so that the sum of a
    column is off by half a cycle at most.
    """
    count = columns.shape[0]
    sums = np.zeros(count)
    whole = np.zeros(count, np.int64)
    for i in range(table.shape[0]):
        for j in range(count):
            sums[j] = result[i, first + j] if j < moments else sums[j] + result[i, first + j]
            rounded = np.int64(np.rint(sums[j]))
            table[i, columns[j]] = rounded - whole[j]
            if j >= moments:
                whole[j] = rounded


@kernel(nb.void(nb.float64[:, ::1], nb.int64[::1], nb.int64[:, ::1]), error_model="numpy")
def round_durations(durations, columns, table):  # type: ignore[no-untyped-def]
    """`round_results` for durations (n, len(columns)) alone."""
    round_results(floats_at(durations.ctypes.data, columns.shape[0]), 0, columns, 0, table)
