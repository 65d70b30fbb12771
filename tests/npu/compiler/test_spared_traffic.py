"""Maps behind a cache are computed in stripes where that is faster, also beside maps that cannot be made smaller."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.block_config import BlockChooser
from npu.compiler.goal import Goal
from npu.compiler.step_problems import StepEstimates
from npu.compiler.weights import Constants
from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.graph.ethos_u import Region
from npu.hardware.catalogue import load_variant
from npu.hardware.choice import Hardware
from npu.isa.operations import KernelOperation
from npu.toolchain.session import Session

from tests.support.architectures.layers import RELU, Layers
from tests.support.builder import ModelBuilder

CACHE = 24576


def with_fork(pairs: int) -> bytes:
    """A map that two others are made of, whose memory no stripes make less, and behind it pairs of a wide and a narrow map."""
    b, random = ModelBuilder(), np.random.default_rng(pairs)

    def made(name: str, inputs: list[int], extent: int, channels: int, options: Attributes) -> int:
        return b.op(name, inputs, (1, extent, extent, channels), DType.INT8, 0.1, attributes=options)

    def convolution(x: int, extent: int, depth: int, channels: int) -> int:
        weights = random.integers(-127, 128, (channels, 1, 1, depth)).astype(np.int8)
        inputs = [x, b.constant(weights, scale=0.01), b.constant(np.zeros(channels, np.int32), scale=0.001)]
        return made("CONV_2D", inputs, extent, channels, at.Conv2DOptions(at.Padding.SAME, 1, 1))

    forked = convolution(b.input((1, 96, 96, 16), DType.INT8, scale=0.1), 96, 16, 32)
    x = made("ADD", [convolution(forked, 96, 32, 32) for _ in range(2)], 96, 32, at.AddOptions())
    x = made("MAX_POOL_2D", [x], 32, 32, at.Pool2DOptions(at.Padding.VALID, 3, 3, 3, 3))
    for _ in range(pairs):
        x = convolution(convolution(x, 32, 32, 64), 32, 64, 32)
    b.output(x)
    return b.build()


def session(goal: Goal = Goal.PERFORMANCE) -> Session:
    return Session(Hardware("ethos-u65-256", arena_cache_bytes=CACHE), goal=goal)


def kernels(content: bytes, goal: Goal = Goal.PERFORMANCE) -> list[KernelOperation]:
    (partition,) = npu.compile(content, session=session(goal)).compiled_model.partitions
    return [operation for operation in partition.operations if isinstance(operation, KernelOperation)]


def test_a_map_stays_whole_behind_the_cache_where_stripes_would_read_large_weights_again() -> None:
    net = Layers(3)
    x = net.conv(net.input(28, 28, 1024), 1024, 1, act=RELU)
    content = net.finish(net.conv(x, 16, 1))
    (partition,) = npu.compile(content, "ethos-u65-256").compiled_model.partitions
    assert {one.ofm.height for one in partition.operations if isinstance(one, KernelOperation)} == {28}


@pytest.mark.parametrize("pairs", [2, 4])
def test_maps_behind_a_place_that_no_stripes_make_smaller_are_computed_in_stripes(pairs: int) -> None:
    wide = [kernel.ofm for kernel in kernels(with_fork(pairs)) if kernel.ofm.depth == 64]
    assert sum(fm.height for fm in wide) == pairs * 32
    assert sum(fm.height for fm in wide if fm.region == Region.FAST) >= 32


def test_size_counts_memory_and_not_traffic() -> None:
    small, fast = (
        npu.compile(with_fork(2), session=session(goal)).compiled_model.usage for goal in (Goal.SIZE, Goal.PERFORMANCE)
    )
    assert small.arena_bytes + small.fast_bytes <= fast.arena_bytes + fast.fast_bytes


@pytest.mark.parametrize("pairs", [2, 3])
def test_the_results_stay_the_same(pairs: int) -> None:
    content = with_fork(pairs)
    ran = npu.run(content, session=session(), seed=pairs)
    reference = npu.Interpreter(model_content=content)
    reference.allocate_tensors()
    reference.set_tensor(reference.get_input_details()[0]["index"], ran.inputs[0])
    reference.invoke()
    assert np.array_equal(reference.get_tensor(reference.get_output_details()[0]["index"]), ran.outputs[0])


def with_windows() -> bytes:
    """A sum of enlarged maps, behind it a window of five rows and a larger map: they fit in no number of stripes."""
    b, random = ModelBuilder(), np.random.default_rng(1)

    def made(name: str, inputs: list[int], extent: int, channels: int, options: Attributes) -> int:
        return b.op(name, inputs, (1, extent, extent, channels), DType.INT8, 0.1, attributes=options)

    def convolution(x: int, extent: int, depth: int, channels: int) -> int:
        weights = random.integers(-127, 128, (channels, 1, 1, depth)).astype(np.int8)
        inputs = [x, b.constant(weights, scale=0.01), b.constant(np.zeros(channels, np.int32), scale=0.001)]
        return made("CONV_2D", inputs, extent, channels, at.Conv2DOptions(at.Padding.SAME, 1, 1))

    def enlarged(x: int, extent: int, channels: int) -> int:
        size = b.constant(np.array([extent, extent], np.int32))
        return made("RESIZE_NEAREST_NEIGHBOR", [x, size], extent, channels, at.ResizeNearestNeighborOptions())

    x = enlarged(convolution(b.input((1, 32, 32, 32), DType.INT8, scale=0.1), 32, 32, 32), 64, 32)
    x = made("ADD", [x, b.input((1, 64, 64, 32), DType.INT8, scale=0.1)], 64, 32, at.AddOptions())
    window = b.constant(random.integers(-127, 128, (1, 5, 5, 32)).astype(np.int8), scale=0.01)
    bias, options = b.constant(np.zeros(32, np.int32), scale=0.001), at.DepthwiseConv2DOptions(at.Padding.SAME, 1, 1)
    x = made("DEPTHWISE_CONV_2D", [x, window, bias], 64, 32, options)
    b.output(convolution(enlarged(convolution(x, 64, 32, 16), 128, 16), 128, 16, 1))
    return b.build()


def test_maps_that_do_not_fit_the_cache_in_any_stripes_are_not_cut_into_single_rows() -> None:
    content = with_windows()
    cycles = npu.time_model(npu.compile(content, session=session()).content, session=session()).report.totals.total_cycles
    assert cycles is not None
    assert cycles < 700_000  # rows one by one, each window of five read anew: 816,664


def test_nothing_is_estimated_where_every_map_finds_room_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("estimated")

    monkeypatch.setattr(StepEstimates, "__call__", refuse)
    with pytest.raises(AssertionError, match="estimated"):
        kernels(with_fork(2))
    roomy = Session(Hardware("ethos-u65-256", arena_cache_bytes=1 << 21))
    assert npu.compile(with_fork(2), session=roomy).compiled_model.partitions


def test_weights_that_are_not_copied_are_read_for_every_block_of_the_plane() -> None:
    """Where memory is too dear for copies that counts, however fast the kernel is."""
    b, random = ModelBuilder(), np.random.default_rng(1)
    weights = b.constant(random.integers(-127, 128, (64, 1, 1, 64)).astype(np.int8), scale=0.01)
    inputs = [b.input((1, 64, 64, 64), DType.INT8, scale=0.1), weights, b.constant(np.zeros(64, np.int32), scale=0.001)]
    options = at.Conv2DOptions(at.Padding.SAME, 1, 1)
    b.output(b.op("CONV_2D", inputs, (1, 64, 64, 64), DType.INT8, 0.1, attributes=options))
    (partition,) = npu.compile(b.build(), "ethos-u55-256").compiled_model.partitions
    chooser = BlockChooser(load_variant("ethos-u55-256"))
    steps = partition.program.steps
    constants = Constants(chooser.variant)
    copied, in_place = (StepEstimates(chooser, constants, in_place=one)(steps) for one in (False, True))
    assert in_place > 1.5 * copied
