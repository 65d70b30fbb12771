"""Floats between 8-bit tensors: the compiler looks results up, which equal the reference's; what is no function stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import npu
from npu.fixes.lookups import with_lookups
from npu.graph import attributes as at
from npu.graph.cpu_cost import cpu_cycles
from npu.graph.dtype import DType
from npu.graph.lookups import islands
from npu.graph.placement import Device
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from npu.toolchain.sources import reduced

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

I8, U8, F32 = DType.INT8, DType.UINT8, DType.FLOAT32
MAP = (1, 5, 6, 3)
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def number(b: ModelBuilder, value: float, shape: Sequence[int] = (1,)) -> int:
    return b.constant(np.full(shape, value, np.float32))


OPTIONS: dict[str, at.Attributes] = {
    "ADD": at.AddOptions(), "DIV": at.DivOptions(), "LEAKY_RELU": at.LeakyReluOptions(0.1), "MUL": at.MulOptions(),
    "SUB": at.SubOptions(),
}  # fmt: skip
Chain = Callable[[ModelBuilder, int], int]


def chain(*steps: tuple[str, float | None]) -> Chain:
    """Operators one after the other; each with a number as its second operand, or none."""

    def build(b: ModelBuilder, x: int) -> int:
        for kind, operand in steps:
            x = b.op(kind, [x] if operand is None else [x, number(b, operand)], MAP, F32, attributes=OPTIONS.get(kind))
        return x

    return build


def of_itself(b: ModelBuilder, x: int) -> int:
    """A function with two ways from its operand."""
    square = b.op("SQUARE", [x], MAP, F32)
    return b.op("ADD", [square, b.op("ABS", [x], MAP, F32)], MAP, F32, attributes=at.AddOptions())


CHAINS: dict[str, Chain] = {
    "nothing": chain(),
    "into the range of a camera": chain(("MUL", 1 / 127.5), ("SUB", 1.0)),
    "root": chain(("ABS", None), ("SQRT", None)),
    "steps": chain(("DIV", 7.0), ("FLOOR", None), ("MUL", 7.0)),
    "clamped": chain(("MAXIMUM", -3.0), ("MINIMUM", 4.5), ("RELU6", None), ("NEG", None)),
    "leaking": chain(("LEAKY_RELU", None)),
    "with a slope": chain(("PRELU", 0.3), ("RELU_0_TO_1", None)),
    "a hard gate": chain(("HARD_SWISH", None)),
    "its own square": of_itself,
}


def island(
    name: str, *, source: DType = U8, target: DType = I8, begins_with: str = "CAST", quantization: dict[str, Any] | None = None
) -> bytes:  # fmt: skip
    b = ModelBuilder()
    x = b.input(MAP, source, **(quantization or {}))
    y = CHAINS[name](b, b.op(begins_with, [x], MAP, F32))
    b.output(b.op("QUANTIZE", [y], MAP, target, 0.05, 3))
    return b.build()


def kinds(content: bytes) -> list[str]:
    return [op.name for op in read_model(content).graphs[0].ops]


def assert_exact(model: bytes, compiled: bytes, inputs: list[npt.NDArray[Any]] | None = None) -> None:
    given = random_inputs(model, 3) if inputs is None else inputs
    for found, wanted in zip(npu.run(compiled, given).outputs, run_reference(model, given, fully_connected="npu"), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("source", "target"), [(U8, I8), (I8, I8), (U8, U8), (I8, U8)])
def test_all_values_of_an_island_are_looked_up(name: str, source: DType, target: DType) -> None:
    ways: list[tuple[str, dict[str, Any]]] = [("CAST", {}), ("DEQUANTIZE", {"scale": 0.07, "zero_point": 9})]
    for begins_with, quantization in ways:
        model = island(name, source=source, target=target, begins_with=begins_with, quantization=quantization)
        values = np.resize(np.arange(256), MAP)  # all that fit
        rest = np.resize(np.arange(256)[::-1], MAP)
        for target_name in TARGETS:
            compiled = npu.compile(model, target=target_name)
            assert kinds(compiled.content) == ["ethos-u"]
            for given in (values, rest):
                assert_exact(model, compiled.content, [given.astype(np.uint8).view(source.numpy)])
            assert npu.verify(compiled.content) == []


def test_an_island_is_a_table_of_the_convolution_before_it() -> None:
    b, rng = ModelBuilder(), np.random.default_rng(4)
    x = b.input((1, 8, 8, 4), I8, scale=0.1, zero_point=-3)
    weights = b.constant(rng.integers(-127, 128, (6, 3, 3, 4)).astype(np.int8), scale=0.01)
    bias = b.constant(rng.integers(-500, 500, 6).astype(np.int32), scale=0.001)
    y = b.op("CONV_2D", [x, weights, bias], (1, 8, 8, 6), I8, 0.2, 4, attributes=at.Conv2DOptions(at.Padding.SAME, 1, 1))
    root = b.op("SQRT", [b.op("ABS", [b.op("DEQUANTIZE", [y], (1, 8, 8, 6), F32)], (1, 8, 8, 6), F32)], (1, 8, 8, 6), F32)
    b.output(b.op("QUANTIZE", [root], (1, 8, 8, 6), I8, 0.03, -20))
    compiled = npu.compile(b.build())
    assert kinds(compiled.content) == ["ethos-u"]
    assert len(compiled.compiled_model.partitions[0].program.steps) == 1
    assert_exact(b.build(), compiled.content)


@pytest.mark.parametrize(
    ("shape", "expected"), [((1, 64, 64, 3), ["DEQUANTIZE", "ethos-u"]), (MAP, ["ABS", "DEQUANTIZE", "QUANTIZE"])]
)
def test_what_others_read_is_still_computed(shape: Sequence[int], expected: list[str]) -> None:
    """A job of its own is not worth a look-up of few values."""
    b = ModelBuilder()
    x = b.input(shape, I8, scale=0.1)
    floats = b.op("DEQUANTIZE", [x], shape, F32)
    b.output(floats, b.op("QUANTIZE", [b.op("ABS", [floats], shape, F32)], shape, I8, 0.05, 3))
    compiled = npu.compile(b.build())
    assert sorted(kinds(compiled.content)) == expected
    assert_exact(b.build(), compiled.content)


def _of_two(b: ModelBuilder, x: int) -> int:
    y = b.op("DEQUANTIZE", [b.input(MAP, I8, scale=0.3)], MAP, F32)
    return b.op("ADD", [b.op("DEQUANTIZE", [x], MAP, F32), y], MAP, F32, attributes=at.AddOptions())


def _of_vector(b: ModelBuilder, x: int) -> int:
    numbers = b.constant(np.array([1, 2, 3], np.float32))
    return b.op("MUL", [b.op("DEQUANTIZE", [x], MAP, F32), numbers], MAP, F32, attributes=at.MulOptions())


def _of_library(b: ModelBuilder, x: int) -> int:
    return b.op("EXP", [b.op("DEQUANTIZE", [x], MAP, F32)], MAP, F32)


def _of_all(b: ModelBuilder, x: int) -> int:
    return b.op("SOFTMAX", [b.op("DEQUANTIZE", [x], MAP, F32)], MAP, F32, attributes=at.SoftmaxOptions(1.0))


@pytest.mark.parametrize("build", [_of_two, _of_vector, _of_library, _of_all])
def test_other_floats_stay_as_they_are(build: Chain) -> None:
    """Of two tensors, of a vector, by a library's function, of other elements."""
    b = ModelBuilder()
    y = build(b, b.input(MAP, I8, scale=0.1))
    b.output(b.op("QUANTIZE", [y], MAP, I8, 0.05, 3))
    model = read_model(b.build())
    assert islands(model.graphs[0]) == []
    assert {op.device for op in npu.check(b.build()).ops} == {Device.CPU}


