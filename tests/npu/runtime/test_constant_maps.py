"""Operators whose feature maps are all constants of the file, which cannot be written, do what they do with inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.graph.graph import Model
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.interpreters import run
from tests.support.litert import random_inputs
from tests.support.operator_cases import CASES


def with_constants(model: Model, values: list[np.ndarray]) -> bytes:
    """The model with these values in place of its inputs."""
    (graph,) = model.graphs
    tensors = list(graph.tensors)
    for index, value in zip(graph.inputs, values, strict=True):
        tensors[index] = replace(tensors[index], data=value, shape_signature=None)
    return write_model(replace(model, graphs=(replace(graph, tensors=tuple(tensors), inputs=()),), signatures=()))


@pytest.mark.parametrize("case", sorted(CASES))
def test_constants_give_what_inputs_give(case: str) -> None:
    content = CASES[case](np.random.default_rng(3))
    values = random_inputs(content, 3)
    expected = run(CpuInterpreter(model_content=content), values)
    result = run(CpuInterpreter(model_content=with_constants(read_model(content), values)), [])
    assert len(result) == len(expected)
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(one, other)
