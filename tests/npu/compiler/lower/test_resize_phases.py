"""A resize as windows over the map before it: exact, and taken where it is cheaper than windows over the upscaled map."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import npu
from npu.compiler.ir import ConvolutionStep, PoolingStep, Step
from npu.compiler.lower import resize_phases
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.partition import lower_partition
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Graph
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.operations import Upscale
from npu.tflite.reader import read_model

from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import assert_exact, ways_of

WAYS = {"over the upscaled map": 0, "apart": 1, "joined": 2}
SHAPES = {
    "a map": (1, 5, 4, 3),
    "a row": (1, 1, 6, 2),
    "a column": (1, 3, 1, 5),
    "one channel": (1, 4, 4, 1),
    "two": (2, 3, 4, 17),
}

ALIGNED = {"a map": (1, 5, 4, 3), "four elements": (1, 2, 2, 1), "two": (2, 3, 4, 17)}
"""Along an axis of one element there is nothing to make."""


def _resize(before: tuple[int, ...], factor: int, *, half: bool, aligned: bool = False, dtype: DType = DType.INT8) -> Graph:
    b = ModelBuilder()
    height, width = ((size - aligned) * factor + aligned for size in before[1:3])
    zero_point = 0 if dtype is DType.INT16 else 100
    x = b.input(before, dtype, scale=0.1, zero_point=zero_point)
    size = b.constant(np.array([height, width], np.int32))
    after, options = (before[0], height, width, before[3]), at.ResizeBilinearOptions(aligned, half)
    b.output(b.op("RESIZE_BILINEAR", [x, size], after, dtype, 0.1, zero_point, attributes=options))
    return b.graph()


def _take(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """One way for all maps."""
    monkeypatch.setattr(resize_phases, "_pays", lambda *_: True)
    monkeypatch.setattr(resize_phases, "_has_room", lambda *_: True)

    def take(self: Builder, ways: Sequence[Callable[[], None]]) -> None:
        ways[number]()

    monkeypatch.setattr(Builder, "make_cheapest", take)


@pytest.mark.parametrize("half", [False, True], ids=["plain", "half pixels"])
@pytest.mark.parametrize("factor", [2, 4, 8])
@pytest.mark.parametrize("way", ["apart", "joined"])
def test_every_way_equals_the_reference(way: str, factor: int, monkeypatch: pytest.MonkeyPatch, *, half: bool) -> None:
    _take(monkeypatch, WAYS[way])
    for name, shape in SHAPES.items():
        for dtype in (DType.INT8, DType.UINT8, DType.INT16):
            graph = _resize(shape, factor, half=half, dtype=dtype)
            info = np.iinfo(dtype.numpy)
            values = np.random.default_rng(factor).integers(info.min, info.max + 1, shape).astype(dtype.numpy)
            assert_exact(graph, [values], f"{name} of {dtype.name}")


@pytest.mark.parametrize("factor", [2, 4, 8])
@pytest.mark.parametrize("way", ["apart", "joined"])
def test_with_aligned_corners_the_last_row_and_column_equal_the_reference_too(
    way: str, factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _take(monkeypatch, WAYS[way])
    for name, shape in ALIGNED.items():
        for dtype in (DType.INT8, DType.UINT8, DType.INT16):
            graph = _resize(shape, factor, half=False, aligned=True, dtype=dtype)
            info = np.iinfo(dtype.numpy)
            values = np.random.default_rng(factor).integers(info.min, info.max + 1, shape).astype(dtype.numpy)
            assert_exact(graph, [values], f"{name} of {dtype.name}")


@pytest.mark.parametrize("half", [False, True], ids=["plain", "half pixels"])
@pytest.mark.parametrize("way", ["apart", "joined"])
def test_every_pair_of_neighbours_equals_the_reference(way: str, monkeypatch: pytest.MonkeyPatch, *, half: bool) -> None:
    """Two values side by side, all pairs of them: ties of both signs."""
    _take(monkeypatch, WAYS[way])
    pairs = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))).reshape(2, -1).astype(np.int8)
    values = pairs.T.reshape(1, 1, -1, 1)[:, :, : 1 << 12]
    for factor in (2, 4):
        assert_exact(_resize(values.shape, factor, half=half), [values])


def _convolutions(shape: tuple[int, ...], factor: int, *, saves_memory: bool = False) -> list[ConvolutionStep]:
    hardware = load_variant("ethos-u55-128")
    graph, estimates = _resize(shape, factor, half=True), ways_of(hardware, saves_memory=saves_memory)
    steps: Sequence[Step] = lower_partition(graph, [0], hardware, saves_memory=saves_memory, estimates=estimates).steps
    return [step for step in steps if isinstance(step, ConvolutionStep)]


CHOICES: dict[str, tuple[tuple[int, ...], int, int, bool, tuple[int, ...]]] = {
    "few channels by 8": ((1, 32, 32, 3), 8, 8, False, (32, 32, 24)),
    "many channels by 8": ((1, 16, 16, 64), 8, 64, True, (16, 16, 64)),
    "few channels by 2": ((1, 32, 32, 2), 2, 2, False, (32, 32, 4)),
}


@pytest.mark.parametrize("case", CHOICES)
def test_columns_become_channels_where_there_are_few(case: str) -> None:
    """Convolutions, whether they are depthwise, and the map that each of them makes."""
    shape, factor, count, is_depthwise, made = CHOICES[case]
    steps = _convolutions(shape, factor)
    assert [(step.is_depthwise, step.ofm.shape) for step in steps] == [(is_depthwise, made)] * count


OVER_UPSCALED = {
    "small": ((1, 4, 4, 3), 2, False),
    "many channels by 2": ((1, 16, 16, 96), 2, False),
    "few channels by 2 with little memory": ((1, 32, 32, 2), 2, True),
}


@pytest.mark.parametrize("case", OVER_UPSCALED)
def test_maps_that_cost_others_more_are_made_over_the_upscaled_one(case: str) -> None:
    shape, factor, saves_memory = OVER_UPSCALED[case]
    steps = _convolutions(shape, factor, saves_memory=saves_memory)
    assert {step.kernel.height for step in steps} == {1, factor + 1}


@pytest.mark.parametrize(("reader", "height"), [("CONV_2D", 2), ("ADD", 3)])
def test_by_2_the_reader_decides(reader: str, height: int) -> None:
    """Sums take half as long again to read a map that is not in bricks."""
    net = Layers(1)
    x = net.up(net.conv(net.input(16, 16, 32), 32, 1), 2, half=True)
    content = net.finish(net.conv(x, 32, 1) if reader == "CONV_2D" else net.add(x, net.conv(net.input(32, 32, 32), 32, 1)))
    (graph,) = read_model(content).graphs
    hardware = load_variant("ethos-u55-128")
    steps = lower_partition(graph, range(len(graph.ops)), hardware, estimates=ways_of(hardware)).steps
    assert max(step.kernel.height for step in steps if isinstance(step, ConvolutionStep)) == height


def test_an_axis_of_one_element_is_not_made_longer() -> None:
    net = Layers(1)
    content = net.finish(net.resize(net.conv(net.input(26, 1, 32), 32, 1), 201, 1, align=True, nearest=True))
    (graph,) = read_model(content).graphs
    hardware = load_variant("ethos-u55-128")
    steps = lower_partition(graph, range(len(graph.ops)), hardware, estimates=ways_of(hardware)).steps
    assert {step.ofm.storage.shape[1] for step in steps} == {1}
    inputs = random_inputs(content, 1)
    np.testing.assert_array_equal(npu.run(npu.compile(content).content, inputs).outputs[0], run_reference(content, inputs)[0])


@pytest.mark.parametrize("saves_memory", [False, True])
def test_a_map_that_others_see_has_to_be_whole_anyway(*, saves_memory: bool) -> None:
    """It is larger than the arena, and its rows need not come one after the other even where memory is dear."""
    shape, factor = (1, 32, 32, 64), 8
    assert {step.kernel.height for step in _convolutions(shape, factor, saves_memory=saves_memory)} == {2}


def test_between_operators_a_map_is_made_in_stripes_where_its_readers_leave_no_room() -> None:
    """RESIZE_BILINEAR reads 8 x 8 x 8 and makes 64 x 64 x 8, of which ABS makes as much; ends are copied around the former."""
    hardware = load_variant("ethos-u55-128")
    taken = 2 * 64 * 64 * 8
    bordered = 10 * 10 * 8
    assert [_apart((1, 8, 8, 8), 8, hardware, budget) for budget in (taken + bordered, taken)] == [True, False]
    assert not _apart((1, 8, 8, 8), 8, hardware, taken + bordered, saves_memory=True)


def test_by_4_a_map_without_room_in_fast_memory_is_made_in_stripes() -> None:
    """What leaves the job lies in the arena all the same; that of few channels by 8 has too many products."""
    hardware = load_variant("ethos-u65-256")
    near, far = ((1, 16, 16, 64), (1, 16, 16, 192))
    assert [_apart(shape, 4, hardware) for shape in (near, far)] == [True, False]
    assert _apart((1, 32, 32, 8), 8, hardware)


def _apart(
    shape: tuple[int, ...], factor: int, hardware: Variant, budget: int = sys.maxsize, *, saves_memory: bool = False
) -> bool:
    """Whether a resize between two other operators is made without an upscaled map."""
    b = ModelBuilder()
    height, width = shape[1] * factor, shape[2] * factor
    after, size = (1, height, width, shape[3]), b.constant(np.array([height, width], np.int32))
    x = b.op("RELU", [b.input(shape, DType.INT8, scale=0.1)], shape, DType.INT8, 0.1)
    options = at.ResizeBilinearOptions(half_pixel_centers=True)
    y = b.op("RESIZE_BILINEAR", [x, size], after, DType.INT8, 0.1, attributes=options)
    b.output(b.op("ABS", [y], after, DType.INT8, 0.1))
    steps = lower_partition(
        b.graph(),
        [0, 1, 2],
        hardware,
        estimates=ways_of(hardware, saves_memory=saves_memory),
        budget=budget,
        saves_memory=saves_memory,
    ).steps
    return not any(step.upscale is Upscale.NEAREST for step in steps if isinstance(step, ConvolutionStep | PoolingStep))
