"""Edge shapes and values, where a kernel is easily right for the usual ones only: equal to LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import RuntimeOptions
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import run_reference
from tests.support.operator_cases import BOOL, F32, I8, I16, I32, I64, U8, In, ints, model
from tests.support.operator_cases import CASES as OPERATOR_CASES

F16 = DType.FLOAT16
HUGE = np.array([3e38, -3e38, 1, 0], np.float32)
NO_NUMBERS = np.array([2, np.nan, 1, np.inf, -np.inf, np.nan], np.float32)


def _one(kind: str, inputs: Sequence[Any], out: In, attributes: Attributes | None = None) -> tuple[bytes, list[Array]]:
    """A model of one operator: arrays become inputs, pairs of array and `In` inputs with quantization, `In` constants."""
    made, values = [], []
    for entry in inputs:
        if isinstance(entry, In):
            made.append(entry)
            continue
        value, like = entry if isinstance(entry, tuple) else (entry, None)
        value = np.asarray(value)
        dtype = {"f4": F32, "f2": F16, "i1": I8, "u1": U8, "i2": I16, "i4": I32, "i8": I64, "b1": BOOL}[value.dtype.str[1:]]
        values.append(value)
        made.append(In(value.shape, dtype) if like is None else In(value.shape, dtype, like.scale, like.zero_point))
    return model(kind, made, [out], attributes), values


def _reduction(kind: str, shape: tuple[int, ...], axes: Sequence[int], dtype: type = np.float32, *, keep: bool = False) -> Any:
    out = In((1,), {"f4": F32, "i1": I8, "i4": I32, "b1": BOOL}[np.dtype(dtype).str[1:]])
    return lambda: _one(kind, [np.zeros(shape, dtype), ints(axes)], out, at.ReducerOptions(keep))


def _all_numbers(kind: str, scale: float, out: In, attributes: Attributes | None = None) -> Any:
    values = np.arange(-32768, 32768, dtype=np.int16)
    return lambda: _one(kind, [(values, In((), I16, scale))], out, attributes)


def _softmax(dtype: Any, scale: float, zero_point: int, depth: int) -> Any:
    def build() -> tuple[bytes, list[Array]]:
        limits = np.iinfo(dtype.numpy)
        rows = np.random.default_rng(depth).integers(limits.min, limits.max, (20_000, depth), dtype.numpy, endpoint=True)
        out = In((1,), dtype, 2.0**-8, zero_point)
        return _one("SOFTMAX", [(rows, In((), dtype, scale, 3))], out, at.SoftmaxOptions(1.0))

    return build


def _roots(scale: float, out_scale: float) -> Any:
    values = np.arange(-128, 128, dtype=np.int8), In((), I8, scale, -128)
    return lambda: _one("RSQRT", [values], In((1,), I8, out_scale, -128))


def _normalised_bytes(dtype: Any, middle: int) -> Any:
    def build() -> tuple[bytes, list[Array]]:
        limits = np.iinfo(dtype.numpy)
        rows = np.random.default_rng(1).integers(limits.min, limits.max, (20_000, 5), dtype.numpy, endpoint=True)
        rows[::2] //= 16
        return _one("L2_NORMALIZATION", [(rows, In((), dtype, 0.1, 3))], In((1,), dtype, 2.0**-7, middle), at.L2NormOptions())

    return build


def _strided(size: int, begin: int, end: int, stride: int, **masks: Any) -> Any:
    options = at.StridedSliceOptions(**masks)
    values = np.arange(size, dtype=np.float32)
    return lambda: _one("STRIDED_SLICE", [values, ints([begin]), ints([end]), ints([stride])], In((1,), F32), options)


def _arithmetic(kind: str, options: Any, dtype: type = np.float32) -> Any:
    values = HUGE if dtype is np.float32 else np.array([6e4, -6e4, 1, 0], dtype)
    out = In((1,), F32 if dtype is np.float32 else F16)
    other = np.abs(values) + dtype(1) if kind != "DIV" else np.array([1e-9, 1e-9, 0, 1], dtype)
    return lambda: _one(kind, [values, other], out, options)


def _window(kind: str, attributes: Attributes, weights: Sequence[int] | None = None) -> Any:
    inputs: list[Any] = [np.concatenate([HUGE, NO_NUMBERS]).reshape(1, 5, 2, 1)]
    if weights is not None:
        inputs += [In(weights, F32, data=np.full(weights, 3)), In((weights[-1],), F32, data=np.zeros(weights[-1]))]
    return lambda: _one(kind, inputs, In((1,), F32), attributes)


def _gather(batch_dims: int, axis: int) -> Any:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    rows = np.array([[0, 2], [1, 1]], np.int32)
    return lambda: _one("GATHER", [values, rows], In((1,), F32), at.GatherOptions(axis, batch_dims))


def _reshape(shape: tuple[int, ...], target: Sequence[int], dtype: Any = I32, option: tuple[int, ...] = ()) -> Any:
    return lambda: _one("RESHAPE", [np.zeros(shape, np.float32), ints(target, dtype)], In((1,), F32), at.ReshapeOptions(option))


def _selected(kind: str, shape: tuple[int, ...], declared: tuple[int, ...]) -> Any:
    values = [np.ones(shape, bool), np.full(shape, 3, np.float32), np.full(shape, 4, np.float32)]
    return lambda: _one(kind, values, In(declared, F32))


Build = Callable[[], tuple[bytes, list[Array]]]
_UNIT16 = In((1,), I16, 2.0**-15)
_BMM = at.BatchMatMulOptions(True, True, False)
_FILTERED: dict[str, tuple[tuple[int, ...], int, Attributes]] = {
    "DEPTHWISE_CONV_2D": ((1, 3, 3, 4), 3, at.DepthwiseConv2DOptions(Padding.SAME, 1, 1, 1)),
    "FULLY_CONNECTED": ((8, 4), 0, at.FullyConnectedOptions(keep_num_dims=True)),
    "TRANSPOSE_CONV": ((8, 3, 3, 4), 0, at.TransposeConvOptions(Padding.SAME, 1, 1)),
}


def _off_centre(kind: str, *, per_channel: bool) -> Build:
    """Filters with a zero point of 7."""

    def build() -> tuple[bytes, list[Array]]:
        rng, (shape, axis, options) = np.random.default_rng(2), _FILTERED[kind]
        channels = shape[axis]
        scale = [0.01 * (n + 1) for n in range(channels)] if per_channel else 0.01
        x = rng.integers(-128, 128, (1, 5, 6, 4)).astype(np.int8), In((), I8, 0.02, -3)
        weights = In(shape, I8, scale, 7, axis, rng.integers(-127, 128, shape))
        bias = In((channels,), I32, 0.0002, data=rng.integers(-500, 500, channels))
        inputs = [ints([1, 5, 6, channels]), weights, x, bias] if kind == "TRANSPOSE_CONV" else [x, weights, bias]
        return _one(kind, inputs, In((1,), I8, 0.1, 5), options)

    return build


def _overflowing(scale: float, out: In) -> Build:
    """Numbers whose left shift by the ratio of the scales leaves 32 bits, and some whose does not."""
    numbers = np.random.default_rng(5).integers(-(2**31), 2**31, 4000) >> np.arange(4000) % 25
    values = numbers.astype(np.int32), In((), I32, scale)
    return lambda: _one("QUANTIZE", [values], out)


def _steep_convolution(out_scale: float) -> Build:
    """Accumulators that are multiplied by numbers above 1, some beyond 32 bits."""

    def build() -> tuple[bytes, list[Array]]:
        rng = np.random.default_rng(6)
        x = rng.integers(-128, 128, (1, 5, 6, 16)).astype(np.int8), In((), I8, 0.5, -3)
        weights = In((8, 3, 3, 16), I8, [2.0 ** (n - 4) for n in range(8)], 0, 0, rng.integers(-127, 128, (8, 3, 3, 16)))
        bias = In((8,), I32, [2.0 ** (n - 5) for n in range(8)], 0, 0, rng.integers(-(2**24), 2**24, 8))
        return _one("CONV_2D", [x, weights, bias], In((1,), I8, out_scale, 5), at.Conv2DOptions(Padding.SAME, 1, 1))

    return build


def _fully_connected_beyond(zero_point: int) -> Build:
    """Sums that are larger than an int32 once they are scaled."""

    def build() -> tuple[bytes, list[Array]]:
        weights, bias = In((1, 16), I8, 4.0, data=np.full((1, 16), 127)), In((1,), I32, 64.0, data=np.zeros(1))
        x = np.repeat(np.array([-100, -7, -1, 0, 1, 7, 100], np.int8)[:, None], 16, 1), In((), I8, 16.0)
        return _one("FULLY_CONNECTED", [x, weights, bias], In((1,), I8, 2.0**-18, zero_point), at.FullyConnectedOptions())

    return build


def _bias_at(limit: int) -> Build:
    """Sums of int32 that wrap where products are added to a bias at the end of its range."""
    weights, bias = In((2, 16), I8, 0.5, data=np.full((2, 16), 127)), In((2,), I32, 0.25, data=np.array([limit, 3]))
    x = np.arange(-8, 8, dtype=np.int8)[:, None].repeat(16, 1), In((), I8, 0.5)
    return lambda: _one("FULLY_CONNECTED", [x, weights, bias], In((1,), I8, 100.0, 3), at.FullyConnectedOptions())


def _enlarged(dtype: type, shape: tuple[int, int, int, int]) -> Build:
    """RESIZE_BILINEAR to so many elements that they are not computed at once."""

    def build() -> tuple[bytes, list[Array]]:
        x = np.random.default_rng(3).integers(-99, 99, (shape[0], 4, 5, shape[3])).astype(dtype)
        kind = {np.int8: I8, np.int16: I16, np.float32: F32}[dtype]
        given = x if dtype is np.float32 else (x, In((), kind, 0.1))
        out = In((1,), kind) if dtype is np.float32 else In((1,), kind, 0.1)
        return _one("RESIZE_BILINEAR", [given, ints(shape[1:3])], out, at.ResizeBilinearOptions(False, True))

    return build


def _joined_words() -> tuple[bytes, list[Array]]:
    """16-bit maps of two scales are joined as they are."""
    fine, coarse = ((np.array([[1, -2, 300]], np.int16) * n, In((), I16, scale)) for n, scale in ((1, 0.1), (7, 0.3)))
    return _one("CONCATENATION", [fine, coarse], In((1,), I16, 0.1), at.ConcatenationOptions(0))


def _joined_without_scale(scale: float) -> tuple[bytes, list[Array]]:
    """A map of unsigned bytes without a scale, beside one with another scale than the output's."""
    values = np.array([[3, 200]], np.uint8)
    return _one("CONCATENATION", [values, (values, In((), U8, 0.3, 7))], In((1,), U8, scale, 60), at.ConcatenationOptions(0))


