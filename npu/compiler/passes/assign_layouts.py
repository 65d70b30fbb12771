"""Pass: every storage gets its layout."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.ir import Step
from npu.compiler.layout import choose_layouts
from npu.compiler.state import GraphState, State


def assign_layouts(state: State) -> State:
    """The state with the layouts of all storages."""
    return state.with_graphs(tuple(replace(graph, layouts=choose_layouts(_steps(graph))) for graph in state.graphs))


def _steps(state: GraphState) -> list[Step]:
    return [step for node in state.nodes if node.program for step in node.program.steps]
