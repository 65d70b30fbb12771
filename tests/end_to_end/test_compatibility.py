"""A part of the compatibility table: files of the installed Vela on every target against LiteRT; the page made of results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Model
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from sim.delegate import EthosUDelegate

from tests.support.compatibility import (
    INSTALLED,
    TARGETS,
    VERSIONS,
    Result,
    compare,
    environment,
    reference,
    simulate,
)
from tests.support.litert import random_inputs, repaired
from tests.support.random_graphs import chains
from tests.support.shared import shared_models
from tests.support.vela_differences import slice_of_split, softmax_of_one

ROOT = Path(__file__).parents[2]
OWN = {
    "digits": (ROOT / "examples" / "digits.tflite").read_bytes(),
    "softmax of one channel": softmax_of_one(),
    "slice of a split": slice_of_split(3),
} | {f"chain {seed}": write_model(Model((chains(1, seed=seed)[0].graph,))) for seed in (1, 2, 3)}
REAL = ("mlperf_kws_int8", "micro_speech_int8", "mnist_lstm_int8", "mlperf_resnet8_int8", "shufflenet_person_int8")
DIFFERENT = ("dtln_int8", "okay_nabu_stream_int8")
"""The two whose causes docs/exactness.md names."""
COMPILED = {
    "kws_micronet_m_vela_H256": "kws_micronet_m_int8",
    "rnnoise_vela_H256": "rnnoise_int8",
    "person_detect_vela": "person_detect_int8",
}
"""Files that came compiled, by older versions, and what they were made of."""


def present(names: tuple[str, ...] | dict[str, str]) -> list[str]:
    return [name for name in names if name in shared_models()]


def outcome(model: bytes, target: str) -> Result:
    cases = [(inputs, reference(model, inputs)) for inputs in (random_inputs(model, seed) for seed in (1, 2))]
    return compare(model, environment(INSTALLED, Path()), target, cases)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OWN)
def test_a_model_of_the_project_is_exact(name: str, target: str) -> None:
    assert outcome(OWN[name], target) == Result("exact")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ethos-u55-64", "ethos-u65-512"])
@pytest.mark.parametrize("name", present(REAL))
def test_a_real_model_is_exact(name: str, target: str) -> None:
    assert outcome(repaired(shared_models()[name].read_bytes()), target) == Result("exact")


@pytest.mark.slow
@pytest.mark.parametrize("name", present(DIFFERENT))
def test_a_model_with_a_known_cause_differs(name: str) -> None:
    assert outcome(repaired(shared_models()[name].read_bytes()), "ethos-u55-128").status == "differs"


def test_every_file_that_came_compiled_is_tested() -> None:
    found = {name for name, path in shared_models().items() if "_vela" in name and is_compiled(read_model(path))}
    assert found <= set(COMPILED)


@pytest.mark.parametrize("name", present(COMPILED))
def test_a_file_that_came_compiled_equals_the_reference(name: str) -> None:
    model = repaired(shared_models()[COMPILED[name]].read_bytes())
    inputs = random_inputs(model, 3)
    for ours, theirs in zip(simulate(shared_models()[name].read_bytes(), inputs), reference(model, inputs), strict=True):
        np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs)


@pytest.mark.parametrize("name", [name for name in present(COMPILED) if name != "person_detect_vela"])
def test_a_file_that_came_compiled_gives_the_published_outputs(name: str) -> None:
    path, source = shared_models()[name], COMPILED[name]
    interpreter = CpuInterpreter(model_content=path.read_bytes(), experimental_delegates=[EthosUDelegate()])
    interpreter.allocate_tensors()
    for k, detail in enumerate(interpreter.get_input_details()):
        interpreter.set_tensor(detail["index"], np.load(path.with_name(f"{source}.ifm{k}.npy")).reshape(detail["shape"]))
    interpreter.invoke()
    for k, detail in enumerate(interpreter.get_output_details()):
        expected = np.load(path.with_name(f"{source}.ofm{k}.npy"))
        np.testing.assert_array_equal(interpreter.get_tensor(detail["index"]).reshape(expected.shape), expected)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compatibility_page", ROOT / "benchmarks" / "compatibility.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def results(model: str, status: str, note: str = "", versions: tuple[str, ...] = VERSIONS) -> dict[str, dict[str, str]]:
    return {
        f"{model}|{version}|{target}": {"status": status, "note": note, "code": "now"}
        for version in versions
        for target in TARGETS
    }


def test_differences_are_one_row_per_model_and_cause(benchmark: ModuleType) -> None:
    found = results("dtln_int8", "differs", "24 of 257 values, at most 2") | results("plain", "exact")
    page = benchmark.page(found, ["now"])
    assert "| plain | exact (all 6) | exact (all 6) | exact (all 6) | exact (all 6) |" in page
    rows = [line for line in page.splitlines() if line.startswith("| dtln_int8 |")]
    assert len(rows) == 2
    assert rows[1].startswith("| dtln_int8 | 3.12.0, 4.2.0, 5.0.0, 5.2.0 | all | 24 of 257 values, at most 2 | [UNIDIRECTIONAL")
    assert "earlier" not in page


def test_a_difference_without_a_known_cause_says_so(benchmark: ModuleType) -> None:
    found = results("plain", "exact")
    found["plain|5.2.0|ethos-u55-64"] = {"status": "differs", "note": "1 of 9 values", "code": "now", "operators": "MUL 1"}
    assert "| plain | 5.2.0 | u55-64 | 1 of 9 values | not explained (differs); MUL 1 |" in benchmark.page(found, ["now"])


def test_what_is_not_compared_is_listed_once_with_its_versions(benchmark: ModuleType) -> None:
    found = results("some", "refused", "TypeError: no", ("4.2.0", "3.12.0")) | results(
        "some", "exact", versions=("5.0.0", "5.2.0")
    )
    found |= results("all", "no reference", "Not supported. Are you using an old")
    listed = benchmark.page(found, ["now"]).partition("## Not compared")[2]
    assert "- all: no reference: Not supported\n- some, Vela 3.12.0, 4.2.0: refused: TypeError: no\n" in listed


def test_results_of_other_code_are_named(benchmark: ModuleType) -> None:
    found = results("old", "exact") | results("new", "exact")
    found["old|5.2.0|ethos-u55-64"]["code"] = "before"
    assert benchmark.page(found, ["now"]).endswith("Measured with an earlier state of the code, in part at least: old.\n")


def test_every_cause_has_its_section(benchmark: ModuleType) -> None:
    headings = [line for line in (ROOT / "docs" / "exactness.md").read_text().splitlines() if line.startswith("#")]
    anchors = {heading.lstrip("# ").lower().replace(" ", "-") for heading in headings}
    assert {cause.section for cause in benchmark.CAUSES} <= anchors
