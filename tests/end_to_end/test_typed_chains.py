"""Chains of functions, uint8 graphs and int8 graphs with uint8 ends are exact on every target, and all on the NPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npu
from npu.compiler.targets import compiler_targets
from npu.graph.graph import Graph, Model
from npu.graph.placement import Device
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, run_reference
from tests.support.typed_chains import as_uint8, function_chains, with_uint8_ends

TARGETS = compiler_targets()
FORMS: dict[str, Callable[[Graph], Graph]] = {
    "int8": lambda graph: graph,
    "uint8": as_uint8,
    "int8 with uint8 ends": with_uint8_ends,
}


def check(form: str, count: int, seed: int) -> None:
    for number, case in enumerate(function_chains(count, seed, is_unsigned=form == "uint8")):
        content = write_model(Model((FORMS[form](case.graph),)))
        compiled = npu.compile(content, target=TARGETS[number % len(TARGETS)])
        assert [op.kind for op in compiled.compiled_model.placement.ops if op.device is not Device.NPU] == [], case.name
        inputs = random_inputs(content, number)
        expected = run_reference(content, inputs, fully_connected="npu")
        for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{case.name} {form}")


@pytest.mark.parametrize("form", FORMS)
def test_random_chains_of_functions_are_exact(form: str) -> None:
    check(form, 12, 5)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_many_random_chains_of_functions_are_exact(form: str) -> None:
    check(form, 300, 6)
