"""Where a compiled file keeps its NPU jobs: command streams, regions, and the places of feature maps in the arena.

Read-only facts of the file; `sim.delegate` executes the same jobs on live tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from npu.errors import StreamError, stream_errors_at
from npu.graph.ethos_u import Input, Region, arena_offsets, is_npu_job
from npu.graph.graph import Graph, Model
from npu.isa.payload import Payload, parse_payload

_SEPARATE_FLAG = 2
"""Feature flag of payloads that keep inputs and outputs in regions of their own."""


@dataclass(frozen=True, slots=True)
class NpuJob:
    """One `ethos-u` operator of a compiled graph.

    `region_bytes` gives the size of regions 0 (constants), 1 (arena) and 2 (fast, the arena again where they are one), and of
    3 (inputs) and 4 (outputs) where the payload keeps them apart. `inputs` and `outputs` are (region, start, end)
    of the feature maps that the job exchanges with the rest.
    """

    graph: int
    index: int
    payload: Payload
    region_bytes: dict[int, int]
    inputs: tuple[tuple[int, int, int], ...]
    outputs: tuple[tuple[int, int, int], ...]
    names: dict[tuple[int, int, int], str] = field(default_factory=dict)
    """Tensor names of `inputs` and `outputs`."""


def payload_of(graph: Graph, index: int) -> Payload:
    """The driver payload of operator `index`; StreamError if it has none."""
    op = graph.ops[index]
    tensor = graph.tensors[op.inputs[Input.COMMANDS]] if op.inputs and op.inputs[Input.COMMANDS] >= 0 else None
    if tensor is None or tensor.data is None:
        raise StreamError(f"{job_title(index)}: its first input must be a constant tensor with the command stream")
    with stream_errors_at(job_title(index), operator=index):
        return parse_payload(tensor.data.tobytes())


def job_title(index: int) -> str:
    """What messages call operator `index` of a compiled file."""
    return f"operator {index} (ethos-u)"


def regions_of_maps(payload: Payload) -> tuple[int, int]:
    """The regions in which a job's stream finds its inputs and its outputs.

    Both are the arena, unless the payload keeps them in regions of their own, as Vela 5.2's does with `--separate-io-regions`.
    """
    return (Region.INPUTS, Region.OUTPUTS) if payload.feature_flags & _SEPARATE_FLAG else (Region.ARENA, Region.ARENA)


def jobs_of(model: Model) -> Iterator[NpuJob]:
    """The NPU jobs of a compiled model in file order. StreamError for a malformed operator, ModelError for metadata."""
    first = 0
    for number, graph in enumerate(model.graphs):
        for index, op in enumerate(graph.ops):
            if is_npu_job(op):
                yield _job(model, number, index, first)
        first += len(graph.tensors)


def _job(model: Model, number: int, index: int, first: int) -> NpuJob:
    graph, op = model.graphs[number], model.graphs[number].ops[index]
    if len(op.inputs) < Input.FIRST_MAP or min(op.inputs) < 0:
        raise StreamError(f"{job_title(index)}: must have at least {Input.FIRST_MAP} inputs, got {len(op.inputs)}")
    offsets = arena_offsets(model)
    size = [tensor.bytes for tensor in graph.tensors]
    regions: dict[int, int] = {
        Region.CONSTANTS: size[op.inputs[Input.CONSTANTS]],
        Region.ARENA: size[op.inputs[Input.SCRATCH]],
        Region.FAST: size[op.inputs[Input.FAST_SCRATCH]],
    }
    origin = max(0, int(offsets[first + op.inputs[Input.SCRATCH]]))
    payload = payload_of(graph, index)

    def places(indices: tuple[int, ...], region: int) -> tuple[tuple[int, int, int], ...]:
        base = origin if region == Region.ARENA else 0
        held = [(int(offsets[first + each]) - base, size[each]) for each in indices if int(offsets[first + each]) >= 0]
        if any(start < 0 for start, _ in held):
            raise StreamError(f"{job_title(index)}: its feature maps must lie in its scratch, got one before it")
        return tuple((region, start, start + length) for start, length in held)

    for_inputs, for_outputs = regions_of_maps(payload)
    inputs, outputs = places(op.inputs[Input.FIRST_MAP :], for_inputs), places(op.outputs, for_outputs)
    for held in (inputs, outputs):
        if held and held[0][0] != Region.ARENA:
            regions[held[0][0]] = -(-max(end for _, _, end in held) // 16) * 16
    kept = [each for each in (*op.inputs[Input.FIRST_MAP :], *op.outputs) if int(offsets[first + each]) >= 0]
    names = {place: graph.tensors[each].name for place, each in zip((*inputs, *outputs), kept, strict=True)}
    return NpuJob(number, index, payload, regions, inputs, outputs, names)
