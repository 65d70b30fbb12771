"""What kinds of operation a job consists of, and how much of its time each takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from npu.isa.operations import (
    ActivationFunction,
    Convolution,
    DepthwiseConvolution,
    Elementwise,
    KernelOperation,
    Operation,
    Pooling,
    PoolingMode,
    Resizing,
    Upscale,
    WindowOperation,
)
from sim.trace import Trace, TraceColumn

_POOLS = {
    PoolingMode.MAX: "max pooling",
    PoolingMode.MIN: "min pooling",
    PoolingMode.AVERAGE: "average pooling",
    PoolingMode.SUM: "average pooling",
    PoolingMode.REDUCE_SUM: "sum over channels",
    PoolingMode.NONE: "wide copy",
    PoolingMode.ARGMAX_X: "argmax",
    PoolingMode.ARGMAX_Y: "argmax",
}


def kinds_of(operation: Operation) -> tuple[str, ...]:
    """The kind of a kernel operation in words: wide data before all else; and that it ends in a table or function."""
    if not isinstance(operation, KernelOperation):
        return ()
    name = "convolution"
    if isinstance(operation, Elementwise):
        name = operation.mode.name
    elif isinstance(operation, Pooling):
        name = _POOLS[operation.mode]
    elif isinstance(operation, DepthwiseConvolution):
        name = "depthwise convolution"
    elif isinstance(operation, Resizing):
        name = "resize"
    else:
        assert isinstance(operation, Convolution)
    if operation.ifm.element.bits > 8:
        name = f"{operation.ifm.element.bits}-bit data"
    elif isinstance(operation, WindowOperation) and operation.upscale is not Upscale.NONE:
        name += " with upscaling"
    return (name,) if operation.activation.function is ActivationFunction.NONE else (name, "tables and functions")


def work_shares(jobs: Iterable[tuple[Sequence[Operation], Trace]]) -> dict[str, float]:
    """The share of the NPU's cycles of each kind, overlapped time counted for the earlier operation."""
    cycles: dict[str, int] = {}
    total = 0
    for operations, trace in jobs:
        reached = np.maximum.accumulate(np.append(0, trace.column(TraceColumn.END)))
        for operation, own in zip(operations, np.diff(reached).tolist(), strict=True):
            total += own
            for kind in kinds_of(operation):
                cycles[kind] = cycles.get(kind, 0) + own
    return {kind: own / total for kind, own in cycles.items()} if total else {}
