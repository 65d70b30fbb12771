"""Sparse inference of the XNNPACK-like delegate: each rule holds in one subgraph and is broken in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from constraints.sparse import UNARY, geometry, sparse_violations
from constraints.view import OpView
from npu.graph import attributes as options
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor

from tests.support import single_ops as ops

F32 = DType.FLOAT32


class Builder:
    """A chain of float operators; the current map is the last tensor made."""

    def __init__(self, shape: Sequence[int] = (1, 9, 9, 3)) -> None:
        self.tensors: list[Tensor] = [ops.tensor(shape, F32)]
        self.ops: list[Op] = []
        self.current = 0

    def tensor(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def add(self, kind: str, shape: Sequence[int], *more: int, attributes: Any = None, dtype: DType = F32) -> Builder:
        result = self.tensor(ops.tensor(shape, dtype))
        self.ops.append(Op(kind, (self.current, *more), (result,), attributes))
        self.current = result
        return self

    def conv(
        self, kernel: int = 1, *, stride: int = 1, channels: int = 4, zeros: float = 1.0, padding: Padding = Padding.SAME,
        dilation: int = 1, densify: bool | None = None, depthwise: bool = False, computed: bool = False, stored: bool = True,
    ) -> Builder:  # fmt: skip
        """`densify`: behind a DENSIFY operator, by default what is a 1x1 convolution; `stored`: with metadata of sparsity."""
        densify = kernel == 1 and not depthwise if densify is None else densify
        _, height, width, depth = self.tensors[self.current].shape
        size = (depth if depthwise else channels, kernel, kernel, 1 if depthwise else depth)
        values = np.ones(size, np.float32)
        values.reshape(-1)[: round(values.size * zeros)] = 0
        shape = (1, kernel, kernel, depth) if depthwise else size
        extra = {"sparsity": "made up"} if densify and stored else {}
        weights = self.tensor(Tensor("w", shape, F32, None, None if computed else values.reshape(shape), extra=extra))
        if densify:
            dense = self.tensor(Tensor("d", shape, F32))
            self.ops.append(Op("DENSIFY", (weights,), (dense,)))
            weights = dense
        lost = 0 if padding is Padding.SAME else kernel - 1
        out = [-(-(extent - lost) // stride) for extent in (height, width)]
        dilations = {"dilation_w_factor": dilation, "dilation_h_factor": dilation}
        if depthwise:
            made: Any = options.DepthwiseConv2DOptions(padding, stride, stride, 1, **dilations)
        else:
            made = options.Conv2DOptions(padding, stride, stride, **dilations)
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self.add(kind, (1, *out, depth if depthwise else channels), weights, attributes=made)

    def depthwise(self, kernel: int, stride: int, **more: Any) -> Builder:
        return self.conv(kernel, stride=stride, depthwise=True, **more)

    def mean(self, axes: Sequence[int] = (1, 2)) -> Builder:
        axis = self.tensor(ops.constant(list(axes)))
        return self.add("MEAN", (1, 1, 1, self.tensors[self.current].shape[-1]), axis, attributes=options.ReducerOptions(True))

    def same(self, kind: str, *more: int, dtype: DType = F32) -> Builder:
        return self.add(kind, self.tensors[self.current].shape, *more, dtype=dtype)

    def constant(self, shape: Sequence[int]) -> int:
        return self.tensor(ops.tensor(shape, F32, data=1.0))

    def broken(self) -> set[str]:
        graph = Graph("sparse", tuple(self.tensors), tuple(self.ops), (0,), (self.current,))
        return {violation.rule for violation in sparse_violations(graph, range(len(self.ops)))}


def start() -> Builder:
    """The first operator that the rules ask for: 9x9x3 to 5x5x4."""
    return Builder().conv(3, stride=2)


def size(builder: Builder) -> int:
    return builder.tensor(ops.constant((10, 10)))


def resized(height: int) -> Builder:
    builder = start().conv()
    return builder.add("RESIZE_BILINEAR", (1, height, 10, 4), size(builder)).mean()


def added(shape: Sequence[int] | None) -> Builder:
    builder = start().conv()
    return builder.same("ADD", builder.current if shape is None else builder.constant(shape)).mean()


def flat_add() -> Builder:
    builder = start().conv()
    second = builder.tensor(ops.tensor((5, 5, 4), F32))
    return builder.same("MUL", second).mean()


def typed(dtype: DType) -> Builder:
    return start().conv().same("RELU", dtype=dtype).mean()


# Row -> (a subgraph that is sparse, a subgraph that breaks the row)
CASES: dict[str, tuple[Builder, Builder]] = {
    "X-S-1": (typed(F32), typed(DType.INT8)),
    "X-S-2": (start().conv().mean(), start().conv().conv(computed=True).mean()),
    "X-S-3": (start().conv().mean(), Builder((1, 8, 8, 3)).conv(3, stride=2).conv().mean()),
    "X-S-4": (start().conv().same("DEPTH_TO_SPACE"), start().conv().same("RELU")),
    "X-S-5": (start().conv(1).mean(), start().conv().conv(3, densify=True).mean()),
    "X-S-6": (start().conv(zeros=0.75).mean(), start().conv(zeros=0.625).mean()),
    "X-S-7": (start().conv().depthwise(3, 1).mean(), start().conv().depthwise(3, 1, dilation=2).mean()),
    "X-S-8": (start().conv().depthwise(3, 2).mean(), start().conv().depthwise(3, 3).mean()),
    "X-S-9": (start().conv().depthwise(5, 1).mean(), start().conv().depthwise(5, 1, padding=Padding.VALID).mean()),
    "X-S-10": (start().conv().depthwise(5, 2).mean(), start().conv().depthwise(4, 2).mean()),
    "X-S-11": (resized(10), resized(1)),
    "X-S-12": (added((4,)), added((1, 5, 5, 4))),
    "X-S-13": (start().conv().same("LOGISTIC").mean(), start().conv().same("TANH").mean()),
}
DEPTHWISE_ROWS = ("X-S-8", "X-S-9", "X-S-10")
"""The four depthwise windows are alternatives of one rule, which has the first row's id."""


