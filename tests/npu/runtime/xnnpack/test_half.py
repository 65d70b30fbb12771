"""Half precision: when it is used, what it computes, when it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constraints.xnnpack import FLOAT
from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.misuse import InterpreterValueError
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.kernels.half import round_half
from npu.runtime.xnnpack.options import HalfPrecision
from npu.runtime.xnnpack.precision import HALF_KINDS
from npu.runtime.xnnpack.reduced_precision import METADATA_NAME, read_reduced_precision, with_reduced_precision
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.constraints.test_xnnpack import ROWS
from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs
from tests.support.operator_cases import CASES
from tests.support.xnnpack import Layers, delegated, mobile_network, options

F32 = DType.FLOAT32


def with_metadata(content: bytes, text: bytes = b"fp16accfp16") -> bytes:
    model = read_model(content)
    return write_model(replace(model, metadata={**model.metadata, METADATA_NAME: text}))


def names(content: bytes, **changes: Any) -> list[str]:
    """The operations of the only partition."""
    _, delegate = delegated(content, **changes)
    return [operation.name for operation in delegate.partitions[0].operations]


def elementwise(kind: str = "MUL") -> bytes:
    b = ModelBuilder()
    x, y = b.input((64,), F32), b.input((64,), F32)
    b.output(b.op(kind, [x, y], (64,), F32, attributes=at.MulOptions()))
    return b.build()


@pytest.mark.seed("X-H-2", "X-H-3", "X-H-4")
@pytest.mark.parametrize(
    ("text", "cpu", "is_half"),
    [
        (b"fp16accfp16", HalfPrecision.NATIVE, True),
        (b"fp16bf16accfp16\0\0", HalfPrecision.NATIVE, True),
        (b"fp16accfp32", HalfPrecision.NATIVE, False),
        (b"bf16accfp16", HalfPrecision.NATIVE, False),
        (b"nonsense", HalfPrecision.NATIVE, False),
        (None, HalfPrecision.NATIVE, False),
        (b"fp16accfp16", HalfPrecision.EMULATED, False),
        (b"fp16accfp16", HalfPrecision.NONE, False),
    ],
)
def test_half_precision_needs_a_native_cpu_and_the_metadata(text: bytes | None, cpu: HalfPrecision, is_half: bool) -> None:
    content = elementwise() if text is None else with_metadata(elementwise(), text)
    conversions = ["CONVERT_TO_FP16", "CONVERT_TO_FP16", "MUL", "CONVERT_TO_FP32"]
    assert names(content, half_precision=cpu) == (conversions if is_half else ["MUL"])


@pytest.mark.seed("X-H-5")
def test_the_metadata_can_be_written_and_read() -> None:
    model = read_model(elementwise())
    assert read_reduced_precision(model) is None
    written = read_model(write_model(with_reduced_precision(model)))
    assert bytes(written.metadata[METADATA_NAME]).rstrip(b"\0") == b"fp16accfp16"
    support = read_reduced_precision(written)
    assert support is not None
    assert support.permits_fp16
    both = with_reduced_precision(model, ("bf16", "fp16"), "fp32")
    assert both.metadata[METADATA_NAME] == b"fp16bf16accfp32"
    with pytest.raises(InterpreterValueError, match="accumulator of"):
        with_reduced_precision(model, ("fp16",), "int8")
    with pytest.raises(InterpreterValueError, match="types must be of"):
        with_reduced_precision(model, ())


@pytest.mark.seed("X-H-6", "X-H-7")
@pytest.mark.parametrize("cpu", [HalfPrecision.EMULATED, HalfPrecision.NATIVE])
def test_forced_half_precision_rounds_elementary_operations(cpu: HalfPrecision) -> None:
    content = elementwise()
    x, y = random_inputs(content, 0)
    interpreter, _ = delegated(content, force_fp16=True, half_precision=cpu)
    expected = (x.astype(np.float16) * y.astype(np.float16)).astype(np.float32)
    np.testing.assert_array_equal(run(interpreter, [x, y])[0], expected)


def _sum_in_half(row: Array, column: Array, start: Any) -> Any:
    """numpy's own fp16 arithmetic on an exact product: one float32 addition, then fp16."""
    total = np.float16(start)
    for a, w in zip(row.astype(np.float16), column.astype(np.float16), strict=True):
        total = np.float16(np.float32(a) * np.float32(w) + np.float32(total))
    return total


