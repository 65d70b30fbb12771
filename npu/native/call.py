"""How Python calls an entry of a library: addresses, lengths and numbers in, numbers out.

The entry `i32 f(...)` takes an int64 for an integer, a double for a float, an int64 with the address of a structure, and for an
array its address and an int64 for each axis; then, if it returns anything, the address of 8 bytes for each number. It gives 0,
or another number if the kernel ended with an exception.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import chain
from typing import Any

from npu.native.types import ArrayType, KernelSignature, ScalarType

WORD, REAL, STATUS = ctypes.c_int64, ctypes.c_double, ctypes.c_int32


def prototype(signature: KernelSignature) -> list[type[Any]]:
    """The C types of the arguments of an entry."""
    words = chain.from_iterable(_c_types(kind) for kind in signature.arguments)
    return [*words, *([ctypes.c_void_p] if signature.returns else [])]


def _c_types(kind: ScalarType | ArrayType) -> list[type[Any]]:
    if isinstance(kind, ArrayType):
        return [WORD] * (1 + kind.ndim)
    return [REAL if kind.dtype.kind == "f" else WORD]


def caller(signature: KernelSignature, address: int, name: str) -> tuple[Callable[..., Any], Callable[..., Callable[[], Any]]]:
    """A Python function that calls the entry at an address, and one that makes such a call ready to be repeated."""
    kinds = prototype(signature)
    entry = ctypes.CFUNCTYPE(STATUS, *kinds)(address)
    converters = [_converter(kind) for kind in signature.arguments]
    count = len(converters)
    results = type("Results", (ctypes.Structure,), {"_fields_": [(f"r{k}", _wide(r)) for k, r in enumerate(signature.returns)]})
    returned = [f"r{k}" for k in range(len(signature.returns))]

    def words_of(arguments: tuple[Any, ...]) -> list[Any]:
        if len(arguments) != count:
            raise TypeError(f"{name} takes {count} arguments, got {len(arguments)}")
        words: list[Any] = []
        for convert, argument in zip(converters, arguments, strict=True):
            convert(argument, words)
        return words

    def check(status: int) -> None:
        if status:
            raise ArithmeticError(f"{name} divided by zero or found no memory")

    def value(out: Any) -> Any:
        return tuple(getattr(out, name) for name in returned) if signature.is_tuple else out.r0

    def call_void(*arguments: Any) -> None:
        check(entry(*words_of(arguments)))

    def call(*arguments: Any) -> Any:
        out = results()
        check(entry(*words_of(arguments), ctypes.addressof(out)))
        return value(out)

    def bind(*arguments: Any) -> Callable[[], Any]:
        out = results()
        words = [kind(word) for kind, word in zip(kinds, words_of(arguments), strict=False)]
        words += [ctypes.c_void_p(ctypes.addressof(out))] if returned else []

        def again(_kept: tuple[Any, ...] = arguments) -> Any:
            if entry(*words):
                check(1)
            return value(out) if returned else None

        return again

    return (call if returned else call_void), bind


def _wide(scalar: ScalarType) -> type[Any]:
    """What lies in the 8 bytes of a returned number, from the first on."""
    kinds = {"f": REAL, "b": ctypes.c_bool, "u": ctypes.c_uint64}
    return kinds.get(scalar.dtype.kind, WORD)


def _converter(kind: ScalarType | ArrayType) -> Callable[[Any, list[Any]], None]:
    """What appends an argument to the words of a call."""
    if isinstance(kind, ArrayType):
        return _array_converter(kind)
    if kind.dtype.kind == "V":
        return lambda record, words: words.append(record.__array_interface__["data"][0])
    number = float if kind.dtype.kind == "f" else int
    return lambda argument, words: words.append(number(argument))


def array_address(array: Any) -> int:
    """Where the elements of a C-contiguous array of numbers are; a fifth of the time of `ctypes.data`, if it can be written."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # one that is constant, or has no elements
        address: int = array.ctypes.data
        return address


def _array_converter(kind: ArrayType) -> Callable[[Any, list[Any]], None]:
    dtype, ndim, is_constant = kind.dtype, kind.ndim, kind.is_constant
    is_structured = dtype.kind == "V"  # whose interface describes every field, which takes longer than most kernels

    def convert(array: Any, words: list[Any]) -> None:
        if array.dtype != dtype or array.ndim != ndim:
            raise TypeError(f"an array of {dtype} with {ndim} axes is needed, got {array.dtype} with {array.ndim}")
        flags = array.flags
        if not flags.c_contiguous or not (is_constant or flags.writeable):
            raise TypeError("a C-contiguous array that may be written is needed")
        words.append(array.ctypes.data if is_structured else array_address(array))
        words.extend(array.shape)

    return convert
