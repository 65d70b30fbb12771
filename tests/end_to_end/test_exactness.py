"""The promise: compiled and simulated results equal LiteRT's reference kernels bit for bit, on every target.

FULLY_CONNECTED is compared by the hardware's rounding (two roundings), which LiteRT's reference of that operator does not use;
`run_reference(fully_connected="npu")` gives that oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu
from npu.compiler.targets import compiler_targets
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, repaired, run_reference
from tests.support.random_graphs import OPERATORS, cases, chains
from tests.support.shared import shared_models

ROOT = Path(__file__).parents[2]
TARGETS = compiler_targets()
SEEDS = (1, 2, 3)

SMALL = ("mlperf_kws_int8", "mlperf_resnet8_int8", "mlperf_ad_int8", "micro_speech_int8")
LARGE = (
    "mlperf_vww_int8",
    "kws_micronet_m_int8",
    "ad_medium_int8",
    "mobilenet_v2_1.0_224_INT8",
    "yolo-fastest_192_face_v4",
    "person_detect_int8",
)


LARGE_TARGETS = ("ethos-u55-128", "ethos-u65-512")
"""Those of the default run, one for a model; the small models and the random operators are tried on all."""


@lru_cache(maxsize=32)
def _reference(model: bytes, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs of a model and what the reference makes of them, which is the same for every target."""
    inputs = random_inputs(model, seed)
    return inputs, run_reference(model, inputs, fully_connected="npu")


def assert_exact(model: bytes, target: str, seeds: tuple[int, ...]) -> None:
    model = repaired(model)
    compiled = npu.compile(model, target=target)
    for seed in seeds:
        inputs, expected = _reference(model, seed)
        found = npu.run(compiled.content, inputs).outputs
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("target", TARGETS)
def test_the_example_is_exact(target: str) -> None:
    assert_exact((ROOT / "examples" / "digits.tflite").read_bytes(), target, SEEDS)


def _real(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in shared_models()]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", _real(SMALL))
def test_a_small_real_model_is_exact(name: str, target: str) -> None:
    assert_exact(shared_models()[name].read_bytes(), target, SEEDS)


def _large_cases() -> Iterator[Any]:
    for number, name in enumerate(_real(LARGE)):
        for target in TARGETS:
            is_quick = target == LARGE_TARGETS[number % len(LARGE_TARGETS)]
            yield pytest.param(name, target, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "target"), list(_large_cases()))
def test_a_large_real_model_is_exact(name: str, target: str) -> None:
    assert_exact(shared_models()[name].read_bytes(), target, SEEDS)


@pytest.mark.parametrize("operator", OPERATORS)
def test_random_single_operators_are_exact(operator: str) -> None:
    for number, case in enumerate(cases(operator, 6, seed=11)):
        assert_exact(write_model(case.model), TARGETS[number % len(TARGETS)], (number,))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_many_random_single_operators_are_exact(operator: str, target: str) -> None:
    for number, case in enumerate(cases(operator, 200, seed=12)):
        assert_exact(write_model(case.model), target, (number,))


def test_random_chains_with_branches_are_exact() -> None:
    for number, case in enumerate(chains(24, seed=13)):
        assert_exact(write_model(case.model), TARGETS[number % len(TARGETS)], (number,))
