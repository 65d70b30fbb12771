"""Profile v0.1 once more, with every value written out: models inside and outside each row, on every axis it speaks of.

`test_v0_1` takes the values at the edge from the rules themselves; here nothing comes from them, so that a row that is weaker,
stricter or looks at one axis only is found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu
from constraints.checker import check
from npu.cli.main import main
from npu.graph import attributes as options
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Quantization, Tensor
from npu.graph.placement import Device
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support import single_ops as ops
from tests.support.litert import random_inputs
from tests.support.single_ops import changed

INT8, INT16, INT32, INT64, UINT8, F32 = (DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.FLOAT32)
SAME, VALID = Padding.SAME, Padding.VALID
LISTED = [
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LOGISTIC", "MAX_POOL_2D",
    "MUL", "PACK", "PAD", "RELU", "RELU6", "RELU_N1_TO_1", "RESHAPE", "RESIZE_BILINEAR", "SOFTMAX", "SUB", "TANH",
]  # fmt: skip
UNLISTED = [
    "ABS", "BATCH_MATMUL", "CUSTOM", "DEQUANTIZE", "EXPAND_DIMS", "HARD_SWISH", "L2_POOL_2D", "LEAKY_RELU", "MAXIMUM", "MEAN",
    "MINIMUM", "MIRROR_PAD", "PADV2", "PRELU", "QUANTIZE", "RESIZE_NEAREST_NEIGHBOR", "SLICE", "SPLIT", "SQUEEZE",
    "STRIDED_SLICE", "TRANSPOSE", "TRANSPOSE_CONV", "UNPACK",
]  # fmt: skip
Models = dict[str, Model]


def violated(model: Model) -> set[str]:
    return {violation.rule for violation in check(model, profile="v0.1").ops[0].violations}


def named_activation(model: Model, name: str) -> Model:
    """The model with a fused activation that the schema has no number for."""
    graph = model.graphs[0]
    given: Any = graph.ops[0].attributes
    fields = {field: getattr(given, field) for field in type(given).__dataclass_fields__}
    fields["fused_activation_function"] = type("Named", (), {"name": name})()
    attributes: Any = type("Attributes", (), fields)()
    return replace(model, graphs=(replace(graph, ops=(replace(graph.ops[0], attributes=attributes),)),))


def axes(make: Any, low: int, high: int) -> tuple[Models, Models]:
    """Models with (height, width) at the limits: inside in both, outside in one of them."""
    inside = [(low, low), (low, high), (high, low), (high, high)]
    outside = [(low - 1, low), (low, low - 1), (high + 1, low), (low, high + 1), (high + 1, high + 1)]
    return {str(size): make(size) for size in inside}, {str(size): make(size) for size in outside}


def types(model: Model, positions: Iterable[int], wrong: Iterable[DType]) -> Models:
    """Every one of some tensors, alone, with every one of the wrong types."""
    return {f"tensor {p} {dtype}": changed(model, p, dtype=dtype) for p in positions for dtype in wrong}


def minimal() -> Models:
    """One model per listed operator that keeps every limit."""
    made = {kind: ops.unary(kind) for kind in ("LOGISTIC", "RELU", "RELU6", "RELU_N1_TO_1", "SOFTMAX", "TANH")}
    made |= {kind: ops.binary(kind) for kind in ("ADD", "SUB", "MUL")}
    made |= {kind: ops.pool(kind=kind) for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")}
    made |= {kind: ops.conv(kind=kind) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D")}
    made |= {kind: ops.join(kind, 3) for kind in ("CONCATENATION", "PACK")}
    made |= {"FULLY_CONNECTED": ops.fully_connected(), "PAD": ops.pad(), "RESHAPE": ops.reshape()}
    return made | {"RESIZE_BILINEAR": ops.resize()}


MINIMAL = minimal()
MAPS = {  # feature maps and weights of the minimal models; the others are bias, shape, size and padding tensors
    "CONCATENATION": (0, 1, 2, 3), "PACK": (0, 1, 2, 3), "ADD": (0, 1, 2), "SUB": (0, 1, 2), "MUL": (0, 1, 2),
    "CONV_2D": (0, 1, 3), "DEPTHWISE_CONV_2D": (0, 1, 3), "FULLY_CONNECTED": (0, 1, 3),
    "PAD": (0, 2), "RESHAPE": (0, 2), "RESIZE_BILINEAR": (0, 2),
}  # fmt: skip


def maps(kind: str) -> tuple[int, ...]:
    return MAPS.get(kind, (0, 1))


def generic(kind: str) -> dict[str, tuple[Models, Models]]:
    """The generic rows on one operator: row -> (models inside, models outside)."""
    good = MINIMAL[kind]
    sizes = {}
    for position in maps(kind):
        shape = good.graphs[0].tensors[position].shape
        for axis in range(len(shape)):
            for size in (0, 1, 65535, 65536, -1):
                wanted = (*shape[:axis], size, *shape[axis + 1 :])
                sizes[position, axis, size] = changed(good, position, shape=wanted, data=None)
    rows = {
        "V-GEN-1": ({"int8": good}, types(good, maps(kind), (UINT8, INT16, INT32, F32, DType.BOOL))),
        "V-GEN-2": (
            {str(key): model for key, model in sizes.items() if key[2] in (1, 65535)},
            {str(key): model for key, model in sizes.items() if key[2] not in (1, 65535)},
        ),
    }
    fields = type(good.graphs[0].ops[0].attributes).__dataclass_fields__ if good.graphs[0].ops[0].attributes is not None else ()
    if "fused_activation_function" in fields:
        accepted = {name: named_activation(good, name) for name in ("LOGISTIC", "RELU", "RELU6", "RELU_N1_TO_1", "TANH")}
        output = max(maps(kind))
        rows["V-GEN-3"] = (
            accepted | {"NONE": named_activation(good, "NONE")},
            {name: named_activation(good, name) for name in ("SIGN_BIT", "GELU", "RELU_0_TO_1")},
        )
        rows["V-GEN-4"] = (
            {"int8": accepted["RELU"], "no activation": changed(good, output, dtype=INT16)},
            {
                f"{name} {dtype}": changed(model, output, dtype=dtype)
                for name, model in accepted.items()
                for dtype in (UINT8, INT16, INT32, F32)
            },
        )
    return rows


# Every row of an operator


def broadcasts(kind: str) -> tuple[Models, Models]:
    inside = (
        ((1, 8, 8, 16), (1, 8, 8, 16)), ((1, 8, 8, 16), (1, 1, 1, 16)), ((1, 1, 1, 16), (1, 8, 8, 16)), ((1, 8, 8, 16), (16,)),
        ((16,), (1, 8, 8, 16)), ((1, 8, 1, 16), (1, 1, 8, 1)), ((2, 3), (1,)), ((5, 1), (1, 7)),
    )  # fmt: skip
    outside = (
        ((1, 8, 8, 2), (1, 8, 8, 3)), ((1, 8, 8, 4), (1, 8, 4, 4)), ((1, 8, 8, 4), (1, 4, 8, 4)), ((2, 8, 8, 4), (3, 8, 8, 4)),
        ((1, 8, 8, 4), (2,)), ((2,), (1, 8, 8, 4)),
    )  # fmt: skip
    return tuple({str(pair): ops.binary(kind, pair) for pair in pairs} for pairs in (inside, outside))  # type: ignore[return-value]


def summed(kind: str, magnitude: int, *, zero_point: int = 0, sign: int = 1) -> Model:
    """Three channels; the middle one has the wanted sum of |weight - zero point|, out of 127s and a rest of `sign`."""
    count = 65600
    distances = np.zeros((3, count), np.int64)
    full, rest = divmod(magnitude, 127)
    distances[1, :full] = 127
    distances[1, full] = rest
    distances[0, :9] = 127
    values = (zero_point + sign * distances).astype(np.int8)
    depthwise = kind == "DEPTHWISE_CONV_2D"
    data = values.T.reshape(1, 1, count, 3) if depthwise else values.reshape(3, 1, count, 1)
    weights = Tensor("w", data.shape, INT8, ops.quantization(0.1, zero_point=zero_point), data)
    return ops.conv(kind=kind, ifm=(1, 8, 8, 3 if depthwise else 1), out_channels=3, weights=weights)


def per_channel_zero_points(kind: str) -> Model:
    """Weights equal to their channel's zero point, of which the sum is 0."""
    depthwise = kind == "DEPTHWISE_CONV_2D"
    points = np.array([100, -100, 50], np.int64)
    values = np.repeat(points[:, None], 65600 * 2, axis=1).astype(np.int8)
    data = values.T.reshape(1, 2, -1, 3) if depthwise else values.reshape(3, 2, -1, 1)
    quantization = Quantization(np.full(3, 0.1, np.float32), points, 3 if depthwise else 0)
    weights = Tensor("w", data.shape, INT8, quantization, data)
    return ops.conv(kind=kind, ifm=(1, 8, 8, 3 if depthwise else 1), out_channels=3, weights=weights)


