"""Bytes of feature maps that are live at every event: of all nodes, and of a few steps alone when they become stripes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npu.compiler.allocate import LiveRange, live_bytes, round_up
from npu.compiler.ir import Step, Storage
from npu.compiler.layout import choose_layouts, views
from npu.compiler.lifetime import (
    Lifetimes,
    LogicalBuffer,
    PlanNode,
    Sharing,
    buffer_of,
    share_in_place,
    shared_spans,
    touched_by_steps,
    trace_lifetimes,
)
from npu.graph.graph import Graph
from npu.isa.operations import Layout
from npu.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class LiveMaps:
    """What is live while nodes run, one event for each step.

    `sharing` says whose memory a buffer uses, `spans` are those of whole memory. `hidden_only` leaves out what is seen outside,
    with `has_leads` maps begin in front of others.
    """

    nodes: Sequence[PlanNode]
    layouts: Mapping[Storage, Layout]
    lifetimes: Lifetimes
    sharing: Sharing
    spans: Mapping[LogicalBuffer, LiveRange]
    usage: Sequence[int]
    hidden_only: bool
    has_leads: bool

    @property
    def starts(self) -> Sequence[int]:
        return self.lifetimes.starts


def live_maps(graph: Graph, nodes: Sequence[PlanNode], *, hidden_only: bool = False, has_leads: bool = False) -> LiveMaps:
    """Look at all steps of all nodes."""
    works = [node.steps for node in nodes]
    layouts = choose_layouts(step for steps in works for step in steps)
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    sharing = share_in_place(lifetimes, nodes, works, layouts, has_leads=has_leads)
    spans = _counted(shared_spans(lifetimes, sharing), hidden_only=hidden_only)
    usage = live_bytes(list(spans.values()), lifetimes.events)
    return LiveMaps(nodes, layouts, lifetimes, sharing, spans, usage, hidden_only, has_leads)


def _counted(spans: Mapping[LogicalBuffer, LiveRange], *, hidden_only: bool) -> Mapping[LogicalBuffer, LiveRange]:
    return {root: span for root, span in spans.items() if not (hidden_only and isinstance(root, int))}


class CutWindow:
    """Steps [first, last] of a node, of which `stripes` may take the place: what is live besides them is the same then."""

    def __init__(self, live: LiveMaps, number: int, first: int, last: int) -> None:
        start, program = live.starts[number], live.nodes[number].program
        assert program is not None
        self._live, self._node = live, live.nodes[number]
        self._begin, self._end = start + first, start + last
        self._at_begin = {tensor for tensor, _ in program.inputs} if first == 0 else set[int]()
        self._at_end = {tensor for tensor, _ in program.outputs} if last == len(program.steps) - 1 else set[int]()
        steps = program.steps[first : last + 1]
        self._touched = {buffer_of(view.storage) for step in steps for view in views(step) if view.storage.data is None}
        roots = {live.sharing.owner[buffer] for buffer in self._touched}
        self._beside = sum(
            round_up(span.size_bytes)
            for root, span in live.spans.items()
            if root not in roots and span.first <= self._end and span.last >= self._begin
        )

    def usage(self, stripes: Sequence[Step]) -> list[int]:
        """Bytes at the event of every stripe, as if the node had them in place of the steps."""
        layouts = {**choose_layouts(stripes), **self._known(stripes)}
        end = len(stripes)
        spans = {
            buffer: self._with_outside(buffer, span, end) for buffer, span in touched_by_steps(stripes, layouts, 1).items()
        }
        lifetimes = Lifetimes(spans, (1, end + 1), self._live.lifetimes.lasting)
        own = share_in_place(lifetimes, [self._node], [stripes], layouts, has_leads=self._live.has_leads)
        outside = self._live.sharing
        starts = {
            buffer: own.starts[buffer] - own.starts[root] + (outside.starts[root] if self._is_before(root) else 0)
            for buffer, root in own.owner.items()
        }
        sharing = Sharing.among({buffer: self._outside_root(root) for buffer, root in own.owner.items()}, starts)
        joined = shared_spans(lifetimes, sharing)
        counted = _counted(joined, hidden_only=self._live.hidden_only)
        return [self._beside + own for own in live_bytes(list(counted.values()), end + 2)[1 : end + 1]]

    def _known(self, stripes: Sequence[Step]) -> Mapping[Storage, Layout]:
        """The layouts of what was there before."""
        known = self._live.layouts
        return {view.storage: known[view.storage] for step in stripes for view in views(step) if view.storage in known}

    def _with_outside(self, buffer: LogicalBuffer, span: LiveRange, end: int) -> LiveRange:
        """A span among the stripes, event 1 to `end`, or longer where other steps use the buffer."""
        first = 0 if self._is_before(buffer) else 1 if buffer in self._at_begin else span.first
        last = end + 1 if self._is_after(buffer) else end if buffer in self._at_end else span.last
        known = self._live.lifetimes.spans.get(buffer)
        return LiveRange(span.size_bytes if known is None else known.size_bytes, first, last)

    def _is_before(self, buffer: LogicalBuffer) -> bool:
        span = self._live.lifetimes.spans.get(buffer)
        return span is not None and span.first < self._begin

    def _is_after(self, buffer: LogicalBuffer) -> bool:
        span = self._live.lifetimes.spans.get(buffer)
        return span is not None and span.last > self._end

    def _outside_root(self, root: LogicalBuffer) -> LogicalBuffer:
        """Whose memory a buffer uses that was made before."""
        return self._live.sharing.owner[root] if self._is_before(root) else root
