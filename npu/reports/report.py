"""The report of a run, a compilation or a check: plain records and their JSON form, whose schema ships beside this file.

All cycles are ticks of the NPU clock (`clock_hz`), those of CPU operators too, so that they add up on one timeline.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu.digests import sha256
from npu.graph.ethos_u import Input, is_npu_job
from npu.graph.graph import ABSENT, Graph, Model, Tensor
from npu.graph.placement import Violation
from npu.hardware.variant import Variant
from npu.records import dataclass
from npu.tabular import Record, Tabular
from npu.version import __version__

if TYPE_CHECKING:
    from npu.compiler.compiled import Usage
    from npu.hardware.accuracy import TimingAccuracy
    from npu.reports.operator_map import OperatorMap
    from sim.timeline import OperatorTime, Timeline
    from sim.trace import Trace

HEAD = {"schema": "npulab-report-1", "npulab_version": __version__}
"""What every report begins with: the id of its schema, and who wrote it."""
SCHEMA_PATH = Path(__file__).with_name("report.schema.json")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that crossed a memory's port."""

    read: int = 0
    write: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport:
    """One operator of the source model (of a file that another compiler made: of its streams).

    `cycles` is what the operator adds to the total: overlapped time counts for the earlier operator. `span_cycles` is how
    long it is at work itself; `hidden_behind` the operator that nearly all of this counts for, None if it is not hidden.
    `absorbed_into` is the operator that does this one's work (fused), None if it has its own or became a memory view.
    Timing fields are None in a report that timed nothing.
    """

    index: int
    type: str
    name: str
    placement: str
    macs: int
    reasons: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    cycles: int | None = None
    span_cycles: int | None = None
    hidden_behind: int | None = None
    mac_utilisation: float | None = None
    bound_by: str | None = None
    bytes: Mapping[str, Traffic] = field(default_factory=dict)
    absorbed_into: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the model. Memory sizes in bytes, `time_ms` of one inference; None where not measured.

    `sram_bytes` and `dram_bytes` hold the arena and the fast cache, wherever the memory mode puts them; `flash_bytes` are the
    constants and command streams.
    """

    macs: int
    sram_bytes: int | None = None
    dram_bytes: int | None = None
    flash_bytes: int | None = None
    total_cycles: int | None = None
    npu_cycles: int | None = None
    cpu_cycles: int | None = None
    time_ms: float | None = None
    axi0_read_beats: int | None = None
    axi0_write_beats: int | None = None
    axi1_read_beats: int | None = None


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the CPU does around operators: copies of the model's inputs and outputs (`job` is None), cache maintenance, start
    and interrupt of NPU job number `job`. `relative_error` is the stated uncertainty of the CPU's figures.
    """

    what: str
    job: int | None
    cycles: int
    relative_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Tabular):
    """Everything that `--report` writes. Keys without a value are left out of the JSON form.

    `timing_error` is how far predictions for this target were from measurements; None where nothing was measured. `pmu` are
    the performance counters of all NPU jobs and of every operator (by its index). `notes` say what the simulator assumes of
    operations that no public description defines, and with what other memories a file was compiled.

    `memories` names the memory that holds constants, arena and cache. The digests, SHA-256, tell what the report is about: the
    model's file, all fields of the hardware (see `hardware_digest`) and, of a compilation, the file that it made.
    """

    kind: str
    model: str
    target: str
    system: str
    memory_mode: str
    memories: Mapping[str, str]
    clock_hz: int
    profile: str
    hardware_sha256: str = ""
    totals: Totals
    operators: tuple[OperatorReport, ...] = field(repr=False)
    model_sha256: str | None = None
    compiled_sha256: str | None = None
    overheads: tuple[Overhead, ...] | None = field(default=None, repr=False)
    timing_error: TimingAccuracy | None = None
    pmu: Mapping[str, Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] | None = None

    def records(self) -> list[Record]:
        """One row for each operator; `read_` and `write_` columns are bytes by memory."""
        memories = sorted({memory for row in self.operators for memory in row.bytes})
        return [
            {
                "operator": row.index,
                "type": row.type,
                "name": row.name,
                "placement": row.placement,
                "macs": row.macs,
                "cycles": row.cycles,
                "span_cycles": row.span_cycles,
                "mac_utilisation": row.mac_utilisation,
                "bound_by": row.bound_by,
                **{f"read_{memory}": row.bytes.get(memory, Traffic()).read for memory in memories},
                **{f"write_{memory}": row.bytes.get(memory, Traffic()).write for memory in memories},
            }
            for row in self.operators
        ]

    def headline(self) -> str:
        """Model, hardware and totals."""
        totals = self.totals
        time = "" if totals.total_cycles is None else f", {totals.total_cycles:,} cycles, {totals.time_ms:.3g} ms"
        return f"{self.model} on {self.target} ({self.system}, {self.memory_mode}){time}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the fields of this record under the schema's id."""
        content = dataclasses.asdict(self)
        for name in ("overheads", "timing_error", "pmu", "notes", "model_sha256", "compiled_sha256"):
            if content[name] is None:
                del content[name]
        return {**HEAD, **content}

    def to_json(self) -> str:
        """`to_dict` as indented text that ends with a newline."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


def base_operators(operators: OperatorMap) -> list[OperatorReport]:
    """One untimed record per operator of the source model."""
    return [
        OperatorReport(
            index=operator.index,
            type=operator.type,
            name=operator.name,
            placement=operator.placement,
            macs=operator.macs,
            reasons=tuple(violation.message for violation in operator.violations),
            violations=operator.violations,
            absorbed_into=operator.absorbed_into,
        )
        for operator in operators.operators
    ]


def compile_report(operators: OperatorMap, model: str, variant: Variant, usage: Usage) -> Report:
    """A report with the memory that the compiled model needs, and without digests, which take longer than all else."""
    rows = base_operators(operators)
    totals = Totals(
        macs=sum(row.macs for row in rows),
        **memory_totals(usage, variant),
    )
    return _report("compile", operators.profile, model, variant, totals, rows)


def run_report(
    operators: OperatorMap, model: str, compiled: Model, timeline: Timeline, traces: Sequence[Trace], variant: Variant
) -> Report:
    """A report with the time of every operator, from the timeline and the traces of its NPU jobs."""
    rows = [timed(row, timeline.operators.get(row.index), variant) for row in base_operators(operators)]
    totals = Totals(
        macs=sum(row.macs for row in rows),
        **memory_totals(memory_of_file(compiled), variant),
        total_cycles=timeline.total_cycles,
        npu_cycles=timeline.cycles_of("npu"),
        cpu_cycles=timeline.cycles_of("cpu"),
        time_ms=timeline.total_cycles / variant.system.clock_hz * 1e3,
        axi0_read_beats=sum(trace.totals.axi0_read_beats for trace in traces),
        axi0_write_beats=sum(trace.totals.axi0_write_beats for trace in traces),
        axi1_read_beats=sum(trace.totals.axi1_read_beats for trace in traces),
    )
    report = _report("run", operators.profile, model, variant, totals, rows)
    digest = hardware_digest(variant)
    return dataclasses.replace(report, hardware_sha256=digest, overheads=_overheads(timeline, variant))


def _overheads(timeline: Timeline, variant: Variant) -> tuple[Overhead, ...]:
    from sim.timeline import OVERHEAD_NAMES  # which a compilation has no use for

    error = variant.cpu.relative_error
    return tuple(
        Overhead(OVERHEAD_NAMES[segment.operator], segment.job if segment.job >= 0 else None, segment.cycles, error)
        for segment in timeline.segments
        if segment.operator < 0 and segment.cycles
    )


def memory_names(variant: Variant) -> dict[str, str]:
    """The memory that holds the constants, the arena and the cache, by the names in the system's description."""
    mode, memories = variant.memory_mode, variant.system.memories
    roles = {"constants": mode.constants, "arena": mode.arena, "cache": mode.cache}
    return {role: memories[port].name for role, port in roles.items()}


