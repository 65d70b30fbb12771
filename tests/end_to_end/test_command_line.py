"""The command line from outside: exit codes, texts of the errors, files written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import npu
from npu.cli.main import main
from npu.reports.report import SCHEMA_PATH

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits.tflite"
SEVEN = ROOT / "examples" / "digit_7.npy"


def run_fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "npu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert captured.err.startswith("npu: error: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("npu: error: ").rstrip("\n")


@pytest.fixture
def truncated(tmp_path: Path) -> Path:
    path = tmp_path / "truncated.tflite"
    path.write_bytes(DIGITS.read_bytes()[:5000])
    return path


def test_a_truncated_file_is_named_with_what_is_wrong(capsys: pytest.CaptureFixture[str], truncated: Path) -> None:
    for command in ("run", "check"):
        message = error_of(capsys, command, truncated)
        assert "truncated.tflite" in message
        assert "must point into the file" in message


def test_a_text_file_is_not_a_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "notes.tflite"
    path.write_text("all work and no play makes a dull model\n" * 20)
    message = error_of(capsys, "run", path)
    assert "notes.tflite" in message
    assert "TFL3" in message


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    message = error_of(capsys, "run", tmp_path / "nowhere.tflite")
    assert "nowhere.tflite" in message


def test_a_wrong_input_shape_is_told_with_the_right_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.npy"
    np.save(path, np.zeros((1, 9, 8, 1), np.int8))
    message = error_of(capsys, "run", DIGITS, "--input", path)
    assert "must be int8 of shape [1, 8, 8, 1], got int8 of shape [1, 9, 8, 1]" in message


def test_a_wrong_input_type_is_told_with_the_right_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.npy"
    np.save(path, np.zeros((1, 8, 8, 1), np.float32))
    message = error_of(capsys, "run", DIGITS, "--input", path)
    assert "must be int8 of shape [1, 8, 8, 1], got float32 of shape [1, 8, 8, 1]; quantize it: round(value / 0.0039" in message


def test_an_input_file_must_be_numpy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.npy"
    path.write_text("1 2 3")
    assert "wrong.npy: must be a readable .npy file" in error_of(capsys, "run", DIGITS, "--input", path)


def test_too_many_inputs_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "run", DIGITS, "--input", SEVEN, "--input", SEVEN)
    assert "the model has 1" in message
    assert message.endswith("got 2")


def test_an_unknown_target_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "run", DIGITS, "--target", "ethos-u55-129")
    assert "ethos-u55-129" in message
    assert "ethos-u55-128" in message


def test_a_broken_yaml_names_file_key_and_value(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: ethos-u55-128\nshram:\n  banks: 48k\n")
    message = error_of(capsys, "run", DIGITS, "--config", path)
    assert "mine.yaml" in message
    assert "shram.banks" in message
    assert "48k" in message


def test_yaml_that_does_not_parse_is_an_error_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: [ethos-u55-128\nshram: {\n")
    assert "mine.yaml" in error_of(capsys, "run", DIGITS, "--config", path)


def test_wrong_usage_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run"])
    assert stopped.value.code == 2
    assert "MODEL" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--sytem", "extra"])
def test_what_a_command_does_not_know_is_refused_with_its_own_usage(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--out` is neither short for --output nor for --output-dir."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["run", str(DIGITS), option, "name"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: npu run ")
    assert f"npu run: error: unrecognized arguments: {option} name" in error.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "a command is needed" in capsys.readouterr().err


def test_the_example_is_recognised_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, outputs = tmp_path / "report.json", tmp_path / "outputs"
    labels = ROOT / "examples" / "labels.txt"
    arguments = ["--input", SEVEN, "--labels", labels, "--output-dir", outputs, "--report", report]
    code = main(["run", str(DIGITS), *(str(argument) for argument in arguments)])
    captured = capsys.readouterr()
    assert code == 0
    assert captured.err == ""
    assert re.search(r"^prediction: 7 \(score 0\.\d+\)$", captured.out, re.MULTILINE)
    assert np.load(outputs / "output_0.npy").argmax() == 7
    content = json.loads(report.read_text())
    jsonschema.validate(content, json.loads(SCHEMA_PATH.read_text()))
    assert content["totals"]["total_cycles"] == content["totals"]["npu_cycles"] + content["totals"]["cpu_cycles"]
    assert all(operator["placement"] == "npu" for operator in content["operators"])


def test_labels_of_another_number_of_classes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("background\n" + "".join(f"{digit}\n" for digit in range(10)))
    assert main(["run", str(DIGITS), "--input", str(SEVEN), "--labels", str(labels)]) == 0
    assert "prediction: 6 (score 0.996; 11 labels for 10 classes)\n" in capsys.readouterr().out


def test_compiling_and_running_the_compiled_file_gives_the_same_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = tmp_path / "compiled.tflite"
    reports = [tmp_path / name for name in ("compile.json", "plain.json", "compiled.json")]
    assert main(["compile", str(DIGITS), "-o", str(compiled), "--report", str(reports[0])]) == 0
    assert main(["run", str(DIGITS), "--report", str(reports[1])]) == 0
    assert main(["run", str(compiled), "--report", str(reports[2])]) == 0
    capsys.readouterr()
    schema = json.loads(SCHEMA_PATH.read_text())
    contents = [json.loads(path.read_text()) for path in reports]
    for content in contents:
        jsonschema.validate(content, schema)
    of_the_file = {"model": "", "model_sha256": ""}
    assert {**contents[1], **of_the_file} == {**contents[2], **of_the_file}


@pytest.mark.parametrize("form", ["text", "json", "md", "html", "sarif", "junit"])
def test_check_writes_each_format(form: str, tmp_path: Path) -> None:
    path = tmp_path / "placement"
    assert main(["check", str(DIGITS), "--format", form, "-o", str(path)]) == 0
    text = path.read_text()
    assert ("CONV_2D" in text) == (form != "sarif")  # SARIF holds findings only, and the example has none
    if form == "json":
        jsonschema.validate(json.loads(text), json.loads(SCHEMA_PATH.read_text()))


def test_a_compiled_file_is_not_compiled_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = tmp_path / "compiled.tflite"
    assert main(["compile", str(DIGITS), "-o", str(compiled)]) == 0
    capsys.readouterr()
    assert "already holds compiled" in error_of(capsys, "compile", compiled, "-o", tmp_path / "again.tflite")


def test_a_compiled_file_refuses_another_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = tmp_path / "compiled.tflite"
    assert main(["compile", str(DIGITS), "-o", str(compiled), "--target", "ethos-u55-64"]) == 0
    capsys.readouterr()
    message = error_of(capsys, "run", compiled, "--target", "ethos-u55-128")
    assert "0x00001006 (ethos-u55-64)" in message
    assert "0x00001807" in message


def test_disasm_lists_the_stream_and_refuses_a_plain_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = tmp_path / "compiled.tflite"
    assert main(["compile", str(DIGITS), "-o", str(compiled)]) == 0
    capsys.readouterr()
    assert main(["disasm", str(compiled)]) == 0
    listing = capsys.readouterr().out
    assert "NPU_OP_CONV" in listing
    assert "NPU_OP_STOP" in listing
    assert "compile it first" in error_of(capsys, "disasm", DIGITS)


def test_configs_lists_the_shipped_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs"]) == 0
    listing = capsys.readouterr().out
    for target in ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512"):
        assert target in listing
    assert main(["configs", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["MACs"] > 0


IMPORTED_BY = """
import sys, npu.cli.main
try:
    npu.cli.main.main([{argument!r}])
