"""How much memory the maps between the steps of one operator may take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from npu.compiler.lower.fusions import Fusions, in_one_place
from npu.compiler.lower.tensor_lives import TensorLives
from npu.graph.graph import ABSENT, Graph

_CUT = 2
"""Parts of the most that tensors take, of which stripes leave about one."""
_LEAST = 4
"""Parts of the bytes of an operator's tensors, of which its maps may always take one: else it would have too many steps."""

_SOME = 2
"""The same where more only saves reading weights again."""


class Rooms:
    """What the maps of each operator may take besides the tensors that are in use while it runs; worked out when asked for.

    All of the `budget`; where memory is dear (`is_small`), no more than other operators take when they are cut in stripes, or
    than its own tensors.
    """

    def __init__(self, graph: Graph, ops: Sequence[int], fusions: Fusions, budget: int, *, is_small: bool) -> None:
        self._graph, self._ops, self._fusions = graph, ops, fusions
        self._budget, self._is_small = budget, is_small

    @cached_property
    def _lives(self) -> TensorLives:
        same = in_one_place(self._graph, self._ops, self._fusions.carrier)
        return TensorLives(self._graph, self._ops, self._fusions.outputs, same)

    @cached_property
    def _usage(self) -> list[int]:
        return self._lives.usage({tensor: nest.parent for tensor, nest in self._fusions.nest.items()})

    def of(self, index: int) -> int:
        """Bytes for the maps of operator `index`: a part of its own tensors, however little there is."""
        used, most = self._usage[self._ops.index(index)], max(self._usage) // _CUT
        room, own = self._budget - used, self._own(index)
        return max(own // _LEAST, min(room, max(most - used, own)) if self._is_small else room)

    def granted(self, index: int, wanted: int) -> int:
        """Of the bytes that operator `index` wants, what it may have: all if others take more, else a part of its tensors."""
        is_free = not self._is_small or wanted <= max(self._usage) - self._usage[self._ops.index(index)]
        return wanted if is_free else min(wanted, self._own(index) // _SOME)

    def _own(self, index: int) -> int:
        """Bytes of an operator's maps."""
        op = self._graph.ops[index]
        tensors = (self._graph.tensors[tensor] for tensor in (*op.inputs, *op.outputs) if tensor != ABSENT)
        return sum(tensor.bytes for tensor in tensors if not tensor.is_constant)

    def beside(self, tensor: int) -> int:
        """Bytes of the budget that are free while a tensor is in use and all maps are whole; less than 0 if they exceed it."""
        return self._budget - max(self._usage[self._lives.made(tensor) : self._lives.last(tensor) + 1])
