"""ADD, SUB and MUL of two 8-bit maps of one shape, or of a map and a constant, which is repeated to that shape once.

ADD and SUB are vector code, in fixed point where that gives the same results, else with the reference kernel's factors. For
MUL, and scales that do not fit, every pair of bytes has one result in a table, which the reference kernel computes once: 65536
bytes, indexed by 256 * first + second, unsigned.
"""

from __future__ import annotations

import math

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.byte_sums import PAIRS_OF_BYTES, every_pair_of_bytes, exact_fixed_point
from npu.numerics.scaling import quantize_multiplier
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import quantized_range, require_quantized
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.convolution import Site
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.row import LEFT_SHIFT, LOW_BITS, SUM_OPERAND
from npu.runtime.xnnpack.kernels.run import run_alone
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import CompiledOperation, Rows
from npu.runtime.xnnpack.packing import OutputLimits, Stage, scaled_stage
from npu.runtime.xnnpack.tables import BYTES, table_of

KINDS = ("ADD", "SUB", "MUL")
_EVERY = np.arange(256, dtype=np.uint8)
_ALL_PAIRS = np.repeat(_EVERY, 256), np.tile(_EVERY, 256)
_GROUP = 64
"""Elements of a row of a sum."""
_LARGEST_SUM = (1 << 28) - 1
"""Of two operands."""


class _OfTwo(CompiledOperation):
    """An operator on two maps."""

    _least = 1
    """Elements."""

    def shape(self) -> bool:
        first, second = self.node.input(0), self.node.input(1)
        shape = second.shape if first.is_constant else first.shape
        if any(not _fills(side, shape) for side in (first, second)) or math.prod(shape) < self._least:
            return False
        self.node.set_shape(shape)
        return True

    def _address(self, position: int) -> int:
        """Of an operand in the shape of the output."""
        side = self.node.input(position)
        if not side.is_constant:
            return address(side.array)
        repeated = np.broadcast_to(side.array, self.node.output().shape)
        return address(self.keep(np.ascontiguousarray(repeated)))


def _fills(side: RuntimeTensor, shape: tuple[int, ...]) -> bool:
    """Whether an operand has a shape, or is a constant that can be repeated to it."""
    if not side.is_constant or len(side.shape) > len(shape):
        return side.shape == shape
    return all(own in (1, size) for own, size in zip(side.shape[::-1], shape[::-1], strict=False))


