"""ARG_MAX: indices of 32 and 64 bits, in the fastest plan and in parts; over other axes than the last, too, on Ethos-U85."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.api import check, verify
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import Region, is_npu_job
from npu.graph.placement import Device
from npu.isa.operations import AccumulatorFormat, KernelOperation, Pooling, PoolingMode, Rounding

from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference


def network(shape: tuple[int, int, int], dtype: DType, indices: DType) -> bytes:
    """An ARG_MAX behind a convolution."""
    net = Layers(1, dtype)
    return compared(net, net.conv(net.input(*shape), shape[2], 1), indices)


def compared(net: Layers, x: int, indices: DType) -> bytes:
    """An ARG_MAX of the channels of a map."""
    options = at.ArgMaxOptions(indices)
    return net.finish(net.b.op("ARG_MAX", [x, net.ints(3)], net.shape(x)[:3], indices, attributes=options))


@pytest.mark.parametrize("indices", [DType.INT32, DType.INT64], ids=str)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
@pytest.mark.parametrize("shape", [(9, 11, 6), (1, 5, 21), (33, 17, 128), (7, 7, 1)], ids=str)
def test_the_first_of_the_largest_is_found(shape: tuple[int, int, int], dtype: DType, indices: DType) -> None:
    content = network(shape, dtype, indices)
    inputs = random_inputs(content, 2)
    (expected,) = run_reference(content, inputs)
    for target in ("ethos-u55-128", "ethos-u65-256"):
        whole = npu.compile(content, target)
        small = npu.compile(content, target, optimise="size")
        half = npu.compile(content, target, arena_cache_size=max(whole.compiled_model.usage.arena_bytes // 2, 1024))
        for made in (whole, small, half):
            (found,) = npu.run(made.content, inputs, target).outputs
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
        assert all(map(is_npu_job, whole.compiled_model.model.graphs[0].ops))


@pytest.mark.parametrize("indices", [DType.INT32, DType.INT64], ids=str)
@pytest.mark.parametrize("shape", [(9, 11, 6), (1, 5, 21), (33, 17, 128), (7, 7, 1), (3, 5, 1001), (1, 1, 32768)], ids=str)
def test_places_are_those_of_the_first_of_the_largest(shape: tuple[int, int, int], indices: DType) -> None:
    """The value below the place is cut off, as Vela 5.2 does: rounded, it could count for one place more."""
    net = Layers(1)
    content = compared(net, net.pool(net.input(*shape), k=1), indices)
    (values,) = random_inputs(content, 2)
    for inputs in (values, np.minimum(values, 0), np.full_like(values, -128)):
        (expected,) = run_reference(content, [inputs])
        for target in ("ethos-u85-128", "ethos-u85-512", "ethos-u85-2048"):
            for optimise in ("performance", "size"):
                made = npu.compile(content, target, optimise=optimise)
                (found,) = npu.run(made.content, [inputs], target).outputs
                np.testing.assert_array_equal(found, expected)
                assert verify(made.content) == []
                (partition,) = made.compiled_model.partitions
                finding = [one for one in partition.operations if isinstance(one, Pooling) and one.mode is PoolingMode.ARGMAX_X]
                assert finding
                assert {(one.rounding, one.accumulator) for one in finding} == {(Rounding.FLOOR, AccumulatorFormat.INT48)}


def test_more_channels_than_places_are_refused() -> None:
    net = Layers(1)
    content = compared(net, net.pool(net.input(1, 1, 32769), k=1), DType.INT32)
    (placed,) = [one for one in check(content, target="ethos-u85-256").ops if one.kind == "ARG_MAX"]
    assert [violation.message for violation in placed.violations] == [
        "elements along the axis must be in the range [1, 32768], got elements 32769"
    ]


def over(axis: int, shape: tuple[int, ...], dtype: DType, indices: DType) -> bytes:
    """An ARG_MAX over any axis."""
    b = ModelBuilder()
    x, table = b.input(shape, dtype, scale=0.1), b.constant(np.array(axis, np.int32))
    made = shape[:axis] + shape[axis:][1:]
    b.output(b.op("ARG_MAX", [x, table], made, indices, None, attributes=at.ArgMaxOptions(indices)))
    return b.build()


@pytest.mark.parametrize("indices", [DType.INT32, DType.INT64], ids=str)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
@pytest.mark.parametrize(
    ("axis", "shape"),
    [
        *((1, (1, 20, 30, 16)), (2, (1, 20, 30, 16)), (0, (2, 20, 3, 16)), (1, (1, 2304, 17))),
        *((1, (1, 600, 1)), (1, (3, 5, 7, 9)), (0, (7, 300))),
    ],
)
def test_other_axes_than_the_last_are_columns(axis: int, shape: tuple[int, ...], dtype: DType, indices: DType) -> None:
    content = over(axis, shape, dtype, indices)
    inputs = random_inputs(content, 3)
    (expected,) = run_reference(content, inputs)
    for target in ("ethos-u85-128", "ethos-u85-1024"):
        made = npu.compile(content, target)
        (found,) = npu.run(made.content, inputs, target).outputs
        np.testing.assert_array_equal(found, expected)
        assert all(map(is_npu_job, made.compiled_model.model.graphs[0].ops))
        assert verify(made.content) == []


def test_other_axes_than_the_last_stay_on_the_cpu_without_an_operation_for_places() -> None:
    (placed,) = check(over(1, (1, 20, 30, 16), DType.INT8, DType.INT32), target="ethos-u65-512").ops
    assert [violation.message for violation in placed.violations] == ["axis, counted from the end, must be -1, got axis -3"]


def test_more_elements_around_an_axis_than_registers_can_say_stay_on_the_cpu() -> None:
    compiled = npu.compile(over(0, (2, 65537), DType.INT8, DType.INT32), "ethos-u85-256").compiled_model
    (placed,) = compiled.placement.ops
    assert placed.device is Device.CPU
    assert "behind it, must be at most 65536" in placed.violations[0].message


@pytest.mark.parametrize(("depth", "pools"), [(4, 1), (21, 2), (64, 2)])
def test_many_channels_are_compared_in_two_steps(depth: int, pools: int) -> None:
    """One keeps a lane of the array busy with one channel after the other."""
    compiled = npu.compile(network((33, 33, depth), DType.INT8, DType.INT32))
    (partition,) = compiled.compiled_model.partitions
    assert sum(isinstance(one, Pooling) and one.mode is PoolingMode.MAX for one in partition.operations) == pools


@pytest.mark.parametrize(("target", "writes"), [("ethos-u55-128", 2), ("ethos-u65-256", 1)])
def test_both_words_of_an_index_are_written_at_once_behind_a_fast_memory(target: str, writes: int) -> None:
    """Pieces of four bytes wait for the slow memory each; in one that is near they take the fewest steps."""
    compiled = npu.compile(network((28, 28, 24), DType.INT8, DType.INT64), target)
    (partition,) = compiled.compiled_model.partitions
    kernels = [one for one in partition.operations if isinstance(one, KernelOperation) and one.ofm.element.bits == 32]
    assert [kernel.ofm.region for kernel in kernels] == [Region.ARENA] * writes
