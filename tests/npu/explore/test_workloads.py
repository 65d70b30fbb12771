"""Shapes for other tools: every multiplication once, in the published forms."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import yaml

import npu
from npu.cli.main import main
from npu.errors import ModelError
from npu.explore.workloads import export, workloads
from npu.graph.attributes import Conv2DOptions, Padding
from npu.graph.dtype import DType
from npu.toolchain.sources import load

from tests.support.builder import ModelBuilder

DIGITS = "examples/digits.tflite"
MODELS = {"digits": DIGITS, "partial": "examples/digits_partial.tflite"}
HEAD = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
# As ZigZag's workload validator has them.
EQUATION = re.compile(r"^O(\[\w+\])+\s*\+?\s*=\s*\w(\[\w+\])+\s*[*+]\s*\w(\[(?:\w+)?\])+\s*$")
RELATION = re.compile(r"^(\w+)\s*=\s*(?:(\w+)\s*\*\s*)?(\w+)\s*\+\s*(?:(\w+)\s*\*\s*)?(\w+)$")


def one_convolution(**options: int) -> ModelBuilder:
    import numpy as np

    model = ModelBuilder()
    x = model.input((1, 9, 9, 8), DType.INT8, scale=0.1)
    weights = model.constant(np.ones((16, 3, 3, 4), np.int8), scale=[0.01] * 16)  # two groups
    attributes = Conv2DOptions(padding=Padding.VALID, **options)
    height, width = ((9 - 3) // options[name] + 1 for name in ("stride_h", "stride_w"))
    model.output(model.op("CONV_2D", [x, weights, None], (1, height, width, 16), DType.INT8, 0.2, attributes=attributes))
    return model


@pytest.mark.parametrize("path", MODELS.values(), ids=MODELS)
def test_the_multiplications_are_those_of_the_report(path: str) -> None:
    made, _ = workloads(load(path))
    report = npu.check_report(path)
    by_index = {row.base.index: row.base.macs for row in report.operators if row.base.macs}
    assert {workload.index: workload.macs for workload in made} == by_index


@pytest.mark.parametrize("path", MODELS.values(), ids=MODELS)
def test_a_topology_of_scale_sim_counts_as_scale_sim_does(path: str) -> None:
    files, left = export(load(path), "scale-sim")
    head, *lines = files["topology.csv"].splitlines()
    assert head == HEAD
    total = 0
    for line in lines:  # as scalesim 3.0 reads and counts
        name, *sizes, end = line.split(",")
        assert end == ""
        height, width, kernel_height, kernel_width, channels, filters, stride = map(int, sizes)
        rows, columns = (height - kernel_height) // stride + 1, (width - kernel_width) // stride + 1
        layers, channels = (channels, 1) if "DP" in name else (1, channels)
        total += layers * rows * columns * kernel_height * kernel_width * channels * filters
    assert total == sum(workload.macs for workload in workloads(load(path))[0])
    assert any("SOFTMAX" in name for name in left)


def test_a_stride_that_scale_sim_does_not_know_is_named() -> None:
    model = one_convolution(stride_h=1, stride_w=2).model()
    files, left = export(model, "scale-sim")
    assert files["topology.csv"].splitlines() == [HEAD]
    assert left == ["0 CONV_2D: strides must be equal in SCALE-Sim"]


def test_a_problem_of_timeloop_has_every_loop_and_its_steps() -> None:
    model = one_convolution(stride_h=2, stride_w=2).model()
    files, _ = export(model, "timeloop")
    problem = yaml.safe_load(files["0_conv_2d.yaml"])["problem"]
    sizes = {"N": 1, "G": 2, "M": 8, "C": 4, "P": 4, "Q": 4, "R": 3, "S": 3}
    assert problem["instance"] == {**sizes, "Hstride": 2, "Wstride": 2, "Hdilation": 1, "Wdilation": 1}
    assert problem["shape"]["dimensions"] == list(sizes)
    known = {*sizes, *(row["name"] for row in problem["shape"]["coefficients"])}
    for space in problem["shape"]["data_spaces"]:
        assert {name for axis in space["projection"] for term in axis for name in term} <= known
    assert [space["name"] for space in problem["shape"]["data_spaces"] if space.get("read_write")] == ["Outputs"]


@pytest.mark.parametrize("path", MODELS.values(), ids=MODELS)
def test_a_workload_of_zigzag_is_one_that_its_validator_takes(path: str) -> None:
    layers = yaml.safe_load(export(load(path), "zigzag")[0]["workload.yaml"])
    made, _ = workloads(load(path))
    assert [layer["id"] for layer in layers] == list(range(len(made)))
    for layer, workload in zip(layers, made, strict=True):
        assert layer["operator_type"] == "Conv"
        assert EQUATION.match(layer["equation"])
        assert all(RELATION.match(relation) for relation in layer["dimension_relations"])
        assert math.prod(layer["loop_sizes"]) == workload.macs
        assert len(layer["loop_dims"]) == len(layer["loop_sizes"]) == 8


def test_a_model_without_multiplications_is_refused() -> None:
    model = ModelBuilder()
    x = model.input((1, 4), DType.INT8, scale=0.1)
    model.output(model.op("RELU", [x], (1, 4), DType.INT8, 0.1))
    with pytest.raises(ModelError, match="must hold convolutions or fully connected layers"):
        workloads(model.model())


def test_the_command_writes_the_files_and_names_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("scale-sim", "timeloop", "zigzag"):
        assert main(["export-workload", DIGITS, "--form", form, "--output-dir", str(tmp_path)]) == 0
    assert {"topology.csv", "workload.yaml", "0_conv_2d.yaml", "8_fully_connected.yaml"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert "9 SOFTMAX" in capsys.readouterr().out
    file = tmp_path / "file"
    file.touch()
    assert main(["export-workload", DIGITS, "--form", "zigzag", "--output-dir", str(file)]) == 1
