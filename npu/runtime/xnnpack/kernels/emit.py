"""LLVM vector code for numba: the idioms that the kernels of this package share, and the choice of 8-bit dot products.

Addresses are int64 everywhere. Vectors have 16 lanes; LLVM splits them on CPUs with narrower registers.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import os

import llvmlite.binding as llvm
import numba as nb
from llvmlite import ir
from numba.extending import intrinsic

WORD = ir.IntType(64)
INT = ir.IntType(32)
BYTE = ir.IntType(8)
FLOAT = ir.FloatType()
LANES = ir.VectorType(INT, 16)
PAIRS = ir.VectorType(WORD, 8)
BYTES = ir.VectorType(BYTE, 16)
FLOATS = ir.VectorType(FLOAT, 16)
DOUBLES = ir.VectorType(ir.DoubleType(), 16)
MASK = ir.VectorType(ir.IntType(1), 16)
_MANGLED = {str(FLOATS): "v16f32", str(LANES): "v16i32", str(BYTES): "v16i8", str(DOUBLES): "v16f64"}
_DOT = "llvm.x86.avx512.vpdpbusd.512"


def has_dot_product() -> bool:
    """Whether the CPU that numba compiles for multiplies and adds four bytes per lane in one instruction."""
    named = os.environ.get("NUMBA_CPU_FEATURES")
    if named is not None:
        return "+avx512vnni" in named.split(",")
    return bool(llvm.get_host_cpu_features().get("avx512vnni", False))


class Emitter:
    """Wraps an IRBuilder; values are LLVM values, addresses int64."""

    def __init__(self, builder, module, *, dot: bool) -> None:  # type: ignore[no-untyped-def]
        self.b = builder
        self.module = module
        self._dot = dot

    def word(self, value):  # type: ignore[no-untyped-def]
        return ir.Constant(WORD, value)

    def function(self, name, kind):  # type: ignore[no-untyped-def]
        return self.module.globals.get(name) or ir.Function(self.module, kind, name)

    def load(self, kind, address, displacement=0):  # type: ignore[no-untyped-def]
        if displacement:
            address = self.b.add(address, self.word(displacement))
        value = self.b.load(self.b.inttoptr(address, kind.as_pointer()), typ=kind)
        value.align = 1
        return value

    def load_first(self, kind, address, count):  # type: ignore[no-untyped-def]
        """The first `count` lanes at an address, zero in the others, without touching the memory of those."""
        pointer = self.b.inttoptr(address, kind.as_pointer())
        keep = self.b.icmp_signed("<", ir.Constant(LANES, list(range(16))), self.splat_word(count))
        name = f"llvm.masked.load.{_MANGLED[str(kind)]}.p0"
        function = self.function(name, ir.FunctionType(kind, [pointer.type, INT, MASK, kind]))
        return self.b.call(function, [pointer, ir.Constant(INT, 1), keep, ir.Constant(kind, None)])

    def splat(self, scalar):  # type: ignore[no-untyped-def]
        kind = ir.VectorType(scalar.type, 16)
        one = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(INT, 0))
        return self.b.shuffle_vector(one, one, ir.Constant(LANES, [0] * 16))

    def splat_word(self, value):  # type: ignore[no-untyped-def]
        return self.splat(self.b.trunc(value, INT))

    def splat_float(self, value):  # type: ignore[no-untyped-def]
        """A float32 whose bits are the low half of a word."""
        return self.splat(self.b.bitcast(self.b.trunc(value, INT), FLOAT))

    def constant(self, value):  # type: ignore[no-untyped-def]
        return ir.Constant(LANES, [value] * 16)

    def multiply_add(self, a, b, total):  # type: ignore[no-untyped-def]
        """a * b + total in float32, fused where the CPU can."""
        product = self.b.fmul(a, b, flags=("contract",))
        return self.b.fadd(product, total, flags=("contract",))

    def dot(self, total, unsigned, signed):  # type: ignore[no-untyped-def]
        """Each lane of `total` plus four products of unsigned by signed bytes, modulo 2**32."""
        if self._dot:
            function = self.function(_DOT, ir.FunctionType(LANES, [LANES] * 3))
            return self.b.call(function, [total, unsigned, signed])
        for byte in range(4):
            left = self.b.and_(self.b.lshr(unsigned, self.constant(8 * byte)), self.constant(255))
            right = self.b.ashr(self.b.shl(signed, self.constant(24 - 8 * byte)), self.constant(24))
            total = self.b.add(total, self.b.mul(left, right))
        return total

    def rescale(self, total, factors):  # type: ignore[no-untyped-def]
        """Doubling high multiplication, then division by a power of two with ties away from zero (rounds twice).

        factors: left shift, multiplier, right shift, as lanes. |total| << left shift must be below 2**31.
        """
        shifted = self.b.shl(total, factors[0])
        a, m = self.b.bitcast(shifted, PAIRS), self.b.bitcast(factors[1], PAIRS)
        half, nudge, places = (ir.Constant(PAIRS, [value] * 8) for value in (32, 1 << 30, 31))
        even = self.b.mul(self.b.ashr(self.b.shl(a, half), half), self.b.ashr(self.b.shl(m, half), half))
        odd = self.b.mul(self.b.ashr(a, half), self.b.ashr(m, half))
        parts = [self.b.bitcast(self.b.ashr(self.b.add(part, nudge), places), LANES) for part in (even, odd)]
        order = [lane for k in range(8) for lane in (2 * k, 2 * k + 16)]
        value = self.b.shuffle_vector(*parts, ir.Constant(LANES, order))
        return self.divide(value, factors[2])

    def interleave(self, parts):  # type: ignore[no-untyped-def]
        """Up to four vectors of 16 bytes as the bytes of 16 lanes, the first lowest; missing ones are undefined."""
        parts = [*parts, *[ir.Constant(BYTES, ir.Undefined)] * (4 - len(parts))]
        order = ir.Constant(ir.VectorType(INT, 32), list(range(32)))
        halves = [self.b.shuffle_vector(parts[k], parts[k + 1], order) for k in (0, 2)]
        places = [16 * part + lane for lane in range(16) for part in range(4)]
        whole = self.b.shuffle_vector(*halves, ir.Constant(ir.VectorType(INT, 64), places))
        return self.b.bitcast(whole, LANES)

    def divide(self, value, shift):  # type: ignore[no-untyped-def]
        """value / 2**shift, ties away from zero, without overflow."""
        mask = self.b.sub(self.b.shl(self.constant(1), shift), self.constant(1))
        negative = self.b.lshr(value, self.constant(31))
        threshold = self.b.add(self.b.lshr(mask, self.constant(1)), negative)
        above = self.b.icmp_signed(">", self.b.and_(value, mask), threshold)
        return self.b.add(self.b.ashr(value, shift), self.b.zext(above, LANES))

    def clamp(self, value, low, high):  # type: ignore[no-untyped-def]
        value = self.b.select(self.b.icmp_signed(">", value, low), value, low)
        return self.b.select(self.b.icmp_signed("<", value, high), value, high)

    def clamp_float(self, value, low, high):  # type: ignore[no-untyped-def]
        """Not-a-number stays as it is."""
        value = self.b.select(self.b.fcmp_unordered("<", value, low), self._keep_nan(value, low), value)
        return self.b.select(self.b.fcmp_ordered(">", value, high), high, value)

    def _keep_nan(self, value, low):  # type: ignore[no-untyped-def]
        return self.b.select(self.b.fcmp_unordered("uno", value, value), value, low)

    def store(self, value, address, count):  # type: ignore[no-untyped-def]
        """Store the first `count` lanes and touch nothing else, so that threads may write neighbours."""
        pointer = self.b.inttoptr(address, value.type.as_pointer())
        with self.b.if_else(self.b.icmp_signed("<", count, self.word(16))) as (partial, whole):
            with partial:
                lanes = ir.Constant(LANES, list(range(16)))
                keep = self.b.icmp_signed("<", lanes, self.splat_word(count))
                name = f"llvm.masked.store.{_MANGLED[str(value.type)]}.p0"
                kind = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, INT, MASK])
                self.b.call(self.function(name, kind), [value, pointer, ir.Constant(INT, 1), keep])
            with whole:
                self.b.store(value, pointer).align = 1

    def loop(self, count, carried, body):  # type: ignore[no-untyped-def]
        """`for index in range(count): carried = body(index, carried)`; the values after the loop."""
        before = self.b.block
        head, inside, after = (self.b.append_basic_block() for _ in range(3))
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(WORD)
        index.add_incoming(self.word(0), before)
        phis = [self.b.phi(value.type) for value in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(value, before)
        self.b.cbranch(self.b.icmp_signed("<", index, count), inside, after)
        self.b.position_at_end(inside)
        results = body(index, phis)
        last = self.b.block
        index.add_incoming(self.b.add(index, self.word(1)), last)
        for phi, value in zip(phis, results, strict=True):
            phi.add_incoming(value, last)
        self.b.branch(head)
        self.b.position_at_end(after)
        return phis


def internal(name, count, emit, *, dot):  # type: ignore[no-untyped-def]
    """Code generator of an intrinsic that calls an internal function of `count` int64 arguments with the body `emit`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        module = builder.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD] * count), name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            body = ir.IRBuilder(function.append_basic_block())
            emit(Emitter(body, module, dot=dot), function.args)
            body.ret_void()
        builder.call(function, args)
        return context.get_dummy_value()

    return codegen


