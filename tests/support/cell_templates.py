"""What a small model of every operator looks like, by operator and types: the table behind the cells of `type_cells`.

A template draws shapes, options and constants from a generator; `Slot` says of a tensor what values and quantization it gets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.runtime.types import CODES

Rng = np.random.Generator
QUANTIZED = {"i4", "i8", "u8", "i16"}
_EVERY = "f32 f16 f64 i8 i8p u8 u8p i16 i16p u16 i32 u32 i64 u64 bool c64 str"


@dataclass(frozen=True)
class Slot:
    """One tensor of a template. `data`: a constant; `weights`: a random constant, with channels on `axis`."""

    shape: Sequence[int] = (1,)
    data: Any = None
    weights: bool = False
    axis: int = 0
    like: int | None = None
    """Same quantization as this input."""
    positive: bool = False
    small: bool = False
    fixed: bool = False
    """Quantization of outputs in [-1, 1] or [0, 1], as the operator prescribes."""
    bias_of: tuple[int, int] | None = None
    wide_scale: bool = False
    plain: bool = False
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Draw:
    inputs: Sequence[Slot | None]
    outputs: Sequence[Slot]
    attributes: Attributes | None = None
    version: int | None = None


@dataclass(frozen=True)
class Template:
    """`patterns`: words of codes; T stands for the same code of `types` at each place; a|b for a choice."""

    kind: str
    draw: Callable[[Rng, tuple[str, ...]], Draw]
    patterns: Sequence[str]
    types: str = _EVERY

    def cells(self) -> Iterator[str]:
        for pattern in self.patterns:
            for code in self.types.split() if "T" in pattern.replace("|", " ").split() else [""]:
                yield from self._cells(pattern, code)

    def cells_of(self, code: str) -> Iterator[str]:
        """Those in which this code stands for T."""
        return itertools.chain.from_iterable(self._cells(pattern, code) for pattern in self.patterns if "T" in pattern)

    def _cells(self, pattern: str, code: str) -> Iterator[str]:
        words = [[code if choice == "T" else choice for choice in word.split("|")] for word in pattern.split()]
        return (f"{self.kind} {' '.join(chosen)}" for chosen in itertools.product(*words))


TEMPLATES: dict[str, Template] = {}


def template(kind: str, *patterns: str, types: str = _EVERY) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        assert kind not in TEMPLATES, kind
        TEMPLATES[kind] = Template(kind, function, patterns, types)
        return function

    return add


def dtype_of(code: str) -> DType:
    return CODES[code.removesuffix("p") if code.endswith("p") else code.removesuffix("c")]


def code_of(dtype: DType) -> str:
    """The inverse of `dtype_of`, of a type that is quantized if it can be."""
    return next(code for code, known in CODES.items() if known is dtype)


def shape_of(rng: Rng, rank: int | None = None, top: int = 5) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, top, rng.integers(1, 5) if rank is None else rank))


_ACTIVATIONS = (FusedActivation.NONE, FusedActivation.RELU, FusedActivation.RELU6, FusedActivation.RELU_N1_TO_1)


def fused(rng: Rng, codes: Sequence[str] = ()) -> FusedActivation:
    if any(code in ("i32", "i64", "i16p", "u32") for code in codes[-1:]):
        return FusedActivation.NONE
    return _ACTIVATIONS[rng.integers(0, 4)]


def operands(rng: Rng, top: int = 5) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that are broadcast to each other."""
    left = shape_of(rng, top=top)
    right = tuple(1 if rng.random() < 0.3 else n for n in left)
    if rng.random() < 0.3:
        right = right[int(rng.integers(0, len(right))) :]
    return (left, right) if rng.random() < 0.7 else (right, left)


# --- convolutions ---------------------------------------------------------------------------------------------------------

_CONV = (
    "f32 f32|f16 f32|- -> f32",
    "f32 i8|i8c|i4|i4c|u8|i16 f32|- -> f32",
    "i8 i8|i8c|i4|i4c|u8 i32|i64|- -> i8",
    "i8 i8|i8c i32|- -> i16|i32|u8",
    "u8 u8 i32 -> i16",
    "u8 u8|i8|i8c|i4 i32|i64|- -> u8|i8",
    "i16 i8|i8c|i4|i4c|i16|u8 i32|i64|- -> i16",
    "i16 i8 i32|i64 -> i8|i32",
    "f16 f16 f16 -> f16",
    "f64 f64 f64 -> f64",
    "i32 i32 i32 -> i32",
)


