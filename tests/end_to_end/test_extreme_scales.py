"""Scales that no converter writes: where LiteRT shifts or multiplies beyond 32 bits, results are what the numbers stand for.

The rows of docs/exactness.md that say "clamped" and "saturates", on the CPU kernels and on the NPU.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import npu
from constraints.checker import check
from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model

from tests.support.interpreters import run
from tests.support.litert import run_reference
from tests.support.operator_cases import I8, I16, In, model
from tests.support.vela import compile_with_vela

BYTES = np.array([-128, -5, -1, 0, 1, 5, 127], np.int8)
WORDS = np.array([-32768, -300, -1, 0, 1, 300, 32767], np.int16)
TINY, HUGE = 2.0**-40, 2.0**40
FRACTION = {"LOGISTIC": In((7,), I8, 1 / 256, -128), "TANH": In((7,), I8, 1 / 128)}
PLAIN = FusedActivation.NONE


def function(kind: str, scale: float) -> tuple[bytes, list[np.ndarray]]:
    return model(kind, [In((7,), I8, scale)], [FRACTION.get(kind, In((7,), I8, 0.5))]), [BYTES]


def wide(kind: str, scale: float) -> tuple[bytes, list[np.ndarray]]:
    return model(kind, [In((7,), I16, scale)], [In((7,), I16, 2.0**-15)]), [WORDS]


def doubled(scale: float) -> tuple[bytes, list[np.ndarray]]:
    operand = In((7,), I8, scale)
    return model("ADD", [operand, operand], [operand], at.AddOptions(PLAIN, False)), [BYTES, BYTES]


def squared(scale: float) -> tuple[bytes, list[np.ndarray]]:
    operand = In((7,), I8, scale)
    return model("MUL", [operand, In((7,), I8, 1.0)], [operand], at.MulOptions(PLAIN)), [BYTES, BYTES]


CASES: dict[str, tuple[tuple[bytes, list[np.ndarray]], list[int]]] = {
    "logistic of hardly anything": (function("LOGISTIC", TINY), [0] * 7),
    "logistic of huge numbers": (function("LOGISTIC", HUGE), [-128] * 3 + [0] + [127] * 3),
    "tanh of hardly anything": (function("TANH", TINY), [0] * 7),
    "tanh of huge numbers": (function("TANH", HUGE), [-128] * 3 + [0] + [127] * 3),
    "exp of hardly anything": (function("EXP", TINY), [2] * 7),
    "exp of huge numbers": (function("EXP", HUGE), [0] * 3 + [2] + [127] * 3),
    "wide logistic of hardly anything": (wide("LOGISTIC", TINY), [16384] * 7),
    "wide logistic beyond 32 bits": (wide("LOGISTIC", 5.5), [1, 1, 133, 16384, 32635, 32767, 32767]),
    "wide logistic of huge numbers": (wide("LOGISTIC", HUGE), [1] * 3 + [16384] + [32767] * 3),
    "wide tanh of hardly anything": (wide("TANH", TINY), [0] * 7),
    "wide tanh beyond 32 bits": (wide("TANH", 5.5), [-32767] * 3 + [0] + [32767] * 3),
    "wide tanh of huge numbers": (wide("TANH", HUGE), [-32767] * 3 + [0] + [32767] * 3),
    "sum of hardly anything": (doubled(TINY), [-128, -10, -2, 0, 2, 10, 127]),
    "sum of huge numbers": (doubled(HUGE), [-128, -10, -2, 0, 2, 10, 127]),
    "product of hardly anything": (squared(TINY), [127, 25, 1, 0, 1, 25, 127]),
    "product of huge numbers": (squared(HUGE), [127, 25, 1, 0, 1, 25, 127]),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_what_the_numbers_stand_for_on_cpu_and_npu(case: str) -> None:
    (content, inputs), expected = CASES[case]
    assert run(CpuInterpreter(model_content=content), inputs)[0].tolist() == expected
    compiled = npu.compile(content)
    assert npu.verify(compiled.content) == []
    assert npu.run(compiled.content, inputs).outputs[0].tolist() == expected


def test_words_without_scales_are_added_as_they_are() -> None:
    operand = In((7,), I16)
    content, inputs = model("ADD", [operand, operand], [operand], at.AddOptions(PLAIN, False)), [WORDS, WORDS]
    (expected,) = run_reference(content, inputs)
    assert expected.tolist() == [0, -600, -2, 0, 2, 600, -2]
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), inputs)[0], expected)
    np.testing.assert_array_equal(npu.run(npu.compile(content).content, inputs).outputs[0], expected)


SCALES = list(itertools.product([None, 0.5], repeat=3))[1:-1]
WORD_OPERATORS = {"ADD": at.AddOptions(PLAIN, False), "SUB": at.SubOptions(PLAIN, False), "MUL": at.MulOptions(PLAIN)}


@pytest.mark.parametrize("kind", WORD_OPERATORS)
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_words_of_which_some_have_a_scale_are_refused(kind: str, scales: tuple[float | None, ...]) -> None:
    """LiteRT divides by the missing scale, or multiplies with 0."""
    first, second, out = (In((7,), I16) if scale is None else In((7,), I16, scale) for scale in scales)
    content = model(kind, [first, second], [out], WORD_OPERATORS[kind])
    with pytest.raises(InterpreterError, match="must have positive quantization scales, got none"):
        CpuInterpreter(model_content=content).allocate_tensors()
    assert check(read_model(content)).ops[0].violations


@pytest.mark.parametrize("ratio", [2.13, 64.0])
def test_products_of_words_times_a_ratio_above_1_are_clamped_where_litert_loses_the_high_bits(ratio: float) -> None:
    operand = In((7,), I16, 1.0)
    content = model("MUL", [operand, operand], [In((7,), I16, 1 / ratio)], at.MulOptions(PLAIN))
    inputs = [WORDS, np.array([-32768, 3, 5, 7, 9, 11, 32767], np.int16)]
    products = np.prod(np.array(inputs, np.float64), axis=0)
    expected = np.clip(np.floor(products * np.float64(np.float32(ratio)) + 0.5), -32768, 32767)
    for compiled in (npu.compile(content).content, compile_with_vela(content, "ethos-u55-128")):
        np.testing.assert_array_equal(npu.run(compiled, inputs).outputs[0], expected)
    (reference,) = run_reference(content, inputs)
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), inputs)[0], reference)
    assert reference.tolist()[1:6] == expected.tolist()[1:6]
    assert reference.tolist()[0] != 32767


def test_a_product_that_is_shifted_beyond_its_bits_is_refused() -> None:
    operand = In((7,), I8, 0.5)
    content = model("MUL", [operand, operand], [In((7,), I8, TINY)], at.MulOptions(PLAIN))
    with pytest.raises(InterpreterError, match=r"mul \(op 0 of subgraph 0\): scales: their ratio must be below 2\*\*31"):
        CpuInterpreter(model_content=content).allocate_tensors()
