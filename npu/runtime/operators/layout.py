"""Operators that move whole elements to other places: joins, splits, transposes, pads, block rearrangements."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from npu.graph.attributes import MirrorPadMode
from npu.graph.dtype import DType
from npu.graph.shapes.common import pad_amounts
from npu.numerics.arrays import Array
from npu.numerics.scaling import round_away
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import INTEGER_RANGE, ints, normalized_axis, stored_limits
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.types import EVERY_NUMBER, for_codes

_SPLIT = "f32 i8 u8 i16 i32 i64"
_MATRICES = "f32 i8 u8 i16 i32 i64"
_PADDED = "f32 f16 i8 u8 i16 i32 i64 bool"


_LEAST_SCALE, _MOST_RATIO = 1e-30, 1e6
"""Beyond these a uint8 CONCATENATION leaves the 32-bit integers, where LiteRT's result is undefined."""


def build_concatenation(node: OperatorNode) -> Run:
    inputs = [node.input(i) for i in range(len(node.inputs))]
    output = node.output()
    limits = stored_limits(node)
    parts = [_rescaler(node, tensor, output) for tensor in inputs]

    def run() -> None:
        np.concatenate([part() for part in parts], axis=node.attributes.axis, out=output.array)
        if limits is not None:
            np.clip(output.array, *limits, out=output.array)

    return run


def _rescaler(node: OperatorNode, tensor: RuntimeTensor, output: RuntimeTensor) -> Callable[[], Array]:
    """8-bit unsigned inputs of another scale are rescaled, other ones copied; no scale is a scale of 0."""
    is_same = (tensor.scale, tensor.zero_point) == (output.scale, output.zero_point)
    if is_same or tensor.dtype is not DType.UINT8:
        return lambda: tensor.array
    if not _LEAST_SCALE < output.scale < math.inf or not 0 <= tensor.scale < output.scale * _MOST_RATIO:
        raise node.fail(
            f"scales must be above {_LEAST_SCALE} and at most {_MOST_RATIO} apart, got {tensor.scale} and {output.scale}"
        )
    inverse = np.float32(1) / np.float32(output.scale)
    scale = np.float32(tensor.scale) * inverse
    bias = np.float32(-tensor.zero_point) * scale

    def rescale() -> Array:
        real = tensor.array.astype(np.float32) * scale + bias
        result: Array = np.clip(round_away(real) + output.zero_point, *INTEGER_RANGE[output.dtype]).astype(np.uint8)
        return result

    return rescale


def build_pack(node: OperatorNode) -> Run:
    inputs, output = [node.input(i) for i in range(len(node.inputs))], node.output()

    def run() -> None:
        np.stack([tensor.array for tensor in inputs], axis=node.attributes.axis, out=output.array)

    return run


def build_unpack(node: OperatorNode) -> Run:
    ifm = node.input(0)

    def run() -> None:
        for i, output in enumerate(node.outputs):
            output.array[...] = np.take(ifm.array, i, axis=node.attributes.axis)

    return run


def build_split(node: OperatorNode) -> Run:
    return _run_split(node, node.input(1), node.input(0))


def build_split_v(node: OperatorNode) -> Run:
    return _run_split(node, node.input(0), node.input(2))


def _run_split(node: OperatorNode, ifm: RuntimeTensor, axis: RuntimeTensor) -> Run:
    def run() -> None:
        chosen, start = int(node.scalar(axis)), 0
        for output in node.outputs:
            stop = start + output.shape[chosen]
            output.array[...] = np.take(ifm.array, np.arange(start, stop), axis=chosen)
            start = stop

    return run


def build_transpose(node: OperatorNode) -> Run:
    ifm, perm, output = node.input(0), node.input(1), node.output()

    def run() -> None:
        output.array[...] = ifm.array.transpose(ints(perm))

    return run


def _paddings(node: OperatorNode) -> list[tuple[int, int]]:
    return pad_amounts(node.input(0).shape, node.input(1).shape, ints(node.input(1)))


def pad_value(node: OperatorNode) -> int:
    """What PAD pads with. As the reference kernel has it: only quantized types have a zero point, signed ones only behind a
    quantized input."""
    ifm, output = node.input(0), node.output()
    has_zero_point = output.dtype is DType.UINT8 or (output.dtype in (DType.INT8, DType.INT16) and ifm.is_quantized)
    return output.zero_point if has_zero_point else 0


def build_pad(node: OperatorNode) -> Run:
    ifm, value, output = node.input(0), node.optional(2), node.output()
    padding = pad_value(node)

    def run() -> None:
        output.array.fill(padding if value is None else node.scalar(value))
        inner = tuple(slice(a, a + n) for n, (a, _) in zip(ifm.shape, _paddings(node), strict=True))
        output.array[inner] = ifm.array

    return run


