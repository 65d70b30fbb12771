"""Operators that move whole elements to other places: joins, splits, transposes, pads, block rearrangements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npu.graph.attributes import MirrorPadMode
from npu.graph.dtype import DType
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import INTEGER_RANGE, normalized_axis, stored_limits
from npu.runtime.tensor import Array, RuntimeTensor
from npu.runtime.types import EVERY_NUMBER, each

_SPLIT = "f32 i8 u8 i16 i32 i64"
_PADDED = "f32 f16 i8 u8 i16 i32 i64 bool"


def build_concatenation(node: OperatorNode) -> Run:
    inputs = [node.input(i) for i in range(len(node.inputs))]
    output = node.output()
    first = inputs[0].shape
    axis = normalized_axis(node, node.attributes.axis, len(first))
    for tensor in inputs[1:]:
        if len(tensor.shape) != len(first) or any(
            a != b for i, (a, b) in enumerate(zip(tensor.shape, first, strict=True)) if i != axis
        ):
            raise node.fail(f"inputs must agree in all dimensions but {axis}, got {list(first)} and {list(tensor.shape)}")
    node.set_shape(tuple(sum(t.shape[axis] for t in inputs) if i == axis else n for i, n in enumerate(first)))
    limits = stored_limits(node)
    parts = [_rescaler(node, tensor, output) for tensor in inputs]

    def run() -> None:
        np.concatenate([part() for part in parts], axis=axis, out=output.array)
        if limits is not None:
            np.clip(output.array, *limits, out=output.array)

    return run


def _rescaler(node: OperatorNode, tensor: RuntimeTensor, output: RuntimeTensor) -> Callable[[], Array]:
    """8-bit unsigned inputs of another scale are rescaled, 16-bit ones copied; the others must have the output's."""
    is_same = tensor.zero_point == output.zero_point and (tensor.scale == output.scale or tensor.dtype is DType.INT16)
    if not tensor.is_quantized or is_same:
        return lambda: tensor.array
    if tensor.dtype is not DType.UINT8:
        raise node.fail(
            f"inputs must have the output's scale {output.scale} and zero point {output.zero_point},"
            f" got {tensor.scale} and {tensor.zero_point}"
        )
    inverse = np.float32(1) / np.float32(output.scale)
    scale = np.float32(tensor.scale) * inverse
    bias = np.float32(-tensor.zero_point) * scale

    def rescale() -> Array:
        real = tensor.array.astype(np.float32) * scale + bias
        rounded = np.copysign(np.floor(np.abs(real) + 0.5), real)
        result: Array = np.clip(rounded + output.zero_point, *INTEGER_RANGE[output.dtype]).astype(np.uint8)
        return result

    return rescale


def build_pack(node: OperatorNode) -> Run:
    inputs, output = [node.input(i) for i in range(len(node.inputs))], node.output()
    shape = inputs[0].shape
    if any(tensor.shape != shape for tensor in inputs):
        raise node.fail(f"inputs must have the same shape, got {[list(t.shape) for t in inputs]}")
    axis = normalized_axis(node, node.attributes.axis, len(shape) + 1)
    node.set_shape((*shape[:axis], len(inputs), *shape[axis:]))

    def run() -> None:
        np.stack([tensor.array for tensor in inputs], axis=axis, out=output.array)

    return run


def build_unpack(node: OperatorNode) -> Run:
    ifm = node.input(0)
    axis = normalized_axis(node, node.attributes.axis, len(ifm.shape))
    if not ifm.shape or ifm.shape[axis] != len(node.outputs):
        raise node.fail(f"dimension {axis} must be the number of outputs {len(node.outputs)}, got {list(ifm.shape)}")
    for position in range(len(node.outputs)):
        node.set_shape(tuple(n for i, n in enumerate(ifm.shape) if i != axis), position)

    def run() -> None:
        for i, output in enumerate(node.outputs):
            output.array[...] = np.take(ifm.array, i, axis=axis)

    return run


