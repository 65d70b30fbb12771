"""Chooses the calibrated constants of the timing model from measured records, any subset of them, always in the same way.

The figure to make small is the mean of the models' mean errors plus half of the root of the mean squares, in percent: every
model counts the same, and large errors count more. Each step of a constant away from the value that physics suggests (a unit
that costs nothing, a port that moves a beat a cycle) must gain `WORTH` percent. The search changes one constant at a time
until none gains anything; all values come from `CONSTANTS`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npu.hardware.variant import Variant
from npu.isa.operations import Operation
from sim.timing import schedule

WORTH = 0.015
"""Percent that a constant must gain for a step away from its physical value."""
SLACK = 0.2
"""Percent that the misfit may grow within the interval of a constant."""
SWEEP_SHARE = 0.03
"""Weight of a record of a sweep beside a model's mean: sweeps hold the same model many times."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One calibrated constant: the values to choose from, the value to start at, and the one that physics suggests, if any."""

    values: tuple[float, ...]
    start: float
    physical: float | None = None
    of_memory: bool = False

    def steps_away(self, value: float) -> int:
        """How many of its values further than the physical one."""
        return 0 if self.physical is None else abs(self.values.index(value) - self.values.index(self.physical))


CONSTANTS: Mapping[str, Constant] = {
    "operation_overhead_cycles": Constant(tuple(range(0, 201, 10)), 90, 0),
    "port_beat_cycles": Constant((1.0, 1.02, 1.04, 1.06, 1.08, 1.1, 1.12, 1.16), 1.06, 1.0),
    "weight_switch_cycles": Constant((0, 1, 2, 3), 1, 0),
    "core_input_bytes_per_cycle": Constant((6, 7, 8, 9, 10, 11, 12, 14, 16), 9, 8),
    "weight_decode_bits_per_cycle": Constant((40, 48, 56, 64, 72, 80, 96), 64, 64),
    "nhwc_operand_factor": Constant((1.0, 1.25, 1.375, 1.5, 1.625, 1.75, 2.0), 1.5, 1.0),
    "burst_hold_fraction": Constant((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), 0.8, 1.0, of_memory=True),
    "weight_window_bytes": Constant((640, 768, 1024, 1280, 1536, 2048), 1280, 1024, of_memory=True),
}
"""The port of Ethos-U55 brings 8 bytes per cycle; 64 bits hold the 8 weights of a cycle uncompressed."""

Values = tuple[float, ...]
"""One value for each of `CONSTANTS`."""


@dataclass(frozen=True, slots=True)
class Case:
    """A record ready to be timed: the operations and words of its streams.

    Its true cycles lie between `low` and `high`, `error_of` gives the error that a page shows.
    """

    name: str
    model: str
    variant: Variant
    streams: Sequence[tuple[Sequence[Operation], int]]
    low: float
    high: float
    error_of: Callable[[int], float]
    is_sweep: bool = False


class Calibration:
    """Records with what they are predicted to take; each pair of record and constants is timed once."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self._known: dict[tuple[int, Values], int] = {}

    def cycles(self, number: int, values: Values) -> int:
        """Predicted cycles of a record."""
        key = number, values
        if key not in self._known:
            case = self.cases[number]
            variant = with_constants(case.variant, dict(zip(CONSTANTS, values, strict=True)))
            traces = [schedule(operations, variant, stream_words=words) for operations, words in case.streams]
            self._known[key] = sum(trace.totals.npu_active_cycles for trace in traces)
        return self._known[key]

    def misfit(self, numbers: Iterable[int], values: Values) -> float:
        """The figure to make small, over some records."""
        models: dict[str, list[float]] = {}
        weighed: list[tuple[float, float]] = []
        for number in numbers:
            case = self.cases[number]
            cycles = self.cycles(number, values)
            distance = 100 * max(case.low - cycles, cycles - case.high, 0) / case.high
            if case.is_sweep:
                weighed.append((SWEEP_SHARE, distance))
            else:
                models.setdefault(case.model, []).append(distance)
        weighed += [(1 / len(item), distance) for item in models.values() for distance in item]
        total = sum(weight for weight, _ in weighed)
        mean = sum(weight * distance for weight, distance in weighed) / total
        return mean + 0.5 * math.sqrt(sum(weight * distance**2 for weight, distance in weighed) / total)

    def choose(self, numbers: Sequence[int]) -> Values:
        """The constants that fit some records best: of compute on those without memory delays, then of memory on all."""
        compute = [number for number in numbers if not self.cases[number].variant.system.adapters]
        values = self._improve(compute, start(), of_memory=False)
        return self._improve(numbers, values, of_memory=True)

    def interval(self, numbers: Sequence[int], values: Values, place: int) -> list[float]:
        """The values of the constant at a place, in a row, with which the misfit grows by `SLACK` at most, the others held."""
        allowed = self.misfit(numbers, values) + SLACK
        tried = sorted({*list(CONSTANTS.values())[place].values, values[place]})
        at = tried.index(values[place])

        def fits(value: float) -> bool:
            return self.misfit(numbers, (*values[:place], value, *values[place + 1 :])) <= allowed

        below = list(itertools.takewhile(fits, tried[:at][::-1]))
        return [*below[::-1], *itertools.takewhile(fits, tried[at:])]

    def _improve(self, numbers: Sequence[int], values: Values, *, of_memory: bool) -> Values:
        """The values with some constants changed one at a time until none gains anything."""
        best = self.misfit(numbers, values) + _cost(values)
        is_better = True
        while is_better:
            is_better = False
            for place, constant in enumerate(CONSTANTS.values()):
                for value in constant.values if constant.of_memory == of_memory else ():
                    tried = (*values[:place], value, *values[place + 1 :])
                    if (figure := self.misfit(numbers, tried) + _cost(tried)) < best - 1e-9:
                        values, best, is_better = tried, figure, True
        return values

    def errors(self, numbers: Iterable[int], values: Values) -> list[float]:
        """Absolute errors in percent, as pages show them."""
        return [abs(self.cases[number].error_of(self.cycles(number, values))) for number in numbers]


def start() -> Values:
    """Where the search begins."""
    return tuple(constant.start for constant in CONSTANTS.values())


def shipped(variant: Variant) -> Values:
    """The constants of a target."""
    return tuple(float(getattr(variant.timing, name)) for name in CONSTANTS)


def _cost(values: Values) -> float:
    pairs = zip(values, CONSTANTS.values(), strict=True)
    return WORTH * sum(constant.steps_away(value) for value, constant in pairs)


def with_constants(variant: Variant, constants: Mapping[str, float]) -> Variant:
    """The variant with other values of some constants of its timing."""
    changes: dict[str, Any] = {name: type(getattr(variant.timing, name))(value) for name, value in constants.items()}
    return replace(variant, timing=replace(variant.timing, **changes))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One model: the constants chosen without it, and the errors of its records, by target, with these and with the shipped."""

    model: str
    constants: Mapping[str, float]
    errors: Mapping[str, list[float]]
    shipped: Mapping[str, list[float]]