def _padded(dtype: Any, given: In, out: In) -> Build:
    values = np.array([5, 6], dtype)
    return lambda: _one("PAD", [(values, given), ints([[1, 2]])], out, at.PadOptions())


def _lstm(kind: str) -> Build:
    """A cell without activation: LiteRT's kernels then multiply the output gate by the cell gate, not by the cell."""

    def build() -> tuple[bytes, list[Array]]:
        rng = np.random.default_rng(4)
        plain = read_model(OPERATOR_CASES[f"{kind}-float32"](rng))
        (graph,), (op,) = plain.graphs, plain.graphs[0].ops
        options = replace(op.attributes, fused_activation_function=FusedActivation.NONE)  # type: ignore[type-var]
        ops = (replace(op, attributes=options),)
        shape = graph.tensors[graph.inputs[0]].shape
        return write_model(replace(plain, graphs=(replace(graph, ops=ops),))), [rng.standard_normal(shape).astype(np.float32)]

    return build


def _faked() -> tuple[bytes, list[Array]]:
    """Every place between two steps, where the reference's multiplication by the inverse decides."""
    options = at.FakeQuantOptions(-1.2859424352645874, 1.7140575647354126, 8, narrow_range=False)
    scale = np.float32((options.max - options.min) / 255)
    middle = (np.arange(-110, 146, dtype=np.float32) + np.float32(0.5)) * scale
    around = [middle, np.nextafter(middle, np.float32(9)), np.nextafter(middle, np.float32(-9))]
    return _one("FAKE_QUANT", [np.concatenate(around)], In((1,), F32), options)


