"""Pass: operators that the NPU can run in one go become one node; every other operator is a node of its own.

Nodes run in an order in which tensors take little memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu.compiler.lifetime import PlanNode
from npu.compiler.state import State
from npu.graph.graph import Graph
from npu.graph.memory_order import in_least_memory
from npu.graph.partition import orders, partition_nodes, steps_of


def partition_graphs(state: State) -> State:
    """The state with the nodes of every graph, without programs."""
    return state.with_graphs(
        tuple(
            replace(graph, nodes=tuple(_nodes(graph.graph, state.placement.npu_indices(number))))
            for number, graph in enumerate(state.graphs)
        )
    )


def _nodes(graph: Graph, accepted: Sequence[int]) -> list[PlanNode]:
    """The graph's operators in an order in which they can run, those of an NPU partition together."""
    subsets = partition_nodes(steps_of(graph), accepted, graph.outputs, order=orders(graph.ops))
    nodes: list[PlanNode] = []
    for subset in subsets:
        if subset.delegated:
            nodes.append(PlanNode(subset.nodes, is_npu=True))
        else:
            nodes += [PlanNode((index,)) for index in subset.nodes if index not in graph.unneeded]
    if not accepted:  # the file stays as it is
        return nodes
    return [nodes[position] for position in in_least_memory(graph, [node.ops for node in nodes])]
