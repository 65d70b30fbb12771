"""Parts of a map that are worked on one after the other, where the maps between an operator's steps have no room for all."""

from __future__ import annotations

import math
import sys

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import Box, as_shape, crop
from npu.layouts import MapShape
from npu.machine.rules import ceil_div

_LEAST_ELEMENTS = 2048
"""Of a part: steps on fewer are mostly latencies and commands."""


def parts_with_room(builder: Builder, ifm: View, between: int, most: int = sys.maxsize, *, later: int = 0) -> list[Box]:
    """Boxes of a map in row order: whole rows, or parts of one. `between`: bytes that the maps between take for a position.

    Each has `most` positions at most. It is all of the map if the maps between have room, else parts for which they do. A
    result of which nothing is there before the last step leaves its bytes, of a position, for `later`.
    """
    positions, depth = math.prod(ifm.shape[:2]), ifm.shape[2]
    least = ceil_div(_LEAST_ELEMENTS, depth)
    if positions > least and positions * (between - later) > builder.room:
        positions = min(positions, max(builder.room // between, least))
    return boxes_of(ifm.shape, min(positions, most))


def boxes_of(shape: MapShape, most: int) -> list[Box]:
    """Boxes of a map in row order, as few as there can be with `most` positions at most, and about equal."""
    height, width, depth = shape
    rows, columns = _equal(height, max(1, most // width)), _equal(width, min(most, width))
    return [
        Box((y, x, 0), (min(rows, height - y), min(columns, width - x), depth))
        for y in range(0, height, rows)
        for x in range(0, width, columns)
    ]


def _equal(extent: int, most: int) -> int:
    """The extent of parts that are about equal, as few as there can be."""
    return int(ceil_div(extent, ceil_div(extent, most)))


def part_of(view: View, part: Box) -> View:
    """The part of an operand, which may be broadcast along any dimension."""
    offset = as_shape([at if extent > 1 else 0 for at, extent in zip(part.offset, view.shape, strict=True)])
    return crop(view, offset, as_shape([min(extents) for extents in zip(part.shape, view.shape, strict=True)]))
