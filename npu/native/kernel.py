"""The decorators of compiled functions: one signature each, from which numba compiles and Python calls.

A kernel is called through its library (`npu.native.library`), which is loaded at the first call. numba is imported where a
library is made, nowhere else: declaring a kernel costs nothing.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

from npu.native import types as ty
from npu.native.call import caller

F = TypeVar("F", bound=Callable[..., Any])
IrValue = Any
"""A value of LLVM's IR, `llvmlite.ir.Value`: only who writes code imports llvmlite."""

DECLARED: dict[str, list[Kernel]] = defaultdict(list)
"""The kernels of each module, in order."""
_loading = Lock()


class Kernel:
    """A function that is compiled for one signature. Other kernels call it directly, Python through a library."""

    def __init__(self, function: Callable[..., Any], signature: ty.KernelSignature, error_model: str) -> None:
        self.function, self.signature, self.error_model = function, signature, error_model
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self._call: Callable[..., Any] | None = None
        self._bind: Callable[..., Callable[[], Any]] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function. A TypeError if an array has another type or a number cannot become one of the type."""
        return (self._call or self._load()[0])(*arguments)

    def bind(self, *arguments: Any) -> Callable[[], Any]:
        """A call with these arguments, checked once, for one thread at a time; the arrays must stay where they are."""
        return (self._bind or self._load()[1])(*arguments)

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__name__}>"

    @property
    def symbol(self) -> str:
        """The name of the entry in the library."""
        return f"{self.__module__}.{self.function.__qualname__}.{zlib.crc32(repr(self.signature).encode()):08x}"

    @property
    def _numba_type_(self) -> Any:
        """What numba asks for where a kernel calls this one."""
        from npu.native.compile import type_of_kernel

        return type_of_kernel(self)

    def _load(self) -> tuple[Callable[..., Any], Callable[..., Callable[[], Any]]]:
        from npu.native.library import address_of

        with _loading:
            if self._call is None or self._bind is None:
                self._call, self._bind = caller(self.signature, address_of(self), str(self))
        return self._call, self._bind


class Inlined(Generic[F]):
    """A function that becomes part of every kernel that calls it, compiled once for the types of its arguments."""

    def __init__(self, function: F) -> None:
        self.py_func: F = function
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    @property
    def _numba_type_(self) -> Any:
        from npu.native.compile import type_of_inlined

        return type_of_inlined(self)


class _OnlyCompiled:
    """What kernels call and Python cannot."""

    def __call__(self, *_arguments: Any) -> Any:
        raise TypeError(f"{self} is for kernels to call")


class Intrinsic(_OnlyCompiled):
    """A function whose LLVM instructions are written by `emit(builder, *arguments)`, which returns the value."""

    def __init__(self, emit: Callable[..., Any], signature: ty.KernelSignature) -> None:
        self.emit, self.signature = emit, signature
        self.__doc__, self.__name__ = emit.__doc__, getattr(emit, "__name__", "emit")

    @property
    def _numba_type_(self) -> Any:
        from npu.native.compile import type_of_intrinsic

        return type_of_intrinsic(self)


class RowsAt(_OnlyCompiled):
    """A function for kernels: the array at an address, given the address and the extent of every axis but the first.

    It is said to have no rows, so that no negative index is moved to its end; with `has_length` the first extent is given as
    well. It has no owner for whom references would be counted: the caller keeps the memory alive and answers for every index.
    """

    def __init__(self, element: ty.ScalarType, ndim: int = 1, *, has_length: bool = False) -> None:
        self.element, self.ndim, self.has_length = element, ndim, has_length
        self.__name__ = "rows_at"

    @property
    def _numba_type_(self) -> Any:
        from npu.native.compile import type_of_rows

        return type_of_rows(self)


class _Keep(_OnlyCompiled):
    """A function for kernels: its arguments are arrays whose memory is in use until here, by its address.

    numba gives the memory of an array back after the last mention of its name.
    """

    __name__ = "keep"

    @property
    def _numba_type_(self) -> Any:
        from npu.native.compile import type_of_keep

        return type_of_keep(self)


keep = _Keep()


def kernel(signature: ty.KernelSignature, *, error_model: str = "python") -> Callable[[Callable[..., Any]], Kernel]:
    """Compile the decorated function for `signature`.

    With the error model "numpy" a division by zero gives infinity or 0, as it does in an array, and costs no check.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        declared = Kernel(function, signature, error_model)
        DECLARED[function.__module__].append(declared)
        return declared

    return decorate


def intrinsic(signature: ty.KernelSignature) -> Callable[[Callable[..., Any]], Intrinsic]:
    """Kernels that call the decorated function get the LLVM instructions that it writes."""
    return lambda emit: Intrinsic(emit, signature)
