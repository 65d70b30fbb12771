"""BATCH_MATMUL of computed and of constant matrices, transposed or not, with any leading dimensions: exact on the machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npu
from npu.compiler.ir import ElementwiseStep, PoolingStep
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_npu_job
from npu.isa.operations import Layout, Pooling, PoolingMode
from npu.tflite.reader import read_model

from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import lowered

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool]] = {
    "plain": ((), (), False),
    "batches": ((3,), (3,), False),
    "heads": ((2, 3), (2, 3), False),
    "left broadcast": ((1,), (4,), False),
    "right broadcast": ((2, 3), (1, 3), False),
    "right constant": ((2,), (1,), True),
    "right constant batches": ((2,), (2,), True),
}


def product(case: str, seed: int, dtype: DType = DType.INT8, end: int = 40) -> bytes:
    """Random sizes below `end`, scales and zero points."""
    rng, b = np.random.default_rng(seed), ModelBuilder()
    first, second, is_constant = CASES[case]
    rows, inner, columns = (int(n) for n in rng.integers(1, end, 3))
    adj_x, adj_y = (bool(n) for n in rng.integers(0, 2, 2))
    zeros = [int(n) for n in rng.integers(-20, 20, 3)]
    zeros = zeros if dtype is DType.INT8 else [0, 0, 0]
    x_shape = (*first, *((inner, rows) if adj_x else (rows, inner)))
    y_shape = (*second, *((columns, inner) if adj_y else (inner, columns)))
    x = b.input(x_shape, dtype, scale=0.02, zero_point=zeros[0])
    if is_constant:
        values = rng.integers(-128, 128, y_shape).astype(np.int8)
        y = b.constant(values, scale=0.03, zero_point=zeros[1])
    else:
        y = b.input(y_shape, DType.INT8, scale=0.03, zero_point=zeros[1])
    shape = (*np.broadcast_shapes(first, second), rows, columns)
    scale, options = 0.05 * float(np.sqrt(inner)), at.BatchMatMulOptions(adj_x, adj_y)
    b.output(b.op("BATCH_MATMUL", [x, y], shape, dtype, scale, zeros[2], attributes=options))
    return b.build()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u65-512"])
def test_products_are_exact(case: str, target: str, tmp_path: Path) -> None:
    for seed in range(4):
        content = product(case, seed)
        npu.compile(content, target=target).save(tmp_path / "m.tflite")
        assert [is_npu_job(op) for op in read_model(tmp_path / "m.tflite").graphs[0].ops] == [True]
        inputs = random_inputs(content, seed)
        (found,) = run(npu.Interpreter(str(tmp_path / "m.tflite")), inputs)
        (expected,) = run_reference(content, inputs)
        np.testing.assert_array_equal(found, expected)
        assert len(np.unique(expected)) > min(10, expected.size // 2)


@pytest.mark.parametrize("target", ["ethos-u55-64", "ethos-u65-256"])
def test_products_of_16_bits_with_a_constant_are_exact(target: str, tmp_path: Path) -> None:
    for seed in range(6):
        content = product("right constant", seed, DType.INT16)
        npu.compile(content, target=target).save(tmp_path / "m.tflite")
        assert [is_npu_job(op) for op in read_model(tmp_path / "m.tflite").graphs[0].ops] == [True]
        inputs = random_inputs(content, seed)
        (found,) = run(npu.Interpreter(str(tmp_path / "m.tflite")), inputs)
        (expected,) = run_reference(content, inputs)
        np.testing.assert_array_equal(found, expected)
        assert len(np.unique(expected)) > min(10, expected.size // 2)


@pytest.mark.parametrize("case", CASES)
def test_matrices_of_one_row_or_column_are_exact(case: str) -> None:
    """Transposing those of one element moves nothing."""
    for seed in range(24):
        content = product(case, seed, end=3)
        inputs = random_inputs(content, seed)
        np.testing.assert_array_equal(npu.run(content, inputs).outputs[0], run_reference(content, inputs)[0])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=str)
def test_a_constant_with_several_scales_is_taken_as_the_reference_takes_it(dtype: DType, tmp_path: Path) -> None:
    """LiteRT's kernel reads the one scale of the tensor, which is 0 there: everything becomes the zero point."""
    b = ModelBuilder()
    point = 5 if dtype is DType.INT8 else 0
    x = b.input((2, 6, 8), dtype, scale=0.02)
    y = b.constant(np.arange(32, dtype=np.int8).reshape(8, 4), scale=[0.1, 0.2, 0.3, 0.4], zero_point=[0] * 4, axis=1)
    b.output(b.op("BATCH_MATMUL", [x, y], (2, 6, 4), dtype, 0.5, point, attributes=at.BatchMatMulOptions()))
    content = b.build()
    npu.compile(content).save(tmp_path / "m.tflite")
    assert [is_npu_job(op) for op in read_model(tmp_path / "m.tflite").graphs[0].ops] == [True]
    inputs = random_inputs(content, 0)
    (found,) = run(npu.Interpreter(str(tmp_path / "m.tflite")), inputs)
    (expected,) = run_reference(content, inputs)
    np.testing.assert_array_equal(found, expected)
    assert set(np.unique(expected)) == {point}


