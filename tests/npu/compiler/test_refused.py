"""What a placement puts on the NPU but the compiler does not lower runs on the CPU, says why, and equals the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npu
from npu.compiler.block_config import BlockChooser
from npu.compiler.compiler import compile_model
from npu.compiler.ir import Program
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.compiler.passes import lower_partitions
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph
from npu.graph.map_types import shown
from npu.graph.ops import MAP_TYPES
from npu.graph.placement import Device, OpPlacement, Placement
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.numerics.lstm_gates import LstmGates
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

I8 = DType.INT8
WEIGHTED: dict[str, tuple[tuple[int, ...], int, Attributes]] = {
    "CONV_2D": ((8, 3, 3, 4), 0, at.Conv2DOptions(Padding.SAME, 1, 1)),
    "DEPTHWISE_CONV_2D": ((1, 3, 3, 4), 3, at.DepthwiseConv2DOptions(Padding.SAME, 1, 1, 1)),
    "FULLY_CONNECTED": ((8, 4), 0, at.FullyConnectedOptions(keep_num_dims=True)),
}

TYPES = " or ".join(map(shown, MAP_TYPES["QUANTIZE"]))


def with_computed_bias(kind: str) -> bytes:
    """TANH, an operator whose bias is an input of the graph, RELU."""
    shape, axis, options = WEIGHTED[kind]
    channels, b = shape[axis], ModelBuilder()
    x = b.input((1, 5, 6, 4), I8, scale=0.02, zero_point=-3)
    bias = b.input((channels,), DType.INT32, scale=0.01 / 128)
    x = b.op("TANH", [x], (1, 5, 6, 4), I8, 1 / 128)
    weights = b.constant(np.random.default_rng(1).integers(-127, 128, shape).astype(np.int8), scale=0.01)
    y = b.op(kind, [x, weights, bias], (1, 5, 6, channels), I8, 0.05, 4, attributes=options)
    b.output(b.op("RELU", [y], (1, 5, 6, channels), I8, 0.04, -128))
    return b.build()


@pytest.mark.parametrize("kind", WEIGHTED)
@pytest.mark.seed("V-CONV-8", "V-DW-8", "V-FC-3")
def test_a_computed_bias_of_profile_v0_1_runs_on_the_cpu(kind: str) -> None:
    content = with_computed_bias(kind)
    assert [op.device for op in npu.check(content, profile="v0.1").ops] == [Device.NPU] * 3
    compiled = npu.compile(content, profile="v0.1")
    (violation,) = compiled.compiled_model.placement.ops[1].violations
    assert violation.rule == "LOWERING"
    assert violation.message == f"{kind} cannot be lowered: bias must be constant"
    assert [op.name for op in read_model(compiled.content).graphs[0].ops] == ["ethos-u", kind, "ethos-u"]
    inputs = random_inputs(content, 3)
    inputs[1] = inputs[1] % 4000
    result = npu.run(compiled.content, inputs)
    for ours, theirs in zip(result.outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert npu.run(content, inputs, profile="v0.1").report.operators[1].reasons == (violation.message,)


def everything(content: bytes) -> Placement:
    ops = enumerate(read_model(content).graphs[0].ops)
    return Placement("all", tuple(OpPlacement(0, index, op.kind, op.name) for index, op in ops))


def test_every_operator_that_cannot_be_lowered_is_named_at_once() -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 4), DType.FLOAT32)
    y = b.op("SIN", [x], (1, 4, 4, 4), DType.FLOAT32)
    y = b.op("QUANTIZE", [y], (1, 4, 4, 4), I8, 0.02)
    z = b.op("ABS", [y], (1, 4, 4, 4), I8, 0.02)
    b.output(b.op("ABS", [z], (1, 4, 4, 4), I8, 0.02))
    content = b.build()
    compiled = compile_model(read_model(content), everything(content), BlockChooser(load_variant("ethos-u55-128")))
    reasons = [[violation.message for violation in op.violations] for op in compiled.placement.ops]
    assert reasons == [
        ["SIN cannot be lowered: must be one that the NPU can run, see LOWERED"],
        ["QUANTIZE cannot be lowered: feature maps must be of type " + TYPES + ", got float32, int8"],
        [],
        [],
    ]
    assert [partition.ops for partition in compiled.partitions] == [(2, 3)]


def test_an_operator_without_scale_is_named_by_its_tensor() -> None:
    b = ModelBuilder()
    x = b.input((4, 4), I8, scale=0.1)
    b.output(b.op("RELU", [x], (4, 4), I8, 0.1))
    model = read_model(b.build())
    graph = model.graphs[0]
    bare = tuple(replace(tensor, quantization=None) for tensor in graph.tensors)
    model = replace(model, graphs=(replace(graph, tensors=bare),))
    placement = Placement("all", (OpPlacement(0, 0, "RELU", "RELU"),))
    compiled = compile_model(model, placement, BlockChooser(load_variant("ethos-u55-128")))
    (violation,) = compiled.placement.ops[0].violations
    assert violation.message == "RELU cannot be lowered: tensor 0 (t0): must have a quantization scale, got none"


def test_an_operator_that_only_fails_with_its_neighbours_is_the_one_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[str] = []

    def lower(graph: Graph, ops: Sequence[int], variant: Variant, lstm_gates: LstmGates, **options: Any) -> Program:
        alone.extend(graph.ops[index].kind for index in ops if len(ops) == 1)
        if len(ops) > 1:
            raise LoweringError(1, graph.ops[1], "must stand alone")
        return lower_partition(graph, ops, variant, lstm_gates, **options)

    monkeypatch.setattr(lower_partitions, "lower_partition", lower)
    b = ModelBuilder()
    x = b.input((4, 4), I8, scale=0.1)
    y = b.op("ABS", [x], (4, 4), I8, 0.1)
    z = b.op("ABS", [y], (4, 4), I8, 0.1)
    b.output(b.op("TANH", [z], (4, 4), I8, 1 / 128))
    compiled = compile_model(read_model(b.build()), everything(b.build()), BlockChooser(load_variant("ethos-u55-128")))
    assert [op.device for op in compiled.placement.ops] == [Device.NPU, Device.CPU, Device.NPU]
    assert alone == ["ABS", "ABS", "ABS", "TANH"]  # both of the kind that was refused, and then what is left in two parts
    assert compiled.placement.ops[1].violations[0].message == "ABS cannot be lowered: must stand alone"


def scaled(kind: str, source: float, target: float) -> bytes:
    b = ModelBuilder()
    x = b.input((1, 2, 2, 4), I8, scale=source)
    b.output(b.op(kind, [x], (1, 2, 2, 4), I8, target, 3))
    return b.build()


def test_a_rectifier_whose_bound_is_beyond_float32_in_its_output_steps_never_reaches_it() -> None:
    content = scaled("RELU6", 1e-41, 1e-41)
    values = np.arange(-8, 8, dtype=np.int8).reshape(1, 2, 2, 4)
    result = npu.run(content, [values])
    assert result.report.operators[0].placement == "npu"
    np.testing.assert_array_equal(result.outputs[0], np.maximum(values, 0) + 3)


@pytest.mark.parametrize(("kind", "source", "target"), [("RELU", 1.0, 1e-41), ("HARD_SWISH", 3e38, 3e38)])
def test_a_factor_beyond_float32_is_a_reason_and_no_warning(kind: str, source: float, target: float) -> None:
    model = read_model(scaled(kind, source, target))
    placement = Placement("all", (OpPlacement(0, 0, kind, kind),))
    compiled = compile_model(model, placement, BlockChooser(load_variant("ethos-u55-128")))
    (violation,) = compiled.placement.ops[0].violations
    assert violation.rule == "LOWERING"
    assert "inf" in violation.message


ACTIVATIONS = (FusedActivation.RELU, FusedActivation.RELU6, FusedActivation.RELU_N1_TO_1)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda activation: activation.name)
@pytest.mark.parametrize(("kind", "options"), [("ADD", at.AddOptions), ("SUB", at.SubOptions), ("MUL", at.MulOptions)])
def test_int32_arithmetic_keeps_its_fused_activation(kind: str, options: Any, activation: FusedActivation) -> None:
    """The NPU does not clamp results of 32 bits, so such an operator stays on the CPU, whoever places it."""
    b = ModelBuilder()
    inputs = [b.input((1, 1, 1, 8), DType.INT32) for _ in range(2)]
    b.output(b.op(kind, inputs, (1, 1, 1, 8), DType.INT32, attributes=options(activation)))
    content = b.build()
    values = [np.array([[[numbers]]], np.int32) for numbers in ([-5, -1, 0, 1, 3, 7, 9, -9], [-4, 1, 0, 5, 3, -7, 2, 8])]
    np.testing.assert_array_equal(npu.run(content, values).outputs[0], run_reference(content, values)[0])
    compiled = compile_model(read_model(content), everything(content), BlockChooser(load_variant("ethos-u55-128")))
    (violation,) = compiled.placement.ops[0].violations
    assert "fused activation of int32 maps must be NONE" in violation.message


@pytest.mark.parametrize("value", [(1 << 15) - 1, 1 << 15, -(1 << 15), -(1 << 15) - 1, (1 << 31) - 1])
@pytest.mark.parametrize("is_first", [False, True])
def test_one_number_of_32_bits_is_an_operand(value: int, is_first: bool) -> None:
    """A register holds a constant of one element where it has 16 bits; others are read from memory."""
    b = ModelBuilder()
    x, y = b.input((1, 2, 3, 8), DType.INT32), b.constant(np.full((1, 1, 1, 1), value, np.int32))
    b.output(b.op("SUB", [y, x] if is_first else [x, y], (1, 2, 3, 8), DType.INT32, attributes=at.SubOptions()))
    content, values = b.build(), [np.arange(-24, 24, dtype=np.int32).reshape(1, 2, 3, 8) * 44_000]
    compiled = npu.compile(content)
    assert compiled.compiled_model.partitions
    assert npu.verify(compiled.content) == []
    np.testing.assert_array_equal(npu.run(compiled.content, values).outputs[0], run_reference(content, values)[0])


def test_operators_on_the_cpu_for_lack_of_memory_are_named() -> None:
    """SOFTMAX of 4 KiB has maps of 32 bits in between."""
    b = ModelBuilder()
    x = b.op("RELU", [b.input((1, 64, 64), I8, scale=0.05)], (1, 64, 64), I8, 0.05)
    b.output(b.op("SOFTMAX", [x], (1, 64, 64), I8, 1 / 256, -128, attributes=at.SoftmaxOptions(1.0)))
    compiled = npu.compile(b.build(), arena_cache_size=9000)
    assert [op.index for op in compiled.compiled_model.placement.ops if op.lacks_memory] == [1]
    told = "for lack of memory on the CPU: operator 1; not even in stripes within the 9,000 bytes that the arena may have"
    assert told in (compiled.report.notes or ())
