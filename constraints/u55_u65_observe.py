"""What the rules of `constraints.u55_u65` look at in an operator, beyond `constraints.observe`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from constraints import observe
from constraints.rule import Observed
from constraints.sums import largest_sum
from constraints.view import OpView
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.graph.graph import Quantization, Tensor
from npu.graph.idle import VIEWS
from npu.graph.map_types import (
    PLAIN_NUMBERS,
    SOFTMAX_SCALES,
    WITH_ANY_ZERO_POINT,
    ZERO_POINTS,
    is_softmax_scale,
    pair_of,
    shown,
)
from npu.graph.operands import Shape
from npu.graph.ops import is_matrix_of_weights
from npu.graph.permutation import axis_groups, cut_for_copies, is_permutation, moved_axes
from npu.graph.progressions import MOST_PARTS, progressions
from npu.graph.resizes import axes_of_resize
from npu.graph.shapes.gathers import batch_dims
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import Resizing
from npu.isa.rules import MAX_EXTENT
from npu.numerics.comparison import on_one_scale, symbols

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
RESIZE_FACTORS = (2, 4, 8)
SAME_ELEMENTS = tuple(sorted(VIEWS))
NOT_RESCALED = (
    "ARG_MAX", "AVERAGE_POOL_2D", "ELU", "EXP", "GATHER", "GELU", "LOG", "LOGISTIC", "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "NEG",
    "PAD", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "RSQRT", "SLICE", "SOFTMAX", "SPLIT", "SPLIT_V",
    "SELECT", "SELECT_V2", "SQUEEZE", "STRIDED_SLICE", "TANH", "TILE",
)  # fmt: skip
"""Operators whose reference kernels multiply nothing by the factor between scales: copies, comparisons, look-up tables."""


FEW_PARTS, LEAST_PART = 32, 16
"""Parts of a GATHER that take less time than there is around an NPU job; elements of one for which the CPU takes as long.

Measured: an operation takes 90 to 150 cycles, the CPU 5 to 15 cycles of the NPU's clock for an element.
"""


def has_scale(quantization: Quantization | None) -> str:
    if quantization is None or quantization.scales.size == 0:
        return "none"
    if quantization.scales.size > 1 or quantization.zero_points.size > 1:
        return "per channel"
    scale = quantization.scale
    return "per tensor" if np.isfinite(scale) and scale > 0 else "no positive scale"


def _zero_point(tensor: Tensor) -> int:
    quantization = tensor.quantization
    return quantization.zero_point if quantization is not None and quantization.zero_points.size else 0


def quantized_maps(view: OpView) -> tuple[tuple[str, Tensor], ...]:
    """The feature maps but for those of 32 and 64 bits, plain numbers unless an operator requantizes them, and truth values.

    None of an operator that looks its result up, whatever its values stand for.
    """
    if view.op.lookup is not None:
        return ()
    plain = frozenset[DType]() if view.op.kind == "QUANTIZE" else PLAIN_NUMBERS
    return tuple((name, tensor) for name, tensor in view.feature_maps if tensor.dtype not in plain)


def typed_zero_points(view: OpView) -> Iterator[Observed]:
    """(zero point, type) of every quantized map."""
    for name, tensor in quantized_maps(view):
        if tensor.dtype in ZERO_POINTS and not (tensor.dtype is DType.INT16 and view.op.kind in WITH_ANY_ZERO_POINT):
            yield Observed(name, (_zero_point(tensor), tensor.dtype))


def fits_type(output: tuple[int, DType]) -> bool:
    low, high = ZERO_POINTS[output[1]]
    return low <= output[0] <= high


def map_types(view: OpView) -> Iterator[Observed]:
    """The type of all maps that are read, and that of those that are written where it is another."""
    read, written = ([tensor.dtype for _, tensor in maps] for maps in (view.inputs, view.outputs))
    if read and written:
        pair = pair_of(read, written)
        yield Observed("types", ", ".join(map(str, (*read, *written))) if pair is None else shown(pair))


def typed_weights(view: OpView) -> Iterator[Observed]:
    """(type of the weights, type of the maps)."""
    if view.weights is not None and view.ifm is not None:
        yield Observed("weights, map", (view.weights.dtype, view.ifm.dtype))


def ranks(view: OpView) -> Iterator[Observed]:
    """Ranks of feature maps, of operators to which they matter."""
    if view.op.kind not in (*SAME_ELEMENTS, "TRANSPOSE"):
        yield from (Observed(name, len(tensor.shape)) for name, tensor in view.feature_maps)


def presence(view: OpView) -> Iterator[Observed]:
    yield Observed("input", "present" if view.inputs else "absent")
    yield Observed("output", "present" if view.outputs else "absent")


def weight_quantization(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    quantization = None if weights is None else weights.quantization
    if quantization is None or quantization.scales.size == 0:
        yield Observed("weights", "no scale")
        return
    positive = quantization.scales.min() > 0 and quantization.scales.max() < math.inf
    yield Observed("weights", "positive scales" if positive else "a scale that is not positive")


def matrices(view: OpView) -> Iterator[Observed]:
    """The types of the two matrices, and which is a constant of weights."""
    left, right = view.input(0), view.input(1)
    if left is not None and right is not None:
        constant = "constant " if is_matrix_of_weights(view.op, 1, right) else ""
        yield Observed("matrices", f"{left.dtype}, {constant}{right.dtype}")


def matrix_quantization(view: OpView) -> Iterator[Observed]:
    """Whether a constant matrix has scales, and a zero point that a matrix of the other's type may have."""
    left, right = view.input(0), view.input(1)
    if left is not None and right is not None and is_matrix_of_weights(view.op, 1, right):
        kind, point = has_scale(right.quantization), _zero_point(right)
        is_fit = left.dtype not in ZERO_POINTS or fits_type((point, left.dtype))
        yield Observed("constant matrix", kind if is_fit else f"zero point {point}")


