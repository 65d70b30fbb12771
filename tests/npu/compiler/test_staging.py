"""Which constants are copied ahead of use, and what that may take of the memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import npu
from npu.compiler import job_maker
from npu.compiler.block_config import BlockChooser
from npu.compiler.block_estimate import BlockProblem
from npu.compiler.compiled import Usage
from npu.compiler.goal import Goal
from npu.compiler.pace import Pace
from npu.compiler.passes import price_copies
from npu.compiler.slicing import LARGEST_SLICE_BYTES, Forms
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph, Model, Signature
from npu.hardware.catalogue import load_variant
from npu.hardware.choice import Hardware
from npu.isa.operations import Convolution, Dma, DmaWait, IfmPadding, KernelWait, KernelWindow, Stop
from npu.isa.shram import Work
from npu.machine.port_rates import port_rate
from npu.tflite.writer import write_model
from npu.toolchain.session import Session

from tests.support.architectures.layers import RELU, Layers
from tests.support.architectures.sequences import residual_tc_kws
from tests.support.builder import ModelBuilder
from tests.support.layers import pointwise_pair


def copies(content: bytes, hardware: Hardware, goal: Goal = Goal.PERFORMANCE) -> tuple[int, Usage]:
    """Bytes that transfers copy, and the memory taken."""
    result = npu.compile(content, session=Session(hardware, goal=goal)).compiled_model
    (partition,) = result.partitions
    return sum(op.length_bytes for op in partition.operations if isinstance(op, Dma)), result.usage


@pytest.mark.parametrize(("target", "most_bytes"), [("ethos-u55-128", 2048), ("ethos-u65-256", 2 * LARGEST_SLICE_BYTES)])
def test_copies_of_constants_that_are_read_once_stay_small_beside_small_maps(target: str, most_bytes: int) -> None:
    """Weights of (1, 1) maps: none in memory that the maps share, two slices in a cache for the NPU alone."""
    _, usage = copies(write_model(pointwise_pair(1, 512, 64)), Hardware(target))
    assert usage.arena_bytes + usage.fast_bytes < most_bytes


@pytest.mark.parametrize(("depth", "room_bytes"), [(512, 32 * 1024), (256, 6 * 1024)])
def test_a_cache_for_the_npu_alone_holds_copies_where_they_are_faster_and_few_for_size(depth: int, room_bytes: int) -> None:
    """For size more where one operator has more weights than a fifth of the cache has bytes."""
    content = write_model(pointwise_pair(1, depth, depth))
    copied, _ = copies(content, Hardware("ethos-u65-256"))
    assert copied > depth * depth
    few, small = copies(content, Hardware("ethos-u65-256"), Goal.SIZE)
    assert few < copied
    assert (few > 0) is (depth == 512)
    assert small.arena_bytes + small.fast_bytes <= room_bytes


def test_constants_that_every_block_of_the_plane_reads_are_copied() -> None:
    copied, usage = copies(write_model(pointwise_pair(64, 64, 48)), Hardware("ethos-u55-128"))
    assert copied > 48 * 64
    assert usage.arena_bytes < 2 * 64 * 64 * 64 * 1.02


def test_copies_that_take_longer_than_to_read_in_place_are_not_ahead_by_more_than_finds_room() -> None:
    """Behind long kernels there would be time to copy the last weights of an Ethos-U85 ahead, but no place to keep them."""
    net = Layers(2)
    x = net.input(64, 64, 64)
    for _ in range(4):
        x = net.conv(x, 64)
    x = net.conv(net.conv(x, 320, 1, stride=8), 640, 1)
    content = net.finish(net.dense(net.gap(x), 1000))
    for target in ("ethos-u85-256", "ethos-u85-1024"):
        copied, _ = copies(content, Hardware(target))
        assert copied < 640 * 1000 / 2


def test_an_arena_beyond_its_limit_still_has_room_for_copies() -> None:
    """A thousandth of what it takes anyway, for constants that are read a thousand times."""
    content = write_model(pointwise_pair(128, 64, 64))
    within, _ = copies(content, Hardware("ethos-u55-128"))
    beyond, usage = copies(content, Hardware("ethos-u55-128", arena_cache_bytes=65536))
    assert usage.arena_bytes > 65536
    assert beyond == within


@pytest.mark.parametrize("share", [1.0, 1.1, 1.25, 1.5, 2.0, 3.0])
def test_where_copies_have_little_room_it_is_no_slower_than_for_size(share: float) -> None:
    """The maps fit; copies keep the port from kernels that read the constants which found no room."""
    content = residual_tc_kws()
    small = npu.compile(content, optimise="size")
    limited = npu.compile(content, arena_cache_size=int(small.compiled_model.usage.arena_bytes * share))
    assert cycles(limited.content) <= cycles(small.content)


def test_slices_for_size_are_as_small_as_the_room_beside_the_maps_asks_for() -> None:
    """Two of the usual ones find no room; in place the constants would be read for every block of the plane."""
    net = Layers(1)
    x = net.input(25, 5, 140)
    for channels in (208, 140, 140, 140):
        x = net.conv(x, channels, 1)
    compiled = npu.compile(net.finish(x), optimise="size").compiled_model
    convolutions = [one for one in compiled.partitions[0].operations if isinstance(one, Convolution)]
    assert [one.ofm.depth for one in convolutions[-9:]] == [16] * 8 + [12]
    assert {one.weights[0].region for one in convolutions[-9:]} == {Region.ARENA}
    assert compiled.usage.arena_bytes < 25 * 5 * (208 + 144) * 1.01


def cycles(content: bytes) -> int:
    return npu.time_model(content, target="ethos-u55-128").report.totals.npu_cycles or 0


def test_nothing_is_copied_before_a_first_kernel_that_reads_its_own_constants_in_place() -> None:
    b, random = ModelBuilder(), np.random.default_rng(3)
    x = b.input((1, 36), DType.INT8, scale=0.05)
    for inputs, outputs in ((36, 128), (128, 16)):
        weights = b.constant(random.integers(-127, 128, (outputs, inputs)).astype(np.int8), scale=0.01)
        x = b.op("FULLY_CONNECTED", [x, weights, None], (1, outputs), DType.INT8, 0.5, attributes=at.FullyConnectedOptions())
    b.output(x)
    (partition,) = npu.compile(b.build(), target="ethos-u65-512").compiled_model.partitions
    assert [type(op) for op in partition.operations] == [Convolution, Dma, DmaWait, Convolution, Stop]


def heavy_weights_behind_a_pooling() -> bytes:
    """A pooling that reads no constants, as long as it takes to copy a part of the weights that follow."""
    b, random = ModelBuilder(), np.random.default_rng(3)
    x = b.input((1, 32, 32, 32), DType.INT8, scale=0.05)
    pool = at.Pool2DOptions(at.Padding.VALID, 8, 8, 8, 8)
    mid = b.op("MAX_POOL_2D", [x], (1, 4, 4, 32), DType.INT8, 0.05, attributes=pool)
    weights = b.constant(random.integers(-127, 128, (192, 512)).astype(np.int8), scale=0.01)
    y = b.op("FULLY_CONNECTED", [mid, weights, None], (1, 192), DType.INT8, 0.5, attributes=at.FullyConnectedOptions())
    b.output(y)
    return b.build()


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-256"])
def test_weights_are_copied_while_nothing_else_passes_their_port_unless_size_counts(target: str) -> None:
    content = heavy_weights_behind_a_pooling()
    copied, usage = copies(content, Hardware(target))
    assert copied > 8 * 1024
    assert usage.arena_bytes >= 32 * 32 * 32 + 4 * 4 * 32 + 8 * 1024
    _, least = copies(content, Hardware(target), Goal.SIZE)
    assert least.arena_bytes == 32 * 32 * 32 + 4 * 4 * 32


def test_slices_take_turns_in_two_buffers_although_some_are_a_little_longer_encoded() -> None:
    """In the place of a shorter one the next but one would find no room, and wait for both kernels."""
    net = Layers(1)
    content = net.finish(net.conv(net.input(20, 11, 512), 512, 1, act=RELU))
    (partition,) = npu.compile(content, "ethos-u55-256").compiled_model.partitions
    copied = [op for op in partition.operations if isinstance(op, Dma)]
    assert len(copied) == 8
    assert len({op.length_bytes for op in copied}) > 2
    assert len({op.destination.address for op in copied}) == 2
    assert {op.outstanding for op in partition.operations if isinstance(op, KernelWait)} == {1}


def test_a_bound_of_as_many_bytes_as_copies_take_without_one_is_weighed_too() -> None:
    """Here it ends a copy that the kernel would wait for, behind one that is over sooner."""
    net = Layers(7)
    content = net.finish(net.conv(net.prelu(net.input(2, 2, 20)), 16, 1))
    copied, usage = copies(content, Hardware("ethos-u55-128"))
    assert copied == 0
    assert usage.arena_bytes == 160


def test_constants_that_find_no_room_for_a_copy_share_the_port_with_an_input_behind_it() -> None:
    """On Ethos-U65 both are in DRAM; the memory of a map on Ethos-U55 has a port of its own."""
    for target, is_shared in (("ethos-u65-256", True), ("ethos-u55-256", False)):
        chooser = BlockChooser(load_variant(target))
        problem = BlockProblem(
            work=Work.CONVOLUTION, ofm=(20, 56, 256), ifm_depth=256, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(3, 3),
            padding=IfmPadding(1, 1, 1, 1), ifm_in_arena=True,
        )  # fmt: skip
        forms = Forms(problem, chooser, port_rate(chooser.variant, chooser.variant.memory_mode.constants))
        choice = chooser.choose(problem.part(32))
        assert (forms.cycles_if_left(32, choice) > 1.1 * choice.cycles) is is_shared
        assert is_shared or forms.cycles_if_left(32, choice) == choice.cycles


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u65-512", "ethos-u85-256"])
@pytest.mark.parametrize("work", [Work.CONVOLUTION, Work.DEPTHWISE])
def test_copied_slices_take_no_less_than_is_known_before_they_are_looked_at(work: Work, target: str) -> None:
    chooser = BlockChooser(load_variant(target))
    port = port_rate(chooser.variant, chooser.variant.memory_mode.constants)
    for ofm, depth, side in (((1, 1, 512), 512, 1), ((40, 40, 64), 64, 1), ((20, 20, 96), 48, 3), ((9, 5, 40), 200, 5)):
        ifm_depth = ofm[2] if work is Work.DEPTHWISE else depth
        problem = BlockProblem(work=work, ofm=ofm, ifm_depth=ifm_depth, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(side, side))
        forms = Forms(problem, chooser, port)
        for pace in (Pace(port), Pace(port, kernel_free=5000.0), Pace(port, kernel_free=100.0, engine_free=9000.0)):
            least = forms.least_copied(pace)
            assert all(least <= forms.copied(ofm[2], count).cycles(pace) for count in (16, 32, ofm[2]))
            assert least > 0


def test_copies_ahead_stay_within_the_limit_of_the_arena() -> None:
    _, usage = copies(heavy_weights_behind_a_pooling(), Hardware("ethos-u55-256", arena_cache_bytes=48 * 1024))
    assert usage.arena_bytes <= 48 * 1024


def two_graphs() -> Model:
    """Two signatures of one graph each."""
    (first,), (second,) = pointwise_pair(16, 32, 32).graphs, pointwise_pair(12, 32, 32).graphs
    graphs = (first, replace(second, name="second"))
    signatures = tuple(
        Signature(name, number, {"x": graph.inputs[0]}, {"y": graph.outputs[0]})
        for number, (name, graph) in enumerate(zip(("one", "two"), graphs, strict=True))
    )
    return Model(graphs, signatures=signatures)


def test_graphs_that_run_one_at_a_time_share_the_arena() -> None:
    arenas = [
        npu.compile(write_model(Model((graph,))), target="ethos-u55-128").compiled_model.usage for graph in two_graphs().graphs
    ]
    both = npu.compile(write_model(two_graphs()), target="ethos-u55-128").compiled_model.usage
    assert both.arena_bytes == max(usage.arena_bytes for usage in arenas)


def test_graphs_with_variables_have_memory_of_their_own() -> None:
    model = two_graphs()
    graphs = tuple(_with_variable(graph) for graph in model.graphs)
    alone = [npu.compile(write_model(Model((graph,))), target="ethos-u55-128").compiled_model.usage for graph in graphs]
    both = npu.compile(write_model(replace(model, graphs=graphs)), target="ethos-u55-128").compiled_model.usage
    assert both.arena_bytes == sum(usage.arena_bytes for usage in alone)


def _with_variable(graph: Graph) -> Graph:
    variable = replace(graph.tensors[graph.inputs[0]], name="state", is_variable=True)
    return replace(graph, tensors=(*graph.tensors, variable))


def connected(features: int, *depths: int) -> bytes:
    """FULLY_CONNECTED operators one after the other with so many outputs."""
    rng, b = np.random.default_rng(1), ModelBuilder()
    x = b.input((1, features), DType.INT8, scale=0.02)
    for inputs, depth in pairwise((features, *depths)):
        weights = b.constant(rng.integers(-127, 128, (depth, inputs)).astype(np.int8), scale=0.01)
        bias = b.constant(rng.integers(-99, 100, depth).astype(np.int32), scale=0.0002)
        options = at.FullyConnectedOptions(at.FusedActivation.NONE)
        x = b.op("FULLY_CONNECTED", [x, weights, bias], (1, depth), DType.INT8, 0.02, attributes=options)
    b.output(x)
    return b.build()


def test_the_first_kernel_does_not_wait_for_a_copy_that_the_second_needs() -> None:
    """It reads its constants through the port of the copy, which is done before the kernel is."""
    (partition,) = npu.compile(connected(80, 20, 10), "ethos-u65-256").compiled_model.partitions
    assert [type(op) for op in partition.operations] == [Convolution, Dma, DmaWait, Convolution, Stop]


def test_few_constants_of_a_kernel_shorter_than_the_latency_of_their_memory_are_copied() -> None:
    copied, _ = copies(connected(1, 16, 16, 1), Hardware("ethos-u65-256"))
    last = npu.compile(connected(1, 16, 16, 1), "ethos-u65-256").compiled_model.partitions[0].operations[-2]
    assert isinstance(last, Convolution)
    assert last.weights[0].region == Region.FAST
    assert copied < 1024


def test_the_latency_of_a_copy_passes_while_the_one_before_it_is_read() -> None:
    """The engine of Ethos-U65 takes two at a time: the second is issued before a kernel waits for the first."""
    (partition,) = npu.compile(connected(256, 256, 256), "ethos-u65-256").compiled_model.partitions
    copied = sum(isinstance(operation, Dma) for operation in partition.operations)
    at_once = [DmaWait(1) == operation for operation in partition.operations if isinstance(operation, DmaWait)]
    assert copied > 8
    assert sum(at_once) >= copied - 2


def test_copies_get_a_little_more_where_encoded_weights_are_longer_than_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_copies, "PRICE_OF_MEMORY", 0.1)  # so that copies have a bound
    content, session = connected(224, 232, 136, 72, 128, 144), Session(Hardware("ethos-u65-256"))
    enough = npu.time_model(npu.compile(content, session=session).content, session=session).report.totals
    monkeypatch.setattr(job_maker, "_MORE", (0,))
    scarce = npu.time_model(npu.compile(content, session=session).content, session=session).report.totals
    assert enough.npu_cycles < 0.995 * scarce.npu_cycles
    assert enough.sram_bytes < 1.2 * scarce.sram_bytes


def few_values_then_many_weights() -> bytes:
    """A convolution over an image of one channel, and all of its result times weights of four classes."""
    b, rng = ModelBuilder(), np.random.default_rng(4)
    x = b.input((1, 50, 40, 1), DType.INT8, scale=0.05)
    kernel = b.constant(rng.integers(-127, 128, (8, 10, 8, 1)).astype(np.int8), scale=[0.01] * 8, zero_point=[0] * 8, axis=0)
    options = at.Conv2DOptions(at.Padding.SAME, 2, 2)
    mid = b.op("CONV_2D", [x, kernel, -1], (1, 25, 20, 8), DType.INT8, 0.5, attributes=options)
    weights = b.constant(rng.integers(-127, 128, (4, 4000)).astype(np.int8), scale=0.01)
    b.output(b.op("FULLY_CONNECTED", [mid, weights, None], (1, 4), DType.INT8, 0.9, attributes=at.FullyConnectedOptions()))
    return b.build()


def test_copies_may_take_more_than_maps_leave_free_where_that_saves_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are copied while the convolution runs, beside whose maps nothing is free; four rows have as many zeros."""
    content, hardware = few_values_then_many_weights(), Hardware("ethos-u55-128")
    copied, usage = copies(content, hardware)
    assert copied > 16 * 1024
    faster = npu.time_model(npu.compile(content, "ethos-u55-128").content).report.totals.npu_cycles
    monkeypatch.setattr(price_copies, "_MORE_BYTES", ())
    none, least = copies(content, hardware)
    assert none == 0
    assert usage.arena_bytes < least.arena_bytes + 24 * 1024
    assert faster < 0.8 * npu.time_model(npu.compile(content, "ethos-u55-128").content).report.totals.npu_cycles


def test_nothing_is_copied_where_all_constants_must_pass_the_same_port() -> None:
    """A kernel that reads its own in place keeps copies from it: all take as long as they have bytes, whoever reads them."""
    copied, usage = copies(connected(58, 256, 128, 64, 1), Hardware("ethos-u55-128"))
    assert copied < 1024
    assert usage.arena_bytes < 1024
