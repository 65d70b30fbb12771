"""What a compilation yields: the only place that says what the tools after the compiler may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from npu.compiler.ir import Program
from npu.compiler.memory_map import MemoryMap
from npu.graph.graph import Model
from npu.graph.placement import Placement
from npu.isa.operations import Operation
from npu.isa.stream import CommandStream
from npu.records import dataclass

_NOTHING_PLANNED = MemoryMap()
NO_SOURCE = -1
"""`source_of` of an operation that belongs to no operator (the end of the stream)."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPartition:
    """One `ethos-u` operator: operators `ops` of source subgraph `graph`, compiled.

    `op_index` says where the operator stands in the compiled subgraph. `source_of[i]` is the source
    operator's index that `operations[i]` works for, NO_SOURCE if none. `payload` is the driver payload with the
    command stream `stream`.
    """

    graph: int
    ops: tuple[int, ...]
    op_index: int
    program: Program
    operations: tuple[Operation, ...]
    source_of: tuple[int, ...]
    payload: bytes
    stream: CommandStream


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory of the compiled model in bytes.

    `arena_bytes`: size of the scratch tensor, region 1, with every computed tensor of the model in it. `fast_bytes`: size of
    region 2 where it is a memory of its own, else 0. `read_only_bytes`: the shared constants tensor. `command_stream_bytes`:
    all driver payloads. `cpu_constant_bytes`: constants that remaining CPU operators read.
    """

    arena_bytes: int
    fast_bytes: int
    read_only_bytes: int
    command_stream_bytes: int
    cpu_constant_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class CompiledModel:
    """A compiled model and everything that reports say about it.

    `source` is the model as given, `placement` the one that was honoured: operators that had to stay on the CPU for lack of
    memory carry a violation that says so. `cpu_source_of` maps the index of each operator of the compiled main subgraph that
    is not an `ethos-u` job to the index of the same operator in the source's main subgraph. `memory` says what lies where.
    """

    model: Model
    source: Model
    placement: Placement
    partitions: tuple[CompiledPartition, ...]
    usage: Usage
    cpu_source_of: Mapping[int, int] = field(default_factory=dict)
    memory: MemoryMap = _NOTHING_PLANNED
