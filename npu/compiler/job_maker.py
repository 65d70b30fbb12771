"""The jobs of one graph, drafted for plans: what does not depend on the room for copies is found once."""

from __future__ import annotations

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

    def copies(self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None) -> CopyPlan:
        """What a plan takes and how long it runs."""
        return self._planner.copies(jobs, copies_bytes)

    def plan(
        self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None, *, arena_start: int = 0, fast_start: int = 0
    ) -> MemoryPlan:
        """Addresses of everything, from `arena_start` of the arena and `fast_start` of the fast region on."""
        return self._planner.plan(jobs, copies_bytes, arena_start=arena_start, fast_start=fast_start)
