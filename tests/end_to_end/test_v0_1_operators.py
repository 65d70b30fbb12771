"""Every operator of profile v0.1 as a whole model: placed on the NPU, compiled to a command stream, simulated, and exact."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from constraints.checker import check
from npu.graph.attributes import Padding
from npu.graph.placement import Device
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support import single_ops as ops
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


WIDE = {
    "65536 in a row": ((1, 8, 8, 4), (1, 65536), (1, 1)),
    "256 x 256": ((1, 8, 8, 4), (256, 256), (1, 1)),
    "column of 256": ((1, 5, 3, 2), (256, 1), (2, 1)),
    "just beyond the map on both sides": ((1, 5, 4, 2), (11, 9), (1, 1)),
    "beyond with strides": ((1, 7, 5, 3), (20, 13), (3, 2)),
    "as far as the map on both sides": ((1, 5, 5, 2), (9, 9), (1, 1)),
    "one element": ((1, 1, 1, 2), (64, 1024), (3, 3)),
}  # map, window, stride


@pytest.mark.seed("V-MAX-4", "V-RUN-MAX_POOL_2D")
@pytest.mark.parametrize("name", WIDE)
def test_a_maximum_over_more_than_the_map_is_exact(name: str) -> None:
    ifm, window, stride = WIDE[name]
    model = ops.pool(kind="MAX_POOL_2D", ifm=ifm, window=window, stride=stride, padding=Padding.SAME)
    content = write_model(model)
    compiled = npu.compile(content, target="ethos-u55-128", profile="v0.1")
    assert [op.name for op in read_model(compiled.content).graphs[0].ops] == ["ethos-u"]
    for seed in range(3):
        inputs = random_inputs(model.graphs[0], seed)
        (expected,) = run_reference(content, inputs)
        np.testing.assert_array_equal(npu.run(compiled.content, inputs).outputs[0], expected)
