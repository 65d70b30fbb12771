"""The next cascade of a program: every trial is made, and what is live is looked at step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npu.compiler.ir import ConvolutionStep, Step
from npu.compiler.lifetime import PlanNode
from npu.compiler.stripes import Overlap, in_stripes
from npu.graph.graph import Graph
from npu.records import dataclass, replace

from tests.naive.chains import chains_around, is_line
from tests.naive.cut_program import Cascade, CutProgram
from tests.naive.live_maps import CutWindow, LiveMaps, live_maps


@dataclass(frozen=True, slots=True)
class Trial:
    """A program with one more cascade, what is live during that at most, and elements computed and weights read."""

    program: CutProgram
    peak: int
    work: int


@dataclass(frozen=True, slots=True)
class NaiveSearch:
    """What is cut of one node, and how, as `npu.compiler.cut_rows.CascadeSearch` has it."""

    graph: Graph
    node: PlanNode
    counts: Sequence[int]
    hides_tensors: bool = False
    has_branches: bool = False
    has_leads: bool = False
    comes_ahead: bool = True

    def usage(self, program: CutProgram) -> list[int]:
        """Bytes at every event."""
        return list(self._live(program).usage)

    def _live(self, program: CutProgram) -> LiveMaps:
        return live_maps(self.graph, [self.cut(program)], hidden_only=self.hides_tensors, has_leads=self.has_leads)

    def cut(self, program: CutProgram) -> PlanNode:
        """The node with a program."""
        assert self.node.program is not None
        return replace(self.node, program=replace(self.node.program, steps=program.steps()))

    def next(self, program: CutProgram, budget: int) -> CutProgram | None:
        """The program with the cheapest cascade around the peak that meets the budget, else with that of the lowest peak."""
        usage, lower = self.usage(program), list[Trial]()
        worst = program.uncut(usage.index(max(usage)))
        for first, last in chains_around(program.whole, worst, has_branches=self.has_branches):
            own = list[Trial]()
            ways = [Overlap.KEPT]
            if last - first > 1 and not self.hides_tensors:
                ways += [Overlap.KEPT_AHEAD] * self.comes_ahead
                ways += [Overlap.MADE_AGAIN] * is_line(program.whole[first : last + 1])
            for overlap in ways:
                if all(trial.peak > budget for trial in own):
                    own += self._trials(program, usage, (first, last), budget, overlap)
            lower += [trial for trial in own if trial.peak < max(usage)]
        best = min(lower, key=lambda one: (max(one.peak, budget), one.work, len(one.program.steps())), default=None)
        if best is None:
            return None
        return best.program if self.has_branches else CutProgram(best.program.steps())

    def _trials(
        self, program: CutProgram, usage: list[int], chain: tuple[int, int], budget: int, overlap: Overlap
    ) -> Iterator[Trial]:
        """The chain in more and more stripes until the budget is met."""
        first, last = chain
        for count in self.counts:
            stripes = in_stripes(program.whole[first : last + 1], count, overlap)
            candidate = stripes and program.with_cascade(Cascade(first, last, stripes))
            if stripes and candidate:
                trial = Trial(candidate, self._peak(program, usage, chain, candidate, stripes), work_of(candidate.steps()))
                yield trial
                if trial.peak <= budget:
                    return

    def _peak(
        self, program: CutProgram, usage: list[int], chain: tuple[int, int], candidate: CutProgram, stripes: tuple[Step, ...]
    ) -> int:
        """The most that is live during a new cascade, and at the step of the peak before it or the cascade that has it.

        Stripes of a line are steps of the program from then on: what else is live is left to the next cascade.
        """
        worst = program.uncut(usage.index(max(usage)))
        if program.has_cascades(chain):
            after = self.usage(candidate)
            return max(after[event] for step in (chain[0], worst) for event in candidate.extent(step))
        own = max(CutWindow(self._live(program), 0, *map(program.position, chain)).usage(stripes))
        is_left = self.has_branches and not chain[0] <= worst <= chain[1]
        return max(own, *(usage[event] for event in program.extent(worst))) if is_left else own


def work_of(steps: Sequence[Step]) -> int:
    """Elements computed and weights read."""
    weights = sum(step.weights.values.size for step in steps if isinstance(step, ConvolutionStep))
    return weights + sum(step.ofm.shape[0] * step.ofm.shape[1] * step.ofm.shape[2] for step in steps)
