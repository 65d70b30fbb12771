"""Cascades: a chain of steps computed in stripes of rows, so that the maps between them are never whole in memory.

Rows that two stripes of a consumer read are kept in a rolling buffer, or made twice where the memory holds no more: then the
maps of a long chain need not be in memory all at the same time. Only what must be cut to meet a memory budget is cut; chains
with branches that meet again, as those of a residual block do, are tried where nothing else meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from npu.compiler.allocate import live_bytes
from npu.compiler.chains import chains_around, is_line
from npu.compiler.cut_program import Cascade, CutProgram
from npu.compiler.ir import ConvolutionStep, Step
from npu.compiler.layout import choose_layouts
from npu.compiler.lifetime import PlanNode, share_in_place, shared_spans, trace_lifetimes
from npu.compiler.stripes import in_stripes
from npu.graph.graph import Graph
from npu.progress import Progress, counted
from npu.records import dataclass, replace

_STRIPES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_STRIPES_FOR_A_CACHE = (*_STRIPES, 48, 64, 96, 136)
"""More commands, but what lies in a cache costs no traffic of the memory behind it."""
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
class _Trial:
    """A program with one more cascade, the peak during that cascade, and the work relative to that before it."""

    program: CutProgram
    steps: tuple[Step, ...]
    peak: int
    work: float


@dataclass(frozen=True, slots=True)
class _Search:
    """What is cut, and how: `hidden_only` counts only maps that nobody outside a partition sees."""

    graph: Graph
    nodes: Sequence[PlanNode]
    hidden_only: bool = False
    has_branches: bool = False
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class _Peak:
    """The most that is live at once, at step `worst` of node `number`."""

    bytes: int
    number: int
    worst: int


def fit_budget(
    graph: Graph, nodes: Sequence[PlanNode], budget: int, *, hidden_only: bool = False, progress: Progress | None = None
) -> list[PlanNode]:
    """The nodes with cascades so that the feature maps' peak is at most `budget` bytes, or as near to it as was found.

    `hidden_only` counts only maps that nobody outside a partition sees, for a cache: what does not fit it can stay in the arena
    behind it, which costs less than rows that are made twice.
    Where tensors that others see take more than the budget, nothing is gained by cutting below them.
    """
    search = _Search(graph, nodes, hidden_only, progress=progress)
    if hidden_only:
        return _closest(search, budget)[0]
    budget = max(budget, visible_peak(graph, nodes))
    cut, peak = _closest(search, budget)
    if peak <= budget:
        return cut
    wider, lower = _closest(replace(search, has_branches=True), budget)
    return wider if lower < peak else cut


def fit_least(
    graph: Graph, nodes: Sequence[PlanNode], cycles: Callable[[Sequence[Step]], float], progress: Progress | None = None
) -> list[PlanNode]:
    """The nodes with cascades so that the peak is about the smallest that any have, and with the least cycles for that."""
    search, visible = _Search(graph, nodes, progress=progress), visible_peak(graph, nodes)
    smallest, peak = _closest(search, visible)
    trials = [smallest]
    for allowed in _ALLOWED_PEAKS:
        cut, reached = _closest(search, max(int(peak * allowed), visible))
        if reached <= peak * allowed:
            trials.append(cut)

    def cost(cut: Sequence[PlanNode]) -> tuple[float, int]:
        total, peak = sum(cycles(node.program.steps) for node in cut if node.program), _peak(graph, cut)
        return total * peak**_WORTH_OF_PEAK, peak

    return min(trials, key=cost)


def _peak(graph: Graph, nodes: Sequence[PlanNode]) -> int:
    return max(_usage(graph, nodes, False)[0], default=0)


def _closest(search: _Search, budget: int) -> tuple[list[PlanNode], int]:
    """The nodes with cascades whose peak is nearest to the budget, and that peak.

    Cascades are chosen one after the other; where that ends above the budget, cutting for a smaller one may end below it.
    """
    tried: list[tuple[int, int, list[PlanNode]]] = []
    for share in _GOALS:
        cut, peak = _cut_down(search, int(budget * share))
        if peak <= budget:
            return cut, peak
        tried.append((peak, len(tried), cut))
    peak, _, cut = min(tried)
    return cut, peak


def _cut_down(search: _Search, budget: int) -> tuple[list[PlanNode], int]:
    """The nodes with cascades until the peak is at most `budget` or no cascade lowers it any more, and the peak."""
    programs = [CutProgram(tuple(node.program.steps) if node.program else ()) for node in search.nodes]
    nodes = list(search.nodes)
    for _ in range(_MOST_CASCADES):
        peak = _peak_of(search, nodes)
        better = None if peak.bytes <= budget else _improve(search, nodes, programs[peak.number], peak, budget)
        if better is None:
            break
        programs[peak.number] = better.program if search.has_branches else CutProgram(better.steps)
        nodes = _replaced(nodes, peak.number, better.steps)
    return nodes, _peak_of(search, nodes).bytes


def _peak_of(search: _Search, nodes: Sequence[PlanNode]) -> _Peak:
    usage, starts = _usage(search.graph, nodes, search.hidden_only)
    peak = max(usage, default=0)
    event = usage.index(peak) if usage else 0
    number = max((i for i in range(len(nodes)) if starts[i] <= event), default=0)
    return _Peak(peak, number, event - starts[number])


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


def _improve(search: _Search, nodes: Sequence[PlanNode], program: CutProgram, peak: _Peak, budget: int) -> _Trial | None:
    """A node's program with one more cascade around the peak: the cheapest that meets the budget, else the lowest."""
    whole, trials = program.whole, list[_Trial]()
    chains = list(chains_around(whole, program.uncut(peak.worst), has_branches=search.has_branches))
    for first, last in counted(chains, "cascades to try", search.progress):
        trials += _trials(search, nodes, program, (first, last), peak, budget, is_rolling=True)
        makes_rows_twice = not search.hidden_only and last - first + 1 > _SHORT and is_line(whole[first : last + 1])
        if makes_rows_twice and trials and trials[-1].peak > budget:
            trials += _trials(search, nodes, program, (first, last), peak, budget, is_rolling=False)
    lower = [trial for trial in trials if trial.peak < peak.bytes]
    return min(lower, key=lambda trial: (max(trial.peak, budget), trial.work, len(trial.steps)), default=None)


