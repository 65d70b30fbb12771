"""The report of a check: where every operator of every subgraph runs, why, what it costs, and what to change first.

Plain records and their JSON form (`kind: check` of the report schema). All cycles are ticks of the NPU clock. Operators on the
CPU cost what the variant's table says; on the NPU, what the timing engine measured of the compiled model, or what
`sim.estimate` works out from shapes of operators that are not compiled. The total is that of one inference: the main subgraph,
and once each of those that its operators execute; not what initialises variables, nor other signatures.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

from constraints.rule import Profile
from constraints.v0_1 import PROFILE as DOCUMENT
from constraints.view import OpView
from constraints.xnnpack import XnnpackSwitches, xnnpack_profile
from npu.graph.consistency import defects_of, without_inconsistent
from npu.graph.cpu_cost import cpu_cycles
from npu.graph.ethos_u import Input, is_npu_job
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.graph.idle import RULE as IDLE
from npu.graph.idle import without_idle_jobs, working_partitions
from npu.graph.partition import Partition, partition
from npu.graph.placement import Device, OpPlacement, Placement
from npu.graph.verify import called_graphs
from npu.graph.work import macs
from npu.hardware.accuracy import TimingAccuracy
from npu.hardware.variant import Cpu, Variant
from npu.records import dataclass
from npu.reports.report import HEAD, OperatorReport, Totals, hardware_digest, memory_names, timed
from npu.tabular import Record, Tabular
from sim.estimate import npu_cycles
from sim.timeline import OperatorTime, copy_overhead, job_overhead

NPU, XNNPACK, REFERENCE = "npu", "xnnpack", "reference"
DEVICES = (NPU, XNNPACK, REFERENCE)
_WHAT_IF_STEPS = 40_000
"""Operators to look at, over all questions "what if this operator were supported"; beyond, only the costliest are asked."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as a report shows it; `shape` has -1 where a dimension is dynamic."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCheck:
    """One operator: the record of the run report, and what a check adds.

    `device` is npu, xnnpack or reference. `inputs` leaves out constants. `cpu_cycles` and `npu_cycles` are what it costs, or
    would cost, there. `partition` is the NPU partition that it belongs to, None on the CPU. `total_if_supported` is the total
    of the model if the NPU took this one more operator (None if it does, or if it was not asked).
    """

    base: OperatorReport
    graph: int
    device: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    mac_share: float
    cpu_cycles: int
    npu_cycles: int
    partition: int | None
    splits: bool
    total_if_supported: int | None = None

    @property
    def number(self) -> str:
        """The index, with the subgraph in front if it is not the first."""
        return str(self.base.index) if self.graph == 0 else f"{self.graph}:{self.base.index}"

    def to_dict(self) -> dict[str, Any]:
        """Fields of the run report first, then those of the check."""
        added = dataclasses.asdict(self)
        return {**added.pop("base"), **added}


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tensor that a partition takes over or hands over. `peer` is "model", or the number of an operator outside."""

    tensor: str
    bytes: int
    peer: str


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """Operators that run on the NPU as one job, and the feature maps that cross its boundary."""

    number: int
    graph: int
    operators: tuple[int, ...]
    macs: int
    npu_cycles: int
    reads: tuple[Crossing, ...]
    writes: tuple[Crossing, ...]


@dataclass(frozen=True, slots=True)
class DeviceSum:
    """Operators, multiply-accumulates and cycles on one device."""

    operators: int
    macs: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """What the total would be if the NPU took `operators` too; `what` names one operator, or every one of a kind."""

    what: str
    operators: tuple[str, ...]
    total_cycles: int
    saved_cycles: int


@dataclass(frozen=True, slots=True)
class QualityGate:
    """A condition or budget that a model must meet, as a person asked for it; `failure` says why not, None if it does."""

    condition: str
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Tabular):
    """Everything that `npu check` says. `cycles_from` is "estimate" or "compilation"; `notes` are what `npu run` refuses."""

    model: str
    target: str
    system: str
    memory_mode: str
    memories: Mapping[str, str]
    clock_hz: int
    profile: str
    hardware_sha256: str
    cycles_from: str
    totals: Totals
    devices: Mapping[str, DeviceSum]
    job_starts: int
    overhead_cycles: int
    operators: tuple[OperatorCheck, ...]
    partitions: tuple[PartitionCheck, ...]
    ranking: tuple[Remedy, ...]
    timing_error: TimingAccuracy | None = None
    model_sha256: str | None = None
    notes: tuple[str, ...] = ()
    gates: tuple[QualityGate, ...] = ()

    def records(self) -> list[Record]:
        """One row for each operator: where it runs, what it costs there and what keeps it from the NPU."""
        return [
            {
                "graph": row.graph,
                "operator": row.base.index,
                "type": row.base.type,
                "name": row.base.name,
                "device": row.device,
                "macs": row.base.macs,
                "cycles": row.npu_cycles if row.device == "npu" else row.cpu_cycles,
                "total_if_supported": row.total_if_supported,
                "rules": ", ".join(violation.rule for violation in row.base.violations),
                "reason": " ".join(violation.message for violation in row.base.violations),
            }
            for row in self.operators
        ]

    def headline(self) -> str:
        """Model, hardware, operators on the NPU and the total."""
        on_npu, total = sum(row.device == "npu" for row in self.operators), self.totals.total_cycles
        cycles = "" if total is None else f", {total:,} cycles ({self.cycles_from})"
        return f"{self.model} on {self.target}: {on_npu} of {len(self.operators)} operators on the NPU{cycles}"

    @property
    def failed_gates(self) -> tuple[QualityGate, ...]:
        """Conditions and budgets that the model does not meet."""
        return tuple(gate for gate in self.gates if gate.failure is not None)

    @property
    def splitting(self) -> tuple[OperatorCheck, ...]:
        """CPU operators between two partitions: they wait for one and another waits for them."""
        return tuple(operator for operator in self.operators if operator.splits)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the report of the shipped schema, of kind `check`."""
        content = dataclasses.asdict(dataclasses.replace(self, operators=()))
        content["operators"] = [operator.to_dict() for operator in self.operators]
        for name in ("timing_error", "model_sha256", "notes", "gates"):
            if not content[name]:
                del content[name]
        return {**HEAD, "kind": "check", **content}

    def to_json(self) -> str:
        """`to_dict` as indented text that ends with a newline."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a compilation found out: NPU cycles of operators (graph, index), the memory of the model, and what to say of both.

    `times` are the operators of the main subgraph on the timeline, `absorbed` those that another one does.
    """

    npu_cycles: Mapping[tuple[int, int], int]
    memory: Mapping[str, int]
    times: Mapping[int, OperatorTime] = field(default_factory=dict)
    absorbed: Mapping[int, int] = field(default_factory=dict)
    timing_error: TimingAccuracy | None = None
    notes: tuple[str, ...] = ()


