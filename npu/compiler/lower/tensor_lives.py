"""When the memory of each tensor of a partition is in use, before anything is lowered or cut in stripes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from npu.compiler.allocate import LiveRange, live_bytes
from npu.compiler.lifetime import LogicalBuffer, root_of
from npu.graph.graph import ABSENT, Graph


class TensorLives:
    """When the memory of each tensor is in use while operators run one after the other, and its bytes.

    `same` are pairs of tensors that use the same memory: views, and what is fused.
    """

    def __init__(self, graph: Graph, ops: Sequence[int], outputs: Iterable[int], same: Iterable[tuple[int, int]]) -> None:
        self._events, self._spans = len(ops), dict[int, LiveRange]()
        for event, index in enumerate(ops):
            self._use(graph, graph.ops[index].inputs, 0, event)
            self._use(graph, graph.ops[index].outputs, event, event)
        self._use(graph, self._spans.keys() & set(outputs), 0, len(ops) - 1)
        self._owner: dict[LogicalBuffer, LogicalBuffer] = {tensor: tensor for tensor in self._spans}
        for pair in same:
            if self._owner.keys() >= set(pair):
                _share(self._owner, *pair)

    def _use(self, graph: Graph, tensors: Iterable[int], made: int, event: int) -> None:
        """Notes that tensors are used at an event, and made at another if nothing is known of them."""
        for tensor in tensors:
            if tensor != ABSENT and not graph.tensors[tensor].is_constant:
                known = self._spans.get(tensor, LiveRange(graph.tensors[tensor].bytes, made, event))
                self._spans[tensor] = known.joined(LiveRange(0, known.first, event))

    def size(self, tensor: int) -> int:
        """Bytes of a tensor."""
        return self._spans[tensor].size_bytes

    def made(self, tensor: int) -> int:
        """The event that makes a tensor."""
        return self._spans[tensor].first

    def last(self, tensor: int) -> int:
        """The last event that uses the memory of a tensor."""
        root = root_of(self._owner, tensor)
        return max(span.last for other, span in self._spans.items() if root_of(self._owner, other) == root)

    def usage(self, nest: Mapping[int, int]) -> list[int]:
        """Bytes at every event, where tensors live inside others."""
        owner, spans = dict(self._owner), dict[LogicalBuffer, LiveRange]()
        for tensor, parent in nest.items():
            _share(owner, tensor, parent)
        for tensor, span in self._spans.items():
            root = root_of(owner, tensor)
            spans[root] = span.joined(spans.get(root, span))
        return live_bytes(list(spans.values()), self._events)


def _share(owner: dict[LogicalBuffer, LogicalBuffer], tensor: int, other: int) -> None:
    """Let a tensor use the memory of another."""
    owner[root_of(owner, tensor)] = root_of(owner, other)
