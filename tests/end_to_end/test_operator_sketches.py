"""Small random networks around one operator each give LiteRT's reference results, on both families and for both goals."""

from __future__ import annotations

import numpy as np
import pytest

import npu

from tests.support.litert import random_inputs, run_reference
from tests.support.open_results import looks_behind_a_map
from tests.support.operator_sketches import LARGE, OPERATORS, PLACES, SMALL, Sizes, sketch

OWN_REFERENCE = {"SUM"}
"""LiteRT's reference kernel is wrong (SUM of int8: docs/exactness.md): the interpreter stands for it."""
PER_OPERATOR = 2
"""Networks of each kind in every run."""


def assert_exact(seed: int, sizes: Sizes = SMALL) -> None:
    made = sketch(seed, sizes)
    inputs = random_inputs(made.content, seed)
    if list(OPERATORS)[seed % len(OPERATORS)] in OWN_REFERENCE or looks_behind_a_map(made.content):
        expected = npu.run(made.content, inputs).outputs
    else:
        expected = run_reference(made.content, inputs, fully_connected="npu")
    for target in ("ethos-u55-128", "ethos-u65-256"):
        for goal in ("performance", "size"):
            compiled = npu.compile(made.content, target, optimise=goal)
            for ours, theirs in zip(npu.run(compiled.content, inputs, target).outputs, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs, f"{made.name} on {target} for {goal}")


@pytest.mark.parametrize("kind", range(len(OPERATORS)), ids=list(OPERATORS))
def test_results_are_those_of_the_reference(kind: int) -> None:
    for number in range(PER_OPERATOR):
        assert_exact(kind + number * len(OPERATORS))


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(OPERATORS)), ids=list(OPERATORS))
def test_results_of_many_are_those_of_the_reference(kind: int) -> None:
    for number in range(PER_OPERATOR, 50):
        assert_exact(kind + number * len(OPERATORS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 10 * len(OPERATORS), 67))
def test_results_of_large_ones_are_those_of_the_reference(seed: int) -> None:
    assert_exact(seed, LARGE)


def test_sketches_are_the_same_every_time_and_of_all_places() -> None:
    made = [sketch(seed) for seed in range(5 * len(OPERATORS))]
    assert {one.name.split()[-1] for one in made} == set(PLACES)
    assert made[7] == sketch(7)
    assert len({one.content for one in made}) == len(made)
