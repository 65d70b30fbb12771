"""Pass: steps become jobs, with block, slices of output channels and encoded weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu.compiler.lifetime import PlanNode
from npu.compiler.memory import step_rooms
from npu.compiler.schedule import Job, make_jobs
from npu.compiler.state import GraphState, State


def schedule_jobs(state: State) -> State:
    """The state with the jobs of every node."""
    return state.with_graphs(tuple(replace(graph, jobs=_jobs(graph, state)) for graph in state.graphs))


def _jobs(graph: GraphState, state: State) -> tuple[tuple[Job, ...], ...]:
    rooms = step_rooms(graph.graph, graph.nodes, graph.layouts, state.variant, state.goal)
    return tuple(_jobs_of(node, room, graph, state) for node, room in zip(graph.nodes, rooms, strict=True))


def _jobs_of(node: PlanNode, room: Sequence[int], graph: GraphState, state: State) -> tuple[Job, ...]:
    if node.program is None:
        return ()
    steps, layouts = node.program.steps, graph.layouts
    return tuple(make_jobs(steps, room, layouts, state.chooser, state.constants, state.goal, state.progress))