def weight_zero_points(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    if weights is not None and weights.quantization is not None:
        points = np.asarray(weights.quantization.zero_points if weights.dtype is DType.INT8 else [0])
        yield Observed("weight zero point", int(points[np.argmax(np.abs(points))]) if points.size else 0)


def sums_of_products(view: OpView) -> Iterator[Observed]:
    """What products and bias can sum up to; not told where a glance at the sizes shows that it fits."""
    largest = largest_sum(view.op.kind, view.ifm, view.weights, view.bias, view.output())
    if largest is not None:
        yield Observed("sum", largest)


def bias_constant(view: OpView) -> Iterator[Observed]:
    if view.bias is not None:
        yield Observed("bias", observe.constancy(view.bias))


def scale_count(view: OpView) -> Iterator[Observed]:
    """(scales of the weights, output channels)."""
    weights, ofm = view.weights, view.output()
    if weights is not None and weights.quantization is not None and ofm is not None and ofm.shape:
        yield Observed("scales, output channels", (int(weights.quantization.scales.size), int(ofm.shape[-1])))


def weight_dimensions(view: OpView) -> Iterator[Observed]:
    """Those of a convolution, which are its channels, too."""
    if view.weights is not None:
        yield from (Observed(f"weights dimension {axis}", int(size)) for axis, size in enumerate(view.weights.shape))


def filter_channels(view: OpView) -> Iterator[Observed]:
    """(filter channels, input channels) of a convolution."""
    weights, ifm = view.weights, view.ifm
    if weights is not None and ifm is not None and len(weights.shape) == 4 and ifm.shape:
        yield Observed("filter channels, IFM channels", (int(weights.shape[3]), int(ifm.shape[-1])))


def _largest_scale(tensor: Tensor | None) -> float:
    quantization = None if tensor is None else tensor.quantization
    return float(quantization.scales.max()) if quantization is not None and quantization.scales.size else 1.0


def rescale_factor(view: OpView) -> Iterator[Observed]:
    """The factor from the product of the input scales to the output scale; an upper bound for sums.

    Not observed of operators that copy or compare values, or that look their results up.
    """
    if view.op.kind in NOT_RESCALED or view.op.lookup is not None:
        return
    product = (
        math.prod(_largest_scale(tensor) for _, tensor in view.inputs)
        if view.op.kind in ("MUL", "SQUARED_DIFFERENCE")
        else None
    )
    if product is None:
        largest = max((_largest_scale(tensor) for _, tensor in view.inputs), default=1.0)
        product = largest * (_largest_scale(view.weights) if view.weights is not None else 1.0)
    output = _largest_scale(view.output())
    yield Observed("factor", product / output if output > 0 else None)


def options(view: OpView) -> Iterator[Observed]:
    yield Observed("options", "absent" if view.op.attributes is None else "present")


def softmax_output(view: OpView) -> Iterator[Observed]:
    """(types of the maps, scale, zero point); a scale as near as LiteRT demands is the one that results have."""
    ifm, ofm = view.ifm, view.output()
    if ifm is None or ofm is None:
        return
    quantization, pair = ofm.quantization, (ifm.dtype, ofm.dtype)
    if quantization is None or not quantization.scales.size:
        yield Observed("output", None)
        return
    scale, expected = quantization.scale, SOFTMAX_SCALES.get(pair, (0.0, 0))[0]
    scale = expected if is_softmax_scale(scale, expected) else scale
    yield Observed("output", (shown(pair), scale, quantization.zero_point))


def slopes(view: OpView) -> Iterator[Observed]:
    """(bits, shape, shape of the IFM)."""
    slopes, ifm = view.input(1), view.ifm
    if slopes is not None and ifm is not None:
        yield Observed("bits, shape, IFM", (slopes.dtype.bits, tuple(slopes.shape), tuple(ifm.shape)))


def slopes_fit(output: tuple[int, tuple[int, ...], tuple[int, ...]]) -> bool:
    bits, slopes, shape = output
    if bits != 8 or len(slopes) > len(shape):
        return False
    padded = (1,) * (len(shape) - len(slopes)) + tuple(slopes)
    return math.prod(padded[:-3]) == 1 and all(size in (1, full) for size, full in zip(padded, shape, strict=True))


def compared_symbols(view: OpView) -> Iterator[Observed]:
    """How many symbols tell an equality of both operands' values; a constant of one element may have any scale."""
    sides = [tensor for _, tensor in view.inputs if tensor.dtype in (DType.INT8, DType.UINT8)]
    if len(sides) < 2 or any(side.is_constant and side.elements == 1 for side in sides):
        return
    if all(has_scale(side.quantization) == "per tensor" and _largest_scale(side) < 1 for side in sides):
        first, second = (on_one_scale(_values_of(side), _largest_scale(side), _zero_point(side)) for side in sides)
        yield Observed("symbols", symbols(view.op.kind, first, second).count)


def compared_scales(view: OpView) -> Iterator[Observed]:
    """The larger scale of both operands; wider ones than of 8 bits are compared as they are stored."""
    if view.inputs and all(tensor.dtype.bits == 8 for _, tensor in view.inputs):
        yield Observed("scale", max(_largest_scale(tensor) for _, tensor in view.inputs))


def _values_of(tensor: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """All values of its type, ascending."""
    limits = np.iinfo(tensor.dtype.numpy)
    return np.arange(limits.min, limits.max + 1)


def reversed_axes(view: OpView) -> Iterator[Observed]:
    """How many constant axes of a REVERSE_V2 have more than one element."""
    ifm, axes = view.ifm, view.input(1)
    if ifm is not None and axes is not None and axes.data is not None and axes.data.dtype.kind == "i":
        rank = len(ifm.shape)
        named = {int(axis) % rank for axis in axes.data.reshape(-1)} if rank else set[int]()
        yield Observed("axes", sum(ifm.shape[axis] > 1 for axis in named))


def condition_type(view: OpView) -> Iterator[Observed]:
    """That of a SELECT's condition."""
    condition = view.input(0)
    if condition is not None:
        yield Observed("condition", condition.dtype)


def fused_activation(view: OpView) -> Iterator[Observed]:
    """That of an LSTM is the cell's own function."""
    if view.op.kind != LSTM:
        yield from observe.fused_activation(view)


def int32_activation(view: OpView) -> Iterator[Observed]:
    if view.ifm is not None and view.ifm.dtype is DType.INT32:
        yield Observed("fused activation", view.activation)


def cell_parts(view: OpView) -> Iterator[Observed]:
    """What an LSTM cell has beside gates."""
    parts = {"peephole": (9, 10, 11), "projection": (16, 17), "normalisation": (20, 21, 22, 23)}
    output = [name for name, positions in parts.items() if any(view.input(position) is not None for position in positions)]
    yield Observed("parts", tuple(output))


def cell_exponent(view: OpView) -> Iterator[Observed]:
    cell = view.input(19)
    scale = _largest_scale(cell) if cell is not None else 0.0
    mantissa, exponent = math.frexp(scale) if math.isfinite(scale) else (0.0, 0)
    yield Observed("exponent of 2", exponent - 1 if mantissa == 0.5 else None)


def times(view: OpView) -> Iterator[Observed]:
    ifm = view.ifm
    if ifm is not None and len(ifm.shape) == 3:
        yield Observed("times", int(ifm.shape[0 if view.attribute("time_major") else 1]))


def cell_weights(view: OpView) -> Iterator[Observed]:
    """Weights of input and output of all gates."""
    yield Observed("weights", sum(tensor.elements for tensor in map(view.input, range(1, 9)) if tensor is not None))


def int32_factor(view: OpView) -> Iterator[Observed]:
    if view.ifm is not None and view.ifm.dtype is DType.INT32:
        yield from rescale_factor(view)


def int32_zero_point(view: OpView) -> Iterator[Observed]:
    ofm = view.output()
    if ofm is not None and ofm.dtype is DType.INT32:
        yield Observed("zero point", _zero_point(ofm))


def int32_elements(view: OpView) -> Iterator[Observed]:
    ofm = view.output()
    if ofm is not None and ofm.dtype is DType.INT32:
        yield Observed("elements", math.prod(ofm.shape))


def intermediates(view: OpView) -> Iterator[Observed]:
    yield Observed("intermediate tensors", len(view.op.intermediates))


def last_axis(view: OpView) -> Iterator[Observed]:
    ifm, axis = view.ifm, view.input(1)
    if ifm is not None and axis is not None and axis.data is not None and np.issubdtype(axis.data.dtype, np.integer):
        yield from (Observed("axis", int(value) - (len(ifm.shape) if value >= 0 else 0)) for value in axis.data.reshape(-1)[:8])


def compared(view: OpView) -> Iterator[Observed]:
    """Elements along the axis of an ARG_MAX."""
    for axis in last_axis(view):
        if view.ifm is not None and -len(view.ifm.shape) <= axis.value < 0:
            yield Observed("elements", int(view.ifm.shape[axis.value]))


def channels(view: OpView) -> Iterator[Observed]:
    if view.ifm is not None and view.ifm.shape:
        yield Observed("channels", int(view.ifm.shape[-1]))


def strides(view: OpView) -> Iterator[Observed]:
    tensor = view.input(3)
    if tensor is not None and tensor.data is not None and np.issubdtype(tensor.data.dtype, np.integer):
        yield from (Observed("stride", int(value)) for value in tensor.data.reshape(-1)[:8])


def effective_strides(view: OpView) -> Iterator[Observed]:
    """Strides of a window, without those of axes on which the output has one element."""
    ofm = view.output()
    for seen, axis in zip(observe.STRIDES(view), (2, 1), strict=True):
        if ofm is None or len(ofm.shape) != 4 or ofm.shape[axis] != 1:
            yield seen


def transposed_strides(view: OpView) -> Iterator[Observed]:
    """Stride height and width of a transposed convolution; 1 along an axis on which the IFM has one element."""
    sizes = view.ifm.shape[1:3] if view.ifm is not None and len(view.ifm.shape) == 4 else (0, 0)
    height, width = (
        1 if size == 1 else view.attribute(name) for size, name in zip(sizes, ("stride_h", "stride_w"), strict=True)
    )
    yield from (Observed(name, stride) for name, stride in (("stride height", height), ("stride width", width)))


def kernel_sides(view: OpView) -> Iterator[Observed]:
    yield from (Observed(name, side) for name, side in zip(("kernel height", "kernel width"), _sides(view), strict=True))


def kernel_height(view: OpView) -> Iterator[Observed]:
    """Without its dilation: windows that are taken apart have none."""
    yield Observed("kernel height", _sides(view)[0])


def kernel_product(view: OpView) -> Iterator[Observed]:
    height, width = _sides(view)
    yield Observed("kernel width x height", None if height is None or width is None else height * width)


def _sides(view: OpView) -> tuple[int | None, int | None]:
    """Height and width of the kernel of a convolution."""
    weights = view.weights
    return (int(weights.shape[1]), int(weights.shape[2])) if weights is not None and len(weights.shape) == 4 else (None, None)


def shape_of_the_result(view: OpView) -> Iterator[Observed]:
    """Whether a transposed convolution's output shape is a constant, or at least declared without a dynamic dimension."""
    shape, ofm = view.input(0), view.output()
    state = "absent" if shape is None else observe.constancy(shape)
    is_fixed = ofm is not None and -1 not in (ofm.shape_signature or ())
    yield Observed("output shape", "fixed by the OFM" if state == "computed" and is_fixed else state)


def transposed_size(view: OpView) -> Iterator[Observed]:
    """(height and width of the OFM, what a transposed convolution of this padding gives)."""
    weights, ifm, ofm, padding = view.weights, view.ifm, view.output(), view.attribute("padding")
    strides = (view.attribute("stride_h"), view.attribute("stride_w"))
    if weights is None or ifm is None or ofm is None or padding is None or None in strides:
        return
    if len(weights.shape) == len(ifm.shape) == len(ofm.shape) == 4:
        sizes = zip(ifm.shape[1:3], weights.shape[1:3], strides, strict=True)
        rest = 0 if padding == Padding.SAME else 1
        wanted = tuple(extent * stride + rest * max(kernel - stride, 0) for extent, kernel, stride in sizes)
        yield Observed("OFM, expected", (tuple(ofm.shape[1:3]), wanted))


def _mean_axes(view: OpView) -> tuple[int, set[int]] | None:
    """Rank and axes, counted from the first, of a MEAN; None where they are not constant."""
    ifm, axes = view.ifm, view.input(1)
    if ifm is None or not ifm.shape or axes is None or axes.data is None or not np.issubdtype(axes.data.dtype, np.integer):
        return None
    rank = len(ifm.shape)
    return rank, {int(axis) % rank for axis in axes.data.reshape(-1)[:8]}


def reduced(view: OpView) -> Iterator[Observed]:
    """(shape of the IFM, axes)."""
    mean_axes = _mean_axes(view)
    if mean_axes is not None and view.ifm is not None:
        yield Observed("shape, axes", (tuple(view.ifm.shape), tuple(sorted(mean_axes[1]))))


def mean_elements(view: OpView) -> Iterator[Observed]:
    output, ifm = _mean_axes(view), view.ifm
    if output is not None and ifm is not None:
        yield Observed("elements", math.prod(ifm.shape[axis] for axis in output[1]))


def compared_elements(view: OpView) -> Iterator[Observed]:
    """Of every group of axes that a REDUCE_MAX takes at a time."""
    output, ifm = _mean_axes(view), view.ifm
    if output is not None and ifm is not None:
        yield from (Observed("elements", extent) for _, extent, _ in axis_groups(ifm.shape, output[1]))


def _order(view: OpView) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape of the input and permutation of a TRANSPOSE; None where it is no constant of integers."""
    ifm, order = view.ifm, view.input(1)
    if ifm is None or order is None or order.data is None or not np.issubdtype(order.data.dtype, np.integer):
        return None
    return ifm.shape, tuple(int(axis) for axis in order.data.reshape(-1)[:8])


def order_type(view: OpView) -> Iterator[Observed]:
    order = view.input(1)
    yield Observed("permutation", None if order is None else order.dtype)


def transposed_rank(view: OpView) -> Iterator[Observed]:
    yield from (Observed(name, len(tensor.shape)) for name, tensor in view.inputs)


def permuted_axes(view: OpView) -> Iterator[Observed]:
    """Axes of a constant permutation."""
    order = _order(view)
    if order is not None:
        yield from (Observed("axis", axis) for axis in order[1])


def both_quantizations(view: OpView) -> Iterator[Observed]:
    if view.ifm is not None and view.ifm.dtype is DType.INT32:
        return
    pair = tuple(
        None if tensor is None or tensor.quantization is None or not tensor.quantization.scales.size
        else (tensor.quantization.scale, _zero_point(tensor))
        for tensor in (view.ifm, view.output())
    )  # fmt: skip
    yield Observed("IFM, OFM", pair)


def copies(view: OpView) -> Iterator[Observed]:
    order = _order(view)
    if order is not None and is_permutation(order[1], len(order[0])):
        yield Observed("copies", cut_for_copies(moved_axes(*order)).count(MAX_EXTENT, MAX_EXTENT))


def _indices(view: OpView) -> tuple[Shape, int, tuple[int, ...]] | None:
    """Shape of the IFM of a GATHER, axis, counted from the first, and indices; None where there are no constant integers."""
    ifm, table, axis = view.ifm, view.input(1), view.attribute("axis") or 0
    if ifm is None or table is None or table.data is None or not table.data.size or table.data.dtype.kind != "i":
        return None
    rank = len(ifm.shape)
    return (ifm.shape, axis % rank, tuple(table.data.reshape(-1).tolist())) if -rank <= axis < rank else None


def indices_within(view: OpView) -> Iterator[Observed]:
    """(smallest or largest index, extent of the axis)."""
    gathered = _indices(view)
    if gathered is not None:
        shape, axis, indices = gathered
        yield from (Observed("index, extent", (end, shape[axis])) for end in dict.fromkeys((min(indices), max(indices))))


def common_dimensions(view: OpView) -> Iterator[Observed]:
    """Batch dimensions of a GATHER of constant indices."""
    indices = view.input(1)
    if indices is not None and indices.is_constant:
        yield Observed("batch dimensions", batch_dims(view.attribute("batch_dims") or 0, indices.shape))


def computed_indices_type(view: OpView) -> Iterator[Observed]:
    """That of indices that are computed."""
    indices = view.input(1)
    if indices is not None and not indices.is_constant:
        yield Observed("indices", indices.dtype)


def gathered_between(view: OpView) -> Iterator[Observed]:
    """Elements of the dimensions of a GATHER of computed indices that lie in front of its axis and are not those of indices."""
    ifm, indices, axis = view.ifm, view.input(1), view.attribute("axis") or 0
    if ifm is not None and indices is not None and not indices.is_constant and -len(ifm.shape) <= axis < len(ifm.shape):
        batch = batch_dims(view.attribute("batch_dims") or 0, indices.shape)
        yield Observed("between", math.prod(ifm.shape[max(batch, 0) : axis % len(ifm.shape)]))


def gathered_parts(view: OpView) -> Iterator[Observed]:
    """(evenly spaced parts of the indices of a GATHER, elements that are taken); not told of indices that lie outside."""
    gathered = _indices(view)
    if gathered is not None and all(0 <= index < gathered[0][gathered[1]] for index in gathered[2]):
        shape, axis, indices = gathered
        elements = math.prod((*shape[:axis], len(indices), *shape[axis + 1 :]))
        yield Observed("parts, elements", (len(progressions(indices, MOST_PARTS + 1)), elements))


def is_worth_parts(value: tuple[int, int]) -> bool:
    """Whether copies of parts take no longer than the CPU does for their elements, or hardly anything."""
    parts, elements = value
    return parts <= FEW_PARTS or (parts <= MOST_PARTS and elements >= parts * LEAST_PART)


def unit_activation(view: OpView) -> Iterator[Observed]:
    yield Observed("fused activation", view.activation)


ResizeForm: TypeAlias = tuple[Shape, Shape, bool, bool, DType]
"""Height and width of IFM and OFM, align_corners, half_pixel_centers, type."""


def has_resize(variant: Variant) -> bool:
    """Whether a variant has an operation for resizes."""
    return family_of(variant.accelerator.product).has(Resizing)


def resize_forms(view: OpView) -> Iterator[Observed]:
    """A ResizeForm for variants with an operation for resizes; for the others its first three."""
    variant, ifm, centers = view.variant, view.ifm, bool(view.attribute("half_pixel_centers"))
    for observed in observe.resize_shapes(view):
        if observed.value is None or ifm is None or variant is None or not has_resize(variant):
            yield observed
        else:
            yield Observed(f"{observed.what}, half_pixel_centers, type", (*observed.value, centers, ifm.dtype))


def resize_fits_places(value: ResizeForm, *, is_nearest: bool) -> bool:
    """Whether the NPU resizes so as one without an operation for it does, or by its operation."""
    ifm, ofm, aligned, centers, dtype = value
    sizes = (ifm[0], ifm[1]), (ofm[0], ofm[1])
    axes = axes_of_resize(dtype, *sizes, is_nearest=is_nearest, align_corners=aligned, half_pixel_centers=centers)
    return resize_fits(value[:3]) or axes is not None


def resize_fits(value: tuple[Shape, Shape, bool]) -> bool:
    """Whether a resize is a copy, a repetition of one element, or one by a factor; an axis of one element may stay as it is."""
    ifm, ofm, aligned = tuple(value[0]), tuple(value[1]), 1 if value[2] else 0
    sides = tuple(zip(ifm, ofm, strict=True))
    return ifm in ((1, 1), ofm) or any(
        all(out == factor * (size - aligned) + aligned or (size, out) == (1, 1) for size, out in sides)
        for factor in RESIZE_FACTORS
    )


def equal(pair: tuple[Any, Any]) -> bool:
    return bool(pair[0] == pair[1])
