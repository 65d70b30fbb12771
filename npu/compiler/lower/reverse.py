"""REVERSE_V2: results that are stored from the last column on, which Ethos-U85 has."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from npu.compiler.lower.builder import Builder
from npu.compiler.lower.memory import constant_values
from npu.graph.graph import Op
from npu.isa.rules import MAX_EXTENT
from npu.layouts import MapShape


def lower_reverse(builder: Builder, op: Op) -> None:
    """Axes side by side are reversed as one, the others one after the other."""
    shape = builder.tensor(op.inputs[0]).shape
    axes = {axis % len(shape) for axis in constant_values(builder, op.inputs[1])}
    groups, x = list(_groups(shape, axes)), builder.input(op.inputs[0])
    if groups and not builder.family.transposes:
        raise builder.error(op, "elements must stay where they are: this NPU stores no results backwards")
    for group in groups:
        if max(group) > MAX_EXTENT:
            raise builder.error(op, f"elements before, along and behind an axis must be at most {MAX_EXTENT}, got {group}")
    for group in groups[:-1]:
        between = builder.temporary("reversed", group, x.element)
        builder.reverse(builder.reshaped(x, group), between)
        x = between
    with builder.output_as(op.outputs[0], groups[-1] if groups else x.shape) as y:
        if groups:
            builder.reverse(builder.reshaped(x, groups[-1]), y)
        else:
            builder.copy(x, y)


def _groups(shape: Sequence[int], axes: Collection[int]) -> Iterator[MapShape]:
    """For reversed axes that lie side by side: elements in front of them, along them, behind them."""
    for is_reversed, row in groupby(range(len(shape)), key=axes.__contains__):
        first, *others = row
        extent = math.prod(shape[first : first + 1 + len(others)])
        if is_reversed and extent > 1:
            yield math.prod(shape[:first]), extent, math.prod(shape[first + 1 + len(others) :])