def sums(kind: str) -> tuple[Models, Models]:
    inside = {
        "8323072": summed(kind, 8323072), "-8323072": summed(kind, 8323072, sign=-1),
        "8323072 about -1": summed(kind, 8323072, zero_point=-1, sign=-1), "zero points": per_channel_zero_points(kind),
        "two channels of 5000000": two_sums(kind, 5_000_000),
    }  # fmt: skip
    outside = {
        "8323073": summed(kind, 8323073), "-8323073": summed(kind, 8323073, sign=-1),
        "8323073 about -1": summed(kind, 8323073, zero_point=-1, sign=-1),
    }  # fmt: skip
    return inside, outside


def two_sums(kind: str, magnitude: int) -> Model:
    """Two channels of the same sum, which is therefore only half of what all weights sum up to."""
    data = summed(kind, magnitude).graphs[0].tensors[1].data
    assert data is not None
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    middle = np.take(data, [1, 1, 1], axis)
    model = summed(kind, magnitude)
    return changed(model, 1, data=middle)


def convolution(prefix: str, kind: str) -> dict[str, tuple[Models, Models]]:
    channels = 4 if kind == "DEPTHWISE_CONV_2D" else 8
    shape = (1, 3, 3, 4) if kind == "DEPTHWISE_CONV_2D" else (8, 3, 3, 4)

    def conv(**arguments: Any) -> Model:
        return ops.conv(kind=kind, **arguments)

    def kernels(*sizes: tuple[int, int, int, int]) -> Models:
        """(kernel height, width, dilation height, width)"""
        return {str(size): conv(kernel=size[:2], dilation=size[2:]) for size in sizes}

    weight_types = {str(dtype): conv(weights=ops.tensor(shape, dtype, data=1)) for dtype in (INT8, UINT8, INT16, INT32, F32)}
    biases = {str(dtype): conv(bias=ops.tensor((channels,), dtype, data=0)) for dtype in (INT32, INT64, INT16, INT8, F32)}
    biases |= {"absent": conv(bias=None), "computed": conv(bias=ops.tensor((channels,), INT32))}
    return {
        f"{prefix}-1": axes(lambda size: conv(stride=size), 1, 3),
        f"{prefix}-2": axes(lambda size: conv(dilation=size), 1, 2),
        f"{prefix}-3": (
            kernels((1, 1, 1, 1), (64, 1, 1, 1), (32, 1, 2, 1), (1, 100, 1, 1), (1, 99, 1, 2)),
            kernels((0, 1, 1, 1), (65, 1, 1, 1), (33, 1, 2, 1), (65, 63, 1, 1)),
        ),
        f"{prefix}-4": (
            kernels((1, 1, 1, 1), (64, 64, 1, 1), (1, 4096, 1, 1), (32, 33, 2, 2), (2, 1024, 1, 2), (1, 64, 1, 2)),
            kernels((1, 0, 1, 1), (64, 65, 1, 1), (1, 4097, 1, 1), (33, 33, 2, 2), (2, 1025, 1, 2)),
        ),
        f"{prefix}-5": (
            {name: weight_types[name] for name in ("int8", "uint8")},
            {name: weight_types[name] for name in ("int16", "int32", "float32")},
        ),
        f"{prefix}-6": ({"constant": conv()}, {"computed": changed(conv(), 1, data=None)}),
        f"{prefix}-7": sums(kind),
        f"{prefix}-8": (
            {name: biases[name] for name in ("absent", "int32", "computed")},
            {name: biases[name] for name in ("int64", "int16", "int8", "float32")},
        ),
        f"{prefix}-9": (
            {"1": conv(ifm=(1, 8, 8, 4))},
            {str(batch): conv(ifm=(batch, 8, 8, 4)) for batch in (0, 2, 8)},
        ),
    }


