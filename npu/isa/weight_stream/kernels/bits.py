"""Bits of words, as instructions of LLVM."""

from __future__ import annotations

from npu.native import types as ty
from npu.native.kernel import IrValue, intrinsic

ZEROS_LANES = 64
"""Codes that `zeros_at` looks at."""


@intrinsic(ty.uint64(ty.uint64))
def count_ones(builder: IrValue, bits: IrValue) -> IrValue:
    """Number of ones in a 64-bit number."""
    return builder.ctpop(bits)


@intrinsic(ty.uint64(ty.uint64))
def lowest_one(builder: IrValue, bits: IrValue) -> IrValue:
    """Place of the lowest one in a 64-bit number, 64 if there is none."""
    from llvmlite import ir

    return builder.cttz(bits, ir.IntType(1)(0))


@intrinsic(ty.uint64(ty.int64))
def zeros_at(builder: IrValue, address: IrValue) -> IrValue:
    """A bit for each of the ZEROS_LANES numbers of 16 bits at an address: whether it is 0."""
    from llvmlite import ir

    kind = ir.VectorType(ir.IntType(16), ZEROS_LANES)
    numbers = builder.load(builder.inttoptr(address, kind.as_pointer()))
    numbers.align = 1
    zero = ir.Constant(kind, [0] * ZEROS_LANES)
    return builder.bitcast(builder.icmp_signed("==", numbers, zero), ir.IntType(64))
