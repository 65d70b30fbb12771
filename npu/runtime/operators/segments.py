"""SEGMENT_SUM and UNSORTED_SEGMENT_*: rows that one number after another puts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.types import for_codes


def build_segment_sum(node: OperatorNode) -> Run:
    ifm, ids, output = node.input(0), node.input(1), node.output()

    def run() -> None:
        if (np.diff(ids.array, prepend=0) < 0).any() or (np.diff(ids.array) > 1).any():
            raise node.fail("segments must be numbered from 0 without gaps, in order")
        output.array.fill(0)
        np.add.at(output.array, ids.array, ifm.array)

    return run


def _unsorted(combine: np.ufunc, start: Callable[[np.dtype[Any]], float]) -> Callable[[OperatorNode], Run]:
    def build(node: OperatorNode) -> Run:
        ifm, ids, output = node.input(0), node.input(1), node.output()

        def run() -> None:
            count = output.shape[0] if output.shape else 0
            if (ids.array >= count).any():
                raise node.fail(f"segments must be below {count}, got {ids.array.max()}")
            rows = ifm.array.reshape(ids.array.size, *output.shape[1:])
            numbers = ids.array.reshape(-1)
            output.array.fill(start(output.array.dtype))
            combine.at(output.array, numbers[numbers >= 0], rows[numbers >= 0])

        return run

    return build


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The smallest and the largest number of a type."""
    info: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return info.min, info.max


_UNSORTED = for_codes("T i32 i32 -> T", "f32 i32")

OPERATORS = (
    Implementation("SEGMENT_SUM", build_segment_sum, for_codes("T i32 -> T", "f32 i32")),
    Implementation("UNSORTED_SEGMENT_SUM", _unsorted(np.add, lambda dtype: 0), _UNSORTED),
    Implementation("UNSORTED_SEGMENT_PROD", _unsorted(np.multiply, lambda dtype: 1), _UNSORTED),
    Implementation("UNSORTED_SEGMENT_MAX", _unsorted(np.maximum, lambda dtype: _limits(dtype)[0]), _UNSORTED),
    Implementation("UNSORTED_SEGMENT_MIN", _unsorted(np.minimum, lambda dtype: _limits(dtype)[1]), _UNSORTED),
)