def _spatial(rng: Rng) -> tuple[int, int, int, int, int, int, Padding, list[int], list[int]]:
    h, w, c, oc = (int(v) for v in rng.integers(1, 9, 4))
    kh, kw = (int(v) for v in rng.integers(1, 4, 2))
    padding = Padding.SAME if rng.random() < 0.6 or min(h - 2 * kh, w - 2 * kw) < 0 else Padding.VALID
    stride = [int(v) for v in rng.integers(1, 3, 2)]
    dilation = [1, 1] if rng.random() < 0.7 else [int(v) for v in rng.integers(1, 3, 2)]
    return h, w, c, oc, kh, kw, padding, stride, dilation


@template("CONV_2D", *_CONV)
def _conv(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c, oc, kh, kw, padding, stride, dilation = _spatial(rng)
    return Draw(
        [Slot((int(rng.integers(1, 3)), h, w, c)), Slot((oc, kh, kw, c), weights=True), Slot((oc,), bias_of=(0, 1))],
        [Slot(wide_scale=True)],
        at.Conv2DOptions(padding, *stride, fused(rng), *dilation),
    )


@template("DEPTHWISE_CONV_2D", *_CONV)
def _depthwise(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c, multiplier, kh, kw, padding, stride, dilation = _spatial(rng)
    multiplier = multiplier if rng.random() < 0.4 else 1
    oc = c * multiplier
    return Draw(
        [Slot((int(rng.integers(1, 3)), h, w, c)), Slot((1, kh, kw, oc), weights=True, axis=3), Slot((oc,), bias_of=(0, 1))],
        [Slot(wide_scale=True)],
        at.DepthwiseConv2DOptions(padding, stride[0], stride[0], multiplier, fused(rng), dilation[0], dilation[0]),
    )


@template(
    "TRANSPOSE_CONV",
    "i32 f32|f16|i8|i8c|i4 f32 f32|- -> f32",
    "i32 i8|i8c|i4|i4c|u8 i8 i32|i64|- -> i8",
    "i32 u8|i8|i8c u8 i32|- -> u8",
    "i32 i8|i8c|i4|i16 i16 i32|i64|- -> i16",
    "i64 f32 f32 f32 -> f32",
    "i32 f16 f16 f16 -> f16",
)
def _transposed(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c, oc, kh, kw, _, stride, _ = _spatial(rng)
    same = rng.random() < 0.5
    sizes = [h * stride[1], w * stride[0]] if same else [(h - 1) * stride[1] + kh, (w - 1) * stride[0] + kw]
    return Draw(
        [Slot(data=[1, *sizes, oc]), Slot((oc, kh, kw, c), weights=True), Slot((1, h, w, c)), Slot((oc,), bias_of=(2, 1))],
        [Slot(wide_scale=True)],
        at.TransposeConvOptions(Padding.SAME if same else Padding.VALID, *stride, fused(rng)),
    )


@template("FULLY_CONNECTED", *_CONV)
def _fully_connected(rng: Rng, codes: tuple[str, ...]) -> Draw:
    rows, depth, units = int(rng.integers(1, 4)), int(rng.integers(1, 60)), int(rng.integers(1, 20))
    depth += depth % 2 if "i4" in codes[1] else 0
    keep = bool(rng.random() < 0.3)
    return Draw(
        [Slot((2, rows, depth) if keep else (rows, depth)), Slot((units, depth), weights=True), Slot((units,), bias_of=(0, 1))],
        [Slot(wide_scale=True)],
        at.FullyConnectedOptions(fused(rng), keep_num_dims=keep, asymmetric_quantize_inputs=bool(rng.random() < 0.5)),
    )


@template(
    "BATCH_MATMUL",
    "T T -> T",
    "i8 i8 -> i32|i16",
    "i16 i16 -> i32",
    "i16 i8|i8c -> i16|i32",
    "i8 i8c|i4 -> i8",
    "f32 i8|i8c|i4|u8|f16 -> f32",
    "i8 i16 -> i16",
)
def _batch_matmul(rng: Rng, codes: tuple[str, ...]) -> Draw:
    b, m, k, n = (int(v) for v in rng.integers(1, 6, 4))
    adj_x, adj_y = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    constant = codes[1] in ("i8c", "i4") or (codes[0] != codes[1]) or rng.random() < 0.5
    y = (b, n, k) if adj_y else (b, k, n)
    if rng.random() < 0.3:
        y = y[1:]
    return Draw(
        [Slot((b, k, m) if adj_x else (b, m, k)), Slot(y, weights=constant, axis=len(y) - (2 if adj_y else 1))],
        [Slot(wide_scale=True)],
        at.BatchMatMulOptions(adj_x, adj_y, bool(rng.integers(0, 2))),
    )


# --- pools, one operand ---------------------------------------------------------------------------------------------------


def _pool(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c = (int(v) for v in rng.integers(1, 9, 3))
    kh, kw = int(rng.integers(1, h + 1)), int(rng.integers(1, w + 1))
    options = at.Pool2DOptions(Padding(int(rng.integers(0, 2))), *(int(v) for v in rng.integers(1, 4, 2)), kw, kh, fused(rng))
    return Draw([Slot((1, h, w, c))], [Slot(like=0)], options)


for _kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
    template(_kind, "T -> T")(_pool)

_UNARY_OPTIONS: dict[str, Callable[[Rng], Attributes | None]] = {
    "LEAKY_RELU": lambda rng: at.LeakyReluOptions(float(rng.uniform(0.01, 0.9))),
    "SOFTMAX": lambda rng: at.SoftmaxOptions(float(rng.choice([1.0, 0.7, 2.0]))),
    "GELU": lambda rng: at.GeluOptions(bool(rng.random() < 0.5)),
    "L2_NORMALIZATION": lambda rng: at.L2NormOptions(),
    "FAKE_QUANT": lambda rng: at.FakeQuantOptions(-(low := float(rng.uniform(0.1, 2))), 3 - low, int(rng.choice([4, 8]))),
    "ZEROS_LIKE": lambda rng: None,
}
POSITIVE = {"SQRT", "RSQRT", "LOG"}
_FIXED = {"LOGISTIC": 1, "TANH": 2, "SOFTMAX": 1, "L2_NORMALIZATION": 2}
_SAME = {"ZEROS_LIKE"}


def _unary(kind: str) -> Callable[[Rng, tuple[str, ...]], Draw]:
    def draw(rng: Rng, codes: tuple[str, ...]) -> Draw:
        slot = Slot(shape_of(rng, top=7), positive=kind in POSITIVE and codes[0] == "f32")
        made = Slot(fixed=_FIXED.get(kind, 0), like=0 if kind in _SAME else None)  # type: ignore[arg-type]
        return Draw([slot], [made], _UNARY_OPTIONS.get(kind, lambda rng: None)(rng))

    return draw


for _kind in (
    "ABS", "NEG", "SQUARE", "SQRT", "RSQRT", "EXP", "LOG", "SIN", "COS", "CEIL", "FLOOR", "ROUND", "SIGN", "LOGICAL_NOT",
    "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "HARD_SWISH", "GELU", "LOGISTIC", "TANH", "LEAKY_RELU", "SOFTMAX",
    "LOG_SOFTMAX", "L2_NORMALIZATION", "ZEROS_LIKE", "FAKE_QUANT",
):  # fmt: skip
    template(_kind, "T -> T", "i8 -> i16", "u8 -> i16|i8", "i16 -> i8")(_unary(_kind))


@template("LOCAL_RESPONSE_NORMALIZATION", "T -> T")
def _local_response(rng: Rng, codes: tuple[str, ...]) -> Draw:
    options = at.LocalResponseNormalizationOptions(int(rng.integers(0, 4)), 1.0, 0.5, 0.75)
    return Draw([Slot(shape_of(rng, 4))], [Slot()], options)


@template("PRELU", "T T -> T", "i16 i8 -> i16", "i8 i16 -> i8", "f32 i8 -> f32")
def _prelu(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, 4)
    slope = shape if rng.random() < 0.2 else (1, 1, shape[3])
    return Draw([Slot(shape), Slot(slope, weights=True)], [Slot()])


@template("QUANTIZE", "f32|f16|f64|i8|u8|i16|i32|i64|bool -> i4|i8|i8c|u8|i16|i32|u16|f32|f16")
def _quantize_op(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = (*shape_of(rng, 2), 3)
    is_channel = codes[1].endswith("c")
    return Draw([Slot(shape, wide_scale=True)], [Slot(shape if is_channel else (1,), axis=len(shape) - 1)])


@template("DEQUANTIZE", "f32|f16|f64|i4|i4c|i8|i8c|u8|u8c|i16|i16c|i32|i64|bool|u16 -> f32", "i8|u8|i16|f16 -> f16|f64")
def _dequantize(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape, weights="i4" in codes[0] or codes[0] == "f16", axis=len(shape) - 1, wide_scale=True)], [Slot()])


@template(
    "CAST",
    "f32|f16|f64|i4|i8p|u8p|i16p|u16|i32|u32|i64|u64|bool|c64|i8|u8|i16 ->"
    " f32|f16|f64|i4|i8p|u8p|i16p|u16|i32|u32|i64|u64|bool|c64|i8",
)
def _cast(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(shape_of(rng), weights=codes[0] == "i4")], [Slot()], at.CastOptions(*(dtype_of(c) for c in codes)))


@template("DENSIFY", "T -> T")
def _densify(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(shape_of(rng), weights=True)], [Slot(like=0)])


# --- two operands ---------------------------------------------------------------------------------------------------------

_BINARY_OPTIONS: dict[str, Callable[[FusedActivation], Attributes]] = {
    "ADD": lambda f: at.AddOptions(f, False),
    "SUB": lambda f: at.SubOptions(f, False),
    "MUL": at.MulOptions,
    "DIV": at.DivOptions,
}
_DIVISORS = {"DIV", "FLOOR_DIV", "FLOOR_MOD", "POW"}


def _binary(kind: str) -> Callable[[Rng, tuple[str, ...]], Draw]:
    def draw(rng: Rng, codes: tuple[str, ...]) -> Draw:
        left, right = operands(rng)
        divides = kind in _DIVISORS and codes[1] not in QUANTIZED
        second = Slot(right, weights=divides, positive=divides, like=0 if kind in ("MAXIMUM", "MINIMUM") else None)
        options = _BINARY_OPTIONS[kind](fused(rng, codes)) if kind in _BINARY_OPTIONS else None
        return Draw(
            [Slot(left, small=kind == "POW", positive=kind == "POW"), second],
            [Slot(like=0 if kind in ("MAXIMUM", "MINIMUM") else None)],
            options,
        )

    return draw


for _kind in ("ADD", "SUB", "MUL", "DIV", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "POW"):
    template(_kind, "T T -> T", "i16 i8|i32 -> i16", "i8 i8 -> i16|i32", "i8 u8 -> i8", "f32 i8|i32 -> f32", "i32 i64 -> i64")(
        _binary(_kind)
    )
for _kind in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
    template(_kind, "T T -> bool", "i8 u8 -> bool", "f32 i32 -> bool", "i8 i8 -> i8")(_binary(_kind))
for _kind in ("LOGICAL_AND", "LOGICAL_OR"):
    template(_kind, "T T -> bool|T", types="bool f32 i32 i8")(_binary(_kind))


# --- reductions -----------------------------------------------------------------------------------------------------------


def _reduction(kind: str) -> Callable[[Rng, tuple[str, ...]], Draw]:
    def draw(rng: Rng, codes: tuple[str, ...]) -> Draw:
        shape = shape_of(rng)
        axes = rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False)
        axes = axes - (len(shape) if rng.random() < 0.3 else 0)
        same = 0 if kind in ("REDUCE_MAX", "REDUCE_MIN") else None
        return Draw(
            [Slot(shape, small=kind == "REDUCE_PROD"), Slot(data=axes)],
            [Slot(like=same)],
            at.ReducerOptions(bool(rng.integers(0, 2))),
        )

    return draw


