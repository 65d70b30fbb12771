"""The search for cascades in rows of numbers: what `npu.compiler.kernels.cascades` is told of steps, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu.compiler.ir import Step
from npu.compiler.kernels.cascades import (
    CHAIN,
    LONGEST,
    MOST_CHAINS,
    MOST_STEPS,
    SEARCH,
    improve,
    write_best,
)
from npu.compiler.kernels.live_maps import AT_BEGIN, AT_END, BUFFER, BY_GRAPH, look_at_all
from npu.compiler.kernels.stripes import MAP, MOST_AHEAD, STEP
from npu.compiler.lifetime import PlanNode
from npu.compiler.step_rows import NO_STEP, RowTable, StepTables, filled, joined
from npu.compiler.stripes import Overlap, in_stripes
from npu.graph.graph import Graph
from npu.numerics.arrays import Ints
from npu.records import dataclass, replace

_ROWS_AT_A_TIME = 1 << 15
"""Steps of plans that get their memory together: 10 MB, which numpy has in huge pages where the system gives them."""


@dataclass(frozen=True, slots=True, eq=False)
class StripedChain:
    """Steps [first, last] of a node, which are computed in so many stripes."""

    node: int
    first: int
    last: int
    count: int
    overlap: Overlap


@dataclass(frozen=True, slots=True, eq=False)
class CutPlan:
    """The steps of all nodes with the cuts made so far, one event each, and the most bytes of maps that are live at once.

    `whole` are the steps of which chains are cut, `cascades` rows of the first and last of them in stripes, and of how many;
    rows of `extents` and `nodes` are where steps and events of a node begin and end, and whether it has a program; rows of
    `touches` are the buffer, event and cause of what the graph and the ends of programs touch. `live` are bytes at every event.
    """

    cuts: tuple[StripedChain, ...]
    whole: RowTable
    extents: Ints
    cascades: Ints
    steps: RowTable
    maps: RowTable
    buffers: RowTable
    touches: Ints
    nodes: Ints
    live: Ints
    peak: int

    @property
    def worst(self) -> int:
        """The event of the peak."""
        return int(np.argmax(self.live)) if self.peak else 0


class _Trial:
    """Room for what trials change and add: as many maps, buffers and events. Every plan having its own is 100 KB each."""

    def __init__(self, maps: int, buffers: int, events: int) -> None:
        self.room = maps, buffers, events
        self.maps, self.own, self.steps = np.zeros(maps, MAP), np.zeros(buffers, BUFFER), np.empty(events, STEP)
        self.own["last"] = self.own["group_last"] = -1
        self.touched, self.usage = np.empty(max(buffers, MOST_STEPS), np.int64), np.empty(events, np.int64)


class CascadeSearch:
    """Cuts chains of steps in one of several numbers of stripes.

    `hides_tensors` counts only maps that nobody else sees. `has_branches` cuts chains with branches that meet again; else
    every map of a chain is read by the next step only, and stripes are steps of later chains. `has_leads`: results may begin
    in front of what they are made from, as `npu.compiler.lifetime.share_in_place` says. `comes_ahead`: steps may come ahead of
    the first stripe, which then are in no later chain. Searches for one budget after the other begin alike: a plan that was
    made is not made again.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[PlanNode],
        counts: Sequence[int],
        *,
        hides_tensors: bool = False,
        has_branches: bool = False,
        has_leads: bool = False,
        comes_ahead: bool = True,
    ) -> None:
        self._has_leads = has_leads
        self._given, self._counts = nodes, np.array(counts)
        self._hides_tensors, self._has_branches, self._comes_ahead = hides_tensors, has_branches, comes_ahead
        self._more = (LONGEST - 1) * max(counts)
        """Room for the maps and buffers of a cascade: all but the last one of a chain, in every stripe."""
        self._search, self._chains = np.zeros(1, SEARCH), np.zeros(MOST_CHAINS, CHAIN)
        self._stripes, self._rows = np.empty(MOST_STEPS * (max(counts) + MOST_AHEAD), STEP), np.zeros((MOST_STEPS, 5), np.int64)
        self._trial, self._room = _Trial(0, 0, 0), np.empty(0, STEP)
        self._answers: dict[CutPlan, list[tuple[int, int, CutPlan | None]]] = {}
        """What came after a plan, for budgets from one to another."""
        self._plans: dict[tuple[CutPlan, tuple[int, ...]], CutPlan] = {}
        self._made: dict[tuple[tuple[int, ...], int, Overlap], tuple[Step, ...]] = {}
        steps, maps, buffers, touches, extents = _tables(graph, nodes)
        none = np.zeros((0, 3), np.int64)
        self.start = self._plan((), steps, extents, none, steps, maps, buffers, touches, extents)

    def _plan(
        self, cuts: tuple[StripedChain, ...], whole: RowTable, extents: Ints, cascades: Ints,
        steps: RowTable, maps: RowTable, buffers: RowTable, touches: Ints, nodes: Ints,
    ) -> CutPlan:  # fmt: skip
        live, touched = np.empty(len(steps) + 1, np.int64), np.empty(len(buffers), np.int64)
        ways = int(self._hides_tensors), int(self._has_leads)
        peak = look_at_all(steps, maps, buffers, touches, nodes, len(buffers), *ways, touched, live)
        return CutPlan(cuts, whole, extents, cascades, steps, maps, buffers, touches, nodes, live[:-1], peak)

    def next(self, plan: CutPlan, budget: int) -> CutPlan | None:
        """The plan with one more cascade, where the peak is: the cheapest that meets the budget, else the lowest.

        A cascade that meets one budget is as good for a smaller one that it meets, and the lowest for every smaller one.
        """
        answers = self._answers.setdefault(plan, [])
        for least, most, known in answers:
            if least <= budget <= most:
                return known
        better = self._next(plan, budget)
        reached = 0 if better is None else int(self._search["reached"][0])
        answers.append((reached if reached <= budget else 0, budget, better))
        return better

    def _next(self, plan: CutPlan, budget: int) -> CutPlan | None:
        number = int(np.searchsorted(plan.nodes[:, 0], plan.worst, "right")) - 1
        begin, end = plan.extents[number, :2].tolist()
        ways = self._hides_tensors, self._has_branches, self._has_leads, self._comes_ahead
        values = (begin, end, plan.worst, plan.peak, budget, *ways, len(plan.maps), len(plan.buffers))
        best, trial = self._search, self._trial_of(plan)
        best[0] = filled(values, SEARCH)
        improve(
            *(plan.whole, plan.cascades, plan.steps, trial.maps, plan.buffers, plan.touches, plan.nodes, plan.live, best),
            *(self._counts, self._chains, trial.own, self._stripes, trial.steps, self._rows),
            *(np.empty_like(plan.touches), np.empty_like(plan.nodes), trial.touched, trial.usage),
        )
        if not best["count"][0]:
            return None
        first, last, count = (int(best[name][0]) for name in ("first", "last", "count"))
        cut = StripedChain(number, first - begin, last - begin, count, Overlap(int(best["overlap"][0])))
        key = plan, (cut.first, cut.last, cut.count, int(cut.overlap))
        if key not in self._plans:
            self._plans[key] = self._with_cut(plan, cut)
        return self._plans[key]

    def _trial_of(self, plan: CutPlan) -> _Trial:
        """Room for a trial, with the maps of the plan."""
        trial, maps, events = self._trial, len(plan.maps), len(self._stripes) + len(plan.steps)
        most = maps + self._more, len(plan.buffers) + self._more, events + 3
        if any(room < needed for room, needed in zip(trial.room, most, strict=True)):
            trial = self._trial = _Trial(*(max(pair) for pair in zip(trial.room, most, strict=True)))
        trial.maps[:maps].view(np.int64)[:] = plan.maps.view(np.int64)
        return trial

    def _kept(self, *tables: RowTable) -> RowTable:
        """The rows of tables of steps. Those of many plans lie in one piece of memory, which the system hands out sooner."""
        count = sum(map(len, tables))
        if count > len(self._room):
            self._room = np.empty(max(count, _ROWS_AT_A_TIME), STEP)
        rows, self._room = self._room[:count], self._room[count:]
        return joined(*tables, out=rows)

    def _with_cut(self, plan: CutPlan, cut: StripedChain) -> CutPlan:
        best, maps = self._search, self._trial.maps
        written = write_best(plan.whole, maps, best, self._rows, self._stripes)
        first, last, added = (int(best[name][0]) for name in ("first_event", "last_event", "added"))
        stripes = self._stripes[:written]
        steps = self._kept(plan.steps[:first], stripes, plan.steps[last + 1 :])
        map_count = max(int(stripes["ofm"]["map"].max()) + 1, len(plan.maps))
        buffers = joined(plan.buffers, np.zeros(map_count - len(plan.maps), BUFFER))
        touches, nodes = plan.touches.copy(), plan.nodes.copy()
        touches[touches[:, 1] >= last, 1] += added
        nodes[:, :2] += added * (nodes[:, :2] > last)
        kept = joined(maps[:map_count]), buffers, touches, nodes
        if not self._has_branches:
            return self._plan((*plan.cuts, cut), steps, nodes, plan.cascades, steps, *kept)
        begin, end = int(best["first"][0]), int(best["last"][0])
        others = plan.cascades[(plan.cascades[:, 1] < begin) | (end < plan.cascades[:, 0])]
        cascades = np.concatenate((others, [[begin, end, written]]))
        cuts = [one for one in plan.cuts if one.node != cut.node or one.last < cut.first or cut.last < one.first]
        cuts = sorted([*cuts, cut], key=lambda one: -one.first)  # those behind come first: the others stay where they are
        ordered = np.ascontiguousarray(cascades[np.argsort(cascades[:, 0])])
        return self._plan(tuple(cuts), plan.whole, plan.extents, ordered, steps, *kept)

    def nodes(self, plan: CutPlan) -> list[PlanNode]:
        """The nodes of a plan, with stripes for all its cuts."""
        nodes = list(self._given)
        for cut in plan.cuts:
            program = nodes[cut.node].program
            assert program is not None
            steps, end = program.steps, cut.last + 1
            stripes = self._stripes_of(steps[cut.first : end], cut)
            program = replace(program, steps=(*steps[: cut.first], *stripes, *steps[end:]))
            nodes[cut.node] = replace(nodes[cut.node], program=program)
        return nodes

    def _stripes_of(self, chain: tuple[Step, ...], cut: StripedChain) -> tuple[Step, ...]:
        """The same steps in another plan have the same stripes."""
        key = tuple(map(id, chain)), cut.count, cut.overlap  # the stripes that are kept keep the steps
        if key not in self._made:
            stripes = in_stripes(chain, cut.count, cut.overlap)
            assert stripes is not None
            self._made[key] = stripes
        return self._made[key]


