"""What an operator must fulfil to be lowered: the limits of the hardware that follow from operands alone.

A placement is a value that anybody may write, so nothing is taken from it on trust. Which operands an operator has, and which
shapes and scales belong together, says the operator table (`npu.graph.ops`); here is what the hardware and the compiler need
beyond that. What lets an operator pass here the lowering functions may take for granted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from npu.errors import CompileError
from npu.graph import verify
from npu.graph.attributes import FusedActivation
from npu.graph.consistency import inconsistency, operands_of
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.graph.map_types import PLAIN_NUMBERS, WEIGHT_TYPES, ZERO_POINTS, pair_of, shown, zero_points
from npu.graph.operands import Mismatch, Operands, Role, count_defect
from npu.graph.ops import BY_NAME, IN_PIECES, Operator, inputs_with, is_matrix_of_weights, map_types_of
from npu.graph.permutation import is_permutation
from npu.graph.progressions import MOST_PARTS, progressions
from npu.graph.shapes.gathers import batch_dims
from npu.graph.shapes.windows import transposed_shape
from npu.isa.rules import MAX_EXTENT

MAX_RANK = 6
WITH_SYMMETRIC_WEIGHTS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})
"""Products of which the reference kernels know no zero points of int8 weights."""
MAY_BE_COMPUTED = frozenset({("GATHER", "indices"), ("TRANSPOSE_CONV", "shape")})
"""Parameters that some NPU reads at run time, or that the declared output says, too, as tflite-micro's kernel takes it."""
_BIAS_TYPES = (DType.INT32, DType.INT64)
_PARAMETER_TYPES = (DType.INT32, DType.INT64)

Defect = str | None
OperandLimit = Callable[[Operands], Defect]


class LoweringError(CompileError):
    """An operator that cannot be lowered: its index in its graph, and what must hold of it."""

    def __init__(self, index: int, op: Op, must: str) -> None:
        super().__init__(f"operator {index} ({op.name}): {must}")
        self.index = index
        self.must = must


def check_operator(graph: Graph, index: int, limit: OperandLimit | None, *, needs_options: bool, compares: bool) -> None:
    """Raise LoweringError if operator `index` of `graph` contradicts itself or a limit of the hardware.

    `compares`: the hardware has comparisons of its own.
    """
    op = graph.ops[index]
    defect = _defect(graph, op, limit, needs_options=needs_options, compares=compares)
    if defect is not None:
        raise LoweringError(index, op, defect)


def _defect(graph: Graph, op: Op, limit: OperandLimit | None, *, needs_options: bool, compares: bool) -> Defect:
    row = BY_NAME[op.kind]
    defect = _operand_defect(row, op, needs_options=needs_options) or _map_defect(graph, op, compares=compares)
    defect = defect or _weight_defect(graph, op) or _parameter_defect(graph, op)
    if defect is not None:
        return defect
    mistake = inconsistency(graph, op)
    if mistake is not None:
        return mistake.message
    return None if limit is None else limit(operands_of(row, graph.tensors, op))


def _operand_defect(row: Operator, op: Op, *, needs_options: bool) -> Defect:
    assert row.signature is not None
    if row.attributes is not None and not isinstance(op.attributes, row.attributes if needs_options else row.attributes | None):
        return f"must have {row.attributes.__name__}"
    given = [tensor != ABSENT for tensor in op.inputs]
    return count_defect(row.signature.inputs, given, "input") or count_defect(
        row.signature.outputs, [True] * len(op.outputs), "output"
    )


def _inputs(graph: Graph, op: Op, role: Role) -> list[Tensor]:
    """The inputs with a role that are given."""
    given = ((at, graph.tensors[op.inputs[at]]) for at in inputs_with(role, op) if op.inputs[at] != ABSENT)
    return [tensor for position, tensor in given if not is_matrix_of_weights(op, position, tensor)]


def _longest(op: Op) -> int:
    """The longest extent of a map: what the registers can say, or for what is done in pieces what a file can."""
    return verify.MAX_EXTENT if op.kind in IN_PIECES else MAX_EXTENT


def _fits(op: Op, tensor: Tensor) -> bool:
    return all(1 <= extent <= _longest(op) for extent in tensor.shape)


def _map_defect(graph: Graph, op: Op, *, compares: bool) -> Defect:
    read, written = _inputs(graph, op, Role.FEATURE_MAP), [graph.tensors[index] for index in op.outputs]
    taken = map_types_of(op.kind, compares=compares)
    if pair_of((tensor.dtype for tensor in read), (tensor.dtype for tensor in written)) not in taken:
        join = ", ".join(str(tensor.dtype) for tensor in (*read, *written))
        return f"feature maps must be of type {' or '.join(map(shown, taken))}, got {join}"
    activation = getattr(op.attributes, "fused_activation_function", FusedActivation.NONE)
    if written[0].dtype is DType.INT32 and activation is not FusedActivation.NONE:
        return f"fused activation of int32 maps must be NONE, whose results are not clamped, got {activation.name}"
    for tensor in (*read, *written):
        if len(tensor.shape) > MAX_RANK or not _fits(op, tensor):
            return f"tensor {tensor.name} must have extents in [1, {_longest(op)}], got {list(tensor.shape)}"
        quantization = tensor.quantization
        if tensor.dtype in PLAIN_NUMBERS or quantization is None:
            continue
        if quantization.scales.size != 1 or not quantization.scale > 0:
            return f"tensor {tensor.name} must have one scale above 0, got {quantization.scales[:4].tolist()}"
        low, high = zero_points(op.kind, tensor.dtype)
        if not low <= quantization.zero_point <= high:
            return f"tensor {tensor.name} must have a zero point in [{low}, {high}], got {quantization.zero_point}"
    return None


