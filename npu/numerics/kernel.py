"""The decorator of compiled functions: one signature each, compiled or loaded from the cache at the first call.

Without a signature numba compiles a function once for every combination of argument types and literal arguments; with one it
compiles or loads at import, also what a run never calls. This gives one version, when it is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numba as nb
from numba.core import event

from npu.numerics.first_compile import compiling

_DECLARED: dict[str, list[Callable[[], None]]] = defaultdict(list)
"""For each module, what compiles its kernels."""


def kernel(signature: object, *, error_model: str = "python") -> Callable[[Callable[..., Any]], Any]:
    """Compile the decorated function for `signature` only, when it is first called or compiled into another one.

    The machine code is cached on disk. Arguments of other types are cast as numba casts them, or a TypeError. With the error
    model "numpy" a division by zero gives infinity, as it does in an array, and costs no check.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = nb.njit(cache=True, error_model=error_model)(function)

        def compile_now() -> None:
            if not dispatcher.signatures:
                del dispatcher._compile_for_args, dispatcher.get_call_template
                dispatcher.compile(signature)
                dispatcher.disable_compile()

        def first_call(*_arguments: Any, **_named: Any) -> Any:
            compile_now()
            return dispatcher  # numba calls what this returns

        def first_use(arguments: Any, named: Any) -> Any:
            compile_now()
            return dispatcher.get_call_template(arguments, named)

        dispatcher._compile_for_args, dispatcher.get_call_template = first_call, first_use
        _DECLARED[function.__module__].append(compile_now)
        return dispatcher

    return decorate


def compile_kernels(package: str) -> None:
    """Compile the kernels of a module, or of those modules of a package that are imported, or load them from the cache."""
    for module in [each for each in _DECLARED if f"{each}.".startswith(f"{package}.")]:
        for compile_now in _DECLARED[module]:
            compile_now()


class _Compiling(event.Listener):  # type: ignore[misc]
    """Hears of every function that numba compiles, not of those that it finds in its cache."""

    def on_start(self, event: object) -> None:
        compiling()

    def on_end(self, event: object) -> None:
        pass


event.register("numba:compile", _Compiling())
