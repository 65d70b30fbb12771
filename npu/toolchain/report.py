"""report: everything that is known of a compiled model, for one page: times, losses, memory over time and weights."""

from __future__ import annotations

from collections.abc import Iterator

from npu.graph.ethos_u import Region
from npu.isa.operations import AddressRange, Convolution, Dma, WeightedOperation
from npu.progress import Progress
from npu.records import dataclass
from npu.reports.stream_operators import Staged, origin_of, stage
from npu.toolchain.explain import ExplainedModel, explain_timed
from npu.toolchain.origin import Origin
from npu.toolchain.session import Session
from npu.toolchain.sources import Source
from npu.toolchain.timing import TimedModel, time_model
from sim.arena import arena_use
from sim.stays import BufferLifetime, stays
from sim.timeline import owners_of
from sim.trace import TraceColumn


@dataclass(frozen=True, slots=True)
class TimedStay:
    """A box of memory `region` in cycles of the timeline."""

    region: int
    stay: BufferLifetime
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True, slots=True)
class RegionPeak:
    """The most bytes in use of a region, the operator that is at work then, and the owners of what lies there."""

    region: int
    bytes: int
    operator: int
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WeightSize:
    """Weights of an operator: bytes before, one each, and with scale records as the stream reads them."""

    operator: int
    original_bytes: int
    encoded_bytes: int


@dataclass(frozen=True, slots=True)
class ReportedModel:
    """What `npu report` shows."""

    timed: TimedModel
    explained: ExplainedModel
    stays: tuple[TimedStay, ...]
    peaks: tuple[RegionPeak, ...]
    weights: tuple[WeightSize, ...]


def report(model: Source, session: Session, *, progress: Progress | None = None, origin: Origin | None = None) -> ReportedModel:
    """Time a model, compiled first if need be, and gather what is known of it."""
    return report_timed(time_model(model, session, progress=progress, origin=origin), progress)


def report_timed(timed: TimedModel, progress: Progress | None = None) -> ReportedModel:
    """`report` for a model that has been timed."""
    regions = _regions(timed)
    boxes = [box for region in regions for box in _timed_stays(timed, region)]
    peaks = [peak for region in regions for peak in _peaks(timed, region)]
    return ReportedModel(timed, explain_timed(timed, progress), tuple(boxes), tuple(peaks), tuple(_weights(timed)))


def _regions(timed: TimedModel) -> tuple[int, ...]:
    """The memory of feature maps, and the fast one where it is another."""
    return (Region.ARENA, Region.FAST) if timed.variant.memory_mode.has_separate_cache else (Region.ARENA,)


def _job_starts(timed: TimedModel) -> list[int]:
    """The cycle at which the NPU begins each job."""
    starts: dict[int, int] = {}
    for segment in timed.timeline.segments:
        if segment.device == "npu":
            starts.setdefault(segment.job, segment.start)
    return [starts.get(job, 0) for job in range(len(timed.jobs))]


def _timed_stays(timed: TimedModel, region: int) -> Iterator[TimedStay]:
    for begin, job, stream in zip(_job_starts(timed), timed.jobs, timed.streams, strict=True):
        first, last = (job.trace.column(column).tolist() for column in (TraceColumn.START, TraceColumn.END))
        for box in stays([decoded.operation for decoded in stream.decoded], owners_of(job).tolist(), region):
            yield TimedStay(region, box, begin + first[box.first], begin + last[box.last])


def _peaks(timed: TimedModel, region: int) -> Iterator[RegionPeak]:
    """The peak of the region over all jobs."""
    best: RegionPeak | None = None
    for job, stream in zip(timed.jobs, timed.streams, strict=True):
        operations, owners = [decoded.operation for decoded in stream.decoded], owners_of(job).tolist()
        used = arena_use(operations, region)
        if len(used) and (best is None or used.max() > best.bytes):
            where = int(used.argmax())
            held = {box.owner for box in stays(operations, owners, region) if box.first <= where <= box.last}
            best = RegionPeak(region, int(used[where]), owners[where], tuple(sorted(held)))
    if best is not None and best.bytes:
        yield best


def _weights(timed: TimedModel) -> Iterator[WeightSize]:
    """What the weights of each operator take, each stream and each block of scale records once."""
    sizes: dict[int, list[int]] = {}
    seen: set[AddressRange] = set()
    for job, stream in zip(timed.jobs, timed.streams, strict=True):
        staged: Staged = {}
        for owner, decoded in zip(owners_of(job).tolist(), stream.decoded, strict=True):
            operation = decoded.operation
            if isinstance(operation, Dma):
                stage(operation, staged)
            elif isinstance(operation, WeightedOperation) and operation.weights:
                parts = [_at_origin(part, staged) for part in (*operation.weights, *operation.scales)]
                new = [part for part in parts if part not in seen]
                held = sizes.setdefault(owner, [0, 0])
                held[1] += sum(part.length_bytes for part in new)
                if new and parts[0] in new:
                    held[0] += weight_count(operation)
                seen.update(new)
    yield from (WeightSize(operator, before, after) for operator, (before, after) in sorted(sizes.items()))


def weight_count(operation: WeightedOperation) -> int:
    """Weights that an operation reads, on all cores."""
    channels = operation.ifm.depth if isinstance(operation, Convolution) else 1
    return operation.ofm.depth * operation.kernel.height * operation.kernel.width * channels


def _at_origin(part: AddressRange, staged: Staged) -> AddressRange:
    region, address = origin_of(part, staged)
    return AddressRange(region, address, part.length_bytes)
