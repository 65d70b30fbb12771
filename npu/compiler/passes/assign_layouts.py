"""Pass: every storage gets its layout."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.layout import choose_layouts
from npu.compiler.state import State


def assign_layouts(state: State) -> State:
    """The state with the layouts of all storages."""
    return state.with_graphs(tuple(replace(graph, layouts=choose_layouts(graph.steps)) for graph in state.graphs))
