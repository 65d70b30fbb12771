"""compile: a model to a file for the board."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from constraints.checker import check as check_model
from npu.arguments import PATH, require_type
from npu.compiler.block_config import BlockChooser
from npu.compiler.compiled import CompiledModel, Usage
from npu.compiler.compiler import compile_model
from npu.compiler.goal import Goal
from npu.compiler.memory import arena_budget
from npu.compiler.pipeline import Observer
from npu.digests import sha256
from npu.errors import CompileError
from npu.files import write_atomically
from npu.graph.graph import Model
from npu.graph.input_shapes import require_static
from npu.graph.placement import Placement
from npu.graph.unread import unread_operators
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.weight_stream.encode import Encoder
from npu.numerics.lstm_gates import LstmGates
from npu.progress import Progress
from npu.records import dataclass
from npu.reports.operator_map import METADATA_NAME, OperatorMap, hardware_names, map_of_compiled
from npu.reports.report import Report, compile_report, hardware_digest, memory_of_file
from npu.tabular import Record, Tabular, as_ranges
from npu.tflite.writer import write_model
from npu.toolchain.session import DEFAULT_PROFILE, Session
from npu.toolchain.sources import Source, contents, given, load_plain, model_name, reduced, shaped
from npu.toolchain.written import verify_runs
from sim.container import CompiledFile


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled model, as it stands in the file that may be written of it, and its map of operators."""

    model: Model
    operators: OperatorMap
    compiled_model: CompiledModel
    variant: Variant
    lstm_gates: LstmGates = LstmGates.EXACT

    def file(self) -> CompiledFile:
        """The model as a compiled file, with the streams as the compiler made them."""
        streams = {(partition.graph, partition.op_index): partition.stream for partition in self.compiled_model.partitions}
        return CompiledFile(self.model, self.variant, streams)

    @property
    def usage(self) -> Usage:
        """Memory of the model; without NPU jobs, that of an arena as the CPU's runtime plans it."""
        return self.compiled_model.usage if self.compiled_model.partitions else memory_of_file(self.model)

    def notes(self) -> tuple[str, ...]:
        """What to say of the compilation: an arena that is too large, where it is largest, or too small; inexact results."""
        budget = arena_budget(self.variant)
        notes = tuple(arena_notes(self.compiled_model.usage.arena_bytes, budget))
        peaks = _peak_notes(self.compiled_model, budget) if notes else ()
        return (*notes, *peaks, *_moved_notes(self.compiled_model.placement, budget), *self.gate_notes())

    def gate_notes(self) -> Iterator[str]:
        """What to say of cells whose gates are not the reference's."""
        source = self.compiled_model.source
        compiled = [source.graphs[part.graph].ops[index] for part in self.compiled_model.partitions for index in part.ops]
        cells = sum(op.kind == "UNIDIRECTIONAL_SEQUENCE_LSTM" for op in compiled)
        if cells and self.lstm_gates is LstmGates.TABLE:
            yield f"LSTM gates come from the hardware's table (operators: {cells}), not exact: docs/exactness.md#lstm-gates"

    def written(self, name: str) -> Compiled:
        """The file of the model called `name`, and its report."""
        report = compile_report(self.operators, name, self.variant, self.usage)
        report = dataclasses.replace(report, notes=self.notes() or None)
        return Compiled(write_model(self.model), report, self.variant, self.compiled_model)


@dataclass(frozen=True, slots=True)
class Compiled(Tabular):
    """A compiled model: `content` is the file's bytes, ready for the board, `summary` the report without its digests."""

    content: bytes = field(repr=False)
    summary: Report
    variant: Variant = field(repr=False)
    compiled_model: CompiledModel = field(repr=False)
    source: bytes | None = field(default=None, repr=False)
    """The file that was compiled, if it was one."""

    @property
    def report(self) -> Report:
        """The report, with digests of what it is about."""
        return dataclasses.replace(
            self.summary,
            hardware_sha256=hardware_digest(self.variant),
            model_sha256=None if self.source is None else sha256(self.source),
            compiled_sha256=sha256(self.content),
        )

    def records(self) -> list[Record]:
        """The operators of the report."""
        return self.summary.records()

    def headline(self) -> str:
        """That of the report, with the size of the file."""
        return f"{self.summary.headline()}, {len(self.content):,} bytes"

    def save(self, path: str | Path) -> None:
        """Write the file; an existing one is replaced only when the new one is complete."""
        require_type("path", path, PATH, "the path of a file")
        write_atomically(Path(path), self.content)


def compile(
    model: Source,
    session: Session,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    observers: tuple[Observer, ...] = (),
) -> Compiled:
    """Compile the NPU part of a model. ModelError, ConfigError or CompileError say what is at fault, also if it could not run.

    `input_shapes` are those of inputs by name, in place of the file's; all other shapes follow from them. `observers` see what
    the compiler has after every pass.
    """
    model = given(model)
    content = contents(model)
    shapes = {name: tuple(int(size) for size in shape) for name, shape in (input_shapes or {}).items()}
    source, name = shaped(load_plain(model, content), shapes), model_name(model)
    compilation = compile_in_session(source, name, session, progress=progress, observers=observers)
    compiled = compilation.written(name)
    verify_runs(compilation.model, source, name, compilation.file)
    notes = (*(compiled.summary.notes or ()), *signature_notes(source), *unread_notes(source)) or None
    return dataclasses.replace(compiled, summary=dataclasses.replace(compiled.summary, notes=notes), source=content)


