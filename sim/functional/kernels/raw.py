"""Loads and stores at machine addresses for compiled kernels; the callers have checked every range before."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic


def _loader(bits, result):  # type: ignore[no-untyped-def]
    @intrinsic
    def load(typingctx, address):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            if bits == 64:
                return value
            extend = builder.sext if result.startswith("i") else builder.zext
            return extend(value, ir.IntType(64))

        return nb.int64(nb.int64), codegen

    return load


def _storer(bits):  # type: ignore[no-untyped-def]
    @intrinsic
    def store(typingctx, address, value):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            narrow = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
            builder.store(narrow, pointer).align = 1
            return context.get_dummy_value()

        return nb.void(nb.int64, nb.int64), codegen

    return store


def _indexed_loader(bits, result):  # type: ignore[no-untyped-def]
    """A load of element `index` of an array: unlike a computed address, LLVM vectorises a loop over it."""

    @intrinsic
    def load(typingctx, address, index):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [args[1]]))
            value.align = 1
            if bits == 64:
                return value
            extend = builder.sext if result.startswith("i") else builder.zext
            return extend(value, ir.IntType(64))

        return nb.int64(nb.int64, nb.int64), codegen

    return load


def _indexed_storer(bits):  # type: ignore[no-untyped-def]
    @intrinsic
    def store(typingctx, address, index, value):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            narrow = args[2] if bits == 64 else builder.trunc(args[2], ir.IntType(bits))
            builder.store(narrow, builder.gep(pointer, [args[1]])).align = 1
            return context.get_dummy_value()

        return nb.void(nb.int64, nb.int64, nb.int64), codegen

    return store


load_u8 = _loader(8, "u")
load_i8 = _loader(8, "i")
load_i16 = _loader(16, "i")
load_i32 = _loader(32, "i")
load_i64 = _loader(64, "i")
store_8 = _storer(8)
store_64 = _storer(64)

load_u8_at = _indexed_loader(8, "u")
load_i8_at = _indexed_loader(8, "i")
load_u16_at = _indexed_loader(16, "u")
load_i16_at = _indexed_loader(16, "i")
load_i32_at = _indexed_loader(32, "i")
load_i64_at = _indexed_loader(64, "i")
store_8_at = _indexed_storer(8)
store_16_at = _indexed_storer(16)
store_32_at = _indexed_storer(32)
store_64_at = _indexed_storer(64)


@intrinsic
def copy_bytes(typingctx, target, source, length):  # type: ignore[no-untyped-def]
    """memmove between machine addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        byte = ir.IntType(8).as_pointer()
        cgutils.raw_memmove(builder, builder.inttoptr(args[0], byte), builder.inttoptr(args[1], byte), args[2], 1)
        return context.get_dummy_value()

    return nb.void(nb.int64, nb.int64, nb.int64), codegen


@intrinsic
def compare_bytes(typingctx, first, second, length):  # type: ignore[no-untyped-def]
    """0 if the bytes at two machine addresses are equal; the C library's memcmp."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.IntType(32), [word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        return builder.sext(builder.call(function, args), word)

    return nb.int64(nb.int64, nb.int64, nb.int64), codegen


def address_of(function: Any, *arguments: Any) -> int:
    """Machine address of a kernel with these types of arguments, for `call`; it is compiled or loaded if it was not."""
    function.get_call_template(arguments, {})
    compiled = function.overloads[arguments]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address


def _caller(signature):  # type: ignore[no-untyped-def]
    types = signature.args[1:]

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        convention = context.call_conv
        function = builder.inttoptr(args[0], convention.get_function_type(nb.void, types).as_pointer())
        status, _ = convention.call_function(builder, function, nb.void, types, args[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def call_2(typingctx, address, first, second):  # type: ignore[no-untyped-def]
    """Call the kernel at an address. Linked into its caller, it would be optimised again: seconds of a first run."""
    return _caller(nb.void(nb.int64, first, second))


@intrinsic
def call_3(typingctx, address, first, second, third):  # type: ignore[no-untyped-def]
    """As `call_2`."""
    return _caller(nb.void(nb.int64, first, second, third))
