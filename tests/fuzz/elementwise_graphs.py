"""Random graphs of elementwise operators of 8, 16 and 32 bits for compilers: whatever scales and shapes a converter may write.

`graph(seed)` depends on its number alone. Each operator has inputs of its own, so that one graph is many cases.
"""

from __future__ import annotations

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Model

from tests.support.builder import ModelBuilder

OPERATORS = 24
"""Of one graph."""
TYPES = (DType.UINT8, DType.UINT8, DType.INT16, DType.INT16, DType.INT8)
BINARY: dict[str, type[Attributes] | None] = {
    "ADD": at.AddOptions,
    "SUB": at.SubOptions,
    "SQUARED_DIFFERENCE": None,
    "MUL": at.MulOptions,
    "MINIMUM": None,
    "MAXIMUM": None,
}
UNARY = ("ABS", "LEAKY_RELU", "RELU", "RELU6", "QUANTIZE", "PRELU", "HARD_SWISH", "LOGISTIC", "TANH", "SOFTMAX")
FIXED_OUTPUTS = {"LOGISTIC": (1, -128), "TANH": (2, 0), "SOFTMAX": (1, -128)}
"""Range of an output whose quantization the operator prescribes, and its zero point as int8."""
FUSED = (FusedActivation.NONE, FusedActivation.NONE, FusedActivation.RELU, FusedActivation.RELU6, FusedActivation.RELU_N1_TO_1)
EXTENTS = (1, 1, 2, 3, 5, 8, 16, 17)


class _Sketch:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 5_2])
        self.builder = ModelBuilder()

    def pick(self, values: tuple) -> object:  # type: ignore[type-arg]
        return values[int(self.rng.integers(len(values)))]

    def scale(self, near: float = 0.05) -> float:
        """Often near another one, sometimes equal to it or a power of two of it, rarely anything from 1e-5 to 1e3."""
        kind = self.rng.random()
        if kind < 0.3:
            return near
        if kind < 0.5:
            return float(near * 2.0 ** self.rng.integers(-6, 7))
        if kind < 0.9:
            return float(near * np.exp(self.rng.normal(0, 1)))
        return float(10 ** self.rng.uniform(-5, 3))

    def zero_point(self, dtype: DType) -> int:
        if dtype not in (DType.INT8, DType.UINT8):
            return 0
        low = -128 if dtype is DType.INT8 else 0
        return int(self.pick((low, low + 255, low + 128, low + int(self.rng.integers(256)))))

    def operand(
        self, shape: tuple[int, ...], dtype: DType, scale: float, *, constant: bool, zero_point: int | None = None
    ) -> int:
        zero_point = self.zero_point(dtype) if zero_point is None else zero_point
        quantized: dict[str, float] = {} if dtype is DType.INT32 else {"scale": scale, "zero_point": zero_point}
        if not constant:
            return self.builder.input(shape, dtype, **quantized)
        limits = np.iinfo(dtype.numpy)
        values = self.rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
        return self.builder.constant(values, dtype, **quantized)


def _shapes(sketch: _Sketch) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The larger operand's shape and the other's: the same, repeated along axes, or one element."""
    full = (1, *(int(sketch.pick(EXTENTS)) for _ in range(3)))  # type: ignore[call-overload]
    kind = sketch.rng.random()
    if kind < 0.4:
        return full, full
    if kind < 0.6:
        return full, (1, 1, 1, 1)
    return full, tuple(size if sketch.rng.random() < 0.5 else 1 for size in full)


def _binary(sketch: _Sketch) -> None:
    kind, dtype = str(sketch.pick(tuple(BINARY))), sketch.pick((*TYPES, DType.INT32))
    assert isinstance(dtype, DType)
    if kind == "SQUARED_DIFFERENCE" and dtype in (DType.UINT8, DType.INT16):
        dtype = DType.INT8  # LiteRT has no other of 8 and 16 bits
    full, part = _shapes(sketch)
    first = sketch.scale()
    is_limit = kind in ("MINIMUM", "MAXIMUM")  # of operands of one quantization
    second = first if is_limit else sketch.scale(first)
    constant = sketch.rng.random() < 0.4
    shared = sketch.zero_point(dtype)
    theirs = shared if is_limit else None
    operands = [
        sketch.operand(full, dtype, first, constant=False, zero_point=shared),
        sketch.operand(part, dtype, second, constant=constant, zero_point=theirs),
    ]
    if sketch.rng.random() < 0.3:
        operands.reverse()
    natural = first * second * 100 if kind in ("MUL", "SQUARED_DIFFERENCE") else first + second
    out, zero_point = (first, shared) if is_limit else (sketch.scale(natural), sketch.zero_point(dtype))
    if dtype is DType.INT32:
        made = sketch.builder.op(kind, operands, full, dtype, attributes=_options(kind, FusedActivation.NONE))
    else:
        fused = sketch.pick(FUSED)
        made = sketch.builder.op(kind, operands, full, dtype, out, zero_point, attributes=_options(kind, fused))
    sketch.builder.output(made)


def _options(kind: str, fused: object) -> Attributes | None:
    options = BINARY[kind]
    return None if options is None else options(fused_activation_function=fused)  # type: ignore[call-arg]


def _unary(sketch: _Sketch) -> None:
    kind, dtype = str(sketch.pick(UNARY)), sketch.pick(TYPES)
    assert isinstance(dtype, DType)
    if (kind == "HARD_SWISH" and dtype is DType.INT16) or (kind == "ABS" and dtype is DType.UINT8):
        dtype = DType.INT8  # LiteRT has no other
    full, _ = _shapes(sketch)
    first = sketch.scale()
    inputs = [sketch.operand(full, dtype, first, constant=False)]
    if kind == "PRELU":
        slopes = DType.INT8 if dtype is DType.INT16 else dtype
        inputs.append(sketch.operand((1, 1, full[3]), slopes, sketch.scale(), constant=True))
    attributes: Attributes | None = None
    if kind == "LEAKY_RELU":
        attributes = at.LeakyReluOptions(float(sketch.rng.uniform(-0.5, 1.5)))
    if kind == "SOFTMAX":
        attributes = at.SoftmaxOptions(1.0)
    scale, zero_point = sketch.scale(first), sketch.zero_point(dtype)
    if kind in FIXED_OUTPUTS:
        reach, low = FIXED_OUTPUTS[kind]
        scale = 2.0**-15 if dtype is DType.INT16 else reach / 256
        zero_point = {DType.INT16: 0, DType.UINT8: low + 128}.get(dtype, low)
    sketch.builder.output(sketch.builder.op(kind, inputs, full, dtype, scale, zero_point, attributes=attributes))


def graph(seed: int, operators: int = OPERATORS) -> Model:
    """A graph of so many operators, each from inputs of the graph to an output of it."""
    sketch = _Sketch(seed)
    for _ in range(operators):
        (_unary if sketch.rng.random() < 0.3 else _binary)(sketch)
    return sketch.builder.model()