for _kind in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"):
    template(_kind, "T i32|i64 -> T", "i8 i32 -> i32|i16")(_reduction(_kind))
for _kind, _options in {"ARG_MAX": at.ArgMaxOptions, "ARG_MIN": at.ArgMinOptions}.items():

    @template(_kind, "T i32|i64|i16p -> i32|i64|i16p")
    def _arg(rng: Rng, codes: tuple[str, ...], options: Any = _options) -> Draw:
        shape = shape_of(rng)
        return Draw([Slot(shape), Slot(data=rng.integers(0, len(shape)))], [Slot(plain=True)], options(dtype_of(codes[2])))


@template("TOPK_V2", "T i32|i16p|i64 -> T i32|i16p|i64")
def _top_k(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape), Slot(data=rng.integers(1, shape[-1] + 1), plain=True)], [Slot(like=0), Slot(plain=True)])


@template("CUMSUM", "T i32|i64 -> T")
def _cumsum(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    options = at.CumsumOptions(bool(rng.integers(0, 2)), bool(rng.integers(0, 2)))
    return Draw([Slot(shape), Slot(data=rng.integers(0, len(shape)))], [Slot(like=0)], options)


# --- layout ---------------------------------------------------------------------------------------------------------------


@template("CONCATENATION", "T T -> T", "T T T -> T", "f32 i32 -> f32")
def _concatenation(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    axis = int(rng.integers(0, len(shape)))
    like = None if codes[0] == "u8" else 0
    parts = [Slot(shape)] + [
        Slot([*shape[:axis], int(rng.integers(1, 5)), *shape[axis + 1 :]], like=like) for _ in range(len(codes) - 2)
    ]
    return Draw(parts, [Slot(like=like)], at.ConcatenationOptions(axis))


@template("PACK", "T T -> T", "f32 i32 -> f32")
def _pack(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, int(rng.integers(1, 4)))
    return Draw([Slot(shape), Slot(shape, like=0)], [Slot(like=0)], at.PackOptions(2, int(rng.integers(0, len(shape) + 1))))


@template("UNPACK", "T -> T")
def _unpack(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, top=4)
    axis = int(rng.integers(0, len(shape)))
    return Draw([Slot(shape)], [Slot(like=0)] * shape[axis], at.UnpackOptions(shape[axis], axis))


@template("SPLIT", "i32|i64 T -> T")
def _split(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape, count = list(shape_of(rng)), int(rng.integers(1, 4))
    axis = int(rng.integers(0, len(shape)))
    shape[axis] *= count
    return Draw([Slot(data=axis), Slot(shape)], [Slot(like=1)] * count, at.SplitOptions(count))


@template("SPLIT_V", "T i32|i64 i32|i64 -> T")
def _split_v(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape, sizes = list(shape_of(rng)), [int(v) for v in rng.integers(1, 4, 3)]
    axis = int(rng.integers(0, len(shape)))
    shape[axis] = sum(sizes)
    if rng.random() < 0.5:
        sizes[1] = -1
    return Draw([Slot(shape), Slot(data=sizes), Slot(data=axis)], [Slot(like=0)] * 3, at.SplitVOptions(3))


@template("TRANSPOSE", "T i32|i64 -> T")
def _transpose(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape), Slot(data=rng.permutation(len(shape)))], [Slot(like=0)])


@template("PAD", "T i32|i64|i8p|i16p -> T")
def _pad(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape), Slot(data=rng.integers(0, 3, (len(shape), 2)), plain=True)], [Slot(like=0)])


