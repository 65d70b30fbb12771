"""explain: for every operator what bounds it, where the lost cycles go, and which shapes would cost nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from npu.graph.ethos_u import Region
from npu.isa.operations import Dma
from npu.progress import Progress
from npu.records import dataclass
from npu.reports.operator_map import SourceOperator
from npu.tabular import Record, Tabular
from npu.toolchain.origin import Origin
from npu.toolchain.session import Session
from npu.toolchain.sources import Source
from npu.toolchain.timing import TimedModel, time_model
from npu.version import __version__
from sim.timeline import owners_of
from sim.timing.explain import PARTS, BlockOperation, Explanation, FreeShape, explain_operation
from sim.trace import Bound

WAITING = "waiting"
"""Part of an operator's cycles that it does not need alone: transfers of its weights, dependencies, the queue."""

OVERLAP = "overlap"
"""Negative part of an operator's cycles: what it needs alone but shares with its neighbours on the timeline."""

_ARRAY_BOUNDS = (Bound.MAC.value, Bound.WEIGHT_DECODE.value)
"""Bounds of an operator whose time follows the cycles of the MAC array."""


@dataclass(frozen=True, slots=True)
class Hint:
    """An extent of an operator that could grow for nothing; cycles are those of the MAC array."""

    axis: str
    extent: int
    free_up_to: int
    cheaper: int
    cycles: int
    cheaper_cycles: int

    @property
    def text(self) -> str:
        """The hint in words."""
        if not self.axis.endswith("channels"):
            said = f"{self.axis} {self.extent} costs as much as {self.free_up_to}"
        elif self.extent == 1:
            said = f"1 {self.axis.removesuffix('s')} costs as much as {self.free_up_to}"
        else:
            said = f"{self.extent} {self.axis} cost as much as {self.free_up_to}"
        said += " in the MAC array"
        if self.cheaper:
            said += f"; {self.cheaper} would take {1 - self.cheaper_cycles / self.cycles:.0%} less of it"
        return said


@dataclass(frozen=True, slots=True)
class ExplainedOperator:
    """One operator: `cycles` of the timeline = `ideal_cycles` + the sum of `parts` (on the CPU: no parts).

    The ideal is one full MAC array (for operators without multiplications: the full output unit) and nothing else. All parts
    are positive but `OVERLAP`. `hints` only stand where the operator is bound by the unit that they are about.
    `copied_bytes` are what transfers bring of its weights and tables, out of the memory of the constants.
    """

    index: int
    type: str
    name: str
    placement: str
    bound_by: str | None
    cycles: int
    ideal_cycles: int
    parts: Mapping[str, int]
    hints: tuple[Hint, ...]
    copied_bytes: int = 0

    @property
    def overlapped_cycles(self) -> int:
        """Cycles that the operator needs but shares with its neighbours."""
        return -self.parts.get(OVERLAP, 0)

    @property
    def busy_cycles(self) -> int:
        """Cycles from which shares are taken: those of the timeline and the overlapped ones. No part exceeds them."""
        return self.cycles + self.overlapped_cycles

    def largest_losses(self) -> list[tuple[str, int]]:
        """Parts without the overlap, the largest first."""
        return sorted(((name, cycles) for name, cycles in self.parts.items() if cycles > 0), key=lambda part: -part[1])


@dataclass(frozen=True, slots=True)
class ExplainedModel(Tabular):
    """All operators of a model; cycles are ticks of the NPU clock, `notes` those of a run's report."""

    model: str
    target: str
    system: str
    memory_mode: str
    memories: Mapping[str, str]
    clock_hz: int
    operators: tuple[ExplainedOperator, ...] = field(repr=False)
    model_sha256: str | None = None
    hardware_sha256: str | None = None
    notes: tuple[str, ...] = ()

    def records(self) -> list[Record]:
        """One row for each operator; the ideal and the parts sum to its cycles."""
        parts = list(dict.fromkeys(name for row in self.operators for name in row.parts))
        return [
            {
                "operator": row.index,
                "type": row.type,
                "name": row.name,
                "placement": row.placement,
                "bound_by": row.bound_by,
                "cycles": row.cycles,
                "ideal_cycles": row.ideal_cycles,
                **{name: row.parts.get(name, 0) for name in parts},
                "hints": "; ".join(hint.text for hint in row.hints),
            }
            for row in self.operators
        ]

    def headline(self) -> str:
        """Model, hardware, and the cycles that are taken apart."""
        return f"{self.model} on {self.target} ({self.system}, {self.memory_mode}): {self.npu_cycles:,} cycles on the NPU"

    @property
    def npu_cycles(self) -> int:
        return sum(operator.cycles for operator in self.operators if operator.placement == "npu")

    @property
    def overlapped_cycles(self) -> int:
        """Cycles that two neighbours share, summed over the operators on the NPU."""
        return sum(operator.overlapped_cycles for operator in self.operators)

    def part_sums(self) -> list[tuple[str, int]]:
        """The ideal and every part without the overlap; they sum to `npu_cycles` + `overlapped_cycles`."""
        rows = [operator for operator in self.operators if operator.placement == "npu"]
        sums = [("ideal", sum(row.ideal_cycles for row in rows))]
        return sums + [(name, sum(row.parts.get(name, 0) for row in rows)) for name in (*PARTS, WAITING)]

    def to_json(self) -> str:
        """Indented text that ends with a newline."""
        content = {"npulab_version": __version__} | dataclasses.asdict(self) | {"npu_cycles": self.npu_cycles}
        return json.dumps(content, indent=2) + "\n"


