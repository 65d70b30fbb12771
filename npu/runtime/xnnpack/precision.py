"""When float operators are computed in half precision, and when that is an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from constraints.xnnpack import FLOAT
from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.acceptance import VARIABLE_KINDS
from npu.runtime.xnnpack.options import HalfPrecision, XnnpackOptions
from npu.runtime.xnnpack.reduced_precision import read_reduced_precision

HALF_KINDS = frozenset(FLOAT) | VARIABLE_KINDS | {"DENSIFY"}
"""Operators with a half-precision form: every float operator, and those that only move values."""


def choose_half(model: Model, graph: Graph, taken: Sequence[int], options: XnnpackOptions) -> HalfPrecision | None:
    """How the operators `taken` of a graph are computed; None for float32.

    Forced: InterpreterError if the CPU or an operator cannot. Otherwise fp16 if the CPU is native and the metadata permits it.
    """
    lacking = [index for index in taken if not _has_half(graph, graph.ops[index])]
    if options.force_fp16:
        if options.half_precision is HalfPrecision.NONE:
            raise InterpreterError("xnnpack: forced fp16 must have a CPU that computes or emulates fp16, got neither")
        if lacking:
            names = ", ".join(f"{graph.ops[index].name} (op {index})" for index in lacking)
            raise InterpreterError(f"xnnpack: forced fp16 must have operators with an fp16 form, got {names}")
        return options.half_precision
    support = read_reduced_precision(model)
    allowed = support is not None and support.permits_fp16 and options.half_precision is HalfPrecision.NATIVE
    return options.half_precision if allowed and not lacking else None


def has_floats(tensors: Iterable[Tensor | RuntimeTensor]) -> bool:
    """Whether an operator with these tensors is computed in half precision; others are what they are."""
    return any(tensor.dtype is DType.FLOAT32 for tensor in tensors)


def _has_half(graph: Graph, op: Op) -> bool:
    tensors = [graph.tensors[index] for index in (*op.inputs, *op.outputs) if index != ABSENT]
    return op.kind in HALF_KINDS or not has_floats(tensors)
