"""Tables of floats at machine addresses (`npu.native.kernel.RowsAt` says why)."""

from __future__ import annotations

from npu.native import types as ty
from npu.native.kernel import RowsAt

floats_at = RowsAt(ty.float64, 2)
"""A table of rows of so many columns."""
