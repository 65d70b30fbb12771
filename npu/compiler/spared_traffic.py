"""Cascades that keep maps out of the memory behind a cache, where that takes less time by the estimate.

Cutting for a budget ends at the first place that cannot be made smaller; behind it lie maps of which cutting saves the traffic
all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.fast_memory import far_maps
from npu.compiler.ir import ConvolutionStep, Step, Storage
from npu.compiler.layout import storage_bytes
from npu.compiler.lifetime import PlanNode, steps_of
from npu.compiler.step_problems import StepEstimates
from npu.compiler.step_rows import LineChains
from npu.compiler.stripes import Overlap, RollingRows, in_stripes
from npu.graph.graph import Graph
from npu.isa.operations import Layout
from npu.machine.port_rates import port_rate
from npu.records import dataclass, replace

_STRIPES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_LONGEST = 4
"""Steps of a chain that is tried: more share the cache with fewer rows each, and take longer to find."""
_WORTH = 0.003
"""Of all cycles, what a cascade saves at least: for less the file is not made longer, and the search neither."""
_WORTH_ANEW = 0.15
"""Of all cycles, what other cascades must save: estimates of whole programs are not closer."""
_WORTH_COMMANDS = 0.01
"""Of all cycles, what twice the commands must save, and flash for them."""
_SHARE = 0.75
"""Of the cache, for the rolling buffers of a cascade: the rest is for what lives beside it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Nodes, the maps in them that find no room in the cache, and the estimated cycles of all steps."""

    nodes: tuple[PlanNode, ...]
    far: frozenset[Storage]
    cycles: float


def spare_traffic(
    graph: Graph, uncut: Sequence[PlanNode], cut: Sequence[PlanNode], room: int, estimates: StepEstimates
) -> Sequence[PlanNode]:
    """The nodes with one cascade more for each map behind the cache that pays; `cut` are those with cascades for the cache.

    Where they do not fit it all the same they have as many stripes as there can be, and it may be faster to begin `uncut`.
    """
    far = far_maps(graph, cut, room)
    if not far:
        return cut
    plan = _spared(graph, _planned(tuple(cut), far, estimates), room, estimates)
    if not plan.far or list(uncut) == list(cut):
        return plan.nodes
    anew = _spared(graph, _planned(tuple(uncut), far_maps(graph, uncut, room), estimates), room, estimates)
    is_short = 2 * len(steps_of(anew.nodes)) <= len(steps_of(plan.nodes))
    most = 1 + _WORTH_COMMANDS if is_short else 1 - _WORTH_ANEW
    return anew.nodes if anew.cycles < plan.cycles * most else plan.nodes


def _spared(graph: Graph, plan: _Plan, room: int, estimates: StepEstimates) -> _Plan:
    for number in range(len(plan.nodes)):
        given_up, steps = set[Storage](), plan.nodes[number].steps
        chains = LineChains(steps)
        while (place := _next_place(plan, number, given_up)) is not None:
            cheapest = _cheapest_cut(steps, _tried(chains, place), plan, room, estimates)
            better = _better(graph, plan, number, cheapest, room, estimates)
            if better is None:
                given_up.add(steps[place].ofm.storage)
            else:
                plan, steps = better, better.nodes[number].steps
                chains = LineChains(steps)
    return plan


def _planned(nodes: tuple[PlanNode, ...], far: frozenset[Storage], estimates: StepEstimates) -> _Plan:
    steps = steps_of(nodes)
    return _Plan(nodes, far, plan_cycles(steps, estimates, far))


def plan_cycles(steps: Sequence[Step], estimates: StepEstimates, far: frozenset[Storage]) -> float:
    """Estimated cycles, and those of reading weights again for other stripes: the cache is full, and nothing hides them."""
    sizes = [(id(step.weights), step.weights.values.size) for step in steps if isinstance(step, ConvolutionStep)]
    again = sum(size for _, size in sizes) - sum(dict(sizes).values())
    mode = estimates.chooser.variant.memory_mode
    return estimates(steps, far) + again / port_rate(estimates.chooser.variant, mode.constants).read


def _next_place(plan: _Plan, number: int, given_up: set[Storage]) -> int | None:
    """The first step of a node whose result is behind the cache and was not tried."""
    maps = (step.ofm.storage for step in plan.nodes[number].steps)
    return next((i for i, storage in enumerate(maps) if storage in plan.far and storage not in given_up), None)


def _better(
    graph: Graph, plan: _Plan, number: int, steps: tuple[Step, ...] | None, room: int, estimates: StepEstimates
) -> _Plan | None:
    """The plan with other steps of a node, if it is faster with what then finds room in the cache."""
    program = plan.nodes[number].program
    if steps is None or program is None:
        return None
    node = replace(plan.nodes[number], program=replace(program, steps=steps))
    nodes = (*plan.nodes[:number], node, *plan.nodes[number + 1 :])
    changed = _planned(nodes, far_maps(graph, nodes, room), estimates)
    return changed if changed.cycles < plan.cycles else None


def _cheapest_cut(
    steps: tuple[Step, ...], chains: Sequence[tuple[int, int]], plan: _Plan, room: int, estimates: StepEstimates
) -> tuple[Step, ...] | None:
    """The steps with that chain in stripes which saves most; None if none saves enough."""
    best, most = None, plan.cycles * _WORTH
    for first, last in chains:
        chain = steps[first : last + 1]
        stripes = _fitting_stripes(chain, room)
        saved = plan_cycles(chain, estimates, plan.far) - plan_cycles(stripes, estimates, plan.far) if stripes else 0.0
        if stripes and saved > most:
            best, most = (*steps[:first], *stripes, *steps[last + 1 :]), saved
    return best


def _tried(chains: LineChains, place: int) -> list[tuple[int, int]]:
    """The chains around the result of a step that are tried."""
    return [(first, last) for first, last in chains.around(place) if first <= place < last < first + _LONGEST]


def _fitting_stripes(chain: Sequence[Step], room: int) -> tuple[Step, ...] | None:
    """The chain in the fewest stripes whose rolling buffers fit the cache."""
    rows = RollingRows(chain)
    for count in _STRIPES:
        cut = rows.cut(count, Overlap.KEPT)
        if cut is None:
            return None
        if sum(storage_bytes(buffer, Layout.NHCWB16) for buffer in cut[1].values()) <= room * _SHARE:
            return in_stripes(chain, count, Overlap.KEPT)
    return None
