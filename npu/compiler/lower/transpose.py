"""TRANSPOSE: the hardware has no command for it, but maps of any pitch from row to row and from column to column.

Where the last axis stays it is a copy between such maps. Else a copy moves single bytes on one side, each a transaction of the
memory; a convolution whose kernel is a column of taps, with a single weight of 1 for every channel, gathers rows into channels
instead, so that both sides move runs of bytes. What costs less is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from npu.compiler.ir import ConvolutionStep, Shape, View, Weights
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.memory import constant_values, lower_reshape
from npu.compiler.lower.plan import same_quantisation
from npu.graph.graph import Op
from npu.graph.permutation import ABSENT, Cut, cut_for_copies, cut_for_runs, moved_axes
from npu.hardware.ports import port_rate
from npu.hardware.variant import Variant
from npu.isa.operations import Kernel
from npu.isa.rules import MAX_EXTENT

_MAP_CYCLES = 100
"""What one more operation costs, besides the latency of its first read."""

_TAPS = (8, 16, 32, 64)
"""Rows that are gathered at a time; a kernel has at most 64."""

_MOST_GATHERS = 1024
"""Operations beyond which gathering makes the command stream too long for what it saves."""

_UNIT = (1 << 30, 30)
"""Scale and shift of a factor of 1."""


def lower_transpose(builder: Builder, op: Op) -> None:
    """TRANSPOSE between tensors of the same quantisation; one that moves nothing is a reshape."""
    source, target = builder.tensor(op.inputs[0]), builder.tensor(op.outputs[0])
    if not same_quantisation(source, target):
        raise builder.error(op, "input and output must have the same scale and zero point")
    order = constant_values(builder, op.inputs[1])
    if len(moved_axes(source.shape, order)) < 2:
        lower_reshape(builder, op)
    else:
        _permute(builder, builder.input(op.inputs[0]), builder.output(op.outputs[0]), source.shape, order)


def _permute(builder: Builder, source: View, target: View, shape: Sequence[int], order: Sequence[int]) -> None:
    """Move `source`, which holds a tensor of `shape`, to `target`; through a dense map where gaps keep axes apart."""
    pitches, steps = axis_pitches(shape, source), axis_pitches([shape[axis] for axis in order], target)
    fewest = len(moved_axes(shape, order))
    if len(moved_axes(shape, order, pitches)) > fewest:
        dense = builder.temporary("dense", source.shape, source.element)
        builder.copy(source, dense)
        _permute(builder, dense, target, shape, order)
    elif len(moved_axes(shape, order, target=steps)) > fewest:
        dense = builder.temporary("permuted", target.shape, target.element)
        _permute(builder, source, dense, shape, order)
        builder.copy(dense, target)
    else:
        axes = moved_axes(shape, order, pitches, steps)
        copies, runs = cut_for_copies(axes), cut_for_runs(axes)
        is_far = source.storage.is_boundary or target.storage.is_boundary
        taps = worthwhile_taps(copies, runs, builder.variant, is_far=is_far) if runs else 0
        if runs and taps:
            _gather(builder, source, target, runs, taps)
        else:
            _copy(builder, source, target, copies)


def axis_pitches(shape: Sequence[int], view: View) -> list[int]:
    """Elements from one position to the next along every axis of a tensor of `shape` whose folded map is `view`."""
    rows, columns = view.pitches
    outer = [rows * math.prod(shape[axis + 1 : -2]) for axis in range(len(shape) - 2)]
    return [*outer, *(columns, 1)[-len(shape) :]]


def worthwhile_taps(copies: Cut, runs: Cut, variant: Variant, *, is_far: bool) -> int:
    """How many rows to gather at a time, from a beat of bytes on; 0 if copies of single bytes cost less.

    A gather multiplies every element with all taps, in all lanes for input channels and rows that the MAC array has; or it
    waits for its weights, which fill these lanes, too. `is_far`: one of the maps lies in the arena.
    """
    machine, mode = variant.accelerator, variant.memory_mode
    rate = port_rate(variant, mode.arena if is_far else mode.cache)
    byte_cycles = max(rate.read_burst_cycles, rate.write_burst_cycles, rate.beat_cycles)
    tap_cycles = machine.ifm_ublock.depth * machine.ofm_ublock.height / machine.macs_per_cycle
    weight_cycles = machine.ifm_ublock.depth / variant.timing.weights_per_cycle
    elements = math.prod(axis.extent for axis in (runs.rows, runs.columns, *runs.outer))
    map_cycles = _MAP_CYCLES + rate.read_latency
    costs = {0: copies.count(MAX_EXTENT, MAX_EXTENT) * map_cycles + elements * byte_cycles}
    for taps in (size for size in _TAPS if size >= machine.axi_data_bytes):
        gathers, used = runs.count(taps, MAX_EXTENT), min(taps, runs.rows.extent)
        if gathers <= _MOST_GATHERS:
            costs[taps] = gathers * (map_cycles + used * used * weight_cycles) + elements * used * tap_cycles
    return min(costs, key=lambda taps: costs[taps])


def _copy(builder: Builder, source: View, target: View, cut: Cut) -> None:
    """Copy the maps of a cut."""
    rows, columns = cut.rows, cut.columns
    for first, start, shape in cut.pieces(MAX_EXTENT, MAX_EXTENT):
        ifm = _part(source, first, (rows.source, columns.source), shape)
        builder.copy(ifm, _part(target, start, (rows.target, columns.target), shape))


def _gather(builder: Builder, source: View, target: View, cut: Cut, taps: int) -> None:
    """Turn up to `taps` rows of the source at a time into channels."""
    assert cut.depth is ABSENT
    columns = cut.columns
    for first, start, (height, width, _) in cut.pieces(taps, MAX_EXTENT):
        builder.emit(
            ConvolutionStep(
                source=builder.index,
                ifm=_part(source, first, (cut.rows.source, columns.source), (height, width, 1)),
                ofm=_part(target, start, (columns.target * width, columns.target), (1, width, height)),
                minimum=target.element.minimum,
                maximum=target.element.maximum,
                kernel=Kernel(height, 1),
                weights=_one_tap_each(height),
            )
        )


def _part(view: View, start: int, pitch: tuple[int, int], shape: Shape) -> View:
    """A map of `shape` and `pitch` that starts `start` elements behind the first of `view`."""
    y, x, c = view.offset
    rows, columns = view.pitches
    first = y * rows + x * columns + c + start
    return replace(view, offset=(0, 0, first), shape=shape, zero_point=0, pitch=pitch)


@cache
def _one_tap_each(taps: int) -> Weights:
    """Weights (taps, taps, 1, 1) that give channel i the row i."""
    scale, shift = _UNIT
    return Weights(
        values=np.eye(taps, dtype=np.int16).reshape(taps, taps, 1, 1),
        biases=np.zeros(taps, np.int64),
        scales=np.full(taps, scale, np.uint32),
        shifts=np.full(taps, shift, np.uint8),
    )
