"""Every form of a check's report: golden files for people's forms, structure for machines' forms."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

import npu
from constraints.checker import check
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.rendering.forms import FORMS, render
from npu.rendering.text import render_text
from npu.reports.check_report import (
    CheckReport,
    Crossing,
    DeviceSum,
    OperatorCheck,
    PartitionCheck,
    QualityGate,
    Remedy,
    TensorInfo,
    build_check_report,
)
from npu.reports.report import SCHEMA_PATH, OperatorReport, Report, Totals
from npu.tflite.reader import read_model

from tests.support import single_ops as ops
from tests.support.check_models import mixed_model

Golden = Callable[[str, str], None]
SARIF_SCHEMA = Path(__file__).parents[2] / "support" / "sarif-2.1.0.schema.json"


def report_of(model: Model, name: str = "mixed.tflite", profile: str = "v0.1") -> CheckReport:
    variant = load_variant("ethos-u55-128")
    return build_check_report(model, check(model, profile=profile, variant=variant), name, variant)


@pytest.fixture(scope="module")
def report() -> CheckReport:
    return report_of(read_model(mixed_model()))


# For people


@pytest.mark.parametrize("width", [80, 160])
def test_text_reads_as_agreed_at_a_width(width: int, report: CheckReport, golden: Golden) -> None:
    text = render_text(report, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    golden(f"check/mixed_{width}.txt", text)


def test_colour_changes_nothing_but_colour(report: CheckReport) -> None:
    coloured = render_text(report, 100, colour=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert coloured != plain
    assert [line.rstrip() for line in plain.splitlines()] == render_text(report, 100).splitlines()


def test_markdown_reads_as_agreed(report: CheckReport, golden: Golden) -> None:
    golden("check/mixed.md", render(report, "md"))


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head(report: CheckReport) -> None:
    cells = None
    for line in render(report, "md").splitlines():
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert cells is None or found is None or found == cells, line
        cells = found


class _Page(HTMLParser):
    """Collects tags, their attributes, and the rows of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_asks_for_nothing(report: CheckReport) -> None:
    text = render(report, "html")
    page = _Page()
    page.feed(text)
    assert page.open == []
    asked = {"href", "src", "action", "data", "srcset", "poster"}
    links = [value for _, tag in page.tags for name, value in tag.items() if name in asked]
    assert all(value is not None and value.startswith("#") for value in links)
    assert [item for item in ("http://", "https://", "url(", "@import") if item in text] == []
    assert "default-src 'none'" in text


def test_the_page_has_a_row_per_operator_and_the_text_of_every_broken_rule(report: CheckReport) -> None:
    text = render(report, "html")
    rows = re.findall(r'<tr id="op-([^"]+)" data-on="([^"]+)"', text)
    assert rows == [(row.number, row.device) for row in report.operators]
    assert text.count('class="rule"') == sum(len(row.base.violations) for row in report.operators)
    assert "features &lt;&amp; more&gt;" in text
    assert "features <" not in text


# For machines


def test_json_fits_the_shipped_schema_and_keeps_what_run_reports_have(report: CheckReport) -> None:
    content = json.loads(render(report, "json"))
    schema = json.loads(SCHEMA_PATH.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(content, schema)
    assert content["schema"] == "npulab-report-1"
    assert content["npulab_version"] == npu.__version__
    needed = set(schema["$defs"]["operator"]["required"])
    assert all(needed <= set(row) for row in content["operators"])
    assert [row["placement"] for row in content["operators"]] == ["npu", "cpu", "npu", "cpu", "npu", "cpu", "cpu"]


@pytest.mark.parametrize("missing", ["partitions", "ranking", "devices", "cycles_from"])
def test_the_schema_wants_all_of_a_check(missing: str, report: CheckReport) -> None:
    content = report.to_dict()
    del content[missing]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(json.dumps(content)), json.loads(SCHEMA_PATH.read_text()))