@template("PADV2", "T i32|i64|i8p|i16p T -> T")
def _pad_v2(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw(
        [Slot(shape), Slot(data=rng.integers(0, 3, (len(shape), 2)), plain=True), Slot((1,), like=0, weights=True)],
        [Slot(like=0)],
    )


@template("MIRROR_PAD", "T i32|i64 -> T")
def _mirror_pad(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = tuple(n + 2 for n in shape_of(rng, top=4))
    options = at.MirrorPadOptions(at.MirrorPadMode(int(rng.integers(0, 2))))
    return Draw([Slot(shape), Slot(data=rng.integers(0, 3, (len(shape), 2)))], [Slot(like=0)], options)


@template("DEPTH_TO_SPACE", "T -> T")
def _depth_to_space(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c = shape_of(rng, 3)
    block = int(rng.integers(2, 4))
    return Draw([Slot((1, h, w, c * block * block))], [Slot(like=0)], at.DepthToSpaceOptions(block))


@template("SPACE_TO_DEPTH", "T -> T")
def _space_to_depth(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c = shape_of(rng, 3)
    block = int(rng.integers(2, 4))
    return Draw([Slot((1, h * block, w * block, c))], [Slot(like=0)], at.SpaceToDepthOptions(block))


@template("SPACE_TO_BATCH_ND", "T i32|i64 i32|i64 -> T")
def _space_to_batch(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c = shape_of(rng, 3)
    block, pads = rng.integers(1, 4, 2), rng.integers(0, 2, (2, 2))
    size = [n + (-(n + int(p.sum()))) % int(s) for n, s, p in zip((h, w), block, pads, strict=True)]
    return Draw([Slot((2, *size, c)), Slot(data=block), Slot(data=pads)], [Slot(like=0)])


@template("BATCH_TO_SPACE_ND", "T i32|i64 i32|i64 -> T")
def _batch_to_space(rng: Rng, codes: tuple[str, ...]) -> Draw:
    h, w, c = (n + 1 for n in shape_of(rng, 3))
    block, crops = rng.integers(1, 4, 2), rng.integers(0, 2, (2, 2))
    crops[crops.sum(axis=1) >= np.array([h, w]) * block] = 0
    return Draw([Slot((2 * int(np.prod(block)), h, w, c)), Slot(data=block), Slot(data=crops)], [Slot(like=0)])


@template("REVERSE_V2", "T i32|i64 -> T")
def _reverse(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape), Slot(data=[int(rng.integers(0, len(shape)))])], [Slot(like=0)])


@template("TILE", "T i32|i64 -> T")
def _tile(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape), Slot(data=rng.integers(1, 4, len(shape)))], [Slot(like=0)])


@template("BROADCAST_TO", "T i32|i64 -> T")
def _broadcast_to(rng: Rng, codes: tuple[str, ...]) -> Draw:
    target = shape_of(rng)
    return Draw([Slot(tuple(1 if rng.random() < 0.4 else n for n in target)), Slot(data=target)], [Slot(like=0)], version=2)


# --- shapes ---------------------------------------------------------------------------------------------------------------


@template("RESHAPE", "T i32|i64|- -> T")
def _reshape(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    target = [-1, shape[-1]] if rng.random() < 0.5 else [int(np.prod(shape))]
    return Draw([Slot(shape), Slot(data=target)], [Slot(like=0)], at.ReshapeOptions(tuple(target)))


@template("SQUEEZE", "T -> T")
def _squeeze(rng: Rng, codes: tuple[str, ...]) -> Draw:
    n = shape_of(rng, 2)
    return Draw([Slot((1, n[0], 1, n[1]))], [Slot(like=0)], at.SqueezeOptions(((0,), (-2,), ())[int(rng.integers(0, 3))]))


@template("EXPAND_DIMS", "T i32|i64 -> T")
def _expand_dims(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(shape_of(rng, 3)), Slot(data=[int(rng.integers(-4, 4))])], [Slot(like=0)])


@template("SHAPE", "T -> i32|i64")
def _shape(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(shape_of(rng))], [Slot()], at.ShapeOptions(dtype_of(codes[1])))


