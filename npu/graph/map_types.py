"""Element types of the feature maps that the NPU takes, by operator: the one table that checker and compiler consume.

All feature maps that an operator reads are of one type, and all that it writes; a row holds the pairs (read, written).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npu.graph.dtype import DType

Pair = tuple[DType, DType]

_I8, _U8, _I16, _I32 = DType.INT8, DType.UINT8, DType.INT16, DType.INT32


def _same(*types: DType) -> tuple[Pair, ...]:
    return tuple((each, each) for each in types)


_QUANTISED = _same(_I8, _U8, _I16)
_EIGHT_BITS = _same(_I8, _U8)
_EVERY = _same(_I8, _U8, _I16, _I32)

MAP_TYPES: Mapping[str, tuple[Pair, ...]] = {
    "ABS": _same(_I8, _I16),
    "ADD": _EVERY,
    "ARG_MAX": ((_I8, _I32), (_U8, _I32)),
    "AVERAGE_POOL_2D": _QUANTISED,
    "CONCATENATION": _QUANTISED,
    "CONV_2D": _QUANTISED,
    "DEPTHWISE_CONV_2D": _QUANTISED,
    "ELU": _same(_I8),
    "EXP": _same(_I8, _I16),
    "EXPAND_DIMS": _EVERY,
    "FULLY_CONNECTED": _QUANTISED,
    "GELU": _QUANTISED,
    "HARD_SWISH": _EIGHT_BITS,
    "LEAKY_RELU": _QUANTISED,
    "LOG": _same(_I8, _I16),
    "LOGISTIC": _QUANTISED,
    "MAXIMUM": _QUANTISED,
    "MAX_POOL_2D": _QUANTISED,
    "MEAN": _QUANTISED,
    "MINIMUM": _QUANTISED,
    "MIRROR_PAD": _EVERY,
    "MUL": _EVERY,
    "NEG": _same(_I8, _I32),
    "PACK": _EVERY,
    "PAD": _QUANTISED,
    "PADV2": _QUANTISED,
    "PRELU": _QUANTISED,
    "QUANTIZE": (*((a, b) for a in (_I8, _U8, _I16) for b in (_I8, _U8, _I16)), (_I32, _I8), (_I32, _I16)),
    "REDUCE_MAX": _QUANTISED,
    "REDUCE_MIN": _QUANTISED,
    "RELU": _QUANTISED,
    "RELU6": _QUANTISED,
    "RELU_N1_TO_1": _EIGHT_BITS,
    "RESHAPE": _EVERY,
    "RESIZE_BILINEAR": _QUANTISED,
    "RESIZE_NEAREST_NEIGHBOR": _QUANTISED,
    "RSQRT": _same(_I8, _I16),
    "SLICE": _EVERY,
    "SOFTMAX": (*_QUANTISED, (_I8, _I16), (_U8, _I16)),
    "SPLIT": _EVERY,
    "SPLIT_V": _EVERY,
    "SQUARED_DIFFERENCE": _same(_I8),
    "SQUEEZE": _EVERY,
    "STRIDED_SLICE": _EVERY,
    "SUB": _EVERY,
    "SUM": _EIGHT_BITS,
    "TANH": _QUANTISED,
    "TILE": _EVERY,
    "TRANSPOSE": _EVERY,
    "TRANSPOSE_CONV": _QUANTISED,
    "UNPACK": _EVERY,
}

WEIGHT_TYPES: Mapping[DType, DType] = {_I8: _I8, _U8: _U8, _I16: _I8}
"""Types of the weights for each type of the feature maps."""

ZERO_POINTS: Mapping[DType, tuple[int, int]] = {_I8: (-128, 127), _U8: (0, 255), _I16: (-32768, 32767)}
"""Smallest and largest zero point of quantised feature maps."""


def shown(pair: Pair) -> str:
    """A pair as a person writes it: the one type, or from which to which."""
    return str(pair[0]) if pair[0] is pair[1] else f"{pair[0]} to {pair[1]}"


def pair_of(read: Iterable[DType], written: Iterable[DType]) -> Pair | None:
    """The pair of an operator; None where its maps have more types than one, or where there are none."""
    before, after = set(read), set(written)
    return (before.pop(), after.pop()) if len(before) == len(after) == 1 else None
