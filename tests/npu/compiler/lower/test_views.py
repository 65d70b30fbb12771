"""Maps that are read or written where they lie: slices with strides, mirrored borders; channels that lie apart are selected."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Step
from npu.compiler.lower.partition import lower_partition
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.operations import ElementwiseMode
from npu.tflite.reader import read_model

from tests.support.architectures.layers import RELU, Layers
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import ways_of


def steps_of(content: bytes) -> list[Step]:
    """Those of the whole model on the default target."""
    (graph,) = read_model(content).graphs
    hardware = load_variant("ethos-u55-128")
    return list(lower_partition(graph, range(len(graph.ops)), hardware, estimates=ways_of(hardware)).steps)


def assert_exact(content: bytes) -> None:
    inputs = random_inputs(content, 5)
    for target in ("ethos-u55-128", "ethos-u65-256"):
        (found,) = npu.run(npu.compile(content, target).content, inputs, target).outputs
        np.testing.assert_array_equal(found, *run_reference(content, inputs))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=str)
def test_every_second_row_and_column_is_read_where_it_lies(dtype: DType) -> None:
    net = Layers(1, dtype)
    x = net.conv(net.input(20, 21, 24), 24, 1)
    content = net.finish(net.conv(net.slice(x, [0, 1, 2, 8], [1, 20, 21, 24], [1, 2, 2, 1]), 16, 3))
    assert [type(step) for step in steps_of(content)] == [ConvolutionStep] * 2
    assert_exact(content)


def test_a_slice_with_strides_that_others_see_is_copied() -> None:
    net = Layers(1)
    content = net.finish(net.slice(net.conv(net.input(20, 21, 8), 8, 1), [0, 0, 0, 0], [1, 20, 21, 8], [1, 2, 2, 1]))
    assert [type(step) for step in steps_of(content)] == [ConvolutionStep, PoolingStep]
    assert_exact(content)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=str)
def test_channels_that_lie_apart_are_selected_by_one_convolution(dtype: DType) -> None:
    net = Layers(1, dtype)
    content = net.finish(net.slice(net.input(9, 10, 64), [0, 0, 0, 3], [1, 9, 10, 60], [1, 1, 1, 2]))
    (step,) = steps_of(content)
    assert isinstance(step, ConvolutionStep)
    assert step.weights.values.sum() == step.ofm.shape[2] == 29
    assert_exact(content)


def test_a_map_is_made_inside_its_mirrored_border() -> None:
    net = Layers(1)
    x = net.conv(net.input(16, 16, 8), 8, 3, act=RELU)
    content = net.finish(net.conv(net.pad(x, (0, 0), (1, 1), (1, 1), (0, 0), mirror=True), 8, 3, same=False))
    steps = steps_of(content)
    copies = [step for step in steps if isinstance(step, PoolingStep)]
    assert len(copies) == 4
    assert all(1 in step.ofm.shape[:2] for step in copies)  # rows and columns of the border, not the map
    assert_exact(content)


@pytest.mark.parametrize(("scale", "kind"), [(1.0, ElementwiseStep), (0.5, PoolingStep)])
def test_an_absolute_value_is_the_hardwares_where_nothing_is_rescaled(scale: float, kind: type[Step]) -> None:
    net = Layers(1)
    x = net.input(9, 10, 8)
    content = net.finish(net.make("ABS", [x], net.shape(x), scale=net.scale(x) * scale, zero_point=2))
    (step,) = steps_of(content)
    assert isinstance(step, kind)
    assert not isinstance(step, ElementwiseStep) or step.mode is ElementwiseMode.ABS
    assert_exact(content)


def test_transposed_convolutions_write_to_afar_in_one_piece() -> None:
    """Every second column of a map behind the fast memory is a burst of its own, and so large a map has no copy in it."""
    net = Layers(1)
    content = net.finish(net.tconv(net.conv(net.input(100, 100, 4), 8, 1), 12, 3, same=False))
    (graph,) = read_model(content).graphs
    for target, count in {"ethos-u55-128": 5, "ethos-u65-256": 2}.items():
        hardware = load_variant(target)
        assert len(lower_partition(graph, [0, 1], hardware, estimates=ways_of(hardware)).steps) == count
    assert_exact(content)


def test_columns_are_unpacked_where_they_lie() -> None:
    net = Layers(1)
    x = net.conv(net.input(6, 4, 20), 20, 1)
    columns = [net.b.tensor((1, 6, 20), DType.INT8, **net.steps(x)) for _ in range(4)]
    net.b.multi_op("UNPACK", [x], columns, attributes=at.UnpackOptions(4, 2))
    content = net.finish(net.add(net.add(columns[0], columns[1]), columns[3]))
    assert [type(step) for step in steps_of(content)] == [ConvolutionStep, ElementwiseStep, ElementwiseStep]
    assert_exact(content)


def test_parts_that_nobody_reads_are_not_copied() -> None:
    """Behind a fast memory parts of an input are copied together."""
    net = Layers(2)
    x = net.input(3, 13, 24)
    parts = [net.b.tensor((1, 3, 24), DType.INT8, **net.steps(x)) for _ in range(13)]
    net.b.multi_op("UNPACK", [x], parts, attributes=at.UnpackOptions(13, 2))
    content = net.finish(net.add(parts[2], parts[3]))
    (graph,) = read_model(content).graphs
    hardware = load_variant("ethos-u85-256")
    steps = lower_partition(graph, range(len(graph.ops)), hardware, estimates=ways_of(hardware)).steps
    assert [type(step) for step in steps] == [PoolingStep, PoolingStep, ElementwiseStep]
    inputs = random_inputs(content, 1)
    made = npu.compile(content, "ethos-u85-256").content
    np.testing.assert_array_equal(npu.run(made, inputs, "ethos-u85-256").outputs[0], run_reference(content, inputs)[0])
