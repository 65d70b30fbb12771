"""Pass: steps become jobs, with block, slices of output channels and encoded weights."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.jobs import encode_constants
from npu.compiler.state import GraphState, State


def schedule_jobs(state: State) -> State:
    """The state with the jobs of every node."""
    return state.with_graphs(tuple(_scheduled(graph, state) for graph in state.graphs))


def _scheduled(graph: GraphState, state: State) -> GraphState:
    assert graph.job_maker is not None
    drafted = graph.job_maker.jobs(graph.copies_bytes)
    return replace(graph, jobs=tuple(tuple(encode_constants(jobs, state.constants, state.progress)) for jobs in drafted))
