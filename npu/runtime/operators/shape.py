"""Operators about shapes: RESHAPE and its kin, SHAPE, FILL, RANGE, BROADCAST_TO."""

from __future__ import annotations

import math

import numpy as np

from npu.graph.dtype import DType
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import from_values, ints
from npu.runtime.types import EVERY_NUMBER, for_codes


def build_reshape(node: OperatorNode) -> Run:
    """The same elements in the output's shape: RESHAPE, SQUEEZE, EXPAND_DIMS."""
    ifm, output = node.input(0), node.output()

    def run() -> None:
        output.array[...] = ifm.array.reshape(output.shape)

    return run


def build_shape(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    # Known as soon as the input's shape is, so that shapes computed from it are known while preparing.
    output.array[...] = ifm.shape

    def run() -> None:
        output.array[...] = ifm.shape

    return run


def build_rank(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def run() -> None:
        output.array[...] = len(ifm.shape)

    return run


def build_fill(node: OperatorNode) -> Run:
    value, output = node.input(1), node.output()

    def run() -> None:
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

    def run() -> None:
        output.array.fill(0)

    return run


def build_broadcast_to(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def run() -> None:
        output.array[...] = ifm.array

    return run


def build_broadcast_args(node: OperatorNode) -> Run:
    left, right, output = node.input(0), node.input(1), node.output()

    def run() -> None:
        try:
            output.array[...] = np.broadcast_shapes(tuple(ints(left)), tuple(ints(right)))
        except ValueError:
            raise node.fail(f"shapes must be broadcastable, got {ints(left)} and {ints(right)}") from None

    return run


def build_one_hot(node: OperatorNode) -> Run:
    indices, depth, on, off, output = (*(node.input(i) for i in range(4)), node.output())

    def run() -> None:
        hot = np.moveaxis(indices.array[..., None] == np.arange(int(node.scalar(depth))), -1, node.attributes.axis)
        output.array[...] = np.where(hot, node.scalar(on), node.scalar(off))

    return run


_ANY = f"{EVERY_NUMBER} str"

OPERATORS = (
    Implementation("RESHAPE", build_reshape, for_codes("T i32|i64? -> T", _ANY)),
    Implementation("SQUEEZE", build_reshape, for_codes("T -> T", _ANY)),
    Implementation("EXPAND_DIMS", build_reshape, for_codes("T i32|i64 -> T", _ANY)),
    Implementation("SHAPE", build_shape, ("any -> i32|i64",)),
    Implementation("RANK", build_rank, ("any -> i32",)),
    Implementation("FILL", build_fill, for_codes("i32|i64 T -> T", EVERY_NUMBER)),
    Implementation("RANGE", build_range, for_codes("T T T -> T", "f32 i32 i64")),
    Implementation("ZEROS_LIKE", build_zeros_like, for_codes("T -> T", "f32 i32 i64")),
    Implementation("BROADCAST_TO", build_broadcast_to, for_codes("T i32|i64 -> T", EVERY_NUMBER)),
    Implementation("BROADCAST_ARGS", build_broadcast_args, for_codes("T T -> T", "i32 i64")),
    Implementation("ONE_HOT", build_one_hot, for_codes("i32|i64 i32 T T -> T", "f32 i8 u8 i32 i64 bool")),
)
