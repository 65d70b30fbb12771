"""Cascades: a chain of steps computed in stripes of rows, so that the maps between them are never whole in memory.

Rows that two stripes share are computed twice; that is the price. Only what must be cut to meet a memory budget is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from npu.compiler.allocate import Buffer, live_bytes
from npu.compiler.ir import (
    ConvolutionStep,
    ElementwiseStep,
    PoolingStep,
    Step,
    Storage,
    View,
    WindowStep,
)
from npu.compiler.layout import choose_layouts, reads, views
from npu.compiler.lifetime import Node, share_in_place, shared_spans, trace_lifetimes
from npu.graph.graph import Graph
from npu.isa.operations import PoolingMode, Upscale
from npu.records import dataclass

_STRIPES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_LONGEST = 8
"""Steps of the longest chain that is tried."""
_MOST_CASCADES = 24
_GOALS = (1.0, 0.8, 0.6)
"""Shares of the budget that are aimed at in turn."""

_ALLOWED_PEAKS = (1.0, 1.04, 1.1, 1.16)
"""Peaks relative to the smallest one that are looked at where memory counts more than work."""
_WORTH_OF_PEAK = 1.0
"""Half the memory is worth so many doublings of the work."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows [start, end) of a map."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Goal:
    """The peak that is to be lowered, and to what."""

    peak: int
    budget: int
    hidden_only: bool


@dataclass(frozen=True, slots=True)
class _Trial:
    """Steps with one more cascade, the peak during that cascade, and the work relative to that before it."""

    steps: tuple[Step, ...]
    peak: int
    work: float


def fit_budget(graph: Graph, nodes: Sequence[Node], budget: int, *, hidden_only: bool = False) -> list[Node]:
    """The nodes with cascades so that the feature maps' peak is at most `budget` bytes, or as near to it as was found.

    `hidden_only` counts only maps that nobody outside a partition sees.
    Cascades are chosen one after the other; where that ends above the budget, cutting for a smaller one may end below it.
    Where tensors that others see take more than the budget, nothing is gained by cutting below them.
    """
    if not hidden_only:
        budget = max(budget, visible_peak(graph, nodes))
    tried: list[tuple[int, int, list[Node]]] = []
    for share in _GOALS:
        cut, peak = _cut_down(graph, nodes, int(budget * share), hidden_only)
        if peak <= budget:
            return cut
        tried.append((peak, len(tried), cut))
    return min(tried)[2]


