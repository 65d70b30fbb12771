"""Graphs of thousands of operators in a row compile: no part of the compiler recurses along a chain, nor looks at all pairs."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder, Shape

Q = (0.05, 3)
MOST_SECONDS = 15
"""User time; a look at all pairs of 5,000 operators takes minutes."""
SHAPE = (1, 8, 8, 16)


def _add(b: ModelBuilder, x: int, _: int) -> int:
    return b.op("ADD", [x, x], SHAPE, DType.INT8, *Q, attributes=at.AddOptions())


def _convolution(b: ModelBuilder, x: int, number: int) -> int:
    weights = 2 if number else b.constant(np.full((16, 1, 1, 16), 3, np.int8), scale=0.01)
    return b.op("CONV_2D", [x, weights, None], SHAPE, DType.INT8, *Q, attributes=at.Conv2DOptions(stride_h=1, stride_w=1))


def _reshape(b: ModelBuilder, x: int, number: int) -> int:
    shape: Shape = SHAPE if number % 2 else (1, 64, 1, 16)
    return b.op("RESHAPE", [x, b.constant(np.array(shape, np.int32))], shape, DType.INT8, *Q)


def _join(b: ModelBuilder, x: int, number: int) -> int:
    shape = (1, 8, 8, 17 + number)
    return b.op("CONCATENATION", [x, b.inputs[-1]], shape, DType.INT8, *Q, attributes=at.ConcatenationOptions(axis=3))


CHAINS: dict[str, Callable[[ModelBuilder, int, int], int]] = {
    "additions": _add,
    "convolutions": _convolution,
    "reshapes": _reshape,
    "joins": _join,
}


def _chain(name: str, length: int) -> bytes:
    b = ModelBuilder()
    x = b.input(SHAPE, DType.INT8, scale=Q[0], zero_point=Q[1])
    b.input((1, 8, 8, 1), DType.INT8, scale=Q[0], zero_point=Q[1])
    for number in range(length):
        x = CHAINS[name](b, x, number)
    b.output(x)
    return b.build()


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_beyond_the_limit_of_recursion_compiles(name: str) -> None:
    assert npu.compile(_chain(name, sys.getrecursionlimit() + 1)).report.totals.flash_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_a_long_chain_compiles_in_seconds(name: str) -> None:
    model = _chain(name, 5000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert npu.compile(model).report.totals.flash_bytes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < MOST_SECONDS
