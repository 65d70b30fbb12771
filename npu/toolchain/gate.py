"""What makes a check fail, for continuous integration: the only place that knows the names of the conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from constraints.profiles import profile_named
from constraints.rule import Profile
from npu.errors import UsageError
from npu.graph.graph import Model
from npu.graph.strict import departures
from npu.records import dataclass
from npu.reports.check_report import CheckReport, QualityGate
from npu.toolchain.budget import LIMITS, Baseline, Measurements, baseline_gates, budget_gates

CONDITIONS: dict[str, Callable[[CheckReport], str | None]] = {
    "cpu": lambda report: _not_on("npu", report),
    "reference": lambda report: _on("reference", report),
    "split": lambda report: _split(report),
}
"""Named conditions beside rule ids: what each says of a report, None if all is well."""

_MOST_DEPARTURES = 20


def check_conditions(names: Iterable[str], profile: str) -> tuple[str, ...]:
    """The conditions of `--fail-on`, comma-separated or one by one. UsageError for one that could never come true."""
    names = list(names)
    asked = tuple(part.strip() for name in names for part in name.split(",") if part.strip())
    rules = _rule_ids(profile_named(profile))
    for name in asked or [name.strip() for name in names]:
        if name not in CONDITIONS and name not in rules:
            raise UsageError(f"--fail-on: must be {', '.join(CONDITIONS)} or a rule id of profile {profile}, got {name!r}")
    return asked


@dataclass(frozen=True, slots=True)
class Demands:
    """What a model must meet: conditions, a budget, and a baseline that it may exceed by some percent.

    `measured` are values of limits that a check does not measure itself. `strictly` is the model where it must also be one
    that TFLite's interpreter takes.
    """

    conditions: tuple[str, ...] = ()
    budget: Mapping[str, float] = field(default_factory=dict)
    baseline: Baseline | None = None
    tolerance_percent: float = 0.0
    measured: Measurements = field(default_factory=dict)
    strictly: Model | None = field(default=None, repr=False)

    @property
    def needs_compilation(self) -> bool:
        """Whether an estimate is not enough to judge."""
        return self.baseline is not None or any(LIMITS[name].needs_compilation for name in self.budget)


def judge(report: CheckReport, demands: Demands) -> CheckReport:
    """The report with every demand, and whether the model meets it. UserError for one that cannot be judged."""
    gates = [*report.gates, *(QualityGate(f"--fail-on {name}", _failure(name, report)) for name in demands.conditions)]
    if demands.strictly is not None:
        gates += _strict_gates(demands.strictly)
    gates += budget_gates(report, demands.budget, demands.measured)
    if demands.baseline is not None:
        gates += baseline_gates(report, demands.baseline, demands.tolerance_percent)
    return dataclasses.replace(report, gates=tuple(gates))


def _strict_gates(model: Model) -> list[QualityGate]:
    """A failure for each of the first departures, or one gate that is met."""
    refused: list[str | None] = [f"TFLite's interpreter refuses {departure}" for departure in departures(model)]
    if len(refused) > _MOST_DEPARTURES:
        refused = [*refused[:_MOST_DEPARTURES], f"and {len(refused) - _MOST_DEPARTURES} more"]
    return [QualityGate("--strict", failure) for failure in refused or [None]]


def _failure(condition: str, report: CheckReport) -> str | None:
    return CONDITIONS[condition](report) if condition in CONDITIONS else _breaks(condition, report)


def _rule_ids(profile: Profile) -> set[str]:
    return {rule.id for rule in profile.rules} | {profile.unlisted_rule}


def _breaks(rule: str, report: CheckReport) -> str | None:
    numbers = [operator.number for operator in report.operators if any(v.rule == rule for v in operator.base.violations)]
    return f"broken by {_operators(numbers)}" if numbers else None


def _not_on(device: str, report: CheckReport) -> str | None:
    numbers = [operator.number for operator in report.operators if operator.device != device]
    return f"{_operators(numbers)} not on the {device.upper()}" if numbers else None


def _on(device: str, report: CheckReport) -> str | None:
    numbers = [operator.number for operator in report.operators if operator.device == device]
    return f"{_operators(numbers)} on the {device} kernels" if numbers else None


def _split(report: CheckReport) -> str | None:
    numbers = [row.number for row in report.splitting]
    return f"NPU partitions split by {_operators(numbers)}" if numbers else None


def _operators(numbers: list[str]) -> str:
    shown = ", ".join(numbers[:10]) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return f"operator{'s' if len(numbers) > 1 else ''} {shown}"
