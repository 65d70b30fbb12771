"""CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED: operators with constant weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import starmap
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop, images, largest_padding, needed_after, pad_amounts, padding_before
from npu.compiler.lower.memory import pad_map
from npu.compiler.lower.quantize import register_scales
from npu.compiler.lower.windows import (
    SlidingWindow,
    WeightedWindow,
    columns_to_depth,
    fold_columns,
    rows_to_depth,
    split_window,
    with_zeros,
    without_idle_ends,
)
from npu.graph.attributes import Conv2DOptions, DepthwiseConv2DOptions
from npu.graph.attributes import Padding as PaddingScheme
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Op, Quantization, Tensor
from npu.isa.operations import INT8, INT16, UINT8, IfmPadding, KernelWindow, Rounding
from npu.layouts import BRICK_DEPTH
from npu.machine.rules import ARRAY_CHANNELS
from npu.records import replace

Carried: TypeAlias = Sequence[tuple[int, int]]
"""What a PAD puts before and after the rows, and the columns."""

_NOTHING: Carried = ((0, 0), (0, 0))


def lower_convolution(builder: Builder, op: Op) -> None:
    """CONV_2D: weights (O, KH, KW, I); of fewer channels than the input has in groups, of one each as depthwise ones."""
    options = op.attributes
    assert isinstance(options, Conv2DOptions)
    weights = weight_values(builder, op, op.inputs[1])
    channels = builder.tensor(op.inputs[0]).shape[3]
    _emit_window(builder, op, options, weights, is_depthwise=weights.shape[3] == 1 < channels == weights.shape[0])


def lower_depthwise(builder: Builder, op: Op) -> None:
    """DEPTHWISE_CONV_2D: weights (1, KH, KW, O). A multiplier above 1 makes ordinary convolutions of groups of channels."""
    options = op.attributes
    assert isinstance(options, DepthwiseConv2DOptions)
    weights = np.ascontiguousarray(weight_values(builder, op, op.inputs[1]).transpose(3, 1, 2, 0))
    channels, outputs = builder.tensor(op.inputs[0]).shape[-1], weights.shape[0]
    if outputs > channels:
        weights = _grouped(weights, channels)
    _emit_window(builder, op, options, weights, is_depthwise=outputs == channels)


def _grouped(weights: npt.NDArray[np.int16], channels: int) -> npt.NDArray[np.int16]:
    """Depthwise weights (O, KH, KW, 1) as those of ordinary convolutions over groups of input channels: zeros for the others.

    A group is a brick of the feature map, or half of one, where the channels can be cut so: zeros take time, but hardly a bit
    of the stream.
    """
    group = next((size for size in (BRICK_DEPTH, BRICK_DEPTH // 2) if channels % size == 0), channels)
    outputs = np.arange(len(weights))
    values = np.zeros((*weights.shape[:3], group), np.int16)
    values[outputs, :, :, outputs // (len(weights) // channels) % group] = weights[:, :, :, 0]
    return values


def lower_fully_connected(builder: Builder, op: Op) -> None:
    """FULLY_CONNECTED: a 1x1 convolution over a map whose positions are the batches; weights (O, I)."""
    weights = weight_values(builder, op, op.inputs[1])
    weights = weights.reshape(weights.shape[0], 1, 1, -1)
    finish = builder.finish(op)
    ofm = builder.result(finish)
    ifm = builder.input(op.inputs[0], builder.zero_point(op.inputs[0]))
    ifm = builder.reshaped(ifm, (ofm.shape[0], ofm.shape[1], weights.shape[3]))
    rounding = accumulator_rounding(builder, op.inputs[0], _bias(op))
    records = make_weights(builder, op, weights, _bias(op), _fully_connected_factors(builder, op), rounding)
    builder.convolve(ifm, ofm, records, finish=finish, rounding=rounding)


def _emit_window(
    builder: Builder,
    op: Op,
    options: Conv2DOptions | DepthwiseConv2DOptions,
    values: npt.NDArray[np.int16],
    *,
    is_depthwise: bool,
) -> None:
    """Make the steps of a convolution: padding resolved, one step per image of the batch that has rows to look at."""
    _, height, width, _ = values.shape
    batch, oh, ow, _ = builder.tensor(op.outputs[0]).shape
    strides = effective_strides((oh, ow), options.stride_h, options.stride_w)
    kernel = KernelWindow(height, width, *strides, options.dilation_h_factor, options.dilation_w_factor)
    source, carried = _window_source(builder, op)
    zero_point = builder.zero_point(op.inputs[0])
    ifm = builder.input(source, zero_point)
    if height == kernel.stride_y == 1 and ifm.shape[0] == batch * oh:  # no row sees another, so images are rows of one
        batch, oh = 1, batch * oh
    rounding = accumulator_rounding(builder, op.inputs[0], _bias(op))
    weights = make_weights(builder, op, values, _bias(op), channel_factors(builder, op, *op.inputs[:2]), rounding)
    finish = builder.finish(op)
    windows = [
        SlidingWindow(x, y, kernel, window_padding(x, (oh, ow), kernel, options.padding, carried))
        for x, y in zip(images(ifm, batch), images(builder.result(finish), batch), strict=True)
    ]

    def make(given: Sequence[WeightedWindow], *, has_columns: bool, has_rows: bool) -> None:
        for whole, own_values in given:
            if has_columns:
                whole, own_values = columns_to_depth(builder, whole, own_values, has_rows=has_rows)
            if has_rows:
                whole, own_values = rows_to_depth(builder, whole, own_values)
            by_channel = is_depthwise and own_values.shape[3] == 1  # one channel with columns or rows behind it has several
            for piece in split_window(builder, op, whole):
                window, met = without_idle_ends(piece, own_values)
                part, padding = legal_padding(builder, window.ifm, window.padding, zero_point)
                for group, ofm, own in _groups(part, window.ofm, replace(weights, values=met), is_depthwise=by_channel):
                    builder.convolve(
                        group,
                        ofm,
                        own,
                        finish=finish,
                        rounding=rounding,
                        kernel=window.kernel,
                        padding=padding,
                        is_depthwise=by_channel,
                    )

    plain = [without_idle_ends(window, values) for window in windows]
    met, kernel = plain[0][1], plain[0][0].kernel
    has_columns, has_rows = _stacks(builder, met, ifm, (oh, ow), kernel)
    may_stack = has_columns or _may_stack_columns(met, plain[0][0])
    folded = [one for one in starmap(fold_columns, plain) if one] if may_stack else []
    stretched = [one for one in (with_zeros(*own, builder.variant.accelerator) for own in plain) if one]
    ways = (
        (plain, False, not has_columns),
        (stretched, has_columns, bool(stretched)),
        (folded, False, bool(folded)),
        (plain, True, may_stack),
    )
    builder.make_cheapest(
        [partial(make, given, has_columns=stacks, has_rows=has_rows) for given, stacks, is_possible in ways if is_possible]
    )


def _stacks(
    builder: Builder, values: npt.NDArray[np.int16], ifm: View, output: tuple[int, int], kernel: KernelWindow
) -> tuple[bool, bool]:
    """Whether the columns, and the rows, of far strides become channels.

    Columns cost nothing. Rows are copied, which must be less than what windows for every row would read of the weights again.
    """
    most, (height, width) = builder.variant.accelerator.max_kernel_stride, output
    if values.shape[3] != ifm.shape[2]:
        return False, False
    has_columns = kernel.stride_x > most and kernel.dilation_x == 1
    copied = values[0].size * height * (width if has_columns else ifm.shape[1])
    return has_columns, kernel.stride_y > most and kernel.dilation_y == 1 and copied < (height - 1) * values.size


def _may_stack_columns(values: npt.NDArray[np.int16], window: SlidingWindow) -> bool:
    """Whether columns that are near may become channels, of which there are fewer than the MAC array takes together."""
    kernel, depth = window.kernel, window.ifm.shape[2]
    return kernel.width > 1 and kernel.dilation_x == 1 and depth < ARRAY_CHANNELS and values.shape[3] == depth


def _groups(ifm: View, ofm: View, weights: StepWeights, *, is_depthwise: bool) -> Iterator[tuple[View, View, StepWeights]]:
    """Input, output and weights of every group of channels; of an ordinary convolution there is one."""
    count = 1 if is_depthwise else ifm.shape[2] // weights.values.shape[3]
    inputs, outputs = ifm.shape[2] // count, ofm.shape[2] // count
    for group in range(count):
        own = slice(group * outputs, (group + 1) * outputs)
        yield (
            crop(ifm, (0, 0, group * inputs), (*ifm.shape[:2], inputs)),
            crop(ofm, (0, 0, group * outputs), (*ofm.shape[:2], outputs)),
            weights.channels(own),
        )


def _window_source(builder: Builder, op: Op) -> tuple[int, Carried]:
    """The tensor that the window slides over and what a carried PAD puts around its rows and columns."""
    pad = builder.fusions.pad.get(builder.index)
    if pad is None:
        return op.inputs[0], _NOTHING
    amounts = pad_amounts(builder.graph, builder.graph.ops[pad])
    return builder.graph.ops[pad].inputs[0], amounts[-3:-1]


def effective_strides(output: tuple[int, int], stride_y: int, stride_x: int) -> tuple[int, int]:
    """Strides of a window; where the output has one element nothing is strided over, so any stride is as good as 1."""
    return (1 if output[0] == 1 else stride_y), (1 if output[1] == 1 else stride_x)


def window_padding(
    ifm: View, output: tuple[int, int], kernel: KernelWindow, scheme: PaddingScheme, carried: Carried = _NOTHING
) -> IfmPadding:
    """Padding that the output extent (height, width) needs; `carried` is what a PAD adds."""
    (height, width, _), (oh, ow) = ifm.shape, output
    is_same = scheme is PaddingScheme.SAME
    top = padding_before(height, oh, kernel.dilated_height, kernel.stride_y, is_same=is_same, carried=carried[0])
    left = padding_before(width, ow, kernel.dilated_width, kernel.stride_x, is_same=is_same, carried=carried[1])
    bottom = needed_after(height, oh, kernel.dilated_height, kernel.stride_y, top)
    right = needed_after(width, ow, kernel.dilated_width, kernel.stride_x, left)
    return IfmPadding(top, left, bottom, right)


def legal_padding(builder: Builder, ifm: View, padding: IfmPadding, value: int) -> tuple[View, IfmPadding]:
    """The map and its padding; a padding that the registers cannot hold is written to memory as `value`."""
    most_before, most_after = largest_padding(builder.variant)
    if max(padding.top, padding.left) <= most_before and max(padding.bottom, padding.right) <= most_after:
        return ifm, padding
    height, width, depth = ifm.shape
    shape = (height + padding.top + padding.bottom, width + padding.left + padding.right, depth)
    padded = builder.temporary("padded", shape, ifm.element)
    pad_map(builder, ifm, padded, (padding.top, padding.left, 0), value)
    return View.whole(padded.storage, ifm.zero_point), IfmPadding()


def _bias(op: Op) -> int:
    return op.inputs[2] if len(op.inputs) > 2 else ABSENT


def _quantization(builder: Builder, op: Op, tensor: Tensor) -> Quantization:
    if tensor.quantization is None or not tensor.quantization.scales.size:
        raise builder.error(op, f"weights {tensor.name} must have a quantization scale, got none")
    return tensor.quantization


def weight_values(builder: Builder, op: Op, index: int) -> npt.NDArray[np.int16]:
    """The weights in tensor `index` with their zero point subtracted, in the file's order."""
    zero_point = _quantization(builder, op, builder.tensor(index)).zero_point
    return builder.constant_data(index).astype(np.int16) - np.int16(zero_point)


