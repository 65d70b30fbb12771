"""Models of odd structure: several partitions, outputs that are inputs or constants or views, batches, nothing to compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu
from npu.compiler.targets import compiler_targets
from npu.graph.attributes import (
    AddOptions,
    ConcatenationOptions,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    FullyConnectedOptions,
    FusedActivation,
    Padding,
    Pool2DOptions,
    ReshapeOptions,
    ResizeBilinearOptions,
    ReverseV2Options,
    SoftmaxOptions,
)
from npu.graph.dtype import DType
from npu.toolchain.run import RunResult

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

QUICK = ("ethos-u55-128", "ethos-u65-512")
TARGETS = [target if target in QUICK else pytest.param(target, marks=pytest.mark.slow) for target in compiler_targets()]
INT8 = DType.INT8


def image(b: ModelBuilder, shape: tuple[int, ...] = (1, 6, 6, 8)) -> int:
    return b.input(shape, INT8, scale=0.1, zero_point=3)


def conv(b: ModelBuilder, x: int, shape: tuple[int, ...], depth: int = 8, seed: int = 1) -> int:
    """A 3x3 SAME convolution to `depth` channels; `shape` is that of x."""
    rng = np.random.default_rng(seed)
    weights = b.constant(
        rng.integers(-127, 128, (depth, 3, 3, shape[3]), np.int8), scale=[0.01 * (i + 1) for i in range(depth)]
    )
    bias = b.constant(rng.integers(-999, 999, depth, np.int32), scale=[0.001 * (i + 1) for i in range(depth)])
    options = Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE)
    return b.op("CONV_2D", [x, weights, bias], (*shape[:3], depth), INT8, 0.9, 3, attributes=options)


def add(b: ModelBuilder, x: int, y: int, shape: tuple[int, ...]) -> int:
    return b.op("ADD", [x, y], shape, INT8, 0.7, -5, attributes=AddOptions())


def reshape(b: ModelBuilder, x: int, shape: tuple[int, ...]) -> int:
    target = b.constant(np.array(shape, np.int32))
    return b.op("RESHAPE", [x, target], shape, INT8, 0.1, 3, attributes=ReshapeOptions(shape))


def upside_down(b: ModelBuilder, x: int, shape: tuple[int, ...]) -> int:
    """Rows in reverse: an operator for the CPU."""
    return b.op("REVERSE_V2", [x, b.constant(np.array([1], np.int32))], shape, INT8, 0.9, 3, attributes=ReverseV2Options())


def partitions_with_cpu_operators_between() -> bytes:
    b, shape = ModelBuilder(), (1, 6, 6, 8)
    x = image(b)
    for seed in range(3):
        x = upside_down(b, conv(b, x, shape, seed=seed), shape)
    b.output(conv(b, x, shape, seed=9))
    return b.build()


def cpu_operators_beside_a_partition() -> bytes:
    b, shape = ModelBuilder(), (1, 6, 6, 8)
    x = image(b)
    left, right = conv(b, x, shape), upside_down(b, x, shape)
    joined = add(b, left, right, shape)
    b.output(joined, left, right)
    return b.build()


def an_output_that_is_an_input() -> bytes:
    b = ModelBuilder()
    x = image(b)
    b.output(conv(b, x, (1, 6, 6, 8)), x)
    return b.build()


def an_output_that_is_a_constant() -> bytes:
    b = ModelBuilder()
    x = image(b)
    fixed = b.constant(np.arange(12, dtype=np.int8).reshape(3, 4), scale=0.5)
    b.output(fixed, conv(b, x, (1, 6, 6, 8)))
    return b.build()


def an_output_given_twice() -> bytes:
    b = ModelBuilder()
    y = conv(b, image(b), (1, 6, 6, 8))
    b.output(y, y)
    return b.build()


def a_result_used_twice_by_one_operator() -> bytes:
    b, shape = ModelBuilder(), (1, 6, 6, 8)
    y = conv(b, image(b), shape)
    b.output(add(b, y, y, shape))
    return b.build()


def a_result_joined_with_itself() -> bytes:
    b, shape = ModelBuilder(), (1, 6, 6, 8)
    y = conv(b, image(b), shape)
    b.output(b.op("CONCATENATION", [y, y], (1, 6, 6, 16), INT8, 0.9, 3, attributes=ConcatenationOptions(3)), y)
    return b.build()


def weights_shared_by_two_operators() -> bytes:
    b, shape = ModelBuilder(), (1, 6, 6, 8)
    rng = np.random.default_rng(2)
    weights = b.constant(rng.integers(-127, 128, (8, 1, 1, 8), np.int8), scale=0.02)
    bias = b.constant(rng.integers(-99, 99, 8, np.int32), scale=0.002)
    x = image(b)
    for _ in range(2):
        x = b.op("CONV_2D", [x, weights, bias], shape, INT8, 0.1, 3, attributes=Conv2DOptions(Padding.SAME, 1, 1))
    b.output(x)
    return b.build()


def no_operators() -> bytes:
    b = ModelBuilder()
    b.output(image(b))
    return b.build()


def only_a_reshape() -> bytes:
    b = ModelBuilder()
    b.output(reshape(b, image(b), (1, 288)))
    return b.build()


def only_a_concatenation_of_inputs() -> bytes:
    b = ModelBuilder()
    x, y = image(b), image(b)
    b.output(b.op("CONCATENATION", [x, y, x], (1, 6, 18, 8), INT8, 0.1, 3, attributes=ConcatenationOptions(2)))
    return b.build()


def a_reshape_of_an_output() -> bytes:
    b = ModelBuilder()
    x = image(b)
    y = b.op("RELU", [x], (1, 6, 6, 8), INT8, 0.1, 3)
    b.output(y, reshape(b, y, (6, 48)), reshape(b, x, (36, 8)))
    return b.build()


def views_of_views() -> bytes:
    b = ModelBuilder()
    x = image(b)
    flat = reshape(b, reshape(b, x, (6, 48)), (2, 144))
    joined = b.op("CONCATENATION", [flat, flat], (4, 144), INT8, 0.1, 3, attributes=ConcatenationOptions(0))
    b.output(reshape(b, joined, (1, 12, 6, 8)))
    return b.build()


def unused_results_and_inputs() -> bytes:
    b, shape = ModelBuilder(), (1, 6, 6, 8)
    x = image(b)
    image(b)
    conv(b, x, shape, seed=4)
    b.output(conv(b, x, shape))
    return b.build()


def a_batch_of_three() -> bytes:
    b, shape = ModelBuilder(), (3, 6, 6, 8)
    y = conv(b, image(b, shape), shape)
    kernel = b.constant(np.random.default_rng(3).integers(-99, 99, (1, 3, 3, 8), np.int8), scale=[0.02] * 8, axis=3)
    zero = b.constant(np.zeros(8, np.int32), scale=[0.018] * 8)
    options: Any = DepthwiseConv2DOptions(Padding.SAME, 2, 2, 1)
    y = b.op("DEPTHWISE_CONV_2D", [y, kernel, zero], (3, 3, 3, 8), INT8, 1.1, 4, attributes=options)
    y = add(b, y, y, (3, 3, 3, 8))
    pooled = Pool2DOptions(Padding.SAME, 2, 2, 2, 2)
    y = b.op("AVERAGE_POOL_2D", [y], (3, 2, 2, 8), INT8, 0.7, -5, attributes=pooled)
    y = b.op("RESIZE_BILINEAR", [y, b.constant(np.array([4, 4], np.int32))], (3, 4, 4, 8), INT8, 0.7, -5,
             attributes=ResizeBilinearOptions())  # fmt: skip
    y = b.op("MAX_POOL_2D", [y], (3, 1, 1, 8), INT8, 0.7, -5, attributes=Pool2DOptions(Padding.VALID, 4, 4, 4, 4))
    y = b.op("RESHAPE", [y, b.constant(np.array((3, 8), np.int32))], (3, 8), INT8, 0.7, -5, attributes=ReshapeOptions((3, 8)))
    weights = b.constant(np.random.default_rng(4).integers(-99, 99, (5, 8), np.int8), scale=0.01)
    y = b.op("FULLY_CONNECTED", [y, weights, None], (3, 5), INT8, 0.2, 0, attributes=FullyConnectedOptions())
    b.output(b.op("SOFTMAX", [y], (3, 5), INT8, 1 / 256, -128, attributes=SoftmaxOptions(1.0)))
    return b.build()


def a_second_subgraph() -> bytes:
    """A subgraph with operators for the NPU that no operator calls, beside the main one."""
    b, shape = ModelBuilder(), (1, 6, 6, 8)
    b.output(conv(b, image(b), shape))
    other = ModelBuilder("other")
    other.output(conv(other, upside_down(other, image(other), shape), shape, seed=5))
    b.subgraph(other)
    return b.build()


MODELS: dict[str, Callable[[], bytes]] = {
    make.__name__: make
    for make in (
        partitions_with_cpu_operators_between,
        cpu_operators_beside_a_partition,
        an_output_that_is_an_input,
        an_output_that_is_a_constant,
        an_output_given_twice,
        a_result_used_twice_by_one_operator,
        a_result_joined_with_itself,
        weights_shared_by_two_operators,
        no_operators,
        only_a_reshape,
        only_a_concatenation_of_inputs,
        a_reshape_of_an_output,
        views_of_views,
        unused_results_and_inputs,
        a_batch_of_three,
        a_second_subgraph,
    )
}


def assert_equal_to_the_reference(model: bytes, **hardware: Any) -> RunResult:
    inputs = random_inputs(model, 8)
    expected = run_reference(model, inputs, fully_connected="npu")
    found = npu.run(model, inputs, **hardware)
    assert len(found.outputs) == len(expected)
    for ours, theirs in zip(found.outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_odd_structure_is_exact(name: str, target: str) -> None:
    assert_equal_to_the_reference(MODELS[name](), target=target)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["Sram_Only", "Dedicated_Sram"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_odd_structure_is_exact_in_other_memory_modes(name: str, mode: str) -> None:
    assert_equal_to_the_reference(MODELS[name](), target="ethos-u65-256", memory_mode=mode)


def test_four_partitions_alternate_with_the_cpu() -> None:
    report = assert_equal_to_the_reference(partitions_with_cpu_operators_between(), target="ethos-u55-128").report
    assert [operator.placement for operator in report.operators] == ["npu", "cpu"] * 3 + ["npu"]
