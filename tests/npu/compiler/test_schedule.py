"""Where a layer whose weights are copied is cut."""

from __future__ import annotations

import pytest

import npu
from npu.isa.operations import Convolution
from npu.tflite.writer import write_model

from tests.support.layers import pointwise_pair


@pytest.mark.parametrize(
    ("target", "shape", "slices"),
    [
        ("ethos-u55-256", (32, 400, 276), [64, 64, 64, 64, 20]),  # whole blocks
        ("ethos-u65-256", (32, 200, 180), [96, 84]),  # no gain: equal slices need less memory at a time
        ("ethos-u65-256", (1, 114, 288), [192, 96]),
    ],
)
def test_slices_are_whole_blocks_where_these_are_clearly_faster(
    target: str, shape: tuple[int, int, int], slices: list[int]
) -> None:
    (partition,) = npu.compile(write_model(pointwise_pair(*shape)), target=target).compiled_model.partitions
    found = [operation.ofm.depth for operation in partition.operations if isinstance(operation, Convolution)]
    assert found[-len(slices) :] == slices
    assert sum(found) == shape[1] + shape[2]