def pools(prefix: str, kind: str) -> dict[str, tuple[Models, Models]]:
    def pool(**arguments: Any) -> Model:
        return ops.pool(kind=kind, **arguments)

    def windows(padding: Padding, *sizes: tuple[int, int]) -> Models:
        return {f"{padding.name} {size}": pool(window=size, padding=padding) for size in sizes}

    rows = {
        f"{prefix}-1": ({"1": pool()}, {str(batch): pool(ifm=(batch, 8, 8, 4)) for batch in (0, 2, 5)}),
        f"{prefix}-2": axes(lambda size: pool(stride=size), 1, 3),
    }
    if kind == "MAX_POOL_2D":
        tall = ((1, 1), (256, 1), (256, 256), (1, 300)), ((0, 1), (257, 1), (257, 8))
        wide = ((1, 1), (256, 256), (1, 65536), (2, 32768)), ((1, 0), (256, 257), (1, 65537), (2, 32769))
        rows[f"{prefix}-3"] = (windows(SAME, *tall[0]) | windows(VALID, *tall[0]),
                               windows(SAME, *tall[1]) | windows(VALID, *tall[1]))  # fmt: skip
        rows[f"{prefix}-4"] = (windows(SAME, *wide[0]) | windows(VALID, *wide[0]),
                               windows(SAME, *wide[1]) | windows(VALID, *wide[1]))  # fmt: skip
        return rows
    small, large = axes(lambda size: pool(window=size), 1, 8)
    return rows | {
        f"{prefix}-3": (small | windows(VALID, (9, 1), (1, 9), (256, 256)), large),
        f"{prefix}-4": (windows(VALID, (1, 1), (256, 1), (256, 256), (1, 300)), windows(VALID, (0, 1), (257, 1), (257, 8))),
        f"{prefix}-5": (
            windows(VALID, (1, 1), (256, 256), (1, 65536), (2, 32768)),
            windows(VALID, (1, 0), (256, 257), (1, 65537), (2, 32769)),
        ),
    }


