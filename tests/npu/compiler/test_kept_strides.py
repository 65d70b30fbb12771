"""Strides that do not matter: registers keep them, and results are the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.isa.encode import encode
from npu.isa.operations import FeatureMap, KernelOperation, Layout
from npu.layouts import dense_steps
from npu.records import replace
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, run_reference
from tests.support.random_graphs import Sketch

TARGET = "ethos-u55-128"


def layers(*depths: int, stride: int = 1) -> bytes:
    """Convolutions one after the other with so many channels: those of 8 lie in NHWC, those of 16 in NHCWB16."""
    s, extent = Sketch(np.random.default_rng(1)), 12
    x = s.input((1, extent, extent, 8), 0.02, 1)
    for depth in depths:
        weights = s.weights((depth, 3, 3, s.shape(x)[3]), 0, per_channel=True)
        options = at.Conv2DOptions(at.Padding.SAME, stride, stride, at.FusedActivation.NONE, 1, 1)
        extent = -(-extent // stride)
        y = s.tensor((1, extent, extent, depth), 0.25, 5)
        x = s.op("CONV_2D", [x, weights, s.bias(x, weights, depth, 1000)], [y], options)
    return write_model(Model((s.graph([x]),)))


def test_a_stride_that_a_layout_ignores_is_that_of_the_map_before() -> None:
    kernels = kernels_of(layers(16, 8, 32, 8, 16))
    for maps in ([kernel.ifm for kernel in kernels], [kernel.ofm for kernel in kernels]):
        assert {fm.layout for fm in maps} == {Layout.NHWC, Layout.NHCWB16}
        for before, after in pairwise(maps):
            name = "stride_x" if after.layout is Layout.NHCWB16 else "stride_c"
            assert getattr(before, name) == getattr(after, name)


def test_the_stride_from_row_to_row_is_kept_where_there_is_one_row() -> None:
    """Layers of one position, with rows of other lengths."""
    s = Sketch(np.random.default_rng(1))
    x = s.input((1, 20), 0.02, 1)
    for units in (10, 30):
        weights = s.weights((units, s.shape(x)[1]), 0, per_channel=False)
        y = s.tensor((1, units), 0.25, 5)
        x = s.op("FULLY_CONNECTED", [x, weights, s.bias(x, weights, units, 1000)], [y], at.FullyConnectedOptions())
    first, second = kernels_of(write_model(Model((s.graph([x]),))))
    assert [first.ifm.stride_y, second.ifm.stride_y] == [20, 20]
    assert [first.ofm.stride_y, second.ofm.stride_y] == [10, 10]
    assert [second.ifm.stride_x, second.ofm.stride_x] == [10, 30]


def test_the_stride_from_brick_to_brick_is_kept_where_there_is_one() -> None:
    first, second, third, _ = kernels_of(layers(32, 16, 32, 8, stride=2))
    assert [kernel.ofm.stride_c for kernel in (first, second, third)] == [6 * 16, 6 * 16, 2 * 16]


@pytest.mark.parametrize("content", [layers(16, 8, 32, 8, 16), layers(32, 16, 24, stride=2)], ids=["layouts", "bricks"])
def test_streams_are_shorter_than_with_the_strides_of_each_map_and_results_the_same(content: bytes) -> None:
    (partition,) = npu.compile(content, TARGET).compiled_model.partitions
    own = [with_own_strides(one) if isinstance(one, KernelOperation) else one for one in partition.operations]
    variant = load_variant(TARGET)
    assert len(encode(partition.operations, variant)) < len(encode(own, variant))
    inputs = random_inputs(content, 5)
    for ours, theirs in zip(npu.run(content, inputs, TARGET).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def kernels_of(content: bytes) -> list[KernelOperation]:
    (partition,) = npu.compile(content, TARGET).compiled_model.partitions
    return [operation for operation in partition.operations if isinstance(operation, KernelOperation)]


def with_own_strides(kernel: KernelOperation) -> KernelOperation:
    return replace(kernel, ifm=dense(kernel.ifm), ofm=dense(kernel.ofm))


def dense(fm: FeatureMap) -> FeatureMap:
    is_bricked, size = fm.layout is Layout.NHCWB16, fm.element.bytes
    row, pixel, group = dense_steps(fm.width, fm.depth, size, is_bricked=is_bricked)
    return replace(fm, stride_y=row, stride_x=pixel, stride_c=group if is_bricked else size)
