"""One arena for the intermediate tensors of a subgraph, where those that do not live at the same time share bytes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from npu.graph.graph import ABSENT
from npu.numerics.arrays import Array
from npu.runtime.arena import ALIGNMENT, Lifetime, lifetimes, plan_arena
from npu.runtime.delegate import Node
from npu.runtime.tensor import RuntimeTensor


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros where no vector of numbers lies on two cache lines."""
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not size:
        return np.zeros(shape, dtype)
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


_BLOCK_BYTES = 4 << 20
"""Of memory that tensors without a place in the arena get their own from: the system gives it page by page when it is used."""


class SharedMemory:
    """Nothing is shared until `place`."""

    def __init__(self) -> None:
        self._block = np.zeros(0, np.uint8)
        self._arena = np.zeros(0, np.uint8)
        self._overwritten: frozenset[int] = frozenset()

    def place(self, tensors: Sequence[RuntimeTensor], nodes: Sequence[Node], foreign: Collection[int], *, share: bool) -> None:
        """Move what `nodes`, in their order, compute into an arena, except `foreign` tensors; without `share`, nothing.

        Constants, variables and tensors whose shape is not known yet keep memory of their own.
        """
        if not share:
            self._arena, self._overwritten = np.zeros(0, np.uint8), frozenset()
            return
        sizes = _sizes(tensors, nodes, foreign)
        steps = [([i for i in node.inputs if i != ABSENT], [i for i in node.outputs if i != ABSENT]) for node in nodes]
        spans = lifetimes(steps, sizes)
        offsets, total = plan_arena(spans)
        self._arena = aligned_zeros((total,), np.dtype(np.uint8))
        for index, start in offsets.items():
            tensor = tensors[index]
            tensor.data = self._arena[start : start + sizes[index]].view(tensor.array.dtype).reshape(tensor.shape)
        self._overwritten = _overwritten(spans, offsets)

    def own(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """`aligned_zeros` that nothing else uses; what is small comes out of one block, since to ask for memory takes time."""
        size = math.prod(shape) * dtype.itemsize
        room = -(-size // ALIGNMENT) * ALIGNMENT
        if dtype.hasobject or not 0 < room * 8 <= _BLOCK_BYTES:
            return aligned_zeros(shape, dtype)
        if room > len(self._block):
            self._block = aligned_zeros((_BLOCK_BYTES,), np.dtype(np.uint8))
        memory, self._block = self._block[:size], self._block[room:]
        return memory.view(dtype).reshape(shape)

    @property
    def bytes(self) -> int:
        """Of the arena."""
        return self._arena.nbytes

    def bytes_of(self, tensors: Sequence[RuntimeTensor]) -> int:
        """Of the arena and of all other buffers of `tensors` that are no constants."""
        own = (t.data.nbytes for t in tensors if t.data is not None and not t.is_constant and not self._holds(t))
        return self._arena.nbytes + sum(own)

    def is_overwritten(self, tensor: RuntimeTensor) -> bool:
        """Whether later tensors use the memory of this one, so that nothing can be read after a run."""
        return tensor.index in self._overwritten and self._holds(tensor)

    def _holds(self, tensor: RuntimeTensor) -> bool:
        return tensor.data is not None and np.may_share_memory(tensor.data, self._arena)


def _overwritten(spans: Sequence[Lifetime], offsets: Mapping[int, int]) -> frozenset[int]:
    """The tensors whose bytes one takes that is written later."""
    first = np.array([one.first for one in spans])
    start = np.array([offsets[one.tensor] for one in spans])
    end = start + np.array([one.size for one in spans])
    return frozenset(
        one.tensor
        for index, one in enumerate(spans)
        if ((first > one.first) & (start < end[index]) & (end > start[index])).any()
    )


def _sizes(tensors: Sequence[RuntimeTensor], nodes: Sequence[Node], foreign: Collection[int]) -> dict[int, int]:
    """Bytes of the tensors that the arena may hold."""
    written = {index for node in nodes for index in node.outputs if index != ABSENT}
    sizes = {}
    for index in sorted(written.difference(foreign)):
        tensor = tensors[index]
        fixed = not (tensor.is_constant or tensor.is_variable or tensor.is_dynamic)
        if fixed and tensor.data is not None and tensor.data.nbytes and tensor.data.dtype != object:
            sizes[index] = tensor.data.nbytes
    return sizes