def hardware_digest(variant: Variant) -> str:
    """SHA-256 of all fields of the hardware, as JSON with sorted keys: two targets of one name differ by it."""
    content = json.dumps(_plain(dataclasses.asdict(variant)), sort_keys=True, separators=(",", ":"))
    return sha256(content.encode())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    return value.name if isinstance(value, Enum) else value


def memory_totals(usage: Usage, variant: Variant) -> dict[str, int]:
    """Fields of `Totals` for a compiled model's memory."""
    mode = variant.memory_mode
    held = {"sram_bytes": 0, "dram_bytes": 0}
    for port, size in ((mode.arena, usage.arena_bytes), (mode.cache, usage.fast_bytes)):
        held["dram_bytes" if variant.system.memories[port].name == "dram" else "sram_bytes"] += size
    return {**held, "flash_bytes": usage.read_only_bytes + usage.command_stream_bytes + usage.cpu_constant_bytes}


def memory_of_file(model: Model) -> Usage:
    """Memory of a compiled file, read from its own tensors: scratch, fast scratch, constants and command streams.

    The arena is that of the subgraph that needs most; what subgraphs share counts once.
    """
    from npu.compiler.compiled import Usage

    constants = _read_only(model, Input.CONSTANTS)
    streams = _read_only(model, Input.COMMANDS)
    held = {_place(tensor): tensor.bytes for graph in model.graphs for tensor in graph.tensors if tensor.data is not None}
    return Usage(
        arena_bytes=max((_arena(graph) for graph in model.graphs), default=0),
        fast_bytes=max((_fast(graph) for graph in model.graphs), default=0),
        read_only_bytes=sum(constants.values()),
        command_stream_bytes=sum(streams.values()),
        cpu_constant_bytes=sum(size for place, size in held.items() if place not in constants and place not in streams),
    )


