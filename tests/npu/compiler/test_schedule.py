"""Where a layer whose weights are copied is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npu
from npu.compiler.memory import CopyPlan, MemoryPlanner
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.graph import Model
from npu.isa.operations import Convolution
from npu.tflite.writer import write_model

from tests.support.architectures.layers import Layers
from tests.support.layers import pointwise_pair
from tests.support.random_graphs import Sketch


def convolved(height: int, width: int, depth: int, filters: int, size: int) -> bytes:
    """One convolution."""
    net = Layers(1)
    return net.finish(net.conv(net.input(height, width, depth), filters, size))


@pytest.mark.parametrize(
    ("target", "shape", "slices"),
    [
        ("ethos-u55-256", (32, 400, 276), [64, 64, 64, 64, 20]),  # whole blocks
        ("ethos-u65-256", (32, 200, 180), [96, 84]),  # no gain: equal slices need less memory at a time
        ("ethos-u65-256", (6, 114, 288), [48] * 6),  # finer, so that kernels wait less for the first
    ],
)
def test_slices_are_whole_blocks_where_these_are_clearly_faster(
    target: str, shape: tuple[int, int, int], slices: list[int]
) -> None:
    (partition,) = npu.compile(write_model(pointwise_pair(*shape)), target=target).compiled_model.partitions
    found = [operation.ofm.depth for operation in partition.operations if isinstance(operation, Convolution)]
    assert found[-len(slices) :] == slices
    assert sum(found) == shape[1] + shape[2]


@pytest.mark.parametrize(
    ("target", "content", "least"),
    [
        ("ethos-u65-256", convolved(64, 64, 64, 64, 3), 32),  # the input is read from afar by each
        ("ethos-u55-128", convolved(15, 15, 3072, 512, 1), 32),  # it is 700 KB
        ("ethos-u65-256", convolved(1, 1, 2048, 128, 1), 16),  # it is small, and copies are what everything waits for
    ],
)
def test_slices_are_longer_where_each_reads_much_of_the_input_again(target: str, content: bytes, least: int) -> None:
    (partition,) = npu.compile(content, target=target).compiled_model.partitions
    found = [operation.ofm.depth for operation in partition.operations if isinstance(operation, Convolution)]
    assert min(found[:-1]) == least


@pytest.mark.parametrize(
    ("goal", "shape", "conv", "slices"),
    [
        ("performance", (4, 12, 32), (64, 3), [16] * 4),  # the first weights are there sooner
        ("performance", (4, 12, 8), (32, 1), [32]),  # of few weights, more copies would only keep later ones waiting
        ("performance", (2, 6, 40), (96, 1), [48, 48]),
        ("size", (2, 6, 40), (96, 1), [96]),  # all have room at a time
    ],
)
def test_the_first_copies_behind_one_kernel_are_short(
    goal: str, shape: tuple[int, int, int], conv: tuple[int, int], slices: list[int]
) -> None:
    net = Layers(1)
    content = net.finish(net.conv(net.pool(net.input(*shape)), *conv))
    (partition,) = npu.compile(content, target="ethos-u65-256", optimise=goal).compiled_model.partitions
    assert [operation.ofm.depth for operation in partition.operations if isinstance(operation, Convolution)] == slices


def test_slices_are_not_longer_where_their_copies_are_what_everything_waits_for() -> None:
    """A matrix behind larger maps, which leave room for long slices: the first copy would only take longer."""
    net = Layers(1)
    x = net.conv(net.conv(net.input(60, 60, 32), 32, 3), 32, 3)
    flat = net.reshape(net.conv(net.pool(x, "MAX", 15, 15), 128, 1), 1, 2048)
    (partition,) = npu.compile(net.finish(net.dense(flat, 128)), "ethos-u65-512", optimise="size").compiled_model.partitions
    found = [operation.ofm.depth for operation in partition.operations if isinstance(operation, Convolution)]
    assert found == [32, 32, 128, *[16] * 8]


def constant_bytes(target: str, maps: tuple[tuple[int, ...], ...]) -> int:
    """Read-only bytes of as many convolutions of the same weights as there are maps."""
    s = Sketch(np.random.default_rng(3))
    inputs = [s.input(shape, 0.02, 1) for shape in maps]
    weights = s.weights((64, 3, 3, 64), 0, per_channel=True)
    bias = s.bias(inputs[0], weights, 64, 1000)
    options = at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
    outputs = [s.op("CONV_2D", [x, weights, bias], [s.tensor(s.shape(x), 0.25, 5)], options) for x in inputs]
    return npu.compile(write_model(Model((s.graph(outputs),))), target=target).compiled_model.usage.read_only_bytes


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256"])
def test_operators_that_share_tensors_share_their_encoded_weights(target: str) -> None:
    maps = ((1, 40, 40, 64), (1, 20, 20, 64), (1, 5, 5, 64))
    assert constant_bytes(target, maps) <= max(constant_bytes(target, (shape,)) for shape in maps)


def striped_pair() -> bytes:
    """Two convolutions of 3x3 over 32x32 elements: for size, stripes of which the first one is higher than the others."""
    s = Sketch(np.random.default_rng(5))
    x, depth = s.input((1, 32, 32, 8), 0.05, 3), 8
    options = at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
    for _ in range(2):
        weights = s.weights((32, 3, 3, depth), 0, per_channel=True)
        x = s.op("CONV_2D", [x, weights, s.bias(x, weights, 32, 1000)], [s.tensor((1, 32, 32, 32), 0.4, -5)], options)
        depth = 32
    return write_model(Model((s.graph([x]),)))


def test_a_stripe_of_another_height_does_not_have_its_weights_encoded_once_more() -> None:
    sizes = [
        npu.compile(striped_pair(), target="ethos-u55-128", optimise=goal).compiled_model.usage.read_only_bytes
        for goal in ("size", "performance")
    ]
    assert sizes[0] <= 1.03 * sizes[1]


def test_drafts_with_the_same_slices_share_where_maps_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is that of the last draft: only copies of constants are placed anew."""
    drafts: list[CopyPlan] = []
    copies = MemoryPlanner.copies

    def noted(self: MemoryPlanner, *given: Any) -> CopyPlan:
        drafts.append(copies(self, *given))
        return drafts[-1]

    monkeypatch.setattr(MemoryPlanner, "copies", noted)
    npu.compile(write_model(pointwise_pair(64, 64, 48)), target="ethos-u55-128")
    assert len(drafts) > 1
    assert len({draft.maps for draft in drafts}) < len(drafts)
