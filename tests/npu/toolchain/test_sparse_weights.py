"""Sparse int8 weights are unpacked when a model is compiled: nothing runs for them, and the NPU takes who reads them."""

from __future__ import annotations

import numpy as np

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.placement import Device
from npu.tflite.reader import read_model
from npu.tflite.schema import DimensionMetadata, DimensionType, Int32Vector, SparsityParameters

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

UNITS, DEPTH = 16, 32


def _weights(dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(1)
    values = rng.integers(-127, 128, (UNITS, DEPTH)) * (rng.random((UNITS, DEPTH)) < 0.25)
    return values.astype(dtype.numpy)


def _sparsity(dense: np.ndarray) -> SparsityParameters:
    """Every row with the columns at which it has values."""
    ends = np.cumsum([np.count_nonzero(row) for row in dense])
    rows = DimensionMetadata(format=DimensionType.DENSE, dense_size=len(dense))
    columns = DimensionMetadata(
        format=DimensionType.SPARSE_CSR,
        array_segments=Int32Vector(values=np.array([0, *ends], np.int32)),
        array_indices=Int32Vector(values=np.nonzero(dense)[1].astype(np.int32)),
    )
    return SparsityParameters(traversal_order=np.array([0, 1], np.int32), dim_metadata=(rows, columns))


def _unpacked(b: ModelBuilder, dtype: DType, scale: float | None) -> int:
    dense = _weights(dtype)
    stored, extra = dense[np.nonzero(dense)], {"sparsity": _sparsity(dense)}
    packed = b.tensor(dense.shape, dtype, scale=scale, data=stored, extra=extra)
    return b.op("DENSIFY", [packed], dense.shape, dtype, scale)


def _fully_connected(*, is_sparse: bool = True, is_returned: bool = False) -> bytes:
    b = ModelBuilder()
    x = b.input((1, DEPTH), DType.INT8, scale=0.5)
    weights = _unpacked(b, DType.INT8, 0.01) if is_sparse else b.constant(_weights(DType.INT8), scale=0.01)
    bias = b.constant(np.arange(UNITS, dtype=np.int32), scale=0.005)
    options = at.FullyConnectedOptions()
    b.output(b.op("FULLY_CONNECTED", [x, weights, bias], (1, UNITS), DType.INT8, 0.5, attributes=options))
    if is_returned:
        b.output(weights)
    return b.build()


def _kinds(content: bytes) -> list[str]:
    return [op.name for op in read_model(content).graphs[0].ops]


def _assert_exact(content: bytes, compiled: bytes) -> None:
    """The output of FULLY_CONNECTED equals that of dense weights."""
    inputs = random_inputs(content, 3)
    (expected,) = run_reference(_fully_connected(is_sparse=False), inputs, fully_connected="npu")
    np.testing.assert_array_equal(npu.run(compiled, inputs=inputs).outputs[0], expected)


def test_the_npu_takes_who_reads_them() -> None:
    content = _fully_connected()
    assert [op.device for op in npu.check(content).ops] == [Device.NPU] * 2
    compiled = npu.compile(content).content
    assert _kinds(compiled) == ["ethos-u"]
    _assert_exact(content, compiled)


def test_weights_that_the_model_returns_stay_computed() -> None:
    content = _fully_connected(is_returned=True)
    compiled = npu.compile(content).content
    assert "DENSIFY" in _kinds(compiled)
    _assert_exact(content, compiled)
    np.testing.assert_array_equal(npu.run(compiled).outputs[1], _weights(DType.INT8))


def test_floats_stay_sparse() -> None:
    b = ModelBuilder()
    x = b.input((1, DEPTH), DType.FLOAT32)
    weights = _unpacked(b, DType.FLOAT32, None)
    b.output(b.op("FULLY_CONNECTED", [x, weights, -1], (1, UNITS), DType.FLOAT32, attributes=at.FullyConnectedOptions()))
    assert _kinds(npu.compile(b.build()).content) == ["DENSIFY", "FULLY_CONNECTED"]
