"""Cascades: a chain of steps computed in stripes of rows, so that the maps between them are never whole in memory.

Rows that two stripes of a consumer read are kept in a rolling buffer, or made twice where the memory holds no more: then the
maps of a long chain need not be in memory all at the same time. Only what must be cut to meet a memory budget is cut; chains
with branches that meet again, as those of a residual block do, are tried where nothing else meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from npu.compiler.allocate import live_bytes
from npu.compiler.chains import chains_around, is_line
from npu.compiler.cut_program import Cascade, CutProgram
from npu.compiler.cut_rows import CutPlan, LineSearch
from npu.compiler.ir import ConvolutionStep, Step
from npu.compiler.lifetime import PlanNode, trace_lifetimes
from npu.compiler.stripes import in_stripes, least_between
from npu.compiler.usage import CutWindow, LiveMaps, live_maps
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
_ROOMY_GOALS = (*_GOALS, 0.45)
"""The same where what is left may be room for copies of constants."""

_ALLOWED_PEAKS = (1.0, 1.02, 1.05, 1.1, 1.16, 1.3)
"""Peaks relative to the smallest one that are looked at where memory counts more than cycles."""
_WORTH_OF_PEAK = 1.0
"""Half the memory is worth so many doublings of the cycles."""


@dataclass(frozen=True, slots=True, eq=False)
class _CutState:
    """Nodes with the cascades chosen so far, the programs of the same and their work, and what is live at once."""

    programs: tuple[CutProgram, ...]
    works: tuple[int, ...]
    live: LiveMaps

    @property
    def peak(self) -> int:
        return max(self.live.usage, default=0)

    @property
    def place_of_peak(self) -> tuple[int, int]:
        """The node and its step at which it is."""
        event, starts = self.live.usage.index(self.peak) if self.live.usage else 0, self.live.starts
        number = max((i for i in range(len(self.programs)) if starts[i] <= event), default=0)
        return number, event - starts[number]


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A program with one more cascade, the peak during that cascade, and the work relative to that before it."""

    program: CutProgram
    steps: tuple[Step, ...]
    peak: int
    work: float