def _split(node: OperatorNode, ifm: RuntimeTensor, axis: int, sizes: Sequence[int]) -> int:
    """Set the output shapes of a split and return its axis."""
    if len(sizes) != len(node.outputs) or sum(sizes) != ifm.shape[axis] or min(sizes) < 0:
        raise node.fail(f"sizes of {len(node.outputs)} pieces must add up to {ifm.shape[axis]}, got {list(sizes)}")
    for position, size in enumerate(sizes):
        node.set_shape(tuple(size if i == axis else n for i, n in enumerate(ifm.shape)), position)
    return axis


def _run_split(
    node: OperatorNode, ifm: RuntimeTensor, axis: RuntimeTensor, sizes: Callable[[int], list[int]], *, known: bool
) -> Run:
    def place() -> int:
        chosen = normalized_axis(node, int(node.scalar(axis)), len(ifm.shape))
        return _split(node, ifm, chosen, sizes(chosen))

    if known:
        place()
    else:
        for position in range(len(node.outputs)):
            node.set_dynamic(position)

    def run() -> None:
        chosen = place()
        start = 0
        for output in node.outputs:
            stop = start + output.shape[chosen]
            output.array[...] = np.take(ifm.array, np.arange(start, stop), axis=chosen)
            start = stop

    return run


