"""What numba does to each kernel on the way to LLVM: of its own passes those that kernels need, and no search for types twice.

The code is the same in two thirds of the time. What else numba has is for what kernels do not contain (closures, `with`,
`literal_unroll`, whole arrays in formulas, exceptions with values), for listings of types, and to check every pass by itself.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import functools
from typing import Any

from numba.core import typed_passes, untyped_passes
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.targetconfig import ConfigStack

_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,  # where a constant of a module chooses
    untyped_passes.GenericRewrites,  # fields and elements by constants
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _Passes(PassManager):  # type: ignore[misc]
    """Passes one after another, without the text, the timers and the checks that numba has around each."""

    def _runPass(self, index: int, one: Any, state: Any) -> None:
        one.analysis = self._analysis
        one.run_pass(state)


@functools.cache
def _passes() -> _Passes:
    passes = _Passes("kernels")
    for one in _PASSES:
        passes.add_pass(one, one.__name__)
    passes.finalize()
    return passes


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler with these passes."""

    def define_pipelines(self) -> list[_Passes]:
        return [_passes()]


def remember_calls(context: Any) -> None:
    """From now on a typing context looks once for what a function gives for the same types of arguments.

    For `a + b` numba tries what it knows of sets, lists, texts and arrays before it comes to numbers, at every place anew.
    """
    look, known = context.resolve_function_type, dict[object, Any]()

    def resolve(function: Any, arguments: Any, named: Any) -> Any:
        flags = ConfigStack().top()  # with which numba compiles what it has written in Python
        key = function, tuple(arguments), tuple(dict(named).items()), flags.error_model, flags.forceinline
        try:
            result = known.get(key)
        except TypeError:  # a constant slice cannot be looked up
            return look(function, arguments, named)
        if result is None:
            result = known[key] = look(function, arguments, named)
        return result

    context.resolve_function_type = resolve
