"""The CPU delegate's rows once more, with every value written out: each tensor alone of a wrong type, each constant alone
computed, every fused activation, and every number on both sides. Nothing here comes from the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from constraints.checker import check
from constraints.xnnpack import XnnpackSwitches, xnnpack_profile
from npu.graph import attributes as options
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Model, Quantization

from tests.constraints.test_xnnpack import (
    FLOAT_ROWS,
    MAP,
    QUANTIZED_ROWS,
    block,
    cut,
    leaky,
    mean,
    prelu,
    quantize,
    softmax,
    split,
    strided,
    three_operands,
    transpose,
    transpose_conv,
)
from tests.support import single_ops as ops
from tests.support.single_ops import changed

F16, F32, F64, INT8, UINT8, INT16, INT32 = (
    DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8, DType.INT16, DType.INT32,
)  # fmt: skip
PROFILE = xnnpack_profile(XnnpackSwitches(qs8=True, qu8=True))
Models = dict[str, Model]
Rows = dict[str, tuple[Models, Models]]
"""Letter to models inside and models outside."""


def violated(model: Model) -> set[str]:
    return {violation.rule for violation in check(model, profile=PROFILE).ops[0].violations}


def of_types(model: Model, positions: Iterable[int], wrong: Iterable[DType]) -> Models:
    """Every one of some tensors, alone, with every one of the wrong types."""
    return {f"tensor {p} {dtype}": changed(model, p, dtype=dtype, data=None) for p in positions for dtype in wrong}


def without_data(model: Model, positions: Iterable[int]) -> Models:
    """Every one of some constants, alone, computed or a variable."""
    found = {f"tensor {p} computed": changed(model, p, data=None) for p in positions}
    found |= {f"tensor {p} variable": changed(model, p, data=None, is_variable=True) for p in positions}
    return found | {f"tensor {p} variable with contents": changed(model, p, is_variable=True) for p in positions}


def scales(model: Model, position: int, *, zero_points: int = 0) -> Model:
    """One scale per entry of the last dimension of a tensor, or of the first if that is longer."""
    shape = model.graphs[0].tensors[position].shape
    axis = int(np.argmax(shape))
    made = Quantization(np.linspace(0.1, 0.5, shape[axis], dtype=np.float32), np.full(shape[axis], zero_points, np.int64), axis)
    return changed(model, position, quantization=made)


def activations(make: Callable[[FusedActivation], Model]) -> tuple[Models, Models]:
    names = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6"), ("TANH", "SIGN_BIT")
    return tuple({name: make(FusedActivation[name]) for name in item} for item in names)  # type: ignore[return-value]


def windows(kind: str, dtype: DType) -> tuple[Models, Models]:
    """((window height, width), (stride height, width))"""
    inside = ((1, 1), (1, 1)), ((2, 2), (2, 2)), ((1, 2), (2, 2)), ((2, 1), (1, 2)), ((3, 3), (1, 1))
    outside = ((1, 1), (2, 2)), ((1, 1), (1, 2)), ((1, 1), (2, 1)), ((1, 1), (3, 1))
    return tuple(
        {str(size): ops.pool(kind=kind, dtype=dtype, window=size[0], stride=size[1]) for size in sizes}
        for sizes in (inside, outside)
    )  # type: ignore[return-value]


def paddings(dtype: DType) -> tuple[Models, Models]:
    def table(position: int, side: int, count: int) -> Model:
        rows = [[1, 1] for _ in range(4)]
        rows[position][side] = count
        return ops.pad(rows, dtype=dtype)

    places = [(position, side) for position in range(4) for side in range(2)]
    return (
        {f"{place} {count}": table(*place, count) for place in places for count in (0, 7)},
        {f"{place} -1": table(*place, -1) for place in places},
    )


def counts(make: Callable[[int], Model], inside: Iterable[int], outside: Iterable[int]) -> tuple[Models, Models]:
    return {str(count): make(count) for count in inside}, {str(count): make(count) for count in outside}


def axes(dtype: DType) -> tuple[Models, Models]:
    inside = (1, 2), (2, 1), (2,)
    outside = (1,), (0,), (3,), (1, 3), (2, 3), (1, 2, 3), (0, 1, 2), (1, 1), (-1,), ()
    return {str(item): mean(dtype, item) for item in inside}, {str(item): mean(dtype, item) for item in outside}


def slopes() -> tuple[Models, Models]:
    inside, outside = ((4,), (1,), (1, 4), (1, 1, 4), (1, 1, 1, 4)), ((8, 8, 4), (8, 1, 4), (1, 8, 4), (1, 8, 1), (2, 1, 1, 4))
    return {str(shape): prelu(shape) for shape in inside}, {str(shape): prelu(shape) for shape in outside}


def masked(**masks: int) -> Model:
    graph = strided().graphs[0]
    given: Any = graph.ops[0].attributes
    op = replace(graph.ops[0], attributes=replace(given, **masks))
    return Model((replace(graph, ops=(op,)),))


def strides(*values: int) -> Model:
    return changed(strided(), 3, data=np.array(values, np.int32))


def rank(model: Model, position: int, shape: tuple[int, ...]) -> Model:
    return changed(model, position, shape=shape)


GOOD_FLOAT: Models = {
    **{
        kind: ops.unary(kind, dtype=F32)
        for kind in (
            "ABS", "CEIL", "ELU", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1",
            "ROUND", "SQRT", "SQUARE", "TANH",
        )
    },
    **{
        kind: ops.binary(kind, dtype=F32)
        for kind in ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")
    },
    **{kind: ops.pool(kind=kind, dtype=F32) for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{kind: ops.conv(kind=kind, dtype=F32) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D")},
    **{kind: block(kind, F32) for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")},
    "CONCATENATION": ops.join(count=3, dtype=F32), "FULLY_CONNECTED": ops.fully_connected(dtype=F32), "MEAN": mean(F32),
    "PAD": ops.pad(dtype=F32), "PRELU": prelu(), "RESHAPE": ops.reshape(dtype=F32), "RESIZE_BILINEAR": ops.resize(dtype=F32),
    "SLICE": cut(F32), "SOFTMAX": softmax(), "SPLIT": split(F32, 3), "STRIDED_SLICE": strided(), "TRANSPOSE": transpose(F32),
    "TRANSPOSE_CONV": transpose_conv(F32),
}  # fmt: skip
DATA = {  # tensors that the first letter of an operator speaks of, where they are not the first and the last
    "ADD": (0, 1, 2), "DIV": (0, 1, 2), "MAXIMUM": (0, 1, 2), "MINIMUM": (0, 1, 2), "MUL": (0, 1, 2), "SUB": (0, 1, 2),
    "SQUARED_DIFFERENCE": (0, 1, 2), "PRELU": (0, 1, 2), "CONCATENATION": (0, 1, 2, 3), "CONV_2D": (0, 1, 2, 3),
    "DEPTHWISE_CONV_2D": (0, 1, 2, 3), "FULLY_CONNECTED": (0, 1, 2, 3), "MEAN": (0, 2), "PAD": (0, 2), "RESHAPE": (0, 2),
    "RESIZE_BILINEAR": (0, 2), "SLICE": (0, 3), "SPLIT": (1, 2, 3, 4), "STRIDED_SLICE": (0, 4), "TRANSPOSE": (0, 2),
    "TRANSPOSE_CONV": (1, 2, 3, 4),
}  # fmt: skip
CONSTANT = {  # letter and tensors of the constants
    "CONV_2D": ("c", (1, 2)), "DEPTHWISE_CONV_2D": ("c", (1, 2)), "FULLY_CONNECTED": ("b", (1, 2)), "PAD": ("b", (1,)),
    "MEAN": ("c", (1,)), "PRELU": ("b", (1,)), "RESHAPE": ("b", (1,)), "RESIZE_BILINEAR": ("c", (1,)), "SLICE": ("b", (1, 2)),
    "STRIDED_SLICE": ("b", (1, 2, 3)), "TRANSPOSE": ("b", (1,)), "TRANSPOSE_CONV": ("c", (0, 1, 3)),
}  # fmt: skip


def float_rows() -> dict[str, Rows]:
    rows: dict[str, Rows] = {}
    for kind, good in GOOD_FLOAT.items():
        wrong = of_types(good, DATA.get(kind, (0, 1)), (F16, F64, INT16, INT32, DType.BOOL))
        rows[kind] = {"a": ({"float32": good}, wrong)}
        if kind in CONSTANT:
            letter, positions = CONSTANT[kind]
            rows[kind][letter] = ({"constant": good}, without_data(good, positions))
    for kind, letter in {"ADD": "c", "DIV": "b", "MUL": "b", "SUB": "b"}.items():
        rows[kind][letter] = activations(lambda act, kind=kind: ops.binary(kind, dtype=F32, activation=act))  # type: ignore[misc]
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        rows[kind]["b"] = windows(kind, F32)
        rows[kind]["c"] = activations(lambda act, kind=kind: ops.pool(kind=kind, dtype=F32, activation=act))  # type: ignore[misc]
    for kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        rows[kind]["b"] = {"present": ops.conv(kind=kind, dtype=F32)}, {"absent": ops.conv(kind=kind, dtype=F32, bias=None)}
        rows[kind]["d"] = activations(lambda act, kind=kind: ops.conv(kind=kind, dtype=F32, activation=act))  # type: ignore[misc]
    for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"):
        rows[kind]["b"] = counts(lambda size, kind=kind: block(kind, F32, size), (2, 3), (1, 0, -1))  # type: ignore[misc]
    rows["ADD"]["b"] = {"2": GOOD_FLOAT["ADD"]}, {"3": three_operands(F32), "1": one_operand(F32)}
    rows["CONCATENATION"]["b"] = counts(lambda count: ops.join(count=count, dtype=F32), (2, 3, 4), (1, 5, 9))
    rows["FULLY_CONNECTED"]["b"][0]["no bias"] = ops.fully_connected(dtype=F32, bias=None)
    rows["FULLY_CONNECTED"]["c"] = activations(lambda act: ops.fully_connected(dtype=F32, activation=act))
    good = GOOD_FLOAT["MEAN"]
    shapes = (0, (8, 8, 4)), (0, (1, 1, 8, 8, 4)), (2, (1, 4)), (2, (1, 1, 4))
    rows["MEAN"]["b"] = {"4": good}, {str(shape): rank(good, *shape) for shape in shapes}
    rows["MEAN"]["d"] = axes(F32)
    rows["PAD"]["c"] = paddings(F32)
    rows["PRELU"]["c"] = slopes()
    rows["RESHAPE"]["b"][0]["options"] = ops.reshape(dtype=F32, shape="options")
    rows["RESHAPE"]["b"][1]["absent"] = ops.reshape(dtype=F32, shape="absent")
    good = GOOD_FLOAT["RESIZE_BILINEAR"]
    rows["RESIZE_BILINEAR"]["b"] = {"4": good}, {"input 3": rank(good, 0, (6, 8, 4)), "output 3": rank(good, 2, (12, 16, 4)),
                                                "input 5": rank(good, 0, (1, 1, 6, 8, 4))}  # fmt: skip
    betas = 0.5, 2.0, 0.0, float(np.nextafter(np.float32(1), np.float32(2))), -1.0
    rows["SOFTMAX"]["b"] = {"1": softmax(1.0)}, {str(beta): softmax(beta) for beta in betas}
    rows["SPLIT"]["b"] = counts(lambda count: split(F32, count), (2, 3, 4), (1, 5, 8))
    rows["STRIDED_SLICE"]["c"] = (
        {"ones": strides(1, 1, 1, 1)},
        {str(item): strides(*item) for item in ((2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 1, 2), (1, 1, -1, 1), (1, 1, 1, 0))},
    )
    named = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    rows["STRIDED_SLICE"]["d"] = (
        {"none": masked(), "begin": masked(begin_mask=5), "end": masked(end_mask=15)},
        {f"{name} {mask}": masked(**{name: mask}) for name in named for mask in (1, 2, 8)},
    )
    rows["TRANSPOSE_CONV"]["b"] = {"present": transpose_conv(F32), "absent": transpose_conv(F32, bias=False)}, {}
    return rows


def one_operand(dtype: DType) -> Model:
    return ops.op_model("ADD", [ops.tensor(MAP, dtype)], [ops.tensor(MAP, dtype)], options.AddOptions())


def good_quantized(dtype: DType) -> Models:
    made = {kind: ops.unary(kind, dtype=dtype) for kind in ("LEAKY_RELU", "LOGISTIC", "TANH")}
    made |= {kind: ops.binary(kind, dtype=dtype) for kind in ("ADD", "MUL", "SUB")}
    made |= {kind: ops.conv(kind=kind, dtype=dtype) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D")}
    made |= {kind: block(kind, dtype) for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")}
    return made | {
        "CONCATENATION": ops.join(count=3, dtype=dtype), "FULLY_CONNECTED": ops.fully_connected(dtype=dtype),
        "MAX_POOL_2D": ops.pool(kind="MAX_POOL_2D", dtype=dtype), "MEAN": mean(dtype), "PAD": ops.pad(dtype=dtype),
        "RESHAPE": ops.reshape(dtype=dtype), "RESIZE_BILINEAR": ops.resize(dtype=dtype), "SLICE": cut(dtype),
        "SPLIT": split(dtype, 3), "TRANSPOSE": transpose(dtype), "TRANSPOSE_CONV": transpose_conv(dtype),
    }  # fmt: skip


AS_FLOAT = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "PAD", "RESHAPE", "SLICE", "TRANSPOSE")
QUANTIZED_CONSTANT = {
    **{kind: CONSTANT[kind] for kind in AS_FLOAT},
    "MEAN": ("b", (1,)), "RESIZE_BILINEAR": ("b", (1,)), "TRANSPOSE_CONV": ("b", (0, 1, 3)),
}  # fmt: skip
BIAS = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
WEIGHTS = {"CONV_2D": 1, "DEPTHWISE_CONV_2D": 1, "FULLY_CONNECTED": 1, "TRANSPOSE_CONV": 1}


def quantized_types(kind: str, good: Model) -> tuple[Models, Models]:
    """The first letter: every map 8 bits wide with one scale, the bias int32 with a scale."""
    bias, weights = BIAS.get(kind), WEIGHTS.get(kind)
    positions = [position for position in DATA.get(kind, (0, 1)) if position != bias]
    outside = of_types(good, positions, (INT16, INT32, F32, F16))
    outside |= {f"tensor {p} without scale": changed(good, p, quantization=None) for p in positions}
    outside |= {f"tensor {p} per channel": scales(good, p) for p in positions if p != weights}
    if bias is not None:
        outside |= of_types(good, (bias,), (INT8, UINT8, INT16, DType.INT64, F32))
        outside |= {"bias without scale": changed(good, bias, quantization=None)}
    return {"8 bits": good}, outside


def quantized_rows(dtype: DType) -> dict[str, Rows]:
    rows: dict[str, Rows] = {}
    good = good_quantized(dtype)
    for kind, model in good.items():
        rows[kind] = {"a": quantized_types(kind, model)}
        if kind in QUANTIZED_CONSTANT:
            letter, positions = QUANTIZED_CONSTANT[kind]
            rows[kind][letter] = ({"constant": model}, without_data(model, positions))
    for kind, letter in {"ADD": "c", "MUL": "b", "SUB": "b"}.items():
        rows[kind][letter] = activations(lambda act, kind=kind: ops.binary(kind, dtype=dtype, activation=act))  # type: ignore[misc]
    for kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        rows[kind]["b"] = {"present": good[kind]}, {"absent": ops.conv(kind=kind, dtype=dtype, bias=None)}
        rows[kind]["d"] = (
            {"per tensor": good[kind], "per channel": scales(good[kind], 1)},
            {"none": changed(good[kind], 1, quantization=None)},
        )
        rows[kind]["e"] = activations(lambda act, kind=kind: ops.conv(kind=kind, dtype=dtype, activation=act))  # type: ignore[misc]
    for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"):
        rows[kind]["b"] = counts(lambda size, kind=kind: block(kind, dtype, size), (2, 3), (1, 0, -1))  # type: ignore[misc]
    rows["ADD"]["b"] = {"2": good["ADD"]}, {"3": three_operands(dtype), "1": one_operand(dtype)}
    rows["CONCATENATION"]["b"] = counts(lambda count: ops.join(count=count, dtype=dtype), (2, 3, 4), (1, 5, 9))
    rows["FULLY_CONNECTED"]["a"][0]["no bias"] = ops.fully_connected(dtype=dtype, bias=None)
    rows["FULLY_CONNECTED"]["c"] = activations(lambda act: ops.fully_connected(dtype=dtype, activation=act))
    rows["MAX_POOL_2D"]["b"] = windows("MAX_POOL_2D", dtype)
    rows["MAX_POOL_2D"]["c"] = activations(lambda act: ops.pool(kind="MAX_POOL_2D", dtype=dtype, activation=act))
    for kind, shapes in {"MEAN": ((8, 8, 4), (1, 1, 4)), "RESIZE_BILINEAR": ((6, 8, 4), (12, 16, 4))}.items():
        for position, shape in zip((0, 2), shapes, strict=True):
            rows[kind]["a"][1][f"rank 3 of tensor {position}"] = rank(good[kind], position, shape)
    rows["MEAN"]["c"] = axes(dtype)
    rows["PAD"]["c"] = paddings(dtype)
    rows["RESHAPE"]["b"][0]["options"] = ops.reshape(dtype=dtype, shape="options")
    rows["RESHAPE"]["b"][1]["absent"] = ops.reshape(dtype=dtype, shape="absent")
    rows["SPLIT"]["b"] = counts(lambda count: split(dtype, count), (2, 3, 4), (1, 5, 8))
    rows["TRANSPOSE_CONV"]["a"][0]["no bias"] = transpose_conv(dtype, bias=False)
    return rows


def leaky_rows() -> Rows:
    """(input scale, output scale, negative slope), all of them exact in float32."""
    ratio_in = (1 / 256, 1.0, 1.0), (128.0, 1.0, 0.5), (1.0, 1.0, 0.5), (2.0, 512.0, 1.0), (0.5, 1 / 256, 0.5)
    ratio_out = (1 / 512, 1.0, 2.0), (0.00390, 1.0, 2.0), (128.5, 1.0, 0.5), (256.0, 1.0, 0.25), (2.0, 1024.0, 4.0)
    slope_in = (
        (1.0, 1.0, -127.99609375), (1.0, 1.0, -1 / 256), (1.0, 1.0, 1 / 256), (1.0, 1.0, 128.0), (2.0, 1.0, 64.0),
        (2.0, 1.0, -63.998046875), (0.5, 1.0, 1 / 128), (0.5, 1.0, -1 / 128),
    )  # fmt: skip
    slope_out = (
        (1.0, 1.0, -128.0), (1.0, 1.0, -127.998046875), (1.0, 1.0, -1 / 257), (1.0, 1.0, 0.0), (1.0, 1.0, 1 / 257),
        (1.0, 1.0, 128.5), (2.0, 1.0, 64.5), (0.5, 1.0, 1 / 256), (0.5, 1.0, -1 / 256),
    )  # fmt: skip
    return {
        "b": ({str(item): leaky(*item) for item in ratio_in}, {str(item): leaky(*item) for item in ratio_out}),
        "c": ({str(item): leaky(*item) for item in slope_in}, {str(item): leaky(*item) for item in slope_out}),
    }


def dequantize(dtype: DType) -> Model:
    return ops.op_model("DEQUANTIZE", [ops.tensor(MAP, dtype)], [ops.tensor(MAP, F32)], options.DequantizeOptions())


def conversion_rows() -> dict[str, Rows]:
    """DEQUANTIZE, ELU and QUANTIZE, which speak of types of their own."""
    from_float = {str(dtype): quantize(F32, dtype) for dtype in (INT8, UINT8)}
    kept = {f"{dtype} kept": quantize(dtype, dtype) for dtype in (INT8, UINT8)}
    from_8_bit = quantize(INT8, INT8)
    elu = ops.unary("ELU", dtype=INT8)
    sources = {f"from {dtype}": changed(quantize(INT8, INT8), 0, dtype=dtype) for dtype in (INT16, INT32, F16)}
    dequantized = {str(dtype): dequantize(dtype) for dtype in (INT8, UINT8)}
    ratios_in = (1 / 256, 1.0), (128.0, 1.0), (1.0, 1.0), (1.0, 256.0), (64.0, 0.5)
    ratios_out = (1 / 257, 1.0), (128.5, 1.0), (1.0, 257.0), (129.0, 1.0), (1 / 512, 1.0)
    return {
        "DEQUANTIZE": {
            "a": (dequantized, {"per channel": scales(dequantize(INT8), 0), "int16": changed(dequantize(INT8), 0, dtype=INT16),
                                "without scale": changed(dequantize(INT8), 0, quantization=None)}),
            "b": (dequantized, {str(dtype): changed(dequantize(INT8), 1, dtype=dtype) for dtype in (F16, INT32, F64)}),
        },
        "ELU": {
            "a": ({"int8": elu}, {"uint8": ops.unary("ELU", dtype=UINT8), "input uint8": changed(elu, 0, dtype=UINT8),
                                  "output uint8": changed(elu, 1, dtype=UINT8), "output int16": changed(elu, 1, dtype=INT16)}),
        },
        "QUANTIZE": {
            "a": (from_float | kept, sources | {"per channel": scales(from_8_bit, 0)}),
            "b": (from_float | kept, {"per channel": scales(from_8_bit, 1), "int16": changed(from_8_bit, 1, dtype=INT16),
                                      "without scale": changed(from_8_bit, 1, quantization=None),
                                      "per channel of float": scales(quantize(F32, INT8), 1)}),
            "c": (kept, {"int8 to uint8": quantize(INT8, UINT8), "uint8 to int8": quantize(UINT8, INT8)}),
            "d": (
                {str(item): quantize(dtype, dtype, *item) for item in ratios_in for dtype in (INT8, UINT8)}
                | {f"float {item}": quantize(F32, INT8, *item) for item in ratios_out},
                {f"{item} {dtype}": quantize(dtype, dtype, *item) for item in ratios_out for dtype in (INT8, UINT8)},
            ),
        },
    }  # fmt: skip


FLOAT = float_rows()
QUANTIZED = {dtype: quantized_rows(dtype) for dtype in (INT8, UINT8)}
QUANTIZED[INT8]["LEAKY_RELU"] |= leaky_rows()
QUANTIZED[INT8] |= conversion_rows()


CASES = [("X-F", F32, kind, letter) for kind, rows in FLOAT.items() for letter in rows]
CASES += [("X-Q", dtype, kind, letter) for dtype, table in QUANTIZED.items() for kind, rows in table.items() for letter in rows]


def models_of(dtype: DType, kind: str, letter: str) -> tuple[Models, Models]:
    return (FLOAT if dtype is F32 else QUANTIZED[dtype])[kind][letter]


@pytest.mark.parametrize(
    ("prefix", "dtype", "kind", "letter"),
    [
        pytest.param(
            *case, marks=pytest.mark.seed(f"{case[0]}-{case[2]}", case[3]), id=f"{case[0]}-{case[2]}-{case[3]}-{case[1]}"
        )
        for case in CASES
    ],
)
def test_a_row_holds_inside_and_is_broken_outside(prefix: str, dtype: DType, kind: str, letter: str) -> None:
    inside, outside = models_of(dtype, kind, letter)
    refused = {name: violated(model) for name, model in inside.items() if violated(model)}
    assert refused == {}
    rule = f"{prefix}-{kind}-{letter}"
    assert {name for name, model in outside.items() if rule not in violated(model)} == set()


def test_every_letter_of_every_operator_is_here() -> None:
    for listed, tables in ((FLOAT_ROWS, (FLOAT,)), (QUANTIZED_ROWS, tuple(QUANTIZED.values()))):
        found = {(kind, letter) for table in tables for kind, rows in table.items() for letter in rows}
        assert found == {(kind, "abcde"[n]) for kind, count in listed.items() for n in range(count)}


@pytest.mark.seed("X-Q0-3")
@pytest.mark.parametrize("kind", sorted(WEIGHTS))
def test_integer_weights_of_a_float_map_are_dynamic_range_quantization(kind: str) -> None:
    for dtype in (INT8, UINT8, INT16):
        weights = ops.tensor(GOOD_FLOAT[kind].graphs[0].tensors[1].shape, dtype, data=1)
        changes = {"dtype": dtype, "data": weights.data, "quantization": weights.quantization}
        assert violated(changed(GOOD_FLOAT[kind], 1, **changes)) == {f"X-F-{kind}-a", "X-Q0-3"}


@pytest.mark.parametrize("kind", sorted(GOOD_FLOAT))
def test_an_8_bit_tensor_among_float_ones_is_refused(kind: str) -> None:
    for position in DATA.get(kind, (0, 1)):
        for dtype in (INT8, UINT8):
            assert violated(changed(GOOD_FLOAT[kind], position, dtype=dtype, data=None)) != set()


DATA_ONLY = {"FULLY_CONNECTED": 0, "CONV_2D": 0, "PAD": 0, "TRANSPOSE_CONV": 2, "MEAN": 0}


@pytest.mark.parametrize("kind", sorted(DATA_ONLY))
def test_the_data_of_an_operator_may_be_constant_too(kind: str) -> None:
    shape = GOOD_FLOAT[kind].graphs[0].tensors[DATA_ONLY[kind]].shape
    assert violated(changed(GOOD_FLOAT[kind], DATA_ONLY[kind], data=np.zeros(shape, np.float32))) == set()
