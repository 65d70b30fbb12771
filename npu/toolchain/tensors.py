"""Every tensor of one inference of a compiled file: what each NPU operation wrote, and what the interpreter holds.

The feature maps of NPU operations are copied right after the operation, before the arena is used again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from npu.graph.graph import Model
from npu.isa.decoded import Decoded
from npu.isa.operations import FeatureMap, KernelOperation, Operation
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.reports.operator_map import OperatorMap
from npu.runtime.interpreter import CpuInterpreter
from npu.toolchain.labels import Label, label
from sim.container import CompiledFile, NpuJob
from sim.machine import Machine
from sim.memory import NpuMemory

_NAME_LENGTH = 80


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """What one NPU operation wrote: `values` are (height, width, depth) in the map's type."""

    job: NpuJob
    index: int
    decoded: Decoded
    operation: KernelOperation
    label: Label
    values: Array


class Recorder:
    """A hook of the delegate that keeps what every operation writes; jobs run in file order, each from its first operation."""

    def __init__(self, file: CompiledFile, operators: OperatorMap | None) -> None:
        """`operators` name what is written, None if nobody knows."""
        self.written: list[Written] = []
        self._machine = Machine(file.variant)
        self._jobs: list[tuple[NpuJob, tuple[Decoded, ...], list[Label]]] = []
        self._job = -1
        for job in file.jobs():
            decoded = file.operations(job.graph, job.index)
            self._jobs.append((job, decoded, label(decoded, job, operators)))

    def hook(self, index: int, operation: Operation, memory: NpuMemory) -> None:
        """See `sim.machine.Hook`."""
        if index == 0:
            self._job = (self._job + 1) % len(self._jobs)
        job, decoded, labels = self._jobs[self._job]
        if isinstance(operation, KernelOperation) and (stored := operation.stored_ofm) is not None:
            values = self._machine.feature_map(stored, memory).copy()
            self.written.append(Written(job, index, decoded[index], operation, labels[index], values))


def kind_of(operation: KernelOperation) -> str:
    """The operation with its mode: "Pooling AVERAGE"."""
    mode = getattr(operation, "mode", None)
    return type(operation).__name__ + (f" {mode.name}" if mode is not None else "")


def named_tensors(model: Model, interpreter: CpuInterpreter, written: Sequence[Written]) -> dict[str, Array]:
    """Arrays by telling file names, in execution order of the NPU's and then by tensor index of the interpreter's.

    `npu_<operator>_<operation>_<kind>_<tensor>` are feature maps of NPU operations, `tensor_<index>_<name>` the computed
    tensors of the main graph, in the shapes of the file.
    """
    tensors: dict[str, Array] = {}
    for write in written:
        name = write.label.names.get("OFM", "")
        tensors[_file_name(f"npu_{write.job.index:03d}_{write.index:05d}", kind_of(write.operation), name)] = write.values
    graph = model.graphs[0]
    for index in sorted({*graph.inputs, *(output for op in graph.ops for output in op.outputs if output >= 0)}):
        tensor = graph.tensors[index]
        if tensor.data is None and tensor.dtype.numpy is not None:
            tensors[_file_name(f"tensor_{index:04d}", tensor.name)] = np.array(interpreter.get_tensor(index))
    return tensors


def _file_name(*parts: str) -> str:
    text = "_".join(part for part in parts if part)
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)[:_NAME_LENGTH].rstrip("_.")


def offset_in(fm: FeatureMap, base: int) -> tuple[int, int, int] | None:
    """Row, column and channel at which a map begins inside the one that begins at address `base` with the same strides."""
    distance = fm.addresses[0] - base
    if distance < 0 or fm.stride_y <= 0:
        return None
    row, rest = divmod(distance, fm.stride_y)
    if fm.layout.name == "NHCWB16":
        brick, rest = divmod(rest, fm.stride_c) if fm.stride_c > 0 else (0, rest)
        column, rest = divmod(rest, 16 * fm.element.bytes)
        return row, column, brick * 16 + rest // fm.element.bytes
    column, rest = divmod(rest, fm.stride_x) if fm.stride_x > 0 else (0, rest)
    return row, column, rest // fm.element.bytes