def _faked_to(bits: int) -> tuple[bytes, list[Array]]:
    return _one(
        "FAKE_QUANT", [np.zeros(4, np.float32)], In((1,), F32), at.FakeQuantOptions(-1.0, 1.0, bits, narrow_range=False)
    )


def _filtered_without_numbers(activation: FusedActivation) -> Build:
    state, bias = In((1, 2), F32, is_variable=True), In((2,), F32, data=[np.nan, -0.5])
    rest = [In((2, 1), F32, data=np.ones((2, 1))), In((2, 1), F32, data=np.ones((2, 1))), bias, state]
    options = at.SVDFOptions(1, activation)
    return lambda: _one("SVDF", [np.ones((1, 1), np.float32), *rest], In((1,), F32), options)


def _product_with_zeros(dtype: DType, *, first: bool) -> Build:
    """An operand whose scale is 0, as the first state of an unrolled LSTM has it."""
    limits = np.iinfo(dtype.numpy)
    values = np.linspace(limits.min, limits.max, 24).astype(dtype.numpy)
    zero_point = 0 if dtype is I16 else 4
    operands = [(values, In((), dtype, 0.1, zero_point)), (values[::-1].copy(), In((), dtype, 0.0, zero_point))]
    return lambda: _one("MUL", operands[::-1] if first else operands, In((1,), dtype, 0.15, zero_point), at.MulOptions())


