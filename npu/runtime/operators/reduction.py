"""Reductions over axes: MEAN, SUM, REDUCE_*, ARG_MAX, ARG_MIN, TOPK_V2, CUMSUM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from npu.graph.dtype import DType
from npu.graph.shapes.common import reduced_axes, without
from npu.numerics.arrays import Array
from npu.numerics.scaling import quantize_multiplier, round_away
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.reduction import sum_rows
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import (
    INTEGER_RANGE,
    bound_again,
    ints,
    normalized_axis,
    requantize,
    require_quantized,
    scaled,
)
from npu.runtime.types import for_codes


def _reduce(node: OperatorNode, function: Callable[[Array, tuple[int, ...]], Array]) -> Run:
    """`function(input, axes)` returns the reduced values in any shape with the right number of elements."""
    ifm, axis, output = node.input(0), node.input(1), node.output()
    known = reduced_axes(ints(axis), len(ifm.shape)) if axis.is_constant else None

    def run() -> None:
        axes = reduced_axes(ints(axis), len(ifm.shape)) if known is None else known
        if output.array.size:
            output.array[...] = function(ifm.array, axes).reshape(output.shape)

    return run


def _sum_in_order(values: Array, axes: tuple[int, ...]) -> Array:
    """float32 sums in the order of the elements."""
    kept = [i for i in range(values.ndim) if i not in axes]
    rows = values.transpose(*kept, *axes).reshape(_count(values.shape, kept), _count(values.shape, axes))
    total = np.empty(len(rows), np.float32)
    sum_rows(np.ascontiguousarray(rows, np.float32), 1.0, total)
    return total


def _count(shape: tuple[int, ...], axes: Sequence[int]) -> int:
    return math.prod([shape[i] for i in axes])


def build_mean(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if ifm.dtype is DType.FLOAT32:
        return _mean_of_rows(node) or _reduce(node, lambda x, axes: _sum_in_order(x, axes) / np.float32(_count(x.shape, axes)))
    if ifm.dtype in (DType.INT32, DType.INT64):

        def integer(x: Array, axes: tuple[int, ...]) -> Array:
            total, count = x.astype(np.int64).sum(axis=axes), _count(x.shape, axes)
            result: Array = (total - np.fmod(total, count)) // count
            return result

        return _reduce(node, integer)
    require_quantized(node, ifm, output)
    factor = quantize_multiplier(ifm.scale / output.scale)
    limits = INTEGER_RANGE[output.dtype]

    def quantized(x: Array, axes: tuple[int, ...]) -> Array:
        count = _count(x.shape, axes)
        if count == 0:
            raise node.fail("reduced dimensions must not be empty")
        total = x.astype(np.int64).sum(axis=axes) - count * ifm.zero_point
        return requantize(total.reshape(-1), divided(factor, count), output.zero_point, limits)

    return _reduce(node, quantized)


def _mean_of_rows(node: OperatorNode) -> Run | None:
    """The mean over the last axes, which are known: one call; None if there is more to do."""
    ifm, axis, output = node.input(0), node.known(1), node.output()
    rank = len(ifm.shape)
    axes = () if axis is None else reduced_axes(ints(node.input(1)), rank)
    count = _count(ifm.shape, axes)
    if not axes or axes != tuple(range(rank - len(axes), rank)) or not count:
        return None
    return bound_again(sum_rows, (ifm, output), lambda: (ifm.array.reshape(-1, count), count, output.array.reshape(-1)))


def divided(factor: tuple[int, int], count: int) -> tuple[Array, Array]:
    """The factor divided by `count`: a truncating division of the multiplier shifted left as far as 63 and 32 bits allow."""
    multiplier, exponent = factor
    shift = min(63 - (64 - count.bit_length()), 32, 31 + exponent)
    return np.array([(multiplier << shift) // count], np.int64), np.array([exponent - shift], np.int64)


def build_sum(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if ifm.dtype is DType.FLOAT32:
        return _reduce(node, _sum_in_order)
    if ifm.dtype in (DType.INT8, DType.UINT8, DType.INT16) and (ifm.scale, ifm.zero_point) != (output.scale, output.zero_point):
        return _rescaled_sum(node)
    if ifm.dtype in (DType.INT8, DType.UINT8) and ifm.is_quantized:
        zero_point = ifm.zero_point
        return _reduce(node, lambda x, axes: _sum_of_bytes(x, axes, zero_point))
    return _reduce(node, lambda x, axes: x.sum(axis=axes, dtype=x.dtype))


def _sum_of_bytes(x: Array, axes: tuple[int, ...], zero_point: int) -> Array:
    """LiteRT's reference kernel adds the stored bytes without their sign and keeps one zero point, from 0 to 255."""
    total = x.view(np.uint8).sum(axis=axes, dtype=np.int64) - (_count(x.shape, axes) - 1) * zero_point
    return np.asarray(np.clip(total, 0, 255)).astype(np.uint8).view(x.dtype)


