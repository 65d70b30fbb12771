"""LLVM vector code: the idioms that kernels share, and functions of such code that kernels call.

Addresses are int64 everywhere. Vectors have 16 lanes; LLVM cuts them to what a CPU has.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.kernel import Intrinsic, IrValue

WORD = ir.IntType(64)
INT = ir.IntType(32)
BYTE = ir.IntType(8)
FLOAT = ir.FloatType()
LANES = ir.VectorType(INT, 16)
PAIRS = ir.VectorType(WORD, 8)
BYTES = ir.VectorType(BYTE, 16)
MANY_BYTES = ir.VectorType(BYTE, 64)
SHORTS = ir.VectorType(ir.IntType(16), 32)
FLOATS = ir.VectorType(FLOAT, 16)
DOUBLES = ir.VectorType(ir.DoubleType(), 16)
MASK = ir.VectorType(ir.IntType(1), 16)
_MANGLED = {str(FLOAT): "f32", str(INT): "i32", str(BYTE): "i8", str(ir.DoubleType()): "f64"}
_DOT = "llvm.x86.avx512.vpdpbusd.512"
_SIGNED_DOT = "llvm.aarch64.neon.sdot.v4i32.v16i8"

Body = Callable[[IrValue, list[IrValue]], list[IrValue]]


def _mangled(kind: ir.VectorType) -> str:
    """A type as LLVM has it in the names of its functions."""
    return f"v{kind.count}{_MANGLED[str(kind.element)]}"


class Emitter:
    """Wraps an IRBuilder."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b, self.module = builder, builder.module

    def word(self, value: int) -> IrValue:
        return ir.Constant(WORD, value)

    def constant(self, value: int) -> IrValue:
        return ir.Constant(LANES, [value] * 16)

    def offset(self, address: IrValue, distance: int) -> IrValue:
        return self.b.add(address, self.word(distance)) if distance else address

    def function(self, name: str, kind: ir.FunctionType) -> IrValue:
        return self.module.globals.get(name) or ir.Function(self.module, kind, name)

    def call(self, name: str, *arguments: IrValue) -> IrValue:
        """A call of one of LLVM's functions whose arguments and result have the same type."""
        kind = arguments[0].type
        return self.b.call(self.function(name, ir.FunctionType(kind, [kind] * len(arguments))), arguments)

    def inlined(self, name: str, returns: ir.Type, emit: Callable[..., Any], *arguments: IrValue) -> IrValue:
        """`emit(emitter, *arguments)`, written once in a module and copied by LLVM, which takes a tenth of writing it again."""
        name = f"{type(self).__name__}.{name}"
        target = self.module.globals.get(name)
        if target is None:
            target = ir.Function(self.module, ir.FunctionType(returns, [value.type for value in arguments]), name)
            target.linkage = "internal"
            target.attributes.add("alwaysinline")
            body = ir.IRBuilder(target.append_basic_block())
            value = emit(type(self)(body), *target.args)
            body.ret_void() if value is None else body.ret(value)
        return self.b.call(target, arguments)

    def load(self, kind: ir.Type, address: IrValue, displacement: int = 0) -> IrValue:
        pointer = self.b.inttoptr(self.offset(address, displacement), kind.as_pointer())
        value = self.b.load(pointer, typ=kind)
        value.align = 1
        return value

    def field_at(self, address: IrValue, row: np.dtype[Any], name: str) -> IrValue:
        """The address of a field of the structure at an address."""
        return self.offset(address, ty.offset_of(row, name))

    def field(self, address: IrValue, row: np.dtype[Any], name: str) -> IrValue:
        """A field of the structure at an address: a number, or as many lanes as it has."""
        kind = row[name]
        element = ir.IntType(8 * kind.base.itemsize)
        return self.load(ir.VectorType(element, kind.shape[0]) if kind.shape else element, self.field_at(address, row, name))

    def load_first(self, kind: ir.Type, address: IrValue, count: IrValue) -> IrValue:
        """The first `count` lanes at an address, zero in the others, without touching the memory of those."""
        return self.load_masked(kind, address, self.first_lanes(count))

    def load_masked(self, kind: ir.Type, address: IrValue, mask: IrValue) -> IrValue:
        """The lanes of a mask, zero in the others, without touching the memory of those."""
        pointer = self.b.inttoptr(address, kind.as_pointer())
        name = f"llvm.masked.load.{_mangled(kind)}.p0"
        function = self.function(name, ir.FunctionType(kind, [pointer.type, INT, mask.type, kind]))
        return self.b.call(function, [pointer, ir.Constant(INT, 1), mask, ir.Constant(kind, None)])

    def store(self, value: IrValue, address: IrValue) -> None:
        self.b.store(value, self.b.inttoptr(address, value.type.as_pointer())).align = 1

    def store_first(self, value: IrValue, address: IrValue, count: IrValue) -> None:
        """Store the first `count` lanes and touch nothing else, so that threads may write neighbours."""
        lanes = value.type.count
        with self.b.if_else(self.b.icmp_signed("<", count, self.word(lanes))) as (partial, whole):
            with partial:
                if value.type == BYTES and not current().has_byte_masks:
                    self._store_pieces(value, address, count)
                else:
                    self._store_masked(value, address, self.first_lanes(count, lanes))
            with whole:
                self.store(value, address)

    def _store_masked(self, value: IrValue, address: IrValue, mask: IrValue) -> None:
        pointer = self.b.inttoptr(address, value.type.as_pointer())
        name = f"llvm.masked.store.{_mangled(value.type)}.p0"
        kind = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, INT, mask.type])
        self.b.call(self.function(name, kind), [value, pointer, ir.Constant(INT, 1), mask])

    def _store_pieces(self, value: IrValue, address: IrValue, count: IrValue) -> None:
        """The first 1..15 of 16 bytes, as 8, 4, 2 and 1."""
        whole, at = self.b.bitcast(value, ir.IntType(128)), self.word(0)
        for size in (8, 4, 2, 1):
            bit = self.b.and_(count, self.word(size))
            with self.b.if_then(self.b.icmp_signed("!=", bit, self.word(0))):
                rest = self.b.lshr(whole, self.b.zext(self.b.shl(at, self.word(3)), whole.type))
                self.store(self.b.trunc(rest, ir.IntType(8 * size)), self.b.add(address, at))
            at = self.b.add(at, bit)

    def first_lanes(self, count: IrValue, lanes: int = 16) -> IrValue:
        """The mask of the first `count` lanes."""
        numbers = ir.Constant(ir.VectorType(INT, lanes), list(range(lanes)))
        return self.b.icmp_signed("<", numbers, self.splat(self.b.trunc(count, INT), lanes))

    def splat(self, scalar: IrValue, lanes: int = 16) -> IrValue:
        kind = ir.VectorType(scalar.type, lanes)
        one = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(INT, 0))
        return self.b.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT, lanes), [0] * lanes))

    def splat_word(self, value: IrValue) -> IrValue:
        return self.splat(self.b.trunc(value, INT))

    def splat_float(self, value: IrValue, lanes: int = 16) -> IrValue:
        """A float32 whose bits are the low half of a word."""
        return self.splat(self.b.bitcast(self.b.trunc(value, INT), FLOAT), lanes)

    def products(self, a: IrValue, m: IrValue) -> tuple[IrValue, IrValue]:
        """64-bit products of even and odd lanes."""
        return self._product(a, m), self._product(self.high_halves(a), self.high_halves(m))

    def _product(self, a: IrValue, m: IrValue) -> IrValue:
        half = ir.Constant(PAIRS, [32] * 8)
        a, m = (self.b.ashr(self.b.shl(self.b.bitcast(value, PAIRS), half), half) for value in (a, m))
        return self.b.mul(a, m)

    def high_halves(self, pairs: IrValue) -> IrValue:
        """Lanes whose even ones are the odd ones of `pairs`, as are the odd ones: a shuffle that every vector unit does."""
        lanes = self.b.bitcast(pairs, LANES)
        return self.b.shuffle_vector(lanes, lanes, ir.Constant(LANES, [k | 1 for k in range(16)]))

    def merge(self, even: IrValue, odd: IrValue) -> IrValue:
        """The low halves of even and odd products as lanes."""
        order = [lane for k in range(0, 16, 2) for lane in (k, k + 16)]
        return self.b.shuffle_vector(self.b.bitcast(even, LANES), self.b.bitcast(odd, LANES), ir.Constant(LANES, order))

    def multiply_add(self, a: IrValue, b: IrValue, total: IrValue) -> IrValue:
        """a * b + total in floats or doubles, fused where the CPU can."""
        product = self.b.fmul(a, b, flags=("contract",))
        return self.b.fadd(product, total, flags=("contract",))

    def dot(self, total: IrValue, unsigned: IrValue, signed: IrValue) -> IrValue:
        """Each lane of `total` plus four products of unsigned by signed bytes, modulo 2**32."""
        if current().has_signed_dot_product:  # of bytes that are 128 less
            moved, half = self.b.xor(unsigned, self.constant(0x80808080)), self.constant(0x40404040)
            corrected = self.dot_signed(self.dot_signed(self.constant(0), half, signed), half, signed)
            return self.b.add(self.dot_signed(total, moved, signed), corrected)
        if current().has_dot_product:
            return self.call(_DOT, total, unsigned, signed)
        for half in range(2):
            total = self.add_pairs(total, self.byte_pairs(unsigned, half, is_signed=False), self.byte_pairs(signed, half))
        return total

    def byte_pairs(self, lanes: IrValue, half: int, *, is_signed: bool = True) -> IrValue:
        """Of the four bytes of each lane the first and third, or the second and fourth, as 16-bit numbers."""
        eight, pairs = ir.Constant(SHORTS, [8] * 32), self.b.bitcast(lanes, SHORTS)
        shifted = pairs if half else self.b.shl(pairs, eight)
        return (self.b.ashr if is_signed else self.b.lshr)(shifted, eight)

    def dot_signed(self, total: IrValue, a: IrValue, b: IrValue) -> IrValue:
        """Each lane of `total` plus four products of signed bytes, modulo 2**32, by the instruction for it (sdot)."""
        lanes, of_bytes = ir.VectorType(INT, 4), BYTES
        function = self.function(_SIGNED_DOT, ir.FunctionType(lanes, [lanes, of_bytes, of_bytes]))
        quarters = []
        for k in range(0, 16, 4):
            order = ir.Constant(lanes, list(range(k, k + 4)))
            sums, *bytes_of = (self.b.shuffle_vector(value, value, order) for value in (total, a, b))
            quarters.append(self.b.call(function, [sums, *(self.b.bitcast(value, of_bytes) for value in bytes_of)]))
        return self.joined(quarters)

    def interleave(self, parts: list[IrValue]) -> IrValue:
        """Up to four vectors of 16 bytes as the bytes of 16 lanes, the first lowest; missing ones are undefined."""
        parts = [*parts, *[ir.Constant(BYTES, ir.Undefined)] * (4 - len(parts))]
        of_shorts = ir.VectorType(ir.IntType(16), 16)
        halves = [self.b.bitcast(self.in_turn(*parts[k : k + 2]), of_shorts) for k in (0, 2)]
        return self.b.bitcast(self.in_turn(*halves), LANES)

    def narrow(self, four: list[IrValue]) -> IrValue:
        """The lanes of four vectors one after the other as 64 signed bytes, saturated."""
        lanes = current().packed_lanes
        if lanes == 0:
            low, high = self.constant(-128), self.constant(127)
            return self.joined([self.b.trunc(self.clamp(value, low, high), BYTES) for value in four])
        places = [ir.Constant(ir.VectorType(INT, lanes), list(range(k, k + lanes))) for k in range(0, 16, lanes)]
        registers = [self.b.shuffle_vector(value, value, place) for value in four for place in places]
        return self.joined([self._narrow(registers[k : k + 4], lanes) for k in range(0, len(registers), 4)])

    def narrow_unpacked(self, four: list[IrValue]) -> IrValue:
        """As `narrow`, of vectors that have, in turn, 4 lanes of each 16 bytes: as two rounds of `unpack` leave them."""
        lanes = current().packed_lanes
        if lanes == 0:
            order = [16 * (k % 16 // 4) + 4 * (k // 16) + k % 4 for k in range(64)]
            packed = self.narrow(four)
            return self.b.shuffle_vector(packed, packed, ir.Constant(ir.VectorType(INT, 64), order))
        places = [ir.Constant(ir.VectorType(INT, lanes), list(range(k, k + lanes))) for k in range(0, 16, lanes)]
        turns = [[self.b.shuffle_vector(value, value, place) for value in four] for place in places]
        return self.joined([self._pack(registers, lanes) for registers in turns])

    def unpack(self, a: IrValue, b: IrValue, half: int) -> IrValue:
        """Of each 16 bytes of two vectors of 64 the first or second half, elements of both in turn."""
        count, lane = a.type.count, a.type.count // 4
        places = [lane * k + half * lane // 2 + n for k in range(4) for n in range(lane // 2)]
        order = [place + count * side for place in places for side in (0, 1)]
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, count), order))

    def in_turn(self, a: IrValue, b: IrValue) -> IrValue:
        """The elements of two vectors in turn."""
        count = a.type.count
        places = [count * side + k for k in range(count) for side in (0, 1)]
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, 2 * count), places))

    def add_pairs(self, total: IrValue, first: IrValue, second: IrValue) -> IrValue:
        """total + first[2 * k] * second[2 * k] + first[2 * k + 1] * second[2 * k + 1], of signed 16-bit numbers.

        In this form LLVM finds the instruction that nearly every CPU has (pmaddwd).
        """
        count = first.type.count
        kind, lanes = ir.VectorType(INT, count), ir.VectorType(INT, count // 2)
        products = self.b.mul(self.b.sext(first, kind), self.b.sext(second, kind))
        even, odd = (
            self.b.shuffle_vector(products, products, ir.Constant(lanes, list(range(start, count, 2)))) for start in (0, 1)
        )
        return self.b.add(total, self.b.add(even, odd))

    def _narrow(self, registers: list[IrValue], lanes: int) -> IrValue:
        """Four vectors of so many lanes as bytes, saturated. The instructions take 4 lanes of each in turn."""
        packed, turns = self._pack(registers, lanes), lanes // 4
        order = ir.Constant(ir.VectorType(INT, lanes), [4 * (k % turns) + k // turns for k in range(lanes)])
        fours = self.b.bitcast(packed, ir.VectorType(INT, lanes))
        return self.b.bitcast(self.b.shuffle_vector(fours, fours, order), packed.type)

    def _pack(self, registers: list[IrValue], lanes: int) -> IrValue:
        return self._saturate("packsswb", lanes, *(self._saturate("packssdw", lanes, *registers[k : k + 2]) for k in (0, 2)))

    def _saturate(self, name: str, lanes: int, a: IrValue, b: IrValue) -> IrValue:
        """Two vectors as one of half as many bits a lane."""
        full = {16: f"avx512.{name}.512", 8: f"avx2.{name}", 4: f"sse2.{name}.128"}[lanes]
        result = ir.VectorType(ir.IntType(a.type.element.width // 2), 2 * a.type.count)
        return self.b.call(self.function(f"llvm.x86.{full}", ir.FunctionType(result, [a.type, b.type])), [a, b])

    def joined(self, parts: list[IrValue]) -> IrValue:
        """Vectors one after the other, a power of two of them."""
        while len(parts) > 1:
            parts = [self._join(*parts[k : k + 2]) for k in range(0, len(parts), 2)]
        return parts[0]

    def _join(self, a: IrValue, b: IrValue) -> IrValue:
        count = 2 * a.type.count
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, count), list(range(count))))

    def clamp(self, value: IrValue, low: IrValue, high: IrValue) -> IrValue:
        value = self.b.select(self.b.icmp_signed(">", value, low), value, low)
        return self.b.select(self.b.icmp_signed("<", value, high), value, high)

    def clamp_float(self, value: IrValue, low: IrValue, high: IrValue) -> IrValue:
        """Not-a-number stays as it is."""
        raised = self.b.select(self.b.fcmp_ordered("<", value, low), low, value)
        return self.b.select(self.b.fcmp_ordered(">", raised, high), high, raised)

    def loop(self, count: IrValue, carried: list[IrValue], body: Body) -> list[IrValue]:
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


def function(name: str, count: int, emit: Callable[..., None], emitter: type[Emitter] = Emitter) -> Intrinsic:
    """A function of `count` words for kernels to call, of its own in the code, whose body `emit(emitter, arguments)` writes."""

    def call(builder: ir.IRBuilder, *arguments: IrValue) -> None:
        module = builder.module
        target = module.globals.get(name)
        if target is None:
            target = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD] * count), name)
            target.linkage = "internal"
            target.attributes.add("noinline")
            body = ir.IRBuilder(target.append_basic_block())
            emit(emitter(body), target.args)
            body.ret_void()
        builder.call(target, arguments)

    return Intrinsic(call, ty.void(*[ty.int64] * count))


def choice(functions: dict[int, Intrinsic]) -> Intrinsic:
    """Calls one of `functions`, by the number in the first argument, with the others."""

    def call(builder: ir.IRBuilder, number: IrValue, *arguments: IrValue) -> None:
        after = builder.append_basic_block()
        switch = builder.switch(number, after)
        for key, target in functions.items():
            block = builder.append_basic_block()
            switch.add_case(ir.Constant(WORD, key), block)
            builder.position_at_end(block)
            target.emit(builder, *arguments)
            builder.branch(after)
        builder.position_at_end(after)

    (signature, *_) = (target.signature for target in functions.values())
    return Intrinsic(call, ty.void(ty.int64, *signature.arguments))
