"""What the least memory may cost: a little more of it where that saves far more cycles, and limits that nothing can meet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.compiler.compiled import CompiledModel
from npu.graph import attributes as at
from npu.graph.ethos_u import Region
from npu.graph.graph import Model
from npu.isa.operations import Dma, KernelOperation, Layout, Pooling
from npu.tflite.writer import write_model

from tests.npu.compiler.test_goal import random_chain
from tests.support.architectures import ARCHITECTURES
from tests.support.litert import random_inputs, run_reference
from tests.support.networks import network
from tests.support.random_graphs import Sketch, convolved


def model_of(make: Callable[[Sketch], int]) -> bytes:
    s = Sketch(np.random.default_rng(1))
    return write_model(Model((s.graph([make(s)]),)))


def compiled(content: bytes, target: str, **choices: str | int) -> CompiledModel:
    """The compiled model, whose file has given what LiteRT's reference does."""
    result = npu.compile(content, target, **choices)  # type: ignore[arg-type]
    inputs = random_inputs(content, 3)
    for ours, theirs in zip(npu.run(result.content, inputs, target).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return result.compiled_model


def kernels(model: CompiledModel) -> list[KernelOperation]:
    return [one for part in model.partitions for one in part.operations if isinstance(one, KernelOperation)]


def padded(s: Sketch) -> int:
    amounts = s.numbers([[0, 0], [31, 31], [31, 31], [0, 0]])
    return s.op("PAD", [s.input((1, 2, 2, 3), 0.02, 1), amounts], [s.tensor((1, 64, 64, 3), 0.02, 1)], at.PadOptions())


def pooled_far(s: Sketch) -> int:
    x = convolved(s, s.input((1, 64, 64, 1), 0.02, 1), 3, 8)
    pool = at.Pool2DOptions(at.Padding.VALID, 4, 4, 4, 4, at.FusedActivation.NONE)
    return s.op("AVERAGE_POOL_2D", [x], [s.tensor((1, 16, 16, 8), 0.25, 5)], pool)


@pytest.mark.parametrize("goal", ["performance", "size"])
@pytest.mark.parametrize("make", [padded, pooled_far])
def test_what_has_many_parts_takes_few_operations(make: Callable[[Sketch], int], goal: str) -> None:
    """A border much larger than the map in it doubles; far windows are pooled along one axis after the other."""
    model = compiled(model_of(make), "ethos-u65-256", optimise=goal)
    assert len(kernels(model)) <= 40


def widened(s: Sketch) -> int:
    """A large kernel over an input of 4 KiB, and much larger maps behind."""
    x, weights = s.input((1, 64, 64, 1), 0.02, 1), s.weights((1, 15, 15, 1), 0, per_channel=True)
    options = at.Conv2DOptions(at.Padding.VALID, 1, 1, at.FusedActivation.RELU, 1, 1)
    x = s.op("CONV_2D", [x, weights, s.bias(x, weights, 1, 1000)], [s.tensor((1, 50, 50, 1), 0.25, 5)], options)
    return convolved(s, convolved(s, x, 1, 8), 3, 1)


@pytest.mark.parametrize("goal", ["performance", "size"])
def test_an_input_that_is_read_again_and_again_is_copied_even_for_size_where_the_peak_is_elsewhere(goal: str) -> None:
    """The copy's columns become channels, which pays only there: the price of this way has the copy in it."""
    first, second, *_ = kernels(compiled(model_of(widened), "ethos-u65-256", optimise=goal))
    assert (first.ifm.region, first.ofm.region, second.ifm.region) == (Region.ARENA, Region.FAST, Region.FAST)
    assert isinstance(first, Pooling)
    assert second.ifm.depth == 15


def wide(s: Sketch) -> int:
    return convolved(s, s.input((1, 21, 21, 320), 0.02, 1), 1, 320)


def test_an_input_that_every_slice_of_weights_reads_again_is_copied_for_size_though_the_peak_grows() -> None:
    """By a half, for less than half of the cycles."""
    copy, *_ = kernels(compiled(model_of(wide), "ethos-u65-256", optimise="size"))
    assert (copy.ifm.region, copy.ofm.region) == (Region.ARENA, Region.FAST)


def narrow(s: Sketch) -> int:
    x = convolved(s, s.input((1, 1, 1, 16), 0.02, 1), 1, 16)
    return convolved(s, convolved(s, x, 1, 16), 1, 16)


def test_weights_of_a_few_bytes_are_copied_for_size_into_a_memory_of_the_npu_alone() -> None:
    content = model_of(narrow)
    for target, is_copied in (("ethos-u85-256", True), ("ethos-u55-128", False)):
        model = compiled(content, target, optimise="size")
        copies = [one for part in model.partitions for one in part.operations if isinstance(one, Dma)]
        assert bool(copies) is is_copied
        assert model.usage.fast_bytes <= 6 * 1024


def pyramid(s: Sketch) -> int:
    """An input of 16 KiB and maps in between of 128."""
    x = convolved(s, s.input((1, 64, 64, 4), 0.02, 1), 1, 32)
    return convolved(s, convolved(s, x, 3, 32), 3, 4, stride=4)


@pytest.mark.parametrize("goal", ["performance", "size"])
def test_where_the_input_alone_exceeds_the_limit_the_rest_is_made_smaller(goal: str) -> None:
    content, seen = model_of(pyramid), 64 * 64 * 4
    near = compiled(content, "ethos-u55-128", arena_cache_size=seen - 2048, optimise=goal)
    assert seen < near.usage.arena_bytes < 3 * seen
    assert near.memory.peaks[0].visible_bytes == seen


@pytest.mark.parametrize(("seed", "percent"), [(1, 100), (1, 110), (22, 100), (25, 100)])
def test_limits_that_performance_cannot_meet_are_met_as_size_does(seed: int, percent: int) -> None:
    """Also where the plan beyond the limit is worth more by its cycles times its bytes."""
    content = random_chain(seed)
    limit = npu.compile(content, optimise="size").compiled_model.usage.arena_bytes * percent // 100
    assert compiled(content, "ethos-u55-128", arena_cache_size=limit).usage.arena_bytes <= limit


@pytest.mark.parametrize("seed", [0, 4])
def test_for_size_a_limit_counts_more_than_cycles(seed: int) -> None:
    content = random_chain(seed)
    limit = npu.compile(content, optimise="size").compiled_model.usage.arena_bytes * 9 // 10
    assert compiled(content, "ethos-u55-128", arena_cache_size=limit, optimise="size").usage.arena_bytes <= limit


@pytest.mark.parametrize(("seed", "most_bytes"), [(27, 26160), (74, 13248)])
def test_most_stripes_read_weights_as_they_are_encoded_for_others(seed: int, most_bytes: int) -> None:
    """Plans that take less memory are not dismissed for flash that they do not take."""
    assert compiled(network(seed, scarce=False), "ethos-u55-128", optimise="size").usage.arena_bytes <= most_bytes


def unrolled(s: Sketch) -> int:
    """All of ten convolutions of one input, and then their sum, one after the other: as an unrolled cell is written."""
    x = s.input((1, 16, 16, 8), 0.02, 1)
    terms = [convolved(s, x, 1, 8) for _ in range(10)]
    total = terms[0]
    for term in terms[1:]:
        total = s.op("ADD", [total, term], [s.tensor((1, 16, 16, 8), 0.4, 3)], at.AddOptions(at.FusedActivation.NONE))
    return total


@pytest.mark.parametrize("goal", ["performance", "size"])
def test_operators_of_a_job_run_where_their_results_are_needed(goal: str) -> None:
    model = compiled(model_of(unrolled), "ethos-u55-128", optimise=goal)
    assert model.usage.arena_bytes < 6 * 16 * 16 * 8


def test_less_memory_may_cost_a_few_cycles() -> None:
    """By the estimate: results that begin in front of their operands take the digit a sixth less memory."""
    digits = Path(__file__).parents[3] / "examples" / "digits.tflite"
    assert npu.compile(digits, "ethos-u55-32", optimise="size").compiled_model.usage.arena_bytes <= 1408


def focused(s: Sketch) -> int:
    """Every other pixel of an image, four times, side by side: as detectors begin."""
    x, parts = s.input((1, 32, 32, 3), 0.02, 1), []
    for y, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        bounds = [s.numbers(values) for values in ([0, y, column, 0], [1, 32, 32, 3], [1, 2, 2, 1])]
        options = at.StridedSliceOptions(begin_mask=0, end_mask=0)
        parts.append(s.op("STRIDED_SLICE", [x, *bounds], [s.tensor((1, 16, 16, 3), 0.02, 1)], options))
    joined = s.op("CONCATENATION", parts, [s.tensor((1, 16, 16, 12), 0.02, 1)], at.ConcatenationOptions(3))
    return convolved(s, joined, 3, 8)


def test_slices_that_are_copied_lie_where_they_are_joined() -> None:
    assert len(kernels(compiled(model_of(focused), "ethos-u55-128"))) == 4 + 1


def shallow(s: Sketch, depth: int) -> int:
    """Maps that are filled up to bricks of 16 channels, and convolutions that cannot be cut for little."""
    x = s.input((1, 20, 20, depth), 0.02, 1)
    for _ in range(3):
        made = convolved(s, convolved(s, x, 1, depth), 3, depth)
        x = s.op("ADD", [x, made], [s.tensor((1, 20, 20, depth), 0.4, 3)], at.AddOptions(at.FusedActivation.NONE))
    return x


def layouts(model: CompiledModel) -> set[Layout]:
    return {view.layout for one in kernels(model) for view in (one.ifm, one.ofm)}


def test_maps_are_not_padded_for_size_where_that_costs_more_than_it_saves() -> None:
    content, map_bytes = model_of(partial(shallow, depth=12)), 20 * 20 * 12
    small, fast = (compiled(content, "ethos-u55-128", optimise=goal) for goal in ("size", "performance"))
    assert small.usage.arena_bytes <= 3 * map_bytes < fast.usage.arena_bytes


def test_maps_are_padded_for_size_where_that_saves_more_than_it_costs() -> None:
    """A fifteenth more memory for ADDs that read faster."""
    small = compiled(model_of(partial(shallow, depth=15)), "ethos-u55-128", optimise="size")
    assert small.usage.arena_bytes < 20 * 20 * (15 + 2 * 16)
    assert Layout.NHCWB16 in layouts(small)


def test_bytes_of_maps_do_not_count_for_size_in_a_cache_that_they_exceed() -> None:
    content = model_of(partial(shallow, depth=12))
    made = npu.compile(content, "ethos-u65-256", optimise="size", arena_cache_size=4000)
    assert npu.time_model(made.content).report.totals.total_cycles < 92_000


def begun_and_ended_alike(s: Sketch) -> int:
    """Two levels of a network that joins what it began with to what it ends with."""
    x = s.input((1, 32, 32, 1), 0.02, 1)
    first = convolved(s, x, 3, 8)
    second = convolved(s, convolved(s, first, 3, 8, stride=2), 3, 16)
    inner = convolved(s, convolved(s, second, 3, 32, stride=2), 3, 32)
    return joined_with(s, first, joined_with(s, second, inner))


def joined_with(s: Sketch, early: int, late: int) -> int:
    """A convolution of a map beside another, which is made as large."""
    _, height, width, depth = s.shape(early)
    options = at.ResizeNearestNeighborOptions()
    last = s.tensors[late]
    assert last.quantization is not None
    zero_point = last.quantization.zero_point
    shape = (1, height, width, last.shape[3])
    late = s.op("RESIZE_NEAREST_NEIGHBOR", [late, s.numbers([height, width])], [s.tensor(shape, 0.25, zero_point)], options)
    whole = s.tensor((1, height, width, depth + last.shape[3]), 0.25, zero_point)
    return convolved(s, s.op("CONCATENATION", [early, late], [whole], at.ConcatenationOptions(3)), 3, depth)


def test_results_of_joins_are_not_in_memory_long_before_for_size() -> None:
    """The first map takes 8 KiB, the join in which it could lie 24."""
    content = model_of(begun_and_ended_alike)
    small, fast = (compiled(content, "ethos-u55-128", optimise=goal).usage.arena_bytes for goal in ("size", "performance"))
    assert small < 0.75 * fast


def nested(*depths: int) -> bytes:
    """Maps of so many channels, each half as high and wide as the one before it, and joined to what comes of the others."""

    def make(s: Sketch) -> int:
        x, early = s.input((1, 32, 32, 3), 0.02, 1), list[int]()
        for depth in depths[:-1]:
            early.append(convolved(s, x, 3, depth))
            _, height, width, _ = s.shape(early[-1])
            like = s.tensors[early[-1]].quantization
            assert like is not None
            pool = at.Pool2DOptions(at.Padding.VALID, 2, 2, 2, 2)
            half = s.tensor((1, height // 2, width // 2, depth), like.scale, like.zero_point)
            x = s.op("MAX_POOL_2D", [early[-1]], [half], pool)
        x = convolved(s, x, 3, depths[-1])
        for one in reversed(early):
            x = joined_with(s, one, x)
        return x

    return model_of(make)


@pytest.mark.parametrize(("depths", "limit"), [((32, 48, 64), 70329), ((16, 16, 16), 26968), ((8, 8, 8), 12576)])
def test_a_limit_that_only_late_joins_meet_leaves_everything_on_the_npu(depths: tuple[int, ...], limit: int) -> None:
    """Else five or six operators would go to the CPU for lack of memory."""
    model = compiled(nested(*depths), "ethos-u55-128", arena_cache_size=limit)
    assert model.usage.arena_bytes <= limit
    assert not any(op.violations for op in model.placement.ops)


@pytest.mark.parametrize("seed", [7, 12, 22])
def test_performance_in_the_memory_that_size_takes_is_as_fast(seed: int) -> None:
    content = random_chain(seed)
    small = npu.compile(content, optimise="size")
    limited = npu.compile(content, arena_cache_size=small.compiled_model.usage.arena_bytes)
    ours, sizes = (npu.time_model(one.content).report.totals.total_cycles for one in (limited, small))
    assert ours <= 1.05 * sizes


@pytest.mark.parametrize(
    ("content", "most_bytes", "most_cycles"),
    [
        (random_chain(4), 3200, 17_500),
        (random_chain(117), 2880, 11_500),  # 2,176 bytes would take 21,885 cycles
        (network(112, scarce=False), 15_500, 118_000),
        (network(42, scarce=False), 66_500, 510_000),
        (network(146, scarce=False), 5800, 15_500),
        (network(98, scarce=False), 24_000, 357_000),
    ],
)
def test_cutting_for_the_least_does_not_end_with_more(content: bytes, most_bytes: int, most_cycles: int) -> None:
    """Plans for the peak that was found are 5 to 11 % faster, in no more bytes."""
    made = npu.compile(content, optimise="size")
    assert made.compiled_model.usage.arena_bytes <= most_bytes
    assert npu.time_model(made.content).report.totals.total_cycles <= most_cycles


def test_a_deep_chain_comes_ahead_of_its_first_stripe() -> None:
    """Ten windows of 3x3 in a row: 102,400 bytes and 24.2 M cycles where buffers hold what the first stripe needs."""
    made = npu.compile(ARCHITECTURES["dncnn_64"](), "ethos-u55-32", optimise="size")
    assert made.compiled_model.usage.arena_bytes <= 80_000
    assert npu.time_model(made.content, target="ethos-u55-32").report.totals.npu_cycles <= 10_600_000


def test_stripes_that_cost_more_than_they_save_are_none_for_size_in_a_cache() -> None:
    """They would take two thirds of the memory, and 1.34 M cycles."""
    made = npu.compile(ARCHITECTURES["unetpp_64"](), "ethos-u65-256", optimise="size")
    assert npu.time_model(made.content, target="ethos-u65-256").report.totals.total_cycles <= 1_000_000