@template("RANK", "T -> i32")
def _rank(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(shape_of(rng))], [Slot(())])


@template("FILL", "i32|i64 T -> T")
def _fill(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(data=shape_of(rng)), Slot(())], [Slot(like=1)])


@template("RANGE", "T T T -> T")
def _range(rng: Rng, codes: tuple[str, ...]) -> Draw:
    start, delta = int(rng.integers(0, 5)), 1 if codes[0][0] == "u" else int(rng.choice([-3, -1, 1, 2]))
    values = (start, start + delta * int(rng.integers(1, 6)), delta)
    if codes[0][0] == "f":
        values = tuple(v * 0.3 for v in values)  # type: ignore[assignment]
    return Draw([Slot((), data=np.asarray(v)) for v in values], [Slot(like=0)], at.RangeOptions())


@template("ONE_HOT", "i32|i64|u8p|i8p i32 T T -> T", "i32 i64 f32 f32 -> f32")
def _one_hot(rng: Rng, codes: tuple[str, ...]) -> Draw:
    indices = rng.integers(0, 6, shape_of(rng, 2))
    return Draw(
        [Slot(data=indices, plain=True), Slot(data=5), Slot((), weights=True, like=None), Slot((), weights=True, like=2)],
        [Slot(like=2)],
        at.OneHotOptions(int(rng.integers(-1, 3))),
    )


