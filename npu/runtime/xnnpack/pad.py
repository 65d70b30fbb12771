"""PAD as job rows that copy: a line of padding to every line of the output, then the input into its middle."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from npu.graph.dtype import DType
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.layout import pad_value
from npu.runtime.registry import find_operator
from npu.runtime.xnnpack.convolution import Site
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import CompiledOperation

_TYPES = (DType.FLOAT32, DType.INT8, DType.UINT8)
_MOST_COPIES = 64
"""Of equally spaced lines; maps with padding around several outer axes take more."""


class Pad(CompiledOperation):
    """The reference kernel checks types and sets the output's shape, and pads what takes too many copies."""

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)

    def shape(self) -> bool:
        find_operator(self.node.kind, self.node.label).prepare(self.node)
        ifm, output, pairs = self.node.input(0), self.node.output(), self.node.known(1)
        if pairs is None or output.is_dynamic or not ifm.elements or pairs.size != 2 * len(ifm.shape):
            return False
        self._before = [int(before) for before, _ in pairs.reshape(-1, 2)]
        padded = [axis for axis, (size, out) in enumerate(zip(ifm.shape, output.shape, strict=True)) if size != out]
        # Lines reach from the last axis with padding on; those between the two last axes with padding are equally spaced.
        self._inner = padded[-1] if padded else 0
        self._outer = padded[-2] if len(padded) > 1 else 0
        return math.prod(ifm.shape[: self._outer]) <= _MOST_COPIES

    def bind(self) -> None:
        ifm, output = self.node.input(0).array, self.node.output().array
        line = math.prod(output.shape[self._inner :])
        padding = self.keep(np.full(line, pad_value(self.node), output.dtype))
        fill = np.zeros((), r.JOB)
        fill["kind"], fill["rows"], fill["row_bytes"] = r.COPY_ROWS, output.size // line, padding.nbytes
        fill["input"], fill["out"], fill["out_step"] = address(padding), address(output), padding.nbytes
        made, inside = [fill], math.prod(ifm.shape[self._inner :]) * ifm.itemsize
        start = address(output) + sum(step * before for step, before in zip(output.strides, self._before, strict=True))
        for place in product(*(range(size) for size in ifm.shape[: self._outer])):
            row = np.zeros((), r.JOB)
            row["kind"], row["rows"] = r.COPY_ROWS, math.prod(ifm.shape[self._outer : self._inner])
            row["row_bytes"], row["input_step"], row["out_step"] = inside, inside, padding.nbytes
            row["input"] = address(ifm) + sum(step * at for step, at in zip(ifm.strides, place, strict=False))
            row["out"] = start + sum(step * at for step, at in zip(output.strides, place, strict=False))
            made.append(row)
        self.rows = np.stack(made)


def make_pad(index: int, node: OperatorNode, site: Site) -> Pad | None:
    """A compiled operation, None for types of the reference kernel alone."""
    ifm, output = node.input(0), node.output()
    return Pad(index, node, site) if output.dtype in _TYPES and ifm.dtype is output.dtype else None
