"""What Vela's older core gets wrong: the stream does what its mechanism says, bit for bit, and that is not what LiteRT does.

The installed Vela has that core as an option; files of 3.12 and 4.2 are stored for what only these versions do.
"""

from __future__ import annotations

import numpy as np
import pytest

from npu.tflite.reader import read_model

from tests.support.compatibility import difference, simulate
from tests.support.litert import random_inputs, run_reference
from tests.support.older_vela import FAULTS, Fault
from tests.support.shared import ROOT
from tests.support.vela_fork import compile_forked
from tests.support.vela_streams import PYTHON_CORE


def compiled_by_the_older_core(fault: Fault) -> bytes:
    if fault.stored:
        return (ROOT / "tests" / "golden" / f"{fault.stored}.tflite").read_bytes()
    return compile_forked(fault.model, "ethos-u55-128", PYTHON_CORE)


@pytest.mark.parametrize("name", FAULTS)
def test_the_stream_of_the_older_core_is_what_its_mechanism_says(name: str) -> None:
    fault = FAULTS[name]
    compiled = compiled_by_the_older_core(fault)
    assert [op.name for op in read_model(compiled).graphs[0].ops] == ["ethos-u"]
    for seed in range(4):
        inputs = random_inputs(fault.model, seed)
        expected = fault.formula(*inputs)
        found = simulate(compiled, inputs)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert difference(expected, run_reference(fault.model, inputs)) != "", "the formula must be a fault"


@pytest.mark.parametrize("name", FAULTS)
def test_the_newer_core_is_right(name: str) -> None:
    fault = FAULTS[name]
    compiled = compile_forked(fault.model, "ethos-u55-128")
    inputs = random_inputs(fault.model, 1)
    assert difference(simulate(compiled, inputs), run_reference(fault.model, inputs)) == ""
