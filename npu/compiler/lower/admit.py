"""What an operator must fulfil to be lowered: operands, types, extents and shapes that belong together.

A placement is a value that anybody may write. What a form lets pass, the lowering functions may take for granted; what
they check themselves are the limits of the hardware. Which kind has which form is in `npu.compiler.lower.table`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npu.compiler.lower.geometry import strided_box
from npu.errors import CompileError
from npu.graph.attributes import (
    Attributes,
    ConcatenationOptions,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    LeakyReluOptions,
    PackOptions,
    Padding,
    Pool2DOptions,
    ResizeBilinearOptions,
    ResizeNearestNeighborOptions,
    SoftmaxOptions,
    StridedSliceOptions,
    TransposeConvOptions,
    UnpackOptions,
)
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.graph.permutation import is_permutation
from npu.isa.rules import MAX_EXTENT

MAX_RANK = 6
_BIAS_TYPES = (DType.INT32, DType.INT64)
_INDEX_TYPES = (DType.INT32, DType.INT64)

Shape = tuple[int, ...]
Finding = str | None
Rule = Callable[["Operands"], Finding]


@dataclass(frozen=True, slots=True)
class Operands:
    """An operator with its tensors; `inputs` has None where an operand is absent."""

    op: Op
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]

    def shape(self, position: int) -> Shape:
        """Shape of input `position`, which must be there."""
        tensor = self.inputs[position]
        assert tensor is not None
        return tensor.shape

    def numbers(self, position: int) -> list[int] | None:
        """The values of a constant input of integers."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None or tensor.data is None or tensor.dtype not in _INDEX_TYPES:
            return None
        return [int(value) for value in tensor.data.reshape(-1)]

    @property
    def result(self) -> Shape:
        return self.outputs[0].shape


@dataclass(frozen=True, slots=True)
class Form:
    """How many operands a kind has, which of them are feature maps, and what must hold of their shapes.

    `required` counts the inputs that must be there and `allowed` all inputs; None is any number. `options` is the class of
    the attributes that it must have.
    """

    required: int
    allowed: int | None
    maps: tuple[int, ...] | None
    rule: Rule
    outputs: int | None = 1
    weights: int | None = None
    options: type[Attributes] | None = None


class LoweringError(CompileError):
    """An operator that cannot be lowered: its index in its graph, and what must hold of it."""

    def __init__(self, index: int, op: Op, must: str) -> None:
        super().__init__(f"operator {index} ({op.name}): {must}")
        self.index = index
        self.must = must


def check_operator(graph: Graph, index: int, form: Form) -> None:
    """Raise LoweringError if operator `index` of `graph` is not what the form of its kind demands."""
    op = graph.ops[index]
    found = _defect(graph, op, form)
    if found is not None:
        raise LoweringError(index, op, found)


def _defect(graph: Graph, op: Op, form: Form) -> Finding:
    if len(op.inputs) < form.required or (form.allowed is not None and len(op.inputs) > form.allowed):
        return f"must have {form.required} to {form.allowed or 'any number of'} inputs, got {len(op.inputs)}"
    if ABSENT in op.inputs[: form.required]:
        return f"its first {form.required} inputs must be given, got {list(op.inputs)}"
    if not op.outputs or (form.outputs is not None and len(op.outputs) != form.outputs):
        return f"must have {form.outputs or 'at least one'} output, got {len(op.outputs)}"
    operands = Operands(
        op,
        tuple(None if tensor == ABSENT else graph.tensors[tensor] for tensor in op.inputs),
        tuple(graph.tensors[tensor] for tensor in op.outputs),
    )
    wrong = _map_defect(operands, form) or _weight_defect(operands, form)
    if wrong is None and form.options is not None and not isinstance(op.attributes, form.options):
        wrong = f"must have {form.options.__name__}"
    return wrong or form.rule(operands)


def _map_defect(operands: Operands, form: Form) -> Finding:
    positions = range(len(operands.inputs)) if form.maps is None else form.maps
    for tensor in (*(operands.inputs[position] for position in positions), *operands.outputs):
        if tensor is None:
            return "its feature maps must be given, got an absent one"
        if tensor.dtype is not DType.INT8:
            return f"tensor {tensor.name} must be int8, got {tensor.dtype}"
        if len(tensor.shape) > MAX_RANK or not all(1 <= extent <= MAX_EXTENT for extent in tensor.shape):
            return f"tensor {tensor.name} must have extents in [1, {MAX_EXTENT}], got {list(tensor.shape)}"
        quantization = tensor.quantization
        if quantization is not None and (quantization.scales.size != 1 or not quantization.scale > 0):
            return f"tensor {tensor.name} must have one scale above 0, got {quantization.scales[:4].tolist()}"
    return None


