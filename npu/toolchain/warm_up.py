"""The first run on a machine: kernels are compiled in processes beside the one that asks for the first of them.

What they compile goes into numba's cache, where the asking process finds it when it gets there. It depends on none of them: a
kernel that is not there is compiled where it is needed.

    python -m npu.toolchain.warm_up GROUP...     compiles groups of kernels, in this order
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module

TIMING = "timing"
EXECUTION = "execution"
GROUPS = (TIMING, EXECUTION)
"""The kernels that a run needs last come first: those before them are being compiled by the run itself."""


def start_beside() -> None:
    """Start as many helpers as there are other processors for; they end with this process at the latest."""
    helpers = min(len(GROUPS), _processors() - 1) if sys.executable else 0
    for number in range(helpers):
        groups = GROUPS[number::helpers]
        command = [sys.executable, "-m", "npu.toolchain.warm_up", *groups]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            return  # a machine that starts no more processes compiles here alone
        atexit.register(_end, process)


def _processors() -> int:
    """Those that this process may use, where the system tells."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def main(groups: Sequence[str]) -> None:
    """Compile groups of kernels."""
    from npu.numerics.kernel import compile_kernels

    for group in groups:
        if group == TIMING:
            import_module("sim.timing")
            compile_kernels("npu.machine.kernels")
            compile_kernels("sim.timing.kernels")
        else:
            from sim.functional.plan import best_tier, make_plan

            make_plan([], best_tier())  # imports the kernels for this processor
            compile_kernels("npu.isa.weight_stream.kernels.decode")
            compile_kernels("sim.functional.kernels")


if __name__ == "__main__":
    main(sys.argv[1:])
