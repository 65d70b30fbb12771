"""What cannot be lowered is refused with the operator, what must hold and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npu.compiler.lower import lower_partition
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


def convolution(kind: str = "CONV_2D", channels: int = 3, stride: int = 1, dilation: int = 1, **tensor: Any) -> Graph:
    """A convolution over 3 channels; `tensor` is (number of the input, changed fields)."""
    s = sketch()
    x = s.input((1, 24, 24, 3), 0.05, 2)
    shape = (4, 1, 1, channels) if kind == "CONV_2D" else (1, 1, 1, 6)
    count = 4 if kind == "CONV_2D" else 6
    w = s.weights(shape, 0 if kind == "CONV_2D" else 3, per_channel=False)
    b = s.bias(x, w, count, 10)
    for name, fields in tensor.items():
        change(s, {"weights": w, "bias": b}[name], **fields)
    y = s.tensor((1, 24 // stride, 24 // stride, count), 0.3, 1)
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


def transposed(stride: int) -> Graph:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.1, 0)
    w = s.weights((2, 3, 3, 3), 0, per_channel=False)
    out = (1, 4 * stride, 4 * stride, 2)
    options = at.TransposeConvOptions(Padding.SAME, stride, stride, FusedActivation.NONE)
    return s.graph([s.op("TRANSPOSE_CONV", [s.numbers(out), w, x], [s.tensor(out, 0.1, 0)], options)])


SAME = ((1, 4, 4, 3), (1, 4, 4, 3))
HALF_PIXEL = at.ResizeBilinearOptions(False, True)
NEAREST_ALIGNED = at.ResizeNearestNeighborOptions(True, False)
MASKED = at.StridedSliceOptions(0, 0, 1, 0, 0)
PLAIN = at.StridedSliceOptions()
ENDS = ([0, 0, 0, 0], [1, 4, 4, 3])
CASES: dict[str, tuple[Callable[[], Graph], str]] = {
    "unknown operator": (lambda: single("SIN", SAME), "operator 0 .SIN.: must be one that the NPU can run"),
    "grouped convolution": (lambda: convolution(channels=1), "weights must have the input's 3 channels, got 1"),
    "wide stride": (lambda: convolution(stride=5), "stride must be in .1, .., got 5x5"),
    "wide dilation": (lambda: convolution(dilation=3), "dilation must be in .1, 2., got 3x3"),
    "computed weights": (lambda: convolution(weights={"data": None}), "weights must be constant"),
    "unscaled weights": (lambda: convolution(weights={"quantization": None}), "must have a quantisation scale, got none"),
    "computed bias": (lambda: convolution(bias={"data": None}), "bias must be constant"),
    "depth multiplier": (lambda: convolution("DEPTHWISE_CONV_2D"), "depth multiplier must be 1, .* got 3 channels"),
    "batch padding": (
        lambda: single("PAD", ((1, 4, 4, 3), (3, 4, 4, 3)), ([[1, 1], [0, 0], [0, 0], [0, 0]],), at.PadOptions()),
        "padding must be 0 in front of height, width and depth",
    ),
    "computed padding": (lambda: single("PAD", SAME, (None,), at.PadOptions()), "input 1 must be constant"),
    "half pixel centres": (lambda: single("RESIZE_BILINEAR", SAME, ([4, 4],), HALF_PIXEL), "half_pixel_centers must be false"),
    "aligned nearest": (lambda: single("RESIZE_NEAREST_NEIGHBOR", SAME, ([4, 4],), NEAREST_ALIGNED), "align_corners must be"),
    "resize by three": (
        lambda: single("RESIZE_BILINEAR", ((1, 4, 4, 3), (1, 12, 12, 3)), ([12, 12],), at.ResizeBilinearOptions()),
        "output must be 8x8, 4x4 or from 1x1, got 12x12",
    ),
    "mean over channels and rows": (
        lambda: single("MEAN", ((1, 4, 4, 3), (1, 1, 4, 1)), ([1, 3],), at.ReducerOptions(True)),
        "axes must be height, width, both, or the last, got .1, 3.",
    ),
    "mean over many rows": (
        lambda: single("MEAN", ((1, 300, 4, 3), (1, 1, 4, 3)), ([1],), at.ReducerOptions(True)),
        "must average over at most 256 rows",
    ),
    "computed axes": (lambda: single("MEAN", SAME, (None,), at.ReducerOptions(True)), "input 1 must be constant"),
    "strided slice": (lambda: single("STRIDED_SLICE", SAME, (*ENDS, [1, 2, 1, 1]), PLAIN), "strides must be 1, got .1, 2"),
    "ellipsis": (lambda: single("STRIDED_SLICE", SAME, (*ENDS, [1] * 4), MASKED), "ellipsis_mask and new_axis_mask must be 0"),
    "transposed stride": (lambda: transposed(3), "strides must be 1x1 or 2x2, got 3x3"),
    "element type": (strange_dtype, "must be int8, uint8, int16 or int32, got int64"),
    "no scale": (no_scale, "must have a quantisation scale, got none"),
}
for _kind in (
    "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "CONCATENATION", "PACK", "UNPACK", "SOFTMAX", "LEAKY_RELU", "TRANSPOSE_CONV",
):  # fmt: skip
    CASES[f"{_kind} without options"] = (
        lambda kind=_kind: replace(convolution(), ops=(replace(convolution().ops[0], kind=kind, attributes=None),)),
        "must have .*Options",
    )


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
    y = s.op("RELU", [x], [s.tensor((4, 4), 0.1, 0)])
    z = s.op("RELU", [y], [s.tensor((4, 4), 0.1, 0)])
    with pytest.raises(CompileError, match="must be computed before it is read"):
        lower_partition(s.graph([z]), [1, 0], variant())
