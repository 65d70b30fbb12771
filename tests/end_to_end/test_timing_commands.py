"""The commands that tell about time: run --timing-only, --trace and --pmu, and explain."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import npu
from npu.api import disassemble
from npu.api import explain as explain_model
from npu.cli.main import main
from npu.graph.attributes import Conv2DOptions
from npu.graph.dtype import DType
from npu.rendering.explain import explain_text
from npu.reports.report import SCHEMA_PATH

from tests.support.builder import ModelBuilder
from tests.support.shared import shared_models

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits.tflite"


def report_of(capsys: pytest.CaptureFixture[str], path: Path, *arguments: object) -> dict[str, Any]:
    assert main(["run", str(DIGITS), "--report", str(path), *(str(argument) for argument in arguments)]) == 0
    assert capsys.readouterr().err == ""
    content: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(content, json.loads(SCHEMA_PATH.read_text()))
    return content


@pytest.mark.parametrize(
    ("setting", "is_said"),
    [("memories.axi1.clock_scale=0.5", True), ("memories.axi1.size_bytes=1000000", False), ("clock_hz=400000000", False)],
)
def test_a_changed_memory_behind_an_adapter_is_told(setting: str, is_said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", str(DIGITS), "--timing-only", "--set", f"system.{setting}"]
    assert main(command) == 0
    assert ("note: the adapter of axi1" in capsys.readouterr().err) is is_said
    assert main([*command, "--set", "system.adapters.axi1=null"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("system", "is_said"),
    [
        ("memories: {axi1: {read_latency_cycles: 200}}", True),
        ("{memories: {axi1: {read_latency_cycles: 200}}, adapters: {axi1: null}}", False),
        ("{memories: {axi1: {read_latency_cycles: 200}}, adapters: {axi1: {read_latency_cycles: 200}}}", False),
        ("memories: {axi0: {size_bytes: 4194304}}", False),
        ("Deep_Embedded", False),
    ],
)
def test_a_description_that_changes_a_memory_behind_an_adapter_is_told(
    system: str, is_said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "board.yaml"
    board.write_text(f"extends: ethos-u55-128\nsystem:\n  {system}\n")
    assert main(["run", str(DIGITS), "--timing-only", "--config", str(board)]) == 0
    told = "npu: note: the adapter of axi1, not system.memories.axi1, decides how long accesses take; "
    assert capsys.readouterr().err == (f"{told}adapters: {{axi1: null}} in system takes it away\n" if is_said else "")


def test_timing_alone_reports_what_a_run_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    executed = report_of(capsys, tmp_path / "run.json")
    timed = report_of(capsys, tmp_path / "timed.json", "--timing-only")
    assert executed == timed


def test_a_report_says_what_lies_around_the_jobs_and_how_far_off_it_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = report_of(capsys, tmp_path / "run.json", "--timing-only")
    whats = [item["what"] for item in content["overheads"]]
    assert whats == ["copy in", "cache clean", "job start", "interrupt", "cache invalidate", "copy out"]
    assert sum(item["cycles"] for item in content["overheads"]) == content["totals"]["cpu_cycles"]
    assert content["timing_error"]["system"] == content["system"]
    assert main(["run", str(DIGITS), "--timing-only"]) == 0
    text = capsys.readouterr().out
    assert "took no part in the calibration (docs/timing-accuracy.md)" in " ".join(text.split())
    assert "job start 1,875, interrupt 625" in text
    wider = report_of(capsys, tmp_path / "slow.json", "--timing-only", "--system", "Deep_Embedded")["timing_error"]
    memories = "the memories of Ethos_U55_Deep_Embedded"
    assert wider["unmeasured"][-1] == memories
    assert memories not in content["timing_error"]["unmeasured"]
    assert main(["run", str(DIGITS), "--timing-only", "--set", "timing.operation_overhead_cycles=3"]) == 0
    assert "unknown: no measurements" in capsys.readouterr().out


def test_counters_come_with_their_numbers_and_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = report_of(capsys, tmp_path / "run.json", "--timing-only", "--pmu")
    pmu, cycles = content["pmu"], content["totals"]["npu_cycles"]
    assert pmu["events"]["MAC_STALLED_BY_WD"] == {"driver_id": 11, "code": 0x35}
    for unit in pmu["units"]:
        assert unit["active"] + unit["stalled"] + unit["idle"] == unit["elapsed"] == cycles
    assert sum(item["NPU_ACTIVE"] for item in pmu["operators"].values()) == pmu["total"]["NPU_ACTIVE"] == cycles
    for name in ("MAC_ACTIVE", "WD_ACTIVE", "AO_STALLED_BY_OFMP"):
        assert sum(item[name] for item in pmu["operators"].values()) == pmu["total"][name]


def test_a_trace_shows_operators_units_and_counters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    content = report_of(capsys, tmp_path / "run.json", "--trace", path)
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    units = {"command parser", "DMA", "weight decoder", "IFM fetch", "MAC array", "output unit", "AXI0", "AXI1"}
    assert tracks == {"CPU", "operations", *units}
    slices = [event for event in events if event["ph"] == "X"]
    for operator in content["operators"]:
        if operator["cycles"]:
            assert any(event["name"] == f"{operator['index']} {operator['type']} {operator['name']}" for event in slices)
    end = max(event["ts"] + event["dur"] for event in slices)
    assert end == pytest.approx(content["totals"]["total_cycles"] / content["clock_hz"] * 1e6, abs=0.01)
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert counters == {"AXI0 bytes per cycle", "AXI1 bytes per cycle", "arena in use"}
    most = max(event["args"]["bytes"] for event in events if event["name"] == "arena in use")
    assert 0 < most <= content["totals"]["sram_bytes"]


@pytest.mark.parametrize("option", ["--input", "--output-dir", "--labels", "--dump-tensors"])
def test_timing_alone_refuses_what_needs_data(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(DIGITS), "--timing-only", option, str(tmp_path)]) == 1
    assert f"{option}: needs an execution" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-512"])
def test_the_parts_of_every_operator_add_up_to_its_cycles(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(DIGITS), "--target", target, "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert main(["run", str(DIGITS), "--target", target, "--timing-only"]) == 0
    assert f"(NPU {content['npu_cycles']:,}," in capsys.readouterr().out
    for operator in content["operators"]:
        assert operator["ideal_cycles"] + sum(operator["parts"].values()) == operator["cycles"]
        assert all((cycles > 0) == (part != "overlap") for part, cycles in operator["parts"].items()), operator
        assert operator["hints"] == [] or operator["bound_by"] in ("MAC", "weight decode")


EXPLAINED = {"digits": DIGITS} | {
    name: path
    for name, path in shared_models().items()
    if name in ("mlperf_resnet8_int8", "rnnoise_int8", "person_detect_vela", "keyword_scrambled_8bit")
}


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", EXPLAINED)
def test_explain_fits_the_terminal_and_its_shares_are_shares(name: str, width: int) -> None:
    found = explain_model(EXPLAINED[name], None if "vela" in name else "ethos-u65-256")
    text = explain_text(found, width)
    assert max(len(line) for line in text.splitlines()) <= width
    shares = [float(share) for share in re.findall(r"(-?[\d.]+)%", text)]
    assert shares
    assert all(0 <= share <= 100 for share in shares)
    for operator in found.operators:
        if operator.placement == "npu":
            positive = operator.ideal_cycles + sum(cycles for _, cycles in operator.largest_losses())
            assert positive == operator.busy_cycles == operator.cycles + operator.overlapped_cycles
    assert sum(cycles for _, cycles in found.part_sums()) == found.npu_cycles + found.overlapped_cycles


def test_explain_names_bounds_losses_and_free_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(DIGITS), "--optimise", "size"]) == 0
    text = capsys.readouterr().out
    assert "- 1 input channel costs as much as 8" in text
    assert "10 output channels" not in text  # the last layer is bound by its weights: more channels are not free
    assert "channel padding" in text
    assert "weight read" in text


@pytest.mark.parametrize(("scale", "is_said"), [(0.01, True), (1.0, False)])
def test_explain_says_what_an_operator_waits_for(scale: float, is_said: bool) -> None:
    """From a slow memory weights are copied; from a fast one they are read where they are."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    x = b.input((1, 16, 16, 16), DType.INT8, scale=0.1)
    weights = b.constant(rng.integers(-127, 128, (64, 3, 3, 16), np.int8), scale=[0.01] * 64)
    options = Conv2DOptions(stride_h=1, stride_w=1)
    b.output(b.op("CONV_2D", [x, weights, None], (1, 16, 16, 64), DType.INT8, 0.2, attributes=options))
    slow = {"memories": {"axi1": {"clock_scale": scale}}, "adapters": {}}
    board = {"extends": "ethos-u55-128", "system": slow}
    explained = explain_model(b.build(), config=board)
    compiled = npu.compile(b.build(), config=board).content
    copies = [int(size) for size in re.findall(r"; \w{6} Dma region 0 .*, (\d+) bytes", disassemble(compiled))]
    assert explained.operators[0].copied_bytes == sum(copies)
    assert (sum(copies) > 64 * 9 * 16) is is_said
    said = f"- waits for {sum(copies) / 1024:.1f} KiB of weights and tables, which are copied from flash\n"
    assert (said in explain_text(explained, 120)) is is_said


