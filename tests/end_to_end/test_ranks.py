"""Operators over tensors of every rank and axis give LiteRT's reference results on the CPU and on NPUs of every family."""

from __future__ import annotations

import numpy as np
import pytest

import npu

from tests.support.litert import random_inputs, run_reference
from tests.support.ranked_sketches import RANKED, ranked

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
FLOAT_STEPS = {"MEAN": 4, "BATCH_MATMUL": 4, "SOFTMAX": 4}
"""Sums of up to 625 floats are added up in another order; all other operators give the same floats."""


def assert_exact(seed: int) -> None:
    name, content = ranked(seed)
    inputs = random_inputs(content, seed)
    expected = run_reference(content, inputs, fully_connected="npu")
    assert_same(npu.run(content, inputs).outputs, expected, f"{name} on the CPU")
    for number, target in enumerate(TARGETS):
        compiled = npu.compile(content, target, optimise=("performance", "size")[(seed // len(RANKED) + number) % 2])
        assert_same(npu.run(compiled.content, inputs, target).outputs, expected, f"{name} on {target}")


def assert_same(ours: tuple[np.ndarray, ...], theirs: list[np.ndarray], name: str) -> None:
    for own, other in zip(ours, theirs, strict=True):
        assert own.shape == other.shape, name
        if own.dtype == np.float32:
            np.testing.assert_array_max_ulp(own, other, FLOAT_STEPS.get(name.split()[1], 0))
        else:
            np.testing.assert_array_equal(own, other, name)


@pytest.mark.parametrize("kind", range(len(RANKED)), ids=list(RANKED))
def test_results_are_those_of_the_reference(kind: int) -> None:
    for number in range(4):
        assert_exact(kind + number * len(RANKED))


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(RANKED)), ids=list(RANKED))
def test_results_of_many_are_those_of_the_reference(kind: int) -> None:
    for number in range(4, 100):
        assert_exact(kind + number * len(RANKED))
