"""Small models whose files by some Vela versions give other results than LiteRT, each for one known reason."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.graph.attributes import (
    CallOnceOptions,
    ConcatenationOptions,
    DepthwiseConv2DOptions,
    FusedActivation,
    Padding,
    SoftmaxOptions,
    SplitVOptions,
    StridedSliceOptions,
    UnidirectionalSequenceLSTMOptions,
    VarHandleOptions,
)
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

_SCALE, _ZERO = 0.05, -3


def lstm(
    seed: int, *, steps: int = 3, features: int = 12, units: int = 16, cell_scale: float = 2**-12, hidden_scale: float = 0.007
) -> bytes:
    """One int8 UNIDIRECTIONAL_SEQUENCE_LSTM whose gates leave the flat parts of their functions."""
    rng, b = np.random.default_rng(seed), ModelBuilder()
    x = b.input((1, steps, features), DType.INT8, scale=0.02, zero_point=5)
    weights, recurrent = _lstm_weights(rng, b, features, units)
    bias = [b.constant(rng.integers(-3000, 3000, units).astype(np.int32), scale=0.02 * 0.01) for _ in range(4)]
    state = b.variable((1, units), DType.INT8, scale=0.007, zero_point=-4)
    cell = b.variable((1, units), DType.INT16, scale=cell_scale)
    y = b.tensor((1, steps, units), DType.INT8, scale=0.007, zero_point=-4)
    hidden = b.tensor((0,), DType.INT8, scale=hidden_scale, zero_point=-4)
    between = [b.tensor((0,), DType.FLOAT32) for _ in range(4)] + [hidden]
    given = [x, *weights, *recurrent, *[None] * 3, *bias, None, None, state, cell, *[None] * 4]
    options = UnidirectionalSequenceLSTMOptions(fused_activation_function=FusedActivation.TANH, cell_clip=10.0)
    b.multi_op("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [y], attributes=options, version=1, intermediates=between)
    b.output(y)
    return b.build()


def lstm_int16(
    seed: int, *, batches: int = 1, is_time_major: bool = False, bias: DType = DType.INT64, hidden_ratio: float = 1.0
) -> bytes:
    """One int16 UNIDIRECTIONAL_SEQUENCE_LSTM, which LiteRT does not have; its state's scale times a ratio is the hidden one."""
    rng, b = np.random.default_rng(seed), ModelBuilder()
    steps, features, units = (int(n) for n in rng.integers((2, 3, 3), (5, 20, 20)))
    x_scale, y_scale = float(rng.uniform(1e-4, 4e-4)), float(rng.choice([2**-15, rng.uniform(2e-5, 4e-5)]))
    x = b.input((steps, batches, features) if is_time_major else (batches, steps, features), DType.INT16, scale=x_scale)
    weights, recurrent = _lstm_weights(rng, b, features, units)
    data = [rng.integers(-300_000, 300_000, units).astype(bias.numpy) for _ in range(4)]
    biases = [b.constant(datum, scale=x_scale * 0.01) for datum in data]
    state = b.variable((batches, units), DType.INT16, scale=y_scale)
    cell = b.variable((batches, units), DType.INT16, scale=float(rng.choice([2**-12, 2**-11])))
    y = b.tensor((*b.tensors[x].shape[:2], units), DType.INT16, scale=y_scale)
    hidden = b.tensor((0,), DType.INT16, scale=y_scale * hidden_ratio)
    between = [b.tensor((0,), DType.FLOAT32) for _ in range(4)] + [hidden]
    given = [x, *weights, *recurrent, *[None] * 3, *biases, None, None, state, cell, *[None] * 4]
    clip = float(rng.choice([0.0, 1.0, 10.0]))
    options = UnidirectionalSequenceLSTMOptions(FusedActivation.TANH, clip, 0.0, is_time_major)
    b.multi_op("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [y], attributes=options, version=3, intermediates=between)
    b.output(y)
    return b.build()


def _lstm_weights(rng: np.random.Generator, b: ModelBuilder, features: int, units: int) -> list[list[int]]:
    return [
        [b.constant(rng.integers(-127, 128, (units, n)).astype(np.int8), scale=0.01) for _ in range(4)]
        for n in (features, units)
    ]


def streaming(initial: int) -> bytes:
    """Keeps the last two rows of what it was given; the variable starts with `initial` everywhere."""
    rows: npt.NDArray[np.int8] = np.full((1, 2, 1, 16), initial, np.int8)
    first, b = ModelBuilder("init"), ModelBuilder()
    handle = first.op("VAR_HANDLE", [], (), DType.RESOURCE, attributes=VarHandleOptions("", "rows"))
    value = first.constant(rows, scale=_SCALE, zero_point=_ZERO)
    first.multi_op("ASSIGN_VARIABLE", [handle, value], [])
    x = b.input((1, 1, 1, 16), DType.INT8, scale=_SCALE, zero_point=_ZERO)
    b.multi_op("CALL_ONCE", [], [], attributes=CallOnceOptions(1))
    handle = b.op("VAR_HANDLE", [], (), DType.RESOURCE, attributes=VarHandleOptions("", "rows"))
    kept = b.op("READ_VARIABLE", [handle], (1, 2, 1, 16), DType.INT8, _SCALE, _ZERO)
    every = b.op("CONCATENATION", [kept, x], (1, 3, 1, 16), DType.INT8, _SCALE, _ZERO, attributes=ConcatenationOptions(axis=1))
    last = _slice(b, every, [0, 1, 0, 0], [1, 3, 1, 16], (1, 2, 1, 16))
    b.multi_op("ASSIGN_VARIABLE", [handle, last], [])
    b.output(_depthwise(b, every, 3, 16))
    b.subgraph(first)
    return b.build()


def softmax_of_one() -> bytes:
    """SOFTMAX over one channel: every result is one."""
    b = ModelBuilder()
    x = b.input((1, 4, 5, 1), DType.INT8, scale=_SCALE, zero_point=_ZERO)
    b.output(b.op("SOFTMAX", [x], (1, 4, 5, 1), DType.INT8, 1 / 256, -128, attributes=SoftmaxOptions(beta=1.0)))
    return b.build()


def slice_of_split(begin: int) -> bytes:
    """Rows from `begin` (5 of 8) of the upper half of the channels, through a DEPTHWISE_CONV_2D."""
    b = ModelBuilder()
    x = b.input((1, 8, 1, 32), DType.INT8, scale=_SCALE, zero_point=_ZERO)
    half = [b.tensor((1, 8, 1, 16), DType.INT8, scale=_SCALE, zero_point=_ZERO) for _ in range(2)]
    sizes, axis = b.constant(np.array([16, 16], np.int32)), b.constant(np.array(3, np.int32))
    b.multi_op("SPLIT_V", [x, sizes, axis], half, attributes=SplitVOptions(2))
    rows = _slice(b, half[1], [0, begin, 0, 0], [1, begin + 5, 1, 16], (1, 5, 1, 16))
    b.output(_depthwise(b, rows, 5, 16))
    return b.build()


def _slice(b: ModelBuilder, x: int, begin: list[int], end: list[int], shape: tuple[int, ...]) -> int:
    places = [b.constant(np.array(values, np.int32)) for values in (begin, end, [1] * 4)]
    return b.op("STRIDED_SLICE", [x, *places], shape, DType.INT8, _SCALE, _ZERO, attributes=StridedSliceOptions())


def _depthwise(b: ModelBuilder, x: int, rows: int, channels: int) -> int:
    """One output row; the weights of a row tell it from the others."""
    kernel = np.arange(rows * channels).reshape(1, rows, 1, channels) % 37 - 18
    weights = b.constant(kernel.astype(np.int8), scale=0.02)
    bias = b.constant(np.zeros(channels, np.int32), scale=_SCALE * 0.02)
    options = DepthwiseConv2DOptions(padding=Padding.VALID, stride_w=1, stride_h=1, depth_multiplier=1)
    return b.op("DEPTHWISE_CONV_2D", [x, weights, bias], (1, 1, 1, channels), DType.INT8, 0.3, 0, attributes=options)
