"""What feature maps take at most where each is whole: whether anything must be cut at all, and below what nothing can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from npu.compiler.allocate import LiveRange, live_bytes
from npu.compiler.ir import Storage
from npu.compiler.layout import choose_layouts
from npu.compiler.lifetime import (
    Lifetimes,
    LogicalBuffer,
    PlanNode,
    Sharing,
    share_in_place,
    shared_spans,
    steps_of,
    trace_lifetimes,
)
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
    layouts = choose_layouts(steps_of(nodes))
    lifetimes, sharing = _traced(graph, nodes, layouts)
    whole = _peak(shared_spans(lifetimes, sharing).values(), lifetimes)
    return MapPeaks(whole, _peak(_visible_spans(lifetimes, sharing), lifetimes))


def hidden_peak(graph: Graph, nodes: Sequence[PlanNode], layouts: Mapping[Storage, Layout]) -> int:
    """The most bytes that maps take at a time which only the NPU sees."""
    lifetimes, sharing = _traced(graph, nodes, layouts)
    spans = shared_spans(lifetimes, sharing).items()
    return _peak((span for buffer, span in spans if not isinstance(buffer, int)), lifetimes)


def _traced(graph: Graph, nodes: Sequence[PlanNode], layouts: Mapping[Storage, Layout]) -> tuple[Lifetimes, Sharing]:
    works = [node.steps for node in nodes]
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    return lifetimes, share_in_place(lifetimes, nodes, works, layouts)


def _peak(spans: Iterable[LiveRange], lifetimes: Lifetimes) -> int:
    return max(live_bytes(list(spans), lifetimes.events), default=0)


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
