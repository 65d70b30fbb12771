"""Element selection: GATHER, GATHER_ND, SELECT, WHERE, SCATTER_ND, SPARSE_TO_DENSE."""

from __future__ import annotations

import math

import numpy as np

from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import normalized_axis
from npu.runtime.types import EVERY_NUMBER, for_codes


def _check_indices(node: OperatorNode, indices: Array, size: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise node.fail(f"indices must be in [0, {size}), got {int(indices.min())} to {int(indices.max())}")


def build_gather(node: OperatorNode) -> Run:
    ifm, indices, output, a = node.input(0), node.input(1), node.output(), node.attributes
    axis = normalized_axis(node, a.axis, len(ifm.shape))
    batch = a.batch_dims + (len(indices.shape) if a.batch_dims < 0 else 0)

    def run() -> None:
        _check_indices(node, indices.array, ifm.shape[axis])
        outer = math.prod(ifm.shape[:batch])
        x, chosen, made = (one.array.reshape(outer, *one.shape[batch:]) for one in (ifm, indices, output))
        for i in range(outer):
            np.take(x[i], chosen[i], axis=axis - batch, out=made[i, ...], mode="clip")

    return run


def build_gather_nd(node: OperatorNode) -> Run:
    ifm, indices, output = node.input(0), node.input(1), node.output()
    depth = indices.shape[-1]

    def run() -> None:
        columns = [indices.array[..., i] for i in range(depth)]
        for column, size in zip(columns, ifm.shape, strict=False):
            _check_indices(node, column, size)
        output.array[...] = ifm.array[tuple(columns)]

    return run


def build_select(node: OperatorNode) -> Run:
    condition, left, right, output = node.input(0), node.input(1), node.input(2), node.output()
    by_row = len(condition.shape) == 1 and len(left.shape) > 1

    def run() -> None:
        chosen = condition.array.reshape(-1, *[1] * (len(left.shape) - 1)) if by_row else condition.array
        output.array[...] = np.where(chosen, left.array, right.array).reshape(output.shape)

    return run


def build_select_v2(node: OperatorNode) -> Run:
    condition, left, right, output = node.input(0), node.input(1), node.input(2), node.output()

    def run() -> None:
        output.array[...] = np.where(condition.array, left.array, right.array).reshape(output.shape)

    return run


def build_where(node: OperatorNode) -> Run:
    condition, output = node.input(0), node.output()
    node.set_dynamic()

    def run() -> None:
        places = np.argwhere(condition.array)
        node.set_shape(places.shape)
        output.array[...] = places

    return run


def build_scatter_nd(node: OperatorNode) -> Run:
    indices, updates, output = node.input(0), node.input(1), node.output()

    def run() -> None:
        columns = tuple(indices.array[..., i] for i in range(indices.shape[-1]))
        for column, size in zip(columns, output.shape, strict=False):
            _check_indices(node, column, size)
        output.array.fill(0)
        np.add.at(output.array, columns, updates.array)

    return run


def build_sparse_to_dense(node: OperatorNode) -> Run:
    indices, values, default, output = node.input(0), node.input(2), node.input(3), node.output()

    def run() -> None:
        rows = indices.array.reshape(-1, len(output.shape))
        output.array.fill(node.scalar(default))
        for axis, size in enumerate(output.shape):
            _check_indices(node, rows[:, axis], size)
        flat = values.array.reshape(-1)
        for i, row in enumerate(rows):
            output.array[tuple(int(v) for v in row)] = flat[i if flat.size > 1 else 0]

    return run


def build_unique(node: OperatorNode) -> Run:
    ifm, output, indices = node.input(0), node.output(), node.output(1)
    if len(ifm.shape) != 1:
        raise node.fail(f"input must have rank 1, got {list(ifm.shape)}")
    node.set_dynamic()
    node.set_shape(ifm.shape, 1)

    def run() -> None:
        values, first, numbers = np.unique(ifm.array, return_index=True, return_inverse=True)
        order = np.argsort(first)
        node.set_shape(values.shape)
        output.array[...] = values[order]
        indices.array[...] = np.argsort(order)[numbers]

    return run


def build_bucketize(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    bounds = np.asarray(node.attributes.boundaries, np.float32)
    if (np.diff(bounds) < 0).any():
        raise node.fail("boundaries must be sorted")

    def run() -> None:
        output.array[...] = np.searchsorted(bounds, ifm.array, side="right")

    return run


_GATHERED = "f32 f16 i8 u8 i16 i32 i64 bool"

OPERATORS = (
    Implementation("GATHER", build_gather, for_codes("T i16|i32|i64 -> T", f"{_GATHERED} str")),
    Implementation("GATHER_ND", build_gather_nd, for_codes("T i16|i32|i64 -> T", f"{_GATHERED} str")),
    Implementation("SELECT", build_select, for_codes("bool T T -> T", EVERY_NUMBER)),
    Implementation("SELECT_V2", build_select_v2, for_codes("bool T T -> T", EVERY_NUMBER)),
    Implementation("WHERE", build_where, ("f32|i8|u8|i32|u32|i64|bool -> i64",)),
    Implementation("UNIQUE", build_unique, for_codes("T -> T i32|i64", "f32 i8 u8 i16 i32 i64")),
    Implementation("BUCKETIZE", build_bucketize, for_codes("T -> i32", "f32 f64 i32 i64")),
    Implementation("SCATTER_ND", build_scatter_nd, for_codes("i32 T i32 -> T", "f32 i8 u8 i32 i64 bool")),
    Implementation("SPARSE_TO_DENSE", build_sparse_to_dense, for_codes("i32|i64 i32|i64 T T -> T", "f32 i8 u8 i32 i64")),
)
