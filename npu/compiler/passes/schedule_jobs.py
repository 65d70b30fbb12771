"""Pass: steps become jobs, with block, slices of output channels and encoded weights."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.memory import step_rooms
from npu.compiler.schedule import Job, make_jobs
from npu.compiler.state import GraphState, State
from npu.compiler.weights import Constants, ExpectedConstants


def schedule_jobs(state: State) -> State:
    """The state with the jobs of every node."""
    return state.with_graphs(
        tuple(replace(graph, jobs=jobs_of(graph, state, graph.copies_bytes, state.constants)) for graph in state.graphs)
    )


def jobs_of(
    graph: GraphState, state: State, copies_bytes: int | None, constants: Constants | ExpectedConstants
) -> tuple[tuple[Job, ...], ...]:
    """The jobs of every node where copies of constants may take so many bytes besides the maps, or what is free for None."""
    rooms = step_rooms(graph.graph, graph.nodes, graph.layouts, state.variant, copies_bytes)
    is_bound, chooser = copies_bytes is not None, state.chooser
    return tuple(
        tuple(make_jobs(node.program.steps, room, graph.layouts, chooser, constants, state.progress, is_bound=is_bound))
        if node.program
        else ()
        for node, room in zip(graph.nodes, rooms, strict=True)
    )
