"""A compiled file and its NPU jobs: command streams, regions, and the places of feature maps in the arena.

Read-only facts of the file; `sim.delegate` binds them to live tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from npu.errors import StreamError, stream_errors_at
from npu.graph.ethos_u import Input, Region, arena_offsets, is_npu_job
from npu.graph.graph import Graph, Model
from npu.hardware.variant import Variant
from npu.isa.decoded import Decoded
from npu.isa.payload import Payload, parse_payload
from npu.isa.stream import CommandStream
from npu.records import dataclass

if TYPE_CHECKING:
    from sim.trace import Trace  # for who times a file

_SEPARATE_FLAG = 2
"""Feature flag of payloads that keep inputs and outputs in regions of their own."""

Place = tuple[int, int, int]
"""Region, first byte, end."""

OperatorKey = tuple[int, int]
"""Where an operator stands: the number of its graph, and its index there."""


@dataclass(frozen=True, slots=True)
class JobMap:
    """A feature map that a job exchanges with the rest: tensor `index` of the job's graph."""

    index: int
    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class NpuJob:
    """One `ethos-u` operator of a compiled graph.

    `region_bytes` gives the size of regions 0 (constants), 1 (arena) and 2 (fast, the arena again where they are one), and of
    3 (inputs) and 4 (outputs) where the payload keeps them apart. `inputs` and `outputs` are those that have
    a place in a region.
    """

    graph: int
    index: int
    payload: Payload
    region_bytes: dict[int, int]
    inputs: tuple[JobMap, ...]
    outputs: tuple[JobMap, ...]

    @property
    def given(self) -> list[Place]:
        """What holds data before the job runs: its constants and its inputs."""
        return [(Region.CONSTANTS, 0, self.region_bytes[Region.CONSTANTS]), *(given.place for given in self.inputs)]


class CompiledFile:
    """A compiled model on the hardware that it runs on: payloads are parsed once, command streams decoded once.

    A model without NPU jobs is one too. StreamError for an operator without a payload, or with a malformed one.
    """

    def __init__(self, model: Model, variant: Variant, streams: Mapping[OperatorKey, CommandStream] | None = None) -> None:
        """`streams` are those of the jobs, from a compiler that has just made them."""
        self.model = model
        self.variant = variant
        self._payloads = {(number, index): payload_of(model.graphs[number], index) for number, index in npu_operators(model)}
        if streams is None:
            streams = {key: CommandStream(payload.words, variant) for key, payload in self._payloads.items()}
        self._streams = streams
        self.traces: dict[tuple[int, int, bool], Trace] = {}
        """Times of the streams that have been timed: with the place of the job, whether with events."""

    def jobs(self) -> Iterator[NpuJob]:
        """The NPU jobs in file order. Errors are those of `jobs_of`."""
        return (self.job(*key) for key in self._payloads)

    def job(self, graph: int, index: int) -> NpuJob:
        """The job that is operator `index` of a graph."""
        return _job(self.model, graph, index, self._payloads[graph, index])

    def stream(self, graph: int, index: int) -> CommandStream:
        """The command stream of a job."""
        return self._streams[graph, index]

    def operations(self, graph: int, index: int) -> tuple[Decoded, ...]:
        """What a job does. StreamError for words that are no command stream."""
        with stream_errors_at(job_title(index)):
            return self._streams[graph, index].operations


def npu_operators(model: Model) -> Iterator[OperatorKey]:
    """Where the `ethos-u` operators of a model stand, in file order."""
    return (
        (number, index) for number, graph in enumerate(model.graphs) for index, op in enumerate(graph.ops) if is_npu_job(op)
    )


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


def jobs_of(model: Model) -> Iterator[NpuJob]:
    """The NPU jobs of a compiled model in file order. StreamError for a malformed operator, ModelError for metadata."""
    return (job_of(model, *key) for key in npu_operators(model))


def job_of(model: Model, number: int, index: int) -> NpuJob:
    """The job that is operator `index` of graph `number`. Errors are those of `jobs_of`."""
    return _job(model, number, index, None)


def _job(model: Model, number: int, index: int, payload: Payload | None) -> NpuJob:
    graph, op = model.graphs[number], model.graphs[number].ops[index]
    if len(op.inputs) < Input.FIRST_MAP or min(op.inputs) < 0:
        raise StreamError(f"{job_title(index)}: must have at least {Input.FIRST_MAP} inputs, got {len(op.inputs)}")
    offsets = arena_offsets(model)[sum(len(other.tensors) for other in model.graphs[:number]) :]
    positions = {Region.CONSTANTS: Input.CONSTANTS, Region.ARENA: Input.SCRATCH, Region.FAST: Input.FAST_SCRATCH}
    sizes: dict[int, int] = {region: graph.tensors[op.inputs[position]].bytes for region, position in positions.items()}
    constants = graph.tensors[op.inputs[Input.CONSTANTS]]
    if sizes[Region.CONSTANTS] and constants.data is None:  # its shape may be any, and nobody has made room for it
        raise StreamError(f"{job_title(index)}: read-only tensor '{constants.name}' must be a constant, got a computed one")
    origin = max(0, int(offsets[op.inputs[Input.SCRATCH]]))
    payload = payload_of(graph, index) if payload is None else payload

    def maps(indices: tuple[int, ...], region: int) -> Iterator[JobMap]:
        for tensor in indices:
            start = int(offsets[tensor]) - (origin if region == Region.ARENA else 0)
            if int(offsets[tensor]) < 0:
                continue
            if start < 0:
                raise StreamError(f"{job_title(index)}: its feature maps must lie in its scratch, got one before it")
            end = start + graph.tensors[tensor].bytes
            if region != Region.ARENA:
                sizes[region] = max(sizes.get(region, 0), -(-end // 16) * 16)
            yield JobMap(tensor, graph.tensors[tensor].name, (region, start, end))

    for_inputs, for_outputs = _regions_of_maps(payload)
    inputs, outputs = tuple(maps(op.inputs[Input.FIRST_MAP :], for_inputs)), tuple(maps(op.outputs, for_outputs))
    return NpuJob(number, index, payload, sizes, inputs, outputs)


def _regions_of_maps(payload: Payload) -> tuple[int, int]:
    """The regions in which a job's stream finds its inputs and its outputs.

    Both are the arena, unless the payload keeps them in regions of their own, as Vela 5.2's does with `--separate-io-regions`.
    """
    return (Region.INPUTS, Region.OUTPUTS) if payload.feature_flags & _SEPARATE_FLAG else (Region.ARENA, Region.ARENA)
