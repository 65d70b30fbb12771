"""Partition rules on random graphs, and that any partition gives the results of the graph without delegates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.delegate import RestrictedDelegate, as_delegate
from npu.runtime.dummy import DummyDelegate, DummyOptions
from npu.runtime.interpreter import CpuInterpreter

from tests.support.builder import ModelBuilder

SHAPE = (1, 4)
OPTIONS: dict[str, Any] = {"ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions()}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int, int]], frozenset[int], list[int]]:
    """A model of ADD, SUB and MUL on any earlier tensors; (left, right, output) of each; accepted nodes; graph outputs."""
    b = ModelBuilder()
    tensors = [b.input(SHAPE, DType.FLOAT32), b.constant(np.array([[1, 2, 3, 4]], np.float32))]
    nodes = []
    for _ in range(draw(st.integers(1, 9))):
        left, right = (draw(st.sampled_from(tensors)) for _ in range(2))
        kind = draw(st.sampled_from(sorted(OPTIONS)))
        tensors.append(b.op(kind, [left, right], SHAPE, DType.FLOAT32, attributes=OPTIONS[kind]))
        nodes.append((left, right, tensors[-1]))
    made = [output for _, _, output in nodes]
    outputs = sorted({made[-1], *draw(st.sets(st.sampled_from(made)))})
    for output in outputs:
        b.output(output)
    accepted = frozenset(draw(st.sets(st.integers(0, len(nodes) - 1))))
    return b.build(), nodes, accepted, outputs


def _groups(interpreter: CpuInterpreter) -> list[tuple[bool, list[int]]]:
    return [(bool(s["replaces"]), s["replaces"] or [s["index"]]) for s in interpreter.execution_plan()]


def _delegated(content: bytes, accepted: frozenset[int], options: DummyOptions = DummyOptions()) -> CpuInterpreter:  # noqa: B008
    delegate = RestrictedDelegate(as_delegate(DummyDelegate(options)), accepted)
    return CpuInterpreter(model_content=content, experimental_delegates=[delegate])


def _ancestors(nodes: list[tuple[int, int, int]]) -> list[set[int]]:
    writer = {output: index for index, (_, _, output) in enumerate(nodes)}
    found: list[set[int]] = []
    for left, right, _ in nodes:
        direct = {writer[tensor] for tensor in (left, right) if tensor in writer}
        found.append(direct.union(*(found[index] for index in direct)))
    return found


def _outputs(interpreter: CpuInterpreter) -> list[np.ndarray]:
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([[0.5, -1, 2, 3]], np.float32))
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


@pytest.mark.seed("D-C-3")
@given(graphs())
@settings(max_examples=60)
def test_dependencies_are_kept(case: tuple[bytes, list[tuple[int, int, int]], frozenset[int], list[int]]) -> None:
    content, nodes, accepted, _ = case
    groups = _groups(_delegated(content, accepted))
    place = {node: position for position, (_, members) in enumerate(groups) for node in members}
    assert sorted(place) == list(range(len(nodes)))
    assert {node for is_delegated, members in groups if is_delegated for node in members} == accepted
    for node, before in enumerate(_ancestors(nodes)):
        assert all(place[other] <= place[node] for other in before)
    for _, members in groups:
        assert members == sorted(members)


@pytest.mark.seed("D-C-4")
@given(graphs())
@settings(max_examples=60)
def test_partitions_are_as_large_as_dependencies_allow(
    case: tuple[bytes, list[tuple[int, int, int]], frozenset[int], list[int]],
) -> None:
    """Every node of a later partition waits for a node that the delegate does not handle and that runs after the one before."""
    content, nodes, accepted, _ = case
    ancestors = _ancestors(nodes)
    plan = _groups(_delegated(content, accepted))
    delegated = [position for position, (is_delegated, _) in enumerate(plan) if is_delegated]
    for before, after in itertools.pairwise(delegated):
        between = {node for _, members in plan[before + 1 : after] for node in members}
        assert between
        assert all(ancestors[node] & between for node in plan[after][1])


@pytest.mark.seed("D-C-4", "D-S-6")
@given(graphs())
@settings(max_examples=60)
def test_the_border_of_a_partition_is_what_others_write_or_read(
    case: tuple[bytes, list[tuple[int, int, int]], frozenset[int], list[int]],
) -> None:
    content, nodes, accepted, outputs = case
    for step in _delegated(content, accepted).execution_plan():
        members = set(step["replaces"])
        if not members:
            continue
        written = {nodes[node][2] for node in members}
        read = {tensor for node in members for tensor in nodes[node][:2]}
        needed = {tensor for node, row in enumerate(nodes) if node not in members for tensor in row[:2]} | set(outputs)
        assert set(step["inputs"]) == read - written
        assert set(step["outputs"]) == written & needed


@pytest.mark.seed("D-C-1", "D-C-5", "D-C-9", "D-S-5", "D-R-15")
@given(graphs(), st.integers(0, 3), st.integers(0, 2))
@settings(max_examples=40)
def test_any_partition_gives_the_results_of_the_graph_without_delegates(
    case: tuple[bytes, list[tuple[int, int, int]], frozenset[int], list[int]], least: int, most: int
) -> None:
    content, nodes, accepted, _ = case
    options = DummyOptions(max_delegated_partitions=most, min_nodes_per_partition=least)
    expected = _outputs(CpuInterpreter(model_content=content))
    interpreter = _delegated(content, accepted, options)
    rest = RestrictedDelegate(as_delegate(DummyDelegate(DummyOptions())), frozenset(range(len(nodes))) - accepted)
    taken = [members for is_delegated, members in _groups(interpreter) if is_delegated]
    sizes = [len(members) for is_delegated, members in _groups(_delegated(content, accepted)) if is_delegated]
    eligible = sorted((size for size in sizes if size >= least), reverse=True)
    assert sorted(map(len, taken), reverse=True) == (eligible[:most] if most else eligible)
    interpreter.modify_graph_with_delegate(rest)
    for ours, reference in zip(_outputs(interpreter), expected, strict=True):
        np.testing.assert_array_equal(ours, reference)


@pytest.mark.seed("D-C-8", "D-C-6")
def test_a_delegate_of_convolutions_and_means_splits_the_graph_of_the_guide() -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 2), DType.FLOAT32)
    weights = b.constant(np.ones((2, 1, 1, 2), np.float32))
    bias = b.constant(np.zeros(2, np.float32))
    axes = b.constant(np.array([1, 2], np.int32))
    convolution = at.Conv2DOptions(padding=at.Padding.VALID, stride_w=1, stride_h=1)
    y = b.op("CONV_2D", [x, weights, bias], (1, 4, 4, 2), DType.FLOAT32, attributes=convolution)
    mean = b.op("MEAN", [y, axes], (1, 1, 1, 2), DType.FLOAT32, attributes=at.ReducerOptions(keep_dims=True))
    product = b.op("MUL", [y, mean], (1, 4, 4, 2), DType.FLOAT32, attributes=at.MulOptions())
    b.output(b.op("CONV_2D", [product, weights, bias], (1, 4, 4, 2), DType.FLOAT32, attributes=convolution))
    content = b.build()
    delegate = DummyDelegate(DummyOptions(allowed_builtins=("CONV_2D", "MEAN")))
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[delegate])
    assert [(s["op_name"], s["replaces"]) for s in interpreter.execution_plan()] == [
        ("DummyDelegate", [0, 1]), ("MUL", []), ("DummyDelegate", [3]),
    ]  # fmt: skip