def channel_factors(builder: Builder, op: Op, source: int, weights: int) -> list[float]:
    """Real factor of every output channel (or one for all), in double from the float32 scales.

    Source: TFLite's PopulateConvolutionQuantizationParams, and for uint8 GetQuantizedConvolutionMultipler, which multiplies
    the scales in float32.
    """
    scales = _quantization(builder, op, builder.tensor(weights)).scales
    ifm, ofm = builder.quantized(source), float(builder.scale(op.outputs[0]))
    if ifm.element is UINT8:
        return [float(ifm.scale * np.float32(scale)) / ofm for scale in scales]
    factor = float(ifm.scale)
    return [factor * scale / ofm for scale in scales.tolist()]


def _fully_connected_factors(builder: Builder, op: Op) -> list[float]:
    """As for convolutions, but one scale of int8 weights is multiplied in float32, too."""
    scales = _quantization(builder, op, builder.tensor(op.inputs[1])).scales
    if scales.size > 1 or builder.quantized(op.inputs[0]).element is not INT8:
        return channel_factors(builder, op, *op.inputs[:2])
    product = builder.scale(op.inputs[0]) * np.float32(scales[0])
    return [float(product) / float(builder.scale(op.outputs[0]))]


def accumulator_rounding(builder: Builder, source: int, bias: int) -> Rounding:
    """Sums of 64 bits, those of int16 values but with a bias of 32 bits, are rounded once, others twice."""
    is_wide = builder.quantized(source).element is INT16 and (bias == ABSENT or builder.tensor(bias).dtype is DType.INT64)
    return Rounding.NATURAL if is_wide else Rounding.DOUBLE


def make_weights(
    builder: Builder, op: Op, values: npt.NDArray[np.int16], bias: int, factors: Sequence[float], rounding: Rounding
) -> StepWeights:
    """Weights (O, KH, KW, I) with bias (a tensor index or ABSENT), scale and shift of every output channel."""
    channels = values.shape[0]
    biases = np.zeros(channels, np.int64)
    if bias != ABSENT:
        biases[:] = builder.constant_data(bias).reshape(-1)
    scales, shifts = register_scales(factors, are_short=rounding is not Rounding.DOUBLE)
    if len(scales) not in (1, channels):
        raise builder.error(op, f"weights must have 1 or {channels} scales, got {len(scales)}")
    repeats = channels // len(scales)
    return StepWeights(values=values, biases=biases, scales=scales.repeat(repeats), shifts=shifts.repeat(repeats))
