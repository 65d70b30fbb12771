"""Pass: which maps will find no room in a fast memory of the NPU's own, so that blocks, shapes and layouts suit the arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npu.compiler.block_config import BlockChooser
from npu.compiler.fast_memory import far_maps
from npu.compiler.ir import Storage
from npu.compiler.layout import choose_layouts, views
from npu.compiler.state import GraphState, State
from npu.compiler.step_problems import least_cycles
from npu.isa.operations import Layout


def assign_memories(state: State) -> State:
    """The state with the maps that will lie in the arena; `plan_memory` chooses anew, by what the passes between made."""
    if not state.variant.memory_mode.has_separate_cache:
        return state
    return state.with_graphs(tuple(_assigned(graph, state.chooser) for graph in state.graphs))


def _assigned(graph: GraphState, chooser: BlockChooser) -> GraphState:
    far = far_maps(graph.graph, graph.nodes, graph.room, graph.layouts)
    return replace(graph, far=far, layouts=_suited(graph, far, chooser))


def _suited(graph: GraphState, far: frozenset[Storage], chooser: BlockChooser) -> Mapping[Storage, Layout]:
    """The layouts with bricks for those maps in the arena whose steps take less by them."""
    layouts, sooner = graph.layouts, choose_layouts(graph.steps, far)

    for storage in (storage for storage in sooner if storage in far and sooner[storage] is not layouts[storage]):
        users = [step for step in graph.steps if any(view.storage is storage for view in views(step))]
        changed = {**layouts, storage: sooner[storage]}
        if least_cycles(users, changed, chooser, far) < least_cycles(users, layouts, chooser, far):
            layouts = changed
    return layouts
