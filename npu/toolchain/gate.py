"""Conditions that make a check fail: for continuous integration. The only place that knows their names and the budget file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from constraints.profiles import profile_named
from constraints.rule import Profile
from npu.errors import ConfigError, UsageError
from npu.graph.graph import Model
from npu.graph.strict import departures
from npu.hardware.document import read_document
from npu.hardware.shipped import closest
from npu.records import dataclass
from npu.reports.check_report import CheckReport, QualityGate

CONDITIONS: dict[str, Callable[[CheckReport], str | None]] = {
    "cpu": lambda report: _not_on("npu", report),
    "reference": lambda report: _on("reference", report),
    "split": lambda report: _split(report),
}
"""Named conditions beside rule ids: what each says of a report, None if all is well."""

_MOST_DEPARTURES = 20


@dataclass(frozen=True, slots=True)
class Budget:
    """What a model may need at most: operators on the CPU, cycles of one inference, bytes of SRAM. None: no limit."""

    max_cpu_ops: int | None = None
    max_cycles: int | None = None
    max_sram: int | None = None

    @property
    def needs_compilation(self) -> bool:
        """Whether an estimate is not enough to judge."""
        return self.max_cycles is not None or self.max_sram is not None


def read_budget(path: Path) -> Budget:
    """The budget in a YAML or JSON file. ConfigError names the entry at fault."""
    content = read_document(path, "a budget", example="max_cycles: 100000")
    known = list(Budget.__dataclass_fields__)
    if not content:
        raise ConfigError(f"{path}: must map some of {', '.join(known)} to numbers, got nothing")
    for name, value in content.items():
        if name not in known:
            raise ConfigError(f"{path}: entries must be some of {', '.join(known)}, got {name!r}{closest(name, known)}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ConfigError(f"{path}: {name}: must be a whole number of at least 0, got {value!r}")
    return Budget(**content)


def check_conditions(names: Iterable[str], profile: str) -> tuple[str, ...]:
    """The conditions of `--fail-on`, comma-separated or one by one. UsageError for one that could never come true."""
    names = list(names)
    asked = tuple(part.strip() for name in names for part in name.split(",") if part.strip())
    rules = _rule_ids(profile_named(profile))
    for name in asked or [name.strip() for name in names]:
        if name not in CONDITIONS and name not in rules:
            raise UsageError(f"--fail-on: must be {', '.join(CONDITIONS)} or a rule id of profile {profile}, got {name!r}")
    return asked


def judge(
    report: CheckReport, conditions: Iterable[str], budget: Budget | None = None, strictly: Model | None = None
) -> CheckReport:
    """The report with every condition and every limit of a budget, and whether the model meets it.

    `strictly` is the model, where it must also be one that TFLite's interpreter takes.
    """
    gates = [QualityGate(f"--fail-on {name}", _failure(name, report)) for name in conditions]
    if strictly is not None:
        gates += _strict_gates(strictly)
    return dataclasses.replace(report, gates=(*gates, *(_budget_gates(report, budget) if budget is not None else ())))


def _strict_gates(model: Model) -> list[QualityGate]:
    """A failure for each of the first departures, or one gate that is met."""
    refused: list[str | None] = [f"TFLite's interpreter refuses {departure}" for departure in departures(model)]
    if len(refused) > _MOST_DEPARTURES:
        refused = [*refused[:_MOST_DEPARTURES], f"and {len(refused) - _MOST_DEPARTURES} more"]
    return [QualityGate("--strict", failure) for failure in refused or [None]]


def _budget_gates(report: CheckReport, budget: Budget) -> Iterator[QualityGate]:
    on_cpu = sum(operator.base.placement == "cpu" for operator in report.operators)
    needs = (
        ("max_cpu_ops", budget.max_cpu_ops, on_cpu, "operators are on the CPU"),
        ("max_cycles", budget.max_cycles, report.totals.total_cycles, "cycles are needed"),
        ("max_sram", budget.max_sram, report.totals.sram_bytes, "bytes of SRAM are needed"),
    )
    for name, limit, need, what in needs:
        if limit is not None and need is not None:
            is_exceeded = need > limit
            yield QualityGate(f"budget {name}", f"at most {limit:,} allowed, {need:,} {what}" if is_exceeded else None)


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
