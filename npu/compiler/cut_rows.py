"""The search for cascades in rows of numbers: what `npu.compiler.kernels.cascades` is told of steps, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu.compiler.ir import Step
from npu.compiler.kernels.cascades import CHAIN, MOST_STEPS, SEARCH, improve, write_best
from npu.compiler.kernels.live_maps import AT_BEGIN, AT_END, BUFFER, BY_GRAPH, look_at_all
from npu.compiler.kernels.stripes import STEP
from npu.compiler.lifetime import PlanNode
from npu.compiler.step_rows import NO_STEP, RowTable, StepTables, filled, joined
from npu.compiler.stripes import in_stripes
from npu.graph.graph import Graph
from npu.numerics.arrays import Ints
from npu.progress import Progress
from npu.records import dataclass, replace

_MORE = 256
"""Room for the maps and buffers of a cascade: seven in each of 32 stripes."""


@dataclass(frozen=True, slots=True, eq=False)
class StripedChain:
    """Steps [first, last] of a node, which are computed in so many stripes."""

    node: int
    first: int
    last: int
    count: int
    is_rolling: bool


@dataclass(frozen=True, slots=True, eq=False)
class CutPlan:
    """The steps of all nodes with the cuts made so far, one event each, and the most bytes of maps that are live at once.

    Rows of `touches` are the buffer, event and cause of what the graph and the ends of programs touch; rows of `nodes` where
    the events of a node begin and end, and whether it has a program.
    """

    cuts: tuple[StripedChain, ...]
    steps: RowTable
    maps: RowTable
    buffers: RowTable
    map_count: int
    buffer_count: int
    touches: Ints
    nodes: Ints
    worst: int
    peak: int


class LineSearch:
    """Cuts chains in which each map is read by the next step only: `hides_tensors` counts only maps that nobody else sees.

    Searches for one budget after the other begin alike: a state that was made is not made again.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[PlanNode],
        counts: Sequence[int],
        progress: Progress | None = None,
        *,
        hides_tensors: bool = False,
    ) -> None:
        self._given, self._counts, self._hides_tensors, self.progress = nodes, np.array(counts), hides_tensors, progress
        self._own = np.zeros(0, BUFFER)
        self._search, self._chains = np.zeros(1, SEARCH), np.zeros(MOST_STEPS * (MOST_STEPS + 2), CHAIN)
        self._out, self._rows = np.empty(MOST_STEPS * max(counts), STEP), np.zeros((MOST_STEPS, 5), np.int64)
        self._known: dict[tuple[CutPlan, tuple[int, ...]], CutPlan] = {}
        self._stripes: dict[tuple[tuple[int, ...], int, bool], tuple[Step, ...]] = {}
        self.start = self._state((), *_tables(graph, nodes))

    def _state(
        self, cuts: tuple[StripedChain, ...], steps: RowTable, maps: RowTable, buffers: RowTable, touches: Ints, nodes: Ints
    ) -> CutPlan:
        map_count, buffer_count = len(maps), len(buffers)
        maps, buffers = (joined(rows, np.zeros(_MORE, rows.dtype)) for rows in (maps, buffers))
        usage, touched = np.empty(len(steps) + 1, np.int64), np.empty(buffer_count, np.int64)
        hides = int(self._hides_tensors)
        peak = look_at_all(steps, maps, buffers, touches, nodes, buffer_count, hides, touched, usage)
        worst = int(np.argmax(usage[: len(steps)])) if peak else 0
        return CutPlan(cuts, steps, maps, buffers, map_count, buffer_count, touches, nodes, worst, peak)

    def next(self, state: CutPlan, budget: int) -> CutPlan | None:
        """The state with one more cascade, where the peak is: the cheapest that meets the budget, else the lowest."""
        number = int(np.searchsorted(state.nodes[:, 0], state.worst, "right")) - 1
        begin, end = state.nodes[number, :2].tolist()
        best = self._search
        values = (begin, end, state.worst, state.peak, budget, self._hides_tensors, state.map_count, state.buffer_count)
        best[0] = filled(values, SEARCH)
        most = len(state.buffers)
        if most > len(self._own):
            self._own = np.zeros(most, BUFFER)
            self._own["last"] = self._own["group_last"] = -1
        room = max(len(self._out), len(state.steps)) + 3
        improve(
            state.steps, state.maps, state.buffers, self._own, state.touches, best, self._chains, self._counts, self._out,
            self._rows, np.empty(max(most, 16), np.int64), np.empty(room, np.int64),
        )  # fmt: skip
        if not best["count"][0]:
            return None
        first, last, count = (int(best[name][0]) for name in ("first", "last", "count"))
        return self._cut(state, number, StripedChain(number, first - begin, last - begin, count, bool(best["is_rolling"][0])))

    def _cut(self, state: CutPlan, number: int, cut: StripedChain) -> CutPlan:
        key = state, (cut.first, cut.last, cut.count, int(cut.is_rolling))
        if key not in self._known:
            self._known[key] = self._made(state, number, cut)
        return self._known[key]

    def _made(self, state: CutPlan, number: int, cut: StripedChain) -> CutPlan:
        written = write_best(state.steps, state.maps, self._search, self._rows, self._out)
        new = self._out[:written]
        first, last = cut.first + int(state.nodes[number, 0]), cut.last + int(state.nodes[number, 0])
        added = written - (last - first + 1)
        steps = joined(state.steps[:first], new, state.steps[last + 1 :])
        map_count = max(int(new["ofm"]["map"].max()) + 1, state.map_count)
        buffer_count = state.buffer_count + map_count - state.map_count
        touches, nodes = state.touches.copy(), state.nodes.copy()
        touches[touches[:, 1] >= last, 1] += added
        nodes[number:, 1] += added
        nodes[number + 1 :, 0] += added
        return self._state((*state.cuts, cut), steps, state.maps[:map_count], state.buffers[:buffer_count], touches, nodes)

    def nodes(self, state: CutPlan) -> list[PlanNode]:
        """The nodes of a state, with stripes for all its cuts."""
        nodes = list(self._given)
        for cut in state.cuts:
            program = nodes[cut.node].program
            assert program is not None
            steps, end = program.steps, cut.last + 1
            stripes = self._stripes_of(steps[cut.first : end], cut)
            program = replace(program, steps=(*steps[: cut.first], *stripes, *steps[end:]))
            nodes[cut.node] = replace(nodes[cut.node], program=program)
        return nodes

    def _stripes_of(self, chain: tuple[Step, ...], cut: StripedChain) -> tuple[Step, ...]:
        """The same steps in another state have the same stripes."""
        key = tuple(map(id, chain)), cut.count, cut.is_rolling  # the stripes that are kept keep the steps
        if key not in self._stripes:
            stripes = in_stripes(chain, cut.count, is_rolling=cut.is_rolling)
            assert stripes is not None
            self._stripes[key] = stripes
        return self._stripes[key]


def _tables(graph: Graph, nodes: Sequence[PlanNode]) -> tuple[RowTable, RowTable, RowTable, Ints, Ints]:
    """Rows of steps, maps and buffers, of what else touches buffers, and of nodes."""
    works = [node.program.steps if node.program else () for node in nodes]
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
