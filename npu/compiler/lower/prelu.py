"""PRELU: what a value becomes above zero, what below, and which of both; a table where there is one slope for all channels."""

from __future__ import annotations

import numpy as np

from npu.compiler.ir import View
from npu.compiler.lower.activation import lower_function
from npu.compiler.lower.activation_tables import Quantized
from npu.compiler.lower.builder import Builder, Finish
from npu.compiler.lower.geometry import fold_shape
from npu.compiler.lower.memory import broadcast
from npu.compiler.lower.pair_tables import is_pair
from npu.compiler.lower.quantize import register_scale
from npu.graph.graph import Op
from npu.isa.operations import INT16, ElementwiseMode
from npu.layouts import MapShape
from npu.numerics.arrays import Ints, distinct
from npu.numerics.scaling import rule_a
from npu.records import replace


def lower_prelu(builder: Builder, op: Op) -> None:
    """PRELU with constant slopes that are repeated along height and width, or as large as the map; of one slope a table."""
    if is_pair(builder.graph, op, {op.inputs[0]}):
        lower_function(builder, op)
        return
    data, slopes = builder.quantized(op.inputs[0]), builder.quantized(op.inputs[1])
    values = builder.constant_data(op.inputs[1])
    target = builder.quantized(op.outputs[0])
    factors = float(data.scale / target.scale), float(data.scale * slopes.scale / target.scale)
    x = builder.input(op.inputs[0], data.zero_point)
    finish = builder.finish(op)
    shape = fold_shape((1,) * (len(builder.tensor(op.inputs[0]).shape) - values.ndim) + values.shape)
    storage = builder.constant(builder.tensor(op.inputs[1]).name, values.reshape(shape), slopes.element)
    view = View.whole(storage, slopes.zero_point)
    if x.element is not view.element:
        view = _widened(builder, view)
    used = distinct(values).astype(np.int64) - slopes.zero_point
    mode = _choice(used, data, target, factors)
    if mode is None:
        _add_branches(builder, x, view, finish, factors)
    else:
        _choose_branch(builder, x, view, finish, factors, mode)


def _widened(builder: Builder, slopes: View) -> View:
    """Slopes of 8 bits as numbers of 16 without zero point: operands must be of one type."""
    assert slopes.storage.data is not None
    values = slopes.storage.data.astype(np.int16) - np.int16(slopes.zero_point)
    return View.whole(builder.constant(f"{slopes.storage.name} in 16 bits", values, INT16))


def _choice(slopes: Ints, data: Quantized, target: Quantized, factors: tuple[float, float]) -> ElementwiseMode | None:
    """MAX or MIN if that of both branches is the result for every 8-bit value and slope."""
    if data.element.bits > 8:
        return None
    x = (data.values - data.zero_point)[:, None]
    straight, bent = rule_a(x, factors[0]), rule_a(x * slopes, factors[1])
    expected = target.saturated(np.where(x >= 0, straight, bent) + target.zero_point)
    for mode, function in ((ElementwiseMode.MAX, np.maximum), (ElementwiseMode.MIN, np.minimum)):
        if np.array_equal(target.saturated(function(straight, bent) + target.zero_point), expected):
            return mode
    return None


def _choose_branch(
    builder: Builder, x: View, slopes: View, finish: Finish, factors: tuple[float, float], mode: ElementwiseMode
) -> None:
    """The larger or smaller of both branches in the output's quantization; one is the map itself if nothing scales it."""
    zero_point = finish.zero_point - finish.offset
    bent = replace(builder.temporary("slope x", x.shape, x.element), zero_point=zero_point)
    _multiply(builder, x, slopes, bent, factors[1])
    straight = x
    if factors[0] != 1 or x.zero_point != zero_point:
        straight = replace(builder.temporary("x", x.shape, x.element), zero_point=zero_point)
        builder.requantize(x, straight, register_scale(factors[0]))
    ofm = builder.result(finish, is_raw=True)
    _emit(builder, mode, replace(straight, zero_point=0), replace(bent, zero_point=0), ofm, finish)


def _add_branches(builder: Builder, x: View, slopes: View, finish: Finish, factors: tuple[float, float]) -> None:
    """The sum of both branches, of which one is 0 for every value: each fits the type of the result where no table follows."""
    zero_point, element = (finish.zero_point, finish.element) if finish.lut is None else (0, INT16)
    above, below = (replace(builder.temporary(name, x.shape, element), zero_point=zero_point) for name in ("above", "below"))
    builder.requantize(x, above, register_scale(factors[0]), minimum=zero_point)
    negative = replace(builder.temporary("negative", x.shape, x.element), zero_point=0)
    builder.point(x, negative, maximum=x.zero_point)
    _multiply(builder, replace(negative, zero_point=x.zero_point), slopes, below, factors[1])
    _emit(builder, ElementwiseMode.ADD, above, below, builder.result(finish), finish)


def _multiply(builder: Builder, x: View, slopes: View, ofm: View, factor: float) -> None:
    if slopes.shape != x.shape and not _broadcasts(slopes.shape, x.shape):
        slopes = broadcast(builder, slopes, x.shape)
    builder.elementwise(ElementwiseMode.MUL, x, ofm, slopes, scale=register_scale(factor))


def _broadcasts(shape: MapShape, full: MapShape) -> bool:
    return all(size in (1, whole) for size, whole in zip(shape, full, strict=True))


def _emit(builder: Builder, mode: ElementwiseMode, ifm: View, ifm2: View, ofm: View, finish: Finish) -> None:
    builder.elementwise(mode, ifm, ofm, ifm2, minimum=finish.minimum, maximum=finish.maximum, lut=finish.lut)
