"""Reports of files that other compilers made, or that are broken; and what tells of every report where it comes from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from npu.api import compile
from npu.cli.main import main
from npu.graph.dtype import DType
from npu.graph.ethos_u import Input
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.reports.report import memory_of_file
from npu.tflite.reader import read_model

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"


@pytest.mark.parametrize(
    ("position", "field"),
    [(Input.CONSTANTS, "read_only_bytes"), (Input.SCRATCH, "arena_bytes"), (Input.FAST_SCRATCH, "fast_bytes")],
)
def test_memory_that_an_operator_leaves_out_counts_as_none(position: Input, field: str) -> None:
    model = read_model(compile(DIGITS, "ethos-u65-256").content)
    graph = model.graphs[0]
    (op,) = graph.ops
    inputs = tuple(ABSENT if place == position else index for place, index in enumerate(op.inputs))
    changed = replace(model, graphs=(replace(graph, ops=(replace(op, inputs=inputs),)),))
    assert getattr(memory_of_file(model), field) > 0
    assert getattr(memory_of_file(changed), field) == 0


def test_tensors_of_a_model_on_the_cpu_share_the_arena_by_lifetime() -> None:
    """Of three maps of 64 KiB, two live at a time; the one that nothing uses needs no memory."""
    tensors = tuple(Tensor(name, (1, 256, 256), DType.INT8) for name in ("input", "middle", "output", "unused"))
    ops = (Op("RELU", (0,), (1,)), Op("RELU", (1,), (2,)))
    assert memory_of_file(Model((Graph("main", tensors, ops, (0,), (2,)),))).arena_bytes == 2 * 65536


def reports_of(folder: Path, *options: str) -> dict[str, dict[str, object]]:
    """The JSON of every command that reports on examples/digits.tflite, with the same options."""
    files = {name: folder / f"{name}.json" for name in ("run", "compile", "check", "explain")}
    assert main(["run", str(DIGITS), "--timing-only", *options, "--report", str(files["run"])]) == 0
    assert main(["compile", str(DIGITS), *options, "-o", str(folder / "out.tflite"), "--report", str(files["compile"])]) == 0
    assert main(["check", str(DIGITS), *options, "--format", "json", "-o", str(files["check"])]) == 0
    assert main(["explain", str(DIGITS), *options, "--format", "json", "-o", str(files["explain"])]) == 0
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items()}


def test_every_report_names_the_model_by_its_digest(tmp_path: Path) -> None:
    reports = reports_of(tmp_path)
    assert {report["model_sha256"] for report in reports.values()} == {hashlib.sha256(DIGITS.read_bytes()).hexdigest()}
    made = hashlib.sha256((tmp_path / "out.tflite").read_bytes()).hexdigest()
    assert reports["compile"]["compiled_sha256"] == made
    assert main(["run", str(tmp_path / "out.tflite"), "--timing-only", "--report", str(tmp_path / "again.json")]) == 0
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))["model_sha256"] == made


def test_hardware_of_one_name_and_other_fields_has_another_digest(tmp_path: Path) -> None:
    found = []
    for banks in ("24", "32", "24"):
        folder = tmp_path / f"{len(found)}"
        folder.mkdir()
        reports = reports_of(folder, "--set", f"shram.banks={banks}")
        assert {report["target"] for report in reports.values()} == {"ethos-u55-128 (changed)"}
        (digest,) = {report["hardware_sha256"] for report in reports.values()}
        found.append(digest)
    assert found[0] == found[2] != found[1]


def test_a_report_is_the_same_wherever_and_whenever_it_is_written(tmp_path: Path) -> None:
    """No time stamps, no paths of the machine."""
    texts = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        reports_of(tmp_path / name)
        texts.append([path.read_text(encoding="utf-8") for path in sorted((tmp_path / name).glob("*.json"))])
    assert texts[0] == texts[1]
    assert str(DIGITS.parent) not in "".join(texts[0])
