"""Float operators element by element, SOFTMAX, RESHAPE and TRANSPOSE as job rows without packed operands.

The reference kernel checks types and shapes and sets the output's; it also runs what rows cannot describe: operands that repeat
in more than one way, and axes in more than three groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.rectifiers import RECTIFIERS, UNBOUNDED
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import float_bounds
from npu.runtime.registry import find_operator
from npu.runtime.xnnpack.convolution import Site
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import CompiledOperation, Rows

_BINARY: Mapping[str, int] = {
    "ADD": r.FLOAT_ADD,
    "SUB": r.FLOAT_SUBTRACT,
    "MUL": r.FLOAT_MULTIPLY,
    "DIV": r.FLOAT_DIVIDE,
    "SQUARED_DIFFERENCE": r.FLOAT_SQUARED_DIFFERENCE,
}
_CLAMPS: Mapping[str, tuple[float, float]] = {**RECTIFIERS, "TANH": UNBOUNDED}
_ROW_ELEMENTS, _MOST_ROWS, _VECTOR = 1024, 64, 16
"""Maps without repeated operands are cut into rows of at least so many elements, so that threads can share them."""


class _Direct(CompiledOperation):
    """`_fill` completes one row."""

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)

    def shape(self) -> bool:
        output = self.node.output()
        find_operator(self.node.kind, self.node.label).prepare(self.node)
        return not output.is_dynamic and output.elements > 0 and self.fits()

    def fits(self) -> bool:
        """Whether a row can describe the operator at these shapes."""
        return True

    def bind(self) -> None:
        row = np.zeros((), r.JOB)
        row["out"] = address(self.node.output().array)
        self._fill(row)
        self.rows = row[None]

    def _fill(self, row: Rows) -> None:
        raise AssertionError(f"{type(self).__name__} must fill its row")

    def _address(self, position: int) -> int:
        return address(self.keep(np.ascontiguousarray(self.node.input(position).array)))


class FloatPairs(_Direct):
    """Two operands with a fused activation."""

    def fits(self) -> bool:
        plan = _two_axes(self.node.input(0).shape, self.node.input(1).shape, self.node.output().shape)
        if plan is None:
            return False
        self._plan = plan
        return True

    def _fill(self, row: Rows) -> None:
        (rows, width), first, second = self._plan
        row["kind"], row["rows"], row["width"], row["out_step"] = _BINARY[self.node.kind], rows, width, 4 * width
        row["input"], row["input_step"] = self._address(0), 4 * first[0]
        row["input2"], row["input2_step"] = self._address(1), 4 * second[0]
        row["single"] = 0 if first[1] and second[1] else 2 if first[1] else 1
        activation = getattr(self.node.attributes, "fused_activation_function", None)
        bounds = UNBOUNDED if activation is None else float_bounds(self.node, activation)
        row["low"], row["high"] = (_bits(float(bound)) for bound in bounds)


class Single(_Direct):
    """RELU and its relatives, and TANH."""

    def _fill(self, row: Rows) -> None:
        (rows, width), *_ = _rows_of(self.node.output().shape)
        row["kind"] = r.FLOAT_TANH if self.node.kind == "TANH" else r.FLOAT_CLAMP
        row["rows"], row["width"] = rows, width
        row["input"], row["input_step"], row["out_step"] = self._address(0), 4 * width, 4 * width
        row["low"], row["high"] = (_bits(bound) for bound in _CLAMPS[self.node.kind])


class Softmax(_Direct):
    """SOFTMAX over the last axis."""

    def _fill(self, row: Rows) -> None:
        output = self.node.output()
        width = output.shape[-1] if output.shape else 1
        row["kind"], row["rows"], row["width"] = r.SOFTMAX_ROWS, output.elements // width, width
        row["input"], row["input_step"], row["out_step"] = self._address(0), 4 * width, 4 * width
        row["low"] = _bits(self.node.attributes.beta)


class Reshape(_Direct):
    """RESHAPE."""

    def _fill(self, row: Rows) -> None:
        (rows, width), *_ = _rows_of(self.node.output().shape)
        row_bytes = width * self.node.output().array.itemsize
        row["kind"], row["rows"], row["input"] = r.COPY_ROWS, rows, self._address(0)
        row["input_step"] = row["out_step"] = row["row_bytes"] = row_bytes


class Transpose(_Direct):
    """TRANSPOSE whose axes move in at most three groups."""

    def fits(self) -> bool:
        ifm, perm = self.node.input(0), self.node.known(1)
        if perm is None:
            return False
        axes = [int(axis) % max(len(ifm.shape), 1) for axis in perm.reshape(-1)]
        steps = [math.prod(ifm.shape[axis + 1 :]) for axis in range(len(ifm.shape))]
        groups = _joined([ifm.shape[axis] for axis in axes], [[steps[axis]] for axis in axes])
        self._groups = [(1, [0])] * (3 - len(groups)) + groups
        return len(groups) <= 3

    def _fill(self, row: Rows) -> None:
        size = self.node.output().array.itemsize
        (outer, (far,)), (middle, (near,)), (inner, (step,)) = self._groups
        row["kind"], row["rows"], row["segments"], row["width"] = r.MOVE, outer * middle, middle, inner
        row["input"], row["input_step"], row["input2_step"] = self._address(0), far * size, near * size
        row["length"] = step * size
        row["row_bytes"], row["out_step"] = size, inner * size


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


OperandAxes = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""Sizes of two axes, and the steps of both operands along them in elements."""


