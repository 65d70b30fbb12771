"""Look-ups of rows in tables: EMBEDDING_LOOKUP, EMBEDDING_LOOKUP_SPARSE and HASHTABLE_LOOKUP.

Facts of the TFLite reference kernels of these operators: an 8-bit (or 4-bit) table with float results has zero point 0 and one
scale, or one per row. EMBEDDING_LOOKUP_SPARSE ends a bucket when the next entry belongs to another one; a bucket that comes
back is summed and divided again. HASHTABLE_LOOKUP searches sorted keys by halving.
"""

from __future__ import annotations

import numpy as np

from npu.graph.attributes import CombinerType
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.cell_products import signed
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.types import for_codes


def _check_rows(node: OperatorNode, rows: Array, size: int) -> None:
    if rows.size and (rows.min() < 0 or rows.max() >= size):
        raise node.fail(f"rows must be in [0, {size}), got {int(rows.min())} to {int(rows.max())}")


def _row_scales(node: OperatorNode, table: RuntimeTensor) -> Array:
    """float32 factors of the rows of a quantized table, one or one per row."""
    quantization = table.quantization
    if quantization is None or not table.is_quantized or np.any(quantization.zero_points != 0):
        raise node.fail(f"table '{table.name}' must be quantized with zero point 0 for float results, got another one")
    scales: Array = quantization.scales.astype(np.float32)
    if scales.size > 1 and (quantization.axis != 0 or scales.size != table.shape[0]):
        raise node.fail(f"table must have one scale or one per row, got {scales.size} along dimension {quantization.axis}")
    return scales if scales.size > 1 else np.broadcast_to(scales, (table.shape[0],))


def build_embedding_lookup(node: OperatorNode) -> Run:
    """Rows (n) of a table (rows, ...) to (n, ...)."""
    rows, table, output = node.input(0), node.input(1), node.output()
    scales = None if table.dtype is output.dtype else _row_scales(node, table)

    def run() -> None:
        chosen = rows.array
        _check_rows(node, chosen, table.shape[0])
        if scales is None:
            output.array[...] = table.array[chosen]
            return
        values = (table.array if table.dtype is DType.INT4 else signed(table))[chosen].astype(np.float32)
        output.array[...] = values * scales[chosen].reshape(-1, *[1] * (values.ndim - 1))

    return run


def build_embedding_lookup_sparse(node: OperatorNode) -> Run:
    """Weighted sums of table rows per bucket of a sparse tensor: rows, indices, dense shape, weights and the table."""
    rows, indices, shape, weights, table = (node.input(i) for i in range(5))
    if (len(rows.shape), len(indices.shape), len(shape.shape), len(weights.shape)) != (1, 2, 1, 1) or len(table.shape) < 2:
        raise node.fail("rows, indices, shape and weights must have ranks 1, 2, 1, 1 and the table 2 or more, got others")
    if indices.shape != (rows.shape[0], shape.shape[0]) or weights.shape != rows.shape:
        raise node.fail(
            f"indices must be {[rows.shape[0], shape.shape[0]]} with one weight each,"
            f" got {list(indices.shape)} and {list(weights.shape)}"
        )
    node.set_dynamic()

    def run() -> None:
        dense = tuple(int(n) for n in shape.array[:-1])
        node.set_shape((*dense, *table.shape[1:]))
        _check_rows(node, rows.array, table.shape[0])
        for axis, size in enumerate(dense):
            _check_rows(node, indices.array[:, axis], size)
        buckets = np.zeros(rows.shape[0], np.int64)
        for axis, size in enumerate(dense):
            buckets = buckets * size + indices.array[:, axis]
        node.output().array.fill(0)
        _combine(node, buckets)

    return run


def _combine(node: OperatorNode, buckets: Array) -> None:
    rows, weights, table = node.input(0).array, node.input(3).array, node.input(4).array
    out = node.output().array.reshape(-1, *table.shape[1:])
    start = 0
    for end in range(1, len(buckets) + 1):
        if end < len(buckets) and buckets[end] == buckets[start]:
            continue
        total, squares = np.float32(0), np.float32(0)
        for i in range(start, end):
            squares += weights[i] * weights[i]
            total += weights[i]
            out[buckets[start]] += table[rows[i]] * weights[i]
        combiner = node.attributes.combiner
        if combiner is not CombinerType.SUM:
            out[buckets[start]] /= total if combiner is CombinerType.MEAN else np.sqrt(squares)
        start = end


def build_hashtable_lookup(node: OperatorNode) -> Run:
    """Values (n, ...) of the keys (n) that are asked for, zeros (empty strings) where a key is missing, and hits (n)."""
    asked, keys, values = (node.input(i) for i in range(3))
    if not keys.shape[0] or (values.dtype is DType.STRING and len(values.shape) != 1):
        raise node.fail(f"values must have a row, and strings rank 1, got {list(values.shape)}")

    def run() -> None:
        for i, key in enumerate(asked.array.tolist()):
            place = _search(keys.array, key)
            node.output(1).array[i] = place is not None
            missing = b"" if values.dtype is DType.STRING else 0
            node.output().array[i] = missing if place is None else values.array[place]

    return run


def _search(keys: Array, key: int) -> int | None:
    """Where a key is among sorted keys, by halving from the middle as bsearch does; None if it is not met."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] == key:
            return middle
        if key < keys[middle]:
            high = middle
        else:
            low = middle + 1
    return None


OPERATORS = (
    Implementation(
        "EMBEDDING_LOOKUP",
        build_embedding_lookup,
        (*for_codes("i32 T -> T", "f32 f16 i8 u8 i16 i32 i64 bool"), "i32 i8|u8|i4 -> f32"),
    ),
    Implementation("EMBEDDING_LOOKUP_SPARSE", build_embedding_lookup_sparse, ("i32 i32 i32 f32 f32 -> f32",)),
    Implementation(
        "HASHTABLE_LOOKUP", build_hashtable_lookup, for_codes("i32 i32 T -> T u8", "f32 i8 u8 i16 i32 i64 bool str")
    ),
)
