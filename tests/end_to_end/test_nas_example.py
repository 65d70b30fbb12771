"""The example of an architecture search: its networks are keyword networks, its figures those of npulab."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import npu

SCRIPT = Path(__file__).parents[2] / "examples" / "nas" / "keyword_search.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("keyword_search", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


def test_a_search_finds_networks_that_no_other_beats(example: ModuleType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = example.search("himax-we2", 12, 0)
    assert len(study.trials) == 12
    best = min(study.best_trials, key=lambda trial: trial.values[0])
    assert best.values[0] == min(trial.values[0] for trial in study.trials)


def test_a_network_runs_on_the_npu_as_on_the_cpu(example: ModuleType) -> None:
    network = example.Network(seed=1)
    network.convolution(24, (10, 4), stride=2)
    network.depthwise(3, stride=2)
    network.convolution(40, (1, 1))
    network.classify()
    content = network.file()
    report = npu.time_model(content, "boards/himax-we2").report
    assert {row.placement for row in report.operators} == {"npu"}
    assert report.totals.macs == 25 * 5 * 24 * 40 + 13 * 3 * 24 * 9 + 13 * 3 * 24 * 40 + 12 * 40
    assert npu.diff(content, npu.compile(content).content).first is None
