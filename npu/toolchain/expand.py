"""expand: a compiled file with every operation of the NPU as a node of its own, for viewers of graphs.

The nodes of a job are the operations of its command stream. What a node reads is known by the bytes: an edge leads from each
operation that wrote some of them last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from npu.graph.dtype import DType
from npu.graph.ethos_u import Region, is_npu_job
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.isa.operations import Dma, ElementType, FeatureMap, KernelOperation, Operation, WeightedOperation, WindowOperation
from npu.isa.summary import place_of_map
from npu.numerics.arrays import distinct
from npu.records import dataclass
from npu.tflite.writer import write_model
from npu.toolchain.executable import prepare
from npu.toolchain.session import Executable, Session
from npu.toolchain.sources import Source
from npu.toolchain.tasks import TimedStream, time_streams
from npu.toolchain.tensors import kind_of
from sim.container import NpuJob
from sim.trace import TraceColumn
from sim.verify.footprint import SHRAM, ByteSet, footprint

AttributeTexts = dict[str, str]


@dataclass(frozen=True, slots=True)
class ExpandedTensor:
    """What a node makes, or the model is given: a tensor by name, shape and type."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class ExpandedNode:
    """An operator on the CPU, or an operation of the NPU with the operator that it works for in `owner`.

    `inputs` are numbers of values.
    """

    label: str
    owner: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: AttributeTexts


@dataclass(slots=True)
class Expanded:
    """The nodes of the main subgraph in order of execution, and their values; `inputs` and `outputs` are those of the model."""

    name: str
    values: list[ExpandedTensor] = field(default_factory=list)
    nodes: list[ExpandedNode] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def add(self, value: ExpandedTensor) -> int:
        """The number of a new value."""
        self.values.append(value)
        return len(self.values) - 1


def expand(model: Source, session: Session) -> Expanded:
    """The operations of a compiled file as a graph; a plain model is compiled first. StreamError for a malformed stream."""
    executable = prepare(model, session)
    file, graph = executable.file, executable.model.graphs[0]
    expanded = Expanded(executable.name)
    numbers = [expanded.add(ExpandedTensor(tensor.name, tensor.shape, tensor.dtype)) for tensor in graph.tensors]
    streams = time_streams(file)
    for index, op in enumerate(graph.ops):
        if is_npu_job(op):
            _OpenedJob(expanded, executable, file.job(0, index), streams[index], numbers).expand()
        else:
            given = tuple(numbers[tensor] for tensor in op.inputs if tensor != ABSENT)
            made = tuple(numbers[tensor] for tensor in op.outputs)
            expanded.nodes.append(ExpandedNode(op.name, "CPU", given, made, {"version": str(op.version)}))
    expanded.inputs, expanded.outputs = (tuple(numbers[k] for k in ends) for ends in (graph.inputs, graph.outputs))
    return expanded


class _OpenedJob:
    """One job on its way into nodes: `last` holds for every byte of a region which value was written there last.

    Constants have no node: nearly every operation reads some.
    """

    def __init__(self, expanded: Expanded, executable: Executable, job: NpuJob, timed: TimedStream, numbers: list[int]) -> None:
        self._expanded, self._job, self._timed, self._numbers = expanded, job, timed, numbers
        self._variant, self._operators = executable.variant, executable.operators
        sizes = {**job.region_bytes, SHRAM: self._variant.shram.total_bytes}
        self._last = {region: np.full(size, -1, np.int64) for region, size in sizes.items()}
        if not self._variant.memory_mode.has_separate_cache:
            self._last[Region.FAST] = self._last[Region.ARENA]

    def expand(self) -> None:
        """Add a node for every operation that moves data, and one for every map that several of them made."""
        for place in self._job.inputs:
            region, start, end = place.place
            self._last[region][start:end] = self._numbers[place.index]
        owners = self._operators.sources.get(self._job.index, ())
        for number, decoded in enumerate(self._timed.decoded):
            if isinstance(decoded.operation, Dma | KernelOperation):
                self._add(number, decoded.operation, owners[number] if number < len(owners) else -1)
        for place in self._job.outputs:
            region, start, end = place.place
            self._join(_writers(self._last[region][start:end]), self._numbers[place.index])

    def _add(self, number: int, operation: Operation, owner: int) -> None:
        touched = footprint(operation, self._variant)
        inputs = dict.fromkeys(value for _, part in touched.reads for value in self._readers(part))
        row = self._operators.operators[owner] if 0 <= owner < len(self._operators.operators) else None
        title = f"{row.index} {row.type} {row.name}" if row is not None else "of no operator"
        made = self._expanded.add(_made_by(operation, f"job {self._job.index} operation {number}"))
        for _, part in touched.writes:
            kept = self._window(part)
            if kept is not None:
                target, mask = kept
                target[mask] = made
        kind = kind_of(operation) if isinstance(operation, KernelOperation) else "DMA"
        attributes = {**dict(attributes_of(operation)), **self._times(number)}
        self._expanded.nodes.append(ExpandedNode(kind, title, tuple(inputs), (made,), attributes))

    def _times(self, number: int) -> AttributeTexts:
        start, end = (int(self._timed.trace.table[number, column]) for column in (TraceColumn.START, TraceColumn.END))
        return {"start cycle": str(start), "end cycle": str(end), "place": self._timed.decoded[number].place}

    def _readers(self, part: ByteSet) -> list[int]:
        kept = self._window(part)
        return [] if kept is None else _writers(kept[0][kept[1]])

    def _window(self, part: ByteSet) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
        """The bytes of a region that a part covers, as far as the region is known."""
        whole = self._last.get(part.region)
        if whole is None or part.start < 0 or part.end > whole.size:
            return None
        return whole[part.start : part.end], part.mask

    def _join(self, writers: list[int], output: int) -> None:
        """The node that stands for an output: its bytes are those that others have made."""
        self._expanded.nodes.append(ExpandedNode("output of the job", f"job {self._job.index}", tuple(writers), (output,), {}))