def test_a_field_may_be_changed_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = report_of(capsys, tmp_path / "usual.json", "--timing-only")
    faster = report_of(
        capsys, tmp_path / "faster.json", "--timing-only", "--set", "system.adapters.axi1.read_latency_cycles=16"
    )
    assert faster["target"] == "ethos-u55-128 (changed)"
    assert faster["totals"]["npu_cycles"] < usual["totals"]["npu_cycles"]
    assert faster["timing_error"]["unmeasured"][-1] == "the memories of Ethos_U55_High_End_Embedded"
    assert faster["timing_error"]["worst_error_percent"] > usual["timing_error"]["worst_error_percent"]
    off = report_of(capsys, tmp_path / "off.json", "--timing-only", "--set", "system.adapters={}", "--set", "cpu=cortex-m4")
    assert off["totals"]["npu_cycles"] != usual["totals"]["npu_cycles"]
    assert off["overheads"][0]["cycles"] > usual["overheads"][0]["cycles"]


@pytest.mark.parametrize("chosen", [("--system", "Deep_Embedded"), ("--set", "system=Deep_Embedded")])
def test_a_change_lies_over_the_system_that_was_chosen(
    chosen: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--timing-only", *chosen, "--set", "system.clock_hz=100000000")
    report = report_of(capsys, tmp_path / "report.json", *options)
    assert (report["system"], report["clock_hz"]) == ("Ethos_U55_Deep_Embedded", 100_000_000)


def test_a_change_lies_over_the_memory_mode_that_was_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = report_of(capsys, tmp_path / "one.json", "--timing-only", "--memory-mode", "Sram_Only")
    options = ("--timing-only", "--memory-mode", "Sram_Only", "--set", "memory_mode.constants=axi1")
    two = report_of(capsys, tmp_path / "two.json", *options)
    assert one["memory_mode"] == two["memory_mode"] == "Sram_Only"
    assert one["totals"]["axi1_read_beats"] == 0 < two["totals"]["axi1_read_beats"]


@pytest.mark.parametrize(
    ("change", "message"),
    {
        "no_value": ("shram.banks", "must be KEY=VALUE"),
        "unknown_key": ("shram.bank=3", "did you mean 'banks'"),
        "not_a_number": ("shram.banks=many", "shram.banks: must be an integer in [1, 64], got 'many'"),
    }.values(),
)
def test_a_wrong_change_is_told(change: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(DIGITS), "--timing-only", "--set", change]) == 1
    assert message in capsys.readouterr().err


def test_a_change_to_a_compiled_file_starts_from_its_own_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = tmp_path / "compiled.tflite"
    assert main(["compile", str(DIGITS), "--target", "ethos-u65-512", "-o", str(compiled)]) == 0
    assert main(["run", str(compiled), "--timing-only", "--set", "cpu=cortex-m4"]) == 0
    assert "compiled.tflite on ethos-u65-512 (changed)" in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_table_of_a_run_names_each_operator_by_the_end_of_its_first_name(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["run", str(DIGITS), "--timing-only"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    (pool,) = (line for line in lines if "MAX_POOL_2D" in line)
    assert pool.split()[:2] == ["4", "MAX_POOL_2D"]
    assert ("Pool2d" in pool) == (width >= 80)
    assert not any(line.endswith("…") for line in lines)


def test_configs_lists_what_the_options_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs"]) == 0
    listed = capsys.readouterr().out
    for name in ("examples/wide-array", "ethos-u55-deep-embedded", "dedicated-sram-256kb", "cortex-m85"):
        assert name in listed