def build_mirror_pad(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    mode = "symmetric" if node.attributes.mode is MirrorPadMode.SYMMETRIC else "reflect"

    def run() -> None:
        pairs = _paddings(node)
        output.array[...] = np.pad(ifm.array, pairs, mode) if pairs else ifm.array  # type: ignore[call-overload]

    return run


def build_depth_to_space(node: OperatorNode) -> Run:
    ifm, output, s = node.input(0), node.output(), node.attributes.block_size
    b, h, w, c = ifm.shape

    def run() -> None:
        blocks = ifm.array.reshape(b, h, w, s, s, c // (s * s))
        output.array[...] = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(output.shape)

    return run


def build_space_to_depth(node: OperatorNode) -> Run:
    ifm, output, s = node.input(0), node.output(), node.attributes.block_size
    b, h, w, c = ifm.shape

    def run() -> None:
        blocks = ifm.array.reshape(b, h // s, s, w // s, s, c)
        output.array[...] = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(output.shape)

    return run


def _block_pairs(node: OperatorNode) -> tuple[list[int], list[tuple[int, int]]]:
    amounts = ints(node.input(2))
    return ints(node.input(1)), list(zip(amounts[::2], amounts[1::2], strict=True))


def build_space_to_batch(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def run() -> None:
        block, pads = _block_pairs(node)
        n, rest = len(block), ifm.shape[len(block) + 1 :]
        x = np.pad(ifm.array, [(0, 0), *pads, *[(0, 0)] * len(rest)], constant_values=output.zero_point)
        split = [v for size, s in zip(x.shape[1 : n + 1], block, strict=True) for v in (size // s, s)]
        x = x.reshape(ifm.shape[0], *split, *rest)
        inner = list(range(2, 2 * n + 1, 2))
        outer = list(range(1, 2 * n + 1, 2))
        output.array[...] = x.transpose(*inner, 0, *outer, *range(2 * n + 1, x.ndim)).reshape(output.shape)

    return run


def build_batch_to_space(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def run() -> None:
        block, crops = _block_pairs(node)
        n, rest = len(block), ifm.shape[len(block) + 1 :]
        batches = ifm.shape[0] // int(np.prod(block))
        x = ifm.array.reshape(*block, batches, *ifm.shape[1:])
        order = [n] + [v for i in range(n) for v in (n + 1 + i, i)] + list(range(2 * n + 1, x.ndim))
        full = x.transpose(order).reshape(batches, *(ifm.shape[i + 1] * block[i] for i in range(n)), *rest)
        window = tuple(slice(a, full.shape[i + 1] - b) for i, (a, b) in enumerate(crops))
        output.array[...] = full[(slice(None), *window)]

    return run


def build_reverse(node: OperatorNode) -> Run:
    ifm, axes, output = node.input(0), node.input(1), node.output()

    def run() -> None:
        chosen = {normalized_axis(node, axis, len(ifm.shape)) for axis in ints(axes)}
        output.array[...] = np.flip(ifm.array, tuple(chosen))

    return run


def build_reverse_sequence(node: OperatorNode) -> Run:
    ifm, lengths, output = node.input(0), node.input(1), node.output()
    along, batch = node.attributes.seq_dim, node.attributes.batch_dim

    def run() -> None:
        source, target = (np.moveaxis(tensor.array, (batch, along), (0, 1)) for tensor in (ifm, output))
        target[...] = source
        for row, length in enumerate(ints(lengths)):
            if not 0 <= length <= source.shape[1]:
                raise node.fail(f"lengths must be in [0, {source.shape[1]}], got {length}")
            target[row, :length] = source[row, :length][::-1]

    return run


def build_matrix_diag(node: OperatorNode) -> Run:
    """The diagonal of matrices, of zeros or of what the first input holds beside it."""
    diagonal, output = node.input(len(node.inputs) - 1), node.output()
    places = np.arange(diagonal.shape[-1])

    def run() -> None:
        output.array[...] = node.input(0).array if len(node.inputs) > 1 else 0
        output.array[..., places, places] = diagonal.array

    return run


def build_tile(node: OperatorNode) -> Run:
    ifm, counts, output = node.input(0), node.input(1), node.output()

    def run() -> None:
        output.array[...] = np.tile(ifm.array, ints(counts))

    return run


_SAME = for_codes("T i32|i64 -> T", EVERY_NUMBER)
_BLOCKS = for_codes("T i32 i32 -> T", EVERY_NUMBER)

OPERATORS = (
    Implementation("CONCATENATION", build_concatenation, for_codes("T T* -> T", "f32 f16 i8 u8 i16 i32 u32 i64 bool")),
    Implementation("PACK", build_pack, for_codes("T T* -> T", "f32 i8 u8 i16 i32 u32 i64")),
    Implementation("UNPACK", build_unpack, for_codes("T -> T T*", "f32 f16 i8 u8 i16 i32 bool")),
    Implementation("SPLIT", build_split, for_codes("i32|i64 T -> T T*", _SPLIT)),
    Implementation("SPLIT_V", build_split_v, for_codes("T i32|i64 i32|i64 -> T T*", _SPLIT)),
    Implementation("TRANSPOSE", build_transpose, for_codes("T i32 -> T", EVERY_NUMBER)),
    Implementation("PAD", build_pad, for_codes("T i8|i16|i32|i64 -> T", _PADDED)),
    Implementation("PADV2", build_pad, for_codes("T i8|i16|i32|i64 T -> T", _PADDED)),
    Implementation("MIRROR_PAD", build_mirror_pad, _SAME),
    Implementation("DEPTH_TO_SPACE", build_depth_to_space, for_codes("T -> T", "f32 i8 u8 i32 i64")),
    Implementation("SPACE_TO_DEPTH", build_space_to_depth, for_codes("T -> T", "f32 i8 u8 i32 i64")),
    Implementation("SPACE_TO_BATCH_ND", build_space_to_batch, _BLOCKS),
    Implementation("BATCH_TO_SPACE_ND", build_batch_to_space, _BLOCKS),
    Implementation("REVERSE_V2", build_reverse, for_codes("T i32 -> T", "f32 f16 i8 u8 i16 i32 i64 bool")),
    Implementation("REVERSE_SEQUENCE", build_reverse_sequence, for_codes("T i32|i64 -> T", "f32 u8 i16 i32 i64")),
    Implementation("MATRIX_DIAG", build_matrix_diag, for_codes("T -> T", _MATRICES)),
    Implementation("MATRIX_SET_DIAG", build_matrix_diag, for_codes("T T -> T", _MATRICES)),
    Implementation("TILE", build_tile, for_codes("T i32|i64 -> T", f"{EVERY_NUMBER} str")),
)