CASES: dict[str, Build] = {
    **{
        f"product of {dtype.name} and zeros, {'first' if first else 'last'}": _product_with_zeros(dtype, first=first)
        for dtype in (I8, U8, I16)
        for first in (False, True)
    },
    "fake quantization between two steps": _faked,
    **{
        f"no number before {activation.name} of a filter": _filtered_without_numbers(activation)
        for activation in (FusedActivation.RELU, FusedActivation.RELU6, FusedActivation.RELU_N1_TO_1)
    },
    **{
        f"padding of {dtype.name}, {'scaled' if scale else 'not scaled'}": _padded(
            dtype.numpy, In((), dtype, scale, 3 if scale else 0), In((1,), dtype, 0.5, 7)
        )
        for dtype in (I8, U8, I16, I32, I64)
        for scale in (None, 0.5)
    },
    "bytes without a scale joined with others": lambda: _joined_without_scale(0.1),
    **{
        f"{kind} with a filter's zero point{' per channel' if value else ''}": _off_centre(kind, per_channel=value)
        for kind in _FILTERED
        for value in (False, True)
    },
    "joined 16-bit maps of two scales": _joined_words,
    "int32 to int8 beyond 32 bits": _overflowing(0.0035, In((1,), I8, 0.0022, -45)),
    "int32 to int8 far beyond 32 bits": _overflowing(300.0, In((1,), I8, 0.01, 3)),
    "int32 to int16 beyond 32 bits": _overflowing(0.0088, In((1,), I16, 0.0013)),
    "sum beyond 32 bits, offset up": _fully_connected_beyond(5),
    "sum beyond 32 bits, offset down": _fully_connected_beyond(-5),
    "convolution beyond 32 bits": _steep_convolution(2.0**-8),
    "convolution far beyond 32 bits": _steep_convolution(2.0**-20),
    "largest of nothing": _reduction("REDUCE_MAX", (2, 0), [1]),
    "smallest of nothing": _reduction("REDUCE_MIN", (2, 0), [1], keep=True),
    "largest integer of nothing": _reduction("REDUCE_MAX", (2, 0), [1], np.int32),
    "smallest byte of nothing": _reduction("REDUCE_MIN", (2, 0), [1], np.int8),
    "largest truth of nothing": _reduction("REDUCE_MAX", (0, 3), [0], np.bool_),
    "smallest truth of nothing": _reduction("REDUCE_MIN", (0, 3), [0], np.bool_),
    "mean over no axis of nothing": _reduction("MEAN", (0, 8, 1), []),
    "sum over axes of an empty map": _reduction("SUM", (8, 0, 2, 4), [-2, -4], keep=True),
    "largest number beside others": lambda: _one(
        "REDUCE_MAX", [NO_NUMBERS, ints([0])], In((1,), F32), at.ReducerOptions(False)
    ),
    "smallest number beside others": lambda: _one(
        "REDUCE_MIN", [NO_NUMBERS, ints([0])], In((1,), F32), at.ReducerOptions(False)
    ),
    "product that overflows": lambda: _one("REDUCE_PROD", [HUGE, ints([0])], In((1,), F32), at.ReducerOptions(False)),
    "softmax of empty rows": lambda: _one("SOFTMAX", [np.zeros((2, 0), np.float32)], In((1,), F32), at.SoftmaxOptions(1.0)),
    "logarithmic softmax of empty rows": lambda: _one("LOG_SOFTMAX", [np.zeros((2, 0), np.float32)], In((1,), F32)),
    "int8 softmax of many rows of 3": _softmax(I8, 0.0593, -128, 3),
    "uint8 softmax of many rows of 17": _softmax(U8, 0.222, 0, 17),
    "int8 softmax of steep rows": _softmax(I8, 3.0, -128, 5),
    "inverse roots of nothing and of no numbers": lambda: _one(
        "RSQRT", [np.concatenate([NO_NUMBERS, np.array([0, -0.0, 1e-42], np.float32)])], In((1,), F32)
    ),
    "int8 inverse roots near half steps": _roots(0.0014389147982001305, 0.008680243045091629),
    "int8 inverse roots near other half steps": _roots(3.2883901440072805e-05, 0.06419631838798523),
    "many normalised rows of int8": _normalised_bytes(I8, 0),
    "many normalised rows of uint8": _normalised_bytes(U8, 128),
    "every int16 number through tanh": _all_numbers("TANH", 2.0**-8, _UNIT16),
    "every int16 number through tanh, fine": _all_numbers("TANH", 1.98e-4, _UNIT16),
    "every int16 number through logistic": _all_numbers("LOGISTIC", 2.0**-10, _UNIT16),
    "every int16 number through gelu": _all_numbers(
        "GELU", 2.0**-14, In((1,), I16, 0.00013080738426651806), at.GeluOptions(False)
    ),
    "exponential beyond its table": _all_numbers("EXP", 2.0**-8, In((1,), I16, 2.05e-5)),
    "logarithm across its pole": _all_numbers("LOG", 2.0**-8, In((1,), I16, 2.05e-5)),
    "hard swish to a scale that is far larger": lambda: _one(
        "HARD_SWISH", [(np.arange(-128, 128, dtype=np.int8), In((), I8, 8.8e-5, 4))], In((1,), I8, 2.4, -100)
    ),
    "sum of huge numbers": _arithmetic("ADD", at.AddOptions()),
    "difference of huge numbers, RELU": _arithmetic("SUB", at.SubOptions(FusedActivation.RELU)),
    "product of huge numbers": _arithmetic("MUL", at.MulOptions()),
    "quotient by zero": _arithmetic("DIV", at.DivOptions()),
    "sum of huge halves": _arithmetic("ADD", at.AddOptions(), np.float16),
    "squared huge difference": _arithmetic("SQUARED_DIFFERENCE", None),
    "convolution of huge numbers": _window("CONV_2D", at.Conv2DOptions(Padding.VALID, 1, 1), (1, 1, 1, 1)),
    "depthwise convolution of huge numbers": _window(
        "DEPTHWISE_CONV_2D", at.DepthwiseConv2DOptions(Padding.VALID, 1, 1, 1), (1, 1, 1, 1)
    ),
    "bias at the upper end of its range": _bias_at((1 << 31) - 1),
    "bias at the lower end of its range": _bias_at(-(1 << 31)),
    "means of huge numbers": _window("AVERAGE_POOL_2D", at.Pool2DOptions(Padding.VALID, 1, 1, 1, 1)),
    "maxima beside what is no number": _window("MAX_POOL_2D", at.Pool2DOptions(Padding.SAME, 1, 1, 2, 3)),
    "pool of windows that are too wide": _window("MAX_POOL_2D", at.Pool2DOptions(Padding.VALID, 1, 1, 4, 2)),
    "pool of windows that are too high": _window("MAX_POOL_2D", at.Pool2DOptions(Padding.VALID, 1, 1, 2, 7)),
    "remainder of a float division by zero": lambda: _one("FLOOR_MOD", [HUGE, np.zeros(4, np.float32)], In((1,), F32)),
    "casts of what is no number": lambda: _one("CAST", [NO_NUMBERS], In((1,), I32), at.CastOptions(F32, I32)),
    "mirror pad of a scalar": lambda: _one(
        "MIRROR_PAD", [np.float32(3), ints(np.zeros((0, 2)))], In((1,), F32), at.MirrorPadOptions()
    ),
    "range of floats in single precision": lambda: _one(
        "RANGE", [np.float32(0.3), np.float32(-3.3), np.float32(-0.9)], In((1,), F32), at.RangeOptions()
    ),
    "lines between bytes, in parts": _enlarged(np.int8, (3, 300, 301, 2)),
    "lines between floats, in parts": _enlarged(np.float32, (2, 1, 301, 601)),
    "lines between words of many images": _enlarged(np.int16, (600, 9, 11, 7)),
    "stretch beside a zero": _reshape((2, 0, 3), [-1, 0]),
    "stretch after a zero": _reshape((2, 0, 3), [2, 0, -1]),
    "int64 shapes are not read": _reshape((1, 4), [4], I64, (2, 2)),
    "select of one element as declared": _selected("SELECT", (1, 1), ()),
    "select of a scalar as declared": _selected("SELECT_V2", (), (1, 1, 1)),
    "batch dimensions from the end": _gather(-1, 1),
    "all batch dimensions": _gather(-2, -1),
    "products of an empty matrix": lambda: _one(
        "BATCH_MATMUL", [np.zeros((1, 5, 4, 0), np.float32), np.zeros((1, 5, 16, 4), np.float32)], In((1,), F32), _BMM
    ),
    "float map and int8 filter in groups": lambda: _one(
        "CONV_2D",
        [
            np.random.default_rng(0).standard_normal((2, 5, 4, 6)).astype(np.float32),
            In((6, 2, 3, 2), I8, np.linspace(0.01, 0.05, 6).tolist(), data=np.arange(72).reshape(6, 2, 3, 2) - 36),
            In((6,), F32, data=np.arange(6)),
        ],
        In((1,), F32),
        at.Conv2DOptions(Padding.SAME, 1, 1),
    ),
    "float map and int8 filter that is computed": lambda: _one(
        "CONV_2D",
        [
            np.random.default_rng(0).standard_normal((2, 5, 4, 3)).astype(np.float32),
            (np.arange(36, dtype=np.int8).reshape(4, 3, 1, 3) - 18, In((), I8, 0.02)),
            In((4,), F32, data=np.arange(4)),
        ],
        In((1,), F32),
        at.Conv2DOptions(Padding.SAME, 1, 1),
    ),
    "slice up to an offset": _strided(7, -3, 3, 1, offset=True),
    "slice down to an offset": _strided(7, 9, -5, -1, offset=True),
    "slice to an offset despite masks": _strided(7, 1, 3, 1, offset=True, begin_mask=1, end_mask=1),
    "removed axis with masked begin": _strided(7, 4, 5, 1, begin_mask=1, shrink_axis_mask=1),
    "removed axis before the begin": _strided(7, -9, 5, 1, shrink_axis_mask=1),
}


