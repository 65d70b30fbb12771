"""Operators whose results may be known before the model runs; `npu.fixes.constants` works them out, with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from npu.graph.graph import ABSENT, Op, Tensor

EXACT = frozenset({
    "ADD", "CEIL", "DIV", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "MUL", "REDUCE_PROD", "ROUND", "SUB",
})  # fmt: skip
"""Of floats, each result is rounded once, which gives the same number everywhere."""
MOVED = frozenset({
    "CAST", "CONCATENATION", "EXPAND_DIMS", "FILL", "GATHER", "PACK", "RANGE", "RESHAPE", "SLICE", "SPLIT", "SPLIT_V",
    "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK", "ZEROS_LIKE",
})  # fmt: skip
_OF_SHAPES_OR_WEIGHTS = ("DENSIFY", "SHAPE")


def may_be_known(tensors: Sequence[Tensor], op: Op) -> bool:
    """Whether it computes a shape, unpacks weights, or computes or moves constants alone."""
    return op.kind in _OF_SHAPES_OR_WEIGHTS or is_of_constants(tensors, op)


def is_of_constants(tensors: Sequence[Tensor], op: Op) -> bool:
    """Whether it computes or moves constants alone."""
    if op.kind not in MOVED and op.kind not in EXACT:
        return False
    used = [tensors[index] for index in op.inputs if index != ABSENT]
    return bool(used) and all(tensor.is_constant and not tensor.is_variable for tensor in used)
