"""Pass: which maps will find no room in a fast memory of the NPU's own, so that blocks and shapes suit the arena."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.fast_memory import choose_fast, room_for_maps
from npu.compiler.ir import Storage
from npu.compiler.lifetime import share_in_place, trace_lifetimes
from npu.compiler.state import GraphState, State


def assign_memories(state: State) -> State:
    """The state with the maps that will lie in the arena; `plan_memory` chooses anew, by what the passes between made."""
    limit = room_for_maps(state.variant.memory_mode)
    if not limit:
        return state
    return state.with_graphs(tuple(replace(graph, far=_far(graph, limit)) for graph in state.graphs))


def _far(graph: GraphState, limit: int) -> frozenset[Storage]:
    works = [node.program.steps if node.program else () for node in graph.nodes]
    lifetimes = trace_lifetimes(graph.graph, graph.nodes, works, graph.layouts)
    chosen = choose_fast(lifetimes, share_in_place(lifetimes, graph.nodes, works, graph.layouts), works, limit)
    return frozenset(
        buffer for buffer, root in chosen.owner.items() if isinstance(buffer, Storage) and root not in chosen.spans
    )
