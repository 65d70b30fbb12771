"""What rules observe: functions from an operator to the values that limits judge. Shared by the profiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from constraints.rule import Observe, Observed
from constraints.view import OpView
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.graph.graph import Quantization, Tensor
from npu.graph.operands import Shape


def tensor_types(view: OpView) -> Iterator[Observed]:
    """Element type of every feature map and of the weights."""
    return (Observed(name, tensor.dtype) for name, tensor in view.feature_maps_and_weights)


def tensor_dimensions(view: OpView) -> Iterator[Observed]:
    """Every dimension of every feature map and of the weights."""
    for name, tensor in view.feature_maps_and_weights:
        for axis, size in enumerate(tensor.shape):
            yield Observed(f"{name} dimension {axis}", int(size))


def fused_activation(view: OpView) -> Iterator[Observed]:
    """The fused activation, if there is one."""
    if view.activation != "NONE":
        yield Observed("fused activation", view.activation)


def output_type_with_activation(view: OpView) -> Iterator[Observed]:
    """Element types of the outputs of an operator with a fused activation."""
    if view.activation != "NONE":
        yield from (Observed(name, tensor.dtype) for name, tensor in view.outputs)


def attributes(**names: str) -> Observe:
    """Values of attributes; keyword = attribute, value = what to call it."""

    def observe(view: OpView) -> Iterable[Observed]:
        return (Observed(what, view.attribute(name)) for name, what in names.items())

    return observe


STRIDES = attributes(stride_w="stride width", stride_h="stride height")
DILATIONS = attributes(dilation_w_factor="dilation width", dilation_h_factor="dilation height")


def batch(view: OpView) -> Iterator[Observed]:
    """Batch size of a rank-4 input; None where the rank is another."""
    ifm = view.ifm
    yield Observed("batch size", int(ifm.shape[0]) if ifm is not None and len(ifm.shape) == 4 else None)


def operand_shapes(view: OpView) -> Iterator[Observed]:
    """The shapes of both operands of an elementwise operator."""
    first, second = view.input(0), view.input(1)
    both = (first.shape, second.shape) if first is not None and second is not None else None
    yield Observed("shapes", both)


def can_broadcast(shapes: tuple[Shape, Shape]) -> bool:
    """Whether every pair of dimensions, counted from the last, is equal or has a 1 in it."""
    first, second = shapes
    return all(1 in (a, b) or a == b for a, b in zip(reversed(first), reversed(second), strict=False))


def window(view: OpView) -> tuple[int | None, int | None]:
    """Height and width of a pooling window."""
    return view.attribute("filter_height"), view.attribute("filter_width")


def window_sides(view: OpView) -> Iterator[Observed]:
    """Window width and height."""
    height, width = window(view)
    yield Observed("window width", width)
    yield Observed("window height", height)


def window_height(view: OpView) -> Iterator[Observed]:
    yield Observed("window height", window(view)[0])


def window_product(view: OpView) -> Iterator[Observed]:
    yield Observed("window width x height", _product(window(view)))


def _product(sides: tuple[int | None, int | None]) -> int | None:
    """None if a side is unknown or not positive."""
    height, width = sides
    return height * width if height is not None and width is not None and min(height, width) > 0 else None


def only_with(padding: Padding, observe: Observe) -> Observe:
    """The same observation, of operators with one kind of padding only."""

    def restricted(view: OpView) -> Iterable[Observed]:
        return observe(view) if view.attribute("padding") == padding else ()

    return restricted


def dilated_kernel(view: OpView) -> tuple[int | None, int | None]:
    """Height and width of the kernel of a convolution with its dilation: (size - 1) x dilation + 1."""
    weights = view.weights
    if weights is None or len(weights.shape) != 4:
        return None, None
    factors = view.attribute("dilation_h_factor"), view.attribute("dilation_w_factor")
    sizes = int(weights.shape[1]), int(weights.shape[2])
    pairs = zip(sizes, factors, strict=True)
    height, width = ((size - 1) * factor + 1 if factor is not None else None for size, factor in pairs)
    return height, width


def dilated_height(view: OpView) -> Iterator[Observed]:
    yield Observed("dilated kernel height", dilated_kernel(view)[0])


def dilated_product(view: OpView) -> Iterator[Observed]:
    yield Observed("dilated kernel width x height", _product(dilated_kernel(view)))


def weight_type(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    yield Observed("weights", None if weights is None else weights.dtype)


def weights_constant(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    yield Observed("weights", "absent" if weights is None else constancy(weights))


def bias_type(view: OpView) -> Iterator[Observed]:
    """Element type of the bias, if there is one."""
    if view.bias is not None:
        yield Observed("bias", view.bias.dtype)


def constancy(tensor: Tensor) -> str:
    """ "constant" or "computed"; a variable is no constant, though a file may give it contents to start with."""
    return "constant" if tensor.is_constant and not tensor.is_variable else "computed"


def input_constant(position: int, name: str) -> Observe:
    """Whether the input at a position is a constant."""

    def observe(view: OpView) -> Iterator[Observed]:
        tensor = view.input(position)
        yield Observed(name, "absent" if tensor is None else constancy(tensor))

    return observe


def both(*parts: Observe) -> Observe:
    """All observations of several functions."""

    def observe(view: OpView) -> Iterable[Observed]:
        return itertools.chain.from_iterable(part(view) for part in parts)

    return observe


_SMALL = 1 << 14
"""Zero points whose difference from a byte is a number of 16 bits."""


def weight_sum(view: OpView) -> Iterator[Observed]:
    """Largest sum over one output channel of |weight - zero point|; not observed where the weights are unknown."""
    weights = view.weights
    if weights is None or weights.data is None or weights.dtype not in (DType.INT8, DType.UINT8) or not weights.data.size:
        return
    data = np.asarray(weights.data)
    if data.ndim != 4:
        return
    axis = 3 if view.op.kind == "DEPTHWISE_CONV_2D" else 0
    zero_points = _zero_points(weights.quantization, axis, data.shape[axis])
    small = np.int16 if np.abs(zero_points).max() < _SMALL else np.int64  # a quarter of the memory that is gone through
    magnitude = np.abs(data.astype(small) - zero_points.astype(small))
    sums = magnitude.sum(axis=tuple(other for other in range(4) if other != axis), dtype=np.int64)
    yield Observed("largest sum over a channel", int(sums.max()))


def _zero_points(quantization: Quantization | None, axis: int, channels: int) -> npt.NDArray[np.int64]:
    zero_points = np.zeros(1, np.int64) if quantization is None else np.asarray(quantization.zero_points, np.int64).reshape(-1)
    if zero_points.size == channels:
        return zero_points.reshape([-1 if other == axis else 1 for other in range(4)])
    return zero_points[:1].reshape(1, 1, 1, 1) if zero_points.size else np.zeros((1, 1, 1, 1), np.int64)


def depth_multiplier(view: OpView) -> Iterator[Observed]:
    """(multiplier, input channels, output channels)."""
    multiplier, ifm, ofm = view.attribute("depth_multiplier"), view.ifm, view.output()
    known = multiplier is not None and ifm is not None and ofm is not None and ifm.shape and ofm.shape
    value = (multiplier, int(ifm.shape[-1]), int(ofm.shape[-1])) if known and ifm and ofm else None
    yield Observed("multiplier, IFM channels, OFM channels", value)


def depth_multiplier_fits(value: tuple[int, int, int]) -> bool:
    """Whether a multiplier above 1 has one input channel and as many output channels as the multiplier."""
    multiplier, ifm_channels, ofm_channels = value
    return multiplier <= 1 or (ifm_channels == 1 and ofm_channels == multiplier)


def paddings_shape(view: OpView) -> Iterator[Observed]:
    tensor = view.input(1)
    yield Observed("padding tensor of shape", None if tensor is None else tensor.shape)


def paddings_type(view: OpView) -> Iterator[Observed]:
    tensor = view.input(1)
    yield Observed("padding tensor", None if tensor is None else tensor.dtype)


def paddings(view: OpView) -> list[list[int]] | None:
    """The constant padding table, [rank][before, after]; None if it is not constant or no such table."""
    tensor = view.input(1)
    if tensor is None or tensor.data is None or tensor.data.ndim != 2 or tensor.data.shape[1] != 2:
        return None
    if not np.issubdtype(tensor.data.dtype, np.integer):
        return None
    return [[int(before), int(after)] for before, after in tensor.data]


def paddings_outside_plane(view: OpView) -> Iterator[Observed]:
    """How much is padded in dimensions other than height and width; the last dimension is the channel."""
    table = paddings(view)
    if table is None:
        yield Observed("padding of batch and channel", None)
        return
    outside = [row for index, row in enumerate(table) if index not in (len(table) - 2, len(table) - 3)]
    yield Observed("padding of batch and channel", sum(abs(count) for row in outside for count in row))


def padding_counts(view: OpView) -> Iterator[Observed]:
    """Every count of a constant padding table."""
    for row in paddings(view) or ():
        yield from (Observed("padding count", count) for count in row)


def new_shape(view: OpView) -> Iterator[Observed]:
    """Where the new shape of a RESHAPE comes from."""
    tensor = view.input(1)
    if tensor is not None:
        yield Observed("shape", constancy(tensor))
    elif view.op.attributes is None:
        yield Observed("shape", "absent")
    else:
        yield Observed("shape", "constant")


def resize_shapes(view: OpView) -> Iterator[Observed]:
    """((input height, width), (output height, width), align_corners)."""
    ifm, ofm, align = view.ifm, view.output(), view.attribute("align_corners")
    known = ifm is not None and ofm is not None and len(ifm.shape) == len(ofm.shape) == 4 and align is not None
    value = (ifm.shape[1:3], ofm.shape[1:3], bool(align)) if known and ifm and ofm else None
    yield Observed("IFM, OFM, align_corners", value)


def resize_fits(value: tuple[Shape, Shape, bool]) -> bool:
    """Whether a bilinear resize is a copy, a broadcast of one element, or a doubling."""
    ifm, ofm, align_corners = value
    if tuple(ifm) == (1, 1) or tuple(ifm) == tuple(ofm):
        return True
    return all(out == 2 * size - (1 if align_corners else 0) for size, out in zip(ifm, ofm, strict=True))


def of_each(part: Callable[[Tensor], Any], tensors: Callable[[OpView], Iterable[tuple[str, Tensor]]]) -> Observe:
    """A property of every one of some tensors."""

    def observe(view: OpView) -> Iterator[Observed]:
        return (Observed(name, part(tensor)) for name, tensor in tensors(view))

    return observe
