"""Pass: everything gets its address, and copies of constants their time."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.state import GraphState, State
from npu.graph.graph import Model
from npu.graph.verify import called_graphs


def plan_memory(state: State) -> State:
    """The state with the memory plans: graphs that are live at the same time lie behind each other, others share."""
    graphs: list[GraphState] = []
    is_shared = _run_one_at_a_time(state.model)
    arena = fast = 0
    for graph in state.graphs:
        assert graph.job_maker is not None
        plan = graph.job_maker.plan(graph.jobs, graph.copies_bytes, arena_start=arena, fast_start=fast)
        if not is_shared:
            arena, fast = plan.arena_end, plan.fast_end
        graphs.append(replace(graph, memory=plan))
    return state.with_graphs(tuple(graphs))


def _run_one_at_a_time(model: Model) -> bool:
    """Whether every graph is one that the application runs by itself (a signature), and none keeps anything."""
    ops = (op for graph in model.graphs for op in graph.ops)
    tensors = (tensor for graph in model.graphs for tensor in graph.tensors)
    return not any(called_graphs(op) for op in ops) and not any(tensor.is_variable for tensor in tensors)
