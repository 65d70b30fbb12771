"""Sizes that a file leaves open: a converter declares them as 1, and what an operator makes of its inputs says them."""

from __future__ import annotations

from collections.abc import Sequence

from npu.graph.consistency import infer_shapes, operands_of
from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.graph.idle import VIEWS
from npu.graph.operands import Mismatch, Shape
from npu.graph.ops import BY_NAME, MOVES
from npu.records import replace


def has_unsettled(graph: Graph) -> bool:
    """Whether an operator makes another shape than the file declares where it leaves it open.

    The first one that does moves elements, or reads what a custom operator made: all others pass on the sizes of their inputs.
    """
    made = {index for op in graph.ops if op.kind not in BY_NAME or op.kind == "CUSTOM" for index in op.outputs}
    first = (op for op in graph.ops if op.kind in VIEWS or op.kind in MOVES or not made.isdisjoint(op.inputs))
    return any(tensor is not graph.tensors[index] for op in first for index, tensor in settled_outputs(graph.tensors, op))


def settled_outputs(tensors: Sequence[Tensor], op: Op) -> list[tuple[int, Tensor]]:
    """The outputs of an operator with the shapes that it makes of its inputs, where the file leaves them open."""
    row = BY_NAME.get(op.kind)
    is_open = row is not None and ABSENT not in op.outputs and any(-1 in (tensors[i].shape_signature or ()) for i in op.outputs)
    if row is None or not is_open:
        return []
    try:
        shapes = infer_shapes(row, operands_of(row, tensors, op)) or ()
    except Mismatch:
        return []  # which is what is then said of the operator
    return [(index, _settled(tensors[index], shape)) for index, shape in zip(op.outputs, shapes, strict=False)]


def _settled(tensor: Tensor, shape: Shape) -> Tensor:
    """The tensor with a shape that its signature leaves open; itself if it has that shape, or must not have it."""
    signature = tensor.shape_signature or ()
    fits = len(shape) == len(signature) and all(size in (-1, own) for size, own in zip(signature, shape, strict=True))
    return replace(tensor, shape=shape, shape_signature=None) if fits and shape != tensor.shape else tensor
