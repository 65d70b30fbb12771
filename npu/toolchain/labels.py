"""Which tensor each operation of a job reads and writes, and which source operator it works for.

Names come from the file: of the feature maps that the job exchanges with the rest, and of the operators in the operator map
where the file carries one. A map has a name only while its bytes hold that tensor: the arena is used again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npu.errors import SimulationError, StreamError, UserError
from npu.graph.graph import Model
from npu.isa.decoded import Decoded
from npu.isa.operations import FeatureMap, KernelOperation
from npu.records import dataclass
from npu.reports.operator_map import OperatorMap, SourceOperator, stored_map
from sim.container import CompiledFile, NpuJob, Place
from sim.memory import feature_map_ranges


@contextmanager
def execution_errors_at(name: str, file: CompiledFile) -> Iterator[None]:
    """Faults of command streams raised while a compiled file runs tell file, operator, command, and what it works for."""
    try:
        yield
    except (StreamError, SimulationError) as error:
        told = error.at(name)
        hint = _hint(name, file, error)
        raise type(told)(f"{told}; {hint}" if hint else str(told)) from error


def _hint(name: str, file: CompiledFile, error: UserError) -> str:
    """What the command at fault works for; empty if that is not clear."""
    try:
        jobs = [job for job in file.jobs() if job.index == error.operator]
        if len(jobs) != 1:
            return ""
        decoded = file.operations(jobs[0].graph, jobs[0].index)
        labels = label(decoded, jobs[0], known_map(file.model, name))
    except UserError:
        return ""
    for operation, held in zip(decoded, labels, strict=True):
        if operation.command_index == error.command:
            source = held.source
            of = "" if source is None else f", a part of operator {source.index} {source.type} of the source model"
            return f"npu disasm lists the command{of}"
    return ""


@dataclass(frozen=True, slots=True)
class Label:
    """Of one operation: its source operator (None if unknown) and the tensor names of its maps by role (IFM, IFM2, OFM)."""

    source: SourceOperator | None
    names: dict[str, str]

    @property
    def operator(self) -> str:
        """The source operator for messages, empty if unknown."""
        return "" if self.source is None else f"{self.source.index} {self.source.type} {self.source.name!r}"


def maps_of(operation: object) -> list[tuple[str, FeatureMap]]:
    """The feature maps of a kernel operation in memory by role, the output last; none of others."""
    return list(operation.maps_in_memory.items()) if isinstance(operation, KernelOperation) else []


def place_of(fm: FeatureMap) -> Place:
    """The bytes from the first to the last of a map."""
    ranges = feature_map_ranges(fm)
    return fm.region, min(start for start, _ in ranges), max(end for _, end in ranges)


def known_map(model: Model, name: str) -> OperatorMap | None:
    """The operator map of a file that carries a readable one."""
    try:
        return stored_map(model, name)
    except UserError:
        return None


def label(decoded: Sequence[Decoded], job: NpuJob, operators: OperatorMap | None) -> list[Label]:
    """A label for every operation of a job."""
    sources = operators.sources.get(job.index, ()) if operators is not None and job.graph == 0 else ()
    if len(sources) != len(decoded):
        sources = (-1,) * len(decoded)
    final = _final_writes(decoded, job)
    held: list[tuple[Place, str]] = [(given.place, given.name) for given in job.inputs]
    labels = []
    for index, started in enumerate(decoded):
        source = operators.operators[sources[index]] if operators is not None and sources[index] >= 0 else None
        names = {}
        if isinstance(started.operation, KernelOperation):
            maps = started.operation.maps_in_memory
            written = maps.pop("OFM", None)
            names = {role: _name_at(place_of(fm), held) for role, fm in maps.items()}
            name = final.get(index) or (source.name if source is not None else "")
            if written is not None:
                place = place_of(written)
                held = [(old, known) for old, known in held if not _overlap(old, place)]
                held += [(place, name)] if name else []
                names["OFM"] = name
        labels.append(Label(source, {role: name for role, name in names.items() if name}))
    return labels


def _final_writes(decoded: Sequence[Decoded], job: NpuJob) -> dict[int, str]:
    """Operations whose output stays in an output tensor of the job, with the tensor's name."""
    names: dict[int, str] = {}
    later: list[Place] = []
    for index in reversed(range(len(decoded))):
        operation = decoded[index].operation
        if isinstance(operation, KernelOperation) and (written := operation.stored_ofm) is not None:
            place = place_of(written)
            inside = next((out for out in job.outputs if _inside(place, out.place)), None)
            if inside is not None and not any(_overlap(place, other) and not _inside(other, inside.place) for other in later):
                names[index] = inside.name
            later.append(place)
    return names


def _name_at(place: Place, held: Sequence[tuple[Place, str]]) -> str:
    return next((name for known, name in held if _overlap(place, known)), "")


def _inside(place: Place, outer: Place) -> bool:
    return place[0] == outer[0] and outer[1] <= place[1] and place[2] <= outer[2]


def _overlap(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
