"""TRANSPOSE: maps of any pitch from row to row and from column to column, or an OFM that is stored transposed.

Where the last axis stays it is a copy between such maps. Else a copy moves single bytes on one side, each a transaction of the
memory. Ethos-U85 has an OFM whose columns change places with channels, or with rows. Convolutions with one weight of 1 for
every output channel move runs of bytes on both sides: a kernel that is a column of taps gathers rows into channels, one of a
single tap lets channels change places. What costs least is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.fusions import same_quantization
from npu.compiler.lower.memory import constant_values, lower_reshape
from npu.graph.dtype import DType
from npu.graph.graph import Op
from npu.graph.permutation import (
    Axis,
    Cut,
    cut_for_copies,
    cut_for_runs,
    cut_for_swaps,
    cut_for_transposes,
    mixed_channels,
    moved_axes,
)
from npu.hardware.variant import Variant
from npu.isa.operations import KernelWindow, OfmTranspose, Scale
from npu.isa.rules import MAX_EXTENT
from npu.layouts import MapShape
from npu.machine.port_rates import PortRate, port_rate
from npu.records import dataclass

_MAP_CYCLES = 100
"""What one more operation costs, besides the latency of its first read."""

_TAPS = (8, 16, 32, 64)
"""Rows that are gathered at a time; a kernel has at most 64."""

_MOST_GATHERS = 1024
"""Operations beyond which gathering makes the command stream too long for what it saves."""

_MOST_CHANNELS = 512
"""Channels that change places at a time: the weights are a square of them."""

_UNIT = Scale(1 << 30, 30)
"""A factor of 1."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a permutation is done: the maps of `cut`, copied as they are; or up to `taps` rows at a time as channels; or, if
    `channels` are given, with these channels of the source in this order; or stored with the axes in another `order`.
    """

    cut: Cut
    taps: int = 0
    channels: tuple[int, ...] = ()
    order: OfmTranspose = OfmTranspose.HWC

    @property
    def maps(self) -> int:
        return self.cut.count(self.taps or MAX_EXTENT, MAX_EXTENT)

    @property
    def run(self) -> int:
        """Bytes that lie side by side wherever they are read or written."""
        return min(self.taps, self.cut.rows.extent) or self.cut.depth.extent


def lower_transpose(builder: Builder, op: Op) -> None:
    """TRANSPOSE between tensors of the same quantization; one that moves nothing is a reshape."""
    source, target = builder.tensor(op.inputs[0]), builder.tensor(op.outputs[0])
    if source.dtype is not DType.INT32 and not same_quantization(source, target):
        raise builder.error(op, "input and output must have the same scale and zero point")
    order = constant_values(builder, op.inputs[1])
    if len(moved_axes(source.shape, order)) < 2:
        lower_reshape(builder, op)
    else:
        permute(builder, builder.input(op.inputs[0]), builder.output(op.outputs[0]), source.shape, order)


def permute(builder: Builder, source: View, target: View, shape: Sequence[int], order: Sequence[int]) -> None:
    """Move `source`, which holds a tensor of `shape`, to `target`; through a dense map where gaps keep axes apart."""
    pitches, steps = axis_pitches(shape, source), axis_pitches([shape[axis] for axis in order], target)
    fewest = len(moved_axes(shape, order))
    if len(moved_axes(shape, order, pitches)) > fewest:
        dense = builder.temporary("dense", source.shape, source.element)
        builder.copy(source, dense)
        permute(builder, dense, target, shape, order)
    elif len(moved_axes(shape, order, target=steps)) > fewest:
        dense = builder.temporary("permuted", target.shape, target.element)
        permute(builder, source, dense, shape, order)
        builder.copy(dense, target)
    else:
        is_far = source.storage.is_boundary or target.storage.is_boundary
        axes = moved_axes(shape, order, pitches, steps)
        only_copies = source.element.bits == 32  # the MAC array has no 32-bit inputs
        way = Way(cut_for_copies(axes)) if only_copies else MoveCost(builder.variant, is_far).best(axes)
        ways = [way]
        if is_far and not only_copies and (near := MoveCost(builder.variant, is_far=False).best(axes)) != way:
            ways.append(near)  # by way of copies in a fast memory
        if builder.family.transposes and not only_copies:
            cuts = {OfmTranspose.HCW: cut_for_transposes(axes), OfmTranspose.WHC: cut_for_swaps(axes)}
            ways += [Way(cut, order=stored) for stored, cut in cuts.items() if cut is not None]
        few = [one for one in ways if one.maps <= way.maps]  # many maps are not cut in stripes, of which no estimate knows here
        builder.make_cheapest([partial(_move, builder, source, target, one) for one in few])


def axis_pitches(shape: Sequence[int], view: View) -> list[int]:
    """Elements from one position to the next along every axis of a tensor of `shape` whose folded map is `view`."""
    rows, columns = view.pitches
    outer = [rows * math.prod(shape[axis + 1 : -2]) for axis in range(len(shape) - 2)]
    return [*outer, *(columns, 1)[-len(shape) :]]


@dataclass(frozen=True, slots=True)
class MoveCost:
    """What ways cost on a variant; `is_far`: one of the maps lies in the arena."""

    variant: Variant
    is_far: bool

    def best(self, axes: Sequence[Axis]) -> Way:
        """The way to move `axes` that costs least by a rough estimate."""
        mode = self.variant.memory_mode
        rate = port_rate(self.variant, mode.arena if self.is_far else mode.cache)
        return min(_ways(axes), key=lambda way: self._cycles(way, rate))

    def _cycles(self, way: Way, rate: PortRate) -> float:
        """What all maps of a way cost: the start of each and its weights, then what is slower, multiplying or moving runs.

        The MAC array has lanes for input channels, which taps leave empty but for one, and rows, of which a gather makes one.
        """
        machine = self.variant.accelerator
        run_cycles = max(rate.read_burst_cycles, rate.write_burst_cycles, rate.beat_cycles)
        lanes = machine.ifm_ublock.depth
        inputs, idle = (way.run * lanes, machine.ofm_ublock.height) if way.taps else (len(way.channels), 1)
        start = _MAP_CYCLES + rate.read_latency + inputs * way.run / self.variant.timing.weights_per_cycle
        element = max(inputs * idle / machine.macs_per_cycle, run_cycles / min(way.run, rate.burst_bytes))
        return way.maps * start + way.cut.elements * element


def _ways(axes: Sequence[Axis]) -> Iterator[Way]:
    yield Way(cut_for_copies(axes))
    mixed = mixed_channels(axes, _MOST_CHANNELS)
    if mixed is not None:
        yield Way(cut_for_copies(mixed[0]), channels=mixed[1])
    runs = cut_for_runs(axes)
    if runs is not None:
        yield from (way for way in (Way(runs, taps) for taps in _TAPS) if way.maps <= _MOST_GATHERS)


def _move(builder: Builder, source: View, target: View, way: Way) -> None:
    """Move all maps of a way."""
    rows, columns = way.cut.rows, way.cut.columns
    base = source.start, target.start
    for first, start, (height, width, depth) in way.cut.pieces(way.taps or MAX_EXTENT, MAX_EXTENT):
        ifm = _part(source, base[0] + first, (rows.source, columns.source), (height, width, depth))
        made, pitches = (height, width, depth), (rows.target, columns.target, way.cut.depth.target)
        down, across, deep = way.order.axes
        made = (1, width, height) if way.taps else (made[down], made[across], made[deep])
        # what is swapped lies in rows, as a copy of it would: others may see it in another shape
        part = _pitched if way.order is OfmTranspose.WHC else _part
        ofm = part(target, base[1] + start, (pitches[down], pitches[across]), made)
        if way.order is not OfmTranspose.HWC:
            builder.transpose(ifm, ofm, way.order)
        elif way.taps:
            _select(builder, ifm, ofm, _one_tap_each(height))
        elif way.channels:
            _select(builder, ifm, ofm, _one_channel_each(way.channels))
        else:
            builder.copy(ifm, ofm)


def _select(builder: Builder, ifm: View, ofm: View, weights: StepWeights) -> None:
    """A convolution without padding, whose weights say which input each output channel is."""
    builder.convolve(ifm, ofm, weights, kernel=_taps(weights.values.shape[1]))


def _part(view: View, first: int, pitch: tuple[int, int], shape: MapShape) -> View:
    """A map of `shape` and `pitch` that starts at element `first` of what holds `view`; a box of it, if it is one, may lie in
    bricks."""
    _, columns, channels = view.full
    position, c = divmod(first, channels)
    y, x = divmod(position, columns)
    is_box = pitch[1] == channels and (pitch[0] == columns * channels or shape[0] == 1) and view.pitch is None
    if is_box and x + shape[1] <= columns and c + shape[2] <= channels:
        return View(view.storage, view.full, (y, x, c), shape, view.element)
    return _pitched(view, first, pitch, shape)


def _pitched(view: View, first: int, pitch: tuple[int, int], shape: MapShape) -> View:
    return View(view.storage, view.full, (0, 0, first), shape, view.element, pitch=pitch)


@lru_cache(16)
def _taps(count: int) -> KernelWindow:
    """The same one for all maps of a way: those who ask whether kernels are equal need not look at their numbers."""
    return KernelWindow(count, 1)


@lru_cache(16)
def _one_tap_each(taps: int) -> StepWeights:
    """Weights (taps, taps, 1, 1) that give channel i the row i."""
    return StepWeights.unbiased(np.eye(taps, dtype=np.int16).reshape(taps, taps, 1, 1), _UNIT)


@lru_cache(16)
def _one_channel_each(channels: tuple[int, ...]) -> StepWeights:
    """Weights (channels, 1, 1, channels) that give channel i the channel `channels[i]`."""
    values = np.eye(len(channels), dtype=np.int16)[list(channels)].reshape(len(channels), 1, 1, -1)
    return StepWeights.unbiased(values, _UNIT)
