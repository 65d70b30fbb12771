"""What a file declares against what TFLite's kernels compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npu.graph.consistency import Inconsistency, inconsistencies, inconsistency
from npu.graph.dtype import DType
from npu.graph.graph import Graph
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.inconsistent_models import CONSISTENT, DECLARED_OTHERWISE, IMPOSSIBLE, is_run_by_litert


def graph_of(model: bytes) -> Graph:
    return read_model(model).graphs[0]


@pytest.mark.parametrize("case", CONSISTENT)
def test_a_model_that_agrees_with_itself_has_no_finding(case: str) -> None:
    assert is_run_by_litert(CONSISTENT[case])
    assert inconsistencies(graph_of(CONSISTENT[case])) == {}


@pytest.mark.parametrize("case", DECLARED_OTHERWISE)
def test_other_shapes_than_the_kernels_compute_are_found(case: str) -> None:
    model, message = DECLARED_OTHERWISE[case]
    assert is_run_by_litert(model)
    (found,) = inconsistencies(graph_of(model)).values()
    assert found.runs
    assert message in found.message


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_operands_that_no_kernel_takes_are_found(case: str) -> None:
    model, message = IMPOSSIBLE[case]
    assert not is_run_by_litert(model)
    (found,) = inconsistencies(graph_of(model)).values()
    assert not found.runs
    assert message in found.message


def chain(reshaped: Sequence[int], **tensor: Any) -> Graph:
    """A RESHAPE of 4 elements to a declared shape, then RELU of the same; `tensor` changes the operand of the RESHAPE."""
    b = ModelBuilder()
    x = b.input((4,), DType.INT8, scale=0.1)
    wanted = b.constant(np.array([2, 2], np.int32))
    y = b.op("RESHAPE", [x, wanted], reshaped, DType.INT8, scale=0.1)
    b.output(b.op("RELU", [y], reshaped, DType.INT8, scale=0.1))
    graph = graph_of(b.build())
    tensors = list(graph.tensors)
    tensors[wanted] = replace(tensors[wanted], **tensor)
    return replace(graph, tensors=tuple(tensors))


def test_what_reads_a_tensor_of_another_shape_is_found_too() -> None:
    found = inconsistencies(chain((4,)))
    assert found[1] == Inconsistency("input 't2' must have shape [2, 2], got [4]", runs=True)
    assert list(found) == [0, 1]


def test_an_operator_by_itself_takes_its_inputs_as_declared() -> None:
    graph = chain((4,))
    assert inconsistency(graph, graph.ops[1]) is None


def test_behind_a_computed_shape_the_declared_ones_are_believed() -> None:
    assert inconsistencies(chain((4,), data=None)) == {}


def test_in_a_graph_that_others_call_nothing_is_known_to_run_nowhere() -> None:
    graph = graph_of(IMPOSSIBLE["sum"][0])
    (found,) = inconsistencies(graph, is_entry=False).values()
    assert found.runs
