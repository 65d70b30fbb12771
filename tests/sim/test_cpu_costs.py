"""Cost tables of host processors: every figure has a source with an error, networks take what was measured, names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from npu.errors import ConfigError
from npu.graph.cpu_cost import cpu_cycles
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op
from npu.hardware.catalogue import load_variant
from npu.hardware.choice import Hardware
from npu.tflite.reader import read_model
from npu.toolchain.session import Session

from tests.support import single_ops
from tests.support.shared import shared_models

FOLDER = Path(__file__).parents[2] / "configs" / "cpus"
CORES = sorted(path.stem for path in FOLDER.glob("*.yaml"))

THOUSANDS = {
    "cortex-m4": {"mlperf_ad_int8": 823, "mlperf_kws_int8": 7_540, "mlperf_vww_int8": 14_240, "mlperf_resnet8_int8": 25_680},
    "cortex-m33": {"mlperf_ad_int8": 776, "mlperf_kws_int8": 6_170, "mlperf_vww_int8": 11_450, "mlperf_resnet8_int8": 20_510},
    "cortex-m7": {"mlperf_ad_int8": 509, "mlperf_kws_int8": 4_300, "mlperf_vww_int8": 8_300, "mlperf_resnet8_int8": 14_550},
    "cortex-m85": {"mlperf_ad_int8": 255, "mlperf_kws_int8": 1_663, "mlperf_vww_int8": 6_430, "mlperf_resnet8_int8": 4_070},
}
"""Thousands of cycles of a whole network: published results of MLPerf Tiny, time by clock."""


def content(core: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{core}.yaml").read_text())
    return found


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("table", ["cycles_per_mac", "cycles_per_element"])
def test_every_entry_has_a_source_and_an_error(core: str, table: str) -> None:
    entries = content(core)[table]
    sources = entries.pop("source")
    assert set(sources) == set(entries)
    for name, text in sources.items():
        assert re.search(r"\+-\d+ %", text), name


@pytest.mark.parametrize("core", CORES)
def test_every_other_figure_has_a_source(core: str) -> None:
    found = content(core)
    figures = {name for name, value in found.items() if isinstance(value, int | float)}
    assert set(found["source"]) == figures


@pytest.mark.parametrize(
    ("core", "network"), [(core, name) for core, row in THOUSANDS.items() for name in row if name in shared_models()]
)
def test_a_network_takes_what_was_measured_within_the_stated_error(core: str, network: str) -> None:
    cpu = load_variant("ethos-u55-128", cpu=core).cpu
    graph = read_model(shared_models()[network].read_bytes()).graphs[0]
    thousands = sum(cpu_cycles(graph, op, cpu) for op in graph.ops) / 1000
    measured = THOUSANDS[core][network]
    assert thousands == pytest.approx(measured, rel=0.21)
    assert cpu.relative_error >= 0.21


@pytest.mark.parametrize("core", CORES)
def test_variables_are_read_and_assigned_at_the_cost_of_a_copy(core: str) -> None:
    cpu = load_variant("ethos-u55-128", cpu=core).cpu
    tensors = (single_ops.tensor((1,), DType.RESOURCE), single_ops.tensor((1, 10, 40)))
    costs = [
        cpu_cycles(Graph("", tensors, (op,), (), ()), op, cpu)
        for op in (Op("ASSIGN_VARIABLE", (0, 1), ()), Op("READ_VARIABLE", (0,), (1,)), Op("RESHAPE", (1,), (1,)))
    ]
    assert costs == [round(400 * cpu.cycles_per_element["RESHAPE"])] * 3


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("kind", "made"), [("MEAN", (1, 16)), ("REDUCE_MAX", (1, 1, 40, 16)), ("ARG_MAX", (1, 10, 40))])
def test_an_operator_that_makes_few_elements_of_many_reads_all_of_them(core: str, kind: str, made: tuple[int, ...]) -> None:
    cpu = load_variant("ethos-u55-128", cpu=core).cpu
    tensors = (single_ops.tensor((1, 10, 40, 16)), single_ops.tensor(made))
    reduced, copied = (
        cpu_cycles(Graph("", tensors, (op,), (), ()), op, cpu) for op in (Op(kind, (0,), (1,)), Op("ABS", (0,), (0,)))
    )
    assert reduced == copied == round(6400 * cpu.cycles_per_element["default"])


MISSPELT = {
    "mac": ("cpu: {cycles_per_mac: {CONV2D: 1}}", "cpu.cycles_per_mac: must be 'default' or an operator"),
    "element": ("cpu: {cycles_per_element: {softmax: 1}}", "did you mean 'SOFTMAX'?"),
    "suggestion": ("cpu: {cycles_per_mac: {DEPTHWISE_CONV2D: 1}}", "did you mean 'DEPTHWISE_CONV_2D'?"),
    "nothing_near": ("cpu: {cycles_per_mac: {zzzz: 1}}", "got 'zzzz'"),
}


@pytest.mark.parametrize("case", MISSPELT)
def test_an_operator_that_does_not_exist_is_refused(case: str, tmp_path: Path) -> None:
    line, part = MISSPELT[case]
    path = tmp_path / "board.yaml"
    path.write_text(f"extends: ethos-u55-128\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        _ = Session(Hardware(config=path)).variant
    assert part in str(caught.value)
    assert "board.yaml" in str(caught.value)