def depthwise(multiplier: int, ifm_channels: int, ofm_channels: int) -> Model:
    model = ops.conv(kind="DEPTHWISE_CONV_2D", ifm=(1, 8, 8, ifm_channels), multiplier=multiplier)
    return changed(model, 3, shape=(1, 8, 8, ofm_channels))


def tables() -> dict[str, tuple[Models, Models]]:
    """PAD: rows of (before, after)."""
    none, one = (0, 0), (1, 1)

    def padded(*rows: tuple[int, int]) -> Model:
        return ops.pad(rows)

    return {
        "V-PAD-1": (
            {"[3,2]": padded(one, one, none), "[4,2]": padded(none, one, one, none)},
            {"[2,2]": padded(one, none), "[5,2]": padded(none, none, one, one, none), "[1,2]": padded(none),
             "[2,4]": changed(ops.pad(), 1, shape=(2, 4)), "[8]": changed(ops.pad(), 1, shape=(8,))},
        ),
        "V-PAD-2": (
            {"top": padded(none, (9, 0), none, none), "right": padded(none, none, (0, 9), none), "none": padded(*[none] * 4),
             "rank 3": padded((2, 3), (4, 5), none)},
            {"batch before": padded((1, 0), one, one, none), "batch after": padded((0, 1), one, one, none),
             "channel before": padded(none, one, one, (1, 0)), "channel after": padded(none, one, one, (0, 1)),
             "channel of rank 3": padded(one, one, (0, 1)), "both ways": padded((1, -1), one, one, none),
             "computed": ops.pad(is_constant=False)},
        ),
        "V-PAD-3": (
            {"int32": ops.pad()},
            {str(dtype): ops.pad(table_type=dtype) for dtype in (INT64, INT16, INT8)},
        ),
    }  # fmt: skip