def _writers(last: NDArray[np.int64]) -> list[int]:
    """The values in a window, each once, without bytes that nobody wrote."""
    return [int(value) for value in distinct(last) if value >= 0]


def _made_by(operation: Operation, name: str) -> ExpandedTensor:
    if isinstance(operation, KernelOperation):
        ofm = operation.ofm
        return ExpandedTensor(name, (1, ofm.height, ofm.width, ofm.depth), _dtype(ofm.element))
    assert isinstance(operation, Dma)
    return ExpandedTensor(name, (operation.length_bytes * operation.rows * operation.planes,), DType.UINT8)


def _dtype(element: ElementType) -> DType:
    return DType[str(element).upper()]


def attributes_of(operation: Operation) -> Iterator[tuple[str, str]]:
    """What an operation does, as texts by name."""
    if isinstance(operation, KernelOperation):
        block = operation.block
        yield "block", f"{block.height} x {block.width} x {block.depth}"
        for name, fm in zip(("IFM", "IFM2"), operation.ifms, strict=False):
            yield name, _map_text(fm)
        yield "OFM", _map_text(operation.ofm)
        if operation.scale is not None:
            yield "scale", f"{operation.scale.scale} >> {operation.scale.shift}"
        activation = operation.activation
        yield "activation", f"{activation.function.name} [{activation.minimum}, {activation.maximum}]"
    if isinstance(operation, WindowOperation):
        kernel = operation.kernel
        yield "kernel", f"{kernel.height} x {kernel.width}, stride {kernel.stride_y} x {kernel.stride_x}"
    if isinstance(operation, WeightedOperation) and operation.weights:
        yield "encoded weights", f"{sum(part.length_bytes for part in operation.weights):,} bytes"


def _map_text(fm: FeatureMap) -> str:
    shape = f"{fm.height} x {fm.width} x {fm.depth} {fm.element}"
    return f"{shape} {place_of_map(fm)}, zero point {fm.zero_point}"


def to_tflite(expanded: Expanded) -> bytes:
    """A .tflite file for viewers such as Netron: custom operators with their attributes as a flexbuffer. Nothing can run it."""
    from flatbuffers import flexbuffers

    tensors = tuple(Tensor(value.name, value.shape, value.dtype) for value in expanded.values)
    ops = tuple(
        Op(
            "CUSTOM",
            node.inputs,
            node.outputs,
            custom_code=node.label,
            custom_options=bytes(flexbuffers.Dumps({"operator": node.owner, **node.attributes})),
        )
        for node in expanded.nodes
    )
    graph = Graph("main", tensors, ops, expanded.inputs, expanded.outputs)
    return write_model(Model((graph,), description=f"operations of {expanded.name}, for viewers"))


def to_model_explorer(expanded: Expanded) -> str:
    """The graph as Model Explorer reads it, nodes grouped by the operator of the source that they work for.

    The fields are those of the package ai-edge-model-explorer 0.1 (`model_explorer.graph_builder`).
    """
    made = {value: (index, place) for index, node in enumerate(expanded.nodes) for place, value in enumerate(node.outputs)}
    nodes = [
        {
            "id": str(index),
            "label": node.label,
            "namespace": node.owner.replace("/", "_"),
            "attrs": [{"key": key, "value": value} for key, value in node.attributes.items()],
            "incomingEdges": [_edge(value, place, made) for place, value in enumerate(node.inputs)],
            "outputsMetadata": [_metadata(place, expanded.values[value]) for place, value in enumerate(node.outputs)],
        }
        for index, node in enumerate(expanded.nodes)
    ]
    given = sorted({value for node in expanded.nodes for value in node.inputs} - made.keys())
    sources = [
        {
            "id": f"given {value}",
            "label": expanded.values[value].name,
            "outputsMetadata": [_metadata(0, expanded.values[value])],
        }
        for value in given
    ]
    return json.dumps({"label": expanded.name, "graphs": [{"id": "main", "nodes": [*sources, *nodes]}]}, indent=1) + "\n"


def _edge(value: int, place: int, made: dict[int, tuple[int, int]]) -> dict[str, str]:
    node, output = made.get(value, (None, 0))
    source = f"given {value}" if node is None else str(node)
    return {"sourceNodeId": source, "sourceNodeOutputId": str(output), "targetNodeInputId": str(place)}


def _metadata(place: int, value: ExpandedTensor) -> dict[str, object]:
    shape = " x ".join(map(str, value.shape))
    return {"id": str(place), "attrs": [{"key": "tensor_shape", "value": f"{value.dtype.name.lower()} {shape}"}]}
