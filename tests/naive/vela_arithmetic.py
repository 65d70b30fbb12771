"""What Vela 5.2's streams mean where that is not LiteRT's result: one formula per operator, in Python integers and floats.

Each takes the model and its inputs and gives the first output. Nothing here reads a stream or uses the simulator: the
formulas say what the compiler's choice of operations, clamps and tables amounts to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from npu.graph.attributes import (
    DepthwiseConv2DOptions,
    FusedActivation,
    LeakyReluOptions,
    ReducerOptions,
    UnidirectionalSequenceLSTMOptions,
)
from npu.graph.graph import Graph, Model, Tensor
from npu.numerics.arrays import Array
from npu.numerics.sampled import softmax_exponentials, softmax_reciprocals
from npu.tflite.writer import write_model

from tests.naive.lstm import STREAM, Cell
from tests.naive.operations import sigmoid, tanh
from tests.support.compatibility import reference

Formula = Callable[[Model, Sequence[Array]], Array]
_INT32_MAX = (1 << 31) - 1


def _scale(tensor: Tensor) -> np.float32:
    assert tensor.quantization is not None
    return np.float32(tensor.quantization.scales[0])


def _zero(tensor: Tensor) -> int:
    assert tensor.quantization is not None
    return int(tensor.quantization.zero_points[0])


def _ends(graph: Graph) -> tuple[Tensor, Tensor]:
    return graph.tensors[graph.ops[0].inputs[0]], graph.tensors[graph.ops[0].outputs[0]]


def negated(model: Model, inputs: Sequence[Array]) -> Array:
    """NEG: 0 - (x - zero point in) + zero point out, clamped; the scales play no part."""
    ifm, ofm = _ends(model.graphs[0])
    limits = np.iinfo(inputs[0].dtype)
    values = -(inputs[0].astype(np.int64) - _zero(ifm)) + _zero(ofm)
    return np.clip(values, limits.min, limits.max).astype(inputs[0].dtype)


def exponential(model: Model, inputs: Sequence[Array]) -> Array:
    """EXP, 8 bits: a table of round(exp(x) / scale) + zero point; what exceeds an int32 has become the lowest value."""
    ifm, ofm = _ends(model.graphs[0])
    limits = np.iinfo(inputs[0].dtype)
    out = np.zeros(inputs[0].shape, inputs[0].dtype)
    for index in np.ndindex(out.shape):
        real = math.exp(float(_scale(ifm)) * (int(inputs[0][index]) - _zero(ifm))) / float(_scale(ofm))
        value = round(real) + _zero(ofm)
        out[index] = limits.min if value > _INT32_MAX else min(value, limits.max)
    return out


def transposed_as_int8(model: Model, inputs: Sequence[Array]) -> Array:
    """TRANSPOSE uint8: moved as int8 under the clamp [0, 255] of uint8, so 128 and more become 0; kept if no element moves."""
    graph = model.graphs[0]
    data = graph.tensors[graph.ops[0].inputs[1]].data
    assert data is not None
    axes, shape = [int(axis) for axis in data], inputs[0].shape
    moved = np.transpose(inputs[0], axes)
    long_axes = [axis for axis in axes if shape[axis] > 1]
    return moved if long_axes == sorted(long_axes) else np.where(moved > 127, 0, moved).astype(np.uint8)


def depthwise_in_int8_copies(model: Model, inputs: Sequence[Array]) -> Array:
    """DEPTHWISE_CONV_2D uint8, several inputs and a multiplier above 1: the activation's limits meet int8 copies of the result.

    The convolution itself clamps to [0, 255]; then its channels are put in order by int8 copies, the last of which has the
    activation's limits (the upper one at most 127). A lower limit above the upper one gives the upper one.
    """
    graph = model.graphs[0]
    op, (ifm, ofm) = graph.ops[0], _ends(graph)
    options = op.attributes
    assert isinstance(options, DepthwiseConv2DOptions)
    activation = options.fused_activation_function
    if options.depth_multiplier == 1 or ifm.shape[3] == 1 or activation is FusedActivation.NONE:
        return reference(write_model(model), list(inputs))[0]
    plain = replace(op, attributes=replace(options, fused_activation_function=FusedActivation.NONE))
    values = reference(write_model(replace(model, graphs=(replace(graph, ops=(plain,)),))), list(inputs))[0]
    low, high = {
        FusedActivation.RELU: (0.0, math.inf), FusedActivation.RELU6: (0.0, 6.0), FusedActivation.RELU_N1_TO_1: (-1.0, 1.0),
    }[activation]  # fmt: skip
    lowest = max(0, _zero(ofm) + round(low / float(_scale(ofm))))
    highest = min(127, _zero(ofm) + round(high / float(_scale(ofm)))) if high < math.inf else 127
    return np.minimum(np.maximum(values.view(np.int8).astype(np.int64), lowest), highest).astype(np.uint8)


def saturated_product(_model: Model, inputs: Sequence[Array]) -> Array:
    """MUL int32: 32-bit products saturate where C's wrap."""
    limits = np.iinfo(np.int32)
    return np.clip(inputs[0].astype(np.int64) * inputs[1].astype(np.int64), limits.min, limits.max).astype(np.int32)


