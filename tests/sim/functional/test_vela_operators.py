"""Every operator that Vela 5.2 places, alone: compiled by Vela, run here, equal to LiteRT's reference kernels."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npu.errors import StreamError

from tests.support.compatibility import INSTALLED, TARGETS, Result, compare, environment, inputs_of, reference
from tests.support.vela_operators import KINDS, VELA_CASES, with_shapes

QUICK = (
    "CONV_2D-int16",
    "DEPTHWISE_CONV_2D-int8",
    "MEAN-int8",
    "MIRROR_PAD-int8",
    "ADD-uint8",
    "SOFTMAX-int16",
    "ARG_MAX-int8",
)
UNLIKE_LITERT = {
    "DEPTHWISE_CONV_2D-uint8": "Vela clamps uint8 results in int8 copies when the multiplier is above 1",
    "EXP-int8": "not localised: 9 of 24 values of one case",
    "NEG-int8": "not localised",
    "PRELU-int16": "LiteRT's reference result is not slope times input",
    "SUM-int8": "not localised",
    "SUM-uint8": "not localised",
    "SUM-int16": "not localised",
    "SUM-int32": "not localised",
    "TRANSPOSE-uint8": "not localised further than Vela's int8 copies",
}
"""Cases of which some may differ, with the cause as far as it is known; docs/exactness.md lists them."""
NO_REFERENCE = "no reference"
NO_STREAM = "no stream"
"""Vela's file holds a stream that the rules of the hardware exclude."""
INVALID = {"SUM-int16", "SUM-int32"}
"""Cases of which some do: REDUCE_SUM into a map of more than one channel."""


def outcome(name: str, seed: int, target: str) -> Result:
    try:
        model = with_shapes(VELA_CASES[name](np.random.default_rng([seed, 7])))
        inputs = inputs_of(model, seed)
        expected = reference(model, inputs)
    except (RuntimeError, ValueError) as error:
        return Result(NO_REFERENCE, str(error))
    try:
        return compare(model, environment(INSTALLED, Path()), target, [(inputs, expected)])
    except StreamError as error:
        return Result(NO_STREAM, str(error))


@pytest.mark.parametrize("name", QUICK)
def test_an_operator_alone_equals_the_reference(name: str) -> None:
    results = [outcome(name, seed, "ethos-u55-128") for seed in range(3)]
    assert {result.status for result in results} <= {"exact", "cpu"}
    assert Result("exact") in results


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(VELA_CASES))
def test_every_operator_alone_equals_the_reference(name: str) -> None:
    for seed in range(2 * len(TARGETS)):
        result = outcome(name, seed, TARGETS[seed % len(TARGETS)])
        allowed = {"exact", "cpu", "refused", NO_REFERENCE} | ({"differs"} if name in UNLIKE_LITERT else set())
        allowed |= {NO_STREAM} if name in INVALID else set()
        assert result.status in allowed, (seed, result)


def test_the_operators_are_those_of_velas_report(tmp_path: Path) -> None:
    vela = Path(sys.executable).with_name("vela")
    subprocess.run(
        [str(vela), "--supported-ops-report", "--output-dir", str(tmp_path)], capture_output=True, check=True, cwd=tmp_path
    )
    text = (tmp_path / "SUPPORTED_OPS.md").read_text()
    section = text[: text.index("## Ethos-U85")] if "## Ethos-U85" in text else text
    listed = dict.fromkeys(re.findall(r"^\| ([A-Z0-9_]+) \|", section, re.MULTILINE))
    assert set(KINDS) <= set(listed)
    assert {name.split("-")[0] for name in VELA_CASES} >= set(KINDS) - {"UNIDIRECTIONAL_SEQUENCE_LSTM"}