class Sums(_OfTwo):
    """ADD or SUB of maps of at least 16 elements."""

    _least = 16

    def __init__(self, index: int, node: OperatorNode, site: Site, operands: Array, stage: Stage) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)
        self._operands, self._stage, self._finish = (
            site.store(operands),
            site.store(stage.channels.view(np.uint8)),
            stage.finish,
        )
        self._limits = _limits(node).for_kernels()
        self._limits["flip_inputs"] = 0x80808080 if self._is_signed else 0
        fixed_point = self._fixed_point(operands.view(SUM_OPERAND))
        self._fixed_point_numbers = None if fixed_point is None else site.store(fixed_point.view(np.uint8))

    @property
    def _is_signed(self) -> bool:
        return self.node.output().dtype is DType.INT8

    def bind(self) -> None:
        maps = [*(self._address(k) for k in range(2)), address(self.node.output().array)]
        self.rows = self._row(maps, self.node.output().elements, self._fixed_point_numbers)[None]

    def _row(self, maps: list[int], count: int, fixed_point: Array | None) -> Rows:
        """The sum of `count` elements of maps at the first two addresses, at the third one."""
        row = np.zeros((), r.JOB)
        row["kind"] = r.ADD_BYTES if self.node.kind == "ADD" else r.SUBTRACT_BYTES
        row["weights"], row["stage"] = address(self._operands), address(self._stage)
        if fixed_point is not None and count >= _GROUP:
            row["kind"], row["weights"] = r.FIXED_POINT_SUM, address(fixed_point)
        row["rows"], row["width"] = -(-count // _GROUP), count
        row["limits"], row["finish"] = address(self._limits), self._finish
        row["sign"] = 128 if self._is_signed else 0
        row["single"] = 1 if self.node.input(0).scale >= self.node.input(1).scale else 2
        row["input"], row["input2"], row["out"] = maps
        return row

    def _fixed_point(self, operands: Rows) -> Array | None:
        """FIXED_POINT, if there is one with the same result for every pair of bytes."""
        outputs = np.empty((2, PAIRS_OF_BYTES), np.uint8)

        def compute(out: Array, numbers: Array | None) -> None:
            maps = [address(array) for array in (*every_pair_of_bytes(), out)]
            run_alone(self._row(maps, PAIRS_OF_BYTES, numbers)[None].view(np.int64))

        def is_exact(numbers: Array) -> bool:
            compute(outputs[1], numbers)
            return np.array_equal(*outputs)

        compute(outputs[0], None)
        factors = [side.scale / self.node.output().scale for side in (self.node.input(0), self.node.input(1))]
        factors[1] *= 1 if self.node.kind == "ADD" else -1
        zero_points = operands["offset"][:, 0].tolist()
        return exact_fixed_point(factors, zero_points, float(self._limits["zero_point"][0][0]), is_exact)


def _limits(node: OperatorNode) -> OutputLimits:
    output = node.output()
    low, high = quantized_range(node, node.attributes.fused_activation_function, output)
    return OutputLimits(output.zero_point, low, high, is_unsigned=output.dtype is DType.UINT8)


def _sums(index: int, node: OperatorNode, site: Site) -> Sums | None:
    """With multipliers and exponents of both operands and the result as the reference kernel has them; None if sums might not
    fit."""
    left, right, output = node.input(0), node.input(1), node.output()
    require_quantized(node, left, right, output)
    twice = 2.0 * max(left.scale, right.scale)
    real = (left.scale / twice, right.scale / twice, twice / ((1 << LEFT_SHIFT) * output.scale))
    factors = [quantize_multiplier(factor) for factor in real]
    larger = factors[0] if left.scale >= right.scale else factors[1]
    if larger != (1 << 30, 0) or max(factors[0][1], factors[1][1]) > 0:
        return None
    multiplier, exponent = ([number] * 16 for number in factors[2])
    scaling = np.array(multiplier), np.array(exponent)
    stage = scaled_stage(np.zeros(16, np.int32), np.full(16, _LARGEST_SUM), scaling, _limits(node), may_floor=False)
    bias = 128 if output.dtype is DType.INT8 else 0
    operands = [_operand(side.zero_point + bias, *factor) for side, factor in zip((left, right), factors, strict=False)]
    return None if stage is None else Sums(index, node, site, np.concatenate(operands).view(np.uint8), stage)


def _operand(offset: int, multiplier: int, exponent: int) -> Array:
    """SUM_OPERAND."""
    term, mask = (1 << (-exponent - 1), -1) if exponent < 0 else (0, 0)
    numbers = offset, (multiplier >> 16) << (16 - LOW_BITS), multiplier & 0xFFFF, term, mask, -exponent
    made = np.zeros(1, SUM_OPERAND)
    for name, number in zip(SUM_OPERAND.names or (), numbers, strict=True):
        made[name] = number
    return made


class Pairs(_OfTwo):
    """By a table of all pairs."""

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)
        self._table = site.store(table_of(node, *_ALL_PAIRS))

    def bind(self) -> None:
        row = np.zeros((), r.JOB)
        row["kind"], row["rows"] = r.LOOK_UP_PAIRS, self.node.output().elements
        row["input"], row["input2"] = (self._address(k) for k in range(2))
        row["out"], row["weights"] = address(self.node.output().array), address(self._table)
        self.rows = row[None]


def compile_pairs(index: int, node: OperatorNode, site: Site) -> CompiledOperation | None:
    """A compiled operation for two 8-bit maps, of which at least one is computed, None if the reference kernel shall run it."""
    if len(node.inputs) != 2 or any(tensor is None or tensor.dtype not in BYTES for tensor in node.inputs):
        return None
    first, second = node.input(0), node.input(1)
    if (first.is_constant and second.is_constant) or first.dtype is not second.dtype or node.output().dtype is not first.dtype:
        return None
    return (_sums(index, node, site) if node.kind != "MUL" else None) or Pairs(index, node, site)