def choice(kernels):  # type: ignore[no-untyped-def]
    """Code generator of an intrinsic that calls one of `kernels`, by the number in its first argument, with the others."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        after = builder.append_basic_block()
        switch = builder.switch(args[0], after)
        for number, kernel in kernels.items():
            block = builder.append_basic_block()
            switch.add_case(ir.Constant(WORD, number), block)
            builder.position_at_end(block)
            kernel(context, builder, signature, args[1:])
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return codegen


def _scalar_load(kind, extend):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), typ=kind)
        value.align = 1
        return builder.zext(value, WORD) if extend else value

    return codegen


@intrinsic
def load_word(typingctx, address):  # type: ignore[no-untyped-def]
    """The int64 at an address."""
    return nb.int64(nb.int64), _scalar_load(WORD, False)


@intrinsic
def load_byte(typingctx, address):  # type: ignore[no-untyped-def]
    """The unsigned byte at an address."""
    return nb.int64(nb.int64), _scalar_load(BYTE, True)


@intrinsic
def load_float(typingctx, address):  # type: ignore[no-untyped-def]
    """The float32 at an address."""
    return nb.float32(nb.int64), _scalar_load(FLOAT, False)


@intrinsic
def load_int(typingctx, address):  # type: ignore[no-untyped-def]
    """The int32 at an address."""
    return nb.int32(nb.int64), _scalar_load(INT, False)


@intrinsic
def store_float(typingctx, address, value):  # type: ignore[no-untyped-def]
    """Write a float32."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(args[1], builder.inttoptr(args[0], FLOAT.as_pointer())).align = 4
        return context.get_dummy_value()

    return nb.void(nb.int64, nb.float32), codegen