def _tables(graph: Graph, nodes: Sequence[PlanNode]) -> tuple[RowTable, RowTable, RowTable, Ints, Ints]:
    """Rows of steps, maps and buffers, of what else touches buffers, and of nodes."""
    works = [node.steps for node in nodes]
    tables = StepTables(step for steps in works for step in steps)
    rows, touches, extents = list[Any](), list[tuple[int, int, int]](), list[tuple[int, int, int]]()
    for node, steps in zip(nodes, works, strict=True):
        begin, end = len(rows), len(rows) + max(len(steps), 1)
        rows += [tables.row(step) for step in steps] or [NO_STEP]
        extents.append((begin, end, int(node.program is not None)))
        if node.program is None:
            ops = (graph.ops[index] for index in node.ops)
            own = (index for op in ops for index in (*op.inputs, *op.outputs, *op.intermediates))
            touches += tables.touches(graph, own, begin, BY_GRAPH)
        else:
            touches += tables.touches(graph, (tensor for tensor, _ in node.program.inputs), begin, AT_BEGIN)
            touches += tables.touches(graph, (tensor for tensor, _ in node.program.outputs), end - 1, AT_END)
    variables = [index for index, tensor in enumerate(graph.tensors) if tensor.is_variable]
    for tensors, event in ((graph.inputs, 0), (graph.outputs, len(rows) - 1), (variables, 0), (variables, len(rows) - 1)):
        touches += tables.touches(graph, tensors, max(event, 0), BY_GRAPH)
    lasting = {*graph.outputs, *variables}
    others, ends = (np.array(table, np.int64).reshape(-1, 3) for table in (touches, extents))
    return np.array(rows, STEP), tables.map_rows(), tables.buffer_rows(graph, lasting), others, ends