def build_check_report(
    model: Model, placement: Placement, name: str, variant: Variant, measured: Measured | None = None
) -> CheckReport:
    """The report of a placement. With `measured`, its cycles replace the estimates of operators on the NPU."""
    placement = settled(model, placement, variant.cpu) if measured is None else without_idle_jobs(model, placement, variant.cpu)
    graphs = [_GraphCheck(number, graph, placement, variant, measured) for number, graph in enumerate(model.graphs)]
    all_macs = sum(sum(graph.macs) for graph in graphs)
    counted = executed_graphs(model)
    total = sum(graph.total() for graph in graphs if graph.number in counted)
    answers = _what_if([graph for graph in graphs if graph.number in counted], total)
    first = 0
    operators: list[OperatorCheck] = []
    partitions: list[PartitionCheck] = []
    for graph in graphs:
        partitions += graph.partition_checks(first)
        operators += graph.operator_checks(first, all_macs, answers)
        first += len(graph.partitions)
    npu = sum(partition.npu_cycles for partition in partitions if partition.graph in counted)
    totals = Totals(
        macs=all_macs,
        total_cycles=total,
        npu_cycles=npu,
        cpu_cycles=total - npu,
        time_ms=total / variant.system.clock_hz * 1e3,
        **(measured.memory if measured is not None else {}),
    )
    return CheckReport(
        model=name,
        target=variant.name,
        system=variant.system.name,
        memory_mode=variant.memory_mode.name,
        memories=memory_names(variant),
        clock_hz=variant.system.clock_hz,
        profile=placement.profile,
        hardware_sha256=hardware_digest(variant),
        cycles_from="compilation" if measured is not None else "estimate",
        totals=totals,
        devices=_device_sums(operators, counted),
        job_starts=sum(partition.graph in counted for partition in partitions),
        overhead_cycles=total - sum(row.base.cycles or 0 for row in operators if row.graph in counted),
        operators=tuple(operators),
        partitions=tuple(partitions),
        ranking=_ranking([graph for graph in graphs if graph.number in counted], operators, total),
        timing_error=measured.timing_error if measured is not None else None,
        notes=measured.notes if measured is not None else (),
    )


