"""The source graph as matching sees it: who feeds whom, what lies behind each operator, and what its weights hold."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from npu.graph.graph import Graph, Op
from npu.graph.operands import Role
from npu.graph.ops import BY_NAME, MOVES, Cost, inputs_with
from npu.reports.weight_counts import counts_of_operator

WEIGHTED = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})


class SourceGraph:
    """The source graph: who feeds whom, and what lies behind each operator."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {tensor: index for index, op in enumerate(graph.ops) for tensor in op.outputs}
        self.feeds = [frozenset(self.makers[tensor] for tensor in op.inputs if tensor in self.makers) for op in graph.ops]
        self.below: list[int] = [0] * len(graph.ops)
        """The operators that depend on each one, itself included, as bits."""
        for index in range(len(graph.ops) - 1, -1, -1):
            self.below[index] |= 1 << index
            for feeder in self.feeds[index]:
                self.below[feeder] |= self.below[index]

    @cached_property
    def counts(self) -> dict[bytes, list[int]]:
        """Operators by what their weights hold."""
        held: dict[bytes, list[int]] = defaultdict(list)
        for index, op in enumerate(self.graph.ops):
            counts = counts_of_operator(self.graph, op)
            if counts is not None:
                held[counts].append(index)
        return held

    def is_view(self, index: int) -> bool:
        """Whether an operator need not do anything."""
        row = BY_NAME.get(self.graph.ops[index].kind)
        return row is not None and row.cost is Cost.VIEW

    def has_constant_weights(self, index: int) -> bool:
        op = self.graph.ops[index]
        return op.kind in WEIGHTED and any(
            self.graph.tensors[op.inputs[position]].is_constant for position in inputs_with(Role.WEIGHTS, op)
        )

    def readers(self, tensor: int) -> frozenset[int]:
        """The operators that read a tensor."""
        return frozenset(index for index, op in enumerate(self.graph.ops) if tensor in op.inputs)

    def is_next(self, first: int, last: int) -> bool:
        """Whether `last` reads the result of `first`, as it is or moved about."""
        waiting, seen = [last], {last}
        while waiting:
            for feeder in self.feeds[waiting.pop()]:
                if feeder == first:
                    return True
                if feeder not in seen and (self.is_view(feeder) or self.graph.ops[feeder].kind in MOVES):
                    seen.add(feeder)
                    waiting.append(feeder)
        return False


def is_table(op: Op) -> bool:
    """Whether an operator is a function of one value, which its maker may apply."""
    row = BY_NAME.get(op.kind)
    return row is not None and (row.is_lut or row.cost is Cost.TABLE)
