"""BATCH_MATMUL: two computed matrices meet in the MAC array where it takes one as weights, else in products and their sums.

In sums a row of one matrix times all rows of the other, transposed, is one multiplication; sums over the channels of the
products make a row of the result, or a column of it, whichever are fewer. Pairs of small matrices are multiplied together, as
the heads of an attention are. A constant matrix is the weights of a convolution.
"""

from __future__ import annotations

import math

import numpy as np

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder, Finish
from npu.compiler.lower.convolution import accumulator_rounding, make_weights, weight_values
from npu.compiler.lower.geometry import crop
from npu.compiler.lower.quantize import register_scale, short_scale
from npu.compiler.lower.transpose import permute
from npu.graph.attributes import BatchMatMulOptions
from npu.graph.graph import ABSENT, Op, Tensor
from npu.graph.ops import is_matrix_of_weights
from npu.graph.permutation import moved_axes
from npu.isa.operations import INT8, INT32, ElementwiseMode, PoolingMode, Rounding, Scale
from npu.records import replace

_MANY_PRODUCTS = 1 << 12
"""In one operation: its latencies are few of its cycles then."""


def lower_batch_matmul(builder: Builder, op: Op) -> None:
    """Matrices (batches, rows, inner) and (batches, inner, columns); either may be stored transposed."""
    options = op.attributes
    assert isinstance(options, BatchMatMulOptions)
    finish = builder.finish(op)
    factor = math.prod(_scale(builder.tensor(tensor)) for tensor in op.inputs[:2]) / float(builder.scale(op.outputs[0]))
    left = _matrix(builder, op.inputs[0], is_transposed=options.adj_x)
    if is_matrix_of_weights(op, 1, builder.tensor(op.inputs[1])):
        _by_weights(builder, op, left, factor, finish, is_stored_by_rows=not options.adj_y)
        return
    columns = _matrix(builder, op.inputs[1], is_transposed=not options.adj_y)
    ofm = builder.result(finish)
    ofm = ofm if ofm.is_whole else replace(builder.temporary("product", ofm.shape, ofm.element), zero_point=ofm.zero_point)
    if left.element.bits != columns.element.bits:
        raise builder.error(op, f"maps that are multiplied must be of one type, got {left.element} and {columns.element}")
    if builder.family.multiplies_maps:
        _in_array(builder, left, columns, ofm, op, factor, finish)
    elif columns.element.bits == INT8.bits:
        _in_sums(builder, left, columns, ofm, op, register_scale(factor), finish)
    else:
        raise builder.error(op, f"products of two maps must be of 8 bits, got {columns.element}")
    target = builder.result(finish)
    if ofm.storage is not target.storage:
        builder.copy(ofm, target)


def _scale(tensor: Tensor) -> float:
    """The scale of an operand; LiteRT's kernel takes 0 for one that has several (docs/operator-types.md)."""
    assert tensor.quantization is not None
    return float(tensor.quantization.scales[0]) if tensor.quantization.scales.size == 1 else 0.0


def _matrix(builder: Builder, tensor: int, *, is_transposed: bool) -> View:
    """The matrices in a tensor one below the other, transposed if that is asked for."""
    view = builder.input(tensor, builder.zero_point(tensor))
    if not is_transposed:
        return view
    batches, rows, columns = view.shape
    if len(moved_axes(view.shape, (0, 2, 1))) < 2:
        return builder.reshaped(view, (batches, columns, rows))
    target = builder.temporary("transposed", (batches, columns, rows), view.element)
    permute(builder, replace(view, zero_point=0), target, view.shape, (0, 2, 1))
    return replace(target, zero_point=view.zero_point)


def _pairs(builder: Builder, op: Op) -> list[tuple[int, int]]:
    """Which matrices are multiplied, in the order of the results: leading dimensions are broadcast."""
    leading = [builder.tensor(tensor).shape[:-2] for tensor in op.inputs[:2]]
    whole = builder.tensor(op.outputs[0]).shape[:-2]
    numbers = [np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), whole).reshape(-1) for shape in leading]
    return list(zip(*(row.tolist() for row in numbers), strict=True))


def _by_weights(builder: Builder, op: Op, left: View, factor: float, finish: Finish, *, is_stored_by_rows: bool) -> None:
    values = weight_values(builder, op, op.inputs[1])
    values = values.reshape(values.shape[-2:])
    values = values.T if is_stored_by_rows else values
    rounding = accumulator_rounding(builder, op.inputs[0], ABSENT)
    weights = make_weights(builder, op, values.reshape(len(values), 1, 1, -1), ABSENT, [factor], rounding)
    builder.convolve(left, builder.result(finish), weights, finish=finish, rounding=rounding)


def _in_array(builder: Builder, left: View, columns: View, ofm: View, op: Op, factor: float, finish: Finish) -> None:
    """All pairs, one after the other: the rows of one matrix are elements, the columns of the other one their channels."""
    (_, height, inner), width, pairs = left.shape, columns.shape[1], _pairs(builder, op)
    result = builder.reshaped(ofm, (len(pairs), height, width))
    rounding = accumulator_rounding(builder, op.inputs[0], ABSENT)
    scale = register_scale(factor) if rounding is Rounding.DOUBLE else short_scale(factor)
    for number, (first, second) in enumerate(pairs):
        ifm, ifm2 = crop(left, (first, 0, 0), (1, height, inner)), crop(columns, (second, 0, 0), (1, width, inner))
        builder.product(ifm, ifm2, crop(result, (number, 0, 0), (1, height, width)), finish, scale, rounding)


def _in_sums(builder: Builder, left: View, columns: View, ofm: View, op: Op, scale: Scale, finish: Finish) -> None:
    """All pairs: result (y, x) of a pair is the sum of the products of row y of one matrix and column x of the other."""
    (_, height, inner), width = left.shape, columns.shape[1]
    by_rows = height <= width
    single, whole, pitch, apart = (left, columns, 1, width) if by_rows else (columns, left, width, 1)
    length, pairs = whole.shape[1], _pairs(builder, op)
    most = _most_matrices(builder, length * inner) if all(first == second for first, second in pairs) else 1
    for number in range(0, len(pairs), most):
        count = min(most, len(pairs) - number)
        one, other = pairs[number] if by_rows else reversed(pairs[number])
        operand = crop(whole, (other, 0, 0), (count, length, inner))
        for index in range(single.shape[1]):
            products = builder.temporary("products", operand.shape, INT32)
            builder.elementwise(ElementwiseMode.MUL, operand, products, crop(single, (one, index, 0), (count, 1, inner)))
            offset = 0, 0, number * height * width + index * apart
            target = replace(ofm, offset=offset, shape=(count, length, 1), pitch=(height * width, pitch))
            builder.pool(products, target, PoolingMode.REDUCE_SUM, finish=finish, scale=scale, rounding=Rounding.DOUBLE)


def _most_matrices(builder: Builder, elements: int) -> int:
    """How many matrices of so many elements are multiplied at a time: as many as have room and are not many products."""
    return max(1, min(builder.room // (elements * INT32.bytes), _MANY_PRODUCTS // elements))
