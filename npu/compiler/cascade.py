"""Cascades: a chain of steps computed in stripes of rows, so that the maps between them are never whole in memory.

Rows that two stripes of a consumer read are kept in a rolling buffer, or made twice where the memory holds no more: then the
maps of a long chain need not be in memory all at the same time. Only what must be cut to meet a memory budget is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from npu.compiler.allocate import live_bytes
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
from npu.compiler.lifetime import PlanNode, share_in_place, shared_spans, trace_lifetimes
from npu.graph.graph import Graph
from npu.isa.operations import PoolingMode, Upscale
from npu.progress import Progress, counted
from npu.records import dataclass, replace

_STRIPES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_STRIPES_FOR_A_CACHE = (*_STRIPES, 48, 64, 96, 136)
"""More commands, but what lies in a cache costs no traffic of the memory behind it."""
_LONGEST = 8
"""Steps of the longest chain that is tried."""
_SHORT = 2
"""Steps of a chain with one map between them: a rolling buffer of it is no larger than the part that a stripe needs."""
_MOST_CASCADES = 24
_GOALS = (1.0, 0.8, 0.6)
"""Shares of the budget that are aimed at in turn."""

_ALLOWED_PEAKS = (1.0, 1.02, 1.05, 1.1, 1.16, 1.3)
"""Peaks relative to the smallest one that are looked at where memory counts more than cycles."""
_WORTH_OF_PEAK = 1.0
"""Half the memory is worth so many doublings of the cycles."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows [start, end) of a map."""

    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class _PeakGoal:
    """The peak that is to be lowered, and to what."""

    peak: int
    budget: int
    hidden_only: bool
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class _Trial:
    """Steps with one more cascade, the peak during that cascade, and the work relative to that before it."""

    steps: tuple[Step, ...]
    peak: int
    work: float


def fit_budget(
    graph: Graph, nodes: Sequence[PlanNode], budget: int, *, hidden_only: bool = False, progress: Progress | None = None
) -> list[PlanNode]:
    """The nodes with cascades so that the feature maps' peak is at most `budget` bytes, or as near to it as was found.

    `hidden_only` counts only maps that nobody outside a partition sees, for a cache: what does not fit it can stay in the arena
    behind it, which costs less than rows that are made twice.
    Cascades are chosen one after the other; where that ends above the budget, cutting for a smaller one may end below it.
    Where tensors that others see take more than the budget, nothing is gained by cutting below them.
    """
    if not hidden_only:
        budget = max(budget, visible_peak(graph, nodes))
    tried: list[tuple[int, int, list[PlanNode]]] = []
    for share in _GOALS:
        cut, peak = _cut_down(graph, nodes, int(budget * share), hidden_only, progress)
        if peak <= budget:
            return cut
        tried.append((peak, len(tried), cut))
    return min(tried)[2]


def fit_least(
    graph: Graph, nodes: Sequence[PlanNode], cycles: Callable[[Sequence[Step]], float], progress: Progress | None = None
) -> list[PlanNode]:
    """The nodes with cascades so that the peak is about the smallest that any have, and with the least cycles for that."""
    smallest = fit_budget(graph, nodes, 0, progress=progress)
    peak = _peak(graph, smallest)
    trials = [smallest]
    for allowed in _ALLOWED_PEAKS:
        cut = fit_budget(graph, nodes, int(peak * allowed), progress=progress)
        if _peak(graph, cut) <= peak * allowed:
            trials.append(cut)

    def cost(cut: Sequence[PlanNode]) -> tuple[float, int]:
        total, peak = sum(cycles(node.program.steps) for node in cut if node.program), _peak(graph, cut)
        return total * peak**_WORTH_OF_PEAK, peak

    return min(trials, key=cost)


def _peak(graph: Graph, nodes: Sequence[PlanNode]) -> int:
    return max(_usage(graph, nodes, False)[0], default=0)


def _cut_down(
    graph: Graph, nodes: Sequence[PlanNode], budget: int, hidden_only: bool, progress: Progress | None
) -> tuple[list[PlanNode], int]:
    """The nodes with cascades until the peak is at most `budget` or no cascade lowers it any more, and the peak."""
    cascaded = list(nodes)
    for _ in range(_MOST_CASCADES):
        usage, starts = _usage(graph, cascaded, hidden_only)
        peak = max(usage, default=0)
        if peak <= budget:
            break
        node = max(i for i in range(len(cascaded)) if starts[i] <= usage.index(peak))
        goal = _PeakGoal(peak, budget, hidden_only, progress)
        better = _improve(graph, cascaded, node, usage.index(peak) - starts[node], goal)
        if better is None:
            break
        cascaded[node] = better
    return cascaded, max(_usage(graph, cascaded, hidden_only)[0], default=0)


