"""Type combinations of operators: the only place that knows their notation.

A pattern reads "f32 f32 f32? -> f32": one code per input, then per output. `code?` may be absent, `code*` repeats any number
of times,
`any` matches every type, and `a|b` is a choice.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from npu.graph.dtype import DType

CODES: dict[str, DType] = {
    "f32": DType.FLOAT32,
    "f16": DType.FLOAT16,
    "f64": DType.FLOAT64,
    "i4": DType.INT4,
    "i8": DType.INT8,
    "u8": DType.UINT8,
    "i16": DType.INT16,
    "u16": DType.UINT16,
    "i32": DType.INT32,
    "u32": DType.UINT32,
    "i64": DType.INT64,
    "u64": DType.UINT64,
    "bool": DType.BOOL,
    "str": DType.STRING,
    "res": DType.RESOURCE,
    "c64": DType.COMPLEX64,
}
EVERY_NUMBER = "f32 f16 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool c64"
"""Types that operators take which only move elements of any size."""
_NAMES = {dtype: code for code, dtype in CODES.items()}


def for_codes(pattern: str, codes: str) -> tuple[str, ...]:
    """`pattern` once per code, with the code in place of T."""
    return tuple(" ".join(_substitute(word, code) for word in pattern.split()) for code in codes.split())


def _substitute(word: str, code: str) -> str:
    return code + word[1:] if word[0] == "T" else word


def describe(inputs: Sequence[DType | None], outputs: Sequence[DType]) -> str:
    """The types of an operator in the notation of patterns; "-" where an input is absent."""
    left = " ".join("-" if dtype is None else _NAMES.get(dtype, str(dtype)) for dtype in inputs)
    return f"{left} -> {' '.join(_NAMES.get(dtype, str(dtype)) for dtype in outputs)}"


@functools.lru_cache(1024)
def matches(pattern: str, inputs: tuple[DType | None, ...], outputs: tuple[DType, ...]) -> bool:
    """Whether the types are one of those that the pattern describes."""
    left, right = pattern.split("->")
    return _side(left.split(), inputs) and _side(right.split(), outputs)


def _side(words: Sequence[str], dtypes: Sequence[DType | None]) -> bool:
    position = 0
    for word in words:
        if word.endswith("*"):
            return all(_fits(word[:-1], dtype) for dtype in dtypes[position:])
        if position >= len(dtypes):
            if not word.endswith("?"):
                return False
            continue
        if not _fits(word, dtypes[position]):
            return False
        position += 1
    return position == len(dtypes)


def _fits(word: str, dtype: DType | None) -> bool:
    if dtype is None:
        return word.endswith("?")
    code = word.removesuffix("?")
    return code == "any" or any(CODES[choice] is dtype for choice in code.split("|"))
