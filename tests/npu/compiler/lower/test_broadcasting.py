"""Binary operators whose operands repeat along any dimensions, images included, are exact."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.isa.operations import Convolution, Elementwise, KernelOperation

from tests.support.builder import ModelBuilder
from tests.support.litert import random_array, random_inputs, run_reference

OPTIONS: dict[str, Attributes | None] = {
    "ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions(), "MAXIMUM": at.MaximumMinimumOptions(),
    "MINIMUM": at.MaximumMinimumOptions(), "SQUARED_DIFFERENCE": at.SquaredDifferenceOptions(),
}  # fmt: skip
EQUAL = ("MAXIMUM", "MINIMUM")
CASES = [(kind, dtype) for kind in OPTIONS for dtype in (DType.INT8, DType.UINT8, DType.INT16)]
NO_KERNEL = [("SQUARED_DIFFERENCE", DType.UINT8), ("SQUARED_DIFFERENCE", DType.INT16)]


def repeating(kind: str, dtype: DType, rng: np.random.Generator) -> bytes:
    """One operator of two operands of one to five dimensions, of which each has some of 1; the second may be a constant."""
    full = rng.integers(1, 5, rng.integers(1, 6))
    first, second = (tuple(int(n) for n in np.where(rng.random(full.size) < 0.7, full, 1)) for _ in range(2))
    second = second[int(rng.integers(0, len(second))) :] if rng.random() < 0.3 else second
    shape, point = np.broadcast_shapes(first, second), {DType.INT8: -9, DType.UINT8: 120, DType.INT16: 0}[dtype]
    scales = [0.05, 0.05, 0.05] if kind in EQUAL else [0.05, float(rng.uniform(0.01, 0.1)), 0.15]
    scales[2] = scales[0] * scales[1] * {DType.INT16: 2.0**14}.get(dtype, 60) if kind == "MUL" else scales[2]
    scales[2] = 4.0 if kind == "SQUARED_DIFFERENCE" else scales[2]
    b = ModelBuilder()
    x, other = b.input(first, dtype, scale=scales[0], zero_point=point), {"scale": scales[1], "zero_point": point}
    is_constant = rng.random() < 0.3
    y = b.constant(random_array(second, dtype, rng), **other) if is_constant else b.input(second, dtype, **other)
    inputs = [x, y] if rng.random() < 0.5 else [y, x]
    b.output(b.op(kind, inputs, shape, dtype, scales[2], point, attributes=OPTIONS[kind]))
    return b.build()


@pytest.mark.parametrize(("kind", "dtype"), [case for case in CASES if case not in NO_KERNEL], ids=str)
def test_operands_that_repeat_along_any_dimension_are_exact(kind: str, dtype: DType) -> None:
    for seed in range(40):
        model = repeating(kind, dtype, np.random.default_rng(seed))
        inputs = random_inputs(model, seed)
        expected = run_reference(model, inputs)[0]
        for target in ("ethos-u55-128", "ethos-u85-256"):
            result = npu.run(model, inputs, target=target)
            assert result.report.operators[0].placement == "npu"
            np.testing.assert_array_equal(result.outputs[0], expected)


def column_by_row(kind: str, dtype: DType = DType.INT8, *, is_constant: bool = True, images: int = 1) -> bytes:
    """A channel by a row of channels, as a layer normalization makes them of 1 / deviation and its factors."""
    b, rng = ModelBuilder(), np.random.default_rng(1)
    point = {DType.INT8: -128, DType.UINT8: 255, DType.INT16: 0}[dtype]
    column = b.input((images, 36, 1), dtype, scale=0.02, zero_point=point)
    given = {"scale": 0.02 if kind in EQUAL else 0.011, "zero_point": point}
    row = b.constant(random_array((32,), dtype, rng), **given) if is_constant else b.input((32,), dtype, **given)
    scale = 0.02 if kind in EQUAL else 0.02 * 0.011 * 300 if kind == "MUL" else 0.05
    b.output(b.op(kind, [column, row], (images, 36, 32), dtype, scale, point, attributes=OPTIONS[kind]))
    return b.build()


def kernels(model: bytes, target: str) -> list[KernelOperation]:
    (part,) = npu.compile(model, target=target).compiled_model.partitions
    return [operation for operation in part.operations if isinstance(operation, KernelOperation)]


@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "MAXIMUM"])
def test_ethos_u85_repeats_both_operands(kind: str, is_constant: bool) -> None:
    model, target = column_by_row(kind, is_constant=is_constant, images=3), "ethos-u85-256"
    first, *copies = kernels(model, target)  # of the result, behind the fast memory
    assert isinstance(first, Elementwise)
    assert first.repeats_both_operands
    assert len(copies) == 1
    inputs = random_inputs(model, 1)
    np.testing.assert_array_equal(npu.run(model, inputs, target=target).outputs[0], run_reference(model, inputs)[0])


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_a_channel_times_a_constant_row_is_a_convolution_where_one_operand_repeats(dtype: DType, target: str) -> None:
    model = column_by_row("MUL", dtype)
    first, *copies = kernels(model, target)
    assert isinstance(first, Convolution)
    assert len(copies) == ("u65" in target)  # of the result, behind the fast memory
    for seed in range(3):
        inputs = random_inputs(model, seed)
        np.testing.assert_array_equal(npu.run(model, inputs, target=target).outputs[0], run_reference(model, inputs)[0])


def test_a_channel_of_16_bits_times_a_constant_row_is_exact() -> None:
    model = column_by_row("MUL", DType.INT16)
    assert not any(isinstance(one, Convolution) for one in kernels(model, "ethos-u55-128"))  # it rounds otherwise
    inputs = random_inputs(model, 1)
    np.testing.assert_array_equal(npu.run(model, inputs).outputs[0], run_reference(model, inputs)[0])


@pytest.mark.parametrize("target", ["ethos-u85-128", "ethos-u85-256", "ethos-u85-1024"])
def test_what_has_just_been_made_may_be_repeated(target: str) -> None:
    """The next operation begins when all of it has been written: every block reads from all over it."""
    b, rng = ModelBuilder(), np.random.default_rng(1)
    given = {"scale": 0.02, "zero_point": -3}
    x = b.input((1, 40, 24, 32), DType.INT8, **given)
    y = b.op("SUB", [x, b.constant(random_array((32,), DType.INT8, rng), **given)], (1, 40, 24, 32), DType.INT8, 0.05, 4)
    made, options = (1, 40, 24, 1), at.ReducerOptions(keep_dims=True)
    column = b.op("REDUCE_MAX", [y, b.constant(np.array([3], np.int32))], made, DType.INT8, 0.05, 4, attributes=options)
    column = b.op("MINIMUM", [column, b.input(made, DType.INT8, scale=0.05, zero_point=4)], made, DType.INT8, 0.05, 4)
    row = b.constant(random_array((48,), DType.INT8, rng), scale=0.011, zero_point=5)
    b.output(b.op("ADD", [column, row], (1, 40, 24, 48), DType.INT8, 0.05, 9, attributes=at.AddOptions()))
    model = b.build()
    compiled = npu.compile(model, target=target)
    assert any(one.repeats_both_operands for one in kernels(model, target) if isinstance(one, Elementwise))
    assert npu.verify(compiled.content) == []
    inputs = random_inputs(model, 1)
    np.testing.assert_array_equal(npu.run(compiled.content, inputs).outputs[0], run_reference(model, inputs)[0])