def fit_least(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The nodes with cascades so that the peak is about the smallest that any have, and with the least work for that."""
    smallest = fit_budget(graph, nodes, 0)
    peak = _peak(graph, smallest)
    trials = [smallest]
    for allowed in _ALLOWED_PEAKS:
        cut = fit_budget(graph, nodes, int(peak * allowed))
        if _peak(graph, cut) <= peak * allowed:
            trials.append(cut)
    return min(trials, key=lambda cut: (_total_work(cut) * _peak(graph, cut) ** _WORTH_OF_PEAK, _peak(graph, cut)))


def _peak(graph: Graph, nodes: Sequence[Node]) -> int:
    return max(_usage(graph, nodes, False)[0], default=0)


def _total_work(nodes: Sequence[Node]) -> int:
    return sum(_work(node.program.steps) for node in nodes if node.program)


def _cut_down(graph: Graph, nodes: Sequence[Node], budget: int, hidden_only: bool) -> tuple[list[Node], int]:
    """The nodes with cascades until the peak is at most `budget` or no cascade lowers it any more, and the peak."""
    result = list(nodes)
    for _ in range(_MOST_CASCADES):
        usage, starts = _usage(graph, result, hidden_only)
        peak = max(usage, default=0)
        if peak <= budget:
            break
        node = max(i for i in range(len(result)) if starts[i] <= usage.index(peak))
        better = _improve(graph, result, node, usage.index(peak) - starts[node], _Goal(peak, budget, hidden_only))
        if better is None:
            break
        result[node] = better
    return result, max(_usage(graph, result, hidden_only)[0], default=0)


def visible_peak(graph: Graph, nodes: Sequence[Node]) -> int:
    """Bytes that tensors which the CPU or the application sees take at most: no cascade makes them smaller."""
    works = [node.program.steps if node.program else () for node in nodes]
    lifetimes = trace_lifetimes(graph, nodes, works, {})
    spans = [Buffer(span.size_bytes, span.first, span.last) for item, span in lifetimes.spans.items() if isinstance(item, int)]
    return max(live_bytes(spans, lifetimes.events), default=0)


def _usage(graph: Graph, nodes: Sequence[Node], hidden_only: bool) -> tuple[list[int], tuple[int, ...]]:
    """Bytes of feature maps at every event, one event per step, and the first event of every node."""
    works = [node.program.steps if node.program else () for node in nodes]
    layouts = choose_layouts(step for steps in works for step in steps)
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    buffers = shared_spans(lifetimes, share_in_place(lifetimes, nodes, works, layouts))
    spans = [
        Buffer(span.size_bytes, span.first, span.last)
        for item, span in buffers.items()
        if not (hidden_only and isinstance(item, int))
    ]
    return live_bytes(spans, lifetimes.events), lifetimes.starts


def _improve(graph: Graph, nodes: list[Node], number: int, worst: int, goal: _Goal) -> Node | None:
    """Node `number` with one more cascade around step `worst`: the cheapest that meets the budget, else the lowest."""
    node = nodes[number]
    if node.program is None:
        return None
    trials: list[_Trial] = []
    for first, last in _chains(node.program.steps, worst):
        for stripes in _STRIPES:
            steps = cut_chain(node.program.steps, first, last, stripes)
            if steps is None:
                break
            candidate = replace(node, program=replace(node.program, steps=steps))
            usage, starts = _usage(graph, [*nodes[:number], candidate, *nodes[number + 1 :]], goal.hidden_only)
            begin = starts[number] + first
            end = begin + last - first + 1 + len(steps) - len(node.program.steps)
            trial = _Trial(steps, max(usage[begin:end]), _work(steps) / _work(node.program.steps))
            trials.append(trial)
            if trial.peak <= goal.budget:
                break
    trials = [trial for trial in trials if trial.peak < goal.peak]
    if not trials:
        return None
    best = min(trials, key=lambda trial: (max(trial.peak, goal.budget), trial.work))
    return replace(node, program=replace(node.program, steps=best.steps))


def _work(steps: Sequence[Step]) -> int:
    """Elements computed: grows with the rows that are computed twice."""
    return sum(step.ofm.shape[0] * step.ofm.shape[1] * step.ofm.shape[2] for step in steps)


def _chains(steps: Sequence[Step], worst: int) -> Iterator[tuple[int, int]]:
    """First and last step of every chain that has step `worst` or a neighbour of it in it."""
    uses = _uses(steps)
    linked = [_is_linked(steps[i], steps[i + 1], uses) for i in range(len(steps) - 1)]
    for first in range(max(worst - _LONGEST, 0), min(worst + 1, len(linked) - 1) + 1):
        last = first
        while last < len(linked) and linked[last] and last - first + 1 < _LONGEST:
            last += 1
            if last >= worst - 1:
                yield first, last


def _uses(steps: Sequence[Step]) -> Mapping[Storage, int]:
    """How many views of each storage there are."""
    count: dict[Storage, int] = {}
    for step in steps:
        for view in views(step):
            count[view.storage] = count.get(view.storage, 0) + 1
    return count


def _is_linked(producer: Step, consumer: Step, uses: Mapping[Storage, int]) -> bool:
    """Whether the map between two steps is theirs alone and can be made in stripes.

    A map of one row that is broadcast over the consumer's rows is needed whole for each of them.
    """
    storage = producer.ofm.storage
    if storage.is_boundary or uses[storage] != 2 or not (_is_divisible(producer) and _is_divisible(consumer)):
        return False
    inputs = [view for view in reads(consumer) if view.storage is storage]
    if isinstance(consumer, ElementwiseStep) and any(view.shape[0] != consumer.ofm.shape[0] for view in inputs):
        return False
    return bool(inputs) and all(view.is_whole for view in (*inputs, producer.ofm))


def _is_divisible(step: Step) -> bool:
    """Whether rows of the step's result depend on a window of rows of its inputs.

    An average without a scale divides by the elements that are no padding, whichever rows are made with it.
    """
    if isinstance(step, PoolingStep):
        return step.mode is not PoolingMode.REDUCE_SUM and step.upscale is Upscale.NONE
    if isinstance(step, ConvolutionStep):
        return step.upscale is Upscale.NONE
    return isinstance(step, ElementwiseStep)


def cut_chain(steps: Sequence[Step], first: int, last: int, stripes: int) -> tuple[Step, ...] | None:
    """The steps with [first, last] computed in `stripes` stripes of the last one's rows; None if there are fewer rows."""
    height = steps[last].ofm.shape[0]
    if stripes > height:
        return None
    rows = -(-height // stripes)
    striped: list[Step] = []
    for start in range(0, height, rows):
        striped += _stripe(steps[first : last + 1], Rows(start, min(start + rows, height)))
    return (*steps[:first], *striped, *steps[last + 1 :])


def _stripe(chain: Sequence[Step], rows: Rows) -> list[Step]:
    """The part of a chain that makes `rows` of its result, with maps of its own in between."""
    made = [rows]
    for step in reversed(chain[1:]):
        made.insert(0, input_rows(step, made[0]))
    result: list[Step] = []
    between: Storage | None = None
    for position, step in enumerate(chain):
        own = made[position]
        ofm = _crop(step.ofm, own)
        if position < len(chain) - 1:
            old = step.ofm.storage
            new = Storage(f"{old.name} rows {own.start}", (own.end - own.start, *old.shape[1:]), old.element)
            ofm = replace(View.whole(new, step.ofm.zero_point), element=step.ofm.element)
        else:
            new = step.ofm.storage
        result.append(_part(step, own, ofm, chain[position - 1].ofm.storage if position else None, between))
        between = new
    return result


def _part(step: Step, rows: Rows, ofm: View, replaced: Storage | None, between: Storage | None) -> Step:
    """`rows` of a step's result, written to `ofm`; views of the storage `replaced` become views of all of `between`."""
    needed = input_rows(step, rows)

    def input_of(view: View) -> View:
        if between is not None and view.storage is replaced:
            return replace(view, storage=between, full=between.shape, shape=(between.shape[0], *view.shape[1:]))
        return view if view.shape[0] == 1 and isinstance(step, ElementwiseStep) else _crop(view, needed)

    if isinstance(step, ElementwiseStep):
        ifm2 = None if step.ifm2 is None else input_of(step.ifm2)
        return replace(step, ifm=input_of(step.ifm), ifm2=ifm2, ofm=ofm)
    assert isinstance(step, WindowStep)
    start, end = _window(step, rows)
    top, bottom = max(0, -start), max(0, end - step.ifm.shape[0])
    return replace(step, ifm=input_of(step.ifm), ofm=ofm, padding=replace(step.padding, top=top, bottom=bottom))


def input_rows(step: Step, rows: Rows) -> Rows:
    """Rows of the IFM that `rows` of the OFM are computed from."""
    if not isinstance(step, WindowStep):
        return rows
    start, end = _window(step, rows)
    return Rows(max(start, 0), min(end, step.ifm.shape[0]))


def _window(step: WindowStep, rows: Rows) -> tuple[int, int]:
    kernel, top = step.kernel, step.padding.top
    return rows.start * kernel.stride_y - top, (rows.end - 1) * kernel.stride_y - top + kernel.dilated_height


def _crop(view: View, rows: Rows) -> View:
    offset = (view.offset[0] + rows.start, *view.offset[1:])
    return replace(view, offset=offset, shape=(rows.end - rows.start, *view.shape[1:]))
