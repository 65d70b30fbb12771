"""What a compilation knows between two passes: the only place that says which pass yields what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from npu.compiler.block_config import BlockChooser
from npu.compiler.container import Rebuilt
from npu.compiler.goal import Goal
from npu.compiler.ir import Step, Storage
from npu.compiler.job_maker import JobMaker
from npu.compiler.jobs import Job
from npu.compiler.lifetime import PlanNode, steps_of
from npu.compiler.lower.late_joins import Joins
from npu.compiler.memory import MemoryPlan
from npu.compiler.weights import Constants
from npu.graph.graph import Graph, Model
from npu.graph.placement import Placement, Violation
from npu.hardware.variant import Variant
from npu.isa.operations import Layout, Operation
from npu.isa.stream import CommandStream
from npu.isa.weight_stream.encode import Encoder
from npu.numerics.lstm_gates import LstmGates
from npu.progress import Progress
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operator that must run on the CPU, and why."""

    graph: int
    op: int
    violation: Violation


@dataclass(frozen=True, slots=True, eq=False)
class NodeStream:
    """The operations of one node, ended by Stop, and the source operator of each; the rest is there once it is encoded."""

    operations: tuple[Operation, ...]
    sources: tuple[int, ...]
    payload: bytes = b""
    encoded: CommandStream | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GraphState:
    """One graph. `jobs[i]` and `streams[i]` are those of node i, empty and None for a CPU operator.

    `nodes` come from `partition_graphs`, their programs from `lower_partitions`, `whole_bytes`, the most that maps and copies
    of constants take of the arena at a time before anything is cut, `visible_bytes`, the most that tensors take which the CPU
    or the application sees, and `room`, the bytes that maps may take of a separate fast memory, from `cut_cascades`, `layouts`
    from `assign_layouts`, `far`, the maps that find no room there, from `assign_memories`, `copies_bytes`, what copies of
    constants may take besides the maps, and `job_maker` from `price_copies`, `jobs` from `schedule_jobs`, `memory` from
    `plan_memory`, `streams` from `emit_operations` and `encode_streams`, `rebuilt` from `rebuild_graphs`; a field is empty
    before.
    """

    graph: Graph
    nodes: tuple[PlanNode, ...] = ()
    whole_bytes: int = 0
    visible_bytes: int = 0
    room: int = 0
    layouts: Mapping[Storage, Layout] = field(default_factory=dict)
    far: frozenset[Storage] = frozenset()
    copies_bytes: int | None = None
    job_maker: JobMaker | None = None
    jobs: tuple[tuple[Job, ...], ...] = ()
    memory: MemoryPlan | None = None
    streams: tuple[NodeStream | None, ...] = ()
    rebuilt: Rebuilt | None = None

    @property
    def steps(self) -> list[Step]:
        """The steps of all nodes in order."""
        return steps_of(self.nodes)

    @property
    def planned(self) -> MemoryPlan:
        """The memory plan of a graph that has one."""
        assert self.memory is not None
        return self.memory


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """One compilation. A pass makes a new state of it and changes nothing in the old one.

    `constants` is the exception: the read-only region, to which passes add contents, each once; what is in it never changes.
    `refusals` are of the last pass: operators that must go to the CPU before the passes can go on. `keeps_misfits`: what does
    not fit the memory stays on the NPU all the same. `joins`: when the memory of their results is in use.
    """

    model: Model
    placement: Placement
    chooser: BlockChooser
    constants: Constants
    graphs: tuple[GraphState, ...]
    goal: Goal = Goal.PERFORMANCE
    lstm_gates: LstmGates = LstmGates.EXACT
    refusals: tuple[Refusal, ...] = ()
    keeps_misfits: bool = False
    joins: Joins = Joins.EARLY
    progress: Progress | None = None
    """Is told how far a long pass is."""

    @property
    def variant(self) -> Variant:
        return self.chooser.variant

    @property
    def has_work(self) -> bool:
        """Whether any operator is placed on the NPU."""
        return any(not op.violations for op in self.placement.ops)

    def with_graphs(self, graphs: tuple[GraphState, ...]) -> State:
        """The state with what a pass found out about its graphs."""
        return replace(self, graphs=graphs)

    def refuse(self, refusals: tuple[Refusal, ...]) -> State:
        """The state with operators that the CPU must get."""
        return replace(self, refusals=refusals)


def initial_state(
    model: Model,
    placement: Placement,
    chooser: BlockChooser,
    encoder: Encoder | None = None,
    goal: Goal = Goal.PERFORMANCE,
    progress: Progress | None = None,
    lstm_gates: LstmGates = LstmGates.EXACT,
) -> State:
    """The state before the first pass."""
    graphs = tuple(GraphState(graph) for graph in model.graphs)
    constants, joins = Constants(chooser.variant, encoder), Joins.AT_THE_PEAK_LATE if goal is Goal.SIZE else Joins.EARLY
    return State(model, placement, chooser, constants, graphs, goal, lstm_gates, joins=joins, progress=progress)


def without_refused(placement: Placement, refusals: tuple[Refusal, ...]) -> Placement:
    """The placement with the refused operators on the CPU."""
    reasons = {(refusal.graph, refusal.op): refusal.violation for refusal in refusals}
    ops = tuple(
        replace(op, violations=(*op.violations, reasons[op.graph, op.index])) if (op.graph, op.index) in reasons else op
        for op in placement.ops
    )
    return replace(placement, ops=ops)