def _rescaled_sum(node: OperatorNode) -> Run:
    """Quantized sums to another scale: of uint8 in fixed point, of int8 and int16 in float32, as LiteRT computes them."""
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)
    if ifm.dtype is DType.UINT8:
        factor = quantize_multiplier(ifm.scale / output.scale)

        def fixed(x: Array, axes: tuple[int, ...]) -> Array:
            centred = x.astype(np.int64).sum(axis=axes) - _count(x.shape, axes) * ifm.zero_point
            result: Array = np.clip(scaled(centred, factor) + output.zero_point, *INTEGER_RANGE[output.dtype])
            return result

        return _reduce(node, fixed)
    scale = np.float32(ifm.scale) / np.float32(output.scale)

    def total(x: Array, axes: tuple[int, ...]) -> Array:
        bias = np.float32(-ifm.zero_point) * scale * np.float32(_count(x.shape, axes))
        real = x.astype(np.int64).sum(axis=axes).astype(np.float32) * scale + bias
        return np.clip(round_away(real).astype(np.int64) + output.zero_point, *INTEGER_RANGE[output.dtype])

    return _reduce(node, total)


def build_product(node: OperatorNode) -> Run:
    if node.input(0).dtype in (DType.INT8, DType.INT16):
        return _quantized_product(node)
    return _reduce(node, lambda x, axes: x.prod(axis=axes, dtype=x.dtype))


def _quantized_product(node: OperatorNode) -> Run:
    """Products of quantized values, rescaled after each factor."""
    ifm, output = node.input(0), node.output()
    require_quantized(node, ifm, output)

    def product(x: Array, axes: tuple[int, ...]) -> Array:
        count = _count(x.shape, axes)
        if count == 0:
            raise node.fail("reduced dimensions must not be empty")
        factor = quantize_multiplier(ifm.scale / output.scale ** (1.0 / count))
        kept = [i for i in range(x.ndim) if i not in axes]
        rows = x.transpose(*kept, *axes).reshape(-1, count).astype(np.int64) - ifm.zero_point
        total = rows[:, 0]
        for column in range(1, count):
            total = _rescaled(total * rows[:, column], factor)
        total = _rescaled(total, factor)
        return np.clip(total + output.zero_point, *INTEGER_RANGE[output.dtype])

    return _reduce(node, product)


def _rescaled(values: Array, factor: tuple[int, int]) -> Array:
    """values * factor by a multiplier of 16 bits, rounded half up, kept as int32: TFLite's product of an int64 number."""
    multiplier, shift = min((factor[0] + (1 << 15)) >> 16, (1 << 15) - 1), 15 - factor[1]
    if shift < 1:  # left open by the reference kernel, whose shift would be negative
        rescaled: Array = np.clip(
            np.clip(values * multiplier, -(1 << 31), 1 << 31) << min(-shift, 31), *INTEGER_RANGE[DType.INT32]
        )
        return rescaled
    rescaled = ((values * multiplier + (1 << (shift - 1))) >> shift).astype(np.int32).astype(np.int64)
    return rescaled


