"""The table of a trace in whole cycles, from the engine's result."""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel


@kernel(nb.void(nb.float64[:, ::1], nb.int64[::1], nb.int64, nb.int64[:, ::1]), error_model="numpy")
def round_cycles(result, columns, moments, table):  # type: ignore[no-untyped-def]
    """Fills the given `columns` of `table` (n, any) from the columns of `result` (n, len(columns)) in their order.

    The first `moments` are rounded one by one. Durations behind them are rounded in their running sum, so that the sum of a
    column is off by half a cycle at most.
    """
    sums = np.zeros(columns.shape[0])
    whole = np.zeros(columns.shape[0], np.int64)
    for i in range(result.shape[0]):
        for j in range(columns.shape[0]):
            sums[j] = result[i, j] if j < moments else sums[j] + result[i, j]
            rounded = np.int64(np.rint(sums[j]))
            table[i, columns[j]] = rounded - whole[j]
            if j >= moments:
                whole[j] = rounded
