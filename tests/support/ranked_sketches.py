"""Single operators over tensors of rank 1 to 6: axes of every kind, positive and negative, and operands that broadcast.

`ranked(seed)` takes the operators in turn. Output shapes are those of numpy for the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType

from tests.support.operator_cases import BOOL, F32, I8, I16, I32, U8, In, Rng, ints, model, tensor

Maker: TypeAlias = Callable[[Rng, DType], bytes]

_TYPES = (I8, I8, I8, U8, I16, F32)
_BINARY: dict[str, Attributes] = {
    "ADD": at.AddOptions(pot_scale_int16=False),
    "SUB": at.SubOptions(pot_scale_int16=False),
    "MUL": at.MulOptions(),
    "MAXIMUM": at.MaximumMinimumOptions(),
    "MINIMUM": at.MaximumMinimumOptions(),
    "SQUARED_DIFFERENCE": at.SquaredDifferenceOptions(),
    "GREATER": at.GreaterOptions(),
    "EQUAL": at.EqualOptions(),
}
_MOST_RANKS = {"ADD": 6, "SUB": 6, "MUL": 6, "MAXIMUM": 6, "MINIMUM": 6}
"""To how many axes LiteRT's kernels broadcast; to 4 those of the others."""
_BROADCAST_RANK = 4
_REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {"MEAN": np.mean, "REDUCE_MAX": np.max, "REDUCE_MIN": np.min}


def ranked(seed: int) -> tuple[str, bytes]:
    """Operator and type, and the model of a seed, the same every time."""
    rng, kind = np.random.default_rng([seed, 61]), list(RANKED)[seed % len(RANKED)]
    dtype = _TYPES[int(rng.integers(len(_TYPES)))]
    return f"{seed} {kind} {dtype}", RANKED[kind](rng, dtype)


def _shape(rng: Rng, least: int = 1, most: int = 6) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(least, most + 1))))


def _axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def _stored(kind: str, source: In, shape: Sequence[int], rest: Sequence[In], attributes: Attributes | None) -> bytes:
    """An operator that moves elements: its result has the input's quantization."""
    return model(kind, [source, *rest], [In(tuple(shape), source.dtype, source.scale, source.zero_point)], attributes)


def _binary(kind: str) -> Maker:
    def make(rng: Rng, dtype: DType) -> bytes:
        dtype = I8 if kind == "SQUARED_DIFFERENCE" and dtype in (U8, I16) else dtype  # the reference kernel has neither
        shape = _shape(rng, 1, _MOST_RANKS.get(kind, _BROADCAST_RANK))
        other = tuple(1 if rng.random() < 0.4 else size for size in shape[int(rng.integers(0, len(shape))) :])
        first = tensor(rng, shape, dtype)
        is_kept = kind in ("MAXIMUM", "MINIMUM")
        second = In(other, dtype, first.scale, first.zero_point) if is_kept else tensor(rng, other, dtype)
        made = np.broadcast_shapes(shape, other)
        result = In(made, dtype, first.scale, first.zero_point) if is_kept else tensor(rng, made, dtype)
        if kind in ("GREATER", "EQUAL"):
            result = In(made, BOOL)
        given = [first, second] if rng.random() < 0.5 else [second, first]
        return model(kind, given, [result], _BINARY[kind])

    return make


def _reduction(kind: str) -> Maker:
    def make(rng: Rng, dtype: DType) -> bytes:
        shape = _shape(rng, 1, _BROADCAST_RANK)
        count, keep = int(rng.integers(1, len(shape) + 1)), bool(rng.random() < 0.5)
        axes = [int(axis) for axis in rng.permutation(len(shape))[:count]]
        made = np.shape(_REDUCTIONS[kind](np.zeros(shape), axis=tuple(axes), keepdims=keep))
        named = [axis - len(shape) if rng.random() < 0.3 else axis for axis in axes]
        source = tensor(rng, shape, dtype)
        is_kept = kind != "MEAN"
        result = In(made, dtype, source.scale, source.zero_point) if is_kept else tensor(rng, made, dtype)
        return model(kind, [source, ints(named)], [result], at.ReducerOptions(keep))

    return make


