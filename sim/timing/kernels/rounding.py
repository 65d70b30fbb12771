"""The table of a trace in whole cycles, from the engine's result."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import inlined
from npu.native import types as ty
from npu.native.kernel import kernel
from sim.timing.kernels.tables import floats_at


@inlined
def round_results(results, columns, moments, table):  # type: ignore[no-untyped-def]
    """Fills the given `columns` of `table` (n, any) from as many columns of `results` (n, any).

    The first `moments` are rounded one by one. Durations behind them are rounded in their running sum, so that the sum of a
    column is off by half a cycle at most.
    """
    for j in range(columns.shape[0]):
        total, whole = 0.0, np.int64(0)
        for i in range(table.shape[0]):
            total = results[i, j] if j < moments else total + results[i, j]
            rounded = np.int64(np.rint(total))
            table[i, columns[j]] = rounded - whole
            if j >= moments:
                whole = rounded


@kernel(ty.void(ty.float64[:, ::1], ty.int64[::1], ty.int64[:, ::1]), error_model="numpy")
def round_durations(durations, columns, table):  # type: ignore[no-untyped-def]
    """`round_results` for durations (n, len(columns)) alone."""
    round_results(floats_at(durations.ctypes.data, columns.shape[0]), columns, 0, table)
