"""Memory at machine addresses, for compiled kernels; their callers have checked every range before."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING

from npu.native import cpu
from npu.native import types as ty
from npu.native.kernel import Intrinsic, IrValue, intrinsic

if TYPE_CHECKING:
    from llvmlite import ir


def _element(kind: ty.ScalarType) -> ir.Type:
    from llvmlite import ir  # where code is written; those who run it do without

    if kind.dtype.kind == "f":
        return ir.FloatType() if kind.dtype.itemsize == 4 else ir.DoubleType()
    return ir.IntType(8 * kind.dtype.itemsize)


def _pointer(builder: ir.IRBuilder, kind: ir.Type, address: IrValue, index: IrValue | None) -> IrValue:
    """A computed address, or element `index` of an array: LLVM turns a loop over the latter into vector code."""
    pointer = builder.inttoptr(address, kind.as_pointer())
    return pointer if index is None else builder.gep(pointer, [index])


def _loader(kind: ty.ScalarType, *, is_indexed: bool) -> Intrinsic:
    """A load of a number of any alignment; integers become int64."""

    def load(builder: ir.IRBuilder, address: IrValue, index: IrValue | None = None) -> IrValue:
        value = builder.load(_pointer(builder, _element(kind), address, index))
        value.align = 1
        if kind.dtype.kind == "f" or kind.dtype.itemsize == 8:
            return value
        return (builder.sext if kind.dtype.kind == "i" else builder.zext)(value, _element(ty.int64))

    result = kind if kind.dtype.kind == "f" else ty.int64
    return Intrinsic(load, result(*[ty.int64] * (1 + is_indexed)))


def _storer(kind: ty.ScalarType, *, is_indexed: bool) -> Intrinsic:
    """A store of a number, or of the low bits of an int64, at any alignment."""

    def store(builder: ir.IRBuilder, address: IrValue, *rest: IrValue) -> None:
        *index, value = rest
        element = _element(kind)
        narrow = value if kind.dtype.kind == "f" or kind.dtype.itemsize == 8 else builder.trunc(value, element)
        builder.store(narrow, _pointer(builder, element, address, index[0] if index else None)).align = 1

    value = kind if kind.dtype.kind == "f" else ty.int64
    return Intrinsic(store, ty.void(*[ty.int64] * (1 + is_indexed), value))


load_u8, load_i8, load_i16, load_i32, load_i64, load_float = (
    _loader(kind, is_indexed=False) for kind in (ty.uint8, ty.int8, ty.int16, ty.int32, ty.int64, ty.float32)
)
load_u8_at, load_i8_at, load_u16_at, load_i16_at, load_i32_at, load_i64_at = (
    _loader(kind, is_indexed=True) for kind in (ty.uint8, ty.int8, ty.uint16, ty.int16, ty.int32, ty.int64)
)
store_8, store_32, store_64, store_float = (
    _storer(kind, is_indexed=False) for kind in (ty.int8, ty.int32, ty.int64, ty.float32)
)
store_8_at, store_16_at, store_32_at, store_64_at = (
    _storer(kind, is_indexed=True) for kind in (ty.int8, ty.int16, ty.int32, ty.int64)
)


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: IrValue) -> IrValue:
    """A call of a function of LLVM or of the C library."""
    from llvmlite import ir

    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), arguments)


def _pointers(builder: ir.IRBuilder, *addresses: IrValue) -> list[IrValue]:
    return [builder.inttoptr(address, _element(ty.int8).as_pointer()) for address in addresses]


@intrinsic(ty.void(ty.int64, ty.int64, ty.int64))
def copy_bytes(builder: ir.IRBuilder, target: IrValue, source: IrValue, count: IrValue) -> None:
    """memmove(target, source, count)."""
    from llvmlite import ir

    _call(builder, "llvm.memmove.p0.p0.i64", ir.VoidType(), *_pointers(builder, target, source), count, ir.IntType(1)(0))


@intrinsic(ty.int64(ty.int64, ty.int64, ty.int64))
def compare_bytes(builder: ir.IRBuilder, first: IrValue, second: IrValue, count: IrValue) -> IrValue:
    """0 if the bytes at two addresses are equal: memcmp."""
    return builder.sext(_call(builder, "memcmp", _element(ty.int32), *_pointers(builder, first, second), count), count.type)


SMALL_WORDS = 512
"""Of a `small_buffer`."""


@intrinsic(ty.int64())
def small_buffer(builder: ir.IRBuilder) -> IrValue:
    """Memory for SMALL_WORDS int64 as long as the calling kernel runs, another one at each place that asks: not to be kept."""
    from llvmlite import ir

    with builder.goto_entry_block():
        buffer = builder.alloca(ir.ArrayType(_element(ty.int64), SMALL_WORDS))
        buffer.align = 64
    return builder.ptrtoint(buffer, _element(ty.int64))


@intrinsic(ty.int64(ty.int64, ty.int64))
def add_atomic(builder: ir.IRBuilder, address: IrValue, value: IrValue) -> IrValue:
    """Add to the int64 at an address as one step; the value before."""
    return builder.atomic_rmw("add", builder.inttoptr(address, value.type.as_pointer()), value, "seq_cst")


@intrinsic(ty.int64(ty.int64))
def load_atomic(builder: ir.IRBuilder, address: IrValue) -> IrValue:
    """The int64 at an address that others change; what they wrote before is seen after."""
    return builder.load_atomic(builder.inttoptr(address, address.type.as_pointer()), "acquire", 8)


_SYS_FUTEX = {cpu.X86_64: 202, cpu.AARCH64: 98}
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129
"""futex(2) of Linux, for the threads of a process."""


def _futex(builder: ir.IRBuilder, address: IrValue, operation: int, value: IrValue) -> None:
    word = address.type
    arguments = word(_SYS_FUTEX[cpu.current().machine]), address, word(operation), value, word(0)
    _call(builder, "syscall", word, *arguments)


@intrinsic(ty.void(ty.int64, ty.int64))
def sleep_while(builder: ir.IRBuilder, address: IrValue, value: IrValue) -> None:
    """While the low half of the int64 at an address is `value`, let other threads run: until `wake_all`, or once."""
    if cpu.PLATFORM == "linux":
        _futex(builder, address, _FUTEX_WAIT, value)
    else:
        _call(builder, "SwitchToThread" if cpu.PLATFORM == "win32" else "sched_yield", _element(ty.int32))


@intrinsic(ty.void(ty.int64))
def wake_all(builder: ir.IRBuilder, address: IrValue) -> None:
    """End every `sleep_while` at an address."""
    if cpu.PLATFORM == "linux":
        _futex(builder, address, _FUTEX_WAKE, address.type((1 << 31) - 1))
