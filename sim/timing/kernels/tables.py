"""Tables at machine addresses.

A function that is handed an array counts references to it, which takes longer than most of what the timing kernels do with
it; a table at an address has no owner to count for. The caller keeps the memory alive and answers for every index.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numba as nb
import numpy as np
from numba.extending import intrinsic

WORD_BYTES = 8


def _pointer(element):  # type: ignore[no-untyped-def]
    kind = nb.types.CPointer(element)

    @intrinsic
    def as_pointer(typingctx, address):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.inttoptr(args[0], context.get_value_type(kind))

        return kind(nb.int64), codegen

    return as_pointer


_float_pointer = _pointer(nb.float64)
_int_pointer = _pointer(nb.int64)


@nb.njit(inline="always")
def floats_at(address, columns):  # type: ignore[no-untyped-def]
    """A float64 table of rows of `columns`. It claims no rows: so numba need not move negative indices to the end."""
    return nb.carray(_float_pointer(address), (np.int64(0), np.int64(columns)))


@nb.njit(inline="always")
def ints_at(address, columns):  # type: ignore[no-untyped-def]
    """An int64 table like `floats_at`."""
    return nb.carray(_int_pointer(address), (np.int64(0), np.int64(columns)))
