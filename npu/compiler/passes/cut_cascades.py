"""Pass: chains of steps are computed in stripes until the feature maps fit the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu.compiler.cascade import fit_budget, fit_least
from npu.compiler.goal import Goal
from npu.compiler.lifetime import Node
from npu.compiler.memory import arena_budget, staging_reserve
from npu.compiler.state import GraphState, State


def cut_cascades(state: State) -> State:
    """The state with the programs that fit, or come as near to it as was found."""
    return state.with_graphs(tuple(replace(each, nodes=tuple(_fitting(each, state))) for each in state.graphs))


def _fitting(graph: GraphState, state: State) -> Sequence[Node]:
    """The nodes for the arena, and then for the cache that hides behind it where there is one; as small as can be for SIZE."""
    mode, is_smallest = state.variant.memory_mode, state.goal is Goal.SIZE
    if not mode.has_separate_cache:
        budget = arena_budget(state.variant)
        return fit_least(graph.graph, graph.nodes) if is_smallest else fit_budget(graph.graph, graph.nodes, budget)
    nodes = fit_budget(graph.graph, graph.nodes, arena_budget(state.variant))
    return fit_budget(graph.graph, nodes, mode.arena_cache_bytes - staging_reserve(state.variant), hidden_only=True)
