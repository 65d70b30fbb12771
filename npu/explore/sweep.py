"""Measures the points of a space on any number of workers. The result depends on the points alone, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from npu.explore.journal import Journal
from npu.explore.point import Point, PointRow, failed, measure, model_digest
from npu.progress import Progress
from npu.records import dataclass
from npu.workers import WorkerDiedError, Workers


@dataclass(frozen=True, slots=True)
class Swept:
    """A row per point in their order; `measured` of them were not known from the journal or from another point."""

    rows: tuple[PointRow, ...]
    measured: int

    @property
    def errors(self) -> list[str]:
        """Why points have no result, each reason once."""
        return list(dict.fromkeys(row["error"] for row in self.rows if row["error"] is not None))


def sweep(points: Sequence[Point], workers: Workers, journal: Journal, progress: Progress | None = None) -> Swept:
    """Measure what the journal does not know. An interruption keeps in the journal what is done."""
    digests = {model: model_digest(model) for model in dict.fromkeys(point.model for point in points)}
    keys = [point.key(digests) for point in points]
    unknown = {key: point for key, point in zip(keys, points, strict=True) if key not in journal.results}
    total, left = len(unknown), list(unknown)
    try:
        for done, (number, row) in enumerate(workers.as_completed(measure, list(unknown.values())), 1):
            if isinstance(row, WorkerDiedError):  # says something of the cluster too: tried again the next time
                journal.results[left[number]] = failed(str(row))
            else:
                journal.add(left[number], row)
            if progress is not None:
                progress("points", done, total)
    finally:
        journal.close()
    return Swept(tuple({**point.labels(), **journal.results[key]} for key, point in zip(keys, points, strict=True)), total)