RECORDS: dict[str, tuple[type, ...]] = {
    "tensor": (TensorInfo,), "crossing": (Crossing,), "device": (DeviceSum,), "partition": (PartitionCheck,),
    "remedy": (Remedy,), "gate": (QualityGate,), "operator": (OperatorReport, OperatorCheck),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_the_schema_describes_every_field_of_a_record_and_no_other(name: str) -> None:
    schema = json.loads(SCHEMA_PATH.read_text())
    assert set(schema["$defs"][name]["properties"]) == fields_of(*RECORDS[name]) - {"base"}
    assert schema["$defs"][name]["additionalProperties"] is False


def test_the_schema_describes_every_field_of_both_kinds_of_report() -> None:
    properties = json.loads(SCHEMA_PATH.read_text())["properties"]
    assert set(properties) == fields_of(Report, CheckReport) | {"schema", "npulab_version"}
    assert set(properties["totals"]["properties"]) == fields_of(Totals)


def fields_of(*records: Any) -> set[str]:
    return {field.name for record in records for field in dataclasses.fields(record)}


def test_sarif_names_a_rule_and_a_place_for_every_violation(report: CheckReport) -> None:
    log = json.loads(render(report, "sarif"))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    expected = [(violation.rule, row.base.index) for row in report.operators for violation in row.base.violations]
    assert [result["ruleId"] for result in run["results"]] == [rule for rule, _ in expected]
    for result, (_, index) in zip(run["results"], expected, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        place = result["locations"][0]
        assert place["physicalLocation"]["artifactLocation"] == {"uri": "mixed.tflite", "index": 0}
        assert f"operator {index} " in place["logicalLocations"][0]["fullyQualifiedName"]


def test_sarif_and_junit_hold_the_digest_of_the_model(report: CheckReport) -> None:
    known = dataclasses.replace(report, model_sha256="0" * 64)
    (artifact,) = json.loads(render(known, "sarif"))["runs"][0]["artifacts"]
    assert artifact == {"location": {"uri": "mixed.tflite"}, "hashes": {"sha-256": "0" * 64}}
    properties = ElementTree.fromstring(render(known, "junit")).iter("property")
    assert {item.get("name"): item.get("value") for item in properties}["model_sha256"] == "0" * 64


def test_junit_has_a_case_per_operator_that_tells_why_it_is_on_the_cpu(report: CheckReport) -> None:
    root = ElementTree.fromstring(render(report, "junit"))
    assert root.tag == "testsuites"
    (suite,) = root
    told = [case for case in suite.findall("testcase") if case.find("system-out") is not None]
    assert (suite.get("tests"), suite.get("failures")) == ("7", "0")
    assert [case.get("name") for case in told] == [
        "1 CONV_2D coarse|steps", "3 TRANSPOSE turned", "5 DEQUANTIZE real", "6 SOFTMAX probabilities",
    ]  # fmt: skip
    assert told[0].findtext("system-out", "").splitlines()[1].startswith("V-CONV-1: stride width and height must each be")


GATES = (
    QualityGate("--fail-on cpu", "operators 1, 3"),
    QualityGate("budget max_cycles"),
    QualityGate("budget max_sram", "9 <needed>"),
)


@pytest.mark.parametrize("gates", [(), GATES])
def test_sarif_follows_the_schema_of_the_standard(report: CheckReport, gates: tuple[QualityGate, ...]) -> None:
    schema = json.loads(SARIF_SCHEMA.read_text())
    log = json.loads(render(replace(report, gates=gates), "sarif"))
    jsonschema.validate(log, schema)
    log["runs"][0]["results"][0]["levle"] = "error"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, schema)


def test_every_form_says_which_gates_failed_and_no_more(report: CheckReport) -> None:
    judged = replace(report, gates=GATES)
    suite = ElementTree.fromstring(render(judged, "junit"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("10", "2")
    failed = [case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None]
    assert failed == ["--fail-on cpu", "budget max_sram"]
    run = json.loads(render(judged, "sarif"))["runs"][0]
    errors = [result for result in run["results"] if result["level"] == "error"]
    assert [result["ruleId"] for result in errors] == failed
    assert [run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] for result in errors] == failed
    content = json.loads(render(judged, "json"))
    jsonschema.validate(content, json.loads(SCHEMA_PATH.read_text()))
    assert [gate["failure"] for gate in content["gates"]] == [GATES[0].failure, None, GATES[2].failure]
    assert render(judged, "md").count("**Failed**") == 2
    assert "<strong>Failed</strong>: budget max_sram: 9 &lt;needed&gt;" in render(judged, "html")
    assert render_text(judged, 80).count("failed: ") == 2


def test_a_report_that_passes_holds_no_error_in_any_form(report: CheckReport) -> None:
    passed = replace(report, gates=(QualityGate("--fail-on split"),))
    assert "<failure" not in render(passed, "junit")
    assert all(result["level"] == "warning" for result in json.loads(render(passed, "sarif"))["runs"][0]["results"])
    assert "**Failed**" not in render(passed, "md")


# Odd names


ODD_NAMES = {
    "control characters": "a\x00b\x1bc",
    "markup": '<script>alert("x")</script>',
    "table signs": "a|b\nc`d`",
    "nothing": "",
    "emoji": "😀",
}


@pytest.mark.parametrize("form", ["json", *FORMS])
@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_odd_names_of_tensors_break_no_form(form: str, name: str) -> None:
    model = ops.unary("NEG")
    graph = model.graphs[0]
    tensors = tuple(replace(tensor, name=name) for tensor in graph.tensors)
    text = render(report_of(replace(model, graphs=(replace(graph, tensors=tensors),)), name or "m"), form)
    if form == "junit":
        ElementTree.fromstring(text)
    elif form in ("json", "sarif"):
        json.loads(text)
    elif form == "html":
        _Page().feed(text)
        assert "<script>alert" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("profile", ["u55-u65", "v0.1", "xnnpack"])
@pytest.mark.parametrize("form", ["json", *FORMS])
def test_a_model_without_operators_has_a_report_in_every_form(form: str, profile: str) -> None:
    empty = replace(ops.unary("RELU").graphs[0], ops=(), outputs=(0,))
    text = render(report_of(Model((empty,)), "empty.tflite", profile), form)
    assert text.endswith("\n")
    assert render_text(report_of(Model((empty,)), profile=profile), 80)


# Memory


NEEDS = {"sram_bytes": 4096, "dram_bytes": 0, "flash_bytes": 2048}
MEMORY_IN = {
    "md": "Memory: SRAM 4.0 KiB, constants 2.0 KiB in flash",
    "html": "Memory: SRAM 4.0 KiB, constants 2.0 KiB in flash",
    "json": '"sram_bytes": 4096,\n    "dram_bytes": 0,\n    "flash_bytes": 2048',
    "junit": '<property name="sram_bytes" value="4096" />',
    "sarif": '"sramBytes": 4096,',
}


@pytest.mark.parametrize("form", ["text", *MEMORY_IN])
def test_every_form_tells_the_memory_of_the_compiled_model_and_none_without(form: str, report: CheckReport) -> None:
    needing = replace(report, totals=replace(report.totals, **NEEDS))
    texts = [render_text(one, 120) if form == "text" else render(one, form) for one in (needing, report)]
    assert MEMORY_IN.get(form, MEMORY_IN["md"]) in texts[0]
    assert not any(word in texts[1] for word in ("Memory:", "sramBytes", 'name="sram_bytes"', '"sram_bytes": 4096'))


def test_work_that_counts_for_another_operator_says_for_which(report: CheckReport) -> None:
    row = next(row for row in report.operators if row.device == "npu")
    hidden = replace(row, npu_cycles=0, base=replace(row.base, cycles=0, hidden_behind=4))
    overlapped = replace(report, operators=(hidden,))
    for text in (render_text(overlapped, 160), render(overlapped, "md"), render(overlapped, "html")):
        assert "0 hidden by 4" in text
