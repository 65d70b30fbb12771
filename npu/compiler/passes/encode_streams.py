"""Pass: operations become command words in driver payloads."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.state import NodeStream, State
from npu.isa.encode import encode_stream
from npu.isa.payload import build_payload


def encode_streams(state: State) -> State:
    """The state with the payload of every stream."""
    return state.with_graphs(
        tuple(
            replace(graph, streams=tuple(stream and _encoded(state, stream) for stream in graph.streams))
            for graph in state.graphs
        )
    )


def _encoded(state: State, stream: NodeStream) -> NodeStream:
    encoded = encode_stream(stream.operations, state.variant)
    return replace(stream, payload=build_payload(encoded.words, state.variant), encoded=encoded)
