"""What feature maps take at most where each is whole: whether anything must be cut at all, and below what nothing can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npu.compiler.allocate import LiveRange, live_bytes
from npu.compiler.ir import Storage
from npu.compiler.layout import choose_layouts
from npu.compiler.lifetime import Lifetimes, LogicalBuffer, PlanNode, Sharing, share_in_place, shared_spans, trace_lifetimes
from npu.graph.graph import Graph
from npu.isa.operations import Layout
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class MapPeaks:
    """The most bytes that all maps take at a time, and the visible ones: what the CPU or the application sees stays whole."""

    whole: int
    visible: int


def map_peaks(graph: Graph, nodes: Sequence[PlanNode]) -> MapPeaks:
    """The peaks of nodes whose maps are whole. An elementwise result that replaces its operand takes no memory of its own."""
    works = [node.program.steps if node.program else () for node in nodes]
    layouts = choose_layouts(step for steps in works for step in steps)
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    sharing = share_in_place(lifetimes, nodes, works, layouts)
    spans = list(shared_spans(lifetimes, sharing).values()), list(_visible_spans(lifetimes, sharing))
    whole, visible = (max(live_bytes(one, lifetimes.events), default=0) for one in spans)
    return MapPeaks(whole, visible)


def hidden_peak(graph: Graph, nodes: Sequence[PlanNode], layouts: Mapping[Storage, Layout]) -> int:
    """The most bytes that maps take at a time which only the NPU sees."""
    works = [node.program.steps if node.program else () for node in nodes]
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    spans = shared_spans(lifetimes, share_in_place(lifetimes, nodes, works, layouts))
    hidden = [span for buffer, span in spans.items() if not isinstance(buffer, int)]
    return max(live_bytes(hidden, lifetimes.events), default=0)


def _visible_spans(lifetimes: Lifetimes, sharing: Sharing) -> Iterator[LiveRange]:
    """When tensors that others see are live, those that replace each other as one."""
    by_owner: dict[LogicalBuffer, list[LiveRange]] = {}
    for buffer, owner in sharing.owner.items():
        if isinstance(buffer, int):
            by_owner.setdefault(owner, []).append(lifetimes.spans[buffer])
    for spans in by_owner.values():
        first, *others = sorted(spans, key=lambda span: span.first)
        for span in others:
            if span.first > first.last:
                yield first
                first = span
            else:
                first = first.joined(span)
        yield first
