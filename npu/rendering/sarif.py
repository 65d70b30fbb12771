"""The report as SARIF 2.1.0 for code-scanning views: an error per failed condition or budget, a warning per violated limit."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from npu.graph.placement import Violation
from npu.rendering import facts
from npu.reports.check_report import CheckReport, OperatorCheck, QualityGate
from npu.version import __version__

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(report: CheckReport) -> str:
    """A log with one run; rules are those that are broken, locations are operators of the model file."""
    rules = facts.broken_rules(report)
    order = {rule: position for position, rule in enumerate(rules)}
    driver = {
        "name": "npulab",
        "semanticVersion": __version__,
        "rules": [*(_rule(rule, demand, fix) for rule, (demand, fix) in rules.items()), *map(_gate_rule, report.failed_gates)],
    }
    results = [
        _result(report, row, violation, order[violation.rule]) for row in report.operators for violation in row.base.violations
    ]
    results += [_gate_result(report, gate, len(rules) + position) for position, gate in enumerate(report.failed_gates)]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "artifacts": [_artifact(report)],
        "properties": _properties(report),
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _properties(report: CheckReport) -> dict[str, Any]:
    """What the findings are about; a SARIF log has no place of its own for totals."""
    totals = report.totals
    sizes = {"sramBytes": totals.sram_bytes, "dramBytes": totals.dram_bytes, "flashBytes": totals.flash_bytes}
    return {
        "profile": report.profile,
        "target": report.target,
        "hardwareSha256": report.hardware_sha256,
        "totalCycles": totals.total_cycles,
        **{name: size for name, size in sizes.items() if size is not None},
    }


def _artifact(report: CheckReport) -> dict[str, Any]:
    """The model's file, with its digest where the report has one."""
    result: dict[str, Any] = {"location": {"uri": quote(report.model)}}
    return {**result, "hashes": {"sha-256": report.model_sha256}} if report.model_sha256 else result


def _rule(rule: str, demand: str, fix: str | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": rule,
        "shortDescription": {"text": demand},
        "defaultConfiguration": {"level": "warning"},
    }
    return {**described, "help": {"text": fix}} if fix else described


def _gate_rule(gate: QualityGate) -> dict[str, Any]:
    return {
        "id": gate.condition,
        "shortDescription": {"text": "A condition that was asked for must hold."},
        "defaultConfiguration": {"level": "error"},
    }


def _gate_result(report: CheckReport, gate: QualityGate, rule: int) -> dict[str, Any]:
    return {
        "ruleId": gate.condition,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": f"{gate.condition}: {gate.failure}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(report.model), "index": 0}}}],
        "partialFingerprints": {"gate/v1": gate.condition},
    }


def _result(report: CheckReport, row: OperatorCheck, violation: Violation, rule: int) -> dict[str, Any]:
    name = f"subgraph {row.graph}/operator {row.base.index} {row.base.type}"
    return {
        "ruleId": violation.rule,
        "ruleIndex": rule,
        "level": "warning",
        "message": {"text": f"{row.base.type} '{row.base.name}' (operator {row.number}): {facts.advice(violation)}"},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": quote(report.model), "index": 0}},
                "logicalLocations": [{"name": row.base.type, "fullyQualifiedName": name, "kind": "member"}],
            }
        ],
        "partialFingerprints": {"operatorAndRule/v1": f"{row.graph}:{row.base.index}:{violation.rule}"},
        "properties": {"limit": violation.limit, "value": violation.value, "cpuCycles": row.cpu_cycles},
    }
