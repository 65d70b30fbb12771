"""Conditions and budgets that make a check fail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from constraints.checker import check
from npu.errors import ConfigError, UsageError, UserError
from npu.graph.attributes import ArgMaxOptions
from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.rendering.facts import failures as told
from npu.reports.check_report import CheckReport, Measured, build_check_report
from npu.tflite.reader import read_model
from npu.toolchain.budget import LIMITS, read_baseline, read_budget
from npu.toolchain.gate import Demands, check_conditions, judge

from tests.support import single_ops as ops
from tests.support.builder import ModelBuilder
from tests.support.check_models import mixed_model

VARIANT = load_variant("ethos-u55-128")


@pytest.fixture(scope="module")
def report() -> CheckReport:
    model = read_model(mixed_model())
    measured = Measured({(0, 0): 1000}, {"sram_bytes": 10_000})
    return build_check_report(model, check(model, profile="v0.1"), "m", VARIANT, measured)


def failures(report: CheckReport, conditions: Iterable[str], **budget: float) -> list[str]:
    return told(judge(report, Demands(tuple(conditions), budget)))


CONDITIONS = {
    "cpu": "--fail-on cpu: operators 1, 3, 5, 6 not on the NPU",
    "reference": "--fail-on reference: operator 6 on the reference kernels",
    "split": "--fail-on split: NPU partitions split by operators 1, 3",
    "V-CONV-1": "--fail-on V-CONV-1: broken by operator 1",
    "V-T-3": "--fail-on V-T-3: broken by operators 3, 5",
    "V-CONV-2": None,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_says_which_operators_meet_it(name: str, report: CheckReport) -> None:
    expected = CONDITIONS[name]
    assert failures(report, check_conditions([name], "v0.1")) == ([] if expected is None else [expected])


def test_a_model_on_the_npu_fails_nothing() -> None:
    model = ops.conv()
    report = build_check_report(model, check(model), "m", VARIANT)
    assert failures(report, ("cpu", "reference", "split"), max_cpu_ops=0) == []


def test_conditions_may_be_given_together_or_apart() -> None:
    assert check_conditions(["cpu,split", "V-CONV-1"], "v0.1") == ("cpu", "split", "V-CONV-1")


@pytest.mark.parametrize("name", ["gpu", "V-CONV-99", "N-LIST"])
def test_a_condition_that_cannot_come_true_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="must be cpu, reference, split or a rule id"):
        check_conditions([name], "v0.1")


def test_a_budget_is_read_from_yaml_and_json(tmp_path: Path) -> None:
    yaml, json = tmp_path / "b.yaml", tmp_path / "b.json"
    yaml.write_text("max_cpu_ops: 3\nmax_cycles: 1000\n")
    json.write_text('{"max_sram": 4096}')
    assert read_budget(yaml) == {"max_cpu_ops": 3, "max_cycles": 1000}
    assert read_budget(json) == {"max_sram": 4096}
    assert Demands(budget=read_budget(yaml)).needs_compilation
    assert not Demands(budget={"max_cpu_ops": 3}).needs_compilation


FAULTS = {
    "nothing": ("", "must be a budget, that is a mapping such as .*, got an empty file"),
    "empty": ("{}", "must map some of max_cpu_ops, max_cycles, max_time_ms, .* to numbers, got nothing"),
    "list": ("- 1", "must be a budget, that is a mapping such as .*, got a list"),
    "unknown": ("max_gpu: 1", "entries must be some of .* got 'max_gpu'"),
    "text": ("max_cycles: many", "max_cycles: must be a whole number of at least 0, got 'many'"),
    "negative": ("max_cycles: -1", "must be a whole number of at least 0, got -1"),
    "truth": ("max_cycles: true", "must be a whole number"),
    "malformed": ("{", "must be valid YAML"),
    "aliases": ("- &a [x]\n- &b [*a, *a]\n- [*b, *b]\n", "must not use anchors and aliases"),
    "endless": ("# " + "x" * (1 << 16), "must be a budget, that is a YAML file of text of at most 65536 bytes, got more"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_faulty_budget_is_named(case: str, tmp_path: Path) -> None:
    path = tmp_path / "budget.yaml"
    path.write_text(FAULTS[case][0])
    with pytest.raises(ConfigError, match=FAULTS[case][1]):
        read_budget(path)


def test_a_missing_budget_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be a budget, .* got: No such file"):
        read_budget(tmp_path / "none.yaml")


def test_a_budget_holds_at_its_limit_and_fails_beyond(report: CheckReport) -> None:
    total = report.totals.total_cycles
    assert total is not None
    assert failures(report, (), max_cpu_ops=4, max_cycles=total, max_sram=10_000) == []
    assert failures(report, (), max_cpu_ops=3, max_cycles=total - 1, max_sram=9_999) == [
        "budget max_cpu_ops: at most 3 allowed, 4 operators are on the CPU",
        f"budget max_cycles: at most {total - 1:,} allowed, {total:,} cycles are needed",
        "budget max_sram: at most 9,999 allowed, 10,000 bytes of SRAM are needed",
    ]
    time, share = report.totals.time_ms, (report.totals.cpu_cycles or 0) / total
    assert time is not None
    assert failures(report, (), max_time_ms=time, max_cpu_share=share) == []
    assert len(failures(report, (), max_time_ms=time * 0.99, max_cpu_share=share * 0.99)) == 2


def argmaxes(count: int, type_of_indices: DType = DType.FLOAT32) -> Model:
    """ARG_MAX operators that leave out which type their indices have, unless one is given."""
    b = ModelBuilder()
    x, axis = b.input((1, 8), DType.INT8, scale=0.1), b.constant(np.array([1], np.int32))
    options = ArgMaxOptions(type_of_indices)
    b.output(*(b.op("ARG_MAX", [x, axis], (1,), DType.INT32, attributes=options) for _ in range(count)))
    return read_model(b.build())


def strictly(model: Model) -> list[str]:
    report = build_check_report(model, check(model), "m", VARIANT)
    return told(judge(report, Demands(strictly=model)))


def test_a_strict_check_fails_on_what_tflite_refuses() -> None:
    must = "output_type must be int32 or int64, got float32"
    assert strictly(argmaxes(2)) == [
        f"--strict: TFLite's interpreter refuses ARG_MAX (op {index}): {must}" for index in range(2)
    ]
    assert strictly(argmaxes(2, DType.INT32)) == []
    assert strictly(argmaxes(23))[20:] == ["--strict: and 3 more"]


def test_what_was_not_measured_cannot_be_judged(report: CheckReport) -> None:
    for name in ("max_flash", "max_difference", "min_accuracy"):
        with pytest.raises(UserError, match=f"budget {name}: cannot be judged"):
            failures(report, (), **{name: 1})
    model = ops.conv()
    estimate = build_check_report(model, check(model), "m", VARIANT)
    with pytest.raises(UserError, match="budget max_cycles: cannot be judged"):
        failures(estimate, (), max_cycles=10**9)


def test_measured_values_are_judged(report: CheckReport) -> None:
    def judged(difference: float, accuracy: float) -> list[str]:
        measured = {"max_difference": difference, "min_accuracy": accuracy}
        return told(judge(report, Demands(budget={"max_difference": 1, "min_accuracy": 0.9}, measured=measured)))

    assert judged(1, 0.9) == []
    assert judged(2, 0.89) == [
        "budget max_difference: at most 1 allowed, 2 is the largest difference from the reference",
        "budget min_accuracy: at least 0.9 asked for, 0.89 is the accuracy",
    ]


def test_a_baseline_may_be_exceeded_by_the_tolerance(report: CheckReport, tmp_path: Path) -> None:
    content = report.to_dict()
    content["totals"] = {**content["totals"], "sram_bytes": 9_900}
    path = tmp_path / "base.json"
    path.write_text(json.dumps(content))
    baseline = read_baseline(path)
    assert set(baseline.needs) == {"max_cpu_ops", "max_cycles", "max_sram"}
    assert told(judge(report, Demands(baseline=baseline, tolerance_percent=2))) == []
    assert told(judge(report, Demands(baseline=baseline, tolerance_percent=1))) == [
        "baseline sram: 9,900 before, at most 9,999 allowed, 10,000 bytes of SRAM are needed"
    ]


def test_a_baseline_of_other_hardware_is_refused(report: CheckReport, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(json.dumps({**report.to_dict(), "hardware_sha256": "0"}))
    with pytest.raises(ConfigError, match="must be a report for the hardware of this check"):
        judge(report, Demands(baseline=read_baseline(path)))
    for text in ("", "[]", "{}", '{"totals": 3}'):
        path.write_text(text)
        with pytest.raises(ConfigError, match="must be a JSON report"):
            read_baseline(path)


def test_every_limit_is_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "gates.md").read_text()
    assert all(f"`{name}`" in page for name in LIMITS)
