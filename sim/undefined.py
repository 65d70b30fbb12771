"""Operations whose result the hardware leaves open: the one place that says which. They are refused, not guessed.

What two elements of an OFM leave in bytes that they share depends on the order of blocks, and a zero point that the IFM's type
does not have cannot be what padding is filled with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npu.isa.operations import FeatureMap, KernelOperation, Layout, Operation, Pooling, PoolingMode, WindowOperation

_BRICK = 16
MAX_ELEMENTS = 1 << 22
"""Whose addresses are listed; a larger map that is not plainly in order counts as one that overlaps."""

Strides = Sequence[tuple[int, int]]
"""Extent and stride in bytes of rows, columns, bricks of channels and channels."""


def undefined(operation: Operation | KernelOperation) -> str | None:
    """What must hold of an operation for its result to be defined, and does not; None if it is."""
    ofm = operation.stored_ofm if isinstance(operation, KernelOperation) else None
    if ofm is not None and overlaps_itself(ofm):
        return "OFM: every element must have bytes of its own, got strides and tiles by which some share theirs"
    if isinstance(operation, WindowOperation) and not operation.padding.is_none:
        element, zero_point = operation.ifm.element, operation.ifm.zero_point
        if element.bits < 32 and not element.minimum <= zero_point <= element.maximum:
            limits = f"[{element.minimum}, {element.maximum}]"
            return f"IFM zero point: must be in {limits} where padding is filled with it, got {zero_point}"
    if isinstance(operation, Pooling) and operation.options is not None and operation.mode is PoolingMode.AVERAGE:
        scale = operation.scale
        if scale is not None and scale.scale != 1 << scale.shift:
            got = f"{scale.scale} >> {scale.shift}"
            return f"AVERAGE: the scale of the OFM must be 1 beside the division by the count of elements, got {got}"
    return _empty_clamp(operation) if isinstance(operation, KernelOperation) else None


def _empty_clamp(operation: KernelOperation) -> str | None:
    """A maximum below the minimum is the result of every clamp; a table is looked up with it, where it may have no entry."""
    activation = operation.activation
    if activation.function.lut_index is not None and activation.minimum > activation.maximum:
        got = f"{activation.minimum} and {activation.maximum}"
        return f"activation: minimum must be at most the maximum where a table is looked up, got {got}"
    return None


def overlaps_itself(fm: FeatureMap) -> bool:
    """Whether two elements of a map share a byte."""
    size = fm.element.bytes
    if fm.is_one_tile:
        axes = _axes(fm, fm.height, fm.width)
        if _is_in_order(axes, size) or _is_nested(axes, size):
            return False
    tiles = list(_tiles(fm))
    if all(_is_nested(axes, size) for _, axes in tiles) and (len(tiles) == 1 or _are_apart(tiles, size)):
        return False
    if fm.height * fm.width * fm.depth > MAX_ELEMENTS:
        return True
    addresses = np.concatenate([_addresses(base, axes, fm.depth) for base, axes in tiles])
    addresses.sort()
    return bool((np.diff(addresses) < size).any())


def _tiles(fm: FeatureMap) -> Iterator[tuple[int, Strides]]:
    """Address and axes of each tile that holds anything; the last brick counts as a whole one."""
    left, right = min(fm.width, fm.tile_width_0), max(fm.width - fm.tile_width_0, 0)
    for columns, tile_height, top in ((left, fm.tile_height_0, 0), (right, fm.tile_height_1, 1)):
        for rows, tile in ((min(fm.height, tile_height), top), (max(fm.height - tile_height, 0), top + 2)):
            if rows and columns:
                yield fm.addresses[tile], _axes(fm, rows, columns)


def _axes(fm: FeatureMap, rows: int, columns: int) -> Strides:
    size = fm.element.bytes
    if fm.layout is Layout.NHCWB16:
        return (rows, fm.stride_y), (columns, _BRICK * size), (-(-fm.depth // _BRICK), fm.stride_c), (_BRICK, size)
    return (rows, fm.stride_y), (columns, fm.stride_x), (1, 0), (fm.depth, size)


def _is_in_order(axes: Strides, size: int) -> bool:
    """Whether `_is_nested` holds with rows as the outermost axis and channels, or bricks and then pixels, as the innermost."""
    (rows, y), (columns, x), (bricks, c), (channels, _) = axes
    pixel, line = channels * size, (columns - 1) * x + channels * size
    return x >= pixel and (bricks == 1 or c >= line) and (rows == 1 or y >= line + (bricks - 1) * c)


def _is_nested(axes: Strides, size: int) -> bool:
    """Whether each axis steps over all that the axes of smaller strides span, so that no two elements can meet."""
    span = size
    for stride, extent in sorted((abs(stride), extent) for extent, stride in axes if extent > 1):
        if stride < span:
            return False
        span += stride * (extent - 1)
    return True


def _are_apart(tiles: Sequence[tuple[int, Strides]], size: int) -> bool:
    ends = sorted(_ends(base, axes, size) for base, axes in tiles)
    return all(end <= start for (_, end), (start, _) in pairwise(ends))


def _ends(base: int, axes: Strides, size: int) -> tuple[int, int]:
    reaches = [stride * (extent - 1) for extent, stride in axes]
    return base + sum(min(reach, 0) for reach in reaches), base + sum(max(reach, 0) for reach in reaches) + size


def _addresses(base: int, axes: Strides, depth: int) -> npt.NDArray[np.int64]:
    (rows, y), (columns, x), (bricks, c), (channels, size) = axes
    channel = (np.arange(bricks)[:, None] * c + np.arange(channels) * size).reshape(-1)[:depth]
    addresses = base + np.arange(rows)[:, None, None] * y + np.arange(columns)[:, None] * x + channel
    return addresses.reshape(-1)
