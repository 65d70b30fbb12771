"""Memory settings that do not suit a model: results stay exact, budgets are kept, and what does not fit says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu
from npu.compiler.targets import compiler_targets
from npu.graph.attributes import Conv2DOptions, DepthwiseConv2DOptions, FusedActivation, Padding, Pool2DOptions
from npu.graph.dtype import DType
from npu.reports.report import Report
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.random_graphs import Case, chains, resizing_chains

INT8 = DType.INT8
MODES = ("Sram_Only", "Shared_Sram", "Dedicated_Sram")


def config(folder: Path, arena_bytes: int, target: str = "ethos-u55-128", mode: str = "Shared_Sram") -> Path:
    """A YAML file that extends `target` with a memory mode of `arena_bytes`."""
    path = folder / "small.yaml"
    memory = f"memory_mode:\n  extends: {mode}\n  name: Small\n  arena_cache_bytes: {arena_bytes}\n"
    path.write_text(f"extends: {target}\nname: small-{target}\n{memory}")
    return path


def network(side: int = 24) -> bytes:
    """Convolutions, a depthwise one, and an average pool whose borders divide by fewer elements."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    y = b.input((1, side, side, 4), INT8, scale=0.1, zero_point=2)
    depth = 4
    for count in (24, 24):
        weights = b.constant(rng.integers(-127, 128, (count, 3, 3, depth), np.int8), scale=0.01)
        bias = b.constant(rng.integers(-999, 999, count, np.int32), scale=0.001)
        options = Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.RELU)
        y = b.op("CONV_2D", [y, weights, bias], (1, side, side, count), INT8, 0.1, -128, attributes=options)
        depth = count
    y = b.op(
        "AVERAGE_POOL_2D", [y], (1, side, side, depth), INT8, 0.1, -128, attributes=Pool2DOptions(Padding.SAME, 1, 1, 3, 3)
    )
    kernel = b.constant(rng.integers(-99, 99, (1, 3, 3, depth), np.int8), scale=[0.02] * depth, axis=3)
    zero = b.constant(np.zeros(depth, np.int32), scale=[0.002] * depth)
    stride_2 = DepthwiseConv2DOptions(Padding.SAME, 2, 2, 1)
    y = b.op("DEPTHWISE_CONV_2D", [y, kernel, zero], (1, side // 2, side // 2, depth), INT8, 0.6, 4, attributes=stride_2)
    weights = b.constant(rng.integers(-127, 128, (3, 1, 1, depth), np.int8), scale=0.01)
    zero = b.constant(np.zeros(3, np.int32), scale=0.006)
    last = Conv2DOptions(Padding.SAME, 1, 1)
    b.output(b.op("CONV_2D", [y, weights, zero], (1, side // 2, side // 2, 3), INT8, 0.2, 1, attributes=last))
    return b.build()


def halved_twice(side: int = 64) -> bytes:
    """A convolution that halves an image, and pairs of a depthwise and a pointwise one, of which one halves it again."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    y = b.input((1, side, side, 3), INT8, scale=0.1, zero_point=2)
    for depth, count, kernel, stride in (
        (3, 8, 3, 2),
        (8, 8, 0, 1),
        (8, 16, 1, 1),
        (16, 16, 0, 2),
        (16, 32, 1, 1),
        (32, 32, 0, 1),
    ):
        side //= stride
        zero = b.constant(np.zeros(count, np.int32), scale=[0.002] * count)
        if kernel:
            weights = b.constant(rng.integers(-127, 128, (count, kernel, kernel, depth), np.int8), scale=0.02)
            options = Conv2DOptions(Padding.SAME, stride, stride, FusedActivation.RELU)
            y = b.op("CONV_2D", [y, weights, zero], (1, side, side, count), INT8, 0.1, -128, attributes=options)
        else:
            weights = b.constant(rng.integers(-99, 99, (1, 3, 3, depth), np.int8), scale=[0.02] * depth, axis=3)
            depthwise = DepthwiseConv2DOptions(Padding.SAME, stride, stride, 1)
            inputs = [y, weights, zero]
            y = b.op("DEPTHWISE_CONV_2D", inputs, (1, side, side, count), INT8, 0.1, -128, attributes=depthwise)
    b.output(y)
    return b.build()


def run_exactly(model: bytes, **hardware: Any) -> Report:
    inputs = random_inputs(model, 3)
    expected = run_reference(model, inputs, fully_connected="npu")
    found = npu.run(model, inputs, **hardware)
    for ours, theirs in zip(found.outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return found.report


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "target",
    [name if name == "ethos-u55-256" else pytest.param(name, marks=pytest.mark.slow) for name in compiler_targets()],
)
def test_every_memory_mode_of_every_target_is_exact(target: str, mode: str) -> None:
    for model in (network(), write_model(chains(1, 21)[0].model)):
        run_exactly(model, target=target, memory_mode=mode, system="ethos-u65-high-end" if mode == "Dedicated_Sram" else None)


@pytest.mark.parametrize("arena", [64_000, 24_000, 16_000, 9_000, 5_000, 1_024])
def test_a_small_arena_is_kept_as_far_as_stripes_reach_and_the_result_is_exact(arena: int, tmp_path: Path) -> None:
    """Below the input and the largest map nothing fits, nor would it on the CPU: the NPU keeps everything and needs more."""
    report = run_exactly(network(), config=config(tmp_path, arena))
    assert all(operator.placement == "npu" for operator in report.operators)
    assert (report.totals.sram_bytes <= arena) == (arena > 5_000)


def test_results_in_front_of_what_they_are_made_from_meet_limits_that_nothing_else_does(tmp_path: Path) -> None:
    """Of plans that all exceed a limit, none takes twice the cycles for a few bytes less."""
    model = halved_twice()
    roomy, tight, beyond = (run_exactly(model, config=config(tmp_path, arena)) for arena in (20_480, 16_500, 15_000))
    assert roomy.totals.sram_bytes <= 20_480
    assert tight.totals.sram_bytes <= 16_500
    assert beyond.totals.sram_bytes > 15_000
    assert roomy.totals.npu_cycles <= beyond.totals.npu_cycles < 1.5 * roomy.totals.npu_cycles


@pytest.mark.parametrize("cache", [64_000, 16_000, 4_000, 1_024])
def test_a_small_cache_of_its_own_is_kept_and_the_result_is_exact(cache: int, tmp_path: Path) -> None:
    path = config(tmp_path, cache, "ethos-u65-256", "Dedicated_Sram")
    report = run_exactly(network(), config=path)
    assert all(operator.placement == "npu" for operator in report.operators)
    assert report.totals.sram_bytes <= cache


@pytest.mark.slow
@pytest.mark.parametrize("make", [chains, resizing_chains], ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", range(40))
def test_random_chains_in_small_arenas_are_exact(seed: int, make: Callable[..., list[Case]], tmp_path: Path) -> None:
    model = write_model(make(1, 100 + seed)[0].model)
    whole = npu.compile(model).report.totals.sram_bytes
    for share in (0.8, 0.5, 0.25):
        run_exactly(model, config=config(tmp_path, max(int(whole * share), 1024)))


def tower(seed: int) -> bytes:
    """Four to six windows of any kernel, stride, dilation and padding over maps that are much larger than its input."""
    rng = np.random.default_rng(seed)
    b = ModelBuilder()
    depth, (height, width) = 2, (int(rng.integers(20, 50)), int(rng.integers(5, 24)))
    zero_point = int(rng.integers(-9, 9))
    y = b.input((1, height, width, depth), INT8, scale=0.1, zero_point=zero_point)
    for _ in range(rng.integers(4, 7)):
        kernel, stride = int(rng.integers(1, 5)), int(rng.choice([1, 1, 1, 2]))
        dilation = int(rng.choice([1, 2])) if stride == 1 else 1
        reach, padding = (kernel - 1) * dilation + 1, Padding.VALID
        if reach > min(height, width) or rng.random() < 0.7:
            padding, height, width = Padding.SAME, -(-height // stride), -(-width // stride)
        else:
            height, width = (height - reach) // stride + 1, (width - reach) // stride + 1
        kind, before = str(rng.choice(["CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D"])), depth
        if kind == "AVERAGE_POOL_2D":
            pool = Pool2DOptions(padding, stride, stride, reach, reach)
            y = b.op(kind, [y], (1, height, width, depth), INT8, 0.1, zero_point, attributes=pool)
            continue
        depth = int(rng.choice([16, 20, 32])) if kind == "CONV_2D" else depth
        shape = (depth, kernel, kernel, before) if kind == "CONV_2D" else (1, kernel, kernel, depth)
        axis = 0 if kind == "CONV_2D" else 3
        weights = b.constant(rng.integers(-127, 128, shape, np.int8), scale=[0.01] * depth, axis=axis)
        bias = b.constant(rng.integers(-999, 999, depth, np.int32), scale=[0.001] * depth)
        relu = FusedActivation.RELU
        options = (
            Conv2DOptions(padding, stride, stride, relu, dilation, dilation)
            if kind == "CONV_2D"
            else DepthwiseConv2DOptions(padding, stride, stride, 1, relu, dilation, dilation)
        )
        y = b.op(kind, [y, weights, bias], (1, height, width, depth), INT8, 0.1, -128, attributes=options)
        zero_point = -128
    b.output(y)
    return b.build()


def test_rolling_buffers_are_exact(tmp_path: Path) -> None:
    rolled = 0
    for seed in range(4):
        model = tower(seed)
        whole = npu.compile(model).report.totals.sram_bytes
        path = config(tmp_path, max(int(whole * 0.5), 1024))
        steps = [step for part in npu.compile(model, config=path).compiled_model.partitions for step in part.program.steps]
        rolled += any(step.ofm.storage.is_rolling for step in steps)
        run_exactly(model, config=path)
    assert rolled >= 2
