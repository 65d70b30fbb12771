"""What the text of a run says of models that the NPU does not take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from constraints.checker import check
from npu.api import disassemble
from npu.cli.main import main
from npu.graph.attributes import AddOptions, Conv2DOptions, GatherNdOptions
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Signature, Tensor
from npu.hardware.catalogue import load_variant
from npu.rendering.html import render_html
from npu.rendering.markdown import render_markdown
from npu.rendering.text import render_text
from npu.reports.check_report import build_check_report
from npu.reports.report import SCHEMA_PATH
from npu.tflite.writer import write_model
from npu.toolchain.listing import assemble

from tests.support.builder import ModelBuilder

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_check_fits_80_columns_also_with_the_longest_operator_type() -> None:
    """132 operators of a type of 28 letters, with a share of the arithmetic and large counts of cycles."""
    tensors = tuple(Tensor(f"tensor {k}", (1, 1000, 1000), DType.INT8) for k in range(133))
    weights = tuple(Tensor("weights", (4000, 1000), DType.INT8, None, np.zeros((4000, 1000), np.int8)) for _ in range(1))
    ops = tuple(Op("UNIDIRECTIONAL_SEQUENCE_LSTM", (k, *[133] * 8), (k + 1,)) for k in range(132))
    model = Model((Graph("main", tensors + weights, ops, (0,), (132,)),))
    variant = load_variant("ethos-u55-128")
    report = build_check_report(model, check(model, variant=variant), "model.tflite", variant)
    text = render_text(report, 80)
    assert "UNIDIRECTIONAL_SE…" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in render_text(report, 120)


MEMORIES = {
    "Shared_Sram": (["--memory-mode", "Shared_Sram"], r"SRAM \d\.\d KiB, constants 1\d\.\d KiB in flash"),
    "Sram_Only": (["--memory-mode", "Sram_Only"], r"SRAM \d\.\d KiB, constants 1\d\.\d KiB in SRAM"),
    "Dedicated_Sram": (["--target", "ethos-u65-256"], r"(SRAM .* KiB, )?DRAM .* KiB, constants 1\d\.\d KiB in DRAM"),
}


@pytest.mark.parametrize("mode", MEMORIES)
def test_the_memory_that_holds_the_constants_is_named(mode: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options, wanted = MEMORIES[mode]
    model = str(EXAMPLES / "digits.tflite")
    assert main(["run", model, "--timing-only", *options]) == 0
    assert re.search(rf"^memory  {wanted}  \(", capsys.readouterr().out, re.MULTILINE)
    assert main(["compile", model, *options, "-o", str(tmp_path / "out.tflite")]) == 0
    assert re.search(rf"; {wanted}$", capsys.readouterr().out, re.MULTILINE)


NARROW = {
    "run": ["run", str(EXAMPLES / "digits.tflite"), "--timing-only"],
    "check": ["check", str(EXAMPLES / "digits_partial.tflite")],
    "explain": ["explain", str(EXAMPLES / "digits.tflite")],
    "verify": ["verify", "faulty.tflite"],
    "configs": ["configs"],
}


@pytest.fixture(scope="module")
def faulty(compiled_digits: bytes) -> bytes:
    """A file whose first operation reads beyond its region."""
    listing = disassemble(compiled_digits).replace("NPU_SET_IFM_BASE0 value=0x400", "NPU_SET_IFM_BASE0 value=0x10000", 1)
    return assemble(listing, compiled_digits)


@pytest.mark.parametrize("command", NARROW)
@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_every_text_fits_the_terminal(
    command: str, width: int, faulty: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    Path("faulty.tflite").write_bytes(faulty)
    assert main(NARROW[command]) == (3 if command == "verify" else 0)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    if command == "verify":  # the sentence is what matters
        assert "must lie" in " ".join(text.split())
    elif command != "configs":
        assert all(kind in text for kind in ("CONV_2D", "FULLY_CONNECTED", "SOFTMAX"))


def test_operators_on_the_cpu_are_called_cpu_in_every_form() -> None:
    """npu run says cpu; npu check says cpu and the kind of kernels."""
    tensors = tuple(Tensor(name, (1, 4), DType.FLOAT64) for name in ("input", "output"))
    model = Model((Graph("main", tensors, (Op("FLOOR", (0,), (1,)),), (0,), (1,)),))
    variant = load_variant("ethos-u55-128")
    report = build_check_report(model, check(model, variant=variant), "model.tflite", variant)
    assert re.search(r"FLOOR .* cpu reference ", render_text(report, 100))
    for form in (render_markdown, render_html):
        assert "cpu reference" in form(report)


def test_a_run_without_work_for_the_npu_states_no_error_of_its_cycles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(EXAMPLES / "digits.tflite"), "--timing-only", "--profile", "xnnpack"]) == 0
    text = capsys.readouterr().out
    assert "NPU 0" in text
    assert "of NPU cycles" not in text
    assert "beats" not in text


@pytest.mark.parametrize(("model", "is_said"), [("digits", False), ("digits_partial", True)])
def test_a_run_with_operators_left_out_by_the_rules_says_who_knows_why(
    model: str, is_said: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", str(EXAMPLES / f"{model}.tflite"), "--timing-only"]) == 0
    assert ("npu check says why" in capsys.readouterr().out) is is_said
    assert main(["compile", str(EXAMPLES / f"{model}.tflite"), "-o", str(tmp_path / "out.tflite")]) == 0
    assert ("npu check says why" in capsys.readouterr().out) is is_said


def test_a_model_for_the_cpu_alone_needs_the_arena_of_its_runtime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32)
    b.output(b.op("ADD", [x, x], (1, 4), DType.FLOAT32, attributes=AddOptions()))
    model = tmp_path / "add.tflite"
    model.write_bytes(b.build())
    assert main(["compile", str(model), "-o", str(tmp_path / "out.tflite")]) == 0
    assert capsys.readouterr().out.endswith("0 of 1 operators on the NPU (npu check says why not all); SRAM 0.1 KiB\n")


def test_an_arena_that_is_too_large_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tensors of the first convolutions need more than there is, wherever they run."""
    b = ModelBuilder()
    x = b.input((1, 32, 32, 16), DType.INT8, scale=0.1)
    kernel = b.constant(np.ones((16, 1, 1, 16), np.int8), scale=[0.01] * 16)
    wide = Conv2DOptions(stride_h=1, stride_w=1)
    for _ in range(2):
        x = b.op("CONV_2D", [x, kernel, None], (1, 32, 32, 16), DType.INT8, 0.1, attributes=wide)
    rows = b.constant(np.array([[[0, row] for row in range(4)]], np.int32))
    x = b.op("GATHER_ND", [x, rows], (1, 4, 32, 16), DType.INT8, 0.1, attributes=GatherNdOptions())
    b.output(b.op("CONV_2D", [x, kernel, None], (1, 4, 32, 16), DType.INT8, 0.1, attributes=wide))
    model, compiled = tmp_path / "model.tflite", tmp_path / "compiled.tflite"
    model.write_bytes(b.build())
    small = ["--set", "memory_mode.arena_cache_bytes=8192"]
    told = "the arena takes 32,768 bytes, more than the 8,192 that memory mode and board give it"
    report = tmp_path / "report.json"
    assert main(["compile", str(model), "-o", str(compiled), *small, "--report", str(report)]) == 0
    text = capsys.readouterr().out
    assert "3 of 4 operators on the NPU (npu check says why not all)" in text
    assert f"note: {told}\n" in text
    jsonschema.validate(content := json.loads(report.read_text()), json.loads(SCHEMA_PATH.read_text()))
    assert content["notes"] == [
        told,
        "most of it, 32,768 bytes, is in use at operator 0 CONV_2D, 1 CONV_2D",
        "18,432 bytes of it hold tensors that the application or operators on the CPU see: no limit below can be met, but "
        "where that is the limit, the rest is made smaller if it can be",
    ]
    for path, arguments, is_said in ((model, small, True), (compiled, small, True), (compiled, [], False)):
        assert main(["run", str(path), "--timing-only", *arguments]) == 0
        assert (told in capsys.readouterr().out) is is_said


def test_signatures_that_are_not_run_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    maps = tuple(Tensor(name, (1, 4, 4, 8), DType.FLOAT32) for name in ("input", "output"))
    graph = Graph("main", maps, (Op("RELU", (0,), (1,)),), (0,), (1,))
    signatures = tuple(Signature(f"call_{number}", number, {"x": 0}, {"y": 1}) for number in range(2))
    path = tmp_path / "model.tflite"
    path.write_bytes(write_model(Model((graph, graph), signatures)))
    assert main(["run", str(path)]) == 0
    assert "note    signatures call_1: neither run nor timed" in capsys.readouterr().out
