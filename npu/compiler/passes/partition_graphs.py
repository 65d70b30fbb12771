"""Pass: operators that the NPU can run in one go become one node; every other operator is a node of its own.

Nodes run in an order in which tensors take little memory, and the operators of a node do where that is much less: cascades and
results that replace their operands do better in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu.compiler.lifetime import PlanNode
from npu.compiler.state import State
from npu.graph.graph import Graph
from npu.graph.memory_order import MemoryOrder
from npu.graph.partition import orders, partition_nodes, steps_of

_MUCH_LESS = 0.9


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
    nodes, memory = list[PlanNode](), MemoryOrder(graph)
    for subset in subsets:
        if subset.delegated:
            order = memory.least([(index,) for index in subset.nodes], _MUCH_LESS)
            nodes.append(PlanNode(tuple([subset.nodes[position] for position in order]), is_npu=True))
        else:
            nodes += [PlanNode((index,)) for index in subset.nodes if index not in graph.unneeded]
    if not accepted:  # the file stays as it is
        return nodes
    return [nodes[position] for position in memory.least([node.ops for node in nodes])]