def _extremum(function: np.ufunc, bound: str) -> Callable[[OperatorNode], Run]:
    """Not-a-number loses against numbers; nothing at all gives the least extreme number of the type."""

    def reduced(x: Array, axes: tuple[int, ...]) -> Array:
        if x.dtype == bool:
            return np.asarray(x.any(axis=axes) if bound == "min" else x.all(axis=axes))
        if _count(x.shape, axes):
            return np.asarray(function.reduce(x, axis=axes))
        limits = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
        return np.full(without(x.shape, axes), getattr(limits, bound), x.dtype)

    return lambda node: _reduce(node, reduced)


def build_any(node: OperatorNode) -> Run:
    return _reduce(node, lambda x, axes: np.asarray(x.any(axis=axes)))


def build_all(node: OperatorNode) -> Run:
    return _reduce(node, lambda x, axes: np.asarray(x.all(axis=axes)))


def _arg(function: Callable[..., Array]) -> Callable[[OperatorNode], Run]:
    def build(node: OperatorNode) -> Run:
        ifm, axis, output = node.input(0), node.input(1), node.output()

        def run() -> None:
            output.array[...] = function(ifm.array, axis=int(node.scalar(axis)))

        return run

    return build


def build_top_k(node: OperatorNode) -> Run:
    ifm, count, values, indices = node.input(0), node.input(1), node.output(0), node.output(1)

    def run() -> None:
        k = int(node.scalar(count))
        # Larger first; of equal values the smaller index first.
        reverse = np.argsort(ifm.array[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
        order = ifm.shape[-1] - 1 - reverse
        values.array[...] = np.take_along_axis(ifm.array, order, axis=-1)
        indices.array[...] = order

    return run


def build_cumsum(node: OperatorNode) -> Run:
    ifm, axis, output, a = node.input(0), node.input(1), node.output(), node.attributes
    if not ifm.shape:
        raise node.fail("input must have rank 1 or more, got a scalar")

    def run() -> None:
        chosen = normalized_axis(node, int(node.scalar(axis)), len(ifm.shape))
        x = np.flip(ifm.array, chosen) if a.reverse else ifm.array
        total = np.cumsum(x, axis=chosen, dtype=x.dtype)
        if a.exclusive:
            total = np.roll(total, 1, axis=chosen)
            np.moveaxis(total, chosen, 0)[:1] = 0
        output.array[...] = np.flip(total, chosen) if a.reverse else total

    return run


_NUMBERS = "f32 i8 u8 i16 i32 i64"

OPERATORS = (
    Implementation("MEAN", build_mean, for_codes("T i32 -> T", _NUMBERS)),
    Implementation("SUM", build_sum, for_codes("T i32 -> T", "f32 i8 u8 i16 i32 i64 bool")),
    Implementation("REDUCE_PROD", build_product, for_codes("T i32 -> T", "f32 i8 i16 i32 i64 bool")),
    Implementation("REDUCE_MAX", _extremum(np.fmax, "min"), for_codes("T i32 -> T", f"{_NUMBERS} bool")),
    Implementation("REDUCE_MIN", _extremum(np.fmin, "max"), for_codes("T i32 -> T", f"{_NUMBERS} bool")),
    Implementation("REDUCE_ANY", build_any, ("bool i32 -> bool",)),
    Implementation("REDUCE_ALL", build_all, ("bool i32 -> bool",)),
    Implementation("ARG_MAX", _arg(np.argmax), for_codes("T i32|i64 -> i32|i64", "f32 i8 u8 i32 bool")),
    Implementation("ARG_MIN", _arg(np.argmin), for_codes("T i32|i64 -> i32|i64", "f32 i8 u8 i32 bool")),
    Implementation("TOPK_V2", build_top_k, for_codes("T i32|i16 -> T i32|i16", "f32 i8 u8 i16 i32 i64")),
    Implementation("CUMSUM", build_cumsum, for_codes("T i32 -> T", "f32 i32 i64")),
)
