"""Profile u55-u65: what it adds to v0.1, every added limit on both sides, and that it follows compiler and variant."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npu
from constraints import v0_1
from constraints.checker import check
from constraints.rule import AtLeast, Rule
from constraints.u55_u65 import HARDWARE, PROFILE
from constraints.u55_u65_observe import NOT_RESCALED
from npu.compiler.lower.table import LOWERED
from npu.graph import attributes as options
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Quantization, Tensor
from npu.graph.operands import Role
from npu.graph.ops import BY_NAME, inputs_with
from npu.hardware.catalogue import load_variant
from npu.hardware.choice import Hardware
from npu.hardware.variant import Variant
from npu.numerics.comparison import RELATIONS
from npu.tflite.writer import write_model
from npu.toolchain.session import Session

from tests.support import single_ops as ops
from tests.support.single_ops import changed

MAP = (1, 8, 8, 4)
MORE_OPERATORS = tuple(sorted({*PROFILE.operators} - {*v0_1.OPERATORS}))


def violated(model: Model, variant: Variant | None = None) -> set[str]:
    return {violation.rule for violation in check(model, profile="u55-u65", variant=variant).ops[0].violations}


def test_every_operator_is_one_that_the_compiler_lowers() -> None:
    assert set(PROFILE.operators) == set(LOWERED)


def test_no_limit_of_v0_1_is_dropped_but_for_those_with_one_of_their_own() -> None:
    replaced = {rule.id for rule in v0_1.RULES} - {rule.id for rule in PROFILE.rules}
    assert replaced == {"V-DW-10", "V-GEN-1", "V-GEN-3", "V-GEN-4", "V-PAD-1", "V-PAD-2", "V-PAD-3", "V-RSZ-1", "V-RSZ-2"}


# The smallest model of every operator that v0.1 does not have


def slice_model(*, begin: bool = True, size: bool = True) -> Model:
    parts = (ops.constant((0, 1, 1, 0)), ops.constant((1, 4, 4, 4)))
    inputs = [part if fixed else replace(part, data=None) for part, fixed in zip(parts, (begin, size), strict=True)]
    return ops.op_model("SLICE", [ops.tensor(MAP), *inputs], [ops.tensor((1, 4, 4, 4))])


def strided_slice(*, stride: int = 1, fixed: str = "constant") -> Model:
    parts = [ops.constant((0, 0, 0, 0)), ops.constant((1, 4, 4, 4)), ops.constant((1, 1, 1, stride))]
    parts[1] = parts[1] if fixed == "constant" else replace(parts[1], data=None)
    made = options.StridedSliceOptions()
    taken = (1, 4, 4, len(range(0, 4, max(stride, 1))))
    return ops.op_model("STRIDED_SLICE", [ops.tensor(MAP), *parts], [ops.tensor(taken)], made)


def split(kind: str = "SPLIT", fixed: str = "constant") -> Model:
    outputs = [ops.tensor((1, 8, 8, 2)) for _ in range(2)]
    axis = ops.constant(3) if fixed == "constant" else replace(ops.constant(3), data=None)
    if kind == "SPLIT":
        return ops.op_model(kind, [axis, ops.tensor(MAP)], outputs, options.SplitOptions(2))
    return ops.op_model(kind, [ops.tensor(MAP), ops.constant((2, 2)), axis], outputs, options.SplitVOptions(2))


def unpack(*, attributes: bool = True) -> Model:
    made = options.UnpackOptions(2, 0) if attributes else None
    return ops.op_model("UNPACK", [ops.tensor((2, 8, 4))], [ops.tensor((8, 4)) for _ in range(2)], made)


def quantize(dtype: DType = DType.INT8) -> Model:
    return ops.op_model("QUANTIZE", [ops.tensor(MAP, dtype)], [ops.tensor(MAP, scale=0.25)], options.QuantizeOptions())


def widened(zero_point: int = 0, shape: tuple[int, ...] = MAP) -> Model:
    """QUANTIZE from int16 to int32."""
    ofm = ops.tensor(shape, DType.INT32, scale=0.125, zero_point=zero_point)
    return ops.op_model("QUANTIZE", [ops.tensor(shape, DType.INT16, scale=0.5)], [ofm], options.QuantizeOptions())


def softmax(value: tuple[str, float, int] = ("int8", 1 / 256, -128), beta: float = 1.0, shape: tuple[int, ...] = MAP) -> Model:
    read, written = (DType[name.upper()] for name in (value[0].split(" to ") * 2)[:2])
    ofm = ops.tensor(shape, written, scale=value[1], zero_point=value[2])
    return ops.op_model("SOFTMAX", [ops.tensor(shape, read)], [ofm], options.SoftmaxOptions(beta))


def mean(axes: tuple[int, ...] = (1, 2), shape: tuple[int, ...] = MAP, *, fixed: bool = True, kind: str = "MEAN") -> Model:
    table = ops.constant(axes) if fixed else replace(ops.constant(axes), data=None)
    ofm = ops.tensor([1 if axis - len(shape) in axes or axis in axes else size for axis, size in enumerate(shape)])
    ofm = replace(ofm, quantization=ops.quantization(0.5, zero_point=1)) if kind == "SUM" else ofm
    return ops.op_model(kind, [ops.tensor(shape), table], [ofm], options.ReducerOptions(True))


def padv2(*, fixed: bool = True) -> Model:
    value = ops.tensor((1,), data=3 if fixed else None)
    table = ops.constant(((0, 0), (1, 1), (1, 1), (0, 1)))
    return ops.op_model("PADV2", [ops.tensor(MAP), table, value], [ops.tensor((1, 10, 10, 5))], options.PadV2Options())


def transposed(
    stride: tuple[int, int] = (2, 2), kernel: tuple[int, int] = (3, 3), *, batch: int = 1, shape: str = "constant",
    padding: options.Padding = options.Padding.SAME, size: tuple[int, int] | None = None, weights: Tensor | None = None,
    bias: DType = DType.INT32, values: str = "constant",
) -> Model:  # fmt: skip
    height, width = size or (8 * stride[0], 8 * stride[1])
    target = ops.constant((batch, height, width, 8))
    target = target if shape == "constant" else replace(target, data=None)
    result = ops.tensor((batch, height, width, 8))
    result = replace(result, shape_signature=(batch, -1, width, 8)) if shape == "computed" else result
    data = 1 if values == "constant" else None
    weights = ops.tensor((8, *kernel, 4), data=data) if weights is None else weights
    inputs = [target, weights, ops.tensor((batch, 8, 8, 4)), ops.tensor((8,), bias, data=0)]
    made = options.TransposeConvOptions(padding, stride[1], stride[0])
    return ops.op_model("TRANSPOSE_CONV", inputs, [result], made)


def product(types: str, scales: str = "per tensor") -> Model:
    left, right = types.removesuffix(" ").split(", ")
    second = ops.tensor((1, 4, 5), DType[right.removeprefix("constant ").upper()], data=1 if "constant" in right else None)
    several = ops.quantization(*[0.1] * 5, axis=2)
    quantization = {"none": None, "per channel": several}.get(scales, second.quantization)
    second = replace(second, quantization=quantization)
    dtype = DType[left.upper()]
    inputs = [ops.tensor((1, 8, 4), dtype), second]
    return ops.op_model("BATCH_MATMUL", inputs, [ops.tensor((1, 8, 5), dtype)], options.BatchMatMulOptions())


def transposed_sum(total: int) -> Model:
    full, rest = divmod(total, 127)
    values = np.zeros((1, 1, 1, 65600), np.int8)
    values[..., :full] = 127
    values[..., full] = rest
    weights = Tensor("w", values.shape, DType.INT8, ops.quantization(0.1), values)
    return transposed(kernel=(1, 1), weights=weights)


def paddings(shape: tuple[int, int]) -> Model:
    table = ops.constant(np.zeros(shape, np.int32))
    return ops.op_model("PAD", [ops.tensor((2,) * shape[0]), table], [ops.tensor((2,) * shape[0])], options.PadOptions())


def permuted(
    order: tuple[int, ...] = (0, 3, 1, 2), shape: tuple[int, ...] = MAP, *, made: tuple[int, ...] | None = None,
    order_type: DType = DType.INT32, fixed: str = "constant", zero_points: tuple[int, int] = (0, 0),
) -> Model:  # fmt: skip
    table = ops.constant(order, order_type)
    inputs = [ops.tensor(shape, zero_point=zero_points[0]), table if fixed == "constant" else replace(table, data=None)]
    whole = tuple(shape[axis] for axis in order) if made is None else made
    return ops.op_model("TRANSPOSE", inputs, [ops.tensor(whole, zero_point=zero_points[1])], options.TransposeOptions())


def permuted_in_copies(count: int) -> Model:
    """All dimensions the other way round: the two largest are copied at a time."""
    shape = {1024: (4, 4, 8, 8, 8, 8), 1025: (41, 5, 41, 5, 41)}[count]
    return permuted(tuple(reversed(range(len(shape)))), shape)


def typed(kinds: tuple[str, ...], value: str) -> Model:
    """The first operator of a rule with maps of the types that a limit names."""
    read, written = (value.split(" to ") * 2)[:2]
    kind = next(kind for kind in kinds if kind != "ELU" and BY_NAME[kind].quantization is None)  # LiteRT has no ELU of int8
    model = MINIMAL.get(kind) or SHARED[kind]
    op, graph = model.graphs[0].ops[0], model.graphs[0]
    point, scale = (3 if read in ("int8", "uint8") else 0), (0.1 if value.startswith("int32 to") else 0.5)
    conditions = {op.inputs[position] for position in inputs_with(Role.CONDITION, op)}
    for index in (index for index in op.inputs if graph.tensors[index].data is None and index not in conditions):
        quantization = ops.quantization(scale, zero_point=point)
        model = changed(model, index, dtype=DType[read.upper()], quantization=quantization)
    for index in op.outputs:
        model = changed(model, index, dtype=DType[written.upper()])
    if kind == "ARG_MAX":
        op = replace(op, attributes=options.ArgMaxOptions(DType[written.upper()]))
        model = Model((replace(model.graphs[0], ops=(op,)),))
    return model


def slopes(value: tuple[int, tuple[int, ...], tuple[int, ...]] = (8, (4,), MAP), *, fixed: bool = True) -> Model:
    bits, shape, full = value
    slope = ops.tensor(shape, DType.INT8 if bits == 8 else DType.INT16, data=1 if fixed else None)
    return ops.op_model("PRELU", [ops.tensor(full), slope], [ops.tensor(full)])


def arg_max(axis: int = -1, depth: int = 4, *, fixed: bool = True) -> Model:
    shape = (1, 8, 8, depth)
    made = tuple(size for place, size in enumerate(shape) if place != axis % 4)
    table = ops.constant(axis) if fixed else replace(ops.constant(axis), data=None)
    options_ = options.ArgMaxOptions(DType.INT32)
    return ops.op_model("ARG_MAX", [ops.tensor(shape), table], [ops.tensor(made, DType.INT32)], options_)


def reduced(kind: str = "REDUCE_MAX", *, fixed: bool = True, dtype: DType = DType.INT8) -> Model:
    table = ops.constant((1, 3)) if fixed else replace(ops.constant((1, 3)), data=None)
    return ops.op_model(kind, [ops.tensor(MAP, dtype), table], [ops.tensor((1, 1, 8, 1), dtype)], options.ReducerOptions(True))


def compared(extent: int) -> Model:
    ifm, axes, ofm = ops.tensor((2, extent, 3)), ops.constant((1,)), ops.tensor((2, 1, 3))
    return ops.op_model("REDUCE_MAX", [ifm, axes], [ofm], options.ReducerOptions(True))


def reversed_along(axes: tuple[int, ...] = (0,), *, fixed: bool = True) -> Model:
    table = ops.constant(axes) if fixed else replace(ops.constant(axes), data=None)
    return ops.op_model("REVERSE_V2", [ops.tensor(MAP), table], [ops.tensor(MAP)], options.ReverseV2Options())


def tiled(*, fixed: bool = True) -> Model:
    table = ops.constant((1, 2, 1, 3)) if fixed else replace(ops.constant((1, 2, 1, 3)), data=None)
    return ops.op_model("TILE", [ops.tensor(MAP), table], [ops.tensor((1, 16, 8, 12))], options.TileOptions())


def gathered(
    indices: Any = (0, 4, 1, 5), shape: tuple[int, ...] = MAP, axis: int = 1, *, dtype: DType = DType.INT32, fixed: bool = True,
    batch: int = 0,
) -> Model:  # fmt: skip
    table = ops.constant(indices, dtype)
    table = table if fixed else replace(table, data=None)
    made = (*shape[:axis], *np.shape(indices)[batch % (np.ndim(indices) or 1) :], *shape[axis + 1 :])
    return ops.op_model("GATHER", [ops.tensor(shape), table], [ops.tensor(made)], options.GatherOptions(axis, batch))


def gathered_in_parts(value: tuple[int, int]) -> Model:
    """Rows in the opposite order, none of which continues another one."""
    parts, elements = value
    return gathered(tuple(reversed(range(parts))), (parts, elements // parts), 0)


def in_batches(kind: str = "SPACE_TO_BATCH_ND", *, fixed: bool = True) -> Model:
    block, pads = ops.constant((2,)), ops.constant(((1, 1),))
    space, batches = ops.tensor((1, 8, 4)), ops.tensor((2, 5, 4))
    pads = pads if fixed else replace(pads, data=None)
    if kind == "SPACE_TO_BATCH_ND":
        return ops.op_model(kind, [space, block, pads], [batches], options.SpaceToBatchNDOptions())
    return ops.op_model(kind, [batches, block, pads], [space], options.BatchToSpaceNDOptions())


def mirrored(table: Any = ((0, 0), (1, 2), (0, 1), (0, 0)), *, fixed: bool = True) -> Model:
    pads = ops.constant(table) if fixed else replace(ops.constant(table), data=None)
    shape = (1, 300, 8, 4, 2, 2)[: len(table)] if len(table) != 3 else (300, 8, 4)
    made = tuple(max(size + sum(row), 1) for size, row in zip(shape, table, strict=True))
    return ops.op_model("MIRROR_PAD", [ops.tensor(shape), pads], [ops.tensor(made)], options.MirrorPadOptions())


def typed_weights(value: tuple[DType, DType]) -> Model:
    model = changed(ops.conv(), 1, dtype=value[0], data=np.ones((8, 3, 3, 4), value[0].numpy))
    bias = DType.INT64 if value[1] is DType.INT16 else DType.INT32
    model = changed(model, 2, dtype=bias, data=np.zeros(8, bias.numpy), quantization=ops.quantization(0.25))
    return changed(changed(model, 0, dtype=value[1]), 3, dtype=value[1])


def with_zero_point(value: tuple[int, DType]) -> Model:
    quantization = ops.quantization(0.5, zero_point=value[0])
    return changed(ops.unary("RELU", dtype=value[1]), 1, quantization=quantization)


def lstm(
    *, part: int | None = None, exponent: int = -12, times: int = 2, weights: int | None = None, between: int = 5,
    units: int = 128, features: int = 128,
) -> Model:  # fmt: skip
    """An int8 cell; `part` is the position of an optional operand that it has, `weights` how many it has if not the usual."""
    entry, recurrent = ops.tensor((units, features), data=1), ops.tensor((units, units), data=1)
    bias = ops.tensor((units,), DType.INT32, data=0)
    operands: dict[int, Tensor] = {0: ops.tensor((1, times, features))}
    operands |= {**dict.fromkeys(range(1, 5), entry), **dict.fromkeys(range(5, 9), recurrent)}
    if weights is not None:
        operands |= {**dict.fromkeys(range(2, 9), ops.tensor((1, 1), data=1)), 1: ops.tensor((1, weights - 7))}
    operands |= dict.fromkeys(range(12, 16), bias)
    operands[18] = replace(ops.tensor((1, units)), is_variable=True)
    operands[19] = replace(ops.tensor((1, units), DType.INT16, scale=2.0**exponent), is_variable=True)
    if part is not None:
        operands[part] = ops.tensor((units,), data=1)
    made = options.UnidirectionalSequenceLSTMOptions(options.FusedActivation.TANH)
    inputs = [operands.get(position) for position in range(24)]
    model = ops.op_model("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [ops.tensor((1, times, units))], made)
    graph = model.graphs[0]
    hidden = tuple(range(len(graph.tensors), len(graph.tensors) + between))
    tensors = (*graph.tensors, *[ops.tensor((0,))] * between)
    variables = {index for index, tensor in enumerate(tensors) if tensor.is_variable}
    inputs_left = tuple(index for index in graph.inputs if index not in variables)
    op = replace(graph.ops[0], intermediates=hidden)
    return replace(model, graphs=(replace(graph, tensors=tensors, ops=(op,), inputs=inputs_left),))


def compared_to_truth(kind: str = "EQUAL", *, scales: tuple[float, float] = (0.5, 0.5), zero_point: int = 0) -> Model:
    sides = [ops.tensor(MAP, scale=scales[0]), ops.tensor(MAP, scale=scales[1], zero_point=zero_point)]
    return ops.op_model(kind, sides, [ops.tensor(MAP, DType.BOOL)])


def compared_with_symbols(count: int) -> Model:
    """Both sides have all values, or all but one of each."""
    return compared_to_truth(zero_point=count - 256)


def selected(kind: str = "SELECT_V2", *, condition: DType = DType.BOOL) -> Model:
    return ops.op_model(kind, [ops.tensor(MAP, condition), ops.tensor(MAP), ops.tensor(MAP)], [ops.tensor(MAP)])


CELL_PARTS = {(): None, ("peephole",): 9, ("projection",): 16, ("normalisation",): 20}

MINIMAL = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm(),
    **{kind: compared_to_truth(kind) for kind in RELATIONS},
    **{kind: ops.binary(kind, dtype=DType.BOOL) for kind in ("LOGICAL_AND", "LOGICAL_OR")},
    "LOGICAL_NOT": ops.unary("LOGICAL_NOT", dtype=DType.BOOL),
    **{kind: reduced(kind, dtype=DType.BOOL) for kind in ("REDUCE_ALL", "REDUCE_ANY")},
    **{kind: selected(kind) for kind in ("SELECT", "SELECT_V2")},
    "ARG_MAX": arg_max(),
    "BATCH_MATMUL": ops.op_model(
        "BATCH_MATMUL", [ops.tensor((1, 8, 4)), ops.tensor((1, 4, 5))], [ops.tensor((1, 8, 5))], options.BatchMatMulOptions()
    ),
    "ELU": ops.unary("ELU"),
    "EXP": ops.unary("EXP"),
    "GATHER": gathered(),
    "GELU": ops.op_model("GELU", [ops.tensor(MAP)], [ops.tensor(MAP)], options.GeluOptions()),
    "LOG": ops.unary("LOG"),
    **{kind: in_batches(kind) for kind in ("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND")},
    "MIRROR_PAD": mirrored(),
    "NEG": ops.unary("NEG"),
    "PRELU": slopes(),
    "REDUCE_MAX": reduced(),
    "REDUCE_MIN": reduced("REDUCE_MIN"),
    "RELU_0_TO_1": ops.unary("RELU_0_TO_1"),
    "RSQRT": ops.unary("RSQRT"),
    "SQUARED_DIFFERENCE": ops.binary("SQUARED_DIFFERENCE"),
    "SUM": mean(kind="SUM"),
    "REVERSE_V2": reversed_along(),
    "TILE": tiled(),
    "ABS": ops.unary("ABS"),
    "DEPTH_TO_SPACE": ops.op_model(
        "DEPTH_TO_SPACE", [ops.tensor(MAP)], [ops.tensor((1, 16, 16, 1))], options.DepthToSpaceOptions(2)
    ),
    "HARD_SWISH": ops.unary("HARD_SWISH"),
    "SPACE_TO_DEPTH": ops.op_model(
        "SPACE_TO_DEPTH", [ops.tensor(MAP)], [ops.tensor((1, 4, 4, 16))], options.SpaceToDepthOptions(2)
    ),
    "MEAN": mean(),
    "PADV2": padv2(),
    "TRANSPOSE": permuted(),
    "TRANSPOSE_CONV": transposed(),
    "EXPAND_DIMS": ops.op_model("EXPAND_DIMS", [ops.tensor((8, 4)), ops.constant(0)], [ops.tensor((1, 8, 4))]),
    "LEAKY_RELU": ops.unary("LEAKY_RELU"),
    "MAXIMUM": ops.binary("MAXIMUM"),
    "MINIMUM": ops.binary("MINIMUM"),
    "QUANTIZE": quantize(),
    "RESIZE_NEAREST_NEIGHBOR": ops.resize(kind="RESIZE_NEAREST_NEIGHBOR"),
    "SLICE": slice_model(),
    "SPLIT": split(),
    "SPLIT_V": split("SPLIT_V"),
    "SQUEEZE": ops.op_model("SQUEEZE", [ops.tensor(MAP)], [ops.tensor((8, 8, 4))], options.SqueezeOptions((0,))),
    "STRIDED_SLICE": strided_slice(),
    "UNPACK": unpack(),
}


SHARED = {
    "ADD": ops.binary("ADD"),
    "AVERAGE_POOL_2D": ops.pool(),
    "RELU": ops.unary("RELU"),
    "RESHAPE": ops.reshape(),
    "SOFTMAX": softmax(),
}


def test_every_added_operator_has_a_model_here() -> None:
    assert set(MINIMAL) == set(MORE_OPERATORS)


@pytest.mark.parametrize("kind", MORE_OPERATORS)
def test_every_added_operator_can_go_to_the_npu_and_not_in_v0_1(kind: str) -> None:
    assert violated(MINIMAL[kind]) == set()
    assert [v.rule for v in check(MINIMAL[kind], profile="v0.1").ops[0].violations] == ["V-T-3"]


# Every added limit on both sides


QUANTIZATIONS: dict[str, Quantization | None] = {
    "per tensor": ops.quantization(0.5),
    "none": None,
    "per channel": ops.quantization(0.5, 0.25),
}


def present(value: str) -> Model:
    return ops.unary("RELU") if value == "present" else ops.op_model("RELU", [None], [ops.tensor(MAP)])


def ranked(rank: int) -> Model:
    return ops.unary("RELU", (1,) * max(rank, 0))


def weighted(**changes: Any) -> Model:
    return changed(ops.conv(), 1, **changes)


def scale_count(value: tuple[int, int]) -> Model:
    return changed(ops.conv(out_channels=value[1]), 1, quantization=ops.quantization(*[0.5] * value[0]))


def filter_channels(value: tuple[int, int]) -> Model:
    return changed(transposed(weights=ops.tensor((8, 3, 3, value[0]), data=1)), 2, shape=(1, 8, 8, value[1]))


def joined(activation: str) -> Model:
    made = options.ConcatenationOptions(3, options.FusedActivation[activation])
    return ops.op_model("CONCATENATION", [ops.tensor(MAP), ops.tensor(MAP)], [ops.tensor((1, 8, 8, 8))], made)


def added_words(activation: str) -> Model:
    words = [ops.tensor(MAP, DType.INT32) for _ in range(3)]
    return ops.op_model("ADD", words[:2], words[2:], options.AddOptions(options.FusedActivation[activation]))


def factor(value: float) -> Model:
    scales = np.array([value * 0.5], np.float64)
    return changed(ops.unary("RELU"), 0, quantization=Quantization(scales, np.zeros(1, np.int64)))


def nearest(value: tuple[tuple[int, int], tuple[int, int], bool]) -> Model:
    return ops.resize(value[0], value[1], kind="RESIZE_NEAREST_NEIGHBOR", align_corners=value[2])


def _summing(value: tuple[int, int]) -> Model:
    """A convolution of 36 times -1 whose bias makes up the rest of a sum."""
    largest, room = value
    dtype, reach, bias = (DType.INT8, 128, DType.INT32) if room == 1 << 31 else (DType.INT16, 32768, DType.INT64)
    weights = ops.tensor((8, 3, 3, 4), DType.INT8, data=-1, scale=1e-6)
    return ops.conv(dtype=dtype, weights=weights, bias=ops.tensor((8,), bias, data=largest - 36 * reach))


MAKERS: dict[str, Callable[[Any], Model]] = {
    "N-GEN-1": present,
    "N-GEN-2": lambda v: changed(ops.unary("RELU"), 0, quantization=QUANTIZATIONS[v]),
    "N-GEN-3": with_zero_point,
    "N-GEN-4": ranked,
    "N-GEN-7": lambda v: ops.unary("RELU", (1, 2, v, 4)),
    "N-GEN-5": factor,
    "N-GEN-6": lambda v: changed(changed(ops.pool(), 0, shape=(1,) * max(v, 0)), 1, shape=(1,) * max(v, 0)),
    "N-ACT-1": lambda v: ops.conv(activation=options.FusedActivation[v]),
    "N-ACT-2": added_words,
    "N-WIN-1": lambda v: ops.conv(ifm=(1, 2, 2, v), kernel=(1, 1), out_channels=1),
    "N-OPT-1": lambda v: unpack(attributes=v == "present"),
    "N-W-1": lambda v: weighted(quantization=ops.quantization(0.5) if v == "positive scales" else None),
    "N-W-2": lambda v: weighted(quantization=ops.quantization(0.5, zero_point=v)),
    "N-W-8": _summing,
    "N-W-3": lambda v: ops.conv(bias=ops.tensor((8,), DType.INT32, data=0 if v == "constant" else None)),
    "N-W-4": scale_count,
    "N-W-7": typed_weights,
    "N-CONV-1": filter_channels,
    "N-BMM-1": lambda v: product(v),
    "N-BMM-2": lambda v: product("int16, constant int8", v),
    "N-CAT-1": joined,
    "N-PAD-1": lambda v: ops.pad(is_constant=v == "constant"),
    "N-PAD-2": lambda v: ops.pad(((0, 0), (v, 0), (0, 0), (0, 0))),
    "N-PAD-3": paddings,
    "N-PAD-5": lambda v: ops.pad(table_type=v),
    "N-PAD-6": lambda v: padv2(fixed=v == "constant"),
    "N-MEAN-1": lambda v: mean(fixed=v == "constant"),
    "N-MEAN-2": lambda v: mean(v[1], v[0]),
    "N-MEAN-4": lambda v: mean((2,), (1, 2, v, 2)),
    "N-TC-1": lambda v: transposed((v, 1)),
    "N-TC-2": lambda v: transposed(kernel=(v, 3)),
    "N-TC-3": lambda v: transposed((1, 1), size=v),
    "N-TC-4": lambda v: transposed(shape=v),
    "N-TC-5": lambda v: transposed(weights=ops.tensor((8, 3, 3, 4), v, data=1)),
    "N-TC-6": lambda v: transposed(values=v),
    "N-TC-7": transposed_sum,
    "N-TC-8": lambda v: transposed(bias=v),
    "N-TC-9": lambda v: transposed(batch=v),
    "N-TR-1": lambda v: permuted(fixed=v),
    "N-TR-2": lambda v: permuted(order_type=v),
    "N-TR-3": lambda v: permuted(tuple(reversed(range(v))), (2,) * v),
    "N-TR-4": lambda v: permuted((v, *(axis for axis in range(6) if axis != v))[:6], (1,) * 6, made=(1,) * 6),
    "N-TR-6": lambda v: permuted(zero_points=v),
    "N-TR-7": permuted_in_copies,
    "N-GATHER-1": lambda v: gathered(fixed=v == "constant"),
    "N-GATHER-2": lambda v: gathered((v[0],), (1, v[1], 4)),
    "N-GATHER-3": lambda v: gathered(((0, 4),), batch=v),
    "N-GATHER-4": gathered_in_parts,
    "N-GATHER-5": lambda v: gathered(((1, 2),), (1, v, 4), 2, fixed=False, batch=1),
    "N-GATHER-6": lambda v: gathered(dtype=v, fixed=False),
    "N-SLICE-1": lambda v: slice_model(size=v == "constant"),
    "N-SS-1": lambda v: strided_slice(fixed=v),
    "N-SS-2": lambda v: strided_slice(stride=v),
    "N-SPLIT-1": lambda v: split(fixed=v),
    "N-SPLIT-2": lambda v: split("SPLIT_V", fixed=v),
    "N-RSZ-1": lambda v: ops.resize(size_constant=v == "constant"),
    "N-RSZ-2": lambda v: ops.resize(v[0], v[1], align_corners=v[2]),
    "N-CMP-1": compared_with_symbols,
    "N-CMP-2": lambda v: compared_to_truth("LESS", scales=(v, 0.3)),
    "N-SEL-1": lambda v: selected(condition=v),
    "N-SM-1": softmax,
    "N-SM-2": lambda v: softmax(beta=v),
    "N-SM-3": lambda v: softmax(beta=8.0, shape=(1, 2, v)),  # sums of more than 4096 leave LiteRT's 12 bits
    "N-NN-1": nearest,
    "N-PRELU-1": lambda v: slopes(fixed=v == "constant"),
    "N-PRELU-2": slopes,
    "N-ARG-1": lambda v: arg_max(fixed=v == "constant"),
    "N-ARG-2": arg_max,
    "N-ARG-3": lambda v: arg_max(depth=v),
    "N-LSTM-1": lambda v: lstm(part=CELL_PARTS[v]),
    "N-LSTM-2": lambda v: lstm(exponent=v),
    "N-LSTM-3": lambda v: lstm(times=v),
    "N-LSTM-4": lambda v: lstm(between=v),
    "N-LSTM-5": lambda v: lstm(units=32, features=80) if v == 14336 else lstm(weights=v),
    "N-QUANT-1": lambda v: changed(quantize(DType.INT32), 0, quantization=ops.quantization(0.25 * v)),
    "N-QUANT-2": widened,
    "N-QUANT-3": lambda v: widened(shape=(1, 1, 1, v)),
    "N-RED-1": lambda v: reduced(fixed=v == "constant"),
    "N-RED-2": compared,
    "N-REV-1": lambda v: reversed_along(fixed=v == "constant"),
    "N-REV-2": lambda v: reversed_along((v,)),
    "N-TILE-1": lambda v: tiled(fixed=v == "constant"),
    "N-BATCH-1": lambda v: in_batches(fixed=v == "constant"),
    "N-MIR-1": lambda v: mirrored(fixed=v == "constant"),
    "N-MIR-2": lambda v: mirrored(((0, 0),) * v[0]),
    "N-MIR-4": lambda v: mirrored(((0, 0), (v, 0), (0, 0), (0, 0))),
    **{
        rule.id: (lambda value, kinds=rule.operators: typed(kinds, value)) for rule in HARDWARE if rule.id.startswith("N-TYPE-")
    },
}


def test_every_added_rule_has_a_boundary_test() -> None:
    assert set(MAKERS) == {rule.id for rule in HARDWARE}


BOUNDARIES = [
    pytest.param(rule, value, accepted, id=f"{rule.id}-{value}-{accepted}")
    for rule in HARDWARE
    for value, accepted in rule.limit.boundaries
    if not (rule.id in ("N-GEN-4", "N-GEN-6") and value == -1)
]


@pytest.mark.parametrize(("rule", "value", "accepted"), BOUNDARIES)
def test_a_limit_accepts_inside_and_refuses_outside(rule: Rule, value: Any, accepted: bool) -> None:
    assert (rule.id not in violated(MAKERS[rule.id](value))) is accepted


# The variant


def test_the_message_names_the_limit_of_the_target() -> None:
    for target, least in (("ethos-u55-32", 45056), ("ethos-u65-512", 6208)):
        violations = check(lstm(weights=1000), variant=load_variant(target)).ops[0].violations
        (message,) = [violation.message for violation in violations if violation.rule == "N-LSTM-5"]
        assert f"weights of the gates must be at least {least}, " in message


def totals_on_npu_and_cpu(model: Model, identifier: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Total cycles of a model whose operators meet the lower bound of a rule, and do not."""
    limit_for, content, cycles = Rule.limit_for, write_model(model), []
    for limit in (AtLeast(0), AtLeast(1 << 31)):
        monkeypatch.setattr(Rule, "limit_for", lambda r, v, own=limit: own if r.id == identifier else limit_for(r, v))
        compiled = npu.compile(content, session=session)
        cycles.append(npu.time_model(compiled.content, session=session).report.totals.total_cycles)
    monkeypatch.undo()
    return cycles


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256"])
def test_a_cell_is_placed_where_it_takes_fewer_cycles(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of half of the weights that are the least, and of twice as many, on the NPU and on the CPU."""
    session = Session(Hardware(target))
    (rule,) = (rule for rule in PROFILE.rules if rule.id == "N-LSTM-5")
    least = next(count for count in range(1 << 16) if rule.limit_for(session.variant).accepts(count))
    for units, is_placed in ((math.isqrt(least // 16), False), (math.isqrt(least // 4), True)):
        cell = lstm(units=units, features=units, times=16)
        on_npu, on_cpu = totals_on_npu_and_cpu(cell, rule.id, session, monkeypatch)
        assert (on_npu < on_cpu) is is_placed


@pytest.mark.parametrize("target", ["ethos-u65-256", "ethos-u85-256", "ethos-u85-1024"])
def test_int32_is_made_where_it_takes_fewer_cycles(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half and twice as many elements as are the least, behind an ADD; Ethos-U55, left out, would gain from 4 on."""
    session = Session(Hardware(target))
    for count, is_placed in ((8, False), (32, True)):
        x, y = (ops.tensor((1, 1, 1, count), DType.INT16, scale=0.25) for _ in range(2))
        z = ops.tensor((1, 1, 1, count), DType.INT32, scale=0.125)
        double = Op("ADD", (0, 0), (1,), options.AddOptions())
        made = Model((Graph("main", (x, y, z), (double, Op("QUANTIZE", (1,), (2,), options.QuantizeOptions())), (0,), (2,)),))
        on_npu, on_cpu = totals_on_npu_and_cpu(made, "N-QUANT-3", session, monkeypatch)
        assert (on_npu < on_cpu) is is_placed


# Named cases

CASES: dict[str, tuple[Model, set[str]]] = {
    "float_quantize": (quantize(DType.FLOAT32), {"N-TYPE-QUANTIZE", "N-GEN-2"}),
    "zero_scale": (changed(ops.unary("RELU"), 0, quantization=ops.quantization(0.0)), {"N-GEN-2"}),
    "infinite_scale": (changed(ops.unary("RELU"), 0, quantization=ops.quantization(float("inf"))), {"N-GEN-2", "N-GEN-5"}),
    "negative_weight_scale": (weighted(quantization=ops.quantization(-0.5)), {"N-W-1"}),
    "no_inputs": (ops.op_model("CONV_2D", [], [ops.tensor(MAP)], options.Conv2DOptions()),
                  {"N-GEN-1", "N-W-1", "V-CONV-1", "V-CONV-3", "V-CONV-4", "V-CONV-5", "V-CONV-6", "V-CONV-9"}),
    "rank_7": (ops.unary("RELU", (1, 1, 1, 1, 1, 1, 1)), {"N-GEN-4"}),
    "reshape_to_rank_5": (ops.op_model("RESHAPE", [ops.tensor(MAP), ops.constant((1, 4, 2, 8, 4))],
                                       [ops.tensor((1, 4, 2, 8, 4))], options.ReshapeOptions()), set()),
    "global_pool_with_its_own_stride": (ops.pool(window=(8, 8), stride=(8, 8)), set()),
    "row_pool_with_wide_stride": (ops.pool(window=(8, 1), stride=(8, 4)), set()),
    "global_convolution_with_its_own_stride": (ops.conv(kernel=(8, 8), stride=(8, 8)), set()),
    "wide_window_with_padding": (ops.pool(kind="MAX_POOL_2D", ifm=(1, 8, 65535, 1), window=(1, 2)), set()),
    "resize_with_half_pixels_by_8": (ops.resize((3, 4), (24, 32), half_pixel_centers=True), set()),
    "resize_of_a_row_by_3": (ops.resize((1, 4), (1, 12)), {"N-RSZ-2"}),
    "resize_without_options": (ops.op_model("RESIZE_BILINEAR", [ops.tensor(MAP), ops.constant((8, 8))], [ops.tensor(MAP)]),
                               {"N-RSZ-2"}),
    "nearest_with_half_pixels": (ops.resize(kind="RESIZE_NEAREST_NEIGHBOR", half_pixel_centers=True), set()),
    "pad_of_channels": (ops.pad(((0, 0), (0, 0), (0, 0), (0, 3))), set()),
    "pad_with_int64": (ops.pad(table_type=DType.INT64), set()),
    "mean_over_negative_axes": (mean((-3, -2)), set()),
    "mean_over_rows_of_rank_2": (mean((0,), (8, 4)), set()),
    "transposed_valid": (transposed(padding=options.Padding.VALID, size=(17, 17)), set()),
    "transposed_valid_of_another_size": (transposed(padding=options.Padding.VALID, size=(16, 16)), {"N-TC-3"}),
    "permutation_without_order": (ops.unary("TRANSPOSE"), {"N-TR-1", "N-TR-2"}),
    "permutation_of_another_scale": (changed(permuted(), 0, quantization=ops.quantization(0.25)), {"N-TR-6"}),
    "permutation_of_rank_6": (permuted((5, 3, 1, 0, 2, 4), (2, 3, 4, 5, 6, 7)), set()),
    "permutation_of_nothing": (permuted((1, 0, 2), (3, 0, 2)), {"N-GEN-7"}),
    "permutation_that_moves_nothing": (permuted((2, 0, 3, 1), (1, 1, 5, 1)), set()),
    "permutation_of_uint8": (changed(changed(permuted(), 0, dtype=DType.UINT8), 2, dtype=DType.UINT8), set()),
    "permutation_in_many_copies": (permuted_in_copies(1025), {"N-TR-7"}),
    "gather_without_indices": (ops.unary("GATHER"), {"N-GATHER-1"}),
    "gather_from_behind_the_end": (gathered((7, 8)), {"N-GATHER-2"}),
    "gather_counted_from_the_end": (gathered((-1, -2)), {"N-GATHER-2"}),
    "gather_of_no_index": (gathered(()), {"N-GEN-7"}),
    "gather_of_batches_counted_from_the_end": (gathered(((0, 4),), batch=-2), set()),
    "gather_of_one_index": (gathered(3), set()),
    "gather_of_int16_indices": (gathered(dtype=DType.INT16), set()),
    "gather_of_another_scale": (changed(gathered(), 0, quantization=ops.quantization(float(1 << 20))), set()),
    "gather_of_many_channels": (gathered(tuple(reversed(range(33))), (1, 2, 2, 33), 3), {"N-GATHER-4"}),
    "operator_that_is_not_lowered": (ops.unary("SIN"), {"N-LIST"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_exactly_the_broken_limits_are_named(case: str) -> None:
    model, expected = CASES[case]
    assert violated(model) == expected


def test_a_tensor_without_zero_point_counts_as_zero() -> None:
    quantized = Quantization(np.array([0.5], np.float32), np.zeros(0, np.int64))
    assert violated(changed(ops.unary("RELU"), 0, quantization=quantized)) == set()


def with_factor(model: Model, factor: float) -> Model:
    """The model with input scales that are `factor` times the output's."""
    op, graph = model.graphs[0].ops[0], model.graphs[0]
    scale = graph.tensors[op.outputs[0]].quantization.scale * factor  # type: ignore[union-attr]
    for index in op.inputs:
        if index >= 0 and graph.tensors[index].data is None:
            model = changed(model, index, quantization=ops.quantization(scale))
    return model


FREE_FACTORS = {
    **{kind: MINIMAL[kind] for kind in NOT_RESCALED if kind in MINIMAL},
    "AVERAGE_POOL_2D": ops.pool(),
    "MAX_POOL_2D": ops.pool(kind="MAX_POOL_2D"),
    "LOGISTIC": changed(ops.unary("LOGISTIC"), 1, quantization=ops.quantization(1 / 256, zero_point=-128)),
    "TANH": ops.unary("TANH"),
    "PAD": ops.pad(),
    "RESHAPE": ops.op_model("RESHAPE", [ops.tensor(MAP), ops.constant((8, 32))], [ops.tensor((8, 32))]),
    "RESIZE_BILINEAR": ops.resize(),
    "SOFTMAX": softmax(),
}


def test_every_operator_without_a_factor_has_a_model_here() -> None:
    assert set(FREE_FACTORS) == set(NOT_RESCALED)


def test_the_scale_of_a_softmax_may_be_a_thousandth_off() -> None:
    """As LiteRT's kernel has it, which writes the same bytes for either."""
    assert violated(softmax(("int8", 1.0009 / 256, -128))) == set()
    assert violated(softmax(("int8", 1.0011 / 256, -128))) == {"N-SM-1"}


@pytest.mark.parametrize("kind", NOT_RESCALED)
def test_operators_that_rescale_nothing_may_have_any_factor(kind: str) -> None:
    assert violated(with_factor(FREE_FACTORS[kind], 2.0**28)) == set()


def test_a_scalar_is_no_obstacle() -> None:
    second = Tensor("s", (), DType.INT8, ops.quantization(0.5), np.array(3, np.int8))
    model = ops.op_model("MUL", [ops.tensor(MAP), second], [ops.tensor(MAP)], options.MulOptions())
    assert violated(model) == set()