def resizes() -> dict[str, tuple[Models, Models]]:
    def models(align: bool, *pairs: tuple[tuple[int, int], tuple[int, int]]) -> Models:
        return {f"{pair} {align}": ops.resize(*pair, align_corners=align) for pair in pairs}

    ones = ((1, 1), (5, 7)), ((1, 1), (1, 1)), ((1, 1), (40, 1))
    equal = ((6, 8), (6, 8)), ((3, 1), (3, 1))
    one_by = ((1, 6), (5, 7)), ((6, 1), (5, 7)), ((1, 2), (1, 3)), ((2, 1), (3, 1))
    unequal = ((6, 8), (8, 6)), ((6, 8), (6, 9)), ((6, 8), (7, 8))
    aligned = ((6, 8), (11, 15)), ((2, 2), (3, 3)), ((1, 5), (1, 9))
    misaligned = ((6, 8), (12, 16)), ((6, 8), (11, 16)), ((6, 8), (12, 15)), ((6, 8), (21, 29)), ((6, 8), (24, 32))
    doubled = ((6, 8), (12, 16)), ((2, 2), (4, 4)), ((1, 5), (2, 10))
    other = ((6, 8), (11, 15)), ((6, 8), (12, 15)), ((6, 8), (11, 16)), ((6, 8), (18, 24)), ((6, 8), (24, 32)), ((6, 8), (3, 4))
    half = {str(align): ops.resize(align_corners=align, half_pixel_centers=True) for align in (False, True)}
    half["equal"] = ops.resize((6, 8), (6, 8), half_pixel_centers=True)
    return {
        "V-RSZ-1a": (models(False, *ones) | models(True, *ones), models(False, one_by[0], one_by[1])),
        "V-RSZ-1b": (models(False, *equal) | models(True, *equal), models(False, *unequal) | models(True, *unequal)),
        "V-RSZ-1c": (models(True, *aligned), models(True, *misaligned)),
        "V-RSZ-1d": (models(False, *doubled), models(False, *other, *one_by)),
        "V-RSZ-2": ({"false": ops.resize()}, half),
    }


DENSE_TYPES = {dtype: ops.fully_connected(weights=ops.tensor((8, 16), dtype, data=1)) for dtype in (INT8, UINT8, INT16, F32)}
DENSE_BIASES = {dtype: ops.fully_connected(bias=ops.tensor((8,), dtype, data=0)) for dtype in (INT32, INT64, INT16, INT8, F32)}
ROWS: dict[str, tuple[Models, Models]] = {
    "V-ADD-1": broadcasts("ADD"),
    "V-SUB-1": broadcasts("SUB"),
    "V-MUL-1": broadcasts("MUL"),
    **pools("V-AVG", "AVERAGE_POOL_2D"),
    **convolution("V-CONV", "CONV_2D"),
    **convolution("V-DW", "DEPTHWISE_CONV_2D"),
    "V-DW-10": (
        {str(sizes): depthwise(*sizes) for sizes in ((1, 8, 8), (8, 1, 8), (2, 1, 2), (1, 1, 1))},
        {str(sizes): depthwise(*sizes) for sizes in ((2, 2, 4), (8, 1, 16), (8, 1, 4), (8, 2, 8), (2, 4, 2))},
    ),
    "V-FC-1": (
        {str(dtype): DENSE_TYPES[dtype] for dtype in (INT8, UINT8)},
        {str(dtype): DENSE_TYPES[dtype] for dtype in (INT16, F32)},
    ),
    "V-FC-2": ({"constant": ops.fully_connected()}, {"computed": changed(ops.fully_connected(), 1, data=None)}),
    "V-FC-3": (
        {"absent": ops.fully_connected(bias=None), "int32": DENSE_BIASES[INT32]},
        {str(dtype): DENSE_BIASES[dtype] for dtype in (INT64, INT16, INT8, F32)},
    ),
    **pools("V-MAX", "MAX_POOL_2D"),
    **tables(),
    "V-RSH-1": (
        {"constant": ops.reshape(), "options": ops.reshape(shape="options")},
        {"computed": ops.reshape(shape="computed"), "absent": ops.reshape(shape="absent")},
    ),
    **resizes(),
}
GENERIC = {(row, kind): models for kind in MINIMAL for row, models in generic(kind).items()}


def _rule(row: str) -> str:
    return row[:-1] if row[-1].isalpha() else row


@pytest.mark.parametrize("row", [pytest.param(row, marks=pytest.mark.seed(row)) for row in ROWS])
def test_a_row_holds_inside_and_is_broken_outside(row: str) -> None:
    inside, outside = ROWS[row]
    assert {name for name, model in inside.items() if _rule(row) in violated(model)} == set()
    assert {name for name, model in outside.items() if _rule(row) not in violated(model)} == set()


GENERIC_CASES = [pytest.param(row, kind, marks=pytest.mark.seed(row, "V-T-4")) for row, kind in GENERIC]