def executed_graphs(model: Model) -> frozenset[int]:
    """Subgraphs that one inference executes: the main one, and those that its operators call. CALL_ONCE only initialises."""
    reached, waiting = {0}, [0]
    while waiting:
        ops = model.graphs[waiting.pop()].ops
        called = {number for op in ops if op.kind != "CALL_ONCE" for number in called_graphs(op)}
        waiting += called - reached
        reached |= called
    return frozenset(reached)


def _without_arenas(graph: Graph, parts: list[Partition]) -> list[Partition]:
    """Partitions whose inputs are data: NPU jobs of compiled files also name the memory that they work in."""
    arenas = {index for op in graph.ops if is_npu_job(op) for index in op.inputs[Input.SCRATCH : Input.FIRST_MAP]}
    if not arenas:
        return parts
    return [dataclasses.replace(part, inputs=tuple(given for given in part.inputs if given not in arenas)) for part in parts]


class _GraphCheck:
    """The working state of one subgraph: placements, costs and partitions by operator index."""

    def __init__(self, number: int, graph: Graph, placement: Placement, variant: Variant, measured: Measured | None) -> None:
        self.number, self.graph, self.profile = number, graph, placement.profile
        self.variant = variant
        placed = placement.by_index(number)
        self.placed = [_as_found(graph, placed[index]) for index in range(len(graph.ops))]
        ratio = variant.system.clock_hz / variant.cpu.clock_hz
        self.macs = self._of_needed(lambda op: max(macs(graph, op), 0))
        self.cpu_cycles = self._of_needed(lambda op: round(cpu_cycles(graph, op, variant.cpu) * ratio))
        self.npu_cycles = self._of_needed(lambda op: npu_cycles(graph, op, variant))
        takes_part = placement.profile != XNNPACK
        self.on_npu = frozenset(
            index for index, placement in enumerate(self.placed) if takes_part and placement.device is Device.NPU
        )
        self.accepted = self.on_npu.union(index for index, placement in enumerate(self.placed) if _is_idle(placement))
        if measured is not None and any((number, index) in measured.npu_cycles for index in self.on_npu):
            for index in self.on_npu:
                self.npu_cycles[index] = measured.npu_cycles.get((number, index), 0)
        self._keeps_idle_jobs = measured is None and is_read_alone(placement.profile)
        self.partitions = _without_arenas(graph, self._split(self.accepted))
        self.partition_of = {op: position for position, part in enumerate(self.partitions) for op in part.ops}
        self.splitting = self._splitting()
        self.times = measured.times if measured is not None and number == 0 else {}
        self.absorbed = measured.absorbed if measured is not None and number == 0 else {}
        self._delegate = xnnpack_profile(XnnpackSwitches(floating=True, qs8=True, qu8=True, variables=True))

    def _of_needed(self, cost: Callable[[Op], int]) -> list[int]:
        """A cost of every operator, 0 for those that need not run."""
        return [0 if index in self.graph.unneeded else cost(op) for index, op in enumerate(self.graph.ops)]

    def _split(self, accepted: Collection[int]) -> list[Partition]:
        if self._keeps_idle_jobs:
            return partition(self.graph, accepted)
        return working_partitions(self.graph, accepted, self.variant.cpu)

    def total(self, more: Collection[int] = ()) -> int:
        """Cycles of the subgraph if the NPU took `more` operators than it does, with what the CPU does around jobs."""
        parts = _without_arenas(self.graph, self._split(self.accepted.union(more))) if more else self.partitions
        chosen = {index for part in parts for index in part.ops}
        work = sum(self.npu_cycles[i] if i in chosen else self.cpu_cycles[i] for i in range(len(self.placed)))
        around = sum(
            sum(job_overhead(self._bytes(part.inputs), self._bytes(self._written(part)), self.variant).values())
            for part in parts
        )
        ends = (self.graph.inputs, self.graph.outputs) if self.number == 0 else ()
        return work + around + sum(copy_overhead(self._bytes(tensor), self.variant) for tensor in ends)

    def _written(self, part: Partition) -> tuple[int, ...]:
        """Tensors that a job leaves in memory: its outputs, and variables that it was given."""
        return (*part.outputs, *(index for index in part.inputs if self.graph.tensors[index].is_variable))

    def _bytes(self, indices: tuple[int, ...]) -> int:
        return sum(_info(self.graph.tensors[index]).bytes for index in indices if self.graph.tensors[index].data is None)

    def operator_checks(
        self, first_partition: int, all_macs: int, answers: Mapping[tuple[int, int], int]
    ) -> list[OperatorCheck]:
        return [self._operator(index, first_partition, all_macs, answers) for index in range(len(self.placed))]

    def _operator(
        self, index: int, first_partition: int, all_macs: int, answers: Mapping[tuple[int, int], int]
    ) -> OperatorCheck:
        op, placed, on_npu = self.graph.ops[index], self.placed[index], index in self.on_npu
        base = OperatorReport(
            index=index,
            type=op.name,
            name=self.graph.tensors[op.outputs[0]].name if op.outputs and op.outputs[0] != ABSENT else "",
            placement=NPU if on_npu else "cpu",
            macs=self.macs[index],
            reasons=tuple(violation.message for violation in placed.violations),
            violations=placed.violations,
            cycles=self.npu_cycles[index] if on_npu else self.cpu_cycles[index],
            absorbed_into=self.absorbed.get(index),
        )
        if on_npu and index in self.times:
            base = timed(base, self.times[index], self.variant)
        return OperatorCheck(
            base=base,
            graph=self.number,
            device=NPU if on_npu else self._cpu_path(index),
            inputs=self._infos(op.inputs),
            outputs=self._infos(op.outputs),
            mac_share=self.macs[index] / all_macs if all_macs else 0.0,
            cpu_cycles=self.cpu_cycles[index],
            npu_cycles=self.npu_cycles[index],
            partition=first_partition + self.partition_of[index] if on_npu else None,
            splits=index in self.splitting,
            total_if_supported=answers.get((self.number, index)),
        )

    def partition_checks(self, first: int) -> list[PartitionCheck]:
        writer = {tensor: i for i, op in enumerate(self.graph.ops) for tensor in op.outputs}
        readers: dict[int, list[int]] = defaultdict(list)
        for index, op in enumerate(self.graph.ops):
            for tensor in set(op.inputs):
                readers[tensor].append(index)
        checks = []
        for position, part in enumerate(self.partitions):
            inside = frozenset(part.ops)
            reads = [self._crossing(tensor, writer.get(tensor)) for tensor in part.inputs]
            writes = [
                self._crossing(tensor, next((reader for reader in readers[tensor] if reader not in inside), None))
                for tensor in part.outputs
            ]
            work = sum(self.macs[index] for index in part.ops)
            cycles = sum(self.npu_cycles[index] for index in part.ops)
            checks.append(PartitionCheck(first + position, self.number, part.ops, work, cycles, tuple(reads), tuple(writes)))
        return checks

    def _crossing(self, tensor: int, peer: int | None) -> Crossing:
        info = _info(self.graph.tensors[tensor])
        return Crossing(info.name, info.bytes, "model" if peer is None else str(peer))

    def _infos(self, indices: tuple[int, ...]) -> tuple[TensorInfo, ...]:
        present = (self.graph.tensors[index] for index in indices if index != ABSENT)
        return tuple(_info(tensor) for tensor in present if tensor.data is None)

    def _cpu_path(self, index: int) -> str:
        if self.profile == XNNPACK:
            return XNNPACK if self.placed[index].device is Device.NPU else REFERENCE
        return REFERENCE if _violations(self._delegate, self.graph, index) else XNNPACK

    def _splitting(self) -> frozenset[int]:
        """CPU operators that depend on a partition and on which another one depends."""
        writer = {tensor: i for i, op in enumerate(self.graph.ops) for tensor in op.outputs}
        after = [False] * len(self.graph.ops)
        before = [False] * len(self.graph.ops)
        sources = [{writer[tensor] for tensor in op.inputs if tensor in writer} for op in self.graph.ops]
        for index, splitting in enumerate(sources):
            after[index] = any(after[source] or source in self.on_npu for source in splitting)
        for index in range(len(sources) - 1, -1, -1):
            for source in sources[index]:
                before[source] = before[source] or before[index] or index in self.on_npu
        return frozenset(i for i in range(len(sources)) if i not in self.on_npu and after[i] and before[i])


