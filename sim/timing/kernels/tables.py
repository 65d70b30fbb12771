"""Tables of floats at machine addresses (`npu.numerics.records` says why)."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numba as nb
import numpy as np
from numba.extending import intrinsic

_POINTER = nb.types.CPointer(nb.float64)


@intrinsic
def _as_pointer(typingctx, address):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], context.get_value_type(_POINTER))

    return _POINTER(nb.int64), codegen


@nb.njit(inline="always")
def floats_at(address, columns):  # type: ignore[no-untyped-def]
    """A float64 table of rows of `columns`. It claims no rows: so numba need not move negative indices to the end."""
    return nb.carray(_as_pointer(address), (np.int64(0), np.int64(columns)))
