"""Where the elements of a resized map lie in the map before it, in the whole numbers that the hardware counts with.

The reference kernels count along each axis on its own: for bilinear resizes of int8 with 10 fractional bits, for those of uint8
and for nearest neighbours in float32. An axis is said here only where whole numbers give exactly the same, and where the
registers of Ethos-U85 have room for them.
"""

from __future__ import annotations

import functools
import math
from enum import Enum
from typing import TypeAlias

import numpy as np

from npu.numerics.arrays import Ints
from npu.numerics.scaling import round_away
from npu.records import dataclass

LARGEST_SCALE = 1 << 11
"""Parts of an element of the input that places may be counted in."""
WIDEST_STEP = 14
"""Elements of the input from one element of the output to the next are fewer: a block of two columns finds room on the array of
256 MACs then. The registers can say less than 16."""
SUM_BITS = 16
"""So many bits an operation for resizes shifts its sums to the left."""
_FIXED_ONE = 1 << 10
_LARGEST_FLOAT_SCALE = 1 << 7
"""Products of 8 bits and of two weights, of up to one and a half, then have no more than the 24 bits of a float32."""
_REMEMBERED = 1 << 12

PlaneSize: TypeAlias = tuple[int, int]
"""Height and width."""


class Interpolation(Enum):
    """How a reference kernel makes the elements of its output."""

    NEAREST = "nearest"
    FIXED = "bilinear, places with 10 fractional bits"
    FLOAT = "bilinear, places in float32"


@dataclass(frozen=True, slots=True)
class ResizePlaces:
    """Where the elements of an output lie in an input: element o at (o * `step` + `offset`) / `scale`.

    A bilinear resize weighs both neighbours of a place, a nearest one takes the nearer; of two as near the one behind.
    """

    scale: int
    step: int
    offset: int

    def before(self, element: int) -> int:
        """The neighbour in front of the place of an element; it may lie outside the input."""
        return (element * self.step + self.offset) // self.scale

    @property
    def has_registers(self) -> bool:
        """Whether registers have room for the numbers."""
        is_near = -self.scale <= self.offset < self.scale
        return is_near and 0 < self.scale <= LARGEST_SCALE and self.step < WIDEST_STEP * self.scale


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """An axis of a resize: `places` in the `count` elements of the input from `first` on, beyond which nothing is read."""

    places: ResizePlaces
    first: int
    count: int


def resized_axes(
    ifm: PlaneSize, ofm: PlaneSize, interpolation: Interpolation, *, align_corners: bool, half_pixel_centers: bool
) -> tuple[ResizedAxis, ResizedAxis] | None:
    """The axes of a resize, height first; None if one of them has no such places."""
    y, x = (resized_axis(*pair, interpolation, align_corners, half_pixel_centers) for pair in zip(ifm, ofm, strict=True))
    return None if y is None or x is None else (y, x)


@functools.lru_cache(_REMEMBERED)
def resized_axis(
    size: int, out: int, interpolation: Interpolation, align_corners: bool, half_pixel_centers: bool
) -> ResizedAxis | None:
    """An axis from `size` to `out` elements; None if no places are exactly those of the reference kernel.

    Bilinear resizes have either aligned corners or half pixel centers.
    """
    is_contradiction = interpolation is not Interpolation.NEAREST and align_corners and half_pixel_centers
    if is_contradiction or min(size, out) < 1:
        return None
    exact = {Interpolation.NEAREST: _nearest, Interpolation.FIXED: _fixed, Interpolation.FLOAT: _float}[interpolation]
    counted = exact(size, out, align_corners, half_pixel_centers)
    axis = None if counted is None else _cut(size, out, counted)
    return axis if axis is not None and axis.places.has_registers else None


def nearest_elements(size: int, out: int, *, align_corners: bool, half_pixel_centers: bool) -> Ints:
    """The elements of the input that a reference kernel takes for nearest neighbours, which it counts in float32."""
    before, after = map(np.float32, _extents(size, out, align_corners))
    ratio = before / after
    places = (np.arange(out, dtype=np.float32) + np.float32(0.5 if half_pixel_centers else 0)) * ratio
    elements = (round_away(places) if align_corners else np.floor(places)).astype(np.int64)
    return np.minimum(elements, size - 1)


def _extents(size: int, out: int, align_corners: bool) -> tuple[int, int]:
    """What lies between the ends of an axis before and after: with aligned corners one less than there are elements."""
    less = 1 if align_corners and out > 1 else 0
    return size - less, out - less


def _nearest(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> ResizePlaces | None:
    """The place of output o is (o + 1/2 or 0) * size / out, rounded down or to the nearest."""
    before, after = _extents(size, out, align_corners)
    offset = (before if half_pixel_centers else 0) - (0 if align_corners else after)
    places = ResizePlaces(2 * after, 2 * before, offset)
    expected = nearest_elements(size, out, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    twice = 2 * (np.arange(out, dtype=np.int64) * places.step + places.offset) + places.scale
    is_same = np.array_equal(np.clip(twice // (2 * places.scale), 0, size - 1), expected)
    return places if is_same else None


def _fixed(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> ResizePlaces | None:
    """The step is rounded to 10 bits. Where that leads behind the last element, the reference kernel reads what is there."""
    before, after = _extents(size, out, align_corners)
    step = (_FIXED_ONE * before + after // 2) // after
    places = ResizePlaces(_FIXED_ONE, step, (step - _FIXED_ONE) // 2 if half_pixel_centers else 0)
    return places if places.before(out - 1) < size else None


def _float(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> ResizePlaces | None:
    """What float32 says without rounding: places and weights by a power of 2, their products with 8 bits, and sums of these."""
    from fractions import Fraction  # most models have no resize

    ratio = Fraction(*_extents(size, out, align_corners))
    halves = 2 if half_pixel_centers else 1
    scale = halves * ratio.denominator
    offset = ratio.numerator - ratio.denominator if half_pixel_centers else 0
    is_exact = scale & (scale - 1) == 0 and scale <= _LARGEST_FLOAT_SCALE
    return ResizePlaces(scale, halves * ratio.numerator, offset) if is_exact else None


def _cut(size: int, out: int, places: ResizePlaces) -> ResizedAxis:
    """The same without common factors, in the part of the input that is read. A single element is no step from another."""
    scale, step, offset = places.scale, places.step if out > 1 else 0, places.offset
    common = math.gcd(scale, step, offset)
    first = min(max(offset // scale, 0), size - 1)
    offset = offset if offset < scale else offset % scale
    near = ResizePlaces(scale // common, step // common, offset // common)
    return ResizedAxis(near, first, min(max(near.before(out - 1), 0) + 2, size - first))