@pytest.mark.parametrize("name", CASES)
def test_edge_case_equals_the_reference_kernel(name: str) -> None:
    content, inputs = CASES[name]()
    (expected,) = run_reference(content, inputs)
    (got,) = run(CpuInterpreter(model_content=content), inputs)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(got, expected)


_FLOAT = [name for name in CASES if "huge" in name and "halves" not in name] + ["quotient by zero", "stretch beside a zero"]


@pytest.mark.parametrize("name", _FLOAT)
def test_delegate_treats_edge_cases_as_the_reference_kernel(name: str) -> None:
    content, inputs = CASES[name]()
    (expected,) = run_reference(content, inputs)
    (got,) = run(CpuInterpreter(model_content=content, experimental_delegates=[XnnpackDelegate()]), inputs)
    np.testing.assert_array_equal(got, expected)


def _transposed(size: int) -> tuple[bytes, list[Array]]:
    weights = In((3, 3, 4, 1), F32, data=np.ones((3, 3, 4, 1)))
    options = at.TransposeConvOptions(Padding.VALID, 2, 2)
    return _one("TRANSPOSE_CONV", [ints([1, size, 18, 3]), weights, np.zeros((1, 2, 8, 1), np.float32)], In((1,), F32), options)


def _joined() -> tuple[bytes, list[Array]]:
    return _one("CONCATENATION", [HUGE, HUGE], In((1,), F32), at.ConcatenationOptions(0, FusedActivation.TANH))


def _normalised() -> tuple[bytes, list[Array]]:
    values = np.array([[3, -4]], np.int8), In((), I8, 0.1)
    return _one("L2_NORMALIZATION", [values], In((1,), I8, 2.0**-7), at.L2NormOptions(FusedActivation.TANH))


def _convolved() -> tuple[bytes, list[Array]]:
    weights, bias = In((1, 3, 3, 1), F32, data=np.ones((1, 3, 3, 1))), In((1,), F32, data=[0])
    return _one(
        "CONV_2D", [np.zeros((1, 1, 5, 1), np.float32), weights, bias], In((1,), F32), at.Conv2DOptions(Padding.VALID, 1, 1)
    )


def _coarse_softmax() -> tuple[bytes, list[Array]]:
    rows = np.zeros((1, 3), np.int8), In((), I8, 0.1)
    return _one("SOFTMAX", [rows], In((1,), I8, 2.0**-7, -128), at.SoftmaxOptions(1.0))


def _without_channels() -> tuple[bytes, list[Any]]:
    images, weights = In((1, 4, 4, 0), I8, 0.1), In((3, 2, 2, 2), I8, 0.1, data=np.ones((3, 2, 2, 2), np.int8))
    options = at.Conv2DOptions(Padding.VALID, 1, 1)
    content = model(
        "CONV_2D", [images, weights, In((3,), I32, data=np.zeros(3, np.int32))], [In((1, 3, 3, 3), I8, 0.1)], options
    )
    return content, [np.zeros((1, 4, 4, 0), np.int8)]


def _range(*values: float) -> tuple[bytes, list[Any]]:
    return model("RANGE", [In((), F32, data=value) for value in values], [In((1,), F32)], at.RangeOptions()), []


UNDEFINED: dict[str, tuple[Build, str]] = {
    "bytes joined at a scale of nearly nothing": (lambda: _joined_without_scale(1e-38), "scales must be above 1e-30"),
    "bytes joined at scales too far apart": (lambda: _joined_without_scale(1e-9), "at most 1000000.0 apart"),
    "numbers of fewer bits than none": (lambda: _faked_to(-(2**31)), r"bits in \[2, 16\], got -1.0, 1.0 and -2147483648"),
    "numbers of more bits than there are": (lambda: _faked_to(2**31 - 1), r"bits in \[2, 16\]"),
}
"""Where LiteRT converts reals to integers that cannot hold them, or shifts by more bits than there are."""


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_the_reference_kernels_leave_undefined_is_refused(name: str) -> None:
    build, text = UNDEFINED[name]
    with pytest.raises(InterpreterError, match=text):
        CpuInterpreter(model_content=build()[0]).allocate_tensors()


