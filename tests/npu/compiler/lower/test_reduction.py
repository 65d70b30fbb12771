"""Reductions of many elements, whose channels are at work: the largest in two poolings, sums by convolutions with ones."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.lower.reduction import _ways
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.isa.operations import Convolution, KernelOperation, KernelWindow, Pooling

from tests.support.builder import ModelBuilder
from tests.support.ethos_u85 import exact_operations
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import assert_exact


@pytest.mark.parametrize(
    ("extent", "inner", "expected"),
    [(9216, 1, [(576, 16), (16, 1)]), (9216, 16, [(9216, 16)]), (97, 1, [(97, 1)]), (1, 1, [(1, 1)])],
)
def test_elements_are_compared_in_parts_where_channels_lie_idle(
    extent: int, inner: int, expected: list[tuple[int, int]]
) -> None:
    assert _ways(extent, inner)[0] == expected


@pytest.mark.parametrize("shape", [(1, 96, 96, 1), (1, 40, 6, 3), (1, 31, 7, 2)], ids=str)
@pytest.mark.parametrize("kind", ["REDUCE_MAX", "REDUCE_MIN"])
def test_the_result_is_that_of_the_reference(kind: str, shape: tuple[int, ...]) -> None:
    b = ModelBuilder()
    x = b.input(shape, DType.INT8, scale=0.1, zero_point=3)
    axes = b.constant(np.array([1, 2], np.int32))
    reduced = (1, 1, 1, shape[3])
    b.output(b.op(kind, [x, axes], reduced, DType.INT8, 0.1, 3, attributes=at.ReducerOptions(keep_dims=True)))
    content = b.build()
    given = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    result = npu.run(content, [given], "ethos-u55-128")
    assert np.array_equal(result.outputs[0], run_reference(content, [given])[0])
    assert result.report.operators[0].placement == "npu"


def test_far_windows_are_pooled_twice_where_the_memory_is_slow() -> None:
    """Many channels keep the array busy either way, but 1,600 elements at a time take long to fetch behind a cache."""
    b = ModelBuilder()
    x = b.input((1, 40, 40, 64), DType.UINT8, scale=0.1)
    axes = b.constant(np.array([1, 2], np.int32))
    b.output(b.op("REDUCE_MAX", [x, axes], (1, 1, 1, 64), DType.UINT8, 0.1, attributes=at.ReducerOptions(keep_dims=True)))
    (partition,) = npu.compile(b.build(), target="ethos-u65-256").compiled_model.partitions
    widths = [operation.kernel.width for operation in partition.operations if isinstance(operation, Pooling)]
    assert [width for width in widths if width > 1] == [40, 40]


@pytest.mark.parametrize("target", ["ethos-u65-256", "ethos-u85-1024"])
@pytest.mark.parametrize(("extent", "rows"), [(92, {92}), (300, {1})])
def test_the_largest_of_rows_are_found_at_positions_side_by_side(target: str, extent: int, rows: set[int]) -> None:
    b = ModelBuilder()
    x = b.input((1, extent, 40, 32), DType.INT8, scale=0.1)
    axes = b.constant(np.array([1], np.int32))
    b.output(b.op("REDUCE_MAX", [x, axes], (1, 1, 40, 32), DType.INT8, 0.1, attributes=at.ReducerOptions(keep_dims=True)))
    made = [operation for operation in exact_operations(b.build(), target) if isinstance(operation, Pooling)]
    kernels = {operation.kernel for operation in made} - {KernelWindow()}  # there may be a copy besides
    assert {kernel.height for kernel in kernels} == rows


def over_channels(kind: str, dtype: DType, shape: tuple[int, ...], *, keep_dims: bool) -> bytes:
    """A mean or sum of the last axis; a sum by a factor above 1, which the reference's float32 does not round otherwise."""
    b, zero = ModelBuilder(), -128 if dtype is DType.INT8 else 0
    x = b.input(shape, dtype, scale=0.00390625, zero_point=zero)
    axes = b.constant(np.array([len(shape) - 1], np.int32))
    out = (*shape[:-1], 1) if keep_dims else shape[:-1]
    scale = 0.0037 if kind == "MEAN" else 0.00294042
    b.output(b.op(kind, [x, axes], out, dtype, scale, zero, attributes=at.ReducerOptions(keep_dims=keep_dims)))
    return b.build()


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("shape", [(1, 20, 20, 80), (1, 49, 192), (2, 9, 7, 33), (1, 3, 5, 2), (64, 48)], ids=str)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("kind", ["MEAN", "SUM"])
def test_sums_over_channels_are_exact(kind: str, dtype: DType, shape: tuple[int, ...], *, keep_dims: bool) -> None:
    """As LiteRT's reference kernels: but its SUM gives other values in every run (docs/exactness.md), our own does not."""
    content, low = over_channels(kind, dtype, shape, keep_dims=keep_dims), -128 if dtype is DType.INT8 else 0
    most = 256 if kind == "MEAN" else 1 + 300 // shape[-1]  # so that few sums saturate
    given = np.random.default_rng(2).integers(low, low + most, shape).astype(dtype.numpy)
    expected = run_reference(content, [given]) if kind == "MEAN" else npu.run(content, [given], profile="xnnpack").outputs
    assert len(np.unique(expected[0])) > 5
    for target in ("ethos-u55-32", "ethos-u55-256", "ethos-u65-512"):
        result = npu.run(content, [given], target)
        assert [row.placement for row in result.report.operators] == ["npu"]
        np.testing.assert_array_equal(result.outputs[0], expected[0])


