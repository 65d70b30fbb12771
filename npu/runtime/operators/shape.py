"""Operators about shapes: RESHAPE and its kin, SHAPE, FILL, RANGE, BROADCAST_TO."""

from __future__ import annotations

import math

import numpy as np

from npu.graph.dtype import DType
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import normalized_axis
from npu.runtime.operators.layout import from_values
from npu.runtime.types import EVERY_NUMBER, each


def _run_reshaped(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def run() -> None:
        output.array[...] = ifm.array.reshape(output.shape)

    return run


def _resolved(node: OperatorNode, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The new shape with its one -1 computed; without the zeros if there are some."""
    elements, sizes, fixed = node.input(0).elements, node.input(0).shape, [n for n in wanted if n != -1]
    if 0 in fixed:
        sizes, fixed = tuple(n for n in sizes if n), [n for n in fixed if n]
    known = math.prod(fixed)
    shape = tuple(math.prod(sizes) // known if n == -1 and known > 0 else n for n in wanted)
    if wanted.count(-1) > 1 or min(shape, default=0) < 0 or math.prod(shape) != elements:
        raise node.fail(f"new shape must hold {elements} elements, got {list(wanted)}")
    return shape


def build_reshape(node: OperatorNode) -> Run:
    target = node.optional(1)
    option = tuple(node.attributes.new_shape)
    if target is None or len(target.shape) != 1 or target.dtype is not DType.INT32:
        # As LiteRT does: other tensors are not read. Old converters write [0] for a scalar.
        node.set_shape(_resolved(node, () if option == (0,) else option))
        return _run_reshaped(node)
    place = from_values(node, (1,), lambda: _resolved(node, tuple(int(v) for v in target.array)))
    copy = _run_reshaped(node)

    def run() -> None:
        place()
        copy()

    return run


def build_squeeze(node: OperatorNode) -> Run:
    shape = node.input(0).shape
    axes = {normalized_axis(node, axis, len(shape)) for axis in node.attributes.squeeze_dims}
    if any(shape[axis] != 1 for axis in axes):
        raise node.fail(f"squeezed dimensions must be 1, got {list(shape)} and axes {sorted(axes)}")
    chosen = axes or {i for i, n in enumerate(shape) if n == 1}
    node.set_shape(tuple(n for i, n in enumerate(shape) if i not in chosen))
    return _run_reshaped(node)


def build_expand_dims(node: OperatorNode) -> Run:
    ifm, axis = node.input(0), node.input(1)

    def shape_of() -> tuple[int, ...]:
        position = normalized_axis(node, int(node.scalar(axis)), len(ifm.shape) + 1)
        return (*ifm.shape[:position], 1, *ifm.shape[position:])

    place = from_values(node, (1,), shape_of)
    copy = _run_reshaped(node)

    def run() -> None:
        place()
        copy()

    return run


def build_shape(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    node.set_shape((len(ifm.shape),))
    # Known as soon as the input's shape is, so that shapes computed from it are known while preparing.
    output.array[...] = ifm.shape

    def run() -> None:
        output.array[...] = ifm.shape

    return run


def build_rank(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    node.set_shape(())

    def run() -> None:
        output.array[...] = len(ifm.shape)

    return run


def build_fill(node: OperatorNode) -> Run:
    dims, value, output = node.input(0), node.input(1), node.output()
    if value.elements != 1:
        raise node.fail(f"value must be a scalar, got {list(value.shape)}")
    place = from_values(node, (0,), lambda: tuple(int(v) for v in dims.array.reshape(-1)))

    def run() -> None:
        place()
        output.array.fill(node.scalar(value))

    return run


def build_range(node: OperatorNode) -> Run:
    start, limit, delta, output = (*(node.input(i) for i in range(3)), node.output())

    def length() -> tuple[int, ...]:
        values = [node.scalar(t) for t in (start, limit, delta)]
        first, last, step = (value.item() for value in values)
        if not (first <= last if step > 0 else step < 0 and first >= last):
            raise node.fail(f"delta must lead from start to limit, got {first}, {last}, {step}")
        if output.dtype is not DType.FLOAT32:
            return (-(-abs(last - first) // abs(step)),)
        with np.errstate(all="ignore"):
            count = float(abs((values[1] - values[0]) / values[2]))  # in single precision, as the reference kernel
        if not math.isfinite(count):
            raise node.fail(f"the number of elements must be finite, got {first}, {last}, {step}")
        return (math.ceil(count),)

    place = from_values(node, (0, 1, 2), length)

    def run() -> None:
        place()
        value, step = node.scalar(start), node.scalar(delta)
        result = output.array
        for i in range(result.size):
            result[i] = value
            value = value + step

    return run


def build_zeros_like(node: OperatorNode) -> Run:
    output = node.output()
    node.set_shape(node.input(0).shape)

    def run() -> None:
        output.array.fill(0)

    return run


def build_broadcast_to(node: OperatorNode) -> Run:
    ifm, target, output = node.input(0), node.input(1), node.output()

    def shape_of() -> tuple[int, ...]:
        shape = tuple(int(v) for v in target.array.reshape(-1))
        tail = shape[len(shape) - len(ifm.shape) :]
        if len(shape) < len(ifm.shape) or any(n not in (1, m) for n, m in zip(ifm.shape, tail, strict=True)):
            raise node.fail(f"input {list(ifm.shape)} must broadcast to the target, got {list(shape)}")
        return shape

    place = from_values(node, (1,), shape_of)

    def run() -> None:
        place()
        output.array[...] = ifm.array

    return run


def build_one_hot(node: OperatorNode) -> Run:
    indices, depth, on, off, output = (*(node.input(i) for i in range(4)), node.output())

    def parameters() -> tuple[int, int]:
        size = int(node.scalar(depth))
        if size < 0:
            raise node.fail(f"depth must not be negative, got {size}")
        axis = node.attributes.axis
        return size, len(indices.shape) if axis == -1 else normalized_axis(node, axis, len(indices.shape) + 1)

    def shape_of() -> tuple[int, ...]:
        size, axis = parameters()
        return (*indices.shape[:axis], size, *indices.shape[axis:])

    place = from_values(node, (1,), shape_of)

    def run() -> None:
        place()
        size, axis = parameters()
        hot = np.moveaxis(indices.array[..., None] == np.arange(size), -1, axis)
        output.array[...] = np.where(hot, node.scalar(on), node.scalar(off))

    return run


_ANY = f"{EVERY_NUMBER} str"

OPERATORS = (
    Implementation("RESHAPE", build_reshape, each("T i32|i64? -> T", _ANY)),
    Implementation("SQUEEZE", build_squeeze, each("T -> T", _ANY)),
    Implementation("EXPAND_DIMS", build_expand_dims, each("T i32|i64 -> T", _ANY)),
    Implementation("SHAPE", build_shape, ("any -> i32|i64",)),
    Implementation("RANK", build_rank, ("any -> i32",)),
    Implementation("FILL", build_fill, each("i32|i64 T -> T", EVERY_NUMBER)),
    Implementation("RANGE", build_range, each("T T T -> T", "f32 i32 i64")),
    Implementation("ZEROS_LIKE", build_zeros_like, each("T -> T", "f32 i32 i64")),
    Implementation("BROADCAST_TO", build_broadcast_to, each("T i32|i64 -> T", EVERY_NUMBER)),
    Implementation("ONE_HOT", build_one_hot, each("i32|i64 i32 T T -> T", "f32 i8 u8 i32 i64 bool")),
)