except SystemExit:
    pass
print(sorted({{"numpy", "numba", "rich", "yaml"}} & set(sys.modules)))
"""


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    command = [sys.executable, "-c", IMPORTED_BY.format(argument=argument)]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


UNUSED = (
    "constraints.xnnpack",
    "llvmlite",
    "npu.compiler.text",
    "npu.compiler.verify",
    "npu.executorch.schema",
    "npu.runtime.interpreter",
    "npu.toolchain.pte",
    "npu.toolchain.raw",
    "numba",
    "rich",
    "sim.timeline",
    "tempfile",
    "yaml",
    "zipfile",
)
COMPILED_BY = f"""
import sys, npu.cli.main
assert npu.cli.main.main(sys.argv[1:]) == 0
print([name for name in {UNUSED} if name in sys.modules])
"""


def test_a_compilation_imports_only_what_it_uses(tmp_path: Path) -> None:
    arguments = ["compile", str(ROOT / "examples" / "digits.tflite"), "--output", str(tmp_path / "digits.tflite")]
    command = [sys.executable, "-c", COMPILED_BY, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    imported = []
    for _ in range(6):  # the first may make libraries and parse descriptions, which other tests may make it forget again
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        imported.append(done.stdout.splitlines()[-1])
        if imported[-1] == "[]":
            break
    assert imported[-1] == "[]", imported


def test_the_public_names_are_served_without_numba() -> None:
    code = "import sys, npu; print('numba' in sys.modules, sorted(npu.__all__))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert npu.__all__ == sorted(npu.__all__)
    assert found.stdout.strip() == f"False {npu.__all__}"


@pytest.mark.parametrize(
    "command",
    [
        "check DIGITS",
        "explain DIGITS",
        "configs",
        "tf-compat nn.conv2d",
        "benchmark DIGITS --num-runs 1",
        "inference-diff DIGITS --num-runs 1",
        "verify COMPILED",
        "diff DIGITS COMPILED",
        "disasm COMPILED",
        "isa",
        "supported-ops",
    ],
)
def test_what_a_command_prints_also_goes_to_a_file(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, output = tmp_path / "compiled.tflite", tmp_path / "output"
    npu.compile(DIGITS).save(compiled)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    words = command.replace("DIGITS", str(DIGITS)).replace("COMPILED", str(compiled)).split()
    assert main([*words, "-o", str(output)]) == 0
    assert capsys.readouterr().out == ""
    assert output.read_text(encoding="utf-8")
    assert "\x1b" not in output.read_text(encoding="utf-8")


def test_every_public_name_leads_somewhere() -> None:
    assert all(getattr(npu, name) is not None for name in npu.__all__)


def test_results_fit_the_screen_of_a_notebook() -> None:
    compiled = npu.compile(DIGITS)
    results = [compiled, npu.run(compiled.content), npu.time_model(compiled.content), npu.load(DIGITS), npu.explain(DIGITS)]
    for result in [*results, npu.fix(DIGITS), *npu.load(compiled.content).graphs]:
        assert len(repr(result)) < 1500


def test_an_error_in_a_fresh_process_has_no_traceback(truncated: Path) -> None:
    found = run_fresh("run", str(truncated))
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert found.stderr.startswith("npu: error: ")


def test_the_package_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "npu", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert found.stdout.startswith("npulab ")


@pytest.mark.parametrize("command", ["run", "benchmark", "inference-diff"])
def test_a_negative_seed_is_wrong_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, str(DIGITS), "--seed", "-1"])
    assert stop.value.code == 2
    assert "must be a whole number from 0 up, got '-1'" in capsys.readouterr().err