@pytest.mark.parametrize(("row", "kind"), GENERIC_CASES)
def test_a_generic_row_holds_for_every_operator(row: str, kind: str) -> None:
    inside, outside = GENERIC[row, kind]
    assert {name for name, model in inside.items() if row in violated(model)} == set()
    assert {name for name, model in outside.items() if row not in violated(model)} == set()


def test_the_rows_with_an_activation_are_those_of_operators_that_have_one() -> None:
    fused = {"ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}
    assert {kind for row, kind in GENERIC if row == "V-GEN-3"} == fused | {"CONCATENATION"}
    assert {kind for row, kind in GENERIC if row == "V-GEN-2"} == set(LISTED)


@pytest.mark.seed("V-GEN-1")
def test_other_tensors_than_maps_and_weights_need_not_be_int8() -> None:
    """Bias, padding table, new shape and new size are int32 in every good model."""
    for kind, position in (("CONV_2D", 2), ("FULLY_CONNECTED", 2), ("PAD", 1), ("RESHAPE", 1), ("RESIZE_BILINEAR", 1)):
        assert MINIMAL[kind].graphs[0].tensors[position].dtype is INT32
        assert violated(MINIMAL[kind]) == set()


# The table as a whole


@pytest.mark.seed("V-T-1", "V-T-9")
def test_the_nineteen_operators_go_to_the_npu_and_no_other_operator_does() -> None:
    assert sorted(MINIMAL) == LISTED
    for kind in LISTED:
        assert check(MINIMAL[kind], profile="v0.1").ops[0].device is Device.NPU
    for kind in UNLISTED:
        placed = check(ops.unary(kind), profile="v0.1").ops[0]
        assert placed.device is Device.CPU
        assert [violation.rule for violation in placed.violations] == ["V-T-3"]


def mixed() -> Model:
    """ADD, ABS (not listed), CONV_2D with a stride of 4 (a broken limit), RELU."""
    tensors = [ops.tensor((1, 8, 8, 4)) for _ in range(4)]
    tensors += [ops.tensor((1, 2, 2, 4)), ops.tensor((1, 2, 2, 4)), ops.tensor((4, 1, 1, 4), data=1)]
    tensors += [ops.tensor((4,), INT32, data=0)]
    tensors = [replace(tensor, name=f"t{index}") for index, tensor in enumerate(tensors)]
    made = (
        Op("ADD", (0, 0), (1,), options.AddOptions()),
        Op("ABS", (1,), (2,)),
        Op("CONV_2D", (2, 6, 7), (4,), options.Conv2DOptions(SAME, 4, 4, FusedActivation.NONE, 1, 1)),
        Op("RELU", (4,), (5,)),
    )
    return Model((Graph("main", tuple(tensors), made, (0,), (5,)),))


@pytest.mark.seed("V-T-1", "V-T-2", "V-T-3", "V-T-6")
def test_a_compiled_model_keeps_the_operators_of_the_cpu_untouched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mixed.tflite"
    path.write_bytes(write_model(mixed()))
    compiled = npu.compile(path, target="ethos-u55-128", profile="v0.1")
    before, after = read_model(path).graphs[0], read_model(compiled.content).graphs[0]
    assert [op.name for op in after.ops] == ["ethos-u", "ABS", "CONV_2D", "ethos-u"]
    for old, new in ((1, 1), (2, 2)):
        assert after.ops[new].attributes == before.ops[old].attributes
        left, right = ([graph.tensors[i] for i in graph.ops[n].inputs] for graph, n in ((before, old), (after, new)))
        for one, other in zip(left, right, strict=True):
            assert (one.name, one.shape, one.dtype) == (other.name, other.shape, other.dtype)
            assert (one.data is None) == (other.data is None)
            assert one.data is None or one.data.tobytes() == other.data.tobytes()  # type: ignore[union-attr]
    inputs = random_inputs(path.read_bytes(), 3)
    np.testing.assert_array_equal(npu.run(compiled.content, inputs).outputs[0], npu.run(path, inputs).outputs[0])
    assert main(["check", str(path), "--profile", "v0.1", "--target", "ethos-u55-128"]) == 0
    text = capsys.readouterr().out
    assert "V-T-3" in text
    assert "V-CONV-1" in text
    assert "v0.1" in text
