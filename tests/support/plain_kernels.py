"""Kernels as numba alone compiles and calls them: the oracle of the libraries. For a process of its own."""

from __future__ import annotations

import functools
from typing import Any

import numba as nb

from npu.native import compile as by_numba
from npu.native import cpu
from npu.native.kernel import Inlined, Kernel


@functools.cache
def _dispatcher(kernel: Kernel) -> Any:
    made = nb.njit(error_model=kernel.error_model)(kernel.function)
    made.compile(by_numba._signature(kernel.signature))
    made.disable_compile()
    return made


@functools.cache
def _inlined(inlined: Inlined[Any]) -> Any:
    """A function of its own: the kernels that call these divide by no zero, where the error models differ."""
    return nb.njit(error_model="numpy")(inlined.py_func)


def install() -> None:
    """From here on no library is used; before any kernel is imported."""
    cpu.use(cpu.current())
    Kernel._load = lambda kernel: (_dispatcher(kernel), lambda *arguments: lambda: _dispatcher(kernel)(*arguments))  # type: ignore[method-assign]
    Kernel._numba_type_ = property(lambda kernel: nb.types.Dispatcher(_dispatcher(kernel)))  # type: ignore[assignment,method-assign]
    Inlined._numba_type_ = property(lambda inlined: nb.types.Dispatcher(_inlined(inlined)))  # type: ignore[assignment,method-assign]
