"""What Vela 5.2 compiles for Ethos-U85 gives LiteRT's reference results: every operator that it places, alone and in networks.

Known exceptions are what Vela's streams say, each with its reason. On Ethos-U85 they are fewer than on Ethos-U55
(`tests.naive.vela_arithmetic.FORMULAS`).
"""

from __future__ import annotations

import numpy as np
import pytest

from npu.api import disassemble, verify
from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Model
from npu.tflite.reader import read_model
from npu.toolchain.listing import assemble

from tests.naive.vela_arithmetic import reduced_axes
from tests.sim.functional.test_vela_operators import NO_MODEL, built, expected_outputs, outcome
from tests.support import operator_cases as base
from tests.support.compatibility import Array, reference, simulate
from tests.support.litert import random_inputs, run_reference
from tests.support.operator_sketches import OPERATORS, sketch
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import CPU_ONLY, VELA_CASES, with_shapes

SIZES = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
AS_LITERT = {"DEPTHWISE_CONV_2D-uint8", "MUL-int32", "TRANSPOSE-uint8"}
"""Streams for Ethos-U55 mean something else than LiteRT's kernel, those for Ethos-U85 do not."""
WITHOUT_REFERENCE = {
    "BATCH_MATMUL-uint8": "LiteRT refuses it",
    "QUANTIZE-int8-int32": "LiteRT refuses it",
    "QUANTIZE-uint8-int32": "LiteRT refuses it",
    "QUANTIZE-int16-int32": "LiteRT refuses it",
    "SQUARED_DIFFERENCE-int16": "LiteRT refuses it, and the twin knows Ethos-U55 alone",
    "SQUARED_DIFFERENCE-int32": "Vela 5.2 ends without a file",
    "UNIDIRECTIONAL_SEQUENCE_LSTM-int16": "LiteRT refuses it, and the formula is of the tables for Ethos-U55",
}
FIRST_ROW = {"REDUCE_MAX-int32", "REDUCE_MIN-int32", "REDUCE_ANY-bool", "REDUCE_ALL-bool", "SUM-int8", "SUM-uint8"}
"""Vela 5.2 reduces the first row alone where axes are left out of the output behind one that stays."""
COMPARED = sorted(set(VELA_CASES) - NO_MODEL - CPU_ONLY - set(WITHOUT_REFERENCE))
QUICK = 6
"""Every so many of the operators are in every run."""
ONLY_HERE = tuple(
    f"{kind}-{element}"
    for kinds, elements in (
        (("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), ("int8", "uint8", "int32")),
        (("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "REDUCE_ANY", "REDUCE_ALL"), ("bool",)),
        (("SELECT", "SELECT_V2"), ("int8", "int32")),
    )
    for kind in kinds
    for element in elements
)
"""Operators that Vela places on Ethos-U85 alone."""


def loses_rows(name: str, model: Model) -> bool:
    """Whether Vela's stream leaves values out."""
    graph = model.graphs[0]
    op, ifm = graph.ops[0], graph.tensors[graph.ops[0].inputs[0]]
    if name.startswith("SELECT-"):
        return len(ifm.shape) == 1  # a condition for each row, taken for one of each channel
    if name not in FIRST_ROW or op.attributes.keep_dims:
        return False
    gone = reduced_axes(model)
    return any(axis not in gone for axis in range(max(gone)))


def expected(name: str, model: bytes, inputs: list[Array], compiled: bytes, target: str) -> list[Array]:
    if name in AS_LITERT or name not in VELA_CASES:
        return reference(model, inputs)
    return expected_outputs(name, model, inputs, compiled, target)


def compared(name: str, model: bytes, inputs: list[Array], target: str) -> str:
    """The outcome of one case, "known" where values are missing."""
    return "known" if loses_rows(name, read_model(model)) else outcome(name, model, inputs, target, expected)


@pytest.mark.parametrize("name", COMPARED[::QUICK])
def test_an_operator_alone_equals_the_reference(name: str) -> None:
    assert {compared(name, *built(name, seed), SIZES[seed]) for seed in range(2)} & {"npu", "cpu", "known"}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPARED)
def test_every_operator_alone_equals_the_reference(name: str) -> None:
    assert "npu" in [compared(name, *built(name, seed), SIZES[seed % len(SIZES)]) for seed in range(15)]


@pytest.mark.parametrize("name", ONLY_HERE)
def test_operators_that_no_other_family_has_equal_the_reference(name: str) -> None:
    results = []
    for seed in range(4):
        model = with_shapes(base.CASES[name](np.random.default_rng([seed, 7])))
        results.append(compared(name, model, random_inputs(model, seed), SIZES[seed]))
    assert "npu" in results


@pytest.mark.parametrize("name", [*COMPARED[::12], *ONLY_HERE[::6]])
def test_the_file_of_an_operator_has_no_findings_and_comes_back_from_its_listing(name: str) -> None:
    model = with_shapes((VELA_CASES | base.CASES)[name](np.random.default_rng([3, 7])))
    compiled = compile_forked(model, SIZES[len(name) % len(SIZES)])
    if is_compiled(read_model(compiled)):
        assert {finding.rule for _, finding in verify(compiled)} <= {"UNDOCUMENTED"}
        assert assemble(disassemble(compiled), compiled) == compiled


UNLIKE = {"SUM", "LSTM", "channels and positions", "STRIDED_SLICE", "RESIZE"}
"""Networks whose streams mean something else for Ethos-U55, too; of RESIZE those for Ethos-U85 alone, which place nearest
neighbours half an element away."""
KINDS = [number for number, kind in enumerate(OPERATORS) if not any(part in kind for part in UNLIKE)]


def assert_network_is_exact(seed: int) -> None:
    made = sketch(seed)
    inputs, target = random_inputs(made.content, seed), SIZES[seed % len(SIZES)]
    compiled = compile_forked(made.content, target)
    for ours, theirs in zip(
        simulate(compiled, inputs), run_reference(made.content, inputs, fully_connected="npu"), strict=True
    ):
        np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs, f"{made.name} on {target}")


@pytest.mark.parametrize("kind", KINDS[::3])
def test_a_network_is_exact(kind: int) -> None:
    assert_network_is_exact(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_networks_are_exact(kind: int) -> None:
    for number in range(1, 12):
        assert_network_is_exact(kind + number * len(OPERATORS))
