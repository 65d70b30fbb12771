"""Data of tensors that delegates keep in buffers of their own: when they are copied to and from numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu.graph.graph import ABSENT
from npu.runtime.delegate import Context, Delegate, Node, Status
from npu.runtime.tensor import NO_BUFFER_HANDLE, RuntimeTensor

CheckStatus = Callable[[Status, str], None]
"""Raises unless a status is OK; the text says what was done."""


class BufferHandles:
    """The buffer handles of one subgraph's tensors."""

    def __init__(self, context: Context, check: CheckStatus) -> None:
        self._context = context
        self._check = check
        self._tensors_of: dict[int, tuple[tuple[RuntimeTensor, ...], tuple[RuntimeTensor, ...]]] = {}

    def forget(self) -> None:
        """The nodes may be others from now on."""
        self._tensors_of = {}

    def attach(self, tensor: RuntimeTensor, handle: int, delegate: Delegate | None) -> None:
        """Give a tensor a delegate's buffer; a former handle is freed."""
        old, owner = tensor.buffer_handle, tensor.delegate
        if old != NO_BUFFER_HANDLE and owner is not None and old != handle and owner.free_buffer_handle is not None:
            owner.free_buffer_handle(self._context, old)
        if delegate is None:
            tensor.data_is_stale = tensor.buffer_is_stale = False
        tensor.buffer_handle, tensor.delegate = handle, delegate

    def make_readable(self, tensor: RuntimeTensor) -> None:
        """Copy a delegate's newer data into the numpy array."""
        if not tensor.data_is_stale or tensor.delegate is None:
            return
        status = tensor.delegate.copy_from_buffer_handle(self._context, tensor.buffer_handle, tensor)
        self._check(status, f"copy from buffer handle {tensor.buffer_handle} of tensor {tensor.index} '{tensor.name}'")
        tensor.data_is_stale = False

    def _make_current(self, tensor: RuntimeTensor) -> None:
        """Copy newer numpy data into the delegate's buffer, if the delegate has a function for it."""
        delegate = tensor.delegate
        if not tensor.buffer_is_stale or delegate is None or delegate.copy_to_buffer_handle is None:
            return
        status = delegate.copy_to_buffer_handle(self._context, tensor.buffer_handle, tensor)
        self._check(status, f"copy to buffer handle {tensor.buffer_handle} of tensor {tensor.index} '{tensor.name}'")
        tensor.buffer_is_stale = False

    def before(self, node: Node) -> None:
        """Bring the inputs of a node to where it reads them; what it writes makes the other copies stale."""
        if node.index not in self._tensors_of:
            tensors = self._context.tensors
            self._tensors_of[node.index] = _of(tensors, node.inputs), _of(tensors, node.outputs)
        inputs, outputs = self._tensors_of[node.index]
        for tensor in inputs:
            if tensor.delegate is None:
                continue
            if tensor.delegate is node.delegate:
                self._make_current(tensor)
            else:
                self.make_readable(tensor)
        for tensor in outputs:
            if tensor.delegate is None:
                continue
            if tensor.delegate is node.delegate:
                tensor.buffer_is_stale = False
            else:
                tensor.mark_written()


def _of(tensors: Sequence[RuntimeTensor], indices: Sequence[int]) -> tuple[RuntimeTensor, ...]:
    """The tensors that may have two copies: no constants."""
    return tuple(tensors[index] for index in indices if index != ABSENT and not tensors[index].is_constant)