def _multiplier(ratio: float) -> tuple[int, int]:
    mantissa, exponent = math.frexp(ratio)
    return round(mantissa * (1 << 31)), 31 - exponent


def _rescaled(value: int, multiplier: tuple[int, int]) -> int:
    """value * multiplier, rounded twice as TFLite's 8-bit kernels do if the shift exceeds 31."""
    product, shift = value * multiplier[0], multiplier[1]
    if shift > 31:
        product = (product + (1 << 30)) >> 31
        rounded = (abs(product) + (1 << shift - 32)) >> shift - 31
        return rounded if product >= 0 else -rounded
    return (product + (1 << shift - 1)) >> shift if shift > 0 else product << -shift


def _scaled(value: int, multiplier: tuple[int, int]) -> int:
    """`_rescaled`, saturated to int16."""
    return max(-32768, min(32767, _rescaled(value, multiplier)))


def clamped_product(model: Model, inputs: Sequence[Array]) -> Array:
    """MUL of 8 and 16 bits: the product times the ratio of the scales, however large, under the limits of the activation."""
    graph = model.graphs[0]
    op = graph.ops[0]
    first, second, ofm = (graph.tensors[index] for index in (*op.inputs, *op.outputs))
    multiplier = _multiplier(float(_scale(first)) * float(_scale(second)) / float(_scale(ofm)))
    low, high = _limits(ofm, op.attributes.fused_activation_function)
    x, y = (values.astype(np.int64) - _zero(tensor) for values, tensor in zip(inputs, (first, second), strict=True))
    products = (_rescaled(product, multiplier) + _zero(ofm) for product in (x * y).ravel().tolist())
    return np.array([max(low, min(high, value)) for value in products], inputs[0].dtype).reshape((x * y).shape)


def _limits(ofm: Tensor, fused: FusedActivation) -> tuple[int, int]:
    """What an output may be: its type's range, and that of a fused RELU."""
    limits = np.iinfo(ofm.dtype.numpy)
    reals = {FusedActivation.RELU: (0, math.inf), FusedActivation.RELU6: (0, 6), FusedActivation.RELU_N1_TO_1: (-1, 1)}
    steps = [real / float(_scale(ofm)) for real in reals.get(fused, (-math.inf, math.inf))]
    low, high = (step if math.isinf(step) else _zero(ofm) + math.copysign(math.floor(abs(step) + 0.5), step) for step in steps)
    return int(max(low, limits.min)), int(min(high, limits.max))


def logistic_int16(model: Model, inputs: Sequence[Array]) -> Array:
    """LOGISTIC int16: the hardware's function of a number with 12 fraction bits times 3, however large that is."""
    return _of_every(inputs[0], sigmoid, _fraction_bits(model))


def tanh_int16(model: Model, inputs: Sequence[Array]) -> Array:
    """TANH int16: as LOGISTIC."""
    return _of_every(inputs[0], tanh, _fraction_bits(model))


def softmax_int16(model: Model, inputs: Sequence[Array]) -> Array:
    """SOFTMAX int16: TFLite's tables and roundings; a distance from the maximum beyond the table takes its last entry.

    LiteRT shifts the distance in 32 bits, and changes its sign for input scales above 5.
    """
    multiplier = _multiplier(float(_scale(_ends(model.graphs[0])[0])) * model.graphs[0].ops[0].attributes.beta * 65535 / 10)
    exponentials = softmax_exponentials().tolist()
    reciprocals = softmax_reciprocals().tolist()
    rows = inputs[0].reshape(-1, inputs[0].shape[-1]).tolist()
    made = [_shares([_rescaled(x - max(row), multiplier) for x in row], exponentials, reciprocals) for row in rows]
    return np.array(made, np.int16).reshape(inputs[0].shape)


def _shares(distances: Sequence[int], exponentials: Sequence[int], reciprocals: Sequence[int]) -> list[int]:
    """Each exponential as a share of their sum, with 15 fraction bits."""
    powers = [_looked_up(distance + 32767, exponentials) for distance in distances]
    total = sum(powers)
    free = 32 - total.bit_length()
    inverse = _looked_up(((total << free - 1) + (1 << 13) >> 14) - 98304, reciprocals)
    return [max(0, min(32767, (power * inverse + (1 << 30 - free)) >> 31 - free)) for power in powers]