class _BranchSearch:
    """Cuts chains with branches that meet again.

    Searches for one budget after the other begin alike: what was tried in a state is not tried again.
    """

    def __init__(self, graph: Graph, nodes: Sequence[PlanNode], progress: Progress | None = None) -> None:
        self.graph, self.progress = graph, progress
        programs = tuple(CutProgram(tuple(node.program.steps) if node.program else ()) for node in nodes)
        self.start = self._state(programs, nodes)
        self._chains: dict[tuple[_CutState, int, int], Sequence[tuple[int, int]]] = {}
        self._trials: dict[tuple[_CutState, tuple[int, int], int, bool], _Trial | None] = {}
        self._stripes: dict[tuple[tuple[int, ...], int, bool], tuple[Step, ...] | None] = {}
        self._between: dict[tuple[tuple[int, ...], int, bool], tuple[int, bool] | None] = {}
        self._windows: dict[tuple[_CutState, tuple[int, int]], CutWindow] = {}
        self._chosen: dict[tuple[_CutState, _Trial], _CutState] = {}

    def _state(self, programs: tuple[CutProgram, ...], nodes: Sequence[PlanNode]) -> _CutState:
        works = tuple(_work(program.steps()) for program in programs)
        return _CutState(programs, works, live_maps(self.graph, nodes))

    def chains(self, state: _CutState, number: int, worst: int) -> Sequence[tuple[int, int]]:
        """The chains of a node around step `worst`."""
        if (state, number, worst) not in self._chains:
            program = state.programs[number]
            chains = chains_around(program.whole, program.uncut(worst), has_branches=True)
            self._chains[state, number, worst] = list(chains)
        return self._chains[state, number, worst]

    def least(self, state: _CutState, number: int, chain: tuple[int, int]) -> int:
        """Bytes that are live at once however a chain is cut, as far as that is known."""
        return 0 if state.programs[number].has_cascades(chain) else self._window(state, number, chain).least

    def least_in(self, state: _CutState, number: int, chain: tuple[int, int], count: int, *, is_rolling: bool) -> int | None:
        """The same with the chain in so many stripes, found without making them; None if it has fewer rows."""
        (first, last), whole = chain, state.programs[number].whole
        key = tuple(map(id, whole[first : last + 1])), count, is_rolling
        if key not in self._between:
            self._between[key] = least_between(whole[first : last + 1], count, is_rolling=is_rolling)
        between = self._between[key]
        if between is None or state.programs[number].has_cascades(chain):
            return between and between[0]
        return self._window(state, number, chain).least_with(between[0], has_result=between[1])

    def _window(self, state: _CutState, number: int, chain: tuple[int, int]) -> CutWindow:
        if (state, chain) not in self._windows:
            program = state.programs[number]
            self._windows[state, chain] = CutWindow(state.live, number, *map(program.position, chain))
        return self._windows[state, chain]

    def trial(self, state: _CutState, number: int, chain: tuple[int, int], count: int, *, is_rolling: bool) -> _Trial | None:
        """A node's program with a chain in so many stripes; None if it has fewer rows, or if other cascades share its steps."""
        key = state, chain, count, is_rolling
        if key not in self._trials:
            self._trials[key] = self._try(state, number, chain, count, is_rolling=is_rolling)
        return self._trials[key]

    def _try(self, state: _CutState, number: int, chain: tuple[int, int], count: int, *, is_rolling: bool) -> _Trial | None:
        (first, last), program = chain, state.programs[number]
        replaced = program.whole[first : last + 1]
        stripes = self._stripes_of(replaced, count, is_rolling=is_rolling)
        candidate = stripes and program.with_cascade(Cascade(first, last, stripes))
        if not stripes or not candidate:
            return None
        steps = candidate.steps()
        if program.has_cascades(chain):
            reached, work = self._peak_with(state, number, candidate, chain), _work(steps)
        else:
            reached = max(*self._window(state, number, chain).usage(stripes), self._peak_beside(state, number, chain))
            work = state.works[number] - _work(replaced) + _work(stripes)
        return _Trial(candidate, steps, reached, work / state.works[number])

    def _stripes_of(self, chain: tuple[Step, ...], count: int, *, is_rolling: bool) -> tuple[Step, ...] | None:
        """The same steps in another state have the same stripes."""
        key = tuple(map(id, chain)), count, is_rolling  # states keep the steps
        if key not in self._stripes:
            self._stripes[key] = in_stripes(chain, count, is_rolling=is_rolling)
        return self._stripes[key]

    def _peak_beside(self, state: _CutState, number: int, chain: tuple[int, int]) -> int:
        """The most that is live at the step of the peak or the cascade that has it, if that is not in a chain."""
        program, usage = state.programs[number], state.live.usage[state.live.starts[number] :]
        worst = program.uncut(state.place_of_peak[1])
        return 0 if chain[0] <= worst <= chain[1] else max(usage[position] for position in program.extent(worst))

    def _peak_with(self, state: _CutState, number: int, candidate: CutProgram, chain: tuple[int, int]) -> int:
        """The most that is live during a new cascade, and at the step of the peak before it or the cascade that has it."""
        live = live_maps(self.graph, _replaced(state.live.nodes, number, candidate.steps()))
        usage = live.usage[live.starts[number] :]
        beside = candidate.extent(state.programs[number].uncut(state.place_of_peak[1]))
        return max(usage[position] for extent in (candidate.extent(chain[0]), beside) for position in extent)

    def next(self, state: _CutState, budget: int) -> _CutState | None:
        """The state with one more cascade."""
        number, worst = state.place_of_peak
        better = _improve(self, state, number, worst, budget)
        return None if better is None else self.chosen(state, number, better)

    def chosen(self, state: _CutState, number: int, trial: _Trial) -> _CutState:
        """The state with a trial in it."""
        if (state, trial) not in self._chosen:
            programs = (*state.programs[:number], trial.program, *state.programs[number + 1 :])
            self._chosen[state, trial] = self._state(programs, _replaced(state.live.nodes, number, trial.steps))
        return self._chosen[state, trial]


