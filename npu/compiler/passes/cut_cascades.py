"""Pass: chains of steps are computed in stripes until the feature maps fit the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from npu.compiler.cascade import fit_budget, fit_least, visible_peak
from npu.compiler.fast_memory import room_for_maps
from npu.compiler.goal import Goal
from npu.compiler.lifetime import PlanNode
from npu.compiler.memory import arena_budget
from npu.compiler.schedule import estimate_steps
from npu.compiler.spared_traffic import spare_traffic
from npu.compiler.state import GraphState, State


def cut_cascades(state: State) -> State:
    """The state with the programs that fit, or come as near to it as was found."""
    return state.with_graphs(tuple(replace(graph, nodes=tuple(_fitting(graph, state))) for graph in state.graphs))


def _fitting(graph: GraphState, state: State) -> Sequence[PlanNode]:
    """The nodes for the arena, then for the cache before it where there is one and its traffic; the smallest for SIZE."""
    mode = state.variant.memory_mode
    if not mode.has_separate_cache:
        if state.goal is Goal.SIZE:
            return fit_least(graph.graph, graph.nodes, partial(estimate_steps, chooser=state.chooser), state.progress)
        return _within(graph, arena_budget(state.variant), state)
    nodes = _within(graph, arena_budget(state.variant), state)
    cut = fit_budget(graph.graph, nodes, room_for_maps(mode), hidden_only=True, progress=state.progress)
    return cut if state.goal is Goal.SIZE else spare_traffic(graph.graph, nodes, cut, state.chooser)


def _within(graph: GraphState, budget: int, state: State) -> Sequence[PlanNode]:
    """The nodes for a budget; uncut if tensors that others see exceed it alone, for stripes would only cost cycles."""
    is_beyond = visible_peak(graph.graph, graph.nodes) > budget
    return graph.nodes if is_beyond else fit_budget(graph.graph, graph.nodes, budget, progress=state.progress)
