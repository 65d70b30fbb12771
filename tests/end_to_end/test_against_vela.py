"""Our compiler beside Vela on the same model, setting and simulator: memory, constants and cycles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.reports.report import Totals

from tests.support.litert import random_inputs, run_reference
from tests.support.shared import shared_models
from tests.support.vela import compile_with_vela

LIMIT = 1.3
DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"


def totals_of(content: bytes, target: str) -> Totals:
    return npu.run(content, target=target).report.totals


LIMITED = {"performance": ("flash_bytes", "npu_cycles"), "size": ("sram_bytes", "flash_bytes", "npu_cycles")}
"""For size, where nothing is copied ahead into memory that happens to be free, SRAM too."""


def assert_within_limit(model: bytes, target: str, *goals: str) -> None:
    theirs = totals_of(compile_with_vela(model, target), target)
    for optimise in goals:
        ours = totals_of(npu.compile(model, target=target, optimise=optimise).content, target)
        for name in LIMITED[optimise]:
            assert getattr(ours, name) <= LIMIT * getattr(theirs, name), (optimise, name)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u55-256"])
def test_the_example_needs_no_more_than_what_vela_makes_of_it(target: str) -> None:
    assert_within_limit(DIGITS.read_bytes(), target, *LIMITED)


@pytest.mark.parametrize("name", [item for item in ("mobilenet_v2_1.0_224_INT8",) if item in shared_models()])
@pytest.mark.parametrize(
    ("target", "goals"),
    [
        ("ethos-u55-128", ("performance",)),
        ("ethos-u55-256", ("performance",)),
        pytest.param("ethos-u55-128", ("size",), marks=pytest.mark.slow),
        pytest.param("ethos-u55-256", ("size",), marks=pytest.mark.slow),
    ],
)
def test_a_large_network_needs_no_more_than_what_vela_makes_of_it(name: str, target: str, goals: Sequence[str]) -> None:
    """What takes long is to look for the least memory."""
    assert_within_limit(shared_models()[name].read_bytes(), target, *goals)


SMALL = {"mlperf_resnet8_int8": (), "mlperf_vww_int8": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SMALL[name]) for name in SMALL if name in shared_models()])
def test_a_small_network_needs_no_more_memory_than_what_vela_makes_of_it(name: str) -> None:
    assert_within_limit(shared_models()[name].read_bytes(), "ethos-u55-128", "size")


MLPERF = ("mlperf_ad_int8", "mlperf_kws_int8", "mlperf_resnet8_int8", "mlperf_vww_int8")


@pytest.mark.parametrize("name", [item for item in MLPERF if item in shared_models()])
def test_the_file_that_vela_compiled_runs_exactly(name: str) -> None:
    model = shared_models()[name].read_bytes()
    inputs = random_inputs(model, 5)
    found = npu.run(compile_with_vela(model, "ethos-u55-128"), inputs).outputs
    for ours, theirs in zip(found, run_reference(model, inputs, fully_connected="npu"), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_example_that_vela_compiled_runs_exactly() -> None:
    model = DIGITS.read_bytes()
    inputs = random_inputs(model, 5)
    found = npu.run(compile_with_vela(model, "ethos-u55-128"), inputs).outputs
    np.testing.assert_array_equal(found[0], run_reference(model, inputs, fully_connected="npu")[0])
