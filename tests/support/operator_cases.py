"""Random single-operator models, by operator and type: the cases of the differential tests of CPU kernels.

`CASES` maps "KIND-types" to a function that draws shapes, options, scales and constants from a generator and returns a model
file.
Declared output shapes are placeholders: both interpreters compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.cell_templates import TEMPLATES, code_of, fused, operands
from tests.support.type_cells import make_cell

Rng = np.random.Generator
Case = Callable[[Rng], bytes]
CASES: dict[str, Case] = {}

F32, I8, U8, I16, I32, I64, BOOL = (
    DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL,
)  # fmt: skip
QUANTIZED = (I8, U8, I16)


@dataclass(frozen=True)
class In:
    """An input (or, with `data`, a constant; or a variable, which starts at zero)."""

    shape: Sequence[int]
    dtype: DType
    scale: float | Sequence[float] | None = None
    zero_point: int = 0
    axis: int = 0
    data: Any = None
    is_variable: bool = False


def model(
    kind: str,
    inputs: Sequence[In | None],
    outputs: Sequence[In],
    attributes: Attributes | None = None,
    *,
    version: int | None = None,
    intermediates: Sequence[In] = (),
) -> bytes:
    """A model of one operator. Constant inputs carry data, the others become graph inputs."""
    b = ModelBuilder()
    given: list[int | None] = []
    for entry in inputs:
        if entry is None:
            given.append(None)
            continue
        options = {"scale": entry.scale, "zero_point": entry.zero_point, "axis": entry.axis}
        if entry.data is not None:
            given.append(b.constant(np.asarray(entry.data, entry.dtype.numpy), entry.dtype, **options))
        elif entry.is_variable:
            given.append(b.variable(entry.shape, entry.dtype, **options))
        else:
            given.append(b.input(entry.shape, entry.dtype, **options))
    made = [b.tensor(o.shape, o.dtype, scale=o.scale, zero_point=o.zero_point) for o in outputs]
    between = [b.tensor(o.shape, o.dtype, scale=o.scale, zero_point=o.zero_point) for o in intermediates]
    b.multi_op(kind, given, made, attributes=attributes, version=version, intermediates=between)
    b.output(*made)
    return b.build()


def ints(values: Any, dtype: DType = I32) -> In:
    """A constant vector of integers."""
    array = np.asarray(values, dtype.numpy)
    return In(array.shape, dtype, data=array)


def case(name: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        assert name not in CASES, name
        CASES[name] = function
        return function

    return add


def shape_of(rng: Rng, rank: int | None = None, top: int = 7) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, top, rng.integers(1, 5) if rank is None else rank))


def scale_of(rng: Rng, low: float = 0.002, high: float = 0.2) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def zero_of(rng: Rng, dtype: DType) -> int:
    if dtype is I8:
        return int(rng.integers(-128, 128))
    return int(rng.integers(0, 256)) if dtype is U8 else 0


def tensor(rng: Rng, shape: Sequence[int], dtype: DType, **fixed: Any) -> In:
    """An input with random quantization where the type is a quantized one."""
    if dtype not in QUANTIZED:
        return In(shape, dtype)
    scale = fixed.get("scale", scale_of(rng) if dtype is not I16 else scale_of(rng, 2e-5, 2e-3))
    return In(shape, dtype, scale, fixed.get("zero_point", zero_of(rng, dtype)))


def out(rng: Rng, dtype: DType, like: In | None = None) -> In:
    if like is not None:
        return In((1,), dtype, like.scale, like.zero_point)
    return tensor(rng, (1,), dtype)


def random_data(rng: Rng, shape: Sequence[int], dtype: DType) -> Any:
    if dtype is F32:
        return rng.standard_normal(shape).astype(np.float32)
    if dtype is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    low, high = {I8: (-127, 127), U8: (0, 255), I16: (-3000, 3000)}.get(dtype, (-1000, 1000))
    return rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)


# --- convolutions -------------------------------------------------------------------------------------------------------------


def bias_of(rng: Rng, channels: int, dtype: DType, ifm: In, weights: In) -> In:
    kind = {F32: F32, I16: I64}.get(dtype, I32)
    data = rng.standard_normal(channels) if dtype is F32 else rng.integers(-2000, 2000, channels)
    scale = 1e-4 if dtype is not F32 else None
    if dtype in QUANTIZED and np.size(weights.scale) == 1:
        scale = float(np.ravel(ifm.scale)[0] * np.ravel(weights.scale)[0])  # type: ignore[arg-type]
    return In((channels,), kind, data=np.asarray(data, kind.numpy), scale=scale)


def filter_of(rng: Rng, shape: tuple[int, ...], axis: int, dtype: DType) -> In:
    if dtype is F32:
        return In(shape, F32, data=random_data(rng, shape, F32))
    stored = U8 if dtype is U8 else I8
    per_channel = dtype is not U8 and rng.random() < 0.6
    scale: Any = [scale_of(rng) for _ in range(shape[axis])] if per_channel else scale_of(rng)
    zero = zero_of(rng, U8) if dtype is U8 else 0
    return In(shape, stored, scale, zero, axis if per_channel else 0, random_data(rng, shape, stored))


def _convolution(rng: Rng, dtype: DType) -> bytes:
    b, h, w, c, oc = 1 + int(rng.random() < 0.2), *(int(v) for v in rng.integers(1, 12, 4))
    kh, kw = (int(v) for v in rng.integers(1, 5, 2))
    padding = Padding.SAME if rng.random() < 0.6 or min(h - 2 * kh, w - 2 * kw) < 0 else Padding.VALID
    stride, dilation = rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    if rng.random() < 0.7:
        dilation[:] = 1
    weights = filter_of(rng, (oc, kh, kw, c), 0, dtype)
    options = at.Conv2DOptions(padding, int(stride[0]), int(stride[1]), fused(rng), int(dilation[0]), int(dilation[1]))
    ifm = tensor(rng, (b, h, w, c), dtype)
    return model("CONV_2D", [ifm, weights, bias_of(rng, oc, dtype, ifm, weights)], [out_conv(rng, dtype)], options)


def out_conv(rng: Rng, dtype: DType) -> In:
    """An output whose scale makes most values fall inside the range."""
    if dtype is F32:
        return In((1,), F32)
    return tensor(rng, (1,), dtype, scale=scale_of(rng, 0.05, 5) if dtype is not I16 else scale_of(rng, 1e-3, 1e-1))


def _depthwise(rng: Rng, dtype: DType) -> bytes:
    h, w, c, multiplier = (int(v) for v in rng.integers(1, 10, 4))
    multiplier = multiplier if rng.random() < 0.3 else 1
    kh, kw = (int(v) for v in rng.integers(1, 5, 2))
    padding = Padding.SAME if rng.random() < 0.6 or min(h - 2 * kh, w - 2 * kw) < 0 else Padding.VALID
    stride, dilation = int(rng.integers(1, 4)), int(rng.integers(1, 3)) if rng.random() < 0.3 else 1
    weights = filter_of(rng, (1, kh, kw, c * multiplier), 3, dtype)
    options = at.DepthwiseConv2DOptions(padding, stride, stride, multiplier, fused(rng), dilation, dilation)
    ifm = tensor(rng, (1, h, w, c), dtype)
    return model(
        "DEPTHWISE_CONV_2D", [ifm, weights, bias_of(rng, c * multiplier, dtype, ifm, weights)], [out_conv(rng, dtype)], options
    )


def _transposed(rng: Rng, dtype: DType) -> bytes:
    h, w, c, oc = (int(v) for v in rng.integers(1, 8, 4))
    kh, kw = (int(v) for v in rng.integers(1, 5, 2))
    stride = int(rng.integers(1, 4))
    is_same = rng.random() < 0.5
    size = [h * stride, w * stride] if is_same else [(h - 1) * stride + kh, (w - 1) * stride + kw]
    weights = filter_of(rng, (oc, kh, kw, c), 0, dtype)
    ifm = tensor(rng, (1, h, w, c), dtype)
    options = at.TransposeConvOptions(Padding.SAME if is_same else Padding.VALID, stride, stride)
    inputs = [ints([1, *size, oc]), weights, ifm] + ([bias_of(rng, oc, dtype, ifm, weights)] if rng.random() < 0.7 else [])
    return model("TRANSPOSE_CONV", inputs, [out_conv(rng, dtype)], options)


def _fully_connected(rng: Rng, dtype: DType) -> bytes:
    rows, depth, units = int(rng.integers(1, 4)), int(rng.integers(1, 80)), int(rng.integers(1, 20))
    keep = bool(rng.random() < 0.3)
    weights = filter_of(rng, (units, depth), 0, dtype)
    shape = (2, rows, depth) if keep else (rows, depth)
    options = at.FullyConnectedOptions(fused(rng), keep_num_dims=keep)
    ifm = tensor(rng, shape, dtype)
    bias = bias_of(rng, units, dtype, ifm, weights) if rng.random() < 0.8 else None
    return model("FULLY_CONNECTED", [ifm, weights, bias], [out_conv(rng, dtype)], options)


for _dtype in (F32, I8, U8, I16):
    CASES[f"CONV_2D-{_dtype}"] = lambda rng, d=_dtype: _convolution(rng, d)
    CASES[f"DEPTHWISE_CONV_2D-{_dtype}"] = lambda rng, d=_dtype: _depthwise(rng, d)
    CASES[f"TRANSPOSE_CONV-{_dtype}"] = lambda rng, d=_dtype: _transposed(rng, d)
    CASES[f"FULLY_CONNECTED-{_dtype}"] = lambda rng, d=_dtype: _fully_connected(rng, d)


def _hybrid_filter(rng: Rng, shape: tuple[int, ...], axis: int, *, per_channel: bool) -> In:
    """An int8 filter with one scale, several, or one that is said for every channel."""
    count = shape[axis]
    kinds: list[Any] = [[scale_of(rng) for _ in range(count)], [scale_of(rng)] * count]
    scale = kinds[int(rng.integers(2))] if per_channel or rng.random() < 0.7 else scale_of(rng)
    zero = int(rng.integers(-9, 10)) if rng.random() < 0.2 else 0
    return In(shape, I8, scale, zero, axis, random_data(rng, shape, I8))


@case("CONV_2D-hybrid")
def _hybrid_convolution(rng: Rng) -> bytes:
    b, groups = int(rng.integers(1, 3)), int(rng.choice([1, 1, 2]))
    c, oc = (int(v) * groups for v in rng.integers(1, 9, 2))
    weights = _hybrid_filter(rng, (oc, *(int(v) for v in rng.integers(1, 4, 2)), c // groups), 0, per_channel=groups > 1)
    ifm = In((b, 6, 5, c), F32)
    return model("CONV_2D", [ifm, weights, bias_of(rng, oc, F32, ifm, weights)], [In((1,), F32)],
                 at.Conv2DOptions(Padding.SAME, *(int(v) for v in rng.integers(1, 3, 2)), fused(rng)))  # fmt: skip


@case("DEPTHWISE_CONV_2D-hybrid")
def _hybrid_depthwise(rng: Rng) -> bytes:
    c, multiplier = (int(v) for v in rng.integers(1, 6, 2))
    weights = _hybrid_filter(rng, (1, *(int(v) for v in rng.integers(1, 4, 2)), c * multiplier), 3, per_channel=True)
    ifm = In((int(rng.integers(1, 3)), 6, 5, c), F32)
    return model(
        "DEPTHWISE_CONV_2D", [ifm, weights, bias_of(rng, c * multiplier, F32, ifm, weights)], [In((1,), F32)],
        at.DepthwiseConv2DOptions(Padding.SAME, 1, 1, multiplier, fused(rng)),
    )  # fmt: skip


@case("TRANSPOSE_CONV-hybrid")
def _hybrid_transposed(rng: Rng) -> bytes:
    b, c, oc, stride = (int(v) for v in rng.integers(1, (3, 9, 9, 4)))
    weights = _hybrid_filter(rng, (oc, *(int(v) for v in rng.integers(1, 4, 2)), c), 0, per_channel=False)
    inputs = [ints([b, 6 * stride, 5 * stride, oc]), weights, In((b, 6, 5, c), F32)]
    return model("TRANSPOSE_CONV", inputs, [In((1,), F32)], at.TransposeConvOptions(Padding.SAME, stride, stride))


@case("FULLY_CONNECTED-hybrid")
def _hybrid_fully_connected(rng: Rng) -> bytes:
    depth, units = (int(v) for v in rng.integers(1, 40, 2))
    weights = In((units, depth), I8, scale_of(rng), data=random_data(rng, (units, depth), I8))
    options = at.FullyConnectedOptions(fused(rng), asymmetric_quantize_inputs=bool(rng.random() < 0.5))
    ifm = In((2, depth), F32)
    return model("FULLY_CONNECTED", [ifm, weights, bias_of(rng, units, F32, ifm, weights)], [In((1,), F32)], options)


# --- pools --------------------------------------------------------------------------------------------------------------------


def _pool(rng: Rng, kind: str, dtype: DType) -> bytes:
    h, w, c = (int(v) for v in rng.integers(1, 12, 3))
    kh, kw = int(rng.integers(1, h + 1)), int(rng.integers(1, w + 1))
    padding = Padding(int(rng.integers(0, 2)))
    options = at.Pool2DOptions(padding, *(int(v) for v in rng.integers(1, 4, 2)), kw, kh, fused(rng))
    ifm = tensor(rng, (1, h, w, c), dtype)
    return model(kind, [ifm], [out(rng, dtype, ifm)], options)


for _dtype in (F32, I8, U8, I16):
    CASES[f"AVERAGE_POOL_2D-{_dtype}"] = lambda rng, d=_dtype: _pool(rng, "AVERAGE_POOL_2D", d)
    CASES[f"MAX_POOL_2D-{_dtype}"] = lambda rng, d=_dtype: _pool(rng, "MAX_POOL_2D", d)
CASES["L2_POOL_2D-float32"] = lambda rng: _pool(rng, "L2_POOL_2D", F32)


# --- two operands -------------------------------------------------------------------------------------------------------------


_FUSED: dict[str, type[Attributes]] = {"ADD": at.AddOptions, "SUB": at.SubOptions, "MUL": at.MulOptions, "DIV": at.DivOptions}


def binary(
    rng: Rng, kind: str, dtype: DType, *, result: DType | None = None, same_scale: bool = False, positive: bool = False
) -> bytes:
    left_shape, right_shape = operands(rng, top=7)
    left = tensor(rng, left_shape, dtype)
    right = In(right_shape, dtype, left.scale, left.zero_point) if same_scale else tensor(rng, right_shape, dtype)
    if positive:
        data = rng.integers(1, 6, right_shape) if dtype is not F32 else rng.uniform(0.5, 4, right_shape)
        right = In(right_shape, dtype, right.scale, right.zero_point, data=np.asarray(data, dtype.numpy))
    options = None
    if kind in _FUSED:
        activation = fused(rng) if dtype not in (I64, I32) else FusedActivation.NONE
        options = _FUSED[kind](activation, False) if kind in ("ADD", "SUB") else _FUSED[kind](activation)  # type: ignore[call-arg]
    made = In((1,), result) if result else out(rng, dtype, left if same_scale else None)
    return model(kind, [left, right], [made], options)


for _kind in ("ADD", "SUB", "MUL"):
    for _dtype in (F32, I8, U8, I16, I32, I64):
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: binary(rng, k, d)
for _kind, _types in {"DIV": (F32, I32), "FLOOR_DIV": (F32, I32), "FLOOR_MOD": (F32, I32, I64), "POW": (I32,)}.items():
    for _dtype in _types:
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: binary(rng, k, d, positive=True)
for _dtype in (F32, I8, I32):
    CASES[f"SQUARED_DIFFERENCE-{_dtype}"] = lambda rng, d=_dtype: binary(rng, "SQUARED_DIFFERENCE", d)
for _kind in ("MAXIMUM", "MINIMUM"):
    for _dtype in (F32, I8, U8, I16, I32, I64):
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: binary(rng, k, d, same_scale=True)
for _kind in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
    for _dtype in (F32, I8, U8, I32, I64):
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: binary(rng, k, d, result=BOOL)
for _kind in ("LOGICAL_AND", "LOGICAL_OR"):
    CASES[f"{_kind}-bool"] = lambda rng, k=_kind: binary(rng, k, BOOL, result=BOOL)


# --- one operand --------------------------------------------------------------------------------------------------------------


def unary(rng: Rng, kind: str, dtype: DType, attributes: Attributes | None = None, output: In | None = None) -> bytes:
    ifm = tensor(rng, shape_of(rng), dtype)
    return model(kind, [ifm], [output or out(rng, dtype)], attributes)


_UNARY: dict[str, tuple[DType, ...]] = {
    "ABS": (F32, I8, I16, I32), "NEG": (F32, I32, I64), "SQUARE": (F32,), "SQRT": (F32,), "RSQRT": (F32,), "EXP": (F32, I8),
    "LOG": (F32,), "SIN": (F32,), "COS": (F32,), "CEIL": (F32,), "FLOOR": (F32,), "ROUND": (F32,), "RELU": (F32, I8, U8, I16),
    "RELU6": (F32, I8, U8, I16), "RELU_N1_TO_1": (F32, I8, U8), "RELU_0_TO_1": (F32, I8, U8), "ELU": (F32, I8),
    "HARD_SWISH": (F32,), "LOG_SOFTMAX": (F32,),
    "ZEROS_LIKE": (F32, I32, I64), "LOGICAL_NOT": (BOOL,),
}  # fmt: skip
for _kind, _types in _UNARY.items():
    for _dtype in _types:
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: unary(rng, k, d)

_FIXED_OUTPUT = {
    "LOGISTIC": {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)},
    "TANH": {I8: (1 / 128, 0), U8: (1 / 128, 128), I16: (1 / 32768, 0)},
}
for _kind, _outputs in _FIXED_OUTPUT.items():
    CASES[f"{_kind}-float32"] = lambda rng, k=_kind: unary(rng, k, F32)
    for _dtype, (_scale, _zero) in _outputs.items():
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype, s=_scale, z=_zero: unary(
            rng, k, d, output=In((1,), d, s, z)
        )

for _dtype in (F32, I8, U8, I16):
    CASES[f"LEAKY_RELU-{_dtype}"] = lambda rng, d=_dtype: unary(
        rng, "LEAKY_RELU", d, at.LeakyReluOptions(float(rng.uniform(0.01, 0.9)))
    )

_SOFTMAX_OUTPUT = {F32: (None, 0), I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)}
for _dtype, (_scale, _zero) in _SOFTMAX_OUTPUT.items():
    CASES[f"SOFTMAX-{_dtype}"] = lambda rng, d=_dtype, s=_scale, z=_zero: unary(
        rng, "SOFTMAX", d, at.SoftmaxOptions(float(rng.choice([1.0, 0.7, 2.0]))), In((1,), d, s, z)
    )


@case("GELU-float32")
def _gelu(rng: Rng) -> bytes:
    return unary(rng, "GELU", F32, at.GeluOptions(bool(rng.random() < 0.5)))


def prelu(rng: Rng, dtype: DType) -> bytes:
    shape = shape_of(rng, 4)
    slope = tensor(rng, (1, 1, shape[3]), dtype)
    constant = In(slope.shape, dtype, slope.scale, slope.zero_point, data=random_data(rng, slope.shape, dtype))
    return model("PRELU", [tensor(rng, shape, dtype), constant], [out(rng, dtype)])


for _dtype in (F32, I8, U8):
    CASES[f"PRELU-{_dtype}"] = lambda rng, d=_dtype: prelu(rng, d)


@case("L2_NORMALIZATION-float32")
def _l2_normalization(rng: Rng) -> bytes:
    return unary(rng, "L2_NORMALIZATION", F32, at.L2NormOptions())


# --- conversions --------------------------------------------------------------------------------------------------------------


def quantize(rng: Rng, source: DType, target: DType) -> bytes:
    ifm = tensor(rng, shape_of(rng), source) if source is not I32 else In(shape_of(rng), I32, 1e-3)
    return model(
        "QUANTIZE",
        [ifm],
        [In((1,), I32, 1e-5)]
        if target is I32
        else [out(rng, target) if source is not F32 else tensor(rng, (1,), target, scale=scale_of(rng, 0.005, 0.1))],
    )


for _source, _target in ((F32, I8), (F32, U8), (F32, I16), (I8, I8), (U8, I8), (I8, U8), (I16, I16), (I16, I8)):
    CASES[f"QUANTIZE-{_source}-{_target}"] = lambda rng, s=_source, t=_target: quantize(rng, s, t)
for _dtype in (I8, U8, I16):
    CASES[f"DEQUANTIZE-{_dtype}"] = lambda rng, d=_dtype: model("DEQUANTIZE", [tensor(rng, shape_of(rng), d)], [In((1,), F32)])
for _source, _target in ((F32, I32), (I32, F32), (I32, I64), (I8, F32), (BOOL, F32), (F32, BOOL), (I64, I32), (U8, F32)):
    CASES[f"CAST-{_source}-{_target}"] = lambda rng, s=_source, t=_target: model(
        "CAST", [In(shape_of(rng), s)], [In((1,), t)], at.CastOptions(s, t)
    )


# --- reductions ---------------------------------------------------------------------------------------------------------------


def reduction(rng: Rng, kind: str, dtype: DType, *, same: bool = False) -> bytes:
    shape = shape_of(rng)
    axes = rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False) - (len(shape) if rng.random() < 0.3 else 0)
    ifm = tensor(rng, shape, dtype)
    made = out(rng, dtype, ifm if same else None)
    return model(kind, [ifm, ints(axes)], [made], at.ReducerOptions(bool(rng.integers(0, 2))))


for _dtype in (F32, I8, U8, I32, I64):
    CASES[f"MEAN-{_dtype}"] = lambda rng, d=_dtype: reduction(rng, "MEAN", d)
for _kind, _types in {"SUM": (F32, I32, I64), "REDUCE_PROD": (F32, I32)}.items():
    for _dtype in _types:
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: reduction(rng, k, d)
for _kind in ("REDUCE_MAX", "REDUCE_MIN"):
    for _dtype in (F32, I8, U8, I32):
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: reduction(rng, k, d, same=True)
for _kind in ("REDUCE_ANY", "REDUCE_ALL"):
    CASES[f"{_kind}-bool"] = lambda rng, k=_kind: reduction(rng, k, BOOL)
for _kind, _options in {"ARG_MAX": at.ArgMaxOptions, "ARG_MIN": at.ArgMinOptions}.items():
    for _dtype in (F32, I8, U8, I32):
        CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, o=_options, d=_dtype: model(
            k, [tensor(rng, (s := shape_of(rng)), d), ints(rng.integers(0, len(s)))], [In((1,), I64)], o(I64)
        )
# --- layout -------------------------------------------------------------------------------------------------------------------


def cell(kind: str, dtype: DType) -> Case:
    """The cell of the type table in which every tensor that may have any type has this one (see `type_cells`)."""
    name = next(TEMPLATES[kind].cells_of(code_of(dtype)))
    return lambda rng: make_cell(name, int(rng.integers(1 << 31)))


def _concatenation(rng: Rng, dtype: DType) -> bytes:
    shape, axis = list(shape_of(rng)), 0
    axis = int(rng.integers(0, len(shape)))
    first = tensor(rng, shape, dtype)
    others = []
    for _ in range(int(rng.integers(0, 4))):
        sized = [*shape[:axis], int(rng.integers(1, 5)), *shape[axis + 1 :]]
        others.append(In(sized, dtype, first.scale, first.zero_point))
    return model(
        "CONCATENATION",
        [first, *others],
        [out(rng, dtype, first)],
        at.ConcatenationOptions(axis - (len(shape) if rng.random() < 0.3 else 0)),
    )


_MOVED = (F32, I8, U8, I32)
for _dtype in (*_MOVED, I16, I64):
    CASES[f"CONCATENATION-{_dtype}"] = lambda rng, d=_dtype: _concatenation(rng, d)
for _kind in (
    "BATCH_TO_SPACE_ND", "BROADCAST_TO", "DEPTH_TO_SPACE", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "PACK", "PAD",
    "PADV2", "RESHAPE", "SELECT", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE",
    "STRIDED_SLICE", "TRANSPOSE", "UNPACK",
):  # fmt: skip
    for _dtype in _MOVED:
        CASES[f"{_kind}-{_dtype}"] = cell(_kind, _dtype)
for _kind, _types in {
    "CUMSUM": (F32, I32), "DYNAMIC_UPDATE_SLICE": (F32, I32), "FILL": (F32, I32, I64, BOOL), "ONE_HOT": (F32, I8, I32),
    "RANGE": (F32, I32), "RESIZE_BILINEAR": (F32, I8, U8, I16), "RESIZE_NEAREST_NEIGHBOR": (F32, I8, U8, I16),
    "REVERSE_V2": (F32, U8, I32), "SCATTER_ND": (F32,), "SELECT_V2": (F32, I8, I32), "SPARSE_TO_DENSE": (F32, I32, I64),
    "ADD_N": (F32, I32), "ATAN2": (F32,), "BITWISE_XOR": (I8, I32), "BUCKETIZE": (F32, I64), "MATRIX_DIAG": (F32, I8),
    "MATRIX_SET_DIAG": (F32, I64), "NON_MAX_SUPPRESSION_V4": (F32,), "NON_MAX_SUPPRESSION_V5": (F32,), "RFFT2D": (F32,),
    "REVERSE_SEQUENCE": (F32, U8), "RIGHT_SHIFT": (I8, I16), "UNIQUE": (F32, I32),
    "UNSORTED_SEGMENT_MAX": (F32, I32), "UNSORTED_SEGMENT_MIN": (F32,), "UNSORTED_SEGMENT_PROD": (I32,),
    "UNSORTED_SEGMENT_SUM": (F32,), "TILE": (F32, I32), "TOPK_V2": (F32, I8, U8, I32, I64), "WHERE": (BOOL,),
    "LOCAL_RESPONSE_NORMALIZATION": (F32,),
}.items():  # fmt: skip
    for _dtype in _types:
        CASES[f"{_kind}-{_dtype}"] = cell(_kind, _dtype)
CASES["SHAPE-int32"], CASES["SHAPE-int64"], CASES["RANK-int32"] = (
    lambda rng, c=_cell: make_cell(c, int(rng.integers(1 << 31)))
    for _cell in ("SHAPE f32 -> i32", "SHAPE f32 -> i64", "RANK f32 -> i32")
)


def batch_matmul(rng: Rng, dtype: DType) -> bytes:
    b, m, k, n = (int(v) for v in rng.integers(1, 7, 4))
    adj_x, adj_y = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    x = tensor(rng, (b, k, m) if adj_x else (b, m, k), dtype)
    y = tensor(rng, (b, n, k) if adj_y else (b, k, n), dtype)
    return model("BATCH_MATMUL", [x, y], [out_conv(rng, dtype)], at.BatchMatMulOptions(adj_x, adj_y))


for _dtype in (F32, I8):
    CASES[f"BATCH_MATMUL-{_dtype}"] = lambda rng, d=_dtype: batch_matmul(rng, d)


@case("BATCH_MATMUL-hybrid")
def _hybrid_batch_matmul(rng: Rng) -> bytes:
    """Of as many axes as LiteRT takes, along which one of the operands may have one matrix for all."""
    m, k, n = (int(v) for v in rng.integers(1, 7, 3))
    batch = rng.integers(1, 4, int(rng.integers(1, 4)))
    adj_x, adj_y = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    left, right = (tuple(int(v) for v in np.where(rng.random(len(batch)) < 0.2, 1, batch)) for _ in range(2))
    asymmetric = len(batch) < 3 and bool(rng.integers(0, 2))  # of three: a row of docs/exactness.md
    shape = (*right, *((n, k) if adj_y else (k, n)))
    inputs = [In((*left, *((k, m) if adj_x else (m, k))), F32), In(shape, I8, scale_of(rng), data=random_data(rng, shape, I8))]
    return model("BATCH_MATMUL", inputs, [In((1,), F32)], at.BatchMatMulOptions(adj_x, adj_y, asymmetric))


# --- state ---------------------------------------------------------------------------------------------------------------


def _weights(rng: Rng, *shape: int) -> In:
    return In(shape, F32, data=0.3 * random_data(rng, shape, F32))


def _lstm(rng: Rng, kind: str) -> bytes:
    batches, times, features, units = (int(v) for v in rng.integers(1, 6, 4))
    major, coupled = bool(rng.random() < 0.5), bool(rng.random() < 0.3)
    gates = [None if coupled and i == 0 else _weights(rng, units, features) for i in range(4)]
    recurrent = [None if coupled and i == 0 else _weights(rng, units, units) for i in range(4)]
    biases = [None if coupled and i == 0 else _weights(rng, units) for i in range(4)]
    states = [In((batches, units), F32, is_variable=True) for _ in range(2)]
    clip = float(rng.choice([0.0, 0.5]))
    if kind == "LSTM":
        ifm, options = In((batches, features), F32), at.LSTMOptions(FusedActivation.TANH, clip)
    else:
        ifm = In((times, batches, features) if major else (batches, times, features), F32)
        options = at.UnidirectionalSequenceLSTMOptions(FusedActivation.TANH, clip, 0.0, major)  # type: ignore[assignment]
    inputs = [ifm, *gates, *recurrent, None, None, None, *biases, None, None, *states]
    return model(kind, inputs, [In((1,), F32)], options)


def _svdf(rng: Rng, dtype: DType) -> bytes:
    batches, features, units, memory, rank = (int(v) for v in rng.integers(1, 5, 5))
    filters = units * rank
    options = at.SVDFOptions(rank, FusedActivation.RELU)
    if dtype is F32:
        state = In((batches, filters * memory), F32, is_variable=True)
        inputs = [
            In((batches, features), F32),
            _weights(rng, filters, features),
            _weights(rng, filters, memory),
            _weights(rng, units),
            state,
        ]
        return model("SVDF", inputs, [In((1,), F32)], options)
    ifm, made = tensor(rng, (batches, features), I8), tensor(rng, (1,), I8, scale=0.05)
    feature = In((filters, features), I8, 0.02, data=random_data(rng, (filters, features), I8))
    time = In((filters, memory), I16, 1e-4, data=random_data(rng, (filters, memory), I16))
    bias = In((units,), I32, 1e-7, data=rng.integers(-100000, 100000, units))
    state = In((batches, filters * memory), I16, 5e-4, is_variable=True)
    return model("SVDF", [ifm, feature, time, bias, state], [made], options)


def _rnn(rng: Rng, kind: str) -> bytes:
    batches, times, features, units = (int(v) for v in rng.integers(1, 6, 4))
    major = bool(rng.random() < 0.5)
    weights = [_weights(rng, units, features), _weights(rng, units, units), _weights(rng, units)]
    state = In((batches, units), F32, is_variable=True)
    if kind == "RNN":
        return model(
            kind, [In((batches, features), F32), *weights, state], [In((1,), F32)], at.RNNOptions(FusedActivation.TANH)
        )
    ifm = In((times, batches, features) if major else (batches, times, features), F32)
    return model(kind, [ifm, *weights, state], [In((1,), F32)], at.SequenceRNNOptions(major, FusedActivation.TANH))


for _kind in ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"):
    CASES[f"{_kind}-float32"] = lambda rng, k=_kind: _lstm(rng, k)
for _kind in ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"):
    CASES[f"{_kind}-float32"] = lambda rng, k=_kind: _rnn(rng, k)
for _dtype in (F32, I8):
    CASES[f"SVDF-{_dtype}"] = lambda rng, d=_dtype: _svdf(rng, d)


# --- operators that few models have -----------------------------------------------------------------------------------------


@case("EMBEDDING_LOOKUP-float32")
def _embedding(rng: Rng) -> bytes:
    return model("EMBEDDING_LOOKUP", [ints([2, 0, 1, 2]), In((3, 5), F32)], [In((1,), F32)])


@case("EMBEDDING_LOOKUP-hybrid")
def _embedding_8bit(rng: Rng) -> bytes:
    table = In((3, 5), I8, scale_of(rng), data=random_data(rng, (3, 5), I8))
    return model("EMBEDDING_LOOKUP", [ints([2, 0, 1, 2]), table], [In((1,), F32)])


@case("SIGN-float32")
def _sign(rng: Rng) -> bytes:
    return unary(rng, "SIGN", F32)


@case("FAKE_QUANT-float32")
def _fake_quant(rng: Rng) -> bytes:
    low = -float(rng.uniform(0.1, 2))
    return unary(rng, "FAKE_QUANT", F32, at.FakeQuantOptions(low, low + 3, int(rng.choice([4, 8]))))


CASES["MEAN-int16"] = lambda rng: reduction(rng, "MEAN", I16)
CASES["GELU-int8"] = lambda rng: unary(rng, "GELU", I8, at.GeluOptions(bool(rng.random() < 0.5)))
CASES["L2_NORMALIZATION-int8"] = lambda rng: model(
    "L2_NORMALIZATION", [tensor(rng, shape_of(rng), I8)], [In((1,), I8, 1 / 128, 0)], at.L2NormOptions()
)
CASES["BATCH_MATMUL-int16"] = lambda rng: batch_matmul(rng, I16)
CASES["CONV_2D-groups"] = lambda rng: model(
    "CONV_2D",
    [In((1, 5, 5, 6), F32), filter_of(rng, (4, 3, 3, 3), 0, F32), In((4,), F32, data=np.zeros(4))],
    [In((1,), F32)],
    at.Conv2DOptions(Padding.SAME, 1, 1),
)
