"""ARG_MAX over channels: indices of 32 and 64 bits, in the fastest plan and in parts."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import Region, is_npu_job
from npu.isa.operations import KernelOperation, Pooling, PoolingMode

from tests.support.architectures.layers import Layers
from tests.support.litert import random_inputs, run_reference


def network(shape: tuple[int, int, int], dtype: DType, indices: DType) -> bytes:
    """An ARG_MAX behind a convolution."""
    net = Layers(1, dtype)
    x = net.conv(net.input(*shape), shape[2], 1)
    options = at.ArgMaxOptions(indices)
    return net.finish(net.b.op("ARG_MAX", [x, net.ints(3)], (1, *shape[:2]), indices, attributes=options))


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
