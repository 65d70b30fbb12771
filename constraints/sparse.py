"""When the XNNPACK-like delegate runs a float subgraph with sparse weights: the rules on its first, last and inner operators.

The weights of the inner 1x1 convolutions are stored sparse, each behind a DENSIFY operator, which belongs to the subgraph;
other weights may be. Padding is what the SAME scheme gives at the operator's shapes, so a stride of 2 has one row on every
side only where the input's height and width are odd.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from constraints import observe
from constraints.rule import Exactly, Observe, Observed, OneOf, Predicate, Range, RealRange, Rule
from constraints.view import OpView
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Tensor
from npu.graph.placement import Violation
from npu.tflite.sparsity import is_sparse

UNARY = (
    "ABS", "CEIL", "ELU", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "ROUND",
    "SQUARE",
)  # fmt: skip
INSIDE = ("ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "MUL", "RESIZE_BILINEAR", *UNARY)
WINDOWED = ("CONV_2D", "DEPTHWISE_CONV_2D")
SPATIAL = ((1, 2), (2, 1))

Geometry = tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int, int, int]]
"""Kernel, stride, dilation (height, width) and padding (top, left, bottom, right)."""


def geometry(view: OpView) -> Geometry | None:
    """The window of a convolution; None where shapes or attributes are missing."""
    weights, ifm, ofm = view.weights, view.ifm, view.output()
    names = ("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor", "padding")
    values = [view.attribute(name) for name in names]
    if weights is None or ifm is None or ofm is None or None in values:
        return None
    if not len(weights.shape) == len(ifm.shape) == len(ofm.shape) == 4:
        return None
    kernel, stride, dilation = (weights.shape[1], weights.shape[2]), (values[0], values[1]), (values[2], values[3])
    before, after = [0, 0], [0, 0]
    if values[4] == Padding.SAME:
        for axis in range(2):
            extent = (kernel[axis] - 1) * dilation[axis] + 1
            total = max((ofm.shape[axis + 1] - 1) * stride[axis] + extent - ifm.shape[axis + 1], 0)
            before[axis], after[axis] = total // 2, total - total // 2
    return kernel, stride, dilation, (before[0], before[1], after[0], after[1])


def _window(kernel: int, stride: int, padding: int) -> Geometry:
    return (kernel, kernel), (stride, stride), (1, 1), (padding, padding, padding, padding)


HEAD = (_window(3, 2, 1), 3)
POINTWISE = _window(1, 1, 0)
DEPTHWISE = {"X-S-7": _window(3, 1, 1), "X-S-8": _window(3, 2, 1), "X-S-9": _window(5, 1, 2), "X-S-10": _window(5, 2, 2)}


def _observed_geometry(view: OpView) -> Iterator[Observed]:
    yield Observed("kernel, stride, dilation, padding", geometry(view))


def _head(view: OpView) -> Iterator[Observed]:
    ifm = view.ifm
    known = view.op.kind == "CONV_2D" and ifm is not None and ifm.shape
    yield Observed("first operator", (geometry(view), int(ifm.shape[-1])) if known and ifm else view.op.name)


def _axes(view: OpView) -> tuple[int, ...] | None:
    tensor = view.input(1)
    if tensor is None or tensor.data is None or not np.issubdtype(tensor.data.dtype, np.integer):
        return None
    return tuple(int(value) for value in tensor.data.reshape(-1)[:4])


def _tail(view: OpView) -> Iterator[Observed]:
    spatial = view.op.kind == "MEAN" and _axes(view) in SPATIAL
    yield Observed("last operator", "MEAN over height and width" if spatial else view.op.name)


def _storage(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    yield Observed("weights", "sparse" if weights is not None and is_sparse(weights) else "dense")


def _inner_axes(view: OpView) -> Iterator[Observed]:
    yield Observed("axes", _axes(view))


def _resized(view: OpView) -> Iterator[Observed]:
    ofm = view.output()
    sizes = (None,) if ofm is None or len(ofm.shape) != 4 else ofm.shape[1:3]
    yield from (Observed("output size", size) for size in sizes)


def _ranks(view: OpView) -> Iterator[Observed]:
    for name, tensor in view.inputs:
        if tensor.data is None:
            yield Observed(f"rank of {name}", len(tensor.shape))


def _constant_shapes(view: OpView) -> Iterator[Observed]:
    for name, tensor in view.inputs:
        if tensor.data is not None:
            yield Observed(f"shape of constant {name}", tuple(tensor.shape))


def _types(view: OpView) -> Iterator[Observed]:
    yield from observe.tensor_types(view)


def _kind(view: OpView) -> Iterator[Observed]:
    yield Observed("operator", view.op.kind)


def _zero_share(view: OpView) -> Iterator[Observed]:
    """Share of zeros in the weights of all 1x1 convolutions of the subgraph."""
    total = zeros = 0
    for op in view.graph.ops:
        weights = OpView(view.graph, op).weights if op.kind == "CONV_2D" else None
        if weights is not None and weights.data is not None and tuple(weights.shape[1:3]) == (1, 1):
            total += weights.elements
            zeros += weights.elements - int(np.count_nonzero(weights.data))
    yield Observed("share of zeros", zeros / total if total else 0.0)


def _rule(identifier: str, operators: tuple[str, ...], limit: Any, says: str, observed: Observe) -> Rule:
    return Rule(identifier, operators, limit, says, observed)


ALWAYS = (
    _rule("X-S-1", (), Exactly(DType.FLOAT32, others=(DType.INT8, DType.FLOAT16)), "tensors must be of type {limit}", _types),
    _rule("X-S-2", WINDOWED, Exactly("constant", others=("computed",)), "weights, or what DENSIFY unpacks, must be {limit}",
          observe.weights_constant),
)  # fmt: skip
FIRST = _rule("X-S-3", (), Exactly(HEAD), "the first operator must be a CONV_2D with window and channels {limit}", _head)
LAST = _rule("X-S-4", (), OneOf(("MEAN over height and width", "DEPTH_TO_SPACE"), others=("RELU",)),
             "the last operator must be {limit}", _tail)  # fmt: skip
INNER = (
    _rule("X-S-13", (), OneOf(INSIDE, others=("TANH", "SUB")), "inner operators must be {limit}", _kind),
    _rule("X-S-2", ("CONV_2D",), Exactly("sparse", others=("dense",)),
          "weights of an inner CONV_2D must be stored {limit}, behind a DENSIFY operator", _storage),
    _rule("X-S-5", ("CONV_2D",), Exactly(POINTWISE), "inner CONV_2D must have window {limit}", _observed_geometry),
    _rule("X-S-7", ("DEPTHWISE_CONV_2D",), OneOf(tuple(DEPTHWISE.values())), "inner DEPTHWISE_CONV_2D must have window {limit}",
          _observed_geometry),
    _rule("X-S-11", ("RESIZE_BILINEAR",), Range(2, 65535), "output height and width must each be {limit}", _resized),
    _rule("X-S-11", ("MEAN",), OneOf(SPATIAL, others=((1,), (3,))), "axes must be {limit}", _inner_axes),
    _rule("X-S-12", ("ADD", "MUL"), Exactly(4, others=(3,)), "rank of computed operands must be {limit}", _ranks),
    _rule("X-S-12", ("ADD", "MUL"),
          Predicate("a scalar or a vector along the last dimension", lambda shape: all(size == 1 for size in shape[:-1])),
          "constant operands must be {limit}", _constant_shapes),
)  # fmt: skip
SHARE = RealRange(((2 / 3, 1.0),))
WHOLE = _rule("X-S-6", (), SHARE, "share of zeros in the weights of 1x1 CONV_2D must be {limit}", _zero_share)


def sparse_violations(graph: Graph, ops: Sequence[int]) -> tuple[Violation, ...]:
    """What keeps the operators `ops` of a graph, in execution order, from sparse inference; empty if nothing does.

    DENSIFY operators among them unpack weights and are not judged themselves.
    """
    region = _without_densify(graph, ops)
    if not region.ops:
        return (Violation("X-S-2", "a sparse subgraph must have operators, got none", "operators", "none"),)
    violations: list[Violation | None] = []
    last = len(region.ops) - 1
    for position, op in enumerate(region.ops):
        view = OpView(region, op)
        rules = [*ALWAYS, *((FIRST,) if position == 0 else ()), *((LAST,) if position == last else ())]
        rules += INNER if 0 < position < last else ()
        violations += [rule.check(view) for rule in rules if not rule.operators or op.kind in rule.operators]
    violations.append(WHOLE.check(OpView(region, region.ops[0])))
    return tuple(violation for violation in violations if violation is not None)


def _without_densify(graph: Graph, ops: Sequence[int]) -> Graph:
    """A graph of these operators alone, in which outputs of DENSIFY are constants with the stored values and their metadata."""
    tensors: list[Tensor] = list(graph.tensors)
    for op in graph.ops:
        if op.kind == "DENSIFY" and op.inputs and op.outputs:
            source, target = op.inputs[0], op.outputs[0]
            if 0 <= source < len(tensors) and 0 <= target < len(tensors):
                tensors[target] = replace(tensors[target], data=tensors[source].data, extra=tensors[source].extra)
    kept = tuple(graph.ops[index] for index in ops if graph.ops[index].kind != "DENSIFY")
    return replace(graph, tensors=tuple(tensors), ops=kept)
