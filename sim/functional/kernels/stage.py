"""LLVM vector code of kernels that know an operation by its ROW."""

# mypy: allow-untyped-calls

from __future__ import annotations

from llvmlite import ir

from npu.native.cpu import current
from npu.native.emit import function
from npu.numerics.output_code import StageEmitter
from sim.functional.kernels.rows import ROW


class RowEmitter(StageEmitter):
    """Emits fields of the operation's row and its output stage."""

    ROW = ROW

    def input_flips(self, row, kind):  # type: ignore[no-untyped-def]
        """What bytes of inputs are exclusive-ored with to be what is multiplied: unsigned, or signed if dot products are."""
        flips = self.load(kind, self.of_row(row, "limits"))  # `flip_inputs` is the first of LIMITS
        if not current().has_signed_dot_product:
            return flips
        return self.b.xor(flips, ir.Constant(kind, [int("80" * (kind.element.width // 8), 16)] * kind.count))

    def widened_inputs(self, values):  # type: ignore[no-untyped-def]
        """Such bytes as 16-bit numbers."""
        kind = ir.VectorType(ir.IntType(16), values.type.count)
        return (self.b.sext if current().has_signed_dot_product else self.b.zext)(values, kind)

    def dot_inputs(self, total, inputs, weights):  # type: ignore[no-untyped-def]
        """Each lane of `total` plus four products of such bytes with signed ones."""
        return (self.dot_signed if current().has_signed_dot_product else self.dot)(total, inputs, weights)


def stage_function(name, count, emit):  # type: ignore[no-untyped-def]
    """A function of words for kernels to call, written with a RowEmitter."""
    return function(name, count, emit, RowEmitter)
