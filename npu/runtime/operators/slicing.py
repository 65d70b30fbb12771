"""SLICE, STRIDED_SLICE and DYNAMIC_UPDATE_SLICE."""

from __future__ import annotations

import numpy as np

from npu.graph.attributes import StridedSliceOptions
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.layout import from_values
from npu.runtime.tensor import Array, RuntimeTensor
from npu.runtime.types import EVERY_NUMBER, each


def _ints(tensor: RuntimeTensor) -> list[int]:
    return [int(v) for v in tensor.array.reshape(-1)]


def build_slice(node: OperatorNode) -> Run:
    ifm, begin, size, output = node.input(0), node.input(1), node.input(2), node.output()

    def bounds() -> list[tuple[int, int]]:
        starts, sizes = _ints(begin), _ints(size)
        if len(starts) != len(ifm.shape) or len(sizes) != len(ifm.shape):
            raise node.fail(f"begin and size must have {len(ifm.shape)} entries, got {starts} and {sizes}")
        stops = [n if s == -1 else b + s for n, b, s in zip(ifm.shape, starts, sizes, strict=True)]
        if any(not 0 <= b <= e <= n for b, e, n in zip(starts, stops, ifm.shape, strict=True)):
            raise node.fail(f"slice must lie inside {list(ifm.shape)}, got begin {starts} and size {sizes}")
        return list(zip(starts, stops, strict=True))

    place = from_values(node, (1, 2), lambda: tuple(e - b for b, e in bounds()))

    def run() -> None:
        place()
        output.array[...] = ifm.array[tuple(slice(b, e) for b, e in bounds())]

    return run


def _index(node: OperatorNode) -> tuple[slice | int | None, ...]:
    """The numpy index that a STRIDED_SLICE means."""
    ifm, a = node.input(0), node.attributes
    begins, ends, strides = _ints(node.input(1)), _ints(node.input(2)), _ints(node.input(3))
    if not len(begins) == len(ends) == len(strides):
        raise node.fail(f"begin, end and strides must be equally long, got {len(begins)}, {len(ends)}, {len(strides)}")
    new_axes = sum(1 for i in range(len(begins)) if a.new_axis_mask >> i & 1 and not a.ellipsis_mask >> i & 1)
    index: list[slice | int | None] = []
    axis = 0
    for i in range(len(begins)):
        if a.ellipsis_mask >> i & 1:
            remaining = sum(1 for j in range(i + 1, len(begins)) if not a.new_axis_mask >> j & 1)
            skipped = len(ifm.shape) - axis - remaining
            index += [slice(None)] * skipped
            axis += skipped
        elif a.new_axis_mask >> i & 1:
            index.append(None)
        else:
            if axis >= len(ifm.shape):
                raise node.fail(f"begin must have at most {len(ifm.shape) + new_axes} entries, got {len(begins)}")
            index.append(_entry(node, a, i, ifm.shape[axis], (begins[i], ends[i], strides[i])))
            axis += 1
    return tuple(index)


def _entry(node: OperatorNode, a: StridedSliceOptions, i: int, size: int, entry: tuple[int, int, int]) -> slice | int:
    begin, end, stride = entry
    if stride == 0:
        raise node.fail("strides must not be 0")
    given = slice(None if a.begin_mask >> i & 1 else begin, None if a.end_mask >> i & 1 else end, stride)
    start, stop, _ = given.indices(size)
    if a.shrink_axis_mask >> i & 1:
        if not 0 <= start < size:
            raise node.fail(f"begin {i} must be in [{-size}, {size}) where the axis is removed, got {begin}")
        return start
    if a.offset:  # from where the slice starts, whatever the mask of ends says
        stop = min(max(start + end, -1), size)
    if not range(start, stop, stride):
        return slice(0, 0)
    return slice(start, stop if stop >= 0 else None, stride)


def build_strided_slice(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    place = from_values(node, (1, 2, 3), lambda: _zeros(ifm)[_index(node)].shape)

    def run() -> None:
        place()
        output.array[...] = ifm.array[_index(node)]

    return run


def _zeros(tensor: RuntimeTensor) -> Array:
    """An array of the tensor's shape that costs no memory."""
    return np.broadcast_to(np.int8(0), tensor.shape)


def build_dynamic_update_slice(node: OperatorNode) -> Run:
    ifm, update, start, output = node.input(0), node.input(1), node.input(2), node.output()
    if len(update.shape) != len(ifm.shape) or any(u > n for u, n in zip(update.shape, ifm.shape, strict=True)):
        raise node.fail(f"update must fit into {list(ifm.shape)}, got {list(update.shape)}")
    node.set_shape(ifm.shape)

    def run() -> None:
        output.array[...] = ifm.array
        if start.elements != len(ifm.shape):
            raise node.fail(f"start must have {len(ifm.shape)} entries, got {list(start.shape)}")
        first = [min(max(s, 0), n - u) for s, n, u in zip(_ints(start), ifm.shape, update.shape, strict=True)]
        output.array[tuple(slice(f, f + u) for f, u in zip(first, update.shape, strict=True))] = update.array

    return run


_ANY = f"{EVERY_NUMBER} str"

OPERATORS = (
    Implementation("SLICE", build_slice, (*each("T i32 i32 -> T", _ANY), *each("T i64 i64 -> T", _ANY))),
    Implementation("STRIDED_SLICE", build_strided_slice, each("T i32 i32 i32 -> T", _ANY)),
    Implementation("DYNAMIC_UPDATE_SLICE", build_dynamic_update_slice, each("T T i32|i64 -> T", EVERY_NUMBER)),
)
