"""Keeps partitions in which the NPU would have nothing to compute on the CPU; the only place that decides this.

A job has to be started, and its feature maps copied in and out. Operators that are only another view of the same bytes are
free inside a job that computes something, but are not worth one of their own beside operators on the CPU.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from npu.graph.graph import Graph, Model
from npu.graph.ops import OPS, Cost
from npu.graph.partition import Partition, partition
from npu.graph.placement import OpPlacement, Placement, Violation

VIEWS = frozenset(row.name for row in OPS if row.cost is Cost.VIEW)
"""Operators that are another view of the same bytes: they need no work of the hardware."""
RULE = "JOB-WORK"


def working_partitions(graph: Graph, accepted: Collection[int]) -> list[Partition]:
    """The partitions of the operators `accepted` without those of views alone, in execution order.

    A graph that is accepted as a whole keeps its partition, whatever is in it.
    """
    chosen = frozenset(accepted)
    while True:
        working = partition(graph, chosen)
        idle = {index for part in working if _is_idle(graph, part) for index in part.ops}
        if not idle or len(chosen) == len(graph.ops):
            return working
        chosen -= idle


def _is_idle(graph: Graph, part: Partition) -> bool:
    return all(graph.ops[index].kind in VIEWS or index in graph.folded for index in part.ops)


def without_idle_jobs(model: Model, placement: Placement) -> Placement:
    """The placement with the operators of such partitions on the CPU, for the reason RULE; itself if there are none."""
    kept = {
        (number, index)
        for number, graph in enumerate(model.graphs)
        for part in working_partitions(graph, placement.npu_indices(number))
        for index in part.ops
    }
    if all(op.violations or (op.graph, op.index) in kept for op in placement.ops):
        return placement
    ops = tuple(op if op.violations or (op.graph, op.index) in kept else _kept_back(op) for op in placement.ops)
    return replace(placement, ops=ops)


def _kept_back(op: OpPlacement) -> OpPlacement:
    message = f"{op.kind} computes nothing, and no operator that computes can share its job: a job of its own would only copy"
    value = "only views of the same bytes"
    return replace(op, violations=(Violation(RULE, message, "work for the NPU", value, "bring its neighbours to the NPU"),))
