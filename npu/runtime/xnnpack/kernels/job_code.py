"""LLVM vector code of kernels that know an operation by its job row."""

# mypy: allow-untyped-calls

from __future__ import annotations

from npu.native.emit import function
from npu.numerics.output_code import StageEmitter
from npu.runtime.xnnpack.kernels import row as r


class JobEmitter(StageEmitter):
    """Emits fields of a job row and its output stage."""

    ROW = r.JOB


def job_function(name, count, emit):  # type: ignore[no-untyped-def]
    """A function of words for kernels to call, written with a JobEmitter."""
    return function(name, count, emit, JobEmitter)
