"""Small models that Vela's older core, or versions 3.12 and 4.2, turn into something else, and what that is in each case.

Every case has a formula for the values of the stream: LiteRT's reference kernels on another model or on rearranged inputs, or
arithmetic written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.numerics.arrays import Array

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference

Shape = tuple[int, ...]
_I8, _SCALE, _ZERO = DType.INT8, 0.05, -3


@dataclass(frozen=True)
class Fault:
    """A model, the values that the stream gives for its input, and the stored file of an old version, if it needs one."""

    model: bytes
    formula: Callable[[Array], list[Array]]
    stored: str = ""


class _Sketch(ModelBuilder):
    """A graph with one int8 input; `x` is the last map."""

    def __init__(self, shape: Shape, zero_point: int = _ZERO) -> None:
        super().__init__()
        self.zero_point = zero_point
        self.x = self.input(shape, _I8, scale=_SCALE, zero_point=zero_point)

    def map(self, shape: Shape) -> int:
        return self.tensor(shape, _I8, scale=_SCALE, zero_point=self.zero_point)

    def numbers(self, values: Any) -> int:
        return self.constant(np.array(values, np.int32))

    def add(self, kind: str, shape: Shape, *numbers: Any, attributes: Any = None) -> _Sketch:
        """An operator on the last map with constants of integers."""
        made = self.map(shape)
        self.multi_op(kind, [self.x, *(self.numbers(values) for values in numbers)], [made], attributes=attributes)
        self.x = made
        return self

    def split(self, sizes: Sequence[int], axis: int) -> list[int]:
        whole = self.tensors[self.x].shape
        parts = [self.map((*whole[:axis], size, *whole[axis + 1 :])) for size in sizes]
        options = at.SplitVOptions(len(sizes))
        self.multi_op("SPLIT_V", [self.x, self.numbers(sizes), self.numbers(axis)], parts, attributes=options)
        self.x = parts[-1]
        return parts

    def done(self) -> bytes:
        self.output(self.x)
        return self.build()


def _slice_of_slice() -> bytes:
    s = _Sketch((1, 6, 5, 16))
    s.output(s.split([6, 10], 3)[0])
    return s.add("SLICE", (1, 3, 4, 10), [0, 2, 1, 0], [1, 3, 4, 10]).done()


def _mean_of_slice() -> bytes:
    s = _Sketch((1, 7, 5, 4)).add("SLICE", (1, 4, 1, 4), [0, 2, 3, 0], [1, 4, 1, 4])
    return s.add("MEAN", (1, 4, 1, 4), [2], attributes=at.ReducerOptions(True)).done()


def _reshaped_slice() -> bytes:
    """The second half is reshaped, and read by ABS too."""
    s = _Sketch((1, 7, 2, 2))
    first, second = s.split([1, 1], 2)
    reshaped = s.add("RESHAPE", (1, 1, 7, 2), (1, 1, 7, 2), attributes=at.ReshapeOptions((1, 1, 7, 2))).x
    s.x = second
    s.output(first, reshaped)
    return s.add("ABS", (1, 7, 1, 2)).done()


def _resized_slice(row: int) -> bytes:
    """The map is lower than the doubled slice."""
    s = _Sketch((1, 7, 4, 8)).add("SLICE", (1, 4, 2, 4), [0, row, 1, 3], [1, 4, 2, 4])
    options = at.ResizeNearestNeighborOptions(False, False)
    return s.add("RESIZE_NEAREST_NEIGHBOR", (1, 8, 4, 4), [8, 4], attributes=options).done()


def _bounded(fused: FusedActivation, *, rectified: bool) -> bytes:
    """A CONV_2D with a fused activation, and RELU behind it."""
    s, rng = _Sketch((1, 4, 5, 4)), np.random.default_rng(3)
    weights = s.constant(rng.integers(-127, 128, (6, 1, 1, 4)).astype(np.int8), scale=0.01)
    bias, made = s.constant(np.zeros(6, np.int32), scale=_SCALE * 0.01), s.map((1, 4, 5, 6))
    s.multi_op("CONV_2D", [s.x, weights, bias], [made], attributes=at.Conv2DOptions(Padding.SAME, 1, 1, fused))
    s.x = made
    return (s.add("RELU", (1, 4, 5, 6)) if rectified else s).done()


def _resized_and_rectified() -> bytes:
    s = _Sketch((1, 4, 3, 3), -40).add("RESIZE_BILINEAR", (1, 8, 6, 3), [8, 6], attributes=at.ResizeBilinearOptions())
    return s.add("RELU6", (1, 8, 6, 3)).done()


def _activated(kind: str, shape: Shape, reshaped: Shape | None) -> bytes:
    b = ModelBuilder()
    x = b.input(shape, _I8, scale=_SCALE, zero_point=_ZERO)
    scale, zero = {"TANH": (1 / 128, 0), "LOGISTIC": (1 / 256, -128)}.get(kind, (0.04, -10))
    x = b.op(kind, [x], shape, _I8, scale, zero, attributes=at.LeakyReluOptions(0.3) if kind == "LEAKY_RELU" else None)
    if reshaped is not None:
        target = b.constant(np.array(reshaped, np.int32))
        x = b.op("RESHAPE", [x, target], reshaped, _I8, scale, zero, attributes=at.ReshapeOptions(reshaped))
    b.output(x)
    return b.build()


def _with_own_strides(kind: str) -> Fault:
    """The map has the shape (3, 10, 4) behind the RESHAPE, but rows and the first tile of the shape (6, 5, 4) before it."""
    before, after = (1, 6, 5, 4), (1, 3, 10, 4)
    columns = np.arange(after[2]) % before[2]

    def formula(x: Array) -> list[Array]:
        return run_reference(_activated(kind, after, None), [np.ascontiguousarray(x[:, : after[1], columns])])

    return Fault(_activated(kind, before, after), formula, "vela-3.12/relu_reshaped" if kind == "RELU" else "")


def _averaged_without_zero_point(x: Array) -> list[Array]:
    """Means of two by two of the doubled map, ties away from the zero point, within RELU6's limits."""
    wide = (x.astype(np.int64) + 40).repeat(2, 1).repeat(2, 2)
    out = np.empty_like(wide)
    for y, column in np.ndindex(wide.shape[1:3]):
        part = wide[:, y : y + 2, column : column + 2].reshape(wide.shape[0], -1, wide.shape[3])
        total, count = part.sum(axis=1), part.shape[1]
        out[:, y, column] = np.sign(total) * ((2 * abs(total) + count) // (2 * count))
    return [np.clip(out - 40, -40, 80).astype(np.int8)]


def _copied_reshape(x: Array) -> list[Array]:
    """The reshaped half is copied from the first byte of the whole; the rest is right."""
    first, _, last = run_reference(_reshaped_slice(), [x])
    return [first, x.reshape(-1)[:14].reshape(1, 1, 7, 2), last]


FAULTS: dict[str, Fault] = {
    **{f"{kind} before RESHAPE": _with_own_strides(kind) for kind in ("TANH", "LOGISTIC", "LEAKY_RELU", "RELU")},
    "slice before RESIZE": Fault(_resized_slice(3), lambda x: run_reference(_resized_slice(1), [x])),
    "two activations": Fault(
        _bounded(FusedActivation.RELU_N1_TO_1, rectified=True),
        lambda x: run_reference(_bounded(FusedActivation.RELU, rectified=False), [x]),
    ),
    "RELU6 behind RESIZE_BILINEAR": Fault(_resized_and_rectified(), _averaged_without_zero_point),
    "slice of a slice": Fault(_slice_of_slice(), lambda x: [x[..., :6], x[:, :3, :4, 6:]], "vela-4.2/slice_of_slice"),
    "MEAN of one element of a slice": Fault(
        _mean_of_slice(), lambda x: [x.reshape(-1)[:16].reshape(1, 4, 1, 4)], "vela-4.2/mean_of_slice"
    ),
    "RESHAPE of a slice": Fault(_reshaped_slice(), _copied_reshape, "vela-4.2/reshaped_slice"),
}