def heads(count: int, rows: int, inner: int, others: int | None = None) -> bytes:
    b = ModelBuilder()
    x = b.input((count, rows, inner), DType.INT8, scale=0.02, zero_point=3)
    y = b.input((count if others is None else others, inner, rows), DType.INT8, scale=0.03, zero_point=-7)
    b.output(b.op("BATCH_MATMUL", [x, y], (count, rows, rows), DType.INT8, 0.3, 5, attributes=at.BatchMatMulOptions()))
    return b.build()


@pytest.mark.parametrize(("content", "sums"), [
    (heads(4, 20, 8), 20),  # 160 elements each: all four at a time
    (heads(5, 32, 40), 64),  # 1,280: three at a time, then two
    (heads(2, 48, 64), 96),  # 3,072: more than 4,096 are not multiplied together
    (heads(4, 20, 8, others=1), 80),  # one matrix meets four
])  # fmt: skip
def test_rows_of_small_matrices_are_multiplied_together(content: bytes, sums: int) -> None:
    steps = lowered(read_model(content).graphs[0]).steps
    assert sum(isinstance(step, PoolingStep) and step.mode is PoolingMode.REDUCE_SUM for step in steps) == sums
    inputs = random_inputs(content, 2)
    np.testing.assert_array_equal(npu.run(content, inputs).outputs[0], run_reference(content, inputs)[0])


def test_for_size_as_many_are_multiplied_together_as_the_operators_tensors_take() -> None:
    content = heads(8, 16, 16)  # 6,144 bytes of tensors, in which six times 256 products of four bytes have room
    result = npu.compile(content, optimise="size").compiled_model
    (partition,) = result.partitions
    shapes = {step.ofm.shape for step in partition.program.steps if isinstance(step, ElementwiseStep)}
    assert shapes == {(6, 16, 16), (2, 16, 16)}


def test_a_matrix_that_is_stored_transposed_lies_in_bricks() -> None:
    """Its columns are read as channels are, and so many of them take whole bursts."""
    net = Layers(1)
    x = net.input(1, 90, 32)
    columns = net.b.op("TRANSPOSE", [x, net.ints(0, 1, 3, 2)], (1, 1, 32, 90), DType.INT8, **net.steps(x))
    content = net.finish(
        net.b.op("BATCH_MATMUL", [columns, x], (1, 1, 32, 32), DType.INT8, 0.9, attributes=at.BatchMatMulOptions())
    )
    compiled = npu.compile(content, "ethos-u85-512")
    (partition,) = compiled.compiled_model.partitions
    turned = [one for one in partition.operations if isinstance(one, Pooling) and one.stored_ofm != one.ofm]
    assert turned
    assert {one.ofm.layout for one in turned} == {Layout.NHCWB16}
    inputs = random_inputs(content, 1)
    found = npu.run(compiled.content, inputs, "ethos-u85-512").outputs
    np.testing.assert_array_equal(found[0], run_reference(content, inputs)[0])
