"""The order of the fixes: constants first, because they decide what the NPU takes; then forms; then what became useless."""

from __future__ import annotations

from dataclasses import replace

from npu.fixes.constants import fold_constants, narrow_paddings
from npu.fixes.edit import Accepts, Change
from npu.fixes.movement import rewrite_movement
from npu.fixes.removal import remove_dead, remove_identities
from npu.fixes.windows import rewrite_windows
from npu.graph.graph import Graph, Model


def fix_model(model: Model, accepts: Accepts) -> tuple[Model, list[Change]]:
    """The model with every safe fix applied, and what was changed. Inputs, outputs and signatures stay as they are.

    Results are bit for bit the same for the input shapes of the file.
    """
    graphs, changes = [], []
    for graph in model.graphs:
        fixed, outcome = _fix_graph(graph, accepts)
        graphs.append(fixed)
        changes += outcome
    return replace(model, graphs=tuple(graphs)), changes


def _fix_graph(graph: Graph, accepts: Accepts) -> tuple[Graph, list[Change]]:
    changes: list[Change] = []
    steps = (
        fold_constants,
        narrow_paddings,
        lambda graph: rewrite_windows(graph, accepts),
        lambda graph: rewrite_movement(graph, accepts),
        remove_identities,
        remove_dead,
    )
    for step in steps:
        editor = step(graph)
        graph = editor.graph()
        changes += editor.changes
    return graph, changes
