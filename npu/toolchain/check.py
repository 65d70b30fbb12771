"""check: where every operator runs, why, what it costs, and what to change first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from constraints.checker import check as check_model
from npu.graph.ethos_u import is_compiled, is_npu_job
from npu.graph.graph import Model
from npu.graph.placement import Placement
from npu.reports.check_report import CheckReport, Measured, build_check_report, settled
from npu.runtime.absent import has_no_kernel
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, contents, digest, given, load, load_plain, model_name, parse

_MOST_PLACES = 12


def check(model: Source, session: Session) -> Placement:
    """NPU or CPU for every operator by the limits of the profile, with every one that it violates.

    Views that would be alone in their NPU job are on the CPU, as `compile` places them, unless the profile is a document's.
    """
    variant, source = session.variant, load(model)
    return settled(source, check_model(source, profile=session.profile, variant=variant))


def check_report(model: Source, session: Session, *, is_compiled: bool = False) -> CheckReport:
    """`check` with costs. `is_compiled` compiles and times the NPU part in place of estimating it, and so knows its memory."""
    variant, profile, model = session.variant, session.profile, given(model)
    content = contents(model)
    source = load_plain(model, content) if is_compiled else parse(model, content)
    if is_compiled:
        report = measured_report(source, model_name(model), session)
    else:
        report = build_check_report(source, check_model(source, profile=profile, variant=variant), model_name(model), variant)
    return dataclasses.replace(report, model_sha256=digest(content), notes=(*_compiled(source), *_without_kernel(source)))


def _compiled(model: Model) -> Iterator[str]:
    """What to say of a compiled file."""
    if is_compiled(model):
        yield "This file is compiled already: MACs and cycles of its ethos-u operators are not known here; npu run times them."


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


def measured_report(source: Model, name: str, session: Session) -> CheckReport:
    """The report of a model that is compiled and timed for it; operators that do not fit the memory are on the CPU."""
    from npu.reports.report import memory_totals
    from npu.toolchain.compile import compile_in_session
    from npu.toolchain.timing import tasks_of, time_streams
    from sim.timeline import build_timeline

    variant = session.variant
    compilation = compile_in_session(source, name, session)
    result, file = compilation.result, compilation.file(variant)
    cycles: dict[tuple[int, int], int] = {}
    for number, graph in enumerate(file.model.graphs):
        sources = {partition.op_index: partition.source_of for partition in result.partitions if partition.graph == number}
        if sources:
            timeline = build_timeline(list(tasks_of(graph, sources, time_streams(file, number), variant)), variant)
            for segment in timeline.segments:
                if segment.device == "npu" and segment.operator >= 0:
                    key = (number, segment.operator)
                    cycles[key] = cycles.get(key, 0) + segment.cycles
    measured = Measured(cycles, memory_totals(result.usage, variant))
    return build_check_report(source, result.placement, name, variant, measured)
