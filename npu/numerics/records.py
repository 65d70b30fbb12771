"""Rows of a structured dtype at machine addresses: in compiled functions every field of a row is an attribute.

A function that is handed an array counts references to it, which takes longer than most of what small kernels do with it; a
table at an address has no owner to count for. The caller keeps the memory alive and answers for every index.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numba.extending import intrinsic


def rows_of(dtype: np.dtype[Any]) -> Any:
    """A compiled function: the rows of `dtype` at an address, as an array that claims none.

    It claims no rows so that numba need not move negative indices to the end.
    """
    kind = nb.types.CPointer(nb.from_dtype(dtype))

    @intrinsic
    def as_pointer(typingctx, address):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.inttoptr(args[0], context.get_value_type(kind))

        return kind(nb.int64), codegen

    @nb.njit(inline="always")
    def rows_at(address):  # type: ignore[no-untyped-def]
        return nb.carray(as_pointer(address), (np.int64(0),))

    return rows_at
