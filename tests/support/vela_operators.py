"""Single-operator models for every operator that Vela 5.2 places on Ethos-U55 and Ethos-U65, by kind and type.

`KINDS` is the list of Vela's own report; `VELA_CASES` maps "KIND-type" or "KIND-type-variant" to a builder (see
`operator_cases`), with those that the CPU kernels' cases do not have. `CPU_ONLY` are those that Vela leaves alone whatever the
shapes. `with_shapes` gives the declared output shapes that Vela needs; `as_int8` is the same model in another representation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.graph import attributes as at
from npu.graph.graph import Tensor
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support import operator_cases as base
from tests.support.operator_cases import I8, I16, I32, I64, U8, Case, In, ints, model, out, scale_of, shape_of, tensor
from tests.support.vela_differences import lstm, lstm_int16

Rng = np.random.Generator
KINDS = (
    "ABS", "ADD", "ARG_MAX", "AVERAGE_POOL_2D", "BATCH_MATMUL", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "ELU", "EXP",
    "EXPAND_DIMS", "FULLY_CONNECTED", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "MAXIMUM", "MAX_POOL_2D", "MEAN",
    "MINIMUM", "MIRROR_PAD", "MUL", "NEG", "PACK", "PAD", "PADV2", "PRELU", "QUANTIZE", "REDUCE_MAX", "REDUCE_MIN", "RELU",
    "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "RSQRT",
    "SLICE", "SOFTMAX", "SPLIT", "SPLIT_V", "SQUARED_DIFFERENCE", "SQUEEZE", "STRIDED_SLICE", "SUB", "SUM", "TANH", "TILE",
    "TRANSPOSE", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNPACK",
)  # fmt: skip
_TYPES = ("int8", "uint8", "int16", "int32")
VELA_CASES: dict[str, Case] = {
    name: build
    for name, build in base.CASES.items()
    if name.split("-")[0] in KINDS and all(part in _TYPES for part in name.split("-")[1:])
}


def _add(name: str, build: Case) -> None:
    VELA_CASES.setdefault(name, build)


for _dtype in (I8, U8, I16):
    for _kind in ("HARD_SWISH", "ELU", "EXP", "LOG", "RELU_0_TO_1", "RELU_N1_TO_1", "ABS", "NEG"):
        _add(f"{_kind}-{_dtype}", lambda rng, k=_kind, d=_dtype: base.unary(rng, k, d))
    _add(f"GELU-{_dtype}", lambda rng, d=_dtype: base.unary(rng, "GELU", d, at.GeluOptions(bool(rng.integers(0, 2)))))
    _add(f"MEAN-{_dtype}", lambda rng, d=_dtype: base.reduction(rng, "MEAN", d))
    _add(f"SUM-{_dtype}", lambda rng, d=_dtype: base.reduction(rng, "SUM", d))
    _add(f"SQUARED_DIFFERENCE-{_dtype}", lambda rng, d=_dtype: base.binary(rng, "SQUARED_DIFFERENCE", d))
    for _kind in ("REDUCE_MAX", "REDUCE_MIN"):
        _add(f"{_kind}-{_dtype}", lambda rng, k=_kind, d=_dtype: base.reduction(rng, k, d, same=True))
    for _kind in (
        "PACK", "UNPACK", "SPLIT", "SPLIT_V", "TRANSPOSE", "PAD", "PADV2", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "SLICE",
        "STRIDED_SLICE", "TILE", "REVERSE_V2",
    ):  # fmt: skip
        _add(f"{_kind}-{_dtype}", base.cell(_kind, _dtype))
    _add(f"PRELU-{_dtype}", lambda rng, d=_dtype: base.prelu(rng, d))
    _add(f"BATCH_MATMUL-{_dtype}", lambda rng, d=_dtype: base.batch_matmul(rng, d))
    for _target in (I8, U8, I16, I32):
        _add(f"QUANTIZE-{_dtype}-{_target}", lambda rng, s=_dtype, t=_target: base.quantize(rng, s, t))


@base.case("RSQRT-int8")
def _rsqrt(rng: Rng) -> bytes:
    ifm = In(shape_of(rng), I8, scale_of(rng), -128)
    return model("RSQRT", [ifm], [In((1,), I8, scale_of(rng, 0.01, 0.2), -128)])


VELA_CASES["RSQRT-int8"] = base.CASES.pop("RSQRT-int8")
VELA_CASES["RSQRT-int16"] = lambda rng: model("RSQRT", [In(shape_of(rng), I16, scale_of(rng))], [In((1,), I16, scale_of(rng))])


def _mirror_pad(rng: Rng, dtype: Any) -> bytes:
    """Vela 5.2 also takes padded batches and depths, but leaves that padding out: only height and width here."""
    ifm = tensor(rng, (1, *(n + 2 for n in shape_of(rng, 3))), dtype)
    pads = [(0, 0), *(tuple(int(n) for n in rng.integers(0, 3, 2)) for _ in range(2)), (0, 0)]
    return model(
        "MIRROR_PAD", [ifm, ints(pads)], [out(rng, dtype, ifm)], at.MirrorPadOptions(at.MirrorPadMode(int(rng.integers(0, 2))))
    )


def _reduce(rng: Rng, kind: str, dtype: Any) -> bytes:
    """With `keep_dims`: without it, Vela 5.2 reads one row where several were meant."""
    shape = shape_of(rng)
    ifm = tensor(rng, shape, dtype)
    axes = rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False)
    return model(kind, [ifm, ints(axes)], [out(rng, dtype, ifm)], at.ReducerOptions(True))


def _arg_max(rng: Rng, dtype: Any) -> bytes:
    ifm = tensor(rng, (1, *shape_of(rng, 3)), dtype)
    return model("ARG_MAX", [ifm, ints(3)], [In((1,), I32)], at.ArgMaxOptions(I32))


for _dtype in (I8, U8, I16, I32):
    VELA_CASES[f"MIRROR_PAD-{_dtype}"] = lambda rng, d=_dtype: _mirror_pad(rng, d)
for _dtype in (I8, U8, I16):
    for _kind in ("REDUCE_MAX", "REDUCE_MIN"):
        VELA_CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: _reduce(rng, k, d)


def _resize(rng: Rng, kind: str, dtype: Any) -> bytes:
    """Factors that Vela takes: 2, 4 or 8, of the size less one if the corners are aligned, 2 for half-pixel centres."""
    h, w, c = (int(n) for n in rng.integers(2, 5, 3))
    corners, half = [(False, False), (True, False), (False, True)][int(rng.integers(0, 3))]
    factor = 2 if half else int(rng.choice([2, 4, 8] if max(h, w) < 4 else [2, 4]))
    size = [(n - 1) * factor + 1 if corners else n * factor for n in (h, w)]
    ifm = tensor(rng, (1, h, w, c), dtype)
    options = (at.ResizeBilinearOptions if kind == "RESIZE_BILINEAR" else at.ResizeNearestNeighborOptions)(corners, half)
    return model(kind, [ifm, ints(size)], [out(rng, dtype, ifm)], options)


def _strided(rng: Rng, dtype: Any) -> bytes:
    """Steps of 1 to 3 over height and width, which Vela takes."""
    shape = (1, *(int(n) for n in rng.integers(3, 9, 2)), int(rng.integers(1, 9)))
    begin = [0, *(int(n) for n in rng.integers(0, 3, 2)), 0]
    steps = [1, *(int(n) for n in rng.integers(1, 4, 2)), 1]
    ifm = tensor(rng, shape, dtype)
    inputs = [ifm, ints(begin), ints(shape), ints(steps)]
    return model("STRIDED_SLICE", inputs, [out(rng, dtype, ifm)], at.StridedSliceOptions(0, 0, 0, 0, 0))


def _negative_slope(rng: Rng, dtype: Any) -> bytes:
    ifm = tensor(rng, shape_of(rng), dtype)
    made = out(rng, dtype, ifm if rng.random() < 0.5 else None)
    slope = float(rng.choice([-0.25, -0.5, -0.75, -float(rng.uniform(0.05, 0.95))]))
    return model("LEAKY_RELU", [ifm], [made], at.LeakyReluOptions(slope))


def _large_strides(rng: Rng, kind: str) -> bytes:
    """Strides up to 6, which Vela takes with VALID padding and takes apart above 3."""
    h, w, c = (int(n) for n in rng.integers((7, 7, 1), (18, 18, 9)))
    (sy, sx), (kh, kw) = ([int(n) for n in rng.integers(1, top, 2)] for top in (7, 5))
    ifm = tensor(rng, (1, h, w, c), I8)
    if kind != "CONV_2D":
        return model(kind, [ifm], [out(rng, I8, ifm)], at.Pool2DOptions(at.Padding.VALID, sx, sy, kw, kh))
    weights = base.filter_of(rng, (5, kh, kw, c), 0, I8)
    inputs = [ifm, weights, base.bias_of(rng, 5, I8, ifm, weights)]
    return model(kind, inputs, [base.out_conv(rng, I8)], at.Conv2DOptions(at.Padding.VALID, sx, sy))


def _with_scalar(rng: Rng, kind: str) -> bytes:
    """A constant operand of no dimension with a zero point of its own."""
    ifm = tensor(rng, shape_of(rng), I8)
    scalar = tensor(rng, (), I8, zero_point=int(rng.choice([-128, -3, 90])))
    scalar = In((), I8, scalar.scale, scalar.zero_point, data=rng.integers(-128, 128))
    options = {"ADD": at.AddOptions(pot_scale_int16=False), "SUB": at.SubOptions(pot_scale_int16=False), "MUL": at.MulOptions()}
    order = [scalar, ifm] if rng.random() < 0.5 else [ifm, scalar]
    return model(kind, order, [out(rng, I8)], options[kind])


def _transposed_in_place(rng: Rng) -> bytes:
    """The permutations of int32 that Vela takes: none, and rows with columns."""
    ifm = In((1, *shape_of(rng, 3)), I32)
    axes = [(0, 1, 2, 3), (0, 2, 1, 3)][int(rng.integers(0, 2))]
    return model("TRANSPOSE", [ifm, ints(axes)], [In((1,), I32)])


for _dtype in (I8, U8):
    VELA_CASES[f"ARG_MAX-{_dtype}"] = lambda rng, d=_dtype: _arg_max(rng, d)
del VELA_CASES["ARG_MAX-int32"]
for _dtype in (I8, U8, I16):
    for _kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        VELA_CASES[f"{_kind}-{_dtype}"] = lambda rng, k=_kind, d=_dtype: _resize(rng, k, d)
    VELA_CASES[f"STRIDED_SLICE-{_dtype}-steps"] = lambda rng, d=_dtype: _strided(rng, d)
    VELA_CASES[f"LEAKY_RELU-{_dtype}-negative"] = lambda rng, d=_dtype: _negative_slope(rng, d)
VELA_CASES["TRANSPOSE-int32"] = _transposed_in_place
for _kind in ("CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"):
    VELA_CASES[f"{_kind}-int8-strides"] = lambda rng, k=_kind: _large_strides(rng, k)
for _kind in ("ADD", "SUB", "MUL"):
    VELA_CASES[f"{_kind}-int8-scalar"] = lambda rng, k=_kind: _with_scalar(rng, k)
VELA_CASES["LEAKY_RELU-int16-same"] = lambda rng: model(
    "LEAKY_RELU",
    [ifm := tensor(rng, shape_of(rng), I16)],
    [out(rng, I16, ifm)],
    at.LeakyReluOptions(float(rng.uniform(0.01, 0.9))),
)
VELA_CASES["UNIDIRECTIONAL_SEQUENCE_LSTM-int8"] = lambda rng: lstm(
    int(rng.integers(0, 1 << 20)), cell_scale=float(rng.choice([2**-12, 2**-11]))
)
VELA_CASES["UNIDIRECTIONAL_SEQUENCE_LSTM-int16"] = lambda rng: lstm_int16(
    int(rng.integers(0, 1 << 20)),
    batches=int(rng.integers(1, 3)),
    is_time_major=bool(rng.integers(0, 2)),
    bias=(I64, I32)[int(rng.integers(0, 2))],
)

CPU_ONLY = {
    "ABS-int32", "BATCH_MATMUL-int16", "BATCH_MATMUL-uint8", "CONCATENATION-int32",
    "ELU-int16", "ELU-uint8", "GELU-int16", "LOG-uint8",
    "MAXIMUM-int32", "MEAN-int32", "MINIMUM-int32", "PACK-int32", "PAD-int32", "PADV2-int32", "REDUCE_MAX-int32",
    "REDUCE_MIN-int32", "REVERSE_V2-int16", "REVERSE_V2-int32", "REVERSE_V2-int8", "REVERSE_V2-uint8", "SLICE-int32",
    "SPLIT-int32", "SPLIT_V-int32", "SQUARED_DIFFERENCE-int32", "STRIDED_SLICE-int32", "TILE-int32", "UNPACK-int32",
    "QUANTIZE-int16-int32", "QUANTIZE-int8-int32", "QUANTIZE-uint8-int32",
}  # fmt: skip
"""What Vela 5.2 never places on Ethos-U55 and Ethos-U65."""


def as_int8(content: bytes) -> bytes:
    """The model with every uint8 tensor as int8: zero points and constants less 128, the same real values."""
    parsed = read_model(content)
    graphs = tuple(replace(graph, tensors=tuple(_signed(item) for item in graph.tensors)) for graph in parsed.graphs)
    return write_model(replace(parsed, graphs=graphs))


def _signed(each: Tensor) -> Tensor:
    if each.dtype is not U8:
        return each
    quantization = each.quantization
    if quantization is not None:
        quantization = replace(quantization, zero_points=quantization.zero_points - 128)
    data = None if each.data is None else (each.data.astype(np.int16) - 128).astype(np.int8)
    return replace(each, dtype=I8, quantization=quantization, data=data)


def with_shapes(content: bytes) -> bytes:
    """The model with the output shapes that LiteRT computes; ValueError or RuntimeError if it refuses the model."""
    if read_model(content).graphs[0].ops[0].kind == "UNIDIRECTIONAL_SEQUENCE_LSTM":  # drawn with its shapes
        return content
    try:
        shapes = _output_shapes(content)
    except RuntimeError:  # an operator that LiteRT does not have for uint8
        shapes = _output_shapes(as_int8(content))
    parsed = read_model(content)
    graph = parsed.graphs[0]
    tensors = tuple(
        replace(item, shape=shapes[index], shape_signature=None) if index in shapes else item
        for index, item in enumerate(graph.tensors)
    )
    return write_model(replace(parsed, graphs=(replace(graph, tensors=tensors), *parsed.graphs[1:])))


def _output_shapes(content: bytes) -> dict[int, tuple[int, ...]]:
    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    return {item["index"]: tuple(int(n) for n in item["shape"]) for item in interpreter.get_output_details()}