def _weight_defect(operands: Operands, form: Form) -> Finding:
    if form.weights is None:
        return None
    weights = operands.inputs[form.weights]
    assert weights is not None
    if weights.data is None:
        return "weights must be constant"
    if weights.dtype is not DType.INT8:
        return f"weights must be int8, got {weights.dtype}"
    if not all(1 <= extent <= MAX_EXTENT for extent in weights.shape):
        return f"weights must have extents in [1, {MAX_EXTENT}], got {list(weights.shape)}"
    quantization = weights.quantization
    if quantization is not None and quantization.zero_points.any():
        return f"weights must have zero points of 0, got {quantization.zero_points[:4].tolist()}"
    return None


def _bias_defect(operands: Operands, position: int, channels: int) -> Finding:
    bias = operands.inputs[position] if position < len(operands.inputs) else None
    if bias is None:
        return None
    if bias.data is None:
        return "bias must be constant"
    if bias.dtype not in _BIAS_TYPES or bias.elements != channels:
        return f"bias must have {channels} int32 or int64 values, got {bias.elements} of {bias.dtype}"
    return None


def _must(expected: Sequence[int], operands: Operands) -> Finding:
    if tuple(expected) == operands.result:
        return None
    return f"output must have shape {list(expected)}, got {list(operands.result)}"


def _same(operands: Operands) -> Finding:
    return _must(operands.shape(0), operands)


def _broadcast(operands: Operands) -> Finding:
    a, b = operands.shape(0), operands.shape(1)
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
        return f"inputs must have equal extents or 1, got {list(a)} and {list(b)}"
    return _must([max(pair) for pair in zip(a, b, strict=True)], operands)