def fit_budget(
    graph: Graph, nodes: Sequence[PlanNode], budget: int, *, hidden_only: bool = False, progress: Progress | None = None
) -> list[PlanNode]:
    """The nodes with cascades so that the feature maps' peak is at most `budget` bytes, or as near to it as was found.

    `hidden_only` counts only maps that nobody outside a partition sees, for a cache: what does not fit it can stay in the arena
    behind it, which costs less than rows that are made twice.
    Where tensors that others see take more than the budget, nothing is gained by cutting below them.
    """
    if hidden_only:
        search = LineSearch(graph, nodes, _STRIPES_FOR_A_CACHE, progress, hides_tensors=True)
        return search.nodes(_closest(search, budget))
    return next(plans_within(graph, nodes, budget, progress))


def plans_within(
    graph: Graph, nodes: Sequence[PlanNode], budget: int, progress: Progress | None = None
) -> Iterator[list[PlanNode]]:
    """The nodes with cascades so that the feature maps' peak is at most `budget` bytes, or a share of it, in several ways.

    The first is found soonest. If there is none, it is what comes nearest.
    """
    budget, missed = max(budget, visible_peak(graph, nodes)), list[tuple[int, list[PlanNode]]]()
    search = _BranchSearch(graph, nodes, progress)
    for share in _ROOMY_GOALS:
        state = _cut_down(search, int(budget * share))
        cut, peak = list(state.live.nodes), state.peak
        if peak <= budget:
            yield cut
        missed.append((peak, cut))
    peak, cut = min(missed, key=lambda plan: plan[0])
    if peak > budget:  # chains of stripes, which this search leaves alone, may go on where branches do not
        lines = LineSearch(graph, nodes, _STRIPES, progress)
        other = _closest(lines, budget)
        yield lines.nodes(other) if other.peak < peak else cut


def fit_least(
    graph: Graph, nodes: Sequence[PlanNode], cycles: Callable[[Sequence[Step]], float], progress: Progress | None = None
) -> list[PlanNode]:
    """The nodes with cascades so that the peak is about the smallest that any have, and with the least cycles for that."""
    search, visible = LineSearch(graph, nodes, _STRIPES, progress), visible_peak(graph, nodes)
    smallest = _closest(search, visible)
    tried = [smallest]
    for allowed in _ALLOWED_PEAKS:
        state = _closest(search, max(int(smallest.peak * allowed), visible))
        if state.peak <= smallest.peak * allowed:
            tried.append(state)

    def cost(plan: tuple[list[PlanNode], int]) -> tuple[float, int]:
        total, peak = sum(cycles(node.program.steps) for node in plan[0] if node.program), plan[1]
        return total * peak**_WORTH_OF_PEAK, peak

    return min(((search.nodes(state), state.peak) for state in dict.fromkeys(tried)), key=cost)[0]


def _closest(search: LineSearch, budget: int) -> CutPlan:
    """The state with cascades whose peak is nearest to the budget.

    Cascades are chosen one after the other; where that ends above the budget, cutting for a smaller one may end below it.
    """
    tried: list[CutPlan] = []
    for share in _GOALS:
        tried.append(_cut_down(search, int(budget * share)))
        if tried[-1].peak <= budget:
            return tried[-1]
    return min(tried, key=lambda state: state.peak)


S = TypeVar("S", _CutState, CutPlan)


class _Searching(Protocol[S]):
    """What begins without cascades and finds one more, where the peak is."""

    start: S
    progress: Progress | None

    def next(self, state: S, budget: int) -> S | None:
        """The state with one more cascade; None if none lowers the peak."""


