"""Every operator of profile v0.1 as a whole model: placed on the NPU, compiled to a command stream, simulated, and exact."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from constraints.checker import check
from npu.graph.placement import Device
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.litert import run_reference
from tests.support.random_graphs import Case, cases, random_inputs

LISTED = (
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LOGISTIC", "MAX_POOL_2D",
    "MUL", "PACK", "PAD", "RELU", "RELU6", "RELU_N1_TO_1", "RESHAPE", "RESIZE_BILINEAR", "SOFTMAX", "SUB", "TANH",
)  # fmt: skip
TARGETS = ("ethos-u55-32", "ethos-u65-512")
MODELS = 4


def _listed_cases(kind: str) -> list[Case]:
    """Random models of one operator that profile v0.1 takes."""
    made = cases(kind, 30, seed=21)
    return [case for case in made if check(case.model, profile="v0.1").ops[0].device is Device.NPU][:MODELS]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.seed(f"V-RUN-{kind}")) for kind in LISTED])
def test_an_operator_of_the_list_compiles_simulates_and_equals_the_reference(kind: str, target: str) -> None:
    found = _listed_cases(kind)
    assert len(found) == MODELS
    for seed, case in enumerate(found):
        assert [op.kind for op in case.graph.ops] == [kind]
        content = write_model(case.model)
        compiled = npu.compile(content, target=target, profile="v0.1")
        assert [op.name for op in read_model(compiled.content).graphs[0].ops] == ["ethos-u"]
        inputs = random_inputs(case.graph, seed)
        result = npu.run(compiled.content, inputs)
        expected = run_reference(content, inputs, fully_connected="npu")
        assert len(result.outputs) == len(expected)
        for ours, theirs in zip(result.outputs, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=case.name)
