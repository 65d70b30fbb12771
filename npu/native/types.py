"""Types of what kernels take and return, written as numba writes them, without importing it.

ty.int64(ty.float64[:, ::1], ty.int64)      takes a C-contiguous float64 array of two dimensions and an integer
ty.void(ty.constant(ty.float32, 2))         takes an array that it does not write
ty.several(ty.int64, 2)(ty.record(ROW)[::1])      returns two integers, takes an array of structures
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A C-contiguous array."""

    dtype: np.dtype[Any]
    ndim: int
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number; or, of a structured dtype, what an array has as elements."""

    dtype: np.dtype[Any]

    def __getitem__(self, axes: slice | tuple[slice, ...]) -> ArrayType:
        axes = axes if isinstance(axes, tuple) else (axes,)
        if [axis.step for axis in axes] != [None] * (len(axes) - 1) + [1]:
            raise TypeError("an array argument must be C-contiguous: [::1], [:, ::1], ...")
        return ArrayType(self.dtype, len(axes))

    def __call__(self, *arguments: ScalarType | ArrayType) -> KernelSignature:
        return KernelSignature((self,), arguments, is_tuple=False)


@dataclass(frozen=True, slots=True)
class Several:
    """More than one number to return."""

    scalars: tuple[ScalarType, ...]

    def __call__(self, *arguments: ScalarType | ArrayType) -> KernelSignature:
        return KernelSignature(self.scalars, arguments, is_tuple=True)


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """What a kernel returns and takes."""

    returns: tuple[ScalarType, ...]
    arguments: tuple[ScalarType | ArrayType, ...]
    is_tuple: bool


void = Several(())
"""Returns nothing."""
boolean = ScalarType(np.dtype(np.bool_))
int8, int16, int32, int64 = (ScalarType(np.dtype(f"i{size}")) for size in (1, 2, 4, 8))
uint8, uint16, uint32, uint64 = (ScalarType(np.dtype(f"u{size}")) for size in (1, 2, 4, 8))
float32, float64 = ScalarType(np.dtype(np.float32)), ScalarType(np.dtype(np.float64))


def several(scalar: ScalarType, count: int) -> Several:
    """`count` numbers of one type to return, as a tuple."""
    return Several((scalar,) * count)


def constant(scalar: ScalarType, ndim: int) -> ArrayType:
    """An array that is only read; others must be writeable."""
    return ArrayType(scalar.dtype, ndim, is_constant=True)


def offset_of(dtype: np.dtype[Any], name: str) -> int:
    """Bytes from the start of a structure to a field."""
    assert dtype.fields is not None
    return int(dtype.fields[name][1])


def record(dtype: npt.DTypeLike) -> ScalarType:
    """The elements of arrays of structures."""
    return ScalarType(np.dtype(dtype))