def compile_in_session(
    source: Model,
    name: str,
    session: Session,
    *,
    progress: Progress | None = None,
    observers: tuple[Observer, ...] = (),
    with_weights: bool = True,
) -> Compilation:
    """`compile_in_memory` for the hardware of a session, which keeps the blocks that were chosen: like operators recur.

    Without weights, their compressed sizes are estimates: what is compiled can be timed, not run.
    """
    chooser = session.choosers.get(session.variant.name, lambda: BlockChooser(session.variant))
    constants = family_of(session.variant.accelerator.product).constants
    return compile_in_memory(
        source,
        name,
        chooser,
        profile=session.profile,
        goal=session.goal,
        lstm_gates=session.lstm_gates,
        progress=progress,
        observers=observers,
        encoder=constants.encode if with_weights else constants.stand_in,
    )


def compile_in_memory(
    source: Model,
    name: str,
    chooser: BlockChooser,
    *,
    profile: str = DEFAULT_PROFILE,
    goal: Goal = Goal.PERFORMANCE,
    lstm_gates: LstmGates = LstmGates.EXACT,
    progress: Progress | None = None,
    observers: tuple[Observer, ...] = (),
    encoder: Encoder | None = None,
) -> Compilation:
    """The compilation of a model, on the variant of `chooser`."""
    require_static(source)
    variant = chooser.variant
    source = reduced(source)
    placement = check_model(source, profile=profile, variant=variant)
    compiled = compile_model(
        source, placement, chooser, goal=goal, lstm_gates=lstm_gates, progress=progress, observers=observers, encoder=encoder
    )
    _check_read_only(compiled.usage, name, variant)
    operators = map_of_compiled(compiled, hardware_names(variant))
    model = compiled.model
    if compiled.partitions:
        model = dataclasses.replace(model, metadata={**model.metadata, METADATA_NAME: operators.to_metadata()})
    return Compilation(model, operators, compiled, variant, lstm_gates)


def signature_notes(model: Model) -> Iterator[str]:
    """What to say of signatures that a model has and that cannot be called; a compiled file has them no more."""
    for signature in model.signatures:
        defect = signature.defect(model.graphs[signature.graph])
        if defect is not None:
            yield f"signature '{signature.key}' cannot be called and is left out of the compiled file: {defect}"


def unread_notes(model: Model) -> Iterator[str]:
    """What to say of operators of a model as given that no output depends on."""
    for number, graph in enumerate(model.graphs):
        unread = sorted(unread_operators(graph))
        if unread:
            where = f" of subgraph {number}" if number else ""
            yield f"left out, since nobody reads their results: operator{'s'[: len(unread) - 1]} {as_ranges(unread)}{where}"


def arena_notes(arena_bytes: int, budget: int) -> Iterator[str]:
    """What to say of an arena that is too large: operators on the CPU get what they need, for nobody else could run them."""
    if arena_bytes > budget:
        yield f"the arena takes {arena_bytes:,} bytes, more than the {budget:,} that memory mode and board give it"


def _peak_notes(compiled: CompiledModel, budget: int) -> Iterator[str]:
    """Where an arena that is too large is largest, and whether any compilation meets the budget."""
    for peak in compiled.memory.peaks:
        if peak.memory == "arena":
            ops = compiled.source.graphs[peak.graph].ops
            where = ", ".join(f"{index} {ops[index].name}" for index in peak.ops)
            yield f"most of it, {peak.bytes:,} bytes, is in use at operator {where}"
            if peak.visible_bytes > budget:
                seen = f"{peak.visible_bytes:,} bytes of it hold tensors that the application or operators on the CPU see"
                rest = ", but where that is the limit, the rest is made smaller if it can be"
                yield f"{seen}: no limit below can be met{rest if peak.bytes > peak.visible_bytes else ''}"


def _moved_notes(placement: Placement, budget: int) -> Iterator[str]:
    """Which operators the NPU could run in a larger arena."""
    moved: dict[int, list[int]] = {}
    for op in placement.ops:
        if op.lacks_memory:
            moved.setdefault(op.graph, []).append(op.index)
    for number, indices in moved.items():
        where = f" of subgraph {number}" if number else ""
        which = f"operator{'s'[: len(indices) - 1]} {as_ranges(indices)}{where}"
        yield f"for lack of memory on the CPU: {which}; not even in stripes within the {budget:,} bytes that the arena may have"


def _check_read_only(usage: Usage, name: str, variant: Variant) -> None:
    """CompileError if the memory of the constants has a size, and constants and command streams do not fit it."""
    memory = variant.system.memories[variant.memory_mode.constants]
    size = usage.read_only_bytes + usage.command_stream_bytes + usage.cpu_constant_bytes
    if memory.size_bytes and size > memory.size_bytes:
        raise CompileError(
            f"{name}: constants and command streams must fit the {memory.size_bytes:,} bytes of memory '{memory.name}', "
            f"got {size:,} bytes"
        )
