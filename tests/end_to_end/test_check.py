"""`npu check` as people and continuous integration call it."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from npu.cli.main import main
from npu.graph.dtype import DType
from npu.reports.report import SCHEMA_PATH
from npu.runtime.custom import CustomOperator, register_custom_operator, unregister_custom_operator
from npu.runtime.delegate import Status

from tests.support.builder import ModelBuilder
from tests.support.check_models import mixed_model
from tests.support.shared import shared_models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.tflite"
    path.write_bytes(mixed_model())
    return path


def test_a_condition_that_comes_true_gives_exit_code_3_after_the_report(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(model), "--profile", "v0.1", "--fail-on", "cpu", "--fail-on", "V-CONV-2"]) == 3
    output = capsys.readouterr()
    assert "3 of 7 operators on the NPU" in output.out
    assert output.err == "npu: check failed: --fail-on cpu: operators 1, 3, 5, 6 not on the NPU\n"


def test_an_unknown_condition_is_refused_before_anything_is_written(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(SystemExit) as caught:
        main(["check", str(model), "--fail-on", "X", "--format", "json", "-o", str(path)])
    assert caught.value.code == 2
    assert not path.exists()


@pytest.mark.parametrize(("limit", "code"), [(4, 0), (3, 3)])
def test_a_budget_decides_the_exit_code(limit: int, code: int, model: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budget.yaml"
    budget.write_text(f"max_cpu_ops: {limit}\nmax_cycles: 1000000000\nmax_sram: 1000000\n")
    assert main(["check", str(model), "--profile", "v0.1", "--budget", str(budget)]) == code


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--fail-on", "V-CONV-2"], 0), (["--fail-on", "cpu,split"], 3)])
def test_what_a_server_displays_agrees_with_the_exit_code(options: list[str], code: int, model: Path, tmp_path: Path) -> None:
    junit, sarif = tmp_path / "report.xml", tmp_path / "report.sarif"
    command = ["check", str(model), "--profile", "v0.1", *options]
    assert main([*command, "--format", "junit", "-o", str(junit)]) == code
    assert main([*command, "--format", "sarif", "-o", str(sarif)]) == code
    failures = ElementTree.parse(junit).getroot().findall(".//failure")
    results = json.loads(sarif.read_text())["runs"][0]["results"]
    assert len(failures) == sum(result["level"] == "error" for result in results) == (2 if code else 0)


@pytest.mark.parametrize("form", ["text", "json", "md", "html"])
def test_an_operator_without_a_kernel_is_noted(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32)
    for name in ("mine", "yours", "mine"):
        x = b.op("CUSTOM", [x], (1, 4), DType.FLOAT32, custom_code=name)
    b.output(b.op("BITCAST", [x], (1, 4), DType.FLOAT32))
    path = tmp_path / "custom.tflite"
    path.write_bytes(b.build())
    operator = CustomOperator(lambda context, node: Status.OK)
    register_custom_operator("yours", operator)
    try:
        assert main(["check", str(path), "--format", form]) == 0
    finally:
        unregister_custom_operator("yours")
    text = html.unescape(capsys.readouterr().out)
    note = "npu run refuses the model, unless --timing-only: there is no kernel for operators 0, 2, custom 'mine'."
    assert note in text
    assert "custom 'yours'" not in text
    if form == "json":
        content = json.loads(text)
        jsonschema.validate(content, json.loads(SCHEMA_PATH.read_text()))
        assert content["notes"] == [note, note.replace("operators 0, 2, custom 'mine'", "operator 3, BITCAST")]
    assert main(["run", str(path)]) == 1
    assert main(["run", str(path), "--timing-only"]) == 0


def test_a_compiled_file_is_told_from_a_model(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = tmp_path / "compiled.tflite"
    assert main(["compile", str(model), "-o", str(compiled)]) == 0
    for path, is_noted in ((model, False), (compiled, True)):
        assert main(["check", str(path)]) == 0
        assert ("This file is compiled already" in capsys.readouterr().out) is is_noted


def test_memories_are_chosen_as_for_a_run(model: Path, tmp_path: Path) -> None:
    checked, timed = tmp_path / "check.json", tmp_path / "run.json"
    chosen = ["--system", "Deep_Embedded", "--memory-mode", "Sram_Only"]
    assert main(["check", str(model), *chosen, "--exact", "--format", "json", "-o", str(checked)]) == 0
    assert main(["run", str(model), *chosen, "--timing-only", "--report", str(timed)]) == 0
    found, expected = (json.loads(path.read_text()) for path in (checked, timed))
    for name in ("system", "memory_mode", "hardware_sha256", "memories"):
        assert found[name] == expected[name]
    assert found["totals"]["total_cycles"] == expected["totals"]["total_cycles"]


def test_exact_cycles_come_from_a_compilation(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert main(["check", str(model), "--exact", "--format", "json", "-o", str(path)]) == 0
    content = json.loads(path.read_text())
    run = tmp_path / "run.json"
    assert main(["run", str(model), "--report", str(run)]) == 0
    timed = json.loads(run.read_text())
    assert content["cycles_from"] == "compilation"
    for name in ("total_cycles", "npu_cycles", "cpu_cycles", "sram_bytes", "macs"):
        assert content["totals"][name] == timed["totals"][name], name
    for ours, theirs in zip(content["operators"], timed["operators"], strict=True):
        assert (ours["placement"], ours["cycles"]) == (theirs["placement"], theirs["cycles"])


PROFILES = ("u55-u65", "v0.1", "xnnpack")


def _models_and_profiles() -> Iterator[Any]:
    """Every model with every profile, two thirds of them slow: the profiles take turns."""
    for number, name in enumerate(sorted(shared_models())):
        for place, profile in enumerate(PROFILES):
            yield pytest.param(name, profile, marks=() if number % len(PROFILES) == place else pytest.mark.slow)


@pytest.mark.parametrize(("name", "profile"), list(_models_and_profiles()))
def test_every_model_gets_a_report(name: str, profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    code = main(["check", str(shared_models()[name]), "--profile", profile, "--format", "json", "-o", str(path)])
    if name.startswith("invalid"):
        assert code == 1
        assert "Traceback" not in capsys.readouterr().err
        return
    assert code == 0
    content = json.loads(path.read_text())
    if profile == "u55-u65":  # the others fill the same fields; validation takes longer than the report
        jsonschema.validate(content, json.loads(SCHEMA_PATH.read_text()))
    assert all(row["placement"] == "npu" or row["violations"] or profile == "xnnpack" for row in content["operators"])