def _convolved_words(bias: Any, said: Any) -> tuple[bytes, list[Array]]:
    x = np.zeros((1, 1, 1, 1), np.int16), In((), I16, 1.0)
    weights = In((4, 1, 1, 1), I8, [1.0] * 4, data=np.ones((4, 1, 1, 1)))
    inputs = [x, weights, In((4,), bias, data=[10, 20, 30, 40])]
    return _one("CONV_2D", inputs, In((1,), I16, 1.0), at.Conv2DOptions(Padding.VALID, 1, 1, quantized_bias_type=said))


REFUSED: dict[str, tuple[Build, str]] = {
    "bias of another type than said": (lambda: _convolved_words(I32, I64), "must be int64, as quantized_bias_type says"),
    "range to what is no number": (lambda: _range(0, np.nan, 1), "delta must lead from start to limit"),
    "range without end": (lambda: _range(0, np.inf, 1), "number of elements must be finite"),
    "output that the input cannot give": (lambda: _transposed(7), "input must"),
    "joined maps with a tanh": (_joined, "fused activation must be NONE, RELU"),
    "normalised bytes with a tanh": (_normalised, "fused activation must be NONE, RELU"),
    "window larger than the map": (_convolved, "kernel of 3x3 must fit the input of 1x5"),
    "maps without channels": (_without_channels, "input channels must be a multiple of the filter's 2 .*, got 0"),
    "softmax of another scale": (_coarse_softmax, "output must have the scale"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_reference_kernels_refuse_is_refused(name: str) -> None:
    build, text = REFUSED[name]
    content, inputs = build()
    with pytest.raises((RuntimeError, ValueError)):
        run_reference(content, inputs)
    with pytest.raises(InterpreterError, match=text):
        CpuInterpreter(model_content=content).allocate_tensors()


def _hybrid(kind: str, shape: tuple[int, ...], options: Any, out: tuple[int, ...], *first: In) -> bytes:
    """A convolution of float maps by int8 weights; `first` are inputs before the weights."""
    weights = In(shape, I8, (0.1,) * out[3], axis=3 if kind == "DEPTHWISE_CONV_2D" else 0, data=np.ones(shape, np.int8))
    images, bias = In((0, 4, 4, 2), F32), In((out[3],), F32, data=np.zeros(out[3], np.float32))
    inputs = [*first, weights, images, bias] if first else [images, weights, bias]
    return model(kind, inputs, [In(out, F32)], options)


NO_IMAGES = {
    "CONV_2D": _hybrid("CONV_2D", (3, 2, 2, 2), at.Conv2DOptions(Padding.VALID, 1, 1), (0, 3, 3, 3)),
    "DEPTHWISE_CONV_2D": _hybrid(
        "DEPTHWISE_CONV_2D", (1, 2, 2, 2), at.DepthwiseConv2DOptions(Padding.VALID, 1, 1, 1), (0, 3, 3, 2)
    ),
    "TRANSPOSE_CONV": _hybrid(
        "TRANSPOSE_CONV",
        (3, 2, 2, 2),
        at.TransposeConvOptions(Padding.VALID, 1, 1),
        (0, 5, 5, 3),
        In((4,), I32, data=np.array([0, 5, 5, 3], np.int32)),
    ),
}


@pytest.mark.parametrize("kind", NO_IMAGES)
def test_a_hybrid_convolution_of_no_images_gives_none(kind: str) -> None:
    interpreter = CpuInterpreter(model_content=NO_IMAGES[kind])
    interpreter.allocate_tensors()
    interpreter.invoke()
    (detail,) = interpreter.get_output_details()
    shapes = {"CONV_2D": (0, 3, 3, 3), "DEPTHWISE_CONV_2D": (0, 3, 3, 2), "TRANSPOSE_CONV": (0, 5, 5, 3)}
    assert interpreter.get_tensor(detail["index"]).shape == shapes[kind]


_NUMBERS = np.array([-100, -7, -1, 0, 1, 7, 100], np.int8)


def _steep_difference() -> tuple[bytes, list[Array]]:
    out = In((1,), I8, 2.0**-18, 0)
    return _one("SUB", [(_NUMBERS, In((), I8, 4.0)), (np.zeros(7, np.int8), In((), I8, 0.5))], out, at.SubOptions())


def _steep_words() -> tuple[bytes, list[Array]]:
    weights, bias = In((1, 1, 1, 1), I8, 64.0, data=np.ones((1, 1, 1, 1))), In((1,), I64, 2.0**10, data=np.zeros(1))
    x = _NUMBERS.astype(np.int16).reshape(1, 1, 7, 1), In((), I16, 16.0)
    return _one("CONV_2D", [x, weights, bias], In((1,), I16, 2.0**-18), at.Conv2DOptions(Padding.SAME, 1, 1))


def _steep_product() -> tuple[bytes, list[Array]]:
    rows = np.stack([_NUMBERS, np.ones(7, np.int8)], 1), In((), I8, 128.0)
    return _one("REDUCE_PROD", [rows, ints([1])], In((1,), I8, 2.0**-18, 0), at.ReducerOptions(False))


OPEN = {
    "CONV_2D": _steep_words,
    "REDUCE_PROD": _steep_product,
    "SUB": _steep_difference,
}


@pytest.mark.parametrize("kind", OPEN)
def test_results_that_the_reference_kernel_leaves_open_are_clamped(kind: str) -> None:
    content, inputs = OPEN[kind]()
    (reference,) = run_reference(content, inputs)
    (got,) = run(CpuInterpreter(model_content=content), inputs)
    limits = np.iinfo(got.dtype)
    assert got.reshape(-1).tolist() == [limits.min, limits.min, limits.min, 0, limits.max, limits.max, limits.max]
    assert not np.array_equal(got, reference)


def test_operands_of_scales_from_1_on_are_compared_as_what_they_stand_for() -> None:
    same = (_NUMBERS, In((), I8, 4.0)), (np.zeros(7, np.int8), In((), I8, 0.5))
    content, inputs = _one("GREATER", same, In((1,), BOOL))
    (reference,) = run_reference(content, inputs)
    (got,) = run(CpuInterpreter(model_content=content), inputs)
    assert got.tolist() == [False, False, False, False, True, True, True]
    assert not np.array_equal(got, reference)


def test_ends_that_are_offsets_count_in_spite_of_a_mask() -> None:
    """LiteRT's kernel makes room for these elements, and then takes those up to the end of every axis, one behind the other."""
    x = np.arange(20, dtype=np.int8).reshape(5, 4), In((), I8, 1.0)
    options = at.StridedSliceOptions(end_mask=3, offset=True)
    content, inputs = _one("STRIDED_SLICE", [x, ints([0, 2]), ints([2, 1]), ints([1, 1])], In((1,), I8, 1.0), options)
    (reference,) = run_reference(content, inputs)
    (got,) = run(CpuInterpreter(model_content=content), inputs)
    assert got.tolist() == [[2], [6]]
    assert reference.tolist() == [[2], [3]]


def test_a_bias_of_32_bits_is_read_as_what_it_is() -> None:
    """LiteRT's int16 kernel reads numbers of 64 bits unless an option says otherwise: every second one, and behind the last."""
    content, inputs = _convolved_words(I32, F32)
    (reference,) = run_reference(content, inputs)
    (got,) = run(CpuInterpreter(model_content=content), inputs)
    assert got.reshape(-1).tolist() == [10, 20, 30, 40]
    assert reference.reshape(-1).tolist()[:2] == [10, 30]


def _several_scales() -> tuple[bytes, list[Array]]:
    x = np.zeros(4, np.int8), In((), I8, [0.5, 0.25, 0.1, 1.0])
    return _one("LOGISTIC", [x], In((1,), I8, 2.0**-8, -128))


def _cut(begin: list[int], end: list[int], stride: int = 1, **options: Any) -> tuple[bytes, list[Array]]:
    rest = [ints(begin), ints(end), ints([stride] * len(begin))]
    return _one("STRIDED_SLICE", [np.zeros(4, np.float32), *rest], In((1,), F32), at.StridedSliceOptions(**options))


def _largest(kind: str) -> tuple[bytes, list[Array]]:
    if kind == "SHAPE":
        return _one(kind, [np.zeros(4, np.float32)], In((1,), I64), at.ShapeOptions(I32))
    return _one(kind, [np.zeros(4, np.float32), ints([0])], In((1,), I64), at.ArgMaxOptions(I32))


STRICTER: dict[str, tuple[Build, str]] = {
    "function of a map with several scales": (_several_scales, "feature map 't0' must have one scale, got 4"),
    "new axes behind the last entry": (lambda: _cut([0], [4], new_axis_mask=6), "new_axis_mask must name entries of begin"),
    "removed axis behind a negative stride": (
        lambda: _cut([0], [-1], stride=-1, shrink_axis_mask=1),
        "stride 0 must be positive where the axis is removed",
    ),
    "offset behind the end": (lambda: _cut([2], [3], offset=True), "ends as offsets must stay within 4 elements, got 3 from 2"),
    "index of another type than said": (lambda: _largest("ARG_MAX"), "must be int32, as the operator's options say"),
    "shape of another type than said": (lambda: _largest("SHAPE"), "must be int32, as the operator's options say"),
}


@pytest.mark.parametrize("name", STRICTER)
def test_what_the_reference_kernels_take_for_something_else_is_refused(name: str) -> None:
    build, text = STRICTER[name]
    run_reference(*build())
    with pytest.raises(InterpreterError, match=text):
        CpuInterpreter(model_content=build()[0]).allocate_tensors()


@pytest.mark.parametrize("kind", ["LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
def test_a_cell_without_activation_is_that_of_the_reference_kernel(kind: str) -> None:
    content, inputs = _lstm(kind)()
    np.testing.assert_allclose(
        run(CpuInterpreter(model_content=content), inputs)[0], run_reference(content, inputs)[0], atol=1e-6
    )


def test_an_infinite_weight_over_the_border_of_a_map_gives_no_number_where_the_reference_leaves_it_out() -> None:
    weights = np.ones((1, 3, 3, 1), np.float32)
    weights[0, 0, 0, 0] = np.inf
    operands = [np.ones((1, 3, 3, 1), np.float32), In(weights.shape, F32, data=weights), In((1,), F32, data=[0.0])]
    content, inputs = _one("CONV_2D", operands, In((1,), F32), at.Conv2DOptions(Padding.SAME, 1, 1))
    (reference,) = run_reference(content, inputs)
    (got,) = run(CpuInterpreter(model_content=content), inputs)
    most = float(np.finfo(np.float32).max)
    assert reference[0, :, :, 0].tolist() == [[4, 6, 4], [6, most, most], [4, most, most]]
    assert np.isnan(got[0, 0, :, 0]).all()
    assert np.isnan(got[0, :, 0, 0]).all()
    assert np.array_equal(got[0, 1:, 1:], reference[0, 1:, 1:])


def test_a_radius_at_the_end_of_its_range_makes_all_channels_neighbours() -> None:
    """The reference kernel adds a channel's number to it, beyond 32 bits."""
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 2, 6)
    made = []
    for radius in (6, (1 << 31) - 1):
        options = at.LocalResponseNormalizationOptions(radius, 1.0, 0.5, 0.75)
        content, inputs = _one("LOCAL_RESPONSE_NORMALIZATION", [x], In((1,), F32), options)
        made.append(run(CpuInterpreter(model_content=content), inputs)[0])
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(("dtype", "scale"), [(F32, None), (I8, 0.1)])
def test_a_layer_without_units_gives_nothing(dtype: DType, scale: float | None) -> None:
    b = ModelBuilder()
    x = b.input((3, 28), dtype, scale=scale)
    weights = b.constant(np.zeros((0, 28), dtype.numpy), scale=scale)
    b.output(b.op("FULLY_CONNECTED", [x, weights], (3, 0), dtype, scale))
    (got,) = run(CpuInterpreter(model_content=b.build()), [np.zeros((3, 28), dtype.numpy)])
    assert got.shape == (3, 0)


@pytest.mark.parametrize("radius", [-1, -3, -9, -(1 << 31)])
def test_a_radius_below_zero_leaves_no_neighbours(radius: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 1, 3, 5)).astype(np.float32)
    options = at.LocalResponseNormalizationOptions(radius, 1.0, 0.5, 0.75)
    content, inputs = _one("LOCAL_RESPONSE_NORMALIZATION", [x], In((1,), F32), options)
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), inputs)[0], x)