def _joined(sizes: list[int], steps: list[list[int]]) -> list[tuple[int, list[int]]]:
    """Axes with their steps, without those of size 1; neighbours that every operand walks as one are one."""
    made: list[tuple[int, list[int]]] = []
    for size, step in zip(sizes, steps, strict=True):
        if size == 1:
            continue
        if made and made[-1][1] == [extent * size for extent in step]:
            made[-1] = (made[-1][0] * size, step)
        else:
            made.append((size, step))
    return made


def _steps(shape: tuple[int, ...], out: tuple[int, ...]) -> list[int]:
    """Steps along the axes of `out` of an operand that is broadcast to it."""
    padded = (1,) * (len(out) - len(shape)) + shape
    return [0 if size == 1 else math.prod(padded[axis + 1 :]) for axis, size in enumerate(padded)]


def _two_axes(first: tuple[int, ...], second: tuple[int, ...], out: tuple[int, ...]) -> OperandAxes | None:
    """The operator as rows; None if it takes more than two axes, or if both operands repeat along the inner one."""
    groups = _joined(list(out), [list(pair) for pair in zip(_steps(first, out), _steps(second, out), strict=True)])
    if len(groups) == 1 and groups[0][1] == [1, 1]:
        return _rows_of(out)
    groups = [(1, [0, 0])] * (2 - len(groups)) + groups
    if len(groups) > 2 or any(step not in (0, 1) for step in groups[1][1]):
        return None
    if groups[1] == (1, [0, 0]):
        return (1, 1), (0, 1), (0, 1)
    (rows, outer), (width, inner) = groups
    return None if inner == [0, 0] else ((rows, width), (outer[0], inner[0]), (outer[1], inner[1]))


def _rows_of(shape: tuple[int, ...]) -> OperandAxes:
    """A whole map as rows of whole vectors, if it can be divided so."""
    elements = math.prod(shape)
    counts = range(min(elements // _ROW_ELEMENTS, _MOST_ROWS), 1, -1)
    rows = next((count for count in counts if elements % (count * _VECTOR) == 0), 1)
    return (rows, elements // rows), (elements // rows, 1), (elements // rows, 1)


def make_direct(index: int, node: OperatorNode, site: Site) -> CompiledOperation | None:
    """A compiled operation, None for operators and types of others."""
    dtype = node.output().dtype
    if any(tensor is None or (position == 0 and tensor.dtype is not dtype) for position, tensor in enumerate(node.inputs)):
        return None
    if node.kind == "RESHAPE" and dtype.numpy is not None:
        return Reshape(index, node, site)
    if node.kind == "TRANSPOSE" and dtype in (DType.FLOAT32, DType.INT32, DType.INT8, DType.UINT8):
        return Transpose(index, node, site)
    if dtype is not DType.FLOAT32:
        return None
    if node.kind in _BINARY:
        return FloatPairs(index, node, site)
    if node.kind in _CLAMPS:
        return Single(index, node, site)
    return Softmax(index, node, site) if node.kind == "SOFTMAX" else None