def _trials(
    search: _Search,
    nodes: Sequence[PlanNode],
    program: CutProgram,
    chain: tuple[int, int],
    peak: _Peak,
    budget: int,
    *,
    is_rolling: bool,
) -> Iterator[_Trial]:
    """A node's program with a chain in more and more stripes, until the budget is met."""
    (first, last), work, worst = chain, _work(program.steps()), program.uncut(peak.worst)
    for count in _STRIPES_FOR_A_CACHE if search.hidden_only else _STRIPES:
        stripes = in_stripes(program.whole[first : last + 1], count, is_rolling=is_rolling)
        candidate = stripes and program.with_cascade(Cascade(first, last, stripes))
        if not stripes or not candidate:
            return
        steps = candidate.steps()
        usage, starts = _usage(search.graph, _replaced(nodes, peak.number, steps), search.hidden_only)
        usage = usage[starts[peak.number] :]
        begin = candidate.position(first)
        beside = [] if not search.has_branches or first <= worst <= last else [usage[candidate.position(worst)]]
        reached = max(usage[begin : begin + len(stripes)] + beside)
        yield _Trial(candidate, steps, reached, _work(steps) / work)
        if reached <= budget:
            return


def _replaced(nodes: Sequence[PlanNode], number: int, steps: tuple[Step, ...]) -> list[PlanNode]:
    """The nodes, one of them with other steps."""
    return [*nodes[:number], _with_steps(nodes[number], steps), *nodes[number + 1 :]]


def _with_steps(node: PlanNode, steps: tuple[Step, ...]) -> PlanNode:
    assert node.program is not None
    return replace(node, program=replace(node.program, steps=steps))


def _work(steps: Sequence[Step]) -> int:
    """Elements computed and weights read: what grows with rows that are computed twice, and with the number of stripes."""
    weights = sum(step.weights.values.size for step in steps if isinstance(step, ConvolutionStep))
    return weights + sum(step.ofm.shape[0] * step.ofm.shape[1] * step.ofm.shape[2] for step in steps)
