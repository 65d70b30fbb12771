"""SLICE, STRIDED_SLICE and DYNAMIC_UPDATE_SLICE."""

from __future__ import annotations

from collections.abc import Callable

from npu.graph.shapes.parts import slice_box, strided_index
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import ints
from npu.runtime.types import EVERY_NUMBER, for_codes


def build_slice(node: OperatorNode) -> Run:
    return _selection(node, lambda begin, size: tuple(slice(*part) for part in slice_box(node.input(0).shape, begin, size)))


def build_strided_slice(node: OperatorNode) -> Run:
    return _selection(
        node, lambda begin, end, strides: strided_index(node.input(0).shape, begin, end, strides, node.attributes)
    )


def _selection(node: OperatorNode, index: Callable[..., tuple[slice | int | None, ...]]) -> Run:
    """Copies what a numpy index selects, which `index` makes of the elements of the other inputs."""
    ifm, output, bounds = node.input(0), node.output(), [node.input(k) for k in range(1, len(node.inputs))]
    known = index(*map(ints, bounds)) if all(bound.is_constant for bound in bounds) else None

    def run() -> None:
        output.array[...] = ifm.array[index(*map(ints, bounds)) if known is None else known]

    return run


def build_dynamic_update_slice(node: OperatorNode) -> Run:
    ifm, update, start, output = node.input(0), node.input(1), node.input(2), node.output()

    def run() -> None:
        output.array[...] = ifm.array
        if start.elements != len(ifm.shape):
            raise node.fail(f"start must have {len(ifm.shape)} entries, got {list(start.shape)}")
        first = [min(max(s, 0), n - u) for s, n, u in zip(ints(start), ifm.shape, update.shape, strict=True)]
        output.array[tuple(slice(f, f + u) for f, u in zip(first, update.shape, strict=True))] = update.array

    return run


_ANY = f"{EVERY_NUMBER} str"

OPERATORS = (
    Implementation("SLICE", build_slice, (*for_codes("T i32 i32 -> T", _ANY), *for_codes("T i64 i64 -> T", _ANY))),
    Implementation("STRIDED_SLICE", build_strided_slice, for_codes("T i32 i32 i32 -> T", _ANY)),
    Implementation("DYNAMIC_UPDATE_SLICE", build_dynamic_update_slice, for_codes("T T i32|i64 -> T", EVERY_NUMBER)),
)