def _cut_down(search: _Searching[S], budget: int) -> S:
    """The state with cascades until the peak is at most `budget` or no cascade lowers it any more."""
    state = search.start
    for _ in counted(range(_MOST_CASCADES), "cascades to try", search.progress):
        better = None if state.peak <= budget else search.next(state, budget)
        if better is None:
            break
        state = better
    return state


def visible_peak(graph: Graph, nodes: Sequence[PlanNode]) -> int:
    """Bytes that tensors which the CPU or the application sees take at most: no cascade makes them smaller."""
    works = [node.program.steps if node.program else () for node in nodes]
    lifetimes = trace_lifetimes(graph, nodes, works, {})
    spans = [span for buffer, span in lifetimes.spans.items() if isinstance(buffer, int)]
    return max(live_bytes(spans, lifetimes.events), default=0)


def _improve(search: _BranchSearch, state: _CutState, number: int, worst: int, budget: int) -> _Trial | None:
    """A node's program with one more cascade around step `worst`: the cheapest that meets the budget, else the lowest."""
    trials = dict[tuple[int, int], list[_Trial]]()
    least = {chain: search.least(state, number, chain) for chain in search.chains(state, number, worst)}
    lowest = state.peak - 1
    for chain in sorted(least, key=lambda chain: least[chain]):
        if least[chain] > max(lowest, budget):
            break
        trials[chain] = list(_trials_of(search, state, number, chain, budget, lowest))
        lowest = min([lowest, *(trial.peak for trial in trials[chain])])
    lower = [trial for chain in least for trial in trials.get(chain, ()) if trial.peak < state.peak]
    return min(lower, key=lambda trial: (max(trial.peak, budget), trial.work, len(trial.steps)), default=None)


def _trials_of(
    search: _BranchSearch, state: _CutState, number: int, chain: tuple[int, int], budget: int, lowest: int
) -> Iterator[_Trial]:
    """A node's program with a chain in stripes, with rolling buffers, and with rows that are made twice if need be.

    Those that end above the budget and the lowest peak so far are left out, as far as that is seen without making them.
    """
    rolling = list(_trials(search, state, number, chain, budget, lowest, is_rolling=True))
    yield from rolling
    first, last = chain
    makes_rows_twice = last - first + 1 > _SHORT and all(trial.peak > budget for trial in rolling)
    if makes_rows_twice and is_line(state.programs[number].whole[first : last + 1]):
        yield from _trials(search, state, number, chain, budget, lowest, is_rolling=False)


def _trials(
    search: _BranchSearch, state: _CutState, number: int, chain: tuple[int, int], budget: int, lowest: int, *, is_rolling: bool
) -> Iterator[_Trial]:
    """A node's program with a chain in more and more stripes, until the budget is met; from the most on where it cannot be."""
    is_beyond = search.least(state, number, chain) > budget
    for count in reversed(_STRIPES) if is_beyond else _STRIPES:
        least = search.least_in(state, number, chain, count, is_rolling=is_rolling)
        if least is None or least > max(lowest, budget):
            continue
        trial = search.trial(state, number, chain, count, is_rolling=is_rolling)
        if trial is None:
            return  # other cascades share its steps
        yield trial
        lowest = min(lowest, trial.peak)
        if trial.peak <= budget:
            return


def _replaced(nodes: Sequence[PlanNode], number: int, steps: tuple[Step, ...]) -> list[PlanNode]:
    """The nodes, one of them with other steps."""
    node = nodes[number]
    assert node.program is not None
    return [*nodes[:number], replace(node, program=replace(node.program, steps=steps)), *nodes[number + 1 :]]


def _work(steps: Sequence[Step]) -> int:
    """Elements computed and weights read: what grows with rows that are computed twice, and with the number of stripes."""
    weights = sum(step.weights.values.size for step in steps if isinstance(step, ConvolutionStep))
    return weights + sum(step.ofm.shape[0] * step.ofm.shape[1] * step.ofm.shape[2] for step in steps)