def _looked_up(value: int, table: Sequence[int]) -> int:
    """Between two of 513 entries."""
    place, fraction = divmod(max(-32768, min(32767, value)) + 32768, 128)
    return table[place] + ((table[place + 1] - table[place]) * fraction + 64 >> 7)


def relu_int16(model: Model, inputs: Sequence[Array]) -> Array:
    """RELU int16: the input times the ratio of the scales, however large, and no number below 0."""
    return _of_every(inputs[0], lambda value: max(0, min(32767, value)), _ratio(model))


def absolute_int16(model: Model, inputs: Sequence[Array]) -> Array:
    """ABS int16: the magnitude times the ratio of the scales in double precision."""
    return _of_every(abs(inputs[0].astype(np.int32)), lambda value: min(32767, value), _ratio(model))


def _fraction_bits(model: Model) -> tuple[int, int]:
    return _multiplier(float(_scale(_ends(model.graphs[0])[0])) * 0x3000)


def _ratio(model: Model) -> tuple[int, int]:
    ifm, ofm = _ends(model.graphs[0])
    return _multiplier(float(_scale(ifm)) / float(_scale(ofm)))


def _of_every(values: Array, function: Callable[[int], int], multiplier: tuple[int, int]) -> Array:
    """A function of every rescaled value, as int16."""
    made = [function(_rescaled(value, multiplier)) for value in values.ravel().tolist()]
    return np.array(made, np.int16).reshape(values.shape)


def prelu_int16(model: Model, inputs: Sequence[Array]) -> Array:
    """PRELU int16: max(x, slope * x), or max(x, 0) + slope * min(x, 0) with a slope above 1 or a single negative one.

    Every product is rounded and saturated by itself, with multipliers of 24 significant bits. A single slope counts from its
    zero point twice.
    """
    graph = model.graphs[0]
    (ifm, ofm), slope = _ends(graph), graph.tensors[graph.ops[0].inputs[1]]
    assert slope.data is not None
    positive = _multiplier(float(np.float32(_scale(ifm) / _scale(ofm))))
    negative = _multiplier(float(np.float32(float(_scale(ifm) * _scale(slope)) / float(_scale(ofm)))))
    factors = slope.data.astype(np.int64) - _zero(slope)
    is_sum = (factors.size == 1 and factors.max() < 0) or float(factors.max()) * float(_scale(slope)) > 1
    if factors.size == 1:
        factors -= _zero(slope)  # the scalar of the stream counts from the zero point, and has that zero point beside it
    slopes, out = np.broadcast_to(factors, inputs[0].shape), np.zeros(inputs[0].shape, np.int16)
    for index in np.ndindex(out.shape):
        x, a = int(inputs[0][index]), int(slopes[index])
        if is_sum:
            total = _scaled(min(x, 0) * a, negative) + max(0, _scaled(x, positive))
            out[index] = max(-32768, min(32767, total))
        else:
            out[index] = max(_scaled(x * a, negative), _scaled(x, positive))
    return out


def leaky_relu_negative(model: Model, inputs: Sequence[Array]) -> Array:
    """LEAKY_RELU with a negative slope: -slope * -x is a positive product, whose ties go up; LiteRT's go down."""
    graph = model.graphs[0]
    ifm, ofm = _ends(graph)
    options = graph.ops[0].attributes
    assert isinstance(options, LeakyReluOptions)
    limits = np.iinfo(inputs[0].dtype)
    ratio = float(_scale(ifm)) / float(_scale(ofm))
    slope = float(_scale(ifm) * np.float32(-options.alpha)) / float(_scale(ofm))
    positive, negative = _multiplier(ratio), _multiplier(float(np.float32(slope)))
    out = np.zeros(inputs[0].shape, inputs[0].dtype)
    for index in np.ndindex(out.shape):
        x = int(inputs[0][index]) - _zero(ifm)
        value = _scaled(x, positive) if x >= 0 else _scaled(-x, negative)
        out[index] = max(limits.min, min(limits.max, value + _zero(ofm)))
    return out


def relu_n1_or_0_to_1_int16(model: Model, inputs: Sequence[Array]) -> Array:
    """RELU_N1_TO_1 and RELU_0_TO_1 int16, which LiteRT lacks: rescaled, then clamped to the two limits."""
    graph = model.graphs[0]
    ifm, ofm = _ends(graph)
    multiplier = _multiplier(float(_scale(ifm)) / float(_scale(ofm)))
    low = -1.0 if graph.ops[0].kind == "RELU_N1_TO_1" else 0.0
    limits = [max(-32768, min(32767, round(limit / float(_scale(ofm))))) for limit in (low, 1.0)]
    values = [max(limits[0], min(limits[1], _scaled(int(x), multiplier))) for x in inputs[0].reshape(-1)]
    return np.array(values, np.int16).reshape(inputs[0].shape)


