"""Models of one operator, made as graph values: `op_model(kind, inputs, outputs, attributes)` and ready ones per kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npu.graph import attributes as options
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Quantization, Tensor

UNSET: Any = object()


def quantization(*scales: float, zero_point: int = 0, axis: int = 0) -> Quantization:
    """Quantization with one zero point for all scales."""
    count = max(len(scales), 1)
    return Quantization(np.array(scales, np.float32), np.full(count, zero_point, np.int64), axis)


def tensor(
    shape: Sequence[int], dtype: DType = DType.INT8, *, data: Any = None, scale: float | None = 0.5, zero_point: int = 0
) -> Tensor:
    """A tensor; `data` makes it a constant; float and int64 tensors have no quantization."""
    scaled = scale is not None and dtype not in (DType.FLOAT32, DType.FLOAT16, DType.INT64, DType.BOOL)
    quantized = quantization(scale, zero_point=zero_point) if scaled and scale is not None else None
    values = None if data is None else np.broadcast_to(np.asarray(data, dtype.numpy), tuple(shape))
    return Tensor("t", tuple(shape), dtype, quantized, values)


def constant(values: Any, dtype: DType = DType.INT32) -> Tensor:
    """A constant without quantization."""
    array = np.asarray(values, dtype.numpy)
    return Tensor("c", array.shape, dtype, None, array)


def op_model(
    kind: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], attributes: Attributes | None = None
) -> Model:
    """A model with one operator; None is an absent input."""
    tensors = [item for item in inputs if item is not None]
    numbers = iter(range(len(tensors)))
    ins = tuple(ABSENT if item is None else next(numbers) for item in inputs)
    outs = tuple(range(len(tensors), len(tensors) + len(outputs)))
    computed = tuple(number for number, item in enumerate(tensors) if item.data is None)
    graph = Graph("main", (*tensors, *outputs), (Op(kind, ins, outs, attributes),), computed, outs)
    return Model((graph,))


def changed(model: Model, position: int, **changes: Any) -> Model:
    """The model with fields of one tensor changed; positions as in the graph."""
    graph = model.graphs[0]
    tensors = list(graph.tensors)
    tensors[position] = replace(tensors[position], **changes)
    return replace(model, graphs=(replace(graph, tensors=tuple(tensors)),))


def window_output(ifm: Sequence[int], extent: tuple[int, int], stride: tuple[int, int], padding: Padding) -> tuple[int, int]:
    """Output height and width of a window; at least 1, also for strides that no runtime takes."""
    lost = (0, 0) if padding is Padding.SAME else (extent[0] - 1, extent[1] - 1)
    height, width = (max(-(-(ifm[1 + axis] - lost[axis]) // max(stride[axis], 1)), 1) for axis in range(2))
    return height, width


def conv(
    *,
    kind: str = "CONV_2D",
    ifm: Sequence[int] = (1, 8, 8, 4),
    kernel: tuple[int, int] = (3, 3),
    out_channels: int = 8,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    multiplier: int = 1,
    padding: Padding = Padding.SAME,
    dtype: DType = DType.INT8,
    weights: Tensor | None = None,
    bias: Tensor | None = UNSET,
    activation: FusedActivation = FusedActivation.NONE,
) -> Model:
    """A CONV_2D or DEPTHWISE_CONV_2D; sizes are (height, width)."""
    depthwise = kind == "DEPTHWISE_CONV_2D"
    out_channels = ifm[-1] * multiplier if depthwise else out_channels
    shape = (1, *kernel, out_channels) if depthwise else (out_channels, *kernel, ifm[-1])
    weights = tensor(shape, dtype, data=1) if weights is None else weights
    bias_type = DType.FLOAT32 if dtype is DType.FLOAT32 else DType.INT32
    bias = tensor((out_channels,), bias_type, data=0) if bias is UNSET else bias
    extent = ((kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1)
    ofm = tensor((ifm[0], *window_output(ifm, extent, stride, padding), out_channels), dtype)
    made: Attributes
    if depthwise:
        made = options.DepthwiseConv2DOptions(padding, stride[1], stride[0], multiplier, activation, dilation[1], dilation[0])
    else:
        made = options.Conv2DOptions(padding, stride[1], stride[0], activation, dilation[1], dilation[0])
    return op_model(kind, [tensor(ifm, dtype), weights, bias], [ofm], made)


def fully_connected(
    *, dtype: DType = DType.INT8, weights: Tensor | None = None, bias: Tensor | None = UNSET,
    activation: FusedActivation = FusedActivation.NONE,
) -> Model:  # fmt: skip
    """A FULLY_CONNECTED of 16 inputs and 8 outputs."""
    weights = tensor((8, 16), dtype, data=1) if weights is None else weights
    bias_type = DType.FLOAT32 if dtype is DType.FLOAT32 else DType.INT32
    bias = tensor((8,), bias_type, data=0) if bias is UNSET else bias
    made = options.FullyConnectedOptions(activation)
    return op_model("FULLY_CONNECTED", [tensor((1, 16), dtype), weights, bias], [tensor((1, 8), dtype)], made)


def pool(
    *,
    kind: str = "AVERAGE_POOL_2D",
    ifm: Sequence[int] = (1, 8, 8, 4),
    window: tuple[int, int] = (2, 2),
    stride: tuple[int, int] = (1, 1),
    padding: Padding = Padding.SAME,
    dtype: DType = DType.INT8,
    activation: FusedActivation = FusedActivation.NONE,
) -> Model:
    """A pool; sizes are (height, width). A VALID window of a larger extent makes the map as large."""
    if padding is Padding.VALID:
        ifm = (ifm[0], max(ifm[1], window[0]), max(ifm[2], window[1]), ifm[3])
    made = options.Pool2DOptions(padding, stride[1], stride[0], window[1], window[0], activation)
    ofm = tensor((ifm[0], *window_output(ifm, window, stride, padding), ifm[3]), dtype)
    return op_model(kind, [tensor(ifm, dtype)], [ofm], made)


BINARY_OPTIONS = {"ADD": options.AddOptions, "SUB": options.SubOptions, "MUL": options.MulOptions, "DIV": options.DivOptions}


def binary(
    kind: str,
    shapes: tuple[Sequence[int], Sequence[int]] = ((1, 8, 8, 4), (1, 8, 8, 4)),
    *,
    dtype: DType = DType.INT8,
    activation: FusedActivation = FusedActivation.NONE,
) -> Model:
    """An elementwise operator of two operands."""
    try:
        result: tuple[int, ...] = np.broadcast_shapes(tuple(shapes[0]), tuple(shapes[1]))
    except ValueError:
        result = tuple(shapes[0])
    made = BINARY_OPTIONS[kind](activation) if kind in BINARY_OPTIONS else None
    return op_model(kind, [tensor(shapes[0], dtype), tensor(shapes[1], dtype)], [tensor(result, dtype)], made)


def unary(kind: str, shape: Sequence[int] = (1, 8, 8, 4), *, dtype: DType = DType.INT8) -> Model:
    """An operator of one feature map without attributes that matter."""
    made = {"SOFTMAX": options.SoftmaxOptions(1.0), "LEAKY_RELU": options.LeakyReluOptions(0.5)}.get(kind)
    return op_model(kind, [tensor(shape, dtype)], [tensor(shape, dtype)], made)


def pad(
    table: Any = ((0, 0), (1, 1), (1, 1), (0, 0)), *, dtype: DType = DType.INT8, table_type: DType = DType.INT32,
    is_constant: bool = True,
) -> Model:  # fmt: skip
    """A PAD of a map with as many dimensions as the table has rows."""
    paddings = constant(table, table_type)
    paddings = paddings if is_constant else replace(paddings, data=None)
    shape = (1, 8, 8, 4, 2)[: len(table)] if len(table) != 3 else (8, 8, 4)
    after = tuple(max(size + sum(row), 1) for size, row in zip(shape, table, strict=True))
    return op_model("PAD", [tensor(shape, dtype), paddings], [tensor(after, dtype)], options.PadOptions())


def reshape(*, shape: str = "constant", dtype: DType = DType.INT8) -> Model:
    """A RESHAPE whose new shape is "constant", "computed", in the "options", or "absent" altogether."""
    target = {"constant": constant((1, 256)), "computed": replace(constant((1, 256)), data=None)}.get(shape)
    made = None if shape == "absent" else options.ReshapeOptions((1, 256) if shape == "options" else ())
    return op_model("RESHAPE", [tensor((1, 8, 8, 4), dtype), target], [tensor((1, 256), dtype)], made)


def resize(
    before: tuple[int, int] = (6, 8), after: tuple[int, int] = (12, 16), *, kind: str = "RESIZE_BILINEAR",
    align_corners: bool = False, half_pixel_centers: bool = False, dtype: DType = DType.INT8, size_constant: bool = True,
    rank: int = 4,
) -> Model:  # fmt: skip
    """A resize from one (height, width) to another."""
    size = constant(after)
    size = size if size_constant else replace(size, data=None)
    made: Attributes
    if kind == "RESIZE_BILINEAR":
        made = options.ResizeBilinearOptions(align_corners, half_pixel_centers)
    else:
        made = options.ResizeNearestNeighborOptions(align_corners, half_pixel_centers)
    shapes = ((1, *before, 4)[4 - rank :], (1, *after, 4)[4 - rank :])
    return op_model(kind, [tensor(shapes[0], dtype), size], [tensor(shapes[1], dtype)], made)


def join(kind: str = "CONCATENATION", count: int = 2, *, dtype: DType = DType.INT8) -> Model:
    """A CONCATENATION or PACK of equal maps."""
    parts = [tensor((1, 8, 8, 4), dtype) for _ in range(count)]
    if kind == "PACK":
        parts = [tensor((8, 8, 4), dtype) for _ in range(count)]
        return op_model(kind, parts, [tensor((count, 8, 8, 4), dtype)], options.PackOptions(count, 0))
    return op_model(kind, parts, [tensor((1, 8, 8, 4 * count), dtype)], options.ConcatenationOptions(3))
