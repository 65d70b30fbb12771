"""TRANSPOSE_CONV: ordinary convolutions with parts of the flipped kernel, each of which makes every `stride`-th row and column.

An output position meets every `stride`-th element of the kernel alone. Outputs that meet the same ones are one convolution of
the input, which reads no zeros; those of a row that lie between two inputs may be channels of one position. Where there is too
little to multiply for that many operations, or rows are written to afar, one convolution reads the input with zeros inserted
between its elements, which the hardware does for a stride of 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import STEP_CYCLES, Builder, Finish
from npu.compiler.lower.convolution import accumulator_rounding, channel_factors, make_weights, weight_values
from npu.compiler.lower.geometry import crop, images, laid_out, needed_after, same_padding, spread
from npu.compiler.pace import JOB_CYCLES
from npu.graph.attributes import Padding as PaddingScheme
from npu.graph.attributes import TransposeConvOptions
from npu.graph.graph import ABSENT, Op
from npu.isa.operations import IfmPadding, KernelWindow, Rounding, Upscale
from npu.machine.rules import ceil_div
from npu.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Side:
    """One axis: elements of input, output and kernel, the stride, and how many elements padding takes off the start."""

    extent: int
    output: int
    kernel: int
    stride: int
    cut: int

    def phases(self) -> Iterator[_Phase]:
        """The outputs that meet the same elements of the kernel; those that meet none multiply by a zero."""
        for first in range(min(self.stride, self.output)):
            lag, start = divmod(first + self.cut, self.stride)
            taps = ceil_div(self.kernel - start, self.stride)
            source = lag - taps + 1
            yield _Phase(first, start, taps, source) if taps > 0 and source < self.extent else _Phase(first, self.kernel, 1, 0)


@dataclass(frozen=True, slots=True)
class _Phase:
    """Every `stride`-th output from `first` on: from which element the kernel counts, which input the first output meets."""

    first: int
    start: int
    taps: int
    source: int


def lower_transpose_conv(builder: Builder, op: Op) -> None:
    """TRANSPOSE_CONV. Inputs: output shape, weights (O, KH, KW, I), map, bias."""
    options = op.attributes
    assert isinstance(options, TransposeConvOptions)
    source = op.inputs[2]
    bias = op.inputs[3] if len(op.inputs) > 3 else ABSENT
    rounding = accumulator_rounding(builder, source, bias)
    values = weight_values(builder, op, op.inputs[1])
    weights = make_weights(builder, op, values, bias, channel_factors(builder, op, source, op.inputs[1]), rounding)
    axes = _axes(builder, op, options)
    batch, finish = builder.tensor(source).shape[0], builder.finish(op)
    ifm, ofm = builder.input(source, builder.zero_point(source)), builder.result(finish)
    choices = list(itertools.product(*(_strides(axis) for axis in axes)))
    best = min(choices, key=lambda choice: _cycles(builder, values, choice))
    upscaled = _upscaled(axes)
    for x, y in zip(images(ifm, batch), images(ofm, batch), strict=True):
        ways = [partial(_convolve_phases, builder, x, y, weights, best, finish, rounding)]
        if upscaled:
            ways.append(partial(_convolve_upscaled, builder, x, y, weights, upscaled, finish, rounding))
            if _cycles(builder, values, upscaled) < _cycles(builder, values, best):
                ways.reverse()
        if _may_join_columns(best[1], y):
            ways.append(partial(_convolve_columns, builder, x, y, weights, best, finish, rounding))
        builder.make_cheapest(ways)


def _axes(builder: Builder, op: Op, options: TransposeConvOptions) -> list[_Side]:
    """Height and width; the reference kernel pads as the convolution that this one transposes."""
    shapes = (builder.tensor(tensor).shape[1:3] for tensor in (op.inputs[2], op.outputs[0], op.inputs[1]))
    strides = (options.stride_h, options.stride_w)
    axes = [_Side(extent, out, size, stride, 0) for extent, out, size, stride in zip(*shapes, strides, strict=True)]
    if options.padding is not PaddingScheme.SAME:
        return axes
    return [replace(axis, cut=same_padding(axis.output, axis.extent, axis.kernel, axis.stride)[0]) for axis in axes]


def _strides(axis: _Side) -> list[_Side]:
    """An axis with the strides that it may have: any, where there is but one element of input."""
    return [axis] if axis.extent > 1 else [replace(axis, stride=stride) for stride in sorted({1, axis.output})]


def _upscaled(axes: Sequence[_Side]) -> list[_Side]:
    """Both axes with zeros inserted, for which the hardware needs a stride of 2; nothing where it cannot."""
    if not all(axis.stride == 2 or axis.extent == 1 for axis in axes):
        return []
    return [replace(axis, extent=2 * axis.extent, stride=1) for axis in axes]


def _cycles(builder: Builder, values: npt.NDArray[np.int16], axes: Sequence[_Side]) -> float:
    """Roughly, of the multiplications and the operations."""
    outputs = math.prod(ceil_div(axis.output, axis.stride) for axis in axes)
    taps = math.prod(sum(phase.taps for phase in axis.phases()) for axis in axes)
    steps = math.prod(min(axis.stride, axis.output) for axis in axes)
    multiplied: int = outputs * taps * values.shape[0] * values.shape[3]
    return steps * (STEP_CYCLES + JOB_CYCLES) + multiplied / builder.variant.accelerator.macs_per_cycle


def _convolve_upscaled(
    builder: Builder, ifm: View, ofm: View, weights: StepWeights, axes: Sequence[_Side], finish: Finish, rounding: Rounding
) -> None:
    rows, columns = (next(axis.phases()) for axis in axes)
    padding = _padding(axes, (rows, columns))
    flipped = replace(weights, values=np.ascontiguousarray(weights.values[:, ::-1, ::-1]))
    kernel = KernelWindow(rows.taps, columns.taps)
    builder.convolve(
        ifm, ofm, flipped, finish=finish, rounding=rounding, kernel=kernel, padding=padding, upscale=Upscale.ZEROS
    )  # fmt: skip


def _convolve_phases(
    builder: Builder, ifm: View, ofm: View, weights: StepWeights, axes: Sequence[_Side], finish: Finish, rounding: Rounding
) -> None:
    strides = (axes[0].stride, axes[1].stride)
    for phases in itertools.product(*(list(axis.phases()) for axis in axes)):
        rows, columns = phases
        outputs = tuple(ceil_div(axis.output - phase.first, axis.stride) for axis, phase in zip(axes, phases, strict=True))
        part = spread(ofm, (rows.first, columns.first), strides, (outputs[0], outputs[1]))
        met = weights.values[:, rows.start :: strides[0], columns.start :: strides[1]][:, ::-1, ::-1]
        values = np.zeros((len(met), rows.taps, columns.taps, met.shape[3]), np.int16)
        values[:, : met.shape[1], : met.shape[2]] = met
        y, x = max(rows.source, 0), max(columns.source, 0)
        builder.convolve(
            crop(ifm, (y, x, 0), (ifm.shape[0] - y, ifm.shape[1] - x, ifm.shape[2])),
            part,
            replace(weights, values=values),
            finish=finish,
            rounding=rounding,
            kernel=KernelWindow(rows.taps, columns.taps),
            padding=_padding(axes, phases),
        )


def _may_join_columns(axis: _Side, ofm: View) -> bool:
    """Whether the outputs between two inputs lie one behind the other, as many everywhere: they are channels of one."""
    return 1 < axis.stride <= axis.output and axis.output % axis.stride == 0 and ofm.pitches[1] == ofm.shape[2]


def _convolve_columns(
    builder: Builder, ifm: View, ofm: View, weights: StepWeights, axes: Sequence[_Side], finish: Finish, rounding: Rounding
) -> None:
    """All phases of the columns at once, as channels: what a phase does not meet is multiplied by zeros."""
    rows, columns = axes
    stride, depth = columns.stride, ofm.shape[2]
    phases = list(columns.phases())
    first = min(phase.source for phase in phases)
    taps = max(phase.source + phase.taps for phase in phases) - first
    repeated = replace(
        weights,
        biases=np.tile(weights.biases, stride),
        scales=np.tile(weights.scales, stride),
        shifts=np.tile(weights.shifts, stride),
    )
    for row in rows.phases():
        values = np.zeros((stride, depth, row.taps, taps, weights.values.shape[3]), np.int16)
        for part, column in zip(values, phases, strict=True):
            met = weights.values[:, row.start :: rows.stride, column.start :: stride][:, ::-1, ::-1]
            at = column.source - first
            part[:, : met.shape[1], at : at + met.shape[2]] = met
        whole = _Phase(0, 0, taps, first)
        extents = ceil_div(rows.output - row.first, rows.stride), columns.output // stride
        y, x = max(row.source, 0), max(first, 0)
        pitch = (ofm.pitches[0] * rows.stride, stride * depth)
        builder.convolve(
            crop(ifm, (y, x, 0), (ifm.shape[0] - y, ifm.shape[1] - x, ifm.shape[2])),
            laid_out(ofm, (row.first, 0), (*extents, stride * depth), pitch),
            replace(repeated, values=values.reshape(stride * depth, row.taps, taps, -1)),
            finish=finish,
            rounding=rounding,
            kernel=KernelWindow(row.taps, taps),
            padding=_padding(axes, (row, whole)),
        )


def _padding(axes: Sequence[_Side], phases: Sequence[_Phase]) -> IfmPadding:
    """Zeros around the input that the outputs of phases need."""
    (top, bottom), (left, right) = (_sides(axis, phase) for axis, phase in zip(axes, phases, strict=True))
    return IfmPadding(top, left, bottom, right)


def _sides(axis: _Side, phase: _Phase) -> tuple[int, int]:
    before, extent = max(-phase.source, 0), axis.extent - max(phase.source, 0)
    return before, needed_after(extent, ceil_div(axis.output - phase.first, axis.stride), phase.taps, 1, before)
