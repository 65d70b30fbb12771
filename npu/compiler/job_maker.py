"""The jobs of one graph, for drafts of a plan and for the plan: what does not depend on the room for copies is found once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from npu.compiler.block_config import BlockChooser
from npu.compiler.ir import Storage
from npu.compiler.jobs import Job, make_jobs
from npu.compiler.lifetime import PlanNode
from npu.compiler.memory import CopyPlan, MemoryPlan, MemoryPlanner, StepRooms
from npu.compiler.step_problems import StepProblems
from npu.compiler.weights import Constants, ExpectedConstants
from npu.graph.graph import Graph
from npu.isa.operations import Layout
from npu.progress import Progress


class JobMaker:
    """Makes the jobs of the nodes of a graph, and plans their memory."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[PlanNode],
        layouts: Mapping[Storage, Layout],
        far: Collection[Storage],
        chooser: BlockChooser,
    ) -> None:
        self._nodes = nodes
        self._planner = MemoryPlanner(graph, nodes, layouts, chooser.variant)
        self._rooms = StepRooms(nodes, self._planner)
        self._problems = StepProblems(layouts, far, chooser)

    def jobs(
        self, copies_bytes: int | None, constants: Constants | ExpectedConstants, progress: Progress | None = None
    ) -> tuple[tuple[Job, ...], ...]:
        """Those of every node where copies may take so many bytes besides the maps, or what is free for None."""
        is_bound = copies_bytes is not None
        return tuple(
            tuple(make_jobs(node.program.steps, room, self._problems, constants, progress, is_bound=is_bound))
            if node.program
            else ()
            for node, room in zip(self._nodes, self._rooms.beyond(copies_bytes), strict=True)
        )

    def copies(self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None) -> CopyPlan:
        """What a plan takes and how long it runs."""
        return self._planner.copies(jobs, copies_bytes)

    def plan(
        self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None, *, arena_start: int = 0, fast_start: int = 0
    ) -> MemoryPlan:
        """Addresses of everything, from `arena_start` of the arena and `fast_start` of the fast region on."""
        return self._planner.plan(jobs, copies_bytes, arena_start=arena_start, fast_start=fast_start)
