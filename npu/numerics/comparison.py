"""Comparisons of 8-bit values: both operands on one scale, in fixed point, as TFLite's reference kernels bring them there.

Two operands have up to 512 different values on that scale. For a relation fewer matter, so that symbols of 8 bits stand for
them, of which the sign of the difference tells the relation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npu.numerics.arrays import Array, Ints, distinct
from npu.numerics.scaling import rule_a
from npu.records import dataclass

Relation: TypeAlias = Callable[[Array, Array], Array]
RELATIONS: Mapping[str, Relation] = {
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "NOT_EQUAL": np.not_equal,
}
EQUALITIES = ("EQUAL", "NOT_EQUAL")
MOST_SYMBOLS = 256
"""Symbols of 8 bits."""
_LEFT_SHIFT = 8


def on_one_scale(values: Array, scale: float, zero_point: int) -> Ints:
    """Stored values of a quantization as int64, times their scale and 256, rounded twice (ComparisonPrepareCommon)."""
    return rule_a((values.astype(np.int64) - zero_point) << _LEFT_SHIFT, scale)


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """What stands for the values of the left and of the right operand, from 0 on, and how many different ones there are.

    The relation holds of two values if `relation` holds of their symbols.
    """

    left: Ints
    right: Ints
    relation: Relation
    count: int


def symbols(kind: str, left: Ints, right: Ints) -> Symbols:
    """Those of values on one scale, ascending. Of an order there are at most 256, of an equality up to 257."""
    if kind in EQUALITIES:
        return _of_equality(RELATIONS[kind], left, right)
    if kind in ("GREATER", "LESS_EQUAL"):  # the right operand's being less, or its not being so
        swapped = _of_order(right, left, is_held=kind == "GREATER")
        return Symbols(swapped.right, swapped.left, lambda a, b: swapped.relation(b, a), swapped.count)
    return _of_order(left, right, is_held=kind == "LESS")


def _of_equality(relation: Relation, left: Ints, right: Ints) -> Symbols:
    """A symbol for every value that both have, and one for all others of each."""
    ordered = distinct(left)
    common = ordered[_are_in(distinct(right), ordered)]
    count = len(common)
    first, second = (np.where(_are_in(common, one), np.searchsorted(common, one), -1) for one in (left, right))
    for own in (first, second):
        if (own < 0).any():
            own[own < 0] = count
            count += 1
    return Symbols(first, second, relation, count)


def _are_in(ordered: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    """Whether values are among others, as numpy.isin says, which loads more of numpy."""
    after, before = (np.searchsorted(ordered, values, side) for side in ("right", "left"))
    return after > before


def _of_order(left: Ints, right: Ints, *, is_held: bool) -> Symbols:
    """Whether left < right, or not: the places of one operand's values, and how many of them come before the other's.

    Of 256 values all 256 may come before one of the other operand's: not if that one's values are counted.
    """
    ordered = distinct(left)
    first, second = np.searchsorted(ordered, left), np.searchsorted(ordered, right)
    relation: Relation = np.less if is_held else np.greater_equal
    if int(second.max()) >= MOST_SYMBOLS:
        ordered = distinct(right)
        first, second = np.searchsorted(ordered, left, "right"), np.searchsorted(ordered, right)
        relation = np.less_equal if is_held else np.greater
    return Symbols(first, second, relation, 1 + max(int(first.max()), int(second.max())))
