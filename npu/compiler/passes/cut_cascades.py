"""Pass: chains of steps are computed in stripes until the feature maps fit the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu.compiler.cascade import fit_budget
from npu.compiler.lifetime import Node
from npu.compiler.memory import arena_budget, staging_reserve
from npu.compiler.state import GraphState, State
from npu.hardware.variant import Variant


def cut_cascades(state: State) -> State:
    """The state with the programs that fit, or come as near to it as was found."""
    return state.with_graphs(tuple(replace(each, nodes=tuple(_fitting(each, state.variant))) for each in state.graphs))


def _fitting(state: GraphState, variant: Variant) -> Sequence[Node]:
    """The nodes for the arena, and then for the cache that hides behind it where there is one."""
    mode = variant.memory_mode
    nodes = fit_budget(state.graph, state.nodes, arena_budget(variant))
    if not mode.has_separate_cache:
        return nodes
    return fit_budget(state.graph, nodes, mode.arena_cache_bytes - staging_reserve(variant), hidden_only=True)