def build_split(node: OperatorNode) -> Run:
    axis, ifm, count = node.input(0), node.input(1), len(node.outputs)

    def sizes(chosen: int) -> list[int]:
        if ifm.shape[chosen] % count:
            raise node.fail(f"dimension {chosen} must be a multiple of {count}, got {ifm.shape[chosen]}")
        return [ifm.shape[chosen] // count] * count

    return _run_split(node, ifm, axis, sizes, known=axis.is_constant)


def build_split_v(node: OperatorNode) -> Run:
    ifm, lengths, axis = node.input(0), node.input(1), node.input(2)

    def sizes(chosen: int) -> list[int]:
        values = [int(v) for v in lengths.array.reshape(-1)]
        if values.count(-1) == 1:
            values[values.index(-1)] = ifm.shape[chosen] - sum(v for v in values if v != -1)
        return values

    return _run_split(node, ifm, axis, sizes, known=axis.is_constant and lengths.is_constant)


def from_values(node: OperatorNode, positions: Sequence[int], shape_of: Callable[[], tuple[int, ...]]) -> Callable[[], None]:
    """Set the output shape now if the inputs at `positions` are constants, else in every run; returns what a run calls
    first."""
    if all(node.optional(i) is None or node.input(i).is_constant for i in positions):
        node.set_shape(shape_of())
        return lambda: None
    node.set_dynamic()
    return lambda: node.set_shape(shape_of())


def build_transpose(node: OperatorNode) -> Run:
    ifm, perm, output = node.input(0), node.input(1), node.output()

    def order() -> tuple[int, ...]:
        axes = tuple(normalized_axis(node, int(v), len(ifm.shape)) for v in perm.array.reshape(-1))
        if sorted(axes) != list(range(len(ifm.shape))):
            raise node.fail(f"permutation must name every axis of {list(ifm.shape)} once, got {list(axes)}")
        return axes

    place = from_values(node, (1,), lambda: tuple(ifm.shape[i] for i in order()))

    def run() -> None:
        place()
        output.array[...] = ifm.array.transpose(order())

    return run


def _paddings(node: OperatorNode, ifm: RuntimeTensor, paddings: RuntimeTensor) -> list[tuple[int, int]]:
    if paddings.shape != (len(ifm.shape), 2):
        raise node.fail(f"paddings must have shape [{len(ifm.shape)}, 2], got {list(paddings.shape)}")
    pairs = [(int(a), int(b)) for a, b in paddings.array]
    if any(min(pair) < 0 for pair in pairs):
        raise node.fail(f"paddings must not be negative, got {pairs}")
    return pairs


def build_pad(node: OperatorNode) -> Run:
    ifm, paddings, value, output = node.input(0), node.input(1), node.optional(2), node.output()

    def shape_of() -> tuple[int, ...]:
        return tuple(n + a + b for n, (a, b) in zip(ifm.shape, _paddings(node, ifm, paddings), strict=True))

    place = from_values(node, (1,), shape_of)

    def run() -> None:
        place()
        fill = node.scalar(value) if value is not None else output.zero_point
        output.array.fill(fill)
        inner = tuple(slice(a, a + n) for n, (a, _) in zip(ifm.shape, _paddings(node, ifm, paddings), strict=True))
        output.array[inner] = ifm.array

    return run


def build_mirror_pad(node: OperatorNode) -> Run:
    ifm, paddings, output = node.input(0), node.input(1), node.output()
    mode = "symmetric" if node.attributes.mode is MirrorPadMode.SYMMETRIC else "reflect"
    limit = 0 if mode == "symmetric" else 1

    def shape_of() -> tuple[int, ...]:
        pairs = _paddings(node, ifm, paddings)
        if any(max(pair) > n - limit for n, pair in zip(ifm.shape, pairs, strict=True)):
            raise node.fail(f"paddings must be below the input's {list(ifm.shape)}, got {pairs}")
        return tuple(n + a + b for n, (a, b) in zip(ifm.shape, pairs, strict=True))

    place = from_values(node, (1,), shape_of)

    def run() -> None:
        place()
        pairs = _paddings(node, ifm, paddings)
        output.array[...] = np.pad(ifm.array, pairs, mode) if pairs else ifm.array  # type: ignore[call-overload]

    return run


def _block(node: OperatorNode) -> tuple[RuntimeTensor, int]:
    ifm, block = node.input(0), node.attributes.block_size
    if len(ifm.shape) != 4 or block < 1:
        raise node.fail(f"input must have rank 4 and the block be positive, got {list(ifm.shape)} and {block}")
    return ifm, block


def build_depth_to_space(node: OperatorNode) -> Run:
    ifm, s = _block(node)
    b, h, w, c = ifm.shape
    if c % (s * s):
        raise node.fail(f"channels must be a multiple of {s * s}, got {c}")
    output = node.output()
    node.set_shape((b, h * s, w * s, c // (s * s)))

    def run() -> None:
        blocks = ifm.array.reshape(b, h, w, s, s, c // (s * s))
        output.array[...] = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(output.shape)

    return run


def build_space_to_depth(node: OperatorNode) -> Run:
    ifm, s = _block(node)
    b, h, w, c = ifm.shape
    if h % s or w % s:
        raise node.fail(f"height and width must be multiples of {s}, got {h} and {w}")
    output = node.output()
    node.set_shape((b, h // s, w // s, c * s * s))

    def run() -> None:
        blocks = ifm.array.reshape(b, h // s, s, w // s, s, c)
        output.array[...] = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(output.shape)

    return run


def _block_pairs(node: OperatorNode) -> tuple[list[int], list[tuple[int, int]]]:
    ifm, block, pairs = node.input(0), node.input(1), node.input(2)
    if block.shape != (len(block.array.reshape(-1)),) or pairs.shape != (block.elements, 2) or len(ifm.shape) <= block.elements:
        raise node.fail(
            f"block and pairs must be [n] and [n, 2] with n below the rank, got {list(block.shape)} and {list(pairs.shape)}"
        )
    sizes, limits = [int(v) for v in block.array], [(int(a), int(b)) for a, b in pairs.array]
    if min(sizes) < 1 or any(min(pair) < 0 for pair in limits):
        raise node.fail(f"block sizes must be positive and pairs not negative, got {sizes} and {limits}")
    return sizes, limits


def build_space_to_batch(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def shape_of() -> tuple[int, ...]:
        block, pads = _block_pairs(node)
        n = len(block)
        padded = [ifm.shape[i + 1] + sum(pads[i]) for i in range(n)]
        if any(size % s for size, s in zip(padded, block, strict=True)):
            raise node.fail(f"padded sizes must be multiples of the block {block}, got {padded}")
        return (ifm.shape[0] * int(np.prod(block)), *(p // s for p, s in zip(padded, block, strict=True)), *ifm.shape[n + 1 :])

    place = from_values(node, (1, 2), shape_of)

    def run() -> None:
        place()
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

    def shape_of() -> tuple[int, ...]:
        block, crops = _block_pairs(node)
        n, total = len(block), int(np.prod(block))
        if ifm.shape[0] % total:
            raise node.fail(f"batches must be a multiple of the block's {total}, got {ifm.shape[0]}")
        sizes = [ifm.shape[i + 1] * block[i] - sum(crops[i]) for i in range(n)]
        return (ifm.shape[0] // total, *sizes, *ifm.shape[n + 1 :])

    place = from_values(node, (1, 2), shape_of)

    def run() -> None:
        place()
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
    ifm, axis, output = node.input(0), node.input(1), node.output()
    node.set_shape(ifm.shape)

    def run() -> None:
        axes = tuple({normalized_axis(node, int(v), len(ifm.shape)) for v in axis.array.reshape(-1)})
        output.array[...] = np.flip(ifm.array, axes)

    return run


def build_tile(node: OperatorNode) -> Run:
    ifm, counts, output = node.input(0), node.input(1), node.output()

    def shape_of() -> tuple[int, ...]:
        times = [int(v) for v in counts.array.reshape(-1)]
        if len(times) != len(ifm.shape) or min(times, default=0) < 0:
            raise node.fail(f"multiples must be {len(ifm.shape)} numbers, none negative, got {times}")
        return tuple(n * t for n, t in zip(ifm.shape, times, strict=True))

    place = from_values(node, (1,), shape_of)

    def run() -> None:
        place()
        output.array[...] = np.tile(ifm.array, [int(v) for v in counts.array.reshape(-1)])

    return run


_SAME = each("T i32|i64 -> T", EVERY_NUMBER)
_BLOCKS = each("T i32 i32 -> T", EVERY_NUMBER)

OPERATORS = (
    Implementation("CONCATENATION", build_concatenation, each("T T* -> T", "f32 f16 i8 u8 i16 i32 u32 i64 bool")),
    Implementation("PACK", build_pack, each("T T* -> T", "f32 i8 u8 i16 i32 u32 i64")),
    Implementation("UNPACK", build_unpack, each("T -> T T*", "f32 f16 i8 u8 i16 i32 bool")),
    Implementation("SPLIT", build_split, each("i32|i64 T -> T T*", _SPLIT)),
    Implementation("SPLIT_V", build_split_v, each("T i32|i64 i32|i64 -> T T*", _SPLIT)),
    Implementation("TRANSPOSE", build_transpose, each("T i32 -> T", EVERY_NUMBER)),
    Implementation("PAD", build_pad, each("T i8|i16|i32|i64 -> T", _PADDED)),
    Implementation("PADV2", build_pad, each("T i8|i16|i32|i64 T -> T", _PADDED)),
    Implementation("MIRROR_PAD", build_mirror_pad, _SAME),
    Implementation("DEPTH_TO_SPACE", build_depth_to_space, each("T -> T", "f32 i8 u8 i32 i64")),
    Implementation("SPACE_TO_DEPTH", build_space_to_depth, each("T -> T", "f32 i8 u8 i32 i64")),
    Implementation("SPACE_TO_BATCH_ND", build_space_to_batch, _BLOCKS),
    Implementation("BATCH_TO_SPACE_ND", build_batch_to_space, _BLOCKS),
    Implementation("REVERSE_V2", build_reverse, each("T i32 -> T", "f32 f16 i8 u8 i16 i32 i64 bool")),
    Implementation("TILE", build_tile, each("T i32|i64 -> T", f"{EVERY_NUMBER} str")),
)