def _transpose(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng)
    order = [int(axis) for axis in rng.permutation(len(shape))]
    return _stored("TRANSPOSE", tensor(rng, shape, dtype), [shape[a] for a in order], [ints(order)], at.TransposeOptions())


def _pad(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, _BROADCAST_RANK)
    amounts = rng.integers(0, 3, (len(shape), 2))
    made = [size + int(pair.sum()) for size, pair in zip(shape, amounts, strict=True)]
    return _stored("PAD", tensor(rng, shape, dtype), made, [ints(amounts)], at.PadOptions())


def _mirror_pad(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, _BROADCAST_RANK)
    mode = at.MirrorPadMode(int(rng.integers(0, 2)))
    most = [size if mode is at.MirrorPadMode.SYMMETRIC else size - 1 for size in shape]
    amounts = [[int(rng.integers(0, size + 1)) for _ in range(2)] for size in most]
    made = [size + sum(pair) for size, pair in zip(shape, amounts, strict=True)]
    return _stored("MIRROR_PAD", tensor(rng, shape, dtype), made, [ints(amounts)], at.MirrorPadOptions(mode))


def _slice(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 5)
    begin = [int(rng.integers(0, size)) for size in shape]
    made = [int(rng.integers(1, size - start + 1)) for size, start in zip(shape, begin, strict=True)]
    sizes = [-1 if rng.random() < 0.2 and start + size == whole else size
             for start, size, whole in zip(begin, made, shape, strict=True)]  # fmt: skip
    return _stored("SLICE", tensor(rng, shape, dtype), made, [ints(begin), ints(sizes)], at.SliceOptions())


def _strided_slice(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 5)
    rank = len(shape)
    begin, end, strides, masks, taken = [], [], [], [0, 0, 0], list[slice | int]()
    for axis, size in enumerate(shape):
        step = int(rng.choice((1, 1, 2, 3, -1, -2)))
        low, high = sorted(int(n) for n in rng.integers(0, size + 1, 2))
        high = max(high, low + 1) if low < size else size
        low = min(low, high - 1)
        first, last = (low, high) if step > 0 else (high - 1, low - 1)
        opens, ends = rng.random() < 0.2, rng.random() < 0.2 or last < 0
        shrinks = rng.random() < 0.15 and rank > 1
        masks = [mask | (bit << axis) for mask, bit in zip(masks, (opens, ends, shrinks), strict=True)]
        begin.append(first - size if rng.random() < 0.2 else first)
        end.append(last)
        strides.append(1 if shrinks else step)
        first = (0 if step > 0 else size - 1) if opens and not shrinks else first
        taken.append(first if shrinks else slice(first, None if ends else last, step))
    masks[0] &= ~masks[2]  # what is taken out is taken where it begins
    made = np.shape(np.zeros(shape)[tuple(taken)])
    options = at.StridedSliceOptions(begin_mask=masks[0], end_mask=masks[1], shrink_axis_mask=masks[2])
    return _stored("STRIDED_SLICE", tensor(rng, shape, dtype), made, [ints(begin), ints(end), ints(strides)], options)


def _concatenation(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 5)
    axis, parts = _axis(rng, len(shape)), int(rng.integers(2, 4))
    sizes = [int(rng.integers(1, 5)) for _ in range(parts)]
    first = tensor(rng, shape, dtype)
    given = []
    for size in sizes:
        own = list(shape)
        own[axis] = size
        given.append(In(tuple(own), dtype, first.scale, first.zero_point))
    made = list(shape)
    made[axis] = sum(sizes)
    return _stored("CONCATENATION", given[0], made, given[1:], at.ConcatenationOptions(axis))


def _pack(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 4)
    axis, count = int(rng.integers(-len(shape) - 1, len(shape) + 1)), int(rng.integers(1, 4))
    first = tensor(rng, shape, dtype)
    made = np.shape(np.stack([np.zeros(shape)] * count, axis))
    return _stored("PACK", first, made, [first] * (count - 1), at.PackOptions(count, axis))


def _unpack(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 2, 5)
    axis, source = _axis(rng, len(shape)), tensor(rng, shape, dtype)
    made = tuple(np.delete(shape, axis).tolist())
    results = [In(made, dtype, source.scale, source.zero_point)] * shape[axis]
    return model("UNPACK", [source], results, at.UnpackOptions(shape[axis], axis))


