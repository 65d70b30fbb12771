"""Complex numbers: RFFT2D, REAL, IMAG, COMPLEX_ABS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import ints

_PARTS = ("c64 -> f32",)


def build_rfft2d(node: OperatorNode) -> Run:
    ifm, length, output = node.input(0), node.input(1), node.output()

    def run() -> None:
        output.array[...] = np.fft.rfft2(ifm.array.astype(np.float64), ints(length))

    return run


def _part(function: Callable[[Array], Array]) -> Callable[[OperatorNode], Run]:
    def build(node: OperatorNode) -> Run:
        ifm, output = node.input(0), node.output()

        def run() -> None:
            output.array[...] = function(ifm.array)

        return run

    return build


OPERATORS = (
    Implementation("RFFT2D", build_rfft2d, ("f32 i32 -> c64",)),
    Implementation("REAL", _part(np.real), _PARTS),
    Implementation("IMAG", _part(np.imag), _PARTS),
    Implementation("COMPLEX_ABS", _part(np.abs), _PARTS),
)
