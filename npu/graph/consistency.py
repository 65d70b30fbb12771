"""Whether a model agrees with itself: the operator table's shape and quantization inference against what the file declares.

LiteRT's kernels compute the shapes of their outputs and never look at those that a file declares; the NPU is compiled for the
declared ones. So an operator whose declared shapes are not those that TFLite's rules give runs on the CPU, and so does every
operator that reads what it makes. An operator whose operands no kernel takes together runs nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npu.errors import ModelError
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.graph.operands import Mismatch, Operands, Role, Shape, have_types, positions
from npu.graph.ops import BY_NAME, Cost, Operator
from npu.graph.placement import CONSISTENCY, OpPlacement, Placement, Violation
from npu.graph.quantizations import activation_fits, bias_type, one_scale
from npu.records import dataclass, replace

_COMPUTED = frozenset(Cost) - {Cost.VIEW, Cost.OTHER, Cost.MATMUL, Cost.MAX_POOL, Cost.RESIZE_BILINEAR, Cost.LSTM}
"""Operators that compute with the scales of their feature maps."""


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """What is wrong with an operator, as a clause; `runs` is whether a kernel of the CPU takes it all the same."""

    message: str
    runs: bool


def operands_of(row: Operator, tensors: Sequence[Tensor], op: Op, shapes: Mapping[int, Shape] | None = None) -> Operands:
    """The operands of an operator, of the tensors of its graph; `shapes` stand for the declared ones of some."""

    def tensor(index: int) -> Tensor | None:
        if index == ABSENT:
            return None
        operands = tensors[index]
        shape = shapes.get(index) if shapes else None
        return operands if shape is None or shape == operands.shape else replace(operands, shape=shape)

    inputs = [tensor(index) for index in op.inputs]
    contents = [None if one is None or one.is_variable or one.dtype.numpy is None else one.data for one in inputs]
    options = row.attributes() if row.attributes is not None and op.attributes is None else op.attributes
    return Operands(options, inputs, [tensors[index] for index in op.outputs], contents)


Defects = Mapping[tuple[int, int], Inconsistency]
"""By graph and operator index."""


def infer_shapes(row: Operator, operands: Operands) -> Sequence[Shape] | None:
    """Shapes of the outputs, None where elements decide them. Mismatch if no kernel takes the operands."""
    activation_fits(operands)
    have_types(row.operands or "->", operands)
    if row.cost in _COMPUTED:
        maps = positions(row.operands or "->", Role.FEATURE_MAP, len(operands.inputs))
        one_scale([*(operands.inputs[position] for position in maps), *operands.outputs])
        for position in positions(row.operands or "->", Role.BIAS, len(operands.inputs)):
            bias_type(operands, position)
    if row.quantization is not None:
        row.quantization(operands)
    shapes = None if row.shape is None else row.shape(operands)
    if shapes is not None and len(shapes) < len(operands.outputs):
        raise Mismatch(f"must have at most {len(shapes)} outputs, got {len(operands.outputs)}")
    return shapes


def inconsistency(graph: Graph, op: Op) -> Inconsistency | None:
    """What is wrong with one operator by itself, with inputs of the declared shapes."""
    row = BY_NAME.get(op.kind)
    return None if row is None else _judge(row, graph, op, {})[0]


def inconsistencies(graph: Graph, *, is_entry: bool = True) -> Mapping[int, Inconsistency]:
    """What is wrong with a graph, by operator index; its inputs have the declared shapes.

    Who calls a graph that is no entry decides the shapes of its inputs, so that nothing in it is known to run nowhere.
    """
    shapes: dict[int, Shape | None] = {}
    mistake: dict[int, Inconsistency] = {}
    for index, op in enumerate(graph.ops):
        row = BY_NAME.get(op.kind)
        unknown = row is None or row.shape is None or any(shapes.get(i, ()) is None for i in op.inputs)
        known = {i: shape for i in op.inputs if (shape := shapes.get(i)) is not None}
        defect, made = (None, None) if row is None or unknown else _judge(row, graph, op, known)
        shapes.update(zip(op.outputs, [None] * len(op.outputs) if made is None else made, strict=False))
        if defect is not None:
            mistake[index] = defect if is_entry else replace(defect, runs=True)
    return mistake


def _judge(
    row: Operator, graph: Graph, op: Op, known: Mapping[int, Shape]
) -> tuple[Inconsistency | None, Sequence[Shape] | None]:
    """What is wrong, and the shapes of the outputs as far as they are known."""
    try:
        made = infer_shapes(row, operands_of(row, graph.tensors, op, known))
    except Mismatch as error:
        return Inconsistency(str(error), runs=False), None
    for what, indices, shapes in (
        ("input", op.inputs, [known.get(index) for index in op.inputs]),
        ("output", op.outputs, made or []),
    ):
        for index, shape in zip(indices, shapes, strict=False):
            tensor = graph.tensors[index]
            if shape is not None and index != ABSENT and tensor.shape != shape:
                message = f"{what} '{tensor.name}' must have shape {list(shape)}, got {list(tensor.shape)}"
                return Inconsistency(message, runs=True), made
    return None, made


def defects_of(model: Model) -> Defects:
    """What is wrong with a model, by graph and operator index."""
    return {
        (number, index): what
        for number, graph in enumerate(model.graphs)
        for index, what in inconsistencies(graph, is_entry=number == 0).items()
    }


def without_inconsistent(placement: Placement, defects: Defects) -> Placement:
    """The placement with every inconsistent operator on the CPU, for the reason CONSISTENCY; itself if there are none."""
    if not defects:
        return placement
    ops = (_with_reason(op, defects[op.graph, op.index]) if (op.graph, op.index) in defects else op for op in placement.ops)
    return replace(placement, ops=tuple(ops))


def _with_reason(op: OpPlacement, inconsistency: Inconsistency) -> OpPlacement:
    if any(violation.rule == CONSISTENCY for violation in op.violations):
        return op
    what = "the file declares another shape than the operator computes" if inconsistency.runs else "no kernel runs the operator"
    fix = "convert the model again" if inconsistency.runs else "mend the model: npu compile and npu run refuse it"
    violation = Violation(
        CONSISTENCY, f"{what}: {inconsistency.message}", "what TFLite's kernels compute", inconsistency.message, fix
    )
    return replace(op, violations=(*op.violations, violation))


def require_runnable(model: Model, defects: Defects) -> None:
    """Raise ModelError for the first operator of the entry graph that no kernel runs."""
    graph = model.graphs[0]
    for (number, index), defect in defects.items():
        if number == 0 and not defect.runs:
            raise ModelError(f"{graph.ops[index].name} (op {index}): {defect.message}; no kernel runs the operator")
