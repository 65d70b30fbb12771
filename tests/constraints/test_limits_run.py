"""Profile u55-u65 keeps its promise: what it accepts at the edge of a limit compiles, runs, and equals the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npu
from constraints.checker import check
from constraints.rule import Rule
from constraints.u55_u65 import PROFILE
from npu.graph.graph import Model
from npu.tflite.writer import write_model

from tests.constraints import test_u55_u65, test_v0_1
from tests.support.litert import random_inputs, run_reference

MAKERS = {**test_v0_1.MAKERS, **test_u55_u65.MAKERS}
MOST_ELEMENTS = 3_000_000


def model_at(rule: Rule, value: Any) -> Model | None:
    """The model at a boundary, None if the profile does not take it or it is too large for a test."""
    if (rule.id, value) == ("N-GEN-4", -1):
        return None
    model = MAKERS[rule.id](value)
    size = sum(tensor.elements for tensor in model.graphs[0].tensors)
    return model if size < MOST_ELEMENTS and not check(model).ops[0].violations else None


BOUNDARIES = [
    pytest.param(rule, value, id=f"{rule.id}-{value}") for rule in PROFILE.rules for value, _ in rule.limit.boundaries
]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize(("rule", "value"), BOUNDARIES)
def test_a_model_at_the_edge_of_a_limit_is_exact(rule: Rule, value: Any, target: str) -> None:
    model = model_at(rule, value)
    if model is None:
        pytest.skip("another limit refuses the model, or it is too large")
    assert_exact(model, target)


@pytest.mark.slow
@pytest.mark.parametrize("kind", test_u55_u65.NOT_RESCALED)
def test_operators_that_rescale_nothing_are_exact_at_any_factor(kind: str) -> None:
    for factor in (2.0**14, 2.0**20, 2.0**28):
        assert_exact(test_u55_u65.with_factor(test_u55_u65.FREE_FACTORS[kind], factor), "ethos-u55-128")


def assert_exact(model: Model, target: str) -> None:
    """The compiled and simulated model equals the reference kernels on random data of the full range."""
    content = write_model(model)
    inputs = random_inputs(content, 1)
    found = npu.run(npu.compile(content, target=target).content, inputs).outputs
    expected = run_reference(content, inputs, fully_connected="npu")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
