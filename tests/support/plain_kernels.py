"""Kernels as numba alone compiles and calls them: the oracle of the libraries, and what finds indices outside of an array.

For a process of its own.
"""

from __future__ import annotations

import functools
from typing import Any

import numba as nb

from npu.native import compile as by_numba
from npu.native import cpu
from npu.native.kernel import Inlined, Kernel

_options: dict[str, bool] = {}


@functools.cache
def _dispatcher(kernel: Kernel) -> Any:
    made = nb.njit(error_model=kernel.error_model, **_options)(kernel.function)
    made.compile(by_numba._signature(kernel.signature))
    made.disable_compile()
    return made


@functools.cache
def _inlined(inlined: Inlined[Any]) -> Any:
    """A function of its own: the kernels that call these divide by no zero, where the error models differ."""
    return nb.njit(error_model="numpy", **_options)(inlined.py_func)


def install(package: str = "", *, checks_bounds: bool = False) -> None:
    """From here on no library is used for kernels of a package, all by default; before any of them is imported.

    With `checks_bounds` an index outside of an array is an IndexError, also for arrays of unknown length (`kernel.RowsAt`).
    """
    cpu.use(cpu.current())
    _options.update(boundscheck=checks_bounds)
    load = Kernel._load

    def ways(kernel: Kernel) -> Any:
        if not kernel.__module__.startswith(package):
            return load(kernel)
        return _dispatcher(kernel), lambda *arguments: lambda: _dispatcher(kernel)(*arguments)

    Kernel._load = ways  # type: ignore[method-assign]
    Kernel._numba_type_ = property(lambda kernel: nb.types.Dispatcher(_dispatcher(kernel)))  # type: ignore[assignment,method-assign]
    Inlined._numba_type_ = property(lambda inlined: nb.types.Dispatcher(_inlined(inlined)))  # type: ignore[assignment,method-assign]
