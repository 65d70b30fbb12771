"""The order of nodes that takes little memory."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import npu
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.memory_order import MemoryOrder, peak_of
from npu.graph.partition import dependencies_of
from npu.tflite.reader import read_model

from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference
from tests.support.xnnpack import Layers


def graph_of(sizes: list[int], ops: list[tuple[tuple[int, ...], tuple[int, ...]]], outputs: tuple[int, ...]) -> Graph:
    tensors = tuple(Tensor(f"t{index}", (size,), DType.INT8) for index, size in enumerate(sizes))
    return Graph("main", tensors, tuple(Op("ADD", *op) for op in ops), (0,), outputs)


def can_run(graph: Graph, order: tuple[int, ...] | list[int]) -> bool:
    place = {index: position for position, index in enumerate(order)}
    return all(place[index] < place[after] for index, followers in enumerate(dependencies_of(graph)) for after in followers)


def random_graph(seed: int) -> Graph:
    """Of seven operators, which read one or two tensors before them; the last reads what nobody else has read."""
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(1, 100)) for _ in range(8)]
    ops = [(tuple({int(rng.integers(0, index + 1)) for _ in range(2)}), (index + 1,)) for index in range(6)]
    unread = set(range(1, 7)) - {tensor for inputs, _ in ops for tensor in inputs}
    return graph_of(sizes, [*ops, (tuple(sorted(unread)), (7,))], (7,))


def test_the_order_can_run_and_takes_no_more_than_the_given_one() -> None:
    better = best = 0
    for seed in range(30):
        graph = random_graph(seed)
        nodes = [(index,) for index in range(7)]
        order = MemoryOrder(graph).least(nodes)
        assert sorted(order) == list(range(7))
        assert can_run(graph, order)
        given, found = (peak_of(graph, nodes, one) for one in (range(7), order))
        assert found <= given
        least = min(peak_of(graph, nodes, one) for one in permutations(range(7)) if can_run(graph, one))
        better, best = better + (found < given), best + (found == least)
    assert better >= 8
    assert best >= 18


@pytest.mark.parametrize("seed", range(10))
def test_nodes_that_do_not_depend_on_each_other_come_in_the_best_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = rng.integers(1, 100, (2, 6)).tolist()
    ops = [((0,), tuple(range(1, 7))), *(((1 + k,), (7 + k,)) for k in range(6))]
    graph = graph_of([1, *before, *after], ops, tuple(range(7, 13)))
    nodes = [(index,) for index in range(7)]
    least = min(peak_of(graph, nodes, (0, *one)) for one in permutations(range(1, 7)))
    assert peak_of(graph, nodes, MemoryOrder(graph).least(nodes)) == least


def test_results_as_large_as_what_they_free_come_early_or_late() -> None:
    """Ten terms of one input and their sum, where late is better, and a graph where it is not."""
    ops = [((0,), (1 + k,)) for k in range(10)] + [((10 + k if k else 1, 2 + k), (11 + k,)) for k in range(9)]
    sums = graph_of([1] * 20, ops, (19,))
    assert peak_of(sums, nodes := [(index,) for index in range(19)], range(19)) == 11
    assert peak_of(sums, nodes, MemoryOrder(sums).least(nodes)) <= 4
    reads = ((0,), (0,), (0, 2), (1,), (3, 4), (0,), (6,), (7,), (3,), (5, 8, 9))
    other = graph_of([2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2], [(own, (1 + k,)) for k, own in enumerate(reads)], (10,))
    assert peak_of(other, nodes := [(index,) for index in range(10)], range(10)) == 8
    assert peak_of(other, nodes, MemoryOrder(other).least(nodes)) == 7


def test_what_is_between_the_operators_of_a_node_does_not_count() -> None:
    graph = graph_of([1, 1000, 2], [((0,), (1,)), ((1,), (2,))], (2,))
    assert peak_of(graph, [(0, 1)], [0]) == 3
    assert peak_of(graph, [(0,), (1,)], [0, 1]) == 1002


def heads() -> bytes:
    """A detector's: the small one is made floats first."""
    net = Layers(DType.INT8, (1, 24, 24, 8))
    body, made = net.conv(16, 3), []
    for channels in (4, 60):
        net.at, net.shape = body, (1, 24, 24, 16)
        made.append((net.conv(channels, activation=FusedActivation.NONE), channels))
    for tensor, channels in made:
        net.builder.output(net.builder.op("DEQUANTIZE", [tensor], (1, 24, 24, channels), DType.FLOAT32))
    return net.builder.build()


def test_what_frees_most_is_made_floats_first() -> None:
    content = heads()
    compiled = npu.compile(content, "ethos-u55-128").content
    (graph,) = read_model(compiled).graphs
    sizes = [graph.tensors[op.outputs[0]].bytes for op in graph.ops if op.kind == "DEQUANTIZE"]
    assert sizes == sorted(sizes, reverse=True)
    inputs = random_inputs(content, 0)
    for result, expected in zip(
        run(npu.Interpreter(model_content=compiled), inputs), run_reference(content, inputs), strict=True
    ):
        np.testing.assert_array_equal(result, expected)
