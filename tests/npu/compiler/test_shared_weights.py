"""Operators with the same weights and other biases: the weights are stored once, and what is read in two pieces is exact."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference

HEADS, DEPTH = 4, 96


def detector_head(*, share: bool) -> bytes:
    """One convolution for each of several maps, as a detector applies its head to every level: same weights, own biases."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    weights = [rng.integers(-127, 128, (DEPTH, 3, 3, DEPTH)).astype(np.int8) for _ in range(HEADS)]
    for level in range(HEADS):
        size = 8 >> level
        x = b.input((1, size, size, DEPTH), DType.INT8, scale=0.05, zero_point=3)
        w = b.constant(weights[0 if share else level], DType.INT8, scale=0.01)
        bias = b.constant(rng.integers(-2000, 2000, DEPTH).astype(np.int32), DType.INT32, scale=0.05 * 0.01)
        options = at.Conv2DOptions(Padding.SAME, 1, 1)
        b.output(b.op("CONV_2D", [x, w, bias], (1, size, size, DEPTH), DType.INT8, 0.4, -5, attributes=options))
    return b.build()


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u65-512"])
def test_shared_weights_are_stored_once(target: str) -> None:
    shared, apart = (npu.compile(detector_head(share=share), target=target) for share in (True, False))
    stream = DEPTH * DEPTH * 9  # about a byte for each weight of eight random bits
    # Levels of other sizes may choose other blocks, whose streams differ: at least two of them choose alike.
    assert apart.compiled_model.usage.read_only_bytes - shared.compiled_model.usage.read_only_bytes > 0.9 * stream
    result = npu.run(shared.content, target=target, seed=4)
    expected = run_reference(detector_head(share=True), result.inputs)
    for ours, theirs in zip(result.outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
