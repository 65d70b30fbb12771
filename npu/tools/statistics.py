"""Summaries of measured numbers: the only place that defines the statistics which tools print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from npu.records import dataclass

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Statistics:
    """A summary. `std` is that of the population; `percentiles` are interpolated linearly."""

    count: int
    first: float
    min: float
    max: float
    mean: float
    std: float
    percentiles: tuple[float, ...]

    def row(self) -> dict[str, float]:
        """The numbers by name, percentiles as p50, p90, ..."""
        row = asdict(self)
        values = row.pop("percentiles")
        return {**row, **{f"p{percent}": value for percent, value in zip(PERCENTILES, values, strict=True)}}


def summarize(values: Sequence[float]) -> Statistics:
    """The summary of one or more numbers in the order in which they were measured."""
    array = np.asarray(values, np.float64)
    return Statistics(
        count=int(array.size),
        first=float(array[0]),
        min=float(array.min()),
        max=float(array.max()),
        mean=float(array.mean()),
        std=float(array.std()),
        percentiles=tuple(float(value) for value in np.percentile(array, PERCENTILES)),
    )
