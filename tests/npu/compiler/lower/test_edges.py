"""Shapes and quantizations at the limits of what the constraints admit, against LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npu.compiler.ir import ElementwiseStep
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.isa.operations import OperandScaling

from tests.support.lowering import assert_exact, lowered, variant
from tests.support.random_graphs import Sketch, random_inputs


def sketch(seed: int = 5) -> Sketch:
    return Sketch(np.random.default_rng(seed))


def pool(
    kind: str, shape: tuple[int, ...], kernel: tuple[int, int], padding: Padding, out: tuple[int, ...]
) -> tuple[Sketch, int]:
    s = sketch()
    x = s.input(shape, 0.05, 3)
    options = at.Pool2DOptions(padding, 1, 1, kernel[1], kernel[0])
    return s, s.op(kind, [x], [s.tensor(out, 0.05, 3)], options)


def convolution(shape: tuple[int, ...], kernel: tuple[int, int], padding: Padding, out: tuple[int, int]) -> tuple[Sketch, int]:
    s = sketch()
    x = s.input(shape, 0.05, 3)
    w = s.weights((3, *kernel, shape[3]), 0, per_channel=True)
    bias = s.bias(x, w, 3, 20000)
    options = at.Conv2DOptions(padding, 1, 1, FusedActivation.NONE, 1, 1)
    return s, s.op("CONV_2D", [x, w, bias], [s.tensor((1, *out, 3), 0.7, -4)], options)


def sum_of(first: tuple[int, ...], second: tuple[int, ...], kind: str = "ADD") -> tuple[Sketch, int]:
    s = sketch()
    a, b = s.input(first, 0.05, 3), s.input(second, 0.03, -7)
    options = {"ADD": at.AddOptions, "SUB": at.SubOptions, "MUL": at.MulOptions}[kind]()
    return s, s.op(kind, [a, b], [s.tensor(np.broadcast_shapes(first, second), 0.06, 1)], options)


def resize(
    source: tuple[int, int], target: tuple[int, int], *, aligned: bool = False, half_pixel: bool = False
) -> tuple[Sketch, int]:
    s = sketch()
    x = s.input((1, *source, 5), 0.05, 100)
    y = s.tensor((1, *target, 5), 0.05, 100)
    return s, s.op("RESIZE_BILINEAR", [x, s.numbers(target)], [y], at.ResizeBilinearOptions(aligned, half_pixel))


CASES: dict[str, Callable[[], tuple[Sketch, int]]] = {
    "average over 256 rows": lambda: pool("AVERAGE_POOL_2D", (1, 256, 3, 4), (256, 2), Padding.VALID, (1, 1, 2, 4)),
    "average over 65536 elements": lambda: pool("AVERAGE_POOL_2D", (1, 256, 256, 1), (256, 256), Padding.VALID, (1, 1, 1, 1)),
    "average of 8x8 padded": lambda: pool("AVERAGE_POOL_2D", (1, 5, 9, 4), (8, 8), Padding.SAME, (1, 5, 9, 4)),
    "maximum of 256 padded rows": lambda: pool("MAX_POOL_2D", (1, 256, 2, 4), (256, 2), Padding.SAME, (1, 256, 2, 4)),
    "maximum with more padding than registers hold": lambda: pool(
        "MAX_POOL_2D", (1, 3, 310, 4), (3, 300), Padding.SAME, (1, 3, 310, 4)
    ),
    "convolution of 64 rows": lambda: convolution((1, 5, 4, 2), (64, 3), Padding.SAME, (5, 4)),
    "convolution with more padding than registers hold": lambda: convolution((1, 2, 400, 2), (1, 300), Padding.SAME, (2, 400)),
    "convolution as large as its map": lambda: convolution((1, 9, 7, 5), (9, 7), Padding.VALID, (1, 1)),
    "sum of both sides broadcast": lambda: sum_of((4, 1, 6, 1), (1, 5, 1, 7)),
    "difference of both sides broadcast": lambda: sum_of((4, 1, 6, 1), (1, 5, 1, 7), "SUB"),
    "product of five dimensions": lambda: sum_of((2, 3, 4, 5, 6), (2, 1, 4, 1, 6), "MUL"),
    "sum of lower rank": lambda: sum_of((3, 4, 5, 6), (5, 1)),
    "sum of scalars": lambda: sum_of((), (1,)),
    "sum of more rows than registers hold": lambda: sum_of((2, 40000, 1, 2), (2, 40000, 1, 2)),
    "sum with a row on more rows than registers hold": lambda: sum_of((2, 40000, 1, 2), (2,)),
    "every pair of values added": lambda: sum_of((256, 1), (1, 256)),
    "resize of one pixel": lambda: resize((1, 1), (13, 9)),
    "resize of one row": lambda: resize((1, 6), (2, 12)),
    "resize of one column with aligned corners": lambda: resize((6, 1), (11, 1), aligned=True),
    "resize of one row that stays one": lambda: resize((1, 6), (1, 48)),
    "resize of one row with aligned corners by 8": lambda: resize((1, 3), (1, 17), aligned=True),
    "resize between half pixels of one pixel": lambda: resize((1, 1), (2, 2), half_pixel=True),
    "resize between half pixels of one pixel to many": lambda: resize((1, 1), (40, 1536), half_pixel=True),
    "resize between half pixels of one row": lambda: resize((1, 6), (2, 12), half_pixel=True),
    "resize between half pixels of one row that stays one": lambda: resize((1, 6), (1, 24), half_pixel=True),
    "resize between half pixels of one column by 8": lambda: resize((5, 1), (40, 8), half_pixel=True),
    "resize between half pixels to the same size": lambda: resize((5, 4), (5, 4), half_pixel=True),
}


@pytest.mark.parametrize("case", CASES)
def test_edge_cases_equal_the_reference(case: str) -> None:
    s, output = CASES[case]()
    graph = s.graph([output])
    assert_exact(graph, random_inputs(graph, 1), case)


EVERY_PAIR = [np.repeat(np.arange(-128, 128, dtype=np.int8), 256), np.tile(np.arange(-128, 128, dtype=np.int8), 256)]


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize(
    ("scales", "zero_points"),
    [
        # Found by search: this sum is right only if the smaller operand is rounded twice.
        ((0.007469026, 0.068315633, 0.032343443), (-95, 106, 0)),
        ((0.1, 0.1, 0.2), (0, 0, 0)),
        ((0.1, 0.1, 0.13), (-128, 127, 5)),
        ((1.0, 1.0, 2.0), (1, 1, -1)),
        ((0.003, 0.7, 0.9), (127, -128, 3)),
    ],
)
def test_every_pair_of_values_equals_the_reference(
    kind: str, scales: tuple[float, float, float], zero_points: tuple[int, int, int]
) -> None:
    s = sketch()
    a, b = (s.input((1, 256, 256), scales[i], zero_points[i]) for i in (0, 1))
    options = {"ADD": at.AddOptions, "SUB": at.SubOptions, "MUL": at.MulOptions}[kind]()
    y = s.op(kind, [a, b], [s.tensor((1, 256, 256), scales[2], zero_points[2])], options)
    assert_exact(s.graph([y]), [v.reshape(1, 256, 256) for v in EVERY_PAIR])


EVERY_VALUE = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)


@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
def test_tables_equal_the_reference_for_every_value_at_many_scales(kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        s = sketch()
        x = s.input((1, 256), float(np.float32(2.0 ** rng.uniform(-13, 3))), int(rng.integers(-128, 128)))
        y = s.op(kind, [x], [s.tensor((1, 256), *((1 / 256, -128) if kind == "LOGISTIC" else (1 / 128, 0)))])
        assert_exact(s.graph([y]), [EVERY_VALUE])


@pytest.mark.parametrize("beta", [0.01, 1.0, 13.0])
@pytest.mark.parametrize("scale", [1e-5, 2.0**-12, 0.0123, 0.25, 1.0, 40.0])
def test_softmax_equals_the_reference_at_every_scale(beta: float, scale: float) -> None:
    s = sketch()
    x = s.input((40, 60), scale, 9)
    y = s.op("SOFTMAX", [x], [s.tensor((40, 60), 1 / 256, -128)], at.SoftmaxOptions(float(np.float32(beta))))
    graph = s.graph([y])
    assert_exact(graph, random_inputs(graph, 1))


@pytest.mark.parametrize("depth", [1, 2, 4, 16, 64, 256, 500])
def test_softmax_of_equal_values_equals_the_reference(depth: int) -> None:
    """A sum that is a power of two makes the reciprocal saturate."""
    s = sketch()
    x = s.input((3, depth), 0.1, 9)
    y = s.op("SOFTMAX", [x], [s.tensor((3, depth), 1 / 256, -128)], at.SoftmaxOptions(1.0))
    assert_exact(s.graph([y]), [np.full((3, depth), 7, np.int8)])


def test_a_tall_step_is_split_at_the_largest_height() -> None:
    s, output = sum_of((2, 40000, 1, 2), (2,))
    assert [step.ofm.shape[0] for step in lowered(s.graph([output])).steps] == [65536, 14464]


def test_equal_scales_take_the_cheap_sum_where_it_is_exact() -> None:
    s = sketch()
    a, b = s.input((4, 4), 0.25, 0), s.input((4, 4), 0.25, 0)
    y = s.op("ADD", [a, b], [s.tensor((4, 4), 0.5, 0)], at.AddOptions())
    (step,) = lowered(s.graph([y])).steps
    assert isinstance(step, ElementwiseStep)
    assert step.operand_scaling is OperandScaling.BOTH_16


def test_a_stride_over_a_single_output_does_not_reach_the_hardware() -> None:
    s = sketch()
    x = s.input((1, 7, 7, 4), 0.05, 3)
    options = at.Pool2DOptions(Padding.VALID, 7, 7, 7, 7)
    y = s.op("AVERAGE_POOL_2D", [x], [s.tensor((1, 1, 1, 4), 0.05, 3)], options)
    (step,) = lowered(s.graph([y])).steps
    assert (step.kernel.stride_y, step.kernel.stride_x) == (1, 1)  # type: ignore[attr-defined]
    assert variant().accelerator.max_kernel_stride < 7