@pytest.mark.parametrize("row", [pytest.param(row, marks=pytest.mark.seed(row)) for row in CASES])
def test_a_row_holds_in_one_subgraph_and_is_broken_in_another(row: str) -> None:
    accepted, refused = CASES[row]
    assert accepted.broken() == set()
    assert refused.broken() == {"X-S-7" if row in DEPTHWISE_ROWS else row}


@pytest.mark.seed("X-S-2")
def test_weights_of_the_1x1_convolutions_must_be_stored_sparse_behind_densify() -> None:
    assert start().conv().conv().mean().broken() == set()
    assert start().conv().conv(densify=False).mean().broken() == {"X-S-2"}
    assert start().conv().conv(stored=False).mean().broken() == {"X-S-2"}
    other = Builder().conv(3, stride=2, densify=True).conv().depthwise(3, 1, densify=True).mean()
    assert other.broken() == set()


@pytest.mark.seed("X-S-13")
@pytest.mark.parametrize("kind", UNARY)
def test_every_listed_unary_operator_may_stand_inside(kind: str) -> None:
    assert start().conv().same(kind).mean().broken() == set()


@pytest.mark.seed("X-S-12")
def test_operands_must_have_rank_four() -> None:
    assert added(None).broken() == set()
    assert flat_add().broken() == {"X-S-12"}


@pytest.mark.seed("X-S-11")
def test_an_inner_mean_is_over_height_and_width() -> None:
    assert start().conv().mean((2, 1)).conv().mean().broken() == set()
    assert start().conv().mean((3,)).conv().mean().broken() == {"X-S-11"}


@pytest.mark.seed("X-S-3")
@pytest.mark.parametrize(
    "first", [Builder((1, 9, 9, 4)).conv(3, stride=2), Builder().conv(3, stride=1), Builder().same("RELU")]
)
def test_another_first_operator_is_refused(first: Builder) -> None:
    assert first.conv().mean().broken() == {"X-S-3"}


def test_two_thirds_of_zeros_are_just_enough() -> None:
    # 6 input and 4 output channels: 16 zeros of 24.
    builder = Builder().conv(3, stride=2, channels=6).conv(zeros=16 / 24).mean()
    assert builder.broken() == set()


def test_an_empty_subgraph_is_refused() -> None:
    assert Builder().broken() == {"X-S-2"}


def test_missing_tensors_and_attributes_are_refused_not_raised() -> None:
    builder = start().conv().mean()
    bare = [replace(op, inputs=(), outputs=(), attributes=None) for op in builder.ops]
    builder.ops = bare
    assert "X-S-3" in builder.broken()


def test_a_window_without_shapes_is_unknown() -> None:
    graph = ops.fully_connected().graphs[0]
    assert geometry(OpView(graph, graph.ops[0])) is None
    wrong = ops.conv(ifm=(1, 8, 8, 4)).graphs[0]
    flat = replace(wrong, tensors=(replace(wrong.tensors[0], shape=(8, 8)), *wrong.tensors[1:]))
    assert geometry(OpView(flat, flat.ops[0])) is None
