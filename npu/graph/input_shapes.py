"""Models for other input shapes: every tensor gets the shape that the operator table infers from those of the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from npu.errors import ModelError
from npu.graph.consistency import infer_shapes, operands_of
from npu.graph.graph import ABSENT, Model, Op, Tensor
from npu.graph.operands import Mismatch, Shape
from npu.graph.ops import BY_NAME
from npu.numerics.arrays import Array


def open_inputs(model: Model) -> list[Tensor]:
    """Inputs whose size is left open: behind the first dimension one is dynamic, and declared as 1."""
    graph = model.graphs[0]
    inputs = (graph.tensors[index] for index in graph.inputs)
    return [tensor for tensor in inputs if (-1, 1) in zip((tensor.shape_signature or ())[1:], tensor.shape[1:], strict=False)]


def require_static(model: Model) -> None:
    """Raise ModelError for an input whose size is left open."""
    for tensor in open_inputs(model):
        signature = tensor.shape_signature or ()
        example = ",".join(str(size if size > 0 else 1 if axis == 0 else 64) for axis, size in enumerate(signature))
        raise ModelError(
            f"input '{tensor.name}': must have a shape to compile for, got {list(signature)}; give it one, "
            f"for example --input-shape {tensor.name}={example}"
        )


KnownOutputs = Callable[[Sequence[Tensor], Op], list[Array] | None]
"""The outputs of an operator on these tensors that are known before the model runs."""


def with_input_shapes(model: Model, shapes: Mapping[str, Shape], known: KnownOutputs = lambda tensors, op: None) -> Model:
    """The model with inputs of these shapes by name. ModelError if there is no such input, or if an operator cannot follow.

    Shapes may also follow from what is `known`; the operators that compute it stay.
    """
    if not shapes:
        return model
    graph = model.graphs[0]
    names = {graph.tensors[index].name: index for index in graph.inputs}
    tensors = list(graph.tensors)
    for name, shape in shapes.items():
        if name not in names:
            raise ModelError(f"input shapes: names must be {', '.join(names)}, got '{name}'")
        tensors[names[name]] = _given(tensors[names[name]], shape)
    seen = list(tensors)
    for index, op in enumerate(graph.ops):
        values = known(seen, op)
        made = _inferred(seen, index, op) if values is None else [value.shape for value in values]
        for number, (tensor, shape) in enumerate(zip(op.outputs, made, strict=False)):
            tensors[tensor] = seen[tensor] = _shaped(tensors[tensor], shape)
            if values is not None:
                seen[tensor] = replace(seen[tensor], data=values[number])
    return replace(model, graphs=(replace(graph, tensors=tuple(tensors)), *model.graphs[1:]))


def _given(tensor: Tensor, shape: Shape) -> Tensor:
    declared = tensor.shape_signature or tensor.shape
    fits = len(shape) == len(declared) and all(size == -1 or size == n for size, n in zip(declared, shape, strict=True))
    if not fits or math.prod(shape) < 1:
        raise ModelError(f"input '{tensor.name}': must have a shape that fits {list(declared)}, got {list(shape)}")
    return _shaped(tensor, shape)


def _shaped(tensor: Tensor, shape: Shape) -> Tensor:
    is_same = shape == tensor.shape and tensor.shape_signature is None
    return tensor if is_same else replace(tensor, shape=shape, shape_signature=None)


def _inferred(tensors: Sequence[Tensor], index: int, op: Op) -> list[Shape]:
    row, where = None if ABSENT in op.outputs else BY_NAME.get(op.kind), f"{op.name} (op {index})"
    try:
        shapes = None if row is None else infer_shapes(row, operands_of(row, tensors, op))
    except Mismatch as error:
        raise ModelError(f"{where}: {error}, for the input shapes that are given") from error
    if shapes is None:
        raise ModelError(f"{where}: shapes of its outputs must follow from those of its inputs, but its elements decide them")
    return list(shapes)