@pytest.mark.parametrize("size", [(65, 65), (64, 127), (20, 65535)], ids=str)
def test_a_map_of_one_element_is_enlarged_to_any_size(size: tuple[int, int]) -> None:
    """The rounded scale leads behind it, where the reference kernel reads on."""
    x, options = np.array([[[[7, -9]]]], np.int8), at.ResizeBilinearOptions(False, False)
    content, inputs = _one("RESIZE_BILINEAR", [(x, In((), I8, 0.1)), ints(size)], In((1,), I8, 0.1), options)
    (got,) = run(CpuInterpreter(model_content=content), inputs)
    assert got.shape == (1, *size, 2)
    assert (got == x).all()


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]], ids=str)
@pytest.mark.parametrize(("dtype", "zero_point"), [(I8, 0), (I8, -10), (I8, 60), (U8, 0), (U8, 60)], ids=str)
def test_sums_of_bytes_of_one_scale_end_at_255(dtype: DType, zero_point: int, axes: list[int]) -> None:
    """The stored bytes are added without their sign: neither real numbers, nor what the type wraps to."""
    rng = np.random.default_rng(len(axes))
    for shape, divisor in (((2, 3), 1), ((2, 3), 3), ((5, 40), 1), ((5, 40), 40)):
        limits = np.iinfo(dtype.numpy)
        x = (rng.integers(limits.min, limits.max + 1, shape) // divisor).astype(dtype.numpy)
        ifm, ofm = In(shape, dtype, 0.1, zero_point), In((1,), dtype, 0.1, zero_point)
        content = model("SUM", [ifm, ints(axes)], [ofm], at.ReducerOptions(keep_dims=False))
        np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), [x])[0], run_reference(content, [x])[0])


