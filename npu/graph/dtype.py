"""Element types of tensors: the one table of name, TFLite code and numpy type."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np


class DType(Enum):
    """A tensor's element type; the value is its code in a TFLite file."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    COMPLEX128 = 11
    UINT64 = 12
    RESOURCE = 13
    VARIANT = 14
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    BFLOAT16 = 18
    INT2 = 19
    UINT4 = 20
    FLOAT8_E4M3FN = 21
    FLOAT8_E5M2 = 22

    @property
    def numpy(self) -> np.dtype[Any] | None:
        """The numpy type with the same bytes, None where numpy has none (strings, resources, sub-byte types)."""
        return _NUMPY.get(self)

    @property
    def bits(self) -> int:
        """Bits of one element; 0 where an element has no fixed size."""
        return _BITS[self]

    __hash__ = object.__hash__  # every member is one object; that of Enum is Python code

    def __str__(self) -> str:
        return self.name.lower()


_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype("<f4"),
    DType.FLOAT16: np.dtype("<f2"),
    DType.INT32: np.dtype("<i4"),
    DType.UINT8: np.dtype("u1"),
    DType.INT64: np.dtype("<i8"),
    DType.BOOL: np.dtype("?"),
    DType.INT16: np.dtype("<i2"),
    DType.COMPLEX64: np.dtype("<c8"),
    DType.INT8: np.dtype("i1"),
    DType.FLOAT64: np.dtype("<f8"),
    DType.COMPLEX128: np.dtype("<c16"),
    DType.UINT64: np.dtype("<u8"),
    DType.UINT32: np.dtype("<u4"),
    DType.UINT16: np.dtype("<u2"),
}
_BITS = {
    **{dtype: 0 if dtype.numpy is None else dtype.numpy.itemsize * 8 for dtype in DType},
    DType.INT4: 4,
    DType.UINT4: 4,
    DType.INT2: 2,
    DType.BFLOAT16: 16,
    DType.FLOAT8_E4M3FN: 8,
    DType.FLOAT8_E5M2: 8,
}
