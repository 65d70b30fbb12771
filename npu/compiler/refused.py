"""Puts operators that cannot be lowered on the CPU; the only place that decides this.

A placement follows a profile, which may list more than the compiler lowers (`v0.1` takes a bias that is computed), or is what
its author wrote. Such an operator runs on the CPU for the reason LOWERING.
"""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.graph.graph import Model
from npu.graph.placement import LOWERING, Device, OpPlacement, Placement, Violation
from npu.hardware.variant import Variant


def without_refused(model: Model, placement: Placement, variant: Variant, graph: int, error: LoweringError) -> Placement:
    """The placement with every operator on the CPU that cannot be lowered by itself.

    If each of them can, it is the one of `graph` for which `error` was raised: it cannot be lowered with its neighbours.
    """
    found = {
        (op.graph, op.index): must
        for op in placement.ops
        if op.device is Device.NPU and (must := _defect(model, op, variant)) is not None
    }
    found = found or {(graph, error.index): error.must}
    ops = tuple(_refused(op, found[op.graph, op.index]) if (op.graph, op.index) in found else op for op in placement.ops)
    return replace(placement, ops=ops)


def _defect(model: Model, op: OpPlacement, variant: Variant) -> str | None:
    try:
        lower_partition(model.graphs[op.graph], (op.index,), variant)
    except LoweringError as error:
        return error.must
    return None


def _refused(op: OpPlacement, must: str) -> OpPlacement:
    violation = Violation(LOWERING, f"{op.name} cannot be lowered: {must}", "what the compiler lowers", must)
    return replace(op, violations=(*op.violations, violation))
