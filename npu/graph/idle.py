"""Keeps partitions that are not worth an NPU job on the CPU; the only place that decides this.

A job has to be started, and its feature maps copied in and out. Operators that are only another view of the same bytes, that
only move some, or that compute one value (the counter of a loop) are free or cheap inside a job that computes something. Beside
operators on the CPU they are not worth a job of their own where the CPU does the same in less time than it spends around a job.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from npu.graph.cpu_cost import cpu_cycles
from npu.graph.graph import Graph, Model
from npu.graph.ops import MOVES, OPS, Cost
from npu.graph.partition import Partition, partition
from npu.graph.placement import OpPlacement, Placement, Violation
from npu.graph.work import output_elements
from npu.hardware.variant import Cpu

VIEWS = frozenset(row.name for row in OPS if row.cost is Cost.VIEW)
"""Operators that are another view of the same bytes: they need no work of the hardware."""
RULE = "JOB-WORK"
_COPIES = MOVES - {"READ_VARIABLE", "ASSIGN_VARIABLE"}
"""Variables stay where the other operators of their variable are."""


def working_partitions(graph: Graph, accepted: Collection[int], cpu: Cpu) -> list[Partition]:
    """The partitions of the operators `accepted` without those that are not worth a job, in execution order.

    A graph that is accepted as a whole keeps its partition, whatever runs in it.
    """
    chosen = frozenset(accepted)
    runs = len(graph.unneeded) < len(graph.ops)
    while True:
        working = partition(graph, chosen)
        idle = {index for part in working if _is_idle(graph, part, cpu) for index in part.ops}
        if not idle or (runs and len(chosen) == len(graph.ops)):
            return working
        chosen -= idle


def _is_idle(graph: Graph, part: Partition, cpu: Cpu) -> bool:
    moved = [graph.ops[index] for index in part.ops if graph.ops[index].kind not in VIEWS and index not in graph.unneeded]
    if not all(op.kind in _COPIES or output_elements(graph, op) == 1 for op in moved):
        return False
    return sum(cpu_cycles(graph, op, cpu) for op in moved) < cpu.cycles_around_job if moved else True


def without_idle_jobs(model: Model, placement: Placement, cpu: Cpu) -> Placement:
    """The placement with the operators of such partitions on the CPU, for the reason RULE; itself if there are none."""
    kept = {
        (number, index)
        for number, graph in enumerate(model.graphs)
        for part in working_partitions(graph, placement.npu_indices(number), cpu)
        for index in part.ops
    }
    if all(op.violations or (op.graph, op.index) in kept for op in placement.ops):
        return placement
    unneeded = {(number, index) for number, graph in enumerate(model.graphs) for index in graph.unneeded}
    ops = tuple(
        op if op.violations or (op.graph, op.index) in kept else _kept_back(op, cpu, runs=(op.graph, op.index) not in unneeded)
        for op in placement.ops
    )
    return replace(placement, ops=ops)


def _kept_back(op: OpPlacement, cpu: Cpu, *, runs: bool) -> OpPlacement:
    if not runs:
        message = f"{op.kind} is left out: its result is known before the model runs, or nobody reads it"
        return replace(op, violations=(Violation(RULE, message, "work for the NPU", "left out"),))
    message = (
        f"{op.kind} computes nothing or one value, and no operator that computes can share its job: a job of its own would "
        f"only copy, and cost the CPU the {cpu.cycles_around_job} cycles around a job"
    )
    value = "only views, copies of few bytes or one value"
    return replace(op, violations=(Violation(RULE, message, "work for the NPU", value, "bring its neighbours to the NPU"),))