def visible_peak(graph: Graph, nodes: Sequence[PlanNode]) -> int:
    """Bytes that tensors which the CPU or the application sees take at most: no cascade makes them smaller."""
    works = [node.program.steps if node.program else () for node in nodes]
    lifetimes = trace_lifetimes(graph, nodes, works, {})
    spans = [span for buffer, span in lifetimes.spans.items() if isinstance(buffer, int)]
    return max(live_bytes(spans, lifetimes.events), default=0)


def _usage(graph: Graph, nodes: Sequence[PlanNode], hidden_only: bool) -> tuple[list[int], tuple[int, ...]]:
    """Bytes of feature maps at every event, one event per step, and the first event of every node."""
    works = [node.program.steps if node.program else () for node in nodes]
    layouts = choose_layouts(step for steps in works for step in steps)
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    buffers = shared_spans(lifetimes, share_in_place(lifetimes, nodes, works, layouts))
    spans = [span for buffer, span in buffers.items() if not (hidden_only and isinstance(buffer, int))]
    return live_bytes(spans, lifetimes.events), lifetimes.starts


def _improve(graph: Graph, nodes: list[PlanNode], number: int, worst: int, goal: _PeakGoal) -> PlanNode | None:
    """Node `number` with one more cascade around step `worst`: the cheapest that meets the budget, else the lowest."""
    node = nodes[number]
    if node.program is None:
        return None
    trials: list[_Trial] = []
    for first, last in counted(list(_chains(node.program.steps, worst)), "cascades to try", goal.progress):
        trials += _trials(graph, nodes, number, (first, last), goal, is_rolling=True)
        makes_rows_twice = not goal.hidden_only and last - first + 1 > _SHORT
        if makes_rows_twice and trials and trials[-1].peak > goal.budget:
            trials += _trials(graph, nodes, number, (first, last), goal, is_rolling=False)
    trials = [trial for trial in trials if trial.peak < goal.peak]
    if not trials:
        return None
    best = min(trials, key=lambda trial: (max(trial.peak, goal.budget), trial.work, len(trial.steps)))
    return replace(node, program=replace(node.program, steps=best.steps))


def _trials(
    graph: Graph, nodes: list[PlanNode], number: int, chain: tuple[int, int], goal: _PeakGoal, *, is_rolling: bool
) -> Iterator[_Trial]:
    """Node `number` with a chain in more and more stripes, until the budget is met."""
    node, (first, last) = nodes[number], chain
    assert node.program is not None
    for stripes in _STRIPES_FOR_A_CACHE if goal.hidden_only else _STRIPES:
        steps = cut_chain(node.program.steps, first, last, stripes, is_rolling=is_rolling)
        if steps is None:
            return
        candidate = replace(node, program=replace(node.program, steps=steps))
        usage, starts = _usage(graph, [*nodes[:number], candidate, *nodes[number + 1 :]], goal.hidden_only)
        begin = starts[number] + first
        end = begin + last - first + 1 + len(steps) - len(node.program.steps)
        trial = _Trial(steps, max(usage[begin:end]), _work(steps) / _work(node.program.steps))
        yield trial
        if trial.peak <= goal.budget:
            return


def _work(steps: Sequence[Step]) -> int:
    """Elements computed and weights read: what grows with rows that are computed twice, and with the number of stripes."""
    weights = sum(step.weights.values.size for step in steps if isinstance(step, ConvolutionStep))
    return weights + sum(step.ofm.shape[0] * step.ofm.shape[1] * step.ofm.shape[2] for step in steps)


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