def _split(rng: Rng, dtype: DType) -> bytes:
    shape, count = list(_shape(rng, 1, 5)), int(rng.integers(1, 4))
    axis = _axis(rng, len(shape))
    part = list(shape)
    shape[axis] *= count
    source = tensor(rng, shape, dtype)
    results = [In(tuple(part), dtype, source.scale, source.zero_point)] * count
    return model("SPLIT", [In((), I32, data=axis), source], results, at.SplitOptions(count))


def _gather(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 4)
    axis = _axis(rng, len(shape))
    indices = rng.integers(0, shape[axis], _shape(rng, 1, 2))
    made = np.shape(np.take(np.zeros(shape), indices, axis))
    return _stored("GATHER", tensor(rng, shape, dtype), made, [ints(indices)], at.GatherOptions(axis))


def _tile(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 5)
    times = [int(n) for n in rng.integers(1, 4, len(shape))]
    return _stored("TILE", tensor(rng, shape, dtype), np.multiply(shape, times).tolist(), [ints(times)], at.TileOptions())


def _reverse(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 5)
    return _stored("REVERSE_V2", tensor(rng, shape, dtype), shape, [ints([_axis(rng, len(shape))])], at.ReverseV2Options())


def _arg_max(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 4)
    axis = _axis(rng, len(shape))
    made = tuple(np.delete(shape, axis).tolist())
    dtype = I8 if dtype is I16 else dtype  # the reference kernel has no other integers
    return model("ARG_MAX", [tensor(rng, shape, dtype), ints([axis])], [In(made, I32)], at.ArgMaxOptions(I32))


def _softmax(rng: Rng, dtype: DType) -> bytes:
    dtype = I8 if dtype is I16 else dtype
    source = tensor(rng, _shape(rng, 1, 4), dtype)
    scale, zero_point = {I8: (1 / 256, -128), U8: (1 / 256, 0)}.get(dtype, (None, 0))
    return model("SOFTMAX", [source], [In(source.shape, dtype, scale, zero_point)], at.SoftmaxOptions(1.0))


def _expand(rng: Rng, dtype: DType) -> bytes:
    shape = _shape(rng, 1, 5)
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    made = np.shape(np.expand_dims(np.zeros(shape), axis))
    return _stored("EXPAND_DIMS", tensor(rng, shape, dtype), made, [ints([axis])], at.ExpandDimsOptions())


def _matmul(rng: Rng, dtype: DType) -> bytes:
    """Batches of up to two axes, of which either side may have fewer."""
    dtype = I8 if dtype is U8 else dtype
    batches, (rows, inner, columns) = _shape(rng, 0, 2), (int(n) for n in rng.integers(1, 7, 3))
    fewer = tuple(1 if rng.random() < 0.3 else size for size in batches[int(rng.integers(0, len(batches) + 1)) :])
    adj_x, adj_y = (bool(rng.random() < 0.3) for _ in range(2))
    x = tensor(rng, (*batches, *((inner, rows) if adj_x else (rows, inner))), dtype)
    y = tensor(rng, (*fewer, *((columns, inner) if adj_y else (inner, columns))), dtype)
    made = (*np.broadcast_shapes(batches, fewer), rows, columns)
    return model("BATCH_MATMUL", [x, y], [tensor(rng, made, dtype)], at.BatchMatMulOptions(adj_x, adj_y))


RANKED: dict[str, Maker] = {
    **{kind: _binary(kind) for kind in _BINARY},
    **{kind: _reduction(kind) for kind in _REDUCTIONS},
    "TRANSPOSE": _transpose,
    "PAD": _pad,
    "MIRROR_PAD": _mirror_pad,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "CONCATENATION": _concatenation,
    "PACK": _pack,
    "UNPACK": _unpack,
    "SPLIT": _split,
    "GATHER": _gather,
    "TILE": _tile,
    "REVERSE_V2": _reverse,
    "ARG_MAX": _arg_max,
    "SOFTMAX": _softmax,
    "EXPAND_DIMS": _expand,
    "BATCH_MATMUL": _matmul,
}