def _extent(extent: int, kernel: int, stride: int, padding: Padding) -> int:
    return -(-extent // stride) if padding is Padding.SAME else (extent - kernel) // stride + 1


def _rank_four(*shapes: Shape) -> Finding:
    wrong = next((shape for shape in shapes if len(shape) != 4), None)
    return None if wrong is None else f"maps and weights must have 4 dimensions, got {list(wrong)}"


def _window(operands: Operands, kernel: tuple[int, int], channels: int) -> Finding:
    """`kernel` is dilated; strides and padding are the operator's."""
    options: Any = operands.op.attributes
    if min(*kernel, options.stride_h, options.stride_w) < 1:
        return f"kernel and strides must be at least 1, got {list(kernel)} and {[options.stride_h, options.stride_w]}"
    batch, height, width, _ = operands.shape(0)
    rows = _extent(height, kernel[0], options.stride_h, options.padding)
    columns = _extent(width, kernel[1], options.stride_w, options.padding)
    if min(rows, columns) < 1:
        return f"kernel of {kernel[0]}x{kernel[1]} must fit the input of {height}x{width}"
    return _must((batch, rows, columns, channels), operands)


def _convolution(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, Conv2DOptions)
    ifm, weights = operands.shape(0), operands.shape(1)
    wrong = _rank_four(ifm, weights)
    if wrong is None and weights[3] != ifm[3]:
        wrong = f"weights must have the input's {ifm[3]} channels, got {weights[3]}"
    return wrong or _dilated_window(operands, options, weights) or _bias_defect(operands, 2, weights[0])


def _depthwise(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, DepthwiseConv2DOptions)
    ifm, weights = operands.shape(0), operands.shape(1)
    wrong = _rank_four(ifm, weights)
    if wrong is None and weights[0] != 1:
        wrong = f"weights must have a first dimension of 1, got {weights[0]}"
    return wrong or _dilated_window(operands, options, weights) or _bias_defect(operands, 2, weights[3])


def _dilated_window(operands: Operands, options: Conv2DOptions | DepthwiseConv2DOptions, weights: Shape) -> Finding:
    dilations = options.dilation_h_factor, options.dilation_w_factor
    if min(dilations) < 1:
        return f"dilation must be at least 1, got {dilations[0]}x{dilations[1]}"
    kernel = tuple((size - 1) * dilation + 1 for size, dilation in zip(weights[1:3], dilations, strict=True))
    channels = weights[0] if isinstance(options, Conv2DOptions) else weights[3]
    return _window(operands, (kernel[0], kernel[1]), channels)


def _fully_connected(operands: Operands) -> Finding:
    weights = operands.shape(1)
    if len(weights) != 2:
        return f"weights must have 2 dimensions, got {list(weights)}"
    elements = math.prod(operands.shape(0))
    if elements % weights[1]:
        return f"input must have a multiple of {weights[1]} elements, got {elements}"
    if operands.result[-1:] != weights[:1] or math.prod(operands.result) != elements // weights[1] * weights[0]:
        return f"output must have {elements // weights[1]} rows of {weights[0]}, got {list(operands.result)}"
    return _bias_defect(operands, 2, weights[0])


def _pool(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, Pool2DOptions)
    ifm = operands.shape(0)
    return _rank_four(ifm) or _window(operands, (options.filter_height, options.filter_width), ifm[-1])


def _axis(axis: int, rank: int) -> Finding:
    return None if -rank <= axis < rank else f"axis must be in [{-rank}, {rank}), got {axis}"


def _concatenation(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, ConcatenationOptions)
    rank = len(operands.result)
    wrong = _axis(options.axis, rank)
    if wrong is not None:
        return wrong
    axis = options.axis % rank
    shapes = [operands.shape(position) for position in range(len(operands.inputs))]
    rests = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(rests) != 1 or any(len(shape) != rank for shape in shapes):
        return f"inputs must have equal extents but along axis {axis}, got {[list(shape) for shape in shapes]}"
    whole = list(shapes[0])
    whole[axis] = sum(shape[axis] for shape in shapes)
    return _must(whole, operands)


def _pack(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, PackOptions)
    shapes = [operands.shape(position) for position in range(len(operands.inputs))]
    wrong = _axis(options.axis, len(shapes[0]) + 1)
    if wrong is not None:
        return wrong
    if len(set(shapes)) != 1:
        return f"inputs must have one shape, got {[list(shape) for shape in shapes]}"
    axis = options.axis % (len(shapes[0]) + 1)
    return _must((*shapes[0][:axis], len(shapes), *shapes[0][axis:]), operands)


def _unpack(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, UnpackOptions)
    whole = operands.shape(0)
    wrong = _axis(options.axis, len(whole))
    if wrong is not None:
        return wrong
    axis = options.axis % len(whole)
    if len(operands.outputs) != whole[axis]:
        return f"must have {whole[axis]} outputs, got {len(operands.outputs)}"
    return _all_outputs([(*whole[:axis], *whole[axis + 1 :])] * whole[axis], operands)


def _all_outputs(expected: Sequence[Shape], operands: Operands) -> Finding:
    for shape, tensor in zip(expected, operands.outputs, strict=True):
        if shape != tensor.shape:
            return f"output {tensor.name} must have shape {list(shape)}, got {list(tensor.shape)}"
    return None


def _pad(operands: Operands) -> Finding:
    amounts, shape = operands.numbers(1), operands.shape(0)
    if amounts is None or len(amounts) != 2 * len(shape) or min(amounts, default=0) < 0:
        return f"amounts must be {len(shape)} constant pairs of numbers from 0 on, got {amounts}"
    if len(operands.inputs) > 2:
        value = operands.inputs[2]
        if value is None or value.data is None or value.dtype is not DType.INT8 or value.elements != 1:
            return "the value must be one int8 constant"
    before, after = amounts[::2], amounts[1::2]
    return _must([extent + b + a for extent, b, a in zip(shape, before, after, strict=True)], operands)


def _reshape(operands: Operands) -> Finding:
    given, made = math.prod(operands.shape(0)), math.prod(operands.result)
    return None if given == made else f"output must have {given} elements, got {made}"


def _resize(operands: Operands) -> Finding:
    """The size is an input of the operator, but not of the steps: it must be what the output's shape says."""
    ifm, size = operands.shape(0), operands.numbers(1)
    wrong = _rank_four(ifm, operands.result)
    if wrong is None and (size is None or len(size) != 2):
        wrong = f"the size must be 2 constants, got {size}"
    return wrong or _must((ifm[0], *(size or ()), ifm[3]), operands)


def _mean(operands: Operands) -> Finding:
    shape, axes = operands.shape(0), operands.numbers(1)
    if axes is None or any(_axis(axis, len(shape)) for axis in axes):
        return f"axes must be constants in [{-len(shape)}, {len(shape)}), got {axes}"
    removed = {axis % len(shape) for axis in axes}
    kept = math.prod(extent for axis, extent in enumerate(shape) if axis not in removed)
    return None if kept == math.prod(operands.result) else f"output must have {kept} elements, got {list(operands.result)}"


def _slice(operands: Operands) -> Finding:
    shape, begin, size = operands.shape(0), operands.numbers(1), operands.numbers(2)
    if begin is None or size is None or not len(begin) == len(size) == len(shape):
        return f"begin and size must be {len(shape)} constants each, got {begin} and {size}"
    sizes = [extent - first if count == -1 else count for extent, first, count in zip(shape, begin, size, strict=True)]
    if any(first < 0 or count < 1 or first + count > e for e, first, count in zip(shape, begin, sizes, strict=True)):
        return f"the box must lie in {list(shape)}, got begin {begin} and size {size}"
    return _must(sizes, operands)


def _strided_slice(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, StridedSliceOptions)
    whole = operands.shape(0)
    begin, end, strides = (operands.numbers(position) for position in (1, 2, 3))
    if begin is None or end is None or strides is None or not len(begin) == len(end) == len(strides) <= len(whole):
        return f"begin, end and strides must be at most {len(whole)} constants each, got {[begin, end, strides]}"
    offset, extents, shape = strided_box(whole, begin, end, options)
    if any(first + count > extent for first, count, extent in zip(offset, extents, whole, strict=True)):
        return f"begin must lie inside {list(whole)} where the axis is removed, got {begin}"
    return _must(shape, operands)


def _split(operands: Operands) -> Finding:
    return _parts(operands, operands.shape(1), operands.numbers(0))


def _split_v(operands: Operands) -> Finding:
    return _parts(operands, operands.shape(0), operands.numbers(2))


def _parts(operands: Operands, whole: Shape, axes: list[int] | None) -> Finding:
    if axes is None or len(axes) != 1:
        return f"the axis must be one constant, got {axes}"
    wrong = _axis(axes[0], len(whole))
    if wrong is not None:
        return wrong
    axis = axes[0] % len(whole)
    shapes = [tensor.shape for tensor in operands.outputs]
    if any(len(s) != len(whole) or s[:axis] + s[axis + 1 :] != whole[:axis] + whole[axis + 1 :] for s in shapes):
        return f"outputs must be parts of {list(whole)} along axis {axis}, got {[list(s) for s in shapes]}"
    total = sum(shape[axis] for shape in shapes)
    return None if total == whole[axis] else f"outputs must have {whole[axis]} elements along axis {axis}, got {total}"


def _transpose(operands: Operands) -> Finding:
    shape, order = operands.shape(0), operands.numbers(1)
    if order is None or not is_permutation(order, len(shape)):
        return f"the permutation must be constants that name each of {len(shape)} axes once, got {order}"
    return _must([shape[axis] for axis in order], operands)


def _transpose_conv(operands: Operands) -> Finding:
    options = operands.op.attributes
    assert isinstance(options, TransposeConvOptions)
    weights, ifm, out = operands.shape(1), operands.shape(2), operands.result
    wrong = _rank_four(weights, ifm, out)
    if wrong is not None:
        return wrong
    if weights[3] != ifm[3]:
        return f"weights must have the input's {ifm[3]} channels, got {weights[3]}"
    if min(options.stride_h, options.stride_w) < 1:
        return f"strides must be at least 1, got {options.stride_h}x{options.stride_w}"
    strides = options.stride_h, options.stride_w
    for size, made, kernel, stride in zip(ifm[1:3], out[1:3], weights[1:3], strides, strict=True):
        if (kernel > made and options.padding is Padding.VALID) or _extent(made, kernel, stride, options.padding) != size:
            return f"output of {out[1]}x{out[2]} must belong to an input of {ifm[1]}x{ifm[2]}"
    return _must((ifm[0], *out[1:3], weights[0]), operands) or _bias_defect(operands, 3, weights[0])


UNARY = Form(1, 1, (0,), _same)
BINARY = Form(2, 2, (0, 1), _broadcast)
CONCATENATION = Form(1, None, None, _concatenation, options=ConcatenationOptions)
CONVOLUTION = Form(2, 3, (0,), _convolution, weights=1, options=Conv2DOptions)
DEPTHWISE = Form(2, 3, (0,), _depthwise, weights=1, options=DepthwiseConv2DOptions)
FULLY_CONNECTED = Form(2, 3, (0,), _fully_connected, weights=1)
LEAKY_RELU = replace(UNARY, options=LeakyReluOptions)
MEAN = Form(2, 2, (0,), _mean)
PACK = Form(1, None, None, _pack, options=PackOptions)
PAD = Form(2, 2, (0,), _pad)
PAD_WITH_VALUE = Form(3, 3, (0,), _pad)
POOL = Form(1, 1, (0,), _pool, options=Pool2DOptions)
RESHAPE = Form(1, 2, (0,), _reshape)
RESIZE_BILINEAR = Form(2, 2, (0,), _resize, options=ResizeBilinearOptions)
RESIZE_NEAREST = Form(2, 2, (0,), _resize, options=ResizeNearestNeighborOptions)
SLICE = Form(3, 3, (0,), _slice)
SOFTMAX = replace(UNARY, options=SoftmaxOptions)
SPLIT = Form(2, 2, (1,), _split, outputs=None)
SPLIT_V = Form(3, 3, (0,), _split_v, outputs=None)
STRIDED_SLICE = Form(4, 4, (0,), _strided_slice, options=StridedSliceOptions)
TRANSPOSE = Form(2, 2, (0,), _transpose)
TRANSPOSE_CONV = Form(3, 4, (2,), _transpose_conv, weights=1, options=TransposeConvOptions)
UNPACK = Form(1, 1, (0,), _unpack, outputs=None, options=UnpackOptions)