def _weight_defect(graph: Graph, op: Op) -> Defect:
    for weights in _inputs(graph, op, Role.WEIGHTS):
        wanted = WEIGHT_TYPES[_inputs(graph, op, Role.FEATURE_MAP)[0].dtype]
        if weights.data is None:
            return "weights must be constant"
        if weights.dtype is not wanted:
            return f"weights must be {wanted}, got {weights.dtype}"
        longest = MAX_EXTENT if op.kind in WITH_SYMMETRIC_WEIGHTS else _longest(op)
        if not all(1 <= extent <= longest for extent in weights.shape):
            return f"weights must have extents in [1, {longest}], got {list(weights.shape)}"
        quantization = weights.quantization
        is_product = op.kind in WITH_SYMMETRIC_WEIGHTS and weights.dtype is DType.INT8
        if quantization is not None and is_product and quantization.zero_points.any():
            return f"weights must have zero points of 0, got {quantization.zero_points[:4].tolist()}"
    for bias in _inputs(graph, op, Role.BIAS):
        if bias.data is None:
            return "bias must be constant"
        if bias.dtype not in _BIAS_TYPES:
            return f"bias must be int32 or int64, got {bias.dtype}"
    return None


def _parameter_defect(graph: Graph, op: Op) -> Defect:
    """Shapes, axes and the like are compiled into the commands."""
    signature = BY_NAME[op.kind].signature
    assert signature is not None
    for position in inputs_with(Role.PARAMETER, op):
        operand = signature.input(position)
        tensor = graph.tensors[op.inputs[position]] if op.inputs[position] != ABSENT else None
        if operand is None or tensor is None:
            continue
        if tensor.data is None and (op.kind, operand.name) in MAY_BE_COMPUTED:
            continue
        if tensor.data is None:
            return f"{operand.name} must be constant"
        numbers = tuple(dict.fromkeys((*_PARAMETER_TYPES, *operand.types)))
        wanted = (graph.tensors[op.outputs[0]].dtype,) if operand.name == "value" else numbers
        if tensor.dtype not in wanted:
            return f"{operand.name} must be {' or '.join(map(str, wanted))}, got {tensor.dtype}"
    return None


def counted_from_the_first(operands: Operands) -> Defect:
    """A permutation whose axes are not counted from the last."""
    shape, order = operands.shape(0), operands.numbers(1) or []
    return None if is_permutation(order, len(shape)) else f"permutation must name axes from 0 on, got {order}"


def forwards(operands: Operands) -> Defect:
    """A slice that steps forwards."""
    strides = operands.numbers(3) or []
    return None if min(strides, default=1) > 0 else f"strides must be at least 1, got {strides}"


def of_few_parts(operands: Operands) -> Defect:
    """A GATHER whose indices are computed, or the same for all of the input and few evenly spaced parts."""
    if operands.numbers(1) is None:
        return None
    batch, indices = batch_dims(operands.options.batch_dims, operands.shape(1)), operands.numbers(1) or []
    if batch != 0:
        return f"batch dimensions must be 0, got {batch}"
    parts = len(progressions(tuple(indices), MOST_PARTS + 1))
    return None if parts <= MOST_PARTS else f"evenly spaced parts of the indices must be at most {MOST_PARTS}, got more"


def of_small_scales(operands: Operands) -> Defect:
    """A comparison of values with scales below 1, as LiteRT's kernel demands; of wider ones no scale counts."""
    if operands.tensor(0).dtype.bits > 8:
        return None
    scales = [0.0 if one.quantization is None else one.quantization.scale for one in map(operands.tensor, (0, 1))]
    return None if 0 < min(scales) <= max(scales) < 1 else f"scales must be above 0 and below 1, got {scales}"


def of_truth_values(operands: Operands) -> Defect:
    """A SELECT whose condition is of truth values."""
    dtype = operands.tensor(0).dtype
    return None if dtype is DType.BOOL else f"condition must be bool, got {dtype}"


def of_one_image(operands: Operands) -> Defect:
    """Slopes that are the same for all maps in front of height, width and depth."""
    shape = operands.shape(1)
    return None if math.prod(shape[:-3]) == 1 else f"slopes must be of one map, got {list(shape)}"


def of_the_declared_size(operands: Operands) -> Defect:
    """A transposed convolution whose declared output is one of those that it can make, where its shape is computed."""
    try:
        transposed_shape(operands, operands.outputs[0].shape)
    except Mismatch as mistake:
        return str(mistake)
    return None


def of_factors(operands: Operands) -> Defect:
    """Matrices of one type, or one of int16 times a constant one of int8, whose scales and zero point are fit for weights."""
    right = operands.tensor(1)
    if right.dtype is DType.INT16 and operands.tensor(0).dtype is not DType.INT16:
        return f"the left matrix must be int16 as the right one is, got {operands.tensor(0).dtype}"
    quantization = right.quantization
    if quantization is None or not quantization.scales.size or not (quantization.scales > 0).all():
        return f"matrix {right.name} must have scales above 0"
    low, high = ZERO_POINTS.get(operands.tensor(0).dtype, (0, 0))
    if not all(low <= point <= high for point in quantization.zero_points.tolist()):
        return f"matrix {right.name} must have zero points in [{low}, {high}]"
    return None
