"""Pass: everything gets its address, and copies of constants their time."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler import memory
from npu.compiler.state import GraphState, State


def plan_memory(state: State) -> State:
    """The state with the memory plans, one graph behind the other in every memory."""
    graphs: list[GraphState] = []
    arena = fast = 0
    for graph in state.graphs:
        plan = memory.plan_memory(
            graph.graph, graph.nodes, graph.jobs, graph.layouts, state.variant, state.goal, arena_start=arena, fast_start=fast
        )
        arena, fast = arena + plan.arena_bytes, fast + plan.fast_bytes
        graphs.append(replace(graph, memory=plan))
    return state.with_graphs(tuple(graphs))
