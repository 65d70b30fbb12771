"""Pass: chains of steps are computed in stripes until the feature maps fit the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TypeAlias

from npu.compiler.fast_memory import far_maps, room_for_maps
from npu.compiler.goal import Goal
from npu.compiler.ir import ConvolutionStep
from npu.compiler.job_maker import JobMaker
from npu.compiler.layout import choose_layouts
from npu.compiler.lifetime import PlanNode, steps_of
from npu.compiler.memory import CopyPlan, arena_budget, is_hopeless
from npu.compiler.peaks import MapPeaks, hidden_peak, map_peaks
from npu.compiler.price import STEP_BYTES, Draft, price
from npu.compiler.state import GraphState, State
from npu.compiler.step_problems import StepEstimates
from npu.compiler.weights import ExpectedConstants
from npu.machine.port_rates import port_rate

_SURE = 0.95
"""Of the drafted cycles of the first plan, what another one has at most: drafts are not exact."""

_NEAR = 1.02
"""Times the cycles of whole maps: no plan is looked for that is faster than one within that."""

_Roomed: TypeAlias = tuple[Sequence[PlanNode], int]
"""Nodes, and the bytes that maps may take in a cache."""


def cut_cascades(state: State) -> State:
    """The state with the programs that fit, or come as near to it as was found."""
    return state.with_graphs(tuple(_cut(graph, state) for graph in state.graphs))


def _cut(graph: GraphState, state: State) -> GraphState:
    peaks = map_peaks(graph.graph, graph.nodes)
    graph = replace(graph, whole_bytes=_whole_bytes(graph, peaks, state), visible_bytes=peaks.visible)
    nodes, room = _fitting(graph, peaks, state)
    return replace(graph, nodes=tuple(nodes), room=room)


def _whole_bytes(graph: GraphState, peaks: MapPeaks, state: State) -> int:
    """What whole maps take in the arena, with copies of the weights of three steps at a time, as many as there are at most."""
    if state.variant.memory_mode.has_separate_cache:
        return peaks.whole
    sizes = [step.weights.values.size if isinstance(step, ConvolutionStep) else 0 for step in graph.steps]
    return peaks.whole + max((sum(sizes[number : number + 3]) for number in range(len(sizes))), default=0)


def _fitting(graph: GraphState, peaks: MapPeaks, state: State) -> _Roomed:
    """The nodes for the arena, then for the cache before it where there is one; the smallest for SIZE. And their room there."""
    if state.variant.memory_mode.has_separate_cache:
        return _in_cache(graph, _within(graph, peaks, state), state)
    return _least(graph, peaks, state) if state.goal is Goal.SIZE else _within(graph, peaks, state), 0


def _least(graph: GraphState, peaks: MapPeaks, state: State) -> Sequence[PlanNode]:
    """The nodes for SIZE: the smallest, or what comes nearest to the budget of the arena."""
    from npu.compiler.cascade import fit_least  # here and below: for most models no search is needed

    budget = _budget(peaks, state)
    rate = port_rate(state.variant, state.variant.memory_mode.constants).read
    least = fit_least(graph.graph, graph.nodes, peaks.visible, partial(_draft, graph, state), rate, state.progress)
    if peaks.whole <= budget or map_peaks(graph.graph, least).whole <= budget:
        return least
    return _best([list(least), *_plans(graph, budget, state)], graph, state, budget)


def _draft(graph: GraphState, state: State, nodes: Sequence[PlanNode], room: int = 0) -> Draft:
    """What the nodes take for SIZE."""
    constants = _expected(state)
    plan = _drafted(graph, state, nodes, constants, room=room, copies_bytes=0)
    return Draft(plan.cycles, plan.bytes, constants.bytes + STEP_BYTES * len(steps_of(nodes)))


def _in_cache(graph: GraphState, nodes: Sequence[PlanNode], state: State) -> _Roomed:
    """The nodes for a cache and the traffic behind it, and the bytes that maps may take there.

    That leaves room for copies of constants. Where it costs cycles, maps may take the whole cache if that is faster, or stay
    whole behind it, but not for SIZE.
    """
    from npu.compiler.cascade import fit_cache
    from npu.compiler.spared_traffic import plan_cycles, spare_traffic

    mode, is_small = state.variant.memory_mode, state.goal is Goal.SIZE
    estimates = StepEstimates(state.chooser, state.constants)

    def fitted(room: int) -> _Roomed:
        cut = fit_cache(graph.graph, nodes, room, saves_flash=is_small, progress=state.progress)
        return spare_traffic(graph.graph, cut if is_small else nodes, cut, room, estimates), room

    plan = fitted(room_for_maps(mode))
    if is_small:
        is_cut = len(steps_of(plan[0])) > len(steps_of(nodes))
        return min(plan, (nodes, plan[1]), key=lambda one: price(_draft(graph, state, *one))) if is_cut else plan
    if hidden_peak(graph.graph, nodes, choose_layouts(steps_of(nodes))) <= plan[1]:
        return plan
    far = far_maps(graph.graph, *plan)
    cycles, others = plan_cycles(steps_of(plan[0]), estimates, far), list[tuple[float, _Roomed]]()
    if cycles > estimates(steps_of(nodes)) * _NEAR:
        others.append((_SURE, fitted(mode.arena_cache_bytes)))
    if cycles > plan_cycles(steps_of(nodes), estimates, far_maps(graph.graph, nodes, plan[1])) * _NEAR:
        whole = spare_traffic(graph.graph, nodes, nodes, plan[1], estimates)
        # stripes with maps behind the cache were weighed against whole ones before, where they were made
        others.append((_SURE if far else 1.0, (whole, plan[1])))
    if not others:
        return plan

    def drafted(one: _Roomed) -> float:
        maker = _maker(graph, state, one[0], _expected(state), one[1])
        few = maker.copies(maker.jobs(None), None)
        left = mode.arena_cache_bytes - few.maps.cache.total_bytes
        return min(few.cycles, maker.copies(maker.jobs(left), left).cycles)

    least, best = min(((drafted(one) / most, one) for most, one in others), key=itemgetter(0))
    return best if least < drafted(plan) else plan


def _budget(peaks: MapPeaks, state: State) -> int:
    """Bytes for the arena: what it may have, or what tensors that others see take alone, for no stripes make these smaller."""
    return max(arena_budget(state.variant), peaks.visible)


def _within(graph: GraphState, peaks: MapPeaks, state: State) -> Sequence[PlanNode]:
    """The nodes for the arena's budget; uncut if it is hopeless: stripes would only cost cycles and flash.

    Where the budget has no room for copies of constants besides the maps, smaller maps may be faster than whole ones. Where
    nothing meets it, bytes and cycles count alike: the last bytes beyond it are no use for twice the cycles.
    """
    budget, is_separate = _budget(peaks, state), state.variant.memory_mode.has_separate_cache
    if is_hopeless(arena_budget(state.variant), peaks.visible):
        return graph.nodes
    if graph.whole_bytes <= budget:
        return graph.nodes
    plans = _plans(graph, budget, state)
    first = next(plans)
    return first if is_separate else _best([first, *plans], graph, state, budget)


def _plans(graph: GraphState, budget: int, state: State) -> Iterator[list[PlanNode]]:
    from npu.compiler.cascade import plans_within

    return plans_within(graph.graph, graph.nodes, budget, state.progress)


def _best(plans: Sequence[list[PlanNode]], graph: GraphState, state: State, budget: int) -> list[PlanNode]:
    """The plan that costs least: another than the first one only if it is clearly better."""
    different = {tuple(len(node.program.steps) if node.program else 0 for node in nodes): nodes for nodes in plans}
    if len(different) == 1:
        return plans[0]
    costs = {steps: _cost(nodes, graph, state, budget) for steps, nodes in different.items()}
    best, (is_over, cost) = min(costs, key=lambda steps: costs[steps]), next(iter(costs.values()))
    return different[best] if costs[best] < (is_over, cost * _SURE) else plans[0]


def _cost(nodes: Sequence[PlanNode], graph: GraphState, state: State, budget: int) -> tuple[bool, float]:
    """Whether a plan exceeds the budget, and its cycles; times its bytes if it does."""
    plan = _drafted(graph, state, nodes, _expected(state))
    return plan.arena_bytes > budget, plan.cycles * max(plan.arena_bytes, budget)


def _drafted(
    graph: GraphState,
    state: State,
    nodes: Sequence[PlanNode],
    constants: ExpectedConstants,
    *,
    room: int = 0,
    copies_bytes: int | None = None,
) -> CopyPlan:
    """What the nodes take by the expected size of constants, with so much of a cache for maps; copies as `JobMaker` has it."""
    maker = _maker(graph, state, nodes, constants, room)
    return maker.copies(maker.jobs(copies_bytes), copies_bytes)


def _maker(graph: GraphState, state: State, nodes: Sequence[PlanNode], constants: ExpectedConstants, room: int) -> JobMaker:
    """What drafts the jobs of nodes with so much of a cache for maps."""
    layouts = choose_layouts(steps_of(nodes))
    far = far_maps(graph.graph, nodes, room, layouts) if room else ()
    return JobMaker(graph.graph, nodes, layouts, far, state.chooser, constants, room)


def _expected(state: State) -> ExpectedConstants:
    """Those of one draft: a copy that just does not fit is none."""
    return ExpectedConstants(state.constants, is_rounded=False)
