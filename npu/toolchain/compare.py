"""compare: two models, compiled files, targets or sets of options, operator by operator of the source."""

from __future__ import annotations

from collections import Counter

from npu.graph.ethos_u import Region
from npu.isa.operations import KernelOperation
from npu.progress import Progress
from npu.reports.comparison import Comparison, Subject, compare_reports
from npu.toolchain.origin import Origin
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, given, is_compiled_file
from npu.toolchain.timing import TimedModel, time_model
from sim.arena import arena_use
from sim.timeline import owners_of


def compare(
    a: Source, b: Source, sessions: tuple[Session, Session], *, origin: Origin | None = None, progress: Progress | None = None
) -> Comparison:
    """Time both, compiled first if need be, and align their operators.

    Where one is a plain model and the other a file that names no operators, the model is its source, unless `origin` says more.
    """
    origin = origin or Origin()
    models = given(a), given(b)
    compiled = [is_compiled_file(model) for model in models]
    source = origin.source
    if source is None and compiled[0] != compiled[1]:
        source = models[compiled[0]]
    subjects = []
    for model, session, is_compiled in zip(models, sessions, compiled, strict=True):
        told = Origin(source, origin.database) if is_compiled else None
        subjects.append(subject_of(time_model(model, session, progress=progress, origin=told)))
    return compare_reports(*subjects)


def subject_of(timed: TimedModel) -> Subject:
    """What a timed model brings to a comparison."""
    operators = timed.operators
    matches = {index: f"{match.how}, {match.sure}" for index, match in operators.matches.items()}
    own = len(operators.operators) if operators.own is None else operators.own
    return Subject(timed.report, blocks_of(timed), arena_of(timed), matches, own)


def blocks_of(timed: TimedModel) -> dict[int, tuple[str, ...]]:
    """The OFM blocks of each operator as height x width x depth, the commonest first."""
    counts: dict[int, Counter[str]] = {}
    for job, stream in zip(timed.jobs, timed.streams, strict=True):
        for owner, decoded in zip(owners_of(job).tolist(), stream.decoded, strict=True):
            if isinstance(decoded.operation, KernelOperation):
                block = decoded.operation.block
                counts.setdefault(owner, Counter())[f"{block.height}x{block.width}x{block.depth}"] += 1
    return {owner: tuple(block for block, _ in held.most_common()) for owner, held in counts.items()}


def arena_of(timed: TimedModel) -> dict[int, int]:
    """The most bytes of the memory of feature maps that are in use while each operator is at work."""
    region = Region.FAST if timed.variant.memory_mode.has_separate_cache else Region.ARENA
    most: dict[int, int] = {}
    for job, stream in zip(timed.jobs, timed.streams, strict=True):
        used = arena_use([decoded.operation for decoded in stream.decoded], region).tolist()
        for owner, size in zip(owners_of(job).tolist(), used, strict=True):
            most[owner] = max(most.get(owner, 0), size)
    return most
