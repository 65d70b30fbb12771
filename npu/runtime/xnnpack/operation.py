"""One operator inside a partition: either run by the reference kernels, or compiled to job rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from npu.numerics.arrays import Array
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.registry import find_operator
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.kernels.row import JOB
from npu.runtime.xnnpack.memory import Workspace

Words = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]


class XnnpackOperation(ABC):
    """`prepare` once per allocation, after the operations before it; `run` once per invoke."""

    def __init__(self, index: int, node: OperatorNode) -> None:
        self.index = index
        self.node = node
        self.name = node.kind

    @abstractmethod
    def prepare(self) -> None:
        """Set output shapes and give outputs buffers. InterpreterError names the operator and what does not fit."""

    @abstractmethod
    def run(self) -> None:
        """Read the inputs, write the outputs."""


class ReferenceOperation(XnnpackOperation):
    """Runs the reference kernel of the operator."""

    _run: Run

    def prepare(self) -> None:
        self._run = find_operator(self.node.kind, self.node.label).prepare(self.node)

    def run(self) -> None:
        self._run()


class CompiledOperation(XnnpackOperation):
    """Describes itself as job rows with absolute addresses. Falls back on the reference kernel for shapes it does not cover.

    Indirection tables are kept, or with `transient` built in `workspace` for every run.
    """

    def __init__(self, index: int, node: OperatorNode, workspace: Workspace, *, transient: bool) -> None:
        super().__init__(index, node)
        self.rows: Rows = np.zeros(0, JOB)
        self.indirection_bytes = 0
        self.is_transient = transient
        self._workspace = workspace
        self._fallback: Run | None = None
        self._bound: tuple[Array, ...] = ()
        self._kept: list[Array] = []

    @property
    def is_compiled(self) -> bool:
        """Whether `rows` is what runs."""
        return self._fallback is None

    def prepare(self) -> None:
        self._fallback = None
        self._bound, self._kept = (), []
        if not self.shape():
            self._fallback = find_operator(self.node.kind, self.node.label).prepare(self.node)

    @abstractmethod
    def shape(self) -> bool:
        """Set the output's shape; False if the reference kernel shall take the operator."""

    @abstractmethod
    def bind(self) -> None:
        """Fill `rows` for the current buffers; buffers made here go to `keep`."""

    def watched(self) -> tuple[RuntimeTensor, ...]:
        """Tensors whose buffers the rows name."""
        computed = (tensor for tensor in self.node.inputs if tensor is not None and not tensor.is_constant)
        return (*computed, *self.node.outputs)

    def refresh(self) -> None:
        """Bind again if a buffer has moved."""
        current = tuple(tensor.array for tensor in self.watched())
        if len(current) == len(self._bound) and all(a is b for a, b in zip(current, self._bound, strict=True)):
            return
        self._kept = []
        self.bind()
        self._bound = current

    def keep(self, array: Array) -> Array:
        """Hold a buffer that a row names."""
        self._kept.append(array)
        return array

    def table(self, count: int) -> Words:
        """Room for an indirection table of `count` addresses."""
        self.indirection_bytes = 8 * count
        if self.is_transient:
            return self._workspace.words(count)
        words = np.zeros(count, np.int64)
        self._kept.append(words)
        return words

    def run(self) -> None:
        """The reference kernel; rows are run by the partition."""
        assert self._fallback is not None, f"{self.node.label} is compiled"
        self._fallback()