def is_read_alone(profile: str) -> bool:
    """Whether a profile is that of a document, which says nothing of this compiler: reports of it add no reasons."""
    return profile in (DOCUMENT.name, XNNPACK)


def settled(model: Model, placement: Placement, cpu: Cpu) -> Placement:
    """The placement with what this compiler adds to its profile before it compiles: itself if the profile is another's."""
    if is_read_alone(placement.profile):
        return placement
    return without_idle_jobs(model, without_inconsistent(placement, defects_of(model)), cpu)


def _is_idle(placed: OpPlacement) -> bool:
    return any(violation.rule == IDLE for violation in placed.violations)


def _as_found(graph: Graph, placed: OpPlacement) -> OpPlacement:
    """A job of an already compiled file runs on the NPU, whatever a profile says of custom operators."""
    return dataclasses.replace(placed, violations=()) if is_npu_job(graph.ops[placed.index]) else placed


def _violations(profile: Profile, graph: Graph, index: int) -> bool:
    return bool(profile.violations(OpView(graph, graph.ops[index])))


def _info(tensor: Tensor) -> TensorInfo:
    shape = tensor.shape_signature or tensor.shape
    return TensorInfo(tensor.name, tuple(shape), str(tensor.dtype), max(tensor.bytes, 0))


def _device_sums(operators: list[OperatorCheck], counted: Collection[int]) -> dict[str, DeviceSum]:
    """Operators and MACs of all subgraphs, cycles of those that count."""
    sums = {}
    for device in DEVICES:
        rows = [operator for operator in operators if operator.device == device]
        cycles = sum(row.base.cycles or 0 for row in rows if row.graph in counted)
        sums[device] = DeviceSum(len(rows), sum(row.base.macs for row in rows), cycles)
    return sums


