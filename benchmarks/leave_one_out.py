"""How far the timing model is off for a model that took no part in the calibration: `timing_accuracy.py --leave-one-out`.

For each model of the records the constants of `GRID` are chosen anew from the records of all other models, and the left-out
model is predicted with them: of all combinations of the grid the one with the smallest mean error. The other calibrated
constants keep their values, as only a few records tell anything about each. Sweeps of the memories take no part: they hold
the same models many times.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npu.hardware.variant import Variant
from npu.isa.decode import Decoded
from npu.isa.operations import Operation
from sim.timing import schedule

GRID: Mapping[str, tuple[float, ...]] = {
    "operation_overhead_cycles": (0, 40, 80, 100, 120, 160),
    "port_beat_cycles": (1.0, 1.04, 1.08, 1.12, 1.16, 1.2),
    "weight_decode_bits_per_cycle": (32, 40, 50, 64, 80),
}
"""Values to choose from, of the constants that nearly all records depend on."""

Constants = tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """A record ready to be timed: `error_of` turns predicted cycles into its signed error in percent."""

    model: str
    operations: Sequence[Decoded] | Sequence[Operation]
    stream_words: int
    variant: Variant
    error_of: Callable[[int], float]


@dataclass(frozen=True)
class LeftOut:
    """One model: the constants chosen without it, and errors in percent (mean, worst) of its records with either choice."""

    model: str
    records: int
    constants: Mapping[str, float]
    without: tuple[float, float]
    shipped: tuple[float, float]


def leave_one_out(cases: Sequence[Case], grid: Mapping[str, tuple[float, ...]] = GRID) -> list[LeftOut]:
    """One row for each model that is not the only one."""
    times = _Times(cases, tuple(grid))
    rows = []
    models = sorted({case.model for case in cases})
    for model in models if len(models) > 1 else ():
        others = [number for number, case in enumerate(cases) if case.model != model]
        own = [number for number, case in enumerate(cases) if case.model == model]
        # Of equal ones the first counts.
        chosen = min(itertools.product(*grid.values()), key=functools.partial(times.mean, others))
        errors = times.of(own, chosen), times.of(own, None)
        rows.append(LeftOut(model, len(own), dict(zip(grid, chosen, strict=True)), *errors))
    return rows


class _Times:
    """Errors of the cases for choices of constants; each pair is timed once."""

    def __init__(self, cases: Sequence[Case], names: tuple[str, ...]) -> None:
        self._cases, self._names = cases, names
        self._known: dict[tuple[int, Constants | None], float] = {}

    def error(self, number: int, constants: Constants | None) -> float:
        """Absolute error in percent; `None` stands for the constants of the target."""
        key = number, constants
        if key not in self._known:
            case = self._cases[number]
            variant = (
                case.variant
                if constants is None
                else with_constants(case.variant, dict(zip(self._names, constants, strict=True)))
            )
            trace = schedule(case.operations, variant, stream_words=case.stream_words)
            self._known[key] = abs(case.error_of(trace.totals.npu_active_cycles))
        return self._known[key]

    def mean(self, numbers: Sequence[int], constants: Constants) -> float:
        return self.of(numbers, constants)[0]

    def of(self, numbers: Sequence[int], constants: Constants | None) -> tuple[float, float]:
        errors = [self.error(number, constants) for number in numbers]
        return sum(errors) / len(errors), max(errors)


def with_constants(variant: Variant, constants: Mapping[str, float]) -> Variant:
    """The variant with other values of some constants of its timing."""
    changes: dict[str, Any] = {name: type(getattr(variant.timing, name))(value) for name, value in constants.items()}
    return replace(variant, timing=replace(variant.timing, **changes))


def table(rows: Sequence[LeftOut]) -> list[str]:
    """Rows of the errors of each model with constants that were chosen without it."""
    names = list(rows[0].constants) if rows else []
    titles = ["model left out", "records", "mean error", "worst", "mean with the shipped constants", "worst"]
    lines = ["| " + " | ".join([*titles, *(f"`{name}`" for name in names)]) + " |", "|---" * (len(titles) + len(names)) + "|"]
    for row in rows:
        errors = [f"{value:.1f} %" for value in (*row.without, *row.shipped)]
        cells = [row.model, str(row.records), *errors, *(f"{value:g}" for value in row.constants.values())]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