def explain(
    model: Source, session: Session, *, progress: Progress | None = None, origin: Origin | None = None
) -> ExplainedModel:
    """Time a model, compiled first if need be, and take the cycles of every operator apart."""
    return explain_timed(time_model(model, session, progress=progress, origin=origin), progress)


def explain_timed(timed: TimedModel, progress: Progress | None = None) -> ExplainedModel:
    """`explain` for a model that has been timed."""
    report = timed.report
    operations = operations_of(timed)
    copied = _copied_bytes(timed)
    rows = []
    for operator in timed.operators.operators:
        rows.append(_explained(operator, timed, operations.get(operator.index, ()), copied.get(operator.index, 0)))
        if progress is not None:
            progress("operators", len(rows), len(timed.operators.operators))
    hardware = report.target, report.system, report.memory_mode, report.memories, report.clock_hz
    return ExplainedModel(report.model, *hardware, tuple(rows), report.model_sha256, report.hardware_sha256, report.notes or ())


def operations_of(timed: TimedModel) -> dict[int, list[BlockOperation]]:
    """The kernel operations of each source operator, in order."""
    kernels: dict[int, list[BlockOperation]] = {}
    for job, stream in zip(timed.jobs, timed.streams, strict=True):
        for operator, decoded in zip(job.operator_of, stream.decoded, strict=True):
            if isinstance(decoded.operation, BlockOperation):
                kernels.setdefault(max(operator, 0), []).append(decoded.operation)
    return kernels


def _copied_bytes(timed: TimedModel) -> dict[int, int]:
    """Bytes that transfers take out of the constants for each source operator."""
    copied: dict[int, int] = {}
    for job, stream in zip(timed.jobs, timed.streams, strict=True):
        for operator, decoded in zip(owners_of(job).tolist(), stream.decoded, strict=True):
            if isinstance(copy := decoded.operation, Dma) and copy.source.region == Region.CONSTANTS:
                copied[operator] = copied.get(operator, 0) + copy.length_bytes * copy.rows * copy.planes
    return copied


def _explained(
    source: SourceOperator, timed: TimedModel, operations: Sequence[BlockOperation], copied: int
) -> ExplainedOperator:
    time = timed.timeline.operators.get(source.index)
    cycles = time.cycles if time is not None else 0
    bound = time.bound_by if time is not None else None
    plain = ExplainedOperator(source.index, source.type, source.name, source.placement, bound, cycles, 0, {}, (), copied)
    if source.placement != "npu":
        return plain
    is_of_array = bound in _ARRAY_BOUNDS  # only then a hint is given, and that is about the last operation
    last = len(operations) - 1
    explained = [
        explain_operation(operation, timed.variant, with_shapes=is_of_array and index == last)
        for index, operation in enumerate(operations)
    ]
    ideal, parts = _sum(explained, cycles)
    hints = _hints(explained, operations) if is_of_array else ()
    return replace(plain, ideal_cycles=ideal, parts=parts, hints=hints)


def _sum(explained: Sequence[Explanation], cycles: int) -> tuple[int, dict[str, int]]:
    """(ideal, parts) as integers whose sum is `cycles`: each running sum is rounded."""
    amounts = [("ideal", sum(operation.ideal for operation in explained))]
    amounts += [(name, sum(operation.parts.get(name, 0.0) for operation in explained)) for name in PARTS]
    rounded, running, before = {}, 0.0, 0
    for name, amount in amounts:
        running += amount
        rounded[name] = round(running) - before
        before = round(running)
    rounded[WAITING if cycles > before else OVERLAP] = cycles - before
    ideal = rounded.pop("ideal")
    return ideal, {name: amount for name, amount in rounded.items() if amount}


def _hints(explained: Sequence[Explanation], operations: Sequence[BlockOperation]) -> tuple[Hint, ...]:
    """Free shapes of the whole operator, from its last operation.

    Operations that cut the output channels of an operator into slices are added up; where rows or columns are cut, only
    the extents that all operations have in common are meant.
    """
    if not explained:
        return ()
    last = operations[-1]
    planes = {(other.ofm.height, other.ofm.width, other.ofm.addresses[0] if other.ofm.depth == last.ofm.depth else 0)
              for other in operations}  # fmt: skip
    is_cut_in_plane = len({(height, width) for height, width, _ in planes}) > 1
    if is_cut_in_plane and len(operations) > 1:
        return tuple(_hint(shape) for shape in explained[-1].shapes if shape.axis == "input channels")
    slices = sum(operation.ofm.depth for operation in operations) - last.ofm.depth
    others = round(sum(operation.unit_cycles for operation in explained[:-1]))
    return tuple(
        _hint(shape, slices, others) if shape.axis == "output channels" else _hint(shape) for shape in explained[-1].shapes
    )


def _hint(shape: FreeShape, before: int = 0, others: int = 0) -> Hint:
    """The hint of an operator whose other operations work on `before` channels and take `others` cycles."""
    extents = (shape.extent + before, shape.free_up_to + before, shape.cheaper + before if shape.cheaper else 0)
    return Hint(shape.axis, *extents, shape.cycles + others, shape.cheaper_cycles + others)