def _what_if(graphs: list[_GraphCheck], total: int) -> dict[tuple[int, int], int]:
    """Total of the model if one more operator were supported, for the operators that are worth the question."""
    if all(value.profile == XNNPACK for value in graphs):
        return {}
    candidates = [(value, index) for value in graphs for index in range(len(value.placed)) if index not in value.accepted]
    candidates.sort(key=lambda candidate: candidate[0].npu_cycles[candidate[1]] - candidate[0].cpu_cycles[candidate[1]])
    now = {graph.number: graph.total() for graph in graphs}
    answers: dict[tuple[int, int], int] = {}
    steps = 0
    for candidate, index in candidates:
        steps += len(candidate.placed)
        if answers and steps > _WHAT_IF_STEPS:
            break
        answers[candidate.number, index] = total - now[candidate.number] + candidate.total({index})
    return answers


def _ranking(graphs: list[_GraphCheck], operators: list[OperatorCheck], total: int) -> tuple[Remedy, ...]:
    """What to support or change first: single operators, and kinds of which several are on the CPU."""
    remedies = [
        Remedy(
            f"operator {operator.number} {operator.base.type}",
            (operator.number,),
            operator.total_if_supported,
            total - operator.total_if_supported,
        )
        for operator in operators
        if operator.total_if_supported is not None
    ]
    kinds: dict[str, list[OperatorCheck]] = defaultdict(list)
    for operator in operators:
        if operator.base.placement == "cpu" and all(violation.rule != IDLE for violation in operator.base.violations):
            kinds[operator.base.type].append(operator)
    for kind, rows in kinds.items():
        if len(rows) > 1 and remedies:
            ranking = sum(graph.total({row.base.index for row in rows if row.graph == graph.number}) for graph in graphs)
            remedies.append(Remedy(f"every {kind} ({len(rows)})", tuple(row.number for row in rows), ranking, total - ranking))
    return tuple(sorted(remedies, key=lambda remedy: (-remedy.saved_cycles, remedy.what)))
