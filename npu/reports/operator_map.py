"""Which operator of the source model each operation of a compiled file works for.

Kept in the compiled file as a metadata entry that runtimes ignore, so that `npu run compiled.tflite` reports the operators of
the model that it came from. Files of other compilers have no such entry: their rows are what their command streams tell.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any

from npu.compiler.compiled import CompiledModel
from npu.errors import ModelError
from npu.graph.ethos_u import is_npu_job
from npu.graph.graph import Graph, Model, Op
from npu.graph.placement import Device, OpPlacement, Placement, Violation
from npu.graph.work import macs
from npu.hardware.variant import Variant
from npu.records import dataclass
from sim.container import CompiledFile

METADATA_NAME = "npulab_operators"
UNKNOWN_SOURCE = "compiled"
"""The profile of a file that does not tell by which rules its operators were placed."""
_LIMIT_BYTES = 1 << 26
_MOST_MACS = 1 << 62
_MOST_NAMES = 300
"""Characters of `made_for` that are read."""


@dataclass(frozen=True, slots=True)
class SourceOperator:
    """One operator of the source model, before anything is timed."""

    index: int
    type: str
    name: str
    placement: str
    macs: int
    violations: tuple[Violation, ...] = ()
    absorbed_into: int | None = None
    order: tuple[int, ...] = ()
    """In which its result has its axes, the dimensions that are not 1, in memory; empty: in their own."""

    def as_dict(self) -> dict[str, Any]:
        """As `asdict` makes it, which copies every value."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return values | {"violations": [asdict(one) for one in self.violations]}


SURE, LIKELY, GUESSED = "certain", "likely", "a guess"
"""How sure a match is."""


@dataclass(frozen=True, slots=True)
class Match:
    """How an operator of the source was found in the file of another compiler, and how sure that is."""

    how: str
    sure: str


@dataclass(frozen=True, slots=True)
class OperatorMap:
    """`operators` of the source, and `sources`: operator of the compiled graph to the source operators of its operations.

    A CPU operator of the compiled graph has one source; an `ethos-u` operator one per operation of its stream (-1: none).
    `made_for` names the hardware of the compilation (see `hardware_names`), empty where that is not known. `matches` say how
    operators were found where the file does not name them (`npu.reports.source_match`); `own` of the rows are operators of
    the source model then, the others work that belongs to none.
    """

    profile: str
    operators: tuple[SourceOperator, ...]
    sources: Mapping[int, tuple[int, ...]]
    made_for: str = ""
    matches: Mapping[int, Match] = field(default_factory=dict)
    own: int | None = None

    @property
    def has_names(self) -> bool:
        """Whether the rows are operators of a source model, not what the streams of an unknown one tell."""
        return self.profile != UNKNOWN_SOURCE or bool(self.matches)

    def to_metadata(self) -> bytes:
        """Compressed JSON."""
        content = {
            "profile": self.profile,
            "made_for": self.made_for,
            "operators": [operator.as_dict() for operator in self.operators],
            "sources": {str(index): list(sources) for index, sources in self.sources.items()},
        }
        return zlib.compress(json.dumps(content, separators=(",", ":"), sort_keys=True).encode(), 9)


def hardware_names(variant: Variant) -> str:
    """Target, system and memory mode, as `OperatorMap.made_for` keeps them."""
    return f"{variant.name} ({variant.system.name}, {variant.memory_mode.name})"


def map_of_placement(model: Model, placement: Placement) -> OperatorMap:
    """The map of a model that is not compiled: each operator of its main subgraph stands for itself."""
    graph = model.graphs[0]
    placed = placement.by_index()
    operators = tuple(_source_operator(graph, placed[index], None) for index in range(len(graph.ops)))
    return OperatorMap(placement.profile, operators, {index: (index,) for index in range(len(graph.ops))})


def map_of_compiled(compiled: CompiledModel, made_for: str = "") -> OperatorMap:
    """The map of a model that has just been compiled (its main subgraph), for hardware of these names."""
    graph = compiled.source.graphs[0]
    absorbed: dict[int, int | None] = {}
    orders: dict[int, tuple[int, ...]] = {}
    sources: dict[int, tuple[int, ...]] = {}
    for partition in compiled.partitions:
        if partition.graph == 0:
            absorbed.update(partition.program.absorbed)
            orders.update(partition.program.orders)
            sources[partition.op_index] = partition.source_of
    for index, source in compiled.cpu_source_of.items():
        sources[index] = (source,)
    placed = compiled.placement.by_index()
    operators = (
        _source_operator(graph, placed[index], absorbed.get(index), orders.get(index, ())) for index in range(len(graph.ops))
    )
    return OperatorMap(compiled.placement.profile, tuple(operators), sources, made_for)