def _read_only(model: Model, position: Input) -> dict[int, int]:
    """Bytes of what NPU jobs have at a position of their inputs, by where it lies."""
    tensors = (graph.tensors[index] for graph in model.graphs for index in _job_inputs(graph, position))
    return {_place(tensor): tensor.bytes for tensor in tensors if tensor.data is not None}


def _place(tensor: Tensor) -> int:
    """Where the data of a constant begin: subgraphs may share a buffer."""
    return int(tensor.data.__array_interface__["data"][0]) if tensor.data is not None and tensor.data.size else 0


def _arena(graph: Graph) -> int:
    """Bytes of the scratch tensor; without NPU jobs, of the arena that a runtime plans."""
    size = {index: tensor.bytes for index, tensor in enumerate(graph.tensors) if tensor.data is None and tensor.bytes > 0}
    if any(map(is_npu_job, graph.ops)):
        return max((size.get(index, 0) for index in _job_inputs(graph, Input.SCRATCH)), default=0)
    return _arena_of_cpu(graph, size)


def _fast(graph: Graph) -> int:
    fast = _job_inputs(graph, Input.FAST_SCRATCH) - _job_inputs(graph, Input.SCRATCH)
    return max((graph.tensors[index].bytes for index in fast), default=0)


def _job_inputs(graph: Graph, position: Input) -> set[int]:
    """The tensors that NPU jobs have at a position of their inputs."""
    return {op.inputs[position] for op in graph.ops if is_npu_job(op)} - {ABSENT}


def _arena_of_cpu(graph: Graph, sizes: Mapping[int, int]) -> int:
    """Bytes of the arena in which a runtime would put the tensors of a graph without NPU jobs."""
    from npu.runtime.arena import lifetimes, plan_arena  # which few models need

    steps = [(op.inputs, op.outputs) for op in graph.ops]
    used = {index for step in steps for side in step for index in side}.union(graph.inputs, graph.outputs)
    kept = {*graph.outputs, *(index for index in used if index != ABSENT and graph.tensors[index].is_variable)}
    return plan_arena(lifetimes(steps, {index: sizes[index] for index in sorted(used & sizes.keys())}, kept=kept))[1]


def timed(row: OperatorReport, time: OperatorTime | None, variant: Variant) -> OperatorReport:
    """The row of an operator with its time; None if it took none."""
    if time is None:
        return dataclasses.replace(row, cycles=0, span_cycles=0)
    offered = time.span_cycles * variant.accelerator.macs_per_cycle
    memories = sorted({*time.read_bytes, *time.write_bytes})
    return dataclasses.replace(
        row,
        cycles=time.cycles,
        span_cycles=time.span_cycles,
        hidden_behind=time.hidden_behind,
        mac_utilisation=min(1.0, row.macs / offered) if offered and row.placement == "npu" else None,
        bound_by=time.bound_by,
        bytes={name: Traffic(time.read_bytes.get(name, 0), time.write_bytes.get(name, 0)) for name in memories},
    )


def _report(kind: str, profile: str, model: str, variant: Variant, totals: Totals, rows: list[OperatorReport]) -> Report:
    return Report(
        kind=kind,
        model=model,
        target=variant.name,
        system=variant.system.name,
        memory_mode=variant.memory_mode.name,
        memories=memory_names(variant),
        clock_hz=variant.system.clock_hz,
        profile=profile,
        totals=totals,
        operators=tuple(rows),
    )
