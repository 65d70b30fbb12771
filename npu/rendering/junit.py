"""The report as JUnit XML: one test case per condition and budget, which fails with it, and one per operator, which tells."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from npu.rendering import facts
from npu.reports.check_report import CheckReport, OperatorCheck
from npu.version import __version__

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: CheckReport) -> str:
    """A test suite named after the model. Its failures are those that decide the exit code: an operator on the CPU is none."""
    tests, failed = len(report.gates) + len(report.operators), len(report.failed_gates)
    counts = {"tests": str(tests), "failures": str(failed), "errors": "0", "time": "0"}
    suites = Element("testsuites", {"name": "npu check", **counts})
    suite = SubElement(suites, "testsuite", {"name": _text(report.model), **counts, "skipped": "0"})
    properties = SubElement(suite, "properties")
    held = {
        "profile": report.profile,
        "target": report.target,
        "cycles": str(report.totals.total_cycles),
        **{name: str(size) for name, size in facts.memory_bytes(report).items()},
        "npulab_version": __version__,
        "model_sha256": report.model_sha256 or "",
        "hardware_sha256": report.hardware_sha256,
    }
    for name, value in held.items():
        SubElement(properties, "property", {"name": name, "value": value})
    for gate in report.gates:
        case = SubElement(suite, "testcase", {"classname": _text(report.model), "name": _text(gate.condition), "time": "0"})
        if gate.failure is not None:
            SubElement(case, "failure", {"type": "gate", "message": _text(gate.failure)})
    for row in report.operators:
        _case(suite, report, row)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(suite: Element, report: CheckReport, row: OperatorCheck) -> None:
    name = f"{row.number} {row.base.type} {row.base.name}".strip()
    case = SubElement(suite, "testcase", {"classname": _text(report.model), "name": _text(name), "time": "0"})
    if row.base.placement == "npu":
        return
    rules = ", ".join(violation.rule for violation in row.base.violations)
    message = f"runs on {facts.DEVICE_NAMES[row.device]}" + (f": {rules}" if rules else "")
    reasons = (f"{violation.rule}: {facts.advice(violation)}" for violation in row.base.violations)
    SubElement(case, "system-out").text = _text("\n".join((message, *reasons)))


def _text(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return _FORBIDDEN.sub("�", text)
