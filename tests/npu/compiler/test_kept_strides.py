"""Strides that a layout ignores: registers keep them, and results are the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import npu
from npu.graph import attributes as at
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.isa.encode import encode
from npu.isa.operations import FeatureMap, KernelOperation, Layout
from npu.records import replace
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, run_reference
from tests.support.random_graphs import Sketch

TARGET = "ethos-u55-128"


def layers(*depths: int) -> bytes:
    """Convolutions one after the other with so many channels: those of 8 lie in NHWC, those of 16 in NHCWB16."""
    s = Sketch(np.random.default_rng(1))
    x = s.input((1, 12, 12, 8), 0.02, 1)
    for depth in depths:
        weights = s.weights((depth, 3, 3, s.shape(x)[3]), 0, per_channel=True)
        options = at.Conv2DOptions(at.Padding.SAME, 1, 1, at.FusedActivation.NONE, 1, 1)
        y = s.tensor((1, 12, 12, depth), 0.25, 5)
        x = s.op("CONV_2D", [x, weights, s.bias(x, weights, depth, 1000)], [y], options)
    return write_model(Model((s.graph([x]),)))


def test_a_stride_that_a_layout_ignores_is_that_of_the_map_before() -> None:
    (partition,) = npu.compile(layers(16, 8, 32, 8, 16), TARGET).compiled_model.partitions
    kernels = [operation for operation in partition.operations if isinstance(operation, KernelOperation)]
    for maps in ([kernel.ifm for kernel in kernels], [kernel.ofm for kernel in kernels]):
        assert {fm.layout for fm in maps} == {Layout.NHWC, Layout.NHCWB16}
        for before, after in pairwise(maps):
            name = "stride_x" if after.layout is Layout.NHCWB16 else "stride_c"
            assert getattr(before, name) == getattr(after, name)


def test_streams_are_shorter_than_with_the_strides_of_each_map_and_results_the_same() -> None:
    content = layers(16, 8, 32, 8, 16)
    (partition,) = npu.compile(content, TARGET).compiled_model.partitions
    own = [with_own_strides(one) if isinstance(one, KernelOperation) else one for one in partition.operations]
    variant = load_variant(TARGET)
    assert len(encode(partition.operations, variant)) < len(encode(own, variant))
    inputs = random_inputs(content, 5)
    for ours, theirs in zip(npu.run(content, inputs, TARGET).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def with_own_strides(kernel: KernelOperation) -> KernelOperation:
    return replace(kernel, ifm=dense(kernel.ifm), ofm=dense(kernel.ofm))


def dense(fm: FeatureMap) -> FeatureMap:
    size = fm.element.bytes
    return replace(fm, stride_x=16 * size) if fm.layout is Layout.NHCWB16 else replace(fm, stride_c=size)
