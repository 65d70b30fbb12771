"""Memory at machine addresses, for compiled kernels; their callers have checked every range before."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

from llvmlite import ir

from npu.native import types as ty
from npu.native.kernel import Intrinsic, intrinsic

WORD, INT, FLAG = ir.IntType(64), ir.IntType(32), ir.IntType(1)
_POINTER = ir.IntType(8).as_pointer()
Value = Any


def _element(kind: ty.Scalar) -> ir.Type:
    if kind.dtype.kind == "f":
        return ir.FloatType() if kind.dtype.itemsize == 4 else ir.DoubleType()
    return ir.IntType(8 * kind.dtype.itemsize)


def _pointer(builder: ir.IRBuilder, kind: ir.Type, address: Value, index: Value | None) -> Value:
    """A computed address, or element `index` of an array: LLVM turns a loop over the latter into vector code."""
    pointer = builder.inttoptr(address, kind.as_pointer())
    return pointer if index is None else builder.gep(pointer, [index])


def _loader(kind: ty.Scalar, *, is_indexed: bool) -> Intrinsic:
    """A load of a number of any alignment; integers become int64."""
    element = _element(kind)

    def load(builder: ir.IRBuilder, address: Value, index: Value | None = None) -> Value:
        value = builder.load(_pointer(builder, element, address, index))
        value.align = 1
        if kind.dtype.kind == "f" or element == WORD:
            return value
        return (builder.sext if kind.dtype.kind == "i" else builder.zext)(value, WORD)

    result = kind if kind.dtype.kind == "f" else ty.int64
    return Intrinsic(load, result(*[ty.int64] * (1 + is_indexed)))


def _storer(kind: ty.Scalar, *, is_indexed: bool) -> Intrinsic:
    """A store of a number, or of the low bits of an int64, at any alignment."""
    element = _element(kind)

    def store(builder: ir.IRBuilder, address: Value, *rest: Value) -> None:
        *index, value = rest
        narrow = value if kind.dtype.kind == "f" or element == WORD else builder.trunc(value, element)
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


def _c_function(builder: ir.IRBuilder, name: str, kind: ir.FunctionType) -> Value:
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


@intrinsic(ty.void(ty.int64, ty.int64, ty.int64))
def copy_bytes(builder: ir.IRBuilder, target: Value, source: Value, count: Value) -> None:
    """memmove(target, source, count)."""
    kind = ir.FunctionType(ir.VoidType(), [_POINTER, _POINTER, WORD, FLAG])
    pointers = [builder.inttoptr(address, _POINTER) for address in (target, source)]
    builder.call(_c_function(builder, "llvm.memmove.p0.p0.i64", kind), [*pointers, count, FLAG(0)])


@intrinsic(ty.int64(ty.int64, ty.int64, ty.int64))
def compare_bytes(builder: ir.IRBuilder, first: Value, second: Value, count: Value) -> Value:
    """0 if the bytes at two addresses are equal: memcmp."""
    kind = ir.FunctionType(INT, [_POINTER, _POINTER, WORD])
    pointers = [builder.inttoptr(address, _POINTER) for address in (first, second)]
    return builder.sext(builder.call(_c_function(builder, "memcmp", kind), [*pointers, count]), WORD)


@intrinsic(ty.int64(ty.int64, ty.int64))
def add_atomic(builder: ir.IRBuilder, address: Value, value: Value) -> Value:
    """Add to the int64 at an address as one step; the value before."""
    return builder.atomic_rmw("add", builder.inttoptr(address, WORD.as_pointer()), value, "seq_cst")


@intrinsic(ty.void())
def yield_processor(builder: ir.IRBuilder) -> None:
    """Let another thread run."""
    builder.call(_c_function(builder, "sched_yield", ir.FunctionType(INT, [])), [])
