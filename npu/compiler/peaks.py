"""What feature maps take at most where each is whole: whether anything must be cut at all."""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.allocate import live_bytes
from npu.compiler.layout import choose_layouts
from npu.compiler.lifetime import PlanNode, share_in_place, shared_spans, trace_lifetimes
from npu.graph.graph import Graph


def maps_peak(graph: Graph, nodes: Sequence[PlanNode]) -> int:
    """Bytes that feature maps take at most."""
    works = [node.program.steps if node.program else () for node in nodes]
    layouts = choose_layouts(step for steps in works for step in steps)
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    spans = shared_spans(lifetimes, share_in_place(lifetimes, nodes, works, layouts))
    return max(live_bytes(list(spans.values()), lifetimes.events), default=0)


def visible_peak(graph: Graph, nodes: Sequence[PlanNode]) -> int:
    """Bytes that tensors which the CPU or the application sees take at most: no cascade makes them smaller."""
    works = [node.program.steps if node.program else () for node in nodes]
    lifetimes = trace_lifetimes(graph, nodes, works, {})
    spans = [span for buffer, span in lifetimes.spans.items() if isinstance(buffer, int)]
    return max(live_bytes(spans, lifetimes.events), default=0)
