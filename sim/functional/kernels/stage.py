"""LLVM vector code of kernels that know an operation by its ROW."""

# mypy: allow-untyped-calls

from __future__ import annotations

from npu.native.emit import function
from npu.numerics.output_code import StageEmitter
from sim.functional.kernels.rows import ROW


class RowEmitter(StageEmitter):
    """Emits fields of the operation's row and its output stage."""

    ROW = ROW


def stage_function(name, count, emit):  # type: ignore[no-untyped-def]
    """A function of words for kernels to call, written with a RowEmitter."""
    return function(name, count, emit, RowEmitter)