def reduced_axes(model: Model) -> list[int]:
    """Axes of a reduction, in the order of its file, not negative."""
    graph = model.graphs[0]
    data, rank = graph.tensors[graph.ops[0].inputs[1]].data, len(graph.tensors[graph.ops[0].inputs[0]].shape)
    assert data is not None
    return [int(axis) % rank for axis in np.ravel(data)]


def real_sum(model: Model, inputs: Sequence[Array], axes: Sequence[int]) -> Array:
    """SUM over some axes in real arithmetic, rounded half up and saturated; int32 wraps."""
    ifm, ofm = _ends(model.graphs[0])
    values = inputs[0].astype(np.int64)
    if inputs[0].dtype == np.int32:
        return values.sum(tuple(axes)).astype(np.int32)
    limits = np.iinfo(inputs[0].dtype)
    ratio = float(_scale(ifm)) / float(_scale(ofm))
    total = np.floor((values - _zero(ifm)).sum(tuple(axes)) * ratio + 0.5) + _zero(ofm)
    return np.clip(total, limits.min, limits.max).astype(inputs[0].dtype)


def sum_over_first_axis(model: Model, inputs: Sequence[Array]) -> Array:
    """SUM: only the first axis of the list is summed; of the result, as many values as the output has are kept.

    int16 and int32 of up to three axes over the last one, without `keep_dims`: the output's rows, columns and channels are its
    last axes, so the sum of the input's pixel in a row and column goes to all channels there, and 0 where the input has no
    such pixel.
    """
    axes, (_, ofm) = reduced_axes(model), _ends(model.graphs[0])
    found = real_sum(model, inputs, axes[:1])
    if not sums_by_pixel(model):
        return found.reshape(-1)[: math.prod(ofm.shape)].reshape(ofm.shape)
    pixels = found.reshape((1, 1, *found.shape)[-2:])
    height, width, depth = (1, 1, 1, *ofm.shape)[-3:]
    result = np.zeros((height, width, depth), found.dtype)
    for y in range(min(height, pixels.shape[0])):
        for x in range(min(width, pixels.shape[1])):
            result[y, x] = pixels[y, x]
    return result.reshape(ofm.shape)


def sums_by_pixel(model: Model) -> bool:
    """Whether Vela 5.x makes one REDUCE_SUM of a SUM over the last axis, with the output's last axis as its channels."""
    graph = model.graphs[0]
    ifm, options = graph.tensors[graph.ops[0].inputs[0]], graph.ops[0].attributes
    if graph.ops[0].kind != "SUM" or ifm.dtype.name not in ("INT16", "INT32"):
        return False
    assert isinstance(options, ReducerOptions)
    return not options.keep_dims and len(ifm.shape) <= 3 and reduced_axes(model)[0] == len(ifm.shape) - 1


def lstm_in_stream(model: Model, inputs: Sequence[Array]) -> Array:
    """UNIDIRECTIONAL_SEQUENCE_LSTM int8 and int16: its gates by the activation tables of the hardware."""
    graph = model.graphs[0]
    op = graph.ops[0]
    assert isinstance(op.attributes, UnidirectionalSequenceLSTMOptions)
    axis = 1 if op.attributes.time_major else 0
    batches = [Cell(graph, op).run(np.take(inputs[0], number, axis), STREAM) for number in range(inputs[0].shape[axis])]
    return np.stack(batches, axis)


FORMULAS: dict[str, Formula] = {
    "DEPTHWISE_CONV_2D-uint8": depthwise_in_int8_copies,
    "EXP-int8": exponential,
    "EXP-uint8": exponential,
    "LEAKY_RELU-int16-negative": leaky_relu_negative,
    "LEAKY_RELU-int8-negative": leaky_relu_negative,
    "LEAKY_RELU-uint8-negative": leaky_relu_negative,
    "MUL-int32": saturated_product,
    "NEG-int8": negated,
    "NEG-uint8": negated,
    "PRELU-int16": prelu_int16,
    "RELU_0_TO_1-int16": relu_n1_or_0_to_1_int16,
    "RELU_N1_TO_1-int16": relu_n1_or_0_to_1_int16,
    "SUM-int8": sum_over_first_axis,
    "SUM-uint8": sum_over_first_axis,
    "SUM-int16": sum_over_first_axis,
    "SUM-int32": sum_over_first_axis,
    "TRANSPOSE-uint8": transposed_as_int8,
    "UNIDIRECTIONAL_SEQUENCE_LSTM-int16": lstm_in_stream,
    "UNIDIRECTIONAL_SEQUENCE_LSTM-int8": lstm_in_stream,
}
