"""How much of numba a kernel goes through."""

from __future__ import annotations

from tests.support.processes import python

COUNT = """
import sys
from numba.core import compiler
from npu.native import compile as by_numba
from npu.compiler.kernels.stripes import write_rolling as kernel

def calls():
    count = 0
    def tell(_frame, event, _argument):
        nonlocal count
        count += event == "call"
    sys.setprofile(tell)
    by_numba._compiled.__wrapped__(kernel)
    sys.setprofile(None)
    return count

calls()
ours = calls()
del by_numba.cpu_target.typing_context.resolve_function_type
by_numba.KernelCompiler = compiler.Compiler
print(ours / calls())
"""
"""The calls of Python functions that a kernel takes once its parts are there, as a share of those with numba's own passes."""


def test_a_kernel_takes_three_quarters_of_what_numba_would_do() -> None:
    done = python(COUNT)
    assert 0.1 < float(done.stdout) < 0.75, done
