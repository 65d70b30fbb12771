"""What cannot be lowered is refused with the operator, what must hold and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npu.compiler.lower.partition import lower_partition
from npu.errors import CompileError
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph

from tests.support.lowering import lowered, variant
from tests.support.random_graphs import Sketch


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(5))


def change(s: Sketch, index: int, **fields: Any) -> None:
    s.tensors[index] = replace(s.tensors[index], **fields)


def convolution(
    kind: str = "CONV_2D", channels: int = 3, stride: int = 1, dilation: int = 1, count: int = 4, **tensor: Any
) -> Graph:
    """A convolution over 3 channels; `tensor` is (number of the input, changed fields)."""
    s = sketch()
    x = s.input((1, 24, 24, 3), 0.05, 2)
    shape = (count, 1, 1, channels) if kind == "CONV_2D" else (1, 1, 1, count)
    w = s.weights(shape, 0 if kind == "CONV_2D" else 3, per_channel=False)
    b = s.bias(x, w, count, 10)
    for name, fields in tensor.items():
        change(s, {"weights": w, "bias": b}[name], **fields)
    y = s.tensor((1, -(-24 // stride), -(-24 // stride), count), 0.3, 1)
    options: Attributes = at.Conv2DOptions(Padding.SAME, stride, stride, FusedActivation.NONE, dilation, dilation)
    if kind != "CONV_2D":
        options = at.DepthwiseConv2DOptions(Padding.SAME, stride, stride, 2, FusedActivation.NONE, dilation, dilation)
    return s.graph([s.op(kind, [x, w, b], [y], options)])


def single(
    kind: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    constants: tuple[Any, ...] = (),
    options: Attributes | None = None,
) -> Graph:
    s = sketch()
    x = s.input(shapes[0], 0.1, 0)
    numbers = [s.input((2,), 0.1, 0) if c is None else s.numbers(c) for c in constants]
    return s.graph([s.op(kind, [x, *numbers], [s.tensor(shapes[1], 0.1, 0)], options)])


def strange_dtype() -> Graph:
    s = sketch()
    x = s.input((4, 4), 0.1, 0)
    change(s, x, dtype=DType.INT64)
    return s.graph([s.op("RELU", [x], [s.tensor((4, 4), 0.1, 0)])])


def no_scale() -> Graph:
    s = sketch()
    x = s.input((4, 4), 0.1, 0)
    change(s, x, quantization=None)
    return s.graph([s.op("RELU", [x], [s.tensor((4, 4), 0.1, 0)])])


def requantized() -> Graph:
    s = sketch()
    x = s.input((2, 3), 0.1, 0)
    return s.graph([s.op("TRANSPOSE", [x, s.numbers([1, 0])], [s.tensor((3, 2), 0.2, 0)])])


def transposed(size: int) -> Graph:
    """A transposed convolution whose output shape is computed."""
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.1, 0)
    w = s.weights((2, 3, 3, 3), 0, per_channel=False)
    out = (1, size, size, 2)
    options = at.TransposeConvOptions(Padding.SAME, 2, 2, FusedActivation.NONE)
    shape = s.numbers(out)
    s.tensors[shape] = replace(s.tensors[shape], data=None)
    return s.graph([s.op("TRANSPOSE_CONV", [shape, w, x], [s.tensor(out, 0.1, 0)], options)])


SAME = ((1, 4, 4, 3), (1, 4, 4, 3))
HALF_PIXEL_ALIGNED = at.ResizeBilinearOptions(True, True)
NEAREST_ALIGNED = at.ResizeNearestNeighborOptions(True, False)
MASKED = at.StridedSliceOptions(0, 0, 1, 0, 0)
PLAIN = at.StridedSliceOptions()
ENDS = ([0, 0, 0, 0], [1, 4, 4, 3])
CASES: dict[str, tuple[Callable[[], Graph], str]] = {
    "unknown operator": (lambda: single("SIN", SAME), "operator 0 .SIN.: must be one that the NPU can run"),
    "uneven groups": (lambda: convolution(channels=1), "must be a multiple of the filter's 1 and fit its groups, got 3"),
    "computed weights": (lambda: convolution(weights={"data": None}), "weights must be constant"),
    "unscaled weights": (lambda: convolution(weights={"quantization": None}), "must have a quantization scale, got none"),
    "computed bias": (lambda: convolution(bias={"data": None}), "bias must be constant"),
    "depth multiplier": (lambda: convolution("DEPTHWISE_CONV_2D"), r"filter must be .1, h, w, a multiple of 3., got"),
    "computed padding": (lambda: single("PAD", SAME, (None,), at.PadOptions()), "paddings must be constant"),
    "half pixel centres and aligned corners": (
        lambda: single("RESIZE_BILINEAR", SAME, ([4, 4],), HALF_PIXEL_ALIGNED),
        "align_corners and half_pixel_centers must not both be set",
    ),
    "resize to another size": (
        lambda: single("RESIZE_BILINEAR", ((1, 4, 4, 3), (1, 8, 8, 3)), ([4, 8],), at.ResizeBilinearOptions()),
        "output 't2' must have shape .1, 4, 8, 3., got .1, 8, 8, 3.",
    ),
    "computed size": (lambda: single("RESIZE_BILINEAR", SAME, (None,), at.ResizeBilinearOptions()), "size must be constant"),
    "resize by three": (
        lambda: single("RESIZE_BILINEAR", ((1, 4, 4, 3), (1, 12, 12, 3)), ([12, 12],), at.ResizeBilinearOptions()),
        "output must be 2, 4 or 8 times the input, equal to it, or from 1x1, got 4x4 to 12x12",
    ),
    "resize by two factors": (
        lambda: single("RESIZE_NEAREST_NEIGHBOR", ((1, 4, 4, 3), (1, 8, 16, 3)), ([8, 16],), at.ResizeNearestNeighborOptions()),
        "got 4x4 to 8x16",
    ),
    "aligned resize by three": (
        lambda: single("RESIZE_BILINEAR", ((1, 4, 4, 3), (1, 10, 10, 3)), ([10, 10],), at.ResizeBilinearOptions(True, False)),
        "output must be 2, 4 or 8 times the input, counted between corners, equal to it",
    ),
    "mean over channels and rows": (
        lambda: single("MEAN", ((1, 4, 4, 3), (1, 1, 4, 1)), ([1, 3],), at.ReducerOptions(True)),
        "axes must lie side by side, got .1, 3.",
    ),
    "computed axes": (lambda: single("MEAN", SAME, (None,), at.ReducerOptions(True)), "axes must be constant"),
    "strided slice": (
        lambda: single("STRIDED_SLICE", ((1, 4, 4, 3), (1, 4, 4, 3)), (*ENDS, [1, 2, 1, 1]), PLAIN),
        "output .* must have shape .1, 2, 4, 3., got .1, 4, 4, 3.",
    ),
    "strided slice backwards": (
        lambda: single("STRIDED_SLICE", SAME, ([0, 3, 0, 0], [1, -5, 4, 3], [1, -1, 1, 1]), PLAIN),
        "strides must be at least 1, got .1, -1",
    ),
    "strided slice of another shape": (
        lambda: single("STRIDED_SLICE", ((1, 4, 4, 3), (1,)), ([0] * 4, [1, 2, 3, 3], [1] * 4), PLAIN),
        "output 't4' must have shape .1, 2, 3, 3., got .1.",
    ),
    "removed axis beyond the map": (
        lambda: single("STRIDED_SLICE", ((1, 4, 4, 3), (4, 4, 3)), ([3], [4], [1]), at.StridedSliceOptions(shrink_axis_mask=1)),
        "begin 0 must be in .-1, 1. where the axis is removed, got 3",
    ),
    "transposed size": (
        lambda: transposed(9),
        r"input must be as large as the convolution of .1, 9, 9, 2., .5, 5., got .4, 4.",
    ),
    "computed permutation": (
        lambda: single("TRANSPOSE", SAME, (None,)),
        "permutation must be constant",
    ),
    "axis twice": (lambda: single("TRANSPOSE", SAME, ([0, 1, 1, 3],)), "every axis of .1, 4, 4, 3. once, got .0, 1, 1, 3."),
    "axis from the end": (lambda: single("TRANSPOSE", SAME, ([0, 1, 2, -1],)), "must name axes from 0 on, got .0, 1, 2, -1."),
    "axis beyond": (lambda: single("TRANSPOSE", SAME, ([0, 1, 2, 4],)), "axis must be in .-4, 4., got 4"),
    "short permutation": (lambda: single("TRANSPOSE", SAME, ([0, 2, 1],)), "every axis of .1, 4, 4, 3. once, got .0, 2, 1."),
    "permutation to another shape": (
        lambda: single("TRANSPOSE", ((1, 4, 5, 3), (1, 4, 5, 3)), ([0, 2, 1, 3],)),
        "output 't2' must have shape .1, 5, 4, 3., got .1, 4, 5, 3.",
    ),
    "permutation that requantizes": (requantized, "input and output must have the same scale and zero point"),
    "element type": (strange_dtype, "feature maps must be of type int8 or uint8 or int16, got int64, int8"),
    "no scale": (no_scale, "must have a quantization scale, got none"),
}


def without_options(graph: Graph) -> Graph:
    return replace(graph, ops=(replace(graph.ops[0], attributes=None),))


for _kind in ("MAX_POOL_2D", "CONCATENATION", "PACK", "UNPACK", "SOFTMAX", "LEAKY_RELU"):
    CASES[f"{_kind} without options"] = (lambda kind=_kind: single(kind, SAME), "must have .*Options")
for _kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
    CASES[f"{_kind} without options"] = (lambda kind=_kind: without_options(convolution(kind)), "must have .*Options")
CASES["TRANSPOSE_CONV without options"] = (lambda: without_options(transposed(8)), "must have .*Options")


def one(kind: str, shapes: tuple[tuple[int, ...], ...], options: Attributes | None = None, **fields: Any) -> Graph:
    """An operator over inputs of all but the last shape; `fields` change the first input."""
    s = sketch()
    inputs = [s.input(shape, 0.1, 0) for shape in shapes[:-1]]
    change(s, inputs[0], **fields)
    return s.graph([s.op(kind, inputs, [s.tensor(shapes[-1], 0.1, 0)], options)])


def scaled(kind: str, first: float, output: float) -> Graph:
    s = sketch()
    inputs = [s.input((4, 4), first, 0), s.input((4, 4), 1.0, 0)][: 2 if kind in ("ADD", "MUL") else 1]
    return s.graph([s.op(kind, inputs, [s.tensor((4, 4), output, 0)])])


POOL = at.Pool2DOptions(Padding.VALID, 2, 2, 2, 2)
CASES |= {
    "sum of other shape": (lambda: one("ADD", ((4, 3), (4, 1), (4, 4))), "output 't2' must have shape .4, 3., got .4, 4."),
    "sum of unequal shapes": (
        lambda: one("ADD", ((4, 3), (4, 2), (4, 3))),
        "shapes must be broadcastable, got .4, 3. and .4, 2.",
    ),
    "one operand": (lambda: one("MUL", ((4, 3), (4, 3))), "must have 2 inputs, got 1"),
    "tall pool": (
        lambda: one("MAX_POOL_2D", ((1, 1, 4, 3), (1, 1, 2, 3)), POOL),
        "output 't1' must have shape .1, 0, 2, 3., got .1, 1, 2, 3.",
    ),
    "flat pool": (lambda: one("MAX_POOL_2D", ((4, 4, 3), (2, 2, 3)), POOL), "input must have rank 4, got .4, 4, 3."),
    "no elements": (lambda: one("RELU", ((4, 0), (4, 0))), "must have extents in .1, 2147483647., got .4, 0."),
    "reshape to more": (
        lambda: one("RESHAPE", ((4, 4), (4, 5)), at.ReshapeOptions((4, 4))),
        "output 't1' must have shape .4, 4., got .4, 5.",
    ),
    "concatenation of another rank": (
        lambda: one("CONCATENATION", ((4, 4), (4,), (8, 4)), at.ConcatenationOptions(0)),
        "inputs must agree in all dimensions but 0",
    ),
    "concatenation beyond": (
        lambda: one("CONCATENATION", ((4, 4), (4, 4), (9, 4)), at.ConcatenationOptions(0)),
        "output 't2' must have shape .8, 4., got .9, 4.",
    ),
    "huge factor": (lambda: scaled("RELU", 3e30, 1e-3), "operator 0 .RELU.: the factor .* must be in .0, 2..31., got"),
    "huge product": (lambda: scaled("MUL", 3e30, 1e-3), "operator 0 .MUL.: the factor .* must be in .0, 2..31., got"),
    "scale of zero": (lambda: scaled("RELU", 0.0, 1.0), "must have one scale above 0, got .0.0."),
}


def test_a_table_of_16_bits_is_not_fused() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.1, 0)
    w = s.weights((4, 1, 1, 3), 0, per_channel=False)
    y = s.tensor((1, 4, 4, 4), 0.1, 0)
    for index in (x, y):
        change(s, index, dtype=DType.INT16)
    options = at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.TANH, 1, 1)
    with pytest.raises(CompileError, match="fused TANH must have 8 bits, as its table has, got 16"):
        lowered(s.graph([s.op("CONV_2D", [x, w], [y], options)]))


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_lowered_is_refused(case: str) -> None:
    make, message = CASES[case]
    with pytest.raises(CompileError, match=message):
        lowered(make())


def test_a_wrong_number_of_weight_scales_is_refused() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.1, 0)
    w = s.weights((4, 1, 1, 3), 3, per_channel=True)  # three scales for four output channels
    options = at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
    y = s.op("CONV_2D", [x, w], [s.tensor((1, 4, 4, 4), 0.1, 0)], options)
    with pytest.raises(CompileError, match="weights must have 1 or 4 scales, got 3"):
        lowered(s.graph([y]))


def test_operators_out_of_order_are_refused() -> None:
    s = sketch()
    x = s.input((4, 4), 0.1, 0)
    y = s.op("MAXIMUM", [x, x], [s.tensor((4, 4), 0.1, 0)])
    z = s.op("MAXIMUM", [y, y], [s.tensor((4, 4), 0.1, 0)])
    with pytest.raises(CompileError, match="must be computed before it is read"):
        lower_partition(s.graph([z]), [1, 0], variant())