def stored_map(model: Model, name: str) -> OperatorMap | None:
    """The map that a compiled file carries, None if it has none."""
    stored = model.metadata.get(METADATA_NAME)
    return None if stored is None else _parse(stored, name, len(model.graphs[0].ops))


def map_of_file(file: CompiledFile, name: str) -> OperatorMap:
    """The map that a compiled file carries; without one, what the command streams of its main subgraph tell."""
    return stored_map(file.model, name) or _map_of_streams(file)


def _map_of_streams(file: CompiledFile) -> OperatorMap:
    """One row per CPU operator of the file and per operator of its streams."""
    from npu.reports.stream_operators import operators_of_stream  # which files of ours need not

    graph = file.model.graphs[0]
    rows: list[SourceOperator] = []
    sources: dict[int, tuple[int, ...]] = {}
    for index, op in enumerate(graph.ops):
        if is_npu_job(op):
            operators, owners = operators_of_stream(file.operations(0, index))
            sources[index] = tuple(len(rows) + owner if owner >= 0 else -1 for owner in owners)
            rows += [SourceOperator(len(rows) + k, row.type, row.shape, "npu", row.macs) for k, row in enumerate(operators)]
        else:
            sources[index] = (len(rows),)
            placed = OpPlacement(0, index, op.kind, op.name, (left_on_cpu(op),))
            rows.append(replace(_source_operator(graph, placed, None), index=len(rows)))
    return OperatorMap(UNKNOWN_SOURCE, tuple(rows), sources)


def left_on_cpu(op: Op) -> Violation:
    """The reason of an operator of which nothing else is known."""
    return Violation("compiled", f"{op.name} was left on the CPU by the compiler of this file", "-", op.name)


def _source_operator(
    graph: Graph, placement: OpPlacement, absorbed_into: int | None, order: tuple[int, ...] = ()
) -> SourceOperator:
    op = graph.ops[placement.index]
    name = graph.tensors[op.outputs[0]].name if op.outputs else ""
    device = "npu" if placement.device is Device.NPU else "cpu"
    work = 0 if placement.index in graph.unneeded else macs(graph, op)
    return SourceOperator(placement.index, op.name, name, device, work, placement.violations, absorbed_into, order)


def _parse(stored: bytes, name: str, compiled_ops: int) -> OperatorMap:
    where = f"{name}: metadata {METADATA_NAME!r}"
    try:
        decompressor = zlib.decompressobj()
        text = decompressor.decompress(stored, _LIMIT_BYTES)
        content = json.loads(text)
        operators = tuple(
            SourceOperator(
                **{
                    **entry,
                    "violations": tuple(Violation(**violation) for violation in entry["violations"]),
                    "order": tuple(entry.get("order", ())),
                }
            )
            for entry in content["operators"]
        )
        sources = {int(index): tuple(int(source) for source in row) for index, row in content["sources"].items()}
        profile, made_for = str(content["profile"]), str(content.get("made_for", ""))[:_MOST_NAMES]
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{where}: must be the operator map that this compiler writes, got {error}") from error
    for position, operator in enumerate(operators):
        if operator.index != position or not _has_right_types(operator, len(operators)):
            must = "its own index, a count of MACs, a placement, an order of axes, and texts"
            raise ModelError(f"{where}: operator {position}: must have {must}")
    known = range(-1, len(operators))
    if any(index not in range(compiled_ops) or any(source not in known for source in row) for index, row in sources.items()):
        raise ModelError(f"{where}: sources must name operators of the file and of the source model")
    return OperatorMap(profile, operators, sources, made_for)


def _has_right_types(operator: SourceOperator, count: int) -> bool:
    """Whether every field of an entry that was read from a file is of its type and in its range."""
    absorbed = operator.absorbed_into
    texts = [operator.type, operator.name, operator.placement]
    for violation in operator.violations:
        texts += [violation.rule, violation.message, violation.limit, violation.value, violation.fix or ""]
    return (
        type(operator.index) is int
        and type(operator.macs) is int
        and 0 <= operator.macs < _MOST_MACS
        and all(isinstance(text, str) for text in texts)
        and operator.placement in ("npu", "cpu")
        and (absorbed is None or (type(absorbed) is int and 0 <= absorbed < count))
        and all(type(axis) is int for axis in operator.order)
        and sorted(operator.order) == list(range(len(operator.order)))
    )
