"""Profile v0.1: the published list row for row, and every limit on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from constraints.checker import check
from constraints.rule import AtMost, Exactly, Limit, OneOf, Predicate, Range, Rule
from constraints.v0_1 import PROFILE
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Model, Tensor
from npu.graph.placement import Device

from tests.support import single_ops as ops

# The published list: operator -> number of specific limits.
SPECIFIC = {
    "ADD": 1, "AVERAGE_POOL_2D": 5, "CONCATENATION": 0, "CONV_2D": 9, "DEPTHWISE_CONV_2D": 10, "FULLY_CONNECTED": 3,
    "LOGISTIC": 0, "MAX_POOL_2D": 4, "MUL": 1, "PACK": 0, "PAD": 3, "RELU": 0, "RELU6": 0, "RELU_N1_TO_1": 0, "RESHAPE": 1,
    "RESIZE_BILINEAR": 2, "SOFTMAX": 0, "SUB": 1, "TANH": 0,
}  # fmt: skip
WINDOWS = {"1": (1, 3), "2": (1, 2), "3": (1, 64), "4": (1, 4096)}
# The numbers of the published list.
RANGES = {
    "V-GEN-2": (1, 65535),
    "V-AVG-2": (1, 3),
    "V-AVG-3": (1, 8),
    "V-AVG-4": (1, 256),
    "V-AVG-5": (1, 65536),
    "V-MAX-2": (1, 3),
    "V-MAX-3": (1, 256),
    "V-MAX-4": (1, 65536),
    **{f"V-CONV-{number}": limits for number, limits in WINDOWS.items()},
    **{f"V-DW-{number}": limits for number, limits in WINDOWS.items()},
}
LARGEST = {"V-CONV-7": 8323072, "V-DW-7": 8323072}
EXACT = {
    "V-GEN-1": DType.INT8, "V-GEN-4": DType.INT8, "V-AVG-1": 1, "V-MAX-1": 1, "V-CONV-6": "constant", "V-DW-6": "constant",
    "V-CONV-8": DType.INT32, "V-DW-8": DType.INT32, "V-CONV-9": 1, "V-DW-9": 1, "V-FC-2": "constant", "V-FC-3": DType.INT32,
    "V-PAD-2": 0, "V-PAD-3": DType.INT32, "V-RSH-1": "constant", "V-RSZ-2": False,
}  # fmt: skip
LISTS = {
    "V-GEN-3": ("LOGISTIC", "RELU", "RELU6", "RELU_N1_TO_1", "TANH"),
    "V-PAD-1": ((3, 2), (4, 2)),
}
CONDITIONS = {"V-ADD-1", "V-SUB-1", "V-MUL-1", "V-CONV-5", "V-DW-5", "V-FC-1", "V-DW-10", "V-RSZ-1"}
RULES = {rule.id: rule for rule in PROFILE.rules}


def violated(model: Model) -> set[str]:
    return {violation.rule for violation in check(model, profile="v0.1").ops[0].violations}


# The table against the published list


@pytest.mark.seed("V-T-9", "V-T-7", "V-T-8")
def test_the_operators_are_the_nineteen_of_the_list() -> None:
    assert PROFILE.operators == tuple(sorted(SPECIFIC))
    assert len(PROFILE.operators) == 19


@pytest.mark.seed("V-T-4")
def test_there_are_four_generic_and_forty_specific_limits() -> None:
    form = PROFILE.rule_sets[0]
    assert [rule.id for rule in form.generic] == ["V-GEN-1", "V-GEN-2", "V-GEN-3", "V-GEN-4"]
    assert {kind: len(form.specific(kind)) for kind in form.operators} == SPECIFIC
    assert sum(SPECIFIC.values()) == 40


def _value(limit: Limit) -> Any:
    if isinstance(limit, Range):
        return limit.low, limit.high
    if isinstance(limit, AtMost):
        return limit.high
    if isinstance(limit, Exactly):
        return limit.value
    return limit.values if isinstance(limit, OneOf) else None


def test_every_limit_has_the_number_of_the_list() -> None:
    numbers = {**RANGES, **LARGEST, **EXACT, **LISTS}
    assert {identifier: _value(rule.limit) for identifier, rule in RULES.items() if identifier not in CONDITIONS} == numbers
    assert set(RULES) - set(numbers) == CONDITIONS
    assert all(isinstance(RULES[identifier].limit, Predicate) for identifier in CONDITIONS)


@pytest.mark.seed("V-T-6")
def test_the_version_is_that_of_the_list() -> None:
    assert PROFILE.version == "0.1"


# Every limit on both sides: rule -> a model that has the value. Values come from the rules' own limits.


def _activation(name: str) -> Model:
    model = ops.conv()
    members = {member.name: member for member in FusedActivation}
    if name in members:
        return ops.conv(activation=members[name])
    graph = model.graphs[0]
    options = type("Options", (), {"fused_activation_function": type("Name", (), {"name": name})})()
    fields = {field: getattr(graph.ops[0].attributes, field) for field in type(graph.ops[0].attributes).__dataclass_fields__}
    for field, value in fields.items():
        if field != "fused_activation_function":
            setattr(options, field, value)
    return replace(model, graphs=(replace(graph, ops=(replace(graph.ops[0], attributes=options),)),))


def _with_output_type(dtype: DType) -> Model:
    model = ops.conv(activation=FusedActivation.RELU)
    graph = model.graphs[0]
    return replace(model, graphs=(replace(graph, tensors=(*graph.tensors[:-1], replace(graph.tensors[-1], dtype=dtype))),))


def _weights_with_sum(kind: str, total: int) -> Model:
    """Two output channels; the second has the wanted sum, made of -128, -127 and a rest, around a zero point of -1."""
    count = 65600
    values = np.full(count, -1, np.int64)  # distance 0 to the zero point
    full, rest = divmod(total, 127)
    values[:full] = -128
    values[full] = rest - 1
    channels = np.stack([np.full(count, -1, np.int64), values])
    shape = (1, 1, count, 2) if kind == "DEPTHWISE_CONV_2D" else (2, 1, count, 1)
    data = channels.T if kind == "DEPTHWISE_CONV_2D" else channels
    weights = Tensor("w", shape, DType.INT8, ops.quantization(0.1, zero_point=-1), data.reshape(shape).astype(np.int8))
    return ops.conv(kind=kind, ifm=(1, 8, 8, 2 if kind == "DEPTHWISE_CONV_2D" else 1), out_channels=2, weights=weights)


def _factors(product: int) -> tuple[int, int]:
    """Height and width with a given product, neither of them larger than it must be."""
    height = next((side for side in range(min(64, product), 0, -1) if product % side == 0), 1)
    return height, product // height


Make = Callable[[Any], Model]


def _convolutions() -> dict[str, Make]:
    made: dict[str, Make] = {}
    for prefix, kind in (("V-CONV", "CONV_2D"), ("V-DW", "DEPTHWISE_CONV_2D")):

        def build(kind: str = kind, **arguments: Any) -> Model:
            return ops.conv(kind=kind, **arguments)

        shape = (8, 3, 3, 4) if kind == "CONV_2D" else (1, 3, 3, 4)
        channels = 8 if kind == "CONV_2D" else 4
        made |= {
            f"{prefix}-1": lambda v, build=build: build(stride=(1, v)),
            f"{prefix}-2": lambda v, build=build: build(dilation=(v, 1)),
            f"{prefix}-3": lambda v, build=build: build(kernel=(v, 1)),
            f"{prefix}-4": lambda v, build=build: build(kernel=_factors(v) if v > 0 else (0, 1)),
            f"{prefix}-5": lambda v, build=build, s=shape: build(weights=ops.tensor(s, v, data=1)),
            f"{prefix}-6": lambda v, build=build, s=shape: build(weights=ops.tensor(s, data=1 if v == "constant" else None)),
            f"{prefix}-7": lambda v, kind=kind: _weights_with_sum(kind, v),
            f"{prefix}-8": lambda v, build=build, n=channels: build(bias=ops.tensor((n,), v, data=0)),
            f"{prefix}-9": lambda v, build=build: build(ifm=(v, 8, 8, 4)),
        }
    return made  # fmt: skip


MAKERS: dict[str, Make] = {
    "V-GEN-1": lambda v: ops.unary("RELU", dtype=v),
    "V-GEN-2": lambda v: ops.unary("RELU", (1, 2, v, 4)),
    "V-GEN-3": _activation,
    "V-GEN-4": _with_output_type,
    "V-ADD-1": lambda v: ops.binary("ADD", v),
    "V-SUB-1": lambda v: ops.binary("SUB", v),
    "V-MUL-1": lambda v: ops.binary("MUL", v),
    "V-AVG-1": lambda v: ops.pool(ifm=(v, 8, 8, 4)),
    "V-AVG-2": lambda v: ops.pool(stride=(v, 1)),
    "V-AVG-3": lambda v: ops.pool(window=(1, v)),
    "V-AVG-4": lambda v: ops.pool(window=(v, 1), padding=Padding.VALID),
    "V-AVG-5": lambda v: ops.pool(window=(1, v), padding=Padding.VALID),
    "V-MAX-1": lambda v: ops.pool(kind="MAX_POOL_2D", ifm=(v, 8, 8, 4)),
    "V-MAX-2": lambda v: ops.pool(kind="MAX_POOL_2D", stride=(1, v)),
    "V-MAX-3": lambda v: ops.pool(kind="MAX_POOL_2D", window=(v, 1)),
    "V-MAX-4": lambda v: ops.pool(kind="MAX_POOL_2D", window=(1, v)),
    "V-DW-10": lambda v: _depthwise(*v),
    "V-FC-1": lambda v: ops.fully_connected(weights=ops.tensor((8, 16), v, data=1)),
    "V-FC-2": lambda v: ops.fully_connected(weights=ops.tensor((8, 16), data=1 if v == "constant" else None)),
    "V-FC-3": lambda v: ops.fully_connected(bias=ops.tensor((8,), v, data=0)),
    "V-PAD-1": lambda v: ops.pad(np.zeros(v, np.int32).tolist()),
    "V-PAD-2": lambda v: ops.pad(((0, 0), (1, 1), (1, 1), (0, v))),
    "V-PAD-3": lambda v: ops.pad(table_type=v),
    "V-RSH-1": lambda v: ops.reshape(shape=v),
    "V-RSZ-1": lambda v: ops.resize(v[0], v[1], align_corners=v[2]),
    "V-RSZ-2": lambda v: ops.resize(half_pixel_centers=v),
    **_convolutions(),
}


def _depthwise(multiplier: int, ifm_channels: int, ofm_channels: int) -> Model:
    model = ops.conv(kind="DEPTHWISE_CONV_2D", ifm=(1, 8, 8, ifm_channels), multiplier=multiplier)
    graph = model.graphs[0]
    ofm = replace(graph.tensors[-1], shape=(1, 8, 8, ofm_channels))
    return replace(model, graphs=(replace(graph, tensors=(*graph.tensors[:-1], ofm)),))


def test_every_rule_has_a_boundary_test() -> None:
    assert set(MAKERS) == set(RULES)


def _boundaries() -> list[Any]:
    return [
        pytest.param(rule, value, accepted, marks=pytest.mark.seed(rule.id), id=f"{rule.id}-{value}-{accepted}")
        for rule in PROFILE.rules
        for value, accepted in rule.limit.boundaries
    ]


@pytest.mark.parametrize(("rule", "value", "accepted"), _boundaries())
def test_a_limit_accepts_inside_and_refuses_outside(rule: Rule, value: Any, accepted: bool) -> None:
    model = MAKERS[rule.id](value)
    assert (rule.id not in violated(model)) is accepted


def test_every_rule_is_tested_on_both_sides() -> None:
    for rule in PROFILE.rules:
        assert {accepted for _, accepted in rule.limit.boundaries} == {True, False}, rule.id


# Named cases of the list's wording, expected values written out

CASES: dict[str, tuple[Model, set[str]]] = {
    "average_same_8x8": (ops.pool(window=(8, 8)), set()),
    "average_same_9x8": (ops.pool(window=(9, 8)), {"V-AVG-3"}),
    "average_valid_9x9": (ops.pool(window=(9, 9), padding=Padding.VALID), set()),
    "average_valid_256x256": (ops.pool(window=(256, 256), padding=Padding.VALID), set()),
    "average_valid_256x257": (ops.pool(window=(256, 257), padding=Padding.VALID), {"V-AVG-5"}),
    "average_valid_257x256": (ops.pool(window=(257, 256), padding=Padding.VALID), {"V-AVG-4", "V-AVG-5"}),
    "max_same_256x256": (ops.pool(kind="MAX_POOL_2D", window=(256, 256)), set()),
    "max_valid_257x1": (ops.pool(kind="MAX_POOL_2D", window=(257, 1), padding=Padding.VALID), {"V-MAX-3"}),
    "stride_width": (ops.conv(stride=(1, 4)), {"V-CONV-1"}),
    "stride_height": (ops.conv(stride=(4, 1)), {"V-CONV-1"}),
    "stride_zero": (ops.conv(stride=(0, 1)), {"V-CONV-1"}),
    "dilated_height_65": (ops.conv(kernel=(33, 1), dilation=(2, 1)), {"V-CONV-3"}),
    "dilated_height_63": (ops.conv(kernel=(32, 1), dilation=(2, 1)), set()),
    "kernel_64x64": (ops.conv(kernel=(64, 64)), set()),
    "kernel_64x65": (ops.conv(kernel=(64, 65)), {"V-CONV-4"}),
    "no_bias": (ops.conv(bias=None), set()),
    "dense_no_bias": (ops.fully_connected(bias=None), set()),
    "several_at_once": (ops.conv(ifm=(2, 8, 8, 4), stride=(4, 1), dilation=(1, 3)), {"V-CONV-1", "V-CONV-2", "V-CONV-9"}),
    "depthwise_multiplier": (ops.conv(kind="DEPTHWISE_CONV_2D", ifm=(1, 8, 8, 2), multiplier=2), {"V-DW-10"}),
    "pad_rank_3_plane": (ops.pad(((1, 1), (1, 1), (0, 0))), set()),
    "pad_rank_3_channel": (ops.pad(((1, 1), (1, 1), (0, 1))), {"V-PAD-2"}),
    "pad_batch": (ops.pad(((1, 0), (1, 1), (1, 1), (0, 0))), {"V-PAD-2"}),
    "pad_computed": (ops.pad(is_constant=False), {"V-PAD-2"}),
    "reshape_from_options": (ops.reshape(shape="options"), set()),
    "reshape_without_shape": (ops.reshape(shape="absent"), {"V-RSH-1"}),
    "uint8_activations": (ops.unary("LOGISTIC", dtype=DType.UINT8), {"V-GEN-1"}),
    "int16_activations": (ops.unary("TANH", dtype=DType.INT16), {"V-GEN-1"}),
    "float_add": (ops.binary("ADD", dtype=DType.FLOAT32), {"V-GEN-1"}),
    "float_conv_relu": (ops.conv(dtype=DType.FLOAT32, activation=FusedActivation.RELU),
                        {"V-GEN-1", "V-GEN-4", "V-CONV-5", "V-CONV-8"}),
    "sign_bit": (ops.conv(activation=FusedActivation.SIGN_BIT), {"V-GEN-3"}),
    "softmax": (ops.unary("SOFTMAX"), set()),
    "pack": (ops.join("PACK", 3), set()),
    "concatenation_of_nine": (ops.join(count=9), set()),
    "minimum_is_not_listed": (ops.binary("MINIMUM"), {"V-T-3"}),
    "mean_is_not_listed": (ops.unary("MEAN"), {"V-T-3"}),
}  # fmt: skip


@pytest.mark.seed("V-T-1", "V-T-2", "V-T-3")
@pytest.mark.parametrize("case", CASES)
def test_exactly_the_broken_limits_are_named(case: str) -> None:
    model, expected = CASES[case]
    assert violated(model) == expected
    placed = check(model, profile="v0.1").ops[0]
    assert placed.device is (Device.CPU if expected else Device.NPU)


MINIMAL = {
    **{kind: ops.unary(kind) for kind in ("LOGISTIC", "RELU", "RELU6", "RELU_N1_TO_1", "SOFTMAX", "TANH")},
    **{kind: ops.binary(kind) for kind in ("ADD", "SUB", "MUL")},
    **{kind: ops.pool(kind=kind) for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{kind: ops.conv(kind=kind) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D")},
    **{kind: ops.join(kind) for kind in ("CONCATENATION", "PACK")},
    "FULLY_CONNECTED": ops.fully_connected(),
    "PAD": ops.pad(),
    "RESHAPE": ops.reshape(),
    "RESIZE_BILINEAR": ops.resize(),
}


@pytest.mark.parametrize("kind", SPECIFIC)
def test_every_listed_operator_can_go_to_the_npu(kind: str) -> None:
    assert violated(MINIMAL[kind]) == set()


def test_a_message_names_the_limit_and_every_offending_value() -> None:
    violation = check(ops.conv(stride=(4, 5)), profile="v0.1").ops[0].violations[0]
    assert violation.message == "stride width and height must each be in the range [1, 3], got stride width 5, stride height 4"
    assert (violation.limit, violation.value) == ("in the range [1, 3]", "stride width 5, stride height 4")
    assert violation.fix is not None
