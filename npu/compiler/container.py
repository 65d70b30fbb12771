"""The compiled model: operators of a partition become one `ethos-u` operator with the tensors that the driver expects.

What such an operator looks like is in `npu.graph.ethos_u`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import Program
from npu.graph.dtype import DType
from npu.graph.ethos_u import ARENA_METADATA, CUSTOM_CODE, CUSTOM_OPTIONS, arena_metadata
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.records import dataclass

_UNPLANNED = -1
NO_BYTES: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
"""The constants of NPU jobs where there are none."""


@dataclass(frozen=True, slots=True, eq=False)
class NpuOperator:
    """One `ethos-u` operator to be: its program's boundary and its driver payload."""

    program: Program
    payload: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Rebuilt:
    """A compiled graph, the arena offset of each of its tensors, and where each source operator or job went.

    `jobs[i]` is the operator index of job i; `cpu_source_of` maps operator index to source operator index.
    """

    graph: Graph
    offsets: tuple[int, ...]
    jobs: tuple[int, ...]
    cpu_source_of: Mapping[int, int]
    tensor_of: Mapping[int, int]


def rebuild_graph(
    graph: Graph,
    order: Sequence[int | NpuOperator],
    read_only: npt.NDArray[np.uint8],
    arena_bytes: int,
    fast_bytes: int | None,
    offsets: Mapping[int, int],
) -> Rebuilt:
    """The graph that runs `order`: source operators by index, and NPU jobs.

    `fast_bytes` None means that fast scratch and scratch are the same tensor. `offsets` are arena offsets of source tensors.
    """
    builder = _GraphBuilder(graph, offsets)
    ops: list[Op] = []
    jobs: list[int] = []
    cpu_source_of: dict[int, int] = {}
    shared: tuple[int, int, int] | None = None
    for entry in order:
        if isinstance(entry, NpuOperator):
            payload = _bytes_tensor(f"ethos-u/{len(jobs)}/command_stream", np.frombuffer(entry.payload, np.uint8))
            stream = builder.add(payload, _UNPLANNED)
            if shared is None:
                shared = _shared_tensors(builder, read_only, arena_bytes, fast_bytes)
            inputs = tuple(builder.map(tensor) for tensor, _ in entry.program.inputs)
            outputs = tuple(builder.map(tensor) for tensor, _ in entry.program.outputs)
            jobs.append(len(ops))
            ops.append(
                Op("CUSTOM", (stream, *shared, *inputs), outputs, custom_code=CUSTOM_CODE, custom_options=CUSTOM_OPTIONS)
            )
        else:
            for source, op in _as_in_file(graph, entry, cpu_source_of.values()):
                inputs, outputs = builder.map_all(op.inputs), builder.map_all(op.outputs)
                cpu_source_of[len(ops)] = source
                ops.append(replace(op, inputs=inputs, outputs=outputs, intermediates=builder.map_all(op.intermediates)))
    inputs, outputs = builder.map_all(graph.inputs), builder.map_all(graph.outputs)
    rebuilt = replace(graph, tensors=tuple(builder.tensors), ops=tuple(ops), inputs=inputs, outputs=outputs)
    return Rebuilt(rebuilt, tuple(builder.offsets), tuple(jobs), cpu_source_of, builder.index)


def _as_in_file(graph: Graph, index: int, written: Collection[int]) -> Iterator[tuple[int, Op]]:
    """An operator of the CPU; one that would look something up as the operators that the file has, with their numbers."""
    op = graph.ops[index]
    if op.lookup is None:
        yield index, op
        return
    missing = graph.unneeded.intersection(op.lookup.before).difference(written)
    yield from ((before, graph.ops[before]) for before in sorted(missing))
    yield index, op.lookup.whole


class _GraphBuilder:
    """Tensors of the new graph in the order in which operators first mention them."""

    def __init__(self, graph: Graph, planned: Mapping[int, int]) -> None:
        self._graph = graph
        self._planned = planned
        self.tensors: list[Tensor] = []
        self.offsets: list[int] = []
        self.index: dict[int, int] = {}

    def add(self, tensor: Tensor, offset: int) -> int:
        self.tensors.append(tensor)
        self.offsets.append(offset)
        return len(self.tensors) - 1

    def map(self, source: int) -> int:
        if source == ABSENT:
            return ABSENT
        if source not in self.index:
            self.index[source] = self.add(self._graph.tensors[source], self._planned.get(source, _UNPLANNED))
        return self.index[source]

    def map_all(self, sources: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.map(source) for source in sources)


def _shared_tensors(
    builder: _GraphBuilder, read_only: npt.NDArray[np.uint8], arena_bytes: int, fast_bytes: int | None
) -> tuple[int, int, int]:
    """Read-only, scratch and fast scratch, which every job of the graph uses."""
    constants = builder.add(_bytes_tensor("ethos-u/read_only", read_only), _UNPLANNED)
    scratch = builder.add(Tensor("ethos-u/scratch", (arena_bytes,), DType.UINT8), 0)
    if fast_bytes is None:
        return constants, scratch, scratch
    return constants, scratch, builder.add(Tensor("ethos-u/scratch_fast", (fast_bytes,), DType.UINT8), 0)


def _bytes_tensor(name: str, data: npt.NDArray[np.uint8]) -> Tensor:
    return Tensor(name, (data.size,), DType.UINT8, data=data if data.size else None)


def rebuild_model(model: Model, rebuilt: Sequence[Rebuilt]) -> Model:
    """The model of the rebuilt graphs, with the arena offsets of all tensors as metadata, and signatures that can be called."""
    offsets = [offset for one in rebuilt for offset in one.offsets]
    metadata = {name: data for name, data in model.metadata.items() if name != ARENA_METADATA}
    metadata[ARENA_METADATA] = arena_metadata(len(rebuilt), offsets)
    signatures = tuple(
        replace(
            signature,
            inputs={name: rebuilt[signature.graph].tensor_of[tensor] for name, tensor in signature.inputs.items()},
            outputs={name: rebuilt[signature.graph].tensor_of[tensor] for name, tensor in signature.outputs.items()},
        )
        for signature in model.signatures
        if signature.defect(model.graphs[signature.graph]) is None
    )
    graphs = tuple(one.graph for one in rebuilt)
    return replace(model, graphs=graphs, signatures=signatures, metadata=metadata, description="npulab compiled")
