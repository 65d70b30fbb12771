"""Pass: the graphs with one `ethos-u` operator for every node of the NPU."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.container import NpuOperator, Rebuilt, rebuild_graph
from npu.compiler.lifetime import PlanNode
from npu.compiler.state import GraphState, NodeStream, State
from npu.graph.ethos_u import Region


def rebuild_graphs(state: State) -> State:
    """The state with the rebuilt graphs."""
    arena = max(graph.planned.arena_end for graph in state.graphs)
    fast = max(graph.planned.fast_end for graph in state.graphs) if state.variant.memory_mode.has_separate_cache else None
    return state.with_graphs(tuple(replace(graph, rebuilt=_rebuilt(graph, state, arena, fast)) for graph in state.graphs))


def _rebuilt(draft: GraphState, state: State, arena: int, fast: int | None) -> Rebuilt:
    order = [_entry(node, stream) for node, stream in zip(draft.nodes, draft.streams, strict=True)]
    places = draft.planned.places.items()
    offsets = {tensor: place.offset for tensor, place in places if isinstance(tensor, int) and place.region == Region.ARENA}
    return rebuild_graph(draft.graph, order, state.constants.data(), arena, fast, offsets)


def _entry(node: PlanNode, stream: NodeStream | None) -> int | NpuOperator:
    if node.program is None or stream is None:
        return node.ops[0]
    return NpuOperator(node.program, stream.payload)
