"""Profile xnnpack: every lettered row accepted and refused once, and the delegate's switches."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from constraints.checker import check
from constraints.xnnpack import FLOAT, QUANTIZED, XnnpackSwitches, xnnpack_profile
from npu.graph import attributes as options
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.graph.placement import Device

from tests.support import single_ops as ops
from tests.support.single_ops import changed

F32, INT8, UINT8, INT16 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16
ALL_ON = xnnpack_profile(XnnpackSwitches(qs8=True, qu8=True, variables=True))
MAP = (1, 8, 8, 4)

# The lettered rows: operator -> number of letters.
FLOAT_ROWS = {
    "ABS": 1, "ADD": 3, "AVERAGE_POOL_2D": 3, "CEIL": 1, "CONCATENATION": 2, "CONV_2D": 4, "DEPTH_TO_SPACE": 2,
    "DEPTHWISE_CONV_2D": 4, "DIV": 2, "ELU": 1, "FULLY_CONNECTED": 3, "FLOOR": 1, "HARD_SWISH": 1, "LEAKY_RELU": 1,
    "LOGISTIC": 1, "MAX_POOL_2D": 3, "MAXIMUM": 1, "MEAN": 4, "MINIMUM": 1, "MUL": 2, "NEG": 1, "PAD": 3, "PRELU": 3,
    "RELU": 1, "RELU6": 1, "RELU_N1_TO_1": 1, "RESHAPE": 2, "RESIZE_BILINEAR": 3, "ROUND": 1, "SLICE": 2, "SOFTMAX": 2,
    "SPACE_TO_DEPTH": 2, "SPLIT": 2, "SQRT": 1, "SQUARE": 1, "SQUARED_DIFFERENCE": 1, "STRIDED_SLICE": 4, "SUB": 2,
    "TANH": 1, "TRANSPOSE": 2, "TRANSPOSE_CONV": 3,
}  # fmt: skip
QUANTIZED_ROWS = {
    "ADD": 3, "CONCATENATION": 2, "CONV_2D": 5, "DEPTH_TO_SPACE": 2, "DEPTHWISE_CONV_2D": 5, "DEQUANTIZE": 2, "ELU": 1,
    "FULLY_CONNECTED": 3, "LEAKY_RELU": 3, "LOGISTIC": 1, "MAX_POOL_2D": 3, "MEAN": 3, "MUL": 2, "PAD": 3, "QUANTIZE": 4,
    "RESHAPE": 2, "RESIZE_BILINEAR": 2, "SLICE": 2, "SPACE_TO_DEPTH": 2, "SPLIT": 2, "SUB": 2, "TANH": 1, "TRANSPOSE": 2,
    "TRANSPOSE_CONV": 2,
}  # fmt: skip


def violated(model: Model, profile: Any = ALL_ON) -> set[str]:
    return {violation.rule for violation in check(model, profile=profile).ops[0].violations}


def computed(model: Model, position: int) -> Model:
    return changed(model, position, data=None)


def retyped(model: Model, position: int, dtype: DType) -> Model:
    return changed(model, position, dtype=dtype)


def unscaled(model: Model, position: int) -> Model:
    return changed(model, position, quantization=None)


# Models, float or quantized by `dtype`


def block(kind: str, dtype: DType, size: int = 2) -> Model:
    maker = options.DepthToSpaceOptions if kind == "DEPTH_TO_SPACE" else options.SpaceToDepthOptions
    return ops.op_model(kind, [ops.tensor(MAP, dtype)], [ops.tensor(MAP, dtype)], maker(size))


def mean(dtype: DType, axes: Iterable[int] = (1, 2), shape: tuple[int, ...] = MAP) -> Model:
    ofm = ops.tensor((1, 1, 1, 4)[: len(shape)], dtype)
    return ops.op_model("MEAN", [ops.tensor(shape, dtype), ops.constant(list(axes))], [ofm], options.ReducerOptions(True))


def prelu(slope: tuple[int, ...] = (4,)) -> Model:
    return ops.op_model("PRELU", [ops.tensor(MAP, F32), ops.tensor(slope, F32, data=0.5)], [ops.tensor(MAP, F32)])


def cut(dtype: DType) -> Model:
    bounds = [ops.constant((0, 1, 1, 0)), ops.constant((1, 4, 4, 4))]
    return ops.op_model("SLICE", [ops.tensor(MAP, dtype), *bounds], [ops.tensor((1, 4, 4, 4), dtype)])


def strided(stride: int = 1, mask: int = 0) -> Model:
    bounds = [ops.constant((0, 0, 0, 0)), ops.constant((1, 4, 4, 4)), ops.constant((1, 1, 1, stride))]
    made = options.StridedSliceOptions(0, 0, mask, 0, 0)
    return ops.op_model("STRIDED_SLICE", [ops.tensor(MAP, F32), *bounds], [ops.tensor((1, 4, 4, 4), F32)], made)


def softmax(beta: float = 1.0) -> Model:
    return ops.op_model("SOFTMAX", [ops.tensor(MAP, F32)], [ops.tensor(MAP, F32)], options.SoftmaxOptions(beta))


def split(dtype: DType, count: int = 2) -> Model:
    outputs = [ops.tensor((1, 8, 8, 1), dtype) for _ in range(count)]
    return ops.op_model("SPLIT", [ops.constant(3), ops.tensor((1, 8, 8, count), dtype)], outputs, options.SplitOptions(count))


def transpose(dtype: DType) -> Model:
    order = ops.constant((0, 2, 1, 3))
    return ops.op_model("TRANSPOSE", [ops.tensor(MAP, dtype), order], [ops.tensor(MAP, dtype)], options.TransposeOptions())


def transpose_conv(dtype: DType, bias: bool = True) -> Model:
    bias_type = F32 if dtype is F32 else DType.INT32
    inputs = [ops.constant((1, 16, 16, 8)), ops.tensor((8, 2, 2, 4), dtype, data=1), ops.tensor(MAP, dtype)]
    last = ops.tensor((8,), bias_type, data=0) if bias else None
    return ops.op_model("TRANSPOSE_CONV", [*inputs, last], [ops.tensor((1, 16, 16, 8), dtype)], options.TransposeConvOptions())


def three_operands(dtype: DType) -> Model:
    return ops.op_model("ADD", [ops.tensor(MAP, dtype)] * 3, [ops.tensor(MAP, dtype)], options.AddOptions())


def leaky(input_scale: float, output_scale: float, alpha: float) -> Model:
    ifm, ofm = ops.tensor(MAP, scale=input_scale), ops.tensor(MAP, scale=output_scale)
    return ops.op_model("LEAKY_RELU", [ifm], [ofm], options.LeakyReluOptions(alpha))


def quantize(source: DType = INT8, target: DType = INT8, input_scale: float = 0.5, output_scale: float = 0.5) -> Model:
    ifm, ofm = ops.tensor(MAP, source, scale=input_scale), ops.tensor(MAP, target, scale=output_scale)
    return ops.op_model("QUANTIZE", [ifm], [ofm], options.QuantizeOptions())


def dequantize() -> Model:
    return ops.op_model("DEQUANTIZE", [ops.tensor(MAP)], [ops.tensor(MAP, F32)], options.DequantizeOptions())


TANH, SIGN_BIT = FusedActivation.TANH, FusedActivation.SIGN_BIT
PER_CHANNEL = ops.quantization(0.5, 0.25, 0.5, 0.25)
UNARY = (
    "ABS", "CEIL", "ELU", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "ROUND",
    "SQRT", "SQUARE", "TANH",
)  # fmt: skip
ARITHMETIC = ("DIV", "MUL", "SUB")
CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
Rows = dict[tuple[str, str], tuple[Model, Model]]


def shared_rows(prefix: str, dtype: DType) -> Rows:
    """Rows that float and quantized operators share: (operator, letter) -> (accepted, refused)."""
    wrong = DType.FLOAT16 if dtype is F32 else INT16
    act = "d" if prefix == "X-F" else "e"
    rows: Rows = {}
    for kind in ("MUL", "SUB"):
        rows[kind, "a"] = (ops.binary(kind, dtype=dtype), retyped(ops.binary(kind, dtype=dtype), 1, wrong))
        rows[kind, "b"] = (
            ops.binary(kind, dtype=dtype, activation=FusedActivation.RELU6),
            ops.binary(kind, dtype=dtype, activation=TANH),
        )
    for kind in CONVOLUTIONS:
        good = ops.conv(kind=kind, dtype=dtype)
        rows[kind, "a"] = (good, retyped(good, 3, wrong))
        rows[kind, "b"] = (good, ops.conv(kind=kind, dtype=dtype, bias=None))
        rows[kind, "c"] = (good, computed(good, 2))
        rows[kind, act] = (
            ops.conv(kind=kind, dtype=dtype, activation=FusedActivation.RELU_N1_TO_1),
            ops.conv(kind=kind, dtype=dtype, activation=SIGN_BIT),
        )
    for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"):
        rows[kind, "a"] = (block(kind, dtype), retyped(block(kind, dtype), 1, wrong))
        rows[kind, "b"] = (block(kind, dtype, 2), block(kind, dtype, 1))
    pool = "MAX_POOL_2D"
    rows[pool, "a"] = (ops.pool(kind=pool, dtype=dtype), retyped(ops.pool(kind=pool, dtype=dtype), 1, wrong))
    rows[pool, "b"] = (
        ops.pool(kind=pool, dtype=dtype, window=(1, 1)),
        ops.pool(kind=pool, dtype=dtype, window=(1, 1), stride=(2, 2)),
    )
    rows[pool, "c"] = (
        ops.pool(kind=pool, dtype=dtype, activation=FusedActivation.RELU),
        ops.pool(kind=pool, dtype=dtype, activation=TANH),
    )
    dense = ops.fully_connected(dtype=dtype)
    return rows | {
        ("ADD", "a"): (ops.binary("ADD", dtype=dtype), retyped(ops.binary("ADD", dtype=dtype), 2, wrong)),
        ("ADD", "b"): (ops.binary("ADD", dtype=dtype), three_operands(dtype)),
        ("ADD", "c"): (ops.binary("ADD", dtype=dtype), ops.binary("ADD", dtype=dtype, activation=SIGN_BIT)),
        ("CONCATENATION", "a"): (ops.join(dtype=dtype), retyped(ops.join(dtype=dtype), 1, wrong)),
        ("CONCATENATION", "b"): (ops.join(count=4, dtype=dtype), ops.join(count=5, dtype=dtype)),
        ("FULLY_CONNECTED", "a"): (dense, retyped(dense, 3, wrong)),
        ("FULLY_CONNECTED", "b"): (ops.fully_connected(dtype=dtype, bias=None), computed(dense, 1)),
        ("FULLY_CONNECTED", "c"): (dense, ops.fully_connected(dtype=dtype, activation=TANH)),
        ("PAD", "a"): (ops.pad(dtype=dtype), retyped(ops.pad(dtype=dtype), 2, wrong)),
        ("PAD", "b"): (ops.pad(dtype=dtype), ops.pad(dtype=dtype, is_constant=False)),
        ("PAD", "c"): (ops.pad(dtype=dtype), ops.pad(((0, 0), (-1, 0), (0, 0), (0, 0)), dtype=dtype)),
        ("RESHAPE", "a"): (ops.reshape(dtype=dtype), retyped(ops.reshape(dtype=dtype), 2, wrong)),
        ("RESHAPE", "b"): (ops.reshape(dtype=dtype, shape="options"), ops.reshape(dtype=dtype, shape="computed")),
        ("SLICE", "a"): (cut(dtype), retyped(cut(dtype), 3, wrong)),
        ("SLICE", "b"): (cut(dtype), computed(cut(dtype), 2)),
        ("SPLIT", "a"): (split(dtype), retyped(split(dtype), 2, wrong)),
        ("SPLIT", "b"): (split(dtype, 4), split(dtype, 5)),
        ("TANH", "a"): (ops.unary("TANH", dtype=dtype), retyped(ops.unary("TANH", dtype=dtype), 1, wrong)),
        ("LOGISTIC", "a"): (ops.unary("LOGISTIC", dtype=dtype), retyped(ops.unary("LOGISTIC", dtype=dtype), 1, wrong)),
        ("TRANSPOSE", "a"): (transpose(dtype), retyped(transpose(dtype), 2, wrong)),
        ("TRANSPOSE", "b"): (transpose(dtype), computed(transpose(dtype), 1)),
    }


def float_rows() -> Rows:
    rows = shared_rows("X-F", F32)
    for kind in UNARY:
        rows[kind, "a"] = (ops.unary(kind, dtype=F32), retyped(ops.unary(kind, dtype=F32), 1, DType.FLOAT16))
    for kind in (*ARITHMETIC, "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
        rows[kind, "a"] = (ops.binary(kind, dtype=F32), retyped(ops.binary(kind, dtype=F32), 1, DType.INT32))
    rows["DIV", "b"] = (ops.binary("DIV", dtype=F32), ops.binary("DIV", dtype=F32, activation=TANH))
    average = "AVERAGE_POOL_2D"
    return rows | {
        (average, "a"): (ops.pool(dtype=F32), retyped(ops.pool(dtype=F32), 0, DType.FLOAT16)),
        (average, "b"): (ops.pool(dtype=F32, window=(1, 2), stride=(2, 2)), ops.pool(dtype=F32, window=(1, 1), stride=(1, 2))),
        (average, "c"): (ops.pool(dtype=F32), ops.pool(dtype=F32, activation=SIGN_BIT)),
        ("MEAN", "a"): (mean(F32), retyped(mean(F32), 2, DType.FLOAT16)),
        ("MEAN", "b"): (mean(F32), mean(F32, shape=(8, 8, 4))),
        ("MEAN", "c"): (mean(F32), computed(mean(F32), 1)),
        ("MEAN", "d"): (mean(F32, (2, 1)), mean(F32, (1,))),
        ("PRELU", "a"): (prelu(), retyped(prelu(), 1, DType.FLOAT16)),
        ("PRELU", "b"): (prelu(), computed(prelu(), 1)),
        ("PRELU", "c"): (prelu((1, 1, 4)), prelu((8, 8, 4))),
        ("RESIZE_BILINEAR", "a"): (ops.resize(dtype=F32), retyped(ops.resize(dtype=F32), 2, DType.FLOAT16)),
        ("RESIZE_BILINEAR", "b"): (ops.resize(dtype=F32), ops.resize(dtype=F32, rank=3)),
        ("RESIZE_BILINEAR", "c"): (ops.resize(dtype=F32), ops.resize(dtype=F32, size_constant=False)),
        ("SOFTMAX", "a"): (softmax(), retyped(softmax(), 1, DType.FLOAT16)),
        ("SOFTMAX", "b"): (softmax(1.0), softmax(0.5)),
        ("STRIDED_SLICE", "a"): (strided(), retyped(strided(), 4, DType.FLOAT16)),
        ("STRIDED_SLICE", "b"): (strided(), computed(strided(), 2)),
        ("STRIDED_SLICE", "c"): (strided(), strided(stride=2)),
        ("STRIDED_SLICE", "d"): (strided(), strided(mask=1)),
        ("TRANSPOSE_CONV", "a"): (transpose_conv(F32), retyped(transpose_conv(F32), 4, DType.FLOAT16)),
        ("TRANSPOSE_CONV", "c"): (transpose_conv(F32), computed(transpose_conv(F32), 0)),
    }


def quantized_rows(dtype: DType) -> Rows:
    rows = shared_rows("X-Q", dtype)
    for kind in CONVOLUTIONS:
        good = ops.conv(kind=kind, dtype=dtype)
        rows[kind, "d"] = (changed(good, 1, quantization=PER_CHANNEL), unscaled(good, 1))
    resize = ops.resize(dtype=dtype)
    return rows | {
        ("DEQUANTIZE", "a"): (dequantize(), changed(dequantize(), 0, quantization=PER_CHANNEL)),
        ("DEQUANTIZE", "b"): (dequantize(), retyped(dequantize(), 1, DType.FLOAT16)),
        ("ELU", "a"): (ops.unary("ELU"), ops.unary("ELU", dtype=UINT8)),
        ("LEAKY_RELU", "a"): (leaky(1.0, 1.0, 0.5), unscaled(leaky(1.0, 1.0, 0.5), 1)),
        ("LEAKY_RELU", "b"): (leaky(128.0, 1.0, 0.5), leaky(129.0, 1.0, 0.5)),
        ("LEAKY_RELU", "c"): (leaky(1.0, 1.0, -127.99609375), leaky(1.0, 1.0, -128.0)),
        ("MEAN", "a"): (mean(dtype), mean(dtype, shape=(8, 8, 4))),
        ("MEAN", "b"): (mean(dtype), computed(mean(dtype), 1)),
        ("MEAN", "c"): (mean(dtype, (2,)), mean(dtype, (3,))),
        ("QUANTIZE", "a"): (quantize(F32), quantize(INT16)),
        ("QUANTIZE", "b"): (quantize(), changed(quantize(), 1, quantization=PER_CHANNEL)),
        ("QUANTIZE", "c"): (quantize(UINT8, UINT8), quantize(UINT8, INT8)),
        ("QUANTIZE", "d"): (quantize(input_scale=128.0, output_scale=1.0), quantize(input_scale=129.0, output_scale=1.0)),
        ("RESIZE_BILINEAR", "a"): (resize, ops.resize(dtype=dtype, rank=3)),
        ("RESIZE_BILINEAR", "b"): (resize, ops.resize(dtype=dtype, size_constant=False)),
        ("TRANSPOSE_CONV", "a"): (transpose_conv(dtype, bias=False), retyped(transpose_conv(dtype), 3, INT16)),
        ("TRANSPOSE_CONV", "b"): (transpose_conv(dtype), computed(transpose_conv(dtype), 1)),
    }


ROWS = {
    **{("X-F", *key): models for key, models in float_rows().items()},
    **{("X-Q", *key): models for key, models in quantized_rows(INT8).items()},
}
# The one letter that only allows: a bias may be left out.
PERMISSIVE = {("X-F", "TRANSPOSE_CONV", "b")}


def test_the_operators_and_letters_are_those_of_the_delegate_s_document() -> None:
    assert {kind: len(rules) for kind, rules in FLOAT.items()} == FLOAT_ROWS
    assert {kind: len(rules) for kind, rules in QUANTIZED.items()} == QUANTIZED_ROWS
    assert (len(FLOAT_ROWS), len(QUANTIZED_ROWS)) == (41, 24)


def test_every_lettered_row_is_tested() -> None:
    letters = {
        (prefix, kind, letter)
        for prefix, table in (("X-F", FLOAT_ROWS), ("X-Q", QUANTIZED_ROWS))
        for kind, count in table.items()
        for letter in string.ascii_lowercase[:count]
    }
    assert set(ROWS) == letters - PERMISSIVE


CASES = [pytest.param(*key, marks=pytest.mark.seed(f"{key[0]}-{key[1]}", key[2]), id="-".join(key)) for key in sorted(ROWS)]


@pytest.mark.parametrize(("prefix", "kind", "letter"), CASES)
def test_a_lettered_row_accepts_one_model_and_refuses_another(prefix: str, kind: str, letter: str) -> None:
    accepted, refused = ROWS[prefix, kind, letter]
    assert violated(accepted) == set()
    assert f"{prefix}-{kind}-{letter}" in violated(refused)


@pytest.mark.seed("X-F-TRANSPOSE_CONV", "b")
def test_a_transposed_convolution_needs_no_bias() -> None:
    assert violated(transpose_conv(F32, bias=False)) == set()


@pytest.mark.parametrize("activation", list(FusedActivation))
@pytest.mark.parametrize("dtype", [F32, INT8, UINT8])
def test_fused_activations_are_taken_or_refused(activation: FusedActivation, dtype: DType) -> None:
    refused = violated(ops.binary("ADD", dtype=dtype, activation=activation))
    assert bool(refused) is (activation in (TANH, SIGN_BIT))


@pytest.mark.parametrize("kind", sorted(QUANTIZED_ROWS))
def test_unsigned_operators_follow_the_same_rows(kind: str) -> None:
    if kind in ("ELU", "LEAKY_RELU", "DEQUANTIZE", "QUANTIZE"):
        return
    accepted, _ = quantized_rows(UINT8)[kind, "a"]
    assert violated(accepted) == set()


# Switches

INT8_ADD, UINT8_ADD, FLOAT_ADD = (ops.binary("ADD", dtype=dtype) for dtype in (INT8, UINT8, F32))
SWITCHES = {
    "default": (XnnpackSwitches(), [True, False, False]),
    "qs8": (XnnpackSwitches(qs8=True), [True, True, False]),
    "qu8": (XnnpackSwitches(qu8=True), [True, False, True]),
    "both": (XnnpackSwitches(qs8=True, qu8=True), [True, True, True]),
    "no_float": (XnnpackSwitches(floating=False, qs8=True), [False, True, False]),
}


@pytest.mark.seed("X-Q0-1")
@pytest.mark.parametrize("case", SWITCHES)
def test_the_switches_decide_which_types_are_taken(case: str) -> None:
    made, expected = SWITCHES[case]
    profile = xnnpack_profile(made)
    models = (FLOAT_ADD, INT8_ADD, UINT8_ADD)
    assert [check(model, profile=profile).ops[0].device is Device.NPU for model in models] == expected


def test_the_named_profile_has_the_default_switches() -> None:
    assert violated(FLOAT_ADD, "xnnpack") == set()
    assert violated(INT8_ADD, "xnnpack") == {"X-Q0-1"}


@pytest.mark.seed("X-Q0-3")
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_dynamic_range_quantization_is_refused(kind: str) -> None:
    hybrid = ops.conv(kind=kind, dtype=F32, weights=ops.tensor((8, 3, 3, 4), INT8, data=1))
    assert violated(hybrid) == {f"X-F-{kind}-a", "X-Q0-3"}


@pytest.mark.seed("X-R-1")
@pytest.mark.parametrize("kind", ["ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE"])
def test_variable_operators_need_their_switch(kind: str) -> None:
    handle = Tensor("handle", (1,), DType.RESOURCE)
    model = Model((Graph("main", (handle,), (Op(kind, (0,), ()),), (), ()),))
    assert violated(model) == set()
    assert violated(model, xnnpack_profile()) == {"X-R-1"}


@pytest.mark.seed("X-L-1", "X-L-3")
def test_an_operator_outside_the_list_is_refused_with_a_reason() -> None:
    violation = check(ops.unary("COS", dtype=F32), profile="xnnpack").ops[0].violations[0]
    assert violation.rule == "X-L-1"
    assert violation.message == "operator must be one that profile 'xnnpack' lists for the XNNPACK-like delegate, got COS"


@pytest.mark.seed("X-L-2")
def test_a_variable_is_no_constant() -> None:
    good = ops.conv(dtype=F32)
    assert violated(changed(good, 1, data=None, is_variable=True)) == {"X-F-CONV_2D-c"}


def test_a_quantized_bias_must_be_int32() -> None:
    assert violated(retyped(ops.conv(), 2, INT16)) == {"X-Q-CONV_2D-a"}


def test_scales_of_zero_make_a_ratio_unknown() -> None:
    model = leaky(1.0, 1.0, 0.5)
    assert violated(changed(model, 1, quantization=ops.quantization(0.0))) >= {"X-Q-LEAKY_RELU-b", "X-Q-LEAKY_RELU-c"}


def test_axes_that_are_no_integers_are_unknown() -> None:
    model = changed(mean(F32), 1, dtype=F32, data=np.zeros(2, np.float32))
    assert violated(model) == {"X-F-MEAN-d"}