def test_a_scalar_has_no_sums_along_an_axis() -> None:
    content = model("CUMSUM", [In((), F32), In((), I32, data=np.array(0))], [In((1,), F32)], at.CumsumOptions(reverse=True))
    with pytest.raises(InterpreterError, match="input must have rank 1 or more, got a scalar"):
        CpuInterpreter(model_content=content).allocate_tensors()
    with pytest.raises(RuntimeError, match=r"NumDimensions\(input\) >= 1 was not true"):
        run_reference(content, [np.array(3.0, np.float32)])


@pytest.mark.parametrize("kind", ["RELU", "RELU6", "ABS"])
def test_a_map_with_several_scales_has_none(kind: str) -> None:
    """`params.scale` of TFLite is 0 then; kernels that read all scales take the first."""
    b = ModelBuilder()
    x = b.input((2, 3), DType.INT8, scale=[0.1, 0.2], zero_point=[3, 3])
    b.output(b.op(kind, [x], (2, 3), DType.INT8, 0.05, -10))
    content, values = b.build(), [np.arange(-60, 60, 20, dtype=np.int8).reshape(2, 3)]
    interpreter = CpuInterpreter(model_content=content)
    np.testing.assert_array_equal(run(interpreter, values)[0], run_reference(content, values)[0])
    assert interpreter.get_input_details()[0]["quantization"] == (0.0, 0)


@pytest.mark.parametrize("rounding", ["double", "npu"])
def test_a_fully_connected_of_no_units_gives_none(rounding: str) -> None:
    b = ModelBuilder()
    x = b.input((1, 8), DType.INT8, scale=0.1)
    weights = b.constant(np.zeros((0, 8), np.int8), scale=0.1)
    b.output(b.op("FULLY_CONNECTED", [x, weights, None], (1, 0), DType.INT8, 0.1, attributes=at.FullyConnectedOptions()))
    interpreter = CpuInterpreter(model_content=b.build(), options=RuntimeOptions(fully_connected_rounding=rounding))
    assert run(interpreter, [np.zeros((1, 8), np.int8)])[0].shape == (1, 0)