@intrinsic
def store_int(typingctx, address, value):  # type: ignore[no-untyped-def]
    """Write an int32."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(args[1], builder.inttoptr(args[0], INT.as_pointer())).align = 4
        return context.get_dummy_value()

    return nb.void(nb.int64, nb.int32), codegen


@intrinsic
def store_byte(typingctx, address, value):  # type: ignore[no-untyped-def]
    """Write the low byte of a value."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(builder.trunc(args[1], BYTE), builder.inttoptr(args[0], BYTE.as_pointer()))
        return context.get_dummy_value()

    return nb.void(nb.int64, nb.int64), codegen


@intrinsic
def copy_bytes(typingctx, target, source, count):  # type: ignore[no-untyped-def]
    """memcpy between addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        pointers = [builder.inttoptr(value, BYTE.as_pointer()) for value in args[:2]]
        kind = ir.FunctionType(ir.VoidType(), [pointers[0].type, pointers[1].type, WORD, ir.IntType(1)])
        name = "llvm.memcpy.p0.p0.i64"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        builder.call(function, [*pointers, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return nb.void(nb.int64, nb.int64, nb.int64), codegen


@intrinsic
def add_atomic(typingctx, address, value):  # type: ignore[no-untyped-def]
    """Add to the int64 at an address as one step; the value before."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("add", builder.inttoptr(args[0], WORD.as_pointer()), args[1], "seq_cst")

    return nb.int64(nb.int64, nb.int64), codegen


@intrinsic
def yield_processor(typingctx):  # type: ignore[no-untyped-def]
    """Let another thread run."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(INT, [])
        function = builder.module.globals.get("sched_yield") or ir.Function(builder.module, kind, "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()

    return nb.void(), codegen
