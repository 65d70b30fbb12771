"""`--optimise size` and `--arena-cache-size`: less SRAM for the same results; a cache of any size is used and not exceeded."""

from __future__ import annotations

import functools
import math
from itertools import pairwise

import numpy as np
import pytest

import npu
from npu.errors import UserError
from npu.graph import attributes as at
from npu.graph.graph import Model
from npu.hardware.choice import Hardware
from npu.isa.operations import KernelOperation
from npu.tflite.writer import write_model
from npu.toolchain.session import Session

from tests.support.litert import random_inputs, run_reference
from tests.support.random_graphs import Sketch, convolved
from tests.support.shared import shared_models

REAL = {name: path for name, path in shared_models().items() if name in ("mlperf_resnet8_int8", "mlperf_kws_int8")}


def sram(content: bytes, target: str, **choices: str) -> int:
    usage = npu.compile(content, target, **choices).compiled_model.usage  # type: ignore[arg-type]
    return usage.arena_bytes + usage.fast_bytes


def block(s: Sketch, x: int, kernels: tuple[int, ...]) -> int:
    """Convolutions of `kernels` one after the other, added to what the first reads."""
    y = functools.reduce(lambda y, kernel: convolved(s, y, kernel, s.shape(x)[3]), kernels, x)
    return s.op("ADD", [x, y], [s.tensor(s.shape(x), 0.4, 3)], at.AddOptions(at.FusedActivation.NONE))


