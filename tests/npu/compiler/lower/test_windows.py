"""Windows beyond the registers: large strides, large dilations and groups are exact, as steps and as compiled files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.compiler.ir import ConvolutionStep, Step
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.compiler.lower.windows import MOST_WINDOWS, _distances, _SlidingAxis
from npu.compiler.step_problems import StepEstimates
from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_npu_job
from npu.graph.graph import Graph
from npu.isa.operations import Convolution, Layout
from npu.tflite.reader import read_model

from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import assert_exact, lowered, variant, ways_of

Rng = np.random.Generator
SEEDS = range(12)


def _extent(size: int, window: int, stride: int, dilation: int, padding: Padding) -> int:
    return -(-size // stride) if padding is Padding.SAME else (size - (window - 1) * dilation - 1) // stride + 1


def two(rng: Rng, end: int) -> tuple[int, int]:
    return int(rng.integers(1, end)), int(rng.integers(1, end))


def window(
    rng: Rng, kind: str, dtype: DType, *, strides: tuple[int, int] = (1, 1), dilations: tuple[int, int] = (1, 1),
    groups: int = 1, channels: int = 0, units: int = 0, batch: int = 1, multiplier: int = 1, kernel: tuple[int, int] = (0, 0),
    shape: tuple[int, int, int] | None = None,
) -> bytes:  # fmt: skip
    b, padding = ModelBuilder(), Padding(int(rng.integers(0, 2)))
    kernel = tuple(given or int(n) for given, n in zip(kernel, rng.integers(1, 5, 2), strict=True))
    size = [int(rng.integers((k - 1) * d + 1, (k - 1) * d + 20)) for k, d in zip(kernel, dilations, strict=True)]
    depth = channels or int(rng.integers(1, 7)) * groups
    if shape is not None:
        size, depth = list(shape[:2]), shape[2]
    zero = 0 if dtype is DType.INT16 else int(rng.integers(0, 100))
    x = b.input((batch, *size, depth), dtype, scale=0.05, zero_point=zero)
    out = [_extent(*row, padding) for row in zip(size, kernel, strides, dilations, strict=True)]
    if "POOL" in kind:
        options = at.Pool2DOptions(padding, strides[1], strides[0], kernel[1], kernel[0])
        b.output(b.op(kind, [x], (batch, *out, depth), dtype, 0.05, zero, attributes=options))
        return b.build()
    is_depthwise = kind == "DEPTHWISE_CONV_2D"
    units = depth * multiplier if is_depthwise else units or groups * int(rng.integers(1, 6))
    shape = (1, *kernel, units) if is_depthwise else (units, *kernel, depth // groups)
    axis, bias_type = (3 if is_depthwise else 0), DType.INT64 if dtype is DType.INT16 else DType.INT32
    scales = [float(s) for s in rng.uniform(0.001, 0.01, units)]
    weights = b.constant(rng.integers(-127, 128, shape).astype(np.int8), scale=scales, zero_point=[0] * units, axis=axis)
    biases = [0.05 * s for s in scales]
    bias = b.constant(rng.integers(-900, 900, units), bias_type, scale=biases, zero_point=[0] * units)
    if is_depthwise:
        made: at.Attributes = at.DepthwiseConv2DOptions(
            padding, *strides[::-1], multiplier, at.FusedActivation.NONE, *dilations[::-1]
        )
    else:
        made = at.Conv2DOptions(padding, *strides[::-1], at.FusedActivation.RELU, *dilations[::-1])
    b.output(b.op(kind, [x, weights, bias], (batch, *out, units), dtype, 0.1, zero, attributes=made))
    return b.build()


KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D")
CASES: dict[str, Callable[[Rng], bytes]] = {
    **{
        f"{kind} {dtype.name} strides": lambda rng, k=kind, t=dtype: window(
            rng, k, t, strides=two(rng, 9), batch=int(rng.integers(1, 3))
        )
        for kind in KINDS
        for dtype in (DType.INT8, DType.INT16)
    },
    **{
        f"{kind} {dtype.name} dilations": lambda rng, k=kind, t=dtype: window(rng, k, t, dilations=two(rng, 13))
        for kind in KINDS[:2]
        for dtype in (DType.INT8, DType.INT16)
    },
    **{
        f"depth multiplier {dtype.name}": lambda rng, t=dtype: window(
            rng, "DEPTHWISE_CONV_2D", t, channels=int(rng.integers(2, 40)), multiplier=int(rng.integers(2, 7)), batch=2
        )
        for dtype in (DType.INT8, DType.INT16)
    },
    "depth multiplier of bricks": lambda rng: window(
        rng, "DEPTHWISE_CONV_2D", DType.INT8, strides=two(rng, 5), channels=48, multiplier=int(rng.integers(2, 4))
    ),
    "far rows of many units": lambda rng: window(rng, "CONV_2D", DType.INT8, strides=(int(rng.integers(4, 7)), 2), units=60),
    "far rows and columns of many units": lambda rng: window(rng, "CONV_2D", DType.INT8, strides=(5, 4), units=60, batch=2),
    "far columns of one channel": lambda rng: window(rng, "DEPTHWISE_CONV_2D", DType.INT8, channels=1, strides=(1, 4)),
    "far rows and columns of one channel": lambda rng: window(
        rng, "DEPTHWISE_CONV_2D", DType.INT16, channels=1, strides=(4, 5)
    ),
    **{
        f"far {kind} {dtype.name} {strides}": lambda rng, k=kind, t=dtype, s=strides: window(
            rng, k, t, strides=s, channels=int(rng.integers(1, 40)), batch=int(rng.integers(1, 3))
        )
        for kind in KINDS[2:]
        for dtype in (DType.INT8, DType.UINT8, DType.INT16)
        for strides in ((4, 4), (1, 4), (5, 1), (4, 2))
    },
    **{
        f"near columns of {channels} channels, {kind}": lambda rng, k=kind, c=channels: window(
            rng,
            k,
            DType.INT8,
            channels=c,
            units=16,
            kernel=(int(rng.integers(1, 11)), int(rng.integers(2, 9))),
            batch=2,
            strides=two(rng, 4),
        )
        for channels in (1, 3)
        for kind in KINDS[:2]
    },
    "dilations over more than 64 rows": lambda rng: window(
        rng, "CONV_2D", DType.INT8, channels=2, dilations=(int(rng.integers(22, 130)), int(rng.integers(1, 4)))
    ),
    "a kernel that its dilation makes too high": lambda rng: window(
        rng, "CONV_2D", DType.INT8, channels=1, kernel=(33, 1), dilations=(2, 1)
    ),
    "a kernel that its dilation makes too large": lambda rng: window(
        rng, "DEPTHWISE_CONV_2D", DType.INT8, channels=1, kernel=(24, 96), dilations=(2, 2)
    ),
    "groups": lambda rng: window(rng, "CONV_2D", DType.INT8, groups=int(rng.integers(2, 6))),
    "groups of bricks": lambda rng: window(rng, "CONV_2D", DType.INT8, groups=2, channels=64),
    "groups with strides": lambda rng: window(rng, "CONV_2D", DType.INT8, groups=3, strides=(5, 4)),
    "groups with dilations": lambda rng: window(rng, "CONV_2D", DType.INT8, groups=2, dilations=(3, 6)),
}


@pytest.mark.parametrize("case", CASES)
def test_steps_are_exact(case: str) -> None:
    for seed in SEEDS:
        content = CASES[case](np.random.default_rng(seed))
        assert_exact(read_model(content).graphs[0], random_inputs(content, seed), f"{case} {seed}")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["ethos-u55-64", "ethos-u65-512"])
def test_compiled_files_are_exact(case: str, target: str, tmp_path: Path) -> None:
    for seed in SEEDS[:3]:
        content = CASES[case](np.random.default_rng([seed, 1]))
        inputs = random_inputs(content, seed)
        npu.compile(content, target=target).save(tmp_path / "m.tflite")
        assert [is_npu_job(op) for op in read_model(tmp_path / "m.tflite").graphs[0].ops] == [True]
        found = run(npu.Interpreter(str(tmp_path / "m.tflite")), inputs)
        np.testing.assert_array_equal(found[0], run_reference(content, inputs)[0])


def test_what_takes_too_many_windows_is_refused() -> None:
    b = ModelBuilder()
    x = b.input((1, 200, 200, 3), DType.INT8, scale=0.05)
    options = at.Pool2DOptions(Padding.SAME, 4, 4, 5, 5)
    b.output(b.op("AVERAGE_POOL_2D", [x], (1, 50, 50, 3), DType.INT8, 0.05, attributes=options))
    with pytest.raises(LoweringError, match=f"at most {MOST_WINDOWS} windows, got 2500"):
        lowered(b.graph())


@pytest.mark.parametrize(("kind", "element"), [("MAX_POOL_2D", DType.INT16), ("AVERAGE_POOL_2D", DType.UINT8)])
def test_far_windows_without_padding_are_pooled_along_one_axis_after_the_other(kind: str, element: DType) -> None:
    b = ModelBuilder()
    x = b.input((1, 128, 128, 8), element, scale=0.05)
    b.output(b.op(kind, [x], (1, 32, 32, 8), element, 0.05, attributes=at.Pool2DOptions(Padding.VALID, 4, 4, 4, 4)))
    steps = _steps(b.graph(), ways_of(variant()))
    assert len(steps) == 16  # four rows at a time, then their columns; a window for every output would be 1,024
    assert max(step.ofm.storage.bytes for step in steps if step.ofm.storage.name.endswith("rows")) <= 1 << 13


def test_columns_of_few_channels_become_channels_where_the_estimate_is_less() -> None:
    kernels, kept = {}, {}
    for size, padding in ((64, Padding.VALID), (64, Padding.SAME), (8, Padding.SAME)):
        b = ModelBuilder()
        x = b.input((1, size, size, 1), DType.INT8, scale=0.05)
        kernel = b.constant(np.ones((16, 4, 8, 1), np.int8), scale=[0.01] * 16, zero_point=[0] * 16, axis=0)
        out = (size - 3, size - 7) if padding is Padding.VALID else (size, size)
        options = at.Conv2DOptions(padding, 1, 1)
        b.output(b.op("CONV_2D", [x, kernel, -1], (1, *out, 16), DType.INT8, 0.1, attributes=options))
        graph, estimates = b.graph(), ways_of(variant())
        kernels[size, padding] = [step.kernel.width for step in _convolutions(graph, estimates)]
        kept[size, padding] = [step.kernel.width for step in _convolutions(graph, estimates, keeps_maps=True)]
    assert kernels == {(64, Padding.VALID): [1], (64, Padding.SAME): [1], (8, Padding.SAME): [1]}
    assert kept == {(64, Padding.VALID): [1], (64, Padding.SAME): [8], (8, Padding.SAME): [8]}  # none is copied with its border


@pytest.mark.parametrize(
    ("width", "stride", "padding", "kernel", "folded"),
    [
        (64, 2, Padding.SAME, 3, 2),  # the padding is one column, of which there is one behind the last
        (64, 2, Padding.VALID, 6, 3),
        (63, 2, Padding.SAME, 3, 3),  # columns do not come out even
        (128, 4, Padding.SAME, 16, 5),  # six in front: two of four columns
        (120, 5, Padding.SAME, 16, 4),  # five in front: one of five columns
    ],
)
def test_columns_of_a_stride_become_channels_without_a_copy(
    width: int, stride: int, padding: Padding, kernel: int, folded: int
) -> None:
    b = ModelBuilder()
    x = b.input((1, 32, width, 3), DType.INT8, scale=0.05)
    weights = b.constant(np.ones((16, 3, kernel, 3), np.int8), scale=[0.01] * 16, zero_point=[0] * 16, axis=0)
    out = -(-width // stride) if padding is Padding.SAME else (width - kernel) // stride + 1
    height = 32 if padding is Padding.SAME else 30
    options = at.Conv2DOptions(padding, stride, 1)
    b.output(b.op("CONV_2D", [x, weights, -1], (1, height, out, 16), DType.INT8, 0.1, attributes=options))
    (step,) = _steps(b.graph(), ways_of(variant()), keeps_maps=True)
    assert isinstance(step, ConvolutionStep)
    assert (step.kernel.width, step.weights.values.shape[2]) == (folded, folded)
    assert step.ifm.shape == ((32, width // stride, 3 * stride) if folded != kernel else (32, width, 3))


@pytest.mark.parametrize(
    ("channels", "dilation", "kernels"),
    [
        (16, 4, [(3, 2)]),  # the first and the last of three elements, at the hardware's largest dilation
        (16, 3, [(4, 1)]),
        (16, 16, [(2, 2)] * 8),  # zeros would be most of the work
    ],
)
def test_far_dilations_become_zeros_where_the_estimate_is_less(
    channels: int, dilation: int, kernels: list[tuple[int, int]]
) -> None:
    b = ModelBuilder()
    x = b.input((1, 1, 512, channels), DType.INT8, scale=0.05)
    weights = np.ones((channels, 1, 2, channels), np.int8)
    kernel = b.constant(weights, scale=[0.01] * channels, zero_point=[0] * channels, axis=0)
    options = at.Conv2DOptions(Padding.SAME, 1, 1, at.FusedActivation.NONE, dilation, 1)
    b.output(b.op("CONV_2D", [x, kernel, -1], (1, 1, 512, channels), DType.INT8, 0.1, attributes=options))
    steps = _convolutions(b.graph(), ways_of(variant()))
    assert [(step.kernel.width, step.kernel.dilation_x) for step in steps] == kernels
    assert all(step.weights.values.sum() == 2 * channels**2 for step in steps)


def test_parts_of_a_join_behind_a_fast_memory_are_written_in_bricks() -> None:
    """Columns that lie apart would make all of it NHWC, whose pieces of 32 bytes wait for the slow memory each."""
    net = Layers(1)
    x = net.conv(net.input(76, 76, 1), 1, 3)
    branches = [net.conv(x, 32, 1), *(net.conv(x, 32, 3, dilation=far) for far in (2, 4))]
    content = net.finish(net.conv(net.cat(*branches), 32, 1))
    (partition,) = npu.compile(content, "ethos-u65-256").compiled_model.partitions
    made = [one for one in partition.operations if isinstance(one, Convolution) and one.ofm.stride_y == 76 * 96]
    assert {one.ofm.layout for one in made} == {Layout.NHCWB16}


def test_zeros_between_weights_cost_what_their_stream_takes() -> None:
    """Nine windows over 4x5 positions read nine times the weights; 7x7 with zeros are hardly more than 3x3."""
    net = Layers(1)
    content = net.finish(net.conv(net.conv(net.input(4, 5, 16), 16, 1), 32, 3, dilation=3))
    (partition,) = npu.compile(content, "ethos-u55-128").compiled_model.partitions
    kernels = [one.kernel for one in partition.operations if isinstance(one, Convolution)]
    assert [(kernel.height, kernel.width) for kernel in kernels] == [(1, 1), (7, 7)]


def test_a_border_of_columns_is_copied_without_one_of_rows() -> None:
    b = ModelBuilder()
    x = b.input((1, 64, 63, 1), DType.INT8, scale=0.05)
    weights = b.constant(np.ones((16, 4, 8, 1), np.int8), scale=[0.01] * 16, zero_point=[0] * 16, axis=0)
    b.output(
        b.op("CONV_2D", [x, weights, -1], (1, 64, 63, 16), DType.INT8, 0.1, attributes=at.Conv2DOptions(Padding.SAME, 1, 1))
    )
    (step,) = _convolutions(b.graph(), ways_of(variant()))
    assert step.ifm.storage.shape == (64, 70, 1)
    assert (step.padding.top, step.padding.bottom) == (1, 2)


def _convolutions(graph: Graph, estimates: StepEstimates, *, keeps_maps: bool = False) -> list[ConvolutionStep]:
    return [step for step in _steps(graph, estimates, keeps_maps=keeps_maps) if isinstance(step, ConvolutionStep)]


def _steps(graph: Graph, estimates: StepEstimates, *, keeps_maps: bool = False) -> Sequence[Step]:
    return lower_partition(graph, range(len(graph.ops)), variant(), estimates=estimates, keeps_maps=keeps_maps).steps


def test_the_pitch_of_a_dilation_of_any_size_is_found_at_once() -> None:
    """Trying every number up to it took two minutes. No rule lets such an operator pass, and none asks for its pitch."""
    axis = _SlidingAxis(extent=8, output=8, size=3, stride=1, dilation=(1 << 31) - 1, before=0)
    assert _distances(axis, variant().accelerator, 64) == (8, (1 << 31) - 1)
    composite = replace(axis, dilation=1 << 30)
    assert _distances(composite, variant().accelerator, 64) == (8, 1 << 29)


@pytest.mark.parametrize(
    ("shape", "size", "dilation", "kernels"),
    [
        ((1, 1), 3, 1, {(1, 1)}),  # the middle alone is over the map
        ((1, 9), 3, 1, {(1, 3)}),
        ((2, 2), 5, 1, {(3, 3)}),
        ((3, 3), 3, 8, {(1, 1)}),  # each output sees its own element only
        ((1, 6), 2, 4, {(1, 1)}),  # in front and behind, of a row in between: nothing at all
        ((6, 6), 3, 4, {(1, 3), (3, 1), (3, 3), (1, 1)}),  # two rows or columns of a phase, or one
    ],
)
def test_elements_of_a_kernel_that_see_padding_alone_are_left_out(
    shape: tuple[int, int], size: int, dilation: int, kernels: set[tuple[int, int]]
) -> None:
    rng, b = np.random.default_rng(3), ModelBuilder()
    x = b.input((1, *shape, 8), DType.INT8, scale=0.05, zero_point=7)
    values = rng.integers(-100, 100, (16, size, size, 8)).astype(np.int8)
    kernel = b.constant(values, scale=[0.01] * 16, zero_point=[0] * 16, axis=0)
    options = at.Conv2DOptions(Padding.SAME, 1, 1, at.FusedActivation.NONE, dilation, dilation)
    bias = b.constant(rng.integers(-500, 500, 16).astype(np.int32), scale=[0.0005] * 16, zero_point=[0] * 16)
    b.output(b.op("CONV_2D", [x, kernel, bias], (1, *shape, 16), DType.INT8, 0.3, attributes=options))
    graph = b.graph()
    steps = [step for step in lowered(graph).steps if isinstance(step, ConvolutionStep)]
    assert {(step.kernel.height, step.kernel.width) for step in steps} <= kernels
    assert all(step.weights.values.shape[1:3] == (step.kernel.height, step.kernel.width) for step in steps)
    assert_exact(graph, [rng.integers(-128, 128, (1, *shape, 8), np.int8)])


@pytest.mark.parametrize(("channels", "group"), [(48, 16), (24, 8), (12, 12)])
def test_channels_with_a_multiplier_are_multiplied_in_bricks_or_halves_of_one(channels: int, group: int) -> None:
    """Zeros for the other channels of the group take time, so that it is no larger than it must be."""
    net = Layers(1)
    (graph,) = read_model(net.finish(net.dw(net.input(9, 10, channels), 3, times=2))).graphs
    steps = [step for step in lowered(graph).steps if isinstance(step, ConvolutionStep)]
    assert {step.ifm.shape[2] for step in steps} == {step.weights.values.shape[3] for step in steps} == {group}
    assert_exact(graph, [np.random.default_rng(1).integers(-128, 128, (1, 9, 10, channels), np.int8)])


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "dilations"),
    [
        ((300, 1, 4), (80, 1), (4, 1), (1, 1)),
        ((90, 3, 2), (65, 2), (1, 1), (1, 1)),
        ((400, 1, 3), (300, 1), (1, 1), (1, 1)),
        ((75, 75, 2), (66, 65), (5, 5), (1, 1)),
        ((150, 2, 3), (60, 1), (2, 1), (2, 1)),
    ],
)
def test_ethos_u85_has_kernels_of_any_height(
    kind: str, shape: tuple[int, int, int], kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> None:
    content = window(
        np.random.default_rng(1), kind, DType.INT8, strides=strides, dilations=dilations, kernel=kernel, shape=shape
    )
    inputs = random_inputs(content, 2)
    (expected,) = run_reference(content, inputs)
    for target in ("ethos-u85-128", "ethos-u85-1024"):
        made = npu.compile(content, target)
        assert all(map(is_npu_job, made.compiled_model.model.graphs[0].ops))
        (found,) = npu.run(made.content, inputs, target).outputs
        np.testing.assert_array_equal(found, expected)
    if kernel[0] > 64:
        (placed,) = npu.check(content, target="ethos-u65-512").ops
        assert "kernel height must be in the range [1, 64]" in placed.violations[0].message


def test_the_highest_kernel_is_a_fact_of_the_hardware(tmp_path: Path) -> None:
    """The checker refuses higher ones, and the compiler takes windows of dilated ones apart."""
    described = tmp_path / "small.yaml"
    described.write_text("extends: ethos-u85-256\naccelerator: {max_kernel_height: 8}\n")
    rng = np.random.default_rng(2)
    high = window(rng, "CONV_2D", DType.INT8, kernel=(9, 1))
    (placed,) = npu.check(high, config=described).ops
    assert "[1, 8]" in placed.violations[0].message
    far = window(rng, "CONV_2D", DType.INT8, kernel=(5, 1), dilations=(2, 1))
    inputs = random_inputs(far, 2)
    for config, windows in ((described, 2), (None, 1)):
        made = npu.compile(far, None if config else "ethos-u85-256", config)
        (partition,) = made.compiled_model.partitions
        assert sum(isinstance(one, Convolution) for one in partition.operations) == windows
        (found,) = npu.run(made.content, inputs, config=config).outputs
        np.testing.assert_array_equal(found, run_reference(far, inputs)[0])
