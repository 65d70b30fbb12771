"""check: where every operator runs, why, what it costs, and what to change first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from constraints.checker import check as check_model
from npu.digests import sha256
from npu.errors import CompileError, ModelError
from npu.graph.ethos_u import is_compiled as is_compiled_file
from npu.graph.ethos_u import is_npu_job
from npu.graph.graph import Model
from npu.graph.placement import Placement
from npu.progress import Progress
from npu.reports.check_report import CheckReport, Measured, QualityGate, build_check_report, is_read_alone, settled
from npu.runtime.absent import has_no_kernel
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, contents, given, load, load_plain, model_name, parse, reduced
from npu.toolchain.written import require_jobs, require_kernels

if TYPE_CHECKING:
    from npu.toolchain.compile import Compilation

COMPILES = "compiles"
"""Gate of every check, shown if it fails: a model that runs can still be one that `compile` refuses as it is."""
_MOST_PLACES = 12


def check(model: Source, session: Session) -> Placement:
    """NPU or CPU for every operator by the limits of the profile, with every one that it violates.

    Views that would be alone in their NPU job are on the CPU, as `compile` places them, and a model that nothing runs is a
    ModelError, unless the profile is a document's.
    """
    source = load(model)
    if is_read_alone(session.profile):
        return check_model(source, profile=session.profile, variant=session.variant)
    if is_compiled_file(source):
        require_jobs(source, session.variant_of(source, model_name(model)))
    return _placed(reduced(source), session)


def _placed(source: Model, session: Session) -> Placement:
    """Where every operator would be compiled to. ModelError if nothing runs one of them."""
    placement = check_model(source, profile=session.profile, variant=session.variant)
    placement = settled(source, placement, session.variant.cpu)
    require_kernels(source, placement)
    return placement


def check_report(
    model: Source, session: Session, *, is_compiled: bool = False, progress: Progress | None = None
) -> CheckReport:
    """`check` with costs and memory: those of the model as `compile` compiles it, timed as `run` times it.

    They are estimates from shapes where nothing is compiled: under the profile of a document, unless `is_compiled`, and for a
    model that `compile` refuses for its memory or for an open shape, whose gate COMPILES fails and says why. ModelError for a
    model that nothing runs. Of a file that is compiled already, each NPU job is timed as a whole.
    """
    from npu.toolchain.compile import signature_notes, unread_notes

    model = given(model)
    content = contents(model)
    source, name = parse(model, content), model_name(model)
    notes = [*_compiled(source), *_without_kernel(source), *signature_notes(source), *unread_notes(source)]
    if is_compiled_file(source):
        report = _report_of_file(model, source, session)
    elif is_compiled:
        report = measured_report(load_plain(model, content), name, session, progress)
    else:
        report = _compiled_or_estimated(source, name, session, progress)
    return dataclasses.replace(report, model_sha256=sha256(content), notes=(*report.notes, *notes))


def _compiled_or_estimated(source: Model, name: str, session: Session, progress: Progress | None) -> CheckReport:
    """The report of a model, with a gate that fails if it could not be compiled for it."""
    gates: tuple[QualityGate, ...] = ()
    if not is_read_alone(session.profile):
        try:
            return measured_report(source, name, session, progress)
        except (ModelError, CompileError) as error:
            _placed(reduced(source), session)
            gates = (QualityGate(COMPILES, f"npu compile refuses the model: {error}"),)
    placement = check_model(source, profile=session.profile, variant=session.variant)
    return dataclasses.replace(build_check_report(source, placement, name, session.variant), gates=gates)


def _compiled(model: Model) -> Iterator[str]:
    """What to say of a compiled file."""
    if is_compiled_file(model):
        yield "This file is compiled already: an ethos-u operator is one row without MACs; npu run shows what is in it."


def _report_of_file(model: Source, source: Model, session: Session) -> CheckReport:
    """The report of a compiled file: each of its NPU jobs is timed as a whole."""
    from npu.reports.report import memory_of_file, memory_totals
    from npu.toolchain.executable import prepare
    from npu.toolchain.tasks import npu_cycles_of_jobs
    from npu.toolchain.timing import time_executable

    executable = prepare(model, session)
    timed = time_executable(executable)
    variant, cycles = timed.variant, npu_cycles_of_jobs(executable.file)
    measured = Measured(
        cycles,
        memory_totals(memory_of_file(source), variant),
        timing_error=timed.report.timing_error,
        notes=timed.report.notes or (),
    )
    require_jobs(source, variant)
    placement = check_model(source, profile=session.profile, variant=variant)
    require_kernels(source, placement)
    return build_check_report(source, placement, model_name(model), variant, measured)


def _without_kernel(model: Model) -> Iterator[str]:
    """What to say of operators that the interpreter cannot execute."""
    missing: dict[str, list[str]] = {}
    for number, graph in enumerate(model.graphs):
        for index, op in enumerate(graph.ops):
            if (op.kind == "CUSTOM" and not is_npu_job(op) and not _is_known(op.name)) or has_no_kernel(op.kind):
                name = f"custom '{op.name}'" if op.kind == "CUSTOM" else op.name
                missing.setdefault(name, []).append(f"{number}:{index}" if number else str(index))
    for name, places in missing.items():
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        operators = f"operator{'' if len(places) == 1 else 's'} {', '.join(places[:_MOST_PLACES])}{more}"
        yield f"npu run refuses the model, unless --timing-only: there is no kernel for {operators}, {name}."


def _is_known(custom: str) -> bool:
    from npu.runtime.registry import find_custom  # imports all kernels

    return find_custom(custom) is not None


def measured_report(source: Model, name: str, session: Session, progress: Progress | None = None) -> CheckReport:
    """The report of a model that is compiled and timed for it; operators that do not fit the memory are on the CPU."""
    from npu.toolchain.compile import compile_in_session

    source = reduced(source)
    compilation = compile_in_session(source, name, session, progress=progress)
    require_kernels(compilation.compiled_model.source, compilation.compiled_model.placement)
    return build_check_report(source, compilation.compiled_model.placement, name, session.variant, _measured(compilation))


def _measured(compilation: Compilation) -> Measured:
    from npu.hardware.accuracy import accuracy_of
    from npu.reports.report import memory_totals
    from npu.toolchain.tasks import tasks_of, time_streams
    from npu.toolchain.timing import work_of
    from sim.timeline import TimedJob, build_timeline

    file, operators, variant = compilation.file(), compilation.operators, compilation.variant
    streams = [time_streams(file, number) for number in range(len(file.model.graphs))]
    main = build_timeline(list(tasks_of(file.model.graphs[0], operators.sources, streams[0], variant.cpu, {})), variant)
    cycles = {(0, row.index): main.operators[row.index].cycles for row in operators.operators if row.index in main.operators}
    for part in compilation.compiled_model.partitions:
        if part.graph:
            job = build_timeline([TimedJob(streams[part.graph][part.op_index].trace, part.source_of, 0, 0)], variant)
            cycles |= {(part.graph, index): time.cycles for index, time in job.operators.items()}
    return Measured(
        cycles,
        memory_totals(compilation.usage, variant),
        main.operators,
        {row.index: row.absorbed_into for row in operators.operators if row.absorbed_into is not None},
        accuracy_of(variant, work_of(stream for graph in streams for stream in graph.values())),
        compilation.notes(),
    )
