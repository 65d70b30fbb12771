"""Element types of feature maps that the NPU takes, as the operator table names them: pairs (read, written).

All feature maps that an operator reads are of one type, and all that it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npu.graph.dtype import DType

MapTypes = tuple[DType, DType]

_I8, _U8, _I16, _I32, _I64, _BOOL = DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL


def _same(*types: DType) -> tuple[MapTypes, ...]:
    return tuple((kind, kind) for kind in types)


INT8, PLAIN, SIGNED = _same(_I8), _same(_I8, _I16, _I32), _same(_I8, _I16)
EIGHT_BITS, QUANTIZED, EVERY = _same(_I8, _U8), _same(_I8, _U8, _I16), _same(_I8, _U8, _I16, _I32)
REVERSED = _same(_I8, _U8, _I16, _BOOL)
MOVED, LOGIC = _same(_I8, _U8, _I16, _I32, _BOOL), _same(_BOOL)
COMPARED, EQUATED_WORDS = ((_I8, _BOOL), (_U8, _BOOL)), ((_I32, _BOOL),)
ORDERED_WORDS = ((_I16, _BOOL), *EQUATED_WORDS)
ARG = ((_I8, _I32), (_U8, _I32), (_I8, _I64), (_U8, _I64))
REQUANTIZED = (
    *((a, b) for a in (_I8, _U8) for b in (_I8, _U8, _I16)),
    *((a, b) for a in (_I16, _I32) for b in (_I8, _I16)),
    (_I16, _I32),
)

SOFTMAX_SCALES: Mapping[MapTypes, tuple[float, int]] = {
    (_I8, _I8): (2.0**-8, -128),
    (_U8, _U8): (2.0**-8, 0),
    (_I16, _I16): (2.0**-15, 0),
    (_I8, _I16): (2.0**-16, -(1 << 15)),
    (_U8, _I16): (2.0**-16, -(1 << 15)),
}
"""Scale and zero point that results of SOFTMAX have, whatever their tensor says."""
SOFTMAX = tuple(SOFTMAX_SCALES)

WEIGHT_TYPES: Mapping[DType, DType] = {_I8: _I8, _U8: _U8, _I16: _I8}
"""Types of the weights for each type of the feature maps."""

ZERO_POINTS: Mapping[DType, tuple[int, int]] = {_I8: (-128, 127), _U8: (0, 255), _I16: (0, 0)}
"""Smallest and largest zero point of quantized feature maps."""
PLAIN_NUMBERS = frozenset({_I32, _I64, _BOOL})
"""Types that stand for themselves, whatever quantization a file gives them; QUANTIZE alone reads int32 with a scale."""
WITH_ANY_ZERO_POINT = frozenset({"QUANTIZE", "SOFTMAX"})
"""Operators of which int16 maps, too, may have one."""


def zero_points(kind: str, dtype: DType) -> tuple[int, int]:
    """Smallest and largest zero point of the maps of an operator."""
    return (-(1 << 15), (1 << 15) - 1) if kind in WITH_ANY_ZERO_POINT and dtype is _I16 else ZERO_POINTS[dtype]


def is_softmax_scale(scale: float, expected: float) -> bool:
    """Whether LiteRT's SOFTMAX takes a scale for the one that its results have: to a thousandth."""
    return abs(scale - expected) <= expected / 1000


def shown(pair: MapTypes) -> str:
    """A pair as a person writes it: the one type, or from which to which."""
    return str(pair[0]) if pair[0] is pair[1] else f"{pair[0]} to {pair[1]}"


def pair_of(read: Iterable[DType], written: Iterable[DType]) -> MapTypes | None:
    """The pair of an operator; None where its maps have more types than one, or where there are none."""
    before, after = set(read), set(written)
    return (before.pop(), after.pop()) if len(before) == len(after) == 1 else None
