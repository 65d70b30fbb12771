"""Results of the delegate against LiteRT's reference kernels: integers equal, floats within a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType
from hypothesis import given, settings
from hypothesis import strategies as st

from constraints.xnnpack import FLOAT, QUANTIZED
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.operation import CompiledOperation

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs, repaired, run_reference
from tests.support.operator_cases import CASES
from tests.support.shared import shared_models
from tests.support.xnnpack import delegated, mobile_network, steps_apart

F32, INT8, UINT8 = DType.FLOAT32, DType.INT8, DType.UINT8
NOT_IN_REFERENCE_RESOLVER = {"CEIL", "ROUND", "ELU"}
ULP = {"CONV_2D": 16, "DEPTHWISE_CONV_2D": 16, "FULLY_CONNECTED": 16, "ELU": 4, "RESIZE_BILINEAR": 2, "TANH": 2, "SOFTMAX": 4}
"""Largest error in float32 steps at the magnitude of the largest output; other operators are equal bit for bit."""


OWN_TESTS = {"MEAN", "RESIZE_BILINEAR"}
"""Operators whose random cases are nearly all refused; see their tests below."""
MIXED_SIGNS = {"QUANTIZE-int8-uint8", "QUANTIZE-uint8-int8"}


def _names() -> list[Any]:
    rows = []
    for name in sorted(set(CASES) - MIXED_SIGNS):
        kind, _, types = name.partition("-")
        if types == "float32" and kind in FLOAT:
            rows.append(pytest.param(name, id=name, marks=pytest.mark.seed(f"X-F-{kind}")))
        elif kind in QUANTIZED and set(types.split("-")) <= {"int8", "uint8", "float32"}:
            rows.append(pytest.param(name, id=name, marks=pytest.mark.seed(f"X-Q-{kind}")))
    return [row for row in rows if row.values[0].partition("-")[0] not in OWN_TESTS]


def _expected(name: str, content: bytes, inputs: list[Any]) -> list[Any]:
    resolver = OpResolverType.BUILTIN_REF
    if name.partition("-")[0] in NOT_IN_REFERENCE_RESOLVER:
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return run(LiteRt(model_content=content, experimental_op_resolver_type=resolver, num_threads=1), inputs)


@pytest.mark.parametrize("name", _names())
def test_an_operator_on_the_delegate_equals_the_reference_kernel(name: str) -> None:
    delegated_runs = 0
    for seed in range(24):
        content = CASES[name](np.random.default_rng(seed))
        interpreter, delegate = delegated(content, qs8=True, qu8=True)
        if delegate.refusal_table():
            continue
        inputs = random_inputs(content, seed)
        for ours, expected in zip(run(interpreter, inputs), _expected(name, content, inputs), strict=True):
            assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
            if ours.dtype == np.float32 and name.partition("-")[0] in ULP:
                assert steps_apart(ours, expected) <= ULP[name.partition("-")[0]]
            else:
                np.testing.assert_array_equal(ours, expected)
        delegated_runs += 1
        if delegated_runs == 3:
            break
    assert delegated_runs


def _resize(dtype: DType, shape: tuple[int, ...], size: tuple[int, int], *, corners: bool, half: bool) -> bytes:
    b = ModelBuilder()
    quantized: dict[str, Any] = {} if dtype is F32 else {"scale": 0.1, "zero_point": 3}
    x, target = b.input(shape, dtype, **quantized), b.constant(np.array(size, np.int32))
    made = at.ResizeBilinearOptions(corners, half)
    b.output(b.op("RESIZE_BILINEAR", [x, target], (shape[0], *size, shape[3]), dtype, attributes=made, **quantized))
    return b.build()


@pytest.mark.seed("X-F-RESIZE_BILINEAR", "X-Q-RESIZE_BILINEAR")
@pytest.mark.parametrize("dtype", [F32, INT8, DType.UINT8])
@pytest.mark.parametrize(("corners", "half"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(9, 5), (3, 11), (1, 1), (12, 14)])
def test_bilinear_resizes_equal_the_reference(dtype: DType, corners: bool, half: bool, size: tuple[int, int]) -> None:
    content = _resize(dtype, (2, 6, 7, 5), size, corners=corners, half=half)
    inputs = random_inputs(content, 1)
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    ours, expected = run(interpreter, inputs)[0], run_reference(content, inputs)[0]
    assert delegate.refusal_table() == {}
    if dtype is F32:
        assert steps_apart(ours, expected) <= ULP["RESIZE_BILINEAR"]
    else:
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.seed("X-F-MEAN", "X-Q-MEAN")
@pytest.mark.parametrize("dtype", [F32, INT8, DType.UINT8])
@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (2,)])
@pytest.mark.parametrize("size", [(7, 6), (3, 3), (9, 1)], ids=str)
@pytest.mark.parametrize("keep", [False, True])
def test_means_equal_the_reference(dtype: DType, axes: tuple[int, ...], size: tuple[int, int], keep: bool) -> None:
    b = ModelBuilder()
    source: dict[str, Any] = {} if dtype is F32 else {"scale": 0.1, "zero_point": 7}
    target: dict[str, Any] = {} if dtype is F32 else {"scale": 0.03, "zero_point": 1}
    x, axis = b.input((2, *size, 9), dtype, **source), b.constant(np.array(axes, np.int32))
    shape = tuple(1 if k in axes else n for k, n in enumerate((2, *size, 9)) if keep or k not in axes)
    b.output(b.op("MEAN", [x, axis], shape, dtype, attributes=at.ReducerOptions(keep), **target))
    content = b.build()
    inputs = random_inputs(content, 1)
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    assert (delegate.refusal_table() == {}) is keep
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])


def test_every_listed_operator_has_a_case() -> None:
    names = {parameter.values[0] for parameter in _names()}
    assert {name.partition("-")[0] for name in names if name.endswith("float32")} >= set(FLOAT) - OWN_TESTS
    assert {name.partition("-")[0] for name in names if "int" in name} >= set(QUANTIZED) - OWN_TESTS


SIZES = st.integers(1, 12)
CHANNELS = st.sampled_from([1, 2, 3, 4, 7, 8, 15, 16, 17, 20, 33])


def _weighted(kind: str, dtype: DType, size: tuple[int, int, int], channels: tuple[int, int], window: tuple[int, int, int],
              seed: int, *, magnitudes: bool = False) -> bytes:  # fmt: skip
    """size (batch, height, width); window (kernel height, kernel width, stride or negative dilation).

    `magnitudes`: the float constants without their signs, and no activation.
    """
    generator, b = np.random.default_rng(seed), ModelBuilder()
    depth, out = channels if kind == "CONV_2D" else (channels[0], channels[0])
    stride, dilation = max(window[2], 1), max(-window[2], 1)
    shape = (out, *window[:2], depth) if kind == "CONV_2D" else (1, *window[:2], depth)
    if dtype is UINT8:
        # Small zero points of the weights leave differences that are no int8 values; 128 is the signed form.
        zero_point = (0, 128, 121, 255, 3)[seed % 5]
        x = b.input((*size, depth), dtype, scale=0.04, zero_point=int(generator.integers(0, 256)))
        weights = b.constant(generator.integers(0, 256, shape).astype(np.uint8), scale=0.003, zero_point=zero_point)
        bias = b.constant(generator.integers(-(1 << 14), 1 << 14, out).astype(np.int32), scale=0.00012)
        quantized: dict[str, Any] = {"scale": 0.1, "zero_point": int(generator.integers(0, 256))}
    elif dtype is INT8:
        x = b.input((*size, depth), dtype, scale=0.04, zero_point=int(generator.integers(-128, 128)))
        scales = np.exp(generator.uniform(-9, -3, out)).tolist()
        weights = b.constant(generator.integers(-128, 128, shape).astype(np.int8), scale=scales, zero_point=[0] * out,
                             axis=0 if kind == "CONV_2D" else 3)  # fmt: skip
        bias = b.constant(generator.integers(-(1 << 14), 1 << 14, out).astype(np.int32), scale=0.001)
        quantized = {"scale": 0.1, "zero_point": int(generator.integers(-128, 128))}
    else:
        x, quantized = b.input((*size, depth), dtype), {}
        change = np.abs if magnitudes else np.positive
        weights = b.constant(change(generator.standard_normal(shape).astype(np.float32)))
        bias = b.constant(change(generator.standard_normal(out).astype(np.float32)))
    padding = (Padding.SAME, Padding.VALID)[seed % 2]
    activation = (FusedActivation.NONE, FusedActivation.RELU, FusedActivation.RELU6, FusedActivation.RELU_N1_TO_1)[seed % 4]
    activation = FusedActivation.NONE if magnitudes else activation
    made: Any = at.Conv2DOptions(padding, stride, stride, activation, dilation, dilation)
    if kind != "CONV_2D":
        made = at.DepthwiseConv2DOptions(padding, stride, stride, 1, activation, dilation, dilation)
    b.output(b.op(kind, [x, weights, bias], (1, 1, 1, out), dtype, attributes=made, **quantized))
    return b.build()


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@settings(max_examples=60)
@given(
    dtype=st.sampled_from([F32, INT8, UINT8]), size=st.tuples(st.integers(1, 2), SIZES, SIZES),
    channels=st.tuples(CHANNELS, CHANNELS),
    window=st.tuples(st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 2, 3, -2, -3])), seed=st.integers(0, 999),
)  # fmt: skip
def test_convolutions_of_any_geometry_equal_the_reference(
    kind: str, dtype: DType, size: tuple[int, int, int], channels: tuple[int, int], window: tuple[int, int, int], seed: int
) -> None:
    _compare_convolution(kind, dtype, size, channels, window, seed)


@pytest.mark.parametrize("dtype", [F32, INT8, UINT8])
@pytest.mark.parametrize("kernel", [(3, 3), (9, 1), (1, 9)], ids=str)
@pytest.mark.parametrize("width", [1, 3, 4, 5, 12])
@pytest.mark.parametrize("step", [1, 2, -2])
def test_depthwise_filters_of_nine_taps_equal_the_reference(
    dtype: DType, kernel: tuple[int, int], width: int, step: int
) -> None:
    for seed in (0, 1):
        _compare_convolution("DEPTHWISE_CONV_2D", dtype, (2, 5, width), (20, 20), (*kernel, step), seed)


def _compare_convolution(
    kind: str, dtype: DType, size: tuple[int, int, int], channels: tuple[int, int], window: tuple[int, int, int], seed: int
) -> None:
    reach = tuple((k - 1) * max(-window[2], 1) + 1 for k in window[:2])
    size = (size[0], max(size[1], reach[0]), max(size[2], reach[1]))
    content = _weighted(kind, dtype, size, channels, window, seed)
    inputs = random_inputs(content, seed)
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    ours, expected = run(interpreter, inputs)[0], run_reference(content, inputs)[0]
    assert all(isinstance(op, CompiledOperation) and op.is_compiled for p in delegate.partitions for op in p.operations)
    if dtype is not F32:
        np.testing.assert_array_equal(ours, expected)
    else:
        sums = run_reference(_weighted(kind, dtype, size, channels, window, seed, magnitudes=True), [np.abs(inputs[0])])[0]
        terms = window[0] * window[1] * (channels[0] if kind == "CONV_2D" else 1) + 1
        assert (np.abs(ours - expected) <= terms * 2.0**-23 * sums).all()


@pytest.mark.seed("X-Q-FULLY_CONNECTED")
@pytest.mark.parametrize("zero_point", [0, 17, 128, 255])
@pytest.mark.parametrize(("batch", "depth", "units"), [(1, 640, 128), (3, 37, 10), (7, 4, 33)])
def test_unsigned_products_of_any_zero_point_equal_the_reference(zero_point: int, batch: int, depth: int, units: int) -> None:
    rng, b = np.random.default_rng(zero_point), ModelBuilder()
    x = b.input((batch, depth), UINT8, scale=0.02, zero_point=100)
    weights = b.constant(rng.integers(0, 256, (units, depth)).astype(np.uint8), scale=0.004, zero_point=zero_point)
    bias = b.constant(rng.integers(-4000, 4000, units).astype(np.int32), scale=0.02 * 0.004)
    b.output(b.op("FULLY_CONNECTED", [x, weights, bias], (batch, units), UINT8, scale=0.3, zero_point=131,
                  attributes=at.FullyConnectedOptions()))  # fmt: skip
    content = b.build()
    inputs = random_inputs(content, 1)
    interpreter, delegate = delegated(content, qu8=True)
    ours = run(interpreter, inputs)[0]
    assert all(isinstance(op, CompiledOperation) and op.is_compiled for p in delegate.partitions for op in p.operations)
    np.testing.assert_array_equal(ours, run_reference(content, inputs)[0])


@pytest.mark.parametrize("dtype", [F32, INT8])
def test_a_network_equals_the_reference_and_runs_again_with_new_inputs(dtype: DType) -> None:
    content = mobile_network(dtype)
    interpreter, _ = delegated(content, qs8=True)
    for seed in range(2):
        inputs = random_inputs(content, seed)
        ours, expected = run(interpreter, inputs)[0], run_reference(content, inputs)[0]
        if dtype is INT8:
            np.testing.assert_array_equal(ours, expected)
        else:
            assert steps_apart(ours, expected) <= 64


def test_resized_inputs_are_prepared_anew() -> None:
    content = _weighted("CONV_2D", F32, (1, 8, 8), (3, 20), (3, 3, 1), 0)
    interpreter, _ = delegated(content)
    run(interpreter, random_inputs(content, 0))
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (2, 11, 5, 3))
    x = np.random.default_rng(5).standard_normal((2, 11, 5, 3)).astype(np.float32)
    assert steps_apart(run(interpreter, [x])[0], run_reference(content, [x])[0]) <= ULP["CONV_2D"]


def test_very_large_biases_of_dead_channels_saturate_as_in_the_reference() -> None:
    b = ModelBuilder()
    x = b.input((1, 3, 3, 4), INT8, scale=0.05, zero_point=-3)
    weights = b.constant(np.ones((2, 1, 1, 4), np.int8), scale=[1e-9, 0.01], zero_point=[0, 0])
    bias = b.constant(np.array([1 << 30, -(1 << 30)], np.int32), scale=1e-9)
    made = at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
    b.output(b.op("CONV_2D", [x, weights, bias], (1, 3, 3, 2), INT8, scale=0.1, zero_point=1, attributes=made))
    content = b.build()
    inputs = random_inputs(content, 0)
    interpreter, _ = delegated(content, qs8=True)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])


REAL = ("mlperf_vww_float", "mlperf_vww_int8", "mlperf_resnet8_int8", "mlperf_ad_int8", "mlperf_kws_int8",
        "kws_micronet_m_int8", "kwt1_float", "person_detect_int8", "mobilenet_v1_025_128_uint8")  # fmt: skip


@pytest.mark.parametrize("name", [name for name in REAL if name in shared_models()])
def test_a_real_network_equals_the_reference(name: str) -> None:
    content = repaired(shared_models()[name].read_bytes())
    inputs = random_inputs(content, 0)
    interpreter, _ = delegated(content, qs8=True, qu8=True)
    for ours, expected in zip(run(interpreter, inputs), run_reference(content, inputs), strict=True):
        if ours.dtype == np.float32:
            assert steps_apart(ours, expected) <= 256
        else:
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.seed("X-F-DEPTHWISE_CONV_2D", "X-Q-DEPTHWISE_CONV_2D")
@pytest.mark.parametrize("dtype", [F32, INT8])
@pytest.mark.parametrize(("kernel", "stride", "channels"), [((10, 8), 2, 8), ((3, 3), 1, 17), ((1, 5), 1, 2)])
def test_several_filters_over_one_input_channel_are_compiled(
    dtype: DType, kernel: tuple[int, int], stride: int, channels: int
) -> None:
    rng, b = np.random.default_rng(3), ModelBuilder()
    shape = (1, *kernel, channels)
    source: dict[str, Any] = {} if dtype is F32 else {"scale": 0.1, "zero_point": -5}
    target: dict[str, Any] = {} if dtype is F32 else {"scale": 0.8, "zero_point": 4}
    x = b.input((1, 21, 16, 1), dtype, **source)
    if dtype is F32:
        w, bias = (
            b.constant(rng.normal(size=shape).astype(np.float32)),
            b.constant(rng.normal(size=channels).astype(np.float32)),
        )
    else:
        w = b.constant(rng.integers(-127, 128, shape).astype(np.int8), scale=0.02)
        bias = b.constant(rng.integers(-900, 900, channels).astype(np.int32), scale=0.002)
    options = at.DepthwiseConv2DOptions(
        padding=Padding.SAME,
        stride_h=stride,
        stride_w=stride,
        depth_multiplier=channels,
        dilation_h_factor=1,
        dilation_w_factor=1,
    )
    out = (1, -(-21 // stride), -(-16 // stride), channels)
    b.output(b.op("DEPTHWISE_CONV_2D", [x, w, bias], out, dtype, attributes=options, **target))
    content = b.build()
    inputs = random_inputs(content, 1)
    interpreter, delegate = delegated(content, qs8=True)
    ours, expected = run(interpreter, inputs)[0], run_reference(content, inputs)[0]
    operations = delegate.partitions[0].operations
    assert [isinstance(operation, CompiledOperation) and operation.is_compiled for operation in operations] == [True]
    if dtype is F32:
        assert steps_apart(ours, expected) <= ULP["DEPTHWISE_CONV_2D"]
    else:
        np.testing.assert_array_equal(ours, expected)


SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], np.float32)


@pytest.mark.seed("X-F-MAX_POOL_2D", "X-Q-MAX_POOL_2D")
@pytest.mark.parametrize("dtype", [F32, INT8, UINT8])
@pytest.mark.parametrize("padding", [Padding.SAME, Padding.VALID])
@pytest.mark.parametrize("window", [(2, 2, 2), (3, 3, 1), (1, 4, 3), (5, 2, 2)], ids=str)
@pytest.mark.parametrize("channels", [1, 16, 37])
def test_maxima_equal_the_reference(dtype: DType, padding: Padding, window: tuple[int, int, int], channels: int) -> None:
    b = ModelBuilder()
    source: dict[str, Any] = {} if dtype is F32 else {"scale": 0.05, "zero_point": 3}
    activation = FusedActivation.RELU6 if channels == 37 else FusedActivation.NONE
    x = b.input((2, 7, 6, channels), dtype, **source)
    made = at.Pool2DOptions(padding, window[2], window[2], window[1], window[0], activation)
    b.output(b.op("MAX_POOL_2D", [x], (1, 1, 1, channels), dtype, attributes=made, **source))
    content = b.build()
    (values,) = random_inputs(content, 1)
    if dtype is F32:
        values = np.where(np.random.default_rng(1).random(values.shape) < 0.6, np.resize(SPECIAL, values.shape), values)
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    ours, expected = run(interpreter, [values])[0], run_reference(content, [values])[0]
    assert ours.tobytes() == expected.tobytes()
    assert all(isinstance(op, CompiledOperation) and op.is_compiled for p in delegate.partitions for op in p.operations)


@pytest.mark.seed("X-F-PAD", "X-Q-PAD")
@pytest.mark.parametrize("dtype", [F32, INT8, UINT8])
@pytest.mark.parametrize(
    "amounts",
    [
        [(0, 0), (0, 0), (0, 0), (0, 4)], [(0, 0), (1, 2), (3, 0), (0, 0)], [(0, 0), (1, 1), (1, 1), (2, 1)],
        [(1, 0), (0, 0), (0, 0), (0, 0)], [(0, 0)] * 4, [(1, 2), (0, 1), (2, 2), (1, 1)], [(0, 0), (5, 0), (0, 0), (1, 0)],
    ],
    ids=str,
)  # fmt: skip
def test_padded_maps_equal_the_reference(dtype: DType, amounts: list[tuple[int, int]]) -> None:
    b, shape = ModelBuilder(), (3, 4, 5, 6)
    source: dict[str, Any] = {} if dtype is F32 else {"scale": 0.05, "zero_point": 3}
    x, pairs = b.input(shape, dtype, **source), b.constant(np.array(amounts, np.int32))
    out = tuple(size + sum(pair) for size, pair in zip(shape, amounts, strict=True))
    b.output(b.op("PAD", [x, pairs], out, dtype, attributes=at.PadOptions(), **source))
    content = b.build()
    inputs = random_inputs(content, 1)
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])
    assert all(isinstance(op, CompiledOperation) and op.is_compiled for p in delegate.partitions for op in p.operations)


@pytest.mark.parametrize("dtype", [INT8, UINT8])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 1, 5), (4, 1), (3, 4, 5), (1, 1, 1, 5)], ids=str)
@pytest.mark.parametrize("is_first", [False, True])
def test_constants_are_repeated_to_the_shape_of_the_map(
    dtype: DType, kind: str, shape: tuple[int, ...], is_first: bool
) -> None:
    b, info = ModelBuilder(), np.iinfo(dtype.numpy)
    x = b.input((3, 4, 5), dtype, scale=0.05, zero_point=3)
    values = np.random.default_rng(2).integers(info.min, info.max + 1, shape).astype(dtype.numpy)
    constant = b.constant(np.asarray(values), scale=0.02, zero_point=7)
    out = np.broadcast_shapes((3, 4, 5), shape)
    options = {"ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions()}[kind]
    operands = [constant, x] if is_first else [x, constant]
    b.output(b.op(kind, operands, out, dtype, scale=0.06, zero_point=1, attributes=options))
    content = b.build()
    inputs = random_inputs(content, 1)
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])
    (operation,) = delegate.partitions[0].operations
    assert isinstance(operation, CompiledOperation)
    assert operation.is_compiled is (out == (3, 4, 5))


def kinds_of_sums(
    dtype: DType, kind: str, extra: int, scales: tuple[float, ...], activation: FusedActivation = FusedActivation.NONE
) -> set[int]:
    """As which jobs a sum of every pair of bytes, and some more, runs; all as the reference kernel has them."""
    pairs, fill = np.arange(1 << 16), np.zeros(extra, np.uint8)
    given = [
        np.concatenate([side, fill]).astype(np.uint8).view(dtype.numpy or np.int8)[None] for side in (pairs >> 8, pairs & 255)
    ]
    b = ModelBuilder()
    operands = [b.input(given[0].shape, dtype, scale=scale, zero_point=zp) for scale, zp in zip(scales, (3, 7), strict=False)]
    options = at.AddOptions(activation) if kind == "ADD" else at.SubOptions(activation)
    b.output(b.op(kind, operands, given[0].shape, dtype, scale=scales[2], zero_point=1, attributes=options))
    content = b.build()
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    np.testing.assert_array_equal(run(interpreter, given)[0], run_reference(content, given)[0])
    return {int(op.rows["kind"][0]) for op in delegate.partitions[0].operations if isinstance(op, CompiledOperation)}


@pytest.mark.parametrize("kind", ["ADD", "SUB"])
@pytest.mark.parametrize("activation", [FusedActivation.NONE, FusedActivation.RELU])
@pytest.mark.parametrize(("dtype", "extra"), [(INT8, 0), (UINT8, 0), (INT8, 5)])
def test_sums_of_every_pair_of_bytes_equal_the_reference(
    kind: str, activation: FusedActivation, dtype: DType, extra: int
) -> None:
    for scales in [(0.1, 0.1, 0.1), *np.random.default_rng(1).uniform(0.01, 0.1, (3, 3)).tolist()]:
        assert kinds_of_sums(dtype, kind, extra, scales, activation) == {r.FIXED_POINT_SUM}


def test_sums_with_many_halves_run_with_the_reference_kernel_s_factors() -> None:
    assert kinds_of_sums(INT8, "ADD", 0, (0.05, 0.02, 0.06)) == {r.ADD_BYTES}


@pytest.mark.parametrize("dtype", [INT8, UINT8])
@pytest.mark.parametrize("kind", ["LEAKY_RELU", "LOGISTIC", "QUANTIZE", "TANH"])
def test_every_byte_that_is_looked_up_equals_the_reference(dtype: DType, kind: str) -> None:
    b, every = ModelBuilder(), np.arange(256, dtype=np.uint8).view(dtype.numpy).reshape(1, 4, 64)
    x = b.input(every.shape, dtype, scale=0.03, zero_point=5)
    lowest = int(np.iinfo(dtype.numpy).min)
    fixed = {"LOGISTIC": (1 / 256, lowest), "TANH": (1 / 128, lowest + 128)}.get(kind, (0.04, 9))
    attributes = at.LeakyReluOptions(0.3) if kind == "LEAKY_RELU" else None
    b.output(b.op(kind, [x], every.shape, dtype, scale=fixed[0], zero_point=fixed[1], attributes=attributes))
    content = b.build()
    interpreter, delegate = delegated(content, qs8=True, qu8=True)
    np.testing.assert_array_equal(run(interpreter, [every])[0], run_reference(content, [every])[0])
    (operation,) = delegate.partitions[0].operations
    assert isinstance(operation, CompiledOperation)
    assert operation.is_compiled