def cut_chain(
    steps: Sequence[Step], first: int, last: int, stripes: int, *, is_rolling: bool = False
) -> tuple[Step, ...] | None:
    """The steps with [first, last] computed in `stripes` stripes of the last one's rows; None if there are fewer rows."""
    height = steps[last].ofm.shape[0]
    if stripes > height:
        return None
    rows = -(-height // stripes)
    cut = [RowRange(start, min(start + rows, height)) for start in range(0, height, rows)]
    chain = steps[first : last + 1]
    striped = _roll(chain, cut) if is_rolling else [step for own in cut for step in _stripe(chain, own)]
    return (*steps[:first], *striped, *steps[last + 1 :])


def _roll(chain: Sequence[Step], cut: Sequence[RowRange]) -> list[Step]:
    """A chain in stripes of its result, whose maps in between are rolling buffers: every row is made once."""
    stripes = list(_new_rows(chain, cut))
    buffers: list[Storage] = []
    for position, step in enumerate(chain[:-1]):
        needed = [input_rows(chain[position + 1], stripe[position + 1]) for stripe in stripes if stripe[position + 1].count]
        old = step.ofm.storage
        height = max(rows.count for rows in needed)
        buffers.append(Storage(f"{old.name} rolling", (height, *old.shape[1:]), old.element, is_rolling=True))
    return [
        _rolling_part(chain, position, rows, buffers)
        for stripe in stripes
        for position, rows in enumerate(stripe)
        if rows.count
    ]


def _new_rows(chain: Sequence[Step], cut: Sequence[RowRange]) -> Iterator[list[RowRange]]:
    """For every stripe of the last step's rows those that each step has to make for it, besides what it made before."""
    done = [0] * len(chain)
    for rows in cut:
        new = [rows]
        for position in range(len(chain) - 2, -1, -1):
            needed = input_rows(chain[position + 1], new[0]) if new[0].count else RowRange(0, 0)
            start = max(needed.start, done[position])
            new.insert(0, RowRange(start, max(needed.end, start)))
            done[position] = max(done[position], needed.end)
        yield new


def _rolling_part(chain: Sequence[Step], position: int, rows: RowRange, buffers: Sequence[Storage]) -> Step:
    """Rows of a step of the chain, read from and written to rolling buffers."""
    step, needed = chain[position], input_rows(chain[position], rows)
    replaced = chain[position - 1].ofm.storage if position else None

    def input_of(view: View) -> View:
        if view.storage is replaced:
            return _in_buffer(view, buffers[position - 1], needed)
        return _operand(step, view, needed)

    is_last = position == len(chain) - 1
    return _rows_of(step, rows, _crop(step.ofm, rows) if is_last else _in_buffer(step.ofm, buffers[position], rows), input_of)


def _in_buffer(view: View, buffer: Storage, rows: RowRange) -> View:
    """Rows of a whole map that is in a rolling buffer."""
    offset = (rows.start % buffer.shape[0], 0, 0)
    return replace(view, storage=buffer, full=buffer.shape, offset=offset, shape=(rows.count, *view.shape[1:]))


def _stripe(chain: Sequence[Step], rows: RowRange) -> list[Step]:
    """The part of a chain that makes `rows` of its OFM, with maps of its own in between."""
    made = [rows]
    for step in reversed(chain[1:]):
        made.insert(0, input_rows(step, made[0]))
    steps: list[Step] = []
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
        steps.append(_part(step, own, ofm, chain[position - 1].ofm.storage if position else None, between))
        between = new
    return steps


def _part(step: Step, rows: RowRange, ofm: View, replaced: Storage | None, between: Storage | None) -> Step:
    """`rows` of a step's result, written to `ofm`; views of the storage `replaced` become views of all of `between`."""
    needed = input_rows(step, rows)

    def input_of(view: View) -> View:
        if between is not None and view.storage is replaced:
            return replace(view, storage=between, full=between.shape, shape=(between.shape[0], *view.shape[1:]))
        return _operand(step, view, needed)

    return _rows_of(step, rows, ofm, input_of)


def _operand(step: Step, view: View, needed: RowRange) -> View:
    """The rows of an input that are needed; one row that is broadcast stays what it is."""
    return view if view.shape[0] == 1 and isinstance(step, ElementwiseStep) else _crop(view, needed)


def _rows_of(step: Step, rows: RowRange, ofm: View, input_of: Callable[[View], View]) -> Step:
    """`rows` of a step's result, written to `ofm`, from what `input_of` makes of its inputs."""
    if isinstance(step, ElementwiseStep):
        ifm2 = None if step.ifm2 is None else input_of(step.ifm2)
        return replace(step, ifm=input_of(step.ifm), ifm2=ifm2, ofm=ofm)
    assert isinstance(step, WindowStep)
    start, end = _window(step, rows)
    top, bottom = max(0, -start), max(0, end - step.ifm.shape[0])
    return replace(step, ifm=input_of(step.ifm), ofm=ofm, padding=replace(step.padding, top=top, bottom=bottom))


def input_rows(step: Step, rows: RowRange) -> RowRange:
    """Rows of the IFM that `rows` of the OFM are computed from."""
    if not isinstance(step, WindowStep):
        return rows
    start, end = _window(step, rows)
    return RowRange(max(start, 0), min(end, step.ifm.shape[0]))


def _window(step: WindowStep, rows: RowRange) -> tuple[int, int]:
    kernel, top = step.kernel, step.padding.top
    return rows.start * kernel.stride_y - top, (rows.end - 1) * kernel.stride_y - top + kernel.dilated_height


def _crop(view: View, rows: RowRange) -> View:
    offset = (view.offset[0] + rows.start, *view.offset[1:])
    return replace(view, offset=offset, shape=(rows.end - rows.start, *view.shape[1:]))