def leave_one_out(calibration: Calibration) -> list[LeftOut]:
    """One row for each model that is not the only one: all constants chosen from the records of the others."""
    cases = calibration.cases
    models = sorted({case.model for case in cases})
    rows = []
    for model in models if len(models) > 1 else ():
        values = calibration.choose([number for number, case in enumerate(cases) if case.model != model])
        own = [number for number, case in enumerate(cases) if case.model == model and not case.is_sweep]
        rows.append(
            LeftOut(
                model,
                dict(zip(CONSTANTS, values, strict=True)),
                _by_target(calibration, own, lambda number, values=values: values),  # type: ignore[misc]
                _by_target(calibration, own, lambda number: shipped(cases[number].variant)),
            )
        )
    return rows


def _by_target(calibration: Calibration, numbers: list[int], values_of: Callable[[int], Values]) -> dict[str, list[float]]:
    errors: dict[str, list[float]] = {}
    for number in numbers:
        target = calibration.cases[number].variant.name
        errors.setdefault(target, []).extend(calibration.errors([number], values_of(number)))
    return errors


@dataclass(frozen=True, slots=True)
class Pinned:
    """What the records say of one constant: between which of its values the misfit stays within 0.2 percent, and which records
    lose most when it leaves that interval (or, where it never does, at the ends of what was tried).
    """

    name: str
    low: float
    high: float
    is_pinned: tuple[bool, bool]
    records: tuple[str, ...]
    by_model: Mapping[str, tuple[float, float, float]]
    """For each model whose own records say something: the lowest, the best and the highest value that fits them."""


def pin_constants(calibration: Calibration, values: Values) -> list[Pinned]:
    """One row for each constant, the others held."""
    everything = range(len(calibration.cases))
    rows = []
    for place, (name, constant) in enumerate(CONSTANTS.items()):
        fitting = calibration.interval(everything, values, place)
        low, high = fitting[0], fitting[-1]
        tried = sorted({*constant.values, *fitting})
        outside = [*[value for value in tried if value < low][-1:], *[value for value in tried if value > high][:1]]
        with_value = {value: (*values[:place], value, *values[place + 1 :]) for value in tried}
        ends = outside or [tried[0], tried[-1]]
        losses = {
            case.name: max(
                calibration.errors([number], with_value[end])[0] - calibration.errors([number], values)[0] for end in ends
            )
            for number, case in enumerate(calibration.cases)
        }
        most = sorted(losses, key=lambda record: -losses[record])[:3]
        is_pinned = low != tried[0], high != tried[-1]
        records = tuple(record for record in most if losses[record] > 0.5)
        rows.append(Pinned(name, low, high, is_pinned, records, _by_model(calibration, values, place)))
    return rows


def _by_model(calibration: Calibration, values: Values, place: int) -> dict[str, tuple[float, float, float]]:
    """What each model alone says of the constant at a place, the others held; models that fit every value are left out."""
    tried = list(CONSTANTS.values())[place].values
    result = {}
    for model in sorted({case.model for case in calibration.cases}):
        own = [number for number, case in enumerate(calibration.cases) if case.model == model]
        misfits = {value: calibration.misfit(own, (*values[:place], value, *values[place + 1 :])) for value in tried}
        least = min(misfits.values())
        fitting = [value for value in tried if misfits[value] <= least + SLACK]
        if len(fitting) < len(tried):
            result[model] = fitting[0], min(misfits, key=misfits.__getitem__), fitting[-1]
    return result
