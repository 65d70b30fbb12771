"""Where the simulator executes what no public description defines: the one place that lists these assumptions.

`npu verify` reports them as findings, `npu run` as notes below its table.
"""

from __future__ import annotations

from npu.isa.operations import Operation, Pooling, PoolingMode


def assumption(operation: Operation) -> str | None:
    """What execution assumes of an operation, as a sentence; None if its meaning is known."""
    if isinstance(operation, Pooling) and operation.mode is PoolingMode.REDUCE_SUM and operation.ofm.depth > 1:
        return (
            f"REDUCE_SUM: OFM depth should be 1, got {operation.ofm.depth}; what the hardware writes is not public, "
            "here every channel holds the sum of its pixel"
        )
    return None