# --- selection ------------------------------------------------------------------------------------------------------------


@template("GATHER", "T i16p|i32|i64 -> T", "i4 i32 -> i4|f32|i8")
def _gather(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    axis = int(rng.integers(0, len(shape)))
    indices = rng.integers(0, shape[axis], shape_of(rng, 2, 4))
    return Draw([Slot(shape, weights=codes[0] == "i4"), Slot(data=indices, plain=True)], [Slot(like=0)], at.GatherOptions(axis))


@template("GATHER_ND", "T i16p|i32|i64 -> T")
def _gather_nd(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    depth = int(rng.integers(1, len(shape) + 1))
    indices = np.stack([rng.integers(0, n, (3, 2)) for n in shape[:depth]], axis=-1)
    return Draw([Slot(shape), Slot(data=indices, plain=True)], [Slot(like=0)])


@template("SELECT", "bool T T -> T", "i32|u8p f32 f32 -> f32")
def _select(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    shape = (shape[0] + 1, *shape[1:])
    condition = (shape[0],) if rng.random() < 0.3 and len(shape) > 1 else shape
    return Draw([Slot(condition), Slot(shape), Slot(shape, like=1)], [Slot(like=1)])


@template("SELECT_V2", "bool T T -> T", "i32|u8p f32 f32 -> f32")
def _select_v2(rng: Rng, codes: tuple[str, ...]) -> Draw:
    left, right = operands(rng)
    return Draw([Slot(left), Slot(left), Slot(right, like=1)], [Slot(like=1)])


@template("WHERE", "T -> i64|i32")
def _where(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    chosen = rng.integers(0, 2, shape)
    chosen.reshape(-1)[0] = 1
    return Draw([Slot(shape, data=chosen)], [Slot((1, 1))])


@template("SCATTER_ND", "i32|i64 T i32|i64 -> T")
def _scatter_nd(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(data=[[0], [2], [0]]), Slot((3, 2), small=True), Slot(data=[4, 2])], [Slot(like=1)])


@template("SPARSE_TO_DENSE", "i32|i64 i32|i64 T T -> T", "i64 i32 f32 f32 -> f32")
def _sparse_to_dense(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw(
        [Slot(data=[[0, 1], [2, 0], [3, 3]]), Slot(data=[4, 5]), Slot((3,)), Slot((), like=2)],
        [Slot(like=2)],
        at.SparseToDenseOptions(),
    )


@template("SLICE", "T i32 i32 -> T", "T i64 i64 -> T", "f32 i32 i64 -> f32")
def _slice(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    begin = [int(rng.integers(0, n)) for n in shape]
    size = [-1 if rng.random() < 0.3 else int(rng.integers(1, n - b + 1)) for n, b in zip(shape, begin, strict=True)]
    result = [n - b if s == -1 else s for n, b, s in zip(shape, begin, size, strict=True)]
    return Draw([Slot(shape), Slot(data=begin), Slot(data=size)], [Slot(result, like=0)])


@template("STRIDED_SLICE", "T i32 i32 i32 -> T", "T i64 i64 i64 -> T")
def _strided_slice(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    count = len(shape)
    begin = [int(rng.integers(-n, n)) for n in shape]
    strides = [int(rng.choice([1, 1, 2, -1])) for _ in shape]
    end = [n if s > 0 else -n - 1 for n, s in zip(shape, strides, strict=True)]
    masks = [int(rng.integers(0, 1 << count)) if rng.random() < 0.5 else 0 for _ in range(2)]
    shrink = 1 << int(rng.integers(0, count)) if rng.random() < 0.3 and count > 1 else 0
    for i in range(count):
        if shrink >> i & 1:
            strides[i], end[i], masks = 1, begin[i] + 1 if begin[i] != -1 else shape[i], [0, 0]
    return Draw(
        [Slot(shape), Slot(data=begin), Slot(data=end), Slot(data=strides)],
        [Slot(like=0)],
        at.StridedSliceOptions(masks[0], masks[1], 0, 0, shrink),
    )


@template("DYNAMIC_UPDATE_SLICE", "T T i32|i64 -> T")
def _update_slice(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    update = [int(rng.integers(1, n + 1)) for n in shape]
    start = [int(rng.integers(-1, n + 1)) for n in shape]
    return Draw([Slot(shape), Slot(update, like=0), Slot(data=start)], [Slot(like=0)])


def _resize(rng: Rng, codes: tuple[str, ...], options: Any) -> Draw:
    corners, half = [(False, False), (True, False), (False, True)][int(rng.integers(0, 3))]
    return Draw([Slot((1, *shape_of(rng, 3, 8))), Slot(data=rng.integers(1, 14, 2))], [Slot(like=0)], options(corners, half))


@template("RESIZE_BILINEAR", "T i32|i64 -> T")
def _bilinear(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return _resize(rng, codes, at.ResizeBilinearOptions)


@template("RESIZE_NEAREST_NEIGHBOR", "T i32|i64 -> T")
def _nearest(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return _resize(rng, codes, at.ResizeNearestNeighborOptions)


@template("ADD_N", "T T T -> T")
def _add_n(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape), Slot(shape), Slot(shape)], [Slot(shape)])


@template("ATAN2", "T T -> T")
def _atan2(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape), Slot(shape)], [Slot(shape)])


@template("BITWISE_XOR", "T T -> T")
@template("RIGHT_SHIFT", "T T -> T")
def _bits(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, 3)
    other = shape if rng.integers(2) else shape[rng.integers(0, 3) :]
    return Draw([Slot(shape), Slot(other)], [Slot(shape)])


@template("REAL", "T -> f32|f64", types="c64 f32")
@template("IMAG", "T -> f32|f64", types="c64 f32")
@template("COMPLEX_ABS", "T -> f32|f64", types="c64 f32")
def _complex_part(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    return Draw([Slot(shape)], [Slot(shape)])


@template("RFFT2D", "T i32|i64 -> c64|f32")
def _rfft2d(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(shape_of(rng, int(rng.integers(2, 4)), 9)), Slot(data=1 << rng.integers([0, 1], 4))], [Slot((1, 1))])


@template("REVERSE_SEQUENCE", "T i32|i64 -> T")
def _reverse_sequence(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, int(rng.integers(2, 5)))
    along, batch = (int(axis) for axis in rng.permutation(len(shape))[:2])
    lengths = rng.integers(0, shape[along] + 1, shape[batch])
    options = at.ReverseSequenceOptions(seq_dim=along, batch_dim=batch)
    return Draw([Slot(shape), Slot(data=lengths)], [Slot(shape, like=0)], options)


@template("MATRIX_DIAG", "T -> T")
def _matrix_diag(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw([Slot(shape_of(rng))], [Slot((1, 1), like=0)])


@template("MATRIX_SET_DIAG", "T T -> T")
def _matrix_set_diag(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, int(rng.integers(2, 5)))
    return Draw([Slot(shape), Slot((*shape[:-2], min(shape[-2:])), like=0)], [Slot(shape, like=0)])


@template("BROADCAST_ARGS", "T T -> T", types="i32 i64 i16 f32")
def _broadcast_args(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = rng.integers(1, 5, rng.integers(1, 5))
    other = np.where(rng.integers(0, 2, shape.size), shape, 1)[rng.integers(0, shape.size) :]
    return Draw([Slot(data=shape), Slot(data=other)], [Slot((1,))])


@template("BUCKETIZE", "T -> i32|i64", types="f32 f64 i8 i16 i32 i64")
def _bucketize(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng)
    bounds = tuple(float(bound) for bound in np.sort(rng.integers(-8, 8, 5)) / 4)
    return Draw([Slot(shape)], [Slot(shape)], at.BucketizeOptions(boundaries=bounds))


@template("UNIQUE", "T -> T i32|i64")
def _unique(rng: Rng, codes: tuple[str, ...]) -> Draw:
    count = int(rng.integers(1, 12))
    kind = {"i32": DType.INT32, "i64": DType.INT64}[codes[-1]]
    values = rng.integers(0, 5, count)
    return Draw([Slot((count,), data=values)], [Slot((1,)), Slot((count,))], at.UniqueOptions(idx_out_type=kind))


@template("SEGMENT_SUM", "T i32|i64 -> T")
def _segment_sum(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, int(rng.integers(1, 4)), 7)
    segments = np.cumsum(np.append(0, rng.integers(0, 2, shape[0] - 1)))
    return Draw([Slot(shape, small=True), Slot(data=segments)], [Slot((1,))])


@template("UNSORTED_SEGMENT_SUM", "T i32|i64 i32 -> T")
@template("UNSORTED_SEGMENT_PROD", "T i32|i64 i32 -> T")
@template("UNSORTED_SEGMENT_MAX", "T i32|i64 i32 -> T")
@template("UNSORTED_SEGMENT_MIN", "T i32|i64 i32 -> T")
def _unsorted_segment(rng: Rng, codes: tuple[str, ...]) -> Draw:
    shape = shape_of(rng, int(rng.integers(1, 4)), 5)
    segments = rng.integers(-1, 5, shape[: rng.integers(1, len(shape) + 1)])
    return Draw([Slot(shape, small=True), Slot(data=segments), Slot(data=5)], [Slot((1,))])


@template("NON_MAX_SUPPRESSION_V4", "T T i32 T T -> i32 i32", "f32 f32 i64 f32 f32 -> i32 i32", types="f32 f16 i8 i16")
def _suppression(rng: Rng, codes: tuple[str, ...]) -> Draw:
    return Draw(_boxes(rng), [Slot((1,)), Slot(())])


@template("NON_MAX_SUPPRESSION_V5", "T T i32 T T T -> i32 T i32", types="f32 f16 i8 i16")
def _soft_suppression(rng: Rng, codes: tuple[str, ...]) -> Draw:
    sigma = Slot(data=float(rng.integers(0, 2)) * 0.5)
    return Draw([*_boxes(rng), sigma], [Slot((1,)), Slot((1,)), Slot(())])


def _boxes(rng: Rng) -> list[Slot]:
    """Boxes, scores with ties, how many, overlap, threshold."""
    count = int(rng.integers(1, 30))
    boxes, scores = rng.uniform(0, 1, (count, 4)), rng.integers(0, 9, count) / 8
    return [Slot(data=boxes), Slot(data=scores), Slot(data=int(rng.integers(0, count + 3))), Slot(data=0.3), Slot(data=0.2)]
