"""Checks in continuous integration: exit code and all forms of the report say the same; the action, the plug-in for pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import npu
from npu.cli.main import main
from npu.native.store import cache_folder

from tests.support.vela import compile_with_vela

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
DIGITS, PARTIAL, CI = ROOT / "examples" / "digits.tflite", ROOT / "examples" / "digits_partial.tflite", ROOT / "examples" / "ci"
CACHE = cache_folder()
SUFFIXES = ("xml", "sarif", "md", "html", "json")


def failures_by_form(folder: Path) -> dict[str, int]:
    """How many failures each saved report tells of."""
    suites = ElementTree.parse(folder / "npulab.xml").getroot()
    sarif = json.loads((folder / "npulab.sarif").read_text())
    return {
        "xml": int(suites.attrib["failures"]),
        "cases": len(suites.findall(".//failure")),
        "sarif": sum(result["level"] == "error" for result in sarif["runs"][0]["results"]),
        "md": (folder / "npulab.md").read_text().count("**Failed**"),
        "html": (folder / "npulab.html").read_text().count("<strong>Failed</strong>"),
        "json": sum("failure" in gate and gate["failure"] is not None
                    for gate in json.loads((folder / "npulab.json").read_text()).get("gates", [])),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "model", "more", "failed"),
    [
        ("budget.yaml", DIGITS, [], 0),
        ("budget_too_small.yaml", DIGITS, [], 2),
        ("budget_too_small.yaml", PARTIAL, ["--fail-on", "cpu,split"], 4),
    ],
    ids=["passes", "fails", "fails in four ways"],
)
def test_exit_code_and_every_form_say_the_same(
    budget: str, model: Path, more: list[str], failed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = [argument for suffix in SUFFIXES for argument in ("--save", str(tmp_path / f"npulab.{suffix}"))]
    assert main(["check", str(model), "--budget", str(CI / budget), *more, *saved]) == (3 if failed else 0)
    assert set(failures_by_form(tmp_path).values()) == {failed}
    printed = capsys.readouterr()
    assert printed.out.count("failed: ") == printed.err.count("check failed: ") == failed


def test_a_baseline_fails_when_the_model_grows(tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    assert main(["check", str(DIGITS), "--format", "json", "-o", str(base)]) == 0
    assert main(["check", str(DIGITS), "--baseline", str(base)]) == 0
    content = json.loads(base.read_text())
    content["totals"]["total_cycles"] = int(content["totals"]["total_cycles"] / 1.05)
    base.write_text(json.dumps(content))
    assert main(["check", str(DIGITS), "--baseline", str(base), "--tolerance", "4"]) == 3
    assert main(["check", str(DIGITS), "--baseline", str(base), "--tolerance", "6"]) == 0
    assert main(["check", str(DIGITS), "--baseline", str(base), "--target", "ethos-u55-64"]) == 1


def test_the_largest_difference_is_measured(tmp_path: Path) -> None:
    (tmp_path / "budget.yaml").write_text("max_difference: 0\n")
    assert main(["check", str(PARTIAL), "--budget", str(tmp_path / "budget.yaml"), "--seed", "3"]) in (0, 3)
    vela = tmp_path / "vela.tflite"
    vela.write_bytes(compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128"))
    (tmp_path / "budget.yaml").write_text("max_difference: 1\n")
    arguments = ["check", str(vela), "--budget", str(tmp_path / "budget.yaml")]
    assert main(arguments) == 1  # without its source nobody knows
    assert main([*arguments, "--source", str(DIGITS)]) == 0


def test_a_compiled_file_is_judged_by_its_real_cycles(tmp_path: Path) -> None:
    for compiled in (npu.compile(DIGITS).content, compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128")):
        file = tmp_path / "compiled.tflite"
        file.write_bytes(compiled)
        total = npu.time_model(compiled).report.totals.total_cycles
        assert npu.check_report(file).totals.total_cycles == total
        for limit, code in ((total, 0), (total - 1, 3)):
            (tmp_path / "budget.yaml").write_text(f"max_cycles: {limit}\nmax_cpu_ops: 0\n")
            assert main(["check", str(file), "--budget", str(tmp_path / "budget.yaml")]) == code


def test_accuracy_comes_from_an_evaluation(tmp_path: Path) -> None:
    (tmp_path / "budget.yaml").write_text("min_accuracy: 0.8\n")
    for value, code in ((0.81, 0), (0.79, 3)):
        (tmp_path / "top.json").write_text(json.dumps({"top1": value}))
        arguments = ["--budget", str(tmp_path / "budget.yaml"), "--accuracy", str(tmp_path / "top.json")]
        assert main(["check", str(DIGITS), *arguments]) == code
    assert main(["check", str(DIGITS), "--budget", str(tmp_path / "budget.yaml")]) == 1


@pytest.mark.parametrize("arguments", [["--fail-on", "bogus"], ["--save", "report.txt"], ["--tolerance", "-1"]])
def test_wrong_usage_ends_with_two(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(DIGITS), *arguments])
    assert ended.value.code == 2


@pytest.mark.parametrize(("budget", "code"), [("budget.yaml", 0), ("budget_too_small.yaml", 3)])
def test_the_steps_of_the_action_run(budget: str, code: int, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][1]
    names = {name: str(field.get("default", "")) for name, field in action["inputs"].items()}
    names |= {"model": str(DIGITS), "target": "ethos-u55-128", "budget": str(CI / budget), "reports": str(tmp_path / "reports")}
    given = {key: names[value.removeprefix("${{ inputs.").removesuffix(" }}")] for key, value in step["env"].items()}
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "npu").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m npu "$@"\n')
    (programs / "npu").chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = os.environ | given | {"PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], env=environment, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == code, done.stderr
    assert summary.read_text() == (tmp_path / "reports" / "npulab.md").read_text()
    assert set(failures_by_form(tmp_path / "reports").values()) == {2 if code else 0}


def test_the_workflow_names_inputs_of_the_action() -> None:
    action, workflow = (yaml.safe_load((ROOT / name).read_text()) for name in ("action.yml", "examples/ci/workflow.yml"))
    (step,) = [step for step in workflow["jobs"]["fits"]["steps"] if step.get("uses") == "./"]
    assert set(step["with"]) <= set(action["inputs"])


def test_the_plug_in_fails_a_test_over_its_budget(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("NPULAB_CACHE_DIR", str(CACHE))  # pytester has a home of its own, without kernels
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.npulab_budget(max_cycles=24_000, max_difference=1, fail_on="cpu")
        def test_fits(npulab_model):
            assert npulab_model({str(DIGITS)!r}, target="ethos-u55-128").totals.sram_bytes < 20_000

        @pytest.mark.npulab_budget(max_cycles=1000, fail_on=["cpu"])
        def test_does_not(npulab_model):
            npulab_model({str(DIGITS)!r})

        @pytest.mark.npulab_budget(max_gpu=1)
        def test_unknown(npulab_model):
            npulab_model({str(DIGITS)!r})

        def test_without_a_budget(npulab_model):
            assert npulab_model({str(PARTIAL)!r}).totals.total_cycles > 0
    """)
    result = pytester.runpytest_subprocess("-p", "npu.pytest_plugin", "--strict-markers", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*budget max_cycles: at most 1,000 allowed, * cycles are needed*", "*got 'max_gpu'*"])


def test_the_plug_in_imports_nothing_heavy() -> None:
    code = "import sys, npu.pytest_plugin; print([name for name in ('numpy', 'numba', 'yaml') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
