"""Pass: jobs become machine operations with addresses, waits and BLOCKDEP."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler import emit
from npu.compiler.state import GraphState, NodeStream, State


def emit_operations(state: State) -> State:
    """The state with the operations of every node."""
    return state.with_graphs(
        tuple(
            replace(graph, streams=tuple(_stream(graph, number, state) for number in range(len(graph.nodes))))
            for graph in state.graphs
        )
    )


def _stream(graph: GraphState, number: int, state: State) -> NodeStream | None:
    plan = graph.planned
    if graph.nodes[number].program is None:
        return None
    addresses = emit.Addresses(plan.places, graph.layouts, plan.transfers[number], plan.buffers[number], plan.starts[number])
    operations, sources = emit.emit_operations(graph.jobs[number], addresses, state.constants)
    return NodeStream(tuple(operations), tuple(sources))
