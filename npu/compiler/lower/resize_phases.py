"""RESIZE_BILINEAR by a factor as windows of 2x2 elements over the map before it, each of which makes every f-th row and column.

An output between two elements has weights a and b with a + b = f (2 f with half pixel centres) along an axis; all outputs that
lie alike between their neighbours are one window. So an output takes 4 products, where windows over the upscaled map take
f * f or more. Those of a row may be channels of one position: then f convolutions make the map, which for few channels writes
long rows in place of single elements. Beyond the ends of the map its ends go on: the windows read a copy with them around it.
With aligned corners the last row and the last column are outputs of their own, which lie on an element along one axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import StepWeights, Storage, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop, laid_out, spread
from npu.graph.readers import readers_of
from npu.isa.operations import KernelWindow, Rounding
from npu.records import dataclass

_TAPS = 2
_FEWEST_ELEMENTS = 1 << 11
"""Of the map that is made: with less, what starts and ends an operation decides, of which estimates know little."""
_FEW_CHANNELS, _MANY_CHANNELS, _MOST_CHANNELS = 8, 32, 64
"""Maps with less than a few are not in bricks of 16. Of many the products by 8 take no longer than writing to a far memory.
With more than most, products by 2 take about as long as writing single elements."""
_MOST_WEIGHTS = 1 << 19
"""Of a convolution that makes the columns as channels: with more, almost all of its products are with zeros."""


@dataclass(frozen=True, slots=True)
class _Blend:
    """Outputs `factor` apart along an axis: the element at which the window of the first one starts, and its weights."""

    start: int
    weights: tuple[int, ...]


_ON_ELEMENT = _Blend(0, (1,))


def phased_ways(
    builder: Builder, ifm: View, ofm: View, factor: int, *, half_pixel: bool, aligned: bool
) -> Iterator[Callable[[], None]]:
    """What makes the map `factor` times as high and wide; nothing where it is not that along both axes, or at a price."""
    height, width, depth = ifm.shape
    inner = (height - aligned, width - aligned)
    is_enlarged = min(inner) > 0 and ofm.shape[:2] == (inner[0] * factor + aligned, inner[1] * factor + aligned)
    if not is_enlarged or not _pays(builder, ofm, factor) or not _has_room(builder, ifm, ofm.storage, factor):
        return
    phases = list(_half_pixel_phases(factor) if half_pixel else _plain_phases(factor))
    ways = [_make_apart]
    if ofm.pitches[1] == depth and factor * depth * depth * _TAPS * (_TAPS + half_pixel) <= _MOST_WEIGHTS:
        ways.append(_make_joined)
    for make in ways:
        yield partial(_make, builder, ifm, ofm, phases, inner, make)


def _pays(builder: Builder, ofm: View, factor: int) -> bool:
    """Whether the products that are saved are worth a map that cannot be made row by row, nor be in bricks.

    Sums take half as long again to read it, which by 2 is more than the products of many channels.
    """
    if math.prod(ofm.shape) < _FEWEST_ELEMENTS:
        return False
    graph, tensor = builder.graph, ofm.storage.tensor
    is_summed = tensor is None or any(graph.ops[reader].kind in ("ADD", "SUB") for reader in readers_of(graph)[tensor])
    is_deep = ofm.shape[2] >= _FEW_CHANNELS if is_summed else ofm.shape[2] > _MOST_CHANNELS
    return factor > 2 or not is_deep


def _has_room(builder: Builder, ifm: View, storage: Storage, factor: int) -> bool:
    """Whether the map may be whole in memory, as one that others see is anyway: otherwise it is made in stripes."""
    mode = builder.variant.memory_mode
    if mode.has_separate_cache:
        is_far = not storage.is_boundary and storage.bytes > mode.arena_cache_bytes
        return not is_far or (factor > 4 and storage.shape[2] < _MANY_CHANNELS)
    if storage.is_boundary:
        return not builder.saves_memory or factor > 2
    height, width, depth = ifm.shape
    bordered = (height + 2) * (width + 2) * depth * ifm.element.bytes
    return not builder.saves_memory and storage.tensor is not None and bordered <= builder.rooms.beside(storage.tensor)


def _plain_phases(factor: int) -> Iterator[_Blend]:
    """Output f * i + p lies p / f behind element i."""
    yield from (_Blend(0, (factor - part, part)) for part in range(factor))


def _half_pixel_phases(factor: int) -> Iterator[_Blend]:
    """Output f * i + p lies (2 p + 1 - f) / 2 f behind element i, which is element i + 1 behind the border."""
    for part in range(factor):
        start, behind = divmod(2 * part + 1 + factor, 2 * factor)
        yield _Blend(start, (2 * factor - behind, behind))


_MakeRows: TypeAlias = Callable[[Builder, View, View, tuple[int, int], _Blend, Sequence[_Blend]], None]
"""Makes the rows of a map that lie alike between theirs: of so many rows and columns of windows over another map."""


def _make(
    builder: Builder, ifm: View, ofm: View, phases: Sequence[_Blend], inner: tuple[int, int], make_rows: _MakeRows
) -> None:
    """All rows, and with aligned corners the last row and column: the elements there have no others behind them."""
    (height, width), factor = inner, len(phases)
    depth, is_aligned = ifm.shape[2], ifm.shape[0] > height
    source = ifm if is_aligned else _bordered(builder, ifm, max(phase.start for phase in phases))
    inside = spread(ofm, (0, 0), (1, 1), (height * factor, width * factor))
    for y, row in enumerate(phases):
        rows = crop(source, (row.start, 0, 0), (height + 1, *source.shape[1:]))
        make_rows(builder, rows, spread(inside, (y, 0), (factor, 1), (height, width * factor)), inner, row, phases)
    if is_aligned:
        below = crop(ofm, (height * factor, 0, 0), (1, width * factor, depth))
        make_rows(builder, crop(ifm, (height, 0, 0), (1, width + 1, depth)), below, (1, width), _ON_ELEMENT, phases)
        column = crop(ifm, (0, width, 0), (height + 1, 1, depth))
        for y, row in enumerate(phases):
            _blend(builder, column, spread(ofm, (y, width * factor), (factor, 1), (height, 1)), row, _ON_ELEMENT)
        corner = (height, width, 0), (1, 1, depth)
        builder.copy(crop(ifm, *corner), crop(ofm, (height * factor, width * factor, 0), (1, 1, depth)))


def _make_apart(builder: Builder, rows: View, ofm: View, size: tuple[int, int], row: _Blend, phases: Sequence[_Blend]) -> None:
    """A depthwise convolution for every phase of the columns."""
    for x, column in enumerate(phases):
        windows = crop(rows, (0, column.start, 0), (rows.shape[0], size[1] + 1, rows.shape[2]))
        _blend(builder, windows, spread(ofm, (0, x), (1, len(phases)), size), row, column)


def _blend(builder: Builder, windows: View, ofm: View, row: _Blend, column: _Blend) -> None:
    plane, depth = np.outer(row.weights, column.weights), ofm.shape[2]
    weights = _mean_weights(builder, np.broadcast_to(plane[None, :, :, None], (depth, *plane.shape, 1)), int(plane.sum()))
    builder.convolve(windows, ofm, weights, rounding=Rounding.NATURAL, kernel=KernelWindow(*plane.shape), is_depthwise=True)


def _make_joined(builder: Builder, rows: View, ofm: View, size: tuple[int, int], row: _Blend, phases: Sequence[_Blend]) -> None:
    """One convolution: the phases of the columns are channels, as they lie in memory."""
    factor, depth, taps = len(phases), rows.shape[2], _TAPS + rows.shape[1] - size[1] - 1
    columns = np.zeros((factor, taps), np.int64)
    for part, column in enumerate(phases):
        columns[part, column.start : column.start + _TAPS] = column.weights
    planes = np.einsum("r,pc,oi->porci", row.weights, columns, np.eye(depth, dtype=np.int64))
    builder.convolve(
        rows,
        laid_out(ofm, (0, 0), (*size, factor * depth), (ofm.pitches[0], factor * depth)),
        _mean_weights(
            builder,
            planes.reshape(factor * depth, len(row.weights), taps, depth),
            sum(row.weights) * sum(phases[0].weights),
        ),
        rounding=Rounding.NATURAL,
        kernel=KernelWindow(len(row.weights), taps),
    )


def _mean_weights(builder: Builder, values: npt.NDArray[np.int64], total: int) -> StepWeights:
    """Of a blend; the factor takes ties away from zero, as the reference does."""
    return StepWeights.unbiased(np.ascontiguousarray(values, np.int16), builder.mean_scale(total))


def _bordered(builder: Builder, ifm: View, before: int) -> View:
    """The map with its last row and column twice, and its first ones too if `before` is 1."""
    height, width, depth = ifm.shape
    whole = builder.temporary("bordered", (height + before + 1, width + before + 1, depth), ifm.element)
    builder.copy(ifm, crop(whole, (before, before, 0), ifm.shape))
    for y, source in ((0, 0), (height + before, height - 1))[1 - before :]:
        builder.copy(crop(ifm, (source, 0, 0), (1, width, depth)), crop(whole, (y, before, 0), (1, width, depth)))
    column = (whole.shape[0], 1, depth)
    for x, source in ((0, 1), (width + before, width + before - 1))[1 - before :]:
        builder.copy(crop(whole, (0, source, 0), column), crop(whole, (0, x, 0), column))
    return whole
