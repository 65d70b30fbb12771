"""`npu.Interpreter` runs plain and compiled files with the same calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npu
from npu.hardware.catalogue import load_variant
from sim.delegate import EthosUDelegate

from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference

DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"


def test_a_plain_file_runs_on_the_cpu() -> None:
    inputs = random_inputs(DIGITS.read_bytes(), 3)
    (found,) = run(npu.Interpreter(model_path=DIGITS), inputs)
    np.testing.assert_array_equal(found, run_reference(DIGITS.read_bytes(), inputs)[0])


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u65-512"])
def test_a_compiled_file_runs_in_the_simulated_npu_that_it_names(target: str) -> None:
    inputs = random_inputs(DIGITS.read_bytes(), 4)
    content = npu.compile(DIGITS, target=target).content
    (found,) = run(npu.Interpreter(model_content=content), inputs)
    np.testing.assert_array_equal(found, run_reference(DIGITS.read_bytes(), inputs, fully_connected="npu")[0])


def test_a_delegate_of_the_caller_takes_the_npu_operators_first() -> None:
    seen: list[int] = []
    variant = load_variant("ethos-u55-64")
    delegate = EthosUDelegate(variant, hook=lambda index, operation, memory: seen.append(index))
    content = npu.compile(DIGITS, target="ethos-u55-64").content
    run(npu.Interpreter(model_content=content, experimental_delegates=[delegate]), random_inputs(DIGITS.read_bytes(), 4))
    assert seen