def test_many_channels_are_added_up_by_a_convolution() -> None:
    """A pooling looks at one after the other."""
    (partition,) = npu.compile(over_channels("MEAN", DType.INT8, (1, 20, 20, 80), keep_dims=True)).compiled_model.partitions
    kernels = [operation for operation in partition.operations if isinstance(operation, KernelOperation)]
    assert [type(kernel) for kernel in kernels] == [Convolution]


def test_means_of_channels_are_written_into_their_join() -> None:
    """By whichever way: without an estimate it is a pooling, which makes a map of another shape."""
    b = ModelBuilder()
    parts = []
    for _ in range(2):
        x, axes = b.input((1, 6, 5, 4), DType.INT8, scale=0.1, zero_point=3), b.constant(np.array([3], np.int32))
        options = at.ReducerOptions(keep_dims=True)
        parts.append(b.op("MEAN", [x, axes], (1, 6, 5, 1), DType.INT8, 0.05, 4, attributes=options))
    b.output(b.op("CONCATENATION", parts, (1, 6, 5, 2), DType.INT8, 0.05, 4, attributes=at.ConcatenationOptions(3)))
    content = b.build()
    given = random_inputs(content, 1)
    assert_exact(b.graph(), given)
    np.testing.assert_array_equal(npu.run(content, given, "ethos-u55-128").outputs[0], run_reference(content, given)[0])


def mean(shape: tuple[int, ...], axes: tuple[int, ...], result: tuple[int, ...]) -> bytes:
    b = ModelBuilder()
    x, numbers = b.input(shape, DType.INT8, scale=0.1, zero_point=3), b.constant(np.array(axes, np.int32))
    b.output(b.op("MEAN", [x, numbers], result, DType.INT8, 0.03, -5, attributes=at.ReducerOptions(False)))
    return b.build()


LAST = [
    ((1, 24, 24), (0, 2), (24,)),
    ((2, 5, 6, 8), (2, 3), (2, 5)),
    ((1, 5, 6, 8), (0, 1, 2, 3), ()),
    ((1, 1, 9, 40), (1, 3), (1, 9)),
]
"""A shape, the axes, of which some are 1, and the shape of the result."""
OTHERS = [((1, 5, 6, 8), (1, 2), (1, 8)), ((1, 9, 6), (1,), (1, 6)), ((2, 5, 6, 8), (2,), (2, 5, 8))]
WAYS = [*((*case, Convolution) for case in LAST), *((*case, Pooling) for case in OTHERS)]


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize(("shape", "axes", "result", "way"), WAYS)
def test_means_over_the_last_dimensions_are_convolutions_and_others_poolings(
    shape: tuple[int, ...], axes: tuple[int, ...], result: tuple[int, ...], way: type[KernelOperation], target: str
) -> None:
    content = mean(shape, axes, result)
    (partition,) = npu.compile(content, target=target).compiled_model.partitions
    kinds = {type(one) for one in partition.operations if isinstance(one, KernelOperation)}
    assert kinds - {Pooling} == {way} - {Pooling}  # a pooling copies, too
    inputs = random_inputs(content, 1)
    np.testing.assert_array_equal(npu.run(content, inputs, target=target).outputs[0], run_reference(content, inputs)[0])
