"""Operators that run as job rows without packed operands, against LiteRT's reference kernels and against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.runtime.xnnpack.operation import CompiledOperation

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import run_reference
from tests.support.xnnpack import Array, delegated, steps_apart

F32 = DType.FLOAT32
SHAPES = {
    "equal": ((2, 3, 5, 7), (2, 3, 5, 7)),
    "one element": ((3, 4, 33), ()),
    "one element first": ((1, 1), (5, 40)),
    "a row": ((4, 6, 17), (17,)),
    "a row first": ((19,), (2, 4, 19)),
    "a column": ((98, 64), (98, 1)),
    "a column first": ((7, 1), (7, 50)),
    "two single elements": ((1, 1), (1,)),
    "a large map": ((3, 41, 64), (3, 41, 64)),
    "16 elements": ((4, 4), (4, 4)),
    "rows and columns": ((5, 1), (1, 9)),
}
BEYOND_ROWS = {"between": ((2, 3, 4), (2, 1, 4)), "outer and inner": ((2, 3, 4), (1, 3, 1))}
ATTRIBUTES: dict[str, Any] = {"ADD": at.AddOptions, "SUB": at.SubOptions, "MUL": at.MulOptions, "DIV": at.DivOptions}


def _pair(kind: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], *, constant: bool = False) -> tuple[bytes, list[Array]]:
    rng, b = np.random.default_rng(len(kind)), ModelBuilder()
    values = [np.asarray(rng.normal(size=shape), np.float32) for shape in shapes]
    second = b.constant(values[1]) if constant else None
    tensors = [b.input(shapes[0], F32), b.input(shapes[1], F32) if second is None else second]
    made = ATTRIBUTES[kind](FusedActivation.RELU_N1_TO_1) if kind in ATTRIBUTES else at.SquaredDifferenceOptions()
    b.output(b.op(kind, tensors, np.broadcast_shapes(*shapes), F32, attributes=made))
    return b.build(), values[:1] if constant else values


def _compiled(delegate: Any) -> list[bool]:
    return [isinstance(op, CompiledOperation) and op.is_compiled for p in delegate.partitions for op in p.operations]


@pytest.mark.seed("X-F-ADD", "X-F-SUB", "X-F-MUL", "X-F-DIV", "X-F-SQUARED_DIFFERENCE")
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "DIV", "SQUARED_DIFFERENCE"])
@pytest.mark.parametrize("name", [*SHAPES, *BEYOND_ROWS])
def test_two_operands_of_any_shapes_equal_the_reference(kind: str, name: str) -> None:
    content, inputs = _pair(kind, (SHAPES | BEYOND_ROWS)[name])
    interpreter, delegate = delegated(content)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])
    assert _compiled(delegate) == [name in SHAPES]


@pytest.mark.parametrize("name", ["equal", "a row", "a column", "one element"])
def test_a_constant_operand_equals_the_reference(name: str) -> None:
    content, inputs = _pair("MUL", SHAPES[name], constant=True)
    interpreter, delegate = delegated(content)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])
    assert _compiled(delegate) == [True]


def _unary(kind: str, x: Array, attributes: Any = None) -> tuple[Array, Array]:
    b = ModelBuilder()
    b.output(b.op(kind, [b.input(x.shape, F32)], x.shape, F32, attributes=attributes))
    content = b.build()
    interpreter, delegate = delegated(content)
    ours = run(interpreter, [x])[0]
    assert _compiled(delegate) == [True]
    return ours, run_reference(content, [x])[0]


@pytest.mark.seed("X-F-TANH")
def test_hyperbolic_tangents_are_within_two_steps_of_their_own_magnitude() -> None:
    x = np.concatenate([np.linspace(-12, 12, 4001), np.logspace(-38, 38, 400), [0, -0.0, np.inf, -np.inf]]).astype(np.float32)
    ours, reference = _unary("TANH", x)
    exact = np.tanh(x.astype(np.float64))
    with np.errstate(all="ignore"):
        assert (np.abs(ours - exact) <= 0.51 * np.spacing(np.abs(exact).astype(np.float32))).all()
        assert (np.abs(ours - reference) <= 2 * np.spacing(np.abs(exact).astype(np.float32))).all()


@pytest.mark.seed("X-F-SOFTMAX")
@pytest.mark.parametrize("width", [1, 7, 16, 98, 1001])
def test_softmax_rows_are_close_to_the_exact_ones(width: int) -> None:
    x = (np.random.default_rng(width).normal(size=(5, width)) * 20).astype(np.float32)
    x[1] = x[1, 0]
    ours, reference = _unary("SOFTMAX", x, at.SoftmaxOptions(1.0))
    terms = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    exact = terms / terms.sum(axis=1, keepdims=True)
    assert (np.abs(ours - exact) <= 2.0**-22 * exact + 1e-38).all()
    assert (np.abs(ours - reference) <= (width + 4) * 2.0**-23 * exact + 1e-38).all()


@pytest.mark.parametrize("kind", ["RELU", "RELU6", "RELU_N1_TO_1", "TANH", "SOFTMAX"])
def test_a_value_that_is_no_number_stays_one(kind: str) -> None:
    x = np.linspace(-9, 9, 40, dtype=np.float32).reshape(2, 20)
    x[0, 3] = x[0, 19] = np.nan
    ours, reference = _unary(kind, x, at.SoftmaxOptions(1.0) if kind == "SOFTMAX" else None)
    assert np.isnan(ours[0, [3, 19]]).all()
    assert steps_apart(ours[1], reference[1]) <= 2


@pytest.mark.seed("X-F-TRANSPOSE", "X-Q-TRANSPOSE")
@pytest.mark.parametrize("dtype", [F32, DType.INT8, DType.UINT8])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((98, 64), (1, 0)), ((2, 5, 6, 7), (0, 2, 1, 3)), ((1, 3, 1, 9), (3, 2, 1, 0)), ((4, 5, 6), (0, 1, 2)),
     ((2, 3, 4, 5), (3, 1, 2, 0)), ((2, 3, 4, 5), (3, 2, 1, 0)), ((1, 1), (1, 0))],
)  # fmt: skip
def test_transposed_maps_equal_numpy(dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    b = ModelBuilder()
    quantized: dict[str, Any] = {} if dtype is F32 else {"scale": 0.5, "zero_point": 3}
    x = b.input(shape, dtype, **quantized)
    out = tuple(shape[axis] for axis in axes)
    b.output(b.op("TRANSPOSE", [x, b.constant(np.array(axes, np.int32))], out, dtype, **quantized))
    interpreter, _ = delegated(b.build(), qs8=True, qu8=True)
    value = np.random.default_rng(0).integers(0, 100, shape).astype(dtype.numpy)
    np.testing.assert_array_equal(run(interpreter, [value])[0], value.transpose(axes))


SCALES = {
    "equal": (0.1, 0.1, 0.15),
    "first larger": (0.3, 0.0171, 0.2),
    "second larger": (0.0023, 0.4, 0.11),
    "far apart": (3e-9, 2.0, 1.0),
    "small result": (0.02, 0.017, 0.005),
}


@pytest.mark.seed("X-Q-ADD", "X-Q-SUB")
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("kind", ["ADD", "SUB"])
@pytest.mark.parametrize("name", SCALES)
def test_sums_of_all_pairs_of_bytes_equal_the_reference(dtype: DType, kind: str, name: str) -> None:
    low = -128 if dtype is DType.INT8 else 0
    values = np.arange(low, low + 256).astype(dtype.numpy)
    inputs = [np.repeat(values, 256).reshape(256, 256), np.tile(values, 256).reshape(256, 256)]
    b, scales = ModelBuilder(), SCALES[name]
    tensors = [b.input((256, 256), dtype, scale=scale, zero_point=low + k) for scale, k in zip(scales, (97, 140), strict=False)]
    made = at.AddOptions(FusedActivation.NONE) if kind == "ADD" else at.SubOptions(FusedActivation.NONE)
    b.output(b.op(kind, tensors, (256, 256), dtype, attributes=made, scale=scales[2], zero_point=low + 120))
    content = b.build()
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])
    assert _compiled(delegate) == [True]
