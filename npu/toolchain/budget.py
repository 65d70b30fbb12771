"""What a model may need at most: budgets in files, and earlier reports as baselines. The only place that knows the limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from npu.errors import ConfigError, UserError
from npu.files import read_text
from npu.hardware.document import read_document
from npu.hardware.shipped import closest
from npu.records import dataclass
from npu.reports.check_report import CheckReport, QualityGate

Measurements = Mapping[str, float]
"""What a check does not measure itself, by the name of the limit."""
ACCURACY, DIFFERENCE = "min_accuracy", "max_difference"


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """What is limited: the words for it, how it is read from a report, and what it is called in a stored report."""

    says: str
    need: Callable[[CheckReport], float | None]
    stored: str | None = None
    is_whole: bool = True
    is_least: bool = False
    needs_compilation: bool = True


LIMITS: dict[str, BudgetLimit] = {
    "max_cpu_ops": BudgetLimit(
        "operators are on the CPU", lambda report: on_cpu(report.to_dict()), "operators", needs_compilation=False
    ),
    "max_cycles": BudgetLimit("cycles are needed", lambda report: report.totals.total_cycles, "total_cycles"),
    "max_time_ms": BudgetLimit("ms are needed", lambda report: report.totals.time_ms, is_whole=False),
    "max_sram": BudgetLimit("bytes of SRAM are needed", lambda report: report.totals.sram_bytes, "sram_bytes"),
    "max_flash": BudgetLimit("bytes of constants are needed", lambda report: report.totals.flash_bytes, "flash_bytes"),
    "max_cpu_share": BudgetLimit("of the cycles are the CPU's", lambda report: _cpu_share(report), is_whole=False),
    DIFFERENCE: BudgetLimit("is the largest difference from the reference", lambda report: None, is_whole=False),
    ACCURACY: BudgetLimit("is the accuracy", lambda report: None, is_whole=False, is_least=True),
}
"""Every limit by the name of its entry in a budget file."""


def read_budget(path: Path) -> dict[str, float]:
    """The limits in a YAML or JSON file. ConfigError names the entry at fault."""
    content = read_document(path, "a budget", example="max_cycles: 100000")
    if not content:
        raise ConfigError(f"{path}: must map some of {', '.join(LIMITS)} to numbers, got nothing")
    return checked_limits(content, str(path))


def checked_limits(content: Mapping[str, Any], where: str) -> dict[str, float]:
    """The limits by name. ConfigError names the one at fault."""
    for name, value in content.items():
        if name not in LIMITS:
            raise ConfigError(
                f"{where}: entries must be some of {', '.join(LIMITS)}, got {name!r}{closest(name, list(LIMITS))}"
            )
        is_number = isinstance(value, int if LIMITS[name].is_whole else int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < float("inf"):
            kind = "a whole number" if LIMITS[name].is_whole else "a number"
            raise ConfigError(f"{where}: {name}: must be {kind} of at least 0, got {value!r}")
    return dict(content)


def budget_gates(report: CheckReport, budget: Mapping[str, float], measured: Measurements) -> Iterator[QualityGate]:
    """A gate for each limit. UserError for one that cannot be judged."""
    for name, allowed in budget.items():
        limit = LIMITS[name]
        need = measured.get(name, limit.need(report))
        if need is None or (limit.needs_compilation and name not in measured and report.cycles_from == "estimate"):
            raise UserError(f"budget {name}: cannot be judged, because it was not measured; {_how_to_measure(name)}")
        yield QualityGate(f"budget {name}", _failure(limit, allowed, need))


def _how_to_measure(name: str) -> str:
    if name == ACCURACY:
        return "--accuracy takes what npu eval-classification --format json wrote"
    return "the model must be one that npu compile takes"


def _failure(limit: BudgetLimit, allowed: float, need: float) -> str | None:
    if limit.is_least:
        return f"at least {allowed:,.6g} asked for, {need:,.6g} {limit.says}" if need < allowed else None
    if limit.is_whole:
        return f"at most {allowed:,} allowed, {need:,} {limit.says}" if need > allowed else None
    return f"at most {allowed:,.6g} allowed, {need:,.6g} {limit.says}" if need > allowed else None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What an earlier report says was needed, by the name of the limit; `hardware_sha256` tells on what."""

    path: Path
    hardware_sha256: str
    target: str
    needs: Mapping[str, int]


def _reason(error: Exception) -> str:
    """What was found in place of a file of the right kind."""
    if isinstance(error, OSError):
        return error.strerror or repr(error)
    if isinstance(error, json.JSONDecodeError):
        return f"no JSON: {error}"
    return f"one without {error}" if isinstance(error, KeyError) else repr(error)


def read_baseline(path: Path) -> Baseline:
    """The needs in a JSON report of `npu check`, `npu run` or `npu compile`. ConfigError if it is none."""
    try:
        content = json.loads(read_text(path))
        totals = content["totals"]
        needs = {name: totals.get(limit.stored) for name, limit in LIMITS.items() if limit.stored and limit.stored in totals}
        needs["max_cpu_ops"] = on_cpu(content)
        numbers = {name: int(value) for name, value in needs.items() if value is not None}
        return Baseline(path, str(content["hardware_sha256"]), str(content["target"]), numbers)
    except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path}: must be a JSON report of npu check or npu run, got {_reason(error)}") from error


def baseline_gates(report: CheckReport, baseline: Baseline, tolerance_percent: float) -> Iterator[QualityGate]:
    """A gate for each need of the baseline. ConfigError if it is of other hardware, UserError for what cannot be judged."""
    if baseline.hardware_sha256 != report.hardware_sha256:
        raise ConfigError(
            f"{baseline.path}: must be a report for the hardware of this check, {report.target}, got one for {baseline.target} "
            "with another description; make the baseline again"
        )
    for name, before in baseline.needs.items():
        limit = LIMITS[name]
        need = limit.need(report)
        if need is None:
            raise UserError(f"baseline {name}: cannot be judged, because it was not measured; {_how_to_measure(name)}")
        allowed = int(before * (1 + tolerance_percent / 100))
        failure = f"{before:,} before, at most {allowed:,} allowed, {need:,} {limit.says}" if need > allowed else None
        yield QualityGate(f"baseline {name.removeprefix('max_')}", failure)


def on_cpu(report: Mapping[str, Any]) -> int:
    """Operators on the CPU in the JSON form of a report."""
    return sum(row["placement"] == "cpu" for row in report["operators"])


def _cpu_share(report: CheckReport) -> float | None:
    totals = report.totals
    return (totals.cpu_cycles or 0) / totals.total_cycles if totals.total_cycles else None


def read_accuracy(path: Path) -> float:
    """The accuracy in what an evaluation wrote: the share of right first guesses, or the mean average precision."""
    try:
        content = json.loads(read_text(path))
        value = content["top1"] if "top1" in content else content["mAP"]
        return float(value)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: must be what npu eval-classification or npu eval-detection wrote with --format json, got {_reason(error)}"
        ) from error