def test_a_lookup_on_the_cpu_is_what_the_file_has() -> None:
    """Profile v0.1 has no QUANTIZE."""
    b = ModelBuilder()
    x = b.input(MAP, U8, scale=0.1)
    y = b.op("QUANTIZE", [CHAINS["root"](b, b.op("DEQUANTIZE", [x], MAP, F32))], MAP, I8, 0.05, 3)
    b.output(y, b.op("ADD", [y, y], MAP, I8, 0.1, 0, attributes=at.AddOptions()))
    compiled = npu.compile(b.build(), profile="v0.1")
    assert kinds(compiled.content) == ["DEQUANTIZE", "ABS", "SQRT", "QUANTIZE", "ethos-u"]
    assert_exact(b.build(), compiled.content)


def test_two_lookups_on_the_cpu_share_what_is_before_them() -> None:
    b = ModelBuilder()
    floats = CHAINS["root"](b, b.op("DEQUANTIZE", [b.input(MAP, U8, scale=0.1)], MAP, F32))
    b.output(*(b.op("QUANTIZE", [floats], MAP, I8, scale, 3) for scale in (0.05, 0.07)))
    compiled = npu.compile(b.build(), profile="v0.1")
    assert kinds(compiled.content) == ["DEQUANTIZE", "ABS", "SQRT", "QUANTIZE", "QUANTIZE"]
    assert_exact(b.build(), compiled.content)


def test_a_file_with_operators_in_a_circle_has_no_islands() -> None:
    model = read_model(island("root"))
    graph = model.graphs[0]
    ops = list(graph.ops)
    ops[1] = replace(ops[1], inputs=ops[2].outputs)
    assert islands(replace(graph, ops=tuple(ops))) == []


def test_a_model_without_islands_is_itself() -> None:
    b = ModelBuilder()
    b.output(b.op("QUANTIZE", [b.input(MAP, F32)], MAP, I8, 0.05, 3))
    model = read_model(b.build())
    assert write_model(with_lookups(model)) == b.build()


def test_a_lookup_costs_the_cpu_what_it_stands_for() -> None:
    model = read_model(island("root"))
    graph, cpu = model.graphs[0], load_variant("ethos-u55-128").cpu
    reduced_graph = reduced(model).graphs[0]
    assert reduced_graph.ops[-1].lookup is not None
    assert cpu_cycles(reduced_graph, reduced_graph.ops[-1], cpu) == sum(cpu_cycles(graph, op, cpu) for op in graph.ops)


def test_what_follows_an_island_is_in_its_table() -> None:
    b = ModelBuilder()
    y = b.op("QUANTIZE", [CHAINS["root"](b, b.op("CAST", [b.input(MAP, U8)], MAP, F32))], MAP, I8, 0.05, 3)
    half = b.constant(np.array([50], np.int8), scale=0.01)
    b.output(b.op("LOGISTIC", [b.op("MUL", [y, half], MAP, I8, 0.05, 0, attributes=at.MulOptions())], MAP, I8, 1 / 256, -128))
    compiled = npu.compile(b.build())
    assert len(compiled.compiled_model.partitions[0].program.steps) == 1
    assert_exact(b.build(), compiled.content)