def residual(kernels: tuple[int, ...], shape: tuple[int, ...]) -> bytes:
    """Two blocks between a convolution and a pooling."""
    s = Sketch(np.random.default_rng(len(kernels)))
    depth = shape[3]
    x = convolved(s, s.input((*shape[:3], 2), 0.02, 1), 3, depth)
    for _ in range(2):
        x = block(s, x, kernels)
    pool = at.Pool2DOptions(at.Padding.VALID, 2, 2, 2, 2, at.FusedActivation.NONE)
    halves = (1, shape[1] // 2, shape[2] // 2, depth)
    return write_model(Model((s.graph([s.op("MAX_POOL_2D", [x], [s.tensor(halves, 0.4, 3)], pool)]),)))


@pytest.mark.parametrize("target", ["ethos-u55-128", pytest.param("ethos-u65-256", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["residual", *(pytest.param(name, marks=pytest.mark.slow) for name in REAL)])
def test_size_needs_less_memory_and_gives_the_same_results(name: str, target: str) -> None:
    content = REAL[name].read_bytes() if name in REAL else residual((3, 3), (1, 32, 32, 16))
    assert sram(content, target, optimise="size") < sram(content, target)
    inputs = random_inputs(content, 5)
    outputs = npu.run(content, inputs, target, optimise="size").outputs
    for ours, theirs in zip(outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("depth", [16, pytest.param(32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernels", [(3, 3), (1, 3, 1), (5,)], ids=str)
def test_a_sum_in_a_cascade_replaces_rows_that_the_first_step_has_left(kernels: tuple[int, ...], depth: int) -> None:
    shape = (1, 32, 32, depth)
    content = residual(kernels, shape)
    compiled = npu.compile(content, "ethos-u55-128", optimise="size")
    assert compiled.compiled_model.usage.arena_bytes < 1.9 * math.prod(shape)
    inputs = random_inputs(content, 5)
    for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kernels", [(3,), (3, 3), (3, 3, 3)], ids=len)
def test_an_input_and_an_output_that_lie_in_one_place_count_once(kernels: tuple[int, ...]) -> None:
    """Both are live at the sum, which replaces the input: a limit may be less than what they take side by side."""
    s = Sketch(np.random.default_rng(1))
    x = s.input((1, 32, 32, 16), 0.02, 1)
    content, limit = write_model(Model((s.graph([block(s, x, kernels)]),))), 3 * 32 * 32 * 16 // 2
    compiled = npu.compile(content, "ethos-u55-128", arena_cache_size=limit)
    assert compiled.compiled_model.usage.arena_bytes <= limit
    inputs = random_inputs(content, 5)
    for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_less_arena_costs_cycles_smoothly_and_no_operator_its_place() -> None:
    content = residual((3, 3), (1, 64, 64, 16))
    whole = npu.compile(content).compiled_model.usage.arena_bytes
    times = []
    for share in (1.0, 0.7, 0.56, 0.4):
        session = Session(Hardware(arena_cache_bytes=int(whole * share)))
        compiled = npu.compile(content, session=session)
        assert compiled.compiled_model.usage.arena_bytes <= whole * share
        assert all(not op.violations for op in compiled.compiled_model.placement.ops)
        times.append(npu.time_model(compiled.content).report.totals.total_cycles)
    assert all(later < 1.35 * earlier for earlier, later in pairwise(times))


@pytest.mark.parametrize("bytes_", [24_000, 40_000, 65_536])
def test_a_small_separate_cache_is_not_exceeded(bytes_: int) -> None:
    content = residual((3, 3), (1, 32, 32, 16))
    usage = npu.compile(content, session=Session(Hardware("ethos-u65-256", arena_cache_bytes=bytes_))).compiled_model.usage
    assert 0 < usage.fast_bytes <= bytes_


def test_what_cannot_fit_is_not_cut() -> None:
    """The input alone exceeds 1 KiB: stripes would cost cycles and still not fit."""
    content = residual((3, 3), (1, 32, 32, 16))
    small = npu.compile(content, session=Session(Hardware(arena_cache_bytes=1024))).compiled_model
    whole = npu.compile(content).compiled_model
    assert [len(part.program.steps) for part in small.partitions] == [len(part.program.steps) for part in whole.partitions]
    assert all(not op.violations for op in small.placement.ops)


def test_an_unknown_goal_is_refused_with_the_names() -> None:
    with pytest.raises(UserError, match="optimise: must be one of performance, size, got 'speed'"):
        npu.compile(residual((3, 3), (1, 32, 32, 16)), optimise="speed")


def test_stripes_of_any_height_say_once_how_high_the_tile_is_that_they_do_not_use() -> None:
    (partition,) = npu.compile(residual((3, 3), (1, 32, 32, 16)), optimise="size").compiled_model.partitions
    maps = [operation.ofm for operation in partition.operations if isinstance(operation, KernelOperation)]
    assert len({fm.height for fm in maps}) > 1
    assert {fm.tile_height_1 for fm in maps} == {1}


@pytest.mark.parametrize("kernels", [(1, 3, 1), (3, 3)], ids=str)
def test_a_wider_arena_costs_no_more_than_a_tighter_one(kernels: tuple[int, ...]) -> None:
    """Smaller maps leave room for copies of weights, which may save more than stripes cost."""
    content = residual(kernels, (1, 48, 48, 16))
    whole = npu.compile(content).compiled_model.usage.arena_bytes
    times = []
    for share in (0.9, 0.7, 0.56):
        compiled = npu.compile(content, session=Session(Hardware(arena_cache_bytes=int(whole * share))))
        times.append(npu.time_model(compiled.content).report.totals.total_cycles)
    assert all(wider <= 1.02 * tighter for wider, tighter in pairwise(times))


def random_chain(seed: int) -> bytes:
    """Convolutions, depthwise ones, poolings and sums of random shapes, one after the other: large maps and few weights."""
    s = Sketch(np.random.default_rng([seed, 5]))
    x = s.input((1, int(s.pick((24, 31, 40))), int(s.pick((16, 20, 25))), int(s.pick((2, 3, 8)))), 0.02, 1)
    for _ in range(int(s.pick((5, 7)))):
        (_, height, width, depth), kind = s.shape(x), s.pick(("conv", "conv", "depthwise", "pool", "sum"))
        kernel, stride = int(s.pick((1, 3, 5))), int(s.pick((1, 1, 2))) if height > 8 else 1
        made = (1, -(-height // stride), -(-width // stride), depth)
        if kind == "conv":
            made = (*made[:3], int(s.pick((4, 8, 12, 16, 24))))
            weights = s.weights((made[3], kernel, kernel, depth), 0, per_channel=True)
            conv = at.Conv2DOptions(at.Padding.SAME, stride, stride, at.FusedActivation.RELU, 1, 1)
            x = s.op("CONV_2D", [x, weights, s.bias(x, weights, made[3], 1000)], [s.tensor(made, 0.25, 5)], conv)
        elif kind == "depthwise":
            weights = s.weights((1, kernel, kernel, depth), 3, per_channel=True)
            deep = at.DepthwiseConv2DOptions(at.Padding.SAME, stride, stride, 1, at.FusedActivation.NONE, 1, 1)
            x = s.op("DEPTHWISE_CONV_2D", [x, weights, s.bias(x, weights, depth, 1000)], [s.tensor(made, 0.2, -3)], deep)
        elif kind == "pool":
            pool = at.Pool2DOptions(at.Padding.SAME, stride, stride, kernel, kernel, at.FusedActivation.NONE)
            like = s.tensors[x].quantization
            assert like is not None
            x = s.op("MAX_POOL_2D", [x], [s.tensor(made, like.scale, like.zero_point)], pool)
        else:
            x = s.op("ADD", [x, x], [s.tensor(s.shape(x), 0.4, 3)], at.AddOptions(at.FusedActivation.NONE))
    return write_model(Model((s.graph([x]),)))


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 80))])
def test_random_chains_give_the_same_results_in_the_least_memory(seed: int) -> None:
    content = random_chain(seed)
    inputs = random_inputs(content, seed)
    outputs = npu.run(content, inputs, ("ethos-u55-128", "ethos-u55-32", "ethos-u55-256")[seed % 3], optimise="size").outputs
    for ours, theirs in zip(outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("seed", [5, 16])
def test_bytes_that_two_maps_have_in_common_are_counted_once(seed: int) -> None:
    """A result in stripes lies where its operand was read: no more than the arena is said to be in use at a time."""
    compiled = npu.compile(random_chain(seed), "ethos-u55-32", optimise="size").compiled_model
    assert max(peak.bytes for peak in compiled.memory.peaks) <= compiled.usage.arena_bytes
