"""The jobs of one graph, drafted for plans: what does not depend on the room for copies is found once."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from npu.compiler.block_config import BlockChooser
from npu.compiler.ir import Storage
from npu.compiler.jobs import Job, make_jobs
from npu.compiler.lifetime import PlanNode
from npu.compiler.memory import CopyPlan, MemoryPlan, MemoryPlanner, StepRooms
from npu.compiler.step_problems import StepProblems
from npu.compiler.weights import ExpectedConstants
from npu.graph.graph import Graph
from npu.isa.operations import Layout
from npu.memo import cached_property

_AS_DRAFTED = 1.005
"""A plan takes as long as drafted if it takes no longer than so many times that."""

_MORE = (0, 1 / 32, 1 / 16, 1 / 8)
"""What is tried, relative to the bytes for copies."""


class JobMaker:
    """Makes the jobs of the nodes of a graph, and plans their memory."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[PlanNode],
        layouts: Mapping[Storage, Layout],
        far: Collection[Storage],
        chooser: BlockChooser,
        constants: ExpectedConstants,
        room: int,
    ) -> None:
        self._nodes, self._constants = nodes, constants
        self._planner = MemoryPlanner(graph, nodes, layouts, chooser.variant, room)
        self._rooms = StepRooms(nodes, self._planner)
        self._problems = StepProblems(layouts, far, chooser)
        self._jobs: dict[int | None, tuple[tuple[Job, ...], ...]] = {}
        self._drafted: dict[int | None, float] = {}

    def jobs(self, copies_bytes: int | None) -> tuple[tuple[Job, ...], ...]:
        """Those of every node where copies may take so many bytes besides the maps, or what is free for None."""
        known = self._jobs.get(copies_bytes)
        if known is None:
            rooms, is_bound = self._rooms.beyond(copies_bytes), copies_bytes is not None
            known = self._jobs[copies_bytes] = tuple(
                tuple(make_jobs(node.program.steps, room, self._problems, self._constants, is_bound=is_bound))
                if node.program
                else ()
                for node, room in zip(self._nodes, rooms, strict=True)
            )
        return known

    @cached_property
    def least_cycles(self) -> float:
        """Those of all steps with constants that are there at once."""
        return sum(self._problems.of(step, self._constants)[1].best.cycles for node in self._nodes for step in node.steps)

    def copies(self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None) -> CopyPlan:
        """What a plan takes and how long it runs, with constants as they are expected."""
        drafted = self._planner.copies(jobs, copies_bytes)
        self._drafted[copies_bytes] = drafted.cycles
        return drafted

    def plan(
        self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None, *, arena_start: int = 0, fast_start: int = 0
    ) -> MemoryPlan:
        """Addresses of everything, from `arena_start` of the arena and `fast_start` of the fast region on.

        Encoded constants may be a little longer than expected. Where a copy finds no room for that, so that all takes longer
        than drafted, copies get a little more.
        """
        plans: list[MemoryPlan] = []
        for more in _MORE if copies_bytes else (0,):
            given = copies_bytes and copies_bytes + int(copies_bytes * more)
            plans.append(self._planner.plan(jobs, given, arena_start=arena_start, fast_start=fast_start))
            if plans[-1].cycles <= self._drafted.get(copies_bytes, math.inf) * _AS_DRAFTED:
                return plans[-1]
        return min(plans, key=lambda plan: plan.cycles)