@pytest.mark.seed("X-H-7")
def test_sums_are_rounded_after_every_step() -> None:
    net = Layers(F32, (2, 40))
    net.shape = (2, 40)
    net.dense(5)
    content = net.build()
    x = random_inputs(content, 1)[0]
    ours = run(delegated(content, force_fp16=True)[0], [x])[0]
    tensors = read_model(content).graphs[0].tensors
    weights, bias = (t.data for t in tensors if t.data is not None)
    assert weights is not None
    assert bias is not None
    expected = [[_sum_in_half(x[m], weights[n], bias[n]) for n in range(5)] for m in range(2)]
    np.testing.assert_array_equal(ours, np.array(expected, np.float32))
    exact = x.astype(np.float64) @ weights.T + bias
    assert np.abs(ours - exact).max() > 1e-4


@pytest.mark.seed("X-H-7")
def test_values_beyond_the_range_of_half_precision_become_infinite() -> None:
    content = elementwise()
    x, y = np.full(64, 300.0, np.float32), np.full(64, 300.0, np.float32)
    assert np.isposinf(run(delegated(content, force_fp16=True)[0], [x, y])[0]).all()


@pytest.mark.seed("X-H-8")
def test_forced_half_precision_fails_without_any_support() -> None:
    with pytest.raises(InterpreterError, match="must have a CPU that computes or emulates fp16, got neither"):
        delegated(elementwise(), force_fp16=True, half_precision=HalfPrecision.NONE)


def quantized_edge() -> bytes:
    """A float operator after DEQUANTIZE, which has no half-precision form."""
    b = ModelBuilder()
    x = b.input((4,), DType.INT8, scale=0.1, zero_point=0)
    b.output(b.op("ABS", [b.op("DEQUANTIZE", [x], (4,), F32)], (4,), F32))
    return b.build()


@pytest.mark.seed("X-H-9")
def test_forced_half_precision_fails_if_an_operator_has_no_half_form() -> None:
    with pytest.raises(InterpreterError, match=r"must have operators with an fp16 form, got DEQUANTIZE \(op 0\)"):
        delegated(quantized_edge(), force_fp16=True, qs8=True)
    automatic = with_metadata(quantized_edge())
    assert names(automatic, qs8=True, half_precision=HalfPrecision.NATIVE) == ["DEQUANTIZE", "ABS"]


@pytest.mark.seed("X-H-1")
@pytest.mark.parametrize("kind", sorted(FLOAT))
def test_every_float_operator_has_a_half_form(kind: str) -> None:
    assert kind in HALF_KINDS
    made = (CASES[f"{kind}-float32"](np.random.default_rng(seed)) for seed in range(40))
    whole = write_model(ROWS["X-F", kind, "a"][0])
    content = next((content for content in made if delegated(content)[1].refusal_table() == {}), whole)
    inputs = random_inputs(content, 0)
    half = run(delegated(content, force_fp16=True)[0], inputs)
    for ours, expected in zip(half, run(delegated(content)[0], inputs), strict=True):
        assert ours.shape == expected.shape
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(ours, ours.astype(np.float16).astype(np.float32))
        close = np.isclose(ours, expected, rtol=0.05, atol=0.05 * max(1.0, float(np.nanmax(np.abs(expected), initial=0.0))))
        assert close[np.isfinite(expected)].mean() > 0.9


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "MAX_POOL_2D"])
def test_operators_without_floats_are_what_they_are_in_half_precision(kind: str) -> None:
    made = (CASES[f"{kind}-int8"](np.random.default_rng(seed)) for seed in range(40))
    content = next(content for content in made if delegated(content, qs8=True)[1].refusal_table() == {})
    inputs = random_inputs(content, 0)
    (half,), (full,) = (run(delegated(content, qs8=True, force_fp16=on)[0], inputs) for on in (True, False))
    np.testing.assert_array_equal(half, full)
    automatic = delegated(with_metadata(content), qs8=True, half_precision=HalfPrecision.NATIVE)[0]
    np.testing.assert_array_equal(run(automatic, inputs)[0], full)


def test_a_network_in_half_precision_stays_close_to_float() -> None:
    content = mobile_network()
    inputs = random_inputs(content, 0)
    half, full = (run(delegated(content, force_fp16=on)[0], inputs)[0] for on in (True, False))
    assert 0 < np.abs(half - full).max() < 0.05


@given(st.floats(width=32, allow_nan=False))
def test_rounding_to_half_equals_numpy(value: float) -> None:
    with np.errstate(over="ignore"):
        assert round_half(value) == float(np.float16(value))


def test_the_delegate_can_be_used_on_a_model_object_with_written_metadata() -> None:
    model: Model = with_reduced_precision(read_model(elementwise()))
    delegate = XnnpackDelegate(options(half_precision=HalfPrecision.NATIVE))
    interpreter = CpuInterpreter(model=model, experimental_delegates=[delegate])
    assert len(interpreter.execution_plan()) == 1
    assert delegate.partitions[0].operations[0].name == "CONVERT_TO_FP16"
